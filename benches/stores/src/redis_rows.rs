//! Redis on a Unix socket.

use crate::load::{CALLERS, check, claim, id, numbers, percentile, times};
use crate::redis_server::Server;
use crate::table::{median, row};
use hapax_redis::{RedisOptions, RedisStore};
use hapax_store::TieredDedup;
use std::process::Command;
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
const RETENTION: Duration = Duration::from_secs(3_600);
const PREFIX: &str = "h:\0";

async fn engine(server: &Server) -> TieredDedup<RedisStore> {
    let store = RedisStore::connect(RedisOptions::single(server.url(), "h")).await.expect("a connection");
    TieredDedup::builder(store).retention(RETENTION).timeout(Duration::from_secs(5)).build().await.expect("an engine")
}

async fn connection(server: &Server) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(server.url()).expect("an address");
    client.get_multiplexed_async_connection().await.expect("a connection")
}

async fn set_nx(connection: &mut redis::aio::MultiplexedConnection, number: u64) {
    let key = [PREFIX.as_bytes(), &id(number)].concat();
    let mut set = redis::cmd("SET");
    set.arg(key).arg(1).arg("NX").arg("PX").arg(RETENTION.as_millis() as u64);
    let set: Option<String> = set.query_async(connection).await.expect("an answer");
    assert!(set.is_some(), "it was fresh");
}

/// Sends one command at a time. Returns ids a second.
async fn naive(server: &Server, ids: u64) -> f64 {
    let (mut connection, first, begun) = (connection(server).await, numbers(ids), Instant::now());
    for i in 0..ids {
        set_nx(&mut connection, first + i).await;
    }
    ids as f64 / begun.elapsed().as_secs_f64()
}

/// Runs the benchmark that comes with the server. Returns ids a second.
fn redis_benchmark(server: &Server, pipeline: u32, requests: u32) -> Option<f64> {
    let output = Command::new("redis-benchmark")
        .args([
            "-s",
            &socket(server),
            "-P",
            &pipeline.to_string(),
            "-n",
            &requests.to_string(),
            "-r",
            "1000000000",
            "-q",
        ])
        .args(["SET", "key:__rand_int__", "1", "NX", "EX", "3600"])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).replace('\r', "\n");
    let line = text.lines().rev().find(|line| line.contains("requests per second"))?;
    let before = line.split(" requests per second").next()?;
    before.rsplit([' ', ':']).next()?.trim().parse().ok()
}

fn socket(server: &Server) -> String {
    server.url().trim_start_matches("redis+unix://").to_owned()
}

fn used_memory(server: &Server) -> f64 {
    let text: String = server.ask(&["INFO", "memory"]);
    let line = text.lines().find(|line| line.starts_with("used_memory:")).expect("a figure");
    line["used_memory:".len()..].trim().parse().expect("a number")
}

pub async fn run() {
    if crate::redis_server::is_missing() {
        return;
    }
    throughput().await;
    always().await;
    memory().await;
    idle().await;
}

async fn throughput() {
    println!("\n== Redis, shared, {CALLERS} callers at a time, no AOF");
    let [mut one, mut bench, mut ours, mut half, mut claims] = [const { Vec::new() }; 5];
    // Each case has a server of its own, since a server is slower the more it holds.
    for _ in 0..ROUNDS {
        one.push(naive(&Server::start(&[]), 20_000).await);
        bench.extend(redis_benchmark(&Server::start(&[]), 128, 1_024_000));
        let server = Server::start(&[]);
        ours.push(check(&engine(&server).await, CALLERS, 4_000, 0).await);
        let server = Server::start(&[]);
        half.push(check(&engine(&server).await, CALLERS, 8_000, 50).await);
        let server = Server::start(&[]);
        claims.push(claim(&engine(&server).await, CALLERS, 1_000).await);
    }
    let (one, ours, half) = (median(one), median(ours), median(half));
    row("one SET NX at a time", one, "ids/s", None, "");
    row("engine, fresh ids", ours, "ids/s", Some(("one at a time", one)), "target: 20 x");
    match bench.is_empty() {
        true => println!("SKIPPED: redis-benchmark is not installed"),
        false => {
            let bench = median(bench);
            row("redis-benchmark -P 128", bench, "ids/s", None, "");
            row("engine, fresh ids", ours, "ids/s", Some(("redis-benchmark", bench)), "target: 1.0 x");
        }
    }
    row("engine, half are recent redeliveries", half, "ids/s", Some(("fresh ids only", ours)), "target: 1.8 x");
    row("engine, claim and complete", median(claims), "ids/s", Some(("one SET NX at a time", one)), "");
}

async fn always() {
    println!("\n== Redis, appendfsync always");
    let (mut one, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
        one.push(naive(&server, 5_000).await);
        ours.push(check(&engine(&server).await, CALLERS, 1_500, 0).await);
    }
    let one = median(one);
    row("one SET NX at a time", one, "ids/s", None, "");
    row("engine, fresh ids", median(ours), "ids/s", Some(("one at a time", one)), "target: 32 x");
}

async fn memory() {
    println!("\n== Redis, memory");
    let server = Server::start(&[]);
    let dedup = engine(&server).await;
    let before = used_memory(&server);
    check(&dedup, CALLERS, 10_000, 0).await;
    let bytes = (used_memory(&server) - before) / (CALLERS * 10_000) as f64;
    row("exact", bytes, "B/id", None, "(112 for a 16-byte key with TTL)");
}

/// Runs from a task, as a consumer would: a caller that blocks a thread on a runtime is slower by
/// another thread's wake-up.
async fn idle() {
    println!("\n== Redis, one caller, idle otherwise");
    let (mut bare_times, mut our_times) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (bare, ours) = tokio::spawn(idle_round()).await.expect("a round");
        bare_times.push(bare);
        our_times.push(ours);
    }
    let bare = median(bare_times);
    row("the bare client's SET NX: median", bare, "us", None, "");
    row("engine: median", median(our_times), "us", Some(("bare client", bare)), "target: at most 1.25 x");
}

async fn idle_round() -> (f64, f64) {
    let server = Server::start(&[]);
    let (connection, first) = (connection(&server).await, numbers(20_000));
    let bare = times(10_000, |i| {
        let mut connection = connection.clone();
        async move { set_nx(&mut connection, first + i as u64).await }
    });
    let bare = percentile(&bare.await, 50.0);
    let dedup = engine(&server).await;
    let ours = times(10_000, |i| {
        let dedup = dedup.clone();
        async move { assert!(dedup.check(id(first + 10_000 + i as u64)).await.expect("an answer").is_fresh()) }
    });
    (bare, percentile(&ours.await, 50.0))
}
