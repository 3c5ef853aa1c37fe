//! Messages of a server, matched with what was asked. Rules R6, R8 to R10, S2, S4 and F3.

use std::borrow::Cow;

use super::handshake::{Answered, UNSUPPORTED_VERSION};
use super::known::{Known, supported_versions};
use super::{Client, Out, Place, Wire};
use crate::core::event::{Event, Fault, To, flag};
use crate::core::framing::Frame;
use crate::core::log::{Level, escape_into};
use crate::core::message::{MessageKind, OWN_ID, Parts};
use crate::core::stamp::{PROTOCOL_VERSION, member};
use crate::core::time::{Nanos, after};
use crate::scan::{Envelope, Id, parse_integer, unescape_eq};

/// Codes without a shared meaning; one SDK answers with them while it exits.
const IMPLEMENTATION_CODES: std::ops::RangeInclusive<i64> = -32019..=-32000;
/// Codes by which servers of the older revisions meet a request they do not understand.
const WRONG_ERA_CODES: std::ops::RangeInclusive<i64> = -32602..=-32600;
/// Bytes of a foreign id or token that a log line shows.
const SHOWN: usize = 64;

/// An error of an acknowledged stream that may turn out to be the end of the process (S4).
#[derive(Debug)]
pub struct HeldError {
    pub(super) stream: u64,
    pub(super) at: Nanos,
    parts: Parts,
    frame: Frame,
}

/// One message of the server.
pub struct Inbound<'a> {
    /// Its shape.
    pub kind: MessageKind,
    /// Where its parts lie.
    pub parts: Parts,
    /// More of them.
    pub envelope: &'a Envelope,
    /// Its line.
    pub frame: Frame,
}

/// What the peer knows while a message comes in.
pub struct Moment<'a, 'w> {
    /// Where lines go, if the connection takes any.
    pub wire: Option<&'a mut Wire<'w>>,
    /// Now.
    pub now: Nanos,
    /// How long an error may turn out to be the end of the process.
    pub exit_drain: Nanos,
    /// The peer is closing: streams end with CLOSE, whatever the server says to them on its way out (L8).
    pub closing: bool,
    /// A death signal was seen: what is read now was written on the way out.
    pub dying: bool,
    /// The host's queue is full, and what can be shed is (F3).
    pub shed: bool,
}

impl Client {
    /// Takes a message.
    pub fn message(&mut self, moment: &mut Moment<'_, '_>, out: &mut Out<'_>, message: Inbound<'_>) {
        match message.kind {
            MessageKind::Result | MessageKind::RemoteError => self.answer(moment, out, message),
            MessageKind::Notification => self.notification(moment, out, message),
            MessageKind::Request => self.asked_by_server(moment, out, message),
            MessageKind::Unmatched => tell(out, message, To::default()),
        }
    }

    /// A line that is no message, but whose id could be read: it was meant to end a request (W2). Says whether it did.
    /// `leaving`: the connection is ending.
    pub fn broken_answer(
        &mut self,
        out: &mut Out<'_>,
        (envelope, line): (&Envelope, &[u8]),
        reason: &str,
        leaving: bool,
    ) -> bool {
        if !leaving
            && let Some(own) = envelope.id_span.and_then(|span| self.own_number(span.of(line)))
            && self.own_answered(out, Answered::Nonsense, own)
        {
            return false;
        }
        let Some(id) = self.pending_id(envelope, line) else { return false };
        let to = if let Some(pending) = self.forget(id) {
            To { request: id, user_data: pending.user_data, flags: self.retried(&pending) }
        } else if let Some(stream) = self.forget_stream(id) {
            To { request: id, user_data: stream.user_data, flags: 0 }
        } else {
            return false;
        };
        out.fail(to, Fault::Protocol, reason);
        true
    }

    /// The id of a pending request that an envelope names, also as a string that spells it.
    fn pending_id(&self, envelope: &Envelope, line: &[u8]) -> Option<u64> {
        let id = match envelope.id {
            Id::Integer(id) => u64::try_from(id).ok()?,
            Id::String => spelled(envelope.id_span?.of(line))?,
            _ => return None,
        };
        let is_stream = self.legacy.is_none() && self.streams.contains_key(&id);
        (is_stream || self.requests.get(id).is_some()).then_some(id)
    }

