//! Measures what a journal costs: batches of checks with one and without, until all that they
//! accepted is synced; what `flush` takes beside the disk's own sync; how fast it is replayed.
//!
//! `cargo bench -p hapax-bench --bench journal [-- IDS [DIRECTORY]]`. A tenth of the ids (by
//! default 20 million, one thread, batches of 1,024) are duplicates, and all answers are checked.
//! Medians of three rounds. Stores that do the same work are among the strategies of
//! `hapax bench`.

use hapax::{Builder, Dedup, Int, JournalOptions};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const BATCH: u64 = 1_024;
const ROUNDS: usize = 3;
/// The number of ids of which one is a duplicate.
const DUPLICATE: u64 = 10;
/// The number of flushes and syncs that are timed.
const FLUSHES: u64 = 200;
/// The bytes that a journal writes for an id.
const RECORD: usize = 16;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let ids: u64 = args.next().map_or(Ok(20_000_000), |arg| arg.replace('_', "").parse())?;
    let directory = args.next().map_or_else(|| std::env::temp_dir().join("hapax-bench-journal"), PathBuf::from);
    let mut rounds = Vec::new();
    // Memory that the machine has never used costs the first engine more.
    check_all(&builder(ids).build()?, ids);
    for round in 0..ROUNDS {
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory)?;
        rounds.push(Round::run(&directory, ids, round % 2 == 0)?);
        std::fs::remove_dir_all(&directory)?;
    }
    let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
    println!("{ids} ids in batches of {BATCH}, {ROUNDS} rounds");
    println!("checked and synced      {:>7.1} M ids/s, {:.0} MB/s", of(|r| r.synced), of(|r| r.synced) * RECORD as f64);
    println!("replayed                {:>7.1} M ids/s, {:.2} bytes an id", of(|r| r.replayed), of(|r| r.bytes));
    println!("checked, no journal     {:>7.1} ns an id", of(|r| r.without));
    println!("checked, with a journal {:>7.1} ns an id, {:.2} x", of(|r| r.with), of(|r| r.with / r.without));
    println!("flush after a batch     {:>7.2} ms, 99 %: {:.2} ms", of(|r| r.flush[0]), of(|r| r.flush[1]));
    println!("the disk's own sync     {:>7.2} ms, 99 %: {:.2} ms", of(|r| r.sync[0]), of(|r| r.sync[1]));
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the median of times, and the time that one in a hundred exceeds, in milliseconds.
fn milliseconds(mut times: Vec<Duration>) -> [f64; 2] {
    times.sort_unstable();
    [times.len() / 2, times.len() * 99 / 100].map(|rank| times[rank].as_secs_f64() * 1e3)
}

/// Returns the n-th id: random, or one from a while ago.
fn id(n: u64) -> Int<8> {
    Int::from(hapax::seam::random::mix(if is_duplicate(n) { n - 20_001 - n % 7 * DUPLICATE } else { n }))
}

fn is_duplicate(n: u64) -> bool {
    n % DUPLICATE == DUPLICATE - 1 && n > 50_000
}

/// The figures of a round: millions of ids a second, nanoseconds an id, milliseconds.
struct Round {
    synced: f64,
    replayed: f64,
    bytes: f64,
    without: f64,
    with: f64,
    flush: [f64; 2],
    sync: [f64; 2],
}

fn builder(ids: u64) -> Builder {
    Dedup::builder().window(Duration::from_secs(24 * 3600)).capacity(ids as usize + 2_000_000)
}

impl Round {
    /// Measures a round; `journal_first` says which of the two engines comes first.
    fn run(directory: &Path, ids: u64, journal_first: bool) -> Result<Round> {
        let open = |name| builder(ids).journal(directory.join(name), JournalOptions::new()).build();
        let plain = || builder(ids).build().map(|dedup| check_all(&dedup, ids));
        let before = if journal_first { None } else { Some(plain()?) };

        let dedup = open("speed")?;
        let began = Instant::now();
        let with = check_all(&dedup, ids);
        dedup.journal().unwrap().flush()?;
        let took = began.elapsed();
        let journal = dedup.stats().journal.ok_or("no journal")?;
        drop(dedup);
        let recovery = open("speed")?.stats().journal.ok_or("no journal")?.recovery;
        assert_eq!(recovery.ids, journal.appended, "ids that were replayed");
        std::fs::remove_dir_all(directory.join("speed"))?;
        let without = before.map_or_else(plain, Ok)?;

        let an_id = |took: Duration| took.as_nanos() as f64 / ids as f64;
        Ok(Round {
            synced: ids as f64 / took.as_secs_f64() / 1e6,
            replayed: recovery.ids as f64 / recovery.took.as_secs_f64() / 1e6,
            bytes: journal.disk_bytes as f64 / recovery.ids as f64,
            without: an_id(without),
            with: an_id(with),
            flush: milliseconds(flushes(&open("latency")?)?),
            sync: milliseconds(syncs(directory)?),
        })
    }
}

/// Checks all ids, and returns the time that it took.
fn check_all(dedup: &Dedup, ids: u64) -> Duration {
    let (mut verdicts, mut fresh) = (Vec::new(), 0);
    let began = Instant::now();
    for start in (0..ids).step_by(BATCH as usize) {
        dedup.check_batch((start..ids.min(start + BATCH)).map(id), &mut verdicts);
        fresh += verdicts.iter().filter(|verdict| verdict.is_fresh()).count() as u64;
    }
    let took = began.elapsed();
    let new = (0..ids).filter(|n| !is_duplicate(*n)).count() as u64;
    // One in a hundred million shares its fingerprint, or is lost while tables are switched.
    assert!(new.abs_diff(fresh) < 100, "{fresh} of {new} were fresh");
    took
}

/// Returns the times that `flush` takes after each batch.
fn flushes(dedup: &Dedup) -> Result<Vec<Duration>> {
    let mut verdicts = Vec::new();
    let flush = |start: u64| {
        dedup.check_batch((start..start + BATCH).map(Int::from), &mut verdicts);
        let began = Instant::now();
        dedup.journal().unwrap().flush()?;
        Ok(began.elapsed())
    };
    (0..FLUSHES).map(|n| n * BATCH).map(flush).collect()
}

/// Returns the times that the disk itself takes for as many bytes.
fn syncs(directory: &Path) -> Result<Vec<Duration>> {
    let mut file = std::fs::File::create(directory.join("sync"))?;
    let sync = |_| {
        std::io::Write::write_all(&mut file, &[1; RECORD * BATCH as usize])?;
        let began = Instant::now();
        file.sync_data()?;
        Ok(began.elapsed())
    };
    (0..FLUSHES).map(sync).collect()
}
