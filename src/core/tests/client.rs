//! Rules R1, R6 to R10, R12 and F4, W2: requests and what comes back for them, while the connection lives.

use serde_json::{Value, json};

use super::caller::{Caller, retrying, with_client};
use crate::core::client::Options;
use crate::core::peer::StateName;
use crate::core::policy::Policy;
use crate::core::time::{NEVER, ms};

const PROGRESS: Options = Options { user_data: 0, idle: None, ceiling: None, progress: true, meta_verbatim: false };
const VERBATIM: Options = Options { progress: false, meta_verbatim: true, ..PROGRESS };

fn capabilities(names: &[&str]) -> Value {
    let capabilities: serde_json::Map<_, _> = names.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
    json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities})
}

/// A peer whose server has said what it can do.
fn discovered(policy: Policy, names: &[&str]) -> Caller {
    let mut caller = Caller::logging(policy);
    let id = caller.call("server/discover");
    caller.reads();
    caller.results(id, capabilities(names));
    caller.take();
    caller
}

#[test]
fn r01_ids_count_up_through_all_lives_and_refused_calls_take_none() {
    let mut caller = Caller::started(with_client(|client| client.max_in_flight = 2));
    assert_eq!(caller.call("tools/call"), 1);
    assert_eq!(caller.ask("tools/call", "[]"), Err("INVALID"));
    assert_eq!(caller.ask("", "{}"), Err("INVALID"));
    assert_eq!(caller.ask("subscriptions/listen", "{}"), Err("INVALID"));
    assert_eq!(caller.listen(), 2);
    assert_eq!(caller.ask("tools/call", "{}"), Err("TOO_MANY"));
    assert_eq!(caller.reads(), "#1 tools/call, #2 subscriptions/listen");
    caller.answers(1);
    assert_eq!(caller.call("tools/call"), 3);
    caller.cancel(3).unwrap();
    caller.dies_and_returns();
    assert_eq!(caller.call("tools/call"), 4);
    assert_eq!(caller.reads(), "#2 subscriptions/listen, #4 tools/call");
}

#[test]
fn r01_meta_verbatim_is_written_as_it_is() {
    let mut caller = Caller::started(retrying());
    caller.ask_with("tools/list", r#"{"_meta":{"x":1.50}}"#, VERBATIM).unwrap();
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"x":1.50}}}"#;
    assert_eq!(caller.reads_whole(), [line]);
    caller.dies_and_returns();
    assert_eq!(caller.reads_whole(), [line], "T2: again so");
}

#[test]
fn r01_lines_over_outbound_bytes_are_invalid_and_cost_nothing() {
    let mut policy = with_client(|_| {});
    policy.limits.outbound_bytes = 300;
    let mut caller = Caller::started(policy);
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(300));
    assert_eq!(caller.ask("tools/call", &long), Err("INVALID"), "R2: no WRITABLE would ever help");
    caller.call("tools/call");
    assert_eq!(caller.ask("tools/call", "{}").err(), Some("WOULD_BLOCK"));
    assert_eq!(caller.reads(), "#1 tools/call");
    assert_eq!(caller.take(), "W");
}

#[test]
fn r06_a_string_that_spells_a_pending_integer_is_accepted_and_logged_once_per_connection() {
    let mut caller = Caller::logging(with_client(|_| {}));
    for _ in 0..3 {
        caller.call("tools/call");
    }
    caller.reads();
    caller.answers("1");
    caller.errs("2", -32603);
    let told = caller.take();
    assert_eq!(told.matches("LOG").count(), 1, "{told}");
    assert!(told.starts_with("LOG the server answers integer ids as strings"), "{told}");
    assert!(told.ends_with("M result #1 complete, M error -32603 #2 complete"), "{told}");
    caller.answers(3);
    caller.take();
    caller.dies_and_returns();
    let id = caller.call("tools/call");
    caller.reads();
    caller.answers(id.to_string());
    let told = caller.take();
    assert_eq!(told.matches("LOG").count(), 1, "once more on the next connection: {told}");
}

