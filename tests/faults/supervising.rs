//! Supervision, streams and retry: how often something is started again, what survives it, and what must not.

use std::process::Command;

use serde_json::{Value, json};

use super::served::*;
use crate::c::compile;
use crate::support::*;

const EXHAUSTED: i32 = MCP_SUPERVISED_E_EXHAUSTED as i32;

/// The kind: something that cannot run is started over and over. An exit at once, a crash at once, a program that has gone: one
/// start and three more, no sooner than the delay, one EXHAUSTED, and then nothing at all.
#[test]
fn sv_01_a_broken_server_is_not_started_at_full_speed() {
    for flags in
        [&["--exit-at-start", "1"][..], &["--crash-after-start-ms", "0", "--exit-signal", "11"], &["--no-such-flag"]]
    {
        let scratch = Scratch::new();
        let lives_file = scratch.name("lives");
        let flags = [&["--lives", lives_file.as_str()][..], flags].concat();
        let mut host = Host::with_manual_clock();
        let peer = host.launch(&Spec::modern(&flags));
        for restart in 1..=4 {
            let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
            assert_eq!((close.will_reconnect(), close.attempt), (restart < 4, if restart < 4 { restart } else { 0 }));
            if restart < 4 {
                assert_eq!(close.delay_ms, 100);
                host.advance_ms(99);
                host.expect_silence();
                assert_eq!(scratch.read("lives").lines().count(), restart as usize, "not before the delay is over");
                host.advance_ms(1);
                host.next(MCP_SUPERVISED_EVENT_RECONNECT);
            }
            host.seen.clear();
        }
        if host.state(peer) != MCP_SUPERVISED_STATE_CLOSED as i32 {
            host.to_the_end(peer);
        }
        host.advance_ms(600_000);
        host.expect_silence();
        host.poll(0);
        assert!(!host.is_readable(), "there is nothing to do any more");
        assert_eq!(scratch.read("lives").lines().count(), 4);
    }
    // One that was never there is no restart at all.
    let mut host = Host::new();
    let peer = host.add(&Spec::new("no-such-program"));
    for _ in 0..10 {
        assert_eq!(host.start(peer), SPAWN);
    }
    host.expect_silence();
}

/// The kind: a server that works a little before it dies. Requests, streams and rediscovery that went well do not make its
/// crashes fewer; only time does.
#[test]
fn sv_02_answers_do_not_pay_for_crashes() {
    for rediscover in [false, true] {
        let spec = Spec::modern(&["--exit-signal", "6", "--crash-on", "vendor/die"]).restart(3, 1, 60_000);
        let spec = if rediscover { spec.rediscover() } else { spec };
        let mut server = Served::by(Host::new(), &spec);
        let peer = server.peer;
        let discover = server.host.ask(peer, "server/discover", json!({}));
        server.completion(discover);
        let stream = server.host.listen(peer, json!({"toolsListChanged": true}), 0);
        for life in 1..=4_usize {
            server.acknowledged(stream, life);
            for _ in 0..5 {
                assert_eq!(server.call("echo", json!({"message": "well"})).tool_text(), "well");
            }
            server.host.ask(peer, "vendor/die", json!({}));
            let told = server.until(|e| e.letter() == "R" || e.is_final());
            assert_eq!(told.iter().any(Event::is_final), life == 4, "life {life}");
        }
        assert_eq!(server.completion(stream).status, EXHAUSTED);
        let exhausted = server.seen.iter().find(|e| e.letter() == "X").unwrap();
        assert_eq!(exhausted.max_restarts, 3);
    }
}

