//! The one public struct: an event, flat, and how it is written into the host's array.

use std::ffi::c_char;
use std::mem::size_of;
use std::ptr;

use super::config::mcp_supervised_log_level;
use super::status::*;
use crate::core::era::Spoken;
use crate::core::event::{Close, CloseReason, Event, Exit, Fault, HandleEvent, Serving, To, Trouble, flag};
use crate::core::framing::Frame;
use crate::core::message::{MessageKind, Parts};
use crate::core::supervisor::Told;
use crate::core::time::to_ms;
use crate::scan::Span;

/// What an event is about. Ignore kinds you do not know: later versions add some.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum mcp_supervised_event_kind {
    /// A message of the server: `message_kind`, `method`, `body`, `id`, `error_code`, and the whole line as `payload`. With
    /// `request` it belongs to a request or a stream: its answer (MCP_SUPERVISED_FLAG_COMPLETE), its progress, its
    /// notifications.
    MCP_SUPERVISED_EVENT_MESSAGE = 1,
    /// A connection ended: `status` is a mcp_supervised_close_reason, `exit_code` or `signal`, `pid`, `life`, `uptime_ms`,
    /// `unread_from`; the last lines of stderr as `payload`. With MCP_SUPERVISED_FLAG_WILL_RECONNECT a replacement is coming:
    /// `attempt` of `max_restarts`, in `delay_ms`.
    MCP_SUPERVISED_EVENT_CLOSE = 2,
    /// A replacement serves: `pid`, `life`, `attempt`, `era`, and the protocol version as `payload`. Never for the first life.
    /// Retained requests and open streams are on their way to it already.
    MCP_SUPERVISED_EVENT_RECONNECT = 3,
    /// Something went wrong: `status`, and the text as `payload` (for MCP_SUPERVISED_E_PROTOCOL without a request, the
    /// server's line). With `request` that request or stream ended without an answer (MCP_SUPERVISED_FLAG_COMPLETE). With
    /// MCP_SUPERVISED_E_SPAWN a replacement could not be spawned, with MCP_SUPERVISED_E_HANDSHAKE a life did not come to serve, with
    /// the server's words; MCP_SUPERVISED_FLAG_WILL_RECONNECT tells of the next try.
    MCP_SUPERVISED_EVENT_ERROR = 4,
    /// The restart budget is spent: `max_restarts`. The peer is closed.
    MCP_SUPERVISED_EVENT_EXHAUSTED = 5,
    /// The first life serves: `pid`, `life`, `era`, and the protocol version as `payload`. Not in MCP_SUPERVISED_MODE_MODERN and
    /// MCP_SUPERVISED_MODE_RAW, where start itself says so.
    MCP_SUPERVISED_EVENT_READY = 6,
    /// CLOSE is about to follow. After mcp_supervised_close the connection still takes last words until the next poll.
    MCP_SUPERVISED_EVENT_DRAIN = 7,
    /// A log line as `payload`: `status` is a mcp_supervised_log_level, `count` the lines dropped before it.
    MCP_SUPERVISED_EVENT_LOG = 8,
    /// There is room again after MCP_SUPERVISED_E_WOULD_BLOCK.
    MCP_SUPERVISED_EVENT_WRITABLE = 9,
    /// mcp_supervised_wakeup was called, at least once. Of the handle: `peer` is 0.
    MCP_SUPERVISED_EVENT_WAKEUP = 11,
    /// After mcp_supervised_shutdown every peer is closed. Of the handle: `peer` is 0.
    MCP_SUPERVISED_EVENT_SHUTDOWN = 12,
}

pub use mcp_supervised_event_kind::*;

