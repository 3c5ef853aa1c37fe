//! Status codes: one space of integers for every function, and the one place where the errors of the layers below become codes.

use std::ffi::{CStr, c_char};

use crate::core::error::Refusal;
use crate::reactor::Error;

/// What a function returns: 0 or a positive number is success, a negative one is an error. Values never change their meaning;
/// new ones may be added, so treat an unknown negative number as an error.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum mcp_supervised_status {
    /// Success.
    MCP_SUPERVISED_OK = 0,
    /// A pointer that must not be NULL is NULL, or a text is NULL with a length other than 0.
    MCP_SUPERVISED_E_NULL = -1,
    /// An argument has a value that cannot be used; mcp_supervised_last_error names it.
    MCP_SUPERVISED_E_INVALID = -2,
    /// The pointer is no handle: it was freed, or never was one. Best effort.
    MCP_SUPERVISED_E_BAD_HANDLE = -3,
    /// Another thread is inside a function of this handle. Nothing was done.
    MCP_SUPERVISED_E_BUSY = -4,
    /// The handle was made before a fork and this is the child. Only mcp_supervised_free is of use here.
    MCP_SUPERVISED_E_FORKED = -5,
    /// A bug inside the library was caught. The handle answers nothing else from now on; free it.
    MCP_SUPERVISED_E_PANIC = -6,
    /// The peer id is unknown, or the peer was removed.
    MCP_SUPERVISED_E_NO_PEER = -7,
    /// The peer was not started yet.
    MCP_SUPERVISED_E_NOT_STARTED = -8,
    /// The peer was started before.
    MCP_SUPERVISED_E_ALREADY_STARTED = -9,
    /// The peer, or the whole handle, is closed, or there is no connection right now.
    MCP_SUPERVISED_E_CLOSED = -10,
    /// The peer is not over yet: its event with MCP_SUPERVISED_FLAG_FINAL was not handed out.
    MCP_SUPERVISED_E_NOT_CLOSED = -11,
    /// A queue is full. A MCP_SUPERVISED_EVENT_WRITABLE event tells when to go on.
    MCP_SUPERVISED_E_WOULD_BLOCK = -12,
    /// This peer, mode or system cannot do that.
    MCP_SUPERVISED_E_UNSUPPORTED = -13,
    /// A process could not be spawned; the text says whether it was the command, the directory or something else.
    MCP_SUPERVISED_E_SPAWN = -14,
    /// A system call failed.
    MCP_SUPERVISED_E_IO = -15,
    /// A line of the server is no JSON-RPC message. Only as the status of an event.
    MCP_SUPERVISED_E_MALFORMED = -16,
    /// A line of the server is over the limit. Only as the status of an event.
    MCP_SUPERVISED_E_FRAME_TOO_LARGE = -17,
    /// A message the server must not send. Only as the status of an event.
    MCP_SUPERVISED_E_PROTOCOL = -18,
    /// A life of the server ended before it served. Only as the status of an event.
    MCP_SUPERVISED_E_HANDSHAKE = -19,
    /// A request was not answered in time. Only as the status of an event.
    MCP_SUPERVISED_E_TIMEOUT = -20,
    /// A request or a stream was cancelled. Only as the status of an event.
    MCP_SUPERVISED_E_CANCELLED = -21,
    /// The restart budget is spent. Only as the status of an event.
    MCP_SUPERVISED_E_EXHAUSTED = -22,
    /// No request or stream of that id is under way: it is unknown, or its completion is queued or was handed out.
    MCP_SUPERVISED_E_NO_REQUEST = -23,
    /// The host did not keep up with a stream, which ended for that. Only as the status of an event.
    MCP_SUPERVISED_E_DELIVERY_DROPPED = -24,
}

pub use mcp_supervised_status::*;

