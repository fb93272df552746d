//! All that children do, computed from a seed, so that the parent knows what the dead one has done.

use hapax::seam::random::mix;
use std::ops::Range;
use std::time::Duration;
use testkit::random::Random;

/// The window, in milliseconds, which are the time of events: a quarter of it is some three
/// operations, after which a segment is made.
pub const WINDOW: u64 = 1_000;
pub const RETENTION: u64 = 9 * WINDOW;

/// The operations after which what was done is made durable, at the latest.
const DURABLE_AFTER: u64 = 5;

/// The ways in which ids are asked for.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    Batch,
    Singly,
    /// Claimed, and completed.
    Claims,
}

#[derive(Clone, Debug)]
pub enum Deed {
    /// Ids that nobody has asked for yet.
    New(Way, Range<u64>),
    /// Ids that were asked for before.
    Again(Way, Vec<u64>),
    Forget(Vec<u64>),
    Clear,
}

#[derive(Clone, Debug)]
pub struct Op {
    /// The first one is 1.
    pub number: u64,
    pub at: u64,
    pub deed: Deed,
    /// True if what was done so far is made durable after it.
    pub makes_durable: bool,
}

/// The operations from some place on, without end.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    seed: u64,
    number: u64,
    next_id: u64,
    at: u64,
}

impl Script {
    pub fn new(seed: u64) -> Self {
        Script { seed, number: 0, next_id: 0, at: 0 }
    }

    /// Returns the time of the last operation.
    pub fn at(&self) -> u64 {
        self.at
    }

    pub fn next(&mut self) -> Op {
        self.number += 1;
        let mut random = Random(mix(self.seed ^ mix(self.number)));
        self.at += 1 + random.below(150);
        let way = [Way::Batch, Way::Batch, Way::Singly, Way::Claims][random.below(4) as usize];
        let deed = match random.below(100) {
            0..60 => {
                let ids = if random.percent(5) { 700 } else { 1 + random.below(40) };
                self.next_id += ids;
                Deed::New(way, self.next_id - ids..self.next_id)
            }
            60..85 => Deed::Again(way, self.earlier(&mut random, 20)),
            85..99 => Deed::Forget(self.earlier(&mut random, 3)),
            _ if random.percent(30) => Deed::Clear,
            _ => Deed::Forget(self.earlier(&mut random, 30)),
        };
        let makes_durable = random.percent(30) || self.number.is_multiple_of(DURABLE_AFTER);
        let op = Op { number: self.number, at: self.at, deed, makes_durable };
        // A night without messages, also longer than the window. (Not while anything waits for a
        // checkpoint: beyond the window that is in doubt.)
        if makes_durable && random.percent(4) {
            self.at += [WINDOW / 3, WINDOW * 3 / 2, WINDOW * 4][random.below(3) as usize];
        }
        op
    }

    /// Draws ids that were given before, of any age.
    fn earlier(&self, random: &mut Random, most: u64) -> Vec<u64> {
        let far = [500, 5_000, 50_000][random.below(3) as usize].min(self.next_id);
        (0..random.within(1, most)).filter(|_| far > 0).map(|_| self.next_id - 1 - random.below(far)).collect()
    }

    /// Returns it as an argument.
    pub fn to_text(self) -> String {
        let Script { seed, number, next_id, at } = self;
        format!("{seed} {number} {next_id} {at}")
    }

    pub fn of_text(text: &str) -> Self {
        let numbers: Vec<u64> = text.split(' ').map(|number| number.parse().unwrap()).collect();
        let [seed, number, next_id, at] = numbers[..] else { panic!("no script: {text}") };
        Script { seed, number, next_id, at }
    }
}

/// Returns a time of the script as the engine is told it.
pub fn time(at: u64) -> hapax::Timestamp {
    hapax::Timestamp::from_secs(1_000_000) + Duration::from_millis(at)
}
