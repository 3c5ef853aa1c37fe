//! One connection: one process and its three pipes, as the core sees them. It knows what was read, what is owed after an
//! exit, and when everything that belongs to it has been seen (L3, L5, L6, L19). What its end means for the peer is not
//! decided here.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::chunk::Pool;
use super::deadlines::{Deadlines, Own, Timer};
use super::event::Exit;
use super::framing::Framer;
use super::log::StderrLines;
use super::outbox::Outbox;
use super::policy::Policy;
use super::supervisor::Told;
use super::time::{NEVER, Nanos, after};

/// How much is read, beyond what was owed, from those who outlived the process (L3).
const BEYOND_BYTES: usize = 1 << 20;

/// What the reactor is to do for the peer in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Spawn the next connection and tell how it went.
    Spawn(u32),
    /// There is something to do again: stdout may be read, or the outbox is to be written.
    Serve(u32),
    /// Close our end of stdin.
    CloseStdin(u32),
    /// Close our end of stdout.
    CloseStdout(u32),
    /// Close our end of stderr.
    CloseStderr(u32),
    /// SIGTERM to the group.
    Terminate(u32),
    /// SIGKILL to the group.
    Kill(u32),
    /// The process is gone: SIGKILL to what is left of its group, then the reap.
    Sweep(u32),
    /// Everything is told: let go of what is left of the connection.
    Release(u32),
}

/// The state of our end of stdin, looked at after a death signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StdinReport {
    /// Bytes that were written and lie in the pipe.
    pub unread: u64,
    /// Nobody is left who could read them.
    pub hung_up: bool,
}

/// A process that came to life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spawned {
    /// Its pid.
    pub pid: i32,
    /// Whether its stderr comes to us.
    pub stderr: bool,
    /// Bytes its stdin pipe holds.
    pub stdin_bytes: usize,
}

/// What was found when a process was seen to be gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitReport {
    /// How it ended.
    pub exit: Exit,
    /// Bytes in its stdout pipe.
    pub stdout: usize,
    /// Bytes in its stderr pipe.
    pub stderr: usize,
    /// Its stdin pipe, if our end is open.
    pub stdin: Option<StdinReport>,
}

/// Where messages go that no earlier event waits before: to the host, whose poll this is.
pub trait Outlet {
    /// How many more the host takes.
    fn room(&self) -> usize;

    /// Hands it out.
    fn give(&mut self, told: Told);
}

/// What a step needs from around the connection.
pub struct Ctx<'a> {
    pub outlet: Option<&'a mut dyn Outlet>,
    pub now: Nanos,
    pub slot: u32,
    pub deadlines: &'a mut Deadlines,
    pub actions: &'a mut VecDeque<Action>,
}

/// Our end of stdin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stdin {
    Open,
    /// Nothing is written any more; the end is kept because it can still tell what was not read.
    Kept,
    Closed,
}

/// How long stdout is read after the owed bytes; the time stands still while the host has no room (F1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drain {
    /// The owed bytes were not read, or the process runs.
    NotBegun,
    /// The deadline is set.
    Running,
    /// So much was left when the queue filled up.
    Paused(Nanos),
}

/// One life of a peer.
#[derive(Debug)]
pub struct Connection {
    pub life: u32,
    pub attempt: u32,
    pub pid: i32,
    pub since: Nanos,
    pub framer: Framer,
    pub outbox: Outbox,
    pub stderr: StderrLines,
    pub exit: Option<Exit>,
    /// It came to serve; before that nothing it writes is told.
    pub served: bool,
    /// Lines that were dropped because they came before that.
    pub dropped: u64,
    /// The line over the limit that ended its stdout was told.
    pub overlong_told: bool,
    /// The host was told E_WOULD_BLOCK and not yet that there is room again.
    pub owes_writable: bool,
    stdin: Stdin,
    stdout_open: bool,
    stderr_open: bool,
    stderr_overdue: bool,
    owed_stdout: usize,
    owed_stderr: usize,
    /// Bytes of stdout that came after those that lay in the pipe at the exit.
    beyond: usize,
    drain: Drain,
    /// Bytes that nobody will read, once that is known for certain.
    unread: Option<u64>,
    /// Something that was queued was never written.
    cut: bool,
    /// stdin was seen empty after everything was written.
    all_read: bool,
    /// Whether it is worth waiting until it is known for certain.
    awaits_hangup: bool,
    swept: bool,
}

