//! What is on the disk, byte for byte. Pure: bytes in, bytes out. All numbers are little-endian.
//!
//! ```text
//! segment   header, block, block, …
//! header    64 bytes: magic 8 | byte order 4 | version 4 | seed 8 | salt 8 | number 8 | created 8 | zero 8 | checksum 8
//! block     32 bytes: magic 4 | payload bytes 4 | number 8 | latest time 8 | checksum 8, then the payload: run, run, …
//! run       24 bytes: time 8 | lag 8 | count 4 | kind 1 | zero 3, then
//!           ids accepted or forgotten: 16 bytes an id: place 8 | mark 8 (count is how many)
//!           a position: bytes of its source 4 | source | position (count is all these bytes)
//!           nothing, if all ids were forgotten, or if it says what time it is
//! ```
//!
//! A block is what is written and synced at once. Its checksum covers its header and payload under the segment's salt, so that nothing that an
//! earlier file has left on the disk passes for a block. Blocks are numbered without gaps through all segments.

use crate::Timestamp;
use crate::clock::Reading;
use crate::digest::Digest;
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(super) const HEADER_BYTES: usize = 64;
pub(super) const BLOCK_HEADER_BYTES: usize = 32;
pub(super) const RUN_HEADER_BYTES: usize = 24;
pub(super) const ID_BYTES: usize = 16;

const MAGIC: [u8; 8] = *b"HAPAXJNL";
const BLOCK_MAGIC: [u8; 4] = *b"hxbk";
/// Reads as another number on a machine that writes the other way round.
const BYTE_ORDER: u32 = 0x0102_0304;
pub(super) const VERSION: u32 = 1;

/// What a segment begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Of the digests: secret, therefore the files are private.
    pub(super) seed: u64,
    /// Of the checksums: random.
    pub(super) salt: u64,
    /// Of its first block.
    pub(super) number: u64,
    /// In nanoseconds of the Unix epoch; for people.
    pub(super) created: u64,
}

/// Why something is no header of ours: what is wrong, what it is, what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotOurs {
    pub(super) what: &'static str,
    pub(super) got: String,
    pub(super) expected: String,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        self.encode_as(MAGIC)
    }

    /// The header of another kind of file.
    pub(super) fn encode_as(&self, magic: [u8; 8]) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&magic);
        put(&mut bytes, 8, &BYTE_ORDER.to_le_bytes());
        put(&mut bytes, 12, &VERSION.to_le_bytes());
        let words = [self.seed, self.salt, self.number, self.created];
        (16..).step_by(8).zip(words).for_each(|(at, word)| put(&mut bytes, at, &word.to_le_bytes()));
        let checksum = xxh3_64_with_seed(&bytes[..56], 0);
        put(&mut bytes, 56, &checksum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, NotOurs> {
        Self::decode_as(bytes, MAGIC)
    }

    pub(super) fn decode_as(bytes: &[u8; HEADER_BYTES], magic: [u8; 8]) -> Result<Self, NotOurs> {
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
        if version != VERSION {
            return wrong("version", &version, &VERSION);
        }
        let (checksum, expected) = (u64_at(bytes, 56), xxh3_64_with_seed(&bytes[..56], 0));
        if checksum != expected {
            return wrong("checksum of the header", &format_args!("{checksum:#x}"), &format_args!("{expected:#x}"));
        }
        let [seed, salt, number, created] = [16, 24, 32, 40].map(|at| u64_at(bytes, at));
        Ok(Header { seed, salt, number, created })
    }
}

/// What a block begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHeader {
    pub(super) payload_bytes: u32,
    pub(super) number: u64,
    /// The largest time in it.
    pub(super) latest: Timestamp,
    checksum: u64,
}

impl BlockHeader {
    /// Of a payload, which is shorter than 4 GiB.
    pub(super) fn of(payload: &[u8], number: u64, latest: Timestamp, salt: u64) -> Self {
        let header = BlockHeader { payload_bytes: payload.len() as u32, number, latest, checksum: 0 };
        BlockHeader { checksum: header.expected(payload, salt), ..header }
    }

