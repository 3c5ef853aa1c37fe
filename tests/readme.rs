//! The programs of README.md, in every language: each is taken from there as it stands, built and run with the commands that stand
//! below it, against a server that is called what they call it.

#[path = "support/c.rs"]
#[allow(dead_code, reason = "this file uses its part")]
mod c;
#[path = "support/compiler.rs"]
mod compiler;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use c::{CHost, host_dir, source};
use compiler::{have, shared_library};

const README: &str = include_str!("../README.md");

/// The first block of code in that language, and the block of commands that follows it.
fn program_and_commands(language: &str) -> (&'static str, &'static str) {
    let block = |text: &'static str, language: &str| {
        let start = text.split_once(&format!("\n```{language}\n")).unwrap_or_else(|| panic!("no block {language}")).1;
        start.split_once("\n```\n").expect("a block ends")
    };
    let (program, rest) = block(README, language);
    (program, block(rest, "sh").0)
}

fn executable(path: &Path, script: &str) {
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// What a new user has: the repository, in which nothing is built yet but by the commands; and their own file.
fn check(language: &str, file: &str, run: &str, prepare: impl FnOnce(&mut Command, &Path)) {
    let (program, commands) = program_and_commands(language);
    let dir = host_dir();
    for part in ["include", "examples-c"] {
        symlink(source(part), dir.join(part)).unwrap();
    }
    fs::write(dir.join(file), program).unwrap();
    let bin = dir.join("bin");
    fs::create_dir(&bin).unwrap();
    let server = env!("CARGO_BIN_EXE_mcp-supervised-demo-server");
    executable(&bin.join("my-mcp-server"), &format!("[ \"$*\" = --stdio ] && exec {server}"));
    // The library of this very build, where the one of a release would be.
    let library = shared_library();
    let release = dir.join("target/release");
    let build = format!(
        "[ \"$*\" = 'build --release' ] && mkdir -p {release} && ln -s {library} {release}/",
        release = release.display(),
        library = library.display()
    );
    executable(&bin.join("cargo"), &build);
    let mut steps = format!("set -e\n{commands}\n{run}\n");
    if language != "c" {
        let (_, first) = program_and_commands("c");
        let build: Vec<&str> = first.lines().take(2).collect();
        steps = format!("set -e\n{}\n{commands}\n{run}\n", build.join("\n"));
    }
    let mut command = Command::new("bash");
    command.args(["-ec", &steps]).current_dir(&dir);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", bin.display()));
    prepare(&mut command, &bin);
    let output = CHost::from(dir, PathBuf::from(format!("README.md: {language}")), command).succeeds();
    assert!(output.contains("progress") && output.contains("half_line"), "the tools are missing in:\n{output}");
}

#[test]
fn the_program_in_c() {
    check("c", "host.c", "./host", |_, _| {});
}

#[test]
fn the_program_in_cpp() {
    check("cpp", "host.cc", "./host", |_, _| {});
}

#[test]
fn the_program_in_python() {
    if have("python3", &["-c", "import sys; sys.exit(sys.version_info < (3, 9))"]) {
        check("python", "host.py", "", |_, _| {});
    }
}

#[test]
fn the_program_in_go() {
    if have("go", &["version"]) {
        check("go", "host.go", "./host", |command, _| {
            let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
            command.env("GOCACHE", cache.join("go")).env("GOPATH", cache.join("gopath"));
            command.env("GOPROXY", "off").env("GOTOOLCHAIN", "local");
        });
    }
}

#[test]
fn the_program_in_zig() {
    let zig = std::env::var("MCP_SUPERVISED_TEST_ZIG").unwrap_or_else(|_| "zig".to_owned());
    let words: Vec<&str> = zig.split_whitespace().collect();
    if have(words[0], &[&words[1..], &["version"]].concat()) {
        check("zig", "host.zig", "./host", |command, bin| {
            if words.len() > 1 {
                executable(&bin.join("zig"), &format!("exec {zig} \"$@\""));
            }
            let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
            command.env("ZIG_LOCAL_CACHE_DIR", cache.join("zig"));
            command.env("ZIG_GLOBAL_CACHE_DIR", cache.join("zig-global"));
        });
    }
}
