//! Servers that have lost the end of what was committed, while relays and workers live: a standby
//! that is promoted without it, and a copy of the files that is put back. The sequences give the
//! lost positions out again.

use crate::publishing::relays::start;
use crate::*;
use std::collections::HashSet;
use std::sync::Mutex;
use tokio::sync::Semaphore;

const KEYS: usize = 100;
const MESSAGES: usize = 600;

/// A broker that keeps whoever publishes waiting until it is opened.
struct Gate {
    begun: AtomicU64,
    open: Semaphore,
    published: Mutex<HashSet<String>>,
}

impl Gate {
    fn closed() -> Arc<Self> {
        Arc::new(Gate { begun: AtomicU64::new(0), open: Semaphore::new(0), published: Mutex::default() })
    }

    async fn pass(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.open.acquire().await.expect("it is never closed").forget();
    }
}

impl Publisher for Gate {
    async fn publish(&self, message: &Message) -> Result<(), BoxError> {
        self.pass().await;
        self.published.lock().unwrap().insert(String::from_utf8(message.id.clone()).unwrap());
        Ok(())
    }
}

/// Enqueues messages: of each three one without a key.
async fn enqueue(place: &Place, client: &mut Client, prefix: &str) {
    let ids: Vec<String> = (0..MESSAGES).map(|n| format!("{prefix}{n}")).collect();
    let keys: Vec<String> = (0..MESSAGES).map(|n| format!("k{}", n % KEYS)).collect();
    let message = |n: usize| match n % 3 {
        0 => NewMessage::new(&ids[n], ""),
        _ => NewMessage::new(&ids[n], "").key(&keys[n]),
    };
    place.enqueue_all(client, "t", (0..MESSAGES).map(message)).await;
}

/// Starts a relay of the servers at this address, and waits until it has begun as much as it can.
async fn in_flight(
    place: &Place,
    address: &str,
    gate: &Arc<Gate>,
) -> (tokio::sync::watch::Sender<bool>, tokio::task::JoinHandle<()>) {
    let relay = Relay::new(options(address), place.tables.clone()).poll(ms(20)).unwrap().batch(2_000).unwrap();
    let relay = start(relay.publish_timeout(HOUR).unwrap().retry(soon(None)), gate);
    let runs = (MESSAGES / 3 + KEYS) as u64;
    until("they are in flight", async || gate.begun.load(Ordering::SeqCst) >= runs).await;
    relay
}

/// Opens the gate, and checks that all that was enqueued after the loss is published.
async fn publishes_what_came_later(
    place: &Place,
    client: &Client,
    gate: &Gate,
    (stop, relay): (tokio::sync::watch::Sender<bool>, tokio::task::JoinHandle<()>),
) {
    gate.open.add_permits(1 << 20);
    until("all are published", async || place.count(client, "SELECT count(*) FROM {p}_outbox").await == 0).await;
    stop.send(true).unwrap();
    relay.await.unwrap();
    let published = gate.published.lock().unwrap();
    let lost = (0..MESSAGES).filter(|n| !published.contains(&format!("new{n}"))).count();
    println!("{lost} of {MESSAGES} were removed and not published");
    assert_eq!(lost, 0, "of {MESSAGES}");
}

/// Runs a test with a server and its standby.
fn with_standby<F: Future<Output = ()>>(test: impl FnOnce(Place, Server) -> F) {
    Place::run_alone(async |place| {
        let standby = place.server.standby();
        test(place, standby).await;
    });
}

/// The address of both.
fn both(place: &Place, standby: &Server) -> String {
    let ports = [place.server.port, standby.port];
    format!("host=127.0.0.1,127.0.0.1 port={},{} user=postgres dbname=postgres", ports[0], ports[1])
}

