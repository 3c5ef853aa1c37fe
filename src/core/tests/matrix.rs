//! Every state times every input, against a table: what is answered, where it leads, what is told and what is asked for.

use super::harness::{Rig, note, short};
use super::states::{STATES, Way};

/// The inputs. What cannot happen in a state (bytes from a pipe that is closed, a deadline where there is none) changes
/// nothing, like every input that the table does not list.
const INPUTS: [&str; 20] = [
    "start",
    "spawned",
    "spawn fails",
    "serves",
    "send",
    "close",
    "remove",
    "poll",
    "line",
    "eof",
    "read error",
    "overlong",
    "stderr",
    "stderr eof",
    "stdin gone",
    "exit",
    "wrote",
    "timer",
    "shutdown",
    "kill",
];

fn apply(rig: &mut Rig, input: &str) -> String {
    let answer = |answer: Result<(), String>| answer.err().unwrap_or_else(|| "ok".to_owned());
    let slot = rig.slot();
    match input {
        "start" => {
            let may = rig.sup.may_start(rig.id());
            if may.is_ok() {
                rig.come_to_life();
            }
            return answer(may.map_err(|refusal| short(&refusal).to_owned()));
        }
        "spawned" => rig.come_to_life(),
        "spawn fails" => {
            rig.sup.spawn_failed(rig.now, slot, "no such command".to_owned());
        }
        "serves" => rig.serves(),
        "send" => return answer(rig.send("x").map(drop)),
        "close" => rig.close(),
        "remove" => {
            let id = rig.id();
            return answer(rig.sup.remove(id).map_err(|refusal| short(&refusal).to_owned()));
        }
        "poll" => rig.begin_poll(),
        "line" => {
            rig.feed(note("m").as_bytes());
        }
        "eof" => rig.eof(),
        "read error" => rig.stdout_ends(Some("input/output error"), None),
        "overlong" => {
            rig.feed(&[b'x'; 65]);
        }
        "stderr" => rig.err("note\n"),
        "stderr eof" => rig.err_eof(),
        "stdin gone" => rig.stdin_gone(0),
        "exit" => rig.exit(3, 0),
        "wrote" => rig.wrote(),
        "timer" => {
            if let Some(at) = rig.sup.next_deadline() {
                rig.advance_to(at);
            }
        }
        "shutdown" => rig.shutdown(3_600_000),
        "kill" => {
            rig.shutdown(0);
            rig.tick();
        }
        _ => unreachable!("{input}"),
    }
    String::new()
}

/// How the peer goes on from here: its process exits and its pipes end, the host takes everything, time passes.
fn fate(rig: &mut Rig) -> String {
    rig.poll();
    rig.begin_poll();
    if rig.sup.connection(rig.slot()).is_some() {
        rig.exit(0, 0);
        rig.eof();
        rig.err_eof();
    }
    let mut events = rig.poll();
    rig.advance(3_600_000);
    // L19: where lines may lie unread, CLOSE waits until that is known.
    let later = rig.poll();
    assert!(events.is_empty() || later.is_empty(), "{events}; {later}");
    events += &later;
    match (events.as_str(), rig.acts().ends_with("Spawn")) {
        ("", false) => "nothing".to_owned(),
        (_, false) => events,
        ("", true) => "Spawn".to_owned(),
        (_, true) => format!("{events}, Spawn"),
    }
}

/// One cell: answer, state, events, actions and what follows. What is as it was is left out.
fn cell(way: Way, input: &str) -> String {
    let mut untouched = way();
    let before = untouched.state();
    let waiting = untouched.take();
    let mut rig = way();
    let answer = apply(&mut rig, input);
    let Ok(state) = rig.sup.state(rig.id()) else {
        return format!("{answer} | -> gone");
    };
    let acts = rig.acts();
    let events = rig.take();
    let events = events.strip_prefix(&waiting).expect("what waited comes first");
    let mut parts = vec![answer];
    if state != before {
        parts.push(format!("-> {state:?}"));
    }
    parts.push(events.trim_start_matches(", ").to_owned());
    parts.push(acts);
    let follows = fate(&mut rig);
    if follows != fate(&mut way()) {
        parts.push(format!("then {follows}"));
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" | ")
}

