//! Group commit: callers append to a payload in memory, a thread writes and syncs what has come together, and wakes those who wait for it.

use super::append::Positions;
use super::disk::Disk;
use super::error::JournalError;
use super::format::{Kind, Payload};
use super::options::{JournalOptions, MAX_PENDING_BYTES};
use super::writer::Writer;
use crate::Timestamp;
use crate::clock::Reading;
use crate::digest::Digest;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How much has been appended: a number of ids since the engine was built.
///
/// ```no_run
/// # fn acknowledge() {}
/// # fn example(dedup: hapax::Dedup) -> Result<(), hapax::JournalError> {
/// dedup.check("m-17");
/// let mine = dedup.appended_up_to()?;
/// // … later, by whatever flush …
/// if dedup.durable_up_to()? >= mine {
///     acknowledge();
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub(super) u64);

impl Position {
    /// As a number.
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

/// What callers and the thread share.
pub(super) struct Shared {
    state: Mutex<State>,
    /// There is something for the thread to do.
    work: Condvar,
    /// Something has become durable, or never will.
    done: Condvar,
    commit_interval: Duration,
    commit_bytes: usize,
}

#[derive(Default)]
struct State {
    pending: Payload,
    appended: Position,
    durable: Position,
    /// Up to where somebody waits.
    wanted: Position,
    is_closing: bool,
    failed: Option<JournalError>,
    /// Of futures that wait, by number.
    wakers: HashMap<u64, Waker>,
    next_waker: u64,
    written: Written,
    /// As appended.
    positions: Positions,
}

/// What the thread has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) commits: u64,
    pub(super) disk_bytes: u64,
    pub(super) segments: u64,
}

/// How things stand.
pub(super) struct Status {
    pub(super) appended: Position,
    pub(super) durable: Position,
    pub(super) pending_bytes: usize,
    pub(super) failed: Option<JournalError>,
    pub(super) written: Written,
}

