//! Situations in which the reference implementation goes wrong with requests and streams; the numbers are those of the table of
//! traps in docs/acceptance.md.

use serde_json::json;

use super::caller::{Caller, retrying, with_client};
use super::harness::policy;
use crate::core::client::Options;
use crate::core::peer::StateName;
use crate::core::policy::Policy;
use crate::core::time::{NEVER, ms};

type Step = fn(&mut Caller);

const ACK: &str = "M notifications/subscriptions/acknowledged";

/// A request that survives, one that does not and a stream, read by the server.
fn busy(policy: Policy) -> Caller {
    let mut caller = Caller::started(policy);
    caller.call("tools/list");
    caller.call("tools/call");
    caller.listen();
    caller.reads();
    caller
}

/// One stream that the server has acknowledged.
fn open(policy: Policy) -> Caller {
    let mut caller = Caller::started(policy);
    let stream = caller.listen();
    caller.reads();
    caller.acknowledges(stream);
    assert_eq!(caller.take(), format!("{ACK} #{stream}"));
    caller
}

/// A host that sheds, with a queue of two.
fn shedding() -> Policy {
    let mut policy = with_client(|client| client.shed = true);
    policy.limits.event_queue = 2;
    policy
}

/// The close comes while the timer of the replacement is truly pending, and the loss was absorbed before.
#[test]
fn trap_01_a_close_while_down_ends_streams_and_the_pending_timer() {
    let closes: [(&str, Step, &str); 2] =
        [("close", |caller| caller.close(), ""), ("shutdown", |caller| caller.shutdown(500), ", SHUTDOWN!")];
    let downs: [(&str, Step, Option<u64>); 3] = [
        ("at once", |_| {}, Some(100)),
        ("in the last millisecond", |caller| caller.advance(99), Some(1)),
        (
            "after a try that failed",
            |caller| {
                caller.advance(100);
                caller.spawn_fails();
                assert_eq!(caller.take(), "E spawn life=2 ->2");
            },
            Some(100),
        ),
    ];
    for retry in [false, true] {
        for (close, closes, end) in closes {
            for (when, down, pending) in downs {
                let name = format!("{close} {when}, retry {retry}");
                let mut caller = open(with_client(|client| client.retry = retry));
                caller.die(0);
                assert_eq!(caller.take(), "D, C lost exit=0 ->1", "{name}: nothing is told of the stream");
                down(&mut caller);
                assert_eq!((caller.state(), caller.deadline()), (StateName::Waiting, pending), "{name}");
                caller.acts();
                closes(&mut caller);
                assert_eq!(caller.take(), format!("C withdrawn, E closed #1 complete!{end}"), "{name}");
                assert_eq!((caller.state(), caller.deadline()), (StateName::Closed, None), "{name}");
                caller.advance(3_600_000);
                assert_eq!((caller.acts().as_str(), caller.take().as_str()), ("", ""), "{name}: no second process");
            }
        }
    }
}

/// Whatever is seen first of a death, what should survive it does: the decision has fallen before anything is ended.
#[test]
fn trap_02_whatever_is_seen_first_of_a_death_fails_nothing_that_should_survive() {
    let signs: [(&str, Step, &str); 5] = [
        ("the end of stdout", |caller| caller.eof(), ""),
        ("a read that fails", |caller| caller.stdout_ends(Some("bad"), None), "E io life=1, "),
        ("a write that fails", |caller| caller.stdin_gone(0), ""),
        (
            "a line over the limit",
            |caller| {
                caller.feed(&[b'x'; 2_000]);
            },
            "E frametoolarge life=1, ",
        ),
        ("the exit", |caller| caller.exit(0, 0), ""),
    ];
    for (name, sign, told) in signs {
        let mut policy = retrying();
        policy.limits.frame_bytes = 1_024;
        let mut caller = busy(policy);
        sign(&mut caller);
        assert_eq!((caller.state(), caller.in_flight()), (StateName::Ending, 3), "{name}");
        // The exit of a server that runs on comes long after, when it is told to go.
        caller.advance(250);
        caller.exit(0, 0);
        caller.eof();
        let lost = "D, C lost exit=0 ->1, E closed #2 complete, R 2";
        assert_eq!(caller.returns(), format!("{told}{lost}"), "{name}");
        assert_eq!(caller.reads(), "#1 tools/list, #3 subscriptions/listen", "{name}");
        caller.answers(1);
        assert_eq!(caller.take(), "M result #1 complete retried", "{name}");
    }
}

