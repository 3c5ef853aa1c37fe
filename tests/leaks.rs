//! Lives come and go, and nothing of them stays: descriptors, zombies, threads, memory (P4, P7, LT-14, LT-16). In a process of
//! its own each, where nobody else opens or starts anything.

mod support;

use serde_json::json;
use std::time::{Duration, Instant};
use support::*;

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// One life: it answers, writes to stderr, and is killed.
fn live_and_die(host: &mut Host, peer: u64) {
    host.call(peer, "a", "stderr", json!({"lines": 20}));
    host.answer("a");
    kill9(host.pid(peer));
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    host.seen.clear();
}

#[test]
fn p04_two_hundred_restarts_leave_nothing() {
    alone!();
    let before = open_descriptors();
    let tasks = threads();
    let mut host = Host::new().stepwise();
    let empty = open_descriptors();
    let peer = host.launch(&Spec::demo(&[]).restart(MCP_SUPERVISED_UNLIMITED, 0, 60_000));
    let running = open_descriptors();
    let mut resident = 0;
    for restart in 1..=200 {
        live_and_die(&mut host, peer);
        if restart % 50 == 0 {
            assert_eq!(open_descriptors(), running, "after {restart} restarts");
            assert_eq!(children(), [host.pid(peer)], "after {restart} restarts: the one that runs, and no zombie");
            assert_eq!(threads(), tasks);
        }
        if restart == 50 {
            resident = resident_kib();
        }
    }
    let grown = resident_kib().saturating_sub(resident);
    assert!(grown < 1_024, "{grown} KiB in 150 restarts");
    assert_eq!(host.close(peer), 0);
    host.to_the_end(peer);
    assert_eq!(host.remove(peer), 0);
    assert_eq!(open_descriptors(), empty);
    assert_eq!(children(), [] as [i32; 0]);
    assert_eq!(host.free(), 0);
    assert_eq!(open_descriptors(), before);
}

#[test]
fn p04_failed_spawns_leave_nothing() {
    alone!();
    let scratch = Scratch::new();
    let mut host = Host::new().stepwise();
    let spec = Spec::new(scratch.link("server")).mode(MCP_SUPERVISED_MODE_RAW);
    let peer = host.launch(&spec.restart(MCP_SUPERVISED_UNLIMITED, 0, 60_000));
    let running = open_descriptors();
    for _ in 0..3 {
        scratch.remove("server");
        kill9(host.pid(peer));
        for _ in 0..100 {
            let error = host.next(MCP_SUPERVISED_EVENT_ERROR);
            assert_eq!(error.status, MCP_SUPERVISED_E_SPAWN as i32);
        }
        assert_eq!(children(), [] as [i32; 0]);
        scratch.link("server");
        host.next(MCP_SUPERVISED_EVENT_RECONNECT);
        assert_eq!(open_descriptors(), running);
    }
    let other = host.add(&Spec::new("/no/such/program"));
    for _ in 0..100 {
        assert_eq!(host.start(other), MCP_SUPERVISED_E_SPAWN as i32);
    }
    assert_eq!(open_descriptors(), running);
    assert_eq!(children(), [host.pid(peer)]);
}

