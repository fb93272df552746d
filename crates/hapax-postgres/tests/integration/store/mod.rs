//! Records in PostgreSQL: the suite for stores, and the cases of this backend alone.

mod faults;
mod pooled;
mod restored;

use crate::{HOUR, client, server};
use hapax_postgres::{Layout, PostgresOptions, PostgresStore};
use hapax_store::*;
use hapax_testing::store::{Fixture, verify_store};
use server::Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use testkit::long;
use testkit::random::{Random, seeded};
use testkit::shared::Shared;
use testkit::stores::runtime;
use tokio::task::JoinSet;
use tokio_postgres::Client;

/// Returns the server of these tests alone: they count what happens on it, and change whose roles
/// may do what.
fn shared() -> Option<Arc<Server>> {
    static SERVER: Shared<Server> = Shared::new();
    SERVER.get(|| Server::start(&["fsync=off", "full_page_writes=off"]))
}

fn options(server: &Server) -> PostgresOptions {
    let options = PostgresOptions::parse(&server.address()).expect("an address");
    options.timeout(Duration::from_secs(20)).expect("a timeout")
}

fn store(options: PostgresOptions, namespace: &str) -> PostgresStore {
    PostgresStore::new(options, namespace).expect("options")
}

fn mark(id: impl AsRef<[u8]>, attempt: u64, retention: Duration) -> Mark {
    Mark { key: RecordKey::new(&Scope::default(), id), attempt, retention }
}

/// Returns the answers, all of which must be there.
fn all<A>(answers: Answers<A>) -> Vec<A> {
    answers.expect("an answer").into_iter().map(|answer| answer.expect("an answer")).collect()
}

/// Makes everything in a store older.
async fn make_older(client: &Client, namespace: &str, by: Duration) {
    let (schema, prefix) = namespace.split_once('.').unwrap_or(("public", namespace));
    let find = "SELECT relname FROM pg_class WHERE relkind = 'p' AND relnamespace = $1::text::regnamespace \
                AND starts_with(relname, $2 || '_records')";
    let by = format!("interval '{} microseconds'", by.as_micros());
    for row in client.query(find, &[&schema, &prefix]).await.expect("tables") {
        let records: String = row.get(0);
        let older = format!("UPDATE {schema}.{records} SET expires_at = expires_at - {by}");
        client.batch_execute(&older).await.expect("older");
    }
    let buckets = format!("{schema}.{prefix}_buckets");
    let older = format!("UPDATE {buckets} SET opened_at = opened_at - {by}, live_until = live_until - {by}");
    client.batch_execute(&older).await.expect("older");
}

async fn partitions(client: &Client, table: &str) -> i64 {
    client.query_one(&format!("SELECT count(*) FROM {table}_buckets"), &[]).await.expect("a count").get(0)
}

pub struct Postgres {
    pub options: PostgresOptions,
    pub namespace: String,
    pub client: Client,
}

impl Fixture for Postgres {
    type Store = PostgresStore;

    async fn open(&self) -> PostgresStore {
        store(self.options.clone(), &self.namespace)
    }

    async fn advance(&self, by: Duration) {
        make_older(&self.client, &self.namespace, by).await;
    }

    /// Four suites race here: in a campaign, as often as where there is one.
    fn is_slow(&self) -> bool {
        long(true, false)
    }
}

fn suite(table: &str, layout: Layout) {
    let Some(server) = shared() else { return };
    suite_by(&server, options(&server).connections(2).unwrap(), table, layout);
}

fn suite_by(server: &Server, options: PostgresOptions, table: &str, layout: Layout) {
    runtime().block_on(async {
        // Short partitions, so that the cases go through several.
        let options = options.layout(layout).partition(Duration::from_secs(600)).unwrap();
        store(options.clone(), table).migrate().await.expect("tables");
        let client = client(&server.address()).await;
        verify_store(&Postgres { options, namespace: table.to_owned(), client }).await.unwrap();
    });
}

#[test]
fn the_suite_passes_with_a_table_for_all() {
    suite("shared", Layout::Shared);
}

