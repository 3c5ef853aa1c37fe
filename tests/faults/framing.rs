//! Framing and encoding: what a server writes is no line, no text, no JSON, or no message.

use serde_json::json;

use super::served::*;
use crate::support::*;

/// The kind: something else than a message is on stdout, at any time. Neighbours: colours, prompts, half a document, a banner of
/// many lines, before, between and behind good lines, in every mode.
#[test]
fn fr_01_log_lines_on_stdout_are_errors_and_nothing_ends() {
    let odd = [
        "Server started v1.2",
        "[db] Connected to x",
        "\u{1b}[32mINFO\u{1b}[0m ready",
        "{not json",
        "> ",
        "{\"jsonrpc\":\"2.0\"",
        "\"jsonrpc\":\"2.0\"}",
        "Warning: {\"jsonrpc\":\"2.0\",\"method\":\"a\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"a\"} # done",
        "(node:1) DeprecationWarning: punycode",
        "\u{7}\u{8}\u{c}progress 100%",
        "\u{2500}\u{2500} banner \u{2500}\u{2500}",
    ];
    let scratch = Scratch::new();
    let banner: String = odd.iter().map(|line| format!("{line}\n")).collect();
    for mode in [MCP_SUPERVISED_MODE_MODERN, MCP_SUPERVISED_MODE_RAW] {
        let spec = Spec::demo(&["--raw-lines", &scratch.data("banner", &banner)]).mode(mode);
        let mut host = Host::new();
        let peer = host.launch(&spec);
        host.call(peer, "a", "pid", json!({}));
        host.answer("a");
        let before_the_answer = host.seen.len() - 1;
        each_is_one_error(&host.seen[..before_the_answer], odd.len());
    }
    let mut server = Served::new(&[]);
    for line in odd {
        each_is_one_error(&server.writes(format!("{line}\n").as_bytes()), 1);
        let between = server.writes(format!("{}\n{line}\n{}\n", note("a"), note("b")).as_bytes());
        assert_eq!(letters(&between), "M E M", "{line}");
        assert_eq!([between[0].text(), between[2].text()], [note("a"), note("b")]);
    }
    server.goes_on();
}

/// The kind: a read ends anywhere in a character. Every place in characters of two, three and four bytes.
#[test]
fn fr_02_a_character_cut_by_a_read_stays_whole() {
    let line = note("\u{e9} \u{8bfb}\u{53d6} \u{2014} \u{1f389}") + "\n";
    let mut server = Served::new(&[]);
    let first = line.find('\u{e9}').unwrap();
    for at in first - 1..=line.len() - 1 {
        let told = server.writes_cut(line.as_bytes(), at);
        assert_eq!(letters(&told), "M", "cut at {at}");
        assert_eq!(told[0].payload, line.trim_end().as_bytes(), "cut at {at}");
    }
    server.goes_on();
}

/// The kind: a line is longer than some buffer. Sizes around every power of two from a page to 2 MiB, each with a small answer
/// behind it; and what is allowed if nobody says anything.
#[test]
fn fr_03_answers_of_any_size_arrive_whole() {
    let mut server = Served::new(&[]);
    let sizes = (12..=21).flat_map(|power| [-1_i64, 0, 1].map(|more| (1_i64 << power) + more)).chain([20 << 20]);
    for size in sizes {
        let big = server.asks("big", json!({"bytes": size}));
        let exact = (size < 1 << 21).then(|| server.asks("exact_line", json!({"bytes": size})));
        let small = server.asks("echo", json!({"message": "small"}));
        assert_eq!(server.completion(big).tool_text().len() as i64, size);
        if let Some(exact) = exact {
            assert_eq!(server.completion(exact).payload.len() as i64, size);
        }
        assert_eq!(server.completion(small).tool_text(), "small");
    }
    server.goes_on();
}

