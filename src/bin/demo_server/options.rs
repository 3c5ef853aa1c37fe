//! The command line: one table of flags, and the options they make. What an option does is said where it is used.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::Value;

use crate::process::Death;
use crate::server::Change;

/// One flag: its name, the name of its value ("" if it has none), and what it does.
type Flag = (&'static str, &'static str, &'static str);

const FLAGS: &[Flag] = &[
    ("--help", "", "print this and exit"),
    ("--", "", "everything behind it is ignored (but seen by the tool `args`)"),
    ("--wrap", "", "must come first: be a launcher that runs the server with the flags behind it as a child"),
    ("--tee", "", "must come first: run the program behind it as a server, and record what it is told (see record.rs)"),
    ("--be-grandchild", "SECONDS", "must come first: hold the inherited descriptors, do nothing, exit 0"),
    // Lives.
    ("--lives", "FILE", "append this pid to FILE; the number of lines is the number of this life"),
    (
        "--in-life",
        "RANGE",
        "the flags behind it count only in life N, N- or N-M (with --lives), until the next --in-life",
    ),
    // Start, in this order.
    ("--ignore-sigterm", "", "SIGTERM does nothing"),
    ("--graceful", "", "on SIGTERM end open listens as --end-streams says (default: result) and exit 0"),
    ("--spawn-grandchild", "SECONDS", "start a process that holds stdout and stderr that long"),
    ("--stderr-at-start", "TEXT", "write TEXT and a line end to stderr"),
    ("--stderr-bytes-at-start", "N", "write N bytes to stderr, in lines of 80"),
    ("--exit-at-start", "CODE", "exit before reading anything"),
    ("--exit-unread", "CODE", "read nothing, and exit as soon as something lies in stdin"),
    ("--raw-lines", "FILE", "write the bytes of FILE to stdout"),
    ("--crash-after-start-ms", "MS", "die after that time, whatever is going on"),
    ("--chatter", "MS", "write a notification that often, unasked"),
    ("--delay-start", "MS", "wait before the first read"),
    ("--no-read", "", "never read stdin"),
    // Requests.
    ("--lenient", "", "do not ask for the `_meta` keys of the revision"),
    ("--ledger", "FILE", "append `PID METHOD ID` for each request, `PID METHOD -` for each notification received"),
    ("--record", "FILE", "append each line received, as it is"),
    ("--exit-after", "N", "die when N requests have been answered"),
    ("--answers", "N", "keep everything back until N answers are together, write them in one write and die"),
    ("--exit-after-read", "N", "die when N lines have been read, the last of them unanswered"),
    ("--crash-on", "METHOD", "die when METHOD comes, unanswered (may be repeated)"),
    ("--mute", "METHOD", "never answer METHOD, or `*` (may be repeated)"),
    ("--delay-answers", "MS", "answer each request that much later, reading on meanwhile"),
    ("--stderr-per-answer", "N", "write N bytes to stderr before each answer"),
    ("--stderr-per-unknown", "N", "write N lines to stderr before refusing an unknown method"),
    ("--notes-midline", "N", "in the middle of a line over 64 KiB write N bytes of notifications before reading on"),
    ("--string-ids", "", "answer with the id turned into a string"),
    ("--crlf", "", "end lines with CR LF"),
    // How a life ends.
    ("--exit-code", "CODE", "a death by flag is an exit with CODE (default 1)"),
    ("--exit-signal", "N", "a death by flag is by signal N"),
    ("--ignore-eof", "", "live on at the end of stdin"),
    ("--leave-group", "", "move to the process group of the parent"),
    ("--finish", "", "at the end of stdin answer the calls that still wait before leaving"),
    (
        "--end-streams",
        "HOW",
        "when leaving: nothing (default), result, cancelled, both or error (-32000) for each open listen",
    ),
    ("--slow-exit", "MS", "when leaving: work that long first"),
    ("--exit-file", "FILE", "when leaving: write `finished` to FILE last"),
    // What the server says of itself.
    ("--name", "NAME", "serverInfo.name"),
    ("--server-version", "TEXT", "serverInfo.version"),
    ("--supported", "LIST", "protocol versions, with commas (default 2026-07-28)"),
    ("--capabilities", "JSON", "the capabilities object of server/discover and initialize"),
    (
        "--on-discover",
        "HOW",
        "answer (default), ignore, error:CODE, exit:CODE, late:MS (answers, that much later) or result:JSON",
    ),
    ("--exit-text", "TEXT", "write TEXT and a line end to stderr before an exit:CODE"),
    ("--no-supported", "", "an error -32022 does not say what is supported"),
    ("--listen-error", "CODE", "refuse every listen"),
    ("--listen-accept", "LIST", "accept only these fields of a listen filter"),
    ("--no-ack", "", "accept listens without acknowledging them"),
    ("--announce", "LIST", "behind each acknowledgement: announce tools, prompts, resources and counter, those listed"),
    // Older revisions: 2025-11-25, 2025-06-18, 2025-03-26 and 2024-11-05.
    (
        "--legacy",
        "VERSION",
        "speak this revision and the older ones: initialize, ping, resources/subscribe, logging/setLevel, no `_meta`",
    ),
    ("--dual", "", "with --legacy: modern until an initialize comes"),
    ("--lock", "WHEN", "with --dual: refuse initialize (-32022) after a discover, or after any other modern request"),
    ("--before-initialize", "HOW", "as --on-discover, for every request before the handshake (default: answer)"),
    ("--on-initialize", "HOW", "as --on-discover"),
    ("--answer-version", "VERSION", "answer initialize with this version, whatever was asked"),
    ("--early", "LIST", "before the answer of initialize: announce tools, prompts, resources and counter"),
    ("--ask-early", "METHOD", "before the answer of initialize: send this request (may be repeated; ids from 0)"),
    ("--on-initialized", "LIST", "behind notifications/initialized: announce these (one more than once, if listed so)"),
    ("--ask", "METHOD", "behind notifications/initialized: send this request (may be repeated; ids from 0)"),
    ("--subscribe-error", "CODE", "refuse every resources/subscribe"),
    ("--strict", "", "exit with 70 and a line on stderr when the client breaks a rule of the older revisions"),
];

/// What the command line asks the program to be.
pub enum Start {
    /// Print the tables.
    Help,
    /// Hold descriptors for a while.
    Grandchild { seconds: u64, chatter_ms: Option<u64> },
    /// Run the server as a child.
    Wrapper(Vec<OsString>),
    /// Stand between a client and another server.
    Tee(Vec<OsString>),
    /// Be the server.
    Serve(Box<Options>),
}

/// How a special request is met.
#[derive(Clone)]
pub enum On {
    /// As the revision says.
    Answer,
    /// With silence.
    Ignore,
    /// With an error.
    Error(i64),
    /// With the end of the process.
    Exit(i32),
    /// As the revision says, that many milliseconds later.
    Late(u64),
    /// With this result.
    Result(Value),
}

/// What makes a server of both eras refuse the handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// The answer of a discover.
    Discover,
    /// Any other request of the modern era.
    Request,
}

