//! SQS in a campaign.

use super::queues::Queue;
use crate::directory::Directory;
use crate::servers::Redis;
use crate::sqs::{client, left};
use aws_sdk_sqs::Client;
use testkit::moto_server::MotoServer;
use tokio::runtime::Runtime;

pub struct Sqs {
    client: Client,
    queue: String,
    dead: String,
    runtime: Runtime,
    redis: Redis,
    moto: MotoServer,
}

impl Sqs {
    pub fn new(moto: MotoServer, redis: Redis, runtime: Runtime) -> Self {
        let client = client(&moto.url());
        let [queue, dead] = ["orders", "orders-dead"].map(|name| {
            runtime.block_on(client.create_queue().queue_name(name).send()).expect("a queue");
            format!("{}/123456789012/{name}", moto.url())
        });
        Sqs { client, queue, dead, runtime, redis, moto }
    }
}

impl Queue for Sqs {
    fn program(&self) -> &'static str {
        env!("CARGO_BIN_EXE_sqs")
    }

    fn arguments(&self, _: usize, directory: &Directory) -> Vec<String> {
        vec![self.moto.url(), self.redis.url(), directory.file("ledger")]
    }

    fn send(&mut self, ids: &[String]) {
        for id in ids {
            let body = format!("{{\"id\":\"{id}\"}}");
            let sent = self.client.send_message().queue_url(&self.queue).message_body(body).send();
            self.runtime.block_on(sent).expect("sent");
        }
    }

    /// As SQS's own redrive does: each is sent to its queue, and deleted.
    fn redrive(&mut self) -> Vec<String> {
        let mut ids = Vec::new();
        self.runtime.block_on(async {
            loop {
                let asked = self.client.receive_message().queue_url(&self.dead).max_number_of_messages(10);
                let letters = asked.send().await.expect("an answer").messages.unwrap_or_default();
                if letters.is_empty() {
                    return;
                }
                for letter in letters {
                    let body = letter.body.expect("a body");
                    ids.push(body.split('"').nth(3).expect("an id").to_owned());
                    let sent = self.client.send_message().queue_url(&self.queue).message_body(body);
                    sent.send().await.expect("sent");
                    let receipt = letter.receipt_handle.expect("a receipt");
                    let deleted = self.client.delete_message().queue_url(&self.dead).receipt_handle(receipt);
                    deleted.send().await.expect("deleted");
                }
            }
        });
        ids
    }

    fn left(&mut self) -> usize {
        self.runtime.block_on(left(&self.client, &self.queue))
    }
}
