//! What a journal remembers, and what it does when something goes wrong.

use hapax::{
    Attempt, Builder, ClaimOptions, Damage, Dedup, Error, JournalError, JournalOptions, Loss, ManualClock, Recovery,
    SyncMode, Tier, Timestamp,
};
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(600);

/// A directory of a test's own, which goes with it.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hapax-journal-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Directory(path)
    }

    /// An engine that lives here, on this clock.
    fn builder(&self, clock: &ManualClock, options: JournalOptions) -> Builder {
        Dedup::builder().window(WINDOW).capacity(10_000).clock(clock.clone()).journal(&self.0, options)
    }

    fn open(&self, clock: &ManualClock) -> Dedup {
        self.builder(clock, JournalOptions::new()).build().unwrap()
    }

    fn segments(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        let mut segments: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "hapax")).collect();
        segments.sort();
        segments
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn clock() -> ManualClock {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_secs(1_000_000));
    clock
}

fn recovery(dedup: &Dedup) -> Recovery {
    dedup.stats().journal.unwrap().recovery
}

#[test]
fn five_ids_and_a_restart_are_five_duplicates() {
    let (directory, clock) = (Directory::new("five"), clock());
    let dedup = directory.open(&clock);
    for id in ["a", "b", "c", "d", "e"] {
        assert!(dedup.check(id).is_fresh());
    }
    drop(dedup);
    let dedup = directory.open(&clock);
    for id in ["a", "b", "c", "d", "e"] {
        assert!(dedup.check(id).is_duplicate());
    }
    assert!(dedup.check("f").is_fresh());
    let recovery = recovery(&dedup);
    assert_eq!((recovery.ids, recovery.segments, recovery.torn.len()), (5, 1, 0));
}

