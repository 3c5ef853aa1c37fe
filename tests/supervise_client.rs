//! `examples-c/supervise` as a client of its own: `--list`, `--call` and `--listen`, what they print, what they say when a
//! server dies under them, and how they end.

#[path = "support/compiler.rs"]
mod compiler;
#[path = "support/session.rs"]
mod session;

use std::fs;

use compiler::scratch;
use serde_json::{Value, json};
use session::*;

/// A server of the present revision that has an answer for each line it gets, whatever is in it, and then waits for its end.
fn scripted(options: &[&str], answers: &[Value]) -> Start {
    let script = "for answer; do read -r line; printf '%s\\n' \"$answer\"; done; while read -r line; do :; done";
    let answers: Vec<String> = answers.iter().map(Value::to_string).collect();
    let answers: Vec<&str> = answers.iter().map(String::as_str).collect();
    start(&[options, &["--speak", "modern", "--", "/bin/sh", "-c", script, "sh"], &answers].concat())
}

/// The answer to a request of that number.
fn answer(id: u64, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// Calls a tool of the demo server and runs it to its end.
fn called(tool: &str, arguments: Value, options: &[&str], flags: &[&str]) -> Ended {
    let arguments = arguments.to_string();
    demo(&[&["--call", tool, "--args", &arguments], options].concat(), flags).run_through()
}

fn kill(pid: i32) {
    // SAFETY: a plain system call; the server is a grandchild that nobody has waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
}

// ---- The command line ------------------------------------------------------------------------------------------------

#[test]
fn impossible_combinations_are_named_and_status_2() {
    let one = "only one of --list, --call and --listen can be asked for, once";
    let cases: &[(&[&str], &str)] = &[
        (&["--list", "--call", "x", "true"], one),
        (&["--call=x", "--call=y", "true"], one),
        (&["--listen", "tools", "--list", "true"], one),
        (&["--list", "--list", "true"], one),
        (&["--call", "", "true"], "--call: the value is empty, it must be the name of a tool"),
        (&["--call"], "--call needs a value"),
        (&["--list=yes", "true"], "--list takes no value"),
        (&["--retry=yes", "true"], "--retry takes no value"),
        (&["--args", "{}", "true"], "--args are the arguments of a --call"),
        (&["--list", "--args", "{}", "true"], "--args are the arguments of a --call"),
        (&["--call", "x", "--args", "", "true"], "--args: the value is not a JSON object"),
        (&["--call", "x", "--args", "[]", "true"], "--args: the value is not a JSON object"),
        (&["--call", "x", "--args", "{\"a\":1},\"b\":{}", "true"], "--args: the value is not a JSON object"),
        (&["--call", "x", "--args", "{\"a\":01}", "true"], "--args: the value is not a JSON object"),
        (&["--call", "x", "--retry", "true"], "--retry: a call is never sent twice, the server may have acted on it"),
        (&["--listen=tools", "--retry", "true"], "--retry: a stream is opened again in any case"),
        (&["--speak", "modern", "true"], "--speak is for --list, --call and --listen"),
        (&["--list", "--speak", "old", "true"], "--speak: `old` is none of auto, modern and legacy"),
        (&["--retry", "true"], "--retry is for --list: other lines are never sent twice"),
        (&["--listen=tools", "--timeout", "5", "true"], "--timeout: a stream has no deadline"),
        (&["--timeout", "5", "true"], "--timeout is for --list and --call"),
        (&["--list", "--timeout", "0", "true"], "--timeout: 0 is too small"),
        (&["--list", "--timeout", "soon", "true"], "--timeout: `soon` is no number of milliseconds"),
        (&["--list", "--timestamps", "true"], "--timestamps are for the lines of --listen"),
        (
            &["--listen=tools", "--json", "--timestamps", "true"],
            "--timestamps are for the lines of --listen, not for --json",
        ),
        (&["--listen", "", "true"], "--listen: `` is none of tools, prompts, resources and resources=URI"),
        (&["--listen", "tools,", "true"], "--listen: `` is none of"),
        (&["--listen", "tools,tool", "true"], "--listen: `tool` is none of"),
        (&["--listen", "resources=", "true"], "--listen: `resources=` is none of"),
        (&["--listen", "resources=,tools", "true"], "--listen: `resources=,tools` is none of"),
    ];
    for (arguments, text) in cases {
        let ended = start(arguments).run_through().with(2);
        assert!(ended.err.starts_with(&format!("supervise: {text}")), "{arguments:?}: {}", ended.err);
        assert!(ended.err.ends_with("Try `supervise --help`.") && ended.out.is_empty(), "{arguments:?}: {}", ended.err);
    }
}

#[test]
fn help_tells_of_the_client() {
    let help = start(&["--help"]).run_through().with(0).out.join("\n");
    for word in
        ["--list", "--call TOOL", "--args JSON", "--listen WHAT", "--timeout MS", "--retry", "--timestamps", "  6  "]
    {
        assert!(help.contains(word), "{word} is missing in:\n{help}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 120 || line.contains("initialize")), "it fits a terminal");
}

#[test]
fn what_cannot_be_sent_is_status_2() {
    let arguments = json!({"message": "x".repeat(1000)}).to_string();
    let ended = demo(&["--max-queue=500", "--call=echo", "--args", &arguments], &[]).run_through().with(2);
    ended.says(&["tools/call of `echo` cannot be sent: the request is a line of "]);
}

// ---- --list ----------------------------------------------------------------------------------------------------------

#[test]
fn a_listing_shows_what_the_server_has() {
    let ended = demo(&["--list"], &["--name", "my-server", "--server-version", "1.0"]).run_through().with(0);
    assert_eq!(ended.err, "", "nothing went wrong, so nothing is told");
    let out = ended.out.join("\n");
    let begin = "my-server 1.0\n  versions      2026-07-28\n  capabilities  completions, logging, prompts, resources, tools\n\n\
                 tools\n  echo(message)\n      answers the message\n";
    assert!(out.starts_with(begin), "{out}");
    assert!(out.contains("\n  sleep(ms, on_cancel?)\n"), "{out}");
    assert!(out.contains("\n\nresources\n  mem://counter  counter, text/plain\n"), "{out}");
    assert!(out.ends_with("\n\nprompts\n  greet(name)\n      greets somebody"), "{out}");
}

#[test]
fn a_listing_asks_only_for_what_the_capabilities_have() {
    let ledger = scratch("client-capabilities").join("ledger");
    let path = ledger.to_str().unwrap();
    let flags = ["--capabilities", "{\"resources\":{},\"tools\":null}", "--ledger", path];
    let ended = demo(&["--list"], &flags).run_through().with(0);
    assert_eq!(ended.out[2..], ["  capabilities  resources", "", "resources", "  mem://counter  counter, text/plain"]);
    let asked = fs::read_to_string(ledger).unwrap();
    let methods: Vec<&str> = asked.lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
    // The first one finds out what the server speaks.
    assert_eq!(methods, ["server/discover", "server/discover", "resources/list"]);
    let none = demo(&["--list"], &["--capabilities", "{}"]).run_through().with(0);
    assert_eq!(none.out[2..], ["  capabilities  none"]);
}

#[test]
fn a_listing_has_every_page_and_no_control_characters() {
    let discovered = json!({"supportedVersions": ["2026-07-28", "x\u{1b}y"], "instructions": "one\n\ntwo\u{9b}",
        "capabilities": {"tools": {}, "prompts": {}}});
    let schema = json!({"type": "object", "required": ["b"], "properties": {"b": {}, "a\n": {"properties": {"c": 1}}}});
    let many: serde_json::Map<String, Value> = (10..40).map(|number| (number.to_string(), json!({}))).collect();
    let answers = [
        answer(1, discovered),
        answer(
            2,
            json!({"nextCursor": "\"2\\", "tools": [{"name": "first\u{7}", "inputSchema": schema, "title": "T"}]}),
        ),
        answer(3, json!({"nextCursor": "3", "tools": []})),
        answer(4, json!({"tools": [{"name": "last", "inputSchema": {"properties": many}}, 7, {"name": 8}]})),
        answer(5, json!({"prompts": [], "nextCursor": null})),
    ];
    let ended = scripted(&["--list"], &answers).run_through().with(0);
    let arguments: Vec<String> = (10..30).map(|number| format!("{number}?")).collect();
    let last = format!("  last({}, ...)", arguments.join(", "));
    let expected = [
        "a server without a name",
        "  versions      2026-07-28, x\\x1by",
        "  capabilities  prompts, tools",
        "",
        "instructions",
        "  one",
        "",
        "  two\\x9b",
        "",
        "tools",
        "  first\\x07(a\\x0a?, b), T",
        &last,
        "  ",
        "  ",
        "",
        "prompts",
        "  none",
    ];
    assert_eq!(ended.out, expected);
}

#[test]
fn each_page_is_asked_for_by_its_cursor() {
    let record = scratch("client-cursor").join("record");
    let script = format!(
        "exec tee {} | {{ {} }}",
        record.display(),
        "for answer; do read -r line; printf '%s\\n' \"$answer\"; done; cat >/dev/null;"
    );
    let answers = [
        answer(1, json!({"capabilities": {"tools": {}}})),
        answer(2, json!({"nextCursor": "a \"b\" é", "tools": []})),
        answer(3, json!({"nextCursor": "a \"b\" é", "tools": []})),
    ]
    .map(|answer| answer.to_string());
    let words =
        ["--list", "--speak=modern", "--", "/bin/sh", "-c", &script, "sh", &answers[0], &answers[1], &answers[2]];
    let ended = start(&words).run_through().with(5);
    ended.says(&["the list has no end: the server names the same next page again"]);
    let lines = fs::read_to_string(record).unwrap();
    let asked: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(asked.len(), 3);
    assert_eq!(asked[0]["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]["name"], "supervise");
    assert_eq!(asked[1]["params"].get("cursor"), None);
    assert_eq!(asked[2]["params"]["cursor"], "a \"b\" é");
}

#[test]
fn a_listing_that_is_refused_is_status_5() {
    let modern = ["--list", "--speak", "modern"];
    let ended = demo(&modern, &["--on-discover", "error:-32603"]).run_through().with(5);
    ended.says(&["server/discover was answered with error -32603: server/discover is refused"]);
    let ended = demo(&modern, &["--legacy", "2025-06-18"]).run_through().with(5);
    ended.says(&["server/discover was answered with error -32601: ", "a revision before 2026-07-28"]);
}

#[test]
fn a_server_of_any_revision_is_listed_called_and_listened_to() {
    for (version, flags) in [
        ("2026-07-28", &[][..]),
        ("2025-11-25", &["--legacy", "2025-11-25", "--strict"]),
        ("2025-06-18", &["--legacy", "2025-06-18", "--on-discover", "exit:1"]),
        ("2024-11-05", &["--legacy", "2024-11-05", "--strict"]),
    ] {
        let ended = demo(&["--list", "--verbose"], flags).run_through().with(0);
        let speaks = if flags.is_empty() { version.to_owned() } else { format!("{version}, with a handshake") };
        ended.says(&["started ", &format!("it speaks MCP {speaks}")]);
        assert!(ended.out[1].ends_with(version), "{:?}", ended.out);
        assert_eq!(ended.out.last().unwrap(), "      greets somebody");
        let ended = demo(&["--call=echo", "--args={\"message\":\"hello\"}"], flags).run_through().with(0);
        assert_eq!(ended.out, ["hello"]);
    }
    let ended = demo(&["--list"], &["--on-discover", "error:-32601"]).run_through();
    ended.says(&["the server refused initialize with the error -32022"]);
}

#[test]
fn what_a_crash_interrupts_is_asked_again_only_with_retry() {
    for retry in [false, true] {
        let dir = scratch(&format!("client-retry-{retry}"));
        let (lives, ledger) = (dir.join("lives"), dir.join("ledger"));
        let flags = ["--ledger", ledger.to_str().unwrap(), "--lives", lives.to_str().unwrap(), "--in-life", "1"];
        let options = if retry { &["--list", "--retry", "--verbose"][..] } else { &["--list"] };
        let run = demo(options, &[&flags[..], &["--crash-on", "prompts/list"]].concat());
        let ended = run.run_through().with(if retry { 0 } else { 6 });
        let asked = fs::read_to_string(ledger).unwrap();
        let sent = |method: &str| asked.lines().filter(|line| line.contains(method)).count();
        assert_eq!(sent("server/discover") + sent("tools/list") + sent("resources/list"), 4, "{asked}");
        if retry {
            ended.says(&[
                "died: exit code 1",
                "restart 1 of 3",
                "prompts/list was sent again after a restart, and answered now",
            ]);
            assert_eq!(ended.out.last().unwrap(), "      greets somebody");
            assert!(
                asked.lines().filter(|line| line.contains("prompts/list")).all(|line| line.ends_with(" 4")),
                "{asked}"
            );
            assert_eq!(sent("prompts/list"), 2, "{asked}");
        } else {
            ended
                .says(&["died: exit code 1", "prompts/list is lost: the server died before it answered. With --retry"]);
            assert!(!ended.err.contains("restart 1"), "it is over, so no restart is told: {}", ended.err);
            assert_eq!((ended.out.last().unwrap().as_str(), sent("prompts/list")), ("prompts", 1));
        }
    }
}

#[test]
fn a_listing_with_retry_is_given_up_with_status_4() {
    let ended = demo(&["--list", "--retry", "--max-restarts=2"], &["--crash-on", "tools/list"]).run_through().with(4);
    ended.says(&["restart 1 of 2", "restart 2 of 2", "given up: 2 restarts in 1 min were not enough"]);
    assert!(!ended.err.contains("lost"), "{}", ended.err);
}

#[test]
fn a_server_that_dies_between_two_answers_is_replaced_with_retry() {
    let dir = scratch("client-between");
    let lives = dir.join("lives");
    let flags = ["--lives", lives.to_str().unwrap(), "--in-life", "1", "--exit-after", "2"];
    let ended = demo(&["--list", "--retry"], &flags).run_through().with(0);
    assert_eq!(ended.out.last().unwrap(), "      greets somebody");
    assert_eq!(ended.err.matches("replaced").count(), 1, "{}", ended.err);
}

// ---- --call ----------------------------------------------------------------------------------------------------------

#[test]
fn a_call_prints_the_text_of_its_result() {
    for (message, lines) in
        [("hello", vec!["hello"]), ("", vec![""]), ("two\nlines\n", vec!["two", "lines"]), ("é\u{1b}", vec!["é\u{1b}"])]
    {
        let ended = called("echo", json!({"message": message}), &[], &[]).with(0);
        assert_eq!((ended.out, ended.err.as_str()), (lines.into_iter().map(str::to_owned).collect(), ""));
    }
    let pid = demo(&["--call=pid"], &[]).run_through().with(0);
    assert!(pid.out[0].parse::<u32>().is_ok(), "{:?}", pid.out);
    let big = called("big", json!({"bytes": 3 << 20}), &[], &[]).with(0);
    assert_eq!(big.out[0].len(), 3 << 20);
}

#[test]
fn other_content_is_described() {
    let content = json!([
        {"type": "text", "text": "words"},
        {"data": "aGVsbG8=", "mimeType": "image/png", "type": "image"},
        {"type": "audio", "data": "aGVs", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a", "name": "a\u{1b}b"},
        {"type": "resource", "resource": {"uri": "file:///t", "mimeType": "text/plain", "text": "12345",
            "resource": {"resource": {"uri": "ignored"}}}},
        {"type": "resource", "resource": {"uri": "file:///b", "blob": "aGVsbG8h"}},
        {"type": "hologram"},
        {},
        7,
    ]);
    let ended = scripted(&["--call", "x"], &[answer(1, json!({"content": content}))]).run_through().with(0);
    let expected = [
        "words",
        "[image, image/png, 5 bytes]",
        "[audio, audio/wav, 3 bytes]",
        "[resource_link, a\\x1bb, file:///a]",
        "[resource, file:///t, text/plain, 5 bytes]",
        "[resource, file:///b, 6 bytes]",
        "[hologram]",
        "[content without a type]",
        "[content without a type]",
    ];
    assert_eq!(ended.out, expected);
    let structured = json!({"structuredContent": {"n": 1.50, "é": []}, "content": []});
    let ended = scripted(&["--call", "x"], &[answer(1, structured)]).run_through().with(0);
    assert_eq!(ended.out, ["{\"n\":1.5,\"é\":[]}"]);
    for nothing in [json!({}), json!([]), json!({"content": "x"}), json!({"content": null, "isError": 1})] {
        let ended = scripted(&["--call", "x"], &[answer(1, nothing)]).run_through().with(0);
        assert!(ended.out.is_empty(), "{:?}", ended.out);
    }
}

#[test]
fn a_tool_that_failed_and_an_error_are_status_5() {
    let failed = json!({"content": [{"type": "text", "text": "disk full"}], "isError": true});
    let ended = scripted(&["--call", "x"], &[answer(1, failed)]).run_through().with(5);
    assert_eq!((ended.out[0].as_str(), ended.err.as_str()), ("disk full", "supervise: the tool says that it failed"));
    let ended = called("error", json!({"code": -32001, "message": "no\u{1b}[2J way"}), &[], &[]).with(5);
    assert_eq!(ended.err, "supervise: tools/call of `error` was answered with error -32001: no\\x1b[2J way");
    called("nope", json!({}), &[], &[]).with(5).says(&["error -32602: unknown tool: nope"]);
    called("ask", json!({}), &[], &[]).with(5).says(&["the tool asks for more input, which supervise cannot give"]);
    let ended = called("result_type", json!({"value": "odd"}), &[], &[]).with(5);
    ended.says(&["tools/call of `result_type`: the result is of a type that was not asked for: odd"]);
    let deep = format!("{}{}", "[".repeat(2000), "]".repeat(2000));
    let ended = scripted(&["--call", "x"], &[answer(1, json!({"other": 1}))]).run_through().with(0);
    assert!(ended.out.is_empty());
    let deep = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"other\":{deep}}}}}");
    let script = "read -r line; printf '%s\\n' \"$1\"; cat >/dev/null";
    let ended =
        start(&["--call", "x", "--speak=modern", "--", "/bin/sh", "-c", script, "sh", &deep]).run_through().with(5);
    ended.says(&["the answer is nested too deeply to be shown"]);
}

#[test]
fn progress_is_one_line_that_changes_at_a_terminal() {
    let arguments = json!({"ms": 40}).to_string();
    let mut run = demo(&["--call=sleep", "--args", &arguments], &[]).run_with_stderr_at_a_terminal();
    run.end_input();
    let ended = run.end().with(0);
    assert_eq!(ended.out, ["slept"]);
    let expected: String = (1..=4).map(|step| format!("\r\x1b[Ksleep: {step} of 4")).collect();
    assert_eq!(ended.err, expected + "\r\x1b[K", "it is gone at the end");
}

#[test]
fn progress_is_lines_with_verbose_and_nothing_behind_a_pipe() {
    let ended = called("sleep", json!({"ms": 40}), &[], &[]).with(0);
    assert_eq!(ended.err, "");
    let ended = called("sleep", json!({"ms": 40}), &["--verbose"], &[]).with(0);
    ended.says(&[
        "started ",
        "sleep: 1 of 4\n",
        "sleep: 4 of 4\n",
        "done: ending the server",
        "the server ended: exit code 0",
    ]);
}

#[test]
fn progress_that_is_long_is_cut_to_the_terminal_and_says_what_it_says() {
    let note = |params: Value| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
    let message = "é".repeat(200);
    let line = format!(
        "{}\n{}\n{}",
        note(json!({"progressToken": "progress-1", "progress": 0.5, "message": "half\u{1b}"})),
        note(json!({"progressToken": "progress-1", "progress": 2, "total": "x", "message": message})),
        answer(1, json!({"content": []})),
    );
    let script = "read -r line; printf '%s\\n' \"$1\"; cat >/dev/null";
    let words = ["--call", "x", "--speak=modern", "--", "/bin/sh", "-c", script, "sh", &line];
    let mut run = start(&words).run_with_stderr_at_a_terminal();
    run.end_input();
    let cut = format!("x: 2, {}", "é".repeat(79 - 6));
    assert_eq!(run.end().with(0).err, format!("\r\x1b[Kx: 0.5, half\\x1b\r\x1b[K{cut}\r\x1b[K"));
}

#[test]
fn a_call_under_which_the_server_dies_is_status_6_and_may_have_been_read() {
    let dir = scratch("client-lost");
    let ledger = dir.join("ledger");
    let arguments = json!({"every_ms": 5}).to_string();
    let options = ["--verbose", "--call=progress", "--args", &arguments];
    let run = demo(&options, &["--ledger", ledger.to_str().unwrap()]).run();
    let pid = pid_in(&run.err().wait("started"));
    run.err().wait("progress: 1");
    kill(pid);
    let ended = run.end().with(6);
    ended.says(&[
        "the server died: signal SIGKILL",
        "tools/call of `progress` is lost: the server died before it answered. \
         It may have read it and done the work, so it is not sent again",
    ]);
    assert!(!ended.err.contains("supervise: restart 1 of"), "{}", ended.err);
    assert!(ended.out.is_empty());
    let asked = fs::read_to_string(ledger).unwrap();
    assert_eq!(asked.lines().filter(|line| line.contains("tools/call")).count(), 1, "it was sent once");
}

#[test]
fn a_call_that_the_dead_server_cannot_have_read_is_safe_to_repeat() {
    for restarts in ["3", "none"] {
        let words = ["--max-restarts", restarts, "--call", "x", "--", "/bin/sh", "-c", "kill -9 $$"];
        let ended = start(&words).run_through().with(6);
        ended.says(&[
            "signal SIGKILL",
            "tools/call of `x` is lost: ",
            "cannot have read a byte of it, so it is safe to repeat",
        ]);
        assert!(!ended.err.contains("given up") && !ended.err.contains("replaced"), "{}", ended.err);
    }
}

#[test]
fn a_call_that_is_too_slow_is_status_6() {
    let ended = called("silent", json!({}), &["--timeout=50"], &[]).with(6);
    ended
        .says(&["tools/call of `silent`: no answer within the idle timeout of 50 ms; the tool may have done its work"]);
    // Progress is a sign of life.
    called("sleep", json!({"ms": 2000}), &["--timeout", "1500"], &[]).with(0);
    called("echo", json!({"message": "x"}), &["--timeout=never"], &[]).with(0);
    let ended = demo(&["--list", "--timeout=50"], &["--mute", "tools/list"]).run_through().with(6);
    ended.says(&["tools/list: no answer within the idle timeout of 50 ms"]);
}

#[test]
fn a_signal_cancels_a_call() {
    let dir = scratch("client-cancel");
    let record = dir.join("record");
    let arguments = json!({"every_ms": 5}).to_string();
    let options = ["--verbose", "--call=progress", "--args", &arguments];
    let run = demo(&options, &["--record", record.to_str().unwrap()]).run();
    run.err().wait("progress: 1");
    run.signal(libc::SIGINT);
    run.end().with(6).says(&["SIGINT: ending the server", "the server ended: exit code 0"]);
    let lines = fs::read_to_string(record).unwrap();
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&last["method"], &last["params"]["requestId"]), (&json!("notifications/cancelled"), &json!(1)));
    assert_eq!(last["params"]["reason"], "interrupted by the user");
}

#[test]
fn a_server_that_cannot_be_started_is_status_3_for_a_client_too() {
    let ended = start(&["--list", "no-such-mcp-server"]).with_newer_calls().run_through().with(3);
    ended.says(&["the server could not be started: command not found"]);
}

// ---- --listen --------------------------------------------------------------------------------------------------------

#[test]
fn a_stream_survives_its_server() {
    let dir = scratch("client-listen");
    let ledger = dir.join("ledger");
    let flags = ["--announce", "tools,prompts,counter", "--ledger", ledger.to_str().unwrap()];
    let run = demo(&["--verbose", "--listen", "tools,resources=mem://counter"], &flags).run();
    let first = pid_in(&run.err().wait("started"));
    assert_eq!(run.err().wait("listening"), "supervise: listening: mem://counter, tools");
    assert_eq!(run.out().wait(""), "tools/list_changed");
    assert_eq!(run.out().wait(""), "resources/updated mem://counter");
    kill(first);
    run.err().wait("the server died: signal SIGKILL");
    run.err().wait("restart 1 of 3");
    assert_ne!(pid_in(&run.err().wait("replaced")), first);
    let again = run.err().wait("listening");
    assert_eq!(again, "supervise: listening again, what happened in between is not known: mem://counter, tools");
    assert_eq!(run.out().wait(""), "tools/list_changed");
    assert_eq!(run.out().wait(""), "resources/updated mem://counter");
    run.signal(libc::SIGINT);
    let ended = run.end().with(0);
    assert_eq!(ended.out.len(), 4, "{:?}", ended.out);
    let asked = fs::read_to_string(ledger).unwrap();
    let listens: Vec<&str> = asked.lines().filter(|line| line.contains("subscriptions/listen")).collect();
    assert_eq!(listens.len(), 2, "{asked}");
    assert!(listens.iter().all(|line| line.ends_with(" 1")), "under one id: {asked}");
}

#[test]
fn a_server_that_accepts_less_is_told() {
    let run = demo(&["--listen", "tools,prompts"], &["--listen-accept", "promptsListChanged"]).run();
    let told = run.err().wait("listening");
    assert_eq!(told, "supervise: listening: prompts; the server accepts no more");
    run.signal(libc::SIGTERM);
    assert_eq!(run.end().with(0).err, told, "nothing else went wrong");
    let run = demo(&["--listen", "tools"], &["--listen-accept", "x"]).run();
    assert_eq!(run.err().wait("listening"), "supervise: listening: to nothing, the server accepts none of it");
}

#[test]
fn every_uri_and_every_list_reaches_the_server() {
    let record = scratch("client-filter").join("record");
    let what = "resources=file:///a,b,tools,resources=x:tools,y,resources,prompts,tools,resources=é\"";
    let run =
        demo(&["--listen", what, "--listen=prompts", "--speak=modern"], &["--record", record.to_str().unwrap()]).run();
    run.err().wait("listening");
    run.signal(libc::SIGINT);
    let ended = run.end().with(0);
    assert!(!ended.err.contains("no more"), "{}", ended.err);
    let lines = fs::read_to_string(record).unwrap();
    let asked: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    let expected = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["file:///a,b", "x:tools,y", "é\""]});
    assert_eq!(asked["params"]["notifications"], expected);
}

#[test]
fn notifications_are_lines_with_the_time_if_it_is_asked_for() {
    let note = |method: &str, extra: Value| {
        let mut params = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": 1}});
        params.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
    };
    let lines = [
        note("notifications/resources/updated", json!({"uri": "a:\u{1b}"})),
        note("notifications/prompts/list_changed", json!({})),
        note("vendor/x", json!({"n": 1})),
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}).to_string(),
    ]
    .join("\n");
    let script = "read -r line; printf '%s\\n' \"$1\"; cat >/dev/null";
    for timestamps in [false, true] {
        let option = if timestamps { &["--timestamps"][..] } else { &[] };
        let words =
            [option, &["--listen", "tools", "--speak=modern", "--", "/bin/sh", "-c", script, "sh", &lines]].concat();
        let run = start(&words).run();
        run.out().wait("vendor/x");
        run.signal(libc::SIGINT);
        let ended = run.end().with(0);
        let expected = [
            "resources/updated a:\\x1b",
            "prompts/list_changed",
            "vendor/x {\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":1},\"n\":1}",
        ];
        assert_eq!(ended.out.len(), 3, "what belongs to no stream is not shown: {:?}", ended.out);
        for (line, expected) in ended.out.iter().zip(expected) {
            let Some((time, rest)) = line.split_once(' ').filter(|_| timestamps) else {
                assert_eq!(line, expected);
                continue;
            };
            assert_eq!(rest, expected);
            let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
            assert_eq!(shape, "0000-00-00T00:00:00.000Z", "{line}");
        }
    }
}

