//! A counter in the kernel that can be waited for: the doorbell of a handle. It is rung and never read; every ring is a new
//! edge for whoever watches edges.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::io::{above_stdio, duplicate};
use super::{Error, last_errno};

/// An eventfd.
#[derive(Debug)]
pub struct Eventfd {
    fd: OwnedFd,
}

impl Eventfd {
    /// A silent one, non-blocking and close-on-exec.
    ///
    /// # Errors
    ///
    /// No descriptors were left, or no memory.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: takes two numbers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(Error::last("eventfd"));
        }
        // SAFETY: the call has just made this descriptor, and nobody else knows it.
        let fd = above_stdio(unsafe { OwnedFd::from_raw_fd(fd) })?;
        Ok(Self { fd })
    }

    /// Rings. Safe in a signal handler and from any thread; leaves `errno` as it is.
    pub fn ring(&self) {
        let errno = last_errno();
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the pointer and the length describe `one`. It fails only when the counter is full after 2^64 rings.
        let _ = unsafe { libc::write(self.fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        // SAFETY: the address of this thread's errno, valid as long as the thread runs.
        unsafe { *libc::__errno_location() = errno };
    }

    /// Another descriptor of the same counter.
    ///
    /// # Errors
    ///
    /// No descriptors were left.
    pub fn duplicate(&self) -> Result<Self, Error> {
        Ok(Self { fd: duplicate(self.fd.as_fd())? })
    }
}

impl AsFd for Eventfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::super::io::wait;
    use super::*;

    #[test]
    fn a_ring_is_seen_and_errno_is_kept() {
        let bell = Eventfd::new().unwrap();
        assert_eq!(wait(bell.as_fd(), libc::POLLIN, 0).unwrap(), 0);
        // SAFETY: the address of this thread's errno.
        unsafe { *libc::__errno_location() = 123 };
        bell.ring();
        assert_eq!(last_errno(), 123);
        assert_eq!(wait(bell.as_fd(), libc::POLLIN, 0).unwrap(), libc::POLLIN);
    }
}
