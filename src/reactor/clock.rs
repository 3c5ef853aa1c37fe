//! Where the time comes from: the monotonic clock, or the host's hand (B6).

use crate::core::time::Nanos;
use crate::sys;

/// The clock of one handle.
#[derive(Debug, Clone, Copy)]
pub enum Clock {
    /// CLOCK_MONOTONIC.
    Real,
    /// Moved by `advance` alone.
    Manual(Nanos),
}

impl Clock {
    /// Now.
    pub fn now(&self) -> Nanos {
        match self {
            Self::Real => sys::monotonic_ns(),
            Self::Manual(now) => *now,
        }
    }

    /// Whether the host moves it.
    pub fn is_manual(&self) -> bool {
        matches!(self, Self::Manual(_))
    }
}
