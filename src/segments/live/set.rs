//! The segments of a directory: what is live, what a manifest says of it, and who may change it.

use super::incoming_file::Bringing;
use super::manifest;
use super::stats::{Counters, SegmentStats};
use crate::digest::{Digest, DigestKey, WantedKey};
use crate::journal::files::disk::{Disk, Held, NotLocked, System};
use crate::mutation::{Rule, obeys};
use crate::process::Origin;
use crate::segments::encoding::format::{Keys, Listed, Manifest};
use crate::segments::encoding::name::{is_part, name, number_of};
use crate::segments::options::SegmentOptions;
use crate::segments::plan::{Live, plan_expiry};
use crate::segments::read::look::{Answer, look};
use crate::segments::read::page_reads::Reads;
use crate::segments::read::segment::Segment;
use crate::segments::read::source::SegmentSource;
use crate::sync::{DiskMutex, DiskMutexGuard, DiskRwLock, Ordering, unpoisoned};
use crate::{SegmentError, Timestamp, random};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LOCK: &str = "lock";

/// The most segments of a directory whose files stay open: several times as many as there are while
/// merges keep pace. More may lie there, and a process has few descriptors: those are opened for
/// each read, until they are merged.
const OPEN_MAX: usize = 64;

/// The ids of a long time, in sorted files of a directory.
///
/// ```
/// use hapax::segments::{Answer, Event, EventKind, SegmentOptions, Segments};
/// use hapax::seam::Digester;
/// use hapax::Timestamp;
/// use std::time::Duration;
///
/// let directory = std::env::temp_dir().join(format!("hapax-doc-segments-{}", std::process::id()));
/// let segments = Segments::open(&directory, SegmentOptions::new(Duration::from_secs(3600)))?;
/// let digester = Digester::from(segments.key());
///
/// // What a span of the journal has becomes a segment.
/// let time = Timestamp::from_secs(100);
/// let events = [Event { digest: digester.digest("m-1"), time, kind: EventKind::Accepted }];
/// segments.seal(&mut &events[..], 1)?;
///
/// let mut answers = Vec::new();
/// let ids = [digester.digest("m-1"), digester.digest("m-2")];
/// segments.look(&ids, Timestamp::from_secs(200), &mut answers)?;
/// assert_eq!(answers, [Answer::Known(time), Answer::Unknown]);
/// # std::fs::remove_dir_all(directory).unwrap();
/// # Ok::<(), hapax::SegmentError>(())
/// ```
///
/// # Guarantees
///
/// Spans are durable when [`seal`](Segments::seal) has returned. Whatever call to the disk fails,
/// and wherever a process or a machine ends, the directory opens with that; a damaged file is an
/// error, and no id in it is unknown.
///
/// Questions are asked by any thread at any time. One thread at a time seals, and one merges; those
/// may be two.
///
/// # Cost
///
/// A question looks at one cache line of each segment, and then reads one page of each that may
/// have the id: 0.2 % of them, for an id that is unknown.
pub struct Segments {
    pub(in crate::segments) disk: Arc<dyn Disk>,
    pub(crate) directory: PathBuf,
    pub(in crate::segments) options: SegmentOptions,
    pub(in crate::segments) keys: Keys,
    /// The live segments, the oldest first.
    list: DiskRwLock<Arc<[Arc<Segment>]>>,
    state: DiskMutex<State>,
    pub(in crate::segments) sealing: DiskMutex<()>,
    origin: Origin,
    reads: Reads,
    pub(in crate::segments) bringing: Bringing,
    pub(in crate::segments) counters: Counters,
    _lock: Box<dyn Held>,
}

/// The part that who publishes holds.
pub(in crate::segments) struct State {
    pub(in crate::segments) manifest: Manifest,
    /// The files to be deleted: no manifest that may be on the disk will name them once the next
    /// one is there.
    garbage: Vec<PathBuf>,
    /// True while a merge is under way.
    pub(in crate::segments) is_merging: bool,
}

/// A change of what is live.
pub(in crate::segments) struct Change {
    pub(in crate::segments) segments: Vec<Arc<Segment>>,
    /// The caller's number of what is sealed.
    pub(in crate::segments) sealed: u64,
    /// The segment that is new, if one is.
    pub(in crate::segments) added: Option<PathBuf>,
}