impl Connection {
    pub fn new(
        policy: &Policy,
        pool: &Rc<Pool>,
        pinned: &Rc<Cell<usize>>,
        life: u32,
        attempt: u32,
        spawned: Spawned,
        now: Nanos,
    ) -> Self {
        Self {
            life,
            attempt,
            pid: spawned.pid,
            since: now,
            framer: Framer::new(Rc::clone(pool), Rc::clone(pinned), policy.limits.frame_bytes),
            outbox: Outbox::new(spawned.stdin_bytes),
            stderr: StderrLines::new(policy.limits.log_line_bytes),
            exit: None,
            served: false,
            dropped: 0,
            overlong_told: false,
            owes_writable: false,
            stdin: Stdin::Open,
            stdout_open: true,
            stderr_open: spawned.stderr,
            stderr_overdue: false,
            owed_stdout: 0,
            owed_stderr: 0,
            beyond: 0,
            drain: Drain::NotBegun,
            unread: None,
            cut: false,
            all_read: false,
            awaits_hangup: false,
            swept: false,
        }
    }

    /// Whether stdout can bring more.
    pub fn stdout_open(&self) -> bool {
        self.stdout_open
    }

    /// Whether something may still be written.
    pub fn stdin_open(&self) -> bool {
        self.stdin == Stdin::Open
    }

    /// Whether the server has certainly read everything that was for it (Z2).
    pub fn all_read(&self) -> bool {
        self.all_read
    }

    /// First line number the server cannot have read, 0 if there is none.
    pub fn unread_from(&self) -> u64 {
        self.outbox.first_unread(self.unread).unwrap_or(0)
    }

    /// `count` bytes were read from stdout: some of them may have been owed.
    pub fn stdout_took(&mut self, count: usize) {
        if self.exit.is_some() {
            self.beyond += count.saturating_sub(self.owed_stdout);
        }
        self.owed_stdout = self.owed_stdout.saturating_sub(count);
    }

    /// stdout was found empty: nothing of what lay in it at the exit can be left, whoever took it.
    pub fn stdout_empty(&mut self) {
        self.owed_stdout = 0;
    }

    /// Nobody waits any longer for those who outlived the process. What it had written itself is still owed.
    pub fn end_drain(&mut self, ctx: &mut Ctx<'_>, own: &mut Own) {
        if self.exit.is_some() && self.owed_stdout == 0 {
            self.close_stdout(ctx, own);
        }
        if self.exit.is_some() {
            self.stderr_due(ctx);
        }
    }

    /// `count` bytes were read from stderr.
    pub fn stderr_took(&mut self, ctx: &mut Ctx<'_>, count: usize) {
        self.owed_stderr = self.owed_stderr.saturating_sub(count);
        if self.stderr_overdue && self.owed_stderr == 0 {
            self.close_stderr(ctx);
        }
    }

    /// The process is gone.
    pub fn exited(&mut self, ctx: &mut Ctx<'_>, own: &mut Own, report: ExitReport, exit_drain: Nanos) {
        if self.exit.is_some() {
            return;
        }
        self.exit = Some(report.exit);
        ctx.deadlines.clear(own, ctx.slot, Timer::Terminate);
        ctx.deadlines.clear(own, ctx.slot, Timer::Kill);
        self.owed_stdout = if self.stdout_open { report.stdout } else { 0 };
        self.owed_stderr = if self.stderr_open { report.stderr } else { 0 };
        if self.stderr_open {
            ctx.deadlines.set(own, ctx.slot, Timer::StderrDrain, after(ctx.now, exit_drain));
        }
        self.stop_writing(ctx, report.stdin);
    }

    /// Nothing is written any more. Our end is closed at once unless lines may lie unread in the pipe and it is not known
    /// yet whether anybody can still read them.
    pub fn stop_writing(&mut self, ctx: &mut Ctx<'_>, report: Option<StdinReport>) {
        self.cut |= self.outbox.queued() > 0;
        self.all_read |= report.is_some_and(|report| report.unread == 0) && !self.cut;
        self.outbox.give_up();
        // What waits for a life that does not serve yet may go on waiting for another process (Z2).
        self.owes_writable &= !self.served;
        if self.stdin == Stdin::Closed {
            return;
        }
        match report {
            Some(report) if report.hung_up => {
                self.unread = Some(report.unread);
                self.close_stdin(ctx);
            }
            Some(report) if self.outbox.may_be_unread(report.unread) => {
                self.stdin = Stdin::Kept;
                self.awaits_hangup = true;
            }
            // A later signal that cannot tell takes nothing back from an earlier one that could (L4).
            None if self.stdin == Stdin::Kept => {}
            _ => self.close_stdin(ctx),
        }
    }

