//! Life and death of the child: deaths are seen, told and paid for; nobody is left, and no stranger is hit.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::served::*;
use crate::support::watch::{run_again_behind, signal};
use crate::support::*;

/// The numbers of all living processes whose command line has that mark in it.
fn marked(mark: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        lives(*pid) && words.windows(mark.len()).any(|part| part == mark.as_bytes())
    })
    .collect()
}

/// A number that no other test has in its command lines.
fn mark() -> String {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    format!("mark-{}-{}", std::process::id(), NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
}

/// The kind: requests are pending when the process ends, by any way of ending. They end with its CLOSE, not with their deadlines,
/// each once; with retry on, those that only read are answered by the replacement.
#[test]
fn lt_01_what_is_pending_ends_with_the_process() {
    for death in [json!({"signal": 9}), json!({"code": 1}), json!({"signal": 11}), json!({"code": 0})] {
        for retry in [false, true] {
            let spec = Spec::modern(&["--mute", "resources/list"]).restart(3, 10, 60_000).timeouts(u64::MAX, u64::MAX);
            let spec = if retry { spec.retry() } else { spec };
            let mut server = Served::by(Host::new(), &spec);
            let peer = server.peer;
            let calls = [0; 2].map(|_| server.asks("silent", json!({})));
            let list = server.ask(peer, "resources/list", json!({}));
            let dies = server.asks("crash", death.clone());
            let told = server.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
            assert_eq!(letters(&told), if retry { "D C E E E R" } else { "D C E E E E R" }, "{death}");
            for id in calls.into_iter().chain([dies]) {
                let end = completion_of(&told, id).unwrap();
                assert_eq!((end.status, end.flags), (CLOSED, MCP_SUPERVISED_FLAG_COMPLETE));
            }
            assert_eq!(completion_of(&told, list).is_none(), retry);
        }
    }
}

/// The kind: a server that ends at once and calls it success: before it reads, after a line, in the middle of one. A death like
/// any other, and the last one ends it all.
#[test]
fn lt_02_an_exit_with_status_0_is_a_death() {
    for flags in [
        &["--exit-at-start", "0"][..],
        &["--exit-after-read", "1", "--exit-code", "0"],
        &["--exit-after", "1", "--exit-code", "0"],
    ] {
        let mut host = Host::new();
        let peer = host.launch(&Spec::modern(flags).restart(3, 1, 60_000));
        let mut closes = 0;
        loop {
            // Where it lives until it is asked.
            let _ = host.try_ask(peer, "tools/list", "{}", None);
            let told = host.until(|e| e.is(MCP_SUPERVISED_EVENT_CLOSE) || e.is_final());
            for close in told.iter().filter(|e| e.is(MCP_SUPERVISED_EVENT_CLOSE)) {
                closes += 1;
                assert_eq!(
                    (close.exit_code, close.signal, close.attempt),
                    (0, 0, if closes < 4 { closes } else { 0 }),
                    "{flags:?}"
                );
                assert_eq!(close.will_reconnect(), closes < 4);
            }
            if told.iter().any(Event::is_final) {
                break;
            }
            host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT) || e.is_final());
            if host.seen.iter().any(Event::is_final) {
                break;
            }
        }
        assert_eq!(host.seen.last().map(Event::letter), Some("X"));
    }
}

/// The kind: why did it die? Status or signal, pid, and the end of what it said, however much, with or without a word on stdout.
#[test]
fn lt_03_a_close_says_why() {
    let last = "ModuleNotFoundError: x";
    for (script, code, signal) in [
        ("echo '{\"jsonrpc\":\"2.0\",\"method\":\"a\"}'; echo LAST >&2; exit 3", 3, 0),
        ("echo LAST >&2; exit 3", 3, 0),
        ("printf 'LAST' >&2; exit 255", 255, 0),
        ("echo LAST >&2; kill -SEGV $$", -1, 11),
        ("echo LAST >&2; kill -KILL $$", -1, 9),
        ("yes noise | head -n 20000 >&2; echo LAST >&2; exit 1", 1, 0),
        ("exec >&-; echo LAST >&2; exit 4", 4, 0),
    ] {
        let mut host = Host::new();
        let peer = host.launch(&Spec::shell(&script.replace("LAST", last)).restart(MCP_SUPERVISED_NO_RESTART, 0, 1));
        let pid = host.pid(peer);
        let close = host.next(MCP_SUPERVISED_EVENT_CLOSE);
        assert_eq!((close.pid, close.exit_code, close.signal, close.life), (pid, code, signal, 1), "{script}");
        assert!(close.text().trim_end().ends_with(last), "{script}: {}", close.text());
        assert!(close.payload.len() < 64 << 10);
    }
}

