#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod calls;
mod clock;
mod errors;
mod item;
mod operations;
mod options;
mod reads;
mod table;
mod tries;
mod update;

pub use aws_sdk_dynamodb;
pub use options::DynamoDbOptions;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use clock::SystemClock;
use hapax::Clock;
use hapax_store::backend::record;
use hapax_store::*;
use tokio::sync::Semaphore;

/// Records in a table of Amazon DynamoDB, which any number of processes share.
///
/// ```no_run
/// use hapax_dynamodb::aws_sdk_dynamodb::Client;
/// use hapax_dynamodb::{DynamoDbOptions, DynamoDbStore};
/// use hapax_store::TieredDedup;
///
/// # async fn example(client: &Client) -> Result<(), hapax_store::StoreError> {
/// let store = DynamoDbStore::new(client, DynamoDbOptions::new("hapax"))?;
/// let dedup = TieredDedup::builder(store).build().await?;
/// assert!(dedup.check("order-17").await?.is_fresh());
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - *Atomicity* is the service's: each change of a record is one conditional write (`UpdateItem`),
///   and whoever is refused gets the record that was there in the same answer. In a global table
///   that holds within a region only, unless the table is of strong consistency over regions: let
///   all consumers of a topic use one region.
/// - *Time* is each process's own clock: DynamoDB has none to ask. By default it is the system's,
///   as NTP corrects it. **Clocks must agree much better than a lease lasts**: a process whose
///   clock is five seconds ahead takes an id over five seconds before its lease is over, and calls
///   an id fresh five seconds before its retention is. What remains then is the token: the holder
///   that was too slow is refused.
/// - *Expiry* is decided by the condition of a write, and by the reader. The service's time to live
///   only makes room, some minutes or days later, and may be as late as it likes.
/// - *A claim in doubt* stays for as long as a completion would; whoever takes it over makes two
///   requests, and so does a claim after one that was released while an earlier one is in doubt.
/// - *Tokens* grow as long as an item is there, whatever the clocks say; it stays for an hour after
///   its end, for that alone. After that they are the clock's microseconds: a process whose clock
///   is an hour behind others may then give a smaller one. The store itself compares tokens for
///   equality, so fencing holds here.
/// - *Lost answers*: a mark, a claim, a completion, a renewal and a record that were not answered
///   are repeated, and the attempt or token in the item tells that the first try was carried out:
///   its owner is never told that it is a duplicate. A release, a failure, an unmark and a forget
///   are not repeated: the error says that they may have been carried out.
/// - *Late tries*: a first try that the service carries out after the second one undoes nothing of
///   what happened in between, as far as clocks agree: an id that was released, unmarked or
///   forgotten stays so, one that another has claimed is another's, and no lease gets shorter. A
///   try that was not repeated may still be carried out after the call has returned its error.
/// - *Durability* is the service's: what it has acknowledged is in several data centres of the
///   region. Reads are consistent ones.
///
/// # Throttling, time-outs
///
/// The client's own retries are switched off for the store, its time-outs stay. A request that is
/// throttled (`ProvisionedThroughputExceededException`, `ThrottlingException`,
/// `RequestLimitExceeded`) is tried up to 8 times, after waits that double from 25 ms to 1 s and
/// are jittered, within [`timeout`](DynamoDbOptions::timeout); so is one of the service's own
/// errors and one without an answer after [`try_timeout`](DynamoDbOptions::try_timeout), as far as
/// it may be repeated. Keys that a batch of look-ups has left out are asked for again likewise.
///
/// # Errors
///
/// [`ErrorKind::Unavailable`]: throttled to the end, the service's own error, no connection.
/// [`ErrorKind::Timeout`]: no answer in time. [`ErrorKind::Conflict`]: a transaction of another
/// client was in the way each time. [`ErrorKind::Misconfigured`]: no such table, no permission, or
/// a result of more than 399 KiB (an item has at most 400). [`ErrorKind::Corrupt`]: an item that is
/// not hapax's; the error names record and attribute.
///
/// # Cost
///
/// A mark or claim, and each end or renewal of a claim: one write. A duplicate costs a write, too,
/// although nothing is written. An item takes about 100 bytes with an id of 16 bytes, so each write
/// is one unit up to 1 KiB; a result makes it dearer by a unit per KiB, also at each refusal. A
/// look-up reads 100 ids a request. Removal by the time to live is free. A batch is one request an
/// id, [64 at a time](DynamoDbOptions::concurrency); requests for one id in a batch go one after
/// the other.
///
/// # Needs
///
/// The permissions `dynamodb:UpdateItem` and `dynamodb:BatchGetItem`; `dynamodb:Scan` for
/// [`scan`](Store::scan) and [`list`](Inspect::list). An item looks like this: `id` "order-17",
/// `scope` "orders", `state` "completed", `until_ns` 1764153600000000000, `ttl` 1764157200,
/// `attempt` 4711. An id that is no text begins with `0x`; the scope without a name is `0x`, too.
///
/// Ideas: optimistic concurrency by conditional writes; leases, Gray and Cheriton, SOSP 1989;
/// fencing tokens, Burrows, OSDI 2006; jittered back-off, Brooker, 2015.
pub struct DynamoDbStore {
    client: Client,
    options: DynamoDbOptions,
    clock: Box<dyn Clock>,
    turns: Semaphore,
}

