//! What one call of poll does: rules H2, H5 and the order of events across peers (F5, L15, L17).

mod support;

use std::os::unix::thread::JoinHandleExt;
use std::time::{Duration, Instant};

use serde_json::json;
use support::watch::*;
use support::*;

fn is_message(event: &Event) -> bool {
    event.is(MCP_SUPERVISED_EVENT_MESSAGE)
}

/// The number inside a notification of a flood.
fn number(event: &Event) -> u64 {
    event.json()["params"]["data"]["n"].as_u64().expect("a numbered notification")
}

/// One poll as C makes it; the events stay as they are.
fn poll_raw(host: &mut Host, room: usize) -> Vec<mcp_supervised_event> {
    let mut events = vec![EMPTY; room];
    // SAFETY: a live handle, and an array of that many events.
    let given = unsafe { mcp_supervised_poll(host.raw(), events.as_mut_ptr(), size_of_event(), room, 0) };
    events.truncate(usize::try_from(given).expect("poll works"));
    events
}

/// A handle for a thread that only wakes it.
struct Waker(*mut RawHandle);

// SAFETY: `wakeup` is callable from any thread, and each test joins the thread before it frees the handle.
unsafe impl Send for Waker {}

impl Waker {
    fn wake(&self) {
        // SAFETY: a live handle.
        assert_eq!(unsafe { mcp_supervised_wakeup(self.0) }, 0);
    }
}

#[test]
fn h05_max_events_0_drives() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]).restart(3, 1, 60_000));
    host.call(peer, "a", "echo", json!({"message": "x"}));
    host.call(peer, "c", "crash", json!({"code": 3}));
    // The call is written, the answer read, the death seen and the next life begun, with nothing handed out.
    let first = host.pid(peer);
    host.drive_until("the second life", |host| ![0, first].contains(&host.pid(peer)));
    assert!(host.seen.is_empty());
    assert!(host.is_readable());
    assert_eq!(letters(&host.poll(0)), "M D C R");
}

#[test]
fn h05_null_is_allowed_where_nothing_is_written() {
    let host = Host::new();
    host.wakeup();
    // SAFETY: a live handle; no event is written.
    assert_eq!(unsafe { mcp_supervised_poll(host.raw(), std::ptr::null_mut(), size_of_event(), 0, 0) }, 0);
    assert!(host.is_readable(), "it was not taken");
}

#[test]
fn h05_timeouts_round_up() {
    let mut host = Host::new();
    for ms in [0, 1, 3, 30] {
        let begin = Instant::now();
        assert_eq!(host.poll(ms).len(), 0);
        assert!(begin.elapsed() >= Duration::from_millis(ms as u64), "{ms} ms: {:?}", begin.elapsed());
    }
    // Nor does traffic inside make it return early, or late.
    let peer = host.launch(&Spec::demo(&[]).stderr(MCP_SUPERVISED_STDERR_NULL));
    host.call(peer, "s", "silent", json!({}));
    host.poll(0);
    let begin = Instant::now();
    assert_eq!(host.poll(30).len(), 0);
    assert!(begin.elapsed() >= Duration::from_millis(30));
}

#[test]
fn h05_an_event_ends_a_wait() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]));
    host.call(peer, "a", "sleep", json!({"ms": 20}));
    let begin = Instant::now();
    while host.poll(i32::MAX).is_empty() {}
    assert!(begin.elapsed() < PATIENCE);
}

#[test]
fn h05_with_nothing_started_it_blocks_until_wakeup() {
    let mut host = Host::new();
    host.add(&Spec::demo(&[]));
    let (me, waker) = (thread_id(), Waker(host.raw()));
    let other = std::thread::spawn(move || {
        wait_until_it_waits(me);
        waker.wake();
    });
    assert_eq!(letters(&host.poll(-1)), "WAKEUP");
    other.join().unwrap();
    assert!(!host.is_readable());
}

#[test]
fn h05_wakeups_coalesce() {
    let mut host = Host::new();
    for _ in 0..3 {
        for _ in 0..5 {
            host.wakeup();
        }
        assert_eq!(letters(&host.poll(-1)), "WAKEUP");
        assert_eq!(host.poll(0).len(), 0);
        assert!(!host.is_readable());
    }
}

