//! What the protocol client knows of its server, and what it makes of answers of unusual kinds: capabilities, versions, types of
//! results, ids as strings, lines that are broken.

mod support;

use serde_json::{Value, json};
use support::*;

const UNSUPPORTED: i32 = MCP_SUPERVISED_E_UNSUPPORTED as i32;
const PROTOCOL: i32 = MCP_SUPERVISED_E_PROTOCOL as i32;

#[test]
fn without_newer_kernel_calls() {
    run_file_again_without_newer_kernel_calls();
}

fn discovers(host: &mut Host, peer: u64) -> Event {
    let id = host.ask(peer, "server/discover", json!({}));
    host.completion(id)
}

/// Kills the server and waits for its replacement.
fn replaced(host: &mut Host, peer: u64) -> Event {
    kill9(host.pid(peer));
    host.next(MCP_SUPERVISED_EVENT_RECONNECT)
}

/// One call, so that the server is known to be up.
fn warm(host: &mut Host, peer: u64) {
    let id = host.ask_tool(peer, "pid", json!({}));
    host.completion(id);
}

/// Tries to call a method with string id "s" by the path that tracks nothing.
fn send_raw(host: &mut Host, peer: u64, method: &str) -> i32 {
    let line = request_line("s", method, json!({}));
    host.try_send(peer, line).map_or_else(|status| status, |_| 0)
}

#[test]
fn r07_what_the_server_lacks_is_refused_once_it_has_said_so() {
    let dir = Scratch::new();
    let mut host = Host::new();
    let capabilities = r#"{"prompts":{},"resources":null}"#;
    let flags = ["--capabilities", capabilities, "--record", &dir.name("record")];
    // One line is a notification with the name of a request.
    let peer = host.launch(&Spec::modern(&flags).judged(Judged::Stamped).restart(3, 1, 60_000));
    assert_eq!(host.server_capabilities(peer), (String::new(), false));
    assert_eq!(host.server_info(peer), (String::new(), false));
    // Before it was asked nobody knows, and afterwards what was accepted stays accepted.
    let early = host.ask(peer, "tools/list", json!({}));
    let discover = discovers(&mut host, peer);
    assert_eq!(host.server_capabilities(peer), (discover.json()["result"]["capabilities"].to_string(), false));
    assert!(host.completion(early).json()["result"]["tools"].is_array());

    for (method, needed) in [
        ("tools/list", "tools"),
        ("tools/call", "tools"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resources"),
        ("resources/read", "resources"),
        ("completion/complete", "completions"),
    ] {
        assert_eq!(host.try_ask(peer, method, "{}", None), Err(UNSUPPORTED), "{method}");
        let text = host.last_error();
        assert!(text.contains(needed) && text.contains(method), "{text}");
        assert_eq!(send_raw(&mut host, peer, method), UNSUPPORTED, "{method} by send");
    }
    for method in ["prompts/list", "server/discover", "vendor/x"] {
        let id = host.ask(peer, method, json!({}));
        host.completion(id);
    }
    // A notification of that name is nobody's request.
    assert_eq!(host.notify(peer, "tools/list", ""), 0);
    let last = host.ask(peer, "prompts/list", json!({}));
    host.completion(last);
    assert_eq!(dir.read("record").lines().count(), 7, "nothing that was refused");

    // What is known is of the dead one: it is still told, and refuses nothing.
    replaced(&mut host, peer);
    assert_eq!(host.server_capabilities(peer), (discover.json()["result"]["capabilities"].to_string(), true));
    assert!(host.server_info(peer).1);
    let now = host.ask(peer, "tools/list", json!({}));
    assert!(host.completion(now).json()["result"]["tools"].is_array());
    assert_eq!(send_raw(&mut host, peer, "tools/list"), 0);
    host.answer("s");
    discovers(&mut host, peer);
    assert_eq!(host.try_ask(peer, "tools/list", "{}", None), Err(UNSUPPORTED));
    assert!(!host.server_capabilities(peer).1);
}

#[test]
fn r07_a_discover_that_fails_changes_nothing() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&["--on-discover", "error:-32601", "--capabilities", "{}"]));
    assert_eq!(discovers(&mut host, peer).error_code, -32601);
    assert_eq!(host.server_capabilities(peer), (String::new(), false));
    let id = host.ask(peer, "tools/list", json!({}));
    host.completion(id);
}

