//! A checker that tries everything, and the real one beside it, on tiny histories.

use crate::checker::check::{Given, effective_times};
use crate::checker::state::Effective;
use crate::{Event, Interval, Operation, Semantics, Time, check_history};
use Event::{
    Claimed, Completed, Duplicate, Evict, Forget, Fresh, InProgress, Lost, Mismatch, Released, Renewed, Unanswered,
};
use hapax::Timestamp;
use proptest::prelude::*;
use std::collections::HashSet;
use std::time::Duration;

/// Tries every order, every time and every choice.
fn brute_force(operations: &[Operation], semantics: &Semantics, evicted: u64) -> bool {
    let end = operations
        .iter()
        .map(|operation| {
            if operation.is_optional() { operation.at } else { operation.until.max(operation.at) }.as_nanos()
        })
        .max()
        .unwrap_or(0);
    let effective = naive_times(operations, semantics.time);
    let done = vec![false; operations.len()];
    let mut all = Everything { operations, effective, semantics, end, done, tried: HashSet::new() };
    all.search(None, evicted, 0)
}

fn naive_times(operations: &[Operation], time: Time) -> Vec<Effective> {
    let at = |operation: &Operation| operation.at.as_nanos();
    let times = |one: &Operation| {
        match time {
            Time::AsGiven => return Effective { earliest: at(one), latest: at(one) },
            Time::Own if one.is_optional() => return Effective { earliest: at(one), latest: u64::MAX },
            Time::Own => return Effective { earliest: at(one), latest: one.until.as_nanos() },
            Time::LargestSoFar => {}
        }
        let told =
            operations.iter().filter(|o| o.event.is_check() && o.interval.returned < one.interval.invoked).map(at);
        let given = operations.iter().filter(|o| o.interval.invoked <= one.interval.returned).map(at);
        let latest = if one.is_optional() { u64::MAX } else { given.max().unwrap_or(0) };
        Effective { earliest: told.chain([at(one)]).max().unwrap_or(0), latest }
    };
    operations.iter().map(times).collect()
}

struct Everything<'a> {
    operations: &'a [Operation],
    effective: Vec<Effective>,
    semantics: &'a Semantics,
    end: u64,
    done: Vec<bool>,
    /// The ways that were tried already, or are being tried: what is done, what is known, the rest.
    tried: HashSet<(Vec<bool>, Option<Known>, u64, u64)>,
}

/// The state of the id.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Known {
    Accepted { at: u64, fingerprint: u8 },
    Claimed { holder: (u16, u32), since: u64, fingerprint: u8 },
}

