//! Refusals of a real server, and whether they may pass: see `store/errors.rs`.

use crate::*;
use hapax_store::{ErrorKind, StoreError};

/// Enqueues in a transaction that begins with this.
async fn refused(place: &Place, client: &mut Client, settings: &str, key: &str) -> StoreError {
    let mut tx = client.transaction().await.unwrap();
    let _ = tx.batch_execute(settings).await;
    outbox::enqueue(&mut tx, &place.tables, "t", NewMessage::new("m", "").key(key)).await.unwrap_err()
}

#[test]
fn a_transaction_that_is_refused_says_whether_another_one_may_not_be() {
    Place::run(async |place| {
        let (mut holder, mut client) = (place.client().await, place.client().await);
        // It has the key.
        let mut held = holder.transaction().await.unwrap();
        outbox::enqueue(&mut held, &place.tables, "t", NewMessage::new("held", "").key("k")).await.unwrap();
        for (settings, key, kind) in [
            ("SET LOCAL statement_timeout = 50", "k", ErrorKind::Timeout),
            ("SET LOCAL lock_timeout = 50", "k", ErrorKind::Conflict),
            ("SET TRANSACTION READ ONLY", "l", ErrorKind::Unavailable),
            ("SELECT 1 / 0", "l", ErrorKind::Unavailable),
            ("SELECT pg_terminate_backend(pg_backend_pid())", "l", ErrorKind::Unavailable),
        ] {
            let error = refused(&place, &mut client, settings, key).await;
            assert_eq!(error.kind(), kind, "{settings}: {error}");
        }
        let mut client = place.client().await;
        let mut tx = client.transaction().await.unwrap();
        let none = Tables::new("public", "none").unwrap();
        let error = outbox::enqueue(&mut tx, &none, "t", NewMessage::new("m", "")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    });
}

/// Runs a relay that gives up at the first failure.
async fn unconnected(place: &Place, address: &str) -> StoreError {
    let relay = Relay::new(options(address), place.tables.clone()).longest_outage(Duration::ZERO);
    relay.run(Arc::new(Nothing), std::future::pending()).await.unwrap_err()
}

#[test]
fn a_connection_that_is_refused_says_whether_another_one_may_not_be() {
    Place::run_alone(async |place| {
        let standby = place.server.standby();
        let roles = "CREATE ROLE crowd LOGIN CONNECTION LIMIT 0; CREATE ROLE guarded LOGIN PASSWORD 'right'";
        place.execute(&place.client().await, roles).await;
        let only_reads = standby.tcp_address("postgres");
        let for_writes = format!("{only_reads} target_session_attrs=read-write");
        let nobody = format!("host=127.0.0.1 port={} user=postgres", testkit::processes::free_port());
        let of = |role: &str| place.server.tcp_address(role);
        for (address, kind) in [
            (only_reads, ErrorKind::Unavailable),
            (for_writes, ErrorKind::Unavailable),
            (nobody, ErrorKind::Unavailable),
            (of("crowd"), ErrorKind::Unavailable),
            (of("guarded") + " password=wrong", ErrorKind::Misconfigured),
            (of("guarded"), ErrorKind::Misconfigured),
            (of("nobody"), ErrorKind::Misconfigured),
            (place.server.tcp_address("postgres").replace("dbname=postgres", "dbname=none"), ErrorKind::Misconfigured),
        ] {
            let error = unconnected(&place, &address).await;
            assert_eq!(error.kind(), kind, "{address}: {error}");
        }
    });
}
