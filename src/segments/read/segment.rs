//! A segment that is read: its index in memory, and its filter; its pages on the disk, or elsewhere
//! until they are.

#![allow(clippy::cast_possible_truncation, reason = "what is in memory, or has been compared with the file's size")]

use super::source::{Place, SegmentSource};
use crate::SegmentError;
use crate::journal::encoding::format::NotOurs;
use crate::journal::files::disk::Disk;
use crate::segments::encoding::filter::Filter;
use crate::segments::encoding::format::{
    FILTER_PART, INDEX_BYTES, INDEX_PART, Keys, LINE_BYTES, Listed, TRAILER_BYTES, Trailer,
};
use crate::segments::encoding::index::Index;
use crate::segments::encoding::page::{Bytes, PAGE_BYTES, Page};
use crate::segments::write::writer::Written;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use xxhash_rust::xxh3::Xxh3;

/// The bytes of an index or a filter that are read at once.
const READ_BYTES: usize = 256 << 10;

/// The same of a segment that is elsewhere.
const REMOTE_BYTES: usize = 32 << 20;

/// An open segment.
pub(in crate::segments) struct Segment {
    path: PathBuf,
    place: Place,
    pub(in crate::segments) trailer: Trailer,
    pub(in crate::segments) listed: Listed,
    pub(in crate::segments) index: Index,
    /// The filter, as soon as it is in memory: until then the segment may have any id.
    pub(in crate::segments) filter: OnceLock<Filter>,
}

impl Segment {
    /// Opens the segment that a manifest names; one that is not here by its source, if there is
    /// one. Reads its index, and not its filter.
    pub(in crate::segments) fn open(
        disk: &dyn Disk,
        path: &Path,
        listed: Listed,
        keys: Keys,
        source: Option<&Arc<dyn SegmentSource>>,
    ) -> Result<Self, SegmentError> {
        let damaged = |offset, what| SegmentError::damaged(path, offset, what);
        let place = match (disk.open_pages(path), source) {
            (Err(error), Some(source)) if error.kind() == ErrorKind::NotFound => {
                Place::elsewhere(source, &crate::segments::encoding::name::name(listed.number))
            }
            (Err(error), None) if error.kind() == ErrorKind::NotFound => {
                return Err(damaged(0, "the manifest names it, and it is missing"));
            }
            (opened, _) => Place::here(opened.map_err(SegmentError::io("open", path))?),
        };
        let Some(at) = listed.bytes.checked_sub(TRAILER_BYTES as u64) else {
            return Err(damaged(0, "the manifest says that it is shorter than a segment can be"));
        };
        let mut bytes = [0; TRAILER_BYTES + 1];
        // (Nothing follows it in a file that is here. Of others that is not asked.)
        let asked = &mut bytes[..TRAILER_BYTES + usize::from(place.is_here())];
        let read = place.read(at, asked).map_err(SegmentError::io("read", path))?;
        if read != TRAILER_BYTES {
            return Err(damaged(at + read.min(TRAILER_BYTES) as u64, "it is not as long as the manifest says"));
        }
        let trailer = Trailer::decode(&std::array::from_fn(|i| bytes[i])).map_err(|wrong| {
            let NotOurs { what, got, expected } = wrong;
            match what {
                "version" => SegmentError::NotOurs { path: path.into(), what, got, expected },
                _ => damaged(at, "the trailer is wrong"),
            }
        })?;
        let is_it = trailer.number == listed.number && trailer.keys == keys && trailer.checksum() == listed.checksum;
        if !is_it {
            return Err(damaged(at, "it is another segment than the manifest names"));
        }
        if trailer.bytes() != listed.bytes {
            return Err(damaged(at, "the trailer does not agree with the size of the file"));
        }
        let mut segment =
            Segment { path: path.into(), place, trailer, listed, index: Index::default(), filter: OnceLock::new() };
        segment.load_index()?;
        Ok(segment)
    }

    /// Keeps no file open from now on.
    pub(in crate::segments) fn opened_each_time(self, disk: &Arc<dyn Disk>) -> Self {
        if self.is_here() {
            Segment { place: Place::opened_each_time(Arc::clone(disk), self.path.clone()), ..self }
        } else {
            self
        }
    }

    /// Opens a segment that was just written.
    pub(in crate::segments) fn of(disk: &dyn Disk, written: Written) -> Result<Self, SegmentError> {
        let Written { path, trailer, index, filter } = written;
        let place = Place::here(disk.open_pages(&path).map_err(SegmentError::io("open", &path))?);
        let listed = Listed { number: trailer.number, bytes: trailer.bytes(), checksum: trailer.checksum() };
        Ok(Segment { path, place, trailer, listed, index, filter: OnceLock::from(filter) })
    }

