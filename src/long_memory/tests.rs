//! Engines with a long memory on a simulated disk, in virtual time, without a thread.

use crate::digest::{DigestKey, WantedKey};
use crate::history::history;
use crate::journal::files::simulated::Simulated;
use crate::journal::tests::restarts::{builder, clock};
use crate::journal::{DurableFiles, DurableSegments};
use crate::mutation::{Place, Rule, at, leave_out};
use crate::segments::tests::remote::{Elsewhere, Mood};
use crate::sync::{Ordering, StdAtomicU64};
use crate::{
    Attempt, Builder, Damage, Dedup, Error, Forgotten, JournalError, JournalOptions, LongMemory, ManualClock, Tier,
    Timestamp,
};
use std::path::PathBuf;
use std::sync::Arc;
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
    /// True if callers tell the journal of their checks.
    pub(super) deferred: bool,
    pub(super) keeps_damage: bool,
    pub(super) refreshes: bool,
    /// The segments of earlier owners, if it is handed over.
    pub(super) source: Option<Elsewhere>,
}

impl World {
    pub(super) fn new() -> Self {
        let (checkpoints, deferred, refreshes) = (false, false, false);
        let (disk, clock, keeps_damage) = (Simulated::new(), clock(), false);
        World { disk, clock, checkpoints, deferred, keeps_damage, refreshes, source: None }
    }

    pub(super) fn open(&self) -> Dedup {
        self.build().unwrap()
    }

    pub(super) fn build(&self) -> Result<Dedup, Error> {
        let damage = if self.keeps_damage { Damage::Keep } else { Damage::Refuse };
        let options = JournalOptions::new().checkpoints(self.checkpoints).deferred(self.deferred).damage(damage);
        let builder = builder(&self.disk, &self.clock, options);
        // (With one key, filters let the same ids pass each time.)
        let key = DigestKey { kind: WantedKey::default().kind, bits: 7 };
        let builder = builder.window(WINDOW).refresh_on_duplicate(self.refreshes).digest_key(key);
        let builder = builder.long_memory(directory(), LongMemory::new(RETENTION));
        match &self.source {
            Some(source) => builder.segment_source(Arc::new(source.clone())).build(),
            None => builder.build(),
        }
    }

