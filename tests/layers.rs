//! The sources keep to their layers: `ffi -> reactor -> {core, sys}`, `core -> scan`, and `scan` and `sys` know nobody. What the
//! compiler does not check is read here from the text, with comments, strings and test code taken out.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Who may name whom. `ffi` converts what the layers below speak of, so it may name types of all of them; from `sys` and `scan`
/// only those listed in `OF_FFI`, because calling there would go past the reactor.
const LAYERS: [(&str, &[&str]); 5] = [
    ("ffi", &["reactor", "core", "sys", "scan"]),
    ("reactor", &["core", "sys"]),
    ("core", &["scan"]),
    ("scan", &[]),
    ("sys", &[]),
];

/// What `ffi` may name of `sys` and `scan`: the fork check of the guard, and types that are converted.
const OF_FFI: [&str; 4] =
    ["crate::sys::Features", "crate::sys::ForkGuard", "crate::sys::StderrMode", "crate::scan::Span"];

/// What a core without descriptors, clocks and threads cannot need.
const NOT_IN_CORE: [&str; 8] =
    ["libc", "mio", "signal_hook", "std::fs", "std::os", "std::process", "std::thread", "std::time"];

/// Where `unsafe` may stand.
const WITH_UNSAFE: [&str; 3] = ["sys", "scan", "ffi"];

const MOST_LINES: usize = 600;

/// One source file.
struct Source {
    /// Below `src`.
    path: PathBuf,
    text: String,
    /// The text with comments and literals blanked and test code removed; lines stay where they are.
    code: String,
    /// Compiled for tests only.
    is_test: bool,
}

impl Source {
    /// The directory or file right below `src` that it belongs to: "core", "lib".
    fn layer(&self) -> String {
        let first = self.path.components().next().expect("a file has a name");
        Path::new(&first).file_stem().expect("it has a stem").to_string_lossy().into_owned()
    }

    /// The path of its module, for `self` and `super`: ["core", "peer"].
    fn module(&self) -> Vec<String> {
        let mut module: Vec<String> =
            self.path.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if module.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
            module.pop();
        }
        module
    }

    fn paths(&self) -> BTreeSet<String> {
        paths(&self.code, &self.module())
    }
}

fn sources() -> Vec<Source> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            if entry.path().is_dir() {
                walk(&entry.path(), found);
            } else if entry.path().extension().is_some_and(|extension| extension == "rs") {
                found.push(entry.path());
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    walk(&root, &mut found);
    found.sort();
    let mut tests: Vec<PathBuf> = Vec::new();
    let mut all: Vec<Source> = found
        .into_iter()
        .map(|file| {
            let text = fs::read_to_string(&file).unwrap();
            let path = file.strip_prefix(&root).unwrap().to_path_buf();
            let blanked = blank(&text);
            let (code, modules) = without_tests(&blanked, &text);
            let dir = match path.file_stem().unwrap().to_str().unwrap() {
                "mod" | "lib" | "main" => path.parent().unwrap().to_path_buf(),
                _ => path.with_extension(""),
            };
            // A file named by an attribute lies beside the one that names it.
            tests.extend(modules.into_iter().map(|module| match module.strip_suffix(".rs") {
                Some(beside) => path.parent().unwrap().join(beside),
                None => dir.join(module),
            }));
            Source { path, text, code, is_test: false }
        })
        .collect();
    for source in &mut all {
        source.is_test = tests.iter().any(|test| source.path.with_extension("").starts_with(test));
    }
    all
}

/// Replaces what is in comments, strings and characters by blanks. Line feeds stay.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let in_word = at > 0 && is_word(bytes[at - 1]);
        let end = if rest.starts_with(b"//") {
            at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            at + block_comment(rest)
        } else if let Some(hashes) =
            raw_string(rest).filter(|_| !in_word || bytes[at - 1] == b'b' || bytes[at - 1] == b'c')
        {
            let close = format!("\"{}", "#".repeat(hashes));
            let body = at + hashes + 2;
            body + text[body..].find(&close).expect("a raw string ends") + close.len()
        } else if rest[0] == b'"' {
            at + quoted(rest, b'"')
        } else if rest[0] == b'\'' && is_character(text, at) {
            at + quoted(rest, b'\'')
        } else {
            at += 1;
            continue;
        };
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    String::from_utf8(out).expect("whole characters were blanked")
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The length of a block comment; they nest.
fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    loop {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
}

/// The number of `#` of a raw string that begins here.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let behind = rest.strip_prefix(b"r")?;
    let hashes = behind.iter().take_while(|byte| **byte == b'#').count();
    (behind.get(hashes) == Some(&b'"')).then_some(hashes)
}

