//! Lines out of a stream of bytes. Rules W1, W3 and W5: a line ends with LF; trailing CRs, blank lines and a UTF-8 BOM
//! before the first line are dropped in silence; a last line without LF is taken at the end of the stream; a line over
//! the limit ends the connection.
//!
//! What a read brought is cut into lines at once, the lines are handed out one by one later, and nothing is read while
//! lines are left. So a queue that fills up (F1) stops in the middle of a buffer without losing its place. A line's end is
//! overwritten with a NUL, for hosts that treat the payload as a C string. Part of a line at the end of a buffer is
//! carried to the next one, and the search for its end goes on where it stopped.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::batch::Batch;
use super::chunk::{Chunk, Pool, READ_BYTES};
use super::queue::SMALL;
use crate::scan::{self, LineSearch, Seen};

/// Least room offered to a read, so that a line that crosses buffers is not fetched in crumbs.
const LEAST_ROOM: usize = 16 << 10;

/// From so many bytes on a line is long.
const LONG: usize = READ_BYTES / 2;

/// The same in a long line: what a pipe holds is to be had with one read.
const LEAST_ROOM_IN_LONG: usize = READ_BYTES;

/// The longest line that is expected to be followed by another one of its length.
const MOST_EXPECTED: usize = 4 << 20;

/// Lines that have no more bytes together do not keep the buffer that they were read into.
const SMALL_LINES_BYTES: usize = 8 << 10;

/// The longest part of a line that is kept by itself; copying a longer one to and fro would cost more than it saves.
const PARKED_BYTES: usize = 16 << 10;

/// One line, without its end, inside the buffer it arrived in.
#[derive(Debug, Clone)]
pub struct Frame {
    chunk: Rc<Chunk>,
    line: Line,
}

/// A line inside a buffer, and what was seen of its bytes on the way to its end.
#[derive(Debug, Clone, Copy)]
struct Line {
    start: u32,
    end: u32,
    seen: Seen,
}

impl Frame {
    /// A line that no server wrote. It counts in nobody's measure.
    pub fn made(mut line: Vec<u8>) -> Self {
        let end = line.len() as u32;
        line.push(0);
        Self {
            chunk: Chunk::freeze(line, &Pool::new(), &Rc::default()),
            line: Line { start: 0, end, seen: Seen::NOTHING },
        }
    }

    /// The bytes of the line.
    pub fn bytes(&self) -> &[u8] {
        &self.chunk.bytes()[self.line.start as usize..self.line.end as usize]
    }

    /// What was seen of them on the way to the line's end.
    pub fn seen(&self) -> Seen {
        self.line.seen
    }

    /// The bytes of the line and the NUL behind them.
    pub fn with_nul(&self) -> &[u8] {
        &self.chunk.bytes()[self.line.start as usize..=self.line.end as usize]
    }
}

/// The line over the limit that ended a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a line of more than {limit} bytes")]
pub struct TooLong {
    /// The limit that was passed.
    pub limit: usize,
}

/// Cuts one stream into lines.
#[derive(Debug)]
pub struct Framer {
    pool: Rc<Pool>,
    pinned: Rc<Cell<usize>>,
    limit: usize,
    /// The length of the last long line: servers with one large answer have more of them.
    expected: usize,
    /// The buffer that is being filled; its bytes up to `filled` are a line that has not ended.
    open: Option<Vec<u8>>,
    filled: usize,
    /// The unended line instead of `open`, while nothing more is there to be read: it keeps only its bytes.
    parked: Vec<u8>,
    /// The search for the end of that line.
    search: LineSearch,
    /// The last buffer in which lines ended, while some of them were not handed out.
    chunk: Option<Rc<Chunk>>,
    lines: VecDeque<Line>,
    /// An array whose elements are handed out before the next line; stays, without it, until the line after its last element.
    batch: Option<Option<Box<Batch>>>,
    before_first_line: bool,
    too_long: bool,
    ending: bool,
}

impl Framer {
    /// A framer for one connection. `pinned` measures what its lines hold.
    pub fn new(pool: Rc<Pool>, pinned: Rc<Cell<usize>>, limit: usize) -> Self {
        Self {
            pool,
            pinned,
            limit,
            expected: 0,
            open: None,
            filled: 0,
            parked: Vec::new(),
            search: LineSearch::default(),
            chunk: None,
            lines: VecDeque::new(),
            batch: None,
            before_first_line: true,
            too_long: false,
            ending: false,
        }
    }

