//! The protocol client against servers that are not ours, on the official SDKs. As in `real_servers.rs`, they are there when
//! `./tests/all` has installed them.

#[path = "support/installed.rs"]
mod installed;
mod support;

use installed::{Way, installed, recorded_server};
use serde_json::{Value, json};
use std::time::Instant;
use support::watch::signal;
use support::*;

const UPDATED: &[u8] = b"notifications/resources/updated";
const TOOLS_CHANGED: &[u8] = b"notifications/tools/list_changed";
const PROGRESS: &[u8] = b"notifications/progress";

/// The server with the protocol client on.
fn modern(name: &str) -> Option<Spec> {
    Some(usual(recorded_server(name)?))
}

/// The same without anything between, for what is about the process that the library has started.
fn direct(name: &str) -> Option<Spec> {
    Some(usual(installed(name, Way::Direct)?.mode(MCP_SUPERVISED_MODE_MODERN)))
}

fn usual(spec: Spec) -> Spec {
    spec.restart(3, 10, 60_000).client_info("mcp-supervised-tests", "1.0")
}

/// Calls a tool and waits for its answer.
fn does(host: &mut Host, peer: u64, tool: &str, arguments: Value) -> String {
    let id = host.ask_tool(peer, tool, arguments);
    let answer = host.completion(id);
    assert_eq!(answer.message_kind, MCP_SUPERVISED_MESSAGE_RESULT as u32, "{tool}: {}", answer.text());
    answer.tool_text()
}

/// Calls a tool until a stream is told of it: a server may acknowledge a stream a moment before it serves it, as rmcp does. Gives
/// the first answer and the delivery.
fn tells(host: &mut Host, peer: u64, tool: &str, stream: u64, method: &[u8]) -> (String, Event) {
    let from = host.seen.len();
    let deadline = Instant::now() + PATIENCE;
    let first = does(host, peer, tool, json!({}));
    loop {
        if let Some(event) = host.seen[from..].iter().find(|e| e.request == stream && e.method == method) {
            return (first, event.clone());
        }
        assert!(Instant::now() < deadline, "{stream} is told nothing");
        does(host, peer, tool, json!({}));
    }
}

/// Stops a server with all its threads: one that still sleeps in a read would take what comes meanwhile.
fn stops(pid: i32) {
    signal(pid, libc::SIGSTOP);
    wait_for("every thread is stopped", || {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it lives");
        tasks.flatten().all(|task| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        })
    });
}

fn both() -> Value {
    json!({"toolsListChanged": true, "resourceSubscriptions": ["mem://counter"]})
}

/// Every listing and a call, and what the server says of itself.
fn asked(name: &str) {
    let Some(spec) = modern(name) else { return };
    let mut host = Host::new();
    let peer = host.launch(&spec);
    let ids = ["server/discover", "tools/list", "resources/list"].map(|method| host.ask(peer, method, json!({})));
    let read = host.ask(peer, "resources/read", json!({"uri": "mem://counter"}));
    let [discover, tools, resources] = ids.map(|id| host.completion(id).json()["result"].clone());
    assert!(discover["supportedVersions"].as_array().is_some_and(|all| all.contains(&json!("2026-07-28"))));
    assert!(tools["tools"].as_array().is_some_and(|tools| tools.iter().any(|tool| tool["name"] == "echo")));
    assert_eq!(resources["resources"][0]["uri"], "mem://counter");
    assert_eq!(host.completion(read).json()["result"]["contents"][0]["text"], "0");
    assert_eq!(does(&mut host, peer, "echo", json!({"message": "h\u{e9} \"\\\n"})), "h\u{e9} \"\\\n");
    let (info, is_stale) = host.server_info(peer);
    assert!(info.contains(&format!("mcp-supervised-{name}")) && !is_stale, "{info}");
    let unknown = host.ask(peer, "vendor/x", json!({}));
    assert_eq!(host.completion(unknown).error_code, -32601);
    assert_eq!(texts(&host, MCP_SUPERVISED_EVENT_ERROR), [""; 0]);
}

