//! `hapax filter`: reads lines, and prints the first sightings.
//!
//! Three stages hand batches of lines on. [`parse`] reads, splits ([`lines`]) and digests, and
//! [`check`] asks the engine, each in a thread of its own. The caller's thread prints
//! ([`mod@print`]), and [`state`] records what was taken; then the empty batch goes back. There are
//! a few batches in all, so memory stays the same however long the input is.

mod compressed;
mod engine_errors;
#[cfg(any(fuzzing, test))]
mod fuzzing;
mod last;
mod options;
mod plan;
mod printing;
mod progress;
pub(crate) mod record;
mod report;
mod signals;
pub(crate) mod source;
mod spill;
mod stages;
mod state;
mod verdicts;

pub use self::options::{ABOUT, FilterArgs};

use self::last::Last;
use self::plan::Plan;
use self::printing::count::Counter;
use self::printing::duplicates_file::{Beside, Place};
use self::printing::output::Output;
use self::progress::Progress;
use self::record::extract::Extractor;
use self::report::{Counts, Report};
use self::signals::Signals;
use self::source::input::Source;
use self::source::lines::Lines;
use self::source::merge::{self, Order};
use self::source::parse::{Channels, Digests, Parser};
use self::source::reading::Inputs;
use self::source::resume::Resume;
use self::stages::{BATCHES, Stages};
use self::state::{Earlier, State};
use self::verdicts::check::Checker;
use self::verdicts::print::Printer;
use self::verdicts::refusing::{Refused, RefusingArgs};
use crate::args::LineArgs;
use crate::error::CommandError;
use crate::printable::tell;
use hapax::Dedup;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// Runs the command to its end.
pub fn run(mut args: FilterArgs) -> Result<(), CommandError> {
    let start = Instant::now();
    args.lines = args.lines.of_files(&args.files).map_err(CommandError::Usage)?;
    let extractor = Extractor::new(&args.lines)?;
    let sources = source::input::sources(&args.files);
    let mut output = Output::new().map_err(CommandError::output)?;
    sources.iter().try_for_each(|source| source.check(output.file()))?;
    if args.merge {
        merge::check(&sources)?;
    }
    let goes_on = args.state.is_some();
    let mut place = Place { sources: &sources, output: &output, others: Vec::new() };
    let mut beside = args.duplicates_to.as_ref().map(|path| Beside::open(path, goes_on, &mut place)).transpose()?;
    let mut counter =
        args.count.as_ref().map(|path| Counter::open(path, &place, Extractor::new(&args.lines)?)).transpose()?;
    if let Some(directory) = &args.spill {
        return spill::run(spill::Job { args: &args, directory, sources, output, beside, counter, start });
    }
    let size = plan::size_of(&sources);
    let plan = Plan::new(&args, &sources, size, extractor.has_time())?;
    let time = verdicts::check::time_of(args.window, extractor.has_time());
    let lost = report::found(&plan.dedup.stats());
    let earlier = Earlier::of(&plan.dedup)?;
    let run = earlier.run();
    let mut checker = Checker::new(plan.dedup.clone(), time, args.refusing, earlier.latest());
    checker.says_overlaps = !args.merge;
    let state = match args.state {
        Some(_) => Some(State::begin(plan.dedup.clone(), time, args.refresh_on_duplicate, &earlier, &mut output)?),
        None => None,
    };
    let bytes_read = Arc::new(AtomicU64::new(0));
    let progress = Progress::new(!args.no_progress, size, bytes_read.clone());
    let mut lines = Lines::new(&args.lines, &args.bad, extractor);
    let resume = Resume::new(earlier.places, options(&args), run, time == verdicts::check::Time::Arrival, bytes_read);
    let mut printer =
        Printer::new(output, args.wanted(), args.refusing.refused, state.as_ref().is_some_and(State::has_header));
    let goes_on = printer.has_header() || beside.as_ref().is_some_and(|beside| beside.printer.has_header());
    if let Some(header) = earlier.header.filter(|_| goes_on && lines.have_header()) {
        lines.go_on_below(&header)?;
        counter.iter_mut().for_each(|counter| counter.header(&header));
        beside.iter_mut().for_each(|beside| beside.printer.header = Some(header.clone()));
        printer.header = Some(header);
    }
    let first = first_stage(&args, lines, plan.dedup.clone(), Box::new(resume));
    let stages = Stages::start(first, move |batch| checker.check(batch), BATCHES, sources);
    let signals = Signals::listen(stages.waker())?;
    let mut last = Last { printer, beside, counter, state, counts: Counts::default(), progress, signals };
    let done = stages.run(|next| last.take(next));
    finish(last, done, &args, &plan, start).and(lost.map_or(Ok(()), Err))?;
    report::forgotten_early(&plan).map_or(Ok(()), Err)
}

/// Records and reports what a run has done.
fn finish(
    mut last: Last,
    done: Result<(), CommandError>,
    args: &FilterArgs,
    plan: &Plan,
    start: Instant,
) -> Result<(), CommandError> {
    last.progress.finish();
    // Printed lines are remembered, also after an error.
    let ended =
        last.state.take().map_or(Ok(()), |state| state.end(&last.printer.output, || last.signals.asked().is_err()));
    // Counts of what was read, also after an error.
    let counted = last.counter.take().map_or(Ok(None), Counter::write);
    let done = done
        .and(ended)
        .and(counted.map(|notice| notice.iter().for_each(|notice| tell(format_args!("hapax: {notice}")))));
    if let Some(refused) = last.counts.refused(args.refusing.refused) {
        tell(format_args!("hapax: {refused}"));
    }
    // A reader that has closed its pipe may not want any more output.
    if let (Some(format), false) = (args.stats, matches!(done, Err(CommandError::ClosedPipe))) {
        let elapsed = start.elapsed();
        let report = Report { counts: last.counts, stats: plan.dedup.stats(), plan, window: args.window, elapsed };
        tell(report.text(format));
    }
    done
}

/// A first stage, which reads inputs into batches.
type FirstStage = Box<dyn FnOnce(&[Source], Channels) + Send>;

/// Returns the first stage: one input after the other, or all at once.
fn first_stage(args: &FilterArgs, lines: Lines, dedup: Dedup, opener: Box<dyn Inputs>) -> FirstStage {
    if !args.merge {
        let parser = Parser::new(lines, Digests::Prepared(dedup), opener);
        return Box::new(|sources, channels| parser.run(sources, channels));
    }
    let RefusingArgs { max_skew, allowed_lateness, time_unrelated, refused, .. } = args.refusing;
    let skew = max_skew.or_else(|| args.window.map(|window| window.max(Duration::from_secs(60))));
    let order = Order {
        lateness: allowed_lateness.unwrap_or_default(),
        skew: skew.filter(|_| !time_unrelated),
        apart: refused == Refused::Error,
    };
    Box::new(|sources, channels| merge::run(lines, dedup, opener, order, sources, channels))
}

/// Hashes the options that say what events are, and which of them are printed.
fn options(args: &FilterArgs) -> u64 {
    let LineArgs { id, time, format } = &args.lines;
    let id = (&id.field, &id.column, &id.json, &id.regex);
    let time_format = format!("{:?}", time.time_format);
    let time = (time.time_field, &time.time_column, &time.time_json, &time.time_regex, time_format);
    let format = (format.delimiter(), format!("{:?}", format.quote), format.header);
    xxh3_64(format!("{:?}", (id, time, format, args.duplicates, args.mark)).as_bytes())
}
