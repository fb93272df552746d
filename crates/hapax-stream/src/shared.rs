//! The parts of a consumer that all its runs share.

use super::options::{IdOf, Options};
use super::stats::Counts;
use hapax_store::{Store, TieredDedup};
use std::sync::Arc;

pub(super) struct Shared<S: Store, M> {
    pub(super) engine: TieredDedup<S>,
    pub(super) id_of: IdOf<M>,
    pub(super) options: Options,
    pub(super) counts: Arc<Counts>,
}
