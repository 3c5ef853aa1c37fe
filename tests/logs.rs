//! What servers write to stderr, and what the library says of itself (P8, P10, F2).

mod support;

use serde_json::json;
use support::*;

const SERVER: i32 = MCP_SUPERVISED_LOG_SERVER as i32;
const ERROR: i32 = MCP_SUPERVISED_LOG_ERROR as i32;
const WARNING: i32 = MCP_SUPERVISED_LOG_WARNING as i32;

fn with_level(level: mcp_supervised_log_level) -> Host {
    Host::with(|config| {
        // SAFETY: a live config.
        assert_eq!(unsafe { mcp_supervised_config_log_level(config, level as u32) }, 0);
    })
}

/// The log lines of one level.
fn lines(events: &[Event], level: i32) -> Vec<String> {
    events.iter().filter(|e| e.is(MCP_SUPERVISED_EVENT_LOG) && e.status == level).map(Event::text).collect()
}

/// What a shell script writes to stderr until it exits, as LOG lines.
fn said(script: &str, shape: impl FnOnce(Spec) -> Spec) -> (Vec<String>, Host) {
    let mut host = Host::new();
    let spec = Spec::shell(script).restart(MCP_SUPERVISED_NO_RESTART, 0, 60_000);
    let peer = host.launch(&shape(spec));
    host.to_the_end(peer);
    (lines(&host.seen, SERVER), host)
}

#[test]
fn p08_control_bytes_are_escaped() {
    let script = r"printf 'plain\n\033[31mred\033[0m\n\a\000\t.\nbytes \377\376 \303\050\nutf-8 \350\257\273\ncr\r\n\n\r\nlast' >&2";
    let (lines, host) = said(script, |spec| spec);
    let expected =
        ["plain", "\\x1b[31mred\\x1b[0m", "\\x07\\x00\\x09.", "bytes \\xff\\xfe \\xc3(", "utf-8 读", "cr", "last"];
    assert_eq!(lines, expected, "blank ones left out");
    assert_eq!(host.last_close().text(), expected.join("\n"));
}

#[test]
fn p08_lines_are_bounded() {
    let script = "printf '%0100d\\n' 1 >&2; printf '%064d\\n' 2 >&2; head -c 1000000 /dev/zero | tr '\\0' x >&2; echo >&2; \
                  echo short >&2";
    let bounded = |spec: Spec| spec.limit(MCP_SUPERVISED_LIMIT_LOG_LINE_BYTES, 64);
    let (lines, _) = said(script, bounded);
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(lines[0], "0".repeat(61) + "...");
    assert_eq!(lines[1], "0".repeat(63) + "2", "exactly the limit stays whole");
    assert_eq!(lines[2], "x".repeat(61) + "...");
    assert_eq!(lines[3], "short");
    let (lines, _) = said("head -c 10000 /dev/zero | tr '\\0' x >&2", |spec| spec);
    assert_eq!(lines[0].len(), 4_096, "the default");
}

/// A server that said a lot and died, and a host that takes nothing until then.
fn ring(script: &str, log_lines: u64) -> Vec<Event> {
    let mut host = Host::new();
    let spec = Spec::shell(script).restart(MCP_SUPERVISED_NO_RESTART, 0, 60_000);
    let peer = host.launch(&spec.limit(MCP_SUPERVISED_LIMIT_LOG_LINES, log_lines));
    host.reach(peer, MCP_SUPERVISED_STATE_CLOSED);
    let told = host.to_the_end(peer);
    assert_eq!(letters(&told), "D C X", "nothing but log lines was dropped");
    told.into_iter().filter(|e| e.is(MCP_SUPERVISED_EVENT_LOG)).collect()
}

