//! Scales from values to places.

use super::Axis;

/// The largest number of marks that is not noise.
const TICKS_MAX: f64 = 9.0;

pub struct Scale {
    logarithmic: bool,
    low: f64,
    high: f64,
    /// The places of both ends.
    ends: (f64, f64),
    pub ticks: Vec<(f64, String)>,
}

impl Scale {
    /// Makes a scale on which all these values, and round ones around them, have a place between
    /// `ends`.
    pub fn new(axis: &Axis, values: impl Iterator<Item = f64>, ends: (f64, f64)) -> Scale {
        let fits = |value: &f64| value.is_finite() && (!axis.logarithmic || *value > 0.0);
        let (low, high) = values
            .filter(fits)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low <= high { (low, high) } else { (1.0, 1.0) };
        let (low, high, ticks) = match (axis.ticks.is_empty(), axis.logarithmic) {
            (false, logarithmic) => {
                let (low, high) = padded(low, high, logarithmic);
                (low, high, axis.ticks.iter().filter(|(at, _)| (low..=high).contains(at)).cloned().collect())
            }
            (true, true) => decades(low, high, axis.number),
            (true, false) => steps(high, axis.number),
        };
        Scale { logarithmic: axis.logarithmic, low, high, ends, ticks }
    }

    /// Returns where a value is drawn; one outside the scale is drawn at the end.
    pub fn at(&self, value: f64) -> f64 {
        let value = if value.is_finite() { value.clamp(self.low, self.high) } else { self.low };
        let share = match self.logarithmic {
            true => (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln()),
            false => (value - self.low) / (self.high - self.low),
        };
        self.ends.0 + share * (self.ends.1 - self.ends.0)
    }

    /// Removes marks, until they are far enough apart to be read; of two that are not, the last
    /// stays.
    pub fn thin(&mut self, apart: f64) {
        let mut kept: Vec<(f64, String)> = Vec::new();
        for tick in self.ticks.iter().rev() {
            if kept.last().is_none_or(|last| (self.at(last.0) - self.at(tick.0)).abs() >= apart) {
                kept.push(tick.clone());
            }
        }
        kept.reverse();
        self.ticks = kept;
    }
}

/// Adds some room at both ends.
fn padded(low: f64, high: f64, logarithmic: bool) -> (f64, f64) {
    match logarithmic {
        true if low == high => (low / 2.0, high * 2.0),
        true => {
            let room = (0.04 * (high.ln() - low.ln())).exp();
            ((low / room).max(f64::MIN_POSITIVE), (high * room).min(f64::MAX))
        }
        false if low == high => (low - 1.0, high + 1.0),
        false => (low - 0.04 * (high - low), high + 0.04 * (high - low)),
    }
}

/// Returns the powers of ten as marks, and with few of them 2 and 5, too.
fn decades(low: f64, high: f64, number: fn(f64) -> String) -> (f64, f64, Vec<(f64, String)>) {
    let (low, high) = if low == high { (low / 2.0, high * 2.0) } else { (low, high) };
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let fine = high / low < 300.0;
    let stride = (f64::from(last - first) / TICKS_MAX).ceil().max(1.0) as usize;
    let mantissas: &[f64] = if fine { &[1.0, 2.0, 5.0] } else { &[1.0] };
    // One stride more, so that the last mark is not below the highest value.
    let exponents = (first..=last + stride as i32).step_by(stride);
    let all: Vec<f64> = exponents
        .flat_map(|exponent| mantissas.iter().map(move |m| m * 10_f64.powi(exponent)))
        .filter(|tick| *tick > 0.0 && tick.is_finite())
        .collect();
    let from = all.iter().rposition(|tick| *tick <= low * 1.000_001).unwrap_or(0);
    let to = all.iter().position(|tick| *tick >= high * 0.999_999).unwrap_or(all.len() - 1);
    let ticks: Vec<f64> = all[from..=to.max(from)].to_vec();
    let (mut from, mut to) = (ticks[0].min(low), ticks[ticks.len() - 1].max(high));
    let mut ticks = ticks;
    if !fine && stride == 1 {
        // Whole decades without a value are a waste: there are at least two marks within.
        let (low, high) = padded(low, high, true);
        (from, to) = (from.max(low), to.min(high));
        ticks.retain(|tick| (from..=to).contains(tick));
    }
    (from, to, ticks.into_iter().map(|tick| (tick, number(tick))).collect())
}

/// Returns marks from 0, in steps of 1, 2 or 5 times a power of ten.
fn steps(high: f64, number: fn(f64) -> String) -> (f64, f64, Vec<(f64, String)>) {
    let high = if high > 0.0 { high } else { 1.0 };
    let rough = high / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].iter().map(|m| m * power).find(|step| *step >= rough).unwrap_or(10.0 * power);
    let count = (high / step).ceil().max(1.0) as usize;
    let ticks = (0..=count).map(|i| (i as f64 * step, number(i as f64 * step))).collect();
    (0.0, count as f64 * step, ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(logarithmic: bool, values: &[f64]) -> Vec<String> {
        let axis = Axis {
            label: String::new(),
            logarithmic,
            ticks: Vec::new(),
            number: crate::measure::render::numbers::round,
        };
        let scale = Scale::new(&axis, values.iter().copied(), (0.0, 100.0));
        scale.ticks.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn marks_are_round() {
        assert_eq!(ticks(true, &[3.0, 40.0]), ["2", "5", "10", "20", "50"]);
        assert_eq!(ticks(true, &[3e3, 4e7]), ["10 k", "100 k", "1 M", "10 M"]);
        assert_eq!(ticks(false, &[0.0, 43.0]), ["0", "10", "20", "30", "40", "50"]);
    }

    #[test]
    fn whatever_the_values_places_are_within_the_ends() {
        for values in [&[][..], &[0.0], &[5.0], &[1e-300, 1e300], &[f64::NAN, f64::INFINITY, 2.0], &[-3.0, 4.0]] {
            for logarithmic in [true, false] {
                let number: fn(f64) -> String = |number| number.to_string();
                let axis = Axis { label: String::new(), logarithmic, ticks: Vec::new(), number };
                let scale = Scale::new(&axis, values.iter().copied(), (10.0, 90.0));
                assert!(scale.ticks.len() >= 2 && scale.ticks.len() < 20, "{values:?}: {:?}", scale.ticks);
                for value in values.iter().chain(&[0.0, 1.0, -1.0]) {
                    let at = scale.at(*value);
                    assert!((9.999..=90.001).contains(&at), "{value} of {values:?} is at {at}");
                }
            }
        }
    }
}
