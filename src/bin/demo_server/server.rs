//! The state of a running server and the few verbs everything else is made of: answer, announce, wait for a call,
//! end the streams, leave.

use std::collections::{BTreeSet, HashMap};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::options::{EndStreams, Options};
use crate::output::{Output, lock};
use crate::strict::Seen;

/// The one resource there is.
pub const COUNTER_URI: &str = "mem://counter";
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// An error that becomes the answer.
pub struct Failure {
    pub code: i64,
    pub message: String,
    pub data: Option<Value>,
}

impl Failure {
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }
}

/// An open `subscriptions/listen`.
pub struct Stream {
    /// The id of the listen request, as the client wrote it.
    pub id: Value,
    /// What was accepted of its filter.
    pub filter: Map<String, Value>,
}

/// What streams can be told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Tools,
    Prompts,
    Resources,
    Counter,
}

impl Change {
    fn method(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
            Self::Counter => "notifications/resources/updated",
        }
    }

    fn wanted_by(self, filter: &Map<String, Value>) -> bool {
        let asked = |field: &str| filter.get(field) == Some(&Value::Bool(true));
        match self {
            Self::Tools => asked("toolsListChanged"),
            Self::Prompts => asked("promptsListChanged"),
            Self::Resources => asked("resourcesListChanged"),
            Self::Counter => filter
                .get("resourceSubscriptions")
                .and_then(Value::as_array)
                .is_some_and(|uris| uris.iter().any(|uri| uri == COUNTER_URI)),
        }
    }
}

/// What a waiting call does when it is cancelled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OnCancel {
    /// What the revision asks for.
    Silent,
    /// Answers at once with an error, as some servers do.
    Error,
    /// Answers in its own time, as if nothing had been said.
    Ignore,
}

/// Everything that threads share. It lives as long as the process.
pub struct Server {
    pub options: Options,
    pub output: Output,
    pub counter: AtomicU64,
    /// Whether the tool `extra` exists at the moment.
    pub extra: AtomicBool,
    /// Set by a tool; the reader obeys after the line.
    pub close_stdin: AtomicBool,
    /// The version that `initialize` has been answered with.
    pub session: Mutex<Option<String>>,
    /// What `--lock` waits for has happened.
    pub locked: AtomicBool,
    /// What `--strict` has seen of the client.
    pub seen: Mutex<Seen>,
    /// `logging/setLevel`.
    pub log_level: Mutex<Option<String>>,
    pub streams: Mutex<Vec<Stream>>,
    /// `resources/subscribe` of the older revisions.
    pub subscribed: Mutex<BTreeSet<String>>,
    /// Requests to the client by the JSON text of their own id, with the call that waits for the answer, if one does.
    pub asked: Mutex<HashMap<String, Option<Value>>>,
    pub next_ask: AtomicU64,
    /// Calls that wait in a thread, by the JSON text of their id (1 and "1" differ).
    waiting: Mutex<HashMap<String, OnCancel>>,
    waiting_changed: Condvar,
}

impl Server {
    pub fn new(options: Options) -> Self {
        Self {
            output: Output::new(options.exit_after, options.answers, options.crlf, options.death),
            options,
            counter: AtomicU64::new(0),
            extra: AtomicBool::new(false),
            close_stdin: AtomicBool::new(false),
            session: Mutex::new(None),
            locked: AtomicBool::new(false),
            seen: Mutex::new(Seen::default()),
            log_level: Mutex::new(None),
            streams: Mutex::new(Vec::new()),
            subscribed: Mutex::new(BTreeSet::new()),
            asked: Mutex::new(HashMap::new()),
            next_ask: AtomicU64::new(0),
            waiting: Mutex::new(HashMap::new()),
            waiting_changed: Condvar::new(),
        }
    }

    /// Whether the older revisions' rules hold now.
    pub fn is_legacy(&self) -> bool {
        self.options.legacy.is_some() && (!self.options.dual || self.in_session())
    }

    /// Whether an `initialize` has been answered.
    pub fn in_session(&self) -> bool {
        lock(&self.session).is_some()
    }

    /// Whether the revision of the session is this one.
    pub fn speaks(&self, version: &str) -> bool {
        lock(&self.session).as_deref() == Some(version)
    }

    pub fn server_info(&self) -> Value {
        json!({"name": self.options.name, "version": self.options.server_version})
    }

