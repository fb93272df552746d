//! Operations of a sequence, and sequences by a seed.
//!
//! Every operation has a meaning in every state (one that has nothing to act on does nothing), so a
//! sequence from which some were taken away is a sequence: that makes shrinking simple. `Debug`
//! prints an operation as the Rust that makes it, so a shrunk sequence can be pasted into
//! [`regressions`](super::regressions).

use super::config::{Config, Kind};
use crate::random::Random;

/// One of the few ids that a sequence is about.
pub(super) type Id = u8;

/// The number of ids, so few that operations meet.
pub(super) const IDS: Id = 8;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Op {
    /// An advance of all clocks, by this many thousandths of a window.
    Advance {
        milliwindows: u32,
    },
    /// An advance by a horizon of the history and a little.
    AdvanceHorizon,
    Check {
        id: Id,
    },
    /// A check of ids from `first` on, wrapping around the end, in one batch.
    CheckBatch {
        first: Id,
        ids: u8,
    },
    /// An event whose time is ahead of stream time by this many thousandths of a window.
    Event {
        id: Id,
        milliwindows: i32,
    },
    /// An event whose time is centuries ahead of everything.
    EventFromTheFuture {
        id: Id,
    },
    CheckPrepared {
        id: Id,
    },
    /// A check that another caller's forgetting of the id meets while a long memory is asked.
    ForgottenMeanwhile {
        id: Id,
    },
    Contains {
        id: Id,
    },
    /// In the midst of the next call that asks the window, after it has looked there so often: all
    /// clocks advance, by this many thousandths of a window, and other callers insert so many ids.
    Meanwhile {
        looks: u8,
        milliwindows: u32,
        others: u16,
    },
    Stats,
    Claim {
        id: Id,
        fingerprint: Option<u8>,
    },
    ClaimBatch {
        first: Id,
        ids: u8,
    },
    /// The completion of the claim of this number, of those that are open.
    Complete {
        claim: u8,
    },
    Release {
        claim: u8,
    },
    Fail {
        claim: u8,
        milliwindows: u32,
    },
    Renew {
        claim: u8,
    },
    /// The completion of open claims in a batch, whose iterator panics after this many.
    CompleteBatch {
        claims: u8,
        panics_after: Option<u8>,
    },
    Forget {
        id: Id,
    },
    Clear,
    /// A clearing, in the midst of which another caller checks an id, and flushes.
    ClearBeside {
        id: Id,
    },
    Flush,
    /// The end of the work on the ids that were checked so far: they may be appended (journals that
    /// defer).
    Append,
    /// A checkpoint (journals that have them).
    Checkpoint,
    /// A burst of as many ids as the history is made for, all new.
    Burst,
    /// The disk is full from now on, or has room again.
    Full {
        full: bool,
    },
    /// A failure of the sync after this many others.
    SyncFails {
        after: u8,
    },
    /// A failure of any call that changes something, after this many others.
    CallFails {
        after: u8,
    },
    ReopenJournal,
    RemoveDirectory,
    /// Damage to a file on the disk; the process is killed and started again.
    Damage {
        how: Harm,
        which: u8,
    },
    /// A kill of the process; data that was not synced may be lost, as the seed decides.
    Crash {
        seed: u16,
    },
    /// A clean stop and a start, with another window if that is not 0: this many thousandths of the
    /// first one.
    Restart {
        milliwindows: u32,
    },
    /// A suspension of the machine for this many thousandths of a window.
    Suspend {
        milliwindows: u32,
    },
    /// A step of the wall clock, forward or back.
    WallStep {
        milliwindows: i32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Harm {
    DeleteFile,
    ZeroHeader,
    FlipBit,
    Truncate,
}

impl Op {
    /// Returns true if it is a call that carries a time, or one that sets none; or no call at all.
    pub(super) fn is_timed_or_reads(self) -> bool {
        !matches!(
            self,
            Op::Check { .. }
                | Op::CheckPrepared { .. }
                | Op::ForgottenMeanwhile { .. }
                | Op::CheckBatch { .. }
                | Op::Claim { .. }
                | Op::ClaimBatch { .. }
                | Op::Complete { .. }
                | Op::CompleteBatch { .. }
                | Op::Renew { .. }
                | Op::ClearBeside { .. }
                | Op::Append
                | Op::Burst
        )
    }

    pub(super) fn ends_the_process(self) -> bool {
        matches!(self, Op::Crash { .. } | Op::Damage { .. } | Op::Restart { .. })
    }
}

/// A sequence: an engine, and the operations on it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sequence {
    pub(super) config: Config,
    pub(super) ops: Vec<Op>,
}

impl Sequence {
    pub(super) fn of_seed(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let config = Config::draw(random).with_long_memory(&mut Random::new(!seed));
        let len = 10 + random.below(50);
        // Some sequences come in bursts, a horizon apart.
        let in_bursts = config.history.is_some() && random.below(3) == 0;
        let op = |_| match random.below(10) {
            0..5 if in_bursts => Op::Burst,
            5..9 if in_bursts => Op::AdvanceHorizon,
            _ => draw(random, &config),
        };
        let ops: Vec<_> = (0..len).map(op).collect();
        // (Drawn apart, so that the other operations are what they were without.)
        let random = &mut Random::new(seed.rotate_left(32) ^ 0x6d65_616e);
        let with_meanwhile = |op| match op {
            Op::Claim { id, .. } if random.below(4) == 0 => at_the_edge(random, id, op),
            _ if random.below(4) == 0 => vec![meanwhile(random), op],
            _ => vec![op],
        };
        let ops = ops.into_iter().flat_map(with_meanwhile).collect();
        Sequence { config, ops }
    }
}

/// Draws what happens in the midst of the next call: mostly time passes, often no more than a tick
/// or two; now and then a table fills.
fn meanwhile(random: &mut Random) -> Op {
    let milliwindows = match random.below(8) {
        0..4 => random.below(30),
        4..6 => random.below(1_200),
        6 => 985 + random.below(60),
        _ => random.below(5_000),
    };
    let others = if random.below(16) == 0 { 3_000 } else { random.below(3) };
    Op::Meanwhile { looks: random.below(6) as u8, milliwindows: milliwindows as u32, others: others as u16 }
}

/// Returns a call about an id that is about to leave the window, and does in its midst.
fn at_the_edge(random: &mut Random, id: Id, op: Op) -> Vec<Op> {
    let first = match random.below(2) {
        0 => vec![Op::Check { id }],
        _ => vec![Op::Claim { id, fingerprint: Some(0) }, Op::Complete { claim: 0 }],
    };
    let edge = Op::Advance { milliwindows: 980 + random.below(20) as u32 };
    // (Another call finds that it is time to seal.)
    let other = Op::Check { id: (id + 1) % IDS };
    let passes = Op::Meanwhile { looks: random.below(8) as u8, milliwindows: 10 + random.below(60) as u32, others: 0 };
    [first, vec![edge, other, passes, op]].concat()
}

fn draw(random: &mut Random, config: &Config) -> Op {
    let id = |random: &mut Random| random.below(u64::from(IDS)) as Id;
    // Most steps are short, some end just about where something expires, some are long.
    let milliwindows = |random: &mut Random| match random.below(8) {
        0..4 => random.below(30),
        4 => random.below(600),
        5 => 985 + random.below(20),
        6 => 1_000 + random.below(60),
        _ => random.below(3_000),
    };
    match random.below(100) {
        0..14 => Op::Advance { milliwindows: milliwindows(random) as u32 },
        14..34 => match config.kind {
            Kind::Events if random.below(8) > 0 => {
                let milliwindows = match random.below(8) {
                    0 => -(random.below(1_200) as i32),
                    1 => milliwindows(random) as i32,
                    2 => random.below(20_000) as i32,
                    _ => random.below(40) as i32,
                };
                Op::Event { id: id(random), milliwindows }
            }
            _ => Op::Check { id: id(random) },
        },
        34..38 => Op::CheckBatch { first: id(random), ids: random.below(12) as u8 },
        38 => match config.kind {
            Kind::Events => Op::EventFromTheFuture { id: id(random) },
            _ => Op::Contains { id: id(random) },
        },
        39..42 => Op::Contains { id: id(random) },
        42 => Op::Stats,
        43..51 => {
            let fingerprint = (random.below(3) > 0).then(|| random.below(3) as u8);
            Op::Claim { id: id(random), fingerprint }
        }
        51..53 => Op::ClaimBatch { first: id(random), ids: random.below(6) as u8 },
        53..60 => Op::Complete { claim: random.below(4) as u8 },
        60..62 => Op::Release { claim: random.below(4) as u8 },
        62 => Op::Fail { claim: random.below(4) as u8, milliwindows: random.below(400) as u32 },
        63 => Op::Renew { claim: random.below(4) as u8 },
        64..66 => {
            let panics_after = (random.below(2) == 0).then(|| random.below(3) as u8);
            Op::CompleteBatch { claims: random.below(5) as u8, panics_after }
        }
        66..69 => Op::Forget { id: id(random) },
        69 if random.below(2) == 0 => Op::ClearBeside { id: id(random) },
        69 => Op::Clear,
        70..74 if config.checkpoints => Op::Checkpoint,
        70..79 => Op::Flush,
        79..81 => Op::Append,
        81..83 => Op::Full { full: random.below(2) == 0 },
        83 => Op::SyncFails { after: random.below(4) as u8 },
        84..86 => Op::ReopenJournal,
        86 => Op::RemoveDirectory,
        87 => {
            let how = [Harm::DeleteFile, Harm::ZeroHeader, Harm::FlipBit, Harm::Truncate];
            Op::Damage { how: how[random.below(4) as usize], which: random.below(256) as u8 }
        }
        88..91 => Op::Crash { seed: random.below(1 << 16) as u16 },
        91..94 => {
            let other = [0, 0, 0, 100, 500, 1_500, 4_000];
            Op::Restart { milliwindows: other[random.below(7) as usize] }
        }
        94..96 => Op::Suspend { milliwindows: milliwindows(random) as u32 },
        96 => Op::WallStep { milliwindows: random.below(8_000) as i32 - 4_000 },
        97 => Op::AdvanceHorizon,
        98 if config.long.is_some() => match random.below(2) {
            0 => Op::CheckPrepared { id: id(random) },
            _ => Op::CallFails { after: random.below(12) as u8 },
        },
        _ if config.long.is_some() => Op::ForgottenMeanwhile { id: id(random) },
        _ if config.history.is_some() => Op::Burst,
        _ => Op::Check { id: id(random) },
    }
}
