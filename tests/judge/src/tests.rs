//! The judge sees what is wrong, and what is missing.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::schema::{Judged, Line, Schema};
use crate::{AT_LEAST, IN_ALL, NEWEST, too_few};

fn schema(revision: &str) -> Option<Schema> {
    Schema::of(revision).unwrap()
}

fn judge(schema: &Schema, line: &Value, judged: Judged) -> Result<Line, String> {
    schema.judge(line.to_string().as_bytes(), judged)
}

fn good() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x", "_meta": {
        "io.modelcontextprotocol/protocolVersion": NEWEST, "io.modelcontextprotocol/clientCapabilities": {}}}})
}

#[test]
fn what_is_wrong_with_a_request_is_found() {
    let Some(schema) = schema(NEWEST) else { return };
    let call = || Ok(Line::Built("tools/call".to_owned()));
    for judged in Judged::ALL {
        assert_eq!(judge(&schema, &good(), judged), call());
    }
    let meta = "/params/_meta/io.modelcontextprotocol~1";
    // What each is wrong in decides who sees it.
    for (at, bad, seen_by) in [
        ("/jsonrpc".to_owned(), json!("1.0"), 3),
        ("/id".to_owned(), json!(1.5), 3),
        ("/id".to_owned(), json!(null), 3),
        ("/method".to_owned(), json!(1), 3),
        ("/params".to_owned(), json!([]), 3),
        ("/params".to_owned(), json!({}), 2),
        ("/params/_meta".to_owned(), json!({}), 2),
        (format!("{meta}protocolVersion"), json!(2026), 2),
        (format!("{meta}clientCapabilities"), json!({"elicitation": 1}), 2),
        ("/params/name".to_owned(), json!(1), 1),
        ("/params/name".to_owned(), json!(null), 1),
    ] {
        let mut line = good();
        *line.pointer_mut(&at).expect("a place in it") = bad.clone();
        for (depth, judged) in [Judged::Whole, Judged::Stamped, Judged::Envelope].into_iter().enumerate() {
            let found = judge(&schema, &line, judged);
            assert_eq!(found.is_err(), depth < seen_by, "{at}: {bad} {judged:?}: {found:?}");
        }
    }
    for (key, bad) in [
        ("io.modelcontextprotocol/logLevel", json!("loud")),
        ("io.modelcontextprotocol/clientInfo", json!({"name": "x"})),
        ("progressToken", json!(true)),
    ] {
        let mut line = good();
        line["params"]["_meta"][key] = bad;
        assert!(
            judge(&schema, &line, Judged::Whole).is_err() && judge(&schema, &line, Judged::Stamped).is_err(),
            "{key}"
        );
    }
    assert!(schema.judge(b"{\"jsonrpc\":\"2.0\"", Judged::Envelope).is_err());
}

#[test]
fn every_request_of_the_library_is_stamped() {
    let Some(schema) = schema(NEWEST) else { return };
    let mut vendor = good();
    vendor["method"] = json!("vendor/x");
    assert_eq!(judge(&schema, &vendor, Judged::Whole), Ok(Line::Built("vendor/x".to_owned())));
    vendor["params"]["_meta"] = json!({});
    assert!(judge(&schema, &vendor, Judged::Whole).is_err());
    // What the host writes itself is its own affair, what the library asks under a string id is not.
    vendor["id"] = json!("mine");
    assert_eq!(judge(&schema, &vendor, Judged::Whole), Ok(Line::PassedThrough));
    vendor["id"] = json!("mcp-supervised-1");
    assert!(judge(&schema, &vendor, Judged::Whole).is_err());
}

#[test]
fn what_is_wrong_with_a_notification_is_found() {
    let Some(schema) = schema(NEWEST) else { return };
    let line = |params: Value| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    assert!(judge(&schema, &line(json!({"requestId": 1, "reason": "x"})), Judged::Whole).is_ok());
    for bad in [json!({}), json!({"requestId": null}), json!({"requestId": 1, "reason": 2})] {
        assert!(judge(&schema, &line(bad.clone()), Judged::Whole).is_err(), "{bad}");
    }
}

#[test]
fn answers_are_for_the_older_revisions() {
    let answer = json!({"jsonrpc": "2.0", "id": 4, "result": {}});
    let Some(newest) = schema(NEWEST) else { return };
    assert!(judge(&newest, &answer, Judged::Envelope).is_err());
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let Some(schema) = schema(revision) else { return };
        assert!(judge(&schema, &answer, Judged::Whole).is_ok(), "{revision}");
        let refusal = json!({"jsonrpc": "2.0", "id": 4, "error": {"code": -32601, "message": "no"}});
        assert!(judge(&schema, &refusal, Judged::Whole).is_ok(), "{revision}");
        let no_text = json!({"jsonrpc": "2.0", "id": 4, "error": {"code": -32601}});
        assert!(judge(&schema, &no_text, Judged::Whole).is_err(), "{revision}");
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
        assert!(judge(&schema, &list, Judged::Whole).is_ok(), "{revision}");
        let bad = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": 1}});
        assert!(judge(&schema, &bad, Judged::Whole).is_err(), "{revision}");
    }
}

#[test]
fn a_client_may_refuse_in_every_older_revision() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let Some(schema) = schema(revision) else { return };
        let refusal = json!({"jsonrpc": "2.0", "id": 0, "error": {"code": -1, "message": "no"}});
        assert_eq!(judge(&schema, &refusal, Judged::Whole), Ok(Line::Built("(response)".to_owned())), "{revision}");
        for bad in [json!({"code": -1}), json!({"code": "x", "message": "no"}), json!(1)] {
            let mut line = refusal.clone();
            line["error"] = bad.clone();
            assert!(judge(&schema, &line, Judged::Whole).is_err(), "{revision}: {bad}");
        }
    }
}

#[test]
fn nothing_passes_by_being_empty() {
    let mut methods: BTreeMap<String, usize> =
        AT_LEAST.iter().map(|(method, least)| ((*method).to_owned(), *least)).collect();
    let all: usize = methods.values().sum();
    *methods.get_mut("tools/call").unwrap() += IN_ALL - all;
    assert_eq!(too_few(&methods), [""; 0]);
    *methods.get_mut("tools/call").unwrap() -= 1;
    assert_eq!(too_few(&methods).len(), 1);
    methods.remove("prompts/get");
    assert_eq!(too_few(&methods).len(), 2);
    assert_eq!(too_few(&BTreeMap::new()).len(), AT_LEAST.len() + 1);
}
