//! An engine with its store behind a pointer, so that it is compiled once: here, and not for each
//! store in each program.
//!
//! A call of the store is a future behind a pointer for the same reason, one allocation for a round
//! trip. An answer from memory is not.

use super::bypass::Bypass;
use super::ownership_state::OwnershipState;
use super::policy::{EVERYWHERE, PolicyState};
use super::side_record::{self, SideRecord};
use super::stats::TieredStats;
use crate::attempt_count::AttemptCount;
use crate::backend::times;
use crate::dyn_store::Answering;
use crate::tiered::batching::{Client, Forgets, LookUps, ended, in_order};
use crate::tiered::digest::{digest, digest_of};
use crate::tiered::join_all::join_all;
use crate::tiered::observe::RequestKind;
use crate::{ErrorKind, Known, RecordKey, Scope, StoreError};
use hapax::seam::{Digest, Digester};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The content of [`TieredDedup`](crate::TieredDedup) without the type of its store.
#[derive(Clone)]
pub(crate) struct Engine {
    pub(crate) client: Arc<Client>,
    policies: Arc<HashMap<String, Arc<PolicyState>>>,
    pub(crate) scope: Scope,
    pub(crate) digester: Digester,
    pub(crate) policy: Arc<PolicyState>,
    pub(crate) bypass: Arc<Bypass>,
}

/// An id as the store knows it, and as memory does.
#[doc(hidden)]
pub type Name = (RecordKey, Digest);

impl Engine {
    pub(crate) fn new(
        client: Arc<Client>,
        policies: Arc<HashMap<String, Arc<PolicyState>>>,
        scope: &str,
    ) -> Result<Self, StoreError> {
        let scope = Scope::new(scope)?;
        let policy = scope
            .with_those_above()
            .find_map(|name| policies.get(name))
            .or_else(|| policies.get(EVERYWHERE))
            .cloned()
            .ok_or_else(|| StoreError::new(ErrorKind::Misconfigured, "hapax", "an engine without policies"))?;
        let digester = policy.memory.digester(scope.as_str());
        Ok(Engine { client, policies, scope, digester, policy, bypass: Arc::default() })
    }

    #[inline]
    pub(crate) fn ownership(&self) -> &OwnershipState {
        &self.policy.ownership
    }

    pub(crate) fn with_scope(&self, scope: &str) -> Result<Self, StoreError> {
        let engine = Self::new(Arc::clone(&self.client), Arc::clone(&self.policies), scope)?;
        Ok(Engine { bypass: Arc::clone(&self.bypass), ..engine })
    }

    pub(crate) fn with_subscope(&self, name: &str) -> Result<Self, StoreError> {
        self.with_scope(self.scope.beneath(name)?.as_str())
    }

    pub(crate) fn with_own_bypass(&self) -> Self {
        Engine { bypass: self.bypass.beneath(), ..self.clone() }
    }

    /// Returns true if ids pass undecided now, and counts this many then.
    pub(crate) fn passes(&self, ids: usize) -> bool {
        let passes = self.bypass.is_on();
        if passes {
            self.policy.verdicts.bypassed.add(ids as u64);
        }
        passes
    }

    pub(crate) fn name(&self, id: impl AsRef<[u8]>) -> Name {
        let key = RecordKey::new(&self.scope, id);
        let digest = digest(&self.digester, &key.id);
        (key, digest)
    }

    pub(crate) fn names(&self, ids: impl IntoIterator<Item: AsRef<[u8]>>) -> Vec<Name> {
        hapax::seam::collect(ids.into_iter().map(|id| self.name(id)))
    }

    pub(crate) fn stats(&self) -> TieredStats {
        TieredStats::of(&self.client, self.ownership(), self.policies.values())
    }

