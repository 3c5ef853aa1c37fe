//! Streams against the demo server: how they are opened, what belongs to which, how each side ends them, and how they come through
//! a restart under their id.

mod support;

use serde_json::{Value, json};
use support::watch::*;
use support::*;

const CANCELLED: i32 = MCP_SUPERVISED_E_CANCELLED as i32;
const CLOSED: i32 = MCP_SUPERVISED_E_CLOSED as i32;
const ACKNOWLEDGED: &[u8] = b"notifications/subscriptions/acknowledged";
const UPDATED: &[u8] = b"notifications/resources/updated";
const TOOLS_CHANGED: &[u8] = b"notifications/tools/list_changed";

#[test]
fn without_newer_kernel_calls() {
    run_file_again_without_newer_kernel_calls();
}

fn counter() -> Value {
    json!({"resourceSubscriptions": ["mem://counter"]})
}

/// Calls a tool and waits for its answer.
fn does(host: &mut Host, peer: u64, tool: &str, arguments: Value) -> String {
    let id = host.ask_tool(peer, tool, arguments);
    host.completion(id).tool_text()
}

/// The methods of what came for a stream.
fn deliveries(host: &Host, stream: u64) -> Vec<String> {
    let of = host.seen.iter().filter(|e| e.request == stream && !e.is_complete());
    of.map(|e| String::from_utf8(e.method.clone()).unwrap()).collect()
}

#[test]
fn s01_s02_a_stream_is_acknowledged_and_delivers_under_its_id() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&[]));
    let first = host.ask_tool(peer, "pid", json!({}));
    let stream = host.listen(peer, counter(), 77);
    assert_eq!(stream, first + 1, "ids of one row");
    let ack = host.acknowledged(stream, 1);
    assert_eq!((ack.user_data, ack.flags, ack.status), (77, 0, 0));
    assert_eq!(ack.message_kind, MCP_SUPERVISED_MESSAGE_NOTIFICATION as u32);
    assert_eq!(ack.json()["params"]["notifications"], counter());
    assert_eq!(does(&mut host, peer, "bump", json!({})), "1");
    let update = host.seen.iter().find(|e| e.method == UPDATED).unwrap();
    assert_eq!((update.request, update.user_data, update.flags), (stream, 77, 0));
    assert_eq!(update.json()["params"]["uri"], "mem://counter");
}

#[test]
fn s02_two_streams_get_their_own() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&[]));
    let tools = host.listen(peer, json!({"toolsListChanged": true}), 1);
    let both = host.listen(peer, json!({"toolsListChanged": true, "resourceSubscriptions": ["mem://counter"]}), 2);
    let nothing = host.listen(peer, json!({}), 3);
    does(&mut host, peer, "bump", json!({}));
    does(&mut host, peer, "flip", json!({}));
    does(&mut host, peer, "flip", json!({"what": "prompts"}));
    let ack = String::from_utf8(ACKNOWLEDGED.to_vec()).unwrap();
    let (updated, changed) = ("notifications/resources/updated", "notifications/tools/list_changed");
    assert_eq!(deliveries(&host, tools), [&ack, changed]);
    assert_eq!(deliveries(&host, both), [&ack, updated, changed]);
    assert_eq!(deliveries(&host, nothing), [ack]);
    for (stream, data) in [(tools, 1), (both, 2), (nothing, 3)] {
        assert!(host.seen.iter().filter(|e| e.request == stream).all(|e| e.user_data == data));
    }
}

#[test]
fn s02_notifications_of_no_stream_come_without_one() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&["--string-ids"]));
    let stream = host.listen(peer, counter(), 7);
    host.acknowledged(stream, 1);
    let note = |id: Value| {
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
            "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": id}, "uri": "x"}})
        .to_string()
    };
    // Its id as a string that spells it is its id; any other is nobody's.
    let lines = [
        note(json!(stream)),
        note(json!(stream.to_string())),
        note(json!(99)),
        note(json!("a")),
        note(json!(null)),
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#.to_owned(),
    ];
    let from = host.seen.len();
    does(&mut host, peer, "raw", json!({"text": lines.join("\n") + "\n"}));
    let owners: Vec<u64> = host.seen[from..].iter().filter(|e| !e.is_complete()).map(|e| e.request).collect();
    let notes: Vec<u64> = owners.into_iter().take(lines.len()).collect();
    assert_eq!(notes, [stream, stream, 0, 0, 0, 0]);
}

