//! Segments of many ids: how fast they are sealed, merged and asked, and what they take. All
//! answers are checked.
//!
//! `cargo bench -p hapax-bench --bench segments [-- IDS [SPANS [unmerged]]]`: by default 100
//! million ids in 36 spans, which are merged as they come. They are written below the directory of
//! temporary files (`TMPDIR`): 17 bytes an id at most, deleted at the end.

#[path = "long_memory/peak.rs"]
mod peak;

use hapax::segments::{Answer, Event, EventKind, Needs, SegmentOptions, Segments, Span};
use hapax::tier::random::Random;
use hapax::{Digest, Digester, SegmentError, Timestamp};
use peak::peak_bytes;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Ids that are asked with one call.
const BATCH: usize = 1024;
/// Ids that are asked for a figure.
const ASKED: usize = 4 << 20;
/// The records of a step of a merge: about 2 ms.
const STEP: usize = 40_000;

const RETENTION: Duration = Duration::from_secs(1_000_000);
const NOW: Timestamp = Timestamp::from_secs(500_000);

/// Ids that are accepted one after another.
struct Numbers<'d> {
    ids: Range<u64>,
    digester: &'d Digester,
}

impl Span for Numbers<'_> {
    fn read(&mut self, each: &mut dyn FnMut(Event)) -> Result<(), SegmentError> {
        for id in self.ids.clone() {
            let digest = self.digester.digest(id.to_le_bytes());
            each(Event { digest, time: Timestamp::from_micros(id), kind: EventKind::Accepted });
        }
        Ok(())
    }
}

/// Questions, and how many of them are known.
struct Questions {
    digests: Vec<Digest>,
    known: usize,
}

impl Questions {
    /// Draws questions: this share of a thousand are ids that were sealed.
    fn new(digester: &Digester, ids: u64, permille: u64) -> Self {
        let (mut random, mut known) = (Random::new(permille), 0);
        let mut draw = || {
            let is_known = random.below(1000) < permille;
            known += usize::from(is_known);
            let id = if is_known { random.below(ids) } else { ids + random.next() % (1 << 60) };
            digester.digest(id.to_le_bytes())
        };
        let digests = (0..ASKED).map(|_| draw()).collect();
        Questions { digests, known }
    }

    /// Asks all of them. Returns the nanoseconds an id.
    fn ask(&self, segments: &Segments) -> Result<f64, String> {
        let (mut answers, mut known, began) = (Vec::new(), 0, Instant::now());
        for batch in self.digests.chunks(BATCH) {
            segments.look(batch, NOW, &mut answers).map_err(|error| error.to_string())?;
            known += answers.iter().filter(|answer| matches!(answer, Answer::Known(_))).count();
        }
        let each = began.elapsed().as_nanos() as f64 / self.digests.len() as f64;
        match known == self.known {
            true => Ok(each),
            false => Err(format!("{known} are known, and {} should be", self.known)),
        }
    }
}

fn report_questions(digester: &Digester, ids: u64, segments: &Segments) -> Result<(), String> {
    for (name, permille) in [("fresh", 0), ("5 % known", 50), ("all known", 1000)] {
        let questions = Questions::new(digester, ids, permille);
        questions.ask(segments)?; // into the page cache
        let before = segments.stats().pages_read;
        let each = questions.ask(segments)?;
        let pages = (segments.stats().pages_read - before) as f64 / questions.digests.len() as f64;
        println!("{name:>12}: {each:7.1} ns an id, {:5.2} M/s; {pages:.4} pages an id", 1e3 / each);
    }
    Ok(())
}

/// The time that something took, in all and at most.
#[derive(Default)]
struct Took {
    records: u64,
    total: Duration,
    longest: Duration,
}

impl Took {
    fn report(&self, name: &str) {
        let rate = self.records as f64 / self.total.as_secs_f64().max(1e-9) / 1e6;
        println!("{name:>12}: {rate:.1} M records/s; the longest step took {:.1?}", self.longest);
    }
}

fn merge_all(segments: &Arc<Segments>, took: &mut Took) -> Result<(), SegmentError> {
    let before = segments.stats().written_records;
    while let Some(mut merge) = segments.begin_merge(NOW)? {
        loop {
            let began = Instant::now();
            let is_done = merge.step(STEP)?;
            took.total += began.elapsed();
            took.longest = took.longest.max(began.elapsed());
            if is_done {
                break;
            }
        }
    }
    took.records += segments.stats().written_records - before;
    Ok(())
}

fn run(ids: u64, spans: u64, merged: bool) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let failed = |error: SegmentError| error.to_string();
    let options = SegmentOptions::new(RETENTION);
    let segments = Segments::open(directory.path(), options).map_err(failed)?;
    let digester = Digester::from(segments.key());
    let (mut sealing, mut merging) = (Took::default(), Took::default());
    for span in 0..spans {
        let (began, span_ids) = (Instant::now(), ids * span / spans..ids * (span + 1) / spans);
        sealing.records += span_ids.end - span_ids.start;
        segments.seal(&mut Numbers { ids: span_ids, digester: &digester }, span + 1).map_err(failed)?;
        sealing.total += began.elapsed();
        sealing.longest = sealing.longest.max(began.elapsed());
        if merged {
            merge_all(&segments, &mut merging).map_err(failed)?;
        }
    }
    sealing.report("sealing");
    if merging.records > 0 {
        merging.report("merging");
    }
    let stats = segments.stats();
    let [disk, memory] = [stats.disk_bytes, stats.memory_bytes].map(|bytes| bytes as f64 / 1e6);
    let amplification = stats.written_records as f64 / stats.sealed_events as f64;
    println!(
        "{ids} ids in {} segments: {disk:.0} MB of disk, {memory:.0} MB of memory; each written {amplification:.2} times; \
         the process took {:.0} MB at most",
        stats.segments,
        peak_bytes() as f64 / 1e6,
    );
    println!("planned: {:?}", Needs::of(ids, spans));
    report_questions(&digester, ids, &segments)?;
    drop(segments);
    let began = Instant::now();
    let segments = Segments::open(directory.path(), options).map_err(failed)?;
    let opened = began.elapsed();
    while segments.load_filter().map_err(failed)? {}
    println!("opened in {opened:.1?}, with filters in {:.1?}", began.elapsed());
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let number = |at: usize, default: u64| args.get(at).map_or(Some(default), |arg| arg.replace('_', "").parse().ok());
    let (Some(ids), Some(spans)) = (number(0, 100_000_000), number(1, 36)) else {
        eprintln!("segments [IDS [SPANS [unmerged]]]");
        return ExitCode::from(2);
    };
    match run(ids, spans.max(1), args.get(2).is_none_or(|word| word != "unmerged")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::FAILURE
        }
    }
}
