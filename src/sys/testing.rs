//! Helpers for the tests of this module.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::io::{read, wait};
use super::{Child, Command, Exit, Features, Peek, Process, StderrMode};

/// The variable that tells a re-executed test binary which test it was started for.
pub(super) const CHILD: &str = "MCP_SUPERVISED_TEST_IN_CHILD";

/// Runs the body in a process of its own, alone: for tests that change limits, dispositions, the mask or the standard descriptors.
macro_rules! in_subprocess {
    ($body:block) => { in_subprocess!([], $body) };
    ([$($name:literal = $value:literal),*], $body:block) => {{
        fn here() {}
        let name = std::any::type_name_of_val(&here);
        let name = name.strip_suffix("::here").unwrap();
        let name = name.split_once("::").unwrap().1;
        if std::env::var(crate::sys::testing::CHILD).as_deref() == Ok(name) {
            $body
        } else {
            crate::sys::testing::run_again(name, &[$(($name, $value)),*]);
        }
    }};
}
pub(super) use in_subprocess;

/// Runs one test of this binary again and expects it to pass.
pub(super) fn run_again(name: &str, env: &[(&str, &str)]) {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, name)
        .envs(env.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // A test that closes its standard output cannot say that it passed, but the status is still right; a name that matches no test
    // passes too, and says so.
    let ran = !text.contains("running 0 tests");
    assert!(
        output.status.success() && ran,
        "{name}: {}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// What this system has, nothing, and the states in between that older kernels are in.
pub(super) fn every_way() -> Vec<Features> {
    let full = Features::detect();
    vec![full, full.without("pidfd_group_signal,pidfd_info"), full.without("pidfd"), Features::none()]
}

/// `F_GETFD` and `F_GETFL`.
pub(super) fn flags_of(fd: BorrowedFd<'_>) -> (i32, i32) {
    // SAFETY: takes no argument.
    let of_descriptor = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFD) };
    // SAFETY: takes no argument.
    let of_file = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    (of_descriptor, of_file)
}

/// How many descriptors this process has open.
pub(super) fn open_descriptors() -> usize {
    // One of them belongs to the listing.
    std::fs::read_dir("/proc/self/fd").unwrap().count() - 1
}

pub(super) fn text(string: &str) -> CString {
    CString::new(string).unwrap()
}

/// A command with a plain environment.
pub(super) fn command(program: &str, args: &[&str]) -> Command {
    Command {
        program: text(program),
        args: args.iter().map(|argument| text(argument)).collect(),
        env: [text("PATH=/usr/bin:/bin")].into(),
        host_path: None,
        cwd: None,
        stderr: StderrMode::Null,
    }
}

pub(super) fn shell(script: &str) -> Command {
    command("/bin/sh", &["-c", script])
}

pub(super) fn start(command: &Command, features: &Features) -> Child {
    super::spawn(command, features).unwrap()
}

/// Everything until the end of the stream.
pub(super) fn read_all(fd: BorrowedFd<'_>) -> String {
    let mut all = Vec::new();
    let mut block = [0; 4096];
    loop {
        assert_ne!(wait(fd, libc::POLLIN, 30_000).unwrap(), 0, "nothing comes");
        match read(fd, &mut block).unwrap() {
            0 => return String::from_utf8(all).unwrap(),
            count => all.extend_from_slice(&block[..count]),
        }
    }
}

/// One line, waiting for it.
pub(super) fn read_line(fd: BorrowedFd<'_>) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        assert_ne!(wait(fd, libc::POLLIN, 30_000).unwrap(), 0, "nothing comes");
        assert_eq!(read(fd, &mut byte).unwrap(), 1, "the end came before the line");
        if byte[0] == b'\n' {
            return String::from_utf8(line).unwrap();
        }
        line.push(byte[0]);
    }
}

/// Waits until a child of ours has ended, and does not reap it.
pub(super) fn wait_dead(pid: i32) {
    let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: a valid place for the answer.
    let done =
        unsafe { libc::waitid(libc::P_PID, pid.cast_unsigned(), info.as_mut_ptr(), libc::WEXITED | libc::WNOWAIT) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// Waits for the end and reaps.
pub(super) fn finish(process: &mut Process) -> Exit {
    wait_dead(process.pid());
    match process.reap() {
        Peek::Exited(exit) => exit,
        Peek::Running => panic!("still running"),
    }
}

/// Runs a command to its end with an empty input.
pub(super) fn output(command: &Command, features: &Features) -> (String, Exit) {
    let Child { mut process, stdin, stdout, stderr } = start(command, features);
    drop(stdin);
    let said = read_all(stdout.as_fd());
    drop(stderr);
    (said, finish(&mut process))
}

/// Whether this process has any child, dead or alive.
pub(super) fn has_children() -> bool {
    let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: a valid place for the answer.
    let done =
        unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), libc::WEXITED | libc::WNOWAIT | libc::WNOHANG) };
    done == 0
}

/// A directory of its own that is removed at the end.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Scratch {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("mcp-supervised-sys-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn name(&self, of: &str) -> String {
        self.0.join(of).to_str().unwrap().to_owned()
    }

    pub(super) fn directory(&self, name: &str) {
        std::fs::create_dir_all(self.0.join(name)).unwrap();
    }

    /// A file with these bytes and mode. Written by another process: were it open for writing here, a child that another test is
    /// starting at this moment could hold it open, and running it would fail with "text file busy".
    pub(super) fn file(&self, name: &str, mode: &str, content: &str) -> String {
        let path = self.name(name);
        let status = std::process::Command::new("/bin/sh")
            .args(["-c", r#"printf %s "$1" > "$2" && chmod "$3" "$2""#, "sh", content, &path, mode])
            .status()
            .unwrap();
        assert!(status.success());
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// As [`every_way`], each with directories if the C library can do them at all.
pub(super) fn every_way_with_directories() -> Vec<Features> {
    let possible = super::features::addfchdir().is_some();
    every_way().into_iter().map(|features| Features { addfchdir: possible, ..features }).collect()
}

/// The error for a command that must not start.
pub(super) fn refused(command: &Command, features: &Features) -> super::SpawnError {
    match super::spawn(command, features) {
        Ok(child) => panic!("{} was started", child.process.pid()),
        Err(error) => error,
    }
}
