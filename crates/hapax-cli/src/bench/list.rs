//! `hapax bench --list`.

use hapax_bench::measure::servers::missing;
use hapax_bench::measure::{IdKind, Sort, listed_for};
use hapax_bench::strategy::{Listed, not_built};
use std::fmt::Write;

/// Returns all strategies, their sorts, and why some cannot be measured here.
pub fn text() -> String {
    let here =
        listed_for(IdKind::UuidText).into_iter().map(|strategy| (strategy.name.to_string(), describe(&strategy)));
    let absent = not_built().into_iter().map(|absent| (absent.strategy, format!("not measured: {}", absent.reason)));
    let rows: Vec<(String, String)> = here.chain(absent).collect();
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0) + 2;
    let mut text = String::new();
    for (name, what) in rows {
        let _ = writeln!(text, "{name:<width$}{what}"); // a string takes everything
    }
    text
}

fn describe(strategy: &Listed) -> String {
    if let Some(reason) = missing(strategy.needs) {
        return format!("not measured: {reason}");
    }
    let sort = match strategy.sort {
        Sort::Window => "window, in memory",
        Sort::Durable => "survives a crash",
        Sort::Server => "asks a server",
    };
    let ids = if strategy.any_length_only { "; for ids as text or bytes" } else { "" };
    format!("{sort}{ids}")
}
