//! A process of the campaign: a consumer, and callers that ask until they are told.

use super::plan::Part;
use hapax_store::{ErrorKind, Store, TieredDedup};
use hapax_stream::{Consumer, Delivery, Source};
use hapax_testing::store::{Fault, FaultyStore};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use testkit::random::Random;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::sleep;

const CALLERS: u64 = 6;

/// A connection to the broker.
#[derive(Clone)]
struct Line(Arc<Mutex<BufReader<TcpStream>>>);

impl Line {
    async fn to(broker: SocketAddr, worker: usize) -> io::Result<Line> {
        let stream = TcpStream::connect(broker).await?;
        stream.set_nodelay(true)?;
        let line = Line(Arc::new(Mutex::new(BufReader::new(stream))));
        line.ask(format!("hello {worker}")).await?;
        Ok(line)
    }

    /// Asks, and reads the answer, also if the caller does not wait for it.
    async fn ask(&self, what: String) -> io::Result<String> {
        let stream = Arc::clone(&self.0);
        let asking = tokio::spawn(async move {
            let mut stream = stream.lock().await;
            stream.get_mut().write_all(format!("{what}\n").as_bytes()).await?;
            let mut answer = String::new();
            match stream.read_line(&mut answer).await? {
                0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                _ => Ok(answer.trim_end().to_owned()),
            }
        });
        asking.await.map_err(io::Error::other)?
    }
}

/// A message that the broker has delivered.
#[derive(Debug)]
struct Received {
    place: u64,
    delivery: u32,
    id: u64,
    takes: Duration,
    hangs: u64,
    fails: u64,
}

impl Received {
    fn parse(text: &str) -> Option<Received> {
        let numbers: Vec<u64> = text.split(',').map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let [place, delivery, id, takes, hangs, fails] = numbers[..] else { return None };
        Some(Received { place, delivery: delivery as u32, id, takes: Duration::from_millis(takes), hangs, fails })
    }
}

struct Queue {
    line: Line,
    /// The time for which it hides a message. Half of the workers send heartbeats.
    visibility: Duration,
    heartbeat: Option<Duration>,
}

impl Source for Queue {
    type Message = Received;
    type Error = io::Error;

    async fn receive(&self, max: usize) -> io::Result<Option<Vec<Received>>> {
        let taken = self.line.ask(format!("take {max}")).await?;
        let received: Vec<_> = taken.split(' ').filter_map(Received::parse).collect();
        if received.is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
        Ok(Some(received))
    }

    async fn acknowledge(&self, messages: &[Arc<Received>]) -> io::Result<()> {
        let places: Vec<String> = messages.iter().map(|message| message.place.to_string()).collect();
        self.line.ask(format!("ack {}", places.join(" "))).await.map(drop)
    }

    async fn retry(&self, message: &Arc<Received>, after: Duration) -> io::Result<()> {
        let Received { place, delivery, .. } = **message;
        self.line.ask(format!("put-off {place} {delivery} {}", after.as_millis())).await.map(drop)
    }

    async fn dead_letter(&self, message: &Arc<Received>, why: &str) -> io::Result<()> {
        self.line.ask(format!("aside {} {}", message.id, why.replace('\n', " "))).await.map(drop)
    }

    fn heartbeat(&self) -> Option<Duration> {
        self.heartbeat
    }

    async fn extend(&self, messages: &[Arc<Received>]) -> io::Result<()> {
        for message in messages {
            self.retry(message, self.visibility).await?;
        }
        Ok(())
    }

    fn deliveries(&self, message: &Received) -> Option<u32> {
        Some(message.delivery)
    }
}

/// Hangs, fails, or takes its time, as the message says; then its effect is there.
async fn handle(line: Line, delivery: Delivery<Received>) -> io::Result<()> {
    let begun = line.ask(format!("begin {}", delivery.id)).await?;
    let (run, before) = begun.split_once(' ').expect("a run, and how many there were");
    let before: u64 = before.parse().expect("a number");
    if before < delivery.hangs {
        std::future::pending::<()>().await;
    }
    sleep(delivery.takes).await;
    if before < delivery.hangs + delivery.fails {
        line.ask(format!("failed {run}")).await?;
        return Err(io::Error::other("as the message says"));
    }
    line.ask(format!("done {run}")).await.map(drop)
}

