//! Tries the examples' consumers without a broker: `hapax_testing::consumer` delivers to them, with
//! crashes, lost answers, processes that stand still, and copies. Their consumers, handlers and
//! transactions are the code of the examples.

mod queue;

#[path = "../../../src/bin/kafka.rs"]
#[allow(dead_code)] // its broker, and main
mod kafka;

use hapax_brokers::Ledger;
use hapax_store::{InMemoryStore, Store, TieredDedup};
use hapax_stream::{Consumer as StreamConsumer, Delivery};
use hapax_testing::consumer::{Consumer, Expect, Failed, Message, Problem, SimulatedStore, Simulation, World};
use queue::{Envelope, Running, exchange};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Builds the engine of a process: the nth one, on the time of the simulation.
async fn engine<S: Store>(store: S, world: &World, number: u64) -> Result<TieredDedup<S>, Failed> {
    let builder = TieredDedup::builder(store).clock(world.clock()).seed(1).attempt_seed(number);
    let builder = builder.capacity(64).max_memory_bytes(1 << 20).expiry(None).lease(Duration::from_secs(60));
    Ok(builder.build().await?)
}

fn consumer<S: Store>(engine: TieredDedup<S>) -> Result<StreamConsumer<S, Envelope>, Failed> {
    let builder = StreamConsumer::builder("orders", engine, |envelope: &Envelope| Some(envelope.id.clone()));
    Ok(builder.max_in_flight(8).handler_timeout(Duration::from_secs(60)).build()?)
}

/// Counts the processes of a schedule.
fn next(processes: &Mutex<u64>) -> u64 {
    let mut processes = processes.lock().unwrap();
    *processes += 1;
    *processes
}

/// Payments booked in the transaction of the mark, as `kafka` does.
struct Payments;

struct Bank {
    books: Arc<kafka::Books>,
    processes: Mutex<u64>,
}

fn bookings(books: &kafka::Books, payment: &str) -> Result<i64, Failed> {
    let connection = books.connection.lock().unwrap();
    let count = "SELECT count(*) FROM bookings WHERE payment = ?1";
    Ok(connection.query_row(count, [payment], |row| row.get(0))?)
}

impl Consumer for Payments {
    type Durable = Bank;
    type Process = Running;

    fn durable(&self, _: &World) -> Bank {
        Bank { books: Arc::new(kafka::Books::open(":memory:").unwrap()), processes: Mutex::default() }
    }

    async fn start(&self, bank: &Arc<Bank>, world: &World) -> Result<Running, Failed> {
        // Memory of this process: the database decides.
        let store = InMemoryStore::with_clock(world.clock());
        let consumer = consumer(engine(store, world, next(&bank.processes)).await?)?;
        let books = Arc::clone(&bank.books);
        let book = move |payment: Delivery<Envelope>| {
            let books = Arc::clone(&books);
            async move {
                let transaction = || -> Result<(), Failed> {
                    let before = bookings(&books, &payment.id)?;
                    books.book(payment.id.as_bytes())?;
                    (before..bookings(&books, &payment.id)?).for_each(|_| payment.world.effect(&payment.id));
                    Ok(())
                };
                payment.world.call("books: transaction", transaction).await?
            }
        };
        Ok(exchange(consumer, book))
    }

    async fn handle(&self, process: &Running, message: &Message, world: &World) -> Result<(), Failed> {
        process.deliver(message, world).await
    }
}

/// Orders billed under a claim of a shared store, as `jetstream`, `rabbitmq`, `redis_streams` and
/// `sqs` do. The ledger cannot take part in a transaction.
struct Orders;

struct Billing {
    store: Arc<InMemoryStore>,
    ledger: Arc<Ledger>,
    processes: Mutex<u64>,
}

impl Consumer for Orders {
    type Durable = Billing;
    type Process = Running;

    fn durable(&self, world: &World) -> Billing {
        Billing {
            store: Arc::new(InMemoryStore::with_clock(world.clock())),
            ledger: Arc::new(Ledger::open("/dev/null").unwrap()),
            processes: Mutex::default(),
        }
    }

    async fn start(&self, billing: &Arc<Billing>, world: &World) -> Result<Running, Failed> {
        let store: SimulatedStore<_> = world.store(Arc::clone(&billing.store));
        let consumer = consumer(engine(store, world, next(&billing.processes)).await?)?;
        let ledger = Arc::clone(&billing.ledger);
        let bill = move |order: Delivery<Envelope>| {
            let ledger = Arc::clone(&ledger);
            async move {
                let work = async {
                    order.world.effect(&order.id);
                    ledger.work(&order.id, order.token()).await
                };
                Ok::<_, Failed>(order.world.call_async("ledger: work", work).await??)
            }
        };
        Ok(exchange(consumer, bill))
    }

    async fn handle(&self, process: &Running, message: &Message, world: &World) -> Result<(), Failed> {
        process.deliver(message, world).await
    }
}

#[test]
fn payments_are_booked_exactly_once() {
    let simulation = Simulation::new(Payments).places(&["books: transaction"]);
    let report = simulation.schedules_max(150).seeds(0..50).run().unwrap_or_else(|finding| panic!("{finding}"));
    println!("{report}");
    assert!(report.never_reached().is_empty());
}

#[test]
fn orders_are_billed_at_least_once() {
    let places = ["store: claim", "store: complete", "ledger: work"];
    let simulation = Simulation::new(Orders).expect(Expect::AtLeastOnce).places(&places);
    let report = simulation.schedules_max(150).seeds(0..50).run().unwrap_or_else(|finding| panic!("{finding}"));
    println!("{report}");
    assert!(report.never_reached().is_empty(), "{report}");
}

#[test]
fn orders_may_be_billed_again_after_a_crash_before_the_completion() {
    let finding = *Simulation::new(Orders).run().unwrap_err();
    println!("{finding}");
    assert!(matches!(finding.problem, Problem::Doubled { .. }) && finding.faults == 1);
}