/// What kind of message a MCP_SUPERVISED_EVENT_MESSAGE is.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum mcp_supervised_message_kind {
    /// A result; `body` is the value of "result".
    MCP_SUPERVISED_MESSAGE_RESULT = 1,
    /// An error the server answered; `body` is the error object, `error_code` its code.
    MCP_SUPERVISED_MESSAGE_REMOTE_ERROR = 2,
    /// A notification; `body` is the value of "params". With a token as its `request`, which is larger than the id of any request or
    /// stream, it is the "notifications/cancelled" by which a server takes back what it has asked.
    MCP_SUPERVISED_MESSAGE_NOTIFICATION = 3,
    /// A request of the server; `body` is the value of "params". On a server of a revision before 2026-07-28 `request` is the
    /// token by which mcp_supervised_respond answers it; in raw mode it is 0.
    MCP_SUPERVISED_MESSAGE_REQUEST = 4,
    /// An answer to nothing the library knows of, as after mcp_supervised_send; `body` is its result or its error object and
    /// `error_code` 0 for a result. In raw mode a JSON array.
    MCP_SUPERVISED_MESSAGE_UNMATCHED = 5,
}

pub use mcp_supervised_message_kind::*;

/// Why a connection closed: the `status` of a MCP_SUPERVISED_EVENT_CLOSE.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum mcp_supervised_close_reason {
    /// It ended unasked.
    MCP_SUPERVISED_CLOSE_PEER_LOST = 1,
    /// mcp_supervised_close or mcp_supervised_shutdown asked for it.
    MCP_SUPERVISED_CLOSE_CLOSED_BY_HOST = 2,
    /// There was no connection: the replacement that was promised does not come.
    MCP_SUPERVISED_CLOSE_WITHDRAWN = 3,
}

pub use mcp_supervised_close_reason::*;

/// Which era a connection speaks: the `era` of READY and RECONNECT. 0, in raw mode, is none.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum mcp_supervised_era {
    /// MCP 2026-07-28.
    MCP_SUPERVISED_ERA_MODERN = 1,
    /// A revision before it, with a handshake.
    MCP_SUPERVISED_ERA_LEGACY = 2,
}

pub use mcp_supervised_era::*;

/// Of an event with a `request`: that request or stream is over, and its `user_data` will not be seen again.
pub const MCP_SUPERVISED_FLAG_COMPLETE: u32 = 1u32 << 0;
/// Of an event: it is the last one of its peer, and mcp_supervised_remove is possible now. Of SHUTDOWN: it is the last one of all
/// peers; only WAKEUP can follow.
pub const MCP_SUPERVISED_FLAG_FINAL: u32 = 1u32 << 1;
/// Of a CLOSE or ERROR: a replacement is coming.
pub const MCP_SUPERVISED_FLAG_WILL_RECONNECT: u32 = 1u32 << 2;
/// Of a completion: the request was sent again after a restart. The dead server may have done its work too.
pub const MCP_SUPERVISED_FLAG_RETRIED: u32 = 1u32 << 3;
/// Of a completion with E_CLOSED or E_EXHAUSTED: the dead server cannot have read a byte of the request, so even a tools/call is safe to repeat.
pub const MCP_SUPERVISED_FLAG_UNREAD: u32 = 1u32 << 4;
/// Of a result: the server asks for more input. Answer with a new request of the same method and params that carries
/// `inputResponses` and the `requestState` as it came.
pub const MCP_SUPERVISED_FLAG_INPUT_REQUIRED: u32 = 1u32 << 5;
/// Of a result: its `resultType` is that of an extension which the client capabilities declare.
pub const MCP_SUPERVISED_FLAG_OTHER_RESULT_TYPE: u32 = 1u32 << 6;
/// Of a MESSAGE: the library made it, because a server of an older revision does not know what was asked: the answer to
/// server/discover, and what a stream gets beside the server's own notifications.
pub const MCP_SUPERVISED_FLAG_EMULATED: u32 = 1u32 << 7;
/// Of a RECONNECT: version, capabilities or serverInfo are not what they were.
pub const MCP_SUPERVISED_FLAG_SERVER_CHANGED: u32 = 1u32 << 8;
/// Of the end of a stream with E_CANCELLED: the server ended it.
pub const MCP_SUPERVISED_FLAG_BY_PEER: u32 = 1u32 << 9;
/// Of a CLOSE or ERROR: how the process ended could not be found out, because somebody else in the program has fetched its status.
/// `exit_code` is -1 and `signal` 0 then.
pub const MCP_SUPERVISED_FLAG_EXIT_UNKNOWN: u32 = 1u32 << 10;

