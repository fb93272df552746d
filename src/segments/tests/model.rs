//! Segments against a plain map, over random sequences of everything that happens to them, on a
//! disk in memory that fails and loses power. Each seed is repeatable: `HAPAX_SEGMENTS` says how
//! many are tried, `HAPAX_SEGMENTS_SEED` which comes first.

use crate::SegmentError;
use crate::Timestamp;
use crate::digest::{DigestKey, Digester, WantedKey};
use crate::journal::files::simulated::{Call, Fault, Simulated};
use crate::long::long;
use crate::mutation::{Rule, leave_out};
use crate::random::{Random, mix};
use crate::segments::live::seal_and_merge::Merge;
use crate::segments::live::set::Segments;
use crate::segments::options::SegmentOptions;
use crate::segments::plan::LIVE_MAX;
use crate::segments::read::look::Answer;
use crate::segments::write::sort::{Event, EventKind};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

pub(in crate::segments) fn directory() -> &'static Path {
    Path::new("/segments")
}

/// The key of all tests.
pub(in crate::segments) fn key() -> WantedKey {
    WantedKey { bits: Some(7), ..WantedKey::default() }
}

pub(in crate::segments) fn digester() -> Digester {
    Digester::new(DigestKey { kind: key().kind, bits: 7 })
}

/// The time at which each id was accepted last, or none if it was forgotten since.
type Map = BTreeMap<u64, Option<u64>>;

#[derive(Clone, Debug)]
pub(in crate::segments) enum Op {
    /// This many events happen, in a time of this many units.
    Events(u64, u64),
    Seal,
    Clear,
    /// A step of a merge, of this many records, which is begun if none is under way.
    Merge(usize),
    /// The merge that is under way is given up.
    GiveUp,
    /// All merges that are due are done.
    MergeAll,
    Expire,
    Pass(u64),
    LoadFilter,
    /// A call of this kind fails, after so many.
    Fail(Option<Call>, u64, Fault),
    Heal,
    /// The process ends.
    Kill,
    /// The machine loses power, and keeps some of what was not synced.
    Cut(u64),
}

/// The segments, and what they must say.
pub(in crate::segments) struct World {
    pub(in crate::segments) disk: Simulated,
    segments: Option<Arc<Segments>>,
    merge: Option<Merge>,
    random: Random,
    ids: u64,
    /// The time that events are apart, in nanoseconds.
    unit: u64,
    retention: u64,
    now: u64,
    pending: Vec<Event>,
    pending_ids: Vec<(u64, Option<u64>)>,
    attempts: u64,
    /// The ids that are durable, with the number that says so.
    durable: (u64, Map),
    /// The ids that may be on the disk instead, since a call failed.
    doubtful: Vec<(u64, Map)>,
    digester: Digester,
    /// True if a read may fail.
    reads_fail: bool,
    pub(in crate::segments) trace: u64,
}

impl World {
    pub(in crate::segments) fn new(seed: u64, ids: u64, unit: u64) -> Self {
        let mut random = Random::new(seed);
        let retention = unit * (20 + random.below(60));
        World {
            disk: Simulated::new(),
            segments: None,
            merge: None,
            ids,
            unit,
            retention,
            now: 1_000 * unit,
            pending: Vec::new(),
            pending_ids: Vec::new(),
            attempts: 0,
            durable: (0, Map::new()),
            doubtful: Vec::new(),
            digester: digester(),
            reads_fail: false,
            trace: 0,
            random,
        }
    }

    fn options(&self) -> SegmentOptions {
        let (key, sort_bytes_max, read_threads) = (key(), 500, 0);
        SegmentOptions {
            key,
            sort_bytes_max,
            read_threads,
            ..SegmentOptions::new(Duration::from_nanos(self.retention))
        }
    }

