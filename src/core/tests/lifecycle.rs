//! Rules L1 to L16: the order of events along every path of a peer's life.

use super::harness::{Rig, policy, short, slow_policy};
use super::states::STATES;
use crate::core::budget::MaxRestarts;
use crate::core::connection::StdinReport;
use crate::core::event::Exit;
use crate::core::log::Level;
use crate::core::peer::StateName;
use crate::core::policy::{Mode, Policy};
use crate::core::supervisor::Told;

fn once(mut policy: Policy) -> Policy {
    policy.max_restarts = MaxRestarts::Limited(1);
    policy
}

/// The table at the head of section L: what `start` and `send` answer in each state, and that a refused `remove` changes
/// nothing.
#[test]
fn l00_answers_by_state() {
    use StateName::*;
    for (name, state, way) in STATES {
        let mut rig = way();
        let start = match state {
            Idle => "ok",
            Closing | Closed => "CLOSED",
            _ => "ALREADY_STARTED",
        };
        let send = match (state, name) {
            (Idle, _) | (Starting, "starting first") => "NOT_STARTED",
            (Running | Draining, _) => "ok",
            _ => "CLOSED",
        };
        let remove = match name {
            "idle" | "closed taken" => "ok",
            _ => "NOT_CLOSED",
        };
        let answer = match rig.sup.may_start(rig.id()) {
            Ok(()) => "ok",
            Err(refusal) => short(&refusal),
        };
        assert_eq!(answer, start, "start in {name}");
        let answer = rig.send("x");
        let answer = answer.as_ref().map_or_else(String::as_str, |_| "ok");
        assert_eq!(answer, send, "send in {name}");
        let id = rig.id();
        let answer = rig.sup.remove(id);
        let answer = answer.as_ref().map_or_else(short, |_| "ok");
        assert_eq!(answer, remove, "remove in {name}");
        match remove {
            "ok" => assert!(rig.sup.state(id).is_err(), "{name}: the id is stale"),
            _ => assert_eq!(rig.state(), state, "{name}"),
        }
    }
}

/// What is judged first: the state, then the line, then the room.
#[test]
fn l00_closed_and_not_started_come_before_would_block_and_invalid() {
    let mut policy = policy();
    policy.limits.outbound_bytes = 40;
    let mut rig = Rig::new(policy);
    let id = rig.id();
    let line = br#"{"jsonrpc":"2.0","method":"aa"}"#;
    for text in [&line[..], b"no line"] {
        assert_eq!(short(&rig.sup.send(id, text).unwrap_err()), "NOT_STARTED");
    }
    rig.start();
    assert_eq!(rig.sup.send(id, line), Ok(1));
    assert_eq!(short(&rig.sup.send(id, line).unwrap_err()), "WOULD_BLOCK");
    assert_eq!(short(&rig.sup.send(id, b"no line").unwrap_err()), "INVALID");
    rig.exit(0, 5);
    for text in [&line[..], b"no line"] {
        assert_eq!(short(&rig.sup.send(id, text).unwrap_err()), "CLOSED");
    }
}

#[test]
fn l00_a_removed_peer_leaves_a_stale_id_and_a_slot_to_use_again() {
    let mut rig = Rig::new(policy());
    let old = rig.id();
    rig.sup.remove(old).unwrap();
    assert_eq!(short(&rig.sup.remove(old).unwrap_err()), "NO_PEER");
    let new = rig.sup.add(policy(), 7).unwrap();
    assert_eq!(rig.sup.slot(new), Ok(0), "the slot is used again");
    assert_ne!(old, new);
    for refusal in [
        rig.sup.may_start(old).unwrap_err(),
        rig.sup.send(old, b"{}").unwrap_err(),
        rig.sup.close(rig.now, old).unwrap_err(),
        rig.sup.state(old).unwrap_err(),
    ] {
        assert_eq!(short(&refusal), "NO_PEER");
    }
    assert_eq!(rig.sup.state(new), Ok(StateName::Idle));
}

/// What the removed peer of a slot left undone must not be done to the next one.
#[test]
fn l00_a_slot_that_is_used_again_starts_afresh() {
    let mut rig = Rig::started(policy());
    rig.close();
    rig.die(0);
    // Its DRAIN and its CLOSE are taken in one poll, and the host goes on before the next one.
    assert_eq!(rig.take(), "D, C asked exit=0!");
    rig.sup.remove(rig.id()).unwrap();
    let new = rig.sup.add(policy(), 1).unwrap();
    rig.adopt(new);
    assert_eq!(rig.slot(), 0);
    rig.start();
    rig.close();
    rig.begin_poll();
    assert_eq!(rig.state(), StateName::Draining, "the DRAIN of the new peer was not handed out");
    assert_eq!(rig.take(), "1 D");
    rig.begin_poll();
    assert_eq!(rig.state(), StateName::Closing);
}

