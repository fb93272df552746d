//! The state of a journal: what waits to be written, how far it is durable, and what has failed. No
//! I/O.

use super::damage::Lost;
use super::disk::Disk;
use super::held::Held;
use super::payload::Payload;
use super::positions::Positions;
use super::watch::Watch;
use super::writer::Writer;
use crate::Timestamp;
use crate::error::JournalError;
use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// The amount that has been appended: a number of ids since the engine was built.
///
/// ```no_run
/// # fn acknowledge() {}
/// # fn example(dedup: hapax::Dedup) -> Result<(), hapax::JournalError> {
/// dedup.check("m-17");
/// let mine = dedup.journal()?.appended()?;
/// // … later, by whatever flush …
/// if dedup.journal()?.durable()? >= mine {
///     acknowledge();
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub(super) u64);

impl Position {
    /// Returns the position as a number.
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

pub(super) struct State {
    pub(super) pending: Payload,
    /// The data that is to be written with the next checkpoint, of a journal that has them.
    pub(super) held: Option<Held>,
    pub(super) appended: Position,
    pub(super) durable: Position,
    /// The position up to which a caller waits.
    pub(super) wanted: Position,
    pub(super) is_closing: bool,
    pub(super) failed: Option<Failed>,
    /// The number of events that were not kept since the failure; `dropped_ever` counts all.
    dropped: u64,
    pub(super) dropped_ever: u64,
    /// The number of times that the journal went on.
    pub(super) reopened: u64,
    /// The durable data that was lost since the failure.
    lost: Lost,
    /// The latest time that was appended, or was to be.
    pub(super) latest: Timestamp,
    /// The wakers of futures that wait, by number.
    pub(super) wakers: HashMap<u64, Waker>,
    pub(super) next_waker: u64,
    pub(super) written: Written,
    /// The positions as appended.
    pub(super) positions: Positions,
    /// The place where it is written.
    watch: Arc<Watch>,
    disk: Arc<dyn Disk>,
}

/// A failure, after which nothing becomes durable.
pub(super) struct Failed {
    pub(super) error: JournalError,
    /// The time of the failure, since 1970.
    pub(super) wall_nanos: u64,
    /// The time after which another try makes sense.
    heals_after: Option<Timestamp>,
}

/// The counts of what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) commits: u64,
    pub(super) disk_bytes: u64,
    pub(super) segments: u64,
}

impl Written {
    fn of(writer: &Writer, commits: u64) -> Self {
        Written { commits, disk_bytes: writer.bytes(), segments: writer.segments().count() as u64 }
    }
}

impl State {
    pub(super) fn new(writer: &Writer, held: Option<Held>) -> Self {
        State {
            pending: Payload::default(),
            held,
            appended: Position::default(),
            durable: Position::default(),
            wanted: Position::default(),
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
    pub(super) fn outcome(&self, target: Position) -> Poll<Result<(), JournalError>> {
        match &self.failed {
            Some(_) if self.may_heal() && !self.is_closing => Poll::Pending,
            Some(failed) => Poll::Ready(Err(failed.error.clone())),
            None if self.durable >= target => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    }

    pub(super) fn may_commit(&self) -> bool {
        !self.pending.bytes().is_empty() && (self.failed.is_none() || self.may_heal())
    }

    /// Returns true if files have expired since a failure for lack of room.
    /// Sets the time after which another try makes sense, if the failure was one of room.
    pub(super) fn heals_after(&mut self, time: Option<Timestamp>) {
        if let Some(failed) = &mut self.failed
            && matches!(failed.error, JournalError::OverBudget { .. })
        {
            failed.heals_after = time;
        }
    }

    pub(super) fn may_heal(&self) -> bool {
        let heals_after = self.failed.as_ref().and_then(|failed| failed.heals_after);
        heals_after.is_some_and(|time| self.latest > time) && !self.pending.bytes().is_empty()
    }

    pub(super) fn is_all_there(&self) -> bool {
        self.failed.is_none() && self.pending.bytes().is_empty()
    }

    /// Takes the pending data into an empty payload. Returns the position up to which it goes.
    pub(super) fn take(&mut self, payload: &mut Payload) -> Position {
        std::mem::swap(&mut self.pending, payload);
        self.appended
    }

    /// Puts data that could not be written before the data that was appended since.
    pub(super) fn put_back(&mut self, payload: &mut Payload) {
        payload.append(&self.pending);
        std::mem::swap(&mut self.pending, payload);
    }

    /// Notes that the writer has tried. `durable` is the position up to which everything is durable
    /// now, if that went well.
    pub(super) fn written(&mut self, writer: &Writer, durable: Option<Position>) {
        self.watch = writer.watch();
        self.written = Written::of(writer, self.written.commits + 1);
        self.durable = durable.unwrap_or(self.durable);
        debug_assert!(self.durable <= self.appended);
    }

    pub(super) fn fail(&mut self, error: JournalError, wall_nanos: u64, heals_after: Option<Timestamp>) {
        // The first failure says since when.
        let wall_nanos = self.failed.as_ref().map_or(wall_nanos, |failed| failed.wall_nanos);
        self.failed = Some(Failed { error, wall_nanos, heals_after });
    }

    /// Notes that an operation that had failed has succeeded now.
    pub(super) fn healed(&mut self) {
        if self.failed.is_some() {
            self.go_on();
        }
    }

    /// Ends the failure. Returns what was dropped since it began, and lost.
    pub(super) fn go_on(&mut self) -> (u64, Lost) {
        self.failed = None;
        self.reopened += 1;
        (std::mem::take(&mut self.dropped), std::mem::take(&mut self.lost))
    }

    pub(super) fn drop_events(&mut self, events: u64) {
        self.dropped += events;
        self.dropped_ever += events;
    }

    pub(super) fn lose(&mut self, lost: Lost) {
        self.lost = Lost { files: self.lost.files + lost.files, ids: self.lost.ids + lost.ids };
    }

    /// Returns the files that must still be there, and the disk to look at.
    pub(super) fn watched(&self) -> (Arc<dyn Disk>, Arc<Watch>) {
        (Arc::clone(&self.disk), Arc::clone(&self.watch))
    }

    pub(super) fn is_watched(&self, watch: &Arc<Watch>) -> bool {
        Arc::ptr_eq(&self.watch, watch)
    }
}
