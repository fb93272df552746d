//! Backups that are put back. What they knew is known, and what came later is fresh. Who still
//! holds a claim that was lost changes nothing of its successor's, as docs/design/names.md says.

use crate::common::*;
use crate::redis::{connect, one};
use crate::tokens::{clock_at, open_fjall, open_sqlite};
use crate::{dynamodb, postgres, redis_server};
use hapax::{Clock, ManualClock, Timestamp};
use hapax_dynamodb::{DynamoDbOptions, DynamoDbStore};
use hapax_postgres::{PostgresOptions, PostgresStore};
use hapax_redis::RedisOptions;
use hapax_store::*;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use testkit::directory::copy;
use testkit::moto_server::MotoServer;
use testkit::processes::PATIENCE;

const LEASE: Duration = Duration::from_secs(3_600);

/// A store's place: how it is opened, and what to do with its backup while it is closed.
struct Place<Open, Handle> {
    open: Open,
    handle: Handle,
    /// The time, where it does not go on by itself.
    clock: ManualClock,
}

enum Backup {
    Take,
    PutBack,
}

async fn claim(store: &impl Store, id: &str) -> u64 {
    let Mark { key, attempt, .. } = mark_of(id, DAY); // a new attempt
    match one(store.claim(&[ClaimRequest { key, attempt, lease: LEASE, fingerprint: None }]).await) {
        Claimed::Claimed { token } => token,
        other => panic!("{id} can be had, but a claim says {other:?}"),
    }
}

fn hold(id: &str, token: u64) -> Hold {
    Hold { key: key(id), token }
}

async fn complete(store: &impl Store, id: &str, token: u64, result: &str) -> Held {
    one(store.complete(&[Completion { hold: hold(id, token), retention: DAY, result: Some(result.into()) }]).await)
}

/// Ends and renews what may be another's, in every way.
async fn is_lost(store: &impl Store, id: &str, token: u64) -> bool {
    let hold = hold(id, token);
    let answers = [
        complete(store, id, token, "too late").await,
        one(store.renew(&[Renewal { hold: hold.clone(), lease: 3 * LEASE }]).await),
        one(store.fail(&[ClaimFailure { hold: hold.clone(), retry_after: LEASE }]).await),
        one(store.release(&[hold]).await),
    ];
    answers == [Held::Lost; 4]
}

async fn found(store: &impl Inspect, id: &str) -> Inspected {
    one(store.inspect(&[key(id)]).await).unwrap_or_else(|| panic!("nothing is known of {id}"))
}

async fn has_result(store: &impl Inspect, id: &str, result: &str) -> bool {
    let found = found(store, id).await;
    found.state == RecordState::Completed && found.result.as_deref() == Some(result.as_bytes())
}

/// Returns all that a store knows, sorted.
async fn content(store: &impl Inspect) -> String {
    let (mut content, mut next) = (Vec::new(), Some(None));
    while let Some(from) = next {
        let page = store.list(from.as_ref(), 100).await.unwrap();
        content.extend(page.listed.iter().map(|listed| format!("{}: {:?}", listed.key.id, listed.state)));
        next = page.next.map(Some);
    }
    content.sort();
    content.join(", ")
}

