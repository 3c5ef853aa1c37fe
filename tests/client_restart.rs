//! Requests that were under way when their server died: what is sent again and what never is, what is told of those that are lost,
//! and which of them the dead server cannot have read.

mod support;

use serde_json::{Value, json};
use std::collections::HashSet;
use support::watch::*;
use support::*;

const CLOSED: i32 = MCP_SUPERVISED_E_CLOSED as i32;
const CANCELLED: i32 = MCP_SUPERVISED_E_CANCELLED as i32;
const EXHAUSTED: i32 = MCP_SUPERVISED_E_EXHAUSTED as i32;
const TIMEOUT: i32 = MCP_SUPERVISED_E_TIMEOUT as i32;
const RETRIED: u32 = MCP_SUPERVISED_FLAG_COMPLETE | MCP_SUPERVISED_FLAG_RETRIED;
const UNREAD: u32 = MCP_SUPERVISED_FLAG_COMPLETE | MCP_SUPERVISED_FLAG_UNREAD;

#[test]
fn without_newer_kernel_calls() {
    run_file_again_without_newer_kernel_calls();
}

/// The methods that only read, with params a good server takes.
fn readers() -> [(&'static str, Value); 8] {
    [
        ("server/discover", json!({})),
        ("tools/list", json!({"cursor": "c"})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "greet", "arguments": {"name": "Ada"}, "requestState": null})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": "mem://counter", "_meta": {"x": [1, 2]}})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": "A"}}),
        ),
    ]
}

/// One call, so that everything before it was read.
fn sync(host: &mut Host, peer: u64) {
    let id = host.ask_tool(peer, "pid", json!({}));
    host.completion(id);
}

fn dies(host: &mut Host, peer: u64) -> Event {
    kill9(host.pid(peer));
    host.next(MCP_SUPERVISED_EVENT_CLOSE)
}

/// How often a ledger has seen a method.
fn seen_by(ledger: &str, method: &str) -> usize {
    ledger.lines().filter(|line| line.split(' ').nth(1) == Some(method)).count()
}

#[test]
fn t01_t02_what_only_reads_is_sent_again_byte_for_byte_and_nothing_else() {
    for retry in [true, false] {
        let dir = Scratch::new();
        let (lives, first, second) = (dir.name("lives"), dir.name("first"), dir.name("second"));
        let mut flags = vec!["--lives", lives.as_str(), "--in-life", "1", "--record", first.as_str()];
        let readers = readers();
        for (method, _) in &readers {
            flags.extend(["--mute", *method]);
        }
        flags.extend(["--mute", "vendor/x", "--in-life", "2", "--record", second.as_str()]);
        let mut host = Host::new();
        // A state that is null is none, though the revision has no such thing.
        let spec = Spec::modern(&flags).judged(Judged::Stamped).restart(3, 1, 60_000);
        let spec = spec.client_info("h", "1").server_log_level("info");
        let peer = host.launch(&if retry { spec.retry() } else { spec });
        let never = [
            host.ask_tool(peer, "silent", json!({})),
            host.ask(peer, "vendor/x", json!({})),
            host.ask(peer, "resources/read", json!({"uri": "mem://counter", "requestState": "s"})),
            host.ask(peer, "prompts/get", json!({"name": "greet", "inputResponses": {}})),
        ];
        let options = options(|o| (o.flags, o.user_data) = (MCP_SUPERVISED_REQUEST_PROGRESS, 5));
        let kept: Vec<u64> = readers
            .iter()
            .map(|(method, params)| host.try_ask(peer, method, params.to_string(), Some(&options)).unwrap())
            .collect();
        sync(&mut host, peer);
        kill9(host.pid(peer));
        let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
        let lost = if retry { never.len() } else { never.len() + kept.len() };
        assert_eq!(letters(&taken), format!("D C {}R", "E ".repeat(lost)));
        let order: Vec<u64> = taken.iter().filter(|e| e.is_complete()).map(|e| e.request).collect();
        assert!(order.is_sorted(), "{order:?}");
        for id in never {
            let end = host.completion(id);
            assert_eq!((end.status, end.flags), (CLOSED, MCP_SUPERVISED_FLAG_COMPLETE), "{id}");
        }
        for id in &kept {
            let end = host.completion(*id);
            if retry {
                assert_eq!((end.status, end.flags, end.user_data), (0, RETRIED, 5), "{}", end.text());
            } else {
                assert_eq!((end.status, end.flags, end.user_data), (CLOSED, MCP_SUPERVISED_FLAG_COMPLETE, 5));
            }
        }
        sync(&mut host, peer);
        let (first, second) = (dir.read("first"), dir.read("second"));
        let first: Vec<&str> = first.lines().collect();
        let second: Vec<&str> = second.lines().collect();
        let again = &first[never.len()..never.len() + kept.len()];
        assert_eq!(second[..second.len() - 1], if retry { again.to_vec() } else { Vec::new() });
        // An id is never used twice, in whatever life.
        let last: Value = serde_json::from_str(second.last().unwrap()).unwrap();
        assert_eq!(last["id"], kept.last().unwrap() + 2);
    }
}