#[test]
fn what_each_way_of_accepting_accepts_is_remembered_and_what_is_claimed_is_not() {
    let (directory, clock) = (Directory::new("ways"), clock());
    let dedup = directory.open(&clock);
    let (mut verdicts, mut attempts, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    dedup.check("one");
    dedup.check_batch((0..5_000_u32).map(u32::to_be_bytes), &mut verdicts);
    dedup.claim("claimed, completed").claimed().unwrap().complete().unwrap();
    dedup.claim_with("with", ClaimOptions::new().fingerprint("x")).claimed().unwrap().complete().unwrap();
    dedup.claim_batch(["batch", "of claims"], &mut attempts);
    dedup.complete_batch(attempts.drain(..).filter_map(Attempt::claimed), &mut ended);
    dedup.with_scope("scope").check("one, scoped");
    let held = dedup.claim("claimed").claimed().unwrap();
    dedup.claim("released").claimed().unwrap().release().unwrap();
    dedup.check("forgotten");
    dedup.forget("forgotten");
    dedup.flush().unwrap();
    std::mem::forget(held);
    drop(attempts);
    drop(dedup);

    let dedup = directory.open(&clock);
    for id in ["one", "claimed, completed", "with", "batch", "of claims"] {
        assert!(dedup.claim(id).is_duplicate(), "{id}");
    }
    assert!((0..5_000_u32).all(|id| dedup.check(id.to_be_bytes()).is_duplicate()));
    assert!(matches!(dedup.claim_with("with", ClaimOptions::new().fingerprint("y")), Attempt::Mismatch));
    assert!(dedup.claim_with("with", ClaimOptions::new().fingerprint("x")).is_duplicate());
    assert!(dedup.with_scope("scope").check("one, scoped").is_duplicate());
    for id in ["claimed", "released", "forgotten", "one, scoped"] {
        assert!(dedup.check(id).is_fresh(), "{id}");
    }
    dedup.clear();
    drop(dedup);
    let dedup = directory.open(&clock);
    assert!(dedup.check("one").is_fresh() && dedup.check("claimed").is_fresh());
}

#[test]
fn ids_are_remembered_for_their_window_across_restarts() {
    let (directory, clock) = (Directory::new("window"), clock());
    let mut accepted = Vec::new();
    for step in 0..40_u32 {
        let dedup = directory.open(&clock);
        for (id, at) in &accepted {
            let age = Duration::from_nanos(clock_now(&clock) - at);
            let remembered = dedup.contains(id).is_some();
            assert!(remembered || age >= WINDOW, "step {step}: {id} was forgotten after {age:?}");
            assert!(!remembered || age < WINDOW + 2 * dedup.tick(), "step {step}: {id} is remembered after {age:?}");
        }
        let id = step.to_string();
        assert!(dedup.check(&id).is_fresh());
        accepted.push((id, clock_now(&clock)));
        drop(dedup);
        clock.advance(Duration::from_millis(31_417));
    }
    // What has expired is gone from the disk, too.
    assert!(directory.segments().len() <= 25, "{:?}", directory.segments());
}

fn clock_now(clock: &ManualClock) -> u64 {
    hapax::Clock::now(clock).as_nanos()
}

#[test]
fn a_duplicate_that_extends_its_ids_stay_does_so_across_restarts() {
    let (directory, clock) = (Directory::new("refresh"), clock());
    let open = || directory.builder(&clock, JournalOptions::new()).refresh_on_duplicate(true).build().unwrap();
    assert!(open().check("a").is_fresh());
    for _ in 0..4 {
        clock.advance(WINDOW * 2 / 3);
        assert!(open().check("a").is_duplicate());
    }
    clock.advance(WINDOW * 2);
    assert!(open().check("a").is_fresh());
}

/// Found by the sequences of `src/whole`: under the longer window the second acceptance looked like
/// a duplicate.
#[test]
fn under_a_longer_window_an_id_counts_from_its_latest_acceptance() {
    let (directory, clock) = (Directory::new("longer"), clock());
    let open = |window| {
        let builder = Dedup::builder().window(window).clock(clock.clone());
        builder.journal(&directory.0, JournalOptions::new()).build().unwrap()
    };
    let dedup = open(10 * WINDOW);
    assert!(dedup.check("a").is_fresh());
    clock.advance(11 * WINDOW);
    assert!(dedup.check("a").is_fresh());
    drop(dedup);
    clock.advance(9 * WINDOW);
    let dedup = open(15 * WINDOW);
    assert!(dedup.check("a").is_duplicate(), "accepted nine windows ago, remembered for ten");
}

#[test]
fn a_history_is_remembered_for_its_horizon() {
    let (directory, clock) = (Directory::new("history"), clock());
    let open = || directory.builder(&clock, JournalOptions::new()).history(20 * WINDOW, 1e-6, 10_000).build().unwrap();
    let (dedup, mut verdicts) = (open(), Vec::new());
    dedup.check_batch((0..3_000_u32).map(u32::to_be_bytes), &mut verdicts);
    drop(dedup);
    clock.advance(5 * WINDOW);
    let dedup = open();
    dedup.check_batch((0..3_000_u32).map(u32::to_be_bytes), &mut verdicts);
    assert!(verdicts.iter().all(|verdict| verdict.is_duplicate()));
    assert_eq!(dedup.stats().duplicates_by_history, 3_000);
}

#[test]
fn files_are_deleted_when_all_in_them_has_expired() {
    let (directory, clock) = (Directory::new("expiry"), clock());
    let options = JournalOptions::new().segment_length(WINDOW / 4);
    let dedup = directory.builder(&clock, options).build().unwrap();
    let mut most = 0;
    for step in 0..200_u32 {
        dedup.check(step.to_be_bytes());
        dedup.flush().unwrap();
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
    let dedup = directory.open(&clock);
    const IDS: u64 = 200_000;
    for id in 0..IDS {
        dedup.check(id.to_be_bytes());
        clock.advance(Duration::from_micros(100));
    }
    dedup.flush().unwrap();
    let bytes = dedup.stats().journal.unwrap().disk_bytes;
    assert!(bytes <= 24 * IDS, "{} bytes an id", bytes as f64 / IDS as f64);
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
    directory.open(&clock).check("a");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory.0), 0o700);
    assert!(directory.segments().iter().all(|path| mode(path) == 0o600));
    let open = Directory::new("not-private");
    open.builder(&clock, JournalOptions::new().file_mode(0o640)).build().unwrap().check("a");
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
fn another_seed_is_refused() {
    let (directory, clock) = (Directory::new("seed"), clock());
    directory.builder(&clock, JournalOptions::new()).seed(1).build().unwrap().check("a");
    let other = directory.builder(&clock, JournalOptions::new()).seed(2).build();
    assert!(matches!(other, Err(Error::Journal(JournalError::NotOurs { what: "seed", .. }))), "{other:?}");
    assert!(directory.open(&clock).check("a").is_duplicate(), "its own is taken from the files");
}

#[test]
fn without_a_journal_nothing_is_durable() {
    let dedup = Dedup::builder().build().unwrap();
    assert!(matches!(dedup.flush(), Err(JournalError::NotConfigured)));
    assert!(matches!(dedup.durable_up_to(), Err(JournalError::NotConfigured)));
    assert!(matches!(block_on(dedup.flush_async()), Err(JournalError::NotConfigured)));
}

#[test]
fn over_budget_it_fails_and_says_so_and_goes_on_when_there_is_room() {
    let (directory, clock) = (Directory::new("budget"), clock());
    let options = JournalOptions::new().max_disk_bytes(2_000);
    let dedup = directory.builder(&clock, options.clone()).build().unwrap();
    let durable = (0..).take_while(|id: &u32| {
        dedup.check(id.to_be_bytes());
        dedup.flush().is_ok()
    });
    let durable = durable.count() as u32;
    assert!((10..100).contains(&durable), "{durable}");
    let failed = dedup.flush().unwrap_err();
    assert!(failed.to_string().contains("max_disk_bytes` is 2000"), "{failed}");
    assert!(dedup.durable_up_to().is_err());
    assert!(block_on(dedup.flush_async()).is_err());
    assert!(dedup.stats().journal.unwrap().failed.is_some());
    dedup.check("more"); // in memory it goes on
    assert!(dedup.check("more").is_duplicate());
    drop(dedup);

    let dedup = directory.builder(&clock, options.max_disk_bytes(1 << 20)).build().unwrap();
    assert!((0..durable).all(|id| dedup.check(id.to_be_bytes()).is_duplicate()));
    assert!(dedup.check("more").is_fresh());
    dedup.flush().unwrap();
}

#[test]
fn flushes_of_many_threads_and_tasks() {
    let (directory, clock) = (Directory::new("flushes"), clock());
    let dedup = directory.builder(&clock, JournalOptions::new().sync(SyncMode::System)).build().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let dedup = &dedup;
            scope.spawn(move || {
                for id in 0..500_u32 {
                    dedup.check((thread << 16 | id).to_be_bytes());
                    let mine = dedup.appended_up_to().unwrap();
                    if thread % 2 == 0 { dedup.flush() } else { block_on(dedup.flush_async()) }.unwrap();
                    assert!(dedup.durable_up_to().unwrap() >= mine);
                }
            });
        }
    });
    drop(dedup);
    assert_eq!(recovery(&directory.open(&clock)).ids, 2_000);
}

