//! A host over the C interface, for tests: every call goes through the exported functions, events are copied out.
//!
//! Nothing here sleeps. Tests wait for events with `Host::until`, under one generous deadline that only a hang can reach.

#![allow(dead_code, unused_imports, reason = "each test file uses its part")]

use std::ffi::c_char;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;
use std::time::{Duration, Instant};

pub use mcp_supervised::ffi::config::*;
pub use mcp_supervised::ffi::event::*;
pub use mcp_supervised::ffi::guard::mcp_supervised as RawHandle;
pub use mcp_supervised::ffi::handle::*;
pub use mcp_supervised::ffi::limits::*;
pub use mcp_supervised::ffi::peer::*;
pub use mcp_supervised::ffi::respond::*;
pub use mcp_supervised::ffi::spec::*;
pub use mcp_supervised::ffi::spec_client::*;
pub use mcp_supervised::ffi::status::*;
pub use mcp_supervised::ffi::traffic::*;

/// What only a hang reaches.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The demo server, which is every test's fixture.
pub fn demo_server() -> &'static str {
    env!("CARGO_BIN_EXE_mcp-supervised-demo-server")
}

/// An event, copied out.
#[derive(Debug, Clone)]
pub struct Event {
    pub kind: u32,
    pub flags: u32,
    pub peer: u64,
    pub peer_data: u64,
    pub request: u64,
    pub user_data: u64,
    pub status: i32,
    pub message_kind: u32,
    pub error_code: i64,
    pub exit_code: i32,
    pub signal: i32,
    pub pid: i32,
    pub life: u32,
    pub attempt: u32,
    pub max_restarts: u32,
    pub delay_ms: u64,
    pub uptime_ms: u64,
    pub count: u64,
    pub unread_from: u64,
    pub era: u32,
    pub payload: Vec<u8>,
    pub method: Vec<u8>,
    pub body: Vec<u8>,
    pub id: Vec<u8>,
}

impl Event {
    /// Copies an event whose payload is still valid.
    pub fn copy(e: &mcp_supervised_event) -> Self {
        let bytes = |at: *const c_char, len: usize| {
            if at.is_null() {
                assert_eq!(len, 0);
                return Vec::new();
            }
            // SAFETY: the library promises `len` bytes until the next poll.
            unsafe { std::slice::from_raw_parts(at.cast::<u8>(), len) }.to_vec()
        };
        if !e.payload.is_null() {
            // SAFETY: the payload alone is followed by a NUL.
            assert_eq!(unsafe { *e.payload.add(e.payload_len) }, 0, "the payload ends with a NUL");
        }
        Self {
            kind: e.kind,
            flags: e.flags,
            peer: e.peer,
            peer_data: e.peer_data,
            request: e.request,
            user_data: e.user_data,
            status: e.status,
            message_kind: e.message_kind,
            error_code: e.error_code,
            exit_code: e.exit_code,
            signal: e.signal,
            pid: e.pid,
            life: e.life,
            attempt: e.attempt,
            max_restarts: e.max_restarts,
            delay_ms: e.delay_ms,
            uptime_ms: e.uptime_ms,
            count: e.count,
            unread_from: e.unread_from,
            era: e.era,
            payload: bytes(e.payload, e.payload_len),
            method: bytes(e.method, e.method_len),
            body: bytes(e.body, e.body_len),
            id: bytes(e.id, e.id_len),
        }
    }

    pub fn is(&self, kind: mcp_supervised_event_kind) -> bool {
        self.kind == kind as u32
    }

    pub fn is_complete(&self) -> bool {
        self.flags & MCP_SUPERVISED_FLAG_COMPLETE != 0
    }

    pub fn is_final(&self) -> bool {
        self.flags & MCP_SUPERVISED_FLAG_FINAL != 0
    }

    pub fn will_reconnect(&self) -> bool {
        self.flags & MCP_SUPERVISED_FLAG_WILL_RECONNECT != 0
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.payload.clone()).expect("payloads are UTF-8")
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.payload).expect("the payload is JSON")
    }

    /// The text a tool of the demo server answered.
    pub fn tool_text(&self) -> String {
        self.json()["result"]["content"][0]["text"].as_str().expect("a tool's answer").to_owned()
    }

    /// The letter by which the rules call this kind.
    pub fn letter(&self) -> &'static str {
        match self.kind {
            1 => "M",
            2 => "C",
            3 => "R",
            4 => "E",
            5 => "X",
            6 => "READY",
            7 => "D",
            8 => "LOG",
            9 => "WRITABLE",
            11 => "WAKEUP",
            12 => "SHUTDOWN",
            _ => "?",
        }
    }
}

