//! Which of the newer facilities may be used.
//!
//! The floor is Linux 5.10 with glibc 2.28, and seccomp filters and emulators take away more. Symbols of the C library are looked up at
//! run time; linking against them would make the library refuse to load. What the kernel can do is learned by trying: the first call that
//! is refused switches the facility off for the whole process. Each one can also be switched off from the environment, so that every
//! fallback can be tested on a new system.

use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// The environment variable with the names of the facilities to do without, separated by commas, or `all`.
pub const WITHOUT: &CStr = c"MCP_SUPERVISED_WITHOUT";

/// The facilities that may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a facility of its own; no combination is impossible")]
pub struct Features {
    /// Descriptors that tell the end of a process (Linux 5.3).
    pub pidfd: bool,
    /// Signalling a whole process group through such a descriptor (Linux 6.9).
    pub pidfd_group_signal: bool,
    /// Asking such a descriptor for an exit status that somebody else has fetched (Linux 6.15).
    pub pidfd_info: bool,
    /// A write that raises no SIGPIPE (Linux 6.18).
    pub rwf_nosignal: bool,
    /// Closing everything above 2 in a new child (glibc 2.34).
    pub closefrom: bool,
    /// Starting a child in another directory (glibc 2.29).
    pub addfchdir: bool,
    /// Memory that a forked child finds empty (Linux 4.14).
    pub wipe_on_fork: bool,
}

/// What this process has been refused once. Only bits are set here, nothing else depends on them, and setting one twice is harmless: hence
/// relaxed.
static REFUSED: AtomicU8 = AtomicU8::new(0);
const PIDFD: u8 = 1;
const GROUP_SIGNAL: u8 = 2;
const NOSIGNAL: u8 = 4;
const INFO: u8 = 8;

impl Features {
    /// All of them, whether this system has them or not.
    #[must_use]
    pub const fn all() -> Features {
        Features::every(true)
    }

    /// None: the fallback everywhere.
    #[must_use]
    pub const fn none() -> Features {
        Features::every(false)
    }

    const fn every(on: bool) -> Features {
        Features {
            pidfd: on,
            pidfd_group_signal: on,
            pidfd_info: on,
            rwf_nosignal: on,
            closefrom: on,
            addfchdir: on,
            wipe_on_fork: on,
        }
    }

    /// What this C library has, less what the environment says to do without.
    #[must_use]
    pub fn detect() -> Features {
        let mut features = Features::all();
        features.closefrom = addclosefrom().is_some();
        features.addfchdir = addfchdir().is_some();
        // SAFETY: the name is NUL-terminated. As with every reading of the environment, a host that changes it in another thread at
        // the same moment breaks its own promise to the C library.
        let list = unsafe { secure_getenv(WITHOUT.as_ptr()) };
        if list.is_null() {
            return features;
        }
        // SAFETY: a string of the environment, NUL-terminated, and only looked at before anything else can change it.
        let list = unsafe { CStr::from_ptr(list) };
        features.without(&list.to_string_lossy())
    }

    /// The same without those named in `list`. Unknown names mean nothing.
    #[must_use]
    pub fn without(mut self, list: &str) -> Features {
        for name in list.split(',').map(str::trim) {
            match name {
                "pidfd" => self.pidfd = false,
                "pidfd_group_signal" => self.pidfd_group_signal = false,
                "pidfd_info" => self.pidfd_info = false,
                "rwf_nosignal" => self.rwf_nosignal = false,
                "closefrom" => self.closefrom = false,
                "addfchdir" => self.addfchdir = false,
                "wipe_on_fork" => self.wipe_on_fork = false,
                "all" => self = Features::none(),
                _ => {}
            }
        }
        self
    }

    /// Allowed, and not refused so far.
    #[must_use]
    pub fn pidfd_usable(&self) -> bool {
        self.pidfd && !refused(PIDFD)
    }

    pub(super) fn pidfd_is_absent() {
        refuse(PIDFD);
    }

