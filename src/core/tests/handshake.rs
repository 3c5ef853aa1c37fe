//! Lives that do not serve yet, and servers of the older revisions, at the level of orders and arithmetic: Z1 to Z7, L1, L2, L10,
//! L11, R4 and R7 there. Servers that misbehave while a connection begins.

use serde_json::{Value, json};

use super::caller::Caller;
use super::harness::policy;
use crate::core::budget::MaxRestarts;
use crate::core::client::Reply;
use crate::core::connection::StdinReport;
use crate::core::event::Exit;
use crate::core::peer::StateName;
use crate::core::policy::{ClientPolicy, Mode, Policy};
use crate::core::time::ms;

pub fn of(mode: Mode) -> Policy {
    let client = ClientPolicy { probe_timeout: ms(1_000), ..ClientPolicy::default() };
    Policy { mode, max_restarts: MaxRestarts::Limited(2), client, ..policy() }
}

/// A peer of that policy whose first line was read.
fn begun(policy: Policy) -> Caller {
    let mut caller = Caller::logging(policy);
    caller.reads();
    caller
}

fn capabilities() -> Value {
    json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}, "logging": {}})
}

pub fn welcome(version: &str) -> Value {
    json!({"protocolVersion": version, "capabilities": capabilities(), "serverInfo": {"name": "s", "version": "1"}})
}

/// A peer of a server of an older revision, which serves.
pub fn legacy(policy: Policy, version: &str) -> Caller {
    let mut caller = begun(Policy { mode: Mode::Legacy, ..policy });
    caller.results("mcp-supervised-1", welcome(version));
    caller.reads();
    assert_eq!(caller.take(), "READY 1");
    caller
}

/// The process has read everything, says nothing more and is gone.
fn leaves(caller: &mut Caller) {
    caller.exit_with(Exit::Code(1), 0, 0, Some(StdinReport { unread: 0, hung_up: true }));
    caller.eof();
}

#[test]
fn z01_the_probe_is_the_very_first_message_and_what_is_asked_waits() {
    let mut caller = Caller::logging(of(Mode::Auto));
    let first = caller.call("tools/list");
    let stream = caller.listen();
    caller.notify("notifications/x").unwrap();
    assert_eq!(caller.reads(), "mcp-supervised-1 server/discover");
    caller.results("mcp-supervised-1", json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}));
    assert_eq!(caller.take(), "READY 1");
    assert_eq!(caller.reads(), format!("#{first} tools/list, #{stream} subscriptions/listen, note notifications/x"));
    assert_eq!(caller.ask("prompts/list", "{}"), Err("LACKS"), "R7: what the probe told gates");
    caller.dies_and_returns();
    assert_eq!(caller.state(), StateName::Running, "it is not asked again");
}

#[test]
fn z01_a_hostile_server_during_the_probe() {
    // None of this decides anything, is answered or is told.
    let mut caller = begun(of(Mode::Auto));
    for line in [
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "id": "mcp-supervised-2", "result": {}}),
        json!({"jsonrpc": "2.0", "id": "mcp-supervised-1 ", "result": {}}),
        json!({"jsonrpc": "2.0", "id": 0, "method": "roots/list"}),
        json!({"jsonrpc": "2.0", "id": "a", "method": "ping"}),
        json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
        json!([{"jsonrpc": "2.0", "id": "mcp-supervised-1", "result": {"supportedVersions": ["2026-07-28"]}}]),
        json!({"id": "mcp-supervised-1", "method": "x"}),
        json!("mcp-supervised-1"),
    ] {
        caller.says(&line);
        assert_eq!((caller.state(), caller.queued()), (StateName::Starting, 0), "{line}");
    }
    caller.feed(b"Server started v1.2\n{\"half\n\xff\xfe\n");
    // A flood of it costs one log line in a hundred.
    for _ in 0..1_000 {
        caller.out("flood");
    }
    let told = caller.take();
    assert!(told.split(", LOG").count() <= 12 && !told.contains("M "), "{told}");
    // The first answer decides; the second one is a late one.
    caller.errs("mcp-supervised-1", -32601);
    caller.errs("mcp-supervised-1", -32601);
    assert_eq!(caller.reads(), "mcp-supervised-2 initialize");
}

