//! The eight cases of docs/faults.md that clients in C++ and Go get wrong, each failed by at least one that hosts use.

use std::time::Instant;

use serde_json::json;

use super::lives::signals_after_reaping;
use super::served::*;
use crate::c::compile;
use crate::support::*;

/// A call is pending when the server dies: it ends with the death, whatever its deadlines.
#[test]
fn oc_1_a_death_with_a_call_pending() {
    let spec = Spec::modern(&[]).timeouts(u64::MAX, u64::MAX).restart(MCP_SUPERVISED_NO_RESTART, 0, 1);
    for how in [json!({"signal": 9}), json!({"code": 0})] {
        let mut server = Served::by(Host::new(), &spec);
        let peer = server.peer;
        let pending = server.asks("silent", json!({}));
        // What was answered before the end is told before it.
        let answered = server.asks("echo", json!({"message": "m"}));
        server.asks("crash", how);
        let told = server.to_the_end(peer);
        assert_eq!(letters(&told), "M D C E E X");
        assert_eq!(told[0].request, answered);
        assert_eq!(completion_of(&told, pending).unwrap().status, CLOSED);
    }
}

/// The next call after a death, in a host that has left SIGPIPE as it found it.
#[test]
fn oc_2_a_call_after_the_death_with_sigpipe_at_its_default() {
    compile("tests/c/sigpipe.c").arg(demo_server()).succeeds();
}

/// The answer is there before the request is written to its end, or was even read.
#[test]
fn oc_3_an_answer_before_the_write_returns() {
    let answer = r#"{"jsonrpc":"2.0","id":ID,"result":{"early":true}}"#;
    // It reads a byte and answers two requests; then it reads the rest.
    let script = format!(
        "head -c 1 >/dev/null; echo '{}'; echo '{}'; cat >/dev/null; exit 0",
        answer.replace("ID", "1"),
        answer.replace("ID", "2")
    );
    for bytes in [10, 100_000, 4_000_000] {
        let spec = modern("/bin/sh").arg("-c").arg(&script);
        let mut server = Served::by(Host::new(), &spec);
        let ids = [0; 2].map(|_| server.asks("x", json!({"pad": "p".repeat(bytes)})));
        for id in ids {
            let end = server.completion(id);
            assert_eq!((end.json()["result"]["early"].as_bool(), server.ends_of(id)), (Some(true), 1));
        }
        // Both were written whole all the same.
        let pid = server.pid;
        server.until_written(pid);
        server.closes();
        assert_eq!(server.last_close().exit_code, 0);
    }
}

/// Notifications stand before the answer: they are told as what they are, and the answer is the answer.
#[test]
fn oc_4_notifications_before_the_answer() {
    let mut server = Served::new(&[]);
    for count in [1, 2, 500] {
        let from = server.seen.len();
        let id = server.asks("flood", json!({"count": count}));
        assert_eq!(server.completion(id).tool_text(), count.to_string());
        let told = &server.seen[from..];
        assert_eq!(told.len(), count + 1);
        assert!(told[..count].iter().all(|e| (e.request, e.is_complete()) == (0, false)));
    }
    let note = note("between");
    let id =
        server.answers_with(&format!("{note}\n"), b"{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{\"id\":3}}\n");
    server.goes_on();
    assert_eq!(server.ends_of(id), 0);
}

/// A line of nine megabytes.
#[test]
fn oc_5_a_line_of_nine_megabytes() {
    let mut server = Served::new(&[]);
    let bytes = 9 << 20;
    assert_eq!(server.call("big", json!({"bytes": bytes})).tool_text().len(), bytes);
    let text = "e".repeat(bytes);
    assert_eq!(server.call("echo", json!({"message": text})).tool_text(), text);
    server.goes_on();
}

/// 200 kB of stderr before anything else, and before each answer.
#[test]
fn oc_6_two_hundred_kilobytes_of_stderr() {
    let mut server = Served::new(&["--stderr-bytes-at-start", "200000", "--stderr-per-answer", "200000"]);
    for _ in 0..5 {
        server.goes_on();
    }
}

/// A second server holds nothing of the first: its end of input comes when the host closes it.
#[test]
fn oc_7_a_second_server_does_not_hold_the_first_ones_stdin() {
    let mut server = Served::by(Host::new(), &Spec::modern(&[]).stop_grace(600_000, 600_000));
    let second = server.launch(&Spec::modern(&[]));
    let third = server.launch(&Spec::new("/bin/cat").mode(MCP_SUPERVISED_MODE_RAW));
    let began = Instant::now();
    server.closes();
    assert_eq!((server.last_close().exit_code, server.last_close().signal), (0, 0));
    assert!(began.elapsed() < PATIENCE);
    for peer in [second, third] {
        assert_eq!(server.host.state(peer), MCP_SUPERVISED_STATE_RUNNING as i32);
    }
}

/// A server that goes during its grace is not signalled after it was waited for.
#[test]
fn oc_8_no_signal_to_a_reaped_process() {
    signals_after_reaping("other_clients::oc_8_no_signal_to_a_reaped_process");
}
