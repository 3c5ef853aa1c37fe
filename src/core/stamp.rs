//! The lines the library builds for a host: requests with their `_meta`, notifications, cancellations. Rules R1 and R2.
//!
//! The host's params are embedded byte for byte. Only two things in them are touched: line breaks between tokens become
//! spaces, since a line must stay one, and `_meta`, which is merged with what the protocol asks for.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::scan::{self, Envelope, Span};

/// The revision spoken by default.
pub const PROTOCOL_VERSION: &str = "2026-07-28";

const KEY_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const KEY_CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const KEY_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const KEY_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const KEY_TOKEN: &str = "progressToken";

/// What is stamped into every request of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// The beginning of params that have no `_meta` of their own, up to where a token would follow.
    opening: String,
    has_client_info: bool,
    has_log_level: bool,
}

impl Stamp {
    const KEY: &str = "{\"_meta\":";

    /// A stamp from JSON texts that were checked before.
    pub fn new(version: &str, client_info: Option<&str>, capabilities: &str, log_level: Option<&str>) -> Self {
        let mut opening = format!("{}{{\"{KEY_VERSION}\":{}", Self::KEY, quoted(version));
        if let Some(info) = client_info {
            opening.push_str(&format!(",\"{KEY_CLIENT_INFO}\":{info}"));
        }
        opening.push_str(&format!(",\"{KEY_CAPABILITIES}\":{capabilities}"));
        if let Some(level) = log_level {
            opening.push_str(&format!(",\"{KEY_LOG_LEVEL}\":{}", quoted(level)));
        }
        Self { opening, has_client_info: client_info.is_some(), has_log_level: log_level.is_some() }
    }

    /// Whether the stamp says what this key of the host's would say.
    fn wins_over(&self, key: &str) -> bool {
        key == KEY_VERSION
            || key == KEY_CAPABILITIES
            || (key == KEY_CLIENT_INFO && self.has_client_info)
            || (key == KEY_LOG_LEVEL && self.has_log_level)
    }
}

/// A text as a JSON string.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The host's params, checked.
#[derive(Debug, Clone)]
pub struct Params<'a> {
    text: &'a [u8],
    meta: Option<Span>,
    /// The text of the progress token the host gave.
    pub token: Option<&'a [u8]>,
    /// They continue an earlier call: `inputResponses` or `requestState` is there and not null (T1).
    pub is_continuation: bool,
}

impl<'a> Params<'a> {
    /// Checks a host's params: a JSON object, at most one `_meta`, and that an object. The empty text stands for `{}`.
    pub fn check(text: &'a [u8]) -> Result<Self, String> {
        let text = text.trim_ascii();
        let text = if text.is_empty() { b"{}" } else { text };
        let mut found = Envelope::default();
        scan::scan_params(text, &mut found).map_err(|defect| format!("params is not a JSON object: {defect}"))?;
        if found.meta_count > 1 {
            return Err("params has two \"_meta\" keys".to_owned());
        }
        if found.meta.is_some_and(|meta| meta.of(text).first() != Some(&b'{')) {
            return Err("\"_meta\" of params is not an object".to_owned());
        }
        let token = found.meta_progress_token.map(|span| span.of(text));
        if token.is_some_and(|token| !(token.starts_with(b"\"") || scan::parse_integer(token).is_some())) {
            return Err("\"progressToken\" is neither a string nor an integer".to_owned());
        }
        let given = |span: Option<Span>| span.is_some_and(|span| span.of(text) != b"null");
        Ok(Self {
            text,
            meta: found.meta,
            token,
            is_continuation: given(found.input_responses) || given(found.request_state),
        })
    }
}

impl Params<'static> {
    /// `{}`.
    pub fn empty() -> Self {
        Self { text: b"{}", meta: None, token: None, is_continuation: false }
    }
}

/// How `_meta` is made.
#[derive(Debug, Clone, Copy)]
pub enum Meta<'a> {
    /// The protocol's keys are put in, and the progress token if one was minted.
    Stamped {
        /// The protocol's keys.
        stamp: &'a Stamp,
        /// A minted token, as JSON text.
        token: Option<&'a str>,
    },
    /// As the host gave it, with a minted token put in: what the revisions before 2026-07-28 have.
    Plain {
        /// The token, as JSON text.
        token: &'a str,
    },
    /// As the host gave it.
    Verbatim,
}

