//! A consumer that marks on sight is killed, and killed while it has the whole stream; every entry
//! has its effect, and few have two.

use crate::directory::Directory;
use crate::killed::{Consumer, POISON, check_effects, effects, seed};
use crate::redis_streams::left;
use crate::servers::Redis;
use hapax_brokers::ledger;
use redis::TypedCommands;

const CLICKS: usize = 400;
const KILLS: usize = 3;
/// Two batches: the one that was being made durable, and the next one.
const BETWEEN_CHECKPOINTS: usize = 64;

#[test]
fn each_click_is_counted_and_few_are_counted_again() {
    let Some(redis) = Redis::start("redis_streams_log") else { return };
    let (directory, seed) = (Directory::new("redis_streams_log"), seed("redis_streams_log"));
    let ids: Vec<String> = (0..CLICKS).map(|number| format!("c-{number}")).collect();
    let mut connection = redis.connection().expect("a connection");
    for id in ids.iter().chain(&ids).map(String::as_str).chain([POISON]) {
        connection.xadd("clicks", "*", &[("id", id)]).expect("added");
    }
    let [journal, ledger] = ["journal", "ledger.txt"].map(|name| directory.file(name));
    let arguments = vec![redis.url(), "clicks".into(), journal, ledger.clone()];
    let log = directory.path().join("consumer.log");
    let mut consumer = Consumer::start(env!("CARGO_BIN_EXE_redis_streams_log"), arguments, &log, seed);
    consumer.kill_at_random(KILLS, CLICKS, || effects(&ledger));
    consumer.await_until(|| left(&mut connection, "clicks") == (0, Some(0)));
    consumer.stop();
    assert_eq!(connection.xlen("clicks:dead").expect("what was put aside"), 1, "what fails is put aside");
    let counts = ledger::count(&ledger).expect("effects");
    check_effects("redis_streams_log", &ids, &counts, consumer.kills, BETWEEN_CHECKPOINTS);
}