impl Everything<'_> {
    /// Returns true if the rest can follow on the state of the id, given the remaining evictions,
    /// and given that operations without an end took no earlier time than this.
    fn search(&mut self, known: Option<Known>, evictions: u64, open_until: u64) -> bool {
        if (0..self.operations.len()).all(|i| self.done[i] || self.operations[i].is_optional()) {
            return true;
        }
        if !self.tried.insert((self.done.clone(), known, evictions, open_until)) {
            return false;
        }
        let forgets_again = |i| self.may_happen_again(i) && self.forgets(i, known);
        if known.is_some() && (0..self.operations.len()).any(forgets_again) && self.search(None, evictions, open_until)
        {
            return true;
        }
        if (0..self.operations.len()).any(|i| self.accepts_before(i, known, evictions, open_until)) {
            return true;
        }
        let may_happen = |all: &Self, i| all.may_be_next(i) || all.may_accept_again(i);
        (0..self.operations.len()).any(|i| may_happen(self, i) && self.happens(i, known, evictions, open_until))
    }

    /// Returns true if an operation is a check that has found the id fresh, and has not returned
    /// yet.
    fn may_accept_again(&self, i: usize) -> bool {
        let one = &self.operations[i];
        let is_over = |j: usize| self.done[j] && one.interval.returned < self.operations[j].interval.invoked;
        let repeatable = self.semantics.accepts_meanwhile && one.event == Fresh && self.done[i];
        repeatable && !(0..self.operations.len()).any(is_over)
    }

    /// Returns true if the rest can follow when a check that finds the id in progress has accepted
    /// it before.
    fn accepts_before(&mut self, i: usize, known: Option<Known>, evictions: u64, open_until: u64) -> bool {
        let Effective { earliest, latest } = self.effective[i];
        let may = self.semantics.accepts_meanwhile && self.operations[i].event == InProgress && self.may_be_next(i);
        if !may || open_until > latest {
            return false;
        }
        let accepts = Operation { event: Fresh, ..self.operations[i] };
        (earliest..=latest.min(self.end)).any(|time| {
            let next = self.answers(accepts, known, time).into_iter().filter(|(_, cost)| *cost == 0);
            next.map(|(next, _)| next).any(|next| self.search(next, evictions, open_until))
        })
    }

    fn may_be_next(&self, i: usize) -> bool {
        let one = &self.operations[i];
        let before = |j: usize| {
            let other = &self.operations[j];
            let earlier_in_thread = j < i && other.thread == one.thread && !other.is_optional();
            other.interval.returned < one.interval.invoked || earlier_in_thread
        };
        !self.done[i] && (0..self.operations.len()).all(|j| self.done[j] || !before(j))
    }

    /// Returns true if an operation forgets, and has done so, and has not returned yet.
    fn may_happen_again(&self, i: usize) -> bool {
        let one = &self.operations[i];
        let after = |j: usize| {
            let other = &self.operations[j];
            one.interval.returned < other.interval.invoked || (other.thread == one.thread && j > i)
        };
        let repeatable = self.semantics.forgets_meanwhile && one.event == Forget && self.done[i];
        repeatable && !(0..self.operations.len()).any(|j| self.done[j] && after(j))
    }

    /// Returns true if an operation that forgets can do so at any of its times: a claimed id takes
    /// one at which its lease has ended.
    fn forgets(&self, i: usize, known: Option<Known>) -> bool {
        let Effective { earliest, latest } = self.effective[i];
        (earliest..=latest.min(self.end)).any(|time| !self.answers(self.operations[i], known, time).is_empty())
    }

    fn happens(&mut self, i: usize, known: Option<Known>, evictions: u64, open_until: u64) -> bool {
        let Effective { earliest, latest } = self.effective[i];
        // An operation without an end that happened before this one took no later time than this
        // one may.
        if open_until > latest {
            return false;
        }
        let was_done = std::mem::replace(&mut self.done[i], true);
        let found = (earliest..=latest.min(self.end)).any(|time| {
            let open_until = if latest == u64::MAX { open_until.max(time) } else { open_until };
            self.answers(self.operations[i], known, time)
                .into_iter()
                .filter(|(_, cost)| *cost == 0 || !was_done)
                .any(|(next, cost)| evictions >= cost && self.search(next, evictions - cost, open_until))
        });
        self.done[i] = was_done;
        found
    }

    /// Returns the possible effects of an operation at a time, and the number of evictions that
    /// each takes.
    fn answers(&self, one: Operation, known: Option<Known>, time: u64) -> Vec<(Option<Known>, u64)> {
        let window = self.semantics.window.as_nanos() as u64;
        let slack = self.semantics.slack.as_nanos() as u64;
        let lease = self.semantics.lease.map(|lease| lease.as_nanos() as u64);
        let Operation { event, thread, claim, fingerprint, .. } = one;
        let (since, is_claimed, of_known) = match known {
            Some(Known::Accepted { at, fingerprint }) => (Some(at), false, fingerprint),
            Some(Known::Claimed { since, fingerprint, .. }) => (Some(since), true, fingerprint),
            None => (None, false, 0),
        };
        let age = since.map(|since| time.saturating_sub(since));
        let remembered = !is_claimed && age.is_some_and(|age| age < window + slack);
        let keeps_out = is_claimed && lease.is_none_or(|lease| age.is_some_and(|age| age < lease + slack));
        // (A time before the beginning is none at which the lease has ended.)
        let lapsed = is_claimed && lease.is_some_and(|lease| since.is_some_and(|since| time >= since + lease));
        let is_mine = matches!(known, Some(Known::Claimed { holder, .. }) if holder == (thread, claim));
        let differs = of_known != 0 && fingerprint != 0 && of_known != fingerprint;
        let seen = match known {
            Some(Known::Accepted { at, fingerprint }) if self.semantics.refresh_on_duplicate => {
                Some(Known::Accepted { at: at.max(time), fingerprint })
            }
            known => known,
        };
        let early = u64::from(!is_claimed && age.is_some_and(|age| age < window));
        let held = |fingerprint| Some(Known::Claimed { holder: (thread, claim), since: time, fingerprint });
        let free = |next| (!is_claimed || lapsed).then_some((next, early));
        let fresh = free(Some(Known::Accepted { at: time, fingerprint: 0 }));
        let duplicate = remembered.then_some((seen, 0));
        let only = |possible: bool, next| possible.then_some((next, 0)).into_iter().collect();
        match event {
            Fresh => fresh.into_iter().collect(),
            Duplicate => duplicate.into_iter().collect(),
            Unanswered => duplicate.into_iter().chain(fresh).collect(),
            Forget => only(!is_claimed || lapsed, None),
            Evict => only(true, known.filter(|_| is_claimed)),
            Claimed => free(held(fingerprint)).into_iter().collect(),
            InProgress => only(keeps_out, known),
            Completed => only(is_mine, Some(Known::Accepted { at: time, fingerprint: of_known })),
            Released => only(is_mine, None),
            Renewed => only(is_mine, held(of_known)),
            Lost => only(!is_mine || lapsed, known),
            Mismatch => only(differs && (keeps_out || remembered), known),
        }
    }
}

