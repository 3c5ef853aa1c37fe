//! A server under a host, and the few things that are done to it again and again.

use std::ops::{Deref, DerefMut};

use serde_json::{Value, json};

use crate::support::*;

pub const CLOSED: i32 = MCP_SUPERVISED_E_CLOSED as i32;
pub const TIMEOUT: i32 = MCP_SUPERVISED_E_TIMEOUT as i32;
pub const MALFORMED: i32 = MCP_SUPERVISED_E_MALFORMED as i32;
pub const SPAWN: i32 = MCP_SUPERVISED_E_SPAWN as i32;
pub const INVALID: i32 = MCP_SUPERVISED_E_INVALID as i32;

/// With the newer calls of the C library, also where the suite runs without: a working directory, and the closing of what the host
/// itself leaves open, need one.
pub const AS_IT_IS: (&str, Option<&str>) = ("MCP_SUPERVISED_WITHOUT", None);

/// One server, its host, and the process it was in the beginning. What is not here is the host's.
pub struct Served {
    pub host: Host,
    pub peer: u64,
    pub pid: i32,
}

impl Deref for Served {
    type Target = Host;
    fn deref(&self) -> &Host {
        &self.host
    }
}

impl DerefMut for Served {
    fn deref_mut(&mut self) -> &mut Host {
        &mut self.host
    }
}

impl Served {
    /// The demo server with the protocol client on.
    pub fn new(flags: &[&str]) -> Self {
        Self::by(Host::new(), &Spec::modern(flags).restart(3, 10, 60_000))
    }

    /// The same with a clock that the test moves.
    pub fn by_hand(flags: &[&str]) -> Self {
        Self::by(Host::with_manual_clock(), &Spec::modern(flags).restart(3, 10, 60_000))
    }

    pub fn by(mut host: Host, spec: &Spec) -> Self {
        let peer = host.launch(spec);
        let pid = host.pid(peer);
        Self { host, peer, pid }
    }

    /// Asks without waiting.
    pub fn asks(&mut self, tool: &str, arguments: Value) -> u64 {
        self.host.ask_tool(self.peer, tool, arguments)
    }

    /// Calls a tool and waits for the end of the call.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Event {
        let id = self.asks(tool, arguments);
        self.host.completion(id)
    }

    /// Has the server write bytes, and gives what was told before it said that it did. Nothing else may be going on.
    pub fn writes(&mut self, bytes: &[u8]) -> Vec<Event> {
        let from = self.host.seen.len();
        let id = self.asks("raw", json!({"hex": hex(bytes)}));
        self.host.completion(id);
        let end = from + self.host.seen[from..].iter().position(|e| e.request == id).expect("it was seen");
        self.host.seen[from..end].to_vec()
    }

    /// The same, while the library has read exactly the first bytes before the others are there. The events of both.
    pub fn writes_cut(&mut self, bytes: &[u8], at: usize) -> Vec<Event> {
        let from = self.host.seen.len();
        self.asks("raw", json!({"hex": hex(&bytes[..at]), "answer": false}));
        let pid = self.host.pid(self.peer);
        self.host.until_written(pid);
        self.writes(&bytes[at..]);
        let seen = &self.host.seen[from..];
        seen[..seen.len() - 1].to_vec()
    }

    /// Has the server answer a call with these bytes, in which @ID@ is its id, and an answer's end behind them.
    pub fn answers_with(&mut self, text: &str, bytes: &[u8]) -> u64 {
        self.asks("raw", json!({"text": text, "hex": hex(bytes), "answer": false}))
    }

    /// The same process answers: nothing ended, and nothing was paid for.
    pub fn goes_on(&mut self) {
        let answer = self.call("pid", json!({}));
        assert_eq!(answer.tool_text(), self.pid.to_string());
        assert_eq!(self.host.pid(self.peer), self.pid);
        assert!(!self.host.seen.iter().any(|e| matches!(e.letter(), "D" | "C" | "R" | "X")), "{}", self.story());
    }

    /// The same while others end.
    pub fn goes_on_beside(&mut self) {
        assert_eq!(self.call("pid", json!({})).tool_text(), self.pid.to_string());
    }

    pub fn pid_of(&self, peer: u64) -> i32 {
        self.host.pid(peer)
    }

    /// The kinds of all that was told, log lines left out.
    pub fn story(&self) -> String {
        letters(&self.host.seen)
    }

    /// Closes it, and gives all that is told until then.
    pub fn closes(&mut self) -> Vec<Event> {
        assert_eq!(self.host.close(self.peer), 0);
        self.host.to_the_end(self.peer)
    }

    /// Kills the process, and waits until nobody can be told anything by it.
    pub fn is_killed(&mut self) -> i32 {
        let pid = self.host.pid(self.peer);
        kill9(pid);
        wait_gone(pid);
        pid
    }

    /// Takes what there is to take, which must be events of that kind, one at least.
    pub fn expect_silence_but(&mut self, kind: &str) {
        let from = self.host.seen.len();
        while !self.host.poll(0).is_empty() {}
        let told = letters(&self.host.seen[from..]);
        assert!(!told.is_empty() && told.split(' ').all(|letter| letter == kind), "{told}");
    }

    /// Takes what a server writes that never rests, until it has written more twice.
    pub fn until_written_some(&mut self, pid: i32) {
        for _ in 0..2 {
            let before = watch::written_by(pid);
            let deadline = std::time::Instant::now() + PATIENCE;
            while watch::written_by(pid) == before {
                assert!(std::time::Instant::now() < deadline, "it writes nothing");
                self.host.poll(1);
            }
        }
        self.host.poll(0);
    }

    /// How often a request was ended.
    pub fn ends_of(&self, id: u64) -> usize {
        self.host.seen.iter().filter(|e| e.request == id && e.is_complete()).count()
    }
}

/// Any program, taken for a server of the newest revision.
pub fn modern(program: impl AsRef<[u8]>) -> Spec {
    Spec::new(program).mode(MCP_SUPERVISED_MODE_MODERN)
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A notification, without its line feed.
pub fn note(text: &str) -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/note", "params": {"text": text}}).to_string()
}

/// All are one error each with a short, printable excerpt, and nothing else.
pub fn each_is_one_error(events: &[Event], count: usize) {
    assert_eq!(letters(events), vec!["E"; count].join(" "));
    for error in events.iter().filter(|e| e.letter() == "E") {
        assert_eq!((error.status, error.request), (MALFORMED, 0), "{}", error.text());
        assert!(error.payload.len() < 500 && !error.text().contains(char::is_control), "{}", error.text());
    }
}
