//! Jobs of apalis, each run once for what it is about: a job that a producer has pushed twice has
//! two ids of apalis, and one order.
//!
//! ```ignore
//! WorkerBuilder::new("billing").backend(jobs).layer(Once::new(dedup, |order: &Order| order.id.clone())).build(bill)
//! ```

use apalis::prelude::{BoxDynError, Task};
use hapax_store::{Store, TieredAttempt, TieredDedup};
use std::mem::replace;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// A layer that runs each job once.
pub struct Once<S: Store, F> {
    dedup: TieredDedup<S>,
    id_of: F,
}

impl<S: Store, F> Once<S, F> {
    /// Creates a layer over an engine, for jobs with these ids.
    pub fn new(dedup: TieredDedup<S>, id_of: F) -> Self {
        Once { dedup, id_of }
    }
}

impl<S: Store, F: Clone, Inner> Layer<Inner> for Once<S, F> {
    type Service = OnceService<S, F, Inner>;

    fn layer(&self, inner: Inner) -> Self::Service {
        OnceService { dedup: self.dedup.clone(), id_of: self.id_of.clone(), inner }
    }
}

/// The service that [`Once`] makes.
pub struct OnceService<S: Store, F, Inner> {
    dedup: TieredDedup<S>,
    id_of: F,
    inner: Inner,
}

impl<S, F, I, Args, Inner> Service<Task<Args>> for OnceService<S, F, Inner>
where
    S: Store,
    F: Fn(&Args) -> I,
    I: AsRef<[u8]> + Send + Sync + 'static,
    Args: Send + Sync + 'static,
    Inner: Service<Task<Args>, Response = ()> + Clone + Send + 'static,
    Inner::Future: Send,
    Inner::Error: Into<BoxDynError>,
{
    type Response = ();
    type Error = BoxDynError;
    type Future = Pin<Box<dyn Future<Output = Result<(), BoxDynError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxDynError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, task: Task<Args>) -> Self::Future {
        let (dedup, id) = (self.dedup.clone(), (self.id_of)(&task.args));
        // The one that said that it is ready is called.
        let clone = self.inner.clone();
        let mut inner = replace(&mut self.inner, clone);
        Box::pin(async move {
            match dedup.claim(&id).await? {
                TieredAttempt::Claimed(claim) => {
                    let ran: Result<(), BoxDynError> = inner.call(task).await.map_err(Into::into);
                    if ran.is_ok() {
                        claim.complete().await?;
                    } else {
                        let _ = claim.release().await; // the next attempt runs; without the store, after the lease
                    }
                    ran
                }
                TieredAttempt::Duplicate(_) => Ok(()),
                _ => Err("somebody else runs it: try again when the lease is over".into()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apalis::prelude::{MemoryStorage, TaskSink, WorkerBuilder, WorkerContext};
    use hapax_store::InMemoryStore;
    use std::sync::{Arc, Mutex};

    #[tokio::test]
    async fn a_job_that_was_pushed_twice_runs_once() {
        let dedup = TieredDedup::builder(InMemoryStore::new()).build().await.unwrap();
        let mut jobs = MemoryStorage::new();
        for order in ["17", "18", "17", "fails", "fails", "last"] {
            jobs.push(order.to_owned()).await.unwrap();
        }
        let ran = Arc::new(Mutex::new(Vec::new()));
        let (ran_here, last) = (Arc::clone(&ran), "last");
        let bill = move |order: String, worker: WorkerContext| {
            let ran = Arc::clone(&ran_here);
            async move {
                ran.lock().unwrap().push(order.clone());
                match order.as_str() {
                    "fails" => return Err(BoxDynError::from("not now")),
                    order if order == last => worker.stop()?,
                    _ => {}
                }
                Ok(())
            }
        };
        let once = Once::new(dedup, |order: &String| order.clone());
        WorkerBuilder::new("billing").backend(jobs).layer(once).build(bill).run().await.unwrap();
        assert_eq!(*ran.lock().unwrap(), ["17", "18", "fails", "fails", "last"]);
    }
}
