//! Damaged files: each region of each file, bit by bit; files that are cut, longer, gone, old, or
//! another one's. All of it is an error that names the file, and no id is unknown in silence.

use super::model::{directory, key};
use crate::digest::Digest;
use crate::digest::{DigestKey, Digester, WantedKey};
use crate::journal::files::simulated::Simulated;
use crate::long::long;
use crate::mutation::{Rule, leave_out};
use crate::random::Random;
use crate::segments::encoding::format::TRAILER_BYTES;
use crate::segments::encoding::name::name;
use crate::segments::encoding::page::PAGE_BYTES;
use crate::segments::live::manifest;
use crate::segments::live::set::Segments;
use crate::segments::options::SegmentOptions;
use crate::segments::read::look::Answer;
use crate::segments::write::sort::{Event, EventKind};
use crate::{SegmentError, Timestamp};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const IDS: u64 = 1_500;
const RETENTION: Duration = Duration::from_secs(1_000);

fn options() -> SegmentOptions {
    SegmentOptions { key: key(), read_threads: 0, ..SegmentOptions::new(RETENTION) }
}

fn digests(ids: std::ops::Range<u64>) -> Vec<Digest> {
    let digester = Digester::new(DigestKey { kind: key().kind, bits: 7 });
    ids.map(|id| digester.digest(id.to_le_bytes())).collect()
}

fn open(disk: &Simulated) -> Result<Arc<Segments>, SegmentError> {
    Segments::open_on(Arc::new(disk.of_this_boot()), directory(), options(), None)
}

/// Returns a disk with two segments: one of several pages, and a small one. All ids are live.
fn written() -> Simulated {
    let disk = Simulated::new();
    let segments = open(&disk).unwrap();
    for (number, ids) in [(1, 0..IDS - 20), (2, IDS - 20..IDS)] {
        let event = |digest| Event { digest, time: Timestamp::from_secs(10), kind: EventKind::Accepted };
        let events: Vec<_> = digests(ids).into_iter().map(event).collect();
        segments.seal(&mut &events[..], number).unwrap();
    }
    drop(segments);
    disk
}

fn files(disk: &Simulated) -> Vec<PathBuf> {
    let names = [name(0), name(1), manifest::NAME.into()];
    let files: Vec<_> = names.iter().map(|name| directory().join(name)).collect();
    assert!(files.iter().all(|file| disk.paths().contains(file)), "{:?}", disk.paths());
    files
}

/// The way in which damage was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Noticed {
    Opening,
    Filter,
    Looking,
    Not,
}

/// Opens what there is, reads the filters if they are wanted, and asks for all ids.
fn notice(disk: &Simulated, file: &Path, filters: bool, what: &str) -> Noticed {
    let is_named = |error: SegmentError| match &error {
        SegmentError::Damaged { path, .. } | SegmentError::NotOurs { path, .. } => path == file,
        other => panic!("{what}: {other}"),
    };
    disk.kill();
    let segments = match open(disk) {
        Ok(segments) => segments,
        Err(error) => {
            assert!(is_named(error.clone()), "{what}: {error}");
            return Noticed::Opening;
        }
    };
    let load_all = || -> Result<(), SegmentError> {
        while segments.load_filter()? {}
        Ok(())
    };
    if filters && let Err(error) = load_all() {
        assert!(is_named(error), "{what}");
        return Noticed::Filter;
    }
    let mut answers = Vec::new();
    let looked = segments.look(&digests(0..IDS), Timestamp::from_secs(20), &mut answers);
    assert!(!answers.contains(&Answer::Unknown), "{what}: fresh in silence");
    match looked {
        Err(error) => {
            assert!(answers.contains(&Answer::InDoubt) && is_named(error.clone()), "{what}: {error}");
            Noticed::Looking
        }
        Ok(()) => {
            assert!(!answers.contains(&Answer::InDoubt));
            Noticed::Not
        }
    }
}

#[test]
fn each_flipped_byte_is_noticed() {
    let (whole, mut counts) = (written(), [0; 4]);
    for file in files(&whole) {
        let bytes = whole.read(&file).unwrap();
        // Each byte of the trailer and of the manifest, and every so many of the rest.
        let close = bytes.len().saturating_sub(2 * TRAILER_BYTES);
        for at in (0..bytes.len()).filter(|at| *at >= close || at % long(185, 37) == 0 || at % PAGE_BYTES < 18) {
            let disk = whole.copy();
            disk.flip(&file, 8 * at as u64 + at as u64 % 8);
            let noticed = notice(&disk, &file, true, &format!("byte {at} of {}", file.display()));
            assert_ne!(noticed, Noticed::Not, "byte {at} of {}", file.display());
            counts[noticed as usize] += 1;
        }
    }
    println!("noticed when opened, by the filter, by questions, not: {counts:?}");
    assert!(counts[..3].iter().all(|count| *count > 30), "{counts:?}");
}

