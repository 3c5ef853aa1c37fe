//! Rules B1 to B9 through the real state machine: when a restart is counted, and what is told when none is left.

use super::harness::{Rig, policy, short, slow_policy};
use crate::core::budget::MaxRestarts;
use crate::core::log::Level;
use crate::core::peer::StateName;
use crate::core::policy::Policy;
use crate::core::supervisor::Supervisor;
use crate::core::time::ms;

/// `max` restarts in `window` milliseconds, at once.
fn budget(max: u32, window: u64) -> Policy {
    Policy { max_restarts: MaxRestarts::Limited(max), restart_delay: 0, restart_window: ms(window), ..policy() }
}

/// What happens to a peer, in milliseconds after its start.
#[derive(Clone, Copy)]
enum At {
    /// The running server dies.
    Death(u64),
    /// The spawn that was asked for fails.
    Failed(u64),
}
use At::{Death, Failed};

/// A step of nothing but time, then the blow. A spawn that is asked for and not meant to fail works at once.
fn tell(policy: Policy, story: &[At]) -> (String, usize) {
    let mut rig = Rig::started(policy);
    let zero = rig.now;
    let mut connections = 1;
    let mut told = Vec::new();
    for step in story {
        let (Death(at) | Failed(at)) = *step;
        if let Death(_) = step {
            while rig.state() == StateName::Waiting {
                rig.advance_to(rig.sup.next_deadline().unwrap_or(rig.now));
                rig.spawn();
                connections += 1;
            }
        }
        rig.advance_to(zero + ms(at));
        match step {
            Death(_) => rig.die(1),
            Failed(_) => rig.spawn_fails(),
        }
        told.push(rig.take());
    }
    if rig.state() == StateName::Waiting {
        rig.advance(0);
        if rig.sup.wants_spawn(0) {
            rig.spawn();
            connections += 1;
            told.push(rig.take());
        }
    }
    (told.join("; "), connections)
}

#[test]
fn b01_bad_values_are_refused_and_add_nothing() {
    let mut sup = Supervisor::new(Level::Error);
    for policy in [budget(0, 10), budget(1, 0)] {
        assert_eq!(short(&sup.add(policy, 0).unwrap_err()), "INVALID");
    }
    let id = sup.add(budget(1, 10), 0).unwrap();
    assert_eq!(id.slot(), 0, "a refused peer takes no slot");
    assert!(!sup.has_work());
}

#[test]
fn b01_the_defaults() {
    let policy = Policy::default();
    assert_eq!(policy.max_restarts, MaxRestarts::Limited(3));
    assert_eq!(policy.restart_delay, ms(100));
    assert_eq!(policy.restart_window, ms(60_000));
}

#[test]
fn b01_times_at_the_end_of_the_clock_saturate() {
    let mut rig = Rig::new(Policy {
        max_restarts: MaxRestarts::Unlimited,
        restart_delay: u64::MAX,
        restart_window: u64::MAX,
        close_grace: u64::MAX,
        kill_grace: u64::MAX,
        exit_drain: u64::MAX,
        ..policy()
    });
    rig.now = u64::MAX - 10;
    rig.start();
    rig.die(0);
    assert_eq!(rig.take(), "D, C lost exit=0 ->1");
    assert_eq!(rig.sup.next_deadline(), None, "the delay never ends");
    rig.close();
    assert_eq!(rig.take(), "C withdrawn!");
}

#[test]
fn b02_exactly_at_the_end_of_the_window_is_inside_to_the_nanosecond() {
    for (late, expected) in [(0, "D, C lost exit=1, X 1!"), (1, "D, C lost exit=1 ->1")] {
        let mut rig = Rig::started(budget(1, 10_000));
        rig.advance(777);
        let opened = rig.now;
        rig.die(1);
        rig.advance(0);
        rig.spawn();
        rig.take();
        rig.advance_to(opened + ms(10_000) + late);
        rig.die(1);
        assert_eq!(rig.take(), expected, "{late} ns late");
    }
}

#[test]
fn b02_a_failed_spawn_is_judged_by_the_same_clock() {
    for (late, expected) in [(0, "E spawn life=2, X 1, C withdrawn!"), (1, "E spawn life=2 ->1")] {
        let mut rig = Rig::started(budget(1, 10_000));
        let opened = rig.now;
        rig.die(1);
        rig.advance(0);
        rig.take();
        // The answer of the spawn comes late.
        rig.advance_to(opened + ms(10_000) + late);
        rig.spawn_fails();
        assert_eq!(rig.take(), expected, "{late} ns late");
    }
}

