//! Everything this library asks of the kernel and the C library, one family of calls per file.
//!
//! Nothing here decides anything about servers, messages or restarts, and nothing here knows the rest of the crate. Descriptors are
//! `OwnedFd` from the first line after the call that made them and `BorrowedFd` in every signature. No process-wide state of the host is
//! changed, with one exception that has to be asked for: [`SigchldBell`].

mod clock;
pub mod env;
mod eventfd;
mod features;
mod fork_guard;
pub mod io;
mod path_search;
mod process;
mod sigchld;
mod spawn;
mod spawn_error;
mod spawn_plan;
mod timerfd;
mod write;

#[cfg(test)]
mod refusal_tests;
#[cfg(test)]
mod testing;

pub use clock::monotonic_ns;
pub use eventfd::Eventfd;
pub use features::Features;
pub use fork_guard::ForkGuard;
pub use process::{Exit, Peek, Process, Signalled};
pub use sigchld::SigchldBell;
pub use spawn::{Child, Command, StderrMode, can_set_directory, spawn};
pub use spawn_error::SpawnError;
pub use timerfd::Timer;
pub use write::{MAX_SLICES, writev_nosignal};

/// A call that failed, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {}", describe(*.errno))]
pub struct Error {
    /// The name of the call.
    pub call: &'static str,
    /// What it left in `errno`.
    pub errno: i32,
}

impl Error {
    fn new(call: &'static str, errno: i32) -> Error {
        Error { call, errno }
    }

    /// The error of the call that has just failed.
    fn last(call: &'static str) -> Error {
        Error::new(call, last_errno())
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> std::io::Error {
        std::io::Error::from_raw_os_error(error.errno)
    }
}

/// The system's text for an error number, followed by the number: `Too many open files (24)`.
#[must_use]
pub fn describe(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    // std appends "(os error 24)"; the number alone is enough, and it is the same in every language.
    let text = text.rsplit_once(" (os error").map_or(text.as_str(), |(text, _)| text);
    format!("{text} ({errno})")
}

fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_call_and_the_number() {
        let error = Error::new("pipe2", libc::EMFILE);
        assert_eq!(error.to_string(), "pipe2: Too many open files (24)");
        assert_eq!(std::io::Error::from(error).raw_os_error(), Some(libc::EMFILE));
    }

    #[test]
    fn an_unknown_number_is_still_described() {
        assert!(describe(9999).ends_with("(9999)"));
    }
}
