//! Tests of the whole core: a supervisor is driven by scripted bytes, exits and times, and what it tells and asks for is
//! compared with what the rules say.

mod caller;
mod client_steps;
mod client_world;
#[cfg(test)]
mod handshake;
mod harness;
mod ledger;
mod record;
#[cfg(test)]
mod states;
mod watch;
#[cfg(test)]
mod world;

#[cfg(test)]
mod acceptance;
#[cfg(test)]
mod budget;
#[cfg(test)]
mod client;
#[cfg(test)]
mod client_histories;
#[cfg(test)]
mod client_hostile;
#[cfg(test)]
mod client_rows;
#[cfg(test)]
mod client_traps;
#[cfg(test)]
mod endings;
#[cfg(test)]
mod flow;
#[cfg(test)]
mod histories;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod matrix;
#[cfg(test)]
mod retry;
#[cfg(test)]
mod session;
#[cfg(test)]
mod shutdown;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod timeouts;
#[cfg(test)]
mod traps;
#[cfg(test)]
mod unread;
#[cfg(test)]
mod waiting;

#[cfg(fuzzing)]
pub use client_steps::play_bytes;
