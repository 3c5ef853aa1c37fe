//! Answers to what a server of an older revision asks its client.

use std::ffi::c_char;

use super::bytes::{bytes, utf8};
use super::guard::{Inner, enter, mcp_supervised};
use super::peer::mcp_supervised_peer;
use super::status::*;
use crate::core::ids::PeerId;

/// Answers a request of the server with a result. `token` is the `request` of its MESSAGE event (kind
/// MCP_SUPERVISED_MESSAGE_REQUEST), `result` the text of a JSON object; (NULL, 0) stands for {}. It is embedded byte for byte,
/// except that line breaks between tokens become spaces. Everything is copied. A token answers once, and only to the connection it
/// came from.
///
/// Only servers of revisions before 2026-07-28 ask: for roots/list, sampling/createMessage, elicitation/create and what extensions
/// of the client add. What the client capabilities do not declare is refused by the library, and ping answered by it; neither is
/// shown.
///
/// Errors: E_INVALID (not a JSON object, a line longer than MCP_SUPERVISED_LIMIT_OUTBOUND_BYTES), E_NO_REQUEST (no such token, or it
/// was answered, or the server has taken it back), E_CLOSED (also for a token of a connection that is gone), E_NOT_STARTED,
/// E_WOULD_BLOCK, E_UNSUPPORTED (raw mode, or a server of the present revision, which never asks).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_respond(
    handle: *mut mcp_supervised,
    peer: mcp_supervised_peer,
    token: u64,
    result: *const c_char,
    result_len: usize,
) -> i32 {
    let respond = |inner: &mut Inner| {
        // SAFETY: the caller's promise is passed on.
        let result = unsafe { bytes("result", result, result_len) }?;
        inner.reactor.respond(PeerId::from_raw(peer), token, result)?;
        Ok(MCP_SUPERVISED_OK as i32)
    };
    // SAFETY: the caller's promise is passed on.
    unsafe { enter(handle, respond) }
}

/// Answers a request of the server with an error: its code, a message in UTF-8, and, if `data` is not empty, any JSON text as its
/// data. Otherwise as mcp_supervised_respond.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_respond_error(
    handle: *mut mcp_supervised,
    peer: mcp_supervised_peer,
    token: u64,
    code: i64,
    message: *const c_char,
    message_len: usize,
    data: *const c_char,
    data_len: usize,
) -> i32 {
    let respond = |inner: &mut Inner| {
        // SAFETY: the caller's promise is passed on.
        let message = unsafe { utf8("message", message, message_len) }?;
        // SAFETY: the caller's promise is passed on.
        let data = unsafe { bytes("data", data, data_len) }?;
        inner.reactor.respond_error(PeerId::from_raw(peer), token, code, message, data)?;
        Ok(MCP_SUPERVISED_OK as i32)
    };
    // SAFETY: the caller's promise is passed on.
    unsafe { enter(handle, respond) }
}
