//! A server that is killed, connections that are cut, and the cost of statements.

use super::*;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use testkit::processes::PATIENCE;
use testkit::proxy::{Mode, Proxy};
use tokio::sync::Semaphore;

/// Kills the server under load again and again: acknowledged ids are duplicates afterwards.
/// `HAPAX_KILLS` says how often.
#[test]
fn what_was_acknowledged_outlives_kills_of_the_server() {
    let kills = std::env::var("HAPAX_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(long(4, 8));
    // The operating system lives on, so nothing need be on the disk.
    let Some(server) = Server::start(&["fsync=off", "checkpoint_timeout=30s"]) else { return };
    let mut random = seeded();
    runtime().block_on(async {
        let options = options(&server).timeout(Duration::from_secs(5)).unwrap();
        let store = Arc::new(store(options, "killed"));
        store.migrate().await.expect("tables");
        for kill in 0..kills {
            let (done, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(Semaphore::new(0)));
            let mut workers = JoinSet::new();
            for worker in 0..3 {
                let (done, begun) = (Arc::clone(&done), Arc::clone(&begun));
                workers.spawn(mark_until(Arc::clone(&store), format!("{kill} {worker}"), done, begun));
            }
            // A batch at least is acknowledged, however slow the machine is.
            begun.acquire().await.expect("it is open").forget();
            tokio::time::sleep(Duration::from_micros(random.below(100_000))).await;
            server.kill();
            done.store(true, Ordering::Relaxed);
            let acknowledged = workers.join_all().await.concat();
            assert!(!acknowledged.is_empty(), "kill {kill}: nothing was under way");
            server.launch();
            for batch in acknowledged.chunks(1_024) {
                let again: Vec<Mark> = batch.iter().map(|id| mark(id, random.next() >> 1, HOUR)).collect();
                for (id, marked) in batch.iter().zip(all(until_answered(&store, &again).await)) {
                    assert!(matches!(marked, Marked::Duplicate { .. }), "kill {kill}: {id} was lost: {marked:?}");
                }
            }
        }
    });
}

/// Asks again while broken connections that a kill has left in the pool are found one by one.
async fn until_answered(store: &PostgresStore, marks: &[Mark]) -> Answers<Marked> {
    for _ in 0..20 {
        match store.mark(marks).await {
            Err(error) if error.kind().is_transient() => {}
            answered => return answered,
        }
    }
    store.mark(marks).await
}

/// Marks ids until it is told to stop or the server is gone. Returns those that were acknowledged.
async fn mark_until(
    store: Arc<PostgresStore>,
    prefix: String,
    done: Arc<AtomicBool>,
    begun: Arc<Semaphore>,
) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for batch in 0.. {
        if done.load(Ordering::Relaxed) {
            break;
        }
        let ids: Vec<String> = (0..32).map(|i| format!("{prefix} {batch} {i}")).collect();
        let marks: Vec<Mark> = ids.iter().map(|id| mark(id, 1, HOUR)).collect();
        match store.mark(&marks).await {
            Ok(_) => {
                acknowledged.extend(ids);
                begun.add_permits(1);
            }
            Err(error) => assert!(error.kind().is_transient(), "{error}"),
        }
    }
    acknowledged
}

#[test]
fn a_network_that_misbehaves_gives_errors_in_time_and_loses_no_id() {
    let Some(server) = shared() else { return };
    runtime().block_on(async {
        let proxy = Proxy::to(([127, 0, 0, 1], server.port).into()).await;
        let address = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", proxy.address().port());
        let options = PostgresOptions::parse(&address).unwrap();
        let store = store(options.timeout(Duration::from_secs(1)).unwrap(), "cut");
        store.migrate().await.expect("tables");
        let mark_it = async |id: &str| store.mark(&[mark(id, 1, HOUR)]).await.map(|answers| all(Ok(answers)));

        assert_eq!(all(until_answered(&store, &[mark("before", 1, HOUR)]).await), [Marked::Fresh]);
        proxy.cut();
        let cut = mark_it("cut").await;
        assert!(cut.as_ref().is_ok_and(|marked| *marked == [Marked::Fresh]) || is_transient(&cut), "{cut:?}");

        // Requests arrive, answers do not; nothing arrives at all; nobody is there.
        for (mode, id) in [(Mode::Mute, "mute"), (Mode::Stall, "stall"), (Mode::Refuse, "refuse")] {
            // A connection to be misused.
            until_answered(&store, &[mark(format!("{id} warm"), 1, HOUR)]).await.expect("an answer");
            proxy.set(mode);
            let asked = Instant::now();
            let answer = mark_it(id).await;
            assert!(is_transient(&answer), "{mode:?}: {answer:?}");
            assert!(asked.elapsed() < PATIENCE, "{mode:?}: an error after {:?}", asked.elapsed());
            proxy.set(Mode::Pass);
            // Whether it was done or not, a repetition of the same attempt gets the same answer.
            assert_eq!(all(until_answered(&store, &[mark(id, 1, HOUR)]).await), [Marked::Fresh], "{mode:?}");
            let again = all(until_answered(&store, &[mark(id, 2, HOUR)]).await);
            assert!(matches!(again[..], [Marked::Duplicate { .. }]), "{mode:?}");
        }
    });
}

