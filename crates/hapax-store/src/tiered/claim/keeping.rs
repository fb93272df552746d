//! Renewals of claims for as long as their work takes.

use super::error::ClaimError;
use super::holder::Holder;
use super::patience::retry_pause;
use crate::back_off::jittered;
use crate::dyn_store::Answering;
use crate::tiered::join_all::join_all;
use std::future::pending;

impl Holder {
    /// Renews claims together, every third of their shortest lease, until some are lost. Returns
    /// the places of these.
    pub(super) fn keep(mut claims: Vec<&mut Self>) -> Answering<'_, Vec<usize>> {
        Box::pin(async move {
            let mut failures = 0_u32;
            while let Some(first) = claims.first() {
                let random = first.random();
                let lease = claims.iter().map(|claim| claim.lease()).min().unwrap_or_default();
                let age = claims.iter().map(|claim| claim.age()).max().unwrap_or_default();
                // Jittered, so that claims that were made together are not renewed together by all
                // who hold some. A renewal that failed is tried again soon, since the lease runs.
                tokio::time::sleep(match failures {
                    0 => jittered(lease / 3, random).saturating_sub(age),
                    _ => retry_pause(failures, lease, random),
                })
                .await;
                // The completion tells in the end whether that was enough.
                let renewed = join_all(claims.iter_mut().map(|claim| {
                    let lease = claim.lease();
                    claim.renew(lease)
                }))
                .await;
                let is_lost = |renewed: &Result<(), ClaimError>| matches!(renewed, Err(ClaimError::LostLease(_)));
                let places = renewed.iter().enumerate().filter(|(_, renewed)| is_lost(renewed));
                let lost: Vec<usize> = places.map(|(place, _)| place).collect();
                if !lost.is_empty() {
                    return lost;
                }
                failures = if renewed.iter().all(Result::is_ok) { 0 } else { failures.saturating_add(1) };
            }
            pending().await
        })
    }
}