impl Segments {
    /// Opens a directory, which need not exist, for this process alone.
    ///
    /// Reads the manifest, and the table of pages of each segment: some 40 kB for each million ids.
    /// Filters are read by [`load_filter`](Segments::load_filter). Deletes files that no manifest
    /// names.
    ///
    /// # Errors
    ///
    /// [`SegmentError::InUse`], `NotOurs` for another key of digests, `Damaged` for a file that is
    /// missing, cut or changed, `Io`.
    pub fn open(directory: &Path, options: SegmentOptions) -> Result<Arc<Self>, SegmentError> {
        let disk = System::with_mode(options.file_mode).map_err(SegmentError::io("watch for forks of", directory))?;
        Self::open_on(Arc::new(disk), directory, options, None)
    }

    /// Opens a directory, in which files may be missing that a source has.
    pub(crate) fn open_on(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: SegmentOptions,
        source: Option<Arc<dyn SegmentSource>>,
    ) -> Result<Arc<Self>, SegmentError> {
        let origin = Origin::here().map_err(SegmentError::io("watch for forks of", directory))?;
        disk.create_directory(directory).map_err(SegmentError::io("create", directory))?;
        let lock = lock(&*disk, directory)?;
        let files = disk.list(directory).map_err(SegmentError::io("read", directory))?;
        let (parts, files): (Vec<_>, Vec<_>) = files.into_iter().partition(|path| is_part(path));
        let ours: Vec<_> = files.into_iter().filter(|path| number_of(path).is_some()).collect();
        let manifest = match manifest::read(&*disk, directory)? {
            Some(manifest) => manifest,
            None => begin(&*disk, directory, &ours, options.key)?,
        };
        let keys = manifest.keys;
        if let Some([what, got, expected]) = options.key.differs(keys.key) {
            let (path, got, expected) = (directory.join(manifest::NAME), got.into(), expected.into());
            return Err(SegmentError::NotOurs { path, what, got, expected });
        }
        let segments = open_all(&disk, directory, &manifest, source.as_ref(), options.read_threads)?;
        let is_named = |path: &PathBuf| {
            number_of(path).is_some_and(|number| manifest.segments.iter().any(|listed| listed.number == number))
        };
        // All that is named is whole: what is not is what a crash has left.
        for path in ours.iter().filter(|path| !is_named(path)).chain(&parts) {
            disk.remove(path).map_err(SegmentError::io("delete", path))?;
        }
        let state = State { manifest, garbage: Vec::new(), is_merging: false };
        Ok(Arc::new(Segments {
            reads: Reads::new(options.read_threads, options.read_wait_max, origin),
            disk,
            directory: directory.into(),
            options,
            keys,
            list: DiskRwLock::new(segments.into()),
            state: DiskMutex::new(state),
            sealing: DiskMutex::new(()),
            origin,
            bringing: Bringing::default(),
            counters: Counters::default(),
            _lock: lock,
        }))
    }

    /// Returns the key of the digests in the directory.
    pub fn key(&self) -> DigestKey {
        self.keys.key
    }

    /// Returns the number that the last durable call to [`seal`](Segments::seal) or
    /// [`clear`](Segments::clear) was given; 0 at first.
    pub fn sealed(&self) -> u64 {
        self.state().manifest.sealed
    }

    /// Returns true unless what is sealed is of another journal than the one of this identity.
    pub(crate) fn may_be_of(&self, journal: u64) -> bool {
        let state = self.state();
        state.manifest.sealed == 0 || [0, journal].contains(&state.manifest.journal)
    }

    /// Notes the identity of the journal that is sealed from now on: the next manifest has it.
    pub(crate) fn belong_to(&self, journal: u64) {
        self.state().manifest.journal = journal;
    }

    /// Answers for each id whether it was accepted within the retention, in order. Waits for the
    /// disk where a page is not in memory: for all pages of a batch together, by the threads that
    /// the options allow.
    ///
    /// A batch that no filter lets pass reads nothing.
    ///
    /// # Errors
    ///
    /// The first one of reading; [`SegmentError::Forked`]. There is an answer for each id in any
    /// case; [`Answer::InDoubt`] is that of those which could not be read.
    pub fn look(&self, digests: &[Digest], now: Timestamp, answers: &mut Vec<Answer>) -> Result<(), SegmentError> {
        if !self.origin.is_here() {
            // A lock may be held by a thread that is not here.
            answers.clear();
            answers.resize(digests.len(), Answer::InDoubt);
            return self.must_be_here();
        }
        let segments = self.segments();
        self.bringing.wait_for_filters(digests.len(), &segments, self.options.read_wait_max);
        let (looked, result) = look(&segments, &self.reads, digests, (now, self.options.retention), answers);
        // Relaxed: counts.
        self.counters.pages_read.fetch_add(looked.pages, Ordering::Relaxed);
        self.counters.known.fetch_add(looked.known, Ordering::Relaxed);
        result
    }

