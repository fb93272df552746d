//! Every strategy gives the true answers, as far as it promises them.

use super::optional::OPTIONAL;
use super::*;
use crate::measure::workload::{Bytes, Ids, Truth, WINDOW, WINDOW_TICKS, streams, time};
use crate::measure::{IdKind, Setting, Shape, Workload};
use std::borrow::Borrow;
use std::marker::PhantomData;

const TICK: Duration = Duration::from_secs(1);
const PLAN: Plan = Plan { window: Duration::from_secs(100), live: 4_000, threads: 2, place: Place::Memory };

/// Returns a time in hundredths of the window.
fn at(tick: u64) -> Timestamp {
    Timestamp::from_secs(TICK.as_secs() * tick)
}

/// Runs a test on every strategy that needs nothing but memory, with every kind of id.
fn each<T: Visitor<u64> + Visitor<[u8]> + Copy>(test: T) {
    each_with::<u64, T>(test);
    each_with::<[u8], T>(test);
}

fn each_with<I: Id + ?Sized, T: Visitor<I> + Copy>(test: T) {
    let listed = listed::<I>().into_iter().filter(|strategy| strategy.needs == Needs::Nothing);
    listed.for_each(|strategy| drop(visit::<I, T>(strategy.name, test).expect("it is listed")));
}

/// Returns true if a number of wrong answers is within the allowed share of this many answers.
fn within(wrong: usize, allowed: f64, of: usize) -> bool {
    wrong as f64 <= 2.0 * allowed * of as f64
}

/// Checks the same new ids by two threads, in batches.
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
        assert!(fresh <= ids.len(), "{}: {fresh} times fresh", S::NAME);
        let invented = ids.len().saturating_sub(fresh);
        assert!(within(invented, S::allowance(&PLAN).invented, ids.len()), "{}: {invented} new ids lost", S::NAME);
    }
}

#[test]
fn of_two_threads_one_is_told_that_an_id_is_fresh() {
    each(Contention);
}

/// Checks as many ids as are live, the same ones again, others for a while, and then the first
/// ones.
#[derive(Clone, Copy)]
struct FullAndForgotten;

impl<I: Id + ?Sized> Visitor<I> for FullAndForgotten {
    type Output = ();

    fn visit<S: Strategy<I>>(self) {
        let live = PLAN.live;
        let Allowance { missed, invented } = S::allowance(&PLAN);
        if S::OWN_CLOCK {
            return;
        }
        let strategy = S::new(&PLAN).unwrap();
        let lost_at = |tick: u64, first: usize| {
            strategy.advance(at(tick));
            let ids = first as u64..(first + live) as u64;
            ids.filter(|&id| !strategy.check(I::numbered(id).borrow(), at(tick))).count()
        };
        let lost = lost_at(50, 0);
        assert!(within(lost, invented, live), "{}: {lost} new ids are duplicates", S::NAME);
        let again = live - lost_at(149, 0);
        assert!(within(again, missed.max(1e-3), live), "{}: {again} duplicates are fresh", S::NAME);
        for (tick, first) in [(400, live), (700, 2 * live), (1_000, 0)] {
            let lost = lost_at(tick, first);
            assert!(within(lost, invented, live), "{}: {lost} ids lost at tick {tick}", S::NAME);
        }
    }
}

#[test]
fn a_full_strategy_knows_all_its_ids_and_forgets_them() {
    each(FullAndForgotten);
}

/// Runs a strategy over a stream of every shape, with its true answers: ids come in batches, one by
/// one, and read ahead, tick by tick.
struct OverStreams<B>(IdKind, PhantomData<B>);

impl<B> Clone for OverStreams<B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for OverStreams<B> {}

const SHAPES: [Shape; 3] = [Shape::Uniform, Shape::Zipf { exponent: 0.7 }, Shape::Zipf { exponent: 1.1 }];

fn setting(shape: Shape, ids: IdKind) -> Setting {
    let workload = Workload { shape, duplicates: 0.4, distance_windows: 1.0 };
    Setting { workload, ids, live: 600, ..Setting::default() }
}

impl<B: Ids> Visitor<B::Id> for OverStreams<B> {
    type Output = ();

    fn visit<S: Strategy<B::Id>>(self) {
        for (seed, shape) in (1..).zip(SHAPES) {
            let stream = &streams::<B>(&setting(shape, self.0), seed, 4 * WINDOW_TICKS).unwrap()[0];
            let plan = Plan { window: WINDOW, live: 700, ..PLAN };
            let strategy = S::new(&plan).unwrap();
            let (mut invented, mut fresh) = (0, Vec::new());
            for tick in 0..4 * WINDOW_TICKS {
                strategy.advance(time(tick));
                let places = stream.tick(tick);
                let ids = stream.ids.range(places.clone());
                match tick % 3 {
                    0 => strategy.check_batch(ids, time(tick), &mut fresh),
                    1 => {
                        fresh.clear();
                        strategy.check_ahead(ids, time(tick), |is_fresh| fresh.push(is_fresh));
                        assert_eq!(fresh.len(), places.len(), "{}", S::NAME);
                    }
                    _ => fresh = ids.map(|id| strategy.check(id, time(tick))).collect(),
                }
                for (place, &is_fresh) in places.zip(&fresh) {
                    let truth = stream.truth[place];
                    let at =
                        || format!("{}, seed {seed}, {:?}, {shape:?}: place {place}, tick {tick}", S::NAME, self.0);
                    match truth {
                        Truth::Duplicate => assert!(!is_fresh, "{}: forgotten", at()),
                        Truth::New => invented += usize::from(!is_fresh),
                        Truth::Expired => assert!(is_fresh || !S::EXPIRES, "{}: not forgotten", at()),
                        Truth::Undecided => {}
                        Truth::Shared => unreachable!("there is one thread"),
                    }
                }
            }
            let allowed = S::allowance(&plan).invented;
            let new = stream.truth.iter().filter(|&&truth| truth == Truth::New).count();
            assert!(within(invented, allowed, new), "{}, {shape:?}: {invented} of {new} lost", S::NAME);
        }
    }
}

#[test]
fn ids_are_duplicates_within_the_window_and_fresh_after_it() {
    each_with::<u64, _>(OverStreams::<Vec<u64>>(IdKind::U64, PhantomData));
    each_with::<[u8], _>(OverStreams::<Bytes>(IdKind::UuidText, PhantomData));
}

#[test]
fn maps_of_digests_are_compared_where_ids_have_any_length() {
    let of_digests = |listed: Vec<Listed>| {
        let names = listed.iter().map(|strategy| strategy.name).filter(|name| name.ends_with(" of digests"));
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let expected = ["Mutex<HashMap>", "DashMap", "scc"].map(|map| format!("{map} of digests"));
    assert_eq!(of_digests(listed::<[u8]>()), expected);
    assert!(of_digests(listed::<u64>()).is_empty());
}

#[test]
fn what_is_not_listed_is_not_built() {
    let listed: Vec<&str> = listed::<u64>().iter().map(|strategy| strategy.name).collect();
    for (with, is_built, names) in OPTIONAL {
        names.iter().for_each(|name| assert_eq!(listed.contains(name), is_built, "{name}, {with}"));
    }
    let lacking: Vec<Absent> = not_built();
    assert_eq!(
        lacking.len(),
        OPTIONAL.iter().filter(|optional| !optional.1).map(|optional| optional.2.len()).sum::<usize>()
    );
    assert!(lacking.iter().all(|absent| absent.reason.starts_with("built without ") && !absent.strategy.is_empty()));
}
