//! The backends of the campaign: their servers, the connections to them, and the faults of each.

use super::plan::{Part, Plan};
use super::worker::work;
use hapax_fjall::FjallStore;
use hapax_postgres::{PostgresOptions, PostgresStore};
use hapax_redis::{RedisOptions, RedisStore};
use hapax_sqlite::SqliteStore;
use hapax_store::*;
use hapax_testing::store::{Fault, FaultyStore};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use testkit::directory::Directory;
use testkit::postgres_server::Server as Postgres;
use testkit::processes::send;
use testkit::proxy::{Mode, Proxy};
use testkit::random::Random;
use testkit::redis_server::{Cluster, Server as Redis, is_missing};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::sleep;

pub const ALL: [&str; 7] = ["memory", "budget", "redis", "cluster", "postgres", "fjall", "sqlite"];
pub const CHILD: &str = "HAPAX_CAMPAIGN_CHILD";

/// The place of the records.
enum Records {
    /// In this process, which all workers are parts of.
    Here(Arc<FaultyStore<DynStore>>),
    Redis(Redis, Proxy),
    Cluster(Cluster),
    Postgres(Postgres, Proxy),
    File(Directory),
}

pub struct Backend {
    plan: Plan,
    records: Records,
    /// The store's address, for workers.
    address: String,
    pub workers: usize,
}

/// A worker: a process, or a runtime of its own where the store is in this process.
pub enum Worker {
    Process(Child),
    Runtime(Runtime, JoinHandle<()>),
}

impl Backend {
    /// Starts a backend. None if its server is not available, which is printed.
    pub async fn start(plan: &Plan) -> Option<Backend> {
        const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
        let here = |store: DynStore| Records::Here(Arc::new(FaultyStore::new(store)));
        let (records, address) = match plan.backend.as_str() {
            "memory" => (here(DynStore::new(InMemoryStore::new())), String::new()),
            "budget" => (here(DynStore::new(BudgetStore::new(1 << 30).expect("a budget"))), String::new()),
            "redis" if !is_missing() => {
                let server = tokio::task::block_in_place(|| Redis::start_on_loopback(&DURABLE));
                let proxy = Proxy::to(server.address()).await;
                let address = format!("redis://{}", proxy.address());
                (Records::Redis(server, proxy), address)
            }
            "cluster" if !is_missing() => {
                let cluster = tokio::task::block_in_place(|| Cluster::start_with(&DURABLE));
                let address = cluster.urls().join(",");
                (Records::Cluster(cluster), address)
            }
            "postgres" => {
                // What is killed is the server, not the system: that loses nothing.
                let server = tokio::task::block_in_place(|| Postgres::start(&["fsync=off"]))?;
                let proxy = Proxy::to(([127, 0, 0, 1], server.port).into()).await;
                let address = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", proxy.address().port());
                (Records::Postgres(server, proxy), address)
            }
            "fjall" | "sqlite" => {
                let directory = Directory::new(&format!("campaign-{}", plan.backend));
                let address = directory.path().join("store").display().to_string();
                (Records::File(directory), address)
            }
            "redis" | "cluster" => return None,
            other => panic!("no backend is called {other}; there are {ALL:?}"),
        };
        // One process for a directory of fjall.
        let workers = if plan.backend == "fjall" { 1 } else { 3 };
        Some(Backend { plan: plan.clone(), records, address, workers })
    }

    pub fn spawn(&self, mut part: Part) -> Worker {
        part.store.clone_from(&self.address);
        if let Records::Here(store) = &self.records {
            let (runtime, store) =
                (Builder::new_multi_thread().worker_threads(2).enable_all().build(), Arc::clone(store));
            let runtime = runtime.expect("a runtime");
            let working = runtime.spawn(async move {
                let number = part.worker;
                println!("worker {number} has ended: {}", work(part, store).await);
            });
            return Worker::Runtime(runtime, working);
        }
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child
            .args(["--exact", "campaign::child", "--nocapture", "--test-threads=1"])
            .env(CHILD, part.to_text())
            .stdout(Stdio::null());
        Worker::Process(testkit::children::started(child))
    }

    /// Causes one fault, for a while. Returns which, and how long it lasted.
    pub async fn harm(&self, random: &mut Random) -> String {
        let time = self.plan.fault(random);
        format!("{} for {time:?}", self.harm_for(time, random).await)
    }

