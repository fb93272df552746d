//! Tests of everything that can go wrong with the disk: each call fails in turn, the process dies
//! or the power is cut at each, files are cut off and flipped everywhere, and deleted.

use crate::Timestamp;
use crate::clock::{Clocks, Machine, SharedTimeBase, Stamp};
use crate::digest::{Digest, DigestKey, DigestKind};
use crate::error::JournalError;
use crate::journal::encoding::payload::{Kind, Payload};
use crate::journal::files::simulated::{Call, Fault, Simulated};
use crate::journal::options::{Damage, JournalOptions, Reopening, SyncMode};
use crate::journal::recover::recovery::{Found, Recovered, Told};
use crate::journal::write::commit::Shared;
use crate::journal::write::mark;
use crate::journal::write::writer::{Rules, Writer};
use crate::process::Origin;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const DIRECTORY: &str = "/journal";
pub(in crate::journal) const EIO: i32 = 5;
pub(in crate::journal) const ENOSPC: i32 = 28;

pub(in crate::journal) fn directory() -> &'static Path {
    Path::new(DIRECTORY)
}

fn machine() -> Machine {
    let clocks = || Clocks { engine: Timestamp::from_secs(1), wall_nanos: 2, boot_nanos: 3 };
    Machine { clocks: Arc::new(clocks), boot: 4 }
}

pub(in crate::journal) fn id(n: u64) -> Digest {
    Digest { place: n, mark: !n }
}

pub(in crate::journal) fn second(n: u64) -> Stamp {
    Stamp { reading: Timestamp::from_secs(n).into(), tick: n }
}

const KEY: DigestKey = DigestKey { kind: DigestKind::Keyed, bits: 7 };

/// The number of ids that a run of the test appends, each a second after the one before and flushed
/// by itself.
pub(in crate::journal) const IDS: u64 = 30;
pub(in crate::journal) const RETENTION: Duration = Duration::from_secs(12);

pub(in crate::journal) fn rules(segment_length: Duration, retention: Duration) -> Rules {
    Rules {
        directory: directory().into(),
        key: KEY,
        salt: 8,
        sync: SyncMode::Disk,
        max_disk_bytes: None,
        segment_length,
        retention,
        machine: machine(),
        time: Arc::new(SharedTimeBase::default()),
    }
}

fn reopening(damage: Damage) -> Reopening {
    // (Nothing expires, as these tests count what is there.)
    let retention = std::time::Duration::MAX;
    Reopening { damage, sync: SyncMode::Disk, key: KEY, boot: 4, wall_nanos: 5, retention }
}

/// Opens the journal that there is. Returns the ids in it, too.
pub(in crate::journal) fn open(disk: &Simulated, damage: Damage) -> Result<(Found, Recovered, Vec<u64>), JournalError> {
    let found = Found::open(Arc::new(disk.of_this_boot()), directory(), &machine())?;
    let mut ids = Vec::new();
    let recovered = found.replay(&reopening(damage), |told| match told {
        Told::Run(run) => ids.extend(run.ids().map(|id| id.place)),
        Told::Time(_) => {}
    })?;
    Ok((found, recovered, ids))
}

/// Opens the journal and goes on with it.
pub(in crate::journal) fn go_on(
    disk: &Simulated,
    rules: Rules,
    damage: Damage,
) -> Result<(Arc<Shared>, Recovered, Vec<u64>), JournalError> {
    let (found, mut recovered, ids) = open(disk, damage)?;
    let rules = Rules { salt: recovered.salt, ..rules };
    let start = std::mem::take(&mut recovered.start);
    let writer = Writer::new(found.disk, found.lock, rules, start)?;
    Ok((Arc::new(Shared::new(&JournalOptions::new(), writer, true, Origin::here().unwrap())), recovered, ids))
}

pub(in crate::journal) fn stop(shared: &Shared) {
    shared.close();
    shared.finish();
}

