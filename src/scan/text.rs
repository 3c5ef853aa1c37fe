//! Small pieces of the grammar: white space, strings and their escapes, numbers and literals.
//!
//! Each takes the line and an offset and gives the offset behind what it read. A byte behind the end reads as NUL,
//! which the grammar allows nowhere, so one comparison serves for both.

use super::line::Line;
use super::simd::{BLOCK, Kernel};
use super::{Defect, DefectKind};

/// The byte at `at`, NUL behind the end.
#[inline(always)]
pub(super) fn peek(line: &[u8], at: usize) -> u8 {
    line.get(at).copied().unwrap_or(0)
}

/// Offset of the next byte that is no white space, and that byte.
#[inline(always)]
pub(super) fn skip_white(line: &[u8], at: usize) -> (usize, u8) {
    let byte = peek(line, at);
    if byte > b' ' {
        return (at, byte);
    }
    skip_white_far(line, at)
}

#[inline(never)]
fn skip_white_far(line: &[u8], from: usize) -> (usize, u8) {
    let mut at = from;
    loop {
        match peek(line, at) {
            b' ' | b'\t' | b'\n' | b'\r' => at += 1,
            byte => return (at, byte),
        }
    }
}

/// Reads a string from behind its opening quote. Gives the offset of the closing one, and whether an escape stood
/// between them.
#[inline(always)]
pub(super) fn string<K: Kernel>(line: &Line<'_>, from: usize) -> Result<(usize, bool), Defect> {
    let at = line.string_stop::<K>(from);
    if peek(line, at) == b'"' {
        return Ok((at, false));
    }
    Ok((string_with_escapes::<K>(line, at)?, true))
}

/// [`string`] from the first byte on that is not plain. Texts that hold escapes hold many, so a whole block is asked
/// where they are.
#[inline(never)]
fn string_with_escapes<K: Kernel>(line: &[u8], stop: usize) -> Result<usize, Defect> {
    let mut base = stop;
    while let Some(block) = line.get(base..).and_then(|rest| rest.first_chunk::<BLOCK>()) {
        let mut stops = K::stops(block);
        if stops == 0 {
            base = K::string_stop(line, base + BLOCK);
            continue;
        }
        let mut next = BLOCK;
        while stops != 0 {
            let i = stops.trailing_zeros() as usize;
            match block[i] {
                b'"' => return Ok(base + i),
                b'\\' => next = escape(line, base + i)? - base,
                _ => return Err(Defect::in_string(line, base + i)),
            }
            if next >= BLOCK {
                break;
            }
            stops &= u64::MAX << next;
        }
        base += next.max(BLOCK);
    }
    loop {
        base = K::string_stop(line, base);
        match peek(line, base) {
            b'"' => return Ok(base),
            b'\\' => base = escape(line, base)?,
            _ => return Err(Defect::in_string(line, base)),
        }
    }
}

/// Reads the escape whose backslash stands at `at`.
#[inline]
pub(super) fn escape(line: &[u8], at: usize) -> Result<usize, Defect> {
    match line.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => {
            let digits = &line[at + 2..line.len().min(at + 6)];
            if !digits.iter().all(u8::is_ascii_hexdigit) {
                Err(Defect::new(DefectKind::Escape, at))
            } else if digits.len() < 4 {
                Err(Defect::new(DefectKind::Truncated, line.len()))
            } else {
                Ok(at + 6)
            }
        }
        Some(_) => Err(Defect::new(DefectKind::Escape, at)),
        None => Err(Defect::new(DefectKind::Truncated, line.len())),
    }
}

/// Reads a number, which starts with the digit or minus at `from`.
#[inline(always)]
pub(super) fn number(line: &[u8], from: usize) -> Result<usize, Defect> {
    let mut at = from + usize::from(peek(line, from) == b'-');
    at = match peek(line, at) {
        b'0' => at + 1,
        _ => digits(line, at)?,
    };
    if peek(line, at) == b'.' {
        at = digits(line, at + 1)?;
    }
    if matches!(peek(line, at), b'e' | b'E') {
        at += 1;
        at += usize::from(matches!(peek(line, at), b'+' | b'-'));
        at = digits(line, at)?;
    }
    Ok(at)
}

/// Reads one digit or more.
#[inline(always)]
fn digits(line: &[u8], from: usize) -> Result<usize, Defect> {
    let mut at = from;
    while peek(line, at).is_ascii_digit() {
        at += 1;
    }
    if at == from { Err(Defect::unexpected(line, at)) } else { Ok(at) }
}

/// Reads a value that has no inside: `first` is the byte at `at`, where a value has to stand.
#[inline(always)]
pub(super) fn scalar<K: Kernel>(line: &Line<'_>, at: usize, first: u8) -> Result<usize, Defect> {
    match first {
        b'"' => Ok(string::<K>(line, at + 1)?.0 + 1),
        b'-' | b'0'..=b'9' => number(line, at),
        b't' => literal(line, at, b"true"),
        b'f' => literal(line, at, b"false"),
        b'n' => literal(line, at, b"null"),
        _ => Err(Defect::unexpected(line, at)),
    }
}

#[inline(always)]
fn literal<const N: usize>(line: &[u8], at: usize, word: &[u8; N]) -> Result<usize, Defect> {
    if line.get(at..at + N) == Some(word) {
        return Ok(at + N);
    }
    let same = line[at..].iter().zip(word).take_while(|(a, b)| a == b).count();
    Err(Defect::unexpected(line, at + same))
}

/// The number a JSON text spells, if that is an integer without fraction and exponent, and fits.
///
/// It takes what the grammar calls a number: no leading zeros, no plus sign, no white space.
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || (digits.len() > 1 && digits[0] == b'0') {
        return None;
    }
    // Counted downwards, because the lowest number has no positive counterpart.
    let mut value = 0i64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value.checked_mul(10)?.checked_sub(i64::from(digit - b'0'))?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

/// Whether the inside of a JSON string (without its quotes) spells `plain`.
///
/// Escapes are resolved on the way, pairs of surrogates included. A lone surrogate spells no text and is equal to none.
pub fn unescape_eq(raw: &[u8], plain: &str) -> bool {
    let (mut raw, mut plain) = (raw, plain.as_bytes());
    while let Some((&byte, rest)) = raw.split_first() {
        let mut utf8 = [0; 4];
        let spelled: &[u8] = if byte == b'\\' {
            let Some((character, length)) = unescape(raw) else {
                return false;
            };
            raw = &raw[length..];
            character.encode_utf8(&mut utf8).as_bytes()
        } else {
            raw = rest;
            utf8[0] = byte;
            &utf8[..1]
        };
        match plain.strip_prefix(spelled) {
            Some(rest) => plain = rest,
            None => return false,
        }
    }
    plain.is_empty()
}

/// The character the escape at the start of `raw` spells, and the escape's length.
fn unescape(raw: &[u8]) -> Option<(char, usize)> {
    let character = match raw.get(1)? {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let unit = code_unit(raw)?;
            if !(0xd800..0xdc00).contains(&unit) {
                return Some((char::from_u32(unit)?, 6));
            }
            let low = code_unit(&raw[6..]).filter(|low| (0xdc00..0xe000).contains(low))?;
            return Some((char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00))?, 12));
        }
        &byte @ (b'"' | b'\\' | b'/') => char::from(byte),
        _ => return None,
    };
    Some((character, 2))
}

/// The number of a `\u` escape at the start of `raw`.
fn code_unit(raw: &[u8]) -> Option<u32> {
    let digits = raw.strip_prefix(b"\\u")?.first_chunk::<4>()?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit * 16 + char::from(digit).to_digit(16)?))
}
