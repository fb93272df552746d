//! Partitions begin and are dropped, and no transaction waits meanwhile.

use crate::*;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use tokio::task::JoinSet;
use tokio_postgres::IsolationLevel;
use tokio_postgres::error::SqlState;

const LEVELS: [IsolationLevel; 3] =
    [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead, IsolationLevel::Serializable];

fn retention() -> Retention {
    Retention::new(60 * HOUR, HOUR).unwrap()
}

/// Makes the newest partition due, and cleans up.
async fn expire(place: &Place, client: &Client) -> Cleanup {
    place.execute(client, "UPDATE {p}_mark_buckets SET opened_at = opened_at - interval '2 hours'").await;
    retention().expire(client, &place.tables).await.unwrap()
}

/// A clean-up that began and dropped so many partitions.
fn cleanup(begun: u32, dropped: u32, put_off: bool) -> Cleanup {
    let mut cleanup = Cleanup::default();
    (cleanup.begun, cleanup.dropped, cleanup.put_off) = (begun, dropped, put_off);
    cleanup
}

/// Drops all that is closed, and begins a partition.
async fn expire_all(place: &Place, client: &Client) -> Cleanup {
    place.execute(client, "UPDATE {p}_mark_buckets SET closed_at = closed_at - interval '90 hours'").await;
    let mut all = Cleanup::default();
    loop {
        let done = retention().expire(client, &place.tables).await.unwrap();
        (all.begun, all.dropped, all.put_off) = (all.begun + done.begun, all.dropped + done.dropped, done.put_off);
        if !done.more {
            return all;
        }
    }
}

/// Marks new ids one after the other until it is told to stop. Returns how many, and how long the
/// slowest took.
async fn mark_on(place: Arc<Place>, writer: u64, stop: Arc<AtomicBool>) -> (u64, Duration) {
    let (mut client, mut marked, mut longest) = (place.client().await, 0_u64, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let id = [writer.to_be_bytes(), marked.to_be_bytes()].concat();
        assert!(place.once(&mut client, "c", id).await.is_first());
        longest = longest.max(began.elapsed());
        marked += 1;
    }
    (marked, longest)
}

#[test]
fn readers_put_steps_off_and_no_writer_waits() {
    // The reader reads until so many tries are over: whoever waited for it would wait for ever.
    const TRIES: u32 = 40;
    // Fewer than there are slots: when all are in use, one more is begun as soon as one is free.
    const BEGUN_MAX: u32 = 30;
    Place::run(async |place| {
        let (place, stop) = (Arc::new(place), Arc::new(AtomicBool::new(false)));
        let (reader, cleaner) = (place.client().await, place.client().await);
        expire(&place, &cleaner).await;
        // This is what pg_dump does, and a client that has forgotten to commit.
        let reads = "BEGIN; SELECT count(*) FROM {p}_marks; LOCK TABLE {p}_marks IN ACCESS SHARE MODE";
        place.execute(&reader, reads).await;
        let mut writers = JoinSet::new();
        for writer in 0..4 {
            writers.spawn(mark_on(Arc::clone(&place), writer, Arc::clone(&stop)));
        }
        let (mut all, mut longest) = (Cleanup::default(), Duration::ZERO);
        for _ in 0..TRIES {
            let began = Instant::now();
            place.execute(&cleaner, "UPDATE {p}_mark_buckets SET closed_at = closed_at - interval '90 hours'").await;
            let done = tokio::time::timeout(PATIENCE, async {
                if all.begun < BEGUN_MAX {
                    expire(&place, &cleaner).await
                } else {
                    retention().expire(&cleaner, &place.tables).await.unwrap()
                }
            });
            let done = done.await.expect("it waits for the reader");
            longest = longest.max(began.elapsed());
            (all.begun, all.dropped) = (all.begun + done.begun, all.dropped + done.dropped);
            tokio::time::sleep(ms(10)).await;
        }
        stop.store(true, Ordering::Relaxed);
        let written = tokio::time::timeout(PATIENCE, writers.join_all()).await.expect("a writer waits for the reader");
        println!("{all:?} in up to {longest:?}; {written:?}");
        assert!(written.iter().all(|(marked, _)| *marked > 0), "{written:?}");
        // Partitions begin, but those that the reader has looked at stay; all later ones may be
        // dropped.
        assert!(all.begun > 3, "{all:?}");
        let has = "SELECT count(*) FROM {p}_mark_buckets WHERE bucket <= 2";
        assert_eq!(place.count(&cleaner, has).await, 2);
        assert!(expire_all(&place, &cleaner).await.put_off);
        reader.batch_execute("COMMIT").await.unwrap();
        let done = expire_all(&place, &cleaner).await;
        assert!(done.dropped >= 2 && !done.put_off, "{done:?}");
        assert_eq!(place.count(&cleaner, "SELECT count(*) FROM {p}_mark_buckets").await, 1);
    });
}

