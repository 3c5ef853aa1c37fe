//! Writing without SIGPIPE.
//!
//! A server may die at any moment, and a host that has left SIGPIPE alone would die with it. Changing the disposition is not ours to
//! do: it belongs to the whole process. The kernel has a flag for a single write since Linux 6.18; before that the signal is held back
//! for this thread during the write, and taken out again if the write has raised it.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::Features;

/// How many slices one call can take (`IOV_MAX`). More are not an error: those beyond are left for the next call.
pub const MAX_SLICES: usize = 1024;

const RWF_NOSIGNAL: libc::c_int = 0x100;

/// Writes the slices in order as one `writev`, and answers a missing reader with `EPIPE` and never with a signal.
///
/// # Errors
///
/// Those of `writev(2)`; `WouldBlock` for a full pipe that does not block, `BrokenPipe` when nobody reads.
pub fn writev_nosignal(fd: BorrowedFd<'_>, bufs: &[IoSlice<'_>], features: &Features) -> io::Result<usize> {
    let bufs = &bufs[..bufs.len().min(MAX_SLICES)];
    if features.rwf_nosignal_usable() {
        match with_flag(fd, bufs) {
            Ok(written) => return Ok(written),
            Err(error) => match error.raw_os_error() {
                Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS) => Features::rwf_nosignal_is_absent(),
                // A filter that refuses the call. If it is the write itself that is refused, the other way will say so too.
                Some(libc::EPERM) => {}
                _ => return Err(error),
            },
        }
    }
    with_mask(fd, bufs)
}

fn with_flag(fd: BorrowedFd<'_>, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
    // An offset of -1 in both halves means "where the file stands", as writev does. Called by number, because older C libraries have
    // no pwritev2, or refuse flags they do not know.
    let offset: libc::c_long = -1;
    loop {
        // SAFETY: IoSlice has the layout of iovec, and the count is that of the array. The kernel only reads.
        let done = unsafe {
            libc::syscall(
                libc::SYS_pwritev2,
                libc::c_long::from(fd.as_raw_fd()),
                bufs.as_ptr().cast::<libc::iovec>(),
                bufs.len(),
                offset,
                offset,
                libc::c_long::from(RWF_NOSIGNAL),
            )
        };
        if let Some(result) = finished(isize::try_from(done).unwrap_or(-1)) {
            return result;
        }
    }
}

fn with_mask(fd: BorrowedFd<'_>, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
    let guard = SigpipeGuard::block();
    let count = libc::c_int::try_from(bufs.len()).unwrap_or(0);
    let result = loop {
        // SAFETY: IoSlice has the layout of iovec, and the count is that of the array. The kernel only reads.
        let done = unsafe { libc::writev(fd.as_raw_fd(), bufs.as_ptr().cast::<libc::iovec>(), count) };
        if let Some(result) = finished(done) {
            break result;
        }
    };
    if matches!(&result, Err(error) if error.raw_os_error() == Some(libc::EPIPE)) {
        guard.swallow();
    }
    result
}

fn finished(done: isize) -> Option<io::Result<usize>> {
    if let Ok(written) = usize::try_from(done) {
        return Some(Ok(written));
    }
    let error = io::Error::last_os_error();
    (error.kind() != io::ErrorKind::Interrupted).then_some(Err(error))
}

/// SIGPIPE blocked in this thread until dropped.
struct SigpipeGuard {
    only_sigpipe: libc::sigset_t,
    before: libc::sigset_t,
    pending_before: bool,
}

impl SigpipeGuard {
    fn block() -> SigpipeGuard {
        let only_sigpipe = set_of(libc::SIGPIPE);
        let mut before = set_of(libc::SIGPIPE);
        // SAFETY: both sets are initialised and outlive the call, which fails only for an unknown first argument.
        let _ = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const only_sigpipe, &raw mut before) };
        // Looked at only now: before it was blocked, a pending SIGPIPE could not stay pending. One that the host has blocked and not
        // yet fetched is the host's, and must survive; ours would be merged with it.
        SigpipeGuard { only_sigpipe, before, pending_before: sigpipe_is_pending() }
    }

    /// Takes the SIGPIPE that our own write has raised.
    fn swallow(&self) {
        if self.pending_before {
            return;
        }
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            // SAFETY: set and time are initialised and outlive the call; the details of the signal are not asked for.
            let taken =
                unsafe { libc::sigtimedwait(&raw const self.only_sigpipe, std::ptr::null_mut(), &raw const at_once) };
            if taken >= 0 || super::last_errno() != libc::EINTR {
                return;
            }
        }
    }
}

