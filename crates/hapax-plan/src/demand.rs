//! The demand on an engine.

use super::responses::Responses;
use super::{Plan, PlanError};
use hapax::seam::sizing::{HUNDRED_YEARS, InvalidOption, Ticks, check, commit_interval};
use std::time::Duration;

/// The load on an engine, and the resources that it may take: the question that a [`Plan`] answers.
///
/// ```
/// use hapax_plan::Demand;
/// use std::time::Duration;
///
/// // 20,000 deliveries a second, a tenth of them redeliveries, up to three times as many in the busiest ten minutes.
/// let demand = Demand::new(20_000.0, Duration::from_secs(600))
///     .duplicates(0.1)
///     .peak(3.0)
///     .history(Duration::from_secs(86_400))
///     .false_positive_rate(1e-4);
/// let plan = demand.plan()?;
/// assert_eq!(plan.window.capacity, 32_400_000);
/// assert!(plan.history.as_ref().unwrap().false_positives_a_day < 1e-4 * 20_000.0 * 86_400.0);
/// assert!(demand.peak(0.5).plan().is_err(), "a peak is no less than the mean");
/// # Ok::<(), hapax_plan::PlanError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a demand does nothing until `plan` is called"]
pub struct Demand {
    pub(super) checks_per_second: f64,
    pub(super) window: Duration,
    pub(super) duplicates: f64,
    pub(super) peak: f64,
    pub(super) growth: f64,
    pub(super) horizon: Option<Duration>,
    pub(super) history_peak: Option<f64>,
    pub(super) false_positive_rate: Option<f64>,
    pub(super) memory_bytes: Option<usize>,
    pub(super) work: Option<Duration>,
    pub(super) journal: Option<Duration>,
    pub(super) long_memory: Option<Duration>,
    pub(super) responses: Option<Responses>,
}

/// The horizon from which on every hour of the day is in it, so that the mean over it is the
/// overall mean.
const DAY: Duration = Duration::from_secs(86_400);

impl Demand {
    /// Creates a demand of this many checks a second on average, duplicates included, with a window
    /// of this length. It has no duplicates, peaks, history, journal or claims, and no limit on
    /// memory.
    pub fn new(checks_per_second: f64, window: Duration) -> Self {
        Demand {
            checks_per_second,
            window,
            duplicates: 0.0,
            peak: 1.0,
            growth: 2.0,
            horizon: None,
            history_peak: None,
            false_positive_rate: None,
            memory_bytes: None,
            work: None,
            journal: None,
            long_memory: None,
            responses: None,
        }
    }

    /// Sets the share of the checks that are of ids which the window knows: from 0 to below 1.
    /// Default: 0, which asks for the most.
    pub fn duplicates(self, share: f64) -> Self {
        Demand { duplicates: share, ..self }
    }

    /// Sets how many times as many ids come in the busiest window as in one on average. The
    /// capacity is for the busiest. Default: 1.
    pub fn peak(self, factor: f64) -> Self {
        Demand { peak: factor, ..self }
    }

    /// Sets how many times the peak the window must be able to grow to, without forgetting anything
    /// early. 1: it never grows. Default: 2. With a [memory budget](Demand::memory_bytes) the
    /// window may take all that is left of it, and this is only the growth that a history must
    /// leave room for.
    pub fn growth(self, factor: f64) -> Self {
        Demand { growth: factor, ..self }
    }

    /// Adds a history, which remembers ids beyond the window, as a guess, for this long. Needs a
    /// [rate](Demand::false_positive_rate) or a [budget](Demand::memory_bytes). Default: no
    /// history.
    pub fn history(self, horizon: Duration) -> Self {
        Demand { horizon: Some(horizon), ..self }
    }

    /// Sets how many times as many ids come in the busiest horizon as in one on average. Default:
    /// as in the busiest [window](Demand::peak) for a horizon of less than a day, else 1.
    pub fn history_peak(self, factor: f64) -> Self {
        Demand { history_peak: Some(factor), ..self }
    }

    /// Sets the rate at which the history may be mistaken about new ids, in its busiest horizon.
    /// Default: as low as the budget allows.
    pub fn false_positive_rate(self, rate: f64) -> Self {
        Demand { false_positive_rate: Some(rate), ..self }
    }

    /// Sets the memory that window, history and claims may take together, in bytes. Default: what
    /// they need.
    pub fn memory_bytes(self, bytes: usize) -> Self {
        Demand { memory_bytes: Some(bytes), ..self }
    }

    /// Sets that ids are claimed, and how long the work on one takes. Default: they are marked at
    /// sight.
    pub fn work(self, duration: Duration) -> Self {
        Demand { work: Some(duration), ..self }
    }

    /// Adds a journal of the accepted ids. They are made durable each time that this much time has
    /// passed since the first id of a group: by a flush, or by
    /// [`commit_interval`](hapax::JournalOptions::commit_interval). Default: no journal.
    pub fn journal(self, commit_interval: Duration) -> Self {
        Demand { journal: Some(commit_interval), ..self }
    }

    /// Adds a [long memory](hapax::Builder::long_memory), which remembers ids exactly, on the disk,
    /// for this long. It has a journal, with the default interval if [none](Demand::journal) is
    /// set. Default: none.
    ///
    /// ```
    /// use hapax_plan::Demand;
    /// use std::time::Duration;
    ///
    /// let (shift, week) = (Duration::from_secs(10 * 3_600), Duration::from_secs(7 * 24 * 3_600));
    /// let plan = Demand::new(1_000.0, shift).long_memory(week).plan()?;
    /// let long_memory = plan.long_memory.unwrap();
    /// assert_eq!(long_memory.ids, 604_800_000);
    /// assert!(long_memory.disk_bytes_max < 12_000_000_000);
    /// # Ok::<(), hapax_plan::PlanError>(())
    /// ```
    pub fn long_memory(self, retention: Duration) -> Self {
        Demand { long_memory: Some(retention), ..self }
    }

