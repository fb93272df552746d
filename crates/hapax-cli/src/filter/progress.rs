//! Progress on a terminal.

use super::plan::Size;
use super::printing::output::Output;
use super::report::Counts;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use std::fmt;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// A display of the command's progress, or nothing.
pub struct Progress {
    bar: ProgressBar,
    bytes_read: Arc<AtomicU64>,
    start: Instant,
}

impl Progress {
    /// Shows progress on standard error if that is a terminal, and the output goes to none.
    pub fn new(wanted: bool, output: &Output, size: Option<Size>, bytes_read: Arc<AtomicU64>) -> Self {
        let shown = wanted && std::io::stderr().is_terminal() && !output.file().is_terminal();
        let bar = match (shown, size) {
            (false, _) => ProgressBar::hidden(),
            (true, Some(size)) => {
                ProgressBar::new(size.bytes).with_style(style("{bar:20} {bytes} of {total_bytes}  {msg}  {eta} left"))
            }
            (true, None) => ProgressBar::new_spinner().with_style(style("{spinner} {bytes}  {msg}")),
        };
        Progress { bar, bytes_read, start: Instant::now() }
    }

    /// Shows the first of two readings, which finds out what is a duplicate.
    pub fn first_of_two(&self, counts: &Counts) {
        self.show(counts, format_args!("read for the first time, of two"));
    }

    pub fn update(&self, counts: &Counts) {
        self.show(counts, format_args!("{:.1} % duplicates", counts.percent_duplicates()));
    }

    fn show(&self, counts: &Counts, what: fmt::Arguments<'_>) {
        if self.bar.is_hidden() {
            return;
        }
        let seconds = self.start.elapsed().as_secs_f64().max(1e-3);
        self.bar.set_message(format!(
            "{} lines  {:.1} M lines/s  {what}",
            HumanCount(counts.lines),
            counts.lines as f64 / seconds / 1e6,
        ));
        self.bar.set_position(self.bytes_read.load(Relaxed));
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is valid")
}
