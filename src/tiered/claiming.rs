//! Claims as users of an asynchronous engine see them.

use super::claim::{ClaimError, Done, TieredAttempt, TieredClaim, TieredClaimOptions};
use super::dedup::TieredDedup;
use super::engine::{Engine, Name};
use super::holder::{Attempt, Holder, Where};
use super::inner::Ownership;
use super::operation::{Claims, Completions};
use crate::claims::Tried;
use crate::digest::Digest;
use crate::store::erased::Answering;
use crate::store::{ClaimRequest, Claimed, Completed, Fingerprint, Known, RecordKey, Store, StoreError};
use crate::{OnStoreError, Outcome, Tier, Token, Verdict};
use std::fmt;
use std::time::Duration;
use tokio::time::Instant;

/// What [`TieredDedup::once`] came to, if nothing went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TieredOnce<T> {
    /// The work was done, now, with this output, and its completion is recorded.
    Done(T),
    /// Somebody else is at it.
    InProgress {
        /// How long until the id can be had.
        lease_left: Duration,
    },
    /// It was done before.
    Duplicate(Done),
    /// Too many ids are in flight in this process.
    TooMany,
}

/// Why [`TieredDedup::once`] did not complete.
#[derive(Clone, Debug)]
pub enum TieredOnceError<T, E> {
    /// The id could not be claimed. The work was not begun.
    Claim(StoreError),
    /// The work failed. The id was released: the next delivery is handled.
    Work(E),
    /// The work was done, but that could not be recorded.
    Complete {
        /// What the work came to.
        output: T,
        /// Why it was not recorded.
        error: ClaimError,
    },
}

impl<T, E: fmt::Display> fmt::Display for TieredOnceError<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TieredOnceError::Claim(error) => write!(f, "the id could not be claimed: {error}"),
            TieredOnceError::Work(error) => write!(f, "the work failed, and its id was released: {error}"),
            TieredOnceError::Complete { error, .. } => write!(f, "the work was done, but not recorded: {error}"),
        }
    }
}

impl<T: fmt::Debug, E: std::error::Error + 'static> std::error::Error for TieredOnceError<T, E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TieredOnceError::Claim(error) => Some(error),
            TieredOnceError::Work(error) => Some(error),
            TieredOnceError::Complete { error, .. } => Some(error),
        }
    }
}

impl<S: Store> TieredDedup<S> {
    /// Claims an id: nobody else gets it, in any process, until the claim is completed, released or dropped, or its lease has expired.
    ///
    /// ```
    /// # use hapax::{TieredDedup, store::InMemoryStore};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let dedup = TieredDedup::builder(InMemoryStore::new()).build().await?;
    /// let claim = dedup.claim("a").await?.claimed().expect("nobody else has it");
    /// assert!(dedup.claim("a").await?.is_in_progress());
    /// claim.complete().await?;
    /// assert!(dedup.claim("a").await?.is_duplicate());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The store's, unless the policy is to admit messages then. Nothing is claimed, or the lease expires by itself.
    pub fn claim(&self, id: impl AsRef<[u8]>) -> impl Future<Output = Result<TieredAttempt<S>, StoreError>> + Send {
        self.claim_with(id, TieredClaimOptions::new())
    }

    /// The same with a lease of its own, a fingerprint of the message, or a wish for the result; see [`TieredClaimOptions`].
    ///
    /// # Errors
    ///
    /// As [`claim`](TieredDedup::claim).
    pub fn claim_with(
        &self,
        id: impl AsRef<[u8]>,
        options: TieredClaimOptions,
    ) -> impl Future<Output = Result<TieredAttempt<S>, StoreError>> + Send {
        let name = self.engine.name(id);
        async move {
            let attempt = match self.engine.claim_in_memory(name, &options) {
                Ok(attempt) => attempt,
                Err(name) => self.engine.claim(name, options).await,
            };
            attempt.map(TieredAttempt::of)
        }
    }

    /// The same, but waits while the id is in progress, for so long.
    ///
    /// [`TieredAttempt::InProgress`] means that the time is up. It asks again after 5 ms, twice that, and so on up to a quarter of a second, so that is
    /// by how much it may be late.
    ///
    /// # Errors
    ///
    /// As [`claim`](TieredDedup::claim).
    pub fn claim_wait(
        &self,
        id: impl AsRef<[u8]>,
        patience: Duration,
    ) -> impl Future<Output = Result<TieredAttempt<S>, StoreError>> + Send {
        let name = self.engine.name(id);
        async move { self.engine.claim_wait(name, patience).await.map(TieredAttempt::of) }
    }

