//! Tests of a caller that stalls in the middle of a check: before any of its accesses to memory,
//! for any time.

use super::*;
use crate::id_set::IdSet;
use crate::window::bits::slot::{Key, Slot};
use crate::window::bits::tick::{GRACE, Moment};
use crate::window::checks::batch;
use crate::window::look::view::View;
use crate::window::protocol::bucket;
use crate::window::protocol::bucket_memory::{Lost, Place};
use std::cell::Cell;

/// The time when the caller reads its clock, in ticks of a second.
const START: u64 = 10_000;

/// The id that the caller checks.
const MINE: u64 = 7;

/// A table whose caller stalls once, before one of its accesses; `meanwhile` happens then.
/// (One type for all tests: a window's code is compiled for each type of memory.)
struct Stalling<'a> {
    table: TableMemory<'a>,
    accesses_left: Cell<usize>,
    meanwhile: &'a dyn Fn(),
}

impl Stalling<'_> {
    fn table(&self) -> &TableMemory<'_> {
        let left = self.accesses_left.get();
        self.accesses_left.set(left.wrapping_sub(1));
        if left == 0 {
            (self.meanwhile)();
        }
        &self.table
    }
}

impl BucketMemory for Stalling<'_> {
    const SLOTS: usize = <TableMemory>::SLOTS;
    const VERSION_MASK: u64 = <TableMemory>::VERSION_MASK;

    fn buckets(&self) -> usize {
        self.table.buckets()
    }

    fn view_with_head(&self, bucket: usize, key: Key, moment: &Moment) -> (View, Slot) {
        self.table().view_with_head(bucket, key, moment)
    }

    fn load(&self, bucket: usize, slot: usize) -> Slot {
        self.table().load(bucket, slot)
    }

    fn replace(&self, bucket: usize, slot: usize, old: Slot, new: Slot, lost: Option<Lost>) -> bool {
        self.table().replace(bucket, slot, old, new, lost)
    }

    fn prefetcher(&self) -> impl Fn(usize) + Copy {
        self.table.prefetcher()
    }

    fn ready_until(&self, bucket: usize) -> u64 {
        self.table().ready_until(bucket)
    }

    fn all_ready_until(&self) -> u64 {
        self.table().all_ready_until()
    }

    fn ready(&self, bucket: usize, moment: &Moment) {
        self.table().ready(bucket, moment);
    }

    fn overtaken(&self, moment: &Moment) -> bool {
        self.table().overtaken(moment)
    }

    fn load_in_order(&self, bucket: usize, slot: usize) -> Slot {
        self.table().load_in_order(bucket, slot)
    }

    fn lost(&self, bucket: usize, entry: Slot, lost: Lost) {
        self.table.lost(bucket, entry, lost);
    }

    fn repaired(&self) {
        self.table.repaired();
    }

    fn is_clearing(&self) -> bool {
        self.table.is_clearing()
    }

    fn displaced(&self, bucket: usize) {
        self.table.displaced(bucket);
    }

    fn moment(&self, tick: Tick) -> Moment {
        self.table.moment(tick)
    }

    fn check_thoroughly(&self, id: Place, tick: Tick, refresh: bool) -> Result<Outcome, Overtaken> {
        bucket::check_here(self, id, tick, refresh)
    }
}

/// Checks the id as a window does that has one table.
fn check_one(memory: &impl BucketMemory, tick: Tick, refresh: bool) -> Result<Outcome, Overtaken> {
    let id = tables::place(memory, digest(MINE));
    match batch::check_shortly(memory, id, tick, true).filter(|outcome| *outcome == Outcome::Fresh || !refresh) {
        Some(outcome) => Ok(outcome),
        None => memory.check_thoroughly(id, tick, refresh),
    }
}