#[test]
fn z01_an_error_without_an_id_is_the_answer_to_the_one_request_there_is() {
    for id in [json!(null), Value::Null] {
        let mut caller = begun(of(Mode::Auto));
        caller.says(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32600, "message": "?"}}));
        assert_eq!(caller.reads(), "mcp-supervised-2 initialize");
    }
    let mut caller = begun(of(Mode::Auto));
    caller.says(&json!({"jsonrpc": "2.0", "error": {"code": -32600, "message": "?"}}));
    assert_eq!(caller.reads(), "mcp-supervised-2 initialize");
}

#[test]
fn z01_a_broken_answer_is_an_answer() {
    let mut caller = begun(of(Mode::Auto));
    caller.feed(b"{\"jsonrpc\":\"2.0\",\"id\":\"mcp-supervised-1\",\"result\":{},\"result\":{}}\n");
    assert_eq!(caller.reads(), "mcp-supervised-2 initialize");
    caller.feed(b"{\"jsonrpc\":\"2.0\",\"id\":\"mcp-supervised-2\",\"result\":{},\"error\":{}}\n");
    assert_eq!(caller.state(), StateName::Ending);
    assert!(caller.take().contains("E handshake life=1"));
}

#[test]
fn z01_our_version_is_asked_for_once_more_and_no_oftener() {
    let mut caller = begun(of(Mode::Auto));
    caller.errs_version("mcp-supervised-1", &["2026-07-28"]);
    assert_eq!(caller.reads(), "mcp-supervised-2 server/discover");
    caller.errs_version("mcp-supervised-2", &["2026-07-28"]);
    assert_eq!(caller.state(), StateName::Ending);
    assert_eq!(caller.reads(), "", "never initialize after an error of the present era");

    let mut caller = begun(of(Mode::Auto));
    caller.errs_version("mcp-supervised-1", &["2027-01-01", "2025-11-25"]);
    assert_eq!((caller.state(), caller.reads()), (StateName::Ending, String::new()));

    // A name that is no date is nothing that a server of an older revision could not have.
    let mut caller = begun(of(Mode::Auto));
    caller.errs_version("mcp-supervised-1", &["DRAFT-2026-v1", "2025-11-25"]);
    assert_eq!(caller.reads(), "mcp-supervised-2 initialize");
}

#[test]
fn z02_once_per_peer_and_for_nothing() {
    let mut caller = begun(of(Mode::Auto));
    let waits = caller.call("tools/call");
    leaves(&mut caller);
    assert_eq!(caller.state(), StateName::Starting);
    caller.call("tools/list");
    caller.spawn();
    assert_eq!(caller.reads(), "mcp-supervised-2 initialize", "the older way at once");
    assert!(caller.take_unlogged().is_empty());
    // It leaves again: that is a death, with the whole budget, and the life has its number.
    leaves(&mut caller);
    assert_eq!(
        caller.take_unlogged(),
        format!("D, C lost exit=1 ->1, E closed #{waits} complete unread, E closed #2 complete unread")
    );
    caller.advance(100);
    caller.spawn();
    assert_eq!(caller.reads(), "mcp-supervised-3 initialize", "what was found is kept");
    leaves(&mut caller);
    assert_eq!(caller.take_unlogged(), "E handshake life=2 exit=1 ->2");
}

#[test]
fn z02_what_is_no_answer_to_the_probe_is_a_death() {
    type Step = fn(&mut Caller);
    let ways: [(&str, Step); 6] = [
        ("unread", |c| c.exit_with(Exit::Code(1), 0, 0, Some(StdinReport { unread: 9, hung_up: true }))),
        ("no pipe", |c| c.exit_with(Exit::Code(1), 0, 0, None)),
        ("said something", |c| {
            c.out("hello");
            c.exit_with(Exit::Code(1), 0, 0, Some(StdinReport { unread: 0, hung_up: true }));
        }),
        ("said something on its way out", |c| {
            c.exit_with(Exit::Code(1), 0, 0, Some(StdinReport { unread: 0, hung_up: true }));
            c.out("hello");
        }),
        ("made to leave", |c| {
            c.stdout_ends(None, Some(StdinReport { unread: 0, hung_up: false }));
            c.advance(250);
            c.exit(143, 0);
        }),
        ("after the probe's time", |c| {
            c.advance(1_000);
            c.reads();
            c.exit_with(Exit::Code(1), 0, 0, Some(StdinReport { unread: 0, hung_up: true }));
        }),
    ];
    for (name, way) in ways {
        let mut caller = begun(of(Mode::Auto));
        way(&mut caller);
        caller.eof();
        let told = caller.take_unlogged();
        assert!(told.starts_with("D, C lost") && told.ends_with("->1"), "{name}: {told}");
        assert_eq!(caller.state(), StateName::Waiting, "{name}");
    }
    // Part of it was never written.
    let mut caller = Caller::logging(of(Mode::Auto));
    caller.reads_bytes(20);
    leaves(&mut caller);
    assert!(caller.take_unlogged().starts_with("D, C lost"));
}

