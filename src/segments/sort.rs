//! Puts the events of a span into the order of their keys, in bounded memory: by reading the span
//! several times, a range of keys each.

#![allow(clippy::cast_possible_truncation, reason = "events that are in memory, and ranges of places")]

use super::key::{Key, PLACE_BITS, Scale, TOMBSTONE};
use super::page::Entry;
use crate::digest::Digest;
use crate::{SegmentError, Timestamp};

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

/// The extent of a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) events: u64,
    /// The first and the last time at which an id was accepted.
    pub(super) times: Option<(Timestamp, Timestamp)>,
}

impl Extent {
    /// Reads a span, for its extent alone.
    pub(super) fn of(span: &mut dyn Span) -> Result<Self, SegmentError> {
        let mut extent = Extent::default();
        span.read(&mut |event| {
            extent.events += 1;
            if event.kind == EventKind::Accepted {
                let (first, last) = extent.times.unwrap_or((event.time, event.time));
                extent.times = Some((first.min(event.time), last.max(event.time)));
            }
        })?;
        Ok(extent)
    }

    /// Returns the first and the last time; the origin, if nothing was accepted.
    pub(super) fn times(&self) -> (Timestamp, Timestamp) {
        self.times.unwrap_or_default()
    }
}

/// The bytes that sorting takes for an event: it is copied from one vector to another.
const EVENT_BYTES: u64 = 32;

/// The most passes over a span.
const PASSES_MAX: u64 = 4096;

/// The events of a bucket, on the average: so many that the second step stays in the cache.
const BUCKET: usize = 256;

/// Calls a function with the last event of each id, in the order of keys. Takes about as many bytes
/// of memory as it may, if digests are uniform.
pub(super) fn sorted(
    span: &mut dyn Span,
    extent: Extent,
    scale: Scale,
    bytes_max: u64,
    each: &mut dyn FnMut(Entry) -> Result<(), SegmentError>,
) -> Result<(), SegmentError> {
    let passes = (extent.events * EVENT_BYTES).div_ceil(bytes_max.max(1)).clamp(1, PASSES_MAX);
    let (mut events, mut ordered) = (Vec::new(), Vec::new());
    for pass in 0..passes {
        let start = |pass: u64| (u128::from(pass) << PLACE_BITS).div_ceil(u128::from(passes)) as u64;
        let places = start(pass)..start(pass + 1);
        events.clear();
        span.read(&mut |event| {
            let key = Key::of(event.digest);
            if places.contains(&key.place()) {
                let tick = match event.kind {
                    EventKind::Accepted => scale.tick(event.time),
                    EventKind::Forgotten => TOMBSTONE,
                };
                events.push(key.with(tick));
            }
        })?;
        sort(&events, &places, &mut ordered);
        for (i, packed) in ordered.iter().enumerate() {
            let (key, tick) = Key::unpack(*packed);
            // Of several events of an id the last counts.
            if ordered.get(i + 1).is_none_or(|next| Key::unpack(*next).0 != key) {
                each((key, tick))?;
            }
        }
    }
    Ok(())
}

/// Sorts packed events by their keys; those of one key stay in their order. A radix sort by the
/// upper bits of places, and one by comparison within what is left.
fn sort(events: &[u128], places: &std::ops::Range<u64>, ordered: &mut Vec<u128>) {
    let buckets = (events.len() / BUCKET).max(1) as u64;
    let width = (places.end - places.start).div_ceil(buckets).max(1);
    let bucket = |packed: u128| ((Key::unpack(packed).0.place() - places.start) / width) as usize;
    let mut ends = vec![0; buckets as usize + 1];
    events.iter().for_each(|packed| ends[bucket(*packed) + 1] += 1);
    (1..ends.len()).for_each(|i| ends[i] += ends[i - 1]);
    ordered.clear();
    ordered.resize(events.len(), 0);
    // From here on `ends[i]` is where the next event of bucket `i` goes: at last, where it ends.
    for packed in events {
        let next = &mut ends[bucket(*packed)];
        ordered[*next] = *packed;
        *next += 1;
    }
    let mut start = 0;
    for end in &ends[..buckets as usize] {
        ordered[start..*end].sort_by_key(|packed| packed >> 16);
        start = *end;
    }
}

#[cfg(test)]
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
            sorted(&mut span, extent, scale, bytes_max, &mut |entry| {
                got.push(entry);
                Ok(())
            })
            .unwrap();
            assert_eq!(got, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
