//! Flow in both directions: rules F1, F2 and F4, with real pipes that are full.

mod support;

use serde_json::json;
use support::watch::*;
use support::*;

/// What a pipe holds.
const PIPE: u64 = 64 << 10;

fn is_message(event: &Event) -> bool {
    event.is(MCP_SUPERVISED_EVENT_MESSAGE)
}

/// The number inside a notification of a flood.
fn number(event: &Event) -> u64 {
    event.json()["params"]["data"]["n"].as_u64().expect("a numbered notification")
}

/// Drives the library, taking nothing, until neither it nor the server gets any further.
fn until_stuck(host: &mut Host, pid: i32) {
    let mut before = None;
    loop {
        host.drive();
        settle(&[pid]);
        let now = Some((written_by(pid), read_by(pid), switches(pid)));
        if now == before {
            return;
        }
        before = now;
    }
}

/// A flood of `count` lines that nobody takes; then all of it is taken. Gives the bytes the server had written meanwhile.
fn floods_and_waits(spec: &Spec, count: u64, size: u64) -> u64 {
    let mut host = Host::new();
    let peer = host.launch(spec);
    let pid = host.pid(peer);
    let begin = written_by(pid);
    host.call(peer, "f", "flood", json!({"count": count, "size": size}));
    until_stuck(&mut host, pid);
    let meanwhile = written_by(pid) - begin;
    let taken = host.until(|e| e.id == b"\"f\"");
    let numbers: Vec<u64> = taken.iter().filter(|e| is_message(e) && e.id.is_empty()).map(number).collect();
    assert!(numbers.iter().copied().eq(0..count), "something is lost or out of order");
    meanwhile
}

#[test]
fn f01_a_full_queue_of_events_stops_the_server() {
    let spec = Spec::demo(&[]).limit(MCP_SUPERVISED_LIMIT_EVENT_QUEUE, 10);
    let written = floods_and_waits(&spec, 20_000, 200);
    // The queue, what one read brought beyond it, and the pipe; the server's last write waits in part.
    assert!(written <= 3 * PIPE, "{written} bytes");
}

#[test]
fn f01_full_buffers_stop_the_server() {
    const MIB: u64 = 1 << 20;
    let spec = Spec::demo(&[]).limit(MCP_SUPERVISED_LIMIT_EVENT_BYTES, MIB);
    let written = floods_and_waits(&spec, 20_000, 2000);
    assert!((MIB / 2..=MIB + 4 * PIPE).contains(&written), "{written} bytes");
    // Without the limit in bytes it is the one in events.
    let spec = Spec::demo(&[]).limit(MCP_SUPERVISED_LIMIT_EVENT_BYTES, 1 << 30);
    let written = floods_and_waits(&spec, 20_000, 2000);
    assert!((1024 * 2000 - PIPE..=1024 * 2000 + 4 * PIPE).contains(&written), "{written} bytes");
}

#[test]
fn f01_one_event_and_one_byte_are_enough_to_go_on() {
    let spec = Spec::demo(&[]).limit(MCP_SUPERVISED_LIMIT_EVENT_QUEUE, 1).limit(MCP_SUPERVISED_LIMIT_EVENT_BYTES, 1);
    floods_and_waits(&spec, 2000, 300);
}

#[test]
fn f01_a_frame_larger_than_the_limit_passes() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]).limit(MCP_SUPERVISED_LIMIT_EVENT_BYTES, 100_000));
    for n in 0..3 {
        host.call(peer, &n.to_string(), "big", json!({"bytes": 3_000_000}));
    }
    for n in 0..3 {
        assert_eq!(host.answer(&n.to_string()).tool_text().len(), 3_000_000);
    }
}