#[test]
fn h05_wakeups_of_other_threads_are_not_lost() {
    let mut host = Host::new();
    for _ in 0..2000 {
        let waker = Waker(host.raw());
        let other = std::thread::spawn(move || waker.wake());
        assert_eq!(letters(&host.poll(-1)), "WAKEUP");
        other.join().unwrap();
    }
}

#[test]
fn h05_a_signal_ends_the_wait_with_nothing() {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: a handler that does nothing, for a signal that nobody else uses here; no SA_RESTART.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
    }
    let (tell, told) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        let mut host = Host::new();
        host.launch(&Spec::demo(&[]));
        host.poll(0);
        tell.send(thread_id()).unwrap();
        (host.poll(-1).len(), host.poll(10_000_000).len())
    });
    let thread = told.recv().unwrap();
    for _ in 0..2 {
        wait_until_it_waits(thread);
        // SAFETY: the thread was not joined.
        assert_eq!(unsafe { libc::pthread_kill(waiting.as_pthread_t(), libc::SIGUSR1) }, 0);
        // It may be caught in the same wait again otherwise.
        wait_for("the signal is taken", || !is_pending(thread));
    }
    assert_eq!(waiting.join().unwrap(), (0, 0));
}

fn is_pending(thread: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap_or_default();
    let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:")).unwrap_or_default().trim();
    u64::from_str_radix(pending, 16).is_ok_and(|pending| pending & (1 << (libc::SIGUSR1 - 1)) != 0)
}

#[test]
fn h02_payloads_last_until_the_next_poll_and_no_other_call_ends_them() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]).limit(MCP_SUPERVISED_LIMIT_OUTBOUND_BYTES, 200_000));
    let other = host.launch(&Spec::demo(&[]));
    host.call(peer, "f", "flood", json!({"count": 40, "size": 3000, "one_write": true}));
    host.poll(0);
    let mut rounds = 0;
    while !host.seen.iter().any(|e| e.id == b"\"f\"") {
        host.wait_readable(PATIENCE);
        let raw = poll_raw(&mut host, 7);
        let copies: Vec<Event> = raw.iter().map(Event::copy).collect();
        // Everything but poll and free, successes and failures.
        host.send(peer, request_line("x", "ping", json!({"pad": "y".repeat(5000)})));
        assert!(host.try_send(peer, "not JSON").is_err());
        assert!(!host.last_error().is_empty());
        host.state(peer);
        host.pid(peer);
        host.wakeup();
        let third = host.launch(&Spec::demo(&[]));
        assert_eq!(host.close(third), 0);
        let idle = host.add(&Spec::demo(&[]));
        assert_eq!(host.remove(idle), 0);
        if rounds == 1 {
            assert_eq!(host.close(other), 0);
        }
        for (event, copy) in raw.iter().zip(&copies) {
            assert_eq!(format!("{:?}", Event::copy(event)), format!("{copy:?}"));
        }
        host.seen.extend(copies);
        rounds += 1;
    }
    assert!(rounds > 5);
}

#[test]
fn h02_payloads_outlive_the_removal_of_their_peer() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&["--stderr-at-start", "last words"]).restart(MCP_SUPERVISED_NO_RESTART, 1, 1));
    host.call(peer, "x", "crash", json!({"code": 5}));
    let mut last = Vec::new();
    while !last.iter().any(|e: &mcp_supervised_event| e.flags & MCP_SUPERVISED_FLAG_FINAL != 0) {
        host.wait_readable(PATIENCE);
        last = poll_raw(&mut host, 64);
    }
    let copies: Vec<Event> = last.iter().map(Event::copy).collect();
    assert_eq!(host.remove(peer), 0);
    let again = host.launch(&Spec::demo(&[]));
    host.send(again, request_line("x", "ping", json!({})));
    for (event, copy) in last.iter().zip(&copies) {
        assert_eq!(Event::copy(event).payload, copy.payload);
    }
}

#[test]
fn h05_peers_take_turns() {
    let mut host = Host::new();
    let peers = [host.launch(&Spec::demo(&[])), host.launch(&Spec::demo(&[])), host.launch(&Spec::demo(&[]))];
    for peer in peers {
        host.call(peer, "f", "flood", json!({"count": 100, "size": 120, "one_write": true}));
    }
    host.drive();
    settle(&peers.map(|peer| host.pid(peer)));
    host.batch = 300;
    let taken = host.poll(0);
    assert_eq!(taken.len(), 300);
    for turn in taken.chunks(3) {
        let mut of: Vec<u64> = turn.iter().map(|e| e.peer).collect();
        of.sort_unstable();
        assert_eq!(of, peers, "each in its turn");
    }
    for peer in peers {
        let numbers: Vec<u64> = of(peer, &taken).iter().map(number).collect();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
    }
}

