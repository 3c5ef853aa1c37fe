//! The compiled `examples-c/supervise` as its users meet it: behind pipes, or at a terminal. Tests wait for lines that it
//! writes, under one generous deadline that only a hang can reach.

#![allow(dead_code, reason = "each test file uses its part")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

#[path = "recorded.rs"]
mod recorded;

use crate::compiler::{cc, link, run, scratch, strict};

/// What only a hang reaches.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The demo server.
pub const SERVER: &str = env!("CARGO_BIN_EXE_mcp-supervised-demo-server");

/// The program, compiled once for all tests of this file.
pub fn supervise() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let dir = scratch(concat!("program-", env!("CARGO_CRATE_NAME")));
        let program = dir.join("supervise");
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples-c");
        let mut compiler = strict(&cc(), "c11");
        compiler.args(["-D_POSIX_C_SOURCE=200809L", "-Wconversion", "-Wshadow", "-g", "-o"]).arg(&program);
        compiler.arg(examples.join("supervise.c"));
        let parts = fs::read_dir(examples.join("supervise")).unwrap().map(|entry| entry.unwrap().path());
        compiler.args(parts.filter(|path| path.extension().is_some_and(|extension| extension == "c")));
        link(&mut compiler, &dir);
        run(&mut compiler);
        program
    })
}

/// What came from one stream so far.
#[derive(Default)]
struct Heard {
    lines: Vec<String>,
    /// How many of them a test has looked at.
    taken: usize,
    ended: bool,
}

/// One stream of the program, read by a thread of its own.
pub struct Stream {
    heard: Arc<(Mutex<Heard>, Condvar)>,
}

impl Stream {
    fn new(from: impl Read + Send + 'static) -> Self {
        let heard = Arc::new((Mutex::new(Heard::default()), Condvar::new()));
        let shared = Arc::clone(&heard);
        thread::spawn(move || {
            let mut from = BufReader::new(from);
            loop {
                let mut line = Vec::new();
                // The master of a terminal whose other side is closed answers EIO; what came before is in `line`.
                let _ = from.read_until(b'\n', &mut line);
                let got = line.len();
                let mut heard = shared.0.lock().unwrap();
                if got == 0 {
                    heard.ended = true;
                } else {
                    heard.lines.push(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned());
                }
                shared.1.notify_all();
                if got == 0 {
                    return;
                }
            }
        });
        Self { heard }
    }

    /// The next line that has `part` in it. Those before it are passed over, and looked at by `all` only.
    pub fn wait(&self, part: &str) -> String {
        self.find(part).unwrap_or_else(|all| panic!("{part:?} never came:\n{all}"))
    }