fn table() -> String {
    let mut text = String::new();
    for (name, _, way) in STATES {
        text += &format!("{name}: then {}\n", fate(&mut way()));
        for input in INPUTS {
            let cell = cell(way, input);
            if !cell.is_empty() {
                text += &format!("  {input}: {cell}\n");
            }
        }
    }
    text
}

/// After the name of a state stands how a peer goes on from it. A cell says what is answered, where the input leads, what
/// is told, what is asked for, and how the peer goes on if that is another way. An input that is not listed changes
/// nothing.
const TABLE: &str = r#"
idle: then nothing
  start: ok | -> Running | then D, C lost exit=0 ->1, Spawn
  spawned: -> Running | then D, C lost exit=0 ->1, Spawn
  send: NOT_STARTED
  close: -> Closed | D, C asked!
  remove: ok | -> gone
  shutdown: -> Closed | D, C asked!, SHUTDOWN!
  kill: -> Closed | D, C asked!, SHUTDOWN!
starting first: then D, C lost exit=0 ->1, Spawn
  start: ALREADY_STARTED
  serves: -> Running | READY 1
  send: NOT_STARTED
  close: -> Closing | D | CloseStdin | then C asked exit=0!
  remove: NOT_CLOSED
  eof: -> Ending | CloseStdout, CloseStdin
  read error: -> Ending | E io life=1 | CloseStdout, CloseStdin
  overlong: -> Ending | E frametoolarge life=1 | CloseStdout, CloseStdin
  stderr: LOG note | then D, C lost exit=0 ->1 tail="note", Spawn
  stderr eof: CloseStderr
  stdin gone: -> Ending | CloseStdin
  exit: -> Ending | CloseStdin | then D, C lost exit=3 ->1, Spawn
  timer: -> Ending | E handshake life=1 | CloseStdout, CloseStdin
  shutdown: -> Closing | D | CloseStdin | then C asked exit=0!, SHUTDOWN!
  kill: -> Closing | D | CloseStdin, Kill | then C asked exit=0!, SHUTDOWN!
starting later: then E handshake life=2 exit=0, X 1, C withdrawn!
  start: ALREADY_STARTED
  serves: -> Running | R 2 | then D, C lost exit=0, X 1!
  send: CLOSED
  close: -> Closing | D | CloseStdin | then C asked exit=0!
  remove: NOT_CLOSED
  eof: CloseStdout, CloseStdin
  read error: CloseStdout, CloseStdin
  overlong: CloseStdout, CloseStdin
  stderr: LOG note
  stderr eof: CloseStderr
  stdin gone: CloseStdin
  exit: CloseStdin | then E handshake life=2 exit=3, X 1, C withdrawn!
  timer: CloseStdout, CloseStdin
  shutdown: -> Closing | D | CloseStdin | then C asked exit=0!, SHUTDOWN!
  kill: -> Closing | D | CloseStdin, Kill | then C asked exit=0!, SHUTDOWN!
starting doomed: then E handshake life=2 exit=0 ->2, Spawn
  start: ALREADY_STARTED
  send: CLOSED
  close: -> Closing | D | then C asked exit=0!
  remove: NOT_CLOSED
  stderr: LOG note
  stderr eof: CloseStderr
  exit: then E handshake life=2 exit=3 ->2, Spawn
  timer: Terminate
  shutdown: -> Closing | D | then C asked exit=0!, SHUTDOWN!
  kill: -> Closing | D | Kill | then C asked exit=0!, SHUTDOWN!
starting doomed last: then E handshake life=2 exit=0, X 1, C withdrawn!
  start: ALREADY_STARTED
  send: CLOSED
  close: -> Closing | D | then C asked exit=0!
  remove: NOT_CLOSED
  stderr: LOG note
  stderr eof: CloseStderr
  exit: then E handshake life=2 exit=3, X 1, C withdrawn!
  timer: Terminate
  shutdown: -> Closing | D | then C asked exit=0!, SHUTDOWN!
  kill: -> Closing | D | Kill | then C asked exit=0!, SHUTDOWN!
