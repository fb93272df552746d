//! Consumers of a log that compare contents: one id with another content is no duplicate.

use crate::stream::logs::{Journal, log, log_consumer};
use crate::stream::*;
use hapax_stream::{Acks, ConsumerBuilder, ConsumerStats, Delivery, Log, OnMismatch};
use std::future::pending;

/// Builds a consumer of messages whose content is their partition.
fn comparing(engine: &hapax::Dedup) -> ConsumerBuilder<Log<hapax::Dedup>, Message> {
    log_consumer(engine).max_attempts(1).fingerprint_by(|message: &Message| Some([message.partition as u8]))
}

/// Consumes these messages, one batch, by a broker of their own.
async fn consume(
    builder: ConsumerBuilder<Log<hapax::Dedup>, Message>,
    messages: &[(u32, &'static str)],
    is_handled: bool,
) -> (ConsumerStats, Vec<String>) {
    let (broker, _) = log(Acks::Cumulative);
    messages.iter().for_each(|&(partition, id)| _ = broker.send(partition, id));
    broker.close();
    let handler = move |_: Delivery<Message>| async move { if is_handled { Ok(()) } else { Err("not now") } };
    let stats = builder.build().unwrap().run(&broker, handler, pending()).await.unwrap();
    assert_eq!(stats.acknowledged, messages.len() as u64, "{stats:?}");
    let dead = broker.state().dead.values().cloned().collect();
    (stats, dead)
}

#[tokio::test(start_paused = true)]
async fn an_id_with_another_content_is_no_duplicate_of_a_log_nor_behind_a_restart() {
    for (on_mismatch, handled, aside) in
        [(OnMismatch::DeadLetter, 0, 1), (OnMismatch::Handle, 1, 0), (OnMismatch::Drop, 0, 0)]
    {
        let journal = Journal::new(&format!("contents-{on_mismatch:?}"));
        let engine = journal.open();
        let builder = comparing(&engine).on_mismatch(on_mismatch);
        let (stats, dead) = consume(builder, &[(0, "a"), (1, "a"), (0, "a"), (0, "b")], true).await;
        assert_eq!((stats.mismatch, stats.duplicate, stats.handled), (1, 1, 2 + handled), "{on_mismatch:?}");
        assert_eq!((stats.dead_lettered, dead.len()), (aside, aside as usize));
        assert!(dead.iter().all(|why| why.contains("another fingerprint")), "{dead:?}");
        drop(engine);
        let engine = journal.open();
        let builder = comparing(&engine).on_mismatch(on_mismatch);
        let (stats, dead) = consume(builder, &[(0, "b"), (1, "a"), (1, "b")], true).await;
        assert_eq!((stats.mismatch, stats.duplicate, stats.handled), (2, 1, 2 * handled), "{on_mismatch:?}");
        assert_eq!(dead.len(), 2 * aside as usize);
        // Who does not compare takes them all for duplicates.
        let (stats, _) = consume(log_consumer(&engine), &[(1, "a"), (1, "b")], true).await;
        assert_eq!((stats.mismatch, stats.duplicate), (0, 2), "{stats:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_put_aside_leaves_its_id_to_any_content() {
    let journal = Journal::new("contents-aside");
    let history = testkit::history(Duration::from_secs(3_600), 1e-3, 10_000);
    let engine = journal.builder().history(history).build().unwrap();
    let (stats, dead) = consume(comparing(&engine), &[(0, "a")], false).await;
    assert_eq!((stats.failed, dead.len()), (1, 1));
    // Corrected, it is handled: a claim has told the history nothing.
    let (stats, _) = consume(comparing(&engine), &[(1, "a")], true).await;
    assert_eq!((stats.handled, stats.mismatch, stats.duplicate), (1, 0, 0), "{stats:?}");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_not_compared_is_a_duplicate_of_any() {
    let journal = Journal::new("contents-none");
    let engine = journal.open();
    let builder = || log_consumer(&engine).fingerprint_by(|message: &Message| (message.partition > 0).then_some([1]));
    let (stats, _) = consume(builder(), &[(0, "a"), (1, "a"), (1, "b"), (0, "b")], true).await;
    assert_eq!((stats.handled, stats.duplicate, stats.mismatch), (2, 2, 0), "{stats:?}");
}
