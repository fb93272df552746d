//! Masters that become replicas, replicas that become masters, and Sentinels that report the roles.

use crate::silence::slot;
use crate::store::*;
use hapax_redis::{RedisOptions, RedisStore};
use hapax_store::*;
use std::time::{Duration, Instant};
use testkit::processes::PATIENCE;
use testkit::proxy::Proxy;
use testkit::redis_server::{Cluster, Server, Watched, follow, is_missing, pair};
use testkit::stores::runtime;

#[test]
fn a_replica_is_refused_until_it_is_promoted() {
    let Some((_master, replica)) = installed(pair) else { return };
    runtime().block_on(async {
        let refusal = RedisStore::connect(RedisOptions::single(replica.loopback_url(), "h")).await.unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::Unavailable, "{refusal}");
        assert!(refusal.to_string().contains("is a replica of 127.0.0.1:"), "{refusal}");
        replica.ask::<()>(&["REPLICAOF", "NO", "ONE"]);
        let store = connect(RedisOptions::single(replica.loopback_url(), "h")).await;
        assert_eq!(one(store.mark(&[mark_of("a", 1)]).await), Marked::Fresh);
    });
}

#[test]
fn a_master_that_was_demoted_is_left_for_whoever_is_behind_its_address_now() {
    let Some((master, replica)) = installed(pair) else { return };
    runtime().block_on(async {
        // An address that leads elsewhere when the roles change: a service's name, a virtual one.
        let proxy = Proxy::to(master.address()).await;
        let options = RedisOptions::single(format!("redis://{}", proxy.address()), "h");
        let store = connect(options.reconnect_wait_max(Duration::from_millis(20))).await;
        assert_eq!(one(store.mark(&[mark_of("before", 1)]).await), Marked::Fresh);
        one(store.claim(&[claim_of("script", 1)]).await);
        // (WAIT on another connection would wait for nothing.)
        eventually("the replica has it", async || replica.ask::<u64>(&["EXISTS", "h:\0before"]) == 1).await;

        replica.ask::<()>(&["REPLICAOF", "NO", "ONE"]);
        follow(&master, &replica);
        proxy.lead_to(replica.address());
        // Existing connections lead to a replica now, which refuses writes, those of scripts as
        // well.
        for attempt in 0..4 {
            if let Err(refusal) = store.claim(&[claim_of("claimed", attempt)]).await {
                assert_eq!(refusal.kind(), ErrorKind::Unavailable, "{refusal}");
            }
        }
        let marked = async || store.mark(&[mark_of("after", 1)]).await.is_ok_and(|marked| marked[0].is_ok());
        eventually("the new master is found", marked).await;
        assert!(matches!(one(store.mark(&[mark_of("before", 2)]).await), Marked::Duplicate { .. }));
        assert_eq!(replica.ask::<u64>(&["EXISTS", "h:\0after"]), 1);
    });
}

#[test]
fn a_sentinel_is_no_server_of_records() {
    let Some(sentinel) = installed(Server::start_sentinel) else { return };
    runtime().block_on(async {
        let refusal = RedisStore::connect(RedisOptions::single(sentinel.loopback_url(), "h")).await.unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::Misconfigured, "{refusal}");
        assert!(refusal.to_string().contains("RedisOptions::sentinel"), "{refusal}");
        for scheme in ["redis+sentinel", "redis-sentinel", "rediss+sentinel", "sentinel"] {
            let url = format!("{scheme}://:s3cret@127.0.0.1:26379/mymaster/0");
            let refusal = RedisStore::connect(RedisOptions::single(url, "h")).await.unwrap_err();
            assert_eq!(refusal.kind(), ErrorKind::Misconfigured, "{refusal}");
            let text = refusal.to_string();
            assert!(text.contains("RedisOptions::sentinel") && !text.contains("s3cret"), "{refusal}");
        }
    });
}