#[test]
fn h05_the_close_of_a_quiet_peer_is_not_behind_a_flood() {
    for batch in [1, 64] {
        let mut host = Host::new();
        let loud = host.launch(&Spec::demo(&[]));
        let quiet = host.launch(&Spec::demo(&[]).restart(MCP_SUPERVISED_NO_RESTART, 1, 1));
        host.call(loud, "f", "flood", json!({"count": 20_000, "size": 120}));
        host.batch = batch;
        host.until(|e| e.peer == loud);
        let pid = host.pid(quiet);
        kill9(pid);
        settle(&[pid]);
        // One turn to see it; its events come out between the other's.
        let taken = host.until(|e| e.peer == quiet && e.is_final());
        let before = of(loud, &taken).len();
        assert!(before <= 3 * batch.max(4), "{before} events of the other came first");
        assert_eq!(letters(&of(quiet, &taken)), "D C X");
    }
}

#[test]
fn f05_a_flood_does_not_starve_another_peer() {
    let mut host = Host::new();
    let loud = host.launch(&Spec::demo(&[]));
    let quiet = host.launch(&Spec::demo(&[]));
    host.call(loud, "f", "flood", json!({"count": 1_000_000, "size": 120}));
    host.until(|e| e.peer == loud);
    for n in 0..50 {
        let id = n.to_string();
        host.call(quiet, &id, "echo", json!({"message": "x"}));
        host.drive();
        settle(&[host.pid(quiet)]);
        // The answer is in its pipe.
        let mut polls = 0;
        while !host.poll(0).iter().any(|e| e.peer == quiet) {
            polls += 1;
            assert!(polls < 3, "the answer was there and was not handed out");
        }
        host.seen.clear();
    }
    assert!(host.poll(0).iter().all(|e| e.peer == loud), "the flood goes on");
}

#[test]
fn l15_the_order_within_a_peer_is_that_of_its_server() {
    for batch in [1, 2, 64, 1000] {
        let mut host = Host::new();
        let peer = host.launch(&Spec::demo(&[]));
        host.batch = batch;
        for round in 0..4 {
            host.call(peer, &round.to_string(), "flood", json!({"count": 300, "size": 130 + 7000 * (round % 2)}));
        }
        host.answer("3");
        let ids: Vec<u64> = host.seen.iter().filter(|e| is_message(e) && e.id.is_empty()).map(number).collect();
        assert_eq!(ids, (0..4).flat_map(|_| 0..300).collect::<Vec<_>>());
    }
}

#[test]
fn h05_one_at_a_time_loses_nothing() {
    let mut host = Host::new();
    host.batch = 1;
    let peer = host.launch(&Spec::demo(&[]).restart(3, 1, 60_000));
    host.call(peer, "f", "flood", json!({"count": 3000, "size": 120, "one_write": true}));
    host.call(peer, "c", "crash", json!({"code": 3}));
    let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    assert_eq!(taken.iter().filter(|e| is_message(e)).count(), 3001);
    assert!(letters(&taken).ends_with("M D C R"));
}

/// CO-11: messages that came together are there together, without another byte from the server.
#[test]
fn h05_all_messages_of_one_write_can_be_taken_at_once() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]));
    host.call(peer, "f", "flood", json!({"count": 50, "size": 300, "one_write": true}));
    host.drive();
    settle(&[host.pid(peer)]);
    assert_eq!(host.poll(0).len(), 51);
    host.call(peer, "s", "split", json!({"at": 20, "ms": 1}));
    assert_eq!(host.answer("s").tool_text(), "split");
}

/// FR-03.
#[test]
fn h05_answers_of_every_size_arrive_whole() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]));
    for bytes in [1000, 65_534, 65_535, 65_536, 65_537, 131_072, 2_097_152] {
        host.call(peer, "big", "exact_line", json!({"bytes": bytes}));
        host.call(peer, "small", "echo", json!({"message": "x"}));
        assert_eq!(host.answer("big").payload.len(), bytes);
        if !host.seen.iter().any(|e| e.id == b"\"small\"") {
            host.answer("small");
        }
        host.seen.clear();
    }
}