impl Shared {
    pub(super) fn new(options: &JournalOptions) -> Self {
        Shared {
            state: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
            commit_interval: options.commit_interval,
            commit_bytes: options.commit_bytes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No state is left half changed where something could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends ids to what is to be written. If the thread is too far behind, waits for it.
    #[inline]
    pub(super) fn append(&self, kind: Kind, at: Reading, ids: impl IntoIterator<Item = Digest>) {
        let mut ids = ids.into_iter().peekable();
        if ids.peek().is_some() {
            self.append_by(|payload| payload.push(kind, at, ids));
        }
    }

    pub(super) fn append_event(&self, kind: Kind, at: Timestamp) {
        self.append_by(|payload| payload.push_event(kind, at));
    }

    #[inline]
    fn append_by(&self, push: impl FnOnce(&mut Payload)) {
        // Whoever asks is told of a failure. What is kept in memory for nobody would only grow.
        if let Ok(mut state) = self.lock_with_room() {
            self.push(&mut state, push);
        }
    }

    /// Appends a payload as a whole, so that it is in one block; or nothing of it.
    pub(super) fn append_whole(&self, payload: &Payload) -> Result<(), JournalError> {
        let mut state = self.lock_with_room()?;
        state.positions.set_all(payload)?;
        if payload.events() > 0 {
            self.push(&mut state, |pending| pending.append(payload));
        }
        Ok(())
    }

    pub(super) fn positions(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.lock().positions.to_vec()
    }

    #[inline(always)]
    fn push(&self, state: &mut State, push: impl FnOnce(&mut Payload)) {
        let (before, events) = (state.pending.bytes().len(), state.pending.events());
        push(&mut state.pending);
        state.appended.0 += state.pending.events() - events;
        let after = state.pending.bytes().len();
        if before == 0 || (before < self.commit_bytes && after >= self.commit_bytes) {
            self.work.notify_one();
        }
    }

    #[inline]
    fn lock_with_room(&self) -> Result<MutexGuard<'_, State>, JournalError> {
        let mut state = self.lock();
        if state.pending.bytes().len() >= MAX_PENDING_BYTES {
            state = self.wait_for_room(state);
        }
        match &state.failed {
            Some(error) => Err(error.clone()),
            None => Ok(state),
        }
    }

    #[cold]
    fn wait_for_room<'s>(&self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        while state.pending.bytes().len() >= MAX_PENDING_BYTES && state.failed.is_none() {
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// Returns when everything is durable that was appended before the call.
    pub(super) fn flush(&self) -> Result<(), JournalError> {
        let mut state = self.lock();
        let target = self.want(&mut state);
        loop {
            match state.outcome(target) {
                Poll::Ready(outcome) => return outcome,
                Poll::Pending => state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    pub(super) fn flush_async(self: &Arc<Self>) -> Flush {
        let target = self.want(&mut self.lock());
        Flush { journal: Ok(Arc::clone(self)), target, waker: None }
    }

    /// Asks for everything so far to be made durable.
    fn want(&self, state: &mut State) -> Position {
        if state.appended > state.durable && state.wanted < state.appended {
            state.wanted = state.appended;
            self.work.notify_one();
        }
        state.appended
    }

    pub(super) fn status(&self) -> Status {
        let state = self.lock();
        Status {
            appended: state.appended,
            durable: state.durable,
            pending_bytes: state.pending.bytes().len(),
            failed: state.failed.clone(),
            written: state.written,
        }
    }

    /// The thread is to write what there is, and end.
    pub(super) fn close(&self) {
        self.lock().is_closing = true;
        self.work.notify_one();
    }

    pub(super) fn start<D: Disk>(self: &Arc<Self>, writer: Writer<D>) -> std::io::Result<JoinHandle<()>> {
        let shared = Arc::clone(self);
        let mut state = self.lock();
        state.written = Written::of(&writer, 0);
        state.positions = writer.positions().clone();
        drop(state);
        std::thread::Builder::new().name("hapax-journal".into()).spawn(move || shared.run(writer))
    }

    fn run<D: Disk>(&self, mut writer: Writer<D>) {
        let mut payload = Payload::default();
        let mut commits = 0;
        while let Some(target) = self.next(&mut payload) {
            let outcome = writer.commit(&payload);
            payload.reset(4 * self.commit_bytes);
            commits += 1;
            let has_failed = outcome.is_err();
            let mut state = self.lock();
            state.written = Written::of(&writer, commits);
            match outcome {
                Ok(()) => state.durable = target,
                Err(error) => {
                    state.failed = Some(error);
                    state.pending.clear();
                }
            }
            let wakers = std::mem::take(&mut state.wakers);
            drop(state);
            self.done.notify_all();
            wakers.into_values().for_each(Waker::wake);
            if has_failed {
                return;
            }
        }
    }

    /// Waits until there is something to write, and company for it; takes it, and says up to where it goes. `None`: that was all.
    fn next(&self, payload: &mut Payload) -> Option<Position> {
        let mut state = self.lock();
        while state.pending.bytes().is_empty() {
            if state.is_closing {
                return None;
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let began = Instant::now();
        loop {
            let left = self.commit_interval.saturating_sub(began.elapsed());
            let is_due = state.wanted > state.durable || state.pending.bytes().len() >= self.commit_bytes;
            if is_due || state.is_closing || left.is_zero() {
                break;
            }
            state = self.work.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::swap(&mut state.pending, payload);
        Some(state.appended)
    }
}

impl Written {
    fn of<D: Disk>(writer: &Writer<D>, commits: u64) -> Self {
        Written { commits, disk_bytes: writer.bytes(), segments: writer.segments().count() as u64 }
    }
}

impl State {
    /// What becomes of whoever waits for a position.
    fn outcome(&self, target: Position) -> Poll<Result<(), JournalError>> {
        match &self.failed {
            Some(error) => Poll::Ready(Err(error.clone())),
            None if self.durable >= target => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    }
}

/// Is ready when everything is durable that was accepted before [`flush_async`](crate::Dedup::flush_async) was called. Needs no particular
/// executor.
#[must_use = "nothing is known to be durable before this is ready"]
pub struct Flush {
    pub(super) journal: Result<Arc<Shared>, JournalError>,
    pub(super) target: Position,
    /// Under which number it waits.
    pub(super) waker: Option<u64>,
}

impl Future for Flush {
    type Output = Result<(), JournalError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = match &self.journal {
            Ok(shared) => Arc::clone(shared),
            Err(error) => return Poll::Ready(Err(error.clone())),
        };
        let mut state = shared.lock();
        let outcome = state.outcome(self.target);
        if outcome.is_pending() {
            let number = *self.waker.get_or_insert_with(|| {
                state.next_waker += 1;
                state.next_waker
            });
            state.wakers.insert(number, context.waker().clone());
        }
        outcome
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        if let (Ok(shared), Some(number)) = (&self.journal, self.waker) {
            shared.lock().wakers.remove(&number);
        }
    }
}

impl std::fmt::Debug for Flush {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flush").field("target", &self.target.0).finish_non_exhaustive()
    }
}
