//! What stands on the wire, with servers that write it well and badly (W1 to W4), and which lines were read (R11, L19).

mod support;

use serde_json::json;
use support::*;

const MALFORMED: i32 = MCP_SUPERVISED_E_MALFORMED as i32;
const TOO_LARGE: i32 = MCP_SUPERVISED_E_FRAME_TOO_LARGE as i32;

/// A server that writes these bytes first of all.
fn saying(scratch: &Scratch, bytes: &[u8]) -> Spec {
    Spec::demo(&["--raw-lines", &scratch.data("bytes", bytes)])
}

fn note(text: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"note","params":{{"text":"{text}"}}}}"#)
}

#[test]
fn w01_line_ends_blank_lines_and_a_bom() {
    let scratch = Scratch::new();
    let bytes = format!(
        "\u{feff}{}\r\n\n\r\n  \t \n\r\r\n{}\n{}\r\r\n   {}  \n{}",
        note("a"),
        note("b"),
        note("c"),
        note("d"),
        "\n".repeat(10_000)
    );
    let mut host = Host::new();
    let peer = host.launch(&saying(&scratch, bytes.as_bytes()));
    host.call(peer, "end", "pid", json!({}));
    host.answer("end");
    assert_eq!(letters(&host.seen), "M M M M M", "nothing else, not even a log line");
    assert_eq!(host.seen.len(), 5);
    let payloads: Vec<String> = host.seen[..4].iter().map(Event::text).collect();
    assert_eq!(payloads[..3], [note("a"), note("b"), note("c")]);
    assert_eq!(payloads[3].trim(), note("d"));
}

#[test]
fn w01_a_server_that_ends_its_lines_with_cr_lf() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&["--crlf"]));
    for n in 0..50 {
        host.call(peer, &n.to_string(), "echo", json!({"message": "x".repeat(n)}));
        let answer = host.answer(&n.to_string());
        assert_eq!(answer.tool_text().len(), n);
        assert_eq!(answer.payload.last(), Some(&b'}'));
    }
    host.call(peer, "blank", "blank", json!({"rounds": 100}));
    host.answer("blank");
    assert_eq!(host.seen.len(), 51);
}

/// CR and LF of one line, and any other two bytes, may come in different reads.
#[test]
fn w01_an_answer_that_comes_byte_by_byte() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&["--crlf"]));
    host.call(peer, "slow", "slow", json!({"chunk": 1, "ms": 0}));
    assert_eq!(host.answer("slow").tool_text(), "slow");
    for at in 1..40 {
        let id = format!("split-{at}");
        host.call(peer, &id, "split", json!({"at": at, "ms": 1}));
        assert_eq!(host.answer(&id).tool_text(), "split");
    }
    assert_eq!(host.seen.len(), 40);
}

#[test]
fn w02_odd_lines_are_one_error_each_and_nothing_else() {
    for (mode, odd, extra) in [(MCP_SUPERVISED_MODE_MODERN, 14, ""), (MCP_SUPERVISED_MODE_RAW, 13, " M")] {
        let mut host = Host::new();
        let peer = host.launch(&Spec::demo(&[]).mode(mode).restart(3, 60_000, 600_000));
        let pid = host.pid(peer);
        host.call(peer, "before", "echo", json!({"message": "x"}));
        host.call(peer, "odd", "garbage", json!({}));
        host.call(peer, "after", "echo", json!({"message": "x"}));
        host.answer("after");
        // In raw mode an array is a message of its own kind.
        assert_eq!(letters(&host.seen), format!("M{}{extra} M M", " E".repeat(odd)), "{mode:?}");
        let errors: Vec<&Event> = host.seen.iter().filter(|e| e.letter() == "E").collect();
        for error in &errors {
            assert_eq!((error.status, error.life), (MALFORMED, 1));
            assert!(error.payload.len() < 500, "{}", error.text());
        }
        let text: String = errors.iter().map(|e| e.text() + "\n").collect();
        for excerpt in
            ["Server started v1.2", "\\x1b[32mINFO", "{not json", "\\xff\\xfe{", "caf\\xe9!", "\"status\":200"]
        {
            assert!(text.contains(excerpt), "{excerpt} in {text}");
        }
        assert_eq!(host.pid(peer), pid);
        kill9(pid);
        assert_eq!(host.next(MCP_SUPERVISED_EVENT_CLOSE).attempt, 1, "no budget was spent");
    }
}

