//! A consumer that marks on sight is killed, and killed while it has the whole topic; every message
//! has its effect, and few have two.

use crate::directory::Directory;
use crate::kafka::{SESSION_MS, committed, payments_twice, producer, send};
use crate::killed::{Consumer, POISON, check_effects, effects, seed};
use hapax_brokers::ledger;
use rdkafka::mocking::MockCluster;

const CLICKS: usize = 400;
const KILLS: usize = 3;
/// Two batches: the one that was being made durable, and the next one.
const BETWEEN_CHECKPOINTS: usize = 64;

#[test]
fn each_click_is_counted_and_few_are_counted_again() {
    let (directory, seed) = (Directory::new("kafka-log"), seed("kafka-log"));
    let cluster = MockCluster::new(1).expect("a cluster");
    let brokers = cluster.bootstrap_servers();
    let ids: Vec<String> = (0..CLICKS).map(|number| format!("c-{number}")).collect();
    payments_twice(&cluster, "clicks", &ids);
    cluster.create_topic("clicks.dead", 1, 1).expect("a topic");
    send(&producer(&brokers), "clicks", std::iter::once((0, POISON)));

    let [journal, ledger] = ["journal", "ledger.txt"].map(|name| directory.file(name));
    let arguments = vec![brokers.clone(), "clicks".into(), SESSION_MS.into(), journal, ledger.clone()];
    let log = directory.path().join("consumer.log");
    let mut consumer = Consumer::start(env!("CARGO_BIN_EXE_kafka_log"), arguments, &log, seed);
    consumer.kill_at_random(KILLS, CLICKS, || effects(&ledger));
    consumer.await_until(|| committed(&brokers, "clicks", "counting") == 2 * CLICKS as i64 + 1);
    consumer.stop();
    let counts = ledger::count(&ledger).expect("effects");
    check_effects("kafka-log", &ids, &counts, consumer.kills, BETWEEN_CHECKPOINTS);
}
