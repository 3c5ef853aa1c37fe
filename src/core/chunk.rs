//! Buffers for what servers write. A buffer is filled by reads, then frozen into a `Chunk` that all messages found in it
//! share; when the last of them is gone its memory goes back to the pool, still warm. An idle peer holds no buffer.
//!
//! Single-threaded sharing (`Rc`) is enough: a handle is used by one thread at a time, and everything that shares a
//! chunk lives inside that handle.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Size of an ordinary read buffer: one pipe's capacity.
pub const READ_BYTES: usize = 64 << 10;
/// Warm buffers that are kept; what comes back beyond it is given to the allocator.
const KEEP: usize = 8;
/// A buffer larger than this is not kept: one huge answer must not stay resident for good.
const KEEP_BYTES: usize = 4 << 20;

/// Spare buffers of one handle.
#[derive(Debug, Default)]
pub struct Pool {
    spare: RefCell<Vec<Vec<u8>>>,
}

impl Pool {
    /// An empty pool.
    pub fn new() -> Rc<Self> {
        Rc::new(Self::default())
    }

    /// A buffer of at least `bytes`, every byte of it initialised; what it holds is left over from earlier use.
    pub fn take(&self, bytes: usize) -> Vec<u8> {
        let mut spare = self.spare.borrow_mut();
        match spare.iter().rposition(|buffer| buffer.len() >= bytes) {
            Some(at) => spare.swap_remove(at),
            None => {
                drop(spare);
                vec![0; bytes]
            }
        }
    }

    /// Takes a buffer back.
    pub fn give(&self, buffer: Vec<u8>) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < KEEP && (READ_BYTES..=KEEP_BYTES).contains(&buffer.len()) {
            spare.push(buffer);
        }
    }

    /// Lets go of buffers larger than an ordinary one, and of all but one of those: nothing was read for a while.
    pub fn trim(&self) {
        let mut spare = self.spare.borrow_mut();
        spare.retain(|buffer| buffer.len() == READ_BYTES);
        spare.truncate(1);
        spare.shrink_to_fit();
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
        for bytes in [READ_BYTES, READ_BYTES, 1 << 20, 8 << 20] {
            pool.give(vec![0; bytes]);
        }
        assert_eq!(pool.spare.borrow().len(), 3, "8 MiB is not kept");
        pool.trim();
        assert_eq!(pool.spare.borrow().len(), 1);
        assert_eq!(pool.take(1).len(), READ_BYTES);
    }
}
