//! Servers behind launchers, and what servers start themselves: nothing of a process group outlives its connection (L6, P6, P7).

mod support;

use serde_json::json;
use std::time::{Duration, Instant};
use support::*;

#[test]
fn without_newer_kernel_calls() {
    run_file_again_without_newer_kernel_calls();
}

/// Launchers that wait for the true server, which is stubborn: a shell, and a program of its own.
fn wrapped() -> [Spec; 2] {
    let flags = "--ignore-eof --ignore-sigterm";
    let shell = Spec::shell(&format!("'{}' {flags}; true", demo_server()));
    let program = Spec::demo(&["--wrap", "--ignore-eof", "--ignore-sigterm"]);
    [shell, program].map(|spec| spec.restart(3, 0, 60_000).stop_grace(50, 50))
}

/// The pid of the true server.
fn inner(host: &mut Host, peer: u64, id: &str) -> i32 {
    host.call(peer, id, "pid", json!({}));
    let inner = host.answer(id).tool_text().parse().unwrap();
    assert_ne!(inner, host.pid(peer), "it runs behind a launcher");
    inner
}

#[test]
fn l06_close_ends_the_server_behind_a_launcher() {
    for spec in wrapped() {
        let mut host = Host::new();
        let peer = host.launch(&spec);
        let inner = inner(&mut host, peer, "a");
        assert_eq!(host.close(peer), 0);
        host.to_the_end(peer);
        assert!(!lives(inner), "before the CLOSE");
        wait_gone(inner);
    }
}

/// A server behind a launcher that leaves at the end of its input is not killed for it.
#[test]
fn l06_a_polite_server_behind_a_launcher_leaves_by_itself() {
    let scratch = Scratch::new();
    let done = scratch.name("done");
    let mut host = Host::new();
    let script = format!("'{}' --slow-exit 100 --exit-file '{done}'; true", demo_server());
    let peer = host.launch(&Spec::shell(&script).stop_grace(50_000, 50_000));
    inner(&mut host, peer, "a");
    assert_eq!(host.close(peer), 0);
    let told = host.to_the_end(peer);
    assert_eq!((told.last().unwrap().exit_code, told.last().unwrap().signal), (0, 0));
    assert_eq!(scratch.read("done"), "finished\n");
}

#[test]
fn p07_free_ends_the_server_behind_a_launcher() {
    for spec in wrapped() {
        let mut host = Host::new();
        let peer = host.launch(&spec);
        let (leader, inner) = (host.pid(peer), inner(&mut host, peer, "a"));
        assert_eq!(host.free(), 0);
        assert_eq!(state_of(leader), None);
        wait_gone(inner);
    }
}

/// The launcher dies alone: the server behind it is killed before the next life is spawned.
#[test]
fn l06_nothing_of_the_last_life_is_left_when_the_next_answers() {
    for spec in wrapped() {
        let mut host = Host::new().stepwise();
        let peer = host.launch(&spec);
        let mut last = inner(&mut host, peer, "life-1");
        for life in 2..=4 {
            kill9(host.pid(peer));
            let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
            assert_eq!(close.signal, 9);
            host.next(MCP_SUPERVISED_EVENT_RECONNECT);
            assert!(!lives(last), "the server of life {} is dead, or its SIGKILL is on the way", life - 1);
            let next = inner(&mut host, peer, &format!("life-{life}"));
            assert_ne!(next, last);
            wait_gone(last);
            last = next;
        }
        assert_eq!(host.close(peer), 0);
        host.to_the_end(peer);
        wait_gone(last);
    }
}

/// A leader that exits by itself leaves no grandchild of its group behind, whichever of the two descriptors it holds.
#[test]
fn l06_a_grandchild_in_the_group_goes_with_its_leader() {
    let mut host = Host::new().stepwise();
    let peer = host.launch(&Spec::demo(&[]).restart(3, 0, 60_000));
    for stdin in [false, true] {
        host.call(peer, "g", "grandchild", json!({"seconds": 600, "stdin": stdin}));
        let grandchild: i32 = host.answer("g").tool_text().parse().unwrap();
        assert!(lives(grandchild));
        host.call(peer, "x", "crash", json!({"code": 3}));
        let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
        assert_eq!(close.exit_code, 3);
        host.next(MCP_SUPERVISED_EVENT_RECONNECT);
        assert!(!lives(grandchild));
        wait_gone(grandchild);
    }
    // The same at a close, where the leader leaves politely and the grandchild would stay ten minutes.
    host.call(peer, "g", "grandchild", json!({"seconds": 600}));
    let grandchild: i32 = host.answer("g").tool_text().parse().unwrap();
    assert_eq!(host.close(peer), 0);
    let told = host.to_the_end(peer);
    assert_eq!(told.last().unwrap().exit_code, 0);
    assert!(!lives(grandchild));
    wait_gone(grandchild);
}

