//! The damage to a journal's files, as it is reported.

use std::fmt;
use std::path::PathBuf;

/// The number of ids that are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Exactly this many, as the numbers in the remaining blocks say.
    Exactly(u64),
    /// At most this many: the part that could not be read may have held less.
    AtMost(u64),
    /// At least this many: nothing says how much there was in the missing part.
    AtLeast(u64),
}

impl Loss {
    /// Returns the number.
    pub fn ids(self) -> u64 {
        match self {
            Loss::Exactly(ids) | Loss::AtMost(ids) | Loss::AtLeast(ids) => ids,
        }
    }

    /// Returns `true` if it is known that nothing is lost.
    pub fn is_nothing(self) -> bool {
        matches!(self, Loss::Exactly(0) | Loss::AtMost(0))
    }

    pub(super) fn and(self, other: Loss) -> Loss {
        let ids = self.ids().saturating_add(other.ids());
        match (self, other) {
            (Loss::AtLeast(_), _) | (_, Loss::AtLeast(_)) => Loss::AtLeast(ids),
            (Loss::AtMost(_), _) | (_, Loss::AtMost(_)) => Loss::AtMost(ids),
            _ => Loss::Exactly(ids),
        }
    }
}

impl Default for Loss {
    fn default() -> Self {
        Loss::Exactly(0)
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Exactly(ids) => write!(f, "{ids} ids"),
            Loss::AtMost(ids) => write!(f, "at most {ids} ids"),
            Loss::AtLeast(ids) => write!(f, "at least {ids} ids"),
        }
    }
}

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
