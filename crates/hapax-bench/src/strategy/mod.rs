//! Ways to deduplicate, ours and others', behind one trait, so that they can be compared on the
//! same stream of ids.
//!
//! To add one, implement [`Strategy`] in a file of its own, and name it in `strategies!` at the end
//! of this one: tests and benchmarks find it there. A concurrent map takes three functions:
//! implement `Map` (see `expiring.rs`, `scc.rs`), and `Expiring` does the rest. A store takes two
//! or three: implement `Keep` (see `durable/lasting.rs`, `durable/rusqlite.rs`), and `Lasting` does
//! the rest.

mod by_digest;
mod dashmap;
#[cfg(any(feature = "fjall", feature = "postgres", feature = "redis", feature = "sqlite", rocksdb))]
mod durable;
mod expiring;
mod hapax;
mod id;
mod locked;
mod moka;
mod optional;
mod quick_cache;
mod scc;
#[cfg(test)]
mod tests;

pub use self::id::Id;
pub use self::optional::{Absent, not_built};

use self::by_digest::{ByDigest, Digest};
#[cfg(any(feature = "fjall", feature = "postgres", feature = "redis", feature = "sqlite", rocksdb))]
use self::durable::Lasting;
use self::expiring::{Expiring, OFTEN, ONCE};
pub(crate) use self::hapax::{HISTORY, Hapax};
use self::hapax::{JOURNAL, NOTHING};
use ::hapax::Timestamp;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The reason why a strategy cannot be built.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A way to tell new ids from ids seen before.
///
/// ```
/// use hapax::Timestamp;
/// use hapax_bench::strategy::{Failure, Place, Plan, Sort, Strategy};
/// use std::sync::Mutex;
/// use std::time::Duration;
///
/// /// Knows only the id that it saw last.
/// struct LastId(Mutex<Option<u64>>);
///
/// impl Strategy<u64> for LastId {
///     const NAME: &'static str = "last id";
///     const SORT: Sort = Sort::Window;
///
///     fn new(_plan: &Plan) -> Result<Self, Failure> {
///         Ok(LastId(Mutex::new(None)))
///     }
///
///     fn check(&self, id: &u64, _now: Timestamp) -> bool {
///         self.0.lock().unwrap().replace(*id) != Some(*id)
///     }
/// }
///
/// let plan = Plan { window: Duration::from_secs(60), live: 1, threads: 1, place: Place::Memory };
/// let strategy = LastId::new(&plan)?;
/// assert!(strategy.check(&17, Timestamp::from_secs(0)));
/// assert!(!strategy.check(&17, Timestamp::from_secs(1)));
/// # Ok::<(), Failure>(())
/// ```
///
/// # What is expected of it
///
/// - An id accepted at t is a duplicate at every t' with t' - t < W, and fresh again once t' - t >=
///   W + 2 W / 100. A duplicate does not extend its id's stay.
/// - Of any number of threads that check one id, exactly one is told that it is fresh.
/// - It is built before the clock starts. All its other work (expiry, cleaning) happens in calls,
///   or in threads of its own, while the clock runs.
///
/// Where it gives less than that, [`allowance`](Strategy::allowance) says by how much.
pub trait Strategy<I: Id + ?Sized>: Send + Sync + Sized {
    /// The name in tables.
    const NAME: &'static str;

    /// The sort: the strategies that it is compared with.
    const SORT: Sort;

    /// The kind of place of its ids. If that is not memory, the caller that builds it provides the
    /// [`Place`].
    const NEEDS: Needs = Needs::Nothing;

    /// True if it can prepare an id before it is checked. If not, reading ahead is no way of its
    /// own.
    const READS_AHEAD: bool = false;

    /// True if it is compared only where ids are bytes of any length.
    const ANY_LENGTH_ONLY: bool = false;

    /// True if it forgets ids after the window, by the times that it is given. If not, because it
    /// has a clock of its own or remembers for longer, ids that come again later are not judged.
    const EXPIRES: bool = true;

    /// True if it cannot be given the time: a window then takes [`Plan::window`] of real time, by
    /// which ids come. The harness has chosen that, so misses are not judged, and a run that held
    /// too few ids or too many is refused.
    const OWN_CLOCK: bool = false;

