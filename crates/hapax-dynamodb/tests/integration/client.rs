//! A table on a server of its own, and clients with a wire that fails on purpose.

use crate::wire::Wire;
use hapax::{ManualClock, Timestamp};
use hapax_dynamodb::aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use hapax_dynamodb::aws_sdk_dynamodb::{Client, Config};
use hapax_dynamodb::{DynamoDbOptions, DynamoDbStore};
use hapax_store::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use testkit::moto_server::MotoServer;
use testkit::shared::Shared;
pub use testkit::stores::{hold, key};

pub const LEASE: Duration = Duration::from_secs(30);
pub const HOUR: Duration = Duration::from_secs(3_600);

pub struct Table {
    server: Arc<MotoServer>,
    pub name: String,
    pub clock: ManualClock,
    pub wire: Wire,
}

impl Table {
    /// Makes a table of the test's own on the server of all tests; none, loudly, where there is
    /// none to start.
    pub async fn start() -> Option<Table> {
        let table = Table::missing()?;
        table.store().create_table().await.unwrap();
        table.wire.forget_all();
        Some(table)
    }

    /// Returns a table that is not made yet.
    pub fn missing() -> Option<Table> {
        static SERVER: Shared<MotoServer> = Shared::new();
        static TABLES: AtomicU64 = AtomicU64::new(0);
        let server = SERVER.get(MotoServer::start_without_threads)?;
        let name = format!("hapax-{}", TABLES.fetch_add(1, Ordering::Relaxed));
        let clock = ManualClock::new();
        clock.set(Timestamp::from_secs(1_900_000_000));
        Some(Table { server, name, clock, wire: Wire::new() })
    }

    pub fn client(&self) -> Client {
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-central-1"))
            .credentials_provider(Credentials::new("test", "test", None, None, "test"))
            .endpoint_url(self.server.url())
            .http_client(self.wire.clone());
        Client::from_conf(config.build())
    }

    pub fn options(&self) -> DynamoDbOptions {
        DynamoDbOptions::new(&self.name)
    }

    pub fn with(&self, options: DynamoDbOptions) -> DynamoDbStore {
        DynamoDbStore::new(&self.client(), options).unwrap().with_clock(self.clock.clone())
    }

    /// Opens the store with time for a slow machine.
    pub fn store(&self) -> DynamoDbStore {
        let patience = Duration::from_secs(300);
        // The server takes one request after the other: more would only queue up before it.
        self.with(self.options().timeout(patience).try_timeout(patience).concurrency(4))
    }
}

pub fn mark(id: &str, attempt: u64) -> Mark {
    Mark { key: key(id), attempt, retention: HOUR }
}

pub fn claim(id: &str, attempt: u64) -> ClaimRequest {
    ClaimRequest { key: key(id), attempt, lease: LEASE, fingerprint: None, held_by: None, doubt: Duration::ZERO }
}

pub async fn token(store: &DynamoDbStore, id: &str, attempt: u64) -> u64 {
    match store.claim(&[claim(id, attempt)]).await.unwrap().remove(0).unwrap() {
        Claimed::Claimed { token, .. } => token,
        other => panic!("{id} is {other:?}"),
    }
}

/// Returns the one answer.
pub fn one<A>(answers: Answers<A>) -> Result<A, StoreError> {
    answers.unwrap().remove(0)
}
