//! Back-pressure and memory: somebody writes more than the other reads.

use std::time::Instant;

use serde_json::json;

use super::served::*;
use crate::support::*;

/// What the process has used at most so far.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

/// The kind: more goes to stderr than a pipe holds. Before each answer, before the first read, with a full queue of events, told or
/// thrown away; answers come, and what was not kept was counted.
#[test]
fn bp_01_stderr_is_read_whatever_else_there_is() {
    for mode in [MCP_SUPERVISED_STDERR_LOG, MCP_SUPERVISED_STDERR_NULL] {
        let flags = ["--stderr-per-answer", "262144", "--stderr-bytes-at-start", "10485760"];
        let mut server = Served::by(Host::new(), &Spec::modern(&flags).stderr(mode));
        for n in 0..10 {
            assert_eq!(server.call("echo", json!({"message": n.to_string()})).tool_text(), n.to_string());
        }
        server.goes_on();
        let lines = server.seen.iter().filter(|e| e.letter() == "LOG").map(|e| e.count + 1).sum::<u64>();
        let written = 10_485_760 / 80 + 11 * 262_144_u64.div_ceil(80);
        assert_eq!(lines, if mode == MCP_SUPERVISED_STDERR_LOG { written } else { 0 }, "kept or counted");
    }
    // The host takes nothing, its queue is full, and the server still gets rid of its megabytes.
    let spec = Spec::modern(&[]).limit(MCP_SUPERVISED_LIMIT_EVENT_QUEUE, 1);
    let mut server = Served::by(Host::new(), &spec);
    server.call("pid", json!({}));
    let flood = server.asks("flood", json!({"count": 3}));
    let noisy = server.asks("stderr", json!({"bytes": 4 << 20}));
    let pid = server.pid;
    server.until_written(pid);
    server.completion(flood);
    assert_eq!(server.completion(noisy).tool_text(), "written");
    server.goes_on();
}

/// The kind: both sides write and neither reads. Requests of megabytes to a server that writes megabytes before it reads on; one,
/// and many at once.
#[test]
fn bp_03_both_sides_write_megabytes() {
    let mut server = Served::new(&["--notes-midline", "4194304"]);
    let big = "m".repeat(4 << 20);
    assert_eq!(server.call("echo", json!({"message": big})).tool_text(), big);
    let part = &big[..500_000];
    let ids: Vec<u64> = (0..8).map(|_| server.asks("echo", json!({"message": part}))).collect();
    for id in ids {
        assert_eq!(server.completion(id).tool_text().len(), part.len());
    }
    let notes = server.seen.iter().filter(|e| e.request == 0 && e.letter() == "M").count();
    assert_eq!(notes, 9 * (4_194_304 / 1_000 + 1), "each was told");
    server.goes_on();
}