    pub fn capabilities(&self) -> Value {
        if let Some(said) = &self.options.capabilities {
            return said.clone();
        }
        let mut all = json!({"tools": {"listChanged": true}, "resources": {"subscribe": true, "listChanged": true},
            "prompts": {"listChanged": true}, "completions": {}, "logging": {}});
        // The first revision had the method, and no name for the capability.
        if self.speaks("2024-11-05")
            && let Some(all) = all.as_object_mut()
        {
            all.remove("completions");
        }
        all
    }

    /// The response to `id`, with what the era adds to a result. A `resultType` that is there already stays.
    pub fn envelope(&self, id: &Value, reply: Result<Value, Failure>) -> Value {
        let id = match id {
            Value::Number(number) if self.options.string_ids => Value::String(number.to_string()),
            other => other.clone(),
        };
        match reply {
            Ok(mut result) => {
                if !self.is_legacy()
                    && let Some(members) = result.as_object_mut()
                {
                    members.entry("resultType").or_insert_with(|| "complete".into());
                    let meta = members.entry("_meta").or_insert_with(|| json!({}));
                    meta["io.modelcontextprotocol/serverInfo"] = self.server_info();
                }
                json!({"jsonrpc": "2.0", "id": id, "result": result})
            }
            Err(failure) => {
                let mut error = json!({"code": failure.code, "message": failure.message});
                if let Some(data) = failure.data {
                    error["data"] = data;
                }
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        }
    }

    /// Answers a request, as late and as loudly as the flags ask.
    pub fn answer(&'static self, id: &Value, reply: Result<Value, Failure>) {
        let message = self.envelope(id, reply);
        let Some(ms) = self.options.delay_answers_ms else {
            return self.answer_now(&message);
        };
        self.in_thread(move || {
            thread::sleep(Duration::from_millis(ms));
            self.answer_now(&message);
        });
    }

    /// Answers with a message that is made already.
    pub fn answer_now(&self, message: &Value) {
        fill_stderr(self.options.stderr_per_answer);
        self.output.answer(message);
    }

    /// Tells every stream that asked for it; in the older revisions, the client.
    pub fn announce(&self, change: Change) {
        if change == Change::Counter {
            return self.announce_updated(COUNTER_URI);
        }
        if self.is_legacy() {
            return self.output.note(&json!({"jsonrpc": "2.0", "method": change.method()}));
        }
        for id in self.streams_for(change) {
            let params = json!({"_meta": {SUBSCRIPTION_ID: id}});
            self.output.note(&json!({"jsonrpc": "2.0", "method": change.method(), "params": params}));
        }
    }

    /// Tells who subscribed to a resource, or to one that it is a part of.
    pub fn announce_updated(&self, uri: &str) {
        let method = Change::Counter.method();
        if self.is_legacy() {
            if lock(&self.subscribed).iter().any(|subscribed| is_part_of(uri, subscribed)) {
                self.output.note(&json!({"jsonrpc": "2.0", "method": method, "params": {"uri": uri}}));
            }
            return;
        }
        let wanted = |stream: &&Stream| {
            let uris = stream.filter.get("resourceSubscriptions").and_then(Value::as_array);
            uris.is_some_and(|uris| uris.iter().any(|wanted| is_part_of(uri, wanted.as_str().unwrap_or_default())))
        };
        let ids: Vec<Value> = lock(&self.streams).iter().filter(wanted).map(|stream| stream.id.clone()).collect();
        for id in ids {
            let params = json!({"uri": uri, "_meta": {SUBSCRIPTION_ID: id}});
            self.output.note(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
    }

    /// The ids of the streams that asked for a change.
    pub fn streams_for(&self, change: Change) -> Vec<Value> {
        let streams = lock(&self.streams);
        streams.iter().filter(|stream| change.wanted_by(&stream.filter)).map(|stream| stream.id.clone()).collect()
    }

    /// Ends all open streams from the server's side.
    pub fn end_streams(&self, how: EndStreams) {
        if how == EndStreams::Nothing {
            return;
        }
        for Stream { id, .. } in lock(&self.streams).drain(..) {
            let meta = json!({SUBSCRIPTION_ID: id});
            if matches!(how, EndStreams::Cancelled | EndStreams::Both) {
                self.output.note(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                    "params": {"_meta": meta, "requestId": id, "reason": "the server ends the stream"}}));
            }
            if matches!(how, EndStreams::Result | EndStreams::Both) {
                self.output.answer(&self.envelope(&id, Ok(json!({"_meta": meta}))));
            }
            if how == EndStreams::Error {
                self.output.answer(&self.envelope(&id, Err(Failure::new(-32000, "Connection closed"))));
            }
        }
    }

    /// Registers a call that will be answered by a thread.
    pub fn begin_waiting(&self, id: &Value, on_cancel: OnCancel) {
        lock(&self.waiting).insert(id.to_string(), on_cancel);
    }

    /// Whether the call has not been cancelled.
    pub fn still_waiting(&self, id: &Value) -> bool {
        lock(&self.waiting).contains_key(&id.to_string())
    }

    /// Answers a call that waited, unless it was cancelled.
    pub fn finish_waiting(&self, id: &Value, answer: impl FnOnce()) {
        // Written under the lock: who sees the call gone (a cancel, the end of input) must see its answer gone too.
        let mut waiting = lock(&self.waiting);
        if waiting.remove(&id.to_string()).is_some() {
            answer();
        }
        self.waiting_changed.notify_all();
    }

    /// `notifications/cancelled` from the client: of a stream or of a call that waits. Anything else is done already.
    pub fn cancel(&self, id: &Value) {
        lock(&self.streams).retain(|stream| stream.id != *id);
        let mut waiting = lock(&self.waiting);
        match waiting.get(&id.to_string()) {
            None | Some(OnCancel::Ignore) => {}
            Some(OnCancel::Silent) => drop(waiting.remove(&id.to_string())),
            Some(OnCancel::Error) => {
                waiting.remove(&id.to_string());
                self.answer_now(&self.envelope(id, Err(Failure::new(0, "Request cancelled"))));
            }
        }
        self.waiting_changed.notify_all();
    }

    /// The orderly end: what still waits (if asked for), the streams, the last work, exit 0.
    pub fn leave(&self, how: EndStreams) -> ! {
        if self.options.finish {
            let mut waiting = lock(&self.waiting);
            while !waiting.is_empty() {
                waiting = self.waiting_changed.wait(waiting).unwrap_or_else(std::sync::PoisonError::into_inner);
            }
        }
        self.end_streams(how);
        thread::sleep(Duration::from_millis(self.options.slow_exit_ms));
        if let Some(path) = &self.options.exit_file {
            append(path, b"finished\n");
        }
        std::process::exit(0);
    }

    /// Notifications that nobody asked for, for ever.
    pub fn chatter(&self, pause: Duration) -> ! {
        let mut number = 0_u64;
        loop {
            self.output.note(&json!({"jsonrpc": "2.0", "method": "notifications/message",
                "params": {"level": "info", "data": {"n": number}}}));
            number += 1;
            thread::sleep(pause);
        }
    }

    /// Runs something beside the reader. The small stack is what allows thousands of sleeping calls.
    pub fn in_thread(&self, work: impl FnOnce() + Send + 'static) {
        if let Err(error) = thread::Builder::new().stack_size(256 * 1024).spawn(work) {
            // The call in question would never be answered, and a test would wait in vain.
            eprintln!("no thread: {error}");
            std::process::exit(2);
        }
    }
}

/// `mem://counter/a` is a part of `mem://counter`, and so is that itself.
pub fn is_part_of(uri: &str, whole: &str) -> bool {
    uri.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Does nothing for ever. Signals keep their effect.
pub fn stay_alive() -> ! {
    loop {
        thread::park();
    }
}

/// Writes to stderr. A closed one is the client's choice, and no reason to panic.
pub fn write_stderr(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Writes that many bytes to stderr in lines of 80. A closed stderr is nobody's concern.
pub fn fill_stderr(bytes: usize) {
    let line = format!("{}\n", "e".repeat(79));
    let block = line.repeat(100);
    let mut left = bytes;
    while left > 0 {
        let part = left.min(block.len());
        if std::io::stderr().write_all(&block.as_bytes()[block.len() - part..]).is_err() {
            return;
        }
        left -= part;
    }
}

/// Appends to a file in one write and closes it, so that no descriptor stays open. A failure is told on stderr.
pub fn append(path: &Path, bytes: &[u8]) {
    let written = OpenOptions::new().append(true).create(true).open(path).and_then(|mut file| file.write_all(bytes));
    if let Err(error) = written {
        eprintln!("{}: {error}", path.display());
    }
}
