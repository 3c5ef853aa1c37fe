//! One child process: has it ended, how, and signals to its group.
//!
//! Only our own child is ever waited for, by its descriptor where there is one and by its number otherwise. A number is ours until the
//! child has been reaped, by us or by somebody else in the host; after that the kernel may give it to a stranger. Everything here is
//! arranged around that: an exit is looked at without reaping, the group is signalled while the leader still holds the number, and the
//! reaping comes last. Dropping a [`Process`] neither kills nor waits.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use super::io::{above_stdio, wait};
use super::{Error, Features, last_errno};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
    /// It is gone, and somebody else in the host has fetched the status.
    Unknown,
}

/// What a look at the process shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peek {
    /// It has not ended.
    Running,
    /// It has ended.
    Exited(Exit),
}

/// What became of a signal for the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signalled {
    /// At least one member got it. Members that are dead and not yet reaped by whoever has to count too, so repeating this until nobody
    /// is left may take for ever.
    Sent,
    /// The group is empty.
    NobodyLeft,
    /// Nothing was sent: the leader was reaped, and without the kernel's help its number may by now be a stranger's.
    NotOurs,
    /// The system refused with this error number; `EPERM` when every member runs as another user.
    Refused(i32),
}

/// A child that was started as the leader of its own process group.
#[derive(Debug)]
pub struct Process {
    pid: libc::pid_t,
    pidfd: Option<OwnedFd>,
    features: Features,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Not seen to have ended. The number is ours unless somebody else reaps.
    Running,
    /// Ended and not reaped by us.
    Ended(Exit),
    /// Reaped. The number is not ours any more.
    Gone(Exit),
}

/// What waitid says about our child.
enum Waited {
    Running,
    Ended(Exit),
    NoChild,
}

const PIDFD_SIGNAL_PROCESS_GROUP: libc::c_uint = 4;

impl Process {
    /// Takes charge of a child that has just been started and that nobody else knows.
    ///
    /// # Errors
    ///
    /// When no descriptor can be had to watch it (`EMFILE`, `ENFILE`, `ENOMEM`), the child is killed and reaped before this returns: it
    /// must not live on with nobody watching.
    pub(super) fn adopt(pid: libc::pid_t, features: &Features) -> Result<Process, Error> {
        let mut process = Process { pid, pidfd: None, features: *features, state: State::Running };
        if !features.pidfd_usable() {
            return Ok(process);
        }
        match open_pidfd(pid).and_then(above_stdio) {
            Ok(pidfd) => process.pidfd = Some(pidfd),
            Err(error) => match error.errno {
                libc::EMFILE | libc::ENFILE | libc::ENOMEM => {
                    process.undo();
                    return Err(error);
                }
                // Started, already dead, and reaped by somebody else: not a failure of the spawn, and its output is still in the
                // pipe. Asking once more settles it; the number cannot have come round again so soon.
                libc::ESRCH => {
                    let _ = process.peek();
                }
                // No such call, or a filter in front of it.
                libc::ENOSYS | libc::EPERM | libc::EACCES | libc::ENODEV => Features::pidfd_is_absent(),
                // Never seen. The child can be followed by its number.
                _ => {}
            },
        }
        Ok(process)
    }

    /// Its number, which is its group's too. After the reap it is only a name for log lines.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Readable when the process has ended. `None` where the system has no such descriptors, and for a child that was gone before one
    /// could be opened: then [`peek`](Process::peek) has to be called from time to time, and the first time right after the spawn.
    #[must_use]
    pub fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// The exit, if it has been seen.
    #[must_use]
    pub fn exit(&self) -> Option<Exit> {
        match self.state {
            State::Running => None,
            State::Ended(exit) | State::Gone(exit) => Some(exit),
        }
    }

    /// Whether nothing is left to reap.
    #[must_use]
    #[cfg(test)]
    pub fn is_reaped(&self) -> bool {
        matches!(self.state, State::Gone(_))
    }

    /// Looks whether it has ended and leaves it unreaped, so that its group can still be signalled. Never blocks.
    pub fn peek(&mut self) -> Peek {
        if matches!(self.state, State::Running) {
            self.look();
        }
        self.seen()
    }

    /// Reaps it if it has ended; [`Peek::Running`] if it has not. Never blocks, and may be called again. Signal the group first.
    pub fn reap(&mut self) -> Peek {
        match self.state {
            State::Gone(_) => {}
            State::Running | State::Ended(_) => match self.waitid(libc::WNOHANG) {
                Waited::Running => {}
                Waited::Ended(exit) => self.state = State::Gone(exit),
                Waited::NoChild => self.found_no_child(),
            },
        }
        self.seen()
    }

