//! `hapax journal`: prints the contents of a journal, for people.

use crate::failure::Failure;
use hapax::{Inspection, SegmentInfo};
use std::io::Write;
use std::path::Path;

/// Prints the contents of a journal's files.
pub fn inspect(path: &Path, runs: bool) -> Result<(), Failure> {
    let inspection = hapax::inspect(path).map_err(hapax::Error::from)?;
    let mut page = Vec::new();
    describe(&mut page, &inspection, runs).map_err(Failure::output)?;
    std::io::stdout().write_all(&page).map_err(Failure::output)
}

fn describe(page: &mut impl Write, inspection: &Inspection, runs: bool) -> std::io::Result<()> {
    let mut all = [0; 3];
    for segment in &inspection.segments {
        let name = segment.path.file_name().unwrap_or_default().to_string_lossy();
        let counts = counts(segment);
        let created = jiff::Timestamp::from_second(segment.created.as_secs() as i64).unwrap_or_default();
        write!(
            page,
            "{name}: {} bytes, {} blocks from {}, begun {created}",
            segment.bytes, segment.blocks, segment.first_block
        )?;
        writeln!(page, ", ids {} accepted, {} forgotten; {} times cleared", counts[0], counts[1], counts[2])?;
        // A time base has no time of its own.
        let mut timed = segment.runs.iter().filter(|run| run.what != "time base");
        if let Some(first) = timed.next() {
            let last = timed.next_back().unwrap_or(first);
            writeln!(page, "  times {} to {} ns", first.at.as_nanos(), last.at.as_nanos())?;
        }
        for run in segment.runs.iter().filter(|_| runs) {
            writeln!(page, "  {:>20} ns  {:>9} {}", run.at.as_nanos(), run.ids, run.what)?;
        }
        if let Some(torn) = &segment.torn {
            writeln!(page, "  torn at offset {}: {}; {} bytes are not valid", torn.offset, torn.reason, torn.bytes)?;
        }
        all.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    for defect in &inspection.damage {
        writeln!(page, "damaged: {defect}")?;
    }
    if inspection.ids_lost_before > 0 {
        writeln!(page, "{} ids are known to be lost", inspection.ids_lost_before)?;
    }
    writeln!(
        page,
        "{} files: ids {} accepted, {} forgotten; {} times cleared",
        inspection.segments.len(),
        all[0],
        all[1],
        all[2]
    )
}

/// Counts the ids accepted, the ids forgotten, and the times that all were forgotten.
fn counts(segment: &SegmentInfo) -> [u64; 3] {
    let mut counts = [0; 3];
    for run in &segment.runs {
        match run.what {
            "accepted" => counts[0] += run.ids,
            "forgotten" => counts[1] += run.ids,
            "cleared" => counts[2] += 1,
            _ => {}
        }
    }
    counts
}
