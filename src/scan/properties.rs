//! Property tests: the scanner, with both kernels and both checks, against the naive model, on generated and damaged
//! documents. The seed is fixed; the cases are the same on every run.

use super::simd::{BLOCK, Kernel, Native, Portable};
use super::{Checks, Defect, DefectKind, Envelope, LineSearch, Seen, naive, scan_with, unescape_eq};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::RngSeed;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(0x6d63_7073),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn scan_by<K: Kernel>(line: &[u8], checks: Checks) -> Result<Envelope, Defect> {
    let mut envelope = Envelope::default();
    let mut search = LineSearch::default();
    let seen = match line.contains(&b'\n') {
        // No line of a stream, but a document all the same.
        true => Seen::NOTHING,
        false => {
            assert_eq!(search.go_on_by::<K>(line), None);
            search.seen()
        }
    };
    scan_with::<K>(line, seen, checks, &mut envelope).map(|()| envelope)
}

/// Holds everything against the model. Says whether the line was accepted by the grammar.
pub(super) fn compare(line: &[u8]) -> bool {
    for checks in [Checks::Grammar, Checks::Structure] {
        let model = naive::scan(line, checks);
        let native = scan_by::<Native>(line, checks);
        let portable = scan_by::<Portable>(line, checks);
        let text = String::from_utf8_lossy(line);
        assert_eq!(native, portable, "kernels differ, {checks:?}: {text}");
        assert_eq!(native.ok(), model, "{checks:?}: {text}");
        if let Err(defect) = native {
            assert!(defect.at <= line.len());
            assert_eq!(defect.kind == DefectKind::Utf8, std::str::from_utf8(line).is_err());
            // What ends too early becomes something else only by going on.
            assert!(defect.kind != DefectKind::Truncated || defect.at == line.len(), "{defect:?}: {text}");
        }
    }
    naive::scan(line, Checks::Grammar).is_some()
}

/// A document of one large text, with escapes here and there, scanned with what was seen of it and without.
#[test]
fn what_was_seen_of_a_large_line_changes_nothing() {
    for gap in [100, 1_000, 70_000, 200_000, 1_000_000] {
        for escape in ["\\n", "\\u00e9", "é", "\\\"", "\"", "\\x", "\u{1}", "\",\"result\":{\"resultType\":\"x"] {
            let mut text = "x".repeat(gap);
            while text.len() < 500_000 {
                text.push_str(escape);
                text.push_str(&"y".repeat(gap));
            }
            let line =
                format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#);
            for bytes in [line.as_bytes(), &line.as_bytes()[..line.len() - 3]] {
                let mut search = LineSearch::default();
                for there in (0..bytes.len()).step_by(65_536).chain([bytes.len()]) {
                    assert_eq!(search.go_on(&bytes[..there]), None);
                }
                for checks in [Checks::Grammar, Checks::Structure] {
                    let mut with = Envelope::default();
                    let mut without = Envelope::default();
                    let scanned = scan_with::<Native>(bytes, search.seen(), checks, &mut with);
                    assert_eq!(
                        scanned,
                        scan_with::<Native>(bytes, Seen::NOTHING, checks, &mut without),
                        "{gap} {escape}"
                    );
                    assert_eq!(with, without);
                }
            }
        }
    }
}

/// The model against another parser, whose values are stricter in three ways.
fn compare_with_serde(line: &[u8]) {
    let accepted = naive::scan(line, Checks::Grammar).is_some();
    if let Err(refused) = serde_json::from_slice::<serde_json::Value>(line) {
        let why = refused.to_string();
        let stricter = ["number out of range", "surrogate", "unexpected end of hex escape", "recursion limit"];
        assert!(!accepted || stricter.iter().any(|known| why.contains(known)), "{why}: {line:?}");
    } else {
        assert!(accepted, "{line:?}");
    }
}

fn white() -> impl Strategy<Value = &'static str> {
    select(vec!["", "", "", "", "", " ", "\t", "\r\n", " \n  \r\t"])
}

/// The inside of a string.
fn text() -> impl Strategy<Value = String> {
    let pieces = select(vec![
        "a",
        "é",
        "漢字",
        "😀",
        "\\\"",
        "\\\\",
        "\\n",
        "\\/",
        "\\u00e9",
        "\\ud83d\\ude00",
        "\\ud800",
        "\\udc00x",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "id",
        "\u{7f}",
        "a longer piece of plain text that fills a good part of a block",
        "0123456789abcdef",
    ]);
    prop::collection::vec(pieces, 0..6).prop_map(|pieces| pieces.concat())
}

fn key() -> impl Strategy<Value = String> {
    let known = select(vec![
        "jsonrpc",
        "id",
        "\\u0069d",
        "i\\u0064",
        "method",
        "\\u006dethod",
        "params",
        "p\\u0061rams",
        "result",
        "error",
        "err\\u006Fr",
        "_meta",
        "\\u005fmeta",
        "progressToken",
        "progress\\u0054oken",
        "inputResponses",
        "requestState",
        "resultType",
        "code",
        "c\\u006fde",
        "io.modelcontextprotocol/subscriptionId",
        "io.modelcontextprotocol\\/subscriptionId",
        "",
        "ID",
        "i",
        "idd",
    ]);
    prop_oneof![4 => known.prop_map(str::to_owned), 1 => text()]
}

