//! Streams without their duplicates.

use super::batched::Batched;
use futures_core::Stream;
use hapax::Verdict;
use hapax_store::{Store, StoreError, TieredAttempt, TieredDedup};
use std::fmt;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The largest number of items that are requested at a time.
const BATCH: usize = 256;

/// Deduplication for any [`Stream`]. Ids are in the engine's scope: streams that must each return
/// an item have [scopes](TieredDedup::with_subscope) of their own.
pub trait StreamExt: Stream + Sized {
    /// Leaves out items whose id was seen before.
    ///
    /// ```
    /// use futures_util::{StreamExt as _, stream::iter};
    /// use hapax_stream::StreamExt;
    /// use hapax_store::{InMemoryStore, TieredDedup};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let engine = TieredDedup::builder(InMemoryStore::new()).build().await?;
    /// let mut fresh = iter(["a", "b", "a"]).dedup_by(engine, |id| *id);
    /// assert_eq!(fresh.next().await.transpose()?, Some("a"));
    /// assert_eq!(fresh.next().await.transpose()?, Some("b"));
    /// assert!(fresh.next().await.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// - Order is kept. An item that could not be decided is an error, in its place, with the item
    ///   inside: nothing is lost.
    /// - Items that are ready are checked in one batch; one batch is under way while the next one
    ///   gathers. So at most three [batches](DedupBy::batch) of items are held: gathered,
    ///   requested, and decided. When there is no room, the stream is not polled.
    /// - It ends after the stream has, which is not polled again; then it returns `None` for ever.
    ///   The lower bound of its size is zero, the upper one the number of items that may still
    ///   come.
    ///
    /// An id is marked at first sight, by [`check_batch`](TieredDedup::check_batch). If the stream
    /// is dropped, it loses the items that it has decided and not yet returned, and so does a
    /// process that dies before an item's work is done. Where that matters, use
    /// [`claim_by`](StreamExt::claim_by), or a [`Consumer`](crate::Consumer). (A
    /// [`Dedup`](hapax::Dedup) in memory answers at once and needs none of this: `filter` with its
    /// `check`.)
    ///
    /// # Errors
    ///
    /// [`Undecided`], an item of the stream, which goes on.
    fn dedup_by<S, I, F>(self, engine: TieredDedup<S>, id_of: F) -> DedupBy<Self, S, F>
    where
        S: Store,
        I: AsRef<[u8]>,
        F: Fn(&Self::Item) -> I,
    {
        DedupBy { batched: Batched::new(self, BATCH), engine, id_of }
    }

    /// Claims each item by its id: claim, work, complete.
    ///
    /// ```
    /// use futures_util::{StreamExt as _, stream::iter};
    /// use hapax_stream::StreamExt;
    /// use hapax_store::{InMemoryStore, TieredAttempt, TieredDedup};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let engine = TieredDedup::builder(InMemoryStore::new()).build().await?;
    /// let mut orders = iter(["order-17", "order-18"]).claim_by(engine, |id| *id);
    /// while let Some(attempt) = orders.next().await {
    ///     match attempt? {
    ///         (order, TieredAttempt::Claimed(claim)) => {
    ///             println!("handling {order}");
    ///             claim.complete().await?;
    ///         }
    ///         (order, other) => println!("{order} must come again: {other:?}"),
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Items that are done already are left out, unless they are
    /// [wanted](ClaimBy::with_duplicates). An item that is in progress elsewhere, or was refused,
    /// is not left out: it must come again.
    ///
    /// # Guarantees
    ///
    /// Those of [`dedup_by`](StreamExt::dedup_by) about order, errors and back-pressure. Claims are
    /// held from the time at which they are made, up to a batch before their item is returned, and
    /// are not renewed: a [batch](ClaimBy::batch) should be handled well within a lease. Dropped,
    /// the stream releases those it holds.
    ///
    /// # Errors
    ///
    /// [`Undecided`], an item of the stream, which goes on.
    fn claim_by<S, I, F>(self, engine: TieredDedup<S>, id_of: F) -> ClaimBy<Self, S, F>
    where
        S: Store,
        I: AsRef<[u8]>,
        F: Fn(&Self::Item) -> I,
    {
        ClaimBy { batched: Batched::new(self, BATCH), engine, id_of, with_duplicates: false }
    }
}

impl<St: Stream> StreamExt for St {}

/// An item for which it could not be decided whether it is fresh. It should come again.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Undecided<T> {
    /// The item.
    pub item: T,
    /// The reason.
    pub why: Why,
}

