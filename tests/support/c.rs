//! Hosts in C and in other languages: compiled strictly, linked with the shared library of this very build, run under a watchdog.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::compiler::{cc, link, run, scratch, strict};

/// What only a hang reaches.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program and its options, with blanks between them, in which every host is run: `./tests/all --sanitize` names valgrind.
const UNDER: &str = "MCP_SUPERVISED_TEST_UNDER";

/// A compiled host in a directory of its own, which goes when this is dropped.
pub struct CHost {
    dir: PathBuf,
    source: PathBuf,
    command: Command,
}

/// What a host left behind.
pub struct Ran {
    pub status: ExitStatus,
    /// Standard output and standard error, as they came.
    pub output: String,
}

/// A directory of one host's own.
pub fn host_dir() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    scratch(&format!("c-{}-{number}", std::process::id()))
}

/// A file of this repository, given from its root.
pub fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compiles a C file of this repository, given from its root.
pub fn compile(path: &str) -> CHost {
    compile_by(strict(&cc(), "c11"), &[path], &[])
}

/// Compiles files of this repository; the first one gives the host its name. The options follow the files.
pub fn compile_by(mut compiler: Command, paths: &[&str], options: &[String]) -> CHost {
    let dir = host_dir();
    let program = dir.join("host");
    compiler.args(["-g", "-pthread", "-o"]).arg(&program).args(paths.iter().map(|path| source(path))).args(options);
    link(&mut compiler, &dir);
    run(&mut compiler);
    let host = CHost { dir, source: source(paths[0]), command: Command::new(program) };
    let under = std::env::var(UNDER).unwrap_or_default();
    match under.split_whitespace().collect::<Vec<_>>()[..] {
        [] => host,
        [program, ref options @ ..] => host.under(program, options),
    }
}

#[allow(dead_code, reason = "each test file uses its part")]
impl CHost {
    /// A host that was built by other means, in a directory of its own.
    pub fn from(dir: PathBuf, source: PathBuf, command: Command) -> Self {
        Self { dir, source, command }
    }

    /// The directory that goes when the host is dropped.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn arg(mut self, arg: &str) -> Self {
        self.command.arg(arg);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs the host inside another program.
    #[allow(dead_code, reason = "each test file uses its part")]
    pub fn under(mut self, program: &str, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(args).arg(self.command.get_program()).args(self.command.get_args());
        for (name, value) in self.command.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        self.command = command;
        self
    }

    /// Runs it to its end; one that hangs is killed.
    pub fn run(mut self) -> Ran {
        self.run_once()
    }

    /// The same, and if it was a success, a look at its directory before that goes.
    pub fn run_and(mut self, look: impl FnOnce()) -> Ran {
        let ran = self.run_once();
        if ran.status.success() {
            look();
        }
        ran
    }

    /// Runs it once for each list of further arguments; each run must be a success. Their outputs.
    pub fn succeeds_with(mut self, variants: &[&[&str]]) -> Vec<String> {
        let mut outputs = Vec::new();
        for arguments in variants {
            let mut command = Command::new(self.command.get_program());
            command.args(self.command.get_args()).args(*arguments);
            command.envs(self.command.get_envs().map(|(name, value)| (name, value.unwrap_or_default())));
            if let Some(dir) = self.command.get_current_dir() {
                command.current_dir(dir);
            }
            let plain = std::mem::replace(&mut self.command, command);
            let Ran { status, output } = self.run_once();
            assert!(status.success(), "{} {arguments:?} failed ({status}):\n{output}", self.source.display());
            outputs.push(output);
            self.command = plain;
        }
        outputs
    }

    fn run_once(&mut self) -> Ran {
        // A file takes everything and has no end to wait for: a server that is left behind cannot hold the test.
        let path = self.dir.join("output");
        let _ = fs::remove_file(&path);
        let mut output = File::options().read(true).append(true).create(true).open(path).unwrap();
        let mut child = self
            .command
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output.try_clone().unwrap())
            .spawn()
            .unwrap();
        let in_time = wait_with_watchdog(&mut child);
        let status = child.wait().unwrap();
        let mut bytes = Vec::new();
        output.rewind().unwrap();
        output.read_to_end(&mut bytes).unwrap();
        let output = String::from_utf8_lossy(&bytes).into_owned();
        assert!(in_time, "{} hangs; it had written:\n{output}", self.source.display());
        Ran { status, output }
    }

    /// Runs it to its end, which must be a success. Its output.
    pub fn succeeds(self) -> String {
        let source = self.source.clone();
        let Ran { status, output } = self.run();
        let signal = status.signal().map(|signal| format!(" by signal {signal}")).unwrap_or_default();
        assert!(status.success(), "{} failed{signal} ({status}):\n{output}", source.display());
        output
    }
}

impl Drop for CHost {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Waits for the end without taking it, so that the number still is the child's when it has to be killed.
fn wait_with_watchdog(child: &mut Child) -> bool {
    let pid = child.id();
    let (ended, end) = mpsc::channel();
    let watcher = thread::spawn(move || {
        loop {
            let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
            // SAFETY: `info` is a valid place for the answer and outlives the call.
            let done = unsafe { libc::waitid(libc::P_PID, pid, info.as_mut_ptr(), libc::WEXITED | libc::WNOWAIT) };
            if done == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                break;
            }
        }
        // Nobody listens any more when the watchdog has struck.
        let _ = ended.send(());
    });
    let in_time = end.recv_timeout(PATIENCE).is_ok();
    if !in_time {
        child.kill().unwrap();
    }
    watcher.join().unwrap();
    in_time
}
