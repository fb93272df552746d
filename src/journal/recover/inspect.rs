//! The inspection of a journal, for people and tests.

use super::listing::list;
use super::recovery::Torn;
use super::survey::{Surveyed, survey};
use super::verdict::judge;
use crate::Timestamp;
use crate::error::JournalError;
use crate::journal::damage::Defect;
use crate::journal::encoding::format::HEADER_BYTES;
use crate::journal::encoding::payload::Kind;
use crate::journal::files::disk::System;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The contents of a journal's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// Its files, in order.
    pub segments: Vec<SegmentInfo>,
    /// The damage that no crash leaves: an engine refuses to open it, unless it is told to
    /// [keep](crate::Damage::Keep) the blocks that are whole.
    pub damage: Vec<Defect>,
    /// The number of ids that were lost by known damage, for which there are stand-ins.
    pub ids_lost_before: u64,
}

/// The contents of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentInfo {
    /// The file.
    pub path: PathBuf,
    /// The time when it was begun, since the Unix epoch; 0 if its header is destroyed.
    pub created: Duration,
    /// The number of its first block.
    pub first_block: u64,
    /// The number of valid bytes.
    pub bytes: u64,
    /// The number of valid blocks.
    pub blocks: u64,
    /// Its runs of ids.
    pub runs: Vec<RunInfo>,
    /// Its end, if that is not valid.
    pub torn: Option<Torn>,
}

/// Ids to which the same happened at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunInfo {
    /// The time, by the engine's clock.
    pub at: Timestamp,
    /// The event: `accepted`, `forgotten`, `cleared`, `position`, `time`, `time base` or
    /// `fingerprinted` (accepted, with a fingerprint).
    pub what: &'static str,
    /// The number of ids.
    pub ids: u64,
}

/// Reads a journal without changing it; also while an engine has it open, up to where the engine
/// has written.
///
/// ```
/// # let directory = std::env::temp_dir().join(format!("hapax-doc-inspect-{}", std::process::id()));
/// use hapax::{Dedup, JournalOptions};
///
/// let dedup = Dedup::builder().journal(&directory, JournalOptions::new()).build()?;
/// dedup.check("a");
/// dedup.journal()?.flush()?;
/// let inspection = hapax::seam::inspect(&directory)?;
/// assert_eq!(inspection.segments[0].runs[0].ids, 1);
/// # drop(dedup);
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`JournalError::NotOurs`] and [`JournalError::Io`]. Damaged or torn data is no error.
pub fn inspect(directory: impl AsRef<Path>) -> Result<Inspection, JournalError> {
    let directory = directory.as_ref();
    let disk = System::to_look_at().map_err(JournalError::io("watch for forks of", directory))?;
    let listing = list(&disk, directory)?;
    let mut runs_of: Vec<Vec<RunInfo>> = vec![Vec::new(); listing.files.len()];
    let survey = survey(&disk, &listing, |file, run| {
        let what = match run.kind {
            Kind::Accepted => "accepted",
            Kind::Forgotten => "forgotten",
            Kind::Cleared => "cleared",
            Kind::Position => "position",
            Kind::Time => "time",
            Kind::TimeBase => "time base",
            Kind::Fingerprinted => "fingerprinted",
        };
        let runs = &mut runs_of[file];
        match runs.last_mut() {
            Some(last) if (last.at, last.what) == (run.at.time, what) => last.ids += run.len(),
            _ => runs.push(RunInfo { at: run.at.time, what, ids: run.len() }),
        }
    })?;
    let verdict = judge(&survey, &listing.mark, directory);
    let mut torn = verdict.torn().map(|torn| Torn { truncated: false, ..torn });
    let mut segments: Vec<_> = survey.files.iter().zip(runs_of).map(|(file, runs)| segment(file, runs)).collect();
    if let Some(last) = segments.last_mut() {
        last.torn = torn.take();
    }
    Ok(Inspection { segments, damage: verdict.defects, ids_lost_before: verdict.ids_lost_before })
}

fn segment(file: &Surveyed, runs: Vec<RunInfo>) -> SegmentInfo {
    let created = file.listed.header.map_or(0, |header| header.created);
    SegmentInfo {
        path: file.listed.path.clone(),
        created: Duration::from_nanos(created),
        first_block: file.listed.number,
        bytes: HEADER_BYTES as u64 + file.stretches().map(|stretch| stretch.bytes).sum::<u64>(),
        blocks: file.stretches().map(|stretch| stretch.blocks).sum(),
        runs,
        torn: None,
    }
}
