//! Supervised MCP servers behind a C interface.
//!
//! An MCP server is a child process that speaks newline-delimited JSON-RPC on its standard streams, and it can die under its
//! client. This library owns the processes and the frame buffers of any number of servers behind one opaque handle. It starts
//! a replacement for a server that ended unasked, within a restart budget, and tells the host everything as events. It has no
//! thread and no callback: everything happens inside `mcp_supervised_poll`, and one descriptor plugs it into any event loop.
//!
//! The interface is the C header `include/mcp_supervised.h`; the modules are public for tests and benchmarks and promise
//! nothing to other crates. The data path is `ffi -> reactor -> core -> reactor -> sys`: `core` decides without knowing a
//! descriptor or a clock, `reactor` moves bytes, `sys` calls the system, `scan` reads JSON, `ffi` converts.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

#[doc(hidden)]
pub mod core;
pub mod ffi;
#[doc(hidden)]
pub mod reactor;
#[doc(hidden)]
pub mod scan;
#[doc(hidden)]
pub mod sys;

/// What the fuzzers need and nobody else: the model of the scanner, and histories of the core played from bytes.
#[cfg(fuzzing)]
pub mod fuzzing {
    pub use crate::core::tests::play_bytes;
    pub use crate::scan::naive::scan as naive_scan;
}
