//! One server that is told everything a client of the 2026-07-28 revision can say: each method, with and without what a host may
//! add, each reason to cancel, a replacement that is asked again. What it records is judged with all the rest that the suite
//! records, by `tests/judge`.

mod support;

use std::collections::BTreeSet;

use serde_json::json;
use support::*;

const REVISION: &str = "2026-07-28";
const CANCELLED: &str = "notifications/cancelled";

/// The lines of every life of a server that was made to see everything a client can write.
fn everything(dir: &Scratch) -> Vec<String> {
    let lives = dir.name("lives");
    let records = [1, 2].map(|life| dir.name(&format!("record{life}")));
    let mut flags = vec!["--lives", &lives, "--in-life", "1", "--record", &records[0], "--mute", "resources/list"];
    flags.extend(["--in-life", "2", "--record", &records[1]]);
    let mut host = Host::with_manual_clock();
    let spec = Spec::modern(&flags)
        .restart(3, 1, 60_000)
        .timeouts(5_000, 60_000)
        .client_info("host \"quoted\" \u{e9}", "1.0")
        .capabilities("{\"elicitation\":{\"form\":{}},\r\n\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}")
        .server_log_level("warning")
        .retry()
        .rediscover()
        .shed();
    let peer = host.launch(&spec);

    // Each method, with a `_meta` of the host's, and with progress.
    let progress = options(|o| o.flags = MCP_SUPERVISED_REQUEST_PROGRESS);
    let traced =
        json!({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "vendor.example/x": [1.5]});
    for (method, params) in [
        ("server/discover", json!({})),
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
        with_meta["_meta"] = traced.clone();
        let traced = host.try_ask(peer, method, with_meta.to_string(), Some(&progress)).unwrap();
        host.completion(plain);
        assert_eq!(host.completion(traced).error_code, 0, "{method}");
    }
    let own = json!({"name": "pid", "_meta": {"progressToken": 7, "io.modelcontextprotocol/logLevel": "loud"}});
    let id = host.ask(peer, "tools/call", own);
    host.completion(id);
    let asked = host.ask_tool(peer, "ask", json!({}));
    let state = host.completion(asked).json()["result"]["requestState"].clone();
    let responses = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
    let id = host.ask(peer, "tools/call", json!({"name": "ask", "inputResponses": responses, "requestState": state}));
    assert_eq!(host.completion(id).tool_text(), "hello Ada");
    // A refused version is asked once more.
    let refused = json!({"code": -32022, "data": {"supported": [REVISION]}});
    let id = host.ask_tool(peer, "error", refused);
    host.completion(id);

    // Streams; the host, a deadline and the host's own words end something.
    let all = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["mem://counter", "file:///a%20b"]});
    let streams =
        [all, json!({}), json!({"resourceSubscriptions": ["mem://counter"]})].map(|f| host.listen(peer, f, 0));
    host.acknowledged(streams[2], 1);
    let silent = [0, 1, 2].map(|_| host.ask_tool(peer, "silent", json!({})));
    let list = host.try_ask(peer, "resources/list", "{}", Some(&options(|o| o.timeout_ms = u64::MAX))).unwrap();
    let sync = host.ask_tool(peer, "pid", json!({}));
    host.completion(sync);
    assert_eq!(host.cancel(peer, silent[0], "line\nbreak \u{1f600} \"quoted\""), 0);
    assert_eq!(host.cancel(peer, streams[1], ""), 0);
    let params = json!({"requestId": silent[1], "reason": "by notify"}).to_string();
    assert_eq!(host.notify(peer, CANCELLED, params), 0);
    host.advance_ms(5_000);
    assert_eq!(host.completion(silent[2]).status, MCP_SUPERVISED_E_TIMEOUT as i32);
    let sync = host.ask_tool(peer, "pid", json!({}));
    host.completion(sync);

    // The replacement is asked what it is, gets what was retained and the streams.
    kill9(host.pid(peer));
    host.next(MCP_SUPERVISED_EVENT_CLOSE);
    host.advance_ms(1);
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    assert!(has(&host.completion(list), MCP_SUPERVISED_FLAG_RETRIED));
    host.acknowledged(streams[2], 2);
    // A host that does not keep up loses those that have much to tell, and the close ends the last one.
    let quiet = host.listen(peer, json!({"promptsListChanged": true}), 0);
    host.acknowledged(quiet, 1);
    let flood = host.ask_tool(peer, "flood", json!({"count": 3_000, "kind": "updated"}));
    host.until_written(host.pid(peer));
    host.completion(flood);
    for lost in [streams[0], streams[2]] {
        assert_eq!(host.completion(lost).status, MCP_SUPERVISED_E_DELIVERY_DROPPED as i32);
    }
    let sync = host.ask_tool(peer, "pid", json!({}));
    host.completion(sync);
    host.close(peer);
    host.to_the_end(peer);
    records
        .iter()
        .flat_map(|name| std::fs::read_to_string(name).unwrap().lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

#[test]
fn r01_a_server_is_told_everything() {
    let dir = Scratch::new();
    let lines = everything(&dir);
    let values = read_lines(&lines.join("\n"));
    let all = [
        "completion/complete",
        CANCELLED,
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "server/discover",
        "subscriptions/listen",
        "tools/call",
        "tools/list",
    ];
    assert_eq!(methods(&values).into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(all));
    // What was meant to be in it is in it.
    let cancels = lines.iter().filter(|line| line.contains(CANCELLED)).count();
    assert_eq!(cancels, 8, "a request, a stream, a notification, two deadlines, two shed streams, close: {lines:#?}");
    assert!(lines.iter().any(|line| line.contains("mcp-supervised-1")));
    assert!(lines.iter().any(|line| line.contains("clientInfo") && line.contains("logLevel")));
}
