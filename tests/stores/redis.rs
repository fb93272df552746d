//! Redis: one server, a cluster, compact marks; servers that are killed, forget scripts, want passwords; networks that misbehave.

use crate::proxy::{Mode, Proxy};
use crate::redis_server::{Cluster, Server, is_missing};
use hapax::store::*;
use hapax::testing::store::{Fixture, verify_store};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

const RETENTION: Duration = Duration::from_secs(3_600);
const LEASE: Duration = Duration::from_secs(30);

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
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

fn key(id: impl AsRef<[u8]>) -> RecordKey {
    RecordKey::new(&Scope::default(), id)
}

fn mark_of(id: impl AsRef<[u8]>, attempt: u64) -> Mark {
    Mark { key: key(id), attempt, retention: RETENTION }
}

fn claim_of(id: &str, attempt: u64) -> ClaimRequest {
    ClaimRequest { key: key(id), attempt, lease: LEASE, fingerprint: None }
}

fn all<A>(answers: Answers<A>) -> Vec<A> {
    let answers = answers.unwrap_or_else(|error| panic!("a batch came to nothing: {error}"));
    let one =
        |answer: Result<A, StoreError>| answer.unwrap_or_else(|error| panic!("a request came to nothing: {error}"));
    answers.into_iter().map(one).collect()
}

fn one<A>(answers: Answers<A>) -> A {
    all(answers).remove(0)
}

async fn connect(options: RedisOptions) -> RedisStore {
    RedisStore::connect(options).await.expect("a store")
}

#[test]
fn one_server_is_what_a_store_promises() {
    if is_missing("one_server_is_what_a_store_promises") {
        return;
    }
    let server = Server::start(&[]);
    let options = RedisOptions::single(server.url());
    runtime().block_on(verify_store(&OnServers { servers: &[server], options }));
}

#[test]
fn one_server_is_what_a_store_promises_in_resp2() {
    if is_missing("one_server_is_what_a_store_promises_in_resp2") {
        return;
    }
    let server = Server::start(&[]);
    let options = RedisOptions::single(server.url()).resp2();
    runtime().block_on(verify_store(&OnServers { servers: &[server], options }));
}

#[test]
fn a_cluster_is_what_a_store_promises() {
    if is_missing("a_cluster_is_what_a_store_promises") {
        return;
    }
    let cluster = Cluster::start();
    let options = RedisOptions::cluster([&cluster.urls()[1]]);
    runtime().block_on(verify_store(&OnServers { servers: &cluster.nodes, options }));
    let keys: Vec<u64> = cluster.nodes.iter().map(|node| node.ask(&["DBSIZE"])).collect();
    assert!(keys.iter().all(|&keys| keys > 100), "ids are spread over the nodes: {keys:?}");
}
