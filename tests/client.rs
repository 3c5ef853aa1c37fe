//! Requests and notifications of the protocol client against the demo server: ids, `_meta`, progress, deadlines, cancellation.

mod support;

use serde_json::{Value, json};
use support::watch::*;
use support::*;

const TIMEOUT: i32 = MCP_SUPERVISED_E_TIMEOUT as i32;
const CANCELLED: i32 = MCP_SUPERVISED_E_CANCELLED as i32;
const NO_REQUEST: i32 = MCP_SUPERVISED_E_NO_REQUEST as i32;

#[test]
fn without_newer_kernel_calls() {
    run_file_again_without_newer_kernel_calls();
}

#[test]
fn r01_a_request_is_answered_under_its_id() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&[]));
    let discover = host.ask(peer, "server/discover", json!({}));
    let tools = host.ask(peer, "tools/list", json!({}));
    let call = host.ask_tool(peer, "echo", json!({"message": "hello"}));
    assert_eq!((discover, tools, call), (1, 2, 3));
    let answer = host.completion(call);
    assert_eq!(answer.tool_text(), "hello");
    assert_eq!(answer.message_kind, MCP_SUPERVISED_MESSAGE_RESULT as u32);
    assert_eq!((answer.flags, answer.status, answer.id.as_slice()), (MCP_SUPERVISED_FLAG_COMPLETE, 0, &b"3"[..]));
    assert!(host.completion(tools).json()["result"]["tools"].is_array());
    assert!(host.server_capabilities(peer).0.contains("tools"));
    assert_eq!(
        host.server_info(peer),
        (r#"{"name":"mcp-supervised-demo-server","version":"0.1.0"}"#.to_owned(), false)
    );
}

#[test]
fn r01_every_method_and_an_error_come_back() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&[]));
    let asked = [
        ("resources/list", json!({}), "resources"),
        ("resources/templates/list", json!({}), "resourceTemplates"),
        ("resources/read", json!({"uri": "mem://counter"}), "contents"),
        ("prompts/list", json!({}), "prompts"),
        ("prompts/get", json!({"name": "greet", "arguments": {"name": "Ada"}}), "messages"),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": "A"}}),
            "completion",
        ),
    ]
    .map(|(method, params, key)| (host.ask(peer, method, params), key));
    for (id, key) in asked {
        let answer = host.completion(id);
        assert!(answer.json()["result"].get(key).is_some(), "{key}: {}", answer.text());
    }
    for (method, params, code) in [
        ("vendor/unheard-of", json!({}), -32601),
        ("resources/read", json!({"uri": "mem://none"}), -32602),
        ("tools/call", json!({"name": "error", "arguments": {"code": 7, "message": "no"}}), 7),
    ] {
        let id = host.ask(peer, method, params);
        let answer = host.completion(id);
        assert_eq!((answer.error_code, answer.message_kind), (code, MCP_SUPERVISED_MESSAGE_REMOTE_ERROR as u32));
        assert_eq!((answer.status, answer.flags), (0, MCP_SUPERVISED_FLAG_COMPLETE));
        assert_eq!(serde_json::from_slice::<Value>(&answer.body).unwrap()["code"], code);
    }
}

#[test]
fn r01_what_the_server_reads() {
    let dir = Scratch::new();
    let mut host = Host::new();
    // The `_meta` of a proxied request is of no revision.
    let spec = Spec::modern(&["--record", &dir.name("record")])
        .judged(Judged::Envelope)
        .client_info("host", "1.2")
        .capabilities(r#"{"elicitation":{"form":{}}}"#)
        .server_log_level("warning");
    let peer = host.launch(&spec);
    let stamp = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"host","version":"1.2"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}},"io.modelcontextprotocol/logLevel":"warning""#;
    let params = "{ \"name\":\r\n\"echo\",\"arguments\":{\"message\":\"\\u0061\",\"n\":1.10},\"_meta\":{\"traceparent\":\"00-1\",\"io.modelcontextprotocol/protocolVersion\":\"1999\"}}";
    let call = host.try_ask(peer, "tools/call", params, None).unwrap();
    host.completion(call);
    let verbatim = options(|o| o.flags = MCP_SUPERVISED_REQUEST_META_VERBATIM);
    let proxied = host.try_ask(peer, "tools/list", r#"{"_meta":{"x":1}}"#, Some(&verbatim)).unwrap();
    assert_eq!(host.completion(proxied).error_code, -32602, "nothing was put in, and the server misses it");
    assert_eq!(host.notify(peer, "notifications/vendor", r#"{"_meta":{"y":2},"a":[1, 2]}"#), 0);
    assert_eq!(host.notify(peer, "notifications/roots/list_changed", ""), 0);
    let last = host.ask_tool(peer, "pid", json!({}));
    host.completion(last);
    let record = dir.read("record");
    let lines: Vec<&str> = record.lines().collect();
    assert_eq!(
        lines[0],
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{ "name":  "echo","arguments":{{"message":"\u0061","n":1.10}},"_meta":{{{stamp},"traceparent":"00-1"}}}}}}"#
        )
    );
    assert_eq!(lines[1], r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"x":1}}}"#);
    assert_eq!(
        lines[2..4],
        [
            r#"{"jsonrpc":"2.0","method":"notifications/vendor","params":{"_meta":{"y":2},"a":[1, 2]}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{}}"#
        ]
    );
    assert_eq!(lines.len(), 5);
}