#[test]
fn a_stream_that_the_server_refuses_or_ends_is_status_5() {
    let ended = demo(&["--listen=tools"], &["--listen-error", "-32601"]).run_through().with(5);
    ended.says(&["subscriptions/listen was answered with error -32601: listen is refused"]);
    let ended = scripted(&["--listen=tools"], &[answer(1, json!({}))]).run_through().with(5);
    ended.says(&["the server ended the stream"]);
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let ended = scripted(&["--listen=tools"], &[cancelled]).run_through().with(5);
    ended.says(&["subscriptions/listen: the server ended the stream"]);
}

#[test]
fn a_stream_is_given_up_with_status_4() {
    let ended =
        demo(&["--listen=tools", "--max-restarts=2"], &["--crash-on", "subscriptions/listen"]).run().end().with(4);
    ended.says(&["restart 1 of 2", "restart 2 of 2", "given up: 2 restarts"]);
    let ended = demo(&["--listen=tools", "--max-restarts=none"], &["--exit-at-start", "3"]).run().end().with(4);
    ended.says(&["died: exit code 3", "given up: restarts are switched off"]);
}

// ---- JSON ------------------------------------------------------------------------------------------------------------

#[test]
fn json_joins_requests_with_what_belongs_to_them() {
    let arguments = json!({"ms": 20}).to_string();
    let ended = demo(&["--json", "--call=sleep", "--args", &arguments], &[]).run_through().with(0);
    assert_eq!(ended.err, "");
    let events = ended.json();
    let only = |name: &str| -> Vec<&Value> { events.iter().filter(|event| event["event"] == name).collect() };
    let request = only("request")[0];
    assert_eq!((&request["request"], &request["method"]), (&json!(1), &json!("tools/call")));
    let messages = only("message");
    let shown: Vec<_> =
        messages.iter().map(|event| (event["kind"].as_str().unwrap(), event["complete"].as_bool().unwrap())).collect();
    let progress = ("notification", false);
    assert_eq!(shown, [progress, progress, progress, progress, ("result", true)]);
    assert!(messages.iter().all(|event| event["request"] == 1));
    assert_eq!(events.last().unwrap()["exit_status"], 0);

    let events = demo(&["--json", "--call=crash"], &[]).run_through().with(6).json();
    let error = events.iter().find(|event| event["event"] == "error").unwrap();
    let expected = json!({"event": "error", "status": "E_CLOSED", "peer": error["peer"], "life": 1, "text": error["text"],
        "request": 1, "complete": true, "retried": false, "unread": false, "final": false});
    assert_eq!(error, &expected);
    assert_eq!(events.last().unwrap()["exit_status"], 6);

    let events = demo(&["--json", "--list"], &[]).run_through().with(0).json();
    let methods: Vec<&Value> =
        events.iter().filter(|event| event["event"] == "request").map(|event| &event["method"]).collect();
    assert_eq!(methods, ["server/discover", "tools/list", "resources/list", "prompts/list"]);
}

