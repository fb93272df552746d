//! A process that has all patterns with rows, and is killed at random moments (kill -9).

use crate::harness::{Failed, Place};
use crate::rows::value;
use hapax_http::OutgoingKey;
use hapax_patterns::last_event::{self, Booked, book};
use hapax_patterns::reservation::{self, Reserved, reserve};
use hapax_patterns::saga::{self, Answer, Services, State, begin, go_on};
use hapax_patterns::unique_row::{self, like};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use testkit::random::Random;
use tokio_postgres::{Client, NoTls};

const ADDRESS: &str = "HAPAX_PATTERNS_ADDRESS";
const MESSAGES: i64 = 150;
const KILLS: u64 = 8;
/// The number of messages that come again after each kill, and that were acknowledged before.
const AGAIN: i64 = 3;
const PATIENCE: Duration = Duration::from_secs(300);

const TABLES: &str = "
    CREATE TABLE acknowledged (message bigint PRIMARY KEY);
    CREATE TABLE answers (key text PRIMARY KEY, saga bigint, step text);
    INSERT INTO accounts VALUES (1);
    INSERT INTO products VALUES (1, 1000)";

/// Services that are a table: a key, and what was done for it.
struct Rows(Client);

impl Services for Rows {
    type Error = tokio_postgres::Error;

    async fn call(&self, step: State, saga: i64, key: &OutgoingKey) -> Result<Answer, tokio_postgres::Error> {
        let refused = step == State::Ship && saga % 2 == 0; // every second parcel is too large
        let name = if refused { "" } else { step.name() };
        let insert = "INSERT INTO answers VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
        self.0.execute(insert, &[&key.to_string(), &saga, &name]).await?;
        Ok(if refused { Answer::Refused } else { Answer::Done })
    }
}

pub async fn client(address: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

async fn handle(client: &mut Client, services: &Rows, message: i64) -> Result<(), Failed> {
    like(client, 1, message).await?;
    if book(client, 1, message, message).await? == (Booked::Early { last_event: message }) {
        return Err("the last event is its own".into());
    }
    if reserve(client, message, 1, 2).await? != Reserved::Yes {
        return Err("there are a thousand".into());
    }
    begin(client, message).await?;
    go_on(client, services, message).await?;
    Ok(())
}

/// Runs the consumer that is killed; this is no test.
#[test]
fn consumer() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (mut consumer, services) = (client(&address).await, Rows(client(&address).await));
        let row = consumer.query_one("SELECT coalesce(max(message), 0) FROM acknowledged", &[]).await;
        let acknowledged: i64 = row.expect("a row").get(0);
        for message in (acknowledged - AGAIN).max(0) + 1..=MESSAGES {
            handle(&mut consumer, &services, message).await.expect("handled");
            let acknowledge = "INSERT INTO acknowledged VALUES ($1) ON CONFLICT DO NOTHING";
            consumer.execute(acknowledge, &[&message]).await.expect("acknowledged");
        }
    });
}

/// A process that is killed with its test.
pub struct Consumer(Child);

impl Consumer {
    /// Starts a test of this name, with this value of a variable.
    pub fn start(test: &str, variable: &str, value: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", test]).env(variable, value);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Consumer(testkit::children::started(command))
    }

    /// Waits for its end, which must be a good one.
    pub async fn ends_well(mut self, by: Instant) {
        while self.0.try_wait().expect("its state").is_none() {
            assert!(Instant::now() < by, "it does not end");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(self.0.wait().expect("its state").success());
    }

    pub fn kill(&mut self) {
        let _ = self.0.kill(); // it may have ended
        let _ = self.0.wait();
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn random() -> Random {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let given = std::env::var("HAPAX_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or(now.as_nanos() as u64);
    println!("HAPAX_SEED={seed}");
    Random(seed)
}

#[test]
fn what_a_killed_process_has_left_is_done_once() {
    let tables = [last_event::TABLE, reservation::TABLES, saga::TABLE, unique_row::TABLE, TABLES].join(";");
    Place::run(&tables, async |place| {
        let mut random = random();
        let observer = &place.connect().await.client;
        let done = async || {
            let row = observer.query_one("SELECT count(*) FROM acknowledged", &[]).await;
            row.expect("a count").get::<_, i64>(0)
        };
        let end = Instant::now() + PATIENCE;
        for kill in 1..=KILLS {
            let mut consumer = Consumer::start("killed::consumer", ADDRESS, place.address());
            while done().await < MESSAGES * kill as i64 / (KILLS + 1) as i64 {
                assert!(Instant::now() < end, "nothing goes on");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::time::sleep(Duration::from_micros(random.below(5_000))).await;
            consumer.kill();
        }
        Consumer::start("killed::consumer", ADDRESS, place.address()).ends_well(end).await;
        println!("{MESSAGES} messages, {KILLS} kills");

        assert_eq!(done().await, MESSAGES);
        assert_eq!(unique_row::likes(observer, 1).await.unwrap(), MESSAGES);
        let expected = format!("{} by {MESSAGES}", MESSAGES * (MESSAGES + 1) / 2);
        let sum = "SELECT cents || ' by ' || last_event FROM accounts WHERE account_id = $1";
        assert_eq!(value(observer, sum, 1).await, expected);
        let reserved = "SELECT sum(pieces)::text FROM reservations WHERE product_id = $1";
        assert_eq!(value(observer, reserved, 1).await, (2 * MESSAGES).to_string());
        // Each step of each saga once; of an order whose parcel is too large one was refused.
        for (saga, steps) in [(1, "charge, reserve, ship"), (2, ", charge, refund, reserve, unreserve")] {
            let sql = "SELECT DISTINCT string_agg(step, ', ' ORDER BY step) FROM answers
                       WHERE saga % 2 = $1::bigint % 2 GROUP BY saga";
            assert_eq!(value(observer, sql, saga).await, steps);
        }
    });
}