#[test]
fn r06_answers_to_ids_of_ours_that_do_not_wait_are_dropped_with_a_log_line() {
    let mut caller = Caller::logging(with_client(|_| {}));
    let (a, b, stream) = (caller.call("tools/call"), caller.call("tools/call"), caller.listen());
    caller.reads();
    caller.answers(a);
    caller.cancel(b).unwrap();
    caller.cancel(stream).unwrap();
    caller.take();
    caller.answers(a);
    caller.errs(b, -32000);
    caller.answers(stream);
    let told = caller.take();
    assert_eq!(told.matches("LOG dropped a late answer").count(), 3, "{told}");
    assert!(!told.contains("M "), "{told}");
}

#[test]
fn r06_every_other_id_is_unmatched_and_completes_nothing() {
    let mut caller = Caller::started(with_client(|_| {}));
    let id = caller.call("tools/call");
    caller.reads();
    for foreign in
        [json!(0), json!(-1), json!(2), json!(99), json!("x"), json!("01"), json!("+1"), json!(" 1"), json!("")]
    {
        caller.answers(foreign.clone());
        let told = caller.take();
        assert!(told.starts_with("M {") && !told.contains(" complete"), "{foreign}: {told}");
    }
    // The only request there is, and the error could be meant for it: nothing is guessed.
    for id in [None, Some(Value::Null), Some(json!(1.5)), Some(json!({}))] {
        let mut error = json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": "parse"}});
        if let Some(id) = id {
            error["id"] = id;
        }
        caller.says(&error);
        let told = caller.take();
        assert!(told.starts_with("M {"), "an error is told with its body: {told}");
    }
    caller.answers(id);
    assert_eq!(caller.take(), "M result #1 complete");
}

#[test]
fn r06_a_late_answer_to_the_librarys_own_request_is_not_the_hosts() {
    let mut caller = discovered(with_client(|client| client.rediscover = true), &["tools"]);
    caller.die(0);
    caller.take();
    caller.advance(100);
    caller.spawn();
    assert_eq!(caller.reads(), "mcp-supervised-1 server/discover");
    caller.advance(10_000);
    caller.take();
    caller.results("mcp-supervised-1", capabilities(&["tools"]));
    let told = caller.take();
    assert!(told.starts_with("LOG dropped a late answer"), "{told}");
    assert!(!told.contains("M "), "{told}");
    caller.answers("mcp-supervised-2");
    assert!(caller.take().starts_with("M {"), "that one was never written");
}

#[test]
fn r07_the_gate_stands_only_after_a_discover_and_only_at_submission() {
    let mut caller = Caller::started(with_client(|_| {}));
    let early = caller.call("resources/list");
    let discover = caller.call("server/discover");
    assert_eq!(caller.reads(), "#1 resources/list, #2 server/discover");
    caller.results(discover, capabilities(&["tools"]));
    let needy = [
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "prompts/get",
        "prompts/list",
        "completion/complete",
    ];
    for method in needy {
        assert_eq!(caller.ask(method, "{}"), Err("LACKS"), "{method}");
    }
    for method in ["tools/list", "tools/call", "vendor/x", "server/discover"] {
        caller.call(method);
    }
    assert_eq!(caller.reads(), "#3 tools/list, #4 tools/call, #5 vendor/x, #6 server/discover");
    caller.answers(early);
    assert_eq!(caller.take(), "M result #2 complete, M result #1 complete", "what was accepted is not touched");
}

