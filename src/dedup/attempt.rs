//! The result of an attempt to claim an id.

use super::claim::Claim;
use crate::Verdict;
use std::time::Duration;

/// The result of an attempt to claim an id.
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
    /// The id belongs to the caller, until the lease expires.
    Claimed(Claim<'e>),
    /// Another caller is at work, or has [failed](Claim::fail) a short time ago. Nothing is
    /// decided: the message must come again.
    InProgress {
        /// The time until the id can be claimed, if nobody renews, and it is not completed or
        /// released before.
        lease_left: Duration,
    },
    /// The id is done.
    Duplicate(Verdict),
    /// The id is in progress or done with another fingerprint: the same id for a different message.
    /// This is certain: what cannot be told apart is a [`Duplicate`](Attempt::Duplicate). Only from
    /// [`claim_with`](crate::Dedup::claim_with).
    Mismatch,
    /// Too many ids are in flight, about a million: no more are accepted until some are completed
    /// or released.
    TooMany,
}

impl<'e> Attempt<'e> {
    /// Returns the claim, if there is one.
    pub fn claimed(self) -> Option<Claim<'e>> {
        match self {
            Attempt::Claimed(claim) => Some(claim),
            _ => None,
        }
    }

    /// Returns true if the id is done already.
    pub fn is_duplicate(&self) -> bool {
        matches!(self, Attempt::Duplicate(_))
    }

    /// Returns true if another caller is at work on the id.
    pub fn is_in_progress(&self) -> bool {
        matches!(self, Attempt::InProgress { .. })
    }
}

/// Options for a single claim.
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
    /// Returns options with the engine's lease and no fingerprint.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how long the id belongs to the caller. Default: the engine's
    /// [`lease`](crate::Builder::lease). With a lease of zero, the next caller that asks takes the
    /// id over.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        ClaimOptions { lease: Some(lease), ..self }
    }

    /// Sets the content of the message, besides its id: its body, or a hash of that. A claim of the
    /// same id with another fingerprint gets [`Attempt::Mismatch`].
    ///
    /// # Guarantees
    ///
    /// - A mismatch is certain, or is not reported: the same id with the same fingerprint is never
    ///   one.
    /// - It is reported for as long as the id is in progress, and, once it is
    ///   [completed](crate::Claim::complete), for as long as the window remembers it; where the
    ///   window [slides](crate::Builder::refresh_on_duplicate), for as long as the id is asked for.
    ///   After [`forget`](crate::Dedup::forget) the id has no fingerprint until it is completed
    ///   again.
    /// - An id that was accepted without a fingerprint, by a check or by another claim, is a
    ///   [`Duplicate`](Attempt::Duplicate) whatever the fingerprint. So is an id that only the
    ///   history knows, and an id whose fingerprint was dropped to make room.
    /// - With a [`journal`](crate::Builder::journal), fingerprints outlive the
    ///   process.
    ///
    /// # Cost
    ///
    /// It costs 40 to 90 bytes for each completed claim that has a fingerprint, on top of the
    /// window, for up to 917,504 of them. With more, expired ones go first, then the oldest,
    /// counted in [`ClaimStats::fingerprints_dropped`](crate::ClaimStats::fingerprints_dropped).
    /// Checks pay nothing for fingerprints, with two exceptions, in which a check takes the lock of
    /// its shard while that has any: where the window slides; and, if ids were forgotten early,
    /// when the check finds its id fresh.
    #[must_use]
    pub fn fingerprint<F: AsRef<[u8]> + ?Sized>(self, fingerprint: &'a F) -> Self {
        ClaimOptions { fingerprint: Some(fingerprint.as_ref()), ..self }
    }
}
