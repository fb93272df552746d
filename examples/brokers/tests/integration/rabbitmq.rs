//! Every order is published twice, and messages that a dead consumer had not acknowledged come
//! again at once.

use crate::directory::Directory;
use crate::killed::{Consumer, POISON, check_healed, seed};
use crate::processes::await_until;
use hapax_brokers::ledger;
use lapin::message::Delivery;
use lapin::options::{BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use testkit::brokers::Rabbit;
use tokio::runtime::Runtime;

const ORDERS: usize = 200;
const KILLS: usize = 5;
/// Eight are handled, and as many are being completed.
const IN_FLIGHT: usize = 16;

/// Declares the queue of the orders, and that of what is refused.
pub async fn queues(url: &str) -> (Connection, Channel) {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.expect("a connection");
    let channel = connection.create_channel().await.expect("a channel");
    channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirmations");
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let mut refused = FieldTable::default();
    refused.insert("x-dead-letter-exchange".into(), AMQPValue::LongString("".into()));
    refused.insert("x-dead-letter-routing-key".into(), AMQPValue::LongString("dead".into()));
    channel.queue_declare("orders".into(), durable, refused).await.expect("a queue");
    channel.queue_declare("dead".into(), durable, FieldTable::default()).await.expect("a queue");
    (connection, channel)
}

async fn orders_twice(url: &str, ids: &[String]) -> (Connection, Channel) {
    let (connection, channel) = queues(url).await;
    for id in ids.iter().chain(ids).map(String::as_str).chain([POISON]) {
        let properties = BasicProperties::default().with_message_id(id.into()).with_delivery_mode(2);
        let options = BasicPublishOptions::default();
        let sent = channel.basic_publish("".into(), "orders".into(), options, b"an order", properties).await;
        sent.expect("sent").await.expect("stored");
    }
    (connection, channel)
}

#[test]
fn each_order_is_billed_once() {
    let Some(rabbit) = Rabbit::start("rabbitmq") else { return };
    let (directory, seed, runtime) = (Directory::new("rabbitmq"), seed("rabbitmq"), Runtime::new().expect("a runtime"));
    let ids: Vec<String> = (0..ORDERS).map(|number| format!("o-{number}")).collect();
    let (_connection, channel) = runtime.block_on(orders_twice(&rabbit.url(), &ids));

    let ledger = directory.file("ledger");
    let arguments = vec![rabbit.url(), directory.file("billing.db"), ledger.clone()];
    let log = directory.path().join("billing.log");
    let mut billing = Consumer::start(env!("CARGO_BIN_EXE_rabbitmq"), arguments, &log, seed);
    billing.kill_at_random_and_in_an_outage(KILLS, ORDERS, &ledger);
    let billed = || ledger::count(&ledger).map_or(0, |counts| counts.len());
    billing.await_until(|| billed() >= ORDERS);
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let queue_of = |name: &str| {
        let queue = runtime.block_on(channel.queue_declare(name.into(), passive, FieldTable::default()));
        queue.expect("the queue")
    };
    billing.await_until(|| queue_of("dead").message_count() > 0);
    // The queue does not report unacknowledged messages: they show when the consumers have ended.
    let finish = |billing: &mut Consumer| {
        let queue = || queue_of("orders");
        loop {
            billing.await_until(|| queue().message_count() == 0);
            billing.stop();
            await_until(&log, || queue().consumer_count() == 0);
            if queue().message_count() == 0 {
                break;
            }
            billing.start_again();
        }
    };
    finish(&mut billing);
    let taken = || runtime.block_on(channel.basic_get("dead".into(), BasicGetOptions { no_ack: true }));
    let dead: Vec<_> = std::iter::from_fn(|| taken().expect("an answer")).map(|dead| dead.delivery).collect();
    let is_poison = |dead: &Delivery| dead.properties.message_id() == &Some(POISON.into());
    assert!(!dead.is_empty() && dead.iter().all(is_poison), "what fails is put aside: {dead:?}");
    billing.start_again();
    billing.heal(&ledger, || {
        for Delivery { data, properties, .. } in &dead {
            let options = BasicPublishOptions::default();
            let sent = channel.basic_publish("".into(), "orders".into(), options, data, properties.clone());
            runtime.block_on(async { sent.await.expect("sent").await.expect("stored") });
        }
    });
    finish(&mut billing);
    assert_eq!(queue_of("dead").message_count(), 0, "nothing is put aside any more");
    check_healed("rabbitmq", &ids, &ledger, billing.kills, IN_FLIGHT);
}