/// The kind: it was given up, and somebody still waits, or still asks. What was kept ends with EXHAUSTED, what comes later is
/// refused, one event is the last one, and the handle goes on.
#[test]
fn sv_05_after_giving_up_nothing_hangs_and_nothing_starts() {
    let scratch = Scratch::new();
    let lives_file = scratch.name("lives");
    let flags = [
        "--lives",
        &lives_file,
        "--mute",
        "tools/list",
        "--mute",
        "prompts/list",
        "--in-life",
        "2-",
        "--exit-at-start",
        "1",
    ];
    let spec = Spec::modern(&flags).restart(2, 100, 60_000).retry().timeouts(u64::MAX, u64::MAX);
    let mut server = Served::by(Host::with_manual_clock(), &spec);
    let peer = server.peer;
    let kept = ["tools/list", "prompts/list"].map(|method| server.host.ask(peer, method, json!({})));
    let stream = server.host.listen(peer, json!({}), 9);
    server.acknowledged(stream, 1);
    server.is_killed();
    server.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert_eq!(server.try_ask(peer, "tools/list", "{}", None), Err(CLOSED), "during the delay");
    let mut told = Vec::new();
    for _ in 0..2 {
        server.advance_ms(100);
        told.extend(server.until(|e| (e.letter() == "C" && e.will_reconnect()) || e.is_final()));
    }
    let ends: Vec<(u64, i32)> = told.iter().filter(|e| e.is_complete()).map(|e| (e.request, e.status)).collect();
    assert_eq!(ends, [kept[0], kept[1], stream].map(|id| (id, EXHAUSTED)), "in order of acceptance, streams last");
    assert_eq!(told.iter().filter(|e| e.letter() == "X").count(), 1);
    assert!(told.last().unwrap().is_final());
    assert_eq!(server.try_ask(peer, "tools/list", "{}", None), Err(CLOSED), "afterwards");
    assert_eq!(server.try_send(peer, note("a")), Err(CLOSED));
    let after = server.start(peer);
    assert_eq!(after, CLOSED);
    server.advance_ms(600_000);
    server.expect_silence();
    assert_eq!(scratch.read("lives").lines().count(), 3);
    let other = server.launch(&Spec::modern(&[]));
    let id = server.host.ask_tool(other, "pid", json!({}));
    server.completion(id);
    assert_eq!(server.remove(peer), 0);
}

/// The kind: what was subscribed to is forgotten, or comes back although it was ended. The open streams are opened again, under
/// their ids, with their filters, in order, when the new life serves; those that any side has ended are not.
#[test]
fn sv_06_open_streams_come_back_and_no_others() {
    let scratch = Scratch::new();
    let (lives_file, second) = (scratch.name("lives"), scratch.name("second"));
    let flags = ["--lives", &lives_file, "--in-life", "2", "--record", &second];
    let mut server = Served::by(Host::new(), &Spec::modern(&flags).restart(3, 1, 60_000));
    let peer = server.peer;
    let filters = [
        json!({"toolsListChanged": true}),
        json!({"promptsListChanged": true}),
        json!({"resourceSubscriptions": ["mem://counter"], "resourcesListChanged": true}),
        json!({}),
    ];
    let streams: Vec<u64> = (0..4).map(|n| server.host.listen(peer, filters[n].clone(), n as u64)).collect();
    for stream in &streams {
        server.acknowledged(*stream, 1);
    }
    assert_eq!(server.host.cancel(peer, streams[1], ""), 0);
    let refused = server.host.listen(peer, json!({"toolsListChanged": true}), 7);
    server.acknowledged(refused, 1);
    // The server ends one of them by its answer.
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{refused},\"result\":{{}}}}\n");
    server.writes(line.as_bytes());
    assert_eq!(server.ends_of(refused), 1);
    server.is_killed();
    server.next(MCP_SUPERVISED_EVENT_RECONNECT);
    for stream in [streams[0], streams[2], streams[3]] {
        server.acknowledged(stream, 2);
    }
    let lines = read_lines(&scratch.read("second"));
    let again: Vec<(u64, &Value)> =
        lines.iter().map(|line| (line["id"].as_u64().unwrap(), &line["params"]["notifications"])).collect();
    assert_eq!(again, [0, 2, 3].map(|n| (streams[n], &filters[n])));
    let bump = server.call("bump", json!({}));
    assert_eq!(bump.tool_text(), "1");
    let of = |e: &Event| e.request == streams[2] && e.method == b"notifications/resources/updated";
    let told = server.seen.iter().find(|e| of(e)).expect("the old stream tells of the new server");
    assert_eq!(told.user_data, 2);
}

