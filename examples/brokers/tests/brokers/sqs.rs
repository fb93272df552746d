//! Every order is sent twice, comes again if it was received and not deleted in time, and sometimes
//! at once.

use crate::directory::Directory;
use crate::killed::{Consumer, POISON, check_effects, effects, seed};
use crate::queue::Queues;
use crate::servers::Redis;
use hapax_brokers::ledger;
use tokio::runtime::Runtime;

const ORDERS: usize = 150;
const KILLS: usize = 4;
/// Eight are handled, and as many are being completed.
const IN_FLIGHT: usize = 16;

#[test]
fn each_order_is_billed_once_however_often_it_becomes_visible() {
    let Some(redis) = Redis::start("sqs") else { return };
    let (directory, seed, runtime) = (Directory::new("sqs"), seed("sqs"), Runtime::new().expect("a runtime"));
    let queues = Queues::new(&["orders", "orders-dead"], seed);
    let ids: Vec<String> = (0..ORDERS).map(|number| format!("o-{number}")).collect();
    for id in ids.iter().chain(&ids) {
        queues.send("orders", &format!("{{\"id\":\"{id}\",\"cents\":100}}"));
    }

    let poison = format!("{{\"id\":\"{POISON}\"}}");
    // These messages fail, or cannot be read.
    let dead = ["not json", "", "{\"cents\":100}", &poison];
    dead.iter().for_each(|body| queues.send("orders", body));

    let ledger = directory.file("ledger");
    let arguments = vec![queues.serve(&runtime), redis.url(), ledger.clone()];
    let log = directory.path().join("billing.log");
    let mut billing = Consumer::start(env!("CARGO_BIN_EXE_sqs"), arguments, &log, seed);
    billing.kill_at_random(KILLS, ORDERS, || effects(&ledger));
    billing.await_until(|| queues.left("orders").is_empty());
    billing.stop();
    let put_aside: std::collections::BTreeSet<String> = queues.left("orders-dead").into_iter().collect();
    // A message that was put aside when its consumer was killed is put aside again.
    assert_eq!(put_aside, dead.iter().map(|body| (*body).to_owned()).collect());
    check_effects("sqs", &ids, &ledger::count(&ledger).expect("a ledger"), billing.kills, IN_FLIGHT);
}
