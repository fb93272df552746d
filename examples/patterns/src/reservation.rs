//! A reservation row instead of a decrement: what an order takes is a row of its own.

use tokio_postgres::{Client, Error, IsolationLevel};

/// The tables of [`reserve`].
pub const TABLES: &str = "
    CREATE TABLE products (product_id bigint PRIMARY KEY, pieces bigint NOT NULL);
    CREATE TABLE reservations (
        order_id bigint, product_id bigint REFERENCES products, pieces bigint NOT NULL CHECK (pieces > 0),
        PRIMARY KEY (order_id, product_id))";

/// The result of [`reserve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// They are reserved, as of now or before.
    Yes,
    /// There are not as many left. Nothing has changed.
    SoldOut,
}

/// Reserves pieces of a product for an order.
///
/// # Errors
///
/// That of the database, also if there is no such product: nothing has changed, or the answer was
/// lost. Let the message come again.
pub async fn reserve(client: &mut Client, order: i64, product: i64, pieces: i64) -> Result<Reserved, Error> {
    // Each statement must see what others have committed before it.
    let tx = client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start().await?;
    // Orders of one product wait for each other here, so the last piece is sold once.
    let lock = "SELECT pieces FROM products WHERE product_id = $1 FOR UPDATE";
    let all: i64 = tx.query_one(lock, &[&product]).await?.get(0);
    let insert = "INSERT INTO reservations VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    if tx.execute(insert, &[&order, &product, &pieces]).await? == 1 {
        let sum = "SELECT sum(pieces)::bigint FROM reservations WHERE product_id = $1";
        let reserved: i64 = tx.query_one(sum, &[&product]).await?.get(0);
        if reserved > all {
            tx.rollback().await?;
            return Ok(Reserved::SoldOut);
        }
    }
    tx.commit().await?;
    Ok(Reserved::Yes)
}
