//! Hosts in C++, Go, Zig and Python: each is built strictly, run against the demo server through a crash and a recovery, and checks
//! for itself that everything came. And the wrappers: that none forgets a function, and that all write the same lines.

#[path = "support/c.rs"]
#[allow(dead_code, reason = "this file uses its part")]
mod c;
#[path = "support/compiler.rs"]
mod compiler;
#[path = "support/recorded.rs"]
mod recorded;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use c::{CHost, compile_by, host_dir, source};
use compiler::{cxx, have, include_dir, run, shared_library, strict};
use recorded::Judged;
use serde_json::{Value, json};

fn demo_server() -> &'static str {
    env!("CARGO_BIN_EXE_mcp-supervised-demo-server")
}

/// Runs a host with a server of today, with older ones that ask back, and with one that speaks both. Every host says last that it
/// has seen everything.
fn sees_everything(host: CHost) {
    let older = |version| ["--legacy", version];
    let (oldest, latest, both) = (older("2024-11-05"), older("2025-11-25"), ["--legacy", "2025-11-25", "--dual"]);
    let host = recorded::command(demo_server()).iter().fold(host, |host, word| host.arg(word));
    for output in host.succeeds_with(&[&[], &oldest, &latest, &both]) {
        assert_eq!(output.lines().last(), Some("everything was seen"), "{output}");
    }
}

/// A directory in which programs find the library, at compile time and at run time.
fn library_dir() -> PathBuf {
    let dir = host_dir();
    for name in ["libmcp_supervised.so", "libmcp_supervised.so.0"] {
        std::os::unix::fs::symlink(shared_library(), dir.join(name)).unwrap();
    }
    dir
}

/// Where tools keep what they have compiled, from run to run.
fn cache(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache").join(name)
}

/// The lines that a server got, and what they have to be. `_meta` is what the library makes of it, but for what the host gave.
/// Where lines are collected for the published schemas, these are, too.
fn wrote_every_call(record: &Path) {
    if let Some(folder) = Judged::Whole.folder() {
        let folder = folder.join("2026-07-28");
        fs::create_dir_all(&folder).unwrap();
        let name = record.parent().unwrap().file_name().unwrap();
        fs::copy(record, folder.join(name).with_extension("jsonl")).unwrap();
    }
    let lines: Vec<Value> =
        fs::read_to_string(record).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut calls = Vec::new();
    for mut line in lines {
        let params = line["params"].as_object_mut().unwrap();
        if let Some(meta) = params.get_mut("_meta").and_then(Value::as_object_mut) {
            meta.retain(|name, _| !name.starts_with("io.modelcontextprotocol/"));
            if meta.is_empty() {
                params.remove("_meta");
            }
        }
        calls.push(json!([line["method"], line["params"]]));
    }
    let more = |mut params: Value| {
        params["_meta"] = json!({"k": 1});
        params["inputResponses"] = json!({"name": {"action": "decline"}});
        params["requestState"] = json!("state-1");
        params
    };
    let wanted = [
        json!(["server/discover", {}]),
        json!(["tools/list", {}]),
        json!(["tools/list", {"cursor": ""}]),
        json!(["resources/list", {"cursor": "c"}]),
        json!(["resources/templates/list", {"cursor": "c"}]),
        json!(["prompts/list", {"cursor": "c"}]),
        json!(["tools/call", more(json!({"name": "ask", "arguments": {}}))]),
        json!(["resources/read", more(json!({"uri": "mem://counter"}))]),
        json!(["prompts/get", {"name": "greet", "arguments": {"name": "x"}}]),
        json!(["completion/complete", {"ref": {"type": "ref/prompt", "name": "greet"},
            "argument": {"name": "name", "value": "A"}, "context": {"arguments": {"other": "x"}}}]),
        json!(["completion/complete", {"ref": {"type": "ref/resource", "uri": "mem://{a}"},
            "argument": {"name": "a", "value": ""}}]),
        json!(["notifications/cancelled", {"requestId": 999}]),
        json!(["tools/call", {"name": "echo", "arguments": {"message": "over"}}]),
    ];
    assert_eq!(Value::from(calls), Value::from(wanted.to_vec()));
}

// ---- C++ -------------------------------------------------------------------------------------------------------------

/// As strict as a careful host is, and without what it may not have.
fn cpp(standard: &str) -> Command {
    let mut compiler = strict(&cxx(), standard);
    compiler.args(["-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wold-style-cast", "-Wnon-virtual-dtor"]);
    compiler.args(["-Woverloaded-virtual", "-fno-exceptions", "-fno-rtti"]);
    compiler
}

