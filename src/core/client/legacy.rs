//! A server of an older revision: the streams it does not know, made of its resource subscriptions and its unasked notifications
//! (Z3), and the requests of the library's own that this takes. One of these exists while such a server is spoken to, and nothing
//! of it outlives the connection but the streams' ids.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::asked::FIRST_TOKEN;
use super::emulation::{self, KINDS};
use super::handshake::Answered;
use super::inbound::{Inbound, Moment, tell};
use super::known::Known;
use super::{Client, Out, Place, Wire};
use crate::core::era::{Revision, Spoken};
use crate::core::error::Refusal;
use crate::core::event::{Answer, Event, Fault, To, flag};
use crate::core::message::MessageKind;
use crate::core::stamp::{Meta, each_pair, quoted, text_member};
use crate::scan::unescape_eq;

/// The longest error of a server that is kept until its stream ends with it.
const ERROR_BYTES: usize = 64 << 10;

/// A resource that streams want to hear of.
#[derive(Debug)]
struct Subscription {
    streams: BTreeSet<u64>,
    /// The own request that asks for it and its line, until it is answered.
    asked: Option<(u64, u64)>,
}

/// What a stream wants of this server, and has of it so far.
#[derive(Debug, Default)]
struct Wants {
    kinds: [bool; 3],
    uris: BTreeMap<String, bool>,
    /// URIs whose answer is awaited.
    awaits: usize,
    /// What the server refused one with.
    error: Option<String>,
}

/// The state of one connection to a server of an older revision.
#[derive(Debug)]
pub struct Legacy {
    revision: Revision,
    /// Which lists it tells changes of, and whether it takes subscriptions.
    kinds: [bool; 3],
    subscribes: bool,
    /// The library's own requests that ask for a resource.
    own: HashMap<u64, String>,
    /// Those of its requests on whose answers nothing depends.
    others: HashSet<u64>,
    /// Ordered, since a look-up compares no more than it has to, however long a URI a server makes up.
    subscriptions: BTreeMap<String, Subscription>,
    /// The length of the longest URI that was subscribed.
    longest: usize,
    streams: BTreeMap<u64, Wants>,
    /// URIs nobody wants any more, and which the server is not told of yet.
    left: Vec<String>,
    /// Requests of the server that wait for the host: the raw text of their ids.
    pub(super) asked: BTreeMap<u64, Box<[u8]>>,
    /// The same by the ids as they are spelled plainly, for requests that the server takes back.
    pub(super) asked_ids: BTreeSet<(Box<[u8]>, u64)>,
    /// Older tokens belong to connections that are gone.
    pub(super) first_token: u64,
    /// What the library answers itself as soon as it may be told: discovers and acknowledgements.
    due: Vec<u64>,
    pub(super) refusals: u64,
}

impl Legacy {
    /// Whether something is to be told that waits for nothing any more.
    pub fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Takes a stream out; URIs that nobody else wants are to be let go of.
    fn forget(&mut self, stream: u64) {
        self.due.retain(|due| *due != stream);
        let Some(wants) = self.streams.remove(&stream) else { return };
        for uri in wants.uris.into_keys() {
            if let Some(subscription) = self.subscriptions.get_mut(&uri) {
                subscription.streams.remove(&stream);
                if subscription.streams.is_empty() {
                    self.left.push(uri);
                }
            }
        }
    }
}

