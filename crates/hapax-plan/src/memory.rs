//! Divides memory between window, history and claims. Pure.

use super::{Demand, PlanError};
use hapax::seam::sizing::window::{BYTES_BESIDE_TABLES, SIZES_MAX, Sizes, buckets_for, capacity_of, table_bytes};
use hapax::seam::sizing::{
    BYTES_BESIDE_TIERS, Density, InvalidOption, LINE_BYTES, Size, claims, history_bytes, rate_in,
};
use std::time::Duration;

/// The memory of each part.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Division {
    pub(super) capacity: usize,
    /// The memory that the window may take.
    pub(super) window_bytes_max: usize,
    pub(super) sizes: Sizes,
    pub(super) history: Option<HistorySize>,
    pub(super) claims_bytes: usize,
}

/// A history's dimensions, and the parameters that they follow from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct HistorySize {
    pub(super) rate: f64,
    pub(super) ids: usize,
    pub(super) size: Size,
}

/// The rate above which a history is not worth its memory, unless it is asked for.
const RATE_UNASKED_MAX: f64 = 0.1;
/// The rate below which a history is not worth its memory, unless it is asked for: there are other
/// causes of mistakes.
const RATE_UNASKED_MIN: f64 = 1e-9;

impl HistorySize {
    fn of(rate: f64, density: Density, ids: usize) -> Self {
        HistorySize { rate, ids, size: density.size(ids) }
    }

    pub(super) fn bytes(&self) -> usize {
        history_bytes(self.size)
    }

    /// Returns the history with the lowest rate that fits into this many bytes, rounded up to three
    /// digits, if there is one.
    fn of_bytes(bytes: usize, ids: usize) -> Option<Self> {
        let least = rate_in(bytes.saturating_sub(history_bytes(Size::of(0.5, 0))) as u64, ids).max(RATE_UNASKED_MIN);
        // A history is made for its rate to within rounding, and so may take a block more than the
        // bytes that its rate was computed from.
        let rates = [1.0, 1.01, 1.02].map(|margin| three_digits(least * margin, f64::ceil));
        let worth_it = rates.into_iter().filter(|rate| *rate <= RATE_UNASKED_MAX);
        worth_it.map(|rate| Self::of(rate, Density::of(rate), ids)).find(|history| history.bytes() <= bytes)
    }
}

/// The memory that every engine takes beside its window, its history and its claims.
pub(super) const FIXED_BYTES: usize = BYTES_BESIDE_TIERS + claims::BYTES_OF_NONE;

/// The most memory beside their buckets that a window's tables take, however many there are, if
/// their buckets take none.
const TABLES_FIXED_BYTES_MAX: usize = BYTES_BESIDE_TABLES + SIZES_MAX * 256;

/// The buckets' bytes for which a table takes no more than one byte on top.
const BYTES_FOR_ONE: usize = 8 << 10;

/// Returns the memory that suffices for a window whose tables' buckets take this much.
fn with_tables_fixed(buckets_bytes: usize) -> usize {
    buckets_bytes.saturating_add(buckets_bytes / BYTES_FOR_ONE + 1).saturating_add(TABLES_FIXED_BYTES_MAX)
}

/// Returns the bytes of buckets for which this memory suffices.
fn without_tables_fixed(bytes: usize) -> usize {
    let bytes = bytes.saturating_sub(TABLES_FIXED_BYTES_MAX + 1);
    bytes - bytes / BYTES_FOR_ONE
}

/// Returns the memory of a window with one table.
pub(super) fn one_table_bytes(buckets: usize) -> usize {
    table_bytes(buckets).saturating_add(BYTES_BESIDE_TABLES)
}

/// Rounds a number to three digits by a function. A number that has no more digits is unchanged.
fn three_digits(number: f64, round: fn(f64) -> f64) -> f64 {
    let exponent = number.log10().floor() as i32 - 2;
    let digits = number / 10_f64.powi(exponent);
    let nearest = digits.round();
    let digits = if (digits - nearest).abs() < 1e-9 * digits { nearest } else { round(digits) };
    // The number goes through text, so that it equals what is printed.
    format!("{digits}e{exponent}").parse().unwrap_or(number)
}

/// Rounds a number of ids up to three digits, so that it can be read.
fn ids(number: f64) -> usize {
    // A number that is whole except for earlier rounding stays that whole number.
    match number * (1.0 - 1e-9) {
        n if n < 1_000.0 => n.ceil().max(1.0) as usize,
        n => three_digits(n, f64::ceil) as usize,
    }
}

