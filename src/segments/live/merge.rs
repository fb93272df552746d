//! Merges neighbouring segments into one, in steps.

#![allow(clippy::cast_possible_truncation, reason = "pages that are in memory")]

use crate::journal::files::disk::Disk;
use crate::segments::encoding::format::Keys;
use crate::segments::encoding::key::{Key, Scale, TOMBSTONE};
use crate::segments::encoding::page::{Bytes, PAGE_BYTES};
use crate::segments::plan::is_out;
use crate::segments::read::segment::Segment;
use crate::segments::write::writer::{Plan, Writer, Written};
use crate::{SegmentError, Timestamp};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The pages that are read at once.
const READ_PAGES: u64 = 32;

/// The bytes that are written for each record of a step when records are at an end.
const BYTES_PER_RECORD: usize = 16;

/// The records of a segment, in order.
struct Cursor {
    segment: Arc<Segment>,
    scale: Scale,
    next_page: u64,
    buffer: Vec<u8>,
    /// The pages of the buffer that are not decoded.
    undecoded: std::ops::Range<usize>,
    /// The records of a page, packed.
    entries: Vec<u128>,
    at: usize,
    seen: u64,
    last: Option<Key>,
}

impl Cursor {
    fn new(segment: Arc<Segment>) -> Result<Self, SegmentError> {
        let (scale, buffer, entries) = (segment.trailer.scale, Vec::new(), Vec::new());
        let (next_page, at, seen, last) = (0, 0, 0, None);
        let mut cursor = Cursor { segment, scale, next_page, buffer, undecoded: 0..0, entries, at, seen, last };
        cursor.next_page()?;
        Ok(cursor)
    }

    fn head(&self) -> Option<u128> {
        self.entries.get(self.at).copied()
    }

    /// Goes to the next record, and returns it.
    #[inline]
    fn advance(&mut self) -> Result<Option<u128>, SegmentError> {
        self.at += 1;
        if self.at >= self.entries.len() {
            self.next_page()?;
        }
        Ok(self.head())
    }

    /// Decodes the next page, if there is one.
    fn next_page(&mut self) -> Result<(), SegmentError> {
        (self.at, self.seen) = (0, self.seen + self.entries.len() as u64);
        self.entries.clear();
        let pages = self.segment.trailer.pages;
        let damaged = |page: u64, what| SegmentError::damaged(self.segment.path(), page * PAGE_BYTES as u64, what);
        if self.next_page == pages {
            let is_whole = self.seen == self.segment.records();
            return if is_whole { Ok(()) } else { Err(damaged(pages, "there are not as many records as it says")) };
        }
        if self.undecoded.is_empty() {
            self.undecoded = 0..READ_PAGES.min(pages - self.next_page) as usize;
            self.buffer.resize(self.undecoded.end * PAGE_BYTES, 0);
            self.segment.read_pages(self.next_page, &mut self.buffer)?;
        }
        let bytes: &Bytes = &self.buffer.as_chunks().0[self.undecoded.start];
        let page = self.segment.decode(self.next_page, bytes)?;
        for entry in page.entries() {
            match entry {
                Some(entry) if self.last.is_none_or(|last| last < entry.0) => {
                    self.last = Some(entry.0);
                    self.entries.push(entry.0.with(entry.1));
                }
                _ => return Err(damaged(self.next_page, "records are not in order")),
            }
        }
        self.undecoded.start += 1;
        self.next_page += 1;
        Ok(())
    }
}

