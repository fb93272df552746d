//! The load: the same ids, in the same batches, for whoever is measured.

use hapax::seam::random::Random;
use std::path::Path;
use std::time::{Duration, Instant};

/// Ids that are checked with one call.
pub const BATCH: u64 = 1024;
/// Ids that are checked for the second figure.
pub const ASKED: u64 = 4 << 20;

/// Whoever is measured. Each answer is true if the id is fresh.
pub trait Memory {
    fn check(&mut self, ids: &[u64], fresh: &mut Vec<bool>) -> Result<(), String>;
}

/// Returns the id of a number: all are different, and in no order, as random ones are.
pub fn id(number: u64) -> u64 {
    // The finalizer of SplitMix64 (Steele et al., 2014), which is a permutation.
    let id = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let id = (id ^ id >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    id ^ id >> 31
}

/// Checks batches, and notes how long each took.
pub struct Load<M> {
    pub memory: M,
    /// The number of the next id that is fresh.
    pub next: u64,
    nanos: Vec<u64>,
    batch: Vec<u64>,
    fresh: Vec<bool>,
}

impl<M: Memory> Load<M> {
    pub fn new(memory: M) -> Self {
        Load { memory, next: 0, nanos: Vec::new(), batch: Vec::new(), fresh: Vec::new() }
    }

    /// Checks the batch. `fresh` of its ids have to be.
    fn check(&mut self, fresh: u64) -> Result<(), String> {
        let began = Instant::now();
        self.memory.check(&self.batch, &mut self.fresh)?;
        self.nanos.push(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let got = self.fresh.iter().filter(|is_fresh| **is_fresh).count() as u64;
        if got == fresh {
            Ok(())
        } else {
            Err(format!("{got} ids of {} are fresh, {fresh} should be", self.batch.len()))
        }
    }

    /// Checks fresh ids only.
    pub fn fill(&mut self, ids: u64, at_most: Duration) -> Result<(), String> {
        let (began, before) = (Instant::now(), processor_nanos());
        while self.next < ids && began.elapsed() < at_most {
            let last = (self.next + BATCH).min(ids);
            self.batch.clear();
            self.batch.extend((self.next..last).map(id));
            let fresh = last - self.next;
            self.next = last;
            self.check(fresh)?;
        }
        self.print(&format!("fresh, up to {} M", self.next / 1_000_000), began, before);
        Ok(())
    }

    /// Checks fresh ids of which one in twenty has come before: none of them among the latest half.
    pub fn repeat(&mut self, what: &str, batches: u64, at_most: Duration) -> Result<(), String> {
        let (mut random, began, old) = (Random::new(self.next), Instant::now(), self.next / 2);
        let before = processor_nanos();
        for _ in 0..batches {
            self.batch.clear();
            let mut fresh = 0;
            for _ in 0..BATCH {
                let is_known = random.below(20) == 0;
                self.batch.push(id(if is_known { random.below(old) } else { self.next }));
                self.next += u64::from(!is_known);
                fresh += u64::from(!is_known);
            }
            self.check(fresh)?;
            if began.elapsed() > at_most {
                break;
            }
        }
        self.print(what, began, before);
        Ok(())
    }

    /// Checks as many as the figure takes.
    pub fn repeat_all(&mut self, what: &str, at_most: Duration) -> Result<(), String> {
        self.repeat(what, ASKED / BATCH, at_most)
    }

    /// Prints a figure for what was checked since the last.
    fn print(&mut self, what: &str, began: Instant, before: [u64; 2]) {
        let now = processor_nanos();
        let (seconds, ids) = (began.elapsed().as_secs_f64(), self.nanos.len() as u64 * BATCH);
        let [p99, p999, max] = percentiles(&mut self.nanos).map(|nanos| nanos / 1000);
        let (rate, each) = (ids as f64 / seconds / 1e6, seconds * 1e9 / ids as f64);
        println!("{what}: {rate:.3} M/s, {each:.0} ns an id; a batch, us: p99 {p99}, p99.9 {p999}, longest {max}");
        let [own, others] = [0, 1].map(|i| now[i].saturating_sub(before[i]) as f64 / ids as f64);
        println!("  of processors: {own:.0} ns an id by who checks, {others:.0} by other threads");
        self.nanos.clear();
    }
}

/// Returns the 99th percentile, the 99.9th, and the most.
pub fn percentiles(nanos: &mut [u64]) -> [u64; 3] {
    nanos.sort_unstable();
    [0.99, 0.999, 1.0]
        .map(|part| nanos.get((nanos.len().saturating_sub(1) as f64 * part) as usize).copied().unwrap_or(0))
}

/// Returns the bytes of the files below a directory.
pub fn disk_bytes(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Returns the nanoseconds for which this thread was on a processor, and all others that are there.
fn processor_nanos() -> [u64; 2] {
    let of = |path: &Path| -> u64 {
        let stat = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
    };
    let own = of("/proc/thread-self".as_ref());
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let all: u64 = threads.map(|thread| of(&thread.path())).sum();
    [own, all.saturating_sub(own)]
}
