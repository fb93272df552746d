//! The format on the disk, byte for byte. Pure: bytes in, bytes out. All numbers are little-endian.
//!
//! ```text
//! segment   header, block, block, …
//! header    104 bytes: magic 8 | byte order 4 | version 4 | kind of digests 8 | their key 16 | salt 8 | number 8
//!           | created 8 | ids 8 | boot 8 | time's offset 8 | time's kind 8 | checksum 8
//! block     88 bytes: magic 4 | payload bytes 4 | number 8 | skipped 8 | ids 8 | first 8 | ids before the first 8
//!           | latest time 8 | clocks: engine 8, wall 8, since boot 8 | checksum 8, then the payload: run, run, …
//! run       24 bytes: time 8 | lag 8 | count 4 | kind 1 | zero 3, then
//!           ids accepted or forgotten: 16 bytes an id: place 8 | mark 8 (count is how many)
//!           a position: bytes of its source 4 | source | position (count is all these bytes)
//!           how time is counted: offset 8 | kind 8 (count is 16)
//!           ids accepted with a fingerprint: 32 bytes an id: place 8 | mark 8 | digest with it 16 (count is twice as many)
//!           nothing, if all ids were forgotten, or if it says what time it is
//! mark      112 bytes: magic 8 | byte order 4 | version 4 | kind of digests 8 | their key 16
//!           | salt 8 | clean 8 | number 8 | ids 8 | first 8 | ids before the first 8
//!           | gap: its first block 8, the first after it 8 | checksum 8
//! ```
//!
//! A block is written and synced as one. Its checksum covers its header and payload under the
//! journal's salt, so that data that another journal has left on the disk never passes for a block.
//! All files of a journal have the same salt, so that blocks can be told from other bytes even if
//! their file's header is gone. Blocks are numbered without gaps through all segments, and each
//! records how many ids were accepted before it in the journal's life: so it is known what is
//! missing, and how much. A block that stands for others, which are known to be lost, says how many
//! numbers before its own it stands for; its own payload is empty then, and its ids include theirs.
//!
//! The mark is a small file that is replaced as a whole. It names the file that was begun last,
//! which is there from then on, and says that all before it is complete; or, after a clean stop, up
//! to which block everything is. So a file that is missing at the end, or a tail, is told from what
//! a crash leaves. It also has the blocks that were lost while an engine ran, as somebody was told.

use super::gap::Gap;
use crate::Timestamp;
use crate::clock::{Clocks, TimeBase};
use crate::digest::DigestKey;
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(crate) const HEADER_BYTES: usize = 104;
pub(crate) const BLOCK_HEADER_BYTES: usize = 88;
pub(crate) const RUN_HEADER_BYTES: usize = 24;
pub(crate) const ID_BYTES: usize = 16;
pub(crate) const MARK_BYTES: usize = 112;

const MAGIC: [u8; 8] = *b"HAPAXJNL";
const MARK_MAGIC: [u8; 8] = *b"HAPAXMRK";
pub(crate) const BLOCK_MAGIC: [u8; 4] = *b"hxbk";
/// A word that reads as another number on a machine of the other byte order.
const BYTE_ORDER: u32 = 0x0102_0304;
pub(crate) const VERSION: u32 = 1;

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The key of the digests: secret, therefore the files are private.
    pub(crate) key: DigestKey,
    /// The salt of the checksums: random, one for all of a journal.
    pub(crate) salt: u64,
    /// The number of its first block.
    pub(crate) number: u64,
    /// The time of creation in nanoseconds since the Unix epoch; for people.
    pub(crate) created: u64,
    /// The number of ids that were accepted before it.
    pub(crate) ids: u64,
    /// A hash of the boot of the machine in which it was begun; 0 is unknown.
    pub(crate) boot: u64,
    /// The way in which time was counted then.
    pub(crate) time: TimeBase,
}

/// The reason why something is no header of ours: what is wrong, its value, the expected value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotOurs {
    pub(crate) what: &'static str,
    pub(crate) got: String,
    pub(crate) expected: String,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let time = [self.time.offset_nanos as u64, self.time.kind];
        let [kind, low, high] = self.key.words();
        let Header { salt, number, created, ids, boot, .. } = *self;
        seal(MAGIC, [kind, low, high, salt, number, created, ids, boot, time[0], time[1]])
    }

    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, NotOurs> {
        let [kind, low, high, salt, number, created, ids, boot, offset, time] = unseal::<10>(bytes, MAGIC)?;
        let (key, time) = (digest_key([kind, low, high])?, TimeBase { offset_nanos: offset as i64, kind: time });
        within_reach([number, ids])?;
        Ok(Header { key, salt, number, created, ids, boot, time })
    }
}