#[test]
fn t04_a_ledger_of_all_lives() {
    let dir = Scratch::new();
    let (lives, ledger) = (dir.name("lives"), dir.name("ledger"));
    let flags = [
        "--lives",
        &lives,
        "--ledger",
        &ledger,
        "--in-life",
        "1-3",
        "--crash-on",
        "tools/list",
        "--mute",
        "tools/call",
    ];
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&flags).restart(3, 1, 60_000).retry());
    let calls: Vec<u64> = (0..5).map(|_| host.ask_tool(peer, "bump", json!({}))).collect();
    let list = host.ask(peer, "tools/list", json!({}));
    let end = host.completion(list);
    assert_eq!((end.flags, end.message_kind), (RETRIED, MCP_SUPERVISED_MESSAGE_RESULT as u32));
    for id in &calls {
        assert_eq!(host.completion(*id).status, CLOSED);
    }
    let ledger = dir.read("ledger");
    assert_eq!(seen_by(&ledger, "tools/list"), 4, "once for each life");
    assert_eq!(seen_by(&ledger, "tools/call"), calls.len(), "never twice");
    assert_eq!(letters(&host.seen), "D C E E E E E R D C R D C R M");
    // Nothing else tells of the two lives that died of it.
    let again = format!("request {list} was sent again");
    let logs = texts(&host, MCP_SUPERVISED_EVENT_LOG);
    assert_eq!(logs.iter().filter(|line| line.contains(&again)).count(), 2, "{logs:?}");
    assert_eq!(dir.read("lives").lines().count(), 4);
}

#[test]
fn t05_an_answer_in_the_last_lines_settles_it() {
    let dir = Scratch::new();
    let (lives, ledger) = (dir.name("lives"), dir.name("ledger"));
    let flags = ["--lives", &lives, "--ledger", &ledger, "--in-life", "1", "--exit-after", "1"];
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&flags).restart(3, 1, 60_000).retry());
    let list = host.ask(peer, "tools/list", json!({}));
    host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    assert_eq!(host.completion(list).flags, MCP_SUPERVISED_FLAG_COMPLETE);
    assert_eq!(letters(&host.seen), "M D C R");
    sync(&mut host, peer);
    assert_eq!(seen_by(&dir.read("ledger"), "tools/list"), 1);
}

#[test]
fn t02_the_first_deadline_holds_through_the_restart() {
    let dir = Scratch::new();
    let (lives, record) = (dir.name("lives"), dir.name("record"));
    let flags = ["--lives", &lives, "--mute", "tools/list", "--in-life", "2", "--record", &record];
    let mut host = Host::with_manual_clock();
    let peer = host.launch(&Spec::modern(&flags).restart(3, 200, 60_000).retry().timeouts(1_000, 0));
    let list = host.ask(peer, "tools/list", json!({}));
    sync(&mut host, peer);
    host.advance_ms(600);
    dies(&mut host, peer);
    host.advance_ms(200);
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    sync(&mut host, peer);
    host.advance_ms(199);
    host.expect_silence();
    host.advance_ms(1);
    let end = host.completion(list);
    assert_eq!((end.status, end.flags), (TIMEOUT, RETRIED));
    sync(&mut host, peer);
    let told = read_lines(&dir.read("record"));
    assert_eq!(methods(&told), ["tools/list", "tools/call", "notifications/cancelled", "tools/call"]);
    assert_eq!(told[2]["params"]["requestId"], list);
}

