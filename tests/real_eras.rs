//! The eras with servers that are not ours. Those of the older one ask their client: what they ask reaches the host, what it
//! answers reaches them, and nothing of it survives the connection (Z4). Those of both are found to speak something they go on
//! with, also when they are slower than the probe waits (Z5). As in `real_servers.rs`, they are there when `./tests/all` has
//! installed them.

#[path = "support/installed.rs"]
mod installed;
mod support;

use installed::{Way, installed};
use serde_json::{Value, json};
use support::*;

/// A host with a server that serves.
fn serving(name: &str, capabilities: &str) -> Option<(Host, u64)> {
    let spec = installed(name, Way::Direct)?.mode(MCP_SUPERVISED_MODE_AUTO).restart(3, 10, 60_000);
    let spec = spec.client_info("mcp-supervised-tests", "1.0").capabilities(capabilities);
    let mut host = Host::new();
    let peer = host.launch(&spec);
    let ready = host.next(MCP_SUPERVISED_EVENT_READY);
    assert_eq!((ready.text().as_str(), ready.era), ("2025-11-25", MCP_SUPERVISED_ERA_LEGACY as u32));
    Some((host, peer))
}

fn respond(host: &Host, peer: u64, token: u64, result: Value) -> i32 {
    let result = result.to_string();
    // SAFETY: a live handle and valid text.
    unsafe { mcp_supervised_respond(host.raw(), peer, token, result.as_ptr().cast(), result.len()) }
}

fn respond_error(host: &Host, peer: u64, token: u64, code: i64, message: &str) -> i32 {
    let (at, len) = (message.as_ptr().cast(), message.len());
    // SAFETY: a live handle and valid texts.
    unsafe { mcp_supervised_respond_error(host.raw(), peer, token, code, at, len, std::ptr::null(), 0) }
}

/// The next request of the server, which must be this one, from a place among the events on.
fn asked(host: &mut Host, from: usize, method: &str) -> Event {
    let is = |e: &Event| e.is(MCP_SUPERVISED_EVENT_MESSAGE) && e.message_kind == MCP_SUPERVISED_MESSAGE_REQUEST as u32;
    if !host.seen[from..].iter().any(is) {
        host.until(is);
    }
    let event = host.seen[from..].iter().find(|e| is(e)).expect("it was seen").clone();
    assert_eq!(event.method, method.as_bytes(), "{}", event.text());
    assert_ne!(event.request, 0, "there is a token to answer it by");
    event
}

const FORM: &str = r#"{"elicitation":{}}"#;

#[test]
fn z04_a_server_asks_in_the_middle_of_a_call() {
    let Some((mut host, peer)) = serving("ts1", FORM) else { return };
    for (action, said) in [("accept", "hello Ada"), ("decline", "hello decline")] {
        let from = host.seen.len();
        let call = host.ask_tool(peer, "ask", json!({}));
        let asks = asked(&mut host, from, "elicitation/create");
        let params: Value = serde_json::from_slice(&asks.body).expect("params are JSON");
        assert_eq!(params["requestedSchema"]["required"], json!(["name"]));
        let answer = match action {
            "accept" => json!({"action": action, "content": {"name": "Ada"}}),
            _ => json!({"action": action}),
        };
        assert_eq!(respond(&host, peer, asks.request, answer.clone()), 0);
        assert_eq!(host.completion(call).tool_text(), said);
        assert_eq!(respond(&host, peer, asks.request, answer), MCP_SUPERVISED_E_NO_REQUEST as i32, "it was answered");
    }
    // A refusal is the answer of the call.
    let from = host.seen.len();
    let call = host.ask_tool(peer, "ask", json!({}));
    let asks = asked(&mut host, from, "elicitation/create");
    assert_eq!(respond_error(&host, peer, asks.request, -1, "nobody is here"), 0);
    assert!(host.completion(call).text().contains("nobody is here"));
}

