//! One supervised server through all its lives: rules L1 to L15 and what B decides between them.
//!
//! ```text
//!            start ok                        D handed out
//!   IDLE ---------------> RUNNING --close--> DRAINING ---next poll---> CLOSING --ended: C--> CLOSED
//!    |  \                  |  ^  \              |                        ^                     ^
//!    |   \ start ok        |  |   \             '------- death ----------'                     |
//!    |    v                |  |    death signal                                                |
//!    |   STARTING -serves--'  |     v                                                          |
//!    |    |   |               |    ENDING --ended: D, C--> WAITING --close: C (withdrawn)------'
//!    |    |   '--death------------>  |                      |   ^                              |
//!    |    '------close: D----> CLOSING                 delay over |                            |
//!    |                        |      |                      |   '--a life that fails: E        |
//!    |                        '--R---|----------------------'---- budget spent: E, X, C -------|
//!    |                               '--ended, budget spent: D, C, X --------------------------|
//!    '--close: D, C ---------------------------------------------------------------------------'
//! ```
//!
//! A state owns what exists in it: a connection, the decision that was taken, the attempt that is waited for.

mod signals;
mod state;
mod tell;

use std::cell::Cell;
use std::rc::Rc;

use super::budget::Budget;
use super::chunk::Pool;
use super::connection::{Action, Connection, Ctx, Spawned};
use super::deadlines::{Deadlines, Own, Timer};
use super::error::Refusal;
use super::event::{Answer, CloseReason, Event, Fault, Serving};
use super::ids::PeerId;
use super::log::Level;
use super::message::{self};
use super::policy::Policy;
use super::queue::EventQueue;
use super::time::after;

pub use state::StateName;
use state::{Next, State};

/// One peer.
#[derive(Debug)]
pub struct Peer {
    pub id: PeerId,
    pub data: u64,
    pub queue: EventQueue,
    /// The FINAL event was handed out.
    pub final_taken: bool,
    /// The slot stands in the supervisor's list of peers with something to hand out.
    pub is_ready: bool,
    /// The slot stands in the supervisor's list of peers that hold more memory than they need without traffic.
    pub in_bulky: bool,
    policy: Policy,
    log_level: Level,
    budget: Budget,
    state: State,
    life: u32,
    lines: u64,
    own: Own,
    pinned: Rc<Cell<usize>>,
    /// Reading stopped because the host's queue is full.
    paused: bool,
}

impl Peer {
    pub fn new(id: PeerId, data: u64, policy: Policy, log_level: Level) -> Self {
        Self {
            id,
            data,
            queue: EventQueue::new(policy.limits.log_lines),
            final_taken: false,
            is_ready: false,
            in_bulky: false,
            budget: Budget::new(policy.max_restarts, policy.restart_window),
            policy,
            log_level,
            state: State::Idle,
            life: 0,
            lines: 0,
            own: Own::default(),
            pinned: Rc::new(Cell::new(0)),
            paused: false,
        }
    }

    pub fn state(&self) -> StateName {
        match self.state {
            State::Idle => StateName::Idle,
            State::Starting { .. } => StateName::Starting,
            State::Running { .. } => StateName::Running,
            State::Ending { .. } => StateName::Ending,
            State::Waiting { .. } => StateName::Waiting,
            State::Draining { .. } => StateName::Draining,
            State::Closing { .. } => StateName::Closing,
            State::Closed => StateName::Closed,
        }
    }

    /// The connection, while there is one.
    pub fn connection(&self) -> Option<&Connection> {
        match &self.state {
            State::Starting { conn, .. }
            | State::Running { conn }
            | State::Ending { conn, .. }
            | State::Draining { conn }
            | State::Closing { conn } => Some(conn),
            State::Idle | State::Waiting { .. } | State::Closed => None,
        }
    }

    /// Whether traffic has left more room here than a peer without traffic needs.
    pub fn is_bulky(&self) -> bool {
        self.queue.is_bulky() || self.connection().is_some_and(|conn| conn.framer.is_bulky() || conn.outbox.is_bulky())
    }

