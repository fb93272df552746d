//! Appending events as one: ids, and how far their sources have come.

use super::journal::JournalHandle;
use crate::clock::Stamp;
use crate::engine::Engine;
use crate::error::JournalError;
use crate::journal::{Kind, MAX_PENDING_BYTES, Payload, too_large};
use crate::mutation::{Rule, obeys};
use crate::{Prepared, Timestamp, Verdict};

/// The most bytes of the name of a source, and of a position.
const SOURCE_BYTES_MAX: usize = 1 << 10;
const POSITION_BYTES_MAX: usize = 64 << 10;

/// The events that are being appended as one; see [`JournalHandle::append`].
pub struct Appending<'e> {
    engine: &'e Engine,
    payload: Payload,
    refused: Option<JournalError>,
}

impl Appending<'_> {
    /// Appends ids that were checked now, with their verdicts. Only the ids among them that are to
    /// be remembered are appended. After a restart they count from now; see
    /// [`append_batch`](JournalHandle::append_batch).
    pub fn accepted(&mut self, checked: impl IntoIterator<Item = (Prepared, Verdict)>) {
        self.ids(checked, self.engine.stamp(self.engine.now()));
    }

    /// Appends ids that were checked, with their verdicts, at the time that their checks were
    /// given; see [`append_batch_at`](JournalHandle::append_batch_at).
    pub fn accepted_at(&mut self, checked: impl IntoIterator<Item = (Prepared, Verdict)>, at: Timestamp) {
        let at = self.taken(at);
        self.ids(checked, self.engine.window.stamp_at(at.into()));
    }

    /// Records how far a source has come, in whatever way it counts: an offset of a partition, of a
    /// file. The latest position of a source counts; [`positions`](JournalHandle::positions)
    /// returns it.
    pub fn position(&mut self, source: impl AsRef<[u8]>, position: impl AsRef<[u8]>) {
        let (source, position) = (source.as_ref(), position.as_ref());
        let fits = too_large("bytes of the source of a position", source.len(), SOURCE_BYTES_MAX)
            .and_then(|()| too_large("bytes of a position", position.len(), POSITION_BYTES_MAX));
        match fits {
            Ok(()) if self.has_room() => self.payload.push_position(source, position),
            Ok(()) => {}
            Err(error) => self.refuse(error),
        }
    }

    /// Records that stream time has come to here, although no id says so: a restart goes on from
    /// there. A time that a [check](crate::Dedup::check_at) would refuse changes nothing.
    pub fn time(&mut self, at: Timestamp) {
        if let Ok(at) = self.engine.event_time(at)
            && self.has_room()
        {
            self.payload.push_event(Kind::Time, at);
        }
    }

    /// Returns the window's time of ids that were checked at a time.
    fn taken(&self, at: Timestamp) -> Timestamp {
        self.engine.stream_time.taken(at, self.engine.window.latest())
    }

    fn ids(&mut self, checked: impl IntoIterator<Item = (Prepared, Verdict)>, at: Stamp) {
        const PART: usize = 1_024;
        let engine = self.engine;
        let extended = checked.into_iter().filter(|(_, verdict)| engine.extends(*verdict));
        let mut ids = extended.map(|(id, _)| id.digest).peekable();
        let mut part = Vec::new();
        while ids.peek().is_some() && self.has_room() {
            // In a buffer of its own, since the caller's iterator may panic, and a run must be
            // whole.
            part.clear();
            part.extend(ids.by_ref().take(PART));
            self.payload.push(Kind::Accepted, at, part.iter().copied());
        }
    }

    /// Returns true if there is room for more; a lack of room is reported at the end.
    fn has_room(&mut self) -> bool {
        if let Err(error) = too_large("bytes appended as one", self.payload.bytes().len(), MAX_PENDING_BYTES) {
            self.refuse(error);
        }
        self.refused.is_none()
    }

    fn refuse(&mut self, error: JournalError) {
        self.refused.get_or_insert(error);
    }
}

impl std::fmt::Debug for Appending<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Appending").field("events", &self.payload.events()).finish_non_exhaustive()
    }
}

