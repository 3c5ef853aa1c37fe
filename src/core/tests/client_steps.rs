//! What can happen to a peer with its client, one thing at a time: chosen at random by `client_histories`, and read from bytes by the
//! fuzzer.

use super::client_world::ClientWorld;
use crate::core::budget::MaxRestarts;
use crate::core::peer::StateName;
use crate::core::policy::{ClientPolicy, Limits, Mode, Policy};
use crate::core::time::ms;

/// One thing that happens.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    Start,
    Request {
        ask: usize,
        times: usize,
        progress: bool,
        verbatim: bool,
    },
    Listen,
    Notify,
    Send,
    Cancel(usize),
    Close,
    Serves,
    /// The server reads so much and answers one thing.
    Reads(usize),
    Answers {
        pick: usize,
        how: usize,
    },
    Note,
    LetsGo(u8),
    Exits {
        with_pipes: bool,
    },
    /// The server does what makes its connection serve.
    Hands(usize),
    /// The server reads everything and leaves without a word.
    Leaves,
    Responds(usize),
    /// A death and what leads to the next life.
    NextLife(usize),
    Turn(usize),
    Poll(usize),
    Settle,
    Advance {
        millis: u64,
        step_by_step: bool,
    },
    SpawnsFail(bool),
    Shutdown(u64),
}
use Step::*;

/// What differs between the policies that are played.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub max_restarts: MaxRestarts,
    pub serves_at_once: bool,
    pub event_queue: usize,
    pub retry: bool,
    pub shed: bool,
    pub rediscover: bool,
    pub max_in_flight: usize,
    pub has_extensions: bool,
    pub mode: Mode,
}

/// A policy of small limits and short times.
pub fn shaped(shape: Shape) -> Policy {
    let Shape {
        max_restarts,
        serves_at_once,
        event_queue,
        retry,
        shed,
        rediscover,
        max_in_flight,
        has_extensions,
        mode,
    } = shape;
    // Nobody else says when a connection serves that has to find it out.
    let serves_at_once = serves_at_once || mode != Mode::Modern;
    let capabilities = if has_extensions { r#"{"roots":{},"extensions":{"x":{}}}"# } else { "{}" }.to_owned();
    Policy {
        mode,
        max_restarts,
        serves_at_once,
        restart_delay: ms(20),
        restart_window: ms(1_000),
        close_grace: ms(300),
        kill_grace: ms(200),
        exit_drain: ms(50),
        start_timeout: ms(1_500),
        limits: Limits { event_queue, outbound_bytes: 2_000, frame_bytes: 4_000, log_lines: 5, ..Limits::default() },
        client: ClientPolicy {
            retry,
            shed,
            rediscover,
            max_in_flight,
            has_extensions,
            capabilities,
            log_level: retry.then(|| "info".to_owned()),
            idle_timeout: ms(200),
            max_timeout: ms(500),
            probe_timeout: ms(100),
            ..ClientPolicy::default()
        },
    }
}

/// Lets one thing happen.
pub fn play(world: &mut ClientWorld, step: Step) {
    match step {
        Start => world.start(),
        Request { ask, times, progress, verbatim } => world.request(ask, times, progress, verbatim),
        Listen => world.listen(),
        Notify => world.notify(),
        Send => world.send(),
        Cancel(pick) => world.cancel(pick),
        Close => world.close(),
        Serves => world.serves(),
        Reads(bytes) => world.reads(bytes),
        Answers { pick, how } => world.answers(pick, how),
        Note => world.writes_note(),
        LetsGo(end) => world.lets_go(end),
        Exits { with_pipes } => world.exits(with_pipes),
        Hands(pick) => world.shakes_hands(pick),
        Leaves => world.leaves(),
        Responds(pick) => world.responds(pick),
        NextLife(pick) => {
            world.exits(true);
            world.serve(usize::MAX);
            world.poll(usize::MAX);
            world.advance(25, true);
            world.poll(usize::MAX);
            world.serves();
            world.shakes_hands(pick);
            world.reads(usize::MAX);
            world.answers(0, 0);
            world.serve(usize::MAX);
        }
        Turn(frames) => world.serve(frames),
        Poll(most) => world.poll(most),
        Settle => world.settle(),
        Advance { millis, step_by_step } => world.advance(millis, step_by_step),
        SpawnsFail(fail) => world.spawns_fail = fail,
        Shutdown(grace) => world.shutdown(grace),
    }
}

/// Lets everything come to its end.
pub fn finish(world: &mut ClientWorld) {
    world.shutdown(0);
    for rounds in 0.. {
        assert!(rounds < 100, "there is no end: {}", world.history());
        world.settle();
        if !world.has_process() && world.is_final() {
            break;
        }
        world.advance(50, false);
    }
    assert_eq!(world.state(), StateName::Closed);
    world.assert_over();
}

/// Reads a history from bytes and plays it to its end. Every sequence of bytes is one.
#[cfg(fuzzing)]
pub fn play_bytes(bytes: &[u8]) {
    let mut bytes = bytes.iter().copied();
    let mut next = || bytes.next();
    let bits = next().unwrap_or(0);
    let is_on = |bit: u8| bits & (1 << bit) != 0;
    let more = next().unwrap_or(0);
    let mut world = ClientWorld::new(shaped(Shape {
        max_restarts: match more % 7 {
            0 => MaxRestarts::NoRestart,
            limited @ 1..=4 => MaxRestarts::Limited(u32::from(limited)),
            _ => MaxRestarts::Unlimited,
        },
        serves_at_once: is_on(0),
        event_queue: 1 + usize::from(more >> 5),
        retry: is_on(1),
        shed: is_on(2),
        rediscover: is_on(3),
        max_in_flight: if is_on(4) { 4 } else { 50 },
        has_extensions: is_on(5),
        mode: [Mode::Modern, Mode::Modern, Mode::Auto, Mode::Legacy][usize::from(bits >> 6)],
    }));
    world.start();
    // A history of thousands of steps shows nothing that one of hundreds does not, and takes as long as many of those.
    for _ in 0..300 {
        let (Some(kind), Some(value)) = (next(), next()) else { break };
        let number = usize::from(value);
        let step = match kind % 23 {
            0 => Start,
            1 | 2 => Request { ask: number, times: number >> 3, progress: value & 64 != 0, verbatim: value & 128 != 0 },
            3 => Listen,
            4 => Notify,
            5 => Send,
            6 => Cancel(number),
            7 => Close,
            8 => Serves,
            9 => Reads(if value == 255 { usize::MAX } else { number }),
            10 | 11 => Answers { pick: number & 7, how: (number >> 3) % 26 },
            12 => Note,
            13 => LetsGo(value & 1),
            14 => Exits { with_pipes: value & 1 != 0 },
            15 => NextLife(number & 7),
            20 => Hands(number & 7),
            21 => Leaves,
            22 => Responds(number & 7),
            16 => Turn(1 + number % 5),
            17 => Poll(if value == 255 { usize::MAX } else { number % 6 }),
            18 => match value {
                0..=99 => Settle,
                100..=199 => SpawnsFail(value & 1 != 0),
                _ => Shutdown(u64::from(value - 200) * 10),
            },
            _ => Advance { millis: u64::from(value >> 1) * 5, step_by_step: value & 1 != 0 },
        };
        play(&mut world, step);
    }
    finish(&mut world);
}
