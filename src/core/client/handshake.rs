//! How a connection comes to serve, as far as it is about words: the lines of the probe and of the older handshake, and what the
//! answers to them mean. Rules Z1, Z5 and Z7; `docs/eras.md` has the table. When which line is written is not decided here.

use super::Client;
use super::known::{Known, named_versions, supported_versions};
use super::methods::DISCOVER;
use super::wire::Wire;
use crate::core::era::{Revision, is_modern};
use crate::core::log::escape_into;
use crate::core::message::{MessageKind, OWN_ID, Parts};
use crate::core::stamp::{self, Meta, PROTOCOL_VERSION, Params, quoted, text_member};

/// The code by which a server refuses a protocol version.
pub const UNSUPPORTED_VERSION: i64 = -32022;
/// Bytes of a server's words that are repeated in an error.
const SHOWN: usize = 300;

/// What a server's answer to a request of the handshake is.
#[derive(Debug, Clone, Copy)]
pub enum Answered<'a> {
    /// The result.
    Result(&'a [u8]),
    /// The error object, and its code.
    Error(i64, &'a [u8]),
    /// Something that cannot be understood.
    Nonsense,
}

impl<'a> Answered<'a> {
    /// Of a message that is an answer.
    pub fn of(kind: MessageKind, parts: &Parts, line: &'a [u8]) -> Self {
        match (kind, parts.body) {
            (MessageKind::Result, Some(body)) => Self::Result(body.of(line)),
            (MessageKind::RemoteError, Some(body)) => Self::Error(parts.error_code, body.of(line)),
            _ => Self::Nonsense,
        }
    }

    /// The versions that an error says the server speaks.
    fn supported(self) -> Vec<String> {
        match self {
            Self::Error(_, body) => supported_versions(body),
            _ => Vec::new(),
        }
    }
}

/// What the answer to the probe means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The server speaks the present revision.
    Modern(Box<Known>),
    /// It has to be tried with the handshake of the older ones.
    Legacy,
    /// It names our version although it refused it: once more.
    Again,
    /// It is of the present era and has no version in common with us; the text says so.
    Foreign(String),
}

/// Judges the answer to the probe.
pub fn judge_probe(reply: Answered<'_>) -> Verdict {
    let (versions, known) = match reply {
        Answered::Result(result) => (named_versions(result), Known::read_leniently(result)),
        Answered::Error(UNSUPPORTED_VERSION, _) => (reply.supported(), None),
        // Any other error: servers of the older revisions answer with every code there is.
        Answered::Error(..) | Answered::Nonsense => return Verdict::Legacy,
    };
    if versions.iter().any(|version| version == PROTOCOL_VERSION) {
        return match (reply, known) {
            (Answered::Error(..), _) => Verdict::Again,
            (_, Some(known)) => Verdict::Modern(Box::new(known)),
            (_, None) => Verdict::Legacy,
        };
    }
    // Having refused ours with the error of the present era it must not be asked for an older one. One that answers, and names a
    // revision of the older era as what it speaks too, offers it.
    let offered =
        matches!(reply, Answered::Result(_)) && versions.iter().any(|version| Revision::of(version).is_some());
    if !offered && versions.iter().any(|version| is_modern(version)) {
        let mut text = "the server speaks no version that is spoken here: ".to_owned();
        escape_into(&mut text, versions.join(", ").as_bytes(), SHOWN);
        return Verdict::Foreign(text);
    }
    Verdict::Legacy
}

/// What the answer to "initialize" means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Welcome {
    /// The session is open.
    Open {
        /// In this revision.
        revision: Revision,
        /// What the server said of itself.
        known: Box<Known>,
    },
    /// The server refuses the version and names another one that is spoken here.
    Offer(Revision),
    /// It does not know the handshake: it is of the present era.
    Modern(String),
    /// It did not work; the text says why.
    Failed(String),
}

