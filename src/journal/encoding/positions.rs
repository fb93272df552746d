//! The positions that the sources of events have reached.

use super::payload::Payload;
use crate::error::JournalError;
use std::collections::BTreeMap;

const SOURCES_MAX: usize = 65_536;
/// The limit for all sources and positions together: each file begins with them.
const POSITIONS_BYTES_MAX: usize = 32 << 20;

/// The latest position of each source.
#[derive(Clone, Debug, Default)]
pub(in crate::journal) struct Positions {
    by_source: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
}

impl Positions {
    pub(in crate::journal) fn set(&mut self, source: &[u8], position: &[u8]) {
        let more = source.len() + position.len();
        match self.by_source.get_mut(source) {
            Some(known) => {
                self.bytes -= source.len() + known.len();
                known.clear();
                known.extend_from_slice(position);
            }
            None => drop(self.by_source.insert(source.into(), position.into())),
        }
        self.bytes += more;
    }

    /// Sets the positions of a payload: all, or none if they are too many.
    pub(in crate::journal) fn set_all(&mut self, payload: &Payload) -> Result<(), JournalError> {
        let (count, more) = payload
            .positions()
            .fold((0, 0), |(n, bytes), (source, position)| (n + 1, bytes + source.len() + position.len()));
        let (mut sources, mut bytes) = (self.by_source.len() + count, self.bytes + more);
        if sources > SOURCES_MAX || bytes > POSITIONS_BYTES_MAX {
            // Perhaps only because some are counted twice.
            let mut all = self.clone();
            payload.positions().for_each(|(source, position)| all.set(source, position));
            (sources, bytes) = (all.by_source.len(), all.bytes);
        }
        too_large("sources of positions", sources, SOURCES_MAX)?;
        too_large("bytes of all positions and their sources", bytes, POSITIONS_BYTES_MAX)?;
        payload.positions().for_each(|(source, position)| self.set(source, position));
        Ok(())
    }

    pub(in crate::journal) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.by_source.iter().map(|(source, position)| (&source[..], &position[..]))
    }

    pub(in crate::journal) fn to_vec(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.iter().map(|(source, position)| (source.into(), position.into())).collect()
    }
}

/// Returns an error if something is larger than it may be.
pub(crate) fn too_large(what: &'static str, got: usize, max: usize) -> Result<(), JournalError> {
    if got <= max { Ok(()) } else { Err(JournalError::TooLarge { what, got: got as u64, max: max as u64 }) }
}

#[cfg(all(test, not(any(modelled, alone))))]
mod tests {
    use super::*;

    fn set(positions: &mut Positions, source: &[u8], bytes: usize) -> Result<(), JournalError> {
        let mut payload = Payload::default();
        payload.push_position(source, &vec![7; bytes]);
        positions.set_all(&payload)
    }

    #[test]
    fn a_source_counts_with_its_latest_position_only() {
        let mut positions = Positions::default();
        let half = POSITIONS_BYTES_MAX / 2;
        for _ in 0..3 {
            set(&mut positions, b"a", half - 1).unwrap();
        }
        set(&mut positions, b"b", half - 1).unwrap();
        assert!(set(&mut positions, b"c", 0).is_err(), "there is no room for its name");
        assert_eq!(positions.to_vec().len(), 2, "nothing is set of what is too much");
        set(&mut positions, b"a", half - 2).unwrap();
        set(&mut positions, b"c", 0).unwrap();
    }

    #[test]
    fn there_are_not_too_many_sources() {
        let mut positions = Positions::default();
        for n in 0..SOURCES_MAX {
            set(&mut positions, &n.to_le_bytes(), 1).unwrap();
        }
        set(&mut positions, &0_usize.to_le_bytes(), 2).unwrap();
        assert!(set(&mut positions, b"one more", 1).is_err());
        assert_eq!(positions.to_vec().len(), SOURCES_MAX);
    }
}
