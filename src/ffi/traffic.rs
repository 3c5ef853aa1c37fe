//! The protocol client: requests, notifications, streams, and what the server said of itself.

use std::ffi::c_char;
use std::mem::size_of;

use super::bytes::{bytes, utf8};
use super::guard::{Inner, enter, mcp_supervised};
use super::peer::mcp_supervised_peer;
use super::status::*;
use crate::core::client::Options;
use crate::core::client::known::Known;
use crate::core::ids::PeerId;
use crate::core::time::{NEVER, Nanos, ms};

/// A request of a peer, and the id of its JSON-RPC request: 1, 2, ... per peer, never used twice, through all its lives. Streams
/// have ids of the same row. 0 is none.
pub type mcp_supervised_request_id = u64;

/// As a timeout: never.
pub const MCP_SUPERVISED_NO_TIMEOUT: u64 = u64::MAX;

/// What mcp_supervised_server_info and mcp_supervised_server_capabilities answer for what was said before a restart.
pub const MCP_SUPERVISED_STALE: i32 = 1;

/// Of request options: mint a progress token, so that the server may tell of progress, which comes as MESSAGE events of the
/// request and restarts its idle timeout.
pub const MCP_SUPERVISED_REQUEST_PROGRESS: u32 = 1u32 << 0;
/// Of request options: `params._meta` is the host's own and nothing is put into it. For proxies.
pub const MCP_SUPERVISED_REQUEST_META_VERBATIM: u32 = 1u32 << 1;

/// Options of one request. Set all to 0 (memset, or `= {0}`), then `size`, then what you need.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct mcp_supervised_request_options {
    /// sizeof(mcp_supervised_request_options).
    pub size: usize,
    /// Comes back with every event of the request.
    pub user_data: u64,
    /// Milliseconds without a sign of the request until E_TIMEOUT; 0 is the peer's, MCP_SUPERVISED_NO_TIMEOUT none.
    pub timeout_ms: u64,
    /// Milliseconds from the call until E_TIMEOUT, whatever progress there is; 0 is the peer's, MCP_SUPERVISED_NO_TIMEOUT none.
    /// Raised to `timeout_ms` if it is smaller.
    pub max_timeout_ms: u64,
    /// MCP_SUPERVISED_REQUEST_ bits.
    pub flags: u32,
    /// Reserved, 0.
    pub reserved: u32,
}

/// The size of the first version of the options.
const OPTIONS_SIZE: usize = size_of::<mcp_supervised_request_options>();
/// Nobody's options are larger.
const OPTIONS_MOST: usize = 4096;

/// Options as the core takes them.
///
/// # Safety
///
/// The pointer is NULL, or names a struct whose `size` says how many bytes can be read.
unsafe fn options(given: *const mcp_supervised_request_options) -> Result<Options, Failure> {
    // SAFETY: NULL, or a struct that begins like ours: the caller's promise.
    let Some(size) = (!given.is_null()).then(|| unsafe { (&raw const (*given).size).read_unaligned() }) else {
        return Ok(Options::default());
    };
    if !(OPTIONS_SIZE..=OPTIONS_MOST).contains(&size) {
        return Err(Failure::invalid(format!(
            "options.size is {size}: it must be sizeof(mcp_supervised_request_options), at least {OPTIONS_SIZE}"
        )));
    }
    // SAFETY: `size` bytes can be read, which is at least as many as our struct has.
    let ours = unsafe { given.read_unaligned() };
    // SAFETY: `size` bytes can be read.
    let rest = unsafe { std::slice::from_raw_parts(given.cast::<u8>().add(OPTIONS_SIZE), size - OPTIONS_SIZE) };
    if ours.reserved != 0 || rest.iter().any(|byte| *byte != 0) {
        return Err(Failure::invalid("options has a field set that this version of the library does not know"));
    }
    let known = MCP_SUPERVISED_REQUEST_PROGRESS | MCP_SUPERVISED_REQUEST_META_VERBATIM;
    if ours.flags & !known != 0 {
        return Err(Failure::invalid(format!("options.flags has unknown bits: {:#x}", ours.flags & !known)));
    }
    if ours.flags == known {
        return Err(Failure::invalid("options.flags: PROGRESS puts a token into _meta, META_VERBATIM leaves it alone"));
    }
    Ok(Options {
        user_data: ours.user_data,
        idle: timeout(ours.timeout_ms),
        ceiling: timeout(ours.max_timeout_ms),
        progress: ours.flags & MCP_SUPERVISED_REQUEST_PROGRESS != 0,
        meta_verbatim: ours.flags & MCP_SUPERVISED_REQUEST_META_VERBATIM != 0,
    })
}