probing: then D, C lost exit=0 ->1, Spawn
  start: ALREADY_STARTED
  serves: -> Running | READY 1
  send: NOT_STARTED
  close: -> Closing | D | CloseStdin | then C asked exit=0!
  remove: NOT_CLOSED
  eof: CloseStdout, CloseStdin
  read error: -> Ending | E io life=1 | CloseStdout, CloseStdin
  overlong: -> Ending | E frametoolarge life=1 | CloseStdout
  stderr: LOG note | then D, C lost exit=0 ->1 tail="note", Spawn
  stderr eof: CloseStderr
  stdin gone: CloseStdin | then Spawn
  exit: -> Ending | CloseStdin | then D, C lost exit=3 ->1, Spawn
  timer: Serve | then D, C lost exit=0 ->1 unread=2, Spawn
  shutdown: -> Closing | D | CloseStdin | then C asked exit=0!, SHUTDOWN!
  kill: -> Closing | D | CloseStdin, Kill | then C asked exit=0!, SHUTDOWN!
left at the probe: then Spawn
  start: ALREADY_STARTED
  send: NOT_STARTED
  close: -> Closing | D | then C asked exit=1!
  remove: NOT_CLOSED
  line: -> Ending | then D, C lost exit=1 ->1, Spawn
  eof: CloseStdout
  read error: -> Ending | E io life=1 | CloseStdout | then D, C lost exit=1 ->1, Spawn
  overlong: -> Ending | E frametoolarge life=1 | CloseStdout | then D, C lost exit=1 ->1, Spawn
  stderr: LOG note
  stderr eof: CloseStderr
  timer: CloseStdout, CloseStderr, Sweep, Release, Spawn | then nothing
  shutdown: -> Closing | D | then C asked exit=1!, SHUTDOWN!
  kill: -> Closed | D, C asked exit=1!, SHUTDOWN! | CloseStdout, CloseStderr, Sweep, Release | then nothing
respawning: then nothing
  start: ALREADY_STARTED
  spawned: Serve | then D, C lost exit=0 ->1 unread=2, Spawn
  spawn fails: -> Waiting | D, C lost exit=1 ->1 | then Spawn
  send: NOT_STARTED
  close: -> Closed | D, C asked exit=1!
  remove: NOT_CLOSED
  shutdown: -> Closed | D, C asked exit=1!, SHUTDOWN!
  kill: -> Closed | D, C asked exit=1!, SHUTDOWN!
shaking hands: then D, C lost exit=0 ->1, Spawn
  start: ALREADY_STARTED
  serves: -> Running | READY 1
  send: NOT_STARTED
  close: -> Closing | D | CloseStdin | then C asked exit=0!
  remove: NOT_CLOSED
  eof: -> Ending | CloseStdout, CloseStdin
  read error: -> Ending | E io life=1 | CloseStdout, CloseStdin
  overlong: -> Ending | E frametoolarge life=1 | CloseStdout
  stderr: LOG note | then D, C lost exit=0 ->1 tail="note", Spawn
  stderr eof: CloseStderr
  stdin gone: -> Ending | CloseStdin
  exit: -> Ending | CloseStdin | then D, C lost exit=3 ->1, Spawn
  timer: -> Ending | E handshake life=1 | CloseStdout, CloseStdin
  shutdown: -> Closing | D | CloseStdin | then C asked exit=0!, SHUTDOWN!
  kill: -> Closing | D | CloseStdin, Kill | then C asked exit=0!, SHUTDOWN!
shaking hands later: then E handshake life=2 exit=0, X 1, C withdrawn!
  start: ALREADY_STARTED
  serves: -> Running | R 2 | then D, C lost exit=0, X 1!
  send: CLOSED
  close: -> Closing | D | CloseStdin | then C asked exit=0!
  remove: NOT_CLOSED
  eof: CloseStdout, CloseStdin
  read error: CloseStdout, CloseStdin
  overlong: CloseStdout
  stderr: LOG note
  stderr eof: CloseStderr
  stdin gone: CloseStdin
  exit: CloseStdin | then E handshake life=2 exit=3, X 1, C withdrawn!
  timer: CloseStdout, CloseStdin
  shutdown: -> Closing | D | CloseStdin | then C asked exit=0!, SHUTDOWN!
  kill: -> Closing | D | CloseStdin, Kill | then C asked exit=0!, SHUTDOWN!