#[test]
fn r02_what_is_refused_costs_nothing() {
    let dir = Scratch::new();
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&["--record", &dir.name("record")]));
    let invalid = MCP_SUPERVISED_E_INVALID as i32;
    for bad in ["[]", "{", r#"{"a":"\ud800"#, r#"{"_meta":[]}"#] {
        assert_eq!(host.try_ask(peer, "tools/list", bad, None), Err(invalid), "{bad}");
        assert_eq!(host.notify(peer, "x", bad), invalid);
    }
    let id = host.ask_tool(peer, "echo", json!({"message": "still here"}));
    assert_eq!((id, host.completion(id).tool_text().as_str()), (1, "still here"));
    assert_eq!(dir.read("record").lines().count(), 1);
    assert_eq!(letters(&host.seen), "M");
}

#[test]
fn r10_progress_is_told_of_the_request() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&[]));
    let options = options(|o| (o.flags, o.user_data) = (MCP_SUPERVISED_REQUEST_PROGRESS, 5));
    let params = |count| json!({"name": "progress", "arguments": {"every_ms": 0, "count": count}}).to_string();
    let minted = host.try_ask(peer, "tools/call", params(3), Some(&options)).unwrap();
    let answer = host.completion(minted);
    assert_eq!((answer.tool_text().as_str(), answer.user_data), ("done", 5));
    let notes: Vec<Event> = host.seen.iter().filter(|e| e.method == b"notifications/progress").cloned().collect();
    assert_eq!(notes.iter().map(|e| e.json()["params"]["progress"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    for note in notes {
        assert_eq!((note.request, note.user_data, note.flags), (minted, 5, 0));
        assert_eq!(note.message_kind, MCP_SUPERVISED_MESSAGE_NOTIFICATION as u32);
        assert_eq!(note.json()["params"]["progressToken"], format!("progress-{minted}"));
    }
}

#[test]
fn r10_tokens_of_the_host() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&[]));
    let with = |token: &str, tool: &str| {
        let arguments = json!({"every_ms": 0, "count": 1});
        format!(r#"{{"name":"{tool}","arguments":{arguments},"_meta":{{"progressToken":{token}}}}}"#)
    };
    // A number, and a text, which the server spells in its own way.
    for token in ["7", "\"mine\"", "\"\\u006d\\/\u{e9}\"", "\"progress-3\""] {
        let from = host.seen.len();
        let id = host.try_ask(peer, "tools/call", with(token, "progress"), None).unwrap();
        host.completion(id);
        let notes: Vec<_> = host.seen[from..].iter().filter(|e| e.method == b"notifications/progress").collect();
        assert_eq!(notes.len(), 1, "{token}");
        assert_eq!(notes[0].request, id, "{token}");
    }
    // In use, in whatever spelling: refused, and free again with its request.
    let waits = host.try_ask(peer, "tools/call", with("\"mine\"", "silent"), None).unwrap();
    for same in ["\"mine\"", "\"m\\u0069ne\""] {
        let refused = host.try_ask(peer, "tools/call", with(same, "progress"), None);
        assert_eq!(refused, Err(MCP_SUPERVISED_E_INVALID as i32), "{same}");
        assert!(host.last_error().contains("progressToken"), "{}", host.last_error());
    }
    assert_eq!(host.cancel(peer, waits, ""), 0);
    let again = host.try_ask(peer, "tools/call", with("\"mine\"", "progress"), None).unwrap();
    host.completion(again);
    // The minted one keeps out of the way of a host that chose the same text.
    let next = again + 2;
    host.try_ask(peer, "tools/call", with(&format!("\"progress-{next}\""), "silent"), None).unwrap();
    let options = options(|o| o.flags = MCP_SUPERVISED_REQUEST_PROGRESS);
    let params = json!({"name": "progress", "arguments": {"every_ms": 0, "count": 1}}).to_string();
    let minted = host.try_ask(peer, "tools/call", params, Some(&options)).unwrap();
    assert_eq!(minted, next);
    host.completion(minted);
    assert!(host.seen.iter().any(|e| e.request == minted && e.method == b"notifications/progress"));
}

