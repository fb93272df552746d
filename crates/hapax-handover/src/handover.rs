//! Acquiring a partition: the manifest, then the files that it names.

use crate::drive::{Driver, Sources, blocking};
use crate::manifest::{Content, Manifest};
use crate::owned::Owned;
use crate::protocol::Event;
use crate::remote::Remote;
use crate::{HandoverError, HandoverOptions, local};
use futures_util::{StreamExt, stream};
use hapax::tier::random;
use hapax::{Builder, Damage, DurableFiles, JournalOptions};
use object_store::ObjectStore;
use object_store::path::Path as Key;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::time::Instant;

/// A place in an object store where the memories of partitions are handed over.
///
/// ```
/// # let directory = std::env::temp_dir().join(format!("hapax-doc-handover-{}", std::process::id()));
/// use hapax::{Dedup, JournalOptions};
/// use hapax_handover::object_store::memory::InMemory;
/// use hapax_handover::{Handover, HandoverError, HandoverOptions};
/// use std::sync::Arc;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// // In production: `AmazonS3Builder::from_env()…`, with the feature `aws` of object_store.
/// let handover = Handover::new(Arc::new(InMemory::new()), "hapax/orders", HandoverOptions::new())?;
/// let open = |acquired: hapax_handover::Acquired| acquired.open(Dedup::builder(), JournalOptions::new());
///
/// let first = open(handover.acquire("3", &directory.join("first")).await?).await?;
/// let engine = first.engine()?;
/// assert!(engine.check("m-1").is_fresh());
/// engine.checkpoint([("orders/3", [1])])?; // the offset behind what is handled
/// first.publish().await?; // … and only now is the offset committed
///
/// // The partition moves: the next owner knows what the first one has published.
/// let acquired = handover.acquire("3", &directory.join("second")).await?;
/// assert_eq!(acquired.positions(), [(b"orders/3".to_vec(), vec![1])]); // go on from here
/// let second = open(acquired).await?;
/// assert!(second.engine()?.check("m-1").is_duplicate());
/// assert!(matches!(first.publish().await, Err(HandoverError::Fenced { .. })));
/// # drop((first, second));
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The objects have the secret key of the engine's digests: whoever may read them can construct
/// ids that collide, and whoever may write them can make messages be lost.
#[derive(Clone)]
pub struct Handover {
    store: Arc<dyn ObjectStore>,
    prefix: Key,
    options: HandoverOptions,
}

impl fmt::Debug for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handover").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Handover {
    /// Returns a place under a prefix of a store. Nothing is asked of the store yet.
    ///
    /// # Errors
    ///
    /// An error that names the wrong option.
    pub fn new(
        store: Arc<dyn ObjectStore>,
        prefix: impl AsRef<str>,
        options: HandoverOptions,
    ) -> Result<Self, HandoverError> {
        options.validate()?;
        let prefix = Key::parse(prefix.as_ref()).map_err(|error| HandoverError::InvalidOption {
            option: "prefix",
            got: error.to_string(),
            expected: "a path of an object store",
        })?;
        Ok(Handover { store, prefix, options })
    }

    /// Becomes the owner of a partition, whoever was it before, and brings its files into a new
    /// directory below `directory`; those of earlier epochs there are deleted. The first owner of
    /// all gets an empty one.
    ///
    /// # Guarantees
    ///
    /// From then on no earlier owner can publish, however long it has stalled. The files are
    /// exactly what the last publication had, by their checksums.
    ///
    /// # Errors
    ///
    /// [`HandoverError::NotConditional`] for a store that cannot fence, as a local directory:
    /// nothing is written. [`HandoverError::Fenced`] if another has acquired it meanwhile.
    /// Otherwise it can be called again.
    ///
    /// # Cost
    ///
    /// Three requests, and one for each part of a file.
    pub async fn acquire(&self, partition: &str, directory: &Path) -> Result<Acquired, HandoverError> {
        let root = self.prefix.clone().join(partition);
        let remote = Remote::new(Arc::clone(&self.store), root, self.options.clone());
        remote.must_be_conditional().await?;
        let driver = Driver::new(remote, partition);
        let confirmed = Instant::now();
        driver.drive(Event::Acquire { attempt: random::any() }, &Sources::new()).await?;
        let manifest = driver.current()?;
        let path = match bring(&driver, directory, &manifest).await {
            Ok(path) => path,
            // Files are also gone if another has acquired it meanwhile, and published.
            Err(error) => return Err(still_owns(&driver, manifest.epoch).await.err().unwrap_or(error)),
        };
        Ok(Acquired { driver, manifest, directory: path, confirmed })
    }
}

