//! The bench for the protocol client: a rig, and a server that reads what was really written to its stdin.
//!
//! Written lines become `#3 tools/list`, `mcp-supervised-1 server/discover`, `cancel 3`, `note a`.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use serde_json::{Value, json};

use super::harness::{Rig, policy, render, short};
use super::record::Recorder;
use crate::core::client::Options;
use crate::core::event::{Event, flag};
use crate::core::log::Level;
use crate::core::outbox::no_slices;
use crate::core::policy::{ClientPolicy, Policy};
use crate::core::supervisor::Told;
use crate::core::time::Nanos;

/// The key by which a server says which stream a notification belongs to.
pub const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A policy with retry.
pub fn retrying() -> Policy {
    with_client(|client| client.retry = true)
}

/// A policy whose client differs in something.
pub fn with_client(change: impl FnOnce(&mut ClientPolicy)) -> Policy {
    let mut policy = policy();
    change(&mut policy.client);
    policy
}

/// The driver. What is not here is the rig's.
pub struct Caller {
    rig: Rig,
    /// The life whose lines are read, and its last line as far as it was written.
    life: u32,
    part: Vec<u8>,
    lines: Vec<String>,
    recorder: Recorder,
    next_id: u64,
    completed: BTreeSet<u64>,
}

impl Deref for Caller {
    type Target = Rig;
    fn deref(&self) -> &Rig {
        &self.rig
    }
}

impl DerefMut for Caller {
    fn deref_mut(&mut self) -> &mut Rig {
        &mut self.rig
    }
}

impl Caller {
    /// One peer, started, without log lines of the library.
    pub fn started(policy: Policy) -> Self {
        Self::with(policy, Level::Server)
    }

    /// The same with all log lines.
    pub fn logging(policy: Policy) -> Self {
        Self::with(policy, Level::Info)
    }

    fn with(policy: Policy, level: Level) -> Self {
        let mut caller = Self::idle(policy, level);
        caller.start();
        caller
    }

    /// One peer that was not started.
    pub fn idle(policy: Policy, level: Level) -> Self {
        let recorder = Recorder::of(policy.mode);
        Self {
            rig: Rig::with(&[policy], level),
            life: 0,
            part: Vec::new(),
            lines: Vec::new(),
            recorder,
            next_id: 1,
            completed: BTreeSet::new(),
        }
    }

    // ---- the host ----

    /// A request that is accepted.
    pub fn call(&mut self, method: &str) -> u64 {
        self.ask(method, "{}").unwrap()
    }

