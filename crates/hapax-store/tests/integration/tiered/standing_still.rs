//! Stores that stand still for a while, and then carry out what was given up long before.

use super::*;
use hapax::{ManualClock, Outcome};
use hapax_store::sync::{Mutex, lock};
use hapax_store::*;
use tokio::time::{Instant, sleep, sleep_until};

/// A store that carries out marks after one time, and all else after another, also if nobody waits
/// for that any more.
struct StandsStill {
    inner: Arc<InMemoryStore>,
    marks_from: Mutex<Instant>,
    others_from: Mutex<Instant>,
}

impl StandsStill {
    fn from(&self, call: &str) -> Instant {
        *lock(if call == "mark" { &self.marks_from } else { &self.others_from })
    }
}

macro_rules! late {
    ($($call:ident($request:ty) -> $answer:ty;)*) => {
        impl hapax_store::Store for StandsStill {
            fn backend(&self) -> &'static str {
                "stands still"
            }

            $(async fn $call(&self, requests: &[$request]) -> Answers<$answer> {
                let (inner, requests, from) = (Arc::clone(&self.inner), requests.to_vec(), self.from(stringify!($call)));
                let call = async move {
                    sleep_until(from).await;
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
    let store = StandsStill { inner: Arc::clone(&inner), marks_from: Mutex::new(now), others_from: Mutex::new(now) };
    let here = TieredDedup::builder(store).timeout(TIMEOUT).retries(0).circuit_breaker(u32::MAX, RETENTION);
    let here = in_doubt.iter().fold(here, |here, grace| here.in_doubt(*grace));
    let here = here.clock(clock.clone()).expiry(None).build().await.unwrap();
    // (Its answers come at once, so it believes marks unless it is told to doubt them.)
    let there = TieredDedup::builder(inner).in_doubt(in_doubt.unwrap_or(Duration::from_secs(5)));
    let there = there.clock(clock.clone()).expiry(None).build().await.unwrap();

    let began = Instant::now();
    *lock(&here.store().marks_from) = began + marks;
    *lock(&here.store().others_from) = began + others;
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
