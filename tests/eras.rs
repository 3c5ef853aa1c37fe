//! How the library finds out what a server speaks, against the demo server as every kind of server there is: which events tell of
//! it, what is kept across restarts, and what a life that never comes to serve costs. Rules Z1, Z2, Z5, L1, L10, L11.

mod support;

use serde_json::{Value, json};
use support::*;

const HANDSHAKE: i32 = MCP_SUPERVISED_E_HANDSHAKE as i32;
const MODERN: u32 = MCP_SUPERVISED_ERA_MODERN as u32;
const LEGACY: u32 = MCP_SUPERVISED_ERA_LEGACY as u32;
const NEWEST: &str = "2025-11-25";

#[test]
fn without_newer_kernel_calls() {
    run_file_again_without_newer_kernel_calls();
}

/// Era and version of READY or RECONNECT.
fn serving(event: &Event) -> (u32, u32, String) {
    (event.life, event.era, event.text())
}

/// Starts a server and waits until it serves.
fn ready(host: &mut Host, spec: &Spec) -> (u64, Event) {
    let peer = host.launch(spec);
    let ready = host.next(MCP_SUPERVISED_EVENT_READY);
    assert_eq!((ready.peer, ready.pid), (peer, host.pid(peer)));
    (peer, ready)
}

/// Kills the server and waits for its replacement.
fn killed(host: &mut Host, peer: u64) -> Event {
    kill9(host.pid(peer));
    host.next(MCP_SUPERVISED_EVENT_RECONNECT)
}

/// The text a tool answers.
fn does(host: &mut Host, peer: u64, tool: &str) -> String {
    let id = host.ask_tool(peer, tool, json!({}));
    host.completion(id).tool_text()
}

/// What the lives of a server got: method and life, from a `--ledger`.
fn ledger(path: &str) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut pids: Vec<&str> = Vec::new();
    text.lines()
        .map(|line| {
            let mut words = line.split(' ');
            let (pid, method) = (words.next().unwrap(), words.next().unwrap());
            if !pids.contains(&pid) {
                pids.push(pid);
            }
            format!("{} {method}", pids.iter().position(|known| *known == pid).unwrap() + 1)
        })
        .collect()
}

#[test]
fn z01_a_modern_server_is_asked_once_and_kept() {
    let scratch = Scratch::new();
    let path = scratch.name("ledger");
    let mut host = Host::new();
    let peer = host.launch(&Spec::auto(&["--ledger", &path]).restart(3, 1, 60_000));
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_STARTING as i32);
    // What is asked before it serves waits.
    let early = host.ask_tool(peer, "pid", json!({}));
    let answer = host.completion(early);
    let kinds = letters(&host.seen);
    assert!(kinds.starts_with("READY M"), "READY comes before any message: {kinds}");
    assert_eq!(serving(&host.seen[0]), (1, MODERN, "2026-07-28".to_owned()));
    assert_eq!(answer.tool_text(), host.seen[0].pid.to_string());
    // The probe was a discover, so what the server can do is known.
    let (info, is_stale) = host.server_info(peer);
    assert!(info.contains("mcp-supervised-demo-server") && !is_stale, "{info}");

    let again = killed(&mut host, peer);
    assert_eq!(serving(&again), (2, MODERN, "2026-07-28".to_owned()));
    does(&mut host, peer, "pid");
    assert_eq!(ledger(&path), ["1 server/discover", "1 tools/call", "2 tools/call"], "it is not asked again");
    host.close(peer);
    host.until(Event::is_final);
}

/// Every way in which servers of the older revisions meet the probe on a process that goes on.
#[test]
fn z01_a_legacy_server_is_found_whatever_it_says_to_the_probe() {
    for how in
        ["error:-32601", "error:-32602", "error:-32600", "error:0", "error:-32000", "result:{}", "result:[]", "ignore"]
    {
        let mut host = Host::new();
        let spec = Spec::legacy(NEWEST, &["--on-discover", how]).start_timeouts(200, 60_000);
        let (peer, event) = ready(&mut host, &spec);
        assert_eq!(serving(&event), (1, LEGACY, NEWEST.to_owned()), "{how}");
        assert_eq!(does(&mut host, peer, "pid"), event.pid.to_string(), "{how}");
        assert_eq!(host.server_capabilities(peer).0, killed_capabilities(&mut host, peer), "{how}");
        host.close(peer);
        host.until(Event::is_final);
        let closes: Vec<&Event> = host.seen.iter().filter(|e| e.is(MCP_SUPERVISED_EVENT_CLOSE)).collect();
        assert_eq!(closes.last().unwrap().exit_code, 0, "no rule was broken: {how}: {}", closes.last().unwrap().text());
    }
}