/// 0 is the default, the largest number is off. A number that reaches past the end of time is not: a ceiling is still raised to it.
pub(super) fn timeout(millis: u64) -> Option<Nanos> {
    match millis {
        0 => None,
        MCP_SUPERVISED_NO_TIMEOUT => Some(NEVER),
        millis => Some(ms(millis).min(NEVER - 1)),
    }
}

/// Sends a request. `params` is the text of a JSON object; (NULL, 0) stands for {}. It is embedded byte for byte, except that
/// line breaks between tokens become spaces and that `_meta` gets the keys the protocol asks for (the older revisions ask for none); a
/// `_meta` of the host's is merged with them. `options` may be NULL. Everything is copied. `*request` is written on success only.
///
/// Exactly one event with MCP_SUPERVISED_FLAG_COMPLETE follows: a MESSAGE with the result or the server's error, or an ERROR with
/// E_TIMEOUT, E_CANCELLED, E_CLOSED (the connection ended, or the peer was closed), E_EXHAUSTED or E_PROTOCOL. A request is never
/// sent twice, but for those that only read, and only with mcp_supervised_spec_retry_lost_requests; and for one whose protocol version
/// the server refused (-32022, which says that it did nothing) while naming one that is spoken. Before the first connection serves
/// it waits; its deadlines run.
///
/// Errors: E_INVALID (bad JSON, two `_meta`, a progressToken in use, a line longer than MCP_SUPERVISED_LIMIT_OUTBOUND_BYTES),
/// E_NOT_STARTED, E_CLOSED (also while a replacement is awaited), E_WOULD_BLOCK, E_UNSUPPORTED (raw mode; or the server has said
/// that it lacks the capability the method needs).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_request(
    handle: *mut mcp_supervised,
    peer: mcp_supervised_peer,
    method: *const c_char,
    method_len: usize,
    params: *const c_char,
    params_len: usize,
    options: *const mcp_supervised_request_options,
    request: *mut mcp_supervised_request_id,
) -> i32 {
    let send = |inner: &mut Inner| {
        // SAFETY: the caller's promise is passed on.
        let method = unsafe { utf8("method", method, method_len) }?;
        // SAFETY: the caller's promise is passed on.
        let params = unsafe { bytes("params", params, params_len) }?;
        // SAFETY: the caller's promise is passed on.
        let options = unsafe { self::options(options) }?;
        if request.is_null() {
            return Err(Failure::null("request"));
        }
        let id = inner.reactor.request(PeerId::from_raw(peer), method, params, &options)?;
        // SAFETY: not NULL, and the caller promises that it can be written.
        unsafe { request.write(id) };
        Ok(MCP_SUPERVISED_OK as i32)
    };
    // SAFETY: the caller's promise is passed on.
    unsafe { enter(handle, send) }
}

/// Sends a notification. `params` as in mcp_supervised_request, but nothing is put into it. Nothing tells whether it arrived;
/// what waits for a connection that ends is gone. Errors as mcp_supervised_request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_notify(
    handle: *mut mcp_supervised,
    peer: mcp_supervised_peer,
    method: *const c_char,
    method_len: usize,
    params: *const c_char,
    params_len: usize,
) -> i32 {
    let send = |inner: &mut Inner| {
        // SAFETY: the caller's promise is passed on.
        let method = unsafe { utf8("method", method, method_len) }?;
        // SAFETY: the caller's promise is passed on.
        let params = unsafe { bytes("params", params, params_len) }?;
        inner.reactor.notify(PeerId::from_raw(peer), method, params)?;
        Ok(MCP_SUPERVISED_OK as i32)
    };
    // SAFETY: the caller's promise is passed on.
    unsafe { enter(handle, send) }
}