running: then D, C lost exit=0 ->1, Spawn
  start: ALREADY_STARTED
  send: ok | then D, C lost exit=0 ->1 unread=1, Spawn
  close: -> Draining | D | then C asked exit=0!
  remove: NOT_CLOSED
  line: M m
  eof: -> Ending | CloseStdout, CloseStdin
  read error: -> Ending | E io life=1 | CloseStdout, CloseStdin
  overlong: -> Ending | E frametoolarge life=1 | CloseStdout, CloseStdin
  stderr: LOG note | then D, C lost exit=0 ->1 tail="note", Spawn
  stderr eof: CloseStderr
  stdin gone: -> Ending | CloseStdin
  exit: -> Ending | CloseStdin | then D, C lost exit=3 ->1, Spawn
  shutdown: -> Draining | D | then C asked exit=0!, SHUTDOWN!
  kill: -> Closing | D | CloseStdin, Kill | then C asked exit=0!, SHUTDOWN!
ending again: then D, C lost exit=0 ->1, Spawn
  start: ALREADY_STARTED
  send: CLOSED
  close: then D, C lost exit=0!
  remove: NOT_CLOSED
  stderr: LOG note | then D, C lost exit=0 ->1 tail="note", Spawn
  stderr eof: CloseStderr
  exit: then D, C lost exit=3 ->1, Spawn
  timer: Terminate
  shutdown: then D, C lost exit=0!, SHUTDOWN!
  kill: Kill | then D, C lost exit=0!, SHUTDOWN!
ending again exited: then D, C lost exit=3 ->1, Spawn
  start: ALREADY_STARTED
  send: CLOSED
  close: then D, C lost exit=3!
  remove: NOT_CLOSED
  line: M m
  eof: CloseStdout
  read error: E io life=1 | CloseStdout
  overlong: E frametoolarge life=1 | CloseStdout
  stderr: LOG note | then D, C lost exit=3 ->1 tail="note", Spawn
  stderr eof: CloseStderr
  timer: -> Waiting | D, C lost exit=3 ->1 | CloseStdout, CloseStderr, Sweep, Release | then Spawn
  shutdown: then D, C lost exit=3!, SHUTDOWN!
  kill: -> Closed | D, C lost exit=3!, SHUTDOWN! | CloseStdout, CloseStderr, Sweep, Release | then nothing
ending exhausted: then D, C lost exit=0, X 1!
  start: ALREADY_STARTED
  send: CLOSED
  remove: NOT_CLOSED
  stderr: LOG note | then D, C lost exit=0 tail="note", X 1!
  stderr eof: CloseStderr
  exit: then D, C lost exit=3, X 1!
  timer: Terminate
  shutdown: then D, C lost exit=0, X 1!, SHUTDOWN!
  kill: Kill | then D, C lost exit=0, X 1!, SHUTDOWN!
ending nothing: then D, C lost exit=0!
  start: ALREADY_STARTED
  send: CLOSED
  remove: NOT_CLOSED
  stderr: LOG note | then D, C lost exit=0 tail="note"!
  stderr eof: CloseStderr
  exit: then D, C lost exit=3!
  timer: Terminate
  shutdown: then D, C lost exit=0!, SHUTDOWN!
  kill: Kill | then D, C lost exit=0!, SHUTDOWN!
ending unserved: then D, C lost exit=3 ->1, Spawn
  start: ALREADY_STARTED
  send: CLOSED
  close: then D, C lost exit=3!
  remove: NOT_CLOSED
  eof: CloseStdout
  read error: E io life=1 | CloseStdout
  overlong: E frametoolarge life=1 | CloseStdout
  stderr: LOG note | then D, C lost exit=3 ->1 tail="note", Spawn
  stderr eof: CloseStderr
  timer: -> Waiting | D, C lost exit=3 ->1 | CloseStdout, CloseStderr, Sweep, Release | then Spawn
  shutdown: then D, C lost exit=3!, SHUTDOWN!
  kill: -> Closed | D, C lost exit=3!, SHUTDOWN! | CloseStdout, CloseStderr, Sweep, Release | then nothing
waiting: then Spawn
  start: ALREADY_STARTED
  send: CLOSED
  close: -> Closed | C withdrawn! | then nothing
  remove: NOT_CLOSED
  timer: Spawn | then nothing
  shutdown: -> Closed | C withdrawn!, SHUTDOWN! | then nothing
  kill: -> Closed | C withdrawn!, SHUTDOWN! | then nothing
waiting spawning: then nothing
  start: ALREADY_STARTED
  spawned: -> Running | R 2 | then D, C lost exit=0, X 1!
  spawn fails: -> Closed | E spawn life=2, X 1, C withdrawn!
  send: CLOSED
  close: -> Closed | C withdrawn!
  remove: NOT_CLOSED
  shutdown: -> Closed | C withdrawn!, SHUTDOWN!
  kill: -> Closed | C withdrawn!, SHUTDOWN!
