//! Tests of the whole core: a supervisor is driven by scripted bytes, exits and times, and what it tells and asks for is
//! compared with what the rules say.

mod caller;
mod client_world;
mod handshake;
mod harness;
mod ledger;
mod record;
mod states;
mod watch;
mod world;

mod acceptance;
mod budget;
mod client;
mod client_histories;
mod client_hostile;
mod client_rows;
mod client_traps;
mod endings;
mod flow;
mod histories;
mod lifecycle;
mod matrix;
mod retry;
mod shutdown;
mod streams;
mod timeouts;
mod traps;
mod unread;
mod waiting;