#[test]
fn r10_progress_of_nobody_is_a_log_line() {
    let mut host = Host::with(|config| {
        // SAFETY: a live config.
        assert_eq!(unsafe { mcp_supervised_config_log_level(config, MCP_SUPERVISED_LOG_INFO as u32) }, 0);
    });
    let peer = host.launch(&Spec::modern(&[]));
    let id = host.ask_tool(peer, "progress", json!({"every_ms": 0, "count": 1, "token": "stray"}));
    host.completion(id);
    let logs = texts(&host, MCP_SUPERVISED_EVENT_LOG);
    assert!(logs.iter().any(|line| line.contains("progress") && line.contains("stray")), "{logs:?}");
    assert_eq!(letters(&host.seen), "M");
}

#[test]
fn r03_the_idle_timeout_and_the_server_is_told() {
    let dir = Scratch::new();
    let mut host = Host::with_manual_clock();
    let peer = host.launch(&Spec::modern(&["--record", &dir.name("record")]).timeouts(1_000, 5_000));
    let id = host.try_ask(peer, "tools/call", r#"{"name":"silent"}"#, Some(&options(|o| o.user_data = 9))).unwrap();
    let other = host.ask_tool(peer, "pid", json!({}));
    host.completion(other);
    host.advance_ms(999);
    host.expect_silence();
    host.advance_ms(1);
    assert!(host.is_readable());
    let out = host.completion(id);
    assert_eq!((out.status, out.request, out.user_data, out.flags), (TIMEOUT, id, 9, MCP_SUPERVISED_FLAG_COMPLETE));
    assert!(out.is(MCP_SUPERVISED_EVENT_ERROR));
    assert!(out.text().contains("idle timeout of 1000 ms"), "{}", out.text());
    assert_eq!(host.cancel(peer, id, ""), NO_REQUEST);
    let after = host.ask_tool(peer, "pid", json!({}));
    host.completion(after);
    let told = read_lines(&dir.read("record"));
    assert_eq!(methods(&told), ["tools/call", "tools/call", "notifications/cancelled", "tools/call"]);
    assert_eq!(told[2]["params"]["requestId"], id);
    assert!(told[2]["params"]["reason"].is_string());
}

#[test]
fn r03_progress_restarts_the_idle_timeout_and_not_the_ceiling() {
    let mut host = Host::with_manual_clock();
    let peer = host.launch(&Spec::modern(&[]).timeouts(1_000, 2_500));
    let options = options(|o| o.flags = MCP_SUPERVISED_REQUEST_PROGRESS);
    let id = host.try_ask(peer, "tools/call", r#"{"name":"silent"}"#, Some(&options)).unwrap();
    let token = format!("progress-{id}");
    let note = |host: &mut Host| {
        let made = host.ask_tool(peer, "progress", json!({"every_ms": 0, "count": 1, "token": token}));
        host.completion(made);
    };
    for _ in 0..2 {
        host.advance_ms(900);
        note(&mut host);
        assert!(!host.seen.iter().any(|e| e.request == id && e.is_complete()), "kept alive");
    }
    assert_eq!(host.seen.iter().filter(|e| e.request == id).count(), 2);
    host.advance_ms(699);
    host.expect_silence();
    host.advance_ms(1);
    let out = host.completion(id);
    assert_eq!(out.status, TIMEOUT);
    assert!(out.text().contains("ceiling of 2500 ms"), "{}", out.text());
}

#[test]
fn r03_timeouts_of_one_request_and_none() {
    let mut host = Host::with_manual_clock();
    let peer = host.launch(&Spec::modern(&[]).timeouts(u64::MAX, u64::MAX));
    let mut ask = |timeout, max| {
        let options = options(|o| (o.timeout_ms, o.max_timeout_ms) = (timeout, max));
        host.try_ask(peer, "tools/call", r#"{"name":"silent"}"#, Some(&options)).unwrap()
    };
    let never = ask(0, 0);
    let idle = ask(100, 0);
    let ceiling = ask(u64::MAX, 200);
    // The ceiling is raised to it.
    let raised = ask(300, 1);
    for (id, name) in [(idle, "idle timeout of 100"), (ceiling, "ceiling of 200"), (raised, " of 300")] {
        host.advance_ms(99);
        host.expect_silence();
        host.advance_ms(1);
        let out = host.completion(id);
        assert!(out.status == TIMEOUT && out.text().contains(name), "{}", out.text());
    }
    host.advance_ms(1_000_000_000);
    host.expect_silence();
    assert_eq!(host.cancel(peer, never, ""), 0);
    assert_eq!(host.completion(never).status, CANCELLED);
}

#[test]
fn r04_an_answer_in_the_pipe_beats_its_deadline() {
    for clock_first in [false, true] {
        let mut host = Host::with_manual_clock();
        let peer = host.launch(&Spec::modern(&[]).timeouts(1_000, 1_000));
        let warm = host.ask_tool(peer, "pid", json!({}));
        host.completion(warm);
        // It stops itself before it answers, so that the moment of the answer is ours.
        let id = host.ask_tool(peer, "stop", json!({}));
        let pid = host.pid(peer);
        host.drive_until("the server stops", |_| state_of(pid) == Some('T'));
        if clock_first {
            host.advance_ms(1_000);
        }
        signal(pid, libc::SIGCONT);
        settle(&[pid]);
        if !clock_first {
            host.advance_ms(5_000);
        }
        let answer = host.completion(id);
        assert_eq!(answer.tool_text(), "continued", "clock first: {clock_first}");
        host.expect_silence();
    }
}

#[test]
fn r04_an_answer_behind_more_than_a_turn_takes_beats_its_deadline() {
    let mut host = Host::with_manual_clock();
    let peer = host.launch(&Spec::modern(&[]).timeouts(1_000, 1_000));
    // More lines than one turn takes, fewer than the queue and the pipe hold.
    let lines = "{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n".repeat(900);
    let id = host.ask_tool(peer, "raw", json!({"text": lines}));
    let pid = host.pid(peer);
    wait_for("the answer is written", || written_by(pid) > lines.len() as u64);
    settle(&[pid]);
    host.advance_ms(1_000);
    assert_eq!(host.completion(id).tool_text(), "raw");
}

#[test]
fn r03_a_late_answer_is_dropped_with_a_log_line() {
    let mut host = Host::with_manual_clock();
    let peer = host.launch(&Spec::modern(&[]).timeouts(1_000, 1_000));
    let warm = host.ask_tool(peer, "pid", json!({}));
    host.completion(warm);
    let late = host.ask_tool(peer, "stop", json!({}));
    let pid = host.pid(peer);
    host.drive_until("the server stops", |_| state_of(pid) == Some('T'));
    host.advance_ms(1_000);
    assert_eq!(host.completion(late).status, TIMEOUT);
    signal(pid, libc::SIGCONT);
    let next = host.ask_tool(peer, "pid", json!({}));
    host.completion(next);
    let logs = texts(&host, MCP_SUPERVISED_EVENT_LOG);
    assert_eq!(logs, [format!("dropped a late answer to request {late}")]);
    assert_eq!(letters(&host.seen), "M E M");
}

#[test]
fn r05_cancel_tells_the_server_and_completes_once() {
    let dir = Scratch::new();
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&["--record", &dir.name("record")]));
    let options = options(|o| o.user_data = 3);
    let params = r#"{"name":"sleep","arguments":{"ms":600000}}"#;
    let id = host.try_ask(peer, "tools/call", params, Some(&options)).unwrap();
    let warm = host.ask_tool(peer, "pid", json!({}));
    host.completion(warm);
    assert_eq!(host.cancel(peer, id, "never \"mind\"\n"), 0);
    assert_eq!(host.cancel(peer, id, ""), NO_REQUEST, "its completion is queued");
    let out = host.completion(id);
    assert_eq!((out.status, out.user_data, out.flags), (CANCELLED, 3, MCP_SUPERVISED_FLAG_COMPLETE));
    let unexplained = host.ask_tool(peer, "silent", json!({}));
    let warm = host.ask_tool(peer, "pid", json!({}));
    host.completion(warm);
    assert_eq!(host.cancel(peer, unexplained, ""), 0);
    let after = host.ask_tool(peer, "pid", json!({}));
    host.completion(after);
    let told = read_lines(&dir.read("record"));
    let cancels: Vec<&Value> = told.iter().filter(|line| line["method"] == "notifications/cancelled").collect();
    assert_eq!(cancels.len(), 2);
    assert_eq!(cancels[0]["params"], json!({"requestId": id, "reason": "never \"mind\"\n"}));
    assert_eq!(cancels[1]["params"]["requestId"], unexplained);
    for nobody in [id, 0, 99, u64::MAX] {
        assert_eq!(host.cancel(peer, nobody, ""), NO_REQUEST);
    }
}

#[test]
fn r05_cancel_crosses_the_answer() {
    for (on_cancel, late) in [("silent", false), ("error", true), ("ignore", true)] {
        let mut host = Host::new();
        let peer = host.launch(&Spec::modern(&[]));
        let id = host.ask_tool(peer, "sleep", json!({"ms": 40, "on_cancel": on_cancel}));
        let warm = host.ask_tool(peer, "pid", json!({}));
        host.completion(warm);
        let cancelled = host.cancel(peer, id, "");
        if cancelled == NO_REQUEST {
            // A slow machine: it was answered in time.
            assert_eq!(host.completion(id).tool_text(), "slept");
            continue;
        }
        assert_eq!(host.completion(id).status, CANCELLED);
        if late {
            host.await_log(&format!("dropped a late answer to request {id}"));
        }
        let after = host.ask_tool(peer, "pid", json!({}));
        host.completion(after);
        assert_eq!(host.seen.iter().filter(|e| e.request == id).count(), 1, "{on_cancel}: told once");
    }
}

#[test]
fn r05_an_answer_that_was_read_wins_against_cancel() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&[]));
    let id = host.ask_tool(peer, "pid", json!({}));
    let pid = host.pid(peer);
    host.drive();
    wait_for("the answer is written", || written_by(pid) > 50);
    settle(&[pid]);
    host.drive();
    assert_eq!(host.cancel(peer, id, ""), NO_REQUEST, "its completion is queued");
    assert_eq!(host.completion(id).tool_text(), pid.to_string());
    assert_eq!(host.cancel(peer, id, ""), NO_REQUEST, "its completion was handed out");
}

