//! A server of a test's own, with queues.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{Credentials, Region, SharedHttpClient};
use aws_sdk_sqs::types::QueueAttributeName;
use hapax_sqs::{Message, Sqs, SqsOptions};
use hapax_stream::Source;
use std::sync::Arc;
use std::time::Duration;
use testkit::moto_server::MotoServer;
use testkit::shared::Shared;

pub struct Server {
    _moto: Arc<MotoServer>,
    pub client: Client,
    pub queue: String,
    pub dead: String,
}

/// Returns a client of a server on loopback.
pub fn client(endpoint: &str, http: SharedHttpClient) -> Client {
    let config = aws_sdk_sqs::Config::builder()
        .endpoint_url(endpoint)
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("nobody", "nothing", None, None, "loopback"))
        .retry_config(aws_sdk_sqs::config::retry::RetryConfig::disabled())
        .http_client(http);
    Client::from_conf(config.behavior_version_latest().build())
}

impl Server {
    /// Makes a queue of the test's own, and one for dead letters, on the server of all tests; none,
    /// loudly, if there is no moto.
    pub async fn start(test: &str, suffix: &str) -> Option<Server> {
        static MOTO: Shared<MotoServer> = Shared::new();
        let moto = MOTO.get(MotoServer::start)?;
        let client = client(&moto.url(), aws_smithy_http_client::Builder::new().build_http());
        let mut urls = Vec::new();
        for name in ["orders", "dead"] {
            let mut queue = client.create_queue().queue_name(format!("{test}-{name}{suffix}"));
            if suffix == ".fifo" {
                queue = queue.attributes(QueueAttributeName::FifoQueue, "true");
            }
            let created = queue.send().await.expect("a queue");
            urls.push(created.queue_url().expect("its URL").to_owned());
        }
        let dead = urls.pop().expect("two");
        Some(Server { _moto: moto, client, queue: urls.remove(0), dead })
    }

    pub fn options(&self) -> SqsOptions {
        // Nothing comes again because a machine is slow.
        let options = SqsOptions::new(&self.queue, &self.dead).visibility(Duration::from_secs(3_600));
        options.wait(Duration::from_secs(1)).outage(Duration::from_secs(60))
    }

    pub async fn source(&self) -> Sqs {
        Sqs::new(self.client.clone(), self.options()).await.expect("a source")
    }

    /// Returns the number of messages that are visible, and of those that are hidden.
    pub async fn left(&self) -> [usize; 2] {
        use QueueAttributeName::{ApproximateNumberOfMessages, ApproximateNumberOfMessagesNotVisible};
        let names = [ApproximateNumberOfMessages, ApproximateNumberOfMessagesNotVisible];
        let asked = self.client.get_queue_attributes().queue_url(&self.queue).set_attribute_names(Some(names.to_vec()));
        let counts = asked.send().await.expect("an answer").attributes.expect("counts");
        names.map(|name| counts[&name].parse().expect("a number"))
    }

    /// Takes what was put aside.
    pub async fn dead_letters(&self) -> Vec<aws_sdk_sqs::types::Message> {
        let asked = self.client.receive_message().queue_url(&self.dead).max_number_of_messages(10);
        let asked = asked.message_attribute_names("All");
        let asked = asked.message_system_attribute_names(aws_sdk_sqs::types::MessageSystemAttributeName::All);
        asked.send().await.expect("an answer").messages.unwrap_or_default()
    }
}

/// Receives until there are this many messages.
pub async fn receive(source: &Sqs, messages: usize) -> Vec<Arc<Message>> {
    let mut received = Vec::new();
    while received.len() < messages {
        let more = source.receive(messages - received.len()).await.expect("received").expect("more");
        received.extend(more.into_iter().map(Arc::new));
    }
    received
}