#[test]
fn z02_stdout_that_ends_first_is_only_the_beginning_of_an_exit() {
    let mut caller = begun(of(Mode::Auto));
    caller.stdout_ends(None, Some(StdinReport { unread: 0, hung_up: false }));
    assert_eq!(caller.state(), StateName::Starting);
    caller.exit(1, 0);
    caller.spawn();
    assert_eq!(caller.reads(), "mcp-supervised-2 initialize");
}

#[test]
fn z02_in_a_later_life_too_and_with_the_attempt_it_had() {
    // The kept era turns out wrong: the second life is asked again, and leaves at it.
    let mut caller = begun(of(Mode::Auto));
    caller.results("mcp-supervised-1", json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}));
    caller.dies_and_returns();
    let id = caller.call("vendor/x");
    caller.errs(id, -32601);
    caller.dies_and_returns();
    assert_eq!(caller.reads(), "mcp-supervised-2 server/discover");
    leaves(&mut caller);
    caller.spawn();
    caller.reads();
    caller.results("mcp-supervised-3", welcome("2025-11-25"));
    assert_eq!(caller.take_unlogged(), "R 3");
}

#[test]
fn z02_a_spawn_that_fails_is_told_with_the_exit_of_the_one_that_left() {
    let mut caller = begun(of(Mode::Auto));
    leaves(&mut caller);
    caller.spawn_fails();
    assert_eq!(caller.take_unlogged(), "D, C lost exit=1 ->1");
    assert_eq!(caller.state(), StateName::Waiting);

    let mut caller = begun(of(Mode::Auto));
    let waits = caller.call("tools/call");
    leaves(&mut caller);
    caller.close();
    assert_eq!(caller.take_unlogged(), format!("D, C asked exit=1, E closed #{waits} complete unread!"));
    assert!(!caller.sup.wants_spawn(0));
}

#[test]
fn z02_a_writable_that_is_owed_comes_through() {
    let mut policy = of(Mode::Auto);
    policy.client.max_in_flight = 2;
    let mut caller = begun(policy);
    let ids = [caller.call("a"), caller.call("b")];
    assert_eq!(caller.ask("c", "{}"), Err("TOO_MANY"));
    leaves(&mut caller);
    caller.spawn();
    caller.reads();
    caller.results("mcp-supervised-2", welcome("2025-11-25"));
    for id in ids {
        caller.answers(id);
    }
    assert!(caller.take_unlogged().contains(", W"));
}

#[test]
fn l10_a_close_of_a_life_that_is_dying_already_leaves_no_room_to_be_told_of() {
    let client = ClientPolicy { max_in_flight: 1, probe_timeout: ms(1_000), ..ClientPolicy::default() };
    let mut caller = begun(Policy { client, ..of(Mode::Auto) });
    let id = caller.call("tools/call");
    assert_eq!(caller.ask("tools/call", "{}"), Err("TOO_MANY"));
    // Whether it is one that leaves at the probe (Z2) is not known before its exit: it is STARTING still, and ends already.
    caller.stdout_ends(None, Some(StdinReport { unread: 0, hung_up: false }));
    assert_eq!(caller.state(), StateName::Starting);
    caller.close();
    caller.cancel(id).unwrap();
    caller.exit(0, 0);
    let told = caller.take_unlogged();
    assert!(told.starts_with("D") && !told.split(", ").any(|event| event == "W"), "{told}");
}

