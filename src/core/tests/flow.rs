//! Rules F1, F2, F4, F5 and H5: what is held back while the host does not take its events, and how it goes on.

use serde_json::json;

use super::caller::Caller;
use super::harness::{Rig, note, policy, short, slow_policy};
use crate::core::connection::Action;
use crate::core::event::Exit;
use crate::core::log::Level;
use crate::core::peer::StateName;
use crate::core::policy::Policy;
use crate::core::time::ms;

fn queue_of(events: usize) -> Policy {
    let mut policy = policy();
    policy.limits.event_queue = events;
    policy
}

fn bytes_of(bytes: usize) -> Policy {
    let mut policy = policy();
    policy.limits.event_bytes = bytes;
    policy
}

fn outbound(bytes: usize) -> Policy {
    let mut policy = policy();
    policy.limits.outbound_bytes = bytes;
    policy
}

#[test]
fn f01_at_the_limit_of_events_stdout_is_not_read_and_nothing_is_lost() {
    let mut rig = Rig::started(queue_of(2));
    let text = [note("a"), note("b"), note("c"), note("d")].concat();
    assert_eq!(rig.feed(text.as_bytes()), text.len(), "one read brings all");
    assert!(!rig.sup.wants_stdout(0) && !rig.sup.has_backlog(0));
    assert_eq!(rig.feed(note("e").as_bytes()), 0);
    assert_eq!(rig.acts(), "");
    // Each event that is taken lets one line in, and the lines that were read go first.
    assert_eq!(rig.take_one().as_deref(), Some("M a"));
    assert_eq!(rig.acts(), "Serve");
    assert!(!rig.sup.wants_stdout(0));
    assert_eq!(rig.take_one().as_deref(), Some("M b"));
    assert_eq!(rig.feed(note("e").as_bytes()), 0, "c and d are queued");
    assert_eq!(rig.take_one().as_deref(), Some("M c"));
    rig.out("e");
    assert_eq!(rig.take(), "M d, M e");
}

#[test]
fn f01_at_the_limit_of_bytes_stdout_is_not_read_and_one_frame_always_fits() {
    let mut rig = Rig::started(bytes_of(1));
    rig.keep = true;
    rig.out("a");
    assert!(!rig.sup.wants_stdout(0));
    assert_eq!(rig.take_one().as_deref(), Some("M a"));
    assert_eq!(rig.acts(), "Serve");
    rig.out("b");
    assert!(!rig.sup.wants_stdout(0));

    // A limit of a buffer and a half: the second line is read, and waits for its turn.
    let mut rig = Rig::started(bytes_of(100_000));
    rig.keep = true;
    let long = |letter: &str| letter.repeat(60_000);
    rig.out(&long("a"));
    rig.out(&long("b"));
    assert!(!rig.sup.wants_stdout(0));
    assert_eq!(rig.take_one(), Some(format!("M {}", long("a"))));
    assert!(!rig.sup.wants_stdout(0), "the host still holds the bytes of a");
    rig.begin_poll();
    assert!(rig.sup.wants_stdout(0));
}

#[test]
fn f01_bad_lines_count_and_what_the_library_makes_itself_does_not() {
    let mut rig = Rig::with(&[queue_of(2)], Level::Info);
    rig.stderr = true;
    rig.start();
    rig.err("one\ntwo\nthree\n");
    rig.sup.log(rig.now, 0, Level::Info, "four".to_owned());
    assert!(rig.sup.wants_stdout(0), "log lines do not count");
    rig.feed(b"nonsense\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"roots/list\"}\n");
    assert!(!rig.sup.wants_stdout(0), "bad lines do");
    rig.take();
    assert!(rig.sup.wants_stdout(0));
}

#[test]
fn f01_close_and_its_followers_are_queued_however_full_the_queue_is() {
    let mut rig = Rig::started(queue_of(1));
    rig.out("a");
    rig.die(0);
    assert_eq!(rig.state(), StateName::Waiting);
    rig.close();
    assert_eq!(rig.take(), "M a, D, C lost exit=0 ->1, C withdrawn!");
}