    pub(super) fn encode(&self) -> [u8; BLOCK_HEADER_BYTES] {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        bytes[..4].copy_from_slice(&BLOCK_MAGIC);
        put(&mut bytes, 4, &self.payload_bytes.to_le_bytes());
        put(&mut bytes, 8, &self.number.to_le_bytes());
        put(&mut bytes, 16, &self.latest.as_nanos().to_le_bytes());
        put(&mut bytes, 24, &self.checksum.to_le_bytes());
        bytes
    }

    /// If it is one; whether its payload belongs to it, [`holds`](Self::holds) says.
    pub(super) fn decode(bytes: &[u8; BLOCK_HEADER_BYTES]) -> Option<Self> {
        let [number, latest, checksum] = [8, 16, 24].map(|at| u64_at(bytes, at));
        let header =
            BlockHeader { payload_bytes: u32_at(bytes, 4), number, latest: Timestamp::from_nanos(latest), checksum };
        (bytes[..4] == BLOCK_MAGIC).then_some(header)
    }

    pub(super) fn holds(&self, payload: &[u8], salt: u64) -> bool {
        self.checksum == self.expected(payload, salt)
    }

    fn expected(&self, payload: &[u8], salt: u64) -> u64 {
        let bytes = self.encode();
        xxh3_64_with_seed(&bytes[..24], xxh3_64_with_seed(payload, salt))
    }
}

/// What happened to the ids of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Accepted = 0,
    Forgotten = 1,
    /// All ids were. The run has none.
    Cleared = 2,
    /// How far a source of events has come.
    Position = 3,
    /// Stream time has come to here.
    Time = 4,
}

impl Kind {
    fn of(number: u8) -> Option<Self> {
        let all = [Kind::Accepted, Kind::Forgotten, Kind::Cleared, Kind::Position, Kind::Time];
        all.get(usize::from(number)).copied()
    }

    /// What follows the header of a run.
    fn body_bytes(self, count: u32) -> Option<usize> {
        match self {
            Kind::Accepted | Kind::Forgotten => (count as usize).checked_mul(ID_BYTES),
            Kind::Position => Some(count as usize),
            Kind::Cleared | Kind::Time => (count == 0).then_some(0),
        }
    }
}

/// Ids to which the same happened at the same time, or something else that happened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'p> {
    pub(super) kind: Kind,
    pub(super) at: Reading,
    body: &'p [u8],
}

impl<'p> Run<'p> {
    /// Of a run that has ids.
    pub(super) fn ids(&self) -> impl Iterator<Item = Digest> + use<'p> {
        self.id_bytes().chunks_exact(ID_BYTES).map(|id| Digest { place: u64_at(id, 0), mark: u64_at(id, 8) })
    }

    /// How many ids it has.
    pub(super) fn len(&self) -> u64 {
        (self.id_bytes().len() / ID_BYTES) as u64
    }

    fn id_bytes(&self) -> &'p [u8] {
        if matches!(self.kind, Kind::Accepted | Kind::Forgotten) { self.body } else { &[] }
    }

    /// Of a run that has one: a source, and how far it has come.
    pub(super) fn position(&self) -> Option<(&'p [u8], &'p [u8])> {
        if self.kind != Kind::Position {
            return None;
        }
        let (source_bytes, rest) = self.body.split_at_checked(4)?;
        rest.split_at_checked(u32_at(source_bytes, 0) as usize)
    }
}

/// The runs of a payload; `None` for what is none, after which there are no more.
pub(super) fn runs(mut payload: &[u8]) -> impl Iterator<Item = Option<Run<'_>>> {
    std::iter::from_fn(move || {
        if payload.is_empty() {
            return None;
        }
        let run = take_run(&mut payload);
        if run.is_none() {
            payload = &[];
        }
        Some(run)
    })
}

fn take_run<'p>(payload: &mut &'p [u8]) -> Option<Run<'p>> {
    let (header, rest) = payload.split_at_checked(RUN_HEADER_BYTES)?;
    let kind = Kind::of(header[20])?;
    let (body, rest) = rest.split_at_checked(kind.body_bytes(u32_at(header, 16))?)?;
    *payload = rest;
    let at = Reading { time: Timestamp::from_nanos(u64_at(header, 0)), lag_nanos: u64_at(header, 8) };
    let run = Run { kind, at, body };
    (kind != Kind::Position || run.position().is_some()).then_some(run)
}