    fn find(&self, part: &str) -> Result<String, String> {
        let deadline = Instant::now() + PATIENCE;
        let mut heard = self.heard.0.lock().unwrap();
        loop {
            while heard.taken < heard.lines.len() {
                heard.taken += 1;
                let line = &heard.lines[heard.taken - 1];
                if line.contains(part) {
                    return Ok(line.clone());
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if heard.ended || left.is_zero() {
                return Err(heard.lines.join("\n"));
            }
            heard = self.heard.1.wait_timeout(heard, left).unwrap().0;
        }
    }

    /// Everything, once the stream has ended.
    pub fn all(&self) -> Vec<String> {
        let heard = self.heard.0.lock().unwrap();
        let (heard, late) = self.heard.1.wait_timeout_while(heard, PATIENCE, |heard| !heard.ended).unwrap();
        assert!(!late.timed_out(), "it does not end:\n{}", heard.lines.join("\n"));
        heard.lines.clone()
    }

    /// Everything as one text.
    pub fn text(&self) -> String {
        self.all().join("\n")
    }
}

/// The program while it runs.
pub struct Session {
    child: Child,
    input: Option<Input>,
    unread: Option<File>,
    out: Option<Stream>,
    err: Option<Stream>,
}

/// What is to be run, and how.
pub struct Start {
    command: Command,
    read_stdout: bool,
}

/// `supervise` with its options and everything behind them.
pub fn start<S: AsRef<str>>(arguments: &[S]) -> Start {
    let mut command = Command::new(supervise());
    let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    let options = arguments.iter().position(|word| *word == "--").map_or(&arguments[..0], |end| &arguments[..end]);
    let is_client = |word: &&str| ["--list", "--call", "--listen"].iter().any(|option| word.starts_with(option));
    if options.iter().any(is_client)
        && let Some(folder) = recorded::Judged::Whole.folder()
    {
        command.arg(format!("--env={}={}", recorded::OF_THE_SERVER, folder.display()));
    }
    command.args(arguments);
    command.env_remove("NO_COLOR").env("TERM", "xterm");
    listen_to_signals(&mut command);
    Start { command, read_stdout: true }
}

/// The program leaves alone what was ignored when it was started, as a program under nohup should; who runs these tests may well
/// have started them in the background, where SIGINT is ignored.
fn listen_to_signals(command: &mut Command) {
    let set = || {
        for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: takes two numbers, and the default disposition is always valid.
            unsafe { libc::signal(number, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: signal(2) may be called between fork and exec.
    unsafe { command.pre_exec(set) };
}

/// A shell script whose arguments are `supervise` and those given.
pub fn through_shell(script: &str, arguments: &[&str]) -> Start {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, "sh"]).arg(supervise()).args(arguments);
    listen_to_signals(&mut command);
    Start { command, read_stdout: true }
}

/// `supervise` with options in front of the demo server with flags, restarting fast.
pub fn demo(options: &[&str], flags: &[&str]) -> Start {
    let quick = ["--delay", "10"];
    start(&[&quick[..], options, &["--", SERVER], flags].concat())
}

impl Start {
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// With the newer calls of the C library, also where the suite runs without: a working directory needs one.
    pub fn with_newer_calls(mut self) -> Self {
        self.command.env_remove("MCP_SUPERVISED_WITHOUT");
        self
    }

    /// Nobody reads stdout until `Session::listen`.
    pub fn unread(mut self) -> Self {
        self.read_stdout = false;
        self
    }

    /// Behind pipes.
    pub fn run(mut self) -> Session {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap();
        let input = writer(child.stdin.take().unwrap());
        let out = File::from(OwnedFd::from(child.stdout.take().unwrap()));
        let err = Stream::new(child.stderr.take().unwrap());
        let mut session = Session { child, input: Some(input), unread: Some(out), out: None, err: Some(err) };
        if self.read_stdout {
            session.listen();
        }
        session
    }

    /// With stderr at a terminal and the rest behind pipes.
    pub fn run_with_stderr_at_a_terminal(mut self) -> Session {
        let (master, slave) = terminal();
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(slave);
        let mut child = self.command.spawn().unwrap();
        // The command keeps its copy of the other side, which would keep the terminal from ending.
        drop(self.command);
        let input = writer(child.stdin.take().unwrap());
        let out = Stream::new(child.stdout.take().unwrap());
        Session { child, input: Some(input), unread: None, out: Some(out), err: Some(Stream::new(master)) }
    }

    /// All of it at a terminal that is its own: what is typed is input, and control characters are signals. Everything it
    /// writes is in `err`.
    pub fn run_at_a_terminal(mut self) -> Session {
        let (master, slave) = terminal();
        let other = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
        self.command.stdin(other(&slave)).stdout(other(&slave)).stderr(slave);
        let own_terminal = || {
            // SAFETY: setsid and ioctl are plain system calls; descriptor 0 is the terminal by now.
            let failed = unsafe { libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 };
            if failed { Err(std::io::Error::last_os_error()) } else { Ok(()) }
        };
        // SAFETY: between fork and exec only two system calls are made, nothing is allocated.
        unsafe { self.command.pre_exec(own_terminal) };
        let child = self.command.spawn().unwrap();
        drop(self.command);
        let input = writer(master.try_clone().unwrap());
        Session { child, input: Some(input), unread: None, out: None, err: Some(Stream::new(master)) }
    }

    /// Runs it without any input, to its end.
    pub fn run_through(self) -> Ended {
        let mut session = self.run();
        session.end_input();
        session.end()
    }
}

/// A thread writes, so that a test never blocks; dropping this closes the descriptor behind what was written.
struct Input {
    sender: Sender<Vec<u8>>,
    /// Writes that are still to be done.
    pending: Arc<AtomicUsize>,
}

fn writer(mut to: impl Write + Send + 'static) -> Input {
    let (sender, receiver) = mpsc::channel::<Vec<u8>>();
    let pending = Arc::new(AtomicUsize::new(0));
    let left = Arc::clone(&pending);
    thread::spawn(move || {
        for bytes in receiver {
            // The program may have ended; the test that cares sees that otherwise.
            let _ = to.write_all(&bytes);
            left.fetch_sub(1, Ordering::SeqCst);
        }
    });
    Input { sender, pending }
}

/// What a pipe holds.
fn bytes_in(pipe: &File) -> libc::c_int {
    let mut held = 0;
    // SAFETY: an open descriptor and a place for the number.
    assert_eq!(unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &mut held) }, 0);
    held
}

/// A new terminal: our side, and the program's.
fn terminal() -> (File, OwnedFd) {
    let (mut master, mut slave): (RawFd, RawFd) = (-1, -1);
    let (name, settings, size) = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
    // SAFETY: two places for the results; the name is not asked for, and the settings are the usual ones.
    let made = unsafe { libc::openpty(&mut master, &mut slave, name, settings, size) };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    for fd in [master, slave] {
        // SAFETY: the descriptor was just made. Without the flag, programs that other tests start would hold it.
        assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) }, 0);
    }
    // SAFETY: both were just made and belong to nobody else.
    unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) }
}

