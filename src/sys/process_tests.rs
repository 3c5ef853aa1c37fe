//! Exits and group signals, with and without pidfds, and in hosts that reap everything.

use super::*;
use crate::sys::testing::{
    Scratch, every_way, finish, has_children, in_subprocess, read_all, read_line, shell, start, wait_dead,
};

fn take(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: a valid place for the status.
    let answer = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(answer, pid);
    status
}

/// Waits until a number is nobody's, as it is when the kernel reaps by itself.
fn wait_gone(pid: i32) {
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    // SAFETY: signal 0 only asks.
    while unsafe { libc::kill(pid, 0) } == 0 {
        assert!(std::time::Instant::now() < deadline);
        std::thread::yield_now();
    }
}

fn ignore_children(way: &str) {
    // SAFETY: all zeroes is a valid action: the default.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    match way {
        "ignored" => action.sa_sigaction = libc::SIG_IGN,
        _ => action.sa_flags = libc::SA_NOCLDWAIT,
    }
    // SAFETY: a constant disposition, in a process of its own.
    let answer = unsafe { libc::sigaction(libc::SIGCHLD, &raw const action, std::ptr::null_mut()) };
    assert_eq!(answer, 0);
}

#[test]
fn exits_are_told_apart() {
    for features in every_way() {
        for (script, expected) in [
            ("exit 0", Exit::Code(0)),
            ("exit 200", Exit::Code(200)),
            ("kill -KILL $$", Exit::Signal(libc::SIGKILL)),
            ("kill -TERM $$", Exit::Signal(libc::SIGTERM)),
        ] {
            let mut process = start(&shell(script), &features).process;
            wait_dead(process.pid());
            assert_eq!(process.peek(), Peek::Exited(expected));
            assert_eq!(process.peek(), Peek::Exited(expected));
            assert!(!process.is_reaped());
            assert_eq!(process.reap(), Peek::Exited(expected));
            assert_eq!(process.reap(), Peek::Exited(expected));
            assert_eq!(process.peek(), Peek::Exited(expected));
            assert!(process.is_reaped());
            assert_eq!(process.exit(), Some(expected));
        }
    }
}

#[test]
fn a_running_child_is_running() {
    for features in every_way() {
        let child = start(&shell("read end; exit 3"), &features);
        let mut process = child.process;
        assert_eq!(process.pidfd().is_some(), features.pidfd_usable());
        assert_eq!(process.peek(), Peek::Running);
        assert_eq!(process.reap(), Peek::Running);
        assert_eq!(process.exit(), None);
        drop(child.stdin);
        if let Some(pidfd) = process.pidfd() {
            assert_eq!(wait(pidfd, libc::POLLIN, 30_000).unwrap(), libc::POLLIN);
        }
        assert_eq!(finish(&mut process), Exit::Code(3));
    }
}

#[test]
fn a_signal_reaches_the_whole_group_and_the_status_stays() {
    for features in every_way() {
        // The shell and its child share the pipe: its end means that both are gone.
        let child = start(&shell("sleep 1000 & echo ready; wait"), &features);
        let mut process = child.process;
        assert_eq!(read_line(child.stdout.as_fd()), "ready");
        assert_eq!(process.signal_group(libc::SIGTERM), Signalled::Sent);
        assert_eq!(read_all(child.stdout.as_fd()), "");
        assert_eq!(finish(&mut process), Exit::Signal(libc::SIGTERM));
    }
}

#[test]
fn what_a_dead_leader_left_behind_can_be_signalled() {
    for features in every_way() {
        let child = start(&shell("sleep 1000 & echo ready; exit 5"), &features);
        let mut process = child.process;
        assert_eq!(read_line(child.stdout.as_fd()), "ready");
        wait_dead(process.pid());
        assert_eq!(process.peek(), Peek::Exited(Exit::Code(5)));
        assert_eq!(process.signal_group(libc::SIGKILL), Signalled::Sent);
        assert_eq!(read_all(child.stdout.as_fd()), "");
        assert_eq!(process.reap(), Peek::Exited(Exit::Code(5)));
    }
}

#[test]
fn after_the_reap_nothing_is_sent_by_number() {
    for features in every_way() {
        let child = start(&shell("sleep 1000 & echo ready; exit 0"), &features);
        let mut process = child.process;
        assert_eq!(read_line(child.stdout.as_fd()), "ready");
        assert_eq!(finish(&mut process), Exit::Code(0));
        let answer = process.signal_group(libc::SIGTERM);
        if process.pidfd().is_some() && features.group_signal_usable() {
            // By descriptor the group is known beyond doubt, and what was left of it gets the signal.
            assert_eq!(answer, Signalled::Sent);
        } else {
            assert_eq!(answer, Signalled::NotOurs);
            assert_eq!(wait(child.stdout.as_fd(), libc::POLLIN, 0).unwrap(), 0, "the sleeper lives on");
            // SAFETY: the group is pinned by the sleeper, which the pipe shows to be alive.
            let answer = unsafe { libc::kill(-process.pid(), libc::SIGKILL) };
            assert_eq!(answer, 0);
        }
        assert_eq!(read_all(child.stdout.as_fd()), "");
    }
}

