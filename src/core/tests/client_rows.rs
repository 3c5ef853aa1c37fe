//! Rows 60 to 146 of docs/acceptance.md that no other test shows by itself. The number is that of the row.

use serde_json::json;

use super::caller::{Caller, retrying, with_client};
use super::harness::{Rig, policy, short};
use crate::core::budget::MaxRestarts;
use crate::core::client::Options;
use crate::core::log::Level;
use crate::core::peer::StateName;
use crate::core::policy::Policy;
use crate::core::time::ms;

fn once(policy: Policy) -> Policy {
    Policy { max_restarts: MaxRestarts::Limited(1), ..policy }
}

/// One stream, read by the server.
fn listening(policy: Policy) -> Caller {
    let mut caller = Caller::started(policy);
    assert_eq!(caller.listen(), 1);
    caller.reads();
    caller
}

#[test]
fn row_65_a_stream_that_was_refused_has_no_id_and_no_route() {
    let mut caller = Caller::started(with_client(|client| client.max_in_flight = 1));
    caller.call("tools/call");
    assert_eq!(caller.try_listen(), Err("TOO_MANY"));
    assert_eq!(caller.reads(), "#1 tools/call");
    caller.delivers(2, "a");
    caller.answers(2);
    let told = caller.take();
    assert!(told.starts_with("M a, M {"), "nobody's: {told}");
    assert!(!told.contains('#'), "{told}");
    // The id was not spent.
    caller.answers(1);
    assert_eq!(caller.take(), "M result #1 complete, W");
    assert_eq!(caller.listen(), 2);
    caller.delivers(2, "b");
    assert_eq!(caller.take(), "M b #2");
}

/// The end of a stream lies in the queue until somebody takes it, or nobody ever does.
#[test]
fn row_67_an_end_that_nobody_takes_harms_nothing() {
    let mut caller = listening(policy());
    caller.errs(1, -32603);
    caller.die(0);
    caller.advance(100);
    caller.spawn();
    assert_eq!((caller.state(), caller.reads().as_str()), (StateName::Running, ""));
    caller.close();
    caller.die(0);
    assert_eq!(caller.state(), StateName::Closed);
    assert_eq!(caller.take(), "M error -32603 #1 complete, D, C lost exit=0 ->1, R 2, D, C asked exit=0!");
    // A whole peer that is dropped with it.
    let mut caller = listening(policy());
    caller.errs(1, -32603);
}

#[test]
fn row_68_what_comes_after_the_end_of_a_stream_is_nobodys() {
    for refused in [false, true] {
        let mut caller = listening(policy());
        if refused {
            caller.errs(1, -32603);
        } else {
            caller.answers(1);
        }
        caller.delivers(1, "a");
        let end = if refused { "error -32603" } else { "result" };
        assert_eq!(caller.take(), format!("M {end} #1 complete, M a"));
    }
}

#[test]
fn row_70_a_stream_that_the_server_has_ended_cannot_be_cancelled() {
    for taken in [false, true] {
        let mut caller = listening(policy());
        caller.answers(1);
        if taken {
            caller.take();
        }
        assert_eq!(caller.cancel(1), Err("NO_REQUEST"));
        assert_eq!(caller.reads(), "");
        assert_eq!(caller.take(), if taken { "" } else { "M result #1 complete" });
    }
}

#[test]
fn row_78_a_replacement_may_end_the_stream() {
    for (error, expected) in [(None, "M result #1 complete"), (Some(-32603), "M error -32603 #1 complete")] {
        let mut caller = listening(policy());
        caller.dies_and_returns();
        assert_eq!(caller.reads(), "#1 subscriptions/listen");
        match error {
            None => caller.answers(1),
            Some(code) => caller.errs(1, code),
        }
        assert_eq!(caller.take(), expected);
        caller.dies_and_returns();
        assert_eq!(caller.reads(), "");
    }
}

/// Rows 79 and 101.
#[test]
fn row_79_two_deaths_of_a_budget_of_one_end_streams_and_what_is_retained() {
    let mut caller = Caller::started(once(retrying()));
    caller.listen();
    caller.call("tools/list");
    caller.reads();
    assert_eq!(caller.dies_and_returns(), "D, C lost exit=0 ->1, R 2");
    assert_eq!(caller.reads(), "#2 tools/list, #1 subscriptions/listen");
    caller.die(0);
    assert_eq!(caller.take(), "D, C lost exit=0, E exhausted #2 complete retried, E exhausted #1 complete, X 1!");
}

