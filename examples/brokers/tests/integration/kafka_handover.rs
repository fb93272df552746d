//! Two consumers share the partitions of a topic, whose memories follow them through S3. They are
//! killed, paused for longer than a session, and stopped, at random, while orders come, and come
//! again, near and far. `HAPAX_REBALANCES` says how often.

use crate::directory::Directory;
use crate::handed_over::{Judged, Sent, judge};
use crate::kafka::{PARTITIONS, SESSION_MS, is_assigned, producer};
use crate::killed::seed;
use crate::processes::{Process, await_until};
use hapax_brokers::ledger::Ledger;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::util::Timeout;
use rdkafka::{ClientConfig, TopicPartitionList};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

#[path = "../../../../crates/hapax-handover/tests/handover/s3_server.rs"]
mod s3_server;
use s3_server::Server;

const TOPIC: &str = "orders";
/// The messages that one owner may have handled and not published: 256 messages, and two batches of
/// 64, as in the example.
const UNPUBLISHED: usize = 256 + 2 * 64;
/// The time in which all is handled that was sent: a fenced owner waits for two sessions.
const PATIENCE: Duration = testkit::processes::PATIENCE;
/// The handlers of a partition.
const IN_FLIGHT: usize = 4;

/// The sender of orders, and the observer of what is committed.
struct World {
    runtime: Runtime,
    producer: FutureProducer,
    watcher: BaseConsumer,
    ledger: Ledger,
    random: fastrand::Rng,
    sent: BTreeMap<String, Sent>,
    messages: i64,
    committed: BTreeMap<i32, i64>,
}

impl World {
    fn new(brokers: &str, group: &str, ledger: &str, seed: u64) -> Self {
        let watcher = ClientConfig::new().set("bootstrap.servers", brokers).set("group.id", group).create();
        World {
            runtime: Builder::new_current_thread().build().expect("a runtime"),
            producer: producer(brokers),
            watcher: watcher.expect("a client that is no member"),
            ledger: Ledger::open(ledger).expect("a ledger"),
            random: fastrand::Rng::with_seed(seed),
            sent: BTreeMap::new(),
            messages: 0,
            committed: BTreeMap::new(),
        }
    }

    /// Sends some new orders, and some that were sent a moment ago, or at any time.
    fn send(&mut self) {
        let first = self.sent.len();
        let again = |random: &mut fastrand::Rng, from: usize| (from < first).then(|| random.usize(from..first));
        let mut numbers: Vec<usize> = (first..first + 16).collect();
        for _ in 0..8 {
            numbers.extend(again(&mut self.random, first.saturating_sub(64)));
            numbers.extend(again(&mut self.random, 0));
        }
        self.random.shuffle(&mut numbers);
        let sent: Vec<_> = numbers.iter().map(|number| (*number, self.send_one(*number))).collect();
        for (number, sent) in sent {
            let at = self.runtime.block_on(sent).expect("an answer").map_err(|(error, _)| error).expect("stored");
            let sent = Sent { partition: at.partition, offset: at.offset };
            let known = self.sent.entry(format!("o-{number:06}")).or_insert(sent);
            known.offset = known.offset.min(sent.offset);
            self.messages += 1;
        }
    }

    fn send_one(&self, number: usize) -> rdkafka::producer::future_producer::DeliveryFuture {
        let id = format!("o-{number:06}");
        let headers = OwnedHeaders::new().insert(Header { key: "id", value: Some(id.as_bytes()) });
        let record = FutureRecord::<str, str>::to(TOPIC).payload("an order").headers(headers);
        let sent = self.producer.send_result(record.partition(number as i32 % PARTITIONS));
        sent.map_err(|(error, _)| error).expect("sent")
    }

    /// Writes down what is committed. Returns the sum of the offsets.
    fn observe(&mut self) -> i64 {
        let mut asked = TopicPartitionList::new();
        asked.add_partition_range(TOPIC, 0, PARTITIONS - 1);
        let Ok(committed) = self.watcher.committed_offsets(asked, Timeout::After(Duration::from_secs(5))) else {
            return 0;
        };
        for one in committed.elements() {
            let (partition, offset) = (one.partition(), one.offset().to_raw().unwrap_or(0).max(0));
            if self.committed.insert(partition, offset) != Some(offset) {
                let line = format!("committed {partition}");
                self.ledger.append(&line, hapax::Token::from_u64(offset as u64)).expect("a line");
            }
        }
        self.committed.values().sum()
    }

