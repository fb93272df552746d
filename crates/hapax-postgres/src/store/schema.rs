//! The tables, as SQL.

use super::names::{Names, SHARED};
use super::options::Layout;
use super::owned::owned;
use super::statements;

/// The number of the last migration.
pub(super) const VERSION: i32 = 1;

const RECORDS: &str = include_str!("migrations/0001_records.sql");
const FAMILY: &str = include_str!("migrations/family.sql");
const VERSIONED: &str = include_str!("migrations/0001_version.sql");

/// The object of the advisory lock under which tables are made. No family has a negative number.
const MAKING_TABLES: i32 = -1;

/// Returns all migrations in one transaction with these settings. It may be run any number of
/// times.
pub(super) fn migrations(settings: &str, names: &Names, layout: Layout) -> String {
    let shared = match layout {
        Layout::Shared => family(names, SHARED),
        Layout::PerScope => String::new(),
    };
    let (exclusive, versioned) = (exclusive(names), versioned(names, layout));
    let made = format!("{}{shared}{versioned}", fill(RECORDS, names));
    let (path, owned) = (statements::PATH, owned(names.schema(), &made));
    format!("BEGIN;\n{settings}SET LOCAL search_path = {path};\n{exclusive};\n{owned}{made}COMMIT;\n")
}

/// Returns the statement that keeps others from making tables until the transaction ends: `IF NOT
/// EXISTS` alone is no protection against two at once.
fn exclusive(names: &Names) -> String {
    format!("SELECT pg_advisory_xact_lock({}, {MAKING_TABLES})", names.lock_class())
}

/// Returns the statements that make the table of a scope, in a transaction with the path of our
/// statements.
pub(super) fn scopes_own(names: &Names, scope: i32) -> String {
    let made = family(names, scope);
    format!("{};\n{}{made}", exclusive(names), owned(names.schema(), &made))
}

/// Returns a table of records with its first partition.
fn family(names: &Names, family: i32) -> String {
    fill(FAMILY, names)
        .replace("{records}", &names.records(family))
        .replace("{partition}", &names.partition(family, 1))
        .replace("{family}", &family.to_string())
}

fn versioned(names: &Names, layout: Layout) -> String {
    fill(VERSIONED, names).replace("{layout}", layout.name())
}

fn fill(template: &str, names: &Names) -> String {
    template
        .replace("{migrations}", &names.table("migrations"))
        .replace("{scopes}", &names.table("scopes"))
        .replace("{buckets}", &names.table("buckets"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_to_fill_in() {
        let names = Names::new("public", "hapax").unwrap();
        for layout in [Layout::Shared, Layout::PerScope] {
            let sql = migrations("", &names, layout);
            assert!(!sql.contains('{') && !sql.contains('}'), "{sql}");
            assert!(sql.starts_with("BEGIN;") && sql.ends_with("COMMIT;\n"), "{sql}");
            assert_eq!(sql.contains("\"public\".\"hapax_records\""), layout == Layout::Shared);
        }
        let sql = family(&names, 7);
        assert!(sql.contains("\"hapax_records_7\"") && sql.contains("\"hapax_7_1\""), "{sql}");
    }
}
