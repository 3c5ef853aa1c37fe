//! The embedding host: it has habits of its own, and makes mistakes.

use std::ptr;

use serde_json::json;

use super::served::*;
use crate::c::{CHost, compile};
use crate::support::*;

fn host_in_c(name: &str) -> CHost {
    compile(&format!("tests/c/{name}.c")).arg(demo_server())
}

/// Runs a host as it is, and where newer calls of the kernel are missing.
fn everywhere(name: &str, argument: &str, without: &[&str]) {
    let host = || if argument.is_empty() { host_in_c(name) } else { host_in_c(name).arg(argument) };
    host().succeeds();
    for facility in without {
        host().env("MCP_SUPERVISED_WITHOUT", facility).succeeds();
    }
}

/// The kind: the host takes the exit status away: it ignores SIGCHLD, asks for no zombies, or waits for whatever child ends, in a
/// thread. Deaths are told, with a status or without one, restarts and closes go on, nobody is hit who was not ours.
#[test]
fn ho_01_a_host_that_takes_the_exit_status() {
    everywhere("sigchld_ignored", "ignore", &["pidfd", "all"]);
    everywhere("sigchld_ignored", "nocldwait", &["pidfd", "all"]);
    everywhere("reap_everything", "", &["pidfd_info", "pidfd", "all"]);
}

/// The kind: a write to a server that has gone. Between two writes, in the middle of a megabyte, while it dies: no SIGPIPE, and
/// disposition, mask and pending signals of the host are untouched.
#[test]
fn ho_03_no_sigpipe_reaches_the_host() {
    everywhere("sigpipe", "", &["rwf_nosignal", "all"]);
}

/// The kind: the host forks with a handle open. Every call in the child is refused or does nothing; the parent's servers, epoll
/// and timers do not notice.
#[test]
fn ho_04_a_host_that_forks() {
    everywhere("fork", "", &["wipe_on_fork", "all"]);
}

