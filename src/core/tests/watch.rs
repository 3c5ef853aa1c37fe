//! What must hold for every history of one peer: the orders of section L, the counts of section B, and what may be asked of
//! a reactor. It watches from outside and knows the rules only.

use std::collections::VecDeque;

use super::harness::render;
use crate::core::budget::MaxRestarts;
use crate::core::connection::Action;
use crate::core::event::{CloseReason, Event, Fault};
use crate::core::policy::{Mode, Policy};
use crate::core::queue::Queued;
use crate::core::time::Nanos;

/// What the host knows of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Never started.
    Nothing,
    /// This life is there.
    Live,
    /// DRAIN came; messages may follow if it was asked for.
    Drained {
        asked: bool,
    },
    /// CLOSE promised another life.
    Down,
    /// Only completions and EXHAUSTED may follow, or completions of which the last is FINAL.
    Lost,
    /// The last CLOSE came: only completions may follow.
    Ended,
    /// Only the withdrawal may follow.
    Exhausted,
    Final,
}

/// What a reactor was asked to do for the connection there is.
#[derive(Debug, Default)]
struct Asked {
    stdin: bool,
    stdout: bool,
    stderr: bool,
    swept: bool,
    exited: bool,
}

/// The budget, written down a second time: all decisions since the window opened.
#[derive(Debug)]
struct Count {
    opened: Nanos,
    count: u32,
}

#[derive(Debug)]
pub struct Watch {
    policy: Policy,
    told: Told,
    life: u32,
    served: bool,
    /// Nothing is decided or dropped out of sight: lives serve at once, and every message is told.
    exact: bool,
    /// The next message of this life.
    next_line: u32,
    /// The last life that ended, and how many messages it had written when its exit was seen.
    owed: (u32, u32),
    attempt: u32,
    count: Count,
    /// What was decided and not told yet: the attempt, or that there is none.
    decided: VecDeque<Option<u32>>,
    connection: Option<Asked>,
    pub history: Vec<String>,
}

impl Watch {
    pub fn new(policy: Policy) -> Self {
        Self {
            exact: policy.serves_at_once
                && policy.mode == Mode::Modern
                && !policy.client.rediscover
                && !policy.client.shed,
            policy,
            told: Told::Nothing,
            life: 0,
            served: false,
            next_line: 0,
            owed: (0, 0),
            attempt: 0,
            count: Count { opened: 0, count: 0 },
            decided: VecDeque::new(),
            connection: None,
            history: Vec::new(),
        }
    }

    pub fn is_final(&self) -> bool {
        self.told == Told::Final
    }

    pub fn spawned(&mut self) {
        assert!(self.connection.is_none(), "a connection of the peer is not let go of yet");
        self.connection = Some(Asked::default());
        if self.told == Told::Nothing {
            self.told = Told::Live;
            self.life = 1;
            self.served = self.policy.serves_at_once && self.policy.mode == Mode::Modern;
        }
    }

    /// The process is seen to be gone, and so many messages of it were written where we can read them.
    pub fn exited(&mut self, life: u32, lines: u32) {
        self.owed = (life, lines);
        self.connection.as_mut().unwrap().exited = true;
    }

    /// A decision fell: a death of a connection that serves, or a spawn that failed.
    pub fn decision(&mut self, now: Nanos) {
        if !self.exact {
            // A replacement that dies before it serves is decided on unseen.
            return;
        }
        if self.count.count == 0 || now - self.count.opened > self.policy.restart_window {
            self.count = Count { opened: now, count: 0 };
        }
        self.count.count += 1;
        let within = match self.policy.max_restarts {
            MaxRestarts::NoRestart => false,
            MaxRestarts::Limited(max) => self.count.count <= max,
            MaxRestarts::Unlimited => true,
        };
        self.decided.push_back(within.then_some(self.count.count));
    }

    /// The host closed the peer while a replacement was decided on and not promised yet.
    pub fn called_off(&mut self) {
        if let Some(last) = self.decided.back_mut() {
            *last = None;
        }
    }

    fn promised(&mut self, attempt: Option<u32>) {
        if self.exact {
            assert_eq!(Some(attempt), self.decided.pop_front(), "the attempt that was decided on");
        }
        if let Some(attempt) = attempt {
            assert!(attempt == 1 || attempt == self.attempt + 1, "attempts are counted one by one");
            if let MaxRestarts::Limited(max) = self.policy.max_restarts {
                assert!(attempt <= max, "more restarts than the budget has");
            }
            self.attempt = attempt;
        }
    }

    fn begin(&mut self, life: u32) {
        assert!(life > self.life, "lives go up");
        self.life = life;
        self.served = true;
        self.next_line = 0;
        self.told = Told::Live;
    }

