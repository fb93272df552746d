//! Dead letters that are published anew, and messages that were put aside, and come again.

use crate::node::Node;
use hapax_message::Described;
use hapax_rabbitmq::{Message, RabbitMq, RabbitMqOptions};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use std::sync::Arc;
use testkit::redriven::{Billing, POISON, ids};

fn id(message: &Message) -> Option<String> {
    message.id().and_then(|id| String::from_utf8(id.into_owned()).ok())
}

/// Returns headers that brokers have set by the time that somebody moves a message: they say how
/// often another queue has delivered it.
fn headers_of_brokers() -> FieldTable {
    let mut death = FieldTable::default();
    death.insert("queue".into(), AMQPValue::LongString("elsewhere".into()));
    death.insert("reason".into(), AMQPValue::LongString("delivery_limit".into()));
    death.insert("count".into(), AMQPValue::LongLongInt(1));
    let mut headers = FieldTable::default();
    headers.insert("x-death".into(), AMQPValue::FieldArray(vec![AMQPValue::FieldTable(death)].into()));
    headers.insert("x-delivery-count".into(), AMQPValue::LongLongInt(20));
    headers
}

/// As `rabbitmqctl` and the shovel do: each message as it is, from one queue to the other.
async fn move_dead_letters(node: &Node, queue: &str) {
    for _ in POISON {
        let delivery = node.dead_letter().await.expect("a dead letter").delivery;
        let mut headers = delivery.properties.headers().clone().unwrap_or_default();
        for (name, value) in headers_of_brokers().inner() {
            headers.insert(name.clone(), value.clone());
        }
        let payload = String::from_utf8(delivery.data).expect("text");
        node.publish_to(queue, &payload, delivery.properties.with_headers(headers)).await;
    }
}

async fn source_of(node: &Node, queue: &str) -> RabbitMq {
    let options = RabbitMqOptions::new(queue, &node.dead);
    RabbitMq::new(Arc::clone(&node.connection), options).await.expect("a source")
}

pub async fn poison_in_a_batch_is_put_aside_alone(node: Node) {
    for id in ids() {
        node.publish("an order", BasicProperties::default().with_message_id(id.into())).await;
    }
    let source = source_of(&node, &node.queue).await;
    Billing::new(id).await.handles_batches(&source).await;
    for _ in POISON {
        let dead: Message = node.dead_letter().await.expect("a dead letter").delivery.into();
        assert!(POISON.contains(&id(&dead).expect("an id").as_str()));
    }
    source.close().await.expect("closed");
    assert!(node.dead_letter().await.is_none(), "no further dead letter");
}

pub async fn a_dead_letter_that_is_published_anew_is_handled_by_the_same_consumer(node: Node) {
    node.declare("redriven-quorum", &[("x-queue-type", "quorum")]).await;
    for queue in [node.queue.as_str(), "redriven-quorum"] {
        for id in ids() {
            node.publish_to(queue, "an order", BasicProperties::default().with_message_id(id.into())).await;
        }
        let (source, billing) = (source_of(&node, queue).await, Billing::new(id).await);
        billing.handles_what_is_sent_anew(&source, move_dead_letters(&node, queue)).await;
        assert!(node.dead_letter().await.is_none(), "{queue}: no further dead letter");
        source.close().await.expect("closed");
    }
}

pub async fn a_message_that_was_put_aside_and_not_acknowledged_is_put_aside_again_unhandled(node: Node) {
    node.declare("repeated-quorum", &[("x-queue-type", "quorum")]).await;
    for queue in [node.queue.as_str(), "repeated-quorum"] {
        node.publish_to(queue, "an order", BasicProperties::default().with_message_id(POISON[0].into())).await;
        let source = source_of(&node, queue).await;
        Billing::new(id).await.puts_aside_again_what_is_repeated(&source, 2).await;
        source.close().await.expect("closed");
        let dead = [node.dead_letter().await, node.dead_letter().await, node.dead_letter().await];
        assert_eq!(dead.map(|dead| dead.is_some()), [true, true, false], "{queue}: there is a copy");
    }
}
