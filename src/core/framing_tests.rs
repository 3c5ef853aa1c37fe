//! The framer against a naive model, and its edges by name.

use proptest::prelude::*;

use super::*;

fn framer(limit: usize) -> Framer {
    Framer::new(Pool::new(), Rc::new(Cell::new(0)), limit)
}

/// Feeds `input` in pieces of the given sizes and collects every line; the error comes last if there is one.
fn lines_of(input: &[u8], pieces: &[usize], limit: usize) -> (Vec<Vec<u8>>, bool) {
    let mut framer = framer(limit);
    let mut out = Vec::new();
    let mut rest = input;
    let mut sizes = pieces.iter().copied().chain(std::iter::repeat(usize::MAX));
    while !rest.is_empty() {
        let room = framer.room();
        let count = sizes.next().unwrap_or(1).max(1).min(rest.len()).min(room.len());
        assert!(count > 0, "a read must always have room");
        room[..count].copy_from_slice(&rest[..count]);
        rest = &rest[count..];
        framer.filled(count);
        while let Some(line) = framer.next_line() {
            assert_eq!(line.with_nul().last(), Some(&0));
            out.push(line.bytes().to_vec());
        }
        if framer.too_long().is_some() {
            return (out, true);
        }
    }
    framer.end();
    while let Some(line) = framer.next_line() {
        assert_eq!(line.with_nul().last(), Some(&0));
        out.push(line.bytes().to_vec());
    }
    assert_eq!(framer.pinned.get(), 0, "nothing is held once every line is taken");
    (out, false)
}

/// Rule W1 and W3 the slow way.
fn model(input: &[u8], limit: usize) -> (Vec<Vec<u8>>, bool) {
    let mut out = Vec::new();
    for (n, raw) in input.split(|b| *b == b'\n').enumerate() {
        if raw.len() > limit {
            return (out, true);
        }
        let mut line = raw;
        if n == 0 {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        while let Some(shorter) = line.strip_suffix(b"\r") {
            line = shorter;
        }
        if line.iter().any(|b| !b" \t\r".contains(b)) {
            out.push(line.to_vec());
        }
    }
    (out, false)
}

fn texts(input: &[u8]) -> Vec<String> {
    lines_of(input, &[], 1 << 20).0.into_iter().map(|line| String::from_utf8(line).unwrap()).collect()
}

#[test]
fn w01_line_ends_blank_lines_and_the_bom() {
    assert_eq!(texts(b"a\nb\r\nc\r\r\r\n\r\n \t \n\nd"), ["a", "b", "c", "d"]);
    assert_eq!(
        texts(b"\xEF\xBB\xBF{}\n\xEF\xBB\xBFx\n"),
        ["{}", "\u{feff}x"],
        "a BOM is dropped before the first line only"
    );
    assert_eq!(texts(b"\n\xEF\xBB\xBFx\n"), ["\u{feff}x"]);
    assert_eq!(texts(b"\xEF\xBB\xBF\n{}\n"), ["{}"]);
    assert_eq!(texts(b"a\rb\n"), ["a\rb"], "a CR inside a line stays");
    assert_eq!(texts(b"  a  \n"), ["  a  "]);
}

#[test]
fn w01_a_last_line_without_its_end_is_a_line() {
    assert_eq!(texts(b"a\nb"), ["a", "b"]);
    assert_eq!(texts(b"b\r"), ["b"]);
    assert_eq!(texts(b"  "), Vec::<String>::new());
    assert_eq!(texts(b""), Vec::<String>::new());
}

#[test]
fn w03_the_limit_itself_passes_and_one_more_byte_does_not() {
    for limit in [2, 100, READ_BYTES - 1, READ_BYTES, READ_BYTES + 1, 200_000] {
        let exact = vec![b'x'; limit];
        for pieces in [vec![], vec![1], vec![limit], vec![limit - 1, 1, 1]] {
            let mut input = exact.clone();
            input.extend_from_slice(b"\nnext\n");
            let lines = lines_of(&input, &pieces, limit);
            assert!(!lines.1 || limit < 4, "limit {limit}, pieces {pieces:?}");
            assert_eq!(lines.0[0].len(), limit);
            // CRs count.
            let mut input = exact.clone();
            input.extend_from_slice(b"\r\n");
            assert!(lines_of(&input, &pieces, limit).1, "limit {limit}, pieces {pieces:?}");
            let mut input = b"ok\n".to_vec();
            input.extend_from_slice(&exact);
            input.push(b'x');
            let (lines, too_long) = lines_of(&input, &pieces, limit);
            assert!(too_long, "an unended line over the limit is seen before its end");
            assert_eq!(lines, [b"ok".to_vec()], "the lines before it are delivered");
        }
    }
}

#[test]
fn w03_memory_stays_near_the_limit() {
    let limit = 300_000;
    let mut framer = framer(limit);
    loop {
        let room = framer.room();
        let count = room.len();
        room.fill(b'x');
        framer.filled(count);
        if framer.too_long().is_some() {
            break;
        }
        assert!(framer.open.as_ref().is_some_and(|b| b.len() <= limit + READ_BYTES));
    }
}

#[test]
fn an_idle_framer_holds_no_buffer() {
    let mut framer = framer(1000);
    framer.room()[..3].copy_from_slice(b"{}\n");
    framer.filled(3);
    assert!(framer.open.is_none());
    let line = framer.next_line().unwrap();
    assert!(framer.chunk.is_none());
    assert_eq!(framer.pinned.get(), 3, "the line and its NUL");
    drop(line);
    assert_eq!(framer.pinned.get(), 0);
    framer.room()[..2].copy_from_slice(b"\r\n");
    framer.filled(2);
    assert!(framer.open.is_none());
}

#[test]
fn f01_lines_hold_their_read_buffer_only_if_they_fill_a_good_part_of_it() {
    let mut framer = framer(1 << 20);
    for (lines, pinned) in [(1, 101), (80, 8_080), (81, 8_181), (82, READ_BYTES)] {
        let bytes = format!("{}\n", "x".repeat(100)).repeat(lines).into_bytes();
        framer.room()[..bytes.len()].copy_from_slice(&bytes);
        framer.filled(bytes.len());
        assert_eq!(framer.pinned.get(), pinned, "{lines} lines");
        let mut taken = 0;
        while let Some(line) = framer.next_line() {
            assert_eq!(line.with_nul(), [&b"x".repeat(100)[..], b"\0"].concat());
            taken += 1;
        }
        assert_eq!((taken, framer.pinned.get()), (lines, 0));
    }
}

/// One large line is no reason to hold that much for every later one that merely comes in two pieces.
#[test]
fn f01_after_a_large_line_a_smaller_one_holds_what_suits_it() {
    let mut framer = framer(8 << 20);
    let mut put = |bytes: &[u8]| {
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = framer.room();
            let count = room.len().min(rest.len());
            room[..count].copy_from_slice(&rest[..count]);
            framer.filled(count);
            rest = &rest[count..];
        }
        framer.next_line().map_or(0, |_| framer.pinned.get())
    };
    let line = |bytes: usize| [&vec![b'x'; bytes][..], b"\n"].concat();
    assert!(put(&line(4 << 20)) >= 4 << 20);
    for _ in 0..3 {
        put(&line(60 << 10)[..40 << 10]);
        let pinned = put(&line(20 << 10));
        assert_eq!(pinned, READ_BYTES);
    }
}

