//! Checkpoints: what was accepted, tied to how far its sources have come.

use super::journal::JournalHandle;
use crate::error::JournalError;

impl JournalHandle<'_> {
    /// Ties everything that was accepted so far to the positions that its sources have reached, as
    /// one: after a crash the engine remembers exactly what was accepted before the last durable
    /// checkpoint, and [`positions`](JournalHandle::positions) returns where to go on. For sources
    /// that can be read again: logs of brokers, files. It takes a journal with
    /// [`checkpoints`](crate::JournalOptions::checkpoints), no claim, and no store.
    ///
    /// A consumer's loop: take a batch, check, handle what is fresh, checkpoint, flush, commit.
    ///
    /// ```
    /// # let directory = std::env::temp_dir().join(format!("hapax-doc-checkpoint-{}", std::process::id()));
    /// use hapax::{Dedup, JournalOptions};
    ///
    /// let open = || Dedup::builder().journal(&directory, JournalOptions::new().checkpoints(true)).build();
    /// let log = ["a", "b", "a", "c", "b"];
    /// let dedup = open()?;
    /// for (offset, batch) in log.chunks(2).enumerate().map(|(i, batch)| (2 * i, batch)) {
    ///     for id in batch {
    ///         if dedup.check(id).is_fresh() {
    ///             // … handle it …
    ///         }
    ///     }
    ///     let next = (offset + batch.len()) as u64;
    ///     dedup.journal()?.checkpoint([("topic/3", next.to_be_bytes())])?;
    ///     dedup.journal()?.flush()?;
    ///     // … commit the offset …
    ///     # if offset == 2 { break; }
    /// }
    /// dedup.check("b2"); // and the process dies
    /// drop(dedup);
    ///
    /// let dedup = open()?;
    /// assert_eq!(dedup.journal()?.positions()?, [(b"topic/3".to_vec(), 4_u64.to_be_bytes().to_vec())]);
    /// assert!(dedup.check("c").is_duplicate(), "it was accepted before the checkpoint");
    /// assert!(dedup.check("b2").is_fresh(), "it was not, and comes again");
    /// # drop(dedup);
    /// # std::fs::remove_dir_all(directory)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// It is durable when a [`flush`](JournalHandle::flush) that is called later has returned, or
    /// [`durable`](JournalHandle::durable) has reached the number that is returned. Commit
    /// the sources' positions after that, never before.
    ///
    /// # Guarantees
    ///
    /// - After a crash at any moment, everything that was accepted before the last durable
    ///   checkpoint is remembered, and nothing that was accepted after the last one.
    /// - So a consumer that goes on from the positions handles every message at least once; a
    ///   message is handled again only if it was handled after the last durable checkpoint.
    ///
    /// Both hold if, whenever a checkpoint is taken, all messages that were accepted by then were
    /// handled, and all of them lie before the positions: so threads that share an engine take
    /// checkpoints together, between two batches. If they cannot, each appends its own ids with its
    /// own positions, when they are handled: [`append`](JournalHandle::append) and
    /// [`deferred`](crate::JournalOptions::deferred).
    ///
    /// An id whose handling has failed: [`forget`](crate::Dedup::forget) it before the next
    /// checkpoint, and take no position beyond it. (If it is not
    /// [`Entirely`](crate::Forgotten::Entirely) forgotten, since there is a history, take no
    /// checkpoint any more, but build the engine again: that goes back to the last one.) Claims
    /// that are held are in no checkpoint; completed ones are.
    ///
    /// # Errors
    ///
    /// On an error nothing of it is written, and the next checkpoint has all of it.
    /// [`JournalError::NoCheckpoints`] without the option. [`JournalError::TooLarge`] for more
    /// sources or longer positions than [`append`](JournalHandle::append) takes; and for good, if
    /// more than 64 MiB (four million ids) were accepted since the last checkpoint, or more than
    /// half of [`max_disk_bytes`](crate::JournalOptions::max_disk_bytes): then build the engine
    /// again, which goes back to the last checkpoint. If the journal has failed, the reason.
    ///
    /// # Cost
    ///
    /// Copies what was accepted, 16 bytes an id. Waits while 64 MiB wait to be written.
    ///
    /// The idea is that of the aligned checkpoints of stream processors (Carbone et al.,
    /// *Lightweight Asynchronous Snapshots for Distributed Dataflows*, 2015), for one operator.
    pub fn checkpoint<S, P>(&self, positions: impl IntoIterator<Item = (S, P)>) -> Result<u64, JournalError>
    where
        S: AsRef<[u8]>,
        P: AsRef<[u8]>,
    {
        let positions = self.appending(|appending| {
            positions.into_iter().for_each(|(source, position)| appending.position(source, position));
        })?;
        self.here()?.shared.checkpoint(&positions)
    }
}