/// The columns of a row: thread, times (pause, length, at, until), event, claim, fingerprint.
type Row = (u16, (u64, u64, u64, u64), Event, u32, u8);

/// Generates tiny histories of one id: the operations of each of three threads, one after the
/// other.
fn tiny() -> impl Strategy<Value = Vec<Operation>> {
    let event = prop_oneof![
        4 => Just(Fresh), 4 => Just(Duplicate), 1 => Just(Unanswered), 2 => Just(Forget), 1 => Just(Evict),
        4 => Just(Claimed), 2 => Just(InProgress), 3 => Just(Completed), 1 => Just(Released),
        2 => Just(Renewed), 2 => Just(Lost), 2 => Just(Mismatch),
    ];
    let times = (0..6_u64, 0..4_u64, 0..8_u64, 0..3_u64);
    let operation = (0..3_u16, times, event, 0..2_u32, 0..3_u8);
    prop::collection::vec(operation, 1..6).prop_map(|rows| {
        let mut free = [0; 3];
        let operation = |(thread, (pause, length, at, took), event, claim, fingerprint): Row| {
            let invoked = free[usize::from(thread)] + pause;
            let returned = invoked + length;
            free[usize::from(thread)] = returned;
            let returned = if event == Unanswered { Interval::NEVER } else { returned };
            let (at, until) = (Timestamp::from_nanos(at), Timestamp::from_nanos(at + took));
            let interval = Interval { invoked, returned };
            Operation { id: 1, at, until, interval, token: 0, claim, batch: 0, thread, event, fingerprint }
        };
        rows.into_iter().map(operation).collect()
    })
}

/// Returns the operations with the times that a recorder measures: their order is that of the
/// stamps.
fn measured(operations: Vec<Operation>) -> Vec<Operation> {
    let time = |operation: Operation| Operation {
        at: Timestamp::from_nanos(operation.interval.invoked),
        until: Timestamp::from_nanos(operation.interval.returned),
        ..operation
    };
    operations.into_iter().map(time).collect()
}

/// Forgetting an id may also forget a claim of it whose lease has ended meanwhile, again.
#[test]
fn a_claim_that_has_lapsed_meanwhile_is_forgotten_again() {
    let row = |thread, (invoked, returned), at, event| {
        let (at, interval) = (Timestamp::from_nanos(at), Interval { invoked, returned });
        Operation { id: 1, at, until: at, interval, thread, event, ..Operation::default() }
    };
    let operations =
        [row(2, (2, 3), 0, Claimed), row(1, (1, 4), 2, Forget), row(1, (4, 4), 0, Fresh), row(2, (3, 3), 0, Claimed)];
    for forgets_meanwhile in [false, true] {
        let nanos = Duration::from_nanos;
        let (lease, time) = (Some(nanos(2)), Time::AsGiven);
        let semantics = Semantics { forgets_meanwhile, lease, time, ..Semantics::of_window(nanos(3)) };
        assert_eq!(check_history(&operations, &semantics, 0).is_ok(), forgets_meanwhile);
        assert_eq!(brute_force(&operations, &semantics, 0), forgets_meanwhile);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::tests::judged::long(4_000, 20_000)))]

    #[test]
    fn the_checker_finds_what_trying_everything_finds(
        operations in tiny(), refresh_on_duplicate: bool, forgets_meanwhile: bool, accepts_meanwhile: bool, rule in 0..3_usize, leases: bool,
        evicted in 0..3_u64,
    ) {
        let time = [Time::LargestSoFar, Time::AsGiven, Time::Own][rule];
        let operations = if time == Time::Own { measured(operations) } else { operations };
        let (window, slack) = (Duration::from_nanos(3), Duration::from_nanos(2));
        let lease = leases.then_some(Duration::from_nanos(2));
        let semantics =
            Semantics { window, slack, refresh_on_duplicate, forgets_meanwhile, accepts_meanwhile, time, lease };
        prop_assert_eq!(effective_times(&operations, time, &mut Given::default()), naive_times(&operations, time));
        let checked = check_history(&operations, &semantics, evicted);
        let tried = brute_force(&operations, &semantics, evicted);
        // An operation that gave no answer, and may have refreshed or accepted the id anew, is
        // assumed to have done any of these.
        let approximate = refresh_on_duplicate && operations.iter().any(|operation| operation.event == Unanswered);
        prop_assert!(checked.is_ok() == tried || (approximate && checked.is_ok()), "{:?}, tried {}", checked, tried);
    }
}
