//! Rule H1: the one descriptor. First by name, edge for edge, then as a model: random histories in which the descriptor, asked
//! from outside, must never be silent while a poll would report or change something.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use support::watch::*;
use support::*;

const SHORT: Duration = Duration::from_millis(300);
/// What Go's netpoller asks for.
const GO: i32 = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
const EDGE: i32 = libc::EPOLLIN | libc::EPOLLET;

/// Polls as the descriptor says until it is silent with the servers at rest.
fn until_silent(host: &mut Host, pids: &[i32]) -> Vec<Event> {
    let mut all = Vec::new();
    loop {
        settle(pids);
        if !host.is_readable() {
            return all;
        }
        all.extend(host.poll(0));
    }
}

/// As a host with a loop of its own: waits for the descriptor, then makes one poll that does not block.
fn by_descriptor(host: &mut Host, mut enough: impl FnMut(&Event) -> bool) -> Vec<Event> {
    let mut all = Vec::new();
    loop {
        assert!(host.wait_readable(PATIENCE), "the descriptor stays silent; taken so far: {all:#?}");
        let events = host.poll(0);
        let done = events.iter().any(&mut enough);
        all.extend(events);
        if done {
            return all;
        }
    }
}

fn is_message(event: &Event) -> bool {
    event.is(MCP_SUPERVISED_EVENT_MESSAGE)
}

fn is_reconnect(event: &Event) -> bool {
    event.is(MCP_SUPERVISED_EVENT_RECONNECT)
}

// ---- what has to show ----

/// What these tests are about exists only with pidfds: without them the handle looks at its children from time to time, and its
/// descriptor shows it. They run with them also where the rest of the suite runs without.
fn with_pidfds() -> (&'static str, Option<&'static str>) {
    ("MCP_SUPERVISED_WITHOUT", None)
}

#[test]
fn h01_timer_shows_in_the_fd() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]).restart(3, 200, 60_000));
    kill9(host.pid(peer));
    by_descriptor(&mut host, |e| e.is(MCP_SUPERVISED_EVENT_CLOSE));
    // No process is left that could make anything readable.
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_WAITING as i32);
    let taken = by_descriptor(&mut host, is_reconnect);
    assert_eq!(letters(&taken), "R");
}

#[test]
fn h01_a_manual_clock_shows_when_it_is_moved() {
    alone!();
    let mut host = Host::with_manual_clock();
    let peer = host.launch(&Spec::demo(&[]).restart(3, 200, 60_000));
    kill9(host.pid(peer));
    by_descriptor(&mut host, |e| e.is(MCP_SUPERVISED_EVENT_CLOSE));
    until_silent(&mut host, &[]);
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_WAITING as i32);
    host.advance_ms(199);
    until_silent(&mut host, &[]);
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_WAITING as i32);
    host.advance_ms(1);
    assert!(host.is_readable());
    assert_eq!(letters(&by_descriptor(&mut host, is_reconnect)), "R");
}

/// Nothing but the process descriptor can tell: a grandchild holds both pipes.
#[test]
fn h01_exit_shows() {
    alone!(&mut [with_pidfds()], |_| {});
    let mut host = Host::with_manual_clock();
    let peer = host.launch(&Spec::demo(&[]).restart(3, 200, 60_000));
    host.call(peer, "g", "grandchild", json!({"seconds": 600, "new_group": true, "stdin": true}));
    let grandchild: i32 = host.answer("g").tool_text().parse().unwrap();
    let server = host.pid(peer);
    until_silent(&mut host, &[server]);
    kill9(server);
    settle(&[server]);
    assert!(host.is_readable());
    until_silent(&mut host, &[server]);
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_ENDING as i32, "its pipes are open still");
    // Their end is waited for, and the clock is ours.
    host.advance_ms(250);
    by_descriptor(&mut host, |e| e.is(MCP_SUPERVISED_EVENT_CLOSE));
    kill9(grandchild);
}

