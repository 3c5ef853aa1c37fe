//! Noticing that the process has been forked.
//!
//! A forked child shares the parent's epoll and pipes; anything it did with them would be done to the parent. Asking for the pid at every
//! entry costs a system call, so the answer is kept in a page which the kernel empties in the child.

use std::ptr::NonNull;

use super::Features;

/// Knows whether this process is the one that made it.
#[derive(Debug)]
pub struct ForkGuard(Kind);

#[derive(Debug)]
enum Kind {
    Page(Page),
    Pid(libc::pid_t),
}

impl ForkGuard {
    /// Made in the process that owns the handle. Falls back to comparing pids where the kernel will not empty a page.
    #[must_use]
    pub fn new(features: &Features) -> ForkGuard {
        let page = if features.wipe_on_fork { Page::new() } else { None };
        ForkGuard(page.map_or_else(|| Kind::Pid(own_pid()), Kind::Page))
    }

    /// Whether this is a forked child of the process that made the guard.
    #[must_use]
    #[inline]
    pub fn forked(&self) -> bool {
        match &self.0 {
            Kind::Page(page) => page.word() == 0,
            Kind::Pid(pid) => own_pid() != *pid,
        }
    }
}

fn own_pid() -> libc::pid_t {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::getpid() }
}

/// A page of its own holding one word that is not zero, except in a forked child.
#[derive(Debug)]
struct Page {
    start: NonNull<u32>,
    size: usize,
}

// SAFETY: the page belongs to this value alone, and after `new` it is only read until it is unmapped.
unsafe impl Send for Page {}
// SAFETY: as above; reading from several threads at once is harmless.
unsafe impl Sync for Page {}

impl Page {
    fn new() -> Option<Page> {
        // SAFETY: takes a constant and cannot touch memory.
        let size = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
        // SAFETY: a new anonymous mapping at an address the kernel chooses cannot disturb any other.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return None;
        }
        // Owned from here on, so that a refusal below unmaps it again.
        let page = Page { start: NonNull::new(address.cast())?, size };
        // SAFETY: the range is the mapping made above.
        let told = unsafe { libc::madvise(address, size, libc::MADV_WIPEONFORK) };
        if told != 0 {
            return None;
        }
        // SAFETY: the page is mapped writable, aligned, larger than a word, and nobody else knows it.
        unsafe { page.start.write_volatile(1) };
        Some(page)
    }

    #[inline]
    fn word(&self) -> u32 {
        // Volatile, because the compiler has seen the only write there is, and could otherwise skip the read.
        // SAFETY: mapped and initialised as long as `self` lives.
        unsafe { self.start.read_volatile() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`, to which no reference is left.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.size) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::testing::every_way;

    #[test]
    fn a_forked_child_knows_and_the_parent_is_not_disturbed() {
        for features in every_way() {
            let guard = ForkGuard::new(&features);
            assert!(!guard.forked());
            // SAFETY: the child only reads memory and leaves by _exit, which is allowed after a fork of a threaded process.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                let code = if guard.forked() { 42 } else { 1 };
                // SAFETY: ends the child without running anything of the parent's.
                unsafe { libc::_exit(code) };
            }
            assert!(pid > 0);
            let mut status = 0;
            // SAFETY: our own child, and a valid place for its status.
            let answer = unsafe { libc::waitpid(pid, &raw mut status, 0) };
            assert_eq!(answer, pid);
            assert_eq!(libc::WEXITSTATUS(status), 42);
            assert!(!guard.forked());
        }
    }

    #[test]
    fn it_can_move_between_threads() {
        let guard = ForkGuard::new(&Features::detect());
        assert!(!std::thread::spawn(move || guard.forked()).join().unwrap());
    }
}
