//! The model the scanner is tested against: the definition of both checks, read off byte by byte and with recursion.
//!
//! It builds a tree of spans and looks the envelope up in it. It shares no code with the scanner, is as slow as it
//! likes, and must not be given deep nesting.

use super::{Checks, Envelope, Id, Span, Top};

struct Node {
    span: Span,
    inside: Inside,
}

enum Inside {
    /// Keys in UTF-16, so that lone surrogates have a spelling too.
    Object(Vec<(Vec<u16>, Node)>),
    Array,
    String(Vec<u16>),
    Number,
    Word,
}

/// Which object a value stands in, as far as the structure check enters it.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Document,
    Params,
    Meta,
    Result,
    Error,
    Elsewhere,
}

struct Reader<'a> {
    line: &'a [u8],
    at: usize,
    checks: Checks,
}

/// The envelope, or `None` if the line is not JSON.
pub fn scan(line: &[u8], checks: Checks) -> Option<Envelope> {
    std::str::from_utf8(line).ok()?;
    let mut reader = Reader { line, at: 0, checks };
    reader.white();
    let document = reader.value(Place::Document)?;
    reader.white();
    (reader.at == line.len()).then(|| envelope(line, &document))
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.line.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.line.get(self.at) == Some(&byte);
        self.at += usize::from(there);
        there
    }

    fn white(&mut self) {
        while self.take(b' ') || self.take(b'\t') || self.take(b'\n') || self.take(b'\r') {}
    }

    fn value(&mut self, place: Place) -> Option<Node> {
        let start = self.at;
        let inside = match self.byte()? {
            b'"' => Inside::String(self.string()?),
            b'{' if self.checks == Checks::Grammar || place != Place::Elsewhere => Inside::Object(self.object(place)?),
            b'[' if self.checks == Checks::Grammar => self.array()?,
            b'{' => {
                self.loose(b'}')?;
                Inside::Object(Vec::new())
            }
            b'[' => {
                self.loose(b']')?;
                Inside::Array
            }
            b'-' | b'0'..=b'9' => {
                self.at = start;
                self.number()?;
                Inside::Number
            }
            b't' => self.word(b"rue")?,
            b'f' => self.word(b"alse")?,
            b'n' => self.word(b"ull")?,
            _ => return None,
        };
        Some(Node { span: Span { start: start as u32, end: self.at as u32 }, inside })
    }

    fn object(&mut self, place: Place) -> Option<Vec<(Vec<u16>, Node)>> {
        let mut pairs = Vec::new();
        self.white();
        if self.take(b'}') {
            return Some(pairs);
        }
        loop {
            self.white();
            if !self.take(b'"') {
                return None;
            }
            let key = self.string()?;
            self.white();
            if !self.take(b':') {
                return None;
            }
            self.white();
            let below = match (place, String::from_utf16_lossy(&key).as_str()) {
                (Place::Document, "params") => Place::Params,
                (Place::Document, "result") => Place::Result,
                (Place::Document, "error") => Place::Error,
                (Place::Params, "_meta") => Place::Meta,
                _ => Place::Elsewhere,
            };
            let value = self.value(below)?;
            pairs.push((key, value));
            self.white();
            if self.take(b'}') {
                return Some(pairs);
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    fn array(&mut self) -> Option<Inside> {
        self.white();
        if self.take(b']') {
            return Some(Inside::Array);
        }
        loop {
            self.white();
            self.value(Place::Elsewhere)?;
            self.white();
            if self.take(b']') {
                return Some(Inside::Array);
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    fn loose(&mut self, close: u8) -> Option<()> {
        let mut closes = vec![close];
        while !closes.is_empty() {
            match self.byte()? {
                b'"' => drop(self.string()?),
                b'{' => closes.push(b'}'),
                b'[' => closes.push(b']'),
                byte @ (b'}' | b']') if closes.pop() != Some(byte) => return None,
                b'\\' => return None,
                b'\t' | b'\n' | b'\r' => {}
                0..0x20 => return None,
                _ => {}
            }
        }
        Some(())
    }

    fn string(&mut self) -> Option<Vec<u16>> {
        let mut text = Vec::new();
        let mut plain = Vec::new();
        loop {
            let byte = self.byte()?;
            if byte == b'"' || byte == b'\\' {
                text.extend(String::from_utf8_lossy(&plain).encode_utf16());
                plain.clear();
            }
            match byte {
                b'"' => return Some(text),
                b'\\' => text.push(match self.byte()? {
                    b'n' => 10,
                    b't' => 9,
                    b'r' => 13,
                    b'b' => 8,
                    b'f' => 12,
                    b'u' => {
                        let mut unit = 0;
                        for _ in 0..4 {
                            unit = unit * 16 + char::from(self.byte()?).to_digit(16)? as u16;
                        }
                        unit
                    }
                    byte if b"\"\\/".contains(&byte) => u16::from(byte),
                    _ => return None,
                }),
                0..0x20 => return None,
                _ => plain.push(byte),
            }
        }
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.line.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn number(&mut self) -> Option<()> {
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        Some(())
    }

    fn word(&mut self, rest: &[u8]) -> Option<Inside> {
        rest.iter().all(|&byte| self.take(byte)).then_some(Inside::Word)
    }
}

impl Node {
    /// All values of a key.
    fn all(&self, key: &str) -> Vec<&Node> {
        let key: Vec<u16> = key.encode_utf16().collect();
        match &self.inside {
            Inside::Object(pairs) => pairs.iter().filter(|pair| pair.0 == key).map(|pair| &pair.1).collect(),
            _ => Vec::new(),
        }
    }

    fn last(&self, key: &str) -> Option<&Node> {
        self.all(key).last().copied()
    }

    fn is_object(&self) -> bool {
        matches!(self.inside, Inside::Object(_))
    }

    fn integer(&self, line: &[u8]) -> Option<i64> {
        let text = std::str::from_utf8(self.span.of(line)).ok()?;
        matches!(self.inside, Inside::Number).then(|| text.parse().ok())?
    }
}

fn envelope(line: &[u8], document: &Node) -> Envelope {
    let span = |node: Option<&Node>| node.map(|node| node.span);
    let is_object = |node: Option<&Node>| node.is_some_and(Node::is_object);
    let is_string = |node: &Node| matches!(node.inside, Inside::String(_));
    let (params, result, error) = (document.last("params"), document.last("result"), document.last("error"));
    let meta = params.and_then(|params| params.last("_meta"));
    let in_params = |key| span(params.and_then(|params| params.last(key)));
    let in_meta = |key| span(meta.and_then(|meta| meta.last(key)));
    let id = document.last("id");
    let method = document.last("method");
    let jsonrpc = document.last("jsonrpc");
    let two: Vec<u16> = "2.0".encode_utf16().collect();
    Envelope {
        top: match document.inside {
            Inside::Object(_) => Top::Object,
            Inside::Array => Top::Array,
            _ => Top::Other,
        },
        jsonrpc_2: jsonrpc.is_some_and(|node| matches!(&node.inside, Inside::String(text) if *text == two)),
        has_jsonrpc: jsonrpc.is_some(),
        id: match id {
            None => Id::Absent,
            Some(node) if is_string(node) => Id::String,
            Some(node) if node.span.of(line) == b"null" => Id::Null,
            Some(node) => node.integer(line).map_or(Id::Other, Id::Integer),
        },
        id_span: span(id),
        method: method.map(|node| match node.span {
            Span { start, end } if is_string(node) => Span { start: start + 1, end: end - 1 },
            whole => whole,
        }),
        method_is_string: method.is_some_and(is_string),
        params: span(params),
        params_is_object: is_object(params),
        result: span(result),
        result_is_object: is_object(result),
        error: span(error),
        error_is_object: is_object(error),
        error_code: error.and_then(|error| error.last("code")).and_then(|code| code.integer(line)),
        result_type: span(result.and_then(|result| result.last("resultType"))),
        progress_token: in_params("progressToken"),
        meta_progress_token: in_meta("progressToken"),
        subscription_id: in_meta("io.modelcontextprotocol/subscriptionId"),
        meta: span(meta),
        meta_count: params.map_or(0, |params| params.all("_meta").len() as u32),
        input_responses: in_params("inputResponses"),
        request_state: in_params("requestState"),
        duplicate_key: ["jsonrpc", "id", "method", "params", "result", "error"]
            .iter()
            .any(|key| document.all(key).len() > 1),
    }
}
