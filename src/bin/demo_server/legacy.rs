//! The revisions before 2026-07-28: the handshake, subscriptions by URI, and requests to the client.

use std::sync::atomic::Ordering;

use serde_json::{Map, Value, json};

use crate::methods::Reply;
use crate::options::On;
use crate::output::lock;
use crate::server::{Failure, Server};

const KNOWN: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// Answers what only these revisions have. `None`: the method is common to all, or unknown.
pub fn request(server: &Server, method: &str, params: &Map<String, Value>) -> Option<Reply> {
    if method == "initialize" {
        return Some(initialize(server, params));
    }
    if !server.is_legacy() {
        return None;
    }
    let empty = Some(Ok(Some(json!({}))));
    let uri = || params.get("uri").and_then(Value::as_str).unwrap_or_default().to_owned();
    match method {
        "ping" | "logging/setLevel" => empty,
        "resources/subscribe" => {
            // The only resource there is; a client must cope with the refusal of any other.
            if uri() != crate::server::COUNTER_URI {
                return Some(Err(Failure::new(-32002, format!("Resource not found: {}", uri()))));
            }
            lock(&server.subscribed).insert(uri());
            empty
        }
        "resources/unsubscribe" => {
            lock(&server.subscribed).remove(&uri());
            empty
        }
        _ => None,
    }
}

fn initialize(server: &Server, params: &Map<String, Value>) -> Reply {
    match server.options.on_initialize {
        On::Answer => {}
        On::Ignore => return Ok(None),
        On::Error(code) => {
            let data = json!({"supported": server.options.supported, "requested": params.get("protocolVersion")});
            return Err(Failure { data: Some(data), ..Failure::new(code, "initialize is refused") });
        }
        On::Exit(code) => std::process::exit(code),
    }
    server.legacy_session.store(true, Ordering::Relaxed);
    // A server echoes a version it knows and is not newer than its own, and answers its own to any other.
    let own = server.options.legacy.as_deref().unwrap_or(KNOWN[3]);
    let asked = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    let version = if KNOWN.contains(&asked) && asked <= own { asked } else { own };
    Ok(Some(json!({"protocolVersion": version, "capabilities": server.capabilities(),
        "serverInfo": server.server_info()})))
}

/// Sends a request to the client; its answer becomes the answer of the call `id`. Ids start at 0, as some SDKs do.
/// (In the modern era this is a violation, which tests want to see.)
pub fn ask_client(server: &Server, id: &Value, method: &str, params: Option<&Value>) {
    let own = server.next_ask.fetch_add(1, Ordering::Relaxed);
    lock(&server.asked).insert(own, id.clone());
    let mut request = json!({"jsonrpc": "2.0", "id": own, "method": method});
    if let Some(params) = params {
        request["params"] = params.clone();
    }
    server.output.note(&request);
}

/// A response from the client: the text of the waiting call is its `result` or `error` member, as an object.
pub fn client_answered(server: &'static Server, id: &Value, mut message: Map<String, Value>) {
    let Some(call) = id.as_u64().and_then(|id| lock(&server.asked).remove(&id)) else {
        return;
    };
    message.remove("jsonrpc");
    let text = Value::Object(message).to_string();
    server.answer(&call, Ok(json!({"content": [{"type": "text", "text": text}]})));
}
