//! Runs one path of the engine over a number of ids, so that its instructions can be counted:
//! `scripts/instructions` does that with valgrind, and compares them with docs/instructions.txt.
//!
//! `hapax-instructions PATH` prints how many ids were checked within [`counted`], whose
//! instructions are counted. A hundred thousand ids are live, which is the capacity; time goes on
//! with the ids, a tick with each thousand new ones; the window has been filled twice before the
//! first id counts. The seed is fixed, and no thread runs beside. (The paths over a store have ids
//! of their own: `store`.)

mod store;

use hapax::{Attempt, Dedup, History, Int, Timestamp, Unconfirmed, Verdict};
use std::process::ExitCode;
use std::time::Duration;

const LIVE: u64 = 100_000;
const WINDOW: Duration = Duration::from_secs(100);
const NEW_PER_TICK: u64 = LIVE / 100;
const BATCH: usize = 1_024;

/// Windows before the first id that counts.
const WARM_UP: u64 = 2;

/// Batches before the first one that counts, and those that count.
const FIRST: usize = 10;
const COUNTED: usize = 70;

struct Path {
    name: &'static str,
    /// New ids of a hundred.
    new: u64,
    history: bool,
    slides: bool,
    way: Way,
}

/// The way in which ids go through the engine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Batches,
    Single,
    /// In batches, while other ids are claimed.
    InFlight(u64),
    /// Claimed and completed in batches of this many.
    Claims(usize),
}

use Way::{Batches, Claims, InFlight, Single};

const fn path(name: &'static str, new: u64, way: Way) -> Path {
    Path { name, new, history: false, slides: false, way }
}

const PATHS: [Path; 13] = [
    path("window, batches", 90, Batches),
    path("window, batches, 50 % duplicates", 50, Batches),
    path("window, batches, 99 % duplicates", 1, Batches),
    path("window, batches, a thousand others in flight", 90, InFlight(1_000)),
    path("window, one by one", 90, Single),
    path("window, one by one, 99 % duplicates", 1, Single),
    Path { slides: true, ..path("sliding window, batches, 50 % duplicates", 50, Batches) },
    Path { history: true, ..path("window and history, batches", 90, Batches) },
    Path { history: true, ..path("window and history, batches, 99 % duplicates", 1, Batches) },
    Path { history: true, ..path("window and history, one by one", 90, Single) },
    Path { history: true, ..path("window and history, one by one, 99 % duplicates", 1, Single) },
    path("claimed and completed, batches", 90, Claims(BATCH)),
    path("claimed and completed, batches of 64", 90, Claims(64)),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.is_empty() {
        let names = PATHS.iter().map(|path| path.name).chain(store::PATHS.iter().map(|path| path.name));
        names.for_each(|name| println!("{name}"));
        return ExitCode::SUCCESS;
    }
    let path = PATHS.iter().find(|path| path.name == args[0]).map(run);
    let over_store = store::PATHS.iter().find(|path| path.name == args[0]);
    let Some(ids) = path.or_else(|| over_store.map(store::run)) else {
        eprintln!("expected a path: without arguments they are listed");
        return ExitCode::from(2);
    };
    println!("{ids}");
    ExitCode::SUCCESS
}

/// Does what is counted.
#[inline(never)]
fn counted<T>(work: impl FnOnce() -> T) -> T {
    work()
}

/// Ids with the times at which they come: `new` of a hundred are new, the others come again from
/// the last tenth of the window.
struct Stream {
    new: u64,
    made: u64,
    checks: u64,
}

impl Stream {
    fn next(&mut self) -> (Int<8>, u64, bool) {
        let is_new = self.made == 0 || self.checks * self.new / 100 >= self.made;
        let reach = (LIVE / 10).min(self.made.max(1));
        let number = if is_new { self.made } else { self.made - 1 - mix(self.checks) % reach };
        self.made += u64::from(is_new);
        self.checks += 1;
        (Int::from(mix(number)), number_of_tick(self.made), is_new)
    }
}

fn number_of_tick(made: u64) -> u64 {
    made / NEW_PER_TICK
}

