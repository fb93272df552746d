//! Consumers that are right pass, and what was tried is told.

use crate::consumer::consumers::{Database, Fence, Stateless, leased};
use hapax_testing::consumer::{Consumer, Expect, Failed, Fault, Message, Problem, Report, Simulation, World};
use std::sync::Arc;
use std::time::Duration;

fn passes<C: Consumer>(simulation: &Simulation<C>) -> Report {
    let begun = std::time::Instant::now();
    let report = simulation.run().unwrap_or_else(|finding| panic!("{finding}"));
    println!("{report}\nin {:?}", begun.elapsed());
    report
}

/// Inserts the mark in the transaction of the effect.
async fn transactional(database: &Database, message: &Message, world: &World) -> Result<(), Failed> {
    let transaction = || {
        if database.insert(&message.id) {
            world.effect(&message.id);
        }
    };
    Ok(world.call("database: transaction", transaction).await?)
}

#[test]
fn mark_and_effect_in_one_transaction_are_exactly_once() {
    let report = passes(&Simulation::new(Stateless(transactional)).places(&["database: transaction", "smtp: send"]));
    for fault in [
        Fault::TwiceAtOnce,
        Fault::TwiceInOneProcess,
        Fault::TwiceLate,
        Fault::OutOfOrder,
        Fault::Crash,
        Fault::Freeze,
        Fault::Interrupt,
        Fault::Fails,
        Fault::Away,
        Fault::LosesAnswer,
        Fault::AnswersLate,
        Fault::LosesAcknowledgement,
    ] {
        assert!(report.faults.get(&fault).is_some_and(|&count| count > 1), "{fault} was not tried: {report}");
    }
    assert_eq!(report.systematic[0], 1);
    assert!(report.systematic[1] > 30 && report.systematic[2] > 500 && report.systematic[3] > 100, "{report}");
    assert_eq!(report.drawn, 1_000);
    assert_eq!(report.never_reached(), ["smtp: send"]);
    assert!(report.to_string().contains("smtp: send"), "{report}");
}

/// The lease of a claim, and its token, which the transaction of the effect checks.
async fn fenced(database: &Database, message: &Message, world: &World) -> Result<(), Failed> {
    leased(database, message, world, Fence::AllTokensButTheLast).await
}

#[test]
fn leases_with_fencing_tokens_that_the_effect_checks_are_exactly_once() {
    passes(&Simulation::new(Stateless(fenced)).places(&["redis: claim", "bank: charge"]));
}

/// Works first, and marks then.
async fn work_before_mark(database: &Database, message: &Message, world: &World) -> Result<(), Failed> {
    if !world.call("database: SELECT", || database.contains(&message.id)).await? {
        world.call("charge", || world.effect(&message.id)).await?;
        world.call("database: INSERT", || database.insert(&message.id)).await?;
    }
    Ok(())
}

#[test]
fn work_before_the_mark_is_at_least_once() {
    passes(&Simulation::new(Stateless(work_before_mark)).expect(Expect::AtLeastOnce));
}

#[test]
fn a_time_out_of_the_handler_costs_no_time() {
    let patient = async |database: &Database, message: &Message, world: &World| -> Result<(), Failed> {
        let handled = transactional(database, message, world);
        tokio::time::timeout(std::time::Duration::from_secs(10), handled).await?
    };
    passes(&Simulation::new(Stateless(patient)).seeds(0..200));
}

#[test]
fn a_seed_stands_for_one_story() {
    let simulation = Simulation::new(Stateless(fenced));
    let mut stories = std::collections::HashSet::new();
    for seed in 0..200 {
        let story = simulation.trace(seed).unwrap();
        assert_eq!(story, simulation.trace(seed).unwrap(), "seed {seed}");
        stories.insert(story);
    }
    assert!(stories.len() > 80, "seeds differ: {}", stories.len());
}

#[tokio::test]
async fn it_runs_inside_of_a_runtime() {
    passes(&Simulation::new(Stateless(transactional)).schedules_max(10).seeds(0..5));
}

/// Forgets ids after five minutes.
async fn forgetful(database: &Database, message: &Message, world: &World) -> Result<(), Failed> {
    let transaction = || {
        let now = world.now().as_secs();
        let before = database.lock().ids.insert(message.id.clone(), now);
        if before.is_none_or(|before| before + 300 <= now) {
            world.effect(&message.id);
        }
    };
    Ok(world.call("database: transaction", transaction).await?)
}

#[test]
fn times_are_options() {
    let short = || Simulation::new(Stateless(forgetful)).late(Duration::from_secs(200)).seeds(0..100);
    passes(&short());
    short().late(Duration::from_secs(400)).run().expect_err("it is remembered for 300 s");

    let unfenced = async |database: &Database, message: &Message, world: &World| {
        leased(database, message, world, Fence::Nothing).await
    };
    let short = || Simulation::new(Stateless(unfenced)).freeze(Duration::from_secs(40)).seeds(0..0).schedules_max(200);
    passes(&short());
    short().freeze(Duration::from_secs(70)).run().expect_err("leases are 60 s");

    let redelivered = short().freeze(Duration::from_secs(70)).redelivery(Duration::from_secs(200));
    passes(&redelivered);
    let story = Simulation::new(Stateless(transactional)).messages(3).processes(3).away(Duration::from_secs(7));
    let stories: String = (0..50).map(|seed| story.trace(seed).unwrap()).collect();
    assert!(stories.contains("message-3") && stories.contains("to process C") && stories.contains("away, for 7 s"));
    let impatient = Simulation::new(Stateless(transactional)).patience(Duration::from_millis(500));
    let finding = impatient.run().unwrap_err();
    assert!(matches!(finding.problem, Problem::NeverDone { .. }) && finding.faults == 1, "{finding}");
}

/// A process that calls for itself as well, from a task of its own.
struct Heartbeats;

impl Consumer for Heartbeats {
    type Durable = Database;
    type Process = Arc<Database>;

    fn durable(&self, _: &World) -> Database {
        Database::default()
    }

    async fn start(&self, database: &Arc<Database>, world: &World) -> Result<Arc<Database>, Failed> {
        let world = world.clone();
        tokio::spawn(async move {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_secs(10)).await;
                let _ = world.call("coordinator: heartbeat", || ()).await;
            }
        });
        Ok(Arc::clone(database))
    }

    async fn handle(&self, database: &Arc<Database>, message: &Message, world: &World) -> Result<(), Failed> {
        transactional(database, message, world).await
    }
}

#[test]
fn processes_that_stand_still_in_a_task_of_their_own_go_on() {
    let report = passes(&Simulation::new(Heartbeats).schedules_max(300).seeds(0..100));
    assert!(report.faults[&Fault::Freeze] > 10, "{report}");
}
