//! The servers that there are: with a password, encrypted, behind Sentinels, in a cluster.

use super::{IDLE, add, ids, receive};
use crate::store::installed;
use hapax_redis::{RedisOptions, RedisStream, RedisStreamError, RedisStreamOptions};
use hapax_stream::Source;
use std::time::{Duration, Instant};
use testkit::redis_server::{Cluster, Server, Watched, is_missing};

/// A consumer whose entries are nobody else's, for however long a busy machine stands still.
fn options(consumer: &str) -> RedisStreamOptions {
    super::options(consumer).idle(Duration::from_secs(600))
}

/// Receives, gives back, puts aside and acknowledges.
async fn all_is_done(stream: &RedisStream) {
    let entries = receive(stream, 2).await;
    stream.retry(&entries[0], IDLE / 2).await.expect("given back");
    let again = receive(stream, 1).await;
    assert_eq!(ids(&again), ids(&entries[..1]));
    stream.extend(&entries).await.expect("extended");
    stream.dead_letter(&entries[1], "why").await.expect("put aside");
    stream.acknowledge(&entries).await.expect("acknowledged");
    assert_eq!(stream.lag().await.expect("a lag").pending, 0);
}

#[tokio::test]
async fn a_password_is_that_of_the_url() {
    let Some(server) = installed(|| Server::start_on_loopback(&["--requirepass", "secret"])) else { return };
    let url = |password: &str| RedisOptions::single(format!("redis://:{password}@{}", server.address()), "test");
    let refused = RedisStream::connect(url("wrong"), options("one")).await.map(drop);
    assert!(matches!(&refused, Err(RedisStreamError::Server { .. })), "{refused:?}");
    let stream = RedisStream::connect(url("secret"), options("one")).await.expect("a stream");
    let client = redis::Client::open(format!("redis://:secret@{}", server.address())).expect("a client");
    let mut connection = client.get_connection().expect("a connection");
    for id in ["o-0", "o-1"] {
        redis::cmd("XADD").arg(&["orders", "*", "id", id]).query::<String>(&mut connection).expect("added");
    }
    all_is_done(&stream).await;
    assert!(!format!("{stream:?}").contains("secret"));
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn connections_are_encrypted() {
    use testkit::redis_server::Certificate;
    if is_missing() {
        return;
    }
    let Some(certificate) = Certificate::make() else { return testkit::skipped_without("openssl", "openssl") };
    let Some(server) = Server::start_encrypted(&certificate) else {
        return testkit::skipped("encrypted connections: this redis-server knows none (Debian: redis-server)");
    };
    let redis = RedisOptions::single(server.encrypted_url(), "test").root_certificate(certificate.root_pem());
    let stream = RedisStream::connect(redis, options("one")).await.expect("a stream");
    add(&server, 0..2);
    all_is_done(&stream).await;
}

#[tokio::test]
async fn a_cluster_has_the_stream_in_one_slot_and_its_dead_letters_in_another() {
    let Some(cluster) = installed(Cluster::start) else { return };
    let redis = RedisOptions::cluster(cluster.urls(), "test");
    let stream = RedisStream::connect(redis.clone(), options("one")).await.expect("a stream");
    // (A node answers for its own slots only.)
    let added = |words: &[&str]| {
        let mut tried = cluster.nodes.iter().map(|node| node.try_ask::<redis::Value>(words));
        tried.any(|answer| answer.is_ok())
    };
    for id in ["o-0", "o-1"] {
        assert!(added(&["XADD", "orders", "*", "id", id]));
    }
    all_is_done(&stream).await;
    assert!(added(&["XRANGE", "orders:dead", "-", "+"]), "dead letters are there");

    let tagged = RedisStreamOptions::new("{orders}:in", "billing", "one").dead_letters("{orders}:dead");
    let tagged = tagged.idle(Duration::from_secs(600));
    let stream = RedisStream::connect(redis, tagged).await.expect("a stream");
    for id in ["o-0", "o-1"] {
        assert!(added(&["XADD", "{orders}:in", "*", "id", id]));
    }
    all_is_done(&stream).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_takes_over_is_found_by_its_sentinels() {
    let Some(watched) = installed(Watched::start) else { return };
    let master = format!("redis://{}/0", Watched::MASTER);
    let redis = RedisOptions::sentinel(master, watched.sentinel_urls(), "test");
    let stream = RedisStream::connect(redis, options("one")).await.expect("a stream");
    add(&watched.master, 0..2);
    all_is_done(&stream).await;
    add(&watched.master, 2..4);
    let began = Instant::now();
    while watched.replica.ask::<u32>(&["XLEN", "orders"]) < 4 {
        assert!(began.elapsed() < testkit::processes::PATIENCE, "it is not replicated");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    watched.master.kill();
    let mut entries = ids(&receive(&stream, 2).await);
    entries.sort();
    assert_eq!(entries, ["o-2", "o-3"], "from the one that was the replica");
}
