//! The servers of the client's random histories: what they read, how they answer, well or badly, and how they leave.

use serde_json::{Value, json};

use super::ClientWorld;
use crate::core::client::Reply;
use crate::core::peer::StateName;
use crate::core::tests::caller::SUBSCRIPTION;

impl ClientWorld {
    // ---- the server ----

    /// It reads from its stdin; what it has asked and read of it is its own.
    pub fn reads(&mut self, bytes: usize) {
        let Some(process) = self.process.as_mut().filter(|process| process.readers) else { return };
        let count = bytes.min(process.pipe.len());
        process.read += count as u64;
        while process.begun.front().is_some_and(|(at, _)| *at < process.read) {
            if let Some((_, Some(id))) = process.begun.pop_front() {
                self.ledger.touches(id);
            }
        }
        for byte in process.pipe.drain(..count) {
            if byte == b'\n' {
                let line = std::mem::take(&mut process.part);
                self.recorder.line(&line);
                let line: Value = serde_json::from_slice(&line).unwrap();
                if !line["id"].is_null() && !line["method"].is_null() && !process.gone {
                    process.asked.push(line);
                }
            } else {
                process.part.push(byte);
            }
        }
    }

    fn writes(&mut self, text: &str) {
        let Some(process) = self.process.as_mut().filter(|process| process.writers) else { return };
        process.out.extend(text.as_bytes());
        process.out.push_back(b'\n');
    }

