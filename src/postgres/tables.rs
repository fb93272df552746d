//! The tables, their names, and the numbers of their locks.

use super::errors::failed;
use crate::store::postgres::names::validate;
use crate::store::{ErrorKind, StoreError};
use sha2::{Digest as _, Sha256};

/// The last migration that there is.
const VERSION: i32 = 2;
const MARKS: &str = include_str!("migrations/0001_marks.sql");
const QUEUE: &str = include_str!("migrations/queue.sql");
const INBOX: &str = include_str!("migrations/inbox.sql");
const CAPTURE: &str = include_str!("migrations/capture.sql");

/// The functions of a queue, as `queue.sql` makes them.
const FUNCTIONS: [&str; 17] = [
    "lock",
    "ring",
    "open",
    "store",
    "store_one",
    "place",
    "give_back",
    "close",
    "claim_keys",
    "names",
    "claim",
    "begin",
    "settle",
    "awake",
    "requeue",
    "discard",
    "figures",
];

/// The tables of inbox and outbox: a schema, and how each one's name begins.
///
/// ```no_run
/// use hapax::postgres::Tables;
///
/// # async fn example(client: tokio_postgres::Client) -> Result<(), hapax::store::StoreError> {
/// let tables = Tables::new("app", "orders")?; // app.orders_inbox, app.orders_outbox, app.orders_marks, …
/// tables.migrate(&client).await?;
/// # Ok(())
/// # }
/// ```
///
/// The default is `public` and `hapax`, beside the tables of [`PostgresStore`](crate::store::PostgresStore), which are others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    schema: String,
    prefix: String,
}

impl Default for Tables {
    fn default() -> Self {
        Tables { schema: "public".into(), prefix: "hapax".into() }
    }
}

/// Which table of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    Inbox,
    Outbox,
}

impl Queue {
    pub(super) fn name(self) -> &'static str {
        match self {
            Queue::Inbox => "inbox",
            Queue::Outbox => "outbox",
        }
    }
}

impl Tables {
    /// Tables of this schema whose names begin like this.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] unless both are `[a-z_][a-z0-9_]{0,40}`.
    pub fn new(schema: &str, prefix: &str) -> Result<Self, StoreError> {
        validate("schema", schema)?;
        validate("table", prefix)?;
        Ok(Tables { schema: schema.into(), prefix: prefix.into() })
    }

    /// Makes the tables that are not there, in a transaction of its own. Any number of processes may do so at once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if the role may not, or the tables are of a later version.
    pub async fn migrate(&self, client: &tokio_postgres::Client) -> Result<(), StoreError> {
        // A role that may not make tables may say so, too, once there is nothing to make.
        if self.check(client).await.is_ok() {
            return Ok(());
        }
        if let Err(error) = client.batch_execute(&self.migrations()).await {
            // The first failure is the one to report.
            let _ = client.batch_execute("ROLLBACK").await;
            return Err(failed("make tables", error));
        }
        self.check(client).await
    }

    /// What [`migrate`](Self::migrate) would do, as SQL: for whoever makes tables by other means. It may be run any
    /// number of times.
    pub fn migrations(&self) -> String {
        let marks = MARKS
            .replace("{migrations}", &self.versions())
            .replace("{buckets}", &self.buckets())
            .replace("{marks}", &self.marks())
            .replace("{partition}", &self.partition(1))
            .replace("{once}", &self.function("once"))
            .replace("{marks_lock}", &self.lock("marks", &[]).to_string());
        let queues = [self.queue_made(Queue::Inbox), self.queue_made(Queue::Outbox)].concat();
        let inbox = INBOX
            .replace("{inbox_id}", &self.index("inbox_id"))
            .replace("{inbox_receive}", &self.function("inbox_receive"))
            .replace("{inbox_lock}", &self.function("inbox_lock"))
            .replace("{inbox_store_one}", &self.function("inbox_store_one"))
            .replace("{once}", &self.function("once"))
            .replace("{inbox}", &self.queue(Queue::Inbox));
        let capture = CAPTURE
            .replace("{capture_expire}", &self.function("capture_expire"))
            .replace("{capture_insert}", &self.function("capture"))
            .replace("{capture}", &self.table("outbox_capture"));
        let versions = self.versions();
        let version = format!("INSERT INTO {versions} (version) VALUES ({VERSION}) ON CONFLICT DO NOTHING;\n");
        // `IF NOT EXISTS` alone is no protection against two at once.
        let lock = format!("SELECT pg_advisory_xact_lock({});\n", self.lock("migrations", &[]));
        format!("BEGIN;\n{lock}{marks}{queues}{inbox}{capture}{version}COMMIT;\n")
    }

