//! Shows the progress of the comparison: a bar on a terminal, otherwise a line for each case.

use crate::printable::tell;
use hapax_bench::measure::render::described;
use hapax_bench::measure::{Measurement, Row, Setting};
use hapax_plan::rough;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

pub struct Progress {
    bar: Option<ProgressBar>,
    cases: usize,
    done: usize,
    rounds: u32,
}

impl Progress {
    pub fn new(cases: usize, rounds: u32) -> Self {
        let style = ProgressStyle::with_template("{bar:20} {pos} of {len}  {eta} left  {wide_msg}");
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(cases as u64).with_style(style.expect("the template is valid"));
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Progress { bar, cases, done: 0, rounds }
    }

    pub fn begin(&self, row: &Row, round: u32) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("round {round} of {}: {}, {}", self.rounds, row.strategy, described(&row.setting)));
        }
    }

    /// Records that a case has ended.
    pub fn end(&mut self, row: &Row, seen: Result<&Measurement, &str>) {
        self.done += 1;
        let result = match seen {
            Ok(Measurement { latency: Some(latency), .. }) => {
                // With few ids only the maximum is known.
                let late = latency.quantiles.iter().find(|quantile| quantile.of >= 0.99);
                let (of, nanos) = late.map_or((0.0, 0), |quantile| (quantile.of, quantile.nanos));
                let (percent, micros) = (of * 100.0, nanos as f64 / 1e3);
                format!("{percent} % within {micros:.1} us, {:.0} ids a second", latency.reached)
            }
            Ok(seen) => format!("{:.1} ns an id", seen.nanos as f64 / seen.checks.max(1) as f64),
            Err(reason) => format!("failed: {reason}"),
        };
        let line = format!("{}, {}: {result}", row.strategy, described(&row.setting));
        match (&self.bar, seen) {
            (Some(bar), Ok(_)) => bar.inc(1),
            (Some(bar), Err(_)) => bar.suspend(|| tell(&line)),
            (None, _) => tell(format_args!("{} of {}: {line}", self.done, self.cases)),
        }
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Announces the work to come.
pub fn announce(rows: &[Row], rounds: u32, time: Duration, seed: u64) -> String {
    let mut settings: Vec<&Setting> = Vec::new();
    for row in rows {
        if !settings.contains(&&row.setting) {
            settings.push(&row.setting);
        }
    }
    let cases = rows.len() * rounds as usize;
    let (rows, settings) = (rows.len(), settings.len());
    let plural = |n: usize| if n == 1 { "" } else { "s" };
    format!(
        "{settings} setting{}, {rows} row{}, {rounds} round{}: {cases} case{}, about {}; --seed {seed}",
        plural(settings),
        plural(rows),
        plural(rounds as usize),
        plural(cases),
        rough(time),
    )
}