#[test]
fn r05_an_answer_that_was_not_read_loses_against_cancel() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&[]));
    let id = host.ask_tool(peer, "pid", json!({}));
    let pid = host.pid(peer);
    host.drive();
    wait_for("the answer is written", || written_by(pid) > 50);
    settle(&[pid]);
    assert_eq!(host.cancel(peer, id, ""), 0);
    assert_eq!(host.completion(id).status, CANCELLED);
    let after = host.ask_tool(peer, "pid", json!({}));
    host.completion(after);
    assert_eq!(letters(&host.seen), "E M");
    assert!(texts(&host, MCP_SUPERVISED_EVENT_LOG)[0].contains("late answer to request 1"));
}

#[test]
fn r05_cancel_of_a_line_that_is_half_written_and_of_one_that_is_not() {
    let dir = Scratch::new();
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&["--record", &dir.name("record")]));
    let stop = host.ask_tool(peer, "stop", json!({}));
    let pid = host.pid(peer);
    host.drive_until("the server stops", |_| state_of(pid) == Some('T'));
    // More than a pipe holds: its first bytes are in it, and the line has to be finished.
    let long = host.ask_tool(peer, "echo", json!({"message": "x".repeat(200_000)}));
    let behind = host.ask_tool(peer, "pid", json!({}));
    host.drive();
    for id in [long, behind] {
        assert_eq!(host.cancel(peer, id, ""), 0);
        assert_eq!(host.completion(id).status, CANCELLED);
    }
    signal(pid, libc::SIGCONT);
    host.completion(stop);
    let after = host.ask_tool(peer, "pid", json!({}));
    host.completion(after);
    let told = read_lines(&dir.read("record"));
    assert_eq!(methods(&told), ["tools/call", "tools/call", "notifications/cancelled", "tools/call"]);
    assert_eq!(told[1]["id"], long);
    assert_eq!(told[2]["params"]["requestId"], long);
}