/// The kinds of events as the rules write them, log lines left out: "M M D C R".
pub fn letters(events: &[Event]) -> String {
    events.iter().map(Event::letter).filter(|l| *l != "LOG").collect::<Vec<_>>().join(" ")
}

/// A spec under construction; every setter must succeed.
pub struct Spec {
    spec: *mut mcp_supervised_spec,
    /// How much of what the library writes to the server is as it should be; nothing is the library's in raw mode.
    judged: Option<Judged>,
}

macro_rules! text {
    ($s:expr) => {{
        let bytes: &[u8] = $s.as_ref();
        (bytes.as_ptr().cast::<c_char>(), bytes.len())
    }};
}

impl Spec {
    pub fn new(program: impl AsRef<[u8]>) -> Self {
        let mut spec = ptr::null_mut();
        let (at, len) = text!(program);
        // SAFETY: valid text, and a place for the result.
        assert_eq!(unsafe { mcp_supervised_spec_new(at, len, &mut spec) }, 0);
        Self { spec, judged: Some(Judged::Whole) }
    }

    /// The host says nonsense to this server on purpose: only so much of the recorded lines is looked at.
    pub fn judged(mut self, judged: Judged) -> Self {
        self.judged = Some(judged);
        self
    }

    /// The demo server in raw mode, with flags.
    pub fn demo(flags: &[&str]) -> Self {
        flags.iter().fold(Self::new(demo_server()).mode(MCP_SUPERVISED_MODE_RAW), |spec, flag| spec.arg(flag))
    }

    /// The demo server with the protocol client on, with flags.
    pub fn modern(flags: &[&str]) -> Self {
        flags.iter().fold(Self::new(demo_server()).mode(MCP_SUPERVISED_MODE_MODERN), |spec, flag| spec.arg(flag))
    }

    /// The demo server as one of the older revisions that ends itself when a rule of theirs is broken, in the default mode.
    pub fn legacy(revision: &str, flags: &[&str]) -> Self {
        let spec = Self::new(demo_server()).arg("--legacy").arg(revision).arg("--strict");
        flags.iter().fold(spec, |spec, flag| spec.arg(flag))
    }

    /// The demo server in the default mode.
    pub fn auto(flags: &[&str]) -> Self {
        flags.iter().fold(Self::new(demo_server()), |spec, flag| spec.arg(flag))
    }

    /// How long a life may take to begin.
    pub fn start_timeouts(self, probe_ms: u64, start_ms: u64) -> Self {
        // SAFETY: a live spec.
        let status = unsafe { mcp_supervised_spec_start_timeouts(self.raw(), probe_ms, start_ms) };
        self.ok(status)
    }

    /// Lost requests that only read are sent again.
    pub fn retry(self) -> Self {
        // SAFETY: a live spec.
        let status = unsafe { mcp_supervised_spec_retry_lost_requests(self.spec, 1) };
        self.ok(status)
    }

    /// What is known of the server is asked for again after a restart.
    pub fn rediscover(self) -> Self {
        // SAFETY: a live spec.
        let status = unsafe { mcp_supervised_spec_rediscover(self.spec, 1) };
        self.ok(status)
    }

    /// Timeouts of its requests.
    pub fn timeouts(self, idle_ms: u64, max_ms: u64) -> Self {
        // SAFETY: a live spec.
        let status = unsafe { mcp_supervised_spec_request_timeouts(self.spec, idle_ms, max_ms) };
        self.ok(status)
    }

    /// A host that does not keep up loses notifications.
    pub fn shed(self) -> Self {
        // SAFETY: a live spec.
        let status = unsafe { mcp_supervised_spec_shed(self.spec, 1) };
        self.ok(status)
    }

    /// A shell command in raw mode.
    pub fn shell(script: &str) -> Self {
        Self::new("/bin/sh").mode(MCP_SUPERVISED_MODE_RAW).arg("-c").arg(script)
    }

    pub fn raw(&self) -> *mut mcp_supervised_spec {
        self.spec
    }

