//! The parts of a consumer of a log that all its runs share.

use super::marks::Marks;
use super::options::{IdOf, Options};
use super::stats::Counts;
use std::sync::Arc;

pub(super) struct LogShared<M, K> {
    pub(super) memory: K,
    pub(super) marks: Arc<Marks>,
    pub(super) id_of: IdOf<M>,
    pub(super) options: Options,
    pub(super) counts: Arc<Counts>,
}
