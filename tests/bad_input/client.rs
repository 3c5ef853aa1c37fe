//! The rows of the protocol client: requests, streams, notifications, cancellations, and the part of a spec about them.

use super::*;
use Status::{
    MCP_SUPERVISED_E_CLOSED as E_CLOSED, MCP_SUPERVISED_E_INVALID as E_INVALID,
    MCP_SUPERVISED_E_NO_REQUEST as E_NO_REQUEST, MCP_SUPERVISED_E_NOT_STARTED as E_NOT_STARTED,
    MCP_SUPERVISED_E_NULL as E_NULL, MCP_SUPERVISED_E_UNSUPPORTED as E_UNSUPPORTED,
};

type Options = mcp_supervised_request_options;

const NO_TEXT: (*const c_char, usize) = (ptr::null(), 0);

/// A length that no text has.
const TOO_LONG: usize = usize::MAX / 2 + 1;

fn request_with(
    handle: *mut RawHandle,
    peer: u64,
    (method, method_len): (*const c_char, usize),
    (params, params_len): (*const c_char, usize),
    options: *const Options,
) -> i32 {
    // SAFETY: what is wrong is the subject, and is looked at before it is used.
    untouched(SENTINEL, |id| unsafe {
        mcp_supervised_request(handle, peer, method, method_len, params, params_len, options, id)
    })
}

fn notify_with(
    handle: *mut RawHandle,
    peer: u64,
    (method, method_len): (*const c_char, usize),
    (params, params_len): (*const c_char, usize),
) -> i32 {
    // SAFETY: as above.
    unsafe { mcp_supervised_notify(handle, peer, method, method_len, params, params_len) }
}

fn listen_with(handle: *mut RawHandle, peer: u64, (filter, len): (*const c_char, usize)) -> i32 {
    // SAFETY: as above.
    untouched(SENTINEL, |id| unsafe { mcp_supervised_listen(handle, peer, filter, len, 0, id) })
}

fn cancel_with(handle: *mut RawHandle, peer: u64, id: u64, (reason, len): (*const c_char, usize)) -> i32 {
    // SAFETY: as above.
    unsafe { mcp_supervised_cancel(handle, peer, id, reason, len) }
}

/// With good arguments but for the handle or the peer.
pub fn request(handle: *mut RawHandle, peer: u64) -> i32 {
    request_with(handle, peer, text("tools/list"), text("{}"), ptr::null())
}

/// As above.
pub fn notify(handle: *mut RawHandle, peer: u64) -> i32 {
    notify_with(handle, peer, text("notifications/x"), text("{}"))
}

/// As above.
pub fn listen(handle: *mut RawHandle, peer: u64) -> i32 {
    listen_with(handle, peer, text("{}"))
}

/// As above.
pub fn cancel(handle: *mut RawHandle, peer: u64, id: u64) -> i32 {
    cancel_with(handle, peer, id, text("why"))
}

fn respond_with(handle: *mut RawHandle, peer: u64, (result, len): (*const c_char, usize)) -> i32 {
    // SAFETY: as above.
    unsafe { mcp_supervised_respond(handle, peer, 1 << 52, result, len) }
}

fn respond_error_with(
    handle: *mut RawHandle,
    peer: u64,
    (message, len): (*const c_char, usize),
    (data, data_len): (*const c_char, usize),
) -> i32 {
    // SAFETY: as above.
    unsafe { mcp_supervised_respond_error(handle, peer, 1 << 52, -1, message, len, data, data_len) }
}

/// As above.
pub fn respond(handle: *mut RawHandle, peer: u64) -> i32 {
    respond_with(handle, peer, text("{}"))
}

/// As above.
pub fn respond_error(handle: *mut RawHandle, peer: u64) -> i32 {
    respond_error_with(handle, peer, text("no"), NO_TEXT)
}

/// As above.
pub fn server_info(handle: *mut RawHandle, peer: u64) -> i32 {
    untouched(sentinel::<c_char>().cast_const(), |at| {
        // SAFETY: as above.
        untouched(SENTINEL as usize, |len| unsafe { mcp_supervised_server_info(handle, peer, at, len) })
    })
}

/// As above.
pub fn server_capabilities(handle: *mut RawHandle, peer: u64) -> i32 {
    untouched(sentinel::<c_char>().cast_const(), |at| {
        // SAFETY: as above.
        untouched(SENTINEL as usize, |len| unsafe { mcp_supervised_server_capabilities(handle, peer, at, len) })
    })
}