/// Returns the smallest budget in which a window can grow from the first table's number of ids to
/// `factor` times as many, each table next to the ones before; none if no memory is large enough.
fn grown_bytes(first_buckets: usize, factor: f64) -> Option<usize> {
    let suffices = |bytes: usize| {
        let sizes = Sizes::new(first_buckets, bytes);
        sizes.buckets(sizes.count() - 1) as f64 >= first_buckets as f64 * factor
    };
    let first = first_buckets.saturating_mul(LINE_BYTES);
    let (mut low, mut high) = (first, first);
    while !suffices(high) {
        (low, high) = (high, high.checked_mul(2)?);
    }
    while high - low > LINE_BYTES {
        let middle = low.midpoint(high);
        if suffices(middle) { high = middle } else { low = middle }
    }
    high.checked_next_multiple_of(LINE_BYTES)
}

impl Demand {
    fn capacity(&self) -> usize {
        ids(self.fresh_per_second() * self.peak * self.window.as_secs_f64())
    }

    fn ids_of_horizon(&self) -> Option<usize> {
        let horizon = self.horizon?;
        let mean = self.fresh_per_second() * horizon.as_secs_f64();
        // A generation begins with an id, so it takes one more than come in a horizon on average.
        // That matters where there are few.
        let least = if mean < 1_000.0 { mean + 1.0 } else { mean };
        Some(ids((mean * self.peak_of_horizon(horizon)).max(least)))
    }

    /// Returns the ids in flight at the peak.
    pub(super) fn in_flight(&self) -> Option<f64> {
        Some(self.fresh_per_second() * self.peak * self.work?.as_secs_f64())
    }

    fn first_buckets(&self) -> Result<usize, PlanError> {
        let capacity = self.capacity();
        buckets_for(capacity).filter(|_| capacity < usize::MAX / 1_024).ok_or_else(|| {
            let expected = "no more ids within a window than a machine can hold";
            InvalidOption::new("checks_per_second", format_args!("{}", self.checks_per_second), expected).into()
        })
    }

    fn claims_bytes(&self) -> usize {
        self.in_flight().map_or(0, |in_flight| claims::bytes(in_flight.ceil() as usize))
    }

    fn long_memory_bytes(&self) -> usize {
        self.long_memory.map_or(0, |retention| super::LongMemoryPlan::of(self, retention).bytes_max)
    }

    /// Returns the density of the history that is asked for, or of the worst one that is worth its
    /// memory, if there is to be one.
    fn density_max(&self) -> Option<Density> {
        self.horizon.map(|_| Density::of(self.false_positive_rate.unwrap_or(RATE_UNASKED_MAX)))
    }

    /// Returns the least memory of all parts: without growth, and with a history of this density.
    fn bytes_min(&self, density: Option<Density>) -> Option<usize> {
        let first = one_table_bytes(self.first_buckets().ok()?);
        let history = density.zip(self.ids_of_horizon());
        let history = history.map_or(0, |(density, ids)| history_bytes(density.size(ids)));
        first
            .checked_add(history)?
            .checked_add(self.claims_bytes())?
            .checked_add(self.long_memory_bytes())?
            .checked_add(FIXED_BYTES)
    }

    /// Divides the available memory, or says how much is needed.
    pub(super) fn divide(&self) -> Result<Division, PlanError> {
        let first_buckets = self.first_buckets()?;
        let first = first_buckets.saturating_mul(LINE_BYTES);
        let claims_bytes = self.claims_bytes();
        let grown = grown_bytes(first_buckets, self.growth).ok_or_else(|| {
            InvalidOption::new(
                "growth",
                format_args!("{}", self.growth),
                "a factor to which a machine's memory can grow",
            )
        })?;
        let density = self.density_max();
        let ids = self.ids_of_horizon();
        let asked = self.false_positive_rate.zip(density).zip(ids);
        let asked = asked.map(|((rate, density), ids)| HistorySize::of(rate, density, ids));
        let (window_bytes_max, history) = match self.memory_bytes {
            None => (grown, asked),
            Some(budget) if self.bytes_min(density).is_none_or(|needed| needed > budget) => {
                return Err(self.too_little(budget, density));
            }
            Some(budget) => {
                let rest = budget - claims_bytes - self.long_memory_bytes() - FIXED_BYTES;
                // Growth comes before a better history, and the history comes before growth if both
                // are not possible.
                let history = asked.or_else(|| {
                    let ids = ids?;
                    let of = |window: usize| HistorySize::of_bytes(rest.checked_sub(window)?, ids);
                    of(with_tables_fixed(grown)).or_else(|| of(one_table_bytes(first_buckets)))
                });
                let rest = rest - history.map_or(0, |history| history.bytes());
                (without_tables_fixed(rest).max(first), history)
            }
        };
        let sizes = Sizes::new(first_buckets, window_bytes_max);
        Ok(Division { capacity: self.capacity(), window_bytes_max, sizes, history, claims_bytes })
    }

