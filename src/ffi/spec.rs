//! The builder of specs. Its setters check pointers and text; values are kept as given and judged together by `add`, which
//! has a place for the text that names them.

use std::ffi::c_char;

use super::bytes::bytes_without_nul;
use super::guard::without_handle;
use super::limits;
use super::status::{Failure, MCP_SUPERVISED_OK};
use crate::core::budget::MaxRestarts;
use crate::core::policy::{Mode, Policy};
use crate::core::time::ms;
use crate::reactor::{EnvMode, Spec};
use crate::sys::StderrMode;

/// As `max_restarts`: restart for ever.
pub const MCP_SUPERVISED_UNLIMITED: u32 = u32::MAX;
/// As `max_restarts`: never restart; the first death is told as MCP_SUPERVISED_EVENT_EXHAUSTED.
pub const MCP_SUPERVISED_NO_RESTART: u32 = u32::MAX - 1;

/// How much of the protocol the library speaks for a peer, for mcp_supervised_spec_mode.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum mcp_supervised_mode {
    /// Whatever the server speaks, MCP 2026-07-28 or one of the revisions before it. The first life is asked with
    /// server/discover, as its very first message; what was found is kept for its replacements. READY tells when it serves. The
    /// default.
    MCP_SUPERVISED_MODE_AUTO = 1,
    /// MCP 2026-07-28, without a handshake; nothing is sent unasked.
    MCP_SUPERVISED_MODE_MODERN = 2,
    /// A revision before 2026-07-28 (2025-11-25, 2025-06-18, 2025-03-26 or 2024-11-05): every life begins with the handshake
    /// "initialize". READY tells when the first one serves.
    MCP_SUPERVISED_MODE_LEGACY = 3,
    /// Lines only: the library writes nothing of its own, tracks nothing, and every JSON-RPC message of the server, and every
    /// JSON array, is a MESSAGE. What is neither is an ERROR with MCP_SUPERVISED_E_MALFORMED, as in the other modes.
    MCP_SUPERVISED_MODE_RAW = 4,
}

pub use mcp_supervised_mode::*;

/// Which variables of the host's environment a server gets, for mcp_supervised_spec_env_mode.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum mcp_supervised_env_mode {
    /// HOME LOGNAME PATH SHELL TERM USER LANG LC_* TMPDIR, unless the value begins with "()". The default.
    MCP_SUPERVISED_ENV_SAFE = 1,
    /// All.
    MCP_SUPERVISED_ENV_INHERIT = 2,
    /// None.
    MCP_SUPERVISED_ENV_EMPTY = 3,
}

pub use mcp_supervised_env_mode::*;

/// Where a server's stderr goes, for mcp_supervised_spec_stderr.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum mcp_supervised_stderr_mode {
    /// To the host as LOG events; its last 4 KiB come with CLOSE. The default. It is read inside poll: while the host does
    /// not poll, a server that writes a lot may block.
    MCP_SUPERVISED_STDERR_LOG = 1,
    /// To the host's own stderr.
    MCP_SUPERVISED_STDERR_INHERIT = 2,
    /// Nowhere.
    MCP_SUPERVISED_STDERR_NULL = 3,
}

pub use mcp_supervised_stderr_mode::*;

/// What the connections of a peer are made from: program, arguments, environment, and the rules of supervision. Opaque; made
/// by mcp_supervised_spec_new, copied by mcp_supervised_add, freed by mcp_supervised_spec_free.
///
/// The setters check pointers and text: E_NULL for a NULL, E_INVALID for text that cannot be used, and the spec is unchanged.
/// Numbers are taken as they are and judged together by mcp_supervised_add, whose error text names the one that is wrong.
#[derive(Debug, Clone)]
pub struct mcp_supervised_spec {
    pub(super) spec: Spec,
    mode: u32,
    env_mode: u32,
    stderr: u32,
    max_restarts: u32,
    limits: Vec<(u32, u64)>,
}