/// A payload that is being made: runs that are alike become one.
#[derive(Debug, Default)]
pub(super) struct Payload {
    bytes: Vec<u8>,
    /// Where the last run begins, and what it is.
    last: Option<(usize, Kind, Timestamp, u64)>,
    latest: Timestamp,
    /// How much has happened: ids, and runs without ids.
    events: u64,
    has_positions: bool,
}

impl Payload {
    /// Adds ids that were accepted or forgotten. No ids are no run.
    pub(super) fn push(&mut self, kind: Kind, at: Reading, ids: impl IntoIterator<Item = Digest>) {
        let mut ids = ids.into_iter().peekable();
        if ids.peek().is_none() {
            return;
        }
        let this = (kind, at.time, at.lag_nanos);
        let start = match self.last {
            Some((start, kind, time, lag)) if (kind, time, lag) == this => start,
            _ => self.begin(kind, at),
        };
        let before = self.bytes.len();
        for id in ids {
            let mut bytes = [0; ID_BYTES];
            bytes[..8].copy_from_slice(&id.place.to_le_bytes());
            bytes[8..].copy_from_slice(&id.mark.to_le_bytes());
            self.bytes.extend_from_slice(&bytes);
        }
        let pushed = ((self.bytes.len() - before) / ID_BYTES) as u32;
        let ids = u32_at(&self.bytes, start + 16) + pushed;
        put(&mut self.bytes, start + 16, &ids.to_le_bytes());
        self.events += u64::from(pushed);
    }

    /// Adds what happened without ids: all were forgotten, or time went on.
    pub(super) fn push_event(&mut self, kind: Kind, at: Timestamp) {
        self.begin(kind, at.into());
        self.events += 1;
    }

