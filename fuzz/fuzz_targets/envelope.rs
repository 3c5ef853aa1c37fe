//! The scanner against the model of rule W4, in both depths, and again with what a search for the line's end has seen of it.

#![no_main]

use mcp_supervised::fuzzing::naive_scan;
use mcp_supervised::scan::{Checks, Envelope, LineSearch, scan, scan_into};

libfuzzer_sys::fuzz_target!(|line: &[u8]| {
    // The model reads with recursion.
    let mut depth = 0_i32;
    let mut deepest = 0;
    for byte in line {
        depth += i32::from(matches!(byte, b'[' | b'{')) - i32::from(matches!(byte, b']' | b'}'));
        deepest = deepest.max(depth);
    }
    if deepest > 200 {
        // Deep lines have no model, and must end all the same.
        let _ = scan(line, Checks::Grammar);
        return;
    }
    for checks in [Checks::Grammar, Checks::Structure] {
        let found = scan(line, checks);
        let model = naive_scan(line, checks);
        assert_eq!(found.as_ref().ok(), model.as_ref(), "{checks:?}: {}", line.escape_ascii());
        if !line.contains(&b'\n') {
            let mut search = LineSearch::default();
            let whole = [line, b"\n"].concat();
            assert_eq!(search.go_on(&whole), Some(line.len()));
            let mut envelope = Envelope::default();
            let again = scan_into(line, search.seen(), checks, &mut envelope);
            assert_eq!(again.is_ok(), found.is_ok());
            if found.is_ok() {
                assert_eq!(Some(envelope), model);
            }
        }
        if checks == Checks::Grammar {
            // And against somebody else's reader, where that one has no limits of its own.
            let other = serde_json::from_slice::<&serde_json::value::RawValue>(line);
            if let Ok(other) = other {
                assert!(found.is_ok(), "{}: {}", other, line.escape_ascii());
            }
        }
    }
});