/// However late and however full: what was written is delivered before C.
#[test]
fn f01_an_end_waits_for_the_lines_that_wait_for_room() {
    let mut rig = Rig::started(queue_of(1));
    let text = [note("a"), note("b")].concat() + "{\"jsonrpc\":\"2.0\",\"method\":\"c\"}";
    rig.feed(text.as_bytes());
    rig.exit(1, 0);
    rig.eof();
    rig.advance(3_600_000);
    assert_eq!(rig.state(), StateName::Ending);
    assert_eq!(rig.take(), "M a, M b, M c, D, C lost exit=1 ->1");
}

#[test]
fn f01_the_drain_time_stands_still_while_the_host_has_no_room() {
    let mut rig = Rig::started(queue_of(1));
    rig.out("a");
    rig.exit(1, 0);
    rig.advance(3_600_000);
    assert_eq!(rig.state(), StateName::Ending, "it was not begun");
    assert_eq!(rig.take(), "M a");
    // Nothing more comes: the time must go on by itself, or an end would be waited for for ever.
    assert!(rig.sup.has_work());
    rig.begin_poll();
    assert_eq!(rig.deadline(), Some(250));
    rig.advance(100);
    rig.out("b");
    assert_eq!(rig.deadline(), None, "paused with 150 ms left");
    rig.advance(3_600_000);
    assert_eq!(rig.take(), "M b");
    rig.begin_poll();
    assert_eq!(rig.deadline(), Some(150));
    rig.advance(149);
    assert_eq!(rig.state(), StateName::Ending);
    rig.advance(1);
    assert_eq!(rig.take(), "D, C lost exit=1 ->1");
}

/// A drain time without end stays without end across a pause.
#[test]
fn f01_an_endless_drain_time_survives_a_pause() {
    let mut rig = Rig::started(Policy { exit_drain: u64::MAX, ..queue_of(1) });
    rig.exit(1, 0);
    rig.out("a");
    rig.take();
    rig.begin_poll();
    rig.advance(3_600_000);
    assert_eq!(rig.state(), StateName::Ending);
    rig.out("b");
    rig.eof();
    assert_eq!(rig.take(), "M b, D, C lost exit=1 ->1");
}

#[test]
fn f01_a_respawn_waits_while_more_than_event_queue_events_are_queued() {
    let mut rig = Rig::started(queue_of(4));
    rig.stderr = true;
    for name in ["a", "b", "c", "d"] {
        rig.out(name);
    }
    rig.die(0);
    // Six events: four messages, D and C.
    rig.advance(100);
    assert!(!rig.acts().contains("Spawn"));
    assert!(!rig.sup.wants_spawn(0));
    assert_eq!((rig.state(), rig.deadline()), (StateName::Waiting, None));
    rig.take_one();
    assert_eq!(rig.acts(), "");
    rig.take_one();
    assert_eq!(rig.acts(), "Spawn", "four are allowed");
    assert!(rig.sup.wants_spawn(0));
    rig.take_one();
    assert_eq!(rig.acts(), "", "once");
    rig.spawn();
    assert_eq!(rig.take(), "M d, D, C lost exit=0 ->1, R 2");
}

#[test]
fn f01_log_lines_hold_no_respawn_back_and_a_queue_at_its_limit_does_not() {
    let mut rig = Rig::new(queue_of(4));
    rig.stderr = true;
    rig.start();
    rig.out("a");
    rig.out("b");
    rig.err("1\n2\n3\n4\n5\n6\n7\n8\n");
    rig.die(0);
    rig.advance(100);
    assert!(rig.acts().ends_with("Spawn"));
}

#[test]
fn f01_close_while_a_respawn_is_held_back() {
    let mut rig = Rig::started(queue_of(1));
    rig.out("a");
    rig.die(0);
    rig.advance(100);
    rig.close();
    rig.acts();
    assert_eq!(rig.take(), "M a, D, C lost exit=0 ->1, C withdrawn!");
    assert_eq!(rig.acts(), "", "no spawn any more");
}

