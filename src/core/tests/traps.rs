//! Situations in which the reference implementation goes wrong, as far as the core decides them; the numbers are those of the
//! table of traps in docs/acceptance.md. There most of them come from listeners that run in the middle of a change. Here nothing
//! of the host's ever runs inside the library, so the tests do the nearest thing: calls between any two events, and none at all.

use super::harness::{Rig, policy, short, slow_policy};
use crate::core::budget::MaxRestarts;
use crate::core::peer::StateName;
use crate::core::policy::Policy;

type Step = fn(&mut Rig);

/// A second life that does not serve yet, everything before it taken.
fn second_life_starting() -> Rig {
    let mut rig = Rig::started(slow_policy());
    rig.serves();
    rig.die(0);
    rig.advance(100);
    rig.spawn();
    rig.take();
    rig.acts();
    rig
}

/// Every order of some steps.
fn orders<T: Copy>(steps: &[T]) -> Vec<Vec<T>> {
    if steps.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for first in 0..steps.len() {
        let mut rest = steps.to_vec();
        let step = rest.remove(first);
        all.extend(orders(&rest).into_iter().map(|rest| [vec![step], rest].concat()));
    }
    all
}

/// The decision falls with the first sign of a death, so that whoever asks after it, however early, hears of a replacement.
#[test]
fn trap_03_the_replacement_is_decided_before_anything_is_told() {
    let signs: [Step; 3] = [|rig| rig.exit(1, 0), |rig| rig.eof(), |rig| rig.stdin_gone(0)];
    for order in orders(&signs) {
        let mut rig = Rig::started(policy());
        rig.out("answer");
        order[0](&mut rig);
        assert_eq!((rig.state(), rig.take().as_str()), (StateName::Ending, "M answer"));
        order[1](&mut rig);
        order[2](&mut rig);
        assert_eq!(rig.take(), "D, C lost exit=1 ->1");
    }
}

/// A CLOSE that says a replacement is coming is a promise, and it comes to one end: RECONNECT, or a CLOSE that withdraws it. Tries
/// that fail in between are ERRORs and no end.
#[test]
fn trap_05_every_promise_is_answered_once() {
    let fates: [(&str, Step, &str); 5] = [
        ("served", |rig| rig.spawn(), "R 2"),
        ("withdrawn", |rig| rig.close(), "C withdrawn!"),
        ("shut down", |rig| rig.shutdown(1_000), "C withdrawn!, SHUTDOWN!"),
        ("failed", |rig| rig.spawn_fails(), "E spawn life=2 ->2"),
        ("failed twice", |rig| (0..2).for_each(|_| fail(rig)), "E spawn life=2 ->2, E spawn life=2, X 2, C withdrawn!"),
    ];
    fn fail(rig: &mut Rig) {
        rig.spawn_fails();
        rig.advance(100);
    }
    for (name, fate, expected) in fates {
        let mut rig = Rig::started(Policy { max_restarts: MaxRestarts::Limited(2), ..policy() });
        rig.die(1);
        rig.advance(100);
        assert_eq!(rig.take(), "D, C lost exit=1 ->1");
        fate(&mut rig);
        assert_eq!(rig.take(), expected, "{name}");
    }
    // Where no promise was given, none is withdrawn.
    let mut rig = Rig::started(Policy { max_restarts: MaxRestarts::NoRestart, ..policy() });
    rig.die(1);
    rig.close();
    assert_eq!(rig.take(), "D, C lost exit=1, X 0!");
}

/// The ERROR of a respawn that failed lies in the queue: the next try does not depend on anybody who takes it.
#[test]
fn trap_07_a_failed_respawn_is_tried_again_whether_its_error_is_taken_or_not() {
    for takes in [true, false] {
        let mut rig = Rig::started(policy());
        rig.die(1);
        rig.advance(100);
        rig.acts();
        rig.spawn_fails();
        let mut told = if takes { rig.take() + ", " } else { String::new() };
        assert_eq!((rig.state(), rig.deadline()), (StateName::Waiting, Some(100)), "armed before it is told");
        rig.advance(100);
        assert_eq!(rig.acts(), "Spawn");
        rig.spawn();
        told += &rig.take();
        assert_eq!(told, "D, C lost exit=1 ->1, E spawn life=2 ->2, R 2");
    }
}

/// A replacement that dies before it serves: one ERROR, one timer, and no RECONNECT of a life that is over, in whatever order the
/// signs of its death and a late success come.
#[test]
fn trap_08_a_replacement_that_dies_while_it_starts_has_one_successor() {
    let signs: [(&str, Step); 4] = [
        ("exit", |rig| rig.exit(1, 0)),
        ("eof", |rig| rig.eof()),
        ("stdin", |rig| rig.stdin_gone(0)),
        ("serves", |rig| rig.serves()),
    ];
    for order in orders(&signs) {
        let mut rig = second_life_starting();
        let names: Vec<&str> = order.iter().map(|(name, _)| *name).collect();
        for (_, sign) in &order {
            sign(&mut rig);
        }
        // Only where it came first did the life serve.
        let expected = match names[0] {
            "serves" => "R 2, D, C lost exit=1 ->2",
            _ => "E handshake life=2 exit=1 ->2",
        };
        assert_eq!(rig.take(), expected, "{names:?}");
        assert_eq!((rig.state(), rig.deadline()), (StateName::Waiting, Some(100)), "{names:?}");
        rig.acts();
        rig.advance(3_600_000);
        assert_eq!(rig.acts(), "Spawn", "{names:?}: one order, and no second before it is carried out");
        rig.spawn();
        rig.serves();
        assert_eq!(rig.take(), "R 3", "{names:?}");
    }
}

