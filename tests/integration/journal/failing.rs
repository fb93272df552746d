//! Disks that are full or gone, and how the journal goes on.

use super::*;
use std::time::Instant;
#[cfg(target_os = "linux")]
use testkit::mounted::Mounted;

#[test]
fn over_budget_it_fails_and_says_so_and_goes_on_when_there_is_room() {
    let (directory, clock) = (Directory::new("budget"), clock());
    let options = JournalOptions::new().max_disk_bytes(2_000);
    let dedup = directory.builder(&clock, options.clone()).build().unwrap();
    let durable = (0..).take_while(|id: &u32| {
        let _ = dedup.check(id.to_be_bytes());
        dedup.journal().unwrap().flush().is_ok()
    });
    let durable = durable.count() as u32;
    assert!((10..100).contains(&durable), "{durable}");
    let failed = dedup.journal().unwrap().flush().unwrap_err();
    assert!(failed.to_string().contains("max_disk_bytes` is 2000"), "{failed}");
    assert!(dedup.journal().unwrap().durable().is_err());
    assert!(block_on(dedup.journal().unwrap().flush_async()).is_err());
    assert!(dedup.stats().journal.unwrap().failed.is_some());
    let _ = dedup.check("more"); // in memory it goes on
    assert!(dedup.check("more").is_duplicate());
    drop(dedup);

    let dedup = directory.builder(&clock, options.max_disk_bytes(1 << 20)).build().unwrap();
    assert!((0..durable).all(|id| dedup.check(id.to_be_bytes()).is_duplicate()));
    assert!(dedup.check("more").is_fresh());
    dedup.journal().unwrap().flush().unwrap();
}

#[test]
fn a_directory_that_is_gone_is_noticed_at_the_next_flush_and_can_be_made_again() {
    let (directory, clock) = (Directory::new("gone"), clock());
    let dedup = directory.open(&clock);
    let _ = dedup.check("a");
    dedup.journal().unwrap().flush().unwrap();
    let moved = Directory::new("gone-elsewhere");
    fs::rename(&directory.0, &moved.0).unwrap();
    assert!(matches!(dedup.journal().unwrap().flush(), Err(JournalError::Gone { path }) if path == directory.0));
    assert!(dedup.journal().unwrap().durable().is_err() && dedup.journal().unwrap().appended().is_err());
    assert!(block_on(dedup.journal().unwrap().flush_async()).is_err());
    let _ = dedup.check("b");
    let reopened = dedup.journal().unwrap().reopen().unwrap();
    assert_eq!((reopened.written_late, reopened.dropped), (1, 0));
    assert_eq!((reopened.files_lost, reopened.ids_lost), (1, 1));
    dedup.journal().unwrap().flush().unwrap();
    assert_eq!(dedup.journal().unwrap().reopen().unwrap().failed_at, None);
    // The file that is written, too.
    directory.segments().iter().for_each(|path| fs::remove_file(path).unwrap());
    assert!(matches!(dedup.journal().unwrap().flush(), Err(JournalError::Gone { .. })));
    let _ = dedup.check("c");
    assert_eq!(dedup.journal().unwrap().reopen().unwrap().written_late, 1);
    drop(dedup);
    let dedup = directory.open(&clock);
    assert!(dedup.check("c").is_duplicate() && dedup.check("b").is_fresh());
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_said_and_when_there_is_room_it_goes_on() {
    let disk = Directory::new("full");
    fs::create_dir(&disk.0).unwrap();
    let _mounted = match Mounted::in_memory(&disk.0, "300k") {
        Ok(mounted) => mounted,
        Err(why) => return testkit::skipped(format_args!("a file system of its own takes root: {why}")),
    };
    let ballast = disk.0.join("ballast");
    fs::write(&ballast, vec![1; 150_000]).unwrap();
    let clock = clock();
    let open = || {
        Dedup::builder().window(WINDOW).clock(clock.clone()).journal(disk.0.join("j"), JournalOptions::new()).build()
    };
    let dedup = open().unwrap();
    let batch = |n: u32| (500 * n..500 * (n + 1)).map(u32::to_be_bytes);
    let mut verdicts = Vec::new();
    let mut n = 0;
    let failed = loop {
        dedup.check_batch(batch(n), &mut verdicts);
        n += 1;
        if let Err(error) = dedup.journal().unwrap().flush() {
            break error;
        }
    };
    assert!(failed.to_string().contains("/j") && n > 5, "{failed} after {n}");
    dedup.check_batch(batch(n), &mut verdicts);
    assert!(
        dedup.journal().unwrap().flush().is_err() && dedup.journal().unwrap().reopen().is_err(),
        "there is no room yet"
    );
    let id = dedup.prepare("x");
    assert!(dedup.journal().unwrap().append_batch([(id, dedup.check(id))]).is_err());
    fs::remove_file(ballast).unwrap();
    let reopened = dedup.journal().unwrap().reopen().unwrap();
    assert_eq!((reopened.written_late, reopened.dropped, reopened.files_lost), (1_001, 0, 0));
    dedup.journal().unwrap().flush().unwrap();
    assert_eq!(dedup.stats().journal.unwrap().reopened, 1);
    drop(dedup);
    let dedup = open().unwrap();
    assert!((0..=n).flat_map(batch).all(|id| dedup.contains(id).is_some()), "of {n} batches");
    let recovery = recovery(&dedup);
    assert_eq!((recovery.ids, recovery.torn.len()), (u64::from(500 * (n + 1)) + 1, 0));
}

#[test]
fn over_its_budget_it_goes_on_by_itself_when_files_have_expired() {
    let (directory, clock) = (Directory::new("heals"), clock());
    let options = JournalOptions::new().max_disk_bytes(4_000).segment_length(WINDOW / 4);
    let dedup = directory.builder(&clock, options).build().unwrap();
    let mut failures = 0;
    for id in 0..100_u32 {
        let _ = dedup.check(id.to_be_bytes());
        let outcome = dedup.journal().unwrap().flush();
        failures += u32::from(outcome.is_err());
        if outcome.is_err() {
            assert!(matches!(outcome, Err(JournalError::OverBudget { .. })), "{outcome:?}");
        }
        clock.advance(WINDOW / 50);
    }
    let stats = dedup.stats().journal.unwrap();
    assert!(failures > 5 && stats.reopened > 0, "{failures} failures, {stats:?}");
    clock.advance(3 * WINDOW);
    let _ = dedup.check("late");
    // By itself, but not at once: what the writer had begun before comes first. (The limit is a
    // guard against hanging alone.)
    let began = Instant::now();
    while let Err(error) = dedup.journal().unwrap().flush() {
        assert!(began.elapsed() < Duration::from_secs(60), "{error}");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(dedup.stats().journal.unwrap().disk_bytes <= 4_000);
}
