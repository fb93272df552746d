//! Random faults of all kinds for inbox and outbox, with a ledger of everything that was committed,
//! published and done: relays and workers that are killed, sessions that are terminated, a server
//! that is stopped at once and comes back (with fsync), a standby that takes its place and lacks
//! what was committed last, a broker that is away, late, silent, or publishes and says no, handlers
//! and publishers that hang, fail and panic, producers that roll back, die, or leave transactions
//! open, long transactions, readers of the marks, rows that operators lock, messages that always
//! fail, partitions that are begun, operators that requeue dead letters. Nothing that was committed
//! (and replicated, where a standby took over) is lost, nothing that was rolled back appears,
//! effects are there once, each key keeps its order, and nothing stands still.
//!
//! `HAPAX_CAMPAIGN_SECONDS=n` sets the length, `HAPAX_SEED=n` the faults: `scripts/campaign-inbox`.

mod faults;
mod ledger;
mod numbers;
mod ours;
mod parent;
mod plan;
mod process;
mod producer;
mod servers;

use crate::{Place, Random, ms};
use faults::{CHILD, Faults, Processes};
use ledger::{Side, Tally};
use numbers::Numbers;
use parent::Parent;
use plan::{Part, Plan, Role};
use producer::{Producer, connect};
use servers::Servers;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::time::sleep;
use tokio_postgres::Client;

/// Runs the child; this is no test.
#[test]
fn child() {
    let Ok(asked) = std::env::var(CHILD) else { return };
    let part = Part::parse(&asked).expect("a part");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(process::run(part));
}

#[test]
fn every_fault_at_random() {
    let seconds = std::env::var("HAPAX_CAMPAIGN_SECONDS").unwrap_or_else(|_| "2".to_owned());
    let seconds: u64 = seconds.parse().expect("HAPAX_CAMPAIGN_SECONDS is a number");
    Place::run_durable(async |place| {
        let mut random = crate::random();
        let plan = Plan { seed: random.below(1 << 48), is_short: seconds < 60 };
        let campaign = Campaign::start(place, plan).await;
        let end = campaign.run(Duration::from_secs(seconds)).await;
        end.say();
        assert!(end.violations.is_empty(), "violations, printed above: {}", end.violations.len());
        let Tally { published, effects, rolled_back, .. } = end.tally;
        assert!(published.min(effects) > PER_SECOND * seconds && rolled_back > seconds, "hardly anything has happened");
        assert!(end.faults.values().sum::<u64>() > seconds / 5, "hardly anything has gone wrong");
    });
}

/// The publications, and the effects, for each second of a campaign, that are enough.
const PER_SECOND: u64 = 10;

/// The time that a campaign has beyond its length, to come that far.
const MORE_TIME: Duration = Duration::from_secs(60);

struct Campaign {
    place: Arc<Place>,
    servers: Arc<Servers>,
    parent: Arc<Parent>,
    faults: Faults,
    stopped: Arc<AtomicBool>,
    random: Random,
}

/// The result.
struct End {
    tally: Tally,
    faults: BTreeMap<String, u64>,
    worst: parent::Worst,
    limit: Duration,
    drained_in: Duration,
    violations: Vec<String>,
}

impl End {
    fn say(&self) {
        let Tally { published, effects, doubles, rolled_back, requeued, undone, published_undone } = self.tally;
        println!(
            "{published} publications, {doubles} of them doubles; {effects} effects; {rolled_back} messages rolled \
             back; {requeued} dead letters requeued; {undone} transactions lost with servers, of whose messages \
             {published_undone} were published; oldest due message {:.1} s, {:.1} s without outages, and {:.1} s \
             are allowed; all done {:.1} s after the last fault",
            self.worst.age.as_secs_f64(),
            self.worst.own.as_secs_f64(),
            self.limit.as_secs_f64(),
            self.drained_in.as_secs_f64()
        );
        println!("faults: {:?}", self.faults);
        self.violations.iter().for_each(|violation| println!("{violation}"));
    }
}

