//! The journal as users of an engine see it.

use crate::Dedup;
use crate::engine::Engine;
use crate::error::JournalError;
use crate::journal::{DurableFiles, Flush, Journal, Reopened};
use std::future::Future;

impl Dedup {
    /// Returns the journal that the engine was [built with](crate::Builder::journal).
    ///
    /// # Errors
    ///
    /// [`JournalError::NotConfigured`] if it was built without one.
    #[inline]
    pub fn journal(&self) -> Result<JournalHandle<'_>, JournalError> {
        let journal = self.engine.journal.as_deref().ok_or(JournalError::NotConfigured)?;
        Ok(JournalHandle { journal, engine: &self.engine })
    }
}

/// The journal of an engine: [`Dedup::journal`].
///
/// ```
/// # let directory = std::env::temp_dir().join(format!("hapax-doc-handle-{}", std::process::id()));
/// use hapax::{Dedup, JournalOptions};
///
/// let dedup = Dedup::builder().journal(&directory, JournalOptions::new()).build()?;
/// if dedup.check("order-17").is_fresh() {
///     // … handle it …
/// }
/// dedup.journal()?.flush()?; // from here on it is a duplicate after a crash, too
/// # drop(dedup);
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// All calls return [`JournalError::Forked`] in a child of the process that has the journal.
#[derive(Clone, Copy)]
pub struct JournalHandle<'d> {
    journal: &'d Journal,
    pub(super) engine: &'d Engine,
}

impl std::fmt::Debug for JournalHandle<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JournalHandle").finish_non_exhaustive()
    }
}

