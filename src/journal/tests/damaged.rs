//! Tests with damaged journals: every id that is lost is reported, nothing is invented, whole
//! blocks are kept, and the next open finds no new damage. `HAPAX_DAMAGED` sets how many,
//! `HAPAX_DAMAGED_SEED` which; see `scripts/damage`.

use super::faults::{directory, go_on, id, open, rules, second, stop};
use crate::error::JournalError;
use crate::error::Loss;
use crate::journal::encoding::format::{BLOCK_HEADER_BYTES, HEADER_BYTES};
use crate::journal::encoding::payload::Kind;
use crate::journal::files::simulated::{Fault, Simulated, below};
use crate::journal::options::Damage;
use crate::journal::recover::listing::list;
use crate::journal::recover::survey::survey;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// A journal, and the ids that were accepted into it.
struct Written {
    disk: Simulated,
    accepted: u64,
    /// True if the last engine recorded that this was all.
    is_clean: bool,
    /// True if nothing has expired.
    is_whole: bool,
}

/// Returns a random journal, of some sessions that ended in some way.
fn written(random: &mut u64) -> Written {
    let disk = Simulated::new();
    let is_whole = below(random, 4) > 0;
    let retention = Duration::from_secs(if is_whole { 1 << 30 } else { 5 + below(random, 20) });
    let segment_length = Duration::from_secs(1 + below(random, 12));
    let (mut next, mut time, mut is_clean) = (0, 0, true);
    for session in 0..=below(random, 4) {
        let opened = go_on(&disk, rules(segment_length, retention), Damage::Refuse);
        let (shared, ..) = opened.unwrap_or_else(|error| panic!("session {session}: {error}"));
        for _ in 0..1 + below(random, 25) {
            let ids = 1 + below(random, 6);
            shared.append(Kind::Accepted, second(time), (next..next + ids).map(id));
            next += ids;
            time += below(random, 3);
            if below(random, 8) > 0 {
                shared.flush().unwrap();
            }
        }
        shared.flush().unwrap();
        is_clean = below(random, 3) > 0;
        if is_clean {
            stop(&shared);
        }
        match below(random, 2) {
            0 => disk.kill(),
            _ => disk.crash(below(random, u64::MAX)),
        }
    }
    Written { disk, accepted: next, is_clean, is_whole }
}

/// Returns the files that may be damaged, and how many bytes of each: after a crash the end of the
/// last one is unknown anyway.
fn targets(written: &Written) -> Vec<(PathBuf, u64)> {
    let disk = written.disk.copy();
    let listing = list(&disk, directory()).unwrap();
    let survey = survey(&disk, &listing, |_, _| ()).unwrap();
    let mut targets = Vec::new();
    for (i, file) in survey.files.iter().enumerate() {
        let is_last = i + 1 == survey.files.len();
        let end = match file.stretches().next_back() {
            Some(stretch) if is_last && !written.is_clean => {
                let last = BLOCK_HEADER_BYTES as u64 + u64::from(stretch.last.payload_bytes);
                stretch.offset + stretch.bytes - last
            }
            _ => file.listed.size,
        };
        targets.push((file.listed.path.clone(), end));
    }
    targets.push((directory().join("mark"), 80));
    targets
}

/// Damages the journal in some way. Returns a description, and whether the mark is not what it was.
fn damage(written: &Written, random: &mut u64) -> (String, bool) {
    let disk = &written.disk;
    let (mut how, mut mark) = (String::new(), false);
    let targets = targets(written);
    for _ in 0..1 + below(random, 3) {
        let (path, end) = &targets[below(random, targets.len() as u64) as usize];
        let Some(size) = disk.read(path).map(|bytes| bytes.len() as u64).filter(|size| *size > 0) else { continue };
        let end = (*end).min(size);
        let is_mark = path.ends_with("mark");
        mark |= is_mark;
        // After a crash a file that ends early is what a crash leaves.
        let may_end_early = written.is_clean || is_mark || *path != targets[targets.len() - 2].0;
        let at = below(random, end);
        let what = match below(random, 8) {
            0 | 1 => {
                disk.flip(path, 8 * at + below(random, 8));
                format!("a bit of byte {at} flipped")
            }
            2 if may_end_early => {
                disk.cut(path, at);
                format!("cut at {at} of {size}")
            }
            3 => {
                disk.zero(path, 0, end.min(HEADER_BYTES as u64));
                "header zeroed".into()
            }
            4 => {
                let length = 1 + below(random, (end - at).max(1)).min(end - at).saturating_sub(1);
                disk.zero(path, at, length);
                format!("{length} bytes at {at} zeroed")
            }
            5 | 6 => {
                disk.delete(path);
                "deleted".into()
            }
            _ if written.is_clean => {
                let mut bytes = disk.read(path).unwrap();
                bytes.extend_from_slice(&[0x5a; 100][..1 + below(random, 99) as usize]);
                disk.put(path, bytes);
                "bytes appended".into()
            }
            _ => continue,
        };
        how += &format!("{}: {what}; ", path.file_name().unwrap().display());
    }
    (how, mark)
}

