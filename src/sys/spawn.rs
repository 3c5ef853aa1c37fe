//! Starting a child with pipes for its standard streams.
//!
//! `posix_spawn` and nothing else: the host is never forked, and no code of ours runs in the child. Every failure is the answer of
//! [`spawn`]; there is no child that exits with 127. The child gets descriptors 0, 1 and 2 and nothing else, default signal dispositions,
//! an empty signal mask and a process group of its own, which it leads by the time `spawn` returns. Where the C library cannot close the
//! rest (glibc before 2.34), descriptors that the host itself made inheritable pass through; ours never do.

use std::ffi::{CStr, CString, OsString, c_char};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::rc::Rc;

use super::features::{addclosefrom, addfchdir};
use super::io::{above_stdio, duplicate_number, pipe, set_nonblocking};
use super::path_search::{can_enter, explain, find};
use super::spawn_error::shown;
use super::spawn_plan::{Attributes, FileActions};
use super::{Error, Features, Process, SpawnError};

/// What to start.
#[derive(Debug, Clone)]
pub struct Command {
    /// A name to be searched in PATH or, with a slash in it, a path. Also the child's `argv[0]`.
    pub program: CString,
    /// The arguments after `argv[0]`.
    pub args: Vec<CString>,
    /// The whole environment, each as `NAME=value`.
    pub env: Rc<[CString]>,
    /// The host's PATH as captured earlier: searched if `env` has none.
    pub host_path: Option<OsString>,
    /// The child's working directory, from the host's if relative; `None` leaves the host's.
    pub cwd: Option<CString>,
    /// Where its standard error goes.
    pub stderr: StderrMode,
}

/// Where a child's standard error goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StderrMode {
    /// To us.
    #[default]
    Pipe,
    /// To the host's own, or nowhere if the host has none.
    Inherit,
    /// Nowhere.
    Null,
}

/// A child that was started. Our ends of the pipes do not block; the child's do.
#[derive(Debug)]
pub struct Child {
    /// The process and its group.
    pub process: Process,
    /// The writing end of its standard input.
    pub stdin: OwnedFd,
    /// The reading end of its standard output.
    pub stdout: OwnedFd,
    /// The reading end of its standard error, with [`StderrMode::Pipe`].
    pub stderr: Option<OwnedFd>,
}

/// Starts a child.
///
/// # Errors
///
/// See [`SpawnError`]. After an error there is no child, and no descriptor is left open.
pub fn spawn(command: &Command, features: &Features) -> Result<Child, SpawnError> {
    let of_command = |error: Error| SpawnError::from_call(&command.program, error.call, error.errno);

    let directory = open_directory(command, features)?;
    let base = directory.as_ref().map(AsFd::as_fd);
    let (file, place) = find(base, &command.program, &command.env, command.host_path.as_deref())?;

    // All descriptors are made before the child is, so that running out of them is found out while there is nobody to kill.
    let ours = Streams::new(command.stderr).map_err(of_command)?;
    let pid = launch(command, &file, base, &ours, features).map_err(|failed| match failed {
        Failed::Preparing(error) => of_command(error),
        Failed::Spawning(errno) => explain(base, &command.program, &file, place, errno),
    })?;

    // Watching the child takes one more descriptor. The child's ends, which are of no use here any more, have kept the room for it:
    // they go right before.
    let Streams { stdin, stdout, stderr, for_child } = ours;
    drop(for_child);
    drop(directory);
    let process = Process::adopt(pid, features).map_err(of_command)?;
    Ok(Child { process, stdin, stdout, stderr })
}

/// Opens the working directory, so that whatever `posix_spawn` says later is about the command and not about the directory.
fn open_directory(command: &Command, features: &Features) -> Result<Option<OwnedFd>, SpawnError> {
    let Some(name) = &command.cwd else {
        return Ok(None);
    };
    if !can_set_directory(features) {
        return Err(SpawnError::Unsupported { directory: shown(name), errno: libc::ENOTSUP });
    }
    let failed = |errno| SpawnError::from_directory(&command.program, name, errno);
    let directory = open(name, libc::O_PATH | libc::O_DIRECTORY).map_err(|error| failed(error.errno))?;
    can_enter(directory.as_fd()).map_err(failed)?;
    Ok(Some(directory))
}

