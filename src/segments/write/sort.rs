//! Puts the events of a span into the order of their keys, in bounded memory: by reading the span
//! several times, a range of keys each.

#![allow(clippy::cast_possible_truncation, reason = "events that are in memory, and ranges of places")]

use crate::digest::Digest;
use crate::segments::encoding::key::{Key, PLACE_BITS, Scale, TOMBSTONE};
use crate::segments::encoding::page::Entry;
use crate::{SegmentError, Timestamp};
use std::borrow::Cow;
use std::ops::Range;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The id was accepted.
    Accepted,
    /// The id was forgotten.
    Forgotten,
}

/// A thing that happened to an id.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The id.
    pub digest: Digest,
    /// The time at which it was accepted; without a meaning if it was forgotten.
    pub time: Timestamp,
    /// The kind of the event.
    pub kind: EventKind,
}

/// The events of a closed span of time, in the order in which they happened. They are read several
/// times, and are the same each time.
pub trait Span {
    /// Calls a function with each event.
    ///
    /// # Errors
    ///
    /// That of reading, which ends the sealing.
    fn read(&mut self, each: &mut dyn FnMut(Event)) -> Result<(), SegmentError>;
}

impl Span for &[Event] {
    fn read(&mut self, each: &mut dyn FnMut(Event)) -> Result<(), SegmentError> {
        self.iter().for_each(|event| each(*event));
        Ok(())
    }
}

/// The upper bits of places by which the events of a span are counted, and put apart: so few that
/// the lines that are written to stay in the cache, and so many that a part does.
const PART_BITS: u32 = 12;

/// The bytes that sorting takes for an event.
const EVENT_BYTES: u64 = size_of::<u128>() as u64;

/// The extent of a span, and how many events it has in each part of the places.
pub(in crate::segments) struct Extent {
    pub(in crate::segments) events: u64,
    /// The first and the last time at which an id was accepted.
    times: Option<(Timestamp, Timestamp)>,
    counts: Box<[usize]>,
}

/// Returns the part of the places that a key is in.
fn part_of(key: Key) -> usize {
    (key.place() >> (PLACE_BITS - PART_BITS)) as usize
}

impl Extent {
    /// Reads a span, for its extent alone.
    pub(in crate::segments) fn of(span: &mut dyn Span) -> Result<Self, SegmentError> {
        let mut extent = Extent { events: 0, times: None, counts: vec![0; 1 << PART_BITS].into() };
        span.read(&mut |event| {
            extent.events += 1;
            extent.counts[part_of(Key::of(event.digest))] += 1;
            if event.kind == EventKind::Accepted {
                let (first, last) = extent.times.unwrap_or((event.time, event.time));
                extent.times = Some((first.min(event.time), last.max(event.time)));
            }
        })?;
        Ok(extent)
    }

    /// Returns the first and the last time; the origin, if nothing was accepted.
    pub(in crate::segments) fn times(&self) -> (Timestamp, Timestamp) {
        self.times.unwrap_or_default()
    }

    /// Returns the parts, from one on, that are sorted with one reading: as many as memory has room
    /// for, and at least one.
    fn fitting(&self, from: usize, bytes_max: u64) -> Range<usize> {
        let events_max = usize::try_from(bytes_max / EVENT_BYTES).unwrap_or(usize::MAX);
        let mut events: usize = 0;
        let fitting = self.counts[from..].iter().take_while(|count| {
            events = events.saturating_add(**count);
            events <= events_max
        });
        from..from + fitting.count().max(1)
    }
}