/// A host that has taken a notification and waits for the answer to what it asked because of it takes nothing else meanwhile.
#[test]
fn trap_06_a_replacement_waits_for_nothing_that_the_host_does() {
    let mut caller = Caller::started(retrying());
    caller.out("notifications/tools/list_changed");
    assert_eq!(caller.take(), "M notifications/tools/list_changed");
    caller.call("tools/list");
    caller.reads();
    caller.die(0);
    // What it says late belongs to the life it was said to.
    assert_eq!(caller.send("late").unwrap_err(), "CLOSED");
    caller.advance(100);
    caller.spawn();
    assert_eq!((caller.state(), caller.reads().as_str()), (StateName::Running, "#1 tools/list"));
    caller.answers(1);
    assert_eq!(caller.take(), "D, C lost exit=0 ->1, R 2, M result #1 complete retried");
}

/// A server that closed its stdout and lives on is ended at its time, and what is lost with it is told; nobody has to take DRAIN.
#[test]
fn trap_06_a_server_without_stdout_is_ended_whatever_the_host_does() {
    let mut caller = busy(policy());
    caller.acts();
    caller.eof();
    caller.advance(250);
    assert!(caller.acts().contains("Terminate"));
    caller.advance(2_000);
    assert!(caller.acts().contains("Kill"));
    caller.exit(0, 0);
    caller.advance(100);
    caller.spawn();
    let told = "D, C lost exit=0 ->1, E closed #1 complete, E closed #2 complete, R 2";
    assert_eq!(caller.take(), told);
}

/// A close as soon as the replacement is there: whether RECONNECT was taken or not, and whether the stream is open again or not
/// yet, it ends once.
#[test]
fn trap_15_a_close_at_the_reconnect_settles_every_stream() {
    for (taken, opened) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut caller = open(policy());
        caller.die(0);
        caller.advance(100);
        caller.spawn();
        let mut told = if taken { caller.take() } else { String::new() };
        if opened {
            assert_eq!(caller.reads(), "#1 subscriptions/listen");
        }
        caller.close();
        told += &caller.poll();
        caller.begin_poll();
        assert_eq!(caller.reads(), if opened { "cancel 1" } else { "" }, "it is not opened to be cancelled");
        caller.die(0);
        told += &caller.take();
        assert!(told.ends_with("C asked exit=0, E closed #1 complete!"), "{taken} {opened}: {told}");
        assert_eq!(told.matches("complete").count(), 1, "{taken} {opened}: {told}");
        assert!(caller.sup.peer(caller.id()).unwrap().holds_nothing());
    }
}

/// A replacement that does not take what is sent again is no replacement. Requests and streams fare alike: both wait for the next.
#[test]
fn trap_16_requests_and_streams_fare_alike_when_a_replacement_takes_nothing() {
    let mut caller = Caller::started(retrying());
    caller.call("tools/list");
    caller.listen();
    caller.reads();
    caller.dies_and_returns();
    caller.stdin_gone(0);
    assert_eq!((caller.state(), caller.in_flight()), (StateName::Ending, 2));
    caller.die(0);
    assert_eq!(caller.returns(), "D, C lost exit=0 ->2 unread=3, R 3");
    assert_eq!(caller.reads(), "#1 tools/list, #2 subscriptions/listen");

    // Nor is one of them refused for want of room.
    let mut policy = retrying();
    policy.limits.outbound_bytes = 300;
    let mut caller = Caller::started(policy);
    for _ in 0..4 {
        caller.call("tools/list");
        caller.reads();
        caller.listen();
        caller.reads();
    }
    let told = caller.dies_and_returns();
    assert_eq!(told, "D, C lost exit=0 ->1, R 2");
    assert!(caller.queued() > 600);
    let again = caller.reads();
    assert_eq!((again.matches("tools/list").count(), again.matches("subscriptions/listen").count()), (4, 4));
}

/// A refusal is the server's word and ends the stream where it is read, before the death that follows it.
#[test]
fn trap_17_a_refusal_right_before_a_death_is_a_refusal() {
    type Death = fn(&mut Caller, i64);
    let deaths: [(&str, Death); 2] = [
        ("refused, then dead", |caller, code| {
            caller.errs(1, code);
            caller.die(0);
        }),
        ("seen dead, then read", |caller, code| {
            caller.exit(0, 500);
            caller.errs(1, code);
            caller.eof();
        }),
    ];
    for (name, death) in deaths {
        // The codes with which a server answers on its way out count as its word too until it has acknowledged the stream.
        for (acknowledged, code) in [(false, -32603), (true, -32603), (false, -32000), (true, -32020)] {
            let mut caller = Caller::started(policy());
            caller.listen();
            caller.reads();
            if acknowledged {
                caller.acknowledges(1);
                caller.take();
            }
            death(&mut caller, code);
            let told = caller.returns();
            assert_eq!(told, format!("M error {code} #1 complete, D, C lost exit=0 ->1, R 2"), "{name}");
            assert_eq!(caller.reads(), "", "{name}: nothing is opened again");
        }
    }
}

