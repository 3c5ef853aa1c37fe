//! `examples-c/supervise`, a host that people use: what it passes on, what it says, and how it ends.

#[path = "support/compiler.rs"]
mod compiler;
#[path = "support/session.rs"]
mod session;

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use compiler::scratch;
use serde_json::{Value, json};
use session::*;

fn shell<'a>(options: &[&'a str], script: &'a str, arguments: &[&'a str]) -> Start {
    start(&[options, &["--", "/bin/sh", "-c", script, "sh"], arguments].concat())
}

// ---- Lives -----------------------------------------------------------------------------------------------------------

#[test]
fn a_crash_is_told_and_the_replacement_takes_over() {
    let mut run = demo(&[], &["--stderr-at-start", "listening"]).run();
    let first = pid_in(&run.err().wait("supervise: started "));
    assert_eq!(run.call("a", "pid", json!({})), first.to_string());
    run.err().wait("[server] listening");
    run.send(call("b", "crash", json!({})));
    let died = run.err().wait("the server died: ");
    assert!(died.starts_with("supervise: the server died: exit code 13, after "), "{died}");
    assert_eq!(pid_in(&died), first);
    run.err().wait("its last line on stderr:");
    run.err().wait("  | listening");
    assert_eq!(run.err().wait("restart"), "supervise: restart 1 of 3 in 10 ms");
    let second = pid_in(&run.err().wait("supervise: replaced "));
    assert_ne!(second, first);
    assert_eq!(run.call("c", "pid", json!({})), second.to_string());
    run.end_input();
    let ended = run.end().with(0);
    ended.says(&["end of input: ending the server (SIGTERM after 6 s, SIGKILL after 2 s more)", "exit code 0, after"]);
    assert_eq!(ended.out.len(), 2, "{:?}", ended.out);
}

#[test]
fn a_signal_is_told_by_its_name() {
    let mut run = demo(&["--max-restarts=unlimited"], &[]).run();
    for (at, (number, name)) in [(9, "SIGKILL"), (10, "SIGUSR1"), (15, "SIGTERM"), (40, "40")].into_iter().enumerate() {
        run.send(call(&at.to_string(), "crash", json!({"signal": number})));
        let died = run.err().wait("the server died: ");
        assert!(died.contains(&format!("died: signal {name}, after ")), "{died}");
        assert_eq!(run.err().wait("restart"), format!("supervise: restart {} in 10 ms", at + 1));
    }
    run.err().wait("replaced");
    run.end_input();
    run.end().with(0);
}

#[test]
fn a_crash_loop_is_given_up_with_status_4() {
    let run = demo(&["--max-restarts", "2"], &["--exit-at-start", "3", "--stderr-at-start", "no database"]).run();
    let ended = run.end().with(4);
    let life = ["[server] no database", "died: exit code 3", "last line on stderr:", "  | no database"];
    let rest: [&[&str]; 5] = [&life, &["restart 1 of 2", "replaced"], &life, &["restart 2 of 2", "replaced"], &life];
    ended.says(&rest.concat());
    let last = ended.err.lines().last().unwrap();
    assert_eq!(last, "supervise: given up: 2 restarts in 1 min were not enough");
    assert_eq!(ended.err.matches("the server died").count(), 3);
    assert_eq!(ended.out.len(), 0);
}

#[test]
fn without_restarts_the_first_death_is_the_end_even_a_good_exit() {
    let ended = shell(&["--max-restarts", "none"], "exit 0", &[]).run().end().with(4);
    ended.says(&["died: exit code 0", "given up: restarts are switched off"]);
    assert!(!ended.err.contains("restart 1"), "{}", ended.err);
}

