//! Processes and pipes as far as the core can notice them, so that random histories are possible ones; and a reactor that
//! serves them.

use std::collections::VecDeque;

use super::watch::Watch;
use crate::core::connection::{Action, ExitReport, Spawned, StdinReport};
use crate::core::event::{Exit, HandleEvent};
use crate::core::ids::PeerId;
use crate::core::log::Level;
use crate::core::peer::StateName;
use crate::core::policy::Policy;
use crate::core::supervisor::{Supervisor, Told};
use crate::core::time::{Nanos, ms};

/// One process, its pipes, and our ends of them.
#[derive(Debug, Default)]
struct Process {
    life: u32,
    lines: u32,
    gone: bool,
    exit_told: bool,
    stdin: bool,
    stdin_bytes: u64,
    stdin_readers: bool,
    stdout: bool,
    stdout_bytes: VecDeque<u8>,
    stdout_writers: bool,
    stderr: bool,
    stderr_bytes: usize,
    stderr_writers: bool,
    /// Something stood in the stream that ends it early.
    spoiled: bool,
}

#[derive(Debug)]
pub struct Peer {
    pub id: PeerId,
    pub watch: Watch,
    policy: Policy,
    process: Option<Process>,
    lives: u32,
}

#[derive(Debug)]
pub struct World {
    pub sup: Supervisor,
    pub now: Nanos,
    pub peers: Vec<Peer>,
    pub kept: Vec<Told>,
    pub spawns_fail: bool,
    pub shut_down: bool,
    shutdown_told: bool,
    pids: i32,
}

impl World {
    /// Everything is over and every event was given back: nothing is left.
    pub fn assert_over(&mut self) {
        self.settle();
        self.kept.clear();
        assert!(self.shutdown_told, "SHUTDOWN never came");
        assert_eq!(self.sup.next_deadline(), None, "a deadline is left");
        for peer in &self.peers {
            peer.watch.assert_over();
            assert!(peer.process.is_none());
            assert_eq!(peer.pinned(&self.sup), 0, "bytes are held for nobody");
        }
    }

    /// Whether a process is left.
    pub fn has_processes(&self) -> bool {
        self.peers.iter().any(|peer| peer.process.is_some())
    }

    pub fn new(policies: Vec<Policy>) -> Self {
        let mut world = Self {
            sup: Supervisor::new(Level::Info),
            now: ms(1_000),
            peers: Vec::new(),
            kept: Vec::new(),
            spawns_fail: false,
            shut_down: false,
            shutdown_told: false,
            pids: 0,
        };
        for policy in policies {
            let id = world.sup.add(policy.clone(), 0).unwrap();
            world.peers.push(Peer { id, watch: Watch::new(policy.clone()), policy, process: None, lives: 0 });
        }
        world
    }

    fn state(&self, peer: usize) -> StateName {
        self.sup.state(self.peers[peer].id).unwrap()
    }

    /// One call into the core, and what must hold around every one of them.
    fn call<T>(&mut self, call: impl FnOnce(&mut Supervisor, Nanos) -> T) -> T {
        let before: Vec<_> = (0..self.peers.len()).map(|peer| self.state(peer)).collect();
        let value = call(&mut self.sup, self.now);
        for (peer, before) in before.into_iter().enumerate() {
            let after = self.state(peer);
            if before == StateName::Running && !matches!(after, StateName::Running | StateName::Draining) {
                self.peers[peer].watch.decision(self.now);
            }
        }
        value
    }

    fn act(&mut self) {
        let mut most = 100_000;
        while let Some(action) = self.sup.next_action() {
            most -= 1;
            assert!(most > 0, "there is no end of actions");
            let (Action::Spawn(slot)
            | Action::Serve(slot)
            | Action::CloseStdin(slot)
            | Action::CloseStdout(slot)
            | Action::CloseStderr(slot)
            | Action::Terminate(slot)
            | Action::Kill(slot)
            | Action::Sweep(slot)
            | Action::Release(slot)) = action;
            let peer = slot as usize;
            if let Action::Spawn(_) = action {
                assert!(self.peers[peer].process.is_none());
                if self.sup.wants_spawn(slot) {
                    self.peers[peer].watch.action(action);
                    self.spawn(peer);
                }
                continue;
            }
            self.peers[peer].watch.action(action);
            let process = self.peers[peer].process.as_mut().unwrap();
            match action {
                Action::CloseStdin(_) => process.stdin = false,
                Action::CloseStdout(_) => process.stdout = false,
                Action::CloseStderr(_) => process.stderr = false,
                Action::Kill(_) => process.gone = true,
                Action::Sweep(_) => {
                    process.stdin_readers = false;
                    process.stdout_writers = false;
                    process.stderr_writers = false;
                }
                Action::Release(_) => self.peers[peer].process = None,
                Action::Spawn(_) | Action::Serve(_) | Action::Terminate(_) => {}
            }
        }
    }

