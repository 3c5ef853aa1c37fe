//! All peers of one handle: their slots, their deadlines, and whose event is handed out next (L17, L18, H5).

use std::collections::VecDeque;
use std::rc::Rc;

use super::chunk::Pool;
use super::client::{Options, Reply};
use super::connection::{Action, Connection, Ctx, ExitReport, Outlet, Spawned, StdinReport};
use super::deadlines::{Deadlines, Timer};
use super::error::Refusal;
use super::event::{Answer, HandleEvent};
use super::ids::PeerId;
use super::log::Level;
use super::peer::{Peer, StateName};
use super::policy::Policy;
use super::queue::Queued;
use super::time::{NEVER, Nanos, after};

/// An event of the handle or of one of its peers.
#[derive(Debug)]
pub enum Told {
    /// Of the handle.
    Handle(HandleEvent),
    /// Of a peer.
    Peer {
        /// Which.
        id: PeerId,
        /// What the host gave with `add`.
        data: u64,
        /// What.
        queued: Queued,
    },
}

/// A slot, and how many peers it has held.
#[derive(Debug)]
struct Slot {
    generation: u32,
    peer: Option<Box<Peer>>,
}

/// Progress of `shutdown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shutdown {
    No,
    /// Asked for; SIGKILL at this moment, if it has not been sent.
    Asked {
        kill_at: Option<Nanos>,
    },
    /// The SHUTDOWN event was handed out.
    Told,
}

/// The peers of one handle.
#[derive(Debug)]
pub struct Supervisor {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Peers that are not CLOSED.
    open: usize,
    log_level: Level,
    pool: Rc<Pool>,
    deadlines: Deadlines,
    actions: VecDeque<Action>,
    /// Peers with something to hand out, in the order of their turns.
    ready: VecDeque<u32>,
    /// Peers whose DRAIN of an asked close was handed out: the next poll goes on with them.
    drained: Vec<u32>,
    /// Peers whose queue has room again: the next turn goes on with what stood still meanwhile (F1).
    eased: Vec<u32>,
    /// Peers that may hold more memory than they need without traffic.
    bulky: Vec<u32>,
    woken: bool,
    shutdown: Shutdown,
}