/// BP-05.
#[test]
fn f01_memory_is_bounded_while_a_flood_is_pending() {
    alone!();
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]));
    let pid = host.pid(peer);
    host.call(peer, "a", "echo", json!({"message": "x"}));
    host.answer("a");
    let before = resident_kib();
    host.call(peer, "f", "flood", json!({"count": 200_000, "size": 1000, "background": true}));
    until_stuck(&mut host, pid);
    let grown = resident_kib() - before;
    assert!(grown < (8 << 10) + (4 << 10), "{grown} KiB");
    // What is not about this server goes on, and so do its log and its end.
    let other = host.launch(&Spec::demo(&[]));
    host.call(other, "b", "echo", json!({"message": "x"}));
    host.answer("b");
    let mut taken = host.seen.iter().filter(|e| e.peer == peer && is_message(e) && e.id.is_empty()).count();
    host.seen.clear();
    let mut most = 0;
    while taken < 200_000 {
        taken += host.poll(1000).iter().filter(|e| e.peer == peer && is_message(e)).count();
        host.seen.clear();
        most = most.max(resident_kib());
    }
    assert!(most - before < (8 << 10) + (6 << 10), "{} KiB", most - before);
}

/// BP-06: what happened while the host did not come is told in its order.
#[test]
fn f01_nothing_is_lost_when_the_server_dies_behind_a_full_queue() {
    let mut host = Host::new();
    let spec = Spec::demo(&[]).limit(MCP_SUPERVISED_LIMIT_EVENT_QUEUE, 5).restart(3, 1, 60_000);
    let peer = host.launch(&spec);
    let pid = host.pid(peer);
    host.call(peer, "f", "flood", json!({"count": 200, "size": 200, "one_write": true}));
    host.call(peer, "x", "exit", json!({"code": 4}));
    host.drive();
    settle(&[pid]);
    let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    let messages: Vec<&Event> = taken.iter().filter(|e| is_message(e)).collect();
    assert_eq!(messages.len(), 202);
    assert_eq!(messages[201].id, b"\"x\"");
    assert!(letters(&taken).ends_with("M D C R"));
    assert_eq!(host.last_close().exit_code, 4);
}

#[test]
fn f01_a_respawn_waits_until_the_host_has_taken_enough() {
    let mut host = Host::with_manual_clock().stepwise();
    // More than there are messages, or the end of stdout would not be read before the host takes one.
    let spec = Spec::demo(&[]).limit(MCP_SUPERVISED_LIMIT_EVENT_QUEUE, 4).restart(3, 50, 60_000);
    let peer = host.launch(&spec);
    host.call(peer, "f", "flood", json!({"count": 2, "size": 200, "one_write": true}));
    host.call(peer, "x", "crash", json!({"code": 4}));
    host.reach(peer, MCP_SUPERVISED_STATE_WAITING);
    // Queued: three messages, DRAIN and CLOSE, and a log line that does not count.
    host.advance_ms(60);
    host.drive();
    let mut left = 5;
    while left > 4 {
        assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_WAITING as i32, "{left} are queued");
        left -= host.poll(0).iter().filter(|e| !e.is(MCP_SUPERVISED_EVENT_LOG)).count();
    }
    assert!(host.is_readable());
    host.drive();
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_RUNNING as i32);
    assert_eq!(letters(&host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT))), "M M D C R");
}

#[test]
fn f01_closing_a_peer_with_a_full_queue_ends() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]).limit(MCP_SUPERVISED_LIMIT_EVENT_QUEUE, 5).stop_grace(10, 10));
    let pid = host.pid(peer);
    host.call(peer, "f", "flood", json!({"count": 100_000, "size": 200}));
    until_stuck(&mut host, pid);
    assert_eq!(host.close(peer), 0);
    let taken = host.to_the_end(peer);
    let order = letters(&taken);
    // The server is ended in the middle of a line, which is then none.
    assert!(order.starts_with("M M M M M D M") && order.ends_with(" C"), "{order}");
    let messages = taken.iter().filter(|e| is_message(e));
    assert!(messages.map(number).enumerate().all(|(at, number)| at as u64 == number));
}

