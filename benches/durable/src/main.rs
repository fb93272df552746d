//! Measures ids a second that are accepted once and made durable, by hapax with a journal and by
//! two stores that do the same work on one thread: insert if absent, a sync for each group of five
//! milliseconds.
//!
//! `cargo run --release --manifest-path benches/durable/Cargo.toml [IDS [DIRECTORY]]`. A tenth of
//! the ids are duplicates, and all answers are checked. The stores get a tenth of the ids, since
//! they are slower. Each is measured three times, in turns; the median counts.

use fjall::{Database, KeyspaceCreateOptions, PersistMode};
use hapax::{Dedup, Int, JournalOptions};
use std::collections::HashSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const GROUP: Duration = Duration::from_millis(5);
const BATCH: u64 = 1_024;
const ROUNDS: usize = 3;
/// The number of ids of which one is a duplicate.
const DUPLICATE: u64 = 10;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let ids: u64 = args.next().map_or(Ok(20_000_000), |arg| arg.replace('_', "").parse())?;
    let directory = args.next().map_or_else(|| std::env::temp_dir().join("hapax-durable"), PathBuf::from);
    let mut hapax = Vec::new();
    let (mut fjall, mut sqlite) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        hapax.push(in_directory(&directory, |path| run_hapax(path, ids))?);
        fjall.push(in_directory(&directory, |path| run_fjall(path, ids / 10))?);
        sqlite.push(in_directory(&directory, |path| run_sqlite(path, ids / 10))?);
    }
    let of = |f: fn(&Hapax) -> f64| median(hapax.iter().map(f));
    let (appended, fjall, sqlite) = (of(|h| h.appended), median(fjall.into_iter()), median(sqlite.into_iter()));
    println!("hapax    {:>10.3} M ids/s durable", appended / 1e6);
    println!("fjall    {:>10.3} M ids/s durable: hapax is {:.1} x as fast", fjall / 1e6, appended / fjall);
    println!("rusqlite {:>10.3} M ids/s durable: hapax is {:.1} x as fast", sqlite / 1e6, appended / sqlite);
    println!(
        "replay   {:>10.3} M ids/s; {:.2} bytes an id on the disk",
        of(|h| h.replayed) / 1e6,
        of(|h| h.bytes_an_id)
    );
    println!(
        "flush after each batch of {BATCH}: median {:.2} ms, 99 % {:.2} ms; fdatasync alone {:.2} ms",
        of(|h| h.flush_ms[0]),
        of(|h| h.flush_ms[1]),
        of(|h| h.sync_ms)
    );
    println!(
        "check_batch: {:.1} ns an id without, {:.1} ns with: {:.2} x (while {:.0} MB/s are written)",
        of(|h| h.without_ns),
        of(|h| h.with_ns),
        of(|h| h.with_ns / h.without_ns),
        appended * 16.0 / 1e6
    );
    Ok(())
}

