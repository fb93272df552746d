//! `hapax filter`: lines in, first sightings out.
//!
//! Three stages, a thread each, hand batches of lines on: [`parse`] reads, splits ([`lines`]) and digests; [`check`] asks the engine; [`print`]
//! writes, and hands the empty batch back. There are a few batches in all, so memory stays the same however long the input is.

mod check;
pub mod cut;
pub mod extract;
mod fields;
mod gzip;
pub mod input;
mod json;
pub mod lines;
mod parse;
mod plan;
mod print;
mod progress;
mod report;
mod time;

use self::check::Checker;
use self::extract::Extractor;
use self::input::Source;
use self::lines::Lines;
use self::parse::{Batch, Channels, Parser};
use self::plan::Plan;
use self::print::{Printer, Wanted};
use self::progress::Progress;
use self::report::{Counts, Report};
use crate::args::FilterArgs;
use crate::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

/// Batches on their way: enough that no stage waits for another one's bad moment.
const BATCHES: usize = 8;

/// Runs the command to its end.
pub fn run(args: FilterArgs) -> Result<(), Failure> {
    let start = Instant::now();
    let extractor = Extractor::new(&args.lines)?;
    let sources = input::sources(&args.files);
    let output = print::stdout().map_err(Failure::output)?;
    sources.iter().try_for_each(|source| source.check(&output))?;
    let size = plan::size_of(&sources);
    let plan = Plan::new(&args, size)?;
    let time = check::time_of(args.window, extractor.has_time());
    let bytes_read = Arc::new(AtomicU64::new(0));
    let progress = Progress::new(!args.no_progress, size, bytes_read.clone());
    let parser = Parser::new(Lines::new(&args.lines, &args.bad, extractor), plan.dedup.clone());
    let checker = Checker::new(plan.dedup.clone(), time);
    input::enlarge_pipe(&output);
    let mut printer = Printer::new(output, wanted(&args));
    let mut counts = Counts::default();
    let done = Stages::start(parser, checker, sources, bytes_read).run(|batch| {
        counts.add(batch);
        progress.update(&counts);
        printer.print(batch)?;
        match args.state {
            Some(_) => Ok(Checker::printed(&plan.dedup, time, batch).map_err(hapax::Error::from)?),
            None => Ok(()),
        }
    });
    progress.finish();
    // What was printed is remembered, also if something went wrong then.
    let done = match args.state {
        Some(_) => done.and(plan.dedup.flush().map_err(|error| hapax::Error::from(error).into())),
        None => done,
    };
    // A closed pipe has had what it wanted, and its owner may not want to hear more.
    if let (Some(format), false) = (args.stats, matches!(done, Err(Failure::ClosedPipe))) {
        let elapsed = start.elapsed();
        let report = Report { counts, stats: plan.dedup.stats(), plan: &plan, window: args.window, elapsed };
        eprintln!("{}", report.text(format));
    }
    done.and_then(|()| report::forgotten_early(&plan).map_or(Ok(()), Err))
}

fn wanted(args: &FilterArgs) -> Wanted {
    match (args.duplicates, args.mark) {
        (true, _) => Wanted::Duplicates,
        (_, true) => Wanted::Marked { delimiter: args.lines.format.delimiter },
        _ => Wanted::Fresh,
    }
}

/// The first two stages, at work. The last one stays with the caller: when nobody takes its output any more, the process ends, and
/// does not wait for a stage that waits for input.
struct Stages {
    threads: [JoinHandle<()>; 2],
    empty: SyncSender<Batch>,
    checked: Receiver<Result<Batch, Failure>>,
}

impl Stages {
    fn start(parser: Parser, mut checker: Checker, sources: Vec<Source>, bytes_read: Arc<AtomicU64>) -> Self {
        let (empty, empties) = sync_channel(BATCHES);
        let (full, fulls) = sync_channel(BATCHES);
        let (checked, checkeds) = sync_channel(BATCHES);
        (0..BATCHES)
            .for_each(|_| empty.send(Batch::default()).expect("the channel has room, and its other end is here"));
        let channels = Channels { empty: empties, full };
        let threads = [
            std::thread::spawn(move || parser.run(&sources, &bytes_read, &channels)),
            std::thread::spawn(move || {
                for mut batch in fulls {
                    batch.iter_mut().for_each(|batch| checker.check(batch));
                    if checked.send(batch).is_err() {
                        return;
                    }
                }
            }),
        ];
        Stages { threads, empty, checked: checkeds }
    }

    /// Does the last stage with every batch, up to the first failure of any stage.
    fn run(self, mut last: impl FnMut(&Batch) -> Result<(), Failure>) -> Result<(), Failure> {
        for batch in self.checked {
            let batch = batch?;
            last(&batch)?;
            let _ = self.empty.send(batch); // the first stage may be done, and need no more
        }
        // No more came: because all is done, and not because a stage broke down.
        for thread in self.threads {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        Ok(())
    }
}