/// About how long a line becomes, and rather less than more.
pub fn room_for(method: &str, params: &Params<'_>, meta: Meta<'_>) -> usize {
    let stamped = match meta {
        Meta::Stamped { stamp, token } => stamp.opening.len() + token.map_or(0, str::len) + 24,
        Meta::Plain { token } => token.len() + 32,
        Meta::Verbatim => 0,
    };
    params.text.len() + method.len() + stamped + 72
}

/// Appends the line of a request, LF included.
pub fn push_request(
    line: &mut Vec<u8>,
    id: u64,
    method: &str,
    params: &Params<'_>,
    meta: Meta<'_>,
) -> Result<(), String> {
    line.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    push_number(line, id);
    push_method(line, method);
    push_params(line, params, meta)?;
    line.extend_from_slice(b"}\n");
    Ok(())
}

/// The line of a request, LF included.
pub fn request_line(id: u64, method: &str, params: &Params<'_>, meta: Meta<'_>) -> Result<Vec<u8>, String> {
    let mut line = Vec::with_capacity(room_for(method, params, meta));
    push_request(&mut line, id, method, params, meta)?;
    Ok(line)
}

/// The line of a request of the library's own, whose ids are strings.
pub fn own_request_line(id: &str, method: &str, params: &Params<'_>, meta: Meta<'_>) -> Result<Vec<u8>, String> {
    let mut line = Vec::with_capacity(room_for(method, params, meta));
    line.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    line.extend_from_slice(quoted(id).as_bytes());
    push_method(&mut line, method);
    push_params(&mut line, params, meta)?;
    line.extend_from_slice(b"}\n");
    Ok(line)
}

/// Appends the line of a notification, LF included. Notifications of a client carry no stamp.
pub fn push_notification(line: &mut Vec<u8>, method: &str, params: &Params<'_>) -> Result<(), String> {
    line.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
    push_method(line, method);
    push_params(line, params, Meta::Verbatim)?;
    line.extend_from_slice(b"}\n");
    Ok(())
}

/// Appends a number in decimal, two digits at a time: formatting takes several times as long, and every request has one.
fn push_number(line: &mut Vec<u8>, mut number: u64) {
    const PAIRS: [[u8; 2]; 100] = {
        let mut pairs = [[b'0'; 2]; 100];
        let mut at = 0;
        while at < 100 {
            pairs[at] = [b'0' + (at / 10) as u8, b'0' + (at % 10) as u8];
            at += 1;
        }
        pairs
    };
    let mut digits = [0; 20];
    let mut at = digits.len();
    while number >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if number > 0 || at == digits.len() {
        at -= 1;
        digits[at] = b'0' + number as u8;
    }
    line.extend_from_slice(&digits[at..]);
}

/// The line that tells a server to forget a request or a stream.
pub fn cancel_line(id: u64, reason: &str) -> Vec<u8> {
    let reason = quoted(reason);
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id},\"reason\":{reason}}}}}\n"
    )
    .into_bytes()
}

fn push_method(line: &mut Vec<u8>, method: &str) {
    line.extend_from_slice(b",\"method\":");
    // Nearly every method is plain text, and this is the hot path.
    if scan::is_plain(method) {
        line.push(b'"');
        line.extend_from_slice(method.as_bytes());
        line.push(b'"');
    } else {
        line.extend_from_slice(quoted(method).as_bytes());
    }
    line.extend_from_slice(b",\"params\":");
}

fn push_params(line: &mut Vec<u8>, params: &Params<'_>, meta: Meta<'_>) -> Result<(), String> {
    let (stamp, token) = match meta {
        Meta::Stamped { stamp, token } => (stamp, token),
        Meta::Plain { token } => return push_plain(line, params, token),
        Meta::Verbatim => {
            push_flat(line, params.text);
            return Ok(());
        }
    };
    match params.meta {
        None => {
            line.extend_from_slice(stamp.opening.as_bytes());
            push_token(line, token);
            let rest = &params.text[1..];
            let is_empty = rest.trim_ascii_start() == b"}";
            line.extend_from_slice(if is_empty { b"}" } else { b"}," });
            push_flat(line, rest);
        }
        Some(span) => {
            push_flat(line, &params.text[..span.start as usize]);
            line.extend_from_slice(&stamp.opening.as_bytes()[Stamp::KEY.len()..]);
            for (key, value) in pairs(span.of(params.text))? {
                let minted = token.is_some() && key == KEY_TOKEN;
                if !stamp.wins_over(&key) && !minted {
                    line.push(b',');
                    line.extend_from_slice(quoted(&key).as_bytes());
                    line.push(b':');
                    push_flat(line, value.get().as_bytes());
                }
            }
            push_token(line, token);
            line.push(b'}');
            push_flat(line, &params.text[span.end as usize..]);
        }
    }
    Ok(())
}

