//! The requests that wait for an answer: found by id, timed by two deadlines each (R3), listed in the order of acceptance.
//!
//! Nothing here grows with anything but the requests in flight. A slab holds the records; two intrusive lists per distinct
//! timeout run through it, so that starting, restarting and ending a deadline is a few stores: all entries of a list have the
//! same timeout and are appended as time goes on, so a list is sorted by itself.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::time::{NEVER, Nanos, after};

/// No entry.
const NONE: u32 = u32::MAX;

/// Spreads sequential ids over a table. Identity would make one cluster of them.
#[derive(Debug, Default, Clone, Copy)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = (self.0 ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

/// A map keyed by request ids.
pub type ById<T> = HashMap<u64, T, BuildHasherDefault<IdHasher>>;

/// Which of the two bounds of a request passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Nothing was heard of it for its idle timeout.
    Idle,
    /// It took too long altogether.
    Ceiling,
}

/// The two clocks of a request, each `NEVER` if off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Restarted by progress.
    pub idle: Nanos,
    /// From acceptance.
    pub ceiling: Nanos,
}

impl Timeouts {
    /// The ceiling never comes before the idle timeout: it would pre-empt it (R3).
    pub fn raised(self) -> Self {
        Self { idle: self.idle, ceiling: self.ceiling.max(if self.idle == NEVER { 0 } else { self.idle }) }
    }
}

/// A place in one list.
#[derive(Debug, Clone, Copy)]
struct Links {
    list: u32,
    before: u32,
    behind: u32,
    at: Nanos,
}

const UNLINKED: Links = Links { list: NONE, before: NONE, behind: NONE, at: NEVER };

#[derive(Debug)]
struct Entry<T> {
    id: u64,
    value: T,
    idle: Links,
    ceiling: Links,
}

/// One list: entries with the same timeout, earliest first.
#[derive(Debug)]
struct List {
    bound: Bound,
    timeout: Nanos,
    first: u32,
    last: u32,
}

/// The requests of one peer.
#[derive(Debug)]
pub struct Requests<T> {
    by_id: ById<u32>,
    slab: Vec<Option<Entry<T>>>,
    free: Vec<u32>,
    lists: Vec<List>,
}

impl<T> Default for Requests<T> {
    fn default() -> Self {
        Self { by_id: ById::default(), slab: Vec::new(), free: Vec::new(), lists: Vec::new() }
    }
}

impl<T> Requests<T> {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Adds a request accepted at `now`. Its id must be new.
    pub fn insert(&mut self, id: u64, value: T, now: Nanos, timeouts: Timeouts) {
        let entry = Entry { id, value, idle: UNLINKED, ceiling: UNLINKED };
        let at = match self.free.pop() {
            Some(at) => {
                self.slab[at as usize] = Some(entry);
                at
            }
            None => {
                self.slab.push(Some(entry));
                (self.slab.len() - 1) as u32
            }
        };
        let known = self.by_id.insert(id, at);
        debug_assert!(known.is_none());
        self.link(at, Bound::Idle, timeouts.idle, now);
        self.link(at, Bound::Ceiling, timeouts.ceiling, now);
    }