/// One event. Fields that an event does not use are 0 or NULL. Ignore flags you do not know.
///
/// `payload`, `method`, `body` and `id` point into memory of the handle. They are valid until the next call of
/// mcp_supervised_poll or mcp_supervised_free on the handle; no other call ends them. `payload` is UTF-8 and is followed by a
/// NUL that is not counted in its length. The other three are pieces of it as they stand in the server's line: `method`
/// without its quotes and with its escapes, `id` and `body` as raw JSON; they are not followed by a NUL.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct mcp_supervised_event {
    /// A mcp_supervised_event_kind.
    pub kind: u32,
    /// MCP_SUPERVISED_FLAG_ bits.
    pub flags: u32,
    /// The mcp_supervised_peer, 0 for events of the handle.
    pub peer: u64,
    /// The `user_data` given to mcp_supervised_add.
    pub peer_data: u64,
    /// The request or stream the event belongs to; 0 for none.
    pub request: u64,
    /// What the host gave with that request or stream.
    pub user_data: u64,
    /// A mcp_supervised_status; for CLOSE a mcp_supervised_close_reason, for LOG a mcp_supervised_log_level.
    pub status: i32,
    /// A mcp_supervised_message_kind, of MESSAGE events.
    pub message_kind: u32,
    /// The code of the server's error object; 0 if it has none that fits.
    pub error_code: i64,
    /// The exit code of the process; -1 in a CLOSE, or an ERROR with E_SPAWN or E_HANDSHAKE, if it did not exit by itself or there
    /// was no process.
    pub exit_code: i32,
    /// The signal that ended the process, 0 if none did.
    pub signal: i32,
    /// The process id, 0 if there is none.
    pub pid: i32,
    /// Which connection of the peer, counted from 1.
    pub life: u32,
    /// Which restart of its window, counted from 1; 0 for none.
    pub attempt: u32,
    /// The configured maximum of restarts per window; MCP_SUPERVISED_UNLIMITED as it is, 0 for MCP_SUPERVISED_NO_RESTART.
    pub max_restarts: u32,
    /// Milliseconds from this event to the spawn of the replacement.
    pub delay_ms: u64,
    /// Milliseconds from the spawn to this event.
    pub uptime_ms: u64,
    /// LOG: lines dropped before this one.
    pub count: u64,
    /// CLOSE: the first number given by mcp_supervised_send of which the dead server cannot have read a byte; 0 if there is
    /// none, or if that cannot be known, as after the end of stdin was asked for.
    pub unread_from: u64,
    /// READY and RECONNECT: a mcp_supervised_era, 0 in raw mode.
    pub era: u32,
    /// Reserved, 0.
    pub reserved: u32,
    /// Text or line, NUL-terminated.
    pub payload: *const c_char,
    /// Its length in bytes.
    pub payload_len: usize,
    /// The method of a message.
    pub method: *const c_char,
    /// Its length in bytes.
    pub method_len: usize,
    /// The result, the params or the error object of a message.
    pub body: *const c_char,
    /// Its length in bytes.
    pub body_len: usize,
    /// The id of a message, a string with its quotes.
    pub id: *const c_char,
    /// Its length in bytes.
    pub id_len: usize,
}

/// The smallest event a host can ask for: the size it had in the first version, which does not change when fields are added.
pub const EVENT_SIZE: usize = 120 + 4 * (size_of::<*const c_char>() + size_of::<usize>());

