//! One turn. First everything epoll tells is written down on the links, then each listed slot is served within its budget
//! (F5), then the core is told the time and what it asks for is done. The order within a slot matters: bytes before the exit
//! that followed them, so that a last answer is read before its sender is known to be dead.

use std::time::Duration;

use super::link::{Got, read};
use super::tokens::{BELL, CHILD, Part, TIMER, parse};
use super::{EVENTS, Error, Reactor};
use crate::core::connection::{Action, Outlet};
use crate::core::log::Level;
use crate::core::outbox::no_slices;
use crate::core::peer::TURN_LINES;
use crate::core::time::Nanos;
use crate::sys::{self, Peek, Signalled};

/// Bytes of one peer's stdout that a turn reads.
const STDOUT_BYTES: usize = 256 << 10;
/// Bytes of one peer's stderr that a turn reads: more than a pipe holds, so that what a dead server left is read at once.
const STDERR_BYTES: usize = 128 << 10;
/// What a pipe holds.
const PIPE_BYTES: usize = 64 << 10;
/// Descriptors of a connection that epoll reports on.
const PARTS: usize = 4;
/// Room for one read of stderr.
const SCRATCH_BYTES: usize = 16 << 10;

impl Reactor {
    /// One turn, after waiting at most `wait` (`None` is without limit). Says whether a signal cut the wait short.
    pub(super) fn turn(&mut self, wait: Option<Duration>, outlet: &mut dyn Outlet) -> Result<bool, Error> {
        let interrupted = self.wait(wait)?;
        let now = self.clock.now();
        self.trim_if_due();
        if self.bell.wake().take() {
            self.core.woken();
        }
        self.sweep_if_due(now);
        let mut work = std::mem::replace(&mut self.work, std::mem::take(&mut self.spare_work));
        // A peer that is alone with its news has its messages handed out as they are read. Where there are several, or something
        // waits, all go through the queues, so that peers take turns (H5).
        let direct = work.len() == 1 && outlet.room() > 0 && !self.core.has_event();
        for slot in work.drain(..) {
            if let Some(link) = &mut self.links[slot as usize] {
                link.is_listed = false;
                self.serve(now, slot, if direct { Some(&mut *outlet) } else { None });
            }
        }
        self.spare_work = work;
        // An answer that was in the pipe beats its deadline (R4).
        if self.core.next_deadline().is_some_and(|at| at <= now) {
            for slot in self.core.judges(now) {
                self.read_before_judging(now, slot);
            }
        }
        self.core.tick(now);
        self.act_all(now);
        Ok(interrupted)
    }

    /// Does everything the core asks for.
    pub(super) fn act_all(&mut self, now: Nanos) {
        while let Some(action) = self.core.next_action() {
            self.act(now, action);
        }
    }

    /// Waits, and writes down on the links what epoll tells. Says whether a signal cut the wait short.
    ///
    /// All that is there is fetched, not only as much as one call gives: a host that watches edges has spent its edge on this
    /// poll, and would not be told of the rest. Once every descriptor had its turn it is enough, since epoll reports them one
    /// after the other, and what comes now is a new edge.
    fn wait(&mut self, mut wait: Option<Duration>) -> Result<bool, Error> {
        for _ in 0..=self.links.len() * PARTS / EVENTS {
            self.bell.wake().set_waiting(true);
            let looked = self.poll.poll(&mut self.events, wait);
            self.bell.wake().set_waiting(false);
            match looked {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(true),
                Err(error) => return Err(Error::Io { call: "epoll_wait", error }),
            }
            if self.note_events() < EVENTS {
                break;
            }
            wait = Some(Duration::ZERO);
        }
        Ok(false)
    }

    /// Writes down what one look brought, and says how much it was.
    fn note_events(&mut self) -> usize {
        let mut count = 0;
        for event in &self.events {
            count += 1;
            let token = event.token();
            match token {
                BELL => self.bell.heard(),
                TIMER => self.armed = None,
                CHILD => self.sweep.now(),
                _ => {
                    let (slot, part) = parse(token);
                    let Some(link) = self.links.get_mut(slot as usize).and_then(Option::as_mut) else {
                        continue;
                    };
                    let end = match part {
                        Part::Stdin => link.stdin.as_mut(),
                        Part::Stdout => link.stdout.as_mut(),
                        Part::Stderr => link.stderr.as_mut(),
                        Part::Exit => {
                            link.exit_ready = true;
                            None
                        }
                    };
                    if let Some(end) = end {
                        end.ready |= event.is_readable() || event.is_writable();
                        end.hung_up |= event.is_read_closed() || event.is_write_closed() || event.is_error();
                        // A hang-up without bytes has to be read as well: it is the end of the stream.
                        end.ready |= end.hung_up;
                    }
                    if !link.is_listed {
                        link.is_listed = true;
                        self.work.push(slot);
                    }
                }
            }
        }
        count
    }

