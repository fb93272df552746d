//! Iterators that announce more than they have, or more than there is memory for.

use hapax::{Dedup, Int, Timestamp, Verdict};

/// An iterator that announces the largest number of items, and has a few.
struct Announcing<I>(I);

impl<I: Iterator> Iterator for Announcing<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX / 64, None)
    }
}

fn ids(from: u64) -> Announcing<impl Iterator<Item = Int<8>>> {
    Announcing((from..from + 100).map(Int::from))
}

/// Runs each batch call that checks, on an engine.
fn check_in_each_way(dedup: &Dedup) {
    let prepared = |from: u64| Announcing((from..from + 100).map(|id| dedup.prepare(Int::from(id))));
    let (at, mut verdicts) = (Timestamp::from_secs(1_000_000), Vec::new());
    let all = |verdicts: &[Verdict], is_right: fn(&Verdict) -> bool| {
        assert!(verdicts.len() == 100 && verdicts.iter().all(is_right), "{verdicts:?}");
    };
    dedup.check_batch(ids(0), &mut verdicts);
    all(&verdicts, |verdict| verdict.is_fresh());
    dedup.check_batch(prepared(1_000), &mut verdicts);
    all(&verdicts, |verdict| verdict.is_fresh());
    dedup.check_batch_at(ids(2_000), at, &mut verdicts);
    all(&verdicts, |verdict| verdict.is_fresh());
    dedup.check_batch_at(prepared(3_000), at, &mut verdicts);
    all(&verdicts, |verdict| verdict.is_fresh());
    // In five hundred years.
    dedup.check_batch_at(ids(4_000), Timestamp::from_secs(1 << 34), &mut verdicts);
    all(&verdicts, |verdict| verdict.is_refused());
    assert!(verdicts.capacity() <= 1 << 17, "room for {} verdicts", verdicts.capacity());

    let (mut attempts, mut ended) = (Vec::new(), Vec::new());
    dedup.claim_batch(ids(5_000), &mut attempts);
    assert_eq!(attempts.len(), 100);
    dedup.complete_batch(Announcing(attempts.drain(..).filter_map(|attempt| attempt.claimed())), &mut ended);
    assert_eq!(ended.iter().filter(|end| end.is_ok()).count(), 100);
}

#[test]
fn engines_believe_no_announcement() {
    check_in_each_way(&Dedup::builder().build().unwrap());
    let hour = std::time::Duration::from_secs(3600);
    check_in_each_way(&Dedup::builder().history(testkit::history(hour, 1e-3, 10_000)).build().unwrap());
}

#[test]
fn journals_believe_no_announcement() {
    use hapax::JournalOptions;
    let directory = testkit::directory::Directory::new("hints");
    let dedup = Dedup::builder().journal(directory.path(), JournalOptions::new()).build().unwrap();
    check_in_each_way(&dedup);
    let fresh = dedup.check("another");
    let checked = |from: u64| Announcing((from..from + 100).map(|id| (dedup.prepare(Int::from(id)), fresh)));
    let before = dedup.journal().unwrap().appended().unwrap();
    dedup.journal().unwrap().append(|appending| appending.accepted(checked(10_000))).unwrap();
    dedup
        .journal()
        .unwrap()
        .append(|appending| appending.accepted_at(checked(11_000), Timestamp::from_secs(1_000_000)))
        .unwrap();
    dedup.journal().unwrap().append_batch(checked(12_000)).unwrap();
    dedup.journal().unwrap().append_batch_at(checked(13_000), Timestamp::from_secs(1_000_000)).unwrap();
    assert_eq!(dedup.journal().unwrap().appended().unwrap() - before, 400);
    dedup.journal().unwrap().flush().unwrap();
}

#[test]
fn stores_believe_no_announcement() {
    use hapax_store::{InMemoryStore, TieredDedup};
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let dedup = TieredDedup::builder(InMemoryStore::new()).build().await.unwrap();
        let verdicts = dedup.check_batch(ids(0)).await;
        assert_eq!(verdicts.into_iter().filter(|verdict| verdict.as_ref().unwrap().is_fresh()).count(), 100);
        let attempts = dedup.claim_batch(ids(1_000)).await;
        let claims = attempts.into_iter().filter_map(|attempt| attempt.unwrap().claimed());
        let ended = dedup.complete_batch(Announcing(claims)).await;
        assert_eq!(ended.into_iter().filter(|end| end.is_ok()).count(), 100);
    });
}