#[test]
fn r12_too_many_requests_and_the_word_to_go_on() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&[]).limit(MCP_SUPERVISED_LIMIT_MAX_IN_FLIGHT, 4));
    let stream = host.listen(peer, json!({}), 0);
    let ids: Vec<u64> = (0..3).map(|_| host.ask_tool(peer, "silent", json!({}))).collect();
    let refused = Err(MCP_SUPERVISED_E_WOULD_BLOCK as i32);
    for _ in 0..2 {
        assert_eq!(host.try_ask(peer, "tools/list", "{}", None), refused);
        assert!(host.last_error().contains("max_in_flight"), "{}", host.last_error());
    }
    // Notifications and cancellations take no slot.
    assert_eq!(host.notify(peer, "x", ""), 0);
    assert_eq!(host.cancel(peer, ids[0], ""), 0);
    host.completion(ids[0]);
    assert!(!host.seen.iter().any(|e| e.is(MCP_SUPERVISED_EVENT_WRITABLE)), "not before it is at half");
    assert_eq!(host.cancel(peer, stream, ""), 0);
    let writable = host.next(MCP_SUPERVISED_EVENT_WRITABLE);
    assert_eq!((writable.peer, writable.request), (peer, 0));
    let next = host.ask(peer, "tools/list", json!({}));
    assert_eq!(next, stream + 4, "a refused one took no id");
    host.completion(next);
    assert_eq!(host.seen.iter().filter(|e| e.is(MCP_SUPERVISED_EVENT_WRITABLE)).count(), 1, "one for all refusals");
}

