//! A life that does not serve yet: the probe, the handshake of the older revisions, and what becomes of a life that ends before
//! it is through. Rules Z1, Z2, Z5, L1, L10, L11, R7.
//!
//! ```text
//!  AUTO, era not known          AUTO, kept legacy; LEGACY            MODERN, kept modern: serves at once
//!        |                              |                             (spec_rediscover: Rediscover, whatever comes)
//!        v                              v
//!      Probe --another error, or late--> Initialize --result--> serves
//!       | |  <--refused with -32022, and ----'  |  '--error: the handshake failed
//!       | |     the probe's answer is owed      '--refused with a revision that is spoken: once more with that
//!       | '--a result, in the present era--> serves
//!       '--exit, the probe read and not a word: a process more, for Initialize (Z2)
//! ```

use crate::core::client::Wire;
use crate::core::client::handshake::{Answered, Verdict, Welcome, judge_initialize, judge_probe};
use crate::core::client::known::Known;
use crate::core::connection::{Action, Connection, Ctx};
use crate::core::deadlines::Timer;
use crate::core::era::{Revision, Spoken};
use crate::core::event::{Event, Fault, Serving};
use crate::core::framing::Frame;
use crate::core::log::{Level, escape_into};
use crate::core::message::{self, MessageKind, Parts, Reading};
use crate::core::policy::Mode;
use crate::core::time::{NEVER, after};
use crate::scan::Id;

use super::Peer;
use super::state::*;

/// Bytes of a line that is dropped that a log line shows.
const SHOWN: usize = 120;

/// A line, as far as the handshake looks at it.
struct Early<'a> {
    kind: MessageKind,
    parts: Parts,
    line: &'a [u8],
}

impl Early<'_> {
    /// Whether it answers the request of that id; or, `alone`, an error that names none.
    fn answers(&self, id: &str, alone: bool) -> bool {
        match (self.kind, self.parts.id) {
            (MessageKind::Result | MessageKind::RemoteError, Some(span)) if span.of(self.line) != b"null" => {
                span.of(self.line).strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) == Some(id.as_bytes())
            }
            (MessageKind::RemoteError, _) => alone,
            _ => false,
        }
    }
}

impl Peer {
    /// A connection is there: what it needs before it serves is begun, or it serves.
    pub(super) fn begin(&mut self, ctx: &mut Ctx<'_>, mut conn: Connection) {
        let mut wire = Wire::of(&mut conn, &mut self.lines, self.policy.limits.outbound_bytes);
        let later = self.life > 1;
        if self.policy.mode == Mode::Auto && self.client.as_deref_mut().is_some_and(|client| client.take_wrong_era()) {
            self.era = None;
        }
        let step = match (self.policy.mode, self.era, self.client.as_deref_mut()) {
            (Mode::Raw, ..) | (_, _, None) => None,
            (Mode::Auto, None, Some(client)) => Some(Step::Probe { id: client.discover(&mut wire), again: false }),
            (Mode::Legacy, _, Some(client)) | (Mode::Auto, Some(Era::Legacy), Some(client)) => {
                let id = client.initialize(&mut wire, Revision::NEWEST);
                Some(Step::Initialize { id, offered: Revision::NEWEST, again: false, owed: None })
            }
            (Mode::Modern, _, Some(client)) | (Mode::Auto, Some(Era::Modern), Some(client)) => {
                let asks = self.policy.client.rediscover && later;
                asks.then(|| Step::Rediscover { id: client.discover(&mut wire) })
            }
        };
        let timer = match &step {
            Some(Step::Probe { .. } | Step::Rediscover { .. }) => after(ctx.now, self.policy.client.probe_timeout),
            _ => NEVER,
        };
        ctx.deadlines.set(&mut self.own, ctx.slot, Timer::Probe, timer);
        let at_once = step.is_none() && self.policy.serves_at_once;
        self.state = State::Starting { conn, start: Start::new(step.unwrap_or(Step::Awaited)) };
        if at_once {
            self.serves(ctx, None, false);
        } else {
            if matches!(&self.state, State::Starting { conn, .. } if conn.outbox.queued() > 0) {
                ctx.actions.push_back(Action::Serve(ctx.slot));
            }
            ctx.deadlines.set(&mut self.own, ctx.slot, Timer::Start, after(ctx.now, self.policy.start_timeout));
        }
    }

