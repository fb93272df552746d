//! Group commit: callers append to a payload in memory, a thread writes and syncs what has come
//! together, and wakes the callers that wait for it. Or, for simulations, the caller that flushes
//! does that.

use super::forgotten::ForgottenCount;
use super::pending_checkpoint::Held;
use super::state::{State, Written};
use super::writer::Writer;
use crate::Timestamp;
use crate::clock::{Stamp, TimeBase, nanos_of};
use crate::digest::Digest;
use crate::error::JournalError;
use crate::journal::damage::Lost;
use crate::journal::encoding::payload::{Kind, Payload};
use crate::journal::options::{JournalOptions, MAX_PENDING_BYTES};
use crate::mutation::{Rule, obeys};
use crate::process::Origin;
use crate::sync::{DiskCondvar, DiskMutex, DiskMutexGuard, unpoisoned};
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The state that callers and the thread share.
pub(crate) struct Shared {
    state: DiskMutex<State>,
    /// The writer. Locked before `state`, by the thread that writes.
    writer: DiskMutex<Writer>,
    /// Notified when there is something for the thread to do.
    work: DiskCondvar,
    /// Notified when something has become durable, or never will.
    done: DiskCondvar,
    pub(in crate::journal) forgotten: ForgottenCount,
    commit_interval: Duration,
    commit_bytes: usize,
    /// The most bytes that may wait to be written.
    pending_bytes_max: usize,
    /// True if there is no thread: the caller that flushes writes.
    is_inline: bool,
    /// The process that may write. In a child of it nothing here is to be locked: the lock may be
    /// held by a thread that the child does not have.
    pub(in crate::journal) origin: Origin,
    pub(in crate::journal) directory: PathBuf,
}

/// The present figures of a journal.
pub(crate) struct Status {
    pub(crate) appended: u64,
    pub(crate) durable: u64,
    pub(in crate::journal) pending_bytes: usize,
    pub(in crate::journal) held_bytes: usize,
    pub(in crate::journal) dropped: u64,
    pub(in crate::journal) reopened: u64,
    pub(crate) failed: Option<JournalError>,
    pub(in crate::journal) written: Written,
}

impl Shared {
    pub(in crate::journal) fn new(options: &JournalOptions, writer: Writer, is_inline: bool, origin: Origin) -> Self {
        // Half the budget, so that the data that has waited fits when all files have expired.
        let half_the_budget = options.max_disk_bytes.map_or(u64::MAX, |bytes| (bytes / 2).max(1 << 16));
        let pending_bytes_max = usize::try_from(half_the_budget).unwrap_or(usize::MAX).min(MAX_PENDING_BYTES);
        Shared {
            directory: writer.rules.directory.clone(),
            state: DiskMutex::new(State::new(&writer, options.checkpoints.then(|| Held::new(pending_bytes_max)))),
            writer: DiskMutex::new(writer),
            work: DiskCondvar::new(),
            done: DiskCondvar::new(),
            forgotten: ForgottenCount::default(),
            commit_interval: options.commit_interval,
            commit_bytes: options.commit_bytes,
            pending_bytes_max,
            is_inline,
            origin,
        }
    }

    /// Returns an error in a child of the process that has the journal.
    pub(crate) fn must_be_here(&self) -> Result<(), JournalError> {
        if self.origin.is_surely_here() {
            Ok(())
        } else {
            Err(JournalError::Forked { path: self.directory.clone(), process: self.origin.id() })
        }
    }

