//! Consumers that are wrong, as they are often written: each is caught, with a short story.

use crate::consumer::consumers::{Database, Fence, Stateless, leased};
use hapax_testing::consumer::{Consumer, Expect, Failed, Fault, Finding, Message, Problem, Simulation, World};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Instant;

fn finding(consumer: impl Consumer) -> Finding {
    found_by(Simulation::new(consumer))
}

/// Returns what a simulation finds, and prints it with the seconds that it took, for
/// `scripts/flaws`.
fn found_by(simulation: Simulation<impl Consumer>) -> Finding {
    let start = Instant::now();
    let finding = *simulation.run().expect_err("it is wrong");
    let seconds = start.elapsed().as_secs_f64();
    println!("\njudged: {}, {} faults | {seconds:.2}\n{finding}\n", finding.problem, finding.faults);
    assert!(finding.to_string().lines().all(|line| line.chars().count() <= 100));
    finding
}

fn is_doubled(finding: &Finding) -> bool {
    matches!(finding.problem, Problem::Doubled { .. })
}

fn is_missing(finding: &Finding) -> bool {
    matches!(finding.problem, Problem::Missing { .. })
}

#[test]
fn without_deduplication_a_lost_acknowledgement_doubles_the_effect() {
    let found = finding(Stateless(async |_: &Database, message: &Message, world: &World| {
        Ok(world.call("charge", || world.effect(&message.id)).await?)
    }));
    assert!(is_doubled(&found) && found.faults == 1);
}

/// A set in memory: check, await, insert.
struct SetWithoutALock;

impl Consumer for SetWithoutALock {
    type Durable = ();
    type Process = Mutex<HashSet<String>>;

    fn durable(&self, _: &World) {}

    async fn start(&self, _: &Arc<()>, _: &World) -> Result<Self::Process, Failed> {
        Ok(Mutex::default())
    }

    async fn handle(&self, seen: &Self::Process, message: &Message, world: &World) -> Result<(), Failed> {
        let is_known = seen.lock().unwrap().contains(&message.id);
        if !is_known {
            world.call("charge", || world.effect(&message.id)).await?;
            seen.lock().unwrap().insert(message.id.clone());
        }
        Ok(())
    }
}

#[test]
fn a_set_in_memory_is_lost_with_its_process() {
    let found = finding(SetWithoutALock);
    assert!(is_doubled(&found) && found.faults == 1);
}

#[test]
fn a_set_without_a_lock_lets_two_in_at_once() {
    // The set is a table, so that it outlives its process; and the mark is of one piece with the
    // effect, so that no crash comes between.
    let set = Stateless(async |database: &Database, message: &Message, world: &World| {
        if world.call("redis: SISMEMBER", || database.contains(&message.id)).await? {
            return Ok(());
        }
        let insert = || {
            world.effect(&message.id);
            database.insert(&message.id);
        };
        Ok(world.call("redis: SADD", insert).await?)
    });
    let simulation = Simulation::new(set).without(&[Fault::AnswersLate, Fault::Freeze]);
    let found = found_by(simulation);
    assert!(is_doubled(&found) && found.faults == 2, "two deliveries at once, and one interruption");
    assert!(found.to_string().contains("is sent twice") && found.to_string().contains("others run"));
}

#[test]
fn set_nx_before_the_work_loses_the_effect_in_a_crash() {
    let found = finding(Stateless(async |redis: &Database, message: &Message, world: &World| {
        if world.call("redis: SET NX", || redis.insert(&message.id)).await? {
            world.call("charge", || world.effect(&message.id)).await?;
        }
        Ok(())
    }));
    assert!(is_missing(&found) && found.faults == 1);
    assert!(found.to_string().contains("! process A crashes after `redis: SET NX` of A1"), "{found}");
}

#[test]
fn a_processed_table_without_a_transaction_doubles_or_loses() {
    let after = finding(Stateless(async |database: &Database, message: &Message, world: &World| {
        if !world.call("database: SELECT", || database.contains(&message.id)).await? {
            world.call("database: UPDATE", || world.effect(&message.id)).await?;
            world.call("database: INSERT", || database.insert(&message.id)).await?;
        }
        Ok(())
    }));
    assert!(is_doubled(&after) && after.faults == 1);
    let before = finding(Stateless(async |database: &Database, message: &Message, world: &World| {
        if world.call("database: INSERT", || database.insert(&message.id)).await? {
            world.call("database: UPDATE", || world.effect(&message.id)).await?;
        }
        Ok(())
    }));
    assert!(is_missing(&before) && before.faults == 1);
}

#[test]
fn an_acknowledgement_before_the_work_loses_the_effect() {
    let simulation = Simulation::new(Stateless(async |_: &Database, message: &Message, world: &World| {
        world.acknowledge().await;
        Ok(world.call("charge", || world.effect(&message.id)).await?)
    }));
    let found = found_by(simulation.expect(Expect::AtLeastOnce));
    assert!(is_missing(&found) && found.faults == 1);
}