/// Judges the answer to "initialize", which offered a revision.
pub fn judge_initialize(reply: Answered<'_>, offered: Revision) -> Welcome {
    match reply {
        Answered::Result(result) => {
            let Some(version) = text_member(result, "protocolVersion") else {
                return Welcome::Failed("the answer to initialize names no protocol version".to_owned());
            };
            match (Revision::of(&version), Known::of_initialize(result, &version)) {
                (Some(revision), Some(known)) => Welcome::Open { revision, known: Box::new(known) },
                _ => {
                    let mut text = "the server wants a protocol version that is not spoken here: ".to_owned();
                    escape_into(&mut text, version.as_bytes(), SHOWN);
                    Welcome::Failed(text)
                }
            }
        }
        Answered::Error(code, body) => {
            let mut text = format!("the server refused initialize with the error {code}: ");
            escape_into(&mut text, text_member(body, "message").unwrap_or_default().as_bytes(), SHOWN);
            let versions = reply.supported();
            let other = Revision::ALL.into_iter().find(|revision| versions.iter().any(|v| v == revision.text()));
            if let Some(other) = other.filter(|other| *other != offered) {
                return Welcome::Offer(other);
            }
            if !versions.is_empty() {
                text += "; it speaks ";
                escape_into(&mut text, versions.join(", ").as_bytes(), SHOWN);
            }
            if code == UNSUPPORTED_VERSION { Welcome::Modern(text) } else { Welcome::Failed(text) }
        }
        Answered::Nonsense => Welcome::Failed("the answer to initialize is no JSON-RPC answer".to_owned()),
    }
}

impl Client {
    /// The id of the next request of the library's own. They are strings, which no host's request has (R6).
    pub(super) fn own_id(&mut self) -> String {
        self.own += 1;
        format!("{OWN_ID}{}", self.own)
    }

    /// Asks what the server can do, and with it whether it speaks the present revision. Gives the request's id.
    pub fn discover(&mut self, wire: &mut Wire<'_>) -> String {
        let id = self.own_id();
        let meta = Meta::Stamped { stamp: &self.stamp, token: None };
        if let Ok(line) = stamp::own_request_line(&id, DISCOVER, &Params::empty(), meta) {
            wire.push(line);
        }
        id
    }

