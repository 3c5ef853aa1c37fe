//! Time as the core sees it: nanoseconds on a monotonic clock that somebody else reads. The core never asks for the time,
//! it is told. Sums saturate, so that the largest value of the C boundary means "never" and nothing overflows.

/// A moment, in nanoseconds since an arbitrary start.
pub type Nanos = u64;

/// The moment that never comes.
pub const NEVER: Nanos = u64::MAX;

const PER_MS: u64 = 1_000_000;

/// Milliseconds of the C boundary as nanoseconds.
pub const fn ms(millis: u64) -> Nanos {
    millis.saturating_mul(PER_MS)
}

/// Nanoseconds as whole milliseconds, rounded down: for what is told, never for what is waited for.
pub const fn to_ms(nanos: Nanos) -> u64 {
    nanos / PER_MS
}

/// `span` after `now`; a span that reaches past the end of time never ends.
pub const fn after(now: Nanos, span: Nanos) -> Nanos {
    now.saturating_add(span)
}
