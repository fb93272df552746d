//! Claims of an engine: the answers of memory and store, and the policy's decision on them.

use super::holder::{Attempt, Holder, Where};
use super::options::{Done, TieredClaimOptions};
use crate::back_off::BackOff;
use crate::backend::option;
use crate::backend::times::{self, HUNDRED_YEARS};
use crate::dyn_store::Answering;
use crate::tiered::batching::{Claims, UNNUMBERED};
use crate::tiered::engine::{Engine, Name};
use crate::{
    Before, ClaimRequest, Claimed, Completed, Fingerprint, HeldBy, Known, OnStoreError, RecordKey, StoreError,
};
use hapax::seam::{Digest, Tried};
use hapax::{Outcome, Tier, Verdict};
use std::time::Duration;
use tokio::time::Instant;

/// The pauses between looks at an id that is in progress.
const LOOKS: BackOff = BackOff { first: Duration::from_millis(5), max: Duration::from_millis(250) };

/// The number of times that the store is asked again for a result that memory does not know.
const MAX_BLIND: u32 = 3;

impl Engine {
    /// Returns memory's answer if it suffices, and otherwise the name to ask the store about.
    pub(crate) fn claim_in_memory(
        &self,
        name: Name,
        options: &TieredClaimOptions,
    ) -> Result<Result<Attempt, StoreError>, Name> {
        if self.passes(1) {
            return Ok(Ok(self.hold(name, options, Where::Nowhere, None)));
        }
        let lease = options.lease.map_or(Ok(()), |lease| times::check("lease", lease));
        if let Err(error) = self.ownership().admit().and(lease).and_then(|()| self.check_retention(options)) {
            return Ok(Err(error));
        }
        let answer = if self.ownership().is_exclusive && self.is_new(name.1) {
            Some(self.claim_here(name.1, options))
        } else {
            self.known(name.1, options)
        };
        match answer {
            Some(answer) => Ok(self.attempted(name, options, Ok(answer))),
            None => Err(name),
        }
    }

    fn check_retention(&self, options: &TieredClaimOptions) -> Result<(), StoreError> {
        let Some(retention) = options.retention else { return Ok(()) };
        let max = if self.ownership().is_exclusive { self.policy.retention } else { HUNDRED_YEARS };
        let is_valid = !retention.is_zero() && retention <= max;
        option::check("hapax", is_valid, "retention of a claim", &retention, &format!("up to {max:?}, not none"))
    }

