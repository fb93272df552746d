//! Consumers of each broker in a campaign: two of them are killed (`kill -9`) and stopped at
//! random, what they call is away for longer than all attempts at a message take, poison is put
//! aside, and dead letters are sent anew, in each broker's own way, before and after they are
//! healed. No message is lost, none is put aside but poison, and effects are repeated only where a
//! process was killed or stopped.
//!
//! `HAPAX_CAMPAIGN_SECONDS=n` sets the length, `HAPAX_CAMPAIGN_BACKENDS=a,b` the brokers,
//! `HAPAX_SEED=n` the faults: `scripts/campaign SECONDS brokers`.

mod effects;
mod queues;
mod sqs;

use crate::directory::Directory;
use crate::killed::{Consumer, seed};
use effects::Effects;
use queues::Queue;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use testkit::processes::PATIENCE;

const CONSUMERS: usize = 2;
/// Eight are handled by each, and as many are being completed.
const IN_FLIGHT: usize = 16;
/// The number of orders that are open at a time, so that some always wait.
const OPEN: usize = 150;
/// Longer than the twelve attempts of a message take, which are over after 8 s.
const AWAY: Duration = Duration::from_secs(13);
/// The number of orders that a campaign has to see for each of its seconds.
const PER_SECOND: usize = 2;

#[derive(Default)]
struct Tally {
    stops: usize,
    outages: usize,
    redrives: usize,
    letters: usize,
}

struct Campaign {
    queue: Box<dyn Queue>,
    effects: Box<dyn Effects>,
    consumers: Vec<Consumer>,
    random: fastrand::Rng,
    sent: Vec<String>,
    aside: BTreeSet<String>,
    tally: Tally,
}

impl Campaign {
    /// Sends some orders up to three times, if not too many are open. One in a hundred is poison.
    fn send(&mut self) {
        if self.sent.len() >= self.effects.count() + self.aside.len() + OPEN {
            return;
        }
        let mut copies = Vec::new();
        for _ in 0..self.random.usize(1..=8) {
            let number = self.sent.len();
            let id = if self.random.usize(..100) == 0 { format!("p {number}") } else { format!("o-{number}") };
            copies.extend(vec![id.clone(); self.random.usize(1..=3)]);
            self.sent.push(id);
        }
        self.random.shuffle(&mut copies);
        self.queue.send(&copies);
    }

