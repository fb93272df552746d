//! Engines with a long memory on a simulated disk, in virtual time, without a thread.

use crate::Timestamp;
use crate::journal::restarts::{builder, clock};
use crate::journal::simulated::Simulated;
use crate::rules::{Place, Rule, at, leave_out};
use crate::{Builder, Certainty, Dedup, Error, Forgotten, JournalError, JournalOptions, LongMemory, ManualClock, Tier};
use std::path::PathBuf;
use std::time::Duration;

pub(super) const WINDOW: Duration = Duration::from_secs(100);
pub(super) const RETENTION: Duration = Duration::from_secs(1_000);

fn directory() -> PathBuf {
    PathBuf::from("/long")
}

pub(super) struct World {
    pub(super) disk: Simulated,
    pub(super) clock: ManualClock,
    pub(super) checkpoints: bool,
    pub(super) refreshes: bool,
}

impl World {
    pub(super) fn new() -> Self {
        World { disk: Simulated::new(), clock: clock(), checkpoints: false, refreshes: false }
    }

    pub(super) fn open(&self) -> Dedup {
        self.build().unwrap()
    }

    fn build(&self) -> Result<Dedup, Error> {
        let builder = builder(&self.disk, &self.clock, JournalOptions::new().checkpoints(self.checkpoints));
        let builder = builder.window(WINDOW).refresh_on_duplicate(self.refreshes);
        builder.long_memory(directory(), LongMemory::new(RETENTION)).build()
    }

