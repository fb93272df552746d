//! Tokens: none is given twice, over crashes and clocks.

use crate::store::open;
use hapax_store::*;
use std::time::Duration;
use testkit::directory::{Directory, copy_of_one_moment};
use testkit::stores::*;

/// After a crash a store knows the time within a second only. Nothing else says which tokens it has
/// given, if their records were overwritten.
#[test]
fn after_a_crash_of_a_directory_tokens_are_larger_although_the_clock_stands() {
    const LATER: u64 = 900_000_000;
    let (directory, crashed) = (Directory::new("tokens"), Directory::new("tokens-crashed"));
    let path = directory.path().join("store");
    runtime().block_on(async {
        // The row of the bucket says 1,700,000,000 s; the claims come later, in the same second.
        let clock = clock_at(0);
        let store = open(&path, &clock).await;
        assert_eq!(mark(&store, "first").await, Marked::Fresh);
        clock.advance(Duration::from_nanos(LATER));
        let mut last = 0;
        for _ in 0..5 {
            let next = claim(&store, "a").await;
            assert!(next > last, "{next} after {last}, while the clock stands");
            last = next;
            wipe(&store, "a").await;
        }
        for round in 5..8 {
            let copied = crashed.path().join(format!("{round}"));
            copy_of_one_moment(&path, &copied);
            let reopened = open(&copied, &clock_at(LATER)).await;
            let next = claim(&reopened, "a").await;
            assert!(next > last, "{next} after {last}, after a crash");
            assert!(is_lost(&reopened, "a", last).await);
            // Once more, from what has run ahead of the clock.
            wipe(&reopened, "a").await;
            drop(reopened);
            let again = claim(&open(&copied, &clock_at(LATER)).await, "a").await;
            assert!(again > next, "{again} after {next}, after it was closed");
        }
    });
}
