//! Two consumers, two relays and the server are killed at every step of consume, effect, publish:
//! each effect is there exactly once, no message is lost, and each key keeps its order.
//!
//! Messages are received for the consumer `billing`, most of them more than once. Its effect is a
//! row, and a message for the topic `shipping`, which a relay publishes: a row of what was on the
//! wire, and a message received for the consumer `shipping`, which handles batches, with a row for
//! each. Nothing in these tables prevents a second effect.
//!
//! In each round one process dies: a child, which is this program once more, aborts at its step, or
//! is killed at any moment; or the server is. Meanwhile the survivors, in this process, go on.

use crate::*;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;
use tokio::sync::watch;
use tokio::task::JoinSet;

const CHILD: &str = "HAPAX_INBOX_CHILD";
const KEYS: u64 = 4;
const LEASE: Duration = Duration::from_millis(300);
const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;

/// The step at which a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The message is claimed, and its attempt counted.
    Begun,
    HasEffect,
    HasEnqueued,
    /// The first message was committed, and the next one is claimed.
    HasCommitted,
    Publishing,
    HasPublished,
    /// The first message was published and removed, and the next one is claimed.
    HasSettled,
    HasBatch,
}

const STEPS: [Step; 8] = [
    Step::Begun,
    Step::HasEffect,
    Step::HasEnqueued,
    Step::HasCommitted,
    Step::Publishing,
    Step::HasPublished,
    Step::HasSettled,
    Step::HasBatch,
];

/// The process that dies in a round.
#[derive(Clone, Copy, Debug)]
enum Death {
    At(Step),
    /// A child that is consumer and relay dies at any moment.
    Whenever,
    Server,
}

/// Consumer and relay of one process, which may die.
struct Process {
    tables: Tables,
    prefix: String,
    dies_at: Option<Step>,
    address: String,
    /// The connection with which it publishes.
    wire: tokio::sync::Mutex<Option<Client>>,
    settled: std::sync::Mutex<Vec<Vec<u8>>>,
}

impl Process {
    fn new(address: &str, prefix: &str, dies_at: Option<Step>) -> Self {
        Process {
            tables: Tables::new("public", prefix).unwrap(),
            prefix: prefix.into(),
            dies_at,
            address: address.into(),
            wire: tokio::sync::Mutex::default(),
            settled: std::sync::Mutex::default(),
        }
    }

    fn at(&self, step: Step) {
        if self.dies_at == Some(step) {
            std::process::abort();
        }
    }

    /// Works until it is told to stop, or forever.
    async fn run(self, stop: watch::Receiver<bool>) {
        let address = self.address.clone();
        let process = Arc::new(self);
        let stopped = |mut stop: watch::Receiver<bool>| async move { drop(stop.wait_for(|stop| *stop).await) };
        let mut parts = JoinSet::new();
        for consumer in ["billing", "shipping"] {
            let worker = Worker::new(options(&address), process.tables.clone(), consumer).unwrap();
            let worker = worker.poll(ms(20)).unwrap().lease(LEASE).unwrap().concurrency(2).unwrap().retry(soon(None));
            let (process, stop) = (Arc::clone(&process), stopped(stop.clone()));
            parts.spawn(async move {
                match consumer {
                    "billing" => worker.run(process, stop).await,
                    _ => worker.handler_batch(4, ms(20)).unwrap().run_batches(process, stop).await,
                }
            });
        }
        let relay = Relay::new(options(&address), process.tables.clone()).poll(ms(20)).unwrap();
        let relay = relay.publish_timeout(LEASE / 3).unwrap().batch(2).unwrap().retry(soon(None));
        parts.spawn(async move { relay.run(Arc::clone(&process), stopped(stop)).await });
        parts.join_all().await.into_iter().for_each(|ended| ended.unwrap());
    }
}