    /// Lets go of that room.
    pub fn trim(&mut self) {
        self.queue.trim();
        if let Some(conn) = self.state.connection_mut() {
            conn.framer.trim();
            conn.outbox.trim();
        }
    }

    /// Takes its deadlines out of the table: the peer is forgotten.
    pub fn clear_deadlines(&mut self, deadlines: &mut Deadlines, slot: u32) {
        deadlines.clear_all(&mut self.own, slot);
    }

    /// Bytes of buffer that its lines hold.
    #[cfg(test)]
    pub fn pinned(&self) -> usize {
        self.pinned.get()
    }

    /// The pipe took `count` bytes of the outbox.
    pub fn wrote(&mut self, ctx: &mut Ctx<'_>, count: usize) {
        let half = self.policy.limits.outbound_bytes / 2;
        let closing = matches!(self.state, State::Closing { .. });
        let Some(conn) = self.state.connection_mut() else {
            return;
        };
        conn.outbox.wrote(count);
        if conn.owes_writable && conn.outbox.queued() <= half {
            conn.owes_writable = false;
            self.queue.push(Event::Writable);
        }
        if closing && conn.outbox.queued() == 0 {
            conn.close_stdin(ctx);
        }
    }

    // ---- what the host asks for ----

    pub fn may_start(&self) -> Answer {
        match self.state {
            State::Idle => Ok(()),
            State::Closing { .. } | State::Closed => Err(Refusal::Closed("the peer is closed")),
            _ => Err(Refusal::AlreadyStarted),
        }
    }

    pub fn send(&mut self, text: &[u8]) -> Answer<u64> {
        let policy = &self.policy;
        let conn = match &mut self.state {
            State::Idle => return Err(Refusal::NotStarted),
            State::Starting { conn, .. } if conn.life == 1 => return Err(Refusal::NotStarted),
            State::Starting { .. } => {
                return Err(Refusal::Closed("the replacement does not serve yet"));
            }
            State::Ending { .. } => return Err(Refusal::Closed("the connection ended")),
            State::Waiting { .. } => {
                return Err(Refusal::Closed("the connection ended and its replacement is not there yet"));
            }
            State::Closing { .. } | State::Closed => {
                return Err(Refusal::Closed("the peer is closed"));
            }
            State::Running { conn } | State::Draining { conn } => conn,
        };
        let limit = policy.limits.outbound_bytes;
        let line = message::outgoing_line(text, policy.mode, limit).map_err(Refusal::Invalid)?;
        let queued = conn.outbox.queued();
        if queued + line.len() > limit {
            conn.owes_writable = true;
            return Err(Refusal::WouldBlock { queued, limit, line: line.len() });
        }
        self.lines += 1;
        conn.outbox.push(self.lines, line);
        Ok(self.lines)
    }

    pub fn close(&mut self, ctx: &mut Ctx<'_>) {
        self.state = match std::mem::replace(&mut self.state, State::Closed) {
            State::Idle => {
                self.queue.push(Event::Drain { asked: false });
                self.push_final_close(CloseReason::ClosedByHost, None);
                State::Closed
            }
            State::Starting { conn, doomed: Some(_) } => {
                // It is being ended already: the ladder that runs is the shorter one.
                self.queue.push(Event::Drain { asked: false });
                State::Closing { conn }
            }
            State::Starting { conn, doomed: None } => {
                self.queue.push(Event::Drain { asked: false });
                self.begin_closing(ctx, conn)
            }
            State::Running { conn } => {
                self.queue.push(Event::Drain { asked: true });
                State::Draining { conn }
            }
            State::Ending { conn, next: Next::Replacement { .. } } => State::Ending { conn, next: Next::Nothing },
            State::Waiting { .. } => {
                ctx.deadlines.clear(&mut self.own, ctx.slot, Timer::Respawn);
                self.push_final_close(CloseReason::Withdrawn, None);
                State::Closed
            }
            same @ (State::Ending { .. } | State::Draining { .. } | State::Closing { .. } | State::Closed) => same,
        };
    }