    /// Somebody else says that the connection serves.
    pub fn told_to_serve(&mut self, ctx: &mut Ctx<'_>) {
        self.serves(ctx, None, false);
    }

    /// The connection serves. `proven` is the era it was found to speak, `changed` says that the server is not what it was.
    pub(super) fn serves(&mut self, ctx: &mut Ctx<'_>, proven: Option<Era>, changed: bool) {
        let State::Starting { start: Start { doom: None, .. }, .. } = &self.state else { return };
        let State::Starting { mut conn, .. } = std::mem::replace(&mut self.state, State::Closed) else { return };
        conn.served = true;
        ctx.deadlines.clear(&mut self.own, ctx.slot, Timer::Start);
        ctx.deadlines.clear(&mut self.own, ctx.slot, Timer::Probe);
        if proven.is_some() {
            self.era = proven;
        }
        if let Some(client) = &mut self.client {
            self.spoken = client.spoken();
            let mut wire = Wire::of(&mut conn, &mut self.lines, self.policy.limits.outbound_bytes);
            let unproven = proven.is_none() && self.policy.mode == Mode::Auto;
            client.serves(&mut wire, ctx.now, unproven);
            if conn.outbox.queued() > 0 {
                ctx.actions.push_back(Action::Serve(ctx.slot));
            }
        }
        let serving = Serving { pid: conn.pid, life: conn.life, attempt: conn.attempt, spoken: self.spoken, changed };
        let tells = !self.policy.serves_at_once || matches!(self.policy.mode, Mode::Auto | Mode::Legacy);
        if conn.life > 1 {
            self.queue.push(Event::Reconnect(serving));
        } else if tells {
            self.queue.push(Event::Ready(serving));
        }
        self.state = State::Running { conn };
        self.speak_up();
        // Streams that were opened just now wait for their acknowledgement.
        self.mind_client(ctx);
    }

    /// A line that came before the connection serves: an answer that is waited for, a ping, or nothing anybody wants.
    pub(super) fn take_early_line(&mut self, ctx: &mut Ctx<'_>, frame: &Frame) {
        let line = frame.bytes();
        // No revision is agreed on yet: what any of them may send is a message.
        let spoken = Spoken::Legacy(Revision::NEWEST);
        let grammar_bytes = self.policy.limits.grammar_bytes;
        let reading = match self.policy.mode {
            Mode::Raw => message::read_line(frame, Spoken::Raw, grammar_bytes, &mut self.envelope),
            _ => message::read_line(frame, spoken, grammar_bytes, &mut self.envelope),
        };
        let early = match reading {
            Reading::Message(kind, parts) => Early { kind, parts, line },
            // A broken answer is one all the same; the bytes of the id are all that is looked at.
            _ if self.envelope.method.is_none() && self.envelope.id == Id::String => {
                let parts = Parts { id: self.envelope.id_span, ..Parts::default() };
                Early { kind: MessageKind::RemoteError, parts, line }
            }
            _ => return self.drop_early(line, false),
        };
        let State::Starting { conn, start } = &mut self.state else { return self.drop_early(line, true) };
        start.heard = true;
        if start.doom.is_some() {
            return self.drop_early(line, true);
        }
        let answered = Answered::of(early.kind, &early.parts, line);
        match &mut start.step {
            Step::Rediscover { id } if early.answers(id, false) => self.rediscovered(ctx, answered),
            Step::Probe { id, again } if early.answers(id, true) => {
                let again = *again;
                self.probed(ctx, answered, again);
            }
            Step::Initialize { owed, .. } if owed.as_deref().is_some_and(|id| early.answers(id, true)) => {
                *owed = None;
                self.log(
                    Level::Info,
                    "dropped the late answer to the question which revision the server speaks".to_owned(),
                );
            }
            Step::Initialize { id, .. } if early.answers(id, true) => self.initialized(ctx, answered),
            Step::Initialize { .. } if early.kind == MessageKind::Request && is_ping(&early) => {
                let mut wire = Wire::of(conn, &mut self.lines, self.policy.limits.outbound_bytes);
                if let (Some(client), Some(id)) = (self.client.as_deref_mut(), early.parts.id) {
                    client.pong(&mut wire, id.of(line));
                    ctx.actions.push_back(Action::Serve(ctx.slot));
                }
            }
            _ => self.drop_early(line, true),
        }
    }

