//! Rules R3 and R5: the two deadlines of a request, and its end by the host, in each state of table L.

use super::caller::{Caller, retrying, with_client};
use super::harness::{Rig, policy};
use crate::core::budget::MaxRestarts;
use crate::core::chunk::READ_BYTES;
use crate::core::client::Options;
use crate::core::log::Level;
use crate::core::peer::StateName;
use crate::core::policy::Policy;
use crate::core::time::{NEVER, ms};

#[test]
fn r03_the_idle_timeout_is_restarted_by_progress_of_that_request_only() {
    let mut caller = Caller::started(policy());
    let options = Options { progress: true, ..Options::default() };
    caller.ask_with("tools/call", "{}", options).unwrap();
    caller.call("tools/call");
    caller.reads();
    caller.advance(40_000);
    caller.progresses("progress-1");
    caller.advance(19_999);
    assert_eq!(caller.take(), "M notifications/progress #1");
    caller.advance(1);
    assert_eq!(caller.take(), "E timeout #2 complete");
    caller.advance(39_999);
    assert_eq!(caller.take(), "");
    caller.advance(1);
    assert_eq!(caller.take(), "E timeout #1 complete");
    assert_eq!(caller.reads(), "cancel 2, cancel 1");
}

#[test]
fn r03_the_ceiling_runs_from_acceptance_whatever_progress_comes() {
    let mut caller = Caller::started(policy());
    let options = Options { progress: true, ceiling: Some(ms(100_000)), ..Options::default() };
    caller.ask_with("tools/call", "{}", options).unwrap();
    caller.reads();
    for _ in 0..9 {
        caller.advance(11_000);
        caller.progresses("progress-1");
        caller.poll();
    }
    caller.advance(999);
    assert_eq!(caller.take(), "");
    caller.advance(1);
    assert_eq!(caller.take(), "E timeout #1 complete");
}

#[test]
fn r03_the_text_names_the_bound_that_fired() {
    use crate::core::event::Event;
    use crate::core::supervisor::Told;
    let cases = [
        (Some(ms(50)), None, "idle timeout of 50 ms"),
        (Some(NEVER), Some(ms(70)), "ceiling of 70 ms"),
        (None, None, "idle timeout of 60000 ms"),
    ];
    for (idle, ceiling, expected) in cases {
        let mut caller = Caller::started(policy());
        caller.ask_timed("tools/call", idle, ceiling);
        caller.advance(60_000);
        let Some(Told::Peer { queued, .. }) = caller.sup.next_event() else { panic!("{expected}") };
        let Event::Failed(failed) = queued.event else { panic!("{queued:?}") };
        assert!(failed.text.contains(expected), "{}", failed.text);
    }
}

#[test]
fn r03_the_ceiling_is_raised_to_the_idle_timeout() {
    let mut caller = Caller::started(policy());
    caller.ask_timed("tools/call", Some(ms(500)), Some(ms(100)));
    // The peer's idle timeout counts too.
    caller.ask_timed("tools/call", None, Some(ms(100)));
    caller.advance(499);
    assert_eq!(caller.take(), "");
    caller.advance(1);
    assert_eq!(caller.take(), "E timeout #1 complete");
    caller.advance(59_499);
    assert_eq!(caller.take(), "");
    caller.advance(1);
    assert_eq!(caller.take(), "E timeout #2 complete");
}

#[test]
fn r03_each_bound_can_be_off_per_request_and_per_peer() {
    let mut caller = Caller::started(policy());
    caller.ask_timed("tools/call", Some(NEVER), None);
    caller.ask_timed("tools/call", None, Some(NEVER));
    caller.ask_timed("tools/call", Some(NEVER), Some(NEVER));
    caller.advance(60_000);
    assert_eq!(caller.take(), "E timeout #2 complete");
    caller.advance(539_999);
    assert_eq!(caller.take(), "");
    caller.advance(1);
    assert_eq!(caller.take(), "E timeout #1 complete");
    caller.advance(1_000_000_000);
    assert_eq!((caller.take().as_str(), caller.deadline()), ("", None));
    caller.answers(3);
    assert_eq!(caller.take(), "M result #3 complete");

    let mut caller = Caller::started(with_client(|client| {
        client.idle_timeout = NEVER;
        client.max_timeout = NEVER;
    }));
    caller.call("tools/call");
    caller.ask_timed("tools/call", Some(ms(5)), None);
    caller.advance(5);
    assert_eq!(caller.take(), "E timeout #2 complete");
    assert_eq!(caller.deadline(), None);
}