/// The kind: somebody else holds a pipe of the dead. stdout, stderr, or both, silent or chattering: the exit is seen, the next
/// life comes soon and hears nothing of it; nor does a close wait.
#[test]
fn lt_05_a_grandchild_that_holds_the_pipes_holds_nothing_up() {
    // A number of our own, since others sleep too.
    let sleep = format!("sleep 600.{}", std::process::id());
    for background in ["SLEEP &", "SLEEP 2>/dev/null &", "SLEEP >/dev/null &", "yes note &", "setsid SLEEP &"] {
        let script = format!("{} read a; exit 1", background.replace("SLEEP", &sleep));
        let began = Instant::now();
        let mut host = Host::new();
        let peer = host.launch(&Spec::shell(&script).restart(1, 1, 60_000).stop_grace(10_000, 10_000));
        host.send(peer, "{\"jsonrpc\":\"2.0\",\"method\":\"go\"}");
        let told = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
        let close = told.iter().find(|e| e.is(MCP_SUPERVISED_EVENT_CLOSE)).unwrap();
        assert_eq!(close.exit_code, 1, "{background}");
        assert_eq!(host.close(peer), 0);
        host.to_the_end(peer);
        assert!(began.elapsed() < Duration::from_secs(30), "{background}: {:?}", began.elapsed());
        assert_eq!(host.last_close().exit_code, 1);
    }
    // Those that left their group are not the library's to end.
    marked(&format!("600.{}", std::process::id())).into_iter().for_each(kill9);
}

/// The kind: a close of a server that would leave by itself. Its end of input comes first, nothing is signalled while it works,
/// and nothing is waited for when it has gone.
#[test]
fn lt_09_a_server_that_leaves_is_let_go() {
    for slow in ["0", "200"] {
        let scratch = Scratch::new();
        let mut server = Served::new(&["--slow-exit", slow, "--exit-file", &scratch.name("file")]);
        server.goes_on();
        let began = Instant::now();
        server.closes();
        let close = server.last_close();
        assert_eq!((close.exit_code, close.signal), (0, 0));
        assert_eq!(scratch.read("file"), "finished\n");
        assert!(began.elapsed() < Duration::from_secs(6), "the usual grace was waited for: {:?}", began.elapsed());
    }
}

/// The kind: a server that does not leave. It ignores, it is stopped, it spins, it reads nothing, it fills its pipes: the ladder
/// ends it in the time that the host gave, and another peer is served meanwhile.
#[test]
fn lt_10_a_server_that_stays_is_ended() {
    let stubborn: [&[&str]; 4] = [
        &["--ignore-eof", "--ignore-sigterm"],
        &["--ignore-eof", "--ignore-sigterm", "--no-read"],
        &["--ignore-eof", "--ignore-sigterm", "--chatter", "0"],
        &["--ignore-eof"],
    ];
    let mut server = Served::new(&[]);
    for (flags, stop) in stubborn.into_iter().map(|flags| (flags, false)).chain([(&[][..], true), (stubborn[0], true)])
    {
        let peer = server.launch(&Spec::modern(flags).stop_grace(50, 50));
        let pid = server.pid_of(peer);
        // One that writes all the time never comes to rest: what counts of its setup is that SIGTERM has a handler.
        let chatters = flags.contains(&"--chatter");
        wait_for(
            "it has set itself up",
            || if chatters { catches(pid, libc::SIGTERM) } else { watch::is_settled(pid) },
        );
        if stop {
            signal(pid, libc::SIGSTOP);
            wait_state(pid, 'T');
        }
        assert_eq!(server.host.close(peer), 0);
        server.goes_on_beside();
        server.to_the_end(peer);
        let close = server.last_close();
        assert_eq!((close.peer, close.exit_code), (peer, -1), "{flags:?}");
        let expected = if flags == stubborn[3] { libc::SIGTERM } else { libc::SIGKILL };
        assert_eq!(close.signal, expected, "{flags:?}");
        assert_eq!(state_of(pid), None, "reaped");
    }
}

