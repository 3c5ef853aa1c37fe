//! The core: every rule about orders, budgets, completions and limits, without a descriptor, a clock or a system call.
//! Bytes, exits and the time come in as arguments; what is to be done comes out as `Action`s, what is to be told as events.
//! The caller drains both after every input. What it deliberately does not do: read, write, spawn, wait.

#![forbid(unsafe_code)]

pub mod batch;
pub mod budget;
pub mod chunk;
pub mod client;
pub mod connection;
pub mod deadlines;
pub mod era;
pub mod error;
pub mod event;
pub mod framing;
pub mod ids;
pub mod log;
pub mod message;
pub mod outbox;
pub mod peer;
pub mod policy;
pub mod queue;
pub mod requests;
pub mod stamp;
pub mod supervisor;
pub mod time;

#[cfg(any(test, fuzzing))]
#[cfg_attr(fuzzing, allow(dead_code, missing_docs, clippy::unwrap_used))]
pub(crate) mod tests;
