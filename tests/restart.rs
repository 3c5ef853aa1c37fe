//! A server that dies is replaced, within its budget: the order of what is told, the delay, what cannot be spawned, and what
//! each call answers in each state.

mod support;

use serde_json::json;
use std::time::{Duration, Instant};
use support::*;

const BY_HOST: i32 = MCP_SUPERVISED_CLOSE_CLOSED_BY_HOST as i32;
const LOST: i32 = MCP_SUPERVISED_CLOSE_PEER_LOST as i32;
const WITHDRAWN: i32 = MCP_SUPERVISED_CLOSE_WITHDRAWN as i32;

#[test]
fn without_newer_kernel_calls() {
    run_file_again_without_newer_kernel_calls();
}

/// A manual clock, one event at a time.
fn by_hand() -> Host {
    Host::with_manual_clock().stepwise()
}

/// The events of everything taken since, without log lines.
fn story(host: &Host) -> String {
    letters(&host.seen)
}

#[test]
fn l01_a_start_in_modern_or_raw_mode_tells_nothing() {
    let mut host = Host::new();
    for mode in [MCP_SUPERVISED_MODE_MODERN, MCP_SUPERVISED_MODE_RAW] {
        let peer = host.launch(&Spec::demo(&[]).mode(mode));
        assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_RUNNING as i32);
        assert!(host.pid(peer) > 1);
        host.call(peer, "a", "life", json!({}));
        host.answer("a");
        assert_eq!(letters(&of(peer, &host.seen)), "M", "nothing but the answer");
    }
}

#[test]
fn l02_a_killed_server_is_replaced_and_the_next_call_answers() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]).restart(3, 1, 60_000));
    host.call(peer, "a", "pid", json!({}));
    let first = host.answer("a").tool_text();
    assert_eq!(first, host.pid(peer).to_string());
    kill9(host.pid(peer));
    let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    assert_eq!(letters(&taken), "D C R");
    let close = taken.iter().find(|e| e.is(MCP_SUPERVISED_EVENT_CLOSE)).unwrap();
    assert_eq!((close.signal, close.exit_code, close.life), (9, -1, 1));
    assert_eq!(close.status, LOST);
    assert!(close.will_reconnect());
    assert_eq!((close.attempt, close.max_restarts, close.delay_ms), (1, 3, 1));
    host.call(peer, "b", "pid", json!({}));
    let second = host.answer("b").tool_text();
    assert_ne!(first, second);
    assert_eq!(host.close(peer), 0);
    let taken = host.until(Event::is_final);
    assert_eq!(letters(&taken), "D C");
    assert_eq!(taken.last().unwrap().exit_code, 0);
    assert_eq!(host.remove(peer), 0);
    assert_eq!(state_of(second.parse().unwrap()), None, "no zombie outlives its connection");
}

#[test]
fn l02_order_and_fields_of_a_whole_story() {
    let mut host = by_hand();
    let spec = Spec::demo(&["--stderr-at-start", "I am up"]).restart(3, 100, 60_000);
    let peer = host.try_add(&spec, 77).unwrap();
    assert_eq!(host.start(peer), 0);
    let pid = host.pid(peer);
    host.call(peer, "a", "echo", json!({"message": "x"}));
    host.answer("a");
    host.advance_ms(500);
    host.call(peer, "dies", "crash", json!({"code": 7}));
    let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert_eq!(story(&host), "M D C");
    assert_eq!((close.exit_code, close.signal, close.pid, close.life), (7, 0, pid, 1));
    assert_eq!((close.peer, close.peer_data, close.status), (peer, 77, LOST));
    assert_eq!((close.attempt, close.max_restarts, close.delay_ms), (1, 3, 100));
    assert_eq!(close.uptime_ms, 500, "the clock stood still but for these");
    assert_eq!(close.text(), "I am up");
    assert_eq!(close.flags, MCP_SUPERVISED_FLAG_WILL_RECONNECT);
    assert_eq!(close.unread_from, 0);

    host.advance_ms(100);
    let reconnect = host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    assert_eq!((reconnect.pid, reconnect.life, reconnect.attempt), (host.pid(peer), 2, 1));
    assert_eq!((reconnect.peer, reconnect.peer_data, reconnect.flags), (peer, 77, 0));
    host.advance_ms(1_250);
    kill9(host.pid(peer));
    let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert_eq!((close.signal, close.exit_code, close.life, close.attempt), (9, -1, 2, 2));
    assert_eq!((close.pid, close.uptime_ms), (reconnect.pid, 1_250));
    assert_eq!(story(&host), "M D C R D C");
}