/// Takes messages, and checks each again at once until there is an answer. Now and then it does not
/// wait.
async fn call(line: Line, engine: TieredDedup<impl Store>, mut random: Random) -> io::Result<()> {
    loop {
        let grabbed = line.ask("grab".to_owned()).await?;
        let Some((place, id)) = grabbed.split_once(' ') else {
            sleep(random.millis(5, 30)).await;
            continue;
        };
        for times in 1_u64.. {
            let patience = if random.percent(10) { random.millis(0, 10) } else { Duration::from_secs(30) };
            let verdict = tokio::select! {
                biased;
                () = sleep(patience) => None,
                verdict = engine.check(id) => verdict.ok(),
            };
            if let Some(verdict) = verdict {
                let told = match (verdict.is_fresh(), verdict.is_duplicate()) {
                    (true, _) => "fresh",
                    (_, true) => "duplicate",
                    // Another process may be about to take a mark back.
                    _ => "in-doubt",
                };
                line.ask(format!("{told} {place}")).await?;
                break;
            }
            // A breaker that is open answers without waiting.
            if times.is_multiple_of(8) {
                sleep(random.millis(1, 10)).await;
            }
        }
    }
}

/// Works until it is killed. Returns the reason if it ends before.
pub async fn work(part: Part, store: impl Store) -> String {
    match try_to_work(part, store).await {
        Ok(()) => "the run has ended".to_owned(),
        Err(error) => error.to_string(),
    }
}

async fn try_to_work(part: Part, store: impl Store) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let Part { plan, worker, life, broker, .. } = part;
    let mut random = Random(plan.seed ^ (worker as u64) << 32 ^ life << 40);
    let store = Arc::new(FaultyStore::new(store));
    store.at_random(
        random.next(),
        [
            (4, Fault::Fails(ErrorKind::Unavailable)),
            (6, Fault::LosesAnswer(ErrorKind::Unavailable)),
            (6, Fault::FailsOne(ErrorKind::Unavailable)),
            (4, Fault::AnswersLate(Duration::from_millis(30))),
            (1, Fault::Hangs),
        ],
    );
    let retries = random.below(3) as u32;
    let engine = loop {
        let engine = TieredDedup::builder(Arc::clone(&store))
            .lease(plan.lease())
            .window(Duration::from_secs(60))
            .capacity(20_000)
            .timeout(Duration::from_millis(300))
            .retries(retries)
            .in_doubt(plan.in_doubt())
            .circuit_breaker(5, plan.breaker_rest())
            .expiry(Some((Duration::from_secs(5), 1_000)));
        match engine.build().await {
            Ok(engine) => break engine,
            Err(error) if error.kind().is_transient() => sleep(Duration::from_millis(50)).await,
            Err(error) => return Err(error.into()),
        }
    };
    let line = Line::to(broker, worker).await?;
    for _ in 0..CALLERS {
        let line = Line::to(broker, worker).await?;
        tokio::spawn(call(line, engine.clone(), random.fork()));
    }
    let consumer = Consumer::builder("orders", engine, |received: &Received| Some(received.id.to_string()))
        .max_in_flight(8)
        .batch(16)
        .max_attempts(plan.max_attempts())
        .handler_timeout(plan.handler_timeout())
        .retry_delay(Duration::from_millis(50), Duration::from_secs(1))
        .build()?;
    let effects = line.clone();
    let handle = move |delivery: Delivery<Received>| handle(effects.clone(), delivery);
    let visibility = plan.visibility();
    let heartbeat = worker.is_multiple_of(2).then_some(visibility / 3);
    consumer.run(&Queue { line, visibility, heartbeat }, handle, std::future::pending()).await?;
    Ok(())
}