#[test]
fn a_flush_that_nobody_waits_for_any_more_is_no_trouble() {
    let (directory, clock) = (Directory::new("dropped"), clock());
    let dedup = directory.open(&clock);
    for id in 0..100_u32 {
        dedup.check(id.to_be_bytes());
        let mut flush = Box::pin(dedup.flush_async());
        let _ = flush.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop()));
    }
    dedup.flush().unwrap();
}

/// The simplest executor.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn it_goes_on_in_a_new_file_and_a_file_of_somebody_else_is_refused() {
    let (directory, clock) = (Directory::new("files"), clock());
    for id in ["a", "b", "c"] {
        directory.open(&clock).check(id);
    }
    directory.open(&clock); // accepts nothing, leaves nothing
    assert_eq!(directory.segments().len(), 3);
    fs::write(directory.0.join("notes.txt"), "not ours, and not called as if").unwrap();
    fs::write(directory.0.join("00000000000000000099.hapax"), "").unwrap(); // as a crash leaves it
    assert!(directory.open(&clock).check("b").is_duplicate());
    let strange = directory.0.join("x.hapax");
    fs::write(&strange, [b'x'; 100]).unwrap();
    match directory.builder(&clock, JournalOptions::new()).build() {
        Err(Error::Journal(JournalError::NotOurs { path, what: "magic", .. })) => assert_eq!(path, strange),
        other => panic!("{other:?}"),
    }
    assert_eq!(fs::read(&strange).unwrap(), [b'x'; 100]);
}

