//! The two loops that look at many bytes at once: where a string stops being plain, and the bit masks of a block.
//!
//! For x-86 with 64 bits they are written with SSE2, which every such processor has, so nothing is detected at run
//! time. For all others there is a twin that does the same in 64-bit words; it is compiled on both, so that the tests
//! can hold one against the other. This file and `avx2` are the only ones here with unsafe code, and know no JSON beyond
//! the bytes they look for.

use super::line::Runs;

/// Bytes per block of [`Kernel::masks`].
pub(super) const BLOCK: usize = 64;

/// One bit per byte of a block, the first byte lowest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Masks {
    pub(super) quote: u64,
    pub(super) backslash: u64,
    /// Below 0x20.
    pub(super) control: u64,
    /// `{` and `[`.
    pub(super) open: u64,
    /// `}` and `]`.
    pub(super) close: u64,
    /// Bit 5 of every byte: of a bracket, whether it is a curly one.
    pub(super) curly: u64,
}

impl Masks {
    /// The masks of a block that starts `by` bytes later.
    pub(super) fn shifted(self, by: u32) -> Masks {
        Masks {
            quote: self.quote >> by,
            backslash: self.backslash >> by,
            control: self.control >> by,
            open: self.open >> by,
            close: self.close >> by,
            curly: self.curly >> by,
        }
    }
}

/// What the walks need from the processor.
pub(super) trait Kernel {
    /// Offset of the first byte from `from` on that is a quote, a backslash or below 0x20; the length if there is none.
    fn string_stop(bytes: &[u8], from: usize) -> usize;

    /// The same if it is near; otherwise from where on it has still to be looked for.
    fn string_stop_near(bytes: &[u8], from: usize) -> Result<usize, usize>;

    /// Offset of the first LF from `from` on, the length if there is none; and whether all bytes before it are ASCII.
    fn line_end(bytes: &[u8], from: usize) -> (usize, bool);

    /// From `from` on as far as there is surely no LF, noting the runs of plain bytes; and whether all of it is ASCII as well as what
    /// was before.
    fn skip_in_large_line(bytes: &[u8], from: usize, ascii: bool, runs: &mut Runs) -> (usize, bool);

    /// The bytes that stop a string, as a mask of one block.
    fn stops(block: &[u8; BLOCK]) -> u64;

    /// The masks of one block.
    fn masks(block: &[u8; BLOCK]) -> Masks;
}

/// The one to use.
#[cfg(target_arch = "x86_64")]
pub(super) type Native = sse2::Sse2;
/// The one to use.
#[cfg(not(target_arch = "x86_64"))]
pub(super) type Native = portable::Portable;

/// The 16 (or `N`) bytes at `at`, if there are so many.
#[inline(always)]
fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

/// For what is left at the end, less than `N` bytes: the last `N` bytes once more, and how many of them were seen.
#[inline(always)]
fn last_chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<(&[u8; N], usize)> {
    Some((bytes.last_chunk()?, N - (bytes.len() - at)))
}

/// `line_end` in a text shorter than one chunk.
fn line_end_bytewise(bytes: &[u8], from: usize) -> (usize, bool) {
    let rest = bytes.get(from..).unwrap_or(&[]);
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    (from + end, rest[..end].is_ascii())
}

