//! Streams of servers of the tests' own: one, with a Sentinel, in a cluster.

mod away;
mod redriven;
mod servers;

use crate::store::installed;
use hapax_redis::{RedisOptions, RedisStream, RedisStreamError, RedisStreamOptions, StreamEntry};
use hapax_stream::Source;
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::processes::PATIENCE;
use testkit::redis_server::Server;

const IDLE: Duration = Duration::from_millis(400);
const HOUR: Duration = Duration::from_secs(3_600);
/// The time between two searches for idle entries, at most.
const SEARCH: Duration = Duration::from_secs(1);

fn options(consumer: &str) -> RedisStreamOptions {
    RedisStreamOptions::new("orders", "billing", consumer).idle(IDLE)
}

async fn connect(server: &Server, options: RedisStreamOptions) -> RedisStream {
    RedisStream::connect(RedisOptions::single(server.url(), "test"), options).await.expect("a stream")
}

/// Adds entries with ids of these numbers.
fn add(server: &Server, numbers: std::ops::Range<usize>) {
    for number in numbers {
        server.ask::<String>(&["XADD", "orders", "*", "id", &format!("o-{number}"), "payload", "an order"]);
    }
}

/// Receives some entries.
async fn receive(stream: &RedisStream, many: usize) -> Vec<Arc<StreamEntry>> {
    let (mut entries, began) = (Vec::new(), Instant::now());
    while entries.len() < many {
        assert!(began.elapsed() < PATIENCE, "{} of {many}", entries.len());
        let received = stream.receive(many - entries.len()).await.expect("entries").expect("no end");
        entries.extend(received.into_iter().map(Arc::new));
    }
    entries
}

fn ids(entries: &[Arc<StreamEntry>]) -> Vec<String> {
    let id = |entry: &Arc<StreamEntry>| String::from_utf8(entry.field("id").expect("an id").to_vec()).expect("text");
    entries.iter().map(id).collect()
}

/// Receives for a while, and returns what has come.
async fn receive_for(stream: &RedisStream, time: Duration) -> Vec<Arc<StreamEntry>> {
    let (mut entries, began) = (Vec::new(), Instant::now());
    while began.elapsed() < time {
        entries.extend(stream.receive(100).await.expect("entries").expect("no end").into_iter().map(Arc::new));
    }
    entries
}

#[tokio::test]
async fn entries_of_a_dead_consumer_are_taken_over_but_for_those_that_are_done() {
    let Some(server) = installed(|| Server::start(&[])) else { return };
    add(&server, 0..10); // before there is a group
    let first = connect(&server, options("one")).await;
    let all = receive(&first, 10).await;
    assert!(all.iter().all(|entry| first.deliveries(entry) == Some(1)));
    first.acknowledge(&all[..4]).await.expect("acknowledged");
    let (lag, none) = (first.lag().await.expect("a lag"), receive_for(&first, IDLE / 2).await);
    assert_eq!((lag.pending, lag.unread, none), (6, Some(0), vec![]));
    drop(first);
    let second = connect(&server, options("two")).await;
    let again = receive(&second, 6).await;
    assert_eq!(ids(&again), ids(&all[4..]), "its entries, and no others");
    assert!(again.iter().all(|entry| second.deliveries(entry) == Some(2)), "they may have killed it");
    second.acknowledge(&again).await.expect("acknowledged");
    add(&server, 10..11);
    assert_eq!(ids(&receive(&second, 1).await), ["o-10"]);
}

#[tokio::test]
async fn an_entry_that_is_worked_on_is_nobody_elses() {
    let Some(server) = installed(|| Server::start(&[])) else { return };
    add(&server, 0..1);
    let options = |consumer| options(consumer).idle(HOUR);
    let (first, second) = (connect(&server, options("one")).await, connect(&server, options("two")).await);
    assert_eq!(first.heartbeat(), Some(HOUR / 3));
    let entry = receive(&first, 1).await;
    // Time passes at the server, which is told that nobody has said anything for so long.
    let pass = |time: Duration| {
        let (id, idle) = (entry[0].entry_id(), time.as_millis().to_string());
        server.ask::<redis::Value>(&["XCLAIM", "orders", "billing", "one", "0", id, "IDLE", &idle, "JUSTID"]);
    };
    for _ in 0..3 {
        pass(HOUR * 9 / 10);
        assert_eq!(receive_for(&second, 2 * SEARCH).await, [], "it was taken over");
        first.extend(&entry).await.expect("extended");
        let (_, _, idle, _): (String, String, u64, u64) =
            server.ask::<Vec<_>>(&["XPENDING", "orders", "billing", "-", "+", "1"]).remove(0);
        assert!(Duration::from_millis(idle) < HOUR / 2, "it counts from now: {idle} ms");
    }
    pass(HOUR);
    assert_eq!(receive(&second, 1).await[0].entry_id(), entry[0].entry_id(), "it is, when nobody says so any more");
    first.acknowledge(&entry).await.expect("acknowledged");
    first.extend(&entry).await.expect("too late, and no error");
    assert_eq!(receive_for(&second, 2 * SEARCH).await, [], "what is acknowledged is not pending");
}

