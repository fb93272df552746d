//! Takes back marks that no caller was told to be fresh: in the background, as soon as the store
//! answers.

use crate::tiered::batching::{Client, Unmarks};
use crate::tiered::breaker::back_off;
use crate::tiered::digest::digest_of;
use crate::{StoreError, Unmark, Unmarked};
use hapax::seam::Memory;
use std::sync::{Arc, Weak};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

/// Marks that are taken back at a time.
const BATCH: usize = 1_024;

/// Starts to take marks back whenever some are lost. It ends when the last handle of the engine is
/// dropped.
pub(crate) fn start(client: &Arc<Client>, memory: Arc<Memory>, lost: mpsc::Receiver<()>) {
    client.runtime.spawn(take_back(Arc::downgrade(client), memory, lost));
}

async fn take_back(client: Weak<Client>, memory: Arc<Memory>, mut lost: mpsc::Receiver<()>) {
    let mut tries = 0;
    while let Some(due) = client.upgrade().map(|client| client.lost_marks.lock().next_due()) {
        let more = match due {
            Some(due) => timeout_at(due, lost.recv()).await,
            None => Ok(lost.recv().await),
        };
        match more {
            Ok(Some(())) => continue,
            // The last handle of the engine is gone.
            Ok(None) => return,
            Err(_) => {}
        }
        let Some(client) = client.upgrade() else { return };
        tries = if take_back_due(&client, &memory, tries).await { 0 } else { (tries + 1).min(16) };
    }
}

/// Takes back the marks that are due. Returns true if the store has answered about all of them.
async fn take_back_due(client: &Arc<Client>, memory: &Arc<Memory>, tries: u32) -> bool {
    let asked_at = Instant::now();
    let due = client.lost_marks.lock().take_due(asked_at, BATCH);
    let asked = due.iter().map(|(attempt, key)| {
        let unmark = Unmark { key: key.clone(), attempt: *attempt };
        (unmark, digest_of(memory, key))
    });
    let answers: Vec<Result<Unmarked, StoreError>> = client.ask::<Unmarks>(memory, asked.collect()).await;
    let (now, pace, mut all) = (Instant::now(), client.lost_marks.pace, true);
    let pause = pace.after_failure(back_off(tries, client.caller.random.next()));
    let mut doubts = client.lost_marks.lock();
    for ((attempt, _), answer) in due.iter().zip(answers) {
        match answer {
            Ok(Unmarked::Done | Unmarked::NotThere) => doubts.answered(*attempt, asked_at, pace),
            // It keeps no attempts, and its documentation says so.
            Ok(Unmarked::Unknown) => doubts.remove(*attempt),
            Err(_) => {
                doubts.failed(*attempt, now, pause);
                all = false;
            }
        }
    }
    all
}