/// The capabilities after a restart, which a handshake tells anew.
fn killed_capabilities(host: &mut Host, peer: u64) -> String {
    killed(host, peer);
    let (text, is_stale) = host.server_capabilities(peer);
    assert!(!is_stale);
    text
}

#[test]
fn z01_z03_a_legacy_server_is_kept_and_shakes_hands_in_every_life() {
    let scratch = Scratch::new();
    let path = scratch.name("ledger");
    let mut host = Host::new();
    let (peer, _) = ready(&mut host, &Spec::legacy(NEWEST, &["--ledger", &path]).restart(3, 1, 60_000));
    for _ in 0..2 {
        does(&mut host, peer, "pid");
        killed(&mut host, peer);
    }
    does(&mut host, peer, "pid");
    let lines = ["initialize", "notifications/initialized", "tools/call"];
    let mut expected = vec!["1 server/discover".to_owned()];
    expected.extend((1..=3).flat_map(|life| lines.map(|line| format!("{life} {line}"))));
    assert_eq!(ledger(&path), expected);
}

#[test]
fn z01_the_modes_that_know_do_not_ask() {
    let scratch = Scratch::new();
    let path = scratch.name("ledger");
    let mut host = Host::new();
    let spec = Spec::legacy(NEWEST, &["--ledger", &path]).mode(MCP_SUPERVISED_MODE_LEGACY);
    let (peer, event) = ready(&mut host, &spec);
    assert_eq!(serving(&event), (1, LEGACY, NEWEST.to_owned()));
    does(&mut host, peer, "pid");
    assert_eq!(ledger(&path), ["1 initialize", "1 notifications/initialized", "1 tools/call"]);

    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&[]).restart(1, 1, 60_000));
    let event = killed(&mut host, peer);
    assert_eq!(serving(&event), (2, MODERN, "2026-07-28".to_owned()));
    let raw = host.launch(&Spec::demo(&[]).restart(1, 1, 60_000));
    kill9(host.pid(raw));
    let event = host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    assert_eq!((event.peer, event.era, event.payload.len()), (raw, 0, 0));
    assert!(!letters(&host.seen).contains("READY"));
}

#[test]
fn z02_a_server_that_leaves_at_the_probe_is_started_once_more_for_nothing() {
    let scratch = Scratch::new();
    let path = scratch.name("ledger");
    let mut host = Host::new();
    let text = "expect initialized request";
    let flags = ["--ledger", &path, "--on-discover", "exit:1", "--exit-text", text];
    // No restart is allowed at all: this is none.
    let spec = Spec::legacy(NEWEST, &flags).restart(MCP_SUPERVISED_NO_RESTART, 100, 60_000);
    let peer = host.launch(&spec);
    let early = host.ask_tool(peer, "pid", json!({}));
    let pid: i32 = host.completion(early).tool_text().parse().unwrap();
    assert_eq!(letters(&host.seen), "READY M");
    let event = host.seen.iter().find(|e| e.is(MCP_SUPERVISED_EVENT_READY)).unwrap();
    assert_eq!((serving(event), event.pid), ((1, LEGACY, NEWEST.to_owned()), pid), "the same life");
    host.await_log(text);
    host.await_log("the server left when it was asked");
    let lives = ["1 server/discover", "2 initialize", "2 notifications/initialized", "2 tools/call"];
    assert_eq!(ledger(&path), lives);
    kill9(pid);
    host.until(Event::is_final);
    assert_eq!(letters(&host.seen), "READY M D C X");
}

#[test]
fn z02_once_found_the_next_lives_are_not_probed() {
    let scratch = Scratch::new();
    let path = scratch.name("ledger");
    let mut host = Host::new();
    let flags = ["--ledger", &path, "--on-discover", "exit:0"];
    let (peer, _) = ready(&mut host, &Spec::legacy(NEWEST, &flags).restart(1, 1, 60_000));
    assert_eq!(killed(&mut host, peer).attempt, 1, "the budget is whole");
    does(&mut host, peer, "pid");
    assert_eq!(ledger(&path).iter().filter(|line| line.ends_with("server/discover")).count(), 1);
    assert_eq!(ledger(&path).last().unwrap(), "3 tools/call");
}

