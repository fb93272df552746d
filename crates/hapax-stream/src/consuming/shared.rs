//! The parts of a consumer that all its runs share.

use crate::handling::handler::Shown;
use crate::options::{IdOf, Options};
use crate::telemetry::health::Standing;
use crate::telemetry::stats::Counts;
use hapax_store::{Store, TieredDedup};
use std::sync::Arc;

pub(crate) struct Shared<S: Store, M> {
    pub(crate) engine: TieredDedup<S>,
    pub(crate) id_of: IdOf<M>,
    /// A function that returns the key within which messages are handled in order.
    pub(crate) key_of: Option<IdOf<M>>,
    pub(crate) options: Options,
    pub(crate) counts: Arc<Counts>,
    pub(crate) standing: Arc<Standing>,
    pub(crate) shown: Arc<Shown<M>>,
}
