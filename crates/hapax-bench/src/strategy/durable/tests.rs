//! Strategies over real directories and servers give the true answers, and say so when they cannot.

use crate::measure::servers::{Provided, missing, provide};
use crate::strategy::{Failure, Id, Listed, Needs, Place, Plan, Strategy, Visitor, listed, visit};
use hapax::Timestamp;
use std::borrow::Borrow;
use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};
use testkit::directory::copy;

const NOW: Timestamp = Timestamp::from_secs(1);
const SEED: u64 = 0x5eed_0007;

fn plan(place: Place) -> Plan {
    Plan { window: Duration::from_secs(100), live: 2_000, threads: 2, place }
}

/// Makes an empty place in what was provided, for the n-th strategy that uses it.
fn emptied(provided: &Provided, n: usize) -> Place {
    match provided.place() {
        Place::Directory(path) => {
            let inner = path.join(n.to_string());
            std::fs::create_dir(&inner).unwrap();
            Place::Directory(inner)
        }
        #[cfg(feature = "postgres")]
        Place::Server(address) if address.contains("dbname=postgres") => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (client, connection) = tokio_postgres::connect(&address, tokio_postgres::NoTls).await.unwrap();
                tokio::spawn(connection);
                client.batch_execute(&format!("CREATE DATABASE place_{n}")).await.unwrap();
            });
            Place::Server(address.replace("dbname=postgres", &format!("dbname=place_{n}")))
        }
        Place::Server(address) => Place::Server(format!("{address}?db={n}")),
        Place::Memory => Place::Memory,
    }
}

/// Runs a test on every strategy that needs this, each in an empty place. Returns none if there is
/// no such server.
fn each<I: Id + ?Sized, T: Visitor<I, Output = ()>>(needs: Needs, test: impl Fn(Plan) -> T) -> Option<Provided> {
    let strategies: Vec<Listed> = listed::<I>().into_iter().filter(|strategy| strategy.needs == needs).collect();
    if let Some(reason) = missing(needs) {
        testkit::skipped(format_args!("{} strategies: {reason}", strategies.len()));
        return None;
    }
    let provided = (!strategies.is_empty()).then(|| provide(needs).unwrap())?;
    for (n, strategy) in strategies.iter().enumerate() {
        visit::<I, T>(strategy.name, test(plan(emptied(&provided, n)))).expect("it is listed");
    }
    Some(provided)
}

/// Returns numbers, some of which come again.
fn numbers(count: u64, of: u64) -> Vec<u64> {
    let mut random = SEED;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % of
    };
    (0..count).map(|_| next()).collect()
}

/// Checks ids one by one, in batches, by two threads at once, and all of them again.
struct TrueAnswers(Plan);

impl<I: Id + ?Sized> Visitor<I> for TrueAnswers {
    type Output = ();

    fn visit<S: Strategy<I>>(self) {
        println!("{}, seed {SEED:#x}", S::NAME);
        let allowance = S::allowance(&self.0);
        assert!(allowance.missed < 1e-5 && allowance.invented < 1e-9, "{}", S::NAME);
        let strategy = S::new(&self.0).unwrap();
        let (mut known, mut fresh) = (HashSet::new(), Vec::new());
        for number in numbers(60, 40) {
            let is_fresh = strategy.check(I::numbered(number).borrow(), NOW);
            assert_eq!(is_fresh, known.insert(number), "{}: {number}, one by one", S::NAME);
        }
        for batch in numbers(1_000, 700).chunks(100) {
            let ids: Vec<I::Owned> = batch.iter().map(|number| I::numbered(*number)).collect();
            strategy.check_batch(ids.iter().map(Borrow::borrow), NOW, &mut fresh);
            let truth: Vec<bool> = batch.iter().map(|number| known.insert(*number)).collect();
            assert_eq!(fresh, truth, "{}: the batch {batch:?}", S::NAME);
        }
        strategy.check_batch(std::iter::empty(), NOW, &mut fresh);
        assert!(fresh.is_empty(), "{}: an empty batch", S::NAME);

        // Each thread checks the same ids as the other, in another order; some ids are its alone.
        let contended: Vec<u64> = (10_000..10_400).collect();
        let check_all = |backwards: bool| -> usize {
            let mut order = contended.clone();
            if backwards {
                order.reverse();
            }
            let (mut count, mut fresh) = (0, Vec::new());
            for part in order.chunks(40) {
                let ids: Vec<I::Owned> = part.iter().map(|number| I::numbered(*number)).collect();
                strategy.check_batch(ids[2..].iter().map(Borrow::borrow), NOW, &mut fresh);
                count += fresh.iter().filter(|fresh| **fresh).count();
                count += ids[..2].iter().filter(|id| strategy.check((*id).borrow(), NOW)).count();
            }
            count
        };
        let counts = std::thread::scope(|scope| {
            let threads = [false, true, false].map(|backwards| scope.spawn(move || check_all(backwards)));
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(counts.iter().sum::<usize>(), contended.len(), "{}: {counts:?} times fresh", S::NAME);
        known.extend(&contended);

        let again: Vec<I::Owned> = known.iter().map(|number| I::numbered(*number)).collect();
        strategy.check_batch(again.iter().map(Borrow::borrow), NOW, &mut fresh);
        let missed = fresh.iter().filter(|fresh| **fresh).count();
        assert_eq!((fresh.len(), missed), (known.len(), 0), "{}: duplicates missed", S::NAME);
        assert!(
            strategy.held().is_none_or(|held| held == known.len() as u64),
            "{}: {:?} held",
            S::NAME,
            strategy.held()
        );
    }
}

fn true_answers<I: Id + ?Sized>(needs: Needs) {
    if let Some(provided) = each::<I, _>(needs, TrueAnswers) {
        let usage = provided.usage();
        assert!(usage.bytes.unwrap() > 10_000, "{needs:?} keeps something: {usage:?}");
    }
}

#[test]
fn a_directory_gives_the_true_answers() {
    true_answers::<u64>(Needs::Directory);
    true_answers::<[u8]>(Needs::Directory);
}

#[test]
fn redis_gives_the_true_answers() {
    true_answers::<u64>(Needs::Redis);
    true_answers::<[u8]>(Needs::Redis);
}

#[test]
fn postgres_gives_the_true_answers() {
    true_answers::<[u8]>(Needs::Postgres);
}

/// Builds a strategy in the wrong place.
struct SaysWhy(Place);

impl Visitor<u64> for SaysWhy {
    type Output = Result<(), Failure>;

    fn visit<S: Strategy<u64>>(self) -> Self::Output {
        S::new(&plan(self.0)).map(drop)
    }
}

#[test]
fn a_wrong_place_is_an_error() {
    for strategy in listed::<u64>().into_iter().filter(|strategy| strategy.needs != Needs::Nothing) {
        let error = visit::<u64, _>(strategy.name, SaysWhy(Place::Memory)).unwrap().unwrap_err().to_string();
        let expected = if strategy.needs == Needs::Directory { "expected a directory" } else { "expected a server" };
        assert!(error.contains(expected), "{}: {error}", strategy.name);
    }
}

/// Checks an id, and another one after the server is gone.
struct Orphaned(Option<Provided>);

impl Visitor<u64> for Orphaned {
    type Output = String;

    fn visit<S: Strategy<u64>>(mut self) -> String {
        let provided = self.0.take().unwrap();
        let strategy = S::new(&plan(provided.place())).unwrap();
        assert!(strategy.check(&1, NOW));
        drop(provided);
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| strategy.check(&2, NOW)));
        let message = checked.expect_err("there is no server").downcast::<String>().expect("a message");
        *message
    }
}