    pub fn writes_note(&mut self) {
        let Some(process) = self.process.as_mut().filter(|process| process.writers) else { return };
        let note = format!(r#"{{"jsonrpc":"2.0","method":"life{}line{}"}}"#, process.life, process.lines);
        process.lines += 1;
        self.writes(&note);
    }

    /// It answers something it has read, in one of many ways; one that has read nothing guesses.
    pub fn answers(&mut self, pick: usize, how: usize) {
        let Some(process) = self.process.as_mut() else { return };
        let count = process.asked.len();
        let at = if count == 0 { 0 } else { pick % count };
        let (id, token) = match process.asked.get(at) {
            Some(line) => (line["id"].clone(), line["params"]["_meta"]["progressToken"].clone()),
            None => (json!(self.ledger.pick(pick)), json!("progress-1")),
        };
        if let Some(method) = process.asked.get(at).map(|line| line["method"].clone())
            && id.is_string()
            && how < 9
        {
            process.asked.swap_remove(at);
            return self.answers_own(&id, method.as_str().unwrap(), pick, how);
        }
        let number = id.as_u64().unwrap_or(0);
        let spelled = if id.is_string() { id.clone() } else { json!(id.to_string()) };
        if how < 9 && at < count {
            process.asked.swap_remove(at);
        }
        let result = |id: &Value, result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        let error = |code: i64, supported: Value| {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no", "data": {"supported": supported}}})
                .to_string()
        };
        let note =
            |method: &str, params: Value| json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string();
        let text = match how {
            0 | 1 => result(&id, json!({"capabilities": {"tools": {}, "prompts": {}}})),
            2 => result(&spelled, json!({})),
            3 => error(-32603, json!(null)),
            4 if count == 0 => error(-32601, json!(null)),
            4 => {
                self.ledger.refuses(number);
                error(-32022, json!(["2026-07-28"]))
            }
            5 => error(-32022, json!(["1999-01-01"])),
            6 => result(&id, json!({"resultType": if pick.is_multiple_of(2) { "input_required" } else { "task" }})),
            7 => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":}}"#),
            8 => error(-32000, json!(null)),
            9 | 10 => note("notifications/subscriptions/acknowledged", json!({"_meta": {SUBSCRIPTION: id}})),
            11 => note("notifications/tools/list_changed", json!({"_meta": {SUBSCRIPTION: spelled}})),
            12 => note("notifications/progress", json!({"progressToken": token, "progress": 1})),
            13 => note("notifications/cancelled", json!({"requestId": id})),
            14 => r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"?"}}"#.to_owned(),
            15 => r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#.to_owned(),
            16 => "nonsense".to_owned(),
            17 => result(&json!("mine"), json!({})),
            18 => json!({"jsonrpc": "2.0", "id": pick, "method": "roots/list"}).to_string(),
            19 => json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}).to_string(),
            20 => note("notifications/tools/list_changed", json!({})),
            21 => note("notifications/resources/updated", json!({"uri": "mem://a"})),
            22 => note("notifications/cancelled", json!({"requestId": pick})),
            23 => format!(
                "[{},{}, 7 ,[1]]",
                note("notifications/prompts/list_changed", json!({})),
                result(&id, json!({}))
            ),
            24 => "[]".to_owned(),
            _ => "x".repeat(5_000),
        };
        self.writes(&text);
    }

    /// It answers a request of the library's own.
    fn answers_own(&mut self, id: &Value, method: &str, pick: usize, how: usize) {
        let result = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        let error = |code: i64, supported: Value| {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no", "data": {"supported": supported}}})
                .to_string()
        };
        let capabilities = json!({"tools": {"listChanged": true}, "prompts": {}, "resources": {"subscribe": true}});
        let version = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"][pick % 4];
        let text = match (how, method) {
            (0 | 1, "initialize") => {
                result(json!({"protocolVersion": version, "capabilities": capabilities, "serverInfo": {"name": "w"}}))
            }
            (2, "initialize") => error(-32602, json!([version])),
            (4, "initialize") => error(-32022, json!(["2026-07-28"])),
            (5, "initialize") => result(json!({"protocolVersion": "1999-01-01", "capabilities": capabilities})),
            (0 | 2, "server/discover") => {
                result(json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities}))
            }
            (1, "server/discover") => error(-32601, json!(null)),
            (4, "server/discover") => error(-32022, json!(["2026-07-28"])),
            (5, "server/discover") => error(-32022, json!(["2027-01-01"])),
            (7, _) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":}}"#),
            (3 | 6 | 8, _) => error(-32600 - (how as i64), json!(null)),
            _ => result(json!({})),
        };
        self.writes(&text);
    }

    /// The server reads and answers well until its connection serves.
    pub fn shakes_hands(&mut self, pick: usize) {
        for _ in 0..3 {
            self.serve(usize::MAX);
            if self.state() != StateName::Starting {
                return;
            }
            self.reads(usize::MAX);
            // Half of them are of the older revisions.
            self.answers(pick / 2, pick % 2);
            self.serve(usize::MAX);
        }
    }

    /// The server reads everything and leaves without a word.
    pub fn leaves(&mut self) {
        self.serve(usize::MAX);
        self.reads(usize::MAX);
        self.exits(true);
        self.serve(usize::MAX);
    }

    pub fn responds(&mut self, pick: usize) {
        let token = self.ledger.pick_token(pick);
        let (now, id) = (self.now, self.id);
        let reply = match pick % 3 {
            0 => Reply::Result(b"{\"roots\":[]}"),
            1 => Reply::Error { code: -1, message: "no", data: b"" },
            _ => Reply::Result(b"nonsense"),
        };
        let answer = self.sup.respond(now, id, token, reply);
        assert!(answer.is_err() || (self.is_legacy() && pick % 3 < 2));
        self.refused(&answer);
        self.act();
    }

    pub fn lets_go(&mut self, end: u8) {
        if let Some(process) = self.process.as_mut() {
            match end {
                0 => process.writers = false,
                _ => process.readers = false,
            }
        }
    }

    pub fn exits(&mut self, with_pipes: bool) {
        if let Some(process) = self.process.as_mut() {
            process.gone = true;
            if with_pipes {
                process.writers = false;
                process.readers = false;
            }
        }
    }

    pub fn serves(&mut self) {
        if !self.policy.serves_at_once {
            self.call(|sup, now| sup.serves(now, 0));
            self.act();
        }
    }
}