    /// Returns the error for a budget that is too small, with the demands that would fit.
    fn too_little(&self, budget: usize, density: Option<Density>) -> PlanError {
        let fits = |demand: &Demand| demand.bytes_min(density).is_some_and(|needed| needed <= budget);
        let with_rate = |share: f64| Demand { checks_per_second: self.checks_per_second * share, ..self.clone() };
        let with_window = |share: f64| Demand { window: self.window.mul_f64(share), ..self.clone() };
        // The rate that is shown is rounded down, and still fits.
        let rate = largest_share(|share| fits(&with_rate(share))).map(|share| with_rate(share).checks_per_second);
        let window = largest_share(|share| with_window(share).ticks().is_ok() && fits(&with_window(share)));
        PlanError::TooLittleMemory {
            memory_bytes: budget,
            needed_bytes: self.bytes_min(density).unwrap_or(usize::MAX),
            longest_window: window.map(|share| rounded_down(with_window(share).window)),
            highest_rate: rate.map(|rate| three_digits(rate, f64::floor)),
        }
    }
}

/// Returns the largest share, from a millionth on, for which a condition holds that holds for all
/// smaller ones.
fn largest_share(holds: impl Fn(f64) -> bool) -> Option<f64> {
    let (mut low, mut high) = (1e-6, 1.0);
    holds(low).then(|| {
        for _ in 0..50 {
            let middle = f64::midpoint(low, high);
            if holds(middle) { low = middle } else { high = middle }
        }
        low
    })
}

/// Rounds a duration down to three digits.
fn rounded_down(duration: Duration) -> Duration {
    let nanos = duration.as_nanos();
    let unit = 10_u128.pow(nanos.max(1).ilog10().saturating_sub(2));
    Duration::from_nanos(u64::try_from(nanos / unit * unit).unwrap_or(u64::MAX))
}

/// Returns the largest number of live ids for which there is a table.
pub(super) fn capacity_max(sizes: &Sizes) -> f64 {
    capacity_of(sizes.buckets(sizes.count() - 1))
}

