//! Consumers on trial: every order of deliveries that a pattern promises to bear, with a death at
//! every step, and all consumers at once.

use futures_util::future::join_all;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, SystemTime};
use testkit::postgres_server::Server;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The number of deliveries of a message, of which one must be the last: more than any trial needs.
const DELIVERIES_MAX: usize = 30;
/// The number of awaits in a handler: more than any has.
const STEPS_MAX: usize = 200;

/// A server, and a schema of a test's own.
pub struct Place {
    _server: Arc<Server>,
    address: String,
    last_key: Cell<i64>,
}

impl Place {
    /// Runs a test with tables of its own where there is a PostgreSQL.
    pub fn run(tables: &str, test: impl AsyncFnOnce(Place)) {
        static PLACES: AtomicU64 = AtomicU64::new(0);
        let Some(server) = Server::shared() else { return };
        let schema = format!("p{}", PLACES.fetch_add(1, Ordering::Relaxed));
        let address = format!("{} options='-c search_path={schema}'", server.address());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let place = Place { _server: server, address, last_key: Cell::new(0) };
            let client = &place.connect().await.client;
            let sql = format!("CREATE SCHEMA {schema}; {tables}");
            client.batch_execute(&sql).await.expect("the pattern's tables");
            test(place).await;
        });
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub async fn connect(&self) -> Process {
        let (client, connection) = tokio_postgres::connect(&self.address, NoTls).await.expect("a connection");
        let connection = tokio::spawn(async move {
            let _ = connection.await; // it ends when a test cuts it
        });
        Process { client, connection }
    }
}

/// A consumer's process: it dies with its connection.
pub struct Process {
    pub client: Client,
    connection: JoinHandle<()>,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// One delivery of a message.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// The subject of the message: each trial has another one.
    pub key: i64,
    /// The number of the message among those about the key, from 1.
    pub message: i64,
    /// The time of receipt. Each delivery comes an hour after the one before, or together with it.
    pub at: SystemTime,
}

/// The end of a consumer, at one of its awaits.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// The process is gone, and its connection.
    Process,
    /// The connection is gone, and the process learns it.
    Connection,
}

/// Messages about a key, and the orders in which they are delivered.
pub struct Trial<'t> {
    /// The rows before the first message: SQL with `{key}`.
    pub before: &'t str,
    pub orders: &'t [&'t [i64]],
}

/// A trial's outcomes, and one way to each.
pub type Outcomes = BTreeMap<String, String>;

/// Checks that a handler has the same effect whatever happens. Returns the number of trials.
pub async fn judge(
    place: &Place,
    trial: &Trial<'_>,
    handle: impl AsyncFn(&mut Client, Delivery) -> Result<(), Failed>,
    effect: impl AsyncFn(&Client, i64) -> String,
    expected: &str,
) -> Result<usize, String> {
    let (trials, outcomes) = outcomes(place, trial, handle, effect).await?;
    match outcomes.iter().find(|(outcome, _)| *outcome != expected) {
        None => Ok(trials),
        Some((outcome, way)) => Err(format!("expected {expected:?}, got {outcome:?}: {way}")),
    }
}

/// Returns how many trials there were, and what came of them.
pub async fn outcomes(
    place: &Place,
    trial: &Trial<'_>,
    handle: impl AsyncFn(&mut Client, Delivery) -> Result<(), Failed>,
    effect: impl AsyncFn(&Client, i64) -> String,
) -> Result<(usize, Outcomes), String> {
    let observer = place.connect().await;
    let mut survivors = Vec::new();
    for _ in 0..4 {
        survivors.push(place.connect().await);
    }
    let mut stage = Stage { place, trial, handle, observer, survivors, key: 0, at: evening(), trials: 0 };
    let mut outcomes = Outcomes::new();
    for order in trial.orders {
        for death in [Death::Process, Death::Connection] {
            for victim in 0..order.len() {
                for step in 0.. {
                    assert!(step < STEPS_MAX, "a handler that never ends");
                    let has_died = stage.with_death(order, death, victim, step).await?;
                    let way = format!("{order:?}, {death:?} dies at delivery {victim}, step {step}");
                    outcomes.entry(effect(&stage.observer.client, stage.key).await).or_insert(way);
                    if !has_died {
                        break;
                    }
                }
            }
        }
    }
    for round in 0..testkit::long(5, 20) {
        let order = trial.orders[round as usize % trial.orders.len()];
        stage.at_once(order).await?;
        let way = format!("{order:?}, each to four consumers at once, round {round}");
        outcomes.entry(effect(&stage.observer.client, stage.key).await).or_insert(way);
    }
    Ok((stage.trials, outcomes))
}