/// Who waits for a stream waits for its completion, and that is there when the call that ended the stream returns.
#[test]
fn trap_18_a_stream_that_the_host_ends_has_its_completion_at_once() {
    let mut caller = open(policy());
    caller.cancel(1).unwrap();
    assert_eq!((caller.take().as_str(), caller.in_flight()), ("E cancelled #1 complete", 0));
    assert!(caller.sup.peer(caller.id()).unwrap().holds_nothing());
    // And that is all that is ever told of it.
    caller.delivers(1, "a");
    caller.answers(1);
    caller.dies_and_returns();
    caller.close();
    caller.die(0);
    assert!(!caller.take().contains("#1"));
}

/// A stream that ends for a delivery that was shed is over for both sides at once.
#[test]
fn trap_19_the_server_is_told_of_a_stream_that_was_shed() {
    let mut caller = open(shedding());
    for _ in 0..3 {
        caller.delivers(1, "a");
    }
    assert_eq!(caller.reads(), "cancel 1");
    assert_eq!(caller.in_flight(), 0, "its place is free before the host has looked");
    assert!(caller.sup.peer(caller.id()).unwrap().holds_nothing());
    assert_eq!(caller.cancel(1), Err("NO_REQUEST"));
    assert_eq!(caller.take(), "M a #1, M a #1, E deliverydropped #1 complete");
    caller.answers(1);
    assert_eq!(caller.take(), "", "too late");
    let told = caller.dies_and_returns();
    assert_eq!((told.as_str(), caller.reads().as_str()), ("D, C lost exit=0 ->1, R 2", ""));
}

/// Progress counts when it is read, whether it can be delivered or not.
#[test]
fn trap_20_a_flood_does_not_time_out_a_healthy_call() {
    let mut caller = Caller::started(shedding());
    caller.ask_with("tools/call", "{}", Options { progress: true, ..Options::default() }).unwrap();
    caller.reads();
    for _ in 0..9 {
        for _ in 0..100 {
            caller.out("flood");
        }
        caller.progresses("progress-1");
        caller.advance(59_000);
        assert_eq!(caller.in_flight(), 1);
    }
    caller.answers(1);
    assert_eq!(caller.take(), "M flood, M flood, M result #1 complete");
}

/// Each bound stands for itself: without an idle timeout the ceiling holds still.
#[test]
fn trap_25_without_an_idle_timeout_the_ceiling_stands() {
    let mut caller = Caller::started(with_client(|client| client.idle_timeout = NEVER));
    caller.call("tools/call");
    caller.ask_timed("tools/call", Some(NEVER), Some(ms(70_000)));
    caller.advance(69_999);
    assert_eq!(caller.take(), "");
    caller.advance(1);
    assert_eq!(caller.take(), "E timeout #2 complete");
    caller.advance(529_999);
    assert_eq!(caller.take(), "");
    caller.advance(1);
    assert_eq!(caller.take(), "E timeout #1 complete");
}

/// The gap lies between CLOSE, which says how the server ended, and RECONNECT; what the new server accepts is told by its own
/// acknowledgement of the stream.
#[test]
fn trap_26_a_gap_in_a_stream_shows() {
    let mut caller = open(policy());
    caller.delivers(1, "a");
    caller.die(3);
    caller.advance(100);
    caller.spawn();
    caller.reads();
    caller.acknowledges(1);
    caller.delivers(1, "b");
    assert_eq!(caller.take(), format!("M a #1, D, C lost exit=3 ->1, R 2, {ACK} #1, M b #1"));
}

/// An object without keys is not a list without elements, on the way out and on the way in.
#[test]
fn trap_28_an_empty_list_is_no_empty_object() {
    let mut caller = Caller::started(policy());
    assert_eq!(caller.ask("server/discover", "[]"), Err("INVALID"));
    assert_eq!(caller.ask("server/discover", "{}"), Ok(1));
    caller.reads();
    caller.feed(b"[]\n");
    assert_eq!(caller.take(), "E malformed life=1", "not even the object that could be a message");
    caller.says(&json!({"jsonrpc": "2.0", "method": "a", "params": []}));
    caller.says(&json!({"jsonrpc": "2.0", "method": "a", "params": {}}));
    assert_eq!(caller.take(), "M a, M a");
    // As what a server can do, only the object says something.
    for (capabilities, after) in [(json!([]), Ok(2)), (json!({}), Err("LACKS"))] {
        let mut caller = Caller::started(policy());
        caller.call("server/discover");
        caller.reads();
        caller.results(1, json!({"capabilities": capabilities.clone()}));
        assert_eq!(caller.take(), "M result #1 complete");
        assert_eq!(caller.ask("tools/list", "{}"), after, "{capabilities}");
    }
}
