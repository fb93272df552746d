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

/// Removes messages that are locked, each after so many attempts more than are counted, and writes
/// down what they were, if there are to be records: `true` with their content. It is a statement
/// without values, which is sent together with a commit.
pub(crate) fn finish(
    tables: &Tables,
    positions: &[i64],
    more: u8,
    processor: Option<&str>,
    record: Option<bool>,
) -> String {
    let processor = processor.map_or_else(|| "NULL".into(), literal);
    let record = record.map_or_else(|| "NULL".into(), |is_whole| is_whole.to_string());
    let (function, positions) = (tables.table("inbox_finish"), array(positions));
    format!("SELECT {function}({positions}, {more}, {processor}::pg_catalog.text, {record})")
}

/// Puts messages back that are removed already, in a statement as that of [`finish`].
pub(crate) fn put_back(tables: &Tables, positions: &[i64]) -> String {
    format!("SELECT {}({})", tables.table("inbox_put_back"), array(positions))
}

fn array(numbers: &[i64]) -> String {
    let numbers = numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
    format!("'{{{numbers}}}'::pg_catalog.int8[]")
}

/// Returns a text as a literal, whatever `standard_conforming_strings` is.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// Cancels what a transaction runs: `$1` its process, `$2` when it began, in microseconds since
/// 1970. A process's number comes back, after a failover at once, and another transaction is not to
/// be met.
pub(crate) fn cancel() -> String {
    format!(
        "SELECT pg_catalog.pg_cancel_backend(pid) FROM pg_catalog.pg_stat_activity \
         WHERE pid {EQ} $1::pg_catalog.int8::pg_catalog.int4 \
         AND (pg_catalog.date_part('epoch', xact_start) OPERATOR(pg_catalog.*) 1000000::pg_catalog.float8)\
         ::pg_catalog.int8 {EQ} $2"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_one_whatever_is_in_it() {
        assert_eq!(literal(r"a'b\c"), r"E'a''b\\c'");
        let sql = finish(&Tables::new("public", "shop").unwrap(), &[7, 8], 1, Some("'); DROP TABLE x; --"), Some(true));
        assert!(
            sql.ends_with(r"('{7,8}'::pg_catalog.int8[], 1, E'''); DROP TABLE x; --'::pg_catalog.text, true)"),
            "{sql}"
        );
    }
}
