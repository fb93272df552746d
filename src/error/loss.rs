//! The part of a journal that is lost.

use std::fmt;

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

    pub(crate) fn and(self, other: Loss) -> Loss {
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
