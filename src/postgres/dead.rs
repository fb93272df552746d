//! Messages that were given up: they are kept until somebody decides.

use super::Message;
use super::errors::failed;
use super::queue::{column, message};
use super::seen::time;
use super::statements;
use super::tables::{Queue, Tables};
use crate::store::StoreError;
use std::time::SystemTime;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

/// A message that was given up, after as many attempts as [`Retry`](super::Retry) allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Which one: for `requeue` and `discard`, and where to go on with a list.
    pub position: i64,
    /// What it was.
    pub message: Message,
    /// What the last attempt failed with.
    pub error: String,
    /// When it was given up, by the server's clock.
    pub died_at: SystemTime,
}

pub(super) async fn list(
    client: &Client,
    tables: &Tables,
    queue: Queue,
    name: Option<&str>,
    behind: i64,
    limit: u16,
) -> Result<Vec<DeadLetter>, StoreError> {
    let doing = "list dead letters";
    let limit = i64::from(limit);
    let sql = statements::dead(tables, queue);
    let rows = client
        .query_typed(&sql, &[(&name, Type::TEXT), (&behind, Type::INT8), (&limit, Type::INT8)])
        .await
        .map_err(|error| failed(doing, error))?;
    let letter = |row| {
        Ok(DeadLetter {
            position: column(row, "position")?,
            message: message(row)?,
            error: column::<Option<String>>(row, "error")?.unwrap_or_default(),
            died_at: time(column(row, "died_at")?),
        })
    };
    rows.iter().map(letter).collect()
}

pub(super) async fn requeue(client: &Client, tables: &Tables, queue: Queue, position: i64) -> Result<bool, StoreError> {
    is_changed(client, "requeue a dead letter", &statements::requeue(tables, queue), position).await
}

pub(super) async fn discard(client: &Client, tables: &Tables, queue: Queue, position: i64) -> Result<bool, StoreError> {
    is_changed(client, "discard a dead letter", &statements::discard(tables, queue), position).await
}

async fn is_changed(client: &Client, doing: &str, sql: &str, position: i64) -> Result<bool, StoreError> {
    let rows = client.query_typed(sql, &[(&position, Type::INT8)]).await.map_err(|error| failed(doing, error))?;
    Ok(!rows.is_empty())
}