/// SV-01: what leaves the probe unread gets no free start, and neither does one that has said something.
#[test]
fn z02_any_other_exit_is_a_death() {
    for flags in
        [&["--exit-unread", "1"][..], &["--exit-at-start", "1"], &["--on-discover", "exit:1", "--chatter", "1"]]
    {
        let mut host = Host::new();
        let flags: Vec<&str> = flags.iter().copied().chain(["--delay-start", "50"]).collect();
        let peer = host.launch(&Spec::auto(&flags).restart(2, 1, 60_000));
        let waits = host.ask_tool(peer, "pid", json!({}));
        host.until(Event::is_final);
        assert_eq!(letters(&host.seen), "D C E E E X C", "{flags:?}");
        let lost = host.completion(waits);
        assert_eq!(lost.status, MCP_SUPERVISED_E_CLOSED as i32);
        assert_ne!(lost.flags & MCP_SUPERVISED_FLAG_UNREAD, 0, "it was never written");
        let failed: Vec<&Event> =
            host.seen.iter().filter(|e| e.is(MCP_SUPERVISED_EVENT_ERROR) && e.request == 0).collect();
        assert!(failed.iter().all(|e| e.status == HANDSHAKE && e.exit_code == 1), "{failed:#?}");
        assert_eq!(failed.iter().map(|e| e.life).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(failed.iter().map(|e| e.will_reconnect()).collect::<Vec<_>>(), [true, false]);
    }
}

#[test]
fn z05_every_revision_is_negotiated() {
    for revision in ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] {
        let mut host = Host::new();
        let (peer, event) = ready(&mut host, &Spec::legacy(revision, &[]));
        assert_eq!(serving(&event), (1, LEGACY, revision.to_owned()));
        does(&mut host, peer, "pid");
        // The oldest has completions without a capability of that name.
        let reference =
            json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": "A"}});
        let id = host.ask(peer, "completion/complete", reference);
        assert_eq!(host.completion(id).json()["result"]["completion"]["values"], json!(["Ada", "Alan"]));
    }
}

/// Ways in which a handshake fails, and a piece of what is told of it.
const FAILURES: [(&[&str], &str); 6] = [
    (&["--legacy", NEWEST, "--answer-version", "2023-01-01"], "2023-01-01"),
    (&["--legacy", NEWEST, "--answer-version", "2026-07-28"], "2026-07-28"),
    (&["--legacy", NEWEST, "--on-initialize", "error:-32603"], "the error -32603: initialize is refused"),
    (&["--legacy", NEWEST, "--on-initialize", "result:{}"], "names no protocol version"),
    (&["--supported", "2027-01-01"], "2027-01-01"),
    (&["--on-discover", "error:-32601"], "-32022"),
];

#[test]
fn z05_l11_a_handshake_that_fails_costs_budget_like_a_death_and_says_why() {
    for (flags, says) in FAILURES {
        let mut host = Host::new();
        let peer = host.launch(&Spec::auto(flags).restart(2, 1, 60_000));
        let waits = host.ask_tool(peer, "pid", json!({}));
        host.until(Event::is_final);
        // The first life: an ERROR where the handshake failed, then as any other end. Later ones: one ERROR each.
        assert_eq!(letters(&host.seen), "E D C E E E X C", "{flags:?}");
        let failed: Vec<&Event> =
            host.seen.iter().filter(|e| e.is(MCP_SUPERVISED_EVENT_ERROR) && e.request == 0).collect();
        for (event, life) in failed.iter().zip(1..) {
            assert_eq!((event.status, event.life), (HANDSHAKE, life), "{flags:?}");
            assert!(event.text().contains(says), "{flags:?}: {}", event.text());
        }
        assert_eq!(host.completion(waits).status, MCP_SUPERVISED_E_CLOSED as i32);
    }
}

