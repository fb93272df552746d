//! Files that are damaged, missing, or of another version.

use super::*;

/// Makes a journal of some files, each with an id, that was stopped cleanly.
fn of_files(name: &str, clock: &ManualClock) -> (Directory, Vec<PathBuf>) {
    let directory = Directory::new(name);
    for id in 0..5_u32 {
        let dedup = directory.open(clock);
        dedup.check_batch([id.to_be_bytes(), (100 + id).to_be_bytes()], &mut Vec::new());
        dedup.journal().unwrap().flush().unwrap();
        let _ = dedup.check((200 + id).to_be_bytes());
    }
    let segments = directory.segments();
    assert_eq!(segments.len(), 5);
    (directory, segments)
}

#[test]
fn damage_is_refused_and_said_or_what_is_whole_is_kept() {
    let clock = clock();
    let zero_header = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[..96].fill(0);
        fs::write(path, bytes).unwrap();
    };
    let flip_first_block = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[96 + 100] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    let delete = |path: &Path| fs::remove_file(path).unwrap();
    let cut = |path: &Path| fs::File::options().write(true).open(path).unwrap().set_len(250).unwrap();
    type Damages<'d> = &'d dyn Fn(&Path);
    let cases: [(&str, usize, Damages<'_>, u64, u64); 8] = [
        ("first-deleted", 0, &delete, 1, 3),
        ("middle-deleted", 2, &delete, 1, 3),
        ("last-deleted", 4, &delete, 1, 3),
        ("middle-header", 2, &zero_header, 0, 0),
        ("last-header", 4, &zero_header, 0, 0),
        ("last-flipped", 4, &flip_first_block, 0, 2),
        ("middle-cut", 2, &cut, 0, 1),
        ("last-cut", 4, &cut, 0, 1),
    ];
    for (name, file, damage, files_lost, ids_lost) in cases {
        let (directory, segments) = of_files(name, &clock);
        damage(&segments[file]);
        let before: Vec<_> = directory.segments().iter().map(|path| fs::read(path).unwrap()).collect();
        match directory.builder(&clock, JournalOptions::new()).build() {
            Err(Error::Journal(JournalError::Damaged { path, files_lost: files, ids_lost: ids, .. })) => {
                assert_eq!((path, files, ids), (segments[file].clone(), files_lost, Loss::Exactly(ids_lost)), "{name}");
            }
            other => panic!("{name}: {other:?}"),
        }
        let after: Vec<_> = directory.segments().iter().map(|path| fs::read(path).unwrap()).collect();
        assert_eq!(before, after, "{name}");
        let inspection = hapax::seam::inspect(&directory.0).unwrap();
        assert_eq!((inspection.damage.len(), inspection.damage[0].ids_lost), (1, Loss::Exactly(ids_lost)), "{name}");

        let keep = JournalOptions::new().damage(Damage::Keep);
        let dedup = directory.builder(&clock, keep).build().unwrap();
        let recovery = recovery(&dedup);
        assert_eq!((recovery.files_lost, recovery.ids_lost), (files_lost, Loss::Exactly(ids_lost)), "{name}");
        assert_eq!(recovery.damage, inspection.damage);
        assert_eq!(recovery.ids, 15 - ids_lost, "{name}");
        let known =
            [0, 100, 200].iter().flat_map(|n| *n..n + 5).filter(|id: &u32| dedup.contains(id.to_be_bytes()).is_some());
        assert_eq!(known.count() as u64, 15 - ids_lost, "{name}");
        assert_eq!(recovery.moved_aside.len() as u64, 1 - files_lost, "{name}");
        assert!(recovery.moved_aside.iter().all(|path| fs::read(path).unwrap() == before[file]), "{name}");
        let _ = dedup.check("more");
        drop(dedup);
        let dedup = directory.open(&clock);
        let again = dedup.stats().journal.unwrap().recovery;
        assert_eq!((again.damage.len(), again.ids, again.ids_lost_before), (0, 16 - ids_lost, ids_lost), "{name}");
    }
}

#[test]
fn a_journal_of_another_version_is_refused_and_said() {
    let (directory, clock) = (Directory::new("version"), clock());
    let _ = directory.open(&clock).check("a");
    for path in directory.segments().into_iter().chain([directory.0.join("mark")]) {
        let mut bytes = fs::read(&path).unwrap();
        bytes[12] = 2;
        fs::write(path, bytes).unwrap();
    }
    for damage in [Damage::Refuse, Damage::Keep] {
        match directory.builder(&clock, JournalOptions::new().damage(damage)).build() {
            Err(Error::Journal(JournalError::NotOurs { what: "version", got, .. })) => assert_eq!(got, "2"),
            other => panic!("{other:?}"),
        }
    }
}
