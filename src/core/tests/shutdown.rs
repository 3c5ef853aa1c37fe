//! Rules L17 and L18: peers do not touch each other, and all of them can be ended together.

use super::harness::{Rig, policy, short, slow_policy};
use super::states::STATES;
use crate::core::budget::MaxRestarts;
use crate::core::log::Level;
use crate::core::peer::StateName;
use crate::core::policy::Policy;
use crate::core::supervisor::Supervisor;
use crate::core::time::ms;

fn running(count: usize) -> Rig {
    let mut rig = Rig::with(&vec![policy(); count], Level::Server);
    for peer in 0..count {
        rig.on(peer).start();
    }
    rig
}

/// One life after another of the quiet peer, with what it is asked for and what it tells, beside a neighbour or alone.
fn quiet_peer(mut neighbour: impl FnMut(&mut Rig, usize)) -> Vec<String> {
    let noisy = Policy { max_restarts: MaxRestarts::Limited(1), ..policy() };
    let mut rig = Rig::with(&[noisy, policy()], Level::Server);
    let mut seen = Vec::new();
    rig.on(1).start();
    for step in 0..9 {
        neighbour(&mut rig, step);
        match step {
            0 => rig.on(1).out("a"),
            1 | 5 => rig.on(1).die(3),
            3 | 7 => rig.on(1).spawn(),
            4 => rig.on(1).out("b"),
            8 => rig.on(1).close(),
            _ => {}
        }
        let told = rig.poll();
        seen.extend(told.split(", ").filter(|event| event.starts_with("1 ")).map(str::to_owned));
        seen.push(format!("{:?}", rig.on(1).state()));
        rig.advance(100);
        let acts = rig.acts();
        seen.extend(acts.split(", ").filter(|act| act.starts_with("1 ")).map(str::to_owned));
    }
    seen
}

#[test]
fn l17_exhaustion_floods_and_closes_of_one_peer_change_nothing_for_another() {
    let alone = quiet_peer(|_, _| {});
    assert!(alone.contains(&"1 R 3".to_owned()), "{alone:?}");
    let floods = quiet_peer(|rig, step| {
        if step == 0 {
            rig.on(0).start();
        }
        for _ in 0..50 {
            rig.on(0).out("flood");
        }
    });
    assert_eq!(alone, floods);
    let exhausts = quiet_peer(|rig, step| match step {
        0 => rig.on(0).start(),
        1 | 3 => rig.on(0).die(9),
        2 => rig.on(0).spawn(),
        _ => {}
    });
    assert_eq!(alone, exhausts);
    let closes = quiet_peer(|rig, step| match step {
        0 => rig.on(0).start(),
        1 => rig.on(0).close(),
        3 => rig.on(0).die(0),
        4 => {
            let id = rig.on(0).id();
            rig.sup.remove(id).unwrap();
        }
        _ => {}
    });
    assert_eq!(alone, closes);
}

#[test]
fn l17_a_full_queue_of_one_peer_stops_only_its_own_reading() {
    let mut small = policy();
    small.limits.event_queue = 1;
    let mut rig = Rig::with(&[small, policy()], Level::Server);
    rig.on(0).start();
    rig.on(1).start();
    rig.on(0).out("a");
    assert!(!rig.sup.wants_stdout(0) && rig.sup.wants_stdout(1));
}

#[test]
fn l17_id_and_user_data_stay_across_lives() {
    let mut rig = running(2);
    let id = rig.on(1).id();
    for _ in 0..3 {
        rig.on(1).next_life();
    }
    assert_eq!((rig.id(), rig.slot()), (id, 1));
    rig.out("a");
    assert_eq!(rig.take(), "1 M a", "the user data is 1");
}

#[test]
fn l18_every_peer_is_closed_as_by_close_and_then_the_handle_says_so() {
    let mut rig = running(3);
    rig.on(2).die(1);
    rig.on(1).out("a");
    rig.take();
    rig.acts();
    rig.shutdown(10_000);
    assert_eq!(rig.take(), "0 D, 1 D, 2 C withdrawn!");
    assert_eq!(rig.take(), "");
    rig.begin_poll();
    assert_eq!(rig.on(0).state(), StateName::Closing);
    rig.on(1).out("last");
    rig.on(1).die(0);
    assert_eq!(rig.poll(), "1 M last, 1 C asked exit=0!");
    rig.on(0).die(0);
    assert!(rig.sup.has_work());
    assert_eq!(rig.poll(), "0 C asked exit=0!, SHUTDOWN!");
    assert!(!rig.sup.has_work());
    assert_eq!(rig.poll(), "", "once");
    assert_eq!(rig.deadline(), None, "nobody is left to kill");
}

#[test]
fn l18_close_works_the_same_from_every_state() {
    for (name, _, way) in STATES {
        let (mut closed, mut shut) = (way(), way());
        closed.close();
        shut.shutdown(3_600_000);
        assert_eq!(shut.state(), closed.state(), "{name}");
        assert_eq!(shut.acts(), closed.acts(), "{name}");
        let (told, expected) = (shut.take(), closed.take());
        let told = told.trim_end_matches("SHUTDOWN!").trim_end_matches(", ");
        assert_eq!(told, expected, "{name}");
    }
}