#[test]
fn s04_every_way_in_which_a_server_ends_a_stream() {
    for how in ["result", "cancelled", "both", "error"] {
        let mut host = Host::new();
        let peer = host.launch(&Spec::modern(&[]));
        let streams = [host.listen(peer, counter(), 1), host.listen(peer, json!({"toolsListChanged": true}), 2)];
        host.acknowledged(streams[1], 1);
        let ends = host.ask_tool(peer, "end_streams", json!({"how": how}));
        for (stream, data) in streams.into_iter().zip([1, 2]) {
            let end = host.completion(stream);
            assert_eq!(end.user_data, data);
            match how {
                "result" => {
                    assert_eq!((end.status, end.flags), (0, MCP_SUPERVISED_FLAG_COMPLETE));
                    assert_eq!(end.message_kind, MCP_SUPERVISED_MESSAGE_RESULT as u32);
                }
                "error" => {
                    assert_eq!((end.error_code, end.flags), (-32000, MCP_SUPERVISED_FLAG_COMPLETE));
                }
                _ => {
                    assert_eq!((end.status, end.error_code), (CANCELLED, 0));
                    assert_eq!(end.flags, MCP_SUPERVISED_FLAG_COMPLETE | MCP_SUPERVISED_FLAG_BY_PEER);
                }
            }
        }
        host.completion(ends);
        // Ended is ended: the host cannot end it again, nothing more comes of it, and it is not opened on a replacement.
        assert_eq!(host.cancel(peer, streams[0], ""), MCP_SUPERVISED_E_NO_REQUEST as i32);
        assert_eq!(does(&mut host, peer, "bump", json!({})), "1");
        assert_eq!(texts(&host, MCP_SUPERVISED_EVENT_LOG), [""; 0], "{how}: a result behind it is no late answer");
        let completions = host.seen.iter().filter(|e| streams.contains(&e.request) && e.is_complete()).count();
        assert_eq!(completions, 2, "{how}");
        assert!(!host.seen.iter().any(|e| e.method == UPDATED), "{how}");
    }
}

#[test]
fn s04_a_server_that_leaves_is_lost_or_has_said_so() {
    // What comes with the end of the process: an answer counts, the error of a server that is exiting does not.
    for (how, ends) in [("nothing", false), ("error", false), ("result", true), ("cancelled", true), ("both", true)] {
        let dir = Scratch::new();
        let mut host = Host::new();
        let lives = dir.name("lives");
        let record = dir.name("record");
        let flags =
            ["--graceful", "--end-streams", how, "--lives", &lives, "--in-life", "2", "--record", record.as_str()];
        let peer = host.launch(&Spec::modern(&flags).restart(3, 1, 60_000));
        let stream = host.listen(peer, counter(), 5);
        host.acknowledged(stream, 1);
        signal(host.pid(peer), libc::SIGTERM);
        host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
        // Without --end-streams a graceful server ends them with a result.
        if ends || how == "nothing" {
            let end = host.completion(stream);
            assert_eq!(end.message_kind == MCP_SUPERVISED_MESSAGE_RESULT as u32, matches!(how, "result" | "nothing"));
            does(&mut host, peer, "bump", json!({}));
            assert_eq!(methods(&read_lines(&dir.read("record"))), ["tools/call"], "{how}");
        } else {
            host.acknowledged(stream, 2);
            does(&mut host, peer, "bump", json!({}));
            assert_eq!(deliveries(&host, stream).last().map(String::as_bytes), Some(UPDATED), "{how}");
            assert!(completion_of(&host.seen, stream).is_none(), "{how}");
        }
    }
}

