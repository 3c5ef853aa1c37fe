//! Rows of docs/acceptance.md that no other test shows by itself, where the core decides. The number is that of the row.

use super::harness::{Rig, policy, slow_policy};
use crate::core::budget::MaxRestarts;
use crate::core::event::Exit;
use crate::core::log::Level;
use crate::core::peer::StateName;
use crate::core::policy::Policy;

fn at_most(max: u32) -> Policy {
    Policy { max_restarts: MaxRestarts::Limited(max), ..policy() }
}

/// There a listener that throws may stop what follows it. Here the worst a host can do with an event is to leave it: the next
/// lives come all the same, and what was left is there when it looks, in order.
#[test]
fn row_04_a_host_that_takes_nothing_still_gets_its_replacements() {
    let mut rig = Rig::started(at_most(2));
    for _ in 0..2 {
        rig.out("served");
        rig.die(1);
        assert_eq!(rig.state(), StateName::Waiting);
        rig.advance(100);
        rig.spawn();
        assert_eq!(rig.state(), StateName::Running);
    }
    rig.die(1);
    assert_eq!(
        rig.take(),
        "M served, D, C lost exit=1 ->1, R 2, M served, D, C lost exit=1 ->2, R 3, D, C lost exit=1, X 2!"
    );
}

/// The peer is closed when its budget is spent, not when the host has been told.
#[test]
fn row_22_an_exhausted_peer_is_closed_before_anything_is_taken() {
    let mut rig = Rig::started(at_most(1));
    rig.next_life();
    rig.die(1);
    assert_eq!(rig.state(), StateName::Closed);
    assert_eq!(rig.send("x").unwrap_err(), "CLOSED");
    rig.advance(3_600_000);
    assert_eq!(rig.acts().matches("Spawn").count(), 1, "the one of the first death");
    assert_eq!(rig.take(), "D, C lost exit=1, X 1!");
}

#[test]
fn row_43_an_exit_that_nobody_knows_is_logged_as_unknown() {
    let mut rig = Rig::with(&[policy()], Level::Warning);
    rig.start();
    rig.exit_with(Exit::Unknown, 0, 0, None);
    rig.eof();
    assert_eq!(rig.take(), "LOG connection 1 lost (exit code unknown): restart 1 of 3 in 100 ms, D, C lost exit=? ->1");
}

/// "Reconnecting" is what the state says: ENDING, WAITING, and STARTING of a later life.
#[test]
fn row_48_the_state_tells_when_a_replacement_is_coming() {
    let mut rig = Rig::new(slow_policy());
    let mut seen = vec![rig.state()];
    rig.start();
    seen.push(rig.state());
    rig.serves();
    seen.push(rig.state());
    rig.exit(1, 0);
    seen.push(rig.state());
    rig.eof();
    seen.push(rig.state());
    rig.advance(100);
    seen.push(rig.state());
    // A try that fails leaves it where it was.
    rig.spawn_fails();
    seen.push(rig.state());
    rig.advance(100);
    rig.spawn();
    seen.push(rig.state());
    rig.serves();
    seen.push(rig.state());
    use StateName::*;
    assert_eq!(seen, [Idle, Starting, Running, Ending, Waiting, Waiting, Waiting, Starting, Running]);
    assert_eq!(rig.take(), "READY 1, D, C lost exit=1 ->1, E spawn life=2 ->2, R 2");
}

#[test]
fn row_55_each_replacement_is_announced_once() {
    let mut rig = Rig::started(policy());
    for _ in 0..2 {
        rig.die(0);
        rig.advance(100);
        rig.spawn();
        rig.serves();
        rig.out("served");
    }
    assert_eq!(rig.take(), "D, C lost exit=0 ->1, R 2, M served, D, C lost exit=0 ->2, R 3, M served");
}

/// A death that the host asked for is no matter for the log: no restart is decided on and none is given up.
#[test]
fn row_s20_the_exit_after_a_close_is_told_once_and_not_logged() {
    for code in [0, 9] {
        let mut rig = Rig::with(&[policy()], Level::Info);
        rig.start();
        rig.close();
        assert_eq!(rig.poll(), "D");
        rig.begin_poll();
        rig.die(code);
        rig.exit(code, 0);
        assert_eq!(rig.take(), format!("C asked exit={code}!"));
        rig.advance(3_600_000);
        assert_eq!(rig.take(), "");
    }
}

/// The write that fails is seen by a poll and not by the call; it is one death, whoever else ends the connection then.
#[test]
fn row_d21_a_write_that_fails_while_the_host_closes_is_no_error() {
    let mut rig = Rig::with(&[policy()], Level::Info);
    rig.start();
    rig.send("last words").unwrap();
    rig.close();
    rig.stdin_gone(0);
    assert_eq!(rig.state(), StateName::Closing);
    assert_eq!(rig.send("more").unwrap_err(), "CLOSED");
    rig.die(0);
    assert_eq!(rig.take(), "D, C asked exit=0 unread=1!");
}
