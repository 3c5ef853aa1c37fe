//! A supervisor on a bench: inputs are calls, the clock is a number, and everything that comes out becomes short text.
//!
//! Events: `M a` (its method), `D`, `C lost exit=3 ->1` (reason, exit, the attempt it promises), `R 2` (its life), `E spawn
//! life=2 ->2`, `X 3` (the maximum), `READY 1`, `W`, `LOG text`, `SHUTDOWN!`. `!` marks the last event. With several peers
//! the number of the peer stands before each event.

use crate::core::budget::MaxRestarts;
use crate::core::connection::{Action, ExitReport, Spawned, StdinReport};
use crate::core::event::{CloseReason, Event, Exit, HandleEvent, To, flag};
use crate::core::ids::PeerId;
use crate::core::log::Level;
use crate::core::message::{MessageKind, Parts};
use crate::core::peer::StateName;
use crate::core::policy::{Mode, Policy};
use crate::core::queue::Queued;
use crate::core::supervisor::{Supervisor, Told};
use crate::core::time::{Nanos, ms};

/// A policy whose times are easy to tell apart.
pub fn policy() -> Policy {
    Policy {
        mode: Mode::Modern,
        max_restarts: MaxRestarts::Limited(3),
        restart_delay: ms(100),
        restart_window: ms(60_000),
        close_grace: ms(6_000),
        kill_grace: ms(2_000),
        exit_drain: ms(250),
        start_timeout: ms(20_000),
        ..Policy::default()
    }
}

/// The same for peers that have to come to serve first.
pub fn slow_policy() -> Policy {
    Policy { serves_at_once: false, ..policy() }
}

/// A notification of the server.
pub fn note(method: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\"}}\n")
}

/// The driver. Inputs go to the peer that `on` chose last, the first one at the beginning.
pub struct Rig {
    pub sup: Supervisor,
    pub now: Nanos,
    /// Whether processes that are spawned have a stderr of ours.
    pub stderr: bool,
    /// What the stdin pipes of spawned processes hold.
    pub stdin_bytes: usize,
    /// Events that were taken stay alive, as they do for a host until its next poll.
    pub keep: bool,
    pub kept: Vec<Told>,
    peers: Vec<PeerId>,
    on: usize,
    spawns: i32,
    done: Vec<String>,
}

impl Rig {
    /// One peer, without log lines of the library.
    pub fn new(policy: Policy) -> Self {
        Self::with(&[policy], Level::Server)
    }

    /// One started peer.
    pub fn started(policy: Policy) -> Self {
        let mut rig = Self::new(policy);
        rig.start();
        rig
    }

    pub fn with(policies: &[Policy], level: Level) -> Self {
        let mut sup = Supervisor::new(level);
        let peers = policies.iter().zip(0..).map(|(policy, n)| sup.add(policy.clone(), n).unwrap()).collect();
        Self {
            sup,
            now: ms(1_000_000),
            stderr: false,
            stdin_bytes: 1 << 16,
            keep: false,
            kept: Vec::new(),
            peers,
            on: 0,
            spawns: 0,
            done: Vec::new(),
        }
    }

    /// Inputs are about this peer from now on.
    pub fn on(&mut self, peer: usize) -> &mut Self {
        self.on = peer;
        self
    }

    pub fn id(&self) -> PeerId {
        self.peers[self.on]
    }

    /// A peer that the test added itself.
    pub fn adopt(&mut self, id: PeerId) {
        self.peers.push(id);
        self.on = self.peers.len() - 1;
    }

    pub fn slot(&self) -> u32 {
        self.sup.slot(self.id()).unwrap()
    }

    pub fn state(&self) -> StateName {
        self.sup.state(self.id()).unwrap()
    }

    // ---- what the host does ----

    /// `start` with a spawn that works.
    pub fn start(&mut self) {
        self.sup.may_start(self.id()).unwrap();
        self.come_to_life();
    }

