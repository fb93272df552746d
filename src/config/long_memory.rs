//! The options of a long memory, and of where its segments are.

use super::Builder;
use crate::LongMemory;
use crate::segments::SegmentSource;
use std::path::PathBuf;
use std::sync::Arc;

impl Builder {
    /// Remembers ids for much longer than the window, exactly, on the disk.
    ///
    /// Ids that the window forgets are in sorted files by then, *segments*, made of what the
    /// journal has written. An id that the window does not have is looked for in the filters of
    /// all segments, in memory; if one of them says "maybe", in one page of that segment.
    ///
    /// ```
    /// # let directory = std::env::temp_dir().join(format!("hapax-doc-long-{}", std::process::id()));
    /// use hapax::{Dedup, LongMemory, Tier, Timestamp};
    /// use std::time::Duration;
    ///
    /// let (hour, day) = (Duration::from_secs(3600), Duration::from_secs(24 * 3600));
    /// let dedup = Dedup::builder().window(hour * 3).long_memory(&directory, LongMemory::new(day)).build()?;
    /// let morning = Timestamp::from_secs(1_000_000);
    /// assert!(dedup.check_at("m-1", morning).is_fresh());
    /// assert!(dedup.check_at("m-2", morning + hour * 20).is_fresh());
    ///
    /// let again = dedup.check_at("m-1", morning + hour * 20);
    /// assert!(again.is_duplicate());
    /// assert_eq!(again.tier(), Tier::Segments);
    /// # drop(dedup);
    /// # std::fs::remove_dir_all(directory)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Without a [`journal`](Builder::journal) of your own there is one in the directory `journal`
    /// below this one. Both are for one engine at a time. An engine is built when all that the
    /// journal has is in segments; else there is the error that kept it from that. A
    /// [`history`](Builder::history) cannot be had with it.
    ///
    /// # Guarantees
    ///
    /// - An accepted id is a duplicate for the retention, also after a crash, as far as the journal
    ///   was [flushed](crate::JournalHandle::flush); for up to a window longer if it was asked for
    ///   again.
    /// - As long as the window does not forget early
    ///   ([`evicted_live`](crate::WindowStats::evicted_live)): an id that it has evicted is fresh
    ///   until it is in a segment.
    /// - As long as no check takes longer than a quarter of the window. If one did (its thread was
    ///   stopped, or an event that far ahead came meanwhile), its id may be fresh once more, beside
    ///   it or until it is in a segment: handled twice, then, never not at all.
    /// - With a [deferred](crate::JournalOptions::deferred) journal: as long as each id is
    ///   [appended](crate::JournalHandle::append) within half a window, and a checkpoint, if there
    ///   are any, is taken as often. Later, an id that the window has forgotten is fresh until it
    ///   is sealed.
    /// - Where a page cannot be read, or what the window has forgotten could not be sealed for an
    ///   error of the disk, an id that may have been seen is fresh, as a
    ///   [guess](crate::Verdict::is_certain), and counted: it is handled again rather than lost. A
    ///   claim of it is granted.
    /// - Fingerprints are known for as long as the window.
    ///
    /// # Cost
    ///
    /// A check of an id that the window has: nothing. Of another one: a cache line for each segment
    /// (ten at most, if the window is an 18th of the retention or more, with a journal that is told
    /// later a ninth, and merges keep pace), and for what segments know, or for 2 % of the others
    /// at most, a read of 4 KiB. Reads of a batch go on side by side; `check` waits for one. So in
    /// an asynchronous task, check batches, or on a thread that may wait. 14 bits of memory and 14
    /// bytes of disk an id.
    pub fn long_memory(self, directory: impl Into<PathBuf>, options: LongMemory) -> Self {
        Builder { long_memory: Some((directory.into(), options)), ..self }
    }

