//! The framer against a model: the stream cut at LF, whatever pieces it comes in.

#![no_main]

use std::cell::Cell;
use std::rc::Rc;

use mcp_supervised::core::chunk::Pool;
use mcp_supervised::core::framing::Framer;

/// The lines of a whole stream, up to one that is too long; whether there is such a one.
fn model(stream: &[u8], limit: usize) -> (Vec<Vec<u8>>, bool) {
    let mut lines = Vec::new();
    let mut rest = stream;
    let mut is_first = true;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == b'\n');
        let line = &rest[..end.unwrap_or(rest.len())];
        if line.len() > limit {
            return (lines, true);
        }
        rest = end.map_or(&[][..], |end| &rest[end + 1..]);
        let mut line = line.to_vec();
        while line.last() == Some(&b'\r') {
            line.pop();
        }
        if std::mem::take(&mut is_first) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if !line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
            lines.push(line);
        }
    }
    (lines, false)
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [limit, pieces, stream @ ..] = bytes else { return };
    let limit = 1 + usize::from(*limit) * usize::from(*limit);
    let pinned = Rc::new(Cell::new(0));
    let mut framer = Framer::new(Rc::new(Pool::default()), Rc::clone(&pinned), limit);
    let mut lines = Vec::new();
    let mut kept = Vec::new();
    let mut take = |framer: &mut Framer| {
        while let Some(frame) = framer.next_line() {
            assert_eq!(frame.with_nul(), [frame.bytes(), b"\0"].concat());
            lines.push(frame.bytes().to_vec());
            // Some stay with the host while others come.
            if lines.len() % 3 == 0 {
                kept.push((frame, lines.len() - 1));
            }
        }
    };
    let mut seed = u32::from(*pieces);
    let mut rest = stream;
    while !rest.is_empty() && framer.too_long().is_none() {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let most = match pieces % 4 {
            0 => usize::MAX,
            1 => 1,
            _ => 1 + (seed >> 20) as usize % 97,
        };
        let room = framer.room();
        assert!(!room.is_empty());
        let count = rest.len().min(room.len()).min(most);
        room[..count].copy_from_slice(&rest[..count]);
        framer.filled(count);
        rest = &rest[count..];
        take(&mut framer);
    }
    if framer.too_long().is_none() {
        framer.end();
        take(&mut framer);
    }
    let (expected, is_too_long) = model(stream, limit);
    assert_eq!(lines, expected);
    assert_eq!(framer.too_long().is_some(), is_too_long);
    for (frame, at) in &kept {
        assert_eq!(frame.bytes(), lines[*at], "what was handed out is left alone");
    }
    drop(kept);
    drop(framer);
    assert_eq!(pinned.get(), 0, "bytes are held for nobody");
});