fn in_directory<T>(path: &Path, work: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let _ = std::fs::remove_dir_all(path);
    std::fs::create_dir_all(path)?;
    let result = work(path);
    std::fs::remove_dir_all(path)?;
    result
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the n-th id: random, or one from a while ago.
fn id(n: u64) -> u64 {
    let n = if n % DUPLICATE == 9 && n > 50_000 { n - 20_001 - n % 7 * DUPLICATE } else { n };
    hapax::tier::random::mix(n)
}

fn expected(ids: u64) -> u64 {
    (0..ids).filter(|n| !(n % DUPLICATE == 9 && *n > 50_000)).count() as u64
}

struct Hapax {
    appended: f64,
    replayed: f64,
    bytes_an_id: f64,
    flush_ms: [f64; 2],
    sync_ms: f64,
    without_ns: f64,
    with_ns: f64,
}

fn run_hapax(path: &Path, ids: u64) -> Result<Hapax> {
    let builder = || Dedup::builder().window(Duration::from_secs(24 * 3600)).capacity(ids as usize + 2_000_000);
    let open = |name| builder().journal(path.join(name), JournalOptions::new().commit_interval(GROUP)).build();
    let dedup = open("speed")?;
    let mut verdicts = Vec::new();
    let mut check_all = |dedup: &Dedup| {
        let began = Instant::now();
        let mut fresh = 0;
        for start in (0..ids).step_by(BATCH as usize) {
            dedup.check_batch((start..ids.min(start + BATCH)).map(|n| Int::from(id(n))), &mut verdicts);
            fresh += verdicts.iter().filter(|verdict| verdict.is_fresh()).count() as u64;
        }
        assert!(expected(ids) - fresh < 100, "{fresh} fresh");
        began.elapsed()
    };
    let began = Instant::now();
    let with = check_all(&dedup);
    dedup.flush()?;
    let took = began.elapsed();
    let journal = dedup.stats().journal.ok_or("no journal")?;
    let accepted = journal.appended.as_u64();
    drop(dedup);
    let recovery = open("speed")?.stats().journal.ok_or("no journal")?.recovery;
    assert_eq!(recovery.ids, accepted);
    std::fs::remove_dir_all(path.join("speed"))?;
    let without = check_all(&builder().build()?);

    let dedup = open("latency")?;
    let mut flushes: Vec<f64> = Vec::new();
    for start in (0..200 * BATCH).step_by(BATCH as usize) {
        dedup.check_batch((start..start + BATCH).map(Int::from), &mut verdicts);
        let began = Instant::now();
        dedup.flush()?;
        flushes.push(began.elapsed().as_secs_f64() * 1e3);
    }
    flushes.sort_by(f64::total_cmp);
    Ok(Hapax {
        appended: ids as f64 / took.as_secs_f64(),
        replayed: recovery.ids as f64 / recovery.took.as_secs_f64(),
        bytes_an_id: journal.disk_bytes as f64 / accepted as f64,
        flush_ms: [flushes[flushes.len() / 2], flushes[flushes.len() * 99 / 100]],
        sync_ms: sync_ms(path)?,
        without_ns: without.as_nanos() as f64 / ids as f64,
        with_ns: with.as_nanos() as f64 / ids as f64,
    })
}

/// Returns the time that the disk itself takes for the same amount.
fn sync_ms(path: &Path) -> Result<f64> {
    use std::io::Write;
    let mut file = std::fs::File::create(path.join("sync"))?;
    let mut times = Vec::new();
    for _ in 0..200 {
        file.write_all(&[1; 16 * BATCH as usize])?;
        let began = Instant::now();
        file.sync_data()?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(times.into_iter()))
}

fn run_fjall(path: &Path, ids: u64) -> Result<f64> {
    let db = Database::builder(path.join("fjall")).open()?;
    let items = db.keyspace("ids", KeyspaceCreateOptions::default)?;
    let began = Instant::now();
    let (mut fresh, mut n) = (0, 0);
    while n < ids {
        let (group, mut batch, mut new) = (Instant::now(), db.batch(), HashSet::new());
        while n < ids && group.elapsed() < GROUP {
            for _ in 0..BATCH.min(ids - n) {
                let key = id(n).to_be_bytes();
                n += 1;
                if !new.contains(&key) && !items.contains_key(key)? {
                    new.insert(key);
                    batch.insert(&items, key, []);
                    fresh += 1;
                }
            }
        }
        batch.commit()?;
        db.persist(PersistMode::SyncData)?;
    }
    assert_eq!(fresh, expected(ids));
    Ok(ids as f64 / began.elapsed().as_secs_f64())
}

fn run_sqlite(path: &Path, ids: u64) -> Result<f64> {
    let mut db = rusqlite::Connection::open(path.join("ids.sqlite"))?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "cache_size", -262_144)?;
    db.execute("CREATE TABLE ids (id INTEGER PRIMARY KEY)", [])?;
    let began = Instant::now();
    let (mut fresh, mut n) = (0, 0);
    while n < ids {
        let group = Instant::now();
        let transaction = db.transaction()?;
        {
            let mut insert = transaction.prepare_cached("INSERT OR IGNORE INTO ids VALUES (?)")?;
            while n < ids && group.elapsed() < GROUP {
                for _ in 0..BATCH.min(ids - n) {
                    fresh += insert.execute([id(n) as i64])? as u64;
                    n += 1;
                }
            }
        }
        transaction.commit()?;
    }
    assert_eq!(fresh, expected(ids));
    Ok(ids as f64 / began.elapsed().as_secs_f64())
}
