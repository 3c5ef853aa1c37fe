//! What the process looks like from inside. Reports are JSON in the text of the answer; bytes that are not UTF-8
//! appear as `\xNN`.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use serde_json::{Map, Value, json};

use super::{Call, say};
use crate::methods::Reply;
use crate::process;
use crate::server::Failure;

pub fn env(call: &Call) -> Reply {
    if call.flag("raw") == Some(true) {
        // The block as execve got it: the runtime's own view has lost the order and the entries that make no sense.
        let block = fs::read("/proc/self/environ").map_err(failed)?;
        let entries = block.strip_suffix(&[0]).unwrap_or(&block);
        let entries: Vec<String> =
            entries.split(|&byte| byte == 0).filter(|entry| !entry.is_empty()).map(readable).collect();
        return say(json!(entries).to_string());
    }
    if call.arguments.contains_key("name") {
        let value = std::env::var_os(call.text("name"));
        return say(json!(value.map(|value| readable(value.as_bytes()))).to_string());
    }
    let variables: Map<String, Value> = std::env::vars_os()
        .map(|(name, value)| (readable(name.as_bytes()), readable(value.as_bytes()).into()))
        .collect();
    say(Value::Object(variables).to_string())
}

pub fn args(_: &Call) -> Reply {
    let arguments: Vec<String> = std::env::args_os().map(|argument| readable(argument.as_bytes())).collect();
    say(json!(arguments).to_string())
}

pub fn cwd(_: &Call) -> Reply {
    let directory = std::env::current_dir().map_err(failed)?;
    say(readable(directory.as_os_str().as_bytes()))
}

pub fn fds(_: &Call) -> Reply {
    let directory = fs::read_dir("/proc/self/fd").map_err(failed)?;
    // Names first: an entry keeps the directory open, and its descriptor must be gone when the links are read.
    let names: Vec<_> = directory.filter_map(Result::ok).map(|entry| entry.file_name()).collect();
    let open: Map<String, Value> = names
        .iter()
        .filter_map(|name| {
            let target = fs::read_link(Path::new("/proc/self/fd").join(name)).ok()?;
            Some((readable(name.as_bytes()), readable(target.as_os_str().as_bytes()).into()))
        })
        .collect();
    say(Value::Object(open).to_string())
}

pub fn signals(_: &Call) -> Reply {
    let mut report = Map::new();
    let status = fs::read_to_string("/proc/self/status").map_err(failed)?;
    for line in status.lines() {
        if let Some((name, value)) = line.split_once(':')
            && ["SigBlk", "SigIgn", "SigCgt"].contains(&name)
        {
            report.insert(name.to_owned(), value.trim().into());
        }
    }
    // `pid (name) state ppid pgid sid …`, and the name may hold anything, brackets too.
    let stat = fs::read("/proc/self/stat").map_err(failed)?;
    let after_name = stat.iter().rposition(|&byte| byte == b')').map_or(&stat[..], |end| &stat[end + 1..]);
    let fields = String::from_utf8_lossy(after_name).into_owned();
    for (name, field) in ["ppid", "pgid", "sid"].into_iter().zip(fields.split_whitespace().skip(1)) {
        report.insert(name.to_owned(), field.parse::<i64>().unwrap_or(-1).into());
    }
    let ignored = process::IGNORED_AT_START.load(Ordering::Relaxed);
    report.insert("ignored_at_start".to_owned(), format!("{ignored:016x}").into());
    report.insert("pid".to_owned(), std::process::id().into());
    say(Value::Object(report).to_string())
}

fn failed(error: std::io::Error) -> Failure {
    Failure::new(-32603, error.to_string())
}

fn readable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}
