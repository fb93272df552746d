//! The requests to a store, and its answers.
//!
//! Answers may get further fields, which backends that do not know them leave empty: they are made
//! by constructors. Requests may not: whoever asks must say everything, and whoever passes requests
//! on to another process must pass on everything, so a further field must not go unnoticed.

use super::doubt::{Before, HeldBy};
use super::error::StoreError;
use super::key::RecordKey;
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// One answer for each request of a batch, in its order; or an error if the batch failed as a
/// whole.
pub type Answers<T> = Result<Vec<Result<T, StoreError>>, StoreError>;

/// The content of a message besides its id, in 16 bytes of SHA-256.
///
/// ```
/// use hapax_store::Fingerprint;
///
/// assert_eq!(Fingerprint::of("amount=10"), Fingerprint::of("amount=10"));
/// assert_ne!(Fingerprint::of("amount=10"), Fingerprint::of("amount=99"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 16]);

impl Fingerprint {
    /// Returns the fingerprint of a message's body.
    pub fn of(message: impl AsRef<[u8]>) -> Self {
        let mut fingerprint = [0; 16];
        fingerprint.copy_from_slice(&Sha256::digest(message)[..16]);
        Fingerprint(fingerprint)
    }

    /// Returns true if both fingerprints are given and differ: then the message is not the same.
    /// Without a fingerprint this cannot be told.
    pub fn differ(asked: Option<Self>, kept: Option<Self>) -> bool {
        matches!((asked, kept), (Some(asked), Some(kept)) if asked != kept)
    }
}

/// A request that marks an id as seen, unless it was seen before.
#[derive(Clone, Debug)]
pub struct Mark {
    /// The id.
    pub key: RecordKey,
    /// The caller's attempt, in 63 random bits: if the same one is repeated, the store gives the
    /// same answer.
    pub attempt: u64,
    /// The time for which the id is then a duplicate.
    pub retention: Duration,
}

/// The result of a [`Mark`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// The id was not seen. Now it is.
    Fresh,
    /// The id was seen.
    Duplicate {
        /// The time for which it remains a duplicate.
        expires_in: Duration,
        /// The attempt that marked it. `None` if it was completed or recorded, or if the store does
        /// not keep attempts.
        attempt: Option<u64>,
    },
    /// The id is claimed, or was failed a short time ago.
    InProgress {
        /// The time for which it remains in progress.
        lease_left: Duration,
    },
}

/// A request that takes back a mark whose answer "fresh" was not passed on.
#[derive(Clone, Debug)]
pub struct Unmark {
    /// The id.
    pub key: RecordKey,
    /// The attempt that may have marked it: a mark of another one is left alone.
    pub attempt: u64,
}

/// The result of an [`Unmark`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmarked {
    /// The mark is gone: the id is fresh.
    Done,
    /// The attempt has not marked the id, or its mark has expired. Nothing was changed.
    NotThere,
    /// The store does not keep attempts, so it cannot tell. Nothing was changed.
    Unknown,
}

/// A request that claims an id under a lease, unless it is claimed or done.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The id.
    pub key: RecordKey,
    /// The caller's attempt, in 63 random bits: if the same one is repeated while the lease lasts,
    /// the store gives the same answer, and a whole lease.
    pub attempt: u64,
    /// The time for which no other caller gets it.
    pub lease: Duration,
    /// The content of the message.
    pub fingerprint: Option<Fingerprint>,
    /// The caller, for whoever is refused meanwhile, and for whoever takes the claim over.
    pub held_by: Option<HeldBy>,
    /// The time for which the store knows, after the lease, that the claim was begun and did not
    /// end. None if it is not to know.
    pub doubt: Duration,
}

/// The result of a [`ClaimRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The id is the caller's.
    Claimed {
        /// A fencing token: larger than that of any earlier claim of this id, however that ended,
        /// and below 2^63.
        token: u64,
        /// The first claim whose lease has expired since the id was last known to be done or free:
        /// it is in doubt.
        before: Option<Before>,
    },
    /// Another caller has it, or has failed a short time ago.
    InProgress {
        /// The time for which it remains in progress.
        lease_left: Duration,
        /// The caller that has it, if it said so.
        held_by: Option<HeldBy>,
    },
    /// The id is done.
    Duplicate(Completed),
    /// The id is done, or in progress, with another message.
    Mismatch,
}

/// A completed id's record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completed {
    /// The time for which it remains a duplicate.
    pub expires_in: Duration,
    /// The content of the message.
    pub fingerprint: Option<Fingerprint>,
    /// The result that was stored with the completion.
    pub result: Option<Vec<u8>>,
}

