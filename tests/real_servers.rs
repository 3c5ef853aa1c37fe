//! Servers that are not ours, on the official SDKs, started in the ways people start them. `./tests/all` installs them and says
//! where they are; without that the tests here say that they are skipped, so that `cargo test` needs nothing but Rust and a C
//! compiler.

#[path = "support/installed.rs"]
mod installed;
mod support;

use installed::{Way, group, installed};
use serde_json::json;
use std::collections::HashSet;
use std::time::{Duration, Instant};
use support::*;

/// A server that serves: its peer and the processes it consists of.
struct Up {
    peer: u64,
    /// The process the library has started, whose number is the group's.
    leader: i32,
    /// The one that answers.
    server: i32,
    /// All of them.
    all: Vec<i32>,
}

/// Asks for the server's pid, which tells which life answers, and looks at its group.
fn up(host: &mut Host, peer: u64, way: Way) -> Up {
    let id = format!("pid-{}", host.seen.len());
    host.call(peer, &id, "pid", json!({}));
    let server = host.answer(&id).tool_text().parse().unwrap();
    let leader = host.pid(peer);
    let all = group(leader);
    assert_eq!(all.len(), way.processes(), "{way:?}: {all:?}");
    assert!(all.contains(&leader) && all.contains(&server), "{leader} and {server} in {all:?}");
    assert_eq!(leader == server, matches!(way, Way::Direct | Way::Beside));
    Up { peer, leader, server, all }
}

/// One call waits inside the server, others go back and forth.
fn traffic(host: &mut Host, up: &Up) {
    let tag = up.leader;
    host.call(up.peer, &format!("waiting-{tag}"), "sleep", json!({"ms": 600_000}));
    for n in 0..20 {
        host.call(up.peer, &format!("echo-{tag}-{n}"), "echo", json!({"message": format!("m{n}")}));
    }
    assert_eq!(host.answer(&format!("echo-{tag}-0")).tool_text(), "m0");
}

/// Waits for the replacement of a server that was killed, and looks at what was told, and at what is left: nothing.
fn replaced(host: &mut Host, dead: &Up, name: &str, way: Way) -> (Event, Up) {
    let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    // Not one process of the old life lives when the new one serves.
    let left: Vec<_> = dead.all.iter().filter(|pid| lives(**pid)).collect();
    assert!(left.is_empty(), "{left:?} of {:?} are left", dead.all);
    let order = letters(&taken);
    assert_eq!(order.trim_start_matches("M "), "D C R", "{order}");
    let close = taken.into_iter().find(|e| e.is(MCP_SUPERVISED_EVENT_CLOSE)).unwrap();
    assert!(close.will_reconnect());
    assert_eq!(close.pid, dead.leader);
    assert!(close.text().contains(&format!("{name} is up")), "the last words of the server: {}", close.text());

    let from = host.seen.len();
    let next = up(host, dead.peer, way);
    assert!(next.all.iter().all(|pid| !dead.all.contains(pid)));
    for n in 0..5 {
        let id = format!("again-{}-{n}", next.leader);
        host.call(next.peer, &id, "echo", json!({"message": id}));
        assert_eq!(host.answer(&id).tool_text(), id);
    }
    // The new life answers what it was asked; nothing of the old one comes, nothing was sent again.
    let of_the_new = |e: &&Event| e.id.starts_with(b"\"pid-") || e.id.starts_with(b"\"again-");
    let ids: HashSet<_> = host.seen[from..].iter().filter(of_the_new).map(|e| e.id.clone()).collect();
    assert_eq!(letters(&host.seen[from..]), "M ".repeat(ids.len()).trim_end());
    assert_eq!(ids.len(), 6);
    (close, next)
}

/// Ends a server the polite way: it goes by itself, with everything that belongs to it.
fn leaves(host: &mut Host, up: &Up) {
    let last = closed(host, up);
    // No signal: it left by itself at the end of its input, within its grace.
    assert_eq!((last.exit_code, last.signal), (0, 0), "{}", last.text());
}

/// Closes a server. Nothing of it is left.
fn closed(host: &mut Host, up: &Up) -> Event {
    assert_eq!(host.close(up.peer), 0);
    let last = host.to_the_end(up.peer).pop().unwrap();
    assert_eq!(last.status, MCP_SUPERVISED_CLOSE_CLOSED_BY_HOST as i32);
    assert_eq!(group(up.leader), [0; 0], "of {:?}", up.all);
    assert!(up.all.iter().all(|pid| !lives(*pid)));
    last
}

/// The main job on real input: traffic, everything killed in the middle of it, CLOSE with the signal, RECONNECT, and the next call
/// answers. Then, where somebody waits for the server, only that one is killed.
fn killed_in_the_middle_of_traffic(name: &str, way: Way) {
    let Some(spec) = installed(name, way) else { return };
    let mut host = Host::new();
    let peer = host.launch(&spec.restart(3, 50, 60_000));
    host.request(peer, "discover", "server/discover", json!({}));
    let versions = host.answer("discover").json()["result"]["supportedVersions"].clone();
    assert!(versions.as_array().is_some_and(|all| all.contains(&json!("2026-07-28"))), "{versions}");
    host.request(peer, "tools", "tools/list", json!({}));
    let tools = host.answer("tools").json();
    assert!(tools["result"]["tools"].as_array().is_some_and(|tools| tools.iter().any(|tool| tool["name"] == "echo")));

    let first = up(&mut host, peer, way);
    traffic(&mut host, &first);
    // The whole group: the number of a leader that was not reaped.
    signal_group(first.leader, libc::SIGKILL);
    let (close, mut last) = replaced(&mut host, &first, name, way);
    assert_eq!((close.exit_code, close.signal, close.life), (-1, libc::SIGKILL, 1));

    if way.processes() > 1 {
        // The server lives on, has its pipes, and would answer soon. It has to go, and nobody hears of it.
        let orphan = last;
        host.call(peer, "late", "sleep", json!({"ms": 400}));
        traffic(&mut host, &orphan);
        kill9(orphan.leader);
        let (close, next) = replaced(&mut host, &orphan, name, way);
        assert_eq!((close.signal, close.life), (libc::SIGKILL, 2));
        wait_gone(orphan.server);
        last = next;
    }
    leaves(&mut host, &last);
}

