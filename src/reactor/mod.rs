//! Where mio meets the core. One turn of it: wait, read, write, look at exits, tell the core the time, do what it asks for.
//! The reactor decides nothing about peers; it moves bytes, and it keeps the promise of rule H1 that the handle's one
//! descriptor is never silent while a poll would report or change something.

mod clock;
mod doorbell;
mod link;
mod spec;
mod sweep;
mod tokens;
mod turn;

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll};

pub use clock::Clock;
pub use doorbell::{Doorbell, Wake};
pub use spec::{EnvMode, Launch, Spec};

use crate::core::client::known::Known;
use crate::core::client::{Options, Reply};
use crate::core::connection::{Outlet, Spawned};
use crate::core::error::Refusal;
use crate::core::ids::PeerId;
use crate::core::log::Level;
use crate::core::peer::StateName;
use crate::core::supervisor::{Supervisor, Told};
use crate::core::time::{NEVER, Nanos, ms};
use crate::sys::{self, Features, SigchldBell, SpawnError};
use link::Link;
use sweep::Sweep;

/// Events fetched from the kernel by one call.
const EVENTS: usize = 256;
/// Bytes that make a queue of small lines worth a write before the next poll.
const WRITE_AT: usize = 64 << 10;
/// What a request has beside its params, at most as far as it matters for when it is written.
const LINE_OVERHEAD: usize = 1024;
/// From the traffic that took memory to the moment it is given back: one late wake-up of a handle that has nothing else to do.
const TRIM_AFTER: u64 = 1_000_000_000;
/// Turns of one poll that lead to no event.
const MOST_TURNS: u32 = 32;
/// How long `free` waits for killed processes to be reaped (P7).
const FREE_WAITS: Duration = Duration::from_secs(1);

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The core refuses it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A process could not be spawned.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// A call of the system failed.
    #[error(transparent)]
    System(#[from] sys::Error),
    /// A call of the system failed inside mio.
    #[error("{call}: {error}")]
    Io {
        /// What was tried.
        call: &'static str,
        /// How it failed.
        error: io::Error,
    },
}

/// How a handle is made.
#[derive(Debug, Clone)]
pub struct Config {
    /// The host moves the clock.
    pub manual_clock: bool,
    /// Lines of the library's own that are told.
    pub log_level: Level,
    /// Where pidfds are missing, SIGCHLD tells of exits sooner than the sweep would.
    pub sigchld: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { manual_clock: false, log_level: Level::Warning, sigchld: false }
    }
}

/// The host's array, as far as it is not filled.
struct Taker<'a, F> {
    left: usize,
    out: &'a mut F,
}

impl<F: FnMut(Told)> Outlet for Taker<'_, F> {
    #[inline]
    fn room(&self) -> usize {
        self.left
    }

    #[inline]
    fn give(&mut self, told: Told) {
        self.left -= 1;
        (self.out)(told);
    }
}

/// The reactor of one handle.
#[derive(Debug)]
pub struct Reactor {
    poll: Poll,
    events: Events,
    timer: sys::Timer,
    /// What the timer is armed for, on the real clock.
    armed: Option<u64>,
    bell: Doorbell,
    features: Features,
    clock: Clock,
    core: Supervisor,
    launches: Vec<Option<Launch>>,
    links: Vec<Option<Box<Link>>>,
    /// Slots with something to read, write or look at.
    work: Vec<u32>,
    /// The list of the turn before, kept for its memory.
    spare_work: Vec<u32>,
    scratch: Vec<u8>,
    /// The last poll handed out at most one event: whoever sends now waits for the answer (a batch would come in batches).
    was_quiet: bool,
    sweep: Sweep,
    /// When memory that only traffic needs is let go of. A manual clock rings no bell for it.
    trim_at: Option<u64>,
    sigchld: Option<(SigchldBell, sys::Eventfd)>,
}

impl Reactor {
    /// A reactor without peers.
    pub fn new(config: &Config) -> Result<Self, Error> {
        let features = Features::detect();
        let poll = poll_above_stdio().map_err(|error| Error::Io { call: "epoll", error })?;
        let timer = sys::Timer::new()?;
        let bell = Doorbell::new()?;
        let add = |fd: RawFd, token| {
            poll.registry()
                .register(&mut SourceFd(&fd), token, Interest::READABLE)
                .map_err(|error| Error::Io { call: "epoll_ctl", error })
        };
        add(timer.as_fd().as_raw_fd(), tokens::TIMER)?;
        add(bell.wake().bell().as_fd().as_raw_fd(), tokens::BELL)?;
        let sigchld = if config.sigchld {
            let bell = sys::Eventfd::new()?;
            add(bell.as_fd().as_raw_fd(), tokens::CHILD)?;
            Some((SigchldBell::new(bell.duplicate()?)?, bell))
        } else {
            None
        };
        Ok(Self {
            poll,
            events: Events::with_capacity(EVENTS),
            timer,
            armed: None,
            bell,
            features,
            clock: if config.manual_clock { Clock::Manual(0) } else { Clock::Real },
            core: Supervisor::new(config.log_level),
            launches: Vec::new(),
            links: Vec::new(),
            work: Vec::new(),
            spare_work: Vec::new(),
            scratch: Vec::new(),
            was_quiet: true,
            sweep: Sweep::default(),
            trim_at: None,
            sigchld,
        })
    }

