//! The engine against a model: maps with times. Time is a manual clock's, and it jumps at random.

use hapax::{Dedup, Forgotten, History, Int, ManualClock, Prepared, Stats, Tier, Timestamp, Unconfirmed, Verdict};
use std::collections::HashMap;
use std::time::Duration;

/// The configuration of the engine.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub window: Duration,
    pub tick: Duration,
    pub refresh: bool,
    /// The policy, if there is a history.
    pub history: Option<Unconfirmed>,
    pub horizon: Duration,
    /// True if so many ids share a bucket that some are moved and some evicted.
    pub crowded: bool,
}

impl Config {
    /// The seed that `crowded` relies on: it determines which ids share a bucket.
    pub const SEED: u64 = 7;

    fn build(&self, clock: &ManualClock) -> Dedup {
        let mut builder = Dedup::builder()
            .window(self.window)
            .capacity(1_000)
            .max_memory_bytes(64 << 10) // a run is too short to grow; how many are evicted must not depend on a thread
            .clock(clock.clone())
            .refresh_on_duplicate(self.refresh)
            // The crowd is one of these digests, for which a seed was found; faster, too.
            .seed(Self::SEED)
            .trusted_ids();
        if let Some(unconfirmed) = self.history {
            // A rate so low that no coincidence disturbs.
            let history = History { horizon: self.horizon, ids: 1_000, false_positive_rate: 1e-12, unconfirmed };
            builder = builder.history(history);
        }
        builder.build().expect("these options are valid")
    }
}

/// The way in which ids are checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// True to check at a time that the caller gives: the clock's.
    pub at: bool,
    pub prepared: bool,
}

#[derive(Clone, Debug)]
pub enum Op {
    Check(How, u64),
    Batch(How, Vec<u64>),
    /// Prepares ids for a later check.
    Prepare(u64),
    Contains(u64),
    Forget(u64),
    Clear,
    /// Moves the clock by nanoseconds; backwards, too.
    Advance(i64),
    Stats,
}

/// The age of an id: within the time that it must be remembered, within the grain beyond it, or
/// after that.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Age {
    Must,
    May,
    Gone,
}

/// The model: the time since which each id is remembered by the window, and by the history.
struct Model {
    config: Config,
    /// The time of this call, and the latest of any call, in nanoseconds.
    given: u64,
    latest: u64,
    calls: u64,
    window: HashMap<u64, u64>,
    history: HashMap<u64, (u64, u64)>,
    /// Ids that the window has forgotten although it must know them.
    missed: u64,
    /// The age of the youngest id that this call has missed.
    youngest_missed: u64,
    checks: u64,
}

