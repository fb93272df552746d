//! Completions of many claims at a time.

use super::holder::{Holder, Unfinished};
use super::patience::Patience;
use crate::dyn_store::Answering;
use crate::tiered::batching::{Completions, Renewals, in_order};
use crate::tiered::engine::Engine;
use crate::tiered::join_all::join_all;
use std::time::Duration;
use tokio::time::Instant;

/// A claim that is completed together with others.
struct Placed {
    /// Its place in the caller's list.
    place: usize,
    claim: Holder,
    patience: Patience,
}

type Completed = Result<(), Box<Unfinished>>;

impl Engine {
    /// Completes claims, each for as long as its lease; or with one try, if the caller is not
    /// patient.
    pub(super) fn complete_batch(&self, claims: Vec<Holder>, is_patient: bool) -> Answering<'_, Vec<Completed>> {
        Box::pin(async move {
            let (now, count) = (Instant::now(), claims.len());
            let (mut together, mut parts) = (Vec::new(), Vec::new());
            for (place, mut claim) in claims.into_iter().enumerate() {
                claim.work_is_done();
                if claim.is_in_store_of(&self.client, &self.policy) {
                    let patience = Patience::new(now, claim.lease());
                    together.push(Placed { place, claim, patience });
                    continue;
                }
                let part: Answering<'_, _> =
                    Box::pin(async move { (vec![place], vec![claim.complete(None, is_patient).await]) });
                parts.push(part);
            }
            parts.push(Box::pin(self.complete_together(together, is_patient)));
            in_order(count, join_all(parts).await)
        })
    }

    async fn complete_together(&self, claims: Vec<Placed>, is_patient: bool) -> (Vec<usize>, Vec<Completed>) {
        let (mut open, mut places, mut ended) = (claims, Vec::new(), Vec::new());
        while !open.is_empty() {
            let completions = open.iter().map(|it| it.claim.completion(None)).collect();
            let answers = self.client.ask::<Completions>(&self.policy.memory, completions).await;
            // One pause for all, so that they are requested together again.
            let (random, mut next) = (self.client.caller.random.next(), Duration::MAX);
            let asked = std::mem::take(&mut open);
            for (Placed { place, claim, mut patience }, held) in asked.into_iter().zip(answers) {
                let completed = claim.held(held);
                let pause = if is_patient { claim.pause(&completed, &mut patience, random) } else { None };
                match pause {
                    Some(pause) => {
                        next = next.min(pause);
                        open.push(Placed { place, claim, patience });
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

    async fn renew_together(&self, claims: &mut [Placed]) {
        let mut due: Vec<&mut Holder> =
            claims.iter_mut().map(|it| &mut it.claim).filter(|claim| claim.is_to_be_renewed()).collect();
        if due.is_empty() {
            return;
        }
        let renewals = due.iter().map(|claim| claim.renewal()).collect();
        let asked_at = Instant::now();
        let answers = self.client.ask::<Renewals>(&self.policy.memory, renewals).await;
        for (claim, renewed) in due.iter_mut().zip(answers) {
            // Only the completion tells whether the claim was lost.
            let _ = claim.renewed(asked_at, renewed);
        }
    }
}
