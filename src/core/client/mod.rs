//! The protocol client of one peer: requests with their deadlines, streams that survive a restart, and what is known of the
//! server. Rules R, T and S. It holds nothing of a connection; what it writes goes into the outbox it is handed, and what it
//! tells into the queue.

pub mod emulation;
pub mod handshake;
pub mod inbound;
pub mod known;
pub mod legacy;
pub mod loss;
pub mod methods;
pub mod wire;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use super::error::Refusal;
use super::event::{Answer, Fault, To, flag};
use super::log::Level;
use super::policy::ClientPolicy;
use super::requests::{Bound, Requests, Timeouts};
use super::stamp::{self, Meta, PROTOCOL_VERSION, Params, Stamp};
use super::time::{NEVER, Nanos, after, to_ms};
use crate::scan::{self, Checks};
use known::Known;
use legacy::Legacy;
pub use legacy::Reply;
use methods::{LISTEN, Method};
use wire::check_length;
pub use wire::{Direct, Out, Wire};

/// What a host may say of one request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Comes back with every event of the request.
    pub user_data: u64,
    /// Idle timeout; `None` is the peer's.
    pub idle: Option<Nanos>,
    /// Ceiling; `None` is the peer's.
    pub ceiling: Option<Nanos>,
    /// Mint a progress token.
    pub progress: bool,
    /// `_meta` is the host's own, nothing is stamped.
    pub meta_verbatim: bool,
}

/// The server has not answered anything yet: lines are kept, in case it wants another version.
const DOUBT_VERSION: u8 = 1;
/// The server of this life was not asked which era it speaks.
const DOUBT_ERA: u8 = 2;

/// Where a request or a stream is on its way to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The connection does not serve yet.
    Waits,
    /// A line of the present connection, by its number.
    Line(u64),
    /// Nowhere: the library answers it itself, for a server that does not know it.
    Here,
    /// Its connection is gone; the replacement gets it.
    Lost,
}

impl Place {
    /// The number of its line.
    fn line(self) -> Option<u64> {
        if let Self::Line(number) = self { Some(number) } else { None }
    }
}

/// What a request was made from, kept while it may have to be written again.
#[derive(Debug, Clone)]
struct Origin {
    method: String,
    params: Vec<u8>,
}

/// A request without its answer.
#[derive(Debug)]
struct Pending {
    user_data: u64,
    method: Method,
    place: Place,
    origin: Option<Box<Origin>>,
    /// Its progress token as JSON text.
    token: Option<Box<[u8]>>,
    token_minted: bool,
    verbatim: bool,
    is_continuation: bool,
    retried: bool,
    renegotiated: bool,
    timeouts: Timeouts,
}

/// An open stream.
#[derive(Debug)]
struct Stream {
    user_data: u64,
    filter: Vec<u8>,
    place: Place,
    acknowledged: bool,
    renegotiated: bool,
    /// A replacement got it.
    reopened: bool,
}

/// What waits for the connection to serve, in the order it was accepted.
#[derive(Debug)]
enum Waiting {
    Request { id: u64, bytes: usize },
    Stream { id: u64, bytes: usize },
    Notification(Vec<u8>),
}

/// The client of one peer.
#[derive(Debug)]
pub struct Client {
    policy: ClientPolicy,
    stamp: Stamp,
    next_id: u64,
    requests: Requests<Pending>,
    streams: BTreeMap<u64, Stream>,
    tokens: HashMap<Box<[u8]>, u64>,
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
    known: Option<Known>,
    stale: bool,
    /// What the first answer will tell: DOUBT_ bits.
    doubt: u8,
    /// The first answer of this life looked like one of a server of the other era.
    era_is_wrong: bool,
    /// Present while a server of an older revision is spoken to.
    legacy: Option<Box<Legacy>>,
    /// Numbers requests of servers.
    next_token: u64,
    /// The log line about ids that come back as strings was written for this connection.
    string_id_told: bool,
    /// Streams the server has cancelled: a result that follows is dropped in silence (S4).
    ended_by_peer: HashSet<u64>,
    /// Errors of acknowledged streams that may turn out to be the end of the process (S4).
    held: VecDeque<inbound::HeldError>,
    /// Streams that were not acknowledged yet, and when that is worth a warning.
    unacknowledged: VecDeque<(Nanos, u64)>,
    shed: u64,
    /// Numbers the library's own requests.
    own: u64,
}

