//! What happens to a connection: bytes, ends of streams, the exit, deadlines. Rules L2 to L7, W1 to W3, F1.

use crate::core::chunk::READ_BYTES;
use crate::core::client::inbound::{Inbound, Moment};
use crate::core::client::{Direct, Out, Wire};
use crate::core::connection::{Action, Connection, Ctx, ExitReport, StdinReport};
use crate::core::deadlines::Timer;
use crate::core::event::{CloseReason, Event, Fault, To};
use crate::core::framing::Frame;
use crate::core::log::{Level, escape_into};
use crate::core::message::{self, Reading};
use crate::core::time::after;

use super::Peer;
use super::state::*;

/// Lines of one peer's stdout that a turn takes (F5).
pub const TURN_LINES: usize = 512;
/// Bytes of a bad line that an ERROR shows (W2).
const EXCERPT_BYTES: usize = 200;

impl Peer {
    /// Whether stdout is to be read now.
    pub fn wants_stdout(&self) -> bool {
        self.connection().is_some_and(|conn| conn.stdout_open() && !conn.framer.has_line()) && self.has_room()
    }

    /// Whether lines that were read already wait for the host to make room, or for their turn.
    pub fn has_backlog(&self) -> bool {
        self.connection().is_some_and(|conn| conn.framer.has_line()) && self.has_room()
    }

    /// Where the next read of stdout goes.
    pub fn stdout_room(&mut self) -> Option<&mut [u8]> {
        self.state.connection_mut().map(|conn| conn.framer.room())
    }

    /// `count` bytes were read into the room; up to `lines` lines of them are taken now.
    pub fn stdout_read(&mut self, ctx: &mut Ctx<'_>, count: usize, lines: usize) -> usize {
        let Some(conn) = self.state.connection_mut() else {
            return 0;
        };
        conn.stdout_took(count);
        conn.framer.filled(count);
        self.take_lines(ctx, lines)
    }

    /// Turns up to `lines` lines into events while the host has room, and says how many it took. A large one counts for as many as a
    /// turn takes; `usize::MAX` are all that were read.
    pub fn take_lines(&mut self, ctx: &mut Ctx<'_>, lines: usize) -> usize {
        let mut taken = 0;
        while taken < lines && self.has_room() {
            let Some(conn) = self.state.connection_mut() else {
                break;
            };
            let served = conn.served;
            let Some(frame) = conn.framer.next_line() else {
                break;
            };
            // A large line ends the turn: its buffer comes back with the next poll, still in the processor's cache, and the next large
            // line is read into it.
            taken += if frame.bytes().len() > READ_BYTES { TURN_LINES } else { 1 };
            if !served {
                self.take_early_line(ctx, &frame);
                continue;
            }
            self.take_line(ctx, frame);
        }
        self.mind_room(ctx);
        if taken > 0 {
            self.mind_client(ctx);
            self.mind_writable();
        }
        if let Some(conn) = self.state.connection_mut()
            && let Some(too_long) = conn.framer.too_long()
            && !std::mem::replace(&mut conn.overlong_told, true)
        {
            let stdout_open = conn.stdout_open();
            self.tell_broken(Fault::FrameTooLarge, format!("the server wrote {too_long}"));
            if stdout_open {
                self.death(ctx, Death::Overlong, None);
            }
        }
        self.settle(ctx);
        taken
    }

