//! A server that dies is replaced, within its budget.

mod support;

use serde_json::json;
use support::*;

#[test]
fn l02_a_killed_server_is_replaced_and_the_next_call_answers() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]).restart(3, 1, 60_000));
    host.call(peer, "a", "pid", json!({}));
    let first = host.answer("a").tool_text();
    assert_eq!(first, host.pid(peer).to_string());
    kill9(host.pid(peer));
    let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    assert_eq!(letters(&taken), "D C R");
    let close = taken.iter().find(|e| e.is(MCP_SUPERVISED_EVENT_CLOSE)).unwrap();
    assert_eq!((close.signal, close.exit_code, close.life), (9, -1, 1));
    assert_eq!(close.status, MCP_SUPERVISED_CLOSE_PEER_LOST as i32);
    assert!(close.will_reconnect());
    assert_eq!((close.attempt, close.max_restarts, close.delay_ms), (1, 3, 1));
    host.call(peer, "b", "pid", json!({}));
    let second = host.answer("b").tool_text();
    assert_ne!(first, second);
    assert_eq!(host.close(peer), 0);
    let taken = host.until(Event::is_final);
    assert_eq!(letters(&taken), "D C");
    assert_eq!(taken.last().unwrap().exit_code, 0);
    assert_eq!(host.remove(peer), 0);
    assert_eq!(state_of(second.parse().unwrap()), None, "no zombie outlives its connection");
}

#[test]
fn l12_a_crash_loop_ends_in_exhausted() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&["--exit-at-start", "3"]).restart(2, 1, 60_000));
    let taken = host.until(Event::is_final);
    assert_eq!(letters(&taken), "D C R D C R D C X");
    assert_eq!(taken.last().unwrap().max_restarts, 2);
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_CLOSED as i32);
}