/// The kind: more notifications than the host takes. Memory is bounded by count and by bytes, nothing is lost, the answer in the
/// middle comes, deadlines and close still work; in shed mode a stream ends and says so.
#[test]
fn bp_05_a_flood_with_a_slow_host() {
    alone!();
    const COUNT: u64 = 30_000;
    let spec = Spec::modern(&[]).timeouts(u64::MAX, u64::MAX);
    let mut server = Served::by(Host::new().stepwise(), &spec);
    server.call("pid", json!({}));
    let before = peak();
    let first = server.asks("flood", json!({"count": COUNT, "size": 1_024}));
    let middle = server.asks("echo", json!({"message": "m"}));
    let second = server.asks("flood", json!({"count": COUNT, "size": 1_024}));
    let mut told = 0;
    let mut ends = Vec::new();
    while ends.len() < 3 {
        server.seen.clear();
        for event in server.poll(-1) {
            if event.is_complete() {
                ends.push(event.request);
            } else if event.letter() == "M" {
                assert_eq!(event.json()["params"]["data"]["n"], told % COUNT, "in order");
                told += 1;
            }
        }
    }
    assert_eq!((told, ends), (2 * COUNT, vec![first, middle, second]));
    let grown = peak() - before;
    assert!(grown < 24 << 20, "{grown} bytes for {} MiB", 2 * COUNT / 1_024);

    // A host that takes nothing at all: deadlines pass, close ends.
    let spec = Spec::modern(&[]).limit(MCP_SUPERVISED_LIMIT_EVENT_QUEUE, 10).stop_grace(10, 10);
    let mut server = Served::by(Host::with_manual_clock(), &spec);
    let (peer, pid) = (server.peer, server.pid);
    let timeout = options(|o| o.timeout_ms = 100);
    server.asks("flood", json!({"count": COUNT, "size": 1_024}));
    let silent = server.try_ask(peer, "tools/call", r#"{"name":"silent"}"#, Some(&timeout)).unwrap();
    server.until_written(pid);
    server.advance_ms(100);
    assert_eq!(server.completion(silent).status, TIMEOUT);
    // It floods on, and what it has written is owed to the host: the graces end it all the same.
    server.asks("flood", json!({"count": COUNT, "size": 1_024}));
    assert_eq!(server.host.close(peer), 0);
    server.next(MCP_SUPERVISED_EVENT_DRAIN);
    server.host.drive_until("its process has gone", |host| {
        host.advance_ms(10);
        state_of(pid).is_none_or(|state| state == 'Z')
    });
    server.to_the_end(peer);

    // Shed: the stream is dropped and told, answers are not.
    let mut server = Served::by(Host::new(), &Spec::modern(&[]).shed());
    let peer = server.peer;
    let stream = server.host.listen(peer, json!({"resourceSubscriptions": ["mem://counter"]}), 0);
    server.acknowledged(stream, 1);
    let flood = server.asks("flood", json!({"count": 5_000, "kind": "updated"}));
    let pid = server.pid;
    server.until_written(pid);
    assert_eq!(server.completion(stream).status, MCP_SUPERVISED_E_DELIVERY_DROPPED as i32);
    assert_eq!(server.completion(flood).tool_text(), "5000");
    server.goes_on();
}

/// The kind: nobody polls while everything happens. Answers, stderr, the death and the delay come out in order afterwards; timers
/// that passed meanwhile fire once each, and then there is silence.
#[test]
fn bp_06_a_host_that_does_not_poll() {
    let scratch = Scratch::new();
    let spec = Spec::modern(&["--stderr-per-answer", "10000"]).restart(3, 5, 60_000).timeouts(u64::MAX, u64::MAX);
    let mut server = Served::by(Host::new(), &spec);
    let answered: Vec<u64> = (0..50).map(|_| server.asks("big", json!({"bytes": 900}))).collect();
    let last = json!({"path": scratch.name("done"), "text": "done", "crash": 3});
    let lost = server.asks("ledger", last);
    // This writes what waited, and then nobody polls. The pipe of stderr is too small: the server waits for us in between.
    let pid = server.pid;
    server.drive_until("it is at its end", |_| scratch.read("done").contains("done"));
    wait_gone(pid);
    let began = Instant::now();
    while began.elapsed().as_millis() < 6 {
        std::thread::yield_now();
    }
    let told = server.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    assert_eq!(letters(&told), "M ".repeat(50) + "D C E R");
    let order: Vec<u64> = told.iter().filter(|e| e.is_complete()).map(|e| e.request).collect();
    assert_eq!(order, [&answered[..], &[lost]].concat());

    let mut server = Served::by_hand(&[]);
    let (peer, pid) = (server.peer, server.pid);
    let times = [3_000, 1_000, 2_000];
    let ids = times.map(|ms| {
        let timeout = options(|o| o.timeout_ms = ms);
        server.try_ask(peer, "tools/call", r#"{"name":"silent"}"#, Some(&timeout)).unwrap()
    });
    server.until_written(pid);
    server.advance_ms(86_400_000);
    for id in ids {
        assert_eq!(server.completion(id).status, TIMEOUT);
    }
    server.goes_on();
    assert!(ids.iter().all(|id| server.ends_of(*id) == 1));
    server.expect_silence();
    server.poll(0);
    server.poll(0);
    assert!(!server.is_readable(), "nothing is caught up on");
}
