//! The stream of ids: made, with the true answers, before anything is measured.

use hapax::Timestamp;
use hapax::strategy::Id;
use std::ops::Range;
use std::time::Duration;

/// Ticks of stream time in a window.
pub const WINDOW_TICKS: usize = 100;

/// The length of a tick; any would do.
const TICK: Duration = Duration::from_secs(1);

/// The length of a window.
pub const WINDOW: Duration = Duration::from_secs(TICK.as_secs() * WINDOW_TICKS as u64);

/// The time at which a tick begins, as its checks are told.
pub fn time(tick: usize) -> Timestamp {
    Timestamp::default() + TICK * tick as u32
}

/// One thread's part of the stream: a new id nine times out of ten, else one of those that the last tenth of a window brought.
///
/// In each window as many ids are new as are to be live, so that a strategy is always exactly at its capacity.
pub struct Stream<B> {
    pub ids: B,
    /// The true answer for each id.
    pub is_fresh: Vec<bool>,
    /// Where each tick begins; one more at the end.
    ticks: Vec<usize>,
}

/// What a part of a stream is made from.
#[derive(Clone, Copy)]
pub struct Part {
    pub seed: u64,
    /// Parts of different threads have no id in common.
    pub thread: usize,
    /// New ids in a window.
    pub live: usize,
    pub ticks: usize,
}

/// Where ids are kept: one after the other, so that reading them costs next to nothing.
pub trait Ids: Send + Sync {
    type Id: Id + ?Sized;

    fn with_capacity(ids: usize) -> Self;

    fn push(&mut self, number: u64);

    fn range(&self, range: Range<usize>) -> impl Iterator<Item = &Self::Id>;
}

impl Ids for Vec<u64> {
    type Id = u64;

    fn with_capacity(ids: usize) -> Self {
        Vec::with_capacity(ids)
    }

    fn push(&mut self, number: u64) {
        self.push(number);
    }

    #[inline(always)]
    fn range(&self, range: Range<usize>) -> impl Iterator<Item = &u64> {
        self[range].iter()
    }
}

/// UUIDs as text, without anything between them.
pub struct Uuids(String);

const UUID_CHARS: usize = 36;

impl Ids for Uuids {
    type Id = [u8];

    fn with_capacity(ids: usize) -> Self {
        Uuids(String::with_capacity(ids * UUID_CHARS))
    }

    fn push(&mut self, number: u64) {
        const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
        let mut bits = u128::from(number) << 64 | u128::from(mix(number));
        for (i, chars) in GROUPS.into_iter().enumerate() {
            if i > 0 {
                self.0.push('-');
            }
            for _ in 0..chars {
                self.0.push(char::from(b"0123456789abcdef"[(bits >> 124) as usize]));
                bits <<= 4;
            }
        }
    }

    #[inline(always)]
    fn range(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
        range.map(|index| &self.0.as_bytes()[index * UUID_CHARS..(index + 1) * UUID_CHARS])
    }
}

impl<B: Ids> Stream<B> {
    pub fn generate(part: Part) -> Self {
        let fresh_ids = part.live * part.ticks / WINDOW_TICKS;
        // A tenth of all are redeliveries: a ninth of the others; an eighth is out of reach for chance.
        let ids = fresh_ids + fresh_ids / 8 + 1_000;
        let mut stream = Stream { ids: B::with_capacity(ids), is_fresh: Vec::with_capacity(ids), ticks: vec![0] };
        let mut random = Random(mix(part.seed ^ part.thread as u64));
        let number = |index: u64| mix(part.seed.wrapping_add((part.thread as u64) << 56 | index));
        let recent = (part.live as u64 / 10).max(1);
        let mut fresh = 0;
        for tick in 1..=part.ticks {
            let fresh_until = (part.live * tick / WINDOW_TICKS) as u64;
            while fresh < fresh_until {
                let is_redelivery = random.below(10) == 0 && fresh > 0;
                if is_redelivery {
                    stream.ids.push(number(fresh - 1 - random.below(recent.min(fresh))));
                } else {
                    stream.ids.push(number(fresh));
                    fresh += 1;
                }
                stream.is_fresh.push(!is_redelivery);
            }
            stream.ticks.push(stream.is_fresh.len());
        }
        stream
    }

    /// The id at a place.
    pub fn id(&self, place: usize) -> &B::Id {
        self.ids.range(place..place + 1).next().expect("it is one id")
    }

    /// The places of a tick's ids.
    pub fn tick(&self, tick: usize) -> Range<usize> {
        self.ticks(tick..tick + 1)
    }

    /// The places of the ids of some ticks.
    pub fn ticks(&self, ticks: Range<usize>) -> Range<usize> {
        self.ticks[ticks.start]..self.ticks[ticks.end]
    }

    /// Those ids of some ticks that are new there.
    pub fn fresh_ids(&self, ticks: Range<usize>) -> impl Iterator<Item = &B::Id> {
        let places = self.ticks(ticks);
        let is_fresh = self.is_fresh[places.clone()].iter();
        self.ids.range(places).zip(is_fresh).filter_map(|(id, is_fresh)| is_fresh.then_some(id))
    }
}

/// Mixes bits, so that consecutive numbers look random; no two numbers become one (Steele, Lea and Flood, SplitMix, 2014).
pub fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

struct Random(u64);

impl Random {
    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        ((u128::from(mix(self.0)) * u128::from(end)) >> 64) as u64
    }
}