    /// Sends and observes for a while.
    fn go_on(&mut self, at_least: Duration, random_ms: std::ops::Range<u64>) {
        let time = at_least + Duration::from_millis(self.random.u64(random_ms));
        let began = Instant::now();
        while began.elapsed() < time {
            self.send();
            self.observe();
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl World {
    /// Goes on until a partition of the one is the other's: the broker notices within a session,
    /// waits for members for almost another, and tells them at the next heartbeat.
    fn until_moved(&mut self, one: &Member, other: &Member) {
        let (before, began) = (one.owned(other), Instant::now());
        while one.owned(other) == before {
            assert!(began.elapsed() < PATIENCE, "nothing moves: {}", other.said());
            self.go_on(Duration::ZERO, 20..50);
        }
    }
}

/// One of the two consumers.
struct Member {
    command: Box<dyn Fn() -> Command>,
    log: PathBuf,
    running: Process,
}

impl Member {
    fn start(command: impl Fn() -> Command + 'static, log: PathBuf) -> Self {
        let running = Process::start(command(), &log, log.parent().expect("its directory"));
        Member { command: Box::new(command), log, running }
    }

    fn again(&mut self) {
        self.running = Process::start((self.command)(), &self.log, self.log.parent().expect("its directory"));
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns each epoch of each partition that it has had.
    fn epochs(&self) -> Vec<(i32, u64)> {
        let acquired = |line: &str| {
            let (partition, epoch) = line.strip_prefix("orders/")?.split_once(": acquired, epoch ")?;
            Some((partition.parse().ok()?, epoch.parse().ok()?))
        };
        self.said().lines().filter_map(acquired).collect()
    }

    /// Returns the partitions that it has had later than the other one.
    fn owned(&self, other: &Member) -> Vec<i32> {
        let last = |member: &Member, partition| {
            member.epochs().iter().filter(|(of, _)| *of == partition).map(|(_, epoch)| *epoch).max()
        };
        (0..PARTITIONS).filter(|partition| last(self, *partition) > last(other, *partition)).collect()
    }

    fn must_run(&mut self) {
        assert!(!self.running.has_ended(), "a consumer has ended: {}", self.said());
    }
}

/// The things that were done to the consumers.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    kills: usize,
    pauses: usize,
    stops: usize,
}

/// Kills, pauses or stops one of them, most times until the other one has its partitions.
fn disturb(world: &mut World, members: &mut [Member; 2], done: &mut Done) {
    world.go_on(Duration::ZERO, 300..1_500);
    // One that has partitions, if both have, any.
    let has = [0, 1].map(|which: usize| !members[which].owned(&members[1 - which]).is_empty());
    let which = if has[0] && has[1] { world.random.usize(..2) } else { usize::from(has[1]) };
    let is_quick = world.random.u8(..4) == 0;
    let [one, other] = match members {
        [first, second] if which == 0 => [first, second],
        [first, second] => [second, first],
    };
    one.must_run();
    match (done.kills + done.pauses + done.stops) % 3 {
        // (Back at once, it finds its own memory.)
        0 if is_quick => {
            done.kills += 1;
            one.running.kill();
        }
        0 => {
            done.kills += 1;
            one.running.kill();
            world.until_moved(one, other);
        }
        1 => {
            done.pauses += 1;
            one.running.pause();
            world.until_moved(one, other);
            world.go_on(Duration::ZERO, 0..300);
            return one.running.resume();
        }
        _ => {
            done.stops += 1;
            let status = one.running.interrupt();
            assert!(status.success(), "{status}: {}", one.said());
            world.until_moved(one, other);
        }
    }
    world.go_on(Duration::ZERO, 0..300);
    one.again();
}

/// Waits until all is committed, and stops them.
fn settle(world: &mut World, members: &mut [Member; 2]) {
    let began = Instant::now();
    while world.observe() != world.messages {
        members.iter_mut().for_each(Member::must_run);
        let said = || members.iter().map(Member::said).collect::<Vec<_>>().join("\n---\n");
        let committed = &world.committed;
        assert!(began.elapsed() < PATIENCE, "{committed:?} of {} are committed; {}", world.messages, said());
        std::thread::sleep(Duration::from_millis(20));
    }
    for member in members {
        let status = member.running.interrupt();
        assert!(status.success(), "{status}: {}", member.said());
    }
}

/// Returns how many times a partition's owner was the other consumer than the one before.
fn moves(members: &[Member; 2]) -> usize {
    let mut owners: Vec<((i32, u64), usize)> = Vec::new();
    for (which, member) in members.iter().enumerate() {
        owners.extend(member.epochs().into_iter().map(|epoch| (epoch, which)));
    }
    owners.sort_unstable();
    owners.windows(2).filter(|two| two[0].0.0 == two[1].0.0 && two[0].1 != two[1].1).count()
}

/// Returns the program with what it needs.
fn program(server: &Server, brokers: &str, directory: &Directory, name: &str) -> impl Fn() -> Command + use<> {
    let arguments = [brokers, TOPIC, SESSION_MS, "hapax", &directory.file(name), &directory.file("ledger.txt")];
    let (arguments, url) = (arguments.map(str::to_owned), server.url());
    move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kafka_handover"));
        command.args(&arguments).env("AWS_ENDPOINT", &url).env("AWS_ALLOW_HTTP", "true").env("AWS_REGION", "us-east-1");
        command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
        command
    }
}

#[test]
fn no_order_is_lost_or_handled_again_after_its_partition_has_moved() {
    let test = "kafka-handover";
    let Some(server) = Server::start() else { return };
    let (directory, seed) = (Directory::new(test), seed(test));
    let rebalances = std::env::var("HAPAX_REBALANCES").ok().and_then(|many| many.parse().ok()).unwrap_or(3);
    let cluster = MockCluster::new(1).expect("a cluster");
    cluster.create_topic(TOPIC, PARTITIONS, 1).expect("a topic");
    let brokers = cluster.bootstrap_servers();
    let ledger = directory.file("ledger.txt");
    let mut world = World::new(&brokers, "shipping", &ledger, seed);
    let member = |name: &str| {
        Member::start(program(&server, &brokers, &directory, name), directory.path().join(format!("{name}.log")))
    };
    let (mut members, mut done) = ([member("first"), member("second")], Done::default());
    let said = |members: &[Member; 2]| members.iter().map(Member::said).collect::<Vec<_>>().join("\n---\n");
    await_until(&members[0].log, || {
        world.go_on(Duration::ZERO, 20..50);
        let [first, second] = &members;
        first.owned(second).len() + second.owned(first).len() == PARTITIONS as usize
    });
    for _ in 0..rebalances {
        disturb(&mut world, &mut members, &mut done);
    }
    settle(&mut world, &mut members);
    let judged = judge(&std::fs::read_to_string(&ledger).expect("a ledger"), &world.sent);
    println!("{test}: {} ids, {} messages, {done:?}, {judged:?}", world.sent.len(), world.messages);
    let Judged { missing, forgotten, late, more, owners } = judged;
    assert!(missing.is_empty(), "nobody has handled {missing:?}");
    assert!(forgotten.is_empty(), "handled again, though committed: {forgotten:?}; {}", said(&members));
    let partitions = PARTITIONS as usize;
    assert!(
        late <= done.pauses * partitions * IN_FLIGHT,
        "{late} handlings by owners that were fenced; {}",
        said(&members)
    );
    assert!(more <= (done.kills + done.pauses) * partitions * UNPUBLISHED, "{more} handlings too many");
    assert!(owners > partitions, "{owners} owners of {partitions} partitions have handled something");
    let moves = moves(&members);
    println!("{test}: {moves} times a partition was the other one's");
    assert!(moves >= rebalances / 2, "{moves} partitions have moved; {}", said(&members));
}

/// The consumers of `kafka_log`, whose memory stays where it is, under the same judge.
#[test]
fn a_memory_that_stays_behind_is_noticed() {
    let test = "kafka-left-behind";
    let (directory, seed) = (Directory::new(test), seed(test));
    let cluster = MockCluster::new(1).expect("a cluster");
    cluster.create_topic(TOPIC, PARTITIONS, 1).expect("a topic");
    let (brokers, ledger) = (cluster.bootstrap_servers(), directory.file("ledger.txt"));
    let mut world = World::new(&brokers, "counting", &ledger, seed);
    let member = |name: &str| {
        let arguments = [&brokers, TOPIC, SESSION_MS, &directory.file(name), &ledger].map(str::to_owned);
        let command = move || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_kafka_log"));
            command.args(&arguments);
            command
        };
        Member::start(command, directory.path().join(format!("{name}.log")))
    };
    let first = member("first");
    await_until(&first.log, || {
        world.go_on(Duration::ZERO, 20..50);
        world.committed.len() == PARTITIONS as usize && world.committed.values().all(|offset| *offset > 100)
    });
    let second = member("second");
    await_until(&second.log, || {
        world.go_on(Duration::ZERO, 20..50);
        second.said().lines().any(|line| is_assigned(line) == Some(2))
    });
    world.go_on(Duration::from_millis(500), 0..100);
    settle(&mut world, &mut [first, second]);
    let judged = judge(&std::fs::read_to_string(&ledger).expect("a ledger"), &world.sent);
    println!("{test}: {} of {} ids were forgotten", judged.forgotten.len(), world.sent.len());
    assert!(judged.missing.is_empty() && !judged.forgotten.is_empty(), "{judged:?}");
}
