//! The table of tools, and what turns a `tools/call` into a call of one of them.

mod life;
mod plain;
mod report;
mod wire;

use std::sync::atomic::Ordering;

use serde_json::{Map, Value, json};

use crate::methods::Reply;
use crate::server::{Failure, Server};

/// One tool: what `tools/list` says of it, and what it does.
struct Tool {
    name: &'static str,
    about: &'static str,
    arguments: &'static [Argument],
    run: fn(&Call) -> Reply,
}

struct Argument {
    name: &'static str,
    kind: &'static str,
    needed: bool,
}

const fn need(name: &'static str, kind: &'static str) -> Argument {
    Argument { name, kind, needed: true }
}

const fn may(name: &'static str, kind: &'static str) -> Argument {
    Argument { name, kind, needed: false }
}

const fn tool(
    name: &'static str,
    about: &'static str,
    arguments: &'static [Argument],
    run: fn(&Call) -> Reply,
) -> Tool {
    Tool { name, about, arguments, run }
}

const INT: &str = "integer";
const BOOL: &str = "boolean";
const TEXT: &str = "string";

const TOOLS: &[Tool] = &[
    // A good server's.
    tool("echo", "answers the message", &[need("message", TEXT)], plain::echo),
    tool("pid", "the process id", &[], plain::pid),
    tool("life", "the number of this life (--lives)", &[], plain::life),
    tool(
        "sleep",
        "waits, with four progress notes if there is a token; on_cancel: silent, error (code 0, at once) or ignore",
        &[need("ms", INT), may("on_cancel", TEXT)],
        plain::sleep,
    ),
    tool("bump", "counter + 1, announced to the streams subscribed to mem://counter", &[], plain::bump),
    tool(
        "flip",
        "toggles the tool `extra` and announces it; what: tools, prompts or resources (these are only announced)",
        &[may("what", TEXT)],
        plain::flip,
    ),
    tool("ask", "multi round trip: asks for a name first", &[], plain::ask),
    tool(
        "ask_client",
        "sends the client a request; the answer's text is the client's response; id: JSON (default: 0, 1, …); cancel: \
         withdraws it at once and answers `cancelled`",
        &[need("method", TEXT), may("params", "object"), may("id", TEXT), may("cancel", BOOL)],
        plain::ask_client,
    ),
    tool("updated", "announces that a resource changed, to who subscribed", &[need("uri", TEXT)], plain::updated),
    tool(
        "log",
        "writes a log notification, if the level of the session or of the request wants it",
        &[need("level", TEXT), need("text", TEXT)],
        plain::log,
    ),
    tool(
        "ledger",
        "appends a line to a file; with crash it then exits with that code, unanswered",
        &[need("path", TEXT), need("text", TEXT), may("crash", INT)],
        plain::ledger,
    ),
    tool("end_streams", "ends open listens: result, cancelled, both or error", &[may("how", TEXT)], plain::end_streams),
    tool("error", "answers an error", &[need("code", INT), may("message", TEXT), may("data", "object")], plain::error),
    tool("result_type", "answers a result of that resultType", &[need("value", TEXT)], plain::result_type),
    // What the process looks like from inside; JSON in the text.
    tool(
        "env",
        "the environment as an object; with name one value or null; with raw the block in its order, as an array",
        &[may("name", TEXT), may("raw", BOOL)],
        report::env,
    ),
    tool("args", "argv as an array of strings, argv[0] included", &[], report::args),
    tool("cwd", "the working directory, as plain text", &[], report::cwd),
    tool("fds", "open descriptors: {\"number\": \"target\"}", &[], report::fds),
    tool(
        "signals",
        "pid, ppid, pgid, sid (numbers), SigBlk, SigIgn, SigCgt, ignored_at_start (hex strings)",
        &[],
        report::signals,
    ),
    // Faults on the wire.
    tool(
        "flood",
        "writes count notifications, each line `size` bytes long, then the answer; kind: message, or updated (one for \
         each stream subscribed to mem://counter); one_write: everything in a single write; background: reads on",
        &[need("count", INT), may("size", INT), may("kind", TEXT), may("one_write", BOOL), may("background", BOOL)],
        wire::flood,
    ),
    tool(
        "progress",
        "progress notes every every_ms, count times (0: for ever), for the call's token or the given one, then the answer",
        &[need("every_ms", INT), may("count", INT), may("token", TEXT)],
        wire::progress,
    ),
    tool(
        "batch",
        "answers in an array, behind that many notifications and, with ask, a request to the client (2025-03-26)",
        &[may("notes", INT), may("ask", TEXT)],
        wire::batch,
    ),
    tool("big", "answers a text of that many bytes", &[need("bytes", INT)], wire::big),
    tool(
        "exact_line",
        "answers with a line of exactly that many bytes, line end not counted",
        &[need("bytes", INT)],
        wire::exact_line,
    ),
    tool(
        "garbage",
        "writes that many odd lines (default: each kind once), then the answer",
        &[may("lines", INT)],
        wire::garbage,
    ),
    tool(
        "blank",
        "writes empty lines and lines of white space (4 each round), then the answer",
        &[may("rounds", INT)],
        wire::blank,
    ),
    tool(
        "raw",
        "writes text (@ID@ becomes the call's id) or hex as it is, then the answer unless answer is false",
        &[may("text", TEXT), may("hex", TEXT), may("answer", BOOL)],
        wire::raw,
    ),
    tool(
        "long_line",
        "writes that many x without a line end; then the answer, on the same line unless newline is true",
        &[need("bytes", INT), may("newline", BOOL)],
        wire::long_line,
    ),
    tool(
        "slow",
        "writes its answer in pieces of chunk bytes, ms apart",
        &[need("chunk", INT), need("ms", INT)],
        wire::slow,
    ),
    tool(
        "split",
        "writes the first `at` bytes of its answer, and the rest ms later",
        &[need("at", INT), may("ms", INT)],
        wire::split,
    ),
    tool(
        "hold",
        "answers; then keeps everything back until `answers` answers are together, in one write",
        &[need("answers", INT)],
        wire::hold,
    ),
    tool(
        "crlf",
        "from now on ends lines with CR LF, this answer's included, or LF again",
        &[need("on", BOOL)],
        wire::crlf,
    ),
    tool(
        "stderr",
        "writes to stderr: text, then `lines` numbered lines, then `bytes` bytes",
        &[may("text", TEXT), may("lines", INT), may("bytes", INT)],
        wire::stderr,
    ),
    // Faults of life.
    tool(
        "crash",
        "exits (code, default 13) or dies by a signal, unanswered",
        &[may("code", INT), may("signal", INT)],
        life::crash,
    ),
    tool("exit", "answers, then exits", &[may("code", INT)], life::exit),
    tool("half_line", "writes half of its answer without a line end and exits", &[may("code", INT)], life::half_line),
    tool(
        "last_line_no_newline",
        "writes its whole answer without a line end and exits",
        &[may("code", INT)],
        life::last_line_no_newline,
    ),
    tool("hang", "does not answer, and reads and writes nothing any more", &[], life::hang),
    tool("silent", "does not answer this call", &[], life::silent),
    tool("stop", "stops itself (SIGSTOP), answers when continued", &[], life::stop),
    tool(
        "close_stdout",
        "answers, closes its stdout and lives on; what it says later is lost",
        &[],
        life::close_stdout,
    ),
    tool("close_stdin", "answers, closes its stdin and lives on", &[], life::close_stdin),
    tool(
        "grandchild",
        "starts a process that holds stdout and stderr (and stdin), and answers its pid; new_group: outside of the \
         server's group; chatter_ms: it writes a line to stdout that often",
        &[need("seconds", INT), may("stdin", BOOL), may("new_group", BOOL), may("chatter_ms", INT)],
        life::grandchild,
    ),
];