impl Drop for SigpipeGuard {
    fn drop(&mut self) {
        // SAFETY: the set was filled by the call that blocked, and the old mask is not asked for.
        let _ = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

fn set_of(signal: libc::c_int) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the pointer is valid for writing a set.
    let _ = unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the set has just been initialised.
    let _ = unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
    // SAFETY: initialised by sigemptyset above.
    unsafe { set.assume_init() }
}

fn sigpipe_is_pending() -> bool {
    let mut pending = set_of(libc::SIGPIPE);
    // SAFETY: the pointer is valid for writing a set.
    let done = unsafe { libc::sigpending(&raw mut pending) };
    // SAFETY: the set is initialised.
    done == 0 && unsafe { libc::sigismember(&raw const pending, libc::SIGPIPE) } == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::io::{pipe, read, set_nonblocking};
    use crate::sys::testing::{every_way, in_subprocess};
    use std::os::fd::AsFd;

    fn default_sigpipe() {
        // SAFETY: only called in a process of its own, with a constant disposition.
        let _ = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }

    fn broken_write(features: &Features) -> io::Error {
        let (reading, writing) = pipe().unwrap();
        drop(reading);
        writev_nosignal(writing.as_fd(), &[IoSlice::new(b"x")], features).unwrap_err()
    }

    #[test]
    fn slices_arrive_in_order() {
        for features in every_way() {
            let (reading, writing) = pipe().unwrap();
            let slices = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")];
            assert_eq!(writev_nosignal(writing.as_fd(), &slices, &features).unwrap(), 5);
            let mut got = [0; 16];
            assert_eq!(read(reading.as_fd(), &mut got).unwrap(), 5);
            assert_eq!(&got[..5], b"abcde");
            assert_eq!(writev_nosignal(writing.as_fd(), &[], &features).unwrap(), 0);
        }
    }

    #[test]
    fn too_many_slices_are_a_short_write() {
        for features in every_way() {
            let (_reading, writing) = pipe().unwrap();
            let slices = vec![IoSlice::new(b"x"); MAX_SLICES + 5];
            assert_eq!(writev_nosignal(writing.as_fd(), &slices, &features).unwrap(), MAX_SLICES);
        }
    }

    #[test]
    fn a_full_pipe_says_so() {
        for features in every_way() {
            let (_reading, writing) = pipe().unwrap();
            set_nonblocking(writing.as_fd(), true).unwrap();
            let block = vec![0; 1 << 20];
            assert!(writev_nosignal(writing.as_fd(), &[IoSlice::new(&block)], &features).unwrap() < block.len());
            let error = writev_nosignal(writing.as_fd(), &[IoSlice::new(&block)], &features).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn a_missing_reader_is_an_error_and_no_signal() {
        in_subprocess!({
            default_sigpipe();
            for features in every_way() {
                for _ in 0..3 {
                    assert_eq!(broken_write(&features).raw_os_error(), Some(libc::EPIPE));
                }
                assert!(!sigpipe_is_pending());
            }
        });
    }

    #[test]
    fn the_mask_is_as_before() {
        in_subprocess!({
            default_sigpipe();
            for features in every_way() {
                let _ = broken_write(&features);
                let mut mask = set_of(libc::SIGPIPE);
                // SAFETY: without a new set the call only writes the old one.
                let _ = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut mask) };
                // SAFETY: filled above.
                let answer = unsafe { libc::sigismember(&raw const mask, libc::SIGPIPE) };
                assert_eq!(answer, 0);
            }
        });
    }

    #[test]
    fn a_sigpipe_of_the_host_survives() {
        in_subprocess!({
            default_sigpipe();
            let held = SigpipeGuard::block();
            // SAFETY: blocked above, so it stays pending.
            let _ = unsafe { libc::raise(libc::SIGPIPE) };
            for features in every_way() {
                assert_eq!(broken_write(&features).raw_os_error(), Some(libc::EPIPE));
                assert!(sigpipe_is_pending());
            }
            held.swallow();
            assert!(!sigpipe_is_pending());
        });
    }
}
