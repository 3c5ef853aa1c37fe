//! Hosts written in C: the example that people copy, and hosts that make life hard. Each asserts for itself and says what was
//! wrong; here they are compiled, run and watched.

#[path = "support/c.rs"]
mod c;
#[path = "support/compiler.rs"]
mod compiler;

#[path = "support/recorded.rs"]
mod recorded;

use std::path::Path;

use c::{CHost, compile};

const POLL_LOOP: &str = "examples-c/poll_loop.c";

fn demo_server() -> &'static str {
    env!("CARGO_BIN_EXE_mcp-supervised-demo-server")
}

/// A host of tests/c, which takes the demo server first.
fn host(name: &str) -> CHost {
    compile(&format!("tests/c/{name}.c")).arg(demo_server())
}

/// Runs a host with facilities of the system switched off.
fn without(facilities: &str, host: CHost) -> String {
    host.env("MCP_SUPERVISED_WITHOUT", facilities).succeeds()
}

/// What is shown of the example's output has to be in it, in this order. What stands behind each, up to the end of the line.
fn in_order<'a>(output: &'a str, wanted: &[&str]) -> Vec<&'a str> {
    let mut rest = output;
    let find = |text: &&str| {
        let at = rest.find(text).unwrap_or_else(|| panic!("{text:?} is missing or out of order in:\n{output}"));
        rest = &rest[at + text.len()..];
        rest.split_once('\n').map_or(rest, |(line, _)| line)
    };
    wanted.iter().map(find).collect()
}

#[test]
fn l02_the_example_shows_its_steps_in_order() {
    let command = recorded::command(demo_server());
    let output = command.iter().fold(compile(POLL_LOOP), |host, word| host.arg(word)).succeeds();
    let behind = in_order(
        &output,
        &[
            "server   READY: pid ",
            "server   -> 1 server/discover {}\n",
            "server   <- 1 {\"id\":1",
            "server   -> 2 subscriptions/listen {\"toolsListChanged\":true}\n",
            "server   <- 2 {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\"",
            "server   -> 3 tools/list {}\n",
            "server   <- 3 {\"id\":3",
            "server   <- 4 {\"id\":4",
            "server   <- 5 {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"",
            "server   killed in the middle of a request, pid ",
            "server   DRAIN\n",
            "server   CLOSE: pid ",
            "server   ERROR: 5: E_CLOSED: ",
            "server   the request is not sent again: the server may have run it\n",
            "server   RECONNECT: pid ",
            "server   <- 2 {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\"",
            "server   <- 2 {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"",
            "server   <- 6 {\"id\":6",
            "server   <- 7 {\"id\":7",
            "crasher  CLOSE: pid ",
            "crasher  ERROR: E_HANDSHAKE: ",
            "crasher  ERROR: E_HANDSHAKE: ",
            "crasher  EXHAUSTED: given up after 2 restarts\n",
            "server   DRAIN\n",
            "server   CLOSE: pid ",
            "server   ERROR: 2: E_CLOSED: ",
            "every step was seen, in order\n",
        ],
    );
    let speaks = |line: &str, between| line.split_once(between).expect(line).0.to_owned();
    let (first, second) = (speaks(behind[0], " speaks 2026-07-28"), speaks(behind[14], ", life 2, speaks 2026-07-28"));
    assert_ne!(first, second);
    assert!(behind[7].contains(&format!("\"text\":\"{first}\"")), "the first process answered: {output}");
    assert_eq!(behind[9], first);
    assert_eq!(behind[11], format!("{first} was ended by signal 9; restart 1 of 3 in 100 ms"));
    assert!(behind[18].contains(&format!("\"text\":\"{second}\"")), "the replacement answered: {output}");
    let told = " ended with exit code 3, its last words: no database; restart 1 of 2 in 50 ms";
    assert!(behind[19].ends_with(told), "{output}");
    // It never served, so its replacements have no CLOSE of their own.
    assert!(behind[20..22].iter().all(|told| told.ends_with("its last words: no database")), "{output}");
    assert_eq!(behind[24], format!("{second} ended with exit code 0"));
    assert_eq!(output.matches("\"name\":\"progress\"").count(), 1, "the lost call was sent once: {output}");
}

/// The same example with servers of every kind: it asks for no more than they have.
#[test]
fn z01_the_example_runs_with_any_server() {
    let demo = |flags: &[&str]| flags.iter().fold(compile(POLL_LOOP).arg(demo_server()), |host, flag| host.arg(flag));
    let steps = ["server   RECONNECT: pid ", "crasher  EXHAUSTED", "every step was seen, in order\n"];
    for revision in ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] {
        let output = demo(&["--legacy", revision, "--strict"]).succeeds();
        in_order(&output, &[&format!("speaks {revision}, an older revision\n"), steps[0], steps[1], steps[2]]);
    }
    // It leaves when it is asked what it speaks.
    let output = demo(&["--legacy", "2025-06-18", "--before-initialize", "exit:1"]).succeeds();
    in_order(&output, &["READY: pid ", steps[0], steps[1], steps[2]]);
    // It knows no streams.
    let output = demo(&["--listen-error", "-32601"]).succeeds();
    in_order(&output, &["server   <- 2 {\"error\"", steps[0], steps[1], steps[2]]);

    let Some(servers) = std::env::var_os("MCP_SUPERVISED_TEST_SERVERS") else { return };
    for (server, speaks) in [
        ("ts2/server.mjs", "2026-07-28"),
        ("ts1/server.mjs", "2025-11-25"),
        ("ts1/node_modules/@modelcontextprotocol/server-memory/dist/index.js", "2025-11-25"),
    ] {
        let server = Path::new(&servers).join(server);
        let output = compile(POLL_LOOP).arg("node").arg(server.to_str().unwrap()).succeeds();
        in_order(
            &output,
            &[&format!("speaks {speaks}"), "killed in the middle of a request", steps[0], steps[1], steps[2]],
        );
    }
}

