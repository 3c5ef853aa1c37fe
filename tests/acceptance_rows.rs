//! Rows of docs/acceptance.md that no other test shows by itself, with real processes. The number is that of the row.

mod support;

use serde_json::json;
use std::time::{Duration, Instant};
use support::*;

const BY_HOST: i32 = MCP_SUPERVISED_CLOSE_CLOSED_BY_HOST as i32;

#[test]
fn without_newer_kernel_calls() {
    run_file_again_without_newer_kernel_calls();
}

/// The log lines of that level, as text.
fn log(level: mcp_supervised_log_level, events: &[Event]) -> Vec<String> {
    let wanted = |e: &&Event| e.is(MCP_SUPERVISED_EVENT_LOG) && e.status == level as i32;
    events.iter().filter(wanted).map(Event::text).collect()
}

/// One line to the first life, one to the second as soon as it is announced: each is read once, by the process of its time.
#[test]
fn row_10_a_line_reaches_the_connection_of_its_time_and_no_other() {
    let scratch = Scratch::new();
    let ledger = scratch.name("ledger");
    let mut host = Host::new().stepwise();
    let peer = host.launch(&Spec::demo(&["--ledger", &ledger]).restart(3, 0, 60_000));
    let first = host.pid(peer);
    host.call(peer, "a", "echo", json!({"message": "to the first"}));
    host.answer("a");
    kill9(first);
    let second = host.next(MCP_SUPERVISED_EVENT_RECONNECT).pid;
    host.call(peer, "b", "echo", json!({"message": "to the second"}));
    host.answer("b");
    assert_ne!(first, second);
    // The ledger has the process, the method and the id of each request.
    let read: Vec<String> = scratch.read("ledger").lines().map(|line| line.replace('"', "")).collect();
    assert_eq!(read, [format!("{first} tools/call a"), format!("{second} tools/call b")]);
}

/// A start that failed leaves a peer as if it had never been started; closing it tells DRAIN and CLOSE, of no process.
#[test]
fn row_21_a_peer_whose_start_failed_is_closed_like_one_that_was_never_started() {
    let mut host = Host::new();
    let peer = host.add(&Spec::new("/nowhere/server").mode(MCP_SUPERVISED_MODE_RAW));
    assert_eq!(host.start(peer), MCP_SUPERVISED_E_SPAWN as i32);
    assert_eq!(host.close(peer), 0);
    let told = host.to_the_end(peer);
    assert_eq!(letters(&told), "D C");
    assert_eq!((told[1].status, told[1].pid, told[1].life, told[1].exit_code), (BY_HOST, 0, 0, -1));
    assert_eq!(host.start(peer), MCP_SUPERVISED_E_CLOSED as i32);
    host.expect_silence();
}

/// The window is one of real time where no clock of the test's own was asked for.
#[test]
fn row_35_the_window_passes_by_the_real_clock() {
    let mut host = Host::new().stepwise();
    let peer = host.launch(&Spec::demo(&[]).restart(1, 0, 10));
    for life in 1..=4 {
        kill9(host.pid(peer));
        let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
        // The window was opened before this CLOSE was built.
        let opened = Instant::now();
        assert_eq!((close.life, close.attempt, close.will_reconnect()), (life, 1, true));
        host.next(MCP_SUPERVISED_EVENT_RECONNECT);
        // Nothing tells that it has passed: waiting for an event that does not come is the time that has to pass.
        while opened.elapsed() <= Duration::from_millis(10) {
            assert_eq!(letters(&host.poll(11)), "");
        }
    }
}

/// With the default budget, of which the line tells the 3.
#[test]
fn row_42_a_death_is_one_warning_with_code_attempt_and_budget() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]));
    host.call(peer, "a", "crash", json!({"code": 9}));
    let told = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    let warnings = log(MCP_SUPERVISED_LOG_WARNING, &told);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for part in ["exit code 9", "restart 1 of 3", "100 ms"] {
        assert!(warnings[0].contains(part), "{part:?} in {:?}", warnings[0]);
    }
    let close = host.last_close();
    assert_eq!((close.exit_code, close.attempt, close.max_restarts), (9, 1, 3));
}

/// However it is laid out, a message is one line to the server.
#[test]
fn row_s15_a_notification_is_written_as_one_line() {
    let scratch = Scratch::new();
    let record = scratch.name("record");
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&["--record", &record]));
    let value = json!({"jsonrpc": "2.0", "method": "notifications/x", "params": {"text": "two\nlines", "path": "a/b", "sign": "ü"}});
    host.send(peer, serde_json::to_string_pretty(&value).unwrap());
    host.call(peer, "a", "echo", json!({"message": "read"}));
    host.answer("a");
    let text = scratch.read("record");
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]), (2, &value));
    assert!(text.contains("\"a/b\"") && text.contains('ü'), "nothing is escaped that was not: {text}");
}

/// What a server had already said when it was closed in the breath of its start comes between DRAIN and CLOSE.
#[test]
fn row_d04_a_close_right_behind_the_start_loses_nothing() {
    let scratch = Scratch::new();
    let lines = scratch.data("lines", r#"{"jsonrpc":"2.0","method":"notifications/hello"}"#.to_owned() + "\n");
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&["--raw-lines", &lines]).stop_grace(60_000, 60_000));
    assert_eq!(host.close(peer), 0);
    let told = host.to_the_end(peer);
    assert_eq!(letters(&told), "D M C");
    let close = host.last_close();
    assert_eq!((close.status, close.exit_code, close.signal), (BY_HOST, 0, 0));
}

/// What is said on stderr on the way out is told before the CLOSE, and with it.
#[test]
fn row_d11_stderr_is_read_to_its_end_when_a_peer_is_closed() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::shell("cat >/dev/null; echo goodbye >&2").stop_grace(60_000, 60_000));
    assert_eq!(host.close(peer), 0);
    let told = host.to_the_end(peer);
    assert_eq!(letters(&told), "D C");
    assert_eq!(log(MCP_SUPERVISED_LOG_SERVER, &told), ["goodbye"]);
    assert!(told.last().unwrap().is(MCP_SUPERVISED_EVENT_CLOSE), "the line stands before it");
    assert_eq!(host.last_close().text(), "goodbye");
}

/// Every name of the list, and some that are close to one.
const VARIABLES: [(&str, Option<&str>); 14] = [
    ("HOME", Some("/h")),
    ("LOGNAME", Some("l")),
    ("PATH", Some("/usr/bin:/bin")),
    ("SHELL", Some("/bin/sh")),
    ("TERM", Some("dumb")),
    ("USER", Some("u")),
    ("LANG", Some("C")),
    ("LC_ALL", Some("C")),
    ("TMPDIR", Some("/tmp")),
    ("path", Some("/other")),
    ("Home", Some("/other")),
    ("HOMEPATH", Some("/other")),
    ("LANGUAGE", Some("other")),
    ("USERNAME", Some("other")),
];

#[test]
fn row_s23_each_name_of_the_short_list_passes() {
    alone!(&VARIABLES, |_| {});
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]));
    host.call(peer, "a", "env", json!({}));
    let got: serde_json::Value = serde_json::from_str(&host.answer("a").tool_text()).unwrap();
    let mut got: serde_json::Map<String, serde_json::Value> = got.as_object().unwrap().clone();
    // Of the system the test runs on.
    got.retain(|name, _| !name.starts_with("LC_") || name == "LC_ALL");
    let expected: serde_json::Map<String, serde_json::Value> =
        VARIABLES[..9].iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    assert_eq!(got, expected);
}