#[test]
fn l02_the_delay_is_kept_to_the_millisecond() {
    let mut host = by_hand();
    let peer = host.launch(&Spec::demo(&[]).restart(3, 1_000, 60_000));
    kill9(host.pid(peer));
    let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert_eq!(close.delay_ms, 1_000);
    assert_eq!((host.state(peer), host.pid(peer)), (MCP_SUPERVISED_STATE_WAITING as i32, 0));
    host.expect_silence();
    host.advance_ms(999);
    host.expect_silence();
    assert_eq!((host.state(peer), host.pid(peer)), (MCP_SUPERVISED_STATE_WAITING as i32, 0), "one to go");
    host.advance_ms(1);
    assert!(host.is_readable());
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_RUNNING as i32);
}

#[test]
fn l02_the_delay_in_real_time() {
    let mut host = Host::new().stepwise();
    let peer = host.launch(&Spec::demo(&[]).restart(3, 150, 60_000));
    let died = Instant::now();
    kill9(host.pid(peer));
    host.next(MCP_SUPERVISED_EVENT_CLOSE);
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    let took = died.elapsed();
    assert!(took >= Duration::from_millis(150), "{took:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn l07_two_signs_of_one_death_make_one_close_and_one_restart() {
    let mut host = by_hand();
    let spec = Spec::demo(&["--ignore-eof"]).restart(3, 10, 60_000).limit(MCP_SUPERVISED_LIMIT_FRAME_BYTES, 1_000);
    let peer = host.launch(&spec);

    // End of stdout and exit together.
    kill9(host.pid(peer));
    host.next(MCP_SUPERVISED_EVENT_CLOSE);
    host.advance_ms(10);
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);

    // End of stdout first; the exit a good while later.
    host.call(peer, "a", "close_stdout", json!({}));
    host.answer("a");
    host.reach(peer, MCP_SUPERVISED_STATE_ENDING);
    kill9(host.pid(peer));
    let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert_eq!((close.attempt, close.signal), (2, 9), "the second signal took nothing from the budget");
    host.advance_ms(10);
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);

    // A line over the limit, then end of stdin and the exit.
    host.call(peer, "b", "long_line", json!({"bytes": 5_000, "newline": true}));
    host.reach(peer, MCP_SUPERVISED_STATE_ENDING);
    kill9(host.pid(peer));
    let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert_eq!(close.attempt, 3);
    host.advance_ms(10);
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    assert_eq!(story(&host), "D C R M D C R E D C R");

    // The exit first, while somebody else holds stdout.
    host.call(peer, "c", "grandchild", json!({"seconds": 600, "new_group": true}));
    let grandchild: i32 = host.answer("c").tool_text().parse().unwrap();
    kill9(host.pid(peer));
    host.reach(peer, MCP_SUPERVISED_STATE_ENDING);
    kill9(grandchild);
    let last = host.to_the_end(peer);
    assert_eq!(letters(&last), "D C X");
}

