//! The pattern of recorded ids: how many came, in which bursts, and how far their duplicates are
//! apart.

mod caution;
mod knee;
mod rates;
mod replay;
mod summary;
mod text;

pub use caution::Excerpt;
pub use rates::Burst;
pub use replay::rounded_up;
pub use summary::{CurvePoint, Length, Quantile, Summary};

use super::{Demand, PlanError};
use hapax::seam::sizing::{InvalidOption, Ticks, check};
use hapax::seam::{Digest, Digester};
use hapax::{Id, Timestamp};
use std::collections::HashMap;
use std::iter::Peekable;
use std::time::Duration;

/// The pattern in which ids have come. It is shown every id, and knows exactly how far duplicates
/// are apart, and which of them a window would have caught.
///
/// ```
/// use hapax_plan::Profile;
/// use hapax::Timestamp;
/// use std::time::Duration;
///
/// let mut profile = Profile::new(1_000_000)?;
/// for second in 0..1_000 {
///     // Every tenth id comes again after seven seconds.
///     let is_again = second % 10 == 7;
///     let id = if is_again { second - 7 } else { second };
///     profile.see(id.to_string(), Some(Timestamp::from_secs(second)))?;
/// }
/// assert_eq!((profile.records(), profile.distinct(), profile.repeats()), (1_000, 900, 100));
/// assert_eq!(profile.caught(Duration::from_secs(7)), 0);
/// assert_eq!(profile.window_for(0.99), Some(Duration::from_nanos(7_000_000_001)));
/// let plan = profile.demand(Duration::from_secs(8))?.plan()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Definitions
///
/// - A *repeat* is a record whose id has come before, however long ago. Its *distance* is that to
///   the last record with this id, in time or in records.
/// - A window of length W *catches* a repeat if less than W has passed since the last record with
///   this id that was *accepted*: the first, or one that a window of this length does not catch. So
///   a repeat does not extend its id's stay, and the window for a share of repeats may be longer
///   than their distance.
/// - Times do not run backwards: an earlier time than one already seen counts as that one, as in
///   [`Dedup::check_at`](hapax::Dedup::check_at).
///
/// # Cost
///
/// Up to 90 bytes for each id, and 48 for each repeat (half as much again while that grows); a
/// record is a lookup in a hash map. Each question afterwards takes a pass over all repeats, or
/// some of them.
#[derive(Clone, Debug)]
pub struct Profile {
    records_max: usize,
    digester: Digester,
    /// The index of each id in `firsts`.
    ids: HashMap<Digest, u32>,
    /// The first record with each id, in the order in which they came.
    firsts: Vec<Seen>,
    /// All others, in the order in which they came.
    repeats: Vec<Repeat>,
    /// True if records have times; none before the first record.
    has_times: Option<bool>,
    late: u64,
}

/// The time and number of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    nanos: u64,
    record: u64,
}

#[derive(Clone, Copy, Debug)]
struct Repeat {
    id: u32,
    at: Seen,
}

impl Profile {
    /// Creates a profile of up to this many records.
    ///
    /// # Errors
    ///
    /// [`hapax::Error::NoRandomness`]: ids are known by digests, whose key is random.
    pub fn new(records_max: usize) -> Result<Self, hapax::Error> {
        Ok(Profile {
            digester: Digester::random()?,
            // A repeat names its id in 32 bits.
            records_max: records_max.min(u32::MAX as usize),
            ids: HashMap::new(),
            firsts: Vec::new(),
            repeats: Vec::new(),
            has_times: None,
            late: 0,
        })
    }

    /// Adds the next record; either all have times, or none has.
    ///
    /// # Errors
    ///
    /// [`PlanError::TooManyRecords`]; no record is left out silently. [`PlanError::Invalid`] if
    /// only some records have times.
    pub fn see(&mut self, id: impl Id, time: Option<Timestamp>) -> Result<(), PlanError> {
        let record = self.records();
        if record >= self.records_max as u64 {
            return Err(PlanError::TooManyRecords { records_max: self.records_max });
        }
        let is_as_before = *self.has_times.get_or_insert(time.is_some()) == time.is_some();
        let got = format_args!("{time:?} with record {record}");
        check(is_as_before, "time", got, "a time with every record, or with none")?;
        let nanos = time.map_or(0, Timestamp::as_nanos);
        self.late += u64::from(nanos < self.last_nanos());
        let at = Seen { nanos: nanos.max(self.last_nanos()), record };
        let id = id.digest_by(&self.digester);
        match self.ids.get(&id) {
            Some(&id) => self.repeats.push(Repeat { id, at }),
            None => {
                self.ids.insert(id, self.firsts.len() as u32);
                self.firsts.push(at);
            }
        }
        Ok(())
    }

