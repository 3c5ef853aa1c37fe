//! Rules R11 and L19: which line was the first that the dead server cannot have read, and when it is worth waiting for the
//! answer; and the facts a CLOSE carries.

use super::harness::{Rig, note, policy};
use crate::core::connection::StdinReport;
use crate::core::event::{Close, Event, Exit};
use crate::core::peer::StateName;
use crate::core::supervisor::Told;
use crate::core::time::ms;

/// Bytes of one line of `send("a")`.
fn line() -> u64 {
    note("a").len() as u64
}

fn held(unread: u64) -> Option<StdinReport> {
    Some(StdinReport { unread, hung_up: false })
}

fn hung_up(unread: u64) -> Option<StdinReport> {
    Some(StdinReport { unread, hung_up: true })
}

/// A running peer to which so many lines were sent, and so many bytes of them written.
fn sent(lines: u64, written: u64) -> Rig {
    let mut rig = Rig::started(policy());
    for _ in 0..lines {
        rig.send("a").unwrap();
    }
    rig.wrote_bytes(written as usize);
    rig
}

fn die_with(rig: &mut Rig, stdin: Option<StdinReport>) {
    rig.exit_with(Exit::Code(0), 0, 0, stdin);
    rig.eof();
}

#[test]
fn r11_lines_are_numbered_through_all_lives() {
    let mut rig = Rig::started(policy());
    assert_eq!(rig.send("a"), Ok(1));
    let id = rig.id();
    assert!(rig.sup.send(id, b"no line").is_err());
    assert_eq!(rig.send("a"), Ok(2), "what is refused takes no number");
    rig.wrote();
    rig.next_life();
    assert_eq!(rig.send("a"), Ok(3));
    rig.die(0);
    assert_eq!(rig.take(), "D, C lost exit=0 ->2 unread=3", "of the last life only");
}

#[test]
fn r11_unread_from_is_the_first_line_of_which_no_byte_can_have_been_read() {
    let l = line();
    // Lines sent, bytes written, what lay in the pipe: the first unread line.
    let table = [
        (0, 0, hung_up(0), 0),
        (1, 0, hung_up(0), 1),
        (1, 1, hung_up(0), 0),
        (1, 1, hung_up(1), 1),
        (1, l, hung_up(0), 0),
        (1, l, hung_up(l - 1), 0),
        (1, l, hung_up(l), 1),
        (3, 2 * l, hung_up(0), 3),
        (3, 2 * l, hung_up(l), 2),
        (3, 2 * l, hung_up(l + 1), 2),
        (3, 2 * l, hung_up(2 * l), 1),
        (3, 2 * l + 5, hung_up(4), 0),
        (3, 2 * l + 5, hung_up(5), 3),
        (3, 2 * l, None, 3),
        (3, 3 * l, None, 0),
        (0, 0, None, 0),
    ];
    for (lines, written, report, expected) in table {
        let mut rig = sent(lines, written);
        die_with(&mut rig, report);
        let unread = match expected {
            0 => String::new(),
            n => format!(" unread={n}"),
        };
        assert_eq!(
            rig.take(),
            format!("D, C lost exit=0 ->1{unread}"),
            "{lines} lines, {written} bytes written, {report:?}"
        );
    }
}

/// Somebody else may still read: C waits until the rest of the group is gone, and no longer than that.
#[test]
fn l19_close_waits_for_the_hang_up_when_lines_lie_unread() {
    let l = line();
    let mut rig = sent(2, 2 * l);
    die_with(&mut rig, held(l));
    assert_eq!(rig.state(), StateName::Ending);
    assert_eq!(rig.acts(), "CloseStdout, Sweep", "stdin is kept, the group is not");
    assert_eq!(rig.deadline(), Some(250));
    rig.advance(249);
    assert_eq!(rig.state(), StateName::Ending);
    rig.stdin_gone(l);
    assert_eq!(rig.acts(), "CloseStdin, Release");
    assert_eq!(rig.take(), "D, C lost exit=0 ->1 unread=2");
}

#[test]
fn l19_without_a_hang_up_in_time_only_what_was_never_written_counts() {
    let l = line();
    for (lines, expected) in [(2, "D, C lost exit=0 ->1"), (3, "D, C lost exit=0 ->1 unread=3")] {
        let mut rig = sent(lines, 2 * l);
        die_with(&mut rig, held(2 * l));
        rig.advance(250);
        assert_eq!(rig.acts(), "CloseStdout, Sweep, CloseStdin, Release");
        assert_eq!(rig.take(), expected);
    }
}

/// The count that is taken after the hang-up is the one that is told: others may have read meanwhile.
#[test]
fn l19_the_last_count_is_the_one_that_counts() {
    let l = line();
    let mut rig = sent(2, 2 * l);
    die_with(&mut rig, held(2 * l));
    rig.stdin_gone(l);
    assert_eq!(rig.take(), "D, C lost exit=0 ->1 unread=2");
}

#[test]
fn l19_close_does_not_wait_where_no_whole_line_can_be_unread() {
    let l = line();
    for report in [held(0), held(l - 1), None] {
        let mut rig = sent(1, l);
        die_with(&mut rig, report);
        assert_eq!(rig.acts(), "CloseStdin, CloseStdout, Sweep, Release", "{report:?}");
        assert_eq!(rig.take(), "D, C lost exit=0 ->1");
    }
    // What was never written needs no question.
    let mut rig = sent(1, 0);
    die_with(&mut rig, held(0));
    assert_eq!(rig.take(), "D, C lost exit=0 ->1 unread=1");
}

