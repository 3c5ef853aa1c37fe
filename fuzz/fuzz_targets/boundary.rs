//! The C boundary, driven by random sequences of calls with good and bad arguments, with servers that echo what they are told, end
//! at once, or are not there. Each call answers a status; payloads are what they say they are; `free` leaves neither a child nor a
//! descriptor.

#![no_main]

use std::ffi::c_char;
use std::ptr;

use mcp_supervised::ffi::config::*;
use mcp_supervised::ffi::event::*;
use mcp_supervised::ffi::guard::mcp_supervised as Handle;
use mcp_supervised::ffi::handle::*;
use mcp_supervised::ffi::peer::*;
use mcp_supervised::ffi::respond::*;
use mcp_supervised::ffi::spec::*;
use mcp_supervised::ffi::spec_client::*;
use mcp_supervised::ffi::traffic::*;

/// The bytes that the calls are made of.
struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> u64 {
        const EDGES: [u64; 8] = [0, 1, 1 << 31, 1 << 32, u64::MAX, u64::MAX - 1, 1 << 63, 1 << 20];
        match self.byte().unwrap_or(0) {
            edge @ 0..=31 => EDGES[usize::from(edge % 8)],
            small => u64::from(small - 32),
        }
    }

    /// A text of the pool, or bytes of the input.
    fn text(&mut self) -> Vec<u8> {
        const TEXTS: [&[u8]; 20] = [
            b"",
            b"{}",
            b"tools/list",
            b"tools/call",
            br#"{"name":"x","_meta":{"progressToken":1}}"#,
            br#"{"jsonrpc":"2.0","method":"a"}"#,
            br#"{"jsonrpc":"2.0","id":"x","method":"a"}"#,
            br#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            br#"{"jsonrpc":"2.0","id":"1","error":{"code":-32000}}"#,
            br#"{"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required"}}"#,
            br#"{"toolsListChanged":true}"#,
            br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
            b"[]",
            b"/",
            b"PATH",
            b"A=B",
            b"info",
            b"\xff\xfe",
            b"a\0b",
            b"{\"a\":\"\n\"}",
        ];
        match self.byte().unwrap_or(0) {
            own @ 240.. => {
                let count = usize::from(own - 239).min(self.0.len());
                let (text, rest) = self.0.split_at(count);
                self.0 = rest;
                text.to_vec()
            }
            known => TEXTS[usize::from(known) % TEXTS.len()].to_vec(),
        }
    }
}

/// A text as arguments: NULL, or with an impossible length, now and then.
fn arguments(text: &[u8], odd: u8) -> (*const c_char, usize) {
    match odd % 32 {
        0 => (ptr::null(), text.len()),
        1 => (text.as_ptr().cast(), usize::MAX - 1),
        _ => (text.as_ptr().cast(), text.len()),
    }
}

/// A length as large as that must be refused before a byte is read; it may only go where that is promised.
fn honest(text: &[u8], odd: u8) -> (*const c_char, usize) {
    match odd % 32 {
        0 => (ptr::null(), text.len()),
        _ => (text.as_ptr().cast(), text.len()),
    }
}

