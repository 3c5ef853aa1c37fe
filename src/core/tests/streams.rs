//! Rules S1 to S6 and F3: streams, and what a host loses that asked for it.

use serde_json::json;

use super::caller::{Caller, SUBSCRIPTION, with_client};
use super::harness::policy;
use crate::core::budget::MaxRestarts;
use crate::core::peer::StateName;
use crate::core::policy::Policy;
use crate::core::time::NEVER;

const ACK: &str = "M notifications/subscriptions/acknowledged";

/// One open, acknowledged stream with the id 1.
fn open(policy: Policy) -> Caller {
    let mut caller = Caller::started(policy);
    let stream = caller.listen();
    caller.reads();
    caller.acknowledges(stream);
    assert_eq!(caller.take(), format!("{ACK} #{stream}"));
    caller
}

#[test]
fn s01_the_stream_id_is_the_id_of_the_listen_request_and_never_changes() {
    let mut caller = Caller::started(policy());
    caller.call("tools/call");
    assert_eq!(caller.listen(), 2);
    let first = caller.reads_whole()[1].clone();
    assert!(first.contains(r#""id":2,"method":"subscriptions/listen""#), "{first}");
    assert!(first.ends_with(r#""notifications":{"toolsListChanged":true}}}"#), "{first}");
    for _ in 0..3 {
        caller.dies_and_returns();
        assert_eq!(caller.reads_whole(), std::slice::from_ref(&first), "S3: the same filter under the same id");
    }
}

#[test]
fn s02_notifications_are_routed_by_the_id_as_an_integer_or_as_a_string() {
    let mut caller = Caller::started(policy());
    let (a, b) = (caller.listen(), caller.listen());
    caller.reads();
    for stream in [json!(a), json!(a.to_string()), json!(b), json!(b.to_string())] {
        let id = stream.to_string().replace('"', "");
        caller.delivers(stream.clone(), "notifications/tools/list_changed");
        assert_eq!(caller.take(), format!("M notifications/tools/list_changed #{id}"), "{stream}");
    }
    for foreign in [json!(0), json!(3), json!("01"), json!("x"), json!(1.0), json!(null), json!(-1)] {
        caller.delivers(foreign.clone(), "a");
        assert_eq!(caller.take(), "M a", "{foreign}: others belong to nothing");
    }
    caller.out("b");
    assert_eq!(caller.take(), "M b");
    // Not at its place.
    caller.says(&json!({"jsonrpc": "2.0", "method": "c", "params": {SUBSCRIPTION: 1}}));
    assert_eq!(caller.take(), "M c");
}

#[test]
fn s02_a_stream_that_ended_has_no_route() {
    let mut caller = open(policy());
    caller.cancel(1).unwrap();
    caller.delivers(1, "a");
    assert_eq!(caller.take(), "E cancelled #1 complete, M a");
}

#[test]
fn s02_the_acknowledgement_of_each_opening_is_delivered() {
    let mut caller = open(policy());
    for _ in 0..3 {
        caller.dies_and_returns();
        caller.reads();
        caller.acknowledges("1");
        caller.delivers(1, "a");
        assert_eq!(caller.take(), format!("{ACK} #1, M a #1"), "S3: routes survive");
    }
}

#[test]
fn s02_no_acknowledgement_within_the_idle_time_is_a_warning() {
    let mut caller = Caller::logging(with_client(|client| client.idle_timeout = 5_000_000));
    let (a, b, c) = (caller.listen(), caller.listen(), caller.listen());
    caller.reads();
    caller.acknowledges(a);
    caller.cancel(c).unwrap();
    caller.take();
    caller.advance(4);
    assert_eq!(caller.take(), "");
    caller.advance(1);
    assert_eq!(caller.take(), format!("LOG stream {b} was not acknowledged by the server"));
    caller.advance(1_000_000);
    assert_eq!(caller.take(), "", "once, and S6: nothing else ends a stream");
    caller.dies_and_returns();
    caller.advance(5);
    assert_eq!(caller.take().matches("LOG stream").count(), 2, "each opening is waited for");

    let mut caller = Caller::logging(with_client(|client| client.idle_timeout = NEVER));
    caller.listen();
    assert_eq!(caller.deadline(), None);
}

#[test]
fn s03_a_restart_is_absorbed() {
    let mut caller = open(policy());
    caller.die(0);
    assert_eq!(caller.take(), "D, C lost exit=0 ->1", "nothing is told of the stream");
    assert_eq!(caller.in_flight(), 1);
    caller.advance(100);
    caller.spawn();
    assert_eq!((caller.take().as_str(), caller.reads().as_str()), ("R 2", "#1 subscriptions/listen"));
}

#[test]
fn s04_an_answer_ends_the_stream_and_is_never_replayed() {
    for as_string in [false, true] {
        let id = if as_string { json!("1") } else { json!(1) };
        let mut caller = open(policy());
        caller.answers(id.clone());
        assert_eq!(caller.take(), "M result #1 complete", "graceful");
        caller.dies_and_returns();
        assert_eq!(caller.reads(), "");
        // Refusals, acknowledged before or not.
        for (acknowledged, code) in [(false, -32603), (true, -32603), (false, -32000), (false, -32019), (true, -32020)]
        {
            let mut caller = Caller::started(policy());
            caller.listen();
            caller.reads();
            if acknowledged {
                caller.acknowledges(1);
                caller.take();
            }
            caller.errs(id.clone(), code);
            assert_eq!(caller.take(), format!("M error {code} #1 complete"));
            let told = caller.dies_and_returns();
            assert_eq!((told.as_str(), caller.reads().as_str()), ("D, C lost exit=0 ->1, R 2", ""));
        }
    }
}

#[test]
fn s04_a_stream_that_the_server_cancels_ends_and_a_result_after_it_is_dropped_in_silence() {
    for id in [json!(1), json!("1")] {
        let mut caller = Caller::logging(policy());
        caller.listen();
        caller.reads();
        caller.cancels(id);
        caller.answers(1);
        assert_eq!(caller.take(), "E cancelled #1 complete by-peer");
        assert_eq!(caller.reads(), "", "nothing is written back");
        caller.answers(1);
        assert_eq!(caller.take(), "LOG dropped a late answer to request 1", "one result, not any number of them");
        let told = caller.dies_and_returns();
        assert!(told.ends_with("R 2"), "{told}");
        assert_eq!(caller.reads(), "");
    }
}

/// Only for a stream: a request is not the server's to cancel, and what is no stream of ours is the host's to read.
#[test]
fn s04_a_cancellation_of_anything_else_is_a_message() {
    let mut caller = Caller::started(policy());
    caller.call("tools/call");
    for id in [json!(1), json!(7), json!("x"), json!(null)] {
        caller.cancels(id);
        assert_eq!(caller.take(), "M notifications/cancelled");
    }
    assert_eq!(caller.in_flight(), 1);
}

#[test]
fn s04_an_error_of_an_acknowledged_stream_is_held_and_is_the_completion_if_nobody_dies() {
    for code in [-32000, -32019] {
        let mut caller = open(policy());
        caller.errs(1, code);
        assert_eq!((caller.take().as_str(), caller.deadline()), ("", Some(250)));
        caller.advance(249);
        assert_eq!(caller.take(), "");
        caller.advance(1);
        assert_eq!(caller.take(), format!("M error {code} #1 complete"));
        assert_eq!(caller.reads(), "");
        assert_eq!(caller.in_flight(), 0);
    }
}

#[test]
fn s04_a_held_error_is_a_loss_if_a_death_signal_comes_in_that_time() {
    type Death = fn(&mut Caller);
    let deaths: [(&str, Death); 4] = [
        ("exit", |caller| caller.exit(0, 0)),
        ("eof", |caller| caller.eof()),
        ("stdin", |caller| caller.stdin_gone(0)),
        ("read error", |caller| caller.stdout_ends(Some("bad"), None)),
    ];
    for (name, death) in deaths {
        for after in [0, 100, 249] {
            let mut caller = open(policy());
            caller.errs(1, -32000);
            caller.advance(after);
            death(&mut caller);
            // However long the rest of its end takes: a child of its own may hold the pipe.
            caller.advance(240);
            caller.exit(0, 0);
            caller.eof();
            let told = caller.take();
            assert!(!told.contains("complete"), "{name} after {after}: {told}");
            caller.returns();
            assert_eq!(caller.reads(), "#1 subscriptions/listen", "{name} after {after}");
        }
    }
}

/// One that is read behind the death signal was written while it died.
#[test]
fn s04_an_error_in_the_last_lines_of_the_dead_is_a_loss() {
    let mut caller = open(policy());
    caller.exit(0, 500);
    assert_eq!(caller.state(), StateName::Ending);
    caller.errs(1, -32000);
    // What is owed of its output is not read yet, so its end takes longer than such an error would be held.
    caller.advance(1_000);
    assert_eq!((caller.state(), caller.in_flight()), (StateName::Ending, 1));
    caller.eof();
    assert_eq!(caller.returns(), "D, C lost exit=0 ->1, R 2");
    assert_eq!(caller.reads(), "#1 subscriptions/listen");
    // Every other error is the server's word.
    let mut caller = open(policy());
    caller.exit(0, 500);
    caller.errs(1, -32603);
    caller.eof();
    assert_eq!(caller.take(), "M error -32603 #1 complete, D, C lost exit=0 ->1");
}

/// What was acknowledged by a server that is gone says nothing of this one: its error is a refusal.
#[test]
fn s04_a_reopened_stream_is_not_acknowledged_yet() {
    let mut caller = open(policy());
    caller.dies_and_returns();
    caller.reads();
    caller.errs(1, -32000);
    assert_eq!(caller.take(), "M error -32000 #1 complete");
}

#[test]
fn s04_what_happens_to_a_stream_while_its_error_is_held() {
    let mut caller = open(policy());
    caller.errs(1, -32000);
    caller.delivers(1, "a");
    assert_eq!(caller.take(), "M a #1");
    caller.cancel(1).unwrap();
    assert_eq!(caller.poll(), "E cancelled #1 complete");
    assert_eq!(caller.sup.peer(caller.id()).unwrap().pinned(), 0, "the error is let go of");
    caller.advance(1_000);
    assert_eq!(caller.take(), "");

    let mut caller = open(policy());
    caller.errs(1, -32000);
    caller.errs(1, -32001);
    caller.answers(1);
    assert_eq!(caller.take(), "M result #1 complete");
    caller.advance(1_000);
    assert_eq!(caller.take(), "");
    assert!(caller.sup.peer(caller.id()).unwrap().holds_nothing());
}

#[test]
fn s05_cancel_while_down_sends_nothing_and_opens_nothing() {
    let mut caller = open(policy());
    caller.die(0);
    caller.take();
    caller.cancel(1).unwrap();
    assert_eq!(caller.take(), "E cancelled #1 complete");
    caller.advance(100);
    caller.spawn();
    assert_eq!((caller.take().as_str(), caller.reads().as_str()), ("R 2", ""));
}

#[test]
fn s05_exhausted_and_closed() {
    let mut caller = open(Policy { max_restarts: MaxRestarts::NoRestart, ..policy() });
    caller.die(0);
    assert_eq!(caller.take(), "D, C lost exit=0, E exhausted #1 complete, X 0!");
    let mut caller = open(policy());
    caller.close();
    caller.die(0);
    assert_eq!(caller.take(), "D, C asked exit=0, E closed #1 complete!");
}

#[test]
fn s06_no_deadline_applies_to_a_stream() {
    let mut caller = open(policy());
    caller.advance(1_000_000_000);
    assert_eq!((caller.take().as_str(), caller.deadline()), ("", None));
    assert_eq!(caller.in_flight(), 1);
}

#[test]
fn r08_a_stream_is_opened_again_with_a_version_both_speak_once() {
    let mut caller = Caller::started(policy());
    caller.listen();
    caller.reads();
    caller.errs_version(1, &["2026-07-28"]);
    assert_eq!((caller.take().as_str(), caller.reads().as_str()), ("", "#1 subscriptions/listen"));
    caller.errs_version(1, &["2026-07-28"]);
    assert_eq!(caller.take(), "M error -32022 #1 complete");
}

// ---- F3 ----

fn shedding() -> Policy {
    let mut policy = with_client(|client| client.shed = true);
    policy.limits.event_queue = 2;
    policy
}

#[test]
fn f03_past_the_queue_notifications_are_dropped_and_answers_are_not() {
    let mut caller = Caller::logging(shedding());
    for _ in 0..4 {
        caller.call("tools/call");
    }
    caller.reads();
    caller.out("a");
    caller.out("b");
    for _ in 0..201 {
        caller.out("dropped");
    }
    caller.answers(1);
    caller.errs(2, -32603);
    caller.feed(b"nonsense\n");
    let told = caller.take();
    assert_eq!(told.matches("LOG dropped a notification").count(), 3, "the first, the 100th and the 200th: {told}");
    assert!(told.starts_with("M a, M b, LOG"), "{told}");
    assert!(told.ends_with("M result #1 complete, M error -32603 #2 complete, E malformed life=1"), "{told}");
    caller.out("c");
    assert_eq!(caller.take(), "M c", "there is room again");
}

#[test]
fn f03_a_shed_delivery_ends_its_stream_and_tells_the_server() {
    let mut caller = Caller::started(shedding());
    let (a, b) = (caller.listen(), caller.listen());
    caller.reads();
    caller.delivers(a, "x");
    caller.delivers(b, "y");
    caller.delivers(a, "z");
    assert_eq!(caller.reads(), format!("cancel {a}"));
    assert_eq!(caller.take(), "M x #1, M y #2, E deliverydropped #1 complete");
    assert_eq!(caller.in_flight(), 1);
    let told = caller.dies_and_returns();
    assert_eq!((told.as_str(), caller.reads().as_str()), ("D, C lost exit=0 ->1, R 2", "#2 subscriptions/listen"));
}

#[test]
fn f03_shed_progress_still_keeps_its_request_alive() {
    let mut caller = Caller::started(shedding());
    caller.ask("tools/call", r#"{"_meta":{"progressToken":1}}"#).unwrap();
    caller.reads();
    caller.out("a");
    caller.out("b");
    caller.advance(40_000);
    caller.progresses(1);
    caller.advance(59_999);
    assert_eq!(caller.take(), "M a, M b");
    caller.advance(1);
    assert_eq!(caller.take(), "E timeout #1 complete");
}

#[test]
fn f03_without_it_the_server_waits_and_nothing_is_lost() {
    let mut policy = policy();
    policy.limits.event_queue = 2;
    let mut caller = Caller::started(policy);
    caller.listen();
    caller.reads();
    for _ in 0..2 {
        caller.delivers(1, "x");
    }
    assert_eq!(caller.feed(b"{\"jsonrpc\":\"2.0\",\"method\":\"y\"}\n"), 0);
    assert_eq!(caller.poll(), "M x #1, M x #1");
    assert_eq!(caller.in_flight(), 1);
}
