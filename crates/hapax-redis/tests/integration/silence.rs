//! Servers that do not answer: connections that fell silent, a node of a cluster that hangs.

use crate::store::*;
use hapax_redis::RedisOptions;
use hapax_store::{TieredDedup, *};
use std::time::Instant;
use testkit::proxy::Proxy;
use testkit::redis_server::{Cluster, Server};
use testkit::stores::runtime;
use tokio::task::JoinSet;

#[test]
fn a_connection_that_fell_silent_is_replaced() {
    let Some(server) = installed(|| Server::start_on_loopback(&[])) else { return };
    runtime().block_on(async {
        let proxy = Proxy::to(server.address()).await;
        // All as it is by default.
        let store = connect(RedisOptions::single(format!("redis://{}", proxy.address()), "h")).await;
        let dedup = TieredDedup::builder(store).build().await.expect("an engine");
        for number in 0..8 {
            assert!(dedup.check(format!("before {number}")).await.expect("an answer").is_fresh());
        }
        proxy.silence();
        let (began, mut failed) = (Instant::now(), 0);
        while dedup.check(format!("after {failed}")).await.is_err() {
            failed += 1;
            assert!(
                began.elapsed() < testkit::processes::PATIENCE,
                "{failed} calls failed, and no new connection was made"
            );
        }
        println!("replaced after {:?}, {failed} calls failed", began.elapsed());
        for number in 0..8 {
            assert!(dedup.check(format!("then {number}")).await.expect("an answer").is_fresh());
        }
    });
}

#[test]
fn a_node_that_hangs_keeps_nobody_from_the_others() {
    let Some(cluster) = installed(Cluster::start) else { return };
    runtime().block_on(async {
        let store = std::sync::Arc::new(connect(RedisOptions::cluster(cluster.urls(), "h")).await);
        let dedup = TieredDedup::builder(std::sync::Arc::clone(&store)).build().await.expect("an engine");
        let is_of_hung = |id: &str| slot(id) <= 5_460;
        cluster.nodes[0].pause();
        let ids: Vec<String> = (0..320).map(|number| format!("id {number}")).collect();
        let began = Instant::now();
        answered(&dedup, &ids, is_of_hung).await;
        println!("answered in {:?}", began.elapsed());

        // Another process starts meanwhile, whichever node it is told of first.
        let began = Instant::now();
        let another = connect(RedisOptions::cluster(cluster.urls(), "h")).await;
        println!("connected in {:?}", began.elapsed());
        let another = TieredDedup::builder(another).build().await.expect("an engine");
        let ids: Vec<String> = (0..320).map(|number| format!("another {number}")).collect();
        answered(&another, &ids, is_of_hung).await;

        cluster.nodes[0].resume();
        eventually("the node is back", async || {
            let ids = ids.iter().filter(|id| is_of_hung(id));
            dedup.check_batch(ids).await.iter().all(Result::is_ok)
        })
        .await;
    });
}

/// Checks ids, 32 at a time: those that do not belong to the node that hangs are answered.
async fn answered<S: Store>(dedup: &TieredDedup<S>, ids: &[String], is_of_hung: impl Fn(&str) -> bool) {
    for some in ids.chunks(32) {
        let mut asked = JoinSet::new();
        for id in some {
            let (dedup, id) = (dedup.clone(), id.clone());
            asked.spawn(async move { (dedup.check(&id).await, id) });
        }
        for (verdict, id) in asked.join_all().await {
            if !is_of_hung(&id) {
                assert!(verdict.unwrap_or_else(|error| panic!("{id}: {error}")).is_fresh());
            }
        }
    }
}

/// Returns the slot of an id's key: CRC-16 (XMODEM), a bit at a time.
pub fn slot(id: &str) -> u16 {
    let key = [b"{}h:\0".as_slice(), id.as_bytes()].concat();
    let crc = key.iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| crc << 1 ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 })
    });
    crc % 16_384
}
