//! The bell rings, and the host's own setting survives it.

use super::*;
use crate::sys::io::{read, wait};
use crate::sys::testing::{in_subprocess, shell, start, wait_dead};
use crate::sys::{Features, Peek};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};

fn set(handler: libc::sighandler_t, flags: i32) {
    // SAFETY: all zeroes is a valid action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: only in a process of its own, with a handler that only counts.
    let answer = unsafe { libc::sigaction(libc::SIGCHLD, &raw const action, std::ptr::null_mut()) };
    assert_eq!(answer, 0);
}

static HOST_SAW: AtomicUsize = AtomicUsize::new(0);

extern "C" fn host_handler(_signal: libc::c_int) {
    HOST_SAW.fetch_add(1, Ordering::SeqCst);
}

fn die_once() {
    let mut process = start(&shell("exit 0"), &Features::none()).process;
    wait_dead(process.pid());
    assert!(matches!(process.reap(), Peek::Exited(_)));
}

#[test]
fn it_rings_and_stops_ringing() {
    in_subprocess!({
        let event = Eventfd::new().unwrap();
        let bell = SigchldBell::new(event.duplicate().unwrap()).unwrap();
        assert!(bell.is_in_place());
        die_once();
        assert_eq!(wait(event.as_fd(), libc::POLLIN, 30_000).unwrap(), libc::POLLIN);
        assert_eq!(read(event.as_fd(), &mut [0; 8]).unwrap(), 8);
        drop(bell);
        die_once();
        assert_eq!(wait(event.as_fd(), libc::POLLIN, 0).unwrap(), 0);
        // And once more, with the handler already there.
        let bell = SigchldBell::new(event.duplicate().unwrap()).unwrap();
        assert!(bell.is_in_place());
        die_once();
        assert_eq!(wait(event.as_fd(), libc::POLLIN, 30_000).unwrap(), libc::POLLIN);
    });
}

#[test]
fn the_handler_has_the_flags_a_host_needs() {
    in_subprocess!({
        let _bell = SigchldBell::new(Eventfd::new().unwrap()).unwrap();
        let flags = disposition().unwrap().sa_flags;
        assert_eq!(flags & (libc::SA_ONSTACK | libc::SA_RESTART), libc::SA_ONSTACK | libc::SA_RESTART);
    });
}

#[test]
fn the_hosts_handler_goes_on_with_its_flags() {
    in_subprocess!({
        set(host_handler as *const () as libc::sighandler_t, libc::SA_NOCLDSTOP);
        let event = Eventfd::new().unwrap();
        let _bell = SigchldBell::new(event.duplicate().unwrap()).unwrap();
        assert_eq!(disposition().unwrap().sa_flags & libc::SA_NOCLDSTOP, libc::SA_NOCLDSTOP);
        die_once();
        assert_eq!(wait(event.as_fd(), libc::POLLIN, 30_000).unwrap(), libc::POLLIN);
        assert!(HOST_SAW.load(Ordering::SeqCst) >= 1);
    });
}

#[test]
fn an_ignored_sigchld_still_reaps_the_hosts_children() {
    in_subprocess!({
        set(libc::SIG_IGN, 0);
        let _bell = SigchldBell::new(Eventfd::new().unwrap()).unwrap();
        let child = start(&shell("exit 0"), &Features::none());
        // SAFETY: the status is not asked for. With automatic reaping this waits for the end and finds nothing.
        let got = unsafe { libc::waitpid(child.process.pid(), std::ptr::null_mut(), 0) };
        assert_eq!(got, -1);
    });
}

#[test]
fn a_handler_installed_later_is_the_hosts() {
    in_subprocess!({
        let bell = SigchldBell::new(Eventfd::new().unwrap()).unwrap();
        set(host_handler as *const () as libc::sighandler_t, 0);
        assert!(!bell.is_in_place());
        let second = SigchldBell::new(Eventfd::new().unwrap()).unwrap();
        assert!(!second.is_in_place());
        assert_eq!(disposition().unwrap().sa_flags & libc::SA_ONSTACK, 0, "what is the host's is left alone");
    });
}
