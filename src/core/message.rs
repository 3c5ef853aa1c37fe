//! What one line is: which kind of JSON-RPC message, and where its parts lie. Rules W2, W4 and the shapes of R6, R11 and Z1.
//! The parts are offsets into the line; nothing is decoded and nothing is copied.

use super::era::{Revision, Spoken};
use super::framing::Frame;
use crate::scan::{self, Checks, DefectKind, Envelope, Id, Seen, Span, Top};

/// How the ids of the library's own requests begin (R6).
pub const OWN_ID: &str = "mcp-supervised-";

/// The kinds of MESSAGE events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// A result.
    Result,
    /// An error answered by the server.
    RemoteError,
    /// A notification.
    Notification,
    /// A request of the server.
    Request,
    /// An answer to nothing the library knows of; in raw mode an array.
    Unmatched,
}

/// Where the parts of a message lie in its line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts {
    /// The method, without its quotes.
    pub method: Option<Span>,
    /// The value of `params`, `result` or `error`.
    pub body: Option<Span>,
    /// The id, a string with its quotes.
    pub id: Option<Span>,
    /// `error.code`, 0 if there is none.
    pub error_code: i64,
}

/// What became of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// A message for the host.
    Message(MessageKind, Parts),
    /// A message that a server of this revision must not send.
    Forbidden(Parts),
    /// An array of messages, in the revision that has them (Z6).
    Batch,
    /// No message.
    Malformed {
        /// Why.
        reason: String,
        /// The line ends in the middle of a document.
        cut: bool,
    },
}

/// Reads one line of a server. Whatever becomes of it, `envelope` holds what was found of one.
pub fn read_line(frame: &Frame, spoken: Spoken, grammar_bytes: usize, envelope: &mut Envelope) -> Reading {
    read(frame.bytes(), frame.seen(), spoken, grammar_bytes, envelope)
}

fn read(line: &[u8], seen: Seen, spoken: Spoken, grammar_bytes: usize, envelope: &mut Envelope) -> Reading {
    let checks = if line.len() <= grammar_bytes { Checks::Grammar } else { Checks::Structure };
    if let Err(defect) = scan::scan_into(line, seen, checks, envelope) {
        let cut = defect.kind == DefectKind::Truncated;
        return Reading::Malformed { reason: format!("not JSON: {defect}"), cut };
    }
    match shape(envelope) {
        Err(reason) => match (envelope.top, spoken) {
            (Top::Array, Spoken::Raw) => Reading::Message(MessageKind::Unmatched, Parts::default()),
            (Top::Array, Spoken::Legacy(Revision::Mar2025)) => Reading::Batch,
            _ => Reading::Malformed { reason: reason.to_owned(), cut: false },
        },
        Ok((MessageKind::Request, parts)) if spoken == Spoken::Modern => Reading::Forbidden(parts),
        Ok((kind, parts)) => Reading::Message(kind, parts),
    }
}

/// The JSON-RPC shape of an envelope, or why it has none.
fn shape(e: &Envelope) -> Result<(MessageKind, Parts), &'static str> {
    match e.top {
        Top::Object => {}
        Top::Array => return Err("a batch array, which this revision does not have"),
        Top::Other => return Err("JSON, but not a JSON-RPC message: not an object"),
    }
    if e.duplicate_key {
        return Err("a key of the JSON-RPC envelope stands in it twice");
    }
    if !e.jsonrpc_2 {
        return Err("JSON, but not a JSON-RPC message: \"jsonrpc\" is not \"2.0\"");
    }
    let usable_id = matches!(e.id, Id::Integer(_) | Id::String);
    let mut parts = Parts { method: e.method, id: e.id_span, ..Parts::default() };
    if e.method.is_some() {
        if e.result.is_some() || e.error.is_some() {
            return Err("a JSON-RPC envelope with a method beside a result or an error");
        }
        if !e.method_is_string {
            return Err("a JSON-RPC envelope whose method is not a string");
        }
        parts.body = e.params;
        return match e.id {
            Id::Absent => Ok((MessageKind::Notification, parts)),
            _ if usable_id => Ok((MessageKind::Request, parts)),
            _ => Err("a JSON-RPC request whose id is neither a string nor an integer"),
        };
    }
    match (e.result, e.error) {
        (Some(_), Some(_)) => Err("a JSON-RPC envelope with a result beside an error"),
        (Some(result), None) if usable_id => {
            parts.body = Some(result);
            Ok((MessageKind::Result, parts))
        }
        (Some(_), None) => Err("a JSON-RPC result whose id is neither a string nor an integer"),
        (None, Some(error)) if e.error_is_object => {
            parts.body = Some(error);
            parts.error_code = e.error_code.unwrap_or(0);
            Ok((MessageKind::RemoteError, parts))
        }
        (None, Some(_)) => Err("a JSON-RPC error that is not an object"),
        (None, None) => Err("JSON, but not a JSON-RPC message: neither method nor result nor error"),
    }
}

