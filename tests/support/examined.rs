//! A pinned server through one life and the next: the same questions to all, in the code of one host. What must hold is asserted;
//! what differs between servers is told.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::installed::{group, tree};
use crate::pinned::{Pinned, Tells};
use crate::support::*;

const ACKNOWLEDGED: &[u8] = b"notifications/subscriptions/acknowledged";
const UPDATED: &[u8] = b"notifications/resources/updated";

/// The default of `mcp_supervised_spec_stop_grace`, and a second for the rest of the way.
const GRACE: Duration = Duration::from_millis(6000 + 1000);

/// What was found, in words for a table.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    pub era: String,
    pub discover: String,
    pub list: String,
    pub call: String,
    pub listen: String,
    pub recovered: String,
    pub delivers: String,
    pub close: String,
    pub left: String,
}

impl Found {
    /// Its cells, in the order of the columns.
    pub fn cells(&self) -> [&str; 9] {
        [
            &self.era,
            &self.discover,
            &self.list,
            &self.call,
            &self.listen,
            &self.recovered,
            &self.delivers,
            &self.close,
            &self.left,
        ]
    }
}

/// A host with one server.
struct Examined<'a> {
    server: &'a Pinned,
    dir: &'a Scratch,
    host: Host,
    peer: u64,
    is_legacy: bool,
}

/// Looks at one server. A panic says what does not hold.
pub fn examine(server: &Pinned) -> Option<Found> {
    let dir = Scratch::new();
    let spec = server.spec(&dir)?.mode(MCP_SUPERVISED_MODE_AUTO).restart(3, 10, 60_000);
    let spec = spec.client_info("mcp-supervised-tests", "1.0");
    let mut host = Host::new();
    let peer = host.launch(&spec);
    let ready = host.next(MCP_SUPERVISED_EVENT_READY);
    assert_eq!(ready.text(), server.speaks);
    let is_legacy = ready.era == MCP_SUPERVISED_ERA_LEGACY as u32;
    assert_eq!(is_legacy, server.speaks < "2026-07-28");

    let mut it = Examined { server, dir: &dir, host, peer, is_legacy };
    let discover = it.discover();
    let list = it.list();
    it.call();
    let (stream, listen) = it.listen();
    let delivers_first = stream.is_some_and(|stream| it.delivers(stream));
    it.killed();
    let delivers = match stream {
        Some(stream) => {
            let again = it.host.acknowledged(stream, 2);
            assert_eq!(it.accepted(&again), listen, "the replacement accepts what the first life did");
            let delivers = it.delivers(stream);
            assert_eq!(delivers, delivers_first);
            if delivers { "yes" } else { "nothing to tell" }
        }
        None => "-",
    };
    let close = it.closed();
    Some(Found {
        era: if is_legacy { "legacy" } else { "modern" }.to_owned() + ", " + server.speaks,
        discover,
        list,
        call: format!("`{}`", server.call.0),
        listen,
        recovered: "yes".to_owned(),
        delivers: delivers.to_owned(),
        close,
        left: "nothing".to_owned(),
    })
}

