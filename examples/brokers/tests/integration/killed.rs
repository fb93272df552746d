//! Consumers that are killed at random, and their effects by then.

use crate::processes::{Process, await_until};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Returns the seed of a test's random numbers, and prints it.
pub fn seed(test: &str) -> u64 {
    let given = std::env::var("HAPAX_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("{test}: HAPAX_SEED={seed}");
    seed
}

/// An example's program, which is started again whenever it was killed.
pub struct Consumer {
    program: &'static str,
    arguments: Vec<String>,
    log: PathBuf,
    running: Process,
    random: fastrand::Rng,
    pub kills: usize,
}

impl Consumer {
    pub fn start(program: &'static str, arguments: Vec<String>, log: &Path, seed: u64) -> Self {
        let running = Self::run(program, &arguments, log);
        let random = fastrand::Rng::with_seed(seed);
        Consumer { program, arguments, log: log.into(), running, random, kills: 0 }
    }

    fn run(program: &str, arguments: &[String], log: &Path) -> Process {
        let mut command = Command::new(program);
        command.args(arguments).env("WEBHOOK_SECRET", crate::webhook::SECRET);
        Process::start(command, log, log.parent().expect("its directory"))
    }

    /// Kills it and starts it again, each time at a random place of the next share of all effects.
    ///
    /// Places are counted from the beginning: however late this test looks, they are reached. After
    /// the last of them there is some work left, for a consumer that has started again.
    pub fn kill_at_random(&mut self, times: usize, total: usize, mut effects: impl FnMut() -> usize) {
        let share = total / times;
        for kill in 0..times {
            let target = kill * share + self.random.usize(1..=share * 3 / 4);
            self.await_until(|| effects() >= target);
            std::thread::sleep(Duration::from_micros(self.random.u64(0..5_000)));
            self.kill();
            self.start_again();
        }
    }

    /// Kills it, as `kill -9`.
    pub fn kill(&mut self) {
        self.running.kill();
        self.kills += 1;
    }

    /// Stops it where it is, as a machine that hangs.
    pub fn pause(&self) {
        self.running.pause();
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.running.resume();
    }

    /// Checks that it has not ended by itself.
    pub fn look_after(&mut self) {
        assert!(!self.running.has_ended(), "the consumer has ended; {}: {}", self.log.display(), self.said());
    }

    /// The same; and before the last kill the dependency is away for two seconds, and the consumer
    /// killed meanwhile.
    pub fn kill_at_random_and_in_an_outage(&mut self, times: usize, total: usize, ledger: &str) {
        let share = total / times;
        self.kill_at_random(times - 1, share * (times - 1), || effects(ledger));
        let away = Path::new(ledger).with_extension("away");
        std::fs::write(&away, "").expect("a file");
        self.kill_in_an_outage();
        std::fs::remove_file(&away).expect("a file");
    }

    /// Kills it in the middle of two seconds, and starts it again.
    pub fn kill_in_an_outage(&mut self) {
        std::thread::sleep(Duration::from_secs(1));
        self.kill();
        self.start_again();
        std::thread::sleep(Duration::from_secs(1));
    }

    /// Heals the poison, has it sent anew, and waits until it is billed.
    pub fn heal(&mut self, ledger: &str, send_anew: impl FnOnce()) {
        std::fs::write(Path::new(ledger).with_extension("healed"), "").expect("a file");
        send_anew();
        self.await_until(|| hapax_brokers::ledger::count(ledger).is_ok_and(|counts| counts.contains_key(POISON)));
    }

    /// Stops it by Ctrl-C, which it should survive long enough to finish the work that it has
    /// begun.
    pub fn stop(&mut self) {
        let status = self.running.interrupt();
        assert!(status.success(), "{status}; {}", self.said());
    }

    /// Starts it again, after it was stopped.
    pub fn start_again(&mut self) {
        self.running = Self::run(self.program, &self.arguments, &self.log);
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until a condition holds; the consumer has to run on meanwhile.
    pub fn await_until(&mut self, mut so: impl FnMut() -> bool) {
        let log = self.log.clone();
        await_until(&log, || {
            self.look_after();
            so()
        });
    }
}

/// An id that fails however often it is tried, until it is [healed](Consumer::heal).
pub const POISON: &str = "o 13";

/// Returns how many effects a ledger has.
pub fn effects(ledger: &str) -> usize {
    std::fs::read_to_string(ledger).map_or(0, |text| text.lines().count())
}

/// Checks that poison had its effect once, and all others as [`check_effects`] does.
pub fn check_healed(test: &str, ids: &[String], ledger: &str, kills: usize, in_flight_max: usize) {
    let mut counts = hapax_brokers::ledger::count(ledger).expect("a ledger");
    assert_eq!(counts.remove(POISON), Some(1), "the poison is billed once, when it is healed");
    check_effects(test, ids, &counts, kills, in_flight_max);
}

/// Checks that every id had its effect, and that no more ids had more than one than were in
/// progress when a consumer was killed.
pub fn check_effects(test: &str, ids: &[String], counts: &BTreeMap<String, usize>, kills: usize, in_flight_max: usize) {
    let missing: Vec<&String> = ids.iter().filter(|id| !counts.contains_key(*id)).collect();
    assert!(missing.is_empty(), "no effect for {missing:?}");
    assert_eq!(counts.len(), ids.len(), "effects for ids that nobody sent: {counts:?}");
    let more = counts.values().sum::<usize>() - ids.len();
    println!("{test}: {} ids, {kills} kills, {more} effects more than one for each id", ids.len());
    assert!(more <= kills * in_flight_max, "{more} effects too many; {kills} kills, up to {in_flight_max} in flight");
}
