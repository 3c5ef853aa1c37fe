//! Times of the pieces of the hot path, each by itself: framing, the envelope scan, stamping, deadlines.
//!
//! `cargo bench` runs them, `cargo bench -- scan` those with "scan" in their name. What they are worth together is measured by
//! `benches/run`, and what they may cost is held against a budget by `benches/instructions`.

use std::cell::Cell;
use std::fmt::Write as _;
use std::hint::black_box;
use std::rc::Rc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mcp_supervised::core::chunk::Pool;
use mcp_supervised::core::deadlines::{Deadlines, Own, Timer};
use mcp_supervised::core::framing::Framer;
use mcp_supervised::core::requests::{Requests, Timeouts};
use mcp_supervised::core::stamp::{Meta, PROTOCOL_VERSION, Params, Stamp, push_notification, push_request};
use mcp_supervised::scan::{Checks, scan};

const NOTIFICATION: &str = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"0000000000000000000000007"}}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":4711,"result":{"resultType":"complete","content":[{"type":"text","text":"it is all one long text with no "}]}}"#;
const MIB: usize = 1 << 20;

/// An answer with a text of so many bytes.
fn text(bytes: usize, piece: &str) -> String {
    let body = piece.repeat(bytes / piece.len());
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"resultType":"complete","content":[{{"type":"text","text":"{body}"}}]}}}}"#
    )
}

/// An answer of about so many bytes, made of small objects.
fn dense(bytes: usize) -> String {
    let mut rows = String::new();
    for row in 0.. {
        if rows.len() >= bytes {
            break;
        }
        let comma = if row > 0 { "," } else { "" };
        let _ = write!(
            rows,
            r#"{comma}{{"row":{row},"name":"item {}","tags":["a","b"],"ok":true,"price":{}.5}}"#,
            row * 7,
            row % 90
        );
    }
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"resultType":"complete","structuredContent":{{"rows":[{rows}]}}}}}}"#
    )
}

/// Lines as reads of at most `read` bytes bring them, handed out and let go of.
fn framing(c: &mut Criterion) {
    let mut group = c.benchmark_group("framing");
    let long = text(MIB, "it is all one long text with no end in sight, 0123456789 ");
    for (name, line, count) in
        [("notifications", NOTIFICATION, 512), ("answers", ANSWER, 512), ("text of 1 MiB", long.as_str(), 1)]
    {
        let mut stream = String::new();
        for _ in 0..count {
            stream.push_str(line);
            stream.push('\n');
        }
        let stream = stream.into_bytes();
        let mut framer = Framer::new(Pool::new(), Rc::new(Cell::new(0)), 64 << 20);
        group.throughput(Throughput::Bytes(stream.len() as u64));
        group.bench_function(BenchmarkId::new(name, count), |b| {
            b.iter(|| {
                let (mut rest, mut lines) = (stream.as_slice(), 0);
                while !rest.is_empty() {
                    let room = framer.room();
                    let read = rest.len().min(room.len()).min(64 << 10);
                    room[..read].copy_from_slice(&rest[..read]);
                    rest = &rest[read..];
                    framer.filled(read);
                    while let Some(frame) = framer.next_line() {
                        black_box(frame.bytes());
                        lines += 1;
                    }
                }
                assert_eq!(lines, count);
            });
        });
    }
    group.finish();
}

