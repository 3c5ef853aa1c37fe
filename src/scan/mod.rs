//! The envelope scanner: one walk over a line that says whether it is JSON and where the parts of its JSON-RPC
//! envelope stand.
//!
//! Pure functions over bytes. Nothing is decoded, converted or copied: what is found is told as spans of the line, so a
//! payload reaches the host as the bytes the server wrote. Nothing here judges whether the envelope makes sense as a
//! message (a `method` beside a `result`, an `id` nobody waits for): that is the core's business.
//!
//! Nesting costs one bit per level and no stack, so any depth is legal. Memory is taken only below 64 levels of it.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod envelope;
mod grammar;
mod line;
mod simd;
mod structure;
mod text;

#[cfg(any(test, fuzzing))]
pub(crate) mod naive;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

pub use line::{LineSearch, Seen};
pub use text::{parse_integer, unescape_eq};

/// A range of byte offsets into the line that was scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset behind the last byte.
    pub end: u32,
}

impl Span {
    /// Offsets of a line that was checked to be no longer than `u32::MAX`.
    #[inline(always)]
    fn new(start: usize, end: usize) -> Span {
        debug_assert!(start <= end && u32::try_from(end).is_ok());
        Span { start: start as u32, end: end as u32 }
    }

    /// The bytes of `line` this span stands for; `line` is the one it was found in.
    #[inline]
    pub fn of<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        &line[self.start as usize..self.end as usize]
    }

    /// How many bytes it covers.
    #[inline]
    pub fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether it covers no byte at all (only an empty string's inside does).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// How much of a line is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// The full grammar of RFC 8259.
    Grammar,
    /// UTF-8, string escapes, control characters, kinds and balance of brackets, and the envelope: the objects that are
    /// entered (the document, `params`, its `_meta`, `result`, `error`) and the strings, numbers and literals that
    /// stand directly in them follow the grammar. Inside every other object or array, commas, colons, numbers and
    /// literals are not looked at.
    Structure,
}

/// What the document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Top {
    /// An object: its envelope was searched.
    Object,
    /// An array (a batch); nothing was searched in it.
    Array,
    /// A string, number or literal.
    #[default]
    Other,
}

/// The `id` of the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Id {
    /// There is none.
    #[default]
    Absent,
    /// `null`.
    Null,
    /// A decimal integer without fraction and exponent that fits.
    Integer(i64),
    /// A string; what it spells is in the line.
    String,
    /// Anything else: a fraction, an exponent, too large, a boolean, an array, an object.
    Other,
}

/// Where the parts of an envelope stand in the line.
///
/// Of a key that stands twice, the last one counts, and nothing of the first one's value is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Envelope {
    /// What the document is. Everything below is empty unless it is an object.
    pub top: Top,
    /// Whether `jsonrpc` is there and is the string `2.0`.
    pub jsonrpc_2: bool,
    /// Whether `jsonrpc` is there at all.
    pub has_jsonrpc: bool,
    /// The id.
    pub id: Id,
    /// The id's text, quotes included.
    pub id_span: Option<Span>,
    /// The method without its quotes, escapes as they stand; if it is no string, the text of the value.
    pub method: Option<Span>,
    /// Whether `method` is there and is a string.
    pub method_is_string: bool,
    /// The text of `params`.
    pub params: Option<Span>,
    /// Whether `params` is there and is an object.
    pub params_is_object: bool,
    /// The text of `result`.
    pub result: Option<Span>,
    /// Whether `result` is there and is an object.
    pub result_is_object: bool,
    /// The text of `error`.
    pub error: Option<Span>,
    /// Whether `error` is there and is an object.
    pub error_is_object: bool,
    /// `error.code`, if it is a decimal integer that fits.
    pub error_code: Option<i64>,
    /// The text of `result.resultType`, quotes included.
    pub result_type: Option<Span>,
    /// The text of `params.progressToken`, quotes included: progress carries it there.
    pub progress_token: Option<Span>,
    /// The text of `params._meta.progressToken`, quotes included: requests carry it there.
    pub meta_progress_token: Option<Span>,
    /// The text of the subscription id in `params._meta`, quotes included.
    pub subscription_id: Option<Span>,
    /// The text of `params._meta`.
    pub meta: Option<Span>,
    /// How often the key `_meta` stood in `params`.
    pub meta_count: u32,
    /// The text of `params.inputResponses`.
    pub input_responses: Option<Span>,
    /// The text of `params.requestState`.
    pub request_state: Option<Span>,
    /// Whether one of `jsonrpc`, `id`, `method`, `params`, `result` and `error` stood twice, in whatever spelling.
    pub duplicate_key: bool,
}

