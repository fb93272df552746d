//! An owned partition: its engine, publications, and the lease.

use crate::HandoverError;
use crate::drive::{Driver, Sources, blocking};
use crate::local::Source;
use crate::manifest::{Content, File, Part, Segments};
use crate::plan::plan;
use crate::protocol::{Event, orphans};
use hapax::Dedup;
use hapax::seam::random;
use hapax::seam::{DurableFile, DurableFiles};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_128;

/// The number of times that files are listed again because one has expired meanwhile.
const LISTINGS_MAX: u32 = 3;

/// A partition that this process owns, with its engine.
///
/// A consumer's loop: take a batch, ask for the [`engine`](Owned::engine), check, handle,
/// checkpoint, [`publish`](Owned::publish), commit. While it lives, a task asks the store three
/// times a lease whether this still is the owner.
pub struct Owned {
    inner: Arc<Inner>,
    renewal: JoinHandle<()>,
}

struct Inner {
    driver: Driver,
    engine: Dedup,
    epoch: u64,
    /// The time at which the store was asked that has confirmed last.
    confirmed: Mutex<Instant>,
    /// One publication at a time; true if orphans were looked for.
    publishing: tokio::sync::Mutex<bool>,
    /// The store has answered: perhaps a lease goes on, perhaps this is fenced.
    answered: Notify,
    /// The segments that are not here yet.
    segments: std::sync::OnceLock<Arc<crate::segments::InStore>>,
}

/// The result of a publication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// The number of bytes that were new, or were put together with what was new.
    pub uploaded_bytes: u64,
    /// The number of objects that were new.
    pub uploaded: u64,
    /// The number of objects that were deleted, since no manifest names them any more.
    pub deleted: u64,
    /// The number of those that could not be deleted now. They are tried again.
    pub not_deleted: u64,
    /// The number of bytes of all files that the manifest names.
    pub bytes: u64,
}

/// The content to be published, and the bytes of its new objects.
struct Prepared {
    content: Content,
    sources: Sources,
}

impl fmt::Debug for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { driver, epoch, .. } = &*self.inner;
        f.debug_struct("Owned").field("partition", &driver.partition).field("epoch", epoch).finish_non_exhaustive()
    }
}

impl Owned {
    pub(crate) fn new(driver: Driver, engine: Dedup, epoch: u64, confirmed: Instant) -> Self {
        let (confirmed, publishing) = (Mutex::new(confirmed), tokio::sync::Mutex::new(false));
        let inner = Inner {
            driver,
            engine,
            epoch,
            confirmed,
            publishing,
            answered: Notify::new(),
            segments: std::sync::OnceLock::new(),
        };
        let inner = Arc::new(inner);
        let renewal = tokio::spawn(renew(Arc::downgrade(&inner)));
        Owned { inner, renewal }
    }

    pub(crate) fn with_segments(self, segments: Arc<crate::segments::InStore>) -> Self {
        // (It is set once.)
        let _ = self.inner.segments.set(segments);
        self
    }

