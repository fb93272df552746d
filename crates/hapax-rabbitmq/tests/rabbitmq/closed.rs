//! Channels, queues and connections that are closed at the worst moment.

use crate::node::{Node, payload, receive};
use hapax_rabbitmq::{RabbitMq, RabbitMqError};
use hapax_stream::Source;
use lapin::options::{BasicAckOptions, QueueDeleteOptions};
use lapin::{BasicProperties, Connection, ConnectionProperties};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

fn plain() -> BasicProperties {
    BasicProperties::default()
}

pub async fn a_channel_that_the_broker_closes_is_opened_again(node: Node) {
    let source = node.source().await;
    for text in ["0", "1", "2"] {
        node.publish(text, plain()).await;
    }
    let messages = receive(&source, 3).await;
    // An acknowledgement of what is acknowledged is an error, for which the broker closes the
    // channel, as when `consumer_timeout` has passed.
    messages[1].acker.ack(BasicAckOptions { multiple: true }).await.unwrap();
    source.acknowledge(&messages[..1]).await.unwrap();
    let again = receive(&source, 1).await;
    assert_eq!((payload(&again[0]), source.deliveries(&again[0])), ("2", Some(2)));
    // What belonged to the closed channel cannot be acknowledged, nor given back, and that is no
    // error.
    source.acknowledge(&messages).await.unwrap();
    source.retry(&messages[2], Duration::ZERO).await.unwrap();
    source.acknowledge(&again).await.unwrap();
    node.publish("3", plain()).await;
    assert_eq!(payload(&receive(&source, 1).await[0]), "3");
}

pub async fn a_queue_that_comes_back_is_waited_for(node: Node) {
    let source = RabbitMq::new(Arc::clone(&node.connection), node.options().outage(Duration::from_secs(60))).await;
    let source = source.unwrap();
    let comes_back = async {
        node.channel.queue_delete(node.queue.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        node.declare(&node.queue, &[]).await;
        node.publish("order", plain()).await;
    };
    let (received, ()) = tokio::join!(receive(&source, 1), comes_back);
    assert_eq!(payload(&received[0]), "order");
}

pub async fn a_queue_that_stays_away_is_an_error_after_the_limit(node: Node) {
    let source = node.source().await;
    node.channel.queue_delete(node.queue.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
    let began = Instant::now();
    match source.receive(1).await {
        Err(RabbitMqError::QueueNotFound { queue }) => assert_eq!(queue, node.queue),
        other => panic!("{other:?}"),
    }
    assert!(began.elapsed() < testkit::processes::PATIENCE, "{:?}", began.elapsed());
}

pub async fn a_closed_connection_is_an_error_at_once(node: Node) {
    let options = node.options().outage(Duration::from_secs(3_600));
    let source = RabbitMq::new(Arc::clone(&node.connection), options).await.unwrap();
    node.publish("order", plain()).await;
    let messages = receive(&source, 1).await;
    node.connection.close(200, "".into()).await.unwrap();
    let began = Instant::now();
    let received = source.receive(1).await;
    assert!(matches!(received, Err(RabbitMqError::ConnectionClosed)), "{received:?}");
    let put_aside = source.dead_letter(&messages[0], "it failed").await;
    assert!(matches!(put_aside, Err(RabbitMqError::ConnectionClosed)), "{put_aside:?}");
    assert!(began.elapsed() < testkit::processes::PATIENCE, "{:?}", began.elapsed());
    // The broker has it.
    source.acknowledge(&messages).await.unwrap();
    source.close().await.unwrap();
}

pub async fn a_connection_that_recovers_goes_on(node: Node) {
    let wire = Wire::to(&node.url).await;
    let properties = ConnectionProperties::default().enable_auto_recover();
    let connection = Arc::new(Connection::connect(&wire.url, properties).await.expect("a connection"));
    let source = RabbitMq::new(Arc::clone(&connection), node.options().outage(Duration::from_secs(60))).await.unwrap();
    for text in ["handled", "waiting"] {
        node.publish(text, plain()).await;
    }
    let before = receive(&source, 1).await;
    let (again, ()) = tokio::join!(receive(&source, 3), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        wire.cut();
        tokio::time::sleep(Duration::from_millis(300)).await;
        node.publish("later", plain()).await;
    });
    // "waiting" may have come before the cut; the broker delivers it again all the same.
    source.acknowledge(&before).await.unwrap();
    let mut again: Vec<String> = again.iter().map(|message| payload(message).to_owned()).collect();
    if again[0] == "waiting" {
        again.push(payload(&receive(&source, 1).await[0]).to_owned());
    }
    again.sort();
    again.dedup();
    assert_eq!(again, ["handled", "later", "waiting"]);
}

pub async fn a_connection_that_breaks_is_an_error(node: Node) {
    let wire = Wire::to(&node.url).await;
    let connection = Connection::connect(&wire.url, ConnectionProperties::default()).await.expect("a connection");
    let source = RabbitMq::new(Arc::new(connection), node.options()).await.unwrap();
    let (received, ()) = tokio::join!(source.receive(1), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        wire.cut();
    });
    assert!(matches!(received, Err(RabbitMqError::ConnectionClosed)), "{received:?}");
}

/// A way to a node that can be cut.
struct Wire {
    url: String,
    open: Arc<Mutex<JoinSet<()>>>,
    _listening: JoinSet<()>,
}

impl Wire {
    async fn to(url: &str) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("the address that was bound").port();
        let (from, rest) = url.split_at("amqp://127.0.0.1:".len());
        let (node_port, rest) = rest.split_at(rest.find('/').expect("a virtual host"));
        let url = format!("{from}{port}{rest}");
        let node = format!("127.0.0.1:{node_port}");
        let open = Arc::new(Mutex::new(JoinSet::new()));
        let (mut listening, connections) = (JoinSet::new(), Arc::clone(&open));
        listening.spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut server = TcpStream::connect(&node).await.expect("the node");
                connections.lock().unwrap().spawn(async move {
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Wire { url, open, _listening: listening }
    }

    fn cut(&self) {
        *self.open.lock().unwrap() = JoinSet::new();
    }
}
