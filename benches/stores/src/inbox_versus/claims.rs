//! The time that a claim takes, whatever is in front of the messages that it can take: the server's
//! function, as relays call it, in transactions that are committed.

use super::place::Place;
use super::relay::fill;
use super::rows::spread;
use std::time::Instant;

const BAR_MS: f64 = 10.0;

pub async fn run(place: &Place) {
    let keys = place.scale.claimed_keys;
    println!(
        "\n| claim, {keys} keys | of 32, ms: median (least to most) | of 1,000, ms: median (least to most) | bar |"
    );
    println!("|---|---:|---:|---|");
    fill(place, keys, Some(keys)).await;
    place.execute("VACUUM ANALYZE {p}_outbox; VACUUM ANALYZE {p}_outbox_keys").await;
    let (few, many) = (256, keys / 2);
    show(place, "all due", "t").await;
    for (put_off, what) in [(few, "256 oldest backing off"), (many, "half of them, the oldest, backing off")] {
        put_off_oldest(place, put_off, 0).await;
        show(place, what, "t").await;
    }
    put_off_oldest(place, few, 7).await;
    show(place, "and 256 more in flight", "t").await;
    place.execute("UPDATE {p}_outbox_keys SET due_at = 'infinity'").await;
    show(place, "none due", "t").await;
    place.execute("UPDATE {p}_outbox_keys SET due_at = now()").await;
    rare(place).await;
    show(place, "all due, one rare name", "rare").await;

    let place = &place.fresh().await;
    println!("| without keys, {keys} messages | | | |");
    fill(place, keys, None).await;
    place.execute("VACUUM ANALYZE {p}_outbox").await;
    show(place, "all due", "t").await;
    for put_off in [few, many] {
        let sql = "UPDATE {p}_outbox SET due_at = now() + interval '1 hour' WHERE position IN (SELECT position \
            FROM {p}_outbox WHERE due_at <= now() ORDER BY due_at, position LIMIT {n})";
        place.execute(&sql.replace("{n}", &put_off.to_string())).await;
        show(place, &format!("{put_off} oldest backing off"), "t").await;
    }
    rare(place).await;
    show(place, "one rare name", "rare").await;
}

/// Makes the oldest keys due in an hour: those of a token other than 0 are in flight.
async fn put_off_oldest(place: &Place, keys: u64, token: i64) {
    let sql = "UPDATE {p}_outbox_keys SET due_at = now() + interval '1 hour', token = {t} WHERE (name, key) IN \
        (SELECT name, key FROM {p}_outbox_keys WHERE due_at <= now() ORDER BY due_at LIMIT {n})";
    place.execute(&sql.replace("{t}", &token.to_string()).replace("{n}", &keys.to_string())).await;
}

/// Inserts messages of another name, with keys and without.
async fn rare(place: &Place) {
    // Keys of a transaction take locks, whose number is limited.
    for first in (0..12_000).step_by(1_000) {
        let call = "SELECT {p}_outbox_store_one('rare', int8send(n), CASE WHEN n % 2 = 0 THEN int8send(n) END, 'x', \
            NULL, NULL, NULL) FROM generate_series({first}, {first} + 999) n";
        place.execute(&call.replace("{first}", &first.to_string())).await;
    }
}

async fn show(place: &Place, what: &str, name: &str) {
    let (few, many) = (claims(place, name, 32, 30).await, claims(place, name, 1_000, 9).await);
    let verdict = if few.0 <= BAR_MS && many.0 <= BAR_MS { "met" } else { "**not met**" };
    let shown = |(median, least, most): (f64, f64, f64)| format!("{median:.2} ({least:.2} to {most:.2})");
    println!("| {what} | {} | {} | {BAR_MS} ms: {verdict} |", shown(few), shown(many));
}

/// Returns the median of this many claims, the least and the longest, in milliseconds.
async fn claims(place: &Place, name: &str, of: i64, times: i64) -> (f64, f64, f64) {
    let sql = "SELECT * FROM {p}_outbox_take(ARRAY[$1::text], ARRAY[$2::bigint], ARRAY[$3::bigint], '{}', '{}', true, $4, 15, 16777216, 30000000, $5)";
    let claim = place.admin.prepare(&sql.replace("{p}", &place.prefix)).await.expect("a statement");
    let (mut took, mut since) = (Vec::new(), (0_i64, 0_i64));
    for token in 1..=times {
        let begun = Instant::now();
        // As in relays: these need not be on the disk.
        place.admin.batch_execute("BEGIN; SET LOCAL synchronous_commit = off").await.expect("a transaction");
        let claimed = place.admin.query(&claim, &[&name, &since.0, &since.1, &of, &token]).await.expect("an answer");
        place.admin.batch_execute("COMMIT").await.expect("a commit");
        took.push(begun.elapsed().as_secs_f64() * 1e3);
        since = claimed.first().map_or((0, 0), |row| (row.get("since"), row.get("since_position")));
    }
    spread(&took)
}
