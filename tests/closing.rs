//! The end of a peer that was asked for: last words, the ladder, what is left when a server does not want to go (L5, L8, L18, P6,
//! P7). Where time matters the test moves the clock.

mod support;

use serde_json::json;
use std::time::{Duration, Instant};
use support::*;

const BY_HOST: i32 = MCP_SUPERVISED_CLOSE_CLOSED_BY_HOST as i32;

#[test]
fn without_newer_kernel_calls() {
    run_file_again_without_newer_kernel_calls();
}

fn by_hand() -> Host {
    Host::with_manual_clock().stepwise()
}

/// Starts a server and waits until it has answered, so that its signal handlers are in place.
fn up(host: &mut Host, spec: &Spec) -> u64 {
    let peer = host.launch(spec);
    host.call(peer, "up", "echo", json!({"message": "up"}));
    host.answer("up");
    host.seen.clear();
    peer
}

/// Closes, takes DRAIN and lets the next poll consume it.
fn begin_closing(host: &mut Host, peer: u64) {
    assert_eq!(host.close(peer), 0);
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_DRAINING as i32);
    host.next(MCP_SUPERVISED_EVENT_DRAIN);
    assert!(host.is_readable(), "the fd stays readable until DRAIN is consumed");
    host.drive();
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_CLOSING as i32);
}

/// The last CLOSE, when it is there: its exit code and signal.
fn ended(host: &mut Host, peer: u64) -> (i32, i32) {
    let told = host.to_the_end(peer);
    let close = told.last().unwrap();
    assert!(close.is(MCP_SUPERVISED_EVENT_CLOSE));
    assert_eq!((close.status, close.will_reconnect()), (BY_HOST, false));
    (close.exit_code, close.signal)
}

#[test]
fn l08_drain_last_words_answers_close() {
    let scratch = Scratch::new();
    let record = scratch.name("record");
    let mut host = by_hand();
    let peer = up(&mut host, &Spec::demo(&["--record", &record]));
    host.call(peer, "before", "echo", json!({"message": "before"}));
    assert_eq!(host.close(peer), 0);
    host.call(peer, "last-1", "echo", json!({"message": "accepted while DRAIN is queued"}));
    let told = host.until(|e| e.is(MCP_SUPERVISED_EVENT_DRAIN));
    assert!(told.iter().all(|e| e.letter() == "M" || e.letter() == "D"));
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_DRAINING as i32, "not consumed yet");
    host.call(peer, "last-2", "echo", json!({"message": "accepted until the next poll"}));
    assert!(host.is_readable());
    host.drive();
    // A server that is quick, on a machine that is not, may even have left within this one turn.
    let state = host.state(peer);
    assert!([MCP_SUPERVISED_STATE_CLOSING as i32, MCP_SUPERVISED_STATE_CLOSED as i32].contains(&state), "{state}");
    let late = request_line("late", "tools/list", json!({}));
    assert_eq!(host.try_send(peer, late), Err(MCP_SUPERVISED_E_CLOSED as i32));
    assert_eq!(ended(&mut host, peer), (0, 0));
    let told = std::mem::take(&mut host.seen);
    let without_drain: Vec<Event> = told.iter().filter(|e| e.letter() != "D").cloned().collect();
    assert_eq!(letters(&without_drain), "M M M C");
    let ids: Vec<&[u8]> = without_drain.iter().map(|e| &e.id[..]).collect();
    assert_eq!(ids, [&b"\"before\""[..], b"\"last-1\"", b"\"last-2\"", b""]);
    assert_eq!(scratch.read("record").lines().count(), 4);
}

