//! The payload of a block: runs of ids to which the same happened, and events without ids. Pure.

use super::format::{ID_BYTES, RUN_HEADER_BYTES, put, u32_at, u64_at};
use crate::Timestamp;
use crate::clock::{Reading, Stamp, TimeBase};
use crate::digest::Digest;

/// The kind of event that happened to the ids of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Accepted = 0,
    Forgotten = 1,
    /// All ids were forgotten. The run has none.
    Cleared = 2,
    /// The position that a source of events has reached.
    Position = 3,
    /// Stream time has come to here.
    Time = 4,
    /// The way in which time is counted from now on.
    TimeBase = 5,
    /// Ids were accepted, each with a fingerprint.
    Fingerprinted = 6,
}

impl Kind {
    fn of(number: u8) -> Option<Self> {
        Some(match number {
            0 => Kind::Accepted,
            1 => Kind::Forgotten,
            2 => Kind::Cleared,
            3 => Kind::Position,
            4 => Kind::Time,
            5 => Kind::TimeBase,
            6 => Kind::Fingerprinted,
            _ => return None,
        })
    }

    /// Returns the number of bytes that follow the header of a run.
    fn body_bytes(self, count: u32) -> Option<usize> {
        match self {
            Kind::Accepted | Kind::Forgotten => (count as usize).checked_mul(ID_BYTES),
            Kind::Fingerprinted if !count.is_multiple_of(2) => None,
            Kind::Fingerprinted => (count as usize).checked_mul(ID_BYTES),
            Kind::Position => Some(count as usize),
            Kind::TimeBase => (count == 16).then_some(16),
            Kind::Cleared | Kind::Time => (count == 0).then_some(0),
        }
    }
}

/// A run: ids to which the same happened at the same time, or another event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'p> {
    pub(crate) kind: Kind,
    pub(crate) at: Reading,
    body: &'p [u8],
}

impl<'p> Run<'p> {
    /// Returns the ids of a run that has some.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Digest> + use<'p> {
        self.id_bytes().chunks_exact(ID_BYTES).map(|id| Digest { place: u64_at(id, 0), mark: u64_at(id, 8) })
    }

    /// Returns the ids of a run with fingerprints, each with its digest together with its
    /// fingerprint.
    pub(crate) fn fingerprinted(&self) -> impl Iterator<Item = (Digest, Digest)> + use<'p> {
        let body = if self.kind == Kind::Fingerprinted { self.body } else { &[] };
        let digest = |bytes: &[u8], at| Digest { place: u64_at(bytes, at), mark: u64_at(bytes, at + 8) };
        body.chunks_exact(2 * ID_BYTES).map(move |pair| (digest(pair, 0), digest(pair, ID_BYTES)))
    }

    /// Returns the number of its ids.
    pub(crate) fn len(&self) -> u64 {
        match self.kind {
            Kind::Fingerprinted => (self.body.len() / (2 * ID_BYTES)) as u64,
            _ => (self.id_bytes().len() / ID_BYTES) as u64,
        }
    }

    /// Returns the number of ids that it records as accepted.
    pub(crate) fn accepted(&self) -> u64 {
        if matches!(self.kind, Kind::Accepted | Kind::Fingerprinted) { self.len() } else { 0 }
    }

    fn id_bytes(&self) -> &'p [u8] {
        if matches!(self.kind, Kind::Accepted | Kind::Forgotten) { self.body } else { &[] }
    }

    /// Returns the way in which time is counted from then on, for a run that says so.
    pub(crate) fn time_base(&self) -> Option<TimeBase> {
        let is_one = self.kind == Kind::TimeBase;
        is_one.then(|| TimeBase { offset_nanos: u64_at(self.body, 0) as i64, kind: u64_at(self.body, 8) })
    }

    /// Returns a source, and how far it has come, for a run that says so.
    pub(crate) fn position(&self) -> Option<(&'p [u8], &'p [u8])> {
        if self.kind != Kind::Position {
            return None;
        }
        let (source_bytes, rest) = self.body.split_at_checked(4)?;
        rest.split_at_checked(u32_at(source_bytes, 0) as usize)
    }
}

/// Returns the runs of a payload; `None` for bytes that are no run, after which there are no more.
pub(crate) fn runs(mut payload: &[u8]) -> impl Iterator<Item = Option<Run<'_>>> {
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

