//! Ids, positions and stream time that are appended as one.

use super::*;

#[test]
fn appending_to_a_journal_that_has_failed_returns_and_says_why() {
    let (directory, clock) = (Directory::new("failed"), clock());
    let options = JournalOptions::new().deferred(true).max_disk_bytes(1_000);
    let dedup = directory.builder(&clock, options).build().unwrap();
    let mut verdicts = Vec::new();
    let ids: Vec<_> = (0..200_000_u32).map(|id| dedup.prepare(id.to_be_bytes())).collect();
    dedup.check_batch(ids.iter().copied(), &mut verdicts);
    let checked = || ids.iter().copied().zip(verdicts.iter().copied());
    let failed =
        dedup.journal().unwrap().append_batch(checked()).and_then(|()| dedup.journal().unwrap().flush()).unwrap_err();
    assert!(matches!(failed, JournalError::OverBudget { .. }), "{failed}");
    for n in [0, 1, 200_000] {
        let again = dedup.journal().unwrap().append_batch(checked().take(n)).unwrap_err();
        assert!(matches!(again, JournalError::OverBudget { .. }), "{again}");
        let at = hapax::Clock::now(&clock);
        assert!(dedup.journal().unwrap().append_batch_at(checked().take(n), at).is_err());
    }
    assert!(matches!(dedup.journal().unwrap().append(|_| ()), Err(JournalError::OverBudget { .. })));
}

#[test]
fn what_is_appended_as_one_is_in_one_block_and_the_latest_positions_are_known() {
    let (directory, clock) = (Directory::new("positions"), clock());
    let open = || directory.builder(&clock, JournalOptions::new().deferred(true)).build().unwrap();
    let dedup = open();
    let at = Timestamp::from_secs(1_000_000);
    for round in 0..50_u64 {
        dedup
            .journal()
            .unwrap()
            .append(|appending| {
                for part in 0..5 {
                    let id = dedup.prepare((round * 5 + part).to_be_bytes());
                    let verdict = dedup.check_at(id, at);
                    appending.accepted_at([(id, verdict), (id, dedup.check_at(id, at))], at);
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
    assert_eq!(dedup.journal().unwrap().positions().unwrap(), expected);
    drop(dedup);
    let dedup = open();
    assert_eq!((dedup.journal().unwrap().positions().unwrap(), recovery(&dedup).ids), (expected, 250));
}

#[test]
fn positions_outlive_the_files_that_they_were_said_in() {
    let (directory, clock) = (Directory::new("positions-expire"), clock());
    let open = || directory.builder(&clock, JournalOptions::new().segment_length(WINDOW / 4)).build().unwrap();
    let dedup = open();
    dedup.journal().unwrap().append(|appending| appending.position("early", "1")).unwrap();
    dedup.journal().unwrap().flush().unwrap();
    let first = directory.segments();
    for step in 0..40_u32 {
        let _ = dedup.check(step.to_be_bytes());
        dedup.journal().unwrap().flush().unwrap();
        clock.advance(WINDOW / 10);
    }
    assert!(first.iter().all(|path| !path.exists()));
    drop(dedup);
    assert_eq!(open().journal().unwrap().positions().unwrap(), [(b"early".to_vec(), b"1".to_vec())]);
}

#[test]
fn stream_time_goes_on_from_where_it_was_said_to_be() {
    let (directory, clock) = (Directory::new("time"), clock());
    let dedup = directory.open(&clock);
    let at = Timestamp::from_secs(2_000_000);
    clock.set(at + 2 * WINDOW);
    assert!(dedup.check_at("a", at).is_fresh());
    dedup.journal().unwrap().append(|appending| appending.time(at + 2 * WINDOW)).unwrap();
    // Such a time cannot be right, and changes nothing.
    dedup.journal().unwrap().append(|appending| appending.time(at + 1_000 * WINDOW)).unwrap();
    drop(dedup);
    assert!(directory.open(&clock).check_at("b", at + 2 * WINDOW).is_fresh());
    assert!(directory.open(&clock).check_at("b", at + 5 * WINDOW / 2).is_duplicate());
    assert!(directory.open(&clock).check_at("a", at).is_fresh(), "it is later than that");
}

#[test]
fn what_is_too_large_to_be_appended_is_refused_as_a_whole() {
    let (directory, clock) = (Directory::new("large"), clock());
    let dedup = directory.open(&clock);
    let refused =
        |fill: &dyn Fn(&mut hapax::Appending<'_>)| match dedup.journal().unwrap().append(|appending| fill(appending)) {
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
    assert_eq!(dedup.journal().unwrap().positions().unwrap(), []);
    dedup.journal().unwrap().append(|appending| appending.position([0; 1_024], [0; 65_536])).unwrap();
    dedup.journal().unwrap().append(|appending| appending.position([0; 1_024], "less")).unwrap();
    dedup.journal().unwrap().append(sources(65_535)).unwrap();
    dedup.journal().unwrap().append(sources(65_535)).unwrap();
    assert_eq!(refused(&sources(65_536)), 65_536);
    assert_eq!(dedup.journal().unwrap().positions().unwrap().len(), 65_536);
    dedup.journal().unwrap().flush().unwrap();
    drop(dedup);
    assert_eq!(directory.open(&clock).journal().unwrap().positions().unwrap().len(), 65_536);
}