#[test]
fn a_part_of_a_line_keeps_only_its_bytes() {
    let mut framer = framer(1 << 20);
    framer.room()[..5].copy_from_slice(b"{}\n{\"");
    framer.filled(5);
    assert!(framer.open.is_none());
    assert_eq!((framer.parked.as_slice(), framer.parked.capacity()), (&b"{\""[..], 2));
    assert_eq!(framer.next_line().unwrap().bytes(), b"{}");
    framer.room()[..4].copy_from_slice(b"a\":1");
    framer.filled(4);
    framer.room()[..2].copy_from_slice(b"}\n");
    framer.filled(2);
    assert_eq!(framer.next_line().unwrap().bytes(), b"{\"a\":1}");
    framer.room()[..3].copy_from_slice(b"end");
    framer.filled(3);
    framer.end();
    assert_eq!(framer.next_line().unwrap().with_nul(), b"end\0");
    assert!(framer.open.is_none() && framer.parked.is_empty());
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => proptest::collection::vec(prop_oneof![Just(b'a'), Just(b' '), Just(b'\r'), Just(b'\t'), Just(0xEF)], 0..12),
        3 => Just(b"\n".to_vec()),
        2 => Just(b"\r\n".to_vec()),
        1 => Just(b"\xEF\xBB\xBF".to_vec()),
        1 => (1usize..40).prop_map(|n| vec![b'z'; n]),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn w01_w03_agrees_with_the_naive_model(input in bytes(), pieces in proptest::collection::vec(1usize..30, 0..60), limit in 2usize..60) {
        let (lines, too_long) = lines_of(&input, &pieces, limit);
        let (expected, expected_too_long) = model(&input, limit);
        prop_assert_eq!(lines, expected);
        prop_assert_eq!(too_long, expected_too_long);
    }

    #[test]
    fn w05_long_lines_cross_buffers_whole(sizes in proptest::collection::vec(0usize..180_000, 1..6), piece in 1usize..100_000) {
        let input: Vec<u8> = sizes.iter().enumerate().flat_map(|(n, size)| {
            let mut line = vec![b'a' + n as u8; *size];
            line.push(b'\n');
            line
        }).collect();
        let pieces = vec![piece; input.len() / piece + 1];
        let (lines, _) = lines_of(&input, &pieces, 1 << 20);
        prop_assert_eq!(lines, model(&input, 1 << 20).0);
    }
}
