//! What the host sends: raw lines, requests, notifications, streams, and their ends. The answers of table L for them.

use super::Peer;
use super::state::*;
use crate::core::client::known::Known;
use crate::core::client::{Client, Options, Out, Reply, Wire};
use crate::core::connection::{Action, Connection, Ctx};
use crate::core::deadlines::Timer;
use crate::core::error::Refusal;
use crate::core::event::Answer;
use crate::core::message;
use crate::core::time::NEVER;

const RAW: Refusal =
    Refusal::Unsupported("in raw mode lines are passed through with mcp_supervised_send; nothing is tracked");

/// What can be written right now.
enum Open<'a> {
    /// A connection takes lines.
    Now(&'a mut Connection),
    /// The first connection does not serve yet: what is accepted waits. Whether the host is owed a WRITABLE.
    Later(&'a mut bool),
}

impl Peer {
    /// The connection that takes lines, or the answer of table L.
    fn open(state: &mut State) -> Answer<Open<'_>> {
        match state {
            State::Idle => Err(Refusal::NotStarted),
            State::Starting { conn, .. } if conn.life == 1 => Ok(Open::Later(&mut conn.owes_writable)),
            State::Respawning { conn } if conn.life == 1 => Ok(Open::Later(&mut conn.owes_writable)),
            State::Starting { .. } | State::Respawning { .. } => {
                Err(Refusal::Closed("the replacement does not serve yet"))
            }
            State::Ending { .. } => Err(Refusal::Closed("the connection ended")),
            State::Waiting { .. } => Err(Refusal::Closed("the connection ended and its replacement is not there yet")),
            State::Closing { .. } | State::Closed => Err(Refusal::Closed("the peer is closed")),
            State::Running { conn } | State::Draining { conn } => Ok(Open::Now(conn)),
        }
    }

    /// Sends a raw line (R11).
    pub fn send(&mut self, text: &[u8]) -> Answer<u64> {
        let Open::Now(conn) = Self::open(&mut self.state)? else {
            return Err(Refusal::NotStarted);
        };
        let limit = self.policy.limits.outbound_bytes;
        let line = message::outgoing_line(text, self.spoken, limit).map_err(Refusal::Invalid)?;
        if let Some(client) = &self.client {
            client.gate_line(&line)?;
        }
        let queued = conn.outbox.queued();
        if queued + line.len() > limit {
            conn.owes_writable = true;
            return Err(Refusal::WouldBlock { queued, limit, line: line.len() });
        }
        self.lines += 1;
        conn.outbox.push(self.lines, line);
        Ok(self.lines)
    }

    /// Runs a step of the client with the wire, if there is one now.
    fn with_client<T>(
        &mut self,
        ctx: &mut Ctx<'_>,
        step: impl FnOnce(&mut Client, Option<&mut Wire<'_>>, usize) -> Answer<T>,
    ) -> Answer<T> {
        let client = self.client.as_deref_mut().ok_or(RAW)?;
        let limit = self.policy.limits.outbound_bytes;
        let value = match Self::open(&mut self.state)? {
            Open::Later(owes_writable) => {
                let value = step(client, None, limit);
                *owes_writable |= matches!(value, Err(Refusal::WouldBlock { .. } | Refusal::TooMany { .. }));
                value
            }
            Open::Now(conn) => {
                let mut wire = Wire::of(conn, &mut self.lines, limit);
                step(client, Some(&mut wire), limit)
            }
        };
        self.speak_up();
        self.mind_client(ctx);
        value
    }

    /// Takes a request and gives its id (R1).
    pub fn request(&mut self, ctx: &mut Ctx<'_>, method: &str, params: &[u8], options: &Options) -> Answer<u64> {
        let now = ctx.now;
        self.with_client(ctx, |client, wire, limit| client.request(wire, now, method, params, options, limit))
    }

    /// Opens a stream and gives its id (S1).
    pub fn listen(&mut self, ctx: &mut Ctx<'_>, filter: &[u8], user_data: u64) -> Answer<u64> {
        let now = ctx.now;
        self.with_client(ctx, |client, wire, limit| client.listen(wire, now, filter, user_data, limit))
    }

    /// Sends a notification.
    pub fn notify(&mut self, ctx: &mut Ctx<'_>, method: &str, params: &[u8]) -> Answer {
        self.with_client(ctx, |client, wire, limit| client.notify(wire, method, params, limit))
    }

    /// Ends a request or a stream (R5). Where no connection takes lines it is freed, and nothing is sent.
    pub fn cancel(&mut self, ctx: &mut Ctx<'_>, id: u64, reason: &str) -> Answer {
        let client = self.client.as_deref_mut().ok_or(RAW)?;
        let mut out = Out { queue: &mut self.queue, log_level: self.log_level, direct: None };
        let limit = self.policy.limits.outbound_bytes;
        let quiet = matches!(self.state, State::Closing { .. });
        let answer = match &mut self.state {
            State::Running { conn } | State::Draining { conn } | State::Closing { conn } => {
                let mut wire = Wire::of(conn, &mut self.lines, limit).quiet_if(quiet);
                client.cancel(Some(&mut wire), &mut out, id, reason)
            }
            _ => client.cancel(None, &mut out, id, reason),
        };
        if answer.is_ok() {
            self.mind_client(ctx);
            self.mind_flushed(ctx);
        }
        answer
    }

    /// Answers a request of the server (Z4).
    pub fn respond(&mut self, ctx: &mut Ctx<'_>, token: u64, reply: Reply<'_>) -> Answer {
        self.with_client(ctx, |client, wire, _| match wire {
            Some(wire) => client.respond(wire, token, reply),
            None => Err(Refusal::NotStarted),
        })
    }

    /// Tells what the library answers by itself.
    pub(super) fn speak_up(&mut self) {
        if let Some(client) = self.client.as_deref_mut().filter(|client| client.has_due()) {
            client.speak_up(&mut Out { queue: &mut self.queue, log_level: self.log_level, direct: None });
        }
    }

    /// What the server said of itself, and whether that was before a restart.
    pub fn known(&self) -> Answer<Option<(&Known, bool)>> {
        Ok(self.client.as_deref().ok_or(RAW)?.known())
    }

    /// What the connection speaks, or the last one did.
    #[cfg(any(test, fuzzing))]
    pub fn spoken(&self) -> crate::core::era::Spoken {
        self.spoken
    }

    /// Requests of the library's own whose answers nobody waits for.
    #[cfg(any(test, fuzzing))]
    pub fn owed_to_nobody(&self) -> usize {
        self.client.as_deref().map_or(0, Client::owed_to_nobody)
    }

    /// Whether a request's deadline passed, so that stdout is to be read before it is judged (R4).
    pub fn judges(&self, now: u64) -> bool {
        self.client.as_deref().is_some_and(|client| client.judges(now))
    }

    /// Ends what is overdue of requests and streams.
    pub(super) fn client_due(&mut self, ctx: &mut Ctx<'_>) {
        let Some(client) = self.client.as_deref_mut() else { return };
        let mut out = Out { queue: &mut self.queue, log_level: self.log_level, direct: None };
        let limit = self.policy.limits.outbound_bytes;
        let quiet = matches!(self.state, State::Closing { .. });
        match &mut self.state {
            State::Running { conn } | State::Draining { conn } | State::Closing { conn } => {
                let mut wire = Wire::of(conn, &mut self.lines, limit).quiet_if(quiet);
                client.tick(Some(&mut wire), &mut out, ctx.now);
                if conn.outbox.queued() > 0 {
                    ctx.actions.push_back(Action::Serve(ctx.slot));
                }
            }
            _ => client.tick(None, &mut out, ctx.now),
        }
        self.mind_client(ctx);
        self.mind_flushed(ctx);
    }

    /// Sets the deadline of the client to what it is by now, or drops it.
    pub fn renew_client_deadline(&mut self, ctx: &mut Ctx<'_>) {
        let next = self.client.as_deref().and_then(Client::next_deadline);
        if next != self.own.get(Timer::Client) {
            ctx.deadlines.set(&mut self.own, ctx.slot, Timer::Client, next.unwrap_or(NEVER));
        }
    }

    /// Keeps the one deadline of the client no later than its earliest. One that turns out too early costs a turn; moving it
    /// with every request would cost more.
    pub(super) fn mind_client(&mut self, ctx: &mut Ctx<'_>) {
        let Some(next) = self.client.as_deref().and_then(Client::next_deadline) else { return };
        if self.own.get(Timer::Client).is_none_or(|at| next < at) {
            ctx.deadlines.set(&mut self.own, ctx.slot, Timer::Client, next);
        }
    }
}
