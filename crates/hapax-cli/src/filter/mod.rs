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
pub(crate) mod source;
mod spill;
mod stages;
mod state;
mod verdicts;

pub use self::options::{ABOUT, FilterArgs};

use self::last::Last;
use self::options::Keep;
use self::plan::Plan;
use self::printing::count::Counter;
use self::printing::duplicates_file::{Beside, Place};
use self::printing::output::Output;
use self::progress::Progress;
use self::record::extract::Extractor;
use self::report::{Counts, Report};
use self::source::input::Source;
use self::source::lines::Lines;
use self::source::merge::{self, Order};
use self::source::parse::{Channels, Digests, Parser};
use self::source::reading::Inputs;
use self::source::resume::Resume;
use self::spill::Job;
use self::stages::{BATCHES, Stages};
use self::state::{Earlier, State};
use self::verdicts::check::Checker;
use self::verdicts::print::Printer;
use self::verdicts::refusing::{Refused, RefusingArgs};
use self::verdicts::units;
use crate::args::{Format, LineArgs};
use crate::error::CommandError;
use crate::printable::tell;
use crate::signals::Signals;
use hapax::Dedup;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// Runs the command to its end.
pub fn run(mut args: FilterArgs) -> Result<(), CommandError> {
    let start = Instant::now();
    args.check_keep().map_err(CommandError::Usage)?;
    args.files = source::named::files(&args.files)?;
    args.lines = args.lines.of_files(&args.files).map_err(CommandError::Usage)?;
    let extractor = Extractor::new(&args.lines)?;
    let sources = source::input::sources(&args.files, args.lines.may_have_arrays());
    let last_byte = args.lines.format.last_byte();
    let mut output = Output::open(args.output.as_deref(), last_byte)?;
    sources.iter().try_for_each(|source| source.check(output.file()))?;
    if args.merge {
        merge::check(&sources)?;
    }
    let goes_on = args.state.is_some();
    let mut place = Place { sources: &sources, output: &output, others: Vec::new() };
    let mut beside = args.duplicates_to.as_ref().map(|path| Beside::open(path, goes_on, &mut place)).transpose()?;
    let mut counter =
        args.count.as_ref().map(|path| Counter::open(path, &place, Extractor::new(&args.lines)?)).transpose()?;
    let size = plan::size_of(&sources, last_byte);
    if args.spill.is_some() || args.keep == Keep::Last {
        let directory = args.spill.clone().unwrap_or_else(std::env::temp_dir);
        return spill::run(Job { args: &args, sources, size, output, beside, counter, start }, &directory);
    }
    let plan = Plan::new(&args, &sources, size, extractor.has_time())?;
    let time = verdicts::check::time_of(args.window, extractor.has_time());
    let lost = report::found(&plan.dedup.stats());
    let earlier = Earlier::of(&plan.dedup)?;
    let run = earlier.run();
    let mut unit_nanos = args.lines.time.time_format.unit_nanos().filter(|_| !args.refusing.time_unrelated);
    let mut checker = Checker::new(plan.dedup.clone(), time, args.refusing, earlier.latest());
    checker.says_overlaps = !args.merge;
    let state = match args.state {
        Some(_) => Some(State::begin(plan.dedup.clone(), time, args.refresh_on_duplicate, &earlier, &mut output)?),
        None => None,
    };
    let bytes_read = Arc::new(AtomicU64::new(0));
    let progress = Progress::new(!args.no_progress, &output, size, bytes_read.clone());
    let mut lines = Lines::new(&args.lines, &args.bad, extractor);
    let resume = Resume {
        places: earlier.places,
        options: options(&args),
        run,
        is_remembered: goes_on,
        streams_end: time == verdicts::check::Time::Arrival,
        bytes_read,
        ..Resume::default()
    };
    let has_header = state.as_ref().is_some_and(State::has_header);
    let has_begun = output.is_continued().map_err(CommandError::output)?;
    let mut printer = Printer::new(output, args.wanted(), args.refusing.refused, has_header, has_begun);
    let goes_on = printer.has_header() || beside.as_ref().is_some_and(|beside| beside.printer.has_header());
    if let Some(header) = earlier.header.filter(|_| goes_on && lines.have_header()) {
        lines.go_on_below(&header)?;
        counter.iter_mut().for_each(|counter| counter.header(&header));
        beside.iter_mut().for_each(|beside| beside.printer.header = Some(header.clone()));
        printer.header = Some(header);
    }
    let first = first_stage(&args, lines, plan.dedup.clone(), Box::new(resume));
    let check = move |batch: &mut _| {
        units::look(&mut unit_nanos, batch);
        checker.check(batch)
    };
    let stages = Stages::start(first, check, BATCHES, sources);
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
    if let Some(refused) = last.counts.refused(args.refusing.refused) {
        tell(format_args!("hapax: {refused}"));
    }
    let Last { printer, counter, counts, .. } = last;
    args.end(done.and(ended), printer.output, counter, |format| {
        let elapsed = start.elapsed();
        Report { counts, stats: plan.dedup.stats(), plan, window: args.window, elapsed }.text(format)
    })
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

impl FilterArgs {
    /// Ends a run: writes the counts, puts the output in its place if all went well, and reports.
    fn end(
        &self,
        done: Result<(), CommandError>,
        output: Output,
        counter: Option<Counter>,
        report: impl FnOnce(Format) -> String,
    ) -> Result<(), CommandError> {
        // Counts of what was read, also after an error.
        let counted = counter.map_or(Ok(()), Counter::write);
        let done = done.and(counted).and_then(|()| output.end());
        // A reader that has closed its pipe may not want any more output.
        if self.stats && !matches!(done, Err(CommandError::ClosedPipe)) {
            tell(report(self.format));
        }
        done
    }
}

/// Hashes the options that say what events are, and which of them are printed.
fn options(args: &FilterArgs) -> u64 {
    let LineArgs { id, time, format, loose, ignore_case, .. } = &args.lines;
    let id = (&id.field, &id.column, &id.json, &id.regex, loose, ignore_case);
    let time_format = format!("{:?} {:?}", time.time_format, time.time_zone);
    let time = (time.time_field, &time.time_column, &time.time_json, &time.time_regex, time_format);
    let format = (format.delimiter(), format!("{:?}", format.quote), format.header);
    xxh3_64(format!("{:?}", (id, time, format, args.duplicates, args.mark)).as_bytes())
        ^ u64::from(args.lines.format.null)
}
