//! Versions in PostgreSQL.

use hapax_postgres::{Layout, PostgresOptions, PostgresStore};
use hapax_testing::store::{Fixture, verify_versions};
use std::time::Duration;
use testkit::postgres_server::Server;
use tokio_postgres::{Client, NoTls};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

struct Postgres {
    options: PostgresOptions,
    table: &'static str,
    client: Client,
}

impl Fixture for Postgres {
    type Store = PostgresStore;

    async fn open(&self) -> PostgresStore {
        PostgresStore::new(self.options.clone(), self.table).expect("options")
    }

    /// Makes everything in the store older.
    async fn advance(&self, by: Duration) {
        let (table, by) = (self.table, format!("interval '{} microseconds'", by.as_micros()));
        let find = "SELECT relname FROM pg_class WHERE relkind = 'p' AND starts_with(relname, $1 || '_records')";
        for row in self.client.query(find, &[&table]).await.expect("tables") {
            let records: String = row.get(0);
            let older = format!("UPDATE {records} SET expires_at = expires_at - {by}");
            self.client.batch_execute(&older).await.expect("older");
        }
        let older = format!("UPDATE {table}_buckets SET opened_at = opened_at - {by}, live_until = live_until - {by}");
        self.client.batch_execute(&older).await.expect("older");
    }
}

fn suite(table: &'static str, layout: Layout) {
    let Some(server) = Server::shared() else { return };
    runtime().block_on(async {
        let options = PostgresOptions::parse(&server.address()).unwrap();
        let options = options.timeout(Duration::from_secs(20)).unwrap().connections(2).unwrap();
        // Short partitions, so that the cases go through several.
        let options = options.layout(layout).partition(Duration::from_secs(600)).unwrap();
        PostgresStore::new(options.clone(), table).unwrap().migrate().await.expect("tables");
        let (client, connection) = tokio_postgres::connect(&server.address(), NoTls).await.expect("a connection");
        tokio::spawn(connection);
        verify_versions(&Postgres { options, table, client }).await.unwrap();
    });
}

#[test]
fn it_keeps_the_promises_of_versions_with_a_table_for_all() {
    suite("versions", Layout::Shared);
}

#[test]
fn it_keeps_the_promises_of_versions_with_a_table_for_each_scope() {
    suite("versions_each", Layout::PerScope);
}
