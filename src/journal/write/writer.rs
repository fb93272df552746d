//! The writer: writes blocks, one after another, into files that each cover a slice of time, and
//! deletes files that have expired.

use super::mark;
use crate::Timestamp;
use crate::clock::{Machine, SharedTimeBase};
use crate::digest::DigestKey;
use crate::error::JournalError;
use crate::journal::encoding::format::{BLOCK_HEADER_BYTES, BlockHeader, HEADER_BYTES, Header, Mark, REACH};
use crate::journal::encoding::gap::Gap;
use crate::journal::encoding::payload::Payload;
use crate::journal::encoding::positions::Positions;
use crate::journal::files::disk::{Disk, DiskFile, Held, Identity, NotLocked, write_all};
use crate::journal::files::watch::{LOCK, Watch};
use crate::journal::options::SyncMode;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The size beyond which a file is not continued, however little time it covers.
pub(in crate::journal) const MAX_SEGMENT_BYTES: u64 = 1 << 30;

/// The same, where segments of a long memory are made of files: four million ids.
const SEALED_BYTES_MAX: u64 = 64 << 20;

/// A file that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::journal) struct Segment {
    pub(in crate::journal) path: PathBuf,
    pub(in crate::journal) bytes: u64,
    /// The largest time in it.
    pub(in crate::journal) latest: Timestamp,
    /// The number of its first block; `first_ids` were accepted before that.
    pub(in crate::journal) first: u64,
    pub(in crate::journal) first_ids: u64,
}

/// A complete file, as whoever makes segments sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClosedFile {
    pub(in crate::journal) path: PathBuf,
    /// The number of the first block after it.
    pub(crate) end: u64,
}

/// The options of the writer.
#[derive(Clone)]
pub(in crate::journal) struct Rules {
    pub(in crate::journal) directory: PathBuf,
    pub(in crate::journal) key: DigestKey,
    pub(in crate::journal) salt: u64,
    pub(in crate::journal) sync: SyncMode,
    pub(in crate::journal) max_disk_bytes: Option<u64>,
    /// The time that a file covers.
    pub(in crate::journal) segment_length: Duration,
    /// The age, relative to the youngest data, up to which data still matters.
    pub(in crate::journal) retention: Duration,
    pub(in crate::journal) machine: Machine,
    pub(in crate::journal) time: Arc<SharedTimeBase>,
}

/// The existing state, and the point from which the writer goes on.
#[derive(Default)]
pub(in crate::journal) struct Start {
    /// The complete files, oldest first.
    pub(in crate::journal) old: Vec<Segment>,
    /// The number of the next block.
    pub(in crate::journal) number: u64,
    /// The number of ids that were accepted before it.
    pub(in crate::journal) ids: u64,
    pub(in crate::journal) positions: Positions,
    /// True if the mark says that this is all.
    pub(in crate::journal) is_clean: bool,
    pub(in crate::journal) gap: Gap,
}

pub(in crate::journal) struct Writer {
    pub(in crate::journal) disk: Arc<dyn Disk>,
    pub(in crate::journal) rules: Rules,
    /// The complete files, oldest first.
    pub(in crate::journal) old: VecDeque<Segment>,
    /// The files of which nothing matters any more.
    pub(in crate::journal) expired: Vec<Segment>,
    pub(in crate::journal) current: Option<Current>,
    /// The number of the next block.
    pub(in crate::journal) number: u64,
    /// The number of the first block that is in no segment of a long memory; `None` without one.
    pub(in crate::journal) sealed: Option<u64>,
    /// The number of ids that were ever accepted before it.
    pub(in crate::journal) ids: u64,
    pub(in crate::journal) latest: Timestamp,
    /// The positions as written.
    pub(in crate::journal) positions: Positions,
    pub(in crate::journal) is_clean: bool,
    /// The blocks that were lost, as somebody was told.
    pub(in crate::journal) gap: Gap,
    /// True if the directory has a mark that says what it must; one that was created again has none
    /// yet.
    pub(in crate::journal) is_marked: bool,
    /// True if it is unknown what the last write has left.
    pub(in crate::journal) is_broken: bool,
    pub(in crate::journal) lock: Option<Box<dyn Held>>,
    pub(in crate::journal) watch: Arc<Watch>,
}

