//! What the server does to its own process, and the processes it starts. All `unsafe` of the program is here.

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::SIGTERM;

use crate::options::EndStreams;
use crate::server::Server;

/// How a scripted death happens.
#[derive(Clone, Copy)]
pub enum Death {
    /// An ordinary exit.
    Exit(i32),
    /// Killed by a signal.
    Signal(i32),
}

impl Death {
    /// Ends the process without another word on the wire.
    pub fn happen(self) -> ! {
        match self {
            Self::Exit(code) => std::process::exit(code),
            Self::Signal(number) => die_by_signal(number),
        }
    }
}

/// Descriptor 0 as a file, so that dropping it closes it.
pub fn own_stdin() -> File {
    // SAFETY: called once, and nothing else in this program uses descriptor 0 (std::io::stdin is never touched).
    unsafe { File::from_raw_fd(0) }
}

/// Descriptor 1 as a file, so that dropping it closes it.
pub fn own_stdout() -> File {
    // SAFETY: called once, and nothing else in this program uses descriptor 1 (std::io::stdout only prints the help,
    // and then no `Output` exists).
    unsafe { File::from_raw_fd(1) }
}

/// Blocks until standard input has something to read, or has ended, and leaves it there.
pub fn wait_for_input() {
    let mut stdin = libc::pollfd { fd: 0, events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: one initialised struct that outlives the call.
        let ready = unsafe { libc::poll(&raw mut stdin, 1, -1) };
        if ready > 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

/// The signals that were ignored when the process began, as a mask like SigIgn: bit 0 is signal 1.
pub static IGNORED_AT_START: AtomicU64 = AtomicU64::new(0);

/// Runs before the runtime, which ignores SIGPIPE and so hides what was inherited.
extern "C" fn look_at_signals() {
    let mut mask = 0;
    for number in 1..=64 {
        let mut action = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: a null new action only asks; the old one is written to memory of the right type.
        let asked = unsafe { libc::sigaction(number, std::ptr::null(), action.as_mut_ptr()) };
        if asked == 0 {
            // SAFETY: the call succeeded, so it has filled the struct.
            let action = unsafe { action.assume_init() };
            if action.sa_sigaction == libc::SIG_IGN {
                mask |= 1 << (number - 1);
            }
        }
    }
    IGNORED_AT_START.store(mask, Ordering::Relaxed);
}

// SAFETY: the section holds pointers to functions that take no arguments (or ignore them) and use no runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_AT_SIGNALS: extern "C" fn() = look_at_signals;

/// Sends a signal to this process. Returns if the process survived it (SIGSTOP after SIGCONT, or a handled one).
pub fn signal_self(number: i32) {
    // SAFETY: getpid has no precondition.
    let pid = unsafe { libc::getpid() };
    // SAFETY: a process may always signal itself; a number out of range is an error without effect.
    unsafe { libc::kill(pid, number) };
}

/// Dies by a signal, even one that the runtime handles (SIGSEGV) or ignores (SIGPIPE).
pub fn die_by_signal(number: i32) -> ! {
    let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is initialised and outlives the call. Without it each crash could leave a core file behind.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core) };
    // SAFETY: SIG_DFL is a valid disposition for every signal; for SIGKILL the call fails and need not succeed.
    unsafe { libc::signal(number, libc::SIG_DFL) };
    signal_self(number);
    // Another thread may take a process-directed signal a moment later than this one goes on.
    thread::sleep(Duration::from_secs(1));
    eprintln!("signal {number} does not end a process");
    std::process::exit(2);
}

/// `--leave-group`: a signal to the group this process was started in does not reach it any more.
pub fn leave_group() {
    // SAFETY: take and give numbers.
    let group = unsafe { libc::getpgid(libc::getppid()) };
    // SAFETY: takes two numbers; it fails if the group is in another session, and then nothing changes.
    unsafe { libc::setpgid(0, group) };
}

/// `--ignore-sigterm` and `--graceful`. A handler that does nothing is used instead of SIG_IGN, because SIG_IGN would be
/// inherited by grandchildren.
pub fn set_up_sigterm(server: &'static Server) {
    if server.options.ignore_sigterm {
        // Registration fails for a signal that cannot be handled only.
        let _ = signal_hook::flag::register(SIGTERM, Arc::new(AtomicBool::new(false)));
    } else if server.options.graceful {
        let Ok((mut wake, handler_end)) = UnixStream::pair() else {
            return;
        };
        if signal_hook::low_level::pipe::register(SIGTERM, handler_end).is_err() {
            return;
        }
        server.in_thread(move || {
            if wake.read_exact(&mut [0]).is_ok() {
                server.leave(match server.options.end_streams {
                    EndStreams::Nothing => EndStreams::Result,
                    asked => asked,
                });
            }
        });
    }
}

/// What a grandchild keeps from its parent, besides stdout and stderr, which it always holds open.
#[derive(Default)]
pub struct Inherit {
    /// Holds the parent's stdin too.
    pub stdin: bool,
    /// Leaves the parent's process group.
    pub new_group: bool,
    /// Writes a line to stdout that often.
    pub chatter_ms: Option<u64>,
}

/// Starts this program again as a process that does nothing but hold descriptors. Its pid.
pub fn spawn_grandchild(seconds: u64, inherit: &Inherit) -> io::Result<u32> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--be-grandchild").arg(seconds.to_string());
    if let Some(ms) = inherit.chatter_ms {
        command.arg("--chatter").arg(ms.to_string());
    }
    if !inherit.stdin {
        command.stdin(Stdio::null());
    }
    if inherit.new_group {
        command.process_group(0);
    }
    let mut child = command.spawn()?;
    let pid = child.id();
    // Somebody has to reap it if the server lives longer.
    thread::spawn(move || child.wait());
    Ok(pid)
}

/// The whole life of a grandchild.
pub fn be_grandchild(seconds: u64, chatter_ms: Option<u64>) {
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut stdout = own_stdout();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        let Some(ms) = chatter_ms else {
            thread::sleep(left);
            continue;
        };
        // The pause comes first, so that the answer with the pid is not behind the first line.
        thread::sleep(left.min(Duration::from_millis(ms)));
        if stdout.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/grandchild\",\"params\":{}}\n").is_err() {
            return;
        }
    }
}

/// What a launcher does: starts the real server with the same stdio, waits for it and exits with its code.
pub fn be_wrapper(arguments: &[std::ffi::OsString]) {
    let status = std::env::current_exe().and_then(|this| Command::new(this).args(arguments).status());
    match status {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => {
            eprintln!("--wrap: {error}");
            std::process::exit(2);
        }
    }
}
