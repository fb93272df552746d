//! Several processes share a store, and are killed: every id is completed, none twice. The
//! processes are this program once more; each appends its actions to a file, which outlives it.
//!
//! Each id is delivered three times, to any of them; a delivery that was not acknowledged is
//! delivered again. `HAPAX_DELIVERIES=n` says how many deliveries there are in each test.

use hapax::{Clock, Timestamp};
use hapax_postgres::{PostgresOptions, PostgresStore};
use hapax_redis::{RedisOptions, RedisStore};
use hapax_store::{NotCompleted, TieredAttempt, TieredClaim, TieredDedup, *};
use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::directory::Directory;
use testkit::random::{Random, seeded};
use testkit::stores::runtime;
use testkit::{long, postgres_server, redis_server};

const CHILD: &str = "HAPAX_PROCESS_CHILD";
const LEASE: Duration = Duration::from_millis(300);
/// The time that handlers take, so that some are killed during it.
const WORK: Duration = Duration::from_millis(4);
const HOUR: Duration = Duration::from_secs(3_600);
const BATCH: usize = 512;
const TIMES: u64 = 3;

fn deliveries(usual: u64) -> u64 {
    let deliveries = std::env::var("HAPAX_DELIVERIES").ok();
    deliveries.map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("HAPAX_DELIVERIES is no number: {text}")))
}

/// The parameters that parent and children must agree on.
#[derive(Clone, Debug)]
struct Plan {
    seed: u64,
    processes: u64,
    ids: u64,
    /// True if the clocks of every other process are an hour ahead.
    skewed: bool,
    /// The server's address.
    address: String,
}

impl Plan {
    fn to_text(&self) -> String {
        format!("{} {} {} {} {}", self.seed, self.processes, self.ids, u64::from(self.skewed), self.address)
    }

    fn parse(text: &str) -> Option<Plan> {
        let mut words = text.splitn(5, ' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let (seed, processes, ids, skewed) = (number()?, number()?, number()?, number()? == 1);
        Some(Plan { seed, processes, ids, skewed, address: words.next()?.to_owned() })
    }

    async fn store(&self) -> DynStore {
        if self.address.contains("://") {
            return DynStore::new(RedisStore::connect(RedisOptions::single(&self.address, "h")).await.unwrap());
        }
        let store = PostgresStore::new(PostgresOptions::parse(&self.address).unwrap(), "h").unwrap();
        store.migrate().await.unwrap();
        DynStore::new(store)
    }

    /// Returns the ids of all deliveries, in an order by the seed. Number n goes to process n
    /// modulo their number.
    fn deliveries(&self) -> Vec<u64> {
        let mut random = Random(self.seed);
        let mut deliveries: Vec<u64> = (0..TIMES).flat_map(|_| 0..self.ids).collect();
        random.shuffle(&mut deliveries);
        deliveries
    }
}

/// A clock that is wrong by this much.
struct Ahead(Duration);

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        Timestamp::default() + std::time::UNIX_EPOCH.elapsed().unwrap_or_default() + self.0
    }
}

// ---- The child

/// A process that consumes its deliveries until all are acknowledged, or it is killed.
struct Consumer {
    engine: TieredDedup<DynStore>,
    ids: Vec<u64>,
    log: File,
}

type Claims = Vec<(u64, TieredClaim<DynStore>)>;

impl Consumer {
    async fn start(store: DynStore, plan: &Plan, process: u64, open: Vec<u64>, log: File) {
        let ahead = if plan.skewed && process % 2 == 1 { HOUR } else { Duration::ZERO };
        let engine = TieredDedup::builder(store).lease(LEASE).capacity(200_000).clock(Ahead(ahead)).expiry(None);
        let engine = engine.build().await.unwrap();
        Consumer { engine, ids: plan.deliveries(), log }.consume(open).await;
    }

    /// Appends lines in one write: they are there as a whole, or not.
    fn log(&mut self, lines: &str) {
        self.log.write_all(lines.as_bytes()).unwrap();
    }

    async fn consume(&mut self, mut open: Vec<u64>) {
        while !open.is_empty() {
            let mut later = Vec::new();
            for (number, batch) in open.chunks(BATCH).enumerate() {
                later.extend(if number % 4 == 3 { self.singly(batch).await } else { self.together(batch).await });
            }
            if later.len() == open.len() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            open = later;
        }
    }

    /// Handles a batch. Returns which deliveries must come again.
    async fn together(&mut self, batch: &[u64]) -> Vec<u64> {
        let ids: Vec<String> = batch.iter().map(|&delivery| self.ids[delivery as usize].to_string()).collect();
        let attempts = self.engine.claim_batch(&ids).await;
        let (claims, mut later, mut lines) = self.sort(batch, attempts);
        self.log(&lines);
        lines.clear();
        tokio::time::sleep(WORK).await;
        let (deliveries, claims): (Vec<u64>, Vec<_>) = claims.into_iter().unzip();
        let tokens: Vec<u64> = claims.iter().map(|claim| claim.token().as_u64()).collect();
        let ended = self.engine.complete_batch(claims).await;
        for ((delivery, token), ended) in deliveries.into_iter().zip(tokens).zip(ended) {
            lines += &self.end(delivery, token, ended, &mut later);
        }
        self.log(&lines);
        later
    }

