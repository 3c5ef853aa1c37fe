//! Why a child could not be started, in words.
//!
//! The C library answers with one number, and the same number for quite different things. The variants tell them apart and name the
//! command or the directory. The values of arguments and of environment variables never appear here: these texts end up in logs. (The
//! path of a file found through PATH does, since an error about a file must say which.)

use std::ffi::CStr;

use super::describe;

/// Why a child could not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpawnError {
    /// There is no such program.
    #[error("command not found: {command} ({place}): {}", describe(*.errno))]
    CommandNotFound {
        /// The command as given.
        command: String,
        /// Where it was looked for.
        place: &'static str,
        /// `ENOENT` or `ENOTDIR`.
        errno: i32,
    },
    /// The file is there, but the interpreter that its first line names, or its loader, is not.
    #[error("the interpreter of {command} is missing: {}", describe(*.errno))]
    InterpreterMissing {
        /// The file that was to be run.
        command: String,
        /// `ENOENT` or `ENOTDIR`.
        errno: i32,
    },
    /// The file is there, but cannot be run.
    #[error("not executable: {command}: {}", describe(*.errno))]
    NotExecutable {
        /// The file that was to be run.
        command: String,
        /// `EACCES`: no permission. `ENOEXEC`: neither a program nor a script with a `#!` line.
        errno: i32,
    },
    /// The command is a directory.
    #[error("the command is a directory: {command}: {}", describe(*.errno))]
    IsDirectory {
        /// The directory.
        command: String,
        /// `EACCES`.
        errno: i32,
    },
    /// The working directory does not exist.
    #[error("working directory missing: {directory}: {}", describe(*.errno))]
    DirectoryMissing {
        /// The directory as given.
        directory: String,
        /// `ENOENT`.
        errno: i32,
    },
    /// The working directory is something else.
    #[error("working directory is not a directory: {directory}: {}", describe(*.errno))]
    DirectoryNotADirectory {
        /// The directory as given.
        directory: String,
        /// `ENOTDIR`.
        errno: i32,
    },
    /// The working directory cannot be entered.
    #[error("working directory cannot be entered: {directory}: {}", describe(*.errno))]
    DirectoryNotAccessible {
        /// The directory as given.
        directory: String,
        /// `EACCES`, mostly.
        errno: i32,
    },
    /// The process or the system has too many files open.
    #[error("no descriptors left to start {command}: {}", describe(*.errno))]
    Descriptors {
        /// The command as given.
        command: String,
        /// `EMFILE` or `ENFILE`.
        errno: i32,
    },
    /// No memory, or no more processes are allowed.
    #[error("no memory or processes left to start {command}: {}", describe(*.errno))]
    Resources {
        /// The command as given.
        command: String,
        /// `EAGAIN` or `ENOMEM`.
        errno: i32,
    },
    /// Arguments and environment are too long together, or one of them is.
    #[error("arguments or environment too long for {command}: {}", describe(*.errno))]
    ArgumentsTooLong {
        /// The command as given.
        command: String,
        /// `E2BIG`.
        errno: i32,
    },
    /// This C library cannot start a child in another directory.
    #[error("this C library cannot start a command in another directory: {directory}: {}", describe(*.errno))]
    Unsupported {
        /// The directory as given.
        directory: String,
        /// `ENOTSUP`.
        errno: i32,
    },
    /// Anything else.
    #[error("cannot start {command}: {call}: {}", describe(*.errno))]
    Other {
        /// The command as given.
        command: String,
        /// The call that failed.
        call: &'static str,
        /// What it said.
        errno: i32,
    },
}

impl SpawnError {
    /// The system's number for it.
    #[must_use]
    #[cfg(test)]
    pub fn errno(&self) -> i32 {
        match self {
            SpawnError::CommandNotFound { errno, .. }
            | SpawnError::InterpreterMissing { errno, .. }
            | SpawnError::NotExecutable { errno, .. }
            | SpawnError::IsDirectory { errno, .. }
            | SpawnError::DirectoryMissing { errno, .. }
            | SpawnError::DirectoryNotADirectory { errno, .. }
            | SpawnError::DirectoryNotAccessible { errno, .. }
            | SpawnError::Descriptors { errno, .. }
            | SpawnError::Resources { errno, .. }
            | SpawnError::ArgumentsTooLong { errno, .. }
            | SpawnError::Unsupported { errno, .. }
            | SpawnError::Other { errno, .. } => *errno,
        }
    }

    /// For a call that is about neither the file nor the directory.
    pub(super) fn from_call(command: &CStr, call: &'static str, errno: i32) -> SpawnError {
        let command = shown(command);
        match errno {
            libc::EMFILE | libc::ENFILE => SpawnError::Descriptors { command, errno },
            libc::EAGAIN | libc::ENOMEM => SpawnError::Resources { command, errno },
            libc::E2BIG => SpawnError::ArgumentsTooLong { command, errno },
            _ => SpawnError::Other { command, call, errno },
        }
    }

    /// For a working directory that could not be opened or entered.
    pub(super) fn from_directory(command: &CStr, directory: &CStr, errno: i32) -> SpawnError {
        match errno {
            libc::EMFILE | libc::ENFILE | libc::ENOMEM => SpawnError::from_call(command, "open", errno),
            libc::ENOENT => SpawnError::DirectoryMissing { directory: shown(directory), errno },
            libc::ENOTDIR => SpawnError::DirectoryNotADirectory { directory: shown(directory), errno },
            _ => SpawnError::DirectoryNotAccessible { directory: shown(directory), errno },
        }
    }
}

/// A name as it may appear in a line of text: what is not UTF-8 replaced, control characters escaped.
pub(super) fn shown(name: &CStr) -> String {
    let mut text = String::new();
    for character in name.to_string_lossy().chars() {
        if character.is_control() {
            text.extend(character.escape_default());
        } else {
            text.push(character);
        }
    }
    if text.is_empty() { "(empty name)".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_the_thing_and_the_number() {
        let error = SpawnError::from_directory(c"x", c"/no\nwhere", libc::ENOENT);
        assert_eq!(error.to_string(), "working directory missing: /no\\nwhere: No such file or directory (2)");
        assert_eq!(error.errno(), libc::ENOENT);
        let error = SpawnError::from_call(c"x", "pipe2", libc::EMFILE);
        assert_eq!(error.to_string(), "no descriptors left to start x: Too many open files (24)");
    }

    #[test]
    fn names_that_are_not_text_are_shown() {
        assert_eq!(shown(c"a\xffb"), "a\u{fffd}b");
        assert_eq!(shown(c""), "(empty name)");
    }
}