    pub fn send(&mut self, method: &str) -> Result<u64, String> {
        let text = note(method);
        let answer = self.sup.send(self.id(), text.as_bytes());
        self.act();
        answer.map_err(|refusal| short(&refusal).to_owned())
    }

    pub fn close(&mut self) {
        self.sup.close(self.now, self.id()).unwrap();
        self.act();
    }

    pub fn shutdown(&mut self, grace: u64) {
        self.sup.shutdown(self.now, ms(grace));
        self.act();
    }

    /// A poll begins: what was handed out before is given back.
    pub fn begin_poll(&mut self) {
        self.kept.clear();
        self.sup.begin_poll(self.now);
        self.act();
        self.sup.tick(self.now);
        self.act();
    }

    /// What is due is looked at, without a poll.
    pub fn tick(&mut self) {
        self.sup.tick(self.now);
        self.act();
    }

    /// The next event, if there is one.
    pub fn take_one(&mut self) -> Option<String> {
        let told = self.sup.next_event();
        self.act();
        let text = self.render(told.as_ref()?);
        if self.keep {
            self.kept.extend(told);
        }
        Some(text)
    }

    /// Everything that can be taken within this poll.
    pub fn take(&mut self) -> String {
        let all: Vec<String> = std::iter::from_fn(|| self.take_one()).collect();
        all.join(", ")
    }

    /// A whole poll.
    pub fn poll(&mut self) -> String {
        self.begin_poll();
        self.take()
    }

    // ---- what the world does ----

    /// The spawn that was asked for works.
    pub fn spawn(&mut self) {
        assert!(self.sup.wants_spawn(self.slot()), "a spawn was asked for");
        self.come_to_life();
    }

    /// The spawn that was asked for fails.
    pub fn spawn_fails(&mut self) {
        assert!(self.sup.wants_spawn(self.slot()), "a spawn was asked for");
        let text = "no such command".to_owned();
        self.sup.spawn_failed(self.now, self.slot(), text);
        self.act();
    }

    /// A process comes to life whether the peer wants it or not.
    pub fn come_to_life(&mut self) {
        self.spawns += 1;
        let spawned = Spawned { pid: 100 + self.spawns, stderr: self.stderr, stdin_bytes: self.stdin_bytes };
        self.sup.spawned(self.now, self.slot(), spawned);
        self.act();
    }

    pub fn serves(&mut self) {
        self.sup.serves(self.now, self.slot());
        self.act();
    }

    /// The server writes a notification.
    pub fn out(&mut self, method: &str) {
        let text = note(method);
        assert_eq!(self.feed(text.as_bytes()), text.len(), "stdout is read");
    }