    /// Sends a signal to everybody in the group, and to the leader wherever it is: one that has moved to another group is still
    /// our child. Sends nothing when the group cannot be named without doubt.
    pub fn signal_group(&mut self, signal: i32) -> Signalled {
        let answer = self.signal_members(signal);
        if self.peek() == Peek::Running && self.has_left_its_group() {
            return self.signal_leader(signal);
        }
        answer
    }

    /// Whether the leader is in another group than the one it was started in. Only for one that runs, whose number is ours.
    fn has_left_its_group(&self) -> bool {
        // SAFETY: takes a number.
        let group = unsafe { libc::getpgid(self.pid) };
        group > 0 && group != self.pid
    }

    /// The leader alone.
    fn signal_leader(&mut self, signal: i32) -> Signalled {
        let sent = match &self.pidfd {
            // SAFETY: the descriptor is open; the null pointer means "as kill would send it".
            Some(pidfd) => unsafe {
                libc::syscall(
                    libc::SYS_pidfd_send_signal,
                    libc::c_long::from(pidfd.as_raw_fd()),
                    libc::c_long::from(signal),
                    std::ptr::null::<libc::siginfo_t>(),
                    0 as libc::c_ulong,
                )
            },
            // SAFETY: takes two numbers. It was just seen to run and to be ours, and is above 1.
            None if self.pid > 1 => unsafe { libc::kill(self.pid, signal) }.into(),
            None => 0,
        };
        match (sent, last_errno()) {
            (0, _) => Signalled::Sent,
            (_, libc::ESRCH) => Signalled::NobodyLeft,
            (_, errno) => Signalled::Refused(errno),
        }
    }

    fn signal_members(&mut self, signal: i32) -> Signalled {
        if let Some(answer) = self.signal_through_pidfd(signal) {
            return answer;
        }
        // The number names our group only while the leader is unreaped, so that is looked at right before. A host that reaps everything
        // can still come between the two calls; nothing but the descriptor above closes that window.
        if !matches!(self.state, State::Gone(_)) {
            self.look();
        }
        if matches!(self.state, State::Gone(_)) {
            return Signalled::NotOurs;
        }
        // SAFETY: takes two numbers. The group is ours, as was just seen; its number is above 1, so that this cannot mean "everybody".
        if self.pid > 1 && unsafe { libc::kill(-self.pid, signal) } == 0 {
            return Signalled::Sent;
        }
        match last_errno() {
            libc::ESRCH => Signalled::NobodyLeft,
            errno => Signalled::Refused(errno),
        }
    }

