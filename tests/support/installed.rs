//! The real servers that `./tests/all` installs, and the ways in which people start them.

#![allow(dead_code, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};

use crate::support::{MCP_SUPERVISED_MODE_MODERN, MCP_SUPERVISED_MODE_RAW, Spec, demo_server, lives, recorded};

/// How a server is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Its command itself.
    Direct,
    /// By a shell that waits for it: two processes.
    Wrapped,
    /// As `npx` does it, by a launcher that has a shell start it: three processes.
    Launched,
    /// In the place of a shell that has left something in the background, which holds the server's stdout and stderr.
    Beside,
}

impl Way {
    /// What stands in front of the server's command.
    fn prefix(self) -> &'static [&'static str] {
        match self {
            Self::Direct => &[],
            // The last command of a shell may take its place; this one is not the last.
            Self::Wrapped => &["/bin/sh", "-c", r#""$@"; exit $?"#, "wrapper"],
            Self::Launched => &["/bin/sh", "-c", r#"sh -c '"$@"; exit $?' shell "$@"; exit $?"#, "launcher"],
            Self::Beside => &["/bin/sh", "-c", r#"sleep 300 & exec "$@""#, "starter"],
        }
    }

    /// How many processes a life has.
    pub fn processes(self) -> usize {
        match self {
            Self::Direct => 1,
            Self::Wrapped | Self::Beside => 2,
            Self::Launched => 3,
        }
    }
}

/// An installed server in raw mode, `None` if nobody has installed it: `cargo test` alone needs nothing.
pub fn installed(name: &str, way: Way) -> Option<Spec> {
    Some(spec(&words(name, way)?).mode(MCP_SUPERVISED_MODE_RAW))
}

/// The same with the protocol client on, and with something between that records, if anything is to be recorded: for tests that
/// do not look at the process.
pub fn recorded_server(name: &str) -> Option<Spec> {
    let tee = recorded::before_others(demo_server()).unwrap_or_default();
    let tee = tee.into_iter().map(|word| word.into_bytes());
    Some(spec(&tee.chain(words(name, Way::Direct)?).collect::<Vec<_>>()).mode(MCP_SUPERVISED_MODE_MODERN))
}

fn spec(command: &[Vec<u8>]) -> Spec {
    command[1..].iter().fold(Spec::new(&command[0]), |spec, word| spec.arg(word))
}

/// Where `./tests/all` has installed the servers, `None` if nobody has run it: `cargo test` alone needs nothing.
pub fn servers() -> Option<PathBuf> {
    let servers = std::env::var_os("MCP_SUPERVISED_TEST_SERVERS").map(PathBuf::from);
    if servers.is_none() {
        println!("skipped: run ./tests/all, which installs the real servers");
    }
    servers
}

/// The words that start an installed server.
fn command(servers: &Path, name: &str) -> Vec<PathBuf> {
    let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/servers");
    let node = |file: &str| vec![PathBuf::from("node"), servers.join(file)];
    let reference = |packages: &str, name: &str| {
        node(&format!("{packages}/node_modules/@modelcontextprotocol/server-{name}/dist/index.js"))
    };
    let python = |environment: &str, file: &str| vec![servers.join(environment).join("bin/python"), sources.join(file)];
    let script = |environment: &str, name: &str| vec![servers.join(environment).join("bin").join(name)];
    match name {
        "ts2" => node("ts2/server.mjs"),
        "py2" => python("py2", "py2/server.py"),
        "rmcp3" => vec![servers.join("rmcp3/release/rmcp3")],
        "fastmcp" => python("python-modern", "fastmcp/server.py"),
        "time" => script("python-modern", "mcp-server-time"),
        "git" => script("python-modern", "mcp-server-git"),
        "fetch" => script("python-modern", "mcp-server-fetch"),
        "sqlite" => script("python-modern", "mcp-server-sqlite"),
        "ts1" => node("ts1/server.mjs"),
        "memory" => reference("ts1", "memory"),
        "everything" => reference("reference", "everything"),
        "filesystem" => reference("reference", "filesystem"),
        "seqthink" => reference("reference", "sequential-thinking"),
        "py1" => python("python-legacy", "py1/server.py"),
        "time-legacy" => script("python-legacy", "mcp-server-time"),
        "git-legacy" => script("python-legacy", "mcp-server-git"),
        "sqlite-legacy" => script("python-legacy", "mcp-server-sqlite"),
        "rmcp0" | "rmcp1" => vec![servers.join("rmcp-old/release").join(name)],
        other => panic!("no server {other}"),
    }
}

/// The words that start an installed server in that way, `None` if nobody has installed it.
fn words(name: &str, way: Way) -> Option<Vec<Vec<u8>>> {
    let command = command(&servers()?, name);
    let file = command.last().expect("a command has a program");
    assert!(file.exists(), "{} is missing", file.display());
    let words = way.prefix().iter().map(|word| word.as_bytes().to_vec());
    Some(words.chain(command.iter().map(|word| word.as_os_str().as_encoded_bytes().to_vec())).collect())
}

/// The living processes of a group, which has the number of its leader.
pub fn group(leader: i32) -> Vec<i32> {
    let in_it = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Behind the name: state, parent, group.
        let group = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(2)?.parse().ok());
        group == Some(leader) && lives(*pid)
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(in_it).collect()
}

/// A process and everything that descends from it, whatever its group.
pub fn tree(root: i32) -> Vec<i32> {
    let parent_of = |pid: i32| -> Option<i32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let all: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let parents: Vec<(i32, i32)> = all.into_iter().filter_map(|pid| Some((pid, parent_of(pid)?))).collect();
    let mut found = vec![root];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found
}
