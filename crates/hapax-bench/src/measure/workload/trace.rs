//! Recorded streams.

use super::generate::check_threads;
use super::truth::{Certain, Ledger};
use super::{Bytes, Ids, Stream, WINDOW_TICKS};
use crate::measure::IdKind;
use crate::strategy::Failure;
use hapax::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

mod file;

#[cfg(any(fuzzing, all(test, not(modelled))))]
pub(crate) use self::file::fuzz;

/// Ids with their times, in ticks of the stream.
///
/// It is made by [`push`](Trace::push), and kept in a file, so that every process that measures a
/// strategy reads the same.
///
/// ```
/// use hapax::Timestamp;
/// use hapax_bench::measure::workload::Trace;
/// use std::time::Duration;
///
/// let mut trace = Trace::new(Some(Duration::from_secs(60)));
/// for (second, id) in [(0, "a"), (10, "b"), (75, "c"), (76, "c")] {
///     trace.push(id.as_bytes(), Some(Timestamp::from_secs(second)))?;
/// }
/// assert_eq!(trace.header().live, 2);
/// # Ok::<(), hapax_bench::strategy::Failure>(())
/// ```
///
/// # Memory
///
/// The ids, and 12 bytes for each.
pub struct Trace {
    has_window: bool,
    /// The clock of a trace that is being made; none if it was read.
    clock: Option<TickClock>,
    ids: Bytes,
    /// The tick of each id.
    ticks: Vec<u32>,
}

/// The figures of a trace as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceHeader {
    /// Ticks from the first id to the last one, both included. A pass over the trace is one run
    /// over all of them.
    pub ticks: usize,
    /// The number of its ids.
    pub events: usize,
    /// The most distinct ids within any window: the number that a strategy needs room for.
    pub live: usize,
    /// True if there was a window. If not, all happens in the first tick, and nothing expires.
    pub has_window: bool,
}

/// The largest number of ids in a trace.
const EVENTS_MAX: usize = 1 << 30;

/// The largest number of ticks in a trace: 160,000 windows.
const TICKS_MAX: u64 = 1 << 24;

/// The longest gap without any id that is kept. All ids have expired by then, so the rest does not
/// depend on the length of the gap.
const GAP_TICKS_MAX: u64 = 2 * WINDOW_TICKS as u64;

/// Converts times to ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TickClock {
    window_nanos: u64,
    first: Option<Timestamp>,
    /// Hundredths of a window since the first id, with all gaps.
    hundredths: u64,
    /// The tick, without long gaps.
    tick: u64,
}

impl TickClock {
    /// Returns the tick of a time, or of the latest so far.
    fn tick(&mut self, at: Timestamp) -> u64 {
        let nanos = at.as_nanos().saturating_sub(self.first.get_or_insert(at).as_nanos());
        let hundredths = u128::from(nanos) * WINDOW_TICKS as u128 / u128::from(self.window_nanos);
        let passed = u64::try_from(hundredths).unwrap_or(u64::MAX).saturating_sub(self.hundredths);
        self.hundredths += passed;
        self.tick += passed.min(GAP_TICKS_MAX);
        self.tick
    }
}

impl Trace {
    /// Creates an empty trace. Without a window nothing expires.
    pub fn new(window: Option<Duration>) -> Self {
        let clock = window.map(|window| TickClock {
            window_nanos: u64::try_from(window.as_nanos()).unwrap_or(u64::MAX).max(1),
            first: None,
            hundredths: 0,
            tick: 0,
        });
        Trace { has_window: window.is_some(), clock, ids: Bytes::with_capacity(IdKind::Bytes, 0), ticks: Vec::new() }
    }

    /// Adds an id. One without a time has the time of the one before it, and so does one of an
    /// earlier time: stream time does not go back.
    ///
    /// # Errors
    ///
    /// If there are more than 2^30 ids, or more than 2^24 hundredths of a window with an id in them
    /// or shortly before; and if the trace has a window and was read from a file.
    pub fn push(&mut self, id: &[u8], at: Option<Timestamp>) -> Result<(), Failure> {
        if self.ticks.len() == EVENTS_MAX {
            return Err(format!("a trace has room for {EVENTS_MAX} ids, and there are more").into());
        }
        let tick = match (&mut self.clock, at) {
            (None, _) if self.has_window => return Err("a trace that was read from a file has its end".into()),
            (Some(clock), Some(at)) => clock.tick(at),
            _ => self.ticks.last().map_or(0, |&tick| tick.into()),
        };
        if tick >= TICKS_MAX {
            let windows = TICKS_MAX / WINDOW_TICKS as u64;
            return Err(
                format!("a trace has room for {windows} windows, and this is longer; a longer window helps").into()
            );
        }
        self.ids.push_bytes(id)?;
        self.ticks.push(tick as u32);
        Ok(())
    }

    /// Computes the figures of the trace as a whole. It takes a pass over all ids.
    pub fn header(&self) -> TraceHeader {
        TraceHeader {
            ticks: self.ticks.last().map_or(0, |&tick| tick as usize + 1),
            events: self.ticks.len(),
            live: self.live(),
            has_window: self.has_window,
        }
    }

    /// Returns its ids, in order, each with its tick.
    fn events(&self) -> impl Iterator<Item = (&[u8], usize)> {
        let ticks = self.ticks.iter().map(|&tick| tick as usize);
        self.ids.range(0..self.ticks.len()).zip(ticks)
    }

    /// Returns the most distinct ids that a window has.
    fn live(&self) -> usize {
        let mut last_seen: HashMap<&[u8], usize, foldhash::fast::RandomState> = HashMap::default();
        // The ids that were last seen in a tick, for each tick of the window that ends now.
        let mut seen = [0; WINDOW_TICKS];
        let (mut live, mut live_max, mut now) = (0, 0, 0);
        for (id, tick) in self.events() {
            for passed in now + 1..=tick.min(now + WINDOW_TICKS) {
                live -= std::mem::take(&mut seen[passed % WINDOW_TICKS]);
            }
            now = tick;
            match last_seen.insert(id, tick) {
                Some(last) if tick - last < WINDOW_TICKS => seen[last % WINDOW_TICKS] -= 1,
                _ => live += 1,
            }
            seen[tick % WINDOW_TICKS] += 1;
            live_max = live_max.max(live);
        }
        live_max
    }

    /// Returns its ids by threads, each of which has all of an id's events. Beyond its end there
    /// are empty ticks.
    pub(super) fn streams<B: Ids>(
        &self,
        kind: IdKind,
        threads: usize,
        ticks: usize,
    ) -> Result<Vec<Stream<B>>, Failure> {
        check_threads(threads)?;
        let certain = Certain::with_threads(threads);
        let mut parts: Vec<(Stream<B>, Ledger<&[u8]>)> = (0..threads)
            .map(|_| (Stream::with_capacity(kind, self.ticks.len() / threads), Ledger::new(certain)))
            .collect();
        let mut now = 0;
        for (id, tick) in self.events().take_while(|(_, tick)| *tick < ticks) {
            for _ in now..tick {
                parts.iter_mut().for_each(|(stream, _)| stream.end_tick());
            }
            now = tick;
            let (stream, ledger) = &mut parts[(xxh3_64(id) % threads as u64) as usize];
            stream.ids.push_bytes(id)?;
            stream.truth.push(ledger.check(id, tick));
        }
        for _ in now..ticks {
            parts.iter_mut().for_each(|(stream, _)| stream.end_tick());
        }
        Ok(parts.into_iter().map(|(stream, _)| stream).collect())
    }
}

#[cfg(test)]
mod tests;