#[test]
fn without_its_checksum_a_page_is_wrong_in_silence() {
    let run = |rule| {
        leave_out(rule);
        let whole = written();
        let file = &files(&whole)[0];
        (200..1_200)
            .step_by(7)
            .map(|byte| {
                let disk = whole.copy();
                disk.flip(file, 8 * byte);
                notice(&disk, file, true, "a flipped byte") as usize
            })
            .max()
    };
    assert_eq!(run(None), Some(Noticed::Looking as usize));
    let without = std::thread::spawn(move || run(Some(Rule::PageChecksum))).join();
    assert!(without.is_err(), "nobody noticed");
}

#[test]
fn files_that_are_cut_longer_gone_or_of_another_place_are_noticed() {
    let (whole, mut random) = (written(), Random::new(3));
    for file in files(&whole) {
        let bytes = whole.read(&file).unwrap();
        for n in 0..40 {
            let disk = whole.copy();
            disk.cut(&file, if n < 20 { n } else { random.below(bytes.len() as u64) });
            assert_eq!(notice(&disk, &file, true, "cut"), Noticed::Opening);
        }
        let disk = whole.copy();
        disk.put(&file, [&bytes[..], &[0]].concat());
        assert_eq!(notice(&disk, &file, true, "longer"), Noticed::Opening);
        let disk = whole.copy();
        disk.zero(&file, 0, bytes.len() as u64);
        assert_eq!(notice(&disk, &file, true, "zeros"), Noticed::Opening);
        if !file.ends_with(manifest::NAME) {
            let disk = whole.copy();
            disk.delete(&file);
            assert_eq!(notice(&disk, &file, true, "gone"), Noticed::Opening);
        }
    }
    let [first, second, manifest] = &files(&whole)[..] else { panic!("three files") };
    // Without a manifest nothing is deleted, and nothing is fresh.
    let disk = whole.copy();
    disk.delete(manifest);
    assert_eq!(notice(&disk, first, true, "without a manifest"), Noticed::Opening);
    assert!(disk.paths().contains(first) && disk.paths().contains(second));
    // A page in another one's place; a file under another one's name.
    let mut bytes = whole.read(first).unwrap();
    let (one, other) = bytes.split_at_mut(PAGE_BYTES);
    one.swap_with_slice(&mut other[..PAGE_BYTES]);
    let disk = whole.copy();
    disk.put(first, bytes);
    assert_eq!(notice(&disk, first, true, "swapped pages"), Noticed::Looking);
    let disk = whole.copy();
    disk.put(second, whole.read(first).unwrap());
    assert_eq!(notice(&disk, second, true, "another segment"), Noticed::Opening);
}

#[test]
fn an_old_manifest_names_what_is_gone() {
    let disk = written();
    let [first, _, manifest] = &files(&disk)[..] else { panic!("three files") };
    let old = disk.read(manifest).unwrap();
    let segments = open(&disk).unwrap();
    segments.clear(3).unwrap();
    drop(segments);
    disk.put(manifest, old);
    assert_eq!(notice(&disk, first, false, "an old manifest"), Noticed::Opening);
}

/// Merges all that there is; returns the first error.
fn merge_all(segments: &Arc<Segments>) -> Result<(), SegmentError> {
    while let Some(mut merge) = segments.begin_merge(Timestamp::from_secs(20))? {
        while !merge.step(1_000)? {}
    }
    Ok(())
}

#[test]
fn a_merge_of_what_is_damaged_changes_nothing() {
    let disk = written();
    let segments = open(&disk).unwrap();
    let event = Event { digest: digests(0..1)[0], time: Timestamp::from_secs(11), kind: EventKind::Accepted };
    segments.seal(&mut &[event][..], 3).unwrap();
    drop(segments);
    let whole = disk.copy();
    let file = &files(&disk)[0];
    disk.flip(file, 8 * (PAGE_BYTES as u64 + 300));
    let segments = open(&disk).unwrap();
    for _ in 0..2 {
        let refused = merge_all(&segments).unwrap_err();
        assert!(matches!(&refused, SegmentError::Damaged { path, offset: 4096, .. } if path == file), "{refused}");
        assert_eq!(segments.stats().segments, 3);
    }
    let segments = open(&whole).unwrap();
    merge_all(&segments).unwrap();
    assert_eq!((segments.stats().segments, segments.stats().ids), (1, IDS));
}

#[test]
fn another_key_and_a_second_engine_are_refused() {
    let disk = written();
    let with = |bits| SegmentOptions { key: WantedKey { bits: Some(bits), ..key() }, ..options() };
    let first = Segments::open_on(Arc::new(disk.clone()), directory(), with(7), None).unwrap();
    let open = |bits| Segments::open_on(Arc::new(disk.clone()), directory(), with(bits), None).err().unwrap();
    assert!(matches!(open(7), SegmentError::InUse { .. }));
    drop(first);
    assert!(matches!(open(8), SegmentError::NotOurs { what: "key of digests" | "key", .. }), "{}", open(8));
}
