//! Writes blocks, one after the other, into files that each cover a slice of time, and deletes those that have expired.

use super::append::Positions;
use super::disk::Disk;
use super::error::JournalError;
use super::format::{BLOCK_HEADER_BYTES, BlockHeader, HEADER_BYTES, Header, Payload};
use super::options::SyncMode;
use crate::Timestamp;
use crate::digest::Digester;
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A file is not continued beyond this, however little time it covers.
pub(super) const MAX_SEGMENT_BYTES: u64 = 1 << 30;

/// A file that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// The largest time in it.
    pub(super) latest: Timestamp,
}

/// How the writer was told to write.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) directory: PathBuf,
    pub(super) seed: u64,
    pub(super) sync: SyncMode,
    pub(super) max_disk_bytes: Option<u64>,
    /// How much time a file covers.
    pub(super) segment_length: Duration,
    /// How much younger than the youngest everything is that still matters.
    pub(super) retention: Duration,
}

pub(super) struct Writer<D> {
    disk: D,
    rules: Rules,
    /// Those that are complete, oldest first.
    old: VecDeque<Segment>,
    current: Option<Current>,
    /// Of the next block.
    number: u64,
    latest: Timestamp,
    /// As written.
    positions: Positions,
}

/// The file that is being written.
struct Current {
    file: File,
    segment: Segment,
    salt: u64,
    began: Timestamp,
}

impl<D: Disk> Writer<D> {
    /// Goes on after these files, in a new one.
    pub(super) fn new(disk: D, rules: Rules, old: Vec<Segment>, number: u64, positions: Positions) -> Self {
        let latest = old.iter().map(|segment| segment.latest).max().unwrap_or_default();
        Writer { disk, rules, old: old.into(), current: None, number, latest, positions }
    }

    /// Makes a payload durable, as one block.
    pub(super) fn commit(&mut self, payload: &Payload) -> Result<(), JournalError> {
        self.latest = self.latest.max(payload.latest());
        let mut block_bytes = (BLOCK_HEADER_BYTES + payload.bytes().len()) as u64;
        let is_over = |current: &Current| {
            current.began + self.rules.segment_length <= self.latest
                || current.segment.bytes + block_bytes > MAX_SEGMENT_BYTES
        };
        if let Some(current) = self.current.take_if(|current| is_over(current)) {
            self.old.push_back(current.segment);
        }
        self.expire()?;
        // Files expire: what was said of positions is said again in each.
        let mut with_positions = Payload::default();
        if self.current.is_none() {
            self.positions.iter().for_each(|(source, position)| with_positions.push_position(source, position));
        }
        let bytes = match with_positions.bytes() {
            [] => payload.bytes(),
            _ => {
                block_bytes += with_positions.bytes().len() as u64;
                with_positions.append(payload);
                with_positions.bytes()
            }
        };
        self.keep_budget(block_bytes)?;
        let mut current = match self.current.take() {
            Some(current) => current,
            None => self.start()?,
        };
        let header = BlockHeader::of(bytes, self.number, payload.latest(), current.salt).encode();
        let path = &current.segment.path;
        for bytes in [&header[..], bytes] {
            self.disk.write_all(&mut current.file, bytes).map_err(JournalError::io("write", path))?;
        }
        if self.rules.sync == SyncMode::Disk {
            self.disk.sync(&current.file).map_err(JournalError::io("sync", path))?;
        }
        current.segment.bytes += block_bytes;
        current.segment.latest = self.latest;
        self.current = Some(current);
        self.number += 1;
        // They were within the limits when they were appended.
        self.positions.set_all(payload)
    }

    pub(super) fn positions(&self) -> &Positions {
        &self.positions
    }

    /// Starts a new file. It is there for good before anything is written to it that counts.
    fn start(&mut self) -> Result<Current, JournalError> {
        let path = self.rules.directory.join(name(self.number));
        let header =
            Header { seed: self.rules.seed, salt: Digester::random_seed(), number: self.number, created: unix_nanos() };
        let mut file = self.disk.create(&path).map_err(JournalError::io("create", &path))?;
        self.disk.write_all(&mut file, &header.encode()).map_err(JournalError::io("write", &path))?;
        if self.rules.sync == SyncMode::Disk {
            self.disk.sync(&file).map_err(JournalError::io("sync", &path))?;
            let directory = &self.rules.directory;
            self.disk.sync_directory(directory).map_err(JournalError::io("sync", directory))?;
        }
        let segment = Segment { path, bytes: HEADER_BYTES as u64, latest: self.latest };
        Ok(Current { file, segment, salt: header.salt, began: self.latest })
    }

    /// Deletes files of which nothing matters any more.
    fn expire(&mut self) -> Result<(), JournalError> {
        while self.old.front().is_some_and(|oldest| oldest.latest + self.rules.retention < self.latest) {
            if let Some(oldest) = self.old.pop_front() {
                self.disk.remove(&oldest.path).map_err(JournalError::io("delete", &oldest.path))?;
            }
        }
        Ok(())
    }

    fn keep_budget(&self, more: u64) -> Result<(), JournalError> {
        let header = if self.current.is_none() { HEADER_BYTES as u64 } else { 0 };
        let bytes = self.bytes() + more + header;
        match self.rules.max_disk_bytes {
            Some(max_disk_bytes) if bytes > max_disk_bytes => {
                Err(JournalError::OverBudget { path: self.rules.directory.clone(), bytes, max_disk_bytes })
            }
            _ => Ok(()),
        }
    }

    /// What all files take.
    pub(super) fn bytes(&self) -> u64 {
        self.segments().map(|segment| segment.bytes).sum()
    }

    pub(super) fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.old.iter().chain(self.current.as_ref().map(|current| &current.segment))
    }
}

/// The name of the file that begins with a block.
fn name(number: u64) -> String {
    format!("{number:020}.{EXTENSION}")
}

const EXTENSION: &str = "hapax";

/// Whether a file is called as ours are.
pub(super) fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == EXTENSION)
}

pub(super) fn unix_nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