    fn answer(&mut self, moment: &mut Moment<'_, '_>, out: &mut Out<'_>, message: Inbound<'_>) {
        let line = message.frame.bytes();
        let (id, as_string) = match message.envelope.id {
            Id::Integer(id) => (u64::try_from(id).unwrap_or(0), false),
            Id::String => (message.envelope.id_span.and_then(|span| spelled(span.of(line))).unwrap_or(0), true),
            _ => (0, false),
        };
        let minted = id > 0 && id < self.next_id;
        // A server of an older revision has never heard of a stream's id.
        if minted && self.legacy.is_none() && self.streams.contains_key(&id) {
            self.note_string_id(out, as_string);
            return self.stream_answered(moment, out, message, id);
        }
        if minted && self.requests.get(id).is_some() {
            self.note_string_id(out, as_string);
            return self.request_answered(moment, out, message, id);
        }
        if minted {
            if !self.ended_by_peer.remove(&id) {
                out.log(Level::Warning, format!("dropped a late answer to request {id}"));
            }
            return;
        }
        if as_string && let Some(own) = message.envelope.id_span.and_then(|span| self.own_number(span.of(line))) {
            // On its way out a server ends no stream (L8), and what is lost is opened again.
            let leaving = moment.closing || moment.dying;
            if leaving || self.own_answered(out, Answered::of(message.kind, &message.parts, line), own) {
                return;
            }
            return out.log(Level::Warning, "dropped a late answer to a request of the library's own".to_owned());
        }
        tell(out, Inbound { kind: MessageKind::Unmatched, ..message }, To::default());
    }