    /// The one descriptor: readable whenever a poll would report or change something. The same for the life of the reactor.
    pub fn fd(&self) -> RawFd {
        self.poll.as_raw_fd()
    }

    /// The part of the handle that other threads may use.
    pub fn wake(&self) -> Arc<Wake> {
        Arc::clone(self.bell.wake())
    }

    /// Adds a peer: the spec is judged, and the environment captured.
    pub fn add(&mut self, spec: &Spec, data: u64) -> Result<PeerId, Error> {
        let mut launch = spec.launch(&self.features)?;
        // Most peers of a host have the same environment, and it may be large.
        if let Some(known) = self.launches.iter().rev().flatten().next()
            && known.command.env == launch.command.env
        {
            launch.command.env = Rc::clone(&known.command.env);
        }
        let id = self.core.add(spec.policy.clone(), data)?;
        let slot = self.core.slot(id)? as usize;
        if self.launches.len() <= slot {
            self.launches.resize_with(slot + 1, || None);
            self.links.resize_with(slot + 1, || None);
        }
        self.launches[slot] = Some(launch);
        Ok(id)
    }

    /// Spawns the first life. A failure is the answer, and the peer stays as it was.
    pub fn start(&mut self, id: PeerId) -> Result<(), Error> {
        self.core.may_start(id)?;
        let slot = self.core.slot(id)?;
        self.spawn(slot)?;
        self.settle();
        Ok(())
    }

    /// Spawns a connection for the slot and tells the core. Nothing is left behind after an error.
    fn spawn(&mut self, slot: u32) -> Result<(), Error> {
        let Some(launch) = &self.launches[slot as usize] else {
            return Err(Refusal::NoPeer.into());
        };
        let child = sys::spawn(&launch.command, &self.features)?;
        let stdin_bytes = sys::io::pipe_capacity(child.stdin.as_fd()).unwrap_or(64 << 10);
        let spawned = Spawned { pid: child.process.pid(), stderr: child.stderr.is_some(), stdin_bytes };
        match Link::new(child, slot, self.poll.registry()) {
            Ok(link) => {
                if link.process.pidfd().is_none() {
                    self.sweep.add(slot);
                }
                self.links[slot as usize] = Some(Box::new(link));
                self.core.spawned(self.clock.now(), slot, spawned);
                Ok(())
            }
            Err((error, process)) => {
                end_at_once(process);
                Err(Error::Io { call: "epoll_ctl", error })
            }
        }
    }

    /// Queues one raw line and numbers it. It is written at once when that is likely to be waited for.
    pub fn send(&mut self, id: PeerId, text: &[u8]) -> Result<u64, Error> {
        let number = self.core.send(id, text)?;
        let now = self.clock.now();
        self.sent(now, id, text.len() + 1)?;
        Ok(number)
    }

    /// Sends a request and gives its id. It is written at once when its answer is likely to be waited for.
    pub fn request(&mut self, id: PeerId, method: &str, params: &[u8], options: &Options) -> Result<u64, Error> {
        let now = self.clock.now();
        let request = self.core.request(now, id, method, params, options)?;
        self.sent(now, id, params.len() + LINE_OVERHEAD)?;
        Ok(request)
    }

    /// Opens a stream and gives its id.
    pub fn listen(&mut self, id: PeerId, filter: &[u8], user_data: u64) -> Result<u64, Error> {
        let now = self.clock.now();
        let stream = self.core.listen(now, id, filter, user_data)?;
        self.sent(now, id, filter.len() + LINE_OVERHEAD)?;
        Ok(stream)
    }

    /// Sends a notification.
    pub fn notify(&mut self, id: PeerId, method: &str, params: &[u8]) -> Result<(), Error> {
        let now = self.clock.now();
        self.core.notify(now, id, method, params)?;
        self.sent(now, id, params.len() + LINE_OVERHEAD)
    }

    /// Ends a request or a stream.
    pub fn cancel(&mut self, id: PeerId, request: u64, reason: &str) -> Result<(), Error> {
        let now = self.clock.now();
        self.core.cancel(now, id, request, reason)?;
        self.sent(now, id, reason.len() + LINE_OVERHEAD)
    }