/// BP-01.
#[test]
fn f02_stderr_is_drained_while_the_queue_is_full() {
    let mut host = Host::new();
    let spec = Spec::demo(&["--stderr-per-answer", "1048576"]).limit(MCP_SUPERVISED_LIMIT_EVENT_QUEUE, 2);
    let peer = host.launch(&spec);
    let pid = host.pid(peer);
    for n in 0..6 {
        host.call(peer, &n.to_string(), "echo", json!({"message": "x"}));
    }
    // All six are answered although the host takes nothing: the answers fit the pipe, and a megabyte came before each.
    until_stuck(&mut host, pid);
    assert!(written_by(pid) > 6 << 20, "{} bytes", written_by(pid));
    let taken = host.until(|e| e.id == b"\"5\"");
    let order: Vec<_> = taken.iter().filter(|e| is_message(e)).map(|e| e.id.clone()).collect();
    assert_eq!(order, (0..6).map(|n| format!("\"{n}\"").into_bytes()).collect::<Vec<_>>());
    let lines: Vec<&Event> = taken.iter().filter(|e| e.is(MCP_SUPERVISED_EVENT_LOG)).collect();
    assert!(lines.iter().all(|line| line.text().starts_with('e')));
    let all: u64 = lines.iter().map(|line| line.count + 1).sum();
    assert!(all >= 5 * (1 << 20) / 80, "what the ring dropped is counted: {all}");
}

#[test]
fn f02_log_lines_keep_their_place() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]).limit(MCP_SUPERVISED_LIMIT_EVENT_QUEUE, 2));
    let pid = host.pid(peer);
    for n in 0..2 {
        host.call(peer, "s", "stderr", json!({"text": format!("line {n}")}));
        until_stuck(&mut host, pid);
    }
    let taken = host.until(|_| true);
    let order: Vec<&str> = taken.iter().map(Event::letter).collect();
    // Two pipes have no order between them; what came a round earlier stands before all that came later.
    let place = |what: &str| taken.iter().position(|e| e.text().contains(what)).unwrap();
    assert_eq!(order.len(), 4, "{order:?}");
    assert!(place("line 0") < 2 && place("line 1") >= 2, "{order:?}");
}

// ---- the other way ----

const HALF: usize = 100_000;

/// Small lines until there is no room; gives how many were accepted.
fn fill(host: &mut Host, peer: u64) -> u64 {
    let line = request_line("pad", "tools/call", json!({"name": "silent", "arguments": {"pad": "x".repeat(900)}}));
    loop {
        match host.try_send(peer, &line) {
            Ok(_) => host.drive(),
            Err(status) => {
                assert_eq!(status, MCP_SUPERVISED_E_WOULD_BLOCK as i32);
                break;
            }
        }
    }
    assert!(host.last_error().contains("200000"), "{}", host.last_error());
    host.try_send(peer, "[1]").unwrap_or(1) - 1
}

#[test]
fn f04_a_server_that_does_not_read_gets_e_would_block_and_one_writable() {
    let scratch = Scratch::new();
    let record = scratch.name("record");
    let mut host = Host::new();
    let spec = Spec::demo(&["--record", &record]).limit(MCP_SUPERVISED_LIMIT_OUTBOUND_BYTES, 2 * HALF as u64);
    let peer = host.launch(&spec);
    let pid = host.pid(peer);
    host.call(peer, "a", "echo", json!({"message": "up"}));
    host.answer("a");
    signal(pid, libc::SIGSTOP);
    settle(&[pid]);
    fill(&mut host, peer);
    let line = request_line("more", "ping", json!({"pad": "x".repeat(1000)}));
    for _ in 0..5 {
        assert_eq!(host.try_send(peer, &line), Err(MCP_SUPERVISED_E_WOULD_BLOCK as i32), "once is enough to owe it");
    }
    host.drive();
    assert!(!host.is_readable(), "nothing can be done before it reads");
    let from = host.seen.len();
    signal(pid, libc::SIGCONT);
    host.next(MCP_SUPERVISED_EVENT_WRITABLE);
    // Half is free again: that much can be sent at once.
    let part = "y".repeat(HALF - 1000);
    host.call(peer, "half", "echo", json!({"message": part}));
    host.answer("half");
    let writables = host.seen[from..].iter().filter(|e| e.is(MCP_SUPERVISED_EVENT_WRITABLE)).count();
    assert_eq!(writables, 1);
    // All that was accepted came, once and in order; what was refused did not.
    let recorded = scratch.read("record");
    assert!(!recorded.contains("\"more\""));
    assert!(recorded.lines().last().unwrap().contains("\"half\""));
}