    pub(super) fn group_signal_usable(&self) -> bool {
        self.pidfd_group_signal && !refused(GROUP_SIGNAL)
    }

    pub(super) fn group_signal_is_absent() {
        refuse(GROUP_SIGNAL);
    }

    pub(super) fn info_usable(&self) -> bool {
        self.pidfd_info && !refused(INFO)
    }

    pub(super) fn info_is_absent() {
        refuse(INFO);
    }

    pub(super) fn rwf_nosignal_usable(&self) -> bool {
        self.rwf_nosignal && !refused(NOSIGNAL)
    }

    pub(super) fn rwf_nosignal_is_absent() {
        refuse(NOSIGNAL);
    }
}

fn refused(bit: u8) -> bool {
    REFUSED.load(Ordering::Relaxed) & bit != 0
}

fn refuse(bit: u8) {
    REFUSED.fetch_or(bit, Ordering::Relaxed);
}

unsafe extern "C" {
    // Not getenv: in a program that runs with more rights than its caller, the caller's environment must not choose our code paths.
    fn secure_getenv(name: *const c_char) -> *mut c_char;
}

/// Both functions we look up have this shape.
pub(super) type AddDescriptorAction =
    unsafe extern "C" fn(actions: *mut libc::posix_spawn_file_actions_t, fd: c_int) -> c_int;

/// `posix_spawn_file_actions_addclosefrom_np`.
pub(super) fn addclosefrom() -> Option<AddDescriptorAction> {
    static FOUND: OnceLock<Option<AddDescriptorAction>> = OnceLock::new();
    *FOUND.get_or_init(|| look_up(c"posix_spawn_file_actions_addclosefrom_np"))
}

/// `posix_spawn_file_actions_addfchdir_np`.
pub(super) fn addfchdir() -> Option<AddDescriptorAction> {
    static FOUND: OnceLock<Option<AddDescriptorAction>> = OnceLock::new();
    *FOUND.get_or_init(|| look_up(c"posix_spawn_file_actions_addfchdir_np"))
}

fn look_up(name: &CStr) -> Option<AddDescriptorAction> {
    // SAFETY: the name is NUL-terminated; the default handle stands for everything the program has loaded.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: a null pointer is None; any other is the C library's function of that name, whose declaration is the type above.
    unsafe { std::mem::transmute::<*mut libc::c_void, Option<AddDescriptorAction>>(found) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::testing::in_subprocess;

    #[test]
    fn names_switch_off_one_each() {
        let all = Features::all();
        assert_eq!(all.without("pidfd"), Features { pidfd: false, ..all });
        assert_eq!(all.without(" closefrom , addfchdir,"), Features { closefrom: false, addfchdir: false, ..all });
        assert_eq!(
            all.without("pidfd,pidfd_group_signal,pidfd_info,rwf_nosignal,closefrom,addfchdir,wipe_on_fork"),
            Features::none()
        );
        assert_eq!(all.without("all"), Features::none());
        assert_eq!(all.without("nonsense"), all);
        assert_eq!(all.without(""), all);
    }

    #[test]
    fn the_environment_is_read() {
        in_subprocess!(["MCP_SUPERVISED_WITHOUT" = "pidfd,rwf_nosignal"], {
            let features = Features::detect();
            assert!(!features.pidfd && !features.rwf_nosignal);
            assert!(features.pidfd_info && features.wipe_on_fork);
        });
    }

    #[test]
    fn a_refusal_is_remembered() {
        in_subprocess!({
            let features = Features::all();
            assert!(features.pidfd_usable() && features.group_signal_usable());
            Features::pidfd_is_absent();
            assert!(!features.pidfd_usable() && features.group_signal_usable());
            assert!(features.info_usable() && features.rwf_nosignal_usable());
        });
    }

    #[test]
    fn missing_symbols_are_none() {
        assert!(look_up(c"no_such_function_in_any_library").is_none());
    }
}
