//! Wrong versions of blocks, each with the promise of the right one: the harness must notice them.

use super::Trouble::{self, *};
use super::consumers::run_consumer;
use super::shown::{Started, each, engine};
use super::{Block, Deliver, Drive, Failure, Place, Store, judge};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use hapax_store::{ClaimError, TieredAttempt, TieredClaim, TieredDedup};
use hapax_stream::Consumer;
use std::cell::RefCell;
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;

use super::broker::{Broker, Carries, Message};

type Answer = Pin<Box<dyn Future<Output = Result<bool, Failure>>>>;

const RIGHT: Block = Block {
    document: "none",
    heading: "a wrong version",
    shown: ("", ""),
    drive: Drive::Each(1, completes_first),
    services: &["billing", "mail"],
    instances: 2,
    troubles: &[],
    says: &[],
    loses: &[],
    repeats: &[WorkerDies, ProcessDies, AwayForMinutes],
};

/// Builds an engine, and hands it to what delivers.
fn with_engine(
    place: Place,
    scope: &'static str,
    deliver: fn(Rc<TieredDedup<Store>>, Place, String) -> Answer,
) -> Started {
    async move {
        let dedup = engine(&place).scope(scope).build().await?;
        Ok(each(dedup, move |dedup, id| deliver(dedup, place.clone(), id)))
    }
    .boxed_local()
}

/// Claims an id, and does this with the claim. Returns whether the message is done.
async fn claimed(
    dedup: &TieredDedup<Store>,
    id: &str,
    held: impl AsyncFnOnce(TieredClaim<Store>) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    match dedup.claim(id).await? {
        TieredAttempt::Claimed(claim) => held(claim).await.map(|()| true),
        attempt => Ok(attempt.is_duplicate()),
    }
}

fn completes_first(place: Place) -> Started {
    let service = place.service;
    with_engine(place, service, |dedup, place, id| {
        Box::pin(async move {
            claimed(&dedup, &id, async |claim| {
                claim.complete().await?;
                place.work(&id).await
            })
            .await
        })
    })
}

fn acknowledges_errors(place: Place) -> Started {
    let service = place.service;
    with_engine(place, service, |dedup, place, id| {
        Box::pin(async move {
            if let TieredAttempt::Claimed(claim) = dedup.claim(&id).await? {
                match place.work(&id).await {
                    Ok(()) => claim.complete().await?,
                    Err(error) => eprintln!("{id}: {error}"),
                }
            }
            Ok(true)
        })
    })
}

fn checks_first(place: Place) -> Started {
    let service = place.service;
    with_engine(place, service, |dedup, place, id| {
        Box::pin(async move {
            if dedup.check(&id).await?.is_fresh() {
                place.work(&id).await?;
            }
            Ok(true)
        })
    })
}

/// Works when it cannot ask.
fn works_unasked(place: Place) -> Started {
    let service = place.service;
    with_engine(place, service, |dedup, place, id| {
        Box::pin(async move {
            match dedup.claim(&id).await {
                Ok(TieredAttempt::Claimed(claim)) => {
                    place.work(&id).await?;
                    claim.complete().await?;
                }
                Ok(TieredAttempt::Duplicate(_)) => {}
                Ok(_) => return Ok(false),
                Err(_) => place.work(&id).await?,
            }
            Ok(true)
        })
    })
}

fn shares_a_scope(place: Place) -> Started {
    with_engine(place, "", |dedup, place, id| {
        Box::pin(async move {
            claimed(&dedup, &id, async |claim| {
                place.work(&id).await?;
                Ok(claim.complete().await?)
            })
            .await
        })
    })
}

thread_local! {
    static ATTEMPTS: RefCell<HashMap<(u64, String), u32>> = RefCell::default();
}