    /// The descriptor names the group even after the leader was reaped, whoever did it. `None`: not possible here.
    fn signal_through_pidfd(&self, signal: i32) -> Option<Signalled> {
        let pidfd = self.pidfd.as_ref()?;
        if !self.features.group_signal_usable() {
            return None;
        }
        // SAFETY: the descriptor is open; the null pointer means "as kill would send it".
        let sent = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                libc::c_long::from(pidfd.as_raw_fd()),
                libc::c_long::from(signal),
                std::ptr::null::<libc::siginfo_t>(),
                libc::c_ulong::from(PIDFD_SIGNAL_PROCESS_GROUP),
            )
        };
        if sent == 0 {
            return Some(Signalled::Sent);
        }
        match last_errno() {
            libc::ESRCH => Some(Signalled::NobodyLeft),
            libc::EINVAL | libc::ENOSYS if (0..=libc::SIGRTMAX()).contains(&signal) => {
                Features::group_signal_is_absent();
                None
            }
            // Either the members' or a filter's; the other way will tell.
            _ => None,
        }
    }

    fn seen(&self) -> Peek {
        self.exit().map_or(Peek::Running, Peek::Exited)
    }

    fn look(&mut self) {
        match self.waitid(libc::WNOHANG | libc::WNOWAIT) {
            Waited::Running => {}
            Waited::Ended(exit) => self.state = State::Ended(exit),
            Waited::NoChild => self.found_no_child(),
        }
    }

    fn found_no_child(&mut self) {
        if let State::Ended(exit) = self.state {
            // Somebody reaped it after we had looked; what we saw stands.
            self.state = State::Gone(exit);
            return;
        }
        if let Some(pidfd) = &self.pidfd {
            // The descriptor is the authority on whether it has ended.
            if !matches!(wait(pidfd.as_fd(), libc::POLLIN, 0), Ok(seen) if seen != 0) {
                return;
            }
        }
        self.state = State::Gone(self.ask_for_status());
    }

    fn waitid(&self, how: libc::c_int) -> Waited {
        // By descriptor where possible: it cannot be mistaken for another child of the host that was given the same number later.
        let (kind, id) = match &self.pidfd {
            Some(pidfd) => (libc::P_PIDFD, pidfd.as_raw_fd()),
            None => (libc::P_PID, self.pid),
        };
        loop {
            let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
            // SAFETY: `info` is a valid place for the answer and outlives the call.
            let done = unsafe { libc::waitid(kind, id.cast_unsigned(), info.as_mut_ptr(), libc::WEXITED | how) };
            if done < 0 {
                if last_errno() == libc::EINTR {
                    continue;
                }
                return Waited::NoChild;
            }
            // SAFETY: zeroed before the call, and all zeroes is a valid siginfo.
            let info = unsafe { info.assume_init() };
            // SAFETY: the fields of SIGCHLD are what waitid fills in; where it found nothing they are zero.
            if unsafe { info.si_pid() } == 0 {
                return Waited::Running;
            }
            // SAFETY: as above.
            let status = unsafe { info.si_status() };
            return Waited::Ended(match info.si_code {
                libc::CLD_EXITED => Exit::Code(status),
                _ => Exit::Signal(status),
            });
        }
    }

    /// Newer kernels keep the status for holders of the descriptor, whoever reaped.
    fn ask_for_status(&self) -> Exit {
        let Some(pidfd) = self.pidfd.as_ref().filter(|_| self.features.info_usable()) else {
            return Exit::Unknown;
        };
        // A child that is reaped automatically stops being our child a moment before its status is published. The moment is a few
        // microseconds; one millisecond in all is worth knowing the status for.
        for _ in 0..20 {
            match ask_pidfd(pidfd.as_fd()) {
                Asked::Status(exit) => return exit,
                Asked::NotYet => std::thread::sleep(Duration::from_micros(50)),
                Asked::Never => break,
            }
        }
        Exit::Unknown
    }

    /// Kills and reaps a child that turned out not to be wanted.
    fn undo(&mut self) {
        if self.signal_group(libc::SIGKILL) != Signalled::Sent {
            // Gone already, or out of our reach: then waiting for it could take for ever.
            let _ = self.reap();
            return;
        }
        if let Waited::Ended(exit) = self.waitid(0) {
            self.state = State::Gone(exit);
        }
    }
}

fn open_pidfd(pid: libc::pid_t) -> Result<OwnedFd, Error> {
    // SAFETY: takes two numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0 as libc::c_long) };
    match libc::c_int::try_from(fd) {
        // SAFETY: the call has just made this descriptor, and nobody else knows it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(Error::last("pidfd_open")),
    }
}

/// `struct pidfd_info` in its first published size, which every kernel that knows the request accepts.
#[repr(C)]
struct PidfdInfo {
    mask: u64,
    cgroupid: u64,
    ids: [u32; 11],
    exit_code: i32,
}

const PIDFD_INFO_EXIT: u64 = 1 << 3;
const PIDFD_GET_INFO: libc::Ioctl = libc::_IOWR::<PidfdInfo>(0xFF, 11);

enum Asked {
    Status(Exit),
    NotYet,
    Never,
}

fn ask_pidfd(pidfd: BorrowedFd<'_>) -> Asked {
    let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, cgroupid: 0, ids: [0; 11], exit_code: 0 };
    // SAFETY: the request reads and writes a structure of the size that is part of its number, and `info` is one.
    let done = unsafe { libc::ioctl(pidfd.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
    if done < 0 {
        if matches!(last_errno(), libc::ENOTTY | libc::EINVAL | libc::ENOSYS) {
            Features::info_is_absent();
        }
        return Asked::Never;
    }
    if info.mask & PIDFD_INFO_EXIT == 0 {
        return Asked::NotYet;
    }
    // The same encoding as waitpid's.
    if libc::WIFSIGNALED(info.exit_code) {
        Asked::Status(Exit::Signal(libc::WTERMSIG(info.exit_code)))
    } else {
        Asked::Status(Exit::Code(libc::WEXITSTATUS(info.exit_code)))
    }
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
