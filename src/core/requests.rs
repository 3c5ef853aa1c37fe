//! The requests that wait for an answer: found by id, timed by two deadlines each (R3), listed in the order of acceptance.
//!
//! Nothing here grows with anything but the requests in flight. A slab holds the records; two intrusive lists per distinct
//! timeout run through it, so that starting, restarting and ending a deadline is a few stores: all entries of a list have the
//! same timeout and are appended as time goes on, so a list is sorted by itself. A host that gives each request another timeout
//! (what is left of the time of its own caller) would make a list of each; past a few lists a tree takes the rest.

use std::collections::BTreeMap;

use super::queue::SMALL;
use super::time::{NEVER, Nanos, after};

/// No entry, no list.
const NONE: u32 = u32::MAX;
/// In the place of a list: the tree of those without one.
const OTHERS: u32 = u32::MAX - 1;
/// Timeouts that have a list of their own. All lists are looked at to find one, and to find the earliest deadline.
const MOST_LISTS: usize = 8;

/// Which of the two bounds of a request passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    /// The next entry of its bucket.
    next: u32,
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
    /// The first entry of each bucket.
    buckets: Vec<u32>,
    /// Which bits of a hash are the bucket: so many below it.
    shift: u32,
    slab: Vec<Option<Entry<T>>>,
    free: Vec<u32>,
    lists: Vec<List>,
    /// The deadlines of timeouts without a list, with the timeout.
    others: BTreeMap<(Nanos, u32, Bound), Nanos>,
    len: usize,
}

impl<T> Default for Requests<T> {
    fn default() -> Self {
        Self {
            buckets: Vec::new(),
            shift: u64::BITS - 1,
            slab: Vec::new(),
            free: Vec::new(),
            lists: Vec::new(),
            others: BTreeMap::new(),
            len: 0,
        }
    }
}

impl<T> Requests<T> {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether requests have left more room here than a peer without any needs.
    pub fn is_bulky(&self) -> bool {
        self.slab.capacity() > SMALL
    }

    /// Lets go of that room, if nothing is in it.
    pub fn trim(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }

    /// Adds a request accepted at `now`. Its id must be new.
    pub fn insert(&mut self, id: u64, value: T, now: Nanos, timeouts: Timeouts) {
        debug_assert!(self.find(id).is_none());
        if self.len >= self.buckets.len() {
            self.spread();
        }
        self.len += 1;
        let bucket = self.bucket(id);
        let entry = Entry { id, next: self.buckets[bucket], value, idle: UNLINKED, ceiling: UNLINKED };
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
        self.buckets[bucket] = at;
        self.link(at, Bound::Idle, timeouts.idle, now);
        self.link(at, Bound::Ceiling, timeouts.ceiling, now);
    }

