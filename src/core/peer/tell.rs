//! The events and log lines by which the end of a connection is told, in the orders of L2, L9 and L11 to L14.

use crate::core::budget::MaxRestarts;
use crate::core::client::Out;
use crate::core::client::loss::Fate;
use crate::core::connection::{Connection, Ctx};
use crate::core::deadlines::Timer;
use crate::core::event::{Close, CloseReason, Event, Exit, Fault, Promise, Trouble};
use crate::core::log::Level;
use crate::core::time::to_ms;

use super::Peer;
use super::state::*;

impl Peer {
    /// M... are told: D, C and what follows (L2, L9, L12).
    pub(super) fn tell_lost(&mut self, ctx: &mut Ctx<'_>, mut conn: Connection, next: Next) {
        self.end_stderr(&mut conn);
        self.log_decision(next, &format!("connection {} lost", conn.life), conn.exit);
        self.queue.push(Event::Drain { asked: false });
        let unread_from = conn.unread_from();
        let close = self.close_event(CloseReason::PeerLost, self.promise(next), Some((conn, ctx.now)));
        self.queue.push(close);
        match next {
            Next::Replacement { attempt } => {
                self.lose(ctx, unread_from, Fate::Replaced);
                self.wait(ctx, attempt);
            }
            Next::Exhausted => {
                self.lose(ctx, unread_from, Fate::Exhausted);
                self.queue.push_final(Event::Exhausted { max_restarts: self.budget.max().told() });
            }
            Next::Nothing => {
                self.lose(ctx, unread_from, Fate::Closed);
                self.queue.end();
            }
        }
    }

    /// The completions of this moment.
    fn lose(&mut self, ctx: &mut Ctx<'_>, unread_from: u64, fate: Fate) {
        if let Some(client) = self.client.as_deref_mut() {
            let mut out = Out { queue: &mut self.queue, log_level: self.log_level, direct: None };
            client.lose(&mut out, unread_from, fate);
            if fate != Fate::Replaced {
                ctx.deadlines.clear(&mut self.own, ctx.slot, Timer::Client);
            }
        }
    }

    pub(super) fn end_stderr(&mut self, conn: &mut Connection) {
        let queue = &mut self.queue;
        conn.stderr.end(|line| queue.log(Level::Server, line));
    }

    /// The CLOSE that no connection of this peer follows, and the completions behind it.
    pub(super) fn push_last_close(&mut self, ctx: &mut Ctx<'_>, reason: CloseReason, conn: Option<Connection>) {
        let unread_from = conn.as_ref().map_or(0, Connection::unread_from);
        let close = self.close_event(reason, None, conn.map(|conn| (conn, ctx.now)));
        self.queue.push(close);
        self.lose(ctx, unread_from, Fate::Closed);
        self.queue.end();
    }

    pub(super) fn close_event(
        &self,
        reason: CloseReason,
        promise: Option<Promise>,
        conn: Option<(Connection, u64)>,
    ) -> Event {
        let max_restarts = self.budget.max().told();
        Event::Close(Box::new(match conn {
            Some((mut conn, now)) => Close {
                reason,
                exit: conn.exit,
                pid: conn.pid,
                life: conn.life,
                uptime: now.saturating_sub(conn.since),
                promise,
                max_restarts,
                unread_from: conn.unread_from(),
                stderr_tail: conn.stderr.take_tail(),
            },
            None => Close {
                reason,
                exit: None,
                pid: 0,
                life: self.life,
                uptime: 0,
                promise,
                max_restarts,
                unread_from: 0,
                stderr_tail: None,
            },
        }))
    }

    pub(super) fn promise(&self, next: Next) -> Option<Promise> {
        match next {
            Next::Replacement { attempt } => Some(Promise { attempt, delay: self.policy.restart_delay }),
            Next::Exhausted | Next::Nothing => None,
        }
    }

    pub(super) fn trouble(&self, fault: Fault, text: String) -> Trouble {
        let conn = self.connection();
        Trouble {
            fault,
            text,
            exit: None,
            life: conn.map_or(0, |conn| conn.life),
            pid: conn.map_or(0, |conn| conn.pid),
            promise: None,
        }
    }

    /// A later life failed before it served, or could not be made: never more than one ERROR, no D, no C.
    pub(super) fn tell_failed_life(
        &mut self,
        ctx: &mut Ctx<'_>,
        next: Next,
        fault: Fault,
        text: String,
        conn: Option<&Connection>,
    ) {
        let exit = conn.and_then(|conn| conn.exit);
        match (fault, conn) {
            (Fault::Spawn, _) => self.log_decision(next, "the replacement could not be spawned", exit),
            _ => self.log_decision(next, "the replacement did not come to serve", exit),
        }
        let promise = self.promise(next);
        self.queue.push(Event::Error(Box::new(Trouble {
            fault,
            text,
            exit,
            life: conn.map_or(self.life + 1, |conn| conn.life),
            pid: conn.map_or(0, |conn| conn.pid),
            promise,
        })));
        match next {
            Next::Replacement { attempt } => self.wait(ctx, attempt),
            Next::Exhausted | Next::Nothing => {
                self.lose(ctx, 0, Fate::Exhausted);
                self.queue.push(Event::Exhausted { max_restarts: self.budget.max().told() });
                self.push_last_close(ctx, CloseReason::Withdrawn, None);
                self.state = State::Closed;
            }
        }
    }

    /// A line of the library's own (P10), unless the handle does not want it or the peer's last event is queued.
    pub fn log(&mut self, level: Level, text: String) {
        if level > self.log_level || self.final_taken {
            return;
        }
        if matches!(self.state, State::Closed) {
            // What comes up while the last connection is swept away: nothing may follow the last event (L14).
            self.queue.log_before_last(level, text);
        } else {
            self.queue.log(level, text);
        }
    }

    /// One warning per restart that was decided on, one error when the budget is spent.
    fn log_decision(&mut self, next: Next, what: &str, exit: Option<Exit>) {
        let max = self.budget.max().told();
        let how = match exit {
            Some(Exit::Code(code)) => format!("exit code {code}"),
            Some(Exit::Signal(signal)) => format!("signal {signal}"),
            Some(Exit::Unknown) | None => "exit code unknown".to_owned(),
        };
        let (level, text) = match next {
            Next::Replacement { attempt } => {
                let of = match self.budget.max() {
                    MaxRestarts::Unlimited => String::new(),
                    _ => format!(" of {max}"),
                };
                let delay = to_ms(self.policy.restart_delay);
                (Level::Warning, format!("{what} ({how}): restart {attempt}{of} in {delay} ms"))
            }
            Next::Exhausted => {
                (Level::Error, format!("{what} ({how}): the budget of {max} restarts is spent, giving up"))
            }
            Next::Nothing => return,
        };
        if level <= self.log_level {
            self.queue.log(level, text);
        }
    }
}
