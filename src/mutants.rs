//! The real engine without one rule of its protocol: recorded histories notice it.
//!
//! The tested rules are those whose absence shows within a second or so on threads that are
//! interrupted now and then where a rule is asked for (without these interruptions, on one
//! processor nothing shows). The others matter only if a thread is interrupted at one of a few
//! instructions while others do a certain thing (`ValidView`, `SourceAgain`, `HomeFirst`,
//! `CancelReserved`, `NewestAgain`, `ForgetAgain`, `SweepWhileDue`, `SweepAgain`, …), on weaker
//! memory (`Acquire`, `NewestInOrder`, `SweptInOrder`), or with clocks that differ at one moment
//! (`KeepGrace`, `CountKept`, `FlagGrace`, `RefreshLater`): the models and the explorer test these.
//! They also test those of claims, to `AnnounceFirst`, `AnnounceInOrder`, `KeepTakenBack` and
//! `TokenHolds` (here, leases last).

use crate::digest::Digester;
use crate::long::long;
use crate::mutation::{Rule, be_interrupted, leave_out};
use crate::window::scale;
use crate::{Dedup, Forgotten, Int};
use hapax_testing::hapax::{Outcome, Timestamp};
use hapax_testing::{Attempt, Lease, Semantics, Subject, Workload, verify};
use std::time::Duration;

const WINDOW: Duration = Duration::from_millis(100);
const SEED: u64 = 7;

/// The engine, on threads that leave out a rule.
struct Without {
    rule: Option<Rule>,
    dedup: Dedup,
}

impl Without {
    fn begin(&self) {
        leave_out(self.rule);
        be_interrupted();
    }

    /// Forgetting and claiming take no time, so an engine that was not told one would read its
    /// clock.
    fn tell(&self, at: Timestamp) {
        self.dedup.check_batch_at([] as [&str; 0], here(at), &mut Vec::new());
    }
}

/// This crate under test is another one than that which `hapax_testing` is written for.
fn here(at: Timestamp) -> crate::Timestamp {
    crate::Timestamp::from_nanos(at.as_nanos())
}

fn told(outcome: crate::Outcome) -> Outcome {
    match outcome {
        crate::Outcome::Fresh => Outcome::Fresh,
        crate::Outcome::Duplicate => Outcome::Duplicate,
        crate::Outcome::InProgress => Outcome::InProgress,
        crate::Outcome::Refused(refusal) => panic!("{refusal:?}, with times that are no events'"),
    }
}

struct Held<'w>(&'w Without, crate::Claim<'w>);

impl Lease for Held<'_> {
    fn end(self: Box<Self>, completes: bool, at: Timestamp) -> bool {
        self.0.tell(at);
        if completes { self.1.complete().is_ok() } else { self.1.release().is_ok() }
    }
}

impl Subject for Without {
    fn check(&self, id: u64, at: Timestamp) -> Option<Outcome> {
        self.begin();
        Some(told(self.dedup.check_at(Int::from(id), here(at)).outcome()))
    }

    fn check_batch(&self, ids: &[u64], at: Timestamp, answers: &mut Vec<Option<Outcome>>) {
        self.begin();
        let mut verdicts = Vec::new();
        self.dedup.check_batch_at(ids.iter().copied().map(Int::from), here(at), &mut verdicts);
        answers.extend(verdicts.iter().map(|verdict| Some(told(verdict.outcome()))));
    }

    fn forget(&self, id: u64, at: Timestamp) -> bool {
        self.begin();
        self.tell(at);
        self.dedup.forget(Int::from(id)) != Forgotten::InProgress
    }

    fn claim(&self, id: u64, at: Timestamp) -> Option<Attempt<'_>> {
        self.begin();
        self.tell(at);
        Some(match self.dedup.claim(Int::from(id)) {
            crate::Attempt::Claimed(claim) => Attempt::Claimed(Box::new(Held(self, claim))),
            crate::Attempt::Duplicate(_) => Attempt::Duplicate,
            _ => Attempt::InProgress,
        })
    }

    fn evicted(&self) -> u64 {
        self.dedup.evicted_live()
    }
}

/// The configuration and the workload of an engine.
struct Situation {
    name: &'static str,
    refresh: bool,
    grows: bool,
    workload: Workload,
}

/// Returns ids whose home is in a few buckets of the smallest table.
fn crowd(ids: usize, buckets: usize) -> Vec<u64> {
    const BUCKETS: usize = 1024;
    let digester = Digester::with_seed(SEED);
    let home = |id: &u64| scale(digester.digest(Int::from(*id)).place, BUCKETS);
    (0..).filter(|id| home(id) < buckets).take(ids).collect()
}

