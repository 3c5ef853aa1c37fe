//! Servers that are not ours, on the official SDKs. `./tests/all` installs them and says where they are; without that the tests
//! here say that they are skipped, so that `cargo test` needs nothing but Rust and a C compiler.

mod support;

use serde_json::json;
use std::path::PathBuf;
use support::*;

/// The command of an installed server, `None` if it was not asked for.
fn installed(name: &str) -> Option<Spec> {
    let Some(servers) = std::env::var_os("MCP_SUPERVISED_TEST_SERVERS").map(PathBuf::from) else {
        println!("skipped: run ./tests/all, which installs the real servers");
        return None;
    };
    let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/servers");
    let (program, script) = match name {
        "ts2" => (PathBuf::from("node"), servers.join("ts2/server.mjs")),
        "py2" => (servers.join("py2/bin/python"), sources.join("py2/server.py")),
        other => panic!("no server {other}"),
    };
    assert!(script.exists(), "{} is missing", script.display());
    let spec = Spec::new(program.as_os_str().as_encoded_bytes()).mode(MCP_SUPERVISED_MODE_RAW);
    Some(spec.arg(script.as_os_str().as_encoded_bytes()))
}

/// The main job on real input: traffic, kill -9 in the middle of it, CLOSE with the signal, RECONNECT, and the next call answers.
fn killed_in_the_middle_of_traffic(name: &str) {
    let Some(spec) = installed(name) else { return };
    let mut host = Host::new();
    let peer = host.launch(&spec.restart(3, 100, 60_000));
    host.request(peer, "discover", "server/discover", json!({}));
    assert_eq!(host.answer("discover").json()["result"]["supportedVersions"], json!(["2026-07-28"]));
    host.request(peer, "tools", "tools/list", json!({}));
    let tools = host.answer("tools").json();
    assert!(tools["result"]["tools"].as_array().is_some_and(|tools| tools.iter().any(|tool| tool["name"] == "echo")));

    host.call(peer, "pid-1", "pid", json!({}));
    let first = host.answer("pid-1").tool_text();
    assert_eq!(first, host.pid(peer).to_string());
    // One call waits inside the server, others go back and forth.
    host.call(peer, "waiting", "sleep", json!({"ms": 600_000}));
    for n in 0..20 {
        host.call(peer, &format!("echo-{n}"), "echo", json!({"message": format!("m{n}")}));
    }
    assert_eq!(host.answer("echo-0").tool_text(), "m0");
    kill9(host.pid(peer));

    let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    let order = letters(&taken);
    assert!(order.trim_start_matches("M ").starts_with("D C R"), "{order}");
    let close = taken.iter().find(|e| e.is(MCP_SUPERVISED_EVENT_CLOSE)).unwrap();
    assert_eq!((close.signal, close.life), (9, 1));
    assert!(close.will_reconnect());
    assert!(close.text().contains(&format!("{name} is up")), "the last words of the server: {}", close.text());

    host.call(peer, "pid-2", "pid", json!({}));
    let second = host.answer("pid-2").tool_text();
    assert_ne!(first, second);
    assert_eq!(second, host.pid(peer).to_string());
    assert!(!host.seen.iter().any(|e| e.id == b"\"waiting\""), "the lost call is not sent again");

    assert_eq!(host.close(peer), 0);
    let last = host.until(Event::is_final).pop().unwrap();
    assert_eq!((last.exit_code, last.signal), (0, 0), "it leaves by itself at the end of its input");
    assert_eq!(last.life, 2);
}

/// A server that dies again and again is given up when the budget is spent, although each life served.
fn crash_loop(name: &str) {
    let Some(spec) = installed(name) else { return };
    let mut host = Host::new();
    let peer = host.launch(&spec.restart(2, 10, 60_000));
    for life in 1..=3 {
        host.call(peer, &format!("echo-{life}"), "echo", json!({"message": "still here"}));
        assert_eq!(host.answer(&format!("echo-{life}")).tool_text(), "still here");
        host.call(peer, &format!("crash-{life}"), "crash", json!({"code": 3}));
        let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT) || e.is(MCP_SUPERVISED_EVENT_EXHAUSTED));
        let close = taken.iter().find(|e| e.is(MCP_SUPERVISED_EVENT_CLOSE)).unwrap();
        assert_eq!((close.exit_code, close.life), (3, life));
        assert_eq!(letters(&taken), if life < 3 { "D C R" } else { "D C X" });
    }
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_CLOSED as i32);
}

#[test]
fn l02_ts2_killed_in_the_middle_of_traffic() {
    killed_in_the_middle_of_traffic("ts2");
}

#[test]
fn l02_py2_killed_in_the_middle_of_traffic() {
    killed_in_the_middle_of_traffic("py2");
}

#[test]
fn l12_ts2_crash_loop_is_given_up() {
    crash_loop("ts2");
}

#[test]
fn l12_py2_crash_loop_is_given_up() {
    crash_loop("py2");
}
