//! `examples-c/epoll_loop.c`: the descriptor in a host's own epoll, beside a timer and a socket of the host, for levels and for
//! edges. The example checks for itself that everything happened; here it is compiled, run and read.

#[path = "support/c.rs"]
#[allow(dead_code, reason = "this file uses its part")]
mod c;
#[path = "support/compiler.rs"]
mod compiler;

use c::{CHost, compile};

fn example() -> CHost {
    compile("examples-c/epoll_loop.c")
}

fn demo_server() -> &'static str {
    env!("CARGO_BIN_EXE_mcp-supervised-demo-server")
}

/// The ends of the lines that begin so.
fn behind<'a>(output: &'a str, start: &str) -> Vec<&'a str> {
    output.lines().filter_map(|line| line.strip_prefix(start)).collect()
}

/// The one line that begins so, what stands behind it.
fn once<'a>(output: &'a str, start: &str) -> &'a str {
    let all = behind(output, start);
    assert_eq!(all.len(), 1, "{start:?} in:\n{output}");
    all[0]
}

/// What it writes: calls of the timer and of the client on both sides of the crash, each answered by the life it was sent to.
fn tells_everything(output: &str, way: &str) {
    assert_eq!(once(output, "host    watches for "), way);
    let first = once(output, "server  started, pid ");
    let second = once(output, "server  RECONNECT: pid ").strip_suffix(", life 2").expect(output);
    assert_ne!(first, second);
    assert_eq!(
        behind(output, "server  CLOSE: pid "),
        [format!("{first} ended with exit code 7"), format!("{second} ended with exit code 0")],
        "{output}"
    );
    assert_eq!(once(output, "server  restart "), "1 of 3 in 200 ms");
    let answers = behind(output, "client  <- ");
    assert_eq!(answers, ["ok one", "lost the server ended", "ok two"], "{output}");
    let ticks = behind(output, "tick    <- ");
    let of_the_first = ticks.iter().take_while(|pid| **pid == first).count();
    assert!(of_the_first >= 3, "{output}");
    let of_the_second = &ticks[of_the_first..];
    assert!(of_the_second.len() >= 3 && of_the_second.iter().all(|pid| *pid == second), "{output}");
    assert_eq!(output.lines().last(), Some("everything was seen"), "{output}");
}

fn run(without: &str) {
    // All together: what takes time in them are the ticks and the delay.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let output = example().arg(demo_server()).env("MCP_SUPERVISED_WITHOUT", without).succeeds();
            tells_everything(&output, "levels");
        });
        scope.spawn(|| {
            let output = example().arg("--edge").arg(demo_server()).env("MCP_SUPERVISED_WITHOUT", without).succeeds();
            tells_everything(&output, "edges");
        });
    });
}

#[test]
fn h01_the_example_with_an_epoll_of_its_own() {
    run("");
}

#[test]
fn h01_the_example_with_an_epoll_of_its_own_on_an_old_kernel() {
    run("all");
}

#[test]
fn h01_the_example_with_an_epoll_of_its_own_where_exits_have_to_be_looked_for() {
    run("pidfd");
}

#[test]
fn h01_the_example_with_an_epoll_of_its_own_says_what_it_missed() {
    for way in [&[][..], &["--edge"]] {
        let command = ["/bin/sh", "-c", "read line; exit 0"];
        let host = way.iter().chain(&command).fold(example(), |host, arg| host.arg(arg));
        let ran = host.run();
        assert_eq!(ran.status.code(), Some(1), "{}", ran.output);
        assert!(ran.output.contains("failed: "), "{}", ran.output);
        assert!(ran.output.contains("not seen: a call of the client\n"), "{}", ran.output);
    }
}
