//! Tests of journals that are reopened twice, since the first time something fails again.

use super::faults::{EIO, ENOSPC, IDS, RETENTION, directory, disk_calls, go_on, id, open, rules, second};
use crate::journal::encoding::payload::Kind;
use crate::journal::files::simulated::{Call, Fault, Simulated};
use crate::journal::options::Damage;
use crate::journal::write::reopen::Reopened;
use crate::long::long;
use std::time::Duration;

/// The calls that may fail while a journal is reopened: those that change something, and looks at
/// what there is.
const AGAIN: [Option<Call>; 2] = [None, Some(Call::Identity)];

/// More calls than reopening takes.
const CALLS_MAX: u64 = 40;

#[test]
fn whatever_call_fails_while_a_journal_is_reopened_it_has_everything_once_when_it_is_tried_again() {
    let mut failed_again = 0;
    let faults = [Fault::Error(EIO), Fault::Error(ENOSPC), Fault::HalfThenFull];
    let ways = faults.into_iter().flat_map(|fault| AGAIN.map(|again| (fault, again)));
    // A short run has every other call fail in one of the six ways, in another one each time.
    let cases = (0..disk_calls()).flat_map(|calls| ways.clone().map(move |(fault, again)| (calls, fault, again)));
    for (calls, fault, again) in cases.step_by(long(11, 1)) {
        for after in 0..CALLS_MAX {
            let disk = Simulated::new();
            let what = format!("{fault:?} of call {calls}, then of {again:?} after {after}");
            let (shared, ..) = go_on(&disk, rules(Duration::from_secs(4), 10 * RETENTION), Damage::Refuse).unwrap();
            disk.plan(None, calls, fault);
            let failed = (0..IDS).find(|&n| {
                shared.append(Kind::Accepted, second(n), [id(n)]);
                shared.flush().is_err()
            });
            let Some(failed) = failed else { break };
            disk.set_capacity(None);
            disk.heal();
            disk.plan(again, after, Fault::Error(EIO));
            let is_done = shared.reopen().is_ok();
            disk.heal();
            if !is_done {
                failed_again += 1;
                let reopened = shared.reopen().unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!((reopened.files_lost, reopened.ids_lost), (0, 0), "{what}: nothing is gone");
            }
            for n in failed + 1..IDS {
                shared.append(Kind::Accepted, second(n), [id(n)]);
                shared.flush().unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            disk.crash(calls);
            let (_, recovered, ids) = open(&disk, Damage::Refuse).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(ids, (0..IDS).collect::<Vec<_>>(), "{what}");
            assert!(recovered.recovery.torn.is_empty(), "{what}: {:?}", recovered.recovery);
            if is_done {
                break;
            }
        }
    }
    assert!(failed_again > long(90, 1_000), "{failed_again}");
}

#[test]
fn what_is_gone_is_reported_by_the_reopening_that_succeeds() {
    let mut failed_again = 0;
    for again in AGAIN {
        for after in 0..CALLS_MAX {
            let disk = Simulated::new();
            let (shared, ..) = go_on(&disk, rules(RETENTION, RETENTION), Damage::Refuse).unwrap();
            for n in 0..3 {
                shared.append(Kind::Accepted, second(n), [id(n)]);
                shared.flush().unwrap();
            }
            disk.delete_directory(directory());
            shared.append(Kind::Accepted, second(3), [id(3)]);
            assert!(shared.flush().is_err());
            disk.plan(again, after, Fault::Error(EIO));
            let mut reopened = shared.reopen();
            let is_done = reopened.is_ok();
            disk.heal();
            if !is_done {
                failed_again += 1;
                reopened = shared.reopen();
            }
            let Reopened { files_lost, ids_lost, written_late, .. } = reopened.unwrap();
            assert_eq!((files_lost, ids_lost, written_late), (1, 3, 1), "{again:?} fails after {after}");
            shared.flush().unwrap();
            disk.crash(after);
            assert_eq!(open(&disk, Damage::Refuse).unwrap().2, [3], "{again:?} fails after {after}");
            if is_done {
                break;
            }
        }
    }
    assert!(failed_again > 10, "{failed_again}");
}
