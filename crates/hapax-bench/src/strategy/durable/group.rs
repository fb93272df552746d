//! Groups of writes that are synced together, for stores that sync when they are told to.

use crate::strategy::Failure;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest time that an id waits for others before it is synced: the default of a journal of
/// this crate.
const GROUP: Duration = Duration::from_millis(5);

/// A thread that syncs a store 5 ms after the first write since the last sync. When this is
/// dropped, what was written is synced.
pub(super) struct Syncing {
    /// Tells of a write; one that is not synced yet is enough.
    written: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    failed: Arc<OnceLock<String>>,
}

impl Syncing {
    pub fn start(name: &str, sync: impl Fn() -> Result<(), Failure> + Send + 'static) -> Result<Self, Failure> {
        let ((written, told), failed) = (sync_channel(1), Arc::new(OnceLock::new()));
        let says = Arc::clone(&failed);
        let run = move || {
            while told.recv().is_ok() {
                std::thread::sleep(GROUP);
                // A write that comes from here on is told again.
                let _ = told.try_recv();
                if let Err(error) = sync() {
                    let _ = says.set(error.to_string());
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name(format!("{name} sync")).spawn(run)?;
        Ok(Syncing { written: Some(written), thread: Some(thread), failed })
    }

    /// Records that something was written.
    ///
    /// # Errors
    ///
    /// An earlier sync failed: nothing is synced any more.
    pub fn grows(&self) -> Result<(), Failure> {
        // It fails if a write was told already, or the thread has failed.
        let _ = self.written.as_ref().map(|written| written.try_send(()));
        self.failed.get().map_or(Ok(()), |failed| Err(format!("syncing failed: {failed}").into()))
    }
}

impl Drop for Syncing {
    fn drop(&mut self) {
        self.written = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it does not panic, and what it failed at was told
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// The longest time that a busy machine may take.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn what_was_written_is_synced_without_another_call_and_once() {
        let (synced, syncs) = mpsc::channel();
        let syncing = Syncing::start("test", move || Ok(synced.send(())?)).unwrap();
        for _ in 0..3 {
            syncing.grows().unwrap();
            syncs.recv_timeout(PATIENCE).unwrap();
        }
        drop(syncing);
        assert_eq!(syncs.iter().count(), 0, "nothing was written since");
    }

    #[test]
    fn what_was_written_last_is_synced_at_the_end() {
        let (synced, syncs) = mpsc::channel();
        let syncing = Syncing::start("test", move || Ok(synced.send(())?)).unwrap();
        syncing.grows().unwrap();
        drop(syncing);
        assert_eq!(syncs.iter().count(), 1);
    }

    #[test]
    fn a_sync_that_failed_is_told() {
        let mut syncing = Syncing::start("test", || Err("the disk is full".into())).unwrap();
        syncing.grows().unwrap();
        syncing.thread.take().unwrap().join().unwrap();
        assert_eq!(syncing.grows().unwrap_err().to_string(), "syncing failed: the disk is full");
    }
}