    fn queue_made(&self, queue: Queue) -> String {
        let name = queue.name();
        // What is in the inbox is there once, whatever became of its mark.
        let on_conflict = match queue {
            Queue::Inbox => "ON CONFLICT (name, id) DO NOTHING",
            Queue::Outbox => "",
        };
        let sequence = format!("pg_get_serial_sequence('{}', 'position')", self.queue(queue));
        let mut sql = QUEUE
            .replace("{on_conflict}", on_conflict)
            .replace("{sequence}", &sequence)
            .replace("{seed}", &self.lock("key", &[name.as_bytes()]).to_string())
            .replace("{channel}", &self.channel(queue))
            .replace("{queue}", &self.queue(queue))
            .replace("{keys}", &self.table(&format!("{name}_keys")))
            .replace("{keys_due}", &self.index(&format!("{name}_keys_due")))
            .replace("{bell}", &self.table(&format!("{name}_bell")));
        for index in ["due", "key", "later", "dead"] {
            sql = sql.replace(&format!("{{queue_{index}}}"), &self.index(&format!("{name}_{index}")));
        }
        for function in FUNCTIONS {
            sql = sql.replace(&format!("{{queue_{function}}}"), &self.queue_function(queue, function));
        }
        sql
    }

    /// Fails unless the tables are of the version that this code is for.
    pub(super) async fn check(&self, client: &tokio_postgres::Client) -> Result<(), StoreError> {
        let rows =
            client.query_typed(&self.version(), &[]).await.map_err(|error| failed("look at the version", error))?;
        self.expect_version(rows.first().and_then(|row| row.try_get(0).ok().flatten()))
    }

    /// Asks for the version of the tables.
    pub(super) fn version(&self) -> String {
        format!("SELECT max(version)::bigint AS version FROM {}", self.versions())
    }

    pub(super) fn expect_version(&self, version: Option<i64>) -> Result<(), StoreError> {
        if version == Some(i64::from(VERSION)) {
            return Ok(());
        }
        let version = version.map_or("none".to_string(), |version| version.to_string());
        let what = format!("expected tables {} of version {VERSION}, got {version}", self.shown());
        Err(StoreError::new(ErrorKind::Misconfigured, super::BACKEND, what))
    }

    fn shown(&self) -> String {
        format!("{}.{}_*", self.schema, self.prefix)
    }

    /// Quoted, since any name may be a reserved word.
    fn table(&self, suffix: &str) -> String {
        format!("\"{}\".\"{}_{suffix}\"", self.schema, self.prefix)
    }

    /// A function is named like a table.
    pub(super) fn function(&self, suffix: &str) -> String {
        self.table(suffix)
    }

    pub(super) fn queue_function(&self, queue: Queue, function: &str) -> String {
        self.function(&format!("{}_{function}", queue.name()))
    }

    /// An index is in its table's schema.
    fn index(&self, suffix: &str) -> String {
        format!("\"{}_{suffix}\"", self.prefix)
    }

    fn versions(&self) -> String {
        self.table("flow_migrations")
    }

    pub(super) fn buckets(&self) -> String {
        self.table("mark_buckets")
    }

    pub(super) fn marks(&self) -> String {
        self.table("marks")
    }

    pub(super) fn partition(&self, bucket: i32) -> String {
        self.table(&format!("marks_{bucket}"))
    }

    pub(super) fn queue(&self, queue: Queue) -> String {
        self.table(queue.name())
    }

    /// Where those who wait for a queue listen. Channels have no schema, and a name of at most 63 bytes.
    pub(super) fn channel(&self, queue: Queue) -> String {
        format!("hapax_{:016x}", self.lock("channel", &[queue.name().as_bytes()]))
    }

    /// The number of an advisory lock. Two things that got the same one by chance would wait for each other, and
    /// nothing else.
    pub(super) fn lock(&self, what: &str, parts: &[&[u8]]) -> i64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_need_no_escaping_and_are_not_cut() {
        for bad in ["", "1a", "A", "a b", "a\"b", "a;b", "ä", &"a".repeat(42)] {
            assert_eq!(Tables::new(bad, "a").unwrap_err().kind(), ErrorKind::Misconfigured, "{bad:?}");
            assert_eq!(Tables::new("a", bad).unwrap_err().kind(), ErrorKind::Misconfigured, "{bad:?}");
        }
        let sql = Tables::new("s", &"a".repeat(41)).unwrap().migrations();
        assert!(!sql.contains('{') && sql.starts_with("BEGIN;") && sql.ends_with("COMMIT;\n"), "{sql}");
        assert!(sql.split('"').skip(1).step_by(2).all(|name| name.len() <= 63), "{sql}");
        let longest = Tables::new("s", &"a".repeat(41)).unwrap().partition(i32::MAX);
        assert!(longest.len() <= 63 + "\"s\".\"\"".len(), "{longest}");
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