#[test]
fn a_server_that_is_gone_ends_the_run_with_the_reason() {
    if let Some(reason) = missing(Needs::Redis) {
        return testkit::skipped(format_args!("a strategy whose server is gone: {reason}"));
    }
    for strategy in listed::<u64>().into_iter().filter(|strategy| strategy.needs == Needs::Redis) {
        let provided = provide(Needs::Redis).unwrap();
        let message = visit::<u64, _>(strategy.name, Orphaned(Some(provided))).unwrap();
        assert!(message.starts_with(&format!("{}: ", strategy.name)), "{message}");
        assert!(message.len() > strategy.name.len() + 10, "{message}");
    }
}

/// Counts the ids in a directory, as a process would that begins after a kill.
type Count = fn(&Path) -> Result<u64, Failure>;

/// Returns the stores that sync in groups.
fn grouped() -> &'static [(&'static str, Count)] {
    let grouped: &[(&'static str, Count)] = &[
        #[cfg(feature = "fjall")]
        ("fjall", |path: &Path| {
            let database = fjall::Database::builder(path).open()?;
            Ok(database.keyspace("ids", fjall::KeyspaceCreateOptions::default)?.len()? as u64)
        }),
        #[cfg(feature = "sqlite")]
        ("rusqlite", |path: &Path| {
            let connection = rusqlite::Connection::open(path.join("ids.sqlite"))?;
            Ok(connection.query_row("SELECT count(*) FROM ids", [], |row| row.get::<_, u32>(0))?.into())
        }),
        #[cfg(rocksdb)]
        ("RocksDB", |path: &Path| {
            let database = rocksdb::DB::open_default(path)?;
            let ids = database.iterator(rocksdb::IteratorMode::Start).collect::<Result<Vec<_>, _>>()?;
            Ok(ids.len() as u64)
        }),
    ];
    grouped
}

/// Adds ids, and then makes no call any more.
struct Interrupted(Count);

impl Visitor<u64> for Interrupted {
    type Output = ();

    fn visit<S: Strategy<u64>>(self) {
        let directory = tempfile::tempdir().unwrap();
        let strategy = S::new(&plan(Place::Directory(directory.path().to_owned()))).unwrap();
        let (began, mut fresh) = (Instant::now(), Vec::new());
        assert!((0..50).all(|id| strategy.check(&id, NOW)), "{}", S::NAME);
        strategy.check_batch((50..300).collect::<Vec<u64>>().iter(), NOW, &mut fresh);
        loop {
            // What the system has is what a kill leaves. While it is being written, it may be
            // neither.
            let copied = tempfile::tempdir().unwrap();
            let to = copied.path().join("copied");
            let found = copy(directory.path(), &to).map_err(Failure::from).and_then(|()| (self.0)(&to));
            if found.as_ref().is_ok_and(|ids| *ids == 300) {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{}: of 300 ids, a kill leaves {found:?}", S::NAME);
        }
        assert!(!strategy.check(&299, NOW), "{}: it was open all the time", S::NAME);
    }
}

#[test]
fn a_kill_leaves_the_last_ids_although_no_call_came_after_them() {
    for (name, count) in grouped() {
        visit::<u64, _>(name, Interrupted(*count)).expect("it is listed");
    }
}
