//! Calls to the broker, each with the longest time that it may take.

use crate::RabbitMqError;
use lapin::options::ConfirmSelectOptions;
use lapin::{Channel, Connection};
use std::time::Duration;

/// The time that a call may take.
const CALL: Duration = Duration::from_secs(10);

pub(crate) async fn in_time<T>(
    doing: &'static str,
    call: impl Future<Output = lapin::Result<T>>,
) -> Result<T, RabbitMqError> {
    within(CALL, doing, call).await
}

pub(crate) async fn within<T>(
    limit: Duration,
    doing: &'static str,
    call: impl Future<Output = lapin::Result<T>>,
) -> Result<T, RabbitMqError> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer.map_err(|cause| RabbitMqError::Call { doing, cause }),
        Err(_) => Err(RabbitMqError::TimedOut { doing, after: limit }),
    }
}

pub(crate) async fn open_channel(connection: &Connection) -> Result<Channel, RabbitMqError> {
    let status = connection.status();
    if !(status.connected() || status.connecting() || status.reconnecting()) {
        return Err(RabbitMqError::ConnectionClosed);
    }
    in_time("opening a channel", connection.create_channel()).await
}

/// Opens a channel on which the broker confirms what is published.
pub(crate) async fn open_publishing(connection: &Connection) -> Result<Channel, RabbitMqError> {
    let channel = open_channel(connection).await?;
    in_time("asking for confirmations", channel.confirm_select(ConfirmSelectOptions::default())).await?;
    Ok(channel)
}