#[test]
fn f04_reconnect_replaces_a_writable_and_the_queue_dies_with_its_connection() {
    let scratch = Scratch::new();
    let (lives, record) = (scratch.name("lives"), scratch.name("record"));
    let mut host = Host::new();
    let spec = Spec::demo(&["--lives", &lives, "--in-life", "1", "--no-read", "--in-life", "2-", "--record", &record])
        .restart(3, 1, 60_000)
        .limit(MCP_SUPERVISED_LIMIT_OUTBOUND_BYTES, 2 * HALF as u64);
    let peer = host.launch(&spec);
    fill(&mut host, peer);
    kill9(host.pid(peer));
    let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    assert_eq!(letters(&taken), "D C R");
    let close = host.last_close();
    assert_eq!(close.unread_from, 1, "it has read nothing");
    host.call(peer, "new", "echo", json!({"message": "x"}));
    host.answer("new");
    let recorded = scratch.read("record");
    assert_eq!(recorded.lines().count(), 1, "not a byte for the dead one reaches the next: {recorded}");
    assert!(recorded.contains("\"new\""));
    assert!(!host.seen.iter().any(|e| e.is(MCP_SUPERVISED_EVENT_WRITABLE)));
}

/// BP-03.
#[test]
fn f04_both_sides_write_megabytes_without_blocking_each_other() {
    const BYTES: usize = 4 << 20;
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&["--notes-midline", &BYTES.to_string()]));
    host.call(peer, "big", "echo", json!({"message": "x".repeat(BYTES)}));
    let answer = host.answer("big");
    assert_eq!(answer.tool_text().len(), BYTES);
    let notes: Vec<u64> = host.seen.iter().filter(|e| is_message(e) && e.id.is_empty()).map(number).collect();
    assert!(notes.len() > BYTES / 1100 && notes.iter().copied().eq(0..notes.len() as u64));
}

/// The same with the host at fault: it sends without end and takes what comes only now and then.
#[test]
fn f04_a_thousand_calls_in_flight_do_not_block() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]));
    for n in 0..1000 {
        host.call(peer, &n.to_string(), "echo", json!({"message": "x".repeat(1000)}));
    }
    host.answer("999");
    assert_eq!(host.seen.iter().filter(|e| is_message(e)).count(), 1000);
}

#[test]
fn w05_a_line_begun_for_a_dead_server_is_not_finished_for_the_next() {
    let scratch = Scratch::new();
    let (lives, record) = (scratch.name("lives"), scratch.name("record"));
    let mut host = Host::new();
    let flags =
        ["--lives", &lives, "--in-life", "1", "--delay-start", "600000", "--in-life", "2-", "--record", &record];
    let peer = host.launch(&Spec::demo(&flags).restart(3, 1, 60_000));
    // More than a pipe: its first half is written, the second is not.
    host.call(peer, "old", "echo", json!({"message": "o".repeat(300_000)}));
    host.drive();
    kill9(host.pid(peer));
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    host.call(peer, "new", "echo", json!({"message": "n"}));
    assert_eq!(host.answer("new").tool_text(), "n");
    assert_eq!(scratch.read("record").lines().count(), 1);
    assert!(!scratch.read("record").contains("oooo"));
}
