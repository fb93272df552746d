//! Plain marks as members of sets of integers: a tenth of the memory.

use super::errors::error;
use super::value::expiry_ms;
use hapax_store::{ErrorKind, RecordKey, StoreError};
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// Options for plain marks in a tenth of the memory, for
/// [`RedisOptions::compact`](super::RedisOptions::compact).
///
/// ```
/// use hapax_redis::{CompactOptions, RedisOptions};
/// use std::time::Duration;
///
/// let marks = CompactOptions { retention: Duration::from_secs(86_400), expected_ids: 50_000_000 };
/// let options = RedisOptions::single("redis://127.0.0.1/").compact(marks);
/// ```
///
/// **A message is lost if the answer to its mark is lost**: attempts are not kept, so a caller that
/// asks again, here or in another instance, is told "duplicate". Use compact marks where one
/// message in many may be lost, and plain ones otherwise.
///
/// A mark is a 64-bit member of a set of about 300 integers, which the server keeps sorted in one
/// piece of memory; SHA-256 of scope and id determines the set and the member. There is one
/// generation of sets for each half of the retention, by the server's clock, and each expires as a
/// whole. A mark adds to the newest set and looks at the others, in one script: of any number of
/// concurrent marks, one is fresh.
///
/// # What is different
///
/// - *Marks* and [records](hapax_store::Store::record) without result and fingerprint are stored
///   like this. A mark sees only those. Claims, completions and records with a result are stored as
///   without this option, and a claim also sees the marks. So an id that is claimed or completed is
///   still fresh to a mark: don't mix the two for the same ids.
/// - *Retention* is that of the options, and up to half of it longer. A mark that asks for more is
///   refused.
/// - *Attempts* are not kept: a mark that is repeated because its answer was lost is a duplicate,
///   and no mark is in [doubt](hapax_store::TieredBuilder::in_doubt).
/// - A new id is taken for a duplicate if it agrees with a known one in all of 64 bits and the set,
///   at odds of 1 to 10^16 (the set's 1,000 members in 2^64), however many ids there are. If there
///   are more ids than expected, the odds rise in proportion.
/// - If there are more than 1.6 times as many ids as expected, the server turns sets into hash
///   tables, which take five times as much memory. (It also does if its `set-max-intset-entries` is
///   less than the usual 512.)
/// - All processes must have the same options. With other options, nothing is known of earlier
///   marks.
/// - [Scans](hapax_store::Store::scan) do not find these marks: the id itself is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactOptions {
    /// The time for which marks are known.
    pub retention: Duration,
    /// The number of ids that are marked within a retention.
    pub expected_ids: u64,
}

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

    /// Returns an error unless marks are known for this retention.
    pub(super) fn check(&self, retention: Duration) -> Result<(), StoreError> {
        let kept_ms = self.width_ms * OLDER;
        if expiry_ms(retention) <= kept_ms {
            return Ok(());
        }
        let wrong = format!("compact marks are known for {kept_ms} ms, not for {retention:?}");
        Err(error(ErrorKind::Misconfigured, wrong))
    }

    /// Returns the place of an id's mark. The name of a set contains the number and the width of
    /// the sets, since with other options the place is another one.
    pub(super) fn place(&self, key: &RecordKey) -> Place {
        let digest: [u8; 32] = Sha256::digest(key.to_stored()).into();
        let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|byte| digest[8 * i + byte]));
        let set = (u128::from(word(0)) * u128::from(self.sets)) >> 64;
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
    fn longer_retentions_are_refused() {
        let layout = layout(1_000);
        assert!(layout.check(Duration::from_secs(3_600)).is_ok());
        assert!(layout.check(Duration::ZERO).is_ok());
        assert_eq!(layout.check(Duration::from_secs(3_601)).unwrap_err().kind(), ErrorKind::Misconfigured);
        let short = CompactOptions { retention: Duration::from_millis(999), expected_ids: 1 };
        assert_eq!(Layout::new(short).unwrap_err().kind(), ErrorKind::Misconfigured);
    }
}