    /// Claims many ids, in order: one attempt or error for each.
    pub fn claim_batch<I>(&self, ids: I) -> impl Future<Output = Vec<Result<TieredAttempt<S>, StoreError>>> + Send
    where
        I: IntoIterator<Item: AsRef<[u8]>>,
    {
        let names = self.engine.names(ids);
        async move { self.engine.claim_named(names).await.into_iter().map(|it| it.map(TieredAttempt::of)).collect() }
    }

    /// The same for ids that were named before.
    #[cfg(feature = "stream")]
    pub(crate) async fn claim_named(&self, names: Vec<Name>) -> Vec<Result<TieredAttempt<S>, StoreError>> {
        self.engine.claim_named(names).await.into_iter().map(|it| it.map(TieredAttempt::of)).collect()
    }

    /// Completes many claims, in order.
    pub async fn complete_batch(
        &self,
        claims: impl IntoIterator<Item = TieredClaim<S>>,
    ) -> Vec<Result<(), ClaimError>> {
        self.engine.complete_batch(claims.into_iter().map(TieredClaim::holder).collect()).await
    }

    /// Claims an id, does the work, and completes the claim; releases it if the work fails, panics or is dropped.
    ///
    /// ```
    /// # use hapax::{TieredDedup, TieredOnce, store::InMemoryStore};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let dedup = TieredDedup::builder(InMemoryStore::new()).build().await?;
    /// let parse = |id: &'static str| dedup.once(id, move |_token| async move { id.parse::<u64>() });
    /// assert_eq!(parse("17").await?, TieredOnce::Done(17));
    /// assert!(matches!(parse("17").await?, TieredOnce::Duplicate(_)));
    /// assert!(parse("seventeen").await.is_err());
    /// assert!(parse("seventeen").await.is_err()); // handled again, since it failed
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The work gets the fencing token for its own writes. It should take less than the lease; where it may not, use
    /// [`claim`](TieredDedup::claim), and renew.
    ///
    /// # Errors
    ///
    /// [`TieredOnceError`]: the claim, the work or the completion.
    pub async fn once<T, E, F>(
        &self,
        id: impl AsRef<[u8]>,
        work: impl FnOnce(Token) -> F,
    ) -> Result<TieredOnce<T>, TieredOnceError<T, E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        let claim = match self.claim(id).await.map_err(TieredOnceError::Claim)? {
            TieredAttempt::Claimed(claim) => claim,
            TieredAttempt::InProgress { lease_left } => return Ok(TieredOnce::InProgress { lease_left }),
            TieredAttempt::Duplicate(done) => return Ok(TieredOnce::Duplicate(done)),
            TieredAttempt::TooMany => return Ok(TieredOnce::TooMany),
            TieredAttempt::Mismatch => unreachable!("there is no fingerprint"),
        };
        let output = match work(claim.token()).await {
            Ok(output) => output,
            Err(error) => {
                // If that fails, the lease expires; the caller has the error that matters.
                let _ = claim.release().await;
                return Err(TieredOnceError::Work(error));
            }
        };
        match claim.complete().await {
            Ok(()) => Ok(TieredOnce::Done(output)),
            Err(error) => Err(TieredOnceError::Complete { output, error }),
        }
    }
}

impl Engine {
    /// What memory says, if that is enough; otherwise what to ask about.
    fn claim_in_memory(&self, name: Name, options: &TieredClaimOptions) -> Result<Result<Attempt, StoreError>, Name> {
        if let Err(error) = self.inner.admit() {
            return Ok(Err(error));
        }
        let answer = match self.inner.ownership {
            Ownership::Exclusive if self.is_new(name.1) => Some(self.claim_here(name.1, options)),
            _ => self.known(name.1, options),
        };
        match answer {
            Some(answer) => Ok(self.attempted(name, options, Ok(answer))),
            None => Err(name),
        }
    }

