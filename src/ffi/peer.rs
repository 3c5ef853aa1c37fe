//! Peers: added, started, written to, closed, removed.

use std::ffi::c_char;

use super::bytes::bytes;
use super::guard::{Inner, enter, mcp_supervised};
use super::spec::mcp_supervised_spec;
use super::status::*;
use crate::core::ids::PeerId;
use crate::core::peer::StateName;

/// One supervised server inside a handle, through all its lives. 0 is none. Nothing to free, and an id never comes to mean
/// another peer: after mcp_supervised_remove it answers E_NO_PEER.
pub type mcp_supervised_peer = u64;

/// What mcp_supervised_state answers.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum mcp_supervised_peer_state {
    /// Added; or its first start failed.
    MCP_SUPERVISED_STATE_IDLE = 0,
    /// A process runs that does not serve yet. Not in the modes without a handshake.
    MCP_SUPERVISED_STATE_STARTING = 1,
    /// A connection serves.
    MCP_SUPERVISED_STATE_RUNNING = 2,
    /// The connection is ending unasked; its CLOSE is still to come.
    MCP_SUPERVISED_STATE_ENDING = 3,
    /// A replacement is on its way.
    MCP_SUPERVISED_STATE_WAITING = 4,
    /// mcp_supervised_close was called and its DRAIN was not taken: last words are accepted.
    MCP_SUPERVISED_STATE_DRAINING = 5,
    /// The connection is being ended.
    MCP_SUPERVISED_STATE_CLOSING = 6,
    /// Over for good.
    MCP_SUPERVISED_STATE_CLOSED = 7,
}

pub use mcp_supervised_peer_state::*;

impl From<StateName> for mcp_supervised_peer_state {
    fn from(name: StateName) -> Self {
        match name {
            StateName::Idle => MCP_SUPERVISED_STATE_IDLE,
            StateName::Starting => MCP_SUPERVISED_STATE_STARTING,
            StateName::Running => MCP_SUPERVISED_STATE_RUNNING,
            StateName::Ending => MCP_SUPERVISED_STATE_ENDING,
            StateName::Waiting => MCP_SUPERVISED_STATE_WAITING,
            StateName::Draining => MCP_SUPERVISED_STATE_DRAINING,
            StateName::Closing => MCP_SUPERVISED_STATE_CLOSING,
            StateName::Closed => MCP_SUPERVISED_STATE_CLOSED,
        }
    }
}

/// Adds a peer made from a spec, which is copied and judged; the caller still frees it. The environment is captured now. Nothing
/// is spawned before mcp_supervised_start. `user_data` comes back with every event of the peer. `*peer` is written on success
/// only; it names the peer until mcp_supervised_remove. Errors: E_INVALID (a value of the spec, named in the text),
/// E_UNSUPPORTED (a working directory, which this C library cannot set), E_CLOSED (after mcp_supervised_shutdown).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_add(
    handle: *mut mcp_supervised,
    spec: *const mcp_supervised_spec,
    user_data: u64,
    peer: *mut mcp_supervised_peer,
) -> i32 {
    let add = |inner: &mut Inner| {
        // SAFETY: NULL, or made by `spec_new` and not freed: the caller's promise.
        let spec = unsafe { spec.as_ref() }.ok_or_else(|| Failure::null("spec"))?.judged()?;
        if peer.is_null() {
            return Err(Failure::null("peer"));
        }
        let id = inner.reactor.add(&spec, user_data)?;
        // SAFETY: not NULL, and the caller promises that it can be written.
        unsafe { peer.write(id.raw()) };
        Ok(MCP_SUPERVISED_OK as i32)
    };
    // SAFETY: the caller's promise is passed on.
    unsafe { enter(handle, add) }
}