    /// Reads the filter of the newest segment that is here and has none in memory yet; returns
    /// false if all have. Until then each question reads a page of that segment.
    ///
    /// # Errors
    ///
    /// Those of reading and of memory.
    pub fn load_filter(&self) -> Result<bool, SegmentError> {
        let segments = self.segments();
        let lacks = |segment: &&Arc<Segment>| segment.is_here() && segment.filter.get().is_none();
        let Some(segment) = segments.iter().rev().find(lacks) else { return Ok(false) };
        segment.load_filter()?;
        Ok(true)
    }

    /// Drops the oldest segments whose ids are all out of retention. Returns their number.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Forked`], and those of writing; nothing is dropped then.
    pub fn expire(&self, now: Timestamp) -> Result<usize, SegmentError> {
        self.must_be_here()?;
        let mut state = self.state();
        let segments = self.segments();
        let last = |segment: &Arc<Segment>| (segment.trailer.ids > 0).then_some(segment.trailer.last);
        let lasts: Vec<_> = segments.iter().map(last).collect();
        let expired = plan_expiry(&lasts, now, self.options.retention);
        if expired.is_empty() {
            return Ok(0);
        }
        let kept = segments.iter().enumerate().filter(|(i, _)| !expired.contains(i));
        let segments = kept.map(|(_, segment)| Arc::clone(segment)).collect();
        let sealed = state.manifest.sealed;
        self.commit(&mut state, Change { segments, sealed, added: None })?;
        Ok(expired.len())
    }

    /// Drops all segments, durably, and records a number as [`seal`](Segments::seal) does. A merge
    /// that is under way comes to nothing.
    ///
    /// # Errors
    ///
    /// Those of writing. The segments still count then; if the process ends before the next change,
    /// they may count no more.
    pub fn clear(&self, sealed: u64) -> Result<(), SegmentError> {
        self.must_be_here()?;
        let _alone = unpoisoned(self.sealing.lock());
        self.commit(&mut self.state(), Change { segments: Vec::new(), sealed, added: None })
    }

    /// Returns what is there, and what was done.
    pub fn stats(&self) -> SegmentStats {
        SegmentStats::of(&self.segments(), &self.counters)
    }

    pub(in crate::segments) fn state(&self) -> DiskMutexGuard<'_, State> {
        unpoisoned(self.state.lock())
    }

    /// Returns the live segments, the oldest first.
    pub(in crate::segments) fn segments(&self) -> Arc<[Arc<Segment>]> {
        let list = unpoisoned(self.list.read());
        Arc::clone(&list)
    }

    /// Returns the live segments, as the plan of merges sees them.
    pub(in crate::segments) fn live(&self) -> Vec<Live> {
        let live = |segment: &Arc<Segment>| Live { records: segment.records(), level: segment.trailer.level };
        self.segments().iter().map(live).collect()
    }

    pub(in crate::segments) fn path_of(&self, number: u64) -> PathBuf {
        self.directory.join(name(number))
    }

    /// Makes a change durable, and then seen by questions. After an error nothing has changed here,
    /// and the manifest on the disk may be either.
    pub(in crate::segments) fn commit(&self, state: &mut State, change: Change) -> Result<(), SegmentError> {
        let Change { segments, sealed, added } = change;
        let listed: Vec<_> = segments.iter().map(|segment| segment.listed).collect();
        let stays = |old: &Listed| listed.iter().any(|listed| listed.number == old.number);
        let gone = state.manifest.segments.iter().filter(|old| !stays(old)).map(|old| self.path_of(old.number));
        let gone: Vec<_> = gone.collect();
        if !obeys(Rule::ManifestFirst) {
            gone.iter().for_each(|path| drop(self.disk.remove(path)));
        }
        // The edition counts attempts: no two manifests that may be on the disk have one.
        state.manifest.edition += 1;
        let next = Manifest { segments: listed, sealed, ..state.manifest.clone() };
        if let Err(error) = manifest::write(&*self.disk, &self.directory, &next) {
            // It may be on the disk all the same, so that what it names must be there until another
            // manifest is.
            state.garbage.extend(added);
            if !obeys(Rule::KeepDoubtful) {
                self.delete(state);
            }
            return Err(error);
        }
        state.manifest = next;
        if !obeys(Rule::PublishAsOne) {
            let mut left = self.segments().to_vec();
            left.retain(|old| segments.iter().any(|new| Arc::ptr_eq(old, new)));
            *unpoisoned(self.list.write()) = left.into();
        }
        *unpoisoned(self.list.write()) = segments.into();
        state.garbage.extend(gone);
        self.delete(state);
        Ok(())
    }

    /// Deletes what is not named any more. What cannot be deleted now is when something else
    /// changes, or when the directory is opened again.
    fn delete(&self, state: &mut State) {
        state.garbage.retain(|path| match self.disk.remove(path) {
            Ok(()) => false,
            Err(error) => error.kind() != ErrorKind::NotFound,
        });
    }

    /// Returns an error in a child of the process that has opened the directory.
    pub(in crate::segments) fn must_be_here(&self) -> Result<(), SegmentError> {
        if self.origin.is_surely_here() {
            Ok(())
        } else {
            Err(SegmentError::Forked { path: self.directory.clone(), process: self.origin.id() })
        }
    }

    /// Deletes a file that no manifest has named.
    pub(in crate::segments) fn discard(&self, path: &Path) {
        // (A child has a copy of what its parent is writing, and the file is the parent's.)
        if self.must_be_here().is_ok() && self.disk.remove(path).is_err() {
            self.state().garbage.push(path.into());
        }
    }
}

