//! `fjall`: an LSM tree in a directory.

use super::lasting::Keep;
use crate::strategy::{Failure, Needs, Plan, Sort};
use ::fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest time that an id waits for others before it is synced: the default of a journal of
/// this crate.
const GROUP: Duration = Duration::from_millis(5);

/// Inserts if absent, under a lock, since the crate has no such operation: look the ids up, collect
/// the new ones, write them as one batch.
///
/// *Durable*: within 5 ms, plus the disk's sync, after the answer. A crash of the process loses no
/// answered id; a power cut loses those answered in that time. That is the same as for a journal of
/// this crate, so the two are compared. Its transactions, which would do without our lock, take one
/// of their own.
pub struct Fjall {
    /// Held from the lookup to the write.
    writer: Mutex<()>,
    database: Database,
    ids: Keyspace,
    group: Arc<Group>,
    syncing: Option<JoinHandle<()>>,
}

/// The writes that are to be synced.
#[derive(Default)]
struct Group {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_dirty: bool,
    is_over: bool,
    failed: Option<String>,
}

impl Keep for Fjall {
    const NAME: &'static str = "fjall";
    const SORT: Sort = Sort::Durable;
    const NEEDS: Needs = Needs::Directory;

    fn open(plan: &Plan) -> Result<Self, Failure> {
        let database = Database::builder(plan.directory()?).open()?;
        let ids = database.keyspace("ids", KeyspaceCreateOptions::default)?;
        let group = Arc::new(Group::default());
        let (synced, its_group) = (database.clone(), Arc::clone(&group));
        let sync = move || its_group.run(|| synced.persist(PersistMode::SyncData).map_err(|error| error.to_string()));
        let syncing = std::thread::Builder::new().name("fjall sync".to_owned()).spawn(sync)?;
        Ok(Fjall { writer: Mutex::new(()), database, ids, group, syncing: Some(syncing) })
    }

    fn add(&self, id: &[u8]) -> Result<bool, Failure> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !self.ids.contains_key(id)?;
        if is_new {
            self.ids.insert(id, [])?;
            self.group.grows()?;
        }
        Ok(is_new)
    }

    fn add_batch<B: AsRef<[u8]>>(&self, ids: impl Iterator<Item = B>, fresh: &mut Vec<bool>) -> Result<(), Failure> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut batch, mut new) = (self.database.batch(), HashSet::new());
        for id in ids {
            let is_new = !new.contains(id.as_ref()) && !self.ids.contains_key(&id)?;
            if is_new {
                batch.insert(&self.ids, id.as_ref(), []);
                new.insert(id.as_ref().to_vec());
            }
            fresh.push(is_new);
        }
        if !new.is_empty() {
            batch.commit()?;
            self.group.grows()?;
        }
        Ok(())
    }
}

impl Drop for Fjall {
    fn drop(&mut self) {
        self.group.lock().is_over = true;
        self.group.changed.notify_all();
        if let Some(syncing) = self.syncing.take() {
            let _ = syncing.join(); // it does not panic, and what it failed at was told
        }
    }
}

impl Group {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that something was written.
    fn grows(&self) -> Result<(), Failure> {
        let mut state = self.lock();
        if let Some(failed) = &state.failed {
            return Err(format!("syncing failed: {failed}").into());
        }
        if !std::mem::replace(&mut state.is_dirty, true) {
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Syncs a while after something was written, until the store is dropped.
    fn run(&self, sync: impl Fn() -> Result<(), String>) {
        let waiting = |state: &mut State| !state.is_dirty && !state.is_over;
        loop {
            let dirty = self.changed.wait_while(self.lock(), waiting).unwrap_or_else(PoisonError::into_inner);
            let gathering = |state: &mut State| !state.is_over;
            let gathered = self.changed.wait_timeout_while(dirty, GROUP, gathering);
            let mut state = gathered.unwrap_or_else(PoisonError::into_inner).0;
            let (was_dirty, is_over) = (std::mem::take(&mut state.is_dirty), state.is_over);
            drop(state);
            if was_dirty && let Err(error) = sync() {
                self.lock().failed = Some(error);
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
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn what_was_written_is_synced_and_failures_are_told() {
        let (group, syncs) = (Group::default(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                group.run(|| {
                    syncs.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                })
            });
            group.grows().unwrap();
            group.lock().is_over = true;
            group.changed.notify_all();
        });
        assert!((1..=2).contains(&syncs.load(Ordering::Relaxed)));
        group.lock().is_dirty = true;
        group.run(|| Err("the disk is full".to_owned()));
        assert_eq!(group.grows().unwrap_err().to_string(), "syncing failed: the disk is full");
    }
}