    pub(crate) fn forget(&self, (key, id): Name) -> Answering<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            self.ownership().admit()?;
            self.client.settle(self.client.nodes.node(&key)).await?;
            let noted = side_record::key_of(&key);
            let note = (noted.clone(), digest_of(&self.policy.memory, &noted));
            let mut answers = self.client.ask::<Forgets>(&self.policy.memory, vec![(key, id), note]).await.into_iter();
            // After the store, since memory may have learned of it in between.
            self.policy.memory.forget(id);
            let forgotten = answers.next().unwrap_or_else(|| Err(ended()));
            answers.next().unwrap_or_else(|| Err(ended())).and(forgotten)
        })
    }

    pub(crate) fn redrive(&self, (key, _): Name) -> Answering<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            let note = SideRecord::new(&self.client, &self.policy, &key);
            let waits = AttemptCount::decode(note.read().await?).waits_aside();
            if waits {
                note.forgotten().await?;
            }
            Ok(waits)
        })
    }

    pub(crate) fn flush(&self) -> Answering<'_, Result<(), StoreError>> {
        Box::pin(self.client.caller.patiently(self.client.nodes.settle()))
    }

    pub(crate) fn warm(&self) -> Answering<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            const PAGE: usize = 10_000;
            let caller = &self.client.caller;
            let (mut ids, mut cursor) = (0, None);
            loop {
                self.ownership().admit()?;
                let call = caller.observer.begin(RequestKind::Scan, PAGE);
                let page = caller.patiently(call.under_way(caller.store.scan(cursor.as_ref(), PAGE))).await;
                call.ended(page.as_ref().err().map(StoreError::kind));
                let page = page?;
                let before = ids;
                let mut digesters: HashMap<Scope, (Digester, Arc<PolicyState>)> = HashMap::new();
                for found in page.found {
                    let scope = &found.key.scope;
                    if scope.is_reserved() {
                        continue;
                    }
                    let (digester, policy) = match digesters.get(scope) {
                        Some(known) => known,
                        None => {
                            let handle = self.with_scope(scope.as_str())?;
                            digesters.entry(scope.clone()).or_insert((handle.digester, handle.policy))
                        }
                    };
                    let id = digest(digester, &found.key.id);
                    if policy.memory.has_history() || policy.memory.may_learn(found.expires_in) {
                        policy.memory.warm(&[id]);
                    }
                    ids += 1;
                }
                caller.observer.warmed.add(ids - before);
                cursor = page.next;
                if cursor.is_none() {
                    self.ownership().warm();
                    caller.observer.warm(ids);
                    return Ok(ids);
                }
            }
        })
    }

    pub(crate) fn shutdown(&self, deadline: Duration) -> Answering<'_, Result<(), StoreError>> {
        Box::pin(async move {
            times::check_or_none("deadline", deadline)?;
            let until = Instant::now() + deadline;
            let shut = StoreError::new(ErrorKind::Unavailable, "hapax", "the engine was shut down");
            self.ownership().refuse(shut);
            // Marks that no caller was told of are taken back first, while the batchers are open.
            while self.client.lost_marks.lock().open() > 0 && Instant::now() < until {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            self.client.nodes.close();
            let mut last = None;
            loop {
                let waiting = self.client.nodes.len() + self.client.len_given_back();
                let behind = self.client.nodes.len_behind();
                if waiting == 0 && behind == 0 {
                    break;
                }
                if Instant::now() >= until {
                    let left = format!(
                        "after {deadline:?}, {waiting} requests are under way, and {behind} records are not durable"
                    );
                    return Err(match last {
                        Some(error) => StoreError::caused(ErrorKind::Timeout, "hapax", left, error),
                        None => StoreError::new(ErrorKind::Timeout, "hapax", left),
                    });
                }
                match tokio::time::timeout_at(until, self.client.nodes.settle()).await {
                    Ok(Err(error)) => last = Some(error),
                    _ => tokio::time::sleep(Duration::from_millis(1)).await,
                }
            }
            self.client.nodes.iter().for_each(|node| node.write_behind.close());
            if let Some(lease) = self.ownership().owner_lease() {
                let released = tokio::time::timeout_at(
                    until.max(Instant::now() + self.client.caller.timeout),
                    lease.release(&*self.client.caller.store),
                );
                if let Ok(released) = released.await {
                    released?;
                }
            }
            match self.client.lost_marks.lock().open() {
                0 => Ok(()),
                open => {
                    let left = format!("after {deadline:?}, {open} marks of which nobody was told are not taken back");
                    Err(StoreError::new(ErrorKind::Timeout, "hapax", left))
                }
            }
        })
    }

    /// Looks up an id in an exclusive engine's store. The store knows nothing of records that are
    /// not written yet, so these are written first.
    pub(crate) async fn look_up(&self, key: RecordKey, id: Digest) -> Result<Known, StoreError> {
        self.client.settle(self.client.nodes.node(&key)).await?;
        self.client.ask_one::<LookUps>(&self.policy.memory, key, id).await
    }

    /// Looks up the ids at these places.
    pub(crate) async fn look_up_batch(&self, places: &[usize], names: &[Name]) -> Vec<Result<Known, StoreError>> {
        let asked = places.iter().map(|&place| names[place].clone()).enumerate();
        let parts = self.client.nodes.by_node(asked, |name| &name.0).into_iter().map(|part| async move {
            let known = match self.client.settle(part.node).await {
                Ok(()) => self.client.ask::<LookUps>(&self.policy.memory, part.asked).await,
                Err(error) => part.asked.iter().map(|_| Err(error.clone())).collect(),
            };
            (part.places, known)
        });
        in_order(places.len(), join_all(parts).await)
    }
}
