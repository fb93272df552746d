//! The statements for the server, as pure functions of names: both drivers send the same.
//!
//! Callers' search paths may have schemas in which others make operators and functions. So
//! functions are called by their whole names and have a path of their own, and operators here are
//! PostgreSQL's.

use super::tables::{Queue, Tables};

const EQ: &str = "OPERATOR(pg_catalog.=)";

/// Marks an id: `$1` the consumer, `$2` the id. Returns when it was marked, or null.
pub(crate) fn once(tables: &Tables) -> String {
    format!("SELECT {}($1, $2) AS first_at", tables.function("once"))
}

/// Marks ids: `$1` the consumer, `$2` the ids. Returns all that are different, with the time at
/// which they were marked, and whether that was now.
pub(crate) fn once_batch(tables: &Tables) -> String {
    format!("SELECT marked_id, marked_at, is_first FROM {}($1, $2) AS marked", tables.function("once_batch"))
}

/// Marks an id and stores its message: see `inbox.sql`. Returns when it was marked, or null.
pub(crate) fn receive(tables: &Tables) -> String {
    format!("SELECT {}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) AS first_at", tables.function("inbox_receive"))
}

/// Marks an id, and writes down what it was: see `handled.sql`.
pub(crate) fn mark(tables: &Tables) -> String {
    format!("SELECT {}($1, $2, $3, $4, $5, $6, $7) AS first_at", tables.function("mark"))
}

/// Marks ids, and writes down what they were: see `handled.sql`.
pub(crate) fn mark_batch(tables: &Tables) -> String {
    let function = tables.function("mark_batch");
    format!("SELECT marked_id, marked_at, is_first FROM {function}($1, $2, $3, $4, $5, $6, $7) AS marked")
}

/// Removes marks: `$1` the consumer, `$2` the ids.
pub(crate) fn forget(tables: &Tables) -> String {
    format!("SELECT {}($1, $2) AS changed", tables.function("forget"))
}

/// Keeps a handler's result with its message.
pub(crate) fn keep_result(tables: &Tables) -> String {
    format!("SELECT {}($1, $2, $3) AS is_kept", tables.function("inbox_result"))
}

/// Lists what was handled: see `handled.sql`.
pub(crate) fn handled(tables: &Tables) -> String {
    format!("SELECT * FROM {}($1, $2, $3, $4, $5, $6, $7) AS handled", tables.function("handled_list"))
}

/// Requeues what was handled: see `handled.sql`.
pub(crate) fn requeue_handled(tables: &Tables) -> String {
    format!("SELECT {}($1, $2, $3, $4) AS changed", tables.function("handled_requeue"))
}

/// Removes a message that is locked, and writes down what it was: a statement without values, which
/// is sent together with a commit.
pub(crate) fn finish(tables: &Tables, position: i64, processor: Option<&str>, is_whole: bool) -> String {
    let processor = processor.map_or_else(|| "NULL".into(), literal);
    let function = tables.function("inbox_finish");
    format!("SELECT {function}({position}::pg_catalog.int8, {processor}::pg_catalog.text, {is_whole})")
}

/// Returns a text as a literal, whatever `standard_conforming_strings` is.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// Calls a function that returns a single value: the server plans it in less time than a table.
fn ask(tables: &Tables, queue: Queue, function: &str, values: usize) -> String {
    let values: Vec<String> = (1..=values).map(|n| format!("${n}")).collect();
    format!("SELECT {}({}) AS {function}", tables.queue_function(queue, function), values.join(", "))
}

/// Calls one of a queue's functions with this many values.
fn call(tables: &Tables, queue: Queue, function: &str, values: usize) -> String {
    let values: Vec<String> = (1..=values).map(|n| format!("${n}")).collect();
    format!(
        "SELECT * FROM {} AS {function}",
        format_args!("{}({})", tables.queue_function(queue, function), values.join(", "))
    )
}

/// Stores messages: see `queue.sql`.
pub(crate) fn store(tables: &Tables, queue: Queue) -> String {
    ask(tables, queue, "store", 10)
}

/// Stores a message: see `queue.sql`.
pub(crate) fn store_one(tables: &Tables, queue: Queue) -> String {
    ask(tables, queue, "store_one", 10)
}

/// Claims messages: see `queue.sql`.
pub(crate) fn claim(tables: &Tables, queue: Queue) -> String {
    call(tables, queue, "take", 11)
}

/// Claims messages to probe whether they can be published: see `probe.sql`.
pub(crate) fn probe(tables: &Tables, queue: Queue) -> String {
    call(tables, queue, "probe", 5)
}