/// Whether the server is told depends on one thing: whether it may have read a byte of the request.
#[test]
fn r03_r05_the_server_is_told_only_of_what_it_may_have_read() {
    for by_host in [true, false] {
        let length = {
            let mut caller = Caller::started(policy());
            caller.call("tools/call");
            caller.queued()
        };
        for (written, expected) in [
            (0, "#2 tools/call"),
            (1, "#1 tools/call, #2 tools/call, cancel 1"),
            (length - 1, "#1 tools/call, #2 tools/call, cancel 1"),
            (length, "#1 tools/call, #2 tools/call, cancel 1"),
        ] {
            let mut caller = Caller::started(policy());
            let id = caller.ask_timed("tools/call", Some(ms(10)), None);
            caller.call("tools/call");
            let mut read = caller.reads_bytes(written);
            if by_host {
                caller.cancel(id).unwrap();
                assert_eq!(caller.take(), "E cancelled #1 complete");
            } else {
                caller.advance(10);
                assert_eq!(caller.take(), "E timeout #1 complete");
            }
            let more = caller.reads();
            if !read.is_empty() {
                read += ", ";
            }
            assert_eq!(read + &more, expected, "{written} bytes written, by host: {by_host}");
        }
    }
}

#[test]
fn r05_the_reason_is_told() {
    let mut caller = Caller::started(policy());
    let id = caller.call("tools/call");
    caller.reads();
    caller.cancel(id).unwrap();
    let line = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}"#;
    assert_eq!(caller.reads_whole(), [line]);
}

#[test]
fn r03_a_late_answer_is_dropped_with_a_log_line() {
    let mut caller = Caller::logging(policy());
    let id = caller.call("tools/call");
    caller.reads();
    caller.advance(60_000);
    caller.answers(id);
    assert_eq!(caller.take(), "E timeout #1 complete, LOG dropped a late answer to request 1");
}

#[test]
fn r03_deadlines_that_pass_together_end_in_the_order_of_acceptance() {
    let mut caller = Caller::started(policy());
    for _ in 0..4 {
        caller.call("tools/call");
    }
    caller.ask_timed("tools/call", Some(NEVER), Some(ms(60_000)));
    caller.sleep(60_000);
    caller.tick();
    let expected: Vec<String> = (1..=5).map(|id| format!("E timeout #{id} complete")).collect();
    assert_eq!(caller.take(), expected.join(", "));
}

/// R4: the reactor is told whose output is to be read before a deadline is judged; other deadlines of the client need none.
#[test]
fn r04_a_deadline_that_is_due_asks_for_the_output_first() {
    let mut caller = Caller::started(policy());
    caller.ask_timed("tools/call", Some(ms(50)), None);
    caller.listen();
    let slot = caller.slot();
    assert!(caller.sup.judges(caller.now + ms(49)).is_empty());
    assert_eq!(caller.sup.judges(caller.now + ms(50)), [slot]);
    caller.sleep(50);
    caller.answers(1);
    assert!(caller.sup.judges(caller.now).is_empty(), "the answer was in the pipe");
    caller.tick();
    assert_eq!(caller.take(), "M result #1 complete");
}