/// Returns true if this still is the owner, false if the store does not say: it is asked again,
/// until there is an answer or the lease ends. An error if another one is.
async fn still_owns(driver: &Driver, epoch: u64) -> Result<bool, HandoverError> {
    match driver.look().await {
        Ok(()) => Ok(true),
        Err(HandoverError::Fenced { by, .. }) => Err(driver.fenced(epoch, by)),
        Err(_) => Ok(false),
    }
}

/// Downloads what a manifest names. Returns the directory.
async fn bring(driver: &Driver, directory: &Path, manifest: &Manifest) -> Result<PathBuf, HandoverError> {
    let (parent, epoch, content) = (directory.to_path_buf(), manifest.epoch, manifest.content.clone());
    let path = blocking(move || {
        let path = local::make(&parent, epoch)?;
        prepare(&path, &content)?;
        Ok(path)
    })
    .await?;
    // (Owned, as borrowed items would make of this a future that no task can be spawned of.)
    let mut parts = Vec::new();
    for file in &manifest.content.files {
        let (to, mut end) = (path.join(&file.name), 0);
        for part in &file.parts {
            parts.push((*part, end, to.clone()));
            end += part.bytes;
        }
    }
    let mut downloads = stream::iter(parts.into_iter().map(|(part, offset, to)| async move {
        let bytes = driver.remote.download(&part).await?;
        blocking(move || local::write_at(&to, offset, &bytes)).await
    }))
    .buffer_unordered(driver.remote.options.parallel);
    while let Some(downloaded) = downloads.next().await {
        downloaded?;
    }
    drop(downloads);
    // (Nothing is synced: after a power cut the partition is acquired again, and brought again.)
    let parent = directory.to_path_buf();
    blocking(move || local::forget_earlier(&parent, epoch)).await?;
    Ok(path)
}

/// Makes the files, as long as they will be.
fn prepare(path: &Path, content: &Content) -> Result<(), HandoverError> {
    for file in &content.files {
        let to = path.join(&file.name);
        local::create(&to)?.set_len(file.bytes()).map_err(HandoverError::io("make room for", &to))?;
    }
    if !content.mark.is_empty() {
        let to = path.join(DurableFiles::MARK);
        local::create(&to)?;
        local::write_at(&to, 0, &content.mark)?;
    }
    Ok(())
}

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

    /// Returns the number of bytes that were brought here.
    pub fn bytes(&self) -> u64 {
        self.manifest.content.bytes()
    }

    /// Builds the engine on the files. The journal gets
    /// [`checkpoints`](JournalOptions::checkpoints), and refuses damage. The window should be the
    /// one that the last owner had.
    ///
    /// # Errors
    ///
    /// [`HandoverError::Engine`]; [`HandoverError::Damaged`] if the files have other positions than
    /// the manifest; [`HandoverError::Fenced`] if another has acquired it meanwhile.
    ///
    /// # Cost
    ///
    /// Replays the journal. What is durable is what was published, so
    /// [`SyncMode::System`](hapax::SyncMode::System) suffices, and spares a sync for each
    /// publication: after a power cut the partition is acquired again.
    pub async fn open(self, builder: Builder, journal: JournalOptions) -> Result<Owned, HandoverError> {
        let Acquired { driver, manifest, directory, mut confirmed } = self;
        let path = directory.clone();
        let engine = blocking(move || {
            let journal = journal.checkpoints(true).damage(Damage::Refuse);
            let built = builder.journal(&path, journal).build();
            built.map_err(|error| HandoverError::Engine(Arc::new(error)))
        })
        .await?;
        if engine.positions()? != manifest.content.positions {
            let what = "its files have other positions than the manifest".into();
            return Err(HandoverError::Damaged { path: directory.display().to_string(), what });
        }
        // All of that took a while, in which another may have acquired it.
        let asked = Instant::now();
        if still_owns(&driver, manifest.epoch).await? {
            confirmed = asked;
        }
        Ok(Owned::new(driver, engine, manifest.epoch, confirmed))
    }
}