#[test]
fn the_suite_passes_with_a_table_for_each_scope() {
    suite("single", Layout::PerScope);
}

#[test]
fn tables_are_made_once_by_many_by_an_ordinary_role_and_by_hand() {
    let Some(server) = shared() else { return };
    runtime().block_on(async {
        let admin = client(&server.address()).await;
        admin
            .batch_execute(
                "CREATE ROLE ordinary LOGIN; CREATE SCHEMA theirs; GRANT USAGE, CREATE ON SCHEMA theirs TO ordinary; \
                 REVOKE ALL ON DATABASE postgres FROM PUBLIC; GRANT CONNECT ON DATABASE postgres TO ordinary",
            )
            .await
            .expect("a role");
        let options = PostgresOptions::parse(&server.tcp_address("ordinary")).unwrap();

        for layout in [Layout::Shared, Layout::PerScope] {
            let namespace = if layout == Layout::Shared { "theirs.user" } else { "theirs.order" };
            let options = options.clone().layout(layout);
            let mut racers = JoinSet::new();
            for _ in 0..6 {
                let store = store(options.clone(), namespace);
                racers.spawn(async move { store.migrate().await });
            }
            racers.join_all().await.into_iter().for_each(|migrated| migrated.expect("tables"));
            let store = store(options, namespace);
            store.migrate().await.expect("nothing to do");
            assert_eq!(all(store.mark(&[mark("a", 1, HOUR)]).await), [Marked::Fresh]);
            store.expire(10).await.expect("nothing to do");
        }

        // By hand, twice. (In one go: the statements are a transaction.)
        let by_hand = "theirs.by_hand";
        let missing = store(options.clone(), by_hand).mark(&[mark("a", 1, HOUR)]).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::Misconfigured);
        assert!(missing.to_string().contains("migrate"), "{missing}");
        let ordinary = client(&server.tcp_address("ordinary")).await;
        for _ in 0..2 {
            let printed = PostgresStore::migrations(&options, by_hand).unwrap();
            ordinary.batch_execute(&printed).await.expect("what is printed can be run");
        }
        assert_eq!(all(store(options.clone(), by_hand).mark(&[mark("a", 1, HOUR)]).await), [Marked::Fresh]);

        let other = store(options.layout(Layout::PerScope), by_hand).mark(&[mark("a", 2, HOUR)]).await.unwrap_err();
        assert_eq!(other.kind(), ErrorKind::Misconfigured, "{other}");
        admin.batch_execute("CREATE ROLE reader LOGIN; GRANT CONNECT ON DATABASE postgres TO reader").await.unwrap();
        let reader = PostgresOptions::parse(&server.tcp_address("reader")).unwrap();
        let refused = store(reader, by_hand).mark(&[mark("a", 2, HOUR)]).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Misconfigured, "{refused}");
    });
}

#[cfg(feature = "tls")]
#[test]
fn a_server_is_believed_if_its_certificate_is() {
    use std::process::Command;
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let certify = |name: &str| {
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]);
        openssl.args(["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]);
        openssl.args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"]);
        let (key, certificate) = (server.data().join(format!("{name}.key")), server.data().join(format!("{name}.crt")));
        let made = openssl.arg(&key).arg("-out").arg(&certificate).output().ok()?.status.success();
        server.own(&key);
        made.then(|| std::fs::read_to_string(certificate).expect("a certificate"))
    };
    let (Some(right), Some(wrong)) = (certify("server"), certify("other")) else {
        testkit::skipped_without("openssl", "openssl");
        return;
    };
    runtime().block_on(async {
        let encrypted = |roots: &str| {
            let options = PostgresOptions::parse(&server.tcp_address("postgres")).unwrap();
            store(options.tls(Some(roots)).expect("certificates"), "tls")
        };
        // It does not speak TLS, and nothing is sent to it in the clear.
        assert_eq!(encrypted(&right).migrate().await.unwrap_err().kind(), ErrorKind::Misconfigured);

        let admin = client(&server.address()).await;
        for sql in [
            "ALTER SYSTEM SET ssl_cert_file = 'server.crt'",
            "ALTER SYSTEM SET ssl_key_file = 'server.key'",
            "ALTER SYSTEM SET ssl = on",
        ] {
            admin.batch_execute(sql).await.expect("a setting");
        }
        server.kill();
        server.launch();
        let trusting = encrypted(&right);
        trusting.migrate().await.expect("tables");
        assert_eq!(all(trusting.mark(&[mark("a", 1, HOUR)]).await), [Marked::Fresh]);
        let admin = client(&server.address()).await;
        let sessions = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                        WHERE ssl AND application_name = 'hapax'";
        assert_eq!(admin.query_one(sessions, &[]).await.expect("a count").get::<_, i64>(0), 1);
        let refused = encrypted(&wrong).migrate().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Misconfigured, "{refused}");
    });
}

