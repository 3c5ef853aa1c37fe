//! Why the core refuses a call. A refusal changes nothing.

/// The answer to a call that was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The id names no peer of this handle, or one that was removed.
    #[error("no such peer: the id is unknown or the peer was removed")]
    NoPeer,
    /// The peer was not started yet.
    #[error("the peer was not started")]
    NotStarted,
    /// The peer was started before.
    #[error("the peer was started already")]
    AlreadyStarted,
    /// The peer is closed, or has no connection that could take the call right now.
    #[error("{0}")]
    Closed(&'static str),
    /// `remove` of a peer whose last event was not handed out yet.
    #[error("the peer is not closed yet: close it and take its FINAL event first")]
    NotClosed,
    /// A queue is full; a WRITABLE event tells when to go on.
    #[error("{queued} of {limit} outbound bytes are queued and the line has {line}: wait for WRITABLE")]
    WouldBlock {
        /// Bytes that wait to be written.
        queued: usize,
        /// The peer's `outbound_bytes`.
        limit: usize,
        /// Bytes of the refused line, its line feed included.
        line: usize,
    },
    /// Too many requests are under way; a WRITABLE event tells when to go on.
    #[error("{limit} requests and streams are under way, which is max_in_flight: wait for WRITABLE")]
    TooMany {
        /// The peer's `max_in_flight`.
        limit: usize,
    },
    /// The id names no request or stream that is under way.
    #[error("no such request: the id is unknown or its completion is queued or was handed out")]
    NoRequest,
    /// The server has said that it cannot do that.
    #[error("the server does not have the capability {capability}, which {method} needs")]
    Lacks {
        /// What was asked for.
        method: String,
        /// What it needs.
        capability: &'static str,
    },
    /// An argument has a value that cannot be used; the text names it.
    #[error("{0}")]
    Invalid(String),
    /// The call does not exist in the peer's mode.
    #[error("{0}")]
    Unsupported(&'static str),
}

impl Refusal {
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::Invalid(text.into())
    }
}