#[test]
fn sentinels_say_who_is_the_master_also_when_the_old_one_comes_back_empty() {
    let Some(watched) = installed(Watched::start) else { return };
    runtime().block_on(async {
        let master = format!("redis://{}", Watched::MASTER);
        let options =
            RedisOptions::sentinel(master, watched.sentinel_urls(), "h").connect_timeout(Duration::from_millis(500));
        let options = options.reconnect_wait_max(Duration::from_millis(50));
        let mut store = connect(options.clone()).await;
        assert_eq!(one(store.mark(&[mark_of("before", 1)]).await), Marked::Fresh);
        eventually("the replica has it", async || watched.replica.ask::<u64>(&["EXISTS", "h:\0before"]) == 1).await;

        let last: Vec<String> = (0..200).map(|id| format!("last {id}")).collect();
        mark_each(&store, &last).await;
        // One Sentinel less, and the master: the others promote the replica.
        watched.sentinels[0].kill();
        watched.master.kill();
        let marked = async || store.mark(&[mark_of("after", 1)]).await.is_ok_and(|marked| marked[0].is_ok());
        eventually("the replica is promoted and found", marked).await;
        assert_eq!(watched.replica.ask::<u64>(&["EXISTS", "h:\0after"]), 1);
        println!("{} marks lost of {}", lost(&store, &last).await, last.len());

        // The old master is back, empty, and takes writes until the Sentinels have noticed. No
        // request goes there: connections that are made meanwhile ask for the master.
        watched.master.start_again();
        let (mut acknowledged, began) = (vec!["before".to_owned(), "after".to_owned()], Instant::now());
        let role = || watched.master.try_ask::<Vec<redis::Value>>(&["ROLE"]);
        let is_replica = || role().is_ok_and(|role| role.len() == 5);
        for attempt in 2.. {
            if attempt % 5 == 0 {
                store = connect(options.clone()).await;
            }
            let id = format!("{attempt}");
            if store.mark(&[mark_of(&id, attempt)]).await.is_ok_and(|marked| marked[0].is_ok()) {
                acknowledged.push(id);
            }
            if is_replica() {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "the Sentinels do not notice that the old master is back");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        println!("{} marks acknowledged while there were two masters", acknowledged.len() - 2);
        assert!(acknowledged.len() > 2);
        for id in &acknowledged {
            let again = async || store.mark(&[mark_of(id, 1 << 40)]).await.is_ok_and(|marked| marked[0].is_ok());
            eventually("the store answers", again).await;
            assert!(matches!(one(store.mark(&[mark_of(id, 1 << 41)]).await), Marked::Duplicate { .. }), "{id} is lost");
            assert_eq!(watched.replica.ask::<u64>(&["EXISTS", &format!("h:\0{id}")]), 1, "{id} is elsewhere");
        }
    });
}

#[test]
fn sentinels_that_cannot_say_are_errors_that_say_why() {
    if is_missing() {
        return;
    }
    let (sentinel, server) = (Server::start_sentinel(), Server::start_on_loopback(&[]));
    let gone = Server::start_sentinel();
    gone.kill();
    runtime().block_on(async {
        let with = async |master: &str, sentinels: Vec<String>| {
            RedisStore::connect(RedisOptions::sentinel(master, sentinels, "h")).await.unwrap_err()
        };
        let refusal = with("redis://nobody", vec![sentinel.loopback_url(), gone.loopback_url()]).await;
        assert_eq!(refusal.kind(), ErrorKind::Misconfigured, "{refusal}");
        assert!(refusal.to_string().contains("\"nobody\""), "{refusal}");

        let refusal = with("redis://nobody", vec![gone.loopback_url()]).await;
        assert_eq!(refusal.kind(), ErrorKind::Unavailable, "{refusal}");
        let refusal = with("redis://nobody", vec![server.loopback_url()]).await;
        assert_eq!(refusal.kind(), ErrorKind::Misconfigured, "{refusal}");
        assert!(refusal.to_string().contains("is no Sentinel"), "{refusal}");
        for (master, sentinels) in [("redis://nobody", vec![]), ("redis+unix:///a", vec![sentinel.loopback_url()])] {
            let refusal = with(master, sentinels).await;
            assert_eq!(refusal.kind(), ErrorKind::Misconfigured, "{refusal}");
        }

        // Their answer alone is not believed.
        let replica = Server::start_on_loopback(&[]);
        follow(&replica, &server);
        let port = replica.address().port().to_string();
        sentinel.ask::<()>(&["SENTINEL", "MONITOR", "wrong", "127.0.0.1", &port, "1"]);
        let refusal = with("redis://wrong", vec![sentinel.loopback_url()]).await;
        assert_eq!(refusal.kind(), ErrorKind::Unavailable, "{refusal}");
        assert!(refusal.to_string().contains("is a replica"), "{refusal}");
    });
}

#[test]
fn a_clusters_replica_takes_over_and_only_the_last_marks_can_be_lost() {
    let Some(cluster) = installed(Cluster::start) else { return };
    let (master, replica) = (&cluster.nodes[0], cluster.start_replica());
    runtime().block_on(async {
        let store = connect(RedisOptions::cluster(cluster.urls(), "h").response_timeout(Duration::from_secs(1))).await;
        // These are ids of the first master, which then answers nothing more.
        let ids: Vec<String> = (0..).map(|id| id.to_string()).filter(|id| slot(id) <= 5_460).take(300).collect();
        let (before, after) = ids.split_at(200);
        mark_each(&store, before).await;
        master.pause();
        let began = Instant::now();
        let marked = async |id: &String| store.mark(&[mark_of(id, 1)]).await.is_ok_and(|marked| marked[0].is_ok());
        eventually("the replica takes over", async || marked(&after[0]).await).await;
        println!("the replica took over after {:?}", began.elapsed());
        mark_each(&store, &after[1..]).await;

        // The old master does not know yet; no request goes there.
        master.resume();
        mark_each(&connect(RedisOptions::cluster(cluster.urls(), "h")).await, &["back".to_owned()]).await;
        let is_replica = async || master.try_ask::<Vec<redis::Value>>(&["ROLE"]).is_ok_and(|role| role.len() == 5);
        eventually("the old master follows", is_replica).await;
        println!("{} marks lost of {}", lost(&store, before).await, before.len());
        assert_eq!(lost(&store, after).await, 0, "acknowledged by the new master");
        assert!(replica.ask::<u64>(&["DBSIZE"]) >= 300);
    });
}

/// Marks ids, one after the other, each acknowledged.
async fn mark_each(store: &RedisStore, ids: &[String]) {
    for id in ids {
        assert_eq!(one(store.mark(&[mark_of(id, 1)]).await), Marked::Fresh, "{id}");
    }
}

/// Counts the marks that are gone. As the documents have it (`docs/scaling-out.md`), a failover
/// loses the marks that were on their way to the replica: none, or the last ones.
async fn lost(store: &RedisStore, ids: &[String]) -> usize {
    let again: Vec<Mark> = ids.iter().map(|id| mark_of(id, 2)).collect();
    let mut answers = store.mark(&again).await;
    // A connection that has just failed is made again in a moment. Asked again under the same
    // number, each mark has the answer that it had.
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if answers.as_ref().is_ok_and(|answers| answers.iter().all(Result::is_ok)) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        answers = store.mark(&again).await;
    }
    let is_kept: Vec<bool> = all(answers).iter().map(|marked| *marked != Marked::Fresh).collect();
    let kept = is_kept.iter().position(|kept| !kept).unwrap_or(ids.len());
    assert!(is_kept[kept..].iter().all(|kept| !kept), "an earlier one was lost than one that was kept");
    ids.len() - kept
}
