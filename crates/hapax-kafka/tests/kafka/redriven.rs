//! Dead letters that are sent to the topic anew, or to one for retries, and records that were put
//! aside, and come again.

use crate::cluster::{committed, producer, send};
use crate::source::{cluster, config, receive};
use hapax_kafka::{KafkaMessage, KafkaOptions, KafkaSource};
use hapax_message::Described;
use testkit::redriven::{Billing, MESSAGES, POISON, ids};
use tokio::task::block_in_place;

fn id(message: &KafkaMessage) -> Option<String> {
    message.header("id").map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn poison_in_a_batch_is_put_aside_alone() {
    let cluster = cluster(&[("orders", 0), ("orders.dead", 0)]);
    block_in_place(|| send(&producer(&cluster.bootstrap_servers()), "orders", ids().enumerate()));
    let subscribe = |group: &str, topic: &str| {
        KafkaSource::subscribe(&config(&cluster, group), &[topic], KafkaOptions::new()).expect("a member")
    };
    let source = subscribe("billing", "orders");
    Billing::new(id).await.handles_batches(&source).await;
    source.close().await;
    let committed = block_in_place(|| committed(&cluster.bootstrap_servers(), "orders", "billing"));
    assert_eq!(committed, MESSAGES as i64);
    let dead = subscribe("operator", "orders.dead");
    let letters = receive(&dead, POISON.len()).await;
    assert!(letters.iter().all(|letter| POISON.contains(&id(letter).expect("an id").as_str())));
    dead.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_that_is_sent_anew_is_handled_by_the_same_consumer() {
    for to in ["orders", "orders.retry"] {
        let cluster = cluster(&[("orders", 0), ("orders.retry", 0), ("orders.dead", 0)]);
        let producer = producer(&cluster.bootstrap_servers());
        block_in_place(|| send(&producer, "orders", ids().enumerate()));
        let subscribe = |group: &str, topics: &[&str]| {
            KafkaSource::subscribe(&config(&cluster, group), topics, KafkaOptions::new()).expect("a member")
        };
        let source = subscribe("billing", &["orders", "orders.retry"]);
        let dead = subscribe("operator", &["orders.dead"]);
        let replay = async {
            let letters = receive(&dead, POISON.len()).await;
            let ids = letters.iter().map(|letter| id(letter).expect("an id"));
            block_in_place(|| send(&producer, to, ids.enumerate()));
        };
        Billing::new(id).await.handles_what_is_sent_anew(&source, replay).await;
        source.close().await;
        dead.close().await;
    }
}

/// Kafka counts no deliveries, so the store is asked only when a message fails: one that fails once
/// more is put aside again, without further attempts.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_was_put_aside_and_is_read_again_is_tried_once_and_put_aside_again() {
    let cluster = cluster(&[("orders", 0), ("orders.dead", 0)]);
    block_in_place(|| send(&producer(&cluster.bootstrap_servers()), "orders", [(0, POISON[0])].into_iter()));
    let billing = Billing::new(id).await;
    let mut stats = None;
    // Another group begins where the first one would without its commit, and waits for no member.
    for (group, acknowledged) in [("billing", 1), ("billing-again", 2)] {
        let source = KafkaSource::subscribe(&config(&cluster, group), &["orders"], KafkaOptions::new());
        let source = source.expect("a member");
        stats = Some(billing.run(&source, acknowledged).await);
        source.close().await;
    }
    billing.has_put_aside_again(&stats.expect("two runs"), 3, 2);
}
