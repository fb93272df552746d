//! Deduplication by version: [`hapax::Latest`], a [`DashMap`] and shards of a hash map, each as its
//! best users would write it, on one workload, by turns.
//!
//! Every subject gets the time with each call, and forgets what is older than the retention. The
//! answers are counted and compared with those of a plain map, so that a wrong one cannot be fast.
//!
//!     cargo bench -p hapax-bench --no-default-features --bench latest [-- IDS …]

use dashmap::{DashMap, Entry};
use hapax::{EventTime, Latest, Timestamp, VersionVerdict};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::collections::hash_map;
use std::hash::BuildHasher;
use std::sync::Mutex;
use std::time::{Duration, Instant};

type Id = [u8; 16];
type Hasher = foldhash::fast::RandomState;

/// One message: an id, its version, and when it came, in nanoseconds.
type Message = (Id, u64, u64);

const RETENTION: u64 = 1_000_000_000;
const ROUNDS: usize = 7;
const MESSAGES: usize = 2_000_000;
const SHARDS: usize = 64;
const BATCH: usize = 256;
const EPOCH: u64 = 1_000_000_000_000;

/// A subject: how many of the messages were newer.
trait Subject: Sync {
    fn newer(&self, messages: &[Message]) -> u64;
}

struct OneByOne(Latest);
struct Batches(Latest);

fn latest(ids: usize) -> Latest {
    let builder = Latest::builder().retention(Duration::from_nanos(RETENTION)).capacity(ids);
    builder.event_time(EventTime::unrelated()).build().expect("these options are valid")
}

impl Subject for OneByOne {
    fn newer(&self, messages: &[Message]) -> u64 {
        let newer = |(id, version, at): &Message| self.0.check_at(id, *version, Timestamp::from_nanos(*at)).is_newer();
        messages.iter().map(|message| u64::from(newer(message))).sum()
    }
}

impl Subject for Batches {
    /// A batch has one time: that of its first message, which is what the workload gives to all of
    /// them.
    fn newer(&self, messages: &[Message]) -> u64 {
        let mut verdicts: Vec<VersionVerdict> = Vec::with_capacity(BATCH);
        let newer = |batch: &[Message]| {
            let at = Timestamp::from_nanos(batch[0].2);
            self.0.check_batch_at(batch.iter().map(|(id, version, _)| (id, *version)), at, &mut verdicts);
            verdicts.iter().filter(|verdict| verdict.is_newer()).count() as u64
        };
        messages.chunks(BATCH).map(newer).sum()
    }
}

/// A version, and when it was accepted.
type Known = (u64, u64);

/// Returns true if a version is newer than what is known, and makes it that.
fn raise(known: &mut Known, version: u64, at: u64) -> bool {
    let is_newer = version > known.0 || at - known.1 >= RETENTION;
    if is_newer {
        *known = (version, at);
    }
    is_newer
}

/// A `DashMap`, purged by whoever finds that half a retention has passed.
struct Dash {
    map: DashMap<Id, Known, Hasher>,
    purged: Mutex<u64>,
}

impl Subject for Dash {
    fn newer(&self, messages: &[Message]) -> u64 {
        let mut newer = 0;
        for batch in messages.chunks(BATCH) {
            let now = batch[0].2;
            if let Ok(mut purged) = self.purged.try_lock()
                && now >= *purged + RETENTION / 2
            {
                self.map.retain(|_, known| now - known.1 < RETENTION);
                *purged = now;
            }
            for &(id, version, at) in batch {
                newer += u64::from(match self.map.entry(id) {
                    Entry::Occupied(mut known) => raise(known.get_mut(), version, at),
                    Entry::Vacant(entry) => {
                        entry.insert((version, at));
                        true
                    }
                });
            }
        }
        newer
    }
}

/// A hash map, and the time of its last purge.
type Shard = (HashMap<Id, Known, Hasher>, u64);

/// Hash maps behind a lock each, one of them purged with each batch when it is its turn.
struct Sharded {
    shards: Vec<Mutex<Shard>>,
    hasher: Hasher,
}

impl Sharded {
    fn purge(&self, shard: usize, now: u64) {
        let (map, purged) = &mut *self.shards[shard].lock().expect("nobody panics");
        if now >= *purged + RETENTION / 2 {
            map.retain(|_, known| now - known.1 < RETENTION);
            *purged = now;
        }
    }
}

impl Subject for Sharded {
    fn newer(&self, messages: &[Message]) -> u64 {
        let mut newer = 0;
        for (number, batch) in messages.chunks(BATCH).enumerate() {
            let now = batch[0].2;
            self.purge(number % SHARDS, now);
            for &(id, version, at) in batch {
                let shard = self.hasher.hash_one(id) as usize >> 7 & (SHARDS - 1);
                let (map, _) = &mut *self.shards[shard].lock().expect("nobody panics");
                newer += u64::from(match map.entry(id) {
                    hash_map::Entry::Occupied(mut known) => raise(known.get_mut(), version, at),
                    hash_map::Entry::Vacant(entry) => {
                        entry.insert((version, at));
                        true
                    }
                });
            }
        }
        newer
    }
}