/// A payload under construction: runs that are alike become one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Payload {
    bytes: Vec<u8>,
    /// The beginning of the last run, if that has ids, and its kind.
    last: Option<Last>,
    latest: Timestamp,
    /// The number of events: ids, and runs without ids.
    events: u64,
    /// The number of ids that were accepted.
    accepted: u64,
    has_positions: bool,
}

/// The last run. Ids that a window stamps alike are one run, at the latest time of any of them: so
/// a window with a finer tick forgets none of them early.
#[derive(Clone, Copy, Debug)]
struct Last {
    start: usize,
    kind: Kind,
    at: Stamp,
}

impl Payload {
    /// Adds ids that were accepted or forgotten. Without ids, no run is added.
    pub(crate) fn push(&mut self, kind: Kind, at: Stamp, ids: impl IntoIterator<Item = Digest>) {
        let mut ids = ids.into_iter().peekable();
        if ids.peek().is_none() {
            return;
        }
        let start = match &mut self.last {
            Some(last) if last.kind == kind && last.at.tick == at.tick => {
                let latest = last.at.reading.later(at.reading);
                last.at.reading = latest;
                let start = last.start;
                self.put_reading(start, latest);
                start
            }
            _ => {
                let start = self.begin(kind, at.reading);
                self.last = Some(Last { start, kind, at });
                start
            }
        };
        let before = self.bytes.len();
        for id in ids {
            let mut bytes = [0; ID_BYTES];
            bytes[..8].copy_from_slice(&id.place.to_le_bytes());
            bytes[8..].copy_from_slice(&id.mark.to_le_bytes());
            self.bytes.extend_from_slice(&bytes);
        }
        #[expect(clippy::cast_possible_truncation, reason = "payloads are shorter than 4 GiB")]
        let pushed = ((self.bytes.len() - before) / ID_BYTES) as u32;
        debug_assert!(kind != Kind::Fingerprinted || pushed.is_multiple_of(2), "an id and its digest");
        let ids = u32_at(&self.bytes, start + 16) + pushed;
        put(&mut self.bytes, start + 16, &ids.to_le_bytes());
        self.events += u64::from(pushed);
        self.accepted += match kind {
            Kind::Accepted => u64::from(pushed),
            Kind::Fingerprinted => u64::from(pushed / 2),
            _ => 0,
        };
    }

    /// Adds an event without ids: all were forgotten, or time went on.
    pub(crate) fn push_event(&mut self, kind: Kind, at: Timestamp) {
        self.begin(kind, at.into());
        self.events += 1;
    }