impl Client {
    /// The handshake is over: the session is open in `revision`, and the server said `known` of itself. Says whether that is
    /// something else than before.
    pub fn speaks_legacy(&mut self, wire: &mut Wire<'_>, revision: Revision, known: Known) -> bool {
        wire.push(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n".to_vec());
        self.next_token = self.next_token.max(FIRST_TOKEN);
        self.legacy = Some(Box::new(Legacy {
            revision,
            kinds: KINDS.map(|kind| known.declares(kind.capability, Some("listChanged"))),
            subscribes: known.declares("resources", Some("subscribe")),
            own: HashMap::new(),
            others: HashSet::new(),
            subscriptions: BTreeMap::new(),
            longest: 0,
            streams: BTreeMap::new(),
            left: Vec::new(),
            asked: BTreeMap::new(),
            asked_ids: BTreeSet::new(),
            first_token: self.next_token,
            due: Vec::new(),
            refusals: 0,
        }));
        if let Some(level) = self.policy.log_level.clone().filter(|_| known.declares("logging", None)) {
            let (own, _) = self.ask(wire, "logging/setLevel", &format!("{{\"level\":{}}}", quoted(&level)));
            self.nobody_waits_for(own);
        }
        self.learn(known)
    }

    /// What is spoken, as far as the client knows.
    pub fn spoken(&self) -> Spoken {
        self.legacy.as_ref().map_or(Spoken::Modern, |legacy| Spoken::Legacy(legacy.revision))
    }

    /// Writes a request of the library's own; its number and that of its line.
    fn ask(&mut self, wire: &mut Wire<'_>, method: &str, params: &str) -> (u64, u64) {
        let id = quoted(&self.own_id());
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n");
        let number = wire.push(line.into_bytes());
        (self.own, number)
    }

    /// The `_meta` of a request to such a server: what the host gave, and a token.
    pub(super) fn plain_meta(minted: bool, token: Option<&[u8]>) -> Meta<'_> {
        match token.filter(|_| minted).and_then(|token| std::str::from_utf8(token).ok()) {
            Some(token) => Meta::Plain { token },
            None => Meta::Verbatim,
        }
    }

    /// Notes that the library answers a request, or acknowledges a stream, by itself.
    pub(super) fn answers_itself(&mut self, id: u64) -> Place {
        if let Some(legacy) = &mut self.legacy {
            legacy.due.push(id);
        }
        Place::Here
    }

    /// Whether `speak_up` has something to tell.
    pub fn has_due(&self) -> bool {
        self.legacy.as_deref().is_some_and(Legacy::has_due)
    }

    /// Tells what the library answers by itself. Nothing of a connection may be told before READY or RECONNECT is, so this is not
    /// done where it comes up.
    pub fn speak_up(&mut self, out: &mut Out<'_>) {
        let due = self.legacy.as_deref_mut().map(|legacy| std::mem::take(&mut legacy.due)).unwrap_or_default();
        for id in due {
            if let Some(pending) = self.forget(id) {
                let flags = flag::COMPLETE | flag::EMULATED | self.retried(&pending);
                let to = To { request: id, user_data: pending.user_data, flags };
                let known = self.known.clone().unwrap_or_default();
                push_made(out, MessageKind::Result, emulation::discovered(id, &known), to);
            } else if self.streams.contains_key(&id) {
                self.acknowledge(out, id);
            }
        }
    }

    // ---- streams ----

    /// Opens a stream on such a server: subscriptions for its URIs. `within` is the bound of what may be queued, for a stream
    /// that the host opens now.
    pub(super) fn subscribe(&mut self, wire: &mut Wire<'_>, id: u64, filter: &[u8], within: bool) -> Answer<Place> {
        self.unsubscribe(wire);
        let Some(legacy) = self.legacy.as_deref_mut() else { return Ok(Place::Here) };
        let mut wants = Wants::default();
        let mut asks = 0;
        // It was checked to be an object. What is not as it should be is not accepted, as a server would do it.
        let _ = each_pair(filter, |key, value| {
            for (at, kind) in KINDS.iter().enumerate() {
                wants.kinds[at] |= key == kind.field && value.get() == "true" && legacy.kinds[at];
            }
            if key == "resourceSubscriptions" && legacy.subscribes {
                let uris: Vec<String> = serde_json::from_str(value.get()).unwrap_or_default();
                wants.uris.extend(uris.into_iter().map(|uri| (uri, false)));
            }
        });
        for uri in wants.uris.keys().filter(|uri| !legacy.subscriptions.contains_key(*uri)) {
            asks += uri.len() + 128;
        }
        if within && asks > wire.limit {
            let text = format!("the filter makes lines of {asks} bytes; outbound_bytes is {}", wire.limit);
            return Err(Refusal::Invalid(text));
        }
        if within && wire.outbox.queued() + asks > wire.limit {
            *wire.owes_writable = true;
            return Err(Refusal::WouldBlock { queued: wire.outbox.queued(), limit: wire.limit, line: asks });
        }
        let uris: Vec<String> = wants.uris.keys().cloned().collect();
        for uri in uris {
            let known = self.legacy.as_deref_mut().and_then(|legacy| legacy.subscriptions.get_mut(&uri));
            let waits = match known {
                Some(subscription) => {
                    subscription.streams.insert(id);
                    subscription.asked.is_some()
                }
                None => {
                    let params = format!("{{\"uri\":{}}}", quoted(&uri));
                    let asked = self.ask(wire, "resources/subscribe", &params);
                    let subscription = Subscription { streams: BTreeSet::from([id]), asked: Some(asked) };
                    if let Some(legacy) = &mut self.legacy {
                        legacy.longest = legacy.longest.max(uri.len());
                        legacy.own.insert(asked.0, uri.clone());
                        legacy.subscriptions.insert(uri.clone(), subscription);
                    }
                    true
                }
            };
            wants.awaits += usize::from(waits);
            if !waits {
                wants.uris.insert(uri, true);
            }
        }
        let is_due = wants.awaits == 0;
        if let Some(legacy) = &mut self.legacy {
            legacy.streams.insert(id, wants);
        }
        if is_due {
            self.answers_itself(id);
        }
        Ok(Place::Here)
    }

