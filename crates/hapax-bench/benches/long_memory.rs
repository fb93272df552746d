//! An engine with a long memory, under load: fresh ids while a thread seals and merges, then ids of
//! which some come again from beyond the window. All verdicts are checked.
//!
//! `cargo bench -p hapax-bench --features long-memory --bench long_memory [-- IDS]`: by default 50
//! million ids within the retention, of which the window has a ninth. Journal and segments are
//! written below the directory of temporary files (`TMPDIR`): 20 bytes an id, deleted at the end.

use hapax::tier::random::Random;
use hapax::{Dedup, Int, JournalOptions, LongMemory, SyncMode, Timestamp};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Ids that are checked with one call.
const BATCH: u64 = 1024;
/// Ids that are checked for the second figure.
const ASKED: u64 = 4 << 20;
/// The part of the retention for which the window has ids.
const PART: u32 = 9;
const RETENTION: Duration = Duration::from_secs(900_000);
const BEGIN: Timestamp = Timestamp::from_secs(1_000_000);

/// Checks batches, and notes how long each took.
struct Run<'d> {
    dedup: &'d Dedup,
    nanos: Vec<u64>,
    verdicts: Vec<hapax::Verdict>,
}

impl Run<'_> {
    /// Checks a batch. Returns the number of duplicates, or an error for an answer in doubt.
    fn check(&mut self, ids: &[u64], at: Timestamp) -> Result<u64, String> {
        let began = Instant::now();
        self.dedup.check_batch_at(ids.iter().map(|id| Int::from(*id)), at, &mut self.verdicts);
        self.nanos.push(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        match self.verdicts.iter().find(|verdict| verdict.certainty() != hapax::Certainty::Exact) {
            Some(verdict) => Err(format!("in doubt: {verdict}")),
            None => Ok(self.verdicts.iter().filter(|verdict| verdict.is_duplicate()).count() as u64),
        }
    }

    /// Prints a figure for what was checked since the last.
    fn print(&mut self, what: &str, began: Instant, ids: u64) {
        let seconds = began.elapsed().as_secs_f64();
        self.nanos.sort_unstable();
        let [p99, p999, max] =
            [0.99, 0.999, 1.0].map(|part| self.nanos[((self.nanos.len() - 1) as f64 * part) as usize]);
        let (rate, each) = (ids as f64 / seconds / 1e6, seconds * 1e9 / ids as f64);
        println!(
            "{what}: {rate:.1} M/s, {each:.0} ns an id; a batch, microseconds: p99 {}, p99.9 {}, longest {}",
            p99 / 1000,
            p999 / 1000,
            max / 1000
        );
        self.nanos.clear();
    }
}

fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0) << 10
}

fn measure(ids: u64, directory: &std::path::Path) -> Result<(), String> {
    let at = |id: u64| BEGIN + RETENTION.mul_f64(id as f64 / ids as f64 * 0.99);
    let capacity = usize::try_from(ids / u64::from(PART) * 5 / 4).map_err(|error| error.to_string())?;
    let journal = JournalOptions::new().sync(SyncMode::Disk);
    let builder =
        Dedup::builder().window(RETENTION / PART).capacity(capacity).journal(directory.join("journal"), journal);
    let builder = builder.long_memory(directory.join("segments"), LongMemory::new(RETENTION));
    let dedup = builder.build().map_err(|error| error.to_string())?;
    let mut run = Run { dedup: &dedup, nanos: Vec::new(), verdicts: Vec::new() };

    let began = Instant::now();
    let mut batch = Vec::new();
    for first in (0..ids).step_by(BATCH as usize) {
        batch.clear();
        batch.extend(first..(first + BATCH).min(ids));
        match run.check(&batch, at(first))? {
            0 => {}
            wrong => return Err(format!("{wrong} of {} fresh ids are duplicates", batch.len())),
        }
    }
    dedup.flush().map_err(|error| error.to_string())?;
    run.print("fresh, while a thread seals and merges", began, ids);

    let (mut random, mut next, began) = (Random::new(1), ids, Instant::now());
    for _ in 0..ASKED / BATCH {
        // From beyond the window, each once; of those some were asked for before.
        batch.clear();
        let mut known = 0;
        for _ in 0..BATCH {
            let is_known = random.below(20) == 0;
            known += u64::from(is_known);
            batch.push(if is_known { random.below(ids / 2) } else { next });
            next += u64::from(!is_known);
        }
        let got = run.check(&batch, at(ids))?;
        if got != known {
            return Err(format!("{got} are duplicates, and {known} should be"));
        }
    }
    run.print("5 % from beyond the window", began, ASKED);
    let stats = dedup.stats();
    let long_memory = stats.long_memory.ok_or("there is no long memory")?;
    println!("{:?}", long_memory.segments);
    println!(
        "memory {} MB, at most {} MB; forgotten early {}",
        stats.bytes >> 20,
        peak_bytes() >> 20,
        stats.window.evicted_live
    );
    Ok(())
}

fn main() -> ExitCode {
    let ids = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(50_000_000);
    let directory = std::env::temp_dir().join(format!("hapax-bench-long-{}", std::process::id()));
    let measured = measure(ids, &directory);
    let _ = std::fs::remove_dir_all(&directory);
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::FAILURE
        }
    }
}
