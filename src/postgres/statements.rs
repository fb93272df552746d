//! What is said to the server, as pure functions of names: both drivers say the same.

use super::tables::{Queue, Tables};

/// Holds the partition that is open until the transaction ends, so that all who write agree on it.
///
/// That the next statement sees all that was written before the partition was opened is due to READ COMMITTED, in which
/// each statement sees what was committed before it. Where a transaction sees one state only, a lock on the partition's
/// row says whether that state is too old: the server refuses to lock a row that has changed since (SQLSTATE 40001).
pub(super) fn hold_bucket(tables: &Tables) -> [String; 2] {
    let (lock, buckets) = (tables.lock("marks", &[]), tables.buckets());
    [
        format!("SELECT pg_advisory_xact_lock_shared({lock})"),
        format!(
            "SELECT FROM {buckets} WHERE closed_at IS NULL \
             AND current_setting('transaction_isolation') <> 'read committed' FOR SHARE"
        ),
    ]
}

/// Nobody else writes a message of this key until the transaction ends.
pub(super) fn hold_key(tables: &Tables, queue: Queue, name: &str, key: &[u8]) -> String {
    let lock = tables.lock("key", &[queue.name().as_bytes(), name.as_bytes(), key]);
    format!("SELECT pg_advisory_xact_lock({lock})")
}

/// Marks an id that no partition has: `$1` the consumer, `$2` the id.
fn marked(tables: &Tables) -> String {
    let (marks, buckets) = (tables.marks(), tables.buckets());
    format!(
        "current AS MATERIALIZED (SELECT max(bucket) AS bucket FROM {buckets}), \
         marked AS (INSERT INTO {marks} (bucket, consumer, id) SELECT c.bucket, $1, $2 FROM current c \
         WHERE NOT EXISTS (SELECT FROM {marks} m WHERE m.consumer = $1 AND m.id = $2 AND m.bucket < c.bucket OFFSET 0) \
         ON CONFLICT DO NOTHING RETURNING first_at)"
    )
}

const MICROS: &str = "(extract(epoch FROM first_at) * 1000000)::bigint AS first_at";

/// Marks an id: `$1` the consumer, `$2` the id. When, or nothing if it was marked.
pub(super) fn mark(tables: &Tables) -> String {
    format!("WITH {} SELECT {MICROS} FROM marked", marked(tables))
}

/// When an id was marked: `$1` the consumer, `$2` the id.
pub(super) fn first_at(tables: &Tables) -> String {
    let marks = tables.marks();
    format!("SELECT {MICROS} FROM {marks} WHERE consumer = $1 AND id = $2 ORDER BY 1 LIMIT 1")
}

/// The same of an id that was received, which may wait from before its mark was dropped: `$3` the whole id.
pub(super) fn first_received_at(tables: &Tables) -> String {
    let (marks, inbox) = (tables.marks(), tables.queue(Queue::Inbox));
    format!(
        "SELECT {MICROS} FROM (SELECT first_at FROM {marks} WHERE consumer = $1 AND id = $2 \
         UNION ALL SELECT enqueued_at FROM {inbox} WHERE name = $1 AND id = $3) AS s ORDER BY 1 LIMIT 1"
    )
}

/// Marks an id and stores its message: `$1` the consumer, `$2` the id as it is marked, `$3` the whole id, `$4` the key,
/// `$5` the payload. Its position, or nothing if it was marked, or waits from before its mark was dropped.
pub(super) fn receive(tables: &Tables) -> String {
    let (inbox, notify) = (tables.queue(Queue::Inbox), notify(tables, Queue::Inbox));
    format!(
        "WITH {}, stored AS (INSERT INTO {inbox} (name, id, key, payload) SELECT $1, $3, $4, $5 FROM marked \
         ON CONFLICT (name, id) DO NOTHING RETURNING position) SELECT position, {notify} FROM stored",
        marked(tables)
    )
}

/// Stores a message to be published: `$1` the topic, `$2` the id, `$3` the key, `$4` the payload.
pub(super) fn enqueue(tables: &Tables) -> String {
    let (outbox, notify) = (tables.queue(Queue::Outbox), notify(tables, Queue::Outbox));
    format!(
        "WITH stored AS (INSERT INTO {outbox} (name, id, key, payload) VALUES ($1, $2, $3, $4) RETURNING position) \
         SELECT position, {notify} FROM stored"
    )
}

