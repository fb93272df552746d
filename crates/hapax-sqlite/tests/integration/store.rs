//! `SqliteStore` and `SqliteTable`.

use hapax::{Clock, ManualClock, Timestamp};
use hapax_sqlite::{SqliteOptions, SqliteStore, SqliteTable};
use hapax_store::*;
use hapax_testing::store::{Fixture, StoreTime, verify_store};
use rusqlite::{Connection, TransactionBehavior};
use std::path::{Path, PathBuf};
use std::time::Duration;
use testkit::directory::Directory;
use testkit::stores::*;

const HOUR: Duration = Duration::from_secs(3_600);

async fn open(path: &Path, clock: &ManualClock) -> SqliteStore {
    SqliteOptions::new().clock(clock.clone()).open(path).await.unwrap()
}

/// One file with several handles.
struct Shared(PathBuf, ManualClock);

impl Fixture for Shared {
    type Store = SqliteStore;

    async fn open(&self) -> SqliteStore {
        // Synced changes are seen by other processes no earlier: syncing is for the tests that
        // kill.
        let options = SqliteOptions::new().clock(self.1.clone()).durability(Durability::System);
        options.open(&self.0).await.unwrap()
    }

    async fn advance(&self, by: Duration) {
        self.1.advance(by);
    }

    fn time(&self) -> StoreTime {
        StoreTime::EXACT
    }

    fn expires_by_record(&self) -> bool {
        true
    }
}

#[test]
fn it_is_what_stores_promise() {
    let directory = Directory::new("sqlite");
    runtime().block_on(verify_store(&Shared(directory.path().join("ids.db"), clock_at(0)))).unwrap();
}

#[test]
fn whoever_waits_too_long_for_another_process_is_told_and_may_ask_again() {
    let directory = Directory::new("sqlite");
    let path = directory.path().join("ids.db");
    runtime().block_on(async {
        let store = SqliteOptions::new().busy_timeout(Duration::from_millis(20)).open(&path).await.unwrap();
        let mut other = Connection::open(&path).unwrap();
        let writing = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let error = store.mark(&[mark_of("a", DAY)]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("ids.db") && error.to_string().contains("locked"), "{error}");
        assert!(!is_done(&store, "a").await, "reading goes on");
        writing.rollback().unwrap();
        assert_eq!(mark(&store, "a").await, Marked::Fresh);
    });
}

#[test]
fn a_mark_in_a_users_transaction_is_committed_or_rolled_back_with_it() {
    let directory = Directory::new("sqlite");
    let (path, clock) = (directory.path().join("app.db"), clock_at(0));
    let table = SqliteTable::new("hapax").unwrap();
    let mut connection = Connection::open(&path).unwrap();
    table.create(&connection).unwrap();
    connection.execute_batch("CREATE TABLE paid (id TEXT)").unwrap();
    let scope = Scope::new("test").unwrap();
    let mut pay = |id: &str, commit: bool| {
        let transaction = connection.transaction().unwrap();
        let marked = table.mark(&transaction, &scope, id, HOUR, clock.now()).unwrap();
        if marked == Marked::Fresh {
            transaction.execute("INSERT INTO paid VALUES (?1)", [id]).unwrap();
        }
        if commit {
            transaction.commit().unwrap()
        } else {
            transaction.rollback().unwrap()
        }
        let paid: i64 =
            connection.query_row("SELECT count(*) FROM paid WHERE id = ?1", [id], |row| row.get(0)).unwrap();
        (marked, paid)
    };
    assert_eq!(pay("a", false), (Marked::Fresh, 0));
    assert_eq!(pay("a", true), (Marked::Fresh, 1));
    assert_eq!(pay("a", true), (Marked::Duplicate { expires_in: HOUR, attempt: None }, 1));

    runtime().block_on(async {
        // A store on the same table sees it, and is seen.
        let store = open(&path, &clock).await;
        assert!(matches!(mark(&store, "a").await, Marked::Duplicate { .. }));
        claim(&store, "c").await;
        assert!(matches!(pay("c", true), (Marked::InProgress { lease_left }, 0) if lease_left > LEASE / 2));
        clock.advance(2 * HOUR);
        assert_eq!(pay("a", true), (Marked::Fresh, 2));
        assert_eq!(pay("c", true), (Marked::Fresh, 1));
    });

    let transaction = connection.transaction().unwrap();
    let marked = table.mark_batch(&transaction, &scope, ["x", "x", "a"], HOUR, clock.now()).unwrap();
    let duplicate = Marked::Duplicate { expires_in: HOUR, attempt: None };
    assert_eq!(marked, [Marked::Fresh, duplicate, duplicate]);
    let long = "y".repeat(1_000);
    assert_eq!(table.mark(&transaction, &scope, &long, HOUR, clock.now()).unwrap(), Marked::Fresh);
    assert_eq!(table.mark(&transaction, &scope, &long, HOUR, clock.now()).unwrap(), duplicate);
}