/// The length of a literal in quotes.
fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// Whether the quote opens a character, and not a lifetime.
fn is_character(text: &str, at: usize) -> bool {
    let mut behind = text[at + 1..].chars();
    matches!((behind.next(), behind.next()), (Some('\\'), _) | (Some(_), Some('\'')))
}

/// The marks of what is there for tests and fuzzers only.
const FOR_TESTS: [&str; 3] = ["#[cfg(test)]", "#[cfg(any(test, fuzzing))]", "#[cfg(fuzzing)]"];

/// Takes out the items behind such a mark, and names the modules among them that are files of their own: by their name, or by
/// the file if an attribute names it.
fn without_tests(code: &str, text: &str) -> (String, Vec<String>) {
    let mut out = code.to_owned();
    let mut modules = Vec::new();
    while let Some((start, mark)) = FOR_TESTS.iter().find_map(|mark| Some((out.find(mark)?, mark.len()))) {
        let mut at = start + mark;
        let mut file = None;
        loop {
            at += out[at..].len() - out[at..].trim_start().len();
            if !out[at..].starts_with("#[") {
                break;
            }
            let end = at + out[at..].find(']').expect("an attribute ends") + 1;
            // The name is a literal, which only the text still has.
            if out[at..end].starts_with("#[path") {
                file = text[at..end].split('"').nth(1).map(str::to_owned);
            }
            at = end;
        }
        let open = out[at..].find('{').unwrap_or(usize::MAX);
        let semicolon = out[at..].find(';').unwrap_or(usize::MAX);
        let end = if semicolon < open {
            let item = &out[at..at + semicolon];
            if let Some(name) = item.trim_start_matches("pub ").trim_start_matches("pub(crate) ").strip_prefix("mod ") {
                modules.push(file.unwrap_or_else(|| name.trim().to_owned()));
            }
            at + semicolon + 1
        } else {
            let mut depth = 0;
            let body = &out[at + open..];
            let length = body.char_indices().find_map(|(at, c)| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                (depth == 0).then_some(at + 1)
            });
            at + open + length.expect("braces match")
        };
        let blanked: String = out[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        out.replace_range(start..end, &blanked);
    }
    (out, modules)
}

/// Words, `::` and single marks.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if first.is_alphanumeric() || first == '_' {
            rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

/// Every path of more than one part that the code names, imports unfolded, `self` and `super` at its beginning resolved.
fn paths(code: &str, module: &[String]) -> BTreeSet<String> {
    let tokens = tokens(code);
    let mut found = BTreeSet::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at] == "use" {
            at = unfold(&tokens, at + 1, &[], &mut found);
        } else if is_word(tokens[at].as_bytes()[0]) && tokens.get(at + 1) == Some(&"::") {
            let mut path = vec![tokens[at]];
            while tokens.get(at + 1) == Some(&"::")
                && tokens.get(at + 2).is_some_and(|next| is_word(next.as_bytes()[0]))
            {
                path.push(tokens[at + 2]);
                at += 2;
            }
            found.insert(path.join("::"));
            at += 1;
        } else {
            at += 1;
        }
    }
    found.iter().map(|path| resolve(path, module)).collect()
}

/// One tree of an import; gives where it ends.
fn unfold<'a>(tokens: &[&'a str], mut at: usize, before: &[&'a str], found: &mut BTreeSet<String>) -> usize {
    let mut path = before.to_vec();
    loop {
        match tokens[at] {
            "::" => at += 1,
            "{" => {
                at += 1;
                while tokens[at] != "}" {
                    at = unfold(tokens, at, &path, found);
                    if tokens[at] == "," {
                        at += 1;
                    }
                }
                return at + 1;
            }
            "as" => at += 2,
            "," | "}" | ";" => {
                found.insert(path.join("::"));
                return at;
            }
            "self" if !path.is_empty() => at += 1,
            part => {
                path.push(part);
                at += 1;
            }
        }
    }
}

fn resolve(path: &str, module: &[String]) -> String {
    let mut parts: Vec<&str> = path.split("::").collect();
    let mut here: Vec<&str> = module.iter().map(String::as_str).collect();
    if !matches!(parts[0], "self" | "super") {
        return path.to_owned();
    }
    while let Some(first) = parts.first() {
        match *first {
            "self" => {}
            "super" => drop(here.pop()),
            _ => break,
        }
        parts.remove(0);
    }
    ["crate"].into_iter().chain(here).chain(parts).collect::<Vec<_>>().join("::")
}

fn is_below(path: &str, top: &str) -> bool {
    path == top || path.strip_prefix(top).is_some_and(|rest| rest.starts_with("::"))
}

