//! Sequences that have failed, as short as they could be made. None is ever removed.

mod long_memory;

use super::config::{Config, HistoryConfig, Kind};
use super::op::Op::*;
use super::op::{Harm, Op, Sequence};
use crate::mutation::Rule;

/// The fault, the mend without which it returns, if that is one of [`MENDS`](super::MENDS), and the
/// sequence.
pub(super) type Regression = (&'static str, Option<Rule>, Sequence);

const PLAIN: Config = Config {
    kind: Kind::Manual,
    window_secs: 10,
    refresh: false,
    deferred: false,
    checkpoints: false,
    history: None,
    long: None,
    lateness: None,
};
const EVENTS: Config = Config { kind: Kind::Events, ..PLAIN };
const SYSTEM: Config = Config { kind: Kind::System, ..PLAIN };
const CHECKPOINTS: Config = Config { checkpoints: true, ..PLAIN };

pub(super) fn all() -> Vec<Regression> {
    let mut all = Vec::new();
    let mut add = |what, mend, config, ops: &[Op]| all.push((what, mend, Sequence { config, ops: ops.to_vec() }));
    of_parts_that_meet(&mut add);
    of_time(&mut add);
    of_checkpoints(&mut add);
    of_lost_checkpoints(&mut add);
    of_fingerprints(&mut add);
    of_damage(&mut add);
    long_memory::all(&mut add);
    all
}

type Add<'a> = &'a mut dyn FnMut(&'static str, Option<Rule>, Config, &[Op]);

/// Adds sequences in which a fingerprint, a window or a clearing meets something else.
fn of_parts_that_meet(add: Add<'_>) {
    add(
        "an id accepted without a fingerprint was a mismatch",
        Some(Rule::CertainMismatch),
        PLAIN,
        &[Check { id: 6 }, Claim { id: 6, fingerprint: Some(2) }],
    );
    add(
        "a fingerprint that differs expired in the midst of a claim, which was told duplicate",
        Some(Rule::AskAgain),
        PLAIN,
        &[
            Claim { id: 2, fingerprint: Some(0) },
            Complete { claim: 0 },
            Advance { milliwindows: 990 },
            Meanwhile { looks: 5, milliwindows: 20, others: 2 },
            Claim { id: 2, fingerprint: Some(2) },
        ],
    );
    add(
        "a fingerprint expired in the midst of a claim, and its id stayed",
        Some(Rule::SlidesAsAsked),
        Config { refresh: true, ..PLAIN },
        &[
            Claim { id: 1, fingerprint: Some(0) },
            Complete { claim: 0 },
            Advance { milliwindows: 985 },
            Meanwhile { looks: 5, milliwindows: 33, others: 0 },
            Claim { id: 1, fingerprint: Some(0) },
            Claim { id: 1, fingerprint: Some(2) },
        ],
    );
    add(
        "what was flushed while all was cleared was gone after a restart",
        Some(Rule::ClearedFirst),
        PLAIN,
        &[ClearBeside { id: 6 }, Restart { milliwindows: 0 }, Check { id: 6 }],
    );
    add(
        "a panic in a batch left claims open",
        Some(Rule::CompleteOnUnwind),
        PLAIN,
        &[ClaimBatch { first: 4, ids: 4 }, CompleteBatch { claims: 2, panics_after: Some(1) }],
    );
    add(
        "a shorter window had the ticks of the longer one",
        Some(Rule::ExactTimes),
        Config { window_secs: 60, ..EVENTS },
        &[
            Event { id: 7, milliwindows: 13 },
            Claim { id: 5, fingerprint: Some(1) },
            Complete { claim: 2 },
            Restart { milliwindows: 100 },
            Event { id: 2, milliwindows: 18 },
            Event { id: 0, milliwindows: 30 },
            Event { id: 3, milliwindows: 9 },
            Event { id: 5, milliwindows: 5 },
            Event { id: 4, milliwindows: 30 },
            Event { id: 5, milliwindows: 6 },
        ],
    );
    add(
        "appending to a journal that has failed did not end",
        Some(Rule::FailureEndsAppend),
        PLAIN,
        &[RemoveDirectory, Flush, Append],
    );
    add(
        "a file that was deleted was not missed",
        Some(Rule::GapsAreKnown),
        PLAIN,
        &[Check { id: 3 }, Flush, Damage { how: Harm::DeleteFile, which: 73 }, Check { id: 3 }],
    );
    add(
        "a suspended machine forgot after a restart",
        Some(Rule::GoOn),
        SYSTEM,
        &[Suspend { milliwindows: 1_464 }, Check { id: 7 }, Restart { milliwindows: 0 }, Check { id: 7 }],
    );
    add("a directory that is gone was not missed", Some(Rule::LookForDirectory), PLAIN, &[RemoveDirectory, Flush]);
    add(
        "bursts a horizon apart came into one generation",
        Some(Rule::OneHorizon),
        Config { history: Some(HistoryConfig { horizon_windows: 1, one_in: 100, unconfirmed_fresh: true }), ..PLAIN },
        &[Burst, AdvanceHorizon, Burst, AdvanceHorizon, Burst, AdvanceHorizon, Burst],
    );
    add(
        "(the reference:) bursts that are appended late are in one horizon after a restart",
        None,
        Config {
            deferred: true,
            history: Some(HistoryConfig { horizon_windows: 3, one_in: 100, unconfirmed_fresh: false }),
            ..PLAIN
        },
        &[Burst, AdvanceHorizon, Burst, AdvanceHorizon, Append, Restart { milliwindows: 0 }, AdvanceHorizon, Burst],
    );
    add(
        "looking for an id set the time for a replay",
        Some(Rule::ReadingMovesNothing),
        EVENTS,
        &[Contains { id: 4 }, Event { id: 5, milliwindows: 3_280 }, Event { id: 5, milliwindows: 18_013 }],
    );
    add(
        "an event of another century set the time",
        Some(Rule::RefuseAhead),
        EVENTS,
        &[Check { id: 6 }, EventFromTheFuture { id: 2 }],
    );
}

/// Adds findings of these sequences, about time.
fn of_time(add: Add<'_>) {
    add(
        "under a longer window the second acceptance was a duplicate of the first",
        Some(Rule::LatestAcceptance),
        PLAIN,
        &[
            Check { id: 3 },
            Advance { milliwindows: 1_030 },
            Check { id: 3 },
            Advance { milliwindows: 493 },
            Restart { milliwindows: 1_500 },
            Check { id: 3 },
        ],
    );
    add(
        "an event of an id in progress did not move stream time",
        None,
        EVENTS,
        &[
            Event { id: 6, milliwindows: 38 },
            Claim { id: 4, fingerprint: None },
            Event { id: 4, milliwindows: 12_090 },
            CheckBatch { first: 3, ids: 9 },
        ],
    );
    add(
        "an event from before the window's beginning was never late",
        None,
        Config { lateness: Some(666), ..EVENTS },
        &[CheckBatch { first: 1, ids: 8 }, Event { id: 6, milliwindows: 14 }, Event { id: 2, milliwindows: -928 }],
    );
    add(
        "forgetting told the journal the clock's time, and its files expired",
        None,
        EVENTS,
        &[
            Event { id: 2, milliwindows: 10_541 },
            Crash { seed: 47_009 },
            Advance { milliwindows: 1_552 },
            Forget { id: 1 },
            Flush,
            Crash { seed: 43_559 },
            Event { id: 2, milliwindows: 24 },
        ],
    );
    add(
        "an edge of a tick became a tick in the journal",
        None,
        Config { window_secs: 60, refresh: true, lateness: Some(679), ..EVENTS },
        &[
            Event { id: 3, milliwindows: -1_183 },
            Event { id: 0, milliwindows: 8 },
            Claim { id: 5, fingerprint: Some(2) },
            Complete { claim: 0 },
            Restart { milliwindows: 100 },
            Event { id: 0, milliwindows: -672 },
        ],
    );
}

/// Adds what checkpoints promise.
fn of_checkpoints(add: Add<'_>) {
    add(
        "what was accepted since the last checkpoint is fresh after a crash",
        Some(Rule::HeldBack),
        CHECKPOINTS,
        &[Check { id: 0 }, Checkpoint, Check { id: 1 }, Flush, Crash { seed: 1 }, Check { id: 1 }, Check { id: 0 }],
    );
    add(
        "the only file with a position was deleted before the next one was durable",
        None,
        CHECKPOINTS,
        &[
            Checkpoint,
            Flush,
            Check { id: 0 },
            Checkpoint,
            Full { full: true },
            Flush,
            ReopenJournal,
            Crash { seed: 62_162 },
        ],
    );
    add(
        "what was accepted before a checkpoint comes back with it",
        Some(Rule::CheckpointAsOne),
        CHECKPOINTS,
        &[Check { id: 0 }, Checkpoint, Flush, Crash { seed: 1 }, Check { id: 0 }],
    );
}

/// Adds what became of checkpoints whose directory was deleted.
fn of_lost_checkpoints(add: Add<'_>) {
    add(
        "(the reference:) a checkpoint that reopening has made durable does not outlive its directory",
        None,
        CHECKPOINTS,
        &[RemoveDirectory, Checkpoint, ReopenJournal, RemoveDirectory, ReopenJournal, Flush, Crash { seed: 7_660 }],
    );
}

/// Adds findings about fingerprints.
fn of_fingerprints(add: Add<'_>) {
    add(
        "an id that slid outlived its fingerprint in the journal",
        None,
        Config { refresh: true, ..EVENTS },
        &[
            Claim { id: 5, fingerprint: Some(0) },
            CompleteBatch { claims: 2, panics_after: None },
            Advance { milliwindows: 995 },
            Flush,
            Event { id: 5, milliwindows: 23 },
            Event { id: 7, milliwindows: 32 },
            Event { id: 6, milliwindows: 34 },
            Restart { milliwindows: 1_500 },
            Event { id: 2, milliwindows: -1_060 },
            Claim { id: 5, fingerprint: Some(2) },
        ],
    );
}

/// Adds findings about disks that fail, fill and lose.
fn of_damage(add: Add<'_>) {
    add(
        "what a second crash brought back was damage",
        None,
        PLAIN,
        &[Check { id: 4 }, SyncFails { after: 2 }, Flush, Crash { seed: 11_540 }, Crash { seed: 14_054 }],
    );
    add(
        "an empty file in a directory made again was nobody's",
        None,
        PLAIN,
        &[
            Check { id: 5 },
            Restart { milliwindows: 500 },
            RemoveDirectory,
            Full { full: true },
            Claim { id: 3, fingerprint: None },
            RemoveDirectory,
            Complete { claim: 2 },
            Restart { milliwindows: 0 },
        ],
    );
    add(
        "what stands in for lost blocks was in the next file's place",
        None,
        SYSTEM,
        &[
            Check { id: 5 },
            Restart { milliwindows: 100 },
            Check { id: 0 },
            SyncFails { after: 1 },
            Flush,
            Damage { how: Harm::FlipBit, which: 28 },
            Check { id: 0 },
            Flush,
        ],
    );
    add(
        "a directory made again had no mark",
        None,
        PLAIN,
        &[
            Check { id: 7 },
            Flush,
            RemoveDirectory,
            ReopenJournal,
            SyncFails { after: 0 },
            Check { id: 5 },
            Restart { milliwindows: 500 },
        ],
    );
    add(
        "a file without blocks did not say what was before it",
        None,
        EVENTS,
        &[
            Event { id: 5, milliwindows: 0 },
            Crash { seed: 27_485 },
            Forget { id: 1 },
            SyncFails { after: 1 },
            Flush,
            Damage { how: Harm::DeleteFile, which: 112 },
            Event { id: 5, milliwindows: 306 },
        ],
    );
    add(
        "a torn file that was cut to its header was nobody's",
        None,
        Config { refresh: true, ..PLAIN },
        &[
            Check { id: 6 },
            Flush,
            Damage { how: Harm::Truncate, which: 169 },
            Damage { how: Harm::ZeroHeader, which: 1 },
        ],
    );
    add(
        "reopening a journal whose directory was replaced counted below nothing",
        None,
        Config { refresh: true, ..SYSTEM },
        &[
            Check { id: 2 },
            Flush,
            Crash { seed: 49_327 },
            RemoveDirectory,
            RemoveDirectory,
            Check { id: 5 },
            Restart { milliwindows: 0 },
            Full { full: true },
            Forget { id: 0 },
            Flush,
            ReopenJournal,
        ],
    );
}