    /// What the store says of what memory does not know.
    fn claim(&self, name: Name, options: TieredClaimOptions) -> Answering<'_, Result<Attempt, StoreError>> {
        Box::pin(async move {
            let answer = match self.inner.ownership {
                Ownership::Shared => self.answer_shared(&name, &options).await,
                Ownership::Exclusive => self.answer_exclusive(&name, &options).await,
            };
            self.attempted(name, &options, answer)
        })
    }

    fn claim_wait(&self, name: Name, patience: Duration) -> Answering<'_, Result<Attempt, StoreError>> {
        let options = TieredClaimOptions::new();
        Box::pin(async move {
            let (deadline, mut pause) = (Instant::now() + patience, Duration::from_millis(5));
            loop {
                let attempt = match self.claim_in_memory(name.clone(), &options) {
                    Ok(attempt) => attempt?,
                    Err(name) => self.claim(name, options).await?,
                };
                let Attempt::InProgress { lease_left } = attempt else { return Ok(attempt) };
                if Instant::now() >= deadline {
                    return Ok(attempt);
                }
                tokio::time::sleep_until(deadline.min(Instant::now() + pause.min(lease_left))).await;
                pause = (2 * pause).min(Duration::from_millis(250));
            }
        })
    }

    fn claim_named(&self, names: Vec<Name>) -> Answering<'_, Vec<Result<Attempt, StoreError>>> {
        Box::pin(async move {
            if let Err(error) = self.inner.admit() {
                return names.iter().map(|_| Err(error.clone())).collect();
            }
            let options = TieredClaimOptions::new();
            let answers = match self.inner.ownership {
                Ownership::Shared => self.answers_shared(&names, &options).await,
                Ownership::Exclusive => self.answers_exclusive(&names, &options).await,
            };
            names.into_iter().zip(answers).map(|(name, answer)| self.attempted(name, &options, answer)).collect()
        })
    }

    fn complete_batch(&self, claims: Vec<Holder>) -> Answering<'_, Vec<Result<(), ClaimError>>> {
        Box::pin(async move {
            let mut ended: Vec<Option<Result<(), ClaimError>>> = Vec::new();
            let (mut together, mut apart) = (Vec::new(), Vec::new());
            for (place, mut claim) in claims.into_iter().enumerate() {
                ended.push(None);
                match claim.close_if_in_store(&self.inner, &self.policy) {
                    true => together.push((place, claim)),
                    false => apart.push((place, claim)),
                }
            }
            let completions = together.iter().map(|(_, claim)| claim.completion(None)).collect();
            let together_ended = self.inner.ask::<Completions>(&self.policy.memory, completions);
            let mut tasks = tokio::task::JoinSet::new();
            for (place, claim) in apart {
                tasks.spawn_on(async move { (place, claim.complete(None).await) }, &self.inner.runtime);
            }
            for ((place, claim), held) in together.iter().zip(together_ended.await) {
                ended[*place] = Some(claim.completed_with_others(held));
            }
            while let Some(Ok((place, end))) = tasks.join_next().await {
                ended[place] = Some(end);
            }
            let unknown = || {
                let ended = "the runtime that completes claims has ended";
                Err(ClaimError::Store(StoreError::new(crate::store::ErrorKind::Unavailable, "hapax", ended)))
            };
            ended.into_iter().map(|end| end.unwrap_or_else(unknown)).collect()
        })
    }

    async fn answer_shared(&self, (key, id): &Name, options: &TieredClaimOptions) -> Result<Answer, StoreError> {
        let request = self.request(key.clone(), *id, options);
        let claimed = self.inner.ask_one::<Claims>(&self.policy.memory, request, *id).await?;
        Ok(Answer::of(claimed))
    }

    async fn answers_shared(&self, names: &[Name], options: &TieredClaimOptions) -> Vec<Result<Answer, StoreError>> {
        let known: Vec<Option<Answer>> = names.iter().map(|(_, id)| self.known(*id, options)).collect();
        let unknown = names.iter().zip(&known).filter(|(_, known)| known.is_none());
        let requests = unknown.map(|((key, id), _)| (self.request(key.clone(), *id, options), *id)).collect();
        let mut claimed = self.inner.ask::<Claims>(&self.policy.memory, requests).await.into_iter();
        let answer = |known| match known {
            Some(known) => Ok(known),
            None => claimed.next().map_or(Ok(Answer::TooMany), |claimed| claimed.map(Answer::of)),
        };
        known.into_iter().map(answer).collect()
    }

    /// What memory says, if that is enough.
    fn known(&self, id: Digest, options: &TieredClaimOptions) -> Option<Answer> {
        let suffices = options.fingerprint.is_none() && !options.wants_result;
        (suffices && self.policy.memory.is_done(id)).then_some(Answer::Duplicate { tier: Tier::Window, result: None })
    }

    fn request(&self, key: RecordKey, id: Digest, options: &TieredClaimOptions) -> ClaimRequest {
        let lease = options.lease.unwrap_or(self.policy.lease);
        ClaimRequest { key, attempt: self.inner.attempt(id), lease, fingerprint: options.fingerprint }
    }

    /// What this process says, which is the only one: the store is asked only about what the history may know.
    async fn answer_exclusive(&self, (key, id): &Name, options: &TieredClaimOptions) -> Result<Answer, StoreError> {
        let known = self.look_up(key.clone(), *id).await?;
        Ok(Answer::of_known(known, options.fingerprint).unwrap_or_else(|| self.claim_here(*id, options)))
    }

    async fn answers_exclusive(&self, names: &[Name], options: &TieredClaimOptions) -> Vec<Result<Answer, StoreError>> {
        let known: Vec<Option<Answer>> = names.iter().map(|(_, id)| self.known(*id, options)).collect();
        let is_asked = |place: &usize| known[*place].is_none() && !self.is_new(names[*place].1);
        let asked: Vec<usize> = (0..names.len()).filter(is_asked).collect();
        let mut answers: Vec<Option<Result<Answer, StoreError>>> =
            known.into_iter().map(|known| known.map(Ok)).collect();
        for (place, known) in asked.iter().zip(self.look_up_batch(&asked, names).await) {
            answers[*place] = known.map(|known| Answer::of_known(known, options.fingerprint)).transpose();
        }
        let answers = answers.into_iter().zip(names);
        answers.map(|(answer, (_, id))| answer.unwrap_or_else(|| Ok(self.claim_here(*id, options)))).collect()
    }

    /// Whether the history knows that nobody has completed it.
    fn is_new(&self, id: Digest) -> bool {
        self.inner.is_warm() && self.policy.memory.is_new(id)
    }

    /// Claims an id that the store does not know.
    fn claim_here(&self, id: Digest, options: &TieredClaimOptions) -> Answer {
        let lease = options.lease.unwrap_or(self.policy.lease);
        match self.policy.memory.claim(id, lease, options.fingerprint) {
            Tried::Claimed(token) => Answer::Claimed(Where::Here { token }),
            Tried::InProgress(lease_left) => Answer::InProgress { lease_left },
            Tried::Duplicate(_) => Answer::Duplicate { tier: Tier::Window, result: None },
            Tried::Mismatch => Answer::Mismatch,
            Tried::TooMany => Answer::TooMany,
        }
    }

    /// What the caller is told, by the policy, and counts.
    fn attempted(
        &self,
        name: Name,
        options: &TieredClaimOptions,
        answer: Result<Answer, StoreError>,
    ) -> Result<Attempt, StoreError> {
        let answer = match answer {
            Err(error) if error.kind().is_transient() && self.policy.on_store_error == OnStoreError::Admit => {
                Answer::Claimed(Where::Admitted)
            }
            answer => answer?,
        };
        let mut verdict = answer.verdict();
        if self.policy.shadow {
            verdict = verdict.map(Verdict::shadowed);
        }
        if let Some(verdict) = verdict {
            self.policy.verdicts.count(verdict);
        }
        match answer {
            Answer::Mismatch => self.policy.verdicts.meters.mismatched(),
            Answer::TooMany => self.policy.verdicts.meters.refused(),
            _ => {}
        }
        let hold = |held| Attempt::Claimed(Holder::new(self, name, options, held));
        Ok(match answer {
            Answer::Claimed(held) => hold(held),
            _ if self.policy.shadow => hold(Where::Shadow),
            Answer::InProgress { lease_left } => Attempt::InProgress { lease_left },
            Answer::Duplicate { tier, result } => {
                Attempt::Duplicate(Done { verdict: Verdict::exact(Outcome::Duplicate, tier), result })
            }
            Answer::Mismatch => Attempt::Mismatch,
            Answer::TooMany => Attempt::TooMany,
        })
    }
}