    /// Adds the responses that a layer for idempotency keys keeps (`hapax-http`): so many a second
    /// on average, of so many bytes on average (body, and names and values of the headers that are
    /// kept), for so long. They take room in a store, none in the engine. Default: none.
    ///
    /// ```
    /// use hapax_plan::Demand;
    /// use std::time::Duration;
    ///
    /// let (minute, day) = (Duration::from_secs(60), Duration::from_secs(86_400));
    /// let responses = Demand::new(12.0, minute).responses(12.0, 2_000, day).plan()?.responses.unwrap();
    /// assert_eq!((responses.responses, responses.record_bytes), (1_036_800.0, 2_058.0));
    /// # Ok::<(), hapax_plan::PlanError>(())
    /// ```
    pub fn responses(self, per_second: f64, bytes: usize, retention: Duration) -> Self {
        Demand { responses: Some(Responses { per_second, bytes, retention }), ..self }
    }

    /// Returns the configuration for this demand, its cost, and what it will miss. Takes some
    /// milliseconds.
    ///
    /// # Errors
    ///
    /// [`PlanError::Invalid`] for a value that makes no sense, alone or with the others;
    /// [`PlanError::TooLittleMemory`], which says what would fit; [`PlanError::TooManyInFlight`].
    pub fn plan(&self) -> Result<Plan, PlanError> {
        self.validate()?;
        Plan::of(self)
    }

    /// Returns the commit interval of the journal, if there is one.
    pub(super) fn commit_interval(&self) -> Option<Duration> {
        self.journal.or(self.long_memory.map(|_| commit_interval()))
    }

    /// Returns the new ids a second, on average.
    pub(super) fn fresh_per_second(&self) -> f64 {
        self.checks_per_second * (1.0 - self.duplicates)
    }

    /// Returns the peak that counts for the history.
    pub(super) fn peak_of_horizon(&self, horizon: Duration) -> f64 {
        self.history_peak.unwrap_or(if horizon < DAY { self.peak } else { 1.0 })
    }

    pub(super) fn ticks(&self) -> Result<Ticks, InvalidOption> {
        Ticks::of_window(self.window)
    }

    fn validate(&self) -> Result<(), InvalidOption> {
        let in_range =
            |option, got: f64, is_valid, expected: &str| check(is_valid, option, format_args!("{got}"), expected);
        let at_least_one =
            |option, factor: f64| in_range(option, factor, (1.0..=1e12).contains(&factor), "a factor from 1 to 10^12");
        let rate = self.checks_per_second;
        in_range("checks_per_second", rate, rate > 0.0 && rate <= 1e12, "a rate above 0 and up to 10^12")?;
        in_range("duplicates", self.duplicates, (0.0..1.0).contains(&self.duplicates), "a share from 0 to below 1")?;
        at_least_one("peak", self.peak)?;
        at_least_one("growth", self.growth)?;
        self.history_peak.map_or(Ok(()), |factor| at_least_one("history_peak", factor))?;
        self.ticks()?;
        self.validate_history()?;
        self.validate_long_memory()?;
        self.responses.as_ref().map_or(Ok(()), Responses::validate)?;
        let up_to_a_year = |option, duration: Option<Duration>| {
            let Some(duration) = duration else { return Ok(()) };
            let is_valid = !duration.is_zero() && duration <= 366 * DAY;
            check(is_valid, option, duration, "a duration of up to a year, not none")
        };
        up_to_a_year("work", self.work)?;
        up_to_a_year("journal", self.journal)
    }

    fn validate_long_memory(&self) -> Result<(), InvalidOption> {
        let Some(retention) = self.long_memory else { return Ok(()) };
        let expected = format!("longer than the window, {:?}; at most 100 years", self.window);
        check(retention > self.window && retention <= HUNDRED_YEARS, "long_memory", retention, expected)?;
        let expected = "none with option `long_memory`, which knows what a history guesses";
        self.horizon.map_or(Ok(()), |horizon| check(false, "history", horizon, expected))
    }

    fn validate_history(&self) -> Result<(), InvalidOption> {
        let without = |option, given: Option<f64>| {
            let got = given.unwrap_or_default();
            check(given.is_none(), option, got, "a history, without which it means nothing")
        };
        let Some(horizon) = self.horizon else {
            without("false_positive_rate", self.false_positive_rate)?;
            return without("history_peak", self.history_peak);
        };
        let is_valid = (self.window.max(Duration::from_millis(1))..=HUNDRED_YEARS).contains(&horizon);
        let expected = format!("at least the window, {:?}, and 1 ms; at most 100 years", self.window);
        check(is_valid, "history", horizon, expected)?;
        if let Some(rate) = self.false_positive_rate {
            let is_valid = (1e-12..1.0).contains(&rate);
            return check(is_valid, "false_positive_rate", format_args!("{rate}"), "a rate from 10^-12 to below 1");
        }
        let expected = "a false_positive_rate or a memory_bytes with it, which say how large it is";
        check(self.memory_bytes.is_some(), "history", horizon, expected)
    }
}