/// Opens a stream of notifications with subscriptions/listen. `filter` is the JSON object of what is wanted, for example
/// {"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}. `*stream` is written on success only.
///
/// A server of an older revision does not have it: there the stream is made of resources/subscribe and of the notifications such a
/// server sends unasked. Its acknowledgement carries MCP_SUPERVISED_FLAG_EMULATED, names what the server has accepted, and comes when
/// the server has answered for every resource; if it has refused all there was, the stream ends with its error.
///
/// The stream survives restarts: it is opened again under the same id, and each opening is acknowledged by a MESSAGE, which says
/// what this server accepts. What happened in between is lost: read again what you keep. Its notifications are MESSAGE events
/// with its id and `user_data`. It has no deadline. It ends with one event with MCP_SUPERVISED_FLAG_COMPLETE: the server's result
/// or error, E_CANCELLED (with MCP_SUPERVISED_FLAG_BY_PEER if the server cancelled it), E_CLOSED, E_EXHAUSTED or
/// E_DELIVERY_DROPPED. Errors as mcp_supervised_request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_listen(
    handle: *mut mcp_supervised,
    peer: mcp_supervised_peer,
    filter: *const c_char,
    filter_len: usize,
    user_data: u64,
    stream: *mut mcp_supervised_request_id,
) -> i32 {
    let listen = |inner: &mut Inner| {
        // SAFETY: the caller's promise is passed on.
        let filter = unsafe { bytes("filter", filter, filter_len) }?;
        if stream.is_null() {
            return Err(Failure::null("stream"));
        }
        let id = inner.reactor.listen(PeerId::from_raw(peer), filter, user_data)?;
        // SAFETY: not NULL, and the caller promises that it can be written.
        unsafe { stream.write(id) };
        Ok(MCP_SUPERVISED_OK as i32)
    };
    // SAFETY: the caller's promise is passed on.
    unsafe { enter(handle, listen) }
}

/// Ends a request or a stream. It completes with E_CANCELLED; the server is told, with the reason, if it may have read any of it.
/// A late answer is dropped. `reason` is UTF-8; (NULL, 0) says nothing in particular. E_NO_REQUEST if nothing of that id is under
/// way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_cancel(
    handle: *mut mcp_supervised,
    peer: mcp_supervised_peer,
    request: mcp_supervised_request_id,
    reason: *const c_char,
    reason_len: usize,
) -> i32 {
    let cancel = |inner: &mut Inner| {
        // SAFETY: the caller's promise is passed on.
        let reason = unsafe { utf8("reason", reason, reason_len) }?;
        let reason = if reason.is_empty() { "cancelled by the client" } else { reason };
        inner.reactor.cancel(PeerId::from_raw(peer), request, reason)?;
        Ok(MCP_SUPERVISED_OK as i32)
    };
    // SAFETY: the caller's promise is passed on.
    unsafe { enter(handle, cancel) }
}

/// The server's name and version as it told them in the last handshake or answer to server/discover, the JSON text of its serverInfo,
/// NUL-terminated; an empty text if it was not asked or did not say. Borrowed until the next call on the handle. `text_len` may
/// be NULL. MCP_SUPERVISED_STALE if a restart came after that answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_server_info(
    handle: *mut mcp_supervised,
    peer: mcp_supervised_peer,
    text: *mut *const c_char,
    text_len: *mut usize,
) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe { lend(handle, peer, |known| &known.server_info, text, text_len) }
}

/// What the server can do as it told it in the last handshake or answer to server/discover: the JSON text of its capabilities. As
/// mcp_supervised_server_info. While it is not stale, requests that need a capability that is missing in it are refused with
/// E_UNSUPPORTED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_server_capabilities(
    handle: *mut mcp_supervised,
    peer: mcp_supervised_peer,
    text: *mut *const c_char,
    text_len: *mut usize,
) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe { lend(handle, peer, |known| &known.capabilities, text, text_len) }
}

/// Lends one text of what is known of a server.
///
/// # Safety
///
/// As for `enter`; `text` and `text_len` are NULL or can be written.
unsafe fn lend(
    handle: *mut mcp_supervised,
    peer: mcp_supervised_peer,
    which: impl FnOnce(&Known) -> &str,
    text: *mut *const c_char,
    text_len: *mut usize,
) -> i32 {
    let lend = |inner: &mut Inner| {
        if text.is_null() {
            return Err(Failure::null("text"));
        }
        let known = inner.reactor.known(PeerId::from_raw(peer))?;
        let is_stale = known.is_some_and(|(_, is_stale)| is_stale);
        inner.lent.clear();
        inner.lent.push_str(known.map_or("", |(known, _)| which(known)));
        inner.lent.push('\0');
        // SAFETY: not NULL, and the caller promises that it can be written.
        unsafe { text.write(inner.lent.as_ptr().cast()) };
        if !text_len.is_null() {
            // SAFETY: not NULL, and the caller promises that it can be written.
            unsafe { text_len.write(inner.lent.len() - 1) };
        }
        Ok(if is_stale { MCP_SUPERVISED_STALE } else { MCP_SUPERVISED_OK as i32 })
    };
    // SAFETY: the caller's promise is passed on.
    unsafe { enter(handle, lend) }
}