/// Opens the segments of a manifest: side by side, if some may have to be waited for.
fn open_all(
    disk: &Arc<dyn Disk>,
    directory: &Path,
    manifest: &Manifest,
    source: Option<&Arc<dyn SegmentSource>>,
    threads: usize,
) -> Result<Vec<Arc<Segment>>, SegmentError> {
    let open = |&(place, listed): &(usize, Listed)| {
        let path = directory.join(name(listed.number));
        let segment = Segment::open(&**disk, &path, listed, manifest.keys, source)?;
        Ok(Arc::new(if place < OPEN_MAX { segment } else { segment.opened_each_time(disk) }))
    };
    let all: Vec<_> = manifest.segments.iter().copied().enumerate().collect();
    if source.is_none() || threads == 0 {
        return all.iter().map(open).collect();
    }
    let open = &open;
    let side_by_side = |some: &[(usize, Listed)]| {
        std::thread::scope(|scope| {
            let thread = || std::thread::Builder::new().name("hapax-open".into());
            let threads: Vec<_> =
                some.iter().map(|listed| thread().spawn_scoped(scope, move || open(listed))).collect();
            let opened = threads.into_iter().zip(some).map(|(thread, listed)| match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                // Where there are no more threads, this one does it.
                Err(_) => open(listed),
            });
            opened.collect::<Vec<_>>()
        })
    };
    all.chunks(threads).flat_map(side_by_side).collect()
}

/// Writes the first manifest of a directory.
fn begin(disk: &dyn Disk, directory: &Path, ours: &[PathBuf], wanted: WantedKey) -> Result<Manifest, SegmentError> {
    if let Some(path) = ours.first() {
        // No segment is written before there is a manifest.
        let missing = "there is no manifest, and there are segments";
        return Err(SegmentError::damaged(path, 0, missing));
    }
    let key = wanted
        .or_random()
        .map_err(|error| SegmentError::io("make a random key for", directory)(std::io::Error::other(error)))?;
    let keys = Keys { key, salt: random::any() };
    let (edition, next_number, next_span, sealed, journal) = (0, 0, 0, 0, 0);
    let manifest = Manifest { keys, edition, next_number, next_span, sealed, journal, segments: Vec::new() };
    manifest::write(disk, directory, &manifest)?;
    Ok(manifest)
}

fn lock(disk: &dyn Disk, directory: &Path) -> Result<Box<dyn Held>, SegmentError> {
    let (path, holder) = (directory.join(LOCK), format!("process {}", std::process::id()));
    disk.lock(&path, &holder).map_err(|why| match why {
        NotLocked::Io(error) => SegmentError::io("lock", &path)(error),
        NotLocked::InUse(holder) => {
            let holder = if holder.is_empty() { "another process".into() } else { holder };
            SegmentError::InUse { path: directory.into(), holder }
        }
    })
}
