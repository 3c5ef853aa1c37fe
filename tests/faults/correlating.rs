//! Correlating answers: which answer belongs to which request, and what becomes of those that belong to none.

use serde_json::json;

use super::served::*;
use crate::support::*;

const RESULT: u32 = MCP_SUPERVISED_MESSAGE_RESULT as u32;
const REMOTE_ERROR: u32 = MCP_SUPERVISED_MESSAGE_REMOTE_ERROR as u32;
const UNMATCHED: u32 = MCP_SUPERVISED_MESSAGE_UNMATCHED as u32;
const CANCELLED: i32 = MCP_SUPERVISED_E_CANCELLED as i32;

/// What the server heard of cancellations.
fn cancelled(record: &str) -> Vec<u64> {
    let lines = read_lines(record);
    let of = lines.iter().filter(|line| line["method"] == "notifications/cancelled");
    of.map(|line| line["params"]["requestId"].as_u64().expect("an id of ours")).collect()
}

/// The kind: the id comes back in another JSON type. The very number as a string is taken for it; what only resembles it is shown
/// and completes nobody.
#[test]
fn co_01_an_id_that_comes_back_as_a_string() {
    let mut server = Served::new(&["--string-ids"]);
    for _ in 0..3 {
        let echo = server.call("echo", json!({"message": "m"}));
        assert_eq!((echo.tool_text().as_str(), echo.message_kind), ("m", RESULT));
        assert_eq!(server.call("error", json!({"code": -7})).error_code, -7);
    }
    server.await_log("string");
    let said = texts(&server, MCP_SUPERVISED_EVENT_LOG).iter().filter(|text| text.contains("string")).count();
    assert_eq!(said, 1, "once per connection");

    let mut server = Served::new(&[]);
    for shape in [r#"" @ID@""#, r#""0@ID@""#, r#""@ID@.0""#, r#""+@ID@""#, r#""@ID@e0""#, r#""N@ID@""#, "@ID@.5"] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{shape},"result":{{}}}}"#);
        let from = server.seen.len();
        let id = server.answers_with(&line, b"\n");
        server.goes_on();
        let told: Vec<&Event> = server.seen[from..].iter().filter(|e| !e.is_complete()).collect();
        assert_eq!((told.len(), server.ends_of(id)), (1, 0), "{shape}: {told:#?}");
        assert!(told[0].message_kind == UNMATCHED || told[0].status == MALFORMED, "{shape}");
        assert_eq!(server.host.cancel(server.peer, id, ""), 0);
    }
}