/// Returns the memory of a window with all tables.
pub(super) fn grown_window_bytes(sizes: &Sizes) -> usize {
    let tables = (0..sizes.count()).map(|size| table_bytes(sizes.buckets(size)));
    tables.sum::<usize>() + BYTES_BESIDE_TABLES
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_window_grows_as_far_as_it_must_and_its_tables_fit() {
        for first in [1_024, 287_500, 10_000_002] {
            assert_eq!(grown_bytes(first, 1.0), Some(first * LINE_BYTES));
            for factor in [1.5, 2.0, 5.0, 100.0] {
                let bytes = grown_bytes(first, factor).unwrap();
                let sizes = Sizes::new(first, bytes);
                assert!(capacity_max(&sizes) >= factor * capacity_of(first), "{first} x {factor}: {sizes:?}");
                assert!(grown_window_bytes(&sizes) <= with_tables_fixed(bytes));
                assert!(with_tables_fixed(without_tables_fixed(bytes)) <= bytes, "{bytes}");
                assert!(
                    bytes as f64 <= (1.0 + 2.0 * factor) * (first * LINE_BYTES) as f64,
                    "{first} x {factor}: {bytes}"
                );
            }
        }
    }

    #[test]
    fn the_best_history_for_its_memory() {
        for bytes_an_id in [2.0, 3.2, 5.1, 9.0, 14.0] {
            let bytes = (bytes_an_id * 1e6) as usize;
            let history = HistorySize::of_bytes(bytes, 1_000_000).unwrap();
            assert!(history.bytes() <= bytes && history.bytes() as f64 > 0.98 * bytes as f64, "{history:?}");
        }
        assert_eq!(HistorySize::of_bytes(1_000_000, 1_000_000), None);
        assert_eq!(HistorySize::of_bytes(1 << 30, 1_000_000).unwrap().rate, RATE_UNASKED_MIN);
    }

    /// Generates numbers that make sense, and some that do not.
    fn numbers() -> impl Strategy<Value = f64> {
        prop_oneof![
            8 => (-3.0..9.0_f64).prop_map(|exponent| 10_f64.powf(exponent)),
            1 => prop::sample::select(vec![0.0, -1.0, 1.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, f64::MAX]),
        ]
    }

    fn durations() -> impl Strategy<Value = Duration> {
        prop_oneof![
            8 => (-6.0..9.0_f64).prop_map(|exponent| Duration::from_secs_f64(10_f64.powf(exponent))),
            1 => prop::sample::select(vec![Duration::ZERO, Duration::MAX, Duration::from_nanos(1)]),
        ]
    }

    proptest! {
        // Each case takes some densities, and a density takes some milliseconds.
        #![proptest_config(ProptestConfig::with_cases(testkit::long(16, 48)))]

        #[test]
        fn any_demand_gets_a_plan_or_a_reason(
            (rate, window) in (numbers(), durations()),
            (duplicates, peak, growth) in (prop_oneof![0.0..1.0_f64, numbers()], numbers(), numbers()),
            horizon in prop::option::of(durations()),
            false_positive_rate in prop::option::of(prop_oneof![1e-12..1.0_f64, numbers()]),
            memory_bytes in prop::option::of(0_u32..50),
            work in prop::option::of(durations()),
        ) {
            let mut demand = Demand::new(rate, window).duplicates(duplicates).peak(peak).growth(growth);
            demand.horizon = horizon;
            demand.false_positive_rate = false_positive_rate;
            demand.memory_bytes = memory_bytes.map(|bits| 1 << bits);
            demand.work = work;
            match demand.plan() {
                Ok(plan) => {
                    prop_assert!(demand.memory_bytes.is_none_or(|budget| plan.bytes_max() <= budget), "{:?}", plan);
                    prop_assert!(plan.window.capacity as f64 >= plan.window.live * 0.999);
                    prop_assert!(!plan.to_string().contains("NaN"), "{}", plan);
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }

        #[test]
        fn what_is_said_to_fit_fits_and_not_much_more(
            rate in 10.0..1e6_f64,
            window in 10..100_000_u64,
            history in prop::option::of(1e-6..0.5_f64),
            share in 0.01..0.9_f64,
        ) {
            let window = Duration::from_secs(window);
            let with_history = |demand: Demand| match history {
                Some(rate) => demand.history(Duration::from_secs(200_000)).false_positive_rate(rate),
                None => demand,
            };
            let demand = with_history(Demand::new(rate, window));
            let budget = (demand.bytes_min(demand.density_max()).unwrap() as f64 * share) as usize;
            let planned = demand.memory_bytes(budget).plan();
            let Err(PlanError::TooLittleMemory { longest_window, highest_rate, .. }) = planned else {
                return Err(TestCaseError::fail("it takes more"));
            };
            let fits = |rate: f64, window: Duration| {
                with_history(Demand::new(rate, window)).memory_bytes(budget).plan().is_ok()
            };
            // No table is smaller than the smallest, so there may be no such rate; tables are whole
            // buckets, and capacities have three digits.
            if let Some(highest) = highest_rate {
                prop_assert!(fits(highest, window) && !fits(1.03 * highest, window), "{} in {}", highest, budget);
            }
            if let Some(longest) = longest_window {
                prop_assert!(fits(rate, longest) && !fits(rate, longest.mul_f64(1.03)), "{:?} in {}", longest, budget);
            }
        }
    }

    #[test]
    fn numbers_are_rounded_to_the_safe_side() {
        assert_eq!([0.2, 999.0, 1_000.0, 1_001.0, 123_456_789.0].map(ids), [1, 999, 1_000, 1_010, 124_000_000]);
        assert_eq!([1.2345e-5, 1e-9].map(|rate| three_digits(rate, f64::ceil)), [1.24e-5, 1e-9]);
        assert_eq!(rounded_down(Duration::from_millis(123_456)), Duration::from_secs(123));
    }
}
