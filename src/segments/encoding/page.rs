//! A page: the records of a range of keys, 4,096 bytes. Pure.
//!
//! ```text
//! page      checksum 8 | place of the first 5 | width 1 | count 2
//!           | places less that of the first, `width` bits each | marks 7 | ticks 2 | zeros
//! ```
//!
//! Digests are uniform: sorted, the upper bits of a place are nearly its rank in the file, and need
//! not be stored. The width is what the page itself takes: with 8 M ids in the file 26 bits of 40,
//! 333 records a page, with 250 M 21.

#![allow(clippy::cast_possible_truncation, reason = "bits are cut out of words")]

use super::key::{Key, PLACE_BITS};
use crate::journal::encoding::format::{put, u64_at};
use crate::mutation::{Rule, obeys};
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(in crate::segments) const PAGE_BYTES: usize = 4096;
const HEADER_BYTES: usize = 16;
const MARK_BYTES: usize = 7;
const TICK_BYTES: usize = 2;

/// The bytes of a page.
pub(in crate::segments) type Bytes = [u8; PAGE_BYTES];

/// A record of an id, as a page has it.
pub(in crate::segments) type Entry = (Key, u16);

/// Returns the number of bits that a distance takes.
fn width_of(distance: u64) -> u32 {
    u64::BITS - distance.leading_zeros()
}

/// Returns the number of bytes that so many records take.
fn size(count: usize, width: u32) -> usize {
    HEADER_BYTES + (count * width as usize).div_ceil(8) + count * (MARK_BYTES + TICK_BYTES)
}

/// Returns the most records whose places take so many bits each.
fn room(width: u32) -> usize {
    let bits_each = width as usize + 8 * (MARK_BYTES + TICK_BYTES);
    8 * (PAGE_BYTES - HEADER_BYTES) / bits_each
}

/// Gathers records, in order, until a page is full.
#[derive(Default)]
pub(in crate::segments) struct Builder {
    /// The records, packed.
    entries: Vec<u128>,
    /// The place of the first.
    first: u64,
    /// The greatest distance from it that takes no more bits than those so far …
    reach: u64,
    /// … and the most records of these bits.
    room: usize,
}

impl Builder {
    /// Adds a record, if the page has room for it. Its key is beyond all others.
    #[inline]
    pub(in crate::segments) fn push(&mut self, (key, tick): Entry) -> bool {
        if self.entries.is_empty() {
            (self.first, self.reach, self.room) = (key.place(), 0, room(0));
        }
        let distance = key.place() - self.first;
        if distance > self.reach {
            let width = width_of(distance);
            (self.reach, self.room) = ((1 << width) - 1, room(width));
        }
        let fits = self.entries.len() < self.room;
        debug_assert_eq!(fits, size(self.entries.len() + 1, width_of(distance)) <= PAGE_BYTES);
        if fits {
            self.entries.push(key.with(tick));
        }
        fits
    }

    pub(in crate::segments) fn first(&self) -> Option<Key> {
        self.entries.first().map(|first| Key::unpack(*first).0)
    }

    /// Encodes what was gathered, and begins again.
    pub(in crate::segments) fn take(&mut self, seed: u64) -> Bytes {
        let mut bytes = [0; PAGE_BYTES];
        let (first, count) = (self.first, self.entries.len());
        let width = width_of(self.entries.last().map_or(0, |last| Key::unpack(*last).0.place() - first));
        bytes[8..13].copy_from_slice(&first.to_le_bytes()[..5]);
        bytes[13] = width as u8;
        put(&mut bytes, 14, &(count as u16).to_le_bytes());
        let columns = Columns::new(count, width);
        // Column by column, in whole words: what they have too much is overwritten by what follows,
        // of which ticks are the last.
        let (mut bits, mut len, mut at) = (0u128, 0, HEADER_BYTES);
        for packed in &self.entries {
            bits |= u128::from(Key::unpack(*packed).0.place() - first) << len;
            len += width;
            if len >= u64::BITS {
                put(&mut bytes, at, &(bits as u64).to_le_bytes());
                (bits, len, at) = (bits >> u64::BITS, len - u64::BITS, at + 8);
            }
        }
        put(&mut bytes, at, &(bits as u64).to_le_bytes());
        for (i, packed) in self.entries.iter().enumerate() {
            put(&mut bytes, columns.mark(i), &Key::unpack(*packed).0.mark().to_le_bytes());
        }
        for (i, packed) in self.entries.iter().enumerate() {
            put(&mut bytes, columns.tick(i), &Key::unpack(*packed).1.to_le_bytes());
        }
        self.entries.clear();
        let checksum = xxh3_64_with_seed(&bytes[8..], seed);
        put(&mut bytes, 0, &checksum.to_le_bytes());
        bytes
    }
}

/// The offsets of a page's columns.
#[derive(Clone, Copy)]
struct Columns {
    marks: usize,
    ticks: usize,
}

impl Columns {
    fn new(count: usize, width: u32) -> Self {
        let marks = HEADER_BYTES + (count * width as usize).div_ceil(8);
        Columns { marks, ticks: marks + count * MARK_BYTES }
    }

    #[inline]
    fn mark(self, i: usize) -> usize {
        self.marks + i * MARK_BYTES
    }

    #[inline]
    fn tick(self, i: usize) -> usize {
        self.ticks + i * TICK_BYTES
    }
}

