//! Damaged files: a journal's segment is opened after damage.

use hapax::{Damage, Dedup, Error, Int, JournalError, JournalOptions, ManualClock, Timestamp};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

const IDS: u64 = 40;

/// The result of reading a damaged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    Refused,
    /// The number of its ids that were read.
    Ids(u64),
}

fn builder() -> hapax::Builder {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_secs(100));
    Dedup::builder().window(Duration::from_secs(3600)).capacity(1).seed(7).clock(clock)
}

/// Returns valid files to begin with: a segment, and the mark of its journal.
fn valid() -> &'static [Vec<u8>; 2] {
    static VALID: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    VALID.get_or_init(|| {
        let directory = directory();
        let dedup = builder().journal(&directory, JournalOptions::new()).build().unwrap();
        for id in 0..IDS {
            let _ = dedup.check(Int::from(id));
            dedup.journal().unwrap().flush().unwrap();
        }
        drop(dedup);
        let paths = [segment(&directory), directory.join("mark")];
        let files = paths.map(|path| std::fs::read(path).unwrap());
        std::fs::remove_dir_all(directory).unwrap();
        files
    })
}

fn directory() -> PathBuf {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let this = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    // A file system in memory is used, where there is one that we may use.
    let name = format!("hapax-damaged-{}-{this}", std::process::id());
    let path = PathBuf::from("/dev/shm").join(&name);
    if std::fs::create_dir(&path).is_ok() {
        return path;
    }
    let path = std::env::temp_dir().join(&name);
    std::fs::create_dir(&path).unwrap();
    path
}

fn segment(directory: &Path) -> PathBuf {
    directory.join("00000000000000000000.hapax")
}

/// Damages a segment and reads its journal. The bytes after the first say how: edits of four bytes
/// each (the position in two, the kind, the value), or, if the first is odd, the file itself.
pub fn fuzz(bytes: &[u8]) -> Option<Read> {
    let (&what, edits) = bytes.split_first()?;
    let mut file = if what & 1 == 0 { valid()[0].clone() } else { Vec::new() };
    match what & 1 {
        0 => edits.chunks_exact(4).for_each(|edit| damage(&mut file, edit)),
        _ => file.extend_from_slice(edits),
    }
    let directory = directory();
    std::fs::write(segment(&directory), &file).unwrap();
    std::fs::write(directory.join("mark"), &valid()[1]).unwrap();
    let read = read_journal(&directory);
    std::fs::remove_dir_all(directory).unwrap();
    Some(read)
}

/// Reads a journal that was stopped cleanly: missing data is damage, and is refused, or reported.
fn read_journal(directory: &Path) -> Read {
    let open = |damage| builder().journal(directory, JournalOptions::new().damage(damage)).build();
    let inspected = hapax::seam::inspect(directory);
    let is_damaged = inspected.as_ref().is_ok_and(|inspection| !inspection.damage.is_empty());
    match open(Damage::Refuse) {
        Ok(dedup) => {
            assert!(!is_damaged && dedup.stats().journal.unwrap().recovery.torn.is_empty());
            return read(Ok(dedup), IDS);
        }
        Err(Error::Journal(JournalError::Damaged { .. })) => assert!(is_damaged),
        Err(error) => {
            assert!(inspected.is_err(), "{error}");
            return read(Err(error), 0);
        }
    }
    let recovered = inspected.unwrap().segments.iter().flat_map(|s| &s.runs).map(|run| run.ids).sum::<u64>();
    let dedup = open(Damage::Keep).unwrap();
    let recovery = dedup.stats().journal.unwrap().recovery;
    assert_eq!(recovery.ids, recovered);
    assert_eq!(IDS - recovered, recovery.ids_lost.ids(), "{recovery:?}");
    read(Ok(dedup), recovered)
}

/// Returns what an engine knows that was given `told` ids.
fn read(dedup: Result<Dedup, Error>, told: u64) -> Read {
    match dedup {
        Ok(dedup) => {
            let known = (0..IDS).filter(|id| dedup.contains(Int::from(*id)).is_some()).count() as u64;
            assert_eq!(known, told, "a part of what it was told");
            assert_eq!(dedup.stats().window.live, known, "ids that were never written");
            Read::Ids(known)
        }
        Err(Error::Journal(JournalError::NotOurs { .. })) => Read::Refused,
        Err(error) => panic!("{error}"),
    }
}

fn damage(file: &mut Vec<u8>, edit: &[u8]) {
    let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % (file.len() + 1);
    match edit[2] % 6 {
        0 => file.truncate(at),
        1 => file.insert(at, edit[3]),
        2 if at < file.len() => drop(file.remove(at)),
        3 => file.extend_from_within(at..file.len().min(at + usize::from(edit[3]))),
        4 => drop(file.drain(at..file.len().min(at + usize::from(edit[3])))),
        _ if at < file.len() => file[at] ^= edit[3],
        _ => {}
    }
}