/// Spawns the peer's first process. Success is the answer itself; where the connection has to find out or to agree on what is
/// spoken (MCP_SUPERVISED_MODE_AUTO, the default, and MCP_SUPERVISED_MODE_LEGACY), READY tells when it serves, and what is asked
/// for before that waits. Errors: E_SPAWN (the text says what failed:
/// command, directory, descriptors; the peer stays idle, no budget is spent, and start may be called again), E_IO,
/// E_ALREADY_STARTED, E_CLOSED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_start(handle: *mut mcp_supervised, peer: mcp_supervised_peer) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        enter(handle, |inner| {
            inner.reactor.start(PeerId::from_raw(peer))?;
            Ok(MCP_SUPERVISED_OK as i32)
        })
    }
}

/// Sends one raw JSON-RPC line, without tracking it: its answer comes as a MESSAGE, and after a death nothing is sent again.
/// The text is UTF-8 and copied; a line feed is added; line breaks between its tokens become spaces. `*number`, if not NULL, gets
/// the line's number, 1, 2, ... per peer through all lives: CLOSE tells by `unread_from` which ones a dead server cannot have
/// read. It is written on success only.
///
/// Outside MCP_SUPERVISED_MODE_RAW only notifications are taken, and requests whose id is a string that spells no integer and does
/// not begin with "mcp-supervised-". A connection has to serve first: E_NOT_STARTED until READY.
/// The line may leave with the next poll; the descriptor is then readable. Errors: E_INVALID (no JSON, no JSON-RPC, longer than
/// MCP_SUPERVISED_LIMIT_OUTBOUND_BYTES), E_NOT_STARTED, E_CLOSED (also while a replacement is awaited), E_WOULD_BLOCK (try again
/// after MCP_SUPERVISED_EVENT_WRITABLE), E_UNSUPPORTED (as mcp_supervised_request: the server has said that it cannot do that).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_send(
    handle: *mut mcp_supervised,
    peer: mcp_supervised_peer,
    line: *const c_char,
    line_len: usize,
    number: *mut u64,
) -> i32 {
    let send = |inner: &mut Inner| {
        // SAFETY: the caller's promise is passed on.
        let line = unsafe { bytes("line", line, line_len) }?;
        let given = inner.reactor.send(PeerId::from_raw(peer), line)?;
        if !number.is_null() {
            // SAFETY: not NULL, and the caller promises that it can be written.
            unsafe { number.write(given) };
        }
        Ok(MCP_SUPERVISED_OK as i32)
    };
    // SAFETY: the caller's promise is passed on.
    unsafe { enter(handle, send) }
}

/// Ends a peer for good: DRAIN, then, from the poll after the one that handed DRAIN out, what is queued is written, stdin ends,
/// and the graces of the spec run; CLOSE comes last. A replacement that is awaited is withdrawn. Returns at once, and closing
/// again does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_close(handle: *mut mcp_supervised, peer: mcp_supervised_peer) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        enter(handle, |inner| {
            inner.reactor.close(PeerId::from_raw(peer))?;
            Ok(MCP_SUPERVISED_OK as i32)
        })
    }
}

/// Forgets a peer that was never started, or whose event with MCP_SUPERVISED_FLAG_FINAL was handed out. Its id answers E_NO_PEER
/// from now on. Payloads that were handed out stay valid as ever. Errors: E_NOT_CLOSED (any other peer).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_remove(handle: *mut mcp_supervised, peer: mcp_supervised_peer) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        enter(handle, |inner| {
            inner.reactor.remove(PeerId::from_raw(peer))?;
            Ok(MCP_SUPERVISED_OK as i32)
        })
    }
}

/// The peer's state, a mcp_supervised_peer_state, or a negative status. It is the state right now: events that tell how it
/// came about may still wait to be taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_state(handle: *mut mcp_supervised, peer: mcp_supervised_peer) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        enter(handle, |inner| {
            let state = inner.reactor.state(PeerId::from_raw(peer))?;
            Ok(mcp_supervised_peer_state::from(state) as i32)
        })
    }
}

/// The process id of the peer's connection, 0 while there is none, or a negative status. The process may have ended already, and
/// the library waits for it: do not signal it, do not wait for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_pid(handle: *mut mcp_supervised, peer: mcp_supervised_peer) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe { enter(handle, |inner| Ok(inner.reactor.pid(PeerId::from_raw(peer))?)) }
}