    /// Builds it.
    ///
    /// # Errors
    ///
    /// The reason why it cannot work: then it is listed as not measured, for this reason.
    fn new(plan: &Plan) -> Result<Self, Failure>;

    /// Returns true if the id is fresh. If so, it is remembered from now on.
    ///
    /// # Panics
    ///
    /// A strategy that asks a server, and gets no answer, panics with the error: the run has failed
    /// for this reason.
    fn check(&self, id: &I, now: Timestamp) -> bool;

    /// Checks ids in order. `fresh` is cleared, and then holds one answer for each id.
    #[inline(always)]
    fn check_batch<'a>(&self, ids: impl Iterator<Item = &'a I>, now: Timestamp, fresh: &mut Vec<bool>) {
        fresh.clear();
        fresh.extend(ids.map(|id| self.check(id, now)));
    }

    /// Checks ids in order, and hands each answer over before the next check. If it
    /// [reads ahead](Strategy::READS_AHEAD), each id is prepared before the one before it is
    /// checked.
    #[inline(always)]
    fn check_ahead<'a>(&self, ids: impl Iterator<Item = &'a I>, now: Timestamp, mut answered: impl FnMut(bool)) {
        ids.for_each(|id| answered(self.check(id, now)));
    }

    /// Does upkeep. Every thread calls it whenever it has come to a new hundredth of the window.
    fn advance(&self, now: Timestamp) {
        let _ = now;
    }

    /// Returns the share of its answers that may be wrong if it is built for this plan.
    fn allowance(plan: &Plan) -> Allowance {
        let _ = plan;
        Allowance::NONE
    }

    /// Returns the number of ids that it holds now, if the stream does not determine it.
    fn held(&self) -> Option<u64> {
        None
    }
}

/// The sort of a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// A strategy in memory.
    Window,
    /// A strategy that survives a crash, in this process.
    Durable,
    /// A strategy that asks a server.
    Server,
}

/// The parameters that a strategy is built for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The time for which an id is remembered.
    pub window: Duration,
    /// The most ids within a window.
    pub live: usize,
    /// Threads that use it at the same time.
    pub threads: usize,
    /// The place of its ids, of the kind that it [`NEEDS`](Strategy::NEEDS).
    pub place: Place,
}

impl Plan {
    /// Returns the directory that a strategy needs.
    ///
    /// # Errors
    ///
    /// If the place is not a directory.
    pub fn directory(&self) -> Result<&Path, Failure> {
        match &self.place {
            Place::Directory(path) => Ok(path),
            other => Err(format!("expected a directory as its place, got {other:?}").into()),
        }
    }

    /// Returns the address of the server that a strategy needs.
    ///
    /// # Errors
    ///
    /// If the place is not a server.
    pub fn server(&self) -> Result<&str, Failure> {
        match &self.place {
            Place::Server(address) => Ok(address),
            other => Err(format!("expected a server as its place, got {other:?}").into()),
        }
    }
}

/// A resource that a strategy needs besides memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// An empty directory.
    Directory,
    /// An empty Redis.
    Redis,
    /// An empty database of PostgreSQL.
    Postgres,
}

/// A place that is empty at first, and used by nobody else.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// Memory of this process.
    Memory,
    /// A directory.
    Directory(PathBuf),
    /// A server of its own: where to connect, as an address of the `redis` or `tokio-postgres`
    /// crate.
    Server(String),
}

/// The wrong answers that are allowed, as shares of the answers of their kind.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// The share of duplicates that may be called fresh; 1 if it has a [clock of its
    /// own](Strategy::OWN_CLOCK).
    pub missed: f64,
    /// The share of fresh ids that may be called duplicates.
    pub invented: f64,
}

impl Allowance {
    /// No wrong answers.
    pub const NONE: Allowance = Allowance { missed: 0.0, invented: 0.0 };
}

/// The rate of histories.
pub const FALSE_POSITIVE_RATE: f64 = 1e-3;

