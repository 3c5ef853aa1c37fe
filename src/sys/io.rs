//! Small calls on descriptors: pipes, reading, and what a pipe can be asked.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::Error;

/// Reads once; an interrupted read is repeated. `Ok(0)` is the end of the stream.
///
/// # Errors
///
/// Those of `read(2)`; `WouldBlock` when nothing is there yet.
pub fn read(fd: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    loop {
        // SAFETY: the pointer and the length describe `into`, which is borrowed for writing during the call.
        let got = unsafe { libc::read(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len()) };
        match usize::try_from(got) {
            Ok(got) => return Ok(got),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

/// How many bytes lie in a pipe and have not been read. Works on either end.
///
/// # Errors
///
/// `ENOTTY` for descriptors that cannot be asked.
pub fn unread(fd: BorrowedFd<'_>) -> io::Result<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: this request writes one int, and `count` is one.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut count) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(usize::try_from(count).unwrap_or(0))
}

/// How many bytes a pipe can hold.
///
/// # Errors
///
/// `EBADF` for descriptors that are not pipes.
pub fn pipe_capacity(fd: BorrowedFd<'_>) -> io::Result<usize> {
    // SAFETY: this command takes no argument.
    let size = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETPIPE_SZ) };
    usize::try_from(size).map_err(|_| io::Error::last_os_error())
}

/// Whether the other side is gone: for the writing end of a pipe, nobody can read it any more; for the reading end, nobody can write
/// to it any more (what was written before can still be read).
#[must_use]
pub fn hung_up(fd: BorrowedFd<'_>) -> bool {
    // These two are reported without being asked for.
    matches!(wait(fd, 0, 0), Ok(seen) if seen & (libc::POLLERR | libc::POLLHUP) != 0)
}

/// Waits until one of `events` (`POLLIN`, `POLLOUT`) or a hang-up is seen, at most `timeout_ms` (negative: without limit), and returns
/// what was seen; 0 means the time is over. An interrupted wait starts again with the whole time.
///
/// # Errors
///
/// Those of `poll(2)`.
pub fn wait(fd: BorrowedFd<'_>, events: libc::c_short, timeout_ms: i32) -> io::Result<libc::c_short> {
    let mut slot = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
    loop {
        // SAFETY: the pointer names one pollfd, which is what the count says.
        let found = unsafe { libc::poll(&raw mut slot, 1, timeout_ms) };
        if found >= 0 {
            return Ok(slot.revents);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Switches `O_NONBLOCK`. The flag belongs to the open file and not to the descriptor: whoever shares the file shares the flag.
///
/// # Errors
///
/// Those of `fcntl(2)`.
pub fn set_nonblocking(fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    // SAFETY: this command takes no argument.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    let wanted = if on { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
    if wanted == flags {
        return Ok(());
    }
    // SAFETY: this command takes an int, and `wanted` is one.
    let done = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, wanted) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A pipe as (reading end, writing end), both blocking, close-on-exec from birth, and numbered 3 or higher.
///
/// # Errors
///
/// No descriptors were left, or no memory.
pub fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    let mut ends = [-1; 2];
    // SAFETY: the call writes two ints, and `ends` holds two.
    let done = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    if done < 0 {
        return Err(Error::last("pipe2"));
    }
    // SAFETY: the call has just made this descriptor, and nobody else knows it.
    let reading = unsafe { OwnedFd::from_raw_fd(ends[0]) };
    // SAFETY: as above.
    let writing = unsafe { OwnedFd::from_raw_fd(ends[1]) };
    Ok((above_stdio(reading)?, above_stdio(writing)?))
}

/// Moves a descriptor out of the range 0 to 2.
///
/// In a host that runs without one of the three, new descriptors get these numbers. Left there, a pipe end would be overwritten while
/// the child's 0, 1 and 2 are put in place, and the host's own `printf` would write into it.
///
/// # Errors
///
/// No descriptor was left.
pub fn above_stdio(fd: OwnedFd) -> Result<OwnedFd, Error> {
    if fd.as_raw_fd() > 2 { Ok(fd) } else { duplicate(fd.as_fd()) }
}

/// A second descriptor for the same file, close-on-exec and numbered 3 or higher.
///
/// # Errors
///
/// No descriptor was left, or `fd` is not open.
pub fn duplicate(fd: BorrowedFd<'_>) -> Result<OwnedFd, Error> {
    duplicate_number(fd.as_raw_fd())
}

/// As [`duplicate`], for a number that may not be an open descriptor at all (`EBADF`).
pub(super) fn duplicate_number(fd: libc::c_int) -> Result<OwnedFd, Error> {
    // SAFETY: this command takes an int and answers for a number that is not open with an error.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        let errno = super::last_errno();
        // The kernel's answer when the limit does not even reach to 3.
        let errno = if errno == libc::EINVAL { libc::EMFILE } else { errno };
        return Err(Error::new("fcntl", errno));
    }
    // SAFETY: the call has just made this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::testing::{flags_of, in_subprocess};
    use std::io::IoSlice;

    fn put(fd: &OwnedFd, bytes: &[u8]) -> usize {
        crate::sys::writev_nosignal(fd.as_fd(), &[IoSlice::new(bytes)], &crate::sys::Features::detect()).unwrap()
    }

    /// Another test's child has copies of all descriptors until it has become its program, so closing one here is not the end yet.
    fn settled(fd: &OwnedFd) {
        assert_ne!(wait(fd.as_fd(), 0, 30_000).unwrap(), 0);
    }

    #[test]
    fn a_pipe_can_be_asked_what_was_not_read() {
        let (reading, writing) = pipe().unwrap();
        assert_eq!(unread(writing.as_fd()).unwrap(), 0);
        assert_eq!(put(&writing, b"hello"), 5);
        assert_eq!(unread(writing.as_fd()).unwrap(), 5);
        assert_eq!(unread(reading.as_fd()).unwrap(), 5);
        let mut some = [0; 2];
        assert_eq!(read(reading.as_fd(), &mut some).unwrap(), 2);
        assert_eq!(unread(writing.as_fd()).unwrap(), 3);
    }

    #[test]
    fn what_a_dead_reader_left_can_still_be_asked() {
        let (reading, writing) = pipe().unwrap();
        assert_eq!(put(&writing, b"hello"), 5);
        assert!(!hung_up(writing.as_fd()));
        drop(reading);
        settled(&writing);
        assert!(hung_up(writing.as_fd()));
        assert_eq!(unread(writing.as_fd()).unwrap(), 5);
    }

    #[test]
    fn the_end_is_seen_from_the_reading_side() {
        let (reading, writing) = pipe().unwrap();
        assert!(!hung_up(reading.as_fd()));
        drop(writing);
        settled(&reading);
        assert!(hung_up(reading.as_fd()));
        assert_eq!(read(reading.as_fd(), &mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn non_blocking_is_per_end() {
        let (reading, writing) = pipe().unwrap();
        set_nonblocking(reading.as_fd(), true).unwrap();
        set_nonblocking(reading.as_fd(), true).unwrap();
        assert_eq!(read(reading.as_fd(), &mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(flags_of(writing.as_fd()).1 & libc::O_NONBLOCK, 0);
        set_nonblocking(reading.as_fd(), false).unwrap();
        assert_eq!(flags_of(reading.as_fd()).1 & libc::O_NONBLOCK, 0);
    }

    #[test]
    fn pipes_are_close_on_exec_and_have_a_size() {
        let (reading, writing) = pipe().unwrap();
        for end in [&reading, &writing] {
            assert_eq!(flags_of(end.as_fd()).0, libc::FD_CLOEXEC);
            assert!(end.as_raw_fd() > 2);
            assert!(pipe_capacity(end.as_fd()).unwrap() >= 4096);
        }
    }

    #[test]
    fn ends_are_moved_above_stdio() {
        in_subprocess!({
            for number in 0..3 {
                // SAFETY: nothing in this process uses the three any more.
                let _ = unsafe { libc::close(number) };
            }
            let (reading, writing) = pipe().unwrap();
            let numbers = [reading.as_raw_fd(), writing.as_raw_fd()];
            for number in 0..3 {
                // SAFETY: takes no argument.
                let open = unsafe { libc::fcntl(number, libc::F_GETFD) };
                assert_eq!(open, -1, "{number} must stay free");
            }
            assert!(numbers.iter().all(|number| *number > 2), "{numbers:?}");
        });
    }
}