    /// Claims an id that memory does not know: asks the store for it, or an exclusive engine, whose
    /// process decides alone, whether the store knows it.
    pub(crate) fn claim(&self, name: Name, options: TieredClaimOptions) -> Answering<'_, Result<Attempt, StoreError>> {
        Box::pin(async move {
            let (key, id) = (name.0.clone(), name.1);
            let answer = if self.ownership().is_exclusive {
                self.look_up(key, id).await.map(|known| self.decided(Answer::of_known(known, &options), id, &options))
            } else {
                let request = self.request(key, &options);
                self.client.ask_one::<Claims>(&self.policy.memory, request, id).await.map(Answer::of)
            };
            self.attempted(name, &options, answer)
        })
    }

    /// Claims an id, and looks again while it is in progress, up to this long.
    pub(super) fn claim_wait(
        &self,
        name: Name,
        options: TieredClaimOptions,
        patience: Duration,
    ) -> Answering<'_, Result<Attempt, StoreError>> {
        Box::pin(async move {
            times::check_or_none("patience", patience)?;
            let deadline = Instant::now() + patience;
            let (mut looks, mut blind) = (1_u32, 0);
            loop {
                let attempt = match self.claim_in_memory(name.clone(), &options) {
                    Ok(attempt) => attempt?,
                    Err(name) => self.claim(name, options.clone()).await?,
                };
                let lease_left = match &attempt {
                    // Memory knows that it is done, just now, but not its result: the store does.
                    Attempt::Duplicate(Done { result: None, verdict, .. })
                        if options.wants_result && verdict.tier() == Tier::Window && blind < MAX_BLIND =>
                    {
                        blind += 1;
                        continue;
                    }
                    Attempt::InProgress { lease_left, .. } if Instant::now() < deadline => *lease_left,
                    _ => return Ok(attempt),
                };
                // Waits a quarter of the pause at least, even if the lease is over at once: the
                // store may repeat its answer again and again. (And a lease that is over in the
                // store's time may not be in ours.)
                let random = self.client.caller.random.next();
                let wait = LOOKS.after(looks, random).min(lease_left.max(LOOKS.longest(looks) / 4));
                tokio::time::sleep_until(deadline.min(Instant::now() + wait)).await;
                looks = looks.saturating_add(1);
            }
        })
    }

    /// Claims ids, each with its options, whose lease and retention are not checked here.
    pub(super) fn claim_named(
        &self,
        claims: Vec<(Name, TieredClaimOptions)>,
    ) -> Answering<'_, Vec<Result<Attempt, StoreError>>> {
        Box::pin(async move {
            if self.passes(claims.len()) {
                let hold = |(name, options)| Ok(self.hold(name, &options, Where::Nowhere, None));
                return claims.into_iter().map(hold).collect();
            }
            if let Err(error) = self.ownership().admit() {
                return claims.iter().map(|_| Err(error.clone())).collect();
            }
            let (names, options): (Vec<_>, Vec<_>) = claims.into_iter().unzip();
            let answers = self.answers(&names, &options).await;
            let answers = names.into_iter().zip(&options).zip(answers);
            answers.map(|((name, options), answer)| self.attempted(name, options, answer)).collect()
        })
    }

    /// Answers many claims, in order, each as [`claim_in_memory`](Self::claim_in_memory) and
    /// [`claim`](Self::claim) would.
    async fn answers(&self, names: &[Name], options: &[TieredClaimOptions]) -> Vec<Result<Answer, StoreError>> {
        let is_exclusive = self.ownership().is_exclusive;
        let known = |((_, id), options): (&Name, &TieredClaimOptions)| Ok(self.known(*id, options));
        let mut answers: Vec<Result<Option<Answer>, StoreError>> = names.iter().zip(options).map(known).collect();
        let is_asked =
            |place: &usize| matches!(answers[*place], Ok(None)) && !(is_exclusive && self.is_new(names[*place].1));
        let asked: Vec<usize> = (0..names.len()).filter(is_asked).collect();
        if is_exclusive {
            for (&place, known) in asked.iter().zip(self.look_up_batch(&asked, names).await) {
                answers[place] = known.map(|known| Answer::of_known(known, &options[place]));
            }
        } else {
            let request = |place: &usize| (self.request(names[*place].0.clone(), &options[*place]), names[*place].1);
            let claimed = self.client.ask::<Claims>(&self.policy.memory, asked.iter().map(request).collect()).await;
            for (place, claimed) in asked.iter().zip(claimed) {
                answers[*place] = claimed.map(|claimed| Some(Answer::of(claimed)));
            }
        }
        let answers = answers.into_iter().zip(names).zip(options);
        answers.map(|((answer, (_, id)), options)| answer.map(|answer| self.decided(answer, *id, options))).collect()
    }

    /// Returns memory's answer, if it suffices.
    fn known(&self, id: Digest, options: &TieredClaimOptions) -> Option<Answer> {
        let suffices = options.fingerprint.is_none() && !options.wants_result;
        (suffices && self.policy.memory.is_done(id)).then_some(Answer::in_memory())
    }

    fn request(&self, key: RecordKey, options: &TieredClaimOptions) -> ClaimRequest {
        let lease = options.lease.unwrap_or(self.policy.lease);
        let held_by = options.held_by.as_ref().or(self.policy.held_by.as_ref()).cloned();
        // A message may come again as long as a completion of it would be remembered.
        let doubt = options.retention.unwrap_or(self.policy.retention);
        ClaimRequest { key, attempt: UNNUMBERED, lease, fingerprint: options.fingerprint, held_by, doubt }
    }

    /// Returns true if the history is certain that the id is not completed.
    fn is_new(&self, id: Digest) -> bool {
        self.ownership().is_warm() && self.policy.memory.is_new(id)
    }

    /// Returns this answer, or that of this process for an id that is new.
    fn decided(&self, answer: Option<Answer>, id: Digest, options: &TieredClaimOptions) -> Answer {
        debug_assert!(answer.is_some() || self.ownership().is_exclusive, "a shared store has answered");
        answer.unwrap_or_else(|| self.claim_here(id, options))
    }

    /// Claims an id that the store does not know.
    fn claim_here(&self, id: Digest, options: &TieredClaimOptions) -> Answer {
        let lease = options.lease.unwrap_or(self.policy.lease);
        match self.policy.memory.claim(id, lease, options.fingerprint.as_ref().map(|fingerprint| &fingerprint.0[..])) {
            Tried::Claimed(token) => Answer::Claimed(Where::Here { token }, None),
            Tried::InProgress(lease_left) => Answer::InProgress { lease_left, held_by: None },
            Tried::Duplicate(_) => Answer::in_memory(),
            Tried::Mismatch => Answer::Mismatch,
            Tried::TooMany => Answer::TooMany,
        }
    }

    fn hold(&self, name: Name, options: &TieredClaimOptions, held: Where, before: Option<Box<Before>>) -> Attempt {
        Attempt::Claimed(Holder::new(self, name, options, held, before))
    }

    /// Returns the caller's answer under the policy, and counts it.
    fn attempted(
        &self,
        name: Name,
        options: &TieredClaimOptions,
        answer: Result<Answer, StoreError>,
    ) -> Result<Attempt, StoreError> {
        let answer = match answer {
            Err(error) if error.kind().is_transient() && self.policy.on_store_error == OnStoreError::Admit => {
                Answer::Claimed(Where::Admitted, None)
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
            Answer::Mismatch => self.policy.verdicts.mismatches.add(1),
            Answer::TooMany => self.policy.verdicts.refused.add(1),
            _ => {}
        }
        Ok(match answer {
            Answer::Claimed(held, before) => self.hold(name, options, held, before),
            _ if self.policy.shadow => self.hold(name, options, Where::Nowhere, None),
            Answer::InProgress { lease_left, held_by } => Attempt::InProgress { lease_left, held_by },
            Answer::Duplicate { tier, result, expires_in } => {
                Attempt::Duplicate(Done { verdict: Verdict::exact(Outcome::Duplicate, tier), result, expires_in })
            }
            Answer::Mismatch => Attempt::Mismatch,
            Answer::TooMany => Attempt::TooMany,
        })
    }
}