    /// Room for the next read. Call it only when no line is left (`has_line`).
    pub fn room(&mut self) -> &mut [u8] {
        debug_assert!(self.lines.is_empty());
        self.unpark();
        let pool = &self.pool;
        let open = self.open.get_or_insert_with(|| pool.take(READ_BYTES));
        let is_long = self.filled >= LONG;
        if open.len() - self.filled < if is_long { LEAST_ROOM_IN_LONG } else { LEAST_ROOM } {
            // One byte past the limit tells a line that is too long from one that just fits; one more is for its NUL.
            let largest = self.limit.saturating_add(2).max(READ_BYTES);
            let expected = if is_long { self.expected + LEAST_ROOM_IN_LONG } else { 0 };
            let wanted = (open.len() * 2).max(expected).min(largest).max(self.filled + 2);
            if wanted > open.len() {
                match self.pool.take_spare(wanted).filter(|spare| spare.len() <= largest) {
                    Some(mut larger) => {
                        larger[..self.filled].copy_from_slice(&open[..self.filled]);
                        self.pool.give(std::mem::replace(open, larger));
                    }
                    None => {
                        // In place where the allocator can: two copies of a large line are more than the limit allows (W3).
                        open.reserve_exact(wanted - open.len());
                        open.resize(wanted, 0);
                    }
                }
            }
        }
        // The last byte is kept back: at the end of the stream an unended line needs it for its NUL.
        let end = open.len() - 1;
        &mut open[self.filled..end]
    }

    /// `count` bytes were read into the room.
    pub fn filled(&mut self, count: usize) {
        self.filled += count;
        // A read that did not fill its room has emptied the pipe: what is left of a line may have to wait for long.
        let emptied = self.open.as_ref().is_some_and(|open| self.filled < open.len() - 1);
        self.cut();
        if self.filled == 0 {
            self.release();
        } else if emptied && self.filled <= PARKED_BYTES {
            self.park();
        }
    }

    /// Keeps only the bytes of the unended line.
    fn park(&mut self) {
        if let Some(open) = self.open.take() {
            self.parked = open[..self.filled].to_vec();
            self.pool.give(open);
        }
    }

    /// Brings the unended line back to the front of a buffer.
    fn unpark(&mut self) {
        if !self.parked.is_empty() {
            let mut open = self.pool.take(READ_BYTES);
            open[..self.parked.len()].copy_from_slice(&self.parked);
            self.open = Some(open);
            self.parked = Vec::new();
        }
    }

    /// The stream ended, or is given up: what is left of an unended line is its last line.
    pub fn end(&mut self) {
        self.ending = true;
        self.end_part();
    }

    /// Makes a line of the unended one, once the lines before it are handed out: they lie in another buffer.
    fn end_part(&mut self) {
        if !self.ending || !self.lines.is_empty() {
            return;
        }
        self.unpark();
        let left = std::mem::take(&mut self.filled);
        if left > 0
            && !self.too_long
            && let Some(buffer) = self.open.take()
        {
            self.note_line(&buffer, 0, left, self.search.seen());
            self.freeze(buffer);
        }
        self.release();
    }

    /// Whether a line waits to be handed out.
    pub fn has_line(&self) -> bool {
        !self.lines.is_empty() || matches!(self.batch, Some(Some(_)))
    }

