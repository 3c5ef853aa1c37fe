//! Situations in which the reference implementation goes wrong, with real processes; the numbers are those of the table of traps
//! in docs/acceptance.md. What the core decides alone is in src/core/tests/traps.rs.

mod support;

use serde_json::json;
use support::*;

#[test]
fn without_newer_kernel_calls() {
    run_file_again_without_newer_kernel_calls();
}

fn by_hand() -> Host {
    Host::with_manual_clock().stepwise()
}

/// A process that holds stdout open keeps its end from being seen, so the exit comes first; the answers still lie in the pipe,
/// because nobody polls before the server is dead.
#[test]
fn trap_03_answers_in_the_pipe_are_told_although_the_exit_is_seen_first() {
    let mut host = Host::new();
    let spec = Spec::demo(&["--spawn-grandchild", "600", "--answers", "3", "--exit-code", "5"]);
    let peer = host.launch(&spec.restart(1, 0, 60_000));
    for id in ["a", "b", "c"] {
        host.call(peer, id, "echo", json!({"message": "m".repeat(10_000)}));
    }
    host.drive();
    let pid = host.pid(peer);
    wait_for("the server is dead", || !lives(pid));
    let told = host.until(|e| e.is(MCP_SUPERVISED_EVENT_CLOSE));
    // The poll that hands CLOSE out may have the RECONNECT behind it as well.
    assert_eq!(letters(&told).trim_end_matches(" R"), "M M M D C");
    let ids: Vec<&[u8]> = told.iter().filter(|e| e.letter() == "M").map(|e| &e.id[..]).collect();
    assert_eq!(ids, [b"\"a\"", b"\"b\"", b"\"c\""]);
    let close = host.last_close();
    assert_eq!((close.exit_code, close.will_reconnect()), (5, true));
}

/// The order of DRAIN, CLOSE and RECONNECT is one, whatever is seen first of a death.
#[test]
fn trap_04_one_order_whatever_sign_comes_first() {
    let deaths: [(&str, &[&str], &str); 4] = [
        ("the exit, while another process holds stdout", &["--spawn-grandchild", "600"], "exit"),
        ("the end of stdout, of a server that lives on", &["--ignore-eof"], "close_stdout"),
        ("nobody reads stdin any more", &[], "close_stdin"),
        ("all together", &[], "exit"),
    ];
    for (what, flags, tool) in deaths {
        let mut host = Host::new();
        let peer = host.launch(&Spec::demo(flags).restart(3, 0, 60_000));
        host.call(peer, "last", tool, json!({}));
        let told = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
        assert_eq!(letters(&told), "M D C R", "{what}");
    }
}

/// A host that takes no event at all, while a replacement cannot be spawned and then can.
#[test]
fn trap_07_supervision_goes_on_while_nobody_takes_the_errors() {
    let scratch = Scratch::new();
    let mut host = by_hand();
    let peer = host.launch(&Spec::new(scratch.link("server")).mode(MCP_SUPERVISED_MODE_RAW).restart(3, 100, 60_000));
    scratch.remove("server");
    kill9(host.pid(peer));
    host.reach(peer, MCP_SUPERVISED_STATE_WAITING);
    for _ in 0..2 {
        host.advance_ms(100);
        host.drive();
        assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_WAITING as i32);
    }
    scratch.link("server");
    host.advance_ms(100);
    host.drive();
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_RUNNING as i32);
    host.call(peer, "a", "echo", json!({"message": "back"}));
    host.answer("a");
    assert_eq!(letters(&host.seen), "D C E E R M");
}

