//! Brings segments here that are elsewhere: first their filters, then their files, piece by piece.
//!
//! A file comes under another name. It gets its own when all of it is on the disk, and right; until
//! then, after whatever happens, the segment is elsewhere still.

use super::incoming_file::Coming;
use super::set::Segments;
use crate::SegmentError;
use crate::mutation::{Rule, obeys};
use crate::segments::encoding::page::PAGE_BYTES;
use crate::sync::unpoisoned;
use std::sync::Arc;

impl Segments {
    /// Brings the next filter, or the next piece of a file: this many bytes, rounded down to pages,
    /// and a page at least. Returns false if all segments are here.
    ///
    /// # Errors
    ///
    /// Those of the source, and of the disk; [`SegmentError::Damaged`] for bytes that are not those
    /// of the segment. None of them counts; it is tried again by the next call.
    pub fn bring(&self, bytes: usize) -> Result<bool, SegmentError> {
        self.must_be_here()?;
        let brought = self.bring_next(bytes / PAGE_BYTES * PAGE_BYTES);
        let mut news = unpoisoned(self.bringing.news.lock());
        news.failed = brought.as_ref().err().cloned();
        news.failures += u64::from(brought.is_err());
        drop(news);
        self.bringing.changed.notify_all();
        brought
    }

    fn bring_next(&self, bytes: usize) -> Result<bool, SegmentError> {
        let mut file = unpoisoned(self.bringing.file.lock());
        let segments = self.segments();
        let is_live = |coming: &Coming| segments.iter().any(|segment| Arc::ptr_eq(segment, &coming.segment));
        if let Some(coming) = file.take_if(|coming| !is_live(coming)) {
            // It has expired, or was cleared.
            self.discard(&coming.path);
        }
        let remote = || segments.iter().rev().filter(|segment| !segment.is_here());
        if let Some(segment) = remote().find(|segment| segment.filter.get().is_none()) {
            return segment.load_filter().map(|()| true);
        }
        let mut coming = match (file.take(), remote().next()) {
            (Some(coming), _) => coming,
            (None, Some(segment)) => Coming::begin(&*self.disk, segment)?,
            (None, None) => return Ok(false),
        };
        if let Err(error) = coming.read(bytes.max(PAGE_BYTES)) {
            // What was written is right.
            *file = Some(coming);
            return Err(error);
        }
        let Coming { path, segment, .. } = &coming;
        let (path, size) = (path.clone(), segment.listed.bytes);
        match coming.write() {
            Ok(()) if coming.at < size => *file = Some(coming),
            Ok(()) => self.arrives(coming).inspect_err(|_| self.discard(&path))?,
            Err(error) => {
                self.discard(&path);
                return Err(error);
            }
        }
        Ok(true)
    }

    /// Notes that a thread brings segments from now on, or does no more.
    pub(crate) fn is_bringing(&self, goes_on: bool) {
        unpoisoned(self.bringing.news.lock()).goes_on = goes_on;
        self.bringing.changed.notify_all();
    }

    /// Returns the error of the last try to bring something, if it failed.
    pub(crate) fn not_brought(&self) -> Option<SegmentError> {
        unpoisoned(self.bringing.news.lock()).failed.clone()
    }

    /// Gives a file its name, and lets it be read.
    fn arrives(&self, mut coming: Coming) -> Result<(), SegmentError> {
        let opened = coming.whole(&*self.disk, self.keys)?;
        let Coming { segment, path, .. } = &coming;
        // Nobody lets the segment go meanwhile, who would delete its file.
        let _state = self.state();
        if !self.segments().iter().any(|live| Arc::ptr_eq(live, segment)) && obeys(Rule::BroughtIfLive) {
            return self.disk.remove(path).map_err(SegmentError::io("delete", path));
        }
        let named = segment.path();
        self.disk.rename(path, named).map_err(SegmentError::io("rename to", named))?;
        self.disk.sync_directory(&self.directory).map_err(SegmentError::io("sync", &self.directory))?;
        segment.arrives(opened);
        Ok(())
    }
}
