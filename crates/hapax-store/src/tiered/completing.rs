//! Completions: the time for which one is tried, and the caller's error if it fails.

use super::breaker::back_off;
use super::claim::{ClaimError, TieredClaim};
use super::engine::Engine;
use super::few::all;
use super::holder::Holder;
use super::nodes::in_order;
use super::operation::{Completions, Renewals};
use crate::Store;
use crate::erased::Answering;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Returns the pause before a store is asked again to end or to renew a claim: it grows to a
/// second, is short compared with the lease, and is jittered.
pub(super) fn retry_pause(tries: u32, lease: Duration, random: u64) -> Duration {
    back_off(tries, random).min((lease / 8).max(Duration::from_millis(1)))
}

/// The time for which a completion is tried: one lease, from the first try on. If the store is
/// unavailable for longer, the lease is over when it is back. Pure: time is an argument.
pub(super) struct Patience {
    /// The end; `None` if it is beyond the range of the clock.
    until: Option<Instant>,
    lease: Duration,
    tries: u32,
}

impl Patience {
    pub(super) fn new(now: Instant, lease: Duration) -> Self {
        Patience { until: now.checked_add(lease), lease, tries: 0 }
    }

    /// Returns the [pause](retry_pause) before the next try; `None` after the last one.
    pub(super) fn pause(&mut self, now: Instant, random: u64) -> Option<Duration> {
        let left = self.until.map_or(Duration::MAX, |until| until.saturating_duration_since(now));
        if left.is_zero() {
            return None;
        }
        let pause = retry_pause(self.tries, self.lease, random);
        self.tries = self.tries.saturating_add(1);
        Some(pause.min(left))
    }
}

/// A claim whose completion is not recorded, as far as is known.
pub(super) struct Unfinished {
    pub(super) holder: Holder,
    pub(super) result: Option<Vec<u8>>,
    pub(super) error: ClaimError,
}

/// A completion that is not recorded, as far as is known, and its claim.
///
/// ```
/// use hapax_store::{ClaimError, InMemoryStore, TieredAttempt, TieredDedup};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let dedup = TieredDedup::builder(InMemoryStore::new()).build().await?;
/// let claim = dedup.claim("order-17").await?.claimed().expect("nobody else has it");
/// // … the work …
/// if let Err(not_completed) = claim.complete().await {
///     match not_completed.error() {
///         ClaimError::LostLease(_) => println!("somebody else may do the work again"),
///         // The store was away for as long as the lease is: once more, for as long.
///         _ => not_completed.retry().await?,
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Dropping it, as `?` does in the end, does not release the claim: the work is done, and would be
/// done again at once. The id stays in progress until its lease ends, and is free then, unless the
/// completion was recorded after all and only its answer was lost.
#[must_use = "the work is done, and is done again when the lease has ended"]
pub struct NotCompleted<S: Store> {
    unfinished: Box<Unfinished>,
    store: PhantomData<Arc<S>>,
}

impl<S: Store> NotCompleted<S> {
    pub(super) fn of(unfinished: Box<Unfinished>) -> Self {
        NotCompleted { unfinished, store: PhantomData }
    }

    /// Returns the reason for which it is not recorded.
    pub fn error(&self) -> &ClaimError {
        &self.unfinished.error
    }

    /// Tries to complete the claim again, with its result, for as long as one lease.
    ///
    /// # Errors
    ///
    /// Those of [`complete`](TieredClaim::complete): another error like this one.
    pub async fn retry(self) -> Result<(), NotCompleted<S>> {
        let Unfinished { holder, result, .. } = *self.unfinished;
        holder.complete(result).await.map_err(NotCompleted::of)
    }

    /// Returns the claim. Dropping it does not release it; to have the work done again before its
    /// lease ends, [release](TieredClaim::release) it.
    pub fn into_claim(self) -> TieredClaim<S> {
        TieredClaim::of(self.unfinished.holder)
    }

    /// Returns the reason for which it is not recorded, and drops the claim, which stays in
    /// progress until its lease ends.
    pub fn into_error(self) -> ClaimError {
        self.unfinished.error
    }
}

impl<S: Store> From<NotCompleted<S>> for ClaimError {
    fn from(not_completed: NotCompleted<S>) -> Self {
        not_completed.into_error()
    }
}