    pub(super) fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

#[test]
fn an_id_is_known_for_the_retention_by_the_window_and_then_by_segments() {
    let world = World::new();
    let dedup = world.open();
    let verdict = dedup.check("a");
    assert_eq!((verdict.is_fresh(), verdict.tier()), (true, Tier::Segments));
    world.pass(99);
    assert_eq!(dedup.check("a").tier(), Tier::Window);
    // Nobody asks meanwhile: the window has forgotten it when the next one does.
    world.pass(300);
    assert!(dedup.check("b").is_fresh());
    let verdict = dedup.check("a");
    assert_eq!((verdict.is_duplicate(), verdict.tier(), verdict.certainty()), (true, Tier::Segments, Certainty::Exact));
    assert_eq!(dedup.contains("b"), Some(Tier::Window));
    world.pass(599);
    assert_eq!(dedup.contains("a"), Some(Tier::Segments), "for the retention, a nanosecond less");
    world.pass(3);
    assert_eq!(dedup.contains("a"), None);
    assert!(dedup.check("a").is_fresh());
    let stats = dedup.stats();
    assert_eq!((stats.checks(), stats.fresh, stats.duplicates_by_window, stats.duplicates_by_segments), (5, 3, 1, 1));
}

#[test]
fn what_cannot_be_is_refused_with_its_option() {
    let refused = |window: u64, options, more: fn(Builder) -> Builder| {
        let builder = more(Dedup::builder().window(Duration::from_secs(window)).long_memory("/nowhere", options));
        match builder.build() {
            Err(Error::InvalidOption { option, .. }) => option,
            other => panic!("{other:?}"),
        }
    };
    let options = LongMemory::new(RETENTION);
    assert_eq!(refused(1_000, options, |builder| builder), "long_memory.retention");
    assert_eq!(refused(10, options.read_threads(0), |builder| builder), "long_memory.read_threads");
    assert_eq!(refused(10, options.read_threads(65), |builder| builder), "long_memory.read_threads");
    assert_eq!(refused(10, options.sort_memory_bytes(1), |builder| builder), "long_memory.sort_memory_bytes");
    assert_eq!(refused(10, options, |builder| builder.history(RETENTION, 0.01, 1_000)), "history");
    assert_eq!(refused(10, options, |builder| builder.restore("/nowhere")), "restore");
}

#[test]
fn a_journal_that_is_behind_its_segments_is_another_one() {
    let world = World::new();
    let dedup = world.open();
    for id in ["a", "b", "c"] {
        assert!(dedup.check(id).is_fresh());
        dedup.flush().unwrap();
    }
    drop(dedup);
    // Sealed as it is opened.
    drop(world.open());
    for path in world.disk.paths().iter().filter(|path| path.starts_with("/journal")) {
        world.disk.delete(path);
    }
    let wrong = world.build().unwrap_err().to_string();
    assert_eq!(wrong, "/journal: the next block is 0, expected at least 3, as segments say. Nothing was changed");
}

#[test]
fn an_id_that_was_asked_for_again_stays_for_a_window_longer_at_most() {
    let world = World::new();
    let dedup = world.open();
    assert!(dedup.check("a").is_fresh());
    world.pass(995);
    assert_eq!(dedup.check("a").tier(), Tier::Segments);
    world.pass(90);
    assert_eq!(dedup.check("a").tier(), Tier::Window);
    world.pass(15);
    assert!(dedup.check("a").is_fresh());
}

#[test]
fn what_slides_is_known_for_the_retention_from_when_it_was_asked_for() {
    let world = World { refreshes: true, ..World::new() };
    let dedup = world.open();
    assert!(dedup.check("a").is_fresh());
    for _ in 0..5 {
        world.pass(900);
        assert!(dedup.check("a").is_duplicate());
    }
    assert!(dedup.claim("a").is_duplicate());
    world.pass(1_000 + 103);
    assert!(dedup.claim("a").claimed().is_some());
}

#[test]
fn what_cannot_be_sealed_in_time_is_in_doubt_and_counted_and_certain_again_when_it_is() {
    let world = World::new();
    let dedup = world.open();
    assert!(dedup.check("a").is_fresh());
    world.disk.set_capacity(Some(0));
    world.pass(99);
    assert_eq!(dedup.check("b").certainty(), Certainty::Exact, "the window has all of it");
    world.pass(10);
    let verdict = dedup.check("a");
    assert_eq!((verdict.is_fresh(), verdict.certainty()), (true, Certainty::Guess));
    let stats = dedup.stats();
    let long_memory = stats.long_memory.unwrap();
    assert_eq!((long_memory.in_doubt, stats.fresh_unconfirmed), (1, 1));
    assert!(long_memory.failed.is_some() && long_memory.lag >= WINDOW, "{long_memory:?}");

    world.disk.set_capacity(None);
    dedup.reopen_journal().unwrap();
    assert_eq!(dedup.check("c").certainty(), Certainty::Exact);
    world.pass(200);
    assert_eq!(dedup.check("a").tier(), Tier::Segments);
    assert!(dedup.stats().long_memory.unwrap().failed.is_none());
}

#[test]
fn a_journal_over_its_budget_goes_on_when_its_files_are_sealed() {
    let (disk, clock) = (Simulated::new(), clock());
    let options = JournalOptions::new().max_disk_bytes(128 << 10);
    let builder = builder(&disk, &clock, options).window(WINDOW).capacity(20_000);
    let dedup = builder.long_memory(directory(), LongMemory::new(RETENTION)).build().unwrap();
    let mut next = 0_u64;
    let mut accept = |ids: u64| {
        let mut verdicts = Vec::new();
        dedup.check_batch((next..next + ids).map(u64::to_le_bytes), &mut verdicts);
        next += ids;
        verdicts.iter().all(|verdict| verdict.is_fresh() && verdict.certainty() == Certainty::Exact)
    };
    assert!(accept(5_000));
    dedup.flush().unwrap();
    assert!(accept(5_000));
    let failed = dedup.engine.journal.as_ref().map(|journal| {
        journal.step();
        journal.stats().failed
    });
    assert!(matches!(failed, Some(Some(JournalError::OverBudget { .. }))), "{failed:?}");
    // What was written can be deleted when the window has forgotten it, and segments have it.
    clock.advance(2 * WINDOW);
    accept(1);
    clock.advance(Duration::from_secs(1));
    assert!(accept(1) || accept(1));
    dedup.flush().unwrap();
    assert!(dedup.stats().journal.unwrap().failed.is_none());
    assert_eq!(dedup.check(7_u64.to_le_bytes()).tier(), Tier::Segments);
}

/// Asks for an id that segments know, which is forgotten before they are asked. Returns the answers
/// to that, and to whoever asks next.
fn asked_while_it_is_forgotten(in_batch: bool) -> [bool; 2] {
    let world = World::new();
    let dedup = world.open();
    assert!(dedup.check("a").is_fresh());
    world.pass(300);
    let another = dedup.clone();
    at(Place::Inserted, move || assert_eq!(another.forget("a"), Forgotten::Entirely));
    let asked = match in_batch {
        false => dedup.check("a").is_fresh(),
        true => {
            let mut verdicts = Vec::new();
            dedup.check_batch(["b", "a"], &mut verdicts);
            verdicts[1].is_fresh()
        }
    };
    [asked, dedup.check("a").is_fresh()]
}

#[test]
fn an_id_that_is_forgotten_while_it_is_asked_for_is_fresh_once() {
    for in_batch in [false, true] {
        assert_eq!(asked_while_it_is_forgotten(in_batch), [true, false]);
        leave_out(Some(Rule::InsertAgain));
        let without = asked_while_it_is_forgotten(in_batch);
        leave_out(None);
        assert_eq!(without, [true, true], "nobody misses the rule");
    }
}

#[test]
fn a_new_engine_is_not_behind() {
    let world = World::new();
    let dedup = world.open();
    assert_eq!(dedup.stats().long_memory.unwrap().lag, Duration::ZERO);
    assert!(dedup.check("a").is_fresh());
    world.pass(10);
    assert_eq!(dedup.stats().long_memory.unwrap().lag, Duration::from_secs(10));
}

/// An event's verdict: whether it is a duplicate, and whether that is certain.
fn event(dedup: &Dedup, id: &str, seconds: u64) -> (bool, Certainty) {
    let verdict = dedup.check_at(id, Timestamp::from_secs(1_000 + seconds));
    (verdict.is_duplicate(), verdict.certainty())
}

#[test]
fn events_of_the_past_are_sealed_though_the_clock_is_ahead_of_them() {
    for looks in [false, true] {
        let world = World::new();
        let dedup = world.open();
        assert!(!looks || dedup.contains("a").is_none());
        assert_eq!(event(&dedup, "a", 0), (false, Certainty::Exact));
        assert_eq!(event(&dedup, "b", 300), (false, Certainty::Exact));
        assert_eq!(event(&dedup, "a", 300), (true, Certainty::Exact));
    }
}

#[test]
fn a_late_event_is_not_answered_as_if_the_window_had_what_was_before_it() {
    for is_full in [false, true] {
        let world = World::new();
        let dedup = world.open();
        assert_eq!(event(&dedup, "a", 0), (false, Certainty::Exact));
        let claim = dedup.claim("b").claimed().expect("it is fresh");
        if is_full {
            world.disk.set_capacity(Some(0));
        }
        // It tells the time, and asks for nothing.
        assert_eq!(event(&dedup, "b", 300), (false, Certainty::Exact));
        let answer = if is_full { (false, Certainty::Guess) } else { (true, Certainty::Exact) };
        assert_eq!(event(&dedup, "a", 10), answer);
        claim.release().unwrap();
    }
}
