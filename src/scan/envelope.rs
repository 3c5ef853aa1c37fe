//! The walk that finds the envelope: the objects that hold parts of it are entered, one function each, and every other
//! value is skipped.
//!
//! The objects entered never nest deeper than three, and the functions call each other only that way, so there is no
//! recursion. What a part means is not looked at, except for the numbers that are compared all the time.

use super::line::Line;
use super::simd::Kernel;
use super::text::{parse_integer, scalar, skip_white, string, unescape_eq};
use super::{Defect, DefectKind, Envelope, Id, Span, Top, grammar, structure};

const IN_TOP: &[&str] = &["jsonrpc", "id", "method", "params", "result", "error"];
const IN_PARAMS: &[&str] = &["progressToken", "_meta", "inputResponses", "requestState"];
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
const IN_META: &[&str] = &["progressToken", SUBSCRIPTION_ID];
const IN_RESULT: &[&str] = &["resultType"];
const IN_ERROR: &[&str] = &["code"];

/// Walks the whole line. `GRAMMAR`: skipped values are checked in full, otherwise by their structure.
pub(super) fn walk<K: Kernel, const GRAMMAR: bool>(line: &Line<'_>, envelope: &mut Envelope) -> Result<(), Defect> {
    let (start, first) = skip_white(line, 0);
    let end = match first {
        b'{' => {
            envelope.top = Top::Object;
            top::<K, GRAMMAR>(line, start, envelope)?
        }
        _ => {
            envelope.top = if first == b'[' { Top::Array } else { Top::Other };
            skip::<K, GRAMMAR>(line, start, first)?
        }
    };
    let (end, byte) = skip_white(line, end);
    if end == line.len() {
        return Ok(());
    }
    Err(Defect::new(if byte == 0 { DefectKind::Nul } else { DefectKind::TrailingData }, end))
}

/// Walks a text that is the value of `params` itself, with the whole grammar.
pub(super) fn walk_params<K: Kernel>(text: &Line<'_>, envelope: &mut Envelope) -> Result<(), Defect> {
    let (start, first) = skip_white(text, 0);
    if first != b'{' {
        return Err(Defect::unexpected(text, start));
    }
    envelope.params_is_object = true;
    let end = params::<K, true>(text, start, envelope)?;
    envelope.params = Some(Span::new(start, end));
    let (end, byte) = skip_white(text, end);
    if end == text.len() {
        return Ok(());
    }
    Err(Defect::new(if byte == 0 { DefectKind::Nul } else { DefectKind::TrailingData }, end))
}

/// How nearly every message begins.
const OPENING: &[u8; 17] = b"{\"jsonrpc\":\"2.0\",";

fn top<K: Kernel, const GRAMMAR: bool>(line: &Line<'_>, open: usize, envelope: &mut Envelope) -> Result<usize, Defect> {
    let begun = line.get(open..).and_then(|rest| rest.first_chunk()) == Some(OPENING);
    envelope.has_jsonrpc = begun;
    envelope.jsonrpc_2 = begun;
    let from = if begun { From::Pair(open + OPENING.len()) } else { From::Bracket(open) };
    object::<K>(line, from, IN_TOP, |key, start, first| match key {
        b"jsonrpc" => {
            let end = skip::<K, GRAMMAR>(line, start, first)?;
            envelope.duplicate_key |= envelope.has_jsonrpc;
            envelope.has_jsonrpc = true;
            envelope.jsonrpc_2 = first == b'"' && is_2(&line[start + 1..end - 1]);
            Ok(end)
        }
        b"id" => {
            let end = skip::<K, GRAMMAR>(line, start, first)?;
            envelope.duplicate_key |= envelope.id_span.is_some();
            envelope.id_span = Some(Span::new(start, end));
            envelope.id = match first {
                b'"' => Id::String,
                b'n' => Id::Null,
                _ => parse_integer(&line[start..end]).map_or(Id::Other, Id::Integer),
            };
            Ok(end)
        }
        b"method" => {
            let end = skip::<K, GRAMMAR>(line, start, first)?;
            let quote = usize::from(first == b'"');
            envelope.duplicate_key |= envelope.method.is_some();
            envelope.method = Some(Span::new(start + quote, end - quote));
            envelope.method_is_string = first == b'"';
            Ok(end)
        }
        b"params" => {
            envelope.duplicate_key |= envelope.params.is_some();
            envelope.params_is_object = first == b'{';
            envelope.progress_token = None;
            forget_meta(envelope);
            envelope.meta_count = 0;
            envelope.input_responses = None;
            envelope.request_state = None;
            let end = match first {
                b'{' => params::<K, GRAMMAR>(line, start, envelope)?,
                _ => skip::<K, GRAMMAR>(line, start, first)?,
            };
            envelope.params = Some(Span::new(start, end));
            Ok(end)
        }
        b"result" => {
            envelope.duplicate_key |= envelope.result.is_some();
            envelope.result_is_object = first == b'{';
            envelope.result_type = None;
            let end = match first {
                b'{' => result::<K, GRAMMAR>(line, start, envelope)?,
                _ => skip::<K, GRAMMAR>(line, start, first)?,
            };
            envelope.result = Some(Span::new(start, end));
            Ok(end)
        }
        b"error" => {
            envelope.duplicate_key |= envelope.error.is_some();
            envelope.error_is_object = first == b'{';
            envelope.error_code = None;
            let end = match first {
                b'{' => error::<K, GRAMMAR>(line, start, envelope)?,
                _ => skip::<K, GRAMMAR>(line, start, first)?,
            };
            envelope.error = Some(Span::new(start, end));
            Ok(end)
        }
        _ => skip::<K, GRAMMAR>(line, start, first),
    })
}

