//! What stands before every call on a handle: NULL, a wrong or freed pointer, a forked child, a second thread, an earlier
//! panic. Rule H3. Behind it a call has the handle to itself.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::event::Held;
use super::status::*;
use crate::reactor::{Config, Error, Reactor, Wake};
use crate::sys::{Features, ForkGuard};

/// Stands in every live handle, and is overwritten when it is freed.
const MAGIC: u64 = 0x6d63_7073_7570_7631;

/// The handle: any number of supervised servers, and the events they lead to. Opaque; made by mcp_supervised_new, ended by
/// mcp_supervised_free. Used by one thread at a time, by whichever.
pub struct mcp_supervised {
    magic: AtomicU64,
    entered: AtomicBool,
    poisoned: AtomicBool,
    fork: ForkGuard,
    wake: Arc<Wake>,
    inner: UnsafeCell<Inner>,
}

/// What a call works on once it is let in.
pub struct Inner {
    /// The reactor.
    pub reactor: Reactor,
    /// What the payloads of the last poll point into.
    pub held: Vec<Held>,
    /// What the last call lent to the host, with a NUL behind it.
    pub lent: String,
    /// Text of the last failed call, with a NUL behind it.
    pub last_error: String,
}

impl mcp_supervised {
    pub(super) fn make(config: &Config) -> Result<Box<Self>, Error> {
        let features = Features::detect();
        let reactor = Reactor::new(config)?;
        Ok(Box::new(Self {
            magic: AtomicU64::new(MAGIC),
            entered: AtomicBool::new(false),
            poisoned: AtomicBool::new(false),
            fork: ForkGuard::new(&features),
            wake: reactor.wake(),
            inner: UnsafeCell::new(Inner {
                reactor,
                held: Vec::new(),
                lent: String::new(),
                last_error: "\0".to_owned(),
            }),
        }))
    }
}

/// Leaves the handle again, also when the call panics.
struct Entered<'a>(&'a AtomicBool);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The handle behind a pointer, if it is one.
///
/// # Safety
///
/// The pointer is NULL, or names memory that can be read. A freed handle is recognised only as long as its memory was not
/// used again.
unsafe fn known<'a>(handle: *const mcp_supervised) -> Result<&'a mcp_supervised, mcp_supervised_status> {
    if handle.is_null() {
        return Err(MCP_SUPERVISED_E_NULL);
    }
    if !handle.is_aligned() {
        return Err(MCP_SUPERVISED_E_BAD_HANDLE);
    }
    // SAFETY: not NULL and aligned; that it can be read is the caller's promise.
    let magic = unsafe { &(*handle).magic };
    if magic.load(Ordering::Relaxed) != MAGIC {
        return Err(MCP_SUPERVISED_E_BAD_HANDLE);
    }
    // SAFETY: the magic word says that a handle lies here, and only `free` ends it.
    Ok(unsafe { &*handle })
}

/// Runs `call` with the handle to itself and turns its answer into a status. The text of a failure is kept for `last_error`.
///
/// # Safety
///
/// As for `known`; and no call outlives the handle, which is the host's promise.
pub unsafe fn enter(handle: *const mcp_supervised, call: impl FnOnce(&mut Inner) -> Result<i32, Failure>) -> i32 {
    // SAFETY: the caller's promise is passed on.
    let handle = match unsafe { known(handle) } {
        Ok(handle) => handle,
        Err(status) => return status as i32,
    };
    if handle.fork.forked() {
        return MCP_SUPERVISED_E_FORKED as i32;
    }
    if handle.entered.swap(true, Ordering::Acquire) {
        return MCP_SUPERVISED_E_BUSY as i32;
    }
    let _entered = Entered(&handle.entered);
    if handle.poisoned.load(Ordering::Relaxed) {
        return MCP_SUPERVISED_E_PANIC as i32;
    }
    // SAFETY: `entered` was false and is true now, so that nobody else is between here and its release.
    let inner = unsafe { &mut *handle.inner.get() };
    match catch_unwind(AssertUnwindSafe(|| match call(inner) {
        Ok(value) => value,
        Err(failure) => {
            inner.last_error = failure.text;
            inner.last_error.push('\0');
            failure.status as i32
        }
    })) {
        Ok(status) => status,
        Err(_) => {
            handle.poisoned.store(true, Ordering::Relaxed);
            MCP_SUPERVISED_E_PANIC as i32
        }
    }
}

/// The one thing that any thread and any signal handler may do.
///
/// # Safety
///
/// As for `enter`.
pub unsafe fn wake(handle: *const mcp_supervised) -> i32 {
    // SAFETY: the caller's promise is passed on.
    match unsafe { known(handle) } {
        Err(status) => status as i32,
        Ok(handle) if handle.fork.forked() => MCP_SUPERVISED_E_FORKED as i32,
        Ok(handle) if handle.poisoned.load(Ordering::Relaxed) => MCP_SUPERVISED_E_PANIC as i32,
        Ok(handle) => {
            handle.wake.wake();
            MCP_SUPERVISED_OK as i32
        }
    }
}

