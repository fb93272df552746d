//! The asynchronous engine of this crate: its memory in front of a store.

use super::lasting::Keep;
use crate::strategy::{FALSE_POSITIVE_RATE, Failure, Needs, Plan, Sort};
use hapax_store::{HistoryOptions, Ownership, Store, StoreError, TieredDedup};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The time for which memory and the store keep an id. Both hold the same ids, so the bytes that
/// each takes for one can be told.
const RETENTION: Duration = Duration::from_secs(24 * 3_600);

/// The time to wait for a busy server: a run is to be slow then, not to fail.
const PATIENCE: Duration = Duration::from_secs(20);

/// The time after which the answers of an exclusive engine are durable: the default of a journal.
const GROUP: Duration = Duration::from_millis(5);

/// The number of windows in the history's ids, which is rated for a run: as many windows as one may
/// bring.
const WINDOWS: usize = 8;

/// A store that is compared.
pub trait Backend: Store + Sized {
    /// The name of the engine in front of it.
    const NAME: &'static str;
    /// See [`Strategy::SORT`](crate::strategy::Strategy::SORT).
    const SORT: Sort;
    /// See [`Strategy::NEEDS`](crate::strategy::Strategy::NEEDS).
    const NEEDS: Needs;
    /// The ownership of the store.
    const OWNERSHIP: Ownership = Ownership::Shared;

    /// Opens it in an empty place.
    fn open(plan: &Plan) -> impl Future<Output = Result<Self, Failure>>;
}

/// The engine over one of our stores, called for one id and for many.
///
/// If shared, the store is asked for every id that memory does not know, and an answer is as
/// durable as the store. If exclusive, an id that the history does not know is new at once, and
/// written behind: every 5 ms a caller waits until all of it is durable.
///
/// Memory keeps as much as the store does. Only ids that were accepted in this run are ever asked
/// for, so memory answers redeliveries, and the store says which ids are new.
pub struct HapaxOver<S: Backend> {
    dedup: TieredDedup<S>,
    runtime: Runtime,
    /// The time at which all was last durable.
    flushed: Mutex<Instant>,
}

impl<S: Backend> Keep for HapaxOver<S> {
    const NAME: &'static str = S::NAME;
    const SORT: Sort = S::SORT;
    const NEEDS: Needs = S::NEEDS;

    fn open(plan: &Plan) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let dedup = runtime.block_on(async {
            let builder = TieredDedup::builder(S::open(plan).await?).ownership(S::OWNERSHIP);
            let builder = builder.window(RETENTION).retention(RETENTION).capacity(plan.live).timeout(PATIENCE);
            let builder = match S::OWNERSHIP {
                Ownership::Shared => builder,
                _ => builder.history(HistoryOptions {
                    ids: WINDOWS * plan.live.max(1),
                    false_positive_rate: FALSE_POSITIVE_RATE,
                }),
            };
            let dedup = builder.build().await?;
            // The store is empty, and this lets the history know that.
            dedup.warm().await?;
            Ok::<_, Failure>(dedup)
        })?;
        Ok(HapaxOver { dedup, runtime, flushed: Mutex::new(Instant::now()) })
    }

    fn add(&self, id: &[u8]) -> Result<bool, Failure> {
        let verdict = self.runtime.block_on(self.dedup.check(id))?;
        self.flush()?;
        Ok(verdict.is_fresh())
    }

    fn add_batch<B: AsRef<[u8]>>(&self, ids: impl Iterator<Item = B>, fresh: &mut Vec<bool>) -> Result<(), Failure> {
        for verdict in self.runtime.block_on(self.dedup.check_batch(ids)) {
            fresh.push(verdict?.is_fresh());
        }
        self.flush()
    }
}

impl<S: Backend> HapaxOver<S> {
    /// Flushes if it is time for that, and no other thread does.
    fn flush(&self) -> Result<(), Failure> {
        if S::OWNERSHIP == Ownership::Exclusive
            && let Ok(mut flushed) = self.flushed.try_lock()
            && flushed.elapsed() >= GROUP
        {
            self.runtime.block_on(self.dedup.flush())?;
            *flushed = Instant::now();
        }
        Ok(())
    }
}

impl<S: Backend> Drop for HapaxOver<S> {
    /// The ids that are written behind are written now. If that fails, nobody was told that they
    /// are durable.
    fn drop(&mut self) {
        let _: Result<(), StoreError> = self.runtime.block_on(self.dedup.shutdown(PATIENCE));
    }
}

#[cfg(feature = "fjall")]
impl Backend for hapax_fjall::FjallStore {
    const NAME: &'static str = "hapax over fjall";
    const SORT: Sort = Sort::Durable;
    const NEEDS: Needs = Needs::Directory;
    const OWNERSHIP: Ownership = Ownership::Exclusive;

    async fn open(plan: &Plan) -> Result<Self, Failure> {
        Ok(Self::open(plan.directory()?).await?)
    }
}

#[cfg(feature = "redis")]
impl Backend for hapax_redis::RedisStore {
    const NAME: &'static str = "hapax over Redis";
    const SORT: Sort = Sort::Server;
    const NEEDS: Needs = Needs::Redis;

    async fn open(plan: &Plan) -> Result<Self, Failure> {
        let options = hapax_redis::RedisOptions::single(plan.server()?, "orders").response_timeout(PATIENCE);
        Ok(Self::connect(options).await?)
    }
}

#[cfg(feature = "postgres")]
impl Backend for hapax_postgres::PostgresStore {
    const NAME: &'static str = "hapax over PostgreSQL";
    const SORT: Sort = Sort::Server;
    const NEEDS: Needs = Needs::Postgres;

    async fn open(plan: &Plan) -> Result<Self, Failure> {
        let options = hapax_postgres::PostgresOptions::parse(plan.server()?)?.timeout(PATIENCE)?;
        let store = Self::new(options, "hapax")?;
        store.migrate().await?;
        Ok(store)
    }
}
