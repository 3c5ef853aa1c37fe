//! One table for every deadline of every peer. A peer has at most one deadline of each kind, and only while it is in a
//! state that waits for something, so the table is as small as the number of peers that wait.

use std::collections::BTreeSet;

use super::time::{NEVER, Nanos};

/// What a deadline is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// WAITING is over: spawn the replacement.
    Respawn,
    /// The connection does not serve in time (L4).
    Start,
    /// The library's own discover is not answered in time (R7).
    Probe,
    /// SIGTERM to the group: the first signal of the ladder (P6, L5).
    Terminate,
    /// SIGKILL to the group.
    Kill,
    /// stdout was read long enough after the exit (L3).
    StdoutDrain,
    /// stderr likewise.
    StderrDrain,
    /// A request, a stream or an error that is held back (R3, S4): the earliest of them.
    Client,
    /// No longer waiting for the end of the readers of stdin (L19).
    StdinHangup,
}

const ALL: [Timer; 9] = [
    Timer::Respawn,
    Timer::Start,
    Timer::Probe,
    Timer::Terminate,
    Timer::Kill,
    Timer::StdoutDrain,
    Timer::StderrDrain,
    Timer::Client,
    Timer::StdinHangup,
];

impl Timer {
    /// Those that end with the connection.
    pub const OF_CONNECTION: [Self; 7] = [
        Self::Start,
        Self::Probe,
        Self::Terminate,
        Self::Kill,
        Self::StdoutDrain,
        Self::StderrDrain,
        Self::StdinHangup,
    ];
}

/// The deadlines of one peer, as the table needs them to find its rows again.
#[derive(Debug, Default, Clone)]
pub struct Own([Option<Nanos>; ALL.len()]);

/// All deadlines, earliest first.
#[derive(Debug, Default)]
pub struct Deadlines {
    rows: BTreeSet<(Nanos, u32, Timer)>,
    /// The earliest of them, which is asked for at every call.
    first: Option<Nanos>,
}

impl Deadlines {
    /// Sets the deadline `timer` of the peer in `slot`, in place of an earlier one of that kind.
    pub fn set(&mut self, own: &mut Own, slot: u32, timer: Timer, at: Nanos) {
        self.clear(own, slot, timer);
        if at != NEVER {
            own.0[timer as usize] = Some(at);
            self.rows.insert((at, slot, timer));
            self.first = Some(self.first.map_or(at, |first| first.min(at)));
        }
    }

    /// Takes the deadline out, if there is one.
    pub fn clear(&mut self, own: &mut Own, slot: u32, timer: Timer) {
        if let Some(at) = own.0[timer as usize].take() {
            self.rows.remove(&(at, slot, timer));
            self.note_first();
        }
    }

    /// Takes all deadlines of a peer out.
    pub fn clear_all(&mut self, own: &mut Own, slot: u32) {
        for timer in ALL {
            self.clear(own, slot, timer);
        }
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<Nanos> {
        self.first
    }

    fn note_first(&mut self) {
        self.first = self.rows.first().map(|row| row.0);
    }

    /// The slots that have a deadline of that kind due at `now`.
    pub fn due_slots(&self, now: Nanos, timer: Timer) -> impl Iterator<Item = u32> + '_ {
        self.rows.iter().take_while(move |row| row.0 <= now).filter(move |row| row.2 == timer).map(|row| row.1)
    }

    /// The slots that have a deadline of that kind.
    pub fn slots_with(&self, timer: Timer) -> Vec<u32> {
        self.rows.iter().filter(|row| row.2 == timer).map(|row| row.1).collect()
    }

    /// Takes the earliest deadline that is due at `now`. Its peer still has it in its own table, and clears it there.
    pub fn take_due(&mut self, now: Nanos) -> Option<(u32, Timer)> {
        self.first.filter(|at| *at <= now)?;
        let row = *self.rows.first()?;
        self.rows.remove(&row);
        self.note_first();
        Some((row.1, row.2))
    }
}

impl Own {
    /// When the deadline of that kind is, if it is set.
    pub fn get(&self, timer: Timer) -> Option<Nanos> {
        self.0[timer as usize]
    }
}
