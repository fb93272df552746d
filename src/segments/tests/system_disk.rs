//! Segments on the system's disk, with threads that read, and more ids than a page has.

use super::model::{directory, key};
use crate::digest::Digest;
use crate::digest::Digester;
use crate::journal::files::simulated::{Call, Fault, Simulated};
use crate::segments::live::set::Segments;
use crate::segments::options::SegmentOptions;
use crate::segments::plan::Needs;
use crate::segments::read::look::Answer;
use crate::segments::write::sort::{Event, EventKind};
use crate::{SegmentError, Timestamp};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const SPAN: u64 = 40_000;

fn events(digester: &Digester, ids: std::ops::Range<u64>, time: u64) -> Vec<Event> {
    let event = |id: u64| Event {
        digest: digester.digest(id.to_le_bytes()),
        time: Timestamp::from_secs(time),
        kind: EventKind::Accepted,
    };
    ids.map(event).collect()
}

fn digests(events: &[Event]) -> Vec<Digest> {
    events.iter().map(|event| event.digest).collect()
}

/// Merges until nothing is due.
fn merge_all(segments: &Arc<Segments>, now: Timestamp) {
    while let Some(mut merge) = segments.begin_merge(now).unwrap() {
        while !merge.step(1_000).unwrap() {}
    }
}

#[test]
fn what_is_sealed_is_known_while_it_is_merged_and_after_a_restart_and_takes_what_was_said() {
    let directory = testkit::directory::Directory::new("segments");
    let path = directory.path().join("segments");
    let retention = Duration::from_secs(100);
    let segments = Segments::open(&path, SegmentOptions::new(retention)).unwrap();
    assert!(matches!(Segments::open(&path, SegmentOptions::new(retention)), Err(SegmentError::InUse { .. })));
    let digester = Digester::from(segments.key());
    let now = Timestamp::from_secs(50);
    let ask = |segments: &Segments, ids: std::ops::Range<u64>| {
        let mut answers = Vec::new();
        segments.look(&digests(&events(&digester, ids, 0)), now, &mut answers).unwrap();
        answers.into_iter().filter(|answer| matches!(answer, Answer::Known(_))).count() as u64
    };
    for span in 0..5 {
        segments.seal(&mut &events(&digester, span * SPAN..(span + 1) * SPAN, 10 + span)[..], span).unwrap();
    }
    std::thread::scope(|scope| {
        let merging = scope.spawn(|| merge_all(&segments, now));
        for round in 0.. {
            assert_eq!(ask(&segments, 0..5 * SPAN), 5 * SPAN, "round {round}");
            if merging.is_finished() {
                break;
            }
        }
    });
    assert_eq!(ask(&segments, 5 * SPAN..6 * SPAN), 0);
    let stats = segments.stats();
    assert_eq!((stats.segments, stats.ids, stats.written_records), (1, 5 * SPAN, 10 * SPAN));
    let needs = Needs::of(5 * SPAN, 1);
    let (memory, disk) = (stats.memory_bytes as f64, stats.disk_bytes as f64);
    assert!((0.97..1.03).contains(&(memory / needs.memory_bytes as f64)), "{memory}");
    assert!((0.97..1.03).contains(&(disk / needs.disk_bytes as f64)), "{disk}");
    drop(segments);

    let segments = Segments::open(&path, SegmentOptions::new(retention)).unwrap();
    assert_eq!((segments.sealed(), segments.stats().filters_missing), (4, 1));
    assert_eq!(ask(&segments, 0..5 * SPAN), 5 * SPAN, "without filters");
    while segments.load_filter().unwrap() {}
    let before = segments.stats().pages_read;
    assert_eq!(ask(&segments, 0..6 * SPAN), 5 * SPAN);
    let read = segments.stats().pages_read - before;
    assert!(read < 5 * SPAN + SPAN / 50, "{read} pages");
}

