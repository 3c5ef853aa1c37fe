//! One peer with its client, a host that asks, and servers that read what was really written to them and answer well or badly.

use std::collections::VecDeque;

use serde_json::Value;

use super::caller::user_data;
use super::ledger::{Asked, Ledger};
use super::record::Recorder;
use super::watch::Watch;
use crate::core::client::Options;
use crate::core::connection::{Action, ExitReport, Outlet, Spawned, StdinReport};
use crate::core::era::Spoken;
use crate::core::error::Refusal;
use crate::core::event::{Answer, Event, Exit, Fault, HandleEvent};
use crate::core::ids::PeerId;
use crate::core::log::Level;
use crate::core::outbox::no_slices;
use crate::core::peer::StateName;
use crate::core::policy::Policy;
use crate::core::supervisor::{Supervisor, Told};
use crate::core::time::{NEVER, Nanos, ms};

#[path = "client_servers.rs"]
mod servers;

/// What a stdin pipe holds.
const PIPE: usize = 700;

/// Methods with their params, and whether a lost request of that kind may be sent again.
pub const ASKS: [(&str, &str, bool); 7] = [
    ("tools/list", "{}", true),
    ("prompts/get", r#"{"name":"a"}"#, true),
    ("server/discover", "", true),
    ("tools/call", "{}", false),
    ("vendor/x", "{}", false),
    ("prompts/get", r#"{"requestState":"s"}"#, false),
    ("resources/read", r#"{"uri":"a","_meta":{"x":1}}"#, true),
];

/// What streams ask for.
const FILTERS: [&str; 3] = [
    r#"{"toolsListChanged":true}"#,
    r#"{"toolsListChanged":true,"resourceSubscriptions":["mem://a"]}"#,
    r#"{"resourceSubscriptions":["mem://a","mem://b"]}"#,
];

/// One process, its pipes and our ends of them.
#[derive(Debug, Default)]
struct Process {
    life: u32,
    gone: bool,
    exit_told: bool,
    /// Nothing may be written to it any more.
    dead: bool,
    stdin: bool,
    readers: bool,
    pipe: VecDeque<u8>,
    /// Where lines begin in what was written, and whose they are.
    begun: VecDeque<(u64, Option<u64>)>,
    moved: u64,
    inside_line: bool,
    read: u64,
    part: Vec<u8>,
    /// Lines it has read and not answered.
    asked: Vec<Value>,
    stdout: bool,
    writers: bool,
    out: VecDeque<u8>,
    lines: u32,
    stderr: bool,
}

pub struct ClientWorld {
    pub sup: Supervisor,
    pub now: Nanos,
    pub ledger: Ledger,
    recorder: Recorder,
    pub spawns_fail: bool,
    id: PeerId,
    watch: Watch,
    policy: Policy,
    process: Option<Process>,
    lives: u32,
    kept: Vec<Told>,
    /// A call was refused for want of room and nothing was told since that lets the host go on.
    owed: bool,
    /// How often that happened, less the WRITABLE events.
    refusals: u64,
    shut_down: bool,
    shutdown_told: bool,
    /// How often a process was forgiven for leaving at the probe.
    shy: u64,
}

/// A host in the middle of a poll.
struct Host {
    room: usize,
    taken: Vec<Told>,
}

impl Outlet for Host {
    fn room(&self) -> usize {
        self.room
    }

    fn give(&mut self, told: Told) {
        self.room -= 1;
        self.taken.push(told);
    }
}

impl ClientWorld {
    pub fn new(policy: Policy) -> Self {
        let mut sup = Supervisor::new(Level::Info);
        let id = sup.add(policy.clone(), 0).unwrap();
        Self {
            sup,
            now: ms(1_000),
            ledger: Ledger::default(),
            recorder: Recorder::of(policy.mode),
            spawns_fail: false,
            id,
            watch: Watch::new(policy.clone()),
            policy,
            process: None,
            lives: 0,
            kept: Vec::new(),
            owed: false,
            refusals: 0,
            shut_down: false,
            shutdown_told: false,
            shy: 0,
        }
    }

    /// Z2 happened in this history.
    pub fn was_shy(&self) -> bool {
        assert!(self.shy <= 1, "Z2: once per peer");
        self.shy == 1
    }

    fn is_legacy(&self) -> bool {
        matches!(self.sup.peer(self.id).unwrap().spoken(), Spoken::Legacy(_))
    }

    pub fn state(&self) -> StateName {
        self.sup.state(self.id).unwrap()
    }

    /// What happened, for a failure's message.
    pub fn history(&self) -> String {
        self.watch.history.join(", ")
    }

    fn in_flight(&self) -> usize {
        self.sup.peer(self.id).unwrap().in_flight()
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Supervisor, Nanos) -> T) -> T {
        let before = self.state();
        let value = call(&mut self.sup, self.now);
        if before == StateName::Running && !matches!(self.state(), StateName::Running | StateName::Draining) {
            self.watch.decision(self.now);
        }
        value
    }

    fn act(&mut self) {
        while let Some(action) = self.sup.next_action() {
            if let Action::Spawn(slot) = action {
                assert!(self.process.is_none());
                if self.sup.wants_spawn(slot) {
                    self.watch.action(action);
                    self.spawn();
                }
                continue;
            }
            self.watch.action(action);
            let process = self.process.as_mut().unwrap();
            match action {
                Action::CloseStdin(_) => process.stdin = false,
                Action::CloseStdout(_) => process.stdout = false,
                Action::CloseStderr(_) => process.stderr = false,
                Action::Kill(_) => process.gone = true,
                Action::Sweep(_) => {
                    process.readers = false;
                    process.writers = false;
                }
                Action::Release(_) => self.process = None,
                Action::Spawn(_) | Action::Serve(_) | Action::Terminate(_) => {}
            }
        }
    }

    fn spawn(&mut self) {
        if self.spawns_fail {
            self.watch.decision(self.now);
            self.call(|sup, now| sup.spawn_failed(now, 0, "no such command".to_owned()));
            return;
        }
        self.lives += 1;
        self.process = Some(Process {
            life: self.lives,
            stdin: true,
            readers: true,
            stdout: true,
            writers: true,
            stderr: true,
            ..Process::default()
        });
        self.watch.spawned();
        let spawned = Spawned { pid: self.lives as i32, stderr: true, stdin_bytes: PIPE };
        self.call(|sup, now| sup.spawned(now, 0, spawned));
        // Z2: another process may be of the same life.
        let life = self.life();
        if let Some(process) = &mut self.process
            && std::mem::replace(&mut process.life, life) != life
        {
            self.shy += 1;
        }
        self.lives = life;
    }

    // ---- the host ----

    pub fn start(&mut self) {
        if self.sup.may_start(self.id).is_ok() && !self.spawns_fail {
            self.spawn();
        }
        self.act();
    }

    pub fn request(&mut self, ask: usize, times: usize, progress: bool, verbatim: bool) {
        let (method, params, survives) = ASKS[ask % ASKS.len()];
        let (idle, ceiling) =
            [(ms(200), ms(500)), (ms(30), ms(80)), (NEVER, ms(120)), (NEVER, NEVER), (ms(50), ms(10))][times % 5];
        let options = Options {
            user_data: user_data(self.ledger.next_id()),
            idle: Some(idle),
            ceiling: Some(ceiling),
            progress,
            meta_verbatim: verbatim && !progress,
        };
        let (state, now, id) = (self.state(), self.now, self.id);
        let answer = self.sup.request(now, id, method, params.as_bytes(), &options);
        if options.meta_verbatim {
            self.recorder.is_verbatim(self.ledger.next_id());
        }
        let asked = Asked { is_stream: false, survives: survives && self.policy.client.retry, options };
        self.ledger.answered(state, self.life(), now, asked, &answer);
        self.refused(&answer);
        self.act();
    }

    /// The life that calls go to: table L tells the first one from others while it starts.
    fn life(&self) -> u32 {
        self.sup.connection(0).map_or(0, |conn| conn.life)
    }

    pub fn listen(&mut self) {
        let (state, now, id) = (self.state(), self.now, self.id);
        let answer = self.sup.listen(
            now,
            id,
            FILTERS[self.ledger.next_id() as usize % FILTERS.len()].as_bytes(),
            user_data(self.ledger.next_id()),
        );
        let options = Options { idle: Some(NEVER), ceiling: Some(NEVER), ..Options::default() };
        self.ledger.answered(state, self.life(), now, Asked { is_stream: true, survives: true, options }, &answer);
        self.refused(&answer);
        self.act();
    }

    pub fn notify(&mut self) {
        let answer = self.sup.notify(self.now, self.id, "notifications/roots/list_changed", b"");
        self.refused(&answer);
        self.act();
    }

    pub fn send(&mut self) {
        let answer = self.sup.send(self.id, br#"{"jsonrpc":"2.0","id":"mine","method":"ping"}"#);
        self.refused(&answer);
        self.act();
    }

    fn refused<T>(&mut self, answer: &Answer<T>) {
        if let Err(Refusal::WouldBlock { .. } | Refusal::TooMany { .. }) = answer {
            self.owed = true;
            self.refusals += 1;
        }
        assert!(self.in_flight() <= self.policy.client.max_in_flight, "R12");
    }

    pub fn cancel(&mut self, pick: usize) {
        let request = self.ledger.pick(pick);
        let before = self.in_flight();
        let (now, id) = (self.now, self.id);
        let answer = self.call(|sup, _| sup.cancel(now, id, request, "enough"));
        self.ledger.cancelled(request, &answer);
        assert_eq!(self.in_flight(), before - usize::from(answer.is_ok()));
        let (now, id) = (self.now, self.id);
        assert!(self.sup.cancel(now, id, request, "again").is_err(), "R5: its completion is queued");
        self.act();
    }

    pub fn close(&mut self) {
        if self.state() == StateName::Ending {
            self.watch.called_off();
        }
        let id = self.id;
        self.call(|sup, now| sup.close(now, id).unwrap());
        self.act();
    }

    pub fn shutdown(&mut self, grace: u64) {
        if self.state() == StateName::Ending {
            self.watch.called_off();
        }
        self.shut_down = true;
        self.call(|sup, now| sup.shutdown(now, ms(grace)));
        self.act();
    }

    pub fn poll(&mut self, most: usize) {
        self.kept.clear();
        self.call(|sup, now| sup.begin_poll(now));
        self.act();
        // As the reactor does it: while nothing waits, messages go straight to the host.
        let mut host = Host { room: if self.sup.has_event() { 0 } else { most }, taken: Vec::new() };
        self.serve_to(usize::MAX, &mut host);
        let direct = host.taken.len();
        for told in host.taken {
            self.told(&told);
            self.kept.push(told);
        }
        self.tick();
        for taken in direct.. {
            assert!(taken < 100_000, "there is no end of events");
            if taken == most {
                break;
            }
            let Some(told) = self.sup.next_event() else { break };
            self.told(&told);
            self.kept.push(told);
            self.act();
        }
    }

    fn tick(&mut self) {
        self.call(|sup, now| sup.tick(now));
        self.act();
        assert!(self.in_flight() <= self.ledger.open_at(self.now), "R3: a ceiling passed");
    }

    fn told(&mut self, told: &Told) {
        match told {
            Told::Handle(HandleEvent::Wakeup) => {}
            Told::Handle(HandleEvent::Shutdown) => {
                assert!(self.shut_down && !std::mem::replace(&mut self.shutdown_told, true), "SHUTDOWN comes once");
                assert!(self.watch.is_final());
            }
            Told::Peer { queued, .. } => {
                self.ledger.event(queued, self.policy.client.retry);
                match queued.event {
                    Event::Writable => {
                        self.owed = false;
                        self.refusals = self.refusals.checked_sub(1).expect("F4: one WRITABLE for a refusal");
                    }
                    Event::Reconnect(_) | Event::Close(_) => self.owed = false,
                    _ => {}
                }
                if let Event::Failed(failed) = &queued.event
                    && failed.fault == Fault::Timeout
                {
                    self.ledger.timed_out(failed.to.request, self.now);
                }
                self.watch.event(queued);
            }
        }
    }

    /// Polls until nothing comes any more. What the server has not read stays in its pipe.
    pub fn settle(&mut self) {
        let mut quiet = 0;
        for polls in 0.. {
            assert!(polls < 1_000, "it never becomes quiet");
            self.poll(usize::MAX);
            quiet = if self.kept.is_empty() { quiet + 1 } else { 0 };
            if quiet == 2 {
                break;
            }
        }
        assert!(!self.sup.has_work(), "the descriptor would stay readable with nothing to do");
        let queued = self.sup.connection(0).map_or(0, |conn| conn.outbox.queued());
        if matches!(self.state(), StateName::Running | StateName::Draining) {
            if queued == 0 {
                let streams = !self.is_legacy();
                self.ledger.assert_written(self.lives, streams);
            }
            let room = queued <= self.policy.limits.outbound_bytes / 2
                && self.in_flight() <= self.policy.client.max_in_flight / 2;
            assert!(!(self.owed && room), "F4, R12: WRITABLE is owed");
        }
        assert_eq!(self.in_flight(), self.ledger.open_at(0), "everything that is over was told");
    }

    pub fn advance(&mut self, millis: u64, step_by_step: bool) {
        let target = self.now + ms(millis);
        while step_by_step && let Some(at) = self.sup.next_deadline().filter(|at| *at <= target) {
            self.now = self.now.max(at);
            self.tick();
            assert!(self.sup.next_deadline().is_none_or(|next| next > self.now), "a deadline comes back");
        }
        self.now = target;
    }

    pub fn has_process(&self) -> bool {
        self.process.is_some()
    }

    pub fn is_final(&self) -> bool {
        self.watch.is_final()
    }

    // ---- the reactor ----

    /// One turn without a host, with at most so many lines.
    pub fn serve(&mut self, frames: usize) {
        self.serve_to(frames, &mut Host { room: 0, taken: Vec::new() });
    }

    fn serve_to(&mut self, mut frames: usize, host: &mut Host) {
        self.flush();
        while frames > 0 {
            if self.sup.has_backlog(0) {
                frames -= self.call(|sup, now| sup.take_lines(now, 0, frames, Some(&mut *host)));
                self.act();
                continue;
            }
            let Some(process) = self.process.as_mut() else { return };
            if !process.stdout || !self.sup.wants_stdout(0) {
                break;
            }
            if process.out.is_empty() {
                if process.writers {
                    break;
                }
                let report = process.report();
                self.call(|sup, now| sup.stdout_ended(now, 0, None, report));
                self.ends();
                continue;
            }
            let room = self.sup.stdout_room(0).unwrap();
            let count = room.len().min(process.out.len()).min(300);
            for (to, from) in room.iter_mut().zip(process.out.drain(..count)) {
                *to = from;
            }
            frames -= self.call(|sup, now| sup.stdout_read(now, 0, count, frames, Some(&mut *host)));
            self.act();
        }
        self.serve_rest();
    }

    /// A death signal was told: unless the end was asked for, nothing more is written.
    fn ends(&mut self) {
        if !matches!(self.state(), StateName::Closing)
            && let Some(process) = &mut self.process
        {
            process.dead = true;
        }
        self.act();
    }

    fn flush(&mut self) {
        let Some(process) = self.process.as_mut() else { return };
        let Some(conn) = self.sup.connection(0) else { return };
        let queued = conn.outbox.queued();
        assert!(queued == 0 || !process.dead, "something is written after the death signal");
        let count = queued.min(PIPE - process.pipe.len());
        if !process.stdin || !process.readers || count == 0 {
            return;
        }
        let mut slices = no_slices();
        let filled = conn.outbox.slices(&mut slices);
        let bytes: Vec<u8> = slices[..filled].iter().flat_map(|slice| slice.iter().copied()).collect();
        for at in 0..count.min(bytes.len()) {
            if !std::mem::replace(&mut process.inside_line, true) {
                let end = at + bytes[at..].iter().position(|byte| *byte == b'\n').expect("whole lines are queued");
                let id = self.ledger.begins(process.life, &bytes[at..end]);
                process.begun.push_back((process.moved + at as u64, id));
            }
            process.inside_line = bytes[at] != b'\n';
        }
        let count = count.min(bytes.len());
        process.moved += count as u64;
        process.pipe.extend(&bytes[..count]);
        self.call(|sup, now| sup.wrote(now, 0, count));
        self.act();
    }

    fn serve_rest(&mut self) {
        if let Some(process) = self.process.as_mut().filter(|process| process.stderr && process.gone) {
            process.stderr = false;
            self.call(|sup, now| sup.stderr_ended(now, 0));
            self.act();
        }
        if let Some(process) = self.process.as_mut().filter(|process| process.stdin && !process.readers) {
            let report = process.report().unwrap();
            self.call(|sup, now| sup.stdin_gone(now, 0, report));
            if let Some(process) = &mut self.process {
                process.dead = true;
            }
            self.act();
        }
        if let Some(process) = self.process.as_mut().filter(|process| process.gone && !process.exit_told) {
            process.exit_told = true;
            process.dead = true;
            let (life, stdin) = (process.life, process.report());
            let report = ExitReport { exit: Exit::Code(0), stdout: process.out.len(), stderr: 0, stdin };
            // What is owed of numbered lines is looked at elsewhere: here lines of other kinds stand between them.
            self.watch.exited(life, 0);
            self.call(|sup, now| sup.exited(now, 0, report));
            self.act();
        }
    }

    /// Everything is over: nothing is left.
    pub fn assert_over(&mut self) {
        self.settle();
        self.kept.clear();
        assert!(self.shutdown_told);
        assert_eq!(self.sup.next_deadline(), None, "a deadline is left");
        self.watch.assert_over();
        self.ledger.assert_over();
        let peer = self.sup.peer(self.id).unwrap();
        assert!(peer.holds_nothing(), "something is held for nobody");
        assert_eq!(peer.pinned(), 0, "bytes are held for nobody");
    }
}

impl Process {
    fn report(&self) -> Option<StdinReport> {
        self.stdin.then_some(StdinReport { unread: self.pipe.len() as u64, hung_up: !self.readers })
    }
}
