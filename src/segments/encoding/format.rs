//! The format of segments and of their manifest, byte for byte. Pure. All numbers are
//! little-endian.
//!
//! ```text
//! segment   page, page, … | index | filter | trailer
//! page      4,096 bytes: `page.rs`
//! index     12 bytes a page: the first key of each, its upper 8 | the 4 after them
//! filter    64 bytes a line: `filter.rs`
//! trailer   192 bytes: magic 8 | byte order 4 | version 4 | kind of digests 8 | their key 16 | salt 8
//!           | number 8 | level 8 | ids 8 | tombstones 8 | first time 8 | last time 8 | first tick 8
//!           | shift 8 | pages 8 | lines 8 | checksum of the index 8 | of the filter 8 | first span 8
//!           | last span 8 | zero 8 | checksum 8
//! manifest  magic 8 | byte order 4 | version 4 | kind of digests 8 | their key 16 | salt 8 | edition 8
//!           | next number 8 | next span 8 | sealed up to 8 | journal 8 | segments 8 | checksum 8
//!           | then 24 bytes a segment, the oldest first: number 8 | bytes 8 | checksum of its
//!           trailer 8 | and at the end the checksum of all of them 8
//! ```
//!
//! What is known only at the end of a segment is at its end, so that it is written in one go; and
//! pages are where the system's own pages are, so that a question reads one of these. Checksums of
//! pages are seeded with the salt, the segment's number and the page's: a page that belongs
//! elsewhere is none.

use super::key::{SHIFT_MAX, Scale};
use super::page::PAGE_BYTES;
use crate::Timestamp;
use crate::digest::DigestKey;
use crate::journal::encoding::format::{NotOurs, digest_key, put, seal_as, u64_at, unseal_as, within_reach};
use crate::random;
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(in crate::segments) const TRAILER_BYTES: usize = 16 + 8 * TRAILER_WORDS + 8;
const TRAILER_WORDS: usize = 21;
pub(in crate::segments) const INDEX_BYTES: usize = 12;
pub(in crate::segments) const LINE_BYTES: usize = 64;
const MANIFEST_BYTES: usize = 16 + 8 * MANIFEST_WORDS + 8;
const MANIFEST_WORDS: usize = 10;
const LISTED_BYTES: usize = 24;

const MAGIC: [u8; 8] = *b"HAPAXSEG";
const MANIFEST_MAGIC: [u8; 8] = *b"HAPAXMAN";
const VERSION: (u32, &str) = (1, "this program reads no other");

/// The key of the digests of a directory, and the salt of its checksums.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::segments) struct Keys {
    pub(in crate::segments) key: DigestKey,
    pub(in crate::segments) salt: u64,
}

impl Keys {
    /// Returns the seed of a checksum in a segment.
    pub(in crate::segments) fn seed(self, number: u64, part: u64) -> u64 {
        random::hash([self.salt, number, part])
    }
}

/// The parts of a segment that have a checksum of their own and are no pages.
pub(in crate::segments) const INDEX_PART: u64 = u64::MAX;
pub(in crate::segments) const FILTER_PART: u64 = u64::MAX - 1;

/// All that is known about a segment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::segments) struct Trailer {
    pub(in crate::segments) keys: Keys,
    pub(in crate::segments) number: u64,
    /// The number of times that its ids were merged.
    pub(in crate::segments) level: u64,
    /// The number of records of ids that were accepted.
    pub(in crate::segments) ids: u64,
    pub(in crate::segments) tombstones: u64,
    pub(in crate::segments) first: Timestamp,
    pub(in crate::segments) last: Timestamp,
    pub(in crate::segments) scale: Scale,
    pub(in crate::segments) pages: u64,
    pub(in crate::segments) lines: u64,
    pub(in crate::segments) index_checksum: u64,
    pub(in crate::segments) filter_checksum: u64,
    /// The spans that it was made of, by number.
    pub(in crate::segments) spans: [u64; 2],
}

impl Trailer {
    pub(in crate::segments) fn encode(&self) -> [u8; TRAILER_BYTES] {
        let [kind, low, high] = self.keys.key.words();
        let Trailer { number, level, ids, tombstones, pages, lines, index_checksum, filter_checksum, .. } = *self;
        let (times, scale) = ([self.first.as_nanos(), self.last.as_nanos()], self.scale);
        let mut words = [0; TRAILER_WORDS];
        words[..8].copy_from_slice(&[kind, low, high, self.keys.salt, number, level, ids, tombstones]);
        words[8..14].copy_from_slice(&[times[0], times[1], scale.base, u64::from(scale.shift), pages, lines]);
        words[14..18].copy_from_slice(&[index_checksum, filter_checksum, self.spans[0], self.spans[1]]);
        seal_as(MAGIC, VERSION.0, words)
    }

    pub(in crate::segments) fn decode(bytes: &[u8; TRAILER_BYTES]) -> Result<Self, NotOurs> {
        let words = unseal_as::<TRAILER_WORDS>(bytes, MAGIC, VERSION)?;
        let [kind, low, high, salt, number, level, ids, tombstones, first, last, base, shift, pages, lines, ..] = words;
        within_reach([number, level, ids, tombstones, pages, lines, words[16], words[17]])?;
        let wrong = |what, got: u64, expected: String| Err(NotOurs { what, got: got.to_string(), expected });
        let scale = match u32::try_from(shift) {
            Ok(shift) if shift <= SHIFT_MAX => Scale { base, shift },
            _ => return wrong("size of ticks", shift, format!("2^{SHIFT_MAX} ns at most")),
        };
        if lines == 0 {
            return wrong("number of lines", 0, "1 at least".into());
        }
        if let Some(more) = words[18..].iter().find(|word| **word != 0) {
            return wrong("word without a meaning", *more, "0".into());
        }
        Ok(Trailer {
            keys: Keys { key: digest_key([kind, low, high])?, salt },
            number,
            level,
            ids,
            tombstones,
            first: Timestamp::from_nanos(first),
            last: Timestamp::from_nanos(last),
            scale,
            pages,
            lines,
            index_checksum: words[14],
            filter_checksum: words[15],
            spans: [words[16], words[17]],
        })
    }