/// Calls a function with the last event of each id, in the order of keys. Takes about as many bytes
/// of memory as it may, if digests are uniform.
pub(in crate::segments) fn sorted(
    span: &mut dyn Span,
    extent: &Extent,
    scale: Scale,
    bytes_max: u64,
    each: &mut dyn FnMut(Entry) -> Result<(), SegmentError>,
) -> Result<(), SegmentError> {
    let (mut parted, mut ordered, mut from) = (Parted::default(), Vec::new(), 0);
    while from < extent.counts.len() {
        let parts = extent.fitting(from, bytes_max);
        from = parts.end;
        parted.clear(&extent.counts[parts.clone()]);
        span.read(&mut |event| {
            let key = Key::of(event.digest);
            if parts.contains(&part_of(key)) {
                let tick = match event.kind {
                    EventKind::Accepted => scale.tick(event.time),
                    EventKind::Forgotten => TOMBSTONE,
                };
                parted.push(part_of(key) - parts.start, key.with(tick));
            }
        })?;
        for part in 0..parts.len() {
            let ordered = sort(parted.of(part), &mut ordered);
            for (i, packed) in ordered.iter().enumerate() {
                let (key, tick) = Key::unpack(*packed);
                // Of several events of an id the last counts.
                if ordered.get(i + 1).is_none_or(|next| Key::unpack(*next).0 != key) {
                    each((key, tick))?;
                }
            }
        }
    }
    Ok(())
}

/// Packed events, each where its part has room for it: so each is in memory once. Those of a part
/// are in the order in which they came.
#[derive(Default)]
struct Parted {
    events: Vec<u128>,
    rooms: Vec<Room>,
    /// The events, with their parts, that their parts have no room for: those of a span that is not
    /// the same at each reading.
    beyond: Vec<(usize, u128)>,
}

/// The place of a part's events: from `start`, filled up to `next`.
struct Room {
    start: usize,
    next: usize,
    end: usize,
}

impl Parted {
    /// Makes room for so many events of each part.
    fn clear(&mut self, counts: &[usize]) {
        self.rooms.clear();
        self.beyond.clear();
        let mut start = 0;
        self.rooms.extend(counts.iter().map(|count| {
            let room = Room { start, next: start, end: start + count };
            start = room.end;
            room
        }));
        self.events.resize(start, 0);
    }

    fn push(&mut self, part: usize, packed: u128) {
        let room = &mut self.rooms[part];
        if room.next == room.end {
            return self.beyond.push((part, packed));
        }
        self.events[room.next] = packed;
        room.next += 1;
    }

    /// Returns the events of a part.
    fn of(&mut self, part: usize) -> Cow<'_, [u128]> {
        let Room { start, next, .. } = self.rooms[part];
        let events = &self.events[start..next];
        if self.beyond.is_empty() {
            return events.into();
        }
        let beyond = self.beyond.iter().filter(|(of, _)| *of == part).map(|(_, packed)| *packed);
        events.iter().copied().chain(beyond).collect::<Vec<_>>().into()
    }
}

/// Sorts the events of a part by their keys; those of one key stay in their order. They are put
/// apart once more, by the next bits of their places, so that few are left to be compared.
fn sort<'o>(events: Cow<'_, [u128]>, ordered: &'o mut Vec<u128>) -> &'o [u128] {
    let bits = (events.len() / 2).checked_ilog2().unwrap_or(0).min(PLACE_BITS - PART_BITS);
    let shift = PLACE_BITS - PART_BITS - bits;
    let bucket = |packed: u128| (Key::unpack(packed).0.place() >> shift) as usize & ((1 << bits) - 1);
    let mut ends = vec![0; (1 << bits) + 1];
    events.iter().for_each(|packed| ends[bucket(*packed) + 1] += 1);
    (1..ends.len()).for_each(|i| ends[i] += ends[i - 1]);
    if ordered.len() < events.len() {
        ordered.resize(events.len(), 0);
    }
    let ordered = &mut ordered[..events.len()];
    // From here on `ends[i]` is where the next event of bucket `i` goes: at last, where it ends.
    for packed in events.iter() {
        let next = &mut ends[bucket(*packed)];
        ordered[*next] = *packed;
        *next += 1;
    }
    let mut start = 0;
    for end in &ends[..1 << bits] {
        ordered[start..*end].sort_by_key(|packed| packed >> 16);
        start = *end;
    }
    ordered
}