/// The reason for which an item could not be decided.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Why {
    /// The store could not be asked.
    Store(StoreError),
    /// Another caller has claimed its id, and may complete it or not; or another instance has
    /// marked it just now, and may not have got the answer (see
    /// [`in_doubt`](hapax_store::TieredBuilder::in_doubt)).
    InProgress,
}

impl<T> fmt::Display for Undecided<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::Store(error) => write!(f, "whether an item is fresh could not be said: {error}"),
            Why::InProgress => {
                f.write_str("whether an item is fresh could not be said: somebody has claimed or just marked its id")
            }
        }
    }
}

impl<T: fmt::Debug> std::error::Error for Undecided<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.why {
            Why::Store(error) => Some(error),
            Why::InProgress => None,
        }
    }
}

/// A stream without its duplicates: [`StreamExt::dedup_by`].
#[must_use = "streams do nothing unless polled"]
pub struct DedupBy<St: Stream, S: Store, F> {
    batched: Batched<St, Result<Verdict, StoreError>>,
    engine: TieredDedup<S>,
    id_of: F,
}

/// A stream with its claims: [`StreamExt::claim_by`].
#[must_use = "streams do nothing unless polled"]
pub struct ClaimBy<St: Stream, S: Store, F> {
    batched: Batched<St, Result<TieredAttempt<S>, StoreError>>,
    engine: TieredDedup<S>,
    id_of: F,
    with_duplicates: bool,
}

impl<St: Stream, S: Store, F> DedupBy<St, S, F> {
    /// Sets the largest number of items to check at a time. Default: 256. Fewer are checked if no
    /// more are ready: no item waits for a batch to fill. With a store in memory, batches of 16 and
    /// more take half as long an item as batches of one; of a server, each saves a request.
    pub fn batch(mut self, items: NonZeroUsize) -> Self {
        self.batched.set_max(items.get());
        self
    }
}

impl<St: Stream, S: Store, F> ClaimBy<St, S, F> {
    /// Sets the largest number of items to claim at a time. Default: 256. Fewer are claimed if no
    /// more are ready, as [`DedupBy::batch`] says.
    pub fn batch(mut self, items: NonZeroUsize) -> Self {
        self.batched.set_max(items.get());
        self
    }

    /// Returns items that are done already as well, so that their results can be read, or their
    /// messages acknowledged.
    pub fn with_duplicates(self) -> Self {
        ClaimBy { with_duplicates: true, ..self }
    }
}

impl<St, S, I, F> Stream for DedupBy<St, S, F>
where
    St: Stream,
    S: Store,
    I: AsRef<[u8]>,
    F: Fn(&St::Item) -> I + Unpin,
{
    type Item = Result<St::Item, Undecided<St::Item>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let DedupBy { batched, engine, id_of } = self.get_mut();
        let ask = |items: &[St::Item]| {
            let (names, engine) = (engine.names(items.iter().map(&*id_of)), engine.clone());
            Box::pin(async move { engine.check_named(names).await }) as _
        };
        batched.poll_wanted(cx, ask, |item, verdict| match verdict {
            Ok(verdict) if verdict.is_fresh() => Some(Ok(item)),
            Ok(verdict) if verdict.is_duplicate() => None,
            // (`Refused` does not occur: a store uses its own time.)
            Ok(_) => Some(Err(Undecided { item, why: Why::InProgress })),
            Err(error) => Some(Err(Undecided { item, why: Why::Store(error) })),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, self.batched.upper())
    }
}

impl<St, S, I, F> Stream for ClaimBy<St, S, F>
where
    St: Stream,
    S: Store,
    I: AsRef<[u8]>,
    F: Fn(&St::Item) -> I + Unpin,
{
    type Item = Result<(St::Item, TieredAttempt<S>), Undecided<St::Item>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let ClaimBy { batched, engine, id_of, with_duplicates } = self.get_mut();
        let ask = |items: &[St::Item]| {
            let (names, engine) = (engine.names(items.iter().map(&*id_of)), engine.clone());
            Box::pin(async move { engine.claim_named(names).await }) as _
        };
        batched.poll_wanted(cx, ask, |item, attempt| match attempt {
            Ok(TieredAttempt::Duplicate(_)) if !*with_duplicates => None,
            Ok(attempt) => Some(Ok((item, attempt))),
            Err(error) => Some(Err(Undecided { item, why: Why::Store(error) })),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, self.batched.upper())
    }
}

impl<St: Stream, S: Store, F> fmt::Debug for DedupBy<St, S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DedupBy").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl<St: Stream, S: Store, F> fmt::Debug for ClaimBy<St, S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaimBy").field("engine", &self.engine).finish_non_exhaustive()
    }
}