fn mix(number: u64) -> u64 {
    let z = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns messages of a thread: of ten, six bring the next version of an id that is known, two one
/// that is late, one is a redelivery, and one is of a new id. A retention has twice as many as
/// there are ids, or, if `stands`, all: what one thread forgets would else depend on the others.
fn messages(ids: usize, thread: u64, stands: bool) -> Vec<Message> {
    let mut versions: Vec<u64> = vec![1; ids / 2];
    let step = RETENTION / (ids as u64 * 2);
    let id = |index: u64| {
        let (low, high) = (mix(index * 2 + 1 + (thread << 40)), mix(index * 2 + 2 + (thread << 40)));
        ((u128::from(high) << 64) | u128::from(low)).to_le_bytes()
    };
    let (mut random, mut at, mut messages) = (thread + 1, EPOCH, Vec::with_capacity(MESSAGES));
    for number in 0..MESSAGES {
        random = mix(random.wrapping_add(0x9e37_79b9_7f4a_7c15));
        // All of a batch come at once.
        at += if number % BATCH == 0 && !stands { step * BATCH as u64 } else { 0 };
        let index = ((u128::from(random) * versions.len() as u128) >> 64) as usize;
        let known = versions[index];
        let message = match random % 10 {
            0..6 => {
                versions[index] += 1;
                (index as u64, known + 1)
            }
            6 | 7 => (index as u64, known.saturating_sub(1 + random % 3).max(1)),
            8 => (index as u64, known),
            _ => (1 << 32 | number as u64, 1),
        };
        messages.push((id(message.0), message.1, at));
    }
    messages
}

/// Returns how many messages are newer, by a plain map.
fn expected(messages: &[Message]) -> u64 {
    let mut known: HashMap<Id, Known> = HashMap::new();
    let mut newer = 0;
    for &(id, version, at) in messages {
        newer += u64::from(match known.get_mut(&id) {
            Some(known) => raise(known, version, at),
            None => known.insert(id, (version, at)).is_none(),
        });
    }
    newer
}

/// Returns the nanoseconds for which this thread had a processor.
fn processor_nanos() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Returns the nanoseconds a message takes on threads that have some of them each: on the clock,
/// and of a processor's time, which depends less on what else runs.
fn measure(subject: &dyn Subject, threads: &[Vec<Message>], expected: u64) -> [f64; 2] {
    let began = Instant::now();
    let run = |messages: &[Message]| {
        let began = processor_nanos();
        (subject.newer(messages), processor_nanos() - began)
    };
    let (newer, processor) = std::thread::scope(|scope| {
        let threads: Vec<_> = threads.iter().map(|messages| scope.spawn(|| run(messages))).collect();
        let ended = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        ended.fold((0, 0.0), |(newer, nanos), (more, longer)| (newer + more, nanos + longer))
    });
    let elapsed = began.elapsed().as_nanos() as f64;
    assert_eq!(newer, expected, "a wrong answer");
    [elapsed, processor].map(|nanos| nanos / threads.iter().map(Vec::len).sum::<usize>() as f64)
}

fn subject(name: &str, ids: usize) -> Box<dyn Subject> {
    match name {
        "Latest, one by one" => Box::new(OneByOne(latest(ids))),
        "Latest, in batches" => Box::new(Batches(latest(ids))),
        "DashMap" => {
            let map = DashMap::with_capacity_and_hasher_and_shard_amount(ids, Hasher::default(), SHARDS);
            Box::new(Dash { map, purged: Mutex::new(EPOCH) })
        }
        _ => {
            let hasher = Hasher::default();
            let map = || HashMap::with_capacity_and_hasher(ids / SHARDS * 5 / 4, hasher.clone());
            let shards = (0..SHARDS).map(|_| Mutex::new((map(), EPOCH))).collect();
            Box::new(Sharded { shards, hasher })
        }
    }
}

const NAMES: [&str; 4] = ["Latest, one by one", "Latest, in batches", "DashMap", "Mutex<HashMap>, 64 shards"];

fn main() {
    let asked: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if asked.is_empty() { vec![10_000, 1_000_000] } else { asked };
    println!("ns a check, of {ROUNDS} rounds by turns: median (least to most); then of a processor's time");
    for ids in sizes {
        for threads in [1, 2] {
            let streams: Vec<Vec<Message>> = (0..threads).map(|thread| messages(ids, thread, threads > 1)).collect();
            let expected: u64 = streams.iter().map(|messages| self::expected(messages)).sum();
            let mut nanos: Vec<Vec<[f64; 2]>> = vec![Vec::new(); NAMES.len()];
            for _ in 0..ROUNDS {
                for (nanos, name) in nanos.iter_mut().zip(NAMES) {
                    // Room for all that is known at a time, also for new ids if none expires.
                    let subject = subject(name, if threads == 1 { ids } else { ids + MESSAGES / 10 * 5 / 2 });
                    nanos.push(measure(&*subject, &streams, expected));
                }
            }
            println!("{ids} ids, {threads} thread(s), {expected} of {} newer", MESSAGES * threads as usize);
            for (nanos, name) in nanos.into_iter().zip(NAMES) {
                let [elapsed, processor] = [0, 1].map(|which| {
                    let mut nanos: Vec<f64> = nanos.iter().map(|both| both[which]).collect();
                    nanos.sort_by(f64::total_cmp);
                    format!("{:6.1} ({:.1} to {:.1})", nanos[ROUNDS / 2], nanos[0], nanos[ROUNDS - 1])
                });
                println!("    {name:26} {elapsed:24} {processor}");
            }
        }
    }
}
