//! `--spill`: exact over inputs with more ids than memory has room for.
//!
//! The input is read twice ([`inputs`]). First the digest of each id goes to its partition
//! ([`partitions`]), most of them on the disk; then the duplicates of each partition are marked, by
//! a table that fits into memory ([`find`]); then the input is read again, and lines are printed by
//! their marks. Nothing is printed before all of the input was read and all duplicates are known.
//!
//! - *Partitions*, since the input can be read twice, so no id has to be answered at once. A digest
//!   goes to the partition of its highest bits with its line's distance from the one before: 18
//!   bytes. A partition with more digests than the table has slots is divided by its next bit.
//! - *The disk*: one file without a name ([`nameless`]), so nothing is left however the process
//!   ends. Each block is hashed: other bytes than were written are an error.
//! - *The input again*: each chunk of 256 KiB is compared with its hash before anything of it is
//!   printed. A file that was changed or cut short is an error that says where; one that has grown
//!   is read as far as it was long. A pipe is copied first.
//! - *The memory* ([`budget`]): 32 MiB for the program; of the rest a quarter for buffers, a
//!   quarter for tables, and at most half for the marks, a bit a line. More lines than that are
//!   refused before anything is printed.
//! - *The last line of each id* (`--keep last`): a partition is read from its end, so that the last
//!   line is the first to be seen.

mod allocator;
mod budget;
mod find;
mod inputs;
mod marks;
mod nameless;
mod partitions;
mod recent;
mod records;
mod table;

use super::last::Last;
use super::options::FilterArgs;
use super::plan::Size;
use super::printing::count::Counter;
use super::printing::duplicates_file::Beside;
use super::printing::output::Output;
use super::progress::Progress;
use super::record::extract::Extractor;
use super::report::{Counts, Spilled};
use super::source::input::Source;
use super::source::lines::Lines;
use super::source::parse::{Batch, Digests, Parser};
use super::stages::{Next, Stages};
use super::verdicts::print::Printer;
use crate::error::CommandError;
use crate::signals::Signals;
use budget::{BYTES_MIN, BYTES_UNASKED, Budget};
use hapax::seam::Digester;
use hapax::{Outcome, Tier, Verdict};
use hapax_plan::Bytes;
use inputs::{Again, First, lock};
use marks::Marks;
use nameless::Nameless;
use partitions::Partitions;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The files that the command line names, opened.
pub struct Job<'a> {
    pub args: &'a FilterArgs,
    pub sources: Vec<Source>,
    pub size: Option<Size>,
    pub output: Output,
    pub beside: Option<Beside>,
    pub counter: Option<Counter>,
    pub start: Instant,
}

/// Batches on their way: fewer than where all is in memory, since they count.
const BATCHES: usize = 4;

/// Does the job to its end, with temporary files in this directory.
pub fn run(job: Job, directory: &Path) -> Result<(), CommandError> {
    let Job { args, sources, size, mut output, beside, counter, start } = job;
    let budget = budget_of(args)?;
    allocator::give_back_long_buffers();
    let bytes_read = Arc::new(AtomicU64::new(0));
    let size = size.map(|size| Size { bytes: 2 * size.bytes, ..size });
    let progress = Progress::new(!args.no_progress, &output, size, bytes_read.clone());
    let lines = || Ok::<_, CommandError>(Lines::new(&args.lines, &args.bad, Extractor::new(&args.lines)?));

    let first = First::new(directory, bytes_read.clone());
    let recorded = first.recorded();
    let partitions = Arc::new(Mutex::new(Partitions::new(budget, args.keep, Nameless::new(directory)?)));
    let parser = Parser::new(lines()?, Digests::Bare(Digester::random()?), Box::new(first));
    let filing = partitions.clone();
    let second =
        move |batch: &mut Batch| filing.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).add(&batch.digests);
    let stages = Stages::start(|sources, to| parser.run(sources, to), second, BATCHES, sources.clone());
    let signals = Signals::listen(stages.waker())?;
    let asked =
        || signals.asked().and_then(|()| if output.is_closed() { Err(CommandError::ClosedPipe) } else { Ok(()) });
    let mut counts = Counts::default();
    let done = stages.run(|next| {
        if let Next::Batch(batch) = next {
            counts.add(batch);
            progress.first_of_two(&counts);
        }
        asked().map(|()| None)
    });
    let filed = done.map(|()| ended(partitions)).inspect_err(|_| progress.finish())?;

    let divided = find::duplicates(&filed, &asked).inspect_err(|_| progress.finish())?;
    let spilled =
        Spilled { bytes: filed.written(), copied: lock(&recorded).copied(), partitions: filed.count() as u64, divided };

    let again = Again::new(&mut lock(&recorded), bytes_read);
    let parser = Parser::new(lines()?.silent(), Digests::None, Box::new(again));
    let mut verdicts = Verdicts { marks: filed.into_marks(), ids: 0 };
    let stages =
        Stages::start(|sources, to| parser.run(sources, to), move |batch| verdicts.fill(batch), BATCHES, sources);
    let has_begun = output.is_continued().map_err(CommandError::output)?;
    let printer = Printer::new(output, args.wanted(), args.refusing.refused, false, has_begun);
    let mut last = Last { printer, beside, counter, state: None, counts: Counts::default(), progress, signals };
    let done = stages.run(|next| last.take(next));
    last.progress.finish();
    let Last { printer, counter, counts, .. } = last;
    args.end(done, printer.output, counter, |format| spilled.text(&counts, start.elapsed(), format))
}

fn budget_of(args: &FilterArgs) -> Result<Budget, CommandError> {
    let bytes = args.max_memory.unwrap_or(BYTES_UNASKED);
    if bytes < BYTES_MIN {
        let (got, least) = (Bytes(bytes as f64), Bytes(BYTES_MIN as f64));
        return Err(CommandError::Usage(format!(
            "--max-memory: got {got}, expected at least {least} with --spill or --keep last"
        )));
    }
    Ok(Budget::of(bytes, std::thread::available_parallelism().map_or(1, |processors| processors.get())))
}

/// Takes the partitions back from the stage that has filled them, which has ended.
fn ended(partitions: Arc<Mutex<Partitions>>) -> Partitions {
    let partitions = Arc::into_inner(partitions).expect("the stage has ended, and dropped its own");
    partitions.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The second stage of the last pass.
struct Verdicts {
    marks: Marks,
    /// The ids that have their verdict.
    ids: u64,
}

impl Verdicts {
    /// Fills in the verdicts of a batch: those of an engine that remembers all.
    fn fill(&mut self, batch: &mut Batch) -> Result<(), CommandError> {
        let (fresh, duplicate) = (Outcome::Fresh, Outcome::Duplicate);
        let [fresh, duplicate] = [fresh, duplicate].map(|outcome| Verdict::exact(outcome, Tier::Window));
        let ids = self.ids + (batch.ends.len() - batch.unchecked.len()) as u64;
        let verdicts = (self.ids..ids).map(|id| if self.marks.is_marked(id) { duplicate } else { fresh });
        batch.verdicts.extend(verdicts);
        self.ids = ids;
        Ok(())
    }
}