/// The server loses a partition that comes while a session is looking its partitions up (seen in a
/// debugger that stopped it there): writes into it fail, and reads find nothing in it, until the
/// session is told of another change. So each step, which is a transaction, tells all sessions.
#[test]
fn each_step_has_all_sessions_look_the_partitions_up_anew() {
    Place::run(async |place| {
        let client = place.client().await;
        let due = "UPDATE {p}_mark_buckets SET opened_at = opened_at - interval '2 hours' WHERE bucket = 1";
        place.execute(&client, due).await;
        let told = async || {
            let sql = "SELECT string_agg(xmin::text, ' ' ORDER BY attrelid) FROM pg_attribute
                WHERE attrelid IN ('{p}_marks'::regclass, '{p}_handled'::regclass) AND attname = 'slot'";
            place.text(&client, sql).await
        };
        let mut before = told().await;
        for step in ["made", "begun", "closed", "made"] {
            assert_eq!(place.text(&client, "SELECT {p}_rotate(3600000000, 216000000000)").await, step);
            let now = told().await;
            assert!(
                before.split(' ').zip(now.split(' ')).all(|(before, now)| before != now),
                "{step}: {before}, {now}"
            );
            before = now;
        }
        assert_eq!(place.text(&client, "SELECT {p}_rotate(3600000000, 216000000000)").await, "nothing");
    });
}

/// Whoever does not know the newer of two partitions yet is to try again, and nothing of it stays.
/// (Here there is none: to a session that has missed it, that is the same.)
#[test]
fn who_has_missed_the_newest_partition_is_to_try_again() {
    Place::run(async |place| {
        let client = place.client().await;
        let state =
            "INSERT INTO {p}_mark_buckets (bucket) VALUES (2); UPDATE {p}_mark_state SET newest = 2, is_double = true";
        place.execute(&client, state).await;
        for call in ["SELECT {p}_once('c', 'a')", "SELECT * FROM {p}_once_batch('c', ARRAY['a', 'b']::bytea[])"] {
            let error = client.query(&call.replace("{p}", &place.prefix), &[]).await.unwrap_err();
            assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{error:?}");
        }
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_marks").await, 0);
    });
}

