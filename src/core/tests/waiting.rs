//! What waits for the first connection to serve (table L, L2, L10), and which lost requests nobody can have read (L19).

use super::caller::{Caller, retrying};
use super::harness::slow_policy;
use crate::core::budget::MaxRestarts;
use crate::core::connection::StdinReport;
use crate::core::event::Exit;
use crate::core::peer::StateName;
use crate::core::policy::Policy;
use crate::core::time::ms;

fn slow_retrying() -> Policy {
    Policy { serves_at_once: false, ..retrying() }
}

#[test]
fn l_starting_what_waits_is_written_in_order_when_the_connection_serves() {
    let mut caller = Caller::started(slow_policy());
    caller.call("tools/call");
    caller.notify("a").unwrap();
    caller.listen();
    caller.call("tools/list");
    caller.notify("b").unwrap();
    assert_eq!((caller.queued(), caller.deadline()), (0, Some(20_000)), "nothing is on its way; start_timeout");
    caller.serves();
    assert_eq!(caller.take(), "READY 1");
    assert_eq!(caller.reads(), "#1 tools/call, note a, #2 subscriptions/listen, #3 tools/list, note b");
    for id in 1..=3 {
        caller.answers(id);
    }
    assert_eq!(caller.take(), "M result #1 complete, M result #2 complete, M result #3 complete", "no RETRIED");
}

#[test]
fn l_starting_deadlines_run_and_nothing_is_sent_for_them() {
    let mut caller = Caller::started(slow_policy());
    caller.ask_timed("tools/call", Some(ms(10)), None);
    caller.call("tools/list");
    caller.advance(10);
    assert_eq!(caller.take(), "E timeout #1 complete");
    caller.serves();
    assert_eq!(caller.reads(), "#2 tools/list");
}

#[test]
fn l_starting_cancel_frees_without_sending() {
    let mut caller = Caller::started(slow_policy());
    let (request, stream) = (caller.call("tools/call"), caller.listen());
    caller.cancel(stream).unwrap();
    caller.cancel(request).unwrap();
    assert_eq!(caller.take(), "E cancelled #2 complete, E cancelled #1 complete");
    caller.serves();
    assert_eq!((caller.take().as_str(), caller.reads().as_str()), ("READY 1", ""));
}

#[test]
fn l02_what_waited_is_lost_or_retained_like_what_was_written_and_notifications_are_gone() {
    let mut caller = Caller::started(slow_policy());
    caller.call("tools/list");
    caller.notify("a").unwrap();
    let stream = caller.listen();
    caller.die(1);
    assert_eq!(
        caller.take(),
        "D, C lost exit=1 ->1, E closed #1 complete unread",
        "of the notification nothing is told"
    );
    assert_eq!(caller.cancel(1), Err("NO_REQUEST"));
    caller.advance(100);
    caller.spawn();
    caller.serves();
    assert_eq!((caller.take(), caller.reads()), ("R 2".to_owned(), format!("#{stream} subscriptions/listen")));

    let mut caller = Caller::started(slow_retrying());
    caller.call("tools/call");
    caller.call("tools/list");
    caller.die(1);
    assert_eq!(caller.take(), "D, C lost exit=1 ->1, E closed #1 complete unread");
    caller.advance(100);
    caller.spawn();
    caller.serves();
    assert_eq!(caller.reads(), "#2 tools/list");
}

#[test]
fn l10_close_while_starting_never_writes_what_waited() {
    let mut caller = Caller::started(slow_retrying());
    caller.call("tools/list");
    caller.notify("a").unwrap();
    caller.listen();
    caller.close();
    assert_eq!(caller.state(), StateName::Closing);
    assert_eq!(caller.queued(), 0);
    caller.serves();
    caller.die(0);
    assert_eq!(caller.take(), "D, C asked exit=0, E closed #1 complete unread, E closed #2 complete!");
    assert!(caller.sup.peer(caller.id()).unwrap().holds_nothing());
}

#[test]
fn l12_a_first_life_that_spends_the_budget_ends_what_waited() {
    let mut caller = Caller::started(Policy { max_restarts: MaxRestarts::NoRestart, ..slow_retrying() });
    caller.call("tools/list");
    caller.call("tools/call");
    caller.listen();
    caller.die(1);
    let told = caller.take();
    assert_eq!(
        told,
        "D, C lost exit=1, E exhausted #1 complete unread, E closed #2 complete unread, E exhausted #3 complete, X 0!"
    );
}

/// One WRITABLE follows each E_WOULD_BLOCK (F4, R12), also for what was refused before the connection served.
#[test]
fn f04_a_refusal_while_starting_is_followed_by_writable() {
    let mut policy = slow_policy();
    policy.client.max_in_flight = 2;
    let mut caller = Caller::started(policy.clone());
    caller.call("tools/call");
    caller.call("tools/call");
    assert_eq!(caller.ask("tools/call", "{}"), Err("TOO_MANY"));
    caller.cancel(1).unwrap();
    assert_eq!(caller.take(), "E cancelled #1 complete, W");

    caller.call("tools/call");
    assert_eq!(caller.ask("tools/call", "{}"), Err("TOO_MANY"));
    caller.serves();
    caller.reads();
    assert_eq!(caller.take(), "READY 1");
    caller.answers(2);
    assert_eq!(caller.take(), "M result #2 complete, W");

    policy.client.max_in_flight = 100;
    policy.limits.outbound_bytes = 500;
    let mut caller = Caller::started(policy);
    caller.call("tools/call");
    caller.call("tools/call");
    assert_eq!(caller.ask("tools/call", "{}"), Err("WOULD_BLOCK"));
    assert_eq!(caller.notify("a").err(), None, "a short line still fits");
    assert_eq!(caller.take(), "");
    caller.serves();
    assert_eq!(caller.take(), "READY 1", "everything waits still");
    caller.reads();
    assert_eq!(caller.take(), "W");
}