impl Examined<'_> {
    /// The result of a request that must succeed.
    fn result(&mut self, method: &str, params: Value) -> Event {
        let id = self.host.ask(self.peer, method, params);
        let answer = self.host.completion(id);
        assert_eq!(answer.message_kind, MCP_SUPERVISED_MESSAGE_RESULT as u32, "{method}: {}", answer.text());
        answer
    }

    fn discover(&mut self) -> String {
        let answer = self.result("server/discover", json!({}));
        let emulated = has(&answer, MCP_SUPERVISED_FLAG_EMULATED);
        assert_eq!(emulated, self.is_legacy);
        let result: Value = serde_json::from_slice(&answer.body).expect("a result is JSON");
        let versions = result["supportedVersions"].as_array().expect("versions");
        assert!(versions.contains(&json!(self.server.speaks)), "{result}");
        assert!(result["capabilities"].is_object(), "{result}");
        if emulated { "emulated" } else { "its own" }.to_owned()
    }

    fn list(&mut self) -> String {
        let answer = self.result("tools/list", json!({}));
        let result: Value = serde_json::from_slice(&answer.body).expect("a result is JSON");
        let tools = result["tools"].as_array().expect("tools");
        assert!(tools.iter().any(|tool| tool["name"] == self.server.call.0), "{result}");
        assert_eq!(result.get("nextCursor"), None);
        match tools.len() {
            // Ours has what a test needs at the moment.
            _ if self.server.name.starts_with("demo") => "yes".to_owned(),
            1 => "1 tool".to_owned(),
            count => format!("{count} tools"),
        }
    }

    fn call(&mut self) {
        let (tool, part) = (self.server.call.0, self.server.call.2);
        let arguments = self.server.arguments(self.dir);
        let answer = self.result("tools/call", json!({"name": tool, "arguments": arguments}));
        let text = answer.text();
        assert!(text.contains(part) && !text.contains("\"isError\":true"), "{tool}: {text}");
    }

    /// A stream for everything that can be asked for, and what became of it.
    fn listen(&mut self) -> (Option<u64>, String) {
        let mut filter = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
        if let Some(uri) = self.server.uri {
            filter["resourceSubscriptions"] = json!([uri]);
        }
        let stream = self.host.listen(self.peer, filter, 0);
        let of = |e: &Event| e.request == stream && (e.method == ACKNOWLEDGED || e.is_complete());
        let first = self.host.until(of).into_iter().find(of).expect("it was seen");
        if first.is_complete() {
            assert_eq!(first.message_kind, MCP_SUPERVISED_MESSAGE_REMOTE_ERROR as u32, "{}", first.text());
            return (None, format!("refused, `{}`", first.error_code));
        }
        (Some(stream), self.accepted(&first))
    }

    /// What an acknowledgement accepts.
    fn accepted(&self, acknowledgement: &Event) -> String {
        let emulated = has(acknowledgement, MCP_SUPERVISED_FLAG_EMULATED);
        assert_eq!(emulated, self.is_legacy);
        let accepted: Map<String, Value> =
            serde_json::from_value(acknowledgement.json()["params"]["notifications"].clone()).expect("an object");
        let names = [
            ("toolsListChanged", "tools"),
            ("promptsListChanged", "prompts"),
            ("resourcesListChanged", "resources"),
            ("resourceSubscriptions", "updates"),
        ];
        let kinds: Vec<&str> =
            names.iter().filter(|(key, _)| accepted.contains_key(*key)).map(|(_, name)| *name).collect();
        let kinds = if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") };
        if emulated { format!("emulated: {kinds}") } else { kinds }
    }

    /// Whether the server can be made to tell the stream something; if it can, it arrives.
    fn delivers(&mut self, stream: u64) -> bool {
        let from = self.host.seen.len();
        let (tool, arguments, again) = match self.server.tells.clone() {
            Tells::Nothing => return false,
            Tells::EachCall(tool, arguments) => (tool, arguments, true),
            Tells::Switch(tool, arguments) => (tool, arguments, false),
        };
        let told = |e: &Event| e.request == stream && e.method == UPDATED;
        let deadline = Instant::now() + PATIENCE;
        self.result("tools/call", json!({"name": tool, "arguments": arguments}));
        // A server may acknowledge a stream a moment before it serves it, as rmcp does.
        while !self.host.seen[from..].iter().any(told) {
            assert!(Instant::now() < deadline, "the stream is told nothing");
            if again {
                self.result("tools/call", json!({"name": tool, "arguments": arguments}));
            } else {
                self.host.until(told);
            }
        }
        let event = self.host.seen[from..].iter().find(|e| told(e)).expect("it was seen").json();
        assert_eq!(event["params"]["uri"], self.server.uri.expect("a server that tells has a resource"));
        if !again {
            self.result("tools/call", json!({"name": tool, "arguments": arguments}));
        }
        true
    }

    /// SIGKILL, and everything works again on the replacement.
    fn killed(&mut self) {
        let (leader, from) = (self.host.pid(self.peer), self.host.seen.len());
        let all = tree(leader);
        kill9(leader);
        let taken = self.host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
        let close = taken.iter().find(|e| e.is(MCP_SUPERVISED_EVENT_CLOSE)).expect("CLOSE comes before RECONNECT");
        assert_eq!((close.signal, close.life, close.will_reconnect()), (libc::SIGKILL, 1, true));
        let again = taken.iter().find(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT)).expect("it was seen");
        assert_eq!((again.life, again.era == MCP_SUPERVISED_ERA_LEGACY as u32), (2, self.is_legacy));
        assert_eq!(again.text(), self.server.speaks);
        assert!(!has(again, MCP_SUPERVISED_FLAG_SERVER_CHANGED), "the same server again");
        assert_eq!(self.host.seen[from..].iter().filter(|e| e.is_complete()).count(), 0, "the stream survives");
        self.nothing_is_left(leader, &all);
        self.call();
    }

    /// The polite end: within its grace, by itself.
    fn closed(&mut self) -> String {
        let leader = self.host.pid(self.peer);
        let all = tree(leader);
        let begun = Instant::now();
        assert_eq!(self.host.close(self.peer), 0);
        self.host.to_the_end(self.peer);
        assert!(begun.elapsed() < GRACE, "{:?}", begun.elapsed());
        let close = self.host.last_close();
        assert_eq!(close.status, MCP_SUPERVISED_CLOSE_CLOSED_BY_HOST as i32);
        assert_eq!(close.signal, 0, "nobody had to be told: {}", close.text());
        let code = close.exit_code;
        self.nothing_is_left(leader, &all);
        assert!(self.host.seen.iter().all(|e| !e.is(MCP_SUPERVISED_EVENT_ERROR) || e.is_complete()));
        format!("exit {code}")
    }

    fn nothing_is_left(&self, leader: i32, all: &[i32]) {
        assert_eq!(group(leader), [0; 0], "of the group of {leader}");
        let left: Vec<_> = all.iter().filter(|pid| lives(**pid)).collect();
        assert!(left.is_empty(), "{left:?} of {all:?}");
    }
}

/// The server that cannot start: each life ends by itself, and it is given up with its last words.
pub fn give_up(server: &Pinned) -> Option<String> {
    let dir = Scratch::new();
    let mut host = Host::new();
    let peer = host.launch(&server.spec(&dir)?.mode(MCP_SUPERVISED_MODE_AUTO).restart(2, 10, 60_000));
    let waits = host.ask(peer, "tools/list", json!({}));
    let taken = host.to_the_end(peer);
    assert!(has(taken.last().expect("it was seen"), MCP_SUPERVISED_FLAG_FINAL));
    let exhausted = taken.iter().find(|e| e.is(MCP_SUPERVISED_EVENT_EXHAUSTED)).expect("it is given up");
    assert_eq!(exhausted.max_restarts, 2);
    let lost = host.completion(waits);
    assert!(lost.is(MCP_SUPERVISED_EVENT_ERROR), "{}", lost.text());
    let close = host.seen.iter().find(|e| e.is(MCP_SUPERVISED_EVENT_CLOSE)).expect("the first life was told of");
    assert!(close.text().contains("Error"), "the last words of the server: {}", close.text());
    Some(format!("exit {} at its start; given up after 2 restarts", close.exit_code))
}