#[test]
fn z05_a_refusal_that_names_a_spoken_revision_is_followed_once() {
    let scratch = Scratch::new();
    let path = scratch.name("record");
    let mut host = Host::new();
    let flags = [
        "--on-discover",
        "error:-32601",
        "--on-initialize",
        "error:-32602",
        "--supported",
        "2024-11-05,2025-06-18",
        "--record",
        &path,
    ];
    let peer = host.launch(&Spec::auto(&flags).restart(MCP_SUPERVISED_NO_RESTART, 1, 60_000));
    host.until(Event::is_final);
    let error = host.seen.iter().find(|e| e.peer == peer && e.is(MCP_SUPERVISED_EVENT_ERROR)).unwrap();
    assert!(error.text().contains("it speaks 2024-11-05, 2025-06-18"), "{}", error.text());
    let record = std::fs::read_to_string(path).unwrap();
    let lines: Vec<Value> = record.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let offered: Vec<&Value> = lines.iter().map(|line| &line["params"]["protocolVersion"]).collect();
    assert_eq!(offered, [&Value::Null, &json!(NEWEST), &json!("2025-06-18")]);
}

/// A server that reads so late that its answer to the probe comes when the time for it is over, and that has chosen its era with
/// it.
#[test]
fn z05_a_late_answer_locks_the_server_and_it_is_asked_once_more() {
    let scratch = Scratch::new();
    let path = scratch.name("ledger");
    let flags = ["--legacy", NEWEST, "--dual", "--lock", "discover", "--delay-start", "700", "--ledger", &path];
    let mut host = Host::new();
    let (peer, event) = ready(&mut host, &Spec::auto(&flags).start_timeouts(300, 60_000));
    assert_eq!(serving(&event), (1, MODERN, "2026-07-28".to_owned()));
    does(&mut host, peer, "pid");
    assert_eq!(ledger(&path), ["1 server/discover", "1 initialize", "1 server/discover", "1 tools/call"]);
}

#[test]
fn z05_a_server_that_is_only_slow_is_not_killed_for_it() {
    let flags = ["--delay-start", "600"];
    let mut host = Host::new();
    let spec = Spec::legacy(NEWEST, &flags).start_timeouts(100, 60_000);
    let (_, event) = ready(&mut host, &spec);
    assert_eq!(serving(&event), (1, LEGACY, NEWEST.to_owned()));
    assert_eq!(letters(&host.seen), "READY");
}

#[test]
fn z05_l04_the_start_time_ends_a_life_that_does_not_serve() {
    let mut host = Host::with_manual_clock();
    let peer = host.launch(&Spec::auto(&["--no-read"]).start_timeouts(10_000, 30_000).restart(1, 1, 60_000));
    let pid = host.pid(peer);
    host.poll(0);
    host.advance_ms(29_999);
    assert_eq!(host.poll(0).len(), 0);
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_STARTING as i32);
    host.advance_ms(1);
    let error = host.next(MCP_SUPERVISED_EVENT_ERROR);
    assert_eq!((error.status, error.pid), (HANDSHAKE, pid));
    // It runs on, so it is made to leave.
    host.advance_ms(250);
    host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert_eq!(letters(&host.seen), "E D C");
    host.advance_ms(1);
    host.poll(0);
    host.close(peer);
    host.poll(0);
    host.advance_ms(10_000);
    host.until(Event::is_final);
}

/// A server that refuses the handshake because it has seen the probe is asked once more, and may take its time: nothing else is left
/// to try, so only the start time ends it.
#[test]
fn z05_the_second_question_has_until_the_start_time() {
    let scratch = Scratch::new();
    let path = scratch.name("ledger");
    let flags = ["--on-discover", "ignore", "--legacy", NEWEST, "--dual", "--on-initialize", "error:-32022"];
    let spec = Spec::auto(&[&flags[..], &["--ledger", &path]].concat()).start_timeouts(100, 30_000);
    let mut host = Host::with_manual_clock();
    let peer = host.launch(&spec.restart(1, 1, 60_000));
    host.drive_until("it was asked", |_| ledger(&path).len() == 1);
    host.advance_ms(100);
    host.drive_until("it was asked once more", |_| ledger(&path).len() == 3);
    assert_eq!(ledger(&path), ["1 server/discover", "1 initialize", "1 server/discover"]);
    host.advance_ms(29_899);
    assert_eq!(letters(&host.poll(0)), "");
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_STARTING as i32);
    host.advance_ms(1);
    assert_eq!(host.next(MCP_SUPERVISED_EVENT_ERROR).status, HANDSHAKE);
    assert_eq!(host.free(), 0);
}

