//! The fate of each message, and whether it is allowed. Pure.

use super::plan::Deeds;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    Inbox,
    Outbox,
}

/// A key of a side; or a message that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Lane {
    Key(Side, u64),
    Alone(u64),
}

/// The story of a message.
#[derive(Clone, Debug)]
struct Story {
    side: Side,
    key: Option<u64>,
    deeds: Deeds,
    /// Transactions that have stored it, with the places that it has got.
    stored: Vec<(u64, u64)>,
    /// Handlers that have begun.
    begun: u64,
    /// Publications, or effects; and the place of the first among all.
    times: u64,
    first: u64,
    /// True if it was a dead letter, and has lost its place in its key.
    is_requeued: bool,
}

/// A message that is committed, and not done yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: u64,
    since: Duration,
}

/// The messages of a key, in order of their transactions' commits.
#[derive(Clone, Debug, Default)]
struct Line {
    waiting: BTreeMap<u64, Waiting>,
    /// The time since which the first one has been the first.
    first_since: Duration,
}

/// An innocent message at the head of its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oldest {
    pub id: u64,
    pub side: Side,
    pub since: Duration,
}

#[derive(Default)]
pub struct Ledger {
    stories: HashMap<u64, Story>,
    lines: HashMap<Lane, Line>,
    /// The transactions that were committed, each with the time at which this was heard of.
    committed: HashMap<u64, Duration>,
    /// The transactions that a server may have lost when its standby took its place.
    undone: HashSet<u64>,
    /// The messages of each transaction, and the number of servers before the one that it ran on.
    transactions: HashMap<u64, (u64, Vec<u64>)>,
    epoch: u64,
    places: u64,
    firsts: u64,
    pub violations: Vec<String>,
}

/// The sums of all events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub published: u64,
    pub effects: u64,
    /// Publications beyond the first.
    pub doubles: u64,
    /// Transactions that were lost with a server.
    pub undone: u64,
    /// Publications of messages that were lost with a server after that, or shortly before.
    pub published_undone: u64,
    pub rolled_back: u64,
    pub requeued: u64,
}

const SAID_MAX: usize = 20;

impl Ledger {
    pub fn violated(&mut self, what: String) {
        if self.violations.len() < SAID_MAX {
            self.violations.push(what);
        }
    }

    /// Records that an open transaction has stored a message. It holds the message's key until it
    /// ends, so places are given out in the order of commits.
    pub fn stored(&mut self, transaction: u64, side: Side, id: u64, key: Option<u64>, deeds: Deeds) {
        self.places += 1;
        let place = self.places;
        let story = self.stories.entry(id).or_insert(Story {
            side,
            key,
            deeds,
            stored: Vec::new(),
            begun: 0,
            times: 0,
            first: 0,
            is_requeued: false,
        });
        story.stored.push((transaction, place));
        let epoch = self.epoch;
        self.transactions.entry(transaction).or_insert_with(|| (epoch, Vec::new())).1.push(id);
    }

    fn lane(&self, id: u64) -> Lane {
        let story = &self.stories[&id];
        story.key.map_or(Lane::Alone(id), |key| Lane::Key(story.side, key))
    }

    /// Returns the place that a message has got in the transaction that was committed.
    fn place(&self, id: u64) -> Option<u64> {
        let mut stored = self.stories.get(&id)?.stored.iter();
        stored.find(|(transaction, _)| self.committed.contains_key(transaction)).map(|(_, place)| *place)
    }

    /// Records that a transaction was committed. (If another server has taken the place of its
    /// own meanwhile, that one knows.)
    pub fn committed(&mut self, transaction: u64, now: Duration) {
        match self.transactions.get(&transaction) {
            Some((epoch, _)) if *epoch < self.epoch => drop(self.undone.insert(transaction)),
            _ => self.is_there(transaction, now),
        }
    }

    /// Records that nobody has heard whether a transaction was committed.
    pub fn unheard(&mut self, transaction: u64) {
        self.undone.insert(transaction);
    }

    fn is_there(&mut self, transaction: u64, now: Duration) {
        self.committed.insert(transaction, now);
        for id in self.of(transaction) {
            if self.stories[&id].times == 0 {
                self.wait(id, now);
            }
        }
    }

    /// Returns the messages of a transaction.
    fn of(&self, transaction: u64) -> Vec<u64> {
        self.transactions.get(&transaction).map(|(_, of)| of.clone()).unwrap_or_default()
    }

    /// Lets a message wait in its line.
    fn wait(&mut self, id: u64, now: Duration) {
        let (lane, place) = (self.lane(id), self.place(id));
        if let Some(place) = place.filter(|_| !self.stories[&id].is_requeued) {
            self.lines.entry(lane).or_default().waiting.insert(place, Waiting { id, since: now });
        }
    }