/// A queue of several pipes is flushed, and every answer to it delivered, while the ladder waits.
#[test]
fn l08_what_is_queued_is_flushed_and_answered() {
    let scratch = Scratch::new();
    let record = scratch.name("record");
    let mut host = Host::new();
    let peer = up(&mut host, &Spec::demo(&["--record", &record]).stop_grace(60_000, 1_000));
    for n in 0..40 {
        host.call(peer, &format!("q-{n}"), "echo", json!({"message": "q".repeat(50_000)}));
    }
    assert_eq!(host.close(peer), 0);
    assert_eq!(ended(&mut host, peer), (0, 0));
    let told: Vec<Event> = host.seen.iter().filter(|e| e.letter() == "M").cloned().collect();
    assert!(told.iter().map(|e| e.id.clone()).eq((0..40).map(|n| format!("\"q-{n}\"").into_bytes())));
    assert!(told.iter().all(|e| e.tool_text().len() == 50_000));
    assert_eq!(scratch.read("record").lines().count(), 41);
}

#[test]
fn p06_sigterm_after_close_grace_and_not_before() {
    let mut host = by_hand();
    let peer = up(&mut host, &Spec::demo(&["--ignore-eof"]).stop_grace(6_000, 2_000));
    let pid = host.pid(peer);
    begin_closing(&mut host, peer);
    host.advance_ms(5_999);
    host.expect_silence();
    assert!(lives(pid) && host.state(peer) == MCP_SUPERVISED_STATE_CLOSING as i32);
    host.advance_ms(1);
    assert_eq!(ended(&mut host, peer), (-1, libc::SIGTERM));
    assert_eq!(state_of(pid), None, "reaped");
}

#[test]
fn p06_sigkill_after_kill_grace_and_not_before() {
    let mut host = by_hand();
    let peer = up(&mut host, &Spec::demo(&["--ignore-eof", "--ignore-sigterm"]).stop_grace(6_000, 2_000));
    let pid = host.pid(peer);
    begin_closing(&mut host, peer);
    host.advance_ms(6_000);
    host.expect_silence();
    host.advance_ms(1_999);
    host.expect_silence();
    assert!(lives(pid) && host.state(peer) == MCP_SUPERVISED_STATE_CLOSING as i32);
    host.advance_ms(1);
    assert_eq!(ended(&mut host, peer), (-1, libc::SIGKILL));
    assert_eq!(state_of(pid), None, "reaped");
}

/// The defaults are 6 and 2 seconds.
#[test]
fn p06_default_graces() {
    let mut host = by_hand();
    let peer = up(&mut host, &Spec::demo(&["--ignore-eof", "--ignore-sigterm"]));
    let pid = host.pid(peer);
    begin_closing(&mut host, peer);
    host.advance_ms(6_000);
    host.expect_silence();
    host.advance_ms(1_999);
    host.expect_silence();
    assert!(lives(pid));
    host.advance_ms(1);
    assert_eq!(ended(&mut host, peer), (-1, libc::SIGKILL));
}

#[test]
fn p06_the_ladder_in_real_time() {
    for (flags, at_least, signal) in
        [(&["--ignore-eof"][..], 300, libc::SIGTERM), (&["--ignore-eof", "--ignore-sigterm"][..], 600, libc::SIGKILL)]
    {
        let mut host = Host::new().stepwise();
        let peer = up(&mut host, &Spec::demo(flags).stop_grace(300, 300));
        assert_eq!(host.close(peer), 0);
        host.next(MCP_SUPERVISED_EVENT_DRAIN);
        let consumed = Instant::now();
        assert_eq!(ended(&mut host, peer), (-1, signal));
        let took = consumed.elapsed();
        assert!(took >= Duration::from_millis(at_least), "{took:?}");
        assert!(took < Duration::from_secs(15), "{took:?}");
    }
}