#[test]
fn l18_start_and_add_answer_closed() {
    let mut rig = Rig::with(&[policy(), policy()], Level::Server);
    rig.on(0).start();
    rig.shutdown(0);
    assert_eq!(short(&rig.sup.add(policy(), 0).unwrap_err()), "CLOSED");
    for peer in 0..2 {
        let id = rig.on(peer).id();
        assert_eq!(short(&rig.sup.may_start(id).unwrap_err()), "CLOSED");
    }
}

#[test]
fn l18_a_handle_without_peers_is_shut_down_at_once() {
    let mut rig = Rig::with(&[], Level::Server);
    assert_eq!(rig.take(), "");
    rig.shutdown(1_000);
    assert!(rig.sup.has_work());
    assert_eq!(rig.take(), "SHUTDOWN!");
    rig.shutdown(1_000);
    assert_eq!(rig.poll(), "");
    assert_eq!(rig.sup.next_deadline(), None);
}

#[test]
fn l18_removed_and_closed_peers_are_not_waited_for() {
    let mut rig = Rig::with(&[policy(), policy()], Level::Server);
    let idle = rig.on(0).id();
    rig.sup.remove(idle).unwrap();
    rig.on(1).close();
    assert_eq!(rig.take(), "1 D, 1 C asked!");
    let gone = rig.on(1).id();
    rig.sup.remove(gone).unwrap();
    rig.shutdown(1_000);
    assert_eq!(rig.take(), "SHUTDOWN!");
}

#[test]
fn l18_what_is_left_after_the_grace_is_killed_once() {
    let mut rig = Rig::with(&vec![policy(); 4], Level::Server);
    for peer in 0..4 {
        rig.on(peer).start();
    }
    rig.on(0).send("stuck").unwrap();
    rig.on(1).stdin_gone(0);
    rig.on(2).exit(0, 10);
    rig.on(3).die(0);
    rig.take();
    rig.acts();
    rig.shutdown(100);
    rig.advance(99);
    assert_eq!(rig.acts(), "");
    rig.advance(1);
    // Peer 0 never had its D taken: it goes on all the same. Peer 2 is gone already, and only its output is waited for.
    assert_eq!(rig.acts(), "0 Serve, 0 Kill, 1 Kill");
    assert_eq!(rig.on(0).state(), StateName::Closing);
    rig.on(0).die(9);
    rig.on(1).die(9);
    rig.on(2).out("a");
    rig.on(2).eof();
    let told = rig.poll();
    assert!(told.starts_with("0 D, "), "{told}");
    assert!(told.ends_with(", SHUTDOWN!"), "{told}");
    for last in ["0 C asked exit=9 unread=1!", "1 C lost exit=9!", "2 C lost exit=0!", "3 C withdrawn!"] {
        assert!(told.contains(last), "{last} in {told}");
    }
    rig.advance(3_600_000);
    assert!(!rig.acts().contains("Kill"));
}

#[test]
fn l18_a_host_that_never_takes_its_events_still_loses_its_children() {
    let mut rig = running(2);
    rig.acts();
    rig.shutdown(0);
    assert_eq!(rig.deadline(), Some(0));
    rig.begin_poll();
    assert_eq!(rig.acts(), "0 CloseStdin, 0 Kill, 1 CloseStdin, 1 Kill");
}

#[test]
fn l18_a_second_shutdown_can_only_come_sooner() {
    for (second, left) in [(5_000, 1_000), (300, 300)] {
        let mut rig = running(1);
        rig.shutdown(1_000);
        rig.shutdown(second);
        assert_eq!(rig.deadline(), Some(left));
        rig.advance(left);
        assert_eq!(rig.acts().matches("Kill").count(), 1);
        rig.shutdown(0);
        rig.begin_poll();
        assert!(!rig.acts().contains("Kill"), "it was killed before");
    }
}

#[test]
fn l18_an_endless_grace_never_kills() {
    let mut rig = running(1);
    rig.sup.shutdown(rig.now, u64::MAX);
    assert_eq!(rig.sup.next_deadline(), None);
    // The ordinary ladder is all there is.
    rig.poll();
    rig.begin_poll();
    rig.advance(3_600_000);
    assert_eq!(rig.acts(), "CloseStdin, Terminate, Kill");
}

#[test]
fn l18_nobody_is_respawned_after_the_call() {
    let mut rig = Rig::with(&vec![slow_policy(); 3], Level::Server);
    for peer in 0..3 {
        rig.on(peer).start();
    }
    rig.on(0).serves();
    rig.on(0).exit(0, 10);
    rig.on(1).die(0);
    rig.advance(100);
    rig.acts();
    rig.shutdown(1_000);
    rig.on(0).out("a");
    rig.on(0).eof();
    rig.advance(3_600_000);
    assert!(!rig.acts().contains("Spawn"));
    assert!(!rig.sup.wants_spawn(1), "the order to spawn is void");
}

#[test]
fn l18_shutdown_of_a_fresh_supervisor_counts_what_is_added_before() {
    let mut sup = Supervisor::new(Level::Server);
    let id = sup.add(policy(), 0).unwrap();
    sup.shutdown(ms(1), ms(1));
    assert_eq!(sup.state(id), Ok(StateName::Closed));
    assert!(sup.next_event().is_some() && sup.next_event().is_some());
    assert!(sup.has_event(), "SHUTDOWN comes after C");
    assert!(sup.next_event().is_some());
    assert!(!sup.has_event());
}
