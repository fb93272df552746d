//! The owners, modes and kinds of files on Unix.

use super::Access;
use std::fs::{FileType, Metadata, OpenOptions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};

/// Lets a file be opened only where it is none of the things that are followed or waited for.
pub(super) fn follow_nothing(options: &mut OpenOptions) {
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
}

/// Returns who may do what, and the user of this process.
pub(super) fn access(metadata: &Metadata) -> Option<(Access, u32)> {
    // SAFETY: the call takes nothing and cannot fail.
    let us = unsafe { libc::geteuid() };
    Some((Access { owner: metadata.uid(), mode: metadata.mode() }, us))
}

/// Returns the kind of something that is neither a file, a directory, nor a link.
pub(super) fn special(kind: FileType) -> Option<&'static str> {
    match kind {
        kind if kind.is_fifo() => Some("a pipe"),
        kind if kind.is_socket() => Some("a socket"),
        kind if kind.is_block_device() || kind.is_char_device() => Some("a device"),
        _ => None,
    }
}

/// Returns the number of names that a file has.
pub(super) fn names(metadata: &Metadata) -> u64 {
    metadata.nlink()
}