impl Campaign {
    async fn start(place: Place, plan: Plan) -> Self {
        let mut client = place.client().await;
        let tables = "CREATE TABLE {p}_effects (n bigserial, id bigint); CREATE INDEX ON {p}_effects (n); \
            CREATE TABLE {p}_committed (transaction bigint)";
        place.execute(&client, tables).await;
        let put_off = ours::put_off(&mut client, &place.tables, &place.prefix, plan.put_off());
        put_off.await.expect("they are stored");
        let servers = Servers::start(&place);
        let (parent, address) = Parent::listen(plan).await.expect("a socket");
        let part =
            Part { plan, role: Role::Relay, parent: address, prefix: place.prefix.clone(), address: servers.address() };
        let processes = Processes::start(part);
        let mut random = Random(plan.seed);
        let faults = Faults {
            parent: Arc::clone(&parent),
            processes,
            servers: Arc::clone(&servers),
            standby: None,
            random: Random(random.below(u64::MAX)),
            tally: BTreeMap::new(),
        };
        Campaign { place: Arc::new(place), servers, parent, faults, stopped: Arc::default(), random }
    }

    async fn run(mut self, length: Duration) -> End {
        let (plan, began) = (self.parent.plan, Instant::now());
        let mut producers = tokio::task::JoinSet::new();
        for _ in 0..plan.producers() {
            let random = Random(self.random.below(u64::MAX));
            producers
                .spawn(Producer::new(&self.parent, &self.place, self.servers.address(), random, &self.stopped).run());
        }
        let watch = tokio::spawn(watch(Arc::clone(&self.parent), Arc::clone(&self.place), Arc::clone(&self.servers)));
        let operate = tokio::spawn(operate(Arc::clone(&self.parent), Arc::clone(&self.place), self.servers.address()));
        // On a busy machine it takes longer until enough has happened to be judged.
        let has_happened = || self.parent.ledger().progress() > PER_SECOND * length.as_secs();
        while began.elapsed() < length || !has_happened() && began.elapsed() < length + MORE_TIME {
            sleep(plan.pause(&mut self.random)).await;
            // Once at least.
            let is_due = self.servers.epoch() == 0 && began.elapsed() > length / 2;
            self.faults.one(&self.place, is_due).await;
            self.faults.processes.look_after();
        }
        self.stopped.store(true, Ordering::Relaxed);
        // Producers that wait for a lock are told in time, or their connections are closed.
        let _ = tokio::time::timeout(Duration::from_secs(20), async { while producers.join_next().await.is_some() {} })
            .await;
        producers.shutdown().await;
        // A machine that was slow until now is so later.
        let slowness = (began.elapsed().as_secs_f64() / length.as_secs_f64()).clamp(1.0, 20.0);
        let drained_in = self.drain(slowness).await;
        for task in [watch, operate] {
            task.abort();
        }
        let committed = committed(&self.servers.client().await, &self.place).await;
        let mut ledger = self.parent.ledger();
        let tally = ledger.judge(&committed);
        let violations = std::mem::take(&mut ledger.violations);
        let worst = self.parent.worst();
        End {
            tally,
            faults: std::mem::take(&mut self.faults.tally),
            worst,
            limit: plan.age_max(),
            drained_in,
            violations,
        }
    }

    /// Ends the faults, and waits until all that was committed is done, and not forever. Returns
    /// how long that took.
    async fn drain(&mut self, slowness: f64) -> Duration {
        // These are transactions of whose commit no answer came.
        let committed = committed(&self.servers.client().await, &self.place).await;
        let now = self.parent.now();
        let unheard: Vec<u64> = committed.into_iter().filter(|of| !self.parent.ledger().has(*of)).collect();
        unheard.into_iter().for_each(|transaction| self.parent.ledger().committed(transaction, now));
        let began = Instant::now();
        let patience = (6 * self.parent.plan.age_max() + Duration::from_secs(20)).mul_f64(slowness);
        while !self.parent.ledger().open().is_empty() && began.elapsed() < patience {
            sleep(ms(20)).await;
            self.faults.processes.look_after();
        }
        let took = began.elapsed();
        if !self.parent.ledger().open().is_empty() {
            self.say_what_waits().await;
        }
        // This pause catches events that come too late.
        sleep(ms(300)).await;
        took
    }

