//! The opt-in bell for systems without pidfds: SIGCHLD rings an eventfd, so that ended children are looked for at once and not at the next
//! sweep.
//!
//! This is the only place that touches a process-wide setting of the host, and it does so only when asked. The handler goes through a
//! registry that calls the host's own handler first. Three things the registry does not do are repaired right after: it leaves out
//! `SA_ONSTACK` (without which a Go program is killed by the first signal), it drops the flags of the handler it replaces, and it turns a
//! SIGCHLD that was ignored, which reaps the host's children automatically, into one that does not. Dropping the bell removes our action.
//! The registry's handler itself stays installed for the life of the process, doing nothing but calling the host's. A handler that the
//! host installs later replaces everything; then the sweeps go on without the bell.
//! A child that the host forks inherits the handler; its own SIGCHLD rings our bell for nothing, which costs one sweep.

use std::mem::MaybeUninit;
use std::sync::Mutex;

use signal_hook::SigId;
use signal_hook::low_level::{register, unregister};

use super::{Error, Eventfd, last_errno};

/// Rings as long as it lives.
#[derive(Debug)]
pub struct SigchldBell {
    id: SigId,
}

/// The registry's handler, once we have seen it installed. Also keeps two of our registrations from overlapping.
static REGISTRY: Mutex<Option<libc::sighandler_t>> = Mutex::new(None);

impl SigchldBell {
    /// Rings `bell`, which is kept until this is dropped, at each SIGCHLD.
    ///
    /// # Errors
    ///
    /// The handler could not be installed.
    pub fn new(bell: Eventfd) -> Result<SigchldBell, Error> {
        let mut registry = REGISTRY.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let before = disposition()?;
        // SAFETY: the action calls nothing but write(2), which is async-signal-safe, does not allocate and cannot panic.
        let id = unsafe { register(libc::SIGCHLD, move || bell.ring()) }
            .map_err(|error| Error::new("sigaction", error.raw_os_error().unwrap_or(0)))?;
        let registered = SigchldBell { id };
        let after = disposition()?;
        if after.sa_sigaction != before.sa_sigaction {
            *registry = Some(after.sa_sigaction);
            repair(&before, after)?;
        }
        Ok(registered)
    }

    /// Whether signals still reach us: whether nobody has replaced the handler since.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        let registry = REGISTRY.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // If the host uses the same registry and was first, we cannot know its handler, and it is the host's to keep.
        registry.is_none_or(|handler| matches!(disposition(), Ok(now) if now.sa_sigaction == handler))
    }
}

impl Drop for SigchldBell {
    fn drop(&mut self) {
        unregister(self.id);
    }
}

fn disposition() -> Result<libc::sigaction, Error> {
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only writes the present one, for which there is room.
    let done = unsafe { libc::sigaction(libc::SIGCHLD, std::ptr::null(), now.as_mut_ptr()) };
    if done < 0 {
        return Err(Error::new("sigaction", last_errno()));
    }
    // SAFETY: filled by the successful call.
    Ok(unsafe { now.assume_init() })
}

/// Gives the registry's handler the flags it should have had. Between its installation and this call the flags are missing.
fn repair(before: &libc::sigaction, mut after: libc::sigaction) -> Result<(), Error> {
    after.sa_flags |= libc::SA_ONSTACK | libc::SA_RESTART;
    after.sa_flags |= before.sa_flags & (libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT);
    if before.sa_sigaction == libc::SIG_IGN {
        after.sa_flags |= libc::SA_NOCLDWAIT;
    }
    after.sa_mask = before.sa_mask;
    // SAFETY: the handler is the one in place, only its flags and mask change; the old action is not asked for.
    let done = unsafe { libc::sigaction(libc::SIGCHLD, &raw const after, std::ptr::null_mut()) };
    if done < 0 { Err(Error::new("sigaction", last_errno())) } else { Ok(()) }
}

#[cfg(test)]
#[path = "sigchld_tests.rs"]
mod tests;