/// Checks the id as of START, stalling before an access; `None` if there is no such access.
fn stalled(window: &Window, access: usize, in_batch: bool, meanwhile: impl Fn()) -> Option<Outcome> {
    let shared = &window.tables().shared;
    let memory = Stalling { table: window.tables().first(), accesses_left: Cell::new(access), meanwhile: &meanwhile };
    let my_clock = window.ticks.at(Timestamp::from_secs(START).into());
    loop {
        // As the window does it: a caller that was overtaken starts over with the others' time.
        let tick = shared.agree(my_clock);
        let outcome = if in_batch {
            let mut chunk = Chunk::new();
            chunk.stage(&memory, std::iter::once(digest(MINE)));
            let decided = chunk.check(&memory, chunk.all(), tick, false, &mut || ());
            match (decided.fresh.contains(0), decided.overtaken.contains(0)) {
                (false, false) => Ok(Outcome::Duplicate),
                (true, false) => Ok(Outcome::Fresh),
                (_, true) => Err(Overtaken),
            }
        } else {
            check_one(&memory, tick, false)
        };
        if let Ok(outcome) = outcome {
            return (memory.accesses_left.get() > access).then_some(outcome);
        }
    }
}

/// Checks the id twice in one batch as of START, stalling before an access; `None` if there is no
/// such access.
fn stalled_pair(window: &Window, access: usize, meanwhile: impl Fn()) -> Option<[bool; 2]> {
    let shared = &window.tables().shared;
    let memory = Stalling { table: window.tables().first(), accesses_left: Cell::new(access), meanwhile: &meanwhile };
    let mut chunk = Chunk::new();
    chunk.stage(&memory, [digest(MINE); 2].into_iter());
    let (mut todo, mut fresh) = (chunk.all(), IdSet::EMPTY);
    while !todo.is_empty() {
        let tick = shared.agree(window.ticks.at(Timestamp::from_secs(START).into()));
        let decided = chunk.check(&memory, todo, tick, window.refresh_on_duplicate, &mut || ());
        fresh = fresh.union(decided.fresh);
        todo = decided.overtaken;
    }
    (memory.accesses_left.get() > access).then_some([0, 1].map(|i| fresh.contains(i)))
}

#[test]
fn of_two_equal_ids_in_a_batch_the_first_is_fresh_whatever_others_do_meanwhile() {
    let cases = (0..=16).flat_map(|others| {
        [0, 1, 3, 60, 101].into_iter().flat_map(move |later| {
            [0, 1, 4, 16].into_iter().flat_map(move |forgotten| [false, true].map(|it| (others, later, forgotten, it)))
        })
    });
    // A short run takes every seventh case: with the next number of others those are other ones.
    for (others, later, forgotten, refresh) in cases.step_by(long(7, 1)) {
        for access in 0.. {
            let mut window = window_with(others);
            window.set_refresh_on_duplicate(refresh);
            let at = Timestamp::from_secs(START + later);
            let answers = stalled_pair(&window, access, || {
                for id in 0..forgotten {
                    window.forget(digest(100 + id), at);
                }
                window.check(digest(50), at);
            });
            let Some(answers) = answers else { break };
            // In so small a window, vacancies may have pushed out what the first left there; or it
            // has expired.
            let both = (window.evicted_live() > 0 || later > 100) && answers == [true, true];
            assert!(
                both || answers == [true, false],
                "{answers:?}: {others} others, {later} ticks later, {forgotten} forgotten, access {access}, refresh {refresh}"
            );
        }
    }
}

/// Returns a window of two buckets, in which this many ids are live at START.
fn window_with(others: u64) -> Window {
    let window = small(2, Kernel::Portable, false);
    for id in 0..others {
        window.check(digest(100 + id), Timestamp::from_secs(START - 60 + id));
    }
    window
}

/// Returns the number of times that ids were fresh in a check.
fn fresh(window: &Window, id: u64, seconds: u64) -> u64 {
    u64::from(window.check(digest(id), Timestamp::from_secs(seconds)) == Outcome::Fresh)
}

