//! Writes down what a client says, for whoever wants to judge it later: the lines of this process go to
//! `$DEMO_SERVER_RECORDED/REVISION/PID.jsonl`, each under the revision that the client speaks with that line.

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::process;
use crate::server::{self, Server};

const VARIABLE: &str = "DEMO_SERVER_RECORDED";
const MODERN: &str = "2026-07-28";

/// Where the lines of this process go; `None` if nobody wants them.
pub struct Recorder(PathBuf);

impl Recorder {
    pub fn from_environment() -> Option<Self> {
        std::env::var_os(VARIABLE).map(|folder| Self(folder.into()))
    }

    /// Writes a line down before it is obeyed, since it may be the last one. One that the server could not read is nobody's.
    pub fn line(&self, server: &Server, line: &[u8]) {
        let value = serde_json::from_slice::<Value>(line).unwrap_or_default();
        let revision = match (&server.options.legacy, value["method"].as_str()) {
            // It is of the revision that it offers, whatever the server speaks.
            (_, Some("initialize")) => value["params"]["protocolVersion"].as_str().unwrap_or(MODERN),
            (_, Some("server/discover")) => MODERN,
            (Some(legacy), _) if server.is_legacy() => legacy,
            _ => MODERN,
        };
        self.write(revision, line);
    }

    fn write(&self, revision: &str, line: &[u8]) {
        let folder = self.0.join(revision);
        if let Err(error) = fs::create_dir_all(&folder) {
            eprintln!("{}: {error}", folder.display());
        }
        server::append(&folder.join(format!("{}.jsonl", std::process::id())), &[line, b"\n"].concat());
    }
}

/// `--tee PROGRAM ARGUMENTS`: stands between a client of the modern era and another server, and records for it.
pub fn be_tee(arguments: &[std::ffi::OsString]) {
    let recorder = Recorder::from_environment();
    let [program, arguments @ ..] = arguments else { fail("--tee needs a program") };
    let mut server = match Command::new(program).args(arguments).stdin(Stdio::piped()).spawn() {
        Ok(server) => server,
        Err(error) => fail(&format!("--tee {}: {error}", program.display())),
    };
    let mut to_server = server.stdin.take();
    let mut from_client = process::own_stdin();
    let mut part = Vec::new();
    let mut bytes = vec![0; 64 * 1024];
    while let (Ok(count @ 1..), Some(pipe)) = (from_client.read(&mut bytes), &mut to_server) {
        part.extend_from_slice(&bytes[..count]);
        let whole = part.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for line in part[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            if let Some(recorder) = &recorder {
                recorder.write(MODERN, line);
            }
        }
        part.drain(..whole);
        if pipe.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    drop(to_server);
    match server.wait() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => fail(&format!("--tee: {error}")),
    }
}

fn fail(why: &str) -> ! {
    eprintln!("mcp-supervised-demo-server: {why}");
    std::process::exit(2);
}