/// Every code with its name, in the order of the codes.
pub const NAMES: [(mcp_supervised_status, &CStr); 25] = [
    (MCP_SUPERVISED_OK, c"OK"),
    (MCP_SUPERVISED_E_NULL, c"E_NULL"),
    (MCP_SUPERVISED_E_INVALID, c"E_INVALID"),
    (MCP_SUPERVISED_E_BAD_HANDLE, c"E_BAD_HANDLE"),
    (MCP_SUPERVISED_E_BUSY, c"E_BUSY"),
    (MCP_SUPERVISED_E_FORKED, c"E_FORKED"),
    (MCP_SUPERVISED_E_PANIC, c"E_PANIC"),
    (MCP_SUPERVISED_E_NO_PEER, c"E_NO_PEER"),
    (MCP_SUPERVISED_E_NOT_STARTED, c"E_NOT_STARTED"),
    (MCP_SUPERVISED_E_ALREADY_STARTED, c"E_ALREADY_STARTED"),
    (MCP_SUPERVISED_E_CLOSED, c"E_CLOSED"),
    (MCP_SUPERVISED_E_NOT_CLOSED, c"E_NOT_CLOSED"),
    (MCP_SUPERVISED_E_WOULD_BLOCK, c"E_WOULD_BLOCK"),
    (MCP_SUPERVISED_E_UNSUPPORTED, c"E_UNSUPPORTED"),
    (MCP_SUPERVISED_E_SPAWN, c"E_SPAWN"),
    (MCP_SUPERVISED_E_IO, c"E_IO"),
    (MCP_SUPERVISED_E_MALFORMED, c"E_MALFORMED"),
    (MCP_SUPERVISED_E_FRAME_TOO_LARGE, c"E_FRAME_TOO_LARGE"),
    (MCP_SUPERVISED_E_PROTOCOL, c"E_PROTOCOL"),
    (MCP_SUPERVISED_E_HANDSHAKE, c"E_HANDSHAKE"),
    (MCP_SUPERVISED_E_TIMEOUT, c"E_TIMEOUT"),
    (MCP_SUPERVISED_E_CANCELLED, c"E_CANCELLED"),
    (MCP_SUPERVISED_E_EXHAUSTED, c"E_EXHAUSTED"),
    (MCP_SUPERVISED_E_NO_REQUEST, c"E_NO_REQUEST"),
    (MCP_SUPERVISED_E_DELIVERY_DROPPED, c"E_DELIVERY_DROPPED"),
];

/// The name of a status without its prefix, for example "E_SPAWN"; "?" for a number that is none. Static text,
/// NUL-terminated, never NULL: nobody frees it.
#[unsafe(no_mangle)]
pub extern "C" fn mcp_supervised_status_name(status: i32) -> *const c_char {
    let name = NAMES.iter().find(|(code, _)| *code as i32 == status).map_or(c"?", |(_, name)| *name);
    name.as_ptr()
}

/// A failed call: its code, and the text that `last_error` gives.
#[derive(Debug)]
pub struct Failure {
    /// The code.
    pub status: mcp_supervised_status,
    /// The text.
    pub text: String,
}

impl Failure {
    /// A NULL where there must be none.
    pub fn null(what: &str) -> Self {
        Self { status: MCP_SUPERVISED_E_NULL, text: format!("{what} is NULL") }
    }

    /// A value that cannot be used.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self { status: MCP_SUPERVISED_E_INVALID, text: text.into() }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let status = match refusal {
            Refusal::NoPeer => MCP_SUPERVISED_E_NO_PEER,
            Refusal::NotStarted => MCP_SUPERVISED_E_NOT_STARTED,
            Refusal::AlreadyStarted => MCP_SUPERVISED_E_ALREADY_STARTED,
            Refusal::Closed(_) => MCP_SUPERVISED_E_CLOSED,
            Refusal::NotClosed => MCP_SUPERVISED_E_NOT_CLOSED,
            Refusal::WouldBlock { .. } | Refusal::TooMany { .. } => MCP_SUPERVISED_E_WOULD_BLOCK,
            Refusal::NoRequest => MCP_SUPERVISED_E_NO_REQUEST,
            Refusal::Invalid(_) => MCP_SUPERVISED_E_INVALID,
            Refusal::Unsupported(_) | Refusal::Lacks { .. } => MCP_SUPERVISED_E_UNSUPPORTED,
        };
        Self { status, text: refusal.to_string() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(refusal) => refusal.into(),
            Error::Spawn(error) => Self { status: MCP_SUPERVISED_E_SPAWN, text: error.to_string() },
            Error::System(error) => Self { status: MCP_SUPERVISED_E_IO, text: error.to_string() },
            Error::Io { .. } => Self { status: MCP_SUPERVISED_E_IO, text: error.to_string() },
        }
    }
}