#[test]
fn l10_close_while_starting_writes_nothing_that_waits() {
    let scratch = Scratch::new();
    let path = scratch.name("ledger");
    let mut host = Host::new();
    let flags = ["--on-discover", "ignore", "--on-initialize", "ignore", "--ledger", &path];
    let peer = host.launch(&Spec::legacy(NEWEST, &flags));
    let waits = host.ask_tool(peer, "pid", json!({}));
    let stream = host.listen(peer, json!({"toolsListChanged": true}), 0);
    while ledger(&path).is_empty() {
        host.poll(10);
    }
    host.close(peer);
    host.until(Event::is_final);
    assert_eq!(letters(&host.seen), "D C E E");
    for id in [waits, stream] {
        assert_eq!(host.completion(id).status, MCP_SUPERVISED_E_CLOSED as i32);
    }
    assert_eq!(ledger(&path), ["1 server/discover"]);
}

#[test]
fn z01_what_comes_before_the_connection_serves_is_dropped_and_logged() {
    let mut host = Host::new();
    let flags = ["--early", "tools,counter,tools", "--ask-early", "ping", "--ask-early", "roots/list"];
    let (peer, _) = ready(&mut host, &Spec::legacy(NEWEST, &flags).capabilities("{\"roots\":{}}"));
    host.await_log("dropped a message that came before the connection served");
    does(&mut host, peer, "pid");
    assert_eq!(letters(&host.seen), "READY M");
}

#[test]
fn z01_a_kept_era_that_turns_out_wrong_is_asked_for_again() {
    // Modern in its first life, of the older revisions from then on.
    let scratch = Scratch::new();
    let (lives, path) = (scratch.name("lives"), scratch.name("ledger"));
    let mut host = Host::new();
    let flags = [
        "--ledger",
        &path,
        "--lives",
        &lives,
        "--in-life",
        "2-",
        "--legacy",
        NEWEST,
        "--on-discover",
        "error:-32601",
        "--before-initialize",
        "error:-32602",
    ];
    let (peer, event) = ready(&mut host, &Spec::auto(&flags).restart(5, 1, 60_000));
    assert_eq!(event.era, MODERN);
    assert_eq!(killed(&mut host, peer).era, MODERN, "it is not asked");
    let id = host.ask_tool(peer, "pid", json!({}));
    assert_eq!(host.completion(id).error_code, -32602);
    let event = killed(&mut host, peer);
    assert_eq!(serving(&event), (3, LEGACY, NEWEST.to_owned()));
    assert_ne!(event.flags & MCP_SUPERVISED_FLAG_SERVER_CHANGED, 0);
    does(&mut host, peer, "pid");

    // And the other way round.
    let scratch = Scratch::new();
    let lives = scratch.name("lives");
    let mut host = Host::new();
    let flags = ["--lives", &lives, "--in-life", "1", "--legacy", NEWEST];
    let (peer, event) = ready(&mut host, &Spec::auto(&flags).restart(5, 1, 60_000));
    assert_eq!(event.era, LEGACY);
    let event = killed(&mut host, peer);
    assert_eq!((event.life, event.era), (3, MODERN), "the second life refused the handshake and was not one");
    let error = host.seen.iter().find(|e| e.peer == peer && e.is(MCP_SUPERVISED_EVENT_ERROR)).unwrap();
    assert_eq!((error.status, error.life), (HANDSHAKE, 2));
    does(&mut host, peer, "pid");
}

#[test]
fn r07_a_handshake_tells_what_the_server_can_do_and_whether_it_changed() {
    let scratch = Scratch::new();
    let lives = scratch.name("lives");
    let tools = json!({"tools": {}}).to_string();
    let mut host = Host::new();
    let flags =
        ["--lives", &lives, "--in-life", "1-2", "--capabilities", &tools, "--in-life", "3", "--server-version", "9"];
    let (peer, _) = ready(&mut host, &Spec::legacy(NEWEST, &flags).restart(3, 1, 60_000));
    assert_eq!(host.server_capabilities(peer), (tools.clone(), false));
    let lacking = |host: &mut Host| host.try_ask(peer, "prompts/list", "{}", None);
    assert_eq!(lacking(&mut host), Err(MCP_SUPERVISED_E_UNSUPPORTED as i32));
    assert_eq!(killed(&mut host, peer).flags & MCP_SUPERVISED_FLAG_SERVER_CHANGED, 0);
    assert_eq!(host.server_capabilities(peer), (tools, false));
    assert_ne!(killed(&mut host, peer).flags & MCP_SUPERVISED_FLAG_SERVER_CHANGED, 0);
    let (info, _) = host.server_info(peer);
    let info: Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["version"], "9");
    assert!(lacking(&mut host).is_ok());
}