/// A page whose checksum is right.
#[derive(Clone, Copy)]
pub(in crate::segments) struct Page<'b> {
    bytes: &'b Bytes,
    first: u64,
    width: u32,
    count: usize,
    columns: Columns,
}

impl<'b> Page<'b> {
    /// Reads a page. Returns a description of the defect if it is none.
    pub(in crate::segments) fn decode(bytes: &'b Bytes, seed: u64) -> Result<Self, &'static str> {
        if u64_at(bytes, 0) != xxh3_64_with_seed(&bytes[8..], seed) && obeys(Rule::PageChecksum) {
            return Err("the checksum of a page is wrong");
        }
        let first = u64_at(bytes, 8) & ((1 << PLACE_BITS) - 1);
        let (width, count) = (u32::from(bytes[13]), usize::from(u16::from_le_bytes([bytes[14], bytes[15]])));
        if width > PLACE_BITS || count == 0 || size(count, width) > PAGE_BYTES {
            return Err("a page has more than it has room for, or nothing");
        }
        Ok(Page { bytes, first, width, count, columns: Columns::new(count, width) })
    }

    /// Returns the distance of a place from the first one. (Nine bytes at least follow its first
    /// byte.)
    #[inline]
    fn distance(&self, i: usize) -> u64 {
        let bit = i * self.width as usize;
        u64_at(self.bytes, HEADER_BYTES + bit / 8) >> (bit % 8) & ((1 << self.width) - 1)
    }

    #[inline]
    fn mark(&self, i: usize) -> u64 {
        u64_at(self.bytes, self.columns.mark(i)) & ((1 << (8 * MARK_BYTES)) - 1)
    }

    #[inline]
    fn tick(&self, i: usize) -> u16 {
        let at = self.columns.tick(i);
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    /// Returns the tick of a key, if the page has it.
    pub(in crate::segments) fn find(&self, key: Key) -> Option<u16> {
        let distance = key.place().checked_sub(self.first)?;
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            if self.distance(middle) < distance { low = middle + 1 } else { high = middle }
        }
        let alike = (low..self.count).take_while(|i| self.distance(*i) == distance);
        alike.into_iter().find(|i| self.mark(*i) == key.mark()).map(|i| self.tick(i))
    }

    /// Returns the records, in their order; `None` stands for one that has no place there is.
    pub(in crate::segments) fn entries(&self) -> impl Iterator<Item = Option<Entry>> {
        (0..self.count).map(|i| {
            let place = self.first + self.distance(i);
            (place >> PLACE_BITS == 0).then(|| (Key::new(place, self.mark(i)), self.tick(i)))
        })
    }
}

#[cfg(all(test, not(any(modelled, alone))))]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::segments::encoding::key::MARK_BITS;

    /// Fills pages with records whose places are this far from each other at most.
    fn filled(random: &mut Random, step: u64) -> (Vec<Entry>, Bytes) {
        let (mut builder, mut all) = (Builder::default(), Vec::new());
        let mut key = Key::new(random.below(1 << 30), random.next() >> (64 - MARK_BITS));
        loop {
            let entry = (key, random.next() as u16);
            if !builder.push(entry) {
                return (all, builder.take(7));
            }
            all.push(entry);
            let place = (key.place() + random.below(step)).min((1 << PLACE_BITS) - 1);
            let mark = if place == key.place() { key.mark() + 1 } else { random.next() >> (65 - MARK_BITS) };
            key = Key::new(place, mark);
        }
    }

    #[test]
    fn a_page_has_what_was_put_there_and_nothing_else() {
        let mut random = Random::new(8);
        for step in [1, 2, 200, 1 << 18, 1 << 31, 1 << 38].repeat(20) {
            let (all, bytes) = filled(&mut random, step);
            let page = Page::decode(&bytes, 7).unwrap();
            assert!(page.entries().map(Option::unwrap).eq(all.iter().copied()));
            for (key, tick) in &all {
                assert_eq!(page.find(*key), Some(*tick));
                let other = Key::new(key.place(), key.mark() ^ 1 << random.below(56));
                assert_eq!(page.find(other), all.iter().find(|entry| entry.0 == other).map(|entry| entry.1));
            }
            assert_eq!(page.find(Key::new(0, 0)), None);
            assert_eq!(page.find(Key::new((1 << PLACE_BITS) - 1, 0)), None);
            // 16 bytes of header, 9 and a few bits a record.
            assert!(all.len() > 250, "{} of steps of {step}", all.len());
        }
    }

    #[test]
    fn each_flipped_bit_is_noticed_and_no_bytes_panic() {
        let mut random = Random::new(9);
        let (_, bytes) = filled(&mut random, 1 << 20);
        assert!(Page::decode(&bytes, 8).is_err(), "it is another page's");
        for bit in 0..8 * PAGE_BYTES {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Page::decode(&bytes, 7).is_err(), "bit {bit}");
        }
        for _ in 0..5_000 {
            let mut bytes = [0; PAGE_BYTES];
            bytes.chunks_mut(8).for_each(|word| word.copy_from_slice(&random.next().to_le_bytes()));
            bytes[13] = random.below(42) as u8;
            bytes[15] = random.below(3) as u8;
            let checksum = xxh3_64_with_seed(&bytes[8..], 7);
            put(&mut bytes, 0, &checksum.to_le_bytes());
            let Ok(page) = Page::decode(&bytes, 7) else { continue };
            page.entries()
                .flatten()
                .for_each(|entry| assert!(page.find(entry.0).is_none_or(|_| entry.0.place() >> PLACE_BITS == 0)));
        }
    }
}