/// A spec whose lives say different things of themselves.
fn by_life(dir: &Scratch, later: &[&str]) -> Spec {
    let lives = dir.name("lives");
    let flags = [&["--lives", &lives, "--in-life", "2"], later].concat();
    Spec::modern(&flags).restart(3, 1, 60_000)
}

#[test]
fn r07_rediscover_compares_the_replacement_with_what_was_known() {
    for (later, changed) in [
        (&[][..], false),
        (&["--server-version", "9.9"][..], true),
        (&["--name", "another"][..], true),
        (&["--capabilities", r#"{"tools":{}}"#][..], true),
        (&["--supported", "2026-07-28,2099-01-01"][..], true),
    ] {
        let dir = Scratch::new();
        let mut host = Host::new();
        let peer = host.launch(&by_life(&dir, later).rediscover());
        discovers(&mut host, peer);
        let before = (host.server_info(peer).0, host.server_capabilities(peer).0);
        let reconnect = replaced(&mut host, peer);
        assert_eq!(has(&reconnect, MCP_SUPERVISED_FLAG_SERVER_CHANGED), changed, "{later:?}");
        assert_eq!(letters(&host.seen), "M D C R", "its own discover is not shown");
        assert_eq!((host.server_info(peer).1, host.server_capabilities(peer).1), (false, false));
        let now = (host.server_info(peer).0, host.server_capabilities(peer).0);
        assert_eq!(now != before, changed && !later.contains(&"--supported"), "{later:?}");
        // And it gates at once.
        let refused = later.contains(&"--capabilities");
        assert_eq!(host.try_ask(peer, "prompts/list", "{}", None).is_err(), refused, "{later:?}");
    }
}

#[test]
fn r07_rediscover_of_a_server_that_was_never_asked() {
    let dir = Scratch::new();
    let mut host = Host::new();
    let peer = host.launch(&by_life(&dir, &["--server-version", "9.9"]).rediscover());
    warm(&mut host, peer);
    let reconnect = replaced(&mut host, peer);
    assert!(!has(&reconnect, MCP_SUPERVISED_FLAG_SERVER_CHANGED), "there was nothing to compare with");
    assert!(host.server_info(peer).0.contains("9.9"));
}

#[test]
fn r07_rediscover_holds_back_the_others_until_it_is_answered() {
    let dir = Scratch::new();
    let lives = dir.name("lives");
    let record = dir.name("record");
    let flags = ["--lives", &lives, "--in-life", "1", "--mute", "tools/list", "--in-life", "2", "--record", &record];
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&flags).restart(3, 1, 60_000).rediscover().retry());
    let stream = host.listen(peer, json!({"toolsListChanged": true}), 0);
    host.acknowledged(stream, 1);
    let list = host.ask(peer, "tools/list", json!({}));
    let warm = host.ask_tool(peer, "pid", json!({}));
    host.completion(warm);
    replaced(&mut host, peer);
    assert!(has(&host.completion(list), MCP_SUPERVISED_FLAG_RETRIED));
    host.acknowledged(stream, 2);
    let told = read_lines(&dir.read("record"));
    assert_eq!(methods(&told), ["server/discover", "tools/list", "subscriptions/listen"]);
    assert_eq!(told[0]["id"], "mcp-supervised-1");
    assert_eq!((&told[1]["id"], &told[2]["id"]), (&json!(list), &json!(stream)));
}