#[test]
fn every_layer_names_only_what_lies_below_it() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test) {
        let layer = source.layer();
        let Some((_, below)) = LAYERS.iter().find(|(name, _)| *name == layer) else {
            continue;
        };
        for path in source.paths() {
            let Some((other, _)) = LAYERS.iter().find(|(name, _)| is_below(&path, &format!("crate::{name}"))) else {
                continue;
            };
            let past_the_reactor = layer == "ffi" && ["sys", "scan"].contains(other);
            if *other != layer && !below.contains(other)
                || past_the_reactor && !OF_FFI.iter().any(|allowed| is_below(&path, allowed))
            {
                wrong.push(format!("{}: {path}", source.path.display()));
            }
        }
        // Through the root everything could be had.
        if source.paths().contains("crate::*") {
            wrong.push(format!("{}: crate::*", source.path.display()));
        }
    }
    assert!(wrong.is_empty(), "against the layers:\n{}", wrong.join("\n"));
}

#[test]
fn every_source_belongs_to_a_layer() {
    let known = ["lib", "bin", "ffi", "reactor", "core", "scan", "sys"];
    for source in sources() {
        assert!(known.contains(&source.layer().as_str()), "{}", source.path.display());
    }
}

#[test]
fn the_core_knows_no_system() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| source.layer() == "core" && !source.is_test) {
        for path in source.paths() {
            if NOT_IN_CORE.iter().any(|bad| is_below(&path, bad)) || path == "std::*" {
                wrong.push(format!("{}: {path}", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "the core is told what happens, it does not look:\n{}", wrong.join("\n"));
}

#[test]
fn unsafe_stands_where_it_belongs_and_says_why() {
    let mut wrong = Vec::new();
    // The demo server is a program of its own, for tests.
    for source in sources().iter().filter(|source| source.layer() != "bin") {
        let may = WITH_UNSAFE.contains(&source.layer().as_str());
        let code = if source.is_test { blank(&source.text) } else { source.code.clone() };
        let text: Vec<&str> = source.text.lines().collect();
        for (number, line) in code.lines().enumerate() {
            let words = tokens(line);
            for (at, _) in words.iter().enumerate().filter(|(_, word)| **word == "unsafe") {
                if !may && !source.is_test {
                    wrong.push(format!("{}:{}: no unsafe in this layer", source.path.display(), number + 1));
                }
                if matches!(words.get(at + 1), Some(&"{" | &"impl")) && !is_explained(&text, number) {
                    wrong.push(format!("{}:{}: no SAFETY comment", source.path.display(), number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether the comment before this line, or before the statement it is the second or third line of, says SAFETY.
fn is_explained(text: &[&str], line: usize) -> bool {
    let is_comment = |line: usize| text[line].trim_start().starts_with("//");
    let first = line.saturating_sub(3);
    let Some(last) = (first..line).rev().find(|line| is_comment(*line)) else {
        return false;
    };
    (0..=last).rev().take_while(|line| is_comment(*line)).any(|line| text[line].contains("SAFETY:"))
}

#[test]
fn no_source_grows_out_of_one_subject() {
    for source in sources() {
        let lines = source.text.lines().count();
        assert!(lines <= MOST_LINES, "{} has {lines} lines, {MOST_LINES} at most", source.path.display());
    }
}

#[test]
fn the_reader_of_sources_sees_through_their_syntax() {
    let source = r###"
        use std::{fs::{self, File}, io as other, fmt::Write as _};
        use super::super::sys::{Pipe, io};
        pub use self::inner::*;
        // use mio::Poll;
        /* libc::read /* nested */ still out */
        const A: &str = "std::process::exit \" std::time";
        const B: &[u8] = br#"std::thread "quoted" "#;
        const C: char = '"'; const D: char = '\'';
        fn borrow<'a>(at: &'a str) -> Option<std::os::fd::RawFd> { None::<i32>; crate::scan::find(at) }
        #[cfg(test)]
        #[path = "flow_tests.rs"]
        mod flow;
        #[cfg(test)]
        mod tests { use mio::Poll; fn f() { libc::abort() } }
        #[cfg(test)]
        mod slow;
        struct After(std::cell::Cell<u8>);
    "###;
    let (code, modules) = without_tests(&blank(source), source);
    assert_eq!(code.lines().count(), source.lines().count());
    assert_eq!(modules, ["flow_tests.rs", "slow"]);
    let found = paths(&code, &["core".to_owned(), "peer".to_owned()]);
    let wanted = [
        "None",
        "crate::core::peer::inner::*",
        "crate::scan::find",
        "crate::sys::Pipe",
        "crate::sys::io",
        "std::cell::Cell",
        "std::fmt::Write",
        "std::fs",
        "std::fs::File",
        "std::io",
        "std::os::fd::RawFd",
    ];
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), wanted);
}