fn value() -> impl Strategy<Value = String> {
    let plain = select(vec![
        "null",
        "true",
        "false",
        "0",
        "-0",
        "7",
        "-12",
        "1.0",
        "1e3",
        "2.5E-7",
        "1E400",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "\"2.0\"",
        "\"2\\u002e0\"",
        "\"\"",
        "{}",
        "[]",
    ]);
    let leaf = prop_oneof![3 => plain.prop_map(str::to_owned), 1 => text().prop_map(|text| format!("\"{text}\""))];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let items = prop::collection::vec((white(), inner.clone(), white()), 0..5);
        let array = items.prop_map(|items| {
            let items: Vec<_> = items.into_iter().map(|(a, item, b)| format!("{a}{item}{b}")).collect();
            format!("[{}]", items.join(","))
        });
        prop_oneof![1 => array, 3 => object(inner)]
    })
}

fn object(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    prop::collection::vec((white(), key(), white(), value), 0..5).prop_map(|pairs| {
        let pairs: Vec<_> =
            pairs.into_iter().map(|(a, key, b, value)| format!("{a}\"{key}\"{b}:{a}{value}{b}")).collect();
        format!("{{{}}}", pairs.join(","))
    })
}

/// An envelope with everything where it belongs, among other things.
fn message() -> impl Strategy<Value = String> {
    let pair = prop_oneof![
        (select(vec!["params", "params", "result", "error", "p\\u0061rams"]), inner_object())
            .prop_map(|(key, value)| format!("\"{key}\":{value}")),
        (key(), white(), value()).prop_map(|(key, white, value)| format!("\"{key}\"{white}:{white}{value}{white}")),
    ];
    (white(), prop::collection::vec(pair, 0..6), white())
        .prop_map(|(a, pairs, b)| format!("{a}{{{a}{}{b}}}{b}", pairs.join(",")))
}

fn inner_object() -> impl Strategy<Value = String> {
    let meta = (select(vec!["_meta", "_meta", "\\u005fmeta"]), object(value()));
    let pair = prop_oneof![
        2 => meta.prop_map(|(key, value)| format!("\"{key}\" :{value}")),
        3 => (key(), value()).prop_map(|(key, value)| format!("\"{key}\":{value}")),
    ];
    prop::collection::vec(pair, 0..4).prop_map(|pairs| format!("{{{}}}", pairs.join(" , ")))
}

fn document() -> impl Strategy<Value = String> {
    prop_oneof![4 => message(), 1 => object(value()), 1 => value()]
}

fn damaging_byte() -> impl Strategy<Value = u8> {
    prop_oneof![3 => select(b"\"\\{}[],:0-.eE+u \n\t\r\0\x01\x0b\x1f\x7f\xc3\xa9\xff".to_vec()), 1 => any::<u8>()]
}

proptest! {
    #![proptest_config(config(1500))]

    #[test]
    fn generated_documents_are_read_as_the_model_reads_them(document in document()) {
        prop_assert!(compare(document.as_bytes()));
        compare_with_serde(document.as_bytes());
    }

    #[test]
    fn damaged_documents_are_judged_as_the_model_judges_them(
        document in document(),
        damage in prop::collection::vec((any::<Index>(), 0..5u8, damaging_byte()), 1..4),
    ) {
        let mut line = document.into_bytes();
        for (index, how, byte) in damage {
            let at = index.index(line.len() + 1);
            match how {
                0 if at < line.len() => line[at] = byte,
                1 if at < line.len() => drop(line.remove(at)),
                2 => line.truncate(at),
                3 if at < line.len() => line[at] ^= 1 << (byte & 7),
                _ => line.insert(at, byte),
            }
        }
        compare(&line);
        compare_with_serde(&line);
    }
}

