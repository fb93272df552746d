//! Turns ids of files into a trace that all processes read.

use super::Surroundings;
use super::cases::Traced;
use super::options::BenchArgs;
use crate::args::LineArgs;
use crate::error::CommandError;
use crate::printable::tell;
use crate::records;
use hapax_bench::measure::workload::Trace;
use hapax_bench::measure::{Row, Shape, Workload};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// The number of ids that all strategies finish within a minute.
const QUICK_EVENTS: u64 = 50_000;

/// The part of the memory that a trace may take. Each measuring process reads the trace, and holds
/// its ids three times for a moment: in the file, by time, and by thread.
const SHARE_OF_MEMORY: u64 = 8;

/// The bytes of an event besides its id.
const EVENT_BYTES: u64 = 64;

/// Reads the files, if there are any, and leaves a trace in the directory.
pub fn trace(args: &BenchArgs, surroundings: &Surroundings) -> Result<Option<Traced>, CommandError> {
    let files = &args.workload.files;
    check(args)?;
    if files.is_empty() {
        return Ok(None);
    }
    let mut trace = Trace::new(args.window);
    let (mut events, mut bytes) = (0_u64, 0_u64);
    let memory_bytes = hapax::tier::available_bytes().map_or(0, |bytes| bytes as u64);
    records::read(&args.lines, &args.bad, files, |id, at| {
        if surroundings.is_interrupted() {
            return Err(CommandError::Interrupted);
        }
        events += 1;
        bytes += id.len() as u64 + EVENT_BYTES;
        fits(bytes, memory_bytes)?;
        trace.push(id, at).map_err(|error| CommandError::BadInput(format!("id {events}: {error}")))?;
        Ok(if args.quick && events == QUICK_EVENTS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    if events == 0 {
        return Err(CommandError::BadInput("there is no id to be checked".to_string()));
    }
    let path = surroundings.directory.path().join("trace");
    trace.write(&path).map_err(|error| CommandError::Io(error.to_string()))?;
    let (live, events) = (trace.live(), trace.events());
    let first = if args.quick && events as u64 == QUICK_EVENTS { " (with --quick, no more)" } else { "" };
    let within = if args.window.is_some() { "within a window" } else { "in all; without --window none is forgotten" };
    tell(format_args!("{events} ids{first}, at most {live} different ones {within}"));
    // The last two mean nothing for a trace.
    let workload = Workload { shape: Shape::Trace { path }, duplicates: 0.0, distance_windows: 0.0 };
    Ok(Some(Traced { workload, live }))
}

/// Refuses more ids than there is memory for. (Where the system does not tell its memory, it will
/// refuse by itself.)
fn fits(bytes: u64, memory_bytes: u64) -> Result<(), CommandError> {
    if memory_bytes == 0 || bytes <= memory_bytes / SHARE_OF_MEMORY {
        return Ok(());
    }
    let most = memory_bytes / SHARE_OF_MEMORY;
    Err(CommandError::BadInput(format!(
        "the ids take more than {most} bytes, an {SHARE_OF_MEMORY}th of the memory that is free; --quick takes the first {QUICK_EVENTS}"
    )))
}

fn check(args: &BenchArgs) -> Result<(), CommandError> {
    let LineArgs { id, time, .. } = &args.lines;
    let has_id = !id.field.is_empty() || !id.column.is_empty() || id.json.is_some() || id.regex.is_some();
    let has_time =
        [time.time_field.is_some(), time.time_column.is_some(), time.time_json.is_some(), time.time_regex.is_some()];
    let has_time = has_time.contains(&true);
    match args.workload.files.is_empty() {
        true if has_id || args.window.is_some() => Err(CommandError::Usage(
            "where ids and times are, and --window, is said of files: there is none".to_string(),
        )),
        false if args.window.is_some() && !has_time => Err(CommandError::Usage(
            "--window: lines have to say when each came (--time-column and the like)".to_string(),
        )),
        _ => Ok(()),
    }
}

/// Names the trace after the files that it was made of, in a report: the trace's own file is gone
/// by then.
pub fn rename(rows: &mut [Row], args: &BenchArgs) {
    let names: Vec<String> = args.workload.files.iter().map(|file| file.display().to_string()).collect();
    let path = PathBuf::from(names.join(", "));
    for row in rows {
        if let Shape::Trace { path: of } = &mut row.setting.workload.shape {
            of.clone_from(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_ids_than_fit_are_refused() {
        assert!(fits(1_000, 8_000).is_ok() && fits(u64::MAX, 0).is_ok());
        let refused = fits(1_001, 8_000).unwrap_err();
        assert!(refused.message().is_some_and(|text| text.contains("more than 1000 bytes")), "{refused:?}");
    }
}