#[test]
fn h01_queued_events_show() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]));
    let server = host.pid(peer);
    host.call(peer, "f", "flood", json!({"count": 9, "size": 200, "one_write": true}));
    by_descriptor(&mut host, |_| true);
    let mut taken = host.seen.len();
    settle(&[server]);
    host.batch = 3;
    while taken < 10 {
        assert!(host.is_readable(), "{taken} of 10 were taken");
        let given = host.poll(0).len();
        assert!(given > 0 && given <= 3);
        taken += given;
    }
    assert!(!host.is_readable(), "the last ones filled the array, but nothing is left");
    assert_eq!(host.seen.last().unwrap().id, b"\"f\"");
}

#[test]
fn h01_unread_input_shows() {
    let mut host = Host::new();
    host.batch = 4096;
    let peer = host.launch(&Spec::demo(&[]));
    let server = host.pid(peer);
    // More lines than one turn takes, in fewer bytes than the pipe holds: once they are written nothing tells of them again.
    host.call(peer, "f", "flood", json!({"count": 600, "size": 105, "one_write": true}));
    host.poll(0);
    settle(&[server]);
    let before = host.seen.iter().filter(|e| is_message(e)).count();
    assert_eq!(before, 0);
    host.poll(0);
    let first = host.seen.iter().filter(|e| is_message(e)).count();
    assert!((1..600).contains(&first), "{first} in one turn: this test needs more lines");
    assert!(host.is_readable());
    until_silent(&mut host, &[server]);
    assert_eq!(host.seen.iter().filter(|e| is_message(e)).count(), 601);
}

#[test]
fn h01_unwritten_output_shows() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]));
    let server = host.pid(peer);
    until_silent(&mut host, &[server]);
    // Two calls and the answers of both at once: whoever works like that may be made to wait for the next poll.
    for round in 0..3 {
        for n in 0..20 {
            host.call(peer, &format!("{round}-{n}"), "echo", json!({"message": "x"}));
        }
        let mut answers = 0;
        while answers < 20 {
            assert!(host.is_readable() || host.wait_readable(PATIENCE));
            answers += host.poll(0).len();
            settle(&[server]);
        }
    }
    until_silent(&mut host, &[server]);
}

#[test]
fn h01_room_in_a_full_pipe_shows() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]));
    let server = host.pid(peer);
    host.call(peer, "a", "echo", json!({"message": "up"}));
    host.answer("a");
    signal(server, libc::SIGSTOP);
    host.call(peer, "b", "echo", json!({"message": "x".repeat(300_000)}));
    until_silent(&mut host, &[server]);
    signal(server, libc::SIGCONT);
    let answer = by_descriptor(&mut host, is_message).pop().unwrap();
    assert_eq!(answer.tool_text().len(), 300_000);
}

#[test]
fn h01_the_d_of_a_close_keeps_it_readable_until_the_next_poll() {
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]));
    let server = host.pid(peer);
    until_silent(&mut host, &[server]);
    assert_eq!(host.close(peer), 0);
    assert!(host.is_readable());
    assert_eq!(letters(&host.poll(0)), "D");
    assert_eq!(host.state(peer), MCP_SUPERVISED_STATE_DRAINING as i32);
    assert!(host.is_readable());
    host.send(peer, request_line("last", "ping", json!({})));
    let from = host.seen.len();
    host.poll(0);
    // A quick server may be gone within this very poll.
    let state = host.state(peer);
    assert!(state == MCP_SUPERVISED_STATE_CLOSING as i32 || state == MCP_SUPERVISED_STATE_CLOSED as i32, "{state}");
    if !host.seen.iter().any(Event::is_final) {
        by_descriptor(&mut host, Event::is_final);
    }
    assert!(letters(&host.seen[from..]).ends_with('C'));
}

#[test]
fn h01_the_calls_of_the_host_show() {
    let mut host = Host::with_manual_clock();
    assert!(!host.is_readable());
    host.wakeup();
    assert!(host.is_readable());
    assert_eq!(letters(&host.poll(0)), "WAKEUP");
    assert!(!host.is_readable());
    let peer = host.add(&Spec::demo(&[]));
    host.close(peer);
    assert!(host.is_readable());
    assert_eq!(letters(&until_silent(&mut host, &[])), "D C");
    host.shutdown(0);
    assert!(host.is_readable());
    assert_eq!(letters(&until_silent(&mut host, &[])), "SHUTDOWN");
}