/// Rows 83, 106 and 107. There is no second connect here: the host removes the peer and adds another one.
#[test]
fn row_83_a_new_peer_has_nothing_of_the_one_before() {
    let mut caller = Caller::started(retrying());
    caller.call("server/discover");
    caller.reads();
    caller.results(1, json!({"capabilities": {"tools": {}}}));
    assert_eq!(caller.ask("prompts/list", "{}"), Err("LACKS"));
    caller.listen();
    caller.call("tools/list");
    caller.reads();
    caller.close();
    caller.die(0);
    let told = caller.take();
    assert_eq!(told, "M result #1 complete, D, C asked exit=0, E closed #3 complete, E closed #2 complete!");
    let slot = caller.slot();
    let old = caller.id();
    caller.sup.remove(old).unwrap();

    let new = caller.sup.add(retrying(), 1).unwrap();
    caller.adopt(new);
    assert_eq!(caller.slot(), slot, "in the very place of the old one");
    caller.start();
    assert!(caller.sup.peer(new).unwrap().known().ok().unwrap().is_none());
    let now = caller.now;
    let first = caller.sup.request(now, new, "prompts/list", b"{}", &Options::default());
    assert_eq!(first.map_err(|refusal| short(&refusal)), Ok(1), "its own ids, and no gate");
    caller.act();
    caller.die(0);
    caller.advance(100);
    caller.spawn();
    let queued = caller.queued();
    assert!(queued > 0, "what it asked for itself is sent again");
    let line = caller.reads();
    assert_eq!(line, "#1 prompts/list", "and nothing of the old one");
}

#[test]
fn row_87_a_stream_that_was_ended_before_the_death_is_not_opened_again() {
    let mut caller = listening(policy());
    caller.listen();
    caller.reads();
    caller.cancel(1).unwrap();
    assert_eq!(caller.reads(), "cancel 1");
    assert_eq!(caller.dies_and_returns(), "E cancelled #1 complete, D, C lost exit=0 ->1, R 2");
    assert_eq!(caller.reads(), "#2 subscriptions/listen");
}

#[test]
fn row_91_continuations_of_both_methods_are_lost() {
    for method in ["resources/read", "prompts/get"] {
        for params in [r#"{"uri":"a","inputResponses":{"k":{}}}"#, r#"{"name":"a","requestState":"s"}"#] {
            let mut caller = Caller::started(retrying());
            caller.ask(method, params).unwrap();
            caller.reads();
            assert_eq!(
                caller.dies_and_returns(),
                "D, C lost exit=0 ->1, E closed #1 complete, R 2",
                "{method} {params}"
            );
            assert_eq!(caller.reads(), "");
        }
    }
}

