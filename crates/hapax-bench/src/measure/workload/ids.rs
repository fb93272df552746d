//! Storage for the ids of a stream.

use crate::measure::IdKind;
use crate::strategy::Id;
use hapax::seam::random::mix;
use std::io::Write as _;
use std::ops::Range;

/// Ids of one kind, one after the other, so that reading them costs next to nothing: no allocation,
/// no pointer to follow.
///
/// | [`IdKind`] | kept in |
/// |---|---|
/// | `U64` | `Vec<u64>` |
/// | `UuidText`, `Key200` | [`Bytes`] |
pub trait Ids: Send + Sync + Sized {
    /// The borrowed type that is checked.
    type Id: Id + ?Sized;

    /// Returns true if it is for ids of this kind.
    fn keeps(kind: IdKind) -> bool;

    /// Creates an empty storage, with room for a number of ids of a kind that it
    /// [`keeps`](Ids::keeps).
    fn with_capacity(kind: IdKind, ids: usize) -> Self;

    /// Adds the id of this number; another number is another id.
    fn push(&mut self, number: u64);

    /// Returns some ids, by place.
    fn range(&self, places: Range<usize>) -> impl Iterator<Item = &Self::Id>;
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

    #[inline(always)]
    fn range(&self, places: Range<usize>) -> impl Iterator<Item = &u64> {
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

impl Ids for Bytes {
    type Id = [u8];

    fn keeps(kind: IdKind) -> bool {
        matches!(kind, IdKind::UuidText | IdKind::Key200)
    }

    fn with_capacity(kind: IdKind, ids: usize) -> Self {
        let mut bounds = Vec::with_capacity(ids + 1);
        bounds.push(0);
        let each = if kind == IdKind::UuidText { 36 } else { 200 };
        Bytes { kind, bytes: Vec::with_capacity(each * ids), bounds }
    }

    fn push(&mut self, number: u64) {
        if self.kind == IdKind::UuidText {
            let (a, b, c, second) = (number >> 32, number >> 16 & 0xffff, number & 0xffff, mix(number));
            let (d, e) = (second >> 48, second & 0xffff_ffff_ffff);
            let written = write!(self.bytes, "{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}");
            debug_assert!(written.is_ok(), "memory can be written");
        } else {
            let words = std::iter::successors(Some(number), |word| Some(mix(*word))).take(25);
            self.bytes.extend(words.flat_map(u64::to_be_bytes));
        }
        self.bounds.push(self.bytes.len());
    }

    #[inline(always)]
    fn range(&self, places: Range<usize>) -> impl Iterator<Item = &[u8]> {
        self.bounds[places.start..=places.end].windows(2).map(|bounds| &self.bytes[bounds[0]..bounds[1]])
    }
}
