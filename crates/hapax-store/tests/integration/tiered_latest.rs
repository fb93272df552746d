//! Versions in memory in front of a store: round trips that are saved, answers that are lost,
//! stores that hang, callers that are cancelled.

use hapax::{Latest, VersionVerdict};
use hapax_store::{ErrorKind, InMemoryStore, Mark, RecordKey, Scope, Store, StoreError, TieredLatest, VersionStore};
use hapax_testing::store::{Fault, FaultyStore};
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::random::Random;
use tokio::task::JoinSet;

type Faulty = Arc<FaultyStore<InMemoryStore>>;

const TIMEOUT: Duration = Duration::from_millis(200);

fn store() -> Faulty {
    Arc::new(FaultyStore::new(InMemoryStore::new()))
}

fn scope() -> Scope {
    Scope::new("prices").unwrap()
}

fn tiered(store: &Faulty, tries: u32) -> TieredLatest<Faulty> {
    let memory = Latest::builder().capacity(1_000);
    TieredLatest::builder(Arc::clone(store), scope()).memory(memory).timeout(TIMEOUT).tries(tries).build().unwrap()
}

/// Runs in time that goes on by itself while everybody waits.
fn run<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(test)
}

fn kind(answer: Result<VersionVerdict, StoreError>) -> ErrorKind {
    answer.expect_err("an error").kind()
}

#[test]
fn what_memory_knows_to_be_late_asks_nobody() {
    run(async {
        let store = store();
        let (here, elsewhere) = (tiered(&store, 1), tiered(&store, 1));
        assert_eq!(here.check("a", 6).await.unwrap(), VersionVerdict::Newer);
        for (version, expected) in [(6, VersionVerdict::Duplicate), (5, VersionVerdict::Stale { known: 6 })] {
            assert_eq!(here.check("a", version).await.unwrap(), expected);
        }
        assert_eq!(store.calls(), 1);
        // The other one has to ask once, and knows the higher version then.
        assert_eq!(elsewhere.check("a", 5).await.unwrap(), VersionVerdict::Stale { known: 6 });
        assert_eq!(elsewhere.check("a", 6).await.unwrap(), VersionVerdict::Duplicate);
        assert_eq!(store.calls(), 2);
        // A higher one is always asked for.
        assert_eq!(elsewhere.check("a", 7).await.unwrap(), VersionVerdict::Newer);
        assert_eq!(here.check("a", 7).await.unwrap(), VersionVerdict::Duplicate);
        let stats = here.stats();
        assert_eq!((stats.asked, stats.by_memory, stats.in_doubt, store.calls()), (2, 2, 0, 4));
    });
}

#[test]
fn a_batch_takes_one_call_and_is_answered_in_order() {
    run(async {
        let store = store();
        let latest = tiered(&store, 1);
        assert!(latest.check("known", 9).await.unwrap().is_newer());
        let batch = [("a", 5), ("known", 9), ("a", 6), ("a", 5), ("b", 1), ("a", 6)];
        let answers: Vec<_> = latest.check_batch(&batch).await.into_iter().map(Result::unwrap).collect();
        use VersionVerdict::{Duplicate, Newer, Stale};
        assert_eq!(answers, [Newer, Duplicate, Newer, Stale { known: 6 }, Newer, Duplicate]);
        assert_eq!((store.calls(), store.requests()), (2, 6));
        assert!(latest.check_batch::<&str>(&[]).await.is_empty());
        assert_eq!(store.calls(), 2);
    });
}

#[test]
fn a_lost_answer_is_asked_for_again_and_is_newer() {
    run(async {
        for fault in [
            Fault::LosesAnswer(ErrorKind::Unavailable),
            Fault::LosesAnswer(ErrorKind::Timeout),
            Fault::AnswersLate(2 * TIMEOUT),
            Fault::Fails(ErrorKind::Unavailable),
            Fault::Hangs,
        ] {
            let store = store();
            let latest = tiered(&store, 3);
            store.next(fault);
            assert_eq!(latest.check("a", 6).await.unwrap(), VersionVerdict::Newer, "{fault:?}");
            assert_eq!((store.calls(), latest.stats().in_doubt), (2, 0), "{fault:?}");
            assert_eq!(latest.check("a", 6).await.unwrap(), VersionVerdict::Duplicate);
        }
    });
}

