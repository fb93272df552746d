//! Fuzzing with slots of any bits, and buckets of any slots: the work of the fuzz target `line`.
//!
//! Nothing here may panic or run forever, all ways of looking at buckets must do the same, and the
//! invariants of arbitrary buckets must hold.

use super::super::Window;
use super::super::growth::Growth;
use crate::digest::Digest;
use crate::sync::Ordering;
use crate::window::bits::division::Ticks;
use crate::window::bits::slot::{SLOTS, Slot, Tag, VERSION_BITS, scale};
use crate::window::bits::tick::Moment;
use crate::window::checks::kernel::Kernel;
use crate::window::look::view::View;
use crate::window::protocol::bucket_memory::BucketMemory;
use crate::window::table_set::table::Table;
use crate::window::table_set::{roster, tables};
use crate::{Outcome, Timestamp};
use std::time::Duration;

const VERSION_MASK: u64 = (1 << VERSION_BITS) - 1;

#[cfg(fuzzing)]
impl Window {
    /// Does the work of the fuzz target `line` with its input.
    #[doc(hidden)]
    pub fn fuzz_buckets(bytes: &[u8]) {
        let _ = fuzz(bytes);
    }
}

/// Decodes and runs the bytes: a configuration, the buckets' content, and operations on them. The
/// end of the bytes ends the run. Returns `None` if there was no run.
fn fuzz(bytes: &[u8]) -> Option<()> {
    let bytes = &mut bytes.iter().copied();
    let flags = bytes.next()?;
    let now = 512 + u64::from(bytes.next()?) * 64;
    let buckets = if flags & 1 == 0 { 2 } else { 4 };
    // Every way of looking at buckets that this processor has.
    let windows: Vec<_> = Kernel::all().map(|kernel| window(buckets, kernel, flags & 2 != 0)).collect();
    for at in 0..buckets * SLOTS {
        let slot = slot(bytes, now)?;
        fields(slot, now, moment_of(&windows[0], seconds(now)));
        for window in &windows {
            window.tables().memory(0).bucket(at / SLOTS)[at % SLOTS].store(slot.0, Ordering::Relaxed);
        }
    }
    // The looks tell the window what time it is; so that time holds for all of them.
    windows.iter().for_each(|window| looks(window, now));
    let mut now = now;
    while let Some(()) = step(&windows, &mut now, bytes) {}
    Some(())
}

/// Returns a window of 100 ticks of a second.
fn window(buckets: usize, kernel: Kernel, refresh_on_duplicate: bool) -> Window {
    let duration = Duration::from_secs(100);
    let ticks = Ticks::of_window(duration).expect("the window is valid");
    let growth = Growth::new(Table::new(buckets).expect("a page of memory"), ticks.window, 0, false);
    Window { growth, ticks, duration, refresh_on_duplicate, kernel }
}

fn moment_of(window: &Window, at: Timestamp) -> Moment {
    window.tables().shared.moment(window.tick_at(at.into()))
}

fn seconds(now: u64) -> Timestamp {
    Timestamp::from_secs(now)
}

