//! Traffic with a server of the older revisions, against the demo server: streams and discover made for it, its own requests,
//! batches, the log level, and all of it through restarts. Rules Z3, Z4, Z6, Z7.

mod support;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use support::*;

const NEWEST: &str = "2025-11-25";
const EMULATED: u32 = MCP_SUPERVISED_FLAG_EMULATED;
const CLOSED: i32 = MCP_SUPERVISED_E_CLOSED as i32;
const UPDATED: &[u8] = b"notifications/resources/updated";
const TOOLS_CHANGED: &[u8] = b"notifications/tools/list_changed";

#[test]
fn without_newer_kernel_calls() {
    run_file_again_without_newer_kernel_calls();
}

/// A strict server of the newest of the older revisions that records what it reads; and its peer, which serves.
fn served(host: &mut Host, spec: &Spec) -> u64 {
    let peer = host.launch(spec);
    host.next(MCP_SUPERVISED_EVENT_READY);
    peer
}

fn does(host: &mut Host, peer: u64, tool: &str, arguments: Value) -> String {
    let id = host.ask_tool(peer, tool, arguments);
    host.completion(id).tool_text()
}

/// The server was read and written to the end, and broke off nothing.
fn ends_well(mut host: Host, peer: u64) -> Vec<Event> {
    host.close(peer);
    host.until(Event::is_final);
    let close = host.seen.iter().rfind(|e| e.is(MCP_SUPERVISED_EVENT_CLOSE)).unwrap();
    assert_eq!(close.exit_code, 0, "{}", close.text());
    std::mem::take(&mut host.seen)
}

fn killed(host: &mut Host, peer: u64) -> Event {
    kill9(host.pid(peer));
    host.next(MCP_SUPERVISED_EVENT_RECONNECT)
}

/// Methods of what came for a stream, each with its flags.
fn deliveries(host: &Host, stream: u64) -> Vec<(String, u32)> {
    let of = host.seen.iter().filter(|e| e.request == stream);
    of.map(|e| (String::from_utf8(e.method.clone()).unwrap(), e.flags)).collect()
}

fn accepted(event: &Event) -> Value {
    event.json()["params"]["notifications"].clone()
}