#[test]
fn json_stays_json_for_a_client() {
    let ended = called(
        "raw",
        json!({"text": "Listening\n{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"roots/list\"}\n"}),
        &["--json"],
        &[],
    )
    .with(0);
    let statuses: Vec<Value> =
        ended.json().into_iter().map(|event| event["status"].clone()).filter(Value::is_string).collect();
    assert_eq!(statuses, ["E_MALFORMED", "E_PROTOCOL"]);
    let plain =
        called("raw", json!({"text": "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"roots/list\"}\n"}), &[], &[]).with(0);
    plain.says(&[
        "the server wrote what this protocol does not allow: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"roots/list\"}",
    ]);
}

// ---- The rest --------------------------------------------------------------------------------------------------------

#[test]
fn nobody_reads_what_a_client_prints() {
    let mut run = demo(&["--listen=tools"], &["--announce", "tools"]).unread().run();
    run.close_stdout();
    run.end().with(1).says(&["stdout cannot be written: Broken pipe"]);
}

#[test]
fn what_a_tool_says_does_not_command_a_terminal() {
    let arguments = json!({"message": "a\u{1b}[31mb\tc\nd\u{9b}"}).to_string();
    let run = demo(&["--call=echo", "--args", &arguments], &[]).run_at_a_terminal();
    let ended = run.end().with(0);
    ended.says(&["a\\x1b[31mb\tc", "d\\x9b"]);
}

#[test]
fn nothing_is_left_under_valgrind() {
    if std::process::Command::new("valgrind").arg("--version").output().is_err() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "valgrind is missing");
        println!("skipped: valgrind is not installed");
        return;
    }
    let lives = scratch("client-valgrind").join("lives");
    let valgrind = "exec valgrind -q --leak-check=full --errors-for-leak-kinds=all --error-exitcode=99 \"$@\"";
    let arguments = json!({"ms": 40}).to_string();
    let retry = [
        "--list",
        "--retry",
        "--delay=10",
        SERVER,
        "--lives",
        lives.to_str().unwrap(),
        "--in-life",
        "1",
        "--crash-on",
        "prompts/list",
    ];
    let cases: [(&[&str], i32); 4] = [
        (&retry, 0),
        (&["--verbose", "--call=sleep", "--args", &arguments, SERVER], 0),
        (&["--call=crash", SERVER], 6),
        (&["--listen=tools", "--max-restarts=1", SERVER, "--announce", "tools", "--crash-after-start-ms", "300"], 4),
    ];
    for (words, code) in cases {
        through_shell(valgrind, words).run_through().with(code);
    }
}