#[test]
fn l09_close_while_waiting_withdraws_the_replacement() {
    let mut host = by_hand();
    let peer = host.launch(&Spec::demo(&[]).restart(3, 1_000, 60_000));
    kill9(host.pid(peer));
    host.next(MCP_SUPERVISED_EVENT_CLOSE);
    host.advance_ms(500);
    host.expect_silence();
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_WAITING as i32, "the timer is truly pending");
    assert_eq!(host.close(peer), 0);
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_CLOSED as i32);
    let told = host.to_the_end(peer);
    assert_eq!(letters(&told), "C", "no DRAIN: there is no connection");
    let close = &told[0];
    assert_eq!((close.status, close.pid, close.exit_code, close.signal), (WITHDRAWN, 0, -1, 0));
    assert!(!close.will_reconnect());
    host.advance_ms(10_000);
    host.expect_silence();
    assert_eq!(host.pid(peer), 0);
    assert_eq!(host.remove(peer), 0);
}

#[test]
fn l09_close_while_ending_takes_the_promise_back() {
    let mut host = by_hand();
    let peer = host.launch(&Spec::demo(&["--ignore-eof"]).restart(3, 1_000, 60_000));
    host.call(peer, "a", "close_stdout", json!({}));
    host.answer("a");
    host.reach(peer, MCP_SUPERVISED_STATE_ENDING);
    assert_eq!(host.close(peer), 0);
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_ENDING as i32);
    host.expect_silence();
    kill9(host.pid(peer));
    let told = host.to_the_end(peer);
    assert_eq!(letters(&told), "D C");
    let close = told.last().unwrap();
    assert!(!close.will_reconnect());
    assert_eq!((close.attempt, close.delay_ms, close.life, close.signal), (0, 0, 1, 9));
    host.advance_ms(10_000);
    host.expect_silence();
}

#[test]
fn l09_close_while_ending_for_good_changes_nothing() {
    let mut host = by_hand();
    let peer = host.launch(&Spec::demo(&["--ignore-eof"]).restart(MCP_SUPERVISED_NO_RESTART, 0, 60_000));
    host.call(peer, "a", "close_stdout", json!({}));
    host.answer("a");
    host.reach(peer, MCP_SUPERVISED_STATE_ENDING);
    assert_eq!(host.close(peer), 0);
    kill9(host.pid(peer));
    assert_eq!(letters(&host.to_the_end(peer)), "D C X");
    assert_eq!(host.seen.iter().filter(|e| e.is(MCP_SUPERVISED_EVENT_EXHAUSTED)).count(), 1);
}

#[test]
fn l11_a_replacement_that_cannot_be_spawned_costs_budget_and_may_come_back() {
    let scratch = Scratch::new();
    let mut host = by_hand();
    let spec = Spec::new(scratch.link("server")).mode(MCP_SUPERVISED_MODE_RAW).restart(3, 100, 60_000);
    let peer = host.launch(&spec);
    scratch.remove("server");
    kill9(host.pid(peer));
    let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert_eq!((close.attempt, close.will_reconnect()), (1, true));
    host.advance_ms(100);
    let error = host.next(MCP_SUPERVISED_EVENT_ERROR);
    assert_eq!(error.status, MCP_SUPERVISED_E_SPAWN as i32);
    assert_eq!((error.attempt, error.delay_ms, error.will_reconnect()), (2, 100, true));
    assert_eq!((error.life, error.pid, error.exit_code, error.signal), (2, 0, -1, 0));
    assert!(error.text().contains("server") && error.text().contains("not found"), "{}", error.text());
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_WAITING as i32);
    // The delay runs from the ERROR.
    host.advance_ms(99);
    host.expect_silence();
    scratch.link("server");
    host.advance_ms(1);
    let reconnect = host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    assert_eq!((reconnect.life, reconnect.attempt), (2, 2));
    host.call(peer, "a", "pid", json!({}));
    assert_eq!(host.answer("a").tool_text(), reconnect.pid.to_string());
    kill9(reconnect.pid);
    assert_eq!(host.next(MCP_SUPERVISED_EVENT_CLOSE).attempt, 3);
    assert_eq!(story(&host), "D C E R M D C");
}