    /// Nothing that comes before the connection serves is told. The log shows the first of it and every hundredth.
    fn drop_early(&mut self, line: &[u8], is_message: bool) {
        let Some(conn) = self.state.connection_mut() else { return };
        conn.dropped += 1;
        let dropped = conn.dropped;
        if dropped != 1 && !dropped.is_multiple_of(100) {
            return;
        }
        let mut text = match is_message {
            true => "dropped a message that came before the connection served: ".to_owned(),
            false => "dropped a line that came before the connection served and is no message: ".to_owned(),
        };
        escape_into(&mut text, line, SHOWN);
        if dropped > 1 {
            text += &format!(" ({dropped} lines so far)");
        }
        self.log(Level::Warning, text);
    }

    /// The answer to the library's own discover lets the connection serve, whatever it says (R7).
    fn rediscovered(&mut self, ctx: &mut Ctx<'_>, answered: Answered<'_>) {
        let Some(client) = self.client.as_deref_mut() else { return };
        let changed = client.rediscovered(answered);
        if let Err(reason) = changed {
            self.log(Level::Warning, format!("what the server can do was not told again: {reason}"));
        }
        // It has answered, one way or the other: the next answer tells nothing more of its era.
        self.serves(ctx, self.era, changed == Ok(true));
    }

    /// The probe was answered. `again`: it was the second one of this process.
    fn probed(&mut self, ctx: &mut Ctx<'_>, answered: Answered<'_>, again: bool) {
        match judge_probe(answered) {
            Verdict::Modern(known) => self.is_modern(ctx, *known),
            Verdict::Foreign(text) => self.fail_handshake(ctx, text),
            Verdict::Again if !again => self.probe_again(ctx),
            Verdict::Again => {
                self.fail_handshake(ctx, "the server refuses the version it says it speaks".to_owned());
            }
            Verdict::Legacy if again => {
                let text = "the server refuses the handshake of the older revisions and the present revision as well";
                self.fail_handshake(ctx, text.to_owned());
            }
            Verdict::Legacy => self.initialize(ctx, Revision::NEWEST, false, None),
        }
    }

    fn is_modern(&mut self, ctx: &mut Ctx<'_>, known: Known) {
        let Some(client) = self.client.as_deref_mut() else { return };
        let changed = client.speaks_modern(known);
        self.serves(ctx, Some(Era::Modern), changed);
    }

    fn probe_again(&mut self, ctx: &mut Ctx<'_>) {
        let (State::Starting { conn, start }, Some(client)) = (&mut self.state, self.client.as_deref_mut()) else {
            return;
        };
        let id = client.discover(&mut Wire::of(conn, &mut self.lines, self.policy.limits.outbound_bytes));
        start.step = Step::Probe { id, again: true };
        // There is nothing else to try any more: a slow server has until its start time is over.
        ctx.deadlines.clear(&mut self.own, ctx.slot, Timer::Probe);
        ctx.actions.push_back(Action::Serve(ctx.slot));
    }

    /// `owed` is the probe that was not answered in time.
    fn initialize(&mut self, ctx: &mut Ctx<'_>, offer: Revision, again: bool, owed: Option<String>) {
        let (State::Starting { conn, start }, Some(client)) = (&mut self.state, self.client.as_deref_mut()) else {
            return;
        };
        ctx.deadlines.clear(&mut self.own, ctx.slot, Timer::Probe);
        let id = client.initialize(&mut Wire::of(conn, &mut self.lines, self.policy.limits.outbound_bytes), offer);
        start.step = Step::Initialize { id, offered: offer, again, owed: owed.clone() };
        start.was_late |= owed.is_some();
        ctx.actions.push_back(Action::Serve(ctx.slot));
    }

