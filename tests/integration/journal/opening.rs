//! The cost of opening files that were made to be expensive.

use super::*;
use hapax::EventTime;
use testkit::long;

/// Opens the journal by a large engine, with less of the processor's time than it takes if work is
/// done for each run. (How much else the processor has to do does not count.)
fn opens_soon(directory: &Directory, clock: &ManualClock) -> Dedup {
    opens_soon_with(Dedup::builder().clock(clock.clone()), directory)
}

fn opens_soon_with(builder: Builder, directory: &Directory) -> Dedup {
    let began = time_of_this_thread();
    let builder = builder.window(WINDOW).capacity(2_000_000);
    let dedup = builder.journal(&directory.0, JournalOptions::new()).build().unwrap();
    let took = time_of_this_thread() - began;
    assert!(took < Duration::from_secs(20), "it took {took:?}");
    dedup
}

/// Returns the processor's time that this thread has had so far; zero where the system does not
/// tell.
fn time_of_this_thread() -> Duration {
    #[cfg(unix)]
    {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is ours to be written to.
        assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
    #[cfg(not(unix))]
    Duration::ZERO
}

#[test]
fn runs_that_clear_everything_are_done_once() {
    let clears = long(3_000, 20_000_u64);
    let (directory, clock) = (Directory::new("clears"), clock());
    let dedup = directory.builder(&clock, JournalOptions::new()).capacity(1).build().unwrap();
    for id in 0..clears {
        let _ = dedup.check(id.to_be_bytes());
        dedup.clear();
    }
    let _ = dedup.check("after");
    dedup.journal().unwrap().append(|appending| appending.position("source", "17")).unwrap();
    dedup.journal().unwrap().flush().unwrap();
    drop(dedup);
    let dedup = opens_soon(&directory, &clock);
    assert!(dedup.contains("after").is_some() && dedup.contains(0_u64.to_be_bytes()).is_none());
    assert_eq!((recovery(&dedup).ids, dedup.journal().unwrap().positions().unwrap().len()), (clears + 1, 1));
}

#[test]
fn runs_that_let_time_go_on_cost_nothing_by_themselves() {
    let (directory, clock) = (Directory::new("times"), clock());
    let unrelated = |builder: Builder| builder.event_time(EventTime::unrelated());
    let dedup = unrelated(directory.builder(&clock, JournalOptions::new().deferred(true))).build().unwrap();
    let start = Timestamp::from_secs(1_000_000);
    dedup
        .journal()
        .unwrap()
        .append(|appending| {
            for step in 0..200_000 {
                appending.time(start + step * (WINDOW / 16));
            }
        })
        .unwrap();
    dedup.journal().unwrap().flush().unwrap();
    drop(dedup);
    let dedup = opens_soon_with(unrelated(Dedup::builder().clock(clock)), &directory);
    let (at, latest) = (dedup.stats().at, start + 199_999 * (WINDOW / 16));
    assert!((latest..=latest + dedup.tick()).contains(&at), "{at:?}, not {latest:?}");
    let verdict = dedup.check_at("b", start + 200_001 * (WINDOW / 16));
    assert!(verdict.is_fresh(), "{verdict:?} {:?}", dedup.stats().at);
}
