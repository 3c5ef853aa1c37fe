//! What must hold for the requests and streams of one peer in every history (R1, R5, L16, T1, L19, W5): written down from what
//! a host sees and from the lines that were really written.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::caller::user_data;
use crate::core::client::Options;
use crate::core::event::{Answer, Event, Failed, Fault, To, flag};
use crate::core::peer::StateName;
use crate::core::queue::Queued;
use crate::core::time::{NEVER, Nanos};

/// A request or a stream that was accepted.
#[derive(Debug)]
struct Entry {
    is_stream: bool,
    /// It may be written on more than one connection.
    survives: bool,
    life: u32,
    /// Neither bound passes before this moment, and the ceiling at the other.
    earliest: Nanos,
    ceiling: Nanos,
    completed: bool,
    /// The server ended it, which a bad one does also for what it has not read yet.
    by_server: bool,
    /// The lives that got the beginning of its line.
    begun_in: Vec<u32>,
    /// A server has read a byte of one of its lines.
    touched: bool,
    /// A server has refused it for its version: it is written once more.
    refused: bool,
}

/// Everything that was asked for.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: BTreeMap<u64, Entry>,
    /// Ids of the library's own lines.
    own: BTreeSet<String>,
    /// Requests of servers that were told.
    tokens: BTreeSet<u64>,
    /// The last completion of the moment that is being told.
    burst: Option<(bool, u64)>,
    told: HashMap<&'static str, u64>,
}

/// What was asked for, as far as rules depend on it.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    pub is_stream: bool,
    pub survives: bool,
    pub options: Options,
}

impl Ledger {
    /// The id that the next accepted call gets.
    pub fn next_id(&self) -> u64 {
        self.entries.len() as u64 + 1
    }

    /// The answer to a request or a listen: table L, R1.
    pub fn answered(&mut self, state: StateName, life: u32, now: Nanos, asked: Asked, answer: &Answer<u64>) {
        use crate::core::error::Refusal::*;
        let open = match state {
            StateName::Running | StateName::Draining => true,
            StateName::Starting => life == 1,
            _ => false,
        };
        match answer {
            Ok(id) => {
                assert!(open, "accepted while {state:?}");
                assert_eq!(*id, self.next_id(), "R1");
                let (idle, ceiling) = (asked.options.idle.unwrap(), asked.options.ceiling.unwrap());
                let ceiling = if idle == NEVER { ceiling } else { ceiling.max(idle) };
                let entry = Entry {
                    is_stream: asked.is_stream,
                    survives: asked.survives,
                    life,
                    earliest: now.saturating_add(idle.min(ceiling)),
                    ceiling: if asked.is_stream { NEVER } else { now.saturating_add(ceiling) },
                    completed: false,
                    by_server: false,
                    begun_in: Vec::new(),
                    touched: false,
                    refused: false,
                };
                self.entries.insert(*id, entry);
            }
            Err(NotStarted) => assert_eq!(state, StateName::Idle),
            Err(Closed(_)) => assert!(!open && state != StateName::Idle, "refused while {state:?}"),
            Err(WouldBlock { .. } | TooMany { .. }) => assert!(open),
            Err(Lacks { .. } | Invalid(_)) => {}
            Err(refusal) => panic!("{refusal:?}"),
        }
    }

    /// Some token there was, or one there never was.
    pub fn pick_token(&self, pick: usize) -> u64 {
        self.tokens.iter().rev().nth(pick % 4).copied().unwrap_or((1 << 52) + pick as u64)
    }

    /// Some id there was, or one there never was.
    pub fn pick(&self, pick: usize) -> u64 {
        self.next_id().saturating_sub(pick as u64 % 8)
    }

    /// The answer to a cancel.
    pub fn cancelled(&self, id: u64, answer: &Answer) {
        if self.entries.get(&id).is_none_or(|entry| entry.completed) {
            assert!(answer.is_err(), "#{id} is nobody's");
        }
    }

    // ---- what is written ----

    /// The first byte of a line goes into the pipe of a life; its id, if it is a request of the host's.
    pub fn begins(&mut self, life: u32, line: &[u8]) -> Option<u64> {
        let line: Value = serde_json::from_slice(line).expect("W1: one document per line");
        if line["method"].is_null() {
            // An answer to the server: its ids are its own.
            *self.told.entry("responded").or_default() += 1;
            return None;
        }
        let id = match &line["id"] {
            Value::Number(id) => id.as_u64().unwrap(),
            Value::String(id) if id.starts_with("mcp-supervised-") => {
                assert!(self.own.insert(id.clone()), "{id} twice");
                return None;
            }
            _ => {
                if line["method"] == "notifications/cancelled" {
                    let id = line["params"]["requestId"].as_u64().unwrap();
                    assert!(self.entries[&id].begun_in.contains(&life), "R3: #{id} was never written to this one");
                }
                return None;
            }
        };
        let entry = self.entries.get_mut(&id).expect("it was accepted");
        assert!(!entry.completed || entry.by_server, "#{id} is over and is written all the same");
        let times = entry.begun_in.iter().filter(|begun| **begun == life).count();
        assert!(times == 0 || (times == 1 && std::mem::take(&mut entry.refused)), "#{id} twice on one connection");
        assert!(
            entry.survives || entry.begun_in.iter().all(|begun| *begun == life),
            "T1: #{id} goes to a second server"
        );
        entry.begun_in.push(life);
        if times > 0 {
            *self.told.entry("renegotiated").or_default() += 1;
        }
        Some(id)
    }