    pub(in crate::segments) fn open(&mut self) -> Result<Arc<Segments>, SegmentError> {
        if let Some(segments) = &self.segments {
            return Ok(Arc::clone(segments));
        }
        let disk = Arc::new(self.disk.of_this_boot());
        let segments = Segments::open_on(disk, directory(), self.options(), None)?;
        self.segments = Some(Arc::clone(&segments));
        Ok(segments)
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.now)
    }

    fn event(&mut self, id: u64, forgets: bool) {
        let digest = self.digester.digest(id.to_le_bytes());
        // Events come late, too.
        let at = self.now - self.random.below(3 * self.unit);
        let kind = if forgets { EventKind::Forgotten } else { EventKind::Accepted };
        self.pending.push(Event { digest, time: Timestamp::from_nanos(at), kind });
        self.pending_ids.push((id, (!forgets).then_some(at)));
    }

    /// Ends the process, in some way.
    fn end(&mut self, how: impl FnOnce(&Simulated)) {
        // (The file of a merge that was under way stays: its process does nothing any more.)
        self.disk.plan(None, 0, Fault::Dead);
        self.disk.plan(Some(Call::Sync), 0, Fault::Dead);
        self.merge = None;
        self.segments = None;
        self.disk.set_capacity(None);
        how(&self.disk);
        self.reads_fail = false;
        (self.pending, self.pending_ids) = (Vec::new(), Vec::new());
    }

    /// Does what changes everything, and notes what may be durable then.
    fn change(
        &mut self,
        next: Map,
        act: impl FnOnce(&Segments, &[Event], u64) -> Result<(), SegmentError>,
    ) -> Result<bool, SegmentError> {
        let segments = self.open()?;
        self.attempts += 1;
        self.doubtful.push((self.attempts, next));
        act(&segments, &self.pending, self.attempts)?;
        self.durable = self.doubtful.pop().expect("it was pushed");
        self.doubtful.clear();
        Ok(true)
    }

    /// Runs an operation; an error is what a disk that fails leads to.
    fn act(&mut self, op: &Op) -> Result<bool, SegmentError> {
        match *op {
            Op::Events(count, units) => {
                self.now += units * self.unit;
                for _ in 0..count {
                    let (id, forgets) = (self.random.below(self.ids), self.random.chance(20));
                    self.event(id, forgets);
                }
            }
            Op::Seal => {
                let mut next = self.durable.1.clone();
                next.extend(self.pending_ids.iter().copied());
                self.change(next, |segments, mut events, number| segments.seal(&mut events, number))?;
                (self.pending, self.pending_ids) = (Vec::new(), Vec::new());
            }
            Op::Clear => drop(self.change(Map::new(), |segments, _, number| segments.clear(number))?),
            Op::Merge(records) => {
                let segments = self.open()?;
                if self.merge.is_none() {
                    self.merge = segments.begin_merge(self.now())?;
                }
                let Some(mut merge) = self.merge.take() else { return Ok(false) };
                if merge.step(records)? {
                    // It was published, or there was no need.
                    return Ok(true);
                }
                self.merge = Some(merge);
            }
            Op::GiveUp => self.merge = None,
            Op::MergeAll => {
                while self.act(&Op::Merge(50))? || self.merge.is_some() {}
                assert!(self.open()?.stats().segments < LIVE_MAX as u64, "merges are done");
            }
            Op::Expire => drop(self.open()?.expire(self.now())?),
            Op::Pass(units) => self.now += units * self.unit,
            Op::LoadFilter => drop(self.open()?.load_filter()?),
            Op::Fail(call, after, fault) => {
                self.reads_fail |= call.is_some() || fault == Fault::Dead;
                self.disk.plan(call, after, fault);
            }
            Op::Heal => self.heal(),
            Op::Kill => self.end(Simulated::kill),
            Op::Cut(seed) => self.end(|disk| disk.crash(seed)),
        }
        Ok(true)
    }

    fn heal(&mut self) {
        self.disk.heal();
        self.disk.set_capacity(None);
        self.reads_fail = false;
    }

    /// Runs an operation, and compares all answers. Returns what is wrong.
    pub(in crate::segments) fn run(&mut self, op: &Op) -> Result<(), String> {
        let done = self.act(op);
        match &done {
            Ok(_) => {}
            Err(SegmentError::Io { .. }) => {}
            Err(wrong) => return Err(format!("not an error of the disk: {wrong}")),
        }
        self.trace = mix(self.trace ^ u64::from(done.is_ok()));
        self.look()
    }

    /// Compares the answers for all ids.
    pub(in crate::segments) fn look(&mut self) -> Result<(), String> {
        let was_closed = self.segments.is_none();
        let segments = match self.open() {
            Ok(segments) => segments,
            Err(SegmentError::Io { .. }) => return Ok(()),
            Err(wrong) => return Err(format!("cannot be opened: {wrong}")),
        };
        if was_closed {
            self.settle(&segments)?;
        }
        let digests: Vec<_> = (0..self.ids).map(|id| self.digester.digest(id.to_le_bytes())).collect();
        let mut answers = vec![Answer::InDoubt];
        let looked = segments.look(&digests, self.now(), &mut answers);
        let is_doubtful = answers.contains(&Answer::InDoubt);
        match &looked {
            Ok(()) if is_doubtful => return Err("in doubt without an error".into()),
            Err(SegmentError::Io { .. }) if is_doubtful && self.reads_fail => {}
            Err(wrong) => return Err(format!("cannot be read: {wrong}")),
            Ok(()) => {}
        }
        for (id, answer) in answers.iter().enumerate() {
            self.judge(id as u64, *answer)?;
        }
        Ok(())
    }

    fn judge(&mut self, id: u64, answer: Answer) -> Result<(), String> {
        let accepted = self.durable.1.get(&id).copied().flatten();
        let wrong = |what: &str| Err(format!("{id}, {accepted:?} at {}: {what}, {answer:?}", self.now));
        self.trace = mix(self.trace ^ u64::from(matches!(answer, Answer::Known(_))));
        // A tick is a 2^16th of the time that a segment spans, rounded to a power of two.
        let tick = self.now / 32_767;
        match (accepted, answer) {
            (_, Answer::InDoubt) => Ok(()),
            (Some(at), Answer::Unknown) if self.now - at < self.retention => wrong("forgotten"),
            (Some(at), Answer::Known(_)) if self.now - at >= self.retention + tick => wrong("known for too long"),
            (Some(at), Answer::Known(time)) if time.as_nanos() < at || time.as_nanos() - at > tick => wrong("when"),
            (None, Answer::Known(_)) => wrong("never accepted"),
            _ => Ok(()),
        }
    }

    /// Finds out what is durable, after the directory was opened again.
    fn settle(&mut self, segments: &Segments) -> Result<(), String> {
        let sealed = segments.sealed();
        if sealed != self.durable.0 {
            let found = self.doubtful.iter().find(|doubtful| doubtful.0 == sealed).cloned();
            self.durable = found.ok_or(format!("{sealed} is sealed, and {} was", self.durable.0))?;
        }
        self.doubtful.clear();
        let files = self.disk.paths().into_iter().filter(|path| path.extension().is_some_and(|it| it == "segment"));
        let (files, live) = (files.count() as u64, segments.stats().segments);
        if files == live { Ok(()) } else { Err(format!("{files} files of {live} segments")) }
    }

    fn random_op(&mut self) -> Op {
        let random = &mut self.random;
        match random.below(42) {
            0..12 => Op::Events(1 + random.below(12), random.below(3)),
            12..20 => Op::Seal,
            20..27 => Op::Merge(1 + random.below(30) as usize),
            27..29 => Op::MergeAll,
            29 => Op::GiveUp,
            30..32 => Op::Expire,
            32 => Op::Pass(random.below(40)),
            33 => Op::LoadFilter,
            34 => {
                if random.chance(20) {
                    Op::Clear
                } else {
                    Op::Heal
                }
            }
            35 | 36 => Op::Kill,
            37 => Op::Cut(random.next()),
            38 => Op::Heal,
            _ => {
                let faults = [Fault::Error(EIO), Fault::Error(ENOSPC), Fault::HalfThenFull, Fault::Short, Fault::Dead];
                let fault = faults[random.below(5) as usize];
                match random.below(6) {
                    0 => Op::Fail(Some(Call::Read), random.below(20), Fault::Error(EIO)),
                    1 => Op::Fail(Some(Call::Open), random.below(4), Fault::Error(EIO)),
                    2 => Op::Fail(Some(Call::SyncDirectory), random.below(4), Fault::Error(EIO)),
                    _ => Op::Fail(None, random.below(16), fault),
                }
            }
        }
    }
}