#[test]
fn r07_rediscover_that_is_refused_or_ignored_serves_all_the_same() {
    for how in ["error:-32601", "ignore"] {
        let dir = Scratch::new();
        let mut host = Host::with_manual_clock();
        let peer = host.launch(&by_life(&dir, &["--on-discover", how]).rediscover());
        discovers(&mut host, peer);
        kill9(host.pid(peer));
        host.next(MCP_SUPERVISED_EVENT_CLOSE);
        host.advance_ms(1);
        if how == "ignore" {
            host.reach(peer, MCP_SUPERVISED_STATE_STARTING);
            assert_eq!(host.try_ask(peer, "tools/list", "{}", None), Err(MCP_SUPERVISED_E_CLOSED as i32));
            host.advance_ms(9_999);
            host.expect_silence();
            host.advance_ms(1);
        }
        let reconnect = host.next(MCP_SUPERVISED_EVENT_RECONNECT);
        assert!(!has(&reconnect, MCP_SUPERVISED_FLAG_SERVER_CHANGED), "{how}");
        host.await_log("what the server can do was not told again");
        assert!(host.server_capabilities(peer).1, "{how}: stale");
        let id = host.ask(peer, "tools/list", json!({}));
        host.completion(id);
    }
}

#[test]
fn r07_rediscover_of_a_server_that_dies_of_it_is_a_failed_life() {
    let dir = Scratch::new();
    let mut host = Host::new();
    let peer = host.launch(&by_life(&dir, &["--on-discover", "exit:5"]).rediscover());
    warm(&mut host, peer);
    kill9(host.pid(peer));
    let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    assert_eq!(letters(&taken), "D C E R");
    let failed = taken.iter().find(|e| e.is(MCP_SUPERVISED_EVENT_ERROR)).unwrap();
    assert_eq!((failed.status, failed.exit_code, failed.life), (MCP_SUPERVISED_E_HANDSHAKE as i32, 5, 2));
    assert_eq!(taken.last().unwrap().life, 3);
}

#[test]
fn r08_a_version_we_speak_is_tried_once_more_under_the_same_id() {
    let dir = Scratch::new();
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&["--record", &dir.name("record")]));
    let refusal = |supported: Value| json!({"name": "error", "arguments": {"code": -32022, "data": {"supported": supported, "requested": "x"}}});
    // It says that it speaks ours, and refuses it again: that is the answer.
    let twice = host.ask(peer, "tools/call", refusal(json!(["2026-07-28"])));
    let answer = host.completion(twice);
    assert_eq!((answer.error_code, answer.flags), (-32022, MCP_SUPERVISED_FLAG_COMPLETE));
    let record = dir.read("record");
    let lines: Vec<&str> = record.lines().collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0], lines[1]);
    // Versions that we do not speak, or none at all.
    for supported in [json!(["2099-01-01", "2025-11-25"]), json!([]), json!("2026-07-28"), json!(null)] {
        let before = dir.read("record").lines().count();
        let id = host.ask(peer, "tools/call", refusal(supported.clone()));
        assert_eq!(host.completion(id).error_code, -32022, "{supported}");
        assert_eq!(dir.read("record").lines().count(), before + 1, "{supported}");
    }
}

#[test]
fn r08_a_server_of_another_version_is_told_as_it_answers() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&["--supported", "2099-01-01"]));
    let id = host.ask(peer, "tools/list", json!({}));
    let answer = host.completion(id);
    assert_eq!(answer.error_code, -32022);
    assert_eq!(answer.json()["error"]["data"]["requested"], "2026-07-28");
    let stream = host.listen(peer, json!({}), 0);
    assert_eq!(host.completion(stream).error_code, -32022);
}

