//! `--keep last` in memory: one record of each id, printed at the end of the input.
//!
//! Which record is the last one is known at the end only, so nothing is printed before. With
//! `--spill` the same is done beyond memory ([`super::spill`]).

use super::plan::MEMORY_UNASKED_MAX;
use super::printing::output::Output;
use super::progress::Progress;
use super::record::extract::Extractor;
use super::report::{Counts, Spilled};
use super::signals::Signals;
use super::source::encoding::Encoding;
use super::source::lines::{Lines, Unchecked};
use super::source::parse::{Batch, Digests, Parser};
use super::source::resume::Resume;
use super::spill::Job;
use super::stages::{BATCHES, Next, Stages};
use super::verdicts::print::{Fate, fates};
use crate::error::CommandError;
use hapax::seam::Digester;
use hapax::{Outcome, Tier, Verdict};
use hapax_plan::Bytes;
use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

/// The most memory that a record takes beside its own bytes: its place in a table that grows, and
/// at the end in a list.
const RECORD_BYTES: usize = 192;

/// A record, its number among all records, and its input's encoding.
type Record = (u64, Box<[u8]>, Encoding);

/// The last record of each id, so far.
#[derive(Default)]
struct Kept {
    by_id: HashMap<u128, Record>,
    /// Records that are printed although they have no id: a header, and by `--missing pass`.
    others: Vec<Record>,
    read: u64,
    bytes: usize,
    bytes_max: usize,
}

/// Does the job to its end.
pub fn run(job: Job) -> Result<(), CommandError> {
    let Job { args, sources, size, mut output, beside: _, mut counter, start } = job;
    let bytes_read = Arc::new(AtomicU64::new(0));
    let progress = Progress::new(!args.no_progress, &output, size, bytes_read.clone());
    let lines = Lines::new(&args.lines, &args.bad, Extractor::new(&args.lines)?);
    let inputs = Resume::new(HashMap::new(), 0, 0, false, false, bytes_read);
    let parser = Parser::new(lines, Digests::Bare(Digester::random()?), Box::new(inputs));
    let bytes_max = args.max_memory.unwrap_or(MEMORY_UNASKED_MAX);
    let kept = Arc::new(Mutex::new(Kept { bytes_max, ..Kept::default() }));
    let keeping = kept.clone();
    let second = move |batch: &mut Batch| keeping.lock().unwrap_or_else(PoisonError::into_inner).add(batch);
    let stages = Stages::start(|sources, to| parser.run(sources, to), second, BATCHES, sources);
    let signals = Signals::listen(stages.waker())?;
    let mut counts = Counts::default();
    let done = stages.run(|next| {
        if let Next::Batch(batch) = next {
            counts.add(batch);
            counter.iter_mut().for_each(|counter| counter.add(batch));
            progress.update(&counts);
        }
        signals.asked()?;
        if output.is_closed() { Err(CommandError::ClosedPipe) } else { Ok(None) }
    });
    progress.finish();
    let kept = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
    let done = done.and_then(|()| kept.print(&mut output, &signals));
    args.end(done, output, counter, |format| Spilled::default().text(&counts, start.elapsed(), format))
}

impl Kept {
    /// Takes in the records of a batch. Fills in their verdicts as if the first one of each id was
    /// to be printed: there are as many duplicates of each.
    fn add(&mut self, batch: &mut Batch) -> Result<(), CommandError> {
        let [fresh, duplicate] = [Outcome::Fresh, Outcome::Duplicate].map(|is| Verdict::exact(is, Tier::Window));
        batch.verdicts.resize(batch.digests.len(), fresh);
        let mut verdicts = Vec::with_capacity(batch.digests.len());
        for (record, fate) in fates(batch) {
            self.read += 1;
            let record = &batch.bytes[record];
            self.bytes += record.len() + RECORD_BYTES;
            let numbered = (self.read, record.into(), batch.encoding);
            match fate {
                Fate::Checked(_) => {
                    let before = self.by_id.insert(batch.digests[verdicts.len()], numbered);
                    self.bytes -= before.as_ref().map_or(0, |(_, before, _)| before.len() + RECORD_BYTES);
                    verdicts.push(if before.is_some() { duplicate } else { fresh });
                }
                Fate::Unchecked(Unchecked::Header | Unchecked::OwnHeader | Unchecked::Pass) => {
                    self.others.push(numbered)
                }
                Fate::Unchecked(_) => self.bytes -= record.len() + RECORD_BYTES,
            }
        }
        batch.verdicts = verdicts;
        if self.bytes <= self.bytes_max {
            return Ok(());
        }
        Err(CommandError::Usage(format!(
            "--keep last: the last records of {} ids take more than {}; nothing is printed. Give a larger --max-memory, \
             or --spill DIR, which takes a directory instead",
            self.by_id.len(),
            Bytes(self.bytes_max as f64)
        )))
    }

    /// Prints the records in their order.
    fn print(self, output: &mut Output, signals: &Signals) -> Result<(), CommandError> {
        let mut records = self.others;
        records.extend(self.by_id.into_values());
        records.sort_unstable_by_key(|(number, ..)| *number);
        // It writes whole records together.
        let mut pages = BufWriter::with_capacity(256 << 10, output);
        let mut has_begun = pages.get_mut().is_continued().map_err(CommandError::output)?;
        for (_, record, encoding) in records {
            signals.asked()?;
            let mut record = record.into_vec();
            encoding.encode(&mut record, !has_begun);
            has_begun = true;
            pages.write_all(&record).map_err(|error| pages.get_ref().failed(error))?;
        }
        pages.flush().map_err(|error| pages.get_ref().failed(error))
    }
}