#[test]
fn h01_fd_is_constant() {
    let mut host = Host::new();
    let fd = host.fd();
    // SAFETY: takes no argument.
    assert_eq!(unsafe { libc::fcntl(fd, libc::F_GETFD) } & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    let peer = host.launch(&Spec::demo(&[]).restart(3, 1, 60_000));
    assert_eq!(host.fd(), fd);
    kill9(host.pid(peer));
    host.next(MCP_SUPERVISED_EVENT_RECONNECT);
    assert_eq!(host.fd(), fd);
    host.shutdown(0);
    host.next(MCP_SUPERVISED_EVENT_SHUTDOWN);
    assert_eq!(host.fd(), fd);
}

// ---- how it may be watched ----

/// A flood and calls that follow each other, with one poll for each time `wait` says so.
fn floods_through(batch: usize, wait: impl Fn(&Host) -> Box<dyn Fn(&Host)>) {
    let mut host = Host::new();
    host.batch = batch;
    let wait = wait(&host);
    let loud = host.launch(&Spec::demo(&[]));
    let quiet = host.launch(&Spec::demo(&[]));
    let count = if batch == 1 { 2_000 } else { 20_000 };
    host.call(loud, "flood", "flood", json!({"count": count, "size": 120}));
    host.call(quiet, "0", "echo", json!({"message": "x"}));
    let (mut notes, mut answers) = (0, 0);
    while notes <= count || answers < 50 {
        wait(&host);
        for event in host.poll(0) {
            if event.peer == loud {
                notes += 1;
            } else if answers < 50 {
                answers += 1;
                host.call(quiet, &answers.to_string(), "echo", json!({"message": "x"}));
            }
        }
        host.seen.clear();
    }
}

fn by_epoll(flags: i32) -> impl Fn(&Host) -> Box<dyn Fn(&Host)> {
    move |host| {
        let outer = Outer::new(host.fd(), flags);
        Box::new(move |_| assert!(outer.wait(PATIENCE), "no edge comes any more"))
    }
}

#[test]
fn h01_edge_triggered_one_poll_per_edge() {
    for batch in [1, 64, 5000] {
        floods_through(batch, by_epoll(EDGE));
        floods_through(batch, by_epoll(GO));
    }
}

#[test]
fn h01_level_triggered() {
    for batch in [1, 64] {
        floods_through(batch, by_epoll(libc::EPOLLIN));
        floods_through(batch, |_| Box::new(|host| assert!(host.wait_readable(PATIENCE))));
    }
}

#[test]
fn h01_edge_triggered_until_dry() {
    let mut host = Host::new();
    let outer = Outer::new(host.fd(), EDGE);
    let peer = host.launch(&Spec::demo(&[]));
    host.call(peer, "flood", "flood", json!({"count": 20_000, "size": 120}));
    let mut notes = 0;
    while notes <= 20_000 {
        assert!(outer.wait(PATIENCE), "no edge comes any more");
        loop {
            let given = host.poll(0).len();
            notes += given;
            if given < host.batch {
                break;
            }
        }
        host.seen.clear();
    }
}

#[test]
fn h01_nested_in_poll_and_epoll() {
    for (inner, outer) in [(libc::EPOLLIN, libc::EPOLLIN), (EDGE, libc::EPOLLIN), (EDGE, EDGE)] {
        floods_through(64, move |host| {
            let middle = Outer::new(host.fd(), inner);
            let top = Outer::new(middle.fd(), outer);
            Box::new(move |_| {
                assert!(top.wait(PATIENCE), "no edge comes any more");
                // Whoever nests them takes the report out of the inner one as well.
                middle.wait(Duration::ZERO);
            })
        });
    }
}

/// One look fetches so many reports and no more; the others must not wait for an edge that was spent.
#[test]
fn h01_edge_triggered_with_more_reports_than_one_look_fetches() {
    const PEERS: usize = 130;
    let scratch = Scratch::new();
    let line = scratch.data("line", "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n");
    let mut host = Host::new();
    host.batch = 4 * PEERS;
    // Each is readable on two pipes and writable on a third, and stays alive.
    let spec = Spec::demo(&["--stderr-at-start", "up", "--raw-lines", &line]);
    let peers: Vec<u64> = (0..PEERS).map(|_| host.launch(&spec)).collect();
    let outer = Outer::new(host.fd(), EDGE);
    settle(&peers.iter().map(|peer| host.pid(*peer)).collect::<Vec<_>>());
    let mut left = 2 * PEERS;
    while left > 0 {
        assert!(outer.wait(10 * SHORT), "no edge comes any more; {left} lines are not told of");
        left -= host.poll(0).len();
    }
}

#[test]
fn h01_two_polls_leave_it_silent() {
    alone!();
    let mut host = Host::new();
    let peers = [host.launch(&Spec::demo(&[])), host.launch(&Spec::demo(&[]))];
    let pids = peers.map(|peer| host.pid(peer));
    until_silent(&mut host, &pids);
    for peer in peers {
        host.call(peer, "a", "echo", json!({"message": "x"}));
        host.wakeup();
    }
    until_silent(&mut host, &pids);
    // A poll of a handle with nothing to do does not make it readable, nor does a call that leaves nothing.
    for _ in 0..3 {
        assert_eq!(host.poll(0).len(), 0);
        assert_eq!(host.state(peers[0]), MCP_SUPERVISED_STATE_RUNNING as i32);
        assert!(host.try_send(peers[0], "no JSON").is_err());
        assert!(!host.is_readable());
    }
}

// ---- the model ----

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// A handle under random treatment, and what was done to it.
struct Model {
    host: Host,
    dice: Dice,
    seed: u64,
    manual: bool,
    /// With pidfds nothing happens by itself; without them children are looked for from time to time.
    strict: bool,
    peers: Vec<u64>,
    finished: Vec<u64>,
    is_shut: bool,
    done: Vec<String>,
    calls: u64,
}

/// All that a host can see of the peers, what their servers have read and written, and how often they were woken: one that is
/// in the middle of a large write has written nothing yet.
type Sight = BTreeMap<u64, (i32, i32, u64, u64, u64)>;

impl Drop for Model {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let from = self.done.len().saturating_sub(40);
            eprintln!("seed {}, manual {}; the last steps: {:#?}", self.seed, self.manual, &self.done[from..]);
        }
    }
}

