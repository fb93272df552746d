//! Everything that can go wrong with the disk: each call fails in turn, and files are cut off and flipped everywhere.

use super::append::Positions;
use super::commit::Shared;
use super::disk::{Disk, System};
use super::error::JournalError;
use super::format::{Kind, Run};
use super::options::{JournalOptions, SyncMode};
use super::recovery::{Found, find, read_segment};
use super::writer::{Rules, Writer};
use crate::Timestamp;
use crate::digest::Digest;
use crate::sync::{Ordering, StdAtomicU64};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

struct Directory(PathBuf);

static COUNT: StdAtomicU64 = StdAtomicU64::new(0);

impl Directory {
    fn new(name: &str) -> Self {
        let this = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("hapax-faults-{name}-{}-{this}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// An error of the system, by number.
    Error(i32),
    /// A write does half of what it should, and the next one fails.
    HalfThenFull,
    /// A write does one byte, and that is no error.
    Short,
}

/// A disk one call to which goes wrong.
struct Faulty {
    system: System,
    calls_left: u32,
    fault: Fault,
    is_full: bool,
}

impl Faulty {
    /// Whether this is the call.
    fn fails(&mut self) -> io::Result<()> {
        let is_it = self.calls_left == 0;
        self.calls_left = self.calls_left.wrapping_sub(1);
        match self.fault {
            Fault::Error(number) if is_it => Err(io::Error::from_raw_os_error(number)),
            _ => Ok(()),
        }
    }
}

impl Disk for Faulty {
    fn create(&mut self, path: &Path) -> io::Result<File> {
        self.fails()?;
        self.system.create(path)
    }

    fn write(&mut self, file: &mut File, bytes: &[u8]) -> io::Result<usize> {
        if self.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let is_it = self.calls_left == 0;
        self.fails()?;
        match self.fault {
            Fault::HalfThenFull if is_it => {
                self.is_full = true;
                self.system.write(file, &bytes[..bytes.len() / 2])
            }
            Fault::Short if is_it => self.system.write(file, &bytes[..1]),
            _ => self.system.write(file, bytes),
        }
    }

    fn sync(&mut self, file: &File) -> io::Result<()> {
        self.fails()?;
        self.system.sync(file)
    }

    fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
        self.fails()?;
        self.system.sync_directory(path)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.fails()?;
        self.system.remove(path)
    }
}

fn id(n: u64) -> Digest {
    Digest { place: n, mark: !n }
}

/// How many ids a run of the test appends, each a second after the one before and flushed by itself.
const IDS: u64 = 30;
const RETENTION: Duration = Duration::from_secs(12);

/// What was acknowledged on a disk, and the error after which nothing was.
fn append_all<D: Disk>(directory: &Path, disk: D) -> (Vec<u64>, Option<JournalError>) {
    let rules = Rules {
        directory: directory.into(),
        seed: 7,
        sync: SyncMode::Disk,
        max_disk_bytes: None,
        segment_length: Duration::from_secs(4),
        retention: RETENTION,
    };
    let shared = Arc::new(Shared::new(&JournalOptions::new()));
    let thread = shared.start(Writer::new(disk, rules, Vec::new(), 0, Positions::default())).unwrap();
    let (mut acknowledged, mut failed) = (Vec::new(), None);
    for n in 0..IDS {
        shared.append(Kind::Accepted, Timestamp::from_secs(n).into(), [id(n)]);
        match (shared.flush(), &failed) {
            (Ok(()), None) => acknowledged.push(n),
            (Err(error), None) => failed = Some(error),
            (Err(again), Some(first)) => assert_eq!(again.to_string(), first.to_string()),
            (Ok(()), Some(first)) => panic!("{n} was acknowledged after {first}"),
        }
    }
    shared.close();
    thread.join().unwrap();
    assert_eq!(shared.status().failed.is_some(), failed.is_some());
    (acknowledged, failed)
}

/// What is read again, by number of the id and time.
fn recovered(directory: &Path) -> Vec<u64> {
    let mut ids = Vec::new();
    let found = Found::open(directory, &JournalOptions::new()).unwrap();
    found.replay(|run| ids.extend(run.ids().map(|id| id.place))).unwrap();
    ids
}

#[test]
fn whatever_call_fails_nothing_is_acknowledged_that_is_not_there() {
    const EIO: i32 = 5;
    const ENOSPC: i32 = 28;
    let mut failures = 0;
    for fault in [Fault::Error(EIO), Fault::Error(ENOSPC), Fault::HalfThenFull, Fault::Short] {
        for calls in 0.. {
            let directory = Directory::new("calls");
            let disk = Faulty { system: System { file_mode: 0o600 }, calls_left: calls, fault, is_full: false };
            let (acknowledged, failed) = append_all(&directory.0, disk);
            failures += u32::from(failed.is_some());
            let ids = recovered(&directory.0);
            // What has expired when the next one came may be gone.
            let latest = acknowledged.len() as u64;
            let live = acknowledged.iter().filter(|n| *n + RETENTION.as_secs() >= latest);
            for n in live {
                assert!(ids.contains(n), "{fault:?} of call {calls}: {n} was acknowledged and is gone");
            }
            assert!(ids.iter().all(|n| *n < IDS), "{fault:?} of call {calls}: {ids:?}");
            // A directory that failed once can be used again.
            assert_eq!(append_after(&directory.0), ids.len() + 1);
            if failed.is_none() && acknowledged.len() as u64 == IDS && calls > 200 {
                break;
            }
        }
    }
    assert!(failures > 250, "{failures}");
}

/// Reopens a journal, adds an id, and says how many there are then.
fn append_after(directory: &Path) -> usize {
    let found = Found::open(directory, &JournalOptions::new()).unwrap();
    let old = found.replay(|_| ()).unwrap();
    let rules = Rules {
        directory: directory.into(),
        seed: 7,
        sync: SyncMode::System,
        max_disk_bytes: None,
        segment_length: RETENTION,
        retention: 100 * RETENTION,
    };
    let shared = Arc::new(Shared::new(&JournalOptions::new()));
    let thread =
        shared.start(Writer::new(System { file_mode: 0o600 }, rules, old.segments, old.number, old.positions)).unwrap();
    shared.append(Kind::Accepted, Timestamp::from_secs(IDS).into(), [id(IDS)]);
    shared.flush().unwrap();
    shared.close();
    thread.join().unwrap();
    drop(found);
    recovered(directory).len()
}

/// What one file of a reference journal has, as bytes, and the ids of each of its blocks.
fn reference() -> (Vec<u8>, Vec<u64>) {
    let directory = Directory::new("reference");
    let rules = Rules {
        directory: directory.0.clone(),
        seed: 7,
        sync: SyncMode::System,
        max_disk_bytes: None,
        segment_length: Duration::MAX,
        retention: Duration::MAX,
    };
    let shared = Arc::new(Shared::new(&JournalOptions::new()));
    let thread =
        shared.start(Writer::new(System { file_mode: 0o600 }, rules, Vec::new(), 0, Positions::default())).unwrap();
    for n in 0..8 {
        let ids = [id(3 * n), id(3 * n + 1), id(3 * n + 2)];
        shared.append(Kind::Accepted, Timestamp::from_secs(n).into(), ids);
        shared.flush().unwrap();
    }
    shared.close();
    thread.join().unwrap();
    let ids = recovered(&directory.0);
    assert_eq!(ids, (0..24).collect::<Vec<_>>());
    (fs::read(find(&directory.0, |_, _| Ok(())).unwrap()[0].0.as_path()).unwrap(), ids)
}

/// The ids that are read of a file with these bytes; `None` if it is refused.
fn read(directory: &Path, bytes: &[u8]) -> Option<Vec<u64>> {
    let path = directory.join("0.hapax");
    fs::write(&path, bytes).unwrap();
    let mut ids = Vec::new();
    match find(directory, |_, _| Ok(())) {
        Err(JournalError::NotOurs { .. }) => return None,
        found => {
            for (path, header) in found.unwrap() {
                let mut each = |run: &Run<'_>| ids.extend(run.ids().map(|id| id.place));
                let contents = read_segment(&path, &header, &mut each).unwrap();
                let torn = contents.torn.map_or(0, |torn| torn.bytes);
                assert_eq!(contents.bytes + torn, bytes.len() as u64);
            }
        }
    }
    Some(ids)
}

#[test]
fn every_truncation_gives_the_valid_prefix() {
    let ((bytes, ids), directory) = (reference(), Directory::new("truncated"));
    for length in 0..=bytes.len() {
        let read = read(&directory.0, &bytes[..length]).unwrap();
        assert!(ids.starts_with(&read), "cut at {length}: {read:?}");
        // A block has three ids and 104 bytes, and comes after a header of 64.
        assert_eq!(read.len(), 3 * (length.saturating_sub(64) / 104), "cut at {length}");
    }
}

#[test]
fn every_flipped_bit_gives_the_valid_prefix_or_a_refusal() {
    let ((bytes, ids), directory) = (reference(), Directory::new("flipped"));
    let mut refused = 0;
    for bit in 0..8 * bytes.len() {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        match read(&directory.0, &flipped) {
            None => refused += 1,
            Some(read) => {
                assert!(ids.starts_with(&read), "bit {bit}: {read:?}");
                assert_eq!(read.len(), 3 * ((bit / 8 - 64) / 104), "bit {bit}");
            }
        }
    }
    assert_eq!(refused, 8 * 64, "a header is valid or refused");
}

#[test]
fn what_follows_a_torn_end_is_not_read_and_the_end_is_cut_off() {
    let ((bytes, ids), directory) = (reference(), Directory::new("torn"));
    let path = directory.0.join("0.hapax");
    fs::write(&path, &bytes[..bytes.len() - 50]).unwrap();
    let mut read = Vec::new();
    let found = Found::open(&directory.0, &JournalOptions::new()).unwrap();
    let recovered = found.replay(|run| read.extend(run.ids().map(|id| id.place))).unwrap();
    assert_eq!(read, ids[..21]);
    let [torn] = &recovered.recovery.torn[..] else { panic!("{:?}", recovered.recovery) };
    assert_eq!((torn.offset, torn.bytes, torn.reason), (64 + 7 * 104, 54, "a block is cut off"));
    assert!(torn.truncated && torn.path == path);
    assert_eq!(fs::metadata(&path).unwrap().len(), torn.offset);
    let again = found.replay(|_| ()).unwrap().recovery;
    assert_eq!((again.torn.len(), again.ids, recovered.number), (0, 21, 7));
}