#[test]
fn a_replacement_that_cannot_be_started_is_told_and_tried_again() {
    let dir = scratch("supervise-gone");
    let script = dir.join("server");
    fs::write(&script, "#!/bin/sh\nrm \"$0\"\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let run = start(&["--delay=10", "--max-restarts=2", script.to_str().unwrap()]).run();
    let ended = run.end().with(4);
    let failed = "the replacement could not be started: command not found: ";
    ended.says(&["died: exit code 0", "restart 1 of 2", failed, "; restart 2 of 2 in 10 ms", failed, "given up"]);
    assert_eq!(ended.err.matches("given up").count(), 1);
}

#[test]
fn only_the_last_lines_of_stderr_are_told_again() {
    let run = demo(&[], &["--stderr-bytes-at-start", "800"]).run();
    run.send(call("a", "stderr", json!({"lines": 7})));
    run.send(call("b", "crash", json!({})));
    run.err().wait("its last lines on stderr:");
    for number in 3..=7 {
        assert_eq!(run.err().wait("supervise:"), format!("supervise:   | stderr line {number}"));
    }
    run.err().wait("restart 1");
}

// ---- Not started -----------------------------------------------------------------------------------------------------

#[test]
fn a_server_that_cannot_be_started_is_status_3() {
    let dir = scratch("supervise-not-started");
    let file = dir.join("data");
    fs::write(&file, "no program").unwrap();
    let (dir, file) = (dir.to_str().unwrap(), file.to_str().unwrap());
    let missing = format!("{dir}/missing");
    let cases: [(&[&str], String); 5] = [
        (&["no-such-mcp-server"], "command not found: no-such-mcp-server".into()),
        (&[&missing], format!("command not found: {missing}")),
        (&[file], format!("not executable: {file}")),
        (&["--cwd", &missing, "true"], format!("working directory missing: {missing}")),
        (&["--cwd", file, "true"], format!("working directory is not a directory: {file}")),
    ];
    for (arguments, text) in cases {
        let ended = start(arguments).with_newer_calls().run_through().with(3);
        assert!(ended.err.starts_with("supervise: the server could not be started: "), "{}", ended.err);
        assert!(ended.err.contains(&text), "{text}: {}", ended.err);
        assert_eq!((ended.err.lines().count(), ended.out.len()), (1, 0), "{}", ended.err);
    }
    let ended = start(&["--json", "--cwd", &missing, "true"]).with_newer_calls().run_through().with(3);
    let events = ended.json();
    assert_eq!((&events[0]["event"], &events[0]["status"]), (&json!("error"), &json!("E_SPAWN")));
    assert!(events[0]["text"].as_str().unwrap().contains(&missing));
    assert_eq!(events[1], json!({"event": "end", "exit_status": 3, "unsent_lines": 0}));
    assert_eq!(ended.err, "");
}

#[test]
fn mistakes_in_the_command_line_are_named_and_status_2() {
    let cases: &[(&[&str], &str)] = &[
        (&[], "no program was given"),
        (&["--"], "no program was given"),
        (&["--json"], "no program was given"),
        (&["--bogus", "true"], "unknown option --bogus"),
        (&["--bogus=1", "true"], "unknown option --bogus"),
        (&["-j", "true"], "unknown option -j"),
        (&["--json=yes", "true"], "--json takes no value"),
        (&["--help=yes", "true"], "--help takes no value"),
        (&["--delay"], "--delay needs a value"),
        (&["--delay", "", "true"], "--delay: the value is empty, it must be a number of milliseconds"),
        (&["--delay=", "true"], "--delay: the value is empty"),
        (&["--delay", "1s", "true"], "--delay: `1s` is no number of milliseconds"),
        (&["--delay", "-1", "true"], "--delay: `-1` is no number"),
        (&["--delay", " 1", "true"], "--delay: ` 1` is no number"),
        (&["--delay", "0x10", "true"], "--delay: `0x10` is no number"),
        (&["--delay", "18446744073709551615", "true"], "--delay: 18446744073709551615 is too large"),
        (&["--delay", "99999999999999999999", "true"], "--delay: 99999999999999999999 is too large"),
        (&["--window", "0", "true"], "--window: 0 is too small"),
        (&["--max-restarts", "0", "true"], "--max-restarts: for no restarts say `none`"),
        (&["--max-restarts", "4294967294", "true"], "--max-restarts: 4294967294 is too large"),
        (
            &["--max-restarts", "many", "true"],
            "--max-restarts: `many` is no number of restarts, nor `unlimited` or `none`",
        ),
        (&["--delay", "20000", "true"], "--max-restarts times --delay is not less than --window"),
        (&["--close-grace", "soon", "true"], "--close-grace: `soon` is no number"),
        (&["--kill-grace", "1.5", "true"], "--kill-grace: `1.5` is no number"),
        (&["--max-queue", "1", "true"], "--max-queue: 1 is too small"),
        (&["--max-queue", "1073741825", "true"], "--max-queue: 1073741825 is too large"),
        (&["--stderr", "file", "true"], "--stderr: `file` is none of log, inherit and null"),
        (&["--env-mode", "some", "true"], "--env-mode: `some` is none of safe, inherit and empty"),
        (&["--env", "secret", "true"], "--env: the value is not NAME=VALUE"),
        (&["--env", "=secret", "true"], "--env: the value is not NAME=VALUE"),
        (&["--cwd=", "true"], "--cwd: the value is empty"),
        (&[""], "the program's name is empty"),
    ];
    for (arguments, text) in cases {
        let ended = start(arguments).run_through().with(2);
        assert!(ended.err.starts_with(&format!("supervise: {text}")), "{arguments:?}: {}", ended.err);
        assert!(ended.err.ends_with("Try `supervise --help`."), "{arguments:?}: {}", ended.err);
        assert!(!ended.err.contains("secret") && ended.out.is_empty(), "{arguments:?}: {}", ended.err);
    }
}

#[test]
fn what_the_limits_allow_is_accepted() {
    for options in [
        &["--delay", "19999"][..],
        &["--delay=20000", "--window=60001"],
        &["--delay=20000", "--max-restarts=2"],
        &["--delay=20000", "--max-restarts=none"],
        &["--delay=18446744073709551614", "--max-restarts=unlimited"],
        &["--close-grace=never", "--kill-grace", "never", "--max-queue=1073741824"],
    ] {
        start(&[options, &["--", SERVER]].concat()).run_through().with(0);
    }
}

#[test]
fn help_and_version_are_answers() {
    let help = start(&["--help"]).run_through().with(0);
    assert_eq!(help.err, "");
    let text = help.out.join("\n");
    for word in ["Usage: supervise", "--max-restarts N", "--env NAME=VALUE", "Exit status", "Example", "(default 6000"]
    {
        assert!(text.contains(word), "{word} is missing in:\n{text}");
    }
    let version = start(&["--version", "never", "run"]).run_through().with(0);
    assert_eq!(version.out, [format!("supervise (libmcp_supervised {})", env!("CARGO_PKG_VERSION"))]);
}

// ---- What the server gets --------------------------------------------------------------------------------------------

#[test]
fn environment_directory_and_arguments_reach_the_server() {
    let dir = scratch("supervise-cwd").canonicalize().unwrap();
    let cwd = format!("--cwd={}", dir.display());
    let options = ["--env", "A=1=2", "--env=B=", "--env-mode", "empty", &cwd];
    let run = demo(&options, &["--", "--json", ""]).with_newer_calls().run();
    let env: Value = serde_json::from_str(&run.call("a", "env", json!({}))).unwrap();
    assert_eq!(env, json!({"A": "1=2", "B": ""}));
    assert_eq!(run.call("b", "cwd", json!({})), dir.to_str().unwrap());
    let args: Vec<String> = serde_json::from_str(&run.call("c", "args", json!({}))).unwrap();
    assert_eq!(args, [SERVER, "--", "--json", ""]);

    let run = demo(&[], &[]).env("SUPERVISE_TEST_SECRET", "x").run();
    assert_eq!(run.call("a", "env", json!({"name": "SUPERVISE_TEST_SECRET"})), "null");
    let run = demo(&["--env-mode=inherit"], &[]).env("SUPERVISE_TEST_SECRET", "x").run();
    assert_eq!(run.call("a", "env", json!({"name": "SUPERVISE_TEST_SECRET"})), "\"x\"");
    let fds: HashMap<String, String> = serde_json::from_str(&run.call("b", "fds", json!({}))).unwrap();
    let signals: Value = serde_json::from_str(&run.call("c", "signals", json!({}))).unwrap();
    assert!(["0", "1", "2"].iter().all(|fd| fds[*fd].starts_with("pipe:")), "{fds:?}");
    assert_eq!(signals["ignored_at_start"], "0000000000000000", "SIGPIPE is ours to ignore, not the server's");
}

#[test]
fn stderr_goes_where_it_was_asked_to_go() {
    let flags = ["--stderr-at-start", "hello"];
    for (mode, line) in [("log", "[server] hello"), ("inherit", "hello"), ("null", "")] {
        let ended = demo(&["--stderr", mode], &flags).run_through().with(0);
        assert_eq!(ended.err.lines().filter(|line| line.contains("hello")).collect::<String>(), line);
    }
}

#[test]
fn the_librarys_own_lines_come_with_verbose() {
    for (options, times) in [(&["--max-restarts=none"][..], 0), (&["--verbose", "--max-restarts=none"], 1)] {
        let ended = shell(options, "exit 5", &[]).run().end().with(4);
        assert_eq!(ended.err.matches("[library] connection 1 lost (exit code 5)").count(), times, "{}", ended.err);
    }
}

// ---- Lines -----------------------------------------------------------------------------------------------------------

#[test]
fn lines_pass_byte_for_byte() {
    // Spaces, escapes, numbers, keys twice, a line without its end: nothing is made prettier on the way.
    let odd = r#"{ "jsonrpc" : "2.0","method":"\u0078","params":{"n":1.0e+2,"n":10000000000000000000000,"s":"\/é "}}"#;
    let run = shell(&[], "head -n 2", &[]).run();
    run.write(format!("  {odd}\r\n[{odd}]\n"));
    assert_eq!(run.out().wait("{"), odd);
    assert_eq!(run.out().wait("["), format!("[{odd}]"));

    let dir = scratch("supervise-bytes");
    let record = dir.join("record");
    let mut run = demo(&[], &["--record", record.to_str().unwrap()]).run();
    run.write(odd);
    run.end_input();
    run.end().with(0);
    assert_eq!(fs::read_to_string(record).unwrap(), format!("{odd}\n"));
}

#[test]
fn a_line_of_a_mebibyte_passes_both_ways() {
    let mut run = demo(&[], &[]).run();
    let message = "x\\\"é".repeat(1 << 18);
    assert_eq!(run.call("a", "echo", json!({"message": message})), message);
    run.send(call("b", "exact_line", json!({"bytes": 3 << 20})));
    assert_eq!(run.out().wait("\"b\"").len(), 3 << 20);
    run.end_input();
    run.end().with(0);
}

#[test]
fn lines_that_cannot_be_sent_are_named_and_left_out() {
    let mut run = demo(&["--max-queue=70000"], &[]).run();
    let long = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{}\"}}", "x".repeat(200_000));
    let lines =
        ["nonsense", "", " \t", &call("a", "pid", json!({})), "{\"a\":1}", &long, &long[..100_000], "{\"jsonrpc\""];
    run.write(lines.join("\n") + "\n");
    run.out().wait("\"a\"");
    run.write("more nonsense, without an end");
    run.end_input();
    let ended = run.end().with(0);
    let told: Vec<&str> = ended.err.lines().filter(|line| line.contains("left out")).collect();
    assert_eq!(told.len(), 6, "{}", ended.err);
    assert!(told[0].starts_with("supervise: line 1 of the input is left out: the line is not JSON: "), "{}", told[0]);
    assert!(told[1].starts_with("supervise: line 5 of the input is left out: the line is refused: "), "{}", told[1]);
    assert!(told[2].starts_with("supervise: line 6 of the input is left out: "), "{}", told[2]);
    assert!(told[3].starts_with("supervise: line 7 of the input is left out: "), "{}", told[3]);
    assert!(told[4].starts_with("supervise: line 8 of the input is left out: the line is not JSON: "), "{}", told[4]);
    assert!(told[5].starts_with("supervise: line 9 of the input is left out: "), "{}", told[5]);
    assert_eq!(ended.out.len(), 1);
}