impl Model {
    fn new(seed: u64, manual: bool, strict: bool) -> Self {
        let host = if manual { Host::with_manual_clock() } else { Host::new() };
        let dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        Self {
            host,
            dice,
            seed,
            manual,
            strict,
            peers: Vec::new(),
            finished: Vec::new(),
            is_shut: false,
            done: Vec::new(),
            calls: 0,
        }
    }

    fn note(&mut self, what: impl Into<String>) {
        self.done.push(what.into());
    }

    fn pids(&self) -> Vec<i32> {
        self.peers.iter().map(|peer| self.host.pid(*peer)).filter(|pid| *pid > 0).collect()
    }

    fn at_rest(&self) {
        settle(&self.pids());
    }

    fn sight(&self) -> Sight {
        let of = |peer: &u64| {
            let pid = self.host.pid(*peer);
            (*peer, (self.host.state(*peer), pid, read_by(pid), written_by(pid), switches(pid)))
        };
        self.peers.iter().map(of).collect()
    }

    /// A peer is on its way somewhere and only a timer or a process can bring it there.
    fn is_moving(&self) -> bool {
        let resting = [MCP_SUPERVISED_STATE_IDLE, MCP_SUPERVISED_STATE_RUNNING, MCP_SUPERVISED_STATE_CLOSED];
        self.peers.iter().any(|peer| !resting.iter().any(|state| *state as i32 == self.host.state(*peer)))
    }

    fn poll(&mut self, max: usize) -> usize {
        self.host.batch = max;
        let events = self.host.poll(0);
        self.note(format!("poll({max}): {}", events.iter().map(Event::letter).collect::<Vec<_>>().join(" ")));
        self.finished.extend(events.iter().filter(|e| e.is_final() && e.peer != 0).map(|e| e.peer));
        self.host.seen.clear();
        events.len()
    }

