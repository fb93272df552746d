//! The files of a journal and its options, and who may use them.

use super::*;

#[test]
fn files_are_deleted_when_all_in_them_has_expired() {
    let (directory, clock) = (Directory::new("expiry"), clock());
    let options = JournalOptions::new().segment_length(WINDOW / 4);
    let dedup = directory.builder(&clock, options).build().unwrap();
    let mut most = 0;
    for step in 0..200_u32 {
        let _ = dedup.check(step.to_be_bytes());
        dedup.journal().unwrap().flush().unwrap();
        clock.advance(WINDOW / 20);
        most = most.max(directory.segments().len());
    }
    assert!((5..=7).contains(&most), "{most} files");
    let stats = dedup.stats().journal.unwrap();
    assert_eq!(stats.segments, directory.segments().len() as u64);
    let bytes: u64 = directory.segments().iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert_eq!(stats.disk_bytes, bytes);
}

#[test]
fn an_id_takes_at_most_24_bytes_on_the_disk() {
    let (directory, clock) = (Directory::new("bytes"), clock());
    // Whatever the machine does meanwhile, a block has the ids of 5 ms at 10,000 a second.
    let options = JournalOptions::new().commit_interval(Duration::from_secs(3600));
    let dedup = directory.builder(&clock, options).build().unwrap();
    const IDS: u64 = 20_000;
    for id in 1..=IDS {
        let _ = dedup.check(id.to_be_bytes());
        clock.advance(Duration::from_micros(100));
        if id % 50 == 0 {
            dedup.journal().unwrap().flush().unwrap();
        }
    }
    let bytes = dedup.stats().journal.unwrap().disk_bytes;
    assert!((16 * IDS..=24 * IDS).contains(&bytes), "{} bytes an id", bytes as f64 / IDS as f64);
}

#[test]
fn one_process_at_a_time_and_the_second_learns_who_is_the_first() {
    let (directory, clock) = (Directory::new("lock"), clock());
    let first = directory.open(&clock);
    match directory.builder(&clock, JournalOptions::new()).build() {
        Err(Error::Journal(JournalError::InUse { path, holder })) => {
            assert_eq!(path, directory.0);
            assert!(holder.contains(&std::process::id().to_string()), "{holder}");
        }
        other => panic!("{other:?}"),
    }
    drop(first);
    directory.open(&clock);
}

#[test]
#[cfg(unix)]
fn files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let (directory, clock) = (Directory::new("private"), clock());
    let _ = directory.open(&clock).check("a");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory.0), 0o700);
    assert!(directory.segments().iter().all(|path| mode(path) == 0o600));
    let open = Directory::new("not-private");
    let _ = open.builder(&clock, JournalOptions::new().file_mode(0o640)).build().unwrap().check("a");
    assert_eq!((mode(&open.0), mode(&open.segments()[0])), (0o750, 0o640));
}

#[test]
fn bad_options_are_refused_by_name() {
    let (directory, clock) = (Directory::new("options"), clock());
    let cases = [
        ("journal.commit_bytes", JournalOptions::new().commit_bytes(0)),
        ("journal.commit_bytes", JournalOptions::new().commit_bytes(usize::MAX)),
        ("journal.segment_length", JournalOptions::new().segment_length(Duration::ZERO)),
        ("journal.file_mode", JournalOptions::new().file_mode(0o400)),
        ("journal.file_mode", JournalOptions::new().file_mode(0o1600)),
    ];
    for (option, options) in cases {
        let error = directory.builder(&clock, options).build().unwrap_err().to_string();
        assert!(error.contains(option), "{error}");
        assert!(!directory.0.exists(), "a refused option leaves nothing behind");
    }
}

#[test]
fn another_key_is_refused() {
    let (directory, clock) = (Directory::new("key"), clock());
    let _ = directory.builder(&clock, JournalOptions::new()).seed(1).build().unwrap().check("a");
    let other = directory.builder(&clock, JournalOptions::new()).seed(2).build();
    assert!(matches!(other, Err(Error::Journal(JournalError::NotOurs { what: "key", .. }))), "{other:?}");
    let trusted = directory.builder(&clock, JournalOptions::new()).trusted_ids().build();
    assert!(
        matches!(trusted, Err(Error::Journal(JournalError::NotOurs { what: "kind of digests", .. }))),
        "{trusted:?}"
    );
    assert!(directory.open(&clock).check("a").is_duplicate(), "its own is taken from the files");
}

#[test]
fn trusted_ids_come_back_as_such() {
    let (directory, clock) = (Directory::new("trusted"), clock());
    let trusted = || directory.builder(&clock, JournalOptions::new()).trusted_ids().build();
    assert!(trusted().unwrap().check("a").is_fresh());
    assert!(trusted().unwrap().check("a").is_duplicate());
    let keyed = directory.builder(&clock, JournalOptions::new()).build();
    assert!(matches!(keyed, Err(Error::Journal(JournalError::NotOurs { what: "kind of digests", .. }))), "{keyed:?}");
}

#[test]
fn inspection() {
    let (directory, clock) = (Directory::new("inspect"), clock());
    let dedup = directory.open(&clock);
    let _ = dedup.check("a");
    let _ = dedup.check("b");
    dedup.forget("a");
    dedup.clear();
    dedup.journal().unwrap().flush().unwrap();
    let inspection = hapax::seam::inspect(&directory.0).unwrap();
    let [segment] = &inspection.segments[..] else { panic!("{inspection:?}") };
    let runs: Vec<_> = segment.runs.iter().map(|run| (run.what, run.ids)).collect();
    assert_eq!(runs, [("accepted", 2), ("forgotten", 1), ("cleared", 0)]);
    assert_eq!((segment.first_block, segment.torn.as_ref()), (0, None));
    assert!(matches!(hapax::seam::inspect(directory.0.join("none")), Err(JournalError::Io { doing: "read", .. })));
}