#[test]
fn z03_streams_are_made_of_subscriptions_and_unasked_notifications() {
    let scratch = Scratch::new();
    let path = scratch.name("record");
    let mut host = Host::new();
    let peer = served(&mut host, &Spec::legacy(NEWEST, &["--record", &path]));
    let both = host.listen(peer, json!({"toolsListChanged": true, "resourceSubscriptions": ["mem://counter"]}), 7);
    let counter = host.listen(peer, json!({"resourceSubscriptions": ["mem://counter", "mem://counter"]}), 8);
    let nothing = host.listen(peer, json!({}), 9);
    let ack = host.acknowledged(both, 1);
    assert_eq!(accepted(&ack), json!({"toolsListChanged": true, "resourceSubscriptions": ["mem://counter"]}));
    assert_eq!((ack.flags, ack.user_data), (EMULATED, 7));
    assert_eq!(ack.json()["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], both);
    assert_eq!(accepted(&host.acknowledged(counter, 1)), json!({"resourceSubscriptions": ["mem://counter"]}));
    assert_eq!(accepted(&host.acknowledged(nothing, 1)), json!({}));

    does(&mut host, peer, "bump", json!({}));
    does(&mut host, peer, "flip", json!({}));
    does(&mut host, peer, "flip", json!({"what": "prompts"}));
    let name = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let ack = (name(b"notifications/subscriptions/acknowledged"), EMULATED);
    let (updated, changed) = ((name(UPDATED), 0), (name(TOOLS_CHANGED), 0));
    assert_eq!(deliveries(&host, both), [ack.clone(), updated.clone(), changed]);
    assert_eq!(deliveries(&host, counter), [ack.clone(), updated]);
    assert_eq!(deliveries(&host, nothing), [ack]);
    let free: Vec<&Event> = host.seen.iter().filter(|e| e.is(MCP_SUPERVISED_EVENT_MESSAGE) && e.request == 0).collect();
    assert_eq!(free.len(), 1, "what no stream wants is nobody's: {free:#?}");

    // The last one that wants a resource lets go of it.
    assert_eq!(host.cancel(peer, both, ""), 0);
    assert_eq!(host.completion(both).status, MCP_SUPERVISED_E_CANCELLED as i32);
    does(&mut host, peer, "bump", json!({}));
    assert_eq!(deliveries(&host, counter).len(), 3);
    assert_eq!(host.cancel(peer, counter, ""), 0);
    does(&mut host, peer, "bump", json!({}));
    ends_well(host, peer);
    let lines = read_lines(&std::fs::read_to_string(path).unwrap());
    let count = |method: &str| methods(&lines).iter().filter(|known| **known == method).count();
    assert_eq!((count("resources/subscribe"), count("resources/unsubscribe")), (1, 1));
    assert_eq!(count("subscriptions/listen"), 0);
    assert_eq!(count("notifications/cancelled"), 0, "the server knows no stream");
}

#[test]
fn z03_what_the_server_refuses_is_missing_and_a_stream_of_nothing_ends_with_its_error() {
    let mut host = Host::new();
    let peer = served(&mut host, &Spec::legacy(NEWEST, &[]));
    let some = host.listen(peer, json!({"resourceSubscriptions": ["file:///gone", "mem://counter"]}), 1);
    let none = host.listen(peer, json!({"resourceSubscriptions": ["file:///gone", "file:///b"]}), 2);
    assert_eq!(accepted(&host.acknowledged(some, 1)), json!({"resourceSubscriptions": ["mem://counter"]}));
    let end = host.completion(none);
    assert_eq!((end.message_kind, end.error_code), (MCP_SUPERVISED_MESSAGE_REMOTE_ERROR as u32, -32002));
    assert_eq!((end.flags, end.user_data), (EMULATED | MCP_SUPERVISED_FLAG_COMPLETE, 2));
    assert_eq!(end.json()["id"], none);
    assert!(end.json()["error"]["message"].as_str().unwrap().starts_with("Resource not found"));

    // A server without the capability is not asked; one without any is asked nothing.
    let mut host = Host::new();
    let capabilities = json!({"tools": {}, "resources": {"listChanged": true}}).to_string();
    let peer =
        served(&mut host, &Spec::legacy(NEWEST, &["--capabilities", &capabilities, "--subscribe-error", "-32603"]));
    let filter =
        json!({"toolsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": ["mem://counter"]});
    let stream = host.listen(peer, filter, 0);
    assert_eq!(accepted(&host.acknowledged(stream, 1)), json!({"resourcesListChanged": true}));
    ends_well(host, peer);
}

#[test]
fn z03_streams_and_retained_requests_come_through_a_restart_under_their_ids() {
    let scratch = Scratch::new();
    let (lives, path) = (scratch.name("lives"), scratch.name("record"));
    let mut host = Host::new();
    let flags = ["--lives", &lives, "--in-life", "1", "--mute", "tools/list", "--in-life", "2", "--record", &path];
    let spec = Spec::legacy(NEWEST, &flags).retry().restart(3, 1, 60_000).server_log_level("warning");
    let peer = served(&mut host, &spec);
    let stream = host.listen(peer, json!({"toolsListChanged": true, "resourceSubscriptions": ["mem://counter"]}), 5);
    let plain = host.listen(peer, json!({"promptsListChanged": true}), 6);
    host.acknowledged(stream, 1);
    let list = host.ask(peer, "tools/list", json!({}));
    let call = host.ask_tool(peer, "silent", json!({}));
    does(&mut host, peer, "pid", json!({}));
    let from = host.seen.len();
    killed(&mut host, peer);
    host.acknowledged(stream, 2);
    host.acknowledged(plain, 2);
    let listed = host.completion(list);
    assert_eq!(listed.flags, MCP_SUPERVISED_FLAG_COMPLETE | MCP_SUPERVISED_FLAG_RETRIED);
    assert_eq!(host.completion(call).status, CLOSED);
    let order: Vec<&str> = host.seen[from..].iter().map(Event::letter).filter(|l| *l != "LOG").collect();
    assert_eq!(order[..4], ["D", "C", "E", "R"], "the call is lost, nothing of the replacement before R");
    does(&mut host, peer, "bump", json!({}));
    does(&mut host, peer, "flip", json!({"what": "prompts"}));
    let last = |stream: u64| deliveries(&host, stream).pop().unwrap().0;
    assert_eq!(last(stream).as_bytes(), UPDATED);
    assert_eq!(last(plain), "notifications/prompts/list_changed");
    ends_well(host, peer);
    let lines = read_lines(&std::fs::read_to_string(path).unwrap());
    let expected = ["initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe", "tools/list"];
    assert_eq!(methods(&lines)[..5], expected, "Z3's order");
    assert_eq!(lines[4]["id"], list);
    assert_eq!(lines[4]["params"], json!({}), "no stamp");
}

#[test]
fn z03_discover_is_answered_from_the_handshake() {
    let mut host = Host::new();
    let spec = Spec::legacy("2025-06-18", &["--on-discover", "ignore"]).start_timeouts(100, 60_000);
    let peer = host.launch(&spec.restart(2, 1, 60_000).retry());
    // Before the connection serves, and after.
    let early = host.ask(peer, "server/discover", json!({}));
    let first = host.completion(early);
    assert_eq!(letters(&host.seen), "READY M");
    let late = host.ask(peer, "server/discover", json!({}));
    killed(&mut host, peer);
    let third = host.ask(peer, "server/discover", json!({}));
    for (id, event) in [(early, first), (late, host.completion(late)), (third, host.completion(third))] {
        assert_eq!(event.flags, EMULATED | MCP_SUPERVISED_FLAG_COMPLETE);
        assert_eq!(event.message_kind, MCP_SUPERVISED_MESSAGE_RESULT as u32);
        let line = event.json();
        assert_eq!(line["id"], id);
        let result: Value = serde_json::from_slice(&event.body).unwrap();
        assert_eq!(result, line["result"]);
        assert_eq!(result["resultType"], "complete");
        assert_eq!(result["supportedVersions"], json!(["2025-06-18"]));
        assert_eq!(result["capabilities"].to_string(), host.server_capabilities(peer).0);
        let info = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(info.to_string(), host.server_info(peer).0);
    }
    ends_well(host, peer);
}

/// Asks the server to ask us, and gives the event of its request.
fn asked(host: &mut Host, peer: u64, arguments: Value) -> (u64, Event) {
    let call = host.ask_tool(peer, "ask_client", arguments);
    let is = |e: &Event| e.is(MCP_SUPERVISED_EVENT_MESSAGE) && e.message_kind == MCP_SUPERVISED_MESSAGE_REQUEST as u32;
    (call, host.until(is).into_iter().find(is).unwrap())
}

#[test]
fn z04_requests_of_the_server_are_answered_by_token() {
    let mut host = Host::new();
    let spec = Spec::legacy(NEWEST, &[]).capabilities(r#"{"roots":{},"sampling":{},"elicitation":{"form":{}}}"#);
    let peer = served(&mut host, &spec);
    let mut tokens = BTreeMap::new();
    for (method, answer) in [
        ("roots/list", json!({"roots": [{"uri": "file:///a"}]})),
        (
            "sampling/createMessage",
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "hi"}}),
        ),
        ("elicitation/create", json!({"action": "accept", "content": {"name": "Ada"}})),
    ] {
        let (call, event) = asked(&mut host, peer, json!({"method": method}));
        assert_eq!(event.method, method.as_bytes());
        assert!(event.request > 1 << 51, "no request or stream has such an id");
        assert_eq!(host.respond(peer, event.request, answer.to_string()), 0, "{}", host.last_error());
        let told: Value = serde_json::from_str(&host.completion(call).tool_text()).unwrap();
        assert_eq!(told["result"], answer);
        assert_eq!(host.respond(peer, event.request, "{}"), MCP_SUPERVISED_E_NO_REQUEST as i32, "it answers once");
        assert!(tokens.insert(event.request, ()).is_none());
    }
    let (call, event) = asked(&mut host, peer, json!({"method": "roots/list"}));
    for (bad, data) in [("[]", ""), ("{", ""), ("1", "")] {
        assert_eq!(host.respond(peer, event.request, bad), MCP_SUPERVISED_E_INVALID as i32, "{bad}{data}");
    }
    assert_eq!(host.respond_error(peer, event.request, -1, "x", "{"), MCP_SUPERVISED_E_INVALID as i32);
    assert_eq!(host.respond_error(peer, event.request, -1, "no \"roots\"", "[1,\n2]"), 0);
    let told: Value = serde_json::from_str(&host.completion(call).tool_text()).unwrap();
    assert_eq!(told["error"], json!({"code": -1, "message": "no \"roots\"", "data": [1, 2]}));
    ends_well(host, peer);
}