/// What is cancelled before the connection serves gives its bytes back.
#[test]
fn f04_cancelled_requests_that_waited_take_no_room() {
    let mut policy = slow_policy();
    policy.limits.outbound_bytes = 600;
    let mut caller = Caller::started(policy.clone());
    for _ in 0..3 {
        caller.call("tools/call");
    }
    assert_eq!(caller.ask("tools/call", "{}"), Err("WOULD_BLOCK"));
    caller.cancel(1).unwrap();
    assert_eq!(caller.take(), "E cancelled #1 complete", "two of three are more than half");
    caller.cancel(2).unwrap();
    assert_eq!(caller.take(), "E cancelled #2 complete, W");

    policy.limits.outbound_bytes = 500;
    let mut caller = Caller::started(policy);
    for _ in 0..10 {
        let (a, b) = (caller.call("tools/call"), caller.listen());
        assert_eq!(caller.ask("tools/call", "{}"), Err("WOULD_BLOCK"));
        caller.cancel(a).unwrap();
        caller.cancel(b).unwrap();
        assert_eq!(caller.take().matches('W').count(), 1);
    }
}

// ---- L19 ----

fn report(unread: u64) -> Option<StdinReport> {
    Some(StdinReport { unread, hung_up: true })
}

#[test]
fn l19_a_lost_request_is_unread_if_no_byte_of_it_can_have_been_read() {
    let mut caller = Caller::started(super::harness::policy());
    caller.call("tools/call");
    let first = caller.queued() as u64;
    caller.call("tools/call");
    let both = caller.queued() as u64;
    // Bytes written, bytes that lay in the pipe; which of the two requests are unread.
    let cases = [
        (0, report(0), [true, true]),
        (1, report(0), [false, true]),
        (1, report(1), [true, true]),
        (first, report(0), [false, true]),
        (first, report(first - 1), [false, true]),
        (first, report(first), [true, true]),
        (first + 1, report(0), [false, false]),
        (first + 1, report(1), [false, true]),
        (both, report(0), [false, false]),
        (both, report(both - first), [false, true]),
        (both, report(both - first - 1), [false, false]),
        (both, report(both), [true, true]),
        (both, None, [false, false]),
    ];
    for (written, stdin, unread) in cases {
        let mut caller = Caller::started(super::harness::policy());
        caller.call("tools/call");
        caller.call("tools/call");
        caller.wrote_bytes(written as usize);
        caller.exit_with(Exit::Code(0), 0, 0, stdin);
        caller.eof();
        let told = caller.take();
        let expected: Vec<String> = (1..=2)
            .zip(unread)
            .map(|(id, unread)| format!("E closed #{id} complete{}", if unread { " unread" } else { "" }))
            .collect();
        assert!(told.ends_with(&expected.join(", ")), "{written} written, {stdin:?}: {told}");
    }
}

#[test]
fn l19_asked_ends_tell_it_too() {
    let mut caller = Caller::started(super::harness::policy());
    caller.call("tools/call");
    caller.reads();
    caller.call("tools/call");
    caller.close();
    caller.poll();
    caller.die(0);
    assert_eq!(caller.take(), "C asked exit=0 unread=2, E closed #1 complete, E closed #2 complete unread!");
}

/// Our end is kept until the readers are gone, whatever the host cancels meanwhile.
#[test]
fn l19_a_cancel_while_the_hang_up_is_awaited_takes_nothing_from_the_others() {
    let mut caller = Caller::started(super::harness::policy());
    for _ in 0..3 {
        caller.call("tools/call");
    }
    let length = caller.queued() / 3;
    caller.reads_bytes(2 * length);
    caller.close();
    caller.poll();
    caller.begin_poll();
    caller.exit_with(Exit::Code(0), 0, 0, Some(StdinReport { unread: length as u64, hung_up: false }));
    caller.eof();
    assert!(!caller.acts().contains("CloseStdin"));
    caller.cancel(3).unwrap();
    assert_eq!(caller.acts(), "", "our end can still tell what was not read");
    caller.stdin_gone(length as u64);
    assert_eq!(
        caller.take(),
        "E cancelled #3 complete, C asked exit=0 unread=2, E closed #1 complete, E closed #2 complete unread!"
    );
}

/// Somebody may have read the first of its lines.
#[test]
fn l19_what_was_written_twice_is_never_unread() {
    let mut policy = retrying();
    policy.max_restarts = MaxRestarts::Limited(1);
    let mut caller = Caller::started(policy);
    caller.call("tools/list");
    caller.reads();
    caller.dies_and_returns();
    assert!(caller.queued() > 0, "it was not written again yet");
    caller.die(0);
    assert_eq!(caller.take(), "D, C lost exit=0 unread=2, E exhausted #1 complete retried, X 1!");

    // R8: the line that the server refused was read.
    let mut caller = Caller::started(super::harness::policy());
    let id = caller.call("tools/call");
    caller.reads();
    caller.errs_version(id, &["2026-07-28"]);
    assert!(caller.queued() > 0);
    caller.die(0);
    assert_eq!(caller.take(), "D, C lost exit=0 ->1 unread=2, E closed #1 complete");
}
