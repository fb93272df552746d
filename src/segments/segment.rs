//! A segment that is read: its index in memory, and its filter; its pages on the disk.

#![allow(clippy::cast_possible_truncation, reason = "what is in memory, or has been compared with the file's size")]

use super::filter::Filter;
use super::format::{FILTER_PART, INDEX_BYTES, INDEX_PART, Keys, LINE_BYTES, Listed, TRAILER_BYTES, Trailer};
use super::index::Index;
use super::page::{Bytes, PAGE_BYTES, Page};
use super::writer::Written;
use crate::SegmentError;
use crate::journal::disk::Disk;
use crate::journal::format::NotOurs;
use crate::journal::pages::{PageFile, read_pages};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use xxhash_rust::xxh3::Xxh3;

/// The bytes of an index or a filter that are read at once.
const READ_BYTES: usize = 256 << 10;

/// An open segment.
pub(super) struct Segment {
    path: PathBuf,
    file: Box<dyn PageFile>,
    pub(super) trailer: Trailer,
    pub(super) listed: Listed,
    pub(super) index: Index,
    /// The filter, as soon as it is in memory: until then the segment may have any id.
    pub(super) filter: OnceLock<Filter>,
}

impl Segment {
    /// Opens the segment that a manifest names. Reads its index, and not its filter.
    pub(super) fn open(disk: &dyn Disk, path: &Path, listed: Listed, keys: Keys) -> Result<Self, SegmentError> {
        let damaged = |offset, what| SegmentError::damaged(path, offset, what);
        let file = match disk.open_pages(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(damaged(0, "the manifest names it, and it is missing"));
            }
            opened => opened.map_err(SegmentError::io("open", path))?,
        };
        let Some(at) = listed.bytes.checked_sub(TRAILER_BYTES as u64) else {
            return Err(damaged(0, "the manifest says that it is shorter than a segment can be"));
        };
        let mut bytes = [0; TRAILER_BYTES + 1];
        let read = read_pages(&*file, at, &mut bytes).map_err(SegmentError::io("read", path))?;
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
            Segment { path: path.into(), file, trailer, listed, index: Index::default(), filter: OnceLock::new() };
        segment.load_index()?;
        Ok(segment)
    }

    /// Opens a segment that was just written.
    pub(super) fn of(disk: &dyn Disk, written: Written) -> Result<Self, SegmentError> {
        let Written { path, trailer, index, filter } = written;
        let file = disk.open_pages(&path).map_err(SegmentError::io("open", &path))?;
        let listed = Listed { number: trailer.number, bytes: trailer.bytes(), checksum: trailer.checksum() };
        Ok(Segment { path, file, trailer, listed, index, filter: OnceLock::from(filter) })
    }

    /// Reads a part of the file in pieces, and checks its checksum.
    fn read_part(
        &self,
        (offset, bytes, part): (u64, u64, u64),
        piece: usize,
        each: &mut dyn FnMut(&[u8]) -> Result<bool, SegmentError>,
    ) -> Result<(), SegmentError> {
        let (expected, what) = match part {
            INDEX_PART => (self.trailer.index_checksum, "the checksum of the index is wrong"),
            _ => (self.trailer.filter_checksum, "the checksum of the filter is wrong"),
        };
        let mut checksum = Xxh3::with_seed(self.trailer.keys.seed(self.trailer.number, part));
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
        match checksum.digest() == expected {
            true => Ok(()),
            false => Err(SegmentError::damaged(&self.path, offset, what)),
        }
    }

    fn load_index(&mut self) -> Result<(), SegmentError> {
        let part = (self.trailer.index_offset(), self.trailer.pages * INDEX_BYTES as u64, INDEX_PART);
        let mut index = Index::default();
        self.read_part(part, READ_BYTES / INDEX_BYTES * INDEX_BYTES, &mut |bytes| Ok(index.decode(bytes)))?;
        self.index = index;
        Ok(())
    }

    /// Reads the filter, unless it is in memory.
    pub(super) fn load_filter(&self) -> Result<(), SegmentError> {
        if self.filter.get().is_some() {
            return Ok(());
        }
        let (filter, mut line) = (Filter::new(self.trailer.lines)?, 0);
        let part = (self.trailer.filter_offset(), self.trailer.lines * LINE_BYTES as u64, FILTER_PART);
        self.read_part(part, READ_BYTES, &mut |bytes| {
            filter.decode(line, bytes)?;
            line += bytes.len() / LINE_BYTES;
            Ok(true)
        })?;
        // (Somebody else may have been faster, with the same.)
        let _ = self.filter.set(filter);
        Ok(())
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), SegmentError> {
        let read = read_pages(&*self.file, offset, bytes).map_err(SegmentError::io("read", &self.path))?;
        match read == bytes.len() {
            true => Ok(()),
            false => Err(SegmentError::damaged(&self.path, offset + read as u64, "the file ends there")),
        }
    }

    /// Reads the pages from one on.
    pub(super) fn read_pages(&self, page: u64, bytes: &mut [u8]) -> Result<(), SegmentError> {
        self.read(page * PAGE_BYTES as u64, bytes)
    }

    /// Reads a page, if that takes no waiting.
    pub(super) fn read_cached(&self, page: u64, bytes: &mut Bytes) -> Result<bool, SegmentError> {
        let offset = page * PAGE_BYTES as u64;
        match self.file.read_cached(offset, bytes) {
            Ok(read) => Ok(read == Some(PAGE_BYTES)),
            Err(error) => Err(SegmentError::io("read", &self.path)(error)),
        }
    }

    /// Decodes a page that was read.
    pub(super) fn decode<'b>(&self, page: u64, bytes: &'b Bytes) -> Result<Page<'b>, SegmentError> {
        let seed = self.trailer.keys.seed(self.trailer.number, page);
        Page::decode(bytes, seed).map_err(|what| SegmentError::damaged(&self.path, page * PAGE_BYTES as u64, what))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of bytes of memory that it takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.index.bytes() + self.filter.get().map_or(0, Filter::bytes)) as u64
    }

    /// Returns the number of its records.
    pub(super) fn records(&self) -> u64 {
        self.trailer.ids + self.trailer.tombstones
    }
}
