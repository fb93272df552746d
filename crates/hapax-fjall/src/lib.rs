#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod buckets;
mod database;
mod directory;

#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;

use database::Buckets;
use hapax::Clock;
use hapax_store::backend::committer::{Committed, Committer, Durability};
use hapax_store::{ErrorKind, Limits, StoreError};
use std::path::Path;
use std::time::Duration;

const BACKEND: &str = "fjall";

/// Records in a directory that this process owns: the store to use where one process owns its ids.
///
/// ```
/// use hapax_fjall::FjallStore;
/// use hapax_store::TieredDedup;
/// use std::time::Duration;
///
/// # let path = std::env::temp_dir().join(format!("hapax-doc-fjall-{}", std::process::id()));
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let week = Duration::from_secs(7 * 86_400);
/// let open = async || TieredDedup::builder(FjallStore::open(&path).await?).retention(week).build().await;
/// let dedup = open().await?;
/// assert!(dedup.check("order-17").await?.is_fresh());
/// dedup.shutdown(Duration::from_secs(1)).await?;
/// drop(dedup);
///
/// assert!(open().await?.check("order-17").await?.is_duplicate());
/// # Ok::<(), hapax_store::StoreError>(())
/// # })?;
/// # std::fs::remove_dir_all(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Guarantees
///
/// - What was acknowledged survives kill -9, and with [`Durability::Disk`], the default, the loss
///   of power.
/// - One process, and one store in it, has the directory open; another one gets
///   [`ErrorKind::Conflict`]. The lock ends with the process, however the process ends.
/// - Time is the clock's, and never goes back: if the clock was set back while the store was
///   closed, the store goes on from the last time that it has stored, which is at most a second old
///   after a crash. Tokens grow over restarts nevertheless: they begin beyond that second.
/// - A write or sync that failed is the last one: every call from then on fails, until the store is
///   opened again. So it is when the directory was removed, moved or replaced: nothing is
///   acknowledged that the next one who opens it does not see. (On Unix.)
/// - Nothing is done on the caller's thread, and a call that is cancelled is carried out
///   nevertheless.
///
/// # Errors
///
/// [`ErrorKind::Unavailable`]: the disk fails or is full, or failed before. [`ErrorKind::Corrupt`]:
/// the stored data is damaged; the error names the path and the record.
/// [`ErrorKind::Misconfigured`]: the directory cannot be used, or is not the one that was opened
/// any more, or contains something else, or data of another version of hapax.
///
/// # Cost
///
/// One write and one sync for all calls that have gathered during the previous sync.
/// [`record`](hapax_store::Store::record) reads nothing; every other call looks for each id in
/// about nine buckets, mostly in their Bloom filters, of 1.5 bytes an id in memory. An id with a
/// mark takes its own length and about 20 bytes on disk. The space is used until the longest
/// retention in its bucket, and an eighth of it more, is over, and those of the buckets before: ids
/// whose retentions differ much belong into different stores.
/// [`expire`](hapax_store::Store::expire) drops expired records, one bucket a call, in some
/// milliseconds. Up to 64 calls wait in a queue; further callers wait for a place in it.
///
/// Dropping the store waits until it is closed, which may take some seconds while files are being
/// merged: asynchronous callers may prefer to drop it on a thread that may block. Besides the
/// records there is a log, which is cut back when it has grown beyond 64 MB; opening reads it.
///
/// Ideas: log-structured merge trees, O'Neil et al., 1996; time-window compaction, whose windows
/// are dropped as a whole, from wide-column stores; group commit, DeWitt et al., SIGMOD 1984.
#[derive(Debug)]
pub struct FjallStore {
    committer: Committer<Buckets>,
}

/// Options for a [`FjallStore`].
///
/// ```no_run
/// use hapax_fjall::FjallOptions;
/// use hapax_store::Durability;
/// use std::time::Duration;
///
/// # async fn open() -> Result<(), hapax_store::StoreError> {
/// let store = FjallOptions::new()
///     .durability(Durability::System) // survives the process, not the power
///     .bucket(Duration::from_secs(600))
///     .open("ids")
///     .await?;
/// # Ok(())
/// # }
/// ```
///
/// With the feature `serde` they are read and written, except for the clock.
#[derive(Default)]
#[must_use]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct FjallOptions {
    durability: Durability,
    bucket: Option<Duration>,
    must_exist: bool,
    #[cfg_attr(feature = "serde", serde(skip))]
    clock: Option<Box<dyn Clock>>,
}

impl FjallOptions {
    /// Creates the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time at which a call is answered. Default: when the disk has what it wrote.
    pub fn durability(self, durability: Durability) -> Self {
        FjallOptions { durability, ..self }
    }

    /// Sets the time that a bucket covers, and so the portions in which expired records are
    /// dropped. Shorter buckets give disk space back earlier, and make a look-up of an absent id
    /// dearer. (There are at most 64 buckets: the last one then covers everything later.) Default:
    /// an eighth of the longest retention or lease among the records; a minute at least.
    pub fn bucket(self, bucket: Duration) -> Self {
        FjallOptions { bucket: Some(bucket), ..self }
    }

    /// Opens only a store that is there, for tools that look into one: makes none. Default: makes
    /// one in a new or empty directory.
    pub fn must_exist(self, must_exist: bool) -> Self {
        FjallOptions { must_exist, ..self }
    }

    /// Sets the clock. Times are stored, so it must count from the same origin every time. Default:
    /// the system's, read when the store is opened, and a monotonic one from then on.
    pub fn clock(self, clock: impl Clock) -> Self {
        FjallOptions { clock: Some(Box::new(clock)), ..self }
    }

    /// Opens the store in a directory, or creates one in a new or empty directory.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Conflict`] if it is open elsewhere; the others are those of [`FjallStore`].
    pub async fn open(self, path: impl AsRef<Path>) -> Result<FjallStore, StoreError> {
        if self.bucket.is_some_and(|bucket| bucket.is_zero()) {
            let wrong = "a bucket covers some time, not none";
            return Err(StoreError::new(ErrorKind::Misconfigured, BACKEND, wrong));
        }
        let committer = Committer::start(path, |path| Buckets::open(path, self)).await?;
        Ok(FjallStore { committer })
    }
}

impl FjallStore {
    /// Opens the store in a directory with the default options.
    ///
    /// # Errors
    ///
    /// Those of [`FjallOptions::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        FjallOptions::new().open(path).await
    }

    /// Returns the store's directory.
    pub fn path(&self) -> &Path {
        self.committer.path()
    }
}

impl Committed for FjallStore {
    type Database = Buckets;
    const LIMITS: Limits = Limits::batches_of(8_192).under_way(4);
    /// The directory is locked.
    const IS_PRIVATE: bool = true;

    fn committer(&self) -> &Committer<Buckets> {
        &self.committer
    }
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_they_were_written() {
        let options = FjallOptions::new().durability(Durability::System).bucket(Duration::from_secs(600));
        let written = serde_json::to_value(&options).unwrap();
        let read: FjallOptions = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), written);
        assert_eq!((read.durability, read.bucket), (options.durability, options.bucket));
        let none: FjallOptions = serde_json::from_str("{}").unwrap();
        assert_eq!(serde_json::to_value(&none).unwrap(), serde_json::to_value(FjallOptions::new()).unwrap());
        assert!(serde_json::from_str::<FjallOptions>(r#"{"clocks": 1}"#).is_err());
    }
}
