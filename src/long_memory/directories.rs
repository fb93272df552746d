//! A journal and segments that do not belong together: every pair of directories of different ages.
//! A pair is refused, by name, if ids between both are in neither.

use super::tests::World;
use crate::journal::files::simulated::Simulated;
use crate::journal::tests::restarts::builder;
use crate::{Dedup, Error, JournalOptions, SegmentError};
use std::path::Path;

/// The hours, so to say, after each of which a state of both directories is kept.
const STEP: u64 = 130;

/// Lets an engine accept an id now and then, and everything before leave the window.
fn pass_a_step(world: &World, dedup: &Dedup, name: &str) {
    for i in 0..4 {
        world.pass(STEP / 4);
        assert!(dedup.check(format!("{name}-{i}")).is_fresh());
        dedup.journal().unwrap().flush().unwrap();
    }
}

/// Returns a disk with the journal of one and the segments of another.
fn put_together(journal: Option<&Simulated>, segments: Option<&Simulated>) -> Simulated {
    let disk = Simulated::new();
    for (from, folder) in [(journal, "/journal"), (segments, "/long")] {
        let Some(from) = from else { continue };
        for path in from.paths().into_iter().filter(|path| path.starts_with(folder)) {
            disk.put(&path, from.read(&path).expect("it was listed just now"));
        }
    }
    disk
}

/// Returns the state of the disk after a step with a long memory, after two, and after two without.
fn states(world: &World) -> [Simulated; 3] {
    let end = |dedup: Dedup, disk: &Simulated| {
        drop(dedup);
        disk.copy()
    };
    let dedup = world.open();
    pass_a_step(world, &dedup, "a");
    let old = end(dedup, &world.disk);
    let dedup = world.open();
    pass_a_step(world, &dedup, "b");
    let new = end(dedup, &world.disk);
    // An engine without a long memory knows nothing of segments.
    let dedup = builder(&world.disk, &world.clock, JournalOptions::new()).window(super::tests::WINDOW).build().unwrap();
    pass_a_step(world, &dedup, "c");
    pass_a_step(world, &dedup, "d");
    [old, new, end(dedup, &world.disk)]
}

fn blocks_lost(dedup: &Dedup) -> u64 {
    dedup.stats().journal.expect("it has one").recovery.blocks_lost
}

#[test]
fn directories_of_different_ages_are_refused_where_ids_are_in_neither() {
    let world = World::new();
    let [old, new, without] = states(&world);
    // Another engine's, with the same key.
    let [old_other, new_other, without_other] = states(&World::new());
    let refused = |journal: Option<&Simulated>, segments: Option<&Simulated>| {
        let world = World { disk: put_together(journal, segments), clock: world.clock.clone(), ..World::new() };
        world.build().err().map(|error| error.to_string())
    };
    let begins_behind = "the oldest block";
    let ends_before = "the next block";
    let another = "another journal";
    for (name, journal, segments, expected) in [
        ("old and old", Some(&old), Some(&old), None),
        ("new and new", Some(&new), Some(&new), None),
        ("an older journal", Some(&old), Some(&new), Some(ends_before)),
        ("no journal", None, Some(&new), Some(ends_before)),
        ("older segments", Some(&without), Some(&old), Some(begins_behind)),
        ("after a rollback", Some(&without), Some(&new), Some(begins_behind)),
        // A long memory begins with what the journal has.
        ("no segments", Some(&new), None, None),
        ("another engine's of the same age", Some(&new), Some(&new_other), Some(another)),
        ("another engine's, both young", Some(&old), Some(&old_other), Some(another)),
        ("another engine's segments, older ones", Some(&new), Some(&old_other), Some(another)),
        ("another engine's segments, newer ones", Some(&old), Some(&new_other), Some(another)),
        ("another engine's journal after a rollback", Some(&without_other), Some(&new), Some(another)),
    ] {
        let wrong = refused(journal, segments);
        println!("{name}: {wrong:?}");
        match expected {
            None => assert_eq!(wrong, None, "{name}"),
            Some(what) => assert!(wrong.as_ref().is_some_and(|wrong| wrong.contains(what)), "{name}: {wrong:?}"),
        }
    }
}

#[test]
fn who_keeps_damage_goes_on_over_a_gap_and_is_told_how_many_blocks_it_has() {
    let world = World::new();
    let [_, new, without] = states(&world);
    let disk = put_together(Some(&without), Some(&new));
    let world = World { disk, clock: world.clock.clone(), keeps_damage: true, ..World::new() };
    let dedup = world.open();
    assert!(blocks_lost(&dedup) > 0);
    // Of before the gap, and of after it.
    for id in ["b-0", "d-3"] {
        assert!(dedup.check(id).is_duplicate(), "{id}");
    }
    drop(dedup);
    // What it had is in segments now.
    let dedup = World { disk: world.disk.copy(), clock: world.clock.clone(), ..World::new() }.open();
    assert_eq!(blocks_lost(&dedup), 0);
}

