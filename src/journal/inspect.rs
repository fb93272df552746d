//! What is in a journal, for people and tests.

use super::JournalError;
use super::format::Kind;
use super::recovery::{Torn, find, read_segment};
use crate::Timestamp;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is in a journal's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// Its files, in order.
    pub segments: Vec<SegmentInfo>,
}

/// What is in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentInfo {
    /// The file.
    pub path: PathBuf,
    /// When it was begun, since the Unix epoch.
    pub created: Duration,
    /// The number of its first block.
    pub first_block: u64,
    /// How many bytes are valid.
    pub bytes: u64,
    /// How many blocks are.
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
    /// When, by the engine's clock.
    pub at: Timestamp,
    /// What: `accepted`, `forgotten`, `cleared`, `position` or `time`.
    pub what: &'static str,
    /// How many.
    pub ids: u64,
}

/// Reads a journal without changing it; also while an engine has it open, up to where that has written.
///
/// ```
/// # let directory = std::env::temp_dir().join(format!("hapax-doc-inspect-{}", std::process::id()));
/// use hapax::{Dedup, JournalOptions};
///
/// let dedup = Dedup::builder().journal(&directory, JournalOptions::new()).build()?;
/// dedup.check("a");
/// dedup.flush()?;
/// let inspection = hapax::inspect(&directory)?;
/// assert_eq!(inspection.segments[0].runs[0].ids, 1);
/// # drop(dedup);
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`JournalError::NotOurs`] and [`JournalError::Io`]. What is merely torn is no error.
pub fn inspect(directory: impl AsRef<Path>) -> Result<Inspection, JournalError> {
    let mut inspection = Inspection::default();
    for (path, header) in find(directory.as_ref(), |_, _| Ok(()))? {
        let mut runs: Vec<RunInfo> = Vec::new();
        let contents = read_segment(&path, &header, &mut |run| {
            let what = match run.kind {
                Kind::Accepted => "accepted",
                Kind::Forgotten => "forgotten",
                Kind::Cleared => "cleared",
                Kind::Position => "position",
                Kind::Time => "time",
            };
            match runs.last_mut() {
                Some(last) if (last.at, last.what) == (run.at.time, what) => last.ids += run.len(),
                _ => runs.push(RunInfo { at: run.at.time, what, ids: run.len() }),
            }
        })?;
        inspection.segments.push(SegmentInfo {
            path,
            created: Duration::from_nanos(header.created),
            first_block: header.number,
            bytes: contents.bytes,
            blocks: contents.blocks,
            runs,
            torn: contents.torn,
        });
    }
    Ok(inspection)
}