    fn spawn(&mut self, peer: usize) {
        let slot = peer as u32;
        if self.spawns_fail {
            self.peers[peer].watch.decision(self.now);
            self.call(|sup, now| sup.spawn_failed(now, slot, "no such command".to_owned()));
            return;
        }
        self.pids += 1;
        let entry = &mut self.peers[peer];
        entry.lives += 1;
        entry.process = Some(Process {
            life: entry.lives,
            stdin: true,
            stdin_readers: true,
            stdout: true,
            stdout_writers: true,
            stderr: true,
            stderr_writers: true,
            ..Process::default()
        });
        entry.watch.spawned();
        let spawned = Spawned { pid: self.pids, stderr: true, stdin_bytes: 200 };
        self.call(|sup, now| sup.spawned(now, slot, spawned));
    }

    // ---- the host ----

    pub fn start(&mut self, peer: usize) {
        if self.sup.may_start(self.peers[peer].id).is_ok() && !self.spawns_fail {
            self.spawn(peer);
        }
        self.act();
    }

    pub fn send(&mut self, peer: usize) {
        let id = self.peers[peer].id;
        let answer = self.sup.send(id, br#"{"jsonrpc":"2.0","method":"hello"}"#);
        let open = matches!(self.state(peer), StateName::Running | StateName::Draining);
        assert!(open || answer.is_err());
        self.act();
    }

    pub fn close(&mut self, peer: usize) {
        if self.state(peer) == StateName::Ending {
            self.peers[peer].watch.called_off();
        }
        let id = self.peers[peer].id;
        self.call(|sup, now| sup.close(now, id).unwrap());
        self.act();
    }

    /// Forgets a peer and puts another one in its place.
    pub fn replace(&mut self, peer: usize) {
        let id = self.peers[peer].id;
        if self.shut_down {
            return;
        }
        let may = self.state(peer) == StateName::Idle || self.peers[peer].watch.is_final();
        assert_eq!(self.sup.remove(id).is_ok(), may);
        if !may {
            return;
        }
        let policy = self.peers[peer].policy.clone();
        let id = self.sup.add(policy.clone(), 0).unwrap();
        assert_eq!(self.sup.slot(id), Ok(peer as u32), "the slot is used again");
        self.peers[peer] = Peer { id, watch: Watch::new(policy.clone()), policy, process: None, lives: 0 };
    }

    pub fn shutdown(&mut self, grace: u64) {
        for peer in 0..self.peers.len() {
            if self.state(peer) == StateName::Ending {
                self.peers[peer].watch.called_off();
            }
        }
        self.shut_down = true;
        self.call(|sup, now| sup.shutdown(now, ms(grace)));
        self.act();
    }

    /// A poll: at most so many events are handed out.
    pub fn poll(&mut self, most: usize) {
        self.kept.clear();
        self.call(|sup, now| sup.begin_poll(now));
        self.act();
        for peer in 0..self.peers.len() {
            self.serve(peer, usize::MAX);
        }
        self.call(|sup, now| sup.tick(now));
        self.act();
        let limit = 100_000;
        for taken in 0.. {
            assert!(taken < limit, "there is no end of events");
            if taken == most {
                break;
            }
            let Some(told) = self.sup.next_event() else {
                break;
            };
            self.told(&told);
            self.kept.push(told);
            self.act();
        }
    }

    /// Polls until nothing comes any more; then nothing may be left to do without something happening outside.
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
    }

    fn told(&mut self, told: &Told) {
        match told {
            Told::Handle(HandleEvent::Wakeup) => {}
            Told::Handle(HandleEvent::Shutdown) => {
                assert!(self.shut_down && !std::mem::replace(&mut self.shutdown_told, true), "SHUTDOWN comes once");
                for peer in &self.peers {
                    assert!(peer.watch.is_final(), "SHUTDOWN before the last event of a peer");
                }
            }
            Told::Peer { id, queued, .. } => {
                let peer = self.peers.iter_mut().find(|peer| peer.id == *id).expect("an event of a peer there is");
                peer.watch.event(queued);
            }
        }
    }

    // ---- the world ----