impl DynamoDbStore {
    /// Creates a store in a table, over a client that you have configured: region, credentials,
    /// endpoint, HTTP client. It sends nothing yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if an option is invalid.
    pub fn new(client: &Client, options: DynamoDbOptions) -> Result<Self, StoreError> {
        options.check()?;
        let config = client.config().to_builder().retry_config(RetryConfig::disabled()).build();
        let turns = Semaphore::new(options.concurrency);
        Ok(DynamoDbStore { client: Client::from_conf(config), options, clock: Box::<SystemClock>::default(), turns })
    }

    /// Sets the clock. Times are stored and compared by all processes that share the table, so it
    /// must count from 1970 as theirs do. Default: the system's.
    #[must_use]
    pub fn with_clock(self, clock: impl Clock) -> Self {
        DynamoDbStore { clock: Box::new(clock), ..self }
    }
}

impl std::fmt::Debug for DynamoDbStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DynamoDbStore").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Store for DynamoDbStore {
    fn backend(&self) -> &'static str {
        errors::BACKEND
    }

    /// Allows batches of a hundred, as many as the service reads at once, and four of them.
    fn limits(&self) -> Limits {
        Limits::batches_of(100).under_way(4)
    }

    async fn mark(&self, marks: &[Mark]) -> Answers<Marked> {
        self.each(&operations::MARK, marks).await
    }

    async fn unmark(&self, marks: &[Unmark]) -> Answers<Unmarked> {
        self.each(&operations::UNMARK, marks).await
    }

    async fn claim(&self, claims: &[ClaimRequest]) -> Answers<Claimed> {
        self.each(&operations::CLAIM, claims).await
    }

    async fn complete(&self, completions: &[Completion]) -> Answers<Held> {
        self.each(&operations::COMPLETE, completions).await
    }

    async fn release(&self, holds: &[Hold]) -> Answers<Held> {
        self.each(&operations::RELEASE, holds).await
    }

    async fn fail(&self, failures: &[ClaimFailure]) -> Answers<Held> {
        self.each(&operations::FAIL, failures).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Answers<Held> {
        self.each(&operations::RENEW, renewals).await
    }

    async fn look_up(&self, keys: &[RecordKey]) -> Answers<Known> {
        self.look(keys, record::look_up).await
    }

    async fn record(&self, records: &[Record]) -> Answers<()> {
        self.each(&operations::RECORD, records).await
    }

    async fn forget(&self, keys: &[RecordKey]) -> Answers<bool> {
        self.each(&operations::FORGET, keys).await
    }

    /// Does nothing: the service removes what has expired, by the time to live.
    async fn expire(&self, _limit: usize) -> Result<Expired, StoreError> {
        Ok(Expired::default())
    }

    async fn scan(&self, from: Option<&Cursor>, limit: usize) -> Result<Page, StoreError> {
        self.page(from, limit).await.map(Page::of)
    }
}

impl Inspect for DynamoDbStore {
    async fn inspect(&self, keys: &[RecordKey]) -> Answers<Option<Inspected>> {
        self.look(keys, record::inspect).await
    }

    async fn list(&self, from: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        self.page(from, limit).await
    }
}