/// A spec from the input; the good ones are many, so that peers run.
fn spec(source: &mut Source<'_>) -> *mut mcp_supervised_spec {
    let mut spec = ptr::null_mut();
    let programs: [&[u8]; 6] = [b"/bin/cat", b"/bin/cat", b"/bin/cat", b"/bin/true", b"/no/such/program", b"/"];
    let program = programs[usize::from(source.byte().unwrap_or(0)) % programs.len()];
    // SAFETY: a text and a place for the result.
    assert_eq!(unsafe { mcp_supervised_spec_new(program.as_ptr().cast(), program.len(), &mut spec) }, 0);
    for _ in 0..source.byte().unwrap_or(0) % 5 {
        let (what, text, odd) = (source.byte().unwrap_or(0), source.text(), source.byte().unwrap_or(9));
        let (at, len) = honest(&text, odd);
        let (a, b, c) = (source.number(), source.number(), source.number());
        // SAFETY: a live spec; every text has at least its length or is NULL.
        unsafe {
            match what % 16 {
                0 if odd & 64 != 0 => mcp_supervised_spec_arg(spec, at, len),
                10 if odd & 64 != 0 => mcp_supervised_spec_start_timeouts(spec, a, b),
                0 => mcp_supervised_spec_env(spec, at, len, at, len),
                1 => mcp_supervised_spec_cwd(spec, at, len),
                2 => mcp_supervised_spec_env_mode(spec, a as u32),
                3 => mcp_supervised_spec_mode(spec, a as u32),
                4 => mcp_supervised_spec_restart(spec, a as u32, b, c),
                5 => mcp_supervised_spec_stop_grace(spec, a, b),
                6 => mcp_supervised_spec_limit(spec, a as u32, b),
                7 => mcp_supervised_spec_stderr(spec, a as u32),
                8 => mcp_supervised_spec_client_info(spec, at, len, at, len),
                9 => mcp_supervised_spec_client_capabilities(spec, at, len),
                10 => mcp_supervised_spec_request_timeouts(spec, a, b),
                11 => mcp_supervised_spec_retry_lost_requests(spec, a as u32),
                12 => mcp_supervised_spec_rediscover(spec, a as u32),
                13 => mcp_supervised_spec_server_log_level(spec, at, len),
                14 => mcp_supervised_spec_shed(spec, a as u32),
                _ => mcp_supervised_spec_mode(spec, 2),
            };
        }
    }
    spec
}

fn poll(handle: *mut Handle, source: &mut Source<'_>) {
    let mut events = [EMPTY; 8];
    let room = usize::from(source.byte().unwrap_or(8)) % 9;
    // SAFETY: a live handle and room for that many events.
    let given = unsafe { mcp_supervised_poll(handle, events.as_mut_ptr(), size_of::<mcp_supervised_event>(), room, 0) };
    assert!(given >= 0 && given as usize <= room, "{given}");
    for event in &events[..given as usize] {
        for (at, len) in [
            (event.payload, event.payload_len),
            (event.method, event.method_len),
            (event.body, event.body_len),
            (event.id, event.id_len),
        ] {
            if at.is_null() {
                assert_eq!(len, 0);
            } else {
                // SAFETY: the library promises as many bytes until the next poll.
                let bytes = unsafe { std::slice::from_raw_parts(at.cast::<u8>(), len) };
                assert!(std::str::from_utf8(bytes).is_ok(), "{}", bytes.escape_ascii());
            }
        }
        if !event.payload.is_null() {
            // SAFETY: a NUL is promised behind the payload.
            assert_eq!(unsafe { *event.payload.add(event.payload_len) }, 0);
        }
    }
}

