//! Fuzzing of what is read from a disk: each codec with any bytes, pages with right checksums, and
//! directories that are damaged as the input says. The fuzz target `segments`.

use super::encoding::format::{Manifest, TRAILER_BYTES, Trailer};
use super::encoding::page::{Builder, Bytes, PAGE_BYTES, Page};
use super::live::set::Segments;
use super::options::SegmentOptions;
use super::read::look::Answer;
use super::write::sort::{Event, EventKind};
use crate::Timestamp;
use crate::digest::{Digest, WantedKey};
use crate::journal::encoding::format::put;
use crate::journal::files::simulated::Simulated;
use crate::random::mix;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Does the work of the fuzz target with its input: a letter that selects a codec, and bytes for
/// it. Returns true if the codec accepted them.
pub(crate) fn codecs(bytes: &[u8]) -> bool {
    let Some((which, bytes)) = bytes.split_first() else { return false };
    match which {
        b't' => trailer(bytes),
        b'm' => manifest(bytes),
        b'p' => page(bytes),
        b'd' => damaged(bytes),
        _ => false,
    }
}

fn trailer(bytes: &[u8]) -> bool {
    let bytes: [u8; TRAILER_BYTES] = std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0));
    let Ok(trailer) = Trailer::decode(&bytes) else { return false };
    assert!(Trailer::decode(&trailer.encode()) == Ok(trailer), "it is written as it was");
    assert!(trailer.bytes() >= trailer.offset() && trailer.offset() >= trailer.index_offset());
    true
}

fn manifest(bytes: &[u8]) -> bool {
    let Ok(manifest) = Manifest::decode(bytes) else { return false };
    assert!(manifest.encode() == bytes, "it is written as it was");
    true
}

/// Checks a page whose checksum is made right.
fn page(bytes: &[u8]) -> bool {
    const SEED: u64 = 7;
    let mut page: Bytes = std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0));
    assert!(Page::decode(&page, SEED).is_err() || bytes.len() >= 8, "a checksum of zeros");
    let checksum = xxh3_64_with_seed(&page[8..], SEED);
    put(&mut page, 0, &checksum.to_le_bytes());
    let Ok(decoded) = Page::decode(&page, SEED) else { return false };
    let Some(entries) = decoded.entries().collect::<Option<Vec<_>>>() else { return false };
    let is_ordered = entries.is_sorted_by(|one, next| one.0 < next.0);
    let found = |entry: &(_, u16)| decoded.find(entry.0) == Some(entry.1);
    assert!(!is_ordered || entries.iter().all(found), "what is in order is found");
    let mut builder = Builder::default();
    if is_ordered && entries.iter().all(|entry| builder.push(*entry)) {
        let again = builder.take(SEED);
        let again = Page::decode(&again, SEED).expect("it was just written");
        assert!(again.entries().flatten().eq(entries), "it is written as an equal");
    }
    is_ordered
}

const IDS: u64 = 500;

fn directory() -> &'static Path {
    Path::new("/segments")
}

fn open(disk: &Simulated) -> Result<Arc<Segments>, crate::SegmentError> {
    let key = WantedKey { bits: Some(7), ..WantedKey::default() };
    let options = SegmentOptions { key, read_threads: 0, ..SegmentOptions::new(Duration::from_secs(1_000)) };
    Segments::open_on(Arc::new(disk.clone()), directory(), options, None)
}

fn id(n: u64) -> Digest {
    Digest { place: mix(n), mark: mix(!n) }
}

/// Returns a disk with two segments, of three pages in all.
fn written() -> &'static Simulated {
    static DISK: OnceLock<Simulated> = OnceLock::new();
    DISK.get_or_init(|| {
        let disk = Simulated::new();
        let segments = open(&disk).expect("it is empty");
        for (number, ids) in [(1, 0..400), (2, 400..IDS)] {
            let event = |n| Event { digest: id(n), time: Timestamp::from_secs(9), kind: EventKind::Accepted };
            let events: Vec<_> = ids.map(event).collect();
            segments.seal(&mut &events[..], number).expect("nothing fails");
        }
        drop(segments);
        disk
    })
}

/// Damages a directory: for each four bytes of the input, those of a file are changed, or a file is
/// cut. Nothing is fresh in silence. Returns true if the damage was an error, or none.
fn damaged(bytes: &[u8]) -> bool {
    let disk = written().copy();
    let paths: Vec<_> = disk.paths().into_iter().filter(|path| !path.ends_with("lock")).collect();
    let (commands, _) = bytes.as_chunks::<4>();
    for [file, low, high, xor] in commands.iter().take(64) {
        let path = &paths[usize::from(*file) % paths.len()];
        let mut bytes = disk.read(path).unwrap_or_default();
        let at = usize::from(u16::from_le_bytes([*low, *high])) % (PAGE_BYTES * 4);
        match (file & 0x80 != 0, bytes.get_mut(at)) {
            (true, _) => bytes.truncate(at),
            (false, Some(byte)) => *byte ^= xor,
            (false, None) => continue,
        }
        disk.put(path, bytes);
    }
    let Ok(segments) = open(&disk) else { return true };
    while matches!(segments.load_filter(), Ok(true)) {}
    let digests: Vec<_> = (0..IDS).map(id).collect();
    let mut answers = Vec::new();
    let looked = segments.look(&digests, Timestamp::from_secs(10), &mut answers);
    assert!(!answers.contains(&Answer::Unknown), "fresh in silence");
    assert_eq!(looked.is_err(), answers.contains(&Answer::InDoubt));
    true
}

#[cfg(test)]
mod tests {
    use crate::random::Random;
    use testkit::corpus::replay;

    #[test]
    fn the_corpus_of_the_fuzz_target_segments() {
        let mut taken = 0;
        let files = replay("segments", |bytes| taken += usize::from(super::codecs(bytes)));
        assert!(files == 0 || taken > 3, "of {files} only {taken} are anything");
    }

    #[test]
    fn any_damage_is_an_error_or_changes_no_answer() {
        let seed = 12;
        println!("seed {seed}");
        let mut random = Random::new(seed);
        for _ in 0..300 {
            let bytes: Vec<u8> = (0..4 * (1 + random.below(3))).map(|_| random.next().to_le_bytes()[0]).collect();
            super::codecs(&[b"d", &bytes[..]].concat());
            super::codecs(&[b"p", &bytes[..]].concat());
        }
    }
}