    async fn singly(&mut self, batch: &[u64]) -> Vec<u64> {
        let mut asked = Vec::new();
        for &delivery in batch {
            let engine = self.engine.clone();
            let id = self.ids[delivery as usize].to_string();
            asked.push(tokio::spawn(async move { engine.claim(id).await }));
        }
        let mut attempts = Vec::new();
        for attempt in asked {
            attempts.push(attempt.await.unwrap());
        }
        let (claims, mut later, lines) = self.sort(batch, attempts);
        self.log(&lines);
        tokio::time::sleep(WORK).await;
        let mut ending = Vec::new();
        for (delivery, claim) in claims {
            let token = claim.token().as_u64();
            ending.push((delivery, token, tokio::spawn(claim.complete())));
        }
        let mut lines = String::new();
        for (delivery, token, ended) in ending {
            lines += &self.end(delivery, token, ended.await.unwrap(), &mut later);
        }
        self.log(&lines);
        later
    }

    /// Sorts the answers: ids to be handled, ids that must come again, and known ids. Handlers
    /// begin, duplicates are acknowledged.
    fn sort(
        &self,
        batch: &[u64],
        attempts: Vec<Result<TieredAttempt<DynStore>, StoreError>>,
    ) -> (Claims, Vec<u64>, String) {
        let (mut claims, mut later, mut lines) = (Claims::new(), Vec::new(), String::new());
        for (&delivery, attempt) in batch.iter().zip(attempts) {
            match attempt {
                Ok(TieredAttempt::Claimed(claim)) => {
                    lines += &format!("run {} {}\n", self.ids[delivery as usize], claim.token().as_u64());
                    claims.push((delivery, claim));
                }
                Ok(TieredAttempt::Duplicate(_)) => lines += &format!("ack {delivery}\n"),
                Ok(_) | Err(_) => later.push(delivery),
            }
        }
        (claims, later, lines)
    }

    fn end(
        &self,
        delivery: u64,
        token: u64,
        ended: Result<(), NotCompleted<DynStore>>,
        later: &mut Vec<u64>,
    ) -> String {
        let id = self.ids[delivery as usize];
        match ended {
            Ok(()) => return format!("ok {id} {token}\nack {delivery}\n"),
            Err(_) => later.push(delivery),
        }
        format!("lost {id} {token}\n")
    }
}

/// Runs the child; this is no test.
#[test]
fn child() {
    let Ok(asked) = std::env::var(CHILD) else { return };
    let mut words = asked.splitn(3, ' ');
    let mut word = || words.next().expect("what to do");
    let (process, path): (u64, &str) = (word().parse().unwrap(), word());
    let plan = Plan::parse(word()).expect("a plan");
    let acknowledged = Story::read(path.as_ref()).acknowledged;
    let all = 0..plan.ids * TIMES;
    let open =
        all.filter(|delivery| delivery % plan.processes == process && !acknowledged.contains(delivery)).collect();
    let mut log = OpenOptions::new().create(true).append(true).open(path).unwrap();
    // (A line that a death has cut short is ended.)
    log.write_all(b"\nlife\n").unwrap();
    runtime().block_on(async {
        Consumer::start(plan.store().await, &plan, process, open, log).await;
    });
}

// ---- What children have written

/// The actions of a process in all its lives.
#[derive(Default)]
struct Story {
    /// Deliveries.
    acknowledged: HashSet<u64>,
    /// Ids, with the tokens of their handlers' runs, and how these ended: `None` if the process was
    /// killed.
    runs: Vec<(u64, u64, Option<bool>)>,
    lives: usize,
    /// Runs of the last life that have not ended.
    open_at_the_end: usize,
}

impl Story {
    fn read(path: &Path) -> Story {
        let (mut story, mut live) = (Story::default(), BTreeMap::new());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        // A line without an end is none.
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let mut words = line.split(' ');
            let what = words.next().unwrap_or_default();
            let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(u64::MAX);
            match what {
                "life" => {
                    story.lives += 1;
                    live.clear();
                }
                "ack" => drop(story.acknowledged.insert(number())),
                "run" => {
                    let (id, token) = (number(), number());
                    live.insert((id, token), story.runs.len());
                    story.runs.push((id, token, None));
                }
                "ok" | "lost" => {
                    let place = live.remove(&(number(), number())).expect("a run of this life has ended");
                    story.runs[place].2 = Some(what == "ok");
                }
                _ => {}
            }
        }
        // Whoever was not killed has ended each run.
        story.open_at_the_end = live.len();
        story
    }
}

// ---- The parent

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(plan: &Plan, process: u64, log: &Path) -> Process {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "processes::child", "--nocapture", "--test-threads=1"])
        .env(CHILD, format!("{process} {} {}", log.display(), plan.to_text()))
        .stdout(Stdio::null());
    Process(testkit::children::started(child))
}

