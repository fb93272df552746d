//! Callers that ask again at once: after an answer that was lost, or because they gave up. Whatever
//! the outcome of the first attempt, each id is fresh once.

use super::*;
use hapax::Verdict;
use hapax_store::{TieredAttempt, *};
use hapax_testing::store::{Fault, FaultyStore};
use std::collections::HashMap;
use std::pin::pin;
use std::task::Poll;
use testkit::random::Random;
use tokio::task::JoinSet;

/// A store that answers at once, and loses answers all the same.
struct AtOnce(FaultyStore<InMemoryStore>);

forward! {
    AtOnce,
    |store, _keys, _call| store.0,
    fn backend(&self) -> &'static str {
        "at once"
    }

    fn answers_at_once(&self) -> bool {
        true
    }
}

/// A store that loses and fails, but not when something is given back.
struct TakesBack {
    asked: FaultyStore<Arc<InMemoryStore>>,
    given_back: FaultyStore<Arc<InMemoryStore>>,
}

forward! {
    TakesBack,
    |store, _keys, call| if ["forget", "release"].contains(&call) { &store.given_back } else { &store.asked },
    fn backend(&self) -> &'static str {
        "takes back"
    }
}

const DELAY: Duration = Duration::from_millis(10);
const LOST: Fault = Fault::LosesAnswer(ErrorKind::Timeout);
const UNAVAILABLE: ErrorKind = ErrorKind::Unavailable;

/// Builds engines over a store that loses two answers in five, and never retry themselves.
async fn losing(seed: u64) -> (Engine, TieredDedup<Arc<AtOnce>>) {
    let faults = [(400, LOST), (50, Fault::Fails(UNAVAILABLE)), (50, Fault::FailsOne(UNAVAILABLE))];
    let world = World::new();
    world.store.at_random(seed, faults);
    let at_once = Arc::new(AtOnce(FaultyStore::new(InMemoryStore::with_clock(world.clock.clone()))));
    let engine = world.engine().retries(0).circuit_breaker(u32::MAX, RETENTION);
    let over_at_once = TieredDedup::builder(Arc::clone(&at_once)).expiry(None).capacity(10_000);
    let over_at_once = over_at_once.retries(0).circuit_breaker(u32::MAX, RETENTION);
    // (Building one asks the store, and does not ask again either.)
    world.store.next(Fault::None);
    let engines = (engine.build().await.unwrap(), over_at_once.build().await.unwrap());
    at_once.0.at_random(seed, faults);
    engines
}

async fn check_until_told<S: hapax_store::Store>(engine: &TieredDedup<S>, id: &str) -> Verdict {
    loop {
        if let Ok(verdict) = engine.check(id).await {
            break verdict;
        }
    }
}

/// Claims until there is an answer. Returns true if the id was claimed, and completed; in progress
/// is an answer.
async fn claim_until_told<S: hapax_store::Store>(engine: &TieredDedup<S>, id: &str) -> bool {
    loop {
        match engine.claim(id).await {
            Err(_) => {}
            Ok(TieredAttempt::Claimed(claim)) => {
                // If that fails, the id is done or in progress, and nobody else gets it. (It would
                // be tried for as long as the lease is.)
                let _ = tokio::time::timeout(Duration::from_millis(1), claim.complete()).await;
                return true;
            }
            Ok(_) => return false,
        }
    }
}

async fn one_by_one<S: hapax_store::Store>(engine: TieredDedup<S>) {
    let (mut unhandled, mut blocked) = (0, 0);
    for i in 0..400 {
        unhandled += u32::from(!check_until_told(&engine, &format!("check {i}")).await.is_fresh());
        blocked += u32::from(!claim_until_told(&engine, &format!("claim {i}")).await);
    }
    assert_eq!((unhandled, blocked), (0, 0), "of 400 checks and 400 claims, whose ids nobody else has");
}