    /// Hands the elements of an array out like lines, next. An array in an array is none: it could hold itself a million times.
    pub fn unpack(&mut self, array: Frame) -> Result<(), &'static str> {
        if self.batch.is_some() {
            return Err("a batch array inside a batch array");
        }
        self.batch = Some(Some(Box::new(Batch::of(array).ok_or("an empty batch array")?)));
        Ok(())
    }

    fn next_element(&mut self) -> Option<Frame> {
        let batch = self.batch.as_mut()?;
        let (element, more) = batch.as_deref_mut()?.next_element();
        let mut bytes = element.to_vec();
        let end = bytes.len() as u32;
        bytes.push(0);
        if !more {
            *batch = None;
        }
        let chunk = Chunk::freeze(bytes, &self.pool, &self.pinned);
        Some(Frame { chunk, line: Line { start: 0, end, seen: Seen::NOTHING } })
    }

    /// Whether traffic has left more room here than one without traffic needs.
    pub fn is_bulky(&self) -> bool {
        self.lines.capacity() > SMALL
    }

    /// Lets go of that room, if nothing is in it.
    pub fn trim(&mut self) {
        if self.lines.is_empty() {
            self.lines = VecDeque::new();
        }
    }

    /// The next line.
    pub fn next_line(&mut self) -> Option<Frame> {
        if self.batch.is_some() {
            if let Some(element) = self.next_element() {
                return Some(element);
            }
            self.batch = None;
        }
        let line = self.lines.pop_front()?;
        let chunk = if self.lines.is_empty() { self.chunk.take() } else { self.chunk.clone() };
        self.end_part();
        chunk.map(|chunk| Frame { chunk, line })
    }

    /// The line over the limit that ended this stream, once all lines before it are handed out.
    pub fn too_long(&self) -> Option<TooLong> {
        (self.too_long && !self.has_line()).then_some(TooLong { limit: self.limit })
    }

    /// Cuts what is filled into lines, and starts a fresh buffer with the rest if any line ended.
    fn cut(&mut self) {
        let Some(mut buffer) = self.open.take() else {
            return;
        };
        let mut start = 0;
        while let Some(length) = self.search.go_on(&buffer[start..self.filled]) {
            if length > self.limit {
                self.too_long = true;
                break;
            }
            let seen = std::mem::take(&mut self.search).seen();
            self.note_line(&buffer, start, start + length, seen);
            start += length + 1;
        }
        if !self.too_long && self.filled - start > self.limit {
            self.too_long = true;
        }
        let rest = start..self.filled;
        self.filled = if self.too_long { 0 } else { rest.len() };
        if self.lines.is_empty() {
            // Nothing but blank lines ended here, if anything did: the buffer has no other user.
            buffer.copy_within(rest.start..rest.start + self.filled, 0);
            self.open = Some(buffer);
            return;
        }
        if self.filled > 0 {
            let mut next = self.pool.take(READ_BYTES.max(self.filled + LEAST_ROOM));
            next[..self.filled].copy_from_slice(&buffer[rest]);
            self.open = Some(next);
        }
        self.freeze(buffer);
    }

    /// Writes the line from `start` to its LF at `end` down, unless it is blank.
    #[inline]
    fn note_line(&mut self, buffer: &[u8], mut start: usize, mut end: usize, mut seen: Seen) {
        const BOM: &[u8] = b"\xEF\xBB\xBF";
        if std::mem::take(&mut self.before_first_line) && buffer[start..end].starts_with(BOM) {
            start += BOM.len();
            // The offsets are those of the line with it.
            seen = Seen::NOTHING;
        }
        while end > start && buffer[end - 1] == b'\r' {
            end -= 1;
        }
        if end - start >= LONG {
            self.expected = (end - start).min(MOST_EXPECTED);
        }
        if !scan::is_blank(&buffer[start..end]) {
            self.lines.push_back(Line { start: start as u32, end: end as u32, seen });
        }
    }

    /// Makes the lines that ended in `buffer` ready to be handed out. A few small ones get a buffer of their own size: they may
    /// wait for long, and a thousand peers with one line each must not hold a thousand read buffers. Nor does what fits an ordinary
    /// buffer hold a large one, which was taken because a larger line was expected.
    fn freeze(&mut self, mut buffer: Vec<u8>) {
        for line in &self.lines {
            buffer[line.end as usize] = 0;
        }
        let Some(used) = self.lines.back().map(|last| last.end as usize + 1) else {
            return self.pool.give(buffer);
        };
        if used <= SMALL_LINES_BYTES {
            let small = buffer[..used].to_vec();
            self.pool.give(std::mem::replace(&mut buffer, small));
        } else if used <= READ_BYTES && buffer.len() > 2 * READ_BYTES {
            let mut ordinary = self.pool.take(READ_BYTES);
            ordinary[..used].copy_from_slice(&buffer[..used]);
            self.pool.give(std::mem::replace(&mut buffer, ordinary));
        }
        self.chunk = Some(Chunk::freeze(buffer, &self.pool, &self.pinned));
    }

    /// Gives the open buffer back: nothing of a line is in it.
    fn release(&mut self) {
        self.filled = 0;
        self.search = LineSearch::default();
        if let Some(buffer) = self.open.take() {
            self.pool.give(buffer);
        }
    }
}

#[cfg(test)]
#[path = "framing_tests.rs"]
mod tests;
