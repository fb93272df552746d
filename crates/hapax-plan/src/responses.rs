//! Plans the responses that a layer for idempotency keys keeps in its store.

use hapax::seam::sizing::{HUNDRED_YEARS, InvalidOption, check};
use std::time::Duration;

/// The bytes of `hapax-http`'s record besides body, names and values: 28, and 6 for each header.
const RECORD: f64 = 28.0;
const HEADER: f64 = 6.0;
/// The number of headers that a response keeps, as a JSON API has them.
const HEADERS: f64 = 5.0;

/// The bytes that `BudgetStore` counts for a record besides the response.
const BUDGET: f64 = 896.0;

/// Redis' value begins with state, token and fingerprint.
const REDIS_VALUE: f64 = 34.0;
/// The key, the expiry, and the tables of both, as measured with a mark (`docs/scaling-out.md`).
const REDIS_KEY: f64 = 145.0;

/// SQLite's row: the key (a hash of 48 bytes), the time, the head of the value, and lengths.
const SQLITE_ROW: f64 = 95.0;
/// The bytes of a page, of which a row's rest takes whole ones; and the most of a row on a page
/// with others.
const PAGE: f64 = 4_096.0;
const LOCAL_MAX: f64 = 1_002.0;
const LOCAL_MIN: f64 = 489.0;
/// The share of a page that is filled when keys come in any order, as measured; and the entry in
/// the index of times, which come in order.
const FILLED: f64 = 0.8;
const SQLITE_INDEX: f64 = 65.0;

/// The responses of a [`Demand`](crate::Demand).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Responses {
    pub(super) per_second: f64,
    pub(super) bytes: usize,
    pub(super) retention: Duration,
}

impl Responses {
    pub(super) fn validate(&self) -> Result<(), InvalidOption> {
        let Responses { per_second, bytes, retention } = *self;
        let is_rate = per_second > 0.0 && per_second <= 1e12;
        check(is_rate, "responses", format_args!("{per_second}"), "a rate above 0 and up to 10^12")?;
        check(bytes <= 1 << 40, "response_bytes", format_args!("{bytes}"), "at most 2^40 bytes")?;
        let is_time = !retention.is_zero() && retention <= HUNDRED_YEARS;
        check(is_time, "response_retention", retention, "a duration of up to 100 years, not none")
    }
}

/// The room that responses take in a store. Those of PostgreSQL are not predicted: it compresses
/// what is longer than 2 kB.
///
/// The record and `BudgetStore` are computed; Redis and SQLite by how they lay out a value, with a
/// response of a JSON API: five headers are kept. Tests compare that with what `hapax-http` stores:
/// within 10 %.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ResponsesPlan {
    /// Responses a second, on average.
    pub per_second: f64,
    /// The time for which they are kept.
    pub retention: Duration,
    /// The number of those that are kept, at the mean rate.
    pub responses: f64,
    /// The bytes of a record, on average: the response, and what tells its parts apart.
    pub record_bytes: f64,
    /// Memory that `BudgetStore` counts: a budget of less forgets responses early.
    pub budget_bytes: f64,
    /// Memory in Redis.
    pub redis_bytes: f64,
    /// Disk in SQLite.
    pub sqlite_bytes: f64,
}

impl ResponsesPlan {
    pub(super) fn of(responses: &Responses) -> Self {
        let count = responses.per_second * responses.retention.as_secs_f64();
        let record = RECORD + HEADERS * HEADER + responses.bytes as f64;
        ResponsesPlan {
            per_second: responses.per_second,
            retention: responses.retention,
            responses: count,
            record_bytes: record,
            budget_bytes: count * (BUDGET + record),
            redis_bytes: count * (REDIS_KEY + allocated(REDIS_VALUE + record)),
            sqlite_bytes: count * on_pages(SQLITE_ROW + record),
        }
    }
}

/// Returns the bytes that jemalloc takes for an allocation: four sizes for each doubling.
fn allocated(bytes: f64) -> f64 {
    let step = (bytes.log2().ceil() - 3.0).exp2().max(16.0);
    (bytes / step).ceil() * step
}

/// Returns the bytes of SQLite's pages that a row takes, in a table without row ids: what is too
/// long for a page with others goes to pages of its own (SQLite, "Database File Format", 1.6).
fn on_pages(row: f64) -> f64 {
    if row <= LOCAL_MAX {
        return row / FILLED + SQLITE_INDEX;
    }
    let own = PAGE - 4.0;
    let rest = LOCAL_MIN + (row - LOCAL_MIN) % own;
    let local = if rest <= LOCAL_MAX { rest } else { LOCAL_MIN };
    local / FILLED + SQLITE_INDEX + ((row - local) / own).ceil() * PAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_have_four_sizes_for_each_doubling() {
        let sizes = [1.0, 16.0, 129.0, 160.0, 161.0, 1_024.0, 1_025.0, 2_100.0, 5_000.0].map(allocated);
        assert_eq!(sizes, [16.0, 16.0, 160.0, 160.0, 192.0, 1_024.0, 1_280.0, 2_560.0, 5_120.0]);
    }

    #[test]
    fn a_long_row_takes_pages_of_its_own() {
        let pages = |row: f64| (on_pages(row) / PAGE).floor();
        assert_eq!([1_002.0, 1_003.0, 4_581.0, 5_094.0, 5_095.0, 9_300.0].map(pages), [0.0, 1.0, 1.0, 1.0, 2.0, 3.0]);
    }
}