#[test]
fn l13_replacements_that_never_spawn_exhaust_the_budget() {
    let scratch = Scratch::new();
    let mut host = by_hand();
    let spec = Spec::new(scratch.link("server")).mode(MCP_SUPERVISED_MODE_RAW).restart(3, 100, 60_000);
    let peer = host.launch(&spec);
    scratch.remove("server");
    kill9(host.pid(peer));
    host.next(MCP_SUPERVISED_EVENT_CLOSE);
    for (attempt, will) in [(2, true), (3, true), (0, false)] {
        host.advance_ms(100);
        let error = host.next(MCP_SUPERVISED_EVENT_ERROR);
        assert_eq!((error.status, error.attempt), (MCP_SUPERVISED_E_SPAWN as i32, attempt));
        assert_eq!(error.will_reconnect(), will);
        assert!(!error.is_final());
    }
    let exhausted = host.next(MCP_SUPERVISED_EVENT_EXHAUSTED);
    assert_eq!((exhausted.max_restarts, exhausted.is_final()), (3, false));
    let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert_eq!((close.status, close.pid, close.will_reconnect()), (WITHDRAWN, 0, false));
    assert!(close.is_final());
    assert_eq!(story(&host), "D C E E E X C");
    host.advance_ms(100_000);
    host.expect_silence();
    assert_eq!(host.remove(peer), 0);
}

#[test]
fn l11_a_first_start_that_fails_is_an_answer_and_may_be_tried_again() {
    let scratch = Scratch::new();
    let mut host = by_hand();
    let spec =
        Spec::new(scratch.name("later")).mode(MCP_SUPERVISED_MODE_RAW).restart(1, 100, 60_000).arg("--ignore-eof");
    let peer = host.add(&spec);
    for _ in 0..5 {
        assert_eq!(host.start(peer), MCP_SUPERVISED_E_SPAWN as i32);
        assert!(host.last_error().contains("later"), "{}", host.last_error());
        assert_eq!((host.state(peer), host.pid(peer)), (MCP_SUPERVISED_STATE_IDLE as i32, 0));
        host.expect_silence();
    }
    assert_eq!(host.try_send(peer, "{}"), Err(MCP_SUPERVISED_E_NOT_STARTED as i32));
    scratch.link("later");
    assert_eq!(host.start(peer), 0);
    kill9(host.pid(peer));
    let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert_eq!((close.life, close.attempt, close.will_reconnect()), (1, 1, true), "the failed starts cost nothing");
}

#[test]
fn l12_a_crash_loop_ends_in_exhausted() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&["--exit-at-start", "3"]).restart(2, 1, 60_000));
    let taken = host.until(Event::is_final);
    assert_eq!(letters(&taken), "D C R D C R D C X");
    assert_eq!(taken.last().unwrap().max_restarts, 2);
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_CLOSED as i32);
    let last = host.last_close();
    assert_eq!((last.exit_code, last.will_reconnect(), last.attempt, last.delay_ms), (3, false, 0, 0));
}

/// A server may say a lot after its death, and its grandchildren even later.
#[test]
fn l14_nothing_follows_the_final_event() {
    let mut host = by_hand();
    let script = "(while echo late; echo late >&2; do :; done) & echo '{\"jsonrpc\":\"2.0\",\"method\":\"a\"}'; exit 3";
    let spec = Spec::shell(script).restart(MCP_SUPERVISED_NO_RESTART, 0, 60_000);
    let peer = host.launch(&spec);
    // The shell is gone, its child goes on writing: the drain ends it, by the clock that we move.
    let mut last = Vec::new();
    while !last.iter().any(Event::is_final) {
        host.advance_ms(1);
        last.extend(host.poll(100));
    }
    assert!(host.seen.last().unwrap().is(MCP_SUPERVISED_EVENT_EXHAUSTED));
    assert_eq!(host.seen.iter().filter(|e| e.is_final()).count(), 1);
    host.advance_ms(10_000);
    for _ in 0..20 {
        assert!(host.poll(1).is_empty());
    }
    assert_eq!(host.remove(peer), 0);
}