/// A stream delivers, comes through a kill under its id, and delivers again.
fn stream_survives(name: &str) {
    let Some(spec) = modern(name) else { return };
    let mut host = Host::new();
    let peer = host.launch(&spec);
    let stream = host.listen(peer, both(), 77);
    for life in 1..=3 {
        let ack = host.acknowledged(stream, life);
        assert_eq!(ack.user_data, 77);
        assert_eq!(ack.json()["params"]["notifications"], both(), "{}", ack.text());
        let (count, update) = tells(&mut host, peer, "bump", stream, UPDATED);
        assert_eq!(count, "1", "a new life counts from the beginning");
        assert_eq!((update.user_data, update.flags), (77, 0));
        tells(&mut host, peer, "flip", stream, TOOLS_CHANGED);
        if life < 3 {
            kill9(host.pid(peer));
            let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
            // What was told on the way may still come.
            assert_eq!(letters(&taken).replace("M ", ""), "D C R", "the loss is absorbed");
        }
    }
    assert_eq!(host.close(peer), 0);
    let taken = host.to_the_end(peer);
    assert_eq!(letters(&taken).replace("M ", ""), "D C E");
    let end = taken.last().unwrap();
    assert_eq!((end.request, end.status), (stream, MCP_SUPERVISED_E_CLOSED as i32));
}

/// What was in flight at the kill: a listing is answered by the replacement under its id, a call fails once.
fn retried(name: &str) {
    let Some(spec) = direct(name) else { return };
    let mut host = Host::new();
    let peer = host.launch(&spec.retry());
    let read = host.ask_tool(peer, "sleep", json!({"ms": 600_000}));
    does(&mut host, peer, "echo", json!({"message": "so it was read"}));
    let pid = host.pid(peer);
    stops(pid);
    let unread = host.ask_tool(peer, "bump", json!({}));
    let list = host.try_ask(peer, "tools/list", "{}", Some(&options(|o| o.user_data = 9))).unwrap();
    host.drive();
    kill9(pid);
    let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    assert_eq!(letters(&taken), "D C E E R");
    let answer = host.completion(list);
    assert!(answer.json()["result"]["tools"].is_array(), "{}", answer.text());
    assert_eq!((answer.flags, answer.user_data), (MCP_SUPERVISED_FLAG_COMPLETE | MCP_SUPERVISED_FLAG_RETRIED, 9));
    let closed = MCP_SUPERVISED_E_CLOSED as i32;
    let lost = host.completion(read);
    assert_eq!((lost.status, lost.flags), (closed, MCP_SUPERVISED_FLAG_COMPLETE));
    let lost = host.completion(unread);
    assert_eq!((lost.status, lost.flags), (closed, MCP_SUPERVISED_FLAG_COMPLETE | MCP_SUPERVISED_FLAG_UNREAD));
    assert_eq!(does(&mut host, peer, "bump", json!({})), "1", "the lost one was not sent again");
    assert_eq!(host.seen.iter().filter(|e| [read, unread, list].contains(&e.request)).count(), 3, "each told once");
}

/// Progress comes with its call, and keeps it alive.
fn progress(name: &str) {
    let Some(spec) = modern(name) else { return };
    let mut host = Host::new();
    let peer = host.launch(&spec);
    let options = options(|o| (o.flags, o.user_data) = (MCP_SUPERVISED_REQUEST_PROGRESS, 3));
    let params = r#"{"name":"sleep","arguments":{"ms":40}}"#;
    let id = host.try_ask(peer, "tools/call", params, Some(&options)).unwrap();
    assert_eq!(host.completion(id).tool_text(), "slept");
    let notes: Vec<&Event> = host.seen.iter().filter(|e| e.method == PROGRESS).collect();
    let steps: Vec<Option<f64>> = notes.iter().map(|e| e.json()["params"]["progress"].as_f64()).collect();
    assert_eq!(steps, [1.0, 2.0, 3.0, 4.0].map(Some));
    assert!(notes.iter().all(|e| (e.request, e.user_data) == (id, 3)));
    // Nobody asked: nobody is told.
    let from = host.seen.len();
    does(&mut host, peer, "sleep", json!({"ms": 4}));
    assert!(!host.seen[from..].iter().any(|e| e.method == PROGRESS));
}

/// The host ends a call and a stream; the server goes on with the others.
fn cancelled(name: &str) {
    let Some(spec) = modern(name) else { return };
    let mut host = Host::new();
    let peer = host.launch(&spec);
    let kept = host.listen(peer, both(), 1);
    let ended = host.listen(peer, both(), 2);
    host.acknowledged(kept, 1);
    host.acknowledged(ended, 1);
    let call = host.ask_tool(peer, "sleep", json!({"ms": 600_000}));
    does(&mut host, peer, "echo", json!({"message": "so it was read"}));
    for id in [call, ended] {
        assert_eq!(host.cancel(peer, id, "enough"), 0);
        let end = host.completion(id);
        assert_eq!((end.status, end.flags), (MCP_SUPERVISED_E_CANCELLED as i32, MCP_SUPERVISED_FLAG_COMPLETE));
    }
    let from = host.seen.len();
    tells(&mut host, peer, "bump", kept, UPDATED);
    does(&mut host, peer, "echo", json!({"message": "all that was written before is here"}));
    assert!(!host.seen[from..].iter().any(|e| e.request == call || e.request == ended));
}

