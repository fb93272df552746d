//! The manifest's file: replaced as a whole, and read when a directory is opened.

use crate::SegmentError;
use crate::journal::DurableSegments;
use crate::journal::encoding::format::NotOurs;
use crate::journal::files::disk::{Disk, create_anew, read_full, write_all};
use crate::segments::encoding::format::Manifest;
use std::io::ErrorKind;
use std::path::Path;

pub(in crate::segments) const NAME: &str = DurableSegments::MANIFEST;
pub(in crate::segments) const NEW: &str = "manifest.new";

/// The most bytes of a manifest: forty thousand segments.
const BYTES_MAX: u64 = 1 << 20;

/// Writes a manifest beside the old one, and lets it replace that when it is on the disk. After an
/// error either of the two may be there.
pub(in crate::segments) fn write(disk: &dyn Disk, directory: &Path, manifest: &Manifest) -> Result<(), SegmentError> {
    let (path, new) = (directory.join(NAME), directory.join(NEW));
    let mut file = create_anew(disk, &new).map_err(SegmentError::io("create", &new))?;
    write_all(file.as_mut(), &manifest.encode()).map_err(SegmentError::io("write", &new))?;
    file.sync().map_err(SegmentError::io("sync", &new))?;
    // The names of segments that it lists are on the disk before it is.
    disk.sync_directory(directory).map_err(SegmentError::io("sync", directory))?;
    disk.rename(&new, &path).map_err(SegmentError::io("rename to", &path))?;
    disk.sync_directory(directory).map_err(SegmentError::io("sync", directory))
}

/// Reads the manifest; `None` if there is none.
pub(in crate::segments) fn read(disk: &dyn Disk, directory: &Path) -> Result<Option<Manifest>, SegmentError> {
    let path = directory.join(NAME);
    let mut file = match disk.open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(SegmentError::io("open", &path))?,
    };
    let size = file.size().map_err(SegmentError::io("read", &path))?;
    let damaged = |what| SegmentError::damaged(&path, 0, what);
    let Some(length) = usize::try_from(size).ok().filter(|_| size <= BYTES_MAX) else {
        return Err(damaged("it is longer than a manifest"));
    };
    let mut bytes = vec![0; length];
    let read = read_full(file.as_mut(), 0, &mut bytes).map_err(SegmentError::io("read", &path))?;
    match Manifest::decode(&bytes[..read]) {
        Ok(manifest) => Ok(Some(manifest)),
        Err(NotOurs { what: what @ ("version" | "byte order"), got, expected }) => {
            Err(SegmentError::NotOurs { path, what, got, expected })
        }
        Err(NotOurs { what, .. }) => Err(damaged(match what {
            "magic" => "it is no manifest",
            "length" => "the manifest is not as long as it says",
            "checksum of the header" => "the checksum of the manifest's header is wrong",
            "checksum of the list" => "the checksum of the manifest's list is wrong",
            _ => "the manifest says what cannot be",
        })),
    }
}
