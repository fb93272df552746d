//! The code of documents, word for word, and how each is called. What a block prints, and what it
//! builds its engine on, is the harness's here: macros and types of the same names.

use super::broker::Broker;
use super::{CURRENT, Deliver, Died, Place, Store, TokioClock, Trouble};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use hapax::{Dedup, JournalOptions};
use hapax_store::{HistoryOptions, Ownership, TieredBuilder};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

#[path = "../../../../../examples/durable_consumer.rs"]
#[allow(dead_code)] // its broker, and main
mod durable_consumer;
#[path = "../../../../../tests/integration/examples/shown.rs"]
mod examples;
#[path = "../../../../../examples/log_consumer.rs"]
#[allow(dead_code)] // main
mod log_consumer;

type Failure = Box<dyn std::error::Error>;
pub type Started = LocalBoxFuture<'static, Result<Deliver, super::Failure>>;

fn failure(error: super::Failure) -> Failure {
    error
}

pub fn sendable(error: Failure) -> super::Failure {
    error.to_string().into()
}

/// Builds an engine of this process, as documents do, on the harness's clock.
pub fn engine(place: &Place) -> TieredBuilder<Store> {
    hapax_store::TieredDedup::builder(place.store.clone())
        .clock(TokioClock(place.world.begun))
        .retention(Duration::from_secs(7 * 24 * 3_600))
        .capacity(1_000)
        .max_memory_bytes(1 << 20)
        .seed(place.number)
        .attempt_seed(place.number)
        .expiry(None)
}

/// Makes a way to deliver single messages of one.
pub fn each<D: 'static, F: Future<Output = Result<bool, super::Failure>> + 'static>(
    dedup: D,
    deliver: impl Fn(Rc<D>, String) -> F + 'static,
) -> Deliver {
    let dedup = Rc::new(dedup);
    Box::new(move |batch: Vec<String>| {
        let id = batch[0].clone();
        let delivered = deliver(dedup.clone(), id.clone());
        async move { Ok(if delivered.await? { vec![id] } else { vec![] }) }.boxed_local()
    })
}

/// Runs code that does not wait, and whose thread may die.
fn at_once<T>(code: impl FnOnce() -> Result<T, Failure>) -> Result<T, super::Failure> {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(result) => result.map_err(sendable),
        Err(_) => Err(Died.into()),
    }
}

mod of_memory {
    use super::*;
    use hapax::Attempt;
    use std::cell::Cell;

    struct Handled;

    impl Handled {
        fn push(&mut self, id: &str) {
            CURRENT.with(|place| place.work_now(id)).expect("it cannot fail");
        }
    }

    /// Does what is printed. Returns true if the message is left to come again.
    fn does(text: &str) -> Result<bool, Failure> {
        match text.split_once(' ') {
            Some(("handle", id)) => CURRENT.with(|place| place.work_now(id)).map(|()| false).map_err(failure),
            Some((what, _)) => Ok(what == "let"),
            None => Err(text.into()),
        }
    }

    /// Returns true if the message is acknowledged.
    fn in_the_readme(seen: &Dedup, id: &str) -> Result<bool, Failure> {
        let is_left = Cell::new(false);
        macro_rules! println {
            ($($text:tt)*) => { is_left.set(does(&format!($($text)*))?) };
        }
        match seen.claim(id) {
            Attempt::Claimed(claim) => {
                println!("handle {id}"); // an error drops the claim: the next delivery is handled
                claim.complete()?;
            }
            Attempt::Duplicate(_) => println!("acknowledge {id}: it was handled"),
            _ => println!("let {id} come again: somebody is at work on it"),
        }
        Ok(!is_left.get())
    }

    fn in_the_first_part(dedup: &Dedup, mut handled: Handled, id: &str) -> Result<bool, Failure> {
        if dedup.check(id).is_fresh() {
            handled.push(id);
        }
        Ok(true)
    }

