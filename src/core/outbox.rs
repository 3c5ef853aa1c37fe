//! Bytes on their way to a server: bounded, written in the order they came, never sent to anybody else (F4, W5). It also
//! knows where each numbered line began, so that after a death it can be said which of them the server cannot have read
//! (R11, L19).

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;

use super::queue::SMALL;

/// Small lines share a segment up to this size, so that they leave in few slices.
const SEGMENT: usize = 64 << 10;
/// A buffer of so many bytes or fewer is not worth being given back.
const SMALL_BYTES: usize = 1 << 10;
/// Slices of one write. More would not fit a pipe anyway.
const SLICES: usize = 16;

/// What waits to be written to one connection.
#[derive(Debug)]
pub struct Outbox {
    segments: VecDeque<Vec<u8>>,
    /// A segment that was written, kept for its memory.
    spare: Vec<u8>,
    /// Bytes of the first segment that are written already.
    head: usize,
    queued: usize,
    /// Bytes the pipe has taken since the connection began.
    written: u64,
    /// Number and offset of each line that may lie unread; older ones are forgotten as they become certainly read.
    lines: VecDeque<(u64, u64)>,
    /// What the pipe holds at most: a byte further back than this was read.
    pipe_bytes: u64,
}

impl Outbox {
    /// An empty outbox before a pipe of `pipe_bytes`.
    pub fn new(pipe_bytes: usize) -> Self {
        Self {
            segments: VecDeque::new(),
            spare: Vec::new(),
            head: 0,
            queued: 0,
            written: 0,
            lines: VecDeque::new(),
            pipe_bytes: pipe_bytes as u64,
        }
    }

    /// Whether traffic has left more room here than a connection without traffic needs.
    pub fn is_bulky(&self) -> bool {
        self.lines.capacity() > SMALL || self.spare.capacity() > SMALL_BYTES
    }

    /// Lets go of the room that is not used. What may lie unread has to be remembered.
    pub fn trim(&mut self) {
        self.lines.shrink_to_fit();
        self.spare = Vec::new();
    }

    /// Bytes that wait.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Adds a line, LF included, under its number.
    pub fn push(&mut self, number: u64, line: Vec<u8>) {
        self.lines.push_back((number, self.written + self.queued as u64));
        self.queued += line.len();
        match self.segments.back_mut() {
            Some(last) if last.len() + line.len() <= SEGMENT => last.extend_from_slice(&line),
            _ => self.segments.push_back(line),
        }
    }

