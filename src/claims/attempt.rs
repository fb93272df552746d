//! What an attempt to claim an id comes to.

use super::claim::Claim;
use crate::Verdict;
use std::time::Duration;

/// What came of an attempt to claim an id.
///
/// ```
/// use hapax::{Attempt, Dedup};
///
/// let dedup = Dedup::builder().build()?;
/// match dedup.claim("order-17") {
///     Attempt::Claimed(claim) => {
///         // … handle the message …
///         claim.complete()?;
///     }
///     Attempt::InProgress { lease_left } => println!("somebody is at it: ask again in {lease_left:?}"),
///     Attempt::Duplicate(_) => println!("done already: acknowledge and drop"),
///     other => println!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a claim that is not kept is released"]
pub enum Attempt<'e> {
    /// The id is the caller's to handle, until the lease expires.
    Claimed(Claim<'e>),
    /// Somebody else is at work, or has [failed](Claim::fail) a short time ago. Nothing is decided: the message must come again.
    InProgress {
        /// How long until the id can be had, if nobody renews, and it is not completed or released before.
        lease_left: Duration,
    },
    /// It is done.
    Duplicate(Verdict),
    /// The id is in progress or done, with another fingerprint: the same id for a different
    /// message. This is certain: what cannot be told is a [`Duplicate`](Attempt::Duplicate). Only
    /// from [`claim_with`](crate::Dedup::claim_with).
    Mismatch,
    /// So many ids are in flight, about a million, that no more are taken on until some are completed or released.
    TooMany,
}

impl<'e> Attempt<'e> {
    /// The claim, if there is one.
    pub fn claimed(self) -> Option<Claim<'e>> {
        match self {
            Attempt::Claimed(claim) => Some(claim),
            _ => None,
        }
    }

    /// Whether the id is done already.
    pub fn is_duplicate(&self) -> bool {
        matches!(self, Attempt::Duplicate(_))
    }

    /// Whether somebody else is at it.
    pub fn is_in_progress(&self) -> bool {
        matches!(self, Attempt::InProgress { .. })
    }
}

/// What a claim is to be like, other than usual.
///
/// ```
/// use hapax::{Attempt, ClaimOptions, Dedup};
/// use std::time::Duration;
///
/// let dedup = Dedup::builder().build()?;
/// let pay_10 = ClaimOptions::new().fingerprint("amount=10").lease(Duration::from_secs(5));
/// let pay_99 = ClaimOptions::new().fingerprint("amount=99");
/// let claim = dedup.claim_with("payment-3", pay_10).claimed().unwrap();
/// assert!(matches!(dedup.claim_with("payment-3", pay_99), Attempt::Mismatch));
/// claim.complete()?;
/// assert!(matches!(dedup.claim_with("payment-3", pay_99), Attempt::Mismatch));
/// assert!(dedup.claim_with("payment-3", pay_10).is_duplicate());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ClaimOptions<'a> {
    pub(super) lease: Option<Duration>,
    pub(super) fingerprint: Option<&'a [u8]>,
}

impl<'a> ClaimOptions<'a> {
    /// The engine's lease, no fingerprint.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long the id is the caller's. Default: the engine's [`lease`](crate::Builder::lease). None at all means that whoever comes next takes
    /// it over.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        ClaimOptions { lease: Some(lease), ..self }
    }

    /// Sets what the message is, besides its id: its body, or a hash of that. A claim of the same
    /// id with another fingerprint gets [`Attempt::Mismatch`].
    ///
    /// # Guarantees
    ///
    /// - A mismatch is certain, or is not said: the same id with the same fingerprint is never one.
    /// - It is said for as long as the id is in progress, and, once it is
    ///   [completed](crate::Claim::complete), for as long as the window remembers it; where the
    ///   window [slides](crate::Builder::refresh_on_duplicate), for as long as somebody asks for
    ///   the id. After [`forget`](crate::Dedup::forget) the id has no fingerprint until it is
    ///   completed again.
    /// - An id that was accepted without a fingerprint, by a check or by another claim, is a
    ///   [`Duplicate`](Attempt::Duplicate) whatever the fingerprint. So is one that only the
    ///   history knows, and one whose fingerprint had to go for want of room.
    /// - With a [`journal`](crate::Builder::journal) and in a snapshot, fingerprints outlive the
    ///   process.
    ///
    /// # Cost
    ///
    /// 40 to 90 bytes for each completed claim that has one, beside the window, for up to 917,504
    /// of them: with more, what has expired goes first, then the oldest, counted in
    /// [`ClaimStats::fingerprints_dropped`](crate::ClaimStats::fingerprints_dropped). Checks pay
    /// nothing for them, with two exceptions, in which they take the lock of their shard while that
    /// has any: where the window slides; and, if ids were forgotten early, those that find their id
    /// fresh.
    #[must_use]
    pub fn fingerprint<F: AsRef<[u8]> + ?Sized>(self, fingerprint: &'a F) -> Self {
        ClaimOptions { fingerprint: Some(fingerprint.as_ref()), ..self }
    }
}