#[test]
fn r08_a_replacement_of_another_version() {
    let dir = Scratch::new();
    let mut host = Host::new();
    let peer = host.launch(&by_life(&dir, &["--supported", "2099-01-01"]).retry());
    let stream = host.listen(peer, json!({"toolsListChanged": true}), 0);
    host.acknowledged(stream, 1);
    replaced(&mut host, peer);
    let ended = host.completion(stream);
    assert_eq!((ended.error_code, ended.message_kind), (-32022, MCP_SUPERVISED_MESSAGE_REMOTE_ERROR as u32));
    let id = host.ask(peer, "tools/list", json!({}));
    assert_eq!(host.completion(id).error_code, -32022);
}

#[test]
fn r09_more_input_is_asked_for_and_given() {
    let dir = Scratch::new();
    let mut host = Host::new();
    let spec = Spec::modern(&["--record", &dir.name("record")]).capabilities(r#"{"elicitation":{}}"#);
    let peer = host.launch(&spec);
    let first = host.ask_tool(peer, "ask", json!({}));
    let asked = host.completion(first);
    assert_eq!(asked.flags, MCP_SUPERVISED_FLAG_COMPLETE | MCP_SUPERVISED_FLAG_INPUT_REQUIRED);
    assert_eq!((asked.status, asked.message_kind), (0, MCP_SUPERVISED_MESSAGE_RESULT as u32));
    let result = &asked.json()["result"];
    assert_eq!(result["inputRequests"]["name"]["method"], "elicitation/create");
    // Byte for byte, as a host that does not parse it would do it.
    let state = result["requestState"].to_string();
    let tail = format!(
        r#""inputResponses":{{"name":{{"action":"accept","content":{{"name":"Ada \u0041 1.10"}}}}}},"requestState":{state}"#
    );
    let params = format!(r#"{{"name":"ask","arguments":{{}},{tail}}}"#);
    let second = host.try_ask(peer, "tools/call", params, None).unwrap();
    assert_eq!(second, first + 1, "a new id");
    let answer = host.completion(second);
    assert_eq!((answer.tool_text().as_str(), answer.flags), ("hello Ada A 1.10", MCP_SUPERVISED_FLAG_COMPLETE));
    assert!(dir.read("record").lines().nth(1).unwrap().contains(&tail));
}

#[test]
fn r09_types_of_results() {
    let mut host = Host::new();
    let plain = host.launch(&Spec::modern(&[]));
    let with = |capabilities: &str| Spec::modern(&[]).capabilities(capabilities);
    let extended = host.launch(&with(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#));
    let none = host.launch(&with(r#"{"extensions":{},"experimental":{"a":{}}}"#));
    for (peer, other) in [(plain, None), (extended, Some(MCP_SUPERVISED_FLAG_OTHER_RESULT_TYPE)), (none, None)] {
        let id = host.ask_tool(peer, "result_type", json!({"value": "task"}));
        let completion = host.until(|e| e.peer == peer && e.request == id);
        let completion = completion_of(&of(peer, &completion), id).unwrap().clone();
        match other {
            Some(flag) => {
                assert_eq!((completion.status, completion.flags), (0, MCP_SUPERVISED_FLAG_COMPLETE | flag));
                assert_eq!(completion.json()["result"]["resultType"], "task");
            }
            None => {
                assert_eq!((completion.status, completion.flags), (PROTOCOL, MCP_SUPERVISED_FLAG_COMPLETE));
                assert!(completion.text().contains("task"), "{}", completion.text());
            }
        }
        let id = host.ask_tool(peer, "result_type", json!({"value": "complete"}));
        let taken = host.until(|e| e.peer == peer && e.request == id);
        assert_eq!(completion_of(&of(peer, &taken), id).unwrap().flags, MCP_SUPERVISED_FLAG_COMPLETE);
    }
}

#[test]
fn r09_a_result_without_a_type_is_complete() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&[]));
    let bare = r#"{"jsonrpc":"2.0","id":@ID@,"result":{}}"#.to_owned() + "\n";
    let id = host.ask_tool(peer, "raw", json!({"text": bare, "answer": false}));
    let answer = host.completion(id);
    assert_eq!((answer.flags, answer.body.as_slice()), (MCP_SUPERVISED_FLAG_COMPLETE, &b"{}"[..]));
    let odd = r#"{"jsonrpc":"2.0","id":@ID@,"result":{"resultType":7}}"#.to_owned() + "\n";
    let id = host.ask_tool(peer, "raw", json!({"text": odd, "answer": false}));
    assert_eq!(host.completion(id).status, PROTOCOL);
}

#[test]
fn r06_ids_as_strings_are_accepted_and_told_once_per_connection() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&["--string-ids"]).restart(3, 1, 60_000));
    for life in 1..=2 {
        for n in 0..3 {
            let id = host.ask_tool(peer, "echo", json!({"message": n.to_string()}));
            let answer = host.completion(id);
            assert_eq!((answer.tool_text(), answer.request), (n.to_string(), id));
            assert_eq!(answer.id, format!("\"{id}\"").into_bytes(), "as it came");
        }
        let logs = texts(&host, MCP_SUPERVISED_EVENT_LOG);
        assert_eq!(logs.iter().filter(|line| line.contains("as strings")).count(), life, "{logs:?}");
        if life == 1 {
            replaced(&mut host, peer);
        }
    }
}

