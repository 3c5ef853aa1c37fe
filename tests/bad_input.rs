//! Everything a host can get wrong in one call: it is told what, and nothing has changed (H3, H4, H5).
//!
//! One table has a row for each function and each argument; a function that is exported without a row fails the test.

#[path = "bad_input/client.rs"]
mod client;
mod support;

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char};
use std::fmt::Debug;
use std::mem::size_of;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use mcp_supervised::ffi::bytes::MCP_SUPERVISED_CSTR;
use support::*;

use mcp_supervised_status as Status;

/// Functions without an argument.
const TAKE_NOTHING: [&str; 2] = ["abi_version", "version"];

/// What an out parameter holds before a call that must not write it.
const SENTINEL: u64 = 0x5e41_11e1_5e41_11e1;

/// One test at a time: the memory of a handle that one of them freed must not become a handle of another while it is looked at.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the calls are made on: a handle with a peer of every sort, and a spec and a config that must stay as they are.
struct Stage {
    host: Host,
    idle: u64,
    /// In raw mode.
    running: u64,
    /// With the protocol client.
    modern: u64,
    closed: u64,
    /// An id whose slot another peer has now.
    removed: u64,
    spec: Spec,
    config: *mut mcp_supervised_config,
}

impl Stage {
    fn new() -> Self {
        let mut host = Host::new();
        let spec = Spec::demo(&[]);
        let removed = host.add(&spec);
        assert_eq!(host.remove(removed), 0);
        let idle = host.add(&Spec::modern(&[]));
        assert_eq!(idle as u32, removed as u32, "the slot is used again");
        let running = host.launch(&Spec::demo(&[]).limit(MCP_SUPERVISED_LIMIT_OUTBOUND_BYTES, 4096));
        let modern = host.launch(&Spec::modern(&[]).limit(MCP_SUPERVISED_LIMIT_OUTBOUND_BYTES, 4096));
        let closed = host.add(&Spec::modern(&[]));
        assert_eq!(host.close(closed), 0);
        host.until(Event::is_final);
        let mut config = ptr::null_mut();
        // SAFETY: a place for the result.
        assert_eq!(unsafe { mcp_supervised_config_new(&mut config) }, 0);
        Self { host, idle, running, modern, closed, removed, spec, config }
    }

    fn raw(&self) -> *mut RawHandle {
        self.host.raw()
    }

    /// Everything that a refused call could have changed.
    fn snapshot(&mut self) -> String {
        assert!(self.host.poll(0).is_empty(), "a refused call led to an event");
        let peers = [self.idle, self.running, self.modern, self.closed]
            .map(|peer| (self.host.state(peer), self.host.pid(peer)));
        // SAFETY: both live, and nobody else uses them.
        let (spec, config) = unsafe { (&*self.spec.raw(), &*self.config) };
        format!("{peers:?} {} {spec:?} {config:?}", self.host.fd())
    }

    /// Makes some call fail, so that a text that was not renewed is seen. Not by the function that is about to be tested.
    fn leave_a_text(&self, function: &str) {
        let status = if function == "add" {
            // SAFETY: a live handle; without a manual clock this is refused.
            unsafe { mcp_supervised_advance(self.raw(), 1) }
        } else {
            // SAFETY: a live handle; a NULL spec is refused.
            unsafe { mcp_supervised_add(self.raw(), ptr::null(), 0, ptr::null_mut()) }
        };
        assert!(status < 0);
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // SAFETY: made by `config_new`, not used again.
        unsafe { mcp_supervised_config_free(self.config) };
    }
}

type Call = Box<dyn Fn(&Stage) -> i32>;

/// One thing to get wrong.
struct Row {
    /// Without its prefix.
    function: &'static str,
    case: String,
    status: Status,
    /// What `last_error` says afterwards; `None` where it stays as it was.
    names: Option<String>,
    call: Call,
}

#[derive(Default)]
struct Table(Vec<Row>);

impl Table {
    /// A call whose handle has a text to tell afterwards.
    fn told(
        &mut self,
        function: &'static str,
        case: impl Into<String>,
        status: Status,
        names: &str,
        call: impl Fn(&Stage) -> i32 + 'static,
    ) {
        let names = Some(names.to_owned());
        self.0.push(Row { function, case: case.into(), status, names, call: Box::new(call) });
    }

    /// A call without a handle, or with one that is none.
    fn untold(
        &mut self,
        function: &'static str,
        case: impl Into<String>,
        status: Status,
        call: impl Fn(&Stage) -> i32 + 'static,
    ) {
        self.0.push(Row { function, case: case.into(), status, names: None, call: Box::new(call) });
    }
}

/// Makes a call with an out parameter, which must keep its value.
fn untouched<T: Copy + PartialEq + Debug>(before: T, call: impl FnOnce(*mut T) -> i32) -> i32 {
    let mut place = before;
    let status = call(&mut place);
    assert_eq!(place, before, "an out parameter was written by a call that was refused");
    status
}

fn sentinel<T>() -> *mut T {
    ptr::without_provenance_mut(SENTINEL as usize)
}

fn text(text: &str) -> (*const c_char, usize) {
    (text.as_ptr().cast(), text.len())
}

type OnHandle = fn(*mut RawHandle, &Stage) -> i32;