    /// Direction (a): if the descriptor says nothing, then a poll finds nothing and changes nothing.
    fn check_silence(&mut self) {
        self.at_rest();
        // A timer could come between the two looks.
        let timers = !self.manual && self.is_moving();
        if !self.strict || timers || self.host.is_readable() {
            return;
        }
        let before = self.sight();
        let given = self.poll(64);
        self.at_rest();
        assert_eq!(given, 0, "the descriptor was silent, and a poll reports something");
        assert_eq!(before, self.sight(), "the descriptor was silent, and a poll changes something");
        // The one timer may still be set for what has been settled meanwhile, and go off at this moment.
        assert!(!self.manual || !self.host.is_readable(), "a poll without anything new makes it readable");
    }

    /// Polls as the descriptor says until it is silent. Direction (b): polls that find nothing end that soon.
    fn drain(&mut self) {
        let mut in_vain = 0;
        loop {
            self.at_rest();
            if !self.host.is_readable() {
                if self.manual || !self.is_moving() {
                    break;
                }
                assert!(self.host.wait_readable(PATIENCE), "a peer is on its way, and nothing ever tells");
            } else if !self.manual && !self.strict && !self.is_moving() {
                // The look for children makes it readable for ever.
                if in_vain > 3 {
                    break;
                }
            }
            let before = self.sight();
            let max = self.dice.pick(&[1, 3, 64]);
            let given = self.poll(max);
            self.at_rest();
            in_vain = if given == 0 && before == self.sight() { in_vain + 1 } else { 0 };
            // A timer that was set for what has been settled meanwhile costs a turn each time.
            let most = if self.manual { 2 } else { 20 };
            assert!(
                !self.strict || in_vain < most || !self.host.is_readable(),
                "readable again and again, for nothing"
            );
        }
        self.check_silence();
    }

    fn add(&mut self) {
        let delay = if self.manual { self.dice.pick(&[0, 100]) } else { self.dice.pick(&[0, 1, 5]) };
        let max = self.dice.pick(&[2, 5, MCP_SUPERVISED_NO_RESTART, MCP_SUPERVISED_UNLIMITED]);
        let queue = self.dice.pick(&[1, 2, 5, 1024]);
        let bytes = self.dice.pick(&[1, 200_000, 8 << 20]);
        let outbound = self.dice.pick(&[200_000, 1 << 20]);
        let flags: &[&str] = match self.dice.below(8) {
            0 => &["--exit-at-start", "1"],
            1 => &["--no-read"],
            2 => &["--stderr-bytes-at-start", "100000"],
            3 => &["--ignore-eof"],
            _ => &[],
        };
        // A server that cannot live, replaced for ever, never comes to rest.
        let max = if flags.first() == Some(&"--exit-at-start") { max.min(5) } else { max };
        let spec = match self.dice.below(12) {
            0 if max <= 5 => Spec::new("/no/such/program").mode(MCP_SUPERVISED_MODE_RAW),
            _ => Spec::demo(flags),
        };
        let spec = spec
            .restart(max, delay, 60_000)
            .stop_grace(if self.manual { 6000 } else { 20 }, if self.manual { 2000 } else { 20 })
            .limit(MCP_SUPERVISED_LIMIT_EVENT_QUEUE, queue)
            .limit(MCP_SUPERVISED_LIMIT_EVENT_BYTES, bytes)
            .limit(MCP_SUPERVISED_LIMIT_OUTBOUND_BYTES, outbound);
        let added = self.host.try_add(&spec, 0);
        self.note(format!("add {flags:?} {max} {delay} {queue} {bytes} {outbound}: {added:?}"));
        if let Ok(peer) = added {
            self.peers.push(peer);
            if self.dice.below(4) > 0 {
                self.start(peer);
            }
        }
    }

    fn start(&mut self, peer: u64) {
        let status = self.host.start(peer);
        self.note(format!("start {peer:x}: {status}"));
    }

