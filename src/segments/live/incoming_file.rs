//! A segment's file on its way here, and those who wait for it.

#![allow(clippy::cast_possible_truncation, reason = "pieces that are in memory")]

use crate::SegmentError;
use crate::journal::files::disk::{Disk, DiskFile, create_anew, write_all};
use crate::mutation::{Rule, obeys};
use crate::segments::encoding::format::Keys;
use crate::segments::encoding::name::part_of;
use crate::segments::encoding::page::PAGE_BYTES;
use crate::segments::read::segment::Segment;
use crate::sync::{Condvar, Mutex, unpoisoned};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The ids from which on a batch waits for filters, instead of a page for each id and segment.
const BATCH_MIN: usize = 16;

/// The file that is being brought, and who waits for filters.
#[derive(Default)]
pub(in crate::segments) struct Bringing {
    pub(in crate::segments) file: Mutex<Option<Coming>>,
    pub(in crate::segments) news: Mutex<News>,
    pub(in crate::segments) changed: Condvar,
}

/// The part that those who wait look at.
#[derive(Default)]
pub(in crate::segments) struct News {
    /// True while there is a thread that brings segments.
    pub(in crate::segments) goes_on: bool,
    /// The number of times that it has failed.
    pub(in crate::segments) failures: u64,
    /// The last error, until something comes.
    pub(in crate::segments) failed: Option<SegmentError>,
}

/// A file on its way.
pub(in crate::segments) struct Coming {
    pub(in crate::segments) segment: Arc<Segment>,
    pub(in crate::segments) path: PathBuf,
    file: Box<dyn DiskFile>,
    pub(in crate::segments) at: u64,
    buffer: Vec<u8>,
}

impl Bringing {
    /// Lets a batch wait for filters that are on their way: each id would take a page of each of
    /// these segments.
    pub(in crate::segments) fn wait_for_filters(&self, ids: usize, segments: &[Arc<Segment>], longest: Duration) {
        let is_missing = || segments.iter().any(|segment| !segment.is_here() && segment.filter.get().is_none());
        if ids < BATCH_MIN || !is_missing() {
            return;
        }
        let deadline = Instant::now() + longest;
        let mut news = unpoisoned(self.news.lock());
        let failures = news.failures;
        // Where it fails, pages say so as well.
        while news.goes_on && news.failures == failures && is_missing() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            news = unpoisoned(self.changed.wait_timeout(news, left)).0;
        }
    }
}

impl Coming {
    pub(in crate::segments) fn begin(disk: &dyn Disk, segment: &Arc<Segment>) -> Result<Self, SegmentError> {
        let path = part_of(segment.path());
        let file = create_anew(disk, &path).map_err(SegmentError::io("create", &path))?;
        Ok(Coming { segment: Arc::clone(segment), path, file, at: 0, buffer: Vec::new() })
    }

    /// Reads the next piece, and checks its pages.
    pub(in crate::segments) fn read(&mut self, bytes: usize) -> Result<(), SegmentError> {
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

    /// Writes what was read.
    pub(in crate::segments) fn write(&mut self) -> Result<(), SegmentError> {
        write_all(self.file.as_mut(), &self.buffer).map_err(SegmentError::io("write", &self.path))?;
        self.at += self.buffer.len() as u64;
        Ok(())
    }

    /// Syncs the file, and reads what is no page of it as it lies on the disk: pages were right on
    /// their way.
    pub(in crate::segments) fn whole(&mut self, disk: &dyn Disk, keys: Keys) -> Result<Segment, SegmentError> {
        self.file.sync().map_err(SegmentError::io("sync", &self.path))?;
        let opened = Segment::open(disk, &self.path, self.segment.listed, keys, None)?;
        if obeys(Rule::BroughtWhole) {
            opened.check_filter()?;
        }
        Ok(opened)
    }
}