#[test]
fn t06_ends_in_the_outage() {
    let dir = Scratch::new();
    let (lives, record) = (dir.name("lives"), dir.name("record"));
    let flags = ["--lives", &lives, "--mute", "tools/list", "--in-life", "2", "--record", &record];
    let mut host = Host::with_manual_clock();
    let peer = host.launch(&Spec::modern(&flags).restart(3, 5_000, 60_000).retry());
    let short = options(|o| o.timeout_ms = 1_000);
    let overdue = host.try_ask(peer, "tools/list", "{}", Some(&short)).unwrap();
    let unwanted = host.ask(peer, "tools/list", json!({}));
    let kept = host.ask(peer, "prompts/list", json!({"_meta": {"progressToken": 1}}));
    sync(&mut host, peer);
    let muted = host.ask(peer, "tools/list", json!({}));
    sync(&mut host, peer);
    dies(&mut host, peer);
    host.advance_ms(1_000);
    let end = host.completion(overdue);
    assert_eq!((end.status, end.flags), (TIMEOUT, MCP_SUPERVISED_FLAG_COMPLETE));
    assert_eq!(host.cancel(peer, unwanted, ""), 0);
    let end = host.completion(unwanted);
    assert_eq!((end.status, end.flags), (CANCELLED, MCP_SUPERVISED_FLAG_COMPLETE));
    assert_eq!(host.completion(kept).flags, MCP_SUPERVISED_FLAG_COMPLETE, "answered before");
    host.advance_ms(4_000);
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    sync(&mut host, peer);
    let told = read_lines(&dir.read("record"));
    assert_eq!(methods(&told), ["tools/list", "tools/call"]);
    assert_eq!(told[0]["id"], muted);
    // And at the end of all.
    assert_eq!(host.close(peer), 0);
    let taken = host.to_the_end(peer);
    let end = completion_of(&taken, muted).unwrap();
    assert_eq!((end.status, end.flags), (CLOSED, RETRIED | MCP_SUPERVISED_FLAG_FINAL));
}

#[test]
fn t06_the_end_of_the_budget() {
    let dir = Scratch::new();
    let ledger = dir.name("ledger");
    let mut host = Host::new();
    let flags = ["--ledger", &ledger, "--crash-on", "tools/list"];
    let peer = host.launch(&Spec::modern(&flags).restart(2, 1, 60_000).retry());
    let call = host.ask_tool(peer, "silent", json!({}));
    let list = host.ask(peer, "tools/list", json!({}));
    let taken = host.to_the_end(peer);
    assert_eq!(letters(&taken), "D C E R D C R D C E X");
    let ends: Vec<(u64, i32, u32)> =
        taken.iter().filter(|e| e.is_complete()).map(|e| (e.request, e.status, e.flags)).collect();
    assert_eq!(ends, [(call, CLOSED, MCP_SUPERVISED_FLAG_COMPLETE), (list, EXHAUSTED, RETRIED)]);
    assert_eq!(seen_by(&dir.read("ledger"), "tools/list"), 3);
    assert_eq!(seen_by(&dir.read("ledger"), "tools/call"), 1);
}