    /// Lets the [long memory](Builder::long_memory) read segments elsewhere that its manifest names
    /// and that are not in its directory: the engine answers before they are here, and brings them
    /// in a thread of its own. `hapax-handover` does it with an object store.
    ///
    /// ```
    /// # let directory = std::env::temp_dir().join(format!("hapax-doc-elsewhere-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&directory);
    /// use hapax::seam::{DurableFiles, DurableSegments, SegmentSource};
    /// use hapax::{Dedup, JournalOptions, LongMemory, Tier, Timestamp};
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use std::fs::{self, File};
    /// use std::io::{self, Read, Seek, SeekFrom};
    ///
    /// struct Elsewhere(std::path::PathBuf);
    ///
    /// impl SegmentSource for Elsewhere {
    ///     fn read_at(&self, name: &str, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
    ///         let mut file = File::open(self.0.join(name))?; // over a network, in earnest
    ///         file.seek(SeekFrom::Start(offset))?;
    ///         file.read_exact(bytes)
    ///     }
    /// }
    ///
    /// let (hour, day) = (Duration::from_secs(3600), Duration::from_secs(24 * 3600));
    /// let build = |name: &str| {
    ///     let journal = JournalOptions::new().checkpoints(true);
    ///     let builder = Dedup::builder().window(hour).journal(directory.join(name), journal);
    ///     builder.long_memory(directory.join(name).join("segments"), LongMemory::new(day))
    /// };
    /// let first = build("first").build()?;
    /// let morning = Timestamp::from_secs(1_700_000_000);
    /// first.check_at("m-1", morning);
    /// first.journal()?.checkpoint([("orders/3", [1])])?;
    /// first.journal()?.flush()?;
    /// drop(first);
    /// let first = build("first").build()?; // what the journal has is sealed now
    ///
    /// // What the next one needs is the journal, and the segments' manifest.
    /// let (durable, next) = (first.journal()?.files()?, directory.join("next"));
    /// let segments = durable.segments.unwrap_or_default();
    /// fs::create_dir_all(next.join("segments"))?;
    /// for file in &durable.files {
    ///     let mut bytes = Vec::new(); // no more than what is durable
    ///     File::open(&file.path)?.take(file.bytes).read_to_end(&mut bytes)?;
    ///     fs::write(next.join(file.path.file_name().unwrap()), bytes)?;
    /// }
    /// fs::write(next.join(DurableFiles::MARK), &durable.mark)?;
    /// fs::write(next.join("segments").join(DurableSegments::MANIFEST), &segments.manifest)?;
    ///
    /// let source = Arc::new(Elsewhere(directory.join("first").join("segments")));
    /// let next = build("next").segment_source(source).build()?;
    /// assert!(next.check_at("m-2", morning + hour * 20).is_fresh());
    /// assert_eq!(next.check_at("m-1", morning + hour * 20).tier(), Tier::Segments);
    /// # drop((first, next));
    /// # std::fs::remove_dir_all(directory)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// - What cannot be read is in doubt: fresh as a [guess](crate::Verdict::is_certain), and
    ///   counted, as when a disk fails. All bytes are checked; wrong ones are never an answer.
    /// - A file comes under another name, and gets its own when it is whole, right, and synced. So
    ///   a process that is killed meanwhile finds what it had.
    ///
    /// # Errors
    ///
    /// [`build`](Builder::build) reads the end of each such segment, and fails if it cannot.
    ///
    /// # Cost
    ///
    /// Until a segment's filter is here (1.75 bytes an id; these come first), `check` reads a page
    /// of it for each id that the window does not have, several segments at once; a batch waits for
    /// filters, for 30 seconds at most. After that, until the file is here, `check` reads a page
    /// for each id that the segment has, and for 0.2 % of the others.
    /// [`SegmentStats::remote`](crate::LongMemoryStats::segments) is the number of files that are
    /// not here, [`LongMemoryStats::not_brought`](crate::LongMemoryStats::not_brought) the reason.
    #[doc(hidden)]
    pub fn segment_source(self, source: Arc<dyn SegmentSource>) -> Self {
        Builder { segment_source: Some(source), ..self }
    }
}