    fn deliver(place: Place, block: fn(&Dedup, &str) -> Result<bool, Failure>) -> Started {
        async move {
            let builder = Dedup::builder().window(Duration::from_secs(600));
            let dedup = builder.clock(TokioClock(place.world.begun)).build()?;
            let delivered = move |dedup: Rc<Dedup>, id: String| {
                let code = || CURRENT.sync_scope(place.clone(), || block(&dedup, &id));
                std::future::ready(at_once(code))
            };
            Ok(each(dedup, delivered))
        }
        .boxed_local()
    }

    pub fn readme(place: Place) -> Started {
        deliver(place, in_the_readme)
    }

    pub fn first_part(place: Place) -> Started {
        deliver(place, |dedup, id| in_the_first_part(dedup, Handled, id))
    }
}

pub use of_memory::{first_part, readme};

pub fn charge_once(place: Place) -> Started {
    async move {
        let dedup = Dedup::builder().clock(TokioClock(place.world.begun)).build()?;
        let charge = move |dedup: Rc<Dedup>, id: String| {
            let charge = || place.work_now(&id).map_err(failure);
            std::future::ready(at_once(|| examples::charge_once(&dedup, &id, charge)))
        };
        Ok(each(dedup, charge))
    }
    .boxed_local()
}

/// Opens the journal of a service as a kill has left it: with what was written since the last
/// flush, or without.
fn journaled(place: &Place, options: JournalOptions) -> Result<Dedup, Failure> {
    let [directory, flushed] =
        ["", "-flushed"].map(|end| place.world.directory.path().join(place.service.to_owned() + end));
    if flushed.exists() && place.world.below(2) == 0 {
        std::fs::remove_dir_all(&directory)?;
        copy(&flushed, &directory)?;
    }
    Ok(Dedup::builder().journal(directory, options).clock(TokioClock(place.world.begun)).build()?)
}

fn copy(from: &std::path::Path, to: &std::path::Path) -> std::io::Result<()> {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Keeps a copy of a journal that was flushed just now, if its process may be killed.
fn flushed(place: &Place) -> Result<(), Failure> {
    if place.world.trouble != Trouble::ProcessDies {
        return Ok(());
    }
    let directory = place.world.directory.path().join(place.service);
    Ok(copy(&directory, &place.world.directory.path().join(place.service.to_owned() + "-flushed"))?)
}

pub fn batch_of_a_journal(place: Place) -> Started {
    async move {
        let dedup = journaled(&place, JournalOptions::new()).map_err(sendable)?;
        let deliver: Deliver = Box::new(move |batch| {
            let consumed = at_once(|| {
                let ids: Vec<&str> = batch.iter().map(|id| &**id).collect();
                let handle = |id: &str| place.work_now(id).map_err(failure);
                let done = durable_consumer::consume(&dedup, &ids, handle)?;
                flushed(&place)?;
                Ok(done.into_iter().map(str::to_owned).collect())
            });
            std::future::ready(consumed).boxed_local()
        });
        Ok(deliver)
    }
    .boxed_local()
}

pub fn log(place: Place, broker: Broker) -> LocalBoxFuture<'static, Result<(), super::Failure>> {
    async move {
        let dedup = journaled(&place, JournalOptions::new().checkpoints(true)).map_err(sendable)?;
        let log = broker.log();
        let ids: Vec<&str> = log.iter().map(|id| &**id).collect();
        let mut offset = log_consumer::start(&dedup).map_err(sendable)?;
        while let batch @ [_, ..] = &ids[offset as usize..ids.len().min(offset as usize + 4)] {
            let handle = |id: &str| place.work_now(id).map_err(failure);
            offset = at_once(|| log_consumer::consume(&dedup, offset, batch, handle))?;
            flushed(&place).map_err(sendable)?;
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        broker.all_done();
        Ok(())
    }
    .boxed_local()
}

pub fn deliver(place: Place) -> Started {
    async move {
        let dedup = engine(&place).scope(place.service).build().await?;
        Ok(each(dedup, move |dedup, id| {
            let place = place.clone();
            async move {
                let handle = async |_| place.work(&id).await.map_err(failure);
                examples::deliver(&dedup, &id, handle).await.map_err(sendable)
            }
        }))
    }
    .boxed_local()
}

/// Makes a way to deliver batches.
fn batches(place: Place, dedup: hapax_store::TieredDedup<Store>) -> Deliver {
    let dedup = Rc::new(dedup);
    Box::new(move |batch| {
        let (place, dedup) = (place.clone(), dedup.clone());
        async move {
            let ids: Vec<&str> = batch.iter().map(|id| &**id).collect();
            let handle = async |id: &str| place.work(id).await.map_err(failure);
            let done = examples::consume(&dedup, &ids, handle).await.map_err(sendable)?;
            Ok(done.into_iter().map(str::to_owned).collect())
        }
        .boxed_local()
    })
}

pub fn batch_of_an_owner(place: Place) -> Started {
    async move {
        place.store.be_private(); // as fjall's
        let builder = engine(&place).scope(place.service).ownership(Ownership::Exclusive);
        let dedup = builder.history(HistoryOptions { ids: 1_000, false_positive_rate: 1e-3 }).build().await?;
        dedup.warm().await?;
        Ok(batches(place, dedup))
    }
    .boxed_local()
}

mod of_functions {
    use super::*;
    use hapax_store::TieredDedup;

    type InMemoryStore = Store;
    type Error = crate::hostile::Failure;

    /// Does what is formatted.
    macro_rules! format {
        ($($text:tt)*) => {{
            let text = std::format!($($text)*);
            let place = CURRENT.get();
            place.work(text.rsplit(' ').next().expect("there is a last word")).await?;
            text
        }};
    }

    struct Bank {
        dedup: TieredDedup<InMemoryStore>, // a service's is over Redis, PostgreSQL or SQLite
    }

    impl Bank {
        #[hapax_macros::once(
            dedup = self.dedup,
            key = order_id,
            fingerprint = cents.to_be_bytes(),
            name = "charge" // keys do not know the type of a method
        )]
        async fn charge(&self, order_id: &str, cents: u32) -> Result<String, Error> {
            Ok(format!("charged {cents} for {order_id}")) // … the call that must not happen twice …
        }
    }

    pub fn once(place: Place) -> Started {
        async move {
            let bank = Bank { dedup: engine(&place).scope(place.service).build().await? };
            Ok(each(bank, move |bank, id| {
                CURRENT.scope(place.clone(), async move { bank.charge(&id, 100).await.map(|_| true) })
            }))
        }
        .boxed_local()
    }
}