impl Handler for Process {
    async fn handle(&self, tx: &mut tokio_postgres::Transaction<'_>, message: &Message) -> Result<(), BoxError> {
        let p = &self.prefix;
        // A message that this process has handled and whose effect others see was committed.
        let settled = self.settled.lock().unwrap().pop();
        if let Some(id) = settled {
            let committed = format!("SELECT FROM {p}_effects WHERE consumer = 'billing' AND id = $1");
            if !tx.query(&committed, &[&id]).await?.is_empty() {
                self.at(Step::HasCommitted);
            }
        }
        self.at(Step::Begun);
        let effect = format!("INSERT INTO {p}_effects (consumer, key, id) VALUES ($1, $2, $3)");
        tx.execute(&effect, &[&message.name, &message.key, &message.id]).await?;
        self.at(Step::HasEffect);
        let key = message.key.as_deref().unwrap_or_default();
        let published = NewMessage::new(&message.id, "billed").key(key).kind("billed");
        outbox::enqueue(tx, &self.tables, "shipping", published).await?;
        self.at(Step::HasEnqueued);
        self.settled.lock().unwrap().push(message.id.clone());
        Ok(())
    }
}

impl BatchHandler for Process {
    async fn handle(
        &self,
        tx: &mut tokio_postgres::Transaction<'_>,
        messages: &[&Message],
    ) -> Result<Answers, BoxError> {
        let keys: Vec<_> = messages.iter().map(|message| message.key.as_deref()).collect();
        let ids: Vec<&[u8]> = messages.iter().map(|message| &*message.id).collect();
        let p = &self.prefix;
        let effects = format!(
            "INSERT INTO {p}_effects (consumer, key, id) SELECT 'shipping', * FROM unnest($1::bytea[], $2::bytea[])"
        );
        tx.execute(&effects, &[&keys, &ids]).await?;
        self.at(Step::HasBatch);
        Ok(().into())
    }
}

impl Publisher for Process {
    async fn publish(&self, message: &Message) -> Result<(), BoxError> {
        let mut wire = self.wire.lock().await;
        if wire.as_ref().is_none_or(Client::is_closed) {
            let (client, connection) = tokio_postgres::connect(&self.address, NoTls).await?;
            tokio::spawn(connection);
            *wire = Some(client);
        }
        let client = wire.as_mut().expect("it is connected");
        let p = &self.prefix;
        if self.dies_at == Some(Step::HasSettled) {
            let ours = format!(
                "SELECT FROM {p}_wire w WHERE process = $1 AND NOT EXISTS (SELECT FROM {p}_outbox o WHERE o.id = w.id)"
            );
            if !client.query(&ours, &[&std::process::id().to_string()]).await?.is_empty() {
                self.at(Step::HasSettled);
            }
        }
        self.at(Step::Publishing);
        let mut tx = client.transaction().await?;
        let wire = format!("INSERT INTO {p}_wire (process, key, id) VALUES ($1, $2, $3)");
        tx.execute(&wire, &[&std::process::id().to_string(), &message.key, &message.id]).await?;
        let key = message.key.as_deref().unwrap_or_default();
        let received = NewMessage::new(&message.id, &message.payload).key(key).described_by(message);
        let _ = inbox::receive(&mut tx, &self.tables, "shipping", received).await?;
        tx.commit().await?;
        self.at(Step::HasPublished);
        Ok(())
    }
}

/// Runs the child; this is no test.
#[test]
fn child() {
    let Ok(asked) = std::env::var(CHILD) else { return };
    let [step, prefix, address] = asked.splitn(3, '|').collect::<Vec<_>>()[..] else { panic!("{CHILD}={asked}") };
    let dies_at = STEPS.into_iter().find(|known| format!("{known:?}") == step);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let process = Process::new(address, prefix, dies_at);
        let (_stop, stopped) = watch::channel(false);
        process.run(stopped).await;
    });
}

/// A child that is killed when this is dropped.
struct Mortal(Child);

impl Mortal {
    fn start(place: &Place, step: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", "crash::child", "--nocapture", "--test-threads=1"])
            .env(CHILD, format!("{step}|{}|{}", place.prefix, place.server.address()))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Mortal(testkit::children::started(child))
    }