/// Every grandchild that dies with its group also lets go of the pipes, so that nothing waits for it.
#[test]
fn p06_the_ladder_signals_the_whole_group() {
    let mut host = Host::with_manual_clock().stepwise();
    let peer = host.launch(&Spec::demo(&["--ignore-eof"]).stop_grace(6_000, 2_000));
    host.call(peer, "g", "grandchild", json!({"seconds": 600, "stdin": true}));
    let grandchild: i32 = host.answer("g").tool_text().parse().unwrap();
    assert_eq!(host.close(peer), 0);
    host.next(MCP_SUPERVISED_EVENT_DRAIN);
    host.drive();
    host.advance_ms(6_000);
    let told = host.to_the_end(peer);
    assert_eq!(told.last().unwrap().signal, libc::SIGTERM);
    wait_gone(grandchild);
}

/// Who leaves the group is out of reach; documented. It must not hold anything up either.
#[test]
fn l06_a_grandchild_outside_of_the_group_holds_nothing_up() {
    let mut host = Host::new().stepwise();
    let peer = host.launch(&Spec::demo(&[]).restart(3, 0, 60_000));
    let mut strangers = Vec::new();
    let mut adopt = |host: &mut Host| {
        host.call(peer, "g", "grandchild", json!({"seconds": 600, "new_group": true, "stdin": true}));
        strangers.push(host.answer("g").tool_text().parse::<i32>().unwrap());
    };
    let began = Instant::now();
    adopt(&mut host);
    host.call(peer, "x", "crash", json!({"code": 3}));
    assert_eq!(host.next(MCP_SUPERVISED_EVENT_CLOSE).exit_code, 3);
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    adopt(&mut host);
    assert_eq!(host.close(peer), 0);
    let told = host.to_the_end(peer);
    assert_eq!(told.last().unwrap().exit_code, 0);

    let peer = host.launch(&Spec::demo(&[]));
    host.call(peer, "g", "grandchild", json!({"seconds": 600, "new_group": true, "stdin": true}));
    strangers.push(host.answer("g").tool_text().parse().unwrap());
    assert_eq!(host.free(), 0);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    for stranger in strangers {
        assert!(lives(stranger));
        kill9(stranger);
    }
}

/// A server that moves to another process group is out of reach of the group's signals, but it is still our child: every ladder
/// ends it all the same.
#[test]
fn p06_a_server_that_leaves_its_group_is_ended_by_close_shutdown_and_free() {
    let stubborn = ["--leave-group", "--ignore-eof", "--ignore-sigterm"];
    let mut host = Host::new().stepwise();
    let spec = || Spec::demo(&stubborn).stop_grace(20, 20);
    let peer = host.launch(&spec());
    host.call(peer, "a", "pid", json!({}));
    let pid: i32 = host.answer("a").tool_text().parse().unwrap();
    assert_eq!(host.close(peer), 0);
    let close = host.to_the_end(peer).pop().unwrap();
    assert_eq!((close.signal, close.exit_code), (9, -1));
    wait_gone(pid);

    // Without its stdout it is ended unasked, and replaced (L5).
    let peer = host.launch(&spec().restart(1, 0, 60_000));
    host.call(peer, "b", "close_stdout", json!({}));
    assert_eq!(host.next(MCP_SUPERVISED_EVENT_CLOSE).signal, 9);
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);

    host.call(peer, "c", "pid", json!({}));
    let pid: i32 = host.answer("c").tool_text().parse().unwrap();
    let began = std::time::Instant::now();
    assert_eq!(host.free(), 0);
    assert!(began.elapsed() < Duration::from_millis(900), "a killed server is reaped at once");
    wait_gone(pid);

    let mut host = Host::new();
    host.launch(&Spec::demo(&stubborn));
    assert_eq!(host.shutdown(20), 0);
    host.next(MCP_SUPERVISED_EVENT_SHUTDOWN);
}