/// SIGTERM waits for a stopped process to go on; SIGKILL does not.
#[test]
fn p06_a_stopped_server_is_killed() {
    let mut host = by_hand();
    let peer = up(&mut host, &Spec::demo(&[]).stop_grace(6_000, 2_000));
    let pid = host.pid(peer);
    host.call(peer, "stop", "stop", json!({}));
    wait_state(pid, 'T');
    begin_closing(&mut host, peer);
    host.advance_ms(6_000);
    host.expect_silence();
    host.advance_ms(1_999);
    host.expect_silence();
    assert_eq!(state_of(pid), Some('T'));
    host.advance_ms(1);
    assert_eq!(ended(&mut host, peer), (-1, libc::SIGKILL));
}

/// A server that has work to finish when its input ends finishes it, gets no signal, and no grace is spent (LT-09).
#[test]
fn p06_a_server_that_leaves_is_waited_for_and_not_longer() {
    let scratch = Scratch::new();
    let done = scratch.name("done");
    let mut host = Host::new();
    let peer = up(&mut host, &Spec::demo(&["--slow-exit", "200", "--exit-file", &done]).stop_grace(50_000, 50_000));
    let asked = Instant::now();
    assert_eq!(host.close(peer), 0);
    assert_eq!(ended(&mut host, peer), (0, 0));
    let took = asked.elapsed();
    assert!(took >= Duration::from_millis(200) && took < Duration::from_secs(20), "{took:?}");
    assert_eq!(scratch.read("done"), "finished\n");
}

#[test]
fn p06_endless_graces_never_signal() {
    const NEVER: u64 = u64::MAX;
    // 100 years.
    const LONG: u64 = 100 * 365 * 24 * 3_600 * 1_000;
    let mut host = by_hand();
    let stubborn = &Spec::demo(&["--ignore-eof", "--ignore-sigterm"]).stop_grace(NEVER, NEVER);
    let peer = up(&mut host, stubborn);
    let pid = host.pid(peer);
    begin_closing(&mut host, peer);
    host.advance_ms(LONG);
    host.expect_silence();
    assert!(lives(pid));
    kill9(pid);
    assert_eq!(ended(&mut host, peer), (-1, libc::SIGKILL));

    // SIGTERM, but never SIGKILL.
    let peer = up(&mut host, &Spec::demo(&["--ignore-eof", "--ignore-sigterm"]).stop_grace(10, NEVER));
    let pid = host.pid(peer);
    begin_closing(&mut host, peer);
    host.advance_ms(10);
    host.expect_silence();
    host.advance_ms(LONG);
    host.expect_silence();
    assert!(lives(pid));
    kill9(pid);
    assert_eq!(ended(&mut host, peer), (-1, libc::SIGKILL));
}

/// What can never be flushed holds no step of the ladder up.
#[test]
fn p06_a_full_stdin_pipe_holds_nothing_up() {
    let mut host = by_hand();
    let peer = host.launch(&Spec::demo(&["--no-read"]).stop_grace(6_000, 2_000));
    let pid = host.pid(peer);
    let line = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"pad":"{}"}}}}"#, "x".repeat(200_000));
    let first = host.send(peer, &line);
    for _ in 0..9 {
        host.send(peer, &line);
    }
    begin_closing(&mut host, peer);
    host.advance_ms(5_999);
    host.expect_silence();
    assert!(lives(pid));
    host.advance_ms(1);
    let told = host.to_the_end(peer);
    let close = told.last().unwrap();
    assert_eq!((close.signal, close.status), (libc::SIGTERM, BY_HOST));
    assert!(
        [0, first, first + 1].contains(&close.unread_from),
        "part of the first line was written: {}",
        close.unread_from
    );
}

/// L5 with each of the two ends.
#[test]
fn l05_a_server_that_closes_its_stdout_and_runs_on_is_ended_and_replaced() {
    let mut host = by_hand();
    let peer = up(&mut host, &Spec::demo(&["--ignore-eof"]).restart(3, 10, 60_000));
    let pid = host.pid(peer);
    host.call(peer, "a", "close_stdout", json!({}));
    host.answer("a");
    host.reach(peer, MCP_SUPERVISED_STATE_ENDING);
    host.advance_ms(249);
    host.expect_silence();
    assert!(lives(pid));
    host.advance_ms(1);
    let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert_eq!((close.signal, close.will_reconnect()), (libc::SIGTERM, true));
    host.advance_ms(10);
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    assert_eq!(letters(&host.seen), "M D C R");
}

