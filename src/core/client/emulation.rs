//! What a server of an older revision does not know and a host asks all the same: `server/discover`, and streams, whose
//! acknowledgements and ends are made here in the shape of the present revision (Z3). Pure texts; `legacy.rs` says when.

use super::known::Known;
use crate::core::framing::Frame;
use crate::core::message::{MessageKind, Parts};
use crate::core::stamp::quoted;
use crate::scan::{self, Checks};

/// What a stream can ask for beside resources, and the notification that tells of it.
pub const KINDS: [Kind; 3] = [
    Kind { field: "toolsListChanged", capability: "tools", notification: "notifications/tools/list_changed" },
    Kind { field: "promptsListChanged", capability: "prompts", notification: "notifications/prompts/list_changed" },
    Kind {
        field: "resourcesListChanged",
        capability: "resources",
        notification: "notifications/resources/list_changed",
    },
];

/// A list that can change.
#[derive(Debug)]
pub struct Kind {
    /// Its field in a filter.
    pub field: &'static str,
    /// The capability that has to declare `listChanged`.
    pub capability: &'static str,
    /// What the server sends.
    pub notification: &'static str,
}

/// A message the library made: its line and where its parts lie.
pub fn made(kind: MessageKind, line: String) -> (Parts, Frame) {
    let frame = Frame::made(line.into_bytes());
    let mut parts = Parts::default();
    if let Ok(envelope) = scan::scan(frame.bytes(), Checks::Structure) {
        parts.id = envelope.id_span;
        parts.method = envelope.method;
        parts.error_code = envelope.error_code.unwrap_or(0);
        parts.body = match kind {
            MessageKind::Result => envelope.result,
            MessageKind::RemoteError => envelope.error,
            _ => envelope.params,
        };
    }
    (parts, frame)
}

/// The answer to `server/discover`, from what the server said in the handshake.
pub fn discovered(id: u64, known: &Known) -> String {
    let capabilities = if known.capabilities.is_empty() { "{}" } else { &known.capabilities };
    let versions = if known.versions.is_empty() { "[]" } else { &known.versions };
    let mut line = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"resultType\":\"complete\",\"supportedVersions\":{versions},\"capabilities\":{capabilities}"
    );
    if !known.instructions.is_empty() {
        line += &format!(",\"instructions\":{}", known.instructions);
    }
    line += ",\"ttlMs\":0,\"cacheScope\":\"private\"";
    if !known.server_info.is_empty() {
        line += &format!(",\"_meta\":{{\"io.modelcontextprotocol/serverInfo\":{}}}", known.server_info);
    }
    line + "}}"
}

/// The acknowledgement of a stream: the kinds and the URIs that were accepted.
pub fn acknowledged(stream: u64, kinds: [bool; 3], uris: &[&str]) -> String {
    let mut accepted: Vec<String> = KINDS
        .iter()
        .zip(kinds)
        .filter(|(_, accepted)| *accepted)
        .map(|(kind, _)| format!("\"{}\":true", kind.field))
        .collect();
    if !uris.is_empty() {
        let uris: Vec<String> = uris.iter().map(|uri| quoted(uri)).collect();
        accepted.push(format!("\"resourceSubscriptions\":[{}]", uris.join(",")));
    }
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{{\"_meta\":\
         {{\"io.modelcontextprotocol/subscriptionId\":{stream}}},\"notifications\":{{{}}}}}}}",
        accepted.join(",")
    )
}

/// The end of a stream of which the server accepted nothing, with the error it gave.
pub fn refused(stream: u64, error: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{stream},\"error\":{error}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn z03_what_is_made_has_its_parts_where_they_lie() {
        let line = acknowledged(7, [true, false, true], &["a\"b"]);
        let (parts, frame) = made(MessageKind::Notification, line);
        let of =
            |span: Option<scan::Span>| span.map(|span| String::from_utf8_lossy(span.of(frame.bytes())).into_owned());
        assert_eq!(of(parts.method).as_deref(), Some("notifications/subscriptions/acknowledged"));
        assert_eq!(
            of(parts.body).as_deref(),
            Some(
                r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a\"b"]}}"#
            )
        );
        assert_eq!(frame.with_nul().last(), Some(&0));

        let (parts, frame) = made(MessageKind::RemoteError, refused(3, r#"{"code":-32002,"message":"x"}"#));
        assert_eq!(parts.error_code, -32002);
        assert_eq!(parts.body.map(|span| span.of(frame.bytes())), Some(&br#"{"code":-32002,"message":"x"}"#[..]));
        assert_eq!(parts.id.map(|span| span.of(frame.bytes())), Some(&b"3"[..]));

        let (parts, frame) = made(MessageKind::Result, discovered(9, &Known::default()));
        assert!(parts.body.is_some_and(|span| span.of(frame.bytes()).starts_with(b"{\"resultType\":\"complete\"")));
    }
}
