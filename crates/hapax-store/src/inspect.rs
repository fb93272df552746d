//! A look into a store, for people: what it has of ids, in whatever state.

use super::contract::Store;
use super::doubt::{Before, HeldBy};
use super::error::StoreError;
use super::key::RecordKey;
use super::request::{Answers, Cursor, Fingerprint, Found, Page};
use std::time::Duration;

/// A store that shows an operator its records. Engines do not need it, so a backend may leave it
/// out.
///
/// ```
/// use hapax_store::{InMemoryStore, Inspect, Mark, RecordKey, RecordState, Scope, Store};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let store = InMemoryStore::new();
/// let key = RecordKey::new(&Scope::new("orders")?, "order-17");
/// let mark = Mark { key: key.clone(), attempt: 4711, retention: Duration::from_secs(3600) };
/// store.mark(&[mark]).await?.remove(0)?;
///
/// let inspected = store.inspect(&[key.clone()]).await?.remove(0)?.expect("it is marked");
/// assert_eq!(inspected.state, RecordState::Marked);
/// assert_eq!(store.list(None, 100).await?.listed[0].key, key);
/// # Ok::<(), hapax_store::StoreError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Inspect: Store {
    /// Returns what is stored of ids; nothing of one whose record is over, unless a claim of it is
    /// [in doubt](RecordState::InDoubt). Changes nothing.
    ///
    /// # Errors
    ///
    /// Those of [`look_up`](Store::look_up).
    fn inspect(&self, keys: &[RecordKey]) -> impl Future<Output = Answers<Option<Inspected>>> + Send;

    /// Returns records in whatever state, about `limit` at a time, in no particular order, from the
    /// beginning or from the end of an earlier page, as [`scan`](Store::scan) does for ids that are
    /// done. A page may be empty although there are more.
    ///
    /// # Errors
    ///
    /// Those of [`scan`](Store::scan).
    fn list(&self, from: Option<&Cursor>, limit: usize) -> impl Future<Output = Result<Listing, StoreError>> + Send;
}

/// The state of a record that is not over, or is in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RecordState {
    /// A claim is in progress.
    Claimed,
    /// A claim has failed: nobody gets the id for a while.
    Failed,
    /// Done, by a mark.
    Marked,
    /// Done, by the completion of a claim, or recorded.
    Completed,
    /// A claim's lease has expired, and nobody has said how its work ended.
    InDoubt,
}

/// A record, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspected {
    /// The state.
    pub state: RecordState,
    /// The time for which it lasts: the rest of the lease, the failure or the retention.
    pub expires_in: Duration,
    /// The fencing token of the claim, or of the last one that the record still knows of.
    pub token: Option<u64>,
    /// The content of the message.
    pub fingerprint: Option<Fingerprint>,
    /// The result.
    pub result: Option<Vec<u8>>,
    /// The holder of the claim, if it said who it is.
    pub held_by: Option<HeldBy>,
    /// The first claim that is in doubt: this one, or one before it.
    pub in_doubt: Option<Before>,
}

impl Inspected {
    /// Returns a record, for a backend's answer.
    pub fn new(
        state: RecordState,
        expires_in: Duration,
        token: Option<u64>,
        fingerprint: Option<Fingerprint>,
        result: Option<Vec<u8>>,
    ) -> Self {
        Inspected { state, expires_in, token, fingerprint, result, held_by: None, in_doubt: None }
    }

    /// Sets the holder of the claim.
    #[must_use]
    pub fn held_by(self, held_by: Option<HeldBy>) -> Self {
        Inspected { held_by, ..self }
    }

    /// Sets the claim that is in doubt.
    #[must_use]
    pub fn in_doubt(self, in_doubt: Option<Before>) -> Self {
        Inspected { in_doubt, ..self }
    }
}

/// The name and state of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The id.
    pub key: RecordKey,
    /// The state.
    pub state: RecordState,
    /// The time for which it lasts.
    pub expires_in: Duration,
    /// The first claim that is in doubt, also while another one is in progress.
    pub in_doubt: Option<Before>,
}

impl Listed {
    /// Returns a record's name and state, for a backend's [`Listing`].
    pub fn new(key: RecordKey, state: RecordState, expires_in: Duration) -> Self {
        Listed { key, state, expires_in, in_doubt: None }
    }

    /// Sets the claim that is in doubt.
    #[must_use]
    pub fn in_doubt(self, in_doubt: Option<Before>) -> Self {
        Listed { in_doubt, ..self }
    }
}

/// Records that a [`list`](Inspect::list) has found, up to its position.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Listing {
    /// The records.
    pub listed: Vec<Listed>,
    /// The position from which to go on; `None` at the end.
    pub next: Option<Cursor>,
}

impl Listing {
    /// Returns a page, for a backend's answer.
    pub fn new(listed: Vec<Listed>, next: Option<Cursor>) -> Self {
        Listing { listed, next }
    }
}

impl RecordState {
    /// Returns true if the id is done.
    pub fn is_done(self) -> bool {
        matches!(self, RecordState::Marked | RecordState::Completed)
    }
}

impl Page {
    /// Returns the ids of a listing that are done: a backend's scan of them.
    ///
    /// ```
    /// use hapax_store::{Listed, Listing, Page, RecordKey, RecordState, Scope};
    /// use std::time::Duration;
    ///
    /// let listed = [("a", RecordState::Completed), ("b", RecordState::Claimed)]
    ///     .map(|(id, state)| Listed::new(RecordKey::new(&Scope::default(), id), state, Duration::from_secs(60)));
    /// let page = Page::of(Listing::new(listed.into(), None));
    /// assert_eq!(page.found.len(), 1);
    /// ```
    pub fn of(listing: Listing) -> Self {
        let done = listing.listed.into_iter().filter(|listed| listed.state.is_done());
        Page::new(done.map(|listed| Found::new(listed.key, listed.expires_in)).collect(), listing.next)
    }
}
