//! What a store is asked, and what it answers.

use super::error::StoreError;
use super::key::RecordKey;
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// One answer for each request of a batch, in its order; or the batch came to nothing as a whole.
pub type Answers<T> = Result<Vec<Result<T, StoreError>>, StoreError>;

/// What a message is besides its id, in 16 bytes of SHA-256.
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
    /// That of a message's body.
    pub fn of(message: impl AsRef<[u8]>) -> Self {
        let mut fingerprint = [0; 16];
        fingerprint.copy_from_slice(&Sha256::digest(message)[..16]);
        Fingerprint(fingerprint)
    }

    /// Whether what is asked with one of these and kept with the other is not the same message. Without a fingerprint nobody can tell.
    pub fn differ(asked: Option<Self>, kept: Option<Self>) -> bool {
        matches!((asked, kept), (Some(asked), Some(kept)) if asked != kept)
    }
}

/// Marks an id as seen, if nobody has.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Which id.
    pub key: RecordKey,
    /// Who asks, in 63 random bits: asked again with the same ones, the store gives the same answer.
    pub attempt: u64,
    /// How long it is then a duplicate.
    pub retention: Duration,
}

/// What came of a [`Mark`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// It was not seen. Now it is.
    Fresh,
    /// It was seen.
    Duplicate {
        /// How much longer it is.
        expires_in: Duration,
        /// The attempt that marked it. None, if it was completed or recorded, or if the store does
        /// not keep attempts.
        attempt: Option<u64>,
    },
    /// It is claimed, or was failed a short time ago.
    InProgress {
        /// How much longer.
        lease_left: Duration,
    },
}

/// Takes a mark back, of which nobody was told that it is fresh.
#[derive(Clone, Debug)]
pub struct Unmark {
    /// Which id.
    pub key: RecordKey,
    /// The attempt that marked it, if it did: a mark of another one is left alone.
    pub attempt: u64,
}

/// What came of an [`Unmark`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmarked {
    /// The mark is gone: the id is fresh.
    Done,
    /// That attempt has not marked the id, or its mark has expired. Nothing was changed.
    NotThere,
    /// The store does not keep attempts, so it cannot tell. Nothing was changed.
    Unknown,
}

/// Claims an id under a lease, if nobody has and it is not done.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Which id.
    pub key: RecordKey,
    /// Who asks, in 63 random bits: asked again with the same ones while the lease lasts, the store gives the same answer, and a whole lease.
    pub attempt: u64,
    /// How long nobody else gets it.
    pub lease: Duration,
    /// What the message is.
    pub fingerprint: Option<Fingerprint>,
}

/// What came of a [`ClaimRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The id is the caller's.
    Claimed {
        /// A fencing token: larger than that of any earlier claim of this id, and below 2^63.
        token: u64,
    },
    /// Somebody else has it, or has failed a short time ago.
    InProgress {
        /// How much longer.
        lease_left: Duration,
    },
    /// It is done.
    Duplicate(Completed),
    /// It is done, or in progress, as another message.
    Mismatch,
}

/// What a store knows of an id that is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// How much longer it is a duplicate.
    pub expires_in: Duration,
    /// What the message was.
    pub fingerprint: Option<Fingerprint>,
    /// What was kept with the completion.
    pub result: Option<Vec<u8>>,
}

/// Completes a claim.
#[derive(Clone, Debug)]
pub struct Completion {
    /// Which.
    pub hold: Hold,
    /// How long the id is then a duplicate.
    pub retention: Duration,
    /// What is kept with it.
    pub result: Option<Vec<u8>>,
}

/// A claim that is held: releases it.
#[derive(Clone, Debug)]
pub struct Hold {
    /// Which id.
    pub key: RecordKey,
    /// As [`Claimed::Claimed`] has it.
    pub token: u64,
}

/// Ends a claim without a completion: nobody gets the id for a while.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Which.
    pub hold: Hold,
    /// For how long. None at all is a release.
    pub retry_after: Duration,
}

/// Extends a claim.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// Which.
    pub hold: Hold,
    /// Its lease from now on.
    pub lease: Duration,
}

/// Whether a claim could be ended or extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Done as asked.
    Done,
    /// The lease had expired, or the claim had ended: nothing was changed.
    Lost,
}

/// An id that is done: recorded without a look at what the store has of it.
#[derive(Clone, Debug)]
pub struct Record {
    /// Which id.
    pub key: RecordKey,
    /// How long it is then a duplicate.
    pub retention: Duration,
    /// What the message was.
    pub fingerprint: Option<Fingerprint>,
    /// What is kept with it.
    pub result: Option<Vec<u8>>,
}

/// What a store knows of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing.
    Unknown,
    /// It is claimed, or was failed a short time ago.
    InProgress {
        /// How much longer.
        lease_left: Duration,
        /// What the message is.
        fingerprint: Option<Fingerprint>,
    },
    /// It is done.
    Completed(Completed),
}

/// What a [`scan`](super::Store::scan) has found, up to where it got.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Ids that are done.
    pub found: Vec<Found>,
    /// Where to go on; nowhere, if that was all.
    pub next: Option<Cursor>,
}

/// An id that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which.
    pub key: RecordKey,
    /// How much longer it is a duplicate.
    pub expires_in: Duration,
}

/// Where a scan got to, in the store's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub Vec<u8>);

/// What an [`expire`](super::Store::expire) got done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// How many records it removed, as far as the store can tell.
    pub records: u64,
    /// Whether there is more to do now.
    pub more: bool,
}

/// How a store is served best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests in a batch.
    pub batch: usize,
    /// Batches under way at a time.
    pub under_way: usize,
}