/// A call with what the handlers need of its request.
struct Call<'a> {
    server: &'static Server,
    id: &'a Value,
    arguments: &'a Map<String, Value>,
    params: &'a Map<String, Value>,
}

impl Call<'_> {
    fn text(&self, name: &str) -> &str {
        self.arguments.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.arguments.get(name).and_then(Value::as_u64)
    }

    /// A number that counts bytes or lines; a missing one is 0.
    fn size(&self, name: &str) -> usize {
        self.number(name).and_then(|number| usize::try_from(number).ok()).unwrap_or(0)
    }

    /// An exit code or a signal number.
    fn small(&self, name: &str) -> Option<i32> {
        self.arguments.get(name).and_then(Value::as_i64).and_then(|number| i32::try_from(number).ok())
    }

    fn flag(&self, name: &str) -> Option<bool> {
        self.arguments.get(name).and_then(Value::as_bool)
    }

    fn progress_token(&self) -> Option<Value> {
        self.params.get("_meta").and_then(|meta| meta.get("progressToken")).cloned()
    }

    /// The response that says `text`, for handlers that write it themselves.
    fn response(&self, text: impl Into<String>) -> Value {
        self.server.envelope(self.id, Ok(content(text)))
    }
}

/// The result of a tool: one text.
fn content(text: impl Into<String>) -> Value {
    json!({"content": [{"type": "text", "text": text.into()}]})
}