/// The walk over a line, with the checks that the core asks for at that length.
fn envelope(c: &mut Criterion) {
    let mut group = c.benchmark_group("scan");
    let long = text(MIB, "it is all one long text with no end in sight, 0123456789 ");
    let escaped = text(MIB, r#"a line, and one more\nwith \"quotes\" "#);
    let foreign = text(MIB, "写真と文字、どちらも長い文章です。");
    let many = dense(MIB);
    for (name, line, checks) in [
        ("notification", NOTIFICATION, Checks::Grammar),
        ("answer", ANSWER, Checks::Grammar),
        ("text of 1 MiB", long.as_str(), Checks::Structure),
        ("text of 1 MiB with escapes", escaped.as_str(), Checks::Structure),
        ("text of 1 MiB, not ASCII", foreign.as_str(), Checks::Structure),
        ("objects of 1 MiB", many.as_str(), Checks::Structure),
        ("objects of 1 MiB, whole grammar", many.as_str(), Checks::Grammar),
    ] {
        group.throughput(Throughput::Bytes(line.len() as u64));
        group.bench_function(name, |b| {
            b.iter(|| scan(black_box(line.as_bytes()), checks).expect("it is JSON"));
        });
    }
    group.finish();
}

/// From the host's params to a line in the buffer that is written from.
fn stamping(c: &mut Criterion) {
    let mut group = c.benchmark_group("stamp");
    let stamp = Stamp::new(PROTOCOL_VERSION, Some(r#"{"name":"bench","version":"1.0.0"}"#), "{}", None);
    let plain = r#"{"name":"echo","arguments":{"text":"hello"}}"#;
    let own_meta = r#"{"name":"echo","arguments":{"text":"hello"},"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"}}"#;
    let large = format!(r#"{{"name":"echo","arguments":{{"text":"{}"}}}}"#, "x".repeat(64 << 10));
    for (name, params) in [("request", plain), ("request, host's own _meta", own_meta), ("request of 64 KiB", &large)] {
        let mut line = Vec::with_capacity(128 << 10);
        group.throughput(Throughput::Bytes(params.len() as u64));
        group.bench_function(name, |b| {
            b.iter(|| {
                line.clear();
                let params = Params::check(black_box(params.as_bytes())).expect("they are params");
                push_request(&mut line, 4711, "tools/call", &params, Meta::Stamped { stamp: &stamp, token: None })
                    .expect("they can be stamped");
                black_box(&line);
            });
        });
    }
    let params = r#"{"progressToken":"t","progress":1}"#;
    let mut line = Vec::with_capacity(1024);
    group.throughput(Throughput::Bytes(params.len() as u64));
    group.bench_function("notification", |b| {
        b.iter(|| {
            line.clear();
            let params = Params::check(black_box(params.as_bytes())).expect("they are params");
            push_notification(&mut line, "notifications/progress", &params).expect("it can be written");
            black_box(&line);
        });
    });
    group.bench_function("check of params alone", |b| {
        b.iter(|| black_box(Params::check(black_box(plain.as_bytes())).expect("they are params").is_continuation));
    });
    group.finish();
}

/// The two clocks of requests while so many are under way: one ends, the next begins. And the table of the peers' deadlines.
fn deadlines(c: &mut Criterion) {
    let mut group = c.benchmark_group("deadlines");
    let timeouts = Timeouts { idle: 60_000_000_000, ceiling: 600_000_000_000 };
    for width in [1, 64, 1024, 16_384_u64] {
        let mut requests = Requests::default();
        for id in 1..=width {
            requests.insert(id, id, id, timeouts);
        }
        let mut next = width + 1;
        group.bench_function(BenchmarkId::new("request", width), |b| {
            b.iter(|| {
                requests.remove(next - width).expect("it is under way");
                requests.insert(next, next, next, timeouts);
                next += 1;
                black_box(requests.next_deadline())
            });
        });
    }
    for peers in [1, 1000_u32] {
        let mut all = Deadlines::default();
        let mut own = vec![Own::default(); peers as usize];
        for slot in 0..peers {
            all.set(&mut own[slot as usize], slot, Timer::Client, 1_000_000 + u64::from(slot));
        }
        let mut at = 2_000_000;
        group.bench_function(BenchmarkId::new("peer", peers), |b| {
            b.iter(|| {
                at += 1;
                all.set(&mut own[0], 0, Timer::Client, at);
                black_box(all.next())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, framing, envelope, stamping, deadlines);
criterion_main!(benches);
