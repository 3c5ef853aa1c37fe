//! The numbers of `spec_limit`.

use super::status::Failure;
use crate::core::policy::Policy;

/// Bounds of one peer, for mcp_supervised_spec_limit.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum mcp_supervised_limit {
    /// MESSAGE and unasked ERROR events that may be queued before the server's stdout is no longer read. Default 1024.
    MCP_SUPERVISED_LIMIT_EVENT_QUEUE = 1,
    /// Bytes of buffer that queued messages may hold before the server's stdout is no longer read. Default 8 MiB. One message
    /// always fits.
    MCP_SUPERVISED_LIMIT_EVENT_BYTES = 2,
    /// Bytes that may wait to be written to the server, and the longest line that can be sent. Default 64 MiB, at most 1 GiB.
    MCP_SUPERVISED_LIMIT_OUTBOUND_BYTES = 3,
    /// The longest line a server may write, without its line feed. Default 64 MiB, at most 1 GiB. A longer one ends the
    /// connection.
    MCP_SUPERVISED_LIMIT_FRAME_BYTES = 4,
    /// Lines up to this length have their whole JSON grammar checked; of longer ones UTF-8, strings, brackets and the
    /// envelope. Default 64 KiB.
    MCP_SUPERVISED_LIMIT_GRAMMAR_BYTES = 5,
    /// LOG events that are kept, and no more than 64 KiB of text; the oldest are dropped, with a count. Default 256.
    MCP_SUPERVISED_LIMIT_LOG_LINES = 6,
    /// The longest LOG line after escaping, in bytes. Default 4096, from 16 to 1 MiB.
    MCP_SUPERVISED_LIMIT_LOG_LINE_BYTES = 7,
    /// Requests and streams of a peer that may be under way. Default 16384.
    MCP_SUPERVISED_LIMIT_MAX_IN_FLIGHT = 8,
}

pub use mcp_supervised_limit::*;

/// Sets one limit by its number.
pub fn set(policy: &mut Policy, kind: u32, value: u64) -> Result<(), Failure> {
    let value = usize::try_from(value).unwrap_or(usize::MAX);
    let limits = &mut policy.limits;
    let field = match kind {
        k if k == MCP_SUPERVISED_LIMIT_EVENT_QUEUE as u32 => &mut limits.event_queue,
        k if k == MCP_SUPERVISED_LIMIT_EVENT_BYTES as u32 => &mut limits.event_bytes,
        k if k == MCP_SUPERVISED_LIMIT_OUTBOUND_BYTES as u32 => &mut limits.outbound_bytes,
        k if k == MCP_SUPERVISED_LIMIT_FRAME_BYTES as u32 => &mut limits.frame_bytes,
        k if k == MCP_SUPERVISED_LIMIT_GRAMMAR_BYTES as u32 => &mut limits.grammar_bytes,
        k if k == MCP_SUPERVISED_LIMIT_LOG_LINES as u32 => &mut limits.log_lines,
        k if k == MCP_SUPERVISED_LIMIT_LOG_LINE_BYTES as u32 => &mut limits.log_line_bytes,
        k if k == MCP_SUPERVISED_LIMIT_MAX_IN_FLIGHT as u32 => &mut policy.client.max_in_flight,
        other => return Err(Failure::invalid(format!("limit {other} is unknown"))),
    };
    *field = value;
    Ok(())
}