/// The kind: the descriptor and the events disagree. In poll and epoll, by level and by edge, with one event for each look, for
/// messages, timers, completions made by a call, and deaths without a word.
#[test]
fn ho_06_the_descriptor_says_whether_there_is_something() {
    for how in ["poll", "level", "edge-once", "edge-dry"] {
        everywhere("own_loop", how, &["pidfd"]);
    }
    let mut server = Served::by(Host::with_manual_clock().stepwise(), &Spec::modern(&[]).restart(3, 100, 60_000));
    let (peer, pid) = (server.peer, server.pid);
    server.goes_on();
    // Ten are queued, and one is taken for each look.
    server.asks("flood", json!({"count": 10, "one_write": true}));
    server.until_written(pid);
    server.seen.clear();
    while server.is_readable() {
        assert!(server.poll(0).len() <= 1);
    }
    assert_eq!(server.story(), ["M"; 11].join(" "), "readable to the last one");
    // A call that completes at once, a deadline, a death without a word, a delay: nothing of it is input.
    let timeout = options(|o| o.timeout_ms = 500);
    let silent = server.try_ask(peer, "tools/call", r#"{"name":"silent"}"#, Some(&timeout)).unwrap();
    let other = server.asks("silent", json!({}));
    server.until_written(pid);
    server.expect_silence();
    server.poll(0);
    assert!(!server.is_readable());
    server.host.cancel(peer, other, "");
    assert!(server.is_readable(), "a completion by cancel");
    server.expect_silence_but("E");
    server.until_written(pid);
    server.advance_ms(500);
    assert!(server.is_readable(), "a deadline");
    server.expect_silence_but("E");
    assert_eq!(server.completion(silent).status, TIMEOUT);
    server.until_written(pid);
    kill9(pid);
    assert!(server.wait_readable(PATIENCE), "a death");
    server.next(MCP_SUPERVISED_EVENT_CLOSE);
    server.advance_ms(100);
    assert!(server.is_readable(), "a delay that is over");
    server.next(MCP_SUPERVISED_EVENT_RECONNECT);
}

/// The kind: the host passes what it must not. NULL where something has to be, lengths that cannot be, no text, no JSON, numbers
/// of nothing, freed handles, two threads at once: a status each time, and the handle goes on. (Every function and argument has a
/// row in the tables of `tests/bad_input.rs`.)
#[test]
fn ho_08_mistakes_of_the_host_are_statuses() {
    let null = MCP_SUPERVISED_E_NULL as i32;
    let mut server = Served::new(&[]);
    let (peer, raw) = (server.peer, server.host.raw());
    let mut id = 7;
    let (name, nothing) = (c"tools/list".as_ptr(), ptr::null_mut::<RawHandle>());
    // SAFETY: every pointer is NULL, of a live object, or of a text with at least the length that is given.
    unsafe {
        for status in [
            mcp_supervised_start(nothing, peer),
            mcp_supervised_poll(nothing, ptr::null_mut(), 0, 0, 0),
            mcp_supervised_close(nothing, peer),
            mcp_supervised_wakeup(nothing),
            mcp_supervised_fd(nothing),
            mcp_supervised_request(raw, peer, ptr::null(), 3, name, 0, ptr::null(), &mut id),
            mcp_supervised_request(raw, peer, name, 10, ptr::null(), 2, ptr::null(), &mut id),
            mcp_supervised_listen(raw, peer, ptr::null(), usize::MAX, 0, &mut id),
            mcp_supervised_poll(raw, ptr::null_mut(), size_of_event(), 1, 0),
            mcp_supervised_add(raw, ptr::null(), 0, &mut id),
        ] {
            assert_eq!(status, null);
        }
        for (method, params) in [
            (&b""[..], &b"{}"[..]),
            (b"\xff", b"{}"),
            (b"tools/list", b"\xff"),
            (b"tools/list", b"[]"),
            (b"tools/list", b"{"),
            (b"tools/list", b"{}{}"),
            (b"tools/list", b"{\"a\":\"\n\"}"),
            (b"tools/list", b"{\"_meta\":{},\"_meta\":{}}"),
        ] {
            let (m, p) = (method.as_ptr().cast(), params.as_ptr().cast());
            let status = mcp_supervised_request(raw, peer, m, method.len(), p, params.len(), ptr::null(), &mut id);
            assert_eq!(status, INVALID, "{}", params.escape_ascii());
        }
        let no_peer = MCP_SUPERVISED_E_NO_PEER as i32;
        for stranger in [0, 1, u64::MAX, peer ^ 1, peer ^ (1 << 40)] {
            assert_eq!(mcp_supervised_start(raw, stranger), no_peer);
        }
        let unknown = options(|o| o.flags = 1 << 31);
        assert_eq!(mcp_supervised_request(raw, peer, name, 10, c"{}".as_ptr(), 2, &unknown, &mut id), INVALID);
        for size in [0, 1, size_of_event() - 8, size_of_event() + 1, usize::MAX] {
            let mut events = [EMPTY; 2];
            assert_eq!(mcp_supervised_poll(raw, events.as_mut_ptr(), size, 1, 0), INVALID, "{size}");
        }
        assert_eq!(mcp_supervised_free(ptr::null_mut()), 0);
        mcp_supervised_spec_free(ptr::null_mut());
        mcp_supervised_config_free(ptr::null_mut());
    }
    assert_eq!(id, 7, "nothing was written on failure");
    server.goes_on();
    assert_eq!(server.ask(peer, "tools/list", json!({})), 2, "and nothing was used up");
    // Two threads, one of them blocked inside.
    struct Shared(*mut RawHandle);
    // SAFETY: the library promises to refuse the second caller.
    unsafe impl Send for Shared {}
    let shared = Shared(raw);
    server.completion(2);
    server.expect_silence();
    let busy = MCP_SUPERVISED_E_BUSY as i32;
    let blocked = std::thread::spawn(move || {
        let shared = shared;
        let mut events = [EMPTY; 4];
        // Whoever looks whether it is inside may be inside at that moment, and then this one is refused.
        loop {
            // SAFETY: a live handle, which is freed after this thread has ended.
            let status = unsafe { mcp_supervised_poll(shared.0, events.as_mut_ptr(), size_of_event(), 4, -1) };
            if status != busy {
                return status;
            }
        }
    });
    wait_for("the other thread is inside", || server.host.state(peer) == busy);
    assert_eq!(server.host.close(peer), busy);
    // SAFETY: a live handle.
    assert_eq!(unsafe { mcp_supervised_free(raw) }, busy);
    while !blocked.is_finished() {
        server.wakeup();
    }
    assert!(blocked.join().unwrap() >= 0);
    server.goes_on();
}
