//! Random histories of one to three peers, watched from outside (L3, L14, L15, B2, H1, W5).

use proptest::prelude::*;

use super::harness::policy;
use super::world::World;
use crate::core::budget::MaxRestarts;
use crate::core::policy::{Limits, Policy};
use crate::core::time::ms;

/// One thing that happens.
#[derive(Debug, Clone, Copy)]
enum Step {
    Start,
    Send,
    Close,
    Replace,
    Serves,
    Write(u8),
    WriteStderr,
    LetGo(u8),
    ReadStdin(u64),
    Exit {
        with_pipes: bool,
    },
    /// A death and what leads to the next life.
    NextLife,
    Turn(usize),
    Poll(usize),
    Settle,
    Advance {
        millis: u64,
        step_by_step: bool,
    },
    SpawnsFail(bool),
    Wakeup,
    Shutdown(u64),
}
use Step::*;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Start),
        8 => Just(Send),
        1 => Just(Close),
        2 => Just(Replace),
        8 => Just(Serves),
        30 => (0u8..9).prop_map(Write),
        1 => Just(Write(9)),
        3 => Just(WriteStderr),
        3 => (0u8..3).prop_map(LetGo),
        4 => (1u64..100).prop_map(ReadStdin),
        6 => any::<bool>().prop_map(|with_pipes| Exit { with_pipes }),
        20 => Just(NextLife),
        20 => (1usize..5).prop_map(Turn),
        20 => prop_oneof![0usize..5, Just(usize::MAX)].prop_map(Poll),
        1 => Just(Settle),
        20 => (prop_oneof![4 => 0u64..40, 1 => 0u64..3_000], any::<bool>())
            .prop_map(|(millis, step_by_step)| Advance { millis, step_by_step }),
        3 => prop_oneof![Just(true), Just(false), Just(false)].prop_map(SpawnsFail),
        1 => Just(Wakeup),
        1 => prop_oneof![9 => Just(Wakeup), 1 => (0u64..500).prop_map(Shutdown)],
    ]
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let max = prop_oneof![
        Just(MaxRestarts::NoRestart),
        (1u32..4).prop_map(MaxRestarts::Limited),
        Just(MaxRestarts::Unlimited),
    ];
    (
        max,
        prop_oneof![3 => Just(true), 1 => Just(false)],
        1usize..6,
        prop_oneof![Just(1usize), Just(200_000), Just(8 << 20)],
    )
        .prop_map(|(max_restarts, serves_at_once, event_queue, event_bytes)| Policy {
            max_restarts,
            serves_at_once,
            restart_delay: ms(20),
            restart_window: ms(1_000),
            close_grace: ms(300),
            kill_grace: ms(200),
            exit_drain: ms(50),
            start_timeout: ms(1_500),
            limits: Limits {
                event_queue,
                event_bytes,
                outbound_bytes: 100,
                frame_bytes: 200,
                log_lines: 5,
                ..Limits::default()
            },
            ..policy()
        })
}

fn play(world: &mut World, peer: usize, step: Step) {
    let peer = peer % world.peers.len();
    match step {
        Start => world.start(peer),
        Send => (0..4).for_each(|_| world.send(peer)),
        Close => world.close(peer),
        Replace => world.replace(peer),
        Serves => world.serves(peer),
        Write(what) => world.write(peer, what),
        WriteStderr => world.write_stderr(peer),
        LetGo(end) => world.let_go(peer, end),
        ReadStdin(bytes) => world.read_stdin(peer, bytes),
        Exit { with_pipes } => world.exit(peer, with_pipes),
        NextLife => {
            world.exit(peer, true);
            world.serve(peer, usize::MAX);
            world.poll(usize::MAX);
            world.advance(25, true);
            world.poll(usize::MAX);
            world.serves(peer);
        }
        Turn(frames) => world.serve(peer, frames),
        Poll(most) => world.poll(most),
        Settle => world.settle(),
        Advance { millis, step_by_step } => world.advance(millis, step_by_step),
        SpawnsFail(fail) => world.spawns_fail = fail,
        Wakeup => world.sup.woken(),
        Shutdown(grace) => world.shutdown(grace),
    }
}

/// Lets everything come to its end: the host closes what is left, takes every event and waits.
fn finish(world: &mut World) {
    world.shutdown(0);
    for rounds in 0.. {
        assert!(rounds < 100, "there is no end: {world:#?}");
        world.settle();
        if !world.has_processes() && world.peers.iter().all(|peer| peer.watch.is_final()) {
            break;
        }
        world.advance(50, false);
    }
    world.assert_over();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn l14_l15_random_histories_keep_every_order(
        policies in proptest::collection::vec(any_policy(), 1..4),
        steps in proptest::collection::vec((0usize..3, step()), 0..150),
    ) {
        let mut world = World::new(policies);
        for peer in 0..world.peers.len() {
            world.start(peer);
        }
        for (peer, step) in steps {
            play(&mut world, peer, step);
        }
        finish(&mut world);
    }
}