/// The file that is being written.
pub(in crate::journal) struct Current {
    pub(in crate::journal) file: Box<dyn DiskFile>,
    pub(in crate::journal) segment: Segment,
    pub(in crate::journal) identity: Identity,
    pub(in crate::journal) began: Timestamp,
}

impl Writer {
    /// Goes on after these files, in a new one.
    pub(in crate::journal) fn new(
        disk: Arc<dyn Disk>,
        lock: Box<dyn Held>,
        rules: Rules,
        start: Start,
    ) -> Result<Self, JournalError> {
        let Start { old, number, ids, positions, is_clean, gap } = start;
        let latest = old.iter().map(|segment| segment.latest).max().unwrap_or_default();
        let directory = rules.directory.clone();
        let identity = disk.identity(&directory).map_err(JournalError::io("look at", &directory))?;
        let watch = Arc::new(Watch::of(&*lock, (directory, identity))?);
        let (old, expired, current, lock) = (old.into(), Vec::new(), None, Some(lock));
        let is_broken = false;
        Ok(Writer {
            disk,
            rules,
            old,
            expired,
            current,
            number,
            sealed: None,
            ids,
            latest,
            positions,
            is_clean,
            gap,
            is_marked: true,
            is_broken,
            lock,
            watch,
        })
    }

    /// Makes a payload durable, as one block. It is at least `time` by now.
    pub(in crate::journal) fn commit(&mut self, payload: &Payload, time: Timestamp) -> Result<(), JournalError> {
        self.latest = self.latest.max(payload.latest()).max(time);
        // Files that could not be deleted before. Nothing is written meanwhile, and so nothing is
        // in doubt.
        self.delete_expired(false)?;
        if self.current.as_ref().is_some_and(|current| self.is_over(current, payload)) {
            self.close_file();
        }
        self.expire();
        // Files expire, so positions are repeated in each.
        let mut with_positions = Payload::default();
        if self.current.is_none() {
            self.positions.iter().for_each(|(source, position)| with_positions.push_position(source, position));
        }
        let payload_bytes = match with_positions.bytes() {
            [] => payload.bytes(),
            _ => {
                with_positions.append(payload);
                with_positions.bytes()
            }
        };
        self.keep_budget((BLOCK_HEADER_BYTES + payload_bytes.len()) as u64)?;
        self.is_broken = true;
        self.write(payload_bytes, payload.latest())?;
        self.is_broken = false;
        self.number += 1;
        self.ids += payload.accepted();
        // The block that says that they are not needed is durable. If deleting fails, the next
        // commit reports it.
        let _ = self.delete_expired(true);
        // The positions were within the limits when they were appended.
        self.positions.set_all(payload)
    }

    fn is_over(&self, current: &Current, payload: &Payload) -> bool {
        let bytes = current.segment.bytes + (BLOCK_HEADER_BYTES + payload.bytes().len()) as u64;
        let bytes_max = if self.sealed.is_some() { SEALED_BYTES_MAX } else { MAX_SEGMENT_BYTES };
        current.began + self.rules.segment_length <= self.latest || bytes > bytes_max
    }

    /// Completes the file that is being written.
    pub(in crate::journal) fn close_file(&mut self) {
        self.old.extend(self.current.take().map(|current| current.segment));
    }

    /// Writes and syncs a block.
    fn write(&mut self, payload: &[u8], latest: Timestamp) -> Result<(), JournalError> {
        if self.current.is_none() {
            let current = self.begin()?;
            self.current = Some(current);
        }
        let (first, first_ids) = self.oldest();
        debug_assert!(first <= self.number && first_ids <= self.ids);
        let header = BlockHeader {
            number: self.number,
            ids: self.ids,
            first,
            first_ids,
            latest,
            clocks: (self.rules.machine.clocks)(),
            ..BlockHeader::default()
        };
        let header = header.seal(payload, self.rules.salt).encode();
        let Some(current) = &mut self.current else { return Ok(()) };
        let path = &current.segment.path;
        for bytes in [&header[..], payload] {
            write_all(current.file.as_mut(), bytes).map_err(JournalError::io("write", path))?;
        }
        self.rules.sync.sync_file(current.file.as_mut(), path)?;
        // Data that is written to a file without a name would be lost.
        self.watch.verify(&*self.disk)?;
        current.segment.bytes += (header.len() + payload.len()) as u64;
        current.segment.latest = self.latest;
        Ok(())
    }