#[test]
fn a_version_whose_tries_have_all_failed_is_newer_when_it_comes_again_and_once() {
    run(async {
        let store = store();
        let latest = tiered(&store, 2);
        store.always(Fault::LosesAnswer(ErrorKind::Unavailable));
        assert_eq!(kind(latest.check("a", 6).await), ErrorKind::Unavailable);
        assert_eq!((store.calls(), latest.stats().in_doubt), (2, 1));
        store.always(Fault::None);
        // Memory has learned nothing from an answer that did not come.
        assert_eq!(latest.check("a", 6).await.unwrap(), VersionVerdict::Newer);
        assert_eq!(latest.stats().in_doubt, 0);
        assert_eq!(latest.check("a", 6).await.unwrap(), VersionVerdict::Duplicate);
        // Elsewhere nobody knows the attempt.
        assert_eq!(tiered(&store, 2).check("a", 6).await.unwrap(), VersionVerdict::Duplicate);
    });
}

#[test]
fn a_caller_who_is_cancelled_leaves_its_attempt_to_the_next() {
    run(async {
        let store = store();
        let latest = tiered(&store, 3);
        store.next(Fault::AnswersLate(TIMEOUT / 2));
        let cancelled = tokio::time::timeout(TIMEOUT / 10, latest.check("a", 6)).await;
        assert!(cancelled.is_err());
        assert_eq!(store.inner().versions(&[RecordKey::new(&scope(), "a")]).await.unwrap().remove(0).unwrap(), Some(6));
        assert_eq!(latest.check("a", 6).await.unwrap(), VersionVerdict::Newer);
    });
}

#[test]
fn a_caller_who_is_cancelled_between_the_round_trips_of_a_batch_was_told_of_none() {
    run(async {
        let store = store();
        let latest = tiered(&store, 1);
        let ids: Vec<(String, u64)> = (0..2_500).map(|id| (format!("{id}"), 6)).collect();
        for fault in [Fault::None, Fault::None, Fault::AnswersLate(TIMEOUT / 2)] {
            store.next(fault);
        }
        let cancelled = tokio::time::timeout(TIMEOUT / 10, latest.check_batch(&ids)).await;
        assert!(cancelled.is_err() && store.calls() == 3, "{} calls", store.calls());
        assert_eq!((latest.stats().in_doubt, latest.stats().given_up), (1_024, 2_500 - 1_024));
        let told = latest.check_batch(&ids).await;
        assert_eq!(told.into_iter().filter(|verdict| verdict.as_ref().unwrap().is_newer()).count(), 1_024);
        assert!(latest.check_batch(&ids).await.into_iter().all(|verdict| verdict.unwrap().is_known()));

        // Of 1,024, all are kept.
        let ids: Vec<(String, u64)> = (0..1_024).map(|id| (format!("again {id}"), 6)).collect();
        store.next(Fault::AnswersLate(TIMEOUT / 2));
        assert!(tokio::time::timeout(TIMEOUT / 10, latest.check_batch(&ids)).await.is_err());
        assert!(latest.check_batch(&ids).await.into_iter().all(|verdict| verdict.unwrap().is_newer()));
    });
}

#[test]
fn of_callers_who_share_an_attempt_one_is_newer_also_if_others_are_cancelled_or_fail() {
    run(async {
        let store = store();
        let latest = tiered(&store, 1);
        for (first_fault, second_fault) in [
            // The first one is cancelled, and the answer of the second is its.
            (Fault::AnswersLate(TIMEOUT / 2), Fault::None),
            // The second one's try is carried out, and its answer lost.
            (Fault::Delays(TIMEOUT / 4), Fault::LosesAnswer(ErrorKind::Unavailable)),
            (Fault::AnswersLate(TIMEOUT / 2), Fault::LosesAnswer(ErrorKind::Unavailable)),
        ] {
            let id = format!("{first_fault:?} {second_fault:?}");
            store.next(first_fault);
            store.next(second_fault);
            let patience = if first_fault == Fault::Delays(TIMEOUT / 4) { TIMEOUT } else { TIMEOUT / 4 };
            let first = tokio::time::timeout(patience, latest.check(&id, 6));
            let second = async {
                tokio::time::sleep(TIMEOUT / 8).await;
                latest.check(&id, 6).await
            };
            let (first, second) = tokio::join!(first, second);
            let mut newer = usize::from(first.is_ok_and(|told| told.unwrap().is_newer()));
            newer += usize::from(second.is_ok_and(VersionVerdict::is_newer));
            // Both messages come again.
            for _ in 0..2 {
                newer += usize::from(latest.check(&id, 6).await.unwrap().is_newer());
            }
            assert_eq!((newer, latest.stats().in_doubt), (1, 0), "{id}");
        }
    });
}