    /// "initialize" was answered.
    fn initialized(&mut self, ctx: &mut Ctx<'_>, answered: Answered<'_>) {
        let State::Starting { conn, start } = &mut self.state else { return };
        let Step::Initialize { offered, again, owed, .. } = &mut start.step else { return };
        let (offered, again, owed) = (*offered, *again, owed.take());
        match judge_initialize(answered, offered) {
            Welcome::Open { revision, known } => {
                let Some(client) = self.client.as_deref_mut() else { return };
                let mut wire = Wire::of(conn, &mut self.lines, self.policy.limits.outbound_bytes);
                let changed = client.speaks_legacy(&mut wire, revision, *known);
                self.serves(ctx, Some(Era::Legacy), changed);
            }
            Welcome::Offer(other) if !again => self.initialize(ctx, other, true, owed),
            // The probe's answer came late, or is still to come: a server that gave it is of the present era for good.
            Welcome::Modern(_) if std::mem::take(&mut start.was_late) => self.probe_again(ctx),
            Welcome::Modern(text) => {
                // The kept era is wrong: the next life is asked again.
                self.era = None;
                self.fail_handshake(ctx, text);
            }
            Welcome::Offer(other) => {
                let text =
                    format!("the server refuses one revision after the other, the last time for {}", other.text());
                self.fail_handshake(ctx, text);
            }
            Welcome::Failed(text) => self.fail_handshake(ctx, text),
        }
    }

    /// The handshake cannot come to a good end (L4): it is told now for a first life, with its end for a later one (L11).
    fn fail_handshake(&mut self, ctx: &mut Ctx<'_>, text: String) {
        self.tell_broken(Fault::Handshake, text);
        self.death(ctx, Death::Handshake, None);
    }

    /// The time for the answer to the probe is over. Nothing is killed for it (Z5).
    pub(super) fn probe_due(&mut self, ctx: &mut Ctx<'_>) {
        let State::Starting { start: Start { step, doom: None, .. }, .. } = &mut self.state else { return };
        match step {
            Step::Rediscover { .. } => {
                self.log(Level::Warning, "what the server can do was not told again in time".to_owned());
                self.serves(ctx, None, false);
            }
            Step::Probe { id, again: false } => {
                let owed = Some(std::mem::take(id));
                self.initialize(ctx, Revision::NEWEST, false, owed);
            }
            Step::Probe { .. } | Step::Awaited | Step::Initialize { .. } => {}
        }
    }

    /// Whether the life that met a death signal may turn out to be one of a server that leaves at the probe (Z2).
    pub(super) fn may_be_shy(&self) -> bool {
        let State::Starting { conn, start } = &self.state else { return false };
        let Some(doom) = &start.doom else { return false };
        self.policy.mode == Mode::Auto
            && !self.was_shy
            && matches!(start.step, Step::Probe { again: false, .. })
            && !start.heard
            && doom.by_itself
            && (conn.exit.is_none() || conn.all_read())
    }

    /// Z2: the server has read the probe and left without a word. That is an answer, not a death: another process of the same
    /// life is asked the older way.
    pub(super) fn go_on_as_legacy(&mut self, ctx: &mut Ctx<'_>, mut conn: Connection, doom: Doom) {
        self.end_stderr(&mut conn);
        self.was_shy = true;
        self.era = Some(Era::Legacy);
        self.budget = doom.budget;
        let text = "the server left when it was asked which revision it speaks, as some older ones do: it is started once more \
                    and asked the older way, which costs nothing";
        self.log(Level::Warning, text.to_owned());
        self.state = State::Respawning { conn: Box::new(conn) };
        ctx.actions.push_back(Action::Spawn(ctx.slot));
    }

    /// The process that Z2 asks for could not be spawned: the life ends with the exit of the one that left.
    pub(super) fn respawn_failed(&mut self, ctx: &mut Ctx<'_>, conn: Connection, text: String) {
        let next = self.budget.decide(ctx.now, false).into();
        if conn.life == 1 {
            self.log(Level::Warning, format!("it could not be started once more: {text}"));
            self.tell_lost(ctx, conn, next);
        } else {
            self.tell_failed_life(ctx, next, Fault::Spawn, text, Some(&conn));
        }
    }
}

fn is_ping(early: &Early<'_>) -> bool {
    early.parts.method.is_some_and(|span| span.of(early.line) == b"ping")
}