/// The kind: an error that names no request. Its code and text are shown, nobody is completed by guess, the request ends by its
/// deadline.
#[test]
fn co_03_an_error_that_names_nobody() {
    let mut server = Served::by_hand(&[]);
    let timeout = options(|o| o.timeout_ms = 500);
    let (peer, pid) = (server.peer, server.pid);
    let pending = server.try_ask(peer, "tools/call", r#"{"name":"silent"}"#, Some(&timeout)).unwrap();
    for (id, code) in [(r#""id":null,"#, -32700), ("", -32600), (r#""id":"who","#, 1), (r#""id":999999,"#, 0)] {
        let line = format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":{code},"message":"Parse error"}}}}"#);
        let told = server.writes(format!("{line}\n").as_bytes());
        assert_eq!(letters(&told), "M", "{line}");
        assert_eq!((told[0].message_kind, told[0].request, told[0].error_code), (UNMATCHED, 0, code));
        assert_eq!(String::from_utf8_lossy(&told[0].body), format!(r#"{{"code":{code},"message":"Parse error"}}"#));
    }
    assert_eq!(server.ends_of(pending), 0);
    server.until_written(pid);
    server.advance_ms(500);
    assert_eq!(server.completion(pending).status, TIMEOUT);
    server.goes_on();
}

/// The kind: something comes for a request that is over. A result, an error, twice, under a string id: all of it is a log line at
/// most, and the next requests are served.
#[test]
fn co_05_a_late_answer_harms_nobody() {
    let scratch = Scratch::new();
    let mut server = Served::by_hand(&["--record", &scratch.name("record")]);
    let timeout = options(|o| o.timeout_ms = 300);
    let (peer, pid) = (server.peer, server.pid);
    let late = server.try_ask(peer, "tools/call", r#"{"name":"silent"}"#, Some(&timeout)).unwrap();
    server.until_written(pid);
    server.advance_ms(300);
    let end = server.completion(late);
    assert_eq!((end.status, end.flags), (TIMEOUT, MCP_SUPERVISED_FLAG_COMPLETE));
    for answer in [r#""result":{}"#, r#""error":{"code":1,"message":"late"}"#] {
        for id in [late.to_string(), format!("\"{late}\"")] {
            let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{answer}}}\n");
            assert_eq!(letters(&server.writes(line.as_bytes())), "", "{line}");
        }
    }
    for n in 0..10 {
        assert_eq!(server.call("echo", json!({"message": n.to_string()})).tool_text(), n.to_string());
    }
    assert_eq!(server.ends_of(late), 1);
    assert_eq!(cancelled(&scratch.read("record")), [late]);
    server.goes_on();
}

/// The kind: the host ends a request while the server does too. One end, whoever was first; nothing is sent for what is over.
#[test]
fn co_07_cancel_and_answer_cross_each_other() {
    let scratch = Scratch::new();
    let mut server = Served::new(&["--record", &scratch.name("record")]);
    let peer = server.peer;
    // The server answers a cancellation all the same.
    let answered = server.asks("sleep", json!({"ms": 600_000, "on_cancel": "error"}));
    server.call("pid", json!({}));
    assert_eq!(server.host.cancel(peer, answered, "enough"), 0);
    assert_eq!(server.completion(answered).status, CANCELLED);
    server.goes_on();
    assert_eq!((cancelled(&scratch.read("record")), server.ends_of(answered)), (vec![answered], 1));
    // The result is in the pipe when the host cancels. The first server still has a thread that sleeps.
    let mut server = Served::new(&["--record", &scratch.name("other")]);
    let (peer, pid) = (server.peer, server.pid);
    let crossed = server.asks("echo", json!({"message": "m"}));
    server.drive_until("it is written", |_| {
        watch::is_settled(pid) && scratch.read("other").contains("\"message\":\"m\"")
    });
    let status = server.host.cancel(peer, crossed, "");
    let end = server.completion(crossed);
    // The driving may have read the answer already; then there is nothing to cancel.
    let no_request = MCP_SUPERVISED_E_NO_REQUEST as i32;
    assert!(matches!((status, end.status), (0, CANCELLED)) || (status == no_request && end.status == 0));
    server.goes_on();
    // What is done, unknown, or was never anything.
    let before = cancelled(&scratch.read("other"));
    for id in [crossed, 999_999, 0, u64::MAX] {
        assert_eq!(server.host.cancel(peer, id, "again"), no_request, "{id}");
    }
    server.goes_on();
    assert_eq!(cancelled(&scratch.read("other")), before, "nothing was sent for them");
    assert_eq!(server.ends_of(crossed), 1);
}

/// The kind: a server that does not know the newest method of all: silent, refusing, dying by code or signal, noisy. Silence ends
/// by a deadline, an error is an answer, a death is paid for and does not go on without end.
#[test]
fn co_09_a_server_that_does_not_know_discover() {
    let timeout = options(|o| o.timeout_ms = 500);
    for flags in [&["--on-discover", "ignore"][..], &["--on-discover", "ignore", "--stderr-bytes-at-start", "8192"]] {
        let mut server = Served::by_hand(flags);
        let (peer, pid) = (server.peer, server.pid);
        let discover = server.try_ask(peer, "server/discover", "{}", Some(&timeout)).unwrap();
        server.until_written(pid);
        server.advance_ms(500);
        assert_eq!(server.completion(discover).status, TIMEOUT);
        server.goes_on();
    }
    let mut server = Served::new(&["--on-discover", "error:-32601"]);
    let peer = server.peer;
    let discover = server.host.ask(peer, "server/discover", json!({}));
    let answer = server.completion(discover);
    assert_eq!((answer.message_kind, answer.error_code), (REMOTE_ERROR, -32601));
    server.goes_on();
    // Retry is on, so that it is asked again each time, and still it ends.
    for flags in [&["--on-discover", "exit:1"][..], &["--crash-on", "server/discover", "--exit-signal", "11"]] {
        let scratch = Scratch::new();
        let lives = scratch.name("lives");
        let flags = [&["--lives", &lives][..], flags].concat();
        let mut host = Host::new();
        let peer = host.launch(&Spec::modern(&flags).restart(3, 1, 60_000).retry());
        let discover = host.ask(peer, "server/discover", json!({}));
        let told = host.to_the_end(peer);
        assert_eq!(letters(&told), "D C R D C R D C R D C E X");
        let end = completion_of(&told, discover).unwrap();
        assert_eq!(end.status, MCP_SUPERVISED_E_EXHAUSTED as i32);
        assert_eq!(scratch.read("lives").lines().count(), 4);
    }
}

/// The kind: what keeps a request alive. Progress of its own token does, up to the ceiling; any other does not.
#[test]
fn co_10_progress_keeps_alive_up_to_the_ceiling_and_foreign_progress_does_not() {
    let mut server = Served::by_hand(&[]);
    let bounds = options(|o| {
        (o.timeout_ms, o.max_timeout_ms, o.flags) = (100, 1_000, MCP_SUPERVISED_REQUEST_PROGRESS);
    });
    let (peer, pid) = (server.peer, server.pid);
    let call = |token: &str| format!(r#"{{"name":"progress","arguments":{{"every_ms":1,"count":0{token}}}}}"#);
    let kept = server.try_ask(peer, "tools/call", call(""), Some(&bounds)).unwrap();
    let of = |e: &Event| e.request == kept && e.method == b"notifications/progress";
    for ms in (90..990).step_by(90) {
        server.until(of);
        server.advance_ms(90);
        server.until(of);
        assert_eq!(server.ends_of(kept), 0, "after {ms} ms");
    }
    // So that it is not idle when the ceiling comes.
    for ms in [60, 40] {
        server.until(of);
        server.advance_ms(ms);
    }
    let end = server.completion(kept);
    assert_eq!(end.status, TIMEOUT);
    assert!(end.text().contains("1000 ms"), "{}", end.text());
    // A token of nobody, and that of a request which is over.
    for token in [r#","token":"other""#.to_owned(), format!(r#","token":"progress-{kept}""#)] {
        let foreign = server.try_ask(peer, "tools/call", call(&token), Some(&bounds)).unwrap();
        server.until_written_some(pid);
        server.advance_ms(60);
        server.until_written_some(pid);
        server.advance_ms(60);
        assert_eq!(server.completion(foreign).status, TIMEOUT);
        assert!(!server.seen.iter().any(|e| e.request == foreign && e.method == b"notifications/progress"));
    }
}

/// The kind: what one read brings is not taken out at once. Many messages in one write, one event for each poll, with part of
/// another behind them; the descriptor says that there is more until there is none.
#[test]
fn co_11_all_messages_of_one_write_can_be_taken_at_once() {
    for batch in [1, 7, 64] {
        let mut server = Served::new(&[]);
        server.call("hold", json!({"answers": 3}));
        server.host.batch = batch;
        server.seen.clear();
        let ids = [
            server.asks("flood", json!({"count": 50})),
            server.asks("echo", json!({"message": "a"})),
            server.asks("echo", json!({"message": "b"})),
        ];
        let pid = server.pid;
        server.until_written(pid);
        // Nothing more comes from the server, and nobody waits for anything.
        while server.is_readable() {
            server.poll(0);
        }
        let messages: Vec<&Event> = server.seen.iter().filter(|e| e.letter() == "M").collect();
        assert_eq!(messages.len(), 53);
        assert!(messages[..50].iter().all(|e| e.request == 0));
        assert_eq!(messages[50..].iter().map(|e| e.request).collect::<Vec<_>>(), ids);
    }
    let mut server = Served::new(&[]);
    let lines = format!("{}\n{}\n{}\n", note("a"), note("b"), note("c"));
    for at in [lines.len() - 1, lines.len() - 20, lines.len() / 2] {
        let from = server.seen.len();
        server.asks("raw", json!({"hex": hex(&lines.as_bytes()[..at]), "answer": false}));
        let pid = server.pid;
        server.until_written(pid);
        while server.is_readable() {
            server.poll(0);
        }
        let whole = lines[..at].matches('\n').count();
        assert_eq!(letters(&server.seen[from..]), vec!["M"; whole].join(" "), "all that is whole");
        assert_eq!(letters(&server.writes(&lines.as_bytes()[at..])), vec!["M"; 3 - whole].join(" "));
    }
}
