//! Rules T1 to T7, and the orders of completions in L2, L8, L9, L12, L13 and L16.

use super::caller::{Caller, retrying};
use super::harness::policy;
use crate::core::budget::MaxRestarts;
use crate::core::client::Options;
use crate::core::peer::StateName;
use crate::core::policy::Policy;
use crate::core::time::{NEVER, ms};

fn once() -> Policy {
    Policy { max_restarts: MaxRestarts::Limited(1), ..retrying() }
}

/// Two requests that survive around one that does not, and two streams, all of them read.
fn busy(policy: Policy) -> Caller {
    let mut caller = Caller::started(policy);
    caller.listen();
    caller.call("tools/list");
    caller.call("tools/call");
    caller.listen();
    caller.call("prompts/get");
    caller.reads();
    caller
}

#[test]
fn t01_the_eligible_set() {
    let eligible = [
        "server/discover",
        "tools/list",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "completion/complete",
    ];
    let never = ["tools/call", "vendor/x", "Tools/list", "tools/list/", "ping", "initialize", "resources/subscribe"];
    let mut caller = Caller::started(retrying());
    for method in eligible.into_iter().chain(never) {
        caller.call(method);
    }
    caller.reads();
    caller.die(0);
    let told = caller.take();
    let lost: Vec<String> = (9..=15).map(|id| format!("E closed #{id} complete")).collect();
    assert_eq!(told, format!("D, C lost exit=0 ->1, {}", lost.join(", ")));
    caller.advance(100);
    caller.spawn();
    let again: Vec<String> = eligible.iter().zip(1..).map(|(method, id)| format!("#{id} {method}")).collect();
    assert_eq!(caller.reads(), again.join(", "));
}

#[test]
fn t01_nothing_is_retried_unless_asked_for() {
    let mut caller = busy(policy());
    caller.die(0);
    assert_eq!(caller.take(), "D, C lost exit=0 ->1, E closed #2 complete, E closed #3 complete, E closed #5 complete");
}

#[test]
fn t01_continuations_are_never_sent_again() {
    let mut caller = Caller::started(retrying());
    for params in [
        r#"{"inputResponses":{}}"#,
        r#"{"requestState":"s"}"#,
        r#"{"requestState":""}"#,
        r#"{"\u0069nputResponses":[]}"#,
        r#"{"inputResponses":null,"requestState":null}"#,
        r#"{"x":{"requestState":"s"}}"#,
    ] {
        caller.ask("prompts/get", params).unwrap();
    }
    caller.reads();
    let told = caller.dies_and_returns();
    assert_eq!(
        told,
        "D, C lost exit=0 ->1, E closed #1 complete, E closed #2 complete, E closed #3 complete, E closed #4 complete, R 2"
    );
    assert_eq!(caller.reads(), "#5 prompts/get, #6 prompts/get");
}