/// What is known is asked for again, and is the same.
fn rediscovered(name: &str) {
    let Some(spec) = modern(name) else { return };
    let mut host = Host::new();
    let peer = host.launch(&spec.rediscover());
    let discover = host.ask(peer, "server/discover", json!({}));
    host.completion(discover);
    let before = (host.server_info(peer), host.server_capabilities(peer));
    kill9(host.pid(peer));
    let reconnect = host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    assert!(!has(&reconnect, MCP_SUPERVISED_FLAG_SERVER_CHANGED));
    assert_eq!((host.server_info(peer), host.server_capabilities(peer)), before);
    does(&mut host, peer, "echo", json!({"message": "x"}));
}

/// The scenarios for one server.
macro_rules! servers {
    ($($name:ident)*) => {$(
        mod $name {
            const NAME: &str = stringify!($name);

            #[test]
            fn r01_asked() {
                super::asked(NAME);
            }

            #[test]
            fn s03_a_stream_survives_every_kill() {
                super::stream_survives(NAME);
            }

            #[test]
            fn t01_a_listing_is_sent_again_and_a_call_is_not() {
                super::retried(NAME);
            }

            #[test]
            fn r10_progress() {
                super::progress(NAME);
            }

            #[test]
            fn r05_cancelled() {
                super::cancelled(NAME);
            }

            #[test]
            fn r07_rediscovered() {
                super::rediscovered(NAME);
            }
        }
    )*};
}

servers!(ts2 py2 rmcp3);

#[test]
fn r09_ts2_asks_for_more_input() {
    let Some(spec) = modern("ts2") else { return };
    let mut host = Host::new();
    let peer = host.launch(&spec.capabilities(r#"{"elicitation":{"form":{}}}"#));
    let first = host.ask_tool(peer, "ask", json!({}));
    let asked = host.completion(first);
    assert_eq!(asked.flags, MCP_SUPERVISED_FLAG_COMPLETE | MCP_SUPERVISED_FLAG_INPUT_REQUIRED, "{}", asked.text());
    let result = &asked.json()["result"];
    assert_eq!(result["inputRequests"]["name"]["method"], "elicitation/create");
    let responses = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
    let params =
        json!({"name": "ask", "arguments": {}, "inputResponses": responses, "requestState": result["requestState"]});
    let second = host.ask(peer, "tools/call", params);
    let answer = host.completion(second);
    assert_eq!((answer.tool_text().as_str(), answer.flags), ("hello Ada", MCP_SUPERVISED_FLAG_COMPLETE));
}

#[test]
fn r09_ts2_does_not_ask_a_client_that_cannot_answer() {
    let Some(spec) = modern("ts2") else { return };
    let mut host = Host::new();
    let peer = host.launch(&spec);
    let id = host.ask_tool(peer, "ask", json!({}));
    assert_eq!(host.completion(id).error_code, -32021);
}

#[test]
fn s04_ts2_ends_its_streams_when_it_is_told_to_go() {
    let Some(spec) = direct("ts2") else { return };
    let mut host = Host::new();
    let peer = host.launch(&spec.arg("--graceful"));
    let streams = [host.listen(peer, both(), 1), host.listen(peer, json!({"toolsListChanged": true}), 2)];
    for stream in streams {
        host.acknowledged(stream, 1);
    }
    signal(host.pid(peer), libc::SIGTERM);
    let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    for (stream, data) in streams.into_iter().zip([1, 2]) {
        let end = host.completion(stream);
        assert_eq!((end.message_kind, end.user_data), (MCP_SUPERVISED_MESSAGE_RESULT as u32, data), "{}", end.text());
    }
    assert_eq!(letters(&taken), "M M D C R");
    // Ended is ended.
    does(&mut host, peer, "bump", json!({}));
    does(&mut host, peer, "flip", json!({}));
    assert!(!host.seen.iter().any(|e| e.method == UPDATED || e.method == TOOLS_CHANGED));
}