#[test]
fn what_memory_has_met_is_no_answer_for_an_attempt_that_is_in_doubt() {
    run(async {
        let store = store();
        let latest = tiered(&store, 1);
        store.next(Fault::LosesAnswer(ErrorKind::Timeout));
        assert_eq!(kind(latest.check("a", 6).await), ErrorKind::Timeout);
        // From the answer to another version memory knows this one, too.
        assert_eq!(latest.check("a", 5).await.unwrap(), VersionVerdict::Stale { known: 6 });
        assert_eq!(latest.check("a", 6).await.unwrap(), VersionVerdict::Newer);
        assert_eq!(latest.check("a", 6).await.unwrap(), VersionVerdict::Duplicate);
    });
}

#[test]
fn no_error_ends_a_doubt_about_an_earlier_try() {
    run(async {
        let store = store();
        let latest = tiered(&store, 2);
        // An answer that nobody can read is lost as well.
        store.next(Fault::LosesAnswer(ErrorKind::Corrupt));
        assert_eq!(kind(latest.check("a", 6).await), ErrorKind::Corrupt);
        store.next(Fault::Fails(ErrorKind::Misconfigured));
        assert_eq!(kind(latest.check("a", 6).await), ErrorKind::Misconfigured);
        assert_eq!(latest.check("a", 6).await.unwrap(), VersionVerdict::Newer);
        // Nor does the second try of one check.
        store.next(Fault::LosesAnswer(ErrorKind::Unavailable));
        store.next(Fault::Fails(ErrorKind::Misconfigured));
        assert_eq!(kind(latest.check("b", 6).await), ErrorKind::Misconfigured);
        assert_eq!(latest.check("b", 6).await.unwrap(), VersionVerdict::Newer);
        // Where nothing was done, there is no doubt.
        store.next(Fault::Fails(ErrorKind::Misconfigured));
        assert_eq!(kind(latest.check("c", 6).await), ErrorKind::Misconfigured);
        assert_eq!(latest.stats().in_doubt, 0);
    });
}

#[test]
fn memory_keeps_what_is_forgotten_in_the_store() {
    run(async {
        let store = store();
        let (here, elsewhere) = (tiered(&store, 1), tiered(&store, 1));
        assert!(here.check("a", 6).await.unwrap().is_newer());
        let forgotten = store.forget(&[RecordKey::new(&scope(), "a")]).await.unwrap().remove(0);
        assert!(forgotten.unwrap());
        assert_eq!(here.check("a", 6).await.unwrap(), VersionVerdict::Duplicate);
        assert_eq!(elsewhere.check("a", 6).await.unwrap(), VersionVerdict::Newer);
    });
}

#[test]
fn two_callers_with_one_version_are_never_both_newer() {
    run(async {
        let store = store();
        let latest = Arc::new(tiered(&store, 3));
        store.always(Fault::AnswersLate(TIMEOUT / 4));
        let mut callers = JoinSet::new();
        for _ in 0..8 {
            let latest = Arc::clone(&latest);
            callers.spawn(async move { latest.check("a", 6).await.unwrap() });
        }
        let answers = callers.join_all().await;
        assert_eq!(answers.iter().filter(|answer| answer.is_newer()).count(), 1, "{answers:?}");
    });
}

#[test]
fn errors_that_another_try_does_not_help_are_passed_on_at_once() {
    run(async {
        let store = store();
        let latest = tiered(&store, 3);
        let key = RecordKey::new(&scope(), "marked");
        let mark = Mark { key, attempt: 1, retention: Duration::from_secs(60) };
        store.inner().mark(&[mark]).await.unwrap();
        let answers = latest.check_batch(&[("marked", 6), ("a", 6)]).await;
        assert_eq!(answers[0].as_ref().unwrap_err().kind(), ErrorKind::Misconfigured);
        assert_eq!(answers[1].as_ref().unwrap(), &VersionVerdict::Newer);
        assert_eq!((store.calls(), latest.stats().in_doubt), (1, 0));
        // One of a batch that fails is asked for again by itself.
        store.next(Fault::FailsOne(ErrorKind::Unavailable));
        let answers = latest.check_batch(&[("b", 1), ("c", 1)]).await;
        assert!(answers.into_iter().all(|answer| answer.unwrap().is_newer()));
        assert_eq!((store.calls(), store.requests()), (3, 5));
    });
}

