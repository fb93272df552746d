//! Makes the tables and functions, as SQL, and checks their version.

use super::BACKEND;
use super::errors::failed;
use super::marks;
use super::tables::{Queue, Tables};
use super::transaction::{Row, tokio_driver};
use hapax_store::{ErrorKind, StoreError};

/// The last migration that there is.
const VERSION: i32 = 2;
/// The oldest code that may use tables of that version.
const COMPATIBLE_FROM: i32 = 2;
const BEGIN: &str = include_str!("migrations/version.sql");
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
    "names",
    "claim",
    "begin",
    "settle",
    "awake",
    "requeue",
    "discard",
    "figures",
    "letters",
];

/// The version of tables, and the oldest code that may use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    version: i32,
    compatible_from: i32,
}

impl Version {
    /// Reads the version in the answer to [`Tables::version`].
    pub(super) fn of(rows: &[Row]) -> Result<Option<Self>, StoreError> {
        let Some(row) = rows.first() else { return Ok(None) };
        let version = row.get("version")?;
        // Version 1 did not say which code may use it.
        Ok(Some(Version { version, compatible_from: row.get("compatible_from").unwrap_or(version) }))
    }
}

impl Tables {
    /// Makes the tables that are missing, in a transaction of its own. Any number of processes may
    /// call it at once, whatever isolation level they have by default.
    ///
    /// # Versions side by side
    ///
    /// During a rollout, processes of an older and a newer hapax use the same tables. Tables have a
    /// version, and know the oldest version of the code that may use them:
    ///
    /// - Code that is older than the tables, but not too old for them, goes on as before:
    ///   everything hot or subtle is a function in the database, and the code calls the newer ones.
    /// - Code that is too old for them is refused: by `migrate`, and by [`Worker`](super::Worker)
    ///   and [`Relay`](super::Relay) when they begin, with the versions that were expected and
    ///   found. The functions that its calls ([`once`](super::inbox::once),
    ///   [`enqueue`](super::outbox::enqueue) and so on) need are gone by then, so these calls fail
    ///   as [`Misconfigured`](ErrorKind::Misconfigured), and never do anything else than they
    ///   should.
    /// - Code that is newer than the tables is refused until `migrate` has run: so migrate first,
    ///   then roll out.
    ///
    /// Tables of version 1 were never published, and are not brought up to date.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if the role may not make tables, or for tables of a version
    /// that this code is not for, which are left as they are.
    pub async fn migrate(&self, client: &tokio_postgres::Client) -> Result<(), StoreError> {
        // A role that may not make tables can succeed, too, once there is nothing to make.
        if let Ok(found) = self.found(client).await
            && found.is_some()
        {
            return self.expect_version(found);
        }
        if let Err(error) = client.batch_execute(&self.migrations()).await {
            // The first failure is the one to report.
            let _ = client.batch_execute("ROLLBACK").await;
            return Err(failed("make tables", error));
        }
        self.check(client).await
    }

    /// Returns the SQL that [`migrate`](Self::migrate) would run, for programs that make tables by
    /// other means. It may be run any number of times.
    pub fn migrations(&self) -> String {
        let versions = self.versions();
        let begin = BEGIN
            .replace("{migrations}", &versions)
            .replace("{shown}", &self.shown())
            .replace("{version}", &VERSION.to_string());
        let marks = marks::made(self);
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
        let version = format!(
            "INSERT INTO {versions} (version, compatible_from) VALUES ({VERSION}, {COMPATIBLE_FROM}) \
             ON CONFLICT DO NOTHING;\n"
        );
        // `IF NOT EXISTS` alone is no protection against two migrations at once, and the second
        // must see the tables that the first has made. The path keeps the names that follow from
        // meaning anybody else's functions and operators.
        let lock = self.lock("migrations", &[]);
        let together = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE;\nSET LOCAL search_path = pg_catalog, pg_temp;\n\
             SELECT pg_advisory_xact_lock({lock});\n"
        );
        [together, begin, marks, queues, inbox, capture, version, "COMMIT;\n".into()].concat()
    }

    fn queue_made(&self, queue: Queue) -> String {
        let name = queue.name();
        // A message is in the inbox once, whatever became of its mark.
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
            .replace("{bell_lock}", &self.lock("bell", &[name.as_bytes()]).to_string())
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

    /// Fails unless the tables are of a version that this code may use.
    pub(super) async fn check(&self, client: &tokio_postgres::Client) -> Result<(), StoreError> {
        self.expect_version(self.found(client).await?)
    }

    async fn found(&self, client: &tokio_postgres::Client) -> Result<Option<Version>, StoreError> {
        let rows = tokio_driver::rows(client, &self.version(), &[]).await;
        Version::of(&rows.map_err(|error| failed("look at the version", error))?)
    }

    /// Returns the statement that asks for the version of the tables. It uses no operator and no
    /// function, since a caller's search path might give them another meaning.
    pub(super) fn version(&self) -> String {
        format!("SELECT * FROM {} ORDER BY version DESC LIMIT 1", self.versions())
    }

    pub(super) fn expect_version(&self, found: Option<Version>) -> Result<(), StoreError> {
        let what = match found {
            Some(found) if found.version >= VERSION && found.compatible_from <= VERSION => return Ok(()),
            None => "got none: call Tables::migrate".into(),
            Some(Version { version, compatible_from }) if version > VERSION => format!(
                "got version {version}, which code for version {compatible_from} or later may use: \
                 take a later hapax for this process"
            ),
            Some(Version { version, .. }) => format!(
                "got version {version}, which is not brought up to date: let its workers and relays finish, \
                 and remove its tables, or take another prefix"
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
        // A slot's name is put together from its beginning and its number.
        let mut names = sql.split('"').skip(1).step_by(2).filter(|name| !name.contains('\''));
        assert!(names.all(|name| name.len() <= 63), "{sql}");
    }

    #[test]
    fn tables_of_another_version_are_refused_unless_they_are_for_this_one_too() {
        let tables = Tables::default();
        let expect = |version, compatible_from| tables.expect_version(Some(Version { version, compatible_from }));
        assert!(expect(VERSION, COMPATIBLE_FROM).is_ok());
        assert!(expect(VERSION + 7, VERSION).is_ok());
        for (found, word) in [
            (expect(VERSION + 7, VERSION + 1), "take a later hapax"),
            (expect(VERSION - 1, 1), "not brought up to date"),
            (tables.expect_version(None), "Tables::migrate"),
        ] {
            let error = found.unwrap_err();
            assert!(error.kind() == ErrorKind::Misconfigured && error.to_string().contains(word), "{error}");
        }
    }
}
