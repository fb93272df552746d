//! Upsert: the message tells a state, and the row takes it, however often it comes.
//!
//! Its gap is order: a message that comes again after a later one sets the state back. Where that
//! can happen, see [`last_event`](crate::last_event).

use tokio_postgres::{Error, GenericClient};

/// The table of [`order_is`].
pub const TABLE: &str = "CREATE TABLE order_states (order_id bigint PRIMARY KEY, state text NOT NULL)";

/// Sets the state of an order, which may be new.
///
/// # Errors
///
/// That of the database: nothing has changed, or the answer was lost. Let the message come again.
pub async fn order_is(client: &impl GenericClient, order: i64, state: &str) -> Result<(), Error> {
    let upsert = "INSERT INTO order_states (order_id, state) VALUES ($1, $2)
                  ON CONFLICT (order_id) DO UPDATE SET state = excluded.state";
    client.execute(upsert, &[&order, &state]).await?;
    Ok(())
}
