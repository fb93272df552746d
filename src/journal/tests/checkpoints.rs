//! Tests of checkpoints where they meet time, failures of the disk and claims.

use super::faults::directory;
use super::restarts::{builder, clock};
use crate::journal::JournalOptions;
use crate::journal::files::simulated::{Call, Fault, Simulated};
use crate::{Builder, Dedup, EventTime, JournalError, ManualClock, Timestamp};
use std::time::Duration;

fn with_checkpoints(disk: &Simulated, clock: &ManualClock) -> Builder {
    builder(disk, clock, JournalOptions::new().checkpoints(true))
}

fn checkpoint(dedup: &Dedup, position: u64) -> Result<u64, JournalError> {
    dedup.journal().unwrap().checkpoint([("log", position.to_be_bytes())])
}

fn position(dedup: &Dedup) -> Option<u64> {
    let positions = dedup.journal().unwrap().positions().unwrap();
    let [(source, position)] = &positions[..] else { return None };
    assert_eq!(source, b"log");
    Some(u64::from_be_bytes(position[..].try_into().unwrap()))
}

#[test]
fn nothing_that_came_after_the_last_checkpoint_outlives_the_engine_however_it_ends() {
    for is_crash in [false, true] {
        let (disk, clock) = (Simulated::new(), clock());
        let open = || with_checkpoints(&disk, &clock).build().unwrap();
        let dedup = open();
        assert!(dedup.check("a").is_fresh());
        let claim = dedup.claim("b").claimed().unwrap();
        let first = checkpoint(&dedup, 1).unwrap();
        assert_eq!((first, dedup.journal().unwrap().durable().unwrap()), (2, 0), "an id and a position");
        claim.complete().unwrap();
        dedup.forget("a");
        dedup.journal().unwrap().flush().unwrap();
        assert_eq!(dedup.journal().unwrap().durable().unwrap(), first);
        assert!(dedup.stats().journal.unwrap().held_bytes > 0);
        if is_crash {
            disk.crash(0);
        }
        drop(dedup);
        let dedup = open();
        assert_eq!(position(&dedup), Some(1));
        assert!(dedup.contains("a").is_some() && dedup.contains("b").is_none());
    }
}

#[test]
fn a_checkpoint_is_written_by_nobody_but_by_a_flush_or_in_time() {
    let (disk, clock) = (Simulated::new(), clock());
    let open = || with_checkpoints(&disk, &clock).build().unwrap();
    let dedup = open();
    let _ = dedup.check("a");
    checkpoint(&dedup, 1).unwrap();
    let _ = dedup.check("b");
    checkpoint(&dedup, 2).unwrap();
    let _ = dedup.check("c");
    disk.crash(0);
    drop(dedup);
    let dedup = open();
    assert_eq!(position(&dedup), None, "none was durable");
    assert!(["a", "b", "c"].iter().all(|id| dedup.check(id).is_fresh()));
    checkpoint(&dedup, 3).unwrap();
    dedup.journal().unwrap().flush().unwrap();
    disk.crash(0);
    drop(dedup);
    let dedup = open();
    assert_eq!(position(&dedup), Some(3));
    assert!(["a", "b", "c"].iter().all(|id| dedup.check(id).is_duplicate()));
}

#[test]
fn events_that_come_again_are_not_late_since_a_checkpoint_has_the_time_of_what_is_in_it() {
    let (disk, clock) = (Simulated::new(), clock());
    let times = || EventTime::wall().allowed_lateness(Duration::from_secs(10));
    let open = || with_checkpoints(&disk, &clock).window(Duration::from_secs(1_000)).event_time(times()).build();
    let at = |secs| Timestamp::from_secs(999_000 + secs);
    let run =
        |dedup: &Dedup, from: u64| (from..600).map(|n| dedup.check_at(n.to_be_bytes(), at(n))).collect::<Vec<_>>();
    let dedup = open().unwrap();
    assert!(dedup.check_at("first", at(0)).is_fresh());
    checkpoint(&dedup, 1).unwrap();
    // Events run ahead before the checkpoint is written.
    assert!(run(&dedup, 1).iter().all(|verdict| verdict.is_fresh()));
    dedup.journal().unwrap().flush().unwrap();
    disk.crash(0);
    drop(dedup);
    let dedup = open().unwrap();
    assert_eq!(position(&dedup), Some(1));
    let again = run(&dedup, 1);
    assert!(again.iter().all(|verdict| verdict.is_fresh()), "{:?}", again.iter().find(|verdict| !verdict.is_fresh()));
    assert!(dedup.check_at("first", at(600)).is_duplicate());
}