fn is_transient<A>(answer: &Result<A, StoreError>) -> bool {
    answer.as_ref().is_err_and(|error| error.kind().is_transient())
}

/// Checks that a call that is dropped in the middle of a transaction leaves no lock behind.
#[test]
fn a_dropped_call_holds_nothing() {
    let Some(server) = shared() else { return };
    runtime().block_on(async {
        let store = store(options(&server).connections(2).unwrap(), "dropped");
        store.migrate().await.expect("tables");
        let records: Vec<Record> = (0..200u32)
            .map(|id| Record {
                key: RecordKey::new(&Scope::default(), id.to_be_bytes()),
                retention: HOUR,
                fingerprint: None,
                result: None,
            })
            .collect();
        all(store.record(&records).await);
        for i in 0..60 {
            // Somewhere between the beginning and the end of it.
            let _ = tokio::time::timeout(Duration::from_micros(150 * i), store.record(&records)).await;
            all(store.record(&records[..1]).await);
        }
        let admin = client(&server.address()).await;
        let end = Instant::now() + PATIENCE;
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'";
        while admin.query_one(waiting, &[]).await.expect("a count").get::<_, i64>(0) > 0 {
            assert!(Instant::now() < end, "a transaction was left open");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

/// Checks that each id is found by its key: as many rows are read as are asked for, however many
/// there are.
#[test]
fn no_statement_reads_more_than_it_is_asked_for() {
    const ROWS: usize = 20_000;
    let Some(server) = shared() else { return };
    runtime().block_on(async {
        let admin = client(&server.address()).await;
        let options = options(&server);
        let filling = store(options.clone(), "large");
        filling.migrate().await.expect("tables");
        // Two partitions, and statements that were first planned when both were empty.
        let planned = store(options.connections(1).unwrap(), "large");
        touch(&planned, &["first".into()]).await;
        fill(&filling, "old", ROWS).await;
        admin.batch_execute("UPDATE large_buckets SET opened_at = opened_at - interval '2 days'").await.unwrap();
        filling.expire(1).await.expect("a rotation");
        assert_eq!(partitions(&admin, "large").await, 2);
        touch(&planned, &["second".into()]).await;
        fill(&filling, "new", ROWS).await;
        drop(filling);

        let ids: Vec<String> =
            (0..100).flat_map(|i| [format!("old {i}"), format!("new {i}"), format!("no {i}")]).collect();
        let before = rows_read(&admin, ROWS).await;
        touch(&planned, &ids).await;
        drop(planned);
        let read = rows_read(&admin, ROWS).await - before;
        // Insert, look up, lock, write, remove, four times: a few rows for each.
        assert!(read < 40 * ids.len() as i64, "{read} rows were read for {} ids", ids.len());
    });
}

async fn fill(store: &PostgresStore, prefix: &str, rows: usize) {
    let marks: Vec<Mark> = (0..rows).map(|i| mark(format!("{prefix} {i}"), 1, HOUR)).collect();
    for batch in marks.chunks(1_024) {
        all(store.mark(batch).await);
    }
}

/// Runs every kind of statement for these ids.
async fn touch(store: &PostgresStore, ids: &[String]) {
    let keys: Vec<RecordKey> = ids.iter().map(|id| RecordKey::new(&Scope::default(), id)).collect();
    all(store.mark(&ids.iter().map(|id| mark(id, 2, HOUR)).collect::<Vec<_>>()).await);
    all(store.look_up(&keys).await);
    let record = |key| Record { key, retention: HOUR, fingerprint: None, result: None };
    all(store.record(&keys.iter().cloned().map(record).collect::<Vec<_>>()).await);
    all(store.forget(&keys).await);
}

/// Returns the rows and index entries that have been read so far, once all inserted rows have been
/// counted.
async fn rows_read(admin: &Client, rows: usize) -> i64 {
    let sql = "SELECT coalesce(sum(n_tup_ins), 0)::bigint, \
               coalesce(sum(seq_tup_read), 0)::bigint + coalesce(sum(idx_tup_fetch), 0)::bigint \
               + (SELECT coalesce(sum(idx_tup_read), 0)::bigint FROM pg_stat_user_indexes \
               WHERE relname LIKE 'large\\_0\\_%') \
               FROM pg_stat_user_tables WHERE relname LIKE 'large\\_0\\_%'";
    let (mut last, end) = ((-1, -1), Instant::now() + PATIENCE);
    loop {
        let row = admin.query_one(sql, &[]).await.expect("statistics");
        let now: (i64, i64) = (row.get(0), row.get(1));
        // Connections report when they end, a moment after they were told to.
        if now == last && now.0 >= 2 * rows as i64 {
            return now.1;
        }
        assert!(Instant::now() < end, "statistics come to no rest: {now:?}");
        last = now;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}