#[test]
fn t02_the_same_line_byte_for_byte() {
    let mut policy = retrying();
    policy.client.client_info = Some(r#"{"name":"t","version":"1"}"#.to_owned());
    let mut caller = Caller::started(policy);
    caller
        .ask("resources/read", "{\"uri\":\"a\\/b\",\n\"n\":1.10,\"_meta\":{\"x\":[1.0],\"progressToken\":\"t\"}}")
        .unwrap();
    caller.ask_with("tools/list", r#"{"cursor":null}"#, Options { progress: true, ..Options::default() }).unwrap();
    caller
        .ask_with("tools/list", r#"{"_meta":{"y":2}}"#, Options { meta_verbatim: true, ..Options::default() })
        .unwrap();
    caller.listen();
    let first = caller.reads_whole();
    assert_eq!(first.len(), 4);
    for _ in 0..3 {
        caller.dies_and_returns();
        assert_eq!(caller.reads_whole(), first);
    }
    // The tokens are those of the same requests still.
    caller.progresses("t");
    caller.progresses("progress-2");
    assert_eq!(caller.take(), "M notifications/progress #1, M notifications/progress #2");
}

#[test]
fn t03_requests_then_streams_then_reconnect() {
    let mut caller = busy(retrying());
    let told = caller.dies_and_returns();
    assert_eq!(told, "D, C lost exit=0 ->1, E closed #3 complete, R 2");
    let line = "#2 tools/list, #5 prompts/get, #1 subscriptions/listen, #4 subscriptions/listen";
    caller.call("tools/call");
    assert_eq!(caller.reads(), format!("{line}, #6 tools/call"), "what the host sends after R comes behind");
}

#[test]
fn t04_a_first_send_that_is_refused_is_never_retained() {
    let mut policy = retrying();
    policy.client.max_in_flight = 1;
    let mut caller = Caller::started(policy);
    caller.call("tools/list");
    assert_eq!(caller.ask("tools/list", "{}"), Err("TOO_MANY"));
    assert_eq!(caller.ask("tools/list", "[]"), Err("INVALID"));
    caller.reads();
    caller.die(0);
    assert_eq!(caller.ask("tools/list", "{}"), Err("CLOSED"));
    caller.returns();
    assert_eq!(caller.reads(), "#1 tools/list");
    assert_eq!(caller.in_flight(), 1);
}

/// A re-send that the replacement dies under, written or not: LOG, and the next replacement gets it.
#[test]
fn t04_a_re_send_that_is_lost_again_stays_retained() {
    for written in [true, false] {
        let mut caller = Caller::logging(Policy { max_restarts: MaxRestarts::Unlimited, ..retrying() });
        caller.call("tools/list");
        caller.listen();
        caller.reads();
        let told = caller.dies_and_returns();
        assert!(!told.contains("sent again"), "{told}");
        for life in 3..6 {
            if written {
                caller.reads();
            }
            let told = caller.dies_and_returns();
            assert!(told.ends_with(&format!("R {life}")), "{told}");
            assert!(!told.contains("complete"), "{told}");
            assert_eq!(told.matches("LOG request 1 was sent again").count(), 1, "{told}");
            assert_eq!(told.matches("LOG stream 2 was opened again").count(), 1, "{told}");
        }
        assert_eq!(caller.reads(), "#1 tools/list, #2 subscriptions/listen");
        caller.answers(1);
        assert_eq!(caller.take(), "M result #1 complete retried");
    }
}

#[test]
fn t04_replacements_that_cannot_be_spawned_keep_what_is_retained() {
    let mut caller = busy(retrying());
    caller.die(0);
    caller.advance(100);
    caller.spawn_fails();
    caller.advance(100);
    caller.spawn();
    let told = caller.take();
    assert_eq!(told, "D, C lost exit=0 ->1, E closed #3 complete, E spawn life=2 ->2, R 2");
    assert_eq!(caller.reads(), "#2 tools/list, #5 prompts/get, #1 subscriptions/listen, #4 subscriptions/listen");
}

#[test]
fn t05_an_answer_in_the_last_lines_of_the_dead_settles_the_request() {
    let mut caller = busy(retrying());
    caller.exit(0, 500);
    assert_eq!(caller.state(), StateName::Ending);
    caller.answers(2);
    caller.answers(3);
    caller.answers(1);
    caller.eof();
    let told = caller.returns();
    assert_eq!(told, "M result #2 complete, M result #3 complete, M result #1 complete, D, C lost exit=0 ->1, R 2");
    assert_eq!(caller.reads(), "#5 prompts/get, #4 subscriptions/listen");
}

#[test]
fn t02_deadlines_run_through_restarts() {
    let mut caller = Caller::started(retrying());
    caller.ask_timed("tools/list", Some(NEVER), Some(ms(1_000)));
    caller.reads();
    caller.advance(500);
    caller.dies_and_returns();
    caller.reads();
    caller.advance(399);
    assert_eq!(caller.take(), "");
    caller.advance(1);
    assert_eq!(caller.take(), "E timeout #1 complete retried");
    assert_eq!(caller.reads(), "cancel 1", "the connection that is there now has read it");
}

#[test]
fn t06_a_timeout_while_down_sends_nothing_ever() {
    let mut caller = Caller::started(retrying());
    caller.ask_timed("tools/list", Some(ms(100)), None);
    caller.reads();
    caller.advance(50);
    caller.die(0);
    assert_eq!(caller.take(), "D, C lost exit=0 ->1");
    caller.advance(50);
    assert_eq!(caller.take(), "E timeout #1 complete");
    caller.advance(50);
    caller.spawn();
    assert_eq!((caller.take().as_str(), caller.reads().as_str()), ("R 2", ""));
}

#[test]
fn t06_with_no_bound_at_all_only_cancel_and_close_end_it() {
    let mut policy = Policy { max_restarts: MaxRestarts::Unlimited, ..retrying() };
    policy.client.idle_timeout = NEVER;
    policy.client.max_timeout = NEVER;
    let mut caller = Caller::started(policy);
    caller.call("tools/list");
    caller.call("tools/list");
    for _ in 0..20 {
        caller.dies_and_returns();
        caller.advance(1_000_000);
        assert_eq!(caller.in_flight(), 2);
    }
    caller.cancel(1).unwrap();
    caller.close();
    caller.die(0);
    let told = caller.take();
    assert_eq!(told, "E cancelled #1 complete retried, D, C asked exit=0 unread=42, E closed #2 complete retried!");
}

#[test]
fn t07_every_completion_of_what_was_sent_again_says_so() {
    type End = fn(&mut Caller);
    let ends: [(&str, End); 6] = [
        ("M result #1 complete retried", |caller| caller.answers(1)),
        ("M error -32603 #1 complete retried", |caller| caller.errs(1, -32603)),
        ("E protocol #1 complete retried", |caller| {
            caller.feed(b"{\"jsonrpc\":\"2.0\",\"id\":1}\n");
        }),
        ("E timeout #1 complete retried", |caller| caller.advance(60_000)),
        ("E cancelled #1 complete retried", |caller| caller.cancel(1).unwrap()),
        ("D, C lost exit=0, E exhausted #1 complete retried, X 1!", |caller| caller.die(0)),
    ];
    for (expected, end) in ends {
        let mut caller = Caller::started(once());
        caller.call("tools/list");
        caller.reads();
        caller.dies_and_returns();
        caller.reads();
        end(&mut caller);
        assert_eq!(caller.take(), expected);
    }
    let mut caller = Caller::started(once());
    caller.call("tools/list");
    caller.dies_and_returns();
    let id = caller.call("tools/list");
    caller.answers(id);
    assert_eq!(caller.take(), "M result #2 complete", "one that was sent once");
}

// ---- orders of completions ----

#[test]
fn l02_l16_losses_come_behind_close_in_the_order_of_acceptance() {
    let mut caller = busy(policy());
    caller.die(0);
    assert_eq!(
        caller.take(),
        "D, C lost exit=0 ->1, E closed #2 complete, E closed #3 complete, E closed #5 complete",
        "streams survive without retry too"
    );
}

#[test]
fn l08_close_cancels_every_stream_and_ends_everything_behind_close() {
    let mut caller = busy(retrying());
    caller.close();
    assert_eq!(caller.poll(), "D");
    caller.call("tools/call");
    assert_eq!(caller.reads(), "#6 tools/call", "last words; no stream is cancelled before D is consumed");
    caller.begin_poll();
    assert_eq!(caller.reads(), "cancel 1, cancel 4");
    caller.answers(2);
    caller.errs(1, -32603);
    caller.errs(4, -32000);
    caller.die(0);
    assert_eq!(
        caller.take(),
        "M result #2 complete, C asked exit=0, E closed #3 complete, E closed #5 complete, E closed #6 complete, \
         E closed #1 complete, E closed #4 complete!"
    );
    assert!(caller.sup.peer(caller.id()).unwrap().holds_nothing());
}

/// A stream whose line was never written is taken out of the queue, not opened and cancelled.
#[test]
fn l08_a_stream_that_was_never_written_is_not_opened_to_be_cancelled() {
    let mut caller = Caller::started(retrying());
    caller.listen();
    caller.reads_bytes(1);
    caller.listen();
    caller.close();
    caller.poll();
    caller.begin_poll();
    assert_eq!(caller.reads(), "#1 subscriptions/listen, cancel 1");
}

#[test]
fn l09_close_while_waiting_and_while_ending() {
    let mut caller = busy(retrying());
    caller.die(0);
    caller.take();
    caller.close();
    assert_eq!(
        caller.take(),
        "C withdrawn, E closed #2 complete, E closed #5 complete, E closed #1 complete, E closed #4 complete!"
    );
    let mut caller = busy(retrying());
    caller.exit(0, 100);
    caller.close();
    caller.eof();
    assert_eq!(
        caller.take(),
        "D, C lost exit=0, E closed #2 complete, E closed #3 complete, E closed #5 complete, E closed #1 complete, \
         E closed #4 complete!"
    );
}

#[test]
fn l12_the_budget_spent_by_a_death() {
    let mut caller = busy(Policy { max_restarts: MaxRestarts::NoRestart, ..retrying() });
    caller.die(0);
    assert_eq!(
        caller.take(),
        "D, C lost exit=0, E exhausted #2 complete, E closed #3 complete, E exhausted #5 complete, \
         E exhausted #1 complete, E exhausted #4 complete, X 0!"
    );
    assert_eq!((caller.state(), caller.deadline()), (StateName::Closed, None));
    assert!(caller.sup.peer(caller.id()).unwrap().holds_nothing());
}

#[test]
fn l13_the_budget_spent_by_failing_lives() {
    let mut caller = busy(once());
    caller.die(0);
    assert_eq!(caller.take(), "D, C lost exit=0 ->1, E closed #3 complete");
    caller.advance(100);
    caller.spawn_fails();
    assert_eq!(
        caller.take(),
        "E spawn life=2, E exhausted #2 complete, E exhausted #5 complete, E exhausted #1 complete, \
         E exhausted #4 complete, X 1, C withdrawn!"
    );
    assert_eq!((caller.state(), caller.deadline()), (StateName::Closed, None));
    assert!(caller.sup.peer(caller.id()).unwrap().holds_nothing());
}

#[test]
fn l18_shutdown_ends_requests_and_streams_as_close_does() {
    let mut caller = busy(retrying());
    caller.shutdown(500);
    assert_eq!(caller.poll(), "D");
    caller.begin_poll();
    assert_eq!(caller.reads(), "cancel 1, cancel 4");
    caller.advance(500);
    assert!(caller.acts().ends_with("Kill"));
    caller.die(0);
    assert_eq!(
        caller.take(),
        "C asked exit=0, E closed #2 complete, E closed #3 complete, E closed #5 complete, E closed #1 complete, \
         E closed #4 complete!, SHUTDOWN!"
    );
    // One that waits for its next life.
    let mut caller = busy(retrying());
    caller.die(0);
    caller.take();
    caller.shutdown(500);
    assert_eq!(
        caller.take(),
        "C withdrawn, E closed #2 complete, E closed #5 complete, E closed #1 complete, E closed #4 complete!, SHUTDOWN!"
    );
}

/// L14: FINAL stands on the very last completion, also when the library has something to log about it.
#[test]
fn l14_final_stands_on_the_last_completion() {
    let mut caller = Caller::logging(retrying());
    caller.call("tools/list");
    caller.close();
    caller.poll();
    caller.die(0);
    let slot = caller.slot();
    let now = caller.now;
    caller.sup.log(now, slot, crate::core::log::Level::Error, "about its remains".to_owned());
    let told = caller.take();
    assert!(told.ends_with("complete unread!"), "{told}");
    assert_eq!(told.matches('!').count(), 1);
    assert!(told.contains("LOG about its remains"), "{told}");
}
