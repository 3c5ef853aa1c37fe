//! The JSON reader of `examples-c/supervise`: what it makes of JSON, and that it takes nothing else.

#[path = "support/compiler.rs"]
mod compiler;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use compiler::{cc, run, scratch, strict};
use serde::de::IgnoredAny;
use serde_json::Value;

/// The driver, compiled once.
fn driver() -> &'static Path {
    static DRIVER: OnceLock<PathBuf> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = scratch("supervise-json-driver").join("driver");
        let mut compiler = strict(&cc(), "c11");
        compiler
            .args(["-Wconversion", "-Wshadow", "-g", "-o"])
            .arg(&program)
            .arg(root.join("tests/c/supervise_json.c"));
        compiler.args(["json.c", "text.c"].map(|part| root.join("examples-c/supervise").join(part)));
        run(&mut compiler);
        program
    })
}

/// What the reader makes of each line, `None` where it fails.
fn read(name: &str, lines: &[String], under: &[&str], arguments: &[&str]) -> Vec<Option<String>> {
    let input = scratch(&format!("supervise-json-{name}")).join("lines");
    fs::write(&input, lines.join("\n") + "\n").unwrap();
    let words: Vec<&str> = under.iter().copied().chain([driver().to_str().unwrap()]).collect();
    let answers = run(Command::new(words[0]).args(&words[1..]).args(arguments).stdin(File::open(input).unwrap()));
    let answers: Vec<Option<String>> =
        answers.lines().map(|line| (line != "FAILED").then(|| line.to_owned())).collect();
    assert_eq!(answers.len(), lines.len());
    answers
}

const VALID: [&str; 14] = [
    "{}",
    "[]",
    " \t[ ] ",
    "null",
    "true",
    "-0.5e+10",
    "[0,-1,10,1.25,1E9,2e-3]",
    r#""""#,
    r#""\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac\ud83d\ude00\u0000""#,
    r#"{"a":1,"a":2,"":{"b":[{"c":[]},{}]}}"#,
    r#" { "a" : [ 1 , "x" , null ] , "b" : { } } "#,
    r#"[[[[[[[["deep"]]]]]]]]"#,
    r#"{"type":"text","text":"caf\u00e9","isError":false,"n":12345678901234567890.5}"#,
    r#"[{"a":[{"b":[{"c":"d"}]}]},[[],[{}],""],true,false,null]"#,
];

#[test]
fn values_are_what_they_are() {
    let lines: Vec<String> = VALID.map(str::to_owned).to_vec();
    for (line, answer) in lines.iter().zip(read("values", &lines, &[], &[])) {
        let answer = answer.unwrap_or_else(|| panic!("{line}"));
        let (given, read): (Value, Value) =
            (serde_json::from_str(line).unwrap(), serde_json::from_str(&answer).unwrap());
        assert_eq!(given, read, "{line}");
    }
    let raw = "\"plain: é € 😀 \u{7f}\"".to_owned();
    assert_eq!(read("raw", std::slice::from_ref(&raw), &[], &[]), [Some(raw)]);
}

#[test]
fn half_a_pair_is_no_character() {
    for (line, text) in [
        (r#""\ud83d""#, "\"\u{fffd}\""),
        (r#""\ude00x""#, "\"\u{fffd}x\""),
        (r#""\ud83d\ud83d\ude00""#, "\"\u{fffd}😀\""),
        (r#""\ud83d\u0041""#, "\"\u{fffd}A\""),
        (r#""\ud83d\n""#, "\"\u{fffd}\\n\""),
    ] {
        assert_eq!(read("pairs", &[line.to_owned()], &[], &[]), [Some(text.to_owned())], "{line}");
    }
}

/// Every line that differs from a valid one in one place, and those with a byte less: what is accepted is what a JSON parser
/// accepts.
fn mutants() -> Vec<String> {
    let mut mutants = Vec::new();
    for line in VALID {
        for at in 0..line.len() {
            let (before, behind) = (&line[..at], &line[at + 1..]);
            mutants.push(format!("{before}{behind}"));
            for other in "\"\\{}[],: 0-.eutn\u{1}".chars() {
                mutants.push(format!("{before}{other}{behind}"));
                mutants.push(format!("{before}{other}{}", &line[at..]));
            }
        }
    }
    mutants.retain(|line| !line.is_empty());
    mutants
}

#[test]
fn it_accepts_what_is_json_and_nothing_else() {
    let lines = mutants();
    for (line, answer) in lines.iter().zip(read("mutants", &lines, &[], &[])) {
        // Whether an escape is half of a pair is not looked at by either of the two.
        let is_json = serde_json::from_str::<IgnoredAny>(line).is_ok();
        assert_eq!(answer.is_some(), is_json, "{line:?}: {answer:?}");
    }
}

#[test]
fn what_is_passed_over_may_be_nested_but_not_without_end() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    let lines = [
        nested(1000),
        objects(1000),
        nested(1001),
        objects(1001),
        nested(1_000_000),
        "[".repeat(1_000_000),
        format!("[{}1{}]", nested(999), nested(999)),
        format!("[{},{}]", nested(999), objects(999)),
    ];
    let answers: Vec<bool> = read("nested", &lines, &[], &["skip"]).iter().map(Option::is_some).collect();
    assert_eq!(answers, [true, true, false, false, false, false, false, true]);
}

#[test]
fn no_byte_beyond_the_end_is_read() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "valgrind is missing");
        println!("skipped: valgrind is not installed");
        return;
    }
    let some: Vec<String> = mutants().into_iter().step_by(97).chain(VALID.map(str::to_owned)).collect();
    read("valgrind", &some, &["valgrind", "-q", "--leak-check=full", "--error-exitcode=99"], &[]);
}
