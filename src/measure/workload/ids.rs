//! Where a stream keeps its ids.

use crate::measure::IdKind;
use crate::random::mix;
use crate::strategy::{Failure, Id};
use std::ops::Range;

/// Ids of one kind, one after the other, so that reading them costs next to nothing: no allocation, no pointer to follow.
///
/// | [`IdKind`] | kept in |
/// |---|---|
/// | `U64` | `Vec<u64>` |
/// | `Uuid` | `Vec<[u8; 16]>` |
/// | `UuidText` | [`UuidTexts`] |
/// | `Key200` | [`Keys200`] |
/// | `Bytes` | [`Bytes`] |
pub trait Ids: Send + Sync + Sized {
    /// What a check borrows.
    type Id: Id + ?Sized;

    /// The kind that it keeps.
    const KIND: IdKind;

    /// None yet, with room for a number of ids.
    fn with_capacity(ids: usize) -> Self;

    /// Adds the id of this number; another number is another id. Numbers that look random make ids that do.
    fn push(&mut self, number: u64);

    /// Adds the id of this number, below 2^40, as alike to the others as this kind of id can be: what is common comes first, and
    /// is most of it; of an integer the low bits are.
    fn push_alike(&mut self, number: u64);

    /// Adds an id that somebody else has made.
    ///
    /// # Errors
    ///
    /// If an id of this kind does not have so many bytes.
    fn push_bytes(&mut self, id: &[u8]) -> Result<(), Failure>;

    /// Some ids, by place.
    fn range(&self, places: Range<usize>) -> impl Iterator<Item = &Self::Id>;
}

/// Low bits that integers have in common when they are alike.
const ALIKE_LOW_BITS: u32 = 24;

/// An id as an array, if it is as long as one of this kind.
fn exactly<const LEN: usize>(id: &[u8], kind: IdKind) -> Result<[u8; LEN], Failure> {
    id.try_into().map_err(|_| {
        let found = id.len();
        format!(
            "an id of {found} bytes; with ids of the kind {kind:?} each has {LEN} (those of any length are `Bytes`)"
        )
        .into()
    })
}

impl Ids for Vec<u64> {
    type Id = u64;
    const KIND: IdKind = IdKind::U64;

    fn with_capacity(ids: usize) -> Self {
        Vec::with_capacity(ids)
    }

    fn push(&mut self, number: u64) {
        self.push(number);
    }

    fn push_alike(&mut self, number: u64) {
        self.push(number << ALIKE_LOW_BITS);
    }

    fn push_bytes(&mut self, id: &[u8]) -> Result<(), Failure> {
        self.push(u64::from_le_bytes(exactly(id, Self::KIND)?));
        Ok(())
    }

    #[inline(always)]
    fn range(&self, places: Range<usize>) -> impl Iterator<Item = &u64> {
        self[places].iter()
    }
}

/// The bytes of a UUID: the number, and as many bits that follow from it.
fn uuid(number: u64) -> [u8; 16] {
    (u128::from(number) << 64 | u128::from(mix(number))).to_be_bytes()
}

/// UUIDs that differ in their last five bytes.
fn uuid_alike(number: u64) -> [u8; 16] {
    (0x0192_3a5c_7e00_7000_8000_0000_0000_0000 | u128::from(number)).to_be_bytes()
}

impl Ids for Vec<[u8; 16]> {
    type Id = [u8; 16];
    const KIND: IdKind = IdKind::Uuid;

    fn with_capacity(ids: usize) -> Self {
        Vec::with_capacity(ids)
    }

    fn push(&mut self, number: u64) {
        self.push(uuid(number));
    }

    fn push_alike(&mut self, number: u64) {
        self.push(uuid_alike(number));
    }

    fn push_bytes(&mut self, id: &[u8]) -> Result<(), Failure> {
        self.push(exactly(id, Self::KIND)?);
        Ok(())
    }

    #[inline(always)]
    fn range(&self, places: Range<usize>) -> impl Iterator<Item = &[u8; 16]> {
        self[places].iter()
    }
}

/// Appends bytes as hexadecimal digits.
fn push_hex(text: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    text.extend(bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]));
}