impl mcp_supervised_spec {
    /// The spec, with its numbers judged.
    pub(super) fn judged(&self) -> Result<Spec, Failure> {
        let mut spec = self.spec.clone();
        spec.policy.mode = match self.mode {
            m if m == MCP_SUPERVISED_MODE_AUTO as u32 => Mode::Auto,
            m if m == MCP_SUPERVISED_MODE_MODERN as u32 => Mode::Modern,
            m if m == MCP_SUPERVISED_MODE_LEGACY as u32 => Mode::Legacy,
            m if m == MCP_SUPERVISED_MODE_RAW as u32 => Mode::Raw,
            other => return Err(Failure::invalid(format!("mode {other} is unknown"))),
        };
        spec.env_mode = match self.env_mode {
            m if m == MCP_SUPERVISED_ENV_SAFE as u32 => EnvMode::Safe,
            m if m == MCP_SUPERVISED_ENV_INHERIT as u32 => EnvMode::Inherit,
            m if m == MCP_SUPERVISED_ENV_EMPTY as u32 => EnvMode::Empty,
            other => return Err(Failure::invalid(format!("env_mode {other} is unknown"))),
        };
        spec.stderr = match self.stderr {
            m if m == MCP_SUPERVISED_STDERR_LOG as u32 => StderrMode::Pipe,
            m if m == MCP_SUPERVISED_STDERR_INHERIT as u32 => StderrMode::Inherit,
            m if m == MCP_SUPERVISED_STDERR_NULL as u32 => StderrMode::Null,
            other => return Err(Failure::invalid(format!("stderr mode {other} is unknown"))),
        };
        spec.policy.max_restarts = match self.max_restarts {
            MCP_SUPERVISED_UNLIMITED => MaxRestarts::Unlimited,
            MCP_SUPERVISED_NO_RESTART => MaxRestarts::NoRestart,
            max => MaxRestarts::Limited(max),
        };
        for (kind, value) in &self.limits {
            limits::set(&mut spec.policy, *kind, *value)?;
        }
        Ok(spec)
    }
}

/// Makes a spec for a program. A name without a slash is searched in the server's PATH, or in the host's if the server has
/// none; a relative path is taken from the server's working directory. No shell is involved. `*out` is written on success
/// only; free it with mcp_supervised_spec_free. Errors: E_NULL, E_INVALID (the program is empty or has a NUL in it).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_spec_new(
    program: *const c_char,
    program_len: usize,
    out: *mut *mut mcp_supervised_spec,
) -> i32 {
    without_handle(|| {
        // SAFETY: the caller's promise is passed on.
        let program = unsafe { bytes_without_nul("program", program, program_len) }?;
        if program.is_empty() {
            return Err(Failure::invalid("program is empty"));
        }
        if out.is_null() {
            return Err(Failure::null("out"));
        }
        let spec = mcp_supervised_spec {
            spec: Spec { program, policy: Policy::default(), ..Spec::default() },
            mode: MCP_SUPERVISED_MODE_AUTO as u32,
            env_mode: MCP_SUPERVISED_ENV_SAFE as u32,
            stderr: MCP_SUPERVISED_STDERR_LOG as u32,
            max_restarts: 3,
            limits: Vec::new(),
        };
        // SAFETY: not NULL, and the caller promises that it can be written.
        unsafe { out.write(Box::into_raw(Box::new(spec))) };
        Ok(MCP_SUPERVISED_OK as i32)
    })
}

/// Adds one argument behind the program's name and the arguments added so far. Bytes as they are, without a NUL. May be empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_spec_arg(
    spec: *mut mcp_supervised_spec,
    arg: *const c_char,
    arg_len: usize,
) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        set(spec, |spec| {
            spec.spec.args.push(bytes_without_nul("arg", arg, arg_len)?);
            Ok(())
        })
    }
}

/// The server's working directory; without it the host's. It is looked at when a process is spawned, so one that is missing
/// is an error of mcp_supervised_start, which names the directory. Bytes as they are, not empty, without a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_spec_cwd(
    spec: *mut mcp_supervised_spec,
    dir: *const c_char,
    dir_len: usize,
) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        set(spec, |spec| {
            let dir = bytes_without_nul("dir", dir, dir_len)?;
            if dir.is_empty() {
                return Err(Failure::invalid("dir is empty"));
            }
            spec.spec.cwd = Some(dir);
            Ok(())
        })
    }
}

/// What the server's environment starts from: a value of mcp_supervised_env_mode.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_spec_env_mode(spec: *mut mcp_supervised_spec, env_mode: u32) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        set(spec, |spec| {
            spec.env_mode = env_mode;
            Ok(())
        })
    }
}

