//! One absolute timer on the monotonic clock, as a descriptor.
//!
//! All deadlines of a handle share one of these: it sits in the handle's epoll, so that the host sees a timer as readability and never
//! has to ask for a timeout.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::Error;
use super::io::above_stdio;

/// A `timerfd` on `CLOCK_MONOTONIC`, non-blocking and close-on-exec.
#[derive(Debug)]
pub struct Timer {
    fd: OwnedFd,
}

impl Timer {
    /// A timer that is not armed.
    ///
    /// # Errors
    ///
    /// No descriptor was left, or no memory.
    pub fn new() -> Result<Timer, Error> {
        // SAFETY: the call takes no pointers.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        if fd < 0 {
            return Err(Error::last("timerfd_create"));
        }
        // SAFETY: the call has just returned this descriptor, and nobody else knows it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Timer { fd: above_stdio(fd)? })
    }

    /// Becomes readable at `ns` of [`monotonic_ns`](super::monotonic_ns); at once if that has passed. An earlier expiry that has not
    /// been read is forgotten.
    ///
    /// # Errors
    ///
    /// None is known to happen with a valid timer.
    pub fn arm_at(&self, ns: u64) -> Result<(), Error> {
        // Zero would disarm the timer, which is not what a caller with a deadline in the distant past means.
        self.set(ns.max(1))
    }

    /// Not readable any more, and not going to be.
    ///
    /// # Errors
    ///
    /// None is known to happen with a valid timer.
    #[cfg(test)]
    pub fn disarm(&self) -> Result<(), Error> {
        self.set(0)
    }

    /// How often it has expired since it was armed or last read: 0 or 1. Afterwards it is not readable.
    #[must_use]
    #[cfg(test)]
    pub fn consume(&self) -> u64 {
        let mut count = [0_u8; 8];
        match super::io::read(self.fd.as_fd(), &mut count) {
            Ok(8) => u64::from_ne_bytes(count),
            _ => 0,
        }
    }

    fn set(&self, ns: u64) -> Result<(), Error> {
        // A time_t of 32 bits cannot hold every deadline; one that far away is as good as the farthest.
        let seconds = libc::time_t::try_from(ns / 1_000_000_000).unwrap_or(libc::time_t::MAX);
        let spec = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: libc::timespec { tv_sec: seconds, tv_nsec: (ns % 1_000_000_000) as _ },
        };
        // SAFETY: the descriptor is ours, `spec` outlives the call, and the old value is not asked for.
        let done = unsafe {
            libc::timerfd_settime(self.fd.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &raw const spec, std::ptr::null_mut())
        };
        if done < 0 { Err(Error::last("timerfd_settime")) } else { Ok(()) }
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.fd.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::io::wait;
    use crate::sys::monotonic_ns;

    #[test]
    fn it_expires_at_its_time_and_not_before() {
        let timer = Timer::new().unwrap();
        assert_eq!(wait(timer.as_fd(), libc::POLLIN, 0).unwrap(), 0);
        let when = monotonic_ns() + 5_000_000;
        timer.arm_at(when).unwrap();
        assert_eq!(wait(timer.as_fd(), libc::POLLIN, 10_000).unwrap(), libc::POLLIN);
        assert!(monotonic_ns() >= when);
        assert_eq!(timer.consume(), 1);
        assert_eq!(timer.consume(), 0);
    }

    #[test]
    fn the_past_and_zero_expire_at_once() {
        let timer = Timer::new().unwrap();
        for ns in [0, 1, monotonic_ns() - 1] {
            timer.arm_at(ns).unwrap();
            assert_eq!(wait(timer.as_fd(), libc::POLLIN, 10_000).unwrap(), libc::POLLIN);
        }
    }

    #[test]
    fn disarming_and_the_far_future_are_silent() {
        let timer = Timer::new().unwrap();
        timer.arm_at(1).unwrap();
        assert_eq!(wait(timer.as_fd(), libc::POLLIN, 10_000).unwrap(), libc::POLLIN);
        timer.disarm().unwrap();
        assert_eq!(wait(timer.as_fd(), libc::POLLIN, 0).unwrap(), 0);
        timer.arm_at(u64::MAX).unwrap();
        assert_eq!(wait(timer.as_fd(), libc::POLLIN, 0).unwrap(), 0);
    }
}