/// Checks a line the host wants to send as it is and brings it into one line: R2, R11. Line breaks between tokens become
/// spaces; inside strings JSON does not allow them. Returns the line with its LF.
pub fn outgoing_line(text: &[u8], spoken: Spoken, outbound_bytes: usize) -> Result<Vec<u8>, String> {
    let text = text.trim_ascii();
    if text.len() >= outbound_bytes {
        return Err(format!(
            "the line has {} bytes with its line feed; outbound_bytes is {outbound_bytes}",
            text.len() + 1
        ));
    }
    let envelope = scan::scan(text, Checks::Grammar).map_err(|defect| format!("the line is not JSON: {defect}"))?;
    if spoken == Spoken::Raw && envelope.top == Top::Array {
        return Ok(one_line(text));
    }
    let (kind, _) = shape(&envelope).map_err(|reason| format!("the line is refused: {reason}"))?;
    if spoken != Spoken::Raw {
        match kind {
            MessageKind::Notification => {}
            MessageKind::Request if is_own(&envelope, text) => {
                return Err("an id that begins with \"mcp-supervised-\" is the library's own".to_owned());
            }
            MessageKind::Request if envelope.id == Id::String && !spells_integer(&envelope, text) => {}
            MessageKind::Request => {
                return Err(
                    "the id of a request passed to send must be a string that does not spell an integer: integers are \
                            the library's own"
                        .to_owned(),
                );
            }
            _ => {
                return Err(
                    "send takes requests and notifications, never answers: a request of the server is answered with \
                            mcp_supervised_respond"
                        .to_owned(),
                );
            }
        }
    }
    Ok(one_line(text))
}

