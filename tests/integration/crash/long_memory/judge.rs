//! The state that a directory must be in after its engine's death.

use super::belief::Belief;
use super::child::{Child, Flaw, Setting};
use super::script::{Deed, Op, Script, time};
use hapax::Int;
use std::collections::{BTreeMap, BTreeSet};

/// Ids from here on are never given.
const NEVER_GIVEN: u64 = 1 << 50;

/// A directory, and what has become of the ids in it.
pub struct Judge {
    pub setting: Setting,
    script: Script,
    beliefs: BTreeMap<u64, Belief>,
    /// The ids that operations were about since they were durable last.
    touched: BTreeSet<u64>,
}

impl Judge {
    pub fn new(setting: Setting, seed: u64) -> Self {
        let _ = std::fs::remove_dir_all(&setting.path);
        Judge { setting, script: Script::new(seed), beliefs: BTreeMap::new(), touched: BTreeSet::new() }
    }

    /// Starts a child that goes on with it.
    pub fn start(&self, flaw: Flaw) -> Child {
        self.setting.start(self.script, flaw)
    }

    /// Checks the directory after the death of a child that had acknowledged what it did up to one
    /// operation, and may have come to the next one that makes durable after another.
    pub fn verify(&mut self, acknowledged: u64, came_to: u64) -> Result<Found, String> {
        loop {
            let op = self.script.next();
            self.apply(&op);
            if op.makes_durable && op.number <= acknowledged {
                self.each_touched(Belief::is_durable);
                self.touched.clear();
            }
            if op.makes_durable && op.number > came_to {
                break;
            }
        }
        self.each_touched(Belief::crash);
        self.touched.clear();
        self.look()
    }

    fn apply(&mut self, op: &Op) {
        let touched: Vec<u64> = match &op.deed {
            Deed::New(_, ids) => ids.clone().collect(),
            Deed::Again(_, ids) | Deed::Forget(ids) => ids.clone(),
            Deed::Clear => self.beliefs.keys().copied().collect(),
        };
        for id in &touched {
            let belief = self.beliefs.entry(*id).or_insert_with(|| Belief::new(op.at));
            match op.deed {
                Deed::New(..) | Deed::Again(..) => belief.ask(op.at),
                Deed::Forget(_) => belief.forget(),
                Deed::Clear => belief.clear(),
            }
        }
        self.touched.extend(touched);
        // With checkpoints, only what a checkpoint has.
        if op.makes_durable || !self.setting.checkpoints {
            self.each_touched(Belief::may_stay);
        }
    }

    fn each_touched(&mut self, change: impl Fn(&mut Belief)) {
        for id in &self.touched {
            if let Some(belief) = self.beliefs.get_mut(id) {
                change(belief);
            }
        }
    }

    /// Compares an engine that opens the directory with what must be.
    fn look(&mut self) -> Result<Found, String> {
        let dedup = self.setting.open(Flaw::None).map_err(|error| format!("it does not open: {error}"))?;
        let at = self.script.at();
        dedup.check_batch_at([] as [&str; 0], time(at), &mut Vec::new());
        let mut found = Found::default();
        for (id, belief) in &mut self.beliefs {
            let tier = dedup.contains(Int::from(*id));
            let is_known = tier.is_some();
            let before = belief.clone();
            found.known += u64::from(is_known);
            found.certain += u64::from(before.is_known(at));
            if !belief.learn(is_known, at) {
                return Err(format!("{id} is known: {is_known} ({tier:?}), at {at}, which cannot be: {before:?}"));
            }
        }
        self.beliefs.retain(|_, belief| !belief.is_over(at));
        for id in NEVER_GIVEN + at..NEVER_GIVEN + at + 200 {
            if dedup.contains(Int::from(id)).is_some() {
                return Err(format!("{id} was never given, and is known"));
            }
        }
        let stats = dedup.stats();
        let long_memory = stats.long_memory.ok_or("there is no long memory")?;
        match (dedup.evicted_live(), long_memory.in_doubt, long_memory.failed) {
            (0, 0, None) => Ok(found),
            other => Err(format!("forgotten early, in doubt, failed: {other:?}")),
        }
    }
}

/// The number of ids that were known, and of those that had to be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    pub known: u64,
    pub certain: u64,
}
