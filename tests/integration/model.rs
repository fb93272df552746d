//! The engine against a model, on operations drawn at random.

use crate::fuzzed::model::{Config, How, Op, run};
use hapax::Unconfirmed;
use proptest::prelude::*;
use std::time::Duration;

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let id = 0..40_u64;
    let millis = prop_oneof![
        12 => 0..5_000_i64,
        2 => -5_000..0_i64,
        4 => 95_000..105_000_i64,
        2 => 0..5_000_000_i64
    ];
    let how = || any::<(bool, bool)>().prop_map(|(at, prepared)| How { at, prepared });
    let op = prop_oneof![
        20 => (how(), id.clone()).prop_map(|(how, id)| Op::Check(how, id)),
        8 => (how(), proptest::collection::vec(id.clone(), 0..150)).prop_map(|(how, ids)| Op::Batch(how, ids)),
        // Several chunks: of ids that are known for the most part, and of others.
        3 => (how(), proptest::collection::vec(prop_oneof![9 => id.clone(), 1 => 0..1_000_u64], 200..500))
            .prop_map(|(how, ids)| Op::Batch(how, ids)),
        1 => (how(), proptest::collection::vec(0..1_000_u64, 100..200)).prop_map(|(how, ids)| Op::Batch(how, ids)),
        2 => id.clone().prop_map(Op::Prepare),
        4 => id.clone().prop_map(Op::Contains),
        2 => id.prop_map(Op::Forget),
        1 => Just(Op::Clear),
        10 => millis.prop_map(|millis| Op::Advance(millis * 1_000_000)),
    ];
    proptest::collection::vec(op, 1..150)
}

/// Removes the time of an operation.
fn by_the_clock(op: &mut Op) {
    if let Op::Check(how, _) | Op::Batch(how, _) = op {
        how.at = false;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::long(24, 256)))]

    #[test]
    fn the_engine_agrees_with_the_model(
        ops in ops(), stream_time: bool, history: bool, admit: bool, refresh: bool,
    ) {
        let unconfirmed = if admit { Unconfirmed::Fresh } else { Unconfirmed::Duplicate };
        let config = Config {
            window: Duration::from_secs(100),
            tick: Duration::from_secs(1),
            refresh,
            history: history.then_some(unconfirmed),
            horizon: Duration::from_secs(1_000),
            crowded: false,
        };
        let mut ops = ops;
        if !stream_time {
            ops.iter_mut().for_each(by_the_clock);
        }
        let ops: Vec<_> = ops.into_iter().flat_map(|op| [op, Op::Stats]).collect();
        run(config, &ops);
    }
}
