//! What a dying server has written reaches the host, all of it, in order and before its CLOSE (L3), and nothing of it reaches the
//! next life (W5).

mod support;

use serde_json::json;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};
use support::*;

#[test]
fn without_newer_kernel_calls() {
    run_file_again_without_newer_kernel_calls();
}

/// What is known of one peer of `deaths`.
struct Dying {
    answers: usize,
    lives: u32,
    awaited: VecDeque<String>,
    /// Requests sent, for ids and sizes.
    sent: usize,
}

impl Dying {
    /// Sends as many calls as the server answers, all at once, before it dies. Some answers fill the pipe, so that the server's
    /// last write waits for us.
    fn send(&mut self, host: &mut Host, peer: u64, largest: usize) {
        for _ in 0..self.answers {
            self.sent += 1;
            let id = format!("{}", self.sent);
            let size = self.sent * 7_919 % largest;
            let line = request_line(
                &format!("call-{id}"),
                "tools/call",
                json!({"name": "echo", "arguments": {"message": "m".repeat(size)}}),
            );
            host.send(peer, line);
            self.awaited.push_back(format!("\"call-{id}\""));
        }
    }
}

/// Servers that answer everything in one write and exit at once, life after life, until `total` of them have died.
fn deaths(mut host: Host, total: u32, largest: usize, shape: impl Fn(Spec) -> Spec) {
    const PEERS: u32 = 8;
    let mut peers: HashMap<u64, Dying> = HashMap::new();
    for number in 0..PEERS {
        let answers = [1, 2, 3, 20][number as usize % 4];
        let how = if number % 2 == 0 { ["--exit-code", "0"] } else { ["--exit-signal", "11"] };
        let mode = if number < 4 { MCP_SUPERVISED_MODE_RAW } else { MCP_SUPERVISED_MODE_MODERN };
        let spec = Spec::demo(&["--answers", &answers.to_string(), how[0], how[1]]);
        let spec = shape(spec.mode(mode).restart(MCP_SUPERVISED_UNLIMITED, 0, 60_000));
        let peer = host.launch(&spec);
        let mut dying = Dying { answers, lives: total / PEERS, awaited: VecDeque::new(), sent: 0 };
        dying.send(&mut host, peer, largest);
        peers.insert(peer, dying);
    }
    let deadline = Instant::now() + PATIENCE;
    while !peers.is_empty() {
        assert!(Instant::now() < deadline, "servers that died and were not told of");
        host.seen.clear();
        for event in host.poll(1_000) {
            let Some(dying) = peers.get_mut(&event.peer) else {
                panic!("after the last event: {event:?}");
            };
            match event.letter() {
                "M" => {
                    let expected = dying.awaited.pop_front().expect("an answer to nothing");
                    assert_eq!(String::from_utf8_lossy(&event.id), expected, "in order");
                }
                "C" if dying.lives == 0 => {}
                "C" => {
                    assert_eq!(dying.awaited, [] as [String; 0], "answers that were written are told before the CLOSE");
                    assert!(event.will_reconnect());
                    dying.lives -= 1;
                    if dying.lives == 0 {
                        host.close(event.peer);
                    }
                }
                "R" if dying.lives > 0 => dying.send(&mut host, event.peer, largest),
                "R" | "D" | "LOG" => {}
                other => panic!("{other}: {event:?}"),
            }
            if event.is_final() {
                peers.remove(&event.peer);
            }
        }
    }
}

#[test]
fn l03_a_thousand_dying_servers_lose_no_answer() {
    deaths(Host::new(), 1_000, 6_000, |spec| spec);
}

/// A host that takes one event at a time, from queues that hold next to nothing: reading stops and goes on in the middle of what
/// the dead have left.
#[test]
fn l03_a_slow_host_loses_no_answer_of_the_dead() {
    let few = |spec: Spec| spec.limit(MCP_SUPERVISED_LIMIT_EVENT_QUEUE, 2);
    deaths(Host::new().stepwise(), 160, 6_000, few);
    let small = |spec: Spec| spec.limit(MCP_SUPERVISED_LIMIT_EVENT_BYTES, 1);
    deaths(Host::new().stepwise(), 160, 20_000, small);
}

/// However late the host takes what is queued: the time for the end of the output stands still meanwhile.
#[test]
fn l03_a_host_that_is_slower_than_every_timer_loses_nothing() {
    let mut host = Host::with_manual_clock().stepwise();
    let spec = Spec::demo(&["--answers", "1"]).limit(MCP_SUPERVISED_LIMIT_EVENT_QUEUE, 3).restart(
        MCP_SUPERVISED_NO_RESTART,
        0,
        60_000,
    );
    let peer = host.launch(&spec);
    // 3,000 notes and the answer in one write, of which a pipe holds a part.
    host.call(peer, "a", "flood", json!({"count": 3_000, "size": 100, "one_write": true}));
    let mut notes = 0;
    while !host.poll(1_000).iter().any(Event::is_final) {
        host.advance_ms(10_000);
        notes += 1;
        assert!(notes < 10_000);
    }
    let told = std::mem::take(&mut host.seen);
    let numbers: Vec<u64> = told
        .iter()
        .filter(|e| e.method == b"notifications/message")
        .map(|e| e.json()["params"]["data"]["n"].as_u64().unwrap())
        .collect();
    assert!(numbers.iter().copied().eq(0..3_000), "{} notes", numbers.len());
    let rest: Vec<Event> = told.into_iter().filter(|e| e.method.is_empty()).collect();
    assert_eq!(letters(&rest), "M D C X");
}

