//! Tests of the history's own figures, and of the agreement of all ways to ask it.

use super::History;
use super::rotating::TICK_NANOS;
use crate::{Digester, Outcome, Timestamp};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_batch_is_answered_like_its_digests_one_by_one() {
    let (one_by_one, batched) = (History::new(HOUR, 1e-3, 1_000).unwrap(), History::new(HOUR, 1e-3, 1_000).unwrap());
    let digester = Digester::with_seed(4);
    // Of 300 numbers each occurs twice, in the same batch or in another.
    let digests: Vec<_> = (0..600_u64).map(|i| digester.digest((i * 7 % 300).to_le_bytes())).collect();
    let at = Timestamp::from_secs(1);
    let expected: Vec<Outcome> = digests.iter().map(|digest| one_by_one.check(*digest, at)).collect();
    let (mut outcomes, mut answers) = (vec![Outcome::Fresh; 3], Vec::new());
    for batch in digests.chunks(250) {
        batched.check_batch(batch, at, &mut outcomes);
        answers.extend_from_slice(&outcomes);
    }
    assert_eq!(answers, expected);
    assert_eq!(expected.iter().filter(|outcome| **outcome == Outcome::Fresh).count(), 300);
}

#[test]
fn it_takes_its_blocks_a_word_for_each_1024_of_them_and_itself() {
    for ids in [1, 1_000, 100_000, 3_000_000] {
        let bytes = History::new(HOUR, 1e-2, ids).unwrap().stats().bytes - size_of::<History>();
        let blocks = (1..=bytes / 64).rev().find(|blocks| 64 * blocks + 8 * blocks.div_ceil(1024) == bytes);
        let bits_an_id = blocks.map(|blocks| blocks as f64 * 512.0 / ids as f64);
        assert!(
            bits_an_id.is_some_and(|bits| ids < 100_000 || (20.0..30.0).contains(&bits)),
            "{ids}: {bytes} {bits_an_id:?}"
        );
    }
}

#[test]
fn the_first_moment_is_one_like_any_other() {
    let history = History::new(HOUR, 1e-3, 1_000).unwrap();
    let digest = Digester::with_seed(4).digest("first");
    assert_eq!(history.check(digest, Timestamp::from_nanos(0)), Outcome::Fresh);
    assert_eq!(history.check(digest, Timestamp::from_nanos(1)), Outcome::Duplicate);
    assert!(format!("{history:?}").contains("blocks"));
}

#[test]
fn an_id_is_remembered_for_a_horizon_to_the_tick_and_not_for_two() {
    const MILLISECOND: Duration = Duration::from_millis(1);
    let horizon = MILLISECOND.as_nanos() as u64 / TICK_NANOS;
    let history = History::new(MILLISECOND, 1e-9, 1_000).unwrap();
    let digest = |tick: u64| Digester::with_seed(4).digest(tick.to_le_bytes());
    // Something is inserted at every tick, so each generation begins as early as it can. It is the
    // same each time: nothing fills up.
    let filler = Digester::with_seed(4).digest("filler");
    let is_probe = |tick: u64| tick <= horizon + 40 && (tick % horizon <= 40 || tick % horizon >= horizon - 40);
    let probes: Vec<u64> = (1..=horizon + 40).filter(|&tick| is_probe(tick)).collect();
    for tick in 1..=3 * horizon + 80 {
        let at = Timestamp::from_nanos(tick * TICK_NANOS);
        history.insert(if is_probe(tick) { digest(tick) } else { filler }, at);
        let is_at_an_edge = !(80..=horizon - 80).contains(&(tick % horizon));
        if is_at_an_edge || tick.is_multiple_of(997) {
            for &known in probes.iter().filter(|&&known| known <= tick) {
                let age = tick - known;
                assert!(age > horizon || history.contains(digest(known)), "{known} at {tick}");
                assert!(age < 2 * horizon || !history.contains(digest(known)), "{known} at {tick}");
            }
        }
    }
}

#[test]
fn a_generation_that_is_over_leaves_nothing_in_any_block() {
    let history = History::new(HOUR, 1e-4, 20_000).unwrap();
    let shards = history.turns.len();
    assert!(shards > 1 && !history.blocks.len().is_multiple_of(shards), "{shards} shards, the last one shorter");
    let digester = Digester::with_seed(4);
    let digests: Vec<_> = (0..20_000_u64).map(|i| digester.digest(i.to_le_bytes())).collect();
    digests.iter().for_each(|digest| history.insert(*digest, Timestamp::from_secs(1)));
    assert!(digests.iter().all(|digest| history.contains(*digest)));
    // A few others that come in each shard, when it takes the other generation and this one again.
    let others: Vec<_> = (0..64_u64).map(|i| digester.digest((1 << 40 | i).to_le_bytes())).collect();
    for horizons in [1, 2] {
        let at = Timestamp::from_secs(1 + horizons * (HOUR.as_secs() + 1));
        others.iter().for_each(|digest| history.insert(*digest, at));
    }
    // A block that was not cleared would still know the dozen that are in it.
    let known = digests.iter().filter(|digest| history.contains(**digest)).count();
    assert!(known < 5, "{known} of 20,000");
}

#[test]
fn the_last_moments_are_too() {
    let history = History::new(HOUR, 1e-6, 1_000).unwrap();
    let digest = |id: u64| Digester::with_seed(4).digest(id.to_le_bytes());
    let horizon = HOUR.as_nanos() as u64;
    let times: Vec<_> =
        (0..6).rev().map(|horizons| Timestamp::from_nanos(u64::MAX).as_nanos() - horizons * horizon).collect();
    for (id, nanos) in (0..).zip(&times) {
        assert_eq!(history.check(digest(id), Timestamp::from_nanos(*nanos)), Outcome::Fresh);
        let within = (0..=id).filter(|known| *nanos - times[*known as usize] <= horizon);
        within.for_each(|known| assert!(history.contains(digest(known)), "{known} at {id}"));
    }
    assert!(!history.contains(digest(0)), "it is more than two horizons old");
}