#[test]
fn inspection() {
    let (directory, clock) = (Directory::new("inspect"), clock());
    let dedup = directory.open(&clock);
    dedup.check("a");
    dedup.check("b");
    dedup.forget("a");
    dedup.clear();
    dedup.flush().unwrap();
    let inspection = hapax::inspect(&directory.0).unwrap();
    let [segment] = &inspection.segments[..] else { panic!("{inspection:?}") };
    let runs: Vec<_> = segment.runs.iter().map(|run| (run.what, run.ids)).collect();
    assert_eq!(runs, [("accepted", 2), ("forgotten", 1), ("cleared", 0)]);
    assert_eq!((segment.first_block, segment.torn.as_ref()), (0, None));
    assert!(matches!(hapax::inspect(directory.0.join("none")), Err(JournalError::Io { doing: "read", .. })));
}

#[test]
fn what_is_accepted_while_it_is_forgotten_is_durable() {
    const IDS: usize = 30_000;
    let directory = Directory::new("forgetting");
    let clock = clock();
    let open = || {
        let options = JournalOptions::new().sync(SyncMode::System);
        Dedup::builder().window(WINDOW).clock(clock.clone()).journal(&directory.0, options).build().unwrap()
    };
    let dedup = open();
    (0..IDS).for_each(|i| assert!(dedup.check(i.to_le_bytes()).is_fresh()));
    let turn = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..IDS {
                turn.store(i + 1, std::sync::atomic::Ordering::Release);
                dedup.forget(i.to_le_bytes());
            }
        });
        let mut last = 0;
        while last < IDS {
            last = turn.load(std::sync::atomic::Ordering::Acquire).max(1);
            let _ = (0..3).find(|_| dedup.check((last - 1).to_le_bytes()).is_fresh());
        }
    });
    dedup.flush().unwrap();
    let known: Vec<usize> = (0..IDS).filter(|i| dedup.contains(i.to_le_bytes()).is_some()).collect();
    drop(dedup);
    let dedup = open();
    let lost = known.iter().filter(|i| dedup.contains(i.to_le_bytes()).is_none()).count();
    assert_eq!(lost, 0, "of {} that were known", known.len());
}