waiting held: then Spawn
  start: ALREADY_STARTED
  send: CLOSED
  close: -> Closed | C withdrawn! | then nothing
  remove: NOT_CLOSED
  shutdown: -> Closed | C withdrawn!, SHUTDOWN! | then nothing
  kill: -> Closed | C withdrawn!, SHUTDOWN! | then nothing
draining: then C asked exit=0!
  start: ALREADY_STARTED
  send: ok | then C asked exit=0 unread=1!
  remove: NOT_CLOSED
  line: M m
  eof: -> Closing | CloseStdout, CloseStdin
  read error: -> Closing | E io life=1 | CloseStdout, CloseStdin
  overlong: -> Closing | E frametoolarge life=1 | CloseStdin, CloseStdout
  stderr: LOG note | then C asked exit=0 tail="note"!
  stderr eof: CloseStderr
  stdin gone: -> Closing | CloseStdin
  exit: -> Closing | CloseStdin, Serve | then C asked exit=3!
  shutdown: then C asked exit=0!, SHUTDOWN!
  kill: -> Closing | CloseStdin, Kill | then C asked exit=0!, SHUTDOWN!
draining taken: then C asked exit=0!
  start: ALREADY_STARTED
  send: ok | then C asked exit=0 unread=1!
  remove: NOT_CLOSED
  poll: -> Closing | CloseStdin
  line: M m
  eof: -> Closing | CloseStdout, CloseStdin
  read error: -> Closing | E io life=1 | CloseStdout, CloseStdin
  overlong: -> Closing | E frametoolarge life=1 | CloseStdin, CloseStdout
  stderr: LOG note | then C asked exit=0 tail="note"!
  stderr eof: CloseStderr
  stdin gone: -> Closing | CloseStdin
  exit: -> Closing | CloseStdin, Serve | then C asked exit=3!
  shutdown: then C asked exit=0!, SHUTDOWN!
  kill: -> Closing | CloseStdin, Kill | then C asked exit=0!, SHUTDOWN!
closing: then C asked exit=0!
  start: CLOSED
  send: CLOSED
  remove: NOT_CLOSED
  line: M m
  eof: CloseStdout
  read error: E io life=1 | CloseStdout
  overlong: E frametoolarge life=1 | CloseStdout
  stderr: LOG note | then C asked exit=0 tail="note"!
  stderr eof: CloseStderr
  exit: then C asked exit=3!
  timer: Terminate
  shutdown: then C asked exit=0!, SHUTDOWN!
  kill: Kill | then C asked exit=0!, SHUTDOWN!
closing flushing: then C asked exit=0 unread=1!
  start: CLOSED
  send: CLOSED
  remove: NOT_CLOSED
  line: M m
  eof: CloseStdout
  read error: E io life=1 | CloseStdout
  overlong: E frametoolarge life=1 | CloseStdout
  stderr: LOG note | then C asked exit=0 unread=1 tail="note"!
  stderr eof: CloseStderr
  stdin gone: CloseStdin
  exit: CloseStdin | then C asked exit=3 unread=1!
  wrote: CloseStdin | then C asked exit=0!
  timer: CloseStdin, Terminate
  shutdown: then C asked exit=0 unread=1!, SHUTDOWN!
  kill: Kill | then C asked exit=0 unread=1!, SHUTDOWN!
closed: then nothing
  start: CLOSED
  send: CLOSED
  remove: NOT_CLOSED
  shutdown: SHUTDOWN!
  kill: SHUTDOWN!
closed taken: then nothing
  start: CLOSED
  send: CLOSED
  remove: ok | -> gone
  shutdown: SHUTDOWN!
  kill: SHUTDOWN!
"#;

#[test]
fn l00_every_state_times_every_input() {
    let table = table();
    let (mut found, mut expected) = (table.lines(), TABLE.trim_start().lines());
    let mut state = "";
    loop {
        let pair = (found.next(), expected.next());
        if let (None, None) = pair {
            break;
        }
        assert_eq!(pair.0, pair.1, "in: {state}");
        state = pair.0.filter(|line| !line.starts_with(' ')).unwrap_or(state);
    }
}