#[test]
fn pages_that_are_not_in_memory_are_read_by_several_threads_and_errors_are_said() {
    let disk = Simulated::new();
    let options = SegmentOptions { key: key(), read_threads: 3, ..SegmentOptions::new(Duration::from_secs(100)) };
    let segments = Segments::open_on(Arc::new(disk.clone()), directory(), options, None).unwrap();
    let digester = Digester::from(segments.key());
    let events = events(&digester, 0..5_000, 10);
    segments.seal(&mut &events[..], 1).unwrap();
    disk.be_cold();
    let (digests, mut answers) = (digests(&events), Vec::new());
    let now = Timestamp::from_secs(20);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for chunk in digests.chunks(97) {
                    let mut answers = Vec::new();
                    segments.look(chunk, now, &mut answers).unwrap();
                    assert!(answers.iter().all(|answer| *answer == Answer::Known(Timestamp::from_secs(10))));
                }
            });
        }
    });
    disk.plan(Some(Call::Read), 3, Fault::Error(5));
    let failed = segments.look(&digests[..100], now, &mut answers);
    assert!(matches!(failed, Err(SegmentError::Io { .. })), "{failed:?}");
    let in_doubt = answers.iter().filter(|answer| **answer == Answer::InDoubt).count();
    assert_eq!((in_doubt, answers.len()), (1, 100));
    assert!(answers.iter().all(|answer| *answer != Answer::Unknown));
}

#[test]
fn a_read_that_hangs_leaves_its_id_in_doubt_and_no_other() {
    let disk = Simulated::new();
    let options = SegmentOptions {
        key: key(),
        read_threads: 2,
        read_wait_max: Duration::from_millis(100),
        ..SegmentOptions::new(Duration::from_secs(100))
    };
    let segments = Segments::open_on(Arc::new(disk.clone()), directory(), options, None).unwrap();
    let digester = Digester::from(segments.key());
    let events = events(&digester, 0..5_000, 10);
    segments.seal(&mut &events[..], 1).unwrap();
    disk.be_cold();
    let (digests, mut answers, now) = (digests(&events), Vec::new(), Timestamp::from_secs(20));
    // The read that hangs must be a helper's: those of the caller wait as long as the system does.
    let hangs = |disk: &Simulated| {
        let (told, hung) = channel();
        let (release, released) = channel::<()>();
        disk.meanwhile(Call::Read, move || {
            let helps = std::thread::current().name() == Some("hapax-read");
            let _ = told.send(helps);
            if helps {
                // (Until it is released; the time is a guard against hanging alone.)
                let _ = released.recv_timeout(Duration::from_secs(300));
            }
        });
        (hung, release)
    };
    let began = Instant::now();
    let (looked, release) = loop {
        // A guard against hanging alone: when a helper comes to help is the system's decision.
        assert!(began.elapsed() < Duration::from_secs(120), "no helper helps");
        let (hung, release) = hangs(&disk);
        let looked = segments.look(&digests[..500], now, &mut answers);
        if hung.try_recv() == Ok(true) {
            break (looked, release);
        }
    };
    let in_doubt = answers.iter().filter(|answer| **answer == Answer::InDoubt).count();
    assert!(
        matches!(&looked, Err(SegmentError::Io { source, .. }) if source.kind() == ErrorKind::TimedOut),
        "{looked:?}"
    );
    // (The other helper may have been interrupted.)
    assert!((1..=2).contains(&in_doubt) && !answers.contains(&Answer::Unknown), "{in_doubt}");
    // When it goes on, nothing is wrong any more.
    drop(release);
    segments.look(&digests, now, &mut answers).unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Answer::Known(_))));
}

#[cfg(target_os = "linux")]
#[test]
fn of_any_number_of_segments_few_files_are_open_until_they_are_merged() {
    let directory = testkit::directory::Directory::new("segments-many");
    let path = directory.path().join("segments");
    let open = || Segments::open(&path, SegmentOptions::new(Duration::from_secs(100))).unwrap();
    let are_open = || {
        let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        links.filter(|link| std::fs::read_link(link.path()).is_ok_and(|to| to.starts_with(&path))).count()
    };
    let (now, many) = (Timestamp::from_secs(50), 300);
    let segments = open();
    let digester = Digester::from(segments.key());
    let ids = |span: u64| events(&digester, 10 * span..10 * span + 10, 10);
    (0..many).for_each(|span| segments.seal(&mut &ids(span)[..], span).unwrap());
    drop(segments);
    let segments = open();
    assert!(segments.stats().segments == many && are_open() < 70, "{} of {many}", are_open());
    for is_merged in [false, true] {
        for span in 0..many {
            let mut answers = Vec::new();
            segments.look(&digests(&ids(span)), now, &mut answers).unwrap();
            assert!(answers.iter().all(|answer| matches!(answer, Answer::Known(_))), "{span} {is_merged}");
        }
        merge_all(&segments, now);
        assert!(segments.stats().segments < 10 && are_open() < 12, "{}", are_open());
    }
}