    /// Answers a request of the server with a result.
    pub fn respond(&mut self, id: PeerId, token: u64, result: &[u8]) -> Result<(), Error> {
        let now = self.clock.now();
        self.core.respond(now, id, token, Reply::Result(result))?;
        self.sent(now, id, result.len() + LINE_OVERHEAD)
    }

    /// Answers a request of the server with an error.
    pub fn respond_error(
        &mut self,
        id: PeerId,
        token: u64,
        code: i64,
        message: &str,
        data: &[u8],
    ) -> Result<(), Error> {
        let now = self.clock.now();
        self.core.respond(now, id, token, Reply::Error { code, message, data })?;
        self.sent(now, id, message.len() + data.len() + LINE_OVERHEAD)
    }

    /// What the server of a peer said of itself, and whether that was before a restart.
    pub fn known(&self, id: PeerId) -> Result<Option<(&Known, bool)>, Error> {
        Ok(self.core.peer(id)?.known()?)
    }

    /// A line of about `bytes` was queued: it is written at once if nothing else waits and the host waits for its answer, or
    /// if there is enough for a write.
    fn sent(&mut self, now: Nanos, id: PeerId, bytes: usize) -> Result<(), Error> {
        let slot = self.core.slot(id)?;
        let queued = self.core.connection(slot).map_or(0, |conn| conn.outbox.queued());
        if (queued <= bytes && self.was_quiet) || queued >= WRITE_AT {
            self.flush(now, slot);
        }
        // What the pipe has taken, or has no room for, leaves nothing to do that it would not tell of by itself.
        if self.has_output(slot) {
            self.list(slot);
        }
        self.settle();
        Ok(())
    }

    /// Whether something can be written, or was found not to be wanted any more.
    fn has_output(&self, slot: u32) -> bool {
        let end = self.links[slot as usize].as_ref().and_then(|link| link.stdin.as_ref());
        let queued = self.core.connection(slot).is_some_and(|conn| conn.outbox.queued() > 0);
        end.is_some_and(|end| end.hung_up || end.failed || (end.ready && queued))
    }

    /// Ends a peer for good.
    pub fn close(&mut self, id: PeerId) -> Result<(), Error> {
        self.core.close(self.clock.now(), id)?;
        let slot = self.core.slot(id)?;
        self.list(slot);
        self.settle();
        Ok(())
    }

    /// Forgets a peer that is over or was never started.
    pub fn remove(&mut self, id: PeerId) -> Result<(), Error> {
        let slot = self.core.slot(id)? as usize;
        self.core.remove(id)?;
        self.launches[slot] = None;
        Ok(())
    }

    /// Ends every peer.
    pub fn shutdown(&mut self, grace_ms: u64) {
        self.core.shutdown(self.clock.now(), ms(grace_ms));
        for slot in 0..self.links.len() as u32 {
            self.list(slot);
        }
        self.settle();
    }

    /// The peer's state.
    pub fn state(&self, id: PeerId) -> Result<StateName, Error> {
        Ok(self.core.state(id)?)
    }

    /// The pid of the peer's process, 0 while there is none.
    pub fn pid(&self, id: PeerId) -> Result<i32, Error> {
        Ok(self.core.peer(id)?.connection().map_or(0, |conn| conn.pid))
    }

    /// Moves a manual clock forward.
    pub fn advance(&mut self, nanos: u64) -> Result<(), Error> {
        match &mut self.clock {
            Clock::Manual(now) => *now = now.saturating_add(nanos),
            Clock::Real => {
                return Err(Refusal::Invalid("this handle was not made with a manual clock".to_owned()).into());
            }
        }
        self.settle();
        Ok(())
    }

    /// Makes one turn and hands out up to `max` events. With a timeout it goes on making turns until there is something to
    /// hand out, the time is over or a signal came; `None` is without limit.
    pub fn poll(&mut self, max: usize, timeout: Option<Duration>, mut out: impl FnMut(Told)) -> Result<usize, Error> {
        let at_once = timeout == Some(Duration::ZERO);
        let until = timeout.filter(|_| !at_once).and_then(|timeout| Instant::now().checked_add(timeout));
        let mut taker = Taker { left: max, out: &mut out };
        let mut turns = 0;
        if self.core.has_work() {
            let now = self.clock.now();
            self.core.begin_poll(now);
            self.act_all(now);
        }
        loop {
            let wait = if at_once || self.has_work() {
                Some(Duration::ZERO)
            } else {
                // The turn before may have set deadlines.
                self.arm();
                until.map(|until| until.saturating_duration_since(Instant::now()))
            };
            let interrupted = self.turn(wait, &mut taker)?;
            while taker.left > 0 {
                let Some(told) = self.core.next_event() else {
                    break;
                };
                taker.give(told);
            }
            let given = max - taker.left;
            turns += 1;
            if turns >= MOST_TURNS {
                // A wait of no length notices no signal: a host whose servers keep us busy without an event gets its turn.
                break;
            }
            if given > 0 || max == 0 || interrupted || at_once || until.is_some_and(|until| until <= Instant::now()) {
                break;
            }
        }
        let given = max - taker.left;
        self.was_quiet = given <= 1;
        self.settle();
        Ok(given)
    }