    async fn harm_for(&self, time: Duration, random: &mut Random) -> String {
        match &self.records {
            Records::Here(store) => {
                let fault = match random.below(4) {
                    0 => Fault::Fails(ErrorKind::Unavailable),
                    1 => Fault::LosesAnswer(ErrorKind::Timeout),
                    2 => Fault::Hangs,
                    _ => Fault::Delays(Duration::from_millis(50)),
                };
                store.always(fault);
                sleep(time).await;
                store.always(Fault::None);
                format!("{fault:?}")
            }
            Records::Redis(server, proxy) => match random.below(3) {
                0 => {
                    server.kill();
                    sleep(time).await;
                    tokio::task::block_in_place(|| server.start_again());
                    "server killed".to_owned()
                }
                1 => stopped(&family(server.pid()), time).await,
                _ => in_the_way(proxy, random, time).await,
            },
            Records::Cluster(cluster) => {
                let node = &cluster.nodes[random.below(3) as usize];
                // One that is started again takes no writes for two seconds, nearly a short lease.
                if !self.plan.is_short && random.percent(50) {
                    node.kill();
                    sleep(time).await;
                    tokio::task::block_in_place(|| node.start_again());
                    "node killed".to_owned()
                } else {
                    stopped(&family(node.pid()), time).await
                }
            }
            Records::Postgres(server, proxy) => match random.below(3) {
                0 => {
                    tokio::task::block_in_place(|| server.kill());
                    sleep(time).await;
                    tokio::task::block_in_place(|| server.launch());
                    "server killed".to_owned()
                }
                1 => stopped(&family(server.pid()), time).await,
                _ => in_the_way(proxy, random, time).await,
            },
            // Another process has the file.
            Records::File(directory) if self.plan.backend == "sqlite" => {
                locked(&directory.path().join("store"), time).await;
                "file locked".to_owned()
            }
            // No other process can open it.
            Records::File(_) => {
                sleep(time).await;
                "nothing".to_owned()
            }
        }
    }
}

async fn in_the_way(proxy: &Proxy, random: &mut Random, time: Duration) -> String {
    let mode = [Mode::Pass, Mode::Stall, Mode::Mute, Mode::Refuse][random.below(4) as usize];
    proxy.set(mode);
    if mode == Mode::Pass {
        proxy.cut();
    }
    sleep(time).await;
    proxy.set(Mode::Pass);
    // A part of the bytes was not sent on meanwhile, so the rest would be nonsense.
    proxy.cut();
    format!("network: {mode:?}, cut")
}

/// Stops processes for a while.
async fn stopped(pids: &[u32], time: Duration) -> String {
    signal(pids, "STOP");
    sleep(time).await;
    signal(pids, "CONT");
    "stopped".to_owned()
}

fn signal(pids: &[u32], signal: &str) {
    let pids = pids.iter().map(u32::to_string);
    // Some may be gone by now.
    send(signal, pids);
}

/// Returns a process, and those that it has started.
fn family(pid: Option<u32>) -> Vec<u32> {
    let Some(pid) = pid else { return Vec::new() };
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|word| word.parse().ok());
    std::iter::once(pid).chain(children).collect()
}

async fn locked(path: &Path, time: Duration) {
    let Ok(connection) = rusqlite::Connection::open(path) else { return };
    let _ = connection.busy_timeout(Duration::from_millis(200));
    if tokio::task::block_in_place(|| connection.execute_batch("BEGIN IMMEDIATE")).is_ok() {
        sleep(time).await;
        let _ = connection.execute_batch("ROLLBACK");
    }
}

impl Worker {
    /// Kills it, as `kill -9`.
    pub fn kill(self) {
        match self {
            Worker::Process(mut child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            Worker::Runtime(runtime, _) => runtime.shutdown_background(),
        }
    }

    /// Stops it for a while, if it is a process.
    pub async fn stop(&self, time: Duration) {
        if let Worker::Process(child) = self {
            stopped(&[child.id()], time).await;
        }
    }

    /// Returns true if it has ended by itself, which it must not.
    pub fn has_ended(&mut self) -> bool {
        match self {
            Worker::Process(child) => child.try_wait().expect("its state").is_some(),
            Worker::Runtime(_, working) => working.is_finished(),
        }
    }
}

/// Does a child's work.
pub async fn work_on(part: Part) -> String {
    loop {
        // The server may be away just now.
        match open(&part).await {
            Ok(store) => return work(part, store).await,
            Err(error) if error.kind().is_transient() => sleep(Duration::from_millis(50)).await,
            Err(error) => return error.to_string(),
        }
    }
}

async fn open(part: &Part) -> Result<DynStore, StoreError> {
    let address = part.store.as_str();
    Ok(match part.plan.backend.as_str() {
        "redis" => DynStore::new(RedisStore::connect(RedisOptions::single(address, "h")).await?),
        "cluster" => DynStore::new(RedisStore::connect(RedisOptions::cluster(address.split(','), "h")).await?),
        "postgres" => {
            let store = PostgresStore::new(PostgresOptions::parse(address)?, "h")?;
            store.migrate().await?;
            DynStore::new(store)
        }
        "fjall" => DynStore::new(FjallStore::open(address).await?),
        "sqlite" => DynStore::new(SqliteStore::open(address).await?),
        other => panic!("no worker opens {other}"),
    })
}