#[test]
fn z04_what_a_dead_server_asked_is_not_answered_to_its_replacement() {
    let Some((mut host, peer)) = serving("ts1", FORM) else { return };
    let call = host.ask_tool(peer, "ask", json!({}));
    let asks = asked(&mut host, 0, "elicitation/create");
    kill9(host.pid(peer));
    host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    assert_eq!(host.completion(call).status, MCP_SUPERVISED_E_CLOSED as i32);
    let accept = || json!({"action": "accept", "content": {"name": "Ada"}});
    assert_eq!(respond(&host, peer, asks.request, accept()), MCP_SUPERVISED_E_CLOSED as i32);
    // The replacement counts its ids anew; the tokens go on.
    let from = host.seen.len();
    let call = host.ask_tool(peer, "ask", json!({}));
    let again = asked(&mut host, from, "elicitation/create");
    assert_eq!(again.id, asks.id, "the same id, of another connection");
    assert_ne!(again.request, asks.request);
    assert_eq!(respond(&host, peer, again.request, accept()), 0);
    assert_eq!(host.completion(call).tool_text(), "hello Ada");
}

/// The reference server with everything declared: it announces and asks as soon as the handshake is over, with id 0, in every life.
#[test]
fn z04_a_server_that_asks_at_once() {
    if std::env::var_os("MCP_SUPERVISED_TEST_EVERY_SERVER").is_none() {
        println!("skipped: ./tests/all --servers runs it");
        return;
    }
    let declared = r#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{}}"#;
    let Some((mut host, peer)) = serving("everything", declared) else { return };
    let stream = host.listen(peer, json!({"toolsListChanged": true}), 0);
    host.acknowledged(stream, 1);
    let mut from = 0;
    for life in 1..=2 {
        let asks = asked(&mut host, from, "roots/list");
        assert_eq!(asks.id, b"0", "in life {life}");
        assert_eq!(respond(&host, peer, asks.request, json!({"roots": [{"uri": "file:///tmp", "name": "t"}]})), 0);

        let list = host.ask(peer, "tools/list", json!({}));
        let tools = host.completion(list).text();
        for tool in ["get-roots-list", "trigger-sampling-request", "trigger-elicitation-request"] {
            assert!(tools.contains(&format!("\"{tool}\"")), "{tool} is for clients that declare the capability");
        }
        let roots = host.ask_tool(peer, "get-roots-list", json!({}));
        assert!(host.completion(roots).text().contains("file:///tmp"));

        from = host.seen.len();
        let call = host.ask_tool(peer, "trigger-sampling-request", json!({"prompt": "hi", "maxTokens": 5}));
        let asks = asked(&mut host, from, "sampling/createMessage");
        let answer = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "what it made up"}});
        assert_eq!(respond(&host, peer, asks.request, answer), 0);
        assert!(host.completion(call).text().contains("what it made up"));

        from = host.seen.len();
        let call = host.ask_tool(peer, "trigger-elicitation-request", json!({}));
        let asks = asked(&mut host, from, "elicitation/create");
        assert_eq!(respond(&host, peer, asks.request, json!({"action": "cancel"})), 0);
        assert_eq!(host.completion(call).message_kind, MCP_SUPERVISED_MESSAGE_RESULT as u32);

        if life == 1 {
            from = host.seen.len();
            kill9(host.pid(peer));
            host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
            host.acknowledged(stream, 2);
        }
    }
    assert_eq!(host.close(peer), 0);
    host.to_the_end(peer);
    assert_eq!((host.last_close().exit_code, host.last_close().signal), (0, 0));
}

/// Whoever is slower than the probe waits gets the handshake behind it, and answers both in its own way: what is spoken then is what
/// the server goes on with, now and in its next life.
fn slower_than_the_probe(name: &str, versions: &[&str]) {
    let Some(spec) = installed(name, Way::Direct) else { return };
    let spec = spec.mode(MCP_SUPERVISED_MODE_AUTO).restart(3, 10, 60_000).start_timeouts(1, 60_000);
    let mut host = Host::new();
    let peer = host.launch(&spec);
    let ready = host.next(MCP_SUPERVISED_EVENT_READY);
    assert!(versions.contains(&ready.text().as_str()), "{}", ready.text());
    let stream = host.listen(peer, json!({"toolsListChanged": true}), 0);
    let told = |e: &Event| e.request == stream && e.method == b"notifications/tools/list_changed";
    for life in 1..=2 {
        host.acknowledged(stream, life);
        let echo = host.ask_tool(peer, "echo", json!({"message": "x"}));
        assert_eq!(host.completion(echo).tool_text(), "x");
        // Ours on rmcp tells its subscribers only, whom the older era does not know.
        while name != "rmcp3" && host.seen.iter().filter(|e| told(e)).count() < life {
            let flip = host.ask_tool(peer, "flip", json!({}));
            host.completion(flip);
        }
        if life == 1 {
            kill9(host.pid(peer));
            let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
            let again = taken.iter().find(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT)).expect("it was seen");
            assert_eq!((again.text(), again.era), (ready.text(), ready.era), "what was found is kept");
        }
    }
    let errors: Vec<_> = host.seen.iter().filter(|e| e.is(MCP_SUPERVISED_EVENT_ERROR)).map(Event::text).collect();
    assert_eq!(errors, [""; 0]);
}