    /// The server writes bytes; says how many were read while the host had room.
    pub fn feed(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while !rest.is_empty() && self.sup.wants_stdout(self.slot()) {
            let slot = self.slot();
            let room = self.sup.stdout_room(slot).unwrap();
            let count = rest.len().min(room.len());
            room[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            self.sup.stdout_read(self.now, slot, count, usize::MAX, None);
            self.act();
        }
        bytes.len() - rest.len()
    }

    pub fn eof(&mut self) {
        self.stdout_ends(None, None);
    }

    pub fn stdout_ends(&mut self, failure: Option<&str>, stdin: Option<StdinReport>) {
        let failure = failure.map(str::to_owned);
        let slot = self.slot();
        self.sup.stdout_ended(self.now, slot, failure, stdin);
        self.act();
    }

    pub fn err(&mut self, text: &str) {
        self.sup.stderr_read(self.now, self.slot(), text.as_bytes());
        self.act();
    }

    pub fn err_eof(&mut self) {
        self.sup.stderr_ended(self.now, self.slot());
        self.act();
    }

    pub fn stdin_gone(&mut self, unread: u64) {
        let report = StdinReport { unread, hung_up: true };
        self.sup.stdin_gone(self.now, self.slot(), report);
        self.act();
    }

    /// The pipe takes everything that is queued.
    pub fn wrote(&mut self) {
        self.wrote_bytes(usize::MAX);
    }

    pub fn wrote_bytes(&mut self, most: usize) {
        let slot = self.slot();
        let queued = self.sup.connection(slot).map_or(0, |c| c.outbox.queued());
        if queued > 0 {
            self.sup.wrote(self.now, slot, queued.min(most));
        }
        self.act();
    }

    /// The process exits, and so much lies in its stdout pipe.
    pub fn exit(&mut self, code: i32, owed: usize) {
        self.exit_with(Exit::Code(code), owed, 0, None);
    }

    pub fn exit_with(&mut self, exit: Exit, out: usize, err: usize, stdin: Option<StdinReport>) {
        let report = ExitReport { exit, stdout: out, stderr: err, stdin };
        self.sup.exited(self.now, self.slot(), report);
        self.act();
    }

    /// The ordinary death: the process exits with nothing in its pipes, which then end.
    pub fn die(&mut self, code: i32) {
        self.exit(code, 0);
        self.eof();
        if self.stderr {
            self.err_eof();
        }
    }

    /// Death, the delay, and the next life; what was told meanwhile is taken.
    pub fn next_life(&mut self) {
        self.die(0);
        self.take();
        self.advance(100);
        self.spawn();
        self.take();
    }

    /// Time passes; every deadline is looked at the moment it is due.
    pub fn advance(&mut self, millis: u64) {
        self.advance_to(self.now + ms(millis));
    }

    pub fn advance_to(&mut self, target: Nanos) {
        while let Some(at) = self.sup.next_deadline().filter(|at| *at <= target) {
            assert!(at >= self.now, "a deadline in the past was not looked at");
            self.now = at;
            self.sup.tick(at);
            self.act();
            assert!(
                self.sup.next_deadline().is_none_or(|next| next > at),
                "a deadline is still due after it was looked at"
            );
        }
        self.now = target;
    }

    /// Time passes and nobody looks.
    pub fn sleep(&mut self, millis: u64) {
        self.now += ms(millis);
    }

    /// Milliseconds until the next deadline.
    pub fn deadline(&self) -> Option<u64> {
        let at = self.sup.next_deadline()?;
        assert_eq!((at - self.now) % ms(1), 0);
        Some((at - self.now) / ms(1))
    }

    // ---- what came out ----

    /// What was asked for since the last call.
    pub fn acts(&mut self) -> String {
        std::mem::take(&mut self.done).join(", ")
    }

    /// Does what a reactor does with the actions.
    pub fn act(&mut self) {
        while let Some(action) = self.sup.next_action() {
            let (slot, name) = match action {
                Action::Spawn(slot) => (slot, "Spawn"),
                Action::Serve(slot) => {
                    while self.sup.has_backlog(slot) {
                        self.sup.take_lines(self.now, slot, usize::MAX, None);
                    }
                    (slot, "Serve")
                }
                Action::CloseStdin(slot) => (slot, "CloseStdin"),
                Action::CloseStdout(slot) => (slot, "CloseStdout"),
                Action::CloseStderr(slot) => (slot, "CloseStderr"),
                Action::Terminate(slot) => (slot, "Terminate"),
                Action::Kill(slot) => (slot, "Kill"),
                Action::Sweep(slot) => (slot, "Sweep"),
                Action::Release(slot) => (slot, "Release"),
            };
            self.done.push(match self.peers.len() {
                1 => name.to_owned(),
                _ => format!("{slot} {name}"),
            });
        }
    }

    fn render(&self, told: &Told) -> String {
        match told {
            Told::Handle(HandleEvent::Wakeup) => "WAKEUP".to_owned(),
            Told::Handle(HandleEvent::Shutdown) => "SHUTDOWN!".to_owned(),
            Told::Peer { id, data, queued } => {
                let text = render(queued);
                assert!(self.peers.contains(id));
                match self.peers.len() {
                    1 => text,
                    _ => format!("{data} {text}"),
                }
            }
        }
    }
}

/// The kind of a refusal.
pub fn short(refusal: &crate::core::error::Refusal) -> &'static str {
    use crate::core::error::Refusal::*;
    match refusal {
        NoPeer => "NO_PEER",
        NotStarted => "NOT_STARTED",
        AlreadyStarted => "ALREADY_STARTED",
        Closed(_) => "CLOSED",
        NotClosed => "NOT_CLOSED",
        WouldBlock { .. } => "WOULD_BLOCK",
        Invalid(_) => "INVALID",
        Unsupported(_) => "UNSUPPORTED",
        TooMany { .. } => "TOO_MANY",
        NoRequest => "NO_REQUEST",
        Lacks { .. } => "LACKS",
    }
}