/// Runs a random sequence. Returns the hash of its trace, or what is wrong.
fn run(seed: u64) -> Result<u64, String> {
    // Some have ticks of a nanosecond, where everything is exact; some have many ids.
    let (ids, unit) =
        (if seed.is_multiple_of(16) { 1_500 } else { 40 }, if seed.is_multiple_of(3) { 1_000_000_007 } else { 16 });
    let mut world = World::new(seed, ids, unit);
    if ids > 40 {
        (0..ids).for_each(|id| world.event(id, false));
    }
    for n in 0..120 {
        let op = world.random_op();
        world.run(&op).map_err(|wrong| format!("seed {seed}, operation {n}, {op:?}: {wrong}"))?;
    }
    // Whatever happened, it goes on.
    world.heal();
    for op in [Op::Kill, Op::Events(9, 1), Op::Seal, Op::MergeAll, Op::Expire, Op::Cut(seed)] {
        world.act(&op).map_err(|wrong| format!("seed {seed}, at the end, {op:?}: {wrong}"))?;
        world.look().map_err(|wrong| format!("seed {seed}, at the end, {op:?}: {wrong}"))?;
    }
    Ok(world.trace)
}

pub(in crate::segments) fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn segments_agree_with_a_plain_map_whatever_happens() {
    let (first, sequences) = (number("HAPAX_SEGMENTS_SEED", 1), number("HAPAX_SEGMENTS", long(30, 250)));
    println!("{sequences} sequences from seed {first} on");
    for seed in first..first + sequences {
        run(seed).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

#[test]
fn a_seed_run_twice_gives_the_same_trace() {
    // (Every 16th has many ids.)
    for seed in 1..long(17, 60) {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}

#[test]
fn it_is_noticed_when_a_rule_is_left_out() {
    for rule in [
        Rule::SegmentFirst,
        Rule::ManifestFirst,
        Rule::KeepDoubtful,
        Rule::TombstoneStays,
        Rule::NewestRecord,
        Rule::WholeRetention,
        Rule::OldestFirst,
    ] {
        let noticed = std::thread::spawn(move || {
            leave_out(Some(rule));
            (1..1_000).find_map(|seed| run(seed).err())
        });
        let noticed = noticed.join().expect("nothing panics");
        println!("without {rule:?}: {}", noticed.as_deref().unwrap_or("not noticed"));
        assert!(noticed.is_some(), "{rule:?} was left out, and nobody noticed");
    }
}