/// The point that a journal has reached for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) key: DigestKey,
    pub(crate) salt: u64,
    /// True if all before `number` is there, and nothing was written from it on. Otherwise a file
    /// was begun with it.
    pub(crate) is_clean: bool,
    pub(crate) number: u64,
    /// The number of ids that were accepted before it.
    pub(crate) ids: u64,
    /// The oldest block that was kept then.
    pub(crate) first: u64,
    pub(crate) first_ids: u64,
    pub(crate) gap: Gap,
}

impl Mark {
    pub(crate) fn encode(&self) -> [u8; MARK_BYTES] {
        let clean = u64::from(self.is_clean);
        let [kind, low, high] = self.key.words();
        let Mark { salt, number, ids, first, first_ids, gap: Gap { from, upto }, .. } = *self;
        seal(MARK_MAGIC, [kind, low, high, salt, clean, number, ids, first, first_ids, from, upto])
    }

    pub(crate) fn decode(bytes: &[u8; MARK_BYTES]) -> Result<Self, NotOurs> {
        let [kind, low, high, salt, clean, number, ids, first, first_ids, from, upto] =
            unseal::<11>(bytes, MARK_MAGIC)?;
        within_reach([number, ids, first, first_ids])?;
        within_reach([from, upto])?;
        let (key, gap) = (digest_key([kind, low, high])?, Gap { from, upto });
        Ok(Mark { key, salt, is_clean: clean != 0, number, ids, first, first_ids, gap })
    }
}

pub(crate) fn digest_key(words: [u64; 3]) -> Result<DigestKey, NotOurs> {
    DigestKey::from_words(words).ok_or_else(|| NotOurs {
        what: "kind of digests",
        got: words[0].to_string(),
        expected: "1 or 2".into(),
    })
}

/// The bound of numbers. No journal reaches this block number, nor this many ids, in a thousand
/// years: so sums with them cannot overflow.
pub(crate) const REACH: u64 = 1 << 62;

/// Checks numbers from a file, whose checksum somebody else may have made.
pub(crate) fn within_reach<const N: usize>(numbers: [u64; N]) -> Result<(), NotOurs> {
    match numbers.into_iter().find(|&number| number >= REACH) {
        None => Ok(()),
        Some(got) => Err(NotOurs { what: "number", got: got.to_string(), expected: format!("less than {REACH}") }),
    }
}

/// Seals words: between the magic bytes of their kind and a checksum.
fn seal<const WORDS: usize, const BYTES: usize>(magic: [u8; 8], words: [u64; WORDS]) -> [u8; BYTES] {
    seal_as(magic, VERSION, words)
}

/// Seals words of another format, which has versions of its own.
pub(crate) fn seal_as<const WORDS: usize, const BYTES: usize>(
    magic: [u8; 8],
    version: u32,
    words: [u64; WORDS],
) -> [u8; BYTES] {
    const { assert!(BYTES == 16 + 8 * WORDS + 8) };
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&magic);
    put(&mut bytes, 8, &BYTE_ORDER.to_le_bytes());
    put(&mut bytes, 12, &version.to_le_bytes());
    (16..).step_by(8).zip(words).for_each(|(at, word)| put(&mut bytes, at, &word.to_le_bytes()));
    let checksum = xxh3_64_with_seed(&bytes[..BYTES - 8], 0);
    put(&mut bytes, BYTES - 8, &checksum.to_le_bytes());
    bytes
}

fn unseal<const WORDS: usize>(bytes: &[u8], magic: [u8; 8]) -> Result<[u64; WORDS], NotOurs> {
    const OTHERS: &str = "this program reads no other; begin another journal";
    unseal_as(bytes, magic, (VERSION, OTHERS))
}

