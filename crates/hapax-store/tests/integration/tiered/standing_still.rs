//! Stores that stand still for a while, and then carry out what was given up long before.

use super::running::TokioClock;
use super::*;
use hapax::{ManualClock, Outcome};
use hapax_store::Store as _;
use hapax_store::sync::{Mutex, lock};
use hapax_store::*;
use testkit::random::Random;
use tokio::time::{Instant, sleep, sleep_until};

type Times = Box<dyn FnMut(&str) -> Instant + Send>;

/// A store that carries out each call at a time of the test's, also if nobody waits for that any
/// more.
struct Late {
    inner: Arc<InMemoryStore>,
    limits: Limits,
    /// Returns the time of a call that is made now.
    time: Mutex<Times>,
}

impl Late {
    fn new(inner: &Arc<InMemoryStore>, time: impl FnMut(&str) -> Instant + Send + 'static) -> Self {
        Late { inner: Arc::clone(inner), limits: Limits::batches_of(1_024), time: Mutex::new(Box::new(time)) }
    }
}

macro_rules! late {
    ($($call:ident($request:ty) -> $answer:ty;)*) => {
        impl hapax_store::Store for Late {
            fn backend(&self) -> &'static str {
                "stands still"
            }

            fn limits(&self) -> Limits {
                self.limits
            }

            $(async fn $call(&self, requests: &[$request]) -> Answers<$answer> {
                let (inner, requests) = (Arc::clone(&self.inner), requests.to_vec());
                let time = (*lock(&self.time))(stringify!($call));
                let call = async move {
                    sleep_until(time).await;
                    inner.$call(&requests).await
                };
                tokio::spawn(call).await.expect("a store in memory does not panic")
            })*

            async fn expire(&self, _: usize) -> Result<Expired, StoreError> {
                Ok(Expired::default())
            }

            async fn scan(&self, _: Option<&Cursor>, _: usize) -> Result<Page, StoreError> {
                Ok(Page::default())
            }
        }
    };
}

late! {
    mark(Mark) -> Marked;
    unmark(Unmark) -> Unmarked;
    claim(ClaimRequest) -> Claimed;
    complete(Completion) -> Held;
    release(Hold) -> Held;
    fail(ClaimFailure) -> Held;
    renew(Renewal) -> Held;
    look_up(RecordKey) -> Known;
    record(Record) -> ();
    forget(RecordKey) -> bool;
}

const TIMEOUT: Duration = Duration::from_millis(50);
const MESSAGES: usize = 40;

/// Asks an instance about messages while its store stands still: it carries out marks after a time,
/// and all else after another one. Gives the messages to another instance after `again`, each until
/// it is decided, and returns how many were lost.
async fn lost(marks: Duration, others: Duration, again: Duration, in_doubt: Option<Duration>) -> usize {
    let (clock, now) = (ManualClock::new(), Instant::now());
    clock.advance(Duration::from_secs(1_000_000));
    let inner = Arc::new(InMemoryStore::with_clock(clock.clone()));
    let times = Arc::new(Mutex::new((now, now)));
    let of_calls = Arc::clone(&times);
    let store = Late::new(&inner, move |call| {
        let (marks, others) = *lock(&of_calls);
        if call == "mark" { marks } else { others }
    });
    let here = TieredDedup::builder(store).timeout(TIMEOUT).retries(0).circuit_breaker(u32::MAX, RETENTION);
    let here = in_doubt.iter().fold(here, |here, grace| here.in_doubt(*grace));
    let here = here.clock(clock.clone()).expiry(None).build().await.unwrap();
    // (Its answers come at once, so it believes marks unless it is told to doubt them.)
    let there = TieredDedup::builder(inner).in_doubt(in_doubt.unwrap_or(Duration::from_secs(5)));
    let there = there.clock(clock.clone()).expiry(None).build().await.unwrap();

    let began = Instant::now();
    *lock(&times) = (began + marks, began + others);
    for message in 0..MESSAGES {
        assert_eq!(here.check(format!("{message}")).await.unwrap_err().kind(), ErrorKind::Timeout);
        clock.advance(TIMEOUT);
    }
    let pass = async |time| {
        clock.advance(time);
        sleep(time).await;
    };
    pass((began + again).saturating_duration_since(Instant::now())).await;
    let mut lost = 0;
    for message in 0..MESSAGES {
        loop {
            match there.check(format!("{message}")).await.unwrap().outcome() {
                Outcome::InProgress => pass(Duration::from_millis(20)).await,
                outcome => break lost += usize::from(outcome == Outcome::Duplicate),
            }
        }
    }
    lost
}

#[tokio::test(start_paused = true)]
async fn what_a_store_carries_out_after_it_stood_still_is_taken_back_however_short_the_time_out() {
    // The marks come last, and the message comes again at once.
    let (marks, others) = (Duration::from_millis(4_000), Duration::from_millis(3_900));
    assert_eq!(lost(marks, others, marks + TIMEOUT, None).await, 0);
}

