//! The part of a spec that is about the protocol client: who it is, how long it waits, what it does about a restart.

use std::ffi::c_char;

use super::bytes::bytes;
use super::spec::{mcp_supervised_spec, set};
use super::status::Failure;
use super::traffic::timeout;
use crate::core::policy::{ClientPolicy, Policy};
use crate::core::stamp::{Params, pairs, quoted};

/// What servers are told of the host as `clientInfo`, in every request: its name and version, UTF-8, not empty. Without it nothing
/// is told.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_spec_client_info(
    spec: *mut mcp_supervised_spec,
    name: *const c_char,
    name_len: usize,
    version: *const c_char,
    version_len: usize,
) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        set(spec, |spec| {
            let name = text("name", bytes("name", name, name_len)?)?;
            let version = text("version", bytes("version", version, version_len)?)?;
            let info = format!("{{\"name\":{},\"version\":{}}}", quoted(name), quoted(version));
            spec.spec.policy.client.client_info = Some(info);
            Ok(())
        })
    }
}

/// What the host can do for servers, as the JSON text of `clientCapabilities`, told in every request. Default {}. With a
/// non-empty "extensions" in it, results of the extensions' own types are accepted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_spec_client_capabilities(
    spec: *mut mcp_supervised_spec,
    capabilities: *const c_char,
    capabilities_len: usize,
) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        set(spec, |spec| {
            let given = bytes("capabilities", capabilities, capabilities_len)?;
            Params::check(given).map_err(|text| Failure::invalid(text.replacen("params", "capabilities", 1)))?;
            let flat = String::from_utf8_lossy(given.trim_ascii()).replace(['\n', '\r'], " ");
            let client = &mut spec.spec.policy.client;
            client.has_extensions = pairs(flat.as_bytes()).is_ok_and(|pairs| {
                pairs.iter().any(|(key, value)| {
                    key == "extensions"
                        && serde_json::from_str(value.get()).is_ok_and(|set: serde_json::Map<_, _>| !set.is_empty())
                })
            });
            client.capabilities = if flat.is_empty() { "{}".to_owned() } else { flat };
            Ok(())
        })
    }
}

/// How long requests wait: `timeout_ms` without a sign of the request (default 60000), `max_timeout_ms` in all (default 600000).
/// 0 is the default, MCP_SUPERVISED_NO_TIMEOUT none, each on its own. Each request may have its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_spec_request_timeouts(
    spec: *mut mcp_supervised_spec,
    timeout_ms: u64,
    max_timeout_ms: u64,
) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        set(spec, |spec| {
            let defaults = ClientPolicy::default();
            spec.spec.policy.client.idle_timeout = timeout(timeout_ms).unwrap_or(defaults.idle_timeout);
            spec.spec.policy.client.max_timeout = timeout(max_timeout_ms).unwrap_or(defaults.max_timeout);
            Ok(())
        })
    }
}

/// How long a server may take to begin. `probe_timeout_ms` (default 10000) is the time from the spawn for an answer to the
/// question which revision it speaks, in MCP_SUPERVISED_MODE_AUTO; after it the older handshake is tried on the same process, and
/// nothing is killed for it. It is also the time for the question of mcp_supervised_spec_rediscover. `start_timeout_ms` (default 120000)
/// is the time from the spawn until the connection serves; after it the process is ended, which is told as an ERROR with
/// MCP_SUPERVISED_E_HANDSHAKE. 0 is the default, MCP_SUPERVISED_NO_TIMEOUT none, each on its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_spec_start_timeouts(
    spec: *mut mcp_supervised_spec,
    probe_timeout_ms: u64,
    start_timeout_ms: u64,
) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        set(spec, |spec| {
            let defaults = Policy::default();
            spec.spec.policy.client.probe_timeout = timeout(probe_timeout_ms).unwrap_or(defaults.client.probe_timeout);
            spec.spec.policy.start_timeout = timeout(start_timeout_ms).unwrap_or(defaults.start_timeout);
            Ok(())
        })
    }
}

/// 1: a request that only reads the server's state and was lost with its connection is sent again to the replacement, under its
/// id and with its deadlines: server/discover, tools/list, prompts/list, prompts/get, resources/list, resources/templates/list,
/// resources/read, completion/complete, unless it carries `inputResponses` or `requestState`. Never tools/call, never another
/// method. Its completion carries MCP_SUPERVISED_FLAG_RETRIED: the dead server may have done the work too. 0, the default: lost
/// requests complete with E_CLOSED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_spec_retry_lost_requests(spec: *mut mcp_supervised_spec, on: u32) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        set(spec, |spec| {
            spec.spec.policy.client.retry = on != 0;
            Ok(())
        })
    }
}

/// 1: after a restart the library asks server/discover by itself before the replacement serves, so that server_info and
/// server_capabilities are not stale, and RECONNECT carries MCP_SUPERVISED_FLAG_SERVER_CHANGED if they are not what they were. A
/// server that answers with an error, or not in time (mcp_supervised_spec_start_timeouts), serves all the same, stale. A server of an
/// older revision tells it with its handshake in any case. 0 is the default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_spec_rediscover(spec: *mut mcp_supervised_spec, on: u32) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        set(spec, |spec| {
            spec.spec.policy.client.rediscover = on != 0;
            Ok(())
        })
    }
}

/// The least severe log messages that servers are asked to send, in every request: "debug", "info", "notice", "warning", "error",
/// "critical", "alert" or "emergency". The empty text, the default: servers send none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_spec_server_log_level(
    spec: *mut mcp_supervised_spec,
    level: *const c_char,
    level_len: usize,
) -> i32 {
    const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    // SAFETY: the caller's promise is passed on.
    unsafe {
        set(spec, |spec| {
            let level = bytes("level", level, level_len)?;
            let known = LEVELS.iter().find(|known| known.as_bytes() == level);
            if known.is_none() && !level.is_empty() {
                return Err(Failure::invalid("level is none of the eight levels of MCP"));
            }
            spec.spec.policy.client.log_level = known.map(|level| (*level).to_owned());
            Ok(())
        })
    }
}

/// 1: a host that does not keep up loses notifications instead of stopping the server. Past MCP_SUPERVISED_LIMIT_EVENT_QUEUE
/// notifications are dropped, with a LOG line for the first and every hundredth, and a stream whose notification is dropped ends
/// with E_DELIVERY_DROPPED. Answers are never dropped. 0, the default: the server waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_spec_shed(spec: *mut mcp_supervised_spec, on: u32) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        set(spec, |spec| {
            spec.spec.policy.client.shed = on != 0;
            Ok(())
        })
    }
}

fn text<'a>(what: &str, bytes: &'a [u8]) -> Result<&'a str, Failure> {
    match std::str::from_utf8(bytes) {
        Ok("") => Err(Failure::invalid(format!("{what} is empty"))),
        Ok(text) => Ok(text),
        Err(_) => Err(Failure::invalid(format!("{what} is not UTF-8"))),
    }
}
