//! Segments that are open when the process forks.

use super::world::{Directory, fork, must_end_well};
use hapax::seam::Digester;
use hapax::segments::{Answer, Event, EventKind, SegmentOptions, Segments};
use hapax::{SegmentError, Timestamp};
use std::time::Duration;

fn is_forked<T>(result: Result<T, SegmentError>) {
    let error = result.err().unwrap();
    assert!(matches!(error, SegmentError::Forked { .. }), "{error}");
    assert!(error.to_string().contains("after the fork"), "{error}");
}

pub fn a_child_changes_no_segments_of_its_parent() {
    let directory = Directory::new("segments");
    let options = SegmentOptions::new(Duration::from_secs(100));
    let segments = Segments::open(&directory.0, options).unwrap();
    let digester = Digester::from(segments.key());
    let now = Timestamp::from_secs(20);
    let event = |id: &str| Event { digest: digester.digest(id), time: now, kind: EventKind::Accepted };
    for (number, id) in (1..).zip(["a", "b", "c"]) {
        segments.seal(&mut &[event(id)][..], number).unwrap();
    }
    let mut merge = segments.begin_merge(now).unwrap();
    assert!(!merge.as_mut().unwrap().step(1).unwrap());
    let mut ours = Some(segments);
    must_end_well(fork(|| {
        let segments = ours.take().unwrap();
        let mut answers = Vec::new();
        is_forked(segments.look(&[digester.digest("a")], now, &mut answers));
        assert_eq!(answers, [Answer::InDoubt]);
        is_forked(segments.seal(&mut &[event("d")][..], 4));
        is_forked(segments.clear(5));
        is_forked(segments.expire(Timestamp::from_secs(1_000)));
        is_forked(segments.begin_merge(now));
        drop(merge.take());
        drop(segments);
        // It is the parent's still.
        assert!(matches!(Segments::open(&directory.0, options), Err(SegmentError::InUse { .. })));
    }));
    let (segments, mut merge) = (ours.unwrap(), merge.unwrap());
    while !merge.step(1).unwrap() {}
    let mut answers = Vec::new();
    segments.look(&["a", "b", "c", "d"].map(|id| digester.digest(id)), now, &mut answers).unwrap();
    let known = Answer::Known(now);
    assert_eq!(answers, [known, known, known, Answer::Unknown]);
    assert_eq!((segments.stats().segments, segments.sealed()), (1, 3));
}