    fn died(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A broker that delivers messages, each of them until its transaction is committed, and some again
/// later.
struct Broker {
    next: u64,
    client: Option<Client>,
    random: Random,
}

impl Broker {
    async fn deliver(&mut self, place: &Place) {
        // No more are delivered than are handled, or the wait would grow without end.
        if self.waiting(place).await.is_none_or(|waiting| waiting > 40) {
            return;
        }
        for _ in 0..KEYS {
            self.deliver_one(place, self.next).await;
            self.next += 1;
        }
        let again = self.random.below(self.next);
        self.deliver_one(place, again).await;
    }

    async fn client(&mut self, place: &Place) -> Option<&mut Client> {
        if self.client.is_none() {
            let (client, connection) = tokio_postgres::connect(&place.server.address(), NoTls).await.ok()?;
            tokio::spawn(connection);
            self.client = Some(client);
        }
        self.client.as_mut()
    }

    async fn waiting(&mut self, place: &Place) -> Option<i64> {
        let sql = format!("SELECT count(*) FROM {}_inbox", place.prefix);
        let rows = self.client(place).await?.query_one(&sql, &[]).await.ok();
        if rows.is_none() {
            self.client = None;
        }
        rows.map(|row| row.get(0))
    }

    async fn deliver_one(&mut self, place: &Place, n: u64) {
        let end = Instant::now() + PATIENCE;
        while self.try_to(place, n).await.is_none() {
            self.client = None;
            assert!(Instant::now() < end, "message {n} could not be delivered");
            tokio::time::sleep(ms(5)).await;
        }
    }

    async fn try_to(&mut self, place: &Place, n: u64) -> Option<()> {
        let (id, key) = (format!("{n:08}"), format!("{}", n % KEYS));
        let mut tx = self.client(place).await?.transaction().await.ok()?;
        let message = NewMessage::new(&id, "").key(&key).kind("paid").subject(&key);
        let _ = inbox::receive(&mut tx, &place.tables, "billing", message).await.ok()?;
        tx.commit().await.ok()
    }
}

#[test]
fn whatever_dies_each_effect_is_there_once_and_in_order() {
    let rounds =
        std::env::var("HAPAX_ROUNDS").map_or(long(10, 30), |rounds| rounds.parse().expect("HAPAX_ROUNDS is a number"));
    println!("HAPAX_ROUNDS={rounds}");
    Place::run_alone(async |place| {
        let client = place.client().await;
        let tables = "CREATE TABLE {p}_effects (n bigserial, consumer text, key bytea, id bytea); \
             CREATE TABLE {p}_wire (n bigserial, process text, key bytea, id bytea)";
        place.execute(&client, tables).await;
        let mut broker = Broker { next: 0, client: None, random: crate::random() };
        let (stop, stopped) = watch::channel(false);
        let survivor = Process::new(&place.server.address(), &place.prefix, None);
        let survivors = tokio::spawn(survivor.run(stopped));
        let mut deaths = std::collections::BTreeMap::new();
        for round in 0..rounds {
            let death = match round % 10 {
                8 => Death::Whenever,
                9 => Death::Server,
                step => Death::At(STEPS[step as usize]),
            };
            match death {
                Death::Server => kill_server(&place, &mut broker).await,
                _ => kill_child(&place, &mut broker, death).await,
            }
            *deaths.entry(format!("{death:?}")).or_insert(0) += 1;
            if round % 5 == 4 {
                begin_partition(&place).await;
            }
        }
        let client = place.client().await;
        let left = "SELECT (SELECT count(*) FROM {p}_inbox) + (SELECT count(*) FROM {p}_outbox)";
        until("all is done", async || place.count(&client, left).await == 0).await;
        stop.send(true).unwrap();
        survivors.await.unwrap();
        verify(&place, &client, broker.next).await;
        println!("deaths: {deaths:?}");
    });
}

/// Delivers until the child has died as it should.
async fn kill_child(place: &Place, broker: &mut Broker, death: Death) {
    let (step, signal) = match death {
        Death::At(step) => (format!("{step:?}"), SIGABRT),
        Death::Whenever | Death::Server => ("none".into(), SIGKILL),
    };
    let mut child = Mortal::start(place, &step);
    let killed_at = Instant::now() + ms(20 + broker.random.below(150));
    let end = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.died() {
            break status;
        }
        assert!(Instant::now() < end, "{death:?}: it does not die");
        broker.deliver(place).await;
        if signal == SIGKILL && Instant::now() >= killed_at {
            child.0.kill().unwrap();
        }
        tokio::time::sleep(ms(5)).await;
    };
    assert_eq!(status.signal(), Some(signal), "{death:?}: {status:?}");
}

async fn kill_server(place: &Place, broker: &mut Broker) {
    let _bystander = Mortal::start(place, "none");
    broker.deliver(place).await;
    tokio::time::sleep(ms(broker.random.below(100))).await;
    place.server.kill();
    place.server.launch();
    broker.deliver(place).await;
}

/// Begins a partition, so that redeliveries come after the ends of partitions.
async fn begin_partition(place: &Place) {
    let client = place.client().await;
    place.execute(&client, "UPDATE {p}_mark_buckets SET opened_at = opened_at - interval '2 hours'").await;
    // It is put off, if a process that died has not released its locks yet.
    Retention::new(60 * HOUR, HOUR).unwrap().expire(&client, &place.tables).await.unwrap();
}

/// Checks that each effect is there once for each consumer, in the order of each key, and nothing
/// else; on the wire, first publications are in order.
async fn verify(place: &Place, client: &Client, messages: u64) {
    let p = &place.prefix;
    let of_key = |key: u64| (0..messages).filter(move |n| n % KEYS == key).map(|n| format!("{n:08}").into_bytes());
    for key in 0..KEYS {
        let expected: Vec<Vec<u8>> = of_key(key).collect();
        let bytes = key.to_string().into_bytes();
        for consumer in ["billing", "shipping"] {
            let sql = format!("SELECT id FROM {p}_effects WHERE consumer = $1 AND key = $2 ORDER BY n");
            let rows = client.query(&sql, &[&consumer, &bytes]).await.unwrap();
            let effects: Vec<Vec<u8>> = rows.iter().map(|row| row.get(0)).collect();
            assert_eq!(effects.len(), expected.len(), "effects of {consumer} and key {key}");
            assert!(effects == expected, "{consumer}, key {key}: an effect is missing, or twice, or out of order");
        }
        let sql = format!("SELECT id FROM {p}_wire WHERE key = $1 GROUP BY id ORDER BY min(n)");
        let rows = client.query(&sql, &[&bytes]).await.unwrap();
        assert!(rows.iter().map(|row| row.get::<_, Vec<u8>>(0)).eq(expected), "key {key}: published out of order");
    }
    assert_eq!(place.count(client, "SELECT count(*) FROM {p}_effects").await as u64, 2 * messages);
    // Of each effect it is written down who had it, whatever died, and of nothing else.
    let written = "SELECT count(*) FROM (SELECT consumer, kind, id FROM {p}_handled GROUP BY consumer, kind, id \
         HAVING count(*) = 1 AND (consumer, kind) IN (('billing', 'paid'), ('shipping', 'billed'))) h";
    for sql in ["SELECT count(*) FROM {p}_handled", written] {
        assert_eq!(place.count(client, sql).await as u64, 2 * messages, "{sql}");
    }
    let again = place.count(client, "SELECT count(*) FROM {p}_wire").await as u64 - messages;
    let partitions = place.count(client, "SELECT count(*) FROM {p}_mark_buckets").await;
    println!("{messages} messages, {again} published again, {partitions} partitions");
    assert!(again > 0, "no relay died between publishing and settling");
}