#[test]
fn w02_a_long_odd_line_is_shown_in_part() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]));
    host.call(peer, "long", "long_line", json!({"bytes": 1_000_000, "newline": true}));
    host.answer("long");
    assert_eq!(letters(&host.seen), "E M");
    assert!(host.seen[0].text().contains("xxxx") && host.seen[0].payload.len() < 500);
}

/// Nothing is written back for any of it.
#[test]
fn w02_nothing_is_written_back() {
    let scratch = Scratch::new();
    let record = scratch.name("record");
    for mode in [MCP_SUPERVISED_MODE_MODERN, MCP_SUPERVISED_MODE_RAW] {
        let _ = std::fs::remove_file(&record);
        let mut host = Host::new();
        let peer = host.launch(&Spec::demo(&["--record", &record]).mode(mode));
        host.call(peer, "a", "garbage", json!({}));
        host.answer("a");
        host.call(peer, "b", "ask_client", json!({"method": "ping"}));
        host.until(|e| e.method == b"ping");
        host.call(peer, "c", "pid", json!({}));
        host.answer("c");
        assert_eq!(host.close(peer), 0);
        host.to_the_end(peer);
        let lines = scratch.read("record");
        assert!(lines.lines().all(|line| line.contains("tools/call")), "{lines}");
        assert_eq!(lines.lines().count(), 3);
    }
}

