//! Publishers of a relay: stored before it is done, in the key's order, and given up only when
//! another attempt cannot help.

use crate::source::{Cluster, cluster, config, receive};
use hapax_kafka::{
    KafkaMessage, KafkaOptions, KafkaPublisher, KafkaSource, KafkaSourceError, TransactionalKafkaPublisher,
};
use hapax_message::{Described, GiveUp, Message, Publisher};
use rdkafka::ClientConfig;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use std::sync::Arc;

fn settings(cluster: &Cluster) -> ClientConfig {
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", cluster.bootstrap_servers()).set("linger.ms", "0");
    settings
}

fn message(id: &str) -> Message {
    let mut message = Message::new("orders", id, format!("payload of {id}"));
    message.key = Some(b"order-17".to_vec());
    message.headers.push(("tenant".into(), "a".into()));
    message
}

async fn read(cluster: &Cluster, messages: usize) -> Vec<Arc<KafkaMessage>> {
    let mut readers = config(cluster, "readers");
    readers.set("isolation.level", "read_committed");
    let source = KafkaSource::subscribe(&readers, &["orders"], KafkaOptions::new()).expect("a member");
    let received = receive(&source, messages).await;
    source.close().await;
    received
}

fn ids(messages: &[Arc<KafkaMessage>]) -> Vec<String> {
    messages.iter().map(|message| String::from_utf8(message.id().unwrap().into_owned()).unwrap()).collect()
}

fn given_up(answers: &[Result<(), hapax_message::BoxError>]) -> Vec<bool> {
    answers.iter().map(|answer| answer.as_ref().is_err_and(|error| error.is::<GiveUp>())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_is_stored_with_its_id_key_and_headers() {
    let cluster = cluster(&[("orders", 0)]);
    let publisher = KafkaPublisher::new(&settings(&cluster)).unwrap();
    for id in ["o-1", "o-2"] {
        publisher.publish(&message(id)).await.unwrap();
    }
    let mut too_large = message("o-3");
    too_large.payload = vec![0; 2 << 20];
    let nowhere = Message::new("no\0topic", "o-4", "x");
    let answers = publisher.publish_batch(&[too_large, nowhere, message("o-5")]).await.unwrap();
    assert_eq!((given_up(&answers), answers[2].is_ok()), (vec![true, true, false], true), "{answers:?}");
    let received = read(&cluster, 3).await;
    assert_eq!(ids(&received), ["o-1", "o-2", "o-5"], "in the order of their key");
    assert!(received.iter().all(|message| message.key() == Some(b"order-17") && message.header("tenant") == Some("a")));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_broker_refuses_for_now_is_tried_again_and_for_good_is_given_up() {
    let cluster = cluster(&[("orders", 0)]);
    let mut settings = settings(&cluster);
    settings.set("message.timeout.ms", "120000");
    let publisher = KafkaPublisher::new(&settings).unwrap();
    for (refusal, expected) in [
        (RDKafkaRespErr::RD_KAFKA_RESP_ERR_POLICY_VIOLATION, false),
        (RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, true),
    ] {
        cluster.request_errors(RDKafkaApiKey::Produce, &[refusal]);
        let answer = publisher.publish(&message("o-1")).await;
        assert_eq!(given_up(std::slice::from_ref(&answer)), [expected], "{refusal:?}: {answer:?}");
    }
    publisher.publish(&message("o-1")).await.expect("stored, since nobody refuses it now");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_published_whole_or_not_at_all() {
    let cluster = cluster(&[("orders", 0)]);
    let mut settings = settings(&cluster);
    settings.set("transactional.id", "orders-relay-1");
    let publisher = TransactionalKafkaPublisher::new(&settings).unwrap();
    let mut too_large = message("o-2");
    too_large.payload = vec![0; 2 << 20];
    let answers = publisher.publish_batch(&[message("o-1"), too_large, message("o-3")]).await.unwrap();
    assert_eq!(given_up(&answers), [false, true, false], "{answers:?}");
    assert!(answers[0].is_ok() && answers[2].is_ok(), "the client has refused it: it was not sent");

    cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_POLICY_VIOLATION]);
    let answers = publisher.publish_batch(&[message("o-4"), message("o-5")]).await.unwrap();
    assert!(answers.iter().all(Result::is_err), "{answers:?}");
    publisher.publish(&message("o-6")).await.expect("another transaction");
    let received = ids(&read(&cluster, 3).await);
    // (The imitation does not hide what was aborted, and that was refused before it was stored.)
    assert_eq!(received, ["o-1", "o-3", "o-6"]);
}

#[test]
fn settings_that_would_lose_messages_are_named() {
    let with = |name: &str, value: &str| {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", "127.0.0.1:1").set(name, value);
        let error = KafkaPublisher::new(&config).expect_err(name);
        assert!(
            matches!(&error, KafkaSourceError::Setting { name: named, got, .. } if *named == name && got == value),
            "{error}"
        );
    };
    with("acks", "1");
    with("enable.idempotence", "false");
    with("transactional.id", "orders");
    let error = TransactionalKafkaPublisher::new(&ClientConfig::new()).expect_err("no id");
    assert!(error.to_string().contains("`transactional.id`"), "{error}");
}
