//! The contents of a snapshot, and the files that are refused.

use hapax::{Builder, Dedup, Error, Int, JournalError, JournalOptions, ManualClock, Timestamp};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(600);

struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hapax-snapshot-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Temporary(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("snapshot")
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn clock() -> ManualClock {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_secs(1_000_000));
    clock
}

fn builder(clock: &ManualClock) -> Builder {
    Dedup::builder().window(WINDOW).capacity(20_000).clock(clock.clone()).growth_thread(false)
}

#[test]
fn a_restart_through_a_snapshot_forgets_nothing_and_remembers_no_longer() {
    let (temporary, clock) = (Temporary::new("restart"), clock());
    let build = |clock| builder(clock).history(20 * WINDOW, 1e-6, 100_000);
    let dedup = build(&clock).build().unwrap();
    // More than it started with room for, so that there are several tables.
    for id in 0..60_000_u64 {
        dedup.check(Int::from(id));
        clock.advance(Duration::from_millis(11));
    }
    let _claim = dedup.claim("claimed").claimed().unwrap();
    let ids = dedup.snapshot(temporary.file()).unwrap();
    let known: Vec<_> = (0..70_000_u64).map(|id| dedup.contains(Int::from(id))).collect();
    let live = known.iter().filter(|tier| **tier == Some(hapax::Tier::Window)).count() as u64;
    assert!((live..live + live / 50).contains(&ids), "{ids} of {live}");

    let restored = build(&clock).restore(temporary.file()).build().unwrap();
    for (id, known) in known.iter().enumerate() {
        assert_eq!(restored.contains(Int::from(id as u64)), *known, "{id}");
    }
    assert!(restored.check("claimed").is_fresh(), "what was only claimed was not done");
    assert_eq!(restored.stats().window.tables.len(), dedup.stats().window.tables.len());
    // Both forget at the same time.
    for _ in 0..10 {
        clock.advance(WINDOW / 10);
        for id in (0..60_000_u64).step_by(7) {
            assert_eq!(restored.contains(Int::from(id)), dedup.contains(Int::from(id)), "{id}");
        }
    }
}

#[test]
fn what_was_accepted_before_is_in_a_snapshot_that_is_taken_under_load() {
    let temporary = Temporary::new("load");
    // So full that entries move all the time.
    let builder = || {
        Dedup::builder().window(Duration::from_secs(3600)).capacity(8_000).max_memory_bytes(4 << 20).growth_thread(true)
    };
    let dedup = builder().build().unwrap();
    let (accepted, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for id in 0..200_000_u64 {
                dedup.check(Int::from(id));
                accepted.store(id + 1, Ordering::Release);
            }
            done.store(true, Ordering::Release);
        });
        let mut snapshots = 0;
        while !done.load(Ordering::Acquire) || snapshots == 0 {
            let before = accepted.load(Ordering::Acquire);
            let evicted_before = dedup.evicted_live();
            dedup.snapshot(temporary.file()).unwrap();
            let restored = builder().restore(temporary.file()).build().unwrap();
            let lost = (0..before).filter(|id| restored.contains(Int::from(*id)).is_none()).count() as u64;
            let counted = dedup.evicted_live().max(evicted_before) + restored.evicted_live();
            assert!(lost <= counted, "{lost} of {before} ids are lost, {counted} were counted");
            snapshots += 1;
        }
        println!("{snapshots} snapshots, {} evicted", dedup.evicted_live());
    });
}

#[test]
fn an_older_snapshot_is_replaced_at_once_or_stays() {
    let (temporary, clock) = (Temporary::new("replace"), clock());
    let dedup = builder(&clock).build().unwrap();
    dedup.check("a");
    dedup.snapshot(temporary.file()).unwrap();
    dedup.check("b");
    dedup.snapshot(temporary.file()).unwrap();
    let names = || std::fs::read_dir(&temporary.0).unwrap().count();
    assert_eq!(names(), 1, "nothing else is left behind");
    let restored = builder(&clock).restore(temporary.file()).build().unwrap();
    assert!(restored.check("b").is_duplicate());
    let nowhere = temporary.0.join("none").join("snapshot");
    assert!(matches!(dedup.snapshot(nowhere), Err(JournalError::Io { doing: "create", .. })));
    assert_eq!(names(), 1);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(temporary.file()).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn what_does_not_fit_is_refused_and_said() {
    let (temporary, clock) = (Temporary::new("refused"), clock());
    let dedup = builder(&clock).seed(1).build().unwrap();
    dedup.check_batch((0..60_000_u64).map(Int::from), &mut Vec::new());
    dedup.snapshot(temporary.file()).unwrap();
    let refused = |builder: Builder| match builder.restore(temporary.file()).build() {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it was not refused"),
    };
    assert!(refused(builder(&clock).seed(2)).contains("key"));
    assert!(refused(builder(&clock).trusted_ids()).contains("kind of digests"));
    assert!(refused(builder(&clock).window(WINDOW * 2)).contains("the window's tick"));
    assert!(refused(builder(&clock).capacity(30_000)).contains("option `restore`"));
    assert!(refused(builder(&clock).history(2 * WINDOW, 0.1, 1_000)).contains("the history"));
    let missing = builder(&clock).restore(temporary.0.join("none")).build();
    assert!(matches!(missing, Err(Error::Journal(JournalError::Io { doing: "read", .. }))));
}

#[test]
fn every_truncation_and_every_flipped_bit_is_refused() {
    let (temporary, clock) = (Temporary::new("flipped"), clock());
    let build = || Dedup::builder().window(WINDOW).capacity(1).clock(clock.clone());
    let dedup = build().build().unwrap();
    dedup.check_batch((0..20_u64).map(Int::from), &mut Vec::new());
    dedup.snapshot(temporary.file()).unwrap();
    let bytes = std::fs::read(temporary.file()).unwrap();
    let damaged = temporary.0.join("damaged");
    let refused = |bytes: &[u8], what: &str| {
        std::fs::write(&damaged, bytes).unwrap();
        match build().restore(&damaged).build() {
            Err(Error::Journal(JournalError::NotOurs { .. })) => {}
            other => panic!("{what}: {other:?}"),
        }
    };
    (0..bytes.len()).for_each(|length| refused(&bytes[..length], &format!("cut at {length}")));
    for bit in 0..8 * bytes.len() {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        refused(&flipped, &format!("bit {bit}"));
    }
    let mut longer = bytes.clone();
    longer.push(0);
    refused(&longer, "one byte more");
}

#[test]
fn a_snapshot_and_a_journal_together() {
    let (temporary, clock) = (Temporary::new("both"), clock());
    let journal = |builder: Builder| builder.journal(temporary.0.join("journal"), JournalOptions::new());
    let dedup = journal(builder(&clock)).build().unwrap();
    dedup.check("a");
    dedup.snapshot(temporary.file()).unwrap();
    dedup.check("b");
    drop(dedup);
    let dedup = journal(builder(&clock).restore(temporary.file())).build().unwrap();
    assert!(dedup.check("a").is_duplicate() && dedup.check("b").is_duplicate());
}