/// A handler's usual last line.
fn say(text: impl Into<String>) -> Reply {
    Ok(Some(content(text)))
}

/// What `tools/list` answers.
pub fn list(server: &Server) -> Vec<Value> {
    let mut tools: Vec<Value> = TOOLS.iter().map(describe).collect();
    if server.extra.load(Ordering::Relaxed) {
        tools.push(describe(&tool("extra", "there while flipped on", &[], |_| say("extra"))));
    }
    tools
}

fn describe(tool: &Tool) -> Value {
    let properties: Map<String, Value> =
        tool.arguments.iter().map(|argument| (argument.name.to_owned(), json!({"type": argument.kind}))).collect();
    let needed: Vec<&str> =
        tool.arguments.iter().filter(|argument| argument.needed).map(|argument| argument.name).collect();
    json!({"name": tool.name, "description": tool.about,
        "inputSchema": {"type": "object", "properties": properties, "required": needed}})
}

/// `tools/call`.
pub fn call(server: &'static Server, id: &Value, params: &Map<String, Value>) -> Reply {
    let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
    if name == "extra" && server.extra.load(Ordering::Relaxed) {
        return say("extra");
    }
    let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
        return Err(Failure::invalid_params(format!("unknown tool: {name}")));
    };
    let none = Map::new();
    let arguments = params.get("arguments").and_then(Value::as_object).unwrap_or(&none);
    for argument in tool.arguments {
        match arguments.get(argument.name) {
            None if argument.needed => {
                return Err(Failure::invalid_params(format!("missing argument: {}", argument.name)));
            }
            Some(value) if !fits(value, argument.kind) => {
                return Err(Failure::invalid_params(format!("argument {} is not {}", argument.name, argument.kind)));
            }
            _ => {}
        }
    }
    (tool.run)(&Call { server, id, arguments, params })
}

fn fits(value: &Value, kind: &str) -> bool {
    match kind {
        INT => value.as_i64().is_some(),
        BOOL => value.is_boolean(),
        TEXT => value.is_string(),
        _ => value.is_object(),
    }
}

/// The table as text, for `--help`.
pub fn help() -> String {
    let mut text = String::from("\nTools (? = may be left out):\n");
    for tool in TOOLS {
        let arguments: Vec<String> = tool
            .arguments
            .iter()
            .map(|argument| format!("{}{}", argument.name, if argument.needed { "" } else { "?" }))
            .collect();
        text += &format!("  {:<32} {}\n", format!("{} {{{}}}", tool.name, arguments.join(", ")), tool.about);
    }
    text
}
