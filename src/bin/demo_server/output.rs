//! Standard output: whole lines through one lock, each in one write, with the ways of writing them badly.
//!
//! Any thread may answer, so the lock is what keeps a line whole. A write that fails means that nobody listens any
//! more, and the process leaves without a word, as a filter would.

use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::process::{self, Death};

/// A lock whose holder panicked is taken all the same: a test server has nothing to protect.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Standard output and what it has been told about its own behaviour.
pub struct Output {
    state: Mutex<State>,
    /// Die when this many requests have been answered.
    exit_after: Option<u64>,
    death: Death,
}

struct State {
    /// `None` once a tool has closed it: the process lives on and what it says is lost.
    pipe: Option<File>,
    line_end: &'static str,
    held: Option<Held>,
    /// The answers so far, while the elements of a batch are dealt with.
    batch: Option<Vec<Value>>,
    answered: u64,
}

/// Lines that wait until enough answers are among them, to leave in a single write.
struct Held {
    bytes: Vec<u8>,
    answers_left: u64,
    then_die: bool,
}

impl Output {
    /// Takes over descriptor 1.
    pub fn new(exit_after: Option<u64>, answers_then_die: Option<u64>, crlf: bool, death: Death) -> Self {
        let held = answers_then_die.map(|answers_left| Held { bytes: Vec::new(), answers_left, then_die: true });
        let line_end = if crlf { "\r\n" } else { "\n" };
        let state = State { pipe: Some(process::own_stdout()), line_end, held, batch: None, answered: 0 };
        Self { state: Mutex::new(state), exit_after, death }
    }

    /// Writes a notification or a request of the server's own.
    pub fn note(&self, message: &Value) {
        let mut state = lock(&self.state);
        let line = state.line(message);
        state.emit(&line);
    }

    /// From now on keeps answers for an array.
    pub fn begin_batch(&self) {
        lock(&self.state).batch = Some(Vec::new());
    }

    /// Writes the array, unless nothing wanted an answer.
    pub fn end_batch(&self) {
        let mut state = lock(&self.state);
        if let Some(answers) = state.batch.take().filter(|answers| !answers.is_empty()) {
            let line = state.line(&Value::Array(answers));
            state.emit(&line);
        }
    }

    /// Writes a response, and counts it.
    pub fn answer(&self, message: &Value) {
        if let Some(batch) = &mut lock(&self.state).batch {
            return match message {
                Value::Array(several) => batch.extend_from_slice(several),
                one => batch.push(one.clone()),
            };
        }
        self.answer_after(Vec::new(), message);
    }

    /// Writes lines that are ready and a response behind them in one write.
    pub fn answer_after(&self, mut ready: Vec<u8>, message: &Value) {
        let mut state = lock(&self.state);
        ready.extend_from_slice(&state.line(message));
        state.emit(&ready);
        self.count_answer(&mut state);
    }

    /// Writes a response as `first` bytes, and then pieces of at most `rest` bytes, with a pause between the writes.
    /// The lock is held all the time: a half line must not be completed by somebody else's.
    pub fn answer_in_pieces(&self, message: &Value, first: usize, rest: usize, pause: Duration) {
        let mut state = lock(&self.state);
        let line = state.line(message);
        let (head, tail) = line.split_at(first.clamp(1, line.len()));
        state.emit(head);
        for piece in tail.chunks(rest.max(1)) {
            thread::sleep(pause);
            state.emit(piece);
        }
        self.count_answer(&mut state);
    }

    /// Writes bytes as they are.
    pub fn raw(&self, bytes: &[u8]) {
        lock(&self.state).emit(bytes);
    }

    /// Writes the first `length` bytes of a response (all of them if `None`) without a line end, and exits before
    /// another thread can add to it.
    pub fn last_words(&self, message: &Value, length: Option<usize>, code: i32) -> ! {
        let mut state = lock(&self.state);
        let text = message.to_string();
        let length = length.unwrap_or(text.len()).min(text.len());
        state.emit(&text.as_bytes()[..length]);
        std::process::exit(code);
    }

    /// Closes descriptor 1. Later lines are dropped.
    pub fn close(&self) {
        lock(&self.state).pipe = None;
    }

    /// From now on lines end with CR LF, or with LF again.
    pub fn set_crlf(&self, on: bool) {
        lock(&self.state).line_end = if on { "\r\n" } else { "\n" };
    }

    /// From now on keeps everything back until `answers` responses are together, and writes it at once.
    pub fn hold(&self, answers: u64, then_die: bool) {
        lock(&self.state).held = Some(Held { bytes: Vec::new(), answers_left: answers, then_die });
    }

    fn count_answer(&self, state: &mut State) {
        state.answered += 1;
        if let Some(held) = &mut state.held {
            held.answers_left = held.answers_left.saturating_sub(1);
            if held.answers_left == 0
                && let Some(held) = state.held.take()
            {
                state.emit(&held.bytes);
                if held.then_die {
                    self.death.happen();
                }
            }
        }
        if self.exit_after.is_some_and(|limit| state.answered >= limit) {
            self.death.happen();
        }
    }
}

impl State {
    fn line(&self, message: &Value) -> Vec<u8> {
        let mut line = message.to_string();
        line.push_str(self.line_end);
        line.into_bytes()
    }

    fn emit(&mut self, bytes: &[u8]) {
        if let Some(held) = &mut self.held {
            held.bytes.extend_from_slice(bytes);
        } else if let Some(pipe) = &mut self.pipe
            && pipe.write_all(bytes).is_err()
        {
            std::process::exit(0);
        }
    }
}