#[tokio::test]
async fn an_entry_that_is_given_back_comes_again_when_it_is_due() {
    let Some(server) = installed(|| Server::start(&[])) else { return };
    add(&server, 0..2);
    let stream = connect(&server, options("one").idle(HOUR)).await;
    let entries = receive(&stream, 2).await;
    stream.retry(&entries[0], Duration::from_secs(1)).await.expect("given back");
    let began = Instant::now();
    assert_eq!(receive(&stream, 1).await[0].entry_id(), entries[0].entry_id());
    let took = began.elapsed();
    assert!((Duration::from_millis(950)..PATIENCE).contains(&took), "{took:?}");
}

#[tokio::test]
async fn an_entry_that_is_put_aside_says_where_it_comes_from() {
    let Some(server) = installed(|| Server::start(&[])) else { return };
    server.ask::<String>(&["XADD", "orders", "*", "id", "o-1", "dead-letter-reason", "an earlier one"]);
    let stream = connect(&server, options("one")).await;
    let entry = receive(&stream, 1).await.remove(0);
    stream.dead_letter(&entry, "it always fails").await.expect("put aside");
    let dead: Vec<(String, Vec<String>)> = server.ask(&["XRANGE", "orders:dead", "-", "+"]);
    let expected = ["id", "o-1", "dead-letter-reason", "it always fails", "dead-letter-stream", "orders"];
    let expected = [&expected[..], &["dead-letter-entry", entry.entry_id(), "dead-letter-group", "billing"]].concat();
    assert_eq!(dead[0].1, expected);
    let elsewhere = connect(&server, options("one").dead_letters("aside")).await;
    elsewhere.dead_letter(&entry, &"é".repeat(1_000_000)).await.expect("put aside");
    let dead: Vec<(String, Vec<String>)> = server.ask(&["XRANGE", "aside", "-", "+"]);
    assert_eq!((dead.len(), &dead[0].1[3]), (1, &"é".repeat(512)), "a reason has an end");
}

#[tokio::test]
async fn what_is_done_is_deleted_if_that_was_said_and_what_is_trimmed_is_counted() {
    let Some(server) = installed(|| Server::start(&[])) else { return };
    add(&server, 0..10);
    let stays = connect(&server, options("one")).await;
    let all = receive(&stays, 10).await;
    stays.acknowledge(&all[..2]).await.expect("acknowledged");
    assert_eq!(server.ask::<u32>(&["XLEN", "orders"]), 10, "it stays");
    let deletes = connect(&server, options("one").delete_acknowledged(true)).await;
    deletes.acknowledge(&all[2..5]).await.expect("acknowledged");
    assert_eq!(server.ask::<u32>(&["XLEN", "orders"]), 7);
    server.ask::<u32>(&["XTRIM", "orders", "MAXLEN", "2"]);
    let left = receive(&deletes, 2).await;
    assert_eq!((ids(&left), deletes.trimmed()), (ids(&all[8..]), 3), "three that were pending are gone");
    deletes.acknowledge(&left).await.expect("acknowledged");
    assert_eq!(deletes.lag().await.expect("a lag").pending, 0);
}

#[tokio::test]
async fn a_group_may_begin_at_the_end() {
    let Some(server) = installed(|| Server::start(&[])) else { return };
    add(&server, 0..3);
    let stream = connect(&server, options("one").from_end(true)).await;
    add(&server, 3..4);
    assert_eq!(ids(&receive(&stream, 1).await), ["o-3"]);
    drop(stream);
    let stream = connect(&server, options("one").from_end(true)).await;
    add(&server, 4..5);
    assert_eq!(ids(&receive(&stream, 2).await).len(), 2, "a group that is there goes on where it was");
}

#[tokio::test]
async fn wrong_options_are_named() {
    let wrong = options("one").idle(Duration::ZERO);
    let refused = RedisStream::connect(RedisOptions::single("redis://127.0.0.1:1", "test"), wrong).await.map(drop);
    assert!(matches!(refused, Err(RedisStreamError::Misconfigured(_))), "{refused:?}");
}