#[test]
fn t06_l13_a_server_that_cannot_be_started_any_more() {
    let dir = Scratch::new();
    let program = dir.link("server");
    let mut host = Host::new();
    let spec = Spec::new(&program)
        .mode(MCP_SUPERVISED_MODE_MODERN)
        .arg("--mute")
        .arg("tools/list")
        .restart(2, 1, 60_000)
        .retry();
    let peer = host.launch(&spec);
    let list = host.ask(peer, "tools/list", json!({}));
    let stream = host.listen(peer, json!({}), 0);
    host.acknowledged(stream, 1);
    dir.remove("server");
    kill9(host.pid(peer));
    let taken = host.to_the_end(peer);
    assert_eq!(letters(&taken), "D C E E E E X C");
    let ends: Vec<(u64, i32)> = taken.iter().filter(|e| e.is_complete()).map(|e| (e.request, e.status)).collect();
    assert_eq!(ends, [(list, EXHAUSTED), (stream, EXHAUSTED)]);
}

#[test]
fn t01_retry_waits_for_a_server_that_can_be_started_again() {
    let dir = Scratch::new();
    let (program, lives) = (dir.link("server"), dir.name("lives"));
    let mut host = Host::with_manual_clock();
    let spec = ["--lives", &lives, "--in-life", "1", "--mute", "tools/list"]
        .iter()
        .fold(Spec::new(&program).mode(MCP_SUPERVISED_MODE_MODERN), Spec::arg);
    let peer = host.launch(&spec.restart(3, 100, 60_000).retry());
    let list = host.ask(peer, "tools/list", json!({}));
    sync(&mut host, peer);
    dir.remove("server");
    dies(&mut host, peer);
    host.advance_ms(100);
    assert_eq!(host.next(MCP_SUPERVISED_EVENT_ERROR).status, MCP_SUPERVISED_E_SPAWN as i32);
    dir.link("server");
    host.advance_ms(100);
    assert_eq!(host.completion(list).flags, RETRIED);
}

#[test]
fn l19_calls_that_the_dead_server_cannot_have_read() {
    let dir = Scratch::new();
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&["--ledger", &dir.name("ledger")]).restart(3, 1, 60_000));
    let pid = host.pid(peer);
    let read = host.ask_tool(peer, "silent", json!({}));
    let hangs = host.ask_tool(peer, "hang", json!({}));
    wait_for("it hangs", || dir.read("ledger").lines().count() == 2);
    settle(&[pid]);
    let unread: Vec<u64> = (0..3).map(|_| host.ask_tool(peer, "bump", json!({}))).collect();
    host.drive();
    // More than the pipe holds: the tail of it was never written.
    let long = json!({"message": "x".repeat(200_000)});
    let half = host.ask_tool(peer, "echo", long.clone());
    let never = host.ask_tool(peer, "echo", long);
    host.drive();
    kill9(pid);
    host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    for id in [read, hangs] {
        let end = host.completion(id);
        assert_eq!((end.status, end.flags), (CLOSED, MCP_SUPERVISED_FLAG_COMPLETE), "{id}");
    }
    for id in unread.iter().copied().chain([half, never]) {
        let end = host.completion(id);
        assert_eq!((end.status, end.flags), (CLOSED, UNREAD), "{id}");
    }
    assert_eq!(dir.read("ledger").lines().count(), 2);
    // Not a byte of them reaches the replacement.
    sync(&mut host, peer);
    assert_eq!(dir.read("ledger").lines().count(), 3);
}

#[test]
fn l19_calls_to_a_server_that_was_stopped() {
    let dir = Scratch::new();
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&["--ledger", &dir.name("ledger")]).restart(3, 1, 60_000).retry());
    sync(&mut host, peer);
    let pid = host.pid(peer);
    settle(&[pid]);
    signal(pid, libc::SIGSTOP);
    wait_state(pid, 'T');
    let call = host.ask_tool(peer, "bump", json!({}));
    let list = host.ask(peer, "tools/list", json!({}));
    host.drive();
    kill9(pid);
    assert_eq!(host.completion(call).flags, UNREAD);
    // What is sent again may have been read by somebody.
    assert_eq!(host.completion(list).flags, RETRIED);
    let ledger = dir.read("ledger");
    assert_eq!((seen_by(&ledger, "tools/call"), seen_by(&ledger, "tools/list")), (1, 1));
}