/// A start time longer than the window must not make a peer that never serves immortal.
#[test]
fn b02_a_start_that_takes_too_long_never_opens_a_fresh_window() {
    let mut rig = Rig::started(Policy { start_timeout: ms(20_000), serves_at_once: false, ..budget(2, 10_000) });
    let lives = ["E handshake life=1, D, C lost sig=15 ->1", "E handshake life=2 sig=15 ->2"];
    for expected in lives {
        rig.advance(20_000);
        rig.exit_with(crate::core::event::Exit::Signal(15), 0, 0, None);
        assert_eq!(rig.take(), expected);
        rig.advance(0);
        rig.spawn();
    }
    rig.advance(20_000);
    rig.die(1);
    assert_eq!(rig.take(), "E handshake life=3 exit=1, X 2, C withdrawn!");
}

/// The exception is for slow starts only: a replacement that dies of something else after the window opens a new one.
#[test]
fn b02_another_death_before_serving_does_open_a_fresh_window() {
    let mut rig = Rig::started(Policy { start_timeout: ms(20_000), serves_at_once: false, ..budget(1, 10_000) });
    rig.die(1);
    rig.advance(0);
    rig.spawn();
    rig.take();
    rig.advance(10_001);
    rig.die(1);
    assert_eq!(rig.take(), "E handshake life=2 exit=1 ->1");
}

#[test]
fn b03_the_window_opens_at_the_first_restart_and_tumbles() {
    // Not at the start of the peer.
    let (told, connections) = tell(budget(1, 10_000), &[Death(9_000), Death(18_000)]);
    assert_eq!(told, "D, C lost exit=1 ->1; R 2, D, C lost exit=1, X 1!");
    assert_eq!(connections, 2);
    // Not at the last restart: the count does not slide.
    let story = [Death(0), Death(59_999), Death(60_001), Death(60_002), Death(60_003)];
    let (told, connections) = tell(budget(2, 60_000), &story);
    assert_eq!(
        told,
        "D, C lost exit=1 ->1; R 2, D, C lost exit=1 ->2; R 3, D, C lost exit=1 ->1; \
         R 4, D, C lost exit=1 ->2; R 5, D, C lost exit=1, X 2!"
    );
    assert_eq!(connections, 5);
}

#[test]
fn b03_two_max_minus_one_restarts_fit_one_width() {
    let story = [0, 59_000, 59_500, 60_100, 60_600, 61_100].map(Death);
    let (told, connections) = tell(budget(3, 60_000), &story);
    assert_eq!(told.matches("->").count(), 6);
    assert_eq!((connections, told.contains('X')), (7, false));
}

#[test]
fn b04_neither_messages_nor_starts_nor_reconnects_clear_the_count() {
    let mut rig = Rig::started(budget(1, 10_000));
    rig.out("a");
    rig.die(1);
    rig.advance(0);
    rig.spawn();
    rig.advance(5_000);
    rig.out("b");
    rig.send("thanks").unwrap();
    rig.wrote();
    rig.die(1);
    assert_eq!(rig.take(), "M a, D, C lost exit=1 ->1, R 2, M b, D, C lost exit=1, X 1!");

    let mut rig = Rig::started(Policy { serves_at_once: false, ..budget(1, 10_000) });
    rig.serves();
    rig.die(1);
    rig.advance(0);
    rig.spawn();
    rig.serves();
    rig.die(1);
    assert_eq!(rig.take(), "READY 1, D, C lost exit=1 ->1, R 2, D, C lost exit=1, X 1!");
}

#[test]
fn b05_exhausted_tells_the_configured_maximum() {
    for max in [1, 2, 7] {
        let story = vec![Death(0); max as usize + 1];
        let (told, _) = tell(budget(max, 60_000), &story);
        assert!(told.ends_with(&format!("X {max}!")), "{told}");
        assert_eq!(told.matches("->").count(), max as usize);
    }
}

#[test]
fn b07_a_budget_that_never_exhausts_is_refused_at_add() {
    let mut sup = Supervisor::new(Level::Error);
    let mut policy = Policy { restart_delay: ms(20_000), ..budget(1, 10_000) };
    let refusal = sup.add(policy.clone(), 0).unwrap_err();
    assert!(refusal.to_string().contains("UNLIMITED"), "{refusal}");
    policy.max_restarts = MaxRestarts::Unlimited;
    assert!(sup.add(policy, 0).is_ok());
}

#[test]
fn b07_unlimited_goes_on_and_no_restart_ends_at_the_first_death() {
    let unlimited = Policy { max_restarts: MaxRestarts::Unlimited, ..budget(1, 60_000) };
    let (told, connections) = tell(unlimited, &vec![Death(0); 500]);
    assert_eq!(connections, 501);
    assert!(told.ends_with("D, C lost exit=1 ->500; R 501"), "{told}");

    let none = Policy { max_restarts: MaxRestarts::NoRestart, ..budget(1, 60_000) };
    let (told, connections) = tell(none, &[Death(5)]);
    assert_eq!((told.as_str(), connections), ("D, C lost exit=1, X 0!", 1));
}

