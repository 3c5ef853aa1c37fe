//! Skipping an object or array by its structure only, 64 bytes at a time.
//!
//! Looked at are strings (escapes, control characters), the kinds and balance of brackets, and bytes that can stand
//! nowhere: control characters that are no white space, and backslashes outside strings. Commas, colons, numbers and
//! literals are not. For large dense documents this takes well under half the time of the full grammar.

use super::grammar::Brackets;
use super::line::Line;
use super::simd::{BLOCK, Kernel, Masks};
use super::text::{escape, string};
use super::{Defect, DefectKind};

/// Skips the object or array whose opening bracket stands at `from`. Gives the offset behind its closing one.
pub(super) fn skip_container<K: Kernel>(line: &Line<'_>, from: usize) -> Result<usize, Defect> {
    let mut brackets = Brackets::default();
    let mut base = from;
    // All ones while a string is open from the block before.
    let mut open_string = 0u64;
    // Whether the first byte of the block belongs to an escape of the block before.
    let mut carry = 0u64;
    loop {
        let masks = masks_at::<K>(line, base)?;
        let mut escaped = carry;
        carry = 0;
        if masks.backslash & !escaped != 0 {
            (escaped, carry) = escapes(line, base, masks.backslash, escaped)?;
        }
        let quotes = masks.quote & !escaped;
        // From each opening quote to the byte before its closing one.
        let in_string = parity(quotes) ^ open_string;
        open_string = ((in_string as i64) >> 63) as u64;

        if masks.backslash & !in_string != 0 {
            return Err(Defect::unexpected(line, base + first(masks.backslash & !in_string)));
        }
        if masks.control != 0 {
            control(line, base, masks.control, in_string)?;
        }
        let mut bits = (masks.open | masks.close) & !in_string;
        while bits != 0 {
            let i = first(bits);
            let curly = masks.curly >> i & 1 != 0;
            if masks.open >> i & 1 != 0 {
                brackets.push(curly);
            } else {
                if brackets.curly() != curly {
                    return Err(Defect::new(DefectKind::Bracket, base + i));
                }
                brackets.pop();
                if brackets.is_empty() {
                    return Ok(base + i + 1);
                }
            }
            bits &= bits - 1;
        }
        base += BLOCK;
        // A block that is all string is likely to be followed by more of it, which takes fewer looks.
        if open_string != 0 && quotes == 0 {
            base = string::<K>(line, base + carry as usize)?.0 + 1;
            (open_string, carry) = (0, 0);
        }
    }
}

#[inline(always)]
fn first(bits: u64) -> usize {
    bits.trailing_zeros() as usize
}

/// The masks of the block at `at`. What stands behind the end of the line is in none of them.
#[inline(always)]
fn masks_at<K: Kernel>(line: &[u8], at: usize) -> Result<Masks, Defect> {
    if let Some(block) = line.get(at..).and_then(|rest| rest.first_chunk()) {
        return Ok(K::masks(block));
    }
    last_masks::<K>(line, at)
}

/// [`masks_at`] for less than a whole block.
#[inline(never)]
fn last_masks<K: Kernel>(line: &[u8], at: usize) -> Result<Masks, Defect> {
    if at >= line.len() {
        return Err(Defect::new(DefectKind::Truncated, line.len()));
    }
    let left = line.len() - at;
    if let Some(block) = line.last_chunk() {
        return Ok(K::masks(block).shifted((BLOCK - left) as u32));
    }
    let mut block = [b' '; BLOCK];
    block[..left].copy_from_slice(&line[at..]);
    Ok(K::masks(&block))
}

/// Checks the escapes that start in a block. Gives the bytes of the block that a backslash right before them escapes,
/// and 1 if the block's last byte escapes the first one of the next.
#[inline(never)]
fn escapes(line: &[u8], base: usize, backslash: u64, escaped: u64) -> Result<(u64, u64), Defect> {
    let mut escaped = escaped;
    let mut starts = backslash & !escaped;
    while starts != 0 {
        let i = first(starts);
        escape(line, base + i)?;
        let start = starts & starts.wrapping_neg();
        if start >> 63 != 0 {
            return Ok((escaped, 1));
        }
        escaped |= start << 1;
        starts &= !(start | start << 1);
    }
    Ok((escaped, 0))
}

/// Control characters are legal only as white space outside strings.
#[inline(never)]
fn control(line: &[u8], base: usize, control: u64, in_string: u64) -> Result<(), Defect> {
    let mut bits = control;
    while bits != 0 {
        let at = base + first(bits);
        if in_string >> first(bits) & 1 != 0 {
            return Err(Defect::in_string(line, at));
        }
        if !matches!(line[at], b'\t' | b'\n' | b'\r') {
            return Err(Defect::unexpected(line, at));
        }
        bits &= bits - 1;
    }
    Ok(())
}

/// Each bit becomes the parity of itself and all lower ones.
#[inline(always)]
fn parity(bits: u64) -> u64 {
    let mut x = bits;
    for by in [1, 2, 4, 8, 16, 32] {
        x ^= x << by;
    }
    x
}