/// How it ended, and everything it wrote.
pub struct Ended {
    pub code: Option<i32>,
    pub out: Vec<String>,
    pub err: String,
}

impl Session {
    pub fn out(&self) -> &Stream {
        self.out.as_ref().expect("stdout is read")
    }

    pub fn err(&self) -> &Stream {
        self.err.as_ref().expect("stderr is read")
    }

    /// Begins to read stdout.
    pub fn listen(&mut self) {
        self.out = Some(Stream::new(self.unread.take().expect("nobody reads it")));
    }

    /// Waits until the pipe of stdout, which nobody reads, takes no more.
    pub fn wait_until_stdout_is_full(&self) {
        let pipe = self.unread.as_ref().expect("nobody reads it");
        let deadline = Instant::now() + PATIENCE;
        // The program writes pages, and a pipe has room for sixteen.
        while bytes_in(pipe) < 15 * 4096 {
            assert!(Instant::now() < deadline, "it never fills");
            thread::yield_now();
        }
    }

    /// Nobody will ever read stdout.
    pub fn close_stdout(&mut self) {
        self.unread = None;
    }

    /// Writes bytes to its stdin.
    pub fn write(&self, bytes: impl Into<Vec<u8>>) {
        let input = self.input.as_ref().expect("stdin is open");
        input.pending.fetch_add(1, Ordering::SeqCst);
        input.sender.send(bytes.into()).expect("the writer lives");
    }

    /// Waits until the program has read everything that was written.
    pub fn wait_until_input_is_read(&self) {
        let input = self.input.as_ref().expect("stdin is open");
        let pipe = File::open(format!("/proc/{}/fd/0", self.child.id())).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while input.pending.load(Ordering::SeqCst) > 0 || bytes_in(&pipe) > 0 {
            assert!(Instant::now() < deadline, "it is never read");
            thread::yield_now();
        }
    }

    pub fn send(&self, line: impl AsRef<str>) {
        self.write(format!("{}\n", line.as_ref()));
    }

    /// Calls a tool and waits for its answer.
    pub fn call(&self, id: &str, tool: &str, arguments: Value) -> String {
        self.send(call(id, tool, arguments));
        let answer: Value = serde_json::from_str(&self.out().wait(&format!("\"id\":\"{id}\""))).unwrap();
        answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    }

    pub fn end_input(&mut self) {
        self.input = None;
    }

    pub fn signal(&self, number: i32) {
        // SAFETY: a child of this process that was not waited for, so the number is its own.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, number) }, 0);
    }

    /// Waits for the end.
    pub fn end(mut self) -> Ended {
        // It has ended, or is about to, when its streams have; a server that inherited one of them is a failure to be seen.
        let out = self.out.take().map(|out| out.all()).unwrap_or_default();
        let err = self.err.take().expect("stderr is read").text();
        let status = self.child.wait().unwrap();
        assert!(status.code().is_some(), "{status}\n{err}");
        Ended { code: status.code(), out, err }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Of a test that failed; after `end` there is nothing left.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// The exit status must be this one.
    pub fn with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.out.join("\n"), self.err);
        self
    }

    /// stderr has these in it, in this order.
    pub fn says(&self, parts: &[&str]) {
        let mut rest = self.err.as_str();
        for part in parts {
            let at = rest.find(part).unwrap_or_else(|| panic!("{part:?} is missing or out of order in:\n{}", self.err));
            rest = &rest[at + part.len()..];
        }
    }

    /// stdout as JSON, line by line.
    pub fn json(&self) -> Vec<Value> {
        let parse = |line: &String| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.out.iter().map(parse).collect()
    }
}

/// The line of a call of a tool of the demo server.
pub fn call(id: &str, tool: &str, arguments: Value) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

/// The number behind "(pid " in a line.
pub fn pid_in(line: &str) -> i32 {
    let (_, rest) = line.split_once("(pid ").unwrap_or_else(|| panic!("no pid in {line:?}"));
    rest.split_once(')').unwrap().0.parse().unwrap()
}

/// Waits until a process is gone, or a zombie that somebody else has to wait for.
pub fn wait_gone(pid: i32) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        if matches!(state, None | Some('Z' | 'X')) {
            return;
        }
        assert!(Instant::now() < deadline, "process {pid} lives on");
        thread::yield_now();
    }
}