    /// A server reads a byte of a request.
    pub fn touches(&mut self, id: u64) {
        self.entries.get_mut(&id).unwrap().touched = true;
    }

    /// A server refuses a request for its version, and names ours.
    pub fn refuses(&mut self, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.refused = true;
        }
    }

    // ---- what is told ----

    /// The host takes an event.
    pub fn event(&mut self, queued: &Queued, retry: bool) {
        let what = match &queued.event {
            Event::Message { to, .. } => {
                self.belongs(to, "answer");
                "message"
            }
            Event::Failed(failed) => return self.failed(failed),
            Event::Log(_) => return,
            Event::Ready(_) => "ready",
            Event::Reconnect(serving) => {
                for (id, entry) in self.entries.iter().filter(|(_, entry)| !entry.completed) {
                    assert!(
                        entry.life >= serving.life || entry.is_stream || (entry.survives && retry),
                        "#{id} is lost and nothing was told"
                    );
                }
                "reconnect"
            }
            Event::Close(_) => "close",
            _ => "other",
        };
        *self.told.entry(what).or_default() += 1;
        self.burst = None;
    }

    fn belongs(&mut self, to: &To, how: &'static str) {
        if to.request == 0 {
            assert_eq!(*to, To::default());
            return;
        }
        if to.request >= 1 << 52 {
            // A request of the server, or that it takes one back.
            assert_eq!((to.user_data, to.flags), (0, 0));
            self.tokens.insert(to.request);
            *self.told.entry("token").or_default() += 1;
            return;
        }
        if to.flags & flag::EMULATED != 0 {
            *self.told.entry("emulated").or_default() += 1;
        }
        let entry = self.entries.get_mut(&to.request).expect("it was accepted");
        assert_eq!(to.user_data, user_data(to.request));
        assert!(!entry.completed, "#{} is over: {to:?}", to.request);
        if to.flags & flag::COMPLETE == 0 {
            return;
        }
        entry.completed = true;
        entry.by_server = matches!(how, "answer" | "protocol" | "by peer");
        *self.told.entry(how).or_default() += 1;
        for (bit, name) in [(flag::UNREAD, "unread"), (flag::RETRIED, "retried"), (flag::INPUT_REQUIRED, "input")] {
            *self.told.entry(name).or_default() += u64::from(to.flags & bit != 0);
        }
        let lives: BTreeSet<u32> = entry.begun_in.iter().copied().collect();
        assert!(entry.is_stream || lives.len() < 2 || to.flags & flag::RETRIED != 0, "T7: #{}", to.request);
        if to.flags & flag::UNREAD != 0 {
            assert!(!entry.touched, "L19: a server has read of #{}", to.request);
        }
    }

    fn failed(&mut self, failed: &Failed) {
        let to = &failed.to;
        assert_ne!(to.flags & flag::COMPLETE, 0);
        let how = match failed.fault {
            Fault::Closed => "closed",
            Fault::Exhausted => "exhausted",
            Fault::Timeout => "timeout",
            Fault::Cancelled if to.flags & flag::BY_PEER != 0 => "by peer",
            Fault::Cancelled => "cancelled",
            Fault::DeliveryDropped => "dropped",
            Fault::Protocol => "protocol",
            fault => panic!("{fault:?}"),
        };
        self.belongs(to, how);
        let entry = &self.entries[&to.request];
        match failed.fault {
            Fault::Closed | Fault::Exhausted => {
                let place = (entry.is_stream, to.request);
                assert!(self.burst.is_none_or(|before| before < place), "L16: {place:?} behind {:?}", self.burst);
                self.burst = Some(place);
                if failed.fault == Fault::Closed && !entry.survives && entry.begun_in.is_empty() {
                    assert_ne!(to.flags & flag::UNREAD, 0, "L19: #{} was never written", to.request);
                }
                return;
            }
            Fault::Timeout => assert!(!entry.is_stream, "S6"),
            _ => {}
        }
        assert_eq!(to.flags & flag::UNREAD, 0, "only what is lost is unread");
        self.burst = None;
    }

    /// Of how many requests and streams no completion was taken, and whose ceiling did not pass either.
    pub fn open_at(&self, now: Nanos) -> usize {
        self.entries.values().filter(|entry| !entry.completed && entry.ceiling > now).count()
    }

    /// R3: no bound of a request that timed out can have passed earlier.
    pub fn timed_out(&self, id: u64, now: Nanos) {
        assert!(self.entries[&id].earliest <= now, "#{id} timed out too early");
    }

    /// Everything is flushed and told, and this life serves: it has got what is under way (T3, S3). Servers of the older
    /// revisions know no streams.
    pub fn assert_written(&self, life: u32, streams: bool) {
        let open = self.entries.iter().filter(|(_, entry)| !entry.completed && (streams || !entry.is_stream));
        for (id, entry) in open {
            assert!(entry.begun_in.contains(&life), "#{id} was not written to life {life}");
        }
    }

    /// L16: nothing is left.
    pub fn assert_over(&self) {
        for (id, entry) in &self.entries {
            assert!(entry.completed, "#{id} was never completed: {entry:?}");
        }
    }

    /// How often what was told.
    pub fn counts(&self) -> &HashMap<&'static str, u64> {
        &self.told
    }
}
