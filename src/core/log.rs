//! What a server writes to stderr: cut into lines, escaped, bounded, and its last part kept for the CLOSE that may follow.
//! Rules F2 and P8. The ring of LOG events itself is part of the event queue.

use std::fmt::Write as _;

/// How a LOG event ranks. The server's own stderr is no level: it is always told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A line of the server's stderr.
    Server,
    /// The library: something was given up.
    Error,
    /// The library: something went wrong and is handled.
    Warning,
    /// The library: something worth knowing.
    Info,
}

/// Bytes of stderr that a CLOSE tells (P8).
const TAIL_BYTES: usize = 4096;

/// Appends `bytes` to `out` as text that is safe to print: control characters, bytes that are not UTF-8, and characters that
/// reorder or break lines become escapes. Stops before `most` bytes are passed and says so with three dots.
pub fn escape_into(out: &mut String, bytes: &[u8], most: usize) {
    let room = out.len().saturating_add(most);
    // Cut only where something is left over, so that a line of exactly the limit stays whole.
    let mut cut_at = out.len();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if out.len() + 3 <= room {
                cut_at = out.len();
            }
            if needs_escape(c) {
                if c.is_ascii() {
                    let _ = write!(out, "\\x{:02x}", c as u32);
                } else {
                    let _ = write!(out, "\\u{{{:x}}}", c as u32);
                }
            } else {
                out.push(c);
            }
            if out.len() > room {
                return cut(out, cut_at, room);
            }
        }
        for byte in chunk.invalid() {
            if out.len() + 3 <= room {
                cut_at = out.len();
            }
            let _ = write!(out, "\\x{byte:02x}");
            if out.len() > room {
                return cut(out, cut_at, room);
            }
        }
    }
}

fn cut(out: &mut String, at: usize, room: usize) {
    out.truncate(at);
    if out.len() + 3 <= room {
        out.push_str("...");
    }
}