impl JournalHandle<'_> {
    /// Returns when everything that was accepted before the call, by any thread, is durable: it is
    /// a duplicate after a crash, too. (With [checkpoints](crate::JournalOptions::checkpoints):
    /// everything up to the last one. Files that were durable and that somebody else has deleted
    /// are an error until [`reopen`](JournalHandle::reopen) has reported them as lost; they
    /// do not come back.)
    ///
    /// A consumer's loop: take a batch, claim, work, complete, flush, acknowledge.
    ///
    /// ```
    /// # let directory = std::env::temp_dir().join(format!("hapax-doc-flush-{}", std::process::id()));
    /// use hapax::{Dedup, JournalOptions};
    ///
    /// let open = || Dedup::builder().journal(&directory, JournalOptions::new()).build();
    /// let dedup = open()?;
    /// let claim = dedup.claim("m-17").claimed().unwrap();
    /// // … handle the message …
    /// claim.complete()?;
    /// dedup.journal()?.flush()?;
    /// // … acknowledge it. If the process dies:
    /// drop(dedup);
    /// assert!(open()?.check("m-17").is_duplicate());
    /// # std::fs::remove_dir_all(directory)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The reason why nothing becomes durable any more: a full disk, an I/O error, a sync that
    /// failed, a directory that is gone. Every later call gets the same error, since nobody knows
    /// what a disk has after an error, until [`reopen`](JournalHandle::reopen) has
    /// succeeded or the engine is built again. (Over its budget of the disk the journal goes on by
    /// itself, when files have expired.)
    ///
    /// # Cost
    ///
    /// A flush takes one write and one sync, shared by all callers that wait at that time.
    pub fn flush(&self) -> Result<(), JournalError> {
        self.here()?.shared.flush()
    }

    /// Requests a flush for tasks that must not block: asks for it now, and the future is ready
    /// when [`flush`](JournalHandle::flush) would return.
    ///
    /// ```
    /// # let directory = std::env::temp_dir().join(format!("hapax-doc-async-{}", std::process::id()));
    /// # use hapax::{Attempt, Dedup, JournalOptions};
    /// # let dedup = Dedup::builder().journal(&directory, JournalOptions::new()).build()?;
    /// # async fn acknowledge() {}
    /// let handle = async {
    ///     match dedup.claim("m-17") {
    ///         Attempt::Claimed(claim) => {
    ///             // … handle the message …
    ///             claim.complete()?;
    ///         }
    ///         Attempt::Duplicate(_) => {}
    ///         _ => return Ok(()), // somebody is at it: it comes again
    ///     }
    ///     dedup.journal()?.flush_async().await?;
    ///     acknowledge().await;
    ///     Ok::<(), Box<dyn std::error::Error>>(())
    /// };
    /// # struct Unpark(std::thread::Thread);
    /// # impl std::task::Wake for Unpark { fn wake(self: std::sync::Arc<Self>) { self.0.unpark() } }
    /// # let mut handle = Box::pin(handle);
    /// # let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    /// # while handle.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending() { std::thread::park(); }
    /// # drop(handle);
    /// # drop(dedup);
    /// # std::fs::remove_dir_all(directory)?;
    /// # use std::future::Future;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "nothing is known to be durable before this is ready"]
    pub fn flush_async(&self) -> impl Future<Output = Result<(), JournalError>> + Send + Sync + Unpin + use<> {
        match self.here() {
            Ok(journal) => journal.shared.flush_async(),
            Err(error) => Flush::failed(error),
        }
    }

    /// Returns the number of accepted ids that are durable, in their order, since the engine was
    /// built.
    ///
    /// ```no_run
    /// # fn acknowledge() {}
    /// # fn example(dedup: hapax::Dedup) -> Result<(), hapax::JournalError> {
    /// dedup.check("m-17");
    /// let mine = dedup.journal()?.appended()?;
    /// // … later, by whatever flush …
    /// if dedup.journal()?.durable()? >= mine {
    ///     acknowledge();
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`flush`](JournalHandle::flush).
    pub fn durable(&self) -> Result<u64, JournalError> {
        let status = self.here()?.shared.status();
        status.failed.map_or(Ok(status.durable), Err)
    }

    /// Returns the number of ids that were accepted since the engine was built: when
    /// [`durable`](JournalHandle::durable) is this or more, everything that was accepted before
    /// the call is durable.
    ///
    /// # Errors
    ///
    /// The reason why the journal has failed, if it has: ids that were accepted since may never
    /// become durable.
    pub fn appended(&self) -> Result<u64, JournalError> {
        let status = self.here()?.shared.status();
        status.failed.map_or(Ok(status.appended), Err)
    }

    /// Goes on with a journal that has failed, when the cause is removed: writes the ids that were
    /// accepted meanwhile, up to 64 MiB of them, and reports what was not kept. A directory that
    /// was deleted is created again. Data that is in doubt after the failure is cut off and written
    /// again.
    ///
    /// Without a failure it only checks that the directory still is the one that it was.
    ///
    /// ```
    /// # let directory = std::env::temp_dir().join(format!("hapax-doc-reopen-{}", std::process::id()));
    /// use hapax::{Dedup, JournalOptions};
    ///
    /// let dedup = Dedup::builder().journal(&directory, JournalOptions::new()).build()?;
    /// dedup.check("a");
    /// dedup.journal()?.flush()?;
    /// std::fs::remove_dir_all(&directory)?;
    /// dedup.check("b");
    /// assert!(dedup.journal()?.flush().is_err());
    ///
    /// let reopened = dedup.journal()?.reopen()?;
    /// assert_eq!((reopened.written_late, reopened.ids_lost), (1, 1));
    /// dedup.journal()?.flush()?;
    /// # drop(dedup);
    /// # std::fs::remove_dir_all(directory)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A loss is told once: the journal notes it, and an engine that is built later goes on with
    /// what is left, also in a [long memory](crate::Builder::long_memory).
    ///
    /// # Errors
    ///
    /// [`JournalError::InUse`] or [`JournalError::NotOurs`] if the lock was gone, and another
    /// process has, or had, the directory meanwhile. Otherwise the reason why it cannot go on; then
    /// it is as it was, and can be tried again.
    pub fn reopen(&self) -> Result<Reopened, JournalError> {
        self.here()?.shared.reopen()
    }

    /// Returns the journal's files, up to what is durable: a directory with a copy of them, and
    /// with the mark, is a journal that another engine goes on with, on this machine or another.
    /// With [checkpoints](crate::JournalOptions::checkpoints) it is at the last durable one.
    ///
    /// ```
    /// # let directory = std::env::temp_dir().join(format!("hapax-doc-durable-{}", std::process::id()));
    /// # let copy = std::env::temp_dir().join(format!("hapax-doc-durable-copy-{}", std::process::id()));
    /// # std::fs::create_dir_all(&copy)?;
    /// use hapax::seam::DurableFiles;
    /// use hapax::{Dedup, JournalOptions};
    /// use std::{fs, io::Read};
    ///
    /// let open = |path| Dedup::builder().journal(path, JournalOptions::new().checkpoints(true)).build();
    /// let dedup = open(&directory)?;
    /// dedup.check("a");
    /// dedup.journal()?.checkpoint([("orders/3", [1])])?;
    /// dedup.journal()?.flush()?;
    /// dedup.check("b"); // in no checkpoint yet
    ///
    /// let durable = dedup.journal()?.files()?;
    /// for file in &durable.files {
    ///     let mut bytes = Vec::new();
    ///     fs::File::open(&file.path)?.take(file.bytes).read_to_end(&mut bytes)?;
    ///     fs::write(copy.join(file.path.file_name().unwrap()), bytes)?;
    /// }
    /// fs::write(copy.join(DurableFiles::MARK), &durable.mark)?;
    ///
    /// let other = open(&copy)?; // nobody else may write there: see `JournalOptions::file_mode`
    /// assert_eq!(other.journal()?.positions()?, durable.positions);
    /// assert!(other.contains("a").is_some() && other.contains("b").is_none());
    /// # drop((dedup, other));
    /// # std::fs::remove_dir_all(directory)?;
    /// # std::fs::remove_dir_all(copy)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// The bytes that are named never change, whatever the engine does meanwhile. A file that has
    /// expired, and a segment that was merged, is deleted: who finds it missing asks again. The
    /// files and the mark have the secret key of the digests.
    ///
    /// # Errors
    ///
    /// The reason why nothing becomes durable any more, if the journal has failed.
    ///
    /// # Cost
    ///
    /// Waits until a block that is being written is durable. Copies the names and the positions.
    #[doc(hidden)]
    pub fn files(&self) -> Result<DurableFiles, JournalError> {
        self.here()?;
        self.engine.durable_files()
    }

    /// Returns the journal, if it is this process's.
    pub(super) fn here(&self) -> Result<&Journal, JournalError> {
        self.journal.shared.must_be_here()?;
        Ok(self.journal)
    }
}
