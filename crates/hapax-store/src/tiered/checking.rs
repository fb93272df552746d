//! Checks of an asynchronous engine.

use super::batching::{Marks, Node, UNNUMBERED, in_order};
use super::dedup::TieredDedup;
use super::engine::{Engine, Name};
use super::join_all::join_all;
use crate::dyn_store::Answering;
use crate::{Known, Mark, Marked, OnStoreError, Record, RecordKey, Store, StoreError};
use hapax::seam::{Digest, Guess};
use hapax::{Outcome, Tier, Verdict};
use tokio::sync::SemaphorePermit;

impl<S: Store> TieredDedup<S> {
    /// Checks whether an id is fresh or a duplicate. A fresh one is remembered from now on.
    ///
    /// This marks the id at first sight: if the process dies before the work is done, the message
    /// is lost, unless the engine is exclusive and was not [flushed](TieredDedup::flush).
    /// [`claim`](TieredDedup::claim) does not have this gap.
    ///
    /// If the answer of the store is lost, or the caller is dropped while it waits (a time-out),
    /// the mark is taken back. A caller in this process that asks meanwhile waits for that, for the
    /// engine's [time-out](crate::TieredBuilder::timeout) at most, and is told that the id is
    /// fresh. Until the mark is taken back, or for [`in_doubt`](crate::TieredBuilder::in_doubt) at
    /// least, other instances that meet it return [`Outcome::InProgress`], neither fresh nor a
    /// duplicate: such a message must come again.
    ///
    /// # Errors
    ///
    /// The store's, unless the policy admits messages then. The message should come again.
    pub fn check(&self, id: impl AsRef<[u8]>) -> impl Future<Output = Result<Verdict, StoreError>> + Send {
        let name = self.engine.name(id);
        async move {
            match self.engine.check_in_memory(&name) {
                Some(verdict) => verdict,
                None => self.engine.check(name).await,
            }
        }
    }

    /// Checks many ids, in order: one verdict or error for each.
    ///
    /// ```
    /// # use hapax_store::{InMemoryStore, TieredDedup};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let dedup = TieredDedup::builder(InMemoryStore::new()).build().await?;
    /// let mut fresh = Vec::new();
    /// for verdict in dedup.check_batch(["a", "a", "b"]).await {
    ///     fresh.push(verdict?.is_fresh());
    /// }
    /// assert_eq!(fresh, [true, false, true]);
    /// # Ok::<(), hapax_store::StoreError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_batch<I>(&self, ids: I) -> impl Future<Output = Vec<Result<Verdict, StoreError>>> + Send
    where
        I: IntoIterator<Item: AsRef<[u8]>>,
    {
        let names = self.engine.names(ids);
        async move { self.engine.check_named(names).await }
    }

    /// Checks ids that were named before.
    #[doc(hidden)]
    pub async fn check_named(&self, names: Vec<Name>) -> Vec<Result<Verdict, StoreError>> {
        self.engine.check_named(names).await
    }
}

impl Engine {
    /// Returns memory's verdict, if it suffices.
    pub(super) fn check_in_memory(&self, (key, id): &Name) -> Option<Result<Verdict, StoreError>> {
        if self.passes(1) {
            return Some(Ok(Verdict::unverified()));
        }
        if let Err(error) = self.ownership().admit() {
            return Some(Err(error));
        }
        let verdict = match self.ownership().is_exclusive {
            false if self.policy.memory.is_done(*id) => Verdict::exact(Outcome::Duplicate, Tier::Window),
            false => return None,
            true => {
                let node = self.client.nodes.node(key);
                let permit = node.write_behind.try_permits(1)?;
                let Guess::Certain(verdict) = self.policy.memory.check(*id, self.ownership().is_warm()) else {
                    return None;
                };
                self.write_behind(node, key, *id, verdict, permit);
                verdict
            }
        };
        Some(self.told(*id, Ok(verdict)))
    }