    /// Prints what queues still have: a message that is not done may be there.
    async fn say_what_waits(&self) {
        let client = self.servers.client().await;
        for queue in ["inbox", "inbox_keys", "outbox", "outbox_keys"] {
            let sql = format!(
                "SELECT row_to_json(q)::text FROM {}_{queue} q WHERE due_at < now() + interval '1 hour' LIMIT 20",
                self.place.prefix
            );
            for row in client.query(&sql, &[]).await.expect("an answer") {
                println!("{queue}: {}", row.get::<_, String>(0));
            }
        }
    }
}

/// Returns the transactions that the server has.
async fn committed(client: &Client, place: &Place) -> HashSet<u64> {
    let sql = format!("SELECT transaction FROM {}_committed", place.prefix);
    let rows = client.query(&sql, &[]).await.expect("an answer");
    rows.iter().map(|row| row.get::<_, i64>(0) as u64).collect()
}

/// Tells the ledger of effects that were committed, and of those that are not there any more; and
/// looks for messages that wait for too long.
async fn watch(parent: Arc<Parent>, place: Arc<Place>, servers: Arc<Servers>) {
    let sql = format!("SELECT n, id FROM {}_effects WHERE n > $1 ORDER BY n", place.prefix);
    let (mut numbers, mut client, mut epoch) = (Numbers::new(parent.now()), None, 0);
    loop {
        sleep(ms(50)).await;
        if client.is_none() {
            client = connect(&servers.address()).await;
        }
        let Some(connected) = &mut client else { continue };
        if let Some((outage, cut)) = parent.failover(epoch) {
            let Some(effects) = failed_over(&parent, &place, connected, cut).await else {
                client = None;
                continue;
            };
            numbers.are(&effects, parent.now());
            epoch += 1;
            parent.end_outage(outage);
        }
        let now = parent.now();
        match connected.query(&sql, &[&numbers.after(now)]).await {
            Err(_) => client = None,
            Ok(rows) => {
                let effects: Vec<(i64, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
                for id in numbers.new_of(&effects, now) {
                    parent.ledger().done(id as u64, now);
                }
            }
        }
        parent.look();
    }
}

/// Tells the ledger what a server has that has taken another one's place. Returns the numbers of
/// its effects.
async fn failed_over(parent: &Parent, place: &Place, client: &mut Client, cut: Duration) -> Option<Vec<i64>> {
    let tx = client.build_transaction().isolation_level(tokio_postgres::IsolationLevel::RepeatableRead);
    let tx = tx.start().await.ok()?;
    let committed = tx.query(&format!("SELECT transaction FROM {}_committed", place.prefix), &[]).await.ok()?;
    let effects = tx.query(&format!("SELECT n, id FROM {}_effects ORDER BY n", place.prefix), &[]).await.ok()?;
    let committed = committed.iter().map(|row| row.get::<_, i64>(0) as u64).collect();
    let ids: Vec<u64> = effects.iter().map(|row| row.get::<_, i64>(1) as u64).collect();
    parent.ledger().failed_over(&committed, &ids, cut, parent.now());
    Some(effects.iter().map(|row| row.get(0)).collect())
}

/// Begins and drops partitions, and requeues dead letters.
async fn operate(parent: Arc<Parent>, place: Arc<Place>, address: String) {
    let mut client: Option<Client> = None;
    loop {
        sleep(ms(150)).await;
        if client.is_none() {
            client = connect(&address).await;
        }
        let Some(connected) = &mut client else { continue };
        // Put off, if somebody reads or writes the marks.
        let _ = ours::expire(connected, &place.tables, parent.plan).await;
        for side in [Side::Inbox, Side::Outbox] {
            let Ok(letters) = ours::dead_letters(connected, &place.tables, side).await else { break };
            for (letter, id) in letters {
                let now = parent.now();
                parent.ledger().requeued(id, now);
                let _ = ours::requeue(connected, &place.tables, side, &letter).await;
            }
        }
        if connected.is_closed() {
            client = None;
        }
    }
}
