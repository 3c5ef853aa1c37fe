//! What is kept of a server of an older revision while it is spoken to, however much that is: Z3 and Z4.

use serde_json::json;

use super::caller::Caller;
use super::handshake::{legacy, of, welcome};
use super::harness::Rig;
use crate::core::policy::Mode;
use crate::core::time::ms;

/// Opens a stream of resources; its id.
fn listens(caller: &mut Caller, uris: &[String]) -> u64 {
    let (now, id) = (caller.now, caller.id());
    let filter = json!({"resourceSubscriptions": uris}).to_string();
    let stream = caller.sup.listen(now, id, filter.as_bytes(), 0).unwrap();
    caller.act();
    stream
}

fn cancels(caller: &mut Caller, stream: u64) {
    let (now, id) = (caller.now, caller.id());
    caller.sup.cancel(now, id, stream, "enough").unwrap();
    caller.act();
}

/// Every event that is queued, as its kind and whether it completes; ids are not those that the driver counts.
fn told(caller: &mut Caller) -> usize {
    std::iter::from_fn(|| caller.sup.next_event()).count()
}

#[test]
fn z03_a_stream_of_a_great_many_resources_is_let_go_of() {
    let mut policy = of(Mode::Legacy);
    policy.limits.outbound_bytes = 64 << 20;
    let mut caller = legacy(policy, "2025-11-25");
    let uris: Vec<String> = (0..10_000).map(|number| format!("mem://{number}")).collect();
    let stream = listens(&mut caller, &uris);
    // The pipe took a little of it: that much was asked, and is taken back.
    let read = caller.reads_bytes(1_000).matches("resources/subscribe").count();
    assert!(read > 5);
    cancels(&mut caller, stream);
    let lines = caller.reads();
    assert_eq!(lines.matches("resources/subscribe").count(), 1, "the line that was begun");
    assert_eq!(lines.matches("resources/unsubscribe").count(), read + 1);
    assert_eq!(told(&mut caller), 1);
    assert_eq!(caller.queued(), 0);
}

#[test]
fn z03_a_resource_is_let_go_of_with_the_last_stream_that_wants_it() {
    let mut caller = legacy(of(Mode::Legacy), "2025-11-25");
    let (a, b) = ("mem://a".to_owned(), "mem://b".to_owned());
    let first = listens(&mut caller, &[a.clone(), b.clone(), a.clone()]);
    assert_eq!(caller.reads(), "mcp-supervised-2 resources/subscribe, mcp-supervised-3 resources/subscribe");
    // The second one shares what was asked already, answered or not.
    caller.answers("mcp-supervised-2");
    let second = listens(&mut caller, &[a.clone(), b.clone()]);
    assert_eq!(caller.reads(), "");
    cancels(&mut caller, first);
    assert_eq!((caller.reads(), told(&mut caller)), (String::new(), 1));
    caller.answers("mcp-supervised-3");
    assert_eq!(told(&mut caller), 1, "its acknowledgement");
    cancels(&mut caller, second);
    assert_eq!(caller.reads(), "mcp-supervised-4 resources/unsubscribe, mcp-supervised-5 resources/unsubscribe");
    // Asked for anew while the last answers are owed: those are nobody's.
    let third = listens(&mut caller, &[a]);
    assert_eq!(caller.reads(), "mcp-supervised-6 resources/subscribe");
    told(&mut caller);
    caller.errs("mcp-supervised-4", -32002);
    caller.errs("mcp-supervised-5", -32002);
    assert_eq!(told(&mut caller), 0);
    caller.errs("mcp-supervised-6", -32002);
    assert_eq!(told(&mut caller), 1, "{third} ends");
    assert_eq!(caller.in_flight(), 0);
}

#[test]
fn z03_an_update_goes_once_to_every_stream_that_wants_some_of_it() {
    let mut caller = legacy(of(Mode::Legacy), "2025-11-25");
    let mut all = Vec::new();
    for uris in [&["mem://a", "mem://a/b"][..], &["mem://a/b"], &["mem://a/"], &["mem://c"], &["mem://a"]] {
        let uris: Vec<String> = uris.iter().map(|&uri| uri.to_owned()).collect();
        all.push(listens(&mut caller, &uris));
    }
    for own in 2..6 {
        caller.answers(format!("mcp-supervised-{own}"));
    }
    assert_eq!(told(&mut caller), 5);
    let mut updates = |uri: &str| {
        caller.says(&json!({
            "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}
        }));
        let events = std::iter::from_fn(|| Rig::take_one(&mut caller));
        events.map(|event| event.rsplit('#').next().unwrap().to_owned()).collect::<Vec<_>>().join(",")
    };
    let ids = |of: &[usize]| of.iter().map(|at| all[*at].to_string()).collect::<Vec<_>>().join(",");
    assert_eq!(updates("mem://a/b/c"), ids(&[0, 1, 2, 4]));
    assert_eq!(updates("mem://a"), ids(&[0, 4]));
    assert_eq!(updates("mem://c#x"), ids(&[3]));
}

#[test]
fn z03_answers_that_never_come_take_no_memory() {
    let mut policy = of(Mode::Legacy);
    policy.client.max_in_flight = 10;
    let mut caller = legacy(policy, "2025-11-25");
    for round in 0..100 {
        let stream = listens(&mut caller, &[format!("mem://{round}")]);
        caller.reads();
        cancels(&mut caller, stream);
        caller.reads();
        told(&mut caller);
    }
    let id = caller.id();
    let owed = caller.sup.peer(id).unwrap().owed_to_nobody();
    assert!(owed <= 10, "{owed}");
}

