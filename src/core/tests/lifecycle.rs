//! Rules L1 to L7: what the host may call when, and how a connection that nobody closed begins and ends.

use super::harness::{Rig, note, policy, short, slow_policy};
use super::states::STATES;
use crate::core::budget::MaxRestarts;
use crate::core::event::Exit;
use crate::core::log::Level;
use crate::core::peer::StateName;
use crate::core::policy::{Mode, Policy};

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
            (Idle, _) => "NOT_STARTED",
            (Starting, "starting first" | "probing" | "left at the probe" | "respawning" | "shaking hands") => {
                "NOT_STARTED"
            }
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

/// What a removed peer had to tell is not told, and does not keep the descriptor readable either.
#[test]
fn l00_a_removed_peer_tells_nothing() {
    let mut rig = Rig::with(&[policy()], Level::Info);
    rig.sup.log(rig.now, 0, Level::Info, "hello".to_owned());
    assert!(rig.sup.has_event());
    let id = rig.id();
    rig.sup.remove(id).unwrap();
    assert!(!rig.sup.has_work());
    assert!(rig.sup.next_event().is_none());
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
    assert_eq!(
        rig.take(),
        format!("LOG dropped a message that came before the connection served: {}", note("late").trim_end())
    );
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

/// The start time is over with the first death signal: it is not missed twice.
#[test]
fn l04_no_start_time_runs_out_while_a_connection_ends() {
    for life in [1, 2] {
        let mut rig = Rig::started(slow_policy());
        if life == 2 {
            rig.serves();
            rig.next_life();
        }
        rig.advance(19_900);
        rig.eof();
        rig.advance(3_600_000);
        assert_eq!(rig.take(), "", "life {life}");
        rig.exit_with(Exit::Signal(9), 0, 0, None);
        let expected = match life {
            1 => "D, C lost sig=9 ->1",
            _ => "E handshake life=2 sig=9 ->2",
        };
        assert_eq!(rig.take(), expected, "nothing but the end itself");
    }
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