/// A replacement that dies at once: told and replaced like any other, with one process at a time.
#[test]
fn trap_08_a_replacement_that_dies_at_once_has_one_successor() {
    let scratch = Scratch::new();
    let lives_file = scratch.name("lives");
    let mut host = Host::new().stepwise();
    let spec = Spec::demo(&["--lives", &lives_file, "--in-life", "2", "--exit-at-start", "3"]);
    let peer = host.launch(&spec.restart(3, 0, 60_000));
    host.call(peer, "a", "echo", json!({"message": "up"}));
    host.answer("a");
    kill9(host.pid(peer));
    let told = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT) && e.life == 3);
    assert_eq!(letters(&told), "D C R D C R");
    let attempts: Vec<u32> = told.iter().filter(|e| e.letter() == "R").map(|e| e.attempt).collect();
    assert_eq!(attempts, [1, 2]);
    host.call(peer, "b", "pid", json!({}));
    assert_eq!(host.answer("b").tool_text(), host.pid(peer).to_string());
    let pids: Vec<i32> = scratch.read("lives").lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!((pids.len(), pids[2]), (3, host.pid(peer)));
    assert_eq!(pids[..2].iter().map(|pid| state_of(*pid)).collect::<Vec<_>>(), [None, None], "reaped");
}

/// A start that nobody waited for: asked for again, taken back, or over before the first poll.
#[test]
fn trap_09_one_start_makes_one_process() {
    let scratch = Scratch::new();
    let lives_file = scratch.name("lives");
    let spec = |flags: &[&str]| Spec::demo(&[&["--lives", &lives_file], flags].concat()).restart(1, 0, 60_000);

    let mut host = Host::new();
    let peer = host.launch(&spec(&[]));
    let pid = host.pid(peer);
    for _ in 0..3 {
        assert_eq!(host.start(peer), MCP_SUPERVISED_E_ALREADY_STARTED as i32);
    }
    assert_eq!(host.pid(peer), pid);
    host.call(peer, "a", "echo", json!({"message": "up"}));
    host.answer("a");
    assert_eq!(scratch.read("lives"), format!("{pid}\n"));

    // Closed before it has done anything: over once, and for good.
    let peer = host.launch(&spec(&[]));
    assert_eq!((host.close(peer), host.close(peer)), (0, 0));
    let told = of(peer, &host.to_the_end(peer));
    assert_eq!(letters(&told), "D C");
    assert_eq!(host.start(peer), MCP_SUPERVISED_E_CLOSED as i32);
    host.expect_silence();
    assert_eq!(scratch.read("lives").lines().count(), 2);

    // Dead before anybody looks: an ordinary death, and an ordinary replacement.
    let peer = host.launch(&spec(&["--exit-at-start", "4"]));
    let pid = host.pid(peer);
    wait_for("the server is dead", || !lives(pid));
    assert_eq!(host.start(peer), MCP_SUPERVISED_E_ALREADY_STARTED as i32);
    let told = of(peer, &host.to_the_end(peer));
    assert_eq!(letters(&told), "D C R D C X");
    assert_eq!(scratch.read("lives").lines().count(), 4);
}

