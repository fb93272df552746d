//! An engine with a long memory, of which the process is killed and the power cut while it checks,
//! claims, forgets, clears, seals, merges and takes checkpoints.
//!
//! All of it is a script (`script`) which parent and child compute from a seed. After each death
//! the parent opens the directory and asks for every id: what was durable is known, what was
//! forgotten is not, what was never given is not; what was under way may be either (`belief`,
//! `judge`). With checkpoints, what came after the last one is not.

mod belief;
mod child;
mod judge;
mod script;

pub use child::run_if_asked;

#[cfg(target_os = "linux")]
use super::power::FileSystem;
use super::{seed, times};
use child::{Child, Flaw, LIFE, Setting};
use judge::{Found, Judge};
use std::path::{Path, PathBuf};
use testkit::long;
use testkit::random::Random;

/// Returns the number of deaths after which a new directory is begun.
fn round() -> u32 {
    long(8, 20)
}

/// The sums over all deaths.
#[derive(Debug, Default)]
struct Sums {
    deaths: u32,
    /// Children that were left alive until they acknowledged something.
    waited: u32,
    /// Children that have acknowledged anything, sealed a segment, and merged some.
    acknowledged: u32,
    sealed: u32,
    merged: u32,
    found: Found,
}

impl Sums {
    fn add(&mut self, waits: bool, report: &[u64], found: Found) {
        self.deaths += 1;
        self.waited += u32::from(waits);
        if let [_, sealed, written] = *report {
            self.acknowledged += 1;
            self.sealed += u32::from(sealed > 0);
            self.merged += u32::from(written > sealed);
        }
        self.found.known += found.known;
        self.found.certain += found.certain;
    }

    fn print_now_and_then(&self) {
        if self.deaths.is_multiple_of(100) {
            println!("{self:?}");
        }
    }

    /// Fails if too little was under way. (The first child, and half of the others, live until they
    /// have come to some point, however long that takes.)
    fn judge(&self) {
        println!("{self:?}");
        assert!(self.acknowledged >= self.waited && self.waited > self.deaths / 10, "{self:?}");
        assert!(self.sealed > self.deaths / 10 && self.merged > self.deaths / 20, "{self:?}");
        assert!(self.found.certain > 100 * u64::from(self.deaths), "{self:?}");
    }
}

/// Returns the judge of a new directory: with checkpoints, or without. What is synced takes its
/// time in one directory, and none in the other.
fn begin(paths: [&Path; 2], death: u32, random: &mut Random) -> Judge {
    let round = death / round();
    let path = paths[round as usize % 2].join(format!("round-{round}"));
    Judge::new(Setting { path, checkpoints: random.below(2) == 0 }, random.next())
}

/// Waits for a random time; for the first child until there are segments, which are merged. Returns
/// true if the child has acknowledged something, then.
fn let_it_run(child: &Child, number: u32, random: &mut Random) -> bool {
    match number {
        0 => {
            child.let_it_come_far(&LIFE);
            true
        }
        _ => child.let_it_run(random, &LIFE),
    }
}

/// Kills children, so many, or until something is wrong.
fn kill(name: &str, random: &mut Random, kills: u32, flaw: Flaw) -> Result<Sums, String> {
    let scratches = [std::env::temp_dir(), in_memory()].map(|path| Scratch::new(&path, name));
    let paths = [&*scratches[0].0, &*scratches[1].0];
    let mut judge = begin(paths, 0, random);
    let mut sums = Sums::default();
    for number in 0..kills {
        if number > 0 && number.is_multiple_of(round()) {
            std::fs::remove_dir_all(&judge.setting.path).map_err(|error| error.to_string())?;
            judge = begin(paths, number, random);
        }
        let mut child = judge.start(flaw);
        let waits = let_it_run(&child, number, random);
        let acknowledged = child.kill();
        if let Some(wrong) = child.wrong() {
            return Err(format!("child {number} has ended after {:?}: {wrong}", child.report()));
        }
        let found = judge.verify(acknowledged, acknowledged).map_err(|wrong| format!("kill {number}: {wrong}"))?;
        sums.add(waits, &child.report(), found);
        sums.print_now_and_then();
    }
    Ok(sums)
}

