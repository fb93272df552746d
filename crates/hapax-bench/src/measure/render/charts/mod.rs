//! The charts of a report.

mod accuracy;
mod bars;
mod latency;
mod scaling;

use super::chart::{Chart, Style};
use super::numbers::count;
use super::view::{Line, View};

/// Charts that answer one question.
pub struct Section {
    pub id: &'static str,
    pub title: &'static str,
    pub charts: Vec<Chart>,
    /// The reason why there are none, or the number of further settings.
    pub remark: Option<String>,
}

/// The largest number of charts of one kind; the others are left to the tables.
const CHARTS_MAX: usize = 4;

/// Returns all sections, in the order in which they are read; without charts where there is nothing
/// to show.
pub fn sections(view: &View) -> Vec<Section> {
    let styles = Styles(view.strategies());
    let section = |id, title, charts: Vec<Chart>, without: &str| finish(view, id, title, charts, without);
    vec![
        section("throughput", "Throughput", bars::throughput(view), "no run was without a rate and a budget"),
        section(
            "threads",
            "Throughput by threads",
            scaling::by_threads(view, &styles),
            "nothing was measured with different numbers of threads",
        ),
        section(
            "live",
            "Throughput by live ids",
            scaling::by_live(view, &styles),
            "nothing was measured with different numbers of live ids",
        ),
        section("latency", "Latency", latency::charts(view, &styles), "ids were due at a rate in no run"),
        section(
            "memory",
            "Memory",
            bars::memory(view),
            "memory was not measured, is too little to be told, or was measured with a budget or at a rate only",
        ),
        section(
            "accuracy",
            "Accuracy against memory",
            accuracy::charts(view, &styles),
            "nothing was measured that may be wrong, or with a budget of memory",
        ),
        section("roofline", "What memory allows", bars::roofline(view), "the roofline was not measured"),
    ]
}

fn finish(view: &View, id: &'static str, title: &'static str, mut charts: Vec<Chart>, without: &str) -> Section {
    let all = charts.len();
    charts.truncate(CHARTS_MAX);
    let remark = match all {
        0 => Some(format!("No chart: {without}.")),
        _ if all > CHARTS_MAX => Some(format!("{} more settings are in the tables only.", all - CHARTS_MAX)),
        _ => None,
    };
    for (i, chart) in charts.iter_mut().enumerate() {
        if let Some(batch) = view.batch {
            chart.context.push_str(&format!(" Batched: {} ids at once.", count(batch as u64)));
        }
        chart.id = if i == 0 { id.into() } else { format!("{id}-{}", i + 1) };
    }
    Section { id, title, charts, remark }
}

/// The strategies by their number: the same look in all charts of a report.
struct Styles<'r>(Vec<&'r str>);

impl Styles<'_> {
    fn of(&self, line: &Line) -> Style {
        let number = |of: &str| self.0.iter().position(|name| *name == of).unwrap_or(self.0.len());
        Style::new(number(&line.row.strategy), line.ours, line.row.setting.batch <= 1)
    }
}