const _: () = assert!(EVENT_SIZE <= size_of::<mcp_supervised_event>() && EVENT_SIZE.is_multiple_of(8));

/// What the payload of an event that was handed out points into.
#[derive(Debug)]
pub enum Held {
    /// A line of a server.
    Frame(Frame),
    /// A text, with a NUL behind it.
    Text(Box<[u8]>),
}

/// An event with nothing in it.
pub const EMPTY: mcp_supervised_event = mcp_supervised_event {
    kind: 0,
    flags: 0,
    peer: 0,
    peer_data: 0,
    request: 0,
    user_data: 0,
    status: 0,
    message_kind: 0,
    error_code: 0,
    exit_code: 0,
    signal: 0,
    pid: 0,
    life: 0,
    attempt: 0,
    max_restarts: 0,
    delay_ms: 0,
    uptime_ms: 0,
    count: 0,
    unread_from: 0,
    era: 0,
    reserved: 0,
    payload: ptr::null(),
    payload_len: 0,
    method: ptr::null(),
    method_len: 0,
    body: ptr::null(),
    body_len: 0,
    id: ptr::null(),
    id_len: 0,
};

/// Flattens an event into one that is `EMPTY`. What its payload points into is put into `held`.
#[inline]
pub fn flatten(told: Told, out: &mut mcp_supervised_event, held: &mut Vec<Held>) {
    let (id, data, queued) = match told {
        Told::Handle(HandleEvent::Wakeup) => {
            out.kind = MCP_SUPERVISED_EVENT_WAKEUP as u32;
            return;
        }
        Told::Handle(HandleEvent::Shutdown) => {
            out.kind = MCP_SUPERVISED_EVENT_SHUTDOWN as u32;
            out.flags = MCP_SUPERVISED_FLAG_FINAL;
            return;
        }
        Told::Peer { id, data, queued } => (id, data, queued),
    };
    out.peer = id.raw();
    out.peer_data = data;
    if queued.is_final {
        out.flags |= MCP_SUPERVISED_FLAG_FINAL;
    }
    match queued.event {
        Event::Message { kind, parts, frame, to } => {
            set_to(out, to);
            out.kind = MCP_SUPERVISED_EVENT_MESSAGE as u32;
            out.message_kind = match kind {
                MessageKind::Result => MCP_SUPERVISED_MESSAGE_RESULT,
                MessageKind::RemoteError => MCP_SUPERVISED_MESSAGE_REMOTE_ERROR,
                MessageKind::Notification => MCP_SUPERVISED_MESSAGE_NOTIFICATION,
                MessageKind::Request => MCP_SUPERVISED_MESSAGE_REQUEST,
                MessageKind::Unmatched => MCP_SUPERVISED_MESSAGE_UNMATCHED,
            } as u32;
            set_frame(out, parts, frame, held);
        }
        Event::Failed(failed) => {
            out.kind = MCP_SUPERVISED_EVENT_ERROR as u32;
            out.status = status_of(failed.fault) as i32;
            set_to(out, failed.to);
            set_text(out, failed.text, held);
        }
        Event::Forbidden { parts, frame } => {
            out.kind = MCP_SUPERVISED_EVENT_ERROR as u32;
            out.status = MCP_SUPERVISED_E_PROTOCOL as i32;
            set_frame(out, parts, frame, held);
        }
        Event::Ready(serving) => set_serving(out, MCP_SUPERVISED_EVENT_READY, serving, held),
        Event::Reconnect(serving) => set_serving(out, MCP_SUPERVISED_EVENT_RECONNECT, serving, held),
        Event::Drain { .. } => out.kind = MCP_SUPERVISED_EVENT_DRAIN as u32,
        Event::Close(close) => set_close(out, *close, held),
        Event::Error(trouble) => set_trouble(out, *trouble, held),
        Event::Exhausted { max_restarts } => {
            out.kind = MCP_SUPERVISED_EVENT_EXHAUSTED as u32;
            out.max_restarts = max_restarts;
        }
        Event::Writable => out.kind = MCP_SUPERVISED_EVENT_WRITABLE as u32,
        Event::Log(line) => {
            out.kind = MCP_SUPERVISED_EVENT_LOG as u32;
            out.status = mcp_supervised_log_level::from(line.level) as i32;
            out.count = line.dropped;
            set_text(out, line.text, held);
        }
    }
}