#[test]
fn z05_a_late_answer_is_dropped_and_a_server_it_has_locked_is_asked_once_more() {
    let mut caller = begun(of(Mode::Auto));
    caller.advance(1_000);
    assert_eq!(caller.reads(), "mcp-supervised-2 initialize", "to the same process");
    caller.results("mcp-supervised-1", json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}));
    assert_eq!(caller.state(), StateName::Starting);
    caller.errs_version("mcp-supervised-2", &["2026-07-28"]);
    assert_eq!(caller.reads(), "mcp-supervised-3 server/discover");
    caller.errs("mcp-supervised-3", -32601);
    assert_eq!(caller.state(), StateName::Ending, "it refuses both");

    // The second question is the last one, so it has all the time there is to start.
    let mut caller = begun(of(Mode::Auto));
    caller.advance(1_000);
    caller.errs_version("mcp-supervised-2", &["2026-07-28"]);
    caller.advance(18_999);
    assert_eq!(caller.state(), StateName::Starting);
    caller.advance(1);
    assert!(caller.take_unlogged().contains("E handshake"));
}

#[test]
fn z05_a_hostile_server_during_the_handshake() {
    let mut caller = begun(of(Mode::Legacy));
    for line in [
        json!({"jsonrpc": "2.0", "id": 1, "result": welcome("2025-11-25")}),
        json!({"jsonrpc": "2.0", "id": "1", "result": welcome("2025-11-25")}),
        json!([{"jsonrpc": "2.0", "id": "mcp-supervised-1", "result": welcome("2025-03-26")}]),
        json!({"jsonrpc": "2.0", "id": 0, "method": "roots/list"}),
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}),
    ] {
        caller.says(&line);
        assert_eq!((caller.state(), caller.queued()), (StateName::Starting, 0), "{line}");
    }
    // A ping is answered, with its own id.
    caller.says(&json!({"jsonrpc": "2.0", "id": 0, "method": "ping"}));
    assert_eq!(caller.reads(), "re 0 result");
    // Who never reads the answers does not make them grow without end.
    for _ in 0..10_000 {
        caller.says(&json!({"jsonrpc": "2.0", "id": "x".repeat(20_000), "method": "ping"}));
    }
    assert!(caller.queued() <= 64 << 20);
    let mut caller = begun(of(Mode::Legacy));
    caller.says(&json!({"jsonrpc": "2.0", "error": {"code": 1, "message": "no id"}}));
    assert!(caller.take_unlogged().contains("E handshake life=1"));
    assert_eq!(caller.state(), StateName::Ending);
}

#[test]
fn z05_r04_an_answer_twice_is_a_late_one() {
    let mut caller = legacy(of(Mode::Legacy), "2025-11-25");
    caller.results("mcp-supervised-1", welcome("2024-11-05"));
    assert!(caller.take().starts_with("LOG dropped a late answer"));
    let stream = caller.listen();
    assert_eq!(caller.take(), format!("M notifications/subscriptions/acknowledged #{stream} emulated"));
    caller.answers(stream);
    assert!(caller.take().starts_with("LOG dropped a late answer"), "the server knows no stream");
    caller.cancels(stream);
    assert_eq!(caller.take(), "M notifications/cancelled", "and cannot end it");
    caller.out("notifications/tools/list_changed");
    assert_eq!(caller.take(), format!("M notifications/tools/list_changed #{stream}"));
}

#[test]
fn l11_a_later_life_that_fails_its_handshake_is_one_error_when_it_is_gone() {
    let mut caller = legacy(of(Mode::Legacy), "2025-11-25");
    caller.dies_and_returns();
    caller.reads();
    caller.errs("mcp-supervised-2", -32603);
    assert_eq!((caller.state(), caller.take_unlogged()), (StateName::Starting, String::new()));
    // It runs on: it is made to leave (L5).
    caller.acts();
    caller.advance(250);
    assert!(caller.acts().contains("Terminate"));
    caller.exit(0, 0);
    assert_eq!(caller.take_unlogged(), "E handshake life=2 exit=0 ->2");
}

#[test]
fn l10_close_in_the_middle_of_a_handshake() {
    let mut caller = begun(of(Mode::Legacy));
    let waits = caller.call("tools/call");
    caller.close();
    caller.results("mcp-supervised-1", welcome("2025-11-25"));
    assert_eq!(caller.reads(), "", "nothing that waits is written");
    caller.die(0);
    assert_eq!(caller.take_unlogged(), format!("D, C asked exit=0, E closed #{waits} complete unread!"));
}

