//! The bytes of a store, and the calls that the memory in front of it saves.

use super::{Demand, HistoryPlan, Plan};
use std::time::Duration;

// Bytes an id, as measured: docs/scaling-out.md, benches/README.md.
const REDIS: f64 = 145.0;
const POSTGRES: f64 = 122.0;
const FJALL: f64 = 39.0;

/// The bytes of a store that remembers as long as the history, or the window if there is none; and
/// the calls that the memory in front of it saves.
///
/// Bytes were measured with ids of 16 bytes (`docs/scaling-out.md`); a longer one adds its length,
/// up to 48 bytes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StorePlan {
    /// The time for which ids are remembered.
    pub retention: Duration,
    /// The number of those ids, at the mean rate.
    pub ids: f64,
    /// Memory in Redis, a mark with its expiry: 145 bytes an id.
    pub redis_bytes: f64,
    /// Disk in PostgreSQL, row and index: 122 bytes an id.
    pub postgres_bytes: f64,
    /// Disk in fjall, tables and log: 39 bytes an id.
    pub fjall_bytes: f64,
    /// Round trips a second that the window saves: one for each duplicate that it knows. Ids that
    /// it does not know are asked for in batches of up to 1,024.
    pub round_trips_saved_per_second: f64,
    /// Ids a second for which a store must be asked that other processes use, too: all that the
    /// window does not know.
    pub asked_per_second_shared: f64,
    /// Ids a second for which a store must be asked that is this process's own: new ids that the
    /// history takes for duplicates. (Duplicates from beyond the window come on top; their number
    /// is not known here.) All, if there is no history.
    pub asked_per_second_exclusive: f64,
}

impl StorePlan {
    pub(super) fn of(demand: &Demand, history: Option<&HistoryPlan>) -> Self {
        let fresh = demand.fresh_per_second();
        let retention = Plan::remembered(demand);
        let ids = fresh * retention.as_secs_f64();
        StorePlan {
            retention,
            ids,
            redis_bytes: ids * REDIS,
            postgres_bytes: ids * POSTGRES,
            fjall_bytes: ids * FJALL,
            round_trips_saved_per_second: demand.checks_per_second - fresh,
            asked_per_second_shared: fresh,
            asked_per_second_exclusive: history.map_or(fresh, |history| fresh * history.mean_false_positive_rate),
        }
    }
}
