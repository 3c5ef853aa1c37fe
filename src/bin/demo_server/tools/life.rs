//! Tools that end the process, or leave it alive in a bad state. Those that do both, answer and end, write the answer
//! themselves, so that the end follows it whatever the flags say.

use std::sync::atomic::Ordering;

use super::{Call, say};
use crate::methods::Reply;
use crate::process::{self, Death, Inherit};
use crate::server::{self, Failure};

pub fn crash(call: &Call) -> Reply {
    match call.small("signal") {
        Some(number) => Death::Signal(number).happen(),
        None => Death::Exit(call.small("code").unwrap_or(13)).happen(),
    }
}

pub fn exit(call: &Call) -> Reply {
    call.server.answer_now(&call.response("bye"));
    std::process::exit(call.small("code").unwrap_or(0));
}

pub fn half_line(call: &Call) -> Reply {
    let response = call.response("never whole");
    let half = response.to_string().len() / 2;
    call.server.output.last_words(&response, Some(half), call.small("code").unwrap_or(0));
}

pub fn last_line_no_newline(call: &Call) -> Reply {
    call.server.output.last_words(&call.response("no newline"), None, call.small("code").unwrap_or(0));
}

pub fn hang(_: &Call) -> Reply {
    server::stay_alive();
}

pub fn silent(_: &Call) -> Reply {
    Ok(None)
}

pub fn stop(_: &Call) -> Reply {
    process::signal_self(libc::SIGSTOP);
    say("continued")
}

pub fn close_stdout(call: &Call) -> Reply {
    call.server.answer_now(&call.response("closing stdout"));
    call.server.output.close();
    Ok(None)
}

pub fn close_stdin(call: &Call) -> Reply {
    call.server.close_stdin.store(true, Ordering::Relaxed);
    say("closing stdin")
}

pub fn grandchild(call: &Call) -> Reply {
    let inherit = Inherit {
        stdin: call.flag("stdin") == Some(true),
        new_group: call.flag("new_group") == Some(true),
        chatter_ms: call.number("chatter_ms"),
    };
    match process::spawn_grandchild(call.number("seconds").unwrap_or(0), &inherit) {
        Ok(pid) => say(pid.to_string()),
        Err(error) => Err(Failure::new(-32603, error.to_string())),
    }
}