/// What an open listen gets when the server leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum EndStreams {
    /// Silence.
    Nothing,
    /// Its result.
    Result,
    /// `notifications/cancelled`.
    Cancelled,
    /// `notifications/cancelled`, then its result.
    Both,
    /// The error -32000 "Connection closed".
    Error,
}

/// One field for each flag; see the table for their meaning.
pub struct Options {
    pub life: u64,
    pub ignore_sigterm: bool,
    pub graceful: bool,
    pub spawn_grandchild: Option<u64>,
    pub stderr_at_start: Option<String>,
    pub stderr_bytes_at_start: usize,
    pub exit_at_start: Option<i32>,
    pub exit_unread: Option<i32>,
    pub raw_lines: Option<PathBuf>,
    pub crash_after_start_ms: Option<u64>,
    pub chatter_ms: Option<u64>,
    pub delay_start_ms: u64,
    pub no_read: bool,
    pub lenient: bool,
    pub ledger: Option<PathBuf>,
    pub record: Option<PathBuf>,
    pub exit_after: Option<u64>,
    pub answers: Option<u64>,
    pub exit_after_read: Option<u64>,
    pub crash_on: Vec<String>,
    pub mute: Vec<String>,
    pub delay_answers_ms: Option<u64>,
    pub stderr_per_answer: usize,
    pub stderr_per_unknown: usize,
    pub notes_midline: usize,
    pub string_ids: bool,
    pub crlf: bool,
    pub death: Death,
    pub ignore_eof: bool,
    pub leave_group: bool,
    pub finish: bool,
    pub end_streams: EndStreams,
    pub slow_exit_ms: u64,
    pub exit_file: Option<PathBuf>,
    pub name: String,
    pub server_version: String,
    pub supported: Vec<String>,
    pub capabilities: Option<Value>,
    pub on_discover: On,
    pub exit_text: Option<String>,
    pub no_supported: bool,
    pub listen_error: Option<i64>,
    pub listen_accept: Option<Vec<String>>,
    pub no_ack: bool,
    pub announce: Vec<Change>,
    pub legacy: Option<String>,
    pub dual: bool,
    pub lock: Option<Lock>,
    pub before_initialize: On,
    pub on_initialize: On,
    pub answer_version: Option<String>,
    pub early: Vec<Change>,
    pub ask_early: Vec<String>,
    pub on_initialized: Vec<Change>,
    pub ask: Vec<String>,
    pub subscribe_error: Option<i64>,
    pub strict: bool,
}

