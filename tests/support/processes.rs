//! For tests with real processes: directories of their own, a process of their own, a look at other processes.

use super::*;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The variable that tells a re-executed test binary which test it was started for.
pub const ALONE: &str = "MCP_SUPERVISED_TEST_ALONE";

/// Runs the rest of the test in a process of its own, where nothing else runs: for what is process-wide (descriptors, limits,
/// signals, the environment, memory). Gives the output of that process to the test that asked for it, and returns there.
#[allow(unused_macros, reason = "each test file uses its part")]
macro_rules! alone {
    () => {
        $crate::support::alone!(&[], |_| {})
    };
    ($env:expr, $judge:expr) => {{
        fn here() {}
        let name = std::any::type_name_of_val(&here);
        let name = name.strip_suffix("::here").unwrap().split_once("::").unwrap().1;
        if std::env::var($crate::support::ALONE).as_deref() != Ok(name) {
            let judge: fn(&std::process::Output) = $judge;
            judge(&$crate::support::run_again(name, $env));
            return;
        }
    }};
}
pub(crate) use alone;

/// Runs one test of this binary again and expects it to pass. Values of `None` are taken out of the environment.
pub fn run_again(name: &str, env: &[(&str, Option<&str>)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(ALONE, name);
    for (variable, value) in env {
        match value {
            Some(value) => command.env(variable, value),
            None => command.env_remove(variable),
        };
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // A name that matches no test passes too, and says so.
    let ran = !text.contains("running 0 tests");
    assert!(
        output.status.success() && ran,
        "{name}: {}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Runs this whole file again, as on a system that has none of the newer calls of the kernel and the C library. The test that
/// calls it must be named `without_newer_kernel_calls`, so that it can leave itself out.
pub fn run_file_again_without_newer_kernel_calls() {
    const WITHOUT: &str = "MCP_SUPERVISED_WITHOUT";
    if std::env::var_os(WITHOUT).is_some() {
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--skip", "without_newer_kernel_calls"])
        .env(WITHOUT, "all")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A directory that is removed at the end.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("mcp-supervised-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The full name of something in it.
    pub fn name(&self, of: &str) -> String {
        self.0.join(of).to_str().unwrap().to_owned()
    }

    pub fn directory(&self, name: &str) -> String {
        std::fs::create_dir_all(self.0.join(name)).unwrap();
        self.name(name)
    }

    /// Another name of the demo server. A link, since a copy that was just written may be "busy" when it is to be run: a child
    /// that another test starts at that moment holds it open for writing.
    pub fn link(&self, name: &str) -> String {
        symlink(demo_server(), self.0.join(name)).unwrap();
        self.name(name)
    }

    pub fn remove(&self, name: &str) {
        std::fs::remove_file(self.0.join(name)).unwrap();
    }

    /// A file that will not be run.
    pub fn data(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.join(name), content).unwrap();
        self.name(name)
    }

    /// A file with these bytes and this mode, that may be run at once: another process writes it, for the reason above.
    pub fn file(&self, name: &str, mode: &str, content: &str) -> String {
        let path = self.name(name);
        let script = r#"printf %s "$1" > "$2" && chmod "$3" "$2""#;
        assert!(Command::new("/bin/sh").args(["-c", script, "sh", content, &path, mode]).status().unwrap().success());
        path
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Host {
    /// A host that takes one event at a time, so that `until` and `next` stop exactly at what they look for.
    pub fn stepwise(mut self) -> Self {
        self.batch = 1;
        self
    }

    /// One turn that hands nothing out.
    pub fn drive(&mut self) {
        let batch = std::mem::replace(&mut self.batch, 0);
        assert!(self.poll(0).is_empty());
        self.batch = batch;
    }

    /// Makes turns, taking nothing, until something holds. For what no event tells.
    pub fn drive_until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < deadline, "in vain: {what}");
            self.wait_readable(Duration::from_millis(1));
            self.drive();
        }
    }

    /// Makes turns, taking nothing, until the peer is in that state.
    pub fn reach(&mut self, peer: u64, state: mcp_supervised_peer_state) {
        self.drive_until(&format!("{state:?}"), |host| host.state(peer) == state as i32);
    }

    /// Everything there is to take now must be log lines.
    pub fn expect_silence(&mut self) {
        loop {
            let events = self.poll(0);
            assert_eq!(letters(&events), "", "{events:#?}");
            if events.is_empty() {
                return;
            }
        }
    }

    /// Polls until the last event of a peer.
    #[allow(clippy::wrong_self_convention, reason = "it converts nothing")]
    pub fn to_the_end(&mut self, peer: u64) -> Vec<Event> {
        self.until(|e| e.peer == peer && e.is_final())
    }

    /// The last CLOSE that was taken.
    pub fn last_close(&self) -> &Event {
        self.seen.iter().rfind(|e| e.is(MCP_SUPERVISED_EVENT_CLOSE)).expect("a CLOSE was taken")
    }
}

/// Waits for something outside that nothing tells about.
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::yield_now();
    }
}

/// Waits until a process is in that state.
pub fn wait_state(pid: i32, state: char) {
    wait_for(&format!("process {pid} is {state}"), || state_of(pid) == Some(state));
}

/// Whether a process runs, or is stopped: neither gone nor a zombie, nor about to be because a SIGKILL is on its way to it or it
/// has begun to exit.
pub fn lives(pid: i32) -> bool {
    const EXITING: u32 = 4;
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else { return false };
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    let killed = ["SigPnd:", "ShdPnd:"].iter().any(|name| {
        u64::from_str_radix(field(name), 16).is_ok_and(|pending| pending & (1 << (libc::SIGKILL - 1)) != 0)
    });
    // A signal is taken before the exit begins, so the flags are looked at last.
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let flags = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(6)?.parse().ok());
    !killed && !field("State:").starts_with(['Z', 'X']) && flags.is_some_and(|flags: u32| flags & EXITING == 0)
}

/// The events of one peer.
pub fn of(peer: u64, events: &[Event]) -> Vec<Event> {
    events.iter().filter(|e| e.peer == peer).cloned().collect()
}