/// Whether a process has a handler for a signal.
fn catches(pid: i32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// The kind: what was started is a launcher, and the server behind it. A shell that waits, a launcher that has a shell wait,
/// one that ignores everything: nothing of it lives after a close, and nothing of the last life when the next one serves.
#[test]
fn lt_11_nothing_stays_behind_a_launcher() {
    let server = demo_server();
    for script in ["SERVER; true", "sh -c 'SERVER; true'; true", "trap '' TERM HUP; SERVER; true", "SERVER & wait"] {
        let mark = mark();
        let command = format!("'{server}' --ignore-eof --ignore-sigterm -- {mark} <&3 3<&-");
        let mut host = Host::new().stepwise();
        let spec = modern("/bin/sh").arg("-c").arg(format!("exec 3<&0; {}", script.replace("SERVER", &command)));
        let peer = host.launch(&spec.restart(3, 1, 60_000).stop_grace(50, 50));
        let inner = |host: &mut Host| -> i32 {
            let id = host.ask_tool(peer, "pid", json!({}));
            host.completion(id).tool_text().parse().unwrap()
        };
        let first = inner(&mut host);
        assert_ne!(first, host.pid(peer), "{script}: behind a launcher");
        // The launcher alone dies.
        kill9(host.pid(peer));
        host.next(MCP_SUPERVISED_EVENT_RECONNECT);
        assert!(!lives(first), "{script}");
        let second = inner(&mut host);
        host.close(peer);
        host.to_the_end(peer);
        assert!(!lives(second), "{script}");
        wait_for("all of it is gone", || marked(&mark).is_empty());
    }
}

/// The kind: the host ends without a word. No sibling holds the servers' input open, so they see its end and leave.
#[test]
fn lt_13_servers_end_with_a_host_that_is_killed() {
    const VARIABLE: &str = "FAULTS_HOST";
    if std::env::var_os(VARIABLE).is_some() {
        let mut host = Host::new();
        let pids: Vec<String> = (0..5)
            .map(|_| {
                let peer = host.launch(&Spec::modern(&[]));
                let id = host.ask_tool(peer, "pid", json!({}));
                host.completion(id).tool_text()
            })
            .collect();
        println!("\nservers {}", pids.join(" "));
        loop {
            host.poll(-1);
        }
    }
    for _ in 0..3 {
        let mut host = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "lives::lt_13_servers_end_with_a_host_that_is_killed", "--nocapture"])
            .env(VARIABLE, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(host.stdout.take().unwrap()).lines().map_while(Result::ok);
        let line = lines.into_iter().find(|line| line.starts_with("servers ")).expect("they were started");
        let pids: Vec<i32> = line.split(' ').skip(1).map(|pid| pid.parse().unwrap()).collect();
        assert_eq!(pids.len(), 5);
        host.kill().unwrap();
        host.wait().unwrap();
        pids.into_iter().for_each(wait_gone);
    }
}