#[test]
fn of_a_stalled_caller_and_others_exactly_one_finds_an_id_fresh() {
    let mut cases = 0;
    for (others, in_batch) in [0, 5, 9, 12, 14].into_iter().flat_map(|others| [(others, false), (others, true)]) {
        for ticks in [0, 1, 3, 50, 99, 103, 200, 500, 900, 1_000, 1_023, 1_024, 1_030, 1_100, 5_000, 1_000_000] {
            for (access, traffic) in (0..).flat_map(|access| [(access, 0), (access, 30)]) {
                let window = window_with(others);
                let by_another = Cell::new(0);
                let mine = stalled(&window, access, in_batch, || {
                    by_another.set(fresh(&window, MINE, START + ticks));
                    (0..traffic).for_each(|id| _ = fresh(&window, 1_000 + id, START + ticks));
                });
                let Some(mine) = mine else { break };
                let evicted = window.evicted_live();
                let times = by_another.get() + u64::from(mine == Outcome::Fresh);
                assert!(
                    times == 1 || (times == 2 && evicted > 0),
                    "fresh {times} times; {others} others, a stall of {ticks} ticks before access {access}"
                );
                assert_eq!(window.stats(Timestamp::from_secs(START + ticks)).repaired_buckets, 0);
                cases += 1;
            }
        }
    }
    println!("{cases} stalls");
    assert!(cases > 1_000);
}

/// Returns the seconds in which the id is remembered after a stall of this many ticks before an
/// access, while others only advance the time.
fn remembered(access: usize, ticks: u64) -> Option<Vec<u64>> {
    let window = window_with(0);
    let bucket = |id| tables::place(&window.tables().first(), digest(id)).bucket;
    let other = (1_000..).find(|&id| bucket(id) != bucket(MINE))?;
    let end = START + ticks;
    let outcome = stalled(&window, access, false, || _ = fresh(&window, other, end))?;
    assert_eq!(outcome, Outcome::Fresh);
    let remembered = |later: &u64| {
        let at = Timestamp::from_secs(end + later);
        window.advance(at.into());
        window.contains(digest(MINE), at)
    };
    Some((0..1_200).filter(remembered).collect())
}

#[test]
fn an_entry_written_late_counts_from_when_the_clock_was_read() {
    // The last access is the one that inserts. Before any other, a long stall is detected.
    let last = (0..).take_while(|&access| remembered(access, 3).is_some()).count() - 1;
    for access in 0..last {
        for ticks in [3, 99, 101, 512, 700, 1_100] {
            assert_eq!(remembered(access, ticks), Some((0..100).collect()), "{ticks} ticks before access {access}");
        }
    }
    let written_late = |ticks| remembered(last, ticks).expect("it inserts");
    for ticks in (0..2_200).step_by(7).chain([98, 99, 100, 512, 513, 1_008, 1_009, 1_023, 1_024, 1_123, 1_124]) {
        // Ten bits of a tick are known. With these it is within 512 ticks of now, and one that is
        // 16 ahead of now, or less, is live.
        let expected = match ticks % 1_024 {
            past @ 0..=512 => 0..100_u64.saturating_sub(past),
            ahead => 1_008_u64.saturating_sub(ahead)..1_124 - ahead,
        };
        assert_eq!(written_late(ticks), expected.collect::<Vec<_>>(), "a stall of {ticks} ticks");
    }
}

/// Checks the id as of START in a window whose newest table is its first; the caller stalls before
/// an access, or, after them all, before it looks whether that table still is the newest. The
/// second result tells the latter.
fn stalled_across(window: &Window, access: usize, meanwhile: impl Fn()) -> (Outcome, bool) {
    let (tables, refresh) = (window.tables(), window.refresh_on_duplicate);
    let my_clock = window.ticks.at(Timestamp::from_secs(START).into());
    let (roster, tick) = (tables.roster(), tables.shared.agree(my_clock));
    let memory = Stalling { table: tables.first(), accesses_left: Cell::new(access), meanwhile: &meanwhile };
    let outcome = check_one(&memory, tick, refresh);
    let is_last = memory.accesses_left.get() <= access;
    if is_last {
        (memory.meanwhile)();
    }
    let mine = match outcome {
        Ok(outcome) if outcome == Outcome::Duplicate || tables.is_current(roster) => return (outcome, is_last),
        Ok(_) => Some(tables::OwnInsertion { roster, tick }),
        Err(Overtaken) => None,
    };
    (tables.check(digest(MINE), refresh, || tables.shared.agree(my_clock), mine), is_last)
}

