//! The statements for the server, as pure functions of names: both drivers send the same.
//!
//! Callers' search paths may have schemas in which others make operators and functions. So
//! functions are called by their whole names and have a path of their own, and operators here are
//! PostgreSQL's.

use super::tables::Tables;

const EQ: &str = "OPERATOR(pg_catalog.=)";

/// Asks a function with this many values for a single one, `answer`: the server plans it in less
/// time than a table. What each function does is said in `migrations/`.
pub(crate) fn ask(tables: &Tables, function: &str, values: usize) -> String {
    format!("SELECT {} AS answer", called(tables, function, values))
}

/// Asks a function with this many values for rows.
pub(crate) fn call(tables: &Tables, function: &str, values: usize) -> String {
    format!("SELECT * FROM {} AS called", called(tables, function, values))
}

fn called(tables: &Tables, function: &str, values: usize) -> String {
    let values: Vec<String> = (1..=values).map(|n| format!("${n}")).collect();
    format!("{}({})", tables.table(function), values.join(", "))
}

/// Removes a message that is locked, and writes down what it was: a statement without values, which
/// is sent together with a commit.
pub(crate) fn finish(
    tables: &Tables,
    position: i64,
    attempts: u32,
    processor: Option<&str>,
    is_whole: bool,
) -> String {
    let processor = processor.map_or_else(|| "NULL".into(), literal);
    let function = tables.table("inbox_finish");
    format!("SELECT {function}({position}::pg_catalog.int8, {attempts}, {processor}::pg_catalog.text, {is_whole})")
}

/// Returns a text as a literal, whatever `standard_conforming_strings` is.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// Locks a message, if the claim still holds, and the attempt was begun that had to be: `$1` the
/// position, `$2` the token, `$3` the number of attempts that are counted, `$4` its key. Nobody else takes it until the transaction ends, even
/// if its lease does. Returns what names the transaction: its process, and when it began.
pub(crate) fn lock(tables: &Tables, has_key: bool) -> String {
    let table = tables.table("inbox");
    let claim = match has_key {
        true => format!("{} c WHERE c.name {EQ} m.name AND c.key {EQ} $4 AND c.token {EQ} $2", tables.table("inbox_keys")),
        false => format!("{} c WHERE c.token {EQ} $2 AND c.name {EQ} m.name AND $4 IS NULL", tables.table("inbox_claims")),
    };
    format!(
        "SELECT pg_catalog.pg_backend_pid() AS pid, \
         pg_catalog.date_part('epoch', pg_catalog.now())::pg_catalog.text AS began FROM {table} m WHERE m.position {EQ} $1 \
         AND m.attempts {EQ} $3 AND m.dead_at IS NULL AND EXISTS (SELECT FROM {claim}) FOR UPDATE OF m SKIP LOCKED"
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
pub(crate) fn remove(tables: &Tables, position: i64) -> String {
    format!("DELETE FROM {} WHERE position {EQ} {position}", tables.table("inbox"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_one_whatever_is_in_it() {
        assert_eq!(literal(r"a'b\c"), r"E'a''b\\c'");
        let sql = finish(&Tables::new("public", "shop").unwrap(), 7, 2, Some("'); DROP TABLE x; --"), true);
        assert!(sql.ends_with(r"(7::pg_catalog.int8, 2, E'''); DROP TABLE x; --'::pg_catalog.text, true)"), "{sql}");
    }
}