#[test]
fn what_a_guess_has_extended_is_remembered_across_restarts() {
    let directory = Directory::new("guess");
    let clock = clock();
    let window = Duration::from_secs(100);
    let open = || {
        let builder = Dedup::builder().window(window).history(Duration::from_secs(256), 1e-6, 100);
        let builder = builder.refresh_on_duplicate(true).clock(clock.clone());
        builder.journal(&directory.0, JournalOptions::new()).build().unwrap()
    };
    let dedup = open();
    let mut now = 0;
    let mut check_at = |seconds: u64, id| {
        clock.advance(Duration::from_secs(seconds - std::mem::replace(&mut now, seconds)));
        dedup.check(id)
    };
    // A generation of the history begins with each of the others.
    assert!(check_at(10_000, "a").is_fresh() && check_at(10_255, "id").is_fresh() && check_at(10_270, "b").is_fresh());
    assert!(check_at(10_500, "id").is_duplicate() && check_at(10_540, "c").is_fresh());
    clock.advance(Duration::from_secs(50));
    assert_eq!(dedup.contains("id"), Some(Tier::Window));
    drop(dedup);
    assert!(open().check("id").is_duplicate(), "seen 90 s ago");
}

#[test]
fn appending_to_a_journal_that_has_failed_returns_and_says_why() {
    let (directory, clock) = (Directory::new("failed"), clock());
    let options = JournalOptions::new().deferred(true).max_disk_bytes(1_000);
    let dedup = directory.builder(&clock, options).build().unwrap();
    let mut verdicts = Vec::new();
    let ids: Vec<_> = (0..200_000_u32).map(|id| dedup.digest(id.to_be_bytes())).collect();
    dedup.check_batch_prepared(ids.iter().copied(), &mut verdicts);
    let checked = || ids.iter().copied().zip(verdicts.iter().copied());
    let failed = dedup.append_batch_prepared(checked()).and_then(|()| dedup.flush()).unwrap_err();
    assert!(matches!(failed, JournalError::OverBudget { .. }), "{failed}");
    for n in [0, 1, 200_000] {
        let again = dedup.append_batch_prepared(checked().take(n)).unwrap_err();
        assert!(matches!(again, JournalError::OverBudget { .. }), "{again}");
        let at = hapax::Clock::now(&clock);
        assert!(dedup.append_batch_prepared_at(checked().take(n), at).is_err());
    }
    assert!(matches!(dedup.append(|_| ()), Err(JournalError::OverBudget { .. })));
}

#[test]
fn what_is_appended_as_one_is_in_one_block_and_the_latest_positions_are_known() {
    let (directory, clock) = (Directory::new("positions"), clock());
    let open = || directory.builder(&clock, JournalOptions::new().deferred(true)).build().unwrap();
    let dedup = open();
    let at = Timestamp::from_secs(1_000_000);
    for round in 0..50_u64 {
        dedup
            .append(|appending| {
                for part in 0..5 {
                    let id = dedup.digest((round * 5 + part).to_be_bytes());
                    let verdict = dedup.check_prepared_at(id, at);
                    appending.accepted_at([(id, verdict), (id, dedup.check_prepared_at(id, at))], at);
                }
                appending.position("even or odd", (round % 2).to_be_bytes());
                appending.position([round as u8 % 3], "an older one");
                appending.position([round as u8 % 3], round.to_be_bytes());
            })
            .unwrap();
    }
    let mut expected: Vec<_> = (0..3_u8).map(|s| (vec![s], [48, 49, 47][usize::from(s)])).collect();
    expected.push((b"even or odd".to_vec(), 1));
    let expected: Vec<_> = expected.into_iter().map(|(s, n): (_, u64)| (s, n.to_be_bytes().to_vec())).collect();
    assert_eq!(dedup.positions(), expected);
    drop(dedup);
    let dedup = open();
    assert_eq!((dedup.positions(), recovery(&dedup).ids), (expected, 250));
}

#[test]
fn positions_outlive_the_files_that_they_were_said_in() {
    let (directory, clock) = (Directory::new("positions-expire"), clock());
    let open = || directory.builder(&clock, JournalOptions::new().segment_length(WINDOW / 4)).build().unwrap();
    let dedup = open();
    dedup.append(|appending| appending.position("early", "1")).unwrap();
    dedup.flush().unwrap();
    let first = directory.segments();
    for step in 0..40_u32 {
        dedup.check(step.to_be_bytes());
        dedup.flush().unwrap();
        clock.advance(WINDOW / 10);
    }
    assert!(first.iter().all(|path| !path.exists()));
    drop(dedup);
    assert_eq!(open().positions(), [(b"early".to_vec(), b"1".to_vec())]);
}

