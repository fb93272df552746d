//! The source of a segment's bytes: its file, or, until that is here, a place elsewhere.

use crate::journal::files::disk::Disk;
use crate::journal::files::pages::{PageFile, read_pages};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// The segments of a [long memory](crate::Builder::long_memory) that are not on this disk yet: in
/// an object store, say. See [`Builder::segment_source`](crate::Builder::segment_source).
///
/// ```
/// use hapax::seam::SegmentSource;
/// use std::fs::File;
/// use std::io::{self, Read, Seek, SeekFrom};
/// use std::path::PathBuf;
///
/// /// Segments in another directory, over a network perhaps.
/// struct Elsewhere(PathBuf);
///
/// impl SegmentSource for Elsewhere {
///     fn read_at(&self, name: &str, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
///         let mut file = File::open(self.0.join(name))?;
///         file.seek(SeekFrom::Start(offset))?;
///         file.read_exact(bytes)
///     }
/// }
/// ```
pub trait SegmentSource: Send + Sync + 'static {
    /// Reads exactly these bytes of a segment's file, from an offset on. `name` is the file's name
    /// alone, as `DurableSegments::files` has it.
    ///
    /// Called by several threads at once, some of which answer checks: it must return in a time
    /// that a check may take, with an error if there is nothing by then. After errors it should
    /// fail at once for a while, since each question asks anew. Bytes need not be checked here.
    ///
    /// # Errors
    ///
    /// Any one: what could not be read is in doubt, and tried again.
    fn read_at(&self, name: &str, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
}

/// The place of a segment's bytes. It changes once: when the file is here.
pub(in crate::segments) struct Place {
    here: OnceLock<Box<dyn PageFile>>,
    elsewhere: Option<Remote>,
}

/// A file that is elsewhere.
struct Remote {
    source: Arc<dyn SegmentSource>,
    name: String,
}

/// A file that is opened for each read: that takes longer, and no descriptor in between.
struct OpenedEachTime {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl PageFile for OpenedEachTime {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.disk.open_pages(&self.path)?.read_at(offset, bytes)
    }

    fn read_cached(&self, _: u64, _: &mut [u8]) -> io::Result<Option<usize>> {
        Ok(None)
    }
}

impl Place {
    pub(in crate::segments) fn opened_each_time(disk: Arc<dyn Disk>, path: PathBuf) -> Self {
        Place::here(Box::new(OpenedEachTime { disk, path }))
    }

    pub(in crate::segments) fn here(file: Box<dyn PageFile>) -> Self {
        Place { here: OnceLock::from(file), elsewhere: None }
    }

    pub(in crate::segments) fn elsewhere(source: &Arc<dyn SegmentSource>, name: &str) -> Self {
        let remote = Remote { source: Arc::clone(source), name: name.into() };
        Place { here: OnceLock::new(), elsewhere: Some(remote) }
    }

    #[inline]
    pub(in crate::segments) fn is_here(&self) -> bool {
        self.here.get().is_some()
    }

    /// Notes that the file is here: whoever reads from now on reads it.
    pub(in crate::segments) fn arrives(&self, file: Place) {
        if let Some(file) = file.here.into_inner() {
            // (If it was here already, that one is as good.)
            let _ = self.here.set(file);
        }
    }

    /// Reads as many of these bytes as there are, and waits for them.
    pub(in crate::segments) fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        match (self.here.get(), &self.elsewhere) {
            (Some(file), _) => read_pages(&**file, offset, bytes),
            (None, Some(Remote { source, name })) => source.read_at(name, offset, bytes).map(|()| bytes.len()),
            (None, None) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Reads these bytes, if that takes no waiting.
    pub(in crate::segments) fn read_cached(&self, offset: u64, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        self.here.get().map_or(Ok(None), |file| file.read_cached(offset, bytes))
    }
}
