//! This crate: window, segments, and a journal.

use crate::Plan;
use crate::cold;
use crate::load::{ASKED, BATCH, Load, Memory, disk_bytes, id};
use crate::pace;
use crate::peak::peak_bytes;
use hapax::{Dedup, Int, JournalOptions, LongMemory, SyncMode, Timestamp, Verdict};
use std::time::{Duration, Instant};

const RETENTION: Duration = Duration::from_secs(900_000);
const BEGIN: Timestamp = Timestamp::from_secs(1_000_000);
/// The memory in which ids are sorted before they are written.
const SORT_BYTES: u64 = 256 << 20;
/// The bytes that merging reads, and writes, for a record.
const BYTES_PER_RECORD: u64 = 12;
/// The longest that sealing may take to catch up.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
/// Batches that are asked of pages which are not in memory.
const COLD_BATCHES: u64 = 1024;

struct Ours {
    dedup: Dedup,
    /// All fresh ids that will come.
    all: u64,
    /// The number of fresh ids so far, which is the time.
    accepted: u64,
    verdicts: Vec<Verdict>,
}

impl Ours {
    /// Returns the time: all ids take nearly a retention.
    fn now(&self) -> Timestamp {
        BEGIN + RETENTION.mul_f64(self.accepted as f64 / self.all as f64 * 0.99)
    }
}

impl Memory for Ours {
    fn check(&mut self, ids: &[u64], fresh: &mut Vec<bool>) -> Result<(), String> {
        let now = self.now();
        self.dedup.check_batch_at(ids.iter().map(|id| Int::from(*id)), now, &mut self.verdicts);
        fresh.clear();
        fresh.extend(self.verdicts.iter().map(|verdict| verdict.is_fresh()));
        self.accepted += fresh.iter().filter(|is_fresh| **is_fresh).count() as u64;
        match self.verdicts.iter().find(|verdict| !verdict.is_certain()) {
            Some(verdict) => Err(format!("in doubt: {verdict}")),
            None => Ok(()),
        }
    }
}

/// Waits until callers need not wait for sealing, as they do while ids come faster than they are
/// sealed. Returns how long that was.
fn settle(dedup: &Dedup, window: Duration) -> Result<Duration, String> {
    let began = Instant::now();
    let is_behind = || dedup.stats().long_memory.is_none_or(|stats| stats.lag > window / 2);
    while is_behind() {
        if began.elapsed() > SETTLED_WITHIN {
            return Err(format!("sealing has not caught up within {SETTLED_WITHIN:?}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(began.elapsed())
}

/// Checks fresh ids one by one, each when its time has come, while segments are merged as far as
/// there is anything to be merged. Returns how many records were.
fn pace(load: &mut Load<Ours>) -> Result<u64, String> {
    let written = |load: &Load<Ours>| load.memory.dedup.stats().long_memory.map(|stats| stats.segments.written_records);
    let before = written(load);
    let late = pace::paced(|| {
        let now = load.memory.now();
        if !load.memory.dedup.check_at(Int::from(id(load.next)), now).is_fresh() {
            return Err("a fresh id is a duplicate".into());
        }
        load.next += 1;
        load.memory.accepted += 1;
        Ok(())
    })?;
    let merged = written(load).unwrap_or(0) - before.unwrap_or(0);
    println!("fresh, one by one, {late}; {merged} records were merged");
    Ok(merged)
}

/// Measures the engine.
pub fn measure(plan: &Plan<'_>) -> Result<(), String> {
    let (ids, all) = (plan.ids, plan.ids + pace::CALLS + ASKED + COLD_BATCHES * BATCH);
    let capacity = usize::try_from(all / u64::from(plan.part) * 5 / 4).map_err(|error| error.to_string())?;
    let [journal, segments] = ["journal", "segments"].map(|name| plan.directory.join(name));
    let builder = Dedup::builder().window(RETENTION / plan.part).capacity(capacity);
    let builder = builder.journal(journal, JournalOptions::new().sync(SyncMode::Disk));
    let builder = builder.long_memory(&segments, LongMemory::new(RETENTION).sort_memory_bytes(SORT_BYTES));
    let dedup = builder.build().map_err(|error| error.to_string())?;
    let mut load = Load::new(Ours { dedup, all, accepted: 0, verdicts: Vec::new() });
    load.fill(ids, plan.at_most)?;
    load.memory.dedup.journal().unwrap().flush().map_err(|error| error.to_string())?;
    println!("sealed after {:.1?}", settle(&load.memory.dedup, RETENTION / plan.part)?);
    let merged = pace(&mut load)?;
    load.repeat_all("5 % from beyond the window", plan.at_most)?;

    cold::settle(&segments)?;
    let read = |load: &Load<Ours>| load.memory.dedup.stats().long_memory.map_or(0, |stats| stats.segments.pages_read);
    let (before, _) = (read(&load), cold::drop_cached(&segments)?);
    let began = Instant::now();
    load.repeat("the same, of which no page is in memory", COLD_BATCHES, plan.at_most)?;
    let pages = read(&load) - before;
    // (Of twenty ids nineteen are written, 16 bytes each.)
    let written = COLD_BATCHES * BATCH / 20 * 19 * 16;
    cold::report(&segments, pages, began.elapsed(), written)?;

    let stats = load.memory.dedup.stats();
    let long_memory = stats.long_memory.ok_or("there is no long memory")?;
    println!("{:?}", long_memory.segments);
    println!(
        "hapax: disk {} MB; memory {} MB, of it segments {} MB; the process {} MB at most; forgotten early {}; batches of {BATCH}",
        disk_bytes(plan.directory) / 1_000_000,
        (stats.bytes + usize::try_from(long_memory.segments.memory_bytes).unwrap_or(0)) / 1_000_000,
        long_memory.segments.memory_bytes / 1_000_000,
        peak_bytes() / 1_000_000,
        stats.window.evicted_live
    );
    drop(load);
    println!("{}", pace::plain(stats.bytes, &segments, merged * BYTES_PER_RECORD)?);
    Ok(())
}