    /// The request of an id.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let at = *self.by_id.get(&id)?;
        self.slab[at as usize].as_mut().map(|entry| &mut entry.value)
    }

    /// The request of an id.
    pub fn get(&self, id: u64) -> Option<&T> {
        let at = *self.by_id.get(&id)?;
        self.slab[at as usize].as_ref().map(|entry| &entry.value)
    }

    /// Takes a request out, with its deadlines.
    pub fn remove(&mut self, id: u64) -> Option<T> {
        let at = self.by_id.remove(&id)?;
        self.unlink(at, Bound::Idle);
        self.unlink(at, Bound::Ceiling);
        self.free.push(at);
        self.slab[at as usize].take().map(|entry| entry.value)
    }

    /// Progress came: the idle timeout begins anew.
    pub fn restart_idle(&mut self, id: u64, now: Nanos) {
        let Some(at) = self.by_id.get(&id).copied() else { return };
        let Some(list) = self.entry(at).map(|entry| entry.idle.list) else { return };
        if list != NONE {
            let timeout = self.lists[list as usize].timeout;
            self.unlink(at, Bound::Idle);
            self.link(at, Bound::Idle, timeout, now);
        }
    }

    /// The earliest deadline of all.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.lists.iter().filter_map(|list| self.first_of(list).map(|(at, _)| at)).min()
    }

    /// All requests whose deadline passed at `now`, in the order of acceptance, each with the bound that passed first. They
    /// stay until they are removed.
    pub fn all_due(&self, now: Nanos) -> Vec<(u64, Bound)> {
        let mut due: Vec<(u64, Nanos, Bound)> = Vec::new();
        for list in &self.lists {
            let mut at = list.first;
            while let Some(entry) = self.entry(at) {
                let links = match list.bound {
                    Bound::Idle => entry.idle,
                    Bound::Ceiling => entry.ceiling,
                };
                if links.at > now {
                    break;
                }
                due.push((entry.id, links.at, list.bound));
                at = links.behind;
            }
        }
        due.sort_by_key(|(id, at, _)| (*id, *at));
        due.dedup_by_key(|(id, ..)| *id);
        due.into_iter().map(|(id, _, bound)| (id, bound)).collect()
    }

    /// The ids in the order of acceptance.
    pub fn ids(&self) -> Vec<u64> {
        let mut ids: Vec<u64> = self.by_id.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    fn entry(&self, at: u32) -> Option<&Entry<T>> {
        self.slab.get(at as usize)?.as_ref()
    }

    fn first_of(&self, list: &List) -> Option<(Nanos, u64)> {
        let entry = self.entry(list.first)?;
        let links = match list.bound {
            Bound::Idle => entry.idle,
            Bound::Ceiling => entry.ceiling,
        };
        Some((links.at, entry.id))
    }

    fn links(&mut self, at: u32, bound: Bound) -> Option<&mut Links> {
        let entry = self.slab.get_mut(at as usize)?.as_mut()?;
        Some(match bound {
            Bound::Idle => &mut entry.idle,
            Bound::Ceiling => &mut entry.ceiling,
        })
    }

    fn link(&mut self, at: u32, bound: Bound, timeout: Nanos, now: Nanos) {
        if timeout == NEVER {
            return;
        }
        let list = match self.lists.iter().position(|list| list.bound == bound && list.timeout == timeout) {
            Some(list) => list,
            None => match self.lists.iter().position(|list| list.first == NONE) {
                // A timeout that nobody uses any more makes room for another.
                Some(empty) => {
                    self.lists[empty] = List { bound, timeout, first: NONE, last: NONE };
                    empty
                }
                None => {
                    self.lists.push(List { bound, timeout, first: NONE, last: NONE });
                    self.lists.len() - 1
                }
            },
        };
        let last = self.lists[list].last;
        if let Some(links) = self.links(at, bound) {
            *links = Links { list: list as u32, before: last, behind: NONE, at: after(now, timeout) };
        }
        match self.links(last, bound) {
            Some(links) => links.behind = at,
            None => self.lists[list].first = at,
        }
        self.lists[list].last = at;
    }

    fn unlink(&mut self, at: u32, bound: Bound) {
        let Some(links) = self.links(at, bound) else { return };
        let Links { list, before, behind, .. } = std::mem::replace(links, UNLINKED);
        if list == NONE {
            return;
        }
        match self.links(before, bound) {
            Some(links) => links.behind = behind,
            None => self.lists[list as usize].first = behind,
        }
        match self.links(behind, bound) {
            Some(links) => links.before = before,
            None => self.lists[list as usize].last = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn due_all(requests: &mut Requests<()>, now: Nanos) -> Vec<(u64, Bound)> {
        let due = requests.all_due(now);
        for (id, _) in &due {
            requests.remove(*id);
        }
        due
    }

    #[test]
    fn r03_the_idle_timeout_is_restarted_by_progress_and_the_ceiling_is_not() {
        let mut requests = Requests::default();
        let timeouts = Timeouts { idle: 10, ceiling: 25 }.raised();
        requests.insert(1, (), 0, timeouts);
        requests.insert(2, (), 0, timeouts);
        requests.restart_idle(2, 8);
        assert_eq!(requests.next_deadline(), Some(10));
        assert_eq!(due_all(&mut requests, 9), []);
        assert_eq!(due_all(&mut requests, 10), [(1, Bound::Idle)]);
        requests.restart_idle(2, 17);
        assert_eq!(requests.next_deadline(), Some(25));
        assert_eq!(due_all(&mut requests, 25), [(2, Bound::Ceiling)]);
        assert_eq!(requests.next_deadline(), None);
    }

    #[test]
    fn r03_the_ceiling_is_raised_to_the_idle_timeout_and_each_can_be_off() {
        assert_eq!(Timeouts { idle: 10, ceiling: 5 }.raised().ceiling, 10);
        assert_eq!(Timeouts { idle: NEVER, ceiling: 5 }.raised().ceiling, 5);
        let mut requests = Requests::default();
        requests.insert(1, (), 0, Timeouts { idle: NEVER, ceiling: NEVER });
        assert_eq!(requests.next_deadline(), None);
        assert_eq!(requests.all_due(NEVER - 1), []);
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(steps in proptest::collection::vec((0u8..4, 0usize..8, 0usize..3), 1..200)) {
            let mut requests = Requests::default();
            let mut model: BTreeMap<u64, (Nanos, Nanos, Nanos)> = BTreeMap::new();
            let mut now = 0;
            let mut next = 1;
            for (step, pick, class) in steps {
                let idle = [5, 9, NEVER][class];
                match step {
                    0 => {
                        requests.insert(next, next, now, Timeouts { idle, ceiling: 12 });
                        model.insert(next, (idle, after(now, idle), now + 12));
                        next += 1;
                    }
                    1 => {
                        let id = model.keys().nth(pick).copied().unwrap_or(99_999);
                        prop_assert_eq!(requests.remove(id), model.remove(&id).map(|_| id));
                    }
                    2 => {
                        if let Some((id, entry)) = model.iter_mut().nth(pick) {
                            requests.restart_idle(*id, now);
                            entry.1 = after(now, entry.0);
                        }
                    }
                    _ => now += pick as u64,
                }
                for (id, _) in requests.all_due(now) {
                    requests.remove(id);
                    let entry = model.remove(&id).unwrap();
                    prop_assert!(entry.1.min(entry.2) <= now);
                }
                let earliest = model.values().map(|entry| entry.1.min(entry.2)).min();
                prop_assert_eq!(requests.next_deadline().filter(|at| *at != NEVER), earliest.filter(|at| *at != NEVER));
                prop_assert!(earliest.is_none_or(|at| at > now));
                prop_assert_eq!(requests.ids(), model.keys().copied().collect::<Vec<_>>());
                prop_assert_eq!(requests.len(), model.len());
            }
        }
    }
}
