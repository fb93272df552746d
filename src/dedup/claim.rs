//! A claim as its holder has it, and the ways in which it ends.

use crate::Verdict;
use crate::claims::Ended;
use crate::digest::Digest;
use crate::engine::Engine;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// An id that belongs to the caller, to be handled. Dropping the claim releases it.
///
/// ```
/// use hapax::{Attempt, Dedup};
///
/// // Whether it is done, so that its message can be acknowledged.
/// fn handle(dedup: &Dedup, id: &str) -> Result<bool, Box<dyn std::error::Error>> {
///     match dedup.claim(id) {
///         Attempt::Claimed(claim) => {
///             let _number: u64 = id.parse()?; // fails: the claim is dropped, and the next delivery is handled
///             claim.complete()?;
///             Ok(true)
///         }
///         other => Ok(other.is_duplicate()),
///     }
/// }
///
/// let dedup = Dedup::builder().build()?;
/// assert!(handle(&dedup, "seventeen").is_err());
/// assert!(handle(&dedup, "17")?);
/// assert!(dedup.claim("17").is_duplicate());
/// assert!(dedup.claim("seventeen").claimed().is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Guarantees
///
/// - Until the claim ends or its lease expires, nobody else gets the id: others are told that it is
///   in progress.
/// - When its lease has expired, exactly one of the callers that ask takes it over. From then on
///   the first holder can neither complete nor release nor renew, and gets an error
///   ([`LostLease`]). As long as nobody has taken it over it can, however late, unless the room was
///   needed.
/// - A process that dies forgets its claims, so an id that it had not completed is handled by the
///   next delivery.
/// - Whoever claims an id next is not told of a claim before it that did not end: one that knew of
///   expired leases, and not of processes that died, would call work certain that may have been
///   done. With a store it is told (`TieredClaim::before` of `hapax-store`).
///
/// Leases run by the engine's clock, also where events bring their own times.
///
/// Idea: leases, Gray and Cheriton, SOSP 1989; fencing tokens as in Chubby (Burrows, OSDI 2006).
#[must_use = "a claim that is not kept is released"]
pub struct Claim<'e> {
    engine: Holder<'e>,
    id: Digest,
    token: Token,
    /// True until the claim has ended.
    open: bool,
}

enum Holder<'e> {
    Borrowed(&'e Arc<Engine>),
    Owned(Arc<Engine>),
}

/// A fencing token, which tells one claim of an id from a later one: the later one has the larger
/// token, also after a restart, unless the system's clock was set back.
///
/// A store that saves the largest token together with the work's writes, and refuses smaller ones,
/// cannot be written to by a holder that has lost its lease and does not know it yet.
///
/// ```
/// use hapax::Dedup;
///
/// let dedup = Dedup::builder().build()?;
/// let first = dedup.claim("a").claimed().unwrap().token();
/// let second = dedup.claim("a").claimed().unwrap().token();
/// assert!(second > first);
/// # Ok::<(), hapax::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u64);

impl Token {
    #[doc(hidden)]
    pub fn from_u64(token: u64) -> Self {
        Token(token)
    }

    /// Returns the token as a number: it fits a database's signed 64 bits until the year 2262.
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

/// An error: the claim's lease has expired and another caller has the id, so the call changed
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostLease {
    /// The token of the claim that was lost.
    pub token: Token,
}

impl LostLease {
    #[doc(hidden)]
    pub const fn new(token: Token) -> Self {
        LostLease { token }
    }
}

impl fmt::Display for LostLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the lease of claim {} has expired, and its id was taken over", self.token.0)
    }
}

impl std::error::Error for LostLease {}

impl Ended {
    pub(super) fn result(self, token: u64) -> Result<(), LostLease> {
        match self {
            Ended::Held => Ok(()),
            Ended::Lost => Err(LostLease { token: Token(token) }),
        }
    }
}

impl<'e> Claim<'e> {
    pub(super) fn new(engine: &'e Arc<Engine>, id: Digest, token: u64) -> Self {
        Claim { engine: Holder::Borrowed(engine), id, token: Token(token), open: true }
    }