/// The kind: input without a line end. At the limit it is one error and the end; memory stays below the limit and a little; below
/// the limit deadlines and close go on as usual.
#[test]
fn fr_05_a_line_without_an_end_takes_no_memory_without_an_end() {
    alone!();
    const LIMIT: u64 = 4 << 20;
    let peak = || -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
    };
    let before = peak();
    for script in ["yes | tr -d '\\n'", "yes x | tr '\\n' '\\r'", "cat /dev/zero"] {
        let mut host = Host::new();
        let spec = Spec::shell(script).limit(MCP_SUPERVISED_LIMIT_FRAME_BYTES, LIMIT);
        let peer = host.launch(&spec.restart(MCP_SUPERVISED_NO_RESTART, 0, 1).stop_grace(10, 10));
        host.to_the_end(peer);
        assert_eq!(letters(&host.seen), "E D C X", "{script}");
        assert_eq!(host.seen[0].status, MCP_SUPERVISED_E_FRAME_TOO_LARGE as i32);
    }
    let grown = (peak() - before) * 1024;
    assert!(grown < LIMIT + (8 << 20), "{grown} bytes");

    let mut server = Served::by_hand(&[]);
    let timeout = options(|o| o.timeout_ms = 1_000);
    let call = r#"{"name":"long_line","arguments":{"bytes":3000000,"newline":true}}"#;
    let begun = server.asks("raw", json!({"text": "x".repeat(100_000), "answer": false}));
    let (peer, pid) = (server.peer, server.pid);
    let silent = server.try_ask(peer, "tools/call", call.replace("long_line", "silent"), Some(&timeout)).unwrap();
    server.until_written(pid);
    server.advance_ms(1_000);
    assert_eq!(server.completion(silent).status, TIMEOUT);
    server.closes();
    assert_eq!(server.completion(begun).status, CLOSED);
}

/// The kind: CR before LF. On every line, alone, many, and with the two bytes in different reads; and none in what we write.
#[test]
fn fr_06_cr_lf_is_a_line_end() {
    let scratch = Scratch::new();
    let mut server = Served::new(&["--crlf", "--record", &scratch.name("record")]);
    for n in 0..20 {
        assert_eq!(server.call("echo", json!({"message": "m".repeat(n)})).tool_text().len(), n);
    }
    for blank in ["\r\n", "\r\r\n", "\r\n\r\n"] {
        assert_eq!(letters(&server.writes(blank.as_bytes())), "");
    }
    let line = note("a") + "\r\n";
    for at in [line.len() - 2, line.len() - 1] {
        let told = server.writes_cut(line.as_bytes(), at);
        assert_eq!((letters(&told).as_str(), told[0].text()), ("M", note("a")));
    }
    // A CR inside of a line is white space of JSON.
    let inside = format!("{{\r{}\n", &note("b")[1..]);
    assert_eq!(letters(&server.writes(inside.as_bytes())), "M");
    server.goes_on();
    assert!(!scratch.read("record").contains('\r') && scratch.read("record").ends_with('\n'));
}

/// The kind: lines with nothing in them, of any white space, any number.
#[test]
fn fr_08_blank_lines_are_nothing() {
    let mut server = Served::new(&[]);
    let mut blank: Vec<String> = ["", "\r", "   ", "\t", " \t \r", "\r\r\r"].iter().map(|s| format!("{s}\n")).collect();
    blank.push("\n".repeat(10_000));
    blank.push("   \r\n\t\n".repeat(10_000));
    for text in &blank {
        let around = [note("a").as_bytes(), b"\n", text.as_bytes(), note("b").as_bytes(), b"\n"].concat();
        let told = server.writes(&around);
        assert_eq!(told.len(), 2, "not even a log line");
        assert_eq!(letters(&told), "M M");
    }
    // What only looks blank is no white space of JSON.
    for text in ["\u{a0}\n", "\u{2003}\n", "\u{b}\n", "\u{feff}\n"] {
        each_is_one_error(&server.writes(text.as_bytes()), 1);
    }
    server.goes_on();
}

/// The kind: the output ends inside of a line. A whole document is a message, anything less is one error at most; either way the
/// request ends.
#[test]
fn fr_09_a_last_line_without_its_end() {
    let mut server = Served::new(&[]);
    let answered = server.call("last_line_no_newline", json!({"code": 0}));
    assert_eq!(answered.message_kind, MCP_SUPERVISED_MESSAGE_RESULT as u32, "{}", answered.text());
    server.next(MCP_SUPERVISED_EVENT_RECONNECT);
    assert_eq!(server.story(), "M D C R");
    let cut = server.call("half_line", json!({"code": 0}));
    assert_eq!(cut.status, CLOSED);
    let tail = server.story();
    assert!(["M D C R E D C E", "M D C R D C E"].iter().any(|story| tail.starts_with(story)), "{tail}");
    // Whatever the last byte is: in a string, in a number, in a character, behind the document.
    let whole = note("\u{1f389}1");
    for (end, extra) in
        (1..whole.len()).map(|end| (end, "")).chain([(whole.len(), ""), (whole.len(), "\r"), (whole.len(), "  ")])
    {
        let scratch = Scratch::new();
        let bytes = [&whole.as_bytes()[..end], extra.as_bytes()].concat();
        let mut host = Host::new();
        let spec = modern("/bin/cat").arg(scratch.data("bytes", &bytes)).restart(MCP_SUPERVISED_NO_RESTART, 0, 1);
        let peer = host.launch(&spec);
        host.to_the_end(peer);
        let expected = if end == whole.len() { "M D C X" } else { "E D C X" };
        assert_eq!(letters(&host.seen), expected, "{end} bytes of {}", whole.len());
        if end == whole.len() {
            assert_eq!(host.seen[0].text().trim_end(), whole);
        }
    }
}