    fn call(&mut self, peer: u64) {
        self.calls += 1;
        let (tool, arguments) = match self.dice.below(16) {
            0 | 1 => ("echo", json!({"message": "x"})),
            2 => ("echo", json!({"message": "x".repeat(150_000)})),
            3 | 4 => ("flood", json!({"count": self.dice.below(1500), "size": 100})),
            5 => ("flood", json!({"count": self.dice.below(60), "size": 9000, "one_write": true})),
            6 => ("flood", json!({"count": self.dice.below(40), "size": 3000, "background": true})),
            7 => ("big", json!({"bytes": self.dice.below(700_000)})),
            8 => ("stderr", json!({"bytes": self.dice.below(300_000)})),
            9 => ("garbage", json!({})),
            10 => ("long_line", json!({"bytes": self.dice.below(300_000)})),
            11 => ("crash", json!({"code": 3})),
            12 => ("exit", json!({})),
            13 => ("half_line", json!({})),
            14 => self.dice.pick(&["close_stdout", "close_stdin", "hang"]).pipe(|tool| (tool, json!({}))),
            _ => ("blank", json!({"rounds": 50})),
        };
        let line =
            request_line(&format!("c{}", self.calls), "tools/call", json!({"name": tool, "arguments": arguments}));
        let sent = self.host.try_send(peer, &line);
        self.note(format!("{peer:x} {tool} ({} bytes): {sent:?}", line.len()));
    }

    fn step(&mut self) {
        if self.peers.is_empty() {
            return self.add();
        }
        let peer = self.dice.pick(&self.peers.clone());
        match self.dice.below(40) {
            0..3 if self.peers.len() < 4 => self.add(),
            3..5 => self.start(peer),
            5..18 => self.call(peer),
            18 => {
                let status = self.host.close(peer);
                self.note(format!("close {peer:x}: {status}"));
            }
            19..22 => {
                let peer = self.finished.first().copied().filter(|p| self.peers.contains(p)).unwrap_or(peer);
                let status = self.host.remove(peer);
                self.note(format!("remove {peer:x}: {status}"));
                if status == 0 {
                    self.peers.retain(|p| *p != peer);
                    self.finished.retain(|p| *p != peer);
                }
            }
            22 => {
                self.host.wakeup();
                self.note("wakeup");
            }
            23 if self.dice.below(20) == 0 => {
                let status = self.host.shutdown(self.seed % 2 * 30);
                self.is_shut = true;
                self.note(format!("shutdown: {status}"));
            }
            24..29 if self.manual => {
                let ms = self.dice.pick(&[0, 1, 100, 250, 2000, 6000, 60_000]);
                self.host.advance_ms(ms);
                self.note(format!("advance {ms}"));
            }
            29..32 => {
                let pid = self.host.pid(peer);
                if pid > 0 && is_settled(pid) && state_of(pid).is_some_and(|state| state != 'Z') {
                    self.note(format!("kill {pid} of {peer:x}"));
                    kill9(pid);
                }
            }
            _ => {
                let max = self.dice.pick(&[0, 1, 3, 64]);
                self.poll(max);
            }
        }
        self.check_silence();
        if self.dice.below(8) == 0 {
            self.drain();
        }
    }

    fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            self.step();
            if self.is_shut {
                break;
            }
        }
        // However it stands, it can be brought to its end by whoever follows the descriptor.
        if !self.is_shut {
            self.host.shutdown(50);
            self.note("shutdown at the end");
        }
        for _ in 0..4 {
            self.drain();
            if self.manual {
                self.host.advance_ms(10_000);
            }
        }
        assert!(!self.is_moving(), "{:?}", self.sight());
        assert!(self.pids().is_empty());
    }
}

trait Pipe: Sized {
    fn pipe<T>(self, to: impl FnOnce(Self) -> T) -> T {
        to(self)
    }
}

impl Pipe for &str {}

