//! A peer in each of its states, reached the way a peer reaches it. Everything that was told on the way is taken, unless
//! the state is one in which something waits to be taken.

use super::harness::{Rig, policy, slow_policy};
use crate::core::budget::MaxRestarts;
use crate::core::connection::StdinReport;
use crate::core::event::Exit;
use crate::core::peer::StateName;
use crate::core::policy::{Mode, Policy};

/// The policy of every peer here: small enough to fill, and one restart.
fn small(mut policy: Policy) -> Policy {
    policy.max_restarts = MaxRestarts::Limited(1);
    policy.limits.event_queue = 4;
    policy.limits.outbound_bytes = 100;
    policy.limits.frame_bytes = 64;
    policy
}

/// A way into a state.
pub type Way = fn() -> Rig;

/// Every state, and what `state` says in it.
pub const STATES: [(&str, StateName, Way); 25] = [
    ("idle", StateName::Idle, idle),
    ("starting first", StateName::Starting, starting_first),
    ("starting later", StateName::Starting, starting_later),
    ("starting doomed", StateName::Starting, starting_doomed),
    ("starting doomed last", StateName::Starting, doomed_last),
    ("probing", StateName::Starting, probing),
    ("left at the probe", StateName::Starting, left),
    ("respawning", StateName::Starting, respawning),
    ("shaking hands", StateName::Starting, shaking_hands),
    ("shaking hands later", StateName::Starting, shaking_hands_later),
    ("running", StateName::Running, running),
    ("ending again", StateName::Ending, ending_again),
    ("ending again exited", StateName::Ending, ending_exited),
    ("ending exhausted", StateName::Ending, ending_exhausted),
    ("ending nothing", StateName::Ending, ending_nothing),
    ("ending unserved", StateName::Ending, ending_unserved),
    ("waiting", StateName::Waiting, waiting),
    ("waiting spawning", StateName::Waiting, waiting_spawning),
    ("waiting held", StateName::Waiting, waiting_held),
    ("draining", StateName::Draining, draining),
    ("draining taken", StateName::Draining, draining_taken),
    ("closing", StateName::Closing, closing),
    ("closing flushing", StateName::Closing, closing_flushing),
    ("closed", StateName::Closed, closed),
    ("closed taken", StateName::Closed, closed_taken),
];

fn calm(mut rig: Rig) -> Rig {
    rig.take();
    rig.acts();
    rig
}

fn fresh(policy: Policy) -> Rig {
    let mut rig = Rig::new(small(policy));
    rig.stderr = true;
    rig
}

fn idle() -> Rig {
    fresh(policy())
}

fn starting_first() -> Rig {
    let mut rig = fresh(slow_policy());
    rig.start();
    calm(rig)
}

fn starting_later() -> Rig {
    let mut rig = starting_first();
    rig.serves();
    rig.die(0);
    rig.advance(100);
    rig.spawn();
    calm(rig)
}

/// Its stdout ended, and the budget is spent.
fn doomed_last() -> Rig {
    let mut rig = starting_later();
    rig.eof();
    calm(rig)
}

/// Its stdout ended; one more restart is left.
fn starting_doomed() -> Rig {
    let mut policy = small(slow_policy());
    policy.max_restarts = MaxRestarts::Limited(2);
    let mut rig = Rig::new(policy);
    rig.stderr = true;
    rig.start();
    rig.serves();
    rig.die(0);
    rig.take();
    rig.advance(100);
    rig.spawn();
    rig.eof();
    calm(rig)
}

fn of_mode(mode: Mode) -> Rig {
    let mut rig = fresh(Policy { mode, ..policy() });
    rig.start();
    rig.wrote();
    calm(rig)
}

fn probing() -> Rig {
    of_mode(Mode::Auto)
}

/// It has read the probe and is gone, with its pipes open (Z2).
fn left() -> Rig {
    let mut rig = probing();
    rig.exit_with(Exit::Code(1), 0, 0, Some(StdinReport { unread: 0, hung_up: true }));
    calm(rig)
}

/// Another process for the same life was asked for.
fn respawning() -> Rig {
    let mut rig = left();
    rig.eof();
    rig.err_eof();
    calm(rig)
}

fn shaking_hands() -> Rig {
    of_mode(Mode::Legacy)
}

fn shaking_hands_later() -> Rig {
    let mut rig = shaking_hands();
    rig.die(0);
    rig.advance(100);
    rig.spawn();
    rig.wrote();
    calm(rig)
}

fn running() -> Rig {
    let mut rig = fresh(policy());
    rig.start();
    calm(rig)
}

/// Its stdout ended, the process runs on.
fn ending_again() -> Rig {
    let mut rig = running();
    rig.eof();
    calm(rig)
}

/// The process is gone, its pipes are not at their ends.
fn ending_exited() -> Rig {
    let mut rig = running();
    rig.exit(3, 0);
    calm(rig)
}

fn ending_exhausted() -> Rig {
    let mut rig = waiting_spawning();
    rig.spawn();
    rig.eof();
    calm(rig)
}

fn ending_nothing() -> Rig {
    let mut rig = ending_again();
    rig.close();
    calm(rig)
}

/// A first life that is gone before it served, with its pipes open.
fn ending_unserved() -> Rig {
    let mut rig = starting_first();
    rig.exit(3, 0);
    calm(rig)
}

fn waiting() -> Rig {
    let mut rig = running();
    rig.die(0);
    calm(rig)
}

fn waiting_spawning() -> Rig {
    let mut rig = waiting();
    rig.advance(100);
    calm(rig)
}

/// Six events wait for the host, four are allowed.
fn waiting_held() -> Rig {
    let mut rig = running();
    for name in ["a", "b", "c", "d"] {
        rig.out(name);
    }
    rig.die(0);
    rig.advance(100);
    rig.acts();
    rig
}

fn draining() -> Rig {
    let mut rig = running();
    rig.close();
    rig.acts();
    rig
}

fn draining_taken() -> Rig {
    calm(draining())
}

fn closing() -> Rig {
    let mut rig = draining_taken();
    rig.begin_poll();
    calm(rig)
}

/// A line is not written yet.
fn closing_flushing() -> Rig {
    let mut rig = draining_taken();
    rig.send("bye").unwrap();
    rig.begin_poll();
    calm(rig)
}

/// Its last event was not taken.
fn closed() -> Rig {
    let mut rig = closing();
    rig.die(0);
    rig.acts();
    rig
}

fn closed_taken() -> Rig {
    calm(closed())
}

#[test]
fn every_way_leads_into_its_state() {
    for (name, state, way) in STATES {
        assert_eq!(way().state(), state, "{name}");
    }
}