#[test]
fn stream_time_goes_on_from_where_it_was_said_to_be() {
    let (directory, clock) = (Directory::new("time"), clock());
    let dedup = directory.open(&clock);
    let at = Timestamp::from_secs(2_000_000);
    clock.set(at + 2 * WINDOW);
    assert!(dedup.check_at("a", at).is_fresh());
    dedup.append(|appending| appending.time(at + 2 * WINDOW)).unwrap();
    // Such a time cannot be right, and changes nothing.
    dedup.append(|appending| appending.time(at + 1_000 * WINDOW)).unwrap();
    drop(dedup);
    assert!(directory.open(&clock).check_at("b", at + 2 * WINDOW).is_fresh());
    assert!(directory.open(&clock).check_at("b", at + 5 * WINDOW / 2).is_duplicate());
    assert!(directory.open(&clock).check_at("a", at).is_fresh(), "it is later than that");
}

#[test]
fn what_is_too_large_to_be_appended_is_refused_as_a_whole() {
    let (directory, clock) = (Directory::new("large"), clock());
    let dedup = directory.open(&clock);
    let refused = |fill: &dyn Fn(&mut hapax::Appending<'_>)| match dedup.append(|appending| fill(appending)) {
        Err(JournalError::TooLarge { max, .. }) => max,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&|appending| appending.position([0; 1_025], "")), 1_024);
    assert_eq!(refused(&|appending| appending.position("s", [0; 65_537])), 65_536);
    let sources = |n: u32| {
        move |appending: &mut hapax::Appending<'_>| {
            (0..n).for_each(|source| appending.position(source.to_be_bytes(), ""));
        }
    };
    assert_eq!(refused(&sources(65_537)), 65_536);
    let large = vec![0; 65_536];
    let all = |n: u32| {
        move |appending: &mut hapax::Appending<'_>| {
            (0..n).for_each(|source| appending.position(source.to_be_bytes(), &large));
        }
    };
    assert_eq!(refused(&all.clone()(600)), 32 << 20);
    assert_eq!(refused(&all.clone()(1_100)), 64 << 20);
    assert_eq!(dedup.positions(), []);
    dedup.append(|appending| appending.position([0; 1_024], [0; 65_536])).unwrap();
    dedup.append(|appending| appending.position([0; 1_024], "less")).unwrap();
    dedup.append(sources(65_535)).unwrap();
    dedup.append(sources(65_535)).unwrap();
    assert_eq!(refused(&sources(65_536)), 65_536);
    assert_eq!(dedup.positions().len(), 65_536);
    dedup.flush().unwrap();
    drop(dedup);
    assert_eq!(directory.open(&clock).positions().len(), 65_536);
    let without = Dedup::builder().build().unwrap();
    assert!(matches!(without.append(|_| ()), Err(JournalError::NotConfigured)));
    assert!(without.append_batch_prepared([]).is_ok() && without.positions().is_empty());
}

#[test]
fn duplicates_are_neither_appended_nor_committed() {
    let (directory, clock) = (Directory::new("duplicates"), clock());
    let dedup = directory.open(&clock);
    let mut verdicts = Vec::new();
    let ids = || (0..5_000_u32).map(u32::to_be_bytes);
    dedup.check_batch(ids(), &mut verdicts);
    dedup.claim("claimed").claimed().unwrap().complete().unwrap();
    dedup.flush().unwrap();
    let before = dedup.stats().journal.unwrap();
    for _ in 0..20 {
        dedup.check_batch(ids(), &mut verdicts);
        dedup.append_batch_prepared(ids().map(|id| dedup.digest(id)).zip(verdicts.iter().copied())).unwrap();
        dedup.check(0_u32.to_be_bytes());
        assert!(dedup.claim("claimed").is_duplicate());
        dedup.flush().unwrap();
    }
    assert_eq!(dedup.stats().journal.unwrap(), before);
}