    /// The request of an id.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let at = self.find(id)?;
        self.slab[at as usize].as_mut().map(|entry| &mut entry.value)
    }

    /// The request of an id.
    pub fn get(&self, id: u64) -> Option<&T> {
        let at = self.find(id)?;
        self.slab[at as usize].as_ref().map(|entry| &entry.value)
    }

    /// Takes a request out, with its deadlines.
    pub fn remove(&mut self, id: u64) -> Option<T> {
        let at = self.find(id)?;
        self.unlink(at, Bound::Idle);
        self.unlink(at, Bound::Ceiling);
        let entry = self.slab[at as usize].take()?;
        let bucket = self.bucket(id);
        let mut before = self.buckets[bucket];
        if before == at {
            self.buckets[bucket] = entry.next;
        } else {
            while let Some(other) = self.slab.get_mut(before as usize).and_then(Option::as_mut) {
                if other.next == at {
                    other.next = entry.next;
                    break;
                }
                before = other.next;
            }
        }
        self.free.push(at);
        self.len -= 1;
        Some(entry.value)
    }

    /// Which bucket an id belongs to. Multiples of the golden ratio keep apart ids that come one after the other, and also those
    /// that stay while others come and go, which may well be every 64th.
    #[inline]
    fn bucket(&self, id: u64) -> usize {
        (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    #[inline]
    fn find(&self, id: u64) -> Option<u32> {
        let mut at = *self.buckets.get(self.bucket(id))?;
        loop {
            let entry = self.entry(at)?;
            if entry.id == id {
                return Some(at);
            }
            at = entry.next;
        }
    }

    /// Twice as many buckets. Their number is a power of two.
    #[cold]
    fn spread(&mut self) {
        self.buckets = vec![NONE; (self.buckets.len() * 2).max(8)];
        self.shift = u64::BITS - self.buckets.len().trailing_zeros();
        for at in 0..self.slab.len() {
            let Some(id) = self.slab[at].as_ref().map(|entry| entry.id) else { continue };
            let bucket = self.bucket(id);
            if let Some(entry) = &mut self.slab[at] {
                entry.next = self.buckets[bucket];
            }
            self.buckets[bucket] = at as u32;
        }
    }

    /// Progress came: the idle timeout begins anew.
    pub fn restart_idle(&mut self, id: u64, now: Nanos) {
        let Some(at) = self.find(id) else { return };
        let Some(idle) = self.entry(at).map(|entry| entry.idle) else { return };
        let timeout = match idle.list {
            NONE => return,
            OTHERS => self.others.get(&(idle.at, at, Bound::Idle)).copied().unwrap_or(NEVER),
            list => self.lists[list as usize].timeout,
        };
        self.unlink(at, Bound::Idle);
        self.link(at, Bound::Idle, timeout, now);
    }

    /// The earliest deadline of all.
    #[inline]
    pub fn next_deadline(&self) -> Option<Nanos> {
        let listed = self.lists.iter().filter_map(|list| self.first_of(list)).min();
        let other = self.others.first_key_value().map(|((at, ..), _)| *at);
        listed.into_iter().chain(other).min()
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
        for (at, entry, bound) in self.others.keys().take_while(|(at, ..)| *at <= now) {
            due.extend(self.entry(*entry).map(|entry| (entry.id, *at, *bound)));
        }
        due.sort_by_key(|(id, at, _)| (*id, *at));
        due.dedup_by_key(|(id, ..)| *id);
        due.into_iter().map(|(id, _, bound)| (id, bound)).collect()
    }

    /// The ids in the order of acceptance.
    pub fn ids(&self) -> Vec<u64> {
        let mut ids: Vec<u64> = self.slab.iter().flatten().map(|entry| entry.id).collect();
        ids.sort_unstable();
        ids
    }

    #[inline]
    fn entry(&self, at: u32) -> Option<&Entry<T>> {
        self.slab.get(at as usize)?.as_ref()
    }

    fn first_of(&self, list: &List) -> Option<Nanos> {
        let entry = self.entry(list.first)?;
        let links = match list.bound {
            Bound::Idle => entry.idle,
            Bound::Ceiling => entry.ceiling,
        };
        Some(links.at)
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
                None if self.lists.len() == MOST_LISTS => {
                    return self.link_other(at, bound, timeout, after(now, timeout));
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

    #[inline]
    fn unlink(&mut self, at: u32, bound: Bound) {
        let Some(links) = self.links(at, bound) else { return };
        let Links { list, before, behind, at: due } = std::mem::replace(links, UNLINKED);
        match list {
            NONE => return,
            OTHERS => return self.unlink_other(due, at, bound),
            _ => {}
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

    #[cold]
    fn link_other(&mut self, at: u32, bound: Bound, timeout: Nanos, due: Nanos) {
        self.others.insert((due, at, bound), timeout);
        if let Some(links) = self.links(at, bound) {
            *links = Links { list: OTHERS, before: NONE, behind: NONE, at: due };
        }
    }

    #[cold]
    fn unlink_other(&mut self, due: Nanos, at: u32, bound: Bound) {
        self.others.remove(&(due, at, bound));
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn r03_timeouts_that_are_all_different_make_no_list_each() {
        let mut requests = Requests::default();
        for id in 1..=1_000 {
            // The later ones end earlier.
            requests.insert(id, (), 0, Timeouts { idle: 2_000 - id, ceiling: 5_000 });
        }
        assert!(requests.lists.len() <= MOST_LISTS);
        assert_eq!(requests.next_deadline(), Some(1_000));
        requests.restart_idle(1_000, 100);
        assert_eq!(due_all(&mut requests, 1_000), []);
        assert_eq!(due_all(&mut requests, 1_099), (901..=999).map(|id| (id, Bound::Idle)).collect::<Vec<_>>());
        assert_eq!(due_all(&mut requests, 1_100), [(900, Bound::Idle), (1_000, Bound::Idle)]);
        for id in 1..900 {
            requests.remove(id);
        }
        assert_eq!((requests.next_deadline(), requests.others.len()), (None, 0));
    }

    #[test]
    fn requests_that_stay_while_others_come_and_go_are_found_at_once() {
        for every in [1, 2, 64, 1_000, 1 << 16] {
            let mut requests = Requests::default();
            for id in 1..=every * 256 {
                requests.insert(id, (), 0, Timeouts { idle: 10, ceiling: 10 });
                if id % every != 0 {
                    requests.remove(id);
                }
            }
            assert_eq!(requests.len(), 256);
            let chain = |first: &u32| std::iter::successors(requests.entry(*first), |e| requests.entry(e.next)).count();
            let longest = requests.buckets.iter().map(chain).max().unwrap();
            assert!(longest <= 4, "{longest} in one bucket, when every {every}th stays");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(steps in proptest::collection::vec((0u8..4, 0usize..8, 0usize..30), 1..200)) {
            let mut requests = Requests::default();
            let mut model: BTreeMap<u64, (Nanos, Nanos, Nanos)> = BTreeMap::new();
            let mut now = 0;
            let mut next = 1;
            for (step, pick, class) in steps {
                let idle = if class == 0 { NEVER } else { 2 + class as u64 };
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
