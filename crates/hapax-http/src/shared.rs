//! The state that a layer, its clones and their services share.

use super::options::{Options, ScopeFn};
use super::stats::Counters;
use crate::limits::durations::TypicalDurations;
use crate::limits::permits::Permits;
use crate::limits::reservations::Reservations;
use hapax_store::{Store, TieredDedup};
use std::sync::Arc;
use tokio::runtime::Handle;

/// The state that all clones of a layer and its services share.
pub(super) struct Shared<S: Store> {
    pub(super) dedup: TieredDedup<S>,
    pub(super) scope: Option<ScopeFn>,
    pub(super) options: Options,
    pub(super) permits: Arc<Permits>,
    /// `None` if scopes may store any number.
    pub(super) reservations: Option<Arc<Reservations>>,
    pub(super) durations: TypicalDurations,
    pub(super) counters: Counters,
    pub(super) runtime: Handle,
}