    /// Turns one line into what it is for the host.
    fn take_line(&mut self, ctx: &mut Ctx<'_>, frame: Frame) {
        let grammar_bytes = self.policy.limits.grammar_bytes;
        match message::read_line(&frame, self.spoken, grammar_bytes, &mut self.envelope) {
            Reading::Message(kind, parts) => {
                let shed = self.policy.client.shed && self.queue.counted() >= self.policy.limits.event_queue;
                let direct = match &mut ctx.outlet {
                    Some(outlet) => Some(Direct { id: self.id, data: self.data, outlet: &mut **outlet }),
                    None => None,
                };
                let mut out = Out { queue: &mut self.queue, log_level: self.log_level, direct };
                let Some(client) = self.client.as_deref_mut() else {
                    return out.message(Event::Message { kind, parts, frame, to: To::default() });
                };
                let closing = matches!(self.state, State::Closing { .. });
                let dying = matches!(self.state, State::Ending { .. });
                let mut wire = match &mut self.state {
                    State::Running { conn } | State::Draining { conn } => {
                        Some(Wire::of(conn, &mut self.lines, self.policy.limits.outbound_bytes))
                    }
                    _ => None,
                };
                let lines_before = wire.as_ref().map(|wire| *wire.lines);
                let mut moment = Moment {
                    wire: wire.as_mut(),
                    now: ctx.now,
                    exit_drain: self.policy.exit_drain,
                    closing,
                    dying,
                    shed,
                };
                let message = Inbound { kind, parts, envelope: &self.envelope, frame };
                client.message(&mut moment, &mut out, message);
                if lines_before.is_some_and(|before| before != self.lines) {
                    ctx.actions.push_back(Action::Serve(ctx.slot));
                }
            }
            Reading::Batch => self.take_batch(frame),
            Reading::Forbidden(parts) => self.queue.push_counted(Event::Forbidden { parts, frame }),
            Reading::Malformed { reason, cut } => {
                let mut text = reason;
                text.push_str(": ");
                escape_into(&mut text, frame.bytes(), EXCERPT_BYTES);
                // The last bytes of a dead server: an answer it did not get to the end of is lost with the connection.
                let cut = cut && self.connection().is_some_and(|conn| !conn.stdout_open() && !conn.framer.has_line());
                let leaving = matches!(self.state, State::Ending { .. } | State::Closing { .. });
                if let Some(client) = self.client.as_deref_mut().filter(|_| !cut) {
                    let mut out = Out { queue: &mut self.queue, log_level: self.log_level, direct: None };
                    if client.broken_answer(&mut out, (&self.envelope, frame.bytes()), &text, leaving) {
                        return;
                    }
                }
                let trouble = self.trouble(Fault::Malformed, text);
                self.queue.push_counted(Event::Error(Box::new(trouble)));
            }
        }
    }

    /// The elements of an array come by themselves, in their order, while the host has room (Z6).
    fn take_batch(&mut self, frame: Frame) {
        if let Some(conn) = self.state.connection_mut()
            && let Err(reason) = conn.framer.unpack(frame)
        {
            let trouble = self.trouble(Fault::Malformed, reason.to_owned());
            self.queue.push_counted(Event::Error(Box::new(trouble)));
        }
    }

    /// What broke the connection is an ERROR at once, except for a replacement that does not serve yet: its one ERROR comes
    /// when it is gone, and says it then (L11).
    pub(super) fn tell_broken(&mut self, fault: Fault, text: String) {
        if let State::Starting { start, .. } = &mut self.state {
            start.heard = true;
        }
        match &mut self.state {
            State::Starting { conn, start } if conn.life > 1 => {
                start.failure.get_or_insert(text);
            }
            _ => {
                let trouble = self.trouble(fault, text);
                self.queue.push(Event::Error(Box::new(trouble)));
            }
        }
    }

    /// stdout was found empty.
    pub fn stdout_empty(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(conn) = self.state.connection_mut()
            && conn.exit.is_some()
        {
            conn.stdout_empty();
            self.mind_room(ctx);
        }
    }

    /// stdout ended, or could not be read for the reason given.
    pub fn stdout_ended(&mut self, ctx: &mut Ctx<'_>, failure: Option<String>, stdin: Option<StdinReport>) {
        if !self.connection().is_some_and(Connection::stdout_open) {
            return;
        }
        let own = &mut self.own;
        if let Some(conn) = self.state.connection_mut() {
            conn.close_stdout(ctx, own);
        }
        if let Some(text) = failure {
            self.tell_broken(Fault::Io, text);
        }
        self.death(ctx, Death::Stdout, stdin);
        self.take_lines(ctx, usize::MAX);
    }

    /// Bytes of stderr.
    pub fn stderr_read(&mut self, ctx: &mut Ctx<'_>, bytes: &[u8]) {
        let queue = &mut self.queue;
        if let Some(conn) = self.state.connection_mut() {
            conn.stderr.feed(bytes, |line| queue.log(Level::Server, line));
            conn.stderr_took(ctx, bytes.len());
        }
        self.settle(ctx);
    }

    /// stderr ended.
    pub fn stderr_ended(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(conn) = self.state.connection_mut() {
            conn.close_stderr(ctx);
        }
        self.settle(ctx);
    }

    /// A write met a pipe without readers, or the pipe reported it.
    pub fn stdin_gone(&mut self, ctx: &mut Ctx<'_>, report: StdinReport) {
        self.death(ctx, Death::Stdin, Some(report));
        self.settle(ctx);
    }

    /// The process is gone.
    pub fn exited(&mut self, ctx: &mut Ctx<'_>, report: ExitReport) {
        let exit_drain = self.policy.exit_drain;
        let own = &mut self.own;
        if let Some(conn) = self.state.connection_mut() {
            conn.exited(ctx, own, report, exit_drain);
        }
        self.death(ctx, Death::Exit, report.stdin);
        self.mind_room(ctx);
        self.settle(ctx);
    }