/// A bijection without patterns (SplitMix64's finalizer, Steele et al. 2014).
fn mix(number: u64) -> u64 {
    hapax::seam::random::mix(number)
}

fn run(path: &Path) -> usize {
    let mut builder = Dedup::builder().window(WINDOW).capacity(LIVE as usize).seed(1).refresh_on_duplicate(path.slides);
    if path.history {
        builder = builder.history(History {
            horizon: WINDOW * 2,
            ids: 2 * LIVE as usize,
            false_positive_rate: 1e-3,
            unconfirmed: Unconfirmed::Duplicate,
        });
    }
    let dedup = builder.build().expect("it is small");
    // All are new until the window is full, so that it is full whatever comes then.
    let mut stream = Stream { new: 100, made: 0, checks: 0 };
    let warm = batches((0..WARM_UP * LIVE).map(|_| stream.next()).collect());
    let mut stream = Stream { new: path.new, made: stream.made, checks: stream.made * 100 / path.new };
    let batches = batches((0..LIVE).map(|_| stream.next()).collect());
    let (first, others) = batches.split_at(FIRST);
    check(&dedup, &warm, Batches);
    let mut in_flight = Vec::new();
    if let InFlight(count) = path.way {
        dedup.claim_batch((0..count).map(|other| mix(u64::MAX - other).to_le_bytes()), &mut in_flight);
    }
    check(&dedup, first, path.way);
    let ids = counted(|| check(&dedup, &others[..COUNTED], path.way));
    drop(in_flight);
    let tables = dedup.stats().window.tables;
    assert!(tables == 1, "the window has grown: {tables} tables");
    ids
}

/// Ids of one tick.
struct Batch {
    at: Timestamp,
    ids: Vec<Int<8>>,
    new: usize,
}

fn batches(stream: Vec<(Int<8>, u64, bool)>) -> Vec<Batch> {
    let of_ticks = stream.chunk_by(|(_, one, _), (_, other, _)| one == other);
    let batch = |ids: &[(Int<8>, u64, bool)]| Batch {
        at: Timestamp::from_secs(ids[0].1),
        ids: ids.iter().map(|(id, ..)| *id).collect(),
        new: ids.iter().filter(|(.., is_new)| *is_new).count(),
    };
    of_ticks.flat_map(|tick| tick.chunks(BATCH)).map(batch).collect()
}

/// Takes batches through the engine, and checks how many of their ids were fresh. Returns the
/// number of ids.
fn check(dedup: &Dedup, batches: &[Batch], way: Way) -> usize {
    let mut verdicts: Vec<Verdict> = Vec::with_capacity(BATCH);
    let (mut ids, mut wrong) = (0, 0);
    for batch in batches {
        let fresh = match way {
            Single => batch.ids.iter().filter(|id| dedup.check_at(id, batch.at).is_fresh()).count(),
            Claims(at_once) => {
                dedup.check_batch_at([[0; 8]; 0], batch.at, &mut verdicts);
                batch.ids.chunks(at_once).map(|ids| claim_and_complete(dedup, ids)).sum()
            }
            Batches | InFlight(_) => {
                dedup.check_batch_at(&batch.ids, batch.at, &mut verdicts);
                verdicts.iter().filter(|verdict| verdict.is_fresh()).count()
            }
        };
        ids += batch.ids.len();
        wrong += fresh.abs_diff(batch.new);
    }
    // A history may take some of the new ids for old ones.
    assert!(wrong * 500 <= ids, "{wrong} wrong answers of {ids}");
    ids
}

/// Claims ids, and completes the claims. Returns how many there were.
fn claim_and_complete(dedup: &Dedup, ids: &[Int<8>]) -> usize {
    let (mut attempts, mut ended) = (Vec::with_capacity(ids.len()), Vec::with_capacity(ids.len()));
    dedup.claim_batch(ids, &mut attempts);
    dedup.complete_batch(attempts.into_iter().filter_map(Attempt::claimed), &mut ended);
    ended.len()
}