    /// Tells the server of what nobody wants to hear of any more.
    pub(super) fn unsubscribe(&mut self, wire: &mut Wire<'_>) {
        let Some(legacy) = self.legacy.as_deref_mut().filter(|legacy| !legacy.left.is_empty()) else { return };
        let mut gone = Vec::new();
        for uri in std::mem::take(&mut legacy.left) {
            if let Some(subscription) = legacy.subscriptions.remove(&uri) {
                gone.push((uri, subscription.asked));
            }
        }
        // One pass for all of them: a stream may have had a great many.
        let mut begun: Vec<u64> = gone.iter().filter_map(|(_, asked)| asked.map(|(_, line)| line)).collect();
        begun.sort_unstable();
        wire.outbox.take_back_all(&mut begun);
        for (uri, asked) in gone {
            if let Some((own, line)) = asked {
                // Its answer is nobody's any more, if there will be one at all.
                if let Some(legacy) = self.legacy.as_deref_mut() {
                    legacy.own.remove(&own);
                }
                if begun.binary_search(&line).is_err() {
                    continue;
                }
                self.nobody_waits_for(own);
            }
            if !wire.quiet {
                let (own, _) = self.ask(wire, "resources/unsubscribe", &format!("{{\"uri\":{}}}", quoted(&uri)));
                self.nobody_waits_for(own);
            }
        }
    }

    /// Notes a request of the library's own on whose answer nothing depends. A server that never answers them must not make
    /// this grow: past the bound a late answer is logged instead.
    fn nobody_waits_for(&mut self, own: u64) {
        let Some(legacy) = self.legacy.as_deref_mut() else { return };
        if legacy.others.len() >= self.policy.max_in_flight {
            legacy.others.clear();
        }
        legacy.others.insert(own);
    }

    /// Forgets what a stream had of such a server.
    pub(super) fn forget_wants(&mut self, id: u64) {
        if let Some(legacy) = &mut self.legacy {
            legacy.forget(id);
        }
    }

    /// The answer to a request of the library's own. Says whether it was one.
    pub(super) fn own_answered(&mut self, out: &mut Out<'_>, answered: Answered<'_>, own: u64) -> bool {
        let Some(legacy) = self.legacy.as_deref_mut() else { return false };
        let Some(uri) = legacy.own.remove(&own) else { return legacy.others.remove(&own) };
        let Some(subscription) = legacy.subscriptions.get_mut(&uri) else { return true };
        subscription.asked = None;
        let error = match answered {
            Answered::Result(_) => None,
            Answered::Error(_, body) if body.len() <= ERROR_BYTES => Some(String::from_utf8_lossy(body).into_owned()),
            Answered::Error(code, _) => Some(format!("{{\"code\":{code},\"message\":\"\"}}")),
            Answered::Nonsense => Some("{\"code\":0,\"message\":\"\"}".to_owned()),
        };
        let streams = match &error {
            None => subscription.streams.clone(),
            // The next stream that wants it asks again.
            Some(_) => legacy.subscriptions.remove(&uri).map(|gone| gone.streams).unwrap_or_default(),
        };
        let mut told = Vec::new();
        for id in streams {
            let Some(wants) = legacy.streams.get_mut(&id) else { continue };
            wants.awaits = wants.awaits.saturating_sub(1);
            match &error {
                None => {
                    wants.uris.insert(uri.clone(), true);
                }
                Some(error) => {
                    wants.uris.remove(&uri);
                    wants.error = Some(error.clone());
                }
            }
            if wants.awaits == 0 {
                told.push(id);
            }
        }
        for id in told {
            self.acknowledge(out, id);
        }
        true
    }