    /// Adds how far a source has come. (The lengths were checked before.)
    #[expect(clippy::cast_possible_truncation, reason = "the lengths were checked before")]
    pub(crate) fn push_position(&mut self, source: &[u8], position: &[u8]) {
        let start = self.begin(Kind::Position, Timestamp::default().into());
        let count = (4 + source.len() + position.len()) as u32;
        put(&mut self.bytes, start + 16, &count.to_le_bytes());
        self.bytes.extend_from_slice(&(source.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(source);
        self.bytes.extend_from_slice(position);
        self.events += 1;
        self.has_positions = true;
    }

    /// Adds the way in which time is counted from now on.
    pub(crate) fn push_time_base(&mut self, base: TimeBase) {
        let start = self.begin(Kind::TimeBase, Timestamp::default().into());
        put(&mut self.bytes, start + 16, &16_u32.to_le_bytes());
        self.bytes.extend_from_slice(&base.offset_nanos.to_le_bytes());
        self.bytes.extend_from_slice(&base.kind.to_le_bytes());
        self.events += 1;
    }

    /// Adds another payload, as a whole.
    pub(crate) fn append(&mut self, other: &Payload) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        if !other.bytes.is_empty() {
            self.last = other.last.map(|last| Last { start: start + last.start, ..last });
        }
        self.latest = self.latest.max(other.latest);
        self.events += other.events;
        self.accepted += other.accepted;
        self.has_positions |= other.has_positions;
    }

    fn begin(&mut self, kind: Kind, at: Reading) -> usize {
        let start = self.bytes.len();
        let mut header = [0; RUN_HEADER_BYTES];
        header[20] = kind as u8;
        self.bytes.extend_from_slice(&header);
        self.put_reading(start, at);
        self.last = None;
        start
    }

    fn put_reading(&mut self, start: usize, at: Reading) {
        put(&mut self.bytes, start, &at.time.as_nanos().to_le_bytes());
        put(&mut self.bytes, start + 8, &at.lag_nanos.to_le_bytes());
        self.latest = self.latest.max(at.time);
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.accepted
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn latest(&self) -> Timestamp {
        self.latest
    }

    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// Returns the positions in it, in order.
    pub(crate) fn positions(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let bytes: &[u8] = if self.has_positions { &self.bytes } else { &[] };
        runs(bytes).flatten().filter_map(|run| run.position())
    }

    /// Empties it, and gives back memory beyond `keep_bytes`.
    pub(crate) fn reset(&mut self, keep_bytes: usize) {
        self.clear();
        self.bytes.shrink_to(keep_bytes);
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.last = None;
        self.latest = Timestamp::default();
        self.events = 0;
        self.accepted = 0;
        self.has_positions = false;
    }
}

#[cfg(all(test, not(any(modelled, alone))))]
mod tests {
    use super::*;

    fn stamp(reading: Reading, tick: u64) -> Stamp {
        Stamp { reading, tick }
    }

    fn at_second(second: u64) -> Stamp {
        stamp(Timestamp::from_secs(second).into(), second)
    }

    #[test]
    fn a_run_is_at_the_latest_reading_of_its_tick() {
        let mut payload = Payload::default();
        for (time, lag_nanos) in [(10, 3), (12, 0), (11, 7), (9, 0)] {
            let reading = Reading { time: Timestamp::from_nanos(time), lag_nanos };
            payload.push(Kind::Accepted, stamp(reading, 5), [id(time)]);
        }
        let all: Vec<_> = runs(payload.bytes()).map(Option::unwrap).collect();
        let [run] = all[..] else { panic!("{all:?}") };
        assert_eq!((run.at.time, run.at.lag_nanos, run.len()), (Timestamp::from_nanos(12), 6, 4));
    }

    fn id(n: u64) -> Digest {
        Digest { place: n, mark: !n }
    }

    #[test]
    fn runs_that_are_alike_are_one() {
        let at = |secs, lag_nanos| stamp(Reading { time: Timestamp::from_secs(secs), lag_nanos }, secs);
        let mut payload = Payload::default();
        payload.push(Kind::Accepted, at(1, 0), [id(1), id(2)]);
        payload.push(Kind::Accepted, at(2, 0), []);
        assert_eq!(payload.events(), 2);
        payload.push(Kind::Accepted, at(1, 0), [id(3)]);
        payload.push(Kind::Accepted, stamp(Reading { time: Timestamp::from_millis(1_500), lag_nanos: 9 }, 7), [id(4)]);
        payload.push(Kind::Accepted, stamp(Reading { time: Timestamp::from_millis(1_400), lag_nanos: 8 }, 7), []);
        payload.push(Kind::Forgotten, at(2, 9), [id(4)]);
        payload.push_event(Kind::Cleared, Timestamp::from_secs(1));
        payload.push_event(Kind::Cleared, Timestamp::from_secs(1));
        let all: Vec<_> = runs(payload.bytes()).map(Option::unwrap).collect();
        let kinds =
            all.iter().map(|run| (run.kind, run.at.time, run.at.lag_nanos, run.ids().map(|id| id.place).collect()));
        let t = Timestamp::from_secs;
        let expected: [(_, _, _, Vec<u64>); 5] = [
            (Kind::Accepted, t(1), 0, vec![1, 2, 3]),
            (Kind::Accepted, Timestamp::from_millis(1_500), 9, vec![4]),
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
        first.push(Kind::Accepted, at_second(1), [id(1)]);
        second.push_position(b"source", b"17");
        second.push_position(b"", b"");
        second.push_event(Kind::Time, Timestamp::from_secs(9));
        second.push(Kind::Accepted, at_second(2), [id(2)]);
        first.append(&second);
        first.push(Kind::Accepted, at_second(2), [id(3)]);
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
        payload.push(Kind::Accepted, at_second(1), [id(1)]);
        for cut in 1..payload.bytes().len() {
            let all: Vec<_> = runs(&payload.bytes()[..cut]).collect();
            assert!(matches!(all[..], [None]), "cut at {cut}");
        }
        let mut bytes = payload.bytes().to_vec();
        bytes[20] = 6;
        assert!(runs(&bytes).next().unwrap().is_none());
    }
}
