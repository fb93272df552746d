//! A Redis cluster: slots that move, a node that is down.

use crate::store::*;
use hapax_redis::RedisOptions;
use hapax_store::*;
use hapax_testing::store::verify_store;
use std::time::Duration;
use testkit::redis_server::{Cluster, Server};
use testkit::stores::runtime;

#[test]
fn a_cluster_is_what_a_store_promises() {
    let Some(cluster) = installed(Cluster::start) else { return };
    // A node may be silent for a quarter of this longer than another: no stall of the machine is.
    let options = RedisOptions::cluster([&cluster.urls()[1]], "h").response_timeout(Duration::from_secs(60));
    runtime().block_on(verify_store(&OnServers { servers: &cluster.nodes, options })).unwrap();
    let keys: Vec<u64> = cluster.nodes.iter().map(|node| node.ask(&["DBSIZE"])).collect();
    assert!(keys.iter().all(|&keys| keys > 100), "ids are spread over the nodes: {keys:?}");
}

#[test]
fn slots_and_redirections_are_the_clusters() {
    let Some(cluster) = installed(Cluster::start) else { return };
    runtime().block_on(async {
        let store = connect(RedisOptions::cluster(cluster.urls(), "h")).await;
        let marks = |attempt: u64| (0..200).map(|i| mark_of(format!("{{a}}{i}"), attempt + i)).collect::<Vec<_>>();
        assert!(all(store.mark(&marks(0)).await).iter().all(|marked| *marked == Marked::Fresh));
        // Each request was answered by the owner of its slot, and none was redirected.
        let redirected = |node: &Server| node.ask::<String>(&["INFO", "errorstats"]).contains("MOVED");
        assert!(!cluster.nodes.iter().any(redirected), "the store's slots are not the cluster's");

        // While a slot moves, its keys are asked for where they are; then, where they have gone.
        let name = b"{}h:\0moving".to_vec();
        assert_eq!(one(store.mark(&[mark_of("moving", 7)]).await), Marked::Fresh);
        let holder = cluster.nodes.iter().position(|node| has(node, &name)).expect("a node has it");
        let (from, to) = (&cluster.nodes[holder], &cluster.nodes[(holder + 1) % 3]);
        let slot: u64 = ask_of_key(from, &["CLUSTER", "KEYSLOT"], &name);
        let slot = slot.to_string();
        let ids = [from, to].map(|node| node.ask::<String>(&["CLUSTER", "MYID"]));
        to.ask::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids[0]]);
        from.ask::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids[1]]);
        assert!(matches!(one(store.mark(&[mark_of("moving", 8)]).await), Marked::Duplicate { .. }));
        let to_port = to.address().port().to_string();
        let mut migrate = redis_cmd(&["MIGRATE", "127.0.0.1", &to_port]);
        ask_with::<String>(from, migrate.arg(&name).arg(0).arg(5_000));
        assert!(has(to, &name) && !has(from, &name));
        assert!(matches!(one(store.mark(&[mark_of("moving", 9)]).await), Marked::Duplicate { .. }));
        assert!(matches!(one(store.claim(&[claim_of("moving", 1)]).await), Claimed::Duplicate(_)));
        for node in [to, from] {
            node.ask::<()>(&["CLUSTER", "SETSLOT", &slot, "NODE", &ids[1]]);
        }
        assert!(matches!(one(store.claim(&[claim_of("moving", 2)]).await), Claimed::Duplicate(_)));
        assert_eq!(one(store.mark(&[mark_of("moving", 7)]).await), Marked::Fresh, "asked again");
        assert!(redirected(from));
    });
}

#[test]
fn a_node_that_is_down_fails_its_own_requests_only() {
    let Some(cluster) = installed(Cluster::start) else { return };
    runtime().block_on(async {
        let store = connect(RedisOptions::cluster(cluster.urls(), "h")).await;
        let marks: Vec<Mark> = (0..300).map(|i| mark_of(format!("{i}"), i)).collect();
        cluster.nodes[1].kill();
        let marked = store.mark(&marks).await.expect("two nodes are there");
        let (fresh, failed): (Vec<_>, Vec<_>) = marked.into_iter().partition(Result::is_ok);
        assert!(fresh.len() > 150 && failed.len() > 50, "{} fresh, {} failed", fresh.len(), failed.len());
        assert!(failed.into_iter().all(|answer| answer.is_err_and(|error| error.kind().is_transient())));
        cluster.nodes[1].start_again();
        let answered = async || store.mark(&marks).await.is_ok_and(|marked| marked.iter().all(Result::is_ok));
        eventually("the node is back", answered).await;
    });
}

#[test]
fn a_clusters_node_is_no_single_server() {
    let Some(cluster) = installed(Cluster::start) else { return };
    runtime().block_on(async {
        let store = connect(RedisOptions::single(cluster.nodes[0].url(), "h")).await;
        let marks: Vec<Mark> = (0..50).map(|i| mark_of(format!("{i}"), i)).collect();
        assert_eq!(store.mark(&marks).await.unwrap_err().kind(), ErrorKind::Misconfigured);
    });
}

fn ask_of_key<A: redis::FromRedisValue>(server: &Server, words: &[&str], key: &[u8]) -> A {
    ask_with(server, redis_cmd(words).arg(key))
}

/// (`KEYS` does not care whose slot it is.)
fn has(server: &Server, key: &[u8]) -> bool {
    let keys: Vec<Vec<u8>> = server.ask(&["KEYS", "*"]);
    keys.iter().any(|other| other == key)
}
