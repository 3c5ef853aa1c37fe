//! What a line means: the envelope, the `_meta` keys each request must carry, and one function for each method.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::options::{Lock, On};
use crate::output::lock;
use crate::server::{self, COUNTER_URI, Failure, SUBSCRIPTION_ID, Server, Stream};
use crate::{legacy, strict, tools};

const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// What a method says: a result, an error, or nothing (yet).
pub type Reply = Result<Option<Value>, Failure>;

/// Deals with one line from the client. A line that is no message is ignored.
pub fn take_line(server: &'static Server, line: &[u8]) {
    match serde_json::from_slice::<Value>(line) {
        Ok(Value::Object(message)) => take_message(server, message),
        // Only this revision had batches. Answers that come at once come together.
        Ok(Value::Array(messages)) if server.speaks("2025-03-26") => {
            server.output.begin_batch();
            for message in messages {
                if let Value::Object(message) = message {
                    take_message(server, message);
                }
            }
            server.output.end_batch();
        }
        _ => {}
    }
}

fn take_message(server: &'static Server, mut message: Map<String, Value>) {
    if server.options.strict {
        strict::check(server, &message);
    }
    let id = message.remove("id");
    let Some(Value::String(method)) = message.remove("method") else {
        if let Some(id) = id {
            legacy::client_answered(server, &id, message);
        }
        return;
    };
    if let Some(path) = &server.options.ledger {
        let id = id.as_ref().map_or_else(|| "-".to_owned(), Value::to_string);
        server::append(path, format!("{} {method} {id}\n", std::process::id()).as_bytes());
    }
    if server.options.crash_on.contains(&method) {
        server.options.death.happen();
    }
    let params = match message.remove("params") {
        Some(Value::Object(params)) => params,
        _ => Map::new(),
    };
    match id {
        Some(id @ (Value::String(_) | Value::Number(_))) => {
            if server.options.mute.iter().any(|mute| *mute == method || mute == "*") {
                return;
            }
            request(server, &method, &id, params);
        }
        Some(_) => {}
        None if method == "notifications/cancelled" => {
            if let Some(id) = params.get("requestId") {
                server.cancel(id);
            }
        }
        None if method == "notifications/initialized" => legacy::initialized(server),
        None => {}
    }
}

/// Answers a request, in the way that the flags ask for.
fn request(server: &'static Server, method: &str, id: &Value, params: Map<String, Value>) {
    let options = &server.options;
    let before_handshake = options.legacy.is_some() && !options.dual && !server.in_session();
    let on = match method {
        "server/discover" if !matches!(options.on_discover, On::Answer) => &options.on_discover,
        "initialize" => &options.on_initialize,
        "ping" => &On::Answer,
        _ if before_handshake => &options.before_initialize,
        _ => &On::Answer,
    };
    match on {
        On::Answer => reply(server, id, serve(server, method, id, &params)),
        On::Ignore => {}
        On::Error(code) => {
            let asked = params.get("protocolVersion").or_else(|| params.get("_meta")?.get(PROTOCOL_VERSION));
            reply(server, id, Err(refused(server, *code, method, asked)));
        }
        On::Exit(code) => {
            if let Some(text) = &options.exit_text {
                server::write_stderr(&format!("{text}\n"));
            }
            std::process::exit(*code);
        }
        On::Late(ms) => {
            let (pause, method, id) = (Duration::from_millis(*ms), method.to_owned(), id.clone());
            server.in_thread(move || {
                thread::sleep(pause);
                reply(server, &id, serve(server, &method, &id, &params));
            });
        }
        // With nothing added.
        On::Result(result) => server.answer_now(&json!({"jsonrpc": "2.0", "id": id, "result": result})),
    }
}

fn reply(server: &'static Server, id: &Value, reply: Reply) {
    match reply {
        Ok(Some(result)) => server.answer(id, Ok(result)),
        Ok(None) => {}
        Err(failure) => server.answer(id, Err(failure)),
    }
}

/// A scripted refusal. The versions belong to an error about versions, and to any that `initialize` gets.
fn refused(server: &Server, code: i64, method: &str, asked: Option<&Value>) -> Failure {
    let unsupported = unsupported(server, asked);
    let data = unsupported.data.filter(|_| code == unsupported.code || method == "initialize");
    Failure { data, ..Failure::new(code, format!("{method} is refused")) }
}