/// Every function with a handle, called with good arguments otherwise.
const ON_A_HANDLE: [(&str, OnHandle); 21] = [
    ("add", |h, s| {
        // SAFETY: the handle is the subject; the rest is good.
        untouched(SENTINEL, |peer| unsafe { mcp_supervised_add(h, s.spec.raw(), 0, peer) })
    }),
    // SAFETY: as above.
    ("advance", |h, _| unsafe { mcp_supervised_advance(h, 0) }),
    ("cancel", |h, s| client::cancel(h, s.modern, 1)),
    // SAFETY: as above.
    ("close", |h, s| unsafe { mcp_supervised_close(h, s.running) }),
    // SAFETY: as above.
    ("fd", |h, _| unsafe { mcp_supervised_fd(h) }),
    ("last_error", |h, _| {
        // SAFETY: as above.
        untouched(sentinel::<c_char>().cast_const(), |at| unsafe { mcp_supervised_last_error(h, at, ptr::null_mut()) })
    }),
    ("listen", |h, s| client::listen(h, s.modern)),
    ("respond", |h, s| client::respond(h, s.modern)),
    ("respond_error", |h, s| client::respond_error(h, s.modern)),
    ("notify", |h, s| client::notify(h, s.modern)),
    // SAFETY: as above.
    ("pid", |h, s| unsafe { mcp_supervised_pid(h, s.running) }),
    // SAFETY: as above.
    ("poll", |h, _| unsafe { mcp_supervised_poll(h, ptr::null_mut(), size_of_event(), 0, 0) }),
    // SAFETY: as above.
    ("remove", |h, s| unsafe { mcp_supervised_remove(h, s.idle) }),
    ("request", |h, s| client::request(h, s.modern)),
    ("send", |h, s| {
        let (at, len) = text(r#"{"jsonrpc":"2.0","method":"x"}"#);
        // SAFETY: as above.
        untouched(SENTINEL, |number| unsafe { mcp_supervised_send(h, s.running, at, len, number) })
    }),
    ("server_capabilities", |h, s| client::server_capabilities(h, s.modern)),
    ("server_info", |h, s| client::server_info(h, s.modern)),
    // SAFETY: as above.
    ("shutdown", |h, _| unsafe { mcp_supervised_shutdown(h, 0) }),
    // SAFETY: as above.
    ("start", |h, s| unsafe { mcp_supervised_start(h, s.idle) }),
    // SAFETY: as above.
    ("state", |h, s| unsafe { mcp_supervised_state(h, s.running) }),
    // SAFETY: as above.
    ("wakeup", |h, _| unsafe { mcp_supervised_wakeup(h) }),
];

/// Memory that looks like nothing.
static FOREIGN: [u64; 1024] = [0; 1024];

fn foreign(offset: usize) -> *mut RawHandle {
    FOREIGN.as_ptr().cast::<u8>().wrapping_add(offset).cast_mut().cast()
}

fn wrong_handles(table: &mut Table) {
    for (function, call) in ON_A_HANDLE {
        table.untold(function, "handle NULL", Status::MCP_SUPERVISED_E_NULL, move |s| call(ptr::null_mut(), s));
        for (case, offset) in [("foreign pointer", 0), ("foreign pointer, crooked", 3)] {
            table.untold(function, case, Status::MCP_SUPERVISED_E_BAD_HANDLE, move |s| call(foreign(offset), s));
        }
    }
    // SAFETY: NULL is allowed.
    table.untold("free", "NULL", Status::MCP_SUPERVISED_OK, |_| unsafe { mcp_supervised_free(ptr::null_mut()) });
    // SAFETY: readable memory.
    table.untold("free", "foreign pointer", Status::MCP_SUPERVISED_E_BAD_HANDLE, |_| unsafe {
        mcp_supervised_free(foreign(0))
    });
    // SAFETY: NULL is allowed.
    table.untold("spec_free", "NULL", Status::MCP_SUPERVISED_OK, |_| unsafe {
        mcp_supervised_spec_free(ptr::null_mut());
        0
    });
    // SAFETY: NULL is allowed.
    table.untold("config_free", "NULL", Status::MCP_SUPERVISED_OK, |_| unsafe {
        mcp_supervised_config_free(ptr::null_mut());
        0
    });
}

/// Every function with a peer.
fn stale_peers(table: &mut Table) {
    type OnPeer = fn(*mut RawHandle, u64) -> i32;
    type Stale = fn(&Stage) -> u64;
    const ON_A_PEER: [(&str, OnPeer); 14] = [
        ("cancel", |h, peer| client::cancel(h, peer, 1)),
        ("listen", client::listen),
        ("respond", client::respond),
        ("respond_error", client::respond_error),
        ("notify", client::notify),
        ("request", client::request),
        ("server_capabilities", client::server_capabilities),
        ("server_info", client::server_info),
        // SAFETY: a live handle; the id is the subject.
        ("close", |h, peer| unsafe { mcp_supervised_close(h, peer) }),
        // SAFETY: as above.
        ("pid", |h, peer| unsafe { mcp_supervised_pid(h, peer) }),
        // SAFETY: as above.
        ("remove", |h, peer| unsafe { mcp_supervised_remove(h, peer) }),
        ("send", |h, peer| {
            let (at, len) = text(r#"{"jsonrpc":"2.0","method":"x"}"#);
            // SAFETY: as above.
            untouched(SENTINEL, |number| unsafe { mcp_supervised_send(h, peer, at, len, number) })
        }),
        // SAFETY: as above.
        ("start", |h, peer| unsafe { mcp_supervised_start(h, peer) }),
        // SAFETY: as above.
        ("state", |h, peer| unsafe { mcp_supervised_state(h, peer) }),
    ];
    const STALE: [(&str, Stale); 6] = [
        ("none", |_| 0),
        ("unknown slot", |s| s.idle + 4711),
        ("removed", |s| s.removed),
        ("a generation that is still to come", |s| s.idle + (1 << 32)),
        ("no generation", |s| s.running & 0xffff_ffff),
        ("largest number", |_| u64::MAX),
    ];
    for (function, call) in ON_A_PEER {
        for (case, peer) in STALE {
            table.told(function, format!("peer: {case}"), Status::MCP_SUPERVISED_E_NO_PEER, "no such peer", move |s| {
                call(s.raw(), peer(s))
            });
        }
    }
    // SAFETY: a live handle, in this row and the two that follow.
    table.told("start", "running", Status::MCP_SUPERVISED_E_ALREADY_STARTED, "started already", |s| unsafe {
        mcp_supervised_start(s.raw(), s.running)
    });
    // SAFETY: as above.
    table.told("start", "closed", Status::MCP_SUPERVISED_E_CLOSED, "closed", |s| unsafe {
        mcp_supervised_start(s.raw(), s.closed)
    });
    // SAFETY: as above.
    table.told("remove", "running", Status::MCP_SUPERVISED_E_NOT_CLOSED, "not closed", |s| unsafe {
        mcp_supervised_remove(s.raw(), s.running)
    });
}

/// Every argument that is a text: with lengths that cannot be, and with a NUL where none may be.
fn texts(table: &mut Table) {
    type OnText = fn(&Stage, *const c_char, usize) -> i32;
    const TEXTS: [(&str, &str, OnText); 6] = [
        ("spec_new", "program", |_, at, len| {
            // SAFETY: the text is the subject, here and below.
            untouched(sentinel(), |out| unsafe { mcp_supervised_spec_new(at, len, out) })
        }),
        // SAFETY: as above.
        ("spec_arg", "arg", |s, at, len| unsafe { mcp_supervised_spec_arg(s.spec.raw(), at, len) }),
        // SAFETY: as above.
        ("spec_cwd", "dir", |s, at, len| unsafe { mcp_supervised_spec_cwd(s.spec.raw(), at, len) }),
        ("spec_env", "name", |s, at, len| {
            let (value, value_len) = text("value");
            // SAFETY: as above.
            unsafe { mcp_supervised_spec_env(s.spec.raw(), at, len, value, value_len) }
        }),
        ("spec_env", "value", |s, at, len| {
            let (name, name_len) = text("name");
            // SAFETY: as above.
            unsafe { mcp_supervised_spec_env(s.spec.raw(), name, name_len, at, len) }
        }),
        ("send", "line", |s, at, len| {
            // SAFETY: as above.
            untouched(SENTINEL, |number| unsafe { mcp_supervised_send(s.raw(), s.running, at, len, number) })
        }),
    ];
    const TOO_LONG: usize = usize::MAX / 2 + 1;
    for (function, what, call) in TEXTS {
        let mut row = |case: &str, status, call: Call| {
            let names = (function == "send").then(|| what.to_owned());
            table.0.push(Row { function, case: format!("{what}: {case}"), status, names, call });
        };
        for len in [1, TOO_LONG, MCP_SUPERVISED_CSTR] {
            let status = Status::MCP_SUPERVISED_E_NULL;
            row(&format!("NULL with a length of {len}"), status, Box::new(move |s| call(s, ptr::null(), len)));
        }
        for len in [TOO_LONG, MCP_SUPERVISED_CSTR - 1] {
            let status = Status::MCP_SUPERVISED_E_INVALID;
            row(&format!("a length of {len}"), status, Box::new(move |s| call(s, text("a").0, len)));
        }
        row("NUL", Status::MCP_SUPERVISED_E_INVALID, Box::new(move |s| call(s, text("a\0b").0, 3)));
        if !matches!((function, what), ("spec_arg", _) | ("spec_env", "value")) {
            row("empty", Status::MCP_SUPERVISED_E_INVALID, Box::new(move |s| call(s, ptr::null(), 0)));
            row(
                "empty",
                Status::MCP_SUPERVISED_E_INVALID,
                Box::new(move |s| call(s, c"".as_ptr(), MCP_SUPERVISED_CSTR)),
            );
        }
    }
    table.untold("spec_env", "name with =", Status::MCP_SUPERVISED_E_INVALID, |s| {
        let ((name, name_len), (value, value_len)) = (text("A=B"), text("value"));
        // SAFETY: a live spec and good texts.
        unsafe { mcp_supervised_spec_env(s.spec.raw(), name, name_len, value, value_len) }
    });
}

/// Places for results that are not there.
fn results(table: &mut Table) {
    use Status::{MCP_SUPERVISED_E_INVALID as E_INVALID, MCP_SUPERVISED_E_NULL as E_NULL};
    // SAFETY: what is NULL is the subject, here and in all rows that follow.
    table.untold("config_new", "out NULL", E_NULL, |_| unsafe { mcp_supervised_config_new(ptr::null_mut()) });
    table.untold("spec_new", "out NULL", E_NULL, |_| {
        let (at, len) = text("true");
        // SAFETY: as above.
        unsafe { mcp_supervised_spec_new(at, len, ptr::null_mut()) }
    });
    table.untold("new", "out NULL", E_NULL, |s| {
        refused_new(|why, len| {
            // SAFETY: as above.
            unsafe { mcp_supervised_new(s.config, ptr::null_mut(), why, len) }
        })
        .expecting("out is NULL")
    });
    table.untold("new", "errbuf NULL with a length", E_NULL, |s| {
        // SAFETY: as above.
        untouched(sentinel(), |out| unsafe { mcp_supervised_new(s.config, out, ptr::null_mut(), 1) })
    });
    table.untold("new", "out NULL, no place for the text", E_NULL, |s| {
        // SAFETY: as above.
        unsafe { mcp_supervised_new(s.config, ptr::null_mut(), ptr::null_mut(), 0) }
    });
    table.told("add", "spec NULL", E_NULL, "spec is NULL", |s| {
        // SAFETY: as above.
        untouched(SENTINEL, |peer| unsafe { mcp_supervised_add(s.raw(), ptr::null(), 0, peer) })
    });
    // SAFETY: as above.
    table.told("add", "peer NULL", E_NULL, "peer is NULL", |s| unsafe {
        mcp_supervised_add(s.raw(), s.spec.raw(), 0, ptr::null_mut())
    });
    table.told("last_error", "text NULL", E_NULL, "text is NULL", |s| {
        // SAFETY: as above.
        untouched(SENTINEL as usize, |len| unsafe { mcp_supervised_last_error(s.raw(), ptr::null_mut(), len) })
    });
    // SAFETY: as above.
    table.told("poll", "events NULL", E_NULL, "events is NULL", |s| unsafe {
        mcp_supervised_poll(s.raw(), ptr::null_mut(), size_of_event(), 1, 0)
    });
    // SAFETY: as above.
    table.told("advance", "no manual clock", E_INVALID, "manual clock", |s| unsafe {
        mcp_supervised_advance(s.raw(), 1)
    });
    // SAFETY: any number is allowed.
    table.untold("status_name", "numbers that are none", Status::MCP_SUPERVISED_OK, |_| unsafe {
        for status in [1, 4711, i32::MAX, -(NAMES.len() as i32), -4711, i32::MIN] {
            assert_eq!(CStr::from_ptr(mcp_supervised_status_name(status)), c"?", "{status}");
        }
        0
    });
}

/// The answer of `new`, and its text.
struct RefusedNew(i32, String);

impl RefusedNew {
    fn expecting(self, text: &str) -> i32 {
        assert!(self.1.contains(text), "{:?} names {text}", self.1);
        self.0
    }
}

fn refused_new(call: impl Fn(*mut c_char, usize) -> i32) -> RefusedNew {
    let mut whole = String::new();
    let mut status = 0;
    // From room for nothing but the NUL to more than enough; what lies behind stays as it was.
    for room in [256, 1, 2, 7] {
        let mut why = [0x55; 300];
        status = call(why.as_mut_ptr(), room);
        assert!(why[room..].iter().all(|byte| *byte == 0x55), "written behind the end");
        // SAFETY: NUL-terminated, or the assertion before the next use fails inside the array.
        let text = unsafe { CStr::from_ptr(why.as_ptr()) }.to_str().unwrap().to_owned();
        assert!(text.len() < room, "the text ends inside the buffer");
        if room == 256 {
            whole = text;
        } else {
            assert_eq!(text, whole[..room - 1], "as much as fits");
        }
    }
    RefusedNew(status, whole)
}

/// Setters of specs and configs with NULL, and every number that `add` or `new` refuses.
fn numbers(table: &mut Table) {
    use Status::{MCP_SUPERVISED_E_INVALID as E_INVALID, MCP_SUPERVISED_E_NULL as E_NULL};
    type OnSpec = fn(*mut mcp_supervised_spec) -> i32;
    const SETTERS: [(&str, OnSpec); 9] = [
        // SAFETY: the spec is the subject, here and below; the texts are good.
        ("spec_arg", |spec| unsafe { mcp_supervised_spec_arg(spec, c"a".as_ptr(), MCP_SUPERVISED_CSTR) }),
        // SAFETY: as above.
        ("spec_cwd", |spec| unsafe { mcp_supervised_spec_cwd(spec, c"/".as_ptr(), MCP_SUPERVISED_CSTR) }),
        // SAFETY: as above.
        ("spec_env", |spec| unsafe { mcp_supervised_spec_env(spec, c"A".as_ptr(), 1, c"b".as_ptr(), 1) }),
        // SAFETY: as above.
        ("spec_env_mode", |spec| unsafe { mcp_supervised_spec_env_mode(spec, 1) }),
        // SAFETY: as above.
        ("spec_mode", |spec| unsafe { mcp_supervised_spec_mode(spec, 2) }),
        // SAFETY: as above.
        ("spec_restart", |spec| unsafe { mcp_supervised_spec_restart(spec, 3, 100, 60_000) }),
        // SAFETY: as above.
        ("spec_stop_grace", |spec| unsafe { mcp_supervised_spec_stop_grace(spec, 1, 1) }),
        // SAFETY: as above.
        ("spec_limit", |spec| unsafe { mcp_supervised_spec_limit(spec, 1, 1) }),
        // SAFETY: as above.
        ("spec_stderr", |spec| unsafe { mcp_supervised_spec_stderr(spec, 1) }),
    ];
    for (function, call) in SETTERS {
        table.untold(function, "spec NULL", E_NULL, move |_| call(ptr::null_mut()));
    }

    let mut refused = |function, case: String, names: String, set: Box<dyn Fn(*mut mcp_supervised_spec) -> i32>| {
        table.told(function, case, E_INVALID, &names, move |s| {
            let spec = Spec::demo(&[]);
            assert_eq!(set(spec.raw()), 0, "the setter keeps the value");
            // SAFETY: live objects.
            untouched(SENTINEL, |peer| unsafe { mcp_supervised_add(s.raw(), spec.raw(), 0, peer) })
        });
    };
    for n in [0, 5, u32::MAX] {
        // SAFETY: a live spec, here and below.
        let set = move |spec| unsafe { mcp_supervised_spec_mode(spec, n) };
        refused("spec_mode", n.to_string(), format!("mode {n}"), Box::new(set));
    }
    for n in [0, 4, u32::MAX] {
        // SAFETY: as above.
        let set = move |spec| unsafe { mcp_supervised_spec_env_mode(spec, n) };
        refused("spec_env_mode", n.to_string(), format!("env_mode {n}"), Box::new(set));
        // SAFETY: as above.
        let set = move |spec| unsafe { mcp_supervised_spec_stderr(spec, n) };
        refused("spec_stderr", n.to_string(), format!("stderr mode {n}"), Box::new(set));
    }
    for n in [0, 9, u32::MAX] {
        // SAFETY: as above.
        let set = move |spec| unsafe { mcp_supervised_spec_limit(spec, n, 1000) };
        refused("spec_limit", format!("kind {n}"), format!("limit {n}"), Box::new(set));
    }
    let limits: [(mcp_supervised_limit, &str, &[u64]); 7] = [
        (MCP_SUPERVISED_LIMIT_EVENT_QUEUE, "event_queue", &[0, (1 << 24) + 1, u64::MAX]),
        (MCP_SUPERVISED_LIMIT_EVENT_BYTES, "event_bytes", &[0, u64::MAX]),
        (MCP_SUPERVISED_LIMIT_OUTBOUND_BYTES, "outbound_bytes", &[0, 1, (1 << 30) + 1, u64::MAX]),
        (MCP_SUPERVISED_LIMIT_FRAME_BYTES, "frame_bytes", &[0, 1, (1 << 30) + 1, u64::MAX]),
        (MCP_SUPERVISED_LIMIT_LOG_LINES, "log_lines", &[0, (1 << 20) + 1, u64::MAX]),
        (MCP_SUPERVISED_LIMIT_LOG_LINE_BYTES, "log_line_bytes", &[0, 15, (1 << 20) + 1, u64::MAX]),
        (MCP_SUPERVISED_LIMIT_MAX_IN_FLIGHT, "max_in_flight", &[0, (1 << 24) + 1, u64::MAX]),
    ];
    for (kind, name, values) in limits {
        for value in values.iter().copied() {
            // SAFETY: as above.
            let set = move |spec| unsafe { mcp_supervised_spec_limit(spec, kind as u32, value) };
            refused("spec_limit", format!("{name} {value}"), format!("{name} is {value}"), Box::new(set));
        }
    }
    let budgets = [
        (0, 100, 60_000, "NO_RESTART"),
        (3, 100, 0, "restart_window is 0"),
        (3, 20_000, 60_000, "max_restarts 3 times restart_delay 20000 ms"),
        (MCP_SUPERVISED_NO_RESTART - 1, 1, 60_000, "UNLIMITED"),
        (1, u64::MAX, u64::MAX, "UNLIMITED"),
    ];
    for (max, delay, window, names) in budgets {
        // SAFETY: as above.
        let set = move |spec| unsafe { mcp_supervised_spec_restart(spec, max, delay, window) };
        refused("spec_restart", format!("{max} {delay} {window}"), names.to_owned(), Box::new(set));
    }

    type OnConfig = fn(*mut mcp_supervised_config) -> i32;
    const CONFIG: [(&str, OnConfig); 3] = [
        // SAFETY: the config is the subject.
        ("config_manual_clock", |config| unsafe { mcp_supervised_config_manual_clock(config, 1) }),
        // SAFETY: as above.
        ("config_log_level", |config| unsafe { mcp_supervised_config_log_level(config, 1) }),
        // SAFETY: as above.
        ("config_sigchld", |config| unsafe { mcp_supervised_config_sigchld(config, 1) }),
    ];
    for (function, call) in CONFIG {
        table.untold(function, "config NULL", E_NULL, move |_| call(ptr::null_mut()));
    }
    for level in [0, 4, u32::MAX] {
        table.untold("config_log_level", level.to_string(), E_INVALID, move |_| {
            let mut config = ptr::null_mut();
            // SAFETY: a place for the result.
            assert_eq!(unsafe { mcp_supervised_config_new(&mut config) }, 0);
            // SAFETY: a live config.
            assert_eq!(unsafe { mcp_supervised_config_log_level(config, level) }, 0, "the setter keeps the value");
            let status = refused_new(|why, len| {
                // SAFETY: a live config, places for the results.
                untouched(sentinel(), |out| unsafe { mcp_supervised_new(config, out, why, len) })
            })
            .expecting(&format!("log_level is {level}"));
            // SAFETY: made above, not used again.
            unsafe { mcp_supervised_config_free(config) };
            status
        });
    }
}

/// Room for two events, with a pattern in it.
fn patterned() -> [u64; 2 * size_of::<mcp_supervised_event>() / 8] {
    [0xa5a5_a5a5_a5a5_a5a5; 2 * size_of::<mcp_supervised_event>() / 8]
}

/// A poll that is refused leaves the host's array alone.
fn polls(table: &mut Table) {
    let mut row = |case: String, names: &str, size: usize, max: usize, timeout: i32| {
        table.told("poll", case, Status::MCP_SUPERVISED_E_INVALID, names, move |s| {
            let mut events = patterned();
            // SAFETY: a live handle; the numbers are the subject, and are refused before the array is looked at.
            let status = unsafe { mcp_supervised_poll(s.raw(), events.as_mut_ptr().cast(), size, max, timeout) };
            assert!(events == patterned(), "written although refused");
            status
        });
    };
    let size = size_of_event();
    for wrong in [0, 1, 8, size - 8, size - 1, size + 1, size + 4, usize::MAX] {
        row(format!("event_size {wrong}"), &format!("event_size is {wrong}"), wrong, 1, 0);
    }
    row("event_size 0 without events".to_owned(), "event_size is 0", 0, 0, 0);
    let huge = usize::MAX & !7;
    row(format!("event_size {huge}"), "event_size", huge, 1, 0);
    row("an array larger than memory".to_owned(), "event_size", (usize::MAX / 4) & !7, 3, 0);
    for timeout in [-2, i32::MIN] {
        row(format!("timeout_ms {timeout}"), &format!("timeout_ms is {timeout}"), size, 1, timeout);
    }
    for off in 1..align_of::<mcp_supervised_event>() {
        let case = format!("events {off} bytes off");
        table.told("poll", case, Status::MCP_SUPERVISED_E_INVALID, "events is not aligned", move |s| {
            let mut events = patterned();
            // SAFETY: a live handle; the array has room behind the offset, which is refused before it is looked at.
            let status = unsafe { mcp_supervised_poll(s.raw(), events.as_mut_ptr().byte_add(off).cast(), size, 1, 0) };
            assert!(events == patterned(), "written although refused");
            status
        });
    }
}

/// Lines that are no message for a server that is running.
fn lines(table: &mut Table) {
    let long = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, "x".repeat(5000));
    let lines: [(&[u8], &str); 14] = [
        (b"   ", "not JSON"),
        (b"hello", "not JSON"),
        (b"{", "not JSON"),
        (br#"{"jsonrpc":"2.0","method":"x"} {}"#, "not JSON"),
        (br#"{"jsonrpc":"2.0","method":"x",}"#, "not JSON"),
        (b"{\"jsonrpc\":\"2.0\",\"method\":\"a\nb\"}", "not JSON"),
        (b"{\"jsonrpc\":\"2.0\",\"method\":\"a\xff\"}", "not JSON"),
        (b"42", "line"),
        (b"null", "line"),
        (b"{}", "line"),
        (br#"{"method":"x"}"#, "line"),
        (br#"{"jsonrpc":"1.0","method":"x"}"#, "line"),
        (br#"{"jsonrpc":"2.0","method":7}"#, "line"),
        (long.as_bytes(), "outbound_bytes is 4096"),
    ];
    for (line, names) in lines {
        let line = line.to_vec();
        let case = String::from_utf8_lossy(&line[..line.len().min(40)]).into_owned();
        table.told("send", case, Status::MCP_SUPERVISED_E_INVALID, names, move |s| {
            // SAFETY: a live handle, a text of that length.
            untouched(SENTINEL, |number| unsafe {
                mcp_supervised_send(s.raw(), s.running, line.as_ptr().cast(), line.len(), number)
            })
        });
    }
    let good = r#"{"jsonrpc":"2.0","method":"x"}"#;
    table.told("send", "to a peer that was not started", Status::MCP_SUPERVISED_E_NOT_STARTED, "not started", |s| {
        // SAFETY: a live handle, a text of that length.
        untouched(SENTINEL, |n| unsafe { mcp_supervised_send(s.raw(), s.idle, good.as_ptr().cast(), good.len(), n) })
    });
    table.told("send", "to a peer that is closed", Status::MCP_SUPERVISED_E_CLOSED, "closed", |s| {
        // SAFETY: a live handle, a text of that length.
        untouched(SENTINEL, |n| unsafe { mcp_supervised_send(s.raw(), s.closed, good.as_ptr().cast(), good.len(), n) })
    });
}

fn table() -> Vec<Row> {
    let mut table = Table::default();
    wrong_handles(&mut table);
    stale_peers(&mut table);
    texts(&mut table);
    results(&mut table);
    numbers(&mut table);
    polls(&mut table);
    lines(&mut table);
    client::rows(&mut table);
    table.0
}

#[test]
fn h04_every_exported_function_has_a_row() {
    let rows: BTreeSet<String> = table()
        .iter()
        .map(|row| row.function)
        .chain(TAKE_NOTHING)
        .map(|function| format!("mcp_supervised_{function}"))
        .collect();
    let exported: BTreeSet<String> = include_str!("support/exports.txt").lines().map(str::to_owned).collect();
    assert_eq!(rows, exported);
}

#[test]
fn h04_bad_input_is_told_and_changes_nothing() {
    let _turn = turn();
    let mut stage = Stage::new();
    // What start and close have set in motion comes to rest.
    while stage.host.is_readable() {
        stage.host.poll(0);
    }
    let before = stage.snapshot();
    let rows = table();
    println!("{} distinct bad calls of the C interface: a status each, 0 crashes, nothing changed", rows.len());
    for Row { function, case, status, names, call } in rows {
        let row = format!("{function}, {case}");
        stage.leave_a_text(function);
        let old = stage.host.last_error();
        let answer = call(&stage);
        assert_eq!(answer, status as i32, "{row}: {}", stage.host.last_error());
        let now = stage.host.last_error();
        match names {
            Some(names) => {
                assert_ne!(now, old, "{row}: the text is that of this call");
                assert!(now.contains(&names), "{row}: {now:?} names {names}");
            }
            None => assert_eq!(now, old, "{row}: the text stays"),
        }
        assert_eq!(stage.snapshot(), before, "{row}: changed something");
    }
    // No number and no id was used up by a refused call, and everybody is well.
    let (idle, running, modern) = (stage.idle, stage.running, stage.modern);
    let id = stage.host.ask_tool(modern, "pid", serde_json::json!({}));
    assert_eq!(id, 1);
    assert_eq!(stage.host.completion(id).tool_text(), stage.host.pid(modern).to_string());
    assert_eq!(client::cancel(stage.raw(), modern, id), Status::MCP_SUPERVISED_E_NO_REQUEST as i32, "handed out");
    assert_eq!(stage.host.call(running, "a", "pid", serde_json::json!({})), 1);
    assert_eq!(stage.host.answer("a").tool_text(), stage.host.pid(running).to_string());
    assert_eq!(stage.host.start(idle), 0);
    assert_eq!(stage.host.close(idle), 0);
    stage.host.until(|e| e.is_final() && e.peer == idle);
}

#[test]
fn h04_empty_and_terminated_texts_are_texts() {
    let _turn = turn();
    let mut host = Host::new();
    let spec = Spec::shell("printf '%s' \"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"$#-$A-\\\"}\"; echo; read x")
        .arg("zero");
    for (at, len) in [(ptr::null(), 0), (c"".as_ptr(), MCP_SUPERVISED_CSTR), (c"five".as_ptr(), MCP_SUPERVISED_CSTR)] {
        // SAFETY: a live spec and texts of these lengths.
        assert_eq!(unsafe { mcp_supervised_spec_arg(spec.raw(), at, len) }, 0);
    }
    // SAFETY: as above.
    assert_eq!(unsafe { mcp_supervised_spec_env(spec.raw(), c"A".as_ptr(), MCP_SUPERVISED_CSTR, ptr::null(), 0) }, 0);
    host.launch(&spec);
    assert_eq!(host.next(MCP_SUPERVISED_EVENT_MESSAGE).method, b"3--");
}

#[test]
fn h04_every_status_has_a_name() {
    let mut names = BTreeSet::new();
    for (status, name) in NAMES {
        // SAFETY: static and NUL-terminated.
        let told = unsafe { CStr::from_ptr(mcp_supervised_status_name(status as i32)) };
        assert_eq!(told, name);
        assert_eq!(format!("MCP_SUPERVISED_{}", told.to_str().unwrap()), format!("{status:?}"));
        assert!(names.insert(status as i32), "{status:?} is there once");
    }
    assert_eq!(names, (-(NAMES.len() as i32 - 1)..=0).collect(), "without a gap");
}

#[test]
fn h03_a_freed_handle_is_no_handle() {
    let _turn = turn();
    let stage = Stage::new();
    let freed = Host::new();
    let handle = freed.raw();
    assert_eq!(freed.free(), 0);
    // Best effort, as the header says: the memory still belongs to the process and nobody has used it again.
    for (function, call) in ON_A_HANDLE {
        assert_eq!(call(handle, &stage), Status::MCP_SUPERVISED_E_BAD_HANDLE as i32, "{function}");
    }
    // SAFETY: memory that can still be read.
    assert_eq!(unsafe { mcp_supervised_free(handle) }, Status::MCP_SUPERVISED_E_BAD_HANDLE as i32);
}

/// A handle that another thread uses, which is what is tested here.
#[derive(Clone, Copy)]
struct Shared(*mut RawHandle);

// SAFETY: a second thread inside a handle is answered, not let in.
unsafe impl Send for Shared {}

impl Shared {
    fn poll(self, timeout_ms: i32) -> i32 {
        let mut event = EMPTY;
        // SAFETY: a live handle and one event.
        unsafe { mcp_supervised_poll(self.0, &mut event, size_of_event(), 1, timeout_ms) }
    }
}

#[test]
fn h04_busy_leaves_the_text_and_changes_nothing() {
    let _turn = turn();
    let mut stage = Stage::new();
    while stage.host.is_readable() {
        stage.host.poll(0);
    }
    let before = stage.snapshot();
    stage.leave_a_text("");
    let text = stage.host.last_error();
    let shared = Shared(stage.raw());
    let busy = Status::MCP_SUPERVISED_E_BUSY as i32;
    let other = thread::spawn(move || {
        // The look below may be inside at that moment.
        loop {
            let given = shared.poll(-1);
            if given != busy {
                return given;
            }
        }
    });
    // SAFETY: a live handle.
    while unsafe { mcp_supervised_fd(shared.0) } != busy {
        thread::yield_now();
    }
    for (function, call) in ON_A_HANDLE.iter().filter(|(function, _)| *function != "wakeup") {
        assert_eq!(call(shared.0, &stage), busy, "{function}");
    }
    // SAFETY: a live handle, which is not freed.
    assert_eq!(unsafe { mcp_supervised_free(shared.0) }, busy);
    assert_eq!(stage.host.wakeup(), 0);
    assert_eq!(other.join().unwrap(), 1, "the wakeup");
    assert_eq!(stage.host.last_error(), text);
    assert_eq!(stage.snapshot(), before);
}

#[test]
fn h04_forked_leaves_the_text_and_changes_nothing() {
    let _turn = turn();
    let mut stage = Stage::new();
    while stage.host.is_readable() {
        stage.host.poll(0);
    }
    let before = stage.snapshot();
    stage.leave_a_text("");
    let text = stage.host.last_error();
    // SAFETY: the child makes calls that are refused at the door, and leaves without running anything of the parent's.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let wrong = ON_A_HANDLE
            .iter()
            .position(|(_, call)| call(stage.raw(), &stage) != Status::MCP_SUPERVISED_E_FORKED as i32)
            .map_or(0, |at| at as i32 + 1);
        // SAFETY: ends the child.
        unsafe { libc::_exit(wrong) };
    }
    let mut status = -1;
    // SAFETY: the child made above, a place for its end.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "{status}");
    let wrong = libc::WEXITSTATUS(status) as usize;
    assert!(wrong == 0, "{} answers something else", ON_A_HANDLE[wrong - 1].0);
    assert_eq!(stage.host.last_error(), text);
    assert_eq!(stage.snapshot(), before);
}

#[test]
fn h05_a_refused_poll_takes_no_event_and_ends_no_payload() {
    let _turn = turn();
    let mut host = Host::new();
    host.launch(&Spec::shell("echo '{\"jsonrpc\":\"2.0\",\"method\":\"m\"}'; read x"));
    let mut event = EMPTY;
    // SAFETY: a live handle and one event.
    let given = unsafe { mcp_supervised_poll(host.raw(), &mut event, size_of_event(), 1, 60_000) };
    assert_eq!((given, event.kind), (1, MCP_SUPERVISED_EVENT_MESSAGE as u32));
    assert_eq!(host.wakeup(), 0);
    for (size, max, timeout) in [(8, 1, 0), (size_of_event(), 1, -2), (usize::MAX & !7, 1, 0)] {
        // SAFETY: a live handle; the array is not looked at.
        assert!(unsafe { mcp_supervised_poll(host.raw(), &mut EMPTY.clone(), size, max, timeout) } < 0);
    }
    assert_eq!(Event::copy(&event).payload, br#"{"jsonrpc":"2.0","method":"m"}"#);
    assert!(host.is_readable());
    assert_eq!(host.poll(0).first().map(|e| e.kind), Some(MCP_SUPERVISED_EVENT_WAKEUP as u32));
}

/// A host that was compiled with a later header, whose event has more fields.
#[test]
fn h05_event_size_larger_than_ours_is_zero_filled() {
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Later {
        known: mcp_supervised_event,
        more: [u64; 5],
    }
    const ROOM: usize = 9;

    let _turn = turn();
    let mut host = Host::new();
    let peers: Vec<u64> = (0..3).map(|data| host.try_add(&Spec::demo(&[]), data).unwrap()).collect();
    for peer in &peers {
        assert_eq!(host.close(*peer), 0);
    }
    let mut events = [Later { known: EMPTY, more: [SENTINEL; 5] }; ROOM];
    // SAFETY: a live handle and an array of as many events of that size.
    let given =
        unsafe { mcp_supervised_poll(host.raw(), events.as_mut_ptr().cast(), size_of::<Later>(), ROOM, 60_000) };
    assert_eq!(given, 6, "DRAIN and CLOSE of each");
    for event in &events[..6] {
        assert_eq!(event.more, [0; 5]);
        let Event { kind, flags, peer, peer_data, exit_code, .. } = Event::copy(&event.known);
        assert_eq!(peer, peers[peer_data as usize]);
        if kind == MCP_SUPERVISED_EVENT_CLOSE as u32 {
            assert_eq!((flags, exit_code), (MCP_SUPERVISED_FLAG_FINAL, -1));
        } else {
            assert_eq!((kind, flags), (MCP_SUPERVISED_EVENT_DRAIN as u32, 0));
        }
    }
    for peer in &peers {
        let of_peer: Vec<u32> =
            events[..6].iter().map(|e| e.known).filter(|e| e.peer == *peer).map(|e| e.kind).collect();
        assert_eq!(of_peer, [MCP_SUPERVISED_EVENT_DRAIN as u32, MCP_SUPERVISED_EVENT_CLOSE as u32]);
    }
    for event in &events[6..] {
        assert_eq!((event.known.kind, event.more), (0, [SENTINEL; 5]), "nothing is written behind the last event");
    }
}