/// Appends all ids. Returns those that were acknowledged on a disk, and the error after which none
/// were.
fn append_all(disk: &Simulated) -> (Vec<u64>, Option<JournalError>) {
    let opened = go_on(disk, rules(Duration::from_secs(4), RETENTION), Damage::Refuse);
    let (shared, ..) = match opened {
        Ok(opened) => opened,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let (mut acknowledged, mut failed) = (Vec::new(), None);
    for n in 0..IDS {
        shared.append(Kind::Accepted, second(n), [id(n)]);
        match (shared.flush(), &failed) {
            (Ok(()), None) => acknowledged.push(n),
            (Err(error), None) => failed = Some(error),
            (Err(again), Some(first)) => assert_eq!(again.to_string(), first.to_string()),
            (Ok(()), Some(first)) => panic!("{n} was acknowledged after {first}"),
        }
    }
    assert_eq!(shared.status().failed.is_some(), failed.is_some());
    stop(&shared);
    (acknowledged, failed)
}

/// Checks that every acknowledged id is there that had not expired when the last was, and none that
/// was not accepted.
fn verify(ids: &[u64], acknowledged: &[u64], what: &str) {
    // The id that failed may be there, and files may have expired by its time.
    let latest = acknowledged.last().map_or(0, |last| last + 1);
    for n in acknowledged.iter().filter(|n| **n + RETENTION.as_secs() >= latest) {
        assert!(ids.contains(n), "{what}: {n} was acknowledged and is gone");
    }
    assert!(ids.iter().all(|n| *n < IDS), "{what}: {ids:?}");
    assert!(ids.is_sorted_by(|a, b| a < b), "{what}: something is there twice: {ids:?}");
}

#[test]
fn whatever_call_fails_nothing_is_acknowledged_that_is_not_there() {
    let mut failures = 0;
    for fault in [Fault::Error(EIO), Fault::Error(ENOSPC), Fault::HalfThenFull, Fault::Short, Fault::Dead] {
        for calls in 0.. {
            for cut in [false, true] {
                let disk = Simulated::new();
                disk.plan(None, calls, fault);
                let (acknowledged, failed) = append_all(&disk);
                failures += u32::from(failed.is_some());
                let what = format!("{fault:?} of call {calls}, power cut: {cut}");
                disk.set_capacity(None);
                if cut {
                    disk.crash(calls);
                } else {
                    disk.kill();
                }
                let (found, recovered, ids) = open(&disk, Damage::Refuse).unwrap_or_else(|e| panic!("{what}: {e}"));
                verify(&ids, &acknowledged, &what);
                drop((found, recovered));
                // A directory that failed once can be used again.
                let (shared, _, ids) = go_on(&disk, rules(RETENTION, 100 * RETENTION), Damage::Refuse).unwrap();
                verify(&ids, &acknowledged, &what);
                shared.append(Kind::Accepted, second(IDS), [id(IDS)]);
                shared.flush().unwrap();
                stop(&shared);
                assert_eq!(open(&disk, Damage::Refuse).unwrap().2.len(), ids.len() + 1, "{what}");
            }
            if calls > disk_calls() {
                break;
            }
        }
    }
    assert!(failures > 500, "{failures}");
}

#[test]
fn positions_outlive_two_deaths_while_the_file_that_has_them_expires() {
    let rules = || rules(Duration::from_secs(1), Duration::from_secs(2));
    for deaths in (0..25).flat_map(|first| (0..25).map(move |second| [first, second])) {
        let disk = Simulated::new();
        let (shared, ..) = go_on(&disk, rules(), Damage::Refuse).unwrap();
        let mut payload = Payload::default();
        payload.push(Kind::Accepted, second(0), [id(0)]);
        payload.push_position(b"source", b"17");
        shared.append_whole(&payload).unwrap();
        shared.flush().unwrap();
        stop(&shared);
        for (n, calls) in (1..).zip(deaths) {
            disk.plan(None, calls, Fault::Dead);
            if let Ok((shared, ..)) = go_on(&disk, rules(), Damage::Refuse) {
                shared.append(Kind::Accepted, second(100 * n), [id(n)]);
                let _ = shared.flush(); // it dies, or does not
                stop(&shared);
            }
            disk.set_capacity(None);
            disk.kill();
        }
        let (_, recovered, _) = open(&disk, Damage::Refuse).unwrap_or_else(|e| panic!("{deaths:?}: {e}"));
        let known: Vec<_> = recovered.start.positions.iter().collect();
        assert_eq!(known, [(&b"source"[..], &b"17"[..])], "dead at calls {deaths:?}");
    }
}

#[test]
fn what_comes_while_a_block_is_written_is_not_acknowledged_with_it() {
    for call in [Call::Write, Call::Sync] {
        let disk = Simulated::new();
        let (shared, ..) = go_on(&disk, rules(RETENTION, RETENTION), Damage::Refuse).unwrap();
        shared.append(Kind::Accepted, second(0), [id(0)]);
        let other_caller = Arc::clone(&shared);
        disk.meanwhile(call, move || other_caller.append(Kind::Accepted, second(1), [id(1)]));
        shared.flush().unwrap();
        let status = shared.status();
        assert_eq!((status.appended, status.durable), (2, 1), "during {call:?}");
        // The power is cut: what was acknowledged is there, and the other was not acknowledged.
        let copy = disk.copy();
        copy.crash(0);
        assert_eq!(open(&copy, Damage::Refuse).unwrap().2, [0], "during {call:?}");
        shared.flush().unwrap();
        assert_eq!(shared.status().durable, shared.status().appended);
        disk.crash(0);
        assert_eq!(open(&disk, Damage::Refuse).unwrap().2, [0, 1], "during {call:?}");
    }
}

/// Returns the number of calls that a run takes in which nothing fails.
pub(in crate::journal) fn disk_calls() -> u64 {
    let disk = Simulated::new();
    append_all(&disk);
    disk.calls()
}

#[test]
fn whatever_call_fails_a_reopened_journal_has_everything_once() {
    let mut late = 0;
    for fault in [Fault::Error(EIO), Fault::Error(ENOSPC), Fault::HalfThenFull] {
        for calls in 0..disk_calls() {
            let disk = Simulated::new();
            let what = format!("{fault:?} of call {calls}");
            let Ok((shared, ..)) = go_on(&disk, rules(Duration::from_secs(4), 10 * RETENTION), Damage::Refuse) else {
                panic!("{what}: nothing is wrong yet");
            };
            disk.plan(None, calls, fault);
            for n in 0..IDS {
                shared.append(Kind::Accepted, second(n), [id(n)]);
                let failed = shared.flush().is_err();
                if failed && n % 3 == 0 {
                    disk.set_capacity(None);
                    let reopened = shared.reopen().unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert!(reopened.failed_at.is_some() && reopened.dropped == 0, "{what}: {reopened:?}");
                    late += reopened.written_late;
                    shared.flush().unwrap();
                    assert_eq!(shared.reopen().unwrap(), Default::default(), "{what}: it has not failed");
                }
            }
            if shared.status().failed.is_some() {
                disk.set_capacity(None);
                shared.reopen().unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            disk.crash(calls);
            let (_, recovered, ids) = open(&disk, Damage::Refuse).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(ids, (0..IDS).collect::<Vec<_>>(), "{what}");
            assert!(recovered.recovery.torn.is_empty(), "{what}: {:?}", recovered.recovery);
        }
    }
    assert!(late > 100, "{late}");
}

#[test]
fn a_sync_that_fails_after_the_block_was_written_does_not_bring_it_twice() {
    let disk = Simulated::new();
    let (shared, ..) = go_on(&disk, rules(RETENTION, RETENTION), Damage::Refuse).unwrap();
    shared.append(Kind::Accepted, second(0), [id(0)]);
    shared.flush().unwrap();
    disk.plan(Some(Call::Sync), 0, Fault::Error(EIO));
    shared.append(Kind::Accepted, second(1), [id(1)]);
    assert!(shared.flush().is_err());
    shared.append(Kind::Accepted, second(2), [id(2)]);
    assert!(shared.flush().is_err(), "after a sync that failed nothing is acknowledged");
    assert_eq!(shared.reopen().unwrap().written_late, 2);
    shared.flush().unwrap();
    disk.kill();
    assert_eq!(open(&disk, Damage::Refuse).unwrap().2, [0, 1, 2]);
}

#[test]
fn a_directory_that_is_deleted_or_replaced_is_noticed_at_the_next_flush_and_made_again() {
    for replaced in [false, true] {
        let disk = Simulated::new();
        let (shared, ..) = go_on(&disk, rules(RETENTION, RETENTION), Damage::Refuse).unwrap();
        for n in 0..3 {
            shared.append(Kind::Accepted, second(n), [id(n)]);
            shared.flush().unwrap();
        }
        if replaced {
            disk.replace_directory(directory());
        } else {
            disk.delete_directory(directory());
        }
        assert!(matches!(shared.flush(), Err(JournalError::Gone { .. })), "nothing was pending");
        shared.append(Kind::Accepted, second(3), [id(3)]);
        assert!(matches!(shared.flush(), Err(JournalError::Gone { .. })));
        let reopened = shared.reopen().unwrap();
        assert_eq!((reopened.files_lost, reopened.ids_lost, reopened.written_late), (1, 3, 1));
        shared.flush().unwrap();
        disk.crash(1);
        let (_, recovered, ids) = open(&disk, Damage::Refuse).unwrap();
        assert_eq!((ids, recovered.start.number, recovered.start.ids), (vec![3], 4, 4));
    }
}

#[test]
fn over_its_budget_it_goes_on_when_files_have_expired() {
    let disk = Simulated::new();
    let rules = Rules { max_disk_bytes: Some(3_000), ..rules(Duration::from_secs(4), RETENTION) };
    let (shared, ..) = go_on(&disk, rules, Damage::Refuse).unwrap();
    let mut acknowledged = Vec::new();
    for n in 0.. {
        shared.append(Kind::Accepted, Stamp { tick: 0, ..second(n / 10) }, [id(n)]);
        match shared.flush() {
            Ok(()) => acknowledged.push(n),
            Err(error) => {
                assert!(matches!(error, JournalError::OverBudget { .. }));
                break;
            }
        }
    }
    let n = acknowledged.len() as u64;
    shared.append(Kind::Accepted, second(5), [id(n + 1)]);
    assert!(shared.flush().is_err(), "nothing has expired");
    shared.append(Kind::Accepted, second(100), [id(n + 2)]);
    shared.flush().unwrap();
    assert_eq!((shared.status().reopened, shared.status().dropped), (1, 0));
    assert!(disk.used() <= 3_000);
    disk.crash(0);
    assert_eq!(open(&disk, Damage::Refuse).unwrap().2, [n, n + 1, n + 2]);
}

#[test]
fn what_could_not_be_written_before_the_end_is_not_marked_as_all() {
    for fails in [false, true] {
        let disk = Simulated::new();
        let rules = Rules { max_disk_bytes: Some(3_000), ..rules(RETENTION, RETENTION) };
        let (shared, ..) = go_on(&disk, rules, Damage::Refuse).unwrap();
        let flush = |n| {
            shared.append(Kind::Accepted, second(0), [id(n)]);
            shared.flush()
        };
        flush(0).unwrap();
        if fails {
            assert!((1..1_000).any(|n| flush(n).is_err()), "the budget is never used up");
        }
        stop(&shared);
        match mark::read(&disk, directory()).unwrap() {
            mark::Found::Here(mark) => assert_eq!(mark.is_clean, !fails),
            found => panic!("{found:?}"),
        }
    }
}
