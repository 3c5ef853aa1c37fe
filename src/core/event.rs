//! What a host is told, in Rust terms. The C boundary turns these into its flat struct.

use super::era::Spoken;
use super::error::Refusal;
use super::framing::Frame;
use super::log::Level;
use super::message::{MessageKind, Parts};

/// How a connection's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It is gone, and somebody else has taken its status.
    Unknown,
}

/// Why a connection closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// It ended unasked.
    PeerLost,
    /// The host asked for it.
    ClosedByHost,
    /// There was no connection: the replacement that was promised will not come.
    Withdrawn,
}

/// The replacement a CLOSE promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// Number of this restart in its window.
    pub attempt: u32,
    /// From this event to the spawn, in nanoseconds.
    pub delay: u64,
}

/// A connection ended, or a replacement was withdrawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Close {
    /// Why.
    pub reason: CloseReason,
    /// How the process ended; `None` where there was none.
    pub exit: Option<Exit>,
    /// Its pid, 0 where there was none.
    pub pid: i32,
    /// Number of the connection.
    pub life: u32,
    /// From spawn to this event, in nanoseconds.
    pub uptime: u64,
    /// What comes next, if anything.
    pub promise: Option<Promise>,
    /// The configured maximum of restarts per window.
    pub max_restarts: u32,
    /// First line number passed to `send` that the server cannot have read, 0 if there is none.
    pub unread_from: u64,
    /// The last lines of stderr.
    pub stderr_tail: Option<String>,
}

/// What went wrong, as the `status` of an ERROR event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A replacement could not be spawned.
    Spawn,
    /// A life ended before it served.
    Handshake,
    /// A line is no message.
    Malformed,
    /// A line is over the limit; the connection ends.
    FrameTooLarge,
    /// A message the server must not send.
    Protocol,
    /// Reading from the server failed; the connection ends.
    Io,
    /// The connection that carried a request is gone, or the peer is closed.
    Closed,
    /// A request took too long.
    Timeout,
    /// A request or a stream was cancelled.
    Cancelled,
    /// The restart budget is spent.
    Exhausted,
    /// The host did not keep up with a stream.
    DeliveryDropped,
}

/// Bits of what a host is told about a request or a stream.
pub mod flag {
    /// The request or stream is over.
    pub const COMPLETE: u32 = 1 << 0;
    /// The request was sent again after a restart: the server may have done its work twice.
    pub const RETRIED: u32 = 1 << 3;
    /// The dead server cannot have read a byte of the request.
    pub const UNREAD: u32 = 1 << 4;
    /// The server needs more input before it answers.
    pub const INPUT_REQUIRED: u32 = 1 << 5;
    /// The result is of a type of an extension.
    pub const OTHER_RESULT_TYPE: u32 = 1 << 6;
    /// The library made it for a server that does not know what was asked.
    pub const EMULATED: u32 = 1 << 7;
    /// The server did it, not the host.
    pub const BY_PEER: u32 = 1 << 9;
}

/// The request or stream an event belongs to; 0 is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct To {
    /// Its id.
    pub request: u64,
    /// What the host gave with it.
    pub user_data: u64,
    /// `flag` bits.
    pub flags: u32,
}

/// A request or a stream that ended without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Which.
    pub to: To,
    /// Why.
    pub fault: Fault,
    /// In words.
    pub text: String,
}

/// A fact about a peer that is not an answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What went wrong.
    pub fault: Fault,
    /// In words.
    pub text: String,
    /// How the failed life ended.
    pub exit: Option<Exit>,
    /// Number of the connection, or of the one that could not be made.
    pub life: u32,
    /// Its pid, 0 where there is none.
    pub pid: i32,
    /// The next try, after a failed life.
    pub promise: Option<Promise>,
}

/// A connection that serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Serving {
    /// Its process.
    pub pid: i32,
    /// Its number.
    pub life: u32,
    /// Which restart of its window brought it, 0 for the first life.
    pub attempt: u32,
    /// What it speaks.
    pub spoken: Spoken,
    /// Version, capabilities or serverInfo are not what they were.
    pub changed: bool,
}

/// A line of the server's stderr, or of the library itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Whose, and how bad.
    pub level: Level,
    /// The line, escaped.
    pub text: String,
    /// Lines that were dropped before it.
    pub dropped: u64,
}

/// One event of one peer.
#[derive(Debug, Clone)]
pub enum Event {
    /// A message of the server.
    Message {
        /// Which kind.
        kind: MessageKind,
        /// Where its parts lie in the frame.
        parts: Parts,
        /// The line.
        frame: Frame,
        /// The request or stream it belongs to.
        to: To,
    },
    /// A request or a stream ended without an answer.
    Failed(Box<Failed>),
    /// A message the server must not send, with its line.
    Forbidden {
        /// Where its parts lie in the frame.
        parts: Parts,
        /// The line.
        frame: Frame,
    },
    /// The first life serves.
    Ready(Serving),
    /// The peer's output so far is told; a close follows.
    Drain {
        /// The next poll begins the end of the connection (L8).
        asked: bool,
    },
    /// A connection ended.
    Close(Box<Close>),
    /// A replacement serves.
    Reconnect(Serving),
    /// Something went wrong.
    Error(Box<Trouble>),
    /// The budget is spent.
    Exhausted {
        /// The configured maximum.
        max_restarts: u32,
    },
    /// Outbound room again after E_WOULD_BLOCK.
    Writable,
    /// A log line.
    Log(LogLine),
}

/// What the handle itself tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandleEvent {
    /// `wakeup` was called.
    Wakeup,
    /// Every peer is closed after `shutdown`.
    Shutdown,
}

/// The answer of a core call.
pub type Answer<T = ()> = Result<T, Refusal>;
