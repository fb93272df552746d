//! The journal as users of an engine see it.

use super::commit::{Flush, Position};
use super::{Journal, JournalError};
use crate::clock::Reading;
use crate::{Dedup, Prepared, Timestamp, Verdict};

impl Dedup {
    /// Returns when everything that was accepted before the call, by any thread, is durable: it is a duplicate after a crash, too.
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
    /// dedup.flush()?;
    /// // … acknowledge it. If the process dies:
    /// drop(dedup);
    /// assert!(open()?.check("m-17").is_duplicate());
    /// # std::fs::remove_dir_all(directory)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Why nothing becomes durable any more: a full disk, an I/O error, a sync that failed. Every later call gets the same, since what a
    /// disk has after an error nobody knows. Build the engine again to go on from what is valid.
    /// [`JournalError::NotConfigured`] without a journal.
    ///
    /// # Cost
    ///
    /// One write and one sync, shared by all who wait at that time.
    pub fn flush(&self) -> Result<(), JournalError> {
        self.journal()?.shared.flush()
    }

    /// The same for tasks that must not block: asks for it now, and is ready when [`flush`](Dedup::flush) would return.
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
    ///     dedup.flush_async().await?;
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
    pub fn flush_async(&self) -> Flush {
        match self.journal() {
            Ok(journal) => journal.shared.flush_async(),
            Err(error) => Flush { journal: Err(error), target: Position::default(), waker: None },
        }
    }

    /// Appends ids whose checks have said that they are to be handled, now that they were: with
    /// [`deferred`](crate::JournalOptions::deferred), what is not appended is fresh after a crash. `checked` are ids with their verdicts, at the time
    /// that was given to their checks; or, if events may come late, at the largest that any check had been given by then, which is what an
    /// engine counts a late one from.
    ///
    /// ```
    /// # let directory = std::env::temp_dir().join(format!("hapax-doc-deferred-{}", std::process::id()));
    /// use hapax::{Dedup, JournalOptions, Timestamp};
    ///
    /// let open = || Dedup::builder().journal(&directory, JournalOptions::new().deferred(true)).build();
    /// let dedup = open()?;
    /// let (ids, at, mut verdicts) = (["a", "b"].map(|id| dedup.digest(id)), Timestamp::from_secs(1), Vec::new());
    /// dedup.check_batch_prepared_at(ids, at, &mut verdicts);
    /// // … handle the first, then crash …
    /// dedup.append_batch_prepared_at(ids.into_iter().zip(verdicts).take(1), at);
    /// # drop(dedup);
    /// let dedup = open()?;
    /// assert!(dedup.check_at("a", at).is_duplicate());
    /// assert!(dedup.check_at("b", at).is_fresh());
    /// # drop(dedup);
    /// # std::fs::remove_dir_all(directory)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Does nothing without a journal.
    pub fn append_batch_prepared_at<I>(&self, checked: I, at: Timestamp)
    where
        I: IntoIterator<Item = (Prepared, Verdict)>,
    {
        self.append(checked, self.engine.window.stamp_at(at.into()));
    }

    /// Appends ids that were checked without a time; see [`append_batch_prepared_at`](Dedup::append_batch_prepared_at).
    pub fn append_batch_prepared<I>(&self, checked: I)
    where
        I: IntoIterator<Item = (Prepared, Verdict)>,
    {
        self.append(checked, self.engine.window.stamp(self.engine.now()));
    }

    /// A part at a time, so that what waits to be written stays within its limit.
    fn append(&self, checked: impl IntoIterator<Item = (Prepared, Verdict)>, at: Reading) {
        const PART: usize = 1_024;
        let Some(journal) = &self.engine.journal else {
            return;
        };
        let extended = checked.into_iter().filter(|(_, verdict)| self.engine.extends(*verdict));
        let mut ids = extended.map(|(id, _)| id.0).peekable();
        while ids.peek().is_some() {
            journal.accepted(at, ids.by_ref().take(PART));
        }
    }

    /// Up to where what was accepted is durable.
    ///
    /// # Errors
    ///
    /// As for [`flush`](Dedup::flush).
    pub fn durable_up_to(&self) -> Result<Position, JournalError> {
        let status = self.journal()?.shared.status();
        status.failed.map_or(Ok(status.durable), Err)
    }

    /// Up to where ids were accepted: what is durable when [`durable_up_to`](Dedup::durable_up_to) is this or more includes
    /// everything that was accepted before the call.
    ///
    /// # Errors
    ///
    /// [`JournalError::NotConfigured`] without a journal.
    pub fn appended_up_to(&self) -> Result<Position, JournalError> {
        Ok(self.journal()?.shared.status().appended)
    }

    fn journal(&self) -> Result<&Journal, JournalError> {
        self.engine.journal.as_ref().ok_or(JournalError::NotConfigured)
    }
}