/// A write that met a pipe without readers says at once what lies in it.
#[test]
fn l19_a_hang_up_before_the_exit_is_remembered() {
    let l = line();
    let mut rig = sent(3, 2 * l);
    rig.stdin_gone(l);
    assert_eq!(rig.acts(), "CloseStdin");
    die_with(&mut rig, None);
    assert_eq!(rig.take(), "D, C lost exit=0 ->1 unread=2");
}

#[test]
fn l19_an_end_of_stdout_keeps_stdin_until_it_can_tell() {
    let l = line();
    let mut rig = sent(1, l);
    rig.stdout_ends(None, held(l));
    assert_eq!(rig.acts(), "CloseStdout", "stdin is kept");
    rig.exit_with(Exit::Code(0), 0, 0, hung_up(l));
    assert_eq!(rig.acts(), "CloseStdin, Sweep, Release");
    assert_eq!(rig.take(), "D, C lost exit=0 ->1 unread=1");

    // A peer that runs on without its stdout has both ends closed when it is terminated (L5).
    let mut rig = sent(1, l);
    rig.stdout_ends(None, held(l));
    rig.advance(250);
    assert_eq!(rig.acts(), "CloseStdout, CloseStdin, Terminate");
    rig.exit_with(Exit::Signal(15), 0, 0, None);
    assert_eq!(rig.take(), "D, C lost sig=15 ->1");
}

#[test]
fn l19_a_line_over_the_limit_keeps_stdin_until_it_can_tell() {
    let l = line();
    let mut policy = policy();
    policy.limits.frame_bytes = 64;
    let overlong = |policy: &super::super::policy::Policy, written: u64| {
        let mut rig = Rig::started(policy.clone());
        rig.send("a").unwrap();
        rig.wrote_bytes(written as usize);
        rig.feed(&[b'x'; 65]);
        rig.take();
        rig
    };
    let mut rig = overlong(&policy, l);
    assert_eq!(rig.acts(), "CloseStdout", "stdin is kept");
    rig.exit_with(Exit::Code(0), 0, 0, hung_up(l));
    rig.err_eof();
    assert_eq!(rig.take(), "D, C lost exit=0 ->1 unread=1");

    let mut rig = overlong(&policy, 0);
    assert_eq!(rig.acts(), "CloseStdout, CloseStdin", "what was never written needs no question");
}

#[test]
fn l19_an_asked_end_tells_what_was_not_flushed() {
    let l = line();
    let mut rig = sent(2, 0);
    rig.close();
    rig.poll();
    rig.begin_poll();
    rig.wrote_bytes(l as usize);
    die_with(&mut rig, hung_up(0));
    assert_eq!(rig.poll(), "C asked exit=0 unread=2!");

    let mut rig = sent(2, 2 * l);
    rig.close();
    die_with(&mut rig, hung_up(2 * l));
    assert_eq!(rig.poll(), "D, C asked exit=0 unread=1!", "it died before D was consumed");
}

/// The same question for an end that was asked for: a hang-up while D waits to be consumed.
#[test]
fn l19_a_hang_up_while_draining_keeps_its_count() {
    let l = line();
    let mut rig = sent(2, 2 * l);
    rig.close();
    rig.stdin_gone(l);
    assert_eq!(rig.state(), StateName::Closing);
    die_with(&mut rig, None);
    assert_eq!(rig.poll(), "D, C asked exit=0 unread=2!");
}

#[test]
fn l19_what_lies_further_back_than_the_pipe_holds_was_read() {
    let l = line();
    let mut rig = Rig::new(policy());
    rig.stdin_bytes = l as usize;
    rig.start();
    for _ in 0..5 {
        rig.send("a").unwrap();
        rig.wrote();
    }
    die_with(&mut rig, hung_up(l));
    assert_eq!(rig.take(), "D, C lost exit=0 ->1 unread=5");
}

#[test]
fn l19_close_carries_exit_pid_life_uptime_and_promise() {
    let mut rig = Rig::started(policy());
    rig.next_life();
    rig.advance(5_000);
    rig.exit_with(Exit::Signal(11), 0, 0, None);
    rig.advance(70);
    rig.eof();
    let close = loop {
        let Some(Told::Peer { queued, .. }) = rig.sup.next_event() else {
            panic!("a CLOSE is told");
        };
        if let Event::Close(close) = queued.event {
            break close;
        }
    };
    assert_eq!(
        *close,
        Close {
            reason: crate::core::event::CloseReason::PeerLost,
            exit: Some(Exit::Signal(11)),
            pid: 102,
            life: 2,
            uptime: ms(5_070),
            promise: Some(crate::core::event::Promise { attempt: 2, delay: ms(100) }),
            max_restarts: 3,
            unread_from: 0,
            stderr_tail: None,
        }
    );
}

#[test]
fn l19_the_last_lines_of_stderr_are_those_of_this_connection() {
    let mut rig = Rig::new(policy());
    rig.stderr = true;
    rig.start();
    rig.err("old\n");
    rig.next_life();
    rig.err("new\n");
    rig.die(0);
    assert_eq!(rig.take(), "LOG new, D, C lost exit=0 ->2 tail=\"new\"");
}

/// A status that somebody else took away is told as unknown, and nothing else changes.
#[test]
fn l19_an_unknown_exit() {
    let mut rig = Rig::started(policy());
    rig.exit_with(Exit::Unknown, 0, 0, None);
    rig.eof();
    assert_eq!(rig.take(), "D, C lost exit=? ->1");
}