    fn last_nanos(&self) -> u64 {
        let last = |seen: Option<&Seen>| seen.map_or(0, |seen| seen.nanos);
        last(self.firsts.last()).max(last(self.repeats.last().map(|repeat| &repeat.at)))
    }

    /// Returns the number of records.
    pub fn records(&self) -> u64 {
        (self.firsts.len() + self.repeats.len()) as u64
    }

    /// Returns the number of different ids.
    pub fn distinct(&self) -> u64 {
        self.firsts.len() as u64
    }

    /// Returns the number of records whose id had come before.
    pub fn repeats(&self) -> u64 {
        self.repeats.len() as u64
    }

    /// Returns the number of records that had an earlier time than one before, and count as that
    /// one.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Returns the time from the first record to the last, if they have times.
    pub fn span(&self) -> Option<Duration> {
        let first = self.firsts.first().filter(|_| self.has_times == Some(true))?;
        Some(Duration::from_nanos(self.last_nanos() - first.nanos))
    }

    /// Returns the records a second on average, if they have times that are not all the same.
    pub fn records_per_second(&self) -> Option<f64> {
        let seconds = self.span()?.as_secs_f64();
        (seconds > 0.0).then(|| self.records() as f64 / seconds)
    }

    /// Returns how unevenly records came, at each scale of time that the records can show: at least
    /// ten times shorter than their whole time, and not finer than the times are.
    pub fn bursts(&self) -> Vec<Burst> {
        if self.has_times == Some(true) { rates::bursts(self.times()) } else { Vec::new() }
    }

    /// Returns the times of all records, in order.
    fn times(&self) -> impl Iterator<Item = u64> + Clone {
        merged(self.firsts.iter().map(|seen| seen.nanos), self.repeats.iter().map(|repeat| repeat.at.nanos))
    }

    /// Returns the demand on an engine with this window, if ids go on to come as they did: as often
    /// on average, with as many duplicates, and in the busiest window as many as in the busiest one
    /// that was seen.
    ///
    /// # Errors
    ///
    /// [`PlanError::Invalid`] without times, or if all are the same, or for a window that is not
    /// possible.
    pub fn demand(&self, window: Duration) -> Result<Demand, PlanError> {
        let rate = self.records_per_second().ok_or_else(|| {
            let expected = "records with times that are not all the same, which give a rate";
            InvalidOption::new("time", format_args!("{} records", self.records()), expected)
        })?;
        Ticks::of_window(window)?;
        // Not those that an engine would catch: that depends on where in its ticks records come.
        let caught = self.caught(window);
        let demand = Demand::new(rate, window).duplicates(caught as f64 / self.records() as f64);
        let live = demand.fresh_per_second() * window.as_secs_f64();
        let busiest = self.accepted_at_most(window, window);
        Ok(demand.peak((busiest as f64 / live).max(1.0)))
    }

    /// Returns the demand with a history behind the window.
    ///
    /// # Errors
    ///
    /// As for [`demand`](Profile::demand).
    pub fn demand_with_history(&self, window: Duration, horizon: Duration) -> Result<Demand, PlanError> {
        let demand = self.demand(window)?;
        let expected = demand.fresh_per_second() * horizon.as_secs_f64();
        let busiest = self.accepted_at_most(window, horizon) as f64;
        Ok(demand.history(horizon).history_peak((busiest / expected).max(1.0)))
    }
}

/// Merges two sorted sequences.
#[derive(Clone)]
struct Merged<A: Iterator<Item = u64>, B: Iterator<Item = u64>>(Peekable<A>, Peekable<B>);

fn merged<A: Iterator<Item = u64>, B: Iterator<Item = u64>>(a: A, b: B) -> Merged<A, B> {
    Merged(a.peekable(), b.peekable())
}

impl<A: Iterator<Item = u64>, B: Iterator<Item = u64>> Iterator for Merged<A, B> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let other = self.1.peek().copied();
        self.0.next_if(|time| other.is_none_or(|other| *time <= other)).or_else(|| self.1.next())
    }
}