    /// The number of a request that the library itself has written, from its id (R6).
    fn own_number(&self, quoted: &[u8]) -> Option<u64> {
        let inside = quoted.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""))?;
        let number = u64::try_from(parse_integer(inside.strip_prefix(OWN_ID.as_bytes())?)?).ok()?;
        (1..=self.own).contains(&number).then_some(number)
    }

    fn note_string_id(&mut self, out: &mut Out<'_>, as_string: bool) {
        if as_string && !std::mem::replace(&mut self.string_id_told, true) {
            out.log(Level::Warning, "the server answers integer ids as strings; they are accepted".to_owned());
        }
    }

    fn request_answered(&mut self, moment: &mut Moment<'_, '_>, out: &mut Out<'_>, message: Inbound<'_>, id: u64) {
        if message.kind == MessageKind::RemoteError
            && message.parts.error_code == UNSUPPORTED_VERSION
            && self.renegotiates(moment, &message, id)
        {
            return;
        }
        let Some(pending) = self.forget(id) else { return };
        if self.doubt != 0 {
            self.settle_doubt(&message);
        }
        let mut to = To { request: id, user_data: pending.user_data, flags: flag::COMPLETE | self.retried(&pending) };
        // The older revisions have neither.
        if message.kind == MessageKind::Result && self.legacy.is_none() {
            let line = message.frame.bytes();
            match result_type(message.envelope.result_type.map(|span| span.of(line))).as_deref() {
                None | Some("complete") => {}
                Some("input_required") => to.flags |= flag::INPUT_REQUIRED,
                Some(_) if self.policy.has_extensions => to.flags |= flag::OTHER_RESULT_TYPE,
                Some(other) => {
                    let mut text = "the result is of a type that was not asked for: ".to_owned();
                    escape_into(&mut text, other.as_bytes(), SHOWN);
                    return out.fail(to, Fault::Protocol, text);
                }
            }
            if pending.method.is_discover
                && let Some(known) = message.parts.body.and_then(|body| Known::read(body.of(line)))
            {
                self.learn(known);
            }
        }
        tell(out, message, to);
    }

    /// The first answer: from now on the version is not in doubt, and what was kept only to be stamped anew is let go of. If it
    /// is an error that servers of the older revisions answer with, the next life is asked again what it speaks (Z1).
    #[cold]
    fn settle_doubt(&mut self, message: &Inbound<'_>) {
        let doubt = std::mem::take(&mut self.doubt);
        if doubt & super::DOUBT_ERA != 0 {
            self.era_is_wrong = false;
            if message.kind == MessageKind::RemoteError {
                self.doubts_era(message.parts.error_code);
            }
        }
        if doubt & super::DOUBT_VERSION != 0 {
            self.settle_version();
        }
    }

    /// The first answer of a life that was not asked which era it speaks is an error.
    pub(super) fn doubts_era(&mut self, code: i64) {
        self.era_is_wrong = WRONG_ERA_CODES.contains(&code);
    }

    /// The version is not in doubt any more.
    pub(super) fn settle_version(&mut self) {
        self.doubt &= !super::DOUBT_VERSION;
        for id in self.requests.ids() {
            let retry = self.policy.retry;
            if let Some(pending) = self.requests.get_mut(id)
                && !(retry && pending.method.reads_only)
                && pending.place != Place::Waits
            {
                pending.origin = None;
            }
        }
    }

    /// R8: a request that was refused for its version is written once more with one that both sides speak, under its id.
    fn renegotiates(&mut self, moment: &mut Moment<'_, '_>, message: &Inbound<'_>, id: u64) -> bool {
        let Some(wire) = moment.wire.as_deref_mut().filter(|_| self.legacy.is_none()) else { return false };
        let Some(body) = message.parts.body else { return false };
        let Some(pending) = self.requests.get_mut(id) else { return false };
        if pending.renegotiated || pending.verbatim || pending.origin.is_none() {
            return false;
        }
        if !supported_versions(body.of(message.frame.bytes())).iter().any(|version| version == PROTOCOL_VERSION) {
            return false;
        }
        pending.renegotiated = true;
        self.write_request(wire, id, false);
        true
    }

    fn stream_answered(&mut self, moment: &mut Moment<'_, '_>, out: &mut Out<'_>, message: Inbound<'_>, id: u64) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let to = To { request: id, user_data: stream.user_data, flags: flag::COMPLETE };
        if message.kind == MessageKind::RemoteError {
            if moment.closing {
                return;
            }
            if message.parts.error_code == UNSUPPORTED_VERSION
                && !std::mem::replace(&mut stream.renegotiated, true)
                && let Some(wire) = moment.wire.as_deref_mut()
                && let Some(body) = message.parts.body
                && supported_versions(body.of(message.frame.bytes())).iter().any(|version| version == PROTOCOL_VERSION)
            {
                self.write_stream(wire, moment.now, id);
                return;
            }
            if stream.acknowledged && IMPLEMENTATION_CODES.contains(&message.parts.error_code) {
                if moment.dying {
                    return;
                }
                if self.held.iter().any(|held| held.stream == id) {
                    return out.log(Level::Warning, format!("dropped another error of stream {id}"));
                }
                let at = after(moment.now, moment.exit_drain);
                self.held.push_back(HeldError { stream: id, at, parts: message.parts, frame: message.frame });
                return;
            }
        }
        if self.doubt != 0 {
            self.settle_doubt(&message);
        }
        self.forget_stream(id);
        tell(out, message, to);
    }

    /// Errors that were held back and did not turn out to be the end of the process.
    pub(super) fn judge_held(&mut self, out: &mut Out<'_>, now: Nanos) {
        while self.held.front().is_some_and(|held| held.at <= now) {
            let Some(held) = self.held.pop_front() else { break };
            let Some(stream) = self.forget_stream(held.stream) else { continue };
            let to = To { request: held.stream, user_data: stream.user_data, flags: flag::COMPLETE };
            let (kind, parts, frame) = (MessageKind::RemoteError, held.parts, held.frame);
            out.queue.push_counted(Event::Message { kind, parts, frame, to });
        }
    }

    fn notification(&mut self, moment: &mut Moment<'_, '_>, out: &mut Out<'_>, message: Inbound<'_>) {
        let line = message.frame.bytes();
        let notice = Notice::of(message.parts.method.map_or(&b""[..], |span| span.of(line)));
        if notice == Notice::Progress {
            return self.progress(moment, out, message);
        }
        if self.legacy.is_some() {
            return self.legacy_notification(moment, out, message);
        }
        if notice == Notice::Cancelled
            && let Some(id) = cancelled_id(message.parts.body.map(|span| span.of(line)))
            && let Some(stream) = self.forget_stream(id)
        {
            // A server that never answers them must not make this grow: past the bound a late result is logged instead.
            if self.ended_by_peer.len() >= self.policy.max_in_flight {
                self.ended_by_peer.clear();
            }
            self.ended_by_peer.insert(id);
            let to = To { request: id, user_data: stream.user_data, flags: flag::BY_PEER };
            return out.fail(to, Fault::Cancelled, "the server ended the stream");
        }
        let stream = message.envelope.subscription_id.and_then(|span| {
            let text = span.of(line);
            let id = if text.starts_with(b"\"") { spelled(text)? } else { u64::try_from(parse_integer(text)?).ok()? };
            self.streams.get_mut(&id).map(|stream| (id, stream))
        });
        let Some((id, stream)) = stream else {
            if moment.shed {
                return self.count_shed(out, "a notification");
            }
            return tell(out, message, To::default());
        };
        let to = To { request: id, user_data: stream.user_data, flags: 0 };
        if notice == Notice::Acknowledged {
            stream.acknowledged = true;
            self.unacknowledged.retain(|(_, stream)| *stream != id);
        }
        if moment.shed {
            let place = self.forget_stream(id).map(|stream| stream.place);
            if let Some(place) = place {
                self.tell_cancelled(moment.wire.as_deref_mut(), id, place, "the client does not keep up");
            }
            self.count_shed(out, "a delivery of a stream, which ends with it");
            return out.fail(to, Fault::DeliveryDropped, "the host did not keep up with the stream");
        }
        tell(out, message, to);
    }

    pub(super) fn count_shed(&mut self, out: &mut Out<'_>, what: &str) {
        self.shed += 1;
        if self.shed == 1 || self.shed.is_multiple_of(100) {
            out.log(
                Level::Warning,
                format!("dropped {what}: the host does not keep up ({} dropped so far)", self.shed),
            );
        }
    }

    /// R10. Progress that cannot be delivered for want of room still keeps its request alive.
    fn progress(&mut self, moment: &mut Moment<'_, '_>, out: &mut Out<'_>, message: Inbound<'_>) {
        let line = message.frame.bytes();
        let token = message.envelope.progress_token.map(|span| span.of(line));
        let id = token.and_then(|token| self.tokens.get(&*plain(token)).copied());
        let Some(id) = id else {
            let mut text = "dropped progress with a token that no request has: ".to_owned();
            escape_into(&mut text, token.unwrap_or(b"none"), SHOWN);
            return out.log(Level::Info, text);
        };
        self.requests.restart_idle(id, moment.now);
        let user_data = self.requests.get(id).map_or(0, |pending| pending.user_data);
        if moment.shed {
            return self.count_shed(out, "progress");
        }
        tell(out, message, To { request: id, user_data, flags: 0 });
    }
}

