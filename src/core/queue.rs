//! The events of one peer that wait for the host, in one total order (L15). Messages count against the limits of F1; log
//! lines have a ring of their own that drops its oldest, and still come out in their place (F2).

use std::collections::VecDeque;

use super::event::{Event, LogLine};
use super::log::Level;

/// Bytes of text the ring of log lines holds (F2).
const LOG_BYTES: usize = 64 << 10;

/// A collection of so many entries or fewer is not worth being given back.
pub const SMALL: usize = 64;

/// An event and whether it is the peer's last.
#[derive(Debug)]
pub struct Queued {
    /// What is told.
    pub event: Event,
    /// Nothing of this peer follows (L14).
    pub is_final: bool,
}

/// The queue of one peer.
#[derive(Debug)]
pub struct EventQueue {
    events: VecDeque<(u64, bool, Queued)>,
    logs: VecDeque<(u64, LogLine)>,
    log_lines: usize,
    log_bytes: usize,
    next: u64,
    counted: usize,
    counted_errors: usize,
}

impl EventQueue {
    /// An empty queue that keeps `log_lines` log lines.
    pub fn new(log_lines: usize) -> Self {
        Self {
            events: VecDeque::new(),
            logs: VecDeque::new(),
            log_lines,
            log_bytes: 0,
            next: 1,
            counted: 0,
            counted_errors: 0,
        }
    }

    /// Queues what was read from stdout: it counts against F1.
    pub fn push_counted(&mut self, event: Event) {
        self.counted += 1;
        self.counted_errors += usize::from(matches!(event, Event::Error(_)));
        self.push_with(event, false, true);
    }

    /// Queues what the library makes itself: always possible.
    pub fn push(&mut self, event: Event) {
        self.push_with(event, false, false);
    }

    /// Queues the last event of the peer.
    pub fn push_final(&mut self, event: Event) {
        self.push_with(event, true, false);
    }

    fn push_with(&mut self, event: Event, is_final: bool, counted: bool) {
        let at = self.next;
        self.next += 1;
        self.events.push_back((at, counted, Queued { event, is_final }));
    }

    /// Puts a line into the ring; the oldest ones go when it is full.
    pub fn log(&mut self, level: Level, text: String) {
        let at = self.next;
        self.next += 1;
        self.log_bytes += text.len();
        self.logs.push_back((at, LogLine { level, text, dropped: 0 }));
        while self.logs.len() > self.log_lines || (self.log_bytes > LOG_BYTES && self.logs.len() > 1) {
            let Some((_, oldest)) = self.logs.pop_front() else {
                break;
            };
            self.log_bytes -= oldest.text.len();
            if let Some((_, next)) = self.logs.front_mut() {
                next.dropped += oldest.dropped + 1;
            }
        }
    }

    /// Puts a line into the ring in front of the event that was queued last.
    pub fn log_before_last(&mut self, level: Level, text: String) {
        let next = self.next;
        // Between the last event and the one before it: on equal numbers the event goes first.
        self.next = next.saturating_sub(2);
        self.log(level, text);
        self.next = next;
    }

    /// The next event in order.
    pub fn pop(&mut self) -> Option<Queued> {
        let log_first = match (self.events.front(), self.logs.front()) {
            (Some(event), Some(log)) => log.0 < event.0,
            (None, Some(_)) => true,
            _ => false,
        };
        if log_first {
            let (_, line) = self.logs.pop_front()?;
            self.log_bytes -= line.text.len();
            return Some(Queued { event: Event::Log(line), is_final: false });
        }
        let (_, counted, queued) = self.events.pop_front()?;
        self.counted -= usize::from(counted);
        self.counted_errors -= usize::from(counted && matches!(queued.event, Event::Error(_)));
        Some(queued)
    }

    /// Makes the event that was queued last the peer's last one.
    pub fn end(&mut self) {
        if let Some((_, _, last)) = self.events.back_mut() {
            last.is_final = true;
        }
    }

    /// Whether traffic has left more room here than a peer without traffic needs.
    pub fn is_bulky(&self) -> bool {
        self.events.capacity() > SMALL || self.logs.capacity() > SMALL
    }

    /// Lets go of that room where nothing is in it.
    pub fn trim(&mut self) {
        if self.events.is_empty() {
            self.events = VecDeque::new();
        }
        if self.logs.is_empty() {
            self.logs = VecDeque::new();
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.logs.is_empty()
    }

    /// Queued events that count against `event_queue`.
    pub fn counted(&self) -> usize {
        self.counted
    }

    /// Those of them that are errors.
    pub fn counted_errors(&self) -> usize {
        self.counted_errors
    }

    /// Queued events, log lines left aside.
    pub fn events(&self) -> usize {
        self.events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(queue: &mut EventQueue) -> Vec<String> {
        std::iter::from_fn(|| queue.pop())
            .map(|queued| match queued.event {
                Event::Log(line) if line.dropped > 0 => {
                    format!("{} (-{})", line.text, line.dropped)
                }
                Event::Log(line) => line.text,
                other => format!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn f02_log_lines_keep_their_place_among_the_events() {
        let mut queue = EventQueue::new(10);
        queue.log(Level::Server, "a".into());
        queue.push(Event::Writable);
        queue.log(Level::Server, "b".into());
        queue.log(Level::Server, "c".into());
        queue.push(Event::Writable);
        assert_eq!(texts(&mut queue), ["a", "Writable", "b", "c", "Writable"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn l14_a_late_line_still_comes_before_the_last_event() {
        let mut queue = EventQueue::new(10);
        queue.push(Event::Writable);
        queue.log(Level::Server, "a".into());
        queue.push_final(Event::Drain { asked: false });
        queue.log_before_last(Level::Warning, "late".into());
        assert_eq!(texts(&mut queue), ["Writable", "a", "late", "Drain { asked: false }"]);
        let mut queue = EventQueue::new(10);
        queue.push_final(Event::Writable);
        queue.log_before_last(Level::Warning, "late".into());
        assert_eq!(texts(&mut queue), ["late", "Writable"]);
    }

    #[test]
    fn f02_the_ring_drops_the_oldest_lines_and_counts_them() {
        let mut queue = EventQueue::new(2);
        for n in 0..5 {
            queue.log(Level::Server, n.to_string());
        }
        queue.push(Event::Writable);
        assert_eq!(texts(&mut queue), ["3 (-3)", "4", "Writable"]);
        let mut queue = EventQueue::new(1000);
        for _ in 0..100 {
            queue.log(Level::Server, "x".repeat(1000));
        }
        assert!(queue.log_bytes <= LOG_BYTES);
        assert_eq!(queue.logs.front().map(|l| l.1.dropped), Some(35));
        assert_eq!(queue.counted(), 0);
        assert_eq!(queue.events(), 0);
    }

    #[test]
    fn f01_only_what_is_read_from_stdout_counts() {
        let mut queue = EventQueue::new(1);
        queue.push(Event::Writable);
        queue.push_counted(Event::Writable);
        assert_eq!((queue.counted(), queue.events()), (1, 2));
        queue.pop();
        assert_eq!(queue.counted(), 1);
        queue.pop();
        assert_eq!(queue.counted(), 0);
    }
}