/// The kind: something that acts is sent a second time. Calls, methods of vendors, continuations, with retry on: each is in the
/// server's own book once, and fails. What only reads is sent again under its id.
#[test]
fn sv_09_what_acts_is_sent_once() {
    let reading = [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "greet"})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": "mem://counter"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": "A"}}),
        ),
    ];
    let responses = json!({"a": {"action": "decline"}});
    let acting = [
        ("tools/call", json!({"name": "pid"})),
        ("vendor/pay", json!({})),
        ("prompts/get", json!({"name": "greet", "requestState": "s"})),
        ("resources/read", json!({"uri": "mem://counter", "inputResponses": responses})),
        ("tools/call", json!({"name": "ask", "requestState": "s", "inputResponses": responses})),
        ("tools/List", json!({})),
        ("tasks/get", json!({"taskId": "t"})),
    ];
    let scratch = Scratch::new();
    let (lives_file, ledger) = (scratch.name("lives"), scratch.name("ledger"));
    let flags = ["--lives", &lives_file, "--ledger", &ledger, "--in-life", "1-2", "--mute", "*"];
    let mut server =
        Served::by(Host::new(), &Spec::modern(&flags).restart(5, 1, 60_000).retry().timeouts(u64::MAX, u64::MAX));
    let peer = server.peer;
    let acts: Vec<u64> = acting.iter().map(|(method, params)| server.host.ask(peer, method, params.clone())).collect();
    let reads: Vec<u64> =
        reading.iter().map(|(method, params)| server.host.ask(peer, method, params.clone())).collect();
    for life in 1..=2 {
        // All of it was read, by each life that dies.
        let of_this =
            |ledger: &str, pid: i32| ledger.lines().filter(|line| line.starts_with(&format!("{pid} "))).count();
        let expected = reads.len() + if life == 1 { acts.len() } else { 0 };
        let pid = server.host.pid(peer);
        server.drive_until("everything was read", |_| of_this(&scratch.read("ledger"), pid) == expected);
        server.is_killed();
        server.next(MCP_SUPERVISED_EVENT_RECONNECT);
    }
    for id in &acts {
        let end = server.completion(*id);
        assert_eq!((end.status, end.flags), (CLOSED, MCP_SUPERVISED_FLAG_COMPLETE), "{}", end.text());
    }
    for id in &reads {
        let end = server.completion(*id);
        assert!(has(&end, MCP_SUPERVISED_FLAG_RETRIED) && end.status == 0, "{}", end.text());
    }
    let book = scratch.read("ledger");
    let times = |id: u64| book.lines().filter(|line| line.ends_with(&format!(" {id}"))).count();
    assert!(acts.iter().all(|id| times(*id) == 1), "{book}");
    assert!(reads.iter().all(|id| times(*id) == 3), "{book}");
}