/// Sent when the transaction commits, once, however often it is said.
fn notify(tables: &Tables, queue: Queue) -> String {
    format!("pg_notify('{}', '')::text", tables.channel(queue))
}

/// Begins to listen.
pub(super) fn listen(tables: &Tables, queue: Queue) -> String {
    format!("LISTEN {}", tables.channel(queue))
}

/// So many of the oldest messages are looked at before all keys are.
const NEAR: usize = 256;

/// Claims messages: `$1` whose (or anybody's), `$2` how many first ones, `$3` how many behind each, `$4` the lease in
/// microseconds.
///
/// A message may be taken if it is due, and nothing of its key is in front of it. Whoever has the first message of a key
/// has those behind it, too: they are no first ones until it is gone.
///
/// Usually enough of the oldest messages are such. If not, a key may have more of them than were looked at, and then the
/// first message of each key is looked up, from one key to the next, however many there are behind it. `OFFSET 0` keeps
/// each look at what is in front a look-up by index.
pub(super) fn claim(tables: &Tables, queue: Queue) -> String {
    let table = tables.queue(queue);
    let waits = "m.dead_at IS NULL AND ($1::text IS NULL OR m.name = $1)";
    let next_key = |behind: &str| {
        format!(
            "SELECT m.name, m.key, m.position, m.due_at FROM {table} m \
             WHERE {waits} AND m.key IS NOT NULL {behind} ORDER BY m.name, m.key, m.position LIMIT 1"
        )
    };
    let (first_key, next_key) = (next_key(""), next_key("AND (m.name, m.key) > (k.name, k.key)"));
    format!(
        "WITH RECURSIVE near AS MATERIALIZED (SELECT m.position, m.name, m.key, m.due_at FROM {table} m \
         WHERE {waits} ORDER BY m.position LIMIT {NEAR}), \
         near_first AS MATERIALIZED (SELECT n.position FROM near n WHERE n.due_at <= clock_timestamp() \
         AND (n.key IS NULL OR NOT EXISTS (SELECT FROM {table} f WHERE f.dead_at IS NULL AND f.name = n.name \
         AND f.key = n.key AND f.position < n.position OFFSET 0))), \
         keys AS (({first_key}) UNION ALL SELECT n.* FROM keys k CROSS JOIN LATERAL ({next_key}) n), \
         far AS MATERIALIZED (SELECT (SELECT count(*) FROM near) = {NEAR} \
         AND (SELECT count(*) FROM near_first) < $2 AS is_needed), \
         candidates AS MATERIALIZED (SELECT position FROM near_first \
         UNION SELECT position FROM keys WHERE (SELECT is_needed FROM far) AND due_at <= clock_timestamp() \
         UNION (SELECT m.position FROM {table} m WHERE (SELECT is_needed FROM far) AND {waits} AND m.key IS NULL \
         AND m.due_at <= clock_timestamp() ORDER BY m.position LIMIT $2)), \
         first AS MATERIALIZED (SELECT m.position, m.name, m.key FROM candidates c JOIN {table} m USING (position) \
         WHERE m.dead_at IS NULL AND m.due_at <= clock_timestamp() \
         ORDER BY m.position LIMIT $2 FOR UPDATE OF m SKIP LOCKED), \
         taken AS MATERIALIZED (SELECT position FROM first UNION ALL SELECT b.position FROM first f CROSS JOIN LATERAL \
         (SELECT m.position FROM {table} m WHERE m.dead_at IS NULL AND m.name = f.name AND m.key = f.key \
         AND m.position > f.position ORDER BY m.position LIMIT $3) b) \
         UPDATE {table} m SET token = m.token + 1, due_at = clock_timestamp() + $4 * interval '1 microsecond' \
         FROM taken WHERE m.position = taken.position \
         RETURNING m.position, m.token, m.attempts, m.name, m.key, m.id, m.payload"
    )
}

/// Begins an attempt, if the claim still holds: `$1` the position, `$2` the token, `$3` the lease in microseconds. How
/// many were begun.
pub(super) fn begin_attempt(tables: &Tables, queue: Queue) -> String {
    let table = tables.queue(queue);
    format!(
        "UPDATE {table} SET attempts = attempts + 1, due_at = clock_timestamp() + $3 * interval '1 microsecond' \
         WHERE position = $1 AND token = $2 RETURNING attempts"
    )
}

