//! Findings about a long memory.

use super::super::config::Config;
use super::super::op::Harm;
use super::super::op::Op::*;
use super::{Add, CHECKPOINTS, EVENTS, PLAIN, SYSTEM};
use crate::mutation::Rule;

/// Adds findings about a long memory.
pub(super) fn all(add: Add<'_>) {
    add(
        "(the reference:) what waited for a checkpoint since an event was as young as the clock's time",
        None,
        Config { checkpoints: true, refresh: true, long: Some(12_000), ..EVENTS },
        &[Forget { id: 7 }, Event { id: 0, milliwindows: -306 }, Event { id: 4, milliwindows: 9_642 }],
    );
    add(
        "(the reference:) a checkpoint that was written to be sealed was gone with its directory",
        None,
        Config { long: Some(2_000), ..CHECKPOINTS },
        &[
            Advance { milliwindows: 366 },
            Checkpoint,
            Check { id: 3 },
            RemoveDirectory,
            ReopenJournal,
            Crash { seed: 22_536 },
        ],
    );
    add(
        "a replay of events before the clock's time was never sealed",
        None,
        Config { long: Some(12_000), ..EVENTS },
        &[
            Event { id: 0, milliwindows: 35 },
            Check { id: 1 },
            Event { id: 2, milliwindows: 3_057 },
            Event { id: 0, milliwindows: 0 },
        ],
    );
    add(
        "a late event was answered as if the window remembered what was before it",
        None,
        Config { long: Some(1_100), ..EVENTS },
        &[
            Full { full: true },
            Check { id: 2 },
            Event { id: 0, milliwindows: 1 },
            Event { id: 7, milliwindows: 1_003 },
            Event { id: 2, milliwindows: -1_014 },
        ],
    );
    add(
        "an id that left the window in the midst of a claim was granted, though segments had it",
        Some(Rule::SegmentsAgain),
        Config { long: Some(5_000), ..PLAIN },
        &[
            Check { id: 2 },
            Advance { milliwindows: 985 },
            Check { id: 3 },
            Meanwhile { looks: 3, milliwindows: 20, others: 1 },
            Claim { id: 2, fingerprint: None },
        ],
    );
    add(
        "what a check accepted that took half a window was fresh without a doubt before it was sealed",
        None,
        Config { refresh: true, long: Some(12_000), ..CHECKPOINTS },
        &[
            Meanwhile { looks: 2, milliwindows: 449, others: 2 },
            CheckBatch { first: 4, ids: 4 },
            Advance { milliwindows: 990 },
            CheckBatch { first: 5, ids: 10 },
        ],
    );
    add(
        "(the reference:) a fingerprint stays with an id that leaves the window in the midst of a claim",
        None,
        Config { refresh: true, deferred: true, long: Some(5_000), ..PLAIN },
        &[
            Claim { id: 3, fingerprint: Some(0) },
            Complete { claim: 0 },
            Advance { milliwindows: 980 },
            Meanwhile { looks: 5, milliwindows: 39, others: 0 },
            Claim { id: 3, fingerprint: Some(1) },
            Claim { id: 3, fingerprint: Some(1) },
        ],
    );
    add(
        "what could not be sealed in time was fresh without a doubt",
        Some(Rule::BehindIsInDoubt),
        Config { long: Some(12_000), ..PLAIN },
        &[Check { id: 4 }, Full { full: true }, Advance { milliwindows: 1_100 }, Check { id: 4 }],
    );
    add(
        "what was appended late, and could not be sealed in time, was fresh without a doubt",
        Some(Rule::BehindIsInDoubt),
        Config { long: Some(5_000), deferred: true, lateness: Some(642), ..SYSTEM },
        &[
            Check { id: 2 },
            Advance { milliwindows: 291 },
            Check { id: 3 },
            Append,
            Advance { milliwindows: 991 },
            Full { full: true },
            Check { id: 2 },
        ],
    );
    add(
        "an id that was forgotten while it was asked for was fresh twice",
        Some(Rule::InsertAgain),
        Config { long: Some(2_000), ..PLAIN },
        &[ForgottenMeanwhile { id: 0 }, Check { id: 0 }],
    );
    add(
        "a file of the journal was deleted before a segment was made of it",
        Some(Rule::SealedFirst),
        Config { checkpoints: true, lateness: Some(522), long: Some(2_000), ..SYSTEM },
        &[
            ForgottenMeanwhile { id: 6 },
            Checkpoint,
            CheckPrepared { id: 7 },
            Flush,
            Checkpoint,
            Advance { milliwindows: 1_042 },
            CallFails { after: 4 },
            Check { id: 6 },
            CheckBatch { first: 7, ids: 5 },
        ],
    );
    add(
        "what was cleared was known as long as the disk did not take that",
        Some(Rule::VoidAtOnce),
        Config { checkpoints: true, long: Some(12_000), ..EVENTS },
        &[
            CheckBatch { first: 5, ids: 8 },
            Checkpoint,
            Restart { milliwindows: 0 },
            SyncFails { after: 0 },
            ClearBeside { id: 4 },
            Event { id: 7, milliwindows: 37 },
        ],
    );
    add(
        "a lookup before the first event expired segments by the clock",
        None,
        Config { refresh: true, long: Some(5_000), ..EVENTS },
        &[
            CheckBatch { first: 4, ids: 8 },
            Advance { milliwindows: 1_020 },
            Event { id: 0, milliwindows: 34 },
            Restart { milliwindows: 100 },
            AdvanceHorizon,
            Contains { id: 7 },
            Event { id: 6, milliwindows: 23 },
        ],
    );
    add(
        "an id in doubt that was forgotten while it was asked for was not inserted again",
        Some(Rule::InsertAgain),
        Config { checkpoints: true, long: Some(2_000), ..EVENTS },
        &[
            ForgottenMeanwhile { id: 1 },
            Event { id: 5, milliwindows: 39 },
            Forget { id: 0 },
            Event { id: 4, milliwindows: 988 },
            ForgottenMeanwhile { id: 0 },
            Check { id: 0 },
        ],
    );
    add(
        "a journal that was gone, and reopened with nothing to write, did not say how its events' time is counted",
        Some(Rule::TimeIsSaid),
        Config { window_secs: 10, refresh: true, long: Some(2_000), lateness: None, ..EVENTS },
        &[
            CheckBatch { first: 2, ids: 5 },
            Event { id: 1, milliwindows: 33 },
            Restart { milliwindows: 0 },
            RemoveDirectory,
            ReopenJournal,
            Crash { seed: 25_299 },
            Event { id: 6, milliwindows: 14_121 },
        ],
    );
    add(
        "a journal that was gone, and reopened, was at a checkpoint whose ids were gone",
        None,
        Config { refresh: true, deferred: true, long: Some(5_000), ..CHECKPOINTS },
        &[Checkpoint, Contains { id: 3 }, Check { id: 3 }, RemoveDirectory, ReopenJournal, Crash { seed: 49_113 }],
    );
    add(
        "the same, where the disk was full: nothing of what was left was sealed",
        Some(Rule::LossIsMarked),
        Config { window_secs: 10, long: Some(1_100), ..PLAIN },
        &[
            Check { id: 2 },
            Restart { milliwindows: 0 },
            AdvanceHorizon,
            Damage { how: Harm::ZeroHeader, which: 23 },
            Full { full: true },
            Check { id: 3 },
            Meanwhile { looks: 2, milliwindows: 999, others: 1 },
            Claim { id: 0, fingerprint: Some(0) },
            ReopenJournal,
            RemoveDirectory,
            Forget { id: 5 },
            ReopenJournal,
            Restart { milliwindows: 1_500 },
        ],
    );
    add(
        "a journal that was gone, and reopened, was refused by the next engine, though its loss was told",
        Some(Rule::LossIsMarked),
        Config { window_secs: 10, long: Some(2_000), ..PLAIN },
        &[
            Check { id: 0 },
            Flush,
            Crash { seed: 12_774 },
            Check { id: 6 },
            Flush,
            RemoveDirectory,
            ReopenJournal,
            Restart { milliwindows: 0 },
        ],
    );
}