    /// Waits until all segments of the long memory are here: from then on nothing is asked of the
    /// store for a check. Returns at once without a long memory.
    ///
    /// Waits for as long as the store needs;
    /// [`not_brought`](hapax::LongMemoryStats::not_brought) says why nothing comes at present.
    ///
    /// # Errors
    ///
    /// [`HandoverError::Fenced`].
    pub async fn segments_are_here(&self) -> Result<(), HandoverError> {
        loop {
            self.inner.driver.must_own()?;
            let stats = self.inner.engine.stats().long_memory;
            if stats.is_none_or(|stats| stats.segments.remote == 0) {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// Returns the engine, if the store has confirmed within a lease that this is the owner. Ask
    /// for it before each batch.
    ///
    /// # Errors
    ///
    /// [`HandoverError::Fenced`] for good, [`HandoverError::LeaseOver`] until the store answers.
    pub fn engine(&self) -> Result<&Dedup, HandoverError> {
        self.inner.driver.must_own()?;
        let lease = self.inner.driver.remote.options.lease;
        let confirmed = *self.inner.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
        if confirmed.elapsed() > lease {
            return Err(HandoverError::LeaseOver { partition: self.inner.driver.partition.clone(), lease });
        }
        Ok(&self.inner.engine)
    }

    /// Waits until [`engine`](Self::engine) returns one: until the store answers.
    ///
    /// # Errors
    ///
    /// [`HandoverError::Fenced`].
    pub async fn usable(&self) -> Result<(), HandoverError> {
        self.inner
            .until(|| match self.engine() {
                Err(HandoverError::LeaseOver { .. }) => None,
                engine => Some(engine.map(|_| ())),
            })
            .await
    }

    /// Waits until another owner has acquired the partition, as far as this one has heard. Drop
    /// what is being handled then.
    pub async fn fenced(&self) -> HandoverError {
        self.inner.until(|| self.inner.driver.must_own().err()).await
    }

    /// Returns the fencing token of this ownership: a number that grows with each.
    pub fn epoch(&self) -> u64 {
        self.inner.epoch
    }

    /// Returns the engine, also when its lease is over.
    #[cfg(feature = "stream")]
    pub(crate) fn engine_always(&self) -> &Dedup {
        &self.inner.engine
    }

    /// Ships what is new up to the last [checkpoint](hapax::JournalHandle::checkpoint), and
    /// publishes it with that checkpoint's positions. Flushes first. Commit the sources' offsets
    /// when it has returned, never before.
    ///
    /// # Guarantees
    ///
    /// If it returns, the next owner knows everything that was accepted before the checkpoint, and
    /// goes on from its positions, or later ones. If it fails, that may be so as well; nothing that
    /// the next owner relies on is lost in either case.
    ///
    /// # Errors
    ///
    /// [`HandoverError::Fenced`]: another owner is there, for good. Otherwise it can be called
    /// again; the next one has all of it.
    ///
    /// # Cost
    ///
    /// Reads what is new twice. One request for each part that is new, one for the manifest, one
    /// for each object that is deleted.
    pub async fn publish(&self) -> Result<Published, HandoverError> {
        let inner = &self.inner;
        let mut has_swept = inner.publishing.lock().await;
        inner.driver.must_own()?;
        let engine = inner.engine.clone();
        // (In a thread of its own: this is fdatasync.)
        blocking(move || Ok(engine.journal()?.flush()?)).await?;
        let Prepared { content, sources } = inner.prepare().await?;
        let began = Instant::now();
        let (bytes, new): (_, BTreeSet<_>) = (content.bytes(), sources.keys().copied().collect());
        let event = Event::Publish { attempt: random::any(), content, new };
        let driven = inner.driver.drive(event, &sources).await;
        inner.heard(driven.is_ok().then_some(began));
        let driven = driven?;
        let uploaded_bytes = sources.values().map(|(_, range)| range.end - range.start).sum();
        let uploaded = sources.len() as u64;
        let (mut deleted, mut not_deleted) = (driven.deleted, driven.not_deleted);
        if !*has_swept && let Ok((swept, left)) = inner.sweep().await {
            *has_swept = true;
            (deleted, not_deleted) = (deleted + swept, not_deleted + left);
        }
        Ok(Published { uploaded_bytes, uploaded, deleted, not_deleted, bytes })
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.renewal.abort();
        self.inner.close();
    }
}

impl Inner {
    /// Lets nobody wait for segments any more.
    fn close(&self) {
        if let Some(segments) = self.segments.get() {
            segments.close();
        }
    }

    /// Tells those who wait that the store has answered: if it has confirmed that this is the
    /// owner, when it was asked. Nobody waits for the segments of another owner's partition.
    fn heard(&self, confirmed: Option<Instant>) {
        if let Some(began) = confirmed {
            let mut confirmed = self.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
            *confirmed = began.max(*confirmed);
        }
        if self.driver.must_own().is_err() {
            self.close();
        }
        self.answered.notify_waiters();
    }

    /// Waits for something that an answer of the store may bring about.
    async fn until<T>(&self, so: impl Fn() -> Option<T>) -> T {
        loop {
            // (It hears of what comes from here on.)
            let answered = self.answered.notified();
            if let Some(now) = so() {
                return now;
            }
            answered.await;
        }
    }

    async fn prepare(&self) -> Result<Prepared, HandoverError> {
        let mut listings = 0;
        loop {
            listings += 1;
            let known = self.driver.current()?.content;
            let (engine, max) = (self.engine.clone(), self.driver.remote.options.part_bytes);
            let read = blocking(move || planned(engine.journal()?.files()?, &known, max));
            match read.await {
                // It has expired since it was listed.
                Err(HandoverError::Io { source, .. })
                    if source.kind() == std::io::ErrorKind::NotFound && listings < LISTINGS_MAX => {}
                planned => return self.named(planned?).await,
            }
        }
    }

    async fn named(&self, planned: Planned) -> Result<Prepared, HandoverError> {
        let Planned { positions, mark, files, manifest, segments } = planned;
        let mut sources = Sources::new();
        let files = self.with_new_parts(files, &mut sources).await?;
        let segments = Segments { manifest, files: self.with_new_parts(segments, &mut sources).await? };
        Ok(Prepared { content: Content { positions, mark, files, segments }, sources })
    }

    /// Names the new parts of files, and takes their checksums.
    async fn with_new_parts(&self, files: Vec<PlannedFile>, sources: &mut Sources) -> Result<Vec<File>, HandoverError> {
        let mut named = Vec::new();
        for PlannedFile { mut file, source, new } in files {
            // (There is one if anything is new.)
            for range in new {
                let Some(source) = &source else { break };
                let (from, at) = (Arc::clone(source), range.clone());
                let checksum = blocking(move || Ok(xxh3_128(&from.read(&at)?))).await?;
                let object = self.driver.owning(|owning| owning.name(random::any()))?;
                file.parts.push(Part { object, bytes: range.end - range.start, checksum });
                sources.insert(object, (Arc::clone(source), range));
            }
            named.push(file);
        }
        Ok(named)
    }

    /// Deletes what earlier owners have left.
    async fn sweep(&self) -> Result<(u64, u64), HandoverError> {
        let listed = self.driver.remote.list().await?;
        let age = self.driver.remote.options.orphan_age.as_secs();
        let mut old = orphans(listed, &self.driver.current()?, age);
        self.driver.owning(|owning| old.retain(|object| !owning.names(object)))?;
        let deleted = self.driver.delete(&old).await;
        Ok((deleted, old.len() as u64 - deleted))
    }
}

struct Planned {
    positions: Vec<(Vec<u8>, Vec<u8>)>,
    mark: Vec<u8>,
    files: Vec<PlannedFile>,
    /// The manifest of segments, and they.
    manifest: Vec<u8>,
    segments: Vec<PlannedFile>,
}

struct PlannedFile {
    /// The file with the parts that stay.
    file: File,
    /// The file itself, open, if anything of it is new: so it may be deleted meanwhile.
    source: Option<Arc<Source>>,
    new: Vec<std::ops::Range<u64>>,
}

/// Compares the files of an engine with those that are published.
fn planned(durable: DurableFiles, known: &Content, part_bytes: u64) -> Result<Planned, HandoverError> {
    let planned = |durable: &DurableFile| {
        let name = durable.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut parts = known.file(&name).map_or(vec![], |file| file.parts.clone());
        let (kept, new) = plan(&parts, durable.bytes, part_bytes);
        parts.truncate(kept);
        let source = if new.is_empty() { None } else { Some(Arc::new(Source::open(&durable.path)?)) };
        Ok(PlannedFile { file: File { name, is_closed: durable.is_closed, parts }, source, new })
    };
    let files = durable.files.iter().map(planned).collect::<Result<_, HandoverError>>()?;
    let (manifest, segments) = match durable.segments {
        Some(segments) => (segments.manifest, segments.files.iter().map(planned).collect::<Result<_, _>>()?),
        None => Default::default(),
    };
    Ok(Planned { files, positions: durable.positions, mark: durable.mark, manifest, segments })
}

/// Asks three times a lease whether this still is the owner, until it is not, or is dropped.
async fn renew(owner: Weak<Inner>) {
    loop {
        let Some(inner) = owner.upgrade() else { return };
        let wait = inner.driver.remote.options.lease / 3;
        drop(inner);
        tokio::time::sleep(wait).await;
        let Some(inner) = owner.upgrade() else { return };
        let began = Instant::now();
        match inner.driver.look().await {
            Ok(()) => inner.heard(Some(began)),
            Err(HandoverError::Fenced { .. }) => return inner.heard(None),
            // The lease ends, unless the next one is answered.
            Err(_) => {}
        }
    }
}
