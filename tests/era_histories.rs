//! Random histories of servers of every revision at once, behind wrappers and not, which are killed while they are asked, ask back and
//! tell streams. The servers of the older revisions die of a client that breaks a rule (`--strict`), and say which; each call's
//! answer says who gave it. More of them: `ERA_HISTORIES=200 cargo test --test era_histories -- --nocapture`.

#[path = "support/installed.rs"]
mod installed;
mod support;

use std::collections::{BTreeMap, BTreeSet};

use installed::tree;
use serde_json::{Value, json};
use support::*;

const STEPS: usize = 600;
const UPDATED: &[u8] = b"notifications/resources/updated";
const ACKNOWLEDGED: &[u8] = b"notifications/subscriptions/acknowledged";

/// What a server may be asked to ask. The last one is never declared, and never shown.
const QUESTIONS: [&str; 4] = ["ping", "roots/list", "elicitation/create", "sampling/createMessage"];
const CAPABILITIES: &str = r#"{"roots":{},"elicitation":{}}"#;

/// Numbers that a seed makes (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// What a request was, until it is over.
enum Open {
    /// Its answer is this text.
    Echo(String),
    /// Whatever the answer is.
    Any,
    /// A question of this method goes the other way meanwhile.
    Question(&'static str),
    /// A stream with this filter.
    Stream(Value),
}

struct Peer {
    id: u64,
    is_legacy: bool,
    open: BTreeMap<u64, Open>,
    /// Requests of the server that nobody has answered yet.
    tokens: Vec<u64>,
    /// Every process of it that was ever seen.
    seen: BTreeSet<i32>,
}

struct World {
    host: Host,
    random: Random,
    peers: Vec<Peer>,
    /// Every token, to see that none comes twice.
    tokens: BTreeSet<(u64, u64)>,
    counted: usize,
    /// How many events were looked at.
    looked: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let revisions: [&[&str]; 6] = [
            &[],
            &["--legacy", "2025-11-25", "--strict"],
            &["--legacy", "2025-06-18", "--strict", "--on-discover", "error:-32602"],
            // It leaves at the probe.
            &["--legacy", "2025-03-26", "--strict", "--before-initialize", "exit:1"],
            &["--legacy", "2024-11-05", "--strict", "--early", "tools", "--on-initialized", "prompts,tools"],
            &["--legacy", "2025-11-25", "--dual", "--lock", "discover"],
        ];
        let mut host = Host::new();
        let mut peers = Vec::new();
        for (number, flags) in revisions.iter().enumerate() {
            // Every other one is behind a program that waits for it.
            let wrap: &[&str] = if number % 2 == 0 { &[] } else { &["--wrap"] };
            let words = [wrap, flags].concat();
            let spec = words.iter().fold(Spec::new(demo_server()), |spec, word| spec.arg(word));
            let spec = spec.mode(MCP_SUPERVISED_MODE_AUTO).capabilities(CAPABILITIES).server_log_level("warning");
            let id = host.launch(&spec.restart(MCP_SUPERVISED_UNLIMITED, 1, 60_000).retry());
            let is_legacy = flags.contains(&"--legacy") && !flags.contains(&"--dual");
            peers.push(Peer { id, is_legacy, open: BTreeMap::new(), tokens: Vec::new(), seen: BTreeSet::new() });
        }
        let random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        Self { host, random, peers, tokens: BTreeSet::new(), counted: 0, looked: 0 }
    }

    /// Asks, if the peer takes requests now.
    fn ask(&mut self, at: usize, method: &str, params: Value, what: Open) {
        match self.host.try_ask(self.peers[at].id, method, params.to_string(), None) {
            Ok(id) => assert!(self.peers[at].open.insert(id, what).is_none(), "an id is used once"),
            // While a replacement is awaited.
            Err(status) => assert_eq!(status, MCP_SUPERVISED_E_CLOSED as i32, "{}", self.host.last_error()),
        }
    }

    fn call(&mut self, at: usize, tool: &str, arguments: Value, what: Open) {
        self.ask(at, "tools/call", json!({"name": tool, "arguments": arguments}), what);
    }

