//! Every order is sent twice, and comes again if it was received and not deleted in time.

use crate::directory::Directory;
use crate::killed::{Consumer, POISON, check_healed, seed};
use crate::servers::Redis;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{Credentials, Region};
use aws_sdk_sqs::types::QueueAttributeName;
use testkit::moto_server::MotoServer;
use tokio::runtime::Runtime;

const ORDERS: usize = 150;
const KILLS: usize = 4;
/// Eight are handled, and as many are being completed.
const IN_FLIGHT: usize = 16;

pub fn client(endpoint: &str) -> Client {
    let config = aws_sdk_sqs::Config::builder()
        .endpoint_url(endpoint)
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("nobody", "nothing", None, None, "loopback"))
        .http_client(aws_smithy_http_client::Builder::new().build_http());
    Client::from_conf(config.behavior_version_latest().build())
}

/// Returns the number of messages that are visible or hidden.
pub async fn left(client: &Client, url: &str) -> usize {
    use QueueAttributeName::{ApproximateNumberOfMessages as Visible, ApproximateNumberOfMessagesNotVisible as Hidden};
    let asked = client.get_queue_attributes().queue_url(url).attribute_names(Visible).attribute_names(Hidden);
    let answer = asked.send().await.expect("an answer");
    let counts = answer.attributes.unwrap_or_default();
    [Visible, Hidden].iter().map(|name| counts[name].parse::<usize>().expect("a number")).sum()
}

/// Takes all messages out of a queue. Returns their bodies.
async fn taken(client: &Client, url: &str) -> Vec<String> {
    let mut bodies = Vec::new();
    loop {
        let answer =
            client.receive_message().queue_url(url).max_number_of_messages(10).send().await.expect("an answer");
        let messages = answer.messages.unwrap_or_default();
        if messages.is_empty() {
            return bodies;
        }
        bodies.extend(messages.into_iter().filter_map(|message| message.body));
    }
}

#[test]
fn each_order_is_billed_once_however_often_it_becomes_visible() {
    let (Some(moto), Some(redis)) = (MotoServer::start(), Redis::start("sqs")) else { return };
    let (directory, seed, runtime) = (Directory::new("sqs"), seed("sqs"), Runtime::new().expect("a runtime"));
    let client = client(&moto.url());
    let [queue, dead_queue] = ["orders", "orders-dead"].map(|name| {
        runtime.block_on(client.create_queue().queue_name(name).send()).expect("a queue");
        format!("{}/123456789012/{name}", moto.url())
    });
    let send = |body: &str| {
        let sent = client.send_message().queue_url(&queue).message_body(body).send();
        runtime.block_on(sent).expect("sent");
    };
    let ids: Vec<String> = (0..ORDERS).map(|number| format!("o-{number}")).collect();
    for id in ids.iter().chain(&ids) {
        send(&format!("{{\"id\":\"{id}\",\"cents\":100}}"));
    }

    let poison = format!("{{\"id\":\"{POISON}\"}}");
    // These messages fail, or cannot be read.
    let dead = ["not json", "{}", "{\"cents\":100}", &poison];
    dead.iter().for_each(|body| send(body));

    let ledger = directory.file("ledger");
    let arguments = vec![moto.url(), redis.url(), ledger.clone()];
    let log = directory.path().join("billing.log");
    let mut billing = Consumer::start(env!("CARGO_BIN_EXE_sqs"), arguments, &log, seed);
    billing.kill_at_random_and_in_an_outage(KILLS, ORDERS, &ledger);
    // (The queue's two counts are taken one after the other: what becomes visible between them is
    // in neither.)
    billing.await_until(|| {
        let letters = runtime.block_on(left(&client, &dead_queue));
        letters >= dead.len() && runtime.block_on(left(&client, &queue)) == 0
    });
    let put_aside: std::collections::BTreeSet<String> =
        runtime.block_on(taken(&client, &dead_queue)).into_iter().collect();
    // A message that was put aside when its consumer was killed is put aside again.
    assert_eq!(put_aside, dead.iter().map(|body| (*body).to_owned()).collect());
    let letters = runtime.block_on(left(&client, &dead_queue));
    billing.heal(&ledger, || send(&poison));
    billing.await_until(|| runtime.block_on(left(&client, &queue)) == 0);
    billing.stop();
    assert_eq!(runtime.block_on(left(&client, &dead_queue)), letters, "nothing is put aside any more");
    check_healed("sqs", &ids, &ledger, billing.kills, IN_FLIGHT);
}