async fn sixteen_at_a_time<S: hapax_store::Store>(engine: TieredDedup<S>) {
    let mut callers = JoinSet::new();
    for caller in 0..16 {
        let engine = engine.clone();
        callers.spawn(async move {
            let mut told = HashMap::new();
            for i in 0..100 {
                // Every other one is asked about by all.
                let id = if i % 2 == 0 { format!("{i}") } else { format!("{i} of {caller}") };
                let fresh = check_until_told(&engine, &id).await.is_fresh();
                let claimed = claim_until_told(&engine, &format!("claim {id}")).await;
                told.insert(id, (u32::from(fresh), u32::from(claimed)));
            }
            told
        });
    }
    let mut told: HashMap<String, (u32, u32)> = HashMap::new();
    for (id, (fresh, claimed)) in callers.join_all().await.into_iter().flatten() {
        let all = told.entry(id).or_default();
        *all = (all.0 + fresh, all.1 + claimed);
    }
    let wrong: Vec<_> = told.iter().filter(|(_, told)| **told != (1, 1)).collect();
    assert!(wrong.is_empty(), "{} of {} ids not fresh once, not claimed once: {wrong:?}", wrong.len(), told.len());
}

/// Checks batches with each id twice, in part again until each has an answer.
async fn in_batches<S: hapax_store::Store>(engine: TieredDedup<S>) {
    for batch in 0..50 {
        let mut open: Vec<String> = (0..20).map(|i| format!("{batch} {}", i / 2)).collect();
        let mut fresh: HashMap<String, u32> = HashMap::new();
        while !open.is_empty() {
            let verdicts = engine.check_batch(&open).await;
            let (told, again): (Vec<_>, Vec<_>) = open.into_iter().zip(verdicts).partition(|(_, it)| it.is_ok());
            told.into_iter().for_each(|(id, it)| *fresh.entry(id).or_default() += u32::from(it.unwrap().is_fresh()));
            open = again.into_iter().map(|(id, _)| id).collect();
        }
        assert!(fresh.len() == 10 && fresh.values().all(|times| *times == 1), "{fresh:?}");
    }
}

async fn answers_are_lost_and_asked_for_again_at_once() {
    for seed in 0..testkit::long(1, 3) {
        eprintln!("seed {seed}");
        let (engine, at_once) = losing(seed).await;
        one_by_one(engine).await;
        one_by_one(at_once).await;
        let (engine, at_once) = losing(seed).await;
        sixteen_at_a_time(engine.clone()).await;
        in_batches(engine).await;
        sixteen_at_a_time(at_once.clone()).await;
        in_batches(at_once).await;
    }
}