/// Looks for names that have something due: see `queue.sql`.
pub(crate) fn names(tables: &Tables, queue: Queue) -> String {
    call(tables, queue, "names", 6)
}

/// Begins an attempt: see `queue.sql`.
pub(crate) fn begin(tables: &Tables, queue: Queue) -> String {
    ask(tables, queue, "begin", 6)
}

/// Settles claims: see `queue.sql`.
pub(crate) fn settle(tables: &Tables, queue: Queue) -> String {
    call(tables, queue, "settle", 13)
}

/// Announces that somebody is awake: see `queue.sql`.
pub(crate) fn awake(tables: &Tables, queue: Queue) -> String {
    call(tables, queue, "awake", 2)
}

/// Requeues dead letters: see `queue.sql`.
pub(crate) fn requeue(tables: &Tables, queue: Queue) -> String {
    call(tables, queue, "requeue", 5)
}

/// Removes dead letters: see `queue.sql`.
pub(crate) fn discard(tables: &Tables, queue: Queue) -> String {
    call(tables, queue, "discard", 5)
}

/// Counts messages: see `queue.sql`.
pub(crate) fn figures(tables: &Tables, queue: Queue) -> String {
    call(tables, queue, "figures", 2)
}

/// Locks a message, if the claim still holds and this attempt was begun: `$1` the position, `$2`
/// the token, `$3` the number of the attempt. Nobody else takes it until the transaction ends, even
/// if its lease does. Returns what names the transaction: its process, and when it began.
pub(crate) fn lock(tables: &Tables, queue: Queue) -> String {
    let table = tables.queue(queue);
    format!(
        "SELECT pg_catalog.pg_backend_pid() AS pid, \
         pg_catalog.date_part('epoch', pg_catalog.now())::pg_catalog.text AS began FROM {table} WHERE position {EQ} $1 AND token {EQ} $2 \
         AND attempts {EQ} $3 AND dead_at IS NULL FOR UPDATE SKIP LOCKED"
    )
}

/// Cancels what a transaction runs: `$1` its process, `$2` when it began. A process's number comes
/// back, after a failover at once, and another transaction is not to be met.
pub(crate) fn cancel() -> String {
    format!(
        "SELECT pg_catalog.pg_cancel_backend(pid) FROM pg_catalog.pg_stat_activity \
         WHERE pid {EQ} $1::pg_catalog.int8::pg_catalog.int4 \
         AND pg_catalog.date_part('epoch', xact_start)::pg_catalog.text {EQ} $2"
    )
}

/// Removes a message that is locked.
pub(crate) fn remove(tables: &Tables, queue: Queue, position: i64) -> String {
    format!("DELETE FROM {} WHERE position {EQ} {position}", tables.queue(queue))
}

/// Lists dead letters: see `queue.sql`.
pub(crate) fn dead(tables: &Tables, queue: Queue) -> String {
    call(tables, queue, "dead_letters", 3)
}

/// Inserts rows for change data capture: the topic, and arrays of ids, keys, payloads, headers,
/// kinds, sources and subjects.
pub(crate) fn capture(tables: &Tables) -> String {
    format!("SELECT {}($1, $2, $3, $4, $5, $6, $7, $8) AS inserted", tables.function("capture"))
}

/// Removes old rows of change data capture: `$1` the age in microseconds, `$2` how many of them.
pub(crate) fn capture_expire(tables: &Tables) -> String {
    format!("SELECT {}($1, $2) AS removed", tables.function("capture_expire"))
}

/// Does a step that is due: `$1` how many microseconds a partition is written into, `$2` how many
/// longer it is kept. Returns what was done.
pub(crate) fn rotate(tables: &Tables) -> String {
    format!("SELECT {}($1, $2) AS done", tables.function("rotate"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_one_whatever_is_in_it() {
        assert_eq!(literal(r"a'b\c"), r"E'a''b\\c'");
        let sql = finish(&Tables::new("public", "shop").unwrap(), 7, Some("'); DROP TABLE x; --"), true);
        assert!(sql.ends_with(r"(7::pg_catalog.int8, E'''); DROP TABLE x; --'::pg_catalog.text, true)"), "{sql}");
    }

    #[test]
    fn statements_speak_of_their_own_tables_only() {
        let tables = Tables::new("app", "shop").unwrap();
        for queue in [Queue::Inbox, Queue::Outbox] {
            let own = tables.queue(queue);
            let statements = [store, store_one, claim, names, begin, settle, dead, awake, requeue, discard, figures];
            let plain = [lock];
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