/// Completes what it gives up, so that what is sent anew is a duplicate.
fn completes_what_it_gives_up(place: Place) -> Started {
    let service = place.service;
    with_engine(place, service, |dedup, place, id| {
        Box::pin(async move {
            claimed(&dedup, &id, async |claim| {
                let worked = place.work(&id).await;
                let attempts = ATTEMPTS.with_borrow_mut(|attempts| {
                    let attempts = attempts.entry((place.number, id.clone())).or_default();
                    *attempts += 1;
                    *attempts
                });
                if worked.is_ok() || attempts == 2 {
                    claim.complete().await?;
                }
                worked
            })
            .await
        })
    })
}

async fn consume(dedup: &TieredDedup<Store>, place: &Place, batch: &[String]) -> Result<Vec<String>, Failure> {
    let mut claims: Vec<TieredClaim<Store>> = Vec::new();
    let mut done = Vec::new();
    for (id, attempt) in batch.iter().zip(dedup.claim_batch(batch).await) {
        match attempt? {
            TieredAttempt::Claimed(claim) if place.work(id).await.is_ok() => {
                claims.push(claim);
                done.push(id.clone());
            }
            TieredAttempt::Duplicate(_) => done.push(id.clone()),
            _ => {}
        }
    }
    for ended in dedup.complete_batch(claims).await {
        ended.map_err(ClaimError::from)?;
    }
    Ok(done)
}

/// Releases what of a batch it has handled, if a later one cannot be claimed.
fn returns_from_a_batch(place: Place) -> Started {
    async move {
        let dedup = Rc::new(engine(&place).scope(place.service).build().await?);
        let deliver: Deliver = Box::new(move |batch| {
            let (dedup, place) = (dedup.clone(), place.clone());
            async move { consume(&dedup, &place, &batch).await }.boxed_local()
        });
        Ok(deliver)
    }
    .boxed_local()
}

struct Order(Message);

impl Carries for Order {
    fn of(message: Message, _: &Place) -> Self {
        Order(message)
    }

    fn id(&self) -> &str {
        &self.0.id
    }

    fn delivery(&self) -> Option<&Message> {
        Some(&self.0)
    }
}

fn consumers_of_one_name(place: Place, broker: Broker) -> LocalBoxFuture<'static, Result<(), Failure>> {
    async move {
        let builder =
            Consumer::builder("orders", engine(&place).build().await?, |order: &Order| Some(order.0.id.clone()));
        run_consumer(builder.build()?, place, broker).await
    }
    .boxed_local()
}

#[test]
fn wrong_versions_of_blocks_are_noticed() {
    let wrong: [(Drive, Trouble, &str); 10] = [
        (Drive::Each(1, completes_first), Failing, "lost"),
        (Drive::Each(1, completes_first), ProcessDies, "lost"),
        (Drive::Each(1, acknowledges_errors), Failing, "lost"),
        (Drive::Each(1, checks_first), Failing, "lost"),
        (Drive::Each(1, checks_first), ProcessDies, "lost"),
        (Drive::Each(1, works_unasked), AwayForSeconds, "repeated"),
        (Drive::Each(1, shares_a_scope), Copies, "lost"),
        (Drive::Each(1, completes_what_it_gives_up), Failing, "lost"),
        (Drive::Each(4, returns_from_a_batch), Stumbles, "repeated"),
        (Drive::Runs(consumers_of_one_name), Copies, "lost"),
    ];
    for (i, (drive, trouble, what)) in wrong.into_iter().enumerate() {
        let noticed = judge(&Block { drive, ..RIGHT }, trouble, 1..20);
        let is_it = noticed.as_ref().is_err_and(|error| error.contains(what) && !error.contains(&format!(" 0 {what}")));
        assert!(is_it, "wrong version {i} is not noticed in {trouble:?}: {noticed:?}");
    }
}

#[test]
fn a_text_that_admits_more_than_happens_is_noticed() {
    for (loses, repeats) in [(&[Copies][..], &[][..]), (&[], &[Copies])] {
        let block = Block { drive: Drive::Each(1, super::shown::deliver), loses, repeats, ..RIGHT };
        let noticed = judge(&block, Copies, 1..3).unwrap_err();
        assert!(noticed.contains("what the text admits does not happen"), "{noticed}");
    }
}
