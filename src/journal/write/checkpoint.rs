//! The taking of a checkpoint: what is held is handed over to be written, with its positions.

use super::commit::Shared;
use crate::error::JournalError;
use crate::journal::encoding::payload::Payload;
use crate::mutation::{Rule, obeys};

impl Shared {
    /// Lets what is held be written, with positions, as one block. Returns how far the journal is
    /// then. On an error nothing is written, and all is held as it was.
    pub(crate) fn checkpoint(&self, positions: &Payload) -> Result<u64, JournalError> {
        self.must_be_here()?;
        let mut guard = self.wait_for_room(self.lock());
        let state = &mut *guard;
        if let Some(failed) = &state.failed {
            return Err(failed.error.clone());
        }
        let Some(mut held) = state.held.take() else {
            return Err(JournalError::NoCheckpoints { path: self.directory.clone() });
        };
        let taken = held.is_whole().and_then(|()| state.positions.set_all(positions));
        if taken.is_ok() {
            let latest = held.latest();
            self.push(state, |pending| {
                if obeys(Rule::CheckpointAsOne) {
                    held.hand_over(pending);
                }
                pending.append(positions);
            });
            self.advance(state, latest);
        }
        state.held = Some(held);
        taken.map(|()| state.appended)
    }
}
