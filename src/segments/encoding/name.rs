//! The names of segments' files.

use std::path::{Path, PathBuf};

const EXTENSION: &str = "segment";

/// The name of a file that is not whole yet ends like this, behind that of the segment.
const PART: &str = "part";

/// Returns the name of a segment's file.
pub(in crate::segments) fn name(number: u64) -> String {
    format!("{number:020}.{EXTENSION}")
}

/// Returns the number of a file that is named as a segment is.
pub(in crate::segments) fn number_of(path: &Path) -> Option<u64> {
    let number = path.file_stem()?.to_str()?.parse().ok()?;
    (path.extension()? == EXTENSION && path.file_name()?.to_str()? == name(number)).then_some(number)
}

/// Returns the path of a segment's file until it is whole.
pub(in crate::segments) fn part_of(path: &Path) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(".");
    path.push(PART);
    path.into()
}

/// Returns true if a file is what was left of bringing a segment.
pub(in crate::segments) fn is_part(path: &Path) -> bool {
    let stem = path.file_stem().map(Path::new);
    path.extension().is_some_and(|it| it == PART) && stem.is_some_and(|stem| number_of(stem).is_some())
}