/// Why a line is not JSON, and where that shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {at}")]
pub struct Defect {
    /// What is wrong.
    pub kind: DefectKind,
    /// Offset of the byte where it shows; the length of the line if that is where it ends too early.
    pub at: usize,
}

/// What is wrong with a line. If several things are, any one of them is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DefectKind {
    /// Not UTF-8.
    #[error("invalid UTF-8")]
    Utf8,
    /// A raw NUL byte, in a string or outside.
    #[error("raw NUL byte")]
    Nul,
    /// A raw control character in a string.
    #[error("control character in a string")]
    ControlInString,
    /// A backslash that starts no escape of JSON.
    #[error("invalid escape in a string")]
    Escape,
    /// A closing bracket of the wrong kind.
    #[error("mismatched bracket")]
    Bracket,
    /// Anything else the grammar does not allow here.
    #[error("unexpected character")]
    Syntax,
    /// The line ends inside the document, or holds none.
    #[error("unexpected end of line")]
    Truncated,
    /// Something follows the document.
    #[error("data behind the document")]
    TrailingData,
    /// More bytes than a span can express.
    #[error("line too long")]
    TooLong,
}

impl Defect {
    #[cold]
    fn new(kind: DefectKind, at: usize) -> Defect {
        Defect { kind, at }
    }

    /// For the byte at `at`, or the end of the line, where something else had to stand.
    #[cold]
    fn unexpected(line: &[u8], at: usize) -> Defect {
        let kind = match line.get(at) {
            None => DefectKind::Truncated,
            Some(0) => DefectKind::Nul,
            Some(_) => DefectKind::Syntax,
        };
        Defect::new(kind, at)
    }

    /// For the byte at `at`, or the end of the line, where a comma or a certain closing bracket had to stand.
    #[cold]
    fn not_closed(line: &[u8], at: usize) -> Defect {
        match line.get(at) {
            Some(b']' | b'}') => Defect::new(DefectKind::Bracket, at),
            _ => Defect::unexpected(line, at),
        }
    }

    /// For the byte that ended a string too early, or the end of the line.
    #[cold]
    fn in_string(line: &[u8], at: usize) -> Defect {
        let kind = match line.get(at) {
            None => DefectKind::Truncated,
            Some(0) => DefectKind::Nul,
            Some(_) => DefectKind::ControlInString,
        };
        Defect::new(kind, at)
    }
}

/// Checks a line and finds its envelope.
///
/// The line comes without the LF that ended it. White space around and between tokens is legal, line breaks included.
///
/// # Errors
/// The first defect met, if the line is not JSON in the sense of `checks`.
#[inline]
pub fn scan(line: &[u8], checks: Checks) -> Result<Envelope, Defect> {
    // Filled where it is returned: copying it would take a tenth of the time of a small line.
    let mut scanned = Ok(Envelope::default());
    if let Ok(envelope) = &mut scanned
        && let Err(defect) = scan_with::<simd::Native>(line, Seen::NOTHING, checks, envelope)
    {
        scanned = Err(defect);
    }
    scanned
}

/// As [`scan`], but an envelope is left behind also for a line with a defect: what was read before it.
///
/// This is how the request that a broken line meant to answer can be told. Only `id` and `id_span` are worth reading
/// then, and they are left out if the defect stands right behind the id, which may be a piece of a longer one.
/// An id that stands behind the defect is not found.
///
/// # Errors
/// As [`scan`].
pub fn scan_into(line: &[u8], seen: Seen, checks: Checks, envelope: &mut Envelope) -> Result<(), Defect> {
    *envelope = Envelope::default();
    scan_with::<simd::Native>(line, seen, checks, envelope)
}

