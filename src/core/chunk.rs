//! Buffers for what servers write. A buffer is filled by reads, then frozen into a `Chunk` that all messages found in it
//! share; when the last of them is gone its memory goes back to the pool, still warm. An idle peer holds no buffer.
//!
//! Single-threaded sharing (`Rc`) is enough: a handle is used by one thread at a time, and everything that shares a
//! chunk lives inside that handle.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Size of an ordinary read buffer: what one pipe holds, and a little more, so that one read empties a full pipe and has room
/// for the NUL behind a last line.
pub const READ_BYTES: usize = (64 << 10) + 64;
/// Warm ordinary buffers that are kept.
const KEEP: usize = 8;
/// Bytes of warm larger buffers that are kept: enough for several large answers under way.
const KEEP_LARGE: usize = 8 << 20;

/// Spare buffers of one handle. Ordinary and larger ones are kept apart: a small line must not hold a large buffer, which would
/// count in full against the limit of its peer (F1).
#[derive(Debug, Default)]
pub struct Pool {
    ordinary: RefCell<Vec<Vec<u8>>>,
    large: RefCell<Vec<Vec<u8>>>,
}

impl Pool {
    /// An empty pool.
    pub fn new() -> Rc<Self> {
        Rc::new(Self::default())
    }

    /// A buffer of at least `bytes`, every byte of it initialised; what it holds is left over from earlier use.
    pub fn take(&self, bytes: usize) -> Vec<u8> {
        if bytes <= READ_BYTES {
            return self.ordinary.borrow_mut().pop().unwrap_or_else(|| vec![0; READ_BYTES]);
        }
        self.take_spare(bytes).unwrap_or_else(|| vec![0; bytes])
    }

    /// A larger buffer that is there already, if one is large enough. Of several alike the one that was given back last: it may
    /// still be in the processor's cache.
    pub fn take_spare(&self, bytes: usize) -> Option<Vec<u8>> {
        let mut large = self.large.borrow_mut();
        let fits = large.iter().enumerate().rev().filter(|(_, buffer)| buffer.len() >= bytes);
        let at = fits.min_by_key(|(_, buffer)| buffer.len())?.0;
        Some(large.remove(at))
    }

    /// Takes a buffer back.
    pub fn give(&self, buffer: Vec<u8>) {
        if buffer.len() == READ_BYTES {
            let mut ordinary = self.ordinary.borrow_mut();
            if ordinary.len() < KEEP {
                ordinary.push(buffer);
            }
        } else if buffer.len() > READ_BYTES {
            let mut large = self.large.borrow_mut();
            let kept: usize = large.iter().map(Vec::len).sum();
            if kept + buffer.len() <= KEEP_LARGE {
                large.push(buffer);
            }
        }
    }

    /// Whether more is kept than a handle without traffic should hold.
    pub fn is_bulky(&self) -> bool {
        self.ordinary.borrow().len() > 1 || !self.large.borrow().is_empty()
    }

    /// Lets go of all buffers but one ordinary one: nothing was read for a while.
    pub fn trim(&self) {
        *self.large.borrow_mut() = Vec::new();
        let mut ordinary = self.ordinary.borrow_mut();
        ordinary.truncate(1);
        ordinary.shrink_to_fit();
    }
}

/// Bytes that no longer change, shared by the messages that lie in them.
#[derive(Debug)]
pub struct Chunk {
    bytes: Vec<u8>,
    pool: Rc<Pool>,
    pinned: Rc<Cell<usize>>,
}

impl Chunk {
    /// Freezes `bytes`. Until the chunk is dropped its size counts in `pinned`, the peer's measure of rule F1.
    pub fn freeze(bytes: Vec<u8>, pool: &Rc<Pool>, pinned: &Rc<Cell<usize>>) -> Rc<Self> {
        pinned.set(pinned.get() + bytes.len());
        Rc::new(Self { bytes, pool: Rc::clone(pool), pinned: Rc::clone(pinned) })
    }

    /// All bytes of the buffer.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.pinned.set(self.pinned.get() - self.bytes.len());
        self.pool.give(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f01_a_frozen_buffer_counts_until_its_last_user_is_gone_and_comes_back_warm() {
        let pool = Pool::new();
        let pinned = Rc::new(Cell::new(0));
        let mut buffer = pool.take(READ_BYTES);
        buffer[0] = 7;
        let chunk = Chunk::freeze(buffer, &pool, &pinned);
        let other = Rc::clone(&chunk);
        assert_eq!(pinned.get(), READ_BYTES);
        drop(chunk);
        assert_eq!(pinned.get(), READ_BYTES);
        drop(other);
        assert_eq!(pinned.get(), 0);
        assert_eq!(pool.take(READ_BYTES)[0], 7);
    }

    #[test]
    fn trimming_keeps_one_ordinary_buffer() {
        let pool = Pool::new();
        for bytes in [READ_BYTES, READ_BYTES, 1 << 20, 9 << 20] {
            pool.give(vec![0; bytes]);
        }
        assert_eq!(pool.large.borrow().len(), 1, "9 MiB are not kept");
        assert!(pool.is_bulky());
        pool.trim();
        assert!(!pool.is_bulky());
        assert_eq!((pool.ordinary.borrow().len(), pool.large.borrow().len()), (1, 0));
        assert_eq!(pool.take(1).len(), READ_BYTES);
    }

    #[test]
    fn f01_a_small_need_never_takes_a_large_buffer_and_a_large_one_takes_the_best_fit() {
        let pool = Pool::new();
        for bytes in [4 << 20, 1 << 20, 2 << 20] {
            pool.give(vec![0; bytes]);
        }
        assert_eq!(pool.take(2).len(), READ_BYTES);
        assert_eq!(pool.take(READ_BYTES + 1).len(), 1 << 20);
        assert_eq!(pool.take(READ_BYTES + 1).len(), 2 << 20);
        assert_eq!(pool.take(5 << 20).len(), 5 << 20);
    }
}