#[test]
fn z04_what_a_server_takes_back_is_found_among_thousands() {
    let mut policy = of(Mode::Legacy);
    policy.client.capabilities = r#"{"roots":{}}"#.to_owned();
    policy.client.max_in_flight = 20_000;
    let mut caller = legacy(policy, "2025-11-25");
    // Ids that have to be spelled out before they can be compared.
    let id = |number: u32| format!("\"\\u0061{}{number}\"", "\\u0062".repeat(100));
    let mut lines = String::new();
    for number in 0..5_000 {
        lines += &format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"roots/list\"}}\n", id(number));
    }
    let cancel = |id: &str| {
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}\n")
    };
    for number in 5_000..10_000 {
        lines += &cancel(&id(number));
    }
    lines += &cancel(&format!("\"a{}4999\"", "b".repeat(100)));
    lines += &cancel(&id(4_999));
    let mut told = Vec::new();
    for part in lines.as_bytes().chunks(16 << 10) {
        caller.feed(part);
        told.extend(std::iter::from_fn(|| caller.take_one()));
    }
    let token = told[4_999].strip_prefix("M roots/list ").unwrap();
    assert_eq!(told[told.len() - 2], format!("M notifications/cancelled {token}"), "however it is spelled");
    assert_eq!(told[told.len() - 1], "M notifications/cancelled", "once");
}

/// A line can hold millions of elements of which none leads to an event. A deadline that is due in the middle of them does not wait.
#[test]
fn z06_h05_a_giant_array_takes_its_turns() {
    let mut policy = of(Mode::Legacy);
    policy.limits.frame_bytes = 64 << 20;
    let mut caller = legacy(policy, "2025-03-26");
    let late = caller.call("tools/list");
    caller.reads();
    caller.answers(late);
    let asked = caller.ask_timed("tools/list", Some(ms(50)), None);
    caller.reads();
    caller.take_unlogged();
    let element = format!("{{\"jsonrpc\":\"2.0\",\"id\":{late},\"result\":{{}}}}");
    let line = format!("[{}]\n", vec![&*element; 200_000].join(","));
    let (mut rest, slot) = (line.as_bytes(), caller.slot());
    while !rest.is_empty() {
        let now = caller.now;
        let room = caller.sup.stdout_room(slot).unwrap();
        let count = rest.len().min(room.len());
        room[..count].copy_from_slice(&rest[..count]);
        rest = &rest[count..];
        caller.sup.stdout_read(now, slot, count, 512, None);
    }
    let is_left = |caller: &Caller| caller.sup.connection(slot).is_some_and(|conn| conn.framer.has_line());
    caller.act();
    caller.acts();
    caller.sleep(50);
    let now = caller.now;
    caller.sup.tick(now);
    assert!(is_left(&caller));
    assert_eq!(caller.take_unlogged(), format!("E timeout #{asked} complete"));
    caller.act();
    assert!(caller.acts().contains("Serve"), "another turn is asked for");
    caller.die(0);
    // All of it is taken in the end.
    while is_left(&caller) {
        let now = caller.now;
        assert!(caller.sup.take_lines(now, slot, 512, None) > 0);
    }
    caller.act();
    assert!(caller.take_unlogged().starts_with("D, C lost exit=0 ->1"));
}

#[test]
fn r07_methods_of_the_older_revisions_need_capabilities_too() {
    let mut caller = Caller::logging(of(Mode::Legacy));
    caller.reads();
    let bare =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
    caller.results("mcp-supervised-1", bare);
    for method in ["resources/subscribe", "resources/unsubscribe", "logging/setLevel", "tools/list"] {
        assert_eq!(caller.ask(method, "{}"), Err("LACKS"), "{method}");
    }
    let mut caller = legacy(of(Mode::Legacy), "2025-06-18");
    for method in ["resources/subscribe", "resources/unsubscribe", "logging/setLevel", "tools/list"] {
        caller.call(method);
    }
}

#[test]
fn z03_a_restart_in_the_middle_of_asking_acknowledges_once() {
    let mut caller = legacy(of(Mode::Legacy), "2025-11-25");
    let (a, b) = ("mem://a".to_owned(), "mem://b".to_owned());
    let first = listens(&mut caller, &[a.clone(), b.clone()]);
    listens(&mut caller, &[b]);
    caller.reads();
    caller.answers("mcp-supervised-2");
    caller.die(0);
    caller.advance(100);
    caller.spawn();
    // In between there is no wire: it is forgotten, and not asked for any more.
    cancels(&mut caller, first);
    assert_eq!(caller.reads(), "mcp-supervised-4 initialize");
    caller.results("mcp-supervised-4", welcome("2025-11-25"));
    assert_eq!(caller.reads(), "note notifications/initialized, mcp-supervised-5 resources/subscribe");
    told(&mut caller);
    // The new process answers what the old one was asked.
    caller.answers("mcp-supervised-3");
    assert_eq!(told(&mut caller), 1, "a log line");
    caller.answers("mcp-supervised-5");
    assert_eq!(told(&mut caller), 1, "the acknowledgement");
    caller.answers("mcp-supervised-5");
    assert_eq!(told(&mut caller), 1, "a log line");
    assert_eq!(caller.in_flight(), 1);
}
