//! A kernel or a filter that refuses a call: everything goes on without it, and it is not tried again.
//!
//! The older kernels are imitated with a seccomp filter, in a process of its own, since a filter cannot be removed.

use std::io::IoSlice;
use std::os::fd::AsFd;

use super::testing::{finish, in_subprocess, read_all, shell, start, wait_dead};
use super::{Exit, Features, Peek, Signalled, io, writev_nosignal};

/// The variable with the error number for a test that is run once for each of several. Without it such a test does nothing.
const REFUSAL: &str = "MCP_SUPERVISED_TEST_REFUSAL";

fn chosen_refusal() -> Option<i32> {
    std::env::var(REFUSAL).ok()?.parse().ok()
}

/// Call `number` fails with `errno` from now on, in all threads made later and in this one; with `second`, only if the lower half of its
/// second argument is that.
fn refuse(number: libc::c_long, second: Option<u32>, errno: i32) {
    let load = |offset| libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: offset };
    let skip_unless = |value, distance| libc::sock_filter { code: 0x15, jt: 0, jf: distance, k: value };
    let answer = |value| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: value };
    let refusal = answer(libc::SECCOMP_RET_ERRNO | errno.cast_unsigned());
    let number = u32::try_from(number).unwrap();
    let second_argument = if cfg!(target_endian = "little") { 24 } else { 28 };
    let mut program = vec![load(0)];
    match second {
        None => program.extend([skip_unless(number, 1), refusal]),
        Some(value) => {
            program.extend([skip_unless(number, 3), load(second_argument), skip_unless(value, 1), refusal]);
        }
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    let length = u16::try_from(program.len()).unwrap();
    let description = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    // SAFETY: takes numbers.
    let answer = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(answer, 0);
    // SAFETY: the description names a program that outlives the call.
    let done = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const description) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn pidfd_open_refused() {
    in_subprocess!({
        refuse(libc::SYS_pidfd_open, None, libc::ENOSYS);
        let features = Features::all();
        let child = start(&shell("sleep 1000 & wait"), &features);
        let mut process = child.process;
        assert!(process.pidfd().is_none());
        assert!(!features.pidfd_usable());
        assert_eq!(process.peek(), Peek::Running);
        assert_eq!(process.signal_group(libc::SIGKILL), Signalled::Sent);
        assert_eq!(read_all(child.stdout.as_fd()), "");
        assert_eq!(finish(&mut process), Exit::Signal(libc::SIGKILL));
        assert_eq!(process.signal_group(libc::SIGKILL), Signalled::NotOurs);
    });
}

#[test]
fn pidfd_open_forbidden_by_a_filter() {
    in_subprocess!({
        refuse(libc::SYS_pidfd_open, None, libc::EPERM);
        let features = Features::all();
        let mut process = start(&shell("exit 3"), &features).process;
        assert!(process.pidfd().is_none() && !features.pidfd_usable());
        assert_eq!(finish(&mut process), Exit::Code(3));
    });
}

#[test]
fn pidfd_open_that_finds_nobody() {
    in_subprocess!({
        refuse(libc::SYS_pidfd_open, None, libc::ESRCH);
        // SAFETY: a constant disposition, in a process of its own.
        let _ = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        let features = Features::all();
        let child = start(&shell("echo last words"), &features);
        let mut process = child.process;
        assert_eq!(read_all(child.stdout.as_fd()), "last words\n");
        assert!(features.pidfd_usable(), "says nothing about the system");
        while process.peek() == Peek::Running {
            std::thread::yield_now();
        }
        assert_eq!(process.exit(), Some(Exit::Unknown));
    });
}

#[test]
fn pidfd_open_out_of_memory() {
    in_subprocess!({
        refuse(libc::SYS_pidfd_open, None, libc::ENOMEM);
        let error = super::spawn(&shell("sleep 1000"), &Features { pidfd: true, ..Features::detect() }).unwrap_err();
        assert!(matches!(error, super::SpawnError::Resources { errno: libc::ENOMEM, .. }), "{error:?}");
        assert!(!super::testing::has_children());
    });
}

#[test]
fn group_signal_refused() {
    in_subprocess!({
        refuse(libc::SYS_pidfd_send_signal, None, libc::EINVAL);
        let features = Features { pidfd: true, pidfd_group_signal: true, ..Features::detect() };
        let child = start(&shell("sleep 1000 & wait"), &features);
        let mut process = child.process;
        assert_eq!(process.signal_group(libc::SIGKILL), Signalled::Sent);
        assert!(!features.group_signal_usable());
        assert_eq!(read_all(child.stdout.as_fd()), "");
        assert_eq!(finish(&mut process), Exit::Signal(libc::SIGKILL));
        assert_eq!(process.signal_group(libc::SIGKILL), Signalled::NotOurs);
    });
}

#[test]
fn status_question_refused() {
    for errno in [libc::ENOTTY, libc::EINVAL] {
        super::testing::run_again("sys::refusal_tests::status_question", &[(REFUSAL, &errno.to_string())]);
    }
}

#[test]
fn status_question() {
    let Some(errno) = chosen_refusal() else {
        return;
    };
    // The request's number, as on most machines; the library itself asks the C library's declarations.
    refuse(libc::SYS_ioctl, Some(0xC040_FF0B), errno);
    let features = Features { pidfd_info: true, ..Features::detect() };
    let mut process = start(&shell("exit 3"), &features).process;
    // SAFETY: the status is not asked for.
    let answer = unsafe { libc::waitpid(process.pid(), std::ptr::null_mut(), 0) };
    assert_eq!(answer, process.pid());
    assert_eq!(process.peek(), Peek::Exited(Exit::Unknown));
    assert_eq!(features.info_usable(), process.pidfd().is_none());
}

#[test]
fn writing_without_signal_refused() {
    for errno in [libc::EOPNOTSUPP, libc::EINVAL, libc::ENOSYS, libc::EPERM] {
        super::testing::run_again("sys::refusal_tests::writing", &[(REFUSAL, &errno.to_string())]);
    }
}

#[test]
fn writing() {
    let Some(errno) = chosen_refusal() else {
        return;
    };
    refuse(libc::SYS_pwritev2, None, errno);
    // SAFETY: a constant disposition, in a process of its own.
    let _ = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let features = Features::all();
    let (reading, writing) = io::pipe().unwrap();
    assert_eq!(writev_nosignal(writing.as_fd(), &[IoSlice::new(b"abc")], &features).unwrap(), 3);
    assert_eq!(features.rwf_nosignal_usable(), errno == libc::EPERM);
    drop(reading);
    let error = writev_nosignal(writing.as_fd(), &[IoSlice::new(b"abc")], &features).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

#[test]
fn the_end_is_seen_with_a_refused_descriptor() {
    in_subprocess!({
        refuse(libc::SYS_pidfd_open, None, libc::ENOSYS);
        let mut process = start(&shell("exit 0"), &Features::all()).process;
        wait_dead(process.pid());
        assert_eq!(process.peek(), Peek::Exited(Exit::Code(0)));
        assert_eq!(process.reap(), Peek::Exited(Exit::Code(0)));
    });
}
