//! A partition that was acquired: its files are here, or on their way, and its engine is to be
//! built.

use crate::HandoverError;
use crate::drive::{Driver, blocking};
use crate::manifest::Manifest;
use crate::owned::Owned;
use crate::segments::InStore;
use hapax::{Builder, Damage, JournalOptions};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::time::Instant;

/// A partition that was acquired, and whose engine is not built yet.
pub struct Acquired {
    driver: Driver,
    manifest: Manifest,
    directory: PathBuf,
    confirmed: Instant,
}

impl fmt::Debug for Acquired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let epoch = self.manifest.epoch;
        f.debug_struct("Acquired").field("directory", &self.directory).field("epoch", &epoch).finish_non_exhaustive()
    }
}

impl Acquired {
    pub(crate) fn new(driver: Driver, manifest: Manifest, directory: PathBuf, confirmed: Instant) -> Self {
        Acquired { driver, manifest, directory, confirmed }
    }

    /// Returns the positions from which the sources are to be read: exactly those that the files
    /// cover. None if nobody has published yet.
    pub fn positions(&self) -> &[(Vec<u8>, Vec<u8>)] {
        &self.manifest.content.positions
    }

    /// Returns the position of one source; none if nobody has published one yet.
    pub fn position(&self, source: impl AsRef<[u8]>) -> Option<&[u8]> {
        let known = self.positions().iter().find(|(known, _)| known == source.as_ref());
        known.map(|(_, position)| &position[..])
    }

    /// Returns the fencing token of this ownership: a number that grows with each.
    pub fn epoch(&self) -> u64 {
        self.manifest.epoch
    }

    /// Returns the number of bytes of all files, those of segments that are not here yet as well.
    pub fn bytes(&self) -> u64 {
        self.manifest.content.bytes()
    }

    /// Builds the engine on the journal. That gets [`checkpoints`](JournalOptions::checkpoints),
    /// and refuses damage. The window should be the one that the last owner had.
    ///
    /// # Errors
    ///
    /// [`HandoverError::Engine`]; [`HandoverError::Damaged`] if the files have other positions than
    /// the manifest; [`HandoverError::Fenced`] if another has acquired it meanwhile;
    /// [`HandoverError::LongMemory`] if the last owner had a long memory.
    ///
    /// # Cost
    ///
    /// Replays the journal. What is durable is what was published, so
    /// [`SyncMode::System`](hapax::SyncMode::System) suffices, and spares a sync for each
    /// publication: after a power cut the partition is acquired again.
    pub async fn open(self, builder: Builder, journal: JournalOptions) -> Result<Owned, HandoverError> {
        if !self.manifest.content.segments.manifest.is_empty() {
            return Err(HandoverError::LongMemory { partition: self.driver.partition });
        }
        self.build(builder, journal).await
    }

    /// Builds the engine with a [long memory](Builder::long_memory), on the journal and the
    /// segments of the last owner. Where that had none, its journal becomes the first.
    ///
    /// The engine answers before the segments are here: it reads their pages in the store, and
    /// brings filters and files in the background. What cannot be read is in doubt: fresh, as a
    /// [guess](hapax::Verdict::is_certain), and counted in
    /// [`in_doubt`](hapax::LongMemoryStats::in_doubt). Who would rather wait for certainty waits
    /// for [`Owned::segments_are_here`].
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open). The ends of all segments are read, and damage is refused;
    /// pages that are damaged are noticed when they are read, and never an answer.
    ///
    /// # Cost
    ///
    /// Replays the journal, as [`open`](Self::open), and makes two requests for each segment, side
    /// by side. Then downloads 1.75 bytes an id for filters, and 12 for files, each byte once. See
    /// [`Builder::segment_source`] for what checks cost meanwhile.
    pub async fn open_with_long_memory(
        self,
        builder: Builder,
        journal: JournalOptions,
        long_memory: hapax::LongMemory,
    ) -> Result<Owned, HandoverError> {
        let path = crate::local::segments(&self.directory);
        let (directory, segments) = (path.clone(), self.manifest.content.segments.clone());
        let source = Arc::new(InStore::new(Arc::clone(&self.driver.remote), &segments.files)?);
        blocking(move || crate::segments::prepare(&directory, &segments)).await?;
        let builder = builder.long_memory(path, long_memory).segment_source(Arc::clone(&source) as _);
        let owned = self.build(builder, journal).await?;
        Ok(owned.with_segments(source))
    }

    async fn build(self, builder: Builder, journal: JournalOptions) -> Result<Owned, HandoverError> {
        let Acquired { driver, manifest, directory, mut confirmed } = self;
        let path = directory.clone();
        let built = blocking(move || {
            let journal = journal.checkpoints(true).damage(Damage::Refuse);
            let built = builder.journal(&path, journal).build();
            built.map_err(|error| HandoverError::Engine(Arc::new(error)))
        });
        let engine = match built.await {
            Ok(engine) => engine,
            // Segments are also gone if another has acquired it meanwhile, and published.
            Err(error) => return Err(driver.still_owns().await.err().unwrap_or(error)),
        };
        if engine.journal()?.positions()? != manifest.content.positions {
            let what = "its files have other positions than the manifest".into();
            return Err(HandoverError::Damaged { path: directory.display().to_string(), what });
        }
        // All of that took a while, in which another may have acquired it.
        let asked = Instant::now();
        if driver.still_owns().await? {
            confirmed = asked;
        }
        Ok(Owned::new(driver, engine, manifest.epoch, confirmed))
    }
}