    /// The host took the DRAIN of an asked close and polls again: from now on the connection is ended (L8).
    pub fn drain_consumed(&mut self, ctx: &mut Ctx<'_>) {
        self.state = match std::mem::replace(&mut self.state, State::Closed) {
            State::Draining { conn } => self.begin_closing(ctx, conn),
            same => same,
        };
    }

    /// `shutdown` ran out of patience: SIGKILL to whatever is left.
    pub fn kill(&mut self, ctx: &mut Ctx<'_>) {
        self.drain_consumed(ctx);
        match self.connection() {
            Some(conn) if conn.exit.is_none() => ctx.actions.push_back(Action::Kill(ctx.slot)),
            Some(_) => self.end_drain(ctx),
            None => {}
        }
    }

    /// P6 from its start: what is queued is written, then stdin ends, and the ladder runs whether it was written or not.
    fn begin_closing(&mut self, ctx: &mut Ctx<'_>, mut conn: Connection) -> State {
        for timer in [Timer::Start, Timer::Terminate, Timer::Kill] {
            ctx.deadlines.clear(&mut self.own, ctx.slot, timer);
        }
        if conn.exit.is_none() {
            ctx.deadlines.set(&mut self.own, ctx.slot, Timer::Terminate, after(ctx.now, self.policy.close_grace));
        }
        conn.owes_writable = false;
        if conn.exit.is_none() && conn.outbox.queued() == 0 {
            conn.close_stdin(ctx);
        } else {
            ctx.actions.push_back(Action::Serve(ctx.slot));
        }
        State::Closing { conn }
    }

    // ---- lives ----

    /// The reactor spawned a connection: the answer of `start`, or of an `Action::Spawn`.
    pub fn spawned(&mut self, ctx: &mut Ctx<'_>, pool: &Rc<Pool>, spawned: Spawned) {
        let attempt = match self.state {
            State::Idle => 0,
            State::Waiting { attempt, spawning: true, .. } => attempt,
            _ => return,
        };
        self.life += 1;
        // What the last life said may still fill the queue: this one is served when it is taken.
        self.paused = !self.has_room();
        let conn = Connection::new(&self.policy, pool, &self.pinned, self.life, attempt, spawned, ctx.now);
        self.state = State::Starting { conn, doomed: None };
        if self.policy.serves_at_once {
            self.serves(ctx, false);
        } else {
            ctx.deadlines.set(&mut self.own, ctx.slot, Timer::Start, after(ctx.now, self.policy.start_timeout));
        }
    }

    /// The connection serves. `ready` asks for a READY event in the first life.
    pub fn serves(&mut self, ctx: &mut Ctx<'_>, ready: bool) {
        self.state = match std::mem::replace(&mut self.state, State::Closed) {
            State::Starting { mut conn, doomed: None } => {
                conn.served = true;
                ctx.deadlines.clear(&mut self.own, ctx.slot, Timer::Start);
                let serving = Serving { pid: conn.pid, life: conn.life, attempt: conn.attempt };
                if conn.life > 1 {
                    self.queue.push(Event::Reconnect(serving));
                } else if ready {
                    self.queue.push(Event::Ready(serving));
                }
                State::Running { conn }
            }
            same => same,
        };
    }

    /// Whether the spawn that the reactor was asked for is still wanted.
    pub fn wants_spawn(&self) -> bool {
        matches!(self.state, State::Waiting { spawning: true, .. })
    }

    /// The replacement could not be spawned: an ERROR and one unit of budget (L11, L13).
    pub fn spawn_failed(&mut self, ctx: &mut Ctx<'_>, text: String) {
        if !self.wants_spawn() {
            return;
        }
        let next = self.budget.decide(ctx.now, false).into();
        self.tell_failed_life(ctx, next, Fault::Spawn, text, None);
    }

    fn wait(&mut self, ctx: &mut Ctx<'_>, attempt: u32) {
        ctx.deadlines.set(&mut self.own, ctx.slot, Timer::Respawn, after(ctx.now, self.policy.restart_delay));
        self.state = State::Waiting { attempt, held: false, spawning: false };
    }
}