impl Client {
    /// A client that has asked for nothing.
    pub fn new(policy: ClientPolicy) -> Self {
        let stamp = Self::make_stamp(&policy, PROTOCOL_VERSION);
        Self {
            policy,
            stamp,
            next_id: 1,
            requests: Requests::default(),
            streams: BTreeMap::new(),
            tokens: HashMap::new(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            known: None,
            stale: false,
            doubt: DOUBT_VERSION,
            era_is_wrong: false,
            legacy: None,
            next_token: 0,
            string_id_told: false,
            ended_by_peer: HashSet::new(),
            held: VecDeque::new(),
            unacknowledged: VecDeque::new(),
            shed: 0,
            own: 0,
        }
    }

    fn make_stamp(policy: &ClientPolicy, version: &str) -> Stamp {
        Stamp::new(version, policy.client_info.as_deref(), &policy.capabilities, policy.log_level.as_deref())
    }

    /// Requests and streams that have no completion yet.
    pub fn in_flight(&self) -> usize {
        self.requests.len() + self.streams.len()
    }

    /// Whether every table is empty.
    #[cfg(any(test, fuzzing))]
    pub fn holds_nothing(&self) -> bool {
        self.in_flight() == 0
            && self.tokens.is_empty()
            && (self.waiting.is_empty() && self.waiting_bytes == 0)
            && self.ended_by_peer.is_empty()
            && self.held.is_empty()
            && self.unacknowledged.is_empty()
            && self.session_is_empty()
    }

    /// What the server said of itself, and whether that was before a restart.
    pub fn known(&self) -> Option<(&Known, bool)> {
        self.known.as_ref().map(|known| (known, self.stale))
    }

    /// Whether the kept era may be wrong, which is asked once.
    pub fn take_wrong_era(&mut self) -> bool {
        std::mem::take(&mut self.era_is_wrong)
    }

    /// Whether requests have left more room here than a client without any needs.
    pub fn is_bulky(&self) -> bool {
        self.requests.is_bulky()
    }

    /// Lets go of that room, if nothing is in it.
    pub fn trim(&mut self) {
        self.requests.trim();
    }

    /// Whether a host that was refused for too many requests may go on.
    pub fn has_room(&self) -> bool {
        self.in_flight() <= self.policy.max_in_flight / 2
    }

    /// Bytes that wait for the connection to serve.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// A death signal was seen: errors that were held back were the end of the process (S4).
    pub fn died(&mut self) {
        self.held.clear();
    }

    /// Takes a request. Without a wire it waits until the connection serves.
    pub fn request(
        &mut self,
        wire: Option<&mut Wire<'_>>,
        now: Nanos,
        method: &str,
        params: &[u8],
        options: &Options,
        outbound_bytes: usize,
    ) -> Answer<u64> {
        let checked = Params::check(params).map_err(Refusal::Invalid)?;
        if method.is_empty() {
            return Err(Refusal::invalid("the method is empty"));
        }
        if method == LISTEN {
            return Err(Refusal::invalid(
                "subscriptions/listen is opened with mcp_supervised_listen, which keeps it open",
            ));
        }
        let kind = Method::of(method);
        self.gate(method, kind)?;
        // Two spellings of one text are one token.
        let given = checked.token.map(inbound::plain);
        let token: Option<Box<[u8]>> = match given.as_deref() {
            Some(token) if options.progress => {
                return Err(Refusal::invalid(format!(
                    "params has a progressToken ({}) and another one is asked for by the PROGRESS flag",
                    String::from_utf8_lossy(token)
                )));
            }
            Some(token) if self.tokens.contains_key(token) => {
                return Err(Refusal::invalid(format!(
                    "the progressToken {} belongs to another request that is under way",
                    String::from_utf8_lossy(token)
                )));
            }
            Some(token) => Some(token.into()),
            None if options.progress => Some(self.mint_token()),
            None => None,
        };
        let id = self.next_id;
        let meta = self.meta(options, token.as_deref());
        let bytes = stamp::room_for(method, &checked, meta);
        let build = |line: &mut Vec<u8>| stamp::push_request(line, id, method, &checked, meta);
        let place = match wire {
            Some(wire) if kind.is_discover && self.legacy.is_some() => {
                self.check_room(wire.owes_writable)?;
                self.answers_itself(id)
            }
            Some(wire) => Place::Line(wire.push_within("the request is", bytes, build, |owes| self.check_room(owes))?),
            None => {
                let mut line = Vec::with_capacity(bytes);
                build(&mut line).map_err(Refusal::Invalid)?;
                check_length("the request is", line.len(), outbound_bytes)?;
                self.check_room(&mut false)?;
                self.wait(Waiting::Request { id, bytes: line.len() }, line.len(), outbound_bytes)?;
                Place::Waits
            }
        };
        self.next_id += 1;
        let timeouts = Timeouts {
            idle: options.idle.unwrap_or(self.policy.idle_timeout),
            ceiling: options.ceiling.unwrap_or(self.policy.max_timeout),
        }
        .raised();
        let keeps = place == Place::Waits || self.doubt & DOUBT_VERSION != 0 || (self.policy.retry && kind.reads_only);
        let origin = keeps.then(|| Box::new(Origin { method: method.to_owned(), params: params.to_vec() }));
        if let Some(token) = &token {
            self.tokens.insert(token.clone(), id);
        }
        let pending = Pending {
            user_data: options.user_data,
            method: kind,
            place,
            origin,
            token_minted: options.progress,
            token,
            verbatim: options.meta_verbatim,
            is_continuation: checked.is_continuation,
            retried: false,
            renegotiated: false,
            timeouts,
        };
        self.requests.insert(id, pending, now, timeouts);
        Ok(id)
    }

    /// Opens a stream. `filter` is the object of wanted notifications.
    pub fn listen(
        &mut self,
        wire: Option<&mut Wire<'_>>,
        now: Nanos,
        filter: &[u8],
        user_data: u64,
        outbound_bytes: usize,
    ) -> Answer<u64> {
        let id = self.next_id;
        Params::check(filter).map_err(|text| Refusal::Invalid(text.replacen("params", "the filter", 1)))?;
        let line = self.listen_line(id, filter).map_err(Refusal::Invalid)?;
        let build = |into: &mut Vec<u8>| {
            into.extend_from_slice(&line);
            Ok(())
        };
        let place = match wire {
            Some(wire) => {
                if self.legacy.is_some() {
                    self.check_room(wire.owes_writable)?;
                    self.subscribe(wire, id, filter, true)?
                } else {
                    Place::Line(wire.push_within("the filter makes", line.len(), build, |owes| self.check_room(owes))?)
                }
            }
            None => {
                check_length("the filter makes", line.len(), outbound_bytes)?;
                self.check_room(&mut false)?;
                self.wait(Waiting::Stream { id, bytes: line.len() }, line.len(), outbound_bytes)?;
                Place::Waits
            }
        };
        self.next_id += 1;
        let stream = Stream {
            user_data,
            filter: filter.to_vec(),
            place,
            acknowledged: false,
            renegotiated: false,
            reopened: false,
        };
        self.streams.insert(id, stream);
        if place != Place::Waits {
            self.await_acknowledgement(now, id);
        }
        Ok(id)
    }

    /// Sends a notification of the host's.
    pub fn notify(
        &mut self,
        wire: Option<&mut Wire<'_>>,
        method: &str,
        params: &[u8],
        outbound_bytes: usize,
    ) -> Answer {
        let checked = Params::check(params).map_err(Refusal::Invalid)?;
        if method.is_empty() {
            return Err(Refusal::invalid("the method is empty"));
        }
        let bytes = stamp::room_for(method, &checked, Meta::Verbatim);
        let build = |line: &mut Vec<u8>| stamp::push_notification(line, method, &checked);
        match wire {
            Some(wire) => wire.push_within("the notification is", bytes, build, |_| Ok(())).map(|_| ()),
            None => {
                let mut line = Vec::with_capacity(bytes);
                build(&mut line).map_err(Refusal::Invalid)?;
                check_length("the notification is", line.len(), outbound_bytes)?;
                let bytes = line.len();
                self.wait(Waiting::Notification(line), bytes, outbound_bytes)
            }
        }
    }

    /// Ends a request or a stream for the host. `wire` is there while the server can be told.
    pub fn cancel(&mut self, wire: Option<&mut Wire<'_>>, out: &mut Out<'_>, id: u64, reason: &str) -> Answer {
        let (to, place) = if let Some(pending) = self.forget(id) {
            (To { request: id, user_data: pending.user_data, flags: self.retried(&pending) }, pending.place)
        } else if let Some(stream) = self.forget_stream(id) {
            (To { request: id, user_data: stream.user_data, flags: 0 }, stream.place)
        } else {
            return Err(Refusal::NoRequest);
        };
        self.tell_cancelled(wire, id, place, reason);
        out.fail(to, Fault::Cancelled, "cancelled by the host");
        Ok(())
    }

    /// The earliest moment at which `tick` does something.
    pub fn next_deadline(&self) -> Option<Nanos> {
        let held = self.held.front().map(|held| held.at);
        let unacknowledged = self.unacknowledged.front().map(|(at, _)| *at);
        [self.requests.next_deadline(), held, unacknowledged].into_iter().flatten().filter(|at| *at != NEVER).min()
    }

    /// Whether a request's deadline passed at `now`: before it is judged, what the server wrote is read (R4).
    pub fn judges(&self, now: Nanos) -> bool {
        self.requests.next_deadline().is_some_and(|at| at <= now)
    }

    /// Ends what is overdue.
    pub fn tick(&mut self, wire: Option<&mut Wire<'_>>, out: &mut Out<'_>, now: Nanos) {
        let mut overdue = Vec::new();
        for (id, bound) in self.requests.all_due(now) {
            let Some(pending) = self.forget(id) else { continue };
            let (name, timeout) = match bound {
                Bound::Idle => ("idle timeout", pending.timeouts.idle),
                Bound::Ceiling => ("ceiling", pending.timeouts.ceiling),
            };
            overdue.push((id, pending.place));
            let to = To { request: id, user_data: pending.user_data, flags: self.retried(&pending) };
            out.fail(to, Fault::Timeout, format!("no answer within the {name} of {} ms", to_ms(timeout)));
        }
        self.tell_all_cancelled(wire, &overdue, "the request timed out");
        self.judge_held(out, now);
        while self.unacknowledged.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, id)) = self.unacknowledged.pop_front() else { break };
            out.log(Level::Warning, format!("stream {id} was not acknowledged by the server"));
        }
    }

    /// R7 for a line that the host wrote itself, which was checked before.
    pub fn gate_line(&self, line: &[u8]) -> Answer {
        if self.known.is_none() || self.stale {
            return Ok(());
        }
        let Ok(envelope) = scan::scan(line.trim_ascii(), Checks::Structure) else { return Ok(()) };
        let (Some(method), Some(_)) = (envelope.method, envelope.id_span) else { return Ok(()) };
        let quoted = [b"\"", method.of(line), b"\""].concat();
        let method: String = serde_json::from_slice(&quoted).unwrap_or_default();
        self.gate(&method, Method::of(&method))
    }

    fn gate(&self, method: &str, kind: Method) -> Answer {
        match (&self.known, kind.needs) {
            (Some(known), Some(capability)) if !self.stale && !known.has(capability) => {
                Err(Refusal::Lacks { method: method.to_owned(), capability: capability.key() })
            }
            _ => Ok(()),
        }
    }

    fn check_room(&self, owes_writable: &mut bool) -> Answer {
        if self.in_flight() < self.policy.max_in_flight {
            return Ok(());
        }
        *owes_writable = true;
        Err(Refusal::TooMany { limit: self.policy.max_in_flight })
    }

    fn wait(&mut self, what: Waiting, bytes: usize, limit: usize) -> Answer {
        if self.waiting_bytes + bytes > limit {
            return Err(Refusal::WouldBlock { queued: self.waiting_bytes, limit, line: bytes });
        }
        self.waiting_bytes += bytes;
        self.waiting.push(what);
        Ok(())
    }

    fn meta<'a>(&'a self, options: &Options, token: Option<&'a [u8]>) -> Meta<'a> {
        if self.legacy.is_some() {
            return Self::plain_meta(options.progress, token);
        }
        if options.meta_verbatim && !options.progress {
            return Meta::Verbatim;
        }
        let minted = token.filter(|_| options.progress).and_then(|token| std::str::from_utf8(token).ok());
        Meta::Stamped { stamp: &self.stamp, token: minted }
    }

    /// A token that no request under way has: its number is that of the request, unless a host has chosen just that text.
    fn mint_token(&self) -> Box<[u8]> {
        let mut number = self.next_id;
        loop {
            let token = format!("\"progress-{number}\"").into_bytes().into_boxed_slice();
            if !self.tokens.contains_key(&token) {
                return token;
            }
            number += 1;
        }
    }

    fn listen_line(&self, id: u64, filter: &[u8]) -> Result<Vec<u8>, String> {
        let filter = if filter.trim_ascii().is_empty() { b"{}" } else { filter };
        let params = [b"{\"notifications\":", filter, b"}"].concat();
        let checked = Params::check(&params)?;
        stamp::request_line(id, LISTEN, &checked, Meta::Stamped { stamp: &self.stamp, token: None })
    }

    /// The line of a pending request, as it was or as it would be stamped now.
    fn line_again(&self, id: u64, pending: &Pending) -> Option<Vec<u8>> {
        let origin = pending.origin.as_deref()?;
        let params = Params::check(&origin.params).ok()?;
        let meta = if self.legacy.is_some() {
            Self::plain_meta(pending.token_minted, pending.token.as_deref())
        } else if pending.verbatim {
            Meta::Verbatim
        } else {
            let token = pending.token.as_deref().filter(|_| pending.token_minted);
            Meta::Stamped { stamp: &self.stamp, token: token.and_then(|token| std::str::from_utf8(token).ok()) }
        };
        stamp::request_line(id, &origin.method, &params, meta).ok()
    }

    /// Takes a request out, with its token.
    fn forget(&mut self, id: u64) -> Option<Pending> {
        let pending = self.requests.remove(id)?;
        if let Some(token) = &pending.token {
            self.tokens.remove(token);
        }
        Some(pending)
    }

    fn forget_stream(&mut self, id: u64) -> Option<Stream> {
        let stream = self.streams.remove(&id)?;
        self.forget_wants(id);
        self.held.retain(|held| held.stream != id);
        self.unacknowledged.retain(|(_, stream)| *stream != id);
        Some(stream)
    }

    fn retried(&self, pending: &Pending) -> u32 {
        if pending.retried { flag::RETRIED } else { 0 }
    }

    fn await_acknowledgement(&mut self, now: Nanos, id: u64) {
        let at = after(now, self.policy.idle_timeout);
        if at != NEVER {
            self.unacknowledged.push_back((at, id));
        }
    }

    fn tell_cancelled(&mut self, wire: Option<&mut Wire<'_>>, id: u64, place: Place, reason: &str) {
        self.tell_all_cancelled(wire, &[(id, place)], reason);
    }

    /// R3: the server is told only of what it may have read a byte of; what still waits is taken out of the queue.
    fn tell_all_cancelled(&mut self, wire: Option<&mut Wire<'_>>, ended: &[(u64, Place)], reason: &str) {
        let mut waited: Vec<u64> =
            ended.iter().filter(|(_, place)| *place == Place::Waits).map(|(id, _)| *id).collect();
        if !waited.is_empty() {
            waited.sort_unstable();
            let waiting_bytes = &mut self.waiting_bytes;
            self.waiting.retain(|waiting| match waiting {
                Waiting::Request { id, bytes } | Waiting::Stream { id, bytes } if waited.binary_search(id).is_ok() => {
                    *waiting_bytes -= bytes;
                    false
                }
                _ => true,
            });
        }
        let Some(wire) = wire else { return };
        let mut begun: Vec<u64> = ended.iter().filter_map(|(_, place)| place.line()).collect();
        begun.sort_unstable();
        wire.outbox.take_back_all(&mut begun);
        for (id, place) in ended {
            match place {
                Place::Line(number) if !wire.quiet && begun.binary_search(number).is_ok() => {
                    wire.push(stamp::cancel_line(*id, reason));
                }
                Place::Here => self.unsubscribe(wire),
                Place::Line(_) | Place::Waits | Place::Lost => {}
            }
        }
    }
}