#[test]
fn l17_one_peer_exhausts_and_the_other_does_not_notice() {
    let mut host = Host::new();
    let good = host.launch(&Spec::demo(&[]));
    host.call(good, "before", "pid", json!({}));
    let bad = host.launch(&Spec::demo(&["--exit-at-start", "1"]).restart(5, 1, 60_000));
    host.to_the_end(bad);
    host.call(good, "after", "pid", json!({}));
    host.answer("after");
    assert_eq!(letters(&of(good, &host.seen)), "M M");
    assert_eq!(host.state(good), MCP_SUPERVISED_STATE_RUNNING as i32);
    kill9(host.pid(good));
    let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert_eq!(close.attempt, 1, "each has its own budget");
}

#[test]
fn b01_a_budget_of_nothing_is_refused_by_name() {
    let mut host = Host::new();
    let mut refused = |max, delay, window| {
        assert_eq!(
            host.try_add(&Spec::demo(&[]).restart(max, delay, window), 0),
            Err(MCP_SUPERVISED_E_INVALID as i32),
            "{max} {delay} {window}"
        );
        host.last_error()
    };
    assert!(refused(0, 100, 60_000).contains("NO_RESTART"));
    assert!(refused(3, 100, 0).contains("restart_window"));
}

#[test]
fn b07_a_budget_that_never_exhausts_is_refused_and_what_to_ask_for_instead_is_said() {
    let mut host = Host::new();
    for (max, delay, window) in [(3, 20_000, 60_000), (1, 20_000, 10_000), (u32::MAX - 2, 1, 60_000), (1, u64::MAX, 1)]
    {
        let spec = Spec::demo(&[]).restart(max, delay, window);
        assert_eq!(host.try_add(&spec, 0), Err(MCP_SUPERVISED_E_INVALID as i32), "{max} {delay} {window}");
        assert!(host.last_error().contains("UNLIMITED"), "{}", host.last_error());
    }
    host.add(&Spec::demo(&[]).restart(3, 19_999, 60_000));
    host.add(&Spec::demo(&[]).restart(MCP_SUPERVISED_UNLIMITED, 20_000, 1));
    host.add(&Spec::demo(&[]).restart(MCP_SUPERVISED_NO_RESTART, 20_000, 1));
}

#[test]
fn b07_no_restart_is_exhausted_by_the_first_death() {
    let mut host = by_hand();
    let peer = host.launch(&Spec::demo(&[]).restart(MCP_SUPERVISED_NO_RESTART, 100, 60_000));
    kill9(host.pid(peer));
    let told = host.to_the_end(peer);
    assert_eq!(letters(&told), "D C X");
    let last = told.last().unwrap();
    assert_eq!((last.max_restarts, last.is_final()), (0, true));
    let close = host.last_close();
    assert_eq!((close.will_reconnect(), close.max_restarts, close.is_final()), (false, 0, false));
}

#[test]
fn b07_unlimited_goes_on() {
    let mut host = Host::new().stepwise();
    let peer = host.launch(&Spec::demo(&["--exit-at-start", "1"]).restart(MCP_SUPERVISED_UNLIMITED, 0, 1));
    for life in 1..=30 {
        let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
        assert_eq!((close.life, close.max_restarts, close.will_reconnect()), (life, u32::MAX, true));
        assert!(close.attempt >= 1);
        assert_eq!(host.next(MCP_SUPERVISED_EVENT_RECONNECT).life, life + 1);
    }
    assert_eq!(host.close(peer), 0);
    host.to_the_end(peer);
}

/// A budget that was spent in one window is there again in the next, and not before.
#[test]
fn b02_only_time_brings_the_budget_back() {
    let mut host = by_hand();
    let peer = host.launch(&Spec::demo(&[]).restart(1, 0, 10_000));
    let mut die = |advance, expected| {
        host.advance_ms(advance);
        kill9(host.pid(peer));
        let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
        assert_eq!(close.will_reconnect(), expected);
        if expected {
            assert_eq!(close.attempt, 1);
            host.next(MCP_SUPERVISED_EVENT_RECONNECT);
        }
    };
    die(0, true);
    die(10_001, true);
    die(10_000, false);
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_CLOSED as i32);
}