#[test]
fn a_checkpoint_that_fails_is_part_of_the_next_one() {
    let (disk, clock) = (Simulated::new(), clock());
    let open = || with_checkpoints(&disk, &clock).build().unwrap();
    let dedup = open();
    let _ = dedup.check("a");
    checkpoint(&dedup, 1).unwrap();
    disk.plan(Some(Call::Sync), 0, Fault::Error(5));
    assert!(dedup.journal().unwrap().flush().is_err());
    let _ = dedup.check("b");
    let failed = checkpoint(&dedup, 2).unwrap_err();
    assert!(matches!(failed, JournalError::Io { .. }), "{failed}");
    disk.heal();
    assert_eq!(
        dedup.journal().unwrap().reopen().unwrap().written_late,
        2,
        "the first checkpoint: an id and a position"
    );
    let _ = dedup.check("c");
    checkpoint(&dedup, 3).unwrap();
    dedup.journal().unwrap().flush().unwrap();
    disk.crash(0);
    drop(dedup);
    let dedup = open();
    assert_eq!(position(&dedup), Some(3));
    assert!(["a", "b", "c"].iter().all(|id| dedup.contains(id).is_some()));
}

#[test]
fn a_checkpoint_whose_directory_was_deleted_is_reported_as_lost_and_only_the_next_one_counts() {
    // It was made durable by a flush, or by reopening a journal that had failed.
    for by_reopening in [false, true] {
        for takes_another in [false, true] {
            let (disk, clock) = (Simulated::new(), clock());
            let open = || with_checkpoints(&disk, &clock).build().unwrap();
            let dedup = open();
            if by_reopening {
                disk.delete_directory(directory());
            }
            let _ = dedup.check("a");
            checkpoint(&dedup, 1).unwrap();
            assert_eq!(dedup.journal().unwrap().flush().is_err(), by_reopening);
            assert_eq!(dedup.journal().unwrap().reopen().unwrap().written_late, if by_reopening { 2 } else { 0 });
            disk.replace_directory(directory());
            let reopened = dedup.journal().unwrap().reopen().unwrap();
            assert_eq!((reopened.files_lost, reopened.ids_lost, reopened.written_late), (1, 1, 0));
            dedup.journal().unwrap().flush().unwrap();
            if takes_another {
                checkpoint(&dedup, 2).unwrap();
                dedup.journal().unwrap().flush().unwrap();
            }
            disk.crash(0);
            drop(dedup);
            let dedup = open();
            assert_eq!(position(&dedup), takes_another.then_some(2));
            assert!(dedup.contains("a").is_none(), "it was lost, as was said");
        }
    }
}

#[test]
fn positions_that_are_refused_leave_what_is_held_for_the_next_checkpoint() {
    let (disk, clock) = (Simulated::new(), clock());
    let open = || with_checkpoints(&disk, &clock).build().unwrap();
    let dedup = open();
    let _ = dedup.check("a");
    let refused = dedup.journal().unwrap().checkpoint([("log", vec![0; 65_537])]).unwrap_err();
    assert!(matches!(refused, JournalError::TooLarge { got: 65_537, .. }), "{refused}");
    dedup.journal().unwrap().append(|appending| appending.position("other", "7")).unwrap();
    dedup.journal().unwrap().checkpoint::<&str, &str>([]).unwrap();
    dedup.journal().unwrap().flush().unwrap();
    drop(dedup);
    let dedup = open();
    assert!(dedup.contains("a").is_some());
    assert_eq!(dedup.journal().unwrap().positions().unwrap(), [(b"other".to_vec(), b"7".to_vec())]);
}

#[test]
fn who_has_no_checkpoints_is_told_what_it_takes() {
    let (disk, clock) = (Simulated::new(), clock());
    let dedup = builder(&disk, &clock, JournalOptions::new()).build().unwrap();
    let error = checkpoint(&dedup, 1).unwrap_err().to_string();
    let expected = "has no checkpoints: build the engine with option `journal.checkpoints`";
    assert!(error.ends_with(expected), "{error}");
}
