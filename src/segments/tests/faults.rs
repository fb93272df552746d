//! Each call to the disk fails, in each way, in a run that seals, forgets, merges, expires and
//! clears: the directory opens with what was durable, and goes on.

use super::model::{Op, World};
use crate::journal::files::simulated::Fault;
use crate::long::long;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// The run, in which something is sealed again and again, and merged twice.
fn script() -> Vec<Op> {
    let mut ops = Vec::new();
    for n in 0..7 {
        ops.extend([Op::Events(12, 2), Op::Seal]);
        match n {
            3 => ops.extend([Op::Merge(10), Op::Merge(10), Op::GiveUp]),
            5 => ops.push(Op::MergeAll),
            _ => {}
        }
    }
    ops.extend([Op::MergeAll, Op::Pass(15), Op::Expire, Op::Events(12, 1), Op::Seal, Op::Clear]);
    ops.extend([Op::Events(12, 1), Op::Seal]);
    ops
}

/// Runs the script on a disk a call of which fails. Returns the number of calls that were made.
fn run(after: u64, fault: Fault, cut: bool) -> u64 {
    let what = format!("{fault:?} of call {after}, power cut: {cut}");
    let mut world = World::new(5, 30, 16);
    let run = |world: &mut World, op: Op| world.run(&op).unwrap_or_else(|wrong| panic!("{what}: {op:?}: {wrong}"));
    run(&mut world, Op::Fail(None, after, fault));
    script().into_iter().for_each(|op| run(&mut world, op));
    let calls = world.disk.calls();
    // What failed is tried again, by the next process.
    for op in [if cut { Op::Cut(after) } else { Op::Kill }, Op::Events(12, 1), Op::Seal, Op::MergeAll, Op::Expire] {
        run(&mut world, op);
    }
    world.open().unwrap_or_else(|error| panic!("{what}: {error}"));
    calls
}

#[test]
fn whatever_call_fails_the_directory_has_what_was_durable() {
    let calls = run(u64::MAX, Fault::Dead, false);
    assert!(calls > 100, "{calls}");
    let faults = [Fault::Error(EIO), Fault::Error(ENOSPC), Fault::HalfThenFull, Fault::Short, Fault::Dead];
    let ways = faults.into_iter().flat_map(|fault| [(fault, false), (fault, true)]);
    // A short run has each call fail in one or two of the ten ways, others for the next call.
    for (after, (fault, cut)) in
        (0..calls).flat_map(|after| ways.clone().map(move |way| (after, way))).step_by(long(7, 1))
    {
        run(after, fault, cut);
    }
}