    /// Starts a new file. It is durable, and the mark names it, before anything that counts is
    /// written to it.
    fn begin(&mut self) -> Result<Current, JournalError> {
        let path = self.rules.directory.join(name(self.number));
        let mut file = match self.disk.create(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                // A file that we began before, without writing anything to it that counts.
                self.discard(&path)?;
                self.disk.create(&path)
            }
            created => created,
        }
        .map_err(JournalError::io("create", &path))?;
        let Rules { key, salt, sync, ref machine, ref time, .. } = self.rules;
        let (created, boot) = ((machine.clocks)().wall_nanos, machine.boot);
        let header = Header { key, salt, number: self.number, created, ids: self.ids, boot, time: time.get() };
        write_all(file.as_mut(), &header.encode()).map_err(JournalError::io("write", &path))?;
        sync.sync_file(file.as_mut(), &path)?;
        sync.sync_directory(&*self.disk, &self.rules.directory)?;
        self.write_mark(false)?;
        let identity = file.identity().map_err(JournalError::io("look at", &path))?;
        self.watch = Arc::new(Watch { file: Some((path.clone(), identity)), ..Watch::clone(&self.watch) });
        let (first, first_ids) = (self.number, self.ids);
        let segment = Segment { path, bytes: HEADER_BYTES as u64, latest: self.latest, first, first_ids };
        Ok(Current { file, segment, identity, began: self.latest })
    }

    /// Deletes a file that has nothing yet but, perhaps, a header. First the mark must stop naming
    /// it.
    pub(in crate::journal) fn discard(&mut self, path: &Path) -> Result<(), JournalError> {
        self.write_mark(true)?;
        self.disk.remove(path).map_err(JournalError::io("delete", path))
    }

    pub(in crate::journal) fn write_mark(&mut self, is_clean: bool) -> Result<(), JournalError> {
        let mark = Mark { is_clean, ..self.mark() };
        mark::write(&*self.disk, &self.rules.directory, &mark, self.rules.sync)?;
        (self.is_clean, self.is_marked) = (is_clean, true);
        Ok(())
    }

    /// Returns a mark that says how far the journal has come.
    pub(in crate::journal) fn mark(&self) -> Mark {
        let Rules { key, salt, .. } = self.rules;
        // Expired files are needed until the block is durable that says that they expired: until
        // then their positions are only there.
        let needed = self.expired.first().map(|oldest| (oldest.first, oldest.first_ids));
        let (first, first_ids) = needed.unwrap_or_else(|| self.oldest());
        let gap = self.gap;
        Mark { key, salt, is_clean: false, number: self.number, ids: self.ids, first, first_ids, gap }
    }

    /// Returns the oldest block that is kept, and the number of ids that were accepted before it.
    fn oldest(&self) -> (u64, u64) {
        let current = self.current.as_ref().map(|current| &current.segment);
        let oldest = self.old.front().or(current);
        oldest.map_or((self.number, self.ids), |segment| (segment.first, segment.first_ids))
    }

    /// Sets aside files of which nothing matters any more. They are deleted when a block that says
    /// so is durable.
    fn expire(&mut self) {
        let retention = self.rules.retention;
        while self.old.front().is_some_and(|oldest| oldest.latest + retention < self.latest) && self.is_oldest_sealed()
        {
            self.expired.extend(self.old.pop_front());
        }
    }

    /// Returns true unless the oldest file must stay until a segment was made of it.
    fn is_oldest_sealed(&self) -> bool {
        self.sealed.is_none_or(|sealed| self.end_of(0) <= sealed)
    }

    /// Returns the number of the first block after a complete file.
    fn end_of(&self, i: usize) -> u64 {
        let current = self.current.as_ref().map(|current| &current.segment);
        self.old.get(i + 1).or(current).map_or(self.number, |next| next.first)
    }

    /// Returns the complete files of which no segment was made, the oldest first.
    pub(in crate::journal) fn unsealed(&self) -> Vec<ClosedFile> {
        let sealed = self.sealed.unwrap_or(0);
        let closed = |(i, file): (usize, &Segment)| ClosedFile { path: file.path.clone(), end: self.end_of(i) };
        self.old.iter().enumerate().map(closed).filter(|file| file.end > sealed).collect()
    }

    /// Deletes files that have expired. The last one that there is has the positions, which are
    /// repeated in the next: it goes when that `is_durable`.
    fn delete_expired(&mut self, is_durable: bool) -> Result<(), JournalError> {
        while let Some(segment) = self.expired.first() {
            let is_last = self.expired.len() == 1 && self.old.is_empty() && self.current.is_none();
            if is_last && !is_durable && self.positions.iter().next().is_some() {
                break;
            }
            match self.disk.remove(&segment.path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(JournalError::io("delete", &segment.path)(error));
                }
                _ => drop(self.expired.remove(0)),
            }
        }
        Ok(())
    }

    fn keep_budget(&self, more: u64) -> Result<(), JournalError> {
        let header = if self.current.is_none() { HEADER_BYTES as u64 } else { 0 };
        let bytes = self.kept().map(|segment| segment.bytes).sum::<u64>() + more + header;
        match self.rules.max_disk_bytes {
            Some(max_disk_bytes) if bytes > max_disk_bytes => {
                Err(JournalError::OverBudget { path: self.rules.directory.clone(), bytes, max_disk_bytes })
            }
            _ => Ok(()),
        }
    }

    /// Returns the time after which some file has expired.
    pub(in crate::journal) fn next_expiry(&self) -> Option<Timestamp> {
        if !self.old.is_empty() && !self.is_oldest_sealed() {
            // Whoever seals it says so.
            return None;
        }
        let of = |segment: &Segment| segment.latest + self.rules.retention;
        let of_current = |current: &Current| of(&current.segment).max(current.began + self.rules.segment_length);
        self.old.front().map(of).or(self.current.as_ref().map(of_current))
    }

    /// Finishes: records on the disk that all is there, if it is, and gives up the directory.
    pub(in crate::journal) fn finish(&mut self, is_all_there: bool) -> Result<(), JournalError> {
        let marked = if is_all_there && !self.is_clean && !self.is_broken { self.write_mark(true) } else { Ok(()) };
        self.current = None;
        self.lock = None;
        marked
    }

    pub(in crate::journal) fn positions(&self) -> &Positions {
        &self.positions
    }

    pub(in crate::journal) fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.watch)
    }

    pub(in crate::journal) fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }

    pub(in crate::journal) fn wall_nanos(&self) -> u64 {
        (self.rules.machine.clocks)().wall_nanos
    }

    /// Returns the number of bytes that all files take.
    pub(in crate::journal) fn bytes(&self) -> u64 {
        self.segments().map(|segment| segment.bytes).sum()
    }

    fn kept(&self) -> impl Iterator<Item = &Segment> {
        self.old.iter().chain(self.current.as_ref().map(|current| &current.segment))
    }

    pub(in crate::journal) fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.expired.iter().chain(self.kept())
    }
}

