//! Tests of files that somebody else deletes, copies into or makes longer.

use super::faults::{RETENTION, directory, go_on, id, open, rules, second, stop};
use crate::error::JournalError;
use crate::journal::encoding::format::HEADER_BYTES;
use crate::journal::encoding::payload::Kind;
use crate::journal::files::simulated::Simulated;
use crate::journal::options::Damage;
use crate::journal::write::mark;
use crate::journal::write::writer::name;
use std::path::PathBuf;
use std::time::Duration;

#[test]
fn of_several_files_those_that_are_gone_are_counted_when_it_is_reopened() {
    let disk = Simulated::new();
    let (shared, ..) = go_on(&disk, rules(Duration::from_secs(4), 10 * RETENTION), Damage::Refuse).unwrap();
    for n in 0..14 {
        shared.append(Kind::Accepted, second(n), [id(n)]);
        shared.flush().unwrap();
    }
    // Each block has one id, and a file is named for its first block.
    let files = [0, 4, 8, 12].map(|number| directory().join(name(number)));
    assert!(files.iter().all(|file| disk.paths().contains(file)), "{:?}", disk.paths());
    for gone in [&files[1], &files[3]] {
        disk.delete(gone);
    }
    assert!(matches!(shared.flush(), Err(JournalError::Gone { .. })));
    let reopened = shared.reopen().unwrap();
    assert_eq!((reopened.files_lost, reopened.ids_lost), (2, 4 + 2));
    shared.flush().unwrap();
}

/// Returns a disk with a journal of two files, of four blocks and of two.
fn two_files() -> (Simulated, [PathBuf; 2]) {
    let disk = Simulated::new();
    let (shared, ..) = go_on(&disk, rules(Duration::from_secs(4), 10 * RETENTION), Damage::Refuse).unwrap();
    for n in 0..6 {
        shared.append(Kind::Accepted, second(n), [id(n)]);
        shared.flush().unwrap();
    }
    stop(&shared);
    (disk, [0, 4].map(|number| directory().join(name(number))))
}

#[test]
fn a_block_that_is_there_twice_is_damage() {
    let (disk, [first, _]) = two_files();
    let bytes = disk.read(&first).unwrap();
    let block = (bytes.len() - HEADER_BYTES) / 4;
    let twice = [&bytes[..], &bytes[bytes.len() - block..]].concat();
    disk.put(&first, twice);
    let refused = open(&disk, Damage::Refuse).err().unwrap().to_string();
    assert!(refused.contains("a block has a number that was there before"), "{refused}");
}

#[test]
fn a_mark_that_is_longer_than_one_is_none() {
    let (disk, _) = two_files();
    let path = directory().join(mark::NAME);
    let mut bytes = disk.read(&path).unwrap();
    assert!(matches!(mark::read(&disk, directory()), Ok(mark::Found::Here(_))));
    bytes.push(0);
    disk.put(&path, bytes);
    assert!(matches!(mark::read(&disk, directory()), Ok(mark::Found::Damaged(_))));
}

#[test]
fn an_old_file_that_somebody_else_has_deleted_stops_nothing_when_it_expires() {
    let disk = Simulated::new();
    let (shared, ..) = go_on(&disk, rules(Duration::from_secs(4), RETENTION), Damage::Refuse).unwrap();
    for n in 0..40 {
        shared.append(Kind::Accepted, second(n), [id(n)]);
        shared.flush().unwrap();
        if n == 9 {
            disk.delete(&directory().join(name(0)));
        }
    }
    let files = disk.paths().into_iter().filter(|path| path.extension() == directory().join(name(0)).extension());
    assert_eq!(files.count(), 4, "those of the last 12 to 16 seconds: {:?}", disk.paths());
}