/// What start, send, close and remove answer, as the table of section L has it; `close` last, where it may change the state.
struct Answers {
    start: i32,
    send: i32,
    remove: i32,
}

fn check(host: &mut Host, peer: u64, state: mcp_supervised_peer_state, expected: &Answers) {
    let line = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
    assert_eq!(host.state(peer), state as i32, "{state:?}");
    assert_eq!(host.start(peer), expected.start, "start in {state:?}");
    assert_eq!(host.try_send(peer, line).err().unwrap_or(0), expected.send, "send in {state:?}");
    assert_eq!(host.remove(peer), expected.remove, "remove in {state:?}");
    assert_eq!(host.state(peer), state as i32, "{state:?}: nothing changed");
}

#[test]
fn l00_answers_in_every_state() {
    const ALREADY: i32 = MCP_SUPERVISED_E_ALREADY_STARTED as i32;
    const CLOSED: i32 = MCP_SUPERVISED_E_CLOSED as i32;
    const NOT_CLOSED: i32 = MCP_SUPERVISED_E_NOT_CLOSED as i32;
    const NO_PEER: i32 = MCP_SUPERVISED_E_NO_PEER as i32;
    let mut host = by_hand();

    // IDLE: close tells D and C without anything having been spawned; remove is possible before and only before.
    let spec = Spec::demo(&["--ignore-eof"]).restart(2, 1_000, 60_000);
    let removed = host.add(&spec);
    assert_eq!(host.try_send(removed, "{}"), Err(MCP_SUPERVISED_E_NOT_STARTED as i32));
    assert_eq!(host.remove(removed), 0);
    assert_eq!(host.start(removed), NO_PEER);
    let idle = host.add(&spec);
    assert_ne!(idle, removed);
    assert_eq!(host.close(idle), 0);
    let closed = Answers { start: CLOSED, send: CLOSED, remove: NOT_CLOSED };
    check(&mut host, idle, MCP_SUPERVISED_STATE_CLOSED, &closed);
    let told = host.to_the_end(idle);
    assert_eq!(letters(&told), "D C");
    assert_eq!((told[1].status, told[1].pid, told[1].life, told[1].exit_code), (BY_HOST, 0, 0, -1));
    assert_eq!((host.close(idle), host.start(idle)), (0, CLOSED));
    assert_eq!(host.remove(idle), 0);
    assert_eq!((host.close(idle), host.remove(idle), host.state(idle)), (NO_PEER, NO_PEER, NO_PEER));
    host.expect_silence();

    let peer = host.launch(&spec);
    check(&mut host, peer, MCP_SUPERVISED_STATE_RUNNING, &Answers { start: ALREADY, send: 0, remove: NOT_CLOSED });

    host.call(peer, "a", "close_stdout", json!({}));
    host.answer("a");
    host.reach(peer, MCP_SUPERVISED_STATE_ENDING);
    let gone = Answers { start: ALREADY, send: CLOSED, remove: NOT_CLOSED };
    check(&mut host, peer, MCP_SUPERVISED_STATE_ENDING, &gone);

    kill9(host.pid(peer));
    host.next(MCP_SUPERVISED_EVENT_CLOSE);
    check(&mut host, peer, MCP_SUPERVISED_STATE_WAITING, &gone);
    host.advance_ms(1_000);
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);

    assert_eq!(host.close(peer), 0);
    let draining = Answers { start: ALREADY, send: 0, remove: NOT_CLOSED };
    check(&mut host, peer, MCP_SUPERVISED_STATE_DRAINING, &draining);
    assert_eq!(host.close(peer), 0, "closing again does nothing");
    host.next(MCP_SUPERVISED_EVENT_DRAIN);
    check(&mut host, peer, MCP_SUPERVISED_STATE_DRAINING, &draining);

    host.drive();
    let closing = Answers { start: CLOSED, send: CLOSED, remove: NOT_CLOSED };
    check(&mut host, peer, MCP_SUPERVISED_STATE_CLOSING, &closing);
    assert_eq!(host.close(peer), 0);
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_CLOSING as i32);

    kill9(host.pid(peer));
    host.reach(peer, MCP_SUPERVISED_STATE_CLOSED);
    check(&mut host, peer, MCP_SUPERVISED_STATE_CLOSED, &closed);
    assert_eq!(letters(&host.to_the_end(peer)), "C");
    assert_eq!(host.close(peer), 0);
    host.expect_silence();
    assert_eq!(host.remove(peer), 0);
    assert_eq!(host.try_send(peer, "{}"), Err(NO_PEER));
}

