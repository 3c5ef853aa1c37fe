//! The long runs with 32 bytes at a time, for processors that have AVX2: the inside of a large text, where nothing ends. Both skip
//! whole blocks only; the exact place is found by the loops of `simd`, which go on from there.

use super::line::Runs;
use std::arch::x86_64::{
    __m256i, _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_min_epu8, _mm256_movemask_epi8, _mm256_or_si256,
    _mm256_set1_epi8, _mm256_xor_si256,
};

/// Bytes that are looked at in one go.
const STRIDE: usize = 128;

/// Whether the functions here may be called.
#[inline]
pub(super) fn is_there() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; STRIDE]) -> [__m256i; 4] {
    let (parts, _) = bytes.as_chunks::<32>();
    // SAFETY: each reference covers the 32 bytes that are read, and this load asks for no alignment.
    [0, 1, 2, 3].map(|i| unsafe { _mm256_loadu_si256(parts[i].as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn or(x: [__m256i; 4]) -> __m256i {
    _mm256_or_si256(_mm256_or_si256(x[0], x[1]), _mm256_or_si256(x[2], x[3]))
}

#[inline]
#[target_feature(enable = "avx2")]
fn equal(x: [__m256i; 4], byte: u8) -> __m256i {
    let byte = _mm256_set1_epi8(byte as i8);
    or([
        _mm256_cmpeq_epi8(x[0], byte),
        _mm256_cmpeq_epi8(x[1], byte),
        _mm256_cmpeq_epi8(x[2], byte),
        _mm256_cmpeq_epi8(x[3], byte),
    ])
}

/// Not zero anywhere if there is a quote, a backslash or a control character.
#[inline]
#[target_feature(enable = "avx2")]
fn stops(x: [__m256i; 4]) -> __m256i {
    // Turning bit 1 over puts the quote right above the control characters, and none of all others below it. So one of either kind
    // among the four shows in their minimum.
    let turned = x.map(|x| _mm256_xor_si256(x, _mm256_set1_epi8(2)));
    let least = _mm256_min_epu8(_mm256_min_epu8(turned[0], turned[1]), _mm256_min_epu8(turned[2], turned[3]));
    let low = _mm256_cmpeq_epi8(_mm256_min_epu8(least, _mm256_set1_epi8(0x20)), least);
    _mm256_or_si256(low, equal(x, b'\\'))
}

/// From `from` on as far as there is surely no quote, no backslash and no control character.
#[target_feature(enable = "avx2")]
pub(super) fn skip_plain(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<STRIDE>()) {
        if _mm256_movemask_epi8(stops(load(block))) != 0 {
            break;
        }
        at += STRIDE;
    }
    at
}

/// From `from` on as far as there is surely no LF, and whether all bytes up to there are ASCII.
#[target_feature(enable = "avx2")]
pub(super) fn skip_within_line(bytes: &[u8], from: usize) -> (usize, bool) {
    let mut at = from;
    let mut all = _mm256_set1_epi8(0);
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<STRIDE>()) {
        let x = load(block);
        if _mm256_movemask_epi8(equal(x, b'\n')) != 0 {
            break;
        }
        all = _mm256_or_si256(all, or(x));
        at += STRIDE;
    }
    (at, _mm256_movemask_epi8(all) == 0)
}

/// As `skip_within_line`, and notes the runs of plain bytes.
#[target_feature(enable = "avx2")]
pub(super) fn skip_in_large_line(bytes: &[u8], from: usize, runs: &mut Runs) -> (usize, bool) {
    let mut at = from;
    let mut all = _mm256_set1_epi8(0);
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<STRIDE>()) {
        let x = load(block);
        if _mm256_movemask_epi8(stops(x)) != 0 {
            if _mm256_movemask_epi8(equal(x, b'\n')) != 0 {
                break;
            }
            runs.broken(at, at + STRIDE);
        }
        all = _mm256_or_si256(all, or(x));
        at += STRIDE;
    }
    (at, _mm256_movemask_epi8(all) == 0)
}
