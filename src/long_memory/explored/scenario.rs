//! A scenario: what was there, and what threads do then.

use super::super::sealing::Sealing;
use super::super::tests::World;
use super::judge::{Deed, Done, are_explained};
use crate::digest::Digest;
use crate::engine::{Buffers, Tried};
use crate::journal::files::simulated::{Call, Fault, Simulated};
use crate::mutation::{Rule, leave_out};
use crate::sync::turns::{CALLS, DISK, Kind, Report, explore, step};
use crate::sync::unpoisoned;
use crate::{Dedup, SegmentError, Timestamp, Verdict};
use std::sync::Mutex;
use std::time::Duration;

/// More executions than any scenario has.
const EXECUTIONS_MAX: u64 = 1_000_000;

/// Ids are smaller than this.
const IDS: u64 = 10;

/// A call. Times are in seconds since the engine was built.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Check(u64, u64),
    Batch(&'static [u64], u64),
    /// Claims an id, and completes that.
    Claim(u64, u64),
    /// Claims ids at once, by the clock, and completes what it got.
    ClaimBatch(&'static [u64]),
    Forget(u64),
    Clear,
    /// Seals all that the journal has.
    Seal(u64),
    /// Merges, and drops what has expired.
    Tidy(u64),
    Flush,
    Checkpoint,
    /// Lets the next renaming of a file fail: the manifest stays the old one.
    Fail,
    /// Takes the disk as it is at that moment: as a process that dies there leaves it.
    Die,
}

/// A scenario of threads.
#[derive(Clone, Default)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) checkpoints: bool,
    /// The operations before, one after another: then the clock is at that time.
    pub(super) before: &'static [Op],
    /// The calls of each thread.
    pub(super) threads: &'static [&'static [Op]],
    /// The calls that come after that, one after another; and once more in an engine that is built
    /// on what a process left that died.
    pub(super) after: &'static [Op],
    /// The ids that are known when threads begin, and must be for as long as nobody forgets them.
    pub(super) known: &'static [u64],
    /// True if calls may fail, and answers be in doubt.
    pub(super) may_doubt: bool,
    /// True if of calls at once more than one may be fresh.
    pub(super) may_be_twice: bool,
}

/// An engine, and what was done with it.
struct Play {
    world: World,
    dedup: Dedup,
    began: Timestamp,
    done: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    now: usize,
    calls: Vec<Done>,
    failed: Vec<String>,
    /// The disk of a process that died, and the number of calls that had returned by then.
    left: Vec<Simulated>,
}

impl Log {
    fn moment(&mut self) -> usize {
        self.now += 1;
        self.now
    }
}

impl Play {
    fn new(scenario: &Scenario) -> Self {
        let world = World { checkpoints: scenario.checkpoints, ..World::new() };
        let dedup = world.open();
        let began = crate::Clock::now(&world.clock);
        let play = Play { world, dedup, began, done: Mutex::default() };
        for op in scenario.before {
            play.pass_to(op);
            play.act(op);
        }
        *unpoisoned(play.done.lock()) = Log::default();
        play
    }

    fn at(&self, seconds: u64) -> Timestamp {
        self.began + Duration::from_secs(seconds)
    }

    /// Lets the clock go on to the time of a call. (While threads take turns it stands still.)
    fn pass_to(&self, op: &Op) {
        if let Op::Check(_, at) | Op::Batch(_, at) | Op::Claim(_, at) | Op::Seal(at) | Op::Tidy(at) = op {
            self.world.clock.set(self.at(*at));
        }
    }

    fn digest(&self, id: u64) -> Digest {
        self.dedup.engine.unscoped.digest(id.to_le_bytes())
    }

    fn sealing(&self) -> &Sealing {
        &self.dedup.engine.long.as_ref().expect("it has one").sealing
    }

    fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        unpoisoned(self.done.lock())
    }

    /// Makes a call, and notes it.
    fn act(&self, op: &Op) {
        let is_judged = !matches!(op, Op::Seal(_) | Op::Tidy(_) | Op::Flush | Op::Checkpoint | Op::Fail | Op::Die);
        if is_judged {
            step(CALLS, Kind::Call);
        }
        let began = self.log().moment();
        let outcome = if is_judged { Ok(self.ask(op)) } else { self.tend(op).map(|()| Vec::new()) };
        if is_judged {
            step(CALLS, Kind::Return);
        }
        let mut log = self.log();
        let ended = log.moment();
        match outcome {
            Ok(deeds) => log.calls.extend(deeds.into_iter().map(|(id, deed)| Done { id, began, ended, deed })),
            Err(why) => log.failed.push(format!("{op:?}: {why}")),
        }
    }

    /// Makes a call that is about ids. Returns what it was of each.
    fn ask(&self, op: &Op) -> Vec<(u64, Deed)> {
        let engine = &self.dedup.engine;
        let asked = |id: u64, verdict: Verdict| {
            let is_fresh = verdict.is_certain().then(|| verdict.is_fresh());
            (id, Deed::Asked { is_fresh })
        };
        match op {
            Op::Check(id, at) => {
                // (The clock is what time goes by, from the first such call on.)
                let _ = engine.now();
                vec![asked(*id, engine.check(self.digest(*id), self.at(*at).into()))]
            }
            Op::Batch(ids, at) => {
                let mut verdicts = Vec::new();
                engine.check_batch(ids.iter().map(|id| self.digest(*id)), self.at(*at).into(), &mut verdicts);
                ids.iter().zip(verdicts).map(|(id, verdict)| asked(*id, verdict)).collect()
            }
            Op::Claim(id, at) => {
                let request = engine.request(self.digest(*id), Duration::from_secs(1), None);
                let tried = engine.claim_at(&request, self.at(*at).into());
                if let Tried::Claimed(token) = tried {
                    engine.complete(request.id, token);
                }
                vec![(*id, Deed::Asked { is_fresh: Some(matches!(tried, Tried::Claimed(_))) })]
            }
            Op::ClaimBatch(ids) => {
                let mut buffers = Buffers::default();
                let digests: Vec<_> = ids.iter().map(|id| self.digest(*id)).collect();
                let tried = engine.claim_block(&digests, Duration::from_secs(1), &mut buffers);
                let deeds = ids.iter().zip(tried).zip(&digests).map(|((id, tried), digest)| {
                    if let Tried::Claimed(token) = tried {
                        engine.complete(*digest, *token);
                    }
                    (*id, Deed::Asked { is_fresh: Some(matches!(tried, Tried::Claimed(_))) })
                });
                deeds.collect()
            }
            // (Of one that is claimed that is refused.)
            Op::Forget(id) => engine.forget(self.digest(*id)).then_some((*id, Deed::Forgotten)).into_iter().collect(),
            Op::Clear => {
                self.dedup.clear();
                (1..IDS).flat_map(|id| [Deed::Forgotten, Deed::MayBeForgotten].map(|deed| (id, deed))).collect()
            }
            _ => unreachable!("it is about no id"),
        }
    }

    /// Makes a call that is about no id.
    fn tend(&self, op: &Op) -> Result<(), String> {
        let said = |error: SegmentError| error.to_string();
        match op {
            Op::Seal(at) => self.sealing().seal(self.at(*at)).map_err(said),
            Op::Tidy(at) => self.sealing().tidy(self.at(*at), || true).map_err(said),
            Op::Flush => self.dedup.journal().unwrap().flush().map_err(|error| error.to_string()),
            Op::Checkpoint => {
                self.dedup.journal().unwrap().checkpoint([("source", "1")]).map(drop).map_err(|error| error.to_string())
            }
            Op::Fail => {
                self.world.disk.plan(Some(Call::Rename), 0, Fault::Error(5));
                Ok(())
            }
            Op::Die => {
                step(DISK, Kind::Write);
                let disk = self.world.disk.copy();
                self.log().left.push(disk);
                Ok(())
            }
            _ => unreachable!("it is about an id"),
        }
    }

    /// Judges what was done, and what comes after it.
    fn judge(&self, scenario: &Scenario) -> Result<(), String> {
        for op in scenario.after {
            self.pass_to(op);
            self.act(op);
        }
        let log = self.log();
        if let Some(failed) = log.failed.first().filter(|_| !scenario.may_doubt) {
            return Err(failed.clone());
        }
        let in_doubt = |done: &&Done| done.deed == Deed::Asked { is_fresh: None };
        if let Some(done) = log.calls.iter().find(in_doubt).filter(|_| !scenario.may_doubt) {
            return Err(format!("it is in doubt: {done:?}"));
        }
        let mut ids: Vec<_> = log.calls.iter().map(|done| done.id).collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            let of_id: Vec<_> = log.calls.iter().filter(|done| done.id == id).copied().collect();
            if !are_explained(&of_id, scenario.known.contains(&id), scenario.may_be_twice) {
                return Err(format!("no order explains {of_id:?}, known before: {:?}", scenario.known));
            }
        }
        log.left.iter().try_for_each(|disk| self.judge_left(scenario, disk))
    }

    /// Builds an engine on what a process has left that died. All that was known and durable before
    /// threads began must be.
    fn judge_left(&self, scenario: &Scenario, left: &Simulated) -> Result<(), String> {
        // As the system has it, and after power cuts.
        for cut in [None, Some(1), Some(2)] {
            let disk = left.copy();
            match cut {
                None => disk.kill(),
                Some(seed) => disk.crash(seed),
            }
            let world =
                World { disk, checkpoints: scenario.checkpoints, clock: self.world.clock.clone(), ..World::new() };
            let dedup = world.build().map_err(|error| format!("after a death, cut {cut:?}: {error}"))?;
            for id in scenario.known {
                let verdict = dedup.check(id.to_le_bytes());
                if verdict.is_fresh() {
                    return Err(format!("{id} is fresh after a death, cut {cut:?}: {verdict:?}"));
                }
            }
        }
        Ok(())
    }
}

impl Scenario {
    /// Executes it in every order that can make a difference.
    pub(super) fn explore(&self) -> Result<Report, String> {
        self.explore_without(None)
    }

    /// The same with a rule left out.
    pub(super) fn explore_without(&self, rule: Option<Rule>) -> Result<Report, String> {
        leave_out(rule);
        let acts: Vec<_> = self
            .threads
            .iter()
            .map(|ops| {
                move |play: &Play| {
                    leave_out(rule);
                    ops.iter().for_each(|op| play.act(op));
                }
            })
            .collect();
        let threads: Vec<&(dyn Fn(&Play) + Sync)> = acts.iter().map(|act| act as _).collect();
        let report = explore(EXECUTIONS_MAX, || Play::new(self), &threads, |play| play.judge(self));
        leave_out(None);
        report.map_err(|what| format!("{}: {what}", self.name))
    }
}
