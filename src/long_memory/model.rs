//! An engine with a long memory, in any sequence of calls, on a disk that fails and is cut off;
//! handed over, with segments that come at any moment, from a source that fails, lies or is gone;
//! beside a reference that knows the states in which each id may be.

use super::tests::{RETENTION, WINDOW, World};
use crate::journal::files::simulated::{Fault, below};
use crate::long::long;
use crate::mutation::{Rule, leave_out};
use crate::segments::tests::remote::{Elsewhere, Mood};
use crate::{Attempt, Dedup, Forgotten, LongMemoryStats, Verdict};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The window's ticks: what was accepted in one of them is forgotten at once.
const SLACK: u64 = 3;
const IDS: u64 = 24;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// The states in which an id may be: unknown, or accepted at a second.
#[derive(Clone, Debug, Default)]
struct Belief {
    states: BTreeSet<Option<u64>>,
    /// All that it has been since the last flush: after a crash it is one of those.
    since_flush: BTreeSet<Option<u64>>,
    /// The window may have it until then, since it was asked for.
    kept: u64,
    /// True if everything was cleared since the last flush.
    is_cleared: bool,
    /// True if a crash has undone that: for as long as the window has it, since segments have not.
    is_undone: bool,
    /// The same at the last flush.
    was_undone: bool,
}

impl Belief {
    fn set(&mut self, states: impl IntoIterator<Item = Option<u64>>) {
        self.states = states.into_iter().collect();
        self.since_flush.extend(&self.states);
    }

    /// Returns what is left of the states if an id was known, or not.
    fn after(&self, is_known: bool, now: u64) -> BTreeSet<Option<u64>> {
        let (window, retention) = (WINDOW.as_secs(), RETENTION.as_secs());
        let allows = |state: &Option<u64>| match *state {
            None => !is_known,
            Some(at) if now - at < retention => is_known || self.is_undone,
            Some(at) => !is_known || now <= self.kept.max(at + retention + window) + SLACK,
        };
        self.states.iter().filter(|state| allows(state)).copied().collect()
    }
}

struct Sequence {
    world: World,
    dedup: Option<Dedup>,
    beliefs: Vec<Belief>,
    random: u64,
    now: u64,
    /// True if the disk may have failed since it was last whole.
    is_faulty: bool,
    /// True unless what is elsewhere can be read.
    is_unwell: bool,
    /// The time of the last checkpoint.
    checkpoint: u64,
    trace: Vec<String>,
}