/// A large line may end the turn of its peer, but not what is taken because a deadline is due: what was read with it would be judged
/// unseen, and nothing would tell of it afterwards.
#[test]
fn r04_an_answer_that_was_read_with_a_large_line_beats_its_deadline() {
    let mut caller = Caller::started(policy());
    caller.ask_timed("tools/call", Some(ms(50)), None);
    let note = format!(r#"{{"jsonrpc":"2.0","method":"n","params":{{"text":"{}"}}}}"#, "x".repeat(READ_BYTES));
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    caller.sleep(50);
    let text = format!("{note}\n{note}\n{answer}\n");
    assert_eq!(caller.feed(text.as_bytes()), text.len());
    let slot = caller.slot();
    assert!(!caller.sup.has_backlog(slot), "all that was asked for was taken");
    assert!(caller.sup.judges(caller.now).is_empty(), "the answer was in the pipe");
    caller.tick();
    assert_eq!(caller.take(), "M n, M n, M result #1 complete");
}

/// Where no connection takes lines a deadline ends the request all the same, and nothing is sent for it.
#[test]
fn r03_deadlines_run_while_the_peer_is_down() {
    let mut caller = Caller::started(retrying());
    caller.ask_timed("tools/list", Some(ms(50)), None);
    caller.ask_timed("tools/list", Some(ms(150)), None);
    caller.reads();
    caller.die(0);
    assert_eq!(caller.take(), "D, C lost exit=0 ->1");
    caller.advance(50);
    assert_eq!((caller.state(), caller.take().as_str()), (StateName::Waiting, "E timeout #1 complete"));
    caller.advance(50);
    caller.spawn();
    assert_eq!(caller.reads(), "#2 tools/list", "the one that timed out is not sent again");
    caller.advance(50);
    assert_eq!(caller.take(), "R 2, E timeout #2 complete retried");
    assert_eq!(caller.reads(), "cancel 2");
}

/// A peer in each state, with a request and a stream that were accepted before.
fn in_state(state: StateName) -> (Caller, u64, u64) {
    let slow = Policy { serves_at_once: false, ..retrying() };
    let mut caller = Caller::started(if state == StateName::Starting { slow } else { retrying() });
    let (request, stream) = (caller.call("tools/list"), caller.listen());
    match state {
        StateName::Starting => {}
        StateName::Running => {
            caller.reads();
        }
        StateName::Ending => {
            caller.reads();
            caller.exit(0, 10);
        }
        StateName::Waiting => {
            caller.reads();
            caller.die(0);
        }
        StateName::Draining => {
            caller.reads();
            caller.close();
        }
        StateName::Closing => {
            caller.close();
            caller.poll();
            caller.begin_poll();
            caller.reads();
        }
        StateName::Idle | StateName::Closed => unreachable!("nothing is accepted, or nothing is left"),
    }
    caller.take();
    assert_eq!(caller.state(), state);
    (caller, request, stream)
}

#[test]
fn r05_cancel_in_each_state() {
    use StateName::*;
    for (state, told) in
        [(Starting, false), (Running, true), (Ending, false), (Waiting, false), (Draining, true), (Closing, false)]
    {
        let (mut caller, request, stream) = in_state(state);
        assert_eq!(caller.cancel(request), Ok(()), "{state:?}");
        assert_eq!(caller.cancel(request), Err("NO_REQUEST"), "{state:?}: its completion is queued");
        assert_eq!(caller.cancel(stream), Ok(()), "{state:?}");
        assert_eq!(caller.take(), "E cancelled #1 complete, E cancelled #2 complete", "{state:?}");
        assert_eq!(caller.cancel(request), Err("NO_REQUEST"), "{state:?}: its completion was handed out");
        assert_eq!(caller.in_flight(), 0);
        assert_eq!(caller.reads(), if told { "cancel 1, cancel 2" } else { "" }, "{state:?}");
        if state == Waiting {
            caller.advance(100);
            caller.spawn();
            assert_eq!((caller.take().as_str(), caller.reads().as_str()), ("R 2", ""), "nothing is opened again");
        }
    }
}

/// R3: a line that still waits is taken out of the queue, also while the queue is flushed for the last time; and the end of
/// stdin does not wait for what will never be written.
#[test]
fn r05_cancel_while_closing_takes_a_line_that_waits_out_of_the_queue() {
    for by_host in [true, false] {
        let mut caller = Caller::started(policy());
        let first = caller.ask_timed("tools/call", Some(ms(10)), None);
        let second = caller.ask_timed("tools/call", Some(ms(10)), None);
        caller.reads_bytes(1);
        caller.close();
        caller.poll();
        caller.begin_poll();
        caller.acts();
        if by_host {
            caller.cancel(first).unwrap();
            caller.cancel(second).unwrap();
        } else {
            caller.advance(10);
        }
        assert!(!caller.acts().contains("CloseStdin"), "part of a line waits");
        assert_eq!(caller.reads(), "#1 tools/call", "it was begun, the other one was not; nothing is added");
        assert_eq!(caller.acts(), "CloseStdin");

        let mut caller = Caller::started(policy());
        let only = caller.ask_timed("tools/call", Some(ms(10)), None);
        caller.close();
        caller.poll();
        caller.begin_poll();
        caller.acts();
        if by_host {
            caller.cancel(only).unwrap();
        } else {
            caller.advance(10);
        }
        assert_eq!((caller.acts().as_str(), caller.reads().as_str()), ("CloseStdin", ""));
    }
}

#[test]
fn r05_unknown_ids_are_no_request_and_nothing_is_sent() {
    let mut caller = Caller::idle(policy(), Level::Server);
    assert_eq!(caller.cancel(1), Err("NO_REQUEST"), "IDLE");
    caller.start();
    let id = caller.call("tools/call");
    caller.reads();
    for unknown in [0, id + 1, u64::MAX] {
        assert_eq!(caller.cancel(unknown), Err("NO_REQUEST"));
    }
    caller.answers(id);
    assert_eq!(caller.cancel(id), Err("NO_REQUEST"), "its completion is queued");
    caller.take();
    assert_eq!(caller.cancel(id), Err("NO_REQUEST"));
    assert_eq!(caller.reads(), "");
    caller.call("tools/call");
    caller.die(0);
    caller.close();
    assert_eq!(caller.cancel(id + 1), Err("NO_REQUEST"), "CLOSED");
}

/// Table L: what is accepted where.
#[test]
fn l_table_requests_streams_and_notifications() {
    use StateName::*;
    let mut caller = Caller::idle(policy(), Level::Server);
    assert_eq!(caller.ask("tools/list", "{}"), Err("NOT_STARTED"));
    assert_eq!((caller.try_listen(), caller.notify("a")), (Err("NOT_STARTED"), Err("NOT_STARTED")));
    for (state, accepted) in
        [(Starting, true), (Running, true), (Ending, false), (Waiting, false), (Draining, true), (Closing, false)]
    {
        let (mut caller, ..) = in_state(state);
        let answers = [caller.ask("tools/list", "{}").err(), caller.try_listen().err(), caller.notify("a").err()];
        assert_eq!(answers, [if accepted { None } else { Some("CLOSED") }; 3], "{state:?}");
    }
    let slow = Policy { serves_at_once: false, ..policy() };
    let mut caller = Caller::started(slow);
    caller.serves();
    caller.dies_and_returns();
    assert_eq!(caller.state(), Starting);
    let answers = [caller.ask("tools/list", "{}").err(), caller.try_listen().err(), caller.notify("a").err()];
    assert_eq!(answers, [Some("CLOSED"); 3], "STARTING of a later life");
    caller.close();
    caller.die(0);
    let answers = [caller.ask("tools/list", "{}").err(), caller.try_listen().err(), caller.notify("a").err()];
    assert_eq!(answers, [Some("CLOSED"); 3], "CLOSED");
}

#[test]
fn l_table_closed_comes_before_would_block() {
    let mut policy = with_client(|client| client.max_in_flight = 1);
    policy.max_restarts = MaxRestarts::Limited(1);
    policy.client.retry = true;
    let mut caller = Caller::started(policy);
    caller.call("tools/list");
    assert_eq!(caller.ask("tools/list", "{}"), Err("TOO_MANY"));
    caller.die(0);
    assert_eq!(caller.ask("tools/list", "{}"), Err("CLOSED"));
}

#[test]
fn h01_many_peers_without_traffic_wake_the_handle_once() {
    let policies = vec![policy(); 50];
    let mut rig = Rig::with(&policies, Level::Server);
    let wait = |idle| Options { idle: Some(ms(idle)), ceiling: Some(NEVER), ..Options::default() };
    for peer in 0..50 {
        rig.on(peer).start();
        rig.sup.request(rig.now, rig.id(), "tools/call", b"{}", &wait(1_000 + peer as u64)).unwrap();
        rig.feed(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    }
    // One of them still waits.
    let waits = rig.on(17).id();
    rig.sup.request(rig.now, waits, "tools/call", b"{}", &wait(30_000)).unwrap();
    rig.take();
    let mut wakes = Vec::new();
    while let Some(wait) = rig.deadline() {
        wakes.push(wait);
        let at = rig.now + ms(wait);
        rig.advance_to(at);
        rig.take();
    }
    assert_eq!(wakes, [1_000, 29_000]);
}