/// The result of an attempt, before the policy is applied.
enum Answer {
    Claimed(Where, Option<Box<Before>>),
    InProgress { lease_left: Duration, held_by: Option<HeldBy> },
    Duplicate { tier: Tier, result: Option<Vec<u8>>, expires_in: Option<Duration> },
    Mismatch,
    TooMany,
}

impl Answer {
    fn in_memory() -> Self {
        Answer::Duplicate { tier: Tier::Window, result: None, expires_in: None }
    }

    fn in_store(Completed { expires_in, result, .. }: Completed) -> Self {
        Answer::Duplicate { tier: Tier::Store, result, expires_in: Some(expires_in) }
    }

    fn of(claimed: Claimed) -> Self {
        match claimed {
            Claimed::Claimed { token, before } => Answer::Claimed(Where::Store { token }, before.map(Box::new)),
            Claimed::InProgress { lease_left, held_by } => Answer::InProgress { lease_left, held_by },
            Claimed::Duplicate(completed) => Answer::in_store(completed),
            Claimed::Mismatch => Answer::Mismatch,
        }
    }

    /// Returns the answer for a state of the store, or `None` if the id is free.
    fn of_known(known: Known, options: &TieredClaimOptions) -> Option<Self> {
        Some(match known {
            Known::Unknown => return None,
            Known::InProgress { fingerprint, .. } | Known::Completed(Completed { fingerprint, .. })
                if Fingerprint::differ(options.fingerprint, fingerprint) =>
            {
                Answer::Mismatch
            }
            Known::InProgress { lease_left, .. } => Answer::InProgress { lease_left, held_by: None },
            Known::Completed(completed) => Answer::in_store(completed),
        })
    }

    /// Returns the verdict that is counted.
    fn verdict(&self) -> Option<Verdict> {
        Some(match self {
            Answer::Claimed(Where::Store { .. }, _) => Verdict::exact(Outcome::Fresh, Tier::Store),
            Answer::Claimed(Where::Admitted, _) => Verdict::unverified(),
            Answer::Claimed(..) => Verdict::exact(Outcome::Fresh, Tier::Window),
            Answer::InProgress { .. } => Verdict::exact(Outcome::InProgress, Tier::Store),
            Answer::Duplicate { tier, .. } => Verdict::exact(Outcome::Duplicate, *tier),
            Answer::Mismatch => Verdict::exact(Outcome::Duplicate, Tier::Store),
            Answer::TooMany => return None,
        })
    }
}
