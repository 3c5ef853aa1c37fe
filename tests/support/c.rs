//! Hosts in C: compiled strictly, linked with the shared library of this very build, run under a watchdog.

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

/// Compiles a C file of this repository, given from its root.
pub fn compile(source: &str) -> CHost {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = scratch(&format!("c-{}-{number}", std::process::id()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let program = dir.join("host");
    let mut compiler = strict(&cc(), "c11");
    compiler.args(["-g", "-pthread", "-o"]).arg(&program).arg(&source);
    link(&mut compiler, &dir);
    run(&mut compiler);
    CHost { dir, source, command: Command::new(program) }
}

impl CHost {
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
        // A file takes everything and has no end to wait for: a server that is left behind cannot hold the test.
        let mut output = File::options().read(true).append(true).create(true).open(self.dir.join("output")).unwrap();
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