/// Adds a variable to the server's environment, or replaces one. The environment is put together by mcp_supervised_add, once:
/// every replacement starts with the same. E_INVALID if the name is empty or has "=" or a NUL in it, or the value a NUL; the
/// value may be empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_spec_env(
    spec: *mut mcp_supervised_spec,
    name: *const c_char,
    name_len: usize,
    value: *const c_char,
    value_len: usize,
) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        set(spec, |spec| {
            let name = bytes_without_nul("name", name, name_len)?;
            let value = bytes_without_nul("value", value, value_len)?;
            if name.is_empty() || name.contains(&b'=') {
                return Err(Failure::invalid("name is empty or has \"=\" in it"));
            }
            spec.spec.env.retain(|(known, _)| *known != name);
            spec.spec.env.push((name, value));
            Ok(())
        })
    }
}

/// How much of the protocol is spoken: a value of mcp_supervised_mode.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_spec_mode(spec: *mut mcp_supervised_spec, mode: u32) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        set(spec, |spec| {
            spec.mode = mode;
            Ok(())
        })
    }
}

/// The restart budget: at most `max_restarts` replacements per window of `window_ms` milliseconds, each `delay_ms` milliseconds
/// after the CLOSE before it. Defaults 3, 100 and 60000. The window opens at the first restart and nothing but its end clears the count: a server that
/// serves one call per life is given up like one that serves none. The next death in the window is told as
/// MCP_SUPERVISED_EVENT_EXHAUSTED.
///
/// MCP_SUPERVISED_UNLIMITED and MCP_SUPERVISED_NO_RESTART are asked for by name. Refused by mcp_supervised_add: 0 restarts, a
/// window of 0, and `max_restarts * delay_ms >= window_ms`, which would try a server that cannot start for ever.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_spec_restart(
    spec: *mut mcp_supervised_spec,
    max_restarts: u32,
    delay_ms: u64,
    window_ms: u64,
) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        set(spec, |spec| {
            spec.max_restarts = max_restarts;
            spec.spec.policy.restart_delay = ms(delay_ms);
            spec.spec.policy.restart_window = ms(window_ms);
            Ok(())
        })
    }
}

/// How patiently a server is ended by mcp_supervised_close: its stdin ends, `close_grace_ms` milliseconds later its process
/// group gets SIGTERM, `kill_grace_ms` milliseconds after that SIGKILL. Defaults 6000 and 2000. A server that leaves earlier is not waited for.
/// UINT64_MAX: that signal is never sent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_spec_stop_grace(
    spec: *mut mcp_supervised_spec,
    close_grace_ms: u64,
    kill_grace_ms: u64,
) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        set(spec, |spec| {
            spec.spec.policy.close_grace = ms(close_grace_ms);
            spec.spec.policy.kill_grace = ms(kill_grace_ms);
            Ok(())
        })
    }
}

/// Sets one bound: `kind` is a mcp_supervised_limit, which tells the unit and the default of `value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_spec_limit(spec: *mut mcp_supervised_spec, kind: u32, value: u64) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        set(spec, |spec| {
            spec.limits.retain(|(known, _)| *known != kind);
            spec.limits.push((kind, value));
            Ok(())
        })
    }
}

/// Where the server's stderr goes: a value of mcp_supervised_stderr_mode.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_spec_stderr(spec: *mut mcp_supervised_spec, stderr_mode: u32) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        set(spec, |spec| {
            spec.stderr = stderr_mode;
            Ok(())
        })
    }
}

/// Frees a spec; NULL does nothing. Peers made from it are not touched: they have a copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_spec_free(spec: *mut mcp_supervised_spec) {
    if !spec.is_null() {
        // SAFETY: it was made by `Box::into_raw`, and the caller promises not to use it again.
        drop(unsafe { Box::from_raw(spec) });
    }
}

/// Changes a spec.
///
/// # Safety
///
/// NULL, or made by `spec_new` and not freed, and used by one thread at a time.
pub(super) unsafe fn set(
    spec: *mut mcp_supervised_spec,
    change: impl FnOnce(&mut mcp_supervised_spec) -> Result<(), Failure>,
) -> i32 {
    without_handle(|| {
        // SAFETY: NULL, or made by `spec_new` and not freed, and used by one thread at a time: the caller's promise.
        let spec = unsafe { spec.as_mut() }.ok_or_else(|| Failure::null("spec"))?;
        change(spec)?;
        Ok(MCP_SUPERVISED_OK as i32)
    })
}
