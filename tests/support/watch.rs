//! Looking at processes from outside, so that a test knows that nothing is under way without waiting for time to pass; tests
//! that need a process to themselves; and an epoll as a host would have around the handle's descriptor.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use super::{ALONE, PATIENCE};

/// Starts this binary again for one test, behind another command.
pub fn run_again_behind(prefix: &[&str], test: &str) -> io::Result<Output> {
    let mut command = Command::new(prefix[0]);
    command.args(&prefix[1..]).arg(std::env::current_exe()?).args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(ALONE, test).output()
}

/// Whether no thread of a child of ours will do anything before somebody else does: all are asleep in a read of stdin, in a
/// write to a full pipe or parked for good, or the process is stopped, or has ended and `waitid` knows it.
pub fn is_settled(pid: i32) -> bool {
    // The wait takes the lock under which an exit is announced, so that what it shows was announced to everybody.
    match ended(pid) {
        Some(true) | None => return true,
        Some(false) => {}
    }
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    tasks.flatten().all(|task| {
        // First the state, then the call: whoever was asleep after we had done our part has done its own.
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        match stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()) {
            Some('T' | 't') => true,
            Some('S') => waits_for_others(&task.path()),
            _ => false,
        }
    })
}

fn waits_for_others(task: &Path) -> bool {
    // Not every system lets us look; then being asleep has to do.
    let Ok(call) = std::fs::read_to_string(task.join("syscall")) else { return true };
    let mut words = call.split_whitespace();
    let number: Option<libc::c_long> = words.next().and_then(|word| word.parse().ok());
    let first = words.next().unwrap_or_default();
    match number {
        Some(libc::SYS_read) => first == "0x0",
        Some(libc::SYS_write) => first == "0x1" || first == "0x2",
        Some(number) => number == libc::SYS_futex || number == libc::SYS_wait4,
        None => false,
    }
}

/// Whether a child has ended and was not reaped; `None` if there is no such child.
fn ended(pid: i32) -> Option<bool> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: a valid place for the answer.
    let done = unsafe { libc::waitid(libc::P_PID, pid.cast_unsigned(), info.as_mut_ptr(), how) };
    // SAFETY: zeroed before the call; where it found nothing the field is zero.
    (done == 0).then(|| unsafe { info.assume_init().si_pid() } == pid)
}

/// Waits until the children are settled, and were so twice without having run in between.
pub fn settle(pids: &[i32]) {
    let deadline = Instant::now() + PATIENCE;
    let mut before: Option<Vec<u64>> = None;
    loop {
        let switches: Vec<u64> = pids.iter().map(|pid| switches(*pid)).collect();
        let settled = pids.iter().all(|pid| is_settled(*pid));
        if settled && before.as_ref() == Some(&switches) {
            return;
        }
        before = settled.then_some(switches);
        assert!(Instant::now() < deadline, "never at rest: {pids:?}");
        std::thread::yield_now();
    }
}

/// How often the threads of a process went to sleep.
pub fn switches(pid: i32) -> u64 {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    tasks.flatten().map(|task| number_of(&task.path().join("status"), "voluntary_ctxt_switches:")).sum()
}

/// Bytes a process has written so far, files and pipes alike.
pub fn written_by(pid: i32) -> u64 {
    number_of(Path::new(&format!("/proc/{pid}/io")), "wchar:")
}

/// Bytes a process has read so far.
pub fn read_by(pid: i32) -> u64 {
    number_of(Path::new(&format!("/proc/{pid}/io")), "rchar:")
}

/// Memory of this process that is resident, in KiB.
pub fn resident_kib() -> u64 {
    number_of(Path::new("/proc/self/status"), "VmRSS:")
}

fn number_of(file: &Path, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Processor time this process has used.
pub fn cpu_time() -> Duration {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: a valid place for the answer, and all zeroes is a valid one.
    let usage = unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()), 0);
        usage.assume_init()
    };
    [usage.ru_utime, usage.ru_stime]
        .iter()
        .map(|time| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000))
        .sum()
}

/// The number of this thread.
pub fn thread_id() -> i32 {
    // SAFETY: takes nothing.
    unsafe { libc::gettid() }
}

/// Waits until a thread of this process sleeps in epoll_wait.
pub fn wait_until_it_waits(thread: i32) {
    let deadline = Instant::now() + PATIENCE;
    let path = format!("/proc/self/task/{thread}/syscall");
    loop {
        let call = std::fs::read_to_string(&path).unwrap();
        let number: libc::c_long = call.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(-1);
        #[cfg(target_arch = "x86_64")]
        let plain = libc::SYS_epoll_wait;
        #[cfg(not(target_arch = "x86_64"))]
        let plain = libc::SYS_epoll_pwait;
        if number == plain || number == libc::SYS_epoll_pwait {
            return;
        }
        assert!(Instant::now() < deadline, "it does not wait: {call}");
        std::thread::yield_now();
    }
}

/// A signal to a child that was not reaped.
pub fn signal(pid: i32, signal: i32) {
    assert!(pid > 1);
    // SAFETY: takes two numbers.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// A host's own epoll, watching one descriptor.
pub struct Outer(OwnedFd);

impl Outer {
    /// Watches with these flags (EPOLLIN, EPOLLET, ...).
    pub fn new(watched: RawFd, flags: i32) -> Self {
        // SAFETY: takes a number.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(fd >= 0);
        // SAFETY: the call has just made this descriptor.
        let outer = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        let mut event = libc::epoll_event { events: flags.cast_unsigned(), u64: 0 };
        // SAFETY: a valid event; the descriptors are open.
        assert_eq!(unsafe { libc::epoll_ctl(fd, libc::EPOLL_CTL_ADD, watched, &raw mut event) }, 0);
        outer
    }

    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Whether it reports within that time.
    pub fn wait(&self, most: Duration) -> bool {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let ms = i32::try_from(most.as_millis()).unwrap();
        loop {
            // SAFETY: room for one event.
            let found = unsafe { libc::epoll_wait(self.fd(), &raw mut event, 1, ms) };
            if found >= 0 {
                return found == 1;
            }
            assert_eq!(io::Error::last_os_error().kind(), io::ErrorKind::Interrupted);
        }
    }
}
