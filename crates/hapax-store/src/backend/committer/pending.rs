//! Changes of a group that are not committed yet.

use crate::backend::codec;
use crate::backend::record::StoredRecord;
use hapax::Timestamp;
use std::collections::HashMap;

/// A record to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// The stored [key](crate::RecordKey::to_stored).
    pub key: Vec<u8>,
    /// The record, in [bytes](crate::backend::codec).
    pub value: Vec<u8>,
    /// The time at which it is over.
    pub until: Timestamp,
}

/// Records to be written, in the order in which they were decided.
#[derive(Default)]
pub struct Pending {
    puts: Vec<Put>,
    /// The position of the last record of each key, among the first `indexed` records. Built at the
    /// first look-up, since blind records need no look-up.
    index: HashMap<Vec<u8>, usize>,
    indexed: usize,
}

impl Pending {
    pub fn put(&mut self, key: Vec<u8>, stored: &StoredRecord) {
        self.puts.push(Put { key, value: codec::encode(stored), until: stored.kept_until() });
    }

    /// Returns the last value of a key.
    pub fn find(&mut self, key: &[u8]) -> Option<&[u8]> {
        for (i, put) in self.puts.iter().enumerate().skip(self.indexed) {
            self.index.insert(put.key.clone(), i);
        }
        self.indexed = self.puts.len();
        self.index.get(key).map(|&i| self.puts[i].value.as_slice())
    }

    /// Takes all records, sorted, the last one of each key.
    pub fn take(&mut self) -> Vec<Put> {
        self.index.clear();
        self.indexed = 0;
        let mut puts = std::mem::take(&mut self.puts);
        puts.sort_by(|a, b| a.key.cmp(&b.key)); // stable: of the same key, the last one comes last
        puts.dedup_by(|later, earlier| {
            let is_same = later.key == earlier.key;
            if is_same {
                std::mem::swap(later, earlier);
            }
            is_same
        });
        puts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::record::State;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_is_a_map_that_remembers_what_was_put_last(puts in proptest::collection::vec((0..20u8, any::<u32>(), any::<bool>()), 0..200)) {
            let (mut pending, mut model) = (Pending::default(), BTreeMap::new());
            for (key, token, looks) in puts {
                let until = Timestamp::from_nanos(token.into());
                let stored = StoredRecord { state: State::Failed, token: token.into(), fingerprint: None, until, trail: None };
                pending.put(vec![key], &stored);
                model.insert(vec![key], (codec::encode(&stored), until));
                if looks {
                    prop_assert!(pending.find(&[key]) == Some(&codec::encode(&stored)[..]));
                    prop_assert_eq!(pending.find(&[99]), None);
                }
            }
            let expected: Vec<Put> =
                model.into_iter().map(|(key, (value, until))| Put { key, value, until }).collect();
            prop_assert_eq!(pending.take(), expected);
            prop_assert!(pending.take().is_empty() && pending.find(&[0]).is_none());
        }
    }
}