#[test]
fn a_host_in_cpp() {
    for standard in ["c++17", "c++20"] {
        sees_everything(compile_by(cpp(standard), &["examples-c/cpp/host.cc"], &[]));
    }
}

#[test]
fn the_wrapper_in_cpp() {
    // With a standard library that checks, and with exceptions, which nobody needs and nobody has to switch off; and with
    // sanitizers that see every access and every leak of the host.
    let with_exceptions = ["-fexceptions", "-D_GLIBCXX_ASSERTIONS"].map(str::to_owned);
    let sanitized = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"].map(str::to_owned);
    for (standard, options) in [("c++17", &[][..]), ("c++20", &with_exceptions[..]), ("c++20", &sanitized[..])] {
        let host = compile_by(cpp(standard), &["tests/cpp/wrapper.cc"], options);
        let dir = host_dir();
        let record = dir.join("record");
        assert_eq!(host.arg(demo_server()).arg(record.to_str().unwrap()).succeeds(), "done\n");
        wrote_every_call(&record);
        fs::remove_dir_all(dir).unwrap();
    }
}

/// Zig is a Clang with a standard library of its own as well.
#[test]
fn the_wrapper_in_cpp_for_clang_and_its_library() {
    let Some(words) = zig() else { return };
    let dir = host_dir();
    for (standard, file) in [("c++17", "tests/cpp/wrapper.cc"), ("c++20", "examples-c/cpp/host.cc")] {
        let mut compiler = zig_command(&words);
        compiler.args(["c++", &format!("-std={standard}"), "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion"]);
        compiler.args(["-Wsign-conversion", "-Wshadow", "-Wextra-semi", "-fno-exceptions", "-fno-rtti", "-I"]);
        compiler.arg(include_dir()).arg("-c").arg(source(file)).arg("-o").arg(dir.join("host.o"));
        run(&mut compiler);
    }
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn two_units_of_one_cpp_program_include_the_wrapper() {
    let dir = host_dir();
    let one = "#include <mcp_supervised.hpp>\nint other();\nint main() { return other(); }\n";
    let two = "#include <mcp_supervised.hpp>\n\
               int other() { return supervised::handle::create() ? 0 : 1; }\n";
    fs::write(dir.join("one.cc"), one).unwrap();
    fs::write(dir.join("two.cc"), two).unwrap();
    let mut compiler = cpp("c++17");
    compiler.args(["one.cc", "two.cc", "-o", "program"]).current_dir(&dir);
    compiler::link(&mut compiler, &dir);
    run(&mut compiler);
    run(&mut Command::new(dir.join("program")));
    fs::remove_dir_all(dir).unwrap();
}

// ---- Python ----------------------------------------------------------------------------------------------------------

/// Python with warnings as errors and its checks on.
fn python(arguments: &[&str]) -> CHost {
    let dir = library_dir();
    let mut command = Command::new("python3");
    command.args(["-W", "error", "-X", "dev", "-B"]).args(arguments);
    command.current_dir(source("examples-c/python"));
    command.env("MCP_SUPERVISED_LIBRARY", dir.join("libmcp_supervised.so.0"));
    command.env("MCP_SUPERVISED_DEMO_SERVER", demo_server()).env("MCP_SUPERVISED_RECORD", dir.join("record"));
    CHost::from(dir, source("examples-c/python"), command)
}

fn have_python() -> bool {
    have("python3", &["-c", "import sys; sys.exit(sys.version_info < (3, 9))"])
}

#[test]
fn a_host_in_python() {
    if have_python() {
        sees_everything(python(&["host.py"]));
    }
}

#[test]
fn the_module_for_python() {
    if !have_python() {
        return;
    }
    let host = python(&["-m", "unittest", "-v", "test_mcp_supervised"]);
    let record = host.dir().join("record");
    let ran = host.run_and(|| wrote_every_call(&record));
    assert!(ran.status.success() && ran.output.lines().any(|line| line == "OK"), "{}", ran.output);
}

/// The numbers of the module are those of the header: it cannot include it.
#[test]
fn the_module_for_python_has_the_headers_numbers() {
    if !have_python() {
        return;
    }
    let dir = host_dir();
    let text = fs::read_to_string(source("examples-c/python/mcp_supervised.py")).unwrap();
    let mut asserts = String::from("#include <stddef.h>\n#include <mcp_supervised.h>\n");
    let enums = [
        ("Kind", "EVENT"),
        ("MessageKind", "MESSAGE"),
        ("Mode", "MODE"),
        ("Era", "ERA"),
        ("State", "STATE"),
        ("CloseReason", "CLOSE"),
        ("LogLevel", "LOG"),
        ("Flag", "FLAG"),
    ];
    let list = "import ctypes, mcp_supervised as m\n\
        for f, t in m._RawEvent._fields_: print('event', f, getattr(m._RawEvent, f).offset, getattr(m._RawEvent, f).size)\n\
        for f, t in m._RequestOptions._fields_: print('request_options', f, getattr(m._RequestOptions, f).offset, getattr(m._RequestOptions, f).size)\n\
        print('sizes', ctypes.sizeof(m._RawEvent), ctypes.sizeof(m._RequestOptions), m._ABI)\n";
    let mut listed = Command::new("python3");
    listed.args(["-B", "-c", list]).current_dir(source("examples-c/python"));
    for line in run(&mut listed).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["sizes", event, options, abi] = words[..] {
            asserts += &format!(
                "_Static_assert(sizeof(mcp_supervised_event) == {event}, \"\");\n\
                 _Static_assert(sizeof(mcp_supervised_request_options) == {options}, \"\");\n\
                 _Static_assert(MCP_SUPERVISED_ABI_VERSION == {abi}, \"\");\n"
            );
        } else {
            let [of, field, offset, size] = words[..] else { panic!("{line}") };
            asserts += &format!(
                "_Static_assert(offsetof(mcp_supervised_{of}, {field}) == {offset} && \
                 sizeof(((mcp_supervised_{of} *)0)->{field}) == {size}, \"{field}\");\n"
            );
        }
    }
    let mut names = 0;
    for (class, prefix) in enums {
        let body = text.split_once(&format!("class {class}(enum.")).expect(class).1;
        let body = body.split_once("\n\n\n").unwrap().0;
        for line in body.lines().filter_map(|line| line.strip_prefix("    ")) {
            if let Some((name, value)) = line.split_once(" = ") {
                asserts += &format!("_Static_assert(MCP_SUPERVISED_{prefix}_{name} == ({value}), \"{name}\");\n");
                names += 1;
            }
        }
    }
    // And none is missing.
    let header = fs::read_to_string(include_dir().join("mcp_supervised.h")).unwrap();
    let in_header = |line: &&str| {
        let line = line.trim().trim_start_matches("#define ");
        enums.iter().any(|(_, prefix)| {
            let rest = line.strip_prefix("MCP_SUPERVISED_").and_then(|rest| rest.strip_prefix(prefix));
            rest.is_some_and(|rest| rest.starts_with('_') && (rest.contains(" = ") || rest.contains(" (1u << ")))
        })
    };
    assert_eq!(names, header.lines().filter(in_header).count(), "names of the module and of the header");
    fs::write(dir.join("same.c"), asserts).unwrap();
    run(strict(&compiler::cc(), "c11").args(["-c", "same.c", "-o", "same.o"]).current_dir(&dir));
    fs::remove_dir_all(dir).unwrap();
}