    /// Records that a standby has taken its server's place: it has these transactions and these
    /// effects, in their order. It must have everything that was committed before `cut`.
    pub fn failed_over(&mut self, there: &HashSet<u64>, effects: &[u64], cut: Duration, now: Duration) {
        self.epoch += 1;
        let mut lost: Vec<(u64, Duration)> =
            self.committed.iter().map(|(of, at)| (*of, *at)).filter(|(of, _)| !there.contains(of)).collect();
        lost.sort_unstable();
        for (transaction, at) in lost {
            if at < cut {
                self.violated(format!("transaction {transaction} was committed and replicated, and is not there"));
            }
            let places: Vec<_> = self.of(transaction).into_iter().map(|id| (id, self.place(id))).collect();
            self.committed.remove(&transaction);
            self.undone.insert(transaction);
            for (id, place) in places.into_iter().filter_map(|(id, place)| Some((id, place?))) {
                self.leave_place(self.lane(id), place, now);
            }
        }
        let heard: Vec<u64> = there.iter().filter(|of| !self.committed.contains_key(of)).copied().collect();
        heard.into_iter().for_each(|transaction| self.is_there(transaction, now));
        self.has_effects(effects, now);
    }

    /// Records which effects are there, after the server has changed.
    fn has_effects(&mut self, effects: &[u64], now: Duration) {
        let there: HashSet<u64> = effects.iter().copied().collect();
        let mut handled: HashSet<u64> = HashSet::new();
        for (id, story) in self.stories.iter_mut().filter(|(_, story)| story.side == Side::Inbox && story.times > 0) {
            story.times = 0;
            handled.insert(*id);
        }
        let mut again: Vec<u64> = handled.difference(&there).copied().collect();
        again.sort_unstable();
        again.into_iter().for_each(|id| self.wait(id, now));
        for id in effects {
            match self.stories.get_mut(id) {
                Some(story) if handled.contains(id) => story.times += 1,
                _ => self.done(*id, now),
            }
        }
    }

    /// Returns the number of publications or of effects so far, whichever are fewer.
    pub fn progress(&self) -> u64 {
        let times = |side| self.stories.values().filter(|story| story.side == side).map(|story| story.times).sum();
        Ord::min(times(Side::Inbox), times(Side::Outbox))
    }

    pub fn has(&self, transaction: u64) -> bool {
        self.committed.contains_key(&transaction)
    }

    /// Records that a handler begins. Returns how many have begun before.
    pub fn begun(&mut self, id: u64) -> u64 {
        let Some(story) = self.stories.get_mut(&id) else {
            self.violated(format!("{id} is handled, and nobody has stored it"));
            return 0;
        };
        story.begun += 1;
        story.begun - 1
    }

    /// Records a publication, or an effect that was committed.
    pub fn done(&mut self, id: u64, now: Duration) {
        let Some(story) = self.stories.get_mut(&id) else {
            self.violated(format!("{id} is done, and nobody has stored it"));
            return;
        };
        story.times += 1;
        if story.times == 1 {
            self.firsts += 1;
            story.first = self.firsts;
            self.leave(id, now);
        }
    }

    /// Records that an operator requeued a dead letter: it waits behind all others of its key.
    pub fn requeued(&mut self, id: u64, now: Duration) {
        if let Some(story) = self.stories.get_mut(&id) {
            story.is_requeued = true;
            self.leave(id, now);
        }
    }

    fn leave(&mut self, id: u64, now: Duration) {
        if let Some(place) = self.place(id) {
            self.leave_place(self.lane(id), place, now);
        }
    }

    fn leave_place(&mut self, lane: Lane, place: u64, now: Duration) {
        let Some(line) = self.lines.get_mut(&lane) else { return };
        let was_first = line.waiting.first_key_value().is_some_and(|(first, _)| *first == place);
        line.waiting.remove(&place);
        if was_first {
            line.first_since = now;
        }
        if line.waiting.is_empty() {
            self.lines.remove(&lane);
        }
    }

    pub fn waiting(&self, side: Side) -> usize {
        let of_side = |lane: &Lane| match lane {
            Lane::Key(of, _) => *of == side,
            Lane::Alone(id) => self.stories[id].side == side,
        };
        self.lines.iter().filter(|(lane, _)| of_side(lane)).map(|(_, line)| line.waiting.len()).sum()
    }

    /// Returns messages that were committed and are not done, those that were requeued among them.
    pub fn open(&self) -> Vec<u64> {
        let is_open = |(id, story): (&u64, &Story)| (story.times == 0 && self.place(*id).is_some()).then_some(*id);
        self.stories.iter().filter_map(is_open).collect()
    }