impl<S: Inspect, Open: AsyncFn() -> S, Handle: AsyncFn(Backup)> Place<Open, Handle> {
    async fn is_put_back(&self) {
        let store = (self.open)().await;
        assert_eq!(mark(&store, "seen").await, Marked::Fresh);
        let (a, b) = (claim(&store, "a").await, claim(&store, "b").await);
        assert_eq!(complete(&store, "b", b, "b's").await, Held::Done);
        drop(store);
        (self.handle)(Backup::Take).await;

        self.clock.advance(Duration::from_secs(2));
        let store = (self.open)().await;
        let lost = mark_of("seen later", DAY);
        assert_eq!(one(store.mark(std::slice::from_ref(&lost)).await), Marked::Fresh);
        let (c, d) = (claim(&store, "c").await, claim(&store, "d").await);
        assert_eq!(complete(&store, "d", d, "d's").await, Held::Done);
        assert_eq!(one(store.renew(&[Renewal { hold: hold("a", a), lease: 2 * LEASE }]).await), Held::Done);
        assert!(one(store.forget(&[key("b")]).await));
        assert_eq!(content(&store).await, "a: Claimed, c: Claimed, d: Completed, seen later: Marked, seen: Marked");
        drop(store);
        (self.handle)(Backup::PutBack).await;

        self.clock.advance(Duration::from_secs(2));
        let store = (self.open)().await;
        assert_eq!(content(&store).await, "a: Claimed, b: Completed, seen: Marked");
        assert!(matches!(mark(&store, "seen").await, Marked::Duplicate { .. }));
        assert!(has_result(&store, "b", "b's").await);
        let held = found(&store, "a").await;
        assert!(held.token == Some(a) && held.expires_in <= LEASE, "{held:?}: it was not renewed");
        assert_eq!(complete(&store, "a", a, "a's").await, Held::Done);
        assert!(has_result(&store, "a", "a's").await);
        // A mark is its attempt's: who made the one that was lost takes back none but that.
        assert_eq!(mark(&store, "seen later").await, Marked::Fresh);
        assert_eq!(one(store.unmark(&[Unmark { key: lost.key, attempt: lost.attempt }]).await), Unmarked::NotThere);
        assert!(is_done(&store, "seen later").await);
        for (id, first) in [("c", c), ("d", d)] {
            let second = claim(&store, id).await;
            is_its_second_workers(&store, id, first, second).await;
        }
    }

    /// Claims three ids after a backup, and again when it is put back, at these times of the clock.
    /// Returns the tokens of both.
    async fn drawn(&self, ids: &[String; 3], at: [Timestamp; 2]) -> (S, [Vec<u64>; 2]) {
        claim(&(self.open)().await, &ids.concat()).await;
        (self.handle)(Backup::Take).await;
        let draw = async |now| {
            self.clock.set(now);
            let (store, mut tokens) = ((self.open)().await, Vec::new());
            for id in ids {
                tokens.push(claim(&store, id).await);
            }
            (store, tokens)
        };
        let (store, first) = draw(at[0]).await;
        drop(store);
        (self.handle)(Backup::PutBack).await;
        let (store, second) = draw(at[1]).await;
        (store, [first, second])
    }

    /// Shows when tokens are drawn again. `ahead`: by how far they begin ahead of the clock.
    async fn draws_again_only_if_the_clock_is_behind(&self, ahead: Duration) {
        let (micro, second) = (Duration::from_micros(1), Duration::from_secs(1));
        for case in 0..4 {
            let backed_up = self.clock.now() + 3 * LEASE;
            self.clock.set(backed_up);
            let (at, again) = [
                ([backed_up - LEASE; 2], true),
                ([backed_up + 9 * second; 2], true),
                ([backed_up + 9 * second, backed_up + 9 * second + micro], false),
                ([backed_up + second / 3, backed_up + second / 2], ahead == second),
            ][case];
            let ids = ["1", "2", "3"].map(|id| format!("{case} {id}"));
            let (store, [first, second]) = self.drawn(&ids, at).await;
            assert_eq!(first == second, again, "{case}: {first:?}, {second:?}");
            if again {
                is_both_workers(&store, &ids, &second).await;
            } else {
                for (i, id) in ids.iter().enumerate() {
                    is_its_second_workers(&store, id, first[i], second[i]).await;
                }
            }
        }
    }
}

/// Checks a claim that was made anew after the loss: the first worker's token is nobody's.
async fn is_its_second_workers(store: &impl Inspect, id: &str, first: u64, second: u64) {
    assert!(second > first, "{second} after {first}");
    assert!(is_lost(store, id, first).await);
    let held = found(store, id).await;
    assert!(held.state == RecordState::Claimed && held.token == Some(second) && held.expires_in <= LEASE, "{held:?}");
    assert_eq!(complete(store, id, second, "the second's").await, Held::Done);
    assert!(is_lost(store, id, first).await);
    assert!(has_result(store, id, "the second's").await);
}

/// Checks claims whose tokens two workers have.
async fn is_both_workers(store: &impl Inspect, ids: &[String; 3], tokens: &[u64]) {
    // The second completion is answered by the first one's, whosever that is.
    for (i, order) in [(0, ["the first's", "the second's"]), (1, ["the second's", "the first's"])] {
        for result in order {
            assert_eq!(complete(store, &ids[i], tokens[i], result).await, Held::Done);
        }
        assert!(has_result(store, &ids[i], order[0]).await);
    }
    // What the first worker releases is the second one's, and a third one gets it.
    assert_eq!(one(store.release(&[hold(&ids[2], tokens[2])]).await), Held::Done);
    assert!(claim(store, &ids[2]).await > tokens[2]);
    assert_eq!(complete(store, &ids[2], tokens[2], "the second's").await, Held::Lost);
}