pub fn rows(table: &mut Table) {
    states(table);
    results(table);
    methods_and_params(table);
    filters_and_reasons(table);
    request_options(table);
    setters(table);
    spec_texts(table);
}

/// Calls that the state or the mode of the peer does not allow.
fn states(table: &mut Table) {
    type OnPeer = fn(*mut RawHandle, u64) -> i32;
    const SENDERS: [(&str, OnPeer); 5] = [
        ("request", request),
        ("listen", listen),
        ("notify", notify),
        ("respond", respond),
        ("respond_error", respond_error),
    ];
    const READERS: [(&str, OnPeer); 3] = [
        ("cancel", |h, peer| cancel(h, peer, 1)),
        ("server_info", server_info),
        ("server_capabilities", server_capabilities),
    ];
    for (function, call) in SENDERS {
        table.told(function, "not started", E_NOT_STARTED, "not started", move |s| call(s.raw(), s.idle));
        table.told(function, "closed", E_CLOSED, "closed", move |s| call(s.raw(), s.closed));
    }
    for (function, call) in SENDERS.into_iter().chain(READERS) {
        table.told(function, "raw mode", E_UNSUPPORTED, "raw mode", move |s| call(s.raw(), s.running));
    }
    for (function, call) in [SENDERS[3], SENDERS[4]] {
        table.told(function, "modern", E_UNSUPPORTED, "never asks", move |s| call(s.raw(), s.modern));
    }
    for id in [0, 1, 2, u64::MAX] {
        for (which, peer) in [("modern", 0), ("idle", 1), ("closed", 2)] {
            table.told("cancel", format!("{which}, id {id}"), E_NO_REQUEST, "no such request", move |s| {
                cancel(s.raw(), [s.modern, s.idle, s.closed][peer], id)
            });
        }
    }
}

/// Places for results that are not there.
fn results(table: &mut Table) {
    table.told("request", "request NULL", E_NULL, "request is NULL", |s| {
        let ((method, len), none) = (text("tools/list"), ptr::null_mut());
        // SAFETY: a live handle; what is NULL is the subject, here and below.
        unsafe { mcp_supervised_request(s.raw(), s.modern, method, len, ptr::null(), 0, ptr::null(), none) }
    });
    // SAFETY: as above.
    table.told("listen", "stream NULL", E_NULL, "stream is NULL", |s| unsafe {
        mcp_supervised_listen(s.raw(), s.modern, ptr::null(), 0, 0, ptr::null_mut())
    });
    table.told("server_info", "text NULL", E_NULL, "text is NULL", |s| {
        // SAFETY: as above.
        untouched(SENTINEL as usize, |len| unsafe {
            mcp_supervised_server_info(s.raw(), s.modern, ptr::null_mut(), len)
        })
    });
    table.told("server_capabilities", "text NULL", E_NULL, "text is NULL", |s| {
        // SAFETY: as above.
        untouched(SENTINEL as usize, |len| unsafe {
            mcp_supervised_server_capabilities(s.raw(), s.modern, ptr::null_mut(), len)
        })
    });
}

type OnText = fn(&Stage, (*const c_char, usize)) -> i32;

/// What no text may be: nothing with a length, or longer than memory.
fn lengths(table: &mut Table, function: &'static str, what: &'static str, has_handle: bool, call: OnText) {
    let mut row = |case: String, status, call: Call| {
        let names = has_handle.then(|| what.to_owned());
        table.0.push(Row { function, case: format!("{what}: {case}"), status, names, call });
    };
    for len in [1, TOO_LONG, MCP_SUPERVISED_CSTR] {
        row(format!("NULL with a length of {len}"), E_NULL, Box::new(move |s| call(s, (ptr::null(), len))));
    }
    for len in [TOO_LONG, MCP_SUPERVISED_CSTR - 1] {
        row(format!("a length of {len}"), E_INVALID, Box::new(move |s| call(s, (text("a").0, len))));
    }
}

/// Calls with texts that are refused, and a piece of what is told of each.
fn refused(table: &mut Table, function: &'static str, what: &str, call: OnText, texts: &[(&[u8], &str)]) {
    for (bad, names) in texts {
        let bad = bad.to_vec();
        let case = format!("{what}: {}", String::from_utf8_lossy(&bad[..bad.len().min(60)]));
        table.told(function, case, E_INVALID, names, move |s| call(s, (bad.as_ptr().cast(), bad.len())));
    }
}

