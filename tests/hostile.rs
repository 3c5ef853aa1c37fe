//! Servers, and what outlives them, that do all they can to hold a host up or to take its memory.

mod support;

use std::time::Duration;
use support::*;

const LINE: &str = r#"{"jsonrpc":"2.0","method":"a"}"#;

/// Whoever outlived the process and writes without end does not hold CLOSE back, however slowly the host takes its events.
#[test]
fn l03_a_survivor_that_floods_does_not_hold_close_back() {
    for batch in [1, 64] {
        let mut host = Host::new();
        host.batch = batch;
        let script = format!("yes '{LINE}' & exit 3");
        let spec =
            Spec::shell(&script).restart(MCP_SUPERVISED_NO_RESTART, 0, 1).limit(MCP_SUPERVISED_LIMIT_EVENT_QUEUE, 100);
        host.launch(&spec);
        let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
        assert_eq!(close.exit_code, 3);
    }
}

/// The same where the survivor is out of reach of the group's SIGKILL, and the whole handle is shut down.
#[test]
fn l18_a_survivor_that_floods_does_not_hold_shutdown_back() {
    let mut host = Host::new();
    let script = format!("setsid sh -c 'yes \"$1\" | head -c 200000000' sh '{LINE}' & read a; exit 3");
    host.launch(&Spec::shell(&script).limit(MCP_SUPERVISED_LIMIT_EVENT_QUEUE, 100));
    host.next(MCP_SUPERVISED_EVENT_MESSAGE);
    assert_eq!(host.shutdown(50), 0);
    host.next(MCP_SUPERVISED_EVENT_SHUTDOWN);
}

/// What a dead server left in its pipe is taken by somebody else: it is not waited for.
#[test]
fn l03_a_survivor_that_takes_the_owed_output_does_not_hold_close_back() {
    let scratch = Scratch::new();
    let done = scratch.path().join("done");
    let mut host = Host::new();
    host.batch = 1;
    // The first lines fill the host's queue; those after them lie in the pipe at the exit, where another reader takes them.
    let script = format!(
        "line='{LINE}'; for n in 1 2 3 4 5; do echo \"$line\"; done; read go; \
         for n in 1 2 3 4 5 6 7 8 9 10; do echo \"$line\"; done; \
         setsid sh -c 'head -c {} <\"/proc/self/fd/1\" >/dev/null; echo >\"$1\"; exec sleep 600' sh '{}' & exit 3",
        10 * (LINE.len() + 1),
        done.display(),
    );
    let spec = Spec::shell(&script).restart(MCP_SUPERVISED_NO_RESTART, 0, 1).limit(MCP_SUPERVISED_LIMIT_EVENT_QUEUE, 2);
    let peer = host.launch(&spec);
    // Driven without taking events.
    let drive = |host: &Host| {
        // SAFETY: a live handle; no events are asked for.
        let answer = unsafe { mcp_supervised_poll(host.raw(), std::ptr::null_mut(), size_of_event(), 0, 0) };
        assert_eq!(answer, 0);
    };
    // The shell has written the first lines and waits; they are read, and the queue is full from here on.
    watch::settle(&[host.pid(peer)]);
    drive(&host);
    drive(&host);
    host.send(peer, LINE);
    wait_for("the output to be taken", || {
        drive(&host);
        done.exists()
    });
    let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert_eq!(close.exit_code, 3);
}

/// Bytes that lead to no event do not keep a host inside poll for ever: its signals would not be looked at.
#[test]
fn h05_a_server_that_writes_nothing_but_blank_lines_lets_poll_return() {
    let mut host = Host::new();
    host.launch(&Spec::shell("yes ''"));
    for _ in 0..3 {
        assert_eq!(host.poll(-1).len(), 0);
    }
}

/// A line of the limit costs the limit, not twice that.
#[test]
fn w03_a_line_of_the_limit_takes_the_memory_of_the_limit() {
    alone!();
    const LIMIT: u64 = 64 << 20;
    let peak = || -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
    };
    let before = peak();
    let mut host = Host::new();
    let spec = Spec::shell("head -c 70000000 /dev/zero | tr '\\0' x; read a");
    host.launch(&spec.restart(MCP_SUPERVISED_NO_RESTART, 0, 1).limit(MCP_SUPERVISED_LIMIT_FRAME_BYTES, LIMIT));
    let error = host.next(MCP_SUPERVISED_EVENT_ERROR);
    assert_eq!(error.status, MCP_SUPERVISED_E_FRAME_TOO_LARGE as i32);
    let grown = peak() - before;
    assert!(grown < LIMIT / 1024 + 6 * 1024, "{grown} KiB");
    host.wait_readable(Duration::ZERO);
}