/// Params with a minted token and nothing else of the library's.
fn push_plain(line: &mut Vec<u8>, params: &Params<'_>, token: &str) -> Result<(), String> {
    let (before, meta, behind) = match params.meta {
        Some(span) => {
            let (start, end) = (span.start as usize, span.end as usize);
            (&params.text[..start], span.of(params.text), &params.text[end..])
        }
        None => (&b"{\"_meta\":"[..], &b"{}"[..], &params.text[1..]),
    };
    push_flat(line, before);
    line.extend_from_slice(b"{\"progressToken\":");
    line.extend_from_slice(token.as_bytes());
    for (key, value) in pairs(meta)? {
        if key != KEY_TOKEN {
            line.push(b',');
            line.extend_from_slice(quoted(&key).as_bytes());
            line.push(b':');
            push_flat(line, value.get().as_bytes());
        }
    }
    line.push(b'}');
    if params.meta.is_none() && behind.trim_ascii_start() != b"}" {
        line.push(b',');
    }
    push_flat(line, behind);
    Ok(())
}

fn push_token(line: &mut Vec<u8>, token: Option<&str>) {
    if let Some(token) = token {
        line.extend_from_slice(b",\"progressToken\":");
        line.extend_from_slice(token.as_bytes());
    }
}

/// Appends JSON text with its line breaks turned into spaces. They only stand between tokens: inside a string JSON does not
/// allow them, and the text was checked.
pub fn push_flat(line: &mut Vec<u8>, text: &[u8]) {
    let from = line.len();
    line.extend_from_slice(text);
    if scan::has_control(text) {
        for byte in &mut line[from..] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
}

/// The pairs of a JSON object in their order, values as they stand.
pub fn pairs(object: &[u8]) -> Result<Vec<(Cow<'_, str>, &RawValue)>, String> {
    let mut all = Vec::new();
    each_pair(object, |key, value| all.push((key, value)))?;
    Ok(all)
}

/// The value of a key of a JSON object, the last one if it stands there twice. Nothing else of the object is kept.
pub fn member<'a>(object: &'a [u8], name: &str) -> Option<&'a RawValue> {
    let mut found = None;
    each_pair(object, |key, value| {
        if key == name {
            found = Some(value);
        }
    })
    .ok()?;
    found
}

/// The text of a key of a JSON object whose value is a string.
pub fn text_member(object: &[u8], name: &str) -> Option<String> {
    serde_json::from_str(member(object, name)?.get()).ok()
}