/// Handles the files of an embedded store.
async fn handle_files(directory: &Directory, backup: Backup) {
    let [files, copied] = ["files", "copied"].map(|name| directory.path().join(name));
    match backup {
        Backup::Take => copy_of_one_moment(&files, &copied),
        Backup::PutBack => {
            std::fs::remove_dir_all(&files).unwrap();
            copy(&copied, &files).unwrap();
        }
    }
}

#[test]
fn files_of_sqlite() {
    let (directory, clock) = (Directory::made("restored"), clock_at(0));
    let open = async || {
        let files = directory.path().join("files");
        std::fs::create_dir_all(&files).unwrap();
        open_sqlite(&files.join("ids.db"), &clock).await
    };
    let handle = async |backup| handle_files(&directory, backup).await;
    runtime().block_on(async {
        let place = Place { open, handle, clock: clock.clone() };
        place.is_put_back().await;
        place.draws_again_only_if_the_clock_is_behind(Duration::ZERO).await;
    });
}

#[test]
fn files_of_fjall() {
    let (directory, clock) = (Directory::made("restored"), clock_at(0));
    let files = directory.path().join("files");
    let open = async || open_fjall(&files, &clock).await;
    let handle = async |backup| handle_files(&directory, backup).await;
    runtime().block_on(async {
        let place = Place { open, handle, clock: clock.clone() };
        place.is_put_back().await;
        place.draws_again_only_if_the_clock_is_behind(Duration::from_secs(1)).await;
    });
}

/// A table that is restored has another name.
#[test]
fn a_table_of_dynamodb() {
    let Some(server) = MotoServer::start_without_threads() else { return };
    let client = dynamodb::client(([127, 0, 0, 1], server.port()).into());
    let (clock, table, items) = (clock_at(0), Cell::new(0), RefCell::default());
    let name = || format!("table-{}", table.get());
    let open = async || {
        let options = DynamoDbOptions::new(name()).timeout(PATIENCE).try_timeout(PATIENCE);
        let store = DynamoDbStore::new(&client, options).unwrap().with_clock(clock.clone());
        store.create_table().await.unwrap();
        store
    };
    let handle = async |backup| match backup {
        Backup::Take => drop(items.replace(client.scan().table_name(name()).send().await.unwrap().items.unwrap())),
        Backup::PutBack => {
            table.set(table.get() + 1);
            open().await;
            for item in items.take() {
                client.put_item().table_name(name()).set_item(Some(item)).send().await.unwrap();
            }
        }
    };
    runtime().block_on(async {
        let place = Place { open, handle, clock: clock.clone() };
        place.is_put_back().await;
        place.draws_again_only_if_the_clock_is_behind(Duration::ZERO).await;
    });
}

#[test]
fn a_server_of_postgresql() {
    let Some(server) = postgres::server::Server::start(&["fsync=off"]) else { return };
    let open = async || {
        let options = PostgresOptions::parse(&server.address()).unwrap().timeout(PATIENCE).unwrap();
        let store = PostgresStore::new(options, "restored").unwrap();
        store.migrate().await.unwrap();
        store
    };
    let handle = async |backup| {
        server.kill();
        match backup {
            Backup::Take => server.back_up(),
            Backup::PutBack => server.restore(),
        }
        server.launch();
    };
    runtime().block_on(Place { open, handle, clock: clock_at(0) }.is_put_back());
}

#[test]
fn a_server_of_redis_with_a_log_and_without() {
    if redis_server::is_missing() {
        return;
    }
    for appends in ["yes", "no"] {
        let server = redis_server::Server::start(&["--appendonly", appends]);
        let open = async || connect(RedisOptions::single(server.url(), "h")).await;
        let handle = async |backup| match backup {
            Backup::Take => server.back_up(),
            Backup::PutBack => server.restore(),
        };
        runtime().block_on(Place { open, handle, clock: clock_at(0) }.is_put_back());
    }
}
