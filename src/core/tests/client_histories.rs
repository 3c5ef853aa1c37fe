//! Random histories of a peer with its client (L16, R1, R3, R5, T1, T3, T7, L19), played against servers that read what was
//! written.
//!
//! `CLIENT_HISTORIES` is how many are played; with 30000 of them well over a million steps are taken.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::client_steps::{Shape, Step, finish, play, shaped};
use super::client_world::{ASKS, ClientWorld};
use crate::core::budget::MaxRestarts;
use crate::core::policy::{Mode, Policy};

use Step::*;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Start),
        30 => (0..ASKS.len(), 0usize..5, any::<bool>(), any::<bool>())
            .prop_map(|(ask, times, progress, verbatim)| Request { ask, times, progress, verbatim }),
        12 => Just(Listen),
        3 => Just(Notify),
        2 => Just(Send),
        6 => (0usize..8).prop_map(Cancel),
        6 => Just(Serves),
        25 => prop_oneof![0usize..200, Just(usize::MAX)].prop_map(Reads),
        45 => (0usize..8, 0usize..25).prop_map(|(pick, how)| Answers { pick, how }),
        1 => prop_oneof![4 => Just(Note), 1 => (25usize..26).prop_map(|how| Answers { pick: 0, how })],
        6 => Just(Note),
        2 => (0u8..2).prop_map(LetsGo),
        3 => any::<bool>().prop_map(|with_pipes| Exits { with_pipes }),
        6 => (0usize..8).prop_map(NextLife),
        8 => (0usize..8).prop_map(Hands),
        2 => Just(Leaves),
        5 => (0usize..8).prop_map(Responds),
        15 => (1usize..5).prop_map(Turn),
        25 => prop_oneof![0usize..5, Just(usize::MAX)].prop_map(Poll),
        6 => Just(Settle),
        20 => (prop_oneof![4 => 0u64..40, 1 => 0u64..600], any::<bool>())
            .prop_map(|(millis, step_by_step)| Advance { millis, step_by_step }),
        3 => prop_oneof![Just(true), Just(false), Just(false)].prop_map(SpawnsFail),
        1 => prop_oneof![4 => Just(Notify), 1 => Just(Close), 1 => (0u64..500).prop_map(Shutdown)],
    ]
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let max = prop_oneof![
        1 => Just(MaxRestarts::NoRestart),
        3 => (1u32..5).prop_map(MaxRestarts::Limited),
        3 => Just(MaxRestarts::Unlimited),
    ];
    let client = (any::<bool>(), any::<bool>(), any::<bool>(), prop_oneof![Just(4usize), Just(50)], any::<bool>());
    let mode = prop_oneof![2 => Just(Mode::Modern), 3 => Just(Mode::Auto), 1 => Just(Mode::Legacy)];
    (max, prop_oneof![3 => Just(true), 1 => Just(false)], 1usize..8, client, mode).prop_map(
        |(
            max_restarts,
            serves_at_once,
            event_queue,
            (retry, shed, rediscover, max_in_flight, has_extensions),
            mode,
        )| {
            shaped(Shape {
                max_restarts,
                serves_at_once,
                event_queue,
                retry,
                shed,
                rediscover,
                max_in_flight,
                has_extensions,
                mode,
            })
        },
    )
}

#[test]
fn l16_random_histories_complete_everything_exactly_once() {
    let cases = std::env::var("CLIENT_HISTORIES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(800);
    let steps_taken = AtomicU64::new(0);
    let told: Mutex<BTreeMap<&str, u64>> = Mutex::new(BTreeMap::new());
    let mut runner = TestRunner::new(ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() });
    let strategy = (any_policy(), proptest::collection::vec(step(), 0..200));
    let outcome = runner.run(&strategy, |(policy, steps)| {
        steps_taken.fetch_add(steps.len() as u64, Ordering::Relaxed);
        let mut world = ClientWorld::new(policy);
        world.start();
        for step in steps {
            play(&mut world, step);
        }
        finish(&mut world);
        if world.was_shy() {
            *told.lock().unwrap().entry("shy").or_default() += 1;
        }
        for (what, count) in world.ledger.counts() {
            *told.lock().unwrap().entry(what).or_default() += count;
        }
        Ok(())
    });
    let told = told.into_inner().unwrap();
    println!("{cases} histories, {} steps; told: {told:?}", steps_taken.into_inner());
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    // Nothing of what is to be tried is left out.
    let ways = [
        "answer",
        "protocol",
        "closed",
        "exhausted",
        "timeout",
        "cancelled",
        "by peer",
        "dropped",
        "reconnect",
        "unread",
        "retried",
        "input",
        "renegotiated",
        "ready",
        "emulated",
        "token",
        "responded",
        "shy",
    ];
    for way in ways {
        assert!(cases < 800 || told.get(way).is_some_and(|count| *count > 0), "nothing ended so: {way}");
    }
}