    fn ok(self, status: i32) -> Self {
        assert_eq!(status, 0);
        self
    }

    pub fn arg(self, arg: impl AsRef<[u8]>) -> Self {
        let (at, len) = text!(arg);
        // SAFETY: a live spec and valid text.
        let status = unsafe { mcp_supervised_spec_arg(self.spec, at, len) };
        self.ok(status)
    }

    pub fn cwd(self, dir: impl AsRef<[u8]>) -> Self {
        let (at, len) = text!(dir);
        // SAFETY: a live spec and valid text.
        let status = unsafe { mcp_supervised_spec_cwd(self.spec, at, len) };
        self.ok(status)
    }

    pub fn env(self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        let (name, name_len) = text!(name);
        let (value, value_len) = text!(value);
        // SAFETY: a live spec and valid text.
        let status = unsafe { mcp_supervised_spec_env(self.spec, name, name_len, value, value_len) };
        self.ok(status)
    }

    pub fn env_mode(self, mode: mcp_supervised_env_mode) -> Self {
        // SAFETY: a live spec.
        let status = unsafe { mcp_supervised_spec_env_mode(self.spec, mode as u32) };
        self.ok(status)
    }

    pub fn mode(mut self, mode: mcp_supervised_mode) -> Self {
        // SAFETY: a live spec.
        let status = unsafe { mcp_supervised_spec_mode(self.spec, mode as u32) };
        self.judged = (mode as u32 != MCP_SUPERVISED_MODE_RAW as u32).then_some(Judged::Whole);
        self.ok(status)
    }

    pub fn restart(self, max: u32, delay_ms: u64, window_ms: u64) -> Self {
        // SAFETY: a live spec.
        let status = unsafe { mcp_supervised_spec_restart(self.spec, max, delay_ms, window_ms) };
        self.ok(status)
    }

    pub fn stop_grace(self, close_ms: u64, kill_ms: u64) -> Self {
        // SAFETY: a live spec.
        let status = unsafe { mcp_supervised_spec_stop_grace(self.spec, close_ms, kill_ms) };
        self.ok(status)
    }

    pub fn limit(self, kind: mcp_supervised_limit, value: u64) -> Self {
        // SAFETY: a live spec.
        let status = unsafe { mcp_supervised_spec_limit(self.spec, kind as u32, value) };
        self.ok(status)
    }

    pub fn stderr(self, mode: mcp_supervised_stderr_mode) -> Self {
        // SAFETY: a live spec.
        let status = unsafe { mcp_supervised_spec_stderr(self.spec, mode as u32) };
        self.ok(status)
    }
}

impl Drop for Spec {
    fn drop(&mut self) {
        // SAFETY: made by `spec_new`, not used again.
        unsafe { mcp_supervised_spec_free(self.spec) };
    }
}

/// A handle and the events taken from it so far.
pub struct Host {
    handle: *mut RawHandle,
    /// Every event taken, in order.
    pub seen: Vec<Event>,
    /// How many events one poll asks for.
    pub batch: usize,
}

// SAFETY: a handle may be used by any thread, one at a time, which `&mut self` sees to.
unsafe impl Send for Host {}

impl Host {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// With a clock that the test moves.
    pub fn with_manual_clock() -> Self {
        Self::with(|config| {
            // SAFETY: a live config.
            assert_eq!(unsafe { mcp_supervised_config_manual_clock(config, 1) }, 0);
        })
    }

    pub fn with(configure: impl FnOnce(*mut mcp_supervised_config)) -> Self {
        let mut config = ptr::null_mut();
        // SAFETY: a place for the result.
        assert_eq!(unsafe { mcp_supervised_config_new(&mut config) }, 0);
        configure(config);
        let mut handle = ptr::null_mut();
        let mut why = [0 as c_char; 256];
        // SAFETY: a live config, a place for the result and for the text.
        let status = unsafe { mcp_supervised_new(config, &mut handle, why.as_mut_ptr(), why.len()) };
        // SAFETY: made above, not used again.
        unsafe { mcp_supervised_config_free(config) };
        // SAFETY: the text is NUL-terminated.
        assert_eq!(status, 0, "{:?}", unsafe { std::ffi::CStr::from_ptr(why.as_ptr()) });
        Self { handle, seen: Vec::new(), batch: 64 }
    }

