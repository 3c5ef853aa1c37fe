//! Tests of the whole core: a supervisor is driven by scripted bytes, exits and times, and what it tells and asks for is
//! compared with what the rules say.

mod harness;
mod states;
mod watch;
mod world;

mod acceptance;
mod budget;
mod endings;
mod flow;
mod histories;
mod lifecycle;
mod matrix;
mod shutdown;
mod traps;
mod unread;