#[test]
fn other_things_are_refused_and_named() {
    runtime().block_on(async {
        let directory = Directory::new("sqlite");
        let refused = async |name: &str, kind| {
            let path = directory.path().join(name);
            let error = SqliteStore::open(&path).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        };
        std::fs::write(directory.path().join("letter.txt"), "Dear reader, this is no database.".repeat(100)).unwrap();
        refused("letter.txt", ErrorKind::Corrupt).await;
        refused(".", ErrorKind::Misconfigured).await;
        refused("nowhere/ids.db", ErrorKind::Misconfigured).await;

        let changed = async |name: &str, change: &str| {
            let path = directory.path().join(name);
            drop(SqliteStore::open(&path).await.unwrap());
            Connection::open(&path).unwrap().execute_batch(change).unwrap();
        };
        changed("later.db", "UPDATE hapax_about SET value = 7 WHERE name = 'version'").await;
        refused("later.db", ErrorKind::Misconfigured).await;
        changed("other.db", "DROP TABLE hapax_about; DROP TABLE hapax; CREATE TABLE hapax (a)").await;
        refused("other.db", ErrorKind::Misconfigured).await;

        let error = SqliteOptions::new().table("a\"; DROP").open(directory.path().join("ids.db")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
    });
}

#[test]
fn a_damaged_record_is_an_error_of_its_own() {
    let directory = Directory::new("sqlite");
    let (path, clock) = (directory.path().join("ids.db"), clock_at(0));
    runtime().block_on(async {
        let store = open(&path, &clock).await;
        for id in ["a", "b"] {
            mark(&store, id).await;
        }
        let other = Connection::open(&path).unwrap();
        for kept in [&b"\x00"[..], b"", b"\x23\0\0"] {
            let changed = other.execute("UPDATE hapax SET kept = ?1 WHERE key = ?2", (kept, key("a").to_stored()));
            assert_eq!(changed.unwrap(), 1);
            let [Err(error), Ok(Known::Completed(_))] = &store.look_up(&[key("a"), key("b")]).await.unwrap()[..] else {
                panic!("a is damaged, b is not")
            };
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            let marked = store.mark(&[mark_of("a", DAY), mark_of("c", DAY)]).await.unwrap();
            assert!(matches!(marked[..], [Err(_), Ok(_)]), "{marked:?}");
            assert_eq!(store.scan(None, 10).await.unwrap_err().kind(), ErrorKind::Corrupt);
        }
    });
}

#[test]
fn tokens_grow_after_everything_was_removed_and_the_clock_set_back() {
    let directory = Directory::new("sqlite");
    let (path, clock) = (directory.path().join("ids.db"), clock_at(0));
    runtime().block_on(async {
        let mut last = 0;
        for opening in 0..5 {
            clock.set(Timestamp::from_secs(1_700_000_000 - opening * 1_000));
            let store = open(&path, &clock).await;
            let token = claim(&store, "c").await;
            assert!(token > last);
            last = token;
            clock.advance(2 * HOUR);
            assert_eq!(expire_all(&store).await, 1);
        }
    });
}
