//! Engines with a journal.

use super::world::{Directory, Part, become_child, builder, fork, must_end_well, pipe};
use hapax::{Dedup, Int, JournalError, JournalOptions, ManualClock};
use std::future::Future;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use testkit::long;

fn is_forked<T: std::fmt::Debug>(result: Result<T, JournalError>) {
    let error = result.unwrap_err();
    assert!(matches!(error, JournalError::Forked { .. }), "{error}");
    assert!(error.to_string().contains("after the fork"), "{error}");
}

/// Checks that every way to ask for durability reports at once that there is none.
fn has_no_journal(dedup: &Dedup) {
    is_forked(dedup.journal().unwrap().flush());
    let flush = std::pin::pin!(dedup.journal().unwrap().flush_async());
    match flush.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(flushed) => is_forked(flushed),
        Poll::Pending => panic!("a flush that nobody will ever end"),
    }
    is_forked(dedup.journal().unwrap().durable());
    is_forked(dedup.journal().unwrap().appended());
    is_forked(dedup.journal().unwrap().append(|appending| appending.position("source", "1")));
    is_forked(dedup.journal().unwrap().append_batch([]));
    is_forked(dedup.journal().unwrap().positions());
    is_forked(dedup.journal().unwrap().reopen());
    let stats = dedup.stats().journal.unwrap();
    assert!(matches!(stats.failed, Some(JournalError::Forked { .. })), "{stats:?}");
}

pub fn a_child_has_no_journal() {
    let directory = Directory::new("no-journal");
    let dedup = directory.open().unwrap();
    assert!(dedup.check("a").is_fresh());
    dedup.journal().unwrap().flush().unwrap();
    let mut flush = Some(dedup.journal().unwrap().flush_async());
    must_end_well(fork(|| {
        assert!(dedup.check("a").is_duplicate());
        assert!(dedup.check("b").is_fresh() && dedup.check("b").is_duplicate());
        assert!(dedup.claim("c").claimed().unwrap().complete().is_ok() && dedup.claim("c").is_duplicate());
        dedup.forget("a");
        dedup.clear();
        has_no_journal(&dedup);
        drop(flush.take());
        // And a child of the child.
        must_end_well(fork(|| has_no_journal(&dedup)));
    }));
}

pub fn a_child_gives_up_nothing_of_its_parent() {
    let directory = Directory::new("nothing");
    let mut dedup = Some(directory.open().unwrap());
    dedup
        .iter()
        .for_each(|dedup| assert!(dedup.check("before").is_fresh() && dedup.journal().unwrap().flush().is_ok()));
    let files = || std::fs::read_dir(&directory.0).unwrap().map(|file| file.unwrap().file_name()).collect::<Vec<_>>();
    let before = files();
    must_end_well(fork(|| {
        dedup.iter().for_each(|dedup| assert!(dedup.check("of the child").is_fresh()));
        drop(dedup.take());
    }));
    assert_eq!(files(), before);
    assert!(!directory.can_be_opened_elsewhere(), "the child's end has let another process in");
    let dedup = dedup.unwrap();
    assert!(dedup.check("after").is_fresh());
    dedup.journal().unwrap().flush().unwrap();
    drop(dedup);
    let dedup = directory.open().unwrap();
    let known = ["before", "of the child", "after"].map(|id| dedup.contains(id).is_some());
    assert_eq!(known, [true, false, true]);
}

pub fn a_child_does_not_keep_what_its_parent_gives_up() {
    let directory = Directory::new("gives-up");
    let dedup = directory.open().unwrap();
    let (mut said, says) = pipe();
    let child = fork(|| {
        // The child lives on with a copy of the engine, and does nothing with it.
        assert_eq!(said.read(&mut [0]).unwrap(), 1);
    });
    assert!(!directory.can_be_opened_elsewhere());
    drop(dedup);
    assert!(directory.can_be_opened_elsewhere());
    (&says).write_all(b"!").unwrap();
    must_end_well(child);
}

pub fn a_child_does_not_keep_what_its_parent_dies_with() {
    let directory = Directory::new("dies");
    let mut parent = Part::Parent.start(&directory.0);
    // Until this goes, the child of the fork lives.
    let stdin = parent.0.stdin.take();
    let mut line = [0; 1];
    parent.0.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    assert!(!directory.can_be_opened_elsewhere());
    parent.0.kill().unwrap();
    parent.0.wait().unwrap();
    assert!(directory.can_be_opened_elsewhere(), "an orphan keeps its dead parent's directory");
    drop(stdin);
}