/// Lets processes consume everything, kills some on the way, and checks their files.
fn consume(plan: &Plan, kills: u64) {
    let (directory, began) = (Directory::new("processes"), Instant::now());
    let log = |process: u64| directory.path().join(format!("{process}.log"));
    let mut random = Random(plan.seed ^ 0xdead);
    let mut processes: Vec<Process> = (0..plan.processes).map(|process| start(plan, process, &log(process))).collect();
    let (mut killed, mut next_kill) = (0, Instant::now() + Duration::from_millis(60 + random.below(60)));
    loop {
        std::thread::sleep(Duration::from_millis(5));
        let mut running: Vec<usize> = Vec::new();
        for (number, process) in processes.iter_mut().enumerate() {
            match process.0.try_wait().unwrap() {
                None => running.push(number),
                Some(status) => assert!(status.success(), "process {number} has failed: {status}"),
            }
        }
        if running.is_empty() {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(300), "it comes to no end");
        if killed < kills && Instant::now() >= next_kill {
            let victim = running[random.below(running.len() as u64) as usize];
            processes[victim].0.kill().unwrap();
            processes[victim].0.wait().unwrap();
            processes[victim] = start(plan, victim as u64, &log(victim as u64));
            killed += 1;
            next_kill = Instant::now() + Duration::from_millis(20 + random.below(200));
        }
    }
    let stories: Vec<Story> = (0..plan.processes).map(|process| Story::read(&log(process))).collect();
    judge(plan, &stories, killed);
    let runs: usize = stories.iter().map(|story| story.runs.len()).sum();
    let interrupted = stories.iter().flat_map(|story| &story.runs).filter(|run| run.2.is_none()).count();
    println!(
        "{} processes{}, {killed} killed at {interrupted} runs, {} deliveries of {} ids in {:?}: {runs} runs of handlers, {:.4} times the least",
        plan.processes,
        if plan.skewed { " whose clocks are an hour apart" } else { "" },
        TIMES * plan.ids,
        plan.ids,
        began.elapsed(),
        runs as f64 / plan.ids as f64
    );
}

/// Checks that every id is completed, and none twice; a handler that ran once more had been killed
/// or had lost its lease.
fn judge(plan: &Plan, stories: &[Story], killed: u64) {
    // Some are killed before they have begun.
    let lives: usize = stories.iter().map(|story| story.lives).sum();
    assert!((plan.processes..=plan.processes + killed).contains(&(lives as u64)), "{lives} lives");
    assert!(stories.iter().all(|story| story.open_at_the_end == 0), "a process has ended before its runs");
    let acknowledged: usize = stories.iter().map(|story| story.acknowledged.len()).sum();
    assert_eq!(acknowledged as u64, TIMES * plan.ids, "every delivery is acknowledged once");
    let mut runs: BTreeMap<u64, Vec<(u64, Option<bool>)>> = BTreeMap::new();
    for (id, token, end) in stories.iter().flat_map(|story| &story.runs) {
        runs.entry(*id).or_default().push((*token, *end));
    }
    for (id, mut runs) in runs {
        runs.sort();
        assert!(runs.windows(2).all(|pair| pair[0].0 < pair[1].0), "{id}: two runs under one token: {runs:?}");
        let (last, before) = runs.split_last().expect("there is one at least");
        assert!(before.iter().all(|run| run.1 != Some(true)), "{id}: a run after its completion: {runs:?}");
        assert!(last.1 != Some(false), "{id}: nobody has completed it: {runs:?}");
    }
    runtime().block_on(async {
        let store = plan.store().await;
        let keys: Vec<RecordKey> = (0..plan.ids).map(|id| RecordKey::new(&Scope::default(), id.to_string())).collect();
        for keys in keys.chunks(1_024) {
            for (key, known) in keys.iter().zip(store.look_up(keys).await.unwrap()) {
                assert!(matches!(known, Ok(Known::Completed(_))), "{key} is not completed: {known:?}");
            }
        }
    });
}

/// Runs a campaign. `usual` is the number of deliveries by default.
fn run(address: String, processes: u64, usual: u64, kills: u64, skewed: bool) {
    let (seed, ids) = (seeded().next(), deliveries(usual).div_ceil(TIMES));
    println!("HAPAX_DELIVERIES={}", ids * TIMES);
    consume(&Plan { seed, processes, ids, skewed, address }, kills);
}

#[test]
fn four_processes_on_redis() {
    if !redis_server::is_missing() {
        let server = redis_server::Server::start(&[]);
        run(server.url(), 4, long(10_000, 300_000), 12, false);
    }
}

#[test]
fn processes_on_redis_whose_clocks_are_an_hour_apart() {
    if !redis_server::is_missing() {
        let server = redis_server::Server::start(&[]);
        run(server.url(), 2, long(4_000, 60_000), 3, true);
    }
}

#[test]
fn two_processes_on_postgres() {
    let Some(server) = postgres_server::Server::start(&["fsync=off"]) else { return };
    run(server.address(), 2, long(4_000, 60_000), 6, false);
}
