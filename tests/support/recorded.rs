//! Has servers write down what the library's protocol client told them, for `tests/schema.rs` to judge when the suite has run.
//!
//! The server does the writing, so that what is judged is what came through the pipe. Who starts a server in a mode in which the
//! library builds lines asks for it here; in raw mode every line is the host's own.

#![allow(dead_code, reason = "each test file uses its part")]

use std::path::PathBuf;

/// The folder for everything that is recorded; without it nothing is. `./tests/all` names one.
pub const FOLDER: &str = "MCP_SUPERVISED_TEST_RECORDED";

/// The variable by which the demo server knows where to write.
pub const OF_THE_SERVER: &str = "DEMO_SERVER_RECORDED";

/// How much of the lines of a server is as the revision wants it. A test in which the host gives nonsense says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// All of it.
    Whole,
    /// The envelope and `_meta`, which are the library's: the host's params are wrong on purpose.
    Stamped,
    /// The envelope: the `_meta` is the host's own, and wrong on purpose.
    Envelope,
}

impl Judged {
    /// Each is a folder of its own.
    pub const ALL: [Self; 3] = [Self::Whole, Self::Stamped, Self::Envelope];

    pub fn folder(self) -> Option<PathBuf> {
        let name = match self {
            Self::Whole => "whole",
            Self::Stamped => "stamped",
            Self::Envelope => "envelope",
        };
        let folder = PathBuf::from(std::env::var_os(FOLDER)?).join(name);
        std::fs::create_dir_all(&folder).expect("a folder for what is recorded");
        Some(folder)
    }
}

/// The command of a demo server whose lines are judged, for hosts that are programs of their own.
pub fn command(server: &str) -> Vec<String> {
    let Some(folder) = Judged::Whole.folder() else { return vec![server.to_owned()] };
    let folder = folder.to_str().expect("a folder with a plain name");
    vec!["/usr/bin/env".to_owned(), format!("{OF_THE_SERVER}={folder}"), server.to_owned()]
}

/// What stands before the command of a server that does not record, `None` if nothing is recorded.
pub fn before_others(demo_server: &str) -> Option<Vec<String>> {
    Judged::Whole.folder().map(|_| vec![demo_server.to_owned(), "--tee".to_owned()])
}
