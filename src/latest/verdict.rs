//! The answer to a check of a version.

use crate::Refusal;

/// The answer to a check of an id's version.
///
/// ```
/// use hapax::VersionVerdict;
///
/// let latest = hapax::Latest::builder().build()?;
/// let what = match latest.check("user-17", 6) {
///     VersionVerdict::Newer => "store it".to_owned(),
///     VersionVerdict::Duplicate => "stored already".to_owned(),
///     VersionVerdict::Stale { known } => format!("too late: {known} was stored"),
///     VersionVerdict::Refused(refusal) => format!("its time cannot be right: {refusal:?}"),
/// };
/// assert_eq!(what, "store it");
/// # Ok::<(), hapax::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a version that is not handled now is not handled later: it is known from here on"]
pub enum VersionVerdict {
    /// The version is higher than any that is known of its id, or none is: it is known from now on.
    Newer,
    /// This very version is known.
    Duplicate,
    /// A higher version is known.
    Stale {
        /// The highest version that is known.
        known: u64,
    },
    /// The time that came with it cannot be right; nothing has changed. Only calls with a time get
    /// this.
    Refused(Refusal),
}

impl VersionVerdict {
    /// Returns true if the version is to be handled.
    #[inline]
    pub const fn is_newer(self) -> bool {
        matches!(self, VersionVerdict::Newer)
    }

    /// Returns true if the version, or a higher one, is known already.
    #[inline]
    pub const fn is_known(self) -> bool {
        matches!(self, VersionVerdict::Duplicate | VersionVerdict::Stale { .. })
    }
}