#[test]
fn l05_sigkill_follows_when_sigterm_is_ignored() {
    let mut host = by_hand();
    let spec = Spec::demo(&["--ignore-eof", "--ignore-sigterm"]).restart(3, 10, 60_000).stop_grace(6_000, 2_000);
    let peer = up(&mut host, &spec);
    let pid = host.pid(peer);
    host.call(peer, "a", "close_stdout", json!({}));
    host.answer("a");
    host.reach(peer, MCP_SUPERVISED_STATE_ENDING);
    host.advance_ms(250);
    host.expect_silence();
    host.advance_ms(1_999);
    host.expect_silence();
    assert!(lives(pid));
    host.advance_ms(1);
    let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert_eq!((close.signal, close.will_reconnect()), (libc::SIGKILL, true));
}

#[test]
fn l05_a_server_that_closes_its_stdin_and_runs_on_is_ended_and_replaced() {
    let mut host = by_hand();
    let peer = up(&mut host, &Spec::demo(&[]).restart(3, 10, 60_000));
    let pid = host.pid(peer);
    host.call(peer, "a", "close_stdin", json!({}));
    host.answer("a");
    // Whether the hang-up is seen first or the write that meets it: one death.
    let line = request_line("b", "tools/list", json!({}));
    let sent = host.try_send(peer, line);
    assert!(matches!(sent, Ok(2..) | Err(-10)), "{sent:?}");
    host.reach(peer, MCP_SUPERVISED_STATE_ENDING);
    host.advance_ms(249);
    host.expect_silence();
    assert!(lives(pid));
    host.advance_ms(1);
    let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert_eq!((close.signal, close.attempt), (libc::SIGTERM, 1));
    host.advance_ms(10);
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    host.call(peer, "c", "pid", json!({}));
    host.answer("c");
    assert_eq!(letters(&host.seen), "M D C R M");
}

#[test]
fn l18_shutdown_ends_every_peer_and_says_when_it_is_done() {
    let mut host = by_hand();
    let polite = up(&mut host, &Spec::demo(&[]));
    let patient = up(&mut host, &Spec::demo(&["--ignore-eof"]).stop_grace(500, 60_000));
    let stubborn = up(&mut host, &Spec::demo(&["--ignore-eof", "--ignore-sigterm"]).stop_grace(500, 60_000));
    let idle = host.add(&Spec::demo(&[]));
    let waiting = up(&mut host, &Spec::demo(&[]).restart(3, 10_000, 60_000));
    kill9(host.pid(waiting));
    host.next(MCP_SUPERVISED_EVENT_CLOSE);
    host.seen.clear();

    assert_eq!(host.shutdown(1_000), 0);
    assert_eq!(host.try_add(&Spec::demo(&[]), 0), Err(MCP_SUPERVISED_E_CLOSED as i32));
    assert_eq!(host.start(idle), MCP_SUPERVISED_E_CLOSED as i32);
    host.to_the_end(polite);
    host.expect_nothing_but("C D");
    assert_eq!(host.state(patient), MCP_SUPERVISED_STATE_CLOSING as i32);
    host.advance_ms(500);
    host.to_the_end(patient);
    host.advance_ms(499);
    host.expect_silence();
    assert!(lives(host.pid(stubborn)));
    host.advance_ms(1);
    let end = host.next(MCP_SUPERVISED_EVENT_SHUTDOWN);
    assert_eq!((end.peer, end.is_final()), (0, true));
    let told = |peer| {
        let mine = of(peer, &host.seen);
        let last = mine.last().unwrap();
        assert!(last.is_final() && last.is(MCP_SUPERVISED_EVENT_CLOSE));
        (letters(&mine), last.exit_code, last.signal, last.status)
    };
    assert_eq!(told(polite), ("D C".into(), 0, 0, BY_HOST));
    assert_eq!(told(patient), ("D C".into(), -1, libc::SIGTERM, BY_HOST));
    assert_eq!(told(stubborn), ("D C".into(), -1, libc::SIGKILL, BY_HOST));
    assert_eq!(told(idle), ("D C".into(), -1, 0, BY_HOST));
    assert_eq!(told(waiting), ("C".into(), -1, 0, MCP_SUPERVISED_CLOSE_WITHDRAWN as i32));
    host.advance_ms(100_000);
    host.expect_silence();
    assert_eq!(host.start(idle), MCP_SUPERVISED_E_CLOSED as i32);
    assert_eq!(host.remove(polite), 0);
}