fn set_close(out: &mut mcp_supervised_event, close: Close, held: &mut Vec<Held>) {
    out.kind = MCP_SUPERVISED_EVENT_CLOSE as u32;
    out.status = match close.reason {
        CloseReason::PeerLost => MCP_SUPERVISED_CLOSE_PEER_LOST,
        CloseReason::ClosedByHost => MCP_SUPERVISED_CLOSE_CLOSED_BY_HOST,
        CloseReason::Withdrawn => MCP_SUPERVISED_CLOSE_WITHDRAWN,
    } as i32;
    set_exit(out, close.exit);
    out.pid = close.pid;
    out.life = close.life;
    out.uptime_ms = to_ms(close.uptime);
    out.max_restarts = close.max_restarts;
    out.unread_from = close.unread_from;
    if let Some(promise) = close.promise {
        out.flags |= MCP_SUPERVISED_FLAG_WILL_RECONNECT;
        out.attempt = promise.attempt;
        out.delay_ms = to_ms(promise.delay);
    }
    if let Some(tail) = close.stderr_tail {
        set_text(out, tail, held);
    }
}

fn set_trouble(out: &mut mcp_supervised_event, trouble: Trouble, held: &mut Vec<Held>) {
    out.kind = MCP_SUPERVISED_EVENT_ERROR as u32;
    out.status = status_of(trouble.fault) as i32;
    if matches!(trouble.fault, Fault::Spawn | Fault::Handshake) {
        set_exit(out, trouble.exit);
    }
    out.pid = trouble.pid;
    out.life = trouble.life;
    if let Some(promise) = trouble.promise {
        out.flags |= MCP_SUPERVISED_FLAG_WILL_RECONNECT;
        out.attempt = promise.attempt;
        out.delay_ms = to_ms(promise.delay);
    }
    set_text(out, trouble.text, held);
}

fn status_of(fault: Fault) -> mcp_supervised_status {
    match fault {
        Fault::Spawn => MCP_SUPERVISED_E_SPAWN,
        Fault::Handshake => MCP_SUPERVISED_E_HANDSHAKE,
        Fault::Malformed => MCP_SUPERVISED_E_MALFORMED,
        Fault::FrameTooLarge => MCP_SUPERVISED_E_FRAME_TOO_LARGE,
        Fault::Protocol => MCP_SUPERVISED_E_PROTOCOL,
        Fault::Io => MCP_SUPERVISED_E_IO,
        Fault::Closed => MCP_SUPERVISED_E_CLOSED,
        Fault::Timeout => MCP_SUPERVISED_E_TIMEOUT,
        Fault::Cancelled => MCP_SUPERVISED_E_CANCELLED,
        Fault::Exhausted => MCP_SUPERVISED_E_EXHAUSTED,
        Fault::DeliveryDropped => MCP_SUPERVISED_E_DELIVERY_DROPPED,
    }
}

/// The bits of the core are those of the boundary, so that they cross it as they are.
const _: () = assert!(
    flag::COMPLETE == MCP_SUPERVISED_FLAG_COMPLETE
        && flag::RETRIED == MCP_SUPERVISED_FLAG_RETRIED
        && flag::UNREAD == MCP_SUPERVISED_FLAG_UNREAD
        && flag::INPUT_REQUIRED == MCP_SUPERVISED_FLAG_INPUT_REQUIRED
        && flag::OTHER_RESULT_TYPE == MCP_SUPERVISED_FLAG_OTHER_RESULT_TYPE
        && flag::EMULATED == MCP_SUPERVISED_FLAG_EMULATED
        && flag::BY_PEER == MCP_SUPERVISED_FLAG_BY_PEER
);