#[cfg(all(test, not(any(modelled, alone))))]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::BTreeMap;

    #[test]
    fn the_last_event_of_each_id_comes_in_order_in_any_number_of_passes() {
        let mut random = Random::new(4);
        for (events, ids, bytes_max) in
            [(0, 1, 1), (1, 1, 1), (5_000, 3_000, 1 << 20), (5_000, 3_000, 9_000), (300, 9, 1)]
        {
            let digests: Vec<_> = (0..ids)
                .map(|i| Digest { place: if i % 7 == 0 { u64::MAX } else { random.next() }, mark: random.next() })
                .collect();
            let events: Vec<_> = (0..events)
                .map(|n| Event {
                    digest: digests[random.below(ids) as usize],
                    time: Timestamp::from_nanos(n),
                    kind: if random.chance(20) { EventKind::Forgotten } else { EventKind::Accepted },
                })
                .collect();
            let mut expected = BTreeMap::new();
            let mut span = &events[..];
            let extent = Extent::of(&mut span).unwrap();
            let scale = Scale::of(extent.times().0, extent.times().1);
            for event in &events {
                let tick = if event.kind == EventKind::Forgotten { TOMBSTONE } else { scale.tick(event.time) };
                expected.insert(Key::of(event.digest), tick);
            }
            let mut got = Vec::new();
            sorted(&mut span, &extent, scale, bytes_max, &mut |entry| {
                got.push(entry);
                Ok(())
            })
            .unwrap();
            assert_eq!(got, expected.into_iter().collect::<Vec<_>>());
        }
    }

    /// A span that counts how often it is read, and has other events from the second time on, if it
    /// is told to.
    struct Read<'e> {
        events: [&'e [Event]; 2],
        times: usize,
    }

    impl Span for Read<'_> {
        fn read(&mut self, each: &mut dyn FnMut(Event)) -> Result<(), SegmentError> {
            self.times += 1;
            self.events[usize::from(self.times > 1)].iter().for_each(|event| each(*event));
            Ok(())
        }
    }

    fn accepted(random: &mut Random, events: u64) -> Vec<Event> {
        let mut digest = || Digest { place: random.next(), mark: random.next() };
        (0..events)
            .map(|n| Event { digest: digest(), time: Timestamp::from_nanos(n), kind: EventKind::Accepted })
            .collect()
    }

    fn keys(span: &mut Read<'_>, bytes_max: u64) -> Vec<Key> {
        let (extent, mut got) = (Extent::of(span).unwrap(), Vec::new());
        let scale = Scale::of(extent.times().0, extent.times().1);
        sorted(span, &extent, scale, bytes_max, &mut |entry| {
            got.push(entry.0);
            Ok(())
        })
        .unwrap();
        got
    }

    #[test]
    fn a_span_is_read_as_often_as_its_events_take_the_memory() {
        let events = accepted(&mut Random::new(5), 100_000);
        for (share, readings) in [(1, 2), (2, 3), (10, 11)] {
            let mut span = Read { events: [&events; 2], times: 0 };
            // (A part is not divided, so that there is a little more to it.)
            assert_eq!(keys(&mut span, 100_000 * EVENT_BYTES * 101 / 100 / share).len(), events.len());
            assert_eq!(span.times, readings, "a {share}th in memory");
        }
    }

    #[test]
    fn a_span_that_is_another_one_when_it_is_read_again_is_sorted_as_it_came() {
        let mut random = Random::new(6);
        let [before, after] = [2_000, 3_000].map(|events| accepted(&mut random, events));
        for [first, second] in [[&before, &after], [&after, &before]] {
            let mut span = Read { events: [first, second], times: 0 };
            let mut expected: Vec<_> = second.iter().map(|event| Key::of(event.digest)).collect();
            expected.sort();
            assert_eq!(keys(&mut span, 1 << 30), expected);
        }
    }
}
