//! A line: the search for its end, which goes on as bytes arrive, and what that saw of it on the way. Looking at a byte twice costs
//! little while it is in the cache; of a large line the first bytes are not, once the last ones have come.

use std::ops::Deref;

use super::Span;
use super::simd::{Kernel, Native};

/// From so many bytes on a line is large: what of it is plain text is remembered.
const LARGE: usize = 64 << 10;

/// What is known of a line before it is scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// All its bytes are ASCII.
    pub ascii: bool,
    /// A run of bytes among which there is no quote, no backslash and none below 0x20; empty if none is known.
    pub plain: Span,
}

impl Seen {
    /// Nothing.
    pub const NOTHING: Self = Self { ascii: false, plain: Span { start: 0, end: 0 } };
}

/// The search for the end of a line that arrives in pieces.
#[derive(Clone, Copy, Debug)]
pub struct LineSearch {
    /// Up to here there is no LF.
    at: usize,
    ascii: bool,
    runs: Runs,
}

impl Default for LineSearch {
    fn default() -> Self {
        Self { at: 0, ascii: true, runs: Runs::default() }
    }
}

impl LineSearch {
    /// Goes on in `bytes`, which begin where the line does and hold what was there before. Gives the offset of the LF, if it is
    /// there by now.
    #[inline]
    pub fn go_on(&mut self, bytes: &[u8]) -> Option<usize> {
        self.go_on_by::<Native>(bytes)
    }

    #[inline]
    pub(super) fn go_on_by<K: Kernel>(&mut self, bytes: &[u8]) -> Option<usize> {
        if self.at >= LARGE {
            (self.at, self.ascii) = K::skip_in_large_line(bytes, self.at, self.ascii, &mut self.runs);
        }
        let (end, ascii) = K::line_end(bytes, self.at);
        self.ascii &= ascii;
        if end < bytes.len() {
            return Some(end);
        }
        // The skipping goes by whole blocks: the run goes on only if it begins again where it stopped.
        if self.at < LARGE {
            self.at = bytes.len();
            self.runs.begin(self.at);
        }
        None
    }

    /// What was seen so far.
    #[inline]
    pub fn seen(&self) -> Seen {
        Seen { ascii: self.ascii, plain: self.runs.longest_up_to(self.at) }
    }
}

/// The longest run of plain bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Runs {
    longest: (usize, usize),
    since: usize,
}

impl Runs {
    /// Nothing is known of what lies before.
    fn begin(&mut self, at: usize) {
        self.since = at;
    }

    /// The run ends before `at`, and the next one may begin at `next`.
    #[inline]
    pub(super) fn broken(&mut self, at: usize, next: usize) {
        self.longest = self.longest_until(at);
        self.since = next;
    }

    #[inline]
    fn longest_until(&self, at: usize) -> (usize, usize) {
        let (start, end) = self.longest;
        if at.saturating_sub(self.since) > end - start { (self.since, at) } else { self.longest }
    }

    fn longest_up_to(&self, at: usize) -> Span {
        let (start, end) = self.longest_until(at);
        match (u32::try_from(start), u32::try_from(end)) {
            (Ok(start), Ok(end)) => Span { start, end },
            // The scanner refuses such a line.
            _ => Seen::NOTHING.plain,
        }
    }
}

/// A line on its way through the walks.
pub(super) struct Line<'a> {
    bytes: &'a [u8],
    plain: Span,
}

impl<'a> Line<'a> {
    pub(super) fn new(bytes: &'a [u8], plain: Span) -> Self {
        Self { bytes, plain }
    }

    /// Offset of the first byte from `from` on that is a quote, a backslash or below 0x20; the length if there is none.
    #[inline(always)]
    pub(super) fn string_stop<K: Kernel>(&self, from: usize) -> usize {
        match K::string_stop_near(self.bytes, from) {
            Ok(at) => at,
            Err(on) => self.string_stop_far::<K>(on),
        }
    }

    #[inline(never)]
    fn string_stop_far<K: Kernel>(&self, from: usize) -> usize {
        let (start, end) = (self.plain.start as usize, self.plain.end as usize);
        if from >= end {
            return K::string_stop(self.bytes, from);
        }
        let before = if from < start { K::string_stop(&self.bytes[..start], from) } else { start };
        if before < start { before } else { K::string_stop(self.bytes, end) }
    }
}

impl Deref for Line<'_> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        self.bytes
    }
}