#[test]
fn work_in_a_task_of_its_own_is_lost_after_the_acknowledgement() {
    let simulation = Simulation::new(Stateless(async |_: &Database, message: &Message, world: &World| {
        let (world, id) = (world.clone(), message.id.clone());
        tokio::spawn(async move { world.call("charge", || world.effect(&id)).await });
        Ok(())
    }));
    let found = found_by(simulation.expect(Expect::AtLeastOnce));
    assert!(is_missing(&found) && found.faults == 1);
}

#[test]
fn whoever_has_lost_its_lease_goes_on_without_a_fencing_token() {
    let found = finding(Stateless(async |database: &Database, message: &Message, world: &World| {
        leased(database, message, world, Fence::Nothing).await
    }));
    assert!(is_doubled(&found) && found.faults == 1);
    let story = found.to_string();
    assert!(story.contains("! process A stands still after `redis: claim` of A1"), "{story}");
}

#[test]
fn a_fence_against_smaller_tokens_alone_lets_a_later_claim_repeat_the_effect() {
    // The first one comes back after another has claimed, and before that one charges: its token is
    // the largest that the bank has seen. Then the other one's is.
    let found = finding(Stateless(async |database: &Database, message: &Message, world: &World| {
        leased(database, message, world, Fence::SmallerTokens).await
    }));
    assert!(is_doubled(&found) && found.faults == 2);
}

#[test]
fn a_high_water_mark_loses_what_comes_late() {
    let found = finding(Stateless(async |database: &Database, message: &Message, world: &World| {
        let transaction = || {
            let mut tables = database.lock();
            if tables.most < message.number {
                tables.most = message.number;
                world.effect(&message.id);
            }
        };
        Ok(world.call("database: transaction", transaction).await?)
    }));
    assert!(is_missing(&found) && found.faults == 1);
}

#[test]
fn a_check_that_believes_the_redelivered_flag_doubles() {
    let found = finding(Stateless(async |database: &Database, message: &Message, world: &World| {
        let transaction = || {
            if message.deliveries == 1 || !database.contains(&message.id) {
                world.effect(&message.id);
            }
            database.insert(&message.id);
        };
        Ok(world.call("database: transaction", transaction).await?)
    }));
    assert!(is_doubled(&found) && found.faults == 1, "sent twice, each delivered for the first time");
}

#[test]
fn an_error_that_is_taken_for_done_loses_the_effect() {
    let found = finding(Stateless(async |database: &Database, message: &Message, world: &World| {
        let transaction = || {
            if database.insert(&message.id) {
                world.effect(&message.id);
            }
        };
        let _ = world.call("database: transaction", transaction).await;
        Ok(())
    }));
    assert!(is_missing(&found) && found.faults == 1);
}

#[test]
fn a_consumer_that_hangs_is_told_as_such() {
    // After a crash, the claim that has no lease is nobody's.
    let found = finding(Stateless(async |database: &Database, message: &Message, world: &World| {
        if !world.call("redis: lock", || database.insert(&message.id)).await? {
            return Err("somebody has it".into());
        }
        let work = || {
            if database.lock().done.insert(message.id.clone(), 0).is_none() {
                world.effect(&message.id);
            }
        };
        world.call("database: transaction", work).await?;
        world.call("redis: unlock", || database.lock().ids.remove(&message.id)).await?;
        Ok(())
    }));
    assert!(matches!(&found.problem, Problem::NeverDone { message } if message == "message-1"));
    let spins = finding(Stateless(async |_: &Database, _: &Message, world: &World| {
        loop {
            world.call("database: SELECT", || ()).await?;
        }
    }));
    assert!(matches!(spins.problem, Problem::NeverDone { .. }) && spins.faults == 0);
    let waits = finding(Stateless(async |_: &Database, _: &Message, _: &World| std::future::pending().await));
    assert!(matches!(waits.problem, Problem::NeverDone { .. }) && waits.faults == 0);
}

#[test]
fn panics_and_typing_errors_are_findings() {
    let found = finding(Stateless(async |_: &Database, _: &Message, _: &World| panic!("no such column")));
    assert!(matches!(&found.problem, Problem::Panicked { what, .. } if what == "no such column"));
    let found = finding(Stateless(async |_: &Database, _: &Message, world: &World| {
        world.effect("message-l");
        Ok(())
    }));
    assert!(matches!(&found.problem, Problem::UnknownEffect { key } if key == "message-l"));
}

#[test]
fn what_takes_many_faults_is_found_by_chance_and_shrunk() {
    // The fourth delivery of a message is not looked up.
    let consumer = Stateless(async |database: &Database, message: &Message, world: &World| {
        let transaction = || {
            if database.insert(&message.id) || message.deliveries == 4 {
                world.effect(&message.id);
            }
        };
        Ok(world.call("database: transaction", transaction).await?)
    });
    let found = found_by(Simulation::new(consumer).without(&[Fault::Away]));
    assert!(is_doubled(&found) && found.faults == 3 && found.seed.is_some());
    assert!(!found.to_string().contains("message-2"), "one message is enough: {found}");
}