/// Returns a directory in memory, where there is one that we may use: a kill takes nothing of it.
fn in_memory() -> PathBuf {
    let shared = PathBuf::from("/dev/shm");
    let probe = shared.join(format!("hapax-probe-{}", std::process::id()));
    match std::fs::create_dir(&probe).and_then(|()| std::fs::remove_dir(&probe)) {
        Ok(()) => shared,
        Err(_) => std::env::temp_dir().join("hapax-long-memory"),
    }
}

/// A directory of a test's own.
struct Scratch(PathBuf);

impl Scratch {
    fn new(path: &Path, name: &str) -> Self {
        let path = path.join(format!("hapax-long-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn kill_9_of_an_engine_with_a_long_memory() {
    let (kills, seed) = (times("HAPAX_LONG_KILLS", long(16, 40)), seed());
    println!("HAPAX_CRASH_SEED={seed} HAPAX_LONG_KILLS={kills}");
    let sums = kill("kills", &mut Random(seed), kills, Flaw::None);
    sums.unwrap_or_else(|wrong| panic!("HAPAX_CRASH_SEED={seed}: {wrong}")).judge();
}

#[test]
fn what_a_child_has_not_forgotten_is_noticed() {
    let wrong = kill("remembers", &mut Random(seed()), 40, Flaw::Remembers).unwrap_err();
    // (Or one that was to be accepted anew is forgotten by its first acceptance.)
    assert!(wrong.contains("is known: "), "{wrong}");
}

#[test]
fn segments_that_are_lost_are_noticed() {
    let (scratch, mut random) = (Scratch::new(&in_memory(), "lost"), Random(seed()));
    let mut judge = begin([&scratch.0; 2], 0, &mut random);
    let wrong = (0..40).find_map(|_| {
        let mut child = judge.start(Flaw::None);
        child.let_it_run(&mut random, &LIFE);
        let acknowledged = child.kill();
        let _ = std::fs::remove_dir_all(judge.setting.path.join("segments"));
        judge.verify(acknowledged, acknowledged).err()
    });
    let wrong = wrong.expect("nobody misses them");
    assert!(wrong.contains("is known: false"), "{wrong}");
}

/// Cuts the power, so often, or until something is wrong. `None`: this process may not.
#[cfg(target_os = "linux")]
fn cut(name: &str, random: &mut Random, cuts: u32, flaw: Flaw) -> Option<Result<Sums, String>> {
    // `.ci/run` asks for the same, and says it aloud.
    let skipped = |why| testkit::skipped(format_args!("power cuts take root and a loop device: {why}"));
    let mut files = FileSystem::new(name).map_err(skipped).ok()?;
    let mut judge = begin([&files.mount(); 2], 0, random);
    let mut sums = Sums::default();
    for number in 0..cuts {
        if number > 0 && number.is_multiple_of(round()) {
            let _ = std::fs::remove_dir_all(&judge.setting.path);
            judge = begin([&files.mount(); 2], number, random);
        }
        let mut child = judge.start(flaw);
        let waits = let_it_run(&child, number, random);
        // Reports from now on would never have left a machine without power, but what they are
        // about may be there. (Nor is what it answers without a disk judged.)
        let report = child.report();
        if let Some(wrong) = child.wrong() {
            return Some(Err(format!("child {number} has ended after {report:?}: {wrong}")));
        }
        files.cut_the_power();
        let came_to = child.kill();
        files.start_again();
        match judge.verify(report.first().copied().unwrap_or(0), came_to) {
            Ok(found) => sums.add(waits, &report, found),
            Err(wrong) => return Some(Err(format!("power cut {number}: {wrong}"))),
        }
        sums.print_now_and_then();
    }
    Some(Ok(sums))
}

#[cfg(target_os = "linux")]
#[test]
fn power_cuts_of_an_engine_with_a_long_memory() {
    let (cuts, seed) = (times("HAPAX_LONG_POWER_CUTS", long(8, 20)), seed());
    println!("HAPAX_CRASH_SEED={seed} HAPAX_LONG_POWER_CUTS={cuts}");
    let Some(sums) = cut("long-power", &mut Random(seed), cuts, Flaw::None) else { return };
    sums.unwrap_or_else(|wrong| panic!("HAPAX_CRASH_SEED={seed}: {wrong}")).judge();
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_not_synced_is_missed_after_a_power_cut() {
    let Some(sums) = cut("long-unsynced", &mut Random(seed()), 40, Flaw::NotSynced) else { return };
    let wrong = sums.unwrap_err();
    assert!(wrong.contains("is known: false") || wrong.contains("it does not open"), "{wrong}");
}
