//! The taking of a checkpoint: what is held is handed over to be written, with its positions.

use super::commit::Shared;
use super::payload::Payload;
use super::state::Position;
use crate::error::JournalError;
use crate::rules::{Rule, obeys};

impl Shared {
    /// Lets what is held be written, with positions, as one block. Returns how far the journal is
    /// then. On an error nothing is written, and all is held as it was.
    pub(crate) fn checkpoint(&self, positions: &Payload) -> Result<Position, JournalError> {
        self.must_be_here()?;
        let mut guard = self.wait_for_room(self.lock());
        let state = &mut *guard;
        let Some(held) = &mut state.held else {
            return Err(JournalError::NoCheckpoints { path: self.directory.clone() });
        };
        if let Some(failed) = &state.failed {
            return Err(failed.error.clone());
        }
        held.is_whole()?;
        state.positions.set_all(positions)?;
        let whole = match obeys(Rule::CheckpointAsOne) {
            true => held.take(positions),
            false => positions.clone(),
        };
        if whole.events() > 0 {
            self.push(state, |pending| pending.append(&whole));
            self.advance(state, whole.latest());
        }
        if obeys(Rule::CheckpointAsOne)
            && let Some(held) = &mut state.held
        {
            held.reuse(whole);
        }
        Ok(state.appended)
    }
}