#[test]
fn f02_the_ring_drops_the_oldest_and_counts_them() {
    let hundred = "i=1; while [ $i -le 100 ]; do echo line $i >&2; i=$((i+1)); done";
    let kept = ring(hundred, 4);
    // The library's own line about the exhaustion is the last of them.
    let texts: Vec<String> = kept.iter().map(Event::text).collect();
    assert_eq!(texts[..3], ["line 98", "line 99", "line 100"]);
    assert_eq!(kept.len(), 4);
    assert_eq!(kept.iter().map(|e| e.count).collect::<Vec<_>>(), [97, 0, 0, 0]);

    let kept = ring(hundred, 1_000);
    assert_eq!(kept.len(), 101);
    assert!(kept.iter().all(|e| e.count == 0));
    assert_eq!(kept[0].text(), "line 1");

    // 64 KiB in all, whatever the number of lines.
    let kept = ring("i=1; while [ $i -le 100 ]; do printf '%02000d\\n' $i >&2; i=$((i+1)); done", 1_000);
    let bytes: usize = kept.iter().map(|e| e.payload.len()).sum();
    assert!(bytes <= 64 << 10 && bytes > 60 << 10, "{bytes}");
    assert_eq!(kept[0].count as usize + kept.len(), 101);
    let expected = format!("{:02000}", kept[0].count + 1);
    assert_eq!(kept[0].text(), expected, "the oldest were dropped");
}

/// stderr is read although the host takes nothing and its queue is full; else the server would stand still.
#[test]
fn f02_stderr_is_drained_whatever_the_queue_looks_like() {
    let scratch = Scratch::new();
    let done = scratch.name("done");
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]).limit(MCP_SUPERVISED_LIMIT_EVENT_QUEUE, 1));
    for (n, tool) in ["echo", "echo", "echo"].into_iter().enumerate() {
        host.call(peer, &format!("e-{n}"), tool, json!({"message": "x"}));
    }
    host.call(peer, "noisy", "stderr", json!({"bytes": 2_000_000}));
    host.call(peer, "done", "ledger", json!({"path": done, "text": "done"}));
    host.drive_until("the server got through", |_| scratch.read("done") == "done\n");
    let told = host.until(|e| e.id == b"\"done\"");
    assert_eq!(letters(&told), "M M M M M");
    let logged: Vec<&Event> = told.iter().filter(|e| e.is(MCP_SUPERVISED_EVENT_LOG)).collect();
    assert!(logged.len() <= 256 && logged[0].count > 20_000, "{} kept, {} dropped", logged.len(), logged[0].count);
}

/// 256 KiB before each answer and megabytes at the start cost nothing but time (BP-01).
#[test]
fn f02_a_noisy_server_answers() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&["--stderr-bytes-at-start", "4000000", "--stderr-per-answer", "262144"]));
    for n in 0..5 {
        let id = n.to_string();
        host.call(peer, &id, "echo", json!({"message": "x"}));
        host.answer(&id);
    }
}

#[test]
fn p08_inherit_is_the_hosts_own_stderr() {
    alone!(&[], |output| {
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.matches("for the host's own stderr").count(), 2, "{said}");
    });
    let mut host = Host::new().stepwise();
    let spec = Spec::demo(&["--stderr-at-start", "for the host's own stderr"]).stderr(MCP_SUPERVISED_STDERR_INHERIT);
    let peer = host.launch(&spec.restart(3, 0, 60_000));
    host.call(peer, "a", "pid", json!({}));
    host.answer("a");
    kill9(host.pid(peer));
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    host.call(peer, "b", "pid", json!({}));
    host.answer("b");
    assert_eq!(lines(&host.seen, SERVER), [] as [String; 0]);
    assert_eq!(host.last_close().payload, b"");
}

#[test]
fn p08_null_is_nowhere() {
    let scratch = Scratch::new();
    let done = scratch.name("done");
    let mut host = Host::new();
    let spec = Spec::demo(&[]).stderr(MCP_SUPERVISED_STDERR_NULL).restart(MCP_SUPERVISED_NO_RESTART, 0, 60_000);
    let peer = host.launch(&spec);
    host.call(peer, "noisy", "stderr", json!({"bytes": 1_000_000}));
    host.call(peer, "done", "ledger", json!({"path": done, "text": "done", "crash": 3}));
    host.drive();
    // Nobody polls, and the server gets through.
    wait_for("the server got through", || scratch.read("done") == "done\n");
    host.to_the_end(peer);
    assert_eq!(lines(&host.seen, SERVER), [] as [String; 0]);
    assert_eq!(host.last_close().payload, b"");
    assert_eq!(host.last_close().exit_code, 3);
}

