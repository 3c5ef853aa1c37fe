//! What the core has to know about a spec: mode, budget, graces and limits, and the one place where their values are
//! judged. Judged together, because some only clash with each other (B7).

use super::budget::MaxRestarts;
use super::error::Refusal;
use super::time::{Nanos, ms};

/// How much of the protocol the library speaks for a peer (Z1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Whatever the server speaks: it is asked.
    Auto,
    /// MCP 2026-07-28: nothing is sent unasked.
    Modern,
    /// A revision before it: every life begins with the handshake.
    Legacy,
    /// Lines only: nothing is stamped, nothing is tracked.
    Raw,
}

/// Bounds of one peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// MESSAGE and unasked ERROR events that may be queued before stdout is no longer read (F1).
    pub event_queue: usize,
    /// Bytes of buffer that queued messages may pin before stdout is no longer read (F1).
    pub event_bytes: usize,
    /// Bytes that may wait to be written to the server (F4).
    pub outbound_bytes: usize,
    /// The longest line a server may write, without its LF (W3).
    pub frame_bytes: usize,
    /// Lines up to this length have their whole JSON grammar checked (W4).
    pub grammar_bytes: usize,
    /// LOG events that are kept (F2).
    pub log_lines: usize,
    /// The longest LOG line, after escaping (P8).
    pub log_line_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            event_queue: 1024,
            event_bytes: 8 << 20,
            outbound_bytes: 64 << 20,
            frame_bytes: 64 << 20,
            grammar_bytes: 64 << 10,
            log_lines: 256,
            log_line_bytes: 4096,
        }
    }
}

/// The longest `frame_bytes` and `outbound_bytes`: offsets inside a line are 32 bits wide.
pub const LARGEST_LINE: usize = 1 << 30;

/// What the protocol client of a peer goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientPolicy {
    /// The text of `clientInfo`, if it is told.
    pub client_info: Option<String>,
    /// The text of `clientCapabilities`.
    pub capabilities: String,
    /// The capabilities declare an extension: results of types of its own may come (R9).
    pub has_extensions: bool,
    /// The level of log messages that servers are asked for (Z7).
    pub log_level: Option<String>,
    /// A request's idle timeout (R3).
    pub idle_timeout: Nanos,
    /// A request's ceiling.
    pub max_timeout: Nanos,
    /// Requests and streams under way at most (R12).
    pub max_in_flight: usize,
    /// Lost requests that only read are sent again (T).
    pub retry: bool,
    /// What is known of the server is asked for again after a restart (R7).
    pub rediscover: bool,
    /// How long that may take.
    pub probe_timeout: Nanos,
    /// A host that does not keep up loses notifications instead of stopping the server (F3).
    pub shed: bool,
}

impl Default for ClientPolicy {
    fn default() -> Self {
        Self {
            client_info: None,
            capabilities: "{}".to_owned(),
            has_extensions: false,
            log_level: None,
            idle_timeout: ms(60_000),
            max_timeout: ms(600_000),
            max_in_flight: 16_384,
            retry: false,
            rediscover: false,
            probe_timeout: ms(10_000),
            shed: false,
        }
    }
}

/// The rules one peer lives by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// What is spoken.
    pub mode: Mode,
    /// Restarts per window.
    pub max_restarts: MaxRestarts,
    /// From a CLOSE to the spawn of the replacement.
    pub restart_delay: Nanos,
    /// Width of the budget's window.
    pub restart_window: Nanos,
    /// From the end of stdin to SIGTERM (P6).
    pub close_grace: Nanos,
    /// From SIGTERM to SIGKILL (P6).
    pub kill_grace: Nanos,
    /// How long the end of the output is waited for once the process is known to be gone (L3).
    pub exit_drain: Nanos,
    /// How long a connection may take until it serves (L4, Z5).
    pub start_timeout: Nanos,
    /// Whether a spawned process serves at once. Where it does not, somebody tells when (`Supervisor::serves`).
    pub serves_at_once: bool,
    /// Bounds.
    pub limits: Limits,
    /// The protocol client.
    pub client: ClientPolicy,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            max_restarts: MaxRestarts::Limited(3),
            restart_delay: ms(100),
            restart_window: ms(60_000),
            close_grace: ms(6_000),
            kill_grace: ms(2_000),
            exit_drain: ms(250),
            start_timeout: ms(120_000),
            serves_at_once: true,
            limits: Limits::default(),
            client: ClientPolicy::default(),
        }
    }
}