fn files(disk: &Simulated) -> BTreeMap<PathBuf, Vec<u8>> {
    disk.paths().into_iter().map(|path| (path.clone(), disk.read(&path).unwrap())).collect()
}

/// The counts of a campaign.
#[derive(Debug, Default)]
struct Tally {
    journals: u64,
    ids: u64,
    refused: u64,
    kept: u64,
    harmless: u64,
    not_ours: u64,
    nothing_left: u64,
    lost: u64,
    exact: u64,
    broken_off: u64,
}

/// Returns the ids that are there when a journal is opened, and opened again: nothing of it has
/// expired.
fn truth(disk: &Simulated) -> BTreeSet<u64> {
    let disk = disk.copy();
    drop(open(&disk, Damage::Refuse).unwrap());
    open(&disk, Damage::Refuse).unwrap().2.into_iter().collect()
}

fn campaign(seed: u64, tally: &mut Tally) {
    let mut random = seed;
    let written = written(&mut random);
    let truth = truth(&written.disk);
    let (how, mark_is_damaged) = damage(&written, &mut random);
    let what = format!("seed {seed}, clean {}, {how}", written.is_clean);
    tally.journals += 1;
    tally.ids += truth.len() as u64;
    let nothing_left = list(&written.disk.copy(), directory()).is_ok_and(|listing| {
        let has_mark = written.disk.read(&directory().join("mark")).is_some();
        listing.files.iter().all(|file| file.number == 0 && file.size <= HEADER_BYTES as u64)
            && (listing.keys.is_none() || !has_mark)
    });
    if nothing_left {
        // No mark and no block, and perhaps no header: nothing is left that says what there was.
        tally.nothing_left += 1;
        return;
    }
    refuse(&written, &truth, &what, tally);
    keep(&written, &truth, &what, mark_is_damaged, tally);
    if seed.is_multiple_of(16) {
        broken_off(&written, &what, &mut random, tally);
    }
}

fn refuse(written: &Written, truth: &BTreeSet<u64>, what: &str, tally: &mut Tally) {
    let disk = written.disk.copy();
    let before = files(&disk);
    match open(&disk, Damage::Refuse) {
        Err(error) => {
            assert!(matches!(error, JournalError::Damaged { .. } | JournalError::NotOurs { .. }), "{what}: {error}");
            assert_eq!(files(&disk), before, "{what}: something was changed");
            tally.refused += 1;
        }
        Ok((_, recovered, ids)) => {
            let ids: BTreeSet<_> = ids.into_iter().collect();
            let lost = truth.difference(&ids).count() as u64;
            let torn: u64 = recovered.recovery.torn.iter().map(|torn| torn.ids_at_most).sum();
            assert!(lost <= torn, "{what}: {lost} ids are gone, and nobody says so");
            tally.harmless += 1;
        }
    }
}

