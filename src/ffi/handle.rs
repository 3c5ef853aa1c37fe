//! The handle: made, driven, woken, ended.

use std::ffi::c_char;
use std::time::Duration;

use super::bytes::copy_text;
use super::config::mcp_supervised_config;
use super::event::{EVENT_SIZE, mcp_supervised_event, write};
use super::guard::{self, enter, mcp_supervised, without_handle};
use super::status::*;
use crate::reactor::Config;

/// Makes a handle. `config` may be NULL for the defaults; it is copied. `*out` is written on success only; end it with
/// mcp_supervised_free. On failure a NUL-terminated text is written to `errbuf`, cut to `errbuf_len` bytes; (NULL, 0) if it is
/// not wanted. Errors: E_NULL, E_INVALID (a value of the config), E_IO (no descriptors left).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_new(
    config: *const mcp_supervised_config,
    out: *mut *mut mcp_supervised,
    errbuf: *mut c_char,
    errbuf_len: usize,
) -> i32 {
    without_handle(|| {
        let made = (|| {
            if out.is_null() {
                return Err(Failure::null("out"));
            }
            if errbuf.is_null() && errbuf_len > 0 {
                return Err(Failure::null("errbuf"));
            }
            // SAFETY: NULL, or made by `config_new` and not freed: the caller's promise.
            let config = match unsafe { config.as_ref() } {
                Some(config) => config.judged()?,
                None => Config::default(),
            };
            Ok(mcp_supervised::make(&config)?)
        })();
        match made {
            Ok(handle) => {
                // SAFETY: not NULL, and the caller promises that it can be written.
                unsafe { out.write(Box::into_raw(handle)) };
                Ok(MCP_SUPERVISED_OK as i32)
            }
            Err(failure) => {
                // SAFETY: the caller promises `errbuf_len` writable bytes.
                unsafe { copy_text(&failure.text, errbuf, errbuf_len) };
                Err(failure)
            }
        }
    })
}

/// The one descriptor of the handle, to be watched for input (POLLIN) in the host's own loop. It is the same number for the
/// life of the handle and belongs to it: do not read, write, close or change it. When it is readable, call
/// mcp_supervised_poll(handle, ..., 0). It is never silent while that would report or change something, timers included, so
/// no timeout has to be computed; now and then it is readable with nothing to report. A host that watches edges calls poll
/// until it returns fewer than `max_events`.
///
/// Returns the descriptor, which mcp_supervised_free closes, or a negative status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_fd(handle: *mut mcp_supervised) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe { enter(handle, |inner| Ok(inner.reactor.fd())) }
}

/// Drives everything: reads, writes, timers, restarts, reaping. Nothing happens outside it. Makes one turn, then writes up to
/// `max_events` events to `events` and returns how many. What does not fit stays queued, and the descriptor stays readable.
///
/// `event_size` is sizeof(mcp_supervised_event) as the host was compiled; the elements of the array lie that far apart.
/// `timeout_ms`: 0 does not block; -1 blocks until there is an event or a signal; otherwise it blocks at most that many
/// milliseconds. `max_events` 0 only drives, and `events` may be NULL then. The number of events may be 0 before the time is over:
/// after a signal, and when servers keep the library busy with what leads to no event.
///
/// The payloads of the events are valid until the next mcp_supervised_poll or mcp_supervised_free on this handle. Events of
/// one peer come in order; peers take turns. Errors: E_NULL (`events`), E_INVALID (`events` not aligned, `event_size` smaller than the first version's,
/// not a multiple of 8 or larger than an array can be; a timeout below -1), E_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_poll(
    handle: *mut mcp_supervised,
    events: *mut mcp_supervised_event,
    event_size: usize,
    max_events: usize,
    timeout_ms: i32,
) -> i32 {
    let poll = |inner: &mut guard::Inner| {
        if events.is_null() && max_events > 0 {
            return Err(Failure::null("events"));
        }
        if !events.is_aligned() {
            return Err(Failure::invalid("events is not aligned as an array of mcp_supervised_event is"));
        }
        if event_size < EVENT_SIZE || !event_size.is_multiple_of(8) {
            return Err(Failure::invalid(format!(
                "event_size is {event_size}: it must be sizeof(mcp_supervised_event), {EVENT_SIZE} or more and a multiple of 8"
            )));
        }
        if timeout_ms < -1 {
            return Err(Failure::invalid(format!("timeout_ms is {timeout_ms}: it must be -1 or more")));
        }
        let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        let max = max_events.min(i32::MAX as usize);
        if event_size.saturating_mul(max) > isize::MAX as usize {
            return Err(Failure::invalid(format!(
                "event_size is {event_size}: no array of {max_events} events is that large"
            )));
        }
        inner.held.clear();
        let held = &mut inner.held;
        let mut at = events.cast::<u8>();
        let given = inner.reactor.poll(max, timeout, |told| {
            // SAFETY: fewer than `max_events` events were written so far, so this element lies inside the host's array; that it
            // has `event_size` bytes, and is aligned, was checked.
            unsafe { write(told, held, at, event_size) };
            at = at.wrapping_add(event_size);
        })?;
        Ok(given as i32)
    };
    // SAFETY: the caller's promise is passed on.
    unsafe { enter(handle, poll) }
}

