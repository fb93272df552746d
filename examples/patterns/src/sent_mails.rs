//! A record of sent mails, and its gap: who dies between the mail and the note of it leaves a
//! doubt, which the caller decides.

use hapax_store::{Store, StoreError, TieredDedup};
use hapax_stream::{Consumer, Delivery, Effect, OnTakeover};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio_postgres::{Client, Error};

/// A mail to be sent.
pub struct Mail {
    /// The `Message-ID` that it gets.
    pub id: String,
}

/// A folder of sent mails that can be searched.
pub trait SentFolder: Send + Sync + 'static {
    /// Returns true if the mail is there.
    fn has(&self, message_id: &str) -> impl Future<Output = Result<bool, MailError>> + Send;
}

/// Returns a consumer of mails that looks into a folder before it sends one again whose sender
/// died.
///
/// # Errors
///
/// Those of the engine's options.
pub fn consumer<S: Store>(engine: TieredDedup<S>, sent: Arc<impl SentFolder>) -> Result<Consumer<S, Mail>, StoreError> {
    Consumer::builder("mails", engine, |mail: &Mail| Some(mail.id.clone()))
        .on_takeover(OnTakeover::ask(move |mail| probe(Arc::clone(&sent), mail)))
        .build()
}

async fn probe(sent: Arc<impl SentFolder>, mail: Delivery<Mail>) -> Effect {
    match sent.has(&mail.id).await {
        Ok(true) => Effect::There,
        Ok(false) => Effect::Missing,
        Err(_) => Effect::Unknown,
    }
}

/// The table of [`send_once`].
pub const TABLE: &str = "CREATE TABLE sent_mails (
    mail_key text PRIMARY KEY, attempts bigint NOT NULL, begun_at timestamptz NOT NULL, sent_at timestamptz)";

/// The time after which a sender that has not noted anything is taken for dead: longer than a
/// mailer may take.
pub const LEASE: Duration = Duration::from_secs(300);

/// A service that sends mails.
pub trait Mailer {
    /// Sends a mail, with this `Message-ID`, by which the receiver's side may recognize a copy.
    /// Ends within less than [`LEASE`].
    fn send(&self, message_id: &str) -> impl Future<Output = Result<(), MailError>> + Send;
}

/// A failure of a [`Mailer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailError {
    /// Certainly not sent: no connection, or a refusal.
    NotSent,
    /// Perhaps sent: the answer was lost.
    Unknown,
}

/// The choice about a mail that a sender before may have sent, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InDoubt {
    /// Sends it: it may be sent twice.
    Send,
    /// Does not send it: it may never be sent.
    Leave,
}

/// The result of [`send_once`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is sent, as of now or before.
    Yes,
    /// A sender before may have sent it, and this one did not: somebody should look.
    Unknown,
    /// Another sender is at it, or has died less than a [`LEASE`] ago. Let the message come again.
    InProgress,
    /// It was certainly not sent. Let the message come again.
    No,
}

/// Sends a mail, unless that was done before.
///
/// # Errors
///
/// That of the database: the mail may have been sent. Let the message come again.
pub async fn send_once(
    client: &Client,
    mailer: &impl Mailer,
    mail_key: &str,
    in_doubt: InDoubt,
    now: SystemTime,
) -> Result<Sent, Error> {
    let claim = "INSERT INTO sent_mails (mail_key, attempts, begun_at) VALUES ($1, 1, $2)
                 ON CONFLICT (mail_key) DO UPDATE SET attempts = sent_mails.attempts + 1, begun_at = $2
                 WHERE sent_mails.sent_at IS NULL AND sent_mails.begun_at <= $3
                 RETURNING attempts";
    let Some(claimed) = client.query_opt(claim, &[&mail_key, &now, &(now - LEASE)]).await? else {
        let is_sent = "SELECT 1 FROM sent_mails WHERE mail_key = $1 AND sent_at IS NOT NULL";
        let row = client.query_opt(is_sent, &[&mail_key]).await?;
        return Ok(if row.is_some() { Sent::Yes } else { Sent::InProgress });
    };
    let attempt: i64 = claimed.get(0);
    if attempt > 1 && in_doubt == InDoubt::Leave {
        return Ok(Sent::Unknown);
    }
    match mailer.send(mail_key).await {
        // Who dies here has sent it, and nobody knows.
        Ok(()) => {
            let note = "UPDATE sent_mails SET sent_at = $3 WHERE mail_key = $1 AND attempts = $2";
            client.execute(note, &[&mail_key, &attempt, &now]).await?;
            Ok(Sent::Yes)
        }
        Err(MailError::NotSent) => {
            let give_up = "DELETE FROM sent_mails WHERE mail_key = $1 AND attempts = $2";
            client.execute(give_up, &[&mail_key, &attempt]).await?;
            Ok(Sent::No)
        }
        Err(MailError::Unknown) => Ok(Sent::InProgress),
    }
}
