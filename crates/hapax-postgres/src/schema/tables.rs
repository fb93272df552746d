//! The tables, their names, and the numbers of their locks.

use crate::store::names::validate;
#[cfg(any(doc, test))]
use hapax_store::ErrorKind;
use hapax_store::StoreError;
use sha2::{Digest as _, Sha256};

/// The tables of inbox and outbox: their schema, and the prefix of their names.
///
/// ```no_run
/// use hapax_postgres::Tables;
///
/// # async fn example(client: tokio_postgres::Client) -> Result<(), hapax_store::StoreError> {
/// let tables = Tables::new("app", "orders")?; // app.orders_inbox, app.orders_outbox, app.orders_marks, …
/// tables.migrate(&client).await?;
/// # Ok(())
/// # }
/// ```
///
/// Payloads are bytes, and given back as they were. Whoever looks into the tables reads one as JSON
/// by the function `PREFIX_json`, which returns null for what is none: `SELECT id FROM
/// app.orders_inbox WHERE app.orders_json(payload)->>'order' = '17'`. (Tables that were made
/// without it get it by [`migrations`](Self::migrations).)
///
/// Services that share a database need a prefix each: what one has handled, another would skip. The
/// tables of [`PostgresStore`](crate::PostgresStore) are others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "Read"))]
pub struct Tables {
    schema: String,
    prefix: String,
}

/// The kind of a table of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    Inbox,
    Outbox,
}

impl Queue {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Queue::Inbox => "inbox",
            Queue::Outbox => "outbox",
        }
    }

    /// Returns the suffix of one of its functions.
    pub(crate) fn function(self, function: &str) -> String {
        format!("{}_{function}", self.name())
    }
}

impl Tables {
    /// Creates tables of this schema whose names begin with this prefix.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] unless both are `[a-z_][a-z0-9_]{0,40}`.
    pub fn new(schema: &str, prefix: &str) -> Result<Self, StoreError> {
        validate("schema", schema)?;
        validate("table", prefix)?;
        Ok(Tables { schema: schema.into(), prefix: prefix.into() })
    }

    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns these names for errors.
    pub(crate) fn shown(&self) -> String {
        format!("{}.{}_*", self.schema, self.prefix)
    }

    /// Returns a table's name, quoted, since any name may be a reserved word.
    pub(crate) fn table(&self, suffix: &str) -> String {
        format!("\"{}\".\"{}_{suffix}\"", self.schema, self.prefix)
    }

    /// Fills in names: what is in braces is the suffix of a table, a sequence or a function, which
    /// are named alike.
    pub(crate) fn named(&self, sql: &str) -> String {
        let named = sql.split('{').map(|part| match part.split_once('}') {
            Some((suffix, rest)) => self.table(suffix) + rest,
            None => part.to_owned(),
        });
        named.collect()
    }

    /// Returns the channel on which workers and relays of a queue listen. Channels have no schema,
    /// and a name of at most 63 bytes.
    pub(crate) fn channel(&self, queue: Queue) -> String {
        format!("hapax_{:016x}", self.lock("channel", &[queue.name().as_bytes()]))
    }

    /// Returns the first of the two numbers of an advisory lock. Locks of two numbers are never
    /// those of keys, which have one.
    pub(crate) fn lock_class(&self, what: &str) -> i32 {
        (self.lock(what, &[]) >> 32) as i32
    }

    /// Returns the number of an advisory lock. Two things that got the same number by chance would
    /// wait for each other, with no other harm.
    pub(crate) fn lock(&self, what: &str, parts: &[&[u8]]) -> i64 {
        let mut hash = Sha256::new();
        hash.update(format!("hapax {}.{} {what}", self.schema, self.prefix));
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let digest = hash.finalize();
        let mut number = [0; 8];
        number.copy_from_slice(&digest[..8]);
        i64::from_be_bytes(number)
    }
}

#[cfg(feature = "serde")]
crate::config::read!(Tables { schema: String, prefix: String } => Tables::new(&schema, &prefix));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_need_no_escaping_and_the_longest_is_not_cut() {
        for bad in ["", "1a", "A", "a b", "a\"b", "a;b", "ä", &"a".repeat(42)] {
            assert_eq!(Tables::new(bad, "a").unwrap_err().kind(), ErrorKind::Misconfigured, "{bad:?}");
            assert_eq!(Tables::new("a", bad).unwrap_err().kind(), ErrorKind::Misconfigured, "{bad:?}");
        }
        let longest = Tables::new("s", &"a".repeat(41)).unwrap().table("marks_63_pkey");
        assert!(longest.len() <= 63 + r#""s".""#.len() + 1, "{longest}");
    }

    #[test]
    fn locks_and_channels_are_a_tables_own() {
        let (a, b) = (Tables::new("s", "a").unwrap(), Tables::new("s", "b").unwrap());
        assert_ne!(a.lock("key", &[b"x"]), b.lock("key", &[b"x"]));
        assert_ne!(a.lock("key", &[b"ab", b"c"]), a.lock("key", &[b"a", b"bc"]));
        assert_ne!(a.channel(Queue::Inbox), a.channel(Queue::Outbox));
        assert!(a.channel(Queue::Inbox).len() <= 63);
    }
}
