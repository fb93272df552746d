//! What is said to the server, as pure functions of names: both drivers say the same.

use super::tables::{Queue, Tables};

/// Marks an id: `$1` the consumer, `$2` the id. When it was marked, or null.
pub(super) fn once(tables: &Tables) -> String {
    format!("SELECT {}($1, $2) AS first_at", tables.function("once"))
}

/// Marks an id and stores its message: see `inbox.sql`. When it was marked, or null.
pub(super) fn receive(tables: &Tables) -> String {
    format!("SELECT {}($1, $2, $3, $4, $5, $6, $7, $8) AS first_at", tables.function("inbox_receive"))
}

/// A call of one of a queue's functions with so many values.
fn call(tables: &Tables, queue: Queue, function: &str, values: usize) -> String {
    let values: Vec<String> = (1..=values).map(|n| format!("${n}")).collect();
    format!(
        "SELECT * FROM {} AS {function}",
        format_args!("{}({})", tables.queue_function(queue, function), values.join(", "))
    )
}

/// Stores messages: see `queue.sql`.
pub(super) fn store(tables: &Tables, queue: Queue) -> String {
    call(tables, queue, "store", 7)
}

/// Stores a message: see `queue.sql`.
pub(super) fn store_one(tables: &Tables, queue: Queue) -> String {
    call(tables, queue, "store_one", 7)
}

/// Claims messages: see `queue.sql`.
pub(super) fn claim(tables: &Tables, queue: Queue) -> String {
    call(tables, queue, "claim", 8)
}

/// Looks for names that have something due: see `queue.sql`.
pub(super) fn names(tables: &Tables, queue: Queue) -> String {
    call(tables, queue, "names", 1)
}

/// Begins an attempt: see `queue.sql`.
pub(super) fn begin(tables: &Tables, queue: Queue) -> String {
    call(tables, queue, "begin", 5)
}

/// Says what came of claims: see `queue.sql`.
pub(super) fn settle(tables: &Tables, queue: Queue) -> String {
    call(tables, queue, "settle", 11)
}

/// Says that somebody is awake: see `queue.sql`.
pub(super) fn awake(tables: &Tables, queue: Queue) -> String {
    call(tables, queue, "awake", 2)
}

/// Lets dead letters be tried again: see `queue.sql`.
pub(super) fn requeue(tables: &Tables, queue: Queue) -> String {
    call(tables, queue, "requeue", 4)
}

/// Removes dead letters: see `queue.sql`.
pub(super) fn discard(tables: &Tables, queue: Queue) -> String {
    call(tables, queue, "discard", 4)
}

/// Counts what there is: see `queue.sql`.
pub(super) fn figures(tables: &Tables, queue: Queue) -> String {
    call(tables, queue, "figures", 2)
}

/// Locks a message, if the claim still holds: `$1` the position, `$2` the token. Nobody takes it until the transaction
/// ends, even if its lease does. Which process of the server has it.
pub(super) fn lock(tables: &Tables, queue: Queue) -> String {
    let table = tables.queue(queue);
    format!(
        "SELECT pg_catalog.pg_backend_pid() AS pid FROM {table} WHERE position = $1 AND token = $2 FOR UPDATE SKIP LOCKED"
    )
}

/// Removes a message that is locked.
pub(super) fn remove(tables: &Tables, queue: Queue, position: i64) -> String {
    format!("DELETE FROM {} WHERE position = {position}", tables.queue(queue))
}

/// Dead letters, oldest first: `$1` whose (or anybody's), `$2` behind which position, `$3` how many.
pub(super) fn dead(tables: &Tables, queue: Queue) -> String {
    format!(
        "SELECT position, attempts, name, key, id, payload, headers, error, \
         (extract(epoch FROM enqueued_at) * 1000000)::bigint AS enqueued_at, \
         (extract(epoch FROM dead_at) * 1000000)::bigint AS died_at FROM {} WHERE dead_at IS NOT NULL \
         AND ($1::text IS NULL OR name = $1) AND position > $2 ORDER BY position LIMIT $3",
        tables.queue(queue)
    )
}

/// Inserts rows for change data capture: the topic, and arrays of ids, keys, payloads and headers.
pub(super) fn capture(tables: &Tables) -> String {
    format!("SELECT {}($1, $2, $3, $4, $5) AS inserted", tables.function("capture"))
}

/// Removes old rows of change data capture: `$1` how many microseconds old, `$2` how many of them.
pub(super) fn capture_expire(tables: &Tables) -> String {
    format!("SELECT {}($1, $2) AS removed", tables.function("capture_expire"))
}

/// Nobody marks until the transaction ends.
pub(super) fn hold_all_buckets(tables: &Tables, lock_timeout_ms: u128) -> String {
    let lock = tables.lock("marks", &[]);
    format!("SET LOCAL lock_timeout = {lock_timeout_ms}; SELECT pg_advisory_xact_lock({lock})")
}

/// What there is to clean up, oldest first, at most `$3` of it: `$1` how many microseconds a partition is open, `$2` how
/// many longer it is kept.
pub(super) fn due(tables: &Tables) -> String {
    format!(
        "SELECT bucket, closed_at IS NULL AS is_open FROM {} WHERE CASE WHEN closed_at IS NULL \
         THEN opened_at + $1 * interval '1 microsecond' ELSE closed_at + $2 * interval '1 microsecond' END \
         <= clock_timestamp() ORDER BY bucket LIMIT $3",
        tables.buckets()
    )
}

/// Whether a partition is still open, now that nobody else changes that.
pub(super) fn is_open(tables: &Tables, bucket: i32) -> String {
    format!("SELECT FROM {} WHERE bucket = {bucket} AND closed_at IS NULL", tables.buckets())
}

/// Closes a partition, and opens the next.
pub(super) fn rotate(tables: &Tables, bucket: i32, next: i32) -> String {
    let (buckets, marks, partition) = (tables.buckets(), tables.marks(), tables.partition(next));
    format!(
        "UPDATE {buckets} SET closed_at = clock_timestamp() WHERE bucket = {bucket}; \
         CREATE TABLE {partition} PARTITION OF {marks} FOR VALUES IN ({next}); \
         INSERT INTO {buckets} (bucket) VALUES ({next})"
    )
}

/// Removes a partition: nothing is left to do if somebody else has.
pub(super) fn drop_bucket(tables: &Tables, bucket: i32) -> String {
    let (buckets, partition) = (tables.buckets(), tables.partition(bucket));
    format!("DROP TABLE IF EXISTS {partition}; DELETE FROM {buckets} WHERE bucket = {bucket}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_speak_of_their_own_tables_only() {
        let tables = Tables::new("app", "shop").unwrap();
        for queue in [Queue::Inbox, Queue::Outbox] {
            let own = tables.queue(queue);
            let statements = [store, store_one, claim, names, begin, settle, awake, requeue, discard, figures];
            let plain = [lock, dead];
            for sql in statements.map(|statement| statement(&tables, queue)) {
                assert!(sql.contains(&format!("\"app\".\"shop_{}_", queue.name())), "{sql}");
            }
            for sql in plain.map(|statement| statement(&tables, queue)) {
                assert!(sql.contains(&own), "{sql}");
                let others = if queue == Queue::Inbox { Queue::Outbox } else { Queue::Inbox };
                assert!(!sql.contains(&tables.queue(others)), "{sql}");
            }
        }
    }
}