#[test]
fn l18_shutdown_without_peers_and_without_patience() {
    let mut host = by_hand();
    assert_eq!(host.shutdown(u64::MAX), 0);
    assert!(host.is_readable());
    assert_eq!(letters(&host.until(Event::is_final)), "SHUTDOWN");
    assert_eq!(host.shutdown(0), 0);
    host.expect_silence();

    let mut host = by_hand();
    let peer = up(&mut host, &Spec::demo(&["--ignore-eof", "--ignore-sigterm"]));
    assert_eq!(host.shutdown(0), 0);
    let told = host.until(|e| e.is(MCP_SUPERVISED_EVENT_SHUTDOWN));
    assert_eq!(letters(&told), "D C SHUTDOWN");
    assert_eq!(told[1].signal, libc::SIGKILL);
    assert_eq!(host.remove(peer), 0);
}

/// `free` waits for nobody and leaves nobody.
#[test]
fn p07_free_is_bounded_and_leaves_nothing() {
    let mut host = Host::new();
    let mut pids = Vec::new();
    let stubborn = Spec::demo(&["--ignore-eof", "--ignore-sigterm"]);
    for _ in 0..4 {
        let peer = up(&mut host, &stubborn);
        pids.push(host.pid(peer));
    }
    let stopped = up(&mut host, &stubborn);
    host.call(stopped, "stop", "stop", json!({}));
    pids.push(host.pid(stopped));
    host.drive();
    wait_state(host.pid(stopped), 'T');
    let full = host.launch(&Spec::demo(&["--no-read", "--ignore-sigterm"]));
    for _ in 0..10 {
        host.send(full, format!(r#"{{"jsonrpc":"2.0","method":"x","params":["{}"]}}"#, "x".repeat(100_000)));
    }
    host.drive();
    pids.push(host.pid(full));
    let parent = up(&mut host, &stubborn);
    pids.push(host.pid(parent));
    host.call(parent, "g", "grandchild", json!({"seconds": 600, "stdin": true}));
    let grandchild: i32 = host.answer("g").tool_text().parse().unwrap();
    // One that is on its way out, and one that is dead and was not looked at.
    let closing = up(&mut host, &stubborn);
    pids.push(host.pid(closing));
    assert_eq!(host.close(closing), 0);
    host.next(MCP_SUPERVISED_EVENT_DRAIN);
    host.drive();
    let dead = up(&mut host, &stubborn);
    pids.push(host.pid(dead));
    kill9(host.pid(dead));

    let began = Instant::now();
    assert_eq!(host.free(), 0);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    for pid in pids {
        assert_eq!(state_of(pid), None, "reaped, and so no zombie");
    }
    wait_gone(grandchild);
}

impl Host {
    /// Takes everything there is now; it must be of these kinds.
    fn expect_nothing_but(&mut self, kinds: &str) {
        loop {
            let events = self.poll(0);
            assert!(events.iter().all(|e| kinds.contains(e.letter())), "{events:?}");
            if events.is_empty() {
                return;
            }
        }
    }
}