/// The end of a text shorter than one chunk.
fn string_stop_bytewise(bytes: &[u8], from: usize) -> usize {
    let stops = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    bytes.iter().skip(from).position(stops).map_or(bytes.len(), |offset| from + offset)
}

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use super::super::avx2;
    use super::super::line::Runs;
    use super::{BLOCK, Kernel, Masks, chunk, last_chunk, line_end_bytewise, string_stop_bytewise};
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
        _mm_slli_epi16,
    };

    /// From here on it is worth asking whether there is something wider.
    const FAR: usize = 2 * BLOCK;
    /// How far a string is looked at 16 bytes at a time.
    const NEAR: usize = 3 * 16;

    pub(in crate::scan) struct Sse2;

    impl Kernel for Sse2 {
        #[inline(always)]
        fn string_stop_near(bytes: &[u8], from: usize) -> Result<usize, usize> {
            // Most strings end within 16 bytes: only this much is copied into every caller.
            let Some(first) = chunk(bytes, from) else { return Err(from) };
            // SAFETY: SSE2 is part of every x86-64 processor.
            match unsafe { stops_in(first) } {
                0 => Err(from + 16),
                stops => Ok(from + stops.trailing_zeros() as usize),
            }
        }

        #[inline(always)]
        fn string_stop(bytes: &[u8], from: usize) -> usize {
            // SAFETY: SSE2 is part of every x86-64 processor.
            unsafe { string_stop(bytes, from) }
        }

        fn skip_in_large_line(bytes: &[u8], from: usize, ascii: bool, runs: &mut Runs) -> (usize, bool) {
            if avx2::is_there() {
                // SAFETY: AVX2 is there.
                let (at, more) = unsafe { avx2::skip_in_large_line(bytes, from, runs) };
                return (at, ascii && more);
            }
            // Two passes without it are no faster than looking for the end alone.
            let (at, more) = Self::line_end(bytes, from);
            runs.broken(from, at);
            (at, ascii && more)
        }

        #[inline]
        fn line_end(bytes: &[u8], from: usize) -> (usize, bool) {
            // SAFETY: SSE2 is part of every x86-64 processor.
            unsafe { line_end(bytes, from) }
        }

        #[inline(always)]
        fn stops(block: &[u8; BLOCK]) -> u64 {
            // SAFETY: SSE2 is part of every x86-64 processor.
            unsafe { stops_in_block(block) }
        }

        #[inline(always)]
        fn masks(block: &[u8; BLOCK]) -> Masks {
            // SAFETY: SSE2 is part of every x86-64 processor.
            unsafe { masks(block) }
        }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn load(bytes: &[u8; 16]) -> __m128i {
        // SAFETY: the reference covers the 16 bytes that are read, and this load asks for no alignment.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }

    /// All ones in each byte that is a quote, a backslash or below 0x20.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn stops(x: __m128i) -> __m128i {
        let quote = _mm_cmpeq_epi8(x, _mm_set1_epi8(b'"' as i8));
        let backslash = _mm_cmpeq_epi8(x, _mm_set1_epi8(b'\\' as i8));
        _mm_or_si128(_mm_or_si128(quote, backslash), control(x))
    }

    /// All ones in each byte below 0x20. There is no unsigned comparison, but a minimum.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn control(x: __m128i) -> __m128i {
        _mm_cmpeq_epi8(_mm_min_epu8(x, _mm_set1_epi8(0x1f)), x)
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn stops_in(bytes: &[u8; 16]) -> u32 {
        _mm_movemask_epi8(stops(load(bytes))) as u32
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn stops_in_block(block: &[u8; BLOCK]) -> u64 {
        let (parts, _) = block.as_chunks::<16>();
        parts.iter().rev().fold(0, |stops, part| stops << 16 | u64::from(stops_in(part)))
    }

    #[inline(never)]
    #[target_feature(enable = "sse2")]
    fn string_stop(bytes: &[u8], from: usize) -> usize {
        let mut at = from;
        // Most of those that do not end at once end within a block.
        while at < from + NEAR {
            let Some(part) = chunk(bytes, at) else { return string_stop_at_end(bytes, at) };
            let stops = stops_in(part);
            if stops != 0 {
                return at + stops.trailing_zeros() as usize;
            }
            at += 16;
        }
        while let Some(block) = chunk::<BLOCK>(bytes, at) {
            let (parts, _) = block.as_chunks::<16>();
            let (a, b, c, d) = (load(&parts[0]), load(&parts[1]), load(&parts[2]), load(&parts[3]));
            // One control character among four bytes is one in their minimum, which saves three comparisons.
            let low = control(_mm_min_epu8(_mm_min_epu8(a, b), _mm_min_epu8(c, d)));
            let quote = _mm_set1_epi8(b'"' as i8);
            let backslash = _mm_set1_epi8(b'\\' as i8);
            let in_a = _mm_or_si128(_mm_cmpeq_epi8(a, quote), _mm_cmpeq_epi8(a, backslash));
            let in_b = _mm_or_si128(_mm_cmpeq_epi8(b, quote), _mm_cmpeq_epi8(b, backslash));
            let in_c = _mm_or_si128(_mm_cmpeq_epi8(c, quote), _mm_cmpeq_epi8(c, backslash));
            let in_d = _mm_or_si128(_mm_cmpeq_epi8(d, quote), _mm_cmpeq_epi8(d, backslash));
            let any = _mm_or_si128(low, _mm_or_si128(_mm_or_si128(in_a, in_b), _mm_or_si128(in_c, in_d)));
            if _mm_movemask_epi8(any) != 0 {
                return at + stops_in_block(block).trailing_zeros() as usize;
            }
            at += BLOCK;
            if at == from + NEAR + FAR && avx2::is_there() {
                // SAFETY: AVX2 is there.
                at = unsafe { avx2::skip_plain(bytes, at) };
            }
        }
        string_stop_at_end(bytes, at)
    }

    /// The same in the last few bytes.
    #[inline(never)]
    #[target_feature(enable = "sse2")]
    fn string_stop_at_end(bytes: &[u8], from: usize) -> usize {
        let mut at = from;
        while let Some(part) = chunk(bytes, at) {
            let stops = stops_in(part);
            if stops != 0 {
                return at + stops.trailing_zeros() as usize;
            }
            at += 16;
        }
        if at >= bytes.len() {
            return bytes.len();
        }
        match last_chunk(bytes, at) {
            Some((last, seen)) => match stops_in(last) >> seen {
                0 => bytes.len(),
                stops => at + stops.trailing_zeros() as usize,
            },
            None => string_stop_bytewise(bytes, at),
        }
    }

    /// All ones in each byte that is an LF, for the four parts of a block.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn line_feeds(x: [__m128i; 4]) -> [__m128i; 4] {
        let lf = _mm_set1_epi8(b'\n' as i8);
        [_mm_cmpeq_epi8(x[0], lf), _mm_cmpeq_epi8(x[1], lf), _mm_cmpeq_epi8(x[2], lf), _mm_cmpeq_epi8(x[3], lf)]
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn or(x: [__m128i; 4]) -> __m128i {
        _mm_or_si128(_mm_or_si128(x[0], x[1]), _mm_or_si128(x[2], x[3]))
    }

    /// The highest bit of each byte of a block.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn tops(x: [__m128i; 4]) -> u64 {
        let bits = |part: __m128i| u64::from(_mm_movemask_epi8(part) as u32);
        bits(x[0]) | bits(x[1]) << 16 | bits(x[2]) << 32 | bits(x[3]) << 48
    }

    /// Where the lowest of the `feeds` is, and whether no byte below it is in `high`.
    #[inline]
    fn lowest(feeds: u64, high: u64) -> (usize, bool) {
        let at = feeds.trailing_zeros();
        (at as usize, high & ((1 << at) - 1) == 0)
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn line_end(bytes: &[u8], from: usize) -> (usize, bool) {
        let mut at = from;
        let mut ascii = true;
        while let Some(block) = chunk::<BLOCK>(bytes, at) {
            let (parts, _) = block.as_chunks::<16>();
            let x = [load(&parts[0]), load(&parts[1]), load(&parts[2]), load(&parts[3])];
            let feeds = line_feeds(x);
            if _mm_movemask_epi8(or(feeds)) != 0 {
                let (end, plain) = lowest(tops(feeds), tops(x));
                return (at + end, ascii && plain);
            }
            ascii &= _mm_movemask_epi8(or(x)) == 0;
            at += BLOCK;
            if at == from + FAR && avx2::is_there() {
                // SAFETY: AVX2 is there.
                let (skipped, plain) = unsafe { avx2::skip_within_line(bytes, at) };
                (at, ascii) = (skipped, ascii && plain);
            }
        }
        let in_part = |part: &[u8; 16], seen: usize| {
            let x = load(part);
            let feeds = (_mm_movemask_epi8(_mm_cmpeq_epi8(x, _mm_set1_epi8(b'\n' as i8))) as u32) >> seen;
            (u64::from(feeds), u64::from((_mm_movemask_epi8(x) as u32) >> seen))
        };
        while let Some(part) = chunk::<16>(bytes, at) {
            let (feeds, high) = in_part(part, 0);
            if feeds != 0 {
                let (end, plain) = lowest(feeds, high);
                return (at + end, ascii && plain);
            }
            ascii &= high == 0;
            at += 16;
        }
        if at >= bytes.len() {
            return (bytes.len(), ascii);
        }
        match last_chunk::<16>(bytes, at) {
            Some((last, seen)) => match in_part(last, seen) {
                (0, high) => (bytes.len(), ascii && high == 0),
                (feeds, high) => {
                    let (end, plain) = lowest(feeds, high);
                    (at + end, ascii && plain)
                }
            },
            None => {
                let (end, plain) = line_end_bytewise(bytes, at);
                (end, ascii && plain)
            }
        }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn masks(block: &[u8; BLOCK]) -> Masks {
        let mut masks = Masks::default();
        let (parts, _) = block.as_chunks::<16>();
        for (i, part) in parts.iter().enumerate() {
            let x = load(part);
            let bits = |equal: __m128i| u64::from(_mm_movemask_epi8(equal) as u32) << (16 * i);
            // Setting bit 5 makes square brackets curly; only brackets become these two.
            let curled = _mm_or_si128(x, _mm_set1_epi8(0x20));
            masks.quote |= bits(_mm_cmpeq_epi8(x, _mm_set1_epi8(b'"' as i8)));
            masks.backslash |= bits(_mm_cmpeq_epi8(x, _mm_set1_epi8(b'\\' as i8)));
            masks.control |= bits(control(x));
            masks.open |= bits(_mm_cmpeq_epi8(curled, _mm_set1_epi8(b'{' as i8)));
            masks.close |= bits(_mm_cmpeq_epi8(curled, _mm_set1_epi8(b'}' as i8)));
            // The mask takes the highest bit of each byte; what the shift brings in from a neighbour stays below it.
            masks.curly |= bits(_mm_slli_epi16::<2>(x));
        }
        masks
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable {
    use super::super::line::Runs;
    use super::{BLOCK, Kernel, Masks, chunk, last_chunk, line_end_bytewise, string_stop_bytewise};

    pub(in crate::scan) struct Portable;

    impl Kernel for Portable {
        fn string_stop_near(_: &[u8], from: usize) -> Result<usize, usize> {
            Err(from)
        }

        fn skip_in_large_line(bytes: &[u8], from: usize, ascii: bool, runs: &mut Runs) -> (usize, bool) {
            let (mut at, end) = (from, bytes.len());
            let mut all = 0;
            while at + BLOCK <= end {
                let Some(block) = chunk::<BLOCK>(bytes, at) else { break };
                if Self::stops(block) != 0 {
                    if block.contains(&b'\n') {
                        break;
                    }
                    runs.broken(at, at + BLOCK);
                }
                all |= block.iter().fold(0, |all, byte| all | byte);
                at += BLOCK;
            }
            (at, ascii && all < 0x80)
        }

        fn string_stop(bytes: &[u8], from: usize) -> usize {
            let mut at = from;
            while let Some(part) = chunk(bytes, at) {
                let stops = stops_in(part);
                if stops != 0 {
                    return at + stops.trailing_zeros() as usize / 8;
                }
                at += 8;
            }
            if at >= bytes.len() {
                return bytes.len();
            }
            match last_chunk(bytes, at) {
                Some((last, seen)) => match stops_in(last) >> (8 * seen) {
                    0 => bytes.len(),
                    stops => at + stops.trailing_zeros() as usize / 8,
                },
                None => string_stop_bytewise(bytes, at),
            }
        }

        fn line_end(bytes: &[u8], from: usize) -> (usize, bool) {
            let mut at = from;
            let mut ascii = true;
            while let Some(part) = chunk::<8>(bytes, at) {
                let x = u64::from_le_bytes(*part);
                let feeds = zeros(x ^ spread(b'\n'));
                if feeds != 0 {
                    let end = feeds.trailing_zeros() / 8;
                    return (at + end as usize, ascii && x & spread(0x80) & ((1 << (8 * end)) - 1) == 0);
                }
                ascii &= x & spread(0x80) == 0;
                at += 8;
            }
            let (end, plain) = line_end_bytewise(bytes, at);
            (end.min(bytes.len()), ascii && plain)
        }

        fn stops(block: &[u8; BLOCK]) -> u64 {
            let (parts, _) = block.as_chunks::<8>();
            parts.iter().rev().fold(0, |stops, part| stops << 8 | gather(stops_in(part)))
        }

        fn masks(block: &[u8; BLOCK]) -> Masks {
            let mut masks = Masks::default();
            let (parts, _) = block.as_chunks::<8>();
            for (i, part) in parts.iter().enumerate() {
                let x = u64::from_le_bytes(*part);
                let bits = |tops: u64| gather(tops) << (8 * i);
                let curled = x | spread(0x20);
                masks.quote |= bits(zeros(x ^ spread(b'"')));
                masks.backslash |= bits(zeros(x ^ spread(b'\\')));
                masks.control |= bits(zeros(x & spread(0xe0)));
                masks.open |= bits(zeros(curled ^ spread(b'{')));
                masks.close |= bits(zeros(curled ^ spread(b'}')));
                masks.curly |= bits((x << 2) & spread(0x80));
            }
            masks
        }
    }

    /// The highest bit of each byte that is a quote, a backslash or below 0x20.
    #[inline]
    fn stops_in(bytes: &[u8; 8]) -> u64 {
        let x = u64::from_le_bytes(*bytes);
        zeros(x ^ spread(b'"')) | zeros(x ^ spread(b'\\')) | zeros(x & spread(0xe0))
    }

    #[inline]
    const fn spread(byte: u8) -> u64 {
        0x0101_0101_0101_0101 * byte as u64
    }

    /// The highest bit of each byte that is zero, of no other: the sum stays within its byte, unlike the shorter trick
    /// with a subtraction, whose borrow marks neighbours.
    #[inline]
    const fn zeros(x: u64) -> u64 {
        let low = spread(0x7f);
        !(((x & low) + low) | x | low)
    }

    /// The highest bits of the eight bytes, side by side.
    #[inline]
    const fn gather(tops: u64) -> u64 {
        (tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
    }
}

#[cfg(test)]
pub(super) use portable::Portable;