fn set_to(out: &mut mcp_supervised_event, to: To) {
    out.request = to.request;
    out.user_data = to.user_data;
    out.flags |= to.flags;
}

fn set_exit(out: &mut mcp_supervised_event, exit: Option<Exit>) {
    out.exit_code = -1;
    match exit {
        Some(Exit::Code(code)) => out.exit_code = code,
        Some(Exit::Signal(signal)) => out.signal = signal,
        Some(Exit::Unknown) => out.flags |= MCP_SUPERVISED_FLAG_EXIT_UNKNOWN,
        None => {}
    }
}

fn set_serving(
    out: &mut mcp_supervised_event,
    kind: mcp_supervised_event_kind,
    serving: Serving,
    held: &mut Vec<Held>,
) {
    out.kind = kind as u32;
    out.pid = serving.pid;
    out.life = serving.life;
    out.attempt = serving.attempt;
    out.era = match serving.spoken {
        Spoken::Raw => 0,
        Spoken::Modern => MCP_SUPERVISED_ERA_MODERN as u32,
        Spoken::Legacy(_) => MCP_SUPERVISED_ERA_LEGACY as u32,
    };
    if serving.changed {
        out.flags |= MCP_SUPERVISED_FLAG_SERVER_CHANGED;
    }
    if let Some(version) = serving.spoken.version() {
        set_text(out, version.to_owned(), held);
    }
}

fn set_frame(out: &mut mcp_supervised_event, parts: Parts, frame: Frame, held: &mut Vec<Held>) {
    let line = frame.with_nul();
    let slice = |span: Option<Span>| match span {
        Some(span) => {
            let piece = span.of(line);
            (piece.as_ptr().cast(), piece.len())
        }
        None => (ptr::null(), 0),
    };
    out.payload = line.as_ptr().cast();
    out.payload_len = line.len() - 1;
    (out.method, out.method_len) = slice(parts.method);
    (out.body, out.body_len) = slice(parts.body);
    (out.id, out.id_len) = slice(parts.id);
    out.error_code = parts.error_code;
    held.push(Held::Frame(frame));
}

fn set_text(out: &mut mcp_supervised_event, text: String, held: &mut Vec<Held>) {
    let mut bytes = text.into_bytes();
    out.payload_len = bytes.len();
    bytes.push(0);
    let bytes = bytes.into_boxed_slice();
    out.payload = bytes.as_ptr().cast();
    held.push(Held::Text(bytes));
}

/// Writes an event into the host's array, whose elements have the size that the host was compiled with: one that was compiled
/// with an older header gets the fields it knows, the rest of a larger one is zeroed (H5).
///
/// # Safety
///
/// `at` names `size` writable bytes, aligned as an event is, and `size` is at least `EVENT_SIZE`.
#[inline]
pub unsafe fn write(told: Told, held: &mut Vec<Held>, at: *mut u8, size: usize) {
    const OURS: usize = size_of::<mcp_supervised_event>();
    if size >= OURS {
        let element = at.cast::<mcp_supervised_event>();
        // SAFETY: the caller's promise: it can be written, and is large enough and aligned.
        unsafe { element.write(EMPTY) };
        // SAFETY: as above, and it holds an event now. Nobody else looks at the array during the call.
        flatten(told, unsafe { &mut *element }, held);
        // SAFETY: `size` bytes can be written, and the first of them have been.
        unsafe { at.add(OURS).write_bytes(0, size - OURS) };
    } else {
        let mut event = EMPTY;
        flatten(told, &mut event, held);
        // SAFETY: ours is the longer one, and a local of the library.
        unsafe { ptr::copy_nonoverlapping(ptr::from_ref(&event).cast::<u8>(), at, size) };
    }
}