#[test]
fn s04_an_error_of_an_acknowledged_stream_waits_for_the_death() {
    let mut host = Host::with_manual_clock();
    let peer = host.launch(&Spec::modern(&[]));
    let stream = host.listen(peer, counter(), 0);
    host.acknowledged(stream, 1);
    does(&mut host, peer, "end_streams", json!({"how": "error"}));
    host.advance_ms(249);
    host.expect_silence();
    assert!(completion_of(&host.seen, stream).is_none());
    host.advance_ms(1);
    assert_eq!(host.completion(stream).error_code, -32000);
}

#[test]
fn s04_refused_streams_are_told_at_once_and_not_opened_again() {
    for code in ["-32601", "-32000"] {
        let dir = Scratch::new();
        let mut host = Host::with_manual_clock();
        let flags = ["--listen-error", code, "--record", &dir.name("record")];
        let peer = host.launch(&Spec::modern(&flags).restart(3, 1, 60_000));
        let stream = host.listen(peer, counter(), 4);
        let end = host.completion(stream);
        assert_eq!((end.error_code.to_string().as_str(), end.user_data, end.status), (code, 4, 0));
        assert_eq!(end.message_kind, MCP_SUPERVISED_MESSAGE_REMOTE_ERROR as u32);
        kill9(host.pid(peer));
        host.next(MCP_SUPERVISED_EVENT_CLOSE);
        host.advance_ms(1);
        host.next(MCP_SUPERVISED_EVENT_RECONNECT);
        does(&mut host, peer, "pid", json!({}));
        assert_eq!(methods(&read_lines(&dir.read("record"))), ["subscriptions/listen", "tools/call"]);
    }
}

#[test]
fn s02_a_stream_that_is_not_acknowledged_is_a_warning_and_stays_open() {
    let mut host = Host::with_manual_clock();
    let peer = host.launch(&Spec::modern(&["--no-ack"]).timeouts(1_000, 0));
    let stream = host.listen(peer, counter(), 0);
    does(&mut host, peer, "pid", json!({}));
    host.advance_ms(1_000);
    let log = host.await_log("not acknowledged");
    assert!(log.contains(&stream.to_string()), "{log}");
    // S6: nothing more than that, ever.
    host.advance_ms(10_000_000);
    host.expect_silence();
    does(&mut host, peer, "bump", json!({}));
    assert_eq!(deliveries(&host, stream).len(), 1);
}

#[test]
fn s05_cancelled_by_the_host() {
    let dir = Scratch::new();
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&["--record", &dir.name("record")]).restart(3, 1, 60_000));
    let kept = host.listen(peer, counter(), 1);
    let ended = host.listen(peer, counter(), 2);
    host.acknowledged(ended, 1);
    assert_eq!(host.cancel(peer, ended, "enough"), 0);
    let end = host.completion(ended);
    assert_eq!((end.status, end.user_data, end.flags), (CANCELLED, 2, MCP_SUPERVISED_FLAG_COMPLETE), "not by the peer");
    does(&mut host, peer, "bump", json!({}));
    assert_eq!((deliveries(&host, kept).len(), deliveries(&host, ended).len()), (2, 1));
    let told = read_lines(&dir.read("record"));
    assert_eq!(told[2]["method"], "notifications/cancelled");
    assert_eq!(told[2]["params"], json!({"requestId": ended, "reason": "enough"}));
    kill9(host.pid(peer));
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    does(&mut host, peer, "pid", json!({}));
    let told = read_lines(&dir.read("record"));
    assert_eq!(methods(&told[4..]), ["subscriptions/listen", "tools/call"]);
    assert_eq!(told[4]["id"], kept);
}

