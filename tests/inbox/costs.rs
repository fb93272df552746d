//! What things cost: `cargo test --features postgres --test inbox costs -- --ignored --nocapture`, figures and no test.

use crate::*;
use std::time::Instant;

struct Nothing;

impl Handler for Nothing {
    async fn handle(&self, _: &mut tokio_postgres::Transaction<'_>, _: &Message) -> Result<(), Failure> {
        Ok(())
    }
}

impl Publisher for Nothing {
    async fn publish(&self, _: &Message) -> Result<(), Failure> {
        Ok(())
    }
}

fn say(what: &str, count: u64, began: Instant) {
    let took = began.elapsed();
    println!("{what}: {:.0} a second, {:?} each", count as f64 / took.as_secs_f64(), took / count as u32);
}

/// Enqueues in transactions of a hundred.
async fn fill(place: &Place, client: &mut Client, keys: u64, count: u64) {
    for hundred in 0..count / 100 {
        let mut tx = client.transaction().await.unwrap();
        for n in hundred * 100..hundred * 100 + 100 {
            let (id, key) = (n.to_be_bytes(), (n % keys).to_be_bytes());
            let message = NewMessage::new(&id, "payload").key(&key);
            outbox::enqueue(&mut tx, &place.tables, "t", message).await.unwrap();
        }
        tx.commit().await.unwrap();
    }
}

#[test]
#[ignore = "figures"]
fn costs() {
    Place::run(async |place| {
        let mut client = place.client().await;
        for (a_transaction, count) in [(1, 1_000), (100, 5_000)] {
            for what in ["fresh", "duplicate"] {
                let began = Instant::now();
                for transaction in 0..count / a_transaction {
                    let mut tx = client.transaction().await.unwrap();
                    for n in 0..a_transaction {
                        let id = format!("{a_transaction} {transaction} {n}");
                        let _ = inbox::once(&mut tx, &place.tables, "c", id).await.unwrap();
                    }
                    tx.commit().await.unwrap();
                }
                say(&format!("once, {a_transaction} a transaction, {what}"), count, began);
            }
        }
        let began = Instant::now();
        for n in 0..1_000_u64 {
            let (id, key) = (n.to_be_bytes(), (n % 50).to_be_bytes());
            let _ = place.receive(&mut client, "w", NewMessage::new(&id, "payload").key(&key)).await;
        }
        say("receive, 1 a transaction", 1_000, began);
        let (worker, began) = (place.worker("w"), Instant::now());
        while worker.step(&mut client, &Nothing).await.unwrap() > 0 {}
        say("worker, 50 keys", 1_000, began);
        for keys in [1, 1_000] {
            let began = Instant::now();
            fill(&place, &mut client, keys, 5_000).await;
            say(&format!("enqueue, 100 a transaction, {keys} keys"), 5_000, began);
            let left = "SELECT count(*) FROM {p}_outbox";
            let began = Instant::now();
            let done = until("published", async || place.count(&client, left).await == 0);
            place.relay().run(Arc::new(Nothing), done).await.unwrap();
            say(&format!("relay, {keys} keys"), 5_000, began);
        }
        fill(&place, &mut client, 1, 20_000).await;
        place.execute(&client, "UPDATE {p}_outbox SET due_at = 'infinity'").await;
        place
            .execute(
                &client,
                "UPDATE {p}_outbox SET due_at = '-infinity' WHERE position > (SELECT min(position) FROM {p}_outbox)",
            )
            .await;
        place.enqueue(&mut client, "t", NewMessage::new("free", "").key("another")).await;
        let began = Instant::now();
        let done = until("published", async || place.count(&client, "SELECT count(*) FROM {p}_outbox").await == 20_000);
        place.relay().run(Arc::new(Nothing), done).await.unwrap();
        println!("past 20,000 messages that wait behind one of their key: {:?}", began.elapsed());
    });
}
