//! Servers that forget: their configuration, and the loss of what they knew.

use crate::store::*;
use hapax::ManualClock;
use hapax_redis::{RedisOptions, RedisRisk, RedisStore};
use hapax_store::{TieredDedup, *};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use testkit::processes::PATIENCE;
use testkit::redis_server::{Server, is_missing};
use testkit::stores::runtime;

const DURABLE: [&str; 4] = ["--appendonly", "yes", "--maxmemory-policy", "noeviction"];

fn risks(store: &RedisStore) -> Vec<RedisRisk> {
    store.warnings().into_iter().map(|warning| warning.risk).collect()
}

#[test]
fn a_server_that_may_forget_is_warned_of_and_refused_if_asked_to() {
    if is_missing() {
        return;
    }
    let evicts = || RedisRisk::Evicts { policy: "allkeys-lru".into() };
    let volatile = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    runtime().block_on(async {
        for (arguments, expected) in [
            (vec![], vec![RedisRisk::NotPersisted]),
            (volatile.to_vec(), vec![evicts(), RedisRisk::NotPersisted]),
            (vec!["--save", "3600 1"], vec![RedisRisk::NoLog]),
            // Without a limit, nothing is evicted.
            (vec!["--maxmemory-policy", "allkeys-lru", "--appendonly", "yes"], vec![]),
            (DURABLE.to_vec(), vec![]),
        ] {
            let server = Server::start(&arguments);
            let options = RedisOptions::single(server.url(), "h");
            let store = connect(options.clone()).await;
            assert_eq!(risks(&store), expected, "{arguments:?}");
            match RedisStore::connect(options.require_durable(true)).await {
                Ok(_) => assert_eq!(expected, []),
                Err(refusal) => {
                    assert_eq!(refusal.kind(), ErrorKind::Misconfigured, "{refusal}");
                    assert!(refusal.to_string().contains("require_durable"), "{refusal}");
                    assert!(refusal.to_string().contains(&expected[0].to_string()), "{refusal}");
                }
            }
        }
    });
}

#[test]
fn who_may_ask_for_nothing_but_records_is_served_and_warned() {
    let Some(server) = installed(|| Server::start_on_loopback(&DURABLE)) else { return };
    runtime().block_on(async {
        let rights = |user: &str, rights: &[&str]| {
            let base = ["ACL", "SETUSER", user, "reset", "on", ">s3cret", "~h:*", "+@all"];
            server.ask::<()>(&[&base, rights].concat());
            RedisOptions::single(format!("redis://{user}:s3cret@{}", server.address()), "h")
        };
        // Managed services allow no more: INFO is enough.
        let managed = connect(rights("managed", &["-config"]).require_durable(true)).await;
        assert_eq!(risks(&managed), []);
        let narrow = rights("narrow", &["-config", "-info", "-role", "-dbsize"]);
        let store = connect(narrow.clone()).await;
        assert_eq!(risks(&store), [RedisRisk::UnknownEviction, RedisRisk::UnknownPersistence]);
        assert_eq!(one(store.mark(&[mark_of("a", 1)]).await), Marked::Fresh);
        store.expire(1).await.expect("nothing is asked that is not answered");
        let refusal = RedisStore::connect(narrow.require_durable(true)).await.unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::Misconfigured, "{refusal}");
    });
}