    /// Adds the line that `build` writes, LF included, under its number, without a buffer of its own. It has about `bytes`.
    /// `judge` is told its length; a line that either of them refuses leaves nothing behind.
    pub fn push_built<E>(
        &mut self,
        number: u64,
        bytes: usize,
        build: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
        judge: impl FnOnce(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let joins = self.segments.back().is_some_and(|last| last.len() + bytes <= SEGMENT);
        if !joins {
            let mut fresh = std::mem::take(&mut self.spare);
            fresh.reserve(bytes);
            self.segments.push_back(fresh);
        }
        let Some(segment) = self.segments.back_mut() else { return Ok(()) };
        let start = segment.len();
        if let Err(refusal) = build(segment).and_then(|()| judge(segment.len() - start)) {
            segment.truncate(start);
            if !joins && let Some(unused) = self.segments.pop_back() {
                self.keep(unused);
            }
            return Err(refusal);
        }
        let len = segment.len() - start;
        self.lines.push_back((number, self.written + self.queued as u64));
        self.queued += len;
        Ok(())
    }

    /// Keeps the memory of a segment for the next one.
    fn keep(&mut self, mut segment: Vec<u8>) {
        if segment.capacity() > self.spare.capacity() && segment.capacity() <= SEGMENT {
            segment.clear();
            self.spare = segment;
        }
    }

    /// The next bytes to write, as slices for one call.
    pub fn slices<'a>(&'a self, out: &mut [IoSlice<'a>; SLICES]) -> usize {
        let mut count = 0;
        for (slot, segment) in out.iter_mut().zip(&self.segments) {
            let from = if count == 0 { self.head } else { 0 };
            *slot = IoSlice::new(&segment[from..]);
            count += 1;
        }
        count
    }

    /// The pipe took `count` bytes.
    pub fn wrote(&mut self, count: usize) {
        self.queued -= count;
        self.written += count as u64;
        self.head += count;
        while let Some(first) = self.segments.front() {
            if self.head < first.len() {
                break;
            }
            self.head -= first.len();
            if let Some(written) = self.segments.pop_front() {
                self.keep(written);
            }
        }
        let surely_read = self.written.saturating_sub(self.pipe_bytes);
        while self.lines.front().is_some_and(|line| line.1 < surely_read) {
            self.lines.pop_front();
        }
    }

    /// Takes a line out again if not a byte of it was written. Says whether it did.
    pub fn take_back(&mut self, number: u64) -> bool {
        let mut numbers = vec![number];
        self.take_back_all(&mut numbers);
        numbers.is_empty()
    }

    /// Takes lines out again of which not a byte was written, and leaves in `numbers`, which is sorted, those of which it did not:
    /// the server may have read them. All in one pass: a server that hangs may have thousands of requests time out together.
    pub fn take_back_all(&mut self, numbers: &mut Vec<u64>) {
        let queued_to = self.written + self.queued as u64;
        // Where the lines stand in the list, and where in the stream.
        let mut gaps: Vec<(usize, Range<u64>)> = Vec::new();
        numbers.retain(|number| {
            let Ok(at) = self.lines.binary_search_by_key(number, |line| line.0) else { return true };
            let start = self.lines[at].1;
            // One behind everything queued was given up before: nothing of it will be written.
            if (self.written..queued_to).contains(&start) {
                gaps.push((at, start..self.lines.get(at + 1).map_or(queued_to, |next| next.1)));
            }
            start < self.written
        });
        let Some(first) = gaps.first().map(|gap| gap.0) else { return };
        // A line lies in one segment, since segments only grow by whole lines.
        let mut start = self.written - self.head as u64;
        let mut rest = gaps.iter().peekable();
        for segment in &mut self.segments {
            let end = start + segment.len() as u64;
            let (mut kept, mut from) = (0, 0);
            while let Some((_, gap)) = rest.next_if(|(_, gap)| gap.start < end) {
                let to = (gap.start - start) as usize;
                segment.copy_within(from..to, kept);
                kept += to - from;
                from = (gap.end - start) as usize;
            }
            if from > 0 {
                segment.copy_within(from.., kept);
                segment.truncate(kept + segment.len() - from);
            }
            start = end;
        }
        self.segments.retain(|segment| !segment.is_empty());
        let mut gone = 0;
        let mut rest = gaps.iter().peekable();
        for (at, (number, offset)) in (first..).zip(self.lines.split_off(first)) {
            match rest.next_if(|gap| gap.0 == at) {
                Some((_, gap)) => gone += gap.end - gap.start,
                None => self.lines.push_back((number, offset - gone)),
            }
        }
        self.queued -= gone as usize;
    }

    /// Drops what was not written; the numbers of its lines are remembered.
    pub fn give_up(&mut self) {
        self.segments = VecDeque::new();
        self.head = 0;
        self.queued = 0;
    }

    /// Whether a whole line lies in the pipe if that holds `unread` bytes: only then is the exact count worth waiting for.
    pub fn may_be_unread(&self, unread: u64) -> bool {
        self.first_unread(Some(unread)) != self.first_unread(None)
    }

    /// The number of the first line of which the server cannot have read a byte. `unread` is what lies in the pipe with no
    /// reader left; without it only what was never written counts.
    pub fn first_unread(&self, unread: Option<u64>) -> Option<u64> {
        let read_to = self.written.saturating_sub(unread.unwrap_or(0));
        self.lines.iter().find(|line| line.1 >= read_to).map(|line| line.0)
    }
}

/// Slices for one write, empty.
pub fn no_slices<'a>() -> [IoSlice<'a>; SLICES] {
    [IoSlice::new(&[]); SLICES]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(outbox: &mut Outbox, most: usize) -> Vec<u8> {
        let mut slices = no_slices();
        let count = outbox.slices(&mut slices);
        let mut all = slices[..count].iter().flat_map(|s| s.to_vec()).collect::<Vec<_>>();
        all.truncate(most);
        outbox.wrote(all.len());
        all
    }

    #[test]
    fn f04_bytes_leave_in_order_whatever_the_pipe_takes() {
        let mut outbox = Outbox::new(1 << 16);
        let mut expected = Vec::new();
        for n in 0..200u64 {
            let line = vec![b'a' + (n % 26) as u8; (n as usize * 37) % 9000 + 1];
            expected.extend_from_slice(&line);
            outbox.push(n + 1, line);
        }
        assert_eq!(outbox.queued(), expected.len());
        let mut got = Vec::new();
        for most in (1..).map(|n| n * 977 % 70_000 + 1) {
            if outbox.queued() == 0 {
                break;
            }
            got.extend(drain(&mut outbox, most));
        }
        assert!(got == expected);
        assert_eq!(drain(&mut outbox, 1), b"");
    }

    #[test]
    fn r02_a_line_that_is_refused_while_it_is_built_leaves_nothing_behind() {
        let mut outbox = Outbox::new(1 << 16);
        let mut expected = Vec::new();
        for n in 1..=2_000_u64 {
            let bytes = (n as usize * 37) % 9_000 + 1;
            let build = |line: &mut Vec<u8>| {
                line.extend(std::iter::repeat_n(b'a' + (n % 26) as u8, bytes));
                if n % 5 == 0 { Err("refused by the builder") } else { Ok(()) }
            };
            // The length may be guessed too small or too large.
            let guess = [0, bytes, 70_000][n as usize % 3];
            let judge = |len| if len % 4 == 0 { Err("refused by the judge") } else { Ok(()) };
            let accepted = outbox.push_built(n, guess, build, judge).is_ok();
            assert_eq!(accepted, !n.is_multiple_of(5) && !bytes.is_multiple_of(4));
            if accepted {
                expected.extend(std::iter::repeat_n(b'a' + (n % 26) as u8, bytes));
            }
            if n % 7 == 0 {
                let got = drain(&mut outbox, 40_000);
                assert!(expected.starts_with(&got));
                expected.drain(..got.len());
            }
            assert_eq!(outbox.queued(), expected.len());
        }
        while outbox.queued() > 0 {
            let got = drain(&mut outbox, usize::MAX);
            assert!(expected.starts_with(&got));
            expected.drain(..got.len());
        }
        assert!(expected.is_empty());
        assert!(outbox.is_bulky());
        outbox.trim();
        assert!(outbox.spare.capacity() == 0);
    }

    #[test]
    fn r11_the_first_unread_line_has_no_byte_read() {
        let mut outbox = Outbox::new(1 << 16);
        for n in 1..=4 {
            outbox.push(n, b"0123456789".to_vec());
        }
        assert_eq!(outbox.first_unread(None), Some(1), "nothing was written");
        drain(&mut outbox, 25);
        assert_eq!(outbox.first_unread(None), Some(4), "part of line 3 was written");
        assert_eq!(outbox.first_unread(Some(4)), Some(4), "byte 21 was read: line 3 may have been begun");
        assert_eq!(outbox.first_unread(Some(5)), Some(3));
        assert_eq!(outbox.first_unread(Some(15)), Some(2));
        assert_eq!(outbox.first_unread(Some(25)), Some(1));
        drain(&mut outbox, 15);
        assert_eq!(outbox.first_unread(None), None);
        assert!(!outbox.may_be_unread(0));
        assert!(!outbox.may_be_unread(9));
        assert!(outbox.may_be_unread(10));
        outbox.push(5, b"x".to_vec());
        outbox.give_up();
        assert!(outbox.take_back(5), "nothing of it will be written");
        assert!(!outbox.may_be_unread(9), "what was never written needs no question");
        assert_eq!(outbox.first_unread(None), Some(5), "a line that was never written stays known");
    }

    #[test]
    fn r03_a_line_that_was_not_begun_can_be_taken_back() {
        let line = |n: u64| vec![b'a' + n as u8; 10 + n as usize];
        for taken in 1..=5 {
            for written in 0..=75 {
                let mut outbox = Outbox::new(1 << 16);
                for n in 1..=5 {
                    outbox.push(n, line(n));
                }
                let all: Vec<u8> = (1..=5).flat_map(line).collect();
                let start: usize = (1..taken).map(|n| line(n).len()).sum();
                let mut got = drain(&mut outbox, written);
                let expected = if written <= start {
                    assert!(outbox.take_back(taken));
                    assert!(!outbox.take_back(taken));
                    (1..=5).filter(|n| *n != taken).flat_map(line).collect()
                } else {
                    assert!(!outbox.take_back(taken), "a byte of it was written");
                    all
                };
                while outbox.queued() > 0 {
                    got.extend(drain(&mut outbox, 7));
                }
                assert_eq!(got, expected, "line {taken} after {written} bytes");
            }
        }
    }

    #[test]
    fn r03_many_lines_are_taken_back_together() {
        let line = |n: u64| vec![b'0' + n as u8; 30_000 + n as usize];
        let all: usize = (1..=6).map(|n| line(n).len()).sum();
        for set in 0..1_u32 << 6 {
            let wanted = |n: u64| set >> (n - 1) & 1 == 1;
            for written in [0, 1, 30_001, 30_002, 70_000, 90_006, all - 1, all] {
                let mut outbox = Outbox::new(1 << 16);
                (1..=6).for_each(|n| outbox.push(n, line(n)));
                let mut got = Vec::new();
                while got.len() < written {
                    let more = drain(&mut outbox, written - got.len());
                    got.extend(more);
                }
                let begun = |n: u64| (1..n).map(|n| line(n).len()).sum::<usize>() < written;
                let mut numbers: Vec<u64> = (1..=6).filter(|n| wanted(*n)).collect();
                outbox.take_back_all(&mut numbers);
                assert!(
                    numbers.iter().all(|n| begun(*n))
                        && (1..=6).all(|n| !wanted(n) || !begun(n) || numbers.contains(&n))
                );
                outbox.push(7, line(7));
                while outbox.queued() > 0 {
                    got.extend(drain(&mut outbox, 7_777));
                }
                let expected: Vec<u64> = (1..=7).filter(|n| begun(*n) || *n == 7 || !wanted(*n)).collect();
                assert!(
                    got == expected.into_iter().flat_map(line).collect::<Vec<u8>>(),
                    "set {set:b} after {written} bytes"
                );
            }
        }
    }

    #[test]
    fn r11_lines_that_were_surely_read_are_forgotten() {
        let mut outbox = Outbox::new(100);
        for n in 1..=10_000 {
            outbox.push(n, b"0123456789".to_vec());
            drain(&mut outbox, 10);
        }
        assert!(outbox.lines.len() <= 11, "{}", outbox.lines.len());
        assert_eq!(outbox.first_unread(Some(100)), Some(9_991));
    }
}
