//! The doorbell: what makes the descriptor of a handle readable when there is work and nothing outside will say so (H1).
//!
//! mio watches edges, so a descriptor that was reported and not read to its end is silent from then on. Whenever a call of the
//! host leaves work behind, the bell is rung before it returns. One ring is enough until it was heard.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sys::{Error, Eventfd};

/// The part of a handle that any thread and any signal handler may touch.
#[derive(Debug)]
pub struct Wake {
    bell: Eventfd,
    woken: AtomicBool,
    /// The thread inside the handle sits in the kernel and changes nothing.
    waiting: AtomicBool,
}

impl Wake {
    /// The host's own wakeup, kept apart from the library's rings so that neither swallows the other.
    pub fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        self.bell.ring();
    }

    /// Whether the host woke us since the last look.
    pub fn take(&self) -> bool {
        self.woken.load(Ordering::Relaxed) && self.woken.swap(false, Ordering::Acquire)
    }

    /// Around each wait.
    pub fn set_waiting(&self, waiting: bool) {
        self.waiting.store(waiting, Ordering::Release);
    }

    /// Whether whoever is inside the handle only waits: a fork taken now has a whole copy of it.
    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    /// The descriptor to watch.
    pub fn bell(&self) -> &Eventfd {
        &self.bell
    }
}

/// The library's side of the bell.
#[derive(Debug)]
pub struct Doorbell {
    wake: Arc<Wake>,
    rung: bool,
}

impl Doorbell {
    /// A silent bell.
    pub fn new() -> Result<Self, Error> {
        let wake = Wake { bell: Eventfd::new()?, woken: AtomicBool::new(false), waiting: AtomicBool::new(false) };
        Ok(Self { wake: Arc::new(wake), rung: false })
    }

    /// The part that may be shared.
    pub fn wake(&self) -> &Arc<Wake> {
        &self.wake
    }

    /// Rings, unless a ring was not heard yet.
    pub fn ring(&mut self) {
        if !self.rung {
            self.rung = true;
            self.wake.bell.ring();
        }
    }

    /// The ring was reported by a wait.
    pub fn heard(&mut self) {
        self.rung = false;
    }
}
