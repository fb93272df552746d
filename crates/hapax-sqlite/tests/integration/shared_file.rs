//! One file, several processes: the file is removed, or one of them stands still.

use hapax::{Clock, Timestamp};
use hapax_sqlite::{SqliteOptions, SqliteStore, SqliteTable};
use hapax_store::{ErrorKind, Known, Marked, Scope, Store, StoreError, TieredAttempt, TieredClaimOptions, TieredDedup};
use rusqlite::{Connection, TransactionBehavior};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};
use testkit::directory::Directory;
use testkit::processes::{PATIENCE, Process, await_until};
use testkit::stores::{DAY, key, mark_of};

const CHILD: &str = "HAPAX_SQLITE_CHILD";

async fn mark(store: &SqliteStore, id: &str) -> Result<Marked, StoreError> {
    store.mark(&[mark_of(id, DAY)]).await?.remove(0)
}

fn remove(path: &Path) {
    fs::remove_file(path).unwrap();
    for log in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{log}", path.display()));
    }
}

#[track_caller]
fn is_told<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    let text = error.to_string();
    assert!(text.contains("ids.db") && text.contains("while it was open"), "{text}");
}

#[tokio::test]
async fn who_has_a_file_that_was_removed_or_replaced_is_told() {
    let directory = Directory::new("sqlite");
    let path = PathBuf::from(directory.file("ids.db"));
    let here = SqliteStore::open(&path).await.unwrap();
    assert_eq!(mark(&here, "before").await.unwrap(), Marked::Fresh);
    remove(&path);
    is_told(mark(&here, "a").await);

    let there = SqliteStore::open(&path).await.unwrap();
    assert_eq!(mark(&there, "a").await.unwrap(), Marked::Fresh);
    is_told(mark(&here, "a").await);
    is_told(here.look_up(&[key("a")]).await);
    is_told(here.expire(10).await);
    drop(here);

    let here = SqliteStore::open(&path).await.unwrap();
    assert!(matches!(mark(&here, "a").await.unwrap(), Marked::Duplicate { .. }), "it is opened again");
    assert_eq!(mark(&there, "b").await.unwrap(), Marked::Fresh);
}

#[tokio::test]
async fn a_file_that_is_there_again_is_used_again() {
    let directory = Directory::new("sqlite");
    let [path, away] = ["ids.db", "away.db"].map(|name| PathBuf::from(directory.file(name)));
    let store = SqliteStore::open(&path).await.unwrap();
    fs::rename(&path, &away).unwrap();
    is_told(mark(&store, "a").await);
    fs::rename(&away, &path).unwrap();
    assert_eq!(mark(&store, "a").await.unwrap(), Marked::Fresh);
}

/// A clock that is read in the midst of a transaction, and removes the file there if it is told to.
struct Removing(PathBuf);

impl Clock for Removing {
    fn now(&self) -> Timestamp {
        if fs::remove_file(self.0.with_extension("now")).is_ok() {
            remove(&self.0);
        }
        Timestamp::from_secs(1_700_000_000)
    }
}

#[tokio::test]
async fn what_is_committed_to_a_file_that_is_gone_by_then_is_not_acknowledged() {
    let directory = Directory::new("sqlite");
    let path = PathBuf::from(directory.file("ids.db"));
    let store = SqliteOptions::new().clock(Removing(path.clone())).open(&path).await.unwrap();
    assert_eq!(mark(&store, "a").await.unwrap(), Marked::Fresh);
    fs::write(path.with_extension("now"), "").unwrap();
    is_told(mark(&store, "b").await);
    is_told(mark(&store, "b").await);
}

/// Starts a process that is stopped in the midst of a transaction, in which it marks an id.
fn stopped_in_a_transaction(path: &Path) -> Process {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "shared_file::child", "--nocapture"]).env(CHILD, path);
    let (log, directory) = (path.with_extension("log"), path.parent().unwrap());
    let child = Process::start(child, &log, directory);
    await_until(&log, || path.with_extension("inside").exists());
    child.pause();
    child
}

/// Lets it go on, and commit.
fn go_on(other: &Process, path: &Path) {
    fs::write(path.with_extension("go"), "").unwrap();
    other.resume();
}

