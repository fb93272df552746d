//! The treatment of one id with two contents.

/// The treatment of a message whose id is that of another one, by what the two say besides it.
///
/// ```
/// use hapax_message::OnMismatch;
///
/// assert_eq!(OnMismatch::default(), OnMismatch::DeadLetter);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum OnMismatch {
    /// It is put aside, unhandled: somebody sends ids twice.
    #[default]
    DeadLetter,
    /// It is handled like one whose id was not asked about: a repetition of it may be handled
    /// again.
    Handle,
    /// It is not handled, like a duplicate.
    Drop,
}
