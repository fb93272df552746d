//! Recording: a stamp before each call and one after it.

use super::operation::{Event, Interval, Operation};
use crate::{Outcome, Timestamp};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Where the threads of one recording take their stamps.
///
/// A counter that every thread reads before and after each call, and adds one to after every eighth: what a thread reads is mostly in
/// its own cache, so recording disturbs what it records little, and so do threads each other.
///
/// That a stamp `s` taken after one call is smaller than a stamp taken before another means that the one call came before the other: each
/// thread has a `SeqCst` fence between its calls and its accesses to the counter, so the fence after the one call precedes the fence
/// before the other in the order of all such fences, and what was written before the first is seen after the second. The converse does
/// not hold: calls that follow each other closely may have one stamp, and then count as overlapping. (Calls of one thread never
/// do.) So whatever the checker rejects is wrong.
#[derive(Debug, Default)]
pub struct Stamps {
    counter: Padded,
}

/// Alone in its cache lines: processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(AtomicU64);

impl Stamps {
    /// The first stamp is 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// A recorder for one thread.
    pub fn recorder(&self, thread: u16) -> Recorder<'_> {
        Recorder { counter: &self.counter.0, calls: 0, thread, operations: Vec::new() }
    }
}

/// Records what one thread does.
///
/// ```
/// use hapax::testing::{Event, Stamps};
/// use hapax::{Dedup, Timestamp};
///
/// let dedup = Dedup::builder().build()?;
/// let stamps = Stamps::new();
/// let mut recorder = stamps.recorder(0);
/// let at = Timestamp::from_secs(1);
/// recorder.check(17, at, || Some(dedup.check_at("17", at).outcome()));
///
/// let operations = recorder.into_operations();
/// assert_eq!(operations[0].event, Event::Fresh);
/// # Ok::<(), hapax::Error>(())
/// ```
#[derive(Debug)]
pub struct Recorder<'a> {
    counter: &'a AtomicU64,
    calls: u32,
    thread: u16,
    operations: Vec<Operation>,
}

impl Recorder<'_> {
    /// Of so many calls of a thread one moves the counter on.
    const MOVES_ON_EVERY: u32 = 8;

    /// Records one check.
    pub fn check(&mut self, id: u64, at: Timestamp, call: impl FnOnce() -> Option<Outcome>) {
        let (interval, answer) = self.time(call);
        self.push(interval, id, at, Event::of_check(answer));
    }

    /// Calls, and says when that was.
    #[inline(always)]
    pub fn time<T>(&mut self, call: impl FnOnce() -> T) -> (Interval, T) {
        // Relaxed: the fences order it; see `Stamps`.
        let invoked = self.counter.load(Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let result = call();
        fence(Ordering::SeqCst);
        self.calls = self.calls.wrapping_add(1);
        let returned = match self.calls % Self::MOVES_ON_EVERY {
            0 => self.counter.fetch_add(1, Ordering::Relaxed),
            _ => self.counter.load(Ordering::Relaxed),
        };
        (Interval { invoked, returned }, result)
    }

    /// Adds an operation of an interval that is known. Operations of a thread are added in the order in which it did them.
    #[inline(always)]
    pub fn push(&mut self, mut interval: Interval, id: u64, at: Timestamp, event: Event) {
        if event == Event::Unanswered {
            interval.returned = Interval::NEVER;
        }
        self.operations.push(Operation { id, at, interval, thread: self.thread, event });
    }

    /// What was recorded.
    pub fn into_operations(self) -> Vec<Operation> {
        self.operations
    }
}