/// A line that cannot be sent is the caller's mistake, and costs the server nothing: not a byte, not a number, not a life.
#[test]
fn trap_11_a_line_that_cannot_be_sent_harms_nobody() {
    let scratch = Scratch::new();
    let record = scratch.name("record");
    for mode in [MCP_SUPERVISED_MODE_MODERN, MCP_SUPERVISED_MODE_RAW] {
        let mut host = Host::new();
        let spec = Spec::demo(&["--record", &record]).mode(mode).limit(MCP_SUPERVISED_LIMIT_OUTBOUND_BYTES, 10_000);
        let peer = host.launch(&spec);
        let pid = host.pid(peer);
        assert_eq!(host.call(peer, "a", "echo", json!({"message": "before"})), 1);
        host.answer("a");
        let long = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"x":"{}"}}}}"#, "x".repeat(10_000));
        let bad: [&[u8]; 9] = [
            b"",
            b"no JSON",
            b"\"text\"",
            b"{\"jsonrpc\":\"2.0\"}",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"x\"",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{\"nan\":NaN}}",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{\"text\":\"\xff\xfe\"}}",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{\"text\":\"a\nb\"}}",
            long.as_bytes(),
        ];
        for line in bad {
            let answer = host.try_send(peer, line);
            assert_eq!(answer, Err(MCP_SUPERVISED_E_INVALID as i32), "{}", String::from_utf8_lossy(line));
            assert!(!host.last_error().is_empty());
        }
        assert_eq!(host.call(peer, "b", "pid", json!({})), 2, "no number was used up");
        assert_eq!(host.answer("b").tool_text(), pid.to_string(), "it is still the first life");
        assert_eq!(letters(&host.seen), "M M");
        assert_eq!(scratch.read("record").lines().count(), 2, "nothing of them was written");
        scratch.remove("record");
    }
}

/// A host that closes on whatever event it is just looking at, the DRAIN and the CLOSE included: it gets to the end, once.
#[test]
fn trap_12_a_close_on_any_event_gets_to_the_end() {
    let cases: [(&str, &[&str]); 5] = [
        ("LOG", &["D C"]),
        // The server dies right behind its answer: before or after this close.
        ("M", &["M D C", "M D C C"]),
        // Its connection is gone: the CLOSE behind the DRAIN is queued and still promises; then the promise is withdrawn.
        ("D", &["M D C C"]),
        ("C", &["M D C C"]),
        ("R", &["M D C R D C"]),
    ];
    for (on, expected) in cases {
        let mut host = Host::new().stepwise();
        // The replacement is far away, or at hand.
        let delay = if on == "R" { 0 } else { 19_000 };
        let spec = Spec::demo(&["--stderr-at-start", "up", "--exit-after", "1"]).restart(3, delay, 60_000);
        let peer = host.launch(&spec);
        if on != "LOG" {
            host.call(peer, "a", "echo", json!({"message": "and then it dies"}));
        }
        let told = closing_on(&mut host, peer, on);
        assert!(expected.contains(&&*letters(&told)), "closed on {on}: {}", letters(&told));
        assert_eq!(told.iter().filter(|e| e.is_final()).count(), 1);
        host.expect_silence();
        assert_eq!(host.remove(peer), 0);
    }
}

/// Takes one event at a time to the last one of the peer, and closes it on the first of a kind.
fn closing_on(host: &mut Host, peer: u64, kind: &str) -> Vec<Event> {
    let mut told = Vec::new();
    let mut closed = false;
    loop {
        let event = host.until(|_| true).pop().unwrap();
        if event.letter() == kind && !std::mem::replace(&mut closed, true) {
            assert_eq!(host.close(peer), 0);
        }
        told.push(event);
        if told.last().is_some_and(Event::is_final) {
            assert!(closed, "there was a {kind}");
            return told;
        }
    }
}

/// A peer that was never started is closed at once, in two events. Between them a host may try what it likes.
#[test]
fn trap_13_a_cold_close_is_complete_whatever_the_host_does_with_its_drain() {
    let mut host = Host::new().stepwise();
    let peer = host.add(&Spec::demo(&[]));
    assert_eq!(host.close(peer), 0);
    host.next(MCP_SUPERVISED_EVENT_DRAIN);
    assert_eq!(host.start(peer), MCP_SUPERVISED_E_CLOSED as i32);
    assert_eq!(host.try_send(peer, "{}"), Err(MCP_SUPERVISED_E_CLOSED as i32));
    assert_eq!(host.remove(peer), MCP_SUPERVISED_E_NOT_CLOSED as i32);
    assert_eq!(host.close(peer), 0);
    host.drive();
    let told = host.to_the_end(peer);
    assert_eq!(letters(&told), "C");
    host.expect_silence();
    assert_eq!(host.remove(peer), 0);
}

/// A first start that fails at whatever point leaves no process, no descriptor and no event, and the next one is a first one.
#[test]
fn trap_14_a_start_that_fails_leaves_nothing_half_built() {
    alone!();
    let scratch = Scratch::new();
    let mut host = Host::new();
    let no_program = scratch.data("data", "no program");
    let before = open_descriptors();
    for program in [scratch.name("later"), no_program, scratch.path().to_str().unwrap().to_owned()] {
        let peer = host.add(&Spec::new(program).mode(MCP_SUPERVISED_MODE_RAW));
        for _ in 0..20 {
            assert_eq!(host.start(peer), MCP_SUPERVISED_E_SPAWN as i32);
        }
        assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_IDLE as i32);
        host.expect_silence();
        assert_eq!((open_descriptors(), children()), (before, vec![]));
    }
    scratch.link("later");
    let peer = host.launch(&Spec::new(scratch.name("later")).mode(MCP_SUPERVISED_MODE_RAW));
    assert_eq!(children(), [host.pid(peer)]);
    host.call(peer, "a", "pid", json!({}));
    host.answer("a");
    assert_eq!(host.close(peer), 0);
    host.to_the_end(peer);
    assert_eq!((open_descriptors(), children()), (before, vec![]));
}