#[test]
fn z03_the_order_on_a_replacement() {
    let mut policy = of(Mode::Legacy);
    policy.client.retry = true;
    policy.client.log_level = Some("info".to_owned());
    let mut caller = legacy(policy, "2025-06-18");
    let (now, id) = (caller.now, caller.id());
    let filter = br#"{"resourceSubscriptions":["a","b"],"toolsListChanged":true}"#;
    caller.sup.listen(now, id, filter, 0).unwrap();
    let told = |caller: &mut Caller| std::iter::from_fn(|| caller.sup.next_event()).count();
    caller.reads();
    assert_eq!(told(&mut caller), 0, "it is acknowledged when both are answered");
    caller.sup.request(now, id, "tools/list", b"", &Default::default()).unwrap();
    caller.act();
    caller.die(0);
    told(&mut caller);
    caller.advance(100);
    caller.spawn();
    assert_eq!(caller.reads(), "mcp-supervised-5 initialize");
    caller.results("mcp-supervised-5", welcome("2025-06-18"));
    assert_eq!(
        caller.reads(),
        "note notifications/initialized, mcp-supervised-6 logging/setLevel, mcp-supervised-7 resources/subscribe, \
         mcp-supervised-8 resources/subscribe, #2 tools/list"
    );
    assert_eq!(told(&mut caller), 1, "R alone: it does not wait for what the subscriptions are answered");
    caller.errs("mcp-supervised-7", -32002);
    caller.answers("mcp-supervised-8");
    assert_eq!(told(&mut caller), 1, "the acknowledgement");
}