    /// Nothing is written any more, and nobody has looked at the pipe yet: the exit or the hang-up will tell what lies in it.
    pub fn stop_writing_unseen(&mut self, ctx: &mut Ctx<'_>) {
        self.outbox.give_up();
        self.owes_writable &= !self.served;
        if self.stdin == Stdin::Open && self.outbox.may_be_unread(u64::MAX) {
            self.stdin = Stdin::Kept;
            self.awaits_hangup = true;
        } else if self.stdin == Stdin::Open {
            self.close_stdin(ctx);
        }
    }

    /// Closes our end of stdin; what was not written is dropped.
    pub fn close_stdin(&mut self, ctx: &mut Ctx<'_>) {
        self.outbox.give_up();
        self.owes_writable &= !self.served;
        self.awaits_hangup = false;
        if self.stdin != Stdin::Closed {
            self.stdin = Stdin::Closed;
            ctx.actions.push_back(Action::CloseStdin(ctx.slot));
        }
    }

    /// stdout brings nothing more; part of a line becomes the last line.
    pub fn close_stdout(&mut self, ctx: &mut Ctx<'_>, own: &mut Own) {
        if self.stdout_open {
            self.stdout_open = false;
            self.framer.end();
            self.owed_stdout = 0;
            ctx.deadlines.clear(own, ctx.slot, Timer::StdoutDrain);
            ctx.actions.push_back(Action::CloseStdout(ctx.slot));
        }
    }

    /// stderr brings nothing more.
    pub fn close_stderr(&mut self, ctx: &mut Ctx<'_>) {
        if self.stderr_open {
            self.stderr_open = false;
            ctx.actions.push_back(Action::CloseStderr(ctx.slot));
        }
    }

    /// The time to wait for the end of stderr is over.
    pub fn stderr_due(&mut self, ctx: &mut Ctx<'_>) {
        if self.owed_stderr == 0 {
            self.close_stderr(ctx);
        } else {
            self.stderr_overdue = true;
        }
    }

    /// Starts, pauses or resumes the time in which stdout is read after the exit. `room` tells whether the host's queue lets
    /// us read at all.
    pub fn mind_drain(&mut self, ctx: &mut Ctx<'_>, own: &mut Own, room: bool, exit_drain: Nanos) {
        if self.exit.is_none() || !self.stdout_open || self.owed_stdout > 0 {
            return;
        }
        if self.beyond > BEYOND_BYTES {
            // The time stands still while the host has no room, and somebody who writes without end leaves it none.
            return self.close_stdout(ctx, own);
        }
        match (self.drain, room) {
            (Drain::NotBegun, true) => {
                self.drain = Drain::Running;
                ctx.deadlines.set(own, ctx.slot, Timer::StdoutDrain, after(ctx.now, exit_drain));
            }
            (Drain::NotBegun, false) => self.drain = Drain::Paused(exit_drain),
            (Drain::Paused(left), true) => {
                self.drain = Drain::Running;
                ctx.deadlines.set(own, ctx.slot, Timer::StdoutDrain, after(ctx.now, left));
            }
            (Drain::Running, false) => {
                let at = own.get(Timer::StdoutDrain).unwrap_or(NEVER);
                ctx.deadlines.clear(own, ctx.slot, Timer::StdoutDrain);
                self.drain = Drain::Paused(at.saturating_sub(ctx.now));
            }
            (Drain::Running, true) | (Drain::Paused(_), false) => {}
        }
    }

    /// Goes on with the end of the connection; true when nothing of it is left to wait for.
    pub fn is_over(&mut self, ctx: &mut Ctx<'_>, own: &mut Own, exit_drain: Nanos) -> bool {
        if self.exit.is_none() || self.stdout_open || self.framer.has_line() || self.stderr_open {
            return false;
        }
        if !self.swept {
            self.swept = true;
            ctx.actions.push_back(Action::Sweep(ctx.slot));
            if self.awaits_hangup {
                // Whoever else held the other end has just been killed; the pipe tells as soon as they are gone.
                ctx.deadlines.set(own, ctx.slot, Timer::StdinHangup, after(ctx.now, exit_drain));
            }
        }
        !self.awaits_hangup
    }
}