// ---- Go --------------------------------------------------------------------------------------------------------------

/// The go command, with the library of this build and caches that stay.
fn go(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("go");
    command.args(arguments).current_dir(source("examples-c/go"));
    command.env("CGO_ENABLED", "1").env("GOFLAGS", "-mod=mod").env("GOPROXY", "off").env("GOTOOLCHAIN", "local");
    command.env("GOCACHE", cache("go")).env("GOPATH", cache("gopath"));
    command.env("CGO_CFLAGS", format!("-O1 -g -Wall -Wextra -Werror -I{}", include_dir().display()));
    let dir = dir.display();
    command.env("CGO_LDFLAGS", format!("-L{dir} -Wl,-rpath,{dir}"));
    command.env("MCP_SUPERVISED_DEMO_SERVER", demo_server()).env("MCP_SUPERVISED_RECORD", format!("{dir}/record"));
    command
}

fn have_go() -> bool {
    have("go", &["version"])
}

#[test]
fn a_host_in_go() {
    if !have_go() {
        return;
    }
    let dir = library_dir();
    let program = dir.join("host");
    run(&mut go(&dir, &["vet", "./..."]));
    let unformatted = run(Command::new("gofmt").args(["-l", "."]).current_dir(source("examples-c/go")));
    assert_eq!(unformatted, "");
    run(&mut go(&dir, &["build", "-o", program.to_str().unwrap(), "./host"]));
    sees_everything(CHost::from(dir, source("examples-c/go/host"), Command::new(program)));
}