/// The kind: a child is not waited for. Deaths by all causes, failed starts, a free in every state, without a poll behind it.
#[test]
fn lt_14_no_zombie_is_left() {
    alone!();
    let mut host = Host::new().stepwise();
    let peer = host.launch(&Spec::modern(&[]).restart(MCP_SUPERVISED_UNLIMITED, 0, 60_000));
    for n in 0..50 {
        match n % 3 {
            0 => kill9(host.pid(peer)),
            1 => drop(host.ask_tool(peer, "crash", json!({}))),
            _ => drop(host.ask_tool(peer, "exit", json!({"code": 0}))),
        }
        host.next(MCP_SUPERVISED_EVENT_RECONNECT);
        assert_eq!(children(), [host.pid(peer)], "after {} deaths", n + 1);
    }
    for program in ["no-such-program", "/", "/etc/passwd"] {
        let broken = host.add(&Spec::new(program));
        assert_eq!(host.start(broken), SPAWN);
    }
    assert_eq!(children(), [host.pid(peer)]);
    host.close(peer);
    host.to_the_end(peer);
    assert_eq!(children(), [] as [i32; 0]);
    // Freed while it runs, while it closes, while a replacement is awaited, dead and not yet looked at.
    for how in 0..4 {
        let mut host = Host::new();
        let peer = host.launch(&Spec::modern(&["--ignore-eof"]).restart(3, 60_000, 600_000));
        match how {
            0 => {}
            1 => drop(host.close(peer)),
            2 => {
                kill9(host.pid(peer));
                host.next(MCP_SUPERVISED_EVENT_CLOSE);
            }
            _ => {
                kill9(host.pid(peer));
                wait_gone(host.pid(peer));
            }
        }
        assert_eq!(host.free(), 0);
        assert_eq!(children(), [] as [i32; 0], "freed in way {how}");
    }
}

/// What is done by `lt_15` under a tracer: servers end at every step of the ladder.
fn ladders() {
    let mut host = Host::new();
    for flags in [
        &["--graceful", "--ignore-eof"][..],
        &["--ignore-eof"],
        &[],
        &["--ignore-eof", "--ignore-sigterm"],
        &["--exit-at-start", "1"],
    ] {
        let peer = host.launch(&Spec::modern(flags).restart(1, 1, 60_000).stop_grace(20, 20));
        if flags.contains(&"--exit-at-start") {
            host.next(MCP_SUPERVISED_EVENT_RECONNECT);
        }
        host.close(peer);
        host.to_the_end(peer);
    }
}

/// The kind: a number of a process that was waited for is used once more. With a tracer: after a wait that gave a pid, no signal
/// goes to it or to its group.
#[test]
fn lt_15_no_signal_to_a_process_that_was_reaped() {
    signals_after_reaping("lives::lt_15_no_signal_to_a_process_that_was_reaped");
}

/// Runs `ladders` under a tracer, in a process of its own, as the test of that name.
pub fn signals_after_reaping(test: &str) {
    if std::env::var(ALONE).as_deref() == Ok(test) {
        return ladders();
    }
    for without in ["nothing", "pidfd"] {
        let scratch = Scratch::new();
        let log = scratch.name("log");
        let without = format!("MCP_SUPERVISED_WITHOUT={without}");
        let calls = "trace=kill,tgkill,pidfd_send_signal,wait4,waitid";
        let tracer = ["strace", "-f", "-qq", "-o", &log, "-E", &without, "-e", calls];
        let Ok(output) = run_again_behind(&tracer, test) else {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "strace is missing");
            println!("skipped: strace is not installed");
            return;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let (signals, reaped) = signals_and_reaped(&scratch.read("log"));
        assert!(signals >= 4 && reaped >= 6, "{without}: {signals} signals, {reaped} reaped:\n{}", scratch.read("log"));
    }
}

/// Goes through what a tracer saw: how many signals were sent, and how many processes were waited for. One that was waited for
/// must not be signalled afterwards, nor its group.
fn signals_and_reaped(log: &str) -> (usize, usize) {
    let number = |text: &str| -> i32 {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    };
    let mut reaped = std::collections::BTreeSet::new();
    let mut signals = 0;
    for line in log.lines() {
        let call = line.split_once(' ').map_or("", |(_, rest)| rest.trim());
        if let Some(rest) = call.strip_prefix("kill(") {
            let target = number(rest.trim_start_matches('-'));
            assert!(!reaped.contains(&target), "{target} was waited for, and then: {line}");
            signals += 1;
        } else if call.starts_with("pidfd_send_signal(") {
            // Such a descriptor names one process for good.
            signals += 1;
        } else if call.contains("si_pid=") && call.contains("WEXITED") && !call.contains("WNOWAIT") {
            let (_, rest) = call.split_once("si_pid=").expect("it has one");
            reaped.insert(number(rest));
        } else if call.starts_with("wait4(")
            && let Some((_, pid)) = call.rsplit_once("= ")
        {
            reaped.insert(number(pid));
        }
    }
    (signals, reaped.len())
}