/// SIGKILL to what the library started and to everything that belongs to it.
fn signal_group(leader: i32, signal: i32) {
    assert!(leader > 1);
    // SAFETY: takes two numbers; the leader is a child of this test that was not reaped.
    assert_eq!(unsafe { libc::kill(-leader, signal) }, 0);
}

/// A server that dies again and again is given up when the budget is spent, although each life served.
fn crash_loop(name: &str, way: Way, restarts: u32) {
    let Some(spec) = installed(name, way) else { return };
    let mut host = Host::new();
    let peer = host.launch(&spec.restart(restarts, 10, 60_000));
    for life in 1..=restarts + 1 {
        host.call(peer, &format!("echo-{life}"), "echo", json!({"message": "still here"}));
        assert_eq!(host.answer(&format!("echo-{life}")).tool_text(), "still here");
        let leader = host.pid(peer);
        host.call(peer, &format!("crash-{life}"), "crash", json!({"code": 3}));
        let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT) || e.is(MCP_SUPERVISED_EVENT_EXHAUSTED));
        let close = taken.iter().find(|e| e.is(MCP_SUPERVISED_EVENT_CLOSE)).unwrap();
        // A shell that waits for it hands its exit code on.
        assert_eq!((close.exit_code, close.life), (3, life));
        assert_eq!(letters(&taken), if life <= restarts { "D C R" } else { "D C X" });
        assert_eq!(group(leader), [0; 0]);
    }
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_CLOSED as i32);
}

/// Something in the background holds the server's stdout: the exit is what counts, and what is left of the group goes too.
fn something_else_holds_the_pipe(name: &str) {
    let way = Way::Beside;
    let Some(spec) = installed(name, way) else { return };
    let mut host = Host::new();
    let peer = host.launch(&spec.restart(3, 50, 60_000));
    let mut now = up(&mut host, peer, way);
    for (code, signal) in [(3, 0), (-1, libc::SIGKILL)] {
        let asked = Instant::now();
        if signal == 0 {
            host.call(peer, "crash", "crash", json!({"code": code}));
        } else {
            traffic(&mut host, &now);
            kill9(now.leader);
        }
        let (close, next) = replaced(&mut host, &now, name, way);
        assert_eq!((close.exit_code, close.signal), (code, signal));
        // It takes the drain of 250 ms and the start of the next one, not the five minutes of the sleep.
        assert!(asked.elapsed() < Duration::from_secs(30), "{:?}", asked.elapsed());
        now = next;
    }
    leaves(&mut host, &now);
}

/// The grace of a close is enough for a server that is in the middle of a call: rmcp waits five seconds for its calls. Node goes
/// on as long as the call has a timer, and is told to end when the grace is over.
fn closed_in_the_middle_of_a_call(name: &str) {
    let Some(spec) = installed(name, Way::Direct) else { return };
    let mut host = Host::new();
    let peer = host.launch(&spec);
    let server = up(&mut host, peer, Way::Direct);
    traffic(&mut host, &server);
    let last = closed(&mut host, &server);
    let expected = if name == "ts2" { (-1, libc::SIGTERM) } else { (0, 0) };
    assert_eq!((last.exit_code, last.signal), expected, "{}", last.text());
}

/// The scenarios for one server.
macro_rules! servers {
    ($($name:ident)*) => {$(
        mod $name {
            use super::*;

            const NAME: &str = stringify!($name);

            #[test]
            fn l02_killed_in_the_middle_of_traffic() {
                killed_in_the_middle_of_traffic(NAME, Way::Direct);
            }

            #[test]
            fn l06_killed_behind_a_shell_and_the_shell_alone() {
                killed_in_the_middle_of_traffic(NAME, Way::Wrapped);
            }

            #[test]
            fn l06_killed_behind_a_launcher_and_the_launcher_alone() {
                killed_in_the_middle_of_traffic(NAME, Way::Launched);
            }

            #[test]
            fn l12_a_crash_loop_is_given_up() {
                crash_loop(NAME, Way::Direct, 2);
            }

            #[test]
            fn l12_a_crash_loop_behind_a_shell_is_given_up() {
                crash_loop(NAME, Way::Wrapped, 1);
            }

            #[test]
            fn l12_a_crash_loop_behind_a_launcher_is_given_up() {
                crash_loop(NAME, Way::Launched, 1);
            }

            #[test]
            fn l03_something_else_holds_the_pipe() {
                something_else_holds_the_pipe(NAME);
            }

            #[test]
            fn p06_closed_in_the_middle_of_a_call() {
                closed_in_the_middle_of_a_call(NAME);
            }
        }
    )*};
}

servers!(ts2 py2 rmcp3);
