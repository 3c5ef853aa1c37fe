//! Judges the lines that servers have recorded while the suite ran (`tests/support/recorded.rs`): every line that the library has
//! built must be one that the published schema of its revision allows.
//!
//! ```text
//! mcp-supervised-judge FOLDER      FOLDER/{whole,stamped,envelope}/REVISION/*.jsonl
//! ```
//!
//! Lines that `send` passed through are the host's alone; they are counted and not judged. What is left is judged as far as the
//! folder says: all of it, or without the params that a test made wrong on purpose, or without their `_meta` too. A run that has
//! not recorded enough of each method fails as well, so that nothing passes by being empty.
//!
//! The schemas are not part of the repository. They are looked for beside it, or where `MCP_SUPERVISED_SCHEMAS` says; without them
//! nothing is judged, which is a failure where `CI` is `true`.

mod schema;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use schema::{Judged, Line, Schema};

/// The least there must be of the newest revision, for each method and in all: a good part of what a whole suite records. A suite
/// that does not reach this is not the whole suite, or no longer tests what it did.
const AT_LEAST: [(&str, usize); 11] = [
    ("completion/complete", 10),
    ("notifications/cancelled", 200),
    ("prompts/get", 200),
    ("prompts/list", 300),
    ("resources/list", 15),
    ("resources/read", 100),
    ("resources/templates/list", 10),
    ("server/discover", 500),
    ("subscriptions/listen", 800),
    ("tools/call", 5_000),
    ("tools/list", 250),
];
const IN_ALL: usize = 10_000;
const NEWEST: &str = "2026-07-28";

/// How many wrong lines are shown.
const SHOWN: usize = 20;

#[derive(Default)]
struct Count {
    /// By method, a response under "(response)".
    methods: BTreeMap<String, usize>,
    /// By how much of them was judged.
    judged: BTreeMap<&'static str, usize>,
    passed_through: usize,
    wrong: Vec<String>,
}

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: mcp-supervised-judge FOLDER");
        return ExitCode::from(2);
    };
    match run(&folder) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all is well.
fn run(folder: &Path) -> Result<bool, String> {
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    for judged in Judged::ALL {
        for revision in names(&folder.join(judged.folder())) {
            let Some(schema) = Schema::of(&revision)? else { return Ok(true) };
            let count = counts.entry(revision.clone()).or_default();
            let place = folder.join(judged.folder()).join(&revision);
            for file in names(&place) {
                judge_file(&schema, judged, &place.join(file), count)?;
            }
        }
    }
    let mut is_well = true;
    for (revision, count) in &counts {
        let all: usize = count.methods.values().sum();
        let parts: Vec<String> = count.judged.iter().map(|(name, lines)| format!("{lines} {name}")).collect();
        println!("{revision}: {all} lines judged ({}); {} passed through", parts.join(", "), count.passed_through);
        for (method, lines) in &count.methods {
            println!("{lines:>9}  {method}");
        }
        for wrong in count.wrong.iter().take(SHOWN) {
            println!("{wrong}");
        }
        println!("{:>9}  wrong", count.wrong.len());
        is_well &= count.wrong.is_empty();
    }
    let newest = counts.remove(NEWEST).unwrap_or_default();
    let missing = too_few(&newest.methods);
    for text in &missing {
        println!("{text}");
    }
    Ok(is_well && missing.is_empty())
}

/// What was recorded too rarely.
fn too_few(methods: &BTreeMap<String, usize>) -> Vec<String> {
    let all: usize = methods.values().sum();
    let rare = AT_LEAST.iter().map(|(method, least)| (*method, methods.get(*method).copied().unwrap_or(0), *least));
    rare.chain([("lines", all, IN_ALL)])
        .filter(|(_, found, least)| found < least)
        .map(|(what, found, least)| format!("{NEWEST}: {found} of {what}, there must be {least} at least"))
        .collect()
}

fn judge_file(schema: &Schema, judged: Judged, file: &Path, count: &mut Count) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    for line in BufReader::new(fs::File::open(file).map_err(failed)?).split(b'\n') {
        let line = line.map_err(failed)?;
        match schema.judge(&line, judged) {
            Ok(Line::PassedThrough) => count.passed_through += 1,
            Ok(Line::Built(method)) => {
                *count.methods.entry(method).or_default() += 1;
                *count.judged.entry(judged.folder()).or_default() += 1;
            }
            Err(why) => {
                // Of a line of megabytes the beginning is enough.
                let line: String = String::from_utf8_lossy(&line).chars().take(400).collect();
                count.wrong.push(format!("{}: {line}\n    {why}", file.display()));
            }
        }
    }
    Ok(())
}

/// What is in a folder, in order; nothing if there is none.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