    /// Serves one slot within its budget, and lists it again if something is left.
    fn serve(&mut self, now: Nanos, slot: u32, outlet: Option<&mut dyn Outlet>) {
        self.flush(now, slot);
        let mut more = self.read_stdout(now, slot, outlet);
        more |= self.read_stderr(now, slot);
        self.look_at_stdin(now, slot);
        self.look_at_exit(now, slot);
        if more {
            self.list(slot);
        }
    }

    /// Writes what is queued, as far as the pipe takes it. Never waits: a server that does not read its stdin may itself be
    /// waiting for us to read its stdout.
    pub(super) fn flush(&mut self, now: Nanos, slot: u32) {
        loop {
            let Some(end) = self.links[slot as usize].as_mut().and_then(|link| link.stdin.as_mut()) else {
                return;
            };
            let Some(conn) = self.core.connection(slot) else { return };
            if !end.ready || end.hung_up || end.failed || conn.outbox.queued() == 0 {
                return;
            }
            let mut slices = no_slices();
            let count = conn.outbox.slices(&mut slices);
            let wanted: usize = slices[..count].iter().map(|slice| slice.len()).sum();
            match sys::writev_nosignal(end.fd(), &slices[..count], &self.features) {
                Ok(wrote) => {
                    end.ready = wrote == wanted;
                    self.core.wrote(now, slot, wrote);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    end.ready = false;
                    return;
                }
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {
                    end.hung_up = true;
                    return;
                }
                // It cannot be written any more, but that says nothing about who can still read it.
                Err(_) => {
                    end.failed = true;
                    return;
                }
            }
        }
    }

    /// Reads stdout while the host has room; true if something is left that nothing will tell about.
    fn read_stdout(&mut self, now: Nanos, slot: u32, mut outlet: Option<&mut dyn Outlet>) -> bool {
        let mut bytes = STDOUT_BYTES;
        // Lines that the host would not take now are better off in the buffer than in the queue.
        let mut lines = outlet.as_ref().map_or(TURN_LINES, |outlet| outlet.room().min(TURN_LINES));
        loop {
            if self.core.has_backlog(slot) {
                if lines == 0 {
                    return true;
                }
                lines = lines.saturating_sub(self.core.take_lines(now, slot, lines, again(&mut outlet)));
                continue;
            }
            if !self.core.wants_stdout(slot) {
                return false;
            }
            let Some(link) = self.links[slot as usize].as_mut() else { return false };
            let Some(end) = link.stdout.as_mut() else { return false };
            if !end.ready {
                return false;
            }
            if bytes == 0 || lines == 0 {
                return true;
            }
            let Some(room) = self.core.stdout_room(slot) else { return false };
            match read(end, room) {
                Got::Bytes(count) => {
                    bytes = bytes.saturating_sub(count);
                    lines = lines.saturating_sub(self.core.stdout_read(now, slot, count, lines, again(&mut outlet)));
                }
                Got::Nothing => {
                    if link.exit_told {
                        self.core.stdout_empty(now, slot);
                    }
                    return false;
                }
                Got::End => {
                    // A process that ends lets go of its pipes first; without a pidfd this is the moment to look.
                    link.exit_ready |= link.process.pidfd().is_none();
                    let report = link.stdin_report();
                    self.core.stdout_ended(now, slot, None, report);
                }
                Got::Failed(error) => {
                    let report = link.stdin_report();
                    self.core.stdout_ended(now, slot, Some(format!("reading stdout failed: {error}")), report);
                }
            }
        }
    }

    /// Reads stdout until it is empty or a pipe's capacity was read, whatever the budget of the turn was. Where the host has no
    /// room nothing is read: a host that does not take its events loses that race.
    fn read_before_judging(&mut self, now: Nanos, slot: u32) {
        // A server may have enlarged its pipe.
        let end = self.links[slot as usize].as_ref().and_then(|link| link.stdout.as_ref());
        let capacity = end.and_then(|end| sys::io::pipe_capacity(end.fd()).ok()).unwrap_or(PIPE_BYTES);
        let mut bytes = 0;
        while bytes < capacity {
            if self.core.has_backlog(slot) {
                self.core.take_lines(now, slot, usize::MAX, None);
                continue;
            }
            if !self.core.wants_stdout(slot) {
                return;
            }
            let Some(end) = self.links[slot as usize].as_mut().and_then(|link| link.stdout.as_mut()) else { return };
            let Some(room) = self.core.stdout_room(slot) else { return };
            match read(end, room) {
                Got::Bytes(count) => {
                    bytes += count;
                    self.core.stdout_read(now, slot, count, usize::MAX, None);
                }
                // Whatever else it is, the next turn deals with it.
                Got::Nothing => return,
                Got::End | Got::Failed(_) => {
                    end.ready = true;
                    end.hung_up = true;
                    return self.list(slot);
                }
            }
        }
    }