pub use of_functions::once;

mod of_set_nx {
    use super::*;
    use hapax_store::{Store, TieredAttempt, TieredDedup};
    use std::cell::Cell;

    tokio::task_local! {
        static ACKNOWLEDGES: Cell<bool>;
    }

    /// Does what is printed.
    macro_rules! println {
        ($($text:tt)*) => { do_it(&format!($($text)*)).await? };
    }

    async fn do_it(text: &str) -> Result<(), Failure> {
        if let Some(id) = text.strip_prefix("handle ") {
            CURRENT.get().work(id).await.map_err(failure)?;
        }
        if text.starts_with("acknowledge") {
            ACKNOWLEDGES.with(|acknowledges| acknowledges.set(true));
        }
        Ok(())
    }

    async fn deliver<S: Store>(dedup: &TieredDedup<S>, id: &str) -> Result<(), Failure> {
        match dedup.claim(id).await? {
            TieredAttempt::Claimed(claim) => {
                println!("handle {id}"); // a crash here: the lease ends, and the redelivery is handled
                claim.complete().await?;
                println!("acknowledge");
            }
            TieredAttempt::Duplicate(_) => println!("acknowledge: it is done"),
            _ => println!("somebody is at it: let it come again"),
        }
        // …
        Ok(())
    }

    pub fn instead_of_set_nx(place: Place) -> Started {
        async move {
            let builder = engine(&place).lease(Duration::from_secs(60));
            let dedup = builder.scope(format!("{}/orders", place.service)).build().await?;
            Ok(each(dedup, move |dedup, id| {
                let deliver = async move {
                    deliver(&dedup, &id).await.map_err(sendable)?;
                    Ok(ACKNOWLEDGES.with(Cell::get))
                };
                ACKNOWLEDGES.scope(Cell::new(false), CURRENT.scope(place.clone(), deliver))
            }))
        }
        .boxed_local()
    }
}

pub use of_set_nx::instead_of_set_nx;
