//! The damage to a journal's files, as it is reported.

use crate::error::Loss;
use std::fmt;
use std::path::PathBuf;

/// A defect of a journal's files, other than what a crash leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Defect {
    /// The file; a missing one has the name that it should have.
    pub path: PathBuf,
    /// The offset at which the defect begins.
    pub offset: u64,
    /// A description of the defect.
    pub what: &'static str,
    /// True if a whole file is missing there.
    pub file_is_missing: bool,
    /// The number of blocks that are lost by the defect.
    pub blocks_lost: u64,
    /// The number of ids that are lost by the defect.
    pub ids_lost: Loss,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Defect { path, offset, what, blocks_lost, ids_lost, .. } = self;
        write!(f, "{}: {what} at offset {offset}; {blocks_lost} blocks, {ids_lost} lost", path.display())
    }
}

/// The sum of all defects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) files: u64,
    pub(super) blocks: u64,
    pub(super) ids: Loss,
}

impl Sum {
    pub(super) fn of(defects: &[Defect]) -> Self {
        defects.iter().fold(Sum::default(), |sum, defect| Sum {
            files: sum.files + u64::from(defect.file_is_missing),
            blocks: sum.blocks + defect.blocks_lost,
            ids: sum.ids.and(defect.ids_lost),
        })
    }
}

/// The loss of durable data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) files: u64,
    pub(super) ids: u64,
}