impl JournalHandle<'_> {
    /// Appends ids, positions of their sources, and times, as one: after a crash all of it is
    /// there, or nothing.
    ///
    /// For consumers that store how far they have come together with the ids that they have seen,
    /// and [`deferred`](crate::JournalOptions::deferred):
    ///
    /// ```
    /// # let directory = std::env::temp_dir().join(format!("hapax-doc-append-{}", std::process::id()));
    /// use hapax::{Dedup, JournalOptions, Timestamp};
    ///
    /// let open = || Dedup::builder().journal(&directory, JournalOptions::new().deferred(true)).build();
    /// let dedup = open()?;
    /// let (id, at) = (dedup.prepare("a"), Timestamp::from_secs(17));
    /// let verdict = dedup.check_at(id, at);
    /// // … handle it …
    /// dedup.journal()?.append(|appending| {
    ///     appending.accepted_at([(id, verdict)], at);
    ///     appending.position("topic/3", 4_711_u64.to_be_bytes());
    /// })?;
    /// # drop(dedup);
    /// let dedup = open()?;
    /// assert!(dedup.check_at("a", at).is_duplicate());
    /// assert_eq!(dedup.journal()?.positions()?, [(b"topic/3".to_vec(), 4_711_u64.to_be_bytes().to_vec())]);
    /// # drop(dedup);
    /// # std::fs::remove_dir_all(directory)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// It is durable when a [`flush`](JournalHandle::flush) that is called later has returned. A
    /// panic of `fill` appends nothing.
    ///
    /// # Errors
    ///
    /// On an error nothing of it was appended. [`JournalError::TooLarge`] beyond 64 MiB for all of
    /// it, 65,536 sources, 1 KiB for the name of one, 64 KiB for a position, and 32 MiB for all
    /// positions; and, when the journal has failed, the reason.
    ///
    /// # Cost
    ///
    /// Copies the appended events once. Waits while 64 MiB wait to be written.
    pub fn append(&self, fill: impl FnOnce(&mut Appending<'_>)) -> Result<(), JournalError> {
        let payload = self.appending(fill)?;
        self.here()?.shared.append_whole(&payload)
    }

    /// Returns what is to be appended as one.
    pub(super) fn appending(&self, fill: impl FnOnce(&mut Appending<'_>)) -> Result<Payload, JournalError> {
        self.here()?;
        let mut appending = Appending { engine: self.engine, payload: Payload::default(), refused: None };
        fill(&mut appending);
        // The last thing that was appended may have been too much.
        appending.has_room();
        appending.refused.map_or(Ok(appending.payload), Err)
    }

    /// Returns the latest position of each source that was [appended](JournalHandle::append): as
    /// recovered, and as appended since. In the order of the sources' names.
    ///
    /// # Errors
    ///
    /// [`JournalError::Forked`] in a child of the process that has the journal.
    #[expect(clippy::type_complexity, reason = "a name of its own would say less than what it is")]
    pub fn positions(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>, JournalError> {
        match self.engine.journal {
            Some(_) => Ok(self.here()?.shared.positions()),
            None => Ok(Vec::new()),
        }
    }

    /// Appends ids whose checks have said that they are to be handled, after they were handled:
    /// with [`deferred`](crate::JournalOptions::deferred), an id that is not appended is fresh
    /// after a crash. `checked` are ids with their verdicts, at the time that was given to their
    /// checks; or, if events may come late, at the largest that any check had been given by then,
    /// since an engine counts a late one from that. Refused ids are not appended.
    ///
    /// ```
    /// # let directory = std::env::temp_dir().join(format!("hapax-doc-deferred-{}", std::process::id()));
    /// use hapax::{Dedup, JournalOptions, Timestamp};
    ///
    /// let open = || Dedup::builder().journal(&directory, JournalOptions::new().deferred(true)).build();
    /// let dedup = open()?;
    /// let (ids, at, mut verdicts) = (["a", "b"].map(|id| dedup.prepare(id)), Timestamp::from_secs(1), Vec::new());
    /// dedup.check_batch_at(ids, at, &mut verdicts);
    /// // … handle the first, then crash …
    /// dedup.journal()?.append_batch_at(ids.into_iter().zip(verdicts).take(1), at)?;
    /// # drop(dedup);
    /// let dedup = open()?;
    /// assert!(dedup.check_at("a", at).is_duplicate());
    /// assert!(dedup.check_at("b", at).is_fresh());
    /// # drop(dedup);
    /// # std::fs::remove_dir_all(directory)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Large batches are not appended as one;
    /// [`append`](JournalHandle::append) does that.
    ///
    /// # Errors
    ///
    /// The reason why the journal has failed, if it has; see [`flush`](JournalHandle::flush).
    pub fn append_batch_at<I>(&self, checked: I, at: Timestamp) -> Result<(), JournalError>
    where
        I: IntoIterator<Item = (Prepared, Verdict)>,
    {
        self.append_parts(checked, |appending, part| appending.accepted_at(part, at))
    }

    /// Appends ids that were checked without a time; see
    /// [`append_batch_at`](JournalHandle::append_batch_at).
    ///
    /// After a restart they count from the time of this call, not from that of their checks: also
    /// towards the `ids` that a [`history`](crate::Builder::history) is made for. Whoever appends
    /// the ids of several horizons at once gives it more than that, and its false-positive rate
    /// rises until they are forgotten.
    ///
    /// # Errors
    ///
    /// As for [`append_batch_at`](JournalHandle::append_batch_at).
    pub fn append_batch<I>(&self, checked: I) -> Result<(), JournalError>
    where
        I: IntoIterator<Item = (Prepared, Verdict)>,
    {
        self.append_parts(checked, |appending, part| appending.accepted(part))
    }

    /// Appends a part at a time, so that the data that waits to be written stays within its limit.
    fn append_parts<I>(
        &self,
        checked: I,
        fill: impl Fn(&mut Appending<'_>, &mut dyn Iterator<Item = (Prepared, Verdict)>),
    ) -> Result<(), JournalError>
    where
        I: IntoIterator<Item = (Prepared, Verdict)>,
    {
        const PART: usize = 65_536;
        let mut checked = checked.into_iter().peekable();
        // Also for no ids at all: a failure of the journal is reported at once.
        loop {
            let appended = self.append(|appending| fill(appending, &mut checked.by_ref().take(PART)));
            if appended.is_err() && !obeys(Rule::FailureEndsAppend) {
                continue;
            }
            appended?;
            if checked.peek().is_none() {
                return Ok(());
            }
        }
    }
}