fn params<K: Kernel, const GRAMMAR: bool>(
    line: &Line<'_>,
    open: usize,
    envelope: &mut Envelope,
) -> Result<usize, Defect> {
    object::<K>(line, From::Bracket(open), IN_PARAMS, |key, start, first| {
        if key == b"_meta" {
            forget_meta(envelope);
            envelope.meta_count = envelope.meta_count.saturating_add(1);
            let end = match first {
                b'{' => meta::<K, GRAMMAR>(line, start, envelope)?,
                _ => skip::<K, GRAMMAR>(line, start, first)?,
            };
            envelope.meta = Some(Span::new(start, end));
            return Ok(end);
        }
        let end = skip::<K, GRAMMAR>(line, start, first)?;
        match key {
            b"progressToken" => envelope.progress_token = Some(Span::new(start, end)),
            b"inputResponses" => envelope.input_responses = Some(Span::new(start, end)),
            b"requestState" => envelope.request_state = Some(Span::new(start, end)),
            _ => {}
        }
        Ok(end)
    })
}

fn meta<K: Kernel, const GRAMMAR: bool>(
    line: &Line<'_>,
    open: usize,
    envelope: &mut Envelope,
) -> Result<usize, Defect> {
    object::<K>(line, From::Bracket(open), IN_META, |key, start, first| {
        let end = skip::<K, GRAMMAR>(line, start, first)?;
        if key == b"progressToken" {
            envelope.meta_progress_token = Some(Span::new(start, end));
        } else if key == SUBSCRIPTION_ID.as_bytes() {
            envelope.subscription_id = Some(Span::new(start, end));
        }
        Ok(end)
    })
}

fn result<K: Kernel, const GRAMMAR: bool>(
    line: &Line<'_>,
    open: usize,
    envelope: &mut Envelope,
) -> Result<usize, Defect> {
    object::<K>(line, From::Bracket(open), IN_RESULT, |key, start, first| {
        let end = skip::<K, GRAMMAR>(line, start, first)?;
        if key == b"resultType" {
            envelope.result_type = Some(Span::new(start, end));
        }
        Ok(end)
    })
}

fn error<K: Kernel, const GRAMMAR: bool>(
    line: &Line<'_>,
    open: usize,
    envelope: &mut Envelope,
) -> Result<usize, Defect> {
    object::<K>(line, From::Bracket(open), IN_ERROR, |key, start, first| {
        let end = skip::<K, GRAMMAR>(line, start, first)?;
        if key == b"code" {
            envelope.error_code = parse_integer(&line[start..end]);
        }
        Ok(end)
    })
}

/// Where the walk over an object begins.
#[derive(Clone, Copy)]
enum From {
    /// At its bracket.
    Bracket(usize),
    /// Behind a comma in it.
    Pair(usize),
}

/// The pairs of an object. `pair` gets a key, unescaped if it is one of `names` (and
/// of no meaning if it is not), the offset of the value and its first byte, and gives the offset behind the value.
#[inline(always)]
fn object<K: Kernel>(
    line: &Line<'_>,
    from: From,
    names: &[&'static str],
    mut pair: impl FnMut(&[u8], usize, u8) -> Result<usize, Defect>,
) -> Result<usize, Defect> {
    let (start, may_be_empty) = match from {
        From::Bracket(open) => (open + 1, true),
        From::Pair(start) => (start, false),
    };
    let (mut at, mut byte) = skip_white(line, start);
    if byte == b'}' && may_be_empty {
        return Ok(at + 1);
    }
    loop {
        if byte != b'"' {
            return Err(Defect::unexpected(line, at));
        }
        let (end, escaped) = string::<K>(line, at + 1)?;
        let key = &line[at + 1..end];
        let (colon, byte_there) = skip_white(line, end + 1);
        if byte_there != b':' {
            return Err(Defect::unexpected(line, colon));
        }
        let (value, first) = skip_white(line, colon + 1);
        let end = pair(if escaped { unescaped(key, names) } else { key }, value, first)?;
        (at, byte) = skip_white(line, end);
        match byte {
            b',' => (at, byte) = skip_white(line, at + 1),
            b'}' => return Ok(at + 1),
            _ => return Err(Defect::not_closed(line, at)),
        }
    }
}

/// The one of `names` that `key` spells; a key that is none of them becomes one that nobody asks for.
#[cold]
fn unescaped(key: &[u8], names: &[&'static str]) -> &'static [u8] {
    names.iter().find(|name| unescape_eq(key, name)).map_or(b"", |name| name.as_bytes())
}

/// Skips the value that starts with `first` at `start`.
#[inline(always)]
fn skip<K: Kernel, const GRAMMAR: bool>(line: &Line<'_>, start: usize, first: u8) -> Result<usize, Defect> {
    match first {
        b'{' | b'[' if GRAMMAR => grammar::skip_value::<K>(line, start, first),
        b'{' | b'[' => structure::skip_container::<K>(line, start),
        _ => scalar::<K>(line, start, first),
    }
}

fn forget_meta(envelope: &mut Envelope) {
    envelope.meta = None;
    envelope.meta_progress_token = None;
    envelope.subscription_id = None;
}

/// Whether the inside of the `jsonrpc` string is the version spoken, which nobody escapes but anybody may.
#[inline(always)]
fn is_2(raw: &[u8]) -> bool {
    raw == b"2.0" || unescape_eq(raw, "2.0")
}
