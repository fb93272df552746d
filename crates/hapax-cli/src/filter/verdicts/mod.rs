//! Verdicts: each id has one, and its line is printed, or not, or refused.

pub(super) mod check;
pub(super) mod print;
pub(super) mod refusing;
pub(super) mod units;
