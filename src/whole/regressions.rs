//! Sequences that have failed, as short as they could be made. None is ever taken away.

use super::config::{Config, HistoryConfig, Kind};
use super::op::{Damage, Op::*, Sequence};
use crate::rules::Rule;

/// What was wrong, the mend without which it is again, if that is one of the [mends](super::MENDS), and the sequence.
pub(super) type Regression = (&'static str, Option<Rule>, Sequence);

pub(super) fn all() -> Vec<Regression> {
    Vec::new()
}