/// Blocks of another engine's journal pass for those of which segments were made, unless they all
/// come after these.
#[test]
fn who_keeps_damage_goes_on_with_another_engines_segments_only_over_a_gap() {
    let world = World::new();
    let [old, ..] = states(&world);
    let [old_other, _, without_other] = states(&World::new());
    let keeping = |journal, segments, keeps_damage| {
        let disk = put_together(Some(journal), Some(segments));
        World { disk, clock: world.clock.clone(), keeps_damage, ..World::new() }
    };
    for keeps_damage in [false, true] {
        let refused = keeping(&old, &old_other, keeps_damage).build().map(drop).expect_err("it is another's");
        let Error::Segments(SegmentError::AnotherJournal { segments, journal }) = refused else { panic!("{refused}") };
        assert_eq!((segments, journal), ("/long".into(), "/journal".into()));
    }
    let world = keeping(&without_other, &old, true);
    let dedup = world.open();
    assert!(blocks_lost(&dedup) > 0 && dedup.check("d-3").is_duplicate());
    drop(dedup);
    // From now on they are this journal's.
    let world = World { disk: world.disk.copy(), clock: world.clock.clone(), ..World::new() };
    assert_eq!(blocks_lost(&world.open()), 0);
}

#[test]
fn a_journal_that_was_deleted_and_reopened_goes_on_with_what_is_sealed() {
    for dies in [false, true] {
        let world = World::new();
        let dedup = world.open();
        assert!(dedup.check("a").is_fresh());
        world.pass(70);
        // By now the first is sealed; this one will not be.
        assert!(dedup.check("b").is_fresh());
        dedup.journal().unwrap().flush().unwrap();
        world.disk.delete_directory(Path::new("/journal"));
        assert!(dedup.journal().unwrap().reopen().unwrap().files_lost > 0);
        if dies {
            world.disk.kill();
        }
        drop(dedup);
        world.disk.heal();
        let dedup = world.open();
        assert!(dedup.check("a").is_duplicate() && dedup.check("b").is_fresh(), "dies: {dies}");
    }
}

#[test]
fn a_loss_that_was_told_is_no_reason_to_refuse_and_only_that() {
    let world = World::new();
    let dedup = world.open();
    pass_a_step(&world, &dedup, "a");
    let old = world.disk.copy();
    pass_a_step(&world, &dedup, "b");
    // In no segment, and never will be: its file goes, and nothing can be sealed after that.
    assert!(dedup.check("lost").is_fresh());
    dedup.journal().unwrap().flush().unwrap();
    world.disk.delete_directory(Path::new("/journal"));
    assert!(dedup.journal().unwrap().reopen().unwrap().ids_lost > 0);
    assert!(dedup.check("kept").is_fresh());
    dedup.journal().unwrap().flush().unwrap();
    world.disk.kill();
    drop(dedup);
    world.disk.heal();
    let disk = world.disk.copy();
    let dedup = world.open();
    assert!(["a-0", "b-0", "kept"].iter().all(|id| dedup.check(id).is_duplicate()));
    assert!(dedup.check("lost").is_fresh());
    drop(dedup);
    // Segments of before have less than was told.
    let world = World { disk: put_together(Some(&disk), Some(&old)), clock: world.clock.clone(), ..World::new() };
    let error = world.build().err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("the oldest block"), "{error}");
}

#[test]
fn older_segments_are_taken_if_the_journal_has_all_that_came_since() {
    let world = World::new();
    let dedup = world.open();
    assert!(dedup.check("a").is_fresh());
    drop(dedup);
    let old = world.disk.copy();
    let dedup = world.open();
    assert!(dedup.check("b").is_fresh());
    drop(dedup);
    let disk = put_together(Some(&world.disk), Some(&old));
    assert!(disk.paths().iter().any(|path| path.starts_with(Path::new("/long"))));
    let dedup = World { disk, clock: world.clock.clone(), ..World::new() }.open();
    world.pass(300);
    for id in ["a", "b"] {
        assert!(dedup.check(id).is_duplicate(), "{id}");
    }
}

#[test]
fn a_process_that_dies_soon_after_each_start_leaves_few_segments() {
    let world = World::new();
    let names: Vec<_> = (0..300).map(|start| format!("{start}")).collect();
    for (start, name) in names.iter().enumerate() {
        let dedup = world.open();
        let live = dedup.stats().long_memory.expect("it has one").segments.segments;
        assert!(live <= 31, "start {start}: {live} segments");
        assert!(dedup.check(name).is_fresh());
        dedup.journal().unwrap().flush().unwrap();
        world.disk.kill();
        drop(dedup);
        world.disk.heal();
    }
    let dedup = world.open();
    world.pass(200);
    for name in &names {
        assert!(dedup.check(name).is_duplicate(), "{name}");
    }
}
