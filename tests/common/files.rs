//! Files that somebody has damaged: a journal's segment and a snapshot, read as what they are.

use hapax::{Dedup, Error, Int, JournalError, JournalOptions, ManualClock, Timestamp};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

const IDS: u64 = 40;

/// What was seen of a damaged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    Refused,
    /// It was read up to some id.
    Ids(u64),
}

fn builder() -> hapax::Builder {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_secs(100));
    Dedup::builder().window(Duration::from_secs(3600)).capacity(1).seed(7).clock(clock)
}

/// Valid files to begin with: a segment and a snapshot.
fn valid() -> &'static [Vec<u8>; 2] {
    static VALID: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    VALID.get_or_init(|| {
        let directory = directory();
        let dedup = builder().journal(&directory, JournalOptions::new()).build().unwrap();
        for id in 0..IDS {
            dedup.check(Int::from(id));
            dedup.flush().unwrap();
        }
        dedup.snapshot(directory.join("snapshot")).unwrap();
        let files = [segment(&directory), directory.join("snapshot")].map(|path| std::fs::read(path).unwrap());
        drop(dedup);
        std::fs::remove_dir_all(directory).unwrap();
        files
    })
}

fn directory() -> PathBuf {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let this = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    // In memory, where there is such a thing.
    let base = Some(PathBuf::from("/dev/shm")).filter(|path| path.is_dir()).unwrap_or_else(std::env::temp_dir);
    let path = base.join(format!("hapax-damaged-{}-{this}", std::process::id()));
    std::fs::create_dir(&path).unwrap();
    path
}

fn segment(directory: &Path) -> PathBuf {
    directory.join("00000000000000000000.hapax")
}

/// The first byte says what to damage, the others how: edits of four bytes each (where, twice; how; by what), or, if it is odd, the file itself.
pub fn fuzz(bytes: &[u8]) -> Option<Read> {
    let (&what, edits) = bytes.split_first()?;
    let is_snapshot = what & 2 != 0;
    let mut file = if what & 1 == 0 { valid()[usize::from(is_snapshot)].clone() } else { Vec::new() };
    match what & 1 {
        0 => edits.chunks_exact(4).for_each(|edit| damage(&mut file, edit)),
        _ => file.extend_from_slice(edits),
    }
    let directory = directory();
    let dedup = match is_snapshot {
        true => {
            let path = directory.join("snapshot");
            std::fs::write(&path, &file).unwrap();
            builder().restore(path).build()
        }
        false => {
            std::fs::write(segment(&directory), &file).unwrap();
            hapax::inspect(&directory).map_err(Error::from).and_then(|inspection| {
                let dedup = builder().journal(&directory, JournalOptions::new()).build();
                let recovered = dedup.as_ref().map_or(0, |dedup| dedup.stats().journal.unwrap().recovery.ids);
                assert_eq!(inspection.segments.iter().flat_map(|s| &s.runs).map(|run| run.ids).sum::<u64>(), recovered);
                dedup
            })
        }
    };
    let read = match dedup {
        Ok(dedup) => {
            let known = (0..IDS).take_while(|id| dedup.contains(Int::from(*id)).is_some()).count() as u64;
            assert!((known..2 * IDS).all(|id| dedup.contains(Int::from(id)).is_none()), "more than a prefix");
            assert_eq!(dedup.stats().window.live, known, "ids that were never written");
            assert!(!is_snapshot || known == IDS, "a part of a snapshot");
            Read::Ids(known)
        }
        Err(Error::Journal(JournalError::NotOurs { .. })) => Read::Refused,
        Err(error) => panic!("{error}"),
    };
    std::fs::remove_dir_all(directory).unwrap();
    Some(read)
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