    pub fn raw(&self) -> *mut RawHandle {
        self.handle
    }

    pub fn fd(&self) -> RawFd {
        // SAFETY: a live handle.
        unsafe { mcp_supervised_fd(self.handle) }
    }

    /// Whether the descriptor says that a poll would do something.
    pub fn is_readable(&self) -> bool {
        self.wait_readable(Duration::ZERO)
    }

    /// Waits for the descriptor, as a host with a loop of its own does.
    pub fn wait_readable(&self, most: Duration) -> bool {
        // SAFETY: the descriptor lives as long as the handle.
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd()) };
        let seen = mcp_supervised::sys::io::wait(fd, libc::POLLIN, most.as_millis() as i32).unwrap();
        seen & libc::POLLIN != 0
    }

    pub fn last_error(&self) -> String {
        let mut text = ptr::null();
        let mut len = 0;
        // SAFETY: a live handle and places for the results.
        assert_eq!(unsafe { mcp_supervised_last_error(self.handle, &mut text, &mut len) }, 0);
        // SAFETY: the library promises `len` bytes until the next call.
        let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len) };
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    pub fn try_add(&mut self, spec: &Spec, data: u64) -> Result<u64, i32> {
        if let Some(folder) = spec.judged.and_then(Judged::folder) {
            let ((name, name_len), (value, value_len)) =
                (text!(recorded::OF_THE_SERVER), text!(folder.as_os_str().as_encoded_bytes()));
            // SAFETY: a live spec and valid text.
            assert_eq!(unsafe { mcp_supervised_spec_env(spec.raw(), name, name_len, value, value_len) }, 0);
        }
        let mut peer = 0;
        // SAFETY: live objects and a place for the result.
        match unsafe { mcp_supervised_add(self.handle, spec.raw(), data, &mut peer) } {
            0 => Ok(peer),
            status => Err(status),
        }
    }

    pub fn add(&mut self, spec: &Spec) -> u64 {
        match self.try_add(spec, 0) {
            Ok(peer) => peer,
            Err(status) => panic!("add answered {status}: {}", self.last_error()),
        }
    }

    pub fn start(&mut self, peer: u64) -> i32 {
        // SAFETY: a live handle.
        unsafe { mcp_supervised_start(self.handle, peer) }
    }

    /// Adds and starts.
    pub fn launch(&mut self, spec: &Spec) -> u64 {
        let peer = self.add(spec);
        let status = self.start(peer);
        assert_eq!(status, 0, "{}", self.last_error());
        peer
    }

    pub fn close(&mut self, peer: u64) -> i32 {
        // SAFETY: a live handle.
        unsafe { mcp_supervised_close(self.handle, peer) }
    }

    pub fn remove(&mut self, peer: u64) -> i32 {
        // SAFETY: a live handle.
        unsafe { mcp_supervised_remove(self.handle, peer) }
    }

    pub fn state(&self, peer: u64) -> i32 {
        // SAFETY: a live handle.
        unsafe { mcp_supervised_state(self.handle, peer) }
    }

    pub fn pid(&self, peer: u64) -> i32 {
        // SAFETY: a live handle.
        unsafe { mcp_supervised_pid(self.handle, peer) }
    }

    pub fn wakeup(&self) -> i32 {
        // SAFETY: a live handle.
        unsafe { mcp_supervised_wakeup(self.handle) }
    }

    pub fn advance_ms(&mut self, ms: u64) {
        // SAFETY: a live handle.
        assert_eq!(unsafe { mcp_supervised_advance(self.handle, ms * 1_000_000) }, 0);
    }

    pub fn shutdown(&mut self, grace_ms: u64) -> i32 {
        // SAFETY: a live handle.
        unsafe { mcp_supervised_shutdown(self.handle, grace_ms) }
    }

    pub fn try_send(&mut self, peer: u64, line: impl AsRef<[u8]>) -> Result<u64, i32> {
        let (at, len) = text!(line);
        let mut number = 0;
        // SAFETY: a live handle, valid text, a place for the result.
        match unsafe { mcp_supervised_send(self.handle, peer, at, len, &mut number) } {
            0 => Ok(number),
            status => Err(status),
        }
    }

    pub fn send(&mut self, peer: u64, line: impl AsRef<[u8]>) -> u64 {
        match self.try_send(peer, line) {
            Ok(number) => number,
            Err(status) => panic!("send answered {status}: {}", self.last_error()),
        }
    }

    /// Sends a request of the 2026-07-28 revision.
    pub fn request(&mut self, peer: u64, id: &str, method: &str, params: serde_json::Value) -> u64 {
        self.send(peer, request_line(id, method, params))
    }

    /// Calls a tool of the demo server.
    pub fn call(&mut self, peer: u64, id: &str, tool: &str, arguments: serde_json::Value) -> u64 {
        self.request(peer, id, "tools/call", serde_json::json!({"name": tool, "arguments": arguments}))
    }

    /// Sends a request through the protocol client.
    pub fn try_ask(
        &mut self,
        peer: u64,
        method: &str,
        params: impl AsRef<[u8]>,
        options: Option<&mcp_supervised_request_options>,
    ) -> Result<u64, i32> {
        let (method, method_len) = text!(method);
        let (params, params_len) = text!(params);
        let options = options.map_or(ptr::null(), ptr::from_ref);
        let mut id = 0;
        // SAFETY: a live handle, valid texts, options or NULL, a place for the result.
        let status = unsafe {
            mcp_supervised_request(self.handle, peer, method, method_len, params, params_len, options, &mut id)
        };
        if status == 0 { Ok(id) } else { Err(status) }
    }

    /// Sends a request that must be accepted.
    pub fn ask(&mut self, peer: u64, method: &str, params: serde_json::Value) -> u64 {
        match self.try_ask(peer, method, params.to_string(), None) {
            Ok(id) => id,
            Err(status) => panic!("request answered {status}: {}", self.last_error()),
        }
    }

    /// Calls a tool of the demo server through the protocol client.
    pub fn ask_tool(&mut self, peer: u64, tool: &str, arguments: serde_json::Value) -> u64 {
        self.ask(peer, "tools/call", serde_json::json!({"name": tool, "arguments": arguments}))
    }

    /// Sends a notification.
    pub fn notify(&mut self, peer: u64, method: &str, params: impl AsRef<[u8]>) -> i32 {
        let (method, method_len) = text!(method);
        let (params, params_len) = text!(params);
        // SAFETY: a live handle and valid texts.
        unsafe { mcp_supervised_notify(self.handle, peer, method, method_len, params, params_len) }
    }

    /// Opens a stream.
    pub fn listen(&mut self, peer: u64, filter: serde_json::Value, user_data: u64) -> u64 {
        let filter = filter.to_string();
        let (at, len) = text!(filter);
        let mut id = 0;
        // SAFETY: a live handle, valid text, a place for the result.
        let status = unsafe { mcp_supervised_listen(self.handle, peer, at, len, user_data, &mut id) };
        assert_eq!(status, 0, "{}", self.last_error());
        id
    }

    pub fn cancel(&mut self, peer: u64, request: u64, reason: &str) -> i32 {
        let (at, len) = text!(reason);
        // SAFETY: a live handle and valid text.
        unsafe { mcp_supervised_cancel(self.handle, peer, request, at, len) }
    }

    /// Answers a request of the server.
    pub fn respond(&mut self, peer: u64, token: u64, result: impl AsRef<[u8]>) -> i32 {
        let (at, len) = text!(result);
        // SAFETY: a live handle and valid text.
        unsafe { mcp_supervised_respond(self.handle, peer, token, at, len) }
    }

    /// Answers a request of the server with an error.
    pub fn respond_error(&mut self, peer: u64, token: u64, code: i64, message: &str, data: &str) -> i32 {
        let ((at, len), (data, data_len)) = (text!(message), text!(data));
        // SAFETY: a live handle and valid texts.
        unsafe { mcp_supervised_respond_error(self.handle, peer, token, code, at, len, data, data_len) }
    }

    /// Polls until a request or stream completes, and gives that event.
    pub fn completion(&mut self, id: u64) -> Event {
        let of = |e: &Event| e.request == id && e.is_complete();
        if let Some(seen) = self.seen.iter().find(|e| of(e)) {
            return seen.clone();
        }
        self.until(of).into_iter().find(of).expect("it was seen")
    }

    /// serverInfo and whether it is stale.
    pub fn server_info(&mut self, peer: u64) -> (String, bool) {
        self.lent(peer, mcp_supervised_server_info)
    }

    /// Capabilities and whether they are stale.
    pub fn server_capabilities(&mut self, peer: u64) -> (String, bool) {
        self.lent(peer, mcp_supervised_server_capabilities)
    }

    fn lent(
        &mut self,
        peer: u64,
        ask: unsafe extern "C" fn(*mut RawHandle, u64, *mut *const c_char, *mut usize) -> i32,
    ) -> (String, bool) {
        let mut text = ptr::null();
        let mut len = 0;
        // SAFETY: a live handle and places for the results.
        let status = unsafe { ask(self.handle, peer, &mut text, &mut len) };
        assert!(status == 0 || status == MCP_SUPERVISED_STALE, "{}", self.last_error());
        // SAFETY: the library promises `len` bytes until the next call.
        let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len) };
        (String::from_utf8(bytes.to_vec()).unwrap(), status == MCP_SUPERVISED_STALE)
    }

    /// One poll of up to `batch` events. They are also kept in `seen`.
    pub fn poll(&mut self, timeout_ms: i32) -> Vec<Event> {
        let mut events = vec![EMPTY; self.batch];
        // SAFETY: a live handle, and an array of that many events.
        let given =
            unsafe { mcp_supervised_poll(self.handle, events.as_mut_ptr(), size_of_event(), events.len(), timeout_ms) };
        assert!(given >= 0, "poll answered {given}: {}", self.last_error());
        let events: Vec<Event> = events[..given as usize].iter().map(Event::copy).collect();
        self.seen.extend(events.iter().cloned());
        events
    }

    /// Polls until `enough` says so of an event, and gives everything taken up to the end of that poll.
    pub fn until(&mut self, mut enough: impl FnMut(&Event) -> bool) -> Vec<Event> {
        let from = self.seen.len();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).as_millis() as i32;
            assert!(left > 0, "waited in vain; taken so far: {:#?}", &self.seen[from..]);
            let events = self.poll(left.min(1000));
            if events.iter().any(&mut enough) {
                return self.seen[from..].to_vec();
            }
        }
    }

    /// Polls until the answer with this string id is there.
    pub fn answer(&mut self, id: &str) -> Event {
        let quoted = format!("\"{id}\"").into_bytes();
        let taken = self.until(|e| e.is(MCP_SUPERVISED_EVENT_MESSAGE) && e.id == quoted);
        taken.into_iter().find(|e| e.id == quoted).expect("it was seen")
    }

    /// Polls until an event of that kind is there, and gives the first one.
    pub fn next(&mut self, kind: mcp_supervised_event_kind) -> Event {
        let taken = self.until(|e| e.is(kind));
        taken.into_iter().find(|e| e.is(kind)).expect("it was seen")
    }

    /// Frees the handle.
    pub fn free(mut self) -> i32 {
        let handle = std::mem::replace(&mut self.handle, ptr::null_mut());
        // SAFETY: a live handle that is not used again.
        unsafe { mcp_supervised_free(handle) }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: a live handle, or NULL.
        unsafe { mcp_supervised_free(self.handle) };
    }
}

/// sizeof(mcp_supervised_event).
pub const fn size_of_event() -> usize {
    size_of::<mcp_supervised_event>()
}

/// The line of a request of the 2026-07-28 revision.
pub fn request_line(id: &str, method: &str, mut params: serde_json::Value) -> String {
    params["_meta"] = serde_json::json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    serde_json::json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// SIGKILL to one process.
pub fn kill9(pid: i32) {
    assert!(pid > 1);
    // SAFETY: takes two numbers; the process is a child of this test that was not reaped.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
}

/// Descriptors this process has open.
pub fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Children of this process, zombies included.
pub fn children() -> Vec<i32> {
    let mut all = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let list = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        all.extend(list.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    all
}

/// The state letter of a process, `None` if there is none of that number.
pub fn state_of(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Waits until a process is gone or a zombie of somebody else.
pub fn wait_gone(pid: i32) {
    let deadline = Instant::now() + PATIENCE;
    while !matches!(state_of(pid), None | Some('Z' | 'X')) {
        assert!(Instant::now() < deadline, "process {pid} lives on");
        std::thread::yield_now();
    }
}

pub mod recorded;
pub mod watch;

mod processes;
mod requests;
pub use processes::*;
pub use recorded::Judged;
pub use requests::*;
