//! Every server that the library is tried with, at the release it is pinned to: what it is, and what one can ask of it.

#![allow(dead_code, reason = "each test file uses its part")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use serde_json::{Value, json};

use crate::installed::{Way, installed};
use crate::support::{Scratch, Spec};

/// One server.
pub struct Pinned {
    /// What `installed` knows it by, or `demo`.
    pub name: &'static str,
    /// What it is, for people.
    pub package: &'static str,
    /// The revision it is found to speak.
    pub speaks: &'static str,
    /// A tool that changes nothing, and a part of its answer.
    pub call: (&'static str, Value, &'static str),
    /// A resource that can be subscribed to, or should be.
    pub uri: Option<&'static str>,
    /// What makes it tell its subscribers something.
    pub tells: Tells,
    /// Flags of the demo server.
    pub flags: &'static [&'static str],
}

/// What makes a server tell its subscribers something.
#[derive(Clone)]
pub enum Tells {
    /// Nothing it can be asked for.
    Nothing,
    /// Each call of a tool.
    EachCall(&'static str, Value),
    /// A call that switches it on; the next one switches it off.
    Switch(&'static str, Value),
}

impl Pinned {
    /// It as it was published, started directly, with what it needs to run. `None` if nobody has installed it.
    pub fn spec(&self, dir: &Scratch) -> Option<Spec> {
        if self.name.starts_with("demo") {
            return Some(Spec::demo(self.flags));
        }
        let spec = installed(self.name, Way::Direct)?;
        Some(match self.name {
            "filesystem" => {
                dir.data("file.txt", "what the file says\n");
                spec.arg(dir.name("."))
            }
            "memory" => spec.env("MEMORY_FILE_PATH", dir.name("memory.jsonl")),
            "sqlite" | "sqlite-legacy" => spec.arg("--db-path").arg(dir.name("data.sqlite")),
            "git" | "git-legacy" => {
                repository(dir);
                spec
            }
            // What it is asked for lies on this machine.
            "fetch" => spec.arg("--allow-private-ips"),
            _ => spec,
        })
    }

    /// The arguments of its call, in this place.
    pub fn arguments(&self, dir: &Scratch) -> Value {
        let mut arguments = self.call.1.clone();
        match self.name {
            "filesystem" => arguments["path"] = dir.name("file.txt").into(),
            "git" | "git-legacy" => arguments["repo_path"] = dir.name(".").into(),
            "fetch" => arguments["url"] = one_page().into(),
            _ => {}
        }
        arguments
    }
}

/// A repository with one commit.
fn repository(dir: &Scratch) {
    dir.data("file.txt", "x\n");
    for words in [
        &["init", "--quiet"][..],
        &["add", "file.txt"],
        &["-c", "user.name=n", "-c", "user.email=n@example.com", "commit", "--quiet", "-m", "the first commit"],
    ] {
        let done = Command::new("git").arg("-C").arg(dir.path()).args(words).status();
        assert!(done.is_ok_and(|status| status.success()), "git {words:?}");
    }
}

/// A web site of one page, for as long as this process lives. Its address.
fn one_page() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut asked = [0; 4096];
            let read = stream.read(&mut asked).unwrap_or(0);
            let (status, page) = match asked[..read].starts_with(b"GET / ") {
                true => ("200 OK", "<html><body><p>what the page says</p></body></html>"),
                false => ("404 Not Found", ""),
            };
            // Whoever goes away before it is answered does not want the answer.
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
                page.len()
            );
        }
    });
    format!("http://{address}/")
}

const COUNTER: Option<&str> = Some("mem://counter");

