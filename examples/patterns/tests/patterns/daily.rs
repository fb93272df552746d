//! Once a day: the key has a date.

use crate::harness::{Delivery, Failed, Place, Trial, evening, judge};
use crate::rows::value;
use hapax_patterns::once_a_day::{self, first_that_day};
use std::time::{Duration, SystemTime};
use tokio_postgres::Client;

const POINTS: &str = "CREATE TABLE points (user_id bigint)";

/// Adds a point for the first visit of a day.
async fn visit(client: &mut Client, user: i64, happened_at: SystemTime) -> Result<(), Failed> {
    let tx = client.transaction().await?;
    if first_that_day(&tx, user, "visit", happened_at, "UTC").await? {
        tx.execute("INSERT INTO points VALUES ($1)", &[&user]).await?;
    }
    Ok(tx.commit().await?)
}

#[test]
fn a_visit_counts_once_a_day_and_the_time_of_receipt_is_found_out() {
    Place::run(&format!("{}; {POINTS}", once_a_day::TABLE), async |place| {
        // Two visits on one day, and one on the next.
        let trial = Trial { before: "", orders: &[&[1, 2, 3], &[1, 3, 1, 2, 3]] };
        let happened_at = |message| evening() + Duration::from_secs([0, 60, 86_400][message as usize - 1]);
        let good = async |client: &mut Client, delivery: Delivery| {
            visit(client, delivery.key, happened_at(delivery.message)).await
        };
        let effect = async |client: &Client, key| {
            value(client, "SELECT count(*)::text FROM points WHERE user_id = $1", key).await
        };
        let trials = judge(&place, &trial, good, effect, "2").await.unwrap();
        println!("once a day: {trials} trials");

        // One visit, whose copy comes after midnight.
        let once = Trial { before: "", orders: &[&[1], &[1, 1]] };
        let naive = async |client: &mut Client, delivery: Delivery| visit(client, delivery.key, delivery.at).await;
        let found = judge(&place, &once, naive, effect, "1").await.unwrap_err();
        assert!(found.contains(r#"got "2""#), "{found}");
    });
}

#[test]
fn a_day_is_that_of_the_time_zone() {
    Place::run(once_a_day::TABLE, async |place| {
        let client = &place.connect().await.client;
        let first = async |user, hours: u64, zone: &str| {
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(hours * 3_600);
            first_that_day(client, user, "visit", at, zone).await.unwrap()
        };
        // 2026-03-28 23:00 UTC is the next day in Berlin, and that day has 23 hours: summer begins.
        let midnight = 20_540 * 24 + 23;
        assert!(first(1, midnight - 1, "Europe/Berlin").await);
        assert!(first(1, midnight, "Europe/Berlin").await);
        assert!(!first(1, midnight + 22, "Europe/Berlin").await);
        assert!(first(1, midnight + 23, "Europe/Berlin").await);
        assert!(first(2, midnight, "UTC").await);
        assert!(first(2, midnight + 1, "UTC").await);
        assert!(!first(2, midnight + 23, "UTC").await);
        let unknown = first_that_day(client, 3, "visit", evening(), "Europe/Nowhere").await;
        assert!(unknown.is_err(), "a zone that there is not: {unknown:?}");
    });
}