#[test]
fn restarts_flushes_and_evictions_are_noticed() {
    let Some(server) = installed(|| Server::start(&["--maxmemory-policy", "allkeys-lru"])) else { return };
    runtime().block_on(async {
        let store = connect(RedisOptions::single(server.url(), "h")).await;
        let noticed = || (store.restarted(), store.emptied(), store.evicted());
        all(store.mark(&[mark_of("a", 1)]).await);
        store.expire(1).await.unwrap();
        assert_eq!(noticed(), (0, 0, 0));
        // It restarts, without its data. Both connections are made anew, and it is noticed once.
        server.kill();
        server.start_again();
        let marked = async || store.mark(&[mark_of("b", 1)]).await.is_ok_and(|marked| marked[0].is_ok());
        eventually("the server is back", marked).await;
        for attempt in 2..10 {
            all(store.mark(&[mark_of("c", attempt)]).await);
        }
        assert_eq!(noticed(), (1, 1, 0));

        // The server is emptied meanwhile: other clients have filled it again when it is looked at.
        server.ask::<()>(&["FLUSHALL"]);
        assert_eq!(one(store.mark(&[mark_of("c", 99)]).await), Marked::Fresh);
        store.expire(1).await.unwrap();
        store.expire(1).await.unwrap();
        assert_eq!(noticed(), (1, 2, 0));
        assert_eq!(risks(&store), [RedisRisk::NotPersisted]);

        // It gets a limit later on, and evicts.
        let marks: Vec<Mark> = (0..5_000).map(|id| mark_of(format!("{id}"), id)).collect();
        all(store.mark(&marks).await);
        server.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
        eventually("keys are evicted", async || {
            let _ = server.try_ask::<()>(&["SET", "another", "one"]);
            server.ask::<u64>(&["DBSIZE"]) < 4_000
        })
        .await;
        store.expire(1).await.unwrap();
        assert!(store.evicted() > 1_000, "{}", store.evicted());
        assert_eq!(risks(&store).len(), 2);
    });
}

#[test]
fn an_engine_looks_after_its_server() {
    let Some(server) = installed(|| Server::start(&[])) else { return };
    runtime().block_on(async {
        let store = Arc::new(connect(RedisOptions::single(server.url(), "h")).await);
        let often = Duration::from_millis(20);
        let dedup = TieredDedup::builder(Arc::clone(&store)).expiry((often, 1)).build().await.expect("an engine");
        assert!(dedup.check("a").await.expect("an answer").is_fresh());
        server.ask::<()>(&["FLUSHALL"]);
        eventually("the engine has noticed", async || store.emptied() == 1).await;
    });
}

/// Returns those of these ids that are fresh.
async fn fresh(dedup: &TieredDedup<RedisStore>, ids: Range<u32>) -> Vec<u32> {
    let verdicts = dedup.check_batch(ids.clone().map(|id| id.to_string())).await;
    ids.zip(verdicts).filter(|(_, verdict)| verdict.as_ref().unwrap().is_fresh()).map(|(id, _)| id).collect()
}

/// A process goes on whose memory knows what the server has lost: the ids from 100 to 150.
#[test]
fn a_process_that_goes_on_accepts_nothing_twice_while_its_window_lasts() {
    const WINDOW: Duration = Duration::from_secs(600);
    let Some(server) = installed(|| Server::start(&[])) else { return };
    let process = async |memory: &ManualClock| {
        let engine = TieredDedup::builder(connect(RedisOptions::single(server.url(), "h")).await)
            .window(WINDOW)
            .clock(memory.clone());
        // A mark is no other's for the time that its maker may take it back: not here.
        engine.timeout(PATIENCE).in_doubt(Duration::ZERO).build().await.unwrap()
    };
    let every = |ids: Range<u32>| ids.collect::<Vec<u32>>();
    runtime().block_on(async {
        let memory = ManualClock::new();
        let ours = process(&memory).await;
        assert_eq!(fresh(&ours, 0..100).await, every(0..100));
        server.back_up();
        assert_eq!(fresh(&ours, 0..150).await, every(100..150));
        server.restore();
        eventually("the server is back", async || ours.check("another").await.is_ok()).await;
        assert_eq!(fresh(&ours, 0..200).await, every(150..200));

        // Each id that the server has lost is accepted once more, by whoever asks the server first.
        let another = process(&ManualClock::new()).await;
        assert_eq!(fresh(&another, 0..130).await, every(100..130));
        memory.advance(2 * WINDOW);
        assert_eq!(fresh(&ours, 0..200).await, every(130..150));
        for process in [&ours, &another, &process(&ManualClock::new()).await] {
            assert!(fresh(process, 0..200).await.is_empty());
        }
    });
}