/// The kind: each life leaves something in the host. 500 deaths, failed starts for each reason: descriptors, threads and memory
/// are what they were.
#[test]
fn lt_16_restarts_leave_nothing_in_the_host() {
    alone!(&[AS_IT_IS], |_| {});
    let resident = || -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
    };
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let mut host = Host::new().stepwise();
    let peer = host.launch(&Spec::modern(&[]).restart(MCP_SUPERVISED_UNLIMITED, 0, 60_000).retry());
    let mut at_50 = None;
    for death in 1..=500 {
        host.ask(peer, "tools/list", json!({}));
        kill9(host.pid(peer));
        host.next(MCP_SUPERVISED_EVENT_RECONNECT);
        host.seen.clear();
        for (program, cwd) in [("no-such-program", "/"), ("/", "/"), ("/bin/true", "/no/such/directory")] {
            if death % 10 == 0 {
                let broken = host.add(&Spec::new(program).cwd(cwd));
                assert_eq!(host.start(broken), SPAWN);
                assert_eq!(host.remove(broken), 0);
            }
        }
        match (death, at_50) {
            (50, _) => at_50 = Some((open_descriptors(), threads(), resident())),
            (500, Some((descriptors, tasks, memory))) => {
                assert_eq!((open_descriptors(), threads()), (descriptors, tasks));
                let grown = resident().saturating_sub(memory);
                assert!(grown < 1_024, "{grown} KiB in 450 deaths");
            }
            _ => {}
        }
    }
}

/// The kind: a server that lives and does nothing. Stopped, asleep for good, spinning: deadlines pass, the server would be told,
/// nobody is replaced for it, and a close ends it.
#[test]
fn lt_18_a_server_that_hangs_is_waited_for_until_the_deadline_and_ended_by_close() {
    for how in ["stop", "hang", "spin"] {
        let spec =
            if how == "spin" { modern("/bin/sh").arg("-c").arg("while :; do :; done") } else { Spec::modern(&[]) };
        let spec = spec.timeouts(1_000, 5_000).stop_grace(100, 100);
        let mut server = Served::by(Host::with_manual_clock(), &spec);
        let (peer, pid) = (server.peer, server.pid);
        if how != "spin" {
            server.goes_on();
            server.asks(how, json!({}));
            server.drive_until("it hangs", |_| state_of(pid) == Some('T') || (how == "hang" && watch::is_settled(pid)));
        }
        let ids = [0; 3].map(|_| server.ask_tool(peer, "echo", json!({"message": "x"})));
        server.drive();
        server.advance_ms(1_000);
        for id in ids {
            assert_eq!(server.completion(id).status, TIMEOUT, "{how}");
        }
        assert_eq!((server.host.pid(peer), server.host.state(peer)), (pid, MCP_SUPERVISED_STATE_RUNNING as i32));
        assert!(!server.seen.iter().any(|e| matches!(e.letter(), "D" | "C")), "{how}: no restart for that");
        assert_eq!(server.host.close(peer), 0);
        server.next(MCP_SUPERVISED_EVENT_DRAIN);
        server.drive();
        server.advance_ms(100);
        server.drive();
        server.advance_ms(100);
        server.to_the_end(peer);
        // A stopped process is told of SIGTERM only when it goes on.
        let by = server.last_close().signal;
        assert!(by == libc::SIGKILL || (how != "stop" && by == libc::SIGTERM), "{how}: {by}");
    }
}
