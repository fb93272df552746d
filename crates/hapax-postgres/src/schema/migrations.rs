//! Makes the tables and functions, as SQL, and checks their version.

use super::marks;
use super::tables::{Queue, Tables};
use crate::BACKEND;
use crate::store::owned;
use crate::transaction::{Client, Row};
use hapax_store::{ErrorKind, StoreError};

/// The version of the tables that this code makes and uses.
const VERSION: i32 = 1;
const BEGIN: &str = include_str!("migrations/version.sql");
const QUEUE: &str = include_str!("migrations/queue.sql");
const PROBE: &str = include_str!("migrations/probe.sql");
const INBOX: &str = include_str!("migrations/inbox.sql");
const CAPTURE: &str = include_str!("migrations/capture.sql");
const HANDLED: &str = include_str!("migrations/handled.sql");
const JSON: &str = include_str!("migrations/json.sql");

/// Reads the version in the answer to [`Tables::version`].
pub(crate) fn version_of(rows: &[Row]) -> Result<Option<i32>, StoreError> {
    rows.first().map(|row| row.get("version")).transpose()
}

impl Tables {
    /// Makes the tables that are missing, in a transaction of its own. Any number of processes may
    /// call it at once, whatever isolation level they have by default.
    ///
    /// It makes nothing by the name of what belongs to somebody else, and says so. But whoever uses
    /// tables that are there runs their owner's functions: let nobody else make things in their
    /// schema before they are made.
    ///
    /// Tables have a version. [`Worker`](crate::Worker) and [`Relay`](crate::Relay) look at it when
    /// they begin, and refuse tables of another one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if the role may not make tables, or for tables of a version
    /// that this code is not for, which are left as they are.
    pub async fn migrate(&self, client: &impl Client) -> Result<(), StoreError> {
        // A role that may not make tables can succeed, too, once there is nothing to make.
        if let Ok(Some(found)) = self.found(client).await {
            return self.expect_version(Some(found));
        }
        client.run("make tables", &self.migrations()).await?;
        self.expect_version(self.found(client).await?)
    }

    /// Returns the SQL that [`migrate`](Self::migrate) would run, for programs that make tables by
    /// other means. It may be run any number of times.
    pub fn migrations(&self) -> String {
        let numbers = self.lock_class("numbers");
        let queues = [Queue::Inbox, Queue::Outbox].map(|queue| self.queue_made(queue)).concat();
        let made = [BEGIN, &marks::made(), &queues, HANDLED, INBOX, CAPTURE, JSON]
            .concat()
            .replace("{shown}", &self.shown())
            .replace("{version}", &VERSION.to_string())
            .replace("{prefix}", self.prefix())
            .replace("{slot_mask}", &(marks::SLOTS - 1).to_string())
            .replace("{marks_lock}", &self.lock_class("marks").to_string())
            .replace("{numbers_lock}", &numbers.to_string())
            .replace("{numbers_class}", &numbers.cast_unsigned().to_string())
            .replace("{numbered}", &format!("hapax.n{:08x}", numbers.cast_unsigned()));
        let made = self.named(&made);
        let owned = owned::owned(self.schema(), &made);
        let replaced = owned::made(self.schema(), self.prefix());
        // `IF NOT EXISTS` alone is no protection against two migrations at once, and the second
        // must see the tables that the first has made. The path keeps the names that follow from
        // meaning anybody else's functions and operators.
        let lock = self.lock("migrations", &[]);
        let together = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE;\nSET LOCAL search_path = pg_catalog, pg_temp;\n\
             SELECT pg_advisory_xact_lock({lock});\n"
        );
        [together, owned, made, replaced, "COMMIT;\n".into()].concat()
    }

    fn queue_made(&self, queue: Queue) -> String {
        let name = queue.name();
        // A message is in the inbox once, whatever became of its mark.
        let (on_conflict, columns) = match queue {
            Queue::Inbox => (
                "ON CONFLICT (name, id, other) DO NOTHING",
                ",\n    result bytea,\n    other bytea NOT NULL DEFAULT ''",
            ),
            Queue::Outbox => ("", ""),
        };
        [QUEUE, PROBE]
            .concat()
            .replace("{inbox_columns}", columns)
            .replace("{on_conflict}", on_conflict)
            .replace("{channel}", &self.channel(queue))
            .replace("{bell_lock}", &self.lock_class(&format!("bell {name}")).to_string())
            .replace("{take_lock}", &self.lock_class(&format!("take {name}")).to_string())
            .replace("{queue_name}", name)
            .replace("{queue}", &format!("{{{name}}}"))
            .replace("{queue_", &format!("{{{name}_"))
    }

    async fn found(&self, client: &impl Client) -> Result<Option<i32>, StoreError> {
        let asked = owned::is_table(self.schema(), &format!("{}_flow_migrations", self.prefix()));
        let rows = client.call("look for tables", &asked, &[]).await?;
        // What is no table may run code of somebody else's when it is read.
        if !rows.first().is_some_and(|row| row.get("is_table").unwrap_or(false)) {
            return Ok(None);
        }
        version_of(&client.call("look at the version", &self.version(), &[]).await?)
    }

    /// Returns the statement that asks for the version of the tables. It uses no operator and no
    /// function, since a caller's search path might give them another meaning.
    pub(crate) fn version(&self) -> String {
        format!("SELECT * FROM {} ORDER BY version DESC LIMIT 1", self.table("flow_migrations"))
    }

    pub(crate) fn expect_version(&self, found: Option<i32>) -> Result<(), StoreError> {
        let what = match found {
            Some(VERSION) => return Ok(()),
            None => "got none: call Tables::migrate".into(),
            Some(version) => format!(
                "got version {version}: take the hapax that made them for this process, or another prefix for its tables"
            ),
        };
        let what = format!("expected tables {} of version {VERSION}, {what}", self.shown());
        Err(StoreError::new(ErrorKind::Misconfigured, BACKEND, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_in_the_statements_need_no_escaping_and_are_not_cut() {
        let sql = Tables::new("s", &"a".repeat(41)).unwrap().migrations();
        assert!(!sql.contains('{') && sql.starts_with("BEGIN ") && sql.ends_with("COMMIT;\n"), "{sql}");
        // A database of any encoding takes it.
        assert!(sql.is_ascii(), "{sql}");
        // A slot's name is put together from its beginning and its number.
        let mut names = sql.split('"').skip(1).step_by(2).filter(|name| !name.contains('\''));
        assert!(names.all(|name| name.len() <= 63), "{sql}");
    }

    #[test]
    fn tables_of_another_version_are_refused() {
        let tables = Tables::new("public", "shop").unwrap();
        assert!(tables.expect_version(Some(VERSION)).is_ok());
        for (found, word) in
            [(Some(VERSION + 1), "got version 2"), (Some(0), "got version 0"), (None, "Tables::migrate")]
        {
            let error = tables.expect_version(found).unwrap_err();
            assert!(error.kind() == ErrorKind::Misconfigured && error.to_string().contains(word), "{error}");
        }
    }
}