    /// Every answer a stream waited for has come: it is acknowledged, or ends with the server's error if nothing is left of it.
    fn acknowledge(&mut self, out: &mut Out<'_>, id: u64) {
        let Some(wants) = self.legacy.as_deref().and_then(|legacy| legacy.streams.get(&id)) else { return };
        let uris: Vec<&str> = wants.uris.iter().filter(|(_, on)| **on).map(|(uri, _)| uri.as_str()).collect();
        let nothing = uris.is_empty() && wants.kinds == [false; 3];
        if let Some(error) = wants.error.as_ref().filter(|_| nothing) {
            let line = emulation::refused(id, error);
            let Some(stream) = self.forget_stream(id) else { return };
            let to = To { request: id, user_data: stream.user_data, flags: flag::COMPLETE | flag::EMULATED };
            return push_made(out, MessageKind::RemoteError, line, to);
        }
        let line = emulation::acknowledged(id, wants.kinds, &uris);
        if let Some(wants) = self.legacy.as_deref_mut().and_then(|legacy| legacy.streams.get_mut(&id)) {
            // It ended nothing, so nobody needs it any more.
            wants.error = None;
        }
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.acknowledged = true;
        self.unacknowledged.retain(|(_, stream)| *stream != id);
        let to = To { request: id, user_data: stream.user_data, flags: flag::EMULATED };
        push_made(out, MessageKind::Notification, line, to);
    }

    /// A notification of such a server: it goes to every stream that asked for its kind. Nothing of it tells which (Z3).
    pub(super) fn legacy_notification(&mut self, moment: &mut Moment<'_, '_>, out: &mut Out<'_>, message: Inbound<'_>) {
        let line = message.frame.bytes();
        let method = message.parts.method.map_or(&b""[..], |span| span.of(line));
        let is = |name: &str| method == name.as_bytes() || unescape_eq(method, name);
        let params = message.parts.body.map_or(&b"{}"[..], |span| span.of(line));
        if is("notifications/cancelled") {
            let to = To { request: self.taken_back(params).unwrap_or(0), ..To::default() };
            return tell(out, message, to);
        }
        let streams: Vec<u64> = if let Some(kind) = KINDS.iter().position(|kind| is(kind.notification)) {
            self.streams_with(|wants| wants.kinds[kind])
        } else if is("notifications/resources/updated") {
            let uri = text_member(params, "uri").unwrap_or_default();
            self.streams_of(&uri)
        } else {
            Vec::new()
        };
        if streams.is_empty() {
            return if moment.shed {
                self.count_shed(out, "a notification")
            } else {
                tell(out, message, To::default())
            };
        }
        for id in streams {
            if moment.shed {
                let user_data = self.forget_stream(id).map_or(0, |stream| stream.user_data);
                if let Some(wire) = moment.wire.as_deref_mut() {
                    self.unsubscribe(wire);
                }
                self.count_shed(out, "a delivery of a stream, which ends with it");
                let to = To { request: id, user_data, flags: 0 };
                out.fail(to, Fault::DeliveryDropped, "the host did not keep up with the stream");
                continue;
            }
            let user_data = self.streams.get(&id).map_or(0, |stream| stream.user_data);
            let (kind, parts, frame) = (message.kind, message.parts, message.frame.clone());
            let to = To { request: id, user_data, flags: 0 };
            out.queue.push_counted(Event::Message { kind, parts, frame, to });
        }
    }