impl Completed {
    /// Returns a record, for a backend's answer.
    ///
    /// ```
    /// use hapax_store::{Claimed, Completed};
    /// use std::time::Duration;
    ///
    /// let answer = Claimed::Duplicate(Completed::new(Duration::from_secs(60), None, Some(b"paid".into())));
    /// assert!(matches!(answer, Claimed::Duplicate(Completed { result: Some(result), .. }) if result == b"paid"));
    /// ```
    pub fn new(expires_in: Duration, fingerprint: Option<Fingerprint>, result: Option<Vec<u8>>) -> Self {
        Completed { expires_in, fingerprint, result }
    }
}

/// A request that completes a claim.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The claim.
    pub hold: Hold,
    /// The time for which the id is then a duplicate.
    pub retention: Duration,
    /// The result to store with it.
    pub result: Option<Vec<u8>>,
}

/// A claim that is held. As a request, releases it.
#[derive(Clone, Debug)]
pub struct Hold {
    /// The id.
    pub key: RecordKey,
    /// The token, from [`Claimed::Claimed`].
    pub token: u64,
}

/// A request that ends a claim without a completion: no caller gets the id for a while.
#[derive(Clone, Debug)]
pub struct ClaimFailure {
    /// The claim.
    pub hold: Hold,
    /// The time for which no caller gets the id. Zero is a release.
    pub retry_after: Duration,
}

/// A request that extends a claim.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// The claim.
    pub hold: Hold,
    /// Its lease from now on, longer or shorter than what was left.
    pub lease: Duration,
}

/// The result of ending or extending a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Done as asked.
    Done,
    /// The lease had expired, or the claim had ended: nothing was changed.
    Lost,
}

/// An id that is done: recorded without a look at the store's record of it.
#[derive(Clone, Debug)]
pub struct Record {
    /// The id.
    pub key: RecordKey,
    /// The time for which it is then a duplicate.
    pub retention: Duration,
    /// The content of the message.
    pub fingerprint: Option<Fingerprint>,
    /// The result to store with it. `None` removes an earlier one.
    pub result: Option<Vec<u8>>,
}

/// The state of an id in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// No record.
    Unknown,
    /// The id is claimed, or was failed a short time ago.
    InProgress {
        /// The time for which it remains in progress.
        lease_left: Duration,
        /// The content of the message.
        fingerprint: Option<Fingerprint>,
    },
    /// The id is done.
    Completed(Completed),
}

/// The ids that a [`scan`](super::Store::scan) has found, up to its position.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Page {
    /// Ids that are done.
    pub found: Vec<Found>,
    /// The position from which to go on; `None` at the end.
    pub next: Option<Cursor>,
}

impl Page {
    /// Returns a page, for a backend's answer.
    ///
    /// ```
    /// use hapax_store::{Cursor, Found, Page, RecordKey, Scope};
    /// use std::time::Duration;
    ///
    /// let found = Found::new(RecordKey::new(&Scope::default(), "order-17"), Duration::from_secs(60));
    /// let page = Page::new(vec![found], Some(Cursor(b"order-17".into())));
    /// assert!(page.next.is_some()); // there is more
    /// ```
    pub fn new(found: Vec<Found>, next: Option<Cursor>) -> Self {
        Page { found, next }
    }
}

/// An id that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// The id.
    pub key: RecordKey,
    /// The time for which it remains a duplicate.
    pub expires_in: Duration,
}

impl Found {
    /// Returns an id that is done, for a backend's [`Page`].
    pub fn new(key: RecordKey, expires_in: Duration) -> Self {
        Found { key, expires_in }
    }
}

/// The position of a scan, in the store's own encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub Vec<u8>);

/// The result of an [`expire`](super::Store::expire).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expired {
    /// The number of records that it removed, as far as the store can tell.
    pub records: u64,
    /// True if there is more to remove now.
    pub more: bool,
}

impl Expired {
    /// Returns the result of an [`expire`](super::Store::expire), for a backend's answer.
    pub const fn new(records: u64, more: bool) -> Self {
        Expired { records, more }
    }
}

/// The batches that suit a store best.
///
/// ```
/// use hapax_store::Limits;
///
/// const LIMITS: Limits = Limits::batches_of(1_024).under_way(4);
/// assert_eq!((LIMITS.batch, LIMITS.under_way), (1_024, 4));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The number of requests in a batch.
    pub batch: usize,
    /// The number of batches under way at a time.
    pub under_way: usize,
}

impl Limits {
    /// Returns limits for batches of up to so many requests, two of them under way at a time.
    pub const fn batches_of(requests: usize) -> Self {
        Limits { batch: requests, under_way: 2 }
    }

    /// Sets the number of batches under way at a time. Default: 2.
    #[must_use]
    pub const fn under_way(self, batches: usize) -> Self {
        Limits { under_way: batches, ..self }
    }
}