    pub fn write(&mut self, peer: usize, what: u8) {
        let Some(process) = self.peers[peer].process.as_mut() else {
            return;
        };
        if !process.stdout_writers {
            return;
        }
        match what {
            0..=5 => {
                let line = super::harness::note(&format!("life{}line{}", process.life, process.lines));
                process.lines += 1;
                process.stdout_bytes.extend(line.as_bytes());
            }
            6 => process.stdout_bytes.extend(b"nonsense\n"),
            7 => process.stdout_bytes.extend(b"\r\n \n"),
            8 => process.stdout_bytes.extend(br#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#.iter().chain(b"\n")),
            _ => {
                process.spoiled = true;
                process.stdout_bytes.extend([b'x'; 300]);
                process.stdout_bytes.push_back(b'\n');
            }
        }
    }

    pub fn write_stderr(&mut self, peer: usize) {
        if let Some(process) = self.peers[peer].process.as_mut().filter(|process| process.stderr_writers) {
            process.stderr_bytes += 6;
        }
    }

    /// The server lets go of an end; its children may have kept it open until now.
    pub fn let_go(&mut self, peer: usize, end: u8) {
        if let Some(process) = self.peers[peer].process.as_mut() {
            match end {
                0 => process.stdout_writers = false,
                1 => process.stderr_writers = false,
                _ => process.stdin_readers = false,
            }
        }
    }

    /// The process ends; its children may live on with its pipes.
    pub fn exit(&mut self, peer: usize, with_pipes: bool) {
        if let Some(process) = self.peers[peer].process.as_mut() {
            process.gone = true;
            if with_pipes {
                process.stdout_writers = false;
                process.stderr_writers = false;
                process.stdin_readers = false;
            }
        }
    }

    pub fn serves(&mut self, peer: usize) {
        self.call(|sup, now| sup.serves(now, peer as u32));
        self.act();
    }

    /// The server reads its stdin.
    pub fn read_stdin(&mut self, peer: usize, bytes: u64) {
        if let Some(process) = self.peers[peer].process.as_mut().filter(|process| process.stdin_readers) {
            process.stdin_bytes = process.stdin_bytes.saturating_sub(bytes);
        }
    }

    pub fn advance(&mut self, millis: u64, step_by_step: bool) {
        let target = self.now + ms(millis);
        while step_by_step && let Some(at) = self.sup.next_deadline().filter(|at| *at <= target) {
            self.now = self.now.max(at);
            self.call(|sup, now| sup.tick(now));
            self.act();
            assert!(self.sup.next_deadline().is_none_or(|next| next > self.now), "a deadline comes back");
        }
        self.now = target;
    }

    /// One turn of a reactor for one peer, with at most so many lines.
    pub fn serve(&mut self, peer: usize, mut frames: usize) {
        let slot = peer as u32;
        self.flush(peer);
        while frames > 0 {
            if self.sup.has_backlog(slot) {
                frames -= self.call(|sup, now| sup.take_lines(now, slot, frames, None));
                self.act();
                continue;
            }
            let Some(process) = self.peers[peer].process.as_mut() else {
                return;
            };
            if !process.stdout || !self.sup.wants_stdout(slot) {
                break;
            }
            if process.stdout_bytes.is_empty() {
                if process.stdout_writers {
                    break;
                }
                let report = process.stdin_report();
                self.call(|sup, now| sup.stdout_ended(now, slot, None, report));
                self.act();
                continue;
            }
            let room = self.sup.stdout_room(slot).unwrap();
            let count = room.len().min(process.stdout_bytes.len()).min(100);
            for (to, from) in room.iter_mut().zip(process.stdout_bytes.drain(..count)) {
                *to = from;
            }
            frames -= self.call(|sup, now| sup.stdout_read(now, slot, count, frames, None));
            self.act();
        }
        self.serve_rest(peer);
    }

    fn flush(&mut self, peer: usize) {
        let slot = peer as u32;
        let Some(process) = self.peers[peer].process.as_mut() else {
            return;
        };
        let queued = self.sup.connection(slot).map_or(0, |conn| conn.outbox.queued());
        let count = queued.min(200 - process.stdin_bytes as usize);
        if process.stdin && process.stdin_readers && count > 0 {
            process.stdin_bytes += count as u64;
            self.call(|sup, now| sup.wrote(now, slot, count));
            self.act();
        }
    }

    /// stderr, then the end of stdin, then the exit.
    fn serve_rest(&mut self, peer: usize) {
        let slot = peer as u32;
        if let Some(process) = self.peers[peer].process.as_mut().filter(|process| process.stderr) {
            let text = b"word!\n".repeat(std::mem::take(&mut process.stderr_bytes) / 6);
            let ended = !process.stderr_writers;
            if !text.is_empty() {
                self.call(|sup, now| sup.stderr_read(now, slot, &text));
            }
            if ended {
                self.call(|sup, now| sup.stderr_ended(now, slot));
            }
            self.act();
        }
        if let Some(process) = self.peers[peer].process.as_mut()
            && process.stdin
            && !process.stdin_readers
        {
            let report = process.stdin_report().unwrap();
            self.call(|sup, now| sup.stdin_gone(now, slot, report));
            self.act();
        }
        if let Some(process) = self.peers[peer].process.as_mut()
            && process.gone
            && !process.exit_told
        {
            process.exit_told = true;
            let owed = if process.stdout && !process.spoiled { process.lines } else { 0 };
            let life = process.life;
            let report = ExitReport {
                exit: Exit::Code(0),
                stdout: process.stdout_bytes.len(),
                stderr: process.stderr_bytes,
                stdin: process.stdin_report(),
            };
            self.peers[peer].watch.exited(life, owed);
            self.call(|sup, now| sup.exited(now, slot, report));
            self.act();
        }
    }
}

impl Process {
    fn stdin_report(&self) -> Option<StdinReport> {
        self.stdin.then_some(StdinReport { unread: self.stdin_bytes, hung_up: !self.stdin_readers })
    }
}

impl Peer {
    /// Bytes of buffer that its messages hold.
    pub fn pinned(&self, sup: &Supervisor) -> usize {
        sup.peer(self.id).map_or(0, |peer| peer.pinned())
    }
}