#[test]
fn what_is_accepted_while_all_is_cleared_is_durable() {
    let (directory, clock) = (Directory::new("clearing"), clock());
    let open = || {
        let options = JournalOptions::new().sync(SyncMode::System);
        directory.builder(&clock, options).capacity(300_000).build().unwrap()
    };
    let dedup = open();
    let (next, done) = (std::sync::atomic::AtomicU32::new(0), std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (dedup, next, done) = (&dedup, &next, &done);
            scope.spawn(move || {
                let (mut verdicts, mut ended) = (Vec::new(), Vec::new());
                while !done.load(std::sync::atomic::Ordering::Acquire) {
                    let start = next.fetch_add(50, std::sync::atomic::Ordering::Relaxed);
                    let ids = (start..start + 50).map(u32::to_be_bytes);
                    match thread {
                        0 => ids.for_each(|id| assert!(!dedup.check(id).is_duplicate())),
                        1 => dedup.check_batch(ids, &mut verdicts),
                        _ => dedup.complete_batch(ids.filter_map(|id| dedup.claim(id).claimed()), &mut ended),
                    }
                    dedup.flush().unwrap();
                }
            });
        }
        for _ in 0..9 {
            dedup.clear();
        }
        done.store(true, std::sync::atomic::Ordering::Release);
    });
    dedup.flush().unwrap();
    let end = next.into_inner();
    let known: Vec<_> = (0..end).filter(|id| dedup.contains(id.to_be_bytes()).is_some()).collect();
    drop(dedup);
    let dedup = open();
    let lost = known.iter().filter(|id| dedup.contains(id.to_be_bytes()).is_none()).count();
    assert_eq!(lost, 0, "of {} that were known, of {end}", known.len());
}

#[test]
fn a_directory_that_is_gone_is_noticed_at_the_next_flush_and_can_be_made_again() {
    let (directory, clock) = (Directory::new("gone"), clock());
    let dedup = directory.open(&clock);
    dedup.check("a");
    dedup.flush().unwrap();
    let moved = Directory::new("gone-elsewhere");
    fs::rename(&directory.0, &moved.0).unwrap();
    assert!(matches!(dedup.flush(), Err(JournalError::Gone { path }) if path == directory.0));
    assert!(dedup.durable_up_to().is_err() && dedup.appended_up_to().is_err());
    assert!(block_on(dedup.flush_async()).is_err());
    dedup.check("b");
    let reopened = dedup.reopen_journal().unwrap();
    assert_eq!((reopened.written_late, reopened.dropped), (1, 0));
    assert_eq!((reopened.files_lost, reopened.ids_lost), (1, 1));
    dedup.flush().unwrap();
    assert_eq!(dedup.reopen_journal().unwrap().failed_at, None);
    // The file that is written, too.
    directory.segments().iter().for_each(|path| fs::remove_file(path).unwrap());
    assert!(matches!(dedup.flush(), Err(JournalError::Gone { .. })));
    dedup.check("c");
    assert_eq!(dedup.reopen_journal().unwrap().written_late, 1);
    drop(dedup);
    let dedup = directory.open(&clock);
    assert!(dedup.check("c").is_duplicate() && dedup.check("b").is_fresh());
}

/// A small file system in memory, if one may make one.
#[cfg(target_os = "linux")]
struct Tmpfs(Directory);

#[cfg(target_os = "linux")]
impl Tmpfs {
    fn new(name: &str, size: &str) -> Result<Self, String> {
        let directory = Directory::new(name);
        fs::create_dir(&directory.0).map_err(|error| error.to_string())?;
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&directory.0);
        let output = mount.output().map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(Tmpfs(directory)),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }
}