    fn step(&mut self) {
        let at = self.random.below(self.peers.len());
        let peer = self.peers[at].id;
        match self.random.below(100) {
            0..30 => {
                self.counted += 1;
                let message = format!("number {}", self.counted);
                self.call(at, "echo", json!({"message": message}), Open::Echo(message.clone()));
            }
            30..38 => {
                let ms = self.random.below(20);
                self.call(at, "sleep", json!({"ms": ms}), Open::Any);
            }
            38..44 => {
                let method = self.random.pick(&["tools/list", "resources/list", "prompts/list", "server/discover"]);
                self.ask(at, method, json!({}), Open::Any);
            }
            44..56 if self.peers[at].is_legacy => {
                let method = self.random.pick(&QUESTIONS);
                let cancel = self.random.below(5) == 0;
                let what = if cancel { Open::Any } else { Open::Question(method) };
                self.call(at, "ask_client", json!({"method": method, "cancel": cancel}), what);
            }
            44..56 => self.call(at, "flip", json!({}), Open::Any),
            56..64 => {
                let tool = self.random.pick(&["bump", "flip"]);
                self.call(at, tool, json!({}), Open::Any);
            }
            64..68 => {
                let uri = self.random.pick(&["mem://counter", "mem://counter/a", "mem://counter/a/b"]);
                self.call(at, "updated", json!({"uri": uri}), Open::Any);
            }
            68..71 => self.call(at, "batch", json!({"notes": 2}), Open::Any),
            71..79 => self.listen(at),
            79..88 => self.cancel(at),
            88..94 => self.respond(at),
            94..97 => {
                // Only a life that was told of: before, there is nothing to look at.
                let pid = self.host.pid(peer);
                if pid > 0 && self.host.state(peer) == MCP_SUPERVISED_STATE_RUNNING as i32 {
                    self.peers[at].seen.extend(tree(pid));
                    kill9(pid);
                }
            }
            _ => {
                let tool = self.random.pick(&["crash", "exit", "half_line"]);
                self.call(at, tool, json!({}), Open::Any);
            }
        }
    }

    fn listen(&mut self, at: usize) {
        let is_stream = |open: &&Open| matches!(open, Open::Stream(_));
        let peer = &self.peers[at];
        // A refusal of listen is no status that the helper forgives.
        let takes = [MCP_SUPERVISED_STATE_RUNNING as i32].contains(&self.host.state(peer.id));
        if !takes || peer.open.values().filter(is_stream).count() >= 4 {
            return;
        }
        let mut filter = json!({});
        for kind in ["toolsListChanged", "promptsListChanged", "resourcesListChanged"] {
            if self.random.below(2) == 0 {
                filter[kind] = true.into();
            }
        }
        let uris: Vec<&str> = ["mem://counter", "mem://counter/a", "mem://other"]
            .into_iter()
            .filter(|_| self.random.below(2) == 0)
            .collect();
        // A filter of nothing but refused resources would be a refusal.
        if uris != ["mem://other"] {
            filter["resourceSubscriptions"] = json!(uris);
        }
        let stream = self.host.listen(peer.id, filter.clone(), 0);
        assert!(self.peers[at].open.insert(stream, Open::Stream(filter)).is_none());
    }

    fn cancel(&mut self, at: usize) {
        let open: Vec<u64> = self.peers[at].open.keys().copied().collect();
        if open.is_empty() {
            return;
        }
        let id = self.random.pick(&open);
        // It is done already if its completion waits to be taken.
        let status = self.host.cancel(self.peers[at].id, id, "at random");
        assert!([0, MCP_SUPERVISED_E_NO_REQUEST as i32].contains(&status), "{}", self.host.last_error());
    }

    fn respond(&mut self, at: usize) {
        let Some(token) = self.peers[at].tokens.pop() else { return };
        let (host, peer) = (self.host.raw(), self.peers[at].id);
        let result = json!({"token": token}).to_string();
        let message = format!("refused {token}");
        let status = if self.random.below(2) == 0 {
            // SAFETY: a live handle and valid text.
            unsafe { mcp_supervised_respond(host, peer, token, result.as_ptr().cast(), result.len()) }
        } else {
            let (text, len) = (message.as_ptr().cast(), message.len());
            // SAFETY: a live handle and valid texts.
            unsafe { mcp_supervised_respond_error(host, peer, token, -7, text, len, std::ptr::null(), 0) }
        };
        // The connection may be gone, or the server may have taken it back.
        let may = [0, MCP_SUPERVISED_E_CLOSED as i32, MCP_SUPERVISED_E_NO_REQUEST as i32];
        assert!(may.contains(&status), "{status}: {}", self.host.last_error());
        assert_ne!(self.once_more(peer, token), 0, "a token answers once, or never if it did not at first");
    }

