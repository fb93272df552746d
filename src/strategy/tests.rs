//! Every strategy gives the true answers, as far as it promises them.

use super::*;
use std::borrow::Borrow;
use std::collections::HashMap;

const TICK: Duration = Duration::from_secs(1);
const PLAN: Plan =
    Plan { window: Duration::from_secs(100), live: 4_000, threads: 2, budget_bytes: None, place: Place::Memory };

/// A time in hundredths of the window.
fn at(tick: u64) -> Timestamp {
    Timestamp::from_secs(TICK.as_secs() * tick)
}

/// Runs a test on every strategy, with every kind of id.
fn each<T: Visitor<u64> + Visitor<[u8; 16]> + Visitor<[u8]> + Copy>(test: T) {
    each_with::<u64, T>(test);
    each_with::<[u8; 16], T>(test);
    each_with::<[u8], T>(test);
}

fn each_with<I: Id + ?Sized, T: Visitor<I> + Copy>(test: T) {
    listed::<I>().iter().for_each(|strategy| drop(visit::<I, T>(strategy.name, test).expect("it is listed")));
}

/// Whether a number of wrong answers is within what is allowed of so many.
fn within(wrong: usize, allowed: f64, of: usize) -> bool {
    wrong as f64 <= 2.0 * allowed * of as f64
}

/// Wrong answers of a strategy on a stream of few ids that come again and again, most of them after they have expired.
#[derive(Clone, Copy)]
struct FewIds;

impl<I: Id + ?Sized> Visitor<I> for FewIds {
    type Output = ();

    fn visit<S: Strategy<I>>(self) {
        let own_time = S::allowance().missed == 1.0;
        let longer_memory = S::NAME == "hapax window+history";
        if !S::EXPIRES || own_time || longer_memory {
            return;
        }
        let strategy = S::new(&PLAN).unwrap();
        let mut accepted = HashMap::new();
        let mut random = 1_u64;
        let mut seen = [0; 2];
        for tick in 0..1_500 {
            strategy.advance(at(tick));
            for _ in 0..10 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let id = random >> 53;
                let fresh = strategy.check(I::numbered(id).borrow(), at(tick));
                let age_ticks = accepted.get(&id).map_or(u64::MAX, |accepted| tick - accepted);
                match age_ticks {
                    0..100 => assert!(!fresh, "{}: forgotten after {age_ticks} ticks", S::NAME),
                    100..102 => {}
                    102.. => assert!(fresh, "{}: remembered after {age_ticks} ticks", S::NAME),
                }
                if fresh {
                    accepted.insert(id, tick);
                }
                seen[usize::from(fresh)] += 1;
            }
        }
        assert!(seen[0] > 4_000 && seen[1] > 4_000, "the stream has both: {seen:?}");
    }
}

#[test]
fn ids_are_duplicates_within_the_window_and_fresh_after_it() {
    each(FewIds);
}

/// Two threads check the same new ids, in batches.
#[derive(Clone, Copy)]
struct Contention;

impl<I: Id + ?Sized> Visitor<I> for Contention {
    type Output = ();

    fn visit<S: Strategy<I>>(self) {
        let strategy = S::new(&PLAN).unwrap();
        let ids: Vec<I::Owned> = (0..PLAN.live as u64).map(I::numbered).collect();
        let check_all = || -> usize {
            let mut fresh = Vec::new();
            let mut check = |batch: &[I::Owned]| {
                strategy.check_batch(batch.iter().map(Borrow::borrow), at(1), &mut fresh);
                assert_eq!(fresh.len(), batch.len());
                fresh.iter().filter(|fresh| **fresh).count()
            };
            ids.chunks(100).map(&mut check).sum()
        };
        let fresh: usize = std::thread::scope(|scope| {
            let threads = [scope.spawn(check_all), scope.spawn(check_all)];
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        if S::EXPIRES {
            assert!(fresh <= ids.len() || S::allowance().missed == 1.0, "{}: {fresh} times fresh", S::NAME);
        }
        let invented = ids.len().saturating_sub(fresh);
        assert!(within(invented, S::allowance().invented, ids.len()), "{}: {invented} new ids lost", S::NAME);
    }
}

#[test]
fn of_two_threads_one_is_told_that_an_id_is_fresh() {
    each(Contention);
}

/// As many ids as are live, the same ones again, others for a while, and then the first ones.
#[derive(Clone, Copy)]
struct FullAndForgotten;

impl<I: Id + ?Sized> Visitor<I> for FullAndForgotten {
    type Output = ();

    fn visit<S: Strategy<I>>(self) {
        let Allowance { missed, invented } = S::allowance();
        if missed == 1.0 {
            return;
        }
        let strategy = S::new(&PLAN).unwrap();
        let live = PLAN.live;
        let lost_at = |tick: u64, first: usize| {
            strategy.advance(at(tick));
            let ids = first as u64..(first + live) as u64;
            ids.filter(|&id| !strategy.check(I::numbered(id).borrow(), at(tick))).count()
        };
        let lost = lost_at(50, 0);
        assert!(within(lost, invented, live), "{}: {lost} new ids are duplicates", S::NAME);
        let again = live - lost_at(149, 0);
        assert!(within(again, missed.max(1e-3), live), "{}: {again} duplicates are fresh", S::NAME);
        if S::EXPIRES {
            for (tick, first) in [(400, live), (700, 2 * live), (1_000, 0)] {
                let lost = lost_at(tick, first);
                assert!(within(lost, invented, live), "{}: {lost} ids lost at tick {tick}", S::NAME);
            }
        }
    }
}

#[test]
fn a_full_strategy_knows_all_its_ids_and_forgets_them() {
    each(FullAndForgotten);
}
