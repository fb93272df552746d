//! The engine over Redis next to the client crate's own ways to do the same, in interleaved rounds:
//! 256 callers on its multiplexed connection, 256 callers on a connection each, one caller, and
//! pipelines. Each id is `SET … NX PX` there, as well written as its users would: the answer as a
//! `bool`, no time-out for each command.
//!
//! Besides ids a second: the processor time of this process for an id, which a busy machine
//! changes less.

use crate::load::{self, CALLERS, id, numbers};
use crate::redis_server::Server;
use hapax_redis::{RedisOptions, RedisStore};
use hapax_store::TieredDedup;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const RETENTION_MS: u64 = 3_600_000;
const BATCH: u64 = 1_024;
const BATCHERS: u64 = 4;

/// Ids a second, and nanoseconds of processor time an id.
#[derive(Clone, Copy)]
struct Measured {
    rate: f64,
    cpu_ns: f64,
}

/// Measures work on `ids` ids.
async fn measured(ids: u64, work: impl Future<Output = ()>) -> Measured {
    let (cpu, begun) = (cpu_ns(), Instant::now());
    work.await;
    let rate = ids as f64 / begun.elapsed().as_secs_f64();
    Measured { rate, cpu_ns: (cpu_ns() - cpu) as f64 / ids as f64 }
}

/// Returns the time that the threads of this process had a processor.
fn cpu_ns() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let on_cpu = threads.filter_map(|thread| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    on_cpu.sum()
}

/// Ids, of which every second one may be a redelivery: of one a fixed number of places before, by
/// the same caller, which has had its answer by then.
#[derive(Clone, Copy)]
struct Ids {
    first: u64,
    each: u64,
    back: Option<u64>,
}

impl Ids {
    fn new(callers: u64, each: u64, back: Option<u64>) -> Self {
        Ids { first: numbers(callers * each), each, back }
    }

    /// Returns the id at this place, and whether it was there before.
    fn at(self, place: u64) -> ([u8; 16], bool) {
        match self.back {
            Some(back) if place % 2 == 1 && place % self.each >= back => (id(self.first + place - back), true),
            _ => (id(self.first + place), false),
        }
    }
}

async fn connection(server: &Server) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).expect("an address");
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await.expect("a connection")
}

fn set_nx(id: &[u8; 16]) -> Cmd {
    let mut key = [0; 19];
    key[..3].copy_from_slice(b"h:\0");
    key[3..].copy_from_slice(id);
    let mut set = redis::cmd("SET");
    set.arg(&key[..]).arg(1).arg("NX").arg("PX").arg(RETENTION_MS);
    set
}

/// Runs callers, each on one of these connections, one id after the other.
async fn commands(connections: &[MultiplexedConnection], callers: u64, each: u64, half: bool) -> Measured {
    let ids = Ids::new(callers, each, half.then_some(1));
    measured(callers * each, async {
        let mut tasks = JoinSet::new();
        for caller in 0..callers {
            let mut connection = connections[caller as usize % connections.len()].clone();
            tasks.spawn(async move {
                for place in caller * each..(caller + 1) * each {
                    let (id, repeated) = ids.at(place);
                    let is_fresh: bool = set_nx(&id).query_async(&mut connection).await.expect("an answer");
                    assert_eq!(is_fresh, !repeated);
                }
            });
        }
        tasks.join_all().await;
    })
    .await
}

/// Sends pipelines of a batch, on a connection each.
async fn pipelines(connections: &[MultiplexedConnection], batches: u64, half: bool) -> Measured {
    let ids = Ids::new(BATCHERS, batches * BATCH, half.then_some(BATCH + 1));
    measured(BATCHERS * batches * BATCH, async {
        let mut tasks = JoinSet::new();
        for batcher in 0..BATCHERS {
            let mut connection = connections[batcher as usize].clone();
            tasks.spawn(async move {
                for batch in batcher * batches..(batcher + 1) * batches {
                    let places = batch * BATCH..(batch + 1) * BATCH;
                    let mut pipeline = Pipeline::with_capacity(BATCH as usize);
                    for place in places.clone() {
                        pipeline.add_command(set_nx(&ids.at(place).0));
                    }
                    let fresh: Vec<bool> = pipeline.query_async(&mut connection).await.expect("answers");
                    assert!(places.zip(fresh).all(|(place, is_fresh)| is_fresh != ids.at(place).1));
                }
            });
        }
        tasks.join_all().await;
    })
    .await
}

async fn engine(server: &Server) -> TieredDedup<RedisStore> {
    let store = RedisStore::connect(RedisOptions::single(server.url(), "h")).await.expect("a connection");
    let engine = TieredDedup::builder(store).retention(Duration::from_millis(RETENTION_MS));
    engine.timeout(Duration::from_secs(5)).build().await.expect("an engine")
}

async fn checks(dedup: &TieredDedup<RedisStore>, each: u64, half: bool) -> Measured {
    let ids = Ids::new(CALLERS, each, half.then_some(1));
    measured(CALLERS * each, async {
        let mut tasks = JoinSet::new();
        for caller in 0..CALLERS {
            let dedup = dedup.clone();
            tasks.spawn(async move {
                for place in caller * each..(caller + 1) * each {
                    let (id, repeated) = ids.at(place);
                    assert_eq!(dedup.check(id).await.expect("an answer").is_fresh(), !repeated);
                }
            });
        }
        tasks.join_all().await;
    })
    .await
}

