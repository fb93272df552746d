//! Writes a segment: pages as they fill up, then the index, the filter and the trailer.

#![allow(clippy::cast_possible_truncation, reason = "parts of what is in memory")]

use crate::journal::files::disk::{Disk, DiskFile, write_all};
use crate::mutation::{Rule, obeys};
use crate::segments::encoding::filter::{Filter, Pattern, lines_for};
use crate::segments::encoding::format::{FILTER_PART, INDEX_BYTES, INDEX_PART, Keys, LINE_BYTES, Trailer};
use crate::segments::encoding::index::Index;
use crate::segments::encoding::key::{Key, Scale, TOMBSTONE};
use crate::segments::encoding::page::Builder;
use crate::{SegmentError, Timestamp};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// The bytes that are written at once.
const WRITE_BYTES: usize = 256 << 10;

/// The bytes after which the disk is asked to have them, so that the last sync takes no longer than
/// any other.
const SYNC_BYTES: u64 = 64 << 20;

/// The properties of a segment that are known before it is written.
#[derive(Clone, Copy)]
pub(in crate::segments) struct Plan {
    pub(in crate::segments) keys: Keys,
    pub(in crate::segments) number: u64,
    pub(in crate::segments) level: u64,
    pub(in crate::segments) spans: [u64; 2],
    /// The first and the last time in it.
    pub(in crate::segments) times: (Timestamp, Timestamp),
    /// The most records that there will be.
    pub(in crate::segments) records_max: u64,
}

/// The part of the file that comes next, after the pages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Pages,
    Index(usize),
    Filter(usize),
    Trailer,
}

/// A segment that is being written.
pub(in crate::segments) struct Writer {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    trailer: Trailer,
    page: Builder,
    index: Index,
    filter: Filter,
    buffer: Vec<u8>,
    unsynced: u64,
    stage: Stage,
    checksum: Xxh3,
}

/// A segment that is on the disk.
pub(in crate::segments) struct Written {
    pub(in crate::segments) path: PathBuf,
    pub(in crate::segments) trailer: Trailer,
    pub(in crate::segments) index: Index,
    pub(in crate::segments) filter: Filter,
}

impl Writer {
    pub(in crate::segments) fn new(disk: &dyn Disk, path: &Path, plan: &Plan) -> Result<Self, SegmentError> {
        let lines = lines_for(plan.records_max);
        let filter = Filter::new(lines)?;
        let (first, last) = plan.times;
        let Plan { keys, number, level, spans, .. } = *plan;
        let trailer = Trailer {
            keys,
            number,
            level,
            ids: 0,
            tombstones: 0,
            first,
            last,
            scale: Scale::of(first, last),
            pages: 0,
            lines,
            index_checksum: 0,
            filter_checksum: 0,
            spans,
        };
        let file = disk.create(path).map_err(SegmentError::io("create", path))?;
        Ok(Writer {
            path: path.into(),
            file,
            trailer,
            page: Builder::default(),
            index: Index::default(),
            filter,
            buffer: Vec::with_capacity(WRITE_BYTES),
            unsynced: 0,
            stage: Stage::Pages,
            checksum: Xxh3::new(),
        })
    }

    /// Returns the way in which the segment counts time.
    pub(in crate::segments) fn scale(&self) -> Scale {
        self.trailer.scale
    }

    /// Appends a record, whose key is beyond all others.
    pub(in crate::segments) fn push(&mut self, key: Key, tick: u16) -> Result<(), SegmentError> {
        if !self.page.push((key, tick)) {
            self.end_page()?;
            // An empty page has room for any record.
            let _ = self.page.push((key, tick));
        }
        self.filter.insert(&Pattern::of(key))?;
        match tick {
            TOMBSTONE => self.trailer.tombstones += 1,
            _ => self.trailer.ids += 1,
        }
        Ok(())
    }

    fn end_page(&mut self) -> Result<(), SegmentError> {
        let Some(first) = self.page.first() else { return Ok(()) };
        let seed = self.trailer.keys.seed(self.trailer.number, self.trailer.pages);
        let bytes = self.page.take(seed);
        self.index.push(first.halves());
        self.trailer.pages += 1;
        self.buffer.extend_from_slice(&bytes);
        self.write(WRITE_BYTES)
    }

    /// Writes what is in the buffer, if that is this much.
    fn write(&mut self, bytes_min: usize) -> Result<(), SegmentError> {
        if self.buffer.len() < bytes_min {
            return Ok(());
        }
        write_all(self.file.as_mut(), &self.buffer).map_err(SegmentError::io("write", &self.path))?;
        self.unsynced += self.buffer.len() as u64;
        self.buffer.clear();
        if self.unsynced >= SYNC_BYTES { self.sync() } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<(), SegmentError> {
        self.unsynced = 0;
        self.file.sync().map_err(SegmentError::io("sync", &self.path))
    }

    /// Writes the next part of what follows the pages, about this many bytes of it. Returns true
    /// when the segment is whole, and on the disk.
    pub(in crate::segments) fn finish(&mut self, bytes: usize) -> Result<bool, SegmentError> {
        let seed = |part| self.trailer.keys.seed(self.trailer.number, part);
        match self.stage {
            Stage::Pages => {
                self.checksum = Xxh3::with_seed(seed(INDEX_PART));
                self.end_page()?;
                self.stage = Stage::Index(0);
            }
            Stage::Index(from) if from == self.index.len() => {
                self.trailer.index_checksum = self.checksum.digest();
                self.checksum = Xxh3::with_seed(seed(FILTER_PART));
                self.stage = Stage::Filter(0);
            }
            Stage::Index(from) => {
                let to = self.index.len().min(from + (bytes / INDEX_BYTES).max(1));
                let start = self.buffer.len();
                self.index.encode(from..to, &mut self.buffer);
                self.checksum.update(&self.buffer[start..]);
                self.stage = Stage::Index(to);
                self.write(WRITE_BYTES)?;
            }
            Stage::Filter(from) if from == self.filter.len() => {
                self.trailer.filter_checksum = self.checksum.digest();
                self.stage = Stage::Trailer;
            }
            Stage::Filter(from) => {
                let to = self.filter.len().min(from + (bytes / LINE_BYTES).max(1));
                let start = self.buffer.len();
                self.filter.encode(from..to, &mut self.buffer);
                self.checksum.update(&self.buffer[start..]);
                self.stage = Stage::Filter(to);
                self.write(WRITE_BYTES)?;
            }
            Stage::Trailer => {
                self.buffer.extend_from_slice(&self.trailer.encode());
                self.write(0)?;
                if obeys(Rule::SegmentFirst) {
                    self.sync()?;
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the segment, which is whole.
    pub(in crate::segments) fn written(self) -> Written {
        let Writer { path, trailer, index, filter, .. } = self;
        Written { path, trailer, index, filter }
    }
}
