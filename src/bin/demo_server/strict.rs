//! `--strict`: the rules of the older revisions that a client can break, each a sentence on stderr and the end of the
//! process, so that no test can overlook it.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::output::lock;
use crate::server::{self, Server};

/// The `_meta` keys that came with 2026-07-28.
const MODERN_KEYS: [&str; 4] = [
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/logLevel",
];

/// What was seen of the client so far.
#[derive(Default)]
pub struct Seen {
    /// Whether a message came.
    any: bool,
    /// The JSON texts of the ids of its requests.
    ids: HashSet<String>,
    /// Those of them that must not be cancelled.
    not_to_be_cancelled: HashSet<String>,
    /// Whether `notifications/initialized` came.
    initialized: bool,
    /// URIs it wants to hear of, or wanted to before it heard that it may not.
    wanted: HashSet<String>,
}

/// Ends the process if a message breaks a rule. It is looked at before it takes effect.
pub fn check(server: &Server, message: &Map<String, Value>) {
    if let Some(broken) = broken_rule(server, message) {
        server::write_stderr(&format!("rule broken: {broken}: {}\n", Value::Object(message.clone())));
        std::process::exit(70);
    }
}

fn broken_rule(server: &Server, message: &Map<String, Value>) -> Option<&'static str> {
    let mut seen = lock(&server.seen);
    let first = !std::mem::replace(&mut seen.any, true);
    if server.options.legacy.is_none() || (server.options.dual && !server.in_session()) {
        return None;
    }
    let id = message.get("id").map(Value::to_string);
    let params = message.get("params");
    match (message.get("method").and_then(Value::as_str), id) {
        (Some(method), Some(id)) => {
            if !seen.ids.insert(id.clone()) {
                return Some("an id is used once in a session");
            }
            if matches!(method, "initialize" | "server/discover") {
                seen.not_to_be_cancelled.insert(id);
            }
            // The one modern request that a client of both eras may try, and when.
            let probe = first && method == "server/discover";
            let meta = params.and_then(|params| params["_meta"].as_object());
            let modern = meta.is_some_and(|meta| MODERN_KEYS.iter().any(|key| meta.contains_key(*key)));
            match method {
                _ if probe => None,
                _ if modern => Some("these revisions have no such keys in `_meta`"),
                "ping" => None,
                "server/discover" | "subscriptions/listen" => Some("these revisions have no such method"),
                "initialize" => server.in_session().then_some("the handshake is done once"),
                _ if !server.in_session() => Some("only ping may come before the answer of initialize"),
                _ if !seen.initialized => Some("only ping may come before notifications/initialized"),
                _ => against_the_session(server, &mut seen, method, params),
            }
        }
        (Some("notifications/initialized"), None) => {
            if std::mem::replace(&mut seen.initialized, true) {
                return Some("notifications/initialized comes once");
            }
            (!server.in_session()).then_some("notifications/initialized follows the answer of initialize")
        }
        (Some("notifications/cancelled"), None) => {
            let id = params.map(|params| params["requestId"].to_string())?;
            if seen.not_to_be_cancelled.contains(&id) {
                return Some("the handshake is not cancelled");
            }
            (!seen.ids.contains(&id)).then_some("what is cancelled was asked")
        }
        (Some(_), None) => (!seen.initialized).then_some("no notification may come before notifications/initialized"),
        (None, Some(id)) => (!lock(&server.asked).contains_key(&id)).then_some("a response answers a request, once"),
        (None, None) => Some("a message has a method or an id"),
    }
}

/// What depends on what the server has declared, and on what was subscribed.
fn against_the_session(server: &Server, seen: &mut Seen, method: &str, params: Option<&Value>) -> Option<&'static str> {
    let capabilities = server.capabilities();
    let uri = params.map_or("", |params| params["uri"].as_str().unwrap_or_default());
    match method {
        "logging/setLevel" if capabilities.get("logging").is_none() => Some("logging was not declared"),
        "resources/subscribe" | "resources/unsubscribe" if capabilities["resources"]["subscribe"] != true => {
            Some("subscriptions were not declared")
        }
        "resources/subscribe" => {
            seen.wanted.insert(uri.to_owned());
            lock(&server.subscribed).contains(uri).then_some("this URI is subscribed already")
        }
        "resources/unsubscribe" => (!seen.wanted.remove(uri)).then_some("this URI is not subscribed"),
        _ => None,
    }
}
