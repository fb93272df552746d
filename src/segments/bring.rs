//! Brings segments here that are elsewhere: first their filters, then their files, piece by piece.
//!
//! A file comes under another name. It gets its own when all of it is on the disk, and right; until
//! then, after whatever happens, the segment is elsewhere still.

#![allow(clippy::cast_possible_truncation, reason = "pieces that are in memory")]

use super::page::PAGE_BYTES;
use super::segment::Segment;
use super::set::Segments;
use crate::SegmentError;
use crate::journal::disk::{DiskFile, write_all};
use crate::rules::{Rule, obeys};
use crate::sync::{Condvar, Mutex, unpoisoned};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The name of a file that is not whole yet ends like this, behind that of the segment.
const PART: &str = "part";

/// The ids from which on a batch waits for filters, instead of a page for each id and segment.
const BATCH_MIN: usize = 16;

/// Returns true if a file is what was left of bringing a segment.
pub(super) fn is_part(path: &Path) -> bool {
    let stem = path.file_stem().map(Path::new);
    path.extension().is_some_and(|it| it == PART) && stem.is_some_and(|stem| super::set::number_of(stem).is_some())
}

/// The file that is being brought, and who waits for filters.
#[derive(Default)]
pub(super) struct Bringing {
    file: Mutex<Option<Coming>>,
    news: Mutex<News>,
    changed: Condvar,
}

/// The part that those who wait look at.
#[derive(Default)]
struct News {
    /// True while there is a thread that brings segments.
    goes_on: bool,
    /// The number of times that it has failed.
    failures: u64,
    /// The last error, until something comes.
    failed: Option<SegmentError>,
}

/// A file on its way.
struct Coming {
    segment: Arc<Segment>,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    at: u64,
    buffer: Vec<u8>,
}

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
            (None, Some(segment)) => Coming::begin(self, segment)?,
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
            Ok(()) => coming.finish(self).inspect_err(|_| self.discard(&path))?,
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

    /// Lets a batch wait for filters that are on their way: each id would take a page of each of
    /// these segments.
    pub(super) fn wait_for_filters(&self, ids: usize, segments: &[Arc<Segment>]) {
        let is_missing = || segments.iter().any(|segment| !segment.is_here() && segment.filter.get().is_none());
        if ids < BATCH_MIN || !is_missing() {
            return;
        }
        let deadline = Instant::now() + self.options.read_wait_max;
        let mut news = unpoisoned(self.bringing.news.lock());
        let failures = news.failures;
        // Where it fails, pages say so as well.
        while news.goes_on && news.failures == failures && is_missing() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            news = unpoisoned(self.bringing.changed.wait_timeout(news, left)).0;
        }
    }
}

impl Coming {
    fn begin(segments: &Segments, segment: &Arc<Segment>) -> Result<Self, SegmentError> {
        let mut path = segment.path().as_os_str().to_owned();
        path.push(".");
        path.push(PART);
        let path = PathBuf::from(path);
        let create = || segments.disk.create(&path);
        let file = create().or_else(|error| match error.kind() {
            // What could not be deleted when it was given up.
            std::io::ErrorKind::AlreadyExists => segments.disk.remove(&path).and_then(|()| create()),
            _ => Err(error),
        });
        let file = file.map_err(SegmentError::io("create", &path))?;
        Ok(Coming { segment: Arc::clone(segment), path, file, at: 0, buffer: Vec::new() })
    }

    /// Reads the next piece, and checks its pages.
    fn read(&mut self, bytes: usize) -> Result<(), SegmentError> {
        let Coming { segment, at, buffer, .. } = self;
        buffer.resize((segment.listed.bytes - *at).min(bytes as u64) as usize, 0);
        segment.read(*at, buffer)?;
        if !obeys(Rule::BroughtPages) {
            return Ok(());
        }
        let first = *at / PAGE_BYTES as u64;
        let pages = (segment.trailer.pages.saturating_sub(first)) as usize;
        (first..)
            .zip(buffer.as_chunks().0)
            .take(pages)
            .try_for_each(|(page, bytes)| segment.decode(page, bytes).map(drop))
    }

    fn write(&mut self) -> Result<(), SegmentError> {
        write_all(self.file.as_mut(), &self.buffer).map_err(SegmentError::io("write", &self.path))?;
        self.at += self.buffer.len() as u64;
        Ok(())
    }

    /// Gives the file its name, and lets it be read.
    fn finish(mut self, segments: &Segments) -> Result<(), SegmentError> {
        self.file.sync().map_err(SegmentError::io("sync", &self.path))?;
        let Coming { segment, path, .. } = &self;
        // The pages were right on their way; the rest is read as it lies on the disk.
        let opened = Segment::open(&*segments.disk, path, segment.listed, segments.keys, None)?;
        if obeys(Rule::BroughtWhole) {
            opened.check_filter()?;
        }
        // Nobody lets the segment go meanwhile, who would delete its file.
        let _state = segments.state();
        if !segments.segments().iter().any(|live| Arc::ptr_eq(live, segment)) && obeys(Rule::BroughtIfLive) {
            return segments.disk.remove(path).map_err(SegmentError::io("delete", path));
        }
        let named = segment.path();
        segments.disk.rename(path, named).map_err(SegmentError::io("rename to", named))?;
        let directory = &segments.directory;
        segments.disk.sync_directory(directory).map_err(SegmentError::io("sync", directory))?;
        segment.arrives(opened);
        Ok(())
    }
}
