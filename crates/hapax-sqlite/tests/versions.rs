//! Versions in SQLite: by the store, and in a caller's transaction.

use hapax::{ManualClock, Timestamp};
use hapax_sqlite::{SqliteOptions, SqliteStore, SqliteTable};
use hapax_store::{Advance, Advanced, Durability, ErrorKind, Marked, RecordKey, Scope, VersionStore};
use hapax_testing::store::{Fixture, StoreTime, verify_versions};
use rusqlite::{Connection, TransactionBehavior};
use std::time::Duration;
use testkit::directory::Directory;

const HOUR: Duration = Duration::from_secs(3_600);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

const FILE: &str = "versions.db";

/// One file with several handles.
struct Shared(Directory, ManualClock);

impl Fixture for Shared {
    type Store = SqliteStore;

    async fn open(&self) -> SqliteStore {
        let options = SqliteOptions::new().clock(self.1.clone()).durability(Durability::System);
        options.open(self.0.file(FILE)).await.unwrap()
    }

    async fn advance(&self, by: Duration) {
        self.1.advance(by);
    }

    fn time(&self) -> StoreTime {
        StoreTime::EXACT
    }
}

fn clock() -> ManualClock {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_secs(1_700_000_000));
    clock
}

#[test]
fn it_keeps_the_promises_of_versions() {
    runtime().block_on(verify_versions(&Shared(Directory::new("versions"), clock()))).unwrap();
}

#[test]
fn a_version_is_committed_with_its_effect_or_not_at_all() {
    let directory = Directory::new("versions-tx");
    let mut connection = Connection::open(directory.file(FILE)).unwrap();
    connection.execute_batch("CREATE TABLE prices (cents INTEGER)").unwrap();
    let (table, scope) = (SqliteTable::new("versions").unwrap(), Scope::new("prices").unwrap());
    table.create(&connection).unwrap();
    let now = Timestamp::from_secs(1_700_000_000);
    let mut advance = |version: u64, at: Timestamp, commits: bool| {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let advanced = table.advance(&transaction, &scope, "a", version, HOUR, at).unwrap();
        if advanced == Advanced::Newer {
            transaction.execute("INSERT INTO prices VALUES (?1)", [version.cast_signed()]).unwrap();
        }
        if commits {
            transaction.commit().unwrap()
        } else {
            transaction.rollback().unwrap()
        }
        advanced
    };
    assert_eq!(advance(5, now, true), Advanced::Newer);
    // The effect has failed: the version comes again.
    assert_eq!(advance(7, now, false), Advanced::Newer);
    assert_eq!(advance(6, now, true), Advanced::Newer);
    assert_eq!(advance(7, now, true), Advanced::Newer);
    assert_eq!(advance(7, now, true), Advanced::Duplicate);
    assert_eq!(advance(6, now + (HOUR - Duration::from_nanos(1)), true), Advanced::Stale { known: 7 });
    assert_eq!(advance(1, now + HOUR, true), Advanced::Newer);
    let versions: Vec<i64> = {
        let mut rows = connection.prepare("SELECT cents FROM prices ORDER BY rowid").unwrap();
        rows.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(versions, [5, 6, 7, 1]);

    // A mark is no version, and a retention of nothing is refused.
    let transaction = connection.transaction().unwrap();
    assert_eq!(table.mark(&transaction, &scope, "marked", HOUR, now).unwrap(), Marked::Fresh);
    let error = table.advance(&transaction, &scope, "marked", 1, HOUR, now).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    let error = table.advance(&transaction, &scope, "b", 1, Duration::ZERO, now).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
}

#[test]
fn a_store_of_the_same_table_sees_versions_of_transactions() {
    let directory = Directory::new("versions-both");
    let mut connection = Connection::open(directory.file(FILE)).unwrap();
    let (table, scope) = (SqliteTable::new("versions").unwrap(), Scope::new("prices").unwrap());
    table.create(&connection).unwrap();
    let clock = clock();
    runtime().block_on(async {
        let store =
            SqliteOptions::new().table("versions").clock(clock.clone()).open(directory.file(FILE)).await.unwrap();
        let transaction = connection.transaction().unwrap();
        let now = Timestamp::from_secs(1_700_000_000);
        assert_eq!(table.advance(&transaction, &scope, "a", 6, HOUR, now).unwrap(), Advanced::Newer);
        transaction.commit().unwrap();
        let five = Advance { key: RecordKey::new(&scope, "a"), version: 5, attempt: 1, retention: HOUR };
        assert_eq!(store.advance(&[five]).await.unwrap().remove(0).unwrap(), Advanced::Stale { known: 6 });
    });
}