/// Ends the handle. In a forked child only its descriptors and its memory go: the processes, the epoll and what is in the
/// pipes belong to the parent. They stay if the fork came while another thread was at work inside the handle.
///
/// # Safety
///
/// As for `enter`, and the pointer is not used again after success.
pub unsafe fn free(handle: *mut mcp_supervised) -> i32 {
    // SAFETY: the caller's promise is passed on.
    let known = match unsafe { known(handle) } {
        Ok(known) => known,
        Err(MCP_SUPERVISED_E_NULL) => return MCP_SUPERVISED_OK as i32,
        Err(status) => return status as i32,
    };
    let forked = known.fork.forked();
    if !forked && known.entered.swap(true, Ordering::Acquire) {
        return MCP_SUPERVISED_E_BUSY as i32;
    }
    known.magic.store(!MAGIC, Ordering::Relaxed);
    if forked && known.entered.load(Ordering::Acquire) && !known.wake.is_waiting() {
        // The fork came while another thread of the parent was changing what is in here; this copy of it may be half changed, and
        // its thread is not here to go on. It is left as it is. The descriptors are close-on-exec.
        return MCP_SUPERVISED_OK as i32;
    }
    // SAFETY: it was made by `Box::new`, nobody gets in any more, and nobody is inside: `entered` was ours to take, or this is
    // the only thread of a forked child whose parent's threads were outside or waiting in the kernel.
    let handle = unsafe { Box::from_raw(handle) };
    // A panic in here must not cross the boundary either; whatever it leaves behind, the handle is gone.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let Inner { reactor, held, .. } = handle.inner.into_inner();
        drop(held);
        if forked {
            reactor.abandon();
        } else {
            reactor.end();
        }
    }));
    MCP_SUPERVISED_OK as i32
}

/// Runs a call that needs no handle.
pub fn without_handle(call: impl FnOnce() -> Result<i32, Failure>) -> i32 {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => value,
        Ok(Err(failure)) => failure.status as i32,
        Err(_) => MCP_SUPERVISED_E_PANIC as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle() -> *mut mcp_supervised {
        Box::into_raw(mcp_supervised::make(&Config::default()).expect("a handle can be made"))
    }

    fn refuse(handle: *const mcp_supervised, text: &str) -> i32 {
        // SAFETY: a live handle.
        unsafe { enter(handle, |_| Err(Failure::invalid(text))) }
    }

    fn last_error(handle: *const mcp_supervised) -> String {
        // SAFETY: a live handle, and nobody is inside.
        unsafe { (*(*handle).inner.get()).last_error.clone() }
    }

    #[test]
    fn h03_a_panic_is_answered_and_poisons_the_handle() {
        let handle = handle();
        assert_eq!(refuse(handle, "what was wrong"), MCP_SUPERVISED_E_INVALID as i32);
        // SAFETY: a live handle, here and below.
        let status = unsafe { enter(handle, |_| panic!("a bug, on purpose")) };
        assert_eq!(status, MCP_SUPERVISED_E_PANIC as i32);
        let mut ran = false;
        // SAFETY: as above.
        let status = unsafe {
            enter(handle, |_| {
                ran = true;
                Ok(0)
            })
        };
        assert_eq!(
            (status, ran),
            (MCP_SUPERVISED_E_PANIC as i32, false),
            "nothing runs in a handle that may be broken"
        );
        // SAFETY: as above.
        assert_eq!(unsafe { wake(handle) }, MCP_SUPERVISED_E_PANIC as i32);
        assert_eq!(last_error(handle), "what was wrong\0", "H4: the text stays");
        // SAFETY: as above; not used again.
        assert_eq!(unsafe { free(handle) }, MCP_SUPERVISED_OK as i32);
    }

    #[test]
    fn h03_a_panic_without_a_handle_is_answered() {
        assert_eq!(without_handle(|| panic!("a bug, on purpose")), MCP_SUPERVISED_E_PANIC as i32);
    }

    #[test]
    fn h03_a_call_inside_a_call_is_busy() {
        let handle = handle();
        let inside = |_: &mut Inner| {
            assert_eq!(refuse(handle, "never told"), MCP_SUPERVISED_E_BUSY as i32);
            // SAFETY: a live handle, here and below; refused, so that it lives on.
            assert_eq!(unsafe { free(handle) }, MCP_SUPERVISED_E_BUSY as i32);
            // SAFETY: as above.
            Ok(unsafe { wake(handle) })
        };
        // SAFETY: as above.
        let inner = unsafe { enter(handle, inside) };
        assert_eq!(inner, MCP_SUPERVISED_OK as i32, "wakeup alone gets in");
        assert_eq!(last_error(handle), "\0");
        // SAFETY: as above; not used again.
        assert_eq!(unsafe { free(handle) }, MCP_SUPERVISED_OK as i32);
    }

    #[test]
    fn h04_a_text_is_that_of_the_last_failure() {
        let handle = handle();
        assert_eq!(last_error(handle), "\0");
        assert_eq!(refuse(handle, "first"), MCP_SUPERVISED_E_INVALID as i32);
        assert_eq!(refuse(handle, "second"), MCP_SUPERVISED_E_INVALID as i32);
        // SAFETY: a live handle, here and below.
        assert_eq!(unsafe { enter(handle, |_| Ok(7)) }, 7);
        assert_eq!(last_error(handle), "second\0", "success leaves it");
        // SAFETY: as above; not used again.
        assert_eq!(unsafe { free(handle) }, MCP_SUPERVISED_OK as i32);
    }
}