/// The kind: bytes that are no UTF-8. Each ill-formed sequence in an answer ends that request and nothing else; in a line of its
/// own it is one error. Nothing that is not UTF-8 reaches the host.
#[test]
fn fr_12_bytes_that_are_no_text_are_an_error_of_their_own() {
    let mut server = Served::new(&[]);
    let bad: [&[u8]; 10] = [
        b"\xe9",
        b"\xff",
        b"\xc0\x80",
        b"\xc3",
        b"\x80",
        b"\xed\xa0\x80",
        b"\xe2\x82",
        b"\xf0\x9f\x8e",
        b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80\x80",
    ];
    for bytes in bad {
        let begin = r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":"caf"#;
        let id = server.answers_with(begin, &[bytes, b"!\"}]}}\n"].concat());
        let end = server.completion(id);
        assert_eq!((end.status, end.flags), (MCP_SUPERVISED_E_PROTOCOL as i32, MCP_SUPERVISED_FLAG_COMPLETE));
        assert!(!end.text().is_empty());
        each_is_one_error(&server.writes(&[bytes, b"\n"].concat()), 1);
        each_is_one_error(&server.writes(&[note("x").as_bytes(), bytes, b"\n"].concat()), 1);
        server.goes_on();
    }
    each_is_one_error(&server.writes(b"\xff\xfe{\n"), 1);
    // UTF-16, as some shells write it.
    let wide: Vec<u8> = note("a").encode_utf16().flat_map(u16::to_le_bytes).chain(*b"\n").collect();
    each_is_one_error(&server.writes(&wide), 1);
    server.goes_on();
}

/// The kind: a payload is parsed and written anew on its way. Numbers of any size and spelling, the order of keys, keys that come
/// twice, escapes, spaces.
#[test]
fn fr_15_numbers_and_everything_else_arrive_byte_for_byte() {
    let mut server = Served::new(&[]);
    for content in [
        r#"{"id":1915883588174806058,"big":18446744073709551616,"f":1.10,"e":1E400}"#,
        r#"{"z":-0,"a":0.1000,"m":1e-7,"k":123456789012345678901234567890.5}"#,
        r#"{"a":1,"a":2,"\u0061":3}"#,
        r#"{ "s" : "\/\u00e9\ud83c\udf89\b" , "n" : [ ] }"#,
        r#"{"deep":[[[[[[[[[[{"x":null}]]]]]]]]]]}"#,
    ] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{{"structuredContent":{content}}}}}"#);
        let id = server.answers_with(&line, b"\n");
        let end = server.completion(id);
        assert_eq!(end.text(), line.replace("@ID@", &id.to_string()));
        assert_eq!(String::from_utf8(end.body).unwrap(), format!(r#"{{"structuredContent":{content}}}"#));
        let told = server.writes(format!("{{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":{content}}}\n").as_bytes());
        assert_eq!(told[0].body, content.as_bytes());
    }
    server.goes_on();
}

/// The kind: a NUL cuts a text. Escaped in a result, in an error and in a method; raw in a line, where it is no JSON; in stderr,
/// and with it in the last words of a CLOSE.
#[test]
fn fr_17_a_nul_cuts_nothing() {
    let mut server = Served::new(&[]);
    let pad = "\\u0000word".repeat(3);
    let id = server.answers_with(&format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{{"text":"pass{pad}"}}}}"#), b"\n");
    assert_eq!(server.completion(id).json()["result"]["text"], "pass\0word\0word\0word");
    let error = r#"{"jsonrpc":"2.0","id":@ID@,"error":{"code":-5,"message":"a\u0000b"}}"#;
    let id = server.answers_with(error, b"\n");
    let end = server.completion(id);
    assert_eq!((end.error_code, end.json()["error"]["message"].as_str()), (-5, Some("a\0b")));
    let told = server.writes(b"{\"jsonrpc\":\"2.0\",\"method\":\"a\\u0000b\"}\n");
    assert_eq!(told[0].method, b"a\\u0000b", "as it was written");
    for raw in
        [&b"{\"jsonrpc\":\"2.0\",\"method\":\"a\0b\"}\n"[..], b"\0\n", b"{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\0\n"]
    {
        each_is_one_error(&server.writes(raw), 1);
    }
    server.call("stderr", json!({"text": "before\u{0}after"}));
    server.await_log("before\\x00after");
    server.is_killed();
    assert!(server.next(MCP_SUPERVISED_EVENT_CLOSE).text().contains("before\\x00after"));
    // A host cannot give one where a C string is to come of it.
    let mut spec = std::ptr::null_mut();
    for (len, status) in [(3, INVALID), (2, INVALID), (1, 0)] {
        // SAFETY: a text of three bytes, of which so many are given, and a place for the result.
        assert_eq!(unsafe { mcp_supervised_spec_new(b"a\0b".as_ptr().cast(), len, &mut spec) }, status, "{len} bytes");
    }
    // SAFETY: a live spec, and texts of three bytes with a NUL in them.
    unsafe {
        let with_nul = b"a\0b";
        let (at, len) = (with_nul.as_ptr().cast(), with_nul.len());
        assert_eq!(mcp_supervised_spec_arg(spec, at, len), INVALID);
        assert_eq!(mcp_supervised_spec_cwd(spec, at, len), INVALID);
        assert_eq!(mcp_supervised_spec_env(spec, at, len, at, 1), INVALID);
        assert_eq!(mcp_supervised_spec_env(spec, at, 1, at, len), INVALID);
        mcp_supervised_spec_free(spec);
    }
}