/// The bytes of the last life's messages may still fill the queue when the next life begins. When they are taken it must be
/// served, or a reactor that waits for news of its pipe would never read it again.
#[test]
fn f01_a_life_that_began_without_room_is_served_when_there_is_some() {
    let mut rig = Rig::started(bytes_of(1));
    rig.out("a");
    rig.die(0);
    rig.advance(100);
    rig.spawn();
    rig.acts();
    assert!(!rig.sup.wants_stdout(0));
    assert_eq!(rig.take(), "M a, D, C lost exit=0 ->1, R 2");
    assert_eq!(rig.acts(), "Serve");
    assert!(rig.sup.wants_stdout(0));
}

/// A replacement that does not serve yet drops what it writes, and takes no room for it.
#[test]
fn f01_lines_before_serving_take_no_room() {
    let mut policy = slow_policy();
    policy.limits.event_queue = 1;
    let mut rig = Rig::started(policy);
    for _ in 0..10 {
        rig.out("early");
    }
    assert!(rig.sup.wants_stdout(0));
    rig.serves();
    rig.out("a");
    assert!(!rig.sup.wants_stdout(0));
    assert_eq!(rig.take(), "READY 1, M a");
}

#[test]
fn f02_stderr_is_taken_however_full_the_queue_is() {
    let mut rig = Rig::new(queue_of(1));
    rig.stderr = true;
    rig.start();
    rig.out("a");
    assert!(!rig.sup.wants_stdout(0));
    rig.err("one\n");
    rig.err("two\n");
    assert_eq!(rig.take(), "M a, LOG one, LOG two");
}

#[test]
fn f02_the_oldest_lines_go_with_a_count_and_the_rest_keep_their_place() {
    let mut policy = queue_of(10);
    policy.limits.log_lines = 3;
    let mut rig = Rig::new(policy);
    rig.stderr = true;
    rig.start();
    rig.err("1\n2\n");
    rig.out("a");
    rig.err("3\n4\n");
    rig.out("b");
    rig.err("5\n");
    assert_eq!(rig.take(), "M a, LOG(-2) 3, LOG 4, M b, LOG 5");
}

#[test]
fn f04_one_writable_follows_refusals_at_half() {
    let line = note("aa").len();
    let mut rig = Rig::started(outbound(line * 4));
    for n in 1..=4 {
        assert_eq!(rig.send("aa"), Ok(n), "exactly the limit fits");
    }
    assert_eq!(rig.send("aa").unwrap_err(), "WOULD_BLOCK");
    assert_eq!(rig.send("aa").unwrap_err(), "WOULD_BLOCK");
    rig.wrote_bytes(line);
    assert_eq!(rig.take(), "", "three quarters are queued");
    rig.wrote_bytes(line - 1);
    assert_eq!(rig.take(), "");
    rig.wrote_bytes(1);
    assert_eq!(rig.take(), "W", "once for two refusals");
    rig.wrote();
    assert_eq!(rig.take(), "");
    assert_eq!(rig.send("aa"), Ok(5), "a refused line takes no number");
    rig.wrote();
    assert_eq!(rig.take(), "", "nothing was refused since");
}

#[test]
fn f04_a_refused_line_that_would_not_even_fit_half_is_told_at_the_next_write() {
    let line = note("aa").len();
    let mut rig = Rig::started(outbound(line * 2 - 1));
    rig.send("aa").unwrap();
    assert_eq!(rig.send("aa").unwrap_err(), "WOULD_BLOCK");
    assert_eq!(rig.take(), "");
    rig.wrote_bytes(1);
    assert_eq!(rig.take(), "W");
}

#[test]
fn f04_a_line_that_can_never_fit_is_invalid_and_owes_nothing() {
    let line = note("aa").len();
    let mut rig = Rig::started(outbound(line - 1));
    assert_eq!(rig.send("aa").unwrap_err(), "INVALID");
    rig.send("a").unwrap();
    rig.wrote();
    assert_eq!(rig.take(), "");
}

