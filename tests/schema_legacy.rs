//! Every line that the library builds for a server of an older revision is one that the published schema of that revision allows:
//! the handshake, what a restart needs again, each method, what streams and discover are made of, answers to the server.

#[path = "support/schema.rs"]
mod schema;
mod support;

use std::collections::BTreeSet;

use schema::Schema;
use serde_json::{Value, json};
use support::*;

const REVISIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// A line of a client, by what it is.
fn check(schema: &Schema, revision: &str, line: &Value) -> Result<(), String> {
    if line.get("method").is_some() {
        let (envelope, meaning) = match line.get("id") {
            Some(_) => ("JSONRPCRequest", "ClientRequest"),
            None => ("JSONRPCNotification", "ClientNotification"),
        };
        return schema.check(envelope, line).and_then(|()| schema.check(meaning, line));
    }
    let newest = revision == REVISIONS[0];
    match line.get("result") {
        Some(result) => schema
            .check(if newest { "JSONRPCResultResponse" } else { "JSONRPCResponse" }, line)
            .and_then(|()| schema.check("ClientResult", result)),
        None => schema.check(if newest { "JSONRPCErrorResponse" } else { "JSONRPCError" }, line),
    }
}

#[test]
fn the_validator_finds_what_is_wrong() {
    for revision in REVISIONS {
        let Some(schema) = Schema::of(revision) else { return };
        let good = [
            json!({"jsonrpc": "2.0", "id": "a", "method": "resources/subscribe", "params": {"uri": "a"}}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 0, "result": {"roots": [{"uri": "file:///a"}]}}),
            json!({"jsonrpc": "2.0", "id": 0, "error": {"code": -1, "message": "m"}}),
        ];
        for line in good {
            assert_eq!(check(&schema, revision, &line), Ok(()), "{line}");
        }
        for bad in [
            json!({"jsonrpc": "2.0", "id": "a", "method": "resources/subscribe", "params": {}}),
            json!({"jsonrpc": "2.0", "id": null, "method": "ping"}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": revision}}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "loud"}}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {}}),
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": true}}),
            json!({"jsonrpc": "2.0", "id": 0, "error": {"code": "x", "message": "m"}}),
            json!({"jsonrpc": "2.0", "id": 0}),
        ] {
            assert!(check(&schema, revision, &bad).is_err(), "{revision}: {bad}");
        }
    }
}

