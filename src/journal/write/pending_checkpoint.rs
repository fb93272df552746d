//! Data that waits for the next checkpoint: in memory only, so that a crash takes it back.

use crate::Timestamp;
use crate::error::JournalError;
use crate::journal::encoding::payload::Payload;
use crate::journal::encoding::payload::runs;

/// The capacity that is kept from one checkpoint to the next: 65,536 ids.
const KEPT_BYTES: usize = 1 << 20;

/// The events since the last checkpoint.
#[derive(Default)]
pub(in crate::journal) struct Held {
    payload: Payload,
    bytes_max: usize,
    /// The bytes for which there was no room: there is no whole checkpoint any more.
    bytes_lost: usize,
}

impl Held {
    pub(in crate::journal) fn new(bytes_max: usize) -> Self {
        Held { bytes_max, ..Held::default() }
    }

    /// Adds events. Returns the number of those for which there is no room.
    #[inline]
    pub(in crate::journal) fn push(&mut self, push: impl FnOnce(&mut Payload)) -> u64 {
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
    pub(in crate::journal) fn append(&mut self, payload: &Payload) -> Result<(), JournalError> {
        self.has_room()?;
        self.payload.append(payload);
        Ok(())
    }

    /// Returns an error if events were lost, or would be.
    pub(in crate::journal) fn has_room(&self) -> Result<(), JournalError> {
        if self.bytes() < self.bytes_max { Ok(()) } else { self.too_large() }
    }

    /// Returns an error if events were lost.
    pub(in crate::journal) fn is_whole(&self) -> Result<(), JournalError> {
        match self.bytes_lost {
            0 => Ok(()),
            _ => self.too_large(),
        }
    }

    fn too_large(&self) -> Result<(), JournalError> {
        let (what, got) = ("bytes of what was accepted since the last checkpoint", self.bytes() + self.bytes_lost);
        Err(JournalError::TooLarge { what, got: got as u64, max: self.bytes_max as u64 })
    }

    /// Adds all of it to what is to be written; nothing is held then.
    pub(in crate::journal) fn hand_over(&mut self, pending: &mut Payload) {
        debug_assert!(self.bytes_lost == 0, "what is not whole is no checkpoint");
        pending.append(&self.payload);
        self.payload.reset(KEPT_BYTES);
    }

    /// Returns the time of the first id in it that was accepted.
    pub(in crate::journal) fn earliest(&self) -> Option<Timestamp> {
        runs(self.payload.bytes()).flatten().find(|run| run.accepted() > 0).map(|run| run.at.time)
    }

    /// Returns the latest time in it.
    pub(in crate::journal) fn latest(&self) -> Timestamp {
        self.payload.latest()
    }

    pub(in crate::journal) fn bytes(&self) -> usize {
        self.payload.bytes().len()
    }
}

#[cfg(all(test, not(any(modelled, alone))))]
mod tests {
    use super::*;
    use crate::clock::Stamp;
    use crate::digest::Digester;
    use crate::journal::encoding::payload::Kind;

    fn push(held: &mut Held, ids: u64) -> u64 {
        let at = Stamp { reading: Timestamp::from_secs(1).into(), tick: 1 };
        let digester = Digester::with_seed(1);
        let digests = (0..ids).map(|n| digester.digest(n.to_le_bytes()));
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
    fn what_is_handed_over_comes_behind_what_is_there() {
        let (mut held, mut pending) = (Held::new(1 << 10), Payload::default());
        pending.push_position(b"a", b"1");
        push(&mut held, 3);
        held.hand_over(&mut pending);
        assert_eq!((pending.events(), pending.accepted(), held.bytes()), (4, 3, 0));
        held.hand_over(&mut pending);
        assert_eq!(pending.events(), 4);
    }
}