#[test]
fn f04_reconnect_replaces_a_writable_that_is_still_owed() {
    let line = note("aa").len();
    let mut rig = Rig::started(outbound(line));
    rig.send("aa").unwrap();
    assert_eq!(rig.send("aa").unwrap_err(), "WOULD_BLOCK");
    rig.die(0);
    rig.advance(100);
    rig.spawn();
    assert_eq!(rig.take(), "D, C lost exit=0 ->1 unread=1, R 2");
    assert_eq!(rig.send("aa"), Ok(2));
    rig.wrote();
    assert_eq!(rig.take(), "", "no W of the old connection");
}

#[test]
fn f04_a_dead_connections_queue_goes_with_it() {
    let mut rig = Rig::started(policy());
    rig.send("old").unwrap();
    rig.stdin_gone(0);
    assert_eq!(rig.sup.connection(0).unwrap().outbox.queued(), 0);
    rig.die(0);
    rig.advance(100);
    rig.spawn();
    let outbox = &rig.sup.connection(0).unwrap().outbox;
    assert_eq!(outbox.queued(), 0, "never sent to the replacement");
    let mut slices = crate::core::outbox::no_slices();
    assert_eq!(outbox.slices(&mut slices), 0);
}

#[test]
fn f04_last_words_may_be_refused_too() {
    let line = note("aa").len();
    let mut rig = Rig::started(outbound(line));
    rig.close();
    rig.send("aa").unwrap();
    assert_eq!(rig.send("aa").unwrap_err(), "WOULD_BLOCK");
    rig.wrote();
    assert_eq!(rig.take(), "D, W");
    rig.send("aa").unwrap();
    assert_eq!(rig.send("aa").unwrap_err(), "WOULD_BLOCK");
    rig.begin_poll();
    rig.wrote();
    assert_eq!(rig.take(), "", "nothing can be sent any more");
}

#[test]
fn f05_a_turn_takes_so_many_lines_and_the_rest_waits() {
    let mut rig = Rig::started(policy());
    let text = [note("a"), note("b"), note("c")].concat();
    let room = rig.sup.stdout_room(0).unwrap();
    room[..text.len()].copy_from_slice(text.as_bytes());
    assert_eq!(rig.sup.stdout_read(rig.now, 0, text.len(), 2, None), 2);
    assert!(rig.sup.has_backlog(0));
    assert!(!rig.sup.wants_stdout(0), "what was read goes before what is to be read");
    assert_eq!(rig.take(), "M a, M b");
    assert_eq!(rig.sup.take_lines(rig.now, 0, 0, None), 0);
    assert_eq!(rig.sup.take_lines(rig.now, 0, 5, None), 1);
    assert!(!rig.sup.has_backlog(0) && rig.sup.wants_stdout(0));
    assert_eq!(rig.take(), "M c");
}

#[test]
fn f05_an_end_waits_for_lines_whose_turn_did_not_come() {
    let mut rig = Rig::started(policy());
    let text = [note("a"), note("b")].concat();
    rig.exit(0, text.len());
    let room = rig.sup.stdout_room(0).unwrap();
    room[..text.len()].copy_from_slice(text.as_bytes());
    rig.sup.stdout_read(rig.now, 0, text.len(), 0, None);
    rig.sup.take_lines(rig.now, 0, 1, None);
    assert_eq!(rig.take(), "M a");
    assert_eq!(rig.state(), StateName::Ending);
    rig.sup.take_lines(rig.now, 0, 1, None);
    rig.eof();
    assert_eq!(rig.take(), "M b, D, C lost exit=0 ->1");
}

#[test]
fn h05_peers_take_turns_and_a_close_is_not_behind_another_peers_flood() {
    let mut rig = Rig::with(&[policy(), policy(), policy()], Level::Server);
    for peer in 0..3 {
        rig.on(peer).start();
    }
    for _ in 0..100 {
        rig.on(0).out("flood");
    }
    rig.on(1).out("b");
    rig.on(1).die(3);
    rig.on(2).out("c");
    let first: Vec<String> = (0..8).map(|_| rig.take_one().unwrap()).collect();
    assert_eq!(
        first,
        ["0 M flood", "1 M b", "2 M c", "0 M flood", "1 D", "0 M flood", "1 C lost exit=3 ->1", "0 M flood",]
    );
}

