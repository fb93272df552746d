//! The paths over a store: 64 ids at a time, either one call for each, all concurrent, or one call
//! for all. The store does no work: every id is new to it, and it answers when it is asked again.

use crate::{COUNTED, FIRST, counted};
use hapax::ManualClock;
use hapax_store::*;
use std::ops::Range;
use std::time::Duration;

const AT_A_TIME: usize = 64;
const CAPACITY: usize = 100_000;
const WINDOW: Duration = Duration::from_secs(100);

pub struct Path {
    pub name: &'static str,
    ownership: Ownership,
    asks: Asks,
    of_each: bool,
}

/// The requests of callers.
#[derive(Clone, Copy)]
enum Asks {
    Checks,
    /// Checks of ids that memory knows.
    Again,
    /// Claims that are completed.
    Claims,
}

use Asks::{Again, Checks, Claims};
use Ownership::{Exclusive, Shared};

const fn path(name: &'static str, ownership: Ownership, asks: Asks, of_each: bool) -> Path {
    Path { name, ownership, asks, of_each }
}

pub static PATHS: [Path; 9] = [
    path("store, checked one by one", Shared, Checks, true),
    path("store, checked in batches", Shared, Checks, false),
    path("store, one by one, duplicates by memory", Shared, Again, true),
    path("store, batches, duplicates by memory", Shared, Again, false),
    path("store, claimed and completed one by one", Shared, Claims, true),
    path("store, claimed and completed in batches", Shared, Claims, false),
    path("store, exclusive, checked one by one", Exclusive, Checks, true),
    path("store, exclusive, checked in batches", Exclusive, Checks, false),
    path("store, exclusive, claimed and completed one by one", Exclusive, Claims, true),
];

/// Takes batches of ids through an engine. Returns the number of ids that count.
pub fn run(path: &Path) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let builder = TieredDedup::builder(Remote).ownership(path.ownership.clone()).expiry(None);
    let builder = builder.clock(ManualClock::new()).seed(1).attempt_seed(1).capacity(CAPACITY).window(WINDOW);
    let dedup = runtime.block_on(builder.retention(2 * WINDOW).build()).expect("it is small");
    let ask_all = |batches: Range<usize>| {
        runtime.block_on(async {
            for batch in batches {
                let first = if let Again = path.asks { 0 } else { (batch * AT_A_TIME) as u64 };
                ask(&dedup, path, first).await;
            }
        });
    };
    ask_all(0..FIRST);
    counted(|| ask_all(FIRST..FIRST + COUNTED));
    COUNTED * AT_A_TIME
}

async fn ask(dedup: &TieredDedup<Remote>, path: &Path, first: u64) {
    let ids = (first..first + AT_A_TIME as u64).map(|number| hapax::seam::random::mix(number).to_le_bytes());
    match (path.asks, path.of_each) {
        (Checks | Again, true) => {
            let verdicts = join_all(ids.map(|id| dedup.check(id))).await;
            assert!(verdicts.into_iter().all(|verdict| verdict.is_ok()));
        }
        (Checks | Again, false) => {
            assert!(dedup.check_batch(ids).await.into_iter().all(|verdict| verdict.is_ok()));
        }
        (Claims, true) => {
            let claims = join_all(ids.map(|id| dedup.claim(id))).await.into_iter();
            let claims = claims.map(|attempt| attempt.expect("an attempt").claimed().expect("it is new"));
            let completed = join_all(claims.map(TieredClaim::complete)).await;
            completed.into_iter().for_each(|completed| completed.expect("it is held"));
        }
        (Claims, false) => {
            let claims = dedup.claim_batch(ids).await.into_iter();
            let claims = claims.map(|attempt| attempt.expect("an attempt").claimed().expect("it is new"));
            let completed = dedup.complete_batch(claims).await;
            completed.into_iter().for_each(|completed| completed.expect("it is held"));
        }
    }
}

/// A store that knows nothing, and grants everything, but not at once.
#[derive(Debug)]
struct Remote;

async fn answers<R, A: Clone>(requests: &[R], answer: A) -> Answers<A> {
    tokio::task::yield_now().await;
    Ok(requests.iter().map(|_| Ok(answer.clone())).collect())
}

impl Store for Remote {
    fn backend(&self) -> &'static str {
        "none"
    }

    async fn mark(&self, marks: &[Mark]) -> Answers<Marked> {
        answers(marks, Marked::Fresh).await
    }

    async fn unmark(&self, marks: &[Unmark]) -> Answers<Unmarked> {
        answers(marks, Unmarked::Done).await
    }

    async fn claim(&self, claims: &[ClaimRequest]) -> Answers<Claimed> {
        answers(claims, Claimed::Claimed { token: 1, before: None }).await
    }

    async fn complete(&self, completions: &[Completion]) -> Answers<Held> {
        answers(completions, Held::Done).await
    }

    async fn release(&self, holds: &[Hold]) -> Answers<Held> {
        answers(holds, Held::Done).await
    }

    async fn fail(&self, failures: &[ClaimFailure]) -> Answers<Held> {
        answers(failures, Held::Done).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Answers<Held> {
        answers(renewals, Held::Done).await
    }

    async fn look_up(&self, keys: &[RecordKey]) -> Answers<Known> {
        answers(keys, Known::Unknown).await
    }

    async fn record(&self, records: &[Record]) -> Answers<()> {
        answers(records, ()).await
    }

    async fn forget(&self, keys: &[RecordKey]) -> Answers<bool> {
        answers(keys, false).await
    }

    async fn expire(&self, _limit: usize) -> Result<Expired, StoreError> {
        Ok(Expired::default())
    }

    async fn scan(&self, _from: Option<&Cursor>, _limit: usize) -> Result<Page, StoreError> {
        Ok(Page::default())
    }
}
