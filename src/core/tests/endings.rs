//! Rules L8 to L16 and P10: ends that are asked for, replacements that do not come, and what the last event is.

use super::harness::{Rig, policy, render, slow_policy};
use crate::core::budget::MaxRestarts;
use crate::core::connection::StdinReport;
use crate::core::event::Exit;
use crate::core::log::Level;
use crate::core::peer::StateName;
use crate::core::policy::Policy;
use crate::core::supervisor::Told;

fn once(mut policy: Policy) -> Policy {
    policy.max_restarts = MaxRestarts::Limited(1);
    policy
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

    // One that runs on is being ended already: that ladder goes on, it does not begin anew with a longer grace.
    let mut rig = Rig::started(slow_policy());
    rig.serves();
    rig.die(0);
    rig.advance(100);
    rig.spawn();
    rig.take();
    rig.eof();
    rig.advance(250);
    rig.acts();
    rig.close();
    rig.advance(2000);
    assert_eq!(rig.acts(), "Kill", "kill_grace after SIGTERM, whatever close_grace is");
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
    assert_eq!(render(&queued), "E handshake life=2 sig=15 ->2");
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
        assert_eq!(render(&queued), "E handshake life=2 exit=1 ->2", "{name}");
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
        rig.sup.log(rig.now, slot, Level::Error, "about its remains".to_owned());
        rig.sup.spawn_failed(rig.now, slot, "late".to_owned());
        rig.advance(3_600_000);
        let events = rig.take();
        assert_eq!(events.matches('!').count(), 1, "{name}: {events}");
        assert!(events.ends_with('!'), "{name}: {events}");
        assert!(!events.contains("late"), "{name}: {events}");
        assert!(events.contains("about its remains"), "a line of the library's own still goes before it: {events}");
        rig.sup.log(rig.now, slot, Level::Error, "about nobody".to_owned());
        assert_eq!(rig.take(), "", "{name}: the last event was taken");
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