/// The kind: what was known of the last life is believed of the next one. One RECONNECT for each life, behind its CLOSE; what is
/// known is marked, refuses nothing, and can be asked for again; nothing is answered from a store.
#[test]
fn sv_11_what_was_known_is_known_to_be_old() {
    let scratch = Scratch::new();
    let lives_file = scratch.name("lives");
    let other = r#"{"tools":{},"prompts":{}}"#;
    let flags = [
        "--lives",
        &lives_file,
        "--in-life",
        "1",
        "--capabilities",
        r#"{"tools":{}}"#,
        "--in-life",
        "2-",
        "--name",
        "second",
        "--capabilities",
        other,
    ];
    let mut server = Served::by(Host::new(), &Spec::modern(&flags).restart(3, 1, 60_000));
    let peer = server.peer;
    let discover = server.host.ask(peer, "server/discover", json!({}));
    server.completion(discover);
    server.call("flip", json!({}));
    let tools = |server: &mut Served| -> Vec<Value> {
        let id = server.host.ask(peer, "tools/list", json!({}));
        server.completion(id).json()["result"]["tools"].as_array().unwrap().clone()
    };
    let before = tools(&mut server);
    assert!(before.iter().any(|tool| tool["name"] == "extra"));
    assert_eq!(server.try_ask(peer, "prompts/list", "{}", None), Err(MCP_SUPERVISED_E_UNSUPPORTED as i32));
    let (first, _) = server.server_info(peer);
    server.is_killed();
    let told = server.until(|e| e.letter() == "R");
    assert_eq!(letters(&told), "D C R");
    assert_eq!(server.server_info(peer), (first.clone(), true), "there, and marked");
    assert!(!tools(&mut server).iter().any(|tool| tool["name"] == "extra"), "asked for, not remembered");
    let prompts = server.host.ask(peer, "prompts/list", json!({}));
    assert_eq!(server.completion(prompts).status, 0, "what is old refuses nothing");
    let discover = server.host.ask(peer, "server/discover", json!({}));
    server.completion(discover);
    let (second, is_stale) = server.server_info(peer);
    assert!(second.contains("second") && second != first && !is_stale);
    assert_eq!(server.server_capabilities(peer), (serde_json::from_str::<Value>(other).unwrap().to_string(), false));

    // And by itself, if it is asked for.
    let again = Scratch::new();
    let lives_file = again.name("lives");
    let flags = ["--lives", &lives_file, "--in-life", "2-", "--name", "second"];
    let mut server = Served::by(Host::new(), &Spec::modern(&flags).restart(3, 1, 60_000).rediscover());
    let peer = server.peer;
    let discover = server.host.ask(peer, "server/discover", json!({}));
    server.completion(discover);
    server.is_killed();
    assert!(has(&server.next(MCP_SUPERVISED_EVENT_RECONNECT), MCP_SUPERVISED_FLAG_SERVER_CHANGED));
    assert!(server.server_info(peer).0.contains("second"));
    server.is_killed();
    assert!(!has(&server.next(MCP_SUPERVISED_EVENT_RECONNECT), MCP_SUPERVISED_FLAG_SERVER_CHANGED), "the same again");
}

/// The kind: time does not pass as it should. A wall clock that jumps by a day with every look, the largest times that can be
/// said, a jump over every deadline at once: nothing fires early, never or twice, nothing overflows.
#[test]
fn sv_13_only_monotonic_time_counts() {
    // The whole example, which keeps to times of its own, under a wall clock that jumps.
    let scratch = Scratch::new();
    let shim = scratch.name("clock_jumps.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/clock_jumps.c");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o", &shim, source, "-ldl"]).status().unwrap();
    assert!(built.success());
    let output = compile("examples-c/poll_loop.c").arg(demo_server()).env("LD_PRELOAD", &shim).succeeds();
    assert!(output.contains("every step was seen, in order"));

    let mut server = Served::by_hand(&[]);
    let (peer, pid) = (server.peer, server.pid);
    let silent = r#"{"name":"silent"}"#;
    let mut fired = Vec::new();
    let mut endless = Vec::new();
    for ms in [1, 1_000, (1 << 31) - 1, 1 << 31, 1 << 32, 1 << 52, u64::MAX - 1, u64::MAX, 0] {
        for max in [0, 1, 1 << 40, u64::MAX] {
            let bounds = options(|o| (o.timeout_ms, o.max_timeout_ms) = (ms, max));
            let id = server.try_ask(peer, "tools/call", silent, Some(&bounds)).unwrap();
            // The ceiling is raised to the idle time; 0 is the peer's own.
            let (ms, max) = (if ms == 0 { 60_000 } else { ms }, if max == 0 { 600_000 } else { max });
            let first = if ms == u64::MAX { max } else { ms.min(max.max(ms)) };
            if first <= 1 << 33 { fired.push(id) } else { endless.push(id) }
        }
    }
    server.until_written(pid);
    server.host.batch = 1_000;
    server.advance_ms(1 << 34);
    let fired_at_once = fired.clone();
    server.until(|e| e.request == *fired_at_once.last().unwrap());
    for id in &fired {
        assert_eq!((server.completion(*id).status, server.ends_of(*id)), (TIMEOUT, 1));
    }
    assert!(endless.iter().all(|id| server.ends_of(*id) == 0));
    server.expect_silence();
    server.goes_on();
    server.closes();
    assert!(endless.iter().all(|id| server.ends_of(*id) == 1));
}