fn last_words(tool: &str) -> (Vec<Event>, Event) {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]).restart(MCP_SUPERVISED_NO_RESTART, 0, 60_000));
    host.call(peer, "a", "echo", json!({"message": "first"}));
    host.call(peer, "last", tool, json!({"code": 5}));
    let told = host.to_the_end(peer);
    let close = host.last_close().clone();
    assert_eq!(close.exit_code, 5);
    (told, close)
}

#[test]
fn w01_a_last_line_without_its_end_is_a_line() {
    let (told, _) = last_words("last_line_no_newline");
    assert_eq!(letters(&told), "M M D C X");
    assert_eq!(told[1].id, b"\"last\"");
    assert_eq!(told[1].tool_text(), "no newline");
}

#[test]
fn w02_half_a_line_and_an_exit_are_one_error_and_a_close() {
    let (told, _) = last_words("half_line");
    assert_eq!(letters(&told), "M E D C X");
    assert_eq!(told[1].status, MCP_SUPERVISED_E_MALFORMED as i32);
}

#[test]
fn l03_a_large_answer_and_an_exit() {
    for (bytes, batch, event_bytes) in [(1 << 20, 64, 8 << 20), (1 << 20, 1, 1), (9 << 20, 1, 4_096)] {
        let mut host = Host::new();
        host.batch = batch;
        let spec = Spec::demo(&["--exit-after", "2"]).limit(MCP_SUPERVISED_LIMIT_EVENT_BYTES, event_bytes).restart(
            MCP_SUPERVISED_NO_RESTART,
            0,
            60_000,
        );
        let peer = host.launch(&spec);
        host.call(peer, "a", "big", json!({"bytes": bytes}));
        host.call(peer, "b", "big", json!({"bytes": bytes}));
        let told = host.to_the_end(peer);
        assert_eq!(letters(&told), "M M D C X");
        for (event, id) in told.iter().zip(["\"a\"", "\"b\""]) {
            assert_eq!(event.id, id.as_bytes());
            assert_eq!(event.tool_text().len(), bytes);
        }
    }
}

/// Why did it die? The last words on stderr are with the CLOSE, also when the exit follows them at once.
#[test]
fn p08_stderr_written_right_before_the_exit_is_with_the_close() {
    let mut host = Host::new().stepwise();
    let spec = Spec::demo(&["--stderr-at-start", "ModuleNotFoundError: x", "--exit-at-start", "3"]);
    let peer = host.launch(&spec.restart(MCP_SUPERVISED_UNLIMITED, 0, 60_000));
    for _ in 0..100 {
        let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_CLOSE));
        let close = taken.last().unwrap();
        assert_eq!((close.text().as_str(), close.exit_code), ("ModuleNotFoundError: x", 3));
        let said = taken.iter().find(|e| e.status == MCP_SUPERVISED_LOG_SERVER as i32 && e.letter() == "LOG");
        assert_eq!(said.expect("it is a LOG event, too").text(), "ModuleNotFoundError: x");
    }
    host.close(peer);
    host.to_the_end(peer);
}

#[test]
fn p08_the_tail_is_the_end_of_what_was_said_and_bounded() {
    let mut host = Host::new();
    let script = "i=0; while [ $i -lt 5000 ]; do echo \"line $i of many\" >&2; i=$((i+1)); done; exit 4";
    let peer = host.launch(&Spec::shell(script).restart(MCP_SUPERVISED_NO_RESTART, 0, 60_000));
    host.to_the_end(peer);
    let tail = host.last_close().text();
    assert!(tail.len() <= 4_096 && tail.len() > 4_000, "{}", tail.len());
    assert!(tail.starts_with("line ") && tail.ends_with("line 4999 of many"), "whole lines, to the last one: {tail}");
}

/// The exit is seen although somebody else keeps the output open, and 250 ms later it is over.
#[test]
fn l03_a_grandchild_that_holds_stdout_holds_nothing_up() {
    let mut host = Host::with_manual_clock().stepwise();
    let peer = host.launch(&Spec::demo(&[]).restart(3, 0, 60_000));
    host.call(peer, "a", "grandchild", json!({"seconds": 600, "new_group": true, "stdin": true}));
    let grandchild: i32 = host.answer("a").tool_text().parse().unwrap();
    host.call(peer, "b", "exit", json!({"code": 9}));
    host.answer("b");
    host.reach(peer, MCP_SUPERVISED_STATE_ENDING);
    // Ending may be the hang-up of stdin only; the exit follows.
    host.drive_until("the exit is seen", |host| {
        host.advance_ms(0);
        matches!(state_of(host.pid(peer)), None | Some('Z'))
    });
    host.advance_ms(250);
    let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert_eq!((close.exit_code, close.will_reconnect()), (9, true));
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    assert_eq!(letters(&host.seen), "M M D C R");
    assert!(lives(grandchild), "it left the group and is not ours to end");
    kill9(grandchild);
}