/// Marks each id many times from several handles, while partitions are closed as fast as possible:
/// each is fresh once. Then again while partitions with short-lived ids are dropped.
#[test]
fn no_id_is_fresh_twice_while_partitions_come_and_go() {
    const WORKERS: u64 = 4;
    const IDS: u64 = 1_000;
    let Some(server) = shared() else { return };
    let seed = seeded().next();
    runtime().block_on(async {
        let options = options(&server).partition(Duration::from_secs(1)).unwrap();
        let options = options.connections(WORKERS as usize + 1).unwrap();
        let store = Arc::new(store(options, "rotated"));
        store.migrate().await.expect("tables");
        let rotations = Arc::new(AtomicU64::new(0));
        let admin = client(&server.address()).await;
        let rotating = tokio::spawn(rotate(admin, Arc::clone(&store), Arc::clone(&rotations)));

        let fresh: Arc<Vec<AtomicU64>> = Arc::new((0..IDS).map(|_| AtomicU64::new(0)).collect());
        let mut workers = JoinSet::new();
        for worker in 0..WORKERS {
            let (store, fresh) = (Arc::clone(&store), Arc::clone(&fresh));
            workers.spawn(mark_all(store, fresh, Arc::clone(&rotations), worker, seed));
        }
        workers.join_all().await;
        assert!(!rotating.is_finished(), "rotation came to an end: {:?}", rotating.await);
        rotating.abort();
        let _ = rotating.await;
        for (id, times) in fresh.iter().enumerate() {
            assert_eq!(times.load(Ordering::Relaxed), 1, "{id} was fresh so many times");
        }

        // All of it expires at once, and goes.
        let admin = client(&server.address()).await;
        make_older(&admin, "rotated", 2 * HOUR).await;
        let mut removed = 0;
        loop {
            let expired = store.expire(100).await.expect("expiry");
            removed += expired.records;
            if !expired.more {
                break;
            }
        }
        assert!(removed >= IDS, "{removed} of {IDS} were removed");
        assert!(partitions(&admin, "rotated").await <= 2);
    });
}

/// Marks all ids, and claims one that is moved from partition to partition, in batches in another
/// order each time, until there were enough rotations.
async fn mark_all(
    store: Arc<PostgresStore>,
    fresh: Arc<Vec<AtomicU64>>,
    rotations: Arc<AtomicU64>,
    worker: u64,
    seed: u64,
) {
    let mut random = Random(seed.wrapping_add(worker));
    let mut ids: Vec<usize> = (0..fresh.len()).collect();
    let began = std::time::Instant::now();
    for round in 0.. {
        if round >= 3 && rotations.load(Ordering::Relaxed) >= 15 {
            break;
        }
        assert!(began.elapsed() < testkit::processes::PATIENCE, "there are no rotations");
        random.shuffle(&mut ids);
        for batch in ids.chunks(50) {
            let marks: Vec<Mark> =
                batch.iter().map(|id| mark(format!("lasting {id}"), random.next() >> 1, HOUR)).collect();
            for (&id, marked) in batch.iter().zip(all(store.mark(&marks).await)) {
                fresh[id].fetch_add(u64::from(marked == Marked::Fresh), Ordering::Relaxed);
            }
            // These are moved from partition to partition. No other task uses them, so each is
            // claimed and lost in turn.
            let claim = ClaimRequest {
                key: RecordKey::new(&Scope::default(), format!("moving {worker}")),
                attempt: random.next() >> 1,
                lease: HOUR,
                fingerprint: None,
                held_by: None,
                doubt: Duration::ZERO,
            };
            let Claimed::Claimed { token, .. } = all(store.claim(std::slice::from_ref(&claim)).await).remove(0) else {
                panic!("nobody else claims it")
            };
            let hold = Hold { key: claim.key, token };
            let renewal = Renewal { hold: hold.clone(), lease: HOUR };
            assert_eq!(all(store.renew(&[renewal]).await), [Held::Done]);
            assert_eq!(all(store.release(&[hold]).await), [Held::Done]);
        }
    }
}