/// The kind: a server takes long to begin. Deadlines of requests end the requests and not the process; what was in its pipe does
/// not upset it; everything after that is served in the first life.
#[test]
fn sv_14_a_slow_start_is_waited_for() {
    let scratch = Scratch::new();
    let (gate, record) = (scratch.name("gate"), scratch.name("record"));
    let script = "while [ ! -e \"$0\" ]; do sleep 0.01; done; exec \"$@\"";
    let spec = modern("/bin/sh").arg("-c").arg(script).arg(&gate).arg(demo_server()).arg("--record").arg(&record);
    let mut server = Served::by(Host::with_manual_clock(), &spec);
    let peer = server.peer;
    let timeout = options(|o| o.timeout_ms = 1_000);
    let early: Vec<u64> =
        (0..5).map(|_| server.try_ask(peer, "tools/call", r#"{"name":"pid"}"#, Some(&timeout)).unwrap()).collect();
    server.drive();
    server.advance_ms(1_000);
    for id in &early {
        assert_eq!(server.completion(*id).status, TIMEOUT);
    }
    server.advance_ms(4_000);
    scratch.data("gate", "");
    server.goes_on();
    let close = server.closes();
    assert!(close.iter().all(|e| e.life <= 1));
    let lines = read_lines(&scratch.read("record"));
    let methods = methods(&lines);
    assert_eq!(methods[..5], ["tools/call"; 5]);
    assert_eq!(methods[5..10], ["notifications/cancelled"; 5], "the server is told that nobody waits");
    assert!(early.iter().all(|id| server.ends_of(*id) == 1), "late answers are nobody's");
}

/// The kind: a call falls into the gap between two lives. At every moment of it: refused, or accepted and ended with the loss;
/// nothing is lost without an end, nothing reaches the next life by accident.
#[test]
fn sv_15_a_request_between_two_lives() {
    let scratch = Scratch::new();
    let record = scratch.name("record");
    let spec = Spec::modern(&["--record", &record]).restart(3, 100, 60_000).timeouts(u64::MAX, u64::MAX);
    let mut server = Served::by(Host::with_manual_clock().stepwise(), &spec);
    let peer = server.peer;
    server.goes_on();
    for _ in 0..3 {
        server.seen.clear();
        server.is_killed();
        // Nobody has looked yet: the very write that meets the closed pipe.
        let mut accepted = Vec::new();
        for _ in 0..3 {
            match server.try_ask(peer, "tools/call", r#"{"name":"lost"}"#, None) {
                Ok(id) => accepted.push(id),
                Err(status) => assert_eq!(status, CLOSED),
            }
        }
        server.next(MCP_SUPERVISED_EVENT_CLOSE);
        for ms in [0, 1, 9, 80] {
            server.advance_ms(ms);
            server.drive();
            assert_eq!(server.try_ask(peer, "tools/call", r#"{"name":"lost"}"#, None), Err(CLOSED));
            assert_eq!(server.try_send(peer, note("lost")), Err(CLOSED));
        }
        for id in accepted {
            let end = server.completion(id);
            assert_eq!((end.status, server.ends_of(id)), (CLOSED, 1));
            assert!(has(&end, MCP_SUPERVISED_FLAG_UNREAD), "and it is known that nobody has read it");
        }
        server.advance_ms(10);
        server.next(MCP_SUPERVISED_EVENT_RECONNECT);
        server.call("pid", json!({}));
    }
    assert!(!scratch.read("record").contains("lost"));
}