#[test]
fn l02_the_example_says_what_it_missed() {
    let ran = compile(POLL_LOOP).arg("/bin/sh").arg("-c").arg("read line; exit 0").run();
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output);
    in_order(&ran.output, &["failed: came the DRAIN of the killed server, awaited was READY\n"]);
    let ran = compile(POLL_LOOP).arg("/nowhere/to/be/found").run();
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output);
    in_order(&ran.output, &["start: E_SPAWN: "]);
}

#[test]
fn p05_no_sigpipe_reaches_a_host_that_left_it_alone() {
    host("sigpipe").succeeds();
}

#[test]
fn p05_no_sigpipe_reaches_a_host_on_kernels_without_the_flag() {
    without("rwf_nosignal", host("sigpipe"));
}

#[test]
fn p04_a_host_that_ignores_sigchld() {
    host("sigchld_ignored").arg("ignore").succeeds();
    without("pidfd", host("sigchld_ignored").arg("ignore"));
    without("all", host("sigchld_ignored").arg("ignore"));
}

#[test]
fn p04_a_host_with_sa_nocldwait() {
    host("sigchld_ignored").arg("nocldwait").succeeds();
    without("pidfd", host("sigchld_ignored").arg("nocldwait"));
    without("all", host("sigchld_ignored").arg("nocldwait"));
}

#[test]
fn p04_a_host_that_reaps_everything() {
    host("reap_everything").succeeds();
}

#[test]
fn p04_a_host_that_reaps_everything_where_no_status_can_be_asked_for() {
    without("pidfd_info", host("reap_everything"));
}

#[test]
fn p04_a_host_that_reaps_everything_on_an_old_kernel() {
    without("pidfd", host("reap_everything"));
    without("all", host("reap_everything"));
}

#[test]
fn h03_a_host_that_forks() {
    host("fork").succeeds();
}

#[test]
fn h03_a_host_that_forks_seen_by_its_pid() {
    without("wipe_on_fork", host("fork"));
}

#[test]
fn h03_a_host_that_forks_on_an_old_kernel() {
    without("all", host("fork"));
}

#[test]
fn b02_the_window_ends_at_its_last_nanosecond_and_b06_only_the_host_moves_the_clock() {
    host("manual_clock").succeeds();
}

#[test]
fn b06_the_manual_clock_where_exits_have_to_be_looked_for() {
    without("pidfd", host("manual_clock"));
}

#[test]
fn h01_the_descriptor_in_poll() {
    host("own_loop").arg("poll").succeeds();
}

#[test]
fn h01_the_descriptor_in_a_level_triggered_epoll() {
    host("own_loop").arg("level").succeeds();
}

#[test]
fn h01_the_descriptor_in_an_edge_triggered_epoll_with_one_poll_for_each_edge() {
    host("own_loop").arg("edge-once").succeeds();
}

#[test]
fn h01_the_descriptor_in_an_edge_triggered_epoll_until_dry() {
    host("own_loop").arg("edge-dry").succeeds();
}

#[test]
fn h01_the_descriptor_where_exits_have_to_be_looked_for() {
    for how in ["poll", "level", "edge-once", "edge-dry"] {
        without("pidfd", host("own_loop").arg(how));
    }
}

#[test]
fn h03_one_thread_at_a_time_and_wakeup_from_everywhere() {
    host("threads").succeeds();
}

#[test]
fn h03_threads_that_do_not_ask_each_other() {
    host("race").succeeds();
}

#[test]
fn h03_threads_that_do_not_ask_each_other_on_an_old_kernel() {
    without("all", host("race"));
}

#[test]
fn h03_a_host_that_blocks_every_signal() {
    host("blocked_signals").arg("default").succeeds();
    without("rwf_nosignal", host("blocked_signals").arg("default"));
    without("all", host("blocked_signals").arg("default"));
}

#[test]
fn h03_a_host_that_blocks_the_signal_it_asked_to_have_handled() {
    host("blocked_signals").arg("sigchld").succeeds();
    without("pidfd", host("blocked_signals").arg("sigchld"));
    without("all", host("blocked_signals").arg("sigchld"));
}

#[test]
fn p03_a_host_with_two_gibibytes_is_not_copied() {
    host("large").succeeds();
    without("all", host("large"));
}

/// Valgrind knows no pidfds, so this is the fallback as well.
#[test]
fn p07_nothing_is_left_of_the_example_under_valgrind() {
    if std::process::Command::new("valgrind").arg("--version").output().is_err() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "valgrind is missing");
        println!("skipped: valgrind is not installed");
        return;
    }
    let kinds = "--errors-for-leak-kinds=all";
    let options = ["--leak-check=full", "--show-leak-kinds=all", kinds, "--track-fds=yes", "--error-exitcode=99"];
    let output = compile(POLL_LOOP).arg(demo_server()).under("valgrind", &options).succeeds();
    in_order(&output, &["server   RECONNECT", "crasher  EXHAUSTED", "every step was seen, in order\n"]);
    // Descriptors are no errors for older versions of valgrind. Those that are open are told one by one, each with where it came
    // from; there must be none that the host has opened.
    assert!(output.contains("FILE DESCRIPTORS: "), "{output}");
    let lines: Vec<&str> = output.lines().collect();
    for pair in lines.windows(2).filter(|pair| pair[0].contains("Open ")) {
        assert!(pair[1].contains("<inherited from parent>"), "{output}");
    }
}