fn serve(server: &'static Server, method: &str, id: &Value, params: &Map<String, Value>) -> Reply {
    if server.options.legacy.is_some()
        && !(method == "initialize" && server.locked.load(Ordering::Relaxed))
        && let Some(reply) = legacy::request(server, method, params)
    {
        return reply;
    }
    if method == "initialize" {
        // A modern server must name its versions to a client that only knows the handshake, which has no `_meta`.
        return Err(unsupported(server, params.get("protocolVersion")));
    }
    if !server.is_legacy() {
        if !server.options.lenient {
            check_meta(server, params)?;
        }
        let met = if method == "server/discover" { Lock::Discover } else { Lock::Request };
        if server.options.lock == Some(met) {
            server.locked.store(true, Ordering::Relaxed);
        }
    }
    match method {
        "server/discover" if !server.is_legacy() => discover(server),
        "subscriptions/listen" if !server.is_legacy() => listen(server, id, params),
        "tools/list" => cacheable(server, json!({"tools": tools::list(server)})),
        "tools/call" => tools::call(server, id, params),
        "resources/list" => {
            cacheable(server, json!({"resources": [{"uri": COUNTER_URI, "name": "counter", "mimeType": "text/plain"}]}))
        }
        "resources/templates/list" => cacheable(server, json!({"resourceTemplates": []})),
        "resources/read" => read_resource(server, params),
        "prompts/list" => cacheable(
            server,
            json!({"prompts": [{"name": "greet", "description": "greets somebody",
                "arguments": [{"name": "name", "description": "who", "required": true}]}]}),
        ),
        "prompts/get" => get_prompt(params),
        "completion/complete" => Ok(Some(complete(params))),
        _ => {
            for line in 1..=server.options.stderr_per_unknown {
                server::write_stderr(&format!("validation error {line} for {method}: no such method\n"));
            }
            Err(Failure::new(-32601, format!("Method not found: {method}")))
        }
    }
}

/// The keys every request of the revision carries.
fn check_meta(server: &Server, params: &Map<String, Value>) -> Result<(), Failure> {
    let meta = params.get("_meta").and_then(Value::as_object);
    let key = |name: &str| meta.and_then(|meta| meta.get(name));
    let Some(version) = key(PROTOCOL_VERSION).and_then(Value::as_str) else {
        return Err(Failure::invalid_params("missing _meta key io.modelcontextprotocol/protocolVersion"));
    };
    if key("io.modelcontextprotocol/clientCapabilities").and_then(Value::as_object).is_none() {
        return Err(Failure::invalid_params("missing _meta key io.modelcontextprotocol/clientCapabilities"));
    }
    if server.options.supported.iter().any(|supported| supported == version) {
        Ok(())
    } else {
        Err(unsupported(server, Some(&version.into())))
    }
}

fn unsupported(server: &Server, requested: Option<&Value>) -> Failure {
    let requested = requested.cloned().unwrap_or_default();
    let data = json!({"supported": server.options.supported, "requested": requested});
    let data = Some(data).filter(|_| !server.options.no_supported);
    Failure { data, ..Failure::new(-32022, "Unsupported protocol version") }
}

/// Adds the caching fields, which only the modern revision knows.
fn cacheable(server: &Server, mut result: Value) -> Reply {
    if !server.is_legacy() {
        result["ttlMs"] = 0.into();
        result["cacheScope"] = "private".into();
    }
    Ok(Some(result))
}

fn discover(server: &Server) -> Reply {
    let result = json!({"supportedVersions": server.options.supported, "capabilities": server.capabilities()});
    cacheable(server, result)
}

fn listen(server: &'static Server, id: &Value, params: &Map<String, Value>) -> Reply {
    if let Some(code) = server.options.listen_error {
        return Err(Failure::new(code, "listen is refused"));
    }
    let Some(Value::Object(asked)) = params.get("notifications") else {
        return Err(Failure::invalid_params("missing notifications"));
    };
    let known = ["toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions"];
    let filter: Map<String, Value> = asked
        .iter()
        .filter(|(name, _)| known.contains(&name.as_str()))
        .filter(|(name, _)| server.options.listen_accept.as_ref().is_none_or(|only| only.contains(name)))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    // Under the lock, so that the acknowledgement is the first message of the stream.
    let mut streams = lock(&server.streams);
    if !server.options.no_ack {
        server.output.note(&json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": {"_meta": {SUBSCRIPTION_ID: id}, "notifications": filter}}));
    }
    streams.push(Stream { id: id.clone(), filter });
    drop(streams);
    for change in &server.options.announce {
        server.announce(*change);
    }
    Ok(None)
}

fn read_resource(server: &Server, params: &Map<String, Value>) -> Reply {
    let uri = params.get("uri").and_then(Value::as_str).unwrap_or_default();
    if uri != COUNTER_URI {
        return Err(Failure::invalid_params(format!("unknown resource: {uri}")));
    }
    let text = server.counter.load(Ordering::Relaxed).to_string();
    cacheable(server, json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}))
}

fn get_prompt(params: &Map<String, Value>) -> Reply {
    let prompt = params.get("name").and_then(Value::as_str).unwrap_or_default();
    if prompt != "greet" {
        return Err(Failure::invalid_params(format!("unknown prompt: {prompt}")));
    }
    let Some(name) = params.get("arguments").and_then(|arguments| arguments["name"].as_str()) else {
        return Err(Failure::invalid_params("missing argument: name"));
    };
    let text = format!("Say hello to {name}.");
    Ok(Some(json!({"description": "greets somebody",
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}]})))
}

fn complete(params: &Map<String, Value>) -> Value {
    let begun = params.get("argument").and_then(|argument| argument["value"].as_str()).unwrap_or_default();
    let values: Vec<&str> = ["Ada", "Alan", "Grace"].into_iter().filter(|name| name.starts_with(begun)).collect();
    json!({"completion": {"values": values, "total": values.len(), "hasMore": false}})
}
