//! Data that waits for the next checkpoint: in memory only, so that a crash takes it back.

use super::payload::Payload;
use crate::error::JournalError;

/// The capacity that is kept from one checkpoint to the next: 65,536 ids.
const KEPT_BYTES: usize = 1 << 20;

/// The events since the last checkpoint.
#[derive(Default)]
pub(super) struct Held {
    payload: Payload,
    bytes_max: usize,
    /// The bytes for which there was no room: there is no whole checkpoint any more.
    bytes_lost: usize,
}

impl Held {
    pub(super) fn new(bytes_max: usize) -> Self {
        Held { bytes_max, ..Held::default() }
    }

    /// Adds events. Returns the number of those for which there is no room.
    #[inline]
    pub(super) fn push(&mut self, push: impl FnOnce(&mut Payload)) -> u64 {
        if self.has_room().is_ok() {
            push(&mut self.payload);
            return 0;
        }
        let mut lost = Payload::default();
        push(&mut lost);
        self.bytes_lost += lost.bytes().len();
        lost.events()
    }

    /// Adds a payload as a whole, or nothing of it.
    pub(super) fn append(&mut self, payload: &Payload) -> Result<(), JournalError> {
        self.has_room()?;
        self.payload.append(payload);
        Ok(())
    }

    /// Returns an error if events were lost, or would be.
    pub(super) fn has_room(&self) -> Result<(), JournalError> {
        match self.bytes() < self.bytes_max {
            true => Ok(()),
            false => self.too_large(),
        }
    }

    /// Returns an error if events were lost.
    pub(super) fn is_whole(&self) -> Result<(), JournalError> {
        match self.bytes_lost {
            0 => Ok(()),
            _ => self.too_large(),
        }
    }

    fn too_large(&self) -> Result<(), JournalError> {
        let (what, got) = ("bytes of what was accepted since the last checkpoint", self.bytes() + self.bytes_lost);
        Err(JournalError::TooLarge { what, got: got as u64, max: self.bytes_max as u64 })
    }

    /// Returns all of it, with the positions of its checkpoint behind it; nothing is held then.
    pub(super) fn take(&mut self, positions: &Payload) -> Payload {
        debug_assert!(self.bytes_lost == 0, "what is not whole is no checkpoint");
        let mut whole = std::mem::take(&mut self.payload);
        whole.append(positions);
        whole
    }

    /// Takes back the memory of a payload that was taken.
    pub(super) fn reuse(&mut self, mut payload: Payload) {
        payload.reset(KEPT_BYTES);
        self.payload = payload;
    }

    pub(super) fn bytes(&self) -> usize {
        self.payload.bytes().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Stamp;
    use crate::journal::payload::Kind;
    use crate::{Digester, Timestamp};

    fn push(held: &mut Held, ids: u64) -> u64 {
        let at = Stamp { reading: Timestamp::from_secs(1).into(), tick: 1 };
        let digests = (0..ids).map(|n| Digester::with_seed(1).digest(n.to_le_bytes()));
        held.push(|payload| payload.push(Kind::Accepted, at, digests))
    }

    #[test]
    fn beyond_its_limit_there_is_no_checkpoint_any_more_and_what_is_lost_is_counted() {
        let mut held = Held::new(1 << 10);
        assert_eq!(push(&mut held, 100), 0, "there was room when it came");
        held.is_whole().unwrap();
        assert!(held.append(&Payload::default()).is_err());
        assert_eq!((push(&mut held, 3), push(&mut held, 5)), (3, 5));
        assert_eq!(held.bytes(), 100 * 16 + 24);
        let error = held.is_whole().unwrap_err().to_string();
        let expected = "bytes of what was accepted since the last checkpoint: 1800, expected at most 1024; nothing";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn what_is_taken_has_the_positions_behind_it() {
        let mut held = Held::new(1 << 10);
        push(&mut held, 3);
        let mut positions = Payload::default();
        positions.push_position(b"a", b"1");
        let whole = held.take(&positions);
        assert_eq!((whole.events(), whole.accepted(), held.bytes()), (4, 3, 0));
        held.reuse(whole);
        assert_eq!(held.bytes(), 0);
    }
}
