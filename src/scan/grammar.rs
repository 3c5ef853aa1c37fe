//! Skipping a value by the full grammar, token by token, and the stack of brackets that takes one bit per level.

use super::Defect;
use super::line::Line;
use super::simd::Kernel;
use super::text::{peek, scalar, skip_white, string};

/// The open brackets: a bit each, set for a curly one, the innermost lowest.
///
/// The word in hand holds 1 to 64 of them while any is open. Full words go to the heap, so that only a document nested
/// deeper than 64 levels costs memory.
#[derive(Default)]
pub(super) struct Brackets {
    word: u64,
    in_word: u32,
    full: Vec<u64>,
}

impl Brackets {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.in_word == 0
    }

    /// Whether the innermost bracket is a curly one; of no meaning if none is open.
    #[inline(always)]
    pub(super) fn curly(&self) -> bool {
        self.word & 1 != 0
    }

    #[inline(always)]
    pub(super) fn push(&mut self, curly: bool) {
        if self.in_word == u64::BITS {
            self.spill();
        }
        self.word = self.word << 1 | u64::from(curly);
        self.in_word += 1;
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) {
        self.word >>= 1;
        self.in_word -= 1;
        if self.in_word == 0 {
            self.refill();
        }
    }

    #[cold]
    fn spill(&mut self) {
        self.full.push(self.word);
        self.in_word = 0;
    }

    fn refill(&mut self) {
        if let Some(word) = self.full.pop() {
            self.word = word;
            self.in_word = u64::BITS;
        }
    }
}

/// Skips the value that starts with `first` at `from`. Gives the offset behind it.
pub(super) fn skip_value<K: Kernel>(line: &Line<'_>, from: usize, first: u8) -> Result<usize, Defect> {
    let mut brackets = Brackets::default();
    let (mut at, mut byte) = (from, first);
    let mut key = false;
    loop {
        if key {
            (at, byte) = self::key::<K>(line, at, byte)?;
        }
        match byte {
            b'{' | b'[' => {
                let curly = byte == b'{';
                (at, byte) = skip_white(line, at + 1);
                // An empty one is over before it is worth a bit.
                if byte != if curly { b'}' } else { b']' } {
                    brackets.push(curly);
                    key = curly;
                    continue;
                }
                at += 1;
            }
            _ => at = scalar::<K>(line, at, byte)?,
        }
        loop {
            if brackets.is_empty() {
                return Ok(at);
            }
            (at, byte) = skip_white(line, at);
            key = brackets.curly();
            if byte == b',' {
                (at, byte) = skip_white(line, at + 1);
                break;
            }
            if byte != if key { b'}' } else { b']' } {
                return Err(Defect::not_closed(line, at));
            }
            brackets.pop();
            at += 1;
        }
    }
}

/// Reads a key and its colon; gives where the value starts and its first byte.
#[inline(always)]
fn key<K: Kernel>(line: &Line<'_>, at: usize, byte: u8) -> Result<(usize, u8), Defect> {
    if byte != b'"' {
        return Err(Defect::unexpected(line, at));
    }
    let (end, _) = string::<K>(line, at + 1)?;
    let (colon, byte) = if peek(line, end + 1) == b':' { (end + 1, b':') } else { skip_white(line, end + 1) };
    if byte != b':' {
        return Err(Defect::unexpected(line, colon));
    }
    Ok(skip_white(line, colon + 1))
}