#[test]
fn a_table_that_is_started_and_retired_during_a_stall_costs_no_delivery() {
    for others in [0, 5, 12] {
        for ticks in [0, 1, 3, 50, 104, 300, 1_000, 1_024, 5_000] {
            for access in 0.. {
                let window = window_with(others);
                let tables = window.tables();
                let by_another = Cell::new(0);
                let (mine, is_last) = stalled_across(&window, access, || {
                    tables.prepare(2, 4).unwrap();
                    assert!(tables.start(2));
                    by_another.set(fresh(&window, 50, START + ticks));
                    let retired = tables.retire(tables.shared.latest(), false);
                    assert_eq!(retired.is_some(), ticks >= 300, "{ticks}");
                    retired.into_iter().for_each(|index| tables.table(index).release());
                    by_another.set(fresh(&window, MINE, START + ticks));
                });
                let times = by_another.get() + u64::from(mine == Outcome::Fresh);
                // After a window, one who has inserted into the older table cannot tell who was
                // first.
                let most = if ticks < 100 { 1 } else { 2 };
                let what = format!("{others} others, a stall of {ticks} ticks before access {access}");
                assert!((1..=most).contains(&times), "{what}: {times} were told fresh");
                if is_last {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_stall_of_a_window_while_a_table_is_started_costs_no_delivery() {
    let window = window_with(0);
    let (mine, _) = stalled_across(&window, usize::MAX, || {
        // The first delivery's entry is there, so a second one is a duplicate of it; in the next
        // window a third one is fresh.
        assert_eq!(fresh(&window, MINE, START + 50), 0);
        window.tables().prepare(2, 4).unwrap();
        assert!(window.tables().start(2));
        assert_eq!(fresh(&window, MINE, START + 103), 1);
    });
    // The first one's caller finds that when it looks again, and yet has to handle it: the second
    // one was dropped because of it.
    assert_eq!(mine, Outcome::Fresh);
}

#[test]
fn with_refresh_an_id_that_another_copies_during_a_stall_is_fresh_for_the_caller_that_inserted_it() {
    for ticks in 0..90 {
        let window = small(2, Kernel::Portable, true);
        let tables = window.tables();
        let (mine, is_last) = stalled_across(&window, usize::MAX, || {
            tables.prepare(2, 4).unwrap();
            assert!(tables.start(2));
            // It finds our entry. In the first ticks it refreshes that, and after them copies it.
            assert_eq!(fresh(&window, MINE, START + ticks), 0);
        });
        assert!(is_last);
        assert_eq!(mine, Outcome::Fresh, "after {ticks} ticks it has taken the copy of its entry for another's");
    }
}

#[test]
fn with_refresh_an_id_that_another_accepts_during_a_short_stall_is_fresh_once() {
    for ticks in 0..=GRACE {
        for access in 0.. {
            let window = small(2, Kernel::Portable, true);
            let tables = window.tables();
            let by_another = Cell::new(0);
            let (mine, is_last) = stalled_across(&window, access, || {
                tables.prepare(2, 4).unwrap();
                assert!(tables.start(2));
                by_another.set(fresh(&window, MINE, START + ticks));
            });
            let times = by_another.get() + u64::from(mine == Outcome::Fresh);
            assert_eq!(times, 1, "a stall of {ticks} ticks before access {access}");
            if is_last {
                break;
            }
        }
    }
}

#[test]
fn a_table_is_closed_when_no_caller_inserts_into_it_any_more() {
    let window = std::rc::Rc::new(window_with(0));
    window.tables().prepare(2, 4).unwrap();
    // Whoever starts the table stalls, and another caller does not see it yet.
    let (accepted, other) = (START + 20, window.clone());
    mutation::at(mutation::Place::Starting, move || assert_eq!(fresh(&other, MINE, accepted), 1));
    assert!(window.tables().start(2));
    // Everything in the old table has expired, but for the id that has come last.
    let later = Timestamp::from_secs(accepted + 99);
    window.advance(later.into());
    assert_eq!(window.tables().retire(window.tables().shared.latest(), false), None);
    assert_eq!(window.check(digest(MINE), later), Outcome::Duplicate);
}