/// The last words of one life are not those of the next.
#[test]
fn p08_the_tail_is_of_one_life() {
    let scratch = Scratch::new();
    let lives = scratch.name("lives");
    let mut host = Host::new().stepwise();
    let spec = Spec::demo(&["--lives", &lives, "--in-life", "1", "--stderr-at-start", "words of life 1"]);
    let peer = host.launch(&spec.restart(3, 0, 60_000));
    for (id, tail) in [("a", "words of life 1"), ("b", ""), ("c", "")] {
        host.call(peer, id, "pid", json!({}));
        host.answer(id);
        kill9(host.pid(peer));
        let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
        assert_eq!(close.text(), tail);
        host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    }
}

#[test]
fn p10_one_warning_for_each_restart_and_one_error_at_the_end() {
    let mut host = Host::new().stepwise();
    let peer = host.launch(&Spec::demo(&[]).restart(2, 7, 60_000));
    host.call(peer, "a", "crash", json!({"code": 13}));
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    host.call(peer, "b", "crash", json!({"signal": 11}));
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    kill9(host.pid(peer));
    host.to_the_end(peer);
    let warnings = lines(&host.seen, WARNING);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    for (text, words) in warnings.iter().zip([["exit code 13", "1 of 2", "7 ms"], ["signal 11", "2 of 2", "7 ms"]]) {
        assert!(words.iter().all(|word| text.contains(word)), "{words:?}: {text}");
    }
    let errors = lines(&host.seen, ERROR);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(["signal 9", "budget of 2"].iter().all(|word| errors[0].contains(word)), "{errors:?}");
    // Each stands before the CLOSE it is about.
    let order: Vec<&str> = host.seen.iter().map(Event::letter).collect();
    assert_eq!(order, ["LOG", "D", "C", "R", "LOG", "D", "C", "R", "LOG", "D", "C", "X"]);
}

#[test]
fn p10_failed_spawns_warn_too() {
    let scratch = Scratch::new();
    let mut host = Host::new().stepwise();
    let spec = Spec::new(scratch.link("server")).mode(MCP_SUPERVISED_MODE_RAW);
    let peer = host.launch(&spec.restart(2, 1, 60_000));
    scratch.remove("server");
    kill9(host.pid(peer));
    host.to_the_end(peer);
    assert_eq!(letters(&host.seen), "D C E E X C");
    let warnings = lines(&host.seen, WARNING);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[1].contains("unknown") && warnings[1].contains("2 of 2"), "{warnings:?}");
    assert_eq!(lines(&host.seen, ERROR).len(), 1);
}

#[test]
fn p10_an_asked_end_is_no_warning() {
    let mut host = with_level(MCP_SUPERVISED_LOG_WARNING);
    let peer = host.launch(&Spec::demo(&[]));
    assert_eq!(host.close(peer), 0);
    host.to_the_end(peer);
    let peer = host.launch(&Spec::demo(&[]).restart(3, 60_000, 600_000));
    kill9(host.pid(peer));
    host.next(MCP_SUPERVISED_EVENT_CLOSE);
    assert_eq!(host.close(peer), 0);
    host.to_the_end(peer);
    assert_eq!(lines(&host.seen, WARNING).len(), 1, "that of the death");
    assert_eq!(lines(&host.seen, ERROR), [] as [String; 0]);
}

#[test]
fn p10_the_level_is_the_hosts_choice() {
    for (level, warnings) in
        [(MCP_SUPERVISED_LOG_ERROR, 0), (MCP_SUPERVISED_LOG_WARNING, 1), (MCP_SUPERVISED_LOG_INFO, 1)]
    {
        let mut host = with_level(level);
        let spec = Spec::demo(&["--stderr-at-start", "always told", "--exit-at-start", "3"]);
        let peer = host.launch(&spec.restart(1, 0, 60_000));
        host.to_the_end(peer);
        assert_eq!(lines(&host.seen, SERVER), ["always told"; 2]);
        assert_eq!(lines(&host.seen, WARNING).len(), warnings, "{level:?}");
        assert_eq!(lines(&host.seen, ERROR).len(), 1, "{level:?}");
    }
}