    /// Returns the checksum of the trailer, by which the manifest knows the segment.
    pub(in crate::segments) fn checksum(&self) -> u64 {
        u64_at(&self.encode(), TRAILER_BYTES - 8)
    }

    /// Returns the offset of the index.
    pub(in crate::segments) fn index_offset(&self) -> u64 {
        self.pages.saturating_mul(PAGE_BYTES as u64)
    }

    /// Returns the offset of the filter.
    pub(in crate::segments) fn filter_offset(&self) -> u64 {
        self.index_offset().saturating_add(self.pages.saturating_mul(INDEX_BYTES as u64))
    }

    /// Returns the offset of the trailer itself.
    pub(in crate::segments) fn offset(&self) -> u64 {
        self.filter_offset().saturating_add(self.lines.saturating_mul(LINE_BYTES as u64))
    }

    /// Returns the size of the file.
    pub(in crate::segments) fn bytes(&self) -> u64 {
        self.offset().saturating_add(TRAILER_BYTES as u64)
    }
}

/// A segment as a manifest names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::segments) struct Listed {
    pub(in crate::segments) number: u64,
    pub(in crate::segments) bytes: u64,
    pub(in crate::segments) checksum: u64,
}

/// The segments that count.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::segments) struct Manifest {
    pub(in crate::segments) keys: Keys,
    /// The number of manifests that came before it.
    pub(in crate::segments) edition: u64,
    /// A number that no segment has had.
    pub(in crate::segments) next_number: u64,
    pub(in crate::segments) next_span: u64,
    /// The caller's own number of what is sealed.
    pub(in crate::segments) sealed: u64,
    /// The identity of the journal that they were sealed from; 0 if it is not known yet, or if
    /// there is none.
    pub(in crate::segments) journal: u64,
    /// The segments, the oldest first.
    pub(in crate::segments) segments: Vec<Listed>,
}

impl Manifest {
    pub(in crate::segments) fn encode(&self) -> Vec<u8> {
        let [kind, low, high] = self.keys.key.words();
        let Manifest { edition, next_number, next_span, sealed, journal, .. } = *self;
        let count = self.segments.len() as u64;
        let words = [kind, low, high, self.keys.salt, edition, next_number, next_span, sealed, journal, count];
        let mut bytes = seal_as::<MANIFEST_WORDS, MANIFEST_BYTES>(MANIFEST_MAGIC, VERSION.0, words).to_vec();
        for Listed { number, bytes: size, checksum } in &self.segments {
            bytes.extend([number, size, checksum].into_iter().flat_map(|word| word.to_le_bytes()));
        }
        bytes.extend(xxh3_64_with_seed(&bytes, self.keys.salt).to_le_bytes());
        bytes
    }

    /// Decodes a manifest; all bytes belong to it.
    pub(in crate::segments) fn decode(bytes: &[u8]) -> Result<Self, NotOurs> {
        let wrong =
            |what, got: u64, expected: u64| Err(NotOurs { what, got: got.to_string(), expected: expected.to_string() });
        let Some(head) = bytes.get(..MANIFEST_BYTES) else {
            return wrong("length", bytes.len() as u64, MANIFEST_BYTES as u64);
        };
        let words = unseal_as::<MANIFEST_WORDS>(head, MANIFEST_MAGIC, VERSION)?;
        let [kind, low, high, salt, edition, next_number, next_span, sealed, journal, count] = words;
        within_reach([edition, next_number, next_span, count])?;
        let expected = count.saturating_mul(LISTED_BYTES as u64).saturating_add(MANIFEST_BYTES as u64 + 8);
        if bytes.len() as u64 != expected {
            return wrong("length", bytes.len() as u64, expected);
        }
        let end = bytes.len() - 8;
        let (checksum, right) = (u64_at(bytes, end), xxh3_64_with_seed(&bytes[..end], salt));
        if checksum != right {
            return wrong("checksum of the list", checksum, right);
        }
        let listed = |at: &[u8]| Listed { number: u64_at(at, 0), bytes: u64_at(at, 8), checksum: u64_at(at, 16) };
        let segments: Vec<_> = bytes[MANIFEST_BYTES..end].chunks_exact(LISTED_BYTES).map(listed).collect();
        if let Some(unnamed) = segments.iter().find(|listed| listed.number >= next_number) {
            return wrong("number of a segment", unnamed.number, next_number);
        }
        let keys = Keys { key: digest_key([kind, low, high])?, salt };
        Ok(Manifest { keys, edition, next_number, next_span, sealed, journal, segments })
    }
}

/// Encodes the first key of a page.
pub(in crate::segments) fn index_entry((upper, lower): (u64, u32)) -> [u8; INDEX_BYTES] {
    let mut bytes = [0; INDEX_BYTES];
    put(&mut bytes, 0, &upper.to_le_bytes());
    put(&mut bytes, 8, &lower.to_le_bytes());
    bytes
}
