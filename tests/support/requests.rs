//! What the tests of the protocol client look at: lines that a server has recorded, options of requests, texts of events.

use serde_json::Value;

use super::*;

impl Spec {
    /// What servers are told of the host.
    pub fn client_info(self, name: &str, version: &str) -> Self {
        let ((name, name_len), (version, version_len)) = (text(name), text(version));
        // SAFETY: a live spec and valid texts.
        let status = unsafe { mcp_supervised_spec_client_info(self.raw(), name, name_len, version, version_len) };
        assert_eq!(status, 0);
        self
    }

    /// What the host can do for servers.
    pub fn capabilities(self, json: &str) -> Self {
        let (at, len) = text(json);
        // SAFETY: a live spec and valid text.
        assert_eq!(unsafe { mcp_supervised_spec_client_capabilities(self.raw(), at, len) }, 0);
        self
    }

    /// The log messages that servers are asked for.
    pub fn server_log_level(self, level: &str) -> Self {
        let (at, len) = text(level);
        // SAFETY: a live spec and valid text.
        assert_eq!(unsafe { mcp_supervised_spec_server_log_level(self.raw(), at, len) }, 0);
        self
    }
}

impl Host {
    /// Polls until a log line with that text was taken, if it was not already.
    pub fn await_log(&mut self, text: &str) -> String {
        let with = |e: &Event| e.is(MCP_SUPERVISED_EVENT_LOG) && e.text().contains(text);
        if !self.seen.iter().any(with) {
            self.until(with);
        }
        self.seen.iter().find(|e| with(e)).expect("it was seen").text()
    }

    /// Drives the library, taking nothing, until the server has nothing more to write.
    pub fn until_written(&mut self, pid: i32) {
        let mut before = None;
        loop {
            self.drive();
            watch::settle(&[pid]);
            let now = Some((watch::written_by(pid), watch::read_by(pid), watch::switches(pid)));
            if now == before {
                return;
            }
            before = now;
        }
    }

    /// Polls until a stream is acknowledged for the `times`-th time, and gives that acknowledgement.
    pub fn acknowledged(&mut self, stream: u64, times: usize) -> Event {
        let of = |e: &Event| e.request == stream && e.method == b"notifications/subscriptions/acknowledged";
        while self.seen.iter().filter(|e| of(e)).count() < times {
            self.until(of);
        }
        self.seen.iter().filter(|e| of(e)).nth(times - 1).expect("it was seen").clone()
    }
}

fn text(text: &str) -> (*const c_char, usize) {
    (text.as_ptr().cast(), text.len())
}

/// The lines of a `--record` file.
pub fn read_lines(record: &str) -> Vec<Value> {
    record.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect()
}

/// The methods of recorded lines.
pub fn methods(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["method"].as_str().expect("a client writes requests and notifications")).collect()
}

/// Options with some fields set.
pub fn options(set: impl FnOnce(&mut mcp_supervised_request_options)) -> mcp_supervised_request_options {
    let mut options = mcp_supervised_request_options {
        size: size_of::<mcp_supervised_request_options>(),
        user_data: 0,
        timeout_ms: 0,
        max_timeout_ms: 0,
        flags: 0,
        reserved: 0,
    };
    set(&mut options);
    options
}

/// The texts of all events of a kind so far.
pub fn texts(host: &Host, kind: mcp_supervised_event_kind) -> Vec<String> {
    host.seen.iter().filter(|e| e.is(kind)).map(Event::text).collect()
}

/// The completion of a request among events.
pub fn completion_of(events: &[Event], id: u64) -> Option<&Event> {
    events.iter().find(|e| e.request == id && e.is_complete())
}

/// Has the flag.
pub fn has(event: &Event, flag: u32) -> bool {
    event.flags & flag != 0
}