#[test]
fn f04_more_bytes_than_may_wait() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&[]).limit(MCP_SUPERVISED_LIMIT_OUTBOUND_BYTES, 300_000));
    let stop = host.ask_tool(peer, "stop", json!({}));
    let pid = host.pid(peer);
    host.drive_until("the server stops", |_| state_of(pid) == Some('T'));
    let params = json!({"name": "echo", "arguments": {"message": "x".repeat(50_000)}}).to_string();
    let mut ids = Vec::new();
    let refused = loop {
        match host.try_ask(peer, "tools/call", &params, None) {
            Ok(id) => ids.push(id),
            Err(status) => break status,
        }
        host.drive();
    };
    assert_eq!(refused, MCP_SUPERVISED_E_WOULD_BLOCK as i32);
    assert_eq!(host.notify(peer, "x", format!("{{\"a\":\"{}\"}}", "x".repeat(100_000))), refused);
    signal(pid, libc::SIGCONT);
    host.until(|e| e.is(MCP_SUPERVISED_EVENT_WRITABLE));
    let after = host.try_ask(peer, "tools/call", &params, None).unwrap();
    assert_eq!(after, ids.last().unwrap() + 1);
    for id in [stop, after].into_iter().chain(ids) {
        host.completion(id);
    }
    assert_eq!(host.seen.iter().filter(|e| e.is(MCP_SUPERVISED_EVENT_WRITABLE)).count(), 1);
}

#[test]
fn r06_ten_thousand_requests_answered_in_any_order() {
    const COUNT: usize = 10_000;
    let mut host = Host::new();
    host.batch = 1024;
    // Two servers with their own ids; a delay per answer would make one thread each, so the order is mixed by hand: waiting calls
    // among immediate ones.
    let peers = [host.launch(&Spec::modern(&[])), host.launch(&Spec::modern(&[]))];
    let mut expected = std::collections::HashMap::new();
    for number in 0..COUNT {
        let peer = peers[number % 2];
        let params = if number % 50 == 0 {
            json!({"name": "sleep", "arguments": {"ms": 4 + number % 7}})
        } else {
            json!({"name": "echo", "arguments": {"message": number.to_string()}})
        };
        let options = options(|o| o.user_data = number as u64);
        let id = host.try_ask(peer, "tools/call", params.to_string(), Some(&options)).unwrap();
        assert!(expected.insert((peer, id), number).is_none());
    }
    let mut in_order = true;
    let mut before = 0;
    while !expected.is_empty() {
        let from = host.seen.len();
        host.until(|_| true);
        for event in host.seen.split_off(from) {
            assert_eq!(event.flags, MCP_SUPERVISED_FLAG_COMPLETE, "{event:?}");
            let number = expected.remove(&(event.peer, event.request)).expect("asked, and not answered before");
            assert_eq!(event.user_data, number as u64);
            let text = event.tool_text();
            assert_eq!(text, if number % 50 == 0 { "slept".to_owned() } else { number.to_string() });
            in_order &= event.request >= before;
            before = event.request;
        }
    }
    assert!(!in_order, "some waited");
}
