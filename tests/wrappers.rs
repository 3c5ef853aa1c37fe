//! Commands that start the true server and wait for it, `npx …` and `sh -c '…'`, with the protocol client in both eras: the whole
//! tree goes with the connection, and what is left of it when only the wrapper dies never answers for the replacement (L6).

#[path = "support/installed.rs"]
mod installed;
mod support;

use installed::{Way, group, servers, tree};
use serde_json::{Value, json};
use support::*;

const UPDATED: &[u8] = b"notifications/resources/updated";
const CHATTER: &[u8] = b"notifications/message";

/// How the server is wrapped: by a shell, by a shell in a shell, by a program of its own.
const WRAPPERS: [&[&str]; 3] = [
    &["/bin/sh", "-c", r#""$@"; exit $?"#, "wrapper"],
    &["/bin/sh", "-c", r#"sh -c '"$@"; exit $?' shell "$@"; exit $?"#, "launcher"],
    &[],
];

/// The eras, as flags of the demo server; the older one is watched for the rules that a client can break.
const ERAS: [(&str, &[&str]); 3] = [
    ("2026-07-28", &[]),
    ("2025-11-25", &["--legacy", "2025-11-25", "--strict"]),
    ("2024-11-05", &["--legacy", "2024-11-05", "--strict"]),
];

/// The demo server behind a wrapper.
fn wrapped(wrapper: &[&str], flags: &[&str]) -> Spec {
    let own = [demo_server(), "--wrap"];
    let words: Vec<&str> = match wrapper {
        [] => own.to_vec(),
        wrapper => [wrapper, &own[..1]].concat(),
    };
    let spec = Spec::new(words[0]).mode(MCP_SUPERVISED_MODE_AUTO).restart(5, 10, 60_000);
    words[1..].iter().chain(flags).fold(spec, |spec, word| spec.arg(word))
}

/// A server that serves: the process that the library has started, and all there are.
struct Up {
    leader: i32,
    all: Vec<i32>,
}

impl Up {
    fn look(host: &mut Host, peer: u64) -> Self {
        let call = host.ask_tool(peer, "pid", json!({}));
        let server = host.completion(call).tool_text().parse().expect("a number");
        let leader = host.pid(peer);
        let all = tree(leader);
        assert!(all.contains(&server) && server != leader, "{server} runs behind {leader}: {all:?}");
        Self { leader, all }
    }

    fn is_gone(&self) {
        assert_eq!(group(self.leader), [0; 0], "of the group of {}", self.leader);
        assert!(self.all.iter().all(|pid| !lives(*pid)), "{:?}", self.all);
    }
}

/// Runs a test for every wrapper and era.
fn each(test: impl Fn(&[&str], &str, &[&str])) {
    for wrapper in WRAPPERS {
        for (version, flags) in ERAS {
            test(wrapper, version, flags);
        }
    }
}

/// The host of a wrapped server that serves.
fn serving(wrapper: &[&str], version: &str, flags: &[&str]) -> (Host, u64) {
    let mut host = Host::new();
    let peer = host.launch(&wrapped(wrapper, flags));
    assert_eq!(host.next(MCP_SUPERVISED_EVENT_READY).text(), version);
    (host, peer)
}

#[test]
fn l06_the_tree_is_gone_after_close() {
    each(|wrapper, version, flags| {
        let (mut host, peer) = serving(wrapper, version, flags);
        let up = Up::look(&mut host, peer);
        assert_eq!(host.close(peer), 0);
        host.to_the_end(peer);
        let close = host.last_close();
        assert_eq!((close.exit_code, close.signal), (0, 0), "{}", close.text());
        up.is_gone();
    });
}

/// One that does not leave by itself is ended, and so is what waits for it.
#[test]
fn p06_the_tree_is_gone_after_the_ladder() {
    each(|wrapper, version, flags| {
        let stubborn = [flags, &["--ignore-eof", "--ignore-sigterm"]].concat();
        let mut host = Host::new();
        let peer = host.launch(&wrapped(wrapper, &stubborn).stop_grace(50, 50));
        assert_eq!(host.next(MCP_SUPERVISED_EVENT_READY).text(), version);
        let up = Up::look(&mut host, peer);
        assert_eq!(host.close(peer), 0);
        host.to_the_end(peer);
        up.is_gone();
    });
}

#[test]
fn p07_the_tree_is_gone_after_free() {
    each(|wrapper, version, flags| {
        let (mut host, peer) = serving(wrapper, version, flags);
        let up = Up::look(&mut host, peer);
        host.ask_tool(peer, "sleep", json!({"ms": 600_000}));
        assert_eq!(host.free(), 0);
        up.all.iter().for_each(|pid| wait_gone(*pid));
        up.is_gone();
    });
}

/// The wrapper is killed alone, in the middle of calls: the orphan holds both pipes, writes all the time and would answer soon. It
/// is gone when the replacement serves; nobody hears of it after the CLOSE, and what was asked of it is lost.
#[test]
fn l06_no_orphan_answers_for_the_replacement() {
    each(|wrapper, version, flags| {
        let (mut host, peer) = serving(wrapper, version, &[flags, &["--chatter", "1"]].concat());
        let filter = json!({"resourceSubscriptions": ["mem://counter"]});
        let stream = host.listen(peer, filter, 0);
        host.acknowledged(stream, 1);
        for life in 1..=3 {
            let up = Up::look(&mut host, peer);
            let bumped = host.ask_tool(peer, "bump", json!({}));
            assert_eq!(host.completion(bumped).tool_text(), "1", "the counter of a new life");
            let soon: Vec<u64> = (1..=5).map(|n| host.ask_tool(peer, "sleep", json!({"ms": 40 * n}))).collect();
            let from = host.seen.len();
            kill9(up.leader);
            let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
            up.is_gone();
            let order: Vec<&Event> = taken.iter().filter(|e| !e.is(MCP_SUPERVISED_EVENT_LOG)).collect();
            let at = |kind| order.iter().position(|e| e.is(kind)).expect("it was seen");
            let (close, again) = (at(MCP_SUPERVISED_EVENT_CLOSE), at(MCP_SUPERVISED_EVENT_RECONNECT));
            assert_eq!((order[close].signal, order[close].life), (libc::SIGKILL, life));
            // From the CLOSE to the RECONNECT there are the losses, and nothing that a server said.
            for event in &order[close + 1..again] {
                assert!(event.is(MCP_SUPERVISED_EVENT_ERROR) && soon.contains(&event.request), "{event:?}");
            }
            for id in soon {
                let done = host.completion(id);
                if done.is(MCP_SUPERVISED_EVENT_ERROR) {
                    assert_eq!(done.status, MCP_SUPERVISED_E_CLOSED as i32, "{}", done.text());
                } else {
                    // It was in the pipe when the wrapper died.
                    assert!(host.seen[from..].iter().any(|e| e.request == id && e.is_complete()));
                }
            }
            host.acknowledged(stream, life as usize + 1);
            // What the replacement says begins at its beginning: not one line of the orphan's is between.
            host.until(|e| e.method == CHATTER);
            let reconnected =
                host.seen.iter().rposition(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT)).expect("it was seen");
            let number = |e: &Event| e.json()["params"]["data"]["n"].as_u64().expect("a number");
            let numbers: Vec<u64> =
                host.seen[reconnected..].iter().filter(|e| e.method == CHATTER).map(number).collect();
            assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
        }
        let last = Up::look(&mut host, peer);
        let bumped = host.ask_tool(peer, "bump", json!({}));
        host.completion(bumped);
        let told: Vec<&Event> = host.seen.iter().filter(|e| e.request == stream && e.method == UPDATED).collect();
        assert_eq!(told.len(), 4, "one in each life");
        assert_eq!(host.close(peer), 0);
        host.to_the_end(peer);
        last.is_gone();
    });
}

/// A server that leaves when it is asked what it speaks takes its wrapper with it: that is an answer, behind a wrapper too, and the
/// next process is asked the older way, for nothing.
#[test]
fn z02_a_server_behind_a_wrapper_leaves_at_the_probe() {
    for wrapper in WRAPPERS {
        let flags = ["--legacy", "2025-06-18", "--strict", "--before-initialize", "exit:1"];
        let (mut host, peer) = serving(wrapper, "2025-06-18", &flags);
        let ready = host.seen.iter().find(|e| e.is(MCP_SUPERVISED_EVENT_READY)).expect("it was seen");
        assert_eq!((ready.life, letters(&host.seen).as_str()), (1, "READY"));
        let up = Up::look(&mut host, peer);
        kill9(up.leader);
        let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
        assert_eq!(letters(&taken), "D C R", "it is not asked again what it speaks");
        up.is_gone();
        let up = Up::look(&mut host, peer);
        assert_eq!(host.close(peer), 0);
        host.to_the_end(peer);
        up.is_gone();
    }
}

/// A wrapper that dies while the server behind it has not answered the handshake yet.
#[test]
fn l06_a_wrapper_dies_before_its_server_serves() {
    for wrapper in WRAPPERS {
        let scratch = Scratch::new();
        let (lives_file, ledger) = (scratch.name("lives"), scratch.name("ledger"));
        let flags = [
            "--lives",
            &lives_file,
            "--ledger",
            &ledger,
            "--legacy",
            "2025-11-25",
            "--strict",
            "--in-life",
            "1",
            "--on-initialize",
            "ignore",
        ];
        let mut host = Host::new();
        let peer = host.launch(&wrapped(wrapper, &flags));
        let waits = host.ask_tool(peer, "echo", json!({"message": "x"}));
        host.drive_until("initialize was read", |_| scratch.read("ledger").contains("initialize"));
        let leader = host.pid(peer);
        let all = tree(leader);
        kill9(leader);
        let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
        assert!(all.iter().all(|pid| !lives(*pid)), "{all:?}");
        assert!(taken.iter().all(|e| !e.is(MCP_SUPERVISED_EVENT_READY)));
        let lost = host.completion(waits);
        assert_eq!(lost.status, MCP_SUPERVISED_E_CLOSED as i32, "{}", lost.text());
        assert!(has(&lost, MCP_SUPERVISED_FLAG_UNREAD), "it had never been written");
        let up = Up::look(&mut host, peer);
        let echo = host.ask_tool(peer, "echo", json!({"message": "again"}));
        assert_eq!(host.completion(echo).tool_text(), "again");
        assert_eq!(host.close(peer), 0);
        host.to_the_end(peer);
        up.is_gone();
    }
}

/// The tool that tells a real server's pid, behind each way of starting one, and the wrapper alone killed under it.
fn real(name: &str, way: Way) {
    let Some(spec) = installed::installed(name, way) else { return };
    let mut host = Host::new();
    let peer = host.launch(&spec.mode(MCP_SUPERVISED_MODE_AUTO).restart(3, 10, 60_000));
    host.next(MCP_SUPERVISED_EVENT_READY);
    for _ in 0..2 {
        let up = Up::look(&mut host, peer);
        assert_eq!(up.all.len(), way.processes());
        let soon = host.ask_tool(peer, "sleep", json!({"ms": 300}));
        host.drive();
        kill9(up.leader);
        host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
        up.is_gone();
        assert_eq!(host.completion(soon).status, MCP_SUPERVISED_E_CLOSED as i32);
    }
    let up = Up::look(&mut host, peer);
    assert_eq!(host.close(peer), 0);
    host.to_the_end(peer);
    assert_eq!((host.last_close().exit_code, host.last_close().signal), (0, 0));
    up.is_gone();
}

#[test]
fn l06_a_real_server_of_both_eras_behind_a_shell() {
    real("ts2", Way::Wrapped);
}

#[test]
fn l06_a_real_server_of_both_eras_behind_a_launcher() {
    real("ts2", Way::Launched);
}

#[test]
fn l06_a_real_server_of_the_older_era_behind_a_shell() {
    real("ts1", Way::Wrapped);
}

#[test]
fn l06_a_real_server_of_the_older_era_behind_a_launcher() {
    real("ts1", Way::Launched);
}

/// A published server behind the true `npx`, which has a shell start it.
fn behind_npx(scratch: &Scratch) -> Option<(Host, u64)> {
    let packages = servers()?.join("ts1");
    let words = ["--no-install", "--prefix", packages.to_str().expect("UTF-8"), "mcp-server-memory"];
    let spec = words.iter().fold(Spec::new("npx"), |spec, word| spec.arg(word));
    let spec = spec.env("MEMORY_FILE_PATH", scratch.name("memory.jsonl")).mode(MCP_SUPERVISED_MODE_AUTO);
    let mut host = Host::new();
    let peer = host.launch(&spec.restart(3, 10, 60_000));
    let ready = host.next(MCP_SUPERVISED_EVENT_READY);
    assert_eq!(ready.text(), "2025-11-25");
    Some((host, peer))
}

/// The processes of a server behind npx: npm, a shell, node.
fn processes(host: &Host, peer: u64) -> Vec<i32> {
    let all = tree(host.pid(peer));
    assert!(all.len() >= 3, "npm, a shell and the server: {all:?}");
    all
}

#[test]
fn l06_npx_is_gone_after_close_with_all_it_started() {
    let scratch = Scratch::new();
    let Some((mut host, peer)) = behind_npx(&scratch) else { return };
    let (leader, all) = (host.pid(peer), processes(&host, peer));
    assert_eq!(host.close(peer), 0);
    host.to_the_end(peer);
    assert_eq!((host.last_close().exit_code, host.last_close().signal), (0, 0), "{}", host.last_close().text());
    assert_eq!(group(leader), [0; 0]);
    assert!(all.iter().all(|pid| !lives(*pid)), "{all:?}");
}

#[test]
fn p07_npx_is_gone_after_free_with_all_it_started() {
    let scratch = Scratch::new();
    let Some((host, peer)) = behind_npx(&scratch) else { return };
    let all = processes(&host, peer);
    assert_eq!(host.free(), 0);
    all.iter().for_each(|pid| wait_gone(*pid));
}

/// What npx started lives on when npx alone is killed, holds the pipes and would answer; the replacement answers instead, from what
/// is on the disk.
#[test]
fn l06_npx_alone_is_killed() {
    let scratch = Scratch::new();
    let Some((mut host, peer)) = behind_npx(&scratch) else { return };
    let filter = json!({"resourceSubscriptions": ["memory://knowledge-graph"]});
    let stream = host.listen(peer, filter, 0);
    host.acknowledged(stream, 1);
    let create = |host: &mut Host, name: &str| {
        let entity = json!([{"name": name, "entityType": "letter", "observations": []}]);
        let call = host.ask_tool(peer, "create_entities", json!({"entities": entity}));
        host.completion(call)
    };
    create(&mut host, "a");
    let (leader, all) = (host.pid(peer), processes(&host, peer));
    kill9(leader);
    let taken = host.until(|e| e.is(MCP_SUPERVISED_EVENT_RECONNECT));
    assert_eq!(letters(&taken).replace("M ", ""), "D C R");
    assert_eq!(group(leader), [0; 0]);
    assert!(all.iter().all(|pid| !lives(*pid)), "{all:?}");
    host.acknowledged(stream, 2);
    create(&mut host, "b");
    let read = host.ask_tool(peer, "read_graph", json!({}));
    let graph: Value = serde_json::from_str(&host.completion(read).tool_text()).expect("JSON");
    assert_eq!(graph["entities"].as_array().map(Vec::len), Some(2));
    assert_eq!(host.seen.iter().filter(|e| e.request == stream && e.method == UPDATED).count(), 2, "one in each life");
    let again = processes(&host, peer);
    assert_eq!(host.close(peer), 0);
    host.to_the_end(peer);
    assert!(again.iter().all(|pid| !lives(*pid)), "{again:?}");
}
