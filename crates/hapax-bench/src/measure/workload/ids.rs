//! Storage for the ids of a stream.

use crate::measure::IdKind;
use crate::strategy::{Failure, Id};
use hapax::tier::random::mix;
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
    /// ids.
    fn push(&mut self, number: u64);

    /// Adds the id of this number, below 2^40, as similar to the others as this kind of id can be.
    /// The common part comes first, and is most of the id; in an integer it is the low bits.
    fn push_alike(&mut self, number: u64);

    /// Adds an id that was made elsewhere.
    ///
    /// # Errors
    ///
    /// If an id of this kind does not have this many bytes.
    fn push_bytes(&mut self, id: &[u8]) -> Result<(), Failure>;

    /// Returns some ids, by place.
    fn range(&self, places: Range<usize>) -> impl Iterator<Item = &Self::Id>;
}

/// The low bits that similar integers have in common.
const ALIKE_LOW_BITS: u32 = 24;

/// Returns an id as an array, if it is as long as one of this kind.
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

    fn keeps(kind: IdKind) -> bool {
        kind == IdKind::U64
    }

    fn with_capacity(_kind: IdKind, ids: usize) -> Self {
        Vec::with_capacity(ids)
    }

    fn push(&mut self, number: u64) {
        self.push(number);
    }

    fn push_alike(&mut self, number: u64) {
        self.push(number << ALIKE_LOW_BITS);
    }

    fn push_bytes(&mut self, id: &[u8]) -> Result<(), Failure> {
        self.push(u64::from_le_bytes(exactly(id, IdKind::U64)?));
        Ok(())
    }

    #[inline(always)]
    fn range(&self, places: Range<usize>) -> impl Iterator<Item = &u64> {
        self[places].iter()
    }
}

/// Returns the bytes of a UUID: the number, and as many bits that follow from it.
fn uuid(number: u64) -> [u8; 16] {
    (u128::from(number) << 64 | u128::from(mix(number))).to_be_bytes()
}

/// Returns UUIDs that differ in their last five bytes.
fn uuid_alike(number: u64) -> [u8; 16] {
    (0x0192_3a5c_7e00_7000_8000_0000_0000_0000 | u128::from(number)).to_be_bytes()
}

impl Ids for Vec<[u8; 16]> {
    type Id = [u8; 16];

    fn keeps(kind: IdKind) -> bool {
        kind == IdKind::Uuid
    }

    fn with_capacity(_kind: IdKind, ids: usize) -> Self {
        Vec::with_capacity(ids)
    }

    fn push(&mut self, number: u64) {
        self.push(uuid(number));
    }

    fn push_alike(&mut self, number: u64) {
        self.push(uuid_alike(number));
    }

    fn push_bytes(&mut self, id: &[u8]) -> Result<(), Failure> {
        self.push(exactly(id, IdKind::Uuid)?);
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

/// Appends a key: 25 times eight digits of different halves of words.
fn push_key(text: &mut Vec<u8>, number: u64) {
    push_hex(text, &number.to_be_bytes());
    let mut word = number;
    for _ in 0..(KEY_BYTES - 16) / 8 {
        word = mix(word);
        push_hex(text, &word.to_be_bytes()[..4]);
    }
}

/// Appends an id of 8 to 64 bytes.
fn push_any(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend(number.to_le_bytes());
    let mut word = number;
    for _ in 0..mix(number) % 8 {
        word = mix(word);
        bytes.extend(&word.to_le_bytes()[..1 + word as usize % 7]);
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

const UUID_TEXT_BYTES: usize = 36;
const KEY_BYTES: usize = 200;

/// The common prefix of similar ids of any length: longer than what any hash function reads at
/// once.
const COMMON_PREFIX: [u8; 96] = [b'/'; 96];

impl Ids for Bytes {
    type Id = [u8];

    fn keeps(kind: IdKind) -> bool {
        matches!(kind, IdKind::UuidText | IdKind::Key200 | IdKind::Bytes)
    }

    fn with_capacity(kind: IdKind, ids: usize) -> Self {
        let mut bounds = Vec::with_capacity(ids + 1);
        bounds.push(0);
        let bytes = match kind {
            IdKind::UuidText => ids * UUID_TEXT_BYTES,
            IdKind::Key200 => ids * KEY_BYTES,
            _ => 0,
        };
        Bytes { kind, bytes: Vec::with_capacity(bytes), bounds }
    }

    fn push(&mut self, number: u64) {
        match self.kind {
            IdKind::UuidText => push_uuid_text(&mut self.bytes, uuid(number)),
            IdKind::Key200 => push_key(&mut self.bytes, number),
            _ => push_any(&mut self.bytes, number),
        }
        self.bounds.push(self.bytes.len());
    }

    fn push_alike(&mut self, number: u64) {
        match self.kind {
            IdKind::UuidText => push_uuid_text(&mut self.bytes, uuid_alike(number)),
            IdKind::Key200 => {
                self.bytes.resize(self.bytes.len() + KEY_BYTES - 16, b'/');
                push_hex(&mut self.bytes, &number.to_be_bytes());
            }
            _ => {
                self.bytes.extend(COMMON_PREFIX);
                self.bytes.extend(number.to_be_bytes());
            }
        }
        self.bounds.push(self.bytes.len());
    }

    fn push_bytes(&mut self, id: &[u8]) -> Result<(), Failure> {
        match self.kind {
            IdKind::UuidText => self.bytes.extend(exactly::<UUID_TEXT_BYTES>(id, self.kind)?),
            IdKind::Key200 => self.bytes.extend(exactly::<KEY_BYTES>(id, self.kind)?),
            _ => self.bytes.extend_from_slice(id),
        }
        self.bounds.push(self.bytes.len());
        Ok(())
    }

    #[inline(always)]
    fn range(&self, places: Range<usize>) -> impl Iterator<Item = &[u8]> {
        self.bounds[places.start..=places.end].windows(2).map(|bounds| &self.bytes[bounds[0]..bounds[1]])
    }
}