    /// A death signal. The first one of a connection reads the clock and decides what comes next (L4); later ones only close
    /// what they are about.
    pub(super) fn death(&mut self, ctx: &mut Ctx<'_>, death: Death, stdin: Option<StdinReport>) {
        let slow = death == Death::TooSlow;
        if let Some(client) = self.client.as_deref_mut() {
            client.died();
        }
        let budget = &mut self.budget;
        let mut first = true;
        self.state = match std::mem::replace(&mut self.state, State::Closed) {
            State::Running { conn } => State::Ending { conn, next: budget.decide(ctx.now, slow).into() },
            State::Starting { conn, start } if start.doom.is_none() => {
                let before = budget.clone();
                let next = budget.decide(ctx.now, slow).into();
                let by_itself = matches!(death, Death::Exit | Death::Stdout | Death::Stdin);
                let doom = Doom { next, budget: before, by_itself };
                State::Starting { conn, start: Start { doom: Some(doom), ..start } }
            }
            State::Draining { mut conn } => {
                if death == Death::Stdin {
                    // Before the end is closed: what it tells of unread bytes would be lost.
                    conn.stop_writing(ctx, stdin);
                }
                self.begin_closing(ctx, conn)
            }
            same => {
                first = false;
                same
            }
        };
        if first {
            ctx.deadlines.clear(&mut self.own, ctx.slot, Timer::Start);
            ctx.deadlines.clear(&mut self.own, ctx.slot, Timer::Probe);
        }
        self.leave_start();
        let asked = matches!(self.state, State::Closing { .. });
        let own = &mut self.own;
        let (State::Starting { conn, .. } | State::Ending { conn, .. } | State::Closing { conn }) = &mut self.state
        else {
            return;
        };
        match death {
            // The ladder of an asked close runs by itself, and its last words may still be written.
            Death::Stdout | Death::Overlong if asked => conn.close_stdout(ctx, own),
            Death::Overlong => {
                conn.close_stdout(ctx, own);
                conn.stop_writing_unseen(ctx);
            }
            Death::Stdout => {
                conn.close_stdout(ctx, own);
                conn.stop_writing(ctx, stdin);
            }
            Death::Stdin => conn.stop_writing(ctx, stdin),
            Death::TooSlow | Death::Handshake => {
                conn.close_stdout(ctx, own);
                conn.stop_writing(ctx, stdin);
            }
            Death::Exit => {}
        }
        if first && !asked && conn.exit.is_none() {
            // It runs on (L5). A process that is about to exit does so well within this time.
            ctx.deadlines.set(own, ctx.slot, Timer::Terminate, after(ctx.now, self.policy.exit_drain));
        }
    }

    /// A first life that ends before it serves ends like any other (L2), unless it may get another process (Z2).
    pub(super) fn leave_start(&mut self) {
        let State::Starting { conn, start: Start { doom: Some(_), .. } } = &self.state else { return };
        if conn.life > 1 || self.may_be_shy() {
            return;
        }
        self.state = match std::mem::replace(&mut self.state, State::Closed) {
            State::Starting { mut conn, start: Start { doom: Some(doom), .. } } => {
                conn.owes_writable = false;
                State::Ending { conn, next: doom.next }
            }
            same => same,
        };
    }

    /// A deadline of this peer is due.
    pub fn due(&mut self, ctx: &mut Ctx<'_>, timer: Timer) {
        ctx.deadlines.clear(&mut self.own, ctx.slot, timer);
        match timer {
            Timer::Respawn => self.respawn_due(ctx),
            Timer::Start => {
                let text = "the server did not serve within start_timeout".to_owned();
                self.tell_broken(Fault::Handshake, text);
                self.death(ctx, Death::TooSlow, None);
            }
            Timer::Client => self.client_due(ctx),
            Timer::Probe => self.probe_due(ctx),
            Timer::Terminate | Timer::Kill => self.ladder_due(ctx, timer),
            Timer::StdoutDrain | Timer::StderrDrain | Timer::StdinHangup => {
                let own = &mut self.own;
                if let State::Starting { conn, .. } | State::Ending { conn, .. } | State::Closing { conn } =
                    &mut self.state
                {
                    match timer {
                        Timer::StdoutDrain => conn.close_stdout(ctx, own),
                        Timer::StderrDrain => conn.stderr_due(ctx),
                        _ => conn.close_stdin(ctx),
                    }
                }
            }
        }
        self.take_lines(ctx, usize::MAX);
    }