/// Those of the fuzzer itself too: it has one that reads symbols.
fn children() -> String {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a system with /proc").flatten();
    tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default()).collect()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("a system with /proc").count()
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let before = (descriptors(), children());
    let mut source = Source(bytes);
    let mut config = ptr::null_mut();
    let mut handle: *mut Handle = ptr::null_mut();
    // SAFETY: places for the results; the config lives until it is freed.
    unsafe {
        assert_eq!(mcp_supervised_config_new(&mut config), 0);
        assert_eq!(mcp_supervised_config_manual_clock(config, 1), 0);
        let level = u32::from(source.byte().unwrap_or(1));
        mcp_supervised_config_log_level(config, level);
        // A level that is none is refused here, and then a usual one does it.
        if mcp_supervised_new(config, &mut handle, ptr::null_mut(), 0) != 0 {
            assert_eq!(mcp_supervised_config_log_level(config, MCP_SUPERVISED_LOG_INFO as u32), 0);
            assert_eq!(mcp_supervised_new(config, &mut handle, ptr::null_mut(), 0), 0);
        }
        mcp_supervised_config_free(config);
    }
    let mut peers: Vec<u64> = Vec::new();
    let mut calls = 0;
    while let Some(what) = source.byte() {
        calls += 1;
        if calls > 60 {
            break;
        }
        let pick = source.byte().unwrap_or(0);
        let peer = match peers.len() {
            0 => u64::from(pick),
            count if pick < 240 => peers[usize::from(pick) % count],
            _ => source.number(),
        };
        let (text, odd) = (source.text(), source.byte().unwrap_or(9));
        let (at, len) = arguments(&text, odd);
        let mut out = 0_u64;
        // SAFETY: the handle lives; texts have at least their length, are NULL, or have a length that must be refused unread.
        unsafe {
            match what % 22 {
                0 | 1 if peers.len() < 3 => {
                    let spec = spec(&mut source);
                    if mcp_supervised_add(handle, spec, source.number(), &mut out) == 0 {
                        peers.push(out);
                        if odd & 1 == 0 {
                            mcp_supervised_start(handle, out);
                        }
                    }
                    mcp_supervised_spec_free(spec);
                }
                0..=2 => drop(mcp_supervised_start(handle, peer)),
                3 | 4 => drop(mcp_supervised_send(handle, peer, at, len, &mut out)),
                5 => drop(mcp_supervised_close(handle, peer)),
                6 => drop(mcp_supervised_remove(handle, peer)),
                7 => drop((mcp_supervised_state(handle, peer), mcp_supervised_pid(handle, peer))),
                8..=10 => {
                    let method = source.text();
                    let options = mcp_supervised_request_options {
                        size: if odd & 64 == 0 {
                            size_of::<mcp_supervised_request_options>()
                        } else {
                            usize::from(odd)
                        },
                        user_data: 1,
                        timeout_ms: source.number(),
                        max_timeout_ms: source.number(),
                        flags: u32::from(odd >> 5),
                        reserved: 0,
                    };
                    // A host of a later version has more behind it: as much as it says.
                    let larger = [options; 8];
                    let options = if odd & 1 == 0 { ptr::null() } else { larger.as_ptr() };
                    let (method, method_len) = honest(&method, odd >> 1);
                    mcp_supervised_request(handle, peer, method, method_len, at, len, options, &mut out);
                }
                11 if odd & 64 != 0 => drop(mcp_supervised_respond(handle, peer, source.number(), at, len)),
                11 if odd & 128 != 0 => {
                    let (token, code) = (source.number(), source.number() as i64);
                    let data = source.text();
                    let (data, data_len) = honest(&data, odd >> 1);
                    mcp_supervised_respond_error(handle, peer, token, code, at, len, data, data_len);
                }
                11 => drop(mcp_supervised_notify(handle, peer, c"notifications/x".as_ptr(), 15, at, len)),
                12 => drop(mcp_supervised_listen(handle, peer, at, len, 5, &mut out)),
                13 => drop(mcp_supervised_cancel(handle, peer, source.number(), at, len)),
                14 => {
                    let (mut lent, mut lent_len) = (ptr::null(), 0);
                    mcp_supervised_server_info(handle, peer, &mut lent, &mut lent_len);
                    mcp_supervised_server_capabilities(handle, peer, &mut lent, &mut lent_len);
                    assert_eq!(mcp_supervised_last_error(handle, &mut lent, &mut lent_len), 0);
                    let text = std::slice::from_raw_parts(lent.cast::<u8>(), lent_len);
                    assert!(std::str::from_utf8(text).is_ok());
                }
                15 => drop(mcp_supervised_wakeup(handle)),
                16 | 17 => drop(mcp_supervised_advance(handle, source.number().saturating_mul(1_000_000))),
                18 if odd == 7 => drop(mcp_supervised_shutdown(handle, source.number())),
                _ => poll(handle, &mut source),
            }
        }
    }
    // SAFETY: a live handle, not used again.
    assert_eq!(unsafe { mcp_supervised_free(handle) }, 0);
    assert_eq!((descriptors(), children()), before, "descriptors or children are left");
});