fn needs_escape(c: char) -> bool {
    // The two separators, and all that have the property Bidi_Control.
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Cuts stderr into LOG lines.
#[derive(Debug)]
pub struct StderrLines {
    line_bytes: usize,
    part: Vec<u8>,
    /// The line has more than is kept; the rest of it is dropped up to its end.
    overflow: bool,
    tail: Tail,
}

impl StderrLines {
    /// For one connection; nothing is allocated until the first byte.
    pub fn new(line_bytes: usize) -> Self {
        Self { line_bytes, part: Vec::new(), overflow: false, tail: Tail::default() }
    }

    /// Takes what was read and gives each line that ended to `line`.
    pub fn feed(&mut self, bytes: &[u8], mut line: impl FnMut(String)) {
        let mut rest = bytes;
        while let Some(at) = memchr::memchr(b'\n', rest) {
            self.keep(&rest[..at]);
            rest = &rest[at + 1..];
            self.finish_line(&mut line);
        }
        self.keep(rest);
    }

    /// stderr ended: an unended line is the last one.
    pub fn end(&mut self, mut line: impl FnMut(String)) {
        if !self.part.is_empty() {
            self.finish_line(&mut line);
        }
        self.part = Vec::new();
    }

    /// The last lines, oldest first, for CLOSE.
    pub fn take_tail(&mut self) -> Option<String> {
        self.tail.take()
    }

    fn keep(&mut self, bytes: &[u8]) {
        // One byte more than can be shown tells escape_into that there was more.
        let room = (self.line_bytes + 1).saturating_sub(self.part.len());
        let kept = bytes.len().min(room);
        self.part.extend_from_slice(&bytes[..kept]);
        self.overflow |= kept < bytes.len();
    }

    fn finish_line(&mut self, line: &mut impl FnMut(String)) {
        while self.part.last() == Some(&b'\r') && !self.overflow {
            self.part.pop();
        }
        self.overflow = false;
        if !self.part.is_empty() {
            let mut text = String::with_capacity(self.part.len().min(self.line_bytes));
            escape_into(&mut text, &self.part, self.line_bytes);
            // A long line is rare; its room is not kept for the next one.
            if self.part.capacity() > 256 {
                self.part = Vec::new();
            }
            self.part.clear();
            self.tail.push(&text);
            line(text);
        }
    }
}

/// The last lines of stderr, whole lines as long as one fits.
#[derive(Debug, Default)]
struct Tail {
    text: String,
}

impl Tail {
    fn push(&mut self, line: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(line);
        if self.text.len() > TAIL_BYTES {
            let mut from = self.text.len() - TAIL_BYTES;
            while !self.text.is_char_boundary(from) {
                from += 1;
            }
            let from = match self.text[from..].find('\n') {
                Some(at) => from + at + 1,
                None => from,
            };
            self.text.drain(..from);
        }
    }

    fn take(&mut self) -> Option<String> {
        (!self.text.is_empty()).then(|| std::mem::take(&mut self.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(bytes: &[u8], most: usize) -> String {
        let mut out = String::new();
        escape_into(&mut out, bytes, most);
        out
    }

    #[test]
    fn p08_control_bytes_and_bad_utf8_are_escaped() {
        assert_eq!(escaped(b"a\x1b[31mb\0\t\x7f", 99), "a\\x1b[31mb\\x00\\x09\\x7f");
        assert_eq!(escaped(b"caf\xe9!", 99), "caf\\xe9!");
        assert_eq!(escaped("读取 🎉".as_bytes(), 99), "读取 🎉");
        assert_eq!(escaped("a\u{202e}b\u{85}".as_bytes(), 99), "a\\u{202e}b\\u{85}");
        let turning = "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}";
        let breaking = "\u{2028}\u{2029}\u{9b}";
        for c in turning.chars().chain(breaking.chars()) {
            assert_eq!(escaped(c.to_string().as_bytes(), 99), format!("\\u{{{:x}}}", c as u32));
        }
    }

    #[test]
    fn p08_lines_are_bounded_after_escaping() {
        assert_eq!(escaped(b"abcdefgh", 8), "abcdefgh");
        assert_eq!(escaped(b"abcdefghi", 8), "abcde...");
        assert_eq!(escaped(b"abcde\x01fgh", 8), "abcde...");
        assert_eq!(escaped("éééééé".as_bytes(), 8), "éé...");
        for most in 0..40 {
            assert!(escaped("a\u{1}é读🎉\u{202e}bc\u{1}de".as_bytes(), most).len() <= most, "most {most}");
        }
    }

    fn lines(pieces: &[&[u8]], line_bytes: usize) -> (Vec<String>, Option<String>) {
        let mut stderr = StderrLines::new(line_bytes);
        let mut out = Vec::new();
        for piece in pieces {
            stderr.feed(piece, |line| out.push(line));
        }
        stderr.end(|line| out.push(line));
        (out, stderr.take_tail())
    }

    #[test]
    fn p08_stderr_is_cut_into_lines_across_reads() {
        let (out, tail) = lines(&[b"one\ntw", b"o\r\n\n", b"thr", b"ee"], 99);
        assert_eq!(out, ["one", "two", "three"]);
        assert_eq!(tail.as_deref(), Some("one\ntwo\nthree"));
        assert_eq!(lines(&[], 99), (vec![], None));
    }

    #[test]
    fn p08_an_endless_line_takes_no_memory_and_ends_at_its_end() {
        let big = vec![b'x'; 100_000];
        let mut stderr = StderrLines::new(100);
        let mut out = Vec::new();
        for _ in 0..10 {
            stderr.feed(&big, |line| out.push(line));
            assert!(stderr.part.capacity() < 1000);
        }
        stderr.feed(b"\nnext\n", |line| out.push(line));
        assert_eq!(out.len(), 2);
        assert_eq!(out[0].len(), 100);
        assert!(out[0].ends_with("..."));
        assert_eq!(out[1], "next");
    }

    #[test]
    fn p08_the_tail_keeps_the_last_four_kib_in_whole_lines() {
        let text: Vec<u8> = (0..2000).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        let (_, tail) = lines(&[&text], 99);
        let tail = tail.unwrap();
        assert!(tail.len() <= TAIL_BYTES && tail.len() > TAIL_BYTES - 20);
        assert!(tail.starts_with("line ") && tail.ends_with("line 1999"));
        let (_, tail) = lines(&[&"é".repeat(5000).into_bytes(), b"\n"], 1 << 16);
        assert!(tail.unwrap().len() <= TAIL_BYTES);
    }
}