/// Locks a message, if the claim still holds: `$1` the position, `$2` the token. Nobody takes it until the transaction
/// ends, even if its lease does.
pub(super) fn lock(tables: &Tables, queue: Queue) -> String {
    format!("SELECT FROM {} WHERE position = $1 AND token = $2 FOR UPDATE", tables.queue(queue))
}

/// Removes a message that is locked: `$1` the position.
pub(super) fn remove(tables: &Tables, queue: Queue) -> String {
    format!("DELETE FROM {} WHERE position = $1", tables.queue(queue))
}

/// What came of messages, as far as the claims still hold: positions, tokens, what (as
/// [`Fate`](super::queue::Fate) has it), errors, attempts, microseconds until they are tried again.
///
/// Locked in the order of positions, as [`claim`] does, so that nobody waits in a circle.
pub(super) fn settle(tables: &Tables, queue: Queue) -> String {
    let table = tables.queue(queue);
    format!(
        "WITH held AS MATERIALIZED (SELECT m.position, u.fate, u.error, u.attempts, u.delay FROM {table} m \
         JOIN unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::text[], $5::int[], $6::float8[]) \
         AS u(position, token, fate, error, attempts, delay) ON m.position = u.position AND m.token = u.token \
         ORDER BY m.position FOR UPDATE OF m), \
         done AS (DELETE FROM {table} m USING held h WHERE m.position = h.position AND h.fate = 0 RETURNING m.position), \
         kept AS (UPDATE {table} m SET token = m.token + 1, attempts = h.attempts, \
         error = coalesce(h.error, m.error), \
         dead_at = CASE WHEN h.fate = 2 THEN clock_timestamp() END, \
         due_at = clock_timestamp() + h.delay * (0.5 + random() / 2) * interval '1 microsecond' \
         FROM held h WHERE m.position = h.position AND h.fate <> 0 RETURNING m.position) \
         SELECT (SELECT count(*) FROM done) + (SELECT count(*) FROM kept)"
    )
}

/// Dead letters, oldest first: `$1` whose (or anybody's), `$2` behind which position, `$3` how many.
pub(super) fn dead(tables: &Tables, queue: Queue) -> String {
    format!(
        "SELECT position, attempts, name, key, id, payload, error, \
         (extract(epoch FROM dead_at) * 1000000)::bigint AS died_at FROM {} WHERE dead_at IS NOT NULL \
         AND ($1::text IS NULL OR name = $1) AND position > $2 ORDER BY position LIMIT $3",
        tables.queue(queue)
    )
}

/// Makes a dead letter the last of its key: `$1` its position.
pub(super) fn requeue(tables: &Tables, queue: Queue) -> String {
    let (table, notify) = (tables.queue(queue), notify(tables, queue));
    format!(
        "WITH back AS (UPDATE {table} SET dead_at = NULL, attempts = 0, due_at = '-infinity', \
         position = nextval(pg_get_serial_sequence('{table}', 'position')) \
         WHERE position = $1 AND dead_at IS NOT NULL RETURNING position) SELECT position, {notify} FROM back"
    )
}

/// Removes a dead letter: `$1` its position.
pub(super) fn discard(tables: &Tables, queue: Queue) -> String {
    format!("DELETE FROM {} WHERE position = $1 AND dead_at IS NOT NULL RETURNING position", tables.queue(queue))
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
            let statements = [claim, begin_attempt, lock, remove, settle, dead, requeue, discard];
            for sql in statements.map(|statement| statement(&tables, queue)) {
                assert!(sql.contains(&own), "{sql}");
                let others = if queue == Queue::Inbox { Queue::Outbox } else { Queue::Inbox };
                assert!(!sql.contains(&tables.queue(others)), "{sql}");
            }
        }
    }

    #[test]
    fn what_a_caller_says_is_never_in_a_statement() {
        let tables = Tables::default();
        let sql = hold_key(&tables, Queue::Outbox, "'; DROP TABLE x; --", b"';");
        let number = sql.strip_prefix("SELECT pg_advisory_xact_lock(").unwrap().strip_suffix(')').unwrap();
        assert!(number.parse::<i64>().is_ok(), "{sql}");
    }
}
