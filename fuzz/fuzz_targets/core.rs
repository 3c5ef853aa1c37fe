//! The whole core with its client, driven by a history that is read from bytes, against servers that read what was written and
//! answer well or badly. What is checked at each step is what `src/core/tests` checks.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mcp_supervised::fuzzing::play_bytes(bytes));