/// Handles made and freed with everything in flight.
#[test]
fn p07_free_leaves_nothing() {
    alone!();
    let before = open_descriptors();
    let mut resident = 0;
    for round in 0..40 {
        let mut host = Host::new();
        let spec = Spec::demo(&["--ignore-eof", "--ignore-sigterm"]).restart(3, 60_000, 600_000);
        let peers: Vec<u64> = (0..4).map(|_| host.launch(&spec)).collect();
        host.add(&spec);
        let line = format!(r#"{{"jsonrpc":"2.0","method":"x","params":["{}"]}}"#, "x".repeat(100_000));
        host.send(peers[0], line);
        host.call(peers[1], "f", "flood", json!({"count": 100}));
        kill9(host.pid(peers[2]));
        host.until(|e| e.is(MCP_SUPERVISED_EVENT_CLOSE));
        host.close(peers[3]);
        host.drive();
        assert_eq!(host.free(), 0);
        assert_eq!(open_descriptors(), before, "round {round}");
        assert_eq!(children(), [] as [i32; 0], "round {round}");
        if round == 10 {
            resident = resident_kib();
        }
    }
    let grown = resident_kib().saturating_sub(resident);
    assert!(grown < 1_024, "{grown} KiB in 30 rounds");
}

/// Peers that come and go in one handle.
#[test]
fn l14_removed_peers_leave_nothing() {
    alone!();
    let mut host = Host::new();
    let empty = open_descriptors();
    let mut resident = 0;
    for round in 0..150 {
        let peer = host.launch(&Spec::demo(&[]));
        host.call(peer, "a", "echo", json!({"message": "x".repeat(10_000)}));
        host.answer("a");
        assert_eq!(host.close(peer), 0);
        host.to_the_end(peer);
        assert_eq!(host.remove(peer), 0);
        host.seen.clear();
        assert_eq!(open_descriptors(), empty, "round {round}");
        if round == 50 {
            resident = resident_kib();
        }
    }
    assert_eq!(children(), [] as [i32; 0]);
    let grown = resident_kib().saturating_sub(resident);
    assert!(grown < 1_024, "{grown} KiB in 100 rounds");
}

/// What traffic takes is given back when it is over, by one late timer: a peer that was busy costs no more than one that never was.
#[test]
fn f01_peers_that_were_busy_are_small_again() {
    alone!();
    const PEERS: usize = 40;
    let mut host = Host::new();
    let peers: Vec<u64> = (0..PEERS).map(|_| host.launch(&Spec::demo(&[]))).collect();
    let burst = |host: &mut Host, count: u64| {
        for (n, peer) in peers.iter().enumerate() {
            host.call(*peer, &format!("f{n}"), "flood", json!({"count": count, "size": 200}));
        }
        // Nothing is copied: what the test keeps itself would be counted.
        let mut answered = 0;
        let mut events = [EMPTY; 64];
        while answered < PEERS {
            // SAFETY: a live handle, and an array of that many events.
            let given =
                unsafe { mcp_supervised_poll(host.raw(), events.as_mut_ptr(), size_of_event(), events.len(), 60_000) };
            assert!(given > 0);
            let results = |e: &&mcp_supervised_event| e.message_kind == MCP_SUPERVISED_MESSAGE_RESULT as u32;
            answered += events[..given as usize].iter().filter(results).count();
        }
    };
    let resident = || {
        // SAFETY: gives free memory of the C library back to the system, so that it is not counted.
        unsafe { libc::malloc_trim(0) };
        resident_kib()
    };
    burst(&mut host, 1);
    let before = resident();
    burst(&mut host, 2_000);
    // The late timer is the only thing that can still come.
    let per_peer = |host: &mut Host| {
        host.wait_readable(Duration::from_millis(200));
        assert_eq!(host.poll(0).len(), 0);
        resident().saturating_sub(before) / PEERS as u64
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while per_peer(&mut host) > 8 && Instant::now() < deadline {}
    let per_peer = per_peer(&mut host);
    assert!(per_peer <= 8, "{per_peer} KiB per peer");
}

/// A peer that has written part of a line holds that part, and no buffer.
#[test]
fn f01_a_part_of_a_line_holds_only_its_bytes() {
    alone!();
    const PEERS: usize = 40;
    let mut host = Host::new();
    let specs = [Spec::shell("read a; read b"), Spec::shell("read a; printf '{\"a'; read b")];
    let mut resident = Vec::new();
    for spec in &specs {
        let peers: Vec<u64> = (0..PEERS).map(|_| host.launch(spec)).collect();
        for peer in &peers {
            host.send(*peer, r#"{"jsonrpc":"2.0","method":"a"}"#);
        }
        // Every shell that sits in its second read has written what it writes.
        while peers.iter().any(|peer| !waits_in_read(host.pid(*peer))) {
            host.poll(0);
        }
        host.poll(0);
        // SAFETY: gives free memory of the C library back to the system, so that it is not counted.
        unsafe { libc::malloc_trim(0) };
        resident.push(resident_kib());
    }
    let per_peer = resident[1].saturating_sub(resident[0]) / PEERS as u64;
    assert!(per_peer <= 8, "{per_peer} KiB per peer");
}

/// Whether a process sleeps in read(2) of its stdin with nothing there to be read.
fn waits_in_read(pid: i32) -> bool {
    let syscall = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    syscall.starts_with(&format!("{} 0x0 ", libc::SYS_read))
}
