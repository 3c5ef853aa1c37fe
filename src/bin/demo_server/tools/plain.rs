//! Tools of a good server, and answers of unusual kinds.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::{Call, content, say};
use crate::methods::Reply;
use crate::output::lock;
use crate::server::{self, Change, Failure, OnCancel};
use crate::{legacy, options};

pub fn echo(call: &Call) -> Reply {
    say(call.text("message"))
}

pub fn pid(_: &Call) -> Reply {
    say(std::process::id().to_string())
}

pub fn life(call: &Call) -> Reply {
    say(call.server.options.life.to_string())
}

pub fn sleep(call: &Call) -> Reply {
    let on_cancel = match call.text("on_cancel") {
        "" | "silent" => OnCancel::Silent,
        "error" => OnCancel::Error,
        "ignore" => OnCancel::Ignore,
        other => return Err(Failure::invalid_params(format!("on_cancel: {other}"))),
    };
    let quarter = Duration::from_millis(call.number("ms").unwrap_or(0)) / 4;
    let (server, id, token, response) = (call.server, call.id.clone(), call.progress_token(), call.response("slept"));
    server.begin_waiting(&id, on_cancel);
    server.in_thread(move || {
        for step in 1..=4 {
            thread::sleep(quarter);
            if !server.still_waiting(&id) {
                return;
            }
            if let Some(token) = &token {
                server.output.note(&json!({"jsonrpc": "2.0", "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": step, "total": 4}}));
            }
        }
        server.finish_waiting(&id, || server.answer_now(&response));
    });
    Ok(None)
}

pub fn bump(call: &Call) -> Reply {
    let counter = call.server.counter.fetch_add(1, Ordering::Relaxed) + 1;
    call.server.announce(Change::Counter);
    say(counter.to_string())
}

pub fn flip(call: &Call) -> Reply {
    match call.text("what") {
        "" | "tools" => {
            let was_on = call.server.extra.fetch_xor(true, Ordering::Relaxed);
            call.server.announce(Change::Tools);
            say((!was_on).to_string())
        }
        "prompts" => {
            call.server.announce(Change::Prompts);
            say("prompts")
        }
        "resources" => {
            call.server.announce(Change::Resources);
            say("resources")
        }
        other => Err(Failure::invalid_params(format!("what: {other}"))),
    }
}

pub fn ask(call: &Call) -> Reply {
    let Some(answers) = call.params.get("inputResponses") else {
        let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
        return Ok(Some(json!({"resultType": "input_required", "requestState": "state-1",
            "inputRequests": {"name": {"method": "elicitation/create",
                "params": {"mode": "form", "message": "name?", "requestedSchema": schema}}}})));
    };
    if call.params.get("requestState").and_then(|state| state.as_str()) != Some("state-1") {
        return Err(Failure::invalid_params("requestState is not the one that was given"));
    }
    let name = answers["name"]["content"]["name"].as_str().or(answers["name"]["action"].as_str());
    say(format!("hello {}", name.unwrap_or("nobody")))
}

pub fn ask_client(call: &Call) -> Reply {
    let own = match call.text("id") {
        "" => None,
        json => Some(serde_json::from_str(json).map_err(|error| Failure::invalid_params(format!("id: {error}")))?),
    };
    let withdrawn = call.flag("cancel") == Some(true);
    let waiting = (!withdrawn).then_some(call.id);
    let (own, request) =
        legacy::ask_client(call.server, own, waiting, call.text("method"), call.arguments.get("params"));
    call.server.output.note(&request);
    if !withdrawn {
        return Ok(None);
    }
    call.server.output.note(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": own, "reason": "asked for"}}));
    say("cancelled")
}

pub fn updated(call: &Call) -> Reply {
    call.server.announce_updated(call.text("uri"));
    say("announced")
}

pub fn log(call: &Call) -> Reply {
    let level = call.text("level");
    let rank = |level: &str| legacy::LEVELS.iter().position(|known| *known == level);
    let Some(asked) = rank(level) else {
        return Err(Failure::invalid_params(format!("level: {level}")));
    };
    let wanted = if call.server.is_legacy() {
        // A server may log before it was told a level.
        lock(&call.server.log_level).as_deref().map_or(Some(0), rank)
    } else {
        let level = call.params.get("_meta").and_then(|meta| meta["io.modelcontextprotocol/logLevel"].as_str());
        level.and_then(rank)
    };
    let written = wanted.is_some_and(|least| asked >= least);
    if written {
        call.server.output.note(&json!({"jsonrpc": "2.0", "method": "notifications/message",
            "params": {"level": level, "logger": "demo", "data": call.text("text")}}));
    }
    say(written.to_string())
}

pub fn ledger(call: &Call) -> Reply {
    server::append(Path::new(call.text("path")), format!("{}\n", call.text("text")).as_bytes());
    if let Some(code) = call.small("crash") {
        std::process::exit(code);
    }
    say("written")
}

pub fn end_streams(call: &Call) -> Reply {
    let how = match call.text("how") {
        "" => "result",
        how => how,
    };
    call.server.end_streams(options::end_streams(how).map_err(Failure::invalid_params)?);
    say("ended")
}

pub fn error(call: &Call) -> Reply {
    let code = call.small("code").unwrap_or(-32603);
    let message = if call.text("message").is_empty() { "asked for" } else { call.text("message") };
    Err(Failure { data: call.arguments.get("data").cloned(), ..Failure::new(i64::from(code), message) })
}

pub fn result_type(call: &Call) -> Reply {
    let mut result = content("unusual");
    result["resultType"] = call.text("value").into();
    Ok(Some(result))
}