/// Checks a text that is to become the `params` of a message, with the whole grammar, and finds its parts: the fields of the
/// envelope that begin with `params`, `meta`, `progress`, `input` and `request`. The envelope given is an empty one.
///
/// # Errors
/// The first defect met. A text that is no object is one.
pub fn scan_params(text: &[u8], envelope: &mut Envelope) -> Result<(), Defect> {
    if u32::try_from(text.len()).is_err() {
        return Err(Defect::new(DefectKind::TooLong, u32::MAX as usize));
    }
    if !is_short_ascii(text)
        && let Err(error) = simdutf8::compat::from_utf8(text)
    {
        return Err(Defect::new(DefectKind::Utf8, error.valid_up_to()));
    }
    envelope::walk_params::<simd::Native>(&line::Line::new(text, Seen::NOTHING.plain), envelope)
}

/// Fills an empty envelope.
fn scan_with<K: simd::Kernel>(line: &[u8], seen: Seen, checks: Checks, envelope: &mut Envelope) -> Result<(), Defect> {
    if u32::try_from(line.len()).is_err() {
        return Err(Defect::new(DefectKind::TooLong, u32::MAX as usize));
    }
    let walk = |line: &[u8], envelope: &mut Envelope| {
        let line = line::Line::new(line, seen.plain);
        match checks {
            Checks::Grammar => envelope::walk::<K, true>(&line, envelope),
            Checks::Structure => envelope::walk::<K, false>(&line, envelope),
        }
    };
    debug_assert!(!seen.ascii || line.is_ascii());
    if !seen.ascii && simdutf8::basic::from_utf8(line).is_err() {
        let valid = std::str::from_utf8(line).map_or_else(|e| e.valid_up_to(), str::len);
        // What is known of the line may reach beyond its valid part.
        let part = line::Line::new(&line[..valid], Seen::NOTHING.plain);
        let walked = match checks {
            Checks::Grammar => envelope::walk::<K, true>(&part, envelope),
            Checks::Structure => envelope::walk::<K, false>(&part, envelope),
        };
        forget_half_an_id(envelope, walked.map_or_else(|defect| defect.at, |()| valid));
        return Err(Defect::new(DefectKind::Utf8, valid));
    }
    walk(line, envelope).inspect_err(|defect| forget_half_an_id(envelope, defect.at))
}

/// Nearly all short lines are ASCII, and that is seen in half the time.
#[inline]
fn is_short_ascii(text: &[u8]) -> bool {
    text.len() <= 512 && text.is_ascii()
}

#[cold]
fn forget_half_an_id(envelope: &mut Envelope, at: usize) {
    if envelope.id_span.is_some_and(|id| id.end as usize == at) {
        envelope.id = Id::Absent;
        envelope.id_span = None;
    }
}

/// Whether a text can stand between the quotes of a JSON string as it is.
pub fn is_plain(text: &str) -> bool {
    const SPECIAL: [bool; 256] = {
        let mut special = [false; 256];
        let mut at = 0;
        while at < 0x20 {
            special[at] = true;
            at += 1;
        }
        special[b'"' as usize] = true;
        special[b'\\' as usize] = true;
        special
    };
    !text.bytes().any(|byte| SPECIAL[usize::from(byte)])
}

/// Whether there is a byte below 0x20: outside of strings the only ones in a JSON text are white space.
pub fn has_control(text: &[u8]) -> bool {
    // Of a known length, so that the compiler looks at all of them together.
    let among = |bytes: &[u8; 16]| bytes.iter().fold(false, |found, byte| found | (*byte < b' '));
    let (parts, rest) = text.as_chunks();
    parts.iter().any(among)
        || match text.last_chunk() {
            Some(last) => among(last),
            None => rest.iter().any(|byte| *byte < b' '),
        }
}

/// Whether a line (without its LF) holds only white space in the sense of JSON, or nothing.
#[inline]
pub fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
}
