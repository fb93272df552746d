//! A window that knows, and a history behind it that guesses: the policy decides about the guesses.
//!
//! `cargo run --example long_memory`

use hapax::{Dedup, History, Int, ManualClock, Unconfirmed, Verdict};
use std::time::Duration;

fn main() -> Result<(), hapax::Error> {
    const MINUTE: Duration = Duration::from_secs(60);
    let clock = ManualClock::default();
    let dedup = Dedup::builder()
        .window(10 * MINUTE)
        .capacity(100_000)
        .history(History {
            horizon: 24 * 60 * MINUTE,
            ids: 200_000,
            false_positive_rate: 1e-3,
            unconfirmed: Unconfirmed::Fresh,
        })
        .clock(clock.clone())
        .build()?;

    let mut verdicts = Vec::new();
    dedup.check_batch((0..100_000_u64).map(Int::from), &mut verdicts);
    clock.advance(60 * MINUTE);

    // Beyond the window: all of these were seen, and the history says so.
    let guessed = |verdict: &&Verdict| !verdict.is_certain();
    dedup.check_batch((0..100_000_u64).map(Int::from), &mut verdicts);
    let found = verdicts.iter().filter(guessed).count();

    // These are new: the history is mistaken about a few. The policy lets them pass, and a caller
    // may examine just these.
    dedup.check_batch((100_000..200_000_u64).map(Int::from), &mut verdicts);
    let mistaken = verdicts.iter().filter(guessed).count();

    let rate = dedup.stats().history_false_positive_rate.expect("there is a history");
    println!("of 100000 ids from an hour ago the history knows {found}");
    println!("of 100000 new ids it believes to know {mistaken}; {rate:.1e} of new ids at the moment");
    assert_eq!(found, 100_000);
    assert!(mistaken < 200);
    Ok(())
}
