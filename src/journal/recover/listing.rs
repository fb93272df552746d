//! The files of a journal's directory, by their headers, or, where those are destroyed, by their
//! names.

use crate::digest::DigestKey;
use crate::error::JournalError;
use crate::journal::encoding::format::{HEADER_BYTES, Header, NotOurs};
use crate::journal::files::disk::{Disk, read_full};
use crate::journal::write::mark;
use crate::journal::write::writer::{is_segment, number_of};
use std::path::{Path, PathBuf};

/// A file that is named as ours are.
#[derive(Clone, Debug)]
pub(in crate::journal) struct Listed {
    pub(in crate::journal) path: PathBuf,
    /// The number of its first block.
    pub(in crate::journal) number: u64,
    pub(in crate::journal) size: u64,
    /// The header, or the reason why it cannot be read.
    pub(in crate::journal) header: Result<Header, &'static str>,
}

/// All files of a directory.
#[derive(Clone, Debug)]
pub(in crate::journal) struct Listing {
    /// The files, by number.
    pub(in crate::journal) files: Vec<Listed>,
    /// The files that were created and never written, as a crash leaves them.
    pub(in crate::journal) leftovers: Vec<PathBuf>,
    pub(in crate::journal) mark: mark::Found,
    /// The key of the digests and the salt of the checksums, if there is a file of ours.
    pub(in crate::journal) keys: Option<Keys>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::journal) struct Keys {
    pub(in crate::journal) key: DigestKey,
    pub(in crate::journal) salt: u64,
}

/// Reads the headers, and changes nothing.
pub(in crate::journal) fn list(disk: &dyn Disk, directory: &Path) -> Result<Listing, JournalError> {
    let mut paths = disk.list(directory).map_err(JournalError::io("read", directory))?;
    paths.retain(|path| is_segment(path));
    paths.sort();
    let mut headers = Vec::new();
    for path in paths {
        let (size, header) = read_header(disk, &path)?;
        headers.push((path, size, header));
    }
    let mark = mark::read(disk, directory)?;
    let mut keys = match &mark {
        mark::Found::Here(mark) => Some(Keys { key: mark.key, salt: mark.salt }),
        _ => None,
    };
    for (path, _, header) in &headers {
        if let Ok(header) = header {
            same_journal(path, header, &mut keys)?;
        }
    }
    if let (mark::Found::Damaged(wrong), None) = (&mark, keys)
        && wrong.what != "length"
    {
        // Perhaps of another version: then nothing else here is ours, either.
        return Err(not_ours(&directory.join(mark::NAME), wrong));
    }
    let mut listing = Listing { files: Vec::new(), leftovers: Vec::new(), mark, keys };
    let newest = headers.iter().filter_map(|(_, _, header)| header.as_ref().ok()).map(|header| header.number).max();
    for (path, size, header) in headers {
        listing.add(path, size, header, newest)?;
    }
    listing.files.sort_by_key(|file| file.number);
    for pair in listing.files.windows(2) {
        if pair[0].number == pair[1].number {
            return Err(JournalError::NotOurs {
                path: pair[1].path.clone(),
                what: "number of the first block",
                got: pair[1].number.to_string(),
                expected: format!("another than that of {}", pair[0].path.display()),
            });
        }
    }
    Ok(listing)
}

impl Listing {
    /// Returns true if a file may be the first one of its directory, created when the process died
    /// or the disk was full. (In a directory that was made again, an engine goes on with the number
    /// that it had.)
    fn may_be_the_first(&self) -> bool {
        self.keys.is_none() && matches!(self.mark, mark::Found::Missing)
    }

    fn add(
        &mut self,
        path: PathBuf,
        size: u64,
        header: Result<Header, NotOurs>,
        newest: Option<u64>,
    ) -> Result<(), JournalError> {
        let wrong = match header {
            Ok(header) => {
                if let Some(named) = number_of(&path).filter(|&named| named != header.number) {
                    // The file that is to have this name one day would replace it.
                    let (got, expected) = (header.number.to_string(), format!("{named}, as its name says"));
                    return Err(JournalError::NotOurs { path, what: "number of the first block", got, expected });
                }
                self.files.push(Listed { path, number: header.number, size, header: Ok(header) });
                return Ok(());
            }
            Err(wrong) => wrong,
        };
        let Some(number) = number_of(&path) else {
            // As a crash leaves it, or not ours.
            return if size == 0 {
                self.leftovers.push(path);
                Ok(())
            } else {
                Err(not_ours(&path, &wrong))
            };
        };
        let (is_marked, is_beyond) = match &self.mark {
            mark::Found::Here(mark) => {
                let is_marked = mark.number > number || (mark.number == number && !mark.is_clean);
                (is_marked, !is_marked)
            }
            // It is unknown whether it ever had any blocks, unless others were begun after it.
            _ => (newest.is_some_and(|newest| number < newest), false),
        };
        let has_header_only = size <= HEADER_BYTES as u64;
        match (is_marked, self.keys) {
            // Blocks are written to a file only when the mark names it.
            (false, _) if has_header_only && (is_beyond || self.may_be_the_first()) => self.leftovers.push(path),
            // Also beyond the mark: a crash may have brought back a file that was removed.
            (_, Some(_)) => {
                self.files.push(Listed { path, number, size, header: Err("the header is destroyed") });
            }
            _ => return Err(not_ours(&path, &wrong)),
        }
        Ok(())
    }
}

fn read_header(disk: &dyn Disk, path: &Path) -> Result<(u64, Result<Header, NotOurs>), JournalError> {
    let mut file = disk.open(path).map_err(JournalError::io("open", path))?;
    let size = file.size().map_err(JournalError::io("read", path))?;
    let mut bytes = [0; HEADER_BYTES];
    let read = read_full(file.as_mut(), 0, &mut bytes).map_err(JournalError::io("read", path))?;
    let header = match Header::decode(&bytes) {
        Err(wrong) if read < HEADER_BYTES && wrong.what != "version" => {
            Err(NotOurs { what: "length", got: read.to_string(), expected: format!("at least {HEADER_BYTES}") })
        }
        decoded => decoded,
    };
    Ok((size, header))
}

/// Checks that a file belongs to the others.
fn same_journal(path: &Path, header: &Header, keys: &mut Option<Keys>) -> Result<(), JournalError> {
    let theirs = Keys { key: header.key, salt: header.salt };
    let keys = keys.get_or_insert(theirs);
    if *keys == theirs {
        return Ok(());
    }
    Err(JournalError::NotOurs {
        path: path.into(),
        what: if keys.key == theirs.key { "salt" } else { "key" },
        // Secret, like the expected one.
        got: "another one".into(),
        expected: "that of the engine, and of the other files".into(),
    })
}

pub(in crate::journal) fn not_ours(path: &Path, wrong: &NotOurs) -> JournalError {
    let NotOurs { what, got, expected } = wrong.clone();
    JournalError::NotOurs { path: path.into(), what, got, expected }
}