impl Options {
    /// Reads the arguments of this process. An error is a text for the user.
    pub fn from_command_line() -> Result<Start, String> {
        let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
        match arguments.first().and_then(|first| first.to_str()) {
            Some("--help") => return Ok(Start::Help),
            Some("--wrap") => return Ok(Start::Wrapper(arguments[1..].to_vec())),
            Some("--tee") => return Ok(Start::Tee(arguments[1..].to_vec())),
            Some("--be-grandchild") => {
                let value = |at: usize| arguments.get(at).and_then(|value| value.to_str()?.parse().ok());
                return Ok(Start::Grandchild { seconds: value(1).unwrap_or(0), chatter_ms: value(3) });
            }
            _ => {}
        }
        Self::parse(arguments)
    }

    fn parse(arguments: Vec<OsString>) -> Result<Start, String> {
        let mut options = Self::default();
        let mut counts = true;
        let mut rest = arguments.into_iter();
        while let Some(argument) = rest.next() {
            let name = argument.to_str().unwrap_or_default();
            if name == "--" {
                break;
            }
            let Some((name, value_name, _)) = FLAGS.iter().find(|(known, _, _)| *known == name) else {
                return Err(format!("unknown argument {}; --help lists the flags", argument.display()));
            };
            let value = if value_name.is_empty() {
                OsString::new()
            } else {
                rest.next().ok_or_else(|| format!("{name} needs {value_name}"))?
            };
            match *name {
                "--help" => return Ok(Start::Help),
                "--lives" => options.life = count_life(&value)?,
                "--in-life" => counts = contains(text(name, &value)?, options.life)?,
                name if counts => options.set(name, &value)?,
                _ => {}
            }
        }
        Ok(Start::Serve(Box::new(options)))
    }

