//! The engine against a model: a map with times. Time is a manual clock's, and it runs wild.

use hapax::{Certainty, Dedup, Forgotten, Int, ManualClock, Tier, Unconfirmed, Verdict};
use proptest::prelude::*;
use std::collections::HashMap;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_secs(100);
const HORIZON: Duration = Duration::from_secs(1_000);

#[derive(Clone, Debug)]
enum Op {
    Check(u64),
    CheckPrepared(u64),
    Batch(Vec<u64>),
    Contains(u64),
    Forget(u64),
    Clear,
    Advance(Duration),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let id = 0..40_u64;
    let millis = prop_oneof![6 => 0..5_000_u64, 2 => 95_000..105_000_u64, 1 => 0..5_000_000_u64];
    let op = prop_oneof![
        16 => id.clone().prop_map(Op::Check),
        4 => id.clone().prop_map(Op::CheckPrepared),
        8 => proptest::collection::vec(id.clone(), 0..150).prop_map(Op::Batch),
        4 => id.clone().prop_map(Op::Contains),
        2 => id.prop_map(Op::Forget),
        1 => Just(Op::Clear),
        10 => millis.prop_map(|millis| Op::Advance(Duration::from_millis(millis))),
    ];
    proptest::collection::vec(op, 1..150)
}

/// What the engine must know: since when each id is remembered by the window, and since when by the history.
#[derive(Default)]
struct Model {
    now: Duration,
    window: HashMap<u64, Duration>,
    history: HashMap<u64, Duration>,
}

/// Within the time that something must be remembered, within the grain beyond it, or after that.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Age {
    Must,
    May,
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct Config {
    history: bool,
    unconfirmed: Unconfirmed,
    refresh: bool,
}

impl Model {
    fn age(&self, since: Option<&Duration>, must: Duration, may: Duration) -> Age {
        match since.map(|since| self.now - *since) {
            Some(age) if age < must => Age::Must,
            Some(age) if age < may => Age::May,
            _ => Age::Gone,
        }
    }

    fn ages(&self, id: u64) -> (Age, Age) {
        let window = self.age(self.window.get(&id), WINDOW, WINDOW + 2 * SECOND);
        // A generation is followed by one more, each as long as the horizon and at least as long as traffic pauses: forever.
        let history = self.age(self.history.get(&id), HORIZON, Duration::MAX);
        (window, history)
    }

    fn judge(&mut self, config: Config, id: u64, verdict: Verdict) {
        let (window, history) = self.ages(id);
        let by_window = verdict.is_duplicate() && verdict.tier() == Tier::Window;
        match window {
            Age::Must => assert!(by_window, "{id}: {verdict:?}, though the window knows it"),
            Age::Gone => assert!(!by_window, "{id}: {verdict:?}, though the window has forgotten it"),
            Age::May => {}
        }
        if !by_window {
            let guess = verdict.certainty() == Certainty::Guess;
            match (config.history, history) {
                (true, Age::Must) => assert!(guess, "{id}: {verdict:?}, though the history knows it"),
                (true, Age::May) => {}
                (true, Age::Gone) | (false, _) => {
                    assert!(verdict.is_fresh() && !guess, "{id}: {verdict:?} without reason")
                }
            }
            if guess {
                assert_eq!(verdict.is_fresh(), config.unconfirmed == Unconfirmed::Fresh);
            }
            assert_eq!(verdict.tier() == Tier::History, config.history);
        }
        if verdict.is_fresh() || config.refresh {
            self.window.insert(id, self.now);
        }
        // A refresh by the window is the window's affair only.
        if verdict.is_fresh() || (config.refresh && !by_window) {
            self.history.insert(id, self.now);
        }
    }
}

fn run(config: Config, ops: &[Op]) {
    let clock = ManualClock::new();
    let mut builder = Dedup::builder()
        .window(WINDOW)
        .capacity(1_000)
        .clock(clock.clone())
        .refresh_on_duplicate(config.refresh)
        .seed(7);
    if config.history {
        // A rate so low that no coincidence disturbs.
        builder = builder.history(HORIZON, 1e-9, 20_000).unconfirmed(config.unconfirmed);
    }
    let dedup = builder.build().unwrap();
    let mut model = Model::default();
    let (mut verdicts, mut checks) = (Vec::new(), 0);
    for op in ops {
        match op {
            Op::Advance(by) => {
                clock.advance(*by);
                model.now += *by;
            }
            Op::Check(id) => model.judge(config, *id, dedup.check(Int::from(*id))),
            Op::CheckPrepared(id) => model.judge(config, *id, dedup.check_prepared(dedup.prepare(Int::from(*id)))),
            Op::Batch(ids) => {
                dedup.check_batch(ids.iter().map(|id| Int::from(*id)), &mut verdicts);
                assert_eq!(verdicts.len(), ids.len());
                ids.iter().zip(&verdicts).for_each(|(id, verdict)| model.judge(config, *id, *verdict));
                checks += ids.len() as u64;
            }
            Op::Contains(id) => {
                let found = dedup.contains(Int::from(*id));
                match model.ages(*id) {
                    (Age::Must, _) => assert_eq!(found, Some(Tier::Window)),
                    (Age::Gone, Age::Must) if config.history => assert_eq!(found, Some(Tier::History)),
                    (Age::Gone, _) => assert_ne!(found, Some(Tier::Window)),
                    (Age::May, _) => {}
                }
            }
            Op::Forget(id) => {
                let forgotten = dedup.forget(Int::from(*id));
                model.window.remove(id);
                let by_history = config.history && model.history.contains_key(id);
                if !by_history {
                    assert_eq!(forgotten, Forgotten::Entirely);
                } else if model.ages(*id).1 == Age::Must {
                    assert_eq!(forgotten, Forgotten::ExceptByHistory);
                }
                assert_ne!(dedup.contains(Int::from(*id)), Some(Tier::Window));
            }
            Op::Clear => {
                dedup.clear();
                model.window.clear();
                model.history.clear();
            }
        }
        checks += u64::from(matches!(op, Op::Check(_) | Op::CheckPrepared(_)));
        let must = model.window.keys().filter(|id| model.ages(**id).0 == Age::Must).count() as u64;
        let may = model.window.keys().filter(|id| model.ages(**id).0 != Age::Gone).count() as u64;
        let stats = dedup.stats();
        assert_eq!((stats.checks(), stats.window.evicted_live, stats.window.repaired_lines), (checks, 0, 0));
        assert!((must..=may).contains(&stats.window.live), "{} live, not {must} to {may}", stats.window.live);
        assert_eq!(stats.window.effective_window, WINDOW);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_engine_agrees_with_the_model(ops in ops(), history: bool, admit: bool, refresh: bool) {
        let unconfirmed = if admit { Unconfirmed::Fresh } else { Unconfirmed::Duplicate };
        run(Config { history, unconfirmed, refresh }, &ops);
    }
}
