//! Groups of writes that are synced together, for stores that sync when they are told to.

use crate::strategy::Failure;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest time that an id waits for others before it is synced: the default of a journal of
/// this crate.
const GROUP: Duration = Duration::from_millis(5);

/// A thread that syncs a store 5 ms after the first write since the last sync. When this is
/// dropped, what was written is synced.
pub(super) struct Syncing {
    group: Arc<Group>,
    thread: Option<JoinHandle<()>>,
}

/// The writes that are to be synced.
#[derive(Default)]
struct Group {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The time of the first write that is not synced.
    began: Option<Instant>,
    is_over: bool,
    failed: Option<String>,
}

impl Syncing {
    pub fn start(name: &str, sync: impl Fn() -> Result<(), Failure> + Send + 'static) -> Result<Self, Failure> {
        let group = Arc::new(Group::default());
        let its_group = Arc::clone(&group);
        let thread = std::thread::Builder::new().name(format!("{name} sync")).spawn(move || its_group.run(sync))?;
        Ok(Syncing { group, thread: Some(thread) })
    }

    /// Records that something was written.
    ///
    /// # Errors
    ///
    /// An earlier sync failed: nothing is synced any more.
    pub fn grows(&self) -> Result<(), Failure> {
        self.group.grows()
    }
}

impl Drop for Syncing {
    fn drop(&mut self) {
        self.group.lock().is_over = true;
        self.group.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it does not panic, and what it failed at was told
        }
    }
}

impl Group {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn grows(&self) -> Result<(), Failure> {
        let mut state = self.lock();
        if let Some(failed) = &state.failed {
            return Err(format!("syncing failed: {failed}").into());
        }
        if state.began.is_none() {
            state.began = Some(Instant::now());
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Syncs a while after something was written, until the store is dropped.
    fn run(&self, sync: impl Fn() -> Result<(), Failure>) {
        let idle = |state: &mut State| state.began.is_none() && !state.is_over;
        let gathering = |state: &mut State| !state.is_over;
        loop {
            let state = self.changed.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
            let left = state.began.map_or(Duration::ZERO, |began| GROUP.saturating_sub(began.elapsed()));
            let gathered = self.changed.wait_timeout_while(state, left, gathering);
            let mut state = gathered.unwrap_or_else(PoisonError::into_inner).0;
            let (began, is_over) = (state.began.take(), state.is_over);
            drop(state);
            if began.is_some()
                && let Err(error) = sync()
            {
                self.lock().failed = Some(error.to_string());
                return;
            }
            if is_over {
                return;
            }
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
        let group = Group::default();
        group.grows().unwrap();
        group.run(|| Err("the disk is full".into()));
        assert_eq!(group.grows().unwrap_err().to_string(), "syncing failed: the disk is full");
    }
}