/// The tests of the package: no thread blocks in C, every method from every goroutine, children of its own, slow handlers. The race
/// detector watches.
#[test]
fn the_package_for_go() {
    if !have_go() {
        return;
    }
    let dir = library_dir();
    let command = go(&dir, &["test", "-race", "-count=1", "-v", "./supervised"]);
    let record = dir.join("record");
    let host = CHost::from(dir, source("examples-c/go/supervised"), command);
    let ran = host.run_and(|| wrote_every_call(&record));
    assert!(ran.status.success(), "{}", ran.output);
    for name in ["TestNoThreadBlocksInC", "TestChildrenOfOurOwn", "TestSafeFromAnyGoroutine"] {
        assert!(ran.output.contains(&format!("--- PASS: {name} ")), "{}", ran.output);
    }
}

// ---- Zig -------------------------------------------------------------------------------------------------------------

/// The command that runs the pinned Zig: words, of which the first is the program.
const ZIG: &str = "MCP_SUPERVISED_TEST_ZIG";

/// The words of that command, if it works.
fn zig() -> Option<Vec<String>> {
    let zig = std::env::var(ZIG).unwrap_or_else(|_| "zig".to_owned());
    let words: Vec<String> = zig.split_whitespace().map(str::to_owned).collect();
    let version: Vec<&str> = words[1..].iter().map(String::as_str).chain(["version"]).collect();
    have(&words[0], &version).then_some(words)
}

fn zig_command(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command.env("ZIG_LOCAL_CACHE_DIR", cache("zig")).env("ZIG_GLOBAL_CACHE_DIR", cache("zig-global"));
    command
}

/// Builds a source that lies in `dir`.
fn build_zig(words: &[String], dir: &Path, file: &Path) -> PathBuf {
    let program = dir.join("host");
    let mut build = zig_command(words);
    build.arg("build-exe").arg(file).args(["-lc", "-lmcp_supervised", "-I"]).arg(include_dir());
    build.arg("-L").arg(dir).arg("-rpath").arg(dir).arg(format!("-femit-bin={}", program.display()));
    run(&mut build);
    program
}

#[test]
fn a_host_in_zig() {
    let Some(words) = zig() else { return };
    let file = source("examples-c/zig/host.zig");
    let is = run(zig_command(&words).arg("version"));
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(&format!("Written for Zig {}.", is.trim())), "the host is not written for Zig {is}");
    let dir = library_dir();
    let program = build_zig(&words, &dir, &file);
    sees_everything(CHost::from(dir, file, Command::new(program)));
}

/// What README.md says of versions without `@cImport`.
#[test]
fn a_host_in_zig_by_a_translated_header() {
    let Some(words) = zig() else { return };
    let dir = library_dir();
    let mut translate = zig_command(&words);
    let header = run(translate.args(["translate-c", "-lc"]).arg(include_dir().join("mcp_supervised.h")));
    fs::write(dir.join("c.zig"), header).unwrap();
    let text = fs::read_to_string(source("examples-c/zig/host.zig")).unwrap();
    let import = "@cImport(@cInclude(\"mcp_supervised.h\"))";
    assert!(text.contains(import));
    let file = dir.join("host.zig");
    fs::write(&file, text.replace(import, "@import(\"c.zig\")")).unwrap();
    let program = build_zig(&words, &dir, &file);
    let output = CHost::from(dir, file, Command::new(program)).arg(demo_server()).succeeds();
    assert_eq!(output.lines().last(), Some("everything was seen"), "{output}");
}

// ---- All together ----------------------------------------------------------------------------------------------------

/// What a wrapper leaves to those who need it, by name, since it offers the same in its own way or has no use for it.
const LEFT_OUT: &[(&str, &[&str])] = &[
    // A host in C++ has the header itself.
    ("include/mcp_supervised.hpp", &["abi_version", "version"]),
    // asyncio and goroutines interrupt nothing by a signal; a handler for SIGCHLD would be the runtime's to install.
    ("examples-c/python/mcp_supervised.py", &["config_sigchld"]),
    ("examples-c/go/supervised", &["config_sigchld", "wakeup"]),
];

#[test]
fn no_wrapper_forgets_a_function() {
    for (path, left_out) in LEFT_OUT {
        let place = source(path);
        let files = if place.is_dir() {
            fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()).collect()
        } else {
            vec![place]
        };
        let text: String = files
            .iter()
            .filter(|file| !file.to_string_lossy().ends_with("_test.go"))
            .map(|file| fs::read_to_string(file).unwrap())
            .collect();
        for function in include_str!("support/exports.txt").lines() {
            let name = function.strip_prefix("mcp_supervised_").unwrap();
            let is_used = text.contains(&format!("{function}(")) || text.contains(&format!("\"{name}\": ("));
            // C++ hands some over by name.
            let is_used = is_used || text.contains(&format!("{function})"));
            assert_eq!(is_used, !left_out.contains(&name), "{path}: {name}");
        }
    }
}