    fn once_more(&mut self, peer: u64, token: u64) -> i32 {
        // SAFETY: a live handle, and no text.
        unsafe { mcp_supervised_respond(self.host.raw(), peer, token, std::ptr::null(), 0) }
    }

    /// Looks at what was taken since.
    fn look(&mut self) {
        for n in self.looked..self.host.seen.len() {
            let event = self.host.seen[n].clone();
            self.event(&event);
        }
        self.looked = self.host.seen.len();
    }

    fn event(&mut self, event: &Event) {
        assert!(!event.text().contains("rule broken"), "{event:?}");
        assert!(!event.is(MCP_SUPERVISED_EVENT_EXHAUSTED), "{event:?}");
        let Some(at) = self.peers.iter().position(|peer| peer.id == event.peer) else { return };
        let peer = &mut self.peers[at];
        if event.is(MCP_SUPERVISED_EVENT_MESSAGE) && event.message_kind == MCP_SUPERVISED_MESSAGE_REQUEST as u32 {
            let shown = ["roots/list", "elicitation/create"];
            assert!(shown.map(str::as_bytes).contains(&event.method.as_slice()), "{event:?}");
            assert!(self.tokens.insert((event.peer, event.request)), "a token comes once: {event:?}");
            peer.tokens.push(event.request);
            return;
        }
        if event.request == 0 {
            return;
        }
        if event.method == b"notifications/cancelled" {
            assert!(self.tokens.contains(&(event.peer, event.request)), "it takes back what it asked: {event:?}");
            peer.tokens.retain(|token| *token != event.request);
            return;
        }
        if event.is_complete() {
            let open = peer.open.remove(&event.request);
            let open = open.unwrap_or_else(|| panic!("it completes once: {event:?}"));
            let by_answer = event.is(MCP_SUPERVISED_EVENT_MESSAGE);
            let lost = [MCP_SUPERVISED_E_CLOSED as i32, MCP_SUPERVISED_E_CANCELLED as i32];
            assert!(by_answer || lost.contains(&event.status), "{event:?}");
            match open {
                Open::Echo(message) if by_answer => assert_eq!(event.tool_text(), message),
                Open::Question(method) if by_answer => {
                    let text = event.tool_text();
                    let own = match method {
                        "ping" => text == r#"{"result":{}}"#,
                        "sampling/createMessage" => text.contains("-32601"),
                        _ => text.contains(r#"{"token":"#) || text.contains("\"refused "),
                    };
                    assert!(own, "{method}: {text}");
                }
                Open::Stream(_) if by_answer => panic!("a stream does not end by itself: {event:?}"),
                _ => {}
            }
            return;
        }
        match peer.open.get(&event.request) {
            None => panic!("nothing comes for what is over: {event:?}"),
            Some(Open::Stream(filter)) => belongs(event, filter),
            Some(_) => panic!("nobody asked for progress: {event:?}"),
        }
    }

    fn run(mut self) {
        for peer in 0..self.peers.len() {
            // So that a kill never comes before a life was told of.
            let id = self.peers[peer].id;
            if !self.host.seen.iter().any(|e| e.peer == id && e.is(MCP_SUPERVISED_EVENT_READY)) {
                self.host.until(|e| e.peer == id && e.is(MCP_SUPERVISED_EVENT_READY));
            }
        }
        for _ in 0..STEPS {
            self.step();
            let timeout = self.random.below(3) as i32;
            self.host.poll(timeout);
            self.look();
        }
        self.settle();
        for peer in 0..self.peers.len() {
            let pid = self.host.pid(self.peers[peer].id);
            self.peers[peer].seen.extend(tree(pid));
            assert_eq!(self.host.close(self.peers[peer].id), 0);
        }
        while self.peers.iter().any(|peer| self.host.state(peer.id) != MCP_SUPERVISED_STATE_CLOSED as i32) {
            self.host.poll(1000);
        }
        while !self.host.poll(0).is_empty() {}
        self.look();
        for peer in &self.peers {
            assert!(peer.open.is_empty(), "{} did not complete", peer.open.len());
            let left: Vec<_> = peer.seen.iter().filter(|pid| lives(**pid)).collect();
            assert!(left.is_empty(), "{left:?}");
        }
    }

    /// The completion of a request that was just made; the ids of two peers are the same.
    fn completion(&mut self, peer: u64, id: u64) -> Event {
        let of = |e: &Event| e.peer == peer && e.request == id && e.is_complete();
        if !self.host.seen.iter().any(of) {
            self.host.until(of);
        }
        self.look();
        self.host.seen.iter().rfind(|e| of(e)).expect("it was seen").clone()
    }

    /// When nothing dies any more, every peer serves, and every stream that is open is told what it is for.
    fn settle(&mut self) {
        for at in 0..self.peers.len() {
            let peer = self.peers[at].id;
            // A life that was told to end may still be ending: whoever answers two calls in a row is there to stay, since
            // every earlier call was answered before.
            let mut last = 0;
            let mut same = 0;
            while same < 2 {
                let Ok(id) = self.host.try_ask(peer, "tools/call", r#"{"name":"pid"}"#, None) else {
                    self.host.poll(10);
                    self.look();
                    continue;
                };
                self.peers[at].open.insert(id, Open::Any);
                let done = self.completion(peer, id);
                let answered =
                    if done.is(MCP_SUPERVISED_EVENT_MESSAGE) { done.tool_text().parse().unwrap() } else { 0 };
                same = if answered == last && answered != 0 { same + 1 } else { 0 };
                last = answered;
            }
            let streams: Vec<(u64, Value)> = self.peers[at]
                .open
                .iter()
                .filter_map(|(id, open)| match open {
                    Open::Stream(filter) => Some((*id, filter.clone())),
                    _ => None,
                })
                .collect();
            for (stream, filter) in streams {
                let uris = filter["resourceSubscriptions"].as_array().cloned().unwrap_or_default();
                let Some(uri) = uris.iter().find(|uri| uri.as_str().is_some_and(|uri| uri != "mem://other")) else {
                    continue;
                };
                let from = self.host.seen.len();
                let told = |e: &Event| e.peer == peer && e.request == stream && e.method == UPDATED;
                let params = json!({"name": "updated", "arguments": {"uri": uri}}).to_string();
                let id = self.host.try_ask(peer, "tools/call", params, None).expect("it serves");
                self.peers[at].open.insert(id, Open::Any);
                if !self.host.seen[from..].iter().any(told) {
                    self.host.until(told);
                }
                self.completion(peer, id);
            }
        }
    }
}

/// Whether a stream asked for this.
fn belongs(event: &Event, filter: &Value) {
    let message = event.json();
    let kind = match message["method"].as_str().unwrap_or_default() {
        "notifications/tools/list_changed" => "toolsListChanged",
        "notifications/prompts/list_changed" => "promptsListChanged",
        "notifications/resources/list_changed" => "resourcesListChanged",
        "notifications/resources/updated" => {
            let uri = message["params"]["uri"].as_str().expect("a text");
            let part_of = |whole: &Value| {
                let rest = uri.strip_prefix(whole.as_str().expect("a text"));
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let wanted = filter["resourceSubscriptions"].as_array().is_some_and(|uris| uris.iter().any(part_of));
            assert!(wanted, "{filter}: {event:?}");
            return;
        }
        _ => {
            assert_eq!(event.method, ACKNOWLEDGED, "{event:?}");
            let accepted = message["params"]["notifications"].as_object().expect("an object").clone();
            for (key, value) in accepted {
                match value.as_array() {
                    Some(uris) => {
                        let asked = filter[&key].as_array().expect("a list");
                        assert!(uris.iter().all(|uri| asked.contains(uri)), "{filter}: {event:?}");
                    }
                    None => assert_eq!(filter[&key], value, "{filter}: {event:?}"),
                }
            }
            return;
        }
    };
    assert_eq!(filter[kind], json!(true), "{event:?}");
}

#[test]
fn z03_random_histories_of_every_revision() {
    let most = std::env::var("ERA_HISTORIES").ok().and_then(|most| most.parse().ok()).unwrap_or(4);
    for seed in 1..=most {
        println!("history {seed}");
        World::new(seed).run();
    }
}
