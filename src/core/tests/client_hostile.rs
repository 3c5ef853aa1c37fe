//! What servers do to hosts that ask them something: odd spellings, floods, answers that break off.

use serde_json::json;

use super::caller::{Caller, retrying, with_client};
use super::harness::policy;
use crate::core::client::Options;
use crate::core::time::ms;

/// Some JSON writers escape every slash; a method is what it spells.
#[test]
fn r03_s02_s04_methods_are_known_with_escaped_slashes() {
    let mut caller = Caller::started(policy());
    let call =
        caller.ask_with("tools/call", "{}", Options { progress: true, idle: Some(ms(100)), ..Options::default() });
    let call = call.unwrap();
    caller.reads();
    for _ in 0..3 {
        caller.advance(60);
        caller.feed(
            format!(
                r#"{{"jsonrpc":"2.0","method":"notifications\/progress","params":{{"progressToken":"progress-{call}","progress":1}}}}{}"#,
                "\n"
            )
            .as_bytes(),
        );
        assert_eq!(caller.take(), format!(r"M notifications\/progress #{call}"));
    }
    let stream = caller.listen();
    caller.reads();
    caller.feed(
        format!(r#"{{"jsonrpc":"2.0","method":"notifications\/cancelled","params":{{"requestId":{stream}}}}}{}"#, "\n")
            .as_bytes(),
    );
    assert_eq!(caller.take(), format!("E cancelled #{stream} complete by-peer"));
}

/// Lines that are no message pin no buffer, so a host that sheds messages is still not flooded with what is said of them.
#[test]
fn f03_f01_a_flood_of_garbage_is_not_read_on_without_end() {
    let mut policy = with_client(|client| client.shed = true);
    policy.limits.event_queue = 10;
    let mut caller = Caller::started(policy);
    let garbage = "nonsense\n".repeat(100);
    caller.feed(garbage.as_bytes());
    assert_eq!(caller.take().matches("E malformed").count(), 100, "all of it in the end");
    let mut caller = Caller::started(with_client(|client| client.shed = true));
    caller.feed("nonsense\n".repeat(3000).as_bytes());
    assert!(caller.sup.connection(0).is_some_and(|conn| conn.framer.has_line()), "the rest waits for the host");
}

/// One error of an acknowledged stream may be held back; more of them cost nothing.
#[test]
fn s04_one_error_of_a_stream_is_held_and_no_more() {
    let mut caller = Caller::started(policy());
    let stream = caller.listen();
    caller.reads();
    caller.acknowledges(stream);
    caller.take();
    for _ in 0..5 {
        caller.errs(stream, -32000);
    }
    assert_eq!(caller.take_unlogged(), "");
    caller.advance(250);
    assert_eq!(caller.take_unlogged(), format!("M error -32000 #{stream} complete"));
}

/// A server that is killed in the middle of an answer has not given it: the request is lost with the connection, and sent again
/// if it may be.
#[test]
fn t05_w02_an_answer_that_breaks_off_with_its_server_is_a_loss() {
    let mut caller = Caller::started(retrying());
    let list = caller.call("tools/list");
    let call = caller.call("tools/call");
    caller.reads();
    let half = format!(r#"{{"jsonrpc":"2.0","id":{list},"result":{{"tools":["#);
    caller.feed(half.as_bytes());
    caller.die(0);
    assert_eq!(
        caller.take_unlogged(),
        format!("E malformed life=1, D, C lost exit=0 ->1, E closed #{call} complete"),
        "the line is told, and ends nothing"
    );
    caller.returns();
    caller.reads();
    caller.answers(list);
    assert_eq!(caller.take_unlogged(), format!("M result #{list} complete retried"));

    // While the server lives the same bytes are a broken answer.
    let list = caller.call("tools/list");
    caller.reads();
    caller.feed(format!("{{\"jsonrpc\":\"2.0\",\"id\":{list},\"result\":{{\n").as_bytes());
    assert_eq!(caller.take_unlogged(), format!("E protocol #{list} complete"));
}

/// A broken answer ends a stream as it ends a request: nothing else would.
#[test]
fn w02_a_broken_answer_ends_a_stream_too() {
    let mut caller = Caller::started(policy());
    let stream = caller.listen();
    caller.reads();
    caller.feed(format!("{{\"jsonrpc\":\"2.0\",\"id\":{stream},\"result\":1,\"error\":2}}\n").as_bytes());
    assert_eq!(caller.take(), format!("E protocol #{stream} complete"));
}

/// Late is late, also for a server that answers with strings.
#[test]
fn r06_a_late_answer_with_a_string_id_is_dropped() {
    let mut caller = Caller::started(policy());
    let call = caller.call("tools/call");
    caller.reads();
    caller.cancel(call).unwrap();
    caller.take();
    caller.results(call.to_string(), json!({}));
    assert_eq!(caller.take_unlogged(), "");
}

/// Completions of one moment come in the order of acceptance, whatever their deadlines were.
#[test]
fn l16_requests_that_are_overdue_together_end_in_the_order_of_acceptance() {
    let mut caller = Caller::started(policy());
    let slow = caller.ask_timed("a", Some(ms(90)), None);
    let fast = caller.ask_timed("b", Some(ms(10)), None);
    let bounded = caller.ask_timed("c", None, Some(ms(90)));
    caller.reads();
    caller.sleep(60_000);
    let now = caller.now;
    caller.sup.tick(now);
    assert_eq!(
        caller.take_unlogged(),
        format!("E timeout #{slow} complete, E timeout #{fast} complete, E timeout #{bounded} complete")
    );
}

/// A cancel that is refused leaves nothing to report behind.
#[test]
fn h01_a_cancel_that_is_refused_changes_nothing() {
    let mut caller = Caller::started(policy());
    caller.reads();
    assert_eq!(caller.cancel(99), Err("NO_REQUEST"));
    assert!(!caller.sup.has_work());
}