/// The worked examples, each with its exact events.
#[test]
fn b09_worked_examples() {
    type Row = (u32, u64, &'static [At], usize, &'static str);
    let table: &[Row] = &[
        (1, 10_000, &[Death(0), Death(10_500)], 3, "D, C lost exit=1 ->1; R 2, D, C lost exit=1 ->1; R 3"),
        (1, 10_000, &[Death(0), Death(10_000)], 2, "D, C lost exit=1 ->1; R 2, D, C lost exit=1, X 1!"),
        (1, 10_000, &[Death(5_000), Death(12_000)], 2, "D, C lost exit=1 ->1; R 2, D, C lost exit=1, X 1!"),
        (1, 10, &[Death(0), Death(50)], 3, "D, C lost exit=1 ->1; R 2, D, C lost exit=1 ->1; R 3"),
        (
            2,
            60_000,
            &[Death(0), Death(1), Death(2)],
            3,
            "D, C lost exit=1 ->1; R 2, D, C lost exit=1 ->2; R 3, D, C lost exit=1, X 2!",
        ),
        (
            2,
            60_000,
            &[Death(0), Failed(0), Failed(0)],
            1,
            "D, C lost exit=1 ->1; E spawn life=2 ->2; E spawn life=2, X 2, C withdrawn!",
        ),
        (
            2,
            60_000,
            &[Death(0), Failed(0), Death(0)],
            2,
            "D, C lost exit=1 ->1; E spawn life=2 ->2; R 2, D, C lost exit=1, X 2!",
        ),
        (
            3,
            60_000,
            &[Death(0), Death(1_000), Death(2_000), Death(3_000)],
            4,
            "D, C lost exit=1 ->1; R 2, D, C lost exit=1 ->2; R 3, D, C lost exit=1 ->3; \
             R 4, D, C lost exit=1, X 3!",
        ),
        (
            3,
            60_000,
            &[Death(0), Death(59_900), Death(60_000), Death(60_000)],
            4,
            "D, C lost exit=1 ->1; R 2, D, C lost exit=1 ->2; R 3, D, C lost exit=1 ->3; \
             R 4, D, C lost exit=1, X 3!",
        ),
        (
            3,
            60_000,
            &[Death(0), Death(59_000), Death(59_500), Death(60_100), Death(60_600), Death(61_100)],
            7,
            "D, C lost exit=1 ->1; R 2, D, C lost exit=1 ->2; R 3, D, C lost exit=1 ->3; \
             R 4, D, C lost exit=1 ->1; R 5, D, C lost exit=1 ->2; R 6, D, C lost exit=1 ->3; R 7",
        ),
    ];
    for (max, window, story, connections, expected) in table {
        let (told, made) = tell(budget(*max, *window), story);
        assert_eq!(&told, expected);
        assert_eq!(made, *connections, "{expected}");
    }
}

/// The example that never exhausts. Its numbers are refused at `add`; a host that looks only every 20 s gets there all the
/// same, because each failure is judged when it is seen.
#[test]
fn b09_failures_further_apart_than_the_window_never_exhaust() {
    let mut rig = Rig::started(budget(1, 10_000));
    rig.die(1);
    rig.take();
    for _ in 0..20 {
        rig.sleep(20_000);
        rig.begin_poll();
        rig.spawn_fails();
        assert_eq!(rig.take(), "E spawn life=2 ->1");
    }
    assert_eq!(rig.state(), StateName::Waiting);
}

/// Two peers, one budget each (L17).
#[test]
fn b02_each_peer_has_its_own_window() {
    let mut rig = Rig::with(&[budget(1, 10_000), budget(1, 10_000)], Level::Server);
    rig.on(0).start();
    rig.on(1).start();
    rig.on(0).die(1);
    rig.advance(9_000);
    rig.on(1).die(1);
    rig.advance(0);
    rig.on(0).spawn();
    rig.on(1).spawn();
    rig.take();
    rig.advance(1_001);
    rig.on(0).die(1);
    rig.on(1).die(1);
    let told = rig.take();
    assert!(told.contains("0 C lost exit=1 ->1"), "{told}");
    assert!(told.contains("1 C lost exit=1, 1 X 1!"), "{told}");
}

/// An asked end takes nothing from a budget, and neither does a first life that is closed while it starts.
#[test]
fn b02_asked_ends_are_not_counted() {
    for policy in [policy(), slow_policy()] {
        let mut rig = Rig::started(Policy { max_restarts: MaxRestarts::NoRestart, ..policy });
        rig.close();
        rig.die(1);
        let told = rig.take();
        assert!(!told.contains('X'), "{told}");
    }
}