/// The kind: JSON that is no JSON-RPC message. Every other JSON value, every envelope that contradicts itself, and an answer
/// printed over several lines.
#[test]
fn fr_19_json_that_is_no_message_is_an_error_and_is_skipped() {
    let mut server = Served::new(&[]);
    for line in [
        r#"{"status":200,"message":"Success"}"#,
        "null",
        "42",
        "-1.5e3",
        r#""text""#,
        "{}",
        "true",
        "false",
        "[1]",
        r#"{"jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"1.0","method":"a"}"#,
        r#"{"jsonrpc":2.0,"method":"a"}"#,
        r#"{"method":"a"}"#,
        r#"{"jsonrpc":"2.0","method":null}"#,
        r#"{"jsonrpc":"2.0","method":"a","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x","result":{},"error":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x"}"#,
        r#"{"jsonrpc":"2.0","jsonrpc":"2.0","method":"a"}"#,
        r#"{"JSONRPC":"2.0","method":"a"}"#,
        r#"{"jsonrpc":"2.0","method":"a"}{"jsonrpc":"2.0","method":"b"}"#,
    ] {
        each_is_one_error(&server.writes(format!("{line}\n").as_bytes()), 1);
        assert_eq!(letters(&server.writes(format!("{}\n{line}\n{}\n", note("a"), note("b")).as_bytes())), "M E M");
    }
    let pretty =
        serde_json::to_string_pretty(&json!({"jsonrpc": "2.0", "id": 1_000_000, "result": {"a": [1]}})).unwrap();
    each_is_one_error(&server.writes(format!("{pretty}\n").as_bytes()), pretty.lines().count());
    server.goes_on();
}

/// The kind: an array where a message should be. One error that says so; what it seems to answer is not taken for answered, and
/// ends by its deadline.
#[test]
fn fr_20_a_batch_is_said_to_be_one() {
    let mut server = Served::by_hand(&[]);
    let (peer, pid) = (server.peer, server.pid);
    let timeout = options(|o| o.timeout_ms = 500);
    let silent = r#"{"name":"silent"}"#;
    let ids = [0; 2].map(|_| server.try_ask(peer, "tools/call", silent, Some(&timeout)).unwrap());
    let answer = |id: u64| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
    for batch in
        [format!("[{},{}]", answer(ids[0]), answer(ids[1])), "[]".to_owned(), "[[]]".to_owned(), "[null]".to_owned()]
    {
        let told = server.writes(format!("{batch}\n").as_bytes());
        each_is_one_error(&told, 1);
        assert!(told[0].text().contains("batch"), "{}", told[0].text());
    }
    server.until_written(pid);
    server.advance_ms(500);
    for id in ids {
        assert_eq!(server.completion(id).status, TIMEOUT);
        assert_eq!(server.ends_of(id), 1);
    }
    server.goes_on();
    // In raw mode there is nothing to wait for, and the host sees it as it is.
    let scratch = Scratch::new();
    let mut host = Host::new();
    let spec = Spec::demo(&["--raw-lines", &scratch.data("batch", "[{\"a\":1}]\n")]);
    host.launch(&spec);
    let message = host.next(MCP_SUPERVISED_EVENT_MESSAGE);
    assert_eq!(
        (message.message_kind, message.text()),
        (MCP_SUPERVISED_MESSAGE_UNMATCHED as u32, "[{\"a\":1}]".to_owned())
    );
}