/// The lines of every life of a server that was made to see everything a client can write.
fn everything(revision: &str, dir: &Scratch) -> Vec<String> {
    let (lives, path) = (dir.name("lives"), dir.name("record"));
    let flags = ["--record", &path, "--lives", &lives, "--ask", "ping", "--in-life", "1", "--mute", "resources/list"];
    let mut host = Host::with_manual_clock();
    let spec = Spec::legacy(revision, &flags)
        .restart(3, 1, 60_000)
        .timeouts(5_000, 60_000)
        .client_info("host \"quoted\" \u{e9}", "1.0")
        .capabilities("{\"roots\":{},\r\n\"sampling\":{},\"elicitation\":{\"form\":{}}}")
        .server_log_level("warning")
        .retry();
    let peer = host.launch(&spec);
    host.next(MCP_SUPERVISED_EVENT_READY);

    let progress = options(|o| o.flags = MCP_SUPERVISED_REQUEST_PROGRESS);
    for (method, params) in [
        ("ping", json!({})),
        ("tools/list", json!({"cursor": ""})),
        ("tools/call", json!({"name": "echo", "arguments": {"message": "a\nb"}})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "greet", "arguments": {"name": "Ada"}})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": "mem://counter"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": "A"}}),
        ),
    ] {
        let plain = host.try_ask(peer, method, serde_json::to_string_pretty(&params).unwrap(), None).unwrap();
        let mut with_meta = params;
        with_meta["_meta"] = json!({"vendor.example/x": [1.5]});
        let traced = host.try_ask(peer, method, with_meta.to_string(), Some(&progress)).unwrap();
        for id in [plain, traced] {
            assert_eq!(host.completion(id).error_code, 0, "{method}");
        }
    }
    // Its own requests.
    for (method, answer) in [
        ("roots/list", Some(json!({"roots": [{"uri": "file:///a", "name": "a"}]}))),
        (
            "sampling/createMessage",
            Some(json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "hi"}})),
        ),
        ("roots/list", None),
        ("vendor/x", None),
    ] {
        let call = host.ask_tool(peer, "ask_client", json!({"method": method}));
        if method != "vendor/x" {
            let is = |e: &Event| e.message_kind == MCP_SUPERVISED_MESSAGE_REQUEST as u32;
            let token = host.until(is).iter().find(|e| is(e)).unwrap().request;
            let status = match answer {
                Some(answer) => host.respond(peer, token, answer.to_string()),
                None => host.respond_error(peer, token, -1, "no", "[1]"),
            };
            assert_eq!(status, 0);
        }
        host.completion(call);
    }
    assert_eq!(host.notify(peer, "notifications/roots/list_changed", ""), 0);

    // Streams; the host and a deadline end something.
    let all = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["mem://counter", "file:///a%20b"]});
    let streams = [all, json!({"resourceSubscriptions": ["mem://counter"]})].map(|f| host.listen(peer, f, 0));
    host.acknowledged(streams[1], 1);
    let other = host.listen(peer, json!({"resourceSubscriptions": ["mem://counter/part"]}), 0);
    host.acknowledged(other, 1);
    let discover = host.ask(peer, "server/discover", json!({}));
    host.completion(discover);
    let silent = [0, 1].map(|_| host.ask_tool(peer, "silent", json!({})));
    let list = host.try_ask(peer, "resources/list", "{}", Some(&options(|o| o.timeout_ms = u64::MAX))).unwrap();
    let sync = host.ask_tool(peer, "pid", json!({}));
    host.completion(sync);
    assert_eq!(host.cancel(peer, silent[0], "line\nbreak \"quoted\""), 0);
    assert_eq!(host.cancel(peer, other, ""), 0);
    host.advance_ms(5_000);
    assert_eq!(host.completion(silent[1]).status, MCP_SUPERVISED_E_TIMEOUT as i32);
    let sync = host.ask_tool(peer, "pid", json!({}));
    host.completion(sync);

    // The replacement gets everything again.
    kill9(host.pid(peer));
    host.next(MCP_SUPERVISED_EVENT_CLOSE);
    host.advance_ms(1);
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    assert!(has(&host.completion(list), MCP_SUPERVISED_FLAG_RETRIED));
    host.acknowledged(streams[1], 2);
    host.close(peer);
    host.to_the_end(peer);
    std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn z03_every_line_is_one_of_the_revision() {
    for revision in REVISIONS {
        let (Some(schema), Some(newest), Some(modern)) =
            (Schema::of(revision), Schema::of(REVISIONS[0]), Schema::of("2026-07-28"))
        else {
            return;
        };
        let dir = Scratch::new();
        let mut seen = BTreeSet::new();
        let mut own = 0;
        for line in everything(revision, &dir) {
            let value: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            let method = value["method"].as_str().unwrap_or("answer").to_owned();
            let wrong = match method.as_str() {
                // The probe is of the present revision, and the handshake of the one it offers as well.
                "server/discover" => modern.check("ClientRequest", &value),
                "initialize" => check(&newest, REVISIONS[0], &value).and_then(|()| check(&schema, revision, &value)),
                // The host's own word, which the older schemas know as well.
                _ => check(&schema, revision, &value),
            };
            if let Err(wrong) = wrong {
                panic!("{revision}: {line}\n{wrong}");
            }
            own += usize::from(value["id"].as_str().is_some_and(|id| id.starts_with("mcp-supervised-")));
            seen.insert(method);
        }
        let all = [
            "answer",
            "completion/complete",
            "initialize",
            "logging/setLevel",
            "notifications/cancelled",
            "notifications/initialized",
            "notifications/roots/list_changed",
            "ping",
            "prompts/get",
            "prompts/list",
            "resources/list",
            "resources/read",
            "resources/subscribe",
            "resources/templates/list",
            "resources/unsubscribe",
            "server/discover",
            "tools/call",
            "tools/list",
        ];
        assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), all, "{revision}");
        assert_eq!(own, 11, "{revision}: the probe, two handshakes, two levels, six for resources");
    }
}

#[test]
fn z03_what_is_made_is_of_the_present_revision() {
    let Some(schema) = Schema::of("2026-07-28") else { return };
    for revision in REVISIONS {
        let mut host = Host::new();
        let peer = host.launch(&Spec::legacy(revision, &[]));
        let discover = host.ask(peer, "server/discover", json!({}));
        let result: Value = serde_json::from_slice(&host.completion(discover).body).unwrap();
        assert_eq!(schema.check("DiscoverResult", &result), Ok(()));
        let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["mem://counter"]});
        let stream = host.listen(peer, filter, 0);
        let ack = host.acknowledged(stream, 1).json();
        assert_eq!(schema.check("SubscriptionsAcknowledgedNotification", &ack), Ok(()));
    }
}
