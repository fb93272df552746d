//! Decodes bytes as operations on an engine, for a fuzzer. Every byte string is a run.
//!
//! A byte for the configuration, then operations: a byte for the operation and its variant, then
//! its arguments. Missing bytes end the run.

use super::model::{Config, How, Op, run};
use hapax::{Stats, Unconfirmed};
use std::time::Duration;

/// The largest number of operations in a run.
const OPS_MAX: usize = 400;

/// Ids that share two buckets, each the other's alternate, when ids are trusted, the seed is
/// [`Config::SEED`] and a table has 1,024 buckets: the first 32 are at home in the one, the others
/// in the other. Sixteen slots for 48 ids.
pub const CROWD: [u64; 48] = [
    1049911, 1654010, 1691321, 2178390, 2611037, 2926802, 3030144, 3058948, 3262905, 3439579, 3518023, 3600468,
    3764823, 4218151, 4867060, 4899523, 5143136, 5146175, 5569439, 6214131, 6217018, 6345586, 6622094, 6711786,
    7262534, 7546025, 7595985, 7612691, 7762608, 7850281, 7945864, 8464168, 8674261, 8942611, 8956563, 9206374,
    9732250, 10109885, 10788661, 11611746, 11818733, 11864367, 11997241, 12355591, 12633053, 12941786, 13001971,
    13710467,
];

/// The engines that a target builds. A history takes a hundred times as long to build as a run
/// takes, so it has a target of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tiers {
    Window,
    WindowAndHistory,
}

/// Runs the decoded operations on an engine and its model. Returns what the engine has counted, if
/// there was a run.
pub fn fuzz(tiers: Tiers, bytes: &[u8]) -> Option<Stats> {
    let mut bytes = bytes.iter().copied();
    let config = config(tiers, bytes.next()?);
    let ops: Vec<_> = std::iter::from_fn(|| op(&config, &mut bytes)).take(OPS_MAX).collect();
    Some(run(config, &ops))
}

fn config(tiers: Tiers, bits: u8) -> Config {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    let (window, tick) = match bits & 3 {
        0 => (Duration::from_secs(100), Duration::from_secs(1)),
        1 => (Duration::from_nanos(100), Duration::from_nanos(1)),
        2 => (Duration::from_nanos(19_999_999_999), Duration::from_millis(100)),
        _ => (100 * YEAR, YEAR),
    };
    let unconfirmed = if bits & 8 == 0 { Unconfirmed::Duplicate } else { Unconfirmed::Fresh };
    let history = (tiers == Tiers::WindowAndHistory).then_some(unconfirmed);
    let horizon = (window * 5 / 2).clamp(Duration::from_millis(1), 100 * YEAR);
    Config { window, tick, refresh: bits & 4 != 0, history, horizon, crowded: true }
}

fn op(config: &Config, bytes: &mut impl Iterator<Item = u8>) -> Option<Op> {
    let first = bytes.next()?;
    let how = How { at: first & 0x10 != 0, prepared: first & 0x20 != 0 };
    Some(match first & 15 {
        0..=4 => Op::Check(how, id(bytes.next()?)),
        5..=6 => Op::Batch(how, (0..1 + bytes.next()? % 150).map_while(|_| bytes.next()).map(id).collect()),
        7 => {
            let (from, to) = (bytes.next()?, bytes.next()?);
            Op::Batch(how, (from.min(to)..=from.max(to)).map(id).collect())
        }
        8 => Op::Prepare(id(bytes.next()?)),
        9 => Op::Contains(id(bytes.next()?)),
        10 => Op::Forget(id(bytes.next()?)),
        11 if first & 0xf0 == 0 => Op::Clear,
        11 => Op::Stats,
        kind => Op::Advance(advance(config, kind, first >> 4, i64::from(bytes.next()?))),
    })
}

/// Returns an id: one of the crowd, or of 16 ids that are each alone.
fn id(byte: u8) -> u64 {
    CROWD.get(usize::from(byte % 64)).copied().unwrap_or(u64::from(byte % 64))
}

/// Returns the nanoseconds by which time moves: to a point where something changes, and around it.
fn advance(config: &Config, kind: u8, which: u8, by: i64) -> i64 {
    let (window, tick) = (config.window.as_nanos() as i64, config.tick.as_nanos() as i64);
    match (kind, which) {
        (12, _) => by.saturating_mul(tick) / 16,
        (13, 0..=7) => by.saturating_mul(tick),
        (13, _) => -by.saturating_mul(tick) / 16,
        (14, 0..=3) => window - 1 - by % 4,
        (14, 4..=7) => window + 2 * tick + by % 4,
        (14, 8..=11) => tick - 1 + by % 4,
        (14, _) => window / 2 + by.saturating_mul(tick) / 16,
        // Ticks have ten bits.
        (_, 0..=7) => (by + 1).saturating_mul(128).saturating_mul(tick),
        (_, 8..=13) => (by + 1).saturating_mul(window),
        _ => (by + 1).saturating_mul(window).saturating_mul(1_000_003),
    }
}