/// The nearest to a transport that was left for another one: two peers, of which one is closed.
#[test]
fn row_93_the_end_of_one_peer_is_none_of_anothers_requests() {
    let mut rig = Rig::with(&[retrying(), retrying()], Level::Server);
    for peer in [0, 1] {
        rig.on(peer).start();
        let (now, id) = (rig.now, rig.id());
        assert_eq!(rig.sup.request(now, id, "tools/list", b"{}", &Options::default()).ok(), Some(1));
        rig.act();
        rig.wrote();
    }
    rig.on(0).close();
    rig.die(0);
    assert_eq!(rig.take(), "0 D, 0 C asked exit=0, 0 E closed #1 complete!");
    rig.advance(1_000);
    assert_eq!(rig.take(), "");
    rig.on(1).feed(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    assert_eq!(rig.take(), "1 M result #1 complete");
}

#[test]
fn row_100_a_replacement_that_dies_over_what_is_sent_again_is_followed_by_one_that_gets_it_all() {
    let mut caller = Caller::logging(retrying());
    caller.call("tools/list");
    caller.call("prompts/list");
    caller.reads();
    caller.dies_and_returns();
    // It takes the first of them and a part of the other one.
    let half = caller.queued() * 3 / 4;
    assert_eq!(caller.reads_bytes(half), "#1 tools/list");
    caller.stdin_gone(0);
    caller.die(0);
    let told = caller.returns();
    let logs: Vec<&str> = told.split(", ").filter(|event| event.contains("was sent again")).collect();
    assert_eq!(logs.len(), 2, "{told}");
    assert!(logs[0].starts_with("LOG request 1 ") && logs[1].starts_with("LOG request 2 "), "{told}");
    assert!(!told.contains("complete"), "{told}");
    assert_eq!(caller.reads(), "#1 tools/list, #2 prompts/list");
    caller.answers(2);
    caller.answers(1);
    assert_eq!(caller.take(), "M result #2 complete retried, M result #1 complete retried");
}

/// What one write that fails means: not that this request is lost, but that there is no connection.
#[test]
fn row_102_a_re_send_that_is_not_taken_is_a_death_and_ends_nothing() {
    let mut caller = Caller::started(retrying());
    caller.call("tools/list");
    caller.reads();
    caller.dies_and_returns();
    caller.stdin_gone(0);
    caller.advance(1_000);
    assert_eq!((caller.take().as_str(), caller.in_flight()), ("", 1), "kept while the replacement is ended");
    caller.die(0);
    assert_eq!(caller.returns(), "D, C lost exit=0 ->2 unread=2, R 3");
    assert_eq!(caller.reads(), "#1 tools/list");
}

/// Rows 119 and 124. The peer keeps one timer for all its requests. Where the last of them is settled before its time it goes off
/// once, finds nothing and is not set again.
#[test]
fn row_119_what_is_settled_or_was_never_accepted_leaves_no_timer() {
    type End = fn(&mut Caller, u64);
    let ends: [(&str, End); 3] = [
        ("M result", |caller, id| caller.answers(id)),
        ("M error", |caller, id| caller.errs(id, -32603)),
        ("E cancelled", |caller, id| caller.cancel(id).unwrap()),
    ];
    for (name, end) in ends {
        let mut caller = Caller::started(with_client(|client| client.max_in_flight = 1));
        for params in ["[]", "nonsense", "{\"_meta\":7}"] {
            assert_eq!(caller.ask("tools/call", params), Err("INVALID"));
            assert_eq!(caller.deadline(), None);
        }
        let id = caller.call("tools/call");
        caller.reads();
        caller.advance(1);
        assert_eq!(caller.ask("tools/call", "{}"), Err("TOO_MANY"));
        assert_eq!(caller.deadline(), Some(59_999), "that of the one that was accepted");
        end(&mut caller, id);
        assert!(caller.take().starts_with(name));
        let never = caller.now + ms(3_600_000);
        assert!(caller.sup.judges(never).is_empty(), "{name}: no request is left to be judged");
        caller.reads();
        caller.acts();
        caller.advance(59_999);
        assert_eq!((caller.take().as_str(), caller.acts().as_str(), caller.deadline()), ("", "", None), "{name}");
    }
    let mut caller = Caller::started(policy());
    caller.call("tools/call");
    caller.close();
    caller.die(0);
    assert_eq!(caller.deadline(), None, "a peer that is closed has no timer at all");
}

#[test]
fn row_131_only_the_error_about_versions_leads_to_another_try() {
    for code in [-32020, -32021, -32023, -32600, -32602, 7] {
        let mut caller = Caller::started(policy());
        let id = caller.call("tools/call");
        caller.reads();
        let data = json!({"supported": ["2026-07-28"], "requested": "x"});
        let error = json!({"code": code, "message": "no", "data": data});
        caller.says(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
        assert_eq!(caller.take(), format!("M error {code} #1 complete"));
        assert_eq!(caller.reads(), "");
    }
}

#[test]
fn row_134_eight_methods_need_what_a_server_may_lack() {
    let methods = [
        ("tools/list", "tools"),
        ("tools/call", "tools"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resources"),
        ("resources/read", "resources"),
        ("prompts/list", "prompts"),
        ("prompts/get", "prompts"),
        ("completion/complete", "completions"),
    ];
    for has in ["none", "tools", "resources", "prompts", "completions"] {
        let mut caller = Caller::started(policy());
        caller.call("server/discover");
        caller.reads();
        caller.results(1, json!({"capabilities": {has: {}}}));
        caller.take();
        for (method, needs) in methods {
            let expected = if needs == has { None } else { Some("LACKS") };
            assert_eq!(caller.ask(method, "{}").err(), expected, "{method} of a server with {has}");
        }
        let sent: Vec<&str> = methods.iter().filter(|(_, needs)| *needs == has).map(|(method, _)| *method).collect();
        let read = caller.reads();
        assert_eq!(read.split(", ").filter_map(|line| line.split(' ').nth(1)).collect::<Vec<_>>(), sent);
    }
}

/// What was told before the answer is told, in that order, and nothing of that token after it.
#[test]
fn row_144_progress_right_before_the_answer_is_not_lost() {
    let mut caller = Caller::started(policy());
    caller.ask_with("tools/call", "{}", Options { progress: true, ..Options::default() }).unwrap();
    caller.call("tools/call");
    let lines = caller.reads_whole();
    assert!(lines[0].contains(r#""progressToken":"progress-1""#) && !lines[1].contains("progressToken"));
    caller.progresses("progress-1");
    caller.progresses("progress-1");
    caller.answers(1);
    caller.progresses("progress-1");
    let progress = "M notifications/progress #1";
    assert_eq!(caller.take(), format!("{progress}, {progress}, M result #1 complete"));
}