#[test]
fn l19_never_of_a_call_that_a_ledger_has_seen() {
    let dir = Scratch::new();
    let (mut unread, mut all) = (0, 0);
    for round in 0..25 {
        let name = format!("ledger{round}");
        let mut host = Host::new();
        let flags = ["--ledger", &dir.name(&name)];
        let peer = host.launch(&Spec::modern(&flags).restart(MCP_SUPERVISED_NO_RESTART, 0, 60_000));
        sync(&mut host, peer);
        let pid = host.pid(peer);
        for n in 0..40 * round {
            host.ask_tool(peer, "echo", json!({"message": "x".repeat(n % 700)}));
            if n % 64 == 63 {
                host.poll(0);
            }
        }
        kill9(pid);
        host.to_the_end(peer);
        let ledger = dir.read(&name);
        let seen: HashSet<u64> = ledger.lines().filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect();
        for event in host.seen.iter().filter(|e| e.is_complete()) {
            if has(event, MCP_SUPERVISED_FLAG_UNREAD) {
                assert!(!seen.contains(&event.request), "round {round}: {} was read", event.request);
                unread += 1;
            }
            all += 1;
        }
    }
    assert_eq!(all, 25 + (0..25).map(|round| 40 * round).sum::<usize>(), "every one completed once");
    println!("{unread} of {all} were unread");
}

#[test]
fn l16_a_thousand_calls_are_lost_once_each_and_in_order() {
    let mut host = Host::new();
    host.batch = 256;
    let peer = host.launch(&Spec::modern(&["--mute", "*"]).restart(3, 1, 60_000).retry());
    let mut calls = Vec::new();
    for n in 0..1_000 {
        let (method, params) = if n % 4 == 0 { ("prompts/list", "{}") } else { ("tools/call", r#"{"name":"pid"}"#) };
        let id = host.try_ask(peer, method, params, None).unwrap();
        if n % 4 != 0 {
            calls.push(id);
        }
    }
    host.drive();
    kill9(host.pid(peer));
    host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    let lost: Vec<u64> = host.seen.iter().filter(|e| e.is_complete()).map(|e| e.request).collect();
    assert_eq!(lost, calls);
    host.close(peer);
    let rest = host.to_the_end(peer);
    let rest: Vec<u64> = rest.iter().filter(|e| e.is_complete()).map(|e| e.request).collect();
    assert_eq!(rest.len(), 250);
    assert!(rest.is_sorted());
}

#[test]
fn f04_what_waits_for_a_dead_server_is_not_for_its_replacement() {
    let dir = Scratch::new();
    let (lives, record) = (dir.name("lives"), dir.name("record"));
    let flags = ["--lives", &lives, "--in-life", "2", "--record", &record];
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&flags).restart(3, 1, 60_000));
    sync(&mut host, peer);
    let pid = host.pid(peer);
    signal(pid, libc::SIGSTOP);
    wait_state(pid, 'T');
    host.ask_tool(peer, "echo", json!({"message": "x".repeat(200_000)}));
    assert_eq!(host.notify(peer, "notifications/x", "{}"), 0);
    host.send(peer, request_line("mine", "tools/list", json!({})));
    host.drive();
    kill9(pid);
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    sync(&mut host, peer);
    assert_eq!(methods(&read_lines(&dir.read("record"))), ["tools/call"]);
}

#[test]
fn r05_cancel_between_the_death_and_close() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&[]).restart(3, 1, 60_000));
    let call = host.ask_tool(peer, "silent", json!({}));
    let other = host.ask_tool(peer, "silent", json!({}));
    sync(&mut host, peer);
    kill9(host.pid(peer));
    // Dead, and not a word of it was taken yet: its loss is queued, or it is cancelled; it is told once.
    wait_state(host.pid(peer), 'Z');
    let status = host.cancel(peer, call, "");
    host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    let end = host.completion(call);
    assert_eq!(end.status, if status == 0 { CANCELLED } else { CLOSED });
    assert_eq!(host.completion(other).status, CLOSED);
    assert_eq!(host.seen.iter().filter(|e| e.request == call).count(), 1);
}

