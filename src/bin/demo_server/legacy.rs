//! The revisions before 2026-07-28: the handshake, subscriptions by URI, and requests to the client.

use std::sync::atomic::Ordering;

use serde_json::{Map, Value, json};

use crate::methods::Reply;
use crate::output::lock;
use crate::server::{self, COUNTER_URI, Failure, Server};

const KNOWN: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The log levels, the most talkative first.
pub const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Answers what only these revisions have. `None`: the method is common to all, or unknown.
pub fn request(server: &Server, method: &str, params: &Map<String, Value>) -> Option<Reply> {
    if method == "initialize" {
        return Some(initialize(server, params));
    }
    if !server.is_legacy() {
        return None;
    }
    let empty = Some(Ok(Some(json!({}))));
    let text = |name: &str| params.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    match method {
        "ping" => empty,
        "logging/setLevel" => {
            let level = text("level");
            if !LEVELS.contains(&level.as_str()) {
                return Some(Err(Failure::invalid_params(format!("level: {level}"))));
            }
            *lock(&server.log_level) = Some(level);
            empty
        }
        "resources/subscribe" => {
            if let Some(code) = server.options.subscribe_error {
                return Some(Err(Failure::new(code, "subscriptions are refused")));
            }
            // A client must cope with the refusal of any other.
            if !server::is_part_of(&text("uri"), COUNTER_URI) {
                return Some(Err(Failure::new(-32002, format!("Resource not found: {}", text("uri")))));
            }
            lock(&server.subscribed).insert(text("uri"));
            empty
        }
        "resources/unsubscribe" => {
            lock(&server.subscribed).remove(&text("uri"));
            empty
        }
        _ => None,
    }
}

fn initialize(server: &Server, params: &Map<String, Value>) -> Reply {
    // A server echoes a version it knows and is not newer than its own, and answers its own to any other.
    let own = server.options.legacy.as_deref().unwrap_or(KNOWN[3]);
    let asked = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    let version = match &server.options.answer_version {
        Some(scripted) => scripted,
        None if KNOWN.contains(&asked) && asked <= own => asked,
        None => own,
    };
    *lock(&server.session) = Some(version.to_owned());
    // Servers have been seen to speak before they answer.
    for change in &server.options.early {
        server.announce(*change);
    }
    for method in &server.options.ask_early {
        server.output.note(&ask_client(server, None, None, method, None).1);
    }
    Ok(Some(json!({"protocolVersion": version, "capabilities": server.capabilities(),
        "serverInfo": server.server_info()})))
}

/// The handshake is over; what a server says unasked comes now.
pub fn initialized(server: &Server) {
    if !server.in_session() {
        return;
    }
    for change in &server.options.on_initialized {
        server.announce(*change);
    }
    for method in &server.options.ask {
        server.output.note(&ask_client(server, None, None, method, None).1);
    }
}

/// A request to the client, and its id. The answer becomes that of the call that waits, if one does. Ids start at 0, as
/// in some SDKs. (In the modern era such a request is a violation, which tests want to see.)
pub fn ask_client(
    server: &Server,
    own: Option<Value>,
    waiting: Option<&Value>,
    method: &str,
    params: Option<&Value>,
) -> (Value, Value) {
    let own = own.unwrap_or_else(|| server.next_ask.fetch_add(1, Ordering::Relaxed).into());
    lock(&server.asked).insert(own.to_string(), waiting.cloned());
    let mut request = json!({"jsonrpc": "2.0", "id": own, "method": method});
    if let Some(params) = params.cloned().or_else(|| usual_params(method)) {
        request["params"] = params;
    }
    (own, request)
}

/// The least that the revisions ask for.
fn usual_params(method: &str) -> Option<Value> {
    match method {
        "sampling/createMessage" => Some(json!({"maxTokens": 16,
            "messages": [{"role": "user", "content": {"type": "text", "text": "say hello"}}]})),
        "elicitation/create" => Some(json!({"message": "your name?",
            "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}})),
        _ => None,
    }
}

/// A response from the client: the text of the waiting call is its `result` or `error` member, as an object.
pub fn client_answered(server: &'static Server, id: &Value, mut message: Map<String, Value>) {
    let Some(Some(call)) = lock(&server.asked).remove(&id.to_string()) else {
        return;
    };
    message.remove("jsonrpc");
    let text = Value::Object(message).to_string();
    server.answer(&call, Ok(json!({"content": [{"type": "text", "text": text}]})));
}