/// The properties of a strategy that are known without building it.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// [`Strategy::NAME`].
    pub name: &'static str,
    /// [`Strategy::SORT`].
    pub sort: Sort,
    /// [`Strategy::NEEDS`].
    pub needs: Needs,
    /// [`Strategy::ANY_LENGTH_ONLY`].
    pub any_length_only: bool,
    /// [`Strategy::READS_AHEAD`].
    pub reads_ahead: bool,
    /// [`Strategy::allowance`].
    pub allowance: fn(&Plan) -> Allowance,
}

impl Listed {
    pub(crate) fn of<I: Id + ?Sized, S: Strategy<I>>() -> Self {
        Listed {
            name: S::NAME,
            sort: S::SORT,
            needs: S::NEEDS,
            any_length_only: S::ANY_LENGTH_ONLY,
            reads_ahead: S::READS_AHEAD,
            allowance: S::allowance,
        }
    }
}

/// An operation on a strategy of any type.
pub trait Visitor<I: Id + ?Sized> {
    /// The result.
    type Output;

    /// Runs the operation.
    fn visit<S: Strategy<I>>(self) -> Self::Output;
}

macro_rules! strategies {
    ($($(#[$if_built:meta])* $strategy:ty,)*) => {
        /// Returns all strategies for these ids, ours first.
        pub fn listed<I: Id + ?Sized>() -> Vec<Listed> {
            let mut all = Vec::from([$($(#[$if_built])* Listed::of::<I, $strategy>()),*]);
            all.retain(|strategy| I::ANY_LENGTH || !strategy.any_length_only);
            all
        }

        /// Visits the strategy of this name, if there is one.
        pub fn visit<I: Id + ?Sized, V: Visitor<I>>(name: &str, visitor: V) -> Option<V::Output> {
            $($(#[$if_built])* if name == <$strategy as Strategy<I>>::NAME {
                return Some(visitor.visit::<$strategy>());
            })*
            None
        }
    };
}

strategies! {
    Hapax<NOTHING>,
    Hapax<HISTORY>,
    Hapax<JOURNAL>,
    Expiring<dashmap::Accepted<I::Key>, ONCE>,
    Expiring<dashmap::Accepted<I::Key>, OFTEN>,
    Expiring<locked::Locked<I::Key>, ONCE>,
    Expiring<locked::Locked<I::Key>, OFTEN>,
    Expiring<locked::Shards<I::Key>, ONCE>,
    Expiring<locked::Shards<I::Key>, OFTEN>,
    Expiring<scc::Accepted<I::Key>, ONCE>,
    Expiring<scc::Accepted<I::Key>, OFTEN>,
    Expiring<quick_cache::Accepted<I::Owned>, ONCE>,
    Expiring<quick_cache::Accepted<I::Owned>, OFTEN>,
    Expiring<ByDigest<locked::Locked<Digest>>, ONCE>,
    Expiring<ByDigest<locked::Locked<Digest>>, OFTEN>,
    Expiring<ByDigest<dashmap::Accepted<Digest>>, ONCE>,
    Expiring<ByDigest<dashmap::Accepted<Digest>>, OFTEN>,
    Expiring<ByDigest<scc::Accepted<Digest>>, ONCE>,
    Expiring<ByDigest<scc::Accepted<Digest>>, OFTEN>,
    moka::Moka<I::Owned>,
    #[cfg(feature = "fjall")]
    Lasting<durable::HapaxOver<hapax_fjall::FjallStore>>,
    #[cfg(feature = "fjall")]
    Lasting<durable::Fjall>,
    #[cfg(feature = "sqlite")]
    Lasting<durable::Rusqlite>,
    #[cfg(rocksdb)]
    Lasting<durable::RocksDb>,
    #[cfg(feature = "redis")]
    Lasting<durable::HapaxOver<hapax_redis::RedisStore>>,
    #[cfg(feature = "redis")]
    Lasting<durable::Redis<true>>,
    #[cfg(feature = "redis")]
    Lasting<durable::Redis<false>>,
    #[cfg(feature = "postgres")]
    Lasting<durable::HapaxOver<hapax_postgres::PostgresStore>>,
    #[cfg(feature = "postgres")]
    Lasting<durable::Postgres<true>>,
    #[cfg(feature = "postgres")]
    Lasting<durable::Postgres<false>>,
}