#[test]
fn s05_cancelled_in_the_outage_is_not_opened_again() {
    let dir = Scratch::new();
    let mut host = Host::with_manual_clock();
    let peer = host.launch(&Spec::modern(&["--record", &dir.name("record")]).restart(3, 1_000, 60_000));
    let kept = host.listen(peer, counter(), 0);
    let ended = host.listen(peer, counter(), 0);
    host.acknowledged(ended, 1);
    kill9(host.pid(peer));
    host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_WAITING as i32);
    assert_eq!(host.cancel(peer, ended, ""), 0);
    assert_eq!(host.completion(ended).status, CANCELLED);
    assert_eq!(host.cancel(peer, ended, ""), MCP_SUPERVISED_E_NO_REQUEST as i32);
    host.advance_ms(1_000);
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    host.acknowledged(kept, 2);
    does(&mut host, peer, "pid", json!({}));
    let told = read_lines(&dir.read("record"));
    assert_eq!(methods(&told[2..]), ["subscriptions/listen", "tools/call"]);
    assert_eq!(told[2]["id"], kept);
}

#[test]
fn s03_streams_survive_every_kill_under_their_id_and_filter() {
    let dir = Scratch::new();
    let lives = dir.name("lives");
    let records = [1, 2, 3].map(|life| dir.name(&format!("record{life}")));
    let mut flags = vec!["--lives", lives.as_str()];
    for (life, record) in ["1", "2", "3"].into_iter().zip(&records) {
        flags.extend(["--in-life", life, "--record", record.as_str()]);
    }
    // A replacement may accept less, and says so.
    flags.extend(["--in-life", "3", "--listen-accept", "toolsListChanged"]);
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&flags).restart(3, 1, 60_000));
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["mem://counter"]});
    let first = host.listen(peer, counter(), 1);
    does(&mut host, peer, "pid", json!({}));
    let second = host.listen(peer, filter.clone(), 2);
    for life in 1..=3 {
        let acks = [first, second].map(|stream| host.acknowledged(stream, life));
        assert_eq!(acks.each_ref().map(|ack| ack.user_data), [1, 2]);
        let accepted = &acks[1].json()["params"]["notifications"];
        assert_eq!(*accepted, if life == 3 { json!({"toolsListChanged": true}) } else { filter.clone() });
        let from = host.seen.len();
        does(&mut host, peer, "bump", json!({}));
        does(&mut host, peer, "flip", json!({}));
        let now: Vec<(u64, &[u8])> = host.seen[from..]
            .iter()
            .filter(|e| !e.is_complete() && e.is(MCP_SUPERVISED_EVENT_MESSAGE))
            .map(|e| (e.request, e.method.as_slice()))
            .collect();
        if life == 3 {
            assert_eq!(now, [(second, TOOLS_CHANGED)]);
        } else {
            assert_eq!(now, [(first, UPDATED), (second, UPDATED), (second, TOOLS_CHANGED)]);
            kill9(host.pid(peer));
            let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
            assert_eq!(letters(&taken), "D C R", "the loss is absorbed");
        }
    }
    // The very line, in the order of opening, before anything else.
    let listens: Vec<Vec<String>> = (1..=3)
        .map(|life| dir.read(&format!("record{life}")))
        .map(|record| record.lines().filter(|line| line.contains("listen")).map(str::to_owned).collect())
        .collect();
    assert_eq!(listens[0].len(), 2);
    assert_eq!(listens[1], listens[0]);
    assert_eq!(listens[2], listens[0]);
    for life in 2..=3 {
        let told = read_lines(&dir.read(&format!("record{life}")));
        assert_eq!(methods(&told[..3]), ["subscriptions/listen", "subscriptions/listen", "tools/call"]);
    }
    host.close(peer);
    let last = host.to_the_end(peer);
    assert_eq!(letters(&last), "D C E E");
}

#[test]
fn s03_a_replacement_that_dies_of_the_stream_is_tried_again() {
    let dir = Scratch::new();
    let (lives, ledger) = (dir.name("lives"), dir.name("ledger"));
    let flags = ["--lives", &lives, "--ledger", &ledger, "--in-life", "2-3", "--crash-on", "subscriptions/listen"];
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&flags).restart(3, 1, 60_000));
    let stream = host.listen(peer, counter(), 0);
    host.acknowledged(stream, 1);
    kill9(host.pid(peer));
    for _ in 0..3 {
        host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    }
    host.acknowledged(stream, 2);
    does(&mut host, peer, "bump", json!({}));
    assert_eq!(deliveries(&host, stream).last().map(String::as_bytes), Some(UPDATED));
    let listens = dir.read("ledger").lines().filter(|line| line.contains("listen")).count();
    assert_eq!(listens, 4);
    let logs = texts(&host, MCP_SUPERVISED_EVENT_LOG);
    assert_eq!(logs.iter().filter(|line| line.contains("was opened again")).count(), 2, "{logs:?}");
}