    /// Completes the claim: the work is done, and the id is a duplicate from now on, for as long as
    /// the engine remembers.
    ///
    /// # Errors
    ///
    /// [`LostLease`] if another caller has taken the id over. Then the work has perhaps been done
    /// twice.
    pub fn complete(mut self) -> Result<(), LostLease> {
        let ended = self.engine().complete(self.id, self.token.0);
        self.end(ended)
    }

    /// Releases the id: the work was not done, and the next delivery gets the id.
    ///
    /// # Errors
    ///
    /// [`LostLease`] if another caller has taken the id over.
    pub fn release(mut self) -> Result<(), LostLease> {
        let ended = self.engine().claims.release(self.id, self.token.0);
        self.end(ended)
    }

    /// Ends the claim as failed, for work that will go on failing for a while: until `retry_after`
    /// has passed, the id is in progress for everybody, so that a poison message does not spin.
    ///
    /// # Errors
    ///
    /// [`LostLease`] if another caller has taken the id over.
    pub fn fail(mut self, retry_after: Duration) -> Result<(), LostLease> {
        let ended = self.engine().extend(self.id, self.token.0, retry_after, true);
        self.end(ended)
    }

    /// Renews the lease: it ends `lease` from now.
    ///
    /// # Errors
    ///
    /// [`LostLease`] if another caller has taken the id over.
    pub fn renew(&mut self, lease: Duration) -> Result<(), LostLease> {
        let ended = self.engine().extend(self.id, self.token.0, lease, false);
        ended.result(self.token.0)
    }

    /// Returns the fencing token for the work's own writes.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Returns the same claim without a borrow of the engine, for another thread or task. Costs the
    /// clone of an `Arc`.
    pub fn into_owned(mut self) -> Claim<'static> {
        self.open = false;
        Claim { engine: Holder::Owned(Arc::clone(self.engine())), id: self.id, token: self.token, open: true }
    }

    /// Returns the claim's id and token, for a caller that ends it by these instead.
    #[inline(always)]
    pub(super) fn close(&mut self) -> (Digest, u64) {
        self.open = false;
        (self.id, self.token.0)
    }

    /// Returns true if there is something to drop, even if the claim has ended.
    #[inline(always)]
    pub(super) fn is_owner(&self) -> bool {
        matches!(self.engine, Holder::Owned(_))
    }

    /// Notes that the claim has ended, or was lost.
    fn end(&mut self, ended: Ended) -> Result<(), LostLease> {
        self.open = false;
        ended.result(self.token.0)
    }

    #[inline(always)]
    pub(super) fn engine(&self) -> &Arc<Engine> {
        match &self.engine {
            Holder::Borrowed(engine) => engine,
            Holder::Owned(engine) => engine,
        }
    }
}

impl Drop for Claim<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.open {
            // If it was lost, there is nothing to release.
            self.engine().claims.release(self.id, self.token.0);
        }
    }
}

impl fmt::Debug for Claim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim").field("token", &self.token.0).finish_non_exhaustive()
    }
}

/// The result of [`Dedup::once`](crate::Dedup::once), if nothing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Once<T> {
    /// The work was done now, with this result.
    Done(T),
    /// Another caller is at work on the id; see
    /// [`Attempt::InProgress`](crate::Attempt::InProgress).
    InProgress {
        /// The time until the id can be claimed.
        lease_left: Duration,
    },
    /// The work was done before.
    Duplicate(Verdict),
    /// Too many ids are in flight; see [`Attempt::TooMany`](crate::Attempt::TooMany).
    TooMany,
}

/// The reason why [`Dedup::once`](crate::Dedup::once) did not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnceError<T, E> {
    /// The work failed. The id was released: the next delivery is handled.
    Work(E),
    /// The work was done, but took longer than the lease, and another caller has taken the id over.
    LostLease {
        /// The result of the work.
        output: T,
        /// The claim that was lost.
        lost: LostLease,
    },
}

impl<T, E: fmt::Display> fmt::Display for OnceError<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OnceError::Work(error) => write!(f, "the work failed, and its id was released: {error}"),
            OnceError::LostLease { lost, .. } => write!(f, "the work was done, but {lost}"),
        }
    }
}

impl<T: fmt::Debug, E: std::error::Error + 'static> std::error::Error for OnceError<T, E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OnceError::Work(error) => Some(error),
            OnceError::LostLease { .. } => None,
        }
    }
}
