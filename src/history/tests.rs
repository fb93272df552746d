//! Tests of the history's own figures, and of the agreement of all ways to ask it.

use super::HistoryTier;
use super::block::Shape;
use super::rotating::TICK_NANOS;
use super::sizing::Size;
use super::turn::Turn;
use crate::digest::{Digest, Digester};
use crate::sync::Ordering;
use crate::{Outcome, Timestamp};
use std::sync::LazyLock;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_batch_is_answered_like_its_digests_one_by_one() {
    let (one_by_one, batched) =
        (HistoryTier::new(HOUR, 1e-3, 1_000).unwrap(), HistoryTier::new(HOUR, 1e-3, 1_000).unwrap());
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
        let bytes = HistoryTier::new(HOUR, 1e-2, ids).unwrap().stats().bytes - size_of::<HistoryTier>();
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
    let history = HistoryTier::new(HOUR, 1e-3, 1_000).unwrap();
    let digest = Digester::with_seed(4).digest("first");
    assert_eq!(history.check(digest, Timestamp::from_nanos(0)), Outcome::Fresh);
    assert_eq!(history.check(digest, Timestamp::from_nanos(1)), Outcome::Duplicate);
    assert!(format!("{history:?}").contains("blocks"));
}

#[test]
fn every_shape_has_its_rate() {
    // (Rates depend on the blocks' loads: with few blocks these differ by more than what is found.)
    let (asked, blocks) = (crate::long::long(200_000, 4_000_000), crate::long::long(1_000, 50_000));
    let digester = Digester::with_seed(4);
    for (words, bits) in [2, 4].into_iter().flat_map(|words| (1..=8).map(move |bits| (words, bits))) {
        let size = Size { shape: Shape { words, bits }, blocks };
        let ids = (1..).map(|load| load * blocks as u64).find(|ids| size.rate_with(*ids as f64) >= 0.01).unwrap();
        let history = HistoryTier::of_size(HOUR, size).unwrap();
        let digest = |id: u64| digester.digest(id.to_le_bytes());
        (0..ids).for_each(|id| history.insert(digest(id), Timestamp::from_secs(1)));
        let found = (ids..ids + asked).filter(|id| history.contains(digest(*id))).count() as f64;
        let expected = asked as f64 * size.rate_with(ids as f64);
        let margin = 0.02 * expected + 6.0 * expected.sqrt();
        println!("{words} words, {bits} bits, {ids} ids: {found} of {expected:.0}");
        assert!((found - expected).abs() < margin, "{words} words, {bits} bits: {found} of {expected}");
    }
}

#[test]
fn an_id_is_remembered_for_a_horizon_to_the_tick_and_not_for_two() {
    const MILLISECOND: Duration = Duration::from_millis(1);
    let horizon = MILLISECOND.as_nanos() as u64 / TICK_NANOS;
    let history = HistoryTier::new(MILLISECOND, 1e-9, 1_000).unwrap();
    let digester = Digester::with_seed(4);
    let digest = |tick: u64| digester.digest(tick.to_le_bytes());
    // Something is inserted at every tick, so each generation begins as early as it can. It is the
    // same each time: nothing fills up.
    let filler = digester.digest("filler");
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
    let history = HistoryTier::new(HOUR, 1e-4, 20_000).unwrap();
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
fn a_shard_that_turns_leaves_the_ids_of_others() {
    // In the first shard and in the last one.
    let id = |place: u64, number: u64| Digest { place, mark: (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) };
    for [turning, other] in [[0, u64::MAX], [u64::MAX, 0]] {
        let history = HistoryTier::new(HOUR, 1e-4, 20_000).unwrap();
        assert!(history.turns.len() > 1);
        let insert = |place, number, hours| history.insert(id(place, number), Timestamp::from_secs(1) + hours * HOUR);
        (0..2).for_each(|hours| insert(turning, u64::from(hours), hours));
        insert(other, 7, 1);
        // It clears the generation that the other shard began with an hour ago.
        insert(turning, 2, 2);
        assert!(history.contains(id(other, 7)) && history.contains(id(turning, 1)));
        assert!(!history.contains(id(turning, 0)), "it has not turned");
    }
}

/// The ticks of a history of one shard whose first two generations began at 300 and 556.
const HORIZON_TICKS: u64 = 256;
const BEGAN: u64 = 300 + HORIZON_TICKS;
const OVER: u64 = BEGAN + HORIZON_TICKS;

fn at(tick: u64) -> Timestamp {
    Timestamp::from_nanos(tick * TICK_NANOS)
}

fn of_one_block() -> HistoryTier {
    let size = Size { shape: Shape { words: 2, bits: 4 }, blocks: 1 };
    let history = HistoryTier::of_size(Duration::from_nanos(HORIZON_TICKS * TICK_NANOS), size).unwrap();
    (1..).zip([300, BEGAN]).for_each(|(id, tick)| history.insert(digest(id), at(tick)));
    history
}

fn digest(id: u64) -> Digest {
    static DIGESTER: LazyLock<Digester> = LazyLock::new(|| Digester::with_seed(4));
    DIGESTER.digest(id.to_le_bytes())
}

fn turn_of(history: &HistoryTier) -> Turn {
    Turn(history.turns[0].load(Ordering::Relaxed))
}

#[test]
fn a_caller_whose_turn_another_has_taken_clears_nothing_and_goes_by_the_new_one() {
    for later in [0, 100, HORIZON_TICKS] {
        let history = of_one_block();
        let seen = turn_of(&history);
        // It stalls before its exchange; another turns, and accepts an id.
        history.insert(digest(3), at(OVER));
        let current = history.turn(0, seen, OVER + later);
        assert!(turn_of(&history).takes(OVER + later, HORIZON_TICKS), "after {later} ticks");
        assert_eq!(current, turn_of(&history).current(), "it inserts where ids are not kept for a horizon");
        assert!(history.contains(digest(3)), "after {later} ticks it has cleared what was new");
    }
}

#[test]
fn a_caller_that_inserts_while_another_clears_puts_off_its_end_and_clears_nothing() {
    for later in [0, 1, 100, HORIZON_TICKS, 10_000] {
        let history = of_one_block();
        let (before, clearing) = (turn_of(&history), turn_of(&history).clearing(OVER));
        // The one that clears stalls, before or after it has cleared a block that an id goes into.
        history.turns[0].store(clearing.0, Ordering::Relaxed);
        let (now, old) = (OVER + later, digest(1));
        assert_eq!(history.turn(0, clearing, now), before.current());
        assert!(history.contains(old), "after {later} ticks it clears what another clears");
        // So what it inserts there is found for a horizon, to the tick.
        assert_eq!(turn_of(&history), before.clearing(now + 1));
        assert_eq!(history.clear_other(0, before, clearing), 1 - before.current());
        assert_eq!(turn_of(&history), Turn::new(now + 1, 1 - before.current()), "the shard turns, and no earlier");
        assert!(!history.contains(old) && history.contains(digest(2)));
    }
}

#[test]
fn a_caller_that_is_earlier_than_the_clearing_changes_nothing() {
    let history = of_one_block();
    let clearing = turn_of(&history).clearing(OVER);
    history.turns[0].store(clearing.0, Ordering::Relaxed);
    assert_eq!((history.turn(0, clearing, OVER - 1), turn_of(&history)), (clearing.current(), clearing));
}

#[test]
fn the_last_moments_are_too() {
    let history = HistoryTier::new(HOUR, 1e-6, 1_000).unwrap();
    let digester = Digester::with_seed(4);
    let digest = |id: u64| digester.digest(id.to_le_bytes());
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
