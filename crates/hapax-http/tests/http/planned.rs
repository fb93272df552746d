//! The room that responses take in a store, as `hapax_plan` predicts it.

use crate::world::*;
use axum::extract::Request;
use axum::response::Response;
use hapax_http::IdempotencyLayer;
use hapax_plan::{Demand, ResponsesPlan};
use hapax_redis::{RedisOptions, RedisStore};
use hapax_sqlite::SqliteStore;
use hapax_store::{BudgetStore, Store};
use std::sync::Arc;
use std::time::Duration;
use testkit::directory::Directory;
use testkit::random::Random;

const RESPONSES: usize = 500;
/// The headers of a response, as an API has them.
const HEADERS: [(&str, &str); 5] = [
    ("content-type", "application/json"),
    ("location", "/charges/ch_3QkzZ2eZvKYlo2C"),
    ("etag", "\"33a64df551425fcc55e4d42a148795d9f25f89d4\""),
    ("cache-control", "no-store"),
    ("x-request-id", "0191c3a8-4a9b-7c52-9a55-3f0e9a1c2d4e"),
];
/// The lengths of bodies: short, as of many APIs, and of a page.
const BODIES: [usize; 3] = [150, 2_000, 9_000];

/// Returns what is predicted of as many responses with a body of this length.
fn predicted(body: usize) -> ResponsesPlan {
    let bytes = body + HEADERS.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
    let demand = Demand::new(1.0, Duration::from_secs(60));
    let demand = demand.responses(RESPONSES as f64, bytes, Duration::from_secs(1));
    demand.plan().expect("a plan").responses.expect("responses")
}

/// Sends requests whose responses are kept.
async fn fill<S: Store>(store: S, body: usize) {
    let layer = IdempotencyLayer::builder(engine(store).build().await.unwrap()).global_scope();
    let handler = move |_: Request| {
        let response =
            HEADERS.iter().fold(Response::builder(), |response, (name, value)| response.header(*name, *value));
        std::future::ready(response.body("x".repeat(body).into()).unwrap())
    };
    let server = Server::start(layer.build().unwrap(), handler).await;
    // Keys as clients draw them: in no order.
    let mut random = Random(body as u64);
    for _ in 0..RESPONSES {
        let answer = server.post(&format!("{:016x}-{:016x}", random.next(), random.next()), "").await;
        assert_eq!((answer.status.as_u16(), answer.body.len(), answer.is_replayed()), (200, body, false));
    }
}

#[track_caller]
fn assert_close(what: &str, body: usize, predicted: f64, measured: f64) {
    let difference = measured / predicted - 1.0;
    println!(
        "{what}, bodies of {body}: predicted {predicted:.0}, measured {measured:.0} ({:.1} %)",
        100.0 * difference
    );
    assert!(difference.abs() < 0.1, "{what}, bodies of {body}: predicted {predicted}, measured {measured}");
}

#[tokio::test]
async fn the_budget_counts_what_is_predicted() {
    for body in BODIES {
        let store = Arc::new(BudgetStore::new(64 << 20).unwrap());
        fill(Arc::clone(&store), body).await;
        let scope = RESPONSES * "http".len();
        assert_eq!(predicted(body).budget_bytes as usize + scope, store.used_bytes() as usize);
    }
}

#[tokio::test]
async fn a_record_and_sqlite_take_what_is_predicted() {
    for body in BODIES {
        let directory = Directory::new("planned");
        let path = directory.path().join("responses.db");
        fill(SqliteStore::open(&path).await.unwrap(), body).await;
        let connection = rusqlite::Connection::open(&path).unwrap();
        let number = |sql: &str| connection.query_row(sql, (), |row| row.get::<_, f64>(0)).unwrap();
        // Before the record stand state, time, token and fingerprint: 33 bytes.
        let record = number("SELECT avg(length(kept)) FROM hapax") - 33.0;
        assert_eq!(predicted(body).record_bytes, record, "bodies of {body}");
        let pages = number("SELECT CAST(page_count * page_size AS REAL) FROM pragma_page_count, pragma_page_size");
        assert_close("SQLite", body, predicted(body).sqlite_bytes, pages);
    }
}

#[tokio::test]
async fn redis_takes_what_is_predicted() {
    if crate::redis_server::is_missing() {
        return;
    }
    let server = crate::redis_server::Server::start(&[]);
    let store = RedisStore::connect(RedisOptions::single(server.url(), "http")).await.unwrap();
    let store = Arc::new(store);
    fill(Arc::clone(&store), 10).await; // scripts, buffers
    let used = || {
        let said: String = server.ask(&["INFO", "memory"]);
        let line = said.lines().find_map(|line| line.strip_prefix("used_memory:"));
        line.expect("it says").trim().parse::<f64>().unwrap()
    };
    for body in BODIES {
        let before = used();
        fill(Arc::clone(&store), body).await;
        assert_close("Redis", body, predicted(body).redis_bytes, used() - before);
    }
}
