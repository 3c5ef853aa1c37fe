//! The restart budget: how many replacements a window of time may see. Rules B1 to B5 and B7.
//!
//! The window opens at the first restart and tumbles; it never slides. Nothing but elapsed time clears the count, so a
//! server that answers one call per life and dies again is given up like one that never answers.

use super::time::Nanos;

/// How many restarts fit one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxRestarts {
    /// None at all: the first death is final.
    NoRestart,
    /// At most this many.
    Limited(u32),
    /// As many as it takes.
    Unlimited,
}

impl MaxRestarts {
    /// The configured maximum as EXHAUSTED and CLOSE tell it (B5); 0 for none, `u32::MAX` for endless.
    pub fn told(self) -> u32 {
        match self {
            Self::NoRestart => 0,
            Self::Limited(max) => max,
            Self::Unlimited => u32::MAX,
        }
    }
}

/// What a death leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// A replacement is coming; `attempt` counts from 1 in its window.
    Restart {
        /// The number of this restart in its window.
        attempt: u32,
    },
    /// The budget is spent.
    Exhausted,
}

/// The counter and its window.
#[derive(Debug, Clone)]
pub struct Budget {
    max: MaxRestarts,
    window: Nanos,
    count: u32,
    opened_at: Nanos,
}

impl Budget {
    /// A budget that nothing was taken from.
    pub fn new(max: MaxRestarts, window: Nanos) -> Self {
        Self { max, window, count: 0, opened_at: 0 }
    }

    /// Takes one restart out of the budget at `now`. `slow_start` marks a life that used up its whole start time: that time
    /// may be longer than the window, and must not open a fresh one, or such a server would be started for ever (B2).
    pub fn decide(&mut self, now: Nanos, slow_start: bool) -> Decision {
        let expired = now.saturating_sub(self.opened_at) > self.window && !slow_start;
        if self.count == 0 || expired {
            self.count = 0;
            self.opened_at = now;
        }
        self.count = self.count.saturating_add(1);
        let within = match self.max {
            MaxRestarts::NoRestart => false,
            MaxRestarts::Limited(max) => self.count <= max,
            MaxRestarts::Unlimited => true,
        };
        if within { Decision::Restart { attempt: self.count } } else { Decision::Exhausted }
    }

    /// The configured maximum.
    pub fn max(&self) -> MaxRestarts {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::super::time::ms;
    use super::*;

    fn run(max: u32, window_ms: u64, deaths_ms: &[u64]) -> Vec<Option<u32>> {
        let mut budget = Budget::new(MaxRestarts::Limited(max), ms(window_ms));
        deaths_ms
            .iter()
            .map(|at| match budget.decide(ms(*at), false) {
                Decision::Restart { attempt } => Some(attempt),
                Decision::Exhausted => None,
            })
            .collect()
    }

    /// The arithmetic of every worked example; the orders of events around them are tested with the supervisor.
    #[test]
    fn b09_worked_examples_of_the_budget() {
        type Example = (u32, u64, &'static [u64], &'static [Option<u32>]);
        let table: &[Example] = &[
            (1, 10_000, &[0, 10_500], &[Some(1), Some(1)]),
            (1, 10_000, &[0, 10_000], &[Some(1), None]),
            (1, 10_000, &[5_000, 12_000], &[Some(1), None]),
            (1, 10, &[0, 50], &[Some(1), Some(1)]),
            (2, 60_000, &[0, 0, 0], &[Some(1), Some(2), None]),
            (3, 60_000, &[0, 1_000, 2_000, 3_000], &[Some(1), Some(2), Some(3), None]),
            (3, 60_000, &[0, 59_900, 60_000, 60_000], &[Some(1), Some(2), Some(3), None]),
            (
                3,
                60_000,
                &[0, 59_000, 59_500, 60_100, 60_600, 61_100],
                &[Some(1), Some(2), Some(3), Some(1), Some(2), Some(3)],
            ),
            // Failing lives further apart than the window never exhaust: why B7 refuses such numbers at the boundary.
            (1, 10_000, &[0, 20_000, 40_000, 60_000], &[Some(1), Some(1), Some(1), Some(1)]),
        ];
        for (max, window, deaths, expected) in table {
            assert_eq!(&run(*max, *window, deaths), expected, "max {max}, window {window}, deaths {deaths:?}");
        }
    }

    #[test]
    fn b02_window_is_strict_and_opens_at_the_first_restart_to_the_nanosecond() {
        let mut budget = Budget::new(MaxRestarts::Limited(1), ms(10));
        assert_eq!(budget.decide(ms(100), false), Decision::Restart { attempt: 1 });
        assert_eq!(budget.clone().decide(ms(110), false), Decision::Exhausted);
        assert_eq!(budget.decide(ms(110) + 1, false), Decision::Restart { attempt: 1 });
    }

    #[test]
    fn b02_a_slow_start_never_opens_a_fresh_window() {
        let mut budget = Budget::new(MaxRestarts::Limited(2), ms(10));
        assert_eq!(budget.decide(ms(1_000), true), Decision::Restart { attempt: 1 }, "counter 0 is excepted");
        assert_eq!(budget.decide(ms(2_000), true), Decision::Restart { attempt: 2 });
        assert_eq!(budget.decide(ms(3_000), true), Decision::Exhausted);
    }

    #[test]
    fn b03_the_window_tumbles_and_two_max_minus_one_restarts_fit_its_width() {
        let given = run(3, 60_000, &[0, 59_999, 60_000, 60_001, 60_002, 60_003, 60_004]);
        assert_eq!(given, [Some(1), Some(2), Some(3), Some(1), Some(2), Some(3), None]);
    }

    #[test]
    fn b07_unlimited_and_no_restart() {
        let mut endless = Budget::new(MaxRestarts::Unlimited, ms(10));
        for n in 1..=1000 {
            assert_eq!(endless.decide(ms(1), false), Decision::Restart { attempt: n });
        }
        let mut none = Budget::new(MaxRestarts::NoRestart, ms(10));
        assert_eq!(none.decide(0, false), Decision::Exhausted);
        assert_eq!(none.max().told(), 0);
    }

    #[test]
    fn b01_sums_saturate() {
        let mut budget = Budget::new(MaxRestarts::Limited(1), u64::MAX);
        assert_eq!(budget.decide(u64::MAX, false), Decision::Restart { attempt: 1 });
        assert_eq!(budget.decide(u64::MAX, false), Decision::Exhausted);
    }
}
