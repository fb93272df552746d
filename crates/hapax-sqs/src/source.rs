//! The source: a queue.

use crate::dead_letter;
use crate::hidden::{self, Failure};
use crate::{Message, SqsError, SqsOptions};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry,
    MessageSystemAttributeName, QueueAttributeName,
};
use futures_util::future::try_join_all;
use hapax_stream::{Source, retry_for};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// The largest number of messages of a request.
const BATCH: usize = 10;
/// The number of requests of one kind that are under way at a time.
const REQUESTS: usize = 8;
/// The time that a call may take, beyond what SQS itself waits, with the client's own tries.
const CALL: Duration = Duration::from_secs(30);
/// The largest message of a queue that does not say.
const SIZE_MAX: usize = 256 << 10;

/// The messages of a queue, shared by all processes that receive from it.
///
/// See the [crate](crate) for an example, and for what it guarantees.
///
/// # Cost
///
/// SQS is paid by the request. Each takes up to ten messages: one to receive, one to delete, and
/// one for each third of [`visibility`](SqsOptions::visibility) that they stay. One request to
/// receive is under way at a time; where that limits a consumer, run several sources.
pub struct Sqs {
    client: Client,
    options: SqsOptions,
    /// The largest message of the queue for dead letters, in bytes.
    dead_letter_size_max: usize,
}

impl Sqs {
    /// Creates a source of a queue that exists already, and asks for the attributes of both queues
    /// (permissions `sqs:GetQueueAttributes`; later `sqs:ReceiveMessage`, `sqs:DeleteMessage`,
    /// `sqs:ChangeMessageVisibility`, and `sqs:SendMessage` to the queue for dead letters).
    ///
    /// The client has the region, credentials, TLS, tries and time-outs that the program gives it.
    /// A read time-out of the client must be longer than [`wait`](SqsOptions::wait).
    ///
    /// # Errors
    ///
    /// [`SqsError::Misconfigured`] names the wrong option, [`SqsError::QueueNotFound`] the missing
    /// queue. Those of the client: nothing is tried again beyond what it does itself.
    pub async fn new(client: Client, options: SqsOptions) -> Result<Self, SqsError> {
        options.validate()?;
        size_max_of(&client, &options.queue_url).await?; // it is there
        let dead_letter_size_max = size_max_of(&client, &options.dead_letter_queue_url).await?;
        Ok(Sqs { client, options, dead_letter_size_max })
    }

    async fn fetch(&self, max: usize) -> Result<Vec<Message>, SqsError> {
        let (doing, url) = ("receiving", &self.options.queue_url);
        let wait = self.options.wait;
        let asked = self
            .client
            .receive_message()
            .queue_url(url)
            .max_number_of_messages(whole(max.clamp(1, BATCH)))
            .wait_time_seconds(whole(wait.as_secs()))
            .visibility_timeout(whole(self.options.visibility.as_secs()))
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .message_attribute_names("All")
            .send();
        let answer = in_time(doing, wait + CALL, asked).await?.map_err(SqsError::when(doing, url))?;
        let now = Instant::now();
        Ok(answer.messages.unwrap_or_default().into_iter().map(|message| Message::new(message, now)).collect())
    }

    /// Deletes up to ten messages, those that fail again and again for a while.
    async fn delete(&self, messages: &[Arc<Message>]) -> Result<(), SqsError> {
        let left: Mutex<Vec<usize>> = Mutex::new((0..messages.len()).collect());
        let delete = || async {
            let mut left = left.lock().await;
            let failed = self.delete_once(messages, &left).await?;
            left.retain(|place| failed.iter().any(|entry| entry.id() == place.to_string()));
            refusal("deleting", &failed)
        };
        retry_for(self.options.outage, SqsError::is_transient, delete).await
    }

    async fn delete_once(
        &self,
        messages: &[Arc<Message>],
        places: &[usize],
    ) -> Result<Vec<BatchResultErrorEntry>, SqsError> {
        let (doing, url) = ("deleting", &self.options.queue_url);
        let entries = places.iter().filter_map(|place| {
            let entry = DeleteMessageBatchRequestEntry::builder().id(place.to_string());
            entry.receipt_handle(messages[*place].receipt()).build().ok()
        });
        let asked = self.client.delete_message_batch().queue_url(url).set_entries(Some(entries.collect())).send();
        let answer = in_time(doing, CALL, asked).await?.map_err(SqsError::when(doing, url))?;
        // The delivery of some may be over: they come again, and are duplicates.
        Ok(answer.failed.into_iter().filter(|entry| hidden::failure(entry) != Failure::Over).collect())
    }

    /// Hides up to ten messages, each for its seconds from now on. One whose delivery is over is
    /// left alone.
    async fn hide(&self, doing: &'static str, messages: &[(&Message, i32)]) -> Result<(), SqsError> {
        let url = &self.options.queue_url;
        let entries = messages.iter().enumerate().filter_map(|(place, (message, seconds))| {
            let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(place.to_string());
            entry.receipt_handle(message.receipt()).visibility_timeout(*seconds).build().ok()
        });
        let asked =
            self.client.change_message_visibility_batch().queue_url(url).set_entries(Some(entries.collect())).send();
        let answer = in_time(doing, CALL, asked).await?.map_err(SqsError::when(doing, url))?;
        let failed = answer.failed.into_iter().filter(|entry| hidden::failure(entry) != Failure::Over);
        refusal(doing, &failed.collect::<Vec<_>>())
    }

