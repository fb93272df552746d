//! Versions in Redis: one server, and a cluster.

use hapax_redis::{RedisOptions, RedisStore};
use hapax_store::{Advance, Advanced, RecordKey, Scope, VersionStore};
use hapax_testing::store::{Fixture, verify_versions};
use std::time::Duration;
use testkit::redis_server::{Cluster, Server, is_missing};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

struct OnServers<'s> {
    servers: &'s [Server],
    options: RedisOptions,
}

impl Fixture for OnServers<'_> {
    type Store = RedisStore;

    async fn open(&self) -> RedisStore {
        RedisStore::connect(self.options.clone()).await.expect("a store")
    }

    async fn advance(&self, by: Duration) {
        for server in self.servers {
            server.age(by);
        }
    }
}

#[test]
fn one_server_keeps_the_promises_of_versions() {
    if is_missing() {
        return;
    }
    let server = Server::start(&[]);
    let options = RedisOptions::single(server.url(), "test");
    runtime().block_on(verify_versions(&OnServers { servers: &[server], options })).unwrap();
}

#[test]
fn a_cluster_keeps_the_promises_of_versions() {
    if is_missing() {
        return;
    }
    let cluster = Cluster::start();
    let options = RedisOptions::cluster(cluster.urls(), "test");
    runtime().block_on(verify_versions(&OnServers { servers: &cluster.nodes, options })).unwrap();
}

#[test]
fn a_server_that_forgets_its_scripts_is_told_again() {
    if is_missing() {
        return;
    }
    let server = Server::start(&[]);
    runtime().block_on(async {
        let store = RedisStore::connect(RedisOptions::single(server.url(), "test")).await.unwrap();
        let key = RecordKey::new(&Scope::new("prices").unwrap(), "a");
        for version in 5..8 {
            server.ask::<()>(&["SCRIPT", "FLUSH"]);
            let advance = Advance { key: key.clone(), version, attempt: version, retention: Duration::from_secs(60) };
            assert_eq!(store.advance(&[advance]).await.unwrap().remove(0).unwrap(), Advanced::Newer);
        }
    });
}
