//! Storage for the ids of a stream.

use crate::measure::IdKind;
use crate::strategy::{Failure, Id};
use hapax::tier::random::mix;
use std::io::Write as _;
use std::ops::Range;

/// Ids of one kind, one after the other, so that reading them costs next to nothing: no allocation,
/// no pointer to follow.
///
/// | [`IdKind`] | kept in |
/// |---|---|
/// | `U64` | `Vec<u64>` |
/// | `Uuid` | `Vec<[u8; 16]>` |
/// | `UuidText`, `Key200`, `Bytes` | [`Bytes`] |
pub trait Ids: Send + Sync + Sized {
    /// The borrowed type that is checked.
    type Id: Id + ?Sized;

    /// Returns true if it is for ids of this kind.
    fn keeps(kind: IdKind) -> bool;

    /// Creates an empty storage, with room for a number of ids of a kind that it
    /// [`keeps`](Ids::keeps).
    fn with_capacity(kind: IdKind, ids: usize) -> Self;

    /// Adds the id of this number; another number is another id. Random numbers make random-looking
    /// ids. Or else (`alike`, for numbers below 2^40) an id is as similar to the others as one of
    /// its kind can be: the common part comes first, and is most of it; in an integer it is the low
    /// bits.
    fn push(&mut self, number: u64, alike: bool);

    /// Adds an id that was recorded.
    ///
    /// # Errors
    ///
    /// If ids of this kind have one length.
    fn push_bytes(&mut self, id: &[u8]) -> Result<(), Failure> {
        Err(format!("a recorded id of {} bytes; those of any length are kept as `Bytes`", id.len()).into())
    }

    /// Returns some ids, by place.
    fn range(&self, places: Range<usize>) -> impl Iterator<Item = &Self::Id>;
}

/// The low bits that similar integers have in common.
const ALIKE_LOW_BITS: u32 = 24;

impl Ids for Vec<u64> {
    type Id = u64;

    fn keeps(kind: IdKind) -> bool {
        kind == IdKind::U64
    }

    fn with_capacity(_kind: IdKind, ids: usize) -> Self {
        Vec::with_capacity(ids)
    }

    fn push(&mut self, number: u64, alike: bool) {
        self.push(if alike { number << ALIKE_LOW_BITS } else { number });
    }

    #[inline(always)]
    fn range(&self, places: Range<usize>) -> impl Iterator<Item = &u64> {
        self[places].iter()
    }
}

/// Returns both halves of a UUID: the number, and as many bits that follow from it; similar ones
/// differ in their last five bytes.
fn uuid(number: u64, alike: bool) -> (u64, u64) {
    if alike { (0x0192_3a5c_7e00_7000, 0x8000_0000_0000_0000 | number) } else { (number, mix(number)) }
}

impl Ids for Vec<[u8; 16]> {
    type Id = [u8; 16];

    fn keeps(kind: IdKind) -> bool {
        kind == IdKind::Uuid
    }

    fn with_capacity(_kind: IdKind, ids: usize) -> Self {
        Vec::with_capacity(ids)
    }

    fn push(&mut self, number: u64, alike: bool) {
        let (high, low) = uuid(number, alike);
        self.push((u128::from(high) << 64 | u128::from(low)).to_be_bytes());
    }

    #[inline(always)]
    fn range(&self, places: Range<usize>) -> impl Iterator<Item = &[u8; 16]> {
        self[places].iter()
    }
}

/// Ids of any length. One type for all of their kinds: measuring code is compiled for each type of
/// ids and each strategy.
pub struct Bytes {
    kind: IdKind,
    bytes: Vec<u8>,
    /// The place where each id begins, and where the last one ends.
    bounds: Vec<usize>,
}

/// The common prefix of similar ids: longer than what any hash function reads at once.
const COMMON_PREFIX_BYTES: usize = 96;

impl Ids for Bytes {
    type Id = [u8];

    fn keeps(kind: IdKind) -> bool {
        matches!(kind, IdKind::UuidText | IdKind::Key200 | IdKind::Bytes)
    }

    fn with_capacity(kind: IdKind, ids: usize) -> Self {
        let mut bounds = Vec::with_capacity(ids + 1);
        bounds.push(0);
        let each = match kind {
            IdKind::UuidText => 36,
            IdKind::Key200 => 200,
            _ => 0,
        };
        Bytes { kind, bytes: Vec::with_capacity(each * ids), bounds }
    }

    fn push(&mut self, number: u64, alike: bool) {
        let begin = self.bytes.len();
        let written = match (self.kind, alike) {
            (IdKind::UuidText, _) => {
                let (a, b) = uuid(number, alike);
                let groups = (a >> 32, a >> 16 & 0xffff, a & 0xffff, b >> 48, b & 0xffff_ffff_ffff);
                let (one, two, three, four, five) = groups;
                write!(self.bytes, "{one:08x}-{two:04x}-{three:04x}-{four:04x}-{five:012x}")
            }
            (IdKind::Key200, true) => write!(self.bytes, "{:/>184}{number:016x}", ""),
            (IdKind::Key200, false) => {
                let mut words = std::iter::successors(Some(mix(number)), |word| Some(mix(*word))).take(23);
                write!(self.bytes, "{number:016x}")
                    .and_then(|()| words.try_for_each(|word| write!(self.bytes, "{:08x}", word >> 32)))
            }
            (_, true) => {
                self.bytes.resize(begin + COMMON_PREFIX_BYTES, b'/');
                self.bytes.write_all(&number.to_be_bytes())
            }
            // From 8 to 64 bytes.
            (_, false) => {
                self.bytes.extend(number.to_le_bytes());
                self.bytes.write_all(&[b'/'; 56][..(mix(number) % 57) as usize])
            }
        };
        debug_assert!(written.is_ok(), "memory can be written");
        self.bounds.push(self.bytes.len());
    }

    fn push_bytes(&mut self, id: &[u8]) -> Result<(), Failure> {
        self.bytes.extend_from_slice(id);
        self.bounds.push(self.bytes.len());
        Ok(())
    }

    #[inline(always)]
    fn range(&self, places: Range<usize>) -> impl Iterator<Item = &[u8]> {
        self.bounds[places.start..=places.end].windows(2).map(|bounds| &self.bytes[bounds[0]..bounds[1]])
    }
}
