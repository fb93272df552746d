//! The destination that messages are published to.

use crate::{BoxError, Message};

/// A destination that messages are published to: a broker's client, usually.
///
/// ```
/// use hapax_message::{BoxError, GiveUp, Message, Publisher};
///
/// struct Log;
///
/// impl Publisher for Log {
///     async fn publish(&self, message: &Message) -> Result<(), BoxError> {
///         let text = std::str::from_utf8(&message.payload).map_err(GiveUp::because)?;
///         println!("{}: {text}", message.name); // a broker's client, which gets message.id, too
///         Ok(())
///     }
/// }
/// ```
///
/// A relay calls it for many messages concurrently, some of them in one task, so it must not block
/// its thread; but never for two of one key. A publication that takes longer than the relay's
/// `publish_timeout` is stopped by dropping its future. A panic is a failure of the message.
pub trait Publisher: Send + Sync + 'static {
    /// Publishes a message. When it returns, the message has arrived. After an error it may have
    /// arrived, too, and is published again, with the same id. [`GiveUp`](crate::GiveUp)
    /// makes it a dead letter at once.
    fn publish(&self, message: &Message) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Publishes messages at once, where the broker has a call for that. Returns an answer for
    /// each, in their order; or `None`, which is the default, if there is no such call. The first
    /// `None` is final: from then on [`publish`](Self::publish) is called for each message,
    /// concurrently, and a message that hangs holds up no other.
    ///
    /// ```
    /// # use hapax_message::{BoxError, Message, Publisher};
    /// # struct Client;
    /// # impl Client {
    /// #     async fn send_all(&self, _: Vec<&[u8]>) -> Result<(), std::io::Error> { Ok(()) }
    /// # }
    /// struct Broker(Client);
    ///
    /// impl Publisher for Broker {
    ///     async fn publish(&self, message: &Message) -> Result<(), BoxError> {
    ///         Ok(self.0.send_all(vec![&message.payload]).await?)
    ///     }
    ///
    ///     async fn publish_batch(
    ///         &self,
    ///         messages: &[Message],
    ///     ) -> Option<Vec<Result<(), BoxError>>> {
    ///         let payloads = messages.iter().map(|message| &*message.payload).collect();
    ///         let sent = self.0.send_all(payloads).await.map_err(|error| error.to_string());
    ///         let answer = |_: &Message| sent.clone().map_err(BoxError::from);
    ///         Some(messages.iter().map(answer).collect())
    ///     }
    /// }
    /// ```
    ///
    /// Messages of a batch may go in any order: no two are of one key. There are at most
    /// the relay's `batch` of them. The whole call may take as long as one publication.
    /// After a panic, when the time is over, or with a wrong number of answers, all messages of the
    /// batch have failed, and may be published again.
    fn publish_batch(&self, messages: &[Message]) -> impl Future<Output = Option<Vec<Result<(), BoxError>>>> + Send {
        let _ = messages;
        async { None }
    }
}