#[tokio::test]
async fn a_lost_answer_that_is_asked_for_again_at_once_on_one_thread() {
    answers_are_lost_and_asked_for_again_at_once().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lost_answer_that_is_asked_for_again_at_once_on_many_threads() {
    answers_are_lost_and_asked_for_again_at_once().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_not_asked_takes_no_number() {
    let world = World::new();
    let engine = world.engine().retries(0).circuit_breaker(1, WINDOW).max_waiting(1).build().await.unwrap();
    world.store.next(LOST);
    assert!(engine.check("a").await.is_err());
    assert_eq!(engine.stats().unresolved, 1);
    // The breaker is open: refused attempts are not remembered, remembered ones are not lost.
    for i in 0..100 {
        assert!(engine.check(format!("{i}")).await.is_err() && engine.check("a").await.is_err());
    }
    assert_eq!(engine.stats().unresolved, 1);
    tokio::time::advance(WINDOW).await;
    // Nor is one lost by a caller that is dropped while there is no room.
    world.store.next(Fault::Delays(DELAY));
    let other = tokio::spawn({
        let engine = engine.clone();
        async move { engine.check("other").await }
    });
    tokio::task::yield_now().await;
    assert!(tokio::time::timeout(Duration::from_millis(1), engine.check("a")).await.is_err());
    assert!(other.await.unwrap().unwrap().is_fresh());
    assert!(is_fresh(&engine, "a").await && !is_fresh(&engine, "a").await);
    assert_eq!(engine.stats().unresolved, 0);
}

/// Polls a future once, lets others run this often, and drops it; or polls it each time.
async fn give_up_after<T>(yields: u64, polls: bool, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    for turn in 0..=yields {
        if turn == 0 || polls {
            let polled = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
            if let Poll::Ready(output) = polled {
                return Some(output);
            }
        }
        tokio::task::yield_now().await;
    }
    None
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_and_asks_again_at_once_has_what_it_was_granted() {
    let world = World::new();
    let engine = world.shared().await;
    let requests = world.store.requests();
    // The caller goes before the answer is there, and when it is there and not taken.
    for (round, answer) in [Fault::AnswersLate(DELAY), Fault::None].into_iter().enumerate() {
        let id = format!("{round}");
        world.store.next(answer);
        assert!(give_up_after(9, false, engine.check(&id)).await.is_none());
        assert!(is_fresh(&engine, &id).await && !is_fresh(&engine, &id).await);
        let id = format!("{id} claimed");
        world.store.next(answer);
        assert!(give_up_after(9, false, engine.claim(&id)).await.is_none());
        engine.claim(&id).await.unwrap().claimed().expect("its own").complete().await.unwrap();
    }
    // Nothing was given back, which might have been late.
    assert_eq!(world.store.requests() - requests, 2 * (2 + 3));
    assert_eq!(engine.stats().unresolved, 0);
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_and_asks_again_while_that_is_given_back_waits() {
    // Faults of giving back, and whether each succeeded.
    let unknown = [(LOST, true), (Fault::Fails(UNAVAILABLE), false), (Fault::Hangs, false)];
    for (giving_back, is_back) in [(Fault::None, true), (Fault::Delays(DELAY), true)].into_iter().chain(unknown) {
        for answer in [Fault::AnswersLate(DELAY), Fault::None] {
            let world = World::new();
            let engine = world.engine().retries(0).build().await.unwrap();
            let faults = || [answer, giving_back].map(|fault| world.store.next(fault));
            faults();
            assert!(give_up_after(9, false, engine.check("a")).await.is_none());
            tokio::time::sleep(2 * DELAY).await;
            // A mark that could not be given back is known by its number, and taken back first.
            assert!(is_fresh(&engine, "a").await, "{answer:?}, {giving_back:?}");
            assert!(!is_fresh(&engine, "a").await);
            faults();
            assert!(give_up_after(9, false, engine.claim("b")).await.is_none());
            tokio::time::sleep(2 * DELAY).await;
            let again = engine.claim("b").await.unwrap();
            assert!(if is_back { again.claimed().is_some() } else { again.is_in_progress() });
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_others_met_meanwhile_does_not_stay() {
    let world = World::new();
    let engine = world.shared().await;
    {
        let mut first = pin!(engine.check("a"));
        let polled = std::future::poll_fn(|context| Poll::Ready(first.as_mut().poll(context))).await;
        assert!(polled.is_pending());
        tokio::time::sleep(Duration::from_millis(1)).await;
        // The answer is there, and its caller has not taken it: the id is a duplicate, and nobody
        // waits.
        let asked = tokio::time::timeout(Duration::from_millis(1), engine.check("a")).await;
        assert!(asked.expect("an answer").unwrap().is_duplicate());
        assert!(engine.check_batch(["a", "a"]).await.into_iter().all(|it| it.unwrap().is_duplicate()));
    }
    assert!(is_fresh(&engine, "a").await && !is_fresh(&engine, "a").await);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_dropped_does_not_block_the_next_one() {
    let world = World::new();
    let engine = world.shared().await;
    for _ in 0..10 {
        let claim = engine.claim("a").await.unwrap().claimed().expect("it was released");
        world.store.next(Fault::Delays(DELAY));
        drop(claim);
    }
    // Nor if it cannot be released: then for its lease.
    let claim = engine.claim("a").await.unwrap().claimed().unwrap();
    world.store.always(Fault::Hangs);
    drop(claim);
    let next = tokio::time::timeout(Duration::from_secs(10), engine.claim("a")).await.expect("an answer, or an error");
    assert!(matches!(next.unwrap_err().kind(), ErrorKind::Timeout | UNAVAILABLE));
}

#[tokio::test(start_paused = true)]
async fn what_nobody_has_taken_is_given_back_to_others_before_the_engine_ends() {
    for answer in [Fault::AnswersLate(DELAY), Fault::None] {
        let world = World::new();
        let (engine, other) = (world.shared().await, world.shared().await);
        for giving_back in [Fault::Delays(DELAY), Fault::None] {
            world.store.next(answer);
            world.store.next(giving_back);
            let id = format!("{giving_back:?}");
            assert!(give_up_after(9, false, engine.check(&id)).await.is_none());
        }
        engine.shutdown(10 * DELAY).await.unwrap();
        assert_eq!(engine.stats().waiting, 0);
        assert!(is_fresh(&other, &format!("{:?}", Fault::None)).await);
        assert!(is_fresh(&other, &format!("{:?}", Fault::Delays(DELAY))).await);
    }
}

/// Asks until there is an answer, giving up at any time.
async fn ask_and_give_up(engine: &TieredDedup<Arc<TakesBack>>, id: &str, random: &mut Random) -> (u32, u32) {
    let fresh = loop {
        let (yields, polls) = (random.below(8), random.percent(50));
        if let Some(Ok(verdict)) = give_up_after(yields, polls, engine.check(id)).await {
            break verdict.is_fresh();
        }
    };
    let id = format!("claim {id}");
    let claimed = loop {
        let (yields, polls) = (random.below(8), random.percent(50));
        match give_up_after(yields, polls, engine.claim(&id)).await {
            Some(Ok(TieredAttempt::Claimed(claim))) => {
                let _ = claim.complete().await;
                break true;
            }
            Some(Ok(_)) => break false,
            Some(Err(_)) | None => {}
        }
    };
    (u32::from(fresh), u32::from(claimed))
}

async fn all_give_up(seed: u64) {
    let records = Arc::new(InMemoryStore::new());
    let asked = FaultyStore::new(Arc::clone(&records));
    let store = Arc::new(TakesBack { asked, given_back: FaultyStore::new(records) });
    let engine = TieredDedup::builder(Arc::clone(&store)).retries(0).circuit_breaker(u32::MAX, RETENTION);
    let engine = engine.capacity(10_000).expiry(None).build().await.unwrap();
    // (As soon as a timer can.)
    let late = Fault::AnswersLate(Duration::from_micros(50));
    store.asked.at_random(seed, [(100, LOST), (100, Fault::Fails(UNAVAILABLE)), (100, late)]);
    store.given_back.at_random(seed, [(200, late)]);
    let mut callers = JoinSet::new();
    for caller in 0..8 {
        let engine = engine.clone();
        callers.spawn(async move {
            let (mut random, mut told) = (Random(seed << 8 | caller), Vec::new());
            for i in 0..40 {
                told.push(ask_and_give_up(&engine, &format!("{i} of {caller}"), &mut random).await);
            }
            told
        });
    }
    let told = callers.join_all().await.concat();
    let unhandled = told.iter().filter(|told| told.0 != 1).count();
    let blocked = told.iter().filter(|told| told.1 != 1).count();
    assert_eq!((unhandled, blocked), (0, 0), "seed {seed}: of {} ids that nobody else asks about", told.len());
    // Callers that gave up have left nothing behind.
    assert_eq!(engine.stats().waiting, 0);
}

#[tokio::test]
async fn whoever_gives_up_at_any_time_on_one_thread() {
    for seed in 0..testkit::long(1, 3) {
        all_give_up(seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whoever_gives_up_at_any_time_on_many_threads() {
    for seed in 0..testkit::long(1, 3) {
        all_give_up(seed).await;
    }
}
