//! The end of a connection and the beginning of the next one, as requests and streams see it: what is lost, what is kept, and
//! what the replacement gets. Rules T and S3, S5, and the orders of L16.

use super::{Client, DOUBT_ERA, DOUBT_VERSION, Out, Place, Waiting, Wire};
use crate::core::event::{Fault, To, flag};
use crate::core::log::Level;
use crate::core::time::Nanos;

/// What follows the connection that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// A replacement.
    Replaced,
    /// Nothing: the budget is spent.
    Exhausted,
    /// Nothing: the peer is closed.
    Closed,
}

impl Client {
    /// The connection is over. `unread_from` is the number of the first line that the server cannot have read, 0 if there is
    /// none. Tells the completions of this moment: requests in the order of acceptance, then streams in the order of opening.
    pub fn lose(&mut self, out: &mut Out<'_>, unread_from: u64, fate: Fate) {
        for id in self.requests.ids() {
            let Some(pending) = self.requests.get(id) else { continue };
            let survives =
                self.policy.retry && pending.method.reads_only && !pending.is_continuation && pending.origin.is_some();
            let unread = match pending.place {
                Place::Waits => true,
                Place::Line(number) => unread_from != 0 && number >= unread_from,
                Place::Here | Place::Lost => false,
            };
            if survives && fate == Fate::Replaced {
                // T4: the host is told nothing of a retry that goes on, so the log is where it shows.
                if pending.retried && matches!(pending.place, Place::Line(_)) {
                    out.log(Level::Warning, format!("request {id} was sent again and its connection ended too"));
                }
                if let Some(pending) = self.requests.get_mut(id) {
                    pending.place = Place::Lost;
                }
                continue;
            }
            let Some(pending) = self.forget(id) else { continue };
            let mut flags = self.retried(&pending);
            // What was written before may have been read then: by an earlier connection, or by this one, which refused it
            // for its version.
            if unread && !pending.retried && !pending.renegotiated {
                flags |= flag::UNREAD;
            }
            let to = To { request: id, user_data: pending.user_data, flags };
            match fate {
                Fate::Exhausted if survives => out.fail(to, Fault::Exhausted, "the restart budget is spent"),
                _ => out.fail(to, Fault::Closed, "the connection ended before the answer came"),
            }
        }
        match fate {
            Fate::Replaced => {
                for (id, stream) in &mut self.streams {
                    if stream.reopened && !stream.acknowledged && stream.place != Place::Lost {
                        out.log(Level::Warning, format!("stream {id} was opened again and its connection ended too"));
                    }
                    stream.place = Place::Lost;
                    stream.acknowledged = false;
                }
            }
            Fate::Exhausted | Fate::Closed => {
                let (fault, text) = match fate {
                    Fate::Exhausted => (Fault::Exhausted, "the restart budget is spent"),
                    _ => (Fault::Closed, "the peer is closed"),
                };
                for (id, stream) in std::mem::take(&mut self.streams) {
                    out.fail(To { request: id, user_data: stream.user_data, flags: 0 }, fault, text);
                }
            }
        }
        self.lose_session();
        self.held.clear();
        self.unacknowledged.clear();
        self.ended_by_peer.clear();
        self.waiting.clear();
        self.waiting_bytes = 0;
        self.string_id_told = false;
        self.stale = self.known.is_some();
    }

    /// A connection serves: what waited for it is written in the order of acceptance; after a restart what survived, retained
    /// requests first, then the streams (T3), on a server of an older revision the other way round (Z3). `unproven`: nobody
    /// has asked this life which era it speaks.
    pub fn serves(&mut self, wire: &mut Wire<'_>, now: Nanos, unproven: bool) {
        self.doubt &= DOUBT_VERSION;
        if unproven {
            self.doubt |= DOUBT_ERA;
        }
        if self.legacy.is_some() {
            self.settle_version();
            self.reopen_streams(wire, now);
        }
        for waiting in std::mem::take(&mut self.waiting) {
            match waiting {
                Waiting::Notification(line) => {
                    wire.push(line);
                }
                Waiting::Request { id, .. } => self.write_request(wire, id, false),
                Waiting::Stream { id, .. } => self.write_stream(wire, now, id),
            }
        }
        self.waiting_bytes = 0;
        for id in self.requests.ids() {
            if self.requests.get(id).is_some_and(|pending| pending.place == Place::Lost) {
                self.write_request(wire, id, true);
            }
        }
        self.reopen_streams(wire, now);
    }

    fn reopen_streams(&mut self, wire: &mut Wire<'_>, now: Nanos) {
        let lost: Vec<u64> =
            self.streams.iter().filter(|(_, stream)| stream.place == Place::Lost).map(|(id, _)| *id).collect();
        for id in lost {
            self.write_stream(wire, now, id);
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.reopened = true;
            }
        }
    }

    /// Writes a request that is known already, under its id.
    pub(super) fn write_request(&mut self, wire: &mut Wire<'_>, id: u64, again: bool) {
        let is_ours = self.legacy.is_some() && self.requests.get(id).is_some_and(|pending| pending.method.is_discover);
        let place = if is_ours {
            self.answers_itself(id)
        } else {
            let Some(line) = self.requests.get(id).and_then(|pending| self.line_again(id, pending)) else {
                return;
            };
            Place::Line(wire.push(line))
        };
        if let Some(pending) = self.requests.get_mut(id) {
            pending.place = place;
            pending.retried |= again;
            if self.doubt & DOUBT_VERSION == 0 && !(self.policy.retry && pending.method.reads_only) {
                pending.origin = None;
            }
        }
    }

    /// Opens a stream under its id, with fresh `_meta` (S3).
    pub(super) fn write_stream(&mut self, wire: &mut Wire<'_>, now: Nanos, id: u64) {
        let Some(stream) = self.streams.get(&id) else { return };
        let place = if self.legacy.is_some() {
            let filter = stream.filter.clone();
            self.subscribe(wire, id, &filter, false).unwrap_or(Place::Here)
        } else {
            let Ok(line) = self.listen_line(id, &stream.filter) else { return };
            Place::Line(wire.push(line))
        };
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.place = place;
        }
        self.await_acknowledgement(now, id);
    }

    /// The peer is being closed by the host: the server is told of every open stream (L8). They stay open until CLOSE.
    pub fn cancel_streams(&mut self, wire: &mut Wire<'_>) {
        let mut begun: Vec<u64> = self.streams.values().filter_map(|stream| stream.place.line()).collect();
        begun.sort_unstable();
        wire.outbox.take_back_all(&mut begun);
        for (id, stream) in &self.streams {
            if stream.place.line().is_some_and(|number| begun.binary_search(&number).is_ok()) {
                wire.push(crate::core::stamp::cancel_line(*id, "the client is closing"));
            }
        }
    }
}
