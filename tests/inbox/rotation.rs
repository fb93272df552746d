//! Partitions begin and go, and nobody stands meanwhile.

use crate::*;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use tokio::task::JoinSet;

/// Marks new ids one after the other until it is told to stop: the longest that one took.
async fn mark_on(place: Arc<Place>, writer: u64, stop: Arc<AtomicBool>) -> (u64, Duration) {
    let (mut client, mut marked, mut longest) = (place.client().await, 0, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let mut tx = client.transaction().await.unwrap();
        let id = [writer.to_be_bytes(), marked_id(marked)].concat();
        assert!(inbox::once(&mut tx, &place.tables, "c", id).await.unwrap().is_first());
        tx.commit().await.unwrap();
        longest = longest.max(began.elapsed());
        marked += 1;
    }
    (marked, longest)
}

fn marked_id(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// Makes the newest partition due, and cleans up, over and over.
async fn clean_up_for(place: &Place, client: &mut Client, time: Duration) -> u32 {
    let retention = Retention::new(50 * HOUR, HOUR).unwrap();
    let (end, mut tries) = (Instant::now() + time, 0);
    while Instant::now() < end {
        place.execute(client, "UPDATE {p}_mark_buckets SET opened_at = opened_at - interval '2 hours'").await;
        let _ = retention.expire(client, &place.tables).await;
        tries += 1;
        tokio::time::sleep(ms(10)).await;
    }
    tries
}

#[test]
fn readers_put_steps_off_and_no_writer_waits() {
    Place::run(async |place| {
        let place = Arc::new(place);
        let reader = place.client().await;
        let both = "BEGIN; SELECT count(*) FROM {p}_marks; LOCK TABLE {p}_marks IN ACCESS SHARE MODE";
        place.execute(&reader, both).await;
        let stop = Arc::new(AtomicBool::new(false));
        let mut writers = JoinSet::new();
        for writer in 0..4 {
            writers.spawn(mark_on(Arc::clone(&place), writer, Arc::clone(&stop)));
        }
        let mut cleaner = place.client().await;
        let tries = clean_up_for(&place, &mut cleaner, ms(700)).await;
        stop.store(true, Ordering::Relaxed);
        let written = writers.join_all().await;
        println!("{tries} tries, {written:?}");
        assert!(written.iter().all(|(marked, longest)| *marked > 0 && *longest < ms(150)), "{written:?}");
    });
}
