//! The look at children that have no pidfd to tell of their end.

use super::Reactor;
use crate::core::time::Nanos;
use crate::sys;

/// Exits are looked for from time to time where no pidfd tells about them. The host's manual clock does not rule this: it is
/// no deadline, it stands for a descriptor that the system does not have.
#[derive(Debug, Default)]
pub struct Sweep {
    slots: Vec<u32>,
    at: Option<u64>,
}

/// Between two looks.
const SWEEP_EVERY: u64 = 20_000_000;
/// Between two looks when SIGCHLD tells as well.
const SWEEP_SELDOM: u64 = 1_000_000_000;

impl Sweep {
    /// A child without a pidfd came to life.
    pub fn add(&mut self, slot: u32) {
        self.slots.push(slot);
        self.now();
    }

    /// It is over.
    pub fn remove(&mut self, slot: u32) {
        self.slots.retain(|listed| *listed != slot);
        if self.slots.is_empty() {
            self.at = None;
        }
    }

    /// Look at once.
    pub fn now(&mut self) {
        if !self.slots.is_empty() {
            self.at = Some(0);
        }
    }

    /// When the next look is due, on the real clock.
    pub fn next(&self) -> Option<u64> {
        self.at
    }

    fn is_due(&self) -> bool {
        self.at.is_some_and(|at| at <= sys::monotonic_ns())
    }

    fn done(&mut self, told_otherwise: bool) {
        let pause = if told_otherwise { SWEEP_SELDOM } else { SWEEP_EVERY };
        self.at = (!self.slots.is_empty()).then(|| sys::monotonic_ns() + pause);
    }
}

impl Reactor {
    /// Looks at the children that have no pidfd: from time to time, and before a deadline is judged, so that a process that is
    /// gone is not taken for one that runs on (L5) and its output not thrown away.
    pub(super) fn sweep_if_due(&mut self, now: Nanos) {
        if self.sweep.slots.is_empty() {
            return;
        }
        let judges = self.core.next_deadline().is_some_and(|at| at <= now);
        if !judges && !self.sweep.is_due() {
            return;
        }
        let bell_works = self.sigchld.as_ref().is_some_and(|(bell, _)| bell.is_in_place());
        for at in 0..self.sweep.slots.len() {
            let slot = self.sweep.slots[at];
            if let Some(link) = self.links[slot as usize].as_mut() {
                link.exit_ready = true;
                self.list(slot);
            }
        }
        self.sweep.done(bell_works);
    }
}
