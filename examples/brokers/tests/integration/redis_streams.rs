//! Every order is added twice, and entries that a dead consumer had read are taken over.

use crate::directory::Directory;
use crate::killed::{Consumer, POISON, check_healed, seed};
use crate::servers::Redis;
use redis::streams::{StreamId, StreamInfoGroupsReply};
use redis::{Connection, TypedCommands, cmd};
use std::collections::BTreeSet;

const ORDERS: usize = 200;
const KILLS: usize = 5;
/// Eight are handled, and as many are being completed.
const IN_FLIGHT: usize = 16;

/// Returns how many entries of a stream its one group has read and not acknowledged, and how many
/// it has not read.
pub fn left(connection: &mut Connection, stream: &str) -> (usize, Option<usize>) {
    let groups: StreamInfoGroupsReply = cmd("XINFO").arg(&["GROUPS", stream]).query(connection).expect("groups");
    groups.groups.first().map_or((0, None), |group| (group.pending, group.lag))
}

#[test]
fn each_order_is_billed_once_also_by_whoever_takes_over() {
    let Some(redis) = Redis::start("redis_streams") else { return };
    let (directory, seed) = (Directory::new("redis_streams"), seed("redis_streams"));
    let ids: Vec<String> = (0..ORDERS).map(|number| format!("o-{number}")).collect();
    let mut connection = redis.connection().expect("a connection");
    for id in ids.iter().chain(&ids).map(String::as_str).chain([POISON]) {
        connection.xadd("orders", "*", &[("id", id)]).expect("added");
    }
    connection.xadd("orders", "*", &[("cents", "100")]).expect("added, without an id");

    let ledger = directory.file("ledger");
    let arguments = vec![redis.url(), "billing-1".into(), ledger.clone()];
    let log = directory.path().join("billing.log");
    let mut billing = Consumer::start(env!("CARGO_BIN_EXE_redis_streams"), arguments, &log, seed);
    billing.kill_at_random_and_in_an_outage(KILLS, ORDERS, &ledger);
    billing.await_until(|| left(&mut connection, "orders") == (0, Some(0)));
    let dead = connection.xrange_all("orders:dead").expect("what was put aside").ids;
    let id = |entry: &StreamId| entry.get::<String>("id");
    let expected = BTreeSet::from([None, Some(POISON.to_owned())]);
    assert_eq!(dead.iter().map(id).collect::<BTreeSet<_>>(), expected, "what fails is put aside, and what has no id");
    billing.heal(&ledger, || {
        for entry in dead.iter().filter(|entry| id(entry).is_some()) {
            let fields: Vec<_> =
                entry.map.keys().map(|name| (name, entry.get::<String>(name).expect("text"))).collect();
            connection.xadd("orders", "*", &fields).expect("added anew");
        }
    });
    billing.await_until(|| left(&mut connection, "orders") == (0, Some(0)));
    billing.stop();
    assert_eq!(connection.xlen("orders:dead"), Ok(dead.len()), "nothing is put aside any more");
    check_healed("redis_streams", &ids, &ledger, billing.kills, IN_FLIGHT);
}
