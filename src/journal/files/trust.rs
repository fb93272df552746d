//! The files and directories that are trusted: those that nobody could have put there but this
//! process's user, or root; and, if the mode of the files says so, the group, or everybody.
//!
//! Links are not followed, and nothing that is not a file is waited for or changed. The directories
//! above are not looked at: a user who can rename one of them can put another one in its place.

#[cfg(not(unix))]
#[path = "trust/elsewhere.rs"]
mod system;
#[cfg(unix)]
#[path = "trust/unix.rs"]
mod system;

use crate::error::Untrusted;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

/// The users who may write to trusted files, besides this process's user and root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writers {
    /// Those whom a mode of files lets write.
    Mode(u32),
    /// Anybody: the files are only inspected.
    Anybody,
}

impl Writers {
    /// Opens a file without following links, or waiting for the other end of a pipe.
    pub(crate) fn open(self, options: &OpenOptions, path: &Path) -> io::Result<File> {
        let mut options = options.clone();
        system::follow_nothing(&mut options);
        // (A link that is not followed is reported by several different errors.)
        let file = options.open(path).map_err(|error| not_a_file(path).map_or(error, io::Error::from))?;
        self.judge_file(&file.metadata()?)?;
        Ok(file)
    }

    /// Judges an open file.
    pub(in crate::journal) fn judge_file(self, metadata: &fs::Metadata) -> io::Result<()> {
        if !metadata.is_file() {
            return Err(wrong_kind(kind_of(metadata.file_type()), "a file").into());
        }
        let of_group = matches!(self, Writers::Mode(mode) if mode & 0o020 != 0);
        Ok(self.judge(metadata, of_group)?)
    }

    /// Judges the directory of a journal.
    pub(in crate::journal) fn judge_directory(self, path: &Path) -> io::Result<()> {
        let metadata = fs::metadata(path)?;
        if !metadata.is_dir() {
            return Err(wrong_kind(kind_of(metadata.file_type()), "a directory").into());
        }
        Ok(self.judge(&metadata, false)?)
    }

    /// Judges metadata; `of_group`: any member of the group may be the owner.
    fn judge(self, metadata: &fs::Metadata, of_group: bool) -> Result<(), Untrusted> {
        system::access(metadata).map_or(Ok(()), |(access, us)| judge(access, us, self, of_group))
    }
}

/// The owner and the mode of a file or a directory.
#[derive(Clone, Copy, Debug)]
struct Access {
    owner: u32,
    mode: u32,
}

/// Judges an owner and a mode. Pure.
fn judge(Access { owner, mode }: Access, us: u32, writers: Writers, of_group: bool) -> Result<(), Untrusted> {
    let Writers::Mode(may) = writers else { return Ok(()) };
    let everybody = may & 0o002 != 0;
    if owner != us && owner != 0 && !everybody && !of_group {
        let remedy = "give it to the user of this process (chown), if it can be trusted";
        return Err(Untrusted {
            what: "its owner",
            got: format!("user {owner}"),
            expected: "the user of this process, or root",
            remedy,
        });
    }
    let others = mode & 0o022 & !if everybody { 0o022 } else { may };
    if others != 0 {
        let who = if others & 0o002 != 0 { "everybody" } else { "its group" };
        return Err(Untrusted {
            what: "its mode",
            got: format!("{:o}, with which {who} may write", mode & 0o7777),
            expected: "one with which its owner alone may write",
            remedy: "take that away (chmod go-w), or name a directory within it that is not there yet, which is made; or let \
                     them write by option `journal.file_mode`",
        });
    }
    Ok(())
}

/// Returns the fault of something that is of another kind than expected.
fn wrong_kind(got: impl Into<String>, expected: &'static str) -> Untrusted {
    let remedy = "look who has put it there, and delete it";
    Untrusted { what: "it", got: got.into(), expected, remedy }
}

/// Returns the fault of a path that exists and is not a file.
fn not_a_file(path: &Path) -> Option<Untrusted> {
    let metadata = fs::symlink_metadata(path).ok().filter(|metadata| !metadata.is_file())?;
    Some(wrong_kind(kind_of(metadata.file_type()), "a file"))
}

fn kind_of(kind: fs::FileType) -> &'static str {
    match kind {
        kind if kind.is_symlink() => "a symbolic link",
        kind if kind.is_dir() => "a directory",
        kind => system::special(kind).unwrap_or("no file"),
    }
}

/// Returns an error for a file that has other names, through which it may be somebody else's.
pub(in crate::journal) fn has_one_name(metadata: &fs::Metadata) -> io::Result<()> {
    let names = system::names(metadata);
    if names > 1 {
        return Err(wrong_kind(format!("a file of {names} names"), "one of a single name").into());
    }
    Ok(())
}

#[cfg(all(test, not(any(modelled, alone))))]
mod tests {
    use super::*;

    #[test]
    fn who_may_write_is_trusted_only_if_the_mode_of_files_says_so() {
        const US: u32 = 1_000;
        let cases = [
            // owner, mode; accepted with 600, 660, 666
            ((US, 0o700), [true, true, true]),
            ((0, 0o755), [true, true, true]),
            ((US, 0o2775), [false, true, true]),
            ((0, 0o2775), [false, true, true]),
            ((US, 0o1777), [false, false, true]),
            ((US, 0o702), [false, false, true]),
            ((1_001, 0o700), [false, false, true]),
            ((1_001, 0o777), [false, false, true]),
        ];
        for ((owner, mode), expected) in cases {
            let access = Access { owner, mode };
            let accepted = [0o600, 0o660, 0o666].map(|mode| judge(access, US, Writers::Mode(mode), false).is_ok());
            assert_eq!(accepted, expected, "{access:?}");
            assert!(judge(access, US, Writers::Anybody, false).is_ok());
        }
        // In a directory that the group may write to, files may belong to members of the group.
        assert!(judge(Access { owner: 1_001, mode: 0o660 }, US, Writers::Mode(0o660), true).is_ok());
        let wrong = judge(Access { owner: US, mode: 0o2775 }, US, Writers::Mode(0o600), false).unwrap_err();
        assert_eq!(wrong.got, "2775, with which its group may write");
    }
}