fn nanos(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

impl Model {
    fn new(config: Config) -> Self {
        Model {
            config,
            given: 0,
            latest: 0,
            calls: 0,
            window: HashMap::new(),
            history: HashMap::new(),
            missed: 0,
            youngest_missed: u64::MAX,
            checks: 0,
        }
    }

    /// Begins a call.
    fn call(&mut self, at: Timestamp) {
        self.given = at.as_nanos();
        self.latest = self.latest.max(self.given);
        self.calls += 1;
    }

    fn start_of_latest_tick(&self) -> u64 {
        self.latest - self.latest % nanos(self.config.tick)
    }

    /// Returns the time that an engine without a clock uses for a call: the end of the latest tick.
    fn end_of_latest_tick(&self) -> Timestamp {
        let tick = nanos(self.config.tick);
        Timestamp::from_nanos((self.latest / tick + 1).saturating_mul(tick) - 1)
    }

    fn elapsed(&self, since: u64) -> u64 {
        self.latest.saturating_sub(since)
    }

    fn in_window(&self, id: u64) -> Age {
        let (window, tick) = (nanos(self.config.window), nanos(self.config.tick));
        match self.window.get(&id).map(|since| self.elapsed(*since)) {
            Some(age) if age < window => Age::Must,
            Some(age) if age < window + 2 * tick => Age::May,
            _ => Age::Gone,
        }
    }

    fn in_history(&self, id: u64) -> Age {
        match self.history.get(&id) {
            // A batch asks the history about some ids at once, so an id that was accepted and
            // evicted among them is not known yet.
            Some((since, call)) if self.elapsed(*since) < nanos(self.config.horizon) && *call < self.calls => Age::Must,
            // A generation is followed by one more, each as long as the horizon and at least as
            // long as traffic pauses: forever.
            Some(_) => Age::May,
            None => Age::Gone,
        }
    }

    fn miss(&mut self, id: u64) {
        let since = self.window.remove(&id).expect("what must be known was accepted");
        self.missed += 1;
        self.youngest_missed = self.youngest_missed.min(self.elapsed(since));
    }

    fn judge(&mut self, id: u64, verdict: Verdict) {
        let by_window = verdict.is_duplicate() && verdict.tier() == Tier::Window;
        match self.in_window(id) {
            Age::Must if !by_window => self.miss(id),
            Age::Gone => assert!(!by_window, "{id}: {verdict:?}, though the window has forgotten it"),
            Age::Must | Age::May => {}
        }
        if !by_window {
            self.judge_without_window(id, verdict);
        }
        if verdict.is_fresh() || self.config.refresh {
            self.window.insert(id, self.latest);
        }
        // A refresh by the window does not affect the history.
        if verdict.is_fresh() || (self.config.refresh && !by_window) {
            self.history.insert(id, (self.given, self.calls));
        }
        self.checks += 1;
    }

    fn judge_without_window(&self, id: u64, verdict: Verdict) {
        let guess = !verdict.is_certain();
        match (self.config.history, self.in_history(id)) {
            (Some(_), Age::Must) => assert!(guess, "{id}: {verdict:?}, though the history knows it"),
            (Some(_), Age::May) => {}
            (Some(_), Age::Gone) | (None, _) => {
                assert!(verdict.is_fresh() && !guess, "{id}: {verdict:?} without reason");
            }
        }
        if guess {
            assert_eq!(verdict.is_fresh(), self.config.history == Some(Unconfirmed::Fresh));
        }
        assert_eq!(verdict.tier() == Tier::History, self.config.history.is_some());
    }

    fn judge_contains(&mut self, id: u64, found: Option<Tier>) {
        match (self.in_window(id), found) {
            (Age::Must | Age::May, Some(Tier::Window)) => return,
            (Age::Must, _) => self.miss(id),
            (Age::May, _) => {}
            (Age::Gone, _) => assert_ne!(found, Some(Tier::Window), "{id} should be forgotten"),
        }
        match (self.config.history, self.in_history(id)) {
            (Some(_), Age::Must) => assert_eq!(found, Some(Tier::History), "{id}"),
            (Some(_), Age::May) => {}
            (Some(_), Age::Gone) | (None, _) => assert_eq!(found, None, "{id}"),
        }
    }

    fn judge_forgotten(&mut self, id: u64, forgotten: Forgotten) {
        self.window.remove(&id);
        match (self.config.history, self.in_history(id)) {
            (Some(_), Age::Must) => assert_eq!(forgotten, Forgotten::ExceptByHistory, "{id}"),
            (Some(_), Age::May) => {}
            (Some(_), Age::Gone) | (None, _) => assert_eq!(forgotten, Forgotten::Entirely, "{id}"),
        }
    }

    fn judge_stats(&self, stats: &Stats) {
        let count =
            |counts: fn(Age) -> bool| self.window.keys().filter(|id| counts(self.in_window(**id))).count() as u64;
        let (must, may) = (count(|age| age == Age::Must), count(|age| age != Age::Gone));
        let window = &stats.window;
        assert_eq!((stats.checks(), window.repaired_buckets, window.tick), (self.checks, 0, self.config.tick));
        assert!(window.live + window.evicted_live >= must, "{} live, {must} must be: {stats:?}", window.live);
        // A refreshed id may be in both of its buckets.
        if !(self.config.refresh && self.config.crowded) {
            assert!(window.live <= may, "{} live, at most {may} may be", window.live);
        }
        let (missed, evicted) = (self.missed, window.evicted_live);
        assert!(missed <= evicted, "{missed} ids were forgotten early, {evicted} of them counted");
        assert!(evicted == 0 || self.config.crowded, "{evicted} evicted without need");
        assert!(evicted > 0 || window.effective_window == self.config.window, "{stats:?}");
        let youngest = Duration::from_nanos(self.youngest_missed);
        assert!(youngest >= window.effective_window, "forgotten after {youngest:?}: {stats:?}");
    }
}

/// The first time, in nanoseconds, that no event may have.
const END: u64 = 1 << 62;

/// An engine and its model.
struct Both {
    dedup: Dedup,
    clock: ManualClock,
    /// True if a call without a time has used the clock.
    goes_by_clock: bool,
    /// The amount by which the engine's time is ahead of the given times, once it has been given
    /// one.
    offset: Option<u64>,
    prepared: HashMap<u64, Prepared>,
    verdicts: Vec<Verdict>,
    model: Model,
}

impl Both {
    /// Begins a call that sets the time. Returns false if it is refused.
    fn call(&mut self, how: How) -> bool {
        let now = hapax::Clock::now(&self.clock);
        if how.at {
            let offset = self.offset.unwrap_or(if self.goes_by_clock {
                self.model.start_of_latest_tick().saturating_sub(now.as_nanos())
            } else {
                0
            });
            if now.as_nanos().max(now.as_nanos() + offset) >= END {
                return false;
            }
            self.offset = Some(offset);
            self.model.call(Timestamp::from_nanos(now.as_nanos() + offset));
        } else {
            self.goes_by_clock |= self.offset.is_none();
            self.model.call(self.now());
        }
        true
    }

    /// Records that times are refused from here on.
    fn refused(&mut self, verdict: Verdict) {
        assert_eq!(verdict.refusal(), Some(hapax::Refusal::Ahead));
        self.model.checks += 1;
    }

    /// Returns the time of a call that is given none.
    fn now(&self) -> Timestamp {
        match self.offset {
            Some(_) => self.model.end_of_latest_tick(),
            None => hapax::Clock::now(&self.clock),
        }
    }

    /// Runs a call that sets no time.
    fn at_rest(&mut self, judge: impl FnOnce(&mut Self)) {
        let (given, latest) = (self.model.given, self.model.latest);
        self.model.call(self.now());
        judge(self);
        (self.model.given, self.model.latest) = (given, latest);
    }

    /// Reads statistics. They set the time as a check does, if that is the clock's, and never that
    /// of events.
    fn look(&mut self) {
        self.at_rest(|both| both.model.judge_stats(&both.dedup.stats()));
        if self.goes_by_clock && self.offset.is_none() {
            self.model.latest = self.model.latest.max(self.now().as_nanos());
        }
    }

    fn prepared(&mut self, id: u64) -> Prepared {
        let dedup = &self.dedup;
        self.prepared.remove(&id).unwrap_or_else(|| dedup.prepare(Int::from(id)))
    }

    fn check(&mut self, how: How, id: u64) {
        let taken = self.call(how);
        let at = hapax::Clock::now(&self.clock);
        let verdict = match (how.prepared, how.at) {
            (false, false) => self.dedup.check(Int::from(id)),
            (false, true) => self.dedup.check_at(Int::from(id), at),
            (true, false) => {
                let prepared = self.prepared(id);
                self.dedup.check(prepared)
            }
            (true, true) => {
                let prepared = self.prepared(id);
                self.dedup.check_at(prepared, at)
            }
        };
        if taken { self.model.judge(id, verdict) } else { self.refused(verdict) }
    }

    fn check_batch(&mut self, how: How, ids: &[u64]) {
        let taken = self.call(how);
        let at = hapax::Clock::now(&self.clock);
        let ints = ids.iter().map(|id| Int::from(*id));
        let prepared: Vec<_> = ids.iter().filter(|_| how.prepared).map(|id| self.prepared(*id)).collect();
        let verdicts = &mut self.verdicts;
        match (how.prepared, how.at) {
            (false, false) => self.dedup.check_batch(ints, verdicts),
            (false, true) => self.dedup.check_batch_at(ints, at, verdicts),
            (true, false) => self.dedup.check_batch(prepared, verdicts),
            (true, true) => self.dedup.check_batch_at(prepared, at, verdicts),
        }
        assert_eq!(verdicts.len(), ids.len());
        for (&id, verdict) in ids.iter().zip(std::mem::take(&mut self.verdicts)) {
            if taken { self.model.judge(id, verdict) } else { self.refused(verdict) }
        }
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Check(how, id) => self.check(*how, *id),
            Op::Batch(how, ids) => self.check_batch(*how, ids),
            Op::Prepare(id) => {
                self.prepared.insert(*id, self.dedup.prepare(Int::from(*id)));
            }
            Op::Contains(id) => self.at_rest(|both| {
                both.model.judge_contains(*id, both.dedup.contains(Int::from(*id)));
            }),
            Op::Forget(id) => self.at_rest(|both| {
                both.model.judge_forgotten(*id, both.dedup.forget(Int::from(*id)));
                assert_ne!(both.dedup.contains(Int::from(*id)), Some(Tier::Window), "{id} was forgotten");
            }),
            Op::Clear => {
                self.dedup.clear();
                self.model.window.clear();
                self.model.history.clear();
            }
            Op::Advance(by) => {
                let now = hapax::Clock::now(&self.clock).as_nanos();
                self.clock.set(Timestamp::from_nanos(now.saturating_add_signed(*by)));
            }
            Op::Stats => self.look(),
        }
        if self.model.youngest_missed != u64::MAX {
            self.look();
            self.model.youngest_missed = u64::MAX;
        }
    }
}

/// Runs the operations on both, and panics where they disagree. Returns what the engine has counted
/// in the end.
pub fn run(config: Config, ops: &[Op]) -> Stats {
    let clock = ManualClock::new();
    let mut both = Both {
        dedup: config.build(&clock),
        clock,
        goes_by_clock: false,
        offset: None,
        prepared: HashMap::new(),
        verdicts: Vec::new(),
        model: Model::new(config),
    };
    ops.iter().chain([&Op::Stats]).for_each(|op| both.step(op));
    both.dedup.stats()
}