/// A death while the host has not yet taken the DRAIN of its close: no replacement, and no budget is read.
#[test]
fn l08_a_death_while_draining_is_the_end() {
    let mut host = by_hand();
    let peer = host.launch(&Spec::demo(&[]).restart(3, 0, 60_000));
    assert_eq!(host.close(peer), 0);
    kill9(host.pid(peer));
    host.reach(peer, MCP_SUPERVISED_STATE_CLOSED);
    let told = host.to_the_end(peer);
    assert_eq!(letters(&told), "D C");
    assert_eq!((told[1].status, told[1].signal, told[1].will_reconnect()), (BY_HOST, 9, false));
}

/// With the defaults, a server that cannot live is started 1 + 3 times, 100 ms apart, and then never again.
#[test]
fn sv01_a_broken_server_is_not_started_at_full_speed() {
    let scratch = Scratch::new();
    let mut host = Host::new();
    let lives = scratch.name("lives");
    let began = Instant::now();
    let peer = host.launch(&Spec::demo(&["--lives", &lives, "--exit-at-start", "1"]));
    let told = host.to_the_end(peer);
    let took = began.elapsed();
    assert_eq!(letters(&told), "D C R D C R D C R D C X");
    assert_eq!(scratch.read("lives").lines().count(), 4);
    assert!(took >= Duration::from_millis(300), "{took:?}");
    assert_eq!(told.last().unwrap().max_restarts, 3);
    // At rest: nothing to poll for.
    host.expect_silence();
    assert!(!host.is_readable());
    assert_eq!(scratch.read("lives").lines().count(), 4);
}

/// Each life answers a call before it dies; that clears nothing.
#[test]
fn sv02_a_served_message_does_not_clear_the_count() {
    let mut host = Host::new().stepwise();
    let peer = host.launch(&Spec::demo(&["--exit-after", "1"]).restart(3, 1, 60_000));
    for life in 1..=4 {
        let id = format!("call-{life}");
        host.call(peer, &id, "echo", json!({"message": "served"}));
        assert_eq!(host.answer(&id).tool_text(), "served");
        let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
        assert_eq!((close.life, close.will_reconnect()), (life, life < 4));
        if life < 4 {
            assert_eq!(close.attempt, life);
            host.next(MCP_SUPERVISED_EVENT_RECONNECT);
        }
    }
    assert_eq!(host.next(MCP_SUPERVISED_EVENT_EXHAUSTED).max_restarts, 3);
}

/// Calls between the death and the replacement are refused, not lost (SV-15).
#[test]
fn l00_a_send_between_the_death_and_the_replacement_is_refused() {
    let mut host = Host::new().stepwise();
    let peer = host.launch(&Spec::demo(&[]).restart(3, 100, 60_000));
    kill9(host.pid(peer));
    // Before the death was seen it is accepted.
    let accepted = host.call(peer, "lost", "pid", json!({}));
    let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert!(
        [0, accepted].contains(&close.unread_from),
        "a dying reader may still have taken it, without ever acting on it"
    );
    let line = request_line("refused", "tools/list", json!({}));
    assert_eq!(host.try_send(peer, line), Err(MCP_SUPERVISED_E_CLOSED as i32));
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    assert_eq!(host.call(peer, "next", "pid", json!({})), accepted + 1, "a refused line has no number");
    host.answer("next");
    assert!(!host.seen.iter().any(|e| e.id == b"\"lost\"" || e.id == b"\"refused\""));
}