/// Runs the other process; this is no test.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    let mut connection = Connection::open(&path).unwrap();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let (table, scope) = (SqliteTable::new("hapax").unwrap(), Scope::new("test").unwrap());
    let now = Timestamp::from(SystemTime::now());
    assert_eq!(table.mark(&transaction, &scope, "theirs", DAY, now).unwrap(), Marked::Fresh);
    fs::write(path.with_extension("inside"), "").unwrap();
    await_until(&path, || path.with_extension("go").exists());
    transaction.commit().unwrap();
}

/// The time for which a call waits in the tests.
const BUSY: Duration = Duration::from_millis(100);

/// Much longer than any of this takes, on a machine that is busy as well.
const LEASE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn others_of_a_stopped_process_are_told_in_time_and_go_on_when_it_does() {
    let directory = Directory::new("sqlite");
    let path = PathBuf::from(directory.file("ids.db"));
    let store = SqliteOptions::new().busy_timeout(BUSY).open(&path).await.unwrap();
    for is_killed in [false, true] {
        let _ = ["inside", "go"].map(|file| fs::remove_file(path.with_extension(file)));
        let mut other = stopped_in_a_transaction(&path);
        let began = Instant::now();
        let error = mark(&store, "ours").await.unwrap_err();
        assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("locked"), "{error}");
        assert!((BUSY..100 * BUSY).contains(&began.elapsed()), "{:?}", began.elapsed());
        assert!(matches!(store.look_up(&[key("ours")]).await.unwrap()[..], [Ok(Known::Unknown)]), "reading goes on");

        if is_killed {
            other.kill()
        } else {
            go_on(&other, &path)
        }
        await_until(&path.with_extension("log"), || other.has_ended());
        assert_eq!(mark(&store, "ours").await.unwrap(), Marked::Fresh);
        let theirs = mark(&store, "theirs").await.unwrap();
        assert_eq!(matches!(theirs, Marked::Duplicate { .. }), !is_killed, "{theirs:?}");
        assert!(store.forget(&[key("ours"), key("theirs")]).await.unwrap().iter().all(|it| matches!(it, Ok(true))));
    }
}

/// Opens an engine over the file.
async fn engine(path: &Path) -> TieredDedup<SqliteStore> {
    let store = SqliteOptions::new().busy_timeout(BUSY).open(path).await.unwrap();
    TieredDedup::builder(store).scope("engine").lease(LEASE).expiry(None).build().await.unwrap()
}

/// Claims an id, with tries until the store answers.
async fn claimed(engine: &TieredDedup<SqliteStore>, id: &str) -> TieredAttempt<SqliteStore> {
    let began = Instant::now();
    loop {
        match engine.claim(id).await {
            Ok(attempt) => return attempt,
            Err(error) => assert!(error.kind().is_transient() && began.elapsed() < PATIENCE, "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_survive_a_process_that_is_stopped_for_less_than_a_lease() {
    let directory = Directory::new("sqlite");
    let path = PathBuf::from(directory.file("ids.db"));
    let engine = engine(&path).await;
    let claim = engine.claim("held").await.unwrap().claimed().unwrap();
    let other = stopped_in_a_transaction(&path);

    let completing = tokio::spawn(claim.complete());
    let error = engine.claim("new").await.unwrap_err();
    assert!(error.kind().is_transient(), "{error}");
    assert!(!completing.is_finished(), "it is patient");
    go_on(&other, &path);
    completing.await.unwrap().unwrap();
    let again = claimed(&engine, "held").await;
    assert!(matches!(again, TieredAttempt::Duplicate(_)), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_end_while_a_process_is_stopped_for_longer_and_their_ids_are_not_lost() {
    let directory = Directory::new("sqlite");
    let path = PathBuf::from(directory.file("ids.db"));
    let engine = engine(&path).await;
    let short = TieredClaimOptions::new().lease(10 * BUSY);
    let claim = engine.claim_with("held", short).await.unwrap().claimed().unwrap();
    let token = claim.token();
    let other = stopped_in_a_transaction(&path);
    let error = claim.complete().await.unwrap_err();
    go_on(&other, &path);
    let TieredAttempt::Claimed(again) = claimed(&engine, "held").await else { panic!("not after {error}") };
    assert!(again.token() > token, "a late one is fenced");
}