/// Returns a time of which the next hour is another day, in UTC.
pub fn evening() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(20_000 * 86_400 + 23 * 3_600 + 1_800)
}

struct Stage<'t, H> {
    place: &'t Place,
    trial: &'t Trial<'t>,
    handle: H,
    observer: Process,
    /// Those that do not die, of all trials: a connection costs more than what is done with it.
    survivors: Vec<Process>,
    key: i64,
    at: SystemTime,
    trials: usize,
}

impl<H: AsyncFn(&mut Client, Delivery) -> Result<(), Failed>> Stage<'_, H> {
    async fn begin(&mut self) {
        self.key = self.place.last_key.get() + 1;
        self.place.last_key.set(self.key);
        self.trials += 1;
        self.at = evening();
        let sql = self.trial.before.replace("{key}", &self.key.to_string());
        self.observer.client.batch_execute(&sql).await.expect("what is there before");
    }

    fn delivery(&mut self, message: i64) -> Delivery {
        let delivery = Delivery { key: self.key, message, at: self.at };
        self.at += Duration::from_secs(3_600);
        delivery
    }

    /// Delivers messages in an order. One of them dies, and comes again. Returns false if it was
    /// done before it could die.
    async fn with_death(&mut self, order: &[i64], death: Death, victim: usize, step: usize) -> Result<bool, String> {
        self.begin().await;
        let (mut has_died, mut failure) = (false, String::new());
        let mut queue = VecDeque::from(order.to_vec());
        for position in 0..DELIVERIES_MAX {
            let Some(message) = queue.pop_front() else { return Ok(has_died) };
            let delivery = self.delivery(message);
            let done = if position == victim {
                let mut process = self.place.connect().await;
                let Process { client, connection } = &mut process;
                dying((self.handle)(client, delivery), death, step, &mut has_died, || connection.abort()).await
            } else {
                Some((self.handle)(&mut self.survivors[0].client, delivery).await)
            };
            match done {
                Some(Ok(())) => {}
                // The broker delivers it again: at once, or, if it was refused, after the others.
                None => queue.push_front(message),
                Some(Err(_)) if position == victim && has_died => queue.push_front(message),
                Some(Err(error)) => {
                    failure = error.to_string();
                    queue.push_back(message);
                }
            }
        }
        Err(format!("{order:?}, {death:?} dies at delivery {victim}, step {step}: it is never done: {failure}"))
    }

    /// Delivers each message to four consumers at once.
    async fn at_once(&mut self, order: &[i64]) -> Result<(), String> {
        self.begin().await;
        let mut queue = VecDeque::from(order.to_vec());
        for _ in 0..DELIVERIES_MAX {
            let Some(message) = queue.pop_front() else { return Ok(()) };
            let delivery = self.delivery(message);
            let handle = &self.handle;
            let all = self.survivors.iter_mut().map(|process| handle(&mut process.client, delivery));
            // Who has failed gets it again.
            if join_all(all).await.iter().any(Result::is_err) {
                queue.push_back(message);
            }
        }
        Err(format!("{order:?} at once: it is never done"))
    }
}

/// Polls a handler as many times, and then lets it die. None if its process has died.
async fn dying<T>(
    work: impl Future<Output = T>,
    death: Death,
    polls: usize,
    has_died: &mut bool,
    cut: impl Fn(),
) -> Option<T> {
    let mut work = pin!(work);
    let mut polls_left = polls;
    poll_fn(|context| {
        if polls_left > 0 {
            polls_left -= 1;
        } else if !std::mem::replace(has_died, true) {
            cut();
            if let Death::Process = death {
                return Poll::Ready(None);
            }
        }
        work.as_mut().poll(context).map(Some)
    })
    .await
}
