//! A store whose partitions begin and go while somebody reads them: nobody waits for the reader.

use crate::*;
use hapax_store::{ErrorKind, Mark, RecordKey, Scope, Store as _};
use std::sync::atomic::AtomicBool;
use tokio::task::JoinSet;

const CALLERS: usize = 3;
const CALLS: usize = 5;
const WRITERS: u64 = 2;

fn mark(id: impl AsRef<[u8]>, retention: Duration) -> Mark {
    let key = RecordKey::new(&Scope::new("s").expect("a scope"), id);
    Mark { key, attempt: 1, retention }
}

/// Marks new ids until it is told to stop. Returns how many.
async fn mark_on(store: Arc<PostgresStore>, writer: u64, stop: Arc<AtomicBool>) -> u64 {
    let mut marked = 0;
    while !stop.load(Ordering::Relaxed) {
        let id = format!("{writer}/{marked}");
        store.mark(&[mark(id, HOUR)]).await.unwrap().remove(0).unwrap();
        marked += 1;
        // A call meets dozens of them.
        tokio::time::sleep(ms(2)).await;
    }
    marked
}

/// Counts looks in which anybody waited for somebody who waited for the reader himself.
async fn look_on(client: Client, reader: i32, stop: Arc<AtomicBool>) -> (u64, u64) {
    let sql = "SELECT count(*) FROM pg_stat_activity w WHERE EXISTS (
        SELECT FROM unnest(pg_blocking_pids(w.pid)) b WHERE $1 = ANY (pg_blocking_pids(b)))";
    let (mut waits, mut looks) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        waits += u64::from(client.query_one(sql, &[&reader]).await.unwrap().get::<_, i64>(0) > 0);
        looks += 1;
        tokio::time::sleep(ms(1)).await;
    }
    (waits, looks)
}

#[test]
fn readers_put_steps_of_a_store_off_and_no_writer_waits() {
    Place::run(async |place| {
        let table = format!("{}_store", place.prefix);
        let options = place.options().partition(HOUR).unwrap();
        let store = Arc::new(PostgresStore::new(options, &table).unwrap());
        store.migrate().await.unwrap();
        let (admin, reader) = (place.client().await, place.client().await);
        let close = format!("UPDATE {table}_buckets SET opened_at = opened_at - interval '2 hours'");
        let over = format!("UPDATE {table}_buckets SET live_until = '-infinity' WHERE live_until IS NOT NULL");
        let buckets = format!("SELECT count(*) FROM {table}_buckets");
        let has_first = format!("SELECT count(*) FROM {table}_buckets WHERE bucket = 1");
        store.mark(&[mark("first", HOUR)]).await.unwrap().remove(0).unwrap();

        // This is what pg_dump does, and a client that has forgotten to commit.
        let reads = format!("BEGIN; SELECT count(*) FROM {table}_records");
        reader.batch_execute(&reads).await.unwrap();
        let (stop, holder) = (Arc::new(AtomicBool::new(false)), pid(&reader).await);
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            writers.spawn(mark_on(Arc::clone(&store), writer, Arc::clone(&stop)));
        }
        let looking = tokio::spawn(look_on(place.client().await, holder, Arc::clone(&stop)));
        let (mut callers, mut conflicts) = (JoinSet::new(), 0);
        for _ in 0..CALLERS {
            let (store, admin, close, over) = (Arc::clone(&store), place.client().await, close.clone(), over.clone());
            callers.spawn(async move {
                let mut conflicts = 0;
                for _ in 0..CALLS {
                    admin.batch_execute(&close).await.unwrap();
                    admin.batch_execute(&over).await.unwrap();
                    match store.expire(100).await {
                        Ok(_) => {}
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                            conflicts += 1;
                        }
                    }
                }
                conflicts
            });
        }
        while let Some(ended) = callers.join_next().await {
            conflicts += ended.unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        let (waits, looks) = looking.await.unwrap();
        let written = writers.join_all().await;
        let begun = admin.query_one(&buckets, &[]).await.unwrap().get::<_, i64>(0);
        println!(
            "{waits} of {looks} looks; {conflicts} of {} calls put off; {begun} partitions; {written:?}",
            CALLERS * CALLS
        );
        assert_eq!(waits, 0, "somebody waits for whoever waits for the reader, in {waits} of {looks} looks");
        assert!(written.iter().all(|marked| *marked > 0), "{written:?}");
        assert!(begun > 1, "none has begun beside the reader");
        assert_eq!(admin.query_one(&has_first, &[]).await.unwrap().get::<_, i64>(0), 1, "it is read");

        // Whoever looked the partitions up while one was made may have missed it: whoever begins
        // one tells all sessions (and so may one who came second, later).
        let told = format!(
            "SELECT count(*) FROM pg_attribute a WHERE a.attrelid = '{table}_records'::regclass AND a.attname = 'bucket'
                AND age(a.xmin) <= (SELECT age(b.xmin) FROM {table}_buckets b ORDER BY bucket DESC LIMIT 1)"
        );
        assert_eq!(place.count(&admin, &told).await, 1);

        reader.batch_execute("COMMIT").await.unwrap();
        admin.batch_execute(&over).await.unwrap();
        until("the first is gone", async || {
            let _ = store.expire(100).await;
            admin.query_one(&has_first, &[]).await.unwrap().get::<_, i64>(0) == 0
        })
        .await;
    });
}
