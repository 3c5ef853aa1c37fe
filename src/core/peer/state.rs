//! The states of a peer. A state owns what exists in it: a connection, the decision that was taken, the attempt that is
//! waited for.

use crate::core::budget::Decision;
use crate::core::connection::Connection;

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

#[derive(Debug)]
pub(super) enum State {
    Idle,
    /// `doomed` is set when a later life met a death signal before it served: it is told as one ERROR when it is gone (L11).
    Starting {
        conn: Connection,
        doomed: Option<Next>,
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
            Self::Idle | Self::Waiting { .. } | Self::Closed => None,
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
}
