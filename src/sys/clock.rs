//! The monotonic clock. It stands still while the machine sleeps, and a step of the wall clock does not move it.

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for a timespec and outlives the call. The call cannot fail: every Linux has this clock.
    let _ = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    // Neither field is ever negative. On some 32-bit targets both are narrower than 64 bits, hence the conversion.
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, reason = "the width depends on the target")]
    {
        (now.tv_sec as u64) * 1_000_000_000 + now.tv_nsec as u64
    }
}

#[cfg(test)]
mod tests {
    use super::monotonic_ns;

    #[test]
    fn it_never_goes_back() {
        let mut last = monotonic_ns();
        assert!(last > 0);
        for _ in 0..1000 {
            let now = monotonic_ns();
            assert!(now >= last);
            last = now;
        }
    }
}