/// Lines that a bad server could write, each another one: good ones and odd ones with bytes replaced, left out, put in, cut off.
fn mutated_lines() -> std::collections::BTreeSet<Vec<u8>> {
    const LINES: [&str; 9] = [
        r#"{"jsonrpc":"2.0","id":1,"result":{"a":[1,{"b":null}]}}"#,
        r#"{"jsonrpc":"2.0","id":"7","error":{"code":-32022,"message":"x","data":{"supported":["2026-07-28"]}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}"#,
        r#"{"jsonrpc":"2.0","method":"n","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2}}}"#,
        r#"{"jsonrpc":"2.0","id":0,"method":"roots/list"}"#,
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1E5,\"message\":\"\u{8bfb} \\u00e9 \\ud83c\\udf89\"}}",
        r#"[{"jsonrpc":"2.0","id":1,"result":{}},[],"x",-0.1e+1]"#,
        "Server started v1.2 \u{1b}[32m(ready)\u{1b}[0m",
        r#"{"jsonrpc":"2.0","id":9223372036854775808,"result":true,"result":false}"#,
    ];
    const BYTES: &[u8] = b"\0\x01\t\r\x1b \"\\/{}[]:,-+.eE09tnfa\x7f\x80\xbf\xc0\xe9\xed\xf0\xff";
    let mut all = std::collections::BTreeSet::new();
    for line in LINES.map(str::as_bytes) {
        for at in 0..line.len() {
            all.insert(line[..at].to_vec());
            all.insert([&line[..at], &line[at + 1..]].concat());
            for byte in BYTES {
                all.insert([&line[..at], &[*byte], &line[at..]].concat());
                all.insert([&line[..at], &[*byte], &line[at + 1..]].concat());
            }
        }
    }
    all
}

/// Every one of them is one event at most, in the order in which they came, and the server is served before and behind them.
#[test]
fn w02_every_mutation_of_a_line_is_one_event_at_most() {
    let lines = mutated_lines();
    let scratch = Scratch::new();
    let marks = |n: usize| format!("{{\"jsonrpc\":\"2.0\",\"method\":\"mark\",\"params\":{n}}}\n").into_bytes();
    let mut bytes = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
        if n % 100 == 99 {
            bytes.extend(marks(n / 100));
        }
    }
    let file = scratch.data("lines", &bytes);
    for mode in [MCP_SUPERVISED_MODE_RAW, MCP_SUPERVISED_MODE_MODERN] {
        let mut host = Host::new();
        let peer = host.launch(&Spec::demo(&["--raw-lines", &file]).mode(mode));
        let pid = host.pid(peer);
        host.call(peer, "behind", "pid", serde_json::json!({}));
        assert_eq!(host.answer("behind").tool_text(), pid.to_string());
        let (mut errors, mut messages, mut mark, mut since) = (0, 0, 0, 0);
        for event in host.seen.iter().filter(|e| e.letter() != "LOG" && e.id != b"\"behind\"") {
            match event.letter() {
                "M" if event.method == b"mark" => {
                    assert_eq!(event.body, mark.to_string().as_bytes());
                    assert!(since <= 100, "{since} events for 100 lines");
                    (mark, since) = (mark + 1, 0);
                    continue;
                }
                "M" => messages += 1,
                "E" => {
                    errors += 1;
                    assert!(event.payload.len() < 500);
                    let _ = event.text();
                }
                other => panic!("{other}"),
            }
            since += 1;
        }
        assert_eq!(mark, lines.len() / 100, "no mark is missing");
        println!(
            "{} distinct hostile lines in {mode:?}: {errors} errors, {messages} messages, 0 crashes, hangs or losses",
            lines.len()
        );
        assert!(lines.len() > 30_000 && errors > lines.len() / 2);
    }
}