#[test]
fn h05_wakeup_is_one_event_however_often_it_was_called() {
    let mut rig = Rig::started(policy());
    rig.sup.woken();
    rig.sup.woken();
    assert!(rig.sup.has_event() && rig.sup.has_work());
    assert_eq!(rig.take(), "WAKEUP");
    assert!(!rig.sup.has_work());
}

#[test]
fn w03_a_line_over_the_limit_is_told_after_the_lines_before_it() {
    let mut policy = queue_of(1);
    policy.limits.frame_bytes = 64;
    let mut rig = Rig::started(policy.clone());
    let text = [note("a"), note("b"), "x".repeat(65)].concat();
    rig.feed(text.as_bytes());
    assert_eq!(rig.state(), StateName::Running, "its turn has not come");
    assert_eq!(rig.take(), "M a, M b, E frametoolarge life=1");
    assert_eq!(rig.state(), StateName::Ending);

    // Even if the connection was given up before its turn came.
    let mut rig = Rig::started(policy);
    rig.feed(text.as_bytes());
    rig.stdin_gone(0);
    rig.advance(250);
    assert_eq!(rig.acts(), "CloseStdin, CloseStdout, Terminate");
    rig.exit_with(Exit::Signal(15), 0, 0, None);
    assert_eq!(rig.take(), "M a, M b, E frametoolarge life=1, D, C lost sig=15 ->1");
}

#[test]
fn f05_an_action_stays_until_it_is_fetched() {
    let mut rig = Rig::started(policy());
    rig.sup.exited(
        rig.now,
        0,
        crate::core::connection::ExitReport { exit: Exit::Code(0), stdout: 0, stderr: 0, stdin: None },
    );
    assert!(rig.sup.has_action() && rig.sup.has_work() && !rig.sup.has_event());
    assert_eq!(rig.sup.next_action(), Some(Action::CloseStdin(0)));
    assert_eq!(rig.sup.next_action(), None);
    assert!(!rig.sup.has_work());
    assert_eq!(rig.sup.next_deadline(), Some(rig.now + ms(250)));
}

/// A refusal names the numbers that a host needs to see why.
#[test]
fn f04_would_block_says_what_is_queued() {
    let line = note("aa").len();
    let mut rig = Rig::started(outbound(line));
    rig.send("aa").unwrap();
    let refusal = rig.sup.send(rig.id(), note("b").as_bytes()).unwrap_err();
    assert_eq!(short(&refusal), "WOULD_BLOCK");
    assert!(refusal.to_string().starts_with(&format!("{line} of {line}")));
}

/// What traffic has left is let go of once. What has to stay (lines that the server may not have read, a request that is still under
/// way) is no reason to wake the host again: only what happens to that peer is.
#[test]
fn h01_what_cannot_be_let_go_of_wakes_nobody_twice() {
    let mut caller = Caller::started(policy());
    for id in 1..=1_000_u64 {
        caller.call("tools/call");
        caller.reads();
        if id > 1 {
            caller.answers(id);
        }
    }
    caller.poll();
    assert!(caller.sup.is_bulky());
    caller.sup.trim();
    assert!(!caller.sup.is_bulky(), "nothing more can be let go of before something happens");
    caller.answers(1);
    caller.poll();
    assert!(caller.sup.is_bulky(), "now it can");
    caller.sup.trim();
    assert!(!caller.sup.is_bulky());
    // A host that takes its events late has room to get back when it has.
    for _ in 0..100 {
        caller.says(&json!({"jsonrpc": "2.0", "method": "n"}));
    }
    caller.sup.trim();
    assert!(caller.sup.is_bulky());
    caller.poll();
    caller.sup.trim();
    assert!(!caller.sup.is_bulky());
}