/// Unseals words of a format; its version goes with what is to be done about another one.
pub(crate) fn unseal_as<const WORDS: usize>(
    bytes: &[u8],
    magic: [u8; 8],
    (expected, others): (u32, &str),
) -> Result<[u64; WORDS], NotOurs> {
    let wrong = |what, got: &dyn std::fmt::Display, expected: &dyn std::fmt::Display| {
        Err(NotOurs { what, got: got.to_string(), expected: expected.to_string() })
    };
    if bytes[..8] != magic {
        return wrong("magic", &bytes[..8].escape_ascii(), &magic.escape_ascii());
    }
    let (order, version) = (u32_at(bytes, 8), u32_at(bytes, 12));
    if order != BYTE_ORDER {
        return wrong("byte order", &format_args!("{order:#x}"), &format_args!("{BYTE_ORDER:#x}"));
    }
    if version != expected {
        return wrong("version", &version, &format_args!("{expected}: {others}"));
    }
    let end = bytes.len() - 8;
    let (checksum, expected) = (u64_at(bytes, end), xxh3_64_with_seed(&bytes[..end], 0));
    if checksum != expected {
        return wrong("checksum of the header", &format_args!("{checksum:#x}"), &format_args!("{expected:#x}"));
    }
    Ok(std::array::from_fn(|i| u64_at(bytes, 16 + 8 * i)))
}

/// The header of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    pub(crate) payload_bytes: u32,
    pub(crate) number: u64,
    /// The number of blocks before its own that it stands for, which are known to be lost.
    pub(crate) skipped: u64,
    /// The number of ids that were accepted before it, in the journal's life.
    pub(crate) ids: u64,
    /// The oldest block that is still kept.
    pub(crate) first: u64,
    /// The number of ids that were accepted before that.
    pub(crate) first_ids: u64,
    /// The largest time in it.
    pub(crate) latest: Timestamp,
    /// The time when it was written.
    pub(crate) clocks: Clocks,
    pub(crate) checksum: u64,
}

impl BlockHeader {
    /// Seals the header for a payload, which is shorter than 4 GiB.
    #[expect(clippy::cast_possible_truncation, reason = "payloads are shorter than 4 GiB")]
    pub(crate) fn seal(self, payload: &[u8], salt: u64) -> Self {
        let header = BlockHeader { payload_bytes: payload.len() as u32, checksum: 0, ..self };
        BlockHeader { checksum: header.expected(payload, salt), ..header }
    }

    pub(crate) fn encode(&self) -> [u8; BLOCK_HEADER_BYTES] {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        bytes[..4].copy_from_slice(&BLOCK_MAGIC);
        put(&mut bytes, 4, &self.payload_bytes.to_le_bytes());
        let Clocks { engine, wall_nanos, boot_nanos } = self.clocks;
        let counts = [self.number, self.skipped, self.ids, self.first, self.first_ids];
        let times = [self.latest.as_nanos(), engine.as_nanos(), wall_nanos, boot_nanos, self.checksum];
        let words = counts.into_iter().chain(times);
        (8..).step_by(8).zip(words).for_each(|(at, word)| put(&mut bytes, at, &word.to_le_bytes()));
        bytes
    }

    /// Decodes a header, if it is one; [`holds`](Self::holds) says whether its payload belongs to
    /// it.
    pub(crate) fn decode(bytes: &[u8; BLOCK_HEADER_BYTES]) -> Option<Self> {
        let [number, skipped, ids, first, first_ids, latest, engine, wall_nanos, boot_nanos, checksum] =
            std::array::from_fn(|i| u64_at(bytes, 8 + 8 * i));
        let clocks = Clocks { engine: Timestamp::from_nanos(engine), wall_nanos, boot_nanos };
        let latest = Timestamp::from_nanos(latest);
        let payload_bytes = u32_at(bytes, 4);
        let header = BlockHeader { payload_bytes, number, skipped, ids, first, first_ids, latest, clocks, checksum };
        // A block that stands for others has no payload of its own, and the others have numbers.
        let may_skip = skipped == 0 || (skipped <= number && payload_bytes == 0);
        let is_possible = may_skip && within_reach([number, ids, first, first_ids]).is_ok();
        (bytes[..4] == BLOCK_MAGIC && is_possible).then_some(header)
    }

    pub(crate) fn holds(&self, payload: &[u8], salt: u64) -> bool {
        self.checksum == self.expected(payload, salt)
    }

    fn expected(&self, payload: &[u8], salt: u64) -> u64 {
        let bytes = self.encode();
        xxh3_64_with_seed(&bytes[..BLOCK_HEADER_BYTES - 8], xxh3_64_with_seed(payload, salt))
    }

    /// Returns true if it stands for blocks that are lost: no other one is empty.
    pub(crate) fn is_stand_in(&self) -> bool {
        self.payload_bytes == 0
    }

    /// Returns the first number that it is or stands for.
    pub(crate) fn start(&self) -> u64 {
        self.number.saturating_sub(self.skipped)
    }
}

pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// Returns some bytes, whose bounds are checked once.
#[inline]
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..at + N].first_chunk().unwrap_or(&[0; N])
}

#[cfg(all(test, not(any(modelled, alone))))]
mod tests {
    use super::*;

    const KEY: DigestKey = DigestKey { kind: crate::digest::DigestKind::Keyed, bits: 1 << 64 | 2 };
    const HEADER: Header = Header {
        key: KEY,
        salt: 2,
        number: 3,
        created: 4,
        ids: 5,
        boot: 6,
        time: TimeBase { offset_nanos: -7, kind: 1 },
    };
    const GAP: Gap = Gap { from: 7, upto: 8 };
    const MARK: Mark = Mark { key: KEY, salt: 2, is_clean: true, number: 3, ids: 4, first: 5, first_ids: 6, gap: GAP };
    /// The step between tested bits: Miri tests only some.
    const EVERY: usize = if cfg!(miri) { 61 } else { 1 };

    #[test]
    fn headers_and_marks_are_what_they_were_made_of() {
        assert_eq!(Header::decode(&HEADER.encode()), Ok(HEADER));
        assert_eq!(Mark::decode(&MARK.encode()), Ok(MARK));
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_refused_and_said() {
        fn all<const BYTES: usize>(valid: [u8; BYTES], decode: impl Fn(&[u8; BYTES]) -> Option<NotOurs>) {
            for bit in (0..8 * BYTES).step_by(EVERY) {
                let mut bytes = valid;
                bytes[bit / 8] ^= 1 << (bit % 8);
                let refused = decode(&bytes).unwrap();
                let what = ["magic", "byte order", "version", "checksum of the header"][match bit / 8 {
                    0..8 => 0,
                    8..12 => 1,
                    12..16 => 2,
                    _ => 3,
                }];
                assert_eq!(refused.what, what, "bit {bit}");
                assert_ne!(refused.got, refused.expected);
            }
        }
        all(HEADER.encode(), |bytes| Header::decode(bytes).err());
        all(MARK.encode(), |bytes| Mark::decode(bytes).err());
    }

    #[test]
    fn numbers_that_no_journal_reaches_are_refused_with_a_right_checksum_too() {
        for beyond in [REACH, i64::MAX as u64, u64::MAX] {
            for header in [Header { number: beyond, ..HEADER }, Header { ids: beyond, ..HEADER }] {
                assert_eq!(Header::decode(&header.encode()).unwrap_err().what, "number");
            }
            let gap = Gap { upto: beyond, ..GAP };
            for mark in [Mark { number: beyond, ..MARK }, Mark { first_ids: beyond, ..MARK }, Mark { gap, ..MARK }] {
                assert_eq!(Mark::decode(&mark.encode()).unwrap_err().what, "number");
            }
            let skipping = BlockHeader { number: 5, skipped: 6, ..BlockHeader::default() };
            assert_eq!(BlockHeader::decode(&skipping.encode()), None, "more blocks than there are numbers");
            let skipping = BlockHeader { number: 5, skipped: 5, ..BlockHeader::default() };
            assert_eq!(BlockHeader::decode(&skipping.encode()), Some(skipping));
            assert_eq!(BlockHeader::decode(&skipping.seal(b"run", 99).encode()), None);
            let block = BlockHeader { number: beyond, ..BlockHeader::default() }.seal(b"", 99);
            assert_eq!(BlockHeader::decode(&block.encode()), None);
        }
    }

    #[test]
    fn a_block_holds_its_payload_only() {
        let clocks = Clocks { engine: Timestamp::from_secs(7), wall_nanos: 8, boot_nanos: 9 };
        let (skipped, ids, first, first_ids) = (0, 2, 3, 4);
        let latest = Timestamp::from_secs(1);
        let block = BlockHeader { number: 7, skipped, ids, first, first_ids, latest, clocks, ..BlockHeader::default() };
        let block = block.seal(b"payload", 99);
        assert_eq!(BlockHeader::decode(&block.encode()), Some(block));
        assert!(block.holds(b"payload", 99));
        assert!(!block.holds(b"payload", 98));
        assert!(!block.holds(b"payloaD", 99));
        for bit in (32..8 * BLOCK_HEADER_BYTES).step_by(EVERY) {
            let mut bytes = block.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let block = BlockHeader::decode(&bytes);
            assert!(block.is_none_or(|block| !block.holds(b"payload", 99)), "bit {bit}");
        }
    }
}
