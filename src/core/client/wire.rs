//! What a step of the client is handed: where its lines go, and where its events go.

use crate::core::connection::{Connection, Outlet};
use crate::core::error::Refusal;
use crate::core::event::{Answer, Event, Failed, Fault, To, flag};
use crate::core::ids::PeerId;
use crate::core::log::Level;
use crate::core::outbox::Outbox;
use crate::core::queue::{EventQueue, Queued};
use crate::core::supervisor::Told;

/// Where lines go while a connection serves.
pub struct Wire<'a> {
    /// The outbox of the connection.
    pub outbox: &'a mut Outbox,
    /// Numbers the peer's lines.
    pub lines: &'a mut u64,
    /// The host is owed a WRITABLE.
    pub owes_writable: &'a mut bool,
    /// What may wait in the outbox.
    pub limit: usize,
    /// The connection is being ended: what waits may be taken back, nothing is added.
    pub quiet: bool,
}

impl<'a> Wire<'a> {
    /// The wire of a connection that takes lines.
    pub fn of(conn: &'a mut Connection, lines: &'a mut u64, limit: usize) -> Self {
        Self { outbox: &mut conn.outbox, lines, owes_writable: &mut conn.owes_writable, limit, quiet: false }
    }

    /// The same for a connection that may be on its way out.
    pub fn quiet_if(self, quiet: bool) -> Self {
        Self { quiet, ..self }
    }

    /// Queues a line, whatever waits already.
    pub(super) fn push(&mut self, line: Vec<u8>) -> u64 {
        *self.lines += 1;
        self.outbox.push(*self.lines, line);
        *self.lines
    }

    /// Queues an answer to the server within the limits: what one that never reads asks must not make the queue grow without
    /// end. Says whether it did.
    pub(super) fn reply(&mut self, line: Vec<u8>) -> bool {
        let has_room = !self.quiet && self.outbox.queued() + line.len() <= self.limit;
        if has_room {
            self.push(line);
        }
        has_room
    }

    /// Queues the line of a host that `build` writes, of about `bytes`, within the limits. `admit` is asked last whether there is
    /// room for one more of its kind.
    #[inline]
    pub(super) fn push_within(
        &mut self,
        what: &str,
        bytes: usize,
        build: impl FnOnce(&mut Vec<u8>) -> Result<(), String>,
        admit: impl FnOnce(&mut bool) -> Answer,
    ) -> Answer<u64> {
        let (queued, limit) = (self.outbox.queued(), self.limit);
        let owes_writable = &mut *self.owes_writable;
        self.outbox.push_built(
            *self.lines + 1,
            bytes,
            |line| build(line).map_err(Refusal::Invalid),
            |len| {
                check_length(what, len, limit)?;
                admit(owes_writable)?;
                if queued + len > limit {
                    *owes_writable = true;
                    return Err(Refusal::WouldBlock { queued, limit, line: len });
                }
                Ok(())
            },
        )?;
        *self.lines += 1;
        Ok(*self.lines)
    }
}

/// R2: a line that could never be sent is refused for good.
pub(super) fn check_length(what: &str, len: usize, limit: usize) -> Answer {
    if len <= limit {
        return Ok(());
    }
    Err(Refusal::invalid(format!("{what} a line of {len} bytes; outbound_bytes is {limit}")))
}

/// Where events and log lines go.
pub struct Out<'a> {
    /// The peer's queue.
    pub queue: &'a mut EventQueue,
    /// Lines up to this level are told.
    pub log_level: Level,
    /// The host itself, while its poll runs.
    pub direct: Option<Direct<'a>>,
}

/// The host, as a message of one peer reaches it.
pub struct Direct<'a> {
    /// Whose events these are.
    pub id: PeerId,
    /// What the host gave with `add`.
    pub data: u64,
    /// Where they go.
    pub outlet: &'a mut dyn Outlet,
}

impl Out<'_> {
    /// A message of the server: straight to the host if nothing of this peer waits, otherwise it counts against F1.
    #[inline]
    pub fn message(&mut self, event: Event) {
        match &mut self.direct {
            Some(Direct { id, data, outlet }) if self.queue.is_empty() && outlet.room() > 0 => {
                outlet.give(Told::Peer { id: *id, data: *data, queued: Queued { event, is_final: false } });
            }
            _ => self.queue.push_counted(event),
        }
    }

    pub(super) fn log(&mut self, level: Level, text: String) {
        if level <= self.log_level {
            self.queue.log(level, text);
        }
    }

    pub(super) fn fail(&mut self, to: To, fault: Fault, text: impl Into<String>) {
        let to = To { flags: to.flags | flag::COMPLETE, ..to };
        self.queue.push(Event::Failed(Box::new(Failed { to, fault, text: text.into() })));
    }
}