    /// Returns a disk with these files alone, without segments, which the source takes over.
    pub(super) fn handed_over(&self, durable: &DurableFiles) -> Simulated {
        let (disk, segments) = (Simulated::new(), durable.segments.as_ref().expect("it has a long memory"));
        for file in &durable.files {
            let mut bytes = self.disk.read(&file.path).expect("it was listed just now");
            bytes.truncate(usize::try_from(file.bytes).expect("it is in memory"));
            disk.put(&file.path, bytes);
        }
        if !durable.mark.is_empty() {
            disk.put(&PathBuf::from("/journal").join(DurableFiles::MARK), durable.mark.clone());
        }
        disk.put(&directory().join(DurableSegments::MANIFEST), segments.manifest.clone());
        self.source.as_ref().expect("it is handed over").take_over(&self.disk, &segments.files);
        disk
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
    assert_eq!((verdict.is_duplicate(), verdict.tier(), verdict.is_certain()), (true, Tier::Segments, true));
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
    assert_eq!(refused(10, options, |builder| builder.history(history(RETENTION, 0.01, 1_000))), "history");
}

#[test]
fn a_journal_that_is_behind_its_segments_is_another_one() {
    let world = World::new();
    let dedup = world.open();
    for id in ["a", "b", "c"] {
        assert!(dedup.check(id).is_fresh());
        dedup.journal().unwrap().flush().unwrap();
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
    world.pass(74);
    assert!(dedup.check("b").is_certain(), "the window has all of it");
    world.pass(35);
    let verdict = dedup.check("a");
    assert_eq!((verdict.is_fresh(), verdict.is_certain()), (true, false));
    let stats = dedup.stats();
    let long_memory = stats.long_memory.unwrap();
    assert_eq!((long_memory.in_doubt, stats.fresh_unconfirmed), (1, 1));
    assert!(long_memory.failed.is_some() && long_memory.lag >= WINDOW, "{long_memory:?}");

    world.disk.set_capacity(None);
    dedup.journal().unwrap().reopen().unwrap();
    assert!(dedup.check("c").is_certain());
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
        verdicts.iter().all(|verdict| verdict.is_fresh() && verdict.is_certain())
    };
    assert!(accept(5_000));
    dedup.journal().unwrap().flush().unwrap();
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
    dedup.journal().unwrap().flush().unwrap();
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
    let asked = if in_batch {
        let mut verdicts = Vec::new();
        dedup.check_batch(["b", "a"], &mut verdicts);
        verdicts[1].is_fresh()
    } else {
        dedup.check("a").is_fresh()
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

/// Takes what is handed over, while everything is sealed; and goes on with it elsewhere. Returns
/// whether what lies before its position is known, and what came after it.
fn listed_while_it_is_sealed() -> Result<[bool; 2], Error> {
    let mut world = World { checkpoints: true, source: Some(Elsewhere::default()), ..World::new() };
    let dedup = world.open();
    assert!(dedup.check("a").is_fresh());
    dedup.journal().unwrap().checkpoint([("log", [1])]).unwrap();
    dedup.journal().unwrap().flush().unwrap();
    let (another, clock) = (dedup.clone(), world.clock.clone());
    at(Place::Listed, move || {
        assert!(another.check("b").is_fresh());
        another.journal().unwrap().checkpoint([("log", [2])]).unwrap();
        another.journal().unwrap().flush().unwrap();
        clock.advance(Duration::from_secs(60));
        // Late: who asks seals.
        assert!(another.check("c").is_fresh());
    });
    let durable = dedup.journal().unwrap().files().unwrap();
    let disk = world.handed_over(&durable);
    drop(dedup);
    world.disk = disk;
    let dedup = world.build()?;
    let position = dedup.journal().unwrap().positions()?[0].1[0];
    Ok([dedup.contains("a").is_some(), dedup.contains("b").is_some() == (position == 2)])
}

#[test]
fn what_is_handed_over_while_it_is_sealed_is_of_one_moment() {
    assert_eq!(listed_while_it_is_sealed().unwrap(), [true, true]);
    leave_out(Some(Rule::SegmentsFirst));
    let without = listed_while_it_is_sealed();
    leave_out(None);
    assert!(!without.is_ok_and(|known| known == [true, true]), "nobody misses the rule");
}

#[test]
fn what_is_elsewhere_and_cannot_be_read_is_in_doubt_until_it_is_here() {
    let source = Elsewhere::default();
    let mut world = World { source: Some(source.clone()), ..World::new() };
    let dedup = world.open();
    assert!(dedup.check("a").is_fresh() && dedup.check("b").is_fresh());
    world.pass(200);
    assert!(dedup.check("c").is_fresh());
    dedup.journal().unwrap().flush().unwrap();
    let disk = world.handed_over(&dedup.journal().unwrap().files().unwrap());
    drop(dedup);
    world.disk = disk;
    let dedup = world.open();
    let long = || dedup.stats().long_memory.unwrap();
    assert_eq!(long().segments.remote, 1);
    source.mood(Mood::Gone);
    let verdict = dedup.check("a");
    assert_eq!((verdict.is_fresh(), verdict.is_certain(), long().in_doubt), (true, false, 1));
    assert_eq!((dedup.contains("b"), long().in_doubt), (None, 2));
    let bring = || dedup.engine.long.as_ref().unwrap().bring(1 << 20);
    assert!(bring().is_err() && long().not_brought.is_some());
    source.mood(Mood::Well);
    while bring().unwrap() {}
    source.mood(Mood::Gone);
    assert_eq!(dedup.check("b").tier(), Tier::Segments);
    assert!(long().not_brought.is_none() && long().segments.remote == 0);
}

/// Accepts an id at the beginning of a tick of the window, and has this much time pass, by events
/// alone.
fn accepted_by_events(nanos: u64) -> (World, Dedup) {
    let world = World::new();
    // (Events from the future are refused.)
    world.pass(5_000);
    let dedup = world.open();
    let accepted = Timestamp::from_secs(1_000);
    assert!(dedup.check_at("a", accepted).is_fresh());
    for seconds in [200, 500] {
        assert!(dedup.check_at(format!("after {seconds} s"), accepted + Duration::from_secs(seconds)).is_fresh());
    }
    assert!(dedup.check_at("last", accepted + Duration::from_nanos(nanos)).is_fresh());
    (world, dedup)
}

#[test]
fn calls_without_a_time_forget_nothing_before_the_retention_has_passed_in_events() {
    let retention = u64::try_from(RETENTION.as_nanos()).unwrap();
    let early = [1, 1_000_000, 900_000_000].map(|nanos| retention - nanos);
    for nanos in early {
        assert_eq!(accepted_by_events(nanos).1.contains("a"), Some(Tier::Segments), "{nanos}");
        assert!(accepted_by_events(nanos).1.check("a").is_duplicate(), "{nanos}");
        assert!(accepted_by_events(nanos).1.claim("a").is_duplicate(), "{nanos}");
        // Nor is it deleted by what they have called for.
        let (world, dedup) = accepted_by_events(nanos);
        assert!(dedup.check("another").is_fresh());
        dedup.journal().unwrap().flush().unwrap();
        drop(dedup);
        assert_eq!(world.open().contains("a"), Some(Tier::Segments), "{nanos}");
    }
    assert_eq!(accepted_by_events(retention + 1_000_000_000).1.contains("a"), None);
}

/// Accepts an id, then many others in steps of ten seconds, by events that begin then. Returns the
/// seconds for which it was known.
fn known_for(dedup: &Dedup, begins: u64) -> u64 {
    let at = |seconds| Timestamp::from_secs(begins + seconds);
    assert!(dedup.check_at("first", at(0)).is_fresh());
    let fresh = (10..2 * RETENTION.as_secs()).step_by(10).find(|&seconds| {
        let other = dedup.check_at(seconds.to_le_bytes(), at(seconds));
        assert_eq!((other.is_fresh(), other.is_certain()), (true, true), "{seconds}");
        dedup.contains("first").is_none()
    });
    fresh.expect("it is forgotten one day")
}

#[test]
fn events_of_the_past_are_remembered_for_the_retention() {
    let world = World::new();
    world.pass(50_000);
    assert!(known_for(&world.open(), 10_000) >= RETENTION.as_secs());
}

#[test]
fn events_that_follow_the_clock_are_remembered_for_the_retention() {
    for seconds_off in [1, 300, 5_000] {
        let world = World::new();
        world.pass(50_000);
        let dedup = world.open();
        assert!(dedup.check("by the clock").is_fresh());
        dedup.journal().unwrap().flush().unwrap();
        drop(dedup);
        world.pass(seconds_off);
        assert!(known_for(&world.open(), 10_000) >= RETENTION.as_secs(), "{seconds_off}");
    }
}

#[test]
fn who_seals_for_an_earlier_time_takes_nothing_back() {
    let world = World::new();
    let dedup = world.open();
    assert!(dedup.check("a").is_fresh());
    let before = dedup.engine.now_at_rest().time;
    world.pass(400);
    let now = dedup.engine.now_at_rest().time;
    let sealing = &dedup.engine.long.as_deref().unwrap().sealing;
    // A caller after a night without messages, and the thread, which was called before it and has
    // waited for the caller.
    sealing.seal(now).unwrap();
    sealing.seal(before).unwrap();
    assert!(!sealing.is_behind(now), "{:?}", sealing.lag(now));
    assert!(dedup.check("b").is_certain());
}

#[test]
fn a_call_that_comes_while_somebody_seals_makes_no_segment_of_its_own() {
    let world = World::new();
    let dedup = world.open();
    assert!(dedup.check("a").is_fresh());
    world.pass(WINDOW.as_secs() / 2);
    let called = dedup.engine.now_at_rest().time;
    let sealing = &dedup.engine.long.as_deref().unwrap().sealing;
    assert!(sealing.is_due(called));
    sealing.seal(called).unwrap();
    assert!(dedup.check("b").is_fresh());
    let segments = || sealing.segments.stats().segments;
    sealing.seal_due(called, called).unwrap();
    sealing.seal_late(called, called).unwrap();
    assert_eq!(segments(), 1);
    let next = called + WINDOW / 2;
    sealing.seal_due(next, next).unwrap();
    assert_eq!(segments(), 2);
}

#[test]
fn the_thread_seals_from_half_of_the_window_on_callers_from_three_quarters_and_before_any_doubt() {
    for (deferred, due, late) in [(false, WINDOW / 2, WINDOW / 4 * 3), (true, WINDOW / 4, WINDOW / 2)] {
        let world = World { deferred, ..World::new() };
        let dedup = world.open();
        let sealing = &dedup.engine.long.as_deref().unwrap().sealing;
        let now = dedup.engine.now_at_rest().time;
        let began = now.as_nanos() - sealing.lag(now).as_nanos() as u64;
        let at = |lag: Duration| Timestamp::from_nanos(began + lag.as_nanos() as u64);
        let just_before = |lag| at(lag - Duration::from_nanos(1));
        assert!(sealing.is_due(at(due)) && !sealing.is_due(just_before(due)));
        assert!(sealing.is_late(at(late)) && !sealing.is_late(just_before(late)));
        assert!(!sealing.is_behind(just_before(late)));
    }
}

#[test]
fn a_claim_of_what_segments_know_ends_also_while_other_ids_are_forgotten_all_the_time() {
    fn forget_at_each_look(dedup: Dedup, times: Arc<StdAtomicU64>) {
        at(Place::WindowRead, move || {
            dedup.forget("another");
            if times.fetch_add(1, Ordering::Relaxed) < 1_000 {
                forget_at_each_look(dedup, times);
            }
        });
    }
    let world = World::new();
    let dedup = world.open();
    assert!(dedup.check("a").is_fresh());
    world.pass(400);
    let times = Arc::new(StdAtomicU64::new(0));
    forget_at_each_look(dedup.clone(), Arc::clone(&times));
    let attempt = dedup.claim("a");
    at(Place::Inserted, || {});
    assert!(matches!(attempt, Attempt::Duplicate(verdict) if verdict.tier() == Tier::Segments), "{attempt:?}");
    assert!(times.load(Ordering::Relaxed) < 200, "it tried again each time");
}
