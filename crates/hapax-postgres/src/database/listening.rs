//! A connection that receives notifications of new messages, and is made again whenever it is lost.

use super::scarce::{AGAIN, Scarce};
use crate::PostgresOptions;
use crate::database::GRACE;
use crate::errors::{failed, unanswered_in};
use hapax::seam::random;
use hapax_store::StoreError;
use hapax_store::back_off::BackOff;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client};

/// The waits before connecting again. Nothing is lost meanwhile: a listener polls, too.
const DELAYS: BackOff = BackOff { first: Duration::from_millis(50), max: Duration::from_secs(10) };
/// The time of silence after which a connection is asked whether it is there.
pub(super) const SILENCE: Duration = Duration::from_secs(30);

/// A task that listens. It ends when this is dropped.
pub(crate) struct Listening {
    /// Notified when there may be something new.
    pub(crate) woken: Arc<Notify>,
    task: Option<JoinHandle<()>>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// A source that can connect, and listen.
pub(super) trait Listens: Send + 'static {
    /// Listens to a channel until the connection is lost. It notifies as soon as it listens, since
    /// a message may have come before, and at each notification.
    fn listen(&self, channel: &str, woken: &Notify) -> impl Future<Output = Result<(), StoreError>> + Send;
}

impl Listening {
    pub(super) fn to_nobody() -> Self {
        Listening { woken: Arc::default(), task: None }
    }

    pub(super) fn to(source: impl Listens, channel: String) -> Self {
        let woken = Arc::<Notify>::default();
        let task = tokio::spawn(listen(source, channel, Arc::clone(&woken)));
        Listening { woken, task: Some(task) }
    }
}

async fn listen(source: impl Listens, channel: String, woken: Arc<Notify>) {
    let mut failures = 0_u32;
    loop {
        // Claims find out, and report, what is wrong with the server or the options.
        failures = match source.listen(&channel, &woken).await {
            Ok(()) => 1,
            Err(_) => failures.saturating_add(1),
        };
        tokio::time::sleep(DELAYS.after(failures, random::any())).await;
    }
}

/// Listens by connections of our own.
pub(super) struct Own(pub(super) Arc<PostgresOptions>, pub(super) Arc<Scarce>);

impl Listens for Own {
    async fn listen(&self, channel: &str, woken: &Notify) -> Result<(), StoreError> {
        tokio::select! {
            ended = self.hear(channel, woken) => ended,
            () = self.1.listener.notified() => {
                // The connection is closed: those that claim and settle need it. Polling goes on.
                tokio::time::sleep(AGAIN).await;
                Ok(())
            }
        }
    }
}

impl Own {
    async fn hear(&self, channel: &str, woken: &Notify) -> Result<(), StoreError> {
        let (config, limit) = (&self.0.config, self.0.timeout + GRACE);
        let connected = config.connect(self.0.connector()?).await;
        let (client, mut connection) = connected.map_err(|error| failed("connect", error))?;
        // This task ends with the connection.
        let told = async {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if matches!(message, AsyncMessage::Notification(_)) {
                    woken.notify_one();
                }
            }
            Ok(())
        };
        let asked = async {
            said(&client, &format!("LISTEN {channel}"), limit).await?;
            woken.notify_one();
            loop {
                tokio::time::sleep(SILENCE).await;
                said(&client, "", limit).await?;
            }
        };
        tokio::select! {
            ended = told => ended,
            // A connection that could not listen is a failure; one that did and was lost is not.
            ended = asked => ended,
        }
    }
}

async fn said(client: &Client, sql: &str, limit: Duration) -> Result<(), StoreError> {
    match tokio::time::timeout(limit, client.batch_execute(sql)).await {
        Ok(said) => said.map_err(|error| failed("listen", error)),
        Err(_) => Err(unanswered_in(limit, "listen")),
    }
}
