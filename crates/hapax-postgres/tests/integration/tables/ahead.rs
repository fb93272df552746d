//! Claims begin behind the last one of their name, where thousands are in flight, and miss nothing.

use crate::queue::counted;
use crate::*;

const FILLED: &str = "INSERT INTO {p}_outbox (name, due_at, id, payload) \
     SELECT 't', clock_timestamp(), int8send(n), 'payload' FROM generate_series(1, {n}) n";

/// Returns the SQL of a claim of up to so many messages, by a caller that has looked through all
/// before, or (0) has not.
fn take(place: &Place, first: usize, since: i64) -> String {
    format!(
        "SELECT position FROM {}_outbox_take('{{t}}', '{{{since}}}', '{{0}}', '{{}}', '{{}}', true, {first}, 0, \
         1000000000, 3e7, 77)",
        place.prefix
    )
}

async fn claim(place: &Place, client: &Client, first: usize) -> Vec<i64> {
    let rows = client.query(&take(place, first, 1), &[]).await.unwrap();
    rows.iter().filter_map(|row| row.get(0)).collect()
}

/// Checks that a message that was locked, and one that is committed late, are found in front of the
/// last claim: after half a second, or when nothing is behind it.
pub async fn finds_what_is_in_front(place: &Place, client: &Client) {
    place.execute(client, &FILLED.replace("{n}", "600")).await;
    let operator = place.client().await;
    place.execute(&operator, "BEGIN; SELECT FROM {p}_outbox WHERE position = 7 FOR UPDATE").await;
    let mut claimed = claim(place, client, 300).await;
    assert!(claimed.len() == 300 && !claimed.contains(&7), "nobody waits for it");
    operator.batch_execute("ROLLBACK").await.unwrap();
    claimed.extend(claim(place, client, 100).await);
    place.execute(client, "UPDATE {p}_outbox_claims SET whole_at = whole_at - interval '1 second'").await;
    claimed.extend(claim(place, client, 100).await);
    assert!(claimed.contains(&7), "its lock is gone");
    claimed.extend(claim(place, client, 1_000).await);
    let late = "INSERT INTO {p}_outbox (name, due_at, id, payload) SELECT name, due_at, 'late', '' FROM {p}_outbox \
         WHERE position = 8";
    place.execute(client, late).await;
    claimed.extend(claim(place, client, 1_000).await);
    claimed.sort_unstable();
    assert_eq!(claimed, (1..=601).collect::<Vec<i64>>(), "each once");
}

#[test]
fn what_is_in_front_of_the_last_claim_is_found() {
    Place::run(async |place| {
        let client = place.client().await;
        finds_what_is_in_front(&place, &client).await;
    });
}

#[test]
fn a_claim_passes_nothing_that_is_in_flight() {
    Place::run(async |place| {
        let client = place.client().await;
        place.execute(&client, &FILLED.replace("{n}", "9000")).await;
        place.execute(&client, "VACUUM ANALYZE {p}_outbox").await;
        for _ in 0..8 {
            assert_eq!(claim(&place, &client, 1_000).await.len(), 1_000);
        }
        let pages = async |since| {
            client.batch_execute("BEGIN").await.unwrap();
            place.execute(&client, "UPDATE {p}_outbox_claims SET whole_at = clock_timestamp()").await;
            let of = counted(&client, "BUFFERS", &take(&place, 32, since)).await;
            client.batch_execute("ROLLBACK").await.unwrap();
            of("Shared Hit Blocks") + of("Shared Read Blocks")
        };
        let all = pages(0).await;
        // On a busy machine half a second may pass in between.
        until("a claim begins behind the last", async || 2 * pages(1).await < all).await;
    });
}