#[test]
fn l01_a_start_tells_nothing_where_the_process_serves_at_once() {
    for mode in [Mode::Modern, Mode::Raw] {
        let mut rig = Rig::started(Policy { mode, ..policy() });
        assert_eq!(rig.poll(), "");
        assert_eq!((rig.state(), rig.deadline()), (StateName::Running, None));
        assert_eq!(rig.acts(), "");
        assert!(!rig.sup.has_work());
    }
}

#[test]
fn l01_ready_comes_once_when_the_first_life_serves_and_before_its_messages() {
    let mut rig = Rig::started(slow_policy());
    rig.out("early");
    assert_eq!(rig.take(), "");
    rig.serves();
    rig.out("a");
    rig.serves();
    assert_eq!(rig.take(), "READY 1, M a");
    assert_eq!(rig.deadline(), None, "the start time is over");
    rig.die(0);
    rig.advance(100);
    rig.spawn();
    rig.out("early");
    assert_eq!(rig.take(), "D, C lost exit=0 ->1");
    rig.serves();
    rig.out("b");
    assert_eq!(rig.take(), "R 2, M b", "RECONNECT in place of READY");
}

/// A connection that never served tells no message, not even one that came before its end.
#[test]
fn l01_no_message_of_a_life_that_never_serves() {
    let mut rig = Rig::started(slow_policy());
    rig.exit(1, 200);
    rig.out("late");
    rig.eof();
    assert_eq!(rig.take(), "D, C lost exit=1 ->1");

    let mut rig = Rig::started(slow_policy());
    rig.close();
    rig.out("late");
    rig.die(0);
    assert_eq!(rig.take(), "D, C asked exit=0!");

    let mut rig = Rig::with(&[slow_policy()], Level::Warning);
    rig.start();
    rig.exit(1, 200);
    rig.out("late");
    assert_eq!(rig.take(), "LOG dropped a message that came before the connection served");
}

#[test]
fn l02_an_unasked_end_is_messages_drain_close_delay_reconnect() {
    let mut rig = Rig::started(policy());
    rig.out("a");
    rig.exit(3, 200);
    assert_eq!(rig.state(), StateName::Ending);
    rig.out("b");
    rig.sleep(70);
    rig.eof();
    assert_eq!(rig.state(), StateName::Waiting);
    assert_eq!(rig.deadline(), Some(100), "the delay runs from C");
    rig.advance(99);
    assert_eq!(rig.acts(), "CloseStdin, CloseStdout, Sweep, Release");
    rig.advance(1);
    assert_eq!(rig.acts(), "Spawn");
    assert_eq!(rig.take(), "M a, M b, D, C lost exit=3 ->1");
    rig.spawn();
    rig.out("c");
    assert_eq!(rig.take(), "R 2, M c");
    assert_eq!(rig.state(), StateName::Running);
}

#[test]
fn l02_a_delay_of_nothing_still_means_a_later_turn() {
    let mut rig = Rig::started(Policy { restart_delay: 0, ..policy() });
    rig.die(0);
    assert_eq!(rig.state(), StateName::Waiting);
    assert!(!rig.acts().contains("Spawn"));
    rig.advance(0);
    assert_eq!(rig.acts(), "Spawn");
}

#[test]
fn l03_drain_comes_before_close_whichever_signal_came_first() {
    type Step = fn(&mut Rig);
    let steps: [(&str, Step); 4] = [
        ("exit", |rig| rig.exit(1, 0)),
        ("eof", |rig| rig.eof()),
        ("stderr", |rig| rig.err_eof()),
        ("stdin", |rig| rig.stdin_gone(0)),
    ];
    for order in 0..24 {
        let mut left: Vec<_> = steps.to_vec();
        let mut names = Vec::new();
        let mut rig = Rig::new(policy());
        rig.stderr = true;
        rig.start();
        rig.out("a");
        let mut code = order;
        while !left.is_empty() {
            let (name, step) = left.remove(code % left.len());
            code /= left.len() + 1;
            names.push(name);
            step(&mut rig);
        }
        assert_eq!(rig.take(), "M a, D, C lost exit=1 ->1", "{names:?}");
        assert_eq!(rig.state(), StateName::Waiting, "{names:?}");
    }
}