#[test]
fn f04_r12_a_reconnect_takes_the_place_of_a_writable() {
    let mut host = Host::new();
    let spec = Spec::modern(&["--mute", "*"]).restart(3, 1, 60_000).limit(MCP_SUPERVISED_LIMIT_MAX_IN_FLIGHT, 2);
    let peer = host.launch(&spec);
    host.ask(peer, "tools/list", json!({}));
    let stream = host.listen(peer, json!({}), 0);
    assert_eq!(host.try_ask(peer, "tools/list", "{}", None), Err(MCP_SUPERVISED_E_WOULD_BLOCK as i32));
    kill9(host.pid(peer));
    host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    assert_eq!(letters(&host.seen), "D C E R");
    // The stream still has its slot.
    host.ask(peer, "tools/list", json!({}));
    assert_eq!(host.try_ask(peer, "tools/list", "{}", None), Err(MCP_SUPERVISED_E_WOULD_BLOCK as i32));
    assert_eq!(host.cancel(peer, stream, ""), 0);
    host.next(MCP_SUPERVISED_EVENT_WRITABLE);
}

#[test]
fn l08_last_words_and_what_the_close_ends() {
    let dir = Scratch::new();
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&["--finish", "--record", &dir.name("record")]));
    let silent = host.ask_tool(peer, "silent", json!({}));
    let unwanted = host.ask_tool(peer, "silent", json!({}));
    sync(&mut host, peer);
    assert_eq!(host.close(peer), 0);
    let word = host.ask_tool(peer, "echo", json!({"message": "last"}));
    let late = host.ask_tool(peer, "sleep", json!({"ms": 40}));
    assert_eq!(host.notify(peer, "notifications/bye", ""), 0);
    host.reach(peer, MCP_SUPERVISED_STATE_DRAINING);
    host.next(MCP_SUPERVISED_EVENT_DRAIN);
    host.reach(peer, MCP_SUPERVISED_STATE_CLOSING);
    for status in [
        host.try_ask(peer, "tools/list", "{}", None).unwrap_err(),
        host.notify(peer, "x", ""),
        host.try_send(peer, request_line("s", "tools/list", json!({}))).unwrap_err(),
    ] {
        assert_eq!(status, CLOSED);
    }
    // What is ended now is not told to a server whose stdin is closing.
    assert_eq!(host.cancel(peer, unwanted, ""), 0);
    let taken = host.to_the_end(peer);
    assert_eq!(host.completion(word).tool_text(), "last");
    assert_eq!(host.completion(late).tool_text(), "slept");
    assert_eq!(host.completion(unwanted).status, CANCELLED);
    let end = taken.last().unwrap();
    assert_eq!((end.request, end.status), (silent, CLOSED));
    let told = read_lines(&dir.read("record"));
    assert_eq!(methods(&told[3..]), ["tools/call", "tools/call", "notifications/bye"]);
    assert_eq!(host.cancel(peer, silent, ""), MCP_SUPERVISED_E_NO_REQUEST as i32);
}

#[test]
fn l18_a_shutdown_completes_everything_of_everybody() {
    let mut host = Host::new();
    let mut open = HashSet::new();
    for n in 0..3 {
        let peer = host.launch(&Spec::modern(&["--mute", "*"]).retry());
        open.insert((peer, host.listen(peer, json!({}), n)));
        open.insert((peer, host.ask(peer, "tools/list", json!({}))));
        open.insert((peer, host.ask_tool(peer, "pid", json!({}))));
    }
    assert_eq!(host.shutdown(10_000), 0);
    let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_SHUTDOWN));
    for event in taken.iter().filter(|e| e.is_complete()) {
        assert_eq!(event.status, CLOSED);
        assert!(open.remove(&(event.peer, event.request)), "once");
    }
    assert!(open.is_empty(), "{open:?}");
}
