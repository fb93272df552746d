//! The state of a journal: what waits to be written, how far it is durable, and what has failed. No
//! I/O.

use super::pending_checkpoint::Held;
use super::writer::Writer;
use crate::Timestamp;
use crate::error::JournalError;
use crate::journal::damage::Lost;
use crate::journal::encoding::payload::Payload;
use crate::journal::encoding::positions::Positions;
use crate::journal::files::disk::Disk;
use crate::journal::files::watch::Watch;
use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Poll, Waker};

pub(in crate::journal) struct State {
    pub(in crate::journal) pending: Payload,
    /// The data that is to be written with the next checkpoint, of a journal that has them.
    pub(in crate::journal) held: Option<Held>,
    pub(in crate::journal) appended: u64,
    pub(in crate::journal) durable: u64,
    /// The position up to which a caller waits.
    pub(in crate::journal) wanted: u64,
    pub(in crate::journal) is_closing: bool,
    pub(in crate::journal) failed: Option<Failed>,
    /// The number of events that were not kept since the failure; `dropped_ever` counts all.
    dropped: u64,
    pub(in crate::journal) dropped_ever: u64,
    /// The number of times that the journal went on.
    pub(in crate::journal) reopened: u64,
    /// The durable data that was lost since the failure.
    lost: Lost,
    /// The latest time that was appended, or was to be.
    pub(in crate::journal) latest: Timestamp,
    /// The wakers of futures that wait, by number.
    pub(in crate::journal) wakers: HashMap<u64, Waker>,
    pub(in crate::journal) next_waker: u64,
    pub(in crate::journal) written: Written,
    /// The positions as appended.
    pub(in crate::journal) positions: Positions,
    /// The place where it is written.
    watch: Arc<Watch>,
    disk: Arc<dyn Disk>,
}

/// A failure, after which nothing becomes durable.
pub(in crate::journal) struct Failed {
    pub(in crate::journal) error: JournalError,
    /// The time of the failure, since 1970.
    pub(in crate::journal) wall_nanos: u64,
    /// The time after which another try makes sense.
    heals_after: Option<Timestamp>,
}

/// The counts of what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::journal) struct Written {
    pub(in crate::journal) commits: u64,
    pub(in crate::journal) disk_bytes: u64,
    pub(in crate::journal) segments: u64,
}

impl Written {
    fn of(writer: &Writer, commits: u64) -> Self {
        Written { commits, disk_bytes: writer.bytes(), segments: writer.segments().count() as u64 }
    }
}

impl State {
    pub(in crate::journal) fn new(writer: &Writer, held: Option<Held>) -> Self {
        State {
            pending: Payload::default(),
            held,
            appended: 0,
            durable: 0,
            wanted: 0,
            is_closing: false,
            failed: None,
            dropped: 0,
            dropped_ever: 0,
            reopened: 0,
            lost: Lost::default(),
            latest: Timestamp::default(),
            wakers: HashMap::new(),
            next_waker: 0,
            written: Written::of(writer, 0),
            positions: writer.positions().clone(),
            watch: writer.watch(),
            disk: writer.disk(),
        }
    }

    /// Returns the outcome for a caller that waits for a position.
    pub(in crate::journal) fn outcome(&self, target: u64) -> Poll<Result<(), JournalError>> {
        match &self.failed {
            Some(_) if self.may_heal() && !self.is_closing => Poll::Pending,
            Some(failed) => Poll::Ready(Err(failed.error.clone())),
            None if self.durable >= target => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    }

    pub(in crate::journal) fn may_commit(&self) -> bool {
        !self.pending.bytes().is_empty() && (self.failed.is_none() || self.may_heal())
    }

    /// Returns true if files have expired since a failure for lack of room.
    /// Sets the time after which another try makes sense, if the failure was one of room.
    pub(in crate::journal) fn heals_after(&mut self, time: Option<Timestamp>) {
        if let Some(failed) = &mut self.failed
            && matches!(failed.error, JournalError::OverBudget { .. })
        {
            failed.heals_after = time;
        }
    }

    pub(in crate::journal) fn may_heal(&self) -> bool {
        let heals_after = self.failed.as_ref().and_then(|failed| failed.heals_after);
        heals_after.is_some_and(|time| self.latest > time) && !self.pending.bytes().is_empty()
    }

    pub(in crate::journal) fn is_all_there(&self) -> bool {
        self.failed.is_none() && self.pending.bytes().is_empty()
    }

    /// Takes the pending data into an empty payload. Returns the position up to which it goes.
    pub(in crate::journal) fn take(&mut self, payload: &mut Payload) -> u64 {
        std::mem::swap(&mut self.pending, payload);
        self.appended
    }

    /// Puts data that could not be written before the data that was appended since.
    pub(in crate::journal) fn put_back(&mut self, payload: &mut Payload) {
        payload.append(&self.pending);
        std::mem::swap(&mut self.pending, payload);
    }

    /// Notes that the writer has tried. `durable` is the position up to which everything is durable
    /// now, if that went well.
    pub(in crate::journal) fn written(&mut self, writer: &Writer, durable: Option<u64>) {
        self.watch = writer.watch();
        self.written = Written::of(writer, self.written.commits + 1);
        self.durable = durable.unwrap_or(self.durable);
        debug_assert!(self.durable <= self.appended);
    }

    pub(in crate::journal) fn fail(&mut self, error: JournalError, wall_nanos: u64, heals_after: Option<Timestamp>) {
        // The first failure says since when.
        let wall_nanos = self.failed.as_ref().map_or(wall_nanos, |failed| failed.wall_nanos);
        self.failed = Some(Failed { error, wall_nanos, heals_after });
    }

    /// Notes that an operation that had failed has succeeded now.
    pub(in crate::journal) fn healed(&mut self) {
        if self.failed.is_some() {
            self.go_on();
        }
    }

    /// Ends the failure. Returns what was dropped since it began, and lost.
    pub(in crate::journal) fn go_on(&mut self) -> (u64, Lost) {
        self.failed = None;
        self.reopened += 1;
        (std::mem::take(&mut self.dropped), std::mem::take(&mut self.lost))
    }

    pub(in crate::journal) fn drop_events(&mut self, events: u64) {
        self.dropped += events;
        self.dropped_ever += events;
    }

    pub(in crate::journal) fn lose(&mut self, lost: Lost) {
        self.lost = Lost { files: self.lost.files + lost.files, ids: self.lost.ids + lost.ids };
    }

    /// Returns the files that must still be there, and the disk to look at.
    pub(in crate::journal) fn watched(&self) -> (Arc<dyn Disk>, Arc<Watch>) {
        (Arc::clone(&self.disk), Arc::clone(&self.watch))
    }

    pub(in crate::journal) fn is_watched(&self, watch: &Arc<Watch>) -> bool {
        Arc::ptr_eq(&self.watch, watch)
    }
}
