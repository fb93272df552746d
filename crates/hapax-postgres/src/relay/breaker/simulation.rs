//! A relay, its table and its broker without any of them: messages that are refused for good, and
//! others behind them.

use super::*;
use crate::Retry;
use hapax::seam::random;
use testkit::random::Random;

const LONGEST: Duration = Duration::from_secs(10);
const BATCH: usize = 256;

#[derive(Clone, Debug)]
struct Kept {
    due_at: Instant,
    topic: &'static str,
    is_bad: bool,
    attempts: u32,
}

struct World {
    breakers: Breakers,
    random: Random,
    kept: Vec<Kept>,
    now: Instant,
    attempts: u32,
    /// The times at which good messages were published.
    published: Vec<(&'static str, Instant)>,
}

impl World {
    fn new(seed: u64) -> Self {
        World {
            breakers: Breakers::default(),
            random: Random(seed),
            kept: vec![],
            now: Instant::now(),
            attempts: 0,
            published: vec![],
        }
    }

    fn enqueue(&mut self, topic: &'static str, is_bad: bool, messages: usize) {
        let message = Kept { due_at: self.now, topic, is_bad, attempts: 0 };
        self.kept.extend(std::iter::repeat_n(message, messages));
    }

    /// Publishes a message and settles it.
    fn attempt(&mut self, mut message: Kept, is_probe: bool) {
        self.attempts += 1;
        let signal = match (message.is_bad, message.attempts) {
            (false, _) => Signal::Success,
            (true, 0) => Signal::Failure,
            (true, _) => Signal::Nothing,
        };
        self.breakers.ended(message.topic, is_probe, signal, self.now, self.random.next());
        if message.is_bad {
            message.attempts += 1;
            message.due_at = self.now + Retry::DEFAULT.delay(message.attempts);
            self.kept.push(message);
        } else {
            self.published.push((message.topic, self.now))
        }
    }

    /// Takes messages that are due, in order; of those that probe, others first.
    fn take(&mut self, is_probe: bool, of: impl Fn(&Self, &Kept) -> bool, messages: usize) -> Vec<Kept> {
        let is_due = |n: &usize| self.kept[*n].due_at <= self.now && of(self, &self.kept[*n]);
        let mut due: Vec<usize> = (0..self.kept.len()).filter(is_due).collect();
        due.sort_by_key(|&n| (is_probe && self.kept[n].attempts > 0, self.kept[n].due_at));
        due.truncate(messages);
        let taken = due.iter().map(|&n| self.kept[n].clone()).collect();
        due.sort_unstable();
        for n in due.into_iter().rev() {
            self.kept.remove(n);
        }
        taken
    }

    /// Does what is due now.
    fn step(&mut self) {
        for topic in self.breakers.probes(usize::MAX, LONGEST, self.now) {
            let taken = self.take(true, |_, kept| kept.topic == topic, PROBES);
            self.breakers.probing(&topic, taken.len(), self.now, self.random.next());
            for message in taken {
                self.attempt(message, true);
                self.breakers.probed(&topic, self.now, self.random.next());
            }
        }
        for message in self.take(false, |world, kept| !world.breakers.is_paused(kept.topic), BATCH) {
            if self.breakers.is_paused(message.topic) {
                self.kept.push(Kept { due_at: self.now, ..message })
            } else {
                self.attempt(message, false)
            }
        }
    }

    /// Returns when there is something to do, after now.
    fn next(&self) -> Option<Instant> {
        let due = self.kept.iter().filter(|kept| !self.breakers.is_paused(kept.topic)).map(|kept| kept.due_at);
        let next = due.chain(self.breakers.probe_at()).min()?;
        Some(next.max(self.now + Duration::from_millis(1)))
    }

    fn run(&mut self, lasts: Duration) {
        let end = self.now + lasts;
        while self.now <= end {
            self.step();
            self.now = self.next().map_or(end, |next| next.min(end));
            if self.now == end {
                return;
            }
        }
    }

    /// Returns how long a good message waits that is enqueued now.
    fn waits(&mut self, topic: &'static str) -> Duration {
        let (began, so_far) = (self.now, self.published.len());
        self.enqueue(topic, false, 1);
        self.step();
        while self.published.len() == so_far {
            assert!(self.now - began < Duration::from_secs(600), "it waits for ever");
            self.now = self.next().expect("something is to come");
            self.step();
        }
        self.published[so_far].1 - began
    }
}

fn seed() -> u64 {
    let seed = std::env::var("HAPAX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(random::any);
    println!("HAPAX_SEED={seed}");
    seed
}

#[test]
fn a_message_behind_some_that_are_refused_waits_for_a_moment() {
    let seed = seed();
    for bad in [7, 8, 20, 40] {
        let mut world = World::new(seed);
        world.enqueue("t", true, bad);
        let waits = world.waits("t");
        println!("behind {bad}: {waits:?}");
        // Each round takes as many as made it pause; the waits double.
        let rounds = u32::try_from(bad.saturating_sub(FAILURES as usize) / PROBES).unwrap() + 1;
        assert!(waits <= WAITS.first * 2_u32.pow(rounds), "behind {bad}, it waited for {waits:?}");
        assert_eq!(world.waits("u"), Duration::ZERO, "another topic");
    }
}

#[test]
fn once_all_were_tried_the_next_waits_for_one_round_and_those_after_it_for_none() {
    for bad in [8, 20, 200] {
        let mut world = World::new(seed());
        world.enqueue("t", true, bad);
        world.run(Duration::from_secs(1_200));
        assert!(world.kept.iter().all(|kept| kept.attempts > 0), "all were tried");
        let first = world.waits("t");
        assert!(first <= WAITS.max, "behind {bad}, the first waited for {first:?}");
        for _ in 0..100 {
            assert_eq!(world.waits("t"), Duration::ZERO);
            world.run(Duration::from_secs(10));
        }
        assert!(!world.breakers.is_paused("t"));
    }
}

#[test]
fn if_only_refused_ones_are_left_they_come_no_more_often_than_their_back_off_has_it() {
    let mut world = World::new(seed());
    world.enqueue("t", true, 20);
    world.run(Duration::from_secs(3_600));
    // Seconds until the delay is a minute, and one attempt a minute from then on.
    assert!((20 * 30..20 * 75).contains(&world.attempts), "{} attempts", world.attempts);
}

#[test]
fn an_outage_of_a_day_costs_few_attempts_and_leaves_most_alone() {
    let mut world = World::new(seed());
    world.enqueue("t", true, 4_000);
    world.run(Duration::from_secs(600));
    assert!(world.attempts < 600, "{} attempts in ten minutes", world.attempts);
}