#[test]
fn s05_l12_the_end_of_the_budget_ends_streams() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&[]).restart(MCP_SUPERVISED_NO_RESTART, 0, 60_000));
    let streams = [host.listen(peer, counter(), 1), host.listen(peer, counter(), 2)];
    let call = host.ask_tool(peer, "silent", json!({}));
    host.acknowledged(streams[1], 1);
    kill9(host.pid(peer));
    let taken = host.to_the_end(peer);
    assert_eq!(letters(&taken), "D C E E E X");
    let ends: Vec<(u64, i32)> = taken.iter().filter(|e| e.is_complete()).map(|e| (e.request, e.status)).collect();
    let exhausted = MCP_SUPERVISED_E_EXHAUSTED as i32;
    assert_eq!(ends, [(call, CLOSED), (streams[0], exhausted), (streams[1], exhausted)]);
}

#[test]
fn s05_l08_close_tells_the_server_and_ends_streams() {
    let dir = Scratch::new();
    for how in ["nothing", "result", "error"] {
        let mut host = Host::new();
        let record = format!("record-{how}");
        let flags = ["--record", &dir.name(&record), "--end-streams", how];
        let peer = host.launch(&Spec::modern(&flags));
        let streams = [host.listen(peer, counter(), 1), host.listen(peer, counter(), 2)];
        host.acknowledged(streams[1], 1);
        let call = host.ask_tool(peer, "silent", json!({}));
        assert_eq!(host.close(peer), 0);
        let taken = host.to_the_end(peer);
        assert_eq!(letters(&taken), "D C E E E", "{how}");
        let ends: Vec<(u64, i32)> = taken.iter().filter(|e| e.is_complete()).map(|e| (e.request, e.status)).collect();
        assert_eq!(ends, [(call, CLOSED), (streams[0], CLOSED), (streams[1], CLOSED)]);
        let told = read_lines(&dir.read(&record));
        let cancelled: Vec<&Value> = told
            .iter()
            .filter(|line| line["method"] == "notifications/cancelled")
            .map(|line| &line["params"]["requestId"])
            .collect();
        assert_eq!(cancelled, [&json!(streams[0]), &json!(streams[1])], "streams alone, in order");
    }
}

#[test]
fn s05_l09_close_in_the_outage_ends_streams() {
    let mut host = Host::with_manual_clock();
    let peer = host.launch(&Spec::modern(&[]).restart(3, 1_000, 60_000));
    let stream = host.listen(peer, counter(), 3);
    host.acknowledged(stream, 1);
    kill9(host.pid(peer));
    host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_WAITING as i32);
    let refused = host.try_ask(peer, "tools/list", "{}", None);
    assert_eq!(refused, Err(CLOSED));
    assert_eq!(host.close(peer), 0);
    let taken = host.to_the_end(peer);
    assert_eq!(letters(&taken), "C E");
    assert_eq!((taken[1].request, taken[1].status, taken[1].user_data), (stream, CLOSED, 3));
}

#[test]
fn s05_a_stream_ended_by_the_server_is_gone_when_it_dies() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&[]).restart(3, 1, 60_000));
    let stream = host.listen(peer, counter(), 0);
    host.acknowledged(stream, 1);
    does(&mut host, peer, "end_streams", json!({"how": "cancelled"}));
    host.completion(stream);
    kill9(host.pid(peer));
    let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    assert_eq!(letters(&taken), "D C R");
    does(&mut host, peer, "bump", json!({}));
    assert_eq!(deliveries(&host, stream).len(), 1, "no second acknowledgement");
}