/// Opens a file, close-on-exec and numbered 3 or higher.
fn open(name: &CStr, flags: libc::c_int) -> Result<OwnedFd, Error> {
    // SAFETY: the name is NUL-terminated, and without O_CREAT there is no third argument.
    let fd = unsafe { libc::open(name.as_ptr(), flags | libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(Error::last("open"));
    }
    // SAFETY: the call has just made this descriptor, and nobody else knows it.
    above_stdio(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Our ends, and the child's 0, 1 and 2 in that order.
struct Streams {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: Option<OwnedFd>,
    for_child: [OwnedFd; 3],
}

impl Streams {
    fn new(mode: StderrMode) -> Result<Streams, Error> {
        let (child_stdin, stdin) = pipe()?;
        let (stdout, child_stdout) = pipe()?;
        let (stderr, child_stderr) = match mode {
            StderrMode::Pipe => {
                let (reading, writing) = pipe()?;
                (Some(reading), writing)
            }
            StderrMode::Null => (None, nowhere()?),
            // A copy, since putting 2 in the place of 2 would keep a close-on-exec flag that the host may have set on it.
            StderrMode::Inherit => match duplicate_number(2) {
                Ok(copy) => (None, copy),
                Err(error) if error.errno == libc::EBADF => (None, nowhere()?),
                Err(error) => return Err(error),
            },
        };
        for end in [Some(&stdin), Some(&stdout), stderr.as_ref()].into_iter().flatten() {
            set_nonblocking(end.as_fd(), true).map_err(|_| Error::last("fcntl"))?;
        }
        Ok(Streams { stdin, stdout, stderr, for_child: [child_stdin, child_stdout, child_stderr] })
    }
}

fn nowhere() -> Result<OwnedFd, Error> {
    open(c"/dev/null", libc::O_RDWR)
}

enum Failed {
    Preparing(Error),
    Spawning(i32),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Preparing(error)
    }
}

fn launch(
    command: &Command,
    file: &CStr,
    base: Option<BorrowedFd<'_>>,
    streams: &Streams,
    features: &Features,
) -> Result<libc::pid_t, Failed> {
    let mut actions = FileActions::new()?;
    for (number, end) in (0..).zip(&streams.for_child) {
        actions.dup2(end.as_fd(), number)?;
    }
    if let (Some(directory), Some(add)) = (base, addfchdir()) {
        actions.add(add, directory.as_raw_fd())?;
    }
    if features.closefrom
        && let Some(add) = addclosefrom()
    {
        actions.add(add, 3)?;
    }
    let attributes = Attributes::new()?;

    let argv = pointers(std::iter::once(&command.program).chain(&command.args));
    let envp = pointers(command.env.iter());
    let mut pid = 0;
    // SAFETY: the file's name is NUL-terminated; both arrays end with a null pointer and point to strings that `command` keeps alive; the
    // two structures are initialised. The C library declares the strings as writable but does not write to them.
    let errno = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            file.as_ptr(),
            actions.as_ptr(),
            attributes.as_ptr(),
            argv.as_ptr(),
            envp.as_ptr(),
        )
    };
    if errno == 0 { Ok(pid) } else { Err(Failed::Spawning(errno)) }
}

fn pointers<'a>(strings: impl Iterator<Item = &'a CString>) -> Vec<*mut c_char> {
    strings.map(|string| string.as_ptr().cast_mut()).chain(std::iter::once(std::ptr::null_mut())).collect()
}

#[cfg(test)]
#[path = "spawn_error_tests.rs"]
mod error_tests;
#[cfg(test)]
#[path = "spawn_tests.rs"]
mod tests;

/// Whether a child can be started in another directory than the host's.
#[must_use]
pub fn can_set_directory(features: &Features) -> bool {
    features.addfchdir && addfchdir().is_some()
}