pub(super) fn tell(out: &mut Out<'_>, message: Inbound<'_>, to: To) {
    let Inbound { kind, parts, frame, .. } = message;
    out.message(Event::Message { kind, parts, frame, to });
}

/// The notifications that mean something to the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notice {
    Progress,
    Cancelled,
    Acknowledged,
    Other,
}

impl Notice {
    const PROGRESS: &str = "notifications/progress";
    const CANCELLED: &str = "notifications/cancelled";
    const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

    /// Which one a method is, as it stands in the line.
    fn of(method: &[u8]) -> Self {
        // Lengths that are known make these comparisons of a few words; a call of memcmp costs more than the rest of it.
        if method == Self::PROGRESS.as_bytes() {
            Self::Progress
        } else if method == Self::CANCELLED.as_bytes() {
            Self::Cancelled
        } else if method == Self::ACKNOWLEDGED.as_bytes() {
            Self::Acknowledged
        } else if memchr::memchr(b'\\', method).is_none() {
            Self::Other
        } else {
            Self::escaped(method)
        }
    }

    /// Some JSON writers escape every slash.
    #[cold]
    fn escaped(method: &[u8]) -> Self {
        let names = [
            (Self::PROGRESS, Self::Progress),
            (Self::CANCELLED, Self::Cancelled),
            (Self::ACKNOWLEDGED, Self::Acknowledged),
        ];
        names.iter().find(|(name, _)| unescape_eq(method, name)).map_or(Self::Other, |(_, notice)| *notice)
    }
}

/// The number that a JSON string spells exactly, as our ids are written.
fn spelled(quoted: &[u8]) -> Option<u64> {
    let inside = quoted.get(1..quoted.len().checked_sub(1)?)?;
    u64::try_from(parse_integer(inside)?).ok()
}

/// A token as we would have written it: a host or a server may spell a string with other escapes.
pub(super) fn plain(token: &[u8]) -> Cow<'_, [u8]> {
    if token.contains(&b'\\')
        && let Ok(text) = serde_json::from_slice::<String>(token)
    {
        return Cow::Owned(crate::core::stamp::quoted(&text).into_bytes());
    }
    Cow::Borrowed(token)
}

/// The text of a `resultType`, `Some` of something that is no type if it is not a string. A complete result is as one without.
fn result_type(text: Option<&[u8]>) -> Option<Cow<'_, str>> {
    let text = text?;
    if text == b"\"complete\"" {
        return None;
    }
    match text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")) {
        Some(plain) if !plain.contains(&b'\\') => Some(String::from_utf8_lossy(plain)),
        _ => Some(serde_json::from_slice::<String>(text).map_or(Cow::Borrowed("not a string"), Cow::Owned)),
    }
}

/// The id of ours that a `notifications/cancelled` of the server names.
fn cancelled_id(params: Option<&[u8]>) -> Option<u64> {
    let id = member(params?, "requestId")?.get().as_bytes();
    if id.starts_with(b"\"") { spelled(id) } else { u64::try_from(parse_integer(id)?).ok() }
}
