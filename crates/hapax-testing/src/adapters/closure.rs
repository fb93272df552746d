//! A closure as a subject.

use super::values::{Answer, SubjectId};
use crate::Subject;
use hapax::{Outcome, Timestamp};
use std::marker::PhantomData;

/// A closure that checks an id, and perhaps one that forgets an id: made by [`subject_fn`].
pub struct SubjectFn<I, C, F = fn(I, Timestamp)> {
    check: C,
    forget: Option<F>,
    ids: PhantomData<fn(I)>,
}

/// Makes a subject of a closure that checks an id at a time. The id is a number, a text or bytes,
/// the answer a `bool` (true: fresh), an [`Outcome`], or an `Option` or a `Result` of one.
///
/// ```
/// use hapax::{Dedup, Timestamp};
/// use hapax_testing::adapters::subject_fn;
/// use hapax_testing::{Semantics, Workload, verify};
/// use std::time::Duration;
///
/// let window = Duration::from_secs(60);
/// let dedup = Dedup::builder().window(window).capacity(200_000).build()?;
/// let subject = subject_fn(|id: String, at| dedup.check_at(&id, at).is_fresh());
///
/// let workload = Workload { operations: 20_000, ..Workload::of_window(window) };
/// verify(&subject, &workload, &Semantics::of_hapax(window)).expect("hapax is right");
/// # Ok::<(), hapax::Error>(())
/// ```
///
/// A closure that reads a clock of its own ignores the time. Batches are checked one by one.
pub fn subject_fn<I, A, C>(check: C) -> SubjectFn<I, C>
where
    I: SubjectId,
    A: Answer,
    C: Fn(I, Timestamp) -> A + Sync,
{
    SubjectFn { check, forget: None, ids: PhantomData }
}

impl<I, C, F> SubjectFn<I, C, F> {
    /// Adds a closure that forgets an id, for a workload that does.
    #[must_use]
    pub fn with_forget<G: Fn(I, Timestamp) + Sync>(self, forget: G) -> SubjectFn<I, C, G> {
        SubjectFn { check: self.check, forget: Some(forget), ids: PhantomData }
    }
}

impl<I, A, C, F> Subject for SubjectFn<I, C, F>
where
    I: SubjectId,
    A: Answer,
    C: Fn(I, Timestamp) -> A + Sync,
    F: Fn(I, Timestamp) + Sync,
{
    fn check(&self, id: u64, at: Timestamp) -> Option<Outcome> {
        (self.check)(I::of_number(id), at).outcome()
    }

    fn forget(&self, id: u64, at: Timestamp) -> bool {
        let Some(forget) = &self.forget else { return false };
        forget(I::of_number(id), at);
        true
    }
}