/// Returns one of few different tags, spread over the range.
fn mark(byte: u8) -> u64 {
    u64::from(byte % 8 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns an id at home in one of four buckets (or two).
fn id(byte: u8) -> Digest {
    Digest { place: u64::from(byte) << 62, mark: mark(byte >> 2) }
}

/// Returns any slot, or one that may well be found in a window: few tags, ticks and versions around
/// one value.
fn slot(bytes: &mut impl Iterator<Item = u8>, now: u64) -> Option<Slot> {
    let kind = bytes.next()?;
    let (age, version) = (u64::from(bytes.next()?), u64::from(bytes.next()?));
    if kind & 0x80 != 0 {
        let bits = kind.wrapping_mul(31);
        return Some(Slot(u64::from_le_bytes(std::array::from_fn(|i| bytes.next().unwrap_or(bits ^ i as u8)))));
    }
    let tag = if kind & 0x40 != 0 { 0 } else { mark(kind) >> 18 << 18 };
    let (away, spilled) = (u64::from(kind) >> 3 & 1, u64::from(kind) >> 4 & 1);
    let tick = now.wrapping_sub(age) & 1023;
    Some(Slot(tag | away << 17 | tick << 7 | spilled << 6 | version & 63))
}

/// The fields of a slot by the table in `slot`, as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fields {
    tag: u64,
    away: u64,
    tick: u64,
    spilled: u64,
    version: u64,
}

impl Fields {
    fn of(Slot(bits): Slot) -> Self {
        let field = |low: u32, len: u32| bits >> low & ((1 << len) - 1);
        Fields {
            tag: field(18, 46),
            away: field(17, 1),
            tick: field(7, 10),
            spilled: field(6, 1),
            version: field(0, 6),
        }
    }
}

/// Checks every way to take a slot apart and to change it, against the table.
fn fields(slot: Slot, now: u64, moment: Moment) {
    let was = Fields::of(slot);
    let stamp = moment.tick.stamp & 1023;
    let key = Tag::of(slot.0);
    assert_eq!(slot.tag().is_none(), was.tag < 1 << 12);
    assert_eq!((slot.is_vacant(), slot.is_taken()), (was.tag < 1 << 12, was.tag > 0));
    assert!(slot.tag().is_none_or(|tag| tag == key) && key.at_home() != key.away());
    assert_eq!((slot.is_away(), slot.spilled()), (was.away == 1, was.spilled == 1));
    assert_eq!(slot.version(VERSION_MASK), was.version);
    assert_eq!(slot.matches(key.at_home()), was.tag >= 1 << 12 && was.away == 0);
    assert_eq!(slot.matches(key.away()), was.tag >= 1 << 12 && was.away == 1);

    // Ages run from -16 to 1007: ten bits.
    let age = (now + 16).wrapping_sub(was.tick) & 1023;
    assert_eq!(moment.age_ticks(slot.0), age.saturating_sub(16));
    assert_eq!(moment.is_live(slot.0), age < 116);
    assert_eq!(slot.keep(&moment), was.tag >= 1 << 12 && age < 118);
    assert_eq!(slot.carries(&moment), was.spilled == 1 && (was.away == 1 || age < 120));
    assert!(!slot.keep(&moment) || moment.not_older_than(slot.0).is_live(slot.0));

    let changed = |slot: Slot, fields: Fields| assert_eq!(Fields::of(slot), fields);
    changed(slot.tombstone(), Fields { tag: 1, ..was });
    let (spilled, kind) = if was.away == 0 { (1, 3) } else { (was.spilled, 1) };
    let reserved = slot.reserved();
    changed(reserved, Fields { tag: kind << 10 | was.tag >> 36, away: 1, spilled, ..was });
    changed(reserved.filled(slot), Fields { spilled, ..was });
    changed(slot.swept(), Fields { tag: 0, away: 0, tick: 0, spilled: 0, ..was });
    changed(slot.with_version(was.version ^ 63), Fields { version: was.version ^ 63, ..was });
    changed(slot.refreshed(&moment), Fields { tick: stamp, ..was });
    changed(slot.moved_away(), Fields { away: 1, spilled: 0, version: 0, ..was });
    changed(slot.moved_away().inserted(true, was.version), Fields { away: 1, spilled: 1, ..was });
    let tag = if was.tag < 1 << 12 { was.tag | 1 << 45 } else { was.tag };
    let accepted = Slot::accepted(key, &moment).inserted(was.spilled == 1, was.version);
    changed(accepted, Fields { tag, away: 0, tick: stamp, spilled: was.spilled, version: was.version });
    assert!(moment.is_live(accepted.0) && accepted.keep(&moment));

    let buckets = 2 * (1 + (slot.0 as usize >> 7) % 1_000_000);
    let home = scale(slot.0.rotate_left(17), buckets);
    let alternate = key.alternate(home, buckets);
    assert!(alternate < buckets && alternate != home && key.alternate(alternate, buckets) == home);
}

/// Checks that a look at each bucket for each id sees what is there.
fn looks(window: &Window, now: u64) {
    let moment = moment_of(window, seconds(now));
    for bucket in 0..window.tables().table(0).buckets() {
        let slots = content(window, bucket);
        for tag in (0..8).map(|byte| Tag::of(mark(byte))) {
            for key in [tag.at_home(), tag.away()] {
                let view = window.tables().memory(0).view(bucket, key, &moment);
                assert_eq!(view.hit, slots.iter().any(|slot| slot.matches(key) && moment.is_live(slot.0)));
                assert_eq!(view.spilled, slots.iter().any(|slot| slot.carries(&moment)));
                assert_eq!(view.valid, View::is_ring(&slots, VERSION_MASK));
                assert!(view.ring.head < SLOTS && view.ring.version <= VERSION_MASK);
            }
        }
    }
}

fn content(window: &Window, bucket: usize) -> [Slot; SLOTS] {
    std::array::from_fn(|slot| window.tables().memory(0).load(bucket, slot))
}

/// Does one operation on all windows, which must stay the same.
fn step(windows: &[Window], now: &mut u64, bytes: &mut impl Iterator<Item = u8>) -> Option<()> {
    let op = bytes.next()?;
    let byte = bytes.next()?;
    let at = seconds(*now);
    match op % 8 {
        0..=2 => same(windows, |window| check(window, id(byte), at)),
        3 => {
            let ids: Vec<_> = (0..1 + byte % 70).map_while(|_| bytes.next()).map(id).collect();
            same(windows, |window| check_batch(window, &ids, at));
        }
        4 => same(windows, |window| window.contains(id(byte), at)),
        5 => same(windows, |window| forget_one(window, id(byte), at)),
        6 if op >> 3 == 0 => same(windows, |window| clear(window, at)),
        6 if op >> 3 & 3 == 1 => same(windows, |window| start(window, byte)),
        6 if op >> 3 & 3 == 2 => same(windows, retire),
        6 => same(windows, |window| window.stats(at)),
        _ => *now += u64::from(byte) << (op >> 3 & 7),
    }
    for bucket in 0..windows[0].tables().table(0).buckets() {
        same(windows, |window| content(window, bucket));
    }
    Some(())
}

fn same<T: PartialEq + std::fmt::Debug>(windows: &[Window], act: impl Fn(&Window) -> T) {
    let results: Vec<_> = windows.iter().map(act).collect();
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "the ways of looking at buckets differ: {results:?}");
}