/// Keeps others out of a directory.
pub(in crate::journal) fn lock(
    disk: &dyn Disk,
    directory: &Path,
    machine: &Machine,
) -> Result<Box<dyn Held>, JournalError> {
    let since = (machine.clocks)().wall_nanos / 1_000_000_000;
    let holder = format!("process {} (since second {since} of the Unix epoch)", std::process::id());
    let path = directory.join(LOCK);
    disk.lock(&path, &holder).map_err(|why| match why {
        NotLocked::Io(error) => JournalError::io("lock", &path)(error),
        NotLocked::InUse(holder) => {
            let holder = if holder.is_empty() { "another process".into() } else { holder };
            JournalError::InUse { path: directory.into(), holder }
        }
    })
}

/// Returns the name of the file that begins with a block.
pub(in crate::journal) fn name(number: u64) -> String {
    format!("{number:020}.{EXTENSION}")
}

const EXTENSION: &str = "hapax";

/// Returns true if a file is named as ours are.
pub(in crate::journal) fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == EXTENSION)
}

/// Returns the number in a file's name, if we have named it.
pub(in crate::journal) fn number_of(path: &Path) -> Option<u64> {
    let number = path.file_stem()?.to_str()?.parse().ok().filter(|&number| number < REACH)?;
    (path.file_name()?.to_str()? == name(number)).then_some(number)
}