#[test]
fn after_somebody_else_reaped_nothing_is_sent_by_number() {
    for features in every_way() {
        let mut process = start(&shell("exit 9"), &features).process;
        let _ = take(process.pid());
        let answer = process.signal_group(libc::SIGTERM);
        if process.pidfd().is_some() && features.group_signal_usable() {
            assert_eq!(answer, Signalled::NobodyLeft);
        } else {
            assert_eq!(answer, Signalled::NotOurs);
        }
        let Peek::Exited(exit) = process.peek() else { panic!("it is gone") };
        if process.pidfd().is_some() && features.info_usable() {
            assert_eq!(exit, Exit::Code(9), "the kernel remembers");
        } else {
            assert_eq!(exit, Exit::Unknown);
        }
        assert!(process.is_reaped());
        assert_eq!(process.reap(), Peek::Exited(exit));
    }
}

#[test]
fn what_was_seen_stands_when_somebody_else_reaps() {
    for features in every_way() {
        let mut process = start(&shell("exit 9"), &features).process;
        wait_dead(process.pid());
        assert_eq!(process.peek(), Peek::Exited(Exit::Code(9)));
        let _ = take(process.pid());
        assert_eq!(process.reap(), Peek::Exited(Exit::Code(9)));
        assert!(process.is_reaped());
        assert!(!matches!(process.signal_group(libc::SIGTERM), Signalled::Sent));
    }
}

fn in_a_host_without_zombies(way: &str) {
    ignore_children(way);
    for features in every_way() {
        let child = start(&shell("read end; exit 6"), &features);
        let mut process = child.process;
        // Not a zombie later does not mean not a child now.
        assert_eq!(process.peek(), Peek::Running);
        assert_eq!(process.reap(), Peek::Running);
        assert_eq!(process.signal_group(0), Signalled::Sent);
        drop(child.stdin);
        assert_eq!(read_all(child.stdout.as_fd()), "");
        let exit = match process.pidfd() {
            // At once, while the kernel may still be busy with it.
            Some(pidfd) => {
                assert_ne!(wait(pidfd, libc::POLLIN, 30_000).unwrap(), 0);
                process.peek()
            }
            None => {
                wait_gone(process.pid());
                process.peek()
            }
        };
        if process.pidfd().is_some() && features.info_usable() {
            assert_eq!(exit, Peek::Exited(Exit::Code(6)));
        } else {
            assert_eq!(exit, Peek::Exited(Exit::Unknown));
        }
        assert!(!matches!(process.signal_group(libc::SIGKILL), Signalled::Sent));
        assert_eq!(process.reap(), exit);
    }
    // Many that end at once: some are gone before a descriptor can be opened. None of them is a failure, and none hangs.
    for features in every_way() {
        for _ in 0..50 {
            let mut process = start(&shell("exit 6"), &features).process;
            wait_gone(process.pid());
            assert!(matches!(process.peek(), Peek::Exited(Exit::Code(6) | Exit::Unknown)));
        }
    }
}

#[test]
fn ho01_sigchld_ignored() {
    in_subprocess!({ in_a_host_without_zombies("ignored") });
}

#[test]
fn ho01_no_child_wait() {
    in_subprocess!({ in_a_host_without_zombies("no child wait") });
}

#[test]
fn ho01_a_thread_that_reaps_everything() {
    in_subprocess!({
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    // SAFETY: the status is not asked for.
                    if unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) } < 0 {
                        std::thread::yield_now();
                    }
                }
            });
            for features in every_way() {
                for _ in 0..50 {
                    let mut process = start(&shell("exit 6"), &features).process;
                    wait_gone(process.pid());
                    assert!(matches!(process.peek(), Peek::Exited(Exit::Code(6) | Exit::Unknown)));
                }
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    });
}

#[test]
fn dropping_neither_kills_nor_waits() {
    let scratch = Scratch::new();
    for features in every_way() {
        let mark = scratch.name("mark");
        let child = start(&shell(&format!("read end; : > {mark}")), &features);
        let pid = child.process.pid();
        drop(child.process);
        assert!(!std::fs::exists(&mark).unwrap());
        drop(child.stdin);
        assert_eq!(libc::WEXITSTATUS(take(pid)), 0);
        std::fs::remove_file(&mark).unwrap();
    }
}

#[test]
fn an_unwanted_child_is_undone() {
    in_subprocess!({
        for features in every_way() {
            let mut alive = start(&shell("sleep 1000"), &features).process;
            alive.undo();
            assert_eq!(alive.exit(), Some(Exit::Signal(libc::SIGKILL)));
            let mut dead = start(&shell("exit 4"), &features).process;
            wait_dead(dead.pid());
            dead.undo();
            assert_eq!(dead.exit(), Some(Exit::Code(4)));
            assert!(!has_children());
        }
    });
}