fn check(window: &Window, id: Digest, at: Timestamp) -> Outcome {
    let known = window.contains(id, at);
    let outcome = window.check(id, at);
    assert_eq!(outcome == Outcome::Duplicate, known, "a check and a look disagree");
    assert!(window.contains(id, at), "not found just after it was checked");
    if outcome == Outcome::Fresh {
        let newest = window.tables().memory(window.tables().roster().newest());
        let bucket = tables::place(&newest, id).bucket;
        let slots: [Slot; SLOTS] = std::array::from_fn(|slot| newest.load(bucket, slot));
        assert!(View::is_ring(&slots, VERSION_MASK), "an insertion has left no ring: {slots:?}");
    }
    outcome
}

fn check_batch(window: &Window, ids: &[Digest], at: Timestamp) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    window.check_batch(ids, at, &mut outcomes);
    assert_eq!(outcomes.len(), ids.len());
    outcomes
}

fn forget_one(window: &Window, id: Digest, at: Timestamp) -> bool {
    let remembered = window.forget(id, at);
    assert!(!window.contains(id, at), "found just after it was forgotten");
    remembered
}

/// Starts a table, if there is room; of two or four buckets, whatever the first one has.
fn start(window: &Window, byte: u8) -> bool {
    let (tables, index) = (window.tables(), usize::from(byte) % roster::INDICES);
    let has_room = tables.roster().started(index).is_some();
    if has_room {
        tables.prepare(index, 2 + 2 * (index % 2)).expect("a page of memory");
    }
    has_room && tables.start(index)
}

/// Retires the oldest table, if nothing in it is live.
fn retire(window: &Window) -> Option<usize> {
    let tables = window.tables();
    tables.retire(tables.shared.latest(), false).inspect(|&index| tables.table(index).release())
}

fn clear(window: &Window, at: Timestamp) {
    window.clear(at);
    assert_eq!(window.stats(at).live, 0);
    let buckets = 0..window.tables().table(0).buckets();
    assert!(buckets.flat_map(|bucket| content(window, bucket)).all(Slot::is_vacant));
}

#[cfg(all(test, not(modelled)))]
mod tests {
    #[test]
    fn the_corpus_of_the_fuzz_target_line() {
        // (Without `testkit`, so that emulated processors run it, too.)
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/line"));
        let files = folder.expect("a corpus").map(|file| file.expect("it can be listed").path());
        let is_run = |file: &std::path::PathBuf| {
            println!("replaying {}", file.display());
            super::fuzz(&std::fs::read(file).expect("it can be read")).is_some()
        };
        assert!(files.filter(is_run).count() > 0, "a corpus without a run has been outgrown by the format");
    }
}