    /// Begins the handshake of the older revisions. Gives the request's id.
    pub fn initialize(&mut self, wire: &mut Wire<'_>, offer: Revision) -> String {
        let id = self.own_id();
        // These revisions demand a name.
        let unnamed = concat!("{\"name\":\"mcp-supervised\",\"version\":\"", env!("CARGO_PKG_VERSION"), "\"}");
        wire.push(
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"initialize\",\"params\":{{\"protocolVersion\":\"{}\",\
                 \"capabilities\":{},\"clientInfo\":{}}}}}\n",
                quoted(&id),
                offer.text(),
                self.policy.capabilities,
                self.policy.client_info.as_deref().unwrap_or(unnamed),
            )
            .into_bytes(),
        );
        id
    }

    /// A ping that came during the handshake is answered; nothing else may be written before it is over.
    pub fn pong(&self, wire: &mut Wire<'_>, id: &[u8]) {
        wire.reply([b"{\"jsonrpc\":\"2.0\",\"id\":", id, b",\"result\":{}}\n"].concat());
    }

    /// The connection speaks the present revision, and the server said `known` of itself. Says whether that is something else
    /// than before.
    pub fn speaks_modern(&mut self, known: Known) -> bool {
        self.legacy = None;
        self.learn(known)
    }

    /// Keeps what the server said of itself; says whether that was something else before.
    pub(super) fn learn(&mut self, known: Known) -> bool {
        let changed = self.known.as_ref().is_some_and(|before| before.differs_from(&known));
        self.known = Some(known);
        self.stale = false;
        changed
    }

    /// The library's own discover of a later life was answered. Says whether the server is another than before.
    pub fn rediscovered(&mut self, reply: Answered<'_>) -> Result<bool, &'static str> {
        if let Answered::Error(code, _) = reply {
            self.doubts_era(code);
        }
        let Answered::Result(result) = reply else { return Err("the server answered with an error") };
        let known = Known::read(result).ok_or("it does not say what the server can do")?;
        Ok(self.learn(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: i64, data: &str) -> Verdict {
        judge_probe(Answered::Error(code, format!(r#"{{"code":{code},"message":"m","data":{data}}}"#).as_bytes()))
    }

    fn result(text: &str) -> Verdict {
        judge_probe(Answered::Result(text.as_bytes()))
    }

    #[test]
    fn z01_the_answers_to_the_probe() {
        assert!(matches!(result(r#"{"supportedVersions":["2026-07-28"],"capabilities":{}}"#), Verdict::Modern(_)));
        let all = r#"{"supportedVersions":["2024-11-05","2025-11-25","2026-07-28"],"capabilities":{"tools":{}}}"#;
        assert!(matches!(result(all), Verdict::Modern(_)));
        assert!(matches!(result(r#"{"supportedVersions":["2026-07-28"]}"#), Verdict::Modern(_)));
        for legacy in [
            "{}",
            "[]",
            "null",
            r#"{"capabilities":{}}"#,
            r#"{"supportedVersions":"2026-07-28"}"#,
            r#"{"supportedVersions":[1]}"#,
            r#"{"supportedVersions":[]}"#,
            r#"{"supportedVersions":["2025-11-25","2024-11-05"],"capabilities":{}}"#,
            r#"{"supportedVersions":["2027-01-01","2025-11-25"],"capabilities":{}}"#,
        ] {
            assert_eq!(result(legacy), Verdict::Legacy, "{legacy}");
        }
        for foreign in [r#"["2027-01-01"]"#, r#"["2027-01-01","2024-01-01"]"#] {
            let text = format!(r#"{{"supportedVersions":{foreign},"capabilities":{{}}}}"#);
            assert!(matches!(result(&text), Verdict::Foreign(_)), "{text}");
        }

        for code in [-32601, -32602, -32600, -32700, -32603, 0, -32020, -32021, -32000, 1] {
            assert_eq!(error(code, r#"{"supported":["2026-07-28"]}"#), Verdict::Legacy, "{code}");
        }
        assert_eq!(error(-32022, r#"{"supported":["2026-07-28","2025-11-25"]}"#), Verdict::Again);
        assert_eq!(error(-32022, r#"{"supported":["2025-11-25"]}"#), Verdict::Legacy);
        assert_eq!(error(-32022, "{}"), Verdict::Legacy);
        assert_eq!(error(-32022, r#"{"supported":[]}"#), Verdict::Legacy);
        let Verdict::Foreign(text) = error(-32022, r#"{"supported":["2027-01-01","2025-11-25"]}"#) else {
            panic!("it is modern");
        };
        assert!(text.contains("2027-01-01"), "{text}");
        assert_eq!(judge_probe(Answered::Nonsense), Verdict::Legacy);
    }

    #[test]
    fn z05_the_answers_to_initialize() {
        let judge = |text: &str| judge_initialize(Answered::Result(text.as_bytes()), Revision::NEWEST);
        for revision in Revision::ALL {
            let text = format!(
                r#"{{"protocolVersion":"{}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"a"}}}}"#,
                revision.text()
            );
            let Welcome::Open { revision: found, known } = judge(&text) else { panic!("{text}") };
            assert_eq!((found, known.server_info.as_str()), (revision, r#"{"name":"a"}"#));
        }
        assert!(matches!(judge(r#"{"protocolVersion":"2025-11-25"}"#), Welcome::Open { .. }), "it may say nothing");
        for bad in [
            r#"{"protocolVersion":"2026-07-28"}"#,
            r#"{"protocolVersion":"x"}"#,
            r#"{"protocolVersion":1}"#,
            "{}",
            "[]",
        ] {
            assert!(matches!(judge(bad), Welcome::Failed(_)), "{bad}");
        }

        let refused = |code: i64, data: &str| {
            let body = format!(r#"{{"code":{code},"message":"no \u001b such","data":{data}}}"#);
            judge_initialize(Answered::Error(code, body.as_bytes()), Revision::NEWEST)
        };
        assert_eq!(refused(-32602, r#"{"supported":["2024-11-05","2025-06-18"]}"#), Welcome::Offer(Revision::Jun2025));
        let Welcome::Failed(text) = refused(-32602, r#"{"supported":["2025-11-25","1999-01-01"]}"#) else {
            panic!("it was offered that");
        };
        assert!(text.contains("-32602: no \\x1b such; it speaks 2025-11-25, 1999-01-01"), "{text}");
        assert!(matches!(refused(-32022, r#"{"supported":["2026-07-28"]}"#), Welcome::Modern(_)));
        assert!(matches!(refused(-32022, "{}"), Welcome::Modern(_)));
        assert!(matches!(refused(-32603, "null"), Welcome::Failed(_)));
    }
}
