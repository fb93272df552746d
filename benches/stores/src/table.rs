//! Medians and rows of tables.

/// Returns the median of some rounds.
pub fn median(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

/// Prints a row: the work, its rate, the ratio to something named, and the target.
pub fn row(what: &str, value: f64, unit: &str, beside: Option<(&str, f64)>, target: &str) {
    let beside = beside.map_or(String::new(), |(name, other)| format!("{:.2} x {name}", value / other));
    println!("{what:<58} {value:>12.1} {unit:<8} {beside:<42} {target}");
}
