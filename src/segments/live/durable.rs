//! The segments as they are at one moment, for those who carry them elsewhere.

use super::set::Segments;
use crate::journal::{DurableFile, DurableSegments};
use crate::segments::encoding::format::Listed;

impl Segments {
    /// Returns the live segments, and the number of what is sealed. Files that are not here yet are
    /// named as if they were.
    pub(crate) fn durable(&self) -> (DurableSegments, u64) {
        let state = self.state();
        let file =
            |listed: &Listed| DurableFile { path: self.path_of(listed.number), bytes: listed.bytes, is_closed: true };
        let files = state.manifest.segments.iter().map(file).collect();
        (DurableSegments { files, manifest: state.manifest.encode() }, state.manifest.sealed)
    }
}
