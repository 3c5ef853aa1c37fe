//! What becomes of a host's params in a line of ours (R1): one line of JSON, with the library's keys in `_meta` and everything else
//! as the host gave it.

#![no_main]

use mcp_supervised::core::stamp::{Meta, Params, Stamp, cancel_line, push_notification, request_line};
use serde_json::{Map, Value};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const INFO: &str = "io.modelcontextprotocol/clientInfo";

fn object(text: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(text) {
        Ok(Value::Object(object)) => Some(object),
        _ => None,
    }
}

/// The line without its LF, which is the only one; the params in it.
fn params_of(line: &[u8], method: &str) -> Map<String, Value> {
    let (last, line) = line.split_last().expect("a line has its end");
    assert!(*last == b'\n' && !line.contains(&b'\n') && !line.contains(&b'\r'));
    let mut object = object(line).unwrap_or_else(|| panic!("no JSON: {}", line.escape_ascii()));
    assert_eq!((object["jsonrpc"].as_str(), object["method"].as_str()), (Some("2.0"), Some(method)));
    match object.remove("params") {
        Some(Value::Object(params)) => params,
        other => panic!("{other:?}"),
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [bits, text @ ..] = bytes else { return };
    let Ok(params) = Params::check(text) else {
        // What is refused is no object, or has the faults that are named; a good one is not refused.
        if let Some(given) = object(text) {
            let meta = given.get("_meta");
            let token = meta.and_then(|meta| meta.get("progressToken"));
            let is_plain = meta.is_none_or(Value::is_object) && token.is_none_or(Value::is_string);
            let twice = text.windows(5).filter(|part| *part == b"_meta" || part.contains(&b'\\')).count() > 1;
            assert!(!is_plain || twice, "{}", text.escape_ascii());
        }
        return;
    };
    // A reader with limits of its own (depth) has nothing to compare with.
    let Some(given) = object(if text.trim_ascii().is_empty() { b"{}" } else { text }) else { return };
    let method = "vendor/\"x\"";
    let info = (bits & 1 != 0).then_some(r#"{"name":"n","version":"1"}"#);
    let stamp = Stamp::new("2026-07-28", info, r#"{"roots":{}}"#, (bits & 2 != 0).then_some("info"));
    let token = (bits & 4 != 0 && params.token.is_none()).then_some("\"progress-1\"");

    let mut line = Vec::new();
    push_notification(&mut line, method, &params).expect("checked params");
    assert_eq!(params_of(&line, method), given, "a notification is left alone");
    let line = request_line(7, method, &params, Meta::Verbatim).expect("checked params");
    assert_eq!(params_of(&line, method), given, "verbatim is verbatim");

    let line = request_line(7, method, &params, Meta::Stamped { stamp: &stamp, token }).expect("checked params");
    let mut made = params_of(&line, method);
    let mut expected = given;
    let Some(Value::Object(meta)) = made.remove("_meta") else { panic!("no _meta: {}", line.escape_ascii()) };
    let theirs = match expected.remove("_meta") {
        Some(Value::Object(theirs)) => theirs,
        _ => Map::new(),
    };
    assert_eq!(made, expected, "all but _meta is the host's");
    assert_eq!(meta[VERSION], "2026-07-28");
    assert!(meta[CAPABILITIES]["roots"].is_object());
    assert_eq!(
        meta.get(INFO).is_some_and(|made| made["name"] == "n"),
        bits & 1 != 0 || theirs.get(INFO).is_some_and(|t| t["name"] == "n")
    );
    if token.is_some() {
        assert_eq!(meta["progressToken"], "progress-1");
    }
    for (key, value) in &theirs {
        let is_ours = [VERSION, CAPABILITIES, INFO, "io.modelcontextprotocol/logLevel"].contains(&key.as_str());
        assert!(is_ours || meta.get(key) == Some(value), "{key} was the host's");
    }
    if let Ok(reason) = std::str::from_utf8(text) {
        let cancel = cancel_line(9, reason);
        let params = params_of(&cancel, "notifications/cancelled");
        assert!(params.get("reason").is_none_or(|said| said == reason) && params["requestId"] == 9);
    }
});