    /// A request with params.
    pub fn ask(&mut self, method: &str, params: &str) -> Result<u64, &'static str> {
        self.ask_with(method, params, Options::default())
    }

    /// A request with its own times.
    pub fn ask_timed(&mut self, method: &str, idle: Option<Nanos>, ceiling: Option<Nanos>) -> u64 {
        self.ask_with(method, "{}", Options { idle, ceiling, ..Options::default() }).unwrap()
    }

    pub fn ask_with(&mut self, method: &str, params: &str, options: Options) -> Result<u64, &'static str> {
        let (now, id) = (self.now, self.id());
        let options = Options { user_data: user_data(self.next_id), ..options };
        if options.meta_verbatim {
            self.recorder.is_verbatim(self.next_id);
        }
        let answer = self.sup.request(now, id, method, params.as_bytes(), &options);
        self.accepted(answer)
    }

    /// A stream that is accepted.
    pub fn listen(&mut self) -> u64 {
        self.try_listen().unwrap()
    }

    pub fn try_listen(&mut self) -> Result<u64, &'static str> {
        let (now, id, data) = (self.now, self.id(), user_data(self.next_id));
        let answer = self.sup.listen(now, id, br#"{"toolsListChanged":true}"#, data);
        self.accepted(answer)
    }

    fn accepted(&mut self, answer: crate::core::event::Answer<u64>) -> Result<u64, &'static str> {
        self.act();
        if let Ok(id) = answer {
            // R1: 1, 2, ... through all lives; what is refused takes none.
            assert_eq!(id, self.next_id);
            self.next_id += 1;
        }
        answer.map_err(|refusal| short(&refusal))
    }

    pub fn notify(&mut self, method: &str) -> Result<(), &'static str> {
        let (now, id) = (self.now, self.id());
        let answer = self.sup.notify(now, id, method, b"");
        self.act();
        answer.map_err(|refusal| short(&refusal))
    }

    pub fn cancel(&mut self, request: u64) -> Result<(), &'static str> {
        let (now, id) = (self.now, self.id());
        let answer = self.sup.cancel(now, id, request, "enough");
        self.act();
        answer.map_err(|refusal| short(&refusal))
    }

    /// The next event; whose it is and that it completes nothing twice is checked on the way.
    pub fn take_one(&mut self) -> Option<String> {
        let Told::Peer { queued, .. } = self.sup.next_event()? else { return Some("SHUTDOWN!".to_owned()) };
        self.act();
        let to = match &queued.event {
            Event::Message { to, .. } => *to,
            Event::Failed(failed) => failed.to,
            _ => return Some(render(&queued)),
        };
        if (1..1 << 52).contains(&to.request) {
            assert_eq!(to.user_data, user_data(to.request), "of #{}", to.request);
            assert!(!self.completed.contains(&to.request), "#{} is over", to.request);
        }
        if to.flags & flag::COMPLETE != 0 {
            assert!(to.request > 0 && self.completed.insert(to.request));
        }
        Some(render(&queued))
    }

    /// Everything that can be taken within this poll.
    pub fn take(&mut self) -> String {
        let all: Vec<String> = std::iter::from_fn(|| self.take_one()).collect();
        all.join(", ")
    }

    /// The same, without log lines.
    pub fn take_unlogged(&mut self) -> String {
        let all: Vec<String> =
            std::iter::from_fn(|| self.take_one()).filter(|event| !event.starts_with("LOG")).collect();
        all.join(", ")
    }

    pub fn poll(&mut self) -> String {
        self.begin_poll();
        self.take()
    }

    // ---- the server ----

    /// Reads everything that is to be written, and says what it was.
    pub fn reads(&mut self) -> String {
        self.reads_bytes(usize::MAX)
    }

    /// The same, as the lines themselves.
    pub fn reads_whole(&mut self) -> Vec<String> {
        self.move_bytes(usize::MAX);
        std::mem::take(&mut self.lines)
    }

    /// The pipe takes so many bytes, and the server reads them; says which lines were complete with them.
    pub fn reads_bytes(&mut self, most: usize) -> String {
        self.move_bytes(most);
        let lines: Vec<String> = std::mem::take(&mut self.lines).iter().map(|line| shortened(line)).collect();
        lines.join(", ")
    }

    /// Bytes that wait to be written.
    pub fn queued(&self) -> usize {
        self.sup.connection(self.slot()).map_or(0, |conn| conn.outbox.queued())
    }

    fn move_bytes(&mut self, most: usize) {
        let slot = self.slot();
        let mut rest = most;
        while rest > 0 {
            let Some(conn) = self.rig.sup.connection(slot) else { return };
            if conn.life != self.life {
                // W5: what was written of a line to another connection is nobody's beginning.
                (self.life, self.part) = (conn.life, Vec::new());
            }
            let mut slices = no_slices();
            let count = conn.outbox.slices(&mut slices);
            let mut bytes: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
            bytes.truncate(rest);
            if bytes.is_empty() {
                return;
            }
            rest -= bytes.len();
            self.rig.wrote_bytes(bytes.len());
            for byte in bytes {
                if byte == b'\n' {
                    self.recorder.line(&self.part);
                    self.lines.push(String::from_utf8(std::mem::take(&mut self.part)).unwrap());
                } else {
                    self.part.push(byte);
                }
            }
        }
    }

    /// The server writes one message.
    pub fn says(&mut self, message: &Value) {
        let line = format!("{message}\n");
        assert_eq!(self.feed(line.as_bytes()), line.len(), "stdout is read");
    }

    /// An answer with an empty result.
    pub fn answers(&mut self, id: impl Into<Value>) {
        self.results(id, json!({}));
    }

    pub fn results(&mut self, id: impl Into<Value>, result: Value) {
        self.says(&json!({"jsonrpc": "2.0", "id": id.into(), "result": result}));
    }

    pub fn errs(&mut self, id: impl Into<Value>, code: i64) {
        self.says(&json!({"jsonrpc": "2.0", "id": id.into(), "error": {"code": code, "message": "no"}}));
    }

    /// The error that names the versions it speaks.
    pub fn errs_version(&mut self, id: impl Into<Value>, supported: &[&str]) {
        let data = json!({"supported": supported, "requested": "x"});
        let error = json!({"code": -32022, "message": "no", "data": data});
        self.says(&json!({"jsonrpc": "2.0", "id": id.into(), "error": error}));
    }

    pub fn progresses(&mut self, token: impl Into<Value>) {
        let params = json!({"progressToken": token.into(), "progress": 1});
        self.says(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
    }

    /// A notification of a stream.
    pub fn delivers(&mut self, stream: impl Into<Value>, method: &str) {
        let params = json!({"_meta": {SUBSCRIPTION: stream.into()}});
        self.says(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub fn acknowledges(&mut self, stream: impl Into<Value>) {
        self.delivers(stream, "notifications/subscriptions/acknowledged");
    }

    /// The server ends a stream by a notification.
    pub fn cancels(&mut self, stream: impl Into<Value>) {
        let params = json!({"requestId": stream.into()});
        self.says(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    }

    /// Death, the delay and the next life, with what was told until the process is there.
    pub fn dies_and_returns(&mut self) -> String {
        self.die(0);
        self.returns()
    }

    /// The delay and the next life.
    pub fn returns(&mut self) -> String {
        let mut told = self.take();
        self.advance(100);
        self.spawn();
        let more = self.take();
        if !told.is_empty() && !more.is_empty() {
            told += ", ";
        }
        told + &more
    }

    /// Requests and streams that are under way.
    pub fn in_flight(&self) -> usize {
        self.sup.peer(self.id()).unwrap().in_flight()
    }
}

/// What a host gives with the request of an id.
pub fn user_data(id: u64) -> u64 {
    id + 5_000
}

/// One written line in short.
pub fn shortened(line: &str) -> String {
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["jsonrpc"], "2.0");
    let Some(method) = line["method"].as_str() else {
        let what = if line["error"].is_null() { "result".to_owned() } else { line["error"]["code"].to_string() };
        return format!("re {} {what}", line["id"]);
    };
    match &line["id"] {
        Value::Null if method == "notifications/cancelled" => format!("cancel {}", line["params"]["requestId"]),
        Value::Null => format!("note {method}"),
        Value::String(id) => format!("{id} {method}"),
        id => format!("#{id} {method}"),
    }
}