async fn batches(dedup: &TieredDedup<RedisStore>, batches: u64, half: bool) -> Measured {
    let ids = Ids::new(BATCHERS, batches * BATCH, half.then_some(BATCH + 1));
    measured(BATCHERS * batches * BATCH, async {
        let mut tasks = JoinSet::new();
        for batcher in 0..BATCHERS {
            let dedup = dedup.clone();
            tasks.spawn(async move {
                for batch in batcher * batches..(batcher + 1) * batches {
                    let places = batch * BATCH..(batch + 1) * BATCH;
                    let verdicts = dedup.check_batch(places.clone().map(|place| ids.at(place).0)).await;
                    for (place, verdict) in places.zip(verdicts) {
                        assert_eq!(verdict.expect("an answer").is_fresh(), !ids.at(place).1);
                    }
                }
            });
        }
        tasks.join_all().await;
    })
    .await
}

async fn claims(dedup: &TieredDedup<RedisStore>, each: u64) -> Measured {
    measured(CALLERS * each, async {
        load::claim(dedup, CALLERS, each).await;
    })
    .await
}

const ROWS: [&str; 11] = [
    "SET NX, one caller",
    "SET NX, 256 callers, a connection each",
    "SET NX, 256 callers, one multiplexed connection",
    "SET NX, 256 callers, the same, half redelivered",
    "engine, 256 callers",
    "engine, 256 callers, half redelivered",
    "engine, 256 callers, claim and complete",
    "pipelines of 1,024 SET NX x 4",
    "pipelines of 1,024 SET NX x 4, half redelivered",
    "engine, batches of 1,024 x 4",
    "engine, batches of 1,024 x 4, half redelivered",
];

/// Runs a round, with a server for each row, since a server is slower the more it holds.
async fn round(scale: u64) -> [Measured; ROWS.len()] {
    let mut round = Vec::new();
    for row in 0..ROWS.len() {
        let server = Server::start(&[]);
        let connections = match row {
            1 => CALLERS,
            7 | 8 => BATCHERS,
            _ => 1,
        };
        let mut rivals = Vec::new();
        if matches!(row, 0..=3 | 7 | 8) {
            for _ in 0..connections {
                rivals.push(connection(&server).await);
            }
        }
        let dedup = engine(&server).await;
        round.push(match row {
            0 => commands(&rivals, 1, 10 * scale, false).await,
            1 | 2 => commands(&rivals, CALLERS, scale, false).await,
            3 => commands(&rivals, CALLERS, scale, true).await,
            4 => checks(&dedup, scale, false).await,
            5 => checks(&dedup, scale, true).await,
            6 => claims(&dedup, scale / 2).await,
            7 => pipelines(&rivals, scale / 16, false).await,
            8 => pipelines(&rivals, scale / 16, true).await,
            9 => batches(&dedup, scale / 16, false).await,
            _ => batches(&dedup, scale / 16, true).await,
        });
    }
    round.try_into().unwrap_or_else(|_| unreachable!("one for each row"))
}

/// Returns the median, the least and the most.
fn spread(values: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

/// Runs `HAPAX_ROUNDS` (9) rounds of `HAPAX_SCALE` (2,000) ids a caller.
pub async fn run() {
    if crate::redis_server::is_missing() {
        return;
    }
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(default);
    let (rounds, scale) = (number("HAPAX_ROUNDS", 9), number("HAPAX_SCALE", 2_000));
    round(scale / 10).await; // everything is warm then
    let mut measured = Vec::new();
    for _ in 0..rounds {
        measured.push(round(scale).await);
    }
    println!("\n== Redis, beside the client crate: {rounds} interleaved rounds; medians (least to most)");
    for (row, name) in ROWS.iter().enumerate() {
        let (rate, low, high) = spread(measured.iter().map(|round| round[row].rate / 1e3));
        let (cpu, least, most) = spread(measured.iter().map(|round| round[row].cpu_ns));
        println!("{name:<50} {rate:>7.1} k/s ({low:.1} to {high:.1}) {cpu:>7.0} ns/id ({least:.0} to {most:.0})");
    }
    println!("-- ratios of each round; processor time of this process: how many times less");
    for (ours, rival, bar) in
        [(4, 2, 1.1), (4, 1, 0.0), (4, 0, 0.0), (5, 3, 1.9), (9, 7, 1.0), (10, 8, 1.9), (6, 2, 0.0)]
    {
        let (ratio, low, high) = spread(measured.iter().map(|round| round[ours].rate / round[rival].rate));
        let (cpu, least, most) = spread(measured.iter().map(|round| round[rival].cpu_ns / round[ours].cpu_ns));
        let bar = if bar > 0.0 { format!("bar {bar}") } else { String::new() };
        println!(
            "{:<48} / {:<50} {ratio:.2} x ({low:.2} to {high:.2}) cpu {cpu:.2} x ({least:.2} to {most:.2}) {bar}",
            ROWS[ours], ROWS[rival]
        );
    }
}
