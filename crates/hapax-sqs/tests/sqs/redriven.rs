//! Dead letters that are sent anew, and messages that were put aside, and come again.

use crate::server::Server;
use aws_sdk_sqs::types::MessageSystemAttributeName::MessageGroupId;
use hapax_sqs::Message;
use std::collections::BTreeSet;
use testkit::redriven::{Billing, POISON, ids};

/// (A consumer of a FIFO queue that took the deduplication id instead would have another one.)
fn id(message: &Message) -> Option<String> {
    message.body().map(str::to_owned)
}

impl Server {
    /// Sends a message; to a FIFO queue with a group and a deduplication id of its own.
    async fn send_as(&self, group: &str, deduplication_id: &str, id: &str) {
        let mut send = self.client.send_message().queue_url(&self.queue).message_body(id);
        if self.queue.ends_with(".fifo") {
            send = send.message_group_id(group).message_deduplication_id(deduplication_id);
        }
        send.send().await.expect("sent");
    }

    /// Receives each dead letter, sends it to its queue, and deletes it. To a FIFO queue it is sent
    /// with another deduplication id than the first time: SQS drops copies for five minutes.
    async fn move_dead_letters(&self) {
        for _ in POISON {
            // (One at a time, as SQS may answer with fewer than there are.)
            let letter = self.dead_letter().await;
            let group = letter.attributes.as_ref().and_then(|attributes| attributes.get(&MessageGroupId));
            let moved = letter.message_id().expect("an id");
            self.send_as(group.map_or("", String::as_str), moved, letter.body().expect("a body")).await;
            let receipt = letter.receipt_handle().expect("a receipt");
            self.client.delete_message().queue_url(&self.dead).receipt_handle(receipt).send().await.expect("deleted");
        }
    }

    async fn dead_letter(&self) -> aws_sdk_sqs::types::Message {
        let asked = self.client.receive_message().queue_url(&self.dead).message_system_attribute_names(MessageGroupId);
        let answer = asked.send().await.expect("an answer");
        answer.messages.unwrap_or_default().pop().expect("a dead letter")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn poison_in_a_batch_is_put_aside_alone() {
    let Some(server) = Server::start("sqs_poison", "").await else { return };
    for id in ids() {
        server.send_as("", "", &id).await;
    }
    Billing::new(id).await.handles_batches(&server.source().await).await;
    let dead: BTreeSet<String> = server.dead_letters().await.iter().filter_map(|it| it.body.clone()).collect();
    assert_eq!((dead, server.left().await), (POISON.map(str::to_owned).into(), [0, 0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_that_is_sent_anew_is_handled_by_the_same_consumer() {
    for suffix in ["", ".fifo"] {
        let Some(server) = Server::start("sqs_redriven", suffix).await else { return };
        for id in ids() {
            server.send_as(&format!("of-{id}"), &id, &id).await;
        }
        let (source, billing) = (server.source().await, Billing::new(id).await);
        billing.handles_what_is_sent_anew(&source, server.move_dead_letters()).await;
        assert!(server.dead_letters().await.is_empty(), "no further dead letter");
        assert_eq!(server.left().await, [0, 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_put_aside_and_not_deleted_is_put_aside_again_unhandled() {
    for suffix in ["", ".fifo"] {
        let Some(server) = Server::start("sqs_repeated", suffix).await else { return };
        server.send_as("a", POISON[0], POISON[0]).await;
        let source = server.source().await;
        Billing::new(id).await.puts_aside_again_what_is_repeated(&source, 1).await;
        assert_eq!((server.dead_letters().await.len(), server.left().await), (1, [0, 0]), "{suffix}: it is there once");
    }
}