/// A line of stderr without an end is cut, told when it ends, and the next one is read as ever: the server never blocks. What it
/// says is told as the text it is.
#[test]
fn trap_21_an_endless_line_of_stderr_stops_nothing() {
    let script = format!(
        "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo >&2; echo 'grüße, \u{6f22}\u{5b57}' >&2; exec '{}'",
        demo_server()
    );
    let mut host = Host::new();
    let peer = host.launch(&Spec::shell(&script));
    host.call(peer, "a", "echo", json!({"message": "not blocked"}));
    host.answer("a");
    assert_eq!(host.close(peer), 0);
    host.to_the_end(peer);
    let lines: Vec<String> = host.seen.iter().filter(|e| e.letter() == "LOG").map(Event::text).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("xxx") && lines[0].ends_with("...") && lines[0].len() == 4_096, "{}", lines[0].len());
    assert_eq!(lines[1], "grüße, 漢字");
    assert!(host.last_close().text().ends_with("grüße, 漢字"));
}

/// End of input, then SIGTERM, then SIGKILL, each only for the server that did not leave before; what they started goes with
/// them, and all are reaped when CLOSE is told.
#[test]
fn trap_22_a_server_may_leave_by_itself_before_it_is_killed() {
    let scratch = Scratch::new();
    let (finished, at_sigterm) = (scratch.name("finished"), scratch.name("at-sigterm"));
    let long = 600_000;
    /// Flags, the two graces, and the exit code and signal that come of it.
    type Server<'a> = (&'a [&'a str], u64, u64, (i32, i32));
    let servers: [Server; 3] = [
        (&["--slow-exit", "50", "--exit-file", &finished], long, long, (0, 0)),
        (&["--ignore-eof", "--graceful", "--exit-file", &at_sigterm], 20, long, (0, 0)),
        (&["--ignore-eof", "--ignore-sigterm"], 20, 20, (-1, libc::SIGKILL)),
    ];
    let mut host = Host::new().stepwise();
    for (flags, close_grace, kill_grace, expected) in servers {
        let peer = host.launch(&Spec::demo(flags).stop_grace(close_grace, kill_grace));
        let pid = host.pid(peer);
        host.call(peer, "g", "grandchild", json!({"seconds": 600}));
        let grandchild: i32 = host.answer("g").tool_text().parse().unwrap();
        assert_eq!(host.close(peer), 0);
        let told = host.to_the_end(peer);
        assert_eq!(letters(&told), "D C");
        let close = host.last_close();
        assert_eq!((close.exit_code, close.signal), expected, "{flags:?}");
        assert_eq!(state_of(pid), None, "reaped");
        // It may still be at its own last steps.
        wait_gone(grandchild);
    }
    assert_eq!(scratch.read("finished"), "finished\n");
    assert_eq!(scratch.read("at-sigterm"), "finished\n");
}

/// No environment means none; what the host has is asked for by name.
#[test]
fn trap_27_an_empty_environment_is_empty() {
    let mut host = Host::new();
    let mut environment = |id: &str, spec: Spec| -> Vec<String> {
        let peer = host.launch(&spec);
        host.call(peer, id, "env", json!({"raw": true}));
        serde_json::from_str(&host.answer(id).tool_text()).unwrap()
    };
    let empty = || Spec::demo(&[]).env_mode(MCP_SUPERVISED_ENV_EMPTY);
    assert_eq!(environment("a", empty()), [""; 0]);
    assert_eq!(environment("b", empty().env("ONLY", "this")), ["ONLY=this"]);
    let inherited = environment("c", Spec::demo(&[]).env_mode(MCP_SUPERVISED_ENV_INHERIT));
    assert_eq!(inherited.len(), std::env::vars_os().count());
}