/// The request an event belongs to, and what is told of it: " #7 complete retried".
fn belongs(to: &To) -> String {
    let mut text = String::new();
    if to.request != 0 {
        text += &format!(" #{}", to.request);
    }
    for (bit, name) in [
        (flag::COMPLETE, "complete"),
        (flag::RETRIED, "retried"),
        (flag::UNREAD, "unread"),
        (flag::INPUT_REQUIRED, "input"),
        (flag::OTHER_RESULT_TYPE, "other"),
        (flag::EMULATED, "emulated"),
        (flag::BY_PEER, "by-peer"),
    ] {
        if to.flags & bit != 0 {
            text += &format!(" {name}");
        }
    }
    text
}

/// One event as text.
pub fn render(queued: &Queued) -> String {
    let method = |parts: &Parts, bytes: &[u8]| match parts.method {
        Some(span) => String::from_utf8(span.of(bytes).to_vec()).unwrap(),
        None => String::from_utf8(bytes.to_vec()).unwrap(),
    };
    let exit = |exit: &Option<Exit>| match exit {
        Some(Exit::Code(code)) => format!(" exit={code}"),
        Some(Exit::Signal(signal)) => format!(" sig={signal}"),
        Some(Exit::Unknown) => " exit=?".to_owned(),
        None => String::new(),
    };
    let mut text = match &queued.event {
        Event::Message { parts, frame, to, kind } => {
            let what = match kind {
                MessageKind::Result => "result".to_owned(),
                MessageKind::RemoteError => format!("error {}", parts.error_code),
                _ => method(parts, frame.bytes()),
            };
            format!("M {what}{}", belongs(to))
        }
        Event::Failed(failed) => {
            let fault = format!("{:?}", failed.fault).to_lowercase();
            format!("E {fault}{}", belongs(&failed.to))
        }
        Event::Forbidden { parts, frame } => format!("E protocol {}", method(parts, frame.bytes())),
        Event::Ready(serving) => format!("READY {}", serving.life),
        Event::Drain { .. } => "D".to_owned(),
        Event::Close(close) => {
            let reason = match close.reason {
                CloseReason::PeerLost => "lost",
                CloseReason::ClosedByHost => "asked",
                CloseReason::Withdrawn => "withdrawn",
            };
            let mut text = format!("C {reason}{}", exit(&close.exit));
            if let Some(promise) = close.promise {
                text += &format!(" ->{}", promise.attempt);
            }
            if close.unread_from > 0 {
                text += &format!(" unread={}", close.unread_from);
            }
            if let Some(tail) = &close.stderr_tail {
                text += &format!(" tail={tail:?}");
            }
            text
        }
        Event::Reconnect(serving) => format!("R {}", serving.life),
        Event::Error(trouble) => {
            let fault = format!("{:?}", trouble.fault).to_lowercase();
            let mut text = format!("E {fault} life={}{}", trouble.life, exit(&trouble.exit));
            if let Some(promise) = trouble.promise {
                text += &format!(" ->{}", promise.attempt);
            }
            text
        }
        Event::Exhausted { max_restarts } => format!("X {max_restarts}"),
        Event::Writable => "W".to_owned(),
        Event::Log(line) if line.dropped > 0 => format!("LOG(-{}) {}", line.dropped, line.text),
        Event::Log(line) => format!("LOG {}", line.text),
    };
    if queued.is_final {
        text.push('!');
    }
    text
}
