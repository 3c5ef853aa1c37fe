//! The published schema of one revision, and what one line is by it.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::PathBuf;

use jsonschema::Validator;
use serde_json::{Value, json};

/// Where the schemas lie, unless the variable says otherwise: beside the repository.
const BESIDE: &str = "../../../shared/schema";
const VARIABLE: &str = "MCP_SUPERVISED_SCHEMAS";

/// How much of a line is judged, see `tests/support/recorded.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// All of it.
    Whole,
    /// The envelope and `params._meta`.
    Stamped,
    /// The envelope.
    Envelope,
}

impl Judged {
    pub const ALL: [Self; 3] = [Self::Whole, Self::Stamped, Self::Envelope];

    pub fn folder(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Stamped => "stamped",
            Self::Envelope => "envelope",
        }
    }
}

/// What a good line is.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// The library's, of that method.
    Built(String),
    /// The host's own, by `send`: its id is a string that the library does not make.
    PassedThrough,
}

/// The schema of one revision.
pub struct Schema {
    revision: String,
    /// Of each method of a client, requests and notifications.
    methods: BTreeMap<String, Validator>,
    /// What any request, notification and response is.
    request: Validator,
    notification: Validator,
    response: Option<Validator>,
    /// What a response with an error is, where the schema does not count it among the responses.
    refusal: Option<Validator>,
    /// What the params of any request are; the older revisions ask for nothing.
    params: Option<Validator>,
}

impl Schema {
    /// `None` where nobody has put the schemas.
    pub fn of(revision: &str) -> Result<Option<Self>, String> {
        let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(BESIDE);
        let dir = env::var_os(VARIABLE).map_or(beside, PathBuf::from);
        let Ok(text) = fs::read_to_string(dir.join(format!("{revision}.json"))) else {
            let missing = format!("no schema of {revision} in {}; {VARIABLE} names another folder", dir.display());
            if env::var_os("CI").is_some_and(|value| value == "true") {
                return Err(missing);
            }
            println!("skipped: {missing}");
            return Ok(None);
        };
        let document = serde_json::from_str(&text).map_err(|error| format!("{revision}: {error}"))?;
        Self::new(revision, &document).map(Some)
    }

    fn new(revision: &str, document: &Value) -> Result<Self, String> {
        let key = if document["$defs"].is_object() { "$defs" } else { "definitions" };
        let definitions = &document[key];
        let compile = |name: &str| {
            let schema = json!({"$schema": document["$schema"], "$ref": format!("#/{key}/{name}"), key: definitions});
            jsonschema::validator_for(&schema).map_err(|error| format!("{revision}, {name}: {error}"))
        };
        let mut methods = BTreeMap::new();
        for union in ["ClientRequest", "ClientNotification"] {
            let members = definitions[union]["anyOf"].as_array().cloned().unwrap_or_default();
            let members = members.iter().filter_map(|member| member["$ref"].as_str()?.rsplit('/').next());
            // A union of one is that one.
            for name in members.chain(definitions[union]["properties"].is_object().then_some(union)) {
                let method = definitions[name]["properties"]["method"]["const"].as_str();
                let method = method.ok_or_else(|| format!("{revision}: {name} has no method"))?;
                methods.insert(method.to_owned(), compile(name)?);
            }
        }
        let is_known = |name: &str| definitions[name].is_object();
        Ok(Self {
            revision: revision.to_owned(),
            methods,
            request: compile("JSONRPCRequest")?,
            notification: compile("JSONRPCNotification")?,
            // From 2026-07-28 on a client answers nothing.
            response: if methods_have_handshake(definitions) { Some(compile("JSONRPCResponse")?) } else { None },
            refusal: if is_known("JSONRPCError") { Some(compile("JSONRPCError")?) } else { None },
            params: if is_known("RequestParams") { Some(compile("RequestParams")?) } else { None },
        })
    }

    /// What one line is; an error says where it is wrong.
    pub fn judge(&self, line: &[u8], judged: Judged) -> Result<Line, String> {
        let line: Value = serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"))?;
        let Some(method) = line["method"].as_str() else {
            let response = self.response.as_ref().ok_or(format!("no client of {} writes this", self.revision))?;
            let refusal = self.refusal.as_ref().filter(|_| line.get("error").is_some());
            check(refusal.unwrap_or(response), &line)?;
            return Ok(Line::Built("(response)".to_owned()));
        };
        let is_request = line.get("id").is_some();
        if line["id"].as_str().is_some_and(|id| !id.starts_with("mcp-supervised-")) {
            return Ok(Line::PassedThrough);
        }
        check(if is_request { &self.request } else { &self.notification }, &line)?;
        match self.methods.get(method) {
            Some(whole) if judged == Judged::Whole => check(whole, &line)?,
            // A method of a vendor, or nonsense inside: what the library adds to each request is still there.
            _ => {
                if let Some(params) = self.params.as_ref().filter(|_| is_request && judged != Judged::Envelope) {
                    check(params, &line["params"])?;
                }
            }
        }
        Ok(Line::Built(method.to_owned()))
    }
}

/// Whether the revision has servers that ask the client.
fn methods_have_handshake(definitions: &Value) -> bool {
    definitions["InitializeRequest"].is_object()
}

fn check(validator: &Validator, value: &Value) -> Result<(), String> {
    let all: Vec<String> =
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).take(3).collect();
    if all.is_empty() { Ok(()) } else { Err(all.join("; ").chars().take(1_000).collect()) }
}