#[test]
fn r06_answers_that_nobody_asked_for() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&[]));
    let waits = host.ask_tool(peer, "silent", json!({}));
    let lines = [
        r#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"01","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":-1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"who"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what"}}"#,
    ];
    let id = host.ask_tool(peer, "raw", json!({"text": lines.join("\n") + "\n"}));
    host.completion(id);
    let unmatched: Vec<&Event> =
        host.seen.iter().filter(|e| e.message_kind == MCP_SUPERVISED_MESSAGE_UNMATCHED as u32).collect();
    assert_eq!(unmatched.iter().map(|e| e.text()).collect::<Vec<_>>(), lines);
    assert!(unmatched.iter().all(|e| (e.request, e.flags) == (0, 0)));
    assert_eq!(unmatched.iter().map(|e| e.error_code).collect::<Vec<_>>(), [0, 0, 0, 0, -32600, -32700]);
    assert_eq!(host.cancel(peer, waits, ""), 0, "not one was completed by guess");
}

#[test]
fn w02_a_broken_answer_ends_its_request() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&[]));
    for broken in [
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{},"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{},"method":"x"}"#,
        r#"{"jsonrpc":"2.0","id":@ID@,"error":7}"#,
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{]}"#,
    ] {
        let id = host.ask_tool(peer, "raw", json!({"text": broken.to_owned() + "\n", "answer": false}));
        let out = host.completion(id);
        assert_eq!((out.status, out.flags), (PROTOCOL, MCP_SUPERVISED_FLAG_COMPLETE), "{broken}: {}", out.text());
        assert_eq!(letters(&host.seen), "E");
        host.seen.clear();
    }
    // One that names nobody is one line that is told, and no more.
    let id = host.ask_tool(peer, "raw", json!({"text": "{\"jsonrpc\":\"2.0\",\"id\":999,\"result\":\n"}));
    host.completion(id);
    assert_eq!(letters(&host.seen), "E M");
    assert_eq!((host.seen[0].status, host.seen[0].request), (MCP_SUPERVISED_E_MALFORMED as i32, 0));
}

#[test]
fn z04_a_request_of_a_modern_server_is_an_error() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&[]));
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#;
    let id = host.ask_tool(peer, "raw", json!({"text": line.to_owned() + "\n"}));
    host.completion(id);
    assert_eq!(letters(&host.seen), "E M");
    assert_eq!((host.seen[0].status, host.seen[0].request, host.seen[0].flags), (PROTOCOL, 0, 0));
    assert_eq!(host.seen[0].text(), line);
}
