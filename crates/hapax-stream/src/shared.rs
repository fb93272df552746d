//! The parts of a consumer that all its runs share.

use super::handler::Shown;
use super::options::{IdOf, Options};
use super::standing::Standing;
use super::stats::Counts;
use hapax_store::{Store, TieredDedup};
use std::sync::Arc;

pub(super) struct Shared<S: Store, M> {
    pub(super) engine: TieredDedup<S>,
    pub(super) id_of: IdOf<M>,
    /// A function that returns the key within which messages are handled in order.
    pub(super) key_of: Option<IdOf<M>>,
    pub(super) options: Options,
    pub(super) counts: Arc<Counts>,
    pub(super) standing: Arc<Standing>,
    pub(super) shown: Arc<Shown<M>>,
}