    /// Adds how far a source has come. (Lengths are checked by then.)
    pub(super) fn push_position(&mut self, source: &[u8], position: &[u8]) {
        let start = self.begin(Kind::Position, Timestamp::default().into());
        let count = (4 + source.len() + position.len()) as u32;
        put(&mut self.bytes, start + 16, &count.to_le_bytes());
        self.bytes.extend_from_slice(&(source.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(source);
        self.bytes.extend_from_slice(position);
        self.events += 1;
        self.has_positions = true;
    }

    /// Adds another one, as a whole.
    pub(super) fn append(&mut self, other: &Payload) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.last = other.last.map(|(at, kind, time, lag)| (start + at, kind, time, lag)).or(self.last);
        self.latest = self.latest.max(other.latest);
        self.events += other.events;
        self.has_positions |= other.has_positions;
    }

    fn begin(&mut self, kind: Kind, at: Reading) -> usize {
        let start = self.bytes.len();
        let mut header = [0; RUN_HEADER_BYTES];
        put(&mut header, 0, &at.time.as_nanos().to_le_bytes());
        put(&mut header, 8, &at.lag_nanos.to_le_bytes());
        header[20] = kind as u8;
        self.bytes.extend_from_slice(&header);
        self.last = Some((start, kind, at.time, at.lag_nanos));
        self.latest = self.latest.max(at.time);
        start
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn latest(&self) -> Timestamp {
        self.latest
    }

    pub(super) fn events(&self) -> u64 {
        self.events
    }

    /// The positions in it, in order.
    pub(super) fn positions(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let bytes: &[u8] = if self.has_positions { &self.bytes } else { &[] };
        runs(bytes).flatten().filter_map(|run| run.position())
    }

    /// Empties it, and gives memory back beyond so many bytes.
    pub(super) fn reset(&mut self, keep_bytes: usize) {
        self.clear();
        self.bytes.shrink_to(keep_bytes);
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.last = None;
        self.latest = Timestamp::default();
        self.events = 0;
        self.has_positions = false;
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header { seed: 1, salt: 2, number: 3, created: 4 };

    #[test]
    fn a_header_is_what_it_was_made_of() {
        assert_eq!(Header::decode(&HEADER.encode()), Ok(HEADER));
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_refused_and_said() {
        for bit in 0..8 * HEADER_BYTES {
            let mut bytes = HEADER.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let refused = Header::decode(&bytes).unwrap_err();
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

    fn id(n: u64) -> Digest {
        Digest { place: n, mark: !n }
    }

    #[test]
    fn runs_that_are_alike_are_one() {
        let at = |secs, lag_nanos| Reading { time: Timestamp::from_secs(secs), lag_nanos };
        let mut payload = Payload::default();
        payload.push(Kind::Accepted, at(1, 0), [id(1), id(2)]);
        payload.push(Kind::Accepted, at(2, 0), []);
        assert_eq!(payload.events(), 2);
        payload.push(Kind::Accepted, at(1, 0), [id(3)]);
        payload.push(Kind::Accepted, at(1, 9), [id(4)]);
        payload.push(Kind::Forgotten, at(2, 9), [id(4)]);
        payload.push_event(Kind::Cleared, at(1, 0).time);
        payload.push_event(Kind::Cleared, at(1, 0).time);
        let all: Vec<_> = runs(payload.bytes()).map(Option::unwrap).collect();
        let kinds =
            all.iter().map(|run| (run.kind, run.at.time, run.at.lag_nanos, run.ids().map(|id| id.place).collect()));
        let t = Timestamp::from_secs;
        let expected: [(_, _, _, Vec<u64>); 5] = [
            (Kind::Accepted, t(1), 0, vec![1, 2, 3]),
            (Kind::Accepted, t(1), 9, vec![4]),
            (Kind::Forgotten, t(2), 9, vec![4]),
            (Kind::Cleared, t(1), 0, vec![]),
            (Kind::Cleared, t(1), 0, vec![]),
        ];
        assert_eq!(kinds.collect::<Vec<_>>(), expected);
        assert_eq!(payload.latest(), t(2));
        assert_eq!(all[0].len(), 3);
    }

    #[test]
    fn positions_are_runs_and_payloads_are_joined() {
        let (mut first, mut second) = (Payload::default(), Payload::default());
        first.push(Kind::Accepted, Timestamp::from_secs(1).into(), [id(1)]);
        second.push_position(b"source", b"17");
        second.push_position(b"", b"");
        second.push_event(Kind::Time, Timestamp::from_secs(9));
        second.push(Kind::Accepted, Timestamp::from_secs(2).into(), [id(2)]);
        first.append(&second);
        first.push(Kind::Accepted, Timestamp::from_secs(2).into(), [id(3)]);
        let all: Vec<_> = runs(first.bytes()).map(Option::unwrap).collect();
        assert_eq!(all.iter().map(Run::len).collect::<Vec<_>>(), [1, 0, 0, 0, 2]);
        assert_eq!((first.events(), first.latest()), (6, Timestamp::from_secs(9)));
        let positions: Vec<_> = first.positions().collect();
        assert_eq!(positions, [(&b"source"[..], &b"17"[..]), (b"", b"")]);
        let mut bytes = second.bytes().to_vec();
        put(&mut bytes, RUN_HEADER_BYTES, &9_u32.to_le_bytes());
        assert!(runs(&bytes).next().unwrap().is_none(), "its source is longer than the run");
    }

    #[test]
    fn what_is_no_run_ends_them() {
        let mut payload = Payload::default();
        payload.push(Kind::Accepted, Timestamp::from_secs(1).into(), [id(1)]);
        for cut in 1..payload.bytes().len() {
            let all: Vec<_> = runs(&payload.bytes()[..cut]).collect();
            assert!(matches!(all[..], [None]), "cut at {cut}");
        }
        let mut bytes = payload.bytes().to_vec();
        bytes[20] = 5;
        assert!(runs(&bytes).next().unwrap().is_none());
    }

    #[test]
    fn a_block_holds_its_payload_only() {
        let block = BlockHeader::of(b"payload", 7, Timestamp::from_secs(1), 99);
        assert_eq!(BlockHeader::decode(&block.encode()), Some(block));
        assert!(block.holds(b"payload", 99));
        assert!(!block.holds(b"payload", 98));
        assert!(!block.holds(b"payloaD", 99));
        assert!(!BlockHeader { number: 8, ..block }.holds(b"payload", 99));
    }
}
