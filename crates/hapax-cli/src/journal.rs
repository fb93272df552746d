//! `hapax journal`: prints the contents of a journal, for people.

use crate::args::Format;
use crate::error::CommandError;
use crate::printable;
use clap::Subcommand;
use hapax::seam::{Inspection, RunInfo, SegmentInfo};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum JournalCommand {
    /// Print what is in each file, without changing anything
    Inspect {
        /// The journal's directory
        path: PathBuf,
        /// Print each run of ids with its time, too
        #[arg(long)]
        runs: bool,
        /// Form of the answer
        #[arg(long, value_name = "FORMAT", default_value = "text")]
        format: Format,
    },
}

/// Runs the command.
pub fn run(command: JournalCommand) -> Result<(), CommandError> {
    let JournalCommand::Inspect { path, runs, format } = command;
    let inspection = hapax::seam::inspect(&path).map_err(hapax::Error::from)?;
    if inspection.segments.is_empty() && inspection.damage.is_empty() {
        let nothing = "there is no file of one in it (*.hapax), and none is known to be missing";
        return Err(CommandError::Io(format!("{}: it is no journal: {nothing}", path.display())));
    }
    if format == Format::Json {
        return printable::page(&printable::json_line(&json(&inspection, runs)));
    }
    let mut page = Vec::new();
    describe(&mut page, &inspection, runs).map_err(CommandError::output)?;
    printable::page(&String::from_utf8_lossy(&page))
}

fn describe(page: &mut impl Write, inspection: &Inspection, runs: bool) -> std::io::Result<()> {
    let mut all = [0; 3];
    for segment in &inspection.segments {
        let name = segment.path.file_name().unwrap_or_default().to_string_lossy();
        let counts = counts(segment);
        let created = date(u128::from(segment.created.as_secs()) * 1_000_000_000);
        let SegmentInfo { bytes, blocks, first_block, .. } = segment;
        write!(page, "{name}: {bytes} bytes, {blocks} blocks from {first_block}, begun {created}")?;
        let [accepted, forgotten, cleared] = counts;
        writeln!(page, ", ids {accepted} accepted, {forgotten} forgotten; {cleared} times cleared")?;
        let mut timed = segment.runs.iter().filter(|run| is_timed(run));
        if let Some(first) = timed.next() {
            let last = timed.next_back().unwrap_or(first);
            writeln!(page, "  times {} to {}", at(first), at(last))?;
        }
        for run in segment.runs.iter().filter(|_| runs) {
            let at = if is_timed(run) { at(run) } else { String::new() };
            writeln!(page, "  {at:<30}  {:>9} {}", run.ids, run.what)?;
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
    let ([accepted, forgotten, cleared], files) = (all, inspection.segments.len());
    writeln!(page, "{files} files: ids {accepted} accepted, {forgotten} forgotten; {cleared} times cleared")
}

/// Returns the contents as one object.
fn json(inspection: &Inspection, runs: bool) -> Value {
    let segment = |segment: &SegmentInfo| {
        let [accepted, forgotten, cleared] = counts(segment);
        let mut object = json!({
            "file": segment.path.file_name().unwrap_or_default().to_string_lossy(),
            "bytes": segment.bytes,
            "blocks": segment.blocks,
            "first_block": segment.first_block,
            "created_unix_seconds": segment.created.as_secs(),
            "accepted": accepted,
            "forgotten": forgotten,
            "cleared": cleared,
            "torn": segment.torn.as_ref().map(|torn| json!({
                "offset": torn.offset, "bytes": torn.bytes, "reason": torn.reason
            })),
        });
        if runs {
            let run = |run: &RunInfo| {
                let at = is_timed(run).then(|| run.at.as_nanos());
                json!({ "at_nanos": at, "ids": run.ids, "what": run.what })
            };
            object["runs"] = segment.runs.iter().map(run).collect();
        }
        object
    };
    json!({
        "files": inspection.segments.iter().map(segment).collect::<Value>(),
        "damaged": inspection.damage.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "ids_lost": inspection.ids_lost_before,
    })
}

/// Returns true if something happened at a time: positions have none, and how time is counted, too.
fn is_timed(run: &RunInfo) -> bool {
    !matches!(run.what, "position" | "time base")
}

/// Formats the time of a run. If an engine's clock does not count from 1970, it is as long after.
fn at(run: &RunInfo) -> String {
    date(u128::from(run.at.as_nanos()))
}

/// Formats nanoseconds since 1970 as RFC 3339 does, in UTC.
fn date(nanos: u128) -> String {
    let date = i128::try_from(nanos).ok().and_then(|nanos| jiff::Timestamp::from_nanosecond(nanos).ok());
    date.map_or_else(|| format!("{nanos} ns"), |date| date.to_string())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_in_utc_to_the_last_digit_there_is() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(1_795_375_590_000_000_000), "2026-11-22T19:26:30Z");
        assert_eq!(date(1_795_375_590_123_456_789), "2026-11-22T19:26:30.123456789Z");
        assert_eq!(date(u128::from(u64::MAX)), "2554-07-21T23:34:33.709551615Z");
    }
}
