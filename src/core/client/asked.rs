//! What a server of an older revision asks its client, and the answers of the host (Z4).

use super::inbound::{Inbound, Moment, plain, tell};
use super::legacy::Legacy;
use super::{Client, Out, Wire};
use crate::core::error::Refusal;
use crate::core::event::{Answer, To};
use crate::core::log::{Level, escape_into};
use crate::core::stamp::{Params, member, push_flat, quoted};
use crate::scan::{self, Checks};

/// Tokens begin here: no request or stream ever gets such an id, so neither is taken for the other, and a double still holds them.
pub(super) const FIRST_TOKEN: u64 = 1 << 52;
/// The longest id of a request of a server that is kept until it is answered.
const ID_BYTES: usize = 1024;

/// What a host answers a request of the server with.
#[derive(Debug, Clone, Copy)]
pub enum Reply<'a> {
    /// The text of a JSON object.
    Result(&'a [u8]),
    /// An error.
    Error {
        /// Its code.
        code: i64,
        /// Its message.
        message: &'a str,
        /// The JSON text of its data, empty for none.
        data: &'a [u8],
    },
}

impl Legacy {
    /// A request of the server does not wait for the host any more.
    fn settle(&mut self, token: u64) {
        if let Some(id) = self.asked.remove(&token) {
            self.asked_ids.remove(&(plain(&id).into(), token));
        }
    }
}

impl Client {
    /// A request of the server (Z4).
    pub(super) fn asked_by_server(&mut self, moment: &mut Moment<'_, '_>, out: &mut Out<'_>, message: Inbound<'_>) {
        let line = message.frame.bytes();
        let (Some(method), Some(id)) = (message.parts.method, message.parts.id) else { return };
        let (quoted_method, id) = ([b"\"", method.of(line), b"\""].concat(), id.of(line));
        let method: String = serde_json::from_slice(&quoted_method).unwrap_or_default();
        let answer = |code: i64, text: &str| {
            let error = format!(",\"error\":{{\"code\":{code},\"message\":{}}}}}\n", quoted(text));
            [b"{\"jsonrpc\":\"2.0\",\"id\":", id, error.as_bytes()].concat()
        };
        let reply = if method == "ping" {
            Some([b"{\"jsonrpc\":\"2.0\",\"id\":", id, b",\"result\":{}}\n"].concat())
        } else if id.len() > ID_BYTES {
            Some(answer(-32600, "the id is too long"))
        } else if !self.may_ask(&method) {
            Some(answer(-32601, "the client does not declare the capability for this"))
        } else if moment.shed {
            Some(answer(-32000, "the client does not keep up"))
        } else if self.legacy.as_deref().is_some_and(|legacy| legacy.asked.len() >= self.policy.max_in_flight) {
            Some(answer(-32000, "the client has too many requests of the server to answer"))
        } else {
            None
        };
        if let Some(reply) = reply {
            let told = moment.wire.as_deref_mut().is_some_and(|wire| wire.reply(reply));
            if !told || method != "ping" {
                self.note_refusal(out, &method, told);
            }
            return;
        }
        let token = self.next_token;
        self.next_token += 1;
        if let Some(legacy) = &mut self.legacy {
            legacy.asked.insert(token, id.into());
            legacy.asked_ids.insert((plain(id).into(), token));
        }
        tell(out, message, To { request: token, ..To::default() });
    }

    /// Whether a server may ask that of this client: what its capabilities declare. Methods the protocol does not have come with
    /// an extension of it.
    fn may_ask(&self, method: &str) -> bool {
        let declares = |names: &[&str]| {
            names.iter().any(|name| {
                member(self.policy.capabilities.as_bytes(), name).is_some_and(|value| value.get() != "null")
            })
        };
        match method {
            "roots/list" => declares(&["roots"]),
            "sampling/createMessage" => declares(&["sampling"]),
            "elicitation/create" => declares(&["elicitation"]),
            _ if method.starts_with("tasks/") => declares(&["tasks"]),
            _ => declares(&["experimental", "extensions"]),
        }
    }

    fn note_refusal(&mut self, out: &mut Out<'_>, method: &str, told: bool) {
        let Some(legacy) = self.legacy.as_deref_mut() else { return };
        legacy.refusals += 1;
        if legacy.refusals == 1 || legacy.refusals.is_multiple_of(100) {
            let mut text = "a request of the server was ".to_owned();
            text += if told { "refused by the library: " } else { "not answered, since it cannot be told: " };
            escape_into(&mut text, method.as_bytes(), 64);
            out.log(Level::Warning, format!("{text} ({} so far)", legacy.refusals));
        }
    }

    /// The token of a request that the server takes back: it cannot be answered any more.
    pub(super) fn taken_back(&mut self, params: &[u8]) -> Option<u64> {
        let id = member(params, "requestId")?.get().as_bytes();
        let legacy = self.legacy.as_deref_mut()?;
        // Spelled with escapes it may be longer than it was.
        if id.len() > 6 * ID_BYTES {
            return None;
        }
        let id: Box<[u8]> = plain(id).into();
        let (found, token) = legacy.asked_ids.range((id.clone(), 0)..).next()?;
        let token = (*found == id).then_some(*token)?;
        legacy.settle(token);
        Some(token)
    }

    /// Whether a token can be answered.
    fn check_token(&self, token: u64) -> Answer {
        let first = self.legacy.as_deref().map_or(self.next_token, |legacy| legacy.first_token);
        if (FIRST_TOKEN..first).contains(&token) {
            return Err(Refusal::Closed("the connection that asked this is gone"));
        }
        match self.legacy.as_deref() {
            None => Err(Refusal::Unsupported("a server of this revision never asks its client")),
            Some(legacy) if legacy.asked.contains_key(&token) => Ok(()),
            Some(_) => Err(Refusal::NoRequest),
        }
    }

    /// Answers a request of the server.
    pub fn respond(&mut self, wire: &mut Wire<'_>, token: u64, reply: Reply<'_>) -> Answer {
        self.check_token(token)?;
        let Some(legacy) = self.legacy.as_deref_mut() else { return Err(Refusal::NoRequest) };
        let Some(id) = legacy.asked.get(&token) else { return Err(Refusal::NoRequest) };
        let mut line = [b"{\"jsonrpc\":\"2.0\",\"id\":", &**id].concat();
        match reply {
            Reply::Result(result) => {
                Params::check(result).map_err(|text| Refusal::Invalid(text.replacen("params", "the result", 1)))?;
                line.extend_from_slice(b",\"result\":");
                let result = result.trim_ascii();
                push_flat(&mut line, if result.is_empty() { b"{}" } else { result });
            }
            Reply::Error { code, message, data } => {
                line.extend_from_slice(
                    format!(",\"error\":{{\"code\":{code},\"message\":{}", quoted(message)).as_bytes(),
                );
                let data = data.trim_ascii();
                if !data.is_empty() {
                    scan::scan(data, Checks::Grammar)
                        .map_err(|defect| Refusal::Invalid(format!("data is not JSON: {defect}")))?;
                    line.extend_from_slice(b",\"data\":");
                    push_flat(&mut line, data);
                }
                line.push(b'}');
            }
        }
        line.extend_from_slice(b"}\n");
        let build = |into: &mut Vec<u8>| {
            into.extend_from_slice(&line);
            Ok(())
        };
        wire.push_within("the answer is", line.len(), build, |_| Ok(()))?;
        legacy.settle(token);
        Ok(())
    }
}