#[test]
fn z04_ids_of_the_server_are_its_own() {
    // 0, a negative number, a string with an escape, a string that spells one of ours.
    let mut host = Host::new();
    let peer = served(&mut host, &Spec::legacy(NEWEST, &[]).capabilities(r#"{"roots":{}}"#));
    for id in ["0", "-7", "\"a\\u0022b\"", "\"1\"", "\"mcp-supervised-1\""] {
        let (call, event) = asked(&mut host, peer, json!({"method": "roots/list", "id": id}));
        assert_eq!(event.id, id.parse::<Value>().unwrap().to_string().as_bytes());
        assert_eq!(host.respond(peer, event.request, r#"{"roots":[]}"#), 0);
        let told: Value = serde_json::from_str(&host.completion(call).tool_text()).unwrap();
        assert_eq!(told["result"], json!({"roots": []}), "{id}");
    }
    ends_well(host, peer);
}

#[test]
fn z04_what_is_not_declared_is_refused_and_ping_is_answered() {
    let mut host = Host::new();
    let peer = served(&mut host, &Spec::legacy(NEWEST, &["--ask", "roots/list", "--ask", "ping"]));
    for (method, expected) in [
        ("ping", json!({"result": {}})),
        ("roots/list", json!(-32601)),
        ("sampling/createMessage", json!(-32601)),
        ("elicitation/create", json!(-32601)),
        ("vendor/x", json!(-32601)),
    ] {
        let told: Value =
            serde_json::from_str(&does(&mut host, peer, "ask_client", json!({"method": method}))).unwrap();
        match expected {
            Value::Number(code) => assert_eq!(told["error"]["code"], Value::Number(code), "{method}"),
            whole => assert_eq!(told, whole, "{method}"),
        }
    }
    host.await_log("a request of the server was refused by the library: roots/list");
    let asked = MCP_SUPERVISED_MESSAGE_REQUEST as u32;
    assert!(host.seen.iter().all(|e| e.message_kind != asked), "none of it is shown");
    ends_well(host, peer);
}

#[test]
fn z04_a_token_of_a_connection_that_is_gone_is_closed_and_a_new_one_is_another() {
    let mut host = Host::new();
    let flags = ["--ask", "roots/list"];
    let spec = Spec::legacy(NEWEST, &flags).capabilities(r#"{"roots":{}}"#).restart(3, 1, 60_000);
    let peer = host.launch(&spec);
    assert_eq!(host.respond(peer, 1 << 52, "{}"), MCP_SUPERVISED_E_NOT_STARTED as i32);
    let is = |e: &Event| e.is(MCP_SUPERVISED_EVENT_MESSAGE) && e.message_kind == MCP_SUPERVISED_MESSAGE_REQUEST as u32;
    host.until(is);
    let first = host.seen.iter().find(|e| is(e)).unwrap().clone();
    assert_eq!(first.id, b"0");
    kill9(host.pid(peer));
    host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert_eq!(host.respond(peer, first.request, "{}"), CLOSED);
    host.until(is);
    let second = host.seen.iter().rfind(|e| is(e)).unwrap().clone();
    assert_eq!((&second.id[..], second.request != first.request), (&b"0"[..], true));
    assert_eq!(host.respond(peer, first.request, "{}"), CLOSED, "it is not answered to the replacement");
    assert_eq!(host.respond(peer, second.request + 1, "{}"), MCP_SUPERVISED_E_NO_REQUEST as i32);
    assert_eq!(host.respond(peer, 1, "{}"), MCP_SUPERVISED_E_NO_REQUEST as i32);
    assert_eq!(host.respond(peer, second.request, r#"{"roots":[]}"#), 0);
    ends_well(host, peer);
}

#[test]
fn z04_a_request_the_server_takes_back_cannot_be_answered() {
    let mut host = Host::new();
    let peer = served(&mut host, &Spec::legacy(NEWEST, &[]).capabilities(r#"{"roots":{}}"#));
    let (call, event) = asked(&mut host, peer, json!({"method": "roots/list", "cancel": true}));
    assert_eq!(host.completion(call).tool_text(), "cancelled");
    let taken = host.seen.iter().find(|e| e.method == b"notifications/cancelled").unwrap();
    assert_eq!(taken.request, event.request);
    assert_eq!(host.respond(peer, event.request, "{}"), MCP_SUPERVISED_E_NO_REQUEST as i32);
    ends_well(host, peer);
}

#[test]
fn z04_a_modern_server_must_not_ask() {
    let mut host = Host::new();
    let peer = served(&mut host, &Spec::auto(&[]).capabilities(r#"{"roots":{}}"#));
    host.ask_tool(peer, "ask_client", json!({"method": "roots/list"}));
    let error = host.next(MCP_SUPERVISED_EVENT_ERROR);
    assert_eq!((error.status, error.request), (MCP_SUPERVISED_E_PROTOCOL as i32, 0));
    assert_eq!(host.respond(peer, 1 << 52, "{}"), MCP_SUPERVISED_E_UNSUPPORTED as i32);
    let raw = host.launch(&Spec::demo(&[]));
    assert_eq!(host.respond(raw, 1 << 52, "{}"), MCP_SUPERVISED_E_UNSUPPORTED as i32);
}

#[test]
fn z06_elements_of_an_array_come_in_their_order() {
    let mut host = Host::new();
    let peer = served(&mut host, &Spec::legacy("2025-03-26", &[]).capabilities(r#"{"roots":{}}"#));
    let stream = host.listen(peer, json!({"toolsListChanged": true}), 0);
    host.acknowledged(stream, 1);
    let from = host.seen.len();
    let call = host.ask_tool(peer, "batch", json!({"notes": 3, "ask": "roots/list"}));
    let asked = MCP_SUPERVISED_MESSAGE_REQUEST as u32;
    host.completion(call);
    let kinds: Vec<u32> =
        host.seen[from..].iter().filter(|e| e.is(MCP_SUPERVISED_EVENT_MESSAGE)).map(|e| e.message_kind).collect();
    let note = MCP_SUPERVISED_MESSAGE_NOTIFICATION as u32;
    assert_eq!(kinds, [note, note, note, asked, MCP_SUPERVISED_MESSAGE_RESULT as u32]);
    let token = host.seen.iter().find(|e| e.message_kind == asked).unwrap().request;
    assert_eq!(host.respond(peer, token, r#"{"roots":[]}"#), 0);
    does(&mut host, peer, "pid", json!({}));
    ends_well(host, peer);

    // In no other revision.
    let mut host = Host::new();
    let peer = served(&mut host, &Spec::legacy("2025-06-18", &[]));
    host.ask_tool(peer, "batch", json!({"notes": 1}));
    let error = host.next(MCP_SUPERVISED_EVENT_ERROR);
    assert_eq!(error.status, MCP_SUPERVISED_E_MALFORMED as i32);
    assert!(error.text().contains("batch array"), "{}", error.text());
}

#[test]
fn z07_the_log_level_is_set_after_each_handshake_if_the_server_logs() {
    let mut host = Host::new();
    let peer = served(&mut host, &Spec::legacy(NEWEST, &[]).server_log_level("warning").restart(2, 1, 60_000));
    for life in 1..=2 {
        does(&mut host, peer, "log", json!({"level": "info", "text": "quiet"}));
        does(&mut host, peer, "log", json!({"level": "error", "text": "loud"}));
        let logs: Vec<&Event> = host.seen.iter().filter(|e| e.method == b"notifications/message").collect();
        assert_eq!(logs.len(), life, "{logs:#?}");
        if life == 1 {
            killed(&mut host, peer);
        }
    }
    ends_well(host, peer);

    let scratch = Scratch::new();
    let path = scratch.name("record");
    let mut host = Host::new();
    let flags = ["--record", &path, "--capabilities", "{\"tools\":{}}"];
    let peer = served(&mut host, &Spec::legacy(NEWEST, &flags).server_log_level("debug"));
    does(&mut host, peer, "pid", json!({}));
    assert!(!std::fs::read_to_string(path).unwrap().contains("setLevel"));
    ends_well(host, peer);
}

#[test]
fn r10_progress_and_cancel_in_the_older_revisions() {
    let scratch = Scratch::new();
    let path = scratch.name("record");
    let mut host = Host::new();
    let peer = served(&mut host, &Spec::legacy(NEWEST, &["--record", &path]));
    let progress = options(|o| o.flags = MCP_SUPERVISED_REQUEST_PROGRESS);
    let params = json!({"name": "progress", "arguments": {"every_ms": 1, "count": 2}, "_meta": {"x": 1}}).to_string();
    let call = host.try_ask(peer, "tools/call", params, Some(&progress)).unwrap();
    host.completion(call);
    let notes = host.seen.iter().filter(|e| e.request == call && e.method == b"notifications/progress").count();
    assert_eq!(notes, 2);
    let silent = host.ask_tool(peer, "silent", json!({}));
    does(&mut host, peer, "pid", json!({}));
    assert_eq!(host.cancel(peer, silent, "enough"), 0);
    does(&mut host, peer, "pid", json!({}));
    ends_well(host, peer);
    let lines = read_lines(&std::fs::read_to_string(path).unwrap());
    let of = |id: u64| lines.iter().find(|line| line["id"] == id).unwrap();
    assert_eq!(of(call)["params"]["_meta"], json!({"progressToken": format!("progress-{call}"), "x": 1}));
    assert_eq!(of(silent)["params"].as_object().unwrap().get("_meta"), None);
    let cancel = lines.iter().find(|line| line["method"] == "notifications/cancelled").unwrap();
    assert_eq!(cancel["params"], json!({"requestId": silent, "reason": "enough"}));
}

#[test]
fn r09_result_types_mean_nothing_in_the_older_revisions() {
    let mut host = Host::new();
    let peer = served(&mut host, &Spec::legacy(NEWEST, &[]));
    let id = host.ask_tool(peer, "result_type", json!({"value": "input_required"}));
    let event = host.completion(id);
    assert_eq!((event.message_kind, event.flags), (MCP_SUPERVISED_MESSAGE_RESULT as u32, MCP_SUPERVISED_FLAG_COMPLETE));
}
