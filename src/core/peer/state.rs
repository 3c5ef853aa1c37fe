//! The states of a peer. A state owns what exists in it: a connection, the decision that was taken, the attempt that is
//! waited for.

use crate::core::budget::{Budget, Decision};
use crate::core::connection::Connection;
use crate::core::era::Revision;

/// What `state` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateName {
    /// Added, or its first start failed.
    Idle,
    /// A process runs that does not serve yet.
    Starting,
    /// A connection serves.
    Running,
    /// A death signal was seen; CLOSE is not built yet.
    Ending,
    /// CLOSE is built; a replacement is waited for.
    Waiting,
    /// `close` was called; DRAIN is not taken yet.
    Draining,
    /// The connection is being ended.
    Closing,
    /// For good.
    Closed,
}

/// What comes after the connection that is ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Replacement {
        attempt: u32,
    },
    Exhausted,
    /// The host closed the peer meanwhile.
    Nothing,
}

impl From<Decision> for Next {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Restart { attempt } => Self::Replacement { attempt },
            Decision::Exhausted => Self::Exhausted,
        }
    }
}

/// Which era a server was found to speak; kept for its later lives (Z1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    Modern,
    Legacy,
}

/// What a life has yet to do before it serves.
#[derive(Debug)]
pub(super) struct Start {
    pub step: Step,
    /// It met a death signal before it served.
    pub doom: Option<Doom>,
    /// What broke it, kept for the one ERROR that a failed replacement is (L11).
    pub failure: Option<String>,
    /// The server has written a message, or something that was told to the host.
    pub heard: bool,
    /// The probe was not answered in time, and a server that answers late has chosen its era.
    pub was_late: bool,
}

impl Start {
    pub(super) fn new(step: Step) -> Self {
        Self { step, doom: None, failure: None, heard: false, was_late: false }
    }
}

/// What is waited for until a life serves.
#[derive(Debug)]
pub(super) enum Step {
    /// Somebody else says so.
    Awaited,
    /// The answer to the library's own discover of a later life (R7).
    Rediscover { id: String },
    /// The answer to the probe; `again` marks the second one of a process.
    Probe { id: String, again: bool },
    /// The answer to "initialize"; `again` marks the second one. `owed` is a probe whose answer may still come.
    Initialize { id: String, offered: Revision, again: bool, owed: Option<String> },
}

/// The end of a life that did not serve.
#[derive(Debug)]
pub(super) struct Doom {
    pub next: Next,
    /// The budget before that was decided.
    pub budget: Budget,
    /// Nobody has made the process leave.
    pub by_itself: bool,
}

#[derive(Debug)]
pub(super) enum State {
    Idle,
    /// A life that met a death signal stays here until it is gone, if it is a later one (told as one ERROR, L11) or one that
    /// may get another process (Z2).
    Starting {
        conn: Connection,
        start: Start,
    },
    /// The process left at the probe, and the reactor was asked for another one of the same life (Z2). `conn` is what is told
    /// if that fails.
    Respawning {
        conn: Box<Connection>,
    },
    Running {
        conn: Connection,
    },
    Ending {
        conn: Connection,
        next: Next,
    },
    /// `held` means that the delay is over and the host has too much to take before another life is begun (F1);
    /// `spawning` that the reactor was asked to spawn.
    Waiting {
        attempt: u32,
        held: bool,
        spawning: bool,
    },
    Draining {
        conn: Connection,
    },
    Closing {
        conn: Connection,
    },
    Closed,
}

impl State {
    /// The connection, while there is one.
    pub(super) fn connection_mut(&mut self) -> Option<&mut Connection> {
        match self {
            Self::Starting { conn, .. }
            | Self::Running { conn }
            | Self::Ending { conn, .. }
            | Self::Draining { conn }
            | Self::Closing { conn } => Some(conn),
            Self::Idle | Self::Respawning { .. } | Self::Waiting { .. } | Self::Closed => None,
        }
    }
}

/// What told us that a connection ends (L4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Death {
    /// The process is gone.
    Exit,
    /// stdout ended or could not be read.
    Stdout,
    /// A line over the limit: what follows it cannot be read.
    Overlong,
    /// Nobody reads stdin any more.
    Stdin,
    /// The connection did not serve in time.
    TooSlow,
    /// The handshake failed.
    Handshake,
}
