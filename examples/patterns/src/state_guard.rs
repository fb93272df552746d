//! State guard: a change says from which states it goes, so that a late copy finds none of them.
//!
//! What was done once stays as it was: the time of the first shipping survives the second.

use std::time::SystemTime;
use tokio_postgres::{Error, GenericClient};

/// The table of [`ship`].
pub const TABLE: &str = "CREATE TABLE orders (
    order_id bigint PRIMARY KEY, state text NOT NULL, shipped_at timestamptz)";

/// The result of [`ship`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shipped {
    /// It is shipped, as of now or before.
    Yes,
    /// It was shipped, and is in a later state: the message is an old copy.
    Before,
    /// It may not be shipped: it is not paid, or not known.
    NotPaid,
}

/// Ships an order that is paid.
///
/// # Errors
///
/// That of the database: nothing has changed, or the answer was lost. Let the message come again.
pub async fn ship(client: &impl GenericClient, order: i64, now: SystemTime) -> Result<Shipped, Error> {
    let ship = "UPDATE orders SET state = 'shipped', shipped_at = COALESCE(shipped_at, $2)
                WHERE order_id = $1 AND state IN ('paid', 'shipped')";
    if client.execute(ship, &[&order, &now]).await? == 1 {
        return Ok(Shipped::Yes);
    }
    let was_shipped = "SELECT 1 FROM orders WHERE order_id = $1 AND shipped_at IS NOT NULL";
    let row = client.query_opt(was_shipped, &[&order]).await?;
    Ok(if row.is_some() { Shipped::Before } else { Shipped::NotPaid })
}