/// JSON texts that are no objects.
const NO_OBJECTS: [&[u8]; 13] = [
    b"[]",
    b"null",
    b"1",
    b"\"a\"",
    b"{",
    b"{}{}",
    b"{} x",
    b"{\"a\":01}",
    b"{\"a\":1,}",
    b"{'a':1}",
    b"{\"a\":\"\n\"}",
    b"{\"a\":\"\xff\"}",
    b"{\"a\":\"\0\"}",
];

fn methods_and_params(table: &mut Table) {
    const METHOD: [(&str, OnText); 2] = [
        ("request", |s, at| request_with(s.raw(), s.modern, at, NO_TEXT, ptr::null())),
        ("notify", |s, at| notify_with(s.raw(), s.modern, at, NO_TEXT)),
    ];
    const PARAMS: [(&str, OnText); 2] = [
        ("request", |s, at| request_with(s.raw(), s.modern, text("tools/list"), at, ptr::null())),
        ("notify", |s, at| notify_with(s.raw(), s.modern, text("notifications/x"), at)),
    ];
    for (function, call) in METHOD {
        lengths(table, function, "method", true, call);
        refused(table, function, "method", call, &[(b"", "method is empty"), (b"a\xff", "method is not UTF-8")]);
        let long = "x".repeat(5000);
        refused(table, function, "method", call, &[(long.as_bytes(), "outbound_bytes is 4096")]);
    }
    for (function, call) in PARAMS {
        lengths(table, function, "params", true, call);
        for bad in NO_OBJECTS {
            refused(table, function, "params", call, &[(bad, "params is not a JSON object")]);
        }
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(5000));
        let texts: [(&[u8], &str); 4] = [
            (br#"{"_meta":1}"#, "\"_meta\" of params is not an object"),
            (br#"{"_meta":null}"#, "\"_meta\" of params is not an object"),
            (br#"{"_meta":{},"_meta":{}}"#, "two \"_meta\""),
            (long.as_bytes(), "outbound_bytes is 4096"),
        ];
        refused(table, function, "params", call, &texts);
    }
    let texts: [(&[u8], &str); 3] = [
        (br#"{"_meta":{},"\u005fmeta":{}}"#, "two \"_meta\""),
        (br#"{"_meta":{"progressToken":1.5}}"#, "progressToken"),
        (br#"{"_meta":{"progressToken":{}}}"#, "progressToken"),
    ];
    refused(table, "request", "params", PARAMS[0].1, &texts);
    refused(table, "request", "method", METHOD[0].1, &[(b"subscriptions/listen", "mcp_supervised_listen")]);
}

fn filters_and_reasons(table: &mut Table) {
    const FILTER: OnText = |s, at| listen_with(s.raw(), s.modern, at);
    const REASON: OnText = |s, at| cancel_with(s.raw(), s.modern, 1, at);
    lengths(table, "listen", "filter", true, FILTER);
    for bad in NO_OBJECTS {
        refused(table, "listen", "filter", FILTER, &[(bad, "filter is not a JSON object")]);
    }
    let long = format!("{{\"resourceSubscriptions\":[\"{}\"]}}", "x".repeat(5000));
    refused(table, "listen", "filter", FILTER, &[(long.as_bytes(), "outbound_bytes is 4096")]);
    lengths(table, "cancel", "reason", true, REASON);
    refused(table, "cancel", "reason", REASON, &[(b"\xff", "reason is not UTF-8")]);
    const MESSAGE: OnText = |s, at| respond_error_with(s.raw(), s.modern, at, NO_TEXT);
    lengths(table, "respond", "result", true, |s, at| respond_with(s.raw(), s.modern, at));
    lengths(table, "respond_error", "message", true, MESSAGE);
    lengths(table, "respond_error", "data", true, |s, at| respond_error_with(s.raw(), s.modern, text("no"), at));
    refused(table, "respond_error", "message", MESSAGE, &[(b"\xff", "message is not UTF-8")]);
}

const NO_OPTIONS: Options =
    Options { size: size_of::<Options>(), user_data: 0, timeout_ms: 0, max_timeout_ms: 0, flags: 0, reserved: 0 };

/// Options of a host that was compiled with a later header.
#[repr(C)]
#[derive(Clone, Copy)]
struct Later {
    known: Options,
    more: [u8; 4096],
}

fn request_options(table: &mut Table) {
    let mut row = |case: String, names: &str, options: Later| {
        table.told("request", format!("options: {case}"), E_INVALID, names, move |s| {
            request_with(s.raw(), s.modern, text("tools/list"), NO_TEXT, (&raw const options).cast())
        });
    };
    let exact = size_of::<Options>();
    let with = |options: Options| Later { known: options, more: [0; 4096] };
    for size in [0, 1, 8, exact - 8, exact - 1, 4097, usize::MAX / 2, usize::MAX] {
        let options = with(Options { size, ..NO_OPTIONS });
        row(format!("size {size}"), &format!("options.size is {size}: it must be sizeof"), options);
    }
    for (size, at) in [(exact + 1, 0), (exact + 8, 7), (4096, 4096 - exact - 1)] {
        let mut options = with(Options { size, ..NO_OPTIONS });
        options.more[at] = 1;
        row(format!("size {size}, a byte of what is not known"), "does not know", options);
    }
    row("reserved".to_owned(), "does not know", with(Options { reserved: 1, ..NO_OPTIONS }));
    for flags in [1 << 2, 1 << 31, u32::MAX, MCP_SUPERVISED_REQUEST_PROGRESS | 1 << 3] {
        let unknown = flags & !(MCP_SUPERVISED_REQUEST_PROGRESS | MCP_SUPERVISED_REQUEST_META_VERBATIM);
        let names = format!("unknown bits: {unknown:#x}");
        row(format!("flags {flags:#x}"), &names, with(Options { flags, ..NO_OPTIONS }));
    }
    let both = MCP_SUPERVISED_REQUEST_PROGRESS | MCP_SUPERVISED_REQUEST_META_VERBATIM;
    row("both flags".to_owned(), "META_VERBATIM leaves it alone", with(Options { flags: both, ..NO_OPTIONS }));
    table.told("request", "PROGRESS beside a token", E_INVALID, "progressToken", |s| {
        let options = Options { flags: MCP_SUPERVISED_REQUEST_PROGRESS, ..NO_OPTIONS };
        request_with(
            s.raw(),
            s.modern,
            text("tools/list"),
            text(r#"{"_meta":{"progressToken":1}}"#),
            &raw const options,
        )
    });
}

fn setters(table: &mut Table) {
    type OnSpec = fn(*mut mcp_supervised_spec) -> i32;
    const SETTERS: [(&str, OnSpec); 8] = [
        // SAFETY: the spec is the subject, here and below; the texts are good.
        ("spec_client_info", |spec| unsafe { mcp_supervised_spec_client_info(spec, text("a").0, 1, text("b").0, 1) }),
        // SAFETY: as above.
        ("spec_client_capabilities", |spec| unsafe { mcp_supervised_spec_client_capabilities(spec, text("{}").0, 2) }),
        // SAFETY: as above.
        ("spec_request_timeouts", |spec| unsafe { mcp_supervised_spec_request_timeouts(spec, 1, 1) }),
        // SAFETY: as above.
        ("spec_start_timeouts", |spec| unsafe { mcp_supervised_spec_start_timeouts(spec, 1, 1) }),
        // SAFETY: as above.
        ("spec_retry_lost_requests", |spec| unsafe { mcp_supervised_spec_retry_lost_requests(spec, 1) }),
        // SAFETY: as above.
        ("spec_rediscover", |spec| unsafe { mcp_supervised_spec_rediscover(spec, 1) }),
        // SAFETY: as above.
        ("spec_server_log_level", |spec| unsafe { mcp_supervised_spec_server_log_level(spec, text("info").0, 4) }),
        // SAFETY: as above.
        ("spec_shed", |spec| unsafe { mcp_supervised_spec_shed(spec, 1) }),
    ];
    for (function, call) in SETTERS {
        table.untold(function, "spec NULL", E_NULL, move |_| call(ptr::null_mut()));
    }
}

/// Texts of a spec, which has no place to tell what is wrong.
fn spec_texts(table: &mut Table) {
    const TEXTS: [(&str, &str, OnText); 4] = [
        ("spec_client_info", "name", |s, (at, len)| {
            let (other, other_len) = text("1.0");
            // SAFETY: a live spec; the text is the subject, here and below.
            unsafe { mcp_supervised_spec_client_info(s.spec.raw(), at, len, other, other_len) }
        }),
        ("spec_client_info", "version", |s, (at, len)| {
            let (other, other_len) = text("host");
            // SAFETY: as above.
            unsafe { mcp_supervised_spec_client_info(s.spec.raw(), other, other_len, at, len) }
        }),
        ("spec_client_capabilities", "capabilities", |s, (at, len)| {
            // SAFETY: as above.
            unsafe { mcp_supervised_spec_client_capabilities(s.spec.raw(), at, len) }
        }),
        ("spec_server_log_level", "level", |s, (at, len)| {
            // SAFETY: as above.
            unsafe { mcp_supervised_spec_server_log_level(s.spec.raw(), at, len) }
        }),
    ];
    for (function, what, call) in TEXTS {
        lengths(table, function, what, false, call);
        let bad: &[&[u8]] = match what {
            "capabilities" => &NO_OBJECTS,
            "level" => &[b"loud", b"INFO", b"info ", b"information", b"\xff"],
            _ => &[b"", b"a\xff"],
        };
        for bad in bad {
            let case = format!("{what}: {}", String::from_utf8_lossy(bad));
            table.untold(function, case, E_INVALID, move |s| call(s, (bad.as_ptr().cast(), bad.len())));
        }
    }
}

#[test]
fn h04_options_that_are_good() {
    let _turn = turn();
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&[]));
    let (method, params) = (text("tools/call"), text(r#"{"name":"pid"}"#));
    let mut ids = Vec::new();
    let mut ask = |host: &Host, options: *const Options| {
        let mut id = 0;
        // SAFETY: a live handle, texts of these lengths, options or NULL, a place for the result.
        let status = unsafe {
            mcp_supervised_request(host.raw(), peer, method.0, method.1, params.0, params.1, options, &mut id)
        };
        assert_eq!(status, 0, "{}", host.last_error());
        ids.push(id);
    };
    ask(&host, ptr::null());
    let none = NO_OPTIONS;
    ask(&host, &raw const none);
    // What a later header has is allowed as long as it is not used.
    let later = Later { known: Options { size: 4096, user_data: 7, ..NO_OPTIONS }, more: [0; 4096] };
    ask(&host, (&raw const later).cast());
    // A host's struct may lie anywhere.
    let mut crooked = [0_u8; size_of::<Options>() + 1];
    let at = crooked[1..].as_mut_ptr().cast::<Options>();
    // SAFETY: the bytes behind the first are as many as the struct has.
    unsafe { at.write_unaligned(Options { user_data: u64::MAX, timeout_ms: u64::MAX, ..NO_OPTIONS }) };
    ask(&host, at);
    assert_eq!(ids, [1, 2, 3, 4]);
    let data: Vec<u64> = ids.iter().map(|id| host.completion(*id).user_data).collect();
    assert_eq!(data, [0, 0, 7, u64::MAX]);
}

#[test]
fn h04_empty_and_terminated_texts_of_requests() {
    let _turn = turn();
    let mut host = Host::new();
    let peer = host.launch(&Spec::modern(&[]));
    let mut id = 0;
    let terminated = c"tools/list".as_ptr();
    for params in [NO_TEXT, (c"".as_ptr(), MCP_SUPERVISED_CSTR), (c"{}".as_ptr(), MCP_SUPERVISED_CSTR), text(" \n")] {
        // SAFETY: a live handle, texts of these lengths, a place for the result.
        let status = unsafe {
            let (handle, none) = (host.raw(), ptr::null());
            mcp_supervised_request(handle, peer, terminated, MCP_SUPERVISED_CSTR, params.0, params.1, none, &mut id)
        };
        assert_eq!(status, 0, "{}", host.last_error());
        assert!(host.completion(id).json()["result"]["tools"].is_array());
    }
    for filter in [NO_TEXT, text("{}"), (c"{ }".as_ptr(), MCP_SUPERVISED_CSTR)] {
        // SAFETY: a live handle, a text of that length, a place for the result.
        let status = unsafe { mcp_supervised_listen(host.raw(), peer, filter.0, filter.1, 0, &mut id) };
        assert_eq!(status, 0, "{}", host.last_error());
        host.until(|e| e.request == id && e.method == b"notifications/subscriptions/acknowledged");
        assert_eq!(cancel_with(host.raw(), peer, id, NO_TEXT), 0);
        assert_eq!(cancel_with(host.raw(), peer, id, NO_TEXT), E_NO_REQUEST as i32, "its completion is queued");
    }
}
