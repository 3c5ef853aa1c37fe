//! Peer ids: a slot and a generation in one 64-bit number. A slot is used again, its generation moves on, so the id of a
//! removed peer never names another one. 0 is no peer.

use std::fmt;

/// The number by which a host names a peer. It stays valid across all lives of the peer, until `remove`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(u64);

impl PeerId {
    /// The id of `slot` in its `generation`; generations count from 1, which is why no id is 0.
    pub(crate) fn new(slot: u32, generation: u32) -> Self {
        debug_assert!(generation > 0);
        Self((u64::from(generation) << 32) | u64::from(slot))
    }

    /// An id as it came over the C boundary; it may name nobody.
    pub fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The number that crosses the C boundary.
    pub fn raw(self) -> u64 {
        self.0
    }

    pub(crate) fn slot(self) -> u32 {
        self.0 as u32
    }

    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl fmt::Debug for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer {}.{}", self.slot(), self.generation())
    }
}
