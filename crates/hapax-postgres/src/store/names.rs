//! The names of tables in SQL, and the numbers of locks.

use super::BACKEND;
use hapax_store::StoreError;
use hapax_store::backend::option;
use sha2::{Digest as _, Sha256};

/// The family of the table of records that all scopes share.
pub(super) const SHARED: i32 = 0;

/// A schema and the beginning of each table's name, both of which need no escaping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    schema: String,
    prefix: String,
}

impl Names {
    pub(super) fn new(schema: &str, prefix: &str) -> Result<Self, StoreError> {
        validate("schema", schema)?;
        validate("namespace", prefix)?;
        Ok(Names { schema: schema.into(), prefix: prefix.into() })
    }

    /// Reads a namespace: the beginning of each table's name, with a schema and a dot in front if
    /// it is not `public`.
    pub(super) fn of(namespace: &str) -> Result<Self, StoreError> {
        let (schema, prefix) = namespace.split_once('.').unwrap_or(("public", namespace));
        Self::new(schema, prefix)
    }

    pub(super) fn schema(&self) -> &str {
        &self.schema
    }

    /// Returns these names for errors.
    pub(super) fn shown(&self) -> String {
        format!("{}.{}_*", self.schema, self.prefix)
    }

    /// Returns a table's name without its schema, and not quoted.
    pub(super) fn bare(&self, suffix: &str) -> String {
        format!("{}_{suffix}", self.prefix)
    }

    /// Returns a table's name, quoted, since any name may be a reserved word.
    pub(super) fn table(&self, suffix: &str) -> String {
        format!("\"{}\".\"{}_{suffix}\"", self.schema, self.prefix)
    }

    pub(super) fn records(&self, family: i32) -> String {
        match family {
            SHARED => self.table("records"),
            scope => self.table(&format!("records_{scope}")),
        }
    }

    pub(super) fn partition(&self, family: i32, bucket: i32) -> String {
        self.table(&format!("{family}_{bucket}"))
    }

    /// Returns the class of this store's advisory locks. Two stores of one database that got the
    /// same one by chance would wait for each other's rotation, and nothing else.
    pub(super) fn lock_class(&self) -> i32 {
        let digest = Sha256::digest(format!("hapax {}.{}", self.schema, self.prefix));
        i32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
    }
}

/// The length of the longest name. A partition's is longer by at most 22 bytes, and PostgreSQL cuts
/// names at 63.
const NAME_BYTES_MAX: usize = 41;

pub(crate) fn validate(what: &str, name: &str) -> Result<(), StoreError> {
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let is_name = starts && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let is_valid = is_name && name.len() <= NAME_BYTES_MAX;
    option::check(BACKEND, is_valid, what, &name, "a name of the form [a-z_][a-z0-9_]{0,40}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_store::ErrorKind;

    #[test]
    fn names_are_names() {
        for good in ["hapax", "_", "a1_b2", "order", &"a".repeat(41)] {
            assert!(Names::new(good, good).is_ok(), "{good}");
        }
        for bad in ["", "1a", "A", "a b", "a\"b", "a'b", "a;b", "a.b", "ä", "a\0", "a-b", &"a".repeat(42)] {
            assert_eq!(Names::new(bad, "a").unwrap_err().kind(), ErrorKind::Misconfigured, "{bad:?}");
            assert_eq!(Names::new("a", bad).unwrap_err().kind(), ErrorKind::Misconfigured, "{bad:?}");
        }
    }

    #[test]
    fn a_namespace_may_have_a_schema() {
        assert_eq!(Names::of("orders").unwrap(), Names::new("public", "orders").unwrap());
        assert_eq!(Names::of("app.orders").unwrap(), Names::new("app", "orders").unwrap());
        for bad in ["", ".", "app.", ".orders", "a.b.c"] {
            assert_eq!(Names::of(bad).unwrap_err().kind(), ErrorKind::Misconfigured, "{bad:?}");
        }
    }

    #[test]
    fn no_table_has_a_name_that_is_cut_or_anothers() {
        let names = Names::new("s", &"a".repeat(41)).unwrap();
        let mut tables =
            vec![names.table("migrations"), names.table("scopes"), names.table("buckets"), names.records(SHARED)];
        for family in [1, 11, i32::MAX] {
            tables.push(names.records(family));
        }
        for family in [0, 1, 11, i32::MAX] {
            tables.extend([1, 11, i32::MAX].map(|bucket| names.partition(family, bucket)));
        }
        for table in &tables {
            let name = table.strip_prefix("\"s\".\"").unwrap().strip_suffix('"').unwrap();
            assert!(name.len() <= 63, "{name}");
            assert_eq!(tables.iter().filter(|other| *other == table).count(), 1, "{table}");
        }
    }

    #[test]
    fn each_store_has_locks_of_its_own() {
        let class = |schema, prefix| Names::new(schema, prefix).unwrap().lock_class();
        assert_eq!(class("a", "b"), class("a", "b"));
        assert_ne!(class("a", "b"), class("a", "c"));
        assert_ne!(class("a", "b"), class("b", "b"));
    }
}
