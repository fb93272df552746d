//! Recording: a stamp before each call and one after it.

use crate::operation::{Event, Interval, Operation};
use hapax::{Outcome, Timestamp};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Instant;

/// The source of stamps for the threads of one recording.
///
/// It is a counter that every thread reads before and after each call, and adds one to after every
/// eighth, unless the stamps are to be [`exact`](Stamps::exact). A read mostly hits the thread's
/// own cache, so recording disturbs the recorded calls little.
///
/// If a stamp `s` taken after one call is smaller than a stamp taken before another, then the one
/// call came before the other: each thread has a `SeqCst` fence between its calls and its accesses
/// to the counter, so the fence after the one call precedes the fence before the other in the order
/// of all such fences, and writes before the first are seen after the second. The converse does not
/// hold: calls that follow each other closely may have one stamp, and then count as overlapping.
/// (Calls of one thread never do.) So every history that the checker rejects is wrong.
#[derive(Debug)]
pub struct Stamps {
    counter: Padded,
    calls_a_stamp: u32,
    /// The origin of the measured times, if they are measured.
    clock: Option<Instant>,
}

/// Alone in its cache lines: processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(AtomicU64);

impl Stamps {
    /// Creates stamps for long recordings.
    pub fn new() -> Self {
        Stamps { counter: Padded::default(), calls_a_stamp: 8, clock: None }
    }

    /// Creates stamps for short recordings: calls that do not overlap never have one stamp.
    pub fn exact() -> Self {
        Stamps { calls_a_stamp: 1, ..Self::new() }
    }

    /// Creates stamps for subjects that read a clock of their own: the monotonic time is measured
    /// before and after each call, and recorded in place of the caller's. However long a thread is
    /// interrupted, the subject has read its clock in between. Costs two readings of
    /// [`Instant::now`] a call.
    pub fn with_clock() -> Self {
        Stamps { clock: Some(Instant::now()), ..Self::exact() }
    }

    /// Creates a recorder for one thread.
    pub fn recorder(&self, thread: u16) -> Recorder<'_> {
        let Stamps { counter, calls_a_stamp, clock } = self;
        Recorder {
            counter: &counter.0,
            calls_a_stamp: *calls_a_stamp,
            clock: *clock,
            measured: None,
            calls: 0,
            thread,
            operations: Vec::new(),
        }
    }
}

impl Default for Stamps {
    fn default() -> Self {
        Self::new()
    }
}

/// Records the operations of one thread.
///
/// ```
/// use hapax_testing::{Event, Stamps};
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
    calls_a_stamp: u32,
    clock: Option<Instant>,
    /// The times before and after the last call.
    measured: Option<(Timestamp, Timestamp)>,
    /// The number of calls since this thread has advanced the counter.
    calls: u32,
    thread: u16,
    operations: Vec<Operation>,
}

impl Recorder<'_> {
    /// Records one check.
    pub fn check(&mut self, id: u64, at: Timestamp, call: impl FnOnce() -> Option<Outcome>) {
        let (interval, answer) = self.time(call);
        self.push(interval, id, at, Event::of_check(answer));
    }

    /// Makes a call, and returns its interval and its result.
    #[inline(always)]
    pub fn time<T>(&mut self, call: impl FnOnce() -> T) -> (Interval, T) {
        let before = self.clock.map(since);
        // Relaxed: the fences order it; see `Stamps`.
        let invoked = self.counter.load(Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let result = call();
        fence(Ordering::SeqCst);
        self.calls += 1;
        let returned = if self.calls >= self.calls_a_stamp {
            self.calls = 0;
            self.counter.fetch_add(1, Ordering::Relaxed)
        } else {
            self.counter.load(Ordering::Relaxed)
        };
        self.measured = before.map(|before| (before, self.clock.map_or(before, since)));
        (Interval { invoked, returned }, result)
    }

    /// Adds an operation with a known interval. Operations of a thread are added in the order in
    /// which it did them.
    #[inline(always)]
    pub fn push(&mut self, interval: Interval, id: u64, at: Timestamp, event: Event) {
        self.add(Operation { id, at, interval, event, ..Operation::default() });
    }

    /// Adds an operation, like [`push`](Recorder::push), with fields that few operations have. Its
    /// thread is the recorder's; with [a clock](Stamps::with_clock) its times are those of the last
    /// call.
    #[inline(always)]
    pub fn add(&mut self, operation: Operation) {
        let Operation { at, mut interval, event, .. } = operation;
        if event == Event::Unanswered {
            interval.returned = Interval::NEVER;
        }
        let (at, until) = self.measured.unwrap_or((at, at));
        self.operations.push(Operation { at, until, interval, thread: self.thread, ..operation });
    }

    /// Returns the recorded operations.
    pub fn into_operations(self) -> Vec<Operation> {
        self.operations
    }
}

/// Returns the monotonic time since an origin.
fn since(origin: Instant) -> Timestamp {
    Timestamp::default() + origin.elapsed()
}