impl fmt::Debug for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotCompleted")
            .field("key", &self.holder.key)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<S: Store> fmt::Debug for NotCompleted<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.unfinished.fmt(f)
    }
}

impl<S: Store> fmt::Display for NotCompleted<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the work was done, but not recorded: {}", self.unfinished.error)
    }
}

impl<S: Store> std::error::Error for NotCompleted<S> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.unfinished.error)
    }
}

/// Claims that are completed together, with their places in the caller's list.
type Placed = Vec<(usize, Holder, Patience)>;
type Completed = Result<(), Box<Unfinished>>;

impl Engine {
    /// Completes claims, each for as long as its lease; or with one try, if the caller is not
    /// patient.
    pub(super) fn complete_batch(&self, claims: Vec<Holder>, is_patient: bool) -> Answering<'_, Vec<Completed>> {
        Box::pin(async move {
            let (now, count) = (Instant::now(), claims.len());
            let (mut together, mut parts) = (Placed::new(), Vec::new());
            for (place, mut claim) in claims.into_iter().enumerate() {
                claim.work_is_done();
                if claim.is_in_store_of(&self.inner, &self.policy) {
                    let patience = Patience::new(now, claim.lease());
                    together.push((place, claim, patience));
                    continue;
                }
                let completing = if is_patient { claim.complete(None) } else { claim.complete_once() };
                let part: Answering<'_, _> = Box::pin(async move { (vec![place], vec![completing.await]) });
                parts.push(part);
            }
            parts.push(Box::pin(self.complete_together(together, is_patient)));
            in_order(count, all(parts).await)
        })
    }

    async fn complete_together(&self, claims: Placed, is_patient: bool) -> (Vec<usize>, Vec<Completed>) {
        let (mut open, mut places, mut ended) = (claims, Vec::new(), Vec::new());
        while !open.is_empty() {
            let completions = open.iter().map(|(_, claim, _)| claim.completion(None)).collect();
            let answers = self.inner.ask::<Completions>(&self.policy.memory, completions).await;
            // One pause for all, so that they are requested together again.
            let (random, mut next) = (self.inner.random(), Duration::MAX);
            let asked = std::mem::take(&mut open);
            for ((place, claim, mut patience), held) in asked.into_iter().zip(answers) {
                let completed = claim.held(held);
                let pause = if is_patient { claim.pause(&completed, &mut patience, random) } else { None };
                match pause {
                    Some(pause) => {
                        next = next.min(pause);
                        open.push((place, claim, patience));
                    }
                    None => {
                        places.push(place);
                        ended.push(claim.completed(completed, None));
                    }
                }
            }
            if !open.is_empty() {
                self.renew_together(&mut open).await;
                tokio::time::sleep(next).await;
            }
        }
        (places, ended)
    }

    async fn renew_together(&self, claims: &mut Placed) {
        let mut due: Vec<&mut Holder> =
            claims.iter_mut().map(|(_, claim, _)| claim).filter(|claim| claim.is_to_be_renewed()).collect();
        if due.is_empty() {
            return;
        }
        let renewals = due.iter().map(|claim| claim.renewal()).collect();
        let asked_at = Instant::now();
        let answers = self.inner.ask::<Renewals>(&self.policy.memory, renewals).await;
        for (claim, renewed) in due.iter_mut().zip(answers) {
            // Only the completion tells whether the claim was lost.
            let _ = claim.renewed(asked_at, renewed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_is_tried_for_as_long_as_a_lease_is() {
        for (lease, random) in [(Duration::from_secs(5), 1), (Duration::from_millis(100), u64::MAX)] {
            let start = Instant::now();
            let (mut patience, mut now, mut tries) = (Patience::new(start, lease), start, 0);
            while let Some(pause) = patience.pause(now, random) {
                assert!(!pause.is_zero() && pause <= lease / 8, "{pause:?}");
                now += pause;
                tries += 1;
            }
            assert_eq!(now - start, lease, "the last try is when it is over");
            assert!((8..40).contains(&tries), "{tries}");
        }
        let never = &mut Patience::new(Instant::now(), Duration::MAX);
        assert!((0..100).all(|_| never.pause(Instant::now(), 7).is_some_and(|pause| pause <= Duration::from_secs(1))));
        assert!(Patience::new(Instant::now(), Duration::ZERO).pause(Instant::now(), 0).is_none());
    }
}
