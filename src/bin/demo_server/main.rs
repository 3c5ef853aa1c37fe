//! A small MCP server that answers well, and misbehaves on request.
//!
//! It is what the tests, the example hosts and a first try of the library talk to: one program on standard input and
//! output that needs nothing installed, speaks MCP 2026-07-28 (and, with `--legacy`, the older revisions), and has a
//! tool or a flag for each way in which a real server has been seen to go wrong.
//!
//! - **Tools** (`tools/call`) do one thing to a running server: crash it, stop it, make it write nonsense. They are
//!   listed in one table in `tools/mod.rs`; `--help` prints it.
//! - **Flags** script a whole life before it begins: how it starts, which request kills it, how it leaves. They are
//!   listed in one table in `options.rs`. As a supervisor starts each life with the same arguments, `--lives FILE`
//!   counts the lives and `--in-life 2` limits the flags behind it to the second:
//!
//! ```text
//! mcp-supervised-demo-server --lives /tmp/l --in-life 1 --crash-on tools/list --in-life 2- --ledger /tmp/calls
//! ```
//!
//! Requests are answered on the one thread that reads them, so a tool that hangs hangs the server, as it would in many
//! real ones. Only tools that wait (`sleep`, `progress`, `slow`, …) get a thread. Unless a flag or a tool says
//! otherwise: nothing is written unasked, stderr is silent, descriptors 0 to 2 are the only ones, end of input is
//! exit 0, and a closed standard output is a quiet exit 0.
//!
//! It shares no code with the library on purpose: what checks the wire must not have the same mistakes.

#![warn(clippy::unwrap_used)]

mod input;
mod legacy;
mod methods;
mod options;
mod output;
mod process;
mod record;
mod server;
mod strict;
mod tools;

use std::time::Duration;
use std::{fs, thread};

use options::{Options, Start};
use server::Server;

fn main() {
    match Options::from_command_line() {
        Ok(Start::Help) => print!("{}{}", options::help(), tools::help()),
        Ok(Start::Grandchild { seconds, chatter_ms }) => process::be_grandchild(seconds, chatter_ms),
        Ok(Start::Wrapper(arguments)) => process::be_wrapper(&arguments),
        Ok(Start::Tee(arguments)) => record::be_tee(&arguments),
        Ok(Start::Serve(options)) => live(*options),
        Err(why) => {
            eprintln!("mcp-supervised-demo-server: {why}");
            std::process::exit(2);
        }
    }
}

/// One life, in the order in which `--help` lists what can happen at the start.
fn live(options: Options) {
    // Everything that answers needs the server until the process ends, threads included.
    let server: &'static Server = Box::leak(Box::new(Server::new(options)));
    let options = &server.options;

    if server.options.leave_group {
        process::leave_group();
    }
    process::set_up_sigterm(server);
    if let Some(seconds) = options.spawn_grandchild {
        // A failure here would make a test pass for the wrong reason, so it is not forgiven.
        if let Err(error) = process::spawn_grandchild(seconds, &process::Inherit::default()) {
            eprintln!("no grandchild: {error}");
            std::process::exit(2);
        }
    }
    if let Some(text) = &options.stderr_at_start {
        server::write_stderr(&format!("{text}\n"));
    }
    server::fill_stderr(options.stderr_bytes_at_start);
    if let Some(code) = options.exit_at_start {
        std::process::exit(code);
    }
    if let Some(code) = options.exit_unread {
        process::wait_for_input();
        std::process::exit(code);
    }
    if let Some(path) = &options.raw_lines {
        match fs::read(path) {
            Ok(bytes) => server.output.raw(&bytes),
            Err(error) => eprintln!("--raw-lines {}: {error}", path.display()),
        }
    }
    if let Some(ms) = options.crash_after_start_ms {
        server.in_thread(move || {
            thread::sleep(Duration::from_millis(ms));
            server.options.death.happen();
        });
    }
    if let Some(ms) = options.chatter_ms {
        server.in_thread(move || server.chatter(Duration::from_millis(ms)));
    }
    thread::sleep(Duration::from_millis(options.delay_start_ms));
    if options.no_read {
        server::stay_alive();
    }
    input::serve(server);
}