fn keep(written: &Written, truth: &BTreeSet<u64>, what: &str, mark_is_damaged: bool, tally: &mut Tally) {
    let disk = written.disk.copy();
    let (found, recovered, ids) = match open(&disk, Damage::Keep) {
        Ok(opened) => opened,
        Err(error) => {
            assert!(matches!(error, JournalError::NotOurs { .. }) && mark_is_damaged, "{what}: {error}");
            tally.not_ours += 1;
            return;
        }
    };
    drop(found);
    let recovery = &recovered.recovery;
    let kept: BTreeSet<_> = ids.iter().copied().collect();
    assert_eq!(kept.len(), ids.len(), "{what}: something is there twice");
    assert!(kept.iter().all(|id| *id < written.accepted), "{what}: invented");
    let lost = truth.difference(&kept).count() as u64;
    let torn: u64 = recovery.torn.iter().map(|torn| torn.ids_at_most).sum();
    match recovery.ids_lost {
        Loss::AtLeast(_) => {}
        reported => assert!(lost <= reported.ids() + torn, "{what}: {lost} ids are lost, {recovery:#?}"),
    }
    if let (Loss::Exactly(reported), true, true) = (recovery.ids_lost, written.is_whole, torn == 0) {
        assert_eq!(lost, reported, "{what}: {recovery:#?}");
        tally.exact += 1;
    }
    tally.lost += lost;
    tally.kept += 1;
    // The journal goes on, and the next open finds nothing wrong.
    let (shared, ..) = go_on(&disk, rules(Duration::from_secs(9), Duration::MAX), Damage::Refuse)
        .unwrap_or_else(|error| panic!("{what}: {error}, {recovery:#?}"));
    shared.append(Kind::Accepted, second(1_000), [id(written.accepted)]);
    shared.flush().unwrap();
    stop(&shared);
    disk.crash(1);
    let (_, again, ids) = open(&disk, Damage::Refuse).unwrap_or_else(|error| panic!("{what}: {error}, {recovery:#?}"));
    let again_ids: BTreeSet<_> = ids.into_iter().collect();
    assert!(again_ids.is_subset(&kept.iter().copied().chain([written.accepted]).collect()), "{what}");
    assert!(again_ids.contains(&written.accepted) && again.recovery.torn.is_empty(), "{what}");
    if written.is_whole {
        assert_eq!(again_ids.len(), kept.len() + 1, "{what}");
    }
}

/// Breaks off the salvage at each of its calls.
fn broken_off(written: &Written, what: &str, random: &mut u64, tally: &mut Tally) {
    let disk = written.disk.copy();
    let Ok((found, _, expected)) = open(&disk, Damage::Keep) else { return };
    drop(found);
    let calls = disk.calls();
    for call in 0..calls {
        let disk = written.disk.copy();
        disk.plan(None, call, Fault::Dead);
        assert!(open(&disk, Damage::Keep).is_err(), "{what}: call {call}");
        if below(random, 2) == 0 {
            disk.kill();
        } else {
            disk.crash(below(random, u64::MAX));
        }
        let what = format!("{what}, broken off at call {call} of {calls}");
        let (found, _, ids) = open(&disk, Damage::Keep).unwrap_or_else(|error| panic!("{what}: {error}"));
        drop(found);
        let (ids, expected): (BTreeSet<_>, BTreeSet<_>) =
            (ids.into_iter().collect(), expected.iter().copied().collect());
        if written.is_whole {
            assert_eq!(ids, expected, "{what}");
        } else {
            // Expired files may be deleted by now.
            assert!(ids.is_subset(&expected), "{what}");
        }
        if let Err(error) = open(&disk, Damage::Refuse) {
            panic!("{what}: {error}");
        }
        tally.broken_off += 1;
    }
}

#[test]
fn every_id_that_damage_has_lost_is_reported() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let journals = number("HAPAX_DAMAGED").unwrap_or(600);
    let seed = number("HAPAX_DAMAGED_SEED").unwrap_or_else(|| u64::from(std::process::id()) << 24);
    println!("HAPAX_DAMAGED_SEED={seed} HAPAX_DAMAGED={journals}");
    let mut tally = Tally::default();
    for n in 0..journals {
        campaign(seed + n, &mut tally);
        if n % 1_000 == 999 {
            println!("{} damaged journals: {tally:?}", n + 1);
        }
    }
    println!("{tally:#?}");
    assert!(tally.kept > journals / 2 && tally.lost > journals && tally.exact > journals / 8, "{tally:?}");
    assert!(tally.refused > journals / 2 && tally.broken_off > journals / 2, "{tally:?}");
}

/// Checks journals that were once mended in such a way that the next open took them for damaged.
#[test]
fn what_was_once_answered_wrong_is_right() {
    // The header of a file is destroyed, a later one is whole, and the one after that is deleted:
    // the stand-in for the last blocks came into the first of the three.
    campaign(82_577_457_353, &mut Tally::default());
}
