//! Ids that were acknowledged as durable are remembered: after kill -9 at any moment, and after a
//! power cut.
//!
//! A child, this program once more, accepts ids and reports on its standard output up to which id a
//! flush has returned. Then it dies. The next engine must know the reported ids; the ids that it
//! knows must have been accepted.

mod checkpoints;
mod child;
mod long_memory;
#[cfg(target_os = "linux")]
mod power;
mod process;

use child::{Journal, LIFE};
use testkit::directory::Directory;
use testkit::long;
use testkit::random::Random;

/// Returns how many times to repeat, in a campaign.
fn times(name: &str, usual: u32) -> u32 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// The number of deaths after which a new journal is begun, so that the check does not take ever
/// longer.
const ROUND: u32 = 50;

/// Returns the seed of the random numbers; it is printed when something fails.
fn seed() -> u64 {
    let seed = std::env::var("HAPAX_CRASH_SEED").ok().and_then(|text| text.parse().ok());
    seed.unwrap_or_else(|| {
        u64::from(std::process::id()) << 32 | u64::from(std::time::UNIX_EPOCH.elapsed().unwrap().subsec_nanos())
    })
}

#[test]
fn kill_9_at_any_moment() {
    let kills = times("HAPAX_KILLS", long(40, 200));
    let seed = seed();
    println!("HAPAX_CRASH_SEED={seed} HAPAX_KILLS={kills}");
    let mut random = Random(seed);
    let directory = Directory::new("crash");
    let path = directory.path().join("journal");
    let mut journal = Journal::new(path.clone());
    let mut waited = 0;
    for kill in 0..kills {
        if kill % ROUND == 0 {
            journal = Journal::new(path.clone());
        }
        let mut child = journal.start();
        let waits = child.let_it_run(&mut random, &LIFE);
        let acknowledged = child.kill();
        waited += u32::from(waits);
        assert!(acknowledged > 0 || !waits, "child {kill} has ended by itself");
        journal.verify(acknowledged, &format!("kill {kill}"));
        if kill % 500 == 499 {
            println!("{} kills, none of the ids lost that were acknowledged", kill + 1);
        }
    }
    assert!(waited > kills / 10, "only {waited} of {kills} children were to acknowledge anything");
}

/// Runs the child; this is no test.
#[test]
fn child() {
    child::run_if_asked();
    checkpoints::run_if_asked();
    long_memory::run_if_asked();
}