#[test]
fn lines_for_a_server_that_is_down_wait_for_its_replacement() {
    let dir = scratch("supervise-down");
    let ledger = dir.join("ledger");
    let mut run = demo(&["--delay=300"], &["--ledger", ledger.to_str().unwrap()]).run();
    let first = pid_in(&run.err().wait("started"));
    run.send(call("crash", "crash", json!({})));
    run.err().wait("restart 1 of 3 in 300 ms");
    let ids: Vec<String> = (0..500).map(|number| format!("n{number}")).collect();
    for id in &ids {
        run.send(call(id, "echo", json!({"message": "x".repeat(500)})));
    }
    // The end of the input waits its turn as well.
    run.end_input();
    let ended = run.end().with(0);
    let answered: Vec<String> = ended.json().iter().map(|answer| answer["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(answered, ids, "each is answered once, in order");
    let second = pid_in(ended.err.lines().find(|line| line.contains("replaced")).unwrap());
    let received: Vec<String> = fs::read_to_string(ledger).unwrap().lines().map(str::to_owned).collect();
    let expected = ids.iter().map(|id| format!("{second} tools/call \"{id}\""));
    let expected: Vec<String> = [format!("{first} tools/call \"crash\"")].into_iter().chain(expected).collect();
    assert_eq!(received, expected);
    assert!(!ended.err.contains("cannot have read"), "{}", ended.err);
}

#[test]
fn lines_that_a_dead_server_cannot_have_read_are_counted() {
    let dir = scratch("supervise-unread");
    let note = |name: &str| format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{name}\"}}");
    // The shell's `read` takes no byte beyond its line. It then waits for the test to open the fifo.
    let script = "read a; echo \"$a\"; : <\"$1\"; kill -9 $$";
    for (at, (json, more)) in [(false, 3), (true, 3), (false, 1)].into_iter().enumerate() {
        let fifo = dir.join(at.to_string());
        make_fifo(&fifo);
        let options = if json { &["--max-restarts=none", "--json"][..] } else { &["--max-restarts=none"] };
        let run = shell(options, script, &[fifo.to_str().unwrap()]).run();
        let mut input = format!("\n{}\n\nnonsense\n", note("first"));
        (0..more).for_each(|number| input += &(note(&number.to_string()) + "\n"));
        run.write(input);
        run.out().wait("first");
        fs::write(&fifo, "").unwrap();
        let ended = run.end().with(4);
        if json {
            let events = ended.json();
            let close = events.iter().find(|event| event["event"] == "close").unwrap();
            assert_eq!((&close["unread_lines"], &close["unread_from_line"]), (&json!(3), &json!(5)));
            assert_eq!((&close["exit_code"], &close["signal"]), (&json!(null), &json!("SIGKILL")));
            continue;
        }
        ended.says(&[
            "line 4 of the input is left out",
            "died: signal SIGKILL",
            match more {
                1 => "it cannot have read line 5 of the input, which was sent to it and is not sent again",
                _ => {
                    "it cannot have read the last 3 lines sent to it, which begin with line 5 of the input and are not \
                     sent again"
                }
            },
            "given up",
        ]);
    }
}

#[test]
fn a_server_that_does_not_read_stops_the_input() {
    let mut run = demo(&["--json", "--max-queue=65536"], &["--delay-start", "200"]).run();
    let ids: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    for id in &ids {
        run.send(call(id, "echo", json!({"message": "x".repeat(8000)})));
    }
    run.end_input();
    let events = run.end().with(0).json();
    let answers = events.iter().filter(|event| event["event"] == "message").map(|event| &event["line"]["id"]);
    assert_eq!(answers.collect::<Vec<_>>(), ids.iter().collect::<Vec<_>>());
    assert!(events.iter().any(|event| event["event"] == "writable"), "it had to wait");
}

#[test]
fn a_server_that_logs_on_stdout_is_told_on() {
    let mut run = demo(&[], &[]).run();
    run.send(call("a", "garbage", json!({})));
    run.out().wait("\"a\"");
    run.end_input();
    let ended = run.end().with(0);
    ended.says(&[
        "supervise: not passed on, the server wrote no message: not JSON: ",
        ": Server started v1.2\n",
        ": [db] Connected to x\n",
        ": \\x1b[32mINFO\\x1b[0m ready\n",
        "not a JSON-RPC message",
    ]);
    // One of its lines is JSON that a message may be: an array.
    assert_eq!(ended.out.len(), 2, "{:?}", ended.out);
    assert_eq!(ended.out[0], "[]");
    assert!(!ended.err.contains('\x1b'));
}

// ---- The end ---------------------------------------------------------------------------------------------------------

#[test]
fn at_the_end_of_input_answers_that_are_owed_are_printed() {
    let mut run = demo(&[], &["--finish"]).run();
    run.send(call("a", "sleep", json!({"ms": 200})));
    run.write(call("b", "echo", json!({"message": "no line feed behind this"})));
    run.end_input();
    let ended = run.end().with(0);
    let answers = ended.json();
    assert_eq!((&answers[0]["id"], &answers[1]["id"]), (&json!("b"), &json!("a")));
    ended.says(&["end of input: ending the server", "the server ended: exit code 0"]);
}

#[test]
fn a_crash_on_the_way_out_is_told() {
    let mut run = demo(&["--stderr=log"], &["--stderr-at-start", "cache is broken"]).run();
    run.err().wait("[server] cache");
    run.send(call("a", "crash", json!({"code": 7})));
    run.end_input();
    let ended = run.end();
    // It may have died before the input was seen to end.
    if ended.err.contains("died") {
        return;
    }
    ended.with(0).says(&["the server ended: exit code 7", "its last line on stderr:", "| cache is broken"]);
}

#[test]
fn signals_end_it_cleanly() {
    for (number, name) in [(libc::SIGTERM, "SIGTERM"), (libc::SIGINT, "SIGINT"), (libc::SIGHUP, "SIGHUP")] {
        let run = demo(&[], &[]).run();
        let pid = pid_in(&run.err().wait("started"));
        run.call("a", "echo", json!({"message": "ready"}));
        run.signal(number);
        let ended = run.end().with(0);
        ended.says(&[&format!("supervise: {name}: ending the server"), "the server ended: exit code 0"]);
        wait_gone(pid);
    }
}

#[test]
fn a_server_that_ignores_sigterm_is_killed_after_its_graces() {
    let run = demo(&["--close-grace=50", "--kill-grace=50"], &["--ignore-sigterm", "--ignore-eof"]).run();
    run.call("a", "echo", json!({"message": "ready"}));
    run.signal(libc::SIGINT);
    let ended = run.end().with(0);
    ended.says(&[
        "SIGINT: ending the server (SIGTERM after 50 ms, SIGKILL after 50 ms more)",
        "the server ended: signal SIGKILL",
    ]);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let options = ["--close-grace=never", "--kill-grace=never"];
    let run = demo(&options, &["--ignore-sigterm", "--ignore-eof"]).run();
    let pid = pid_in(&run.err().wait("started"));
    run.call("a", "echo", json!({"message": "ready"}));
    run.signal(libc::SIGTERM);
    run.err().wait("SIGTERM: ending the server (no SIGTERM, no SIGKILL)");
    run.signal(libc::SIGINT);
    run.end().with(1).says(&["second signal: the server is killed"]);
    wait_gone(pid);
}

#[test]
fn a_signal_while_the_server_is_down_withdraws_the_replacement() {
    let run = demo(&["--delay=50000", "--max-restarts=1"], &["--exit-at-start", "0"]).run();
    run.err().wait("restart 1 of 1 in 50 s");
    run.write(format!("{}\n\n[]\nhalf a li", call("a", "pid", json!({}))));
    run.wait_until_input_is_read();
    run.signal(libc::SIGTERM);
    let ended = run.end().with(0);
    ended.says(&[
        "SIGTERM: ending the server",
        "no replacement is started any more",
        "2 lines of the input were not sent",
    ]);
}

#[test]
fn nobody_reads_stdout_any_more() {
    // With something to write, and with nothing.
    for says_something in [true, false] {
        let mut run = demo(&[], &[]).unread().run();
        let pid = pid_in(&run.err().wait("started"));
        run.close_stdout();
        if says_something {
            run.send(call("a", "echo", json!({"message": "to nobody"})));
        }
        run.end().with(1).says(&["stdout cannot be written: Broken pipe", "nobody reads stdout: ending the server"]);
        wait_gone(pid);
    }
}

#[test]
fn a_slow_reader_of_stdout_gets_everything() {
    let mut run = demo(&[], &[]).unread().run();
    run.send(call("a", "flood", json!({"count": 20_000, "size": 1000})));
    run.wait_until_stdout_is_full();
    run.listen();
    run.out().wait("\"id\":\"a\"");
    run.end_input();
    let ended = run.end().with(0);
    assert_eq!(ended.out.len(), 20_001);
    let numbers = ended.json();
    let told = |at: usize| numbers[at]["params"]["data"]["n"].as_u64();
    assert!((1..20_000).all(|at| told(at).is_none() || told(at) > told(at - 1)), "in order");
}

#[test]
fn a_signal_ends_it_although_stdout_takes_nothing() {
    let run = demo(&["--close-grace=100", "--kill-grace=100"], &["--ignore-eof"]).unread().run();
    let pid = pid_in(&run.err().wait("started"));
    run.send(call("a", "flood", json!({"count": 100_000, "size": 1000})));
    run.wait_until_stdout_is_full();
    run.signal(libc::SIGTERM);
    run.err().wait("SIGTERM: ending the server");
    run.end().with(1).says(&["stdout takes nothing: the rest of the output is dropped"]);
    wait_gone(pid);
}

#[test]
fn a_signal_ends_it_although_nobody_reads_stderr() {
    // The pipe holds less than what this server says.
    let arguments = ["--close-grace=100", "--kill-grace=100", SERVER, "--stderr-bytes-at-start", "500000"];
    let script = "\"$@\" 2>\"$FIFO\" & exec 3<\"$FIFO\"; read line <&3; kill -TERM $!; wait $!";
    let fifo = scratch("supervise-stderr").join("fifo");
    make_fifo(&fifo);
    through_shell(script, &arguments).env("FIFO", fifo.to_str().unwrap()).run_through().with(0);
}

#[test]
fn closed_standard_descriptors_are_no_trap() {
    // Without --json there is nothing to write here, and so nothing wrong.
    for (close, option, code) in [
        ("<&-", "--json", 0),
        (">&-", "--stderr=log", 0),
        (">&-", "--json", 1),
        ("2>&-", "--json", 0),
        ("<&- >&- 2>&-", "--json", 1),
    ] {
        through_shell(&format!("exec \"$@\" {close}"), &[option, "--", SERVER]).run_through().with(code);
    }
}

// ---- Terminals -------------------------------------------------------------------------------------------------------

#[test]
fn colour_is_for_terminals_only_and_not_for_those_who_do_without() {
    let coloured = |start: Start| {
        let mut run = start.run_with_stderr_at_a_terminal();
        run.end_input();
        run.end().with(0).err.contains('\x1b')
    };
    let flags = ["--stderr-at-start", "hello"];
    assert!(coloured(demo(&[], &flags)));
    assert!(coloured(demo(&[], &flags).env("NO_COLOR", "")), "empty counts as not set");
    assert!(!coloured(demo(&[], &flags).env("NO_COLOR", "1")));
    assert!(!coloured(demo(&[], &flags).env("TERM", "dumb")));
    assert!(!coloured(demo(&[], &flags).env("TERM", "")));
    let ended = demo(&[], &flags).run_through().with(0);
    assert!(!ended.err.contains('\x1b'), "a pipe gets none");
    let mut run = demo(&[], &["--exit-at-start", "3"]).run_with_stderr_at_a_terminal();
    run.err().wait("\x1b[32msupervise: started ");
    run.err().wait("\x1b[31msupervise: the server died: exit code 3, ");
    run.err().wait("\x1b[33msupervise: restart 1 of 3 in 10 ms\x1b[0m");
    run.err().wait("\x1b[31msupervise: given up: ");
    run.end_input();
    run.end().with(4);
}

#[test]
fn at_a_terminal_control_c_ends_it_and_the_server_gets_its_time() {
    let run = demo(&[], &[]).env("NO_COLOR", "1").run_at_a_terminal();
    let pid = pid_in(&run.err().wait("started"));
    run.send(call("a", "echo", json!({"message": "typed"})));
    run.err().wait("\"text\":\"typed\"");
    run.write("\x03");
    let ended = run.end().with(0);
    // A server that got the terminal's signal itself would have died of it.
    ended.says(&["SIGINT: ending the server", "the server ended: exit code 0"]);
    wait_gone(pid);
}

#[test]
fn at_a_terminal_control_d_ends_the_input() {
    let run = demo(&[], &[]).env("NO_COLOR", "1").run_at_a_terminal();
    run.err().wait("started");
    run.write("\x04");
    run.end().with(0).says(&["end of input: ending the server", "the server ended: exit code 0"]);
}

// ---- JSON ------------------------------------------------------------------------------------------------------------

#[test]
fn json_carries_everything() {
    let mut run = demo(&["--json"], &["--stderr-at-start", "tab\there \"quoted\" \\ bell\x07"]).run();
    run.send("nonsense");
    run.send(call("a", "echo", json!({"message": "hi"})));
    run.out().wait("\"id\":\"a\"");
    run.send(call(
        "b",
        "raw",
        json!({"text": "Listening\n{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"roots/list\"}\n"}),
    ));
    run.out().wait("\"id\":\"b\"");
    run.send(call("c", "error", json!({"code": -32001})));
    run.out().wait("\"id\":\"c\"");
    run.send(call("d", "crash", json!({})));
    run.out().wait("\"event\":\"reconnect\"");
    run.end_input();
    let ended = run.end().with(0);
    assert_eq!(ended.err, "", "the words on stderr are off");
    let events = ended.json();
    let only = |name: &str| -> Vec<&Value> { events.iter().filter(|event| event["event"] == name).collect() };

    let started = only("started")[0];
    let peer = &started["peer"];
    assert!(peer.as_u64().unwrap() > 0 && started["pid"].as_i64().unwrap() > 1 && started["life"] == 1);
    let refused = only("refused")[0];
    assert_eq!((&refused["input_line"], &refused["status"]), (&json!(1), &json!("E_INVALID")));
    let messages = only("message");
    let kinds: Vec<&Value> = messages.iter().map(|message| &message["kind"]).collect();
    assert_eq!(kinds, ["result", "request", "result", "error"]);
    assert_eq!(messages[0]["line"]["result"]["content"][0]["text"], "hi");
    assert_eq!(messages[1]["line"], json!({"jsonrpc": "2.0", "id": 7, "method": "roots/list"}));
    assert!(messages.iter().all(|message| message["peer"] == *peer && message["life"] == 1));
    let error = only("error")[0];
    assert_eq!(error["status"], "E_MALFORMED");
    assert!(error["text"].as_str().unwrap().contains("Listening"));
    let text = "tab\\x09here \"quoted\" \\ bell\\x07";
    let log = only("log");
    assert!(log.iter().any(|log| log["level"] == "server" && log["text"] == text), "{log:?}");
    assert!(log.iter().any(|log| log["level"] == "warning"), "{log:?}");
    assert_eq!(only("drain").len(), 2);

    let close = only("close");
    let [lost, last] = close[..] else { panic!("{close:?}") };
    let expected = json!({"event": "close", "reason": "peer_lost", "peer": peer, "life": 1, "pid": started["pid"],
        "exit_code": 13, "signal": null, "exit_unknown": false, "uptime_ms": lost["uptime_ms"], "will_reconnect": true,
        "attempt": 1, "max_restarts": 3, "delay_ms": 10, "unread_lines": 0, "unread_from_line": 0, "stderr": text,
        "final": false});
    assert_eq!(lost, &expected);
    let reconnect = only("reconnect")[0];
    assert_eq!((&reconnect["life"], &reconnect["attempt"]), (&json!(2), &json!(1)));
    assert_eq!(only("closing")[0]["why"], "end of input");
    assert_eq!((&last["reason"], &last["final"]), (&json!("closed_by_host"), &json!(true)));
    assert_eq!(last["pid"], reconnect["pid"]);
    assert_eq!(events.last().unwrap(), &json!({"event": "end", "exit_status": 0, "unsent_lines": 0}));
}

#[test]
fn json_tells_the_end_of_the_budget() {
    let ended = demo(&["--json", "--max-restarts=1"], &["--exit-at-start", "3"]).run().end().with(4);
    let events = ended.json();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    let names: Vec<&str> = names.into_iter().filter(|name| *name != "log").collect();
    assert_eq!(names, ["started", "drain", "close", "reconnect", "drain", "close", "exhausted", "end"]);
    let exhausted = events.iter().find(|event| event["event"] == "exhausted").unwrap();
    assert_eq!((&exhausted["max_restarts"], &exhausted["final"]), (&json!(1), &json!(true)));
    assert_eq!(events.last().unwrap()["exit_status"], 4);
}

#[test]
fn json_stays_json_whatever_the_server_writes() {
    // Of a line this long the library does not look at every literal, unless it is told to.
    let dir = scratch("supervise-json");
    let lines = dir.join("lines");
    let wrong = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":[tru,\"{}\"]}}", "x".repeat(100_000));
    fs::write(&lines, format!("{wrong}\n")).unwrap();
    let flags = ["--raw-lines", lines.to_str().unwrap()];
    let events = demo(&["--json"], &flags).run_through().with(0).json();
    assert!(events.iter().any(|event| event["status"] == "E_MALFORMED"), "{events:?}");
    let plain = demo(&[], &flags).run_through().with(0);
    assert_eq!(plain.out, [wrong], "without --json it passes as it is");
}

// ---- The manual ------------------------------------------------------------------------------------------------------

#[test]
fn the_manual_shows_what_it_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("/bin/sh")
        .arg(root.join("docs/capture-supervise"))
        .arg("--print")
        .env("SUPERVISE", supervise())
        .env("DEMO_SERVER", SERVER)
        // Without the newer calls a working directory is refused, for another reason than the one that is shown.
        .env_remove("MCP_SUPERVISED_WITHOUT")
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{err}", output.status);
    let manual = fs::read_to_string(root.join("docs/supervise.md")).unwrap();
    assert!(out == manual, "docs/supervise.md is out of date: run docs/capture-supervise. It would be:\n{out}");
}

fn make_fifo(path: &Path) {
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a NUL-terminated name.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
}