    /// Sends orders for this long.
    fn go_on(&mut self, time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time {
            self.send();
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn go_on_at_random(&mut self, longest: Duration) {
        let time = longest.mul_f64(self.random.f64());
        self.go_on(time);
    }

    fn kill(&mut self) {
        let one = self.random.usize(..CONSUMERS);
        self.consumers[one].kill();
        self.go_on_at_random(Duration::from_secs(1));
        self.consumers[one].start_again();
    }

    /// Stops a process, also for longer than a lease, so that others take over what it holds.
    fn stop(&mut self) {
        let one = self.random.usize(..CONSUMERS);
        self.consumers[one].pause();
        self.tally.stops += 1;
        self.go_on_at_random(Duration::from_secs(4));
        self.consumers[one].resume();
    }

    /// Has all work fail for longer than the attempts at a message take, and kills a consumer
    /// meanwhile.
    fn outage(&mut self) {
        self.effects.away(true);
        self.tally.outages += 1;
        self.go_on_at_random(AWAY / 2);
        self.kill();
        self.go_on(AWAY);
        self.effects.away(false);
    }

    /// Sends all dead letters anew.
    fn redrive(&mut self) {
        let letters = self.queue.redrive();
        self.tally.redrives += usize::from(!letters.is_empty());
        self.tally.letters += letters.len();
        self.aside.extend(letters);
    }

    /// Sends them anew as they are, so that all of them are put aside again; or healed.
    fn redrive_at_random(&mut self) {
        let is_healed = self.random.bool();
        self.effects.healed(is_healed);
        self.redrive();
        self.go_on(Duration::from_secs(2));
        self.effects.healed(false);
    }

    fn run(&mut self, time: Duration) {
        let began = Instant::now();
        let rounds = (time.as_secs() / 60).max(1) as u32;
        for round in 0..rounds {
            let until = time / rounds * (round + 1);
            self.go_on_at_random(Duration::from_secs(2));
            self.outage();
            self.redrive_at_random();
            while began.elapsed() < until {
                match self.random.usize(..5) {
                    0 | 1 => self.kill(),
                    2 => self.stop(),
                    3 => self.redrive_at_random(),
                    _ => {}
                }
                let pause = self.queue.pause();
                self.go_on_at_random(pause);
                self.consumers.iter_mut().for_each(Consumer::look_after);
            }
        }
    }

    /// Waits until everything is done, when nothing goes wrong any more.
    fn finish(&mut self) -> Vec<String> {
        self.effects.healed(true);
        let ending = Instant::now();
        loop {
            self.redrive();
            let missing = self.effects.missing(&self.sent);
            if missing.is_empty() && self.queue.left() == 0 || ending.elapsed() > PATIENCE {
                return missing;
            }
            std::thread::sleep(Duration::from_millis(500));
            self.consumers.iter_mut().for_each(Consumer::look_after);
        }
    }
}

/// Runs a broker's campaign. Returns what went wrong.
fn campaign(name: &str, seconds: u64, random: fastrand::Rng) -> Vec<String> {
    let directory = Directory::new(&format!("campaign-{name}"));
    let Some(queue) = queues::start(name) else { return Vec::new() };
    let effects = queue.effects(&directory);
    let consumers = (0..CONSUMERS).map(|number| {
        let log = directory.path().join(format!("{number}.log"));
        Consumer::start(queue.program(), queue.arguments(number, &directory), &log, random.clone().u64(..))
    });
    let consumers = consumers.collect();
    let (sent, aside, tally) = (Vec::new(), BTreeSet::new(), Tally::default());
    let mut campaign = Campaign { queue, effects, consumers, random, sent, aside, tally };
    campaign.run(Duration::from_secs(seconds));
    let lost = campaign.finish();
    let left = campaign.queue.left();
    campaign.consumers.iter_mut().for_each(Consumer::stop);
    let kills: usize = campaign.consumers.iter().map(|consumer| consumer.kills).sum();
    let Campaign { mut effects, sent, aside, tally, .. } = campaign;
    let Tally { stops, outages, redrives, letters } = tally;
    let repeats = effects.total() - effects.count();
    println!(
        "{name}: {} orders, {kills} kills, {stops} stops, {outages} outages, {redrives} redrives of {letters} \
         letters, {repeats} effects repeated, {} put aside, {} lost, {left} left",
        sent.len(),
        aside.len(),
        lost.len()
    );
    let healthy: Vec<&String> = aside.iter().filter(|id| !id.starts_with("p ")).collect();
    let may_repeat = if effects.is_exactly_once() { 0 } else { (kills + stops) * IN_FLIGHT };
    let mut wrong = Vec::new();
    let mut check = |is_right: bool, what: String| wrong.extend((!is_right).then(|| format!("{name}: {what}")));
    check(lost.is_empty(), format!("lost: {lost:?}"));
    check(healthy.is_empty(), format!("put aside, and no poison: {healthy:?}"));
    check(repeats <= may_repeat, format!("{repeats} effects repeated, expected at most {may_repeat}"));
    check(left == 0, format!("{left} messages are left"));
    check(effects.count() == sent.len(), format!("effects of {} ids, {} were sent", effects.count(), sent.len()));
    check(sent.len() > PER_SECOND * seconds as usize, format!("hardly anything has happened: {}", sent.len()));
    wrong
}

#[test]
fn outages_redrives_kills_and_poison_lose_nothing() {
    let variable = |name: &str, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.to_owned());
    let seconds = variable("HAPAX_CAMPAIGN_SECONDS", "20").parse().expect("HAPAX_CAMPAIGN_SECONDS is a number");
    let brokers = variable("HAPAX_CAMPAIGN_BACKENDS", "streams").replace("brokers", "streams,nats,rabbitmq,sqs,kafka");
    let mut random = fastrand::Rng::with_seed(seed("campaign"));
    let campaigns: Vec<_> = brokers
        .split(',')
        .map(|name| {
            let (name, random) = (name.to_owned(), random.fork());
            std::thread::spawn(move || campaign(&name, seconds, random))
        })
        .collect();
    let ended = campaigns.into_iter().flat_map(|campaign| campaign.join().unwrap_or_else(|_| vec!["a panic".into()]));
    let wrong: Vec<String> = ended.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