/// This one keeps to the modern era when it has answered the probe, late as that was, and refuses the handshake.
#[test]
fn z05_a_server_that_is_slower_than_the_probe_and_locks() {
    slower_than_the_probe("py2", &["2026-07-28"]);
}

#[test]
fn z05_a_server_that_is_slower_than_the_probe_and_takes_both() {
    slower_than_the_probe("ts2", &["2025-11-25", "2026-07-28"]);
    slower_than_the_probe("rmcp3", &["2025-11-25", "2026-07-28"]);
}

#[test]
fn z05_an_older_server_that_is_slower_than_the_probe() {
    slower_than_the_probe("ts1", &["2025-11-25"]);
}

/// Asked for the older era, a server of both gives it; streams are made of its subscriptions then.
#[test]
fn z01_a_server_of_both_eras_in_the_older_one() {
    for name in ["ts2", "py2", "rmcp3"] {
        let Some(spec) = installed(name, Way::Direct) else { return };
        let mut host = Host::new();
        let peer = host.launch(&spec.mode(MCP_SUPERVISED_MODE_LEGACY).restart(3, 10, 60_000));
        let ready = host.next(MCP_SUPERVISED_EVENT_READY);
        assert_eq!((ready.text().as_str(), ready.era), ("2025-11-25", MCP_SUPERVISED_ERA_LEGACY as u32));
        let echo = host.ask_tool(peer, "echo", json!({"message": "x"}));
        assert_eq!(host.completion(echo).tool_text(), "x");
        let discover = host.ask(peer, "server/discover", json!({}));
        assert!(has(&host.completion(discover), MCP_SUPERVISED_FLAG_EMULATED));
        kill9(host.pid(peer));
        assert_eq!(host.next(MCP_SUPERVISED_EVENT_RECONNECT).era, MCP_SUPERVISED_ERA_LEGACY as u32);
        let echo = host.ask_tool(peer, "echo", json!({"message": "y"}));
        assert_eq!(host.completion(echo).tool_text(), "y");
    }
}

/// A server that knows no handshake any more says so, and it is given up with its own words.
#[test]
fn z05_a_modern_server_refuses_the_handshake() {
    let Some(spec) = installed("ts2", Way::Direct) else { return };
    let spec = spec.arg("--modern-only");
    let mut host = Host::new();
    let peer = host.launch(&spec.mode(MCP_SUPERVISED_MODE_LEGACY).restart(1, 10, 60_000));
    let waits = host.ask(peer, "tools/list", json!({}));
    let taken = host.to_the_end(peer);
    let errors: Vec<&Event> = taken
        .iter()
        .filter(|e| e.is(MCP_SUPERVISED_EVENT_ERROR) && e.status == MCP_SUPERVISED_E_HANDSHAKE as i32)
        .collect();
    assert_eq!(errors.len(), 2, "one for each life");
    assert!(errors.iter().all(|e| e.text().contains("-32022") || e.text().contains("2026-07-28")), "{errors:?}");
    assert!(host.completion(waits).is(MCP_SUPERVISED_EVENT_ERROR));
    assert!(taken.iter().any(|e| e.is(MCP_SUPERVISED_EVENT_EXHAUSTED)));
    // Left to find out by itself, the library speaks with it.
    let Some(spec) = installed("ts2", Way::Direct) else { return };
    let mut host = Host::new();
    let peer = host.launch(&spec.arg("--modern-only").mode(MCP_SUPERVISED_MODE_AUTO));
    assert_eq!(host.next(MCP_SUPERVISED_EVENT_READY).text(), "2026-07-28");
    let echo = host.ask_tool(peer, "echo", json!({"message": "x"}));
    assert_eq!(host.completion(echo).message_kind, MCP_SUPERVISED_MESSAGE_RESULT as u32);
}