#[test]
fn l03_bytes_owed_at_the_exit_are_delivered_however_late() {
    let mut rig = Rig::started(policy());
    let text = super::harness::note("a").repeat(3);
    rig.exit(1, text.len());
    // Nobody polls for a long time. No deadline may end the reading meanwhile.
    rig.advance(3_600_000);
    assert_eq!(rig.state(), StateName::Ending);
    rig.feed(text.as_bytes());
    assert_eq!(rig.state(), StateName::Ending);
    assert_eq!(rig.deadline(), Some(250), "from the moment the owed bytes were read");
    rig.eof();
    assert_eq!(rig.take(), "M a, M a, M a, D, C lost exit=1 ->1");
}

#[test]
fn l03_beyond_the_owed_bytes_stdout_is_read_for_a_while_whether_more_comes_or_not() {
    let mut rig = Rig::started(policy());
    rig.exit(1, 10);
    rig.out("a");
    for _ in 0..4 {
        rig.advance(60);
        rig.out("b");
    }
    rig.acts();
    // 240 ms are over; what comes does not prolong the time, and the unended line is the last one.
    rig.feed(br#"{"jsonrpc":"2.0","method":"part"}"#);
    rig.advance(9);
    assert_eq!(rig.state(), StateName::Ending);
    rig.advance(1);
    assert_eq!(rig.acts(), "CloseStdout, Sweep, Release");
    assert_eq!(rig.take(), "M a, M b, M b, M b, M b, M part, D, C lost exit=1 ->1");
}

#[test]
fn l03_stderr_holds_close_up_no_longer_than_the_drain_time() {
    let mut rig = Rig::new(policy());
    rig.stderr = true;
    rig.start();
    rig.exit(1, 0);
    rig.eof();
    rig.err("last words\nand par");
    assert_eq!((rig.state(), rig.deadline()), (StateName::Ending, Some(250)));
    rig.advance(250);
    assert_eq!(rig.acts(), "CloseStdin, CloseStdout, CloseStderr, Sweep, Release");
    assert_eq!(rig.take(), "LOG last words, LOG and par, D, C lost exit=1 ->1 tail=\"last words\\nand par\"");
}

#[test]
fn l03_stderr_that_was_in_the_pipe_at_the_exit_is_not_lost_to_the_deadline() {
    let mut rig = Rig::new(policy());
    rig.stderr = true;
    rig.start();
    rig.exit_with(Exit::Code(1), 0, 12, None);
    rig.eof();
    rig.advance(10_000);
    assert_eq!(rig.state(), StateName::Ending);
    rig.err("first\n");
    assert_eq!(rig.state(), StateName::Ending);
    rig.err("second");
    assert_eq!(rig.take(), "LOG first, LOG second, D, C lost exit=1 ->1 tail=\"first\\nsecond\"");
}

#[test]
fn l03_messages_stand_between_drain_and_close_of_an_asked_end() {
    let mut rig = Rig::started(policy());
    rig.out("a");
    rig.close();
    rig.out("b");
    assert_eq!(rig.poll(), "M a, D, M b");
    rig.begin_poll();
    rig.out("c");
    rig.exit(0, 200);
    rig.out("d");
    rig.eof();
    assert_eq!(rig.poll(), "M c, M d, C asked exit=0!");
}

#[test]
fn l04_every_death_signal_ends_the_connection_and_refuses_lines_at_once() {
    type Step = fn(&mut Rig);
    let signals: [(Step, &str, &str); 6] = [
        (|rig| rig.exit(3, 0), "CloseStdin", "D, C lost exit=3 ->1"),
        (|rig| rig.exit_with(Exit::Unknown, 0, 0, None), "CloseStdin", "D, C lost exit=? ->1"),
        (|rig| rig.eof(), "CloseStdout, CloseStdin", "D, C lost sig=15 ->1"),
        (
            |rig| rig.stdout_ends(Some("input/output error"), None),
            "CloseStdout, CloseStdin",
            "E io life=1, D, C lost sig=15 ->1",
        ),
        (|rig| rig.stdin_gone(0), "CloseStdin", "D, C lost sig=15 ->1"),
        (
            |rig| {
                rig.feed(&[b'x'; 65]);
            },
            "CloseStdout, CloseStdin",
            "E frametoolarge life=1, D, C lost sig=15 ->1",
        ),
    ];
    for (n, (signal, acts, events)) in signals.into_iter().enumerate() {
        let mut policy = policy();
        policy.limits.frame_bytes = 64;
        let mut rig = Rig::started(policy);
        signal(&mut rig);
        assert_eq!(rig.state(), StateName::Ending, "signal {n}");
        assert_eq!(rig.acts(), acts, "signal {n}");
        assert_eq!(rig.send("x").unwrap_err(), "CLOSED", "signal {n}");
        rig.exit_with(Exit::Signal(15), 0, 0, None);
        rig.eof();
        assert_eq!(rig.take(), events, "signal {n}");
    }
}

/// The clock of the first signal is the one that counts, not that of the last.
#[test]
fn l04_the_decision_falls_at_the_first_signal() {
    let mut rig = Rig::started(once(policy()));
    rig.next_life();
    // The window opened at the death, 100 ms before the second life; this signal is the last moment inside it.
    rig.advance(60_000 - 100);
    rig.stdin_gone(0);
    rig.advance(100);
    rig.die(1);
    assert_eq!(rig.take(), "D, C lost exit=1, X 1!");

    let mut rig = Rig::started(once(policy()));
    rig.next_life();
    rig.advance(60_000 - 100);
    rig.now += 1;
    rig.eof();
    rig.exit(1, 0);
    assert_eq!(rig.take(), "D, C lost exit=1 ->1");
}

#[test]
fn l04_a_start_that_takes_too_long_is_a_death_signal() {
    let mut rig = Rig::started(slow_policy());
    rig.advance(19_999);
    assert_eq!(rig.state(), StateName::Starting);
    rig.advance(1);
    assert_eq!(rig.state(), StateName::Ending);
    assert_eq!(rig.acts(), "CloseStdout, CloseStdin");
    rig.serves();
    assert_eq!(rig.state(), StateName::Ending, "too late");
    rig.advance(250);
    assert_eq!(rig.acts(), "Terminate");
    rig.exit_with(Exit::Signal(15), 0, 0, None);
    assert_eq!(rig.take(), "E handshake life=1, D, C lost sig=15 ->1");
}

#[test]
fn l04_no_start_time_is_asked_for_by_the_largest_number() {
    let rig = Rig::started(Policy { start_timeout: u64::MAX, ..slow_policy() });
    assert_eq!((rig.state(), rig.deadline()), (StateName::Starting, None));
}

#[test]
fn l05_a_peer_that_runs_on_without_its_pipes_is_terminated_then_killed() {
    for broken in ["stdout", "stdin", "frame"] {
        let mut policy = policy();
        policy.limits.frame_bytes = 64;
        let mut rig = Rig::started(policy);
        match broken {
            "stdout" => rig.eof(),
            "stdin" => rig.stdin_gone(0),
            _ => assert_eq!(rig.feed(&[b'x'; 65]), 65),
        }
        rig.advance(249);
        assert!(!rig.acts().contains("Terminate"), "{broken}");
        rig.advance(1);
        let acts = rig.acts();
        match broken {
            "stdin" => assert_eq!(acts, "CloseStdout, Terminate", "both ends are closed"),
            _ => assert_eq!(acts, "Terminate", "{broken}"),
        }
        rig.advance(1_999);
        assert_eq!(rig.acts(), "");
        rig.advance(1);
        assert_eq!(rig.acts(), "Kill");
        assert_eq!(rig.deadline(), None);
        rig.advance(3_600_000);
        assert_eq!(rig.state(), StateName::Ending, "it is waited for");
        rig.exit_with(Exit::Signal(9), 0, 0, None);
        assert!(rig.take().ends_with("D, C lost sig=9 ->1"), "{broken}");
    }
}

#[test]
fn l05_no_signal_after_the_exit() {
    let mut rig = Rig::started(policy());
    rig.stdin_gone(0);
    rig.advance(100);
    rig.exit(0, 0);
    rig.acts();
    rig.advance(250);
    assert_eq!(rig.acts(), "CloseStdout, Sweep, Release");
}

#[test]
fn l06_the_group_is_swept_once_before_the_connection_is_let_go_and_before_the_next_life() {
    let mut rig = Rig::started(policy());
    rig.exit(1, 0);
    rig.take();
    rig.advance(250 + 100);
    assert_eq!(rig.acts(), "CloseStdin, CloseStdout, Sweep, Release, Spawn");
    rig.spawn();
    rig.close();
    rig.poll();
    rig.begin_poll();
    rig.die(0);
    assert_eq!(rig.acts(), "CloseStdin, CloseStdout, Sweep, Release");
}

#[test]
fn l07_two_death_signals_make_one_close_and_one_restart() {
    let mut rig = Rig::started(policy());
    rig.eof();
    rig.eof();
    rig.stdin_gone(0);
    rig.exit(1, 0);
    rig.exit(2, 0);
    rig.eof();
    rig.stdin_gone(0);
    assert_eq!(rig.take(), "D, C lost exit=1 ->1");
    rig.advance(100);
    rig.exit(4, 0);
    assert_eq!(rig.acts().matches("Spawn").count(), 1);
    rig.spawn();
    rig.die(1);
    assert_eq!(rig.take(), "R 2, D, C lost exit=1 ->2", "one unit each");
}

#[test]
fn l08_close_waits_for_its_drain_to_be_taken_then_flushes_and_climbs_the_ladder() {
    let mut rig = Rig::started(policy());
    rig.out("a");
    rig.send("before").unwrap();
    rig.close();
    rig.close();
    assert_eq!(rig.state(), StateName::Draining);
    assert_eq!(rig.take_one().as_deref(), Some("M a"));
    rig.begin_poll();
    assert_eq!(rig.state(), StateName::Draining, "D was not handed out yet");
    assert_eq!(rig.send("last words"), Ok(2));
    rig.advance(3_600_000);
    assert_eq!(rig.acts(), "", "nothing runs before D is consumed");
    assert_eq!(rig.take(), "D");
    assert_eq!(rig.state(), StateName::Draining);
    assert!(rig.sup.has_work(), "the next poll goes on: the descriptor stays readable");
    rig.begin_poll();
    assert!(!rig.sup.has_work());
    assert_eq!((rig.state(), rig.deadline()), (StateName::Closing, Some(6_000)));
    assert_eq!(rig.send("x").unwrap_err(), "CLOSED");
    assert_eq!(rig.acts(), "Serve", "two lines are to be written");
    rig.wrote_bytes(40);
    assert_eq!(rig.acts(), "");
    rig.wrote();
    assert_eq!(rig.acts(), "CloseStdin");
    rig.out("b");
    rig.die(0);
    assert_eq!(rig.poll(), "M b, C asked exit=0!");
    assert_eq!((rig.state(), rig.deadline()), (StateName::Closed, None));
    assert_eq!(rig.acts(), "CloseStdout, Sweep, Release");
}

#[test]
fn l08_the_ladder_runs_whether_the_queue_was_flushed_or_not() {
    for flushed in [true, false] {
        let mut rig = Rig::started(policy());
        if !flushed {
            rig.send("stuck").unwrap();
        }
        rig.close();
        rig.poll();
        rig.begin_poll();
        assert_eq!(rig.acts(), if flushed { "CloseStdin" } else { "Serve" });
        rig.advance(5_999);
        assert_eq!(rig.acts(), "");
        rig.advance(1);
        let expected = if flushed { "Terminate" } else { "CloseStdin, Terminate" };
        assert_eq!(rig.acts(), expected);
        rig.out("still talking");
        rig.advance(2_000);
        assert_eq!(rig.acts(), "Kill");
        rig.exit_with(Exit::Signal(9), 0, 0, None);
        rig.eof();
        let expected =
            if flushed { "M still talking, C asked sig=9!" } else { "M still talking, C asked sig=9 unread=1!" };
        assert_eq!(rig.poll(), expected);
    }
}

#[test]
fn l08_supervision_is_off_from_the_call() {
    let mut rig = Rig::started(policy());
    rig.close();
    rig.die(1);
    rig.advance(3_600_000);
    assert_eq!(rig.take(), "D, C asked exit=1!");
    assert!(!rig.acts().contains("Spawn"));
}

/// A death while DRAINING makes it CLOSING at once, D consumed or not; nothing is respawned and no budget is read.
#[test]
fn l08_a_death_while_draining_is_an_asked_end() {
    type Step = fn(&mut Rig);
    let signals: [(&str, Step); 4] = [
        ("exit", |rig| rig.exit(3, 200)),
        ("eof", |rig| rig.eof()),
        ("stdin", |rig| rig.stdin_gone(0)),
        ("read error", |rig| rig.stdout_ends(Some("bad"), None)),
    ];
    for (name, signal) in signals {
        let mut rig = Rig::started(policy());
        rig.close();
        signal(&mut rig);
        assert_eq!(rig.state(), StateName::Closing, "{name}");
        if name == "exit" || name == "stdin" {
            rig.out("a");
        }
        rig.exit(3, 0);
        rig.eof();
        let expected = match name {
            "exit" | "stdin" => "D, M a, C asked exit=3!",
            "eof" => "D, C asked exit=3!",
            _ => "D, E io life=1, C asked exit=3!",
        };
        assert_eq!(rig.take(), expected, "{name}");
        rig.begin_poll();
        assert!(!rig.sup.has_work(), "{name}");
    }
}

#[test]
fn l09_close_while_waiting_withdraws_the_promise() {
    let mut rig = Rig::started(policy());
    rig.die(1);
    rig.take();
    rig.advance(50);
    rig.close();
    assert_eq!((rig.state(), rig.deadline()), (StateName::Closed, None));
    rig.advance(3_600_000);
    assert!(!rig.acts().contains("Spawn"));
    assert_eq!(rig.take(), "C withdrawn!", "no D");
}

#[test]
fn l09_close_between_the_order_to_spawn_and_the_spawn() {
    let mut rig = Rig::started(policy());
    rig.die(1);
    rig.take();
    rig.advance(100);
    rig.close();
    assert!(!rig.sup.wants_spawn(0), "the spawn is called off");
    rig.come_to_life();
    assert_eq!(rig.state(), StateName::Closed);
    assert_eq!(rig.take(), "C withdrawn!");
}

#[test]
fn l09_close_between_two_failing_spawns() {
    let mut rig = Rig::started(policy());
    rig.die(1);
    rig.advance(100);
    rig.spawn_fails();
    rig.close();
    rig.advance(3_600_000);
    assert_eq!(rig.take(), "D, C lost exit=1 ->1, E spawn life=2 ->2, C withdrawn!");
    assert_eq!(rig.acts().matches("Spawn").count(), 1);
}

#[test]
fn l09_close_while_ending_takes_the_promise_back_before_it_is_given() {
    let mut rig = Rig::started(policy());
    rig.exit(1, 200);
    rig.close();
    assert_eq!(rig.state(), StateName::Ending);
    rig.out("a");
    rig.eof();
    assert_eq!(rig.take(), "M a, D, C lost exit=1!", "no second C");
    rig.advance(3_600_000);
    assert!(!rig.acts().contains("Spawn"));
}

#[test]
fn l09_close_while_ending_for_good_changes_nothing() {
    let mut rig = Rig::started(Policy { max_restarts: MaxRestarts::NoRestart, ..policy() });
    rig.exit(1, 200);
    rig.close();
    rig.out("a");
    rig.eof();
    assert_eq!(rig.take(), "M a, D, C lost exit=1, X 0!");
}

#[test]
fn l10_close_while_starting_goes_straight_to_the_ladder() {
    for life in [1, 2] {
        let mut rig = Rig::started(slow_policy());
        if life == 2 {
            rig.serves();
            rig.die(0);
            rig.advance(100);
            rig.spawn();
        }
        rig.take();
        rig.acts();
        rig.close();
        assert_eq!(rig.state(), StateName::Closing, "D need not be taken");
        assert_eq!(rig.acts(), "CloseStdin");
        assert_eq!(rig.deadline(), Some(6_000), "the start time is over");
        rig.serves();
        assert_eq!(rig.state(), StateName::Closing);
        rig.advance(8_000);
        assert_eq!(rig.acts(), "Terminate, Kill");
        rig.die(0);
        assert_eq!(rig.take(), "D, C asked exit=0!", "no READY, no R");
        rig.begin_poll();
        assert!(!rig.sup.has_work());
    }
}

/// A replacement that is on its way out already, and is closed before it is gone.
#[test]
fn l10_close_while_a_replacement_is_doomed() {
    let mut rig = Rig::started(slow_policy());
    rig.serves();
    rig.die(0);
    rig.advance(100);
    rig.spawn();
    rig.take();
    rig.exit(1, 0);
    rig.close();
    rig.eof();
    assert_eq!(rig.take(), "D, C asked exit=1!", "no ERROR, no restart");
    assert_eq!(rig.deadline(), None);
}

#[test]
fn l11_a_replacement_that_cannot_be_spawned_is_one_error_and_one_unit() {
    let mut rig = Rig::started(policy());
    rig.die(0);
    rig.advance(100);
    rig.sleep(33);
    rig.spawn_fails();
    assert_eq!(rig.take(), "D, C lost exit=0 ->1, E spawn life=2 ->2");
    assert_eq!((rig.state(), rig.deadline()), (StateName::Waiting, Some(100)), "the delay runs from the ERROR");
    rig.advance(100);
    rig.spawn();
    assert_eq!(rig.take(), "R 2", "the life that could not be made is not counted");
    rig.die(0);
    assert_eq!(rig.take(), "D, C lost exit=0 ->3");
}

#[test]
fn l11_a_replacement_that_ends_before_it_serves_is_one_error_when_it_is_gone() {
    let mut rig = Rig::new(slow_policy());
    rig.stderr = true;
    rig.start();
    rig.serves();
    rig.die(0);
    rig.advance(100);
    rig.spawn();
    rig.take();
    rig.acts();
    rig.out("dropped");
    rig.err("cannot open the database\n");
    rig.eof();
    assert_eq!(rig.state(), StateName::Starting, "until the process is gone");
    assert_eq!(rig.take(), "LOG cannot open the database");
    rig.advance(250);
    assert_eq!(rig.acts(), "CloseStdout, CloseStdin, Terminate");
    rig.exit_with(Exit::Signal(15), 0, 0, None);
    rig.err_eof();
    assert_eq!(rig.acts(), "CloseStderr, Sweep, Release");
    let Some(Told::Peer { queued, .. }) = rig.sup.next_event() else {
        panic!("an ERROR is told");
    };
    let text = format!("{:?}", queued.event);
    assert_eq!(super::harness::render(&queued), "E handshake life=2 sig=15 ->2");
    assert!(text.contains("cannot open the database"), "{text}");
    assert_eq!(rig.take(), "", "no D, no C");
    assert_eq!((rig.state(), rig.deadline()), (StateName::Waiting, Some(100)));
}

/// Never more than one ERROR, however the replacement ended: its cause is told in the text.
#[test]
fn l11_one_error_whatever_the_replacement_died_of() {
    type Step = fn(&mut Rig);
    let ends: [(&str, Step); 5] = [
        ("frame", |rig| {
            rig.feed(&[b'x'; 65]);
        }),
        ("read error", |rig| rig.stdout_ends(Some("input/output error"), None)),
        ("start_timeout", |rig| rig.advance(20_000)),
        ("exit", |rig| rig.exit(1, 0)),
        ("stdin", |rig| rig.stdin_gone(0)),
    ];
    for (name, end) in ends {
        let mut policy = slow_policy();
        policy.limits.frame_bytes = 64;
        let mut rig = Rig::started(policy);
        rig.serves();
        rig.die(0);
        rig.advance(100);
        rig.spawn();
        rig.take();
        end(&mut rig);
        rig.exit(1, 0);
        rig.eof();
        let Some(Told::Peer { queued, .. }) = rig.sup.next_event() else {
            panic!("{name}: an ERROR is told");
        };
        assert_eq!(super::harness::render(&queued), "E handshake life=2 exit=1 ->2", "{name}");
        let text = format!("{:?}", queued.event);
        match name {
            "frame" => assert!(text.contains("a line of more than 64 bytes"), "{text}"),
            "read error" => assert!(text.contains("input/output error"), "{text}"),
            "start_timeout" => assert!(text.contains("start_timeout"), "{text}"),
            _ => {}
        }
        assert_eq!(rig.take(), "", "{name}: nothing else");
    }
}

#[test]
fn l11_a_first_life_that_never_serves_ends_like_any_other() {
    let mut rig = Rig::started(slow_policy());
    rig.die(1);
    assert_eq!(rig.take(), "D, C lost exit=1 ->1");
    rig.advance(100);
    rig.spawn();
    assert_eq!(rig.take(), "");
    rig.serves();
    assert_eq!(rig.take(), "R 2");
}

#[test]
fn l12_the_budget_spent_by_a_death_is_drain_close_exhausted() {
    let mut rig = Rig::started(once(policy()));
    rig.next_life();
    rig.exit(7, 200);
    rig.out("a");
    rig.eof();
    assert_eq!(rig.take(), "M a, D, C lost exit=7, X 1!", "no second C");
    assert_eq!((rig.state(), rig.deadline()), (StateName::Closed, None));
    rig.advance(3_600_000);
    assert!(!rig.sup.has_work());
}

#[test]
fn l12_a_first_life_that_never_served_spends_it_too() {
    let mut rig = Rig::started(Policy { max_restarts: MaxRestarts::NoRestart, ..slow_policy() });
    rig.die(7);
    assert_eq!(rig.take(), "D, C lost exit=7, X 0!");
}

#[test]
fn l13_the_budget_spent_by_failing_lives_is_errors_exhausted_withdrawn() {
    let mut rig = Rig::started(once(policy()));
    rig.die(0);
    rig.advance(100);
    rig.spawn_fails();
    assert_eq!(rig.take(), "D, C lost exit=0 ->1, E spawn life=2, X 1, C withdrawn!");
    assert_eq!((rig.state(), rig.deadline()), (StateName::Closed, None));

    let mut rig = Rig::started(once(slow_policy()));
    rig.serves();
    rig.die(0);
    rig.advance(100);
    rig.spawn();
    rig.take();
    rig.die(1);
    assert_eq!(rig.take(), "E handshake life=2 exit=1, X 1, C withdrawn!");
    assert_eq!((rig.state(), rig.deadline()), (StateName::Closed, None));
}

#[test]
fn l14_nothing_follows_the_last_event_not_even_log() {
    type Path = fn(&mut Rig);
    let paths: [(&str, Path); 5] = [
        ("idle", |rig| rig.close()),
        ("asked", |rig| {
            rig.start();
            rig.close();
            rig.die(0);
        }),
        ("exhausted", |rig| {
            rig.start();
            rig.die(0);
            rig.advance(100);
            rig.spawn();
            rig.die(0);
        }),
        ("failed", |rig| {
            rig.start();
            rig.die(0);
            rig.advance(100);
            rig.spawn_fails();
        }),
        ("withdrawn", |rig| {
            rig.start();
            rig.die(0);
            rig.close();
        }),
    ];
    for (name, path) in paths {
        let mut rig = Rig::with(&[once(policy())], Level::Info);
        path(&mut rig);
        assert_eq!(rig.state(), StateName::Closed, "{name}");
        // Everything that may still come in late.
        let slot = rig.slot();
        rig.err("late\n");
        rig.exit(1, 0);
        rig.eof();
        rig.err_eof();
        rig.stdin_gone(0);
        rig.close();
        rig.serves();
        rig.sup.log(rig.now, slot, Level::Error, "about nobody".to_owned());
        rig.sup.spawn_failed(rig.now, slot, "late".to_owned());
        rig.advance(3_600_000);
        let events = rig.take();
        assert_eq!(events.matches('!').count(), 1, "{name}: {events}");
        assert!(events.ends_with('!'), "{name}: {events}");
        assert!(!events.contains("late") && !events.contains("nobody"));
    }
}

#[test]
fn l14_a_peer_that_was_never_started_is_closed_by_drain_and_close() {
    let mut rig = Rig::new(policy());
    rig.close();
    rig.close();
    assert_eq!(rig.take(), "D, C asked!");
    assert_eq!(rig.acts(), "");
}

#[test]
fn l15_one_order_for_events_log_lines_and_messages() {
    let mut rig = Rig::with(&[policy()], Level::Warning);
    rig.stderr = true;
    rig.start();
    rig.err("one\n");
    rig.out("a");
    rig.err("two\n");
    rig.feed(b"nonsense\n");
    rig.out("b");
    rig.die(3);
    let events = rig.take();
    assert!(events.starts_with("LOG one, M a, LOG two, E malformed life=1, M b, LOG connection 1 lost"), "{events}");
    assert!(events.ends_with("D, C lost exit=3 ->1 tail=\"one\\ntwo\""), "{events}");
}

/// A superseded connection emits nothing, and what happened to it does not touch its successor.
#[test]
fn l15_the_end_of_an_old_connection_is_over_when_the_new_one_begins() {
    let mut rig = Rig::started(policy());
    rig.feed(b"{\"jsonrpc\":\"2.0\",\"meth");
    rig.exit(1, 0);
    rig.advance(250 + 100);
    rig.spawn();
    rig.out("whole");
    rig.advance(3_600_000);
    assert_eq!(rig.take(), "E malformed life=1, D, C lost exit=1 ->1, R 2, M whole");
    assert_eq!(rig.state(), StateName::Running);
}

/// A closed stdin says nothing of lines; a hang-up that is told late is not a death of anything new.
#[test]
fn l15_a_hang_up_told_after_the_exit_changes_nothing() {
    let mut rig = Rig::started(policy());
    rig.exit_with(Exit::Code(0), 0, 0, Some(StdinReport { unread: 0, hung_up: false }));
    rig.stdin_gone(0);
    rig.eof();
    assert_eq!(rig.take(), "D, C lost exit=0 ->1");
}

/// P10, where it meets the orders of L: one warning per restart that was decided on, one error when there is none.
#[test]
fn p10_one_log_line_per_decision() {
    let mut rig = Rig::with(&[once(policy())], Level::Warning);
    rig.start();
    rig.die(3);
    let events = rig.take();
    assert!(events.starts_with("LOG connection 1 lost (exit code 3): restart 1 of 1 in 100 ms, D,"), "{events}");
    rig.advance(100);
    rig.spawn_fails();
    let events = rig.take();
    assert!(events.starts_with("LOG the replacement could not be spawned"));
    assert!(events.contains("exit code unknown") && events.contains("budget of 1 restarts"));
    assert_eq!(events.matches("LOG").count(), 1, "{events}");
}