    /// Checks an id that memory does not know.
    pub(super) fn check(&self, (key, id): Name) -> Answering<'_, Result<Verdict, StoreError>> {
        Box::pin(async move {
            let verdict = if self.ownership().is_exclusive {
                self.check_exclusive(key, id).await
            } else {
                self.client.ask_one::<Marks>(&self.policy.memory, self.mark(key), id).await.map(verdict_of)
            };
            self.told(id, verdict)
        })
    }

    #[doc(hidden)]
    pub fn check_named(&self, names: Vec<Name>) -> Answering<'_, Vec<Result<Verdict, StoreError>>> {
        Box::pin(async move {
            if self.passes(names.len()) {
                return vec![Ok(Verdict::unverified()); names.len()];
            }
            if let Err(error) = self.ownership().admit() {
                return names.iter().map(|_| Err(error.clone())).collect();
            }
            let ids: Vec<Digest> = names.iter().map(|name| name.1).collect();
            let verdicts = if self.ownership().is_exclusive {
                self.check_batch_exclusive(names).await
            } else {
                self.check_batch_shared(names).await
            };
            ids.into_iter().zip(verdicts).map(|(id, verdict)| self.told(id, verdict)).collect()
        })
    }

    fn record(&self, key: RecordKey) -> Record {
        Record { key, retention: self.policy.retention, fingerprint: None, result: None }
    }

    fn mark(&self, key: RecordKey) -> Mark {
        Mark { key, attempt: UNNUMBERED, retention: self.policy.retention }
    }

    async fn check_batch_shared(&self, names: Vec<Name>) -> Vec<Result<Verdict, StoreError>> {
        let duplicate = Ok(Verdict::exact(Outcome::Duplicate, Tier::Window));
        let mut verdicts: Vec<_> = vec![duplicate; names.len()];
        let (mut places, mut marks) = (Vec::new(), Vec::new());
        let done = self.policy.memory.are_done(&names.iter().map(|name| name.1).collect::<Vec<_>>());
        for (place, ((key, id), is_done)) in names.into_iter().zip(done).enumerate() {
            if !is_done {
                places.push(place);
                marks.push((self.mark(key), id));
            }
        }
        let marked = self.client.ask::<Marks>(&self.policy.memory, marks).await;
        places.into_iter().zip(marked).for_each(|(place, marked)| verdicts[place] = marked.map(verdict_of));
        verdicts
    }

    /// Checks an id that only this process decides about: the store is asked whether it knows it,
    /// if the history may, and is told of it later.
    async fn check_exclusive(&self, key: RecordKey, id: Digest) -> Result<Verdict, StoreError> {
        let memory = &self.policy.memory;
        // Reserved before any caller is told that the id is fresh.
        let node = self.client.nodes.node(&key);
        let permit = self.client.permits(node, 1).await?;
        let verdict = match memory.check(id, self.ownership().is_warm()) {
            Guess::Certain(verdict) => verdict,
            Guess::Maybe => self.verdict_of_known(id, self.look_up(key.clone(), id).await?),
        };
        self.write_behind(node, &key, id, verdict, permit);
        Ok(verdict)
    }

    fn write_behind(&self, node: &Node, key: &RecordKey, id: Digest, verdict: Verdict, permit: SemaphorePermit<'_>) {
        if verdict.is_fresh() {
            self.client.write_behind(node, [(self.record(key.clone()), id)], permit);
        }
    }

    async fn check_batch_exclusive(&self, names: Vec<Name>) -> Vec<Result<Verdict, StoreError>> {
        let count = names.len();
        if let Some(node) = self.client.nodes.only_node(names.iter().map(|name| &name.0)) {
            return self.check_node_exclusive(node, &names).await;
        }
        let parts = self.client.nodes.by_node(names.into_iter().enumerate(), |name| &name.0);
        let parts = parts.into_iter().map(|part| async move {
            let verdicts = self.check_node_exclusive(part.node, &part.asked).await;
            (part.places, verdicts)
        });
        in_order(count, join_all(parts).await)
    }

    async fn check_node_exclusive(&self, node: &Node, names: &[Name]) -> Vec<Result<Verdict, StoreError>> {
        let (memory, mut verdicts) = (&self.policy.memory, Vec::with_capacity(names.len()));
        for names in names.chunks(EXCLUSIVE_BATCH.min(node.write_behind.max())) {
            let permits = match self.client.permits(node, names.len()).await {
                Ok(permits) => permits,
                Err(error) => {
                    verdicts.extend(names.iter().map(|_| Err(error.clone())));
                    continue;
                }
            };
            let ids: Vec<Digest> = names.iter().map(|name| name.1).collect();
            let guesses = memory.check_batch(&ids, self.ownership().is_warm());
            let maybe: Vec<usize> = (0..names.len()).filter(|&i| guesses[i] == Guess::Maybe).collect();
            let mut known = self.look_up_batch(&maybe, names).await.into_iter();
            let verdict = |(guess, id): (&Guess, &Digest)| match guess {
                Guess::Certain(verdict) => Ok(*verdict),
                Guess::Maybe => Ok(self.verdict_of_known(*id, known.next().unwrap_or(Ok(Known::Unknown))?)),
            };
            let start = verdicts.len();
            verdicts.extend(guesses.iter().zip(&ids).map(verdict));
            let is_fresh = |verdict: &Result<Verdict, StoreError>| verdict.as_ref().is_ok_and(|it| it.is_fresh());
            let fresh = names.iter().zip(&verdicts[start..]).filter(|(_, verdict)| is_fresh(verdict));
            self.client.write_behind(node, fresh.map(|((key, id), _)| (self.record(key.clone()), *id)), permits);
        }
        verdicts
    }

    /// Returns the verdict for an id of which the store knows this.
    fn verdict_of_known(&self, id: Digest, known: Known) -> Verdict {
        match known {
            Known::Unknown => self.policy.memory.check_unknown(id),
            Known::InProgress { .. } => Verdict::exact(Outcome::InProgress, Tier::Store),
            Known::Completed(_) => Verdict::exact(Outcome::Duplicate, Tier::Store),
        }
    }

    /// Returns the caller's verdict under the policy, and counts it.
    fn told(&self, id: Digest, verdict: Result<Verdict, StoreError>) -> Result<Verdict, StoreError> {
        let verdict = match verdict {
            Err(error) if error.kind().is_transient() && self.policy.on_store_error == OnStoreError::Admit => {
                // At least this process knows the id from now on.
                match self.policy.memory.check_unknown(id) {
                    verdict if verdict.is_fresh() => Verdict::unverified(),
                    known => known,
                }
            }
            verdict => verdict?,
        };
        let verdict = if self.policy.shadow { verdict.shadowed() } else { verdict };
        self.policy.verdicts.count(verdict);
        Ok(verdict)
    }
}

/// The number of ids that an exclusive engine checks at a time.
const EXCLUSIVE_BATCH: usize = 65_536;

fn verdict_of(marked: Marked) -> Verdict {
    let outcome = match marked {
        Marked::Fresh => Outcome::Fresh,
        Marked::Duplicate { .. } => Outcome::Duplicate,
        Marked::InProgress { .. } => Outcome::InProgress,
    };
    Verdict::exact(outcome, Tier::Store)
}