/// Appends a UUID as text, in its five groups.
fn push_uuid_text(text: &mut Vec<u8>, uuid: [u8; 16]) {
    for (i, group) in [0..4, 4..6, 6..8, 8..10, 10..16].into_iter().enumerate() {
        if i > 0 {
            text.push(b'-');
        }
        push_hex(text, &uuid[group]);
    }
}

/// UUIDs as text, of 36 bytes each.
pub struct UuidTexts(Vec<u8>);

const UUID_TEXT_BYTES: usize = 36;

impl Ids for UuidTexts {
    type Id = [u8];
    const KIND: IdKind = IdKind::UuidText;

    fn with_capacity(ids: usize) -> Self {
        UuidTexts(Vec::with_capacity(ids * UUID_TEXT_BYTES))
    }

    fn push(&mut self, number: u64) {
        push_uuid_text(&mut self.0, uuid(number));
    }

    fn push_alike(&mut self, number: u64) {
        push_uuid_text(&mut self.0, uuid_alike(number));
    }

    fn push_bytes(&mut self, id: &[u8]) -> Result<(), Failure> {
        self.0.extend(exactly::<UUID_TEXT_BYTES>(id, Self::KIND)?);
        Ok(())
    }

    #[inline(always)]
    fn range(&self, places: Range<usize>) -> impl Iterator<Item = &[u8]> {
        self.0[places.start * UUID_TEXT_BYTES..places.end * UUID_TEXT_BYTES].chunks_exact(UUID_TEXT_BYTES)
    }
}

/// Keys of 200 bytes each.
pub struct Keys200(Vec<u8>);

const KEY_BYTES: usize = 200;

impl Ids for Keys200 {
    type Id = [u8];
    const KIND: IdKind = IdKind::Key200;

    fn with_capacity(ids: usize) -> Self {
        Keys200(Vec::with_capacity(ids * KEY_BYTES))
    }

    /// 25 times eight digits of different halves of words.
    fn push(&mut self, number: u64) {
        push_hex(&mut self.0, &number.to_be_bytes());
        let mut word = number;
        for _ in 0..(KEY_BYTES - 16) / 8 {
            word = mix(word);
            push_hex(&mut self.0, &word.to_be_bytes()[..4]);
        }
    }

    fn push_alike(&mut self, number: u64) {
        self.0.resize(self.0.len() + KEY_BYTES - 16, b'/');
        push_hex(&mut self.0, &number.to_be_bytes());
    }

    fn push_bytes(&mut self, id: &[u8]) -> Result<(), Failure> {
        self.0.extend(exactly::<KEY_BYTES>(id, Self::KIND)?);
        Ok(())
    }

    #[inline(always)]
    fn range(&self, places: Range<usize>) -> impl Iterator<Item = &[u8]> {
        self.0[places.start * KEY_BYTES..places.end * KEY_BYTES].chunks_exact(KEY_BYTES)
    }
}

/// Ids of any length.
pub struct Bytes {
    bytes: Vec<u8>,
    /// Where each id begins, and where the last one ends.
    bounds: Vec<usize>,
}

/// What ids that are alike begin with here: longer than what any hash function reads at once.
const COMMON_PREFIX: [u8; 96] = [b'/'; 96];

impl Ids for Bytes {
    type Id = [u8];
    const KIND: IdKind = IdKind::Bytes;

    fn with_capacity(ids: usize) -> Self {
        let mut bounds = Vec::with_capacity(ids + 1);
        bounds.push(0);
        Bytes { bytes: Vec::new(), bounds }
    }

    /// From 8 to 64 bytes.
    fn push(&mut self, number: u64) {
        self.bytes.extend(number.to_le_bytes());
        let mut word = number;
        for _ in 0..mix(number) % 8 {
            word = mix(word);
            self.bytes.extend(&word.to_le_bytes()[..1 + word as usize % 7]);
        }
        self.bounds.push(self.bytes.len());
    }

    fn push_alike(&mut self, number: u64) {
        self.bytes.extend(COMMON_PREFIX);
        self.bytes.extend(number.to_be_bytes());
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
