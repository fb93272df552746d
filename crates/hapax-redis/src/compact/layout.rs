//! The set, and the member of it, that stand for an id. Pure.

use super::CompactOptions;
use crate::errors::error;
use crate::value::expiry_ms;
use hapax_store::{ErrorKind, RecordKey, StoreError, times};
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// Generations of sets besides the newest.
const OLDER: u64 = 2;
/// Members of a set, on average, if there are as many ids as expected.
const MEMBERS: u64 = 320;

/// The arrangement of marks in sets.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    sets: u64,
    width_ms: u64,
}

/// The place of a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The set's name without namespace and generation.
    pub(super) set: String,
    pub(super) member: i64,
}

impl Layout {
    pub(super) fn new(options: CompactOptions) -> Result<Self, StoreError> {
        if options.retention < Duration::from_secs(1) {
            let wrong = format!("compact marks have a retention of at least a second, not {:?}", options.retention);
            return Err(error(ErrorKind::Misconfigured, wrong));
        }
        times::check("retention", options.retention)?;
        let sets = (options.expected_ids / OLDER).div_ceil(MEMBERS).max(1);
        Ok(Layout { sets, width_ms: expiry_ms(options.retention).div_ceil(OLDER) })
    }

    /// Returns the time for which a generation is the newest.
    pub(super) fn width_ms(&self) -> u64 {
        self.width_ms
    }

    /// Returns the number of older generations that count.
    pub(super) fn older(&self) -> u64 {
        OLDER
    }

    /// Returns the place of an id's mark. The name of a set contains the number and the width of
    /// the sets, since with other options the place is another one.
    pub(super) fn place(&self, key: &RecordKey) -> Place {
        let digest: [u8; 32] = Sha256::digest(key.to_stored()).into();
        let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|byte| digest[8 * i + byte]));
        let set = (u128::from(word(0)) * u128::from(self.sets)) >> 64;
        debug_assert!(set < u128::from(self.sets));
        Place { set: format!("{:x}.{:x}.{set:x}", self.sets, self.width_ms), member: word(1) as i64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_store::Scope;
    use std::collections::HashMap;

    fn layout(expected_ids: u64) -> Layout {
        Layout::new(CompactOptions { retention: Duration::from_secs(3_600), expected_ids }).unwrap()
    }

    #[test]
    fn sets_stay_small_if_ids_are_as_many_as_expected() {
        let layout = layout(400_000);
        let mut members: HashMap<String, u64> = HashMap::new();
        // The ids of one generation.
        for i in 0..100_000 {
            let place = layout.place(&RecordKey::new(&Scope::default(), format!("id {i}")));
            *members.entry(place.set).or_default() += 1;
        }
        let fullest = members.values().max().copied().unwrap_or_default();
        assert!(fullest <= 512, "the server makes a hash table of {fullest}");
        assert_eq!(members.len() as u64, layout.sets);
    }

    #[test]
    fn scope_and_id_say_where() {
        let place = |scope: &str, id: &str| layout(1 << 40).place(&RecordKey::new(&Scope::new(scope).unwrap(), id));
        assert_eq!(place("a", "b"), place("a", "b"));
        assert_ne!(place("a", "b").member, place("", "ab").member);
        assert_ne!(place("a", "b").member, place("a", "c").member);
    }

    #[test]
    fn retentions_are_from_a_second_to_a_hundred_years() {
        let of = |retention| Layout::new(CompactOptions { retention, expected_ids: 1 });
        for retention in [Duration::from_secs(1), times::HUNDRED_YEARS] {
            let layout = of(retention).unwrap();
            assert!(layout.width_ms() * layout.older() >= expiry_ms(retention), "older generations cover it");
        }
        for wrong in [Duration::ZERO, Duration::from_millis(999), times::HUNDRED_YEARS + Duration::from_secs(1)] {
            assert_eq!(of(wrong).unwrap_err().kind(), ErrorKind::Misconfigured, "{wrong:?}");
        }
    }
}
