//! Claims as users of an engine see them.

use super::Dedup;
use super::attempt::{Attempt, ClaimOptions};
use super::claim::{Claim, LostLease, Once, OnceError};
use crate::Id;
use crate::digest::Digest;
use crate::engine::{BLOCK, Buffers, Engine, Tried};
use crate::mutation::{Rule, obeys};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The interval at which a thread that waits reads a clock that is not the system's.
const GLANCE: Duration = Duration::from_millis(5);

impl Dedup {
    /// Claims an id: nobody else gets it until the claim is completed, released or dropped, or its
    /// lease has expired.
    ///
    /// [`check`](Dedup::check) marks an id as soon as it sees it, so a crash between the mark and
    /// the work loses the message. A claim marks it when the work is [done](Claim::complete).
    ///
    /// ```
    /// use hapax::{Attempt, Dedup};
    ///
    /// let dedup = Dedup::builder().build()?;
    /// let claim = dedup.claim("order-17").claimed().expect("nobody else has it");
    /// assert!(dedup.claim("order-17").is_in_progress()); // and so would another thread learn
    /// claim.complete()?;
    /// assert!(dedup.claim("order-17").is_duplicate());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// - Of any number of callers that claim or check one id, one gets it.
    /// - In progress is not done: [`check`](Dedup::check), too, answers with
    ///   [`Outcome::InProgress`](crate::Outcome::InProgress) while the id is claimed, so that the
    ///   caller can tell "retry later" from "drop".
    ///
    /// # Cost
    ///
    /// A claim takes a lock of one of 32 shards and a look at the window; completing takes the lock
    /// again and an insertion. Together they cost as much as two checks, in batches three. Up to a
    /// million ids can be in flight, in about 100 bytes each. Checks pay nothing until there has
    /// been a claim; from then on a look at their shard, and, if that has an id in flight, its
    /// lock. (For the cost of fingerprints see [`ClaimOptions::fingerprint`].)
    pub fn claim(&self, id: impl Id) -> Attempt<'_> {
        self.claim_with(id, ClaimOptions::new())
    }

    /// Claims an id, like [`claim`](Dedup::claim), with a lease of its own, or a fingerprint of the
    /// message; see [`ClaimOptions`].
    pub fn claim_with(&self, id: impl Id, options: ClaimOptions<'_>) -> Attempt<'_> {
        let (id, with_fingerprint) = self.digest_with(id, options.fingerprint);
        self.attempt(id, with_fingerprint, options.lease.unwrap_or(self.engine.lease))
    }

    /// Claims an id, like [`claim`](Dedup::claim), but waits up to this long while the id is in
    /// progress.
    ///
    /// ```
    /// use hapax::Dedup;
    /// use std::time::Duration;
    ///
    /// let dedup = Dedup::builder().build()?;
    /// let claim = dedup.claim("a").claimed().unwrap();
    /// std::thread::scope(|scope| {
    ///     let other = scope.spawn(|| dedup.claim_wait("a", Duration::from_secs(60)).is_duplicate());
    ///     claim.complete()?;
    ///     assert!(other.join().unwrap());
    ///     Ok::<(), Box<dyn std::error::Error>>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`Attempt::InProgress`] means that the time is up. A waiting thread is woken when
    /// the id is completed or released; it notices an expiry within 5 ms.
    pub fn claim_wait(&self, id: impl Id, patience: Duration) -> Attempt<'_> {
        let began = Instant::now();
        let (id, _) = self.digest_with(id, None);
        loop {
            let attempt = self.attempt(id, None, self.engine.lease);
            let Attempt::InProgress { lease_left } = attempt else {
                return attempt;
            };
            let left = patience.saturating_sub(began.elapsed());
            if left.is_zero() {
                return attempt;
            }
            // The engine's clock may be one whose waiting only its owner understands, and it may be
            // stepped.
            self.engine.wait(id, left.min(lease_left.max(GLANCE)).min(self.engine.clock.glance(GLANCE)));
        }
    }

    /// Claims many ids, in order, several times as fast as one by one. `attempts` is cleared, and
    /// then holds one for each id.
    ///
    /// ```
    /// let dedup = hapax::Dedup::builder().build()?;
    /// let (mut attempts, mut ended) = (Vec::new(), Vec::new());
    /// dedup.claim_batch(["a", "b", "a"], &mut attempts);
    /// assert!(attempts[2].is_in_progress()); // by the first of this batch
    ///
    /// let claims: Vec<_> = attempts.drain(..).filter_map(|attempt| attempt.claimed()).collect();
    /// // … handle them …
    /// dedup.complete_batch(claims, &mut ended);
    /// assert!(ended.iter().all(|end| end.is_ok()));
    /// # Ok::<(), hapax::Error>(())
    /// ```
    pub fn claim_batch<'e, I>(&'e self, ids: I, attempts: &mut Vec<Attempt<'e>>)
    where
        I: IntoIterator<Item: Id>,
    {
        attempts.clear();
        let mut ids = ids.into_iter().map(|id| id.digest_by(&self.digester));
        let (mut block, mut buffers) = (Vec::with_capacity(ids.size_hint().0.min(BLOCK)), Buffers::default());
        loop {
            block.clear();
            block.extend(ids.by_ref().take(BLOCK));
            let tried = self.engine.claim_block(&block, self.engine.lease, &mut buffers);
            attempts.extend(block.iter().zip(tried).map(|(&id, &tried)| self.hold(id, tried)));
            if block.len() < BLOCK {
                return;
            }
        }
    }

    /// Completes many claims; those of another engine one by one. `ended` is cleared, and then
    /// holds the result of [`Claim::complete`] for each claim, in order.
    ///
    /// If `claims` panics, the claims that it has given until then are completed, and in `ended`;
    /// the rest are dropped.
    pub fn complete_batch<'c, I>(&self, claims: I, ended: &mut Vec<Result<(), LostLease>>)
    where
        I: IntoIterator<Item = Claim<'c>>,
    {
        ended.clear();
        let mut completing = Completing { engine: &self.engine, buffers: Buffers::default(), ended };
        for mut claim in claims {
            if !Arc::ptr_eq(claim.engine(), &self.engine) {
                completing.complete();
                completing.ended.push(claim.complete());
                continue;
            }
            completing.buffers.claims.push(claim.close());
            if !claim.is_owner() {
                // (To drop it would take a call, to find that there is nothing to do.)
                std::mem::forget(claim);
            }
            if completing.buffers.claims.len() == BLOCK {
                completing.complete();
            }
        }
    }

    /// Claims an id, does the work, and completes the claim; releases it if the work fails or
    /// panics.
    ///
    /// ```
    /// use hapax::{Dedup, Once};
    ///
    /// let dedup = Dedup::builder().build()?;
    /// let parse = |id: &str| dedup.once(id, |_| id.parse::<u64>());
    /// assert_eq!(parse("17"), Ok(Once::Done(17)));
    /// assert!(matches!(parse("17"), Ok(Once::Duplicate(_))));
    /// assert!(parse("seventeen").is_err());
    /// assert!(parse("seventeen").is_err()); // handled again, since it failed
    /// # Ok::<(), hapax::Error>(())
    /// ```
    ///
    /// The closure gets the claim, to renew it or to fence its writes.
    ///
    /// # Errors
    ///
    /// [`OnceError::Work`] with the work's error; [`OnceError::LostLease`] if the work took so long
    /// that another caller got the id.
    pub fn once<'e, T, E>(
        &'e self,
        id: impl Id,
        work: impl FnOnce(&mut Claim<'e>) -> Result<T, E>,
    ) -> Result<Once<T>, OnceError<T, E>> {
        let mut claim = match self.claim(id) {
            Attempt::Claimed(claim) => claim,
            Attempt::InProgress { lease_left } => return Ok(Once::InProgress { lease_left }),
            Attempt::Duplicate(verdict) => return Ok(Once::Duplicate(verdict)),
            Attempt::TooMany => return Ok(Once::TooMany),
            Attempt::Mismatch => unreachable!("there is no fingerprint"),
        };
        let output = work(&mut claim).map_err(OnceError::Work)?;
        match claim.complete() {
            Ok(()) => Ok(Once::Done(output)),
            Err(lost) => Err(OnceError::LostLease { output, lost }),
        }
    }

    fn attempt(&self, id: Digest, with_fingerprint: Option<Digest>, lease: Duration) -> Attempt<'_> {
        self.hold(id, self.engine.claim(&self.engine.request(id, lease, with_fingerprint)))
    }

    /// Turns the result of an attempt into what the caller gets.
    #[inline(always)]
    fn hold(&self, id: Digest, tried: Tried) -> Attempt<'_> {
        match tried {
            Tried::Claimed(token) => Attempt::Claimed(Claim::new(&self.engine, id, token)),
            Tried::InProgress(lease_left) => Attempt::InProgress { lease_left },
            Tried::Duplicate(verdict) => Attempt::Duplicate(verdict),
            Tried::Mismatch => Attempt::Mismatch,
            Tried::TooMany => Attempt::TooMany,
        }
    }

    /// Returns the digest of an id, and that of the id with a fingerprint.
    fn digest_with(&self, id: impl Id, fingerprint: Option<&[u8]>) -> (Digest, Option<Digest>) {
        let id = id.digest_by(&self.digester);
        (id, fingerprint.map(|fingerprint| self.digester.digest_with(id, fingerprint)))
    }
}

/// Claims that were taken to be completed. Their work is done, so they are completed even if the
/// iterator that gives them panics.
struct Completing<'b> {
    engine: &'b Engine,
    buffers: Buffers,
    ended: &'b mut Vec<Result<(), LostLease>>,
}

impl Completing<'_> {
    fn complete(&mut self) {
        let Completing { engine, buffers, ended } = self;
        engine.complete_block(buffers);
        ended.extend(buffers.claims.iter().zip(&buffers.ended).map(|(&(_, token), how)| how.result(token)));
        buffers.claims.clear();
    }
}

impl Drop for Completing<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() || obeys(Rule::CompleteOnUnwind) {
            self.complete();
        }
    }
}