    async fn send_copy(&self, message: &Message, why: &str) -> Result<(), SqsError> {
        let (doing, url) = ("putting a message aside", &self.options.dead_letter_queue_url);
        let attributes = dead_letter::attributes(message, why, self.dead_letter_size_max)?;
        let body = message.body().unwrap_or_default();
        let mut send =
            self.client.send_message().queue_url(url).message_body(body).set_message_attributes(Some(attributes));
        if self.options.is_dead_letter_queue_fifo() {
            // What is put aside twice, since the process died in between, is one message, and the
            // order of a group stays. (Those of a standard queue have none.)
            send = send.message_group_id(message.group_id().unwrap_or("none"));
            send = send.set_message_deduplication_id(message.message_id().map(str::to_owned));
        }
        in_time(doing, CALL, send.send()).await?.map_err(SqsError::when(doing, url)).map(drop)
    }
}

/// Returns the size of the largest message of a queue, in bytes.
async fn size_max_of(client: &Client, url: &str) -> Result<usize, SqsError> {
    let (doing, size) = ("asking for the attributes of a queue", QueueAttributeName::MaximumMessageSize);
    let asked = client.get_queue_attributes().queue_url(url).attribute_names(size.clone()).send();
    let answer = in_time(doing, CALL, asked).await?.map_err(SqsError::when(doing, url))?;
    let size_max = answer.attributes().and_then(|attributes| attributes.get(&size)?.parse().ok());
    Ok(size_max.unwrap_or(SIZE_MAX))
}

/// Returns an error for the failed entries of a batch, if there are any.
fn refusal(doing: &'static str, failed: &[BatchResultErrorEntry]) -> Result<(), SqsError> {
    let is_transient = |entry: &&BatchResultErrorEntry| hidden::failure(entry) == Failure::Transient;
    // One that SQS will never do says more than one that it could not do now.
    let Some(worst) = failed.iter().find(|entry| !is_transient(entry)).or(failed.first()) else { return Ok(()) };
    Err(SqsError::Entries {
        doing,
        failed: failed.len(),
        code: worst.code().to_owned(),
        message: worst.message().unwrap_or_default().to_owned(),
        is_transient: is_transient(&worst),
    })
}

/// Returns a small number as the client has it.
fn whole(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

async fn in_time<T>(doing: &'static str, after: Duration, call: impl Future<Output = T>) -> Result<T, SqsError> {
    tokio::time::timeout(after, call).await.map_err(|_| SqsError::TimedOut { doing, after })
}

impl Source for Sqs {
    type Message = Message;
    type Error = SqsError;

    async fn receive(&self, max: usize) -> Result<Option<Vec<Message>>, SqsError> {
        retry_for(self.options.outage, SqsError::is_transient, || self.fetch(max)).await.map(Some)
    }

    async fn acknowledge(&self, messages: &[Arc<Message>]) -> Result<(), SqsError> {
        for some in messages.chunks(BATCH * REQUESTS) {
            try_join_all(some.chunks(BATCH).map(|ten| self.delete(ten))).await?;
        }
        Ok(())
    }

    /// Hides the message until it is time, no longer than 12 hours after its delivery.
    async fn retry(&self, message: &Arc<Message>, after: Duration) -> Result<(), SqsError> {
        let hide =
            || async { self.hide("giving a message back", &[(message, hidden::seconds(after, message.age()))]).await };
        retry_for(self.options.outage, SqsError::is_transient, hide).await
    }

    fn heartbeat(&self) -> Option<Duration> {
        Some(self.options.visibility / 3)
    }

    /// Hides messages for as long as a delivery does. Near the 12 hours after which SQS delivers a
    /// message again whatever is asked, it is hidden until then.
    async fn extend(&self, messages: &[Arc<Message>]) -> Result<(), SqsError> {
        let longer =
            messages.iter().map(|message| (message.as_ref(), hidden::seconds(self.options.visibility, message.age())));
        // (No time is none: the message would be visible at once.)
        let longer: Vec<_> = longer.filter(|(_, seconds)| *seconds > 0).collect();
        for some in longer.chunks(BATCH * REQUESTS) {
            try_join_all(some.chunks(BATCH).map(|ten| self.hide("hiding messages", ten))).await?;
        }
        Ok(())
    }

    async fn dead_letter(&self, message: &Arc<Message>, why: &str) -> Result<(), SqsError> {
        retry_for(self.options.outage, SqsError::is_transient, || self.send_copy(message, why)).await
    }

    fn deliveries(&self, message: &Message) -> Option<u32> {
        message.receive_count()
    }

    /// Returns the id that the service gave it: a redrive gives another one.
    fn sent_as(&self, message: &Message) -> Option<Vec<u8>> {
        message.message_id().map(|id| id.as_bytes().to_vec())
    }
}

impl std::fmt::Debug for Sqs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sqs").field("options", &self.options).finish_non_exhaustive()
    }
}