    /// The host took an event of this peer.
    pub fn event(&mut self, queued: &Queued) {
        self.history.push(render(queued));
        assert_ne!(self.told, Told::Final, "something follows the last event");
        let next = match (&queued.event, self.told) {
            (Event::Log(_), told) => told,
            (Event::Message { parts, frame, .. }, told @ (Told::Live | Told::Drained { asked: true })) => {
                assert!(self.served, "a message of a life that does not serve");
                assert_eq!(frame.with_nul().last(), Some(&0));
                let method = String::from_utf8_lossy(parts.method.map_or(b"", |span| span.of(frame.bytes())));
                let Some((life, line)) = method.strip_prefix("life").and_then(|rest| rest.split_once("line")) else {
                    // Not one of the numbered lines.
                    assert!(!queued.is_final);
                    return;
                };
                assert_eq!(life, self.life.to_string(), "a message of another life");
                if (self.next_line == 0 && !self.exact) || self.policy.client.shed {
                    // What it wrote before it served was dropped.
                    let line: u32 = line.parse().unwrap();
                    assert!(line >= self.next_line, "a message comes late or twice");
                    self.next_line = line;
                }
                assert_eq!(line, self.next_line.to_string(), "a message is missing");
                self.next_line += 1;
                told
            }
            (Event::Failed(_), told @ (Told::Live | Told::Drained { .. } | Told::Down | Told::Lost | Told::Ended)) => {
                match (told, queued.is_final) {
                    (Told::Lost | Told::Ended, true) => Told::Final,
                    _ => told,
                }
            }
            (Event::Forbidden { .. }, told @ (Told::Live | Told::Drained { asked: true })) => told,
            (Event::Writable, told @ (Told::Live | Told::Drained { asked: true })) => told,
            (Event::Ready(serving), Told::Live) => {
                assert!(!self.served && serving.life == 1);
                assert!(!self.policy.serves_at_once || self.policy.mode != Mode::Modern);
                self.served = true;
                Told::Live
            }
            (Event::Reconnect(serving), Told::Down) => {
                assert!(serving.life > 1);
                assert_eq!(serving.attempt, self.attempt, "the attempt that was promised");
                self.begin(serving.life);
                Told::Live
            }
            (Event::Drain { asked }, Told::Live | Told::Nothing) => Told::Drained { asked: *asked },
            // A replacement that is closed before it serves.
            (Event::Drain { asked: false }, Told::Down) => Told::Drained { asked: false },
            (Event::Close(close), told) => {
                assert_eq!(close.max_restarts, self.policy.max_restarts.told());
                match (close.reason, told) {
                    (CloseReason::PeerLost, Told::Drained { asked: false }) => {
                        assert_eq!(close.life, self.life);
                        assert!(close.exit.is_some() && close.pid > 0);
                        self.assert_owed_told();
                        let attempt = close.promise.map(|promise| promise.attempt);
                        self.promised(attempt);
                        match (attempt, queued.is_final) {
                            (Some(_), _) => Told::Down,
                            (None, true) => Told::Final,
                            (None, false) => Told::Lost,
                        }
                    }
                    (CloseReason::ClosedByHost, Told::Drained { .. }) => {
                        self.assert_owed_told();
                        assert!(close.promise.is_none());
                        assert_eq!(close.exit.is_some(), close.pid > 0);
                        if queued.is_final { Told::Final } else { Told::Ended }
                    }
                    (CloseReason::Withdrawn, Told::Down | Told::Exhausted) => {
                        assert!(close.promise.is_none() && close.exit.is_none());
                        if queued.is_final { Told::Final } else { Told::Ended }
                    }
                    _ => panic!("{close:?} after {told:?}"),
                }
            }
            (Event::Error(trouble), told) => match (trouble.fault, told) {
                (Fault::Malformed, Told::Live | Told::Drained { asked: true }) => {
                    assert!(self.served);
                    told
                }
                (Fault::FrameTooLarge | Fault::Io, Told::Live | Told::Drained { .. }) => told,
                (Fault::Handshake, Told::Live) => {
                    assert!(!self.served && trouble.life == 1);
                    told
                }
                (Fault::Spawn | Fault::Handshake, Told::Down) => {
                    assert!(trouble.life > self.life);
                    if trouble.fault == Fault::Handshake {
                        self.life = trouble.life;
                        assert!(trouble.exit.is_some() && trouble.pid > 0);
                    }
                    self.promised(trouble.promise.map(|promise| promise.attempt));
                    match trouble.promise {
                        Some(_) => Told::Down,
                        None => Told::Lost,
                    }
                }
                _ => panic!("{trouble:?} after {told:?}"),
            },
            (Event::Exhausted { max_restarts }, Told::Lost) => {
                assert_eq!(*max_restarts, self.policy.max_restarts.told());
                if queued.is_final { Told::Final } else { Told::Exhausted }
            }
            (event, told) => panic!("{event:?} after {told:?}"),
        };
        assert_eq!(next == Told::Final, queued.is_final, "FINAL stands on the last event and on no other");
        self.told = next;
    }

    /// L3: what was in the pipe when the exit was seen comes before CLOSE.
    fn assert_owed_told(&self) {
        let (life, lines) = self.owed;
        if self.exact && life == self.life {
            assert!(self.next_line >= lines, "{lines} messages were in the pipe, {} were told", self.next_line);
        }
    }

    /// The reactor was asked for something.
    pub fn action(&mut self, action: Action) {
        self.history.push(format!("{action:?}"));
        if let Action::Spawn(_) = action {
            assert!(self.connection.is_none(), "the life before is not let go of");
            return;
        }
        let asked = self.connection.as_mut().expect("an action about a connection that there is");
        let once = |flag: &mut bool| assert!(!std::mem::replace(flag, true), "{action:?} twice");
        match action {
            Action::Spawn(_) | Action::Serve(_) => {}
            Action::CloseStdin(_) => once(&mut asked.stdin),
            Action::CloseStdout(_) => once(&mut asked.stdout),
            Action::CloseStderr(_) => once(&mut asked.stderr),
            Action::Terminate(_) | Action::Kill(_) => assert!(!asked.exited, "{action:?} after the exit"),
            Action::Sweep(_) => {
                assert!(asked.exited, "the leader runs");
                once(&mut asked.swept);
            }
            Action::Release(_) => {
                assert!(asked.swept, "what is left of the group was not ended");
                assert!(asked.stdin && asked.stdout && asked.stderr, "an end is open");
                self.connection = None;
            }
        }
    }

    /// Nothing is left of the peer.
    pub fn assert_over(&self) {
        assert_eq!(self.told, Told::Final, "the last event never came");
        assert!(self.connection.is_none(), "a connection was not let go of");
        assert!(!self.exact || self.decided.is_empty(), "a decision was not told");
    }
}