/// The same in real time: the rule's 250 ms, and not the grandchild's ten minutes. What it says later goes nowhere.
#[test]
fn w05_what_a_grandchild_says_later_is_never_of_the_next_life() {
    let mut host = Host::new().stepwise();
    let peer = host.launch(&Spec::demo(&[]).restart(3, 0, 60_000));
    host.call(peer, "a", "grandchild", json!({"seconds": 600, "new_group": true, "chatter_ms": 1}));
    let grandchild: i32 = host.answer("a").tool_text().parse().unwrap();
    host.call(peer, "b", "crash", json!({"code": 9}));
    let asked = Instant::now();
    let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    assert_eq!(close.exit_code, 9);
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    let from = host.seen.len();
    // It finds out at its next line that nobody listens: our end is closed, and no other process holds it.
    wait_gone(grandchild);
    for n in 0..20 {
        let id = format!("after-{n}");
        host.call(peer, &id, "pid", json!({}));
        assert_eq!(host.answer(&id).tool_text(), host.pid(peer).to_string());
    }
    assert_eq!(letters(&host.seen[from..]), "M ".repeat(20).trim_end());
    assert!(!host.seen[from..].iter().any(|e| e.method == b"notifications/grandchild"));
}

/// Half a line of one life is not completed by the next.
#[test]
fn w05_half_a_line_stays_with_its_life() {
    let scratch = Scratch::new();
    let half = scratch.data("half", "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/ha");
    let other = scratch.data("other", "lf\"}\n");
    let mut host = Host::new().stepwise();
    let lives = scratch.name("lives");
    let spec = Spec::demo(&[
        "--lives",
        &lives,
        "--in-life",
        "1",
        "--raw-lines",
        &half,
        "--exit-after-read",
        "1",
        "--in-life",
        "2-",
        "--raw-lines",
        &other,
    ]);
    let peer = host.launch(&spec.restart(3, 0, 60_000));
    host.call(peer, "a", "pid", json!({}));
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    host.call(peer, "b", "pid", json!({}));
    host.answer("b");
    assert_eq!(letters(&host.seen), "E D C R E M");
    assert!(host.seen.iter().filter(|e| e.letter() == "E").all(|e| e.status == MCP_SUPERVISED_E_MALFORMED as i32));
}

/// What waited to be written to one life is not written to the next.
#[test]
fn w05_what_was_not_written_is_dropped_with_its_life() {
    let scratch = Scratch::new();
    let (lives, record) = (scratch.name("lives"), scratch.name("record"));
    let mut host = Host::new().stepwise();
    let spec = Spec::demo(&["--lives", &lives, "--record", &record, "--in-life", "1", "--no-read"]);
    let peer = host.launch(&spec.restart(3, 0, 60_000));
    let line =
        |n: usize| format!(r#"{{"jsonrpc":"2.0","method":"old","params":{{"n":{n},"pad":"{}"}}}}"#, "x".repeat(9_000));
    let first = (0..100).map(|n| host.send(peer, line(n))).next().unwrap();
    host.drive();
    wait_for("the first life has counted itself", || !scratch.read("lives").is_empty());
    kill9(host.pid(peer));
    let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert_eq!(close.unread_from, first);
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    host.call(peer, "new", "pid", json!({}));
    host.answer("new");
    let read = scratch.read("record");
    assert_eq!(read.lines().count(), 1, "only the line of this life");
    assert!(read.contains("\"new\""));
}

/// A host that does not poll while everything happens finds it in order (BP-06).
#[test]
fn l02_a_host_that_did_not_poll_finds_everything_in_order() {
    let scratch = Scratch::new();
    let mut host = Host::new();
    let done = scratch.name("done");
    let spec = Spec::demo(&["--stderr-per-answer", "100"]).restart(3, 5, 60_000);
    let peer = host.launch(&spec);
    for n in 0..50 {
        host.call(peer, &n.to_string(), "echo", json!({"message": "x".repeat(500)}));
    }
    host.call(peer, "last", "ledger", json!({"path": done, "text": "done", "crash": 3}));
    // All of it was queued; this one turn writes it, and then nobody polls until the server is dead.
    host.drive();
    wait_for("the work is done", || scratch.read("done").contains("done"));
    wait_for("the server is dead", || !lives(host.pid(peer)));
    let told = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    assert_eq!(letters(&told), "M ".repeat(50) + "D C R");
    let ids: Vec<String> =
        told.iter().filter(|e| e.letter() == "M").map(|e| String::from_utf8_lossy(&e.id).into()).collect();
    assert!(ids.iter().eq((0..50).map(|n| format!("\"{n}\"")).collect::<Vec<_>>().iter()), "{ids:?}");
}
