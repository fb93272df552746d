//! Recorded streams.

use super::generate::check_threads;
use super::truth::{Certain, Ledger};
use super::{Ids, Stream, WINDOW_TICKS};
use crate::measure::IdKind;
use crate::strategy::Failure;
use hapax::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// Ids with their times, in ticks of the stream.
///
/// It is made by [`push`](Trace::push), and kept in a file, which the processes read that measure
/// strategies.
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
/// assert_eq!(trace.live(), 2);
/// # Ok::<(), hapax_bench::strategy::Failure>(())
/// ```
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The window in nanoseconds; if none, all happens in the first tick, and nothing expires.
    window_nanos: Option<u64>,
    /// The time of the first id, in nanoseconds.
    first: Option<u64>,
    /// Hundredths of a window since the first id, with all gaps.
    hundredths: u64,
    /// Ids with their ticks.
    events: Vec<(u32, Vec<u8>)>,
}

/// The largest number of ticks in a trace: 160,000 windows.
const TICKS_MAX: u64 = 1 << 24;

/// The longest gap without any id that is kept. All ids have expired by then, so the rest does not
/// depend on the length of the gap.
const GAP_TICKS_MAX: u64 = 2 * WINDOW_TICKS as u64;

impl Trace {
    /// Creates an empty trace. Without a window nothing expires.
    pub fn new(window: Option<Duration>) -> Self {
        let nanos = |window: Duration| u64::try_from(window.as_nanos()).unwrap_or(u64::MAX).max(1);
        Trace { window_nanos: window.map(nanos), ..Trace::default() }
    }

    /// Adds an id. One without a time has the time of the one before it, and so does one of an
    /// earlier time: stream time does not go back.
    ///
    /// # Errors
    ///
    /// If there are more than 2^24 hundredths of a window with an id in them or shortly before.
    pub fn push(&mut self, id: &[u8], at: Option<Timestamp>) -> Result<(), Failure> {
        let mut tick = self.events.last().map_or(0, |(tick, _)| u64::from(*tick));
        if let (Some(window), Some(at)) = (self.window_nanos, at) {
            let nanos = at.as_nanos().saturating_sub(*self.first.get_or_insert(at.as_nanos()));
            let hundredths = u128::from(nanos) * WINDOW_TICKS as u128 / u128::from(window);
            let passed = u64::try_from(hundredths).unwrap_or(u64::MAX).saturating_sub(self.hundredths);
            self.hundredths += passed;
            tick += passed.min(GAP_TICKS_MAX);
        }
        if tick >= TICKS_MAX {
            let windows = TICKS_MAX / WINDOW_TICKS as u64;
            let wrong = "windows, and this is longer; a longer window helps";
            return Err(format!("a trace has room for {windows} {wrong}").into());
        }
        self.events.push((tick as u32, id.to_vec()));
        Ok(())
    }

    /// Returns the number of ids.
    pub fn events(&self) -> usize {
        self.events.len()
    }

    /// Returns the ticks from the first id to the last one, both included: one pass over it.
    pub fn ticks(&self) -> usize {
        self.events.last().map_or(0, |(tick, _)| *tick as usize + 1)
    }

    /// Returns the most distinct ids that any window has: those that a strategy needs room for.
    pub fn live(&self) -> usize {
        let mut last_seen: HashMap<&[u8], usize, foldhash::fast::RandomState> = HashMap::default();
        // The ids that were last seen in a tick, for each tick of the window that ends now.
        let mut seen = [0; WINDOW_TICKS];
        let (mut live, mut live_max, mut now) = (0, 0, 0);
        for (tick, id) in &self.events {
            let tick = *tick as usize;
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

    /// Writes the trace to a file.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let written = std::fs::write(path, postcard::to_stdvec(self)?);
        written.map_err(|error| format!("{}: {error}", path.display()).into())
    }

    /// Reads a file that [`write`](Trace::write) wrote.
    ///
    /// # Errors
    ///
    /// Those of the file; or it is no trace.
    pub fn read(path: &Path) -> Result<Trace, Failure> {
        let named = |error: Failure| Failure::from(format!("{}: {error}", path.display()));
        let bytes = std::fs::read(path).map_err(|error| named(error.into()))?;
        postcard::from_bytes(&bytes).map_err(|error| named(error.into()))
    }

    /// Returns its ids by threads, each of which has all of an id's events. Beyond its end there
    /// are empty ticks.
    pub(in crate::measure) fn streams<B: Ids>(
        &self,
        kind: IdKind,
        threads: usize,
        ticks: usize,
    ) -> Result<Vec<Stream<B>>, Failure> {
        check_threads(threads)?;
        let certain = Certain::with_threads(threads);
        let part = |_| (Stream::with_capacity(kind, self.events.len() / threads), Ledger::new(certain));
        let mut parts: Vec<(Stream<B>, Ledger<&[u8]>)> = (0..threads).map(part).collect();
        let mut events = self.events.iter().peekable();
        for now in 0..ticks {
            while let Some((tick, id)) = events.next_if(|(tick, _)| *tick as usize <= now) {
                let (stream, ledger) = &mut parts[(xxh3_64(id) % threads as u64) as usize];
                stream.ids.push_bytes(id)?;
                stream.truth.push(ledger.check(id, *tick as usize));
            }
            parts.iter_mut().for_each(|(stream, _)| stream.end_tick());
        }
        Ok(parts.into_iter().map(|(stream, _)| stream).collect())
    }
}

#[cfg(test)]
mod tests;