/// Closes and drops partitions all the time, and counts those that were closed.
async fn rotate(client: Client, store: Arc<PostgresStore>, rotations: Arc<AtomicU64>) {
    let due = "UPDATE rotated_buckets SET opened_at = opened_at - interval '2 s'";
    let last = "SELECT max(bucket)::bigint FROM rotated_buckets";
    loop {
        // Not more than a store would ever have, or all the time is spent on looking through them.
        if partitions(&client, "rotated").await < 24 {
            client.batch_execute(due).await.expect("older");
        }
        match store.expire(4).await {
            Err(error) if error.kind() != ErrorKind::Conflict => panic!("{error}"),
            _ => {}
        }
        let last: i64 = client.query_one(last, &[]).await.expect("a bucket").get(0);
        rotations.store(last as u64, Ordering::Relaxed);
    }
}

#[test]
fn overlapping_batches_in_any_order_do_not_deadlock() {
    const CONNECTIONS: u64 = 8;
    let Some(server) = shared() else { return };
    let seed = seeded().next();
    runtime().block_on(async {
        let options = options(&server).connections(CONNECTIONS as usize).unwrap();
        let store = Arc::new(store(options, "crowded"));
        store.migrate().await.expect("tables");
        let mut workers = JoinSet::new();
        for worker in 0..CONNECTIONS {
            workers.spawn(claim_and_end(Arc::clone(&store), seed.wrapping_add(worker)));
        }
        workers.join_all().await;
        let admin = client(&server.address()).await;
        let deadlocks: i64 = admin
            .query_one("SELECT sum(deadlocks)::bigint FROM pg_stat_database", &[])
            .await
            .expect("statistics")
            .get(0);
        assert_eq!(deadlocks, 0);
    });
}

/// Runs everything that takes locks, on the same two hundred ids.
async fn claim_and_end(store: Arc<PostgresStore>, seed: u64) {
    let mut random = Random(seed);
    let scopes = ["a", "b"].map(|name| Scope::new(name).expect("a name"));
    for _ in 0..long(8, 25) {
        let mut keys: Vec<RecordKey> =
            (0..200u32).map(|id| RecordKey::new(&scopes[id as usize % 2], id.to_be_bytes())).collect();
        random.shuffle(&mut keys);
        let claims: Vec<ClaimRequest> = keys
            .iter()
            .map(|key| ClaimRequest {
                key: key.clone(),
                attempt: random.next() >> 1,
                lease: Duration::from_millis(2),
                fingerprint: None,
                held_by: None,
                doubt: Duration::ZERO,
            })
            .collect();
        let claimed = all(store.claim(&claims).await);
        let mut holds: Vec<Hold> = keys
            .iter()
            .zip(claimed)
            .filter_map(|(key, claimed)| match claimed {
                Claimed::Claimed { token, .. } => Some(Hold { key: key.clone(), token }),
                _ => None,
            })
            .collect();
        random.shuffle(&mut holds);
        let completions: Vec<Completion> = holds
            .into_iter()
            .map(|hold| Completion { hold, retention: Duration::from_micros(1), result: None })
            .collect();
        all(store.complete(&completions).await);
        let records: Vec<Record> = keys
            .into_iter()
            .map(|key| Record { key, retention: Duration::from_micros(1), fingerprint: None, result: None })
            .collect();
        all(store.record(&records).await);
    }
}
