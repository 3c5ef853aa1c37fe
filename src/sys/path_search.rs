//! Finding the file to run, and explaining afterwards why it did not run.
//!
//! `posix_spawnp` is of no use: it searches the host's PATH and ignores the one given to the child. Relative names and relative entries
//! of PATH are meant from the child's working directory, so everything is looked up relative to its descriptor.

use std::ffi::{CStr, CString, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use super::last_errno;
use super::spawn_error::{SpawnError, shown};

/// The directory that relative names start from: the child's, or the host's own where the child gets no other.
pub(super) type Base<'a> = Option<BorrowedFd<'a>>;

/// The file to hand to the kernel for `program`, and for error texts how it was come by.
///
/// A name with a slash is itself. Any other is searched in the PATH among `env` if there is one, else in `host_path`, and nowhere else. An
/// empty entry means the child's directory. As in execvp, an entry with a file that may not be run is passed over and remembered, so that
/// "not executable" is reported if nothing better follows.
pub(super) fn find(
    base: Base<'_>,
    program: &CStr,
    env: &[CString],
    host_path: Option<&OsStr>,
) -> Result<(CString, &'static str), SpawnError> {
    let name = program.to_bytes();
    if name.contains(&b'/') {
        return Ok((program.to_owned(), "given as a path"));
    }
    let not_found = |place| Err(SpawnError::CommandNotFound { command: shown(program), place, errno: libc::ENOENT });
    if name.is_empty() {
        return not_found("the name is empty");
    }
    let own = env.iter().find_map(|variable| variable.to_bytes().strip_prefix(b"PATH="));
    let (path, place) = match (own, host_path) {
        (Some(path), _) => (path, "searched in the PATH given to the command"),
        (None, Some(path)) => (path.as_bytes(), "searched in the host's PATH"),
        (None, None) => return not_found("there is no PATH"),
    };
    let mut forbidden = None;
    for entry in path.split(|byte| *byte == b':') {
        let Some(candidate) = join(entry, name) else {
            continue;
        };
        match look(base, &candidate) {
            Ok(Found::Executable) => return Ok((candidate, place)),
            Ok(Found::Directory | Found::Plain) | Err(libc::EACCES) => {
                forbidden.get_or_insert(candidate);
            }
            Err(_) => {}
        }
    }
    match forbidden {
        Some(candidate) => Err(explain(base, program, &candidate, place, libc::EACCES)),
        None => not_found(place),
    }
}

/// What the number that `posix_spawn` gave for `file` means. `place` says where the file came from.
pub(super) fn explain(base: Base<'_>, program: &CStr, file: &CStr, place: &'static str, errno: i32) -> SpawnError {
    let command = shown(file);
    match (errno, look(base, file)) {
        (libc::ENOENT | libc::ENOTDIR, Ok(_)) => SpawnError::InterpreterMissing { command, errno },
        (libc::ENOENT | libc::ENOTDIR, Err(_)) => SpawnError::CommandNotFound { command, place, errno },
        (libc::EACCES, Ok(Found::Directory)) => SpawnError::IsDirectory { command, errno },
        (libc::EACCES | libc::ENOEXEC, _) => SpawnError::NotExecutable { command, errno },
        _ => SpawnError::from_call(program, "posix_spawn", errno),
    }
}

/// `entry/name`, or nothing if that cannot be a path.
fn join(entry: &[u8], name: &[u8]) -> Option<CString> {
    let mut path = Vec::with_capacity(entry.len() + name.len() + 3);
    // An empty entry is written out: an interpreter that is handed a bare script name might search for it once more.
    path.extend_from_slice(if entry.is_empty() { b"." } else { entry });
    path.push(b'/');
    path.extend_from_slice(name);
    CString::new(path).ok()
}

enum Found {
    Executable,
    Plain,
    Directory,
}

fn look(base: Base<'_>, file: &CStr) -> Result<Found, i32> {
    let base = base.map_or(libc::AT_FDCWD, |base| base.as_raw_fd());
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the name is NUL-terminated and `stat` is a valid place for the answer.
    let done = unsafe { libc::fstatat(base, file.as_ptr(), stat.as_mut_ptr(), 0) };
    let kind = if done == 0 {
        // SAFETY: filled by the successful call.
        unsafe { stat.assume_init() }.st_mode & libc::S_IFMT
    } else {
        match last_errno() {
            // It is there; only its size or inode number does not fit into the structure of a 32-bit system.
            libc::EOVERFLOW => libc::S_IFREG,
            errno => return Err(errno),
        }
    };
    match kind {
        libc::S_IFDIR => return Ok(Found::Directory),
        libc::S_IFREG => {}
        _ => return Ok(Found::Plain),
    }
    // With the effective ids, since those are what the child is started with.
    // SAFETY: the name is NUL-terminated.
    let allowed = unsafe { libc::faccessat(base, file.as_ptr(), libc::X_OK, libc::AT_EACCESS) };
    Ok(if allowed == 0 { Found::Executable } else { Found::Plain })
}

/// Whether a directory opened by name can be entered. Opening it asks for less than entering it does.
pub(super) fn can_enter(directory: BorrowedFd<'_>) -> Result<(), i32> {
    look(Some(directory), c".").map(|_| ())
}