impl Supervisor {
    /// No peers yet. Log lines of the library up to `log_level` are told.
    pub fn new(log_level: Level) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            open: 0,
            log_level,
            pool: Pool::new(),
            deadlines: Deadlines::default(),
            actions: VecDeque::new(),
            ready: VecDeque::new(),
            drained: Vec::new(),
            eased: Vec::new(),
            bulky: Vec::new(),
            woken: false,
            shutdown: Shutdown::No,
        }
    }

    // ---- peers by id: what the host asks for ----

    /// Adds a peer. It does nothing until it is started.
    pub fn add(&mut self, policy: Policy, data: u64) -> Answer<PeerId> {
        self.open_for_more()?;
        policy.check()?;
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(Slot { generation: 0, peer: None });
                (self.slots.len() - 1) as u32
            }
        };
        let entry = &mut self.slots[slot as usize];
        entry.generation += 1;
        let id = PeerId::new(slot, entry.generation);
        entry.peer = Some(Box::new(Peer::new(id, data, policy, self.log_level)));
        self.open += 1;
        Ok(id)
    }

    fn open_for_more(&self) -> Answer {
        match self.shutdown {
            Shutdown::No => Ok(()),
            _ => Err(Refusal::Closed("the handle was shut down")),
        }
    }

    /// The peer of an id.
    pub fn peer(&self, id: PeerId) -> Answer<&Peer> {
        self.slots
            .get(id.slot() as usize)
            .filter(|slot| slot.generation == id.generation())
            .and_then(|slot| slot.peer.as_deref())
            .ok_or(Refusal::NoPeer)
    }

    /// The slot of an id, for what the reactor keeps per peer.
    pub fn slot(&self, id: PeerId) -> Answer<u32> {
        self.peer(id).map(|_| id.slot())
    }

    /// Whether `start` may spawn; the reactor then does, and calls `spawned`.
    pub fn may_start(&self, id: PeerId) -> Answer {
        let peer = self.peer(id)?;
        self.open_for_more()?;
        peer.may_start()
    }

    /// The peer's state.
    pub fn state(&self, id: PeerId) -> Answer<StateName> {
        self.peer(id).map(Peer::state)
    }

    /// Queues one raw line, and numbers it.
    pub fn send(&mut self, id: PeerId, text: &[u8]) -> Answer<u64> {
        self.slot(id)?;
        let peer = self.slots[id.slot() as usize].peer.as_deref_mut();
        peer.ok_or(Refusal::NoPeer)?.send(text)
    }

    /// Takes a request and gives its id.
    pub fn request(&mut self, now: Nanos, id: PeerId, method: &str, params: &[u8], options: &Options) -> Answer<u64> {
        let slot = self.slot(id)?;
        self.with(now, slot, |peer, ctx| peer.request(ctx, method, params, options)).unwrap_or(Err(Refusal::NoPeer))
    }

    /// Opens a stream and gives its id.
    pub fn listen(&mut self, now: Nanos, id: PeerId, filter: &[u8], user_data: u64) -> Answer<u64> {
        let slot = self.slot(id)?;
        self.with(now, slot, |peer, ctx| peer.listen(ctx, filter, user_data)).unwrap_or(Err(Refusal::NoPeer))
    }

    /// Sends a notification.
    pub fn notify(&mut self, now: Nanos, id: PeerId, method: &str, params: &[u8]) -> Answer {
        let slot = self.slot(id)?;
        self.with(now, slot, |peer, ctx| peer.notify(ctx, method, params)).unwrap_or(Err(Refusal::NoPeer))
    }

    /// Ends a request or a stream.
    pub fn cancel(&mut self, now: Nanos, id: PeerId, request: u64, reason: &str) -> Answer {
        let slot = self.slot(id)?;
        self.with(now, slot, |peer, ctx| peer.cancel(ctx, request, reason)).unwrap_or(Err(Refusal::NoPeer))
    }

    /// Answers a request of the server.
    pub fn respond(&mut self, now: Nanos, id: PeerId, token: u64, reply: Reply<'_>) -> Answer {
        let slot = self.slot(id)?;
        self.with(now, slot, |peer, ctx| peer.respond(ctx, token, reply)).unwrap_or(Err(Refusal::NoPeer))
    }

    /// Whether `tick` would end a request of the peer at `now`: its stdout is read before that (R4).
    pub fn judges(&self, now: Nanos) -> Vec<u32> {
        self.deadlines
            .due_slots(now, Timer::Client)
            .filter(|slot| self.at(*slot).is_some_and(|peer| peer.judges(now)))
            .collect()
    }

    /// Ends the peer for good (L8 to L10).
    pub fn close(&mut self, now: Nanos, id: PeerId) -> Answer {
        let slot = self.slot(id)?;
        self.with(now, slot, |peer, ctx| peer.close(ctx));
        Ok(())
    }

    /// Forgets a peer that is over, or was never started.
    pub fn remove(&mut self, id: PeerId) -> Answer {
        let peer = self.peer(id)?;
        let idle = peer.state() == StateName::Idle;
        if !idle && !peer.final_taken {
            return Err(Refusal::NotClosed);
        }
        // The next peer of this slot must not inherit what this one left to be done.
        self.drained.retain(|slot| *slot != id.slot());
        self.ready.retain(|slot| *slot != id.slot());
        self.eased.retain(|slot| *slot != id.slot());
        self.bulky.retain(|slot| *slot != id.slot());
        let entry = &mut self.slots[id.slot() as usize];
        if let Some(mut peer) = entry.peer.take() {
            peer.clear_deadlines(&mut self.deadlines, id.slot());
        }
        if entry.generation < u32::MAX {
            self.free.push(id.slot());
        }
        self.open -= usize::from(idle);
        Ok(())
    }

    /// Closes every peer; after `grace` what is left is killed (L18). A second call can only bring that moment nearer.
    pub fn shutdown(&mut self, now: Nanos, grace: Nanos) {
        let at = after(now, grace);
        match &mut self.shutdown {
            Shutdown::No => self.shutdown = Shutdown::Asked { kill_at: Some(at) },
            Shutdown::Asked { kill_at: Some(earlier) } => *earlier = at.min(*earlier),
            Shutdown::Asked { kill_at: None } | Shutdown::Told => {}
        }
        for slot in 0..self.slots.len() as u32 {
            self.with(now, slot, |peer, ctx| peer.close(ctx));
        }
    }

    /// `wakeup` was called: one event, however often.
    pub fn woken(&mut self) {
        self.woken = true;
    }

    // ---- connections by slot: what happens to them ----

    /// A process was spawned for the peer.
    pub fn spawned(&mut self, now: Nanos, slot: u32, spawned: Spawned) {
        let pool = Rc::clone(&self.pool);
        self.with(now, slot, |peer, ctx| peer.spawned(ctx, &pool, spawned));
    }

    /// The replacement could not be spawned.
    pub fn spawn_failed(&mut self, now: Nanos, slot: u32, text: String) {
        self.with(now, slot, |peer, ctx| peer.spawn_failed(ctx, text));
    }

    /// The connection serves, where the policy says that this has to be told.
    pub fn serves(&mut self, now: Nanos, slot: u32) {
        self.with(now, slot, |peer, ctx| peer.told_to_serve(ctx));
    }

    /// Whether an `Action::Spawn` is still wanted.
    pub fn wants_spawn(&self, slot: u32) -> bool {
        self.at(slot).is_some_and(Peer::wants_spawn)
    }

    /// Whether stdout is to be read now (F1).
    pub fn wants_stdout(&self, slot: u32) -> bool {
        self.at(slot).is_some_and(Peer::wants_stdout)
    }

    /// Whether lines that were read wait for their turn.
    pub fn has_backlog(&self, slot: u32) -> bool {
        self.at(slot).is_some_and(Peer::has_backlog)
    }

    /// Where the next read of stdout goes.
    pub fn stdout_room(&mut self, slot: u32) -> Option<&mut [u8]> {
        self.slots.get_mut(slot as usize)?.peer.as_mut()?.stdout_room()
    }

    /// `count` bytes were read into that room; at most `lines` lines are taken now. Says how many were, as `take_lines` counts.
    pub fn stdout_read(
        &mut self,
        now: Nanos,
        slot: u32,
        count: usize,
        lines: usize,
        outlet: Option<&mut dyn Outlet>,
    ) -> usize {
        self.with_outlet(now, slot, outlet, |peer, ctx| peer.stdout_read(ctx, count, lines)).unwrap_or(0)
    }

    /// At most `lines` more lines of what was read are taken. Says how many were; a large one counts for `TURN_LINES`.
    pub fn take_lines(&mut self, now: Nanos, slot: u32, lines: usize, outlet: Option<&mut dyn Outlet>) -> usize {
        self.with_outlet(now, slot, outlet, |peer, ctx| peer.take_lines(ctx, lines)).unwrap_or(0)
    }

    /// stdout ended, or cannot be read for the reason given.
    pub fn stdout_ended(&mut self, now: Nanos, slot: u32, failure: Option<String>, stdin: Option<StdinReport>) {
        self.with(now, slot, |peer, ctx| peer.stdout_ended(ctx, failure, stdin));
    }

    /// stdout was found empty.
    pub fn stdout_empty(&mut self, now: Nanos, slot: u32) {
        self.with(now, slot, |peer, ctx| peer.stdout_empty(ctx));
    }

    /// Bytes of stderr.
    pub fn stderr_read(&mut self, now: Nanos, slot: u32, bytes: &[u8]) {
        self.with(now, slot, |peer, ctx| peer.stderr_read(ctx, bytes));
    }

    /// stderr ended.
    pub fn stderr_ended(&mut self, now: Nanos, slot: u32) {
        self.with(now, slot, |peer, ctx| peer.stderr_ended(ctx));
    }

    /// Nobody reads stdin any more.
    pub fn stdin_gone(&mut self, now: Nanos, slot: u32, report: StdinReport) {
        self.with(now, slot, |peer, ctx| peer.stdin_gone(ctx, report));
    }

    /// `count` bytes of the outbox were written.
    pub fn wrote(&mut self, now: Nanos, slot: u32, count: usize) {
        self.with(now, slot, |peer, ctx| peer.wrote(ctx, count));
    }

    /// The process is gone.
    pub fn exited(&mut self, now: Nanos, slot: u32, report: ExitReport) {
        self.with(now, slot, |peer, ctx| peer.exited(ctx, report));
    }

    /// A line of the library's own about this peer.
    pub fn log(&mut self, now: Nanos, slot: u32, level: Level, text: String) {
        self.with(now, slot, |peer, _| peer.log(level, text));
    }

    /// The connection of a slot, while there is one.
    pub fn connection(&self, slot: u32) -> Option<&Connection> {
        self.at(slot)?.connection()
    }

    // ---- time and turns ----

    /// A poll begins: closes whose DRAIN was taken go on (L8).
    pub fn begin_poll(&mut self, now: Nanos) {
        while let Some(slot) = self.drained.pop() {
            self.with(now, slot, |peer, ctx| peer.drain_consumed(ctx));
        }
    }

    /// Everything that is due at `now`.
    pub fn tick(&mut self, now: Nanos) {
        while let Some(slot) = self.eased.pop() {
            self.with(now, slot, |peer, ctx| peer.mind_room(ctx));
        }
        let mut outdated = false;
        while let Some((slot, timer)) = self.deadlines.take_due(now) {
            outdated |= timer == Timer::Client && self.at(slot).is_some_and(|peer| !peer.judges(now));
            self.with(now, slot, |peer, ctx| peer.due(ctx, timer));
        }
        if outdated {
            // The traffic that this deadline was set for is over, and then that of others is likely to be as well. All are brought up
            // to date now, so that a handle without traffic is woken once and not once for each of its peers.
            for slot in self.deadlines.slots_with(Timer::Client) {
                self.with(now, slot, |peer, ctx| peer.renew_client_deadline(ctx));
            }
        }
        if let Shutdown::Asked { kill_at: Some(at) } = self.shutdown
            && at <= now
        {
            self.shutdown = Shutdown::Asked { kill_at: None };
            for slot in 0..self.slots.len() as u32 {
                self.with(now, slot, |peer, ctx| peer.kill(ctx));
            }
        }
    }

    /// The earliest moment at which `tick` would do something.
    pub fn next_deadline(&self) -> Option<Nanos> {
        let kill_at = match self.shutdown {
            Shutdown::Asked { kill_at: Some(at) } if self.open > 0 && at != NEVER => Some(at),
            _ => None,
        };
        match (self.deadlines.next(), kill_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The next thing to do.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether something waits to be done.
    pub fn has_action(&self) -> bool {
        !self.actions.is_empty()
    }

    /// Whether something waits to be told.
    pub fn has_event(&self) -> bool {
        self.woken || !self.ready.is_empty() || self.owes_shutdown()
    }

    /// Whether the next poll changes something by itself, without anything happening outside.
    pub fn has_work(&self) -> bool {
        self.has_event() || self.has_action() || !self.drained.is_empty() || !self.eased.is_empty()
    }

    /// The next event: the handle's own first, then the peers in turn, each in its own order.
    pub fn next_event(&mut self) -> Option<Told> {
        if std::mem::take(&mut self.woken) {
            return Some(Told::Handle(HandleEvent::Wakeup));
        }
        while let Some(slot) = self.ready.pop_front() {
            let Some(peer) = self.slots[slot as usize].peer.as_deref_mut() else {
                continue;
            };
            let Some(queued) = peer.queue.pop() else {
                peer.is_ready = false;
                continue;
            };
            if peer.event_taken(slot, &mut self.actions) {
                self.eased.push(slot);
            }
            if matches!(queued.event, super::event::Event::Drain { asked: true }) {
                self.drained.push(slot);
            }
            peer.final_taken |= queued.is_final;
            peer.is_ready = !peer.queue.is_empty();
            if peer.is_ready {
                self.ready.push_back(slot);
            }
            return Some(Told::Peer { id: peer.id, data: peer.data, queued });
        }
        if self.owes_shutdown() {
            self.shutdown = Shutdown::Told;
            return Some(Told::Handle(HandleEvent::Shutdown));
        }
        None
    }

    /// Whether memory is held that only traffic needs.
    pub fn is_bulky(&self) -> bool {
        !self.bulky.is_empty() || self.pool.is_bulky()
    }

    /// Lets go of it, as far as nothing is in it.
    pub fn trim(&mut self) {
        self.pool.trim();
        let mut bulky = std::mem::take(&mut self.bulky);
        bulky.retain(|slot| {
            let peer = self.slots[*slot as usize].peer.as_deref_mut();
            peer.is_some_and(|peer| {
                peer.trim();
                // What a peer keeps now it needs until something happens to it, which lists it again. That the host takes its
                // events does not, and while it has not the handle is readable anyway.
                peer.in_bulky = !peer.queue.is_empty() && peer.is_bulky();
                peer.in_bulky
            })
        });
        self.bulky = bulky;
    }

    fn owes_shutdown(&self) -> bool {
        matches!(self.shutdown, Shutdown::Asked { .. }) && self.open == 0 && self.ready.is_empty()
    }

    fn at(&self, slot: u32) -> Option<&Peer> {
        self.slots.get(slot as usize)?.peer.as_deref()
    }

    /// One step of one peer, and the bookkeeping behind it. `None` if the slot is empty.
    fn with<T>(&mut self, now: Nanos, slot: u32, step: impl FnOnce(&mut Peer, &mut Ctx<'_>) -> T) -> Option<T> {
        self.with_outlet(now, slot, None, step)
    }

    /// The same with the host at hand, for messages that need not wait in the queue.
    fn with_outlet<T>(
        &mut self,
        now: Nanos,
        slot: u32,
        outlet: Option<&mut dyn Outlet>,
        step: impl FnOnce(&mut Peer, &mut Ctx<'_>) -> T,
    ) -> Option<T> {
        let peer = self.slots.get_mut(slot as usize)?.peer.as_deref_mut()?;
        let was_open = peer.state() != StateName::Closed;
        // Said again, because the lifetime of what is behind it is another one here.
        let outlet = outlet.map(|outlet| outlet as &mut dyn Outlet);
        let mut ctx = Ctx { outlet, now, slot, deadlines: &mut self.deadlines, actions: &mut self.actions };
        let value = step(peer, &mut ctx);
        if was_open && peer.state() == StateName::Closed {
            self.open -= 1;
        }
        if !peer.in_bulky && peer.is_bulky() {
            peer.in_bulky = true;
            self.bulky.push(slot);
        }
        if !peer.is_ready && !peer.queue.is_empty() {
            peer.is_ready = true;
            self.ready.push_back(slot);
        }
        Some(value)
    }
}