impl Policy {
    /// Refuses values that cannot work, with a text that names the value.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.max_restarts == MaxRestarts::Limited(0) {
            return Err(Refusal::invalid(
                "max_restarts is 0: a peer that is never restarted is asked for with MCP_SUPERVISED_NO_RESTART",
            ));
        }
        if self.restart_window == 0 {
            return Err(Refusal::invalid("restart_window is 0 ms: it must be at least 1"));
        }
        if let MaxRestarts::Limited(max) = self.max_restarts {
            let spent = self.restart_delay.saturating_mul(u64::from(max));
            if spent >= self.restart_window {
                return Err(Refusal::invalid(format!(
                    "max_restarts {max} times restart_delay {} ms is not less than restart_window {} ms: a server that cannot \
                     be started would be tried for ever; ask for that with MCP_SUPERVISED_UNLIMITED",
                    self.restart_delay / 1_000_000,
                    self.restart_window / 1_000_000,
                )));
            }
        }
        let l = &self.limits;
        within("event_queue", l.event_queue, 1, 1 << 24)?;
        within("event_bytes", l.event_bytes, 1, isize::MAX as usize)?;
        within("outbound_bytes", l.outbound_bytes, 2, LARGEST_LINE)?;
        within("frame_bytes", l.frame_bytes, 2, LARGEST_LINE)?;
        within("max_in_flight", self.client.max_in_flight, 1, 1 << 24)?;
        within("log_lines", l.log_lines, 1, 1 << 20)?;
        within("log_line_bytes", l.log_line_bytes, 16, 1 << 20)
    }
}

fn within(name: &str, value: usize, least: usize, most: usize) -> Result<(), Refusal> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Refusal::invalid(format!("{name} is {value}: it must be from {least} to {most}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut Policy)) -> String {
        let mut policy = Policy::default();
        change(&mut policy);
        policy.check().expect_err("must be refused").to_string()
    }

    #[test]
    fn b01_defaults_pass_and_bad_values_are_named() {
        assert_eq!(Policy::default().check(), Ok(()));
        assert!(refusal(|p| p.max_restarts = MaxRestarts::Limited(0)).contains("NO_RESTART"));
        assert!(refusal(|p| p.restart_window = 0).contains("restart_window is 0"));
    }

    #[test]
    fn b07_a_budget_that_never_exhausts_is_refused() {
        let text = refusal(|p| {
            p.max_restarts = MaxRestarts::Limited(1);
            p.restart_delay = ms(20_000);
            p.restart_window = ms(10_000);
        });
        assert!(text.contains("UNLIMITED"), "{text}");
        let text = refusal(|p| p.restart_delay = ms(20_000));
        assert!(text.contains("max_restarts 3 times restart_delay 20000 ms"), "{text}");
        let mut policy = Policy { restart_delay: ms(19_999), ..Policy::default() };
        assert_eq!(policy.check(), Ok(()));
        policy.restart_delay = u64::MAX;
        for exempt in [MaxRestarts::Unlimited, MaxRestarts::NoRestart] {
            policy.max_restarts = exempt;
            assert_eq!(policy.check(), Ok(()));
        }
    }

    #[test]
    fn limits_out_of_range_are_named() {
        assert!(refusal(|p| p.limits.event_queue = 0).contains("event_queue is 0"));
        assert!(refusal(|p| p.limits.event_bytes = 0).contains("event_bytes"));
        assert!(refusal(|p| p.limits.outbound_bytes = 0).contains("outbound_bytes"));
        assert!(refusal(|p| p.limits.frame_bytes = LARGEST_LINE + 1).contains("frame_bytes"));
        assert!(refusal(|p| p.limits.log_lines = 0).contains("log_lines"));
        assert!(refusal(|p| p.limits.log_line_bytes = 15).contains("log_line_bytes"));
    }
}