impl Sequence {
    fn new(seed: u64) -> Self {
        let mut random = seed;
        let (checkpoints, refreshes) = (below(&mut random, 3) == 0, below(&mut random, 3) == 0);
        // Half of them are handed over, with segments that stay behind.
        let source = (below(&mut random, 2) == 0).then(Elsewhere::default);
        let world = World { checkpoints, refreshes, source, ..World::new() };
        let dedup = Some(world.open());
        let unknown = BTreeSet::from([None]);
        let belief = Belief { states: unknown.clone(), since_flush: unknown, ..Belief::default() };
        let beliefs = vec![belief; IDS as usize];
        Sequence {
            world,
            dedup,
            beliefs,
            random,
            now: 0,
            is_faulty: false,
            is_unwell: false,
            checkpoint: 0,
            trace: Vec::new(),
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        below(&mut self.random, end)
    }

    fn dedup(&self) -> &Dedup {
        self.dedup.as_ref().expect("it runs")
    }

    fn stats(&self) -> LongMemoryStats {
        self.dedup().stats().long_memory.expect("it has one")
    }

    fn may_doubt(&self) -> bool {
        // What waits for a checkpoint is in no file, so it cannot be sealed.
        let is_held = self.world.checkpoints && self.now - self.checkpoint >= WINDOW.as_secs() / 4 * 3;
        self.is_faulty || is_held || self.is_unwell && self.stats().segments.remote > 0
    }

    /// Judges an answer: `None` if it was in doubt.
    fn judge(&mut self, id: u64, is_known: Option<bool>) {
        let (now, refreshes, may_doubt) = (self.now, self.world.refreshes, self.may_doubt());
        let belief = &mut self.beliefs[id as usize];
        let Some(is_known) = is_known else {
            assert!(may_doubt, "id {id} is in doubt at {now}, without a reason: {belief:?}");
            belief.is_undone = false;
            return belief.set([Some(now)]);
        };
        let left = belief.after(is_known, now);
        assert!(!left.is_empty(), "id {id} is known: {is_known}, at {now}, which cannot be: {belief:?}");
        match (is_known, refreshes) {
            (true, false) => {
                belief.set(left);
                belief.kept = now + WINDOW.as_secs();
            }
            _ => {
                belief.set([Some(now)]);
                belief.is_undone = false;
            }
        }
    }

    fn judge_verdict(&mut self, id: u64, verdict: Verdict) {
        let is_known = verdict.is_certain().then(|| verdict.is_duplicate());
        self.judge(id, is_known);
    }

    fn step(&mut self) {
        if self.world.source.is_some() && self.below(4) == 0 {
            self.bring_or_not();
        }
        let id = self.below(IDS);
        match self.below(100) {
            0..30 => {
                let verdict = self.dedup().check(id.to_le_bytes());
                self.trace.push(format!("check {id}: {verdict:?}"));
                self.judge_verdict(id, verdict);
            }
            30..45 => {
                let ids: Vec<_> = (0..self.below(6)).map(|_| self.below(IDS)).collect();
                let mut verdicts = Vec::new();
                self.dedup().check_batch(ids.iter().map(|id| id.to_le_bytes()), &mut verdicts);
                self.trace.push(format!("check {ids:?}: {verdicts:?}"));
                ids.into_iter().zip(verdicts).for_each(|(id, verdict)| self.judge_verdict(id, verdict));
            }
            45..55 => self.claim(id),
            55..60 => {
                self.trace.push(format!("forget {id}"));
                assert_eq!(self.dedup().forget(id.to_le_bytes()), Forgotten::Entirely);
                self.beliefs[id as usize].set([None]);
            }
            60 => {
                self.trace.push("clear".into());
                self.dedup().clear();
                for belief in &mut self.beliefs {
                    belief.set([None]);
                    belief.is_cleared = true;
                }
            }
            61..80 => {
                let seconds = [1, 7, 20, 45, 60, 130, 400][self.below(7) as usize];
                self.trace.push(format!("{seconds} s pass"));
                self.world.pass(seconds);
                self.now += seconds;
            }
            80..88 => self.flush(),
            88..93 => self.fail(),
            _ => self.restart(),
        }
    }

    fn claim(&mut self, id: u64) {
        let completes = self.below(2) == 0;
        let dedup = self.dedup().clone();
        let is_known = match dedup.claim(id.to_le_bytes()) {
            Attempt::Claimed(claim) if completes => {
                claim.complete().unwrap();
                false
            }
            Attempt::Claimed(claim) => {
                claim.release().unwrap();
                false
            }
            Attempt::Duplicate(_) => true,
            other => panic!("nobody else claims it: {other:?}"),
        };
        self.trace.push(format!("claim {id}: known {is_known}, completes {completes}"));
        let before = self.beliefs[id as usize].clone();
        // (A claim does not say that it is in doubt.)
        let is_certain = is_known || !self.may_doubt();
        self.judge(id, is_certain.then_some(is_known));
        if !is_known && !completes {
            // It was not accepted, nor is it known now, unless that is in doubt.
            let left = if is_certain { before.after(false, self.now) } else { before.states.clone() };
            self.beliefs[id as usize] = before;
            self.beliefs[id as usize].set(left);
        }
    }

    fn flush(&mut self) {
        if self.world.checkpoints && self.dedup().journal().unwrap().checkpoint([("source", "1")]).is_err() {
            return self.mend();
        }
        match self.dedup().journal().unwrap().flush() {
            Ok(()) => {
                self.trace.push("flushed".into());
                self.checkpoint = self.now;
                self.is_durable();
            }
            Err(_) => self.mend(),
        }
    }

    /// Lets the disk fail from some call on.
    fn fail(&mut self) {
        let (after, error) = (self.below(12), [EIO, ENOSPC][self.below(2) as usize]);
        self.trace.push(format!("error {error} after {after} calls"));
        self.world.disk.plan(None, after, Fault::Error(error));
        self.is_faulty = true;
    }

    /// Mends the disk, and what has failed since.
    fn mend(&mut self) {
        self.trace.push("mended".into());
        self.world.disk.heal();
        if let Some(dedup) = &self.dedup {
            assert!(self.is_faulty, "the disk is whole");
            self.is_faulty = dedup.journal().unwrap().reopen().is_err() || dedup.journal().unwrap().flush().is_err();
        }
    }

    /// Something comes from elsewhere, or what is there changes its mood.
    fn bring_or_not(&mut self) {
        let Some(source) = self.world.source.clone() else { return };
        if self.below(3) == 0 {
            let seed = self.below(1_000);
            let mood = [Mood::Well, Mood::Gone, Mood::Fails(seed), Mood::Lies(seed)][self.below(4) as usize];
            source.mood(mood);
            self.is_unwell = mood != Mood::Well;
            return self.trace.push(format!("{mood:?}"));
        }
        let bytes = [1, 5_000, 1 << 20][self.below(3) as usize];
        let brought = self.dedup().engine.long.as_ref().expect("it has one").bring(bytes).map_err(drop);
        assert!(brought.is_ok() || self.is_faulty || self.is_unwell, "nothing is wrong");
        self.trace.push(format!("brought {brought:?}, {} elsewhere", self.stats().segments.remote));
    }

    /// Another process goes on, elsewhere, with what is durable of this one.
    fn hand_over(&mut self) {
        match self.dedup().journal().unwrap().files() {
            Ok(durable) => {
                let disk = self.world.handed_over(&durable);
                self.world.disk.kill();
                self.dedup = None;
                self.world.disk = disk;
            }
            Err(_) => self.world.disk.kill(),
        }
    }

    fn restart(&mut self) {
        let way = self.below(if self.world.source.is_some() { 6 } else { 3 });
        if let Some(source) = &self.world.source {
            // (Without it an engine is refused, and built again when it is there.)
            source.mood(Mood::Well);
            self.is_unwell = false;
        }
        self.trace.push(format!("restart {way}"));
        let is_clean = way == 0 && !self.world.checkpoints && !self.is_faulty;
        match way {
            0 => drop(self.dedup.take()),
            1 => self.world.disk.crash(self.random),
            2 => self.world.disk.kill(),
            _ => self.hand_over(),
        }
        self.dedup = None;
        self.world.disk.heal();
        self.is_faulty = false;
        if !is_clean {
            for belief in &mut self.beliefs {
                belief.states = belief.since_flush.clone();
                belief.is_undone |= belief.is_cleared || belief.was_undone;
            }
        }
        self.dedup = Some(self.world.open());
        self.checkpoint = self.now;
        self.is_durable();
    }

    /// Notes that what is there now survives any crash.
    fn is_durable(&mut self) {
        for belief in &mut self.beliefs {
            belief.since_flush = belief.states.clone();
            (belief.is_cleared, belief.was_undone) = (false, belief.is_undone);
        }
    }
}

/// Runs the sequence of a seed. Returns its trace, and what was wrong.
fn run(seed: u64) -> Result<Vec<String>, String> {
    let mut sequence = Sequence::new(seed);
    let outcome = catch_unwind(AssertUnwindSafe(|| (0..80).for_each(|_| sequence.step())));
    match outcome {
        Ok(()) => Ok(sequence.trace),
        Err(panic) => {
            let why = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            std::mem::forget(sequence.dedup.take());
            Err(format!("seed {seed}: {why}\n{}", sequence.trace.join("\n")))
        }
    }
}

fn seeds() -> std::ops::Range<u64> {
    let number =
        |variable: &str, default| std::env::var(variable).map_or(default, |text| text.parse().expect("a number"));
    let first = number("HAPAX_SEED", 1);
    first..first + number("HAPAX_SEQUENCES", long(50, 400))
}

#[test]
fn sequences_of_everything_are_answered_as_the_reference_has_it() {
    println!("seeds {:?}", seeds());
    for seed in seeds() {
        let trace = run(seed).unwrap_or_else(|wrong| panic!("{wrong}"));
        if seed % 50 == 0 {
            assert_eq!(run(seed).as_ref(), Ok(&trace), "seed {seed}, run again");
        }
    }
}

#[test]
fn each_rule_is_missed_if_it_is_left_out() {
    for rule in [Rule::SealedFirst, Rule::BehindIsInDoubt, Rule::VoidAtOnce] {
        leave_out(Some(rule));
        let is_missed = (1..=400).any(|seed| run(seed).is_err());
        leave_out(None);
        assert!(is_missed, "nobody misses {rule:?}");
    }
}
