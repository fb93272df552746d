//! Makes the tables and functions, as SQL, and checks their version.

use super::BACKEND;
use super::errors::failed;
use super::marks;
use super::tables::{Queue, Tables};
use super::transaction::{Row, tokio_driver};
use hapax_store::{ErrorKind, StoreError};

/// The last migration that there is.
const VERSION: i32 = 3;
/// The oldest code that may use tables of that version.
const COMPATIBLE_FROM: i32 = 2;
/// The oldest tables that are brought up to date.
const UPGRADED_FROM: i32 = 2;
/// Tries to get the locks for that, of a few hundred milliseconds each.
const UPGRADE_TURNS: u32 = 40;
const BEGIN: &str = include_str!("migrations/version.sql");
const QUEUE: &str = include_str!("migrations/queue.sql");
const PROBE: &str = include_str!("migrations/probe.sql");
const INBOX: &str = include_str!("migrations/inbox.sql");
const CAPTURE: &str = include_str!("migrations/capture.sql");
const HANDLED: &str = include_str!("migrations/handled.sql");
const UPGRADE: &str = include_str!("migrations/upgrade.sql");
const GRANTED: &str = include_str!("migrations/granted.sql");
/// Functions that older code calls: those of a queue, and the others.
const COMPATIBLE: &str = include_str!("migrations/compatible.sql");
const COMPATIBLE_ONCE: &str = include_str!("migrations/compatible_once.sql");

/// The functions of a queue, as `queue.sql` and `probe.sql` make them.
const FUNCTIONS: [&str; 20] = [
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
    "take",
    "probe",
    "begin",
    "settle",
    "awake",
    "requeue",
    "discard",
    "figures",
    "letters",
    "dead_letters",
];

/// The functions that `handled.sql` makes or calls.
const HANDLED_FUNCTIONS: [&str; 12] = [
    "once",
    "once_batch",
    "mark",
    "mark_batch",
    "inbox_finish",
    "inbox_result",
    "inbox_lock",
    "inbox_store_one",
    "inbox_settle",
    "handled_slots",
    "handled_list",
    "handled_requeue",
];

/// The version of tables, and the oldest code that may use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    version: i32,
    compatible_from: i32,
}

impl Version {
    /// Returns true if these tables are brought up to date.
    fn is_upgraded(self) -> bool {
        (UPGRADED_FROM..VERSION).contains(&self.version)
    }

    /// Reads the version in the answer to [`Tables::version`].
    pub(super) fn of(rows: &[Row]) -> Result<Option<Self>, StoreError> {
        let Some(row) = rows.first() else { return Ok(None) };
        let version = row.get("version")?;
        // Version 1 did not say which code may use it.
        Ok(Some(Version { version, compatible_from: row.get("compatible_from").unwrap_or(version) }))
    }
}

impl Tables {
    /// Makes the tables that are missing, and brings those of version 2 up to date, in a
    /// transaction of its own. Any number of processes may call it at once, whatever isolation
    /// level they have by default.
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
    /// Tables of version 1 were never published, and are not brought up to date. From version 2 to
    /// 3, inbox, outbox and capture get columns, for which no row is written again; roles that may
    /// use the marks may use the new table `…_handled`. It tries to lock the three of them for 200
    /// ms at a time, in which others wait behind it, and gives up after some ten seconds of long
    /// transactions.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if the role may not make tables, or for tables of a version
    /// that this code is not for, which are left as they are; [`ErrorKind::Conflict`] if older
    /// tables could not be locked: call again.
    pub async fn migrate(&self, client: &tokio_postgres::Client) -> Result<(), StoreError> {
        // A role that may not make tables can succeed, too, once there is nothing to make.
        if let Ok(Some(found)) = self.found(client).await
            && !found.is_upgraded()
        {
            return self.expect_version(Some(found));
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
            .replace("{upgraded_from}", &UPGRADED_FROM.to_string())
            .replace("{version}", &VERSION.to_string());
        let [inbox_table, outbox_table] = [Queue::Inbox, Queue::Outbox].map(|queue| self.queue(queue));
        let capture_table = self.table("outbox_capture");
        let upgrade = UPGRADE
            .replace("{migrations}", &versions)
            .replace("{inbox}", &inbox_table)
            .replace("{outbox}", &outbox_table)
            .replace("{capture}", &capture_table)
            .replace("{shown}", &self.shown())
            .replace("{upgrade_turns}", &UPGRADE_TURNS.to_string());
        let marks = marks::made(self);
        let queues = [self.queue_made(Queue::Inbox), self.queue_made(Queue::Outbox)].concat();
        let inbox = [INBOX, CAPTURE, COMPATIBLE_ONCE]
            .concat()
            .replace("{inbox_id}", &self.index("inbox_id"))
            .replace("{inbox_receive}", &self.function("inbox_receive"))
            .replace("{inbox_lock}", &self.function("inbox_lock"))
            .replace("{inbox_store_one}", &self.function("inbox_store_one"))
            .replace("{once}", &self.function("once"))
            .replace("{inbox}", &inbox_table)
            .replace("{capture_expire}", &self.function("capture_expire"))
            .replace("{capture_insert}", &self.function("capture"))
            .replace("{capture}", &capture_table);
        let granted = GRANTED
            .replace("{migrations}", &versions)
            .replace("{marks}", &self.marks())
            .replace("{handled_number}", &self.table("handled_number"))
            .replace("{handled}", &self.handled());
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
        let handled = self.handled_made();
        [together, begin, marks, upgrade, queues, handled, inbox, granted, version, "COMMIT;\n".into()].concat()
    }

    /// Returns the SQL that makes the table of what was handled.
    fn handled_made(&self) -> String {
        let mut sql = HANDLED
            .replace("{handled_number}", &self.table("handled_number"))
            .replace("{handled_subject}", &self.index("handled_subject"))
            .replace("{handled_id}", &self.index("handled_id"))
            .replace("{slot_prefix}", &self.partition_prefix())
            .replace("{handled_prefix}", &self.handled_prefix())
            .replace("{slot_mask}", &(marks::SLOTS - 1).to_string())
            .replace("{state}", &self.mark_state())
            .replace("{handled}", &self.handled())
            .replace("{inbox}", &self.queue(Queue::Inbox));
        for function in HANDLED_FUNCTIONS {
            sql = sql.replace(&format!("{{{function}}}"), &self.function(function));
        }
        sql
    }

    fn queue_made(&self, queue: Queue) -> String {
        let name = queue.name();
        // A message is in the inbox once, whatever became of its mark.
        let on_conflict = match queue {
            Queue::Inbox => "ON CONFLICT (name, id) DO NOTHING",
            Queue::Outbox => "",
        };
        let sequence = format!("pg_get_serial_sequence('{}', 'position')", self.queue(queue));
        let result = if queue == Queue::Inbox { ",\n    result bytea" } else { "" };
        let mut sql = [QUEUE, PROBE, COMPATIBLE]
            .concat()
            .replace("{result}", result)
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
            Some(found) if found.is_upgraded() => {
                format!("got version {}: call Tables::migrate, which brings them up to date", found.version)
            }
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
            (expect(UPGRADED_FROM - 1, 1), "not brought up to date"),
            (expect(UPGRADED_FROM, UPGRADED_FROM), "call Tables::migrate"),
            (tables.expect_version(None), "Tables::migrate"),
        ] {
            let error = found.unwrap_err();
            assert!(error.kind() == ErrorKind::Misconfigured && error.to_string().contains(word), "{error}");
        }
    }
}
