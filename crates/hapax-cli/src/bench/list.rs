//! `hapax bench --list`.

use hapax_bench::measure::servers::missing;
use hapax_bench::measure::{IdKind, Sort, listed_for};
use hapax_bench::strategy::{Listed, not_built};
use std::fmt::Write;

/// Returns all strategies, their sorts, and why some cannot be measured here.
pub fn text() -> String {
    let mut text = String::new();
    for strategy in listed_for(IdKind::Bytes) {
        let _ = writeln!(text, "{:<34}{}", strategy.name, describe(&strategy)); // a string takes everything
    }
    for absent in not_built() {
        let _ = writeln!(text, "{:<34}not measured: {}", absent.strategy, absent.reason);
    }
    text
}

fn describe(strategy: &Listed) -> String {
    if let Some(reason) = missing(strategy.needs) {
        return format!("not measured: {reason}");
    }
    let sort = match strategy.sort {
        Sort::Roofline => "what no table can beat",
        Sort::Window => "window, in memory",
        Sort::Filter => "in memory, may be wrong",
        Sort::Durable => "survives a crash",
        Sort::Server => "asks a server",
    };
    let budget = if strategy.takes_budget { "; takes a budget" } else { "" };
    let forgets = if strategy.expires { "" } else { "; never forgets" };
    let ids = if strategy.any_length_only { "; for ids as text or bytes" } else { "" };
    format!("{sort}{budget}{forgets}{ids}")
}
