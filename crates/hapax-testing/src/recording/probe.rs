//! Probes: calls of one thread at the edges of the window and of leases, to the nanosecond. Threads
//! whose clocks differ never ask at exactly these times.

use super::workload::{Call, Workload};
use crate::subject::{Semantics, Time};
use hapax::Timestamp;
use std::time::Duration;

/// The number of times that each edge is asked for: subjects that count in steps of their own
/// differ by the place within a step.
const ROUNDS: u64 = 4;

/// The first of the ids, which no workload has.
const FIRST: u64 = 0b101 << 61;

/// The latest time that is asked for: far from the end of what a timestamp can be.
const END: u64 = u64::MAX / 2;

/// Returns the calls, in their order. They begin when everything that was accepted up to a time is
/// over. There are none for a subject that reads a clock of its own.
pub(crate) fn probes(workload: &Workload, semantics: &Semantics, after: Timestamp) -> Vec<(Timestamp, Call)> {
    let mut calls = Vec::new();
    if semantics.time == Time::Own || semantics.window.is_zero() {
        return calls;
    }
    let edges = edges(semantics.window, semantics.slack);
    let Some(&last) = edges.last() else { return calls };
    let mut start = after.as_nanos();
    for round in 0..ROUNDS {
        // Another place within a step each time.
        let pause = last.saturating_add(1).saturating_add(last / 7 * round);
        start = start.saturating_add(pause);
        if start.saturating_add(last) > END {
            return calls;
        }
        calls.extend(self::round(workload, semantics, &edges, start, round));
        start = start.saturating_add(last);
    }
    calls
}

/// Returns the ages at which something changes, and those next to them.
fn edges(length: Duration, slack: Duration) -> Vec<u64> {
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).ok();
    let around = |age: u64| [age.saturating_sub(1), age, age.saturating_add(1)];
    let ends = nanos(length);
    let gone = nanos(length.saturating_add(slack));
    let mut edges: Vec<_> = ends.into_iter().chain(gone).filter(|&age| age < END).flat_map(around).collect();
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// Returns the calls of one round: each edge has ids of its own, as an answer may change what
/// follows.
fn round(
    workload: &Workload,
    semantics: &Semantics,
    edges: &[u64],
    start: u64,
    round: u64,
) -> impl Iterator<Item = (Timestamp, Call)> {
    let mut ids = ids(workload, round);
    let mut calls: Vec<(u64, Call)> = Vec::new();
    let last = edges.last().copied().unwrap_or(0);
    for (&age, id) in edges.iter().zip(ids.by_ref()) {
        calls.extend([(0, Call::Check(id)), (age, Call::Check(id))]);
        if Some(&age) == edges.first() {
            // Has the duplicate extended its stay?
            calls.push((last, Call::Check(id)));
        }
    }
    let batch: Vec<_> = ids.by_ref().take(edges.len()).collect();
    calls.extend(edges.iter().zip(&batch).map(|(&age, &id)| (age, Call::Batch(vec![id, id]))));
    calls.push((0, Call::Batch(batch)));
    if workload.claims > 0 || workload.leases > 0 {
        for (&age, id) in edges.iter().zip(ids.by_ref()) {
            let claim = |completes| Call::Claim { id, hold: 0, completes };
            calls.extend([(0, claim(true)), (age, claim(false))]);
        }
    }
    if let Some(lease) = semantics.lease.filter(|_| workload.leases > 0) {
        for (age, id) in self::edges(lease, semantics.slack).into_iter().zip(ids) {
            // It is held beyond all edges.
            let hold = Duration::from_nanos(last.max(age).saturating_add(1));
            let claim = Call::Lease { id, fingerprint: 0, hold, renew_after: None, completes: false };
            calls.extend([(0, claim), (age, Call::Check(id))]);
        }
    }
    calls.sort_by_key(|call| call.0);
    calls.into_iter().map(move |(age, call)| (Timestamp::from_nanos(start.saturating_add(age)), call))
}

/// Returns ids that nobody has asked for, or, if only certain ones may be used, each of these.
fn ids(workload: &Workload, round: u64) -> impl Iterator<Item = u64> {
    let mut only = workload.only.clone();
    only.sort_unstable();
    only.dedup();
    let own = (FIRST + (round << 32)..).take_while({
        let is_empty = only.is_empty();
        move |_| is_empty
    });
    own.chain(only)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_nanos(1_000);

    /// Returns the ages at which the ids of single checks are asked for again.
    fn ages(workload: &Workload, semantics: &Semantics) -> Vec<u64> {
        let calls = probes(workload, semantics, Timestamp::from_nanos(500));
        assert!(calls.is_sorted_by_key(|call| call.0), "{calls:?}");
        let mut first = std::collections::HashMap::new();
        let age = |(at, call): &(Timestamp, Call)| {
            let Call::Check(id) = call else { return None };
            let age = at.as_nanos() - *first.entry(*id).or_insert(at.as_nanos());
            (age > 0).then_some(age)
        };
        let mut ages: Vec<_> = calls.iter().filter_map(age).collect();
        ages.sort_unstable();
        ages.dedup();
        ages
    }

    #[test]
    fn the_edges_are_those_of_the_window_and_of_the_slack() {
        let workload = Workload::of_window(WINDOW);
        let exact = Semantics::of_window(WINDOW);
        assert_eq!(ages(&workload, &exact), [999, 1_000, 1_001]);
        let slack = Semantics { slack: Duration::from_nanos(20), ..exact };
        assert_eq!(ages(&workload, &slack), [999, 1_000, 1_001, 1_019, 1_020, 1_021]);
        let endless = Semantics { slack: Duration::MAX, ..exact };
        assert_eq!(ages(&workload, &endless), [999, 1_000, 1_001]);
        assert!(probes(&workload, &Semantics { time: Time::Own, ..exact }, Timestamp::default()).is_empty());
        // Where time ends there is nothing to ask for.
        assert!(probes(&workload, &exact, Timestamp::from_nanos(u64::MAX - 5)).is_empty());
    }

    #[test]
    fn what_was_accepted_before_is_over() {
        let semantics = Semantics { slack: Duration::from_nanos(20), ..Semantics::of_window(WINDOW) };
        let calls = probes(&Workload::of_window(WINDOW), &semantics, Timestamp::from_nanos(500));
        assert!(calls[0].0.as_nanos() >= 500 + 1_020, "{calls:?}");
    }

    #[test]
    fn only_the_workloads_ids_are_used_if_it_names_them() {
        let workload = Workload { only: vec![7, 9, 7], ..Workload::of_window(WINDOW) };
        for (_, call) in probes(&workload, &Semantics::of_window(WINDOW), Timestamp::default()) {
            let ids = match call {
                Call::Check(id) => vec![id],
                Call::Batch(ids) => ids,
                other => panic!("{other:?}"),
            };
            assert!(ids.iter().all(|id| [7, 9].contains(id)), "{ids:?}");
        }
    }
}