/// STARTING is a state of its own: a second start is refused, a close ends it for good, a death leads to a replacement.
#[test]
fn trap_09_a_start_that_is_under_way_is_guarded() {
    let starting = || Rig::started(slow_policy());

    let rig = starting();
    assert_eq!(short(&rig.sup.may_start(rig.id()).unwrap_err()), "ALREADY_STARTED");

    let mut rig = starting();
    rig.close();
    rig.serves();
    assert_eq!(rig.state(), StateName::Closing, "success comes too late");
    rig.close();
    rig.die(0);
    rig.serves();
    assert_eq!((rig.state(), rig.take().as_str()), (StateName::Closed, "D, C asked exit=0!"));
    assert_eq!(short(&rig.sup.may_start(rig.id()).unwrap_err()), "CLOSED");

    let mut rig = starting();
    rig.die(1);
    assert_eq!(short(&rig.sup.may_start(rig.id()).unwrap_err()), "ALREADY_STARTED");
    rig.advance(100);
    rig.spawn();
    rig.serves();
    assert_eq!(rig.take(), "D, C lost exit=1 ->1, R 2");
}

/// A failing server is given up whatever the numbers are, so long as they were accepted.
#[test]
fn trap_10_failing_spawns_exhaust_every_budget_that_is_accepted() {
    let times = [0, 1, 7, 100, 19_999, 20_000, 59_999, 60_000, u64::MAX / 2_000_000];
    let (mut accepted, mut refused) = (0, 0);
    for max in [1, 2, 3, 10] {
        for delay in times {
            for window in times {
                let numbers = Policy {
                    max_restarts: MaxRestarts::Limited(max),
                    restart_delay: delay * 1_000_000,
                    restart_window: window * 1_000_000,
                    ..policy()
                };
                if numbers.check().is_err() {
                    refused += 1;
                    continue;
                }
                accepted += 1;
                let mut rig = Rig::started(numbers);
                rig.die(1);
                for _ in 0..max {
                    assert_eq!(rig.state(), StateName::Waiting);
                    rig.advance(delay);
                    rig.spawn_fails();
                }
                assert_eq!(rig.state(), StateName::Closed, "{max} {delay} {window}");
                assert!(rig.take().ends_with(&format!("X {max}, C withdrawn!")));
            }
        }
    }
    assert!(accepted > 50 && refused > 50, "{accepted} {refused}");
}

/// A host that closes at any place of a story, also right after a DRAIN, hears of the rest of it once: at most one more CLOSE, and
/// that one the last event, never in between.
#[test]
fn trap_12_a_close_between_any_two_events_tears_nothing_apart() {
    // Without a close it is told one by one: M a, D, C, then R 2, M b, D, C.
    for place in 0..=7 {
        let mut rig = Rig::started(policy());
        let mut told = Vec::new();
        let mut take = |rig: &mut Rig, count| {
            for _ in 0..count {
                told.extend(rig.take_one());
                if told.len() == place {
                    rig.close();
                }
            }
        };
        rig.out("a");
        rig.die(1);
        if place == 0 {
            rig.close();
        }
        take(&mut rig, 3);
        rig.advance(100);
        if rig.sup.wants_spawn(0) {
            rig.spawn();
            rig.out("b");
        }
        take(&mut rig, 2);
        if rig.sup.connection(0).is_some() {
            rig.die(1);
        }
        take(&mut rig, 9);
        let first = "M a, D, C lost exit=1 ->1";
        let second = match place {
            // The replacement was still to come.
            0..=3 => "C withdrawn!",
            4 | 5 => "R 2, M b, D, C asked exit=1!",
            _ => "R 2, M b, D, C lost exit=1 ->2, C withdrawn!",
        };
        assert_eq!(told.join(", "), format!("{first}, {second}"), "closed after {place} events");
        assert_eq!((rig.state(), rig.deadline()), (StateName::Closed, None));
    }
}

/// Refused while the replacement starts is "closed", as while it is waited for; "not started" is said of a first life only.
#[test]
fn trap_23_a_line_for_a_replacement_that_starts_is_refused_as_closed() {
    let mut first = Rig::started(slow_policy());
    assert_eq!(first.send("x").unwrap_err(), "NOT_STARTED");
    let mut rig = second_life_starting();
    assert_eq!((rig.state(), rig.send("x").unwrap_err().as_str()), (StateName::Starting, "CLOSED"));
    rig.serves();
    assert_eq!(rig.take(), "R 2");
    assert_eq!(rig.send("x"), Ok(1), "what was refused has no number");
}
