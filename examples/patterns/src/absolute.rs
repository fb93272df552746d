//! An absolute value instead of an increment: "there are 7" instead of "3 fewer".
//!
//! The producer must know the value. Its gap is order, as of an [`upsert`](crate::upsert): a
//! message that comes again after a later one sets the value back.

use tokio_postgres::{Error, GenericClient};

/// The table of [`stock_is`].
pub const TABLE: &str = "CREATE TABLE stock (product_id bigint PRIMARY KEY, pieces bigint NOT NULL)";

/// Sets the number of pieces of a product that are in stock. Returns false if there is no such
/// product.
///
/// # Errors
///
/// That of the database: nothing has changed, or the answer was lost. Let the message come again.
pub async fn stock_is(client: &impl GenericClient, product: i64, pieces: i64) -> Result<bool, Error> {
    let set = "UPDATE stock SET pieces = $2 WHERE product_id = $1"; // not: pieces = pieces - $2
    Ok(client.execute(set, &[&product, &pieces]).await? == 1)
}
