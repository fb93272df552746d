//! The ids that are durable after a flush, with other callers at the same time.

use super::*;
use std::time::Instant;

#[test]
fn without_a_journal_nothing_is_durable() {
    let dedup = Dedup::builder().build().unwrap();
    assert!(matches!(dedup.journal(), Err(JournalError::NotConfigured)));
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
                    let _ = dedup.check((thread << 16 | id).to_be_bytes());
                    let mine = dedup.journal().unwrap().appended().unwrap();
                    if thread % 2 == 0 {
                        dedup.journal().unwrap().flush()
                    } else {
                        block_on(dedup.journal().unwrap().flush_async())
                    }
                    .unwrap();
                    assert!(dedup.journal().unwrap().durable().unwrap() >= mine);
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
        let _ = dedup.check(id.to_be_bytes());
        let mut flush = Box::pin(dedup.journal().unwrap().flush_async());
        let _ = flush.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop()));
    }
    dedup.journal().unwrap().flush().unwrap();
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
    dedup.journal().unwrap().flush().unwrap();
    let known: Vec<usize> = (0..IDS).filter(|i| dedup.contains(i.to_le_bytes()).is_some()).collect();
    drop(dedup);
    let dedup = open();
    let lost = known.iter().filter(|i| dedup.contains(i.to_le_bytes()).is_none()).count();
    assert_eq!(lost, 0, "of {} that were known", known.len());
}

#[test]
fn duplicates_are_neither_appended_nor_committed() {
    let (directory, clock) = (Directory::new("duplicates"), clock());
    let dedup = directory.open(&clock);
    let mut verdicts = Vec::new();
    let ids = || (0..5_000_u32).map(u32::to_be_bytes);
    dedup.check_batch(ids(), &mut verdicts);
    dedup.claim("claimed").claimed().unwrap().complete().unwrap();
    dedup.journal().unwrap().flush().unwrap();
    let before = dedup.stats().journal.unwrap();
    for _ in 0..20 {
        dedup.check_batch(ids(), &mut verdicts);
        dedup.journal().unwrap().append_batch(ids().map(|id| dedup.prepare(id)).zip(verdicts.iter().copied())).unwrap();
        let _ = dedup.check(0_u32.to_be_bytes());
        assert!(dedup.claim("claimed").is_duplicate());
        dedup.journal().unwrap().flush().unwrap();
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
                    dedup.journal().unwrap().flush().unwrap();
                }
            });
        }
        for _ in 0..9 {
            dedup.clear();
        }
        done.store(true, std::sync::atomic::Ordering::Release);
    });
    dedup.journal().unwrap().flush().unwrap();
    let end = next.into_inner();
    let known: Vec<_> = (0..end).filter(|id| dedup.contains(id.to_be_bytes()).is_some()).collect();
    drop(dedup);
    let dedup = open();
    let lost = known.iter().filter(|id| dedup.contains(id.to_be_bytes()).is_none()).count();
    assert_eq!(lost, 0, "of {} that were known, of {end}", known.len());
}

/// Waits until all that was accepted is durable, which nobody has asked for.
fn wait_until_durable(dedup: &Dedup) {
    let (mine, began) = (dedup.journal().unwrap().appended().unwrap(), Instant::now());
    while dedup.journal().unwrap().durable().unwrap() < mine {
        assert!(began.elapsed() < Duration::from_secs(60), "nobody writes what was accepted");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_is_accepted_becomes_durable_within_the_interval_though_nobody_flushes() {
    let (directory, clock) = (Directory::new("interval"), clock());
    let dedup = directory.builder(&clock, JournalOptions::new().commit_interval(Duration::from_millis(1)));
    let dedup = dedup.build().unwrap();
    for id in ["a", "b", "c"] {
        let _ = dedup.check(id);
        wait_until_durable(&dedup);
    }
}

#[test]
fn as_many_bytes_as_are_written_without_delay_are_though_nobody_flushes() {
    let (directory, clock) = (Directory::new("bytes"), clock());
    let options = JournalOptions::new().commit_interval(Duration::from_secs(86_400)).commit_bytes(1_001);
    let dedup = directory.builder(&clock, options).build().unwrap();
    let _ = dedup.check("first");
    // Time for the thread to begin to wait for company: without it, less is tested.
    std::thread::sleep(Duration::from_millis(50));
    for id in 0..100_u32 {
        let _ = dedup.check(id.to_be_bytes());
    }
    let began = Instant::now();
    while dedup.journal().unwrap().durable().unwrap() == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "nobody writes what was accepted");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn nothing_is_written_before_the_interval_is_over_unless_somebody_flushes() {
    let (directory, clock) = (Directory::new("day"), clock());
    let options = JournalOptions::new().commit_interval(Duration::from_secs(86_400));
    let dedup = directory.builder(&clock, options).build().unwrap();
    let _ = dedup.check("first");
    // Time for the thread to write what it should not.
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(dedup.journal().unwrap().durable().unwrap(), 0, "it did not wait for company");
    for id in ["second", "third"] {
        let (flushed, flushes) = std::sync::mpsc::channel();
        let flusher = dedup.clone();
        std::thread::spawn(move || flushed.send(flusher.journal().unwrap().flush()));
        flushes.recv_timeout(Duration::from_secs(60)).expect("a flush waits for the interval").unwrap();
        assert_eq!(dedup.journal().unwrap().durable().unwrap(), dedup.journal().unwrap().appended().unwrap());
        let _ = dedup.check(id);
    }
}