    fn set(&mut self, name: &str, value: &OsStr) -> Result<(), String> {
        let path = || Some(PathBuf::from(value));
        match name {
            "--ignore-sigterm" => self.ignore_sigterm = true,
            "--graceful" => self.graceful = true,
            "--spawn-grandchild" => self.spawn_grandchild = Some(number(name, value)?),
            "--stderr-at-start" => self.stderr_at_start = Some(text(name, value)?.to_owned()),
            "--stderr-bytes-at-start" => self.stderr_bytes_at_start = number(name, value)?,
            "--exit-at-start" => self.exit_at_start = Some(number(name, value)?),
            "--exit-unread" => self.exit_unread = Some(number(name, value)?),
            "--raw-lines" => self.raw_lines = path(),
            "--crash-after-start-ms" => self.crash_after_start_ms = Some(number(name, value)?),
            "--chatter" => self.chatter_ms = Some(number(name, value)?),
            "--delay-start" => self.delay_start_ms = number(name, value)?,
            "--no-read" => self.no_read = true,
            "--lenient" => self.lenient = true,
            "--ledger" => self.ledger = path(),
            "--record" => self.record = path(),
            "--exit-after" => self.exit_after = Some(number(name, value)?),
            "--answers" => self.answers = Some(number(name, value)?),
            "--exit-after-read" => self.exit_after_read = Some(number(name, value)?),
            "--crash-on" => self.crash_on.push(text(name, value)?.to_owned()),
            "--mute" => self.mute.push(text(name, value)?.to_owned()),
            "--delay-answers" => self.delay_answers_ms = Some(number(name, value)?),
            "--stderr-per-answer" => self.stderr_per_answer = number(name, value)?,
            "--stderr-per-unknown" => self.stderr_per_unknown = number(name, value)?,
            "--notes-midline" => self.notes_midline = number(name, value)?,
            "--string-ids" => self.string_ids = true,
            "--crlf" => self.crlf = true,
            "--exit-code" => self.death = Death::Exit(number(name, value)?),
            "--exit-signal" => self.death = Death::Signal(number(name, value)?),
            "--ignore-eof" => self.ignore_eof = true,
            "--leave-group" => self.leave_group = true,
            "--finish" => self.finish = true,
            "--end-streams" => self.end_streams = end_streams(text(name, value)?)?,
            "--slow-exit" => self.slow_exit_ms = number(name, value)?,
            "--exit-file" => self.exit_file = path(),
            "--name" => self.name = text(name, value)?.to_owned(),
            "--server-version" => self.server_version = text(name, value)?.to_owned(),
            "--supported" => self.supported = list(text(name, value)?),
            "--capabilities" => {
                let parsed = serde_json::from_str(text(name, value)?);
                self.capabilities = Some(parsed.map_err(|error| format!("{name}: {error}"))?);
            }
            "--on-discover" => self.on_discover = on(name, text(name, value)?)?,
            "--exit-text" => self.exit_text = Some(text(name, value)?.to_owned()),
            "--no-supported" => self.no_supported = true,
            "--listen-error" => self.listen_error = Some(number(name, value)?),
            "--listen-accept" => self.listen_accept = Some(list(text(name, value)?)),
            "--no-ack" => self.no_ack = true,
            "--announce" => self.announce = changes(text(name, value)?)?,
            "--legacy" => self.legacy = Some(text(name, value)?.to_owned()),
            "--dual" => self.dual = true,
            "--lock" => self.lock = Some(lock(text(name, value)?)?),
            "--before-initialize" => self.before_initialize = on(name, text(name, value)?)?,
            "--on-initialize" => self.on_initialize = on(name, text(name, value)?)?,
            "--answer-version" => self.answer_version = Some(text(name, value)?.to_owned()),
            "--early" => self.early = changes(text(name, value)?)?,
            "--ask-early" => self.ask_early.push(text(name, value)?.to_owned()),
            "--on-initialized" => self.on_initialized = changes(text(name, value)?)?,
            "--ask" => self.ask.push(text(name, value)?.to_owned()),
            "--subscribe-error" => self.subscribe_error = Some(number(name, value)?),
            "--strict" => self.strict = true,
            _ => return Err(format!("{name} must come first")),
        }
        Ok(())
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            life: 1,
            ignore_sigterm: false,
            graceful: false,
            spawn_grandchild: None,
            stderr_at_start: None,
            stderr_bytes_at_start: 0,
            exit_at_start: None,
            exit_unread: None,
            raw_lines: None,
            crash_after_start_ms: None,
            chatter_ms: None,
            delay_start_ms: 0,
            no_read: false,
            lenient: false,
            ledger: None,
            record: None,
            exit_after: None,
            answers: None,
            exit_after_read: None,
            crash_on: Vec::new(),
            mute: Vec::new(),
            delay_answers_ms: None,
            stderr_per_answer: 0,
            stderr_per_unknown: 0,
            notes_midline: 0,
            string_ids: false,
            crlf: false,
            death: Death::Exit(1),
            ignore_eof: false,
            leave_group: false,
            finish: false,
            end_streams: EndStreams::Nothing,
            slow_exit_ms: 0,
            exit_file: None,
            name: "mcp-supervised-demo-server".to_owned(),
            server_version: env!("CARGO_PKG_VERSION").to_owned(),
            supported: vec!["2026-07-28".to_owned()],
            capabilities: None,
            on_discover: On::Answer,
            exit_text: None,
            no_supported: false,
            listen_error: None,
            listen_accept: None,
            no_ack: false,
            announce: Vec::new(),
            legacy: None,
            dual: false,
            lock: None,
            before_initialize: On::Answer,
            on_initialize: On::Answer,
            answer_version: None,
            early: Vec::new(),
            ask_early: Vec::new(),
            on_initialized: Vec::new(),
            ask: Vec::new(),
            subscribe_error: None,
            strict: false,
        }
    }
}