fn situations() -> Vec<Situation> {
    let base =
        Workload { threads: 3, operations: 100_000, operations_per_window: 4_000, ..Workload::of_window(WINDOW) };
    let crowded = Workload { only: crowd(160, 16), forgets: 3, ..base.clone() };
    let skewed = Workload { skew: WINDOW / 4, forgets: 0, ..crowded.clone() };
    // So few operations a tick that a thread which is interrupted is late.
    let slow = Workload { operations_per_window: 300, ..crowded.clone() };
    // Few ids, so that callers meet.
    let claiming = Workload { claims: 30, ids: 500, operations_per_window: 20_000, forgets: 0, ..base.clone() };
    let meeting = Workload { claims: 50, ids: 50, ..claiming.clone() };
    let growing = Workload { operations_per_window: 50_000, ids: 30_000, forgets: 3, ..base };
    let one_by_one = Workload { batches: 0, forgets: 0, ..crowded.clone() };
    let situation = |name, refresh, grows, workload| Situation { name, refresh, grows, workload };
    vec![
        situation("crowded", false, false, crowded.clone()),
        situation("crowded, refreshing", true, false, crowded),
        situation("crowded, one by one", false, false, one_by_one),
        situation("crowded, skewed", false, false, skewed),
        situation("slow", false, false, slow),
        situation("claiming", false, true, claiming),
        situation("meeting", false, true, meeting),
        situation("growing", false, true, growing.clone()),
        situation("growing, refreshing", true, true, growing),
    ]
}

/// Returns situations with so many seeds: those of the kind where the flaw is likely to be noticed;
/// then the others, with a twentieth as many, since each takes a second or more.
fn situations_from(likely: &str, seeds: u64) -> impl Iterator<Item = (u64, Situation)> {
    let of_seed = |seed| situations().into_iter().map(move |situation| (seed, situation));
    let is_likely = move |situation: &Situation| situation.name.starts_with(likely);
    let first = (0..seeds).flat_map(of_seed).filter(move |(_, situation)| is_likely(situation));
    let others = (0..seeds / 20).flat_map(of_seed).filter(move |(_, situation)| !is_likely(situation));
    first.chain(others)
}

/// Returns the situation in which the missing rule is noticed, if it is.
fn noticed(rule: Option<Rule>, likely: &str, seeds: u64) -> Option<String> {
    situations_from(likely, seeds).find_map(|(seed, Situation { name, refresh, grows, workload })| {
        let builder = Dedup::builder().window(WINDOW).capacity(1).seed(SEED).refresh_on_duplicate(refresh);
        let builder = if grows { builder.growth_thread(false) } else { builder.max_memory_bytes(64 << 10) };
        let subject = Without { rule, dedup: builder.build().expect("these options are valid") };
        // What is accepted meanwhile takes somebody who forgets. Where nobody does, to allow it
        // would hide flaws.
        let accepts_meanwhile = workload.forgets > 0;
        let semantics = Semantics { refresh_on_duplicate: refresh, accepts_meanwhile, ..Semantics::of_hapax(WINDOW) };
        // Who looks for a flaw goes on until it is found.
        let operations = if rule.is_none() { long(30_000, workload.operations) } else { workload.operations };
        let violation = verify(&subject, &Workload { seed, operations, ..workload }, &semantics).err()?;
        Some(format!("{name}, seed {seed}: {violation}"))
    })
}

/// (`ConfirmDuplicate` is left out in loom's models alone: threads show that once in ten seeds, and
/// on a busy machine, where few of them are interrupted, not in a hundred.)
#[test]
fn it_is_noticed_when_a_rule_is_left_out() {
    for (rule, likely) in [
        (Rule::VictimVersion, "crowded"),
        (Rule::Compare, "crowded"),
        (Rule::Ring, "crowded"),
        (Rule::Relocate, "crowded"),
        (Rule::RelocateFirst, "crowded"),
        (Rule::Flag, "crowded"),
        (Rule::Overtaken, "slow"),
        (Rule::SweepFirst, "crowded"),
        (Rule::LookOlder, "growing"),
        (Rule::OwnEntry, "growing"),
        (Rule::RetireLate, "growing, refreshing"),
        (Rule::ClaimLooks, "claiming"),
        (Rule::ConfirmFresh, "claiming"),
        (Rule::TakeBack, "claiming"),
        (Rule::KeepContested, "claiming"),
    ] {
        let noticed = noticed(Some(rule), likely, 100);
        println!("without {rule:?}: {}", noticed.as_deref().unwrap_or("not noticed"));
        assert!(noticed.is_some(), "{rule:?} was left out, and nobody noticed");
    }
}

#[test]
fn nothing_is_noticed_when_none_is_left_out() {
    assert_eq!(noticed(None, "", long(1, 3)), None);
}