    /// Whether a turn would find something to do without anything happening outside.
    fn has_work(&self) -> bool {
        self.core.has_work() || !self.work.is_empty() || self.is_due()
    }

    /// Whether a deadline of a manual clock is due; a real one makes the timer readable.
    fn is_due(&self) -> bool {
        self.clock.is_manual() && self.core.next_deadline().is_some_and(|at| at <= self.clock.now())
    }

    /// Rule H1, at the end of every call: the timer is armed for what is due later, the bell rung for what is due now.
    fn settle(&mut self) {
        if self.trim_at.is_none() && self.core.is_bulky() {
            self.trim_at = Some(self.clock.now().saturating_add(TRIM_AFTER));
        }
        self.arm();
        if self.has_work() {
            self.bell.ring();
        }
    }

    /// Arms the timer if something is due before what it is armed for. One that fires early costs a turn and is set anew.
    fn arm(&mut self) {
        let mut earliest = self.sweep.next().unwrap_or(NEVER);
        if !self.clock.is_manual() {
            let deadline = self.core.next_deadline().unwrap_or(NEVER);
            earliest = earliest.min(deadline).min(self.trim_at.unwrap_or(NEVER));
        }
        if earliest < self.armed.unwrap_or(NEVER) && self.timer.arm_at(earliest).is_ok() {
            self.armed = Some(earliest);
        }
    }

    /// Puts a slot on the list of those with something to do.
    fn list(&mut self, slot: u32) {
        if let Some(link) = &mut self.links[slot as usize]
            && !link.is_listed
        {
            link.is_listed = true;
            self.work.push(slot);
        }
    }

    /// Memory that only traffic needs is given back when the time has come. While there is traffic it is soon taken again.
    fn trim_if_due(&mut self) {
        // A timer that is armed is armed for this moment, or for an earlier one.
        if (self.armed.is_none() || self.clock.is_manual()) && self.trim_at.is_some_and(|at| at <= self.clock.now()) {
            self.trim_at = None;
            self.core.trim();
            self.scratch = Vec::new();
        }
    }

    /// Gives memory and descriptors back in a forked child, and touches nothing else. The bell's handler belongs to the parent,
    /// and the lock around it may have been held by a thread that does not exist here.
    pub fn abandon(mut self) {
        std::mem::forget(self.sigchld.take());
    }

    /// Ends everything now: stdin closed, groups killed, reaped for a bounded time (P7). Not for a forked child.
    pub fn end(mut self) {
        let registry = self.poll.registry();
        let mut left = Vec::new();
        for link in self.links.iter_mut().filter_map(Option::take) {
            let mut link = *link;
            link.close_all(registry);
            left.push(link.process);
        }
        for process in &mut left {
            process.signal_group(libc::SIGKILL);
        }
        reap_within(left, FREE_WAITS);
    }
}

/// An epoll that is none of 0, 1 and 2, in a host that has closed them: its own code still means its streams by these numbers.
fn poll_above_stdio() -> io::Result<Poll> {
    let mut low = Vec::new();
    loop {
        let poll = Poll::new()?;
        if poll.as_raw_fd() > 2 {
            return Ok(poll);
        }
        low.push(poll);
    }
}

/// A child that cannot be kept: killed and reaped.
fn end_at_once(mut process: sys::Process) {
    process.signal_group(libc::SIGKILL);
    reap_within(vec![process], FREE_WAITS);
}

/// Reaps killed processes until all are gone or the time is over.
fn reap_within(mut left: Vec<sys::Process>, most: Duration) {
    let until = Instant::now() + most;
    loop {
        left.retain_mut(|process| process.reap() == sys::Peek::Running);
        let rest = until.saturating_duration_since(Instant::now());
        let Some(first) = left.first() else { return };
        if rest.is_zero() {
            return;
        }
        match first.pidfd() {
            Some(fd) => {
                let _ = sys::io::wait(fd, libc::POLLIN, rest.as_millis().max(1) as i32);
            }
            // A killed process is gone within microseconds; without a descriptor there is nothing to wait on.
            None => std::thread::sleep(Duration::from_micros(500).min(rest)),
        }
    }
}