    fn ladder_due(&mut self, ctx: &mut Ctx<'_>, timer: Timer) {
        if let State::Starting { start: Start { doom: Some(doom), .. }, .. } = &mut self.state {
            doom.by_itself = false;
            self.leave_start();
        }
        let asked = matches!(self.state, State::Closing { .. });
        let own = &mut self.own;
        let (State::Starting { conn, .. } | State::Ending { conn, .. } | State::Closing { conn }) = &mut self.state
        else {
            return;
        };
        if timer == Timer::Kill {
            ctx.actions.push_back(Action::Kill(ctx.slot));
            return;
        }
        conn.close_stdin(ctx);
        if !asked {
            conn.close_stdout(ctx, own);
        }
        ctx.actions.push_back(Action::Terminate(ctx.slot));
        ctx.deadlines.set(own, ctx.slot, Timer::Kill, after(ctx.now, self.policy.kill_grace));
    }

    fn respawn_due(&mut self, ctx: &mut Ctx<'_>) {
        let full = self.queue.events() > self.policy.limits.event_queue;
        if let State::Waiting { held, spawning, .. } = &mut self.state {
            *held = full;
            *spawning = !full;
            if !full {
                ctx.actions.push_back(Action::Spawn(ctx.slot));
            }
        }
    }

    /// The host took an event: what waited for room goes on. True if there is room again for what comes from stdout; the
    /// time that stood still meanwhile goes on with `mind_room`, which needs the clock.
    pub fn event_taken(&mut self, slot: u32, actions: &mut std::collections::VecDeque<Action>) -> bool {
        if let State::Waiting { held, spawning, .. } = &mut self.state {
            if *held && self.queue.events() <= self.policy.limits.event_queue {
                *held = false;
                *spawning = true;
                actions.push_back(Action::Spawn(slot));
            }
            return false;
        }
        let eased = self.paused && self.connection().is_some() && self.has_room();
        if eased {
            self.paused = false;
            actions.push_back(Action::Serve(slot));
        }
        eased
    }

    /// Goes on with a connection that is ending; tells its end when nothing is left to wait for.
    fn settle(&mut self, ctx: &mut Ctx<'_>) {
        self.leave_start();
        let own = &mut self.own;
        let over = match &mut self.state {
            State::Ending { conn, .. }
            | State::Closing { conn }
            | State::Starting { conn, start: Start { doom: Some(_), .. } } => {
                conn.is_over(ctx, own, self.policy.exit_drain)
            }
            _ => false,
        };
        if !over {
            return;
        }
        for timer in Timer::OF_CONNECTION {
            ctx.deadlines.clear(own, ctx.slot, timer);
        }
        ctx.actions.push_back(Action::Release(ctx.slot));
        let is_shy = self.may_be_shy();
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Ending { conn, next } => self.tell_lost(ctx, conn, next),
            State::Closing { conn } => {
                let mut conn = conn;
                self.end_stderr(&mut conn);
                self.push_last_close(ctx, CloseReason::ClosedByHost, Some(conn));
            }
            State::Starting { conn, start: Start { doom: Some(doom), .. } } if is_shy => {
                self.go_on_as_legacy(ctx, conn, doom);
            }
            State::Starting { mut conn, start: Start { doom: Some(doom), failure, .. } } => {
                self.end_stderr(&mut conn);
                let mut text = "the replacement ended before it served".to_owned();
                if let Some(failure) = failure {
                    text += &format!(": {failure}");
                }
                if let Some(tail) = conn.stderr.take_tail() {
                    text += &format!("; its last words: {tail}");
                }
                self.tell_failed_life(ctx, doom.next, Fault::Handshake, text, Some(&conn));
            }
            same => self.state = same,
        }
    }

    /// F1. What the framer itself still holds must not keep it from going on, so an empty queue always has room.
    pub(super) fn has_room(&self) -> bool {
        let counted = self.queue.counted();
        let limits = &self.policy.limits;
        // A host that sheds is never waited for on account of the number of its messages, which `event_bytes` bounds. Errors
        // pin nothing, so their number is bounded as ever.
        let few = counted < limits.event_queue
            || (self.policy.client.shed && self.queue.counted_errors() < limits.event_queue);
        counted == 0 || (few && self.pinned.get() < limits.event_bytes)
    }

    /// Notes whether there is room, and lets the time in which stdout is read after the exit stand still or go on.
    pub fn mind_room(&mut self, ctx: &mut Ctx<'_>) {
        let room = self.has_room();
        self.paused = !room;
        let exit_drain = self.policy.exit_drain;
        let own = &mut self.own;
        if let Some(conn) = self.state.connection_mut() {
            conn.mind_drain(ctx, own, room, exit_drain);
        }
    }

    /// `shutdown` ran out of patience with those who outlived the process.
    pub(super) fn end_drain(&mut self, ctx: &mut Ctx<'_>) {
        let own = &mut self.own;
        if let Some(conn) = self.state.connection_mut() {
            conn.end_drain(ctx, own);
        }
        self.take_lines(ctx, usize::MAX);
    }
}