/// What an attempt came to, before the policy.
enum Answer {
    Claimed(Where),
    InProgress { lease_left: Duration },
    Duplicate { tier: Tier, result: Option<Vec<u8>> },
    Mismatch,
    TooMany,
}

impl Answer {
    fn of(claimed: Claimed) -> Self {
        match claimed {
            Claimed::Claimed { token } => Answer::Claimed(Where::Store { token }),
            Claimed::InProgress { lease_left } => Answer::InProgress { lease_left },
            Claimed::Duplicate(completed) => Answer::Duplicate { tier: Tier::Store, result: completed.result },
            Claimed::Mismatch => Answer::Mismatch,
        }
    }

    /// `None` if anybody may have the id.
    fn of_known(known: Known, asked: Option<Fingerprint>) -> Option<Self> {
        Some(match known {
            Known::Unknown => return None,
            Known::InProgress { fingerprint, .. } | Known::Completed(Completed { fingerprint, .. })
                if Fingerprint::differ(asked, fingerprint) =>
            {
                Answer::Mismatch
            }
            Known::InProgress { lease_left, .. } => Answer::InProgress { lease_left },
            Known::Completed(completed) => Answer::Duplicate { tier: Tier::Store, result: completed.result },
        })
    }

    /// As it is counted.
    fn verdict(&self) -> Option<Verdict> {
        Some(match self {
            Answer::Claimed(Where::Store { .. }) => Verdict::exact(Outcome::Fresh, Tier::Store),
            Answer::Claimed(Where::Admitted) => Verdict::unverified(),
            Answer::Claimed(_) => Verdict::exact(Outcome::Fresh, Tier::Window),
            Answer::InProgress { .. } => Verdict::exact(Outcome::InProgress, Tier::Store),
            Answer::Duplicate { tier, .. } => Verdict::exact(Outcome::Duplicate, *tier),
            Answer::Mismatch => Verdict::exact(Outcome::Duplicate, Tier::Store),
            Answer::TooMany => return None,
        })
    }
}
