//! Closures that are right pass, closures that are wrong do not, whatever their ids and answers.

use super::*;
use crate::{Semantics, Subject, Time, Workload, verify};
use hapax::{Outcome, Timestamp};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(60);

fn workload() -> Workload {
    Workload { operations: 20_000, skew: Duration::ZERO, ..Workload::of_window(WINDOW) }
}

fn semantics() -> Semantics {
    Semantics { time: Time::AsGiven, ..Semantics::of_window(WINDOW) }
}

/// The time at which each id was accepted.
struct Seen<I>(Mutex<HashMap<I, Timestamp>>);

impl<I: Hash + Eq> Seen<I> {
    fn new() -> Self {
        Seen(Mutex::default())
    }

    fn has(&self, id: &I, at: Timestamp) -> bool {
        self.0.lock().unwrap().get(id).is_some_and(|&then| at < then + WINDOW)
    }

    fn insert(&self, id: I, at: Timestamp) {
        self.0.lock().unwrap().insert(id, at);
    }

    /// Looks and inserts at once. Returns true if the id is fresh.
    fn is_fresh(&self, id: I, at: Timestamp) -> bool {
        let mut seen = self.0.lock().unwrap();
        let is_fresh = seen.get(&id).is_none_or(|&then| at >= then + WINDOW);
        if is_fresh {
            seen.insert(id, at);
        }
        is_fresh
    }
}

#[test]
fn ids_are_numbers_texts_or_bytes() {
    fn accepts<I: SubjectId + Hash + Eq + Send>() {
        let seen = Seen::<I>::new();
        let subject = subject_fn(|id: I, at| seen.is_fresh(id, at));
        verify(&subject, &workload(), &semantics()).unwrap();
    }
    accepts::<u64>();
    accepts::<String>();
    accepts::<Vec<u8>>();
}

#[test]
fn a_closure_that_looks_and_then_inserts_is_rejected() {
    rejected(|| {
        let seen = Seen::new();
        let subject = subject_fn(|id: String, at| {
            let is_fresh = !seen.has(&id, at);
            std::thread::yield_now();
            if is_fresh {
                seen.insert(id, at);
            }
            is_fresh
        });
        verify(&subject, &workload(), &semantics()).is_err()
    });
}

/// Checks that a subject which is wrong is seen to be: in its first run, unless others leave its
/// threads a part of one processor, where they seldom meet.
fn rejected(mut is_seen: impl FnMut() -> bool) {
    assert!((0..100).any(|_| is_seen()), "it passes a hundred times");
}

#[test]
fn answers_are_what_they_say() {
    let at = Timestamp::from_secs(1);
    let check = |subject: &dyn Subject| subject.check(7, at);
    assert_eq!(check(&subject_fn(|id: u64, _| id == 7)), Some(Outcome::Fresh));
    assert_eq!(check(&subject_fn(|id: String, _| id != "id-7")), Some(Outcome::Duplicate));
    assert_eq!(check(&subject_fn(|_: u64, _| Outcome::Fresh)), Some(Outcome::Fresh));
    assert_eq!(check(&subject_fn(|_: u64, _| None::<bool>)), None);
    assert_eq!(check(&subject_fn(|_: u64, _| Err::<bool, _>("away"))), None);
    let (same, forgets) = (subject_fn(|_: u64, given| given == at), Mutex::new(Vec::new()));
    assert_eq!(check(&same), Some(Outcome::Fresh));
    assert!(!same.forget(7, at), "it cannot");
    let subject = same.with_forget(|id, at| forgets.lock().unwrap().push((id, at)));
    assert!(subject.forget(7, at));
    assert_eq!(*forgets.lock().unwrap(), [(7, at)]);
}

#[test]
fn a_closure_that_forgets_is_asked_to() {
    let seen = Seen::new();
    let subject = subject_fn(|id: u64, at| seen.is_fresh(id, at));
    let forgetful = subject.with_forget(|id, _| {
        seen.0.lock().unwrap().remove(&id);
    });
    let workload = Workload { forgets: 5, ..workload() };
    verify(&forgetful, &workload, &semantics()).unwrap();

    let seen = Seen::new();
    let subject = subject_fn(|id: u64, at| seen.is_fresh(id, at)).with_forget(|_, _| {});
    verify(&subject, &workload, &Semantics { forgets_meanwhile: false, accepts_meanwhile: false, ..semantics() })
        .unwrap_err();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_future_that_does_one_thing_at_once_passes_and_one_that_waits_in_between_does_not() {
    let (runtime, seen) = (runtime(), Seen::new());
    let seen = &seen;
    let right = subject_async(runtime.handle().clone(), PATIENCE, |id: String, at| async move {
        tokio::task::yield_now().await;
        let is_fresh = seen.is_fresh(id, at);
        tokio::task::yield_now().await;
        is_fresh
    });
    verify(&right, &workload(), &semantics()).unwrap();

    rejected(|| {
        let seen = &Seen::new();
        let wrong = subject_async(runtime.handle().clone(), PATIENCE, |id: String, at| async move {
            let is_fresh = !seen.has(&id, at);
            std::thread::yield_now();
            tokio::task::yield_now().await;
            if is_fresh {
                seen.insert(id, at);
            }
            Ok::<bool, std::io::Error>(is_fresh)
        });
        verify(&wrong, &workload(), &semantics()).is_err()
    });
}

/// One call in a hundred never returns, after it has inserted or before: nobody knows, and both are
/// right.
#[test]
fn a_call_that_never_returns_has_no_answer() {
    let (runtime, seen) = (runtime(), Seen::new());
    let seen = &seen;
    let hangs = subject_async(runtime.handle().clone(), Duration::from_millis(1), |id: u64, at| async move {
        match hapax::seam::random::hash([id, at.as_nanos(), 0]) % 200 {
            0 => std::future::pending().await,
            1 => {
                seen.is_fresh(id, at);
                std::future::pending().await
            }
            _ => seen.is_fresh(id, at),
        }
    });
    assert!(verify(&hangs, &Workload { operations: 4_000, ..workload() }, &semantics()).is_ok());
    assert!((0..1_000).any(|id| hangs.check(id, Timestamp::from_secs(1_000_000)).is_none()), "none of a thousand");
}
