//! The functions that documents show, word for word.

use super::Failure;
use hapax::{Attempt, Dedup, Token};
use hapax_store::{Store, TieredAttempt, TieredDedup};

/// Charges an order, unless that was done before. Returns true if the message may be acknowledged.
pub fn charge_once(dedup: &Dedup, id: &str, charge: impl FnOnce() -> Result<(), Failure>) -> Result<bool, Failure> {
    match dedup.claim(id) {
        Attempt::Claimed(claim) => {
            charge()?; // an error drops the claim, which releases it: the next delivery is handled
            claim.complete()?; // an error: the lease was over, and somebody else has got it
            Ok(true)
        }
        Attempt::Duplicate(_) => Ok(true), // handled already
        _ => Ok(false),                    // somebody is at it: let it come again
    }
}

/// Handles a message, unless that was done before. Returns true if it may be acknowledged.
pub async fn deliver<S: Store>(
    dedup: &TieredDedup<S>,
    id: &str,
    handle: impl AsyncFnOnce(Token) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    match dedup.claim(id).await? {
        TieredAttempt::Claimed(claim) => {
            handle(claim.token()).await?; // an error drops the claim, which releases it: the message comes again
            claim.complete().await?; // recorded; or its lease was lost, or the store away for as long: it comes again
            Ok(true)
        }
        TieredAttempt::Duplicate(_) => Ok(true), // it is done
        _ => Ok(false),                          // somebody is at it: it comes again
    }
}

/// Handles what is new of a batch. Returns what may be acknowledged.
pub async fn consume<'m, S: Store>(
    dedup: &TieredDedup<S>,
    batch: &[&'m str],
    mut handle: impl AsyncFnMut(&str) -> Result<(), Failure>,
) -> Result<Vec<&'m str>, Failure> {
    let (mut claims, mut handled, mut done) = (Vec::new(), Vec::new(), Vec::new());
    for (&id, attempt) in batch.iter().zip(dedup.claim_batch(batch).await) {
        match attempt {
            Ok(TieredAttempt::Claimed(claim)) => match handle(id).await {
                Ok(()) => {
                    claims.push(claim);
                    handled.push(id);
                }
                Err(_) => drop(claim), // it is given back, and comes again
            },
            Ok(TieredAttempt::Duplicate(_)) => done.push(id),
            Ok(_) => {} // somebody is at it, perhaps this very batch: it comes again
            Err(error) => eprintln!("{id}: {error}"), // no `?`: the handled ones are completed below
        }
    }
    let ended = dedup.complete_batch(claims).await;
    done.extend(handled.into_iter().zip(ended).filter(|(_, ended)| ended.is_ok()).map(|(id, _)| id));
    dedup.flush().await?; // an exclusive engine writes behind
    Ok(done)
}
