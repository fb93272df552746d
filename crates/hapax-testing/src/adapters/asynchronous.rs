//! A closure that returns a future as a subject.

use super::values::{Answer, SubjectId};
use crate::Subject;
use hapax::{Outcome, Timestamp};
use std::marker::PhantomData;
use std::time::Duration;
use tokio::runtime::Handle;

/// A closure that returns a future: made by [`subject_async`].
pub struct SubjectAsync<I, C> {
    runtime: Handle,
    timeout: Duration,
    check: C,
    ids: PhantomData<fn(I)>,
}

/// Makes a subject of an asynchronous check: a client of a server, for example. Each thread of the
/// workload waits for its own calls, on this runtime.
///
/// A call that takes longer than the time-out is dropped and counts as unanswered: the checker then
/// assumes that it took effect at any moment since, or never. So does one that returns an error.
///
/// ```
/// use hapax_store::{InMemoryStore, Mark, Marked, RecordKey, Scope, Store};
/// use hapax_testing::adapters::subject_async;
/// use hapax_testing::{Semantics, Workload, verify};
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
///
/// let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
/// let (store, scope, attempts) = (InMemoryStore::new(), Scope::new("orders")?, AtomicU64::new(1));
/// let (store, scope, attempts) = (&store, &scope, &attempts);
/// let subject = subject_async(runtime.handle().clone(), Duration::from_secs(5), |id: String, _at| async move {
///     let attempt = attempts.fetch_add(1, Ordering::Relaxed);
///     let mark = Mark { key: RecordKey::new(scope, id), attempt, retention: Duration::from_secs(3_600) };
///     Ok::<bool, hapax_store::StoreError>(store.mark(&[mark]).await?.remove(0)? == Marked::Fresh)
/// });
///
/// // Nothing expires in so short a test: the workload's window is never over.
/// let window = Duration::from_secs(3_600);
/// let workload = Workload { operations: 5_000, operations_per_window: 1_000_000, ..Workload::of_window(window) };
/// println!("{}", verify(&subject, &workload, &Semantics::of_own_clock(window))?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// The checks panic on a thread that is driving a runtime itself: call [`verify`](crate::verify)
/// outside of asynchronous code. The runtime should have several threads, and its time enabled.
pub fn subject_async<I, A, R, C>(runtime: Handle, timeout: Duration, check: C) -> SubjectAsync<I, C>
where
    I: SubjectId,
    A: Answer,
    R: Future<Output = A>,
    C: Fn(I, Timestamp) -> R + Sync,
{
    SubjectAsync { runtime, timeout, check, ids: PhantomData }
}

impl<I, A, R, C> Subject for SubjectAsync<I, C>
where
    I: SubjectId,
    A: Answer,
    R: Future<Output = A>,
    C: Fn(I, Timestamp) -> R + Sync,
{
    fn check(&self, id: u64, at: Timestamp) -> Option<Outcome> {
        let limited = async { tokio::time::timeout(self.timeout, (self.check)(I::of_number(id), at)).await };
        self.runtime.block_on(limited).outcome()
    }
}