/// All of them, first those of which every run sees some.
pub fn pinned() -> Vec<Pinned> {
    let echo = || ("echo", json!({"message": "h\u{e9} \"\\"}), "h\u{e9} \\\"\\\\");
    let bump = || Tells::EachCall("bump", json!({}));
    let entity = json!({"entities": [{"name": "a", "entityType": "letter", "observations": []}]});
    let thought = json!({"thought": "so", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1});
    let now = || ("get_current_time", json!({"timezone": "UTC"}), "UTC");
    let log = || ("git_log", json!({"max_count": 1}), "the first commit");
    let query = || ("read_query", json!({"query": "SELECT 6 * 7 AS answer"}), "42");
    let server = |name, package, speaks, call| Pinned {
        name,
        package,
        speaks,
        call,
        uri: None,
        tells: Tells::Nothing,
        flags: &[],
    };
    let demo = |name, about, speaks, flags| Pinned {
        uri: COUNTER,
        tells: bump(),
        flags,
        ..server(name, about, speaks, echo())
    };
    vec![
        demo("demo", "the demo server", "2026-07-28", &[]),
        demo("demo-2025-11-25", "the same, `--legacy`", "2025-11-25", &["--legacy", "2025-11-25", "--strict"]),
        demo("demo-2025-06-18", "the same, `--legacy`", "2025-06-18", &["--legacy", "2025-06-18", "--strict"]),
        demo("demo-2025-03-26", "the same, `--legacy`", "2025-03-26", &["--legacy", "2025-03-26", "--strict"]),
        demo("demo-2024-11-05", "the same, `--legacy`", "2024-11-05", &["--legacy", "2024-11-05", "--strict"]),
        Pinned {
            uri: COUNTER,
            tells: bump(),
            ..server("ts2", "npm `@modelcontextprotocol/server` 2.4.0", "2026-07-28", echo())
        },
        Pinned { uri: COUNTER, tells: bump(), ..server("py2", "PyPI `mcp` 2.3.0", "2026-07-28", echo()) },
        Pinned { uri: COUNTER, tells: bump(), ..server("rmcp3", "crate `rmcp` 3.11.0", "2026-07-28", echo()) },
        Pinned { uri: COUNTER, ..server("fastmcp", "PyPI `fastmcp` 4.2.3", "2026-07-28", echo()) },
        server("time", "PyPI `mcp-server-time` 2026.10.19", "2026-07-28", now()),
        server("git", "PyPI `mcp-server-git` 2026.10.19", "2026-07-28", log()),
        server("fetch", "PyPI `mcp-server-fetch` 2026.10.24", "2026-07-28", ("fetch", json!({}), "what the page says")),
        Pinned {
            uri: COUNTER,
            tells: bump(),
            ..server("ts1", "npm `@modelcontextprotocol/sdk` 1.32.2", "2025-11-25", echo())
        },
        Pinned {
            uri: Some("memory://knowledge-graph"),
            tells: Tells::EachCall("create_entities", entity),
            ..server(
                "memory",
                "npm `@modelcontextprotocol/server-memory` 2026.8.31",
                "2025-11-25",
                ("read_graph", json!({}), "entities"),
            )
        },
        Pinned {
            uri: Some("demo://resource/dynamic/text/1"),
            tells: Tells::Switch("toggle-subscriber-updates", json!({})),
            ..server("everything", "npm `@modelcontextprotocol/server-everything` 2026.8.31", "2025-11-25", echo())
        },
        server(
            "filesystem",
            "npm `@modelcontextprotocol/server-filesystem` 2026.8.31",
            "2025-11-25",
            ("read_text_file", json!({}), "what the file says"),
        ),
        server(
            "seqthink",
            "npm `@modelcontextprotocol/server-sequential-thinking` 2026.8.31",
            "2025-11-25",
            ("sequentialthinking", thought, "thoughtNumber"),
        ),
        Pinned { uri: COUNTER, ..server("py1", "PyPI `mcp` 1.30.0", "2025-11-25", echo()) },
        server("time-legacy", "PyPI `mcp-server-time` 2025.9.25, `mcp` 1.30.0", "2025-11-25", now()),
        server("git-legacy", "PyPI `mcp-server-git` 2025.9.25, `mcp` 1.30.0", "2025-11-25", log()),
        server("sqlite-legacy", "PyPI `mcp-server-sqlite` 2025.4.25, `mcp` 1.30.0", "2025-11-25", query()),
        server("rmcp1", "crate `rmcp` 1.8.0", "2025-11-25", echo()),
        server("rmcp0", "crate `rmcp` 0.12.0", "2025-03-26", echo()),
    ]
}

/// The one that cannot start: an old release with an SDK that is too new for it.
pub fn broken() -> Pinned {
    Pinned {
        name: "sqlite",
        package: "PyPI `mcp-server-sqlite` 2025.4.25, `mcp` 2.3.0",
        speaks: "",
        call: ("", Value::Null, ""),
        uri: None,
        tells: Tells::Nothing,
        flags: &[],
    }
}
