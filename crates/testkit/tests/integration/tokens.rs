//! Tokens of the embedded stores: none is given twice, over crashes, processes and clocks.

use crate::common::*;
use hapax::{ManualClock, Timestamp};
use hapax_fjall::{FjallOptions, FjallStore};
use hapax_sqlite::{SqliteOptions, SqliteStore};
use hapax_store::*;
use std::path::Path;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(30);

pub fn clock_at(nanos: u64) -> ManualClock {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_secs(1_700_000_000) + Duration::from_nanos(nanos));
    clock
}

async fn token(store: &impl Store, id: &str, attempt: u64) -> u64 {
    let claim = ClaimRequest { key: key(id), attempt, lease: LEASE, fingerprint: None };
    match store.claim(&[claim]).await.unwrap().remove(0).unwrap() {
        Claimed::Claimed { token } => token,
        other => panic!("{id} can be had, but a claim says {other:?}"),
    }
}

/// Overwrites the record of an id and forgets it, so that nothing is left that has its token.
async fn wipe(store: &impl Store, id: &str) {
    let record = Record { key: key(id), retention: LEASE, fingerprint: None, result: None };
    store.record(&[record]).await.unwrap().remove(0).unwrap();
    assert!(store.forget(&[key(id)]).await.unwrap().remove(0).unwrap());
}

/// Checks that an old token is nobody's while another one holds.
async fn is_lost(store: &impl Store, id: &str, token: u64) -> bool {
    let completion = Completion { hold: Hold { key: key(id), token }, retention: LEASE, result: None };
    store.complete(&[completion]).await.unwrap().remove(0).unwrap() == Held::Lost
}

pub async fn open_fjall(path: &Path, clock: &ManualClock) -> FjallStore {
    FjallOptions::new().clock(clock.clone()).open(path).await.unwrap()
}

/// After a crash a store knows the time within a second only. Nothing else says which tokens it has
/// given, if their records were overwritten.
#[test]
fn after_a_crash_of_a_directory_tokens_are_larger_although_the_clock_stands() {
    const LATER: u64 = 900_000_000;
    let (directory, crashed) = (Directory::made("tokens"), Directory::made("tokens-crashed"));
    let path = directory.path().join("store");
    runtime().block_on(async {
        // The row of the bucket says 1,700,000,000 s; the claims come later, in the same second.
        let clock = clock_at(0);
        let store = open_fjall(&path, &clock).await;
        assert_eq!(mark(&store, "first").await, Marked::Fresh);
        clock.advance(Duration::from_nanos(LATER));
        let mut last = 0;
        for round in 0..5 {
            let next = token(&store, "a", round).await;
            assert!(next > last, "{next} after {last}, while the clock stands");
            last = next;
            wipe(&store, "a").await;
        }
        for round in 5..8 {
            let copied = crashed.path().join(format!("{round}"));
            copy_of_one_moment(&path, &copied);
            let reopened = open_fjall(&copied, &clock_at(LATER)).await;
            let next = token(&reopened, "a", round).await;
            assert!(next > last, "{next} after {last}, after a crash");
            assert!(is_lost(&reopened, "a", last).await);
            // Once more, from what has run ahead of the clock.
            wipe(&reopened, "a").await;
            drop(reopened);
            let again = token(&open_fjall(&copied, &clock_at(LATER)).await, "a", round + 10).await;
            assert!(again > next, "{again} after {next}, after it was closed");
        }
    });
}

pub async fn open_sqlite(path: &Path, clock: &ManualClock) -> SqliteStore {
    let options = SqliteOptions::new().clock(clock.clone()).durability(Durability::System);
    options.open(path).await.unwrap()
}

/// The clock of one process is a minute behind that of the other.
#[test]
fn tokens_of_a_file_grow_over_processes_whose_clocks_differ() {
    let directory = Directory::made("tokens");
    let path = directory.path().join("ids.db");
    runtime().block_on(async {
        let (ahead, behind) = (clock_at(60_000_000_000), clock_at(0));
        let stores = [open_sqlite(&path, &ahead).await, open_sqlite(&path, &behind).await];
        let (mut last, mut given) = (0, Vec::new());
        for round in 0..8 {
            let (store, other) = (&stores[round % 2], &stores[(round + 1) % 2]);
            let next = token(store, "a", round as u64).await;
            assert!(next > last, "{next} after {last}");
            last = next;
            for &earlier in &given {
                assert!(is_lost(store, "a", earlier).await);
            }
            given.push(last);
            wipe(other, "a").await;
            if round % 3 == 2 {
                expire_all(other).await;
            }
        }
        drop(stores);
        let next = token(&open_sqlite(&path, &behind).await, "a", 100).await;
        assert!(next > last, "{next} after {last}, after it was closed");
    });
}