    /// The acknowledged streams that want to hear of a resource, in the order of opening.
    fn streams_of(&self, uri: &str) -> Vec<u64> {
        let Some(legacy) = self.legacy.as_deref() else { return Vec::new() };
        let mut all = BTreeSet::new();
        for wanted in covering(uri, legacy.longest) {
            if let Some(subscription) = legacy.subscriptions.get(wanted) {
                all.extend(subscription.streams.iter().copied());
            }
        }
        all.into_iter().filter(|id| self.streams.get(id).is_some_and(|stream| stream.acknowledged)).collect()
    }

    /// The acknowledged streams with such wants, in the order of opening.
    fn streams_with(&self, wanted: impl Fn(&Wants) -> bool) -> Vec<u64> {
        let Some(legacy) = self.legacy.as_deref() else { return Vec::new() };
        let all = legacy.streams.iter().filter(|(_, wants)| wanted(wants)).map(|(id, _)| *id);
        all.filter(|id| self.streams.get(id).is_some_and(|stream| stream.acknowledged)).collect()
    }

    // ---- the end of the connection ----

    /// The connection is over: what was only of it is gone. Streams keep what they want in their filters.
    pub(super) fn lose_session(&mut self) {
        let given = self.next_token;
        if let Some(legacy) = &mut self.legacy {
            legacy.own.clear();
            legacy.others.clear();
            legacy.subscriptions.clear();
            legacy.streams.clear();
            legacy.left.clear();
            legacy.asked.clear();
            legacy.asked_ids.clear();
            legacy.due.clear();
            legacy.first_token = given;
        }
    }

    /// Requests of the library's own whose answers nobody waits for.
    #[cfg(any(test, fuzzing))]
    pub fn owed_to_nobody(&self) -> usize {
        self.legacy.as_deref().map_or(0, |legacy| legacy.own.len() + legacy.others.len() - legacy.subscriptions.len())
    }

    /// Whether nothing is held for anybody.
    #[cfg(any(test, fuzzing))]
    pub(super) fn session_is_empty(&self) -> bool {
        self.legacy.as_deref().is_none_or(|legacy| {
            legacy.subscriptions.is_empty()
                && legacy.streams.is_empty()
                && legacy.left.is_empty()
                && legacy.asked.is_empty()
                && legacy.asked_ids.is_empty()
                && legacy.due.is_empty()
        })
    }
}

/// What an update of `uri` can be for, up to a length: a server may name a part of what was subscribed. Looking each of these up
/// takes the same time however many resources are wanted.
fn covering(uri: &str, longest: usize) -> impl Iterator<Item = &str> {
    let parts = uri.bytes().enumerate().take(longest.saturating_add(1)).flat_map(|(at, byte)| {
        let before = matches!(byte, b'/' | b'#' | b'?').then(|| &uri[..at]);
        let with = (byte == b'/' && at + 1 < uri.len()).then(|| &uri[..=at]);
        before.into_iter().chain(with)
    });
    std::iter::once(uri).chain(parts)
}

fn push_made(out: &mut Out<'_>, kind: MessageKind, line: String, to: To) {
    let (parts, frame) = emulation::made(kind, line);
    out.queue.push(Event::Message { kind, parts, frame, to });
}

#[cfg(test)]
mod tests {
    use super::covering;

    #[test]
    fn z03_an_update_may_name_a_part_of_what_was_subscribed() {
        for (wanted, uri, is) in [
            ("mem://a", "mem://a", true),
            ("mem://a", "mem://a/b", true),
            ("mem://a", "mem://a#b", true),
            ("mem://a/", "mem://a/b", true),
            ("mem://a", "mem://ab", false),
            ("mem://a/b", "mem://a", false),
            ("mem://a", "", false),
            ("mem://a", "mem://a/", true),
            ("mem://a/", "mem://a/", true),
            ("mem://a/", "mem://a", false),
            ("mem://ä", "mem://ä?x/b#c", true),
            ("mem://ä?x", "mem://ä?x/b#c", true),
            ("mem://ä?x/", "mem://ä?x/b#c", true),
            ("mem://ä?x/b", "mem://ä?x/b#c", true),
            ("mem://ä?", "mem://ä?x/b#c", false),
            ("", "/a", true),
            ("", "a", false),
        ] {
            assert_eq!(covering(uri, wanted.len()).any(|part| part == wanted), is, "{wanted} {uri}");
        }
    }
}