fn model(manual: bool, strict: bool, seeds: std::ops::Range<u64>, steps: usize) {
    // One history again: MCP_SUPERVISED_TEST_SEED=17 cargo test ...
    let only = std::env::var("MCP_SUPERVISED_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in seeds.filter(|seed| only.is_none_or(|only: u64| only == *seed)) {
        Model::new(seed, manual, strict).run(steps);
    }
}

// Each in a process of its own: a child that another test starts holds copies of all pipes until it has become its program,
// so that an end that was closed shows later, when everything seemed to be at rest.

#[test]
fn h01_model_with_a_manual_clock() {
    alone!(&mut [with_pidfds()], |_| {});
    model(true, true, 1..25, 150);
}

#[test]
fn h01_model_with_the_real_clock() {
    alone!(&mut [with_pidfds()], |_| {});
    model(false, true, 100..112, 100);
}

#[test]
fn h01_model_without_pidfds() {
    alone!(&mut [("MCP_SUPERVISED_WITHOUT", Some("all"))], |_| {});
    model(false, false, 200..206, 80);
}

#[test]
fn h01_edge_triggered_one_poll_per_edge_without_pidfds() {
    alone!(&mut [("MCP_SUPERVISED_WITHOUT", Some("all"))], |_| {});
    floods_through(64, by_epoll(EDGE));
    let mut host = Host::new();
    let outer = Outer::new(host.fd(), EDGE);
    let peer = host.launch(&Spec::demo(&[]).restart(3, 5, 60_000));
    for _ in 0..3 {
        kill9(host.pid(peer));
        while host.seen.last().is_none_or(|e| !is_reconnect(e)) {
            assert!(outer.wait(PATIENCE), "no edge comes any more");
            host.poll(0);
        }
        host.seen.clear();
    }
}

// ---- what it costs ----

/// The system calls the test's thread makes between the marks that it sets. Nothing in the process that makes them, or where
/// nobody may trace.
fn traced(test: &str, body: impl FnOnce()) -> Vec<Vec<String>> {
    if std::env::var(ALONE).as_deref() == Ok(test) {
        body();
        return Vec::new();
    }
    let scratch = Scratch::new();
    let trace = scratch.name("trace");
    let ran = run_again_behind(&["strace", "-f", "-qq", "-o", &trace], test);
    let refused = match &ran {
        Ok(output) => String::from_utf8_lossy(&output.stderr).contains("ptrace"),
        Err(_) => true,
    };
    if refused && std::env::var("CI").as_deref() != Ok("true") {
        println!("skipped: strace is not here or may not trace");
        return Vec::new();
    }
    let output = ran.expect("strace is needed here");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let text = scratch.read("trace");
    let begin = text.lines().find(|line| line.contains("MARK")).expect("the marks are in the trace");
    let thread = begin.split_whitespace().next().unwrap();
    let own = text.lines().filter(|line| line.split_whitespace().next() == Some(thread));
    // A call that was cut in two by another thread's line is one call.
    let own = own.filter(|line| !line.contains("resumed>"));
    let calls: Vec<String> = own.map(|line| line[thread.len()..].trim().to_owned()).collect();
    calls.split(|call| call.contains("MARK")).skip(1).map(<[String]>::to_vec).collect()
}

fn mark() {
    // SAFETY: a valid text; no such descriptor.
    let _ = unsafe { libc::write(-1, c"MARK".as_ptr().cast(), 4) };
}

#[test]
fn h01_an_idle_handle_makes_no_system_call() {
    if std::env::var_os("MCP_SUPERVISED_WITHOUT").is_some() {
        println!("skipped: without pidfds the children are looked at from time to time");
        return;
    }
    const TEST: &str = "h01_an_idle_handle_makes_no_system_call";
    let parts = traced(TEST, || {
        let tasks = || std::fs::read_dir("/proc/self/task").unwrap().count();
        let before = tasks();
        let mut host = Host::new();
        let peer = host.launch(&Spec::demo(&[]));
        host.call(peer, "a", "echo", json!({"message": "x"}));
        host.answer("a");
        while !host.poll(50).is_empty() || host.is_readable() {}
        let other = Host::new();
        mark();
        assert!(!host.wait_readable(SHORT));
        mark();
        assert_eq!(host.poll(SHORT.as_millis() as i32).len(), 0);
        mark();
        assert!(!other.is_readable());
        assert_eq!(tasks(), before, "the library makes no threads");
    });
    if !parts.is_empty() {
        assert!(parts[0].len() == 1 && parts[0][0].contains("poll("), "{:#?}", parts[0]);
        assert!(parts[1].iter().all(|call| call.starts_with("epoll_")), "{:#?}", parts[1]);
        assert!(parts[1].len() <= 2, "{:#?}", parts[1]);
    }
}