/// Makes a poll that is running or the next one return with MCP_SUPERVISED_EVENT_WAKEUP, once however often it is called. From
/// any thread and from a signal handler (errno is kept), also while another thread is inside the handle, until
/// mcp_supervised_free is called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_wakeup(handle: *mut mcp_supervised) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe { guard::wake(handle) }
}

/// Moves a manual clock forward by `ns` nanoseconds; what becomes due happens in the next poll, and the descriptor is readable.
/// Errors: E_INVALID (a handle without mcp_supervised_config_manual_clock).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_advance(handle: *mut mcp_supervised, ns: u64) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        enter(handle, |inner| {
            inner.reactor.advance(ns)?;
            Ok(MCP_SUPERVISED_OK as i32)
        })
    }
}

/// The text of the last call on this handle that failed, UTF-8 and NUL-terminated; empty if none did. Borrowed until the next
/// call on the handle. `text_len`, if not NULL, gets its length in bytes without the NUL. A call that succeeds leaves the text as
/// it is, and so do E_BUSY, E_FORKED, E_BAD_HANDLE and E_PANIC. Errors: E_NULL (`text`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_last_error(
    handle: *mut mcp_supervised,
    text: *mut *const c_char,
    text_len: *mut usize,
) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        enter(handle, |inner| {
            if text.is_null() {
                return Err(Failure::null("text"));
            }
            text.write(inner.last_error.as_ptr().cast());
            if !text_len.is_null() {
                text_len.write(inner.last_error.len() - 1);
            }
            Ok(MCP_SUPERVISED_OK as i32)
        })
    }
}

/// Closes every peer as mcp_supervised_close does, and answers E_CLOSED to later starts and adds. After `grace_ms`
/// milliseconds what is left gets SIGKILL. When the last peer is closed MCP_SUPERVISED_EVENT_SHUTDOWN follows. It goes on only
/// inside mcp_supervised_poll; a host that does not poll any more calls mcp_supervised_free. A second call can only shorten the
/// time. UINT64_MAX: no SIGKILL but that of each peer's own spec.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_shutdown(handle: *mut mcp_supervised, grace_ms: u64) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        enter(handle, |inner| {
            inner.reactor.shutdown(grace_ms);
            Ok(MCP_SUPERVISED_OK as i32)
        })
    }
}

/// Ends the handle: closes the stdin of every server, kills every process group, reaps for at most one second in all, closes the
/// descriptor (take it out of your loop before) and frees everything, payloads included. NULL does nothing. In the child of a
/// fork it closes descriptors and frees memory, and touches no server; if another thread was at work inside the handle at the
/// fork, memory and descriptors stay, the latter until an exec. Errors: E_BUSY (another thread is inside the handle),
/// E_BAD_HANDLE; nothing is freed then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcp_supervised_free(handle: *mut mcp_supervised) -> i32 {
    // SAFETY: the caller's promise is passed on.
    unsafe { guard::free(handle) }
}
