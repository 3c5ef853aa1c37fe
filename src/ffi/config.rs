//! Options of a handle.

use super::guard::without_handle;
use super::status::{Failure, MCP_SUPERVISED_OK};
use crate::core::log::Level;
use crate::reactor::Config;

/// How bad a LOG event is, and where it comes from: its `status`. mcp_supervised_config_log_level takes the last three.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum mcp_supervised_log_level {
    /// A line of the server's stderr. Always told.
    MCP_SUPERVISED_LOG_SERVER = 0,
    /// The library gave something up.
    MCP_SUPERVISED_LOG_ERROR = 1,
    /// Something went wrong and is handled.
    MCP_SUPERVISED_LOG_WARNING = 2,
    /// Worth knowing.
    MCP_SUPERVISED_LOG_INFO = 3,
}

pub use mcp_supervised_log_level::*;

impl From<Level> for mcp_supervised_log_level {
    fn from(level: Level) -> Self {
        match level {
            Level::Server => MCP_SUPERVISED_LOG_SERVER,
            Level::Error => MCP_SUPERVISED_LOG_ERROR,
            Level::Warning => MCP_SUPERVISED_LOG_WARNING,
            Level::Info => MCP_SUPERVISED_LOG_INFO,
        }
    }
}

/// Options for mcp_supervised_new. Opaque; made by mcp_supervised_config_new, freed by mcp_supervised_config_free.
#[derive(Debug, Clone)]
pub struct mcp_supervised_config {
    manual_clock: bool,
    log_level: u32,
    sigchld: bool,
}

impl mcp_supervised_config {
    /// The options, judged.
    pub(super) fn judged(&self) -> Result<Config, Failure> {
        let log_level = match self.log_level {
            1 => Level::Error,
            2 => Level::Warning,
            3 => Level::Info,
            other => {
                return Err(Failure::invalid(format!("log_level is {other}: it must be 1 (error), 2 or 3 (info)")));
            }
        };
        Ok(Config { manual_clock: self.manual_clock, log_level, sigchld: self.sigchld })
    }
}

/// Makes options with their defaults. `*out` is written on success only; free it with mcp_supervised_config_free. Errors:
/// E_NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_config_new(out: *mut *mut mcp_supervised_config) -> i32 {
    without_handle(|| {
        if out.is_null() {
            return Err(Failure::null("out"));
        }
        let config = mcp_supervised_config { manual_clock: false, log_level: 2, sigchld: false };
        // SAFETY: not NULL, and the caller promises that it can be written.
        unsafe { out.write(Box::into_raw(Box::new(config))) };
        Ok(MCP_SUPERVISED_OK as i32)
    })
}

/// 1: the handle's clock stands still and is moved by mcp_supervised_advance alone; it then rules every timer of the library
/// (restart delay and window, graces, drains). Only the timeout of mcp_supervised_poll and mcp_supervised_free use real
/// time. For tests of hosts. 0, the default: CLOCK_MONOTONIC. Errors: E_NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_config_manual_clock(config: *mut mcp_supervised_config, on: u32) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe { set(config, |config| config.manual_clock = on != 0) }
}

/// Which LOG lines of its own the library tells: MCP_SUPERVISED_LOG_ERROR, MCP_SUPERVISED_LOG_WARNING (the default) or
/// MCP_SUPERVISED_LOG_INFO. Lines of the servers' stderr are always told. Another value is E_INVALID from mcp_supervised_new.
/// Errors here: E_NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_config_log_level(config: *mut mcp_supervised_config, level: u32) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe { set(config, |config| config.log_level = level) }
}

/// 1: where the system has no pidfds (before Linux 5.3, under some sandboxes and tools), install a SIGCHLD handler so that
/// exits are seen at once; without it they are looked for 50 times a second. The handler calls the one that was installed
/// before, and runs on the alternate signal stack, if there is one. It is the only process-wide state the library ever
/// changes, it stays installed, and a host that needs none of it leaves this 0, the default. Errors: E_NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_config_sigchld(config: *mut mcp_supervised_config, on: u32) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe { set(config, |config| config.sigchld = on != 0) }
}

/// Frees options; NULL does nothing. Handles made with them are not touched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_config_free(config: *mut mcp_supervised_config) {
    if !config.is_null() {
        // SAFETY: it was made by `Box::into_raw`, and the caller promises not to use it again.
        drop(unsafe { Box::from_raw(config) });
    }
}

unsafe fn set(config: *mut mcp_supervised_config, change: impl FnOnce(&mut mcp_supervised_config)) -> i32 {
    without_handle(|| {
        // SAFETY: NULL, or made by `config_new` and not freed, and used by one thread at a time: the caller's promise.
        let config = unsafe { config.as_mut() }.ok_or_else(|| Failure::null("config"))?;
        change(config);
        Ok(MCP_SUPERVISED_OK as i32)
    })
}
