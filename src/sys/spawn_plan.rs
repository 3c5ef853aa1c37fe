//! The two structures that `posix_spawn` takes: what is done to the child's descriptors, and to its signals and group.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::Error;
use super::features::AddDescriptorAction;

/// These calls return their error instead of leaving it in `errno`.
fn check(call: &'static str, errno: libc::c_int) -> Result<(), Error> {
    if errno == 0 { Ok(()) } else { Err(Error::new(call, errno)) }
}

/// What happens to the child's descriptors, in the order in which it was added.
///
/// On the heap, because the C library does not promise that an initialised one may be moved.
pub(super) struct FileActions(Box<libc::posix_spawn_file_actions_t>);

impl FileActions {
    pub(super) fn new() -> Result<FileActions, Error> {
        let mut raw = Box::new(MaybeUninit::<libc::posix_spawn_file_actions_t>::zeroed());
        // SAFETY: the pointer is valid for writing such a structure.
        let errno = unsafe { libc::posix_spawn_file_actions_init(raw.as_mut_ptr()) };
        check("posix_spawn_file_actions_init", errno)?;
        // SAFETY: initialised by the successful call.
        Ok(FileActions(unsafe { raw.assume_init() }))
    }

    /// The child finds `fd` under `number`. `fd` must be another number: some C libraries leave close-on-exec set if they are equal.
    pub(super) fn dup2(&mut self, fd: BorrowedFd<'_>, number: libc::c_int) -> Result<(), Error> {
        debug_assert!(fd.as_raw_fd() > 2);
        // SAFETY: the structure is initialised, and the call only records the two numbers.
        let errno = unsafe { libc::posix_spawn_file_actions_adddup2(&raw mut *self.0, fd.as_raw_fd(), number) };
        check("posix_spawn_file_actions_adddup2", errno)
    }

    /// One of the actions that are looked up at run time.
    pub(super) fn add(&mut self, action: AddDescriptorAction, fd: libc::c_int) -> Result<(), Error> {
        // SAFETY: the function has this signature, the structure is initialised, and the call only records the number.
        let errno = unsafe { action(&raw mut *self.0, fd) };
        check("posix_spawn_file_actions", errno)
    }

    pub(super) fn as_ptr(&self) -> *const libc::posix_spawn_file_actions_t {
        &raw const *self.0
    }
}

impl Drop for FileActions {
    fn drop(&mut self) {
        // SAFETY: initialised in `new` and not used afterwards.
        let _ = unsafe { libc::posix_spawn_file_actions_destroy(&raw mut *self.0) };
    }
}

/// A group of its own, an empty signal mask, and the default disposition for every signal, whatever the host has set.
pub(super) struct Attributes(Box<libc::posix_spawnattr_t>);

impl Attributes {
    pub(super) fn new() -> Result<Attributes, Error> {
        let mut raw = Box::new(MaybeUninit::<libc::posix_spawnattr_t>::zeroed());
        // SAFETY: the pointer is valid for writing such a structure.
        let errno = unsafe { libc::posix_spawnattr_init(raw.as_mut_ptr()) };
        check("posix_spawnattr_init", errno)?;
        // SAFETY: initialised by the successful call.
        let mut attributes = Attributes(unsafe { raw.assume_init() });
        attributes.fill()?;
        Ok(attributes)
    }

    fn fill(&mut self) -> Result<(), Error> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the pointer is valid for writing a set.
        let _ = unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: both structures are initialised; the set is copied.
        let errno = unsafe { libc::posix_spawnattr_setsigmask(&raw mut *self.0, set.as_ptr()) };
        check("posix_spawnattr_setsigmask", errno)?;
        // SAFETY: the pointer is valid for writing a set.
        let _ = unsafe { libc::sigfillset(set.as_mut_ptr()) };
        // SAFETY: both structures are initialised; the set is copied.
        let errno = unsafe { libc::posix_spawnattr_setsigdefault(&raw mut *self.0, set.as_ptr()) };
        check("posix_spawnattr_setsigdefault", errno)?;
        // SAFETY: the structure is initialised. Group 0 means one of the child's own.
        let errno = unsafe { libc::posix_spawnattr_setpgroup(&raw mut *self.0, 0) };
        check("posix_spawnattr_setpgroup", errno)?;
        let flags = libc::POSIX_SPAWN_SETPGROUP
            | libc::POSIX_SPAWN_SETSIGMASK
            | libc::POSIX_SPAWN_SETSIGDEF
            | SHARE_MEMORY_UNTIL_EXEC;
        // Small numbers, declared wider than the parameter that takes them.
        #[allow(clippy::cast_possible_truncation, reason = "all of them fit")]
        let flags = flags as libc::c_short;
        // SAFETY: the structure is initialised.
        let errno = unsafe { libc::posix_spawnattr_setflags(&raw mut *self.0, flags) };
        check("posix_spawnattr_setflags", errno)
    }

    pub(super) fn as_ptr(&self) -> *const libc::posix_spawnattr_t {
        &raw const *self.0
    }
}

/// What the C libraries in question do anyway; said for those that need to be asked.
#[cfg(target_env = "gnu")]
const SHARE_MEMORY_UNTIL_EXEC: libc::c_int = libc::POSIX_SPAWN_USEVFORK as libc::c_int;
#[cfg(not(target_env = "gnu"))]
const SHARE_MEMORY_UNTIL_EXEC: libc::c_int = 0;

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised in `new` and not used afterwards.
        let _ = unsafe { libc::posix_spawnattr_destroy(&raw mut *self.0) };
    }
}