#[test]
fn r07_the_gate_stands_for_raw_requests_too() {
    let mut caller = discovered(with_client(|_| {}), &["tools"]);
    let id = caller.id();
    let raw = |method: &str| format!(r#"{{"jsonrpc":"2.0","id":"mine","method":"{method}"}}"#);
    let mut send =
        |line: String| caller.sup.send(id, line.as_bytes()).map_err(|refusal| super::harness::short(&refusal));
    assert_eq!(send(raw("prompts/list")), Err("LACKS"));
    assert_eq!(send(raw(r"prompts\/list")), Err("LACKS"));
    assert!(send(raw("tools/list")).is_ok());
    assert!(send(raw("prompts/list").replace(r#""id":"mine","#, "")).is_ok(), "a notification needs nothing");
}

#[test]
fn r07_a_failed_or_useless_discover_gates_nothing() {
    let mut caller = Caller::started(with_client(|_| {}));
    let id = caller.call("server/discover");
    caller.errs(id, -32601);
    let id = caller.call("server/discover");
    caller.answers(id);
    let other = caller.call("tools/list");
    caller.results(other, capabilities(&[]));
    assert_eq!(caller.ask("prompts/list", "{}"), Ok(4));
}

#[test]
fn r07_what_was_accepted_is_sent_again_whatever_the_server_says_later() {
    let mut caller = Caller::started(retrying());
    let list = caller.call("prompts/list");
    let discover = caller.call("server/discover");
    caller.results(discover, capabilities(&["tools"]));
    caller.reads();
    caller.dies_and_returns();
    assert_eq!(caller.reads(), format!("#{list} prompts/list"));
}

#[test]
fn r07_after_a_restart_the_known_set_is_stale_and_gates_nothing() {
    let mut caller = discovered(with_client(|_| {}), &["tools"]);
    let known = |caller: &Caller| {
        let known = caller.sup.peer(caller.id()).unwrap().known().unwrap();
        known.map(|(known, stale)| (known.capabilities.clone(), stale))
    };
    assert_eq!(known(&caller), Some((r#"{"tools":{}}"#.to_owned(), false)));
    assert_eq!(caller.ask("prompts/list", "{}"), Err("LACKS"));
    caller.die(0);
    assert_eq!(known(&caller), Some((r#"{"tools":{}}"#.to_owned(), true)), "still readable");
    caller.returns();
    let id = caller.call("prompts/list");
    caller.answers(id);
    let id = caller.call("server/discover");
    caller.results(id, capabilities(&["prompts"]));
    assert_eq!(known(&caller), Some((r#"{"prompts":{}}"#.to_owned(), false)));
    assert_eq!(caller.ask("tools/call", "{}"), Err("LACKS"));
}

/// A peer with rediscover whose second life has just been spawned, with one retained request.
fn rediscovering() -> Caller {
    let mut policy = retrying();
    policy.client.rediscover = true;
    let mut caller = discovered(policy, &["tools"]);
    caller.call("tools/list");
    caller.reads();
    caller.die(0);
    caller.take();
    caller.advance(100);
    caller.spawn();
    assert_eq!(caller.state(), StateName::Starting, "until the answer");
    assert_eq!(caller.ask("tools/list", "{}"), Err("CLOSED"));
    assert_eq!(caller.reads(), "mcp-supervised-1 server/discover", "nothing else is written");
    caller
}

#[test]
fn r07_with_rediscover_a_later_life_serves_when_the_discover_is_answered() {
    let mut caller = rediscovering();
    caller.out("early");
    caller.answers(2);
    let told = caller.take();
    assert_eq!(told.matches("LOG dropped a message that came before").count(), 1, "the first of many: {told}");
    assert!(!told.contains("M "), "{told}");
    caller.results("mcp-supervised-1", capabilities(&["tools"]));
    assert_eq!(caller.state(), StateName::Running);
    assert_eq!(caller.take(), "R 2");
    assert_eq!(caller.reads(), "#2 tools/list", "re-sends after it");
    assert_eq!(caller.ask("prompts/list", "{}"), Err("LACKS"), "what is known gates again");
}

#[test]
fn r07_reconnect_says_that_the_server_changed() {
    use crate::core::event::Event;
    use crate::core::supervisor::Told;
    for (names, expected) in [(&["tools"][..], false), (&["tools", "prompts"][..], true)] {
        let mut caller = rediscovering();
        caller.results("mcp-supervised-1", capabilities(names));
        let Some(Told::Peer { queued, .. }) = caller.sup.next_event() else { panic!() };
        let Event::Reconnect(serving) = queued.event else { panic!("{queued:?}") };
        assert_eq!(serving.changed, expected, "{names:?}");
    }
}

#[test]
fn r07_an_error_or_no_answer_in_time_serves_with_what_is_stale() {
    type Step = fn(&mut Caller);
    let ends: [(&str, Step); 3] = [
        ("error", |caller| caller.errs("mcp-supervised-1", -32601)),
        ("useless", |caller| caller.answers("mcp-supervised-1")),
        ("silence", |caller| {
            caller.advance(9_999);
            assert_eq!(caller.state(), StateName::Starting);
            caller.advance(1);
        }),
    ];
    for (name, end) in ends {
        let mut caller = rediscovering();
        end(&mut caller);
        assert_eq!(caller.state(), StateName::Running, "{name}");
        let told = caller.take();
        assert!(told.starts_with("LOG what the server can do was not told again"), "{name}: {told}");
        assert!(told.ends_with(", R 2"), "{name}: {told}");
        assert_eq!(caller.reads(), "#2 tools/list", "{name}");
        assert!(caller.ask("prompts/list", "{}").is_ok(), "{name}: what is stale gates nothing");
    }
}

#[test]
fn r07_a_life_that_dies_over_its_discover_is_a_failed_life() {
    let mut caller = rediscovering();
    caller.die(3);
    assert_eq!(caller.take_unlogged(), "E handshake life=2 exit=3 ->2", "L11");
    caller.advance(100);
    caller.spawn();
    assert_eq!(caller.reads(), "mcp-supervised-2 server/discover");
    caller.results("mcp-supervised-2", capabilities(&["tools"]));
    assert_eq!(caller.take_unlogged(), "R 3");
    assert_eq!(caller.reads(), "#2 tools/list", "still retained");
}

#[test]
fn r08_an_unsupported_version_is_retried_once_under_the_same_id_and_deadlines() {
    let mut caller = Caller::started(with_client(|_| {}));
    let id = caller.ask_timed("tools/call", None, Some(ms(70_000)));
    let first = caller.reads_whole();
    caller.advance(20_000);
    caller.errs_version(id, &["1999-01-01", "2026-07-28"]);
    assert_eq!(caller.take(), "", "it is not told");
    assert_eq!(caller.reads_whole(), first);
    caller.advance(39_999);
    assert_eq!(caller.take(), "");
    caller.advance(1);
    assert_eq!(caller.take(), "E timeout #1 complete", "60 s from acceptance");

    let mut caller = Caller::started(with_client(|_| {}));
    let id = caller.call("tools/call");
    caller.reads();
    caller.errs_version(id, &["2026-07-28"]);
    assert_eq!(caller.reads(), "#1 tools/call");
    caller.errs_version(id, &["2026-07-28"]);
    assert_eq!(caller.take(), "M error -32022 #1 complete", "once");
}

#[test]
fn r08_otherwise_it_is_the_remote_error() {
    let cases = [(PROGRESS, &["1999-01-01"][..]), (PROGRESS, &[]), (VERBATIM, &["2026-07-28"])];
    for (options, versions) in cases {
        let mut caller = Caller::started(with_client(|_| {}));
        let id = caller.ask_with("tools/call", "{}", options).unwrap();
        caller.reads();
        caller.errs_version(id, versions);
        assert_eq!(caller.take(), "M error -32022 #1 complete", "{versions:?}");
        assert_eq!(caller.reads(), "");
    }
}

#[test]
fn r09_result_types() {
    let cases = [
        (json!({}), false, "M result #1 complete"),
        (json!({"resultType": "complete"}), false, "M result #1 complete"),
        (json!({"resultType": "input_required"}), false, "M result #1 complete input"),
        (json!({"resultType": "task"}), false, "E protocol #1 complete"),
        (json!({"resultType": 7}), false, "E protocol #1 complete"),
        (json!({"resultType": "task"}), true, "M result #1 complete other"),
        (json!({"resultType": "input_required"}), true, "M result #1 complete input"),
    ];
    for (result, has_extensions, expected) in cases {
        let mut caller = Caller::started(with_client(|client| client.has_extensions = has_extensions));
        let id = caller.call("tools/call");
        caller.reads();
        caller.results(id, result.clone());
        assert_eq!(caller.take(), expected, "{result}");
    }
}

#[test]
fn r09_a_continuation_has_a_new_id_and_its_params_byte_for_byte() {
    let mut caller = Caller::started(with_client(|_| {}));
    caller.call("tools/call");
    caller.reads();
    let state = r#""requestState":"é\u00e9\/","inputResponses":{"b":1.0,"a":[ ]}"#;
    assert_eq!(caller.ask("tools/call", &format!("{{{state}}}")), Ok(2));
    assert!(caller.reads_whole()[0].contains(state));
}

#[test]
fn r10_tokens_are_minted_on_request_and_unique() {
    let mut caller = Caller::logging(with_client(|_| {}));
    caller.ask("tools/call", r#"{"_meta":{"progressToken":"progress-2"}}"#).unwrap();
    caller.ask_with("tools/call", "{}", PROGRESS).unwrap();
    caller.ask_with("tools/call", "{}", PROGRESS).unwrap();
    caller.call("tools/call");
    let tokens: Vec<Value> = caller
        .reads_whole()
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["params"]["_meta"]["progressToken"].clone())
        .collect();
    assert_eq!(tokens[0], "progress-2");
    assert_ne!(tokens[1], tokens[0]);
    assert!(tokens[1..3].iter().all(|token| token.as_str().unwrap().starts_with("progress-")));
    assert_ne!(tokens[1], tokens[2]);
    assert_eq!(tokens[3], Value::Null);
    for (token, id) in tokens[..3].iter().zip(1..) {
        caller.progresses(token.clone());
        assert_eq!(caller.take(), format!("M notifications/progress #{id}"));
    }
}

#[test]
fn r10_a_hosts_token_is_refused_while_another_request_has_it() {
    let mut caller = Caller::logging(with_client(|_| {}));
    for token in [r#""t""#, "7", r#""caf\u00e9""#, r#""a\"b\/""#] {
        let params = format!(r#"{{"_meta":{{"progressToken":{token}}}}}"#);
        let id = caller.ask("tools/call", &params).unwrap();
        assert_eq!(caller.ask("tools/call", &params), Err("INVALID"), "{token}");
        assert_eq!(caller.ask_with("tools/call", &params, PROGRESS), Err("INVALID"), "two tokens for one request");
        caller.reads();
        // As a server spells it that has decoded it.
        caller.progresses(serde_json::from_str::<Value>(token).unwrap());
        assert_eq!(caller.take(), format!("M notifications/progress #{id}"), "{token}");
        caller.answers(id);
        let id = caller.ask("tools/call", &params).expect("free again");
        caller.cancel(id).unwrap();
        caller.take();
    }
    // The same token spelled in two ways.
    caller.ask("tools/call", r#"{"_meta":{"progressToken":"é"}}"#).unwrap();
    assert_eq!(caller.ask("tools/call", r#"{"_meta":{"progressToken":"\u00e9"}}"#), Err("INVALID"));
}

#[test]
fn r10_progress_with_a_foreign_token_is_dropped_with_a_log_line() {
    let mut caller = Caller::logging(with_client(|_| {}));
    let id = caller.ask_with("tools/call", "{}", PROGRESS).unwrap();
    caller.reads();
    for token in [json!("progress-9"), json!(1), json!("1"), Value::Null] {
        caller.progresses(token.clone());
        let told = caller.take();
        assert!(told.starts_with("LOG dropped progress with a token that no request has"), "{token}: {told}");
    }
    caller.progresses("progress-1");
    caller.answers(id);
    caller.progresses("progress-1");
    let told = caller.take();
    assert!(told.starts_with("M notifications/progress #1, M result #1 complete, LOG dropped progress"), "{told}");
}

#[test]
fn r12_too_many_requests_would_block_and_writable_comes_at_half() {
    let mut caller = Caller::started(with_client(|client| client.max_in_flight = 4));
    for _ in 0..3 {
        caller.call("tools/call");
    }
    let stream = caller.listen();
    caller.reads();
    assert_eq!(caller.ask("tools/call", "{}"), Err("TOO_MANY"));
    assert_eq!(caller.try_listen(), Err("TOO_MANY"));
    caller.answers(1);
    assert_eq!(caller.take(), "M result #1 complete", "three are more than half");
    caller.cancel(2).unwrap();
    assert_eq!(caller.take(), "E cancelled #2 complete, W", "one for both");
    caller.answers(3);
    caller.answers(stream);
    assert_eq!(caller.take(), "M result #3 complete, M result #4 complete", "none is owed");
}

#[test]
fn r12_writable_needs_the_bytes_and_the_requests_at_half() {
    let mut policy = with_client(|client| client.max_in_flight = 2);
    policy.limits.outbound_bytes = 4_000;
    for bytes_first in [true, false] {
        let mut caller = Caller::started(policy.clone());
        caller.ask("tools/call", "{}").unwrap();
        caller.reads();
        caller.ask("tools/call", &format!("{{\"a\":\"{}\"}}", "x".repeat(3_000))).unwrap();
        assert_eq!(caller.ask("tools/call", "{}"), Err("TOO_MANY"));
        if bytes_first {
            caller.reads();
            assert_eq!(caller.take(), "");
            caller.answers(1);
            assert_eq!(caller.take(), "M result #1 complete, W");
        } else {
            caller.answers(1);
            assert_eq!(caller.take(), "M result #1 complete");
            caller.reads_bytes(1_000);
            assert_eq!(caller.take(), "", "2000 and some are more than half");
            caller.reads();
            assert_eq!(caller.take(), "W");
        }
        // Taking a line out of the queue makes room too, and so does a deadline.
        caller.ask_timed("tools/call", Some(ms(10)), Some(NEVER));
        assert_eq!(caller.ask("tools/call", "{}"), Err("TOO_MANY"));
        caller.advance(10);
        assert_eq!(caller.take(), "E timeout #3 complete, W");
    }
}

#[test]
fn r12_reconnect_replaces_a_writable_that_is_owed() {
    let mut caller = Caller::started(with_client(|client| client.max_in_flight = 1));
    caller.call("tools/call");
    assert_eq!(caller.ask("tools/call", "{}"), Err("TOO_MANY"));
    let told = caller.dies_and_returns();
    assert!(told.ends_with("E closed #1 complete unread, R 2"), "{told}");
    caller.call("tools/call");
    caller.answers(2);
    assert_eq!(caller.take(), "M result #2 complete");
}

#[test]
fn w02_a_broken_line_with_a_pending_id_completes_it() {
    let broken = [
        r#"{"jsonrpc":"2.0","id":1,"result":{"a":}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"1","error":7}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"id":1,"result":{}}"#,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"\0\"}}",
    ];
    for line in broken {
        let mut caller = Caller::started(with_client(|_| {}));
        caller.call("tools/call");
        caller.reads();
        caller.feed(format!("{line}\n").as_bytes());
        assert_eq!(caller.take(), "E protocol #1 complete", "{line}");
        caller.feed(format!("{line}\n").as_bytes());
        assert_eq!(caller.take(), "E malformed life=1", "nothing is pending any more: {line}");
        assert_eq!(caller.in_flight(), 0);
        assert_eq!(caller.reads(), "", "nothing is written back");
    }
}
