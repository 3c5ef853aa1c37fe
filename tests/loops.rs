//! `examples-c/loops`: 50 servers in the event loops that hosts use, beside a timer of the host, through a crash of all of them. Each
//! example checks for itself that everything happened; here they are compiled, run and read.

#[path = "support/c.rs"]
#[allow(dead_code, reason = "this file uses its part")]
mod c;
#[path = "support/compiler.rs"]
mod compiler;

use c::{CHost, compile_by};
use compiler::{cc, have, run, strict};

/// Compiles one with the flags that pkg-config names, and every warning an error. `None`: the loop's library is not installed.
fn build(name: &str, package: Option<&str>) -> Option<CHost> {
    let mut options = Vec::new();
    if let Some(package) = package {
        if !have("pkg-config", &["--exists", package]) {
            return None;
        }
        let flags = run(std::process::Command::new("pkg-config").args(["--cflags", "--libs", package]));
        // Warnings in headers of others are theirs.
        options = flags.split_whitespace().map(|flag| flag.replacen("-I", "-isystem", 1)).collect();
    }
    let mut compiler = strict(&cc(), "c11");
    compiler.args(["-Wconversion", "-D_GNU_SOURCE"]);
    let path = format!("examples-c/loops/{name}.c");
    Some(compile_by(compiler, &[&path, "examples-c/loops/fleet.c"], &options))
}

fn check(name: &str, package: Option<&str>, arguments: &[&str], starts: &str) {
    // As it is, and where exits have to be looked for.
    for without in ["", "pidfd"] {
        let Some(host) = build(name, package) else { return };
        let host = arguments.iter().fold(host, |host, argument| host.arg(argument));
        let server = env!("CARGO_BIN_EXE_mcp-supervised-demo-server");
        let output = host.arg(server).env("MCP_SUPERVISED_WITHOUT", without).succeeds();
        let last = output.lines().last().unwrap_or_default();
        assert!(last.starts_with(starts) && last.ends_with(": everything was seen"), "{output}");
    }
}

#[test]
fn h01_in_libuv() {
    check("uv", Some("libuv"), &[], "libuv: 50 servers, ");
}

#[test]
fn h01_in_glib() {
    check("glib", Some("glib-2.0"), &[], "GLib: 50 servers, ");
}

#[test]
fn h01_in_libevent() {
    check("libevent", Some("libevent_core"), &[], "libevent: 50 servers, ");
}

#[test]
fn h01_in_libevent_for_edges() {
    check("libevent", Some("libevent_core"), &["--edge"], "libevent, edges: 50 servers, ");
}

#[test]
fn h01_in_a_bare_epoll() {
    check("epoll", None, &[], "epoll: 50 servers, ");
}

#[test]
fn h01_in_a_bare_epoll_for_edges() {
    check("epoll", None, &["--edge"], "epoll, edges: 50 servers, ");
}

#[test]
fn h01_in_a_bare_poll() {
    check("poll", None, &[], "poll: 50 servers, ");
}

#[test]
fn h01_a_loop_says_what_it_missed() {
    let ran = build("poll", None).unwrap().arg("/nowhere/to/be/found").run();
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output);
    assert!(ran.output.contains("start: E_SPAWN: "), "{}", ran.output);
    let ran = build("poll", None).unwrap().arg("/bin/sh").arg("-c").arg("read line; exit 3").run();
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output);
    assert!(ran.output.contains("failed: "), "{}", ran.output);
}