#[test]
fn doubts_are_bounded_and_the_oldest_go() {
    run(async {
        let store = store();
        let latest = tiered(&store, 1);
        store.always(Fault::Fails(ErrorKind::Unavailable));
        for id in 0..1_100_u32 {
            assert_eq!(kind(latest.check(id.to_le_bytes(), 1).await), ErrorKind::Unavailable);
        }
        let stats = latest.stats();
        assert_eq!((stats.in_doubt, stats.given_up), (1_024, 76));
    });
}

#[test]
fn options_that_make_no_sense_are_named() {
    let builder = || TieredLatest::builder(InMemoryStore::new(), scope());
    let refused = |built: Result<TieredLatest<InMemoryStore>, StoreError>| built.unwrap_err().to_string();
    assert!(refused(builder().tries(0).build()).contains("`tries`"));
    assert!(refused(builder().retention(Duration::ZERO).build()).contains("`retention`"));
    assert!(refused(builder().timeout(Duration::ZERO).build()).contains("`timeout`"));
    let shorter = builder().retention(Duration::from_secs(599)).build().unwrap_err();
    let names = shorter.to_string().contains("`retention`") && shorter.to_string().contains("the memory's retention");
    assert!(shorter.kind() == ErrorKind::Misconfigured && names, "{shorter}");
    assert!(builder().retention(Duration::from_secs(600)).build().is_ok());
    let memory = Latest::builder().event_time(hapax::EventTime::unrelated());
    assert!(refused(builder().memory(memory).build()).contains("`memory`"));
    let memory = Latest::builder().capacity(0);
    let error = builder().memory(memory).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
}

/// Two processes, a store that loses answers and hangs, callers who give up, and messages that come
/// again until they are answered: each version is newer once at most, as long as no process loses
/// its attempts; and in one process alone, exactly once unless a higher one has come.
fn sequence(seed: u64) {
    run(async {
        let mut random = Random(seed);
        let store = store();
        store.at_random(
            seed,
            [
                (100, Fault::LosesAnswer(ErrorKind::Unavailable)),
                (50, Fault::Fails(ErrorKind::Timeout)),
                (50, Fault::AnswersLate(2 * TIMEOUT)),
                (20, Fault::Hangs),
            ],
        );
        let processes: Vec<_> = (0..1 + random.below(2)).map(|_| Arc::new(tiered(&store, 2))).collect();
        let passed: Arc<Mutex<HashMap<(u64, u64), u32>>> = Arc::default();
        let mut callers = JoinSet::new();
        for caller in 0..4 {
            let mut random = random.fork();
            let latest = Arc::clone(&processes[caller % processes.len()]);
            let passed = Arc::clone(&passed);
            callers.spawn(async move {
                for step in 0..40 {
                    let (id, version) = (random.below(3), step + random.below(4));
                    // A message comes again until there is an answer; some callers give up first.
                    loop {
                        let patience = random.millis(50, 2_000);
                        let check = latest.check(id.to_le_bytes(), version);
                        match tokio::time::timeout(patience, check).await {
                            Ok(Ok(verdict)) => {
                                if verdict.is_newer() {
                                    *passed.lock().unwrap().entry((id, version)).or_default() += 1;
                                }
                                break;
                            }
                            Ok(Err(error)) => assert!(error.kind().is_transient(), "seed {seed}: {error}"),
                            Err(_) => {}
                        }
                    }
                }
            });
        }
        callers.join_all().await;
        let passed = passed.lock().unwrap().clone();
        assert!(passed.values().all(|times| *times == 1), "seed {seed}: {passed:?}");
        for id in 0..3_u64 {
            let key = RecordKey::new(&scope(), id.to_le_bytes());
            let highest = store.inner().versions(&[key]).await.unwrap().remove(0).unwrap().expect("a version");
            let told = passed.keys().filter(|(other, _)| *other == id).map(|(_, version)| *version).max();
            // With several processes, an answer that is lost in one may be a duplicate in another.
            let is_right = if processes.len() == 1 { told == Some(highest) } else { told <= Some(highest) };
            assert!(is_right, "seed {seed}, id {id}: {told:?}, but the store has {highest}");
        }
    });
}

#[test]
fn no_version_passes_twice_whatever_answers_are_lost() {
    let first = std::env::var("HAPAX_SEED").map_or(1, |seed| seed.parse().expect("HAPAX_SEED is no number"));
    println!("HAPAX_SEED={first}");
    (first..first + 60).for_each(sequence);
}