#[cfg(target_os = "linux")]
impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0.0).status();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_said_and_when_there_is_room_it_goes_on() {
    let disk = match Tmpfs::new("full", "300k") {
        Ok(disk) => disk,
        Err(why) => return println!("SKIPPED: a file system of its own takes root: {why}"),
    };
    let ballast = disk.0.0.join("ballast");
    fs::write(&ballast, vec![1; 150_000]).unwrap();
    let clock = clock();
    let open = || {
        Dedup::builder().window(WINDOW).clock(clock.clone()).journal(disk.0.0.join("j"), JournalOptions::new()).build()
    };
    let dedup = open().unwrap();
    let batch = |n: u32| (500 * n..500 * (n + 1)).map(u32::to_be_bytes);
    let mut verdicts = Vec::new();
    let mut n = 0;
    let failed = loop {
        dedup.check_batch(batch(n), &mut verdicts);
        n += 1;
        if let Err(error) = dedup.flush() {
            break error;
        }
    };
    assert!(failed.to_string().contains("/j") && n > 5, "{failed} after {n}");
    dedup.check_batch(batch(n), &mut verdicts);
    assert!(dedup.flush().is_err() && dedup.reopen_journal().is_err(), "there is no room yet");
    let id = dedup.digest("x");
    assert!(dedup.append_batch_prepared([(id, dedup.check_prepared(id))]).is_err());
    fs::remove_file(ballast).unwrap();
    let reopened = dedup.reopen_journal().unwrap();
    assert_eq!((reopened.written_late, reopened.dropped, reopened.files_lost), (1_001, 0, 0));
    dedup.flush().unwrap();
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
        dedup.check(id.to_be_bytes());
        let outcome = dedup.flush();
        failures += u32::from(outcome.is_err());
        if outcome.is_err() {
            assert!(matches!(outcome, Err(JournalError::OverBudget { .. })), "{outcome:?}");
        }
        clock.advance(WINDOW / 50);
    }
    let stats = dedup.stats().journal.unwrap();
    assert!(failures > 5 && stats.reopened > 0, "{failures} failures, {stats:?}");
    clock.advance(3 * WINDOW);
    dedup.check("late");
    dedup.flush().unwrap();
    assert!(dedup.stats().journal.unwrap().disk_bytes <= 4_000);
}

/// A journal of some files, each with an id, that was stopped cleanly.
fn of_files(name: &str, clock: &ManualClock) -> (Directory, Vec<PathBuf>) {
    let directory = Directory::new(name);
    for id in 0..5_u32 {
        let dedup = directory.open(clock);
        dedup.check_batch([id.to_be_bytes(), (100 + id).to_be_bytes()], &mut Vec::new());
        dedup.flush().unwrap();
        dedup.check((200 + id).to_be_bytes());
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
        let inspection = hapax::inspect(&directory.0).unwrap();
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
        dedup.check("more");
        drop(dedup);
        let dedup = directory.open(&clock);
        let again = dedup.stats().journal.unwrap().recovery;
        assert_eq!((again.damage.len(), again.ids, again.ids_lost_before), (0, 16 - ids_lost, ids_lost), "{name}");
    }
}

#[test]
fn a_journal_of_another_version_is_refused_and_said() {
    let (directory, clock) = (Directory::new("version"), clock());
    directory.open(&clock).check("a");
    for path in directory.segments().into_iter().chain([directory.0.join("mark")]) {
        let mut bytes = fs::read(&path).unwrap();
        bytes[12] = 1;
        fs::write(path, bytes).unwrap();
    }
    for damage in [Damage::Refuse, Damage::Keep] {
        match directory.builder(&clock, JournalOptions::new().damage(damage)).build() {
            Err(Error::Journal(JournalError::NotOurs { what: "version", got, .. })) => assert_eq!(got, "1"),
            other => panic!("{other:?}"),
        }
    }
}