    /// Reads stderr, whatever the host's queue looks like (F2).
    fn read_stderr(&mut self, now: Nanos, slot: u32) -> bool {
        let mut bytes = STDERR_BYTES;
        loop {
            let Some(end) = self.links[slot as usize].as_mut().and_then(|link| link.stderr.as_mut()) else {
                return false;
            };
            if !end.ready {
                return false;
            }
            if bytes == 0 {
                return true;
            }
            if self.scratch.is_empty() {
                self.scratch = vec![0; SCRATCH_BYTES];
            }
            match read(end, &mut self.scratch) {
                Got::Bytes(count) => {
                    bytes = bytes.saturating_sub(count);
                    self.core.stderr_read(now, slot, &self.scratch[..count]);
                }
                Got::Nothing => return false,
                Got::End | Got::Failed(_) => {
                    self.core.stderr_ended(now, slot);
                    self.close_end(slot, Part::Stderr);
                    return false;
                }
            }
        }
    }

    fn look_at_stdin(&mut self, now: Nanos, slot: u32) {
        let Some(link) = self.links[slot as usize].as_ref() else { return };
        if link.stdin.as_ref().is_some_and(|end| end.hung_up || end.failed)
            && let Some(report) = link.stdin_report()
        {
            self.core.stdin_gone(now, slot, report);
        }
    }

    fn look_at_exit(&mut self, now: Nanos, slot: u32) {
        let Some(link) = self.links[slot as usize].as_mut() else {
            return;
        };
        if !link.exit_ready || link.exit_told {
            return;
        }
        match link.process.peek() {
            Peek::Running => link.exit_ready = false,
            Peek::Exited(exit) => {
                link.exit_told = true;
                let report = link.exit_report(exit);
                // What is owed is read until the pipe is empty, even if somebody else takes it first.
                let open = link.stdout.as_mut().map(|end| end.ready = true).is_some();
                self.core.exited(now, slot, report);
                if open {
                    self.list(slot);
                }
            }
        }
    }

    /// Does one thing the core asks for.
    fn act(&mut self, now: Nanos, action: Action) {
        match action {
            Action::Spawn(slot) => {
                if self.core.wants_spawn(slot)
                    && let Err(error) = self.spawn(slot)
                {
                    self.core.spawn_failed(now, slot, error.to_string());
                }
            }
            Action::Serve(slot) => self.list(slot),
            Action::CloseStdin(slot) => self.close_end(slot, Part::Stdin),
            Action::CloseStdout(slot) => self.close_end(slot, Part::Stdout),
            Action::CloseStderr(slot) => self.close_end(slot, Part::Stderr),
            Action::Terminate(slot) => self.signal(now, slot, libc::SIGTERM),
            Action::Kill(slot) => self.signal(now, slot, libc::SIGKILL),
            Action::Sweep(slot) => {
                self.signal(now, slot, libc::SIGKILL);
                if let Some(link) = self.links[slot as usize].as_mut() {
                    link.process.reap();
                }
            }
            Action::Release(slot) => {
                self.sweep.remove(slot);
                if let Some(mut link) = self.links[slot as usize].take() {
                    link.close_all(self.poll.registry());
                    if link.is_listed {
                        self.work.retain(|listed| *listed != slot);
                    }
                }
            }
        }
    }

    fn signal(&mut self, now: Nanos, slot: u32, signal: i32) {
        let Some(link) = self.links[slot as usize].as_mut() else {
            return;
        };
        let pid = link.process.pid();
        match link.process.signal_group(signal) {
            Signalled::Sent | Signalled::NobodyLeft => {}
            Signalled::NotOurs => {
                let text = format!(
                    "process {pid} was reaped by somebody else in this program: what may be left of its group was not signalled"
                );
                self.core.log(now, slot, Level::Warning, text);
            }
            Signalled::Refused(errno) => {
                let text = format!("signal {signal} to the group of process {pid}: {}", sys::describe(errno));
                self.core.log(now, slot, Level::Warning, text);
            }
        }
    }

    fn close_end(&mut self, slot: u32, part: Part) {
        if let Some(link) = self.links[slot as usize].as_mut() {
            link.close(part, self.poll.registry());
        }
    }
}

/// The same outlet for one more use.
fn again<'a>(outlet: &'a mut Option<&mut dyn Outlet>) -> Option<&'a mut dyn Outlet> {
    match outlet {
        Some(outlet) => Some(&mut **outlet),
        None => None,
    }
}