/// Returns the plan of a segment that is made of others, the oldest first.
pub(in crate::segments) fn plan_of(sources: &[Arc<Segment>], keys: Keys, number: u64) -> Plan {
    let trailers = || sources.iter().map(|source| &source.trailer);
    let with_ids = || trailers().filter(|trailer| trailer.ids > 0);
    let first = with_ids().map(|trailer| trailer.first).min().unwrap_or_default();
    let last = with_ids().map(|trailer| trailer.last).max().unwrap_or_default();
    let spans = [trailers().map(|trailer| trailer.spans[0]).min(), trailers().map(|trailer| trailer.spans[1]).max()];
    Plan {
        keys,
        number,
        level: trailers().map(|trailer| trailer.level).max().unwrap_or(0) + 1,
        spans: spans.map(Option::unwrap_or_default),
        times: (first, last),
        records_max: sources.iter().map(|source| source.records()).sum(),
    }
}

/// A merge that is under way.
pub(in crate::segments) struct Merging {
    /// Those that have records left, the oldest first.
    cursors: Vec<Cursor>,
    /// The next record of each, packed.
    heads: Vec<u128>,
    writer: Writer,
    /// The time and the retention, if what is out of it may go, and tombstones: no older segment is
    /// left that they matter to.
    drops: Option<(Timestamp, Duration)>,
}

impl Merging {
    pub(in crate::segments) fn new(
        disk: &dyn Disk,
        path: &Path,
        sources: &[Arc<Segment>],
        plan: &Plan,
        drops: Option<(Timestamp, Duration)>,
    ) -> Result<Self, SegmentError> {
        let mut merging =
            Merging { cursors: Vec::new(), heads: Vec::new(), writer: Writer::new(disk, path, plan)?, drops };
        for source in sources {
            let cursor = Cursor::new(Arc::clone(source))?;
            if let Some(head) = cursor.head() {
                merging.heads.push(head);
                merging.cursors.push(cursor);
            }
        }
        Ok(merging)
    }

    /// Returns the cursor that has the least key; of several the newest, whose record counts. And
    /// false if it is surely the only one.
    #[inline]
    fn least(&self) -> Option<(usize, bool)> {
        let (mut least, mut at, mut is_shared) = (*self.heads.first()?, 0, false);
        // Which one it is cannot be foreseen: so there is no branch for it.
        for (i, head) in self.heads.iter().enumerate().skip(1) {
            let is_less = head >> 16 <= least >> 16;
            is_shared |= head >> 16 == least >> 16;
            (least, at) = (if is_less { *head } else { least }, if is_less { i } else { at });
        }
        Some((at, is_shared))
    }

    /// Goes on with a cursor, which is gone at its end.
    #[inline]
    fn advance(&mut self, i: usize) -> Result<(), SegmentError> {
        match self.cursors[i].advance()? {
            Some(head) => self.heads[i] = head,
            None => {
                self.heads.remove(i);
                self.cursors.remove(i);
            }
        }
        Ok(())
    }

    /// Goes on beyond a key that several may have.
    #[cold]
    fn advance_all(&mut self, key: Key) -> Result<(), SegmentError> {
        for i in (0..self.heads.len()).rev() {
            if Key::unpack(self.heads[i]).0 == key {
                self.advance(i)?;
            }
        }
        Ok(())
    }

    /// Takes over this many records, or writes as many bytes as they would take. Returns true when
    /// the segment is whole, and on the disk.
    pub(in crate::segments) fn step(&mut self, records: usize) -> Result<bool, SegmentError> {
        for _ in 0..records {
            let Some((least, is_shared)) = self.least() else {
                return self.writer.finish(records.saturating_mul(BYTES_PER_RECORD));
            };
            let ((key, tick), scale) = (Key::unpack(self.heads[least]), self.cursors[least].scale);
            if is_shared {
                self.advance_all(key)?;
            } else {
                self.advance(least)?;
            }
            let time = scale.time(tick);
            let goes = self.drops.is_some_and(|(now, retention)| tick == TOMBSTONE || is_out(time, now, retention));
            if !goes {
                let tick = if tick == TOMBSTONE { tick } else { self.writer.scale().tick(time) };
                self.writer.push(key, tick)?;
            }
        }
        Ok(false)
    }

    pub(in crate::segments) fn written(self) -> Written {
        self.writer.written()
    }
}