    /// Returns the innocent heads of lines. A message behind one that hangs waits for that one.
    pub fn heads(&self) -> impl Iterator<Item = Oldest> {
        self.lines.values().filter_map(|line| {
            let (_, Waiting { id, since }) = line.waiting.first_key_value()?;
            let story = &self.stories[id];
            let since = (*since).max(line.first_since);
            story.deeds.is_innocent().then_some(Oldest { id: *id, side: story.side, since })
        })
    }

    fn is_undone(&self, story: &Story) -> bool {
        story.stored.iter().any(|(transaction, _)| self.undone.contains(transaction))
    }

    /// Describes a message for the reader of a violation.
    pub fn said(&self, id: u64) -> String {
        self.stories.get(&id).map_or("unknown".to_owned(), |story| format!("{story:?}"))
    }

    /// Judges all, when nothing happens any more: `committed` are the transactions that the server
    /// has.
    pub fn judge(&mut self, committed: &HashSet<u64>) -> Tally {
        let mut lost: Vec<u64> = self.committed.keys().filter(|of| !committed.contains(of)).copied().collect();
        lost.sort_unstable();
        lost.into_iter().for_each(|lost| self.violated(format!("transaction {lost} was committed, and is not there")));
        self.committed = committed.iter().map(|of| (*of, Duration::ZERO)).collect();
        let mut tally = Tally { undone: self.undone.difference(committed).count() as u64, ..Tally::default() };
        let mut keys: HashMap<Lane, Vec<(u64, u64, u64)>> = HashMap::new();
        let mut ids: Vec<u64> = self.stories.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let (story, place) = (self.stories[&id].clone(), self.place(id));
            tally.requeued += u64::from(story.is_requeued);
            tally.rolled_back += u64::from(place.is_none());
            match story.side {
                Side::Outbox => {
                    tally.published += story.times;
                    tally.doubles += story.times.saturating_sub(1);
                }
                Side::Inbox => tally.effects += story.times,
            }
            match (place, story.times) {
                (None, 0) => continue,
                // It was published before its server was lost, or by whoever had it in hand then.
                (None, _) if story.side == Side::Outbox && self.is_undone(&story) => {
                    tally.published_undone += story.times;
                }
                (None, _) => self.violated(format!("{id} was rolled back, and is done: {story:?}")),
                (Some(_), 0) => self.violated(format!("{id} is lost: {story:?}")),
                (Some(_), 2..) if story.side == Side::Inbox => {
                    self.violated(format!("{id} has more than one effect: {story:?}"));
                }
                _ => {}
            }
            if let (Some(place), Some(_), false, 1..) = (place, story.key, story.is_requeued, story.times) {
                keys.entry(self.lane(id)).or_default().push((place, story.first, id));
            }
        }
        for (lane, mut of_key) in keys {
            of_key.sort_unstable();
            for pair in of_key.windows(2).filter(|pair| pair[0].1 > pair[1].1) {
                let [(.., first), (.., second)] = [pair[0], pair[1]];
                self.violated(format!(
                    "{lane:?}: {second} has overtaken {first}: {:?}, {:?}",
                    self.stories[&second], self.stories[&first]
                ));
            }
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Deed;
    use super::*;

    const S: Duration = Duration::from_secs(1);
    const GUILTY: Deeds = Deeds { deed: Deed::Hangs, times: 1 };

    fn judged(happens: impl FnOnce(&mut Ledger), committed: &[u64]) -> (String, Tally) {
        let mut ledger = Ledger::default();
        happens(&mut ledger);
        let tally = ledger.judge(&committed.iter().copied().collect());
        (ledger.violations.join("; "), tally)
    }

    /// Stores messages 1 and 2 of one key in transactions 1 and 2.
    fn two(ledger: &mut Ledger, side: Side) {
        for n in [1, 2] {
            ledger.stored(n, side, n, Some(0), Deeds::NONE);
            ledger.committed(n, S);
        }
    }

    #[test]
    fn what_is_lost_doubled_or_out_of_order_is_said() {
        let in_order = |ledger: &mut Ledger, ids: &[u64]| ids.iter().for_each(|id| ledger.done(*id, 2 * S));
        for (side, done, says) in [
            (Side::Outbox, &[1, 2][..], ""),
            (Side::Outbox, &[1, 1, 2, 1], ""),
            (Side::Outbox, &[2, 1], "2 has overtaken 1"),
            (Side::Outbox, &[1], "2 is lost"),
            (Side::Inbox, &[1, 2, 1], "1 has more than one effect"),
            (Side::Inbox, &[1, 2, 3], "3 is done, and nobody has stored it"),
        ] {
            let (said, _) = judged(
                |ledger| {
                    two(ledger, side);
                    in_order(ledger, done);
                },
                &[1, 2],
            );
            assert!(said.contains(says) && said.is_empty() == says.is_empty(), "{done:?}: {said:?}");
        }
        let (said, tally) = judged(
            |ledger| {
                two(ledger, Side::Outbox);
                in_order(ledger, &[1, 1, 2]);
            },
            &[1],
        );
        assert!(said.contains("transaction 2 was committed") && said.contains("2 was rolled back, and is done"));
        assert_eq!((tally.published, tally.doubles, tally.rolled_back), (3, 1, 1));
    }

    #[test]
    fn a_standby_that_takes_over_may_lack_the_end_and_nothing_else() {
        let there = |of: &[u64]| of.iter().copied().collect::<HashSet<u64>>();
        // The second transaction and its publication are lost, and so is the first one's deletion.
        let lost = |ledger: &mut Ledger, cut| {
            two(ledger, Side::Outbox);
            [1, 2].into_iter().for_each(|id| ledger.done(id, 2 * S));
            ledger.failed_over(&there(&[1]), &[], cut, 3 * S);
            ledger.done(1, 4 * S);
        };
        let (said, tally) = judged(|ledger| lost(ledger, S), &[1]);
        assert_eq!((said.as_str(), tally.doubles, tally.undone, tally.published_undone), ("", 1, 1, 1));
        let (said, _) = judged(|ledger| lost(ledger, 2 * S), &[1]);
        assert!(said.contains("transaction 2 was committed and replicated, and is not there"), "{said}");

        // Effects of the first two are lost: one comes again, the other one does not.
        let effects = |ledger: &mut Ledger, then: &[u64]| {
            two(ledger, Side::Inbox);
            [1, 2].into_iter().for_each(|id| ledger.done(id, 2 * S));
            ledger.failed_over(&there(&[1, 2]), &[], S, 3 * S);
            assert_eq!(ledger.waiting(Side::Inbox), 2);
            then.iter().for_each(|id| ledger.done(*id, 4 * S));
        };
        for (then, says) in
            [(&[1, 2][..], ""), (&[1], "2 is lost"), (&[2, 1], "2 has overtaken 1"), (&[1, 2, 2], "more")]
        {
            let (said, _) = judged(|ledger| effects(ledger, then), &[1, 2]);
            assert!(said.contains(says) && said.is_empty() == says.is_empty(), "{then:?}: {said}");
        }
        // What nobody has heard of the old server is not believed.
        let (said, _) = judged(
            |ledger| {
                ledger.stored(1, Side::Inbox, 1, None, Deeds::NONE);
                ledger.failed_over(&there(&[]), &[], S, S);
                ledger.committed(1, 2 * S);
            },
            &[],
        );
        assert_eq!(said, "");
    }

    #[test]
    fn a_redelivery_after_a_rollback_has_the_place_of_the_commit() {
        let (said, _) = judged(
            |ledger| {
                ledger.stored(1, Side::Inbox, 1, Some(0), Deeds::NONE); // rolled back
                ledger.stored(2, Side::Inbox, 2, Some(0), Deeds::NONE);
                ledger.stored(3, Side::Inbox, 1, Some(0), Deeds::NONE);
                [2, 3].into_iter().for_each(|transaction| ledger.committed(transaction, S));
                [2, 1].into_iter().for_each(|id| ledger.done(id, S));
            },
            &[2, 3],
        );
        assert_eq!(said, "");
    }

    #[test]
    fn innocent_heads_have_an_age_and_whoever_is_behind_a_guilty_one_has_none() {
        let mut ledger = Ledger::default();
        ledger.stored(1, Side::Inbox, 1, Some(0), GUILTY);
        ledger.stored(1, Side::Inbox, 2, Some(0), Deeds::NONE);
        ledger.stored(1, Side::Inbox, 3, None, Deeds::NONE);
        ledger.committed(1, S);
        let heads = |ledger: &Ledger| {
            let mut heads: Vec<_> = ledger.heads().map(|head| (head.id, head.since)).collect();
            heads.sort_unstable();
            heads
        };
        assert_eq!(heads(&ledger), [(3, S)]);
        ledger.done(1, 3 * S);
        assert_eq!(heads(&ledger), [(2, 3 * S), (3, S)]);
        ledger.requeued(2, 4 * S);
        assert_eq!((heads(&ledger), ledger.waiting(Side::Inbox)), (vec![(3, S)], 1));
        let mut open = ledger.open();
        open.sort_unstable();
        assert_eq!(open, [2, 3]);
    }
}