#[test]
fn z04_a_request_of_a_modern_server_is_an_error_with_its_line() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]).mode(MCP_SUPERVISED_MODE_MODERN));
    host.call(peer, "ask", "ask_client", json!({"method": "ping", "params": {"x": 1}}));
    let error = host.next(MCP_SUPERVISED_EVENT_ERROR);
    assert_eq!(error.status, MCP_SUPERVISED_E_PROTOCOL as i32);
    assert_eq!(error.json(), json!({"jsonrpc": "2.0", "id": 0, "method": "ping", "params": {"x": 1}}));
    assert_eq!((&error.method[..], &error.id[..], &error.body[..]), (&b"ping"[..], &b"0"[..], &br#"{"x":1}"#[..]));
    host.call(peer, "on", "pid", json!({}));
    host.answer("on");
    assert_eq!(letters(&host.seen), "E M");
}

#[test]
fn z01_raw_mode_shows_every_line_and_tells_its_shape() {
    let scratch = Scratch::new();
    let said = [
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{}}"#, MCP_SUPERVISED_MESSAGE_REQUEST, "7"),
        (r#"{"jsonrpc":"2.0","method":"x"}"#, MCP_SUPERVISED_MESSAGE_NOTIFICATION, ""),
        (r#"{"jsonrpc":"2.0","id":"a","result":{}}"#, MCP_SUPERVISED_MESSAGE_RESULT, "\"a\""),
        (
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-5,"message":"m"}}"#,
            MCP_SUPERVISED_MESSAGE_REMOTE_ERROR,
            "null",
        ),
        (r#"[{"jsonrpc":"2.0","method":"x"}]"#, MCP_SUPERVISED_MESSAGE_UNMATCHED, ""),
    ];
    let bytes: String = said.iter().map(|(line, _, _)| format!("{line}\n")).collect();
    let mut host = Host::new();
    let peer = host.launch(&saying(&scratch, bytes.as_bytes()));
    host.call(peer, "end", "pid", json!({}));
    host.answer("end");
    for (event, (line, kind, id)) in host.seen.iter().zip(said) {
        assert_eq!((event.text().as_str(), event.message_kind), (line, kind as u32));
        assert_eq!(String::from_utf8_lossy(&event.id), id);
    }
    assert_eq!(host.seen[3].error_code, -5);
}

#[test]
fn w03_exactly_the_limit_passes_and_one_byte_more_does_not() {
    for (crlf, passes) in [(false, 1_000), (true, 999)] {
        let mut host = Host::new().stepwise();
        let spec = Spec::demo(if crlf { &["--crlf"] } else { &[] });
        let peer = host.launch(&spec.restart(3, 1, 60_000).limit(MCP_SUPERVISED_LIMIT_FRAME_BYTES, 1_000));
        host.call(peer, "fits", "exact_line", json!({"bytes": passes}));
        assert_eq!(host.answer("fits").payload.len(), passes, "the CR counts, the LF does not");
        host.call(peer, "good", "echo", json!({"message": "before it"}));
        host.call(peer, "too-long", "exact_line", json!({"bytes": passes + 1}));
        let error = host.next(MCP_SUPERVISED_EVENT_ERROR);
        assert_eq!((error.status, error.life), (TOO_LARGE, 1));
        assert!(error.text().contains("1000"), "{}", error.text());
        let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
        assert!(close.will_reconnect());
        host.next(MCP_SUPERVISED_EVENT_RECONNECT);
        assert_eq!(letters(&host.seen), "M M E D C R");
        host.call(peer, "next", "exact_line", json!({"bytes": passes}));
        host.answer("next");
    }
}

/// Bytes without an end: the limit is found while the line still grows (FR-05).
#[test]
fn w03_a_line_that_never_ends() {
    let mut host = Host::new().stepwise();
    let spec = Spec::demo(&["--ignore-eof"]).restart(MCP_SUPERVISED_NO_RESTART, 0, 60_000);
    let peer = host.launch(&spec.limit(MCP_SUPERVISED_LIMIT_FRAME_BYTES, 100_000));
    host.call(peer, "x", "long_line", json!({"bytes": 500_000_000_u64}));
    let told = host.to_the_end(peer);
    assert_eq!(letters(&told), "E D C X");
    assert_eq!(told[0].status, TOO_LARGE);
}

/// Text that a parser and a writer would not leave as it is.
#[test]
fn w04_payloads_arrive_byte_for_byte() {
    let scratch = Scratch::new();
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    let values = [
        "12345678901234567890123456789".to_owned(),
        "1e400".to_owned(),
        "-0.0e-0".to_owned(),
        "1.10".to_owned(),
        r#"{"a":1,"a":2,"a":1}"#.to_owned(),
        r#""\u0000\ud83c\udf89\u00e9\/""#.to_owned(),
        "\"读取 — 🎉\"".to_owned(),
        r#"{ "spaced" :	[ 1 , 2 ] }"#.to_owned(),
        "\"\u{7f}\u{2028}\u{feff}\"".to_owned(),
        deep,
    ];
    let lines: Vec<String> =
        values.iter().map(|value| format!(r#"{{"method":"n" ,"params":{{"v":{value}}}, "jsonrpc":"2.0"}}"#)).collect();
    for mode in [MCP_SUPERVISED_MODE_RAW, MCP_SUPERVISED_MODE_MODERN] {
        let mut host = Host::new();
        let peer = host.launch(&saying(&scratch, (lines.join("\n") + "\n").as_bytes()).mode(mode));
        host.call(peer, "end", "pid", json!({}));
        host.answer("end");
        assert_eq!(host.seen.len(), lines.len() + 1);
        for (event, (line, value)) in host.seen.iter().zip(lines.iter().zip(&values)) {
            assert_eq!(&event.text(), line);
            assert_eq!(event.body, format!("{{\"v\":{value}}}").into_bytes());
            assert_eq!(event.method, b"n");
        }
    }
}

/// A character cut by a read boundary stays whole (FR-02). That the halves come in different reads is sure: the server writes the
/// second only when it is told that the first was read.
#[test]
fn w04_a_character_that_is_split_over_reads() {
    let line = note("读取 — 🎉");
    let script = r#"printf %s "$1"; echo half >&2; read go; printf '%s\n' "$2"; read end"#;
    let mut host = Host::new();
    let from = line.find('读').unwrap();
    for at in from..from + "读取 — 🎉".len() {
        let (head, tail) = line.as_bytes().split_at(at);
        let peer = host.launch(&Spec::shell(script).arg("sh").arg(head).arg(tail));
        host.next(MCP_SUPERVISED_EVENT_LOG);
        host.send(peer, note("go"));
        assert_eq!(host.next(MCP_SUPERVISED_EVENT_MESSAGE).text(), line);
        assert_eq!(host.close(peer), 0);
        host.to_the_end(peer);
    }
}

#[test]
fn r11_numbers_run_through_all_lives() {
    let mut host = Host::new().stepwise();
    let peer = host.launch(&Spec::demo(&[]).restart(3, 0, 60_000));
    let mut expected = 0;
    for life in 1..=3 {
        for n in 0..5 {
            expected += 1;
            let id = format!("{life}-{n}");
            assert_eq!(host.call(peer, &id, "pid", json!({})), expected);
            host.answer(&id);
        }
        expected += 1;
        assert_eq!(host.call(peer, "dies", "crash", json!({})), expected);
        let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
        assert_eq!(close.unread_from, 0, "it read everything");
        host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    }
    let other = host.launch(&Spec::demo(&[]));
    assert_eq!(host.call(other, "x", "pid", json!({})), 1, "each peer has its own");
}

#[test]
fn r11_a_server_that_read_nothing() {
    let mut host = Host::new().stepwise();
    let peer = host.launch(&Spec::demo(&["--no-read"]).restart(3, 0, 60_000));
    for life in 0..3 {
        let first = host.send(peer, note("never read"));
        assert_eq!(first, life * 10 + 1);
        for _ in 1..10 {
            host.send(peer, note(&"x".repeat(life as usize * 20_000)));
        }
        host.drive();
        kill9(host.pid(peer));
        assert_eq!(
            host.next(MCP_SUPERVISED_EVENT_CLOSE).unread_from,
            first,
            "whether it lay in the pipe or was not written"
        );
        host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    }
}

/// A shell reads its input byte by byte, so what it has not asked for stays in the pipe.
#[test]
fn r11_a_server_that_read_some_lines() {
    for lines_read in 0..5 {
        let mut host = Host::new().stepwise();
        let script = "read x; ".repeat(lines_read) + "kill -9 $$";
        let peer = host.launch(&Spec::shell(&script).restart(MCP_SUPERVISED_NO_RESTART, 0, 60_000));
        for n in 0..5 {
            assert_eq!(host.send(peer, note(&format!("line {n}"))), n + 1);
        }
        host.to_the_end(peer);
        assert_eq!(host.last_close().unread_from, lines_read as u64 + 1);
    }
}

/// A buffer of the server's own may hold more than it has looked at: those bytes were read, and only what is behind them is certain.
#[test]
fn r11_a_server_that_reads_in_blocks() {
    let mut host = Host::new().stepwise();
    let spec = Spec::demo(&["--exit-after-read", "2", "--lenient"]).restart(MCP_SUPERVISED_NO_RESTART, 0, 60_000);
    let peer = host.launch(&spec);
    for n in 0..10 {
        assert_eq!(host.send(peer, note(&"x".repeat(100_000))), n + 1);
    }
    host.to_the_end(peer);
    let from = host.last_close().unread_from;
    assert!((3..=4).contains(&from), "{from}");
}

/// Megabytes both ways, and neither side waits for the other for ever (BP-03).
#[test]
fn f04_both_sides_write_and_neither_reads() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&["--notes-midline", "4000000"]));
    host.call(peer, "big", "echo", json!({"message": "b".repeat(4 << 20)}));
    assert_eq!(host.answer("big").tool_text().len(), 4 << 20);
    assert!(host.seen.len() > 3_000);
}