#[test]
fn f03_a_host_that_sheds_loses_the_stream_and_no_answer() {
    let dir = Scratch::new();
    let mut host = Host::new();
    let spec = Spec::modern(&["--record", &dir.name("record")]).limit(MCP_SUPERVISED_LIMIT_EVENT_QUEUE, 10).shed();
    let peer = host.launch(&spec);
    let stream = host.listen(peer, counter(), 6);
    let other = host.listen(peer, json!({"toolsListChanged": true}), 7);
    host.acknowledged(other, 1);
    let pid = host.pid(peer);
    let flood = host.ask_tool(peer, "flood", json!({"count": 500, "kind": "updated", "size": 300}));
    let loose = host.ask_tool(peer, "flood", json!({"count": 250, "size": 300}));
    // Nobody takes anything, and the server is not held up.
    host.until_written(pid);
    assert!(written_by(pid) > 750 * 300);
    let end = host.completion(stream);
    assert_eq!((end.status, end.user_data), (MCP_SUPERVISED_E_DELIVERY_DROPPED as i32, 6));
    assert_eq!(end.flags, MCP_SUPERVISED_FLAG_COMPLETE);
    assert_eq!(host.completion(flood).tool_text(), "500");
    assert_eq!(host.completion(loose).tool_text(), "250");
    let shed = texts(&host, MCP_SUPERVISED_EVENT_LOG);
    assert!(!shed.is_empty() && shed.iter().all(|line| line.contains("does not keep up")), "{shed:?}");
    assert!(shed.len() < 10, "not one for each: {shed:?}");
    // The server was told of it once, and the other stream goes on.
    does(&mut host, peer, "flip", json!({}));
    assert_eq!(deliveries(&host, other).last().map(String::as_bytes), Some(TOOLS_CHANGED));
    let told = read_lines(&dir.read("record"));
    let cancelled: Vec<&Value> = told.iter().filter(|line| line["method"] == "notifications/cancelled").collect();
    assert_eq!(cancelled.len(), 1);
    assert_eq!(cancelled[0]["params"]["requestId"], stream);
}

#[test]
fn f03_progress_that_is_shed_still_keeps_its_request_alive() {
    let mut host = Host::with_manual_clock();
    let spec = Spec::modern(&[]).limit(MCP_SUPERVISED_LIMIT_EVENT_QUEUE, 2).shed().timeouts(1_000, u64::MAX);
    let peer = host.launch(&spec);
    let options = options(|o| o.flags = MCP_SUPERVISED_REQUEST_PROGRESS);
    let waits = host.try_ask(peer, "tools/call", r#"{"name":"silent"}"#, Some(&options)).unwrap();
    let token = format!("progress-{waits}");
    let note = host.ask_tool(peer, "progress", json!({"every_ms": 0, "count": 20, "token": token}));
    let pid = host.pid(peer);
    host.advance_ms(900);
    host.until_written(pid);
    host.advance_ms(900);
    host.completion(note);
    assert!(completion_of(&host.seen, waits).is_none(), "the last note restarted its time");
    assert!(host.seen.iter().filter(|e| e.request == waits).count() < 20, "some were dropped");
    host.advance_ms(100);
    assert_eq!(host.completion(waits).status, MCP_SUPERVISED_E_TIMEOUT as i32);
}

#[test]
fn f01_without_shed_a_stream_loses_nothing() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&[]).limit(MCP_SUPERVISED_LIMIT_EVENT_QUEUE, 10));
    let stream = host.listen(peer, counter(), 0);
    host.acknowledged(stream, 1);
    let flood = host.ask_tool(peer, "flood", json!({"count": 2000, "kind": "updated", "size": 200}));
    host.completion(flood);
    let numbers: Vec<u64> = host
        .seen
        .iter()
        .filter(|e| e.request == stream && e.method == UPDATED)
        .map(|e| e.json()["params"]["_meta"]["n"].as_u64().unwrap())
        .collect();
    assert!(numbers.iter().copied().eq(0..2000));
}