/// Lets the standby have all that is committed by now, and nothing after that.
async fn cut_off(place: &Place, standby: &Client) {
    // What was committed without waiting for the disk is there before this is.
    place.execute(&place.client().await, "CREATE TABLE {p}_marker ()").await;
    let marker = "SELECT count(*) FROM pg_class WHERE relname = '{p}_marker'";
    until("it is replicated", async || place.count(standby, marker).await == 1).await;
    place.execute(standby, "ALTER SYSTEM SET primary_conninfo = ''").await;
    place.execute(standby, "SELECT pg_reload_conf()").await;
    let receives = "SELECT count(*) FROM pg_stat_wal_receiver";
    until("it is cut off", async || place.count(standby, receives).await == 0).await;
}

async fn fail_over(place: &Place, standby: &Client) {
    place.server.kill();
    // For a while there is a standby only.
    tokio::time::sleep(ms(500)).await;
    place.execute(standby, "SELECT pg_promote()").await;
    until("it is promoted", async || place.count(standby, "SELECT pg_is_in_recovery()::int::bigint").await == 0).await;
}

#[test]
fn a_relay_removes_nothing_at_a_promoted_standby_but_what_it_has_published() {
    with_standby(async |place, standby| {
        let (mut client, mut there) = (place.client().await, client(&standby.address()).await);
        cut_off(&place, &there).await;
        enqueue(&place, &mut client, "old").await;
        let gate = Gate::closed();
        let relay = in_flight(&place, &both(&place, &standby), &gate).await;
        fail_over(&place, &there).await;
        enqueue(&place, &mut there, "new").await;
        publishes_what_came_later(&place, &there, &gate, relay).await;
    });
}

#[test]
fn a_relay_removes_nothing_at_a_server_that_was_restored_but_what_it_has_published() {
    Place::run_alone(async |place| {
        place.server.kill();
        place.server.back_up();
        place.server.launch();
        let mut client = place.client().await;
        enqueue(&place, &mut client, "old").await;
        let gate = Gate::closed();
        let relay = in_flight(&place, &place.server.address(), &gate).await;
        place.server.kill();
        place.server.restore();
        place.server.launch();
        let mut client = place.client().await;
        enqueue(&place, &mut client, "new").await;
        publishes_what_came_later(&place, &client, &gate, relay).await;
    });
}

/// A handler that lets each message wait for its gate.
struct Slow(Arc<Gate>);

impl Handler for Slow {
    async fn handle(&self, tx: &mut tokio_postgres::Transaction<'_>, message: &Message) -> Result<(), BoxError> {
        self.0.pass().await;
        tx.execute("INSERT INTO effects VALUES ($1)", &[&message.id]).await?;
        Ok(())
    }
}

/// The claim is replicated, and the effect of the first message of a key is not.
#[test]
fn a_message_whose_effect_was_lost_is_handled_again() {
    with_standby(async |place, standby| {
        let (mut client, there) = (place.client().await, client(&standby.address()).await);
        place.execute(&client, "CREATE TABLE effects (id bytea PRIMARY KEY)").await;
        for id in ["a", "b"] {
            assert!(place.receive(&mut client, "c", NewMessage::new(id, "").key("k")).await.is_first());
        }
        let gate = Gate::closed();
        let worker = Worker::new(options(&both(&place, &standby)), place.tables.clone(), "c").unwrap();
        let worker = worker.poll(ms(20)).unwrap().retry(soon(None));
        let done = async {
            until("the first is begun", async || gate.begun.load(Ordering::SeqCst) == 1).await;
            cut_off(&place, &there).await;
            gate.open.add_permits(1);
            until("the second is begun", async || gate.begun.load(Ordering::SeqCst) == 2).await;
            assert_eq!(place.count(&client, "SELECT count(*) FROM effects").await, 1);
            fail_over(&place, &there).await;
            gate.open.add_permits(100);
            until("all is handled", async || place.count(&there, "SELECT count(*) FROM {p}_inbox").await == 0).await;
            assert_eq!(place.count(&there, "SELECT count(*) FROM effects").await, 2);
        };
        worker.run(Arc::new(Slow(Arc::clone(&gate))), done).await.unwrap();
    });
}