/// The table of flags as text.
pub fn help() -> String {
    let mut text = String::from("A small MCP server that answers well, and misbehaves on request.\n\nFlags:\n");
    for (name, value, about) in FLAGS {
        text += &format!("  {:<32} {about}\n", format!("{name} {value}"));
    }
    text
}

/// Adds this process to the file of lives; the number of this life, from 1.
fn count_life(path: &OsStr) -> Result<u64, String> {
    let failed = |error: std::io::Error| format!("--lives {}: {error}", path.display());
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path).map_err(failed)?;
    file.write_all(format!("{}\n", std::process::id()).as_bytes()).map_err(failed)?;
    let lines = fs::read(path).map_err(failed)?.iter().filter(|&&byte| byte == b'\n').count();
    Ok(lines as u64)
}

/// Whether `range` (`2`, `2-`, `2-4`) contains `life`.
fn contains(range: &str, life: u64) -> Result<bool, String> {
    let wrong = |_| format!("--in-life {range}: not N, N- or N-M");
    let (from, to) = match range.split_once('-') {
        None => {
            let only = range.parse().map_err(wrong)?;
            (only, only)
        }
        Some((from, "")) => (from.parse().map_err(wrong)?, u64::MAX),
        Some((from, to)) => (from.parse().map_err(wrong)?, to.parse().map_err(wrong)?),
    };
    Ok((from..=to).contains(&life))
}

fn text<'a>(name: &str, value: &'a OsStr) -> Result<&'a str, String> {
    value.to_str().ok_or_else(|| format!("{name}: not UTF-8"))
}

fn number<T: FromStr>(name: &str, value: &OsStr) -> Result<T, String> {
    text(name, value)?.parse().map_err(|_| format!("{name} {}: not a fitting number", value.display()))
}

fn list(value: &str) -> Vec<String> {
    value.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn on(name: &str, value: &str) -> Result<On, String> {
    match value.split_once(':').unwrap_or((value, "")) {
        ("answer", "") => Ok(On::Answer),
        ("ignore", "") => Ok(On::Ignore),
        ("error", code) => Ok(On::Error(number(name, code.as_ref())?)),
        ("exit", code) => Ok(On::Exit(number(name, code.as_ref())?)),
        ("late", ms) => Ok(On::Late(number(name, ms.as_ref())?)),
        ("result", json) => Ok(On::Result(serde_json::from_str(json).map_err(|error| format!("{name}: {error}"))?)),
        _ => Err(format!("{name} {value}: not answer, ignore, error:CODE, exit:CODE, late:MS or result:JSON")),
    }
}

fn lock(value: &str) -> Result<Lock, String> {
    match value {
        "discover" => Ok(Lock::Discover),
        "request" => Ok(Lock::Request),
        _ => Err(format!("{value}: not discover or request")),
    }
}

fn changes(value: &str) -> Result<Vec<Change>, String> {
    list(value).iter().map(|name| change(name)).collect()
}

fn change(value: &str) -> Result<Change, String> {
    match value {
        "tools" => Ok(Change::Tools),
        "prompts" => Ok(Change::Prompts),
        "resources" => Ok(Change::Resources),
        "counter" => Ok(Change::Counter),
        _ => Err(format!("{value}: not tools, prompts, resources or counter")),
    }
}

/// Also the argument of the tool `end_streams`.
pub fn end_streams(value: &str) -> Result<EndStreams, String> {
    match value {
        "nothing" => Ok(EndStreams::Nothing),
        "result" => Ok(EndStreams::Result),
        "cancelled" => Ok(EndStreams::Cancelled),
        "both" => Ok(EndStreams::Both),
        "error" => Ok(EndStreams::Error),
        _ => Err(format!("{value}: not nothing, result, cancelled, both or error")),
    }
}