    /// Reads a part of the file in pieces, and checks its checksum.
    fn read_part(
        &self,
        (offset, bytes, part): (u64, u64, u64),
        each: &mut dyn FnMut(&[u8]) -> Result<bool, SegmentError>,
    ) -> Result<(), SegmentError> {
        let (expected, what) = match part {
            INDEX_PART => (self.trailer.index_checksum, "the checksum of the index is wrong"),
            _ => (self.trailer.filter_checksum, "the checksum of the filter is wrong"),
        };
        let mut checksum = Xxh3::with_seed(self.trailer.keys.seed(self.trailer.number, part));
        let piece = if self.is_here() { READ_BYTES } else { REMOTE_BYTES };
        // Whole entries of an index, and lines of a filter.
        let piece = piece / (INDEX_BYTES * LINE_BYTES) * (INDEX_BYTES * LINE_BYTES);
        let mut buffer = vec![0; piece.min(bytes as usize)];
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            let piece = &mut buffer[..(end - at).min(piece as u64) as usize];
            self.read(at, piece)?;
            checksum.update(piece);
            if !each(piece)? {
                return Err(SegmentError::damaged(&self.path, at, "pages are not in order"));
            }
            at += piece.len() as u64;
        }
        if checksum.digest() == expected { Ok(()) } else { Err(SegmentError::damaged(&self.path, offset, what)) }
    }

    fn load_index(&mut self) -> Result<(), SegmentError> {
        let part = (self.trailer.index_offset(), self.trailer.pages * INDEX_BYTES as u64, INDEX_PART);
        let mut index = Index::default();
        self.read_part(part, &mut |bytes| Ok(index.decode(bytes)))?;
        self.index = index;
        Ok(())
    }

    /// Reads the filter, unless it is in memory.
    pub(in crate::segments) fn load_filter(&self) -> Result<(), SegmentError> {
        if self.filter.get().is_some() {
            return Ok(());
        }
        let (filter, mut line) = (Filter::new(self.trailer.lines)?, 0);
        self.read_part(self.filter_part(), &mut |bytes| {
            filter.decode(line, bytes)?;
            line += bytes.len() / LINE_BYTES;
            Ok(true)
        })?;
        // (Somebody else may have been faster, with the same.)
        let _ = self.filter.set(filter);
        Ok(())
    }

    fn filter_part(&self) -> (u64, u64, u64) {
        (self.trailer.filter_offset(), self.trailer.lines * LINE_BYTES as u64, FILTER_PART)
    }

    /// Reads the filter for its checksum.
    pub(in crate::segments) fn check_filter(&self) -> Result<(), SegmentError> {
        self.read_part(self.filter_part(), &mut |_| Ok(true))
    }

    /// Returns true if the file is here.
    #[inline]
    pub(in crate::segments) fn is_here(&self) -> bool {
        self.place.is_here()
    }

    /// Takes over the file of the same segment, which is here.
    pub(in crate::segments) fn arrives(&self, here: Segment) {
        self.place.arrives(here.place);
    }

    /// Reads all of these bytes.
    pub(in crate::segments) fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), SegmentError> {
        let read = self.place.read(offset, bytes).map_err(SegmentError::io("read", &self.path))?;
        if read == bytes.len() {
            Ok(())
        } else {
            Err(SegmentError::damaged(&self.path, offset + read as u64, "the file ends there"))
        }
    }

    /// Reads the pages from one on.
    pub(in crate::segments) fn read_pages(&self, page: u64, bytes: &mut [u8]) -> Result<(), SegmentError> {
        self.read(page * PAGE_BYTES as u64, bytes)
    }

    /// Reads a page, if that takes no waiting.
    pub(in crate::segments) fn read_cached(&self, page: u64, bytes: &mut Bytes) -> Result<bool, SegmentError> {
        let offset = page * PAGE_BYTES as u64;
        match self.place.read_cached(offset, bytes) {
            Ok(read) => Ok(read == Some(PAGE_BYTES)),
            Err(error) => Err(SegmentError::io("read", &self.path)(error)),
        }
    }

    /// Decodes a page that was read.
    pub(in crate::segments) fn decode<'b>(&self, page: u64, bytes: &'b Bytes) -> Result<Page<'b>, SegmentError> {
        let seed = self.trailer.keys.seed(self.trailer.number, page);
        Page::decode(bytes, seed).map_err(|what| SegmentError::damaged(&self.path, page * PAGE_BYTES as u64, what))
    }

    pub(in crate::segments) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of bytes of memory that it takes.
    pub(in crate::segments) fn memory_bytes(&self) -> u64 {
        (self.index.bytes() + self.filter.get().map_or(0, Filter::bytes)) as u64
    }

    /// Returns the number of its records.
    pub(in crate::segments) fn records(&self) -> u64 {
        self.trailer.ids + self.trailer.tombstones
    }
}