/// Shows each pair of a JSON object, in their order.
pub fn each_pair<'a>(object: &'a [u8], each: impl FnMut(Cow<'a, str>, &'a RawValue)) -> Result<(), String> {
    struct InOrder<F>(F);
    impl<'de, F: FnMut(Cow<'de, str>, &'de RawValue)> Visitor<'de> for InOrder<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
            while let Some((key, value)) = map.next_entry()? {
                (self.0)(key, value);
            }
            Ok(())
        }
    }
    serde_json::Deserializer::from_slice(object)
        .deserialize_map(InOrder(each))
        .map_err(|error| format!("\"_meta\" of params: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn stamp() -> Stamp {
        Stamp::new("2026-07-28", Some(r#"{"name":"t","version":"1"}"#), "{}", None)
    }

    fn built(params: &str, token: Option<&str>) -> String {
        let params = Params::check(params.as_bytes()).unwrap();
        let line = request_line(7, "tools/list", &params, Meta::Stamped { stamp: &stamp(), token }).unwrap();
        String::from_utf8(line).unwrap()
    }

    fn meta(params: &str, token: Option<&str>) -> Value {
        serde_json::from_str::<Value>(&built(params, token)).unwrap()["params"]["_meta"].clone()
    }

    const STAMPED: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}"#;

    #[test]
    fn r01_params_are_embedded_byte_for_byte() {
        let tail = r#""n":1.10,"big":18446744073709551616,"n":2 }"#;
        assert_eq!(
            built(&format!("{{ {tail}"), None),
            format!(
                r#"{{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{{"_meta":{{{STAMPED}}}, {tail}}}{}"#,
                "\n"
            )
        );
        for empty in ["", "{}", "{ }", " {\n} "] {
            assert_eq!(
                serde_json::from_str::<Value>(&built(empty, None)).unwrap()["params"].as_object().unwrap().len(),
                1
            );
        }
    }

    #[test]
    fn r01_line_breaks_between_tokens_become_spaces() {
        let line = built("{\"a\":\r\n[1,\n2],\"s\":\"\\n\"}", None);
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.contains("\"a\":  [1, 2],\"s\":\"\\n\"}"), "{line}");
        assert!(Params::check(b"{\"a\":\"\n\"}").is_err(), "a raw one inside a string");
    }

    #[test]
    fn r01_meta_is_merged_and_the_lifecycle_keys_win() {
        let merged = meta(
            r#"{"a":1,"_meta":{"traceparent":"00-1","io.modelcontextprotocol/protocolVersion":"1999","x":[1.50]},"b":2}"#,
            None,
        );
        assert_eq!(
            merged,
            json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
                "traceparent": "00-1",
                "x": [1.5],
            })
        );
        let line = built(r#"{"_meta":{"x":[1.50]}}"#, None);
        assert!(line.contains("\"x\":[1.50]"), "values stay as they are: {line}");
        let without = Stamp::new("2026-07-28", None, "{}", None);
        let params = Params::check(br#"{"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"h"},"io.modelcontextprotocol/logLevel":"info"}}"#).unwrap();
        let line = request_line(1, "a", &params, Meta::Stamped { stamp: &without, token: None }).unwrap();
        let line: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(line["params"]["_meta"]["io.modelcontextprotocol/clientInfo"], json!({"name": "h"}));
        assert_eq!(line["params"]["_meta"]["io.modelcontextprotocol/logLevel"], "info");
    }

    #[test]
    fn r01_escaped_meta_keys_are_known() {
        let merged = meta(r#"{"\u005fmeta":{"io.modelcontextprotocol\/protocolVersion":"1999"}}"#, None);
        assert_eq!(merged["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(merged.as_object().unwrap().len(), 3);
    }

    #[test]
    fn r01_what_is_refused() {
        for bad in [
            "[]",
            "null",
            "1",
            "{",
            "{}x",
            r#"{"a":01}"#,
            r#"{"_meta":1}"#,
            r#"{"_meta":null}"#,
            r#"{"_meta":{},"_meta":{}}"#,
            r#"{"_meta":{},"\u005fmeta":{}}"#,
            r#"{"_meta":{"progressToken":1.5}}"#,
            r#"{"_meta":{"progressToken":null}}"#,
            "\u{feff}{}",
        ] {
            assert!(Params::check(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(Params::check(b"{\"a\":\"\xff\"}").is_err());
    }

    #[test]
    fn r10_a_token_is_put_in() {
        assert_eq!(meta("{}", Some("\"progress-1\""))["progressToken"], "progress-1");
        assert_eq!(meta(r#"{"_meta":{"x":1}}"#, Some("\"progress-1\""))["progressToken"], "progress-1");
        assert_eq!(meta(r#"{"_meta":{"progressToken":"mine"}}"#, None)["progressToken"], "mine");
    }

    #[test]
    fn t01_continuations_are_known() {
        let is = |text: &str| Params::check(text.as_bytes()).unwrap().is_continuation;
        assert!(is(r#"{"inputResponses":{}}"#) && is(r#"{"requestState":"s"}"#) && is(r#"{"requestState":""}"#));
        assert!(
            !is("{}") && !is(r#"{"inputResponses":null,"requestState":null}"#) && !is(r#"{"x":{"requestState":"s"}}"#)
        );
    }

    #[test]
    fn r01_ids_are_written_in_decimal() {
        let powers = (0..20).map(|n| 10_u64.pow(n));
        for number in powers.flat_map(|p| [p - 1, p, p + 1, p + p / 7]).chain([42, u64::MAX]) {
            let mut line = Vec::new();
            push_number(&mut line, number);
            assert_eq!(line, number.to_string().into_bytes());
        }
    }

    #[test]
    fn methods_and_reasons_are_quoted() {
        let params = Params::check(b"{}").unwrap();
        let mut line = Vec::new();
        push_notification(&mut line, "a\"b\u{1}", &params).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&line).unwrap()["method"], "a\"b\u{1}");
        let line = cancel_line(3, "no \"more\"");
        let line: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(line["params"], json!({"requestId": 3, "reason": "no \"more\""}));
    }
}