#[test]
fn z04_floods_of_requests_are_bounded() {
    let mut policy = of(Mode::Legacy);
    policy.client.capabilities = r#"{"roots":{}}"#.to_owned();
    policy.client.max_in_flight = 10;
    let mut caller = legacy(policy, "2025-11-25");
    for id in 0..20 {
        caller.says(&json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"}));
    }
    let told = caller.take_unlogged();
    assert_eq!(told.matches("M roots/list").count(), 10);
    let refused: Vec<String> = (10..20).map(|id| format!("re {id} -32000")).collect();
    assert_eq!(caller.reads(), refused.join(", "));
    caller.says(&json!({"jsonrpc": "2.0", "id": "x".repeat(2_000), "method": "roots/list"}));
    assert!(caller.reads().ends_with("-32600"));
}

#[test]
fn z04_a_server_that_sheds_its_host_is_told() {
    let mut policy = of(Mode::Legacy);
    policy.client.capabilities = r#"{"roots":{}}"#.to_owned();
    policy.client.shed = true;
    policy.limits.event_queue = 1;
    let mut caller = legacy(policy, "2025-11-25");
    let stream = caller.listen();
    caller.take();
    caller.out("a");
    caller.says(&json!({"jsonrpc": "2.0", "id": 7, "method": "roots/list"}));
    caller.out("notifications/tools/list_changed");
    assert_eq!(caller.reads(), "re 7 -32000");
    assert_eq!(caller.take_unlogged(), format!("M a, E deliverydropped #{stream} complete"));
}

#[test]
fn z04_tokens_are_never_used_twice() {
    let mut policy = of(Mode::Legacy);
    policy.client.capabilities = r#"{"roots":{}}"#.to_owned();
    policy.max_restarts = MaxRestarts::Unlimited;
    let mut caller = legacy(policy, "2025-11-25");
    let mut tokens = Vec::new();
    for life in 2..5 {
        caller.says(&json!({"jsonrpc": "2.0", "id": 0, "method": "roots/list"}));
        let told = caller.take_unlogged();
        let token: u64 = told.strip_prefix("M roots/list #").unwrap().parse().unwrap();
        assert!(!tokens.contains(&token));
        tokens.push(token);
        caller.dies_and_returns();
        let own = caller.reads();
        caller.results(own.split(' ').next().unwrap(), welcome("2025-11-25"));
        assert_eq!(caller.take_unlogged(), format!("R {life}"));
        caller.reads();
        for old in &tokens {
            let (now, id) = (caller.now, caller.id());
            let answer = caller.sup.respond(now, id, *old, Reply::Result(b"{}"));
            assert_eq!(super::harness::short(&answer.unwrap_err()), "CLOSED");
        }
    }
    assert_eq!(caller.queued(), 0);
}

#[test]
fn z06_an_array_is_taken_apart_while_the_host_has_room() {
    let mut policy = of(Mode::Legacy);
    policy.limits.event_queue = 2;
    let mut caller = legacy(policy, "2025-03-26");
    let id = caller.call("tools/list");
    caller.reads();
    caller.feed(
        format!(
            "[{0},{0}, {0} ,7,[{0}],{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}]\n[]\n",
            r#"{"jsonrpc":"2.0","method":"a"}"#
        )
        .as_bytes(),
    );
    let queued = |caller: &Caller| caller.sup.peer(caller.id()).unwrap().queue.counted();
    let mut told = Vec::new();
    while let Some(event) = caller.take_one() {
        told.push(event);
        assert!(queued(&caller) <= 2, "F1");
    }
    let expected =
        format!("M a, M a, M a, E malformed life=1, E malformed life=1, M result #{id} complete, E malformed life=1");
    assert_eq!(told.join(", "), expected);
}

#[test]
fn z01_a_giant_line_before_the_connection_serves_ends_it() {
    let mut policy = of(Mode::Auto);
    policy.limits.frame_bytes = 1_000;
    let mut caller = begun(policy);
    caller.feed(&vec![b'x'; 2_000]);
    assert_eq!(caller.state(), StateName::Ending);
    assert_eq!(caller.take_unlogged(), "E frametoolarge life=1");
}

#[test]
fn l04_b02_a_slow_start_opens_no_fresh_window() {
    let mut policy = of(Mode::Auto);
    policy.restart_window = ms(10_000);
    policy.restart_delay = 0;
    let mut caller = begun(policy);
    for _ in 0..3 {
        caller.advance(20_000);
        assert!(matches!(caller.state(), StateName::Ending | StateName::Starting));
        caller.exit(0, 0);
        caller.eof();
        caller.advance(0);
        if caller.sup.wants_spawn(0) {
            caller.spawn();
            caller.reads();
        }
    }
    assert!(caller.take_unlogged().ends_with("X 2, C withdrawn!"), "it is given up");
}

#[test]
fn l08_a_server_on_its_way_out_ends_no_stream() {
    for dying in [false, true] {
        let mut caller = legacy(of(Mode::Legacy), "2025-11-25");
        let (now, id) = (caller.now, caller.id());
        caller.sup.listen(now, id, br#"{"resourceSubscriptions":["a"]}"#, 5_001).unwrap();
        caller.act();
        assert_eq!(caller.reads(), "mcp-supervised-2 resources/subscribe");
        if dying {
            caller.exit(1, 10_000);
        } else {
            caller.close();
            caller.take();
            caller.begin_poll();
        }
        caller.errs("mcp-supervised-2", -32000);
        assert_eq!(caller.take_unlogged(), "", "dying: {dying}");
        assert_eq!(caller.in_flight(), 1);
    }
}

#[test]
fn r02_a_filter_whose_lines_never_fit_is_refused_for_good() {
    let mut policy = of(Mode::Legacy);
    policy.limits.outbound_bytes = 1_000;
    let mut caller = legacy(policy, "2025-11-25");
    let (now, id) = (caller.now, caller.id());
    let uris: Vec<String> = (0..20).map(|n| format!("\"u{n}\"")).collect();
    let filter = format!("{{\"resourceSubscriptions\":[{}]}}", uris.join(","));
    let refused = caller.sup.listen(now, id, filter.as_bytes(), 0).unwrap_err();
    assert_eq!((super::harness::short(&refused), caller.queued()), ("INVALID", 0));
}

#[test]
fn z01_a_rediscover_that_is_met_like_an_older_server_would_is_followed_by_a_probe() {
    let mut policy = of(Mode::Auto);
    policy.client.rediscover = true;
    let mut caller = begun(policy);
    caller.results("mcp-supervised-1", json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}));
    caller.dies_and_returns();
    assert_eq!(caller.reads(), "mcp-supervised-2 server/discover");
    caller.errs("mcp-supervised-2", -32601);
    assert_eq!(caller.state(), StateName::Running);
    caller.dies_and_returns();
    assert_eq!(caller.reads(), "mcp-supervised-3 server/discover");
    caller.errs("mcp-supervised-3", -32601);
    assert_eq!(caller.reads(), "mcp-supervised-4 initialize");
}