    pub(in crate::journal) fn lock(&self) -> DiskMutexGuard<'_, State> {
        // Nothing that could panic leaves a state half changed.
        unpoisoned(self.state.lock())
    }

    pub(in crate::journal) fn lock_writer(&self) -> DiskMutexGuard<'_, Writer> {
        unpoisoned(self.writer.lock())
    }

    /// Appends ids to the data that is to be written. If the thread is too far behind, waits for
    /// it.
    #[inline]
    pub(in crate::journal) fn append(&self, kind: Kind, at: Stamp, ids: impl IntoIterator<Item = Digest>) {
        let mut ids = ids.into_iter().peekable();
        if ids.peek().is_some() {
            self.append_by(at.reading.time, |payload| payload.push(kind, at, ids));
        }
    }

    pub(in crate::journal) fn append_time_base(&self, base: TimeBase) {
        self.append_by(Timestamp::default(), |payload| payload.push_time_base(base));
    }

    /// Reports a failure to the caller. Data that comes after the failure is kept as far as there
    /// is room; data that is not kept is counted.
    #[inline]
    pub(in crate::journal) fn append_by(&self, at: Timestamp, push: impl FnOnce(&mut Payload)) {
        if !self.origin.is_here() {
            // A child's memory is its own.
            return;
        }
        let mut state = self.lock_with_room();
        if let Some(held) = &mut state.held
            && obeys(Rule::HeldBack)
        {
            // The time of what is held is not written before it.
            let dropped = held.push(push);
            return state.drop_events(dropped);
        }
        if state.failed.is_some() && state.pending.bytes().len() >= self.pending_bytes_max {
            let mut dropped = Payload::default();
            push(&mut dropped);
            state.drop_events(dropped.events());
        } else {
            self.push(&mut state, push);
        }
        self.advance(&mut state, at);
    }

    /// Appends a payload as a whole, so that it is in one block; or nothing of it.
    pub(crate) fn append_whole(&self, payload: &Payload) -> Result<(), JournalError> {
        self.must_be_here()?;
        let mut state = self.lock_with_room();
        if state.held.is_none() {
            self.advance(&mut state, payload.latest());
        }
        if let Some(failed) = &state.failed {
            return Err(failed.error.clone());
        }
        if let Some(held) = &state.held {
            held.has_room()?;
        }
        state.positions.set_all(payload)?;
        match &mut state.held {
            Some(held) => held.append(payload)?,
            None if payload.events() > 0 => self.push(&mut state, |pending| pending.append(payload)),
            None => {}
        }
        Ok(())
    }

    pub(crate) fn positions(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.lock().positions.to_vec()
    }

    #[inline(always)]
    pub(in crate::journal) fn push(&self, state: &mut State, push: impl FnOnce(&mut Payload)) {
        let (before, events) = (state.pending.bytes().len(), state.pending.events());
        push(&mut state.pending);
        state.appended += state.pending.events() - events;
        let after = state.pending.bytes().len();
        if before == 0 || (before < self.commit_bytes && after >= self.commit_bytes) {
            self.work.notify_one();
        }
    }

    /// Notes that it is this time, at least: files may have expired.
    #[inline(always)]
    pub(in crate::journal) fn advance(&self, state: &mut State, at: Timestamp) {
        state.latest = state.latest.max(at);
        if state.failed.is_some() && state.may_heal() {
            self.work.notify_one();
        }
    }

    /// Calls the thread, if another try makes sense.
    pub(in crate::journal) fn wake_writer(&self, state: &State) {
        if state.failed.is_some() && state.may_heal() {
            self.work.notify_one();
        }
    }

    #[inline]
    fn lock_with_room(&self) -> DiskMutexGuard<'_, State> {
        let state = self.lock();
        // (What is held waits for its caller, who must not wait for that.)
        let is_full = state.held.is_none() && state.pending.bytes().len() >= self.pending_bytes_max;
        if is_full { self.wait_for_room(state) } else { state }
    }

    #[cold]
    pub(in crate::journal) fn wait_for_room<'s>(
        &'s self,
        mut state: DiskMutexGuard<'s, State>,
    ) -> DiskMutexGuard<'s, State> {
        while state.pending.bytes().len() >= self.pending_bytes_max && state.failed.is_none() {
            state = if self.is_inline {
                drop(state);
                self.step();
                self.lock()
            } else {
                unpoisoned(self.done.wait(state))
            };
        }
        state
    }

    /// Returns when everything that was appended before the call is durable.
    pub(crate) fn flush(&self) -> Result<(), JournalError> {
        let target = self.want();
        let mut state = self.lock();
        loop {
            match state.outcome(target) {
                Poll::Ready(outcome) => {
                    drop(state);
                    return outcome.and_then(|()| self.verify());
                }
                Poll::Pending => state = unpoisoned(self.done.wait(state)),
            }
        }
    }

    /// Returns `Ok` if the durable data can be found again: its directory and the newest file have
    /// their names.
    pub(in crate::journal) fn verify(&self) -> Result<(), JournalError> {
        loop {
            let (disk, watch) = self.lock().watched();
            let Err(error) = watch.verify(&*disk) else {
                return Ok(());
            };
            let mut state = self.lock();
            // Unless the journal goes on in another file, and this one has expired.
            if state.is_watched(&watch) {
                let wall_nanos = std::time::UNIX_EPOCH.elapsed().map_or(0, nanos_of);
                state.fail(error.clone(), wall_nanos, None);
                self.wake(state);
                return Err(error);
            }
        }
    }

    /// Asks for everything so far to be made durable. Returns how far that is.
    pub(in crate::journal) fn want(&self) -> u64 {
        let mut state = self.lock();
        if state.appended > state.durable && state.wanted < state.appended {
            state.wanted = state.appended;
            self.work.notify_one();
        }
        let target = state.appended;
        drop(state);
        if self.is_inline {
            self.step();
        }
        target
    }

    pub(crate) fn status(&self) -> Status {
        let state = self.lock();
        Status {
            appended: state.appended,
            durable: state.durable,
            pending_bytes: state.pending.bytes().len(),
            held_bytes: state.held.as_ref().map_or(0, Held::bytes),
            dropped: state.dropped_ever,
            reopened: state.reopened,
            failed: state.failed.as_ref().map(|failed| failed.error.clone()),
            written: state.written,
        }
    }

    /// Tells the thread to write what there is, and end.
    pub(in crate::journal) fn close(&self) {
        self.lock().is_closing = true;
        self.work.notify_one();
        if self.is_inline {
            self.step();
        }
    }

    /// Finishes after the thread has ended: records on the disk that this is all, if it is, and
    /// gives the directory up.
    pub(in crate::journal) fn finish(&self) {
        let mut writer = self.lock_writer();
        let is_all_there = self.lock().is_all_there();
        // If that cannot be recorded, the next engine takes it for a crash, and loses nothing by
        // that.
        let _ = writer.finish(is_all_there);
    }

    pub(in crate::journal) fn start(self: &Arc<Self>) -> std::io::Result<Option<JoinHandle<()>>> {
        if self.is_inline {
            return Ok(None);
        }
        let shared = Arc::clone(self);
        std::thread::Builder::new().name("hapax-journal".into()).spawn(move || shared.run()).map(Some)
    }

    fn run(&self) {
        let mut payload = Payload::default();
        while self.next() {
            self.commit(&mut self.lock_writer(), &mut payload);
            payload.reset(4 * self.commit_bytes);
        }
    }

    /// Writes the data that waits to be written, if it makes sense to try.
    pub(in crate::journal) fn step(&self) {
        let mut writer = self.lock_writer();
        self.commit(&mut writer, &mut Payload::default());
    }

    /// Waits until there is something to write, and company for it. Returns `false` if that was
    /// all.
    fn next(&self) -> bool {
        let mut state = self.lock();
        while !state.may_commit() {
            if state.is_closing {
                return false;
            }
            state = unpoisoned(self.work.wait(state));
        }
        let began = Instant::now();
        loop {
            let left = self.commit_interval.saturating_sub(began.elapsed());
            let is_due = state.wanted > state.durable || state.pending.bytes().len() >= self.commit_bytes;
            if is_due || state.is_closing || left.is_zero() {
                return true;
            }
            state = unpoisoned(self.work.wait_timeout(state, left)).0;
        }
    }

    /// Takes the waiting data, and makes it durable, if it makes sense to try.
    fn commit(&self, writer: &mut Writer, payload: &mut Payload) {
        let mut state = self.lock();
        if !state.may_commit() {
            return;
        }
        let target = state.take(payload);
        let latest = state.latest;
        drop(state);
        let outcome = writer.commit(payload, latest);
        let mut state = self.lock();
        state.written(writer, outcome.is_ok().then_some(target));
        match outcome {
            Ok(()) => state.healed(),
            Err(error) => {
                let heals_after = match &error {
                    JournalError::OverBudget { .. } => writer.next_expiry(),
                    _ => None,
                };
                state.put_back(payload);
                state.fail(error, writer.wall_nanos(), heals_after);
            }
        }
        self.wake(state);
    }

    fn wake(&self, mut state: DiskMutexGuard<'_, State>) {
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.done.notify_all();
        wakers.into_values().for_each(Waker::wake);
    }

    /// Fails: nothing becomes durable from now on.
    pub(in crate::journal) fn fail(&self, error: JournalError, wall_nanos: u64) {
        let mut state = self.lock();
        state.fail(error, wall_nanos, None);
        self.wake(state);
    }

    /// Writes the data that has waited since a failure; returns how much that was.
    pub(in crate::journal) fn commit_late(&self, writer: &mut Writer) -> Result<u64, JournalError> {
        let mut payload = Payload::default();
        let mut state = self.lock();
        let (target, latest) = (state.take(&mut payload), state.latest);
        drop(state);
        let outcome = writer.say_time(latest).and_then(|()| match payload.bytes() {
            [] => Ok(()),
            _ => writer.commit(&payload, latest),
        });
        let mut state = self.lock();
        state.written(writer, outcome.is_ok().then_some(target));
        if let Err(error) = outcome {
            state.put_back(&mut payload);
            state.fail(error.clone(), writer.wall_nanos(), None);
            self.wake(state);
            return Err(error);
        }
        Ok(payload.events())
    }

    /// Goes on, since it can be written again; returns what was dropped until now, and lost.
    pub(in crate::journal) fn go_on(&self) -> (u64, Lost) {
        let mut state = self.lock();
        let gone = state.go_on();
        // Data has come while the rest was written.
        self.work.notify_one();
        self.wake(state);
        gone
    }
}