proptest! {
    #![proptest_config(config(60))]

    /// Every place of a document is damaged in turn, so that none is missed by chance.
    #[test]
    fn no_place_is_special(document in document(), byte in damaging_byte()) {
        let line = document.as_bytes();
        for at in 0..line.len().min(300) {
            compare(&line[..at]);
            compare(&[&line[..at], &line[at + 1..]].concat());
            compare(&[&line[..at], &[byte], &line[at..]].concat());
            compare(&[&line[..at], &[byte], &line[at + 1..]].concat());
        }
    }
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn kernels_agree(bytes in prop::collection::vec(damaging_byte(), 0..200), from in any::<Index>()) {
        let from = from.index(bytes.len() + 1);
        let by = |kernel: fn(&[u8], usize) -> usize, near: fn(&[u8], usize) -> Result<usize, usize>| {
            (kernel(&bytes, from), near(&bytes, from).unwrap_or_else(|on| kernel(&bytes, on)))
        };
        let native = by(Native::string_stop, Native::string_stop_near);
        prop_assert_eq!(native.0, native.1);
        prop_assert_eq!(native, by(Portable::string_stop, Portable::string_stop_near));
        let slow = (from..bytes.len()).find(|&at| matches!(bytes[at], b'"' | b'\\' | 0..0x20));
        prop_assert_eq!(Native::string_stop(&bytes, from), slow.unwrap_or(bytes.len()));
        if let Some(block) = bytes.first_chunk::<BLOCK>() {
            let masks = Native::masks(block);
            prop_assert_eq!(masks, Portable::masks(block));
            prop_assert_eq!(Native::stops(block), Portable::stops(block));
            prop_assert_eq!(Native::stops(block), masks.quote | masks.backslash | masks.control);
            for (i, &byte) in block.iter().enumerate() {
                let bit = |mask: u64| mask >> i & 1 == 1;
                prop_assert_eq!(bit(masks.quote), byte == b'"');
                prop_assert_eq!(bit(masks.backslash), byte == b'\\');
                prop_assert_eq!(bit(masks.control), byte < 0x20);
                prop_assert_eq!(bit(masks.open), byte == b'{' || byte == b'[');
                prop_assert_eq!(bit(masks.close), byte == b'}' || byte == b']');
                prop_assert_eq!(bit(masks.curly), byte & 0x20 != 0);
            }
        }
    }

    #[test]
    fn long_runs_stop_where_a_slow_walk_does(
        plain in 0usize..700,
        special in prop::collection::vec(
            (any::<Index>(), select(vec![b'"', b'\\', 0, 0x1f, b'\n', 0x80, 0xff, 0x7f, b' '])), 0..4),
        from in any::<Index>(),
    ) {
        let mut bytes = vec![b'x'; plain];
        for (at, byte) in special {
            if plain > 0 {
                bytes[at.index(plain)] = byte;
            }
        }
        let from = from.index(plain + 1);
        let stop = (from..plain).find(|&at| matches!(bytes[at], b'"' | b'\\' | 0..0x20)).unwrap_or(plain);
        prop_assert_eq!(Native::string_stop(&bytes, from), stop);
        prop_assert_eq!(Portable::string_stop(&bytes, from), stop);
        let end = (from..plain).find(|&at| bytes[at] == b'\n').unwrap_or(plain);
        let expected = (end, bytes[from..end].is_ascii());
        prop_assert_eq!(Native::line_end(&bytes, from), expected);
        prop_assert_eq!(Portable::line_end(&bytes, from), expected);
    }

    #[test]
    fn a_large_line_in_pieces_is_seen_as_it_is(
        length in 60_000usize..400_000,
        special in prop::collection::vec(
            (any::<Index>(), select(vec!["\"", "\\", "\u{1}", "\r", "é"])), 0..5),
        pieces in prop::collection::vec(1usize..90_000, 1..12),
        ends in any::<bool>(),
    ) {
        let mut line = "x".repeat(length);
        for (at, text) in special {
            let at = at.index(length);
            line.replace_range(at..at, text);
        }
        let line = line.into_bytes();
        let mut stream = line.clone();
        if ends {
            stream.extend_from_slice("\nnext é\n".as_bytes());
        }
        for search_in in [LineSearch::go_on_by::<Native>, LineSearch::go_on_by::<Portable>] {
            let mut search = LineSearch::default();
            let mut there = 0usize;
            let mut found = None;
            for piece in pieces.iter().chain(std::iter::repeat(&65_536)) {
                there = there.saturating_add(*piece).min(stream.len());
                found = search_in(&mut search, &stream[..there]);
                if found.is_some() || there == stream.len() {
                    break;
                }
                prop_assert!(there <= line.len());
            }
            prop_assert_eq!(found, ends.then_some(line.len()));
            let seen = search.seen();
            prop_assert_eq!(seen.ascii, line.is_ascii());
            let stop = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
            prop_assert!(!seen.plain.of(&line).iter().any(stop));
            // Blocks, pieces and the beginning cost some of it, but never most of a run that is worth knowing.
            let longest = line.split(stop).map(<[u8]>::len).max().unwrap_or(0);
            let least = longest.saturating_sub((64 << 10) + 90_000 + 512);
            prop_assert!(seen.plain.len() >= least, "{} of {longest}", seen.plain.len());
        }
    }

    #[test]
    fn unescaping_agrees_with_a_parser(raw in text(), other in text()) {
        if let Ok(plain) = serde_json::from_str::<String>(&format!("\"{raw}\"")) {
            prop_assert!(unescape_eq(raw.as_bytes(), &plain));
            let longer = format!("{}x", plain);
            prop_assert!(!unescape_eq(raw.as_bytes(), &longer));
            if let Ok(other) = serde_json::from_str::<String>(&format!("\"{other}\"")) {
                prop_assert_eq!(unescape_eq(raw.as_bytes(), &other), plain == other);
            }
        }
    }
}