#[tokio::test(start_paused = true)]
async fn marks_are_taken_back_for_as_long_as_they_are_doubted() {
    // The store has answered soon that they are not there, and the network delivers them later.
    let grace = Duration::from_secs(40);
    let (marks, others) = (Duration::from_secs(13), Duration::from_secs(3));
    assert_eq!(lost(marks, others, Duration::from_secs(30), Some(grace)).await, 0);
    assert_eq!(lost(marks, others, Duration::from_secs(14), Some(grace)).await, 0);
}

#[tokio::test(start_paused = true)]
async fn marks_are_taken_back_soon_if_they_are_doubted_for_a_short_time() {
    let grace = Duration::from_millis(200);
    for ms in [2_300, 3_000, 4_100] {
        let late = Duration::from_millis(ms);
        assert_eq!(lost(late + grace / 2, late, late + grace, Some(grace)).await, 0, "{late:?}");
    }
}

/// Asks an engine that repeats a mark at once, or when its caller comes again: the first request is
/// carried out a second late, the second one meets another engine's mark, which is then taken back.
async fn outcome_after_a_repeated_mark(retries: u32) -> Outcome {
    let clock = TokioClock(Instant::now());
    let inner = Arc::new(InMemoryStore::with_clock(clock));
    let (began, mut marks) = (Instant::now(), 0);
    let late = Late::new(&inner, move |call| {
        marks += u32::from(call == "mark");
        if call == "mark" && marks == 1 { began + Duration::from_secs(1) } else { Instant::now() }
    });
    let engine = TieredDedup::builder(late).timeout(TIMEOUT).retries(retries).retention(RETENTION);
    let engine = engine.clock(clock).expiry(None).build().await.unwrap();
    let key = RecordKey::new(&Scope::default(), "a");
    let other = Mark { key: key.clone(), attempt: 17, retention: RETENTION };
    inner.mark(&[other]).await.unwrap();
    if retries == 0 {
        engine.check("a").await.unwrap_err();
    }
    assert_eq!(engine.check("a").await.unwrap().outcome(), Outcome::InProgress);
    inner.unmark(&[Unmark { key, attempt: 17 }]).await.unwrap();
    sleep_until(began + Duration::from_secs(1)).await;
    sleep(Duration::from_millis(1)).await;
    engine.check("a").await.unwrap().outcome()
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_was_repeated_and_is_carried_out_late_is_no_duplicate_of_itself() {
    for retries in [0, 1] {
        assert_eq!(outcome_after_a_repeated_mark(retries).await, Outcome::Fresh, "{retries} retries");
    }
}

/// Gives messages to two instances, whose calls are carried out late and in any order, each until
/// it is decided. Returns how many were lost, and how many handled twice.
async fn delivered_late(seed: u64) -> (usize, usize) {
    let clock = TokioClock(Instant::now());
    let inner = Arc::new(InMemoryStore::with_clock(clock));
    let engine = async |number: u64| {
        let mut random = Random(seed << 1 | number);
        // Late by less than marks are doubted for.
        let time = move |call: &str| {
            let is_late = call.ends_with("mark") && random.percent(40);
            Instant::now() + Duration::from_millis(random.below(if is_late { 4_000 } else { 20 }))
        };
        let late = Late { limits: Limits::batches_of(2).under_way(8), ..Late::new(&inner, time) };
        let engine = TieredDedup::builder(late).timeout(TIMEOUT).retries((seed % 2) as u32);
        let engine = engine.circuit_breaker(u32::MAX, RETENTION).attempt_seed(seed << 1 | number);
        engine.clock(clock).expiry(None).build().await.unwrap()
    };
    let engines = [engine(0).await, engine(1).await];
    let deliveries = (0..MESSAGES as u64).map(|message| {
        let (engines, mut random) = (engines.clone(), Random(seed << 16 | message));
        tokio::spawn(async move {
            // At one instance, soon or late at the other one, and once more at the end.
            let mut handled = 0;
            for _ in 0..3 {
                let mut at = random.below(2) as usize;
                loop {
                    let checked = engines[at].check(format!("{message}")).await;
                    match checked.map(|verdict| verdict.outcome()) {
                        Ok(Outcome::Fresh) => break handled += 1,
                        Ok(Outcome::Duplicate) => break,
                        _ if random.percent(50) => at = 1 - at,
                        _ if random.percent(50) => sleep(Duration::from_millis(random.below(40))).await,
                        _ => sleep(Duration::from_millis(random.below(1_000))).await,
                    }
                }
            }
            handled
        })
    });
    let deliveries: Vec<_> = deliveries.collect();
    let (mut lost, mut twice) = (0, 0);
    for delivery in deliveries {
        let handled = delivery.await.unwrap();
        (lost, twice) = (lost + usize::from(handled == 0), twice + usize::from(handled > 1));
    }
    (lost, twice)
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_however_late_and_in_which_order_calls_are_carried_out() {
    let first = std::env::var("HAPAX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in first..first + testkit::long(40, 2_000) {
        println!("HAPAX_SEED={seed}");
        assert_eq!(delivered_late(seed).await, (0, 0), "seed {seed}: lost, and handled twice");
    }
}