/// Stops a writer that read the old state, while the next partition begins: only transactions with
/// its ids wait for it.
#[test]
fn who_stands_still_while_a_partition_begins_is_waited_for_by_its_own_ids_only() {
    Place::run(async |place| {
        for (level, commits) in LEVELS.into_iter().flat_map(|level| [(level, true), (level, false)]) {
            let (mut still, mut other, cleaner) = (place.client().await, place.client().await, place.client().await);
            let id = |what: &str| format!("{what} {level:?} {commits}");
            let mut tx = still.build_transaction().isolation_level(level).start().await.unwrap();
            let holder = pid(&tx).await;
            assert!(inbox::once(&mut tx, &place.tables, "c", id("its")).await.unwrap().is_first());
            let batch = inbox::once_batch(&mut tx, &place.tables, "c", &[id("b1"), id("b2")]).await.unwrap();
            assert!(batch.iter().all(|seen| seen.is_first()));

            // The next one has begun, and the one before is written into as long as that stands.
            let begun = expire(&place, &cleaner).await;
            assert_eq!((begun.begun, begun.put_off), (1, true), "{level:?}");
            assert_eq!(expire(&place, &cleaner).await, Cleanup { put_off: true, ..Cleanup::default() });
            assert!(place.once(&mut other, "c", id("new")).await.is_first());
            assert!(!place.once(&mut other, "c", id("new")).await.is_first());

            let watcher = place.client().await;
            let waits = async { place.once(&mut other, "c", id("its")).await.is_first() };
            let ends = async {
                until_somebody_waits(&watcher, holder).await;
                if commits { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
            };
            assert_eq!(tokio::join!(waits, ends).0, !commits, "{level:?}");
            let mut tx = other.transaction().await.unwrap();
            let batch = inbox::once_batch(&mut tx, &place.tables, "c", &[id("b1"), id("b2")]).await.unwrap();
            assert!(batch.iter().all(|seen| seen.is_first() != commits), "{level:?}");
            tx.commit().await.unwrap();

            assert!(!expire(&place, &cleaner).await.put_off);
            for what in ["its", "b1", "b2", "new"] {
                assert!(!place.once(&mut other, "c", id(what)).await.is_first(), "{what} {level:?}");
            }
        }
    });
}

/// Stops a transaction that writes into two partitions, while the older of them is closed.
#[test]
fn who_stands_still_while_a_partition_is_closed_is_waited_for_too() {
    Place::run(async |place| {
        for level in LEVELS {
            let (mut before, mut still, mut other, cleaner) =
                (place.client().await, place.client().await, place.client().await, place.client().await);
            let mut holds = before.transaction().await.unwrap();
            let _ = inbox::once(&mut holds, &place.tables, "c", format!("hold {level:?}")).await.unwrap();
            assert!(expire(&place, &cleaner).await.put_off);
            let mut tx = still.build_transaction().isolation_level(level).start().await.unwrap();
            let holder = pid(&tx).await;
            let id = format!("its {level:?}");
            assert!(inbox::once(&mut tx, &place.tables, "c", &id).await.unwrap().is_first());
            holds.rollback().await.unwrap();
            place.execute(&cleaner, "UPDATE {p}_mark_buckets SET opened_at = clock_timestamp()").await;
            assert!(!retention().expire(&cleaner, &place.tables).await.unwrap().put_off);
            assert_eq!(place.count(&cleaner, "SELECT count(*) FROM {p}_mark_state WHERE NOT is_double").await, 1);

            let watcher = place.client().await;
            let waits = async { place.once(&mut other, "c", &id).await.is_first() };
            let ends = async {
                until_somebody_waits(&watcher, holder).await;
                tx.commit().await.unwrap();
            };
            assert!(!tokio::join!(waits, ends).0, "{level:?}");
        }
    });
}

/// Makes the partition while a transaction that marks is open: it goes on marking, into both.
#[test]
fn a_transaction_marks_on_while_partitions_begin() {
    Place::run(async |place| {
        let (mut client, cleaner) = (place.client().await, place.client().await);
        for round in 0..3 {
            let mut tx = client.transaction().await.unwrap();
            assert!(inbox::once(&mut tx, &place.tables, "c", format!("a{round}")).await.unwrap().is_first());
            assert_eq!(expire(&place, &cleaner).await.begun, 1);
            assert!(inbox::once(&mut tx, &place.tables, "c", format!("b{round}")).await.unwrap().is_first());
            let ids = ["a", "b", "c"].map(|id| format!("{id}{round}"));
            let batch = inbox::once_batch(&mut tx, &place.tables, "c", &ids).await.unwrap();
            assert_eq!(batch.iter().map(|seen| seen.is_first()).collect::<Vec<_>>(), [false, false, true]);
            tx.commit().await.unwrap();
            assert!(!expire(&place, &cleaner).await.put_off);
        }
    });
}

/// Begins partitions as often as there are slots, and more: full slots put it off, and a slot that
/// comes again has no old marks.
#[test]
fn partitions_come_round() {
    Place::run(async |place| {
        let (mut client, cleaner) = (place.client().await, place.client().await);
        let mut ids = 0_u32;
        loop {
            assert!(place.once(&mut client, "c", ids.to_be_bytes()).await.is_first());
            ids += 1;
            let done = expire(&place, &cleaner).await;
            if done.put_off {
                assert_eq!(done.begun, 0);
                break;
            }
            assert_eq!(done.begun, 1);
        }
        assert_eq!(ids, 64);
        let all: Vec<[u8; 4]> = (0..ids).map(u32::to_be_bytes).collect();
        for id in &all {
            assert!(!place.once(&mut client, "c", id).await.is_first(), "{id:?}");
        }
        let mut tx = client.transaction().await.unwrap();
        let batch = inbox::once_batch(&mut tx, &place.tables, "c", &all).await.unwrap();
        assert!(batch.iter().all(|seen| !seen.is_first()));
        // Dropped, it would be rolled back some time later, and might put the removal off.
        tx.rollback().await.unwrap();
        assert_eq!(expire_all(&place, &cleaner).await, cleanup(1, 63, false));
        let mut tx = client.transaction().await.unwrap();
        let batch = inbox::once_batch(&mut tx, &place.tables, "c", &all).await.unwrap();
        let first = batch.iter().filter(|seen| seen.is_first()).count();
        assert_eq!(first, 63, "all but the one in the last partition");
    });
}

#[test]
fn of_many_that_race_while_partitions_begin_one_is_first() {
    Place::run(async |place| {
        let (place, ids) = (Arc::new(place), 120_u64);
        let (mut races, mut random) = (JoinSet::new(), crate::random());
        for racer in 0..6 {
            let (place, mut order) = (Arc::clone(&place), (0..ids).collect::<Vec<_>>());
            // Neighbours are swapped: all threads race, each in an order of its own.
            (0..ids as usize - 1).for_each(|i| order.swap(i, i + random.below(2) as usize));
            races.spawn(async move { race(&place, LEVELS[racer % 3], racer >= 3, &order).await });
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut cleaners = JoinSet::new();
        for _ in 0..2 {
            let (place, stop) = (Arc::clone(&place), Arc::clone(&stop));
            cleaners.spawn(async move {
                let (client, mut begun) = (place.client().await, 0);
                // Not so many that there is no slot left.
                while !stop.load(Ordering::Relaxed) && begun < 20 {
                    begun += expire(&place, &client).await.begun;
                    tokio::time::sleep(ms(10)).await;
                }
                begun
            });
        }
        let (mut first, mut refused) = (Vec::new(), 0);
        for (ids, again) in races.join_all().await {
            first.extend(ids);
            refused += again;
        }
        stop.store(true, Ordering::Relaxed);
        let begun: u32 = cleaners.join_all().await.into_iter().sum();
        first.sort_unstable();
        println!("{begun} partitions begun, {refused} transactions refused");
        assert_eq!(first, (0..ids).collect::<Vec<_>>());
        assert!(begun > 3, "only {begun} partitions were begun");
    });
}

/// Marks ids in this order, some of them in batches, each until it is not refused. Returns those
/// that were first, and how many transactions were refused.
async fn race(place: &Place, level: IsolationLevel, batches: bool, order: &[u64]) -> (Vec<u64>, u64) {
    let (mut client, mut first, mut refused) = (place.client().await, Vec::new(), 0);
    for ids in order.chunks(if batches { 5 } else { 1 }) {
        let bytes: Vec<[u8; 8]> = ids.iter().map(|id| id.to_be_bytes()).collect();
        loop {
            let mut tx = client.build_transaction().isolation_level(level).start().await.unwrap();
            let seen = if batches {
                inbox::once_batch(&mut tx, &place.tables, "c", &bytes).await
            } else {
                inbox::once(&mut tx, &place.tables, "c", bytes[0]).await.map(|seen| vec![seen])
            };
            // A transaction may be refused when it commits, too, if it is serializable.
            if let Ok(seen) = seen
                && tx.commit().await.is_ok()
            {
                first.extend(ids.iter().zip(seen).filter(|(_, seen)| seen.is_first()).map(|(id, _)| *id));
                break;
            }
            refused += 1;
        }
    }
    (first, refused)
}

/// A clock that was a year ahead when a partition began or was closed, and is right again.
#[test]
fn a_clock_that_was_ahead_keeps_no_partition_for_longer() {
    Place::run(async |place| {
        let client = place.client().await;
        let buckets = "SELECT count(*) FROM {p}_mark_buckets";
        let ahead = "UPDATE {p}_mark_buckets SET opened_at = opened_at + interval '1 year', closed_at = closed_at + interval '1 year'";
        place.execute(&client, ahead).await;
        assert_eq!(retention().expire(&client, &place.tables).await.unwrap(), cleanup(0, 0, false));
        // An hour passes.
        assert_eq!(expire(&place, &client).await, cleanup(1, 0, false));
        place.execute(&client, ahead).await;
        assert_eq!(retention().expire(&client, &place.tables).await.unwrap(), cleanup(0, 0, false));
        assert_eq!(place.count(&client, buckets).await, 2, "it is kept for as long as others");
        assert_eq!(expire_all(&place, &client).await, cleanup(0, 1, false));
        assert_eq!(expire(&place, &client).await, cleanup(1, 0, false));
    });
}