pub fn a_child_has_a_journal_of_its_own() {
    let (ours, theirs) = (Directory::new("ours"), Directory::new("theirs"));
    let mut dedup = Some(ours.open().unwrap());
    dedup.iter().for_each(|dedup| assert!(dedup.check("a").is_fresh()));
    must_end_well(fork(|| {
        let own = theirs.open().unwrap();
        assert!(own.check("a").is_fresh());
        own.journal().unwrap().flush().unwrap();
        assert!(ours.open().is_err(), "its parent has it");
        drop((own, dedup.take()));
        assert!(theirs.open().unwrap().check("a").is_duplicate());
        assert!(ours.open().is_err(), "its parent still has it");
    }));
    assert!(theirs.open().unwrap().check("a").is_duplicate());
}

pub fn a_child_that_the_library_does_not_know_of() {
    let directory = Directory::new("unknown");
    let mut dedup = Some(directory.open().unwrap());
    dedup.iter().for_each(|dedup| assert!(dedup.check("a").is_fresh() && dedup.journal().unwrap().flush().is_ok()));
    // SAFETY: as fork, of which the library is not told.
    #[cfg(target_os = "linux")]
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } as libc::pid_t;
    #[cfg(not(target_os = "linux"))]
    let pid = fork(|| {});
    if pid == 0 {
        become_child(|| {
            dedup.iter().for_each(has_no_journal);
            drop(dedup.take());
        });
    }
    must_end_well(pid);
    assert!(!directory.can_be_opened_elsewhere());
    dedup.unwrap().journal().unwrap().flush().unwrap();
}

/// Lets other threads check, claim, forget, grow, append and flush while this one forks.
pub fn forks_at_full_speed() {
    let (forks, clock) = (long(50, 200), ManualClock::new());
    let directory = Directory::new("speed");
    // Small and short, so that tables are started and retired all the time: in a hundred rounds a
    // window has passed. For a child time stands still, however long it is kept waiting.
    let small = builder(&directory.0).capacity(100).window(Duration::from_millis(300));
    let dedup = small.clock(clock.clone()).build().unwrap();
    let (is_done, next) = (AtomicBool::new(false), AtomicU64::new(0));
    let work = |thread: u64| {
        let (mut verdicts, mut round) = (Vec::new(), 0);
        while !is_done.load(Ordering::Relaxed) {
            let first = next.fetch_add(1_000, Ordering::Relaxed);
            clock.advance(Duration::from_millis(3));
            dedup.check_batch((first..first + 500).map(Int::from), &mut verdicts);
            for id in first + 500..first + 600 {
                if let Some(claim) = dedup.claim(Int::from(id)).claimed() {
                    let _ = claim.complete();
                }
            }
            match (thread + round) % 4 {
                0 => dedup.journal().unwrap().flush().unwrap(),
                1 => drop(dedup.stats()),
                2 => drop(dedup.forget(Int::from(first))),
                _ => {}
            }
            round += 1;
        }
    };
    std::thread::scope(|scope| {
        let work = &work;
        let dedup = &dedup;
        (0..3).for_each(|thread| drop(scope.spawn(move || work(thread))));
        for _ in 0..forks {
            let first = next.fetch_add(10_000, Ordering::Relaxed);
            must_end_well(fork(|| {
                let mut verdicts = Vec::new();
                dedup.check_batch((first..first + 5_000).map(Int::from), &mut verdicts);
                assert!(verdicts.iter().all(|verdict| verdict.is_fresh()));
                for id in first + 5_000..first + 5_100 {
                    dedup.claim(Int::from(id)).claimed().unwrap().complete().unwrap();
                    assert!(dedup.check(Int::from(id)).is_duplicate());
                }
                has_no_journal(dedup);
                dedup.clear();
                assert!(dedup.check(Int::from(first)).is_fresh());
                // SAFETY: it is the only handle, and nobody uses it after this: the child ends.
                drop(unsafe { std::ptr::read(dedup) });
            }));
        }
        is_done.store(true, Ordering::Relaxed);
    });
    dedup.journal().unwrap().flush().unwrap();
    assert!(!directory.can_be_opened_elsewhere());
    drop(dedup);
    builder(&directory.0).journal(&directory.0, JournalOptions::new()).build().unwrap();
}
