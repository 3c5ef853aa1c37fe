//! Puts down what the client's lines were, as servers do in the tests with real processes (`tests/support/recorded.rs` says why and
//! where). Params are made up here, so that only what the library adds to them is judged.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use serde_json::Value;

use crate::core::policy::Mode;

/// A client's lines on their way to a file, if anybody wants them.
#[derive(Debug)]
pub struct Recorder {
    folder: Option<PathBuf>,
    /// Requests whose `_meta` is the host's own.
    verbatim: BTreeSet<u64>,
}

impl Recorder {
    /// For a peer of that mode. Lines of the older revisions are judged where real servers record them, with their revision.
    pub fn of(mode: Mode) -> Self {
        let folder = std::env::var_os("MCP_SUPERVISED_TEST_RECORDED").filter(|_| mode == Mode::Modern);
        Self { folder: folder.map(PathBuf::from), verbatim: BTreeSet::new() }
    }

    /// What is put into the `_meta` of this request is not the library's affair.
    pub fn is_verbatim(&mut self, id: u64) {
        self.verbatim.insert(id);
    }

    /// A whole line, without its line feed.
    pub fn line(&self, line: &[u8]) {
        let Some(folder) = &self.folder else { return };
        let id = serde_json::from_slice::<Value>(line).ok().and_then(|line| line["id"].as_u64());
        let judged = if id.is_some_and(|id| self.verbatim.contains(&id)) { "envelope" } else { "stamped" };
        let folder = folder.join(judged).join("2026-07-28");
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("core-{}.jsonl", std::process::id()));
        let mut file = OpenOptions::new().append(true).create(true).open(file).unwrap();
        file.write_all(&[line, b"\n"].concat()).unwrap();
    }
}
