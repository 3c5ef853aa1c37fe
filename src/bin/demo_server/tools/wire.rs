//! Tools that write too much, too slowly, or what is no message.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Call, say};
use crate::legacy;
use crate::methods::Reply;
use crate::output::Output;
use crate::server::{self, Change, Failure, OnCancel, SUBSCRIPTION_ID};

/// Lines are gathered into writes of about this size: a flood is to be limited by the reader, not by system calls.
const WRITE: usize = 64 * 1024;

pub fn flood(call: &Call) -> Reply {
    let (count, size) = (call.number("count").unwrap_or(0), call.size("size"));
    // What stands before the number, between the number and the padding, and behind it; one for each receiver.
    let around: Vec<[String; 3]> = match call.text("kind") {
        "" | "message" => vec![[
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":{"n":"#.to_owned(),
            r#","pad":""#.to_owned(),
            "\"}}}\n".to_owned(),
        ]],
        "updated" => call
            .server
            .streams_for(Change::Counter)
            .iter()
            .map(|id| {
                [
                    format!(
                        r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"_meta":{{"{SUBSCRIPTION_ID}":{id},"n":"#
                    ),
                    r#","pad":""#.to_owned(),
                    format!("\"}},\"uri\":\"{}\"}}}}\n", server::COUNTER_URI),
                ]
            })
            .collect(),
        other => return Err(Failure::invalid_params(format!("kind: {other}"))),
    };
    let response = call.response(count.to_string());
    let (server, one_write) = (call.server, call.flag("one_write") == Some(true));
    let work = move || {
        let ready = write_flood(&server.output, &around, count, size, one_write);
        server.output.answer_after(ready, &response);
    };
    if call.flag("background") == Some(true) {
        server.in_thread(work);
    } else {
        work();
    }
    Ok(None)
}

/// Writes the lines of a flood; what is not yet written is returned.
fn write_flood(output: &Output, around: &[[String; 3]], count: u64, size: usize, one_write: bool) -> Vec<u8> {
    let padding = "x".repeat(size);
    let mut ready = Vec::new();
    for number in 0..count {
        for [before, between, behind] in around {
            let number = number.to_string();
            let length = before.len() + number.len() + between.len() + behind.len();
            for part in [before, &number, between, &padding[..size.saturating_sub(length)], behind] {
                ready.extend_from_slice(part.as_bytes());
            }
            if !one_write && ready.len() >= WRITE {
                output.raw(&ready);
                ready.clear();
            }
        }
    }
    ready
}

pub fn progress(call: &Call) -> Reply {
    let every = Duration::from_millis(call.number("every_ms").unwrap_or(0));
    let count = match call.number("count") {
        None | Some(0) => u64::MAX,
        Some(count) => count,
    };
    let token = match call.text("token") {
        "" => call.progress_token().unwrap_or_default(),
        given => given.into(),
    };
    let (server, id, response) = (call.server, call.id.clone(), call.response("done"));
    server.begin_waiting(&id, OnCancel::Silent);
    server.in_thread(move || {
        for step in 1..=count {
            thread::sleep(every);
            if !server.still_waiting(&id) {
                return;
            }
            server.output.note(&json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": token, "progress": step}}));
        }
        server.finish_waiting(&id, || server.answer_now(&response));
    });
    Ok(None)
}

pub fn batch(call: &Call) -> Reply {
    let note = |n| {
        json!({"jsonrpc": "2.0", "method": "notifications/message",
            "params": {"level": "info", "data": {"n": n}}})
    };
    let mut messages: Vec<Value> = (0..call.size("notes")).map(note).collect();
    if !call.text("ask").is_empty() {
        messages.push(legacy::ask_client(call.server, None, None, call.text("ask"), None).1);
    }
    messages.push(call.response("batched"));
    call.server.answer_now(&Value::Array(messages));
    Ok(None)
}

pub fn big(call: &Call) -> Reply {
    say("b".repeat(call.size("bytes")))
}

pub fn exact_line(call: &Call) -> Reply {
    let (asked, least) = (call.size("bytes"), call.response("").to_string().len());
    let Some(padding) = asked.checked_sub(least) else {
        return Err(Failure::invalid_params(format!("the shortest answer to this call has {least} bytes")));
    };
    call.server.answer_now(&call.response("b".repeat(padding)));
    Ok(None)
}

/// Lines that are no messages, without their line ends. Each is one kind of nonsense that servers have been seen to
/// write: log lines, colours, halves, other JSON, arrays, bytes that are no text.
const ODD_LINES: [&[u8]; 14] = [
    b"Server started v1.2",
    b"[db] Connected to x",
    b"\x1b[32mINFO\x1b[0m ready",
    b"{not json",
    br#"{"jsonrpc":"2.0","method":"notifications/mess"#,
    b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/a\0b\"}",
    b"\xff\xfe{",
    b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"caf\xe9!\"}}",
    br#"{"status":200,"message":"Success"}"#,
    b"null",
    b"42",
    br#""text""#,
    b"{}",
    b"[]",
];

pub fn garbage(call: &Call) -> Reply {
    let lines = call.number("lines").map_or(ODD_LINES.len(), |_| call.size("lines"));
    for line in ODD_LINES.iter().cycle().take(lines) {
        call.server.output.raw(&[line, &b"\n"[..]].concat());
    }
    say(lines.to_string())
}

pub fn blank(call: &Call) -> Reply {
    for _ in 0..call.size("rounds").max(1) {
        call.server.output.raw(b"\n\r\n  \t \n\r\r\n");
    }
    say("blank")
}

pub fn raw(call: &Call) -> Reply {
    let hex = call.text("hex");
    let pairs: Option<Vec<u8>> = hex
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect();
    let Some(bytes) = pairs else {
        return Err(Failure::invalid_params("hex: not hexadecimal"));
    };
    let text = call.text("text").replace("@ID@", &call.id.to_string());
    call.server.output.raw(&[text.as_bytes(), &bytes].concat());
    if call.flag("answer") == Some(false) { Ok(None) } else { say("raw") }
}

pub fn long_line(call: &Call) -> Reply {
    let block = "x".repeat(WRITE);
    let mut left = call.size("bytes");
    while left > 0 {
        let part = left.min(WRITE);
        call.server.output.raw(&block.as_bytes()[..part]);
        left -= part;
    }
    if call.flag("newline") == Some(true) {
        call.server.output.raw(b"\n");
    }
    say("long")
}

pub fn slow(call: &Call) -> Reply {
    let chunk = call.size("chunk");
    in_pieces(call, "slow", chunk, chunk)
}

pub fn split(call: &Call) -> Reply {
    in_pieces(call, "split", call.size("at"), usize::MAX)
}

/// Writes the answer from a thread: a server that writes slowly may still read.
fn in_pieces(call: &Call, text: &str, first: usize, rest: usize) -> Reply {
    let pause = Duration::from_millis(call.number("ms").unwrap_or(0));
    let (server, id, response) = (call.server, call.id.clone(), call.response(text));
    server.begin_waiting(&id, OnCancel::Ignore);
    server.in_thread(move || {
        // Not inside `finish_waiting`, whose lock the reader needs.
        server.output.answer_in_pieces(&response, first, rest, pause);
        server.finish_waiting(&id, || {});
    });
    Ok(None)
}

pub fn hold(call: &Call) -> Reply {
    call.server.answer_now(&call.response("holding"));
    call.server.output.hold(call.number("answers").unwrap_or(1).max(1), false);
    Ok(None)
}

pub fn crlf(call: &Call) -> Reply {
    let on = call.flag("on") == Some(true);
    call.server.output.set_crlf(on);
    say(on.to_string())
}

pub fn stderr(call: &Call) -> Reply {
    let mut text = String::new();
    if call.arguments.contains_key("text") {
        text = format!("{}\n", call.text("text"));
    }
    for number in 1..=call.size("lines") {
        text += &format!("stderr line {number}\n");
    }
    server::write_stderr(&text);
    server::fill_stderr(call.size("bytes"));
    say("written")
}
