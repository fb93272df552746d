//! Acquiring a partition: the manifest, then the journal that it names.

use crate::acquired::Acquired;
use crate::drive::{Driver, Sources, blocking};
use crate::manifest::Manifest;
use crate::protocol::Event;
use crate::remote::Remote;
use crate::{HandoverError, HandoverOptions, local};
use hapax::seam::DurableFiles;
use hapax::seam::random;
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
/// engine.journal()?.checkpoint([("orders/3", [1])])?; // the offset behind what is handled
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

    /// Becomes the owner of a partition, whoever was it before, and brings its journal into a new
    /// directory below `directory`; those of earlier epochs there are deleted. The first owner of
    /// all gets an empty one. Segments of a long memory come when the engine is built.
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
    /// Three requests, and one for each part of a file of the journal.
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
            Err(error) => return Err(driver.still_owns().await.err().unwrap_or(error)),
        };
        Ok(Acquired::new(driver, manifest, path, confirmed))
    }
}

/// Downloads the journal that a manifest names. Returns its directory.
async fn bring(driver: &Driver, directory: &Path, manifest: &Manifest) -> Result<PathBuf, HandoverError> {
    let (parent, epoch, mark) = (directory.to_path_buf(), manifest.epoch, manifest.content.mark.clone());
    let path = blocking(move || {
        let path = local::make(&parent, epoch)?;
        if !mark.is_empty() {
            local::write(&path.join(DurableFiles::MARK), &mark)?;
        }
        Ok(path)
    })
    .await?;
    driver.download(&path, &manifest.content.files).await?;
    // (Nothing is synced: after a power cut the partition is acquired again, and brought again.)
    let parent = directory.to_path_buf();
    blocking(move || local::forget_earlier(&parent, epoch)).await?;
    Ok(path)
}
