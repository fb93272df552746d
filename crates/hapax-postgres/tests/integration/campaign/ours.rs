//! All calls of hapax: nothing else here knows its interface.

use super::ledger::Side;
use super::plan::{Part, Plan, Role};
use crate::{HOUR, ms};
use hapax_postgres::{PostgresOptions, *};
use hapax_store::StoreError;
use std::sync::Arc;
use std::time::SystemTime;
use tokio_postgres::Client;

pub const CONSUMER: &str = "c";
const TOPICS: u64 = 3;
/// The ids from here on are those of messages that the ledger does not track.
const NOBODYS: u64 = 1 << 40;

/// Stores a message. Returns false if it is a duplicate.
pub async fn store(
    tx: &mut tokio_postgres::Transaction<'_>,
    tables: &Tables,
    side: Side,
    id: u64,
    key: Option<u64>,
    payload: &str,
) -> Result<bool, StoreError> {
    let (id, key_text) = (id.to_string(), key.map(|key| key.to_string()));
    let message = NewMessage::new(&id, payload);
    let message = key_text.as_ref().map_or(message, |key| message.key(key));
    match side {
        Side::Inbox => Ok(inbox::receive(tx, tables, CONSUMER, message).await? == Seen::First),
        Side::Outbox => {
            let topic = format!("t{}", key.unwrap_or(0) % TOPICS);
            outbox::enqueue(tx, tables, &topic, message).await.map(|_| true)
        }
    }
}

/// Publishes or handles until the process is killed.
pub async fn work<P: Publisher + Handler>(part: &Part, process: P) -> Result<(), StoreError> {
    let (options, tables) = (PostgresOptions::parse(&part.address)?, Tables::new("public", &part.prefix)?);
    let retry = Retry::new(ms(20), ms(200))?;
    let forever = std::future::pending();
    match part.role {
        Role::Worker => {
            let retry = retry.attempts_max(Some(part.plan.attempts_max()))?;
            let worker = Worker::new(options, tables, CONSUMER)?.lease(part.plan.lease())?.retry(retry);
            worker.poll(ms(200))?.run(Arc::new(process), forever).await
        }
        Role::Relay => {
            let relay = Relay::new(options, tables).publish_timeout(part.plan.publish_timeout())?.retry(retry);
            relay.poll(ms(200))?.run(Arc::new(process), forever).await
        }
    }
}

/// Returns an error that says that no other attempt can help.
pub fn hopeless(why: &str) -> BoxError {
    crate::GiveUp::because(why).into()
}

/// Returns dead letters, and their ids.
pub async fn dead_letters(client: &Client, tables: &Tables, side: Side) -> Result<Vec<(DeadLetter, u64)>, StoreError> {
    let letters = match side {
        Side::Inbox => inbox::dead_letters(client, tables, None, 0, 1_000).await?,
        Side::Outbox => outbox::dead_letters(client, tables, None, 0, 1_000).await?,
    };
    let id = |letter: &DeadLetter| std::str::from_utf8(&letter.message.id).ok()?.parse().ok();
    Ok(letters.iter().filter_map(|letter| Some((letter.clone(), id(letter)?))).collect())
}

pub async fn requeue(client: &Client, tables: &Tables, side: Side, letter: &DeadLetter) -> Result<(), StoreError> {
    let letter = Letters::These(std::slice::from_ref(letter));
    match side {
        Side::Inbox => inbox::requeue(client, tables, letter).await.map(drop),
        Side::Outbox => outbox::requeue(client, tables, letter).await.map(drop),
    }
}

/// Begins partitions often, and drops those of long ago.
pub async fn expire(client: &mut Client, tables: &Tables, plan: Plan) -> Result<(), StoreError> {
    let retention = Retention::new(30 * plan.partition(), plan.partition())?;
    retention.expire(client, tables).await.map(drop)
}

/// Stores messages with a key each that are not due before the campaign is over: every other one is
/// scheduled, and keys of the others back off. The ledger does not track them.
pub async fn put_off(client: &mut Client, tables: &Tables, prefix: &str, messages: u64) -> Result<(), StoreError> {
    let at = SystemTime::now() + 1_000 * HOUR;
    let numbers: Vec<u64> = (0..messages).collect();
    for some in numbers.chunks(1_000) {
        let parts: Vec<_> = some.iter().map(|n| (format!("{}", NOBODYS + n), format!("put off {n}"))).collect();
        let messages: Vec<NewMessage<'_>> = parts
            .iter()
            .enumerate()
            .map(|(n, (id, key))| {
                let message = NewMessage::new(id, "fine 0").key(key);
                if n % 2 == 0 { message.due_at(at) } else { message }
            })
            .collect();
        let mut tx = client.transaction().await.expect("a transaction");
        outbox::enqueue_batch(&mut tx, tables, "t0", &messages).await?;
        tx.commit().await.expect("a commit");
    }
    let back_off = format!("UPDATE {prefix}_outbox_keys SET due_at = now() + interval '1000 hours'");
    client.batch_execute(&back_off).await.expect("they are put off");
    Ok(())
}
