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
mod starting;
mod state;
mod tell;
mod traffic;

use std::cell::Cell;
use std::rc::Rc;

use super::budget::Budget;
use super::chunk::Pool;
use super::client::{Client, Wire};
use super::connection::{Action, Connection, Ctx, Spawned};
use super::deadlines::{Deadlines, Own, Timer};
use super::era::Spoken;
use super::error::Refusal;
use super::event::{Answer, CloseReason, Event, Fault};
use super::ids::PeerId;
use super::log::Level;
use super::policy::{Mode, Policy};
use super::queue::EventQueue;
use super::time::after;
use crate::scan::Envelope;

pub use signals::{READ_LINES, TURN_LINES};
pub use state::StateName;
use state::{Era, Next, Start, State};

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
    /// The protocol client; none in raw mode.
    client: Option<Box<Client>>,
    /// What the connection speaks, once it serves.
    spoken: Spoken,
    /// The era that was found, in a mode that looks for it.
    era: Option<Era>,
    /// The one process that leaving at the probe is forgiven for was used (Z2).
    was_shy: bool,
    /// Scratch for the envelope of the line that is read.
    envelope: Envelope,
    /// Reading stopped because the host's queue is full.
    paused: bool,
}

impl Peer {
    pub fn new(id: PeerId, data: u64, policy: Policy, log_level: Level) -> Self {
        let (client, spoken) = match policy.mode {
            Mode::Auto | Mode::Modern | Mode::Legacy => {
                (Some(Box::new(Client::new(policy.client.clone()))), Spoken::Modern)
            }
            Mode::Raw => (None, Spoken::Raw),
        };
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
            client,
            spoken,
            era: None,
            was_shy: false,
            envelope: Envelope::default(),
            paused: false,
        }
    }

    pub fn state(&self) -> StateName {
        match self.state {
            State::Idle => StateName::Idle,
            State::Starting { .. } | State::Respawning { .. } => StateName::Starting,
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
            State::Idle | State::Respawning { .. } | State::Waiting { .. } | State::Closed => None,
        }
    }

    /// Whether traffic has left more room here than a peer without traffic needs.
    pub fn is_bulky(&self) -> bool {
        self.queue.is_bulky()
            || self.client.as_deref().is_some_and(Client::is_bulky)
            || self.connection().is_some_and(|conn| conn.framer.is_bulky() || conn.outbox.is_bulky())
    }

    /// Lets go of that room.
    pub fn trim(&mut self) {
        self.queue.trim();
        if let Some(client) = self.client.as_deref_mut() {
            client.trim();
        }
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
    #[cfg(any(test, fuzzing))]
    pub fn pinned(&self) -> usize {
        self.pinned.get()
    }

    /// Requests and streams that have no completion yet.
    #[cfg(any(test, fuzzing))]
    pub fn in_flight(&self) -> usize {
        self.client.as_deref().map_or(0, Client::in_flight)
    }

    /// Whether the client holds anything for anybody.
    #[cfg(any(test, fuzzing))]
    pub fn holds_nothing(&self) -> bool {
        self.client.as_deref().is_none_or(Client::holds_nothing)
    }

    /// The pipe took `count` bytes of the outbox.
    pub fn wrote(&mut self, ctx: &mut Ctx<'_>, count: usize) {
        let Some(conn) = self.state.connection_mut() else {
            return;
        };
        conn.outbox.wrote(count);
        self.mind_flushed(ctx);
    }

    /// Less waits to be written than before: an asked end goes on when nothing does (L8), and a host may be owed a WRITABLE.
    pub(super) fn mind_flushed(&mut self, ctx: &mut Ctx<'_>) {
        if let State::Closing { conn } = &mut self.state
            && conn.stdin_open()
            && conn.outbox.queued() == 0
        {
            conn.close_stdin(ctx);
        }
        self.mind_writable();
    }

    /// F4 and R12: one WRITABLE follows a refusal when both what is queued and what is under way are at half.
    pub(super) fn mind_writable(&mut self) {
        let half = self.policy.limits.outbound_bytes / 2;
        let room = self.client.as_ref().is_none_or(|client| client.has_room());
        let waiting = self.client.as_ref().map_or(0, |client| client.waiting_bytes());
        if let Some(conn) = self.state.connection_mut()
            && conn.owes_writable
            && conn.outbox.queued() + waiting <= half
            && room
        {
            conn.owes_writable = false;
            self.queue.push(Event::Writable);
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

    pub fn close(&mut self, ctx: &mut Ctx<'_>) {
        self.state = match std::mem::replace(&mut self.state, State::Closed) {
            State::Idle => {
                self.queue.push(Event::Drain { asked: false });
                self.push_last_close(ctx, CloseReason::ClosedByHost, None);
                State::Closed
            }
            State::Respawning { conn } => {
                self.queue.push(Event::Drain { asked: false });
                self.push_last_close(ctx, CloseReason::ClosedByHost, Some(*conn));
                State::Closed
            }
            State::Starting { mut conn, start: Start { doom: Some(_), .. } } => {
                // It is being ended already: the ladder that runs is the shorter one. Nobody is told of room that has no use.
                conn.owes_writable = false;
                self.queue.push(Event::Drain { asked: false });
                State::Closing { conn }
            }
            State::Starting { conn, .. } => {
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
                self.push_last_close(ctx, CloseReason::Withdrawn, None);
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
        if let Some(client) = &mut self.client
            && conn.stdin_open()
        {
            client.cancel_streams(&mut Wire::of(&mut conn, &mut self.lines, self.policy.limits.outbound_bytes));
        }
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
        let (life, attempt, owes_writable) = match &self.state {
            State::Idle => (self.life + 1, 0, false),
            State::Waiting { attempt, spawning: true, .. } => (self.life + 1, *attempt, false),
            State::Respawning { conn } => (conn.life, conn.attempt, conn.owes_writable),
            _ => return,
        };
        self.life = life;
        // What the last life said may still fill the queue: this one is served when it is taken.
        self.paused = !self.has_room();
        let mut conn = Connection::new(&self.policy, pool, &self.pinned, life, attempt, spawned, ctx.now);
        conn.owes_writable = owes_writable;
        self.begin(ctx, conn);
    }

    /// Whether the spawn that the reactor was asked for is still wanted.
    pub fn wants_spawn(&self) -> bool {
        matches!(self.state, State::Waiting { spawning: true, .. } | State::Respawning { .. })
    }

    /// The replacement could not be spawned: an ERROR and one unit of budget (L11, L13).
    pub fn spawn_failed(&mut self, ctx: &mut Ctx<'_>, text: String) {
        if !self.wants_spawn() {
            return;
        }
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Respawning { conn } => return self.respawn_failed(ctx, *conn, text),
            same => self.state = same,
        }
        let next = self.budget.decide(ctx.now, false).into();
        self.tell_failed_life(ctx, next, Fault::Spawn, text, None);
    }

    fn wait(&mut self, ctx: &mut Ctx<'_>, attempt: u32) {
        ctx.deadlines.set(&mut self.own, ctx.slot, Timer::Respawn, after(ctx.now, self.policy.restart_delay));
        self.state = State::Waiting { attempt, held: false, spawning: false };
    }
}