/// Sequential calls need one write, one wait and one read each; the bell is for what cannot be done at once.
#[test]
fn h01_a_call_that_was_written_at_once_does_not_ring() {
    if std::env::var_os("MCP_SUPERVISED_WITHOUT").is_some() {
        println!("skipped: without pidfds the children are looked at from time to time");
        return;
    }
    const TEST: &str = "h01_a_call_that_was_written_at_once_does_not_ring";
    let parts = traced(TEST, || {
        let mut host = Host::new();
        let peer = host.launch(&Spec::demo(&[]));
        host.call(peer, "a", "echo", json!({"message": "x"}));
        host.answer("a");
        while !host.poll(50).is_empty() || host.is_readable() {}
        for n in 0..10 {
            let line =
                request_line("b", "tools/call", json!({"name": "echo", "arguments": {"message": n.to_string()}}));
            mark();
            host.send(peer, &line);
            while host.poll(-1).is_empty() {}
        }
        mark();
    });
    for part in parts.iter().take(10) {
        let names: Vec<&str> = part.iter().filter_map(|call| call.split('(').next()).collect();
        assert!(!names.contains(&"write"), "{part:#?}");
        assert!(names.len() <= 4, "{part:#?}");
    }
}

/// Processor time that waiting for `SHORT` takes, polling as often as the library lets us.
fn waits_for_nothing(mut host: Host) {
    let wake = SendPtr(host.raw());
    let begin = cpu_time();
    let timer = std::thread::spawn(move || {
        let wake = wake;
        std::thread::sleep(2 * SHORT);
        // SAFETY: the handle lives until this thread was joined.
        unsafe { mcp_supervised_wakeup(wake.0) }
    });
    let mut polls = 0;
    loop {
        polls += 1;
        if host.poll(-1).iter().any(|e| e.is(MCP_SUPERVISED_EVENT_WAKEUP)) {
            break;
        }
    }
    timer.join().unwrap();
    let used = cpu_time() - begin;
    assert!(used < SHORT / 4 && polls < 100, "{polls} polls in {used:?}: it does not wait, it spins");
}

struct SendPtr(*mut RawHandle);

// SAFETY: only `wakeup` is called on it, which any thread may.
unsafe impl Send for SendPtr {}

#[test]
fn h01_waiting_does_not_spin() {
    alone!();
    let mut host = Host::new();
    let peer = host.launch(&Spec::demo(&[]));
    host.call(peer, "a", "echo", json!({"message": "x"}));
    host.answer("a");
    waits_for_nothing(host);
}

#[test]
fn h01_waiting_for_a_server_that_closed_its_pipes_does_not_spin() {
    alone!();
    for script in
        ["exec 2>&-; exec cat", "exec <&-; trap '' TERM; exec sleep 60", "trap '' TERM; exec >&- 2>&-; exec sleep 60"]
    {
        let mut host = Host::new();
        host.launch(&Spec::shell(script).stop_grace(60_000, 60_000));
        host.poll(100);
        waits_for_nothing(host);
    }
}

#[test]
fn h01_waiting_for_a_dead_peer_that_is_held_open_does_not_spin() {
    alone!();
    // On the manual clock the wait for the end of its pipes never ends.
    let mut host = Host::with_manual_clock();
    let peer = host.launch(&Spec::demo(&[]));
    host.call(peer, "g", "grandchild", json!({"seconds": 600, "new_group": true, "stdin": true}));
    let grandchild: i32 = host.answer("g").tool_text().parse().unwrap();
    kill9(host.pid(peer));
    waits_for_nothing(host);
    kill9(grandchild);
}