fn one_line(text: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(text.len() + 1);
    line.extend(text.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    line.push(b'\n');
    line
}

/// Whether the string id looks like those of the library's own requests.
fn is_own(envelope: &Envelope, text: &[u8]) -> bool {
    let id = envelope.id_span.and_then(|id| serde_json::from_slice::<String>(id.of(text)).ok());
    id.is_some_and(|id| id.starts_with(OWN_ID))
}

/// Whether the string id reads as a whole number, which the library would take for one of its own (R6). Escaped digits
/// count: a server may answer with the same string spelled plainly.
fn spells_integer(envelope: &Envelope, text: &[u8]) -> bool {
    let Some(id) = envelope.id_span else {
        return false;
    };
    let Ok(id) = serde_json::from_slice::<String>(id.of(text)) else {
        // A lone surrogate: no digit either way.
        return false;
    };
    let digits = id.strip_prefix(['-', '+']).unwrap_or(&id);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_line(line: &[u8], spoken: Spoken, grammar_bytes: usize) -> Reading {
        read(line, Seen::NOTHING, spoken, grammar_bytes, &mut Envelope::default())
    }

    fn kind(line: &str, spoken: Spoken) -> Option<MessageKind> {
        match read_line(line.as_bytes(), spoken, 1 << 16) {
            Reading::Message(kind, _) => Some(kind),
            _ => None,
        }
    }

    #[test]
    fn w02_lines_that_are_no_message() {
        for line in [
            "Server started v1.2",
            "\u{1b}[32mINFO \u{1b}[0m ready",
            "{not json",
            r#"{"status":200,"message":"Success"}"#,
            "null",
            "42",
            "\"text\"",
            "{}",
            "true",
            "[]",
            r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#,
            r#"{"jsonrpc":"2.0"}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"1.0","id":1,"result":{}}"#,
            r#"{"id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
            r#"{"jsonrpc":"2.0","method":"a","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"a","error":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"\u0069d":2,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
            r#"{"jsonrpc":"2.0","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#,
            r#"{"jsonrpc":"2.0","method":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":"bad"}"#,
            "{\"jsonrpc\":\"2.0\",\"method\":\"a\0b\"}",
        ] {
            let reading = read_line(line.as_bytes(), Spoken::Modern, 1 << 16);
            assert!(matches!(reading, Reading::Malformed { .. }), "{line}: {reading:?}");
            let raw = read_line(line.as_bytes(), Spoken::Raw, 1 << 16);
            assert_eq!(matches!(raw, Reading::Malformed { .. }), !line.starts_with('['), "{line}: {raw:?}");
        }
    }

    #[test]
    fn z01_raw_tells_shapes() {
        use MessageKind::*;
        for (line, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Result),
            (r#"{"jsonrpc":"2.0","id":"a","result":null}"#, Result),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601}}"#, RemoteError),
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}"#, RemoteError),
            (r#"{"jsonrpc":"2.0","error":{"code":-32700}}"#, RemoteError),
            (r#"{"jsonrpc":"2.0","method":"a"}"#, Notification),
            (r#"{"jsonrpc":"2.0","method":"a","params":{}}"#, Notification),
            (r#"{"jsonrpc":"2.0","id":0,"method":"a"}"#, Request),
            ("[1]", Unmatched),
        ] {
            assert_eq!(kind(line, Spoken::Raw), Some(expected), "{line}");
        }
    }

    #[test]
    fn z04_a_modern_server_sends_no_requests() {
        let request = br#"{"jsonrpc":"2.0","id":0,"method":"roots/list"}"#;
        assert!(matches!(read_line(request, Spoken::Modern, 1 << 16), Reading::Forbidden(_)));
    }

    #[test]
    fn z06_only_one_revision_has_batches() {
        let line = br#"[{"jsonrpc":"2.0","method":"a"}]"#;
        for revision in Revision::ALL {
            let reading = read_line(line, Spoken::Legacy(revision), 1 << 16);
            assert_eq!(reading == Reading::Batch, revision == Revision::Mar2025, "{revision:?}: {reading:?}");
        }
        assert_eq!(
            kind(r#"{"jsonrpc":"2.0","id":0,"method":"a"}"#, Spoken::Legacy(Revision::NEWEST)),
            Some(MessageKind::Request)
        );
    }

    #[test]
    fn w04_parts_are_raw_slices() {
        let line = br#" {"id" : "a\u0062" , "jsonrpc":"2.0","error": {"code":-32601,"message":"x"} } "#;
        let Reading::Message(MessageKind::RemoteError, parts) = read_line(line, Spoken::Raw, 1 << 16) else {
            panic!("a remote error");
        };
        assert_eq!(parts.error_code, -32601);
        assert_eq!(parts.id.map(|s| s.of(line)), Some(&br#""a\u0062""#[..]));
        assert_eq!(parts.body.map(|s| s.of(line)), Some(&br#"{"code":-32601,"message":"x"}"#[..]));
    }

    #[test]
    fn w04_grammar_bytes_says_how_far_the_whole_grammar_is_checked() {
        let sloppy = br#"{"jsonrpc":"2.0","id":1,"result":{"a":{"b":01}}}"#;
        assert!(matches!(read_line(sloppy, Spoken::Raw, sloppy.len()), Reading::Malformed { .. }));
        assert!(matches!(read_line(sloppy, Spoken::Raw, sloppy.len() - 1), Reading::Message(..)));
    }

    #[test]
    fn r11_what_send_takes() {
        let out = |text: &str, spoken| outgoing_line(text.as_bytes(), spoken, 1 << 16);
        let request = r#"{"jsonrpc":"2.0","id":"list-1","method":"tools/list"}"#;
        assert_eq!(out(request, Spoken::Modern), Ok([request.as_bytes(), b"\n"].concat()));
        let spread = "\r\n{\"jsonrpc\":\"2.0\",\n\"method\":\"a\\n\"\r\n}\n";
        assert_eq!(out(spread, Spoken::Modern), Ok(b"{\"jsonrpc\":\"2.0\", \"method\":\"a\\n\"  }\n".to_vec()));
        for refused in [
            r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":"1","method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":"\u0031","method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":"-12","method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":"a","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":"mcp-supervised-1","method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":"mcp\u002dsupervised-x","method":"a"}"#,
            "[]",
        ] {
            assert!(out(refused, Spoken::Modern).is_err(), "{refused}");
            assert!(out(refused, Spoken::Raw).is_ok(), "{refused}");
        }
        for never in ["", " ", "{", "{}", "nonsense", "{\"jsonrpc\":\"2.0\",\"method\":\"a\nb\"}", "\u{feff}{}"] {
            assert!(out(never, Spoken::Modern).is_err(), "{never}");
            assert!(out(never, Spoken::Raw).is_err(), "{never}");
        }
    }

    #[test]
    fn r02_a_line_that_can_never_fit_is_refused() {
        let text = br#"{"jsonrpc":"2.0","method":"a"}"#;
        assert!(outgoing_line(text, Spoken::Raw, text.len()).is_err());
        assert!(outgoing_line(text, Spoken::Raw, text.len() + 1).is_ok());
    }
}
