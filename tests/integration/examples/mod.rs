//! Runs consumers as documents and examples show them: with a handler that fails, and another
//! caller that holds a claim, they acknowledge only messages that are done. The code that runs here
//! is the code that is shown.

mod shown;

use hapax::{Dedup, JournalOptions, ManualClock};
use hapax_store::{ErrorKind, InMemoryStore, Ownership, TieredAttempt, TieredDedup};
use hapax_testing::store::{Fault, FaultyStore};
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use testkit::directory::Directory;

#[path = "../../../examples/durable_consumer.rs"]
#[allow(dead_code)] // its broker, and main
mod durable_consumer;

#[path = "../../../examples/log_consumer.rs"]
#[allow(dead_code)] // main
mod log_consumer;

type Failure = Box<dyn std::error::Error>;

fn text(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("it is text")
}

/// Returns a function of a file, with its documentation.
fn function(file: &str, begins: &str) -> String {
    let text = text(file);
    let from = text.find(begins).expect("it is there");
    let to = text[from..].find("\n}\n").expect("it ends");
    text[from..from + to + 3].replace("pub fn", "fn").replace("pub async fn", "async fn")
}

#[test]
fn what_is_shown_is_what_is_tested() {
    let shown = [
        ("docs/guide/2-durability.md", "examples/durable_consumer.rs", "/// Handles what is new of a batch."),
        ("docs/guide/2-durability.md", "examples/log_consumer.rs", "/// Handles what is new of a batch that begins"),
        ("docs/guide/3-sharing.md", "tests/integration/examples/shown.rs", "/// Handles a message,"),
        ("docs/guide/2-durability.md", "tests/integration/examples/shown.rs", "/// Charges an order,"),
        ("docs/scaling-out.md", "tests/integration/examples/shown.rs", "/// Handles what is new of a batch."),
    ];
    for (document, file, begins) in shown {
        let function = function(file, begins);
        assert!(
            text(document).contains(&function),
            "{document} does not show, word for word, what {file} has:\n{function}"
        );
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Builds an engine with a journal, on this clock.
fn journaled(directory: &Directory, clock: &ManualClock) -> Dedup {
    let builder = Dedup::builder().journal(directory.path(), JournalOptions::new()).clock(clock.clone());
    builder.lease(Duration::from_secs(30)).build().unwrap()
}

#[test]
fn a_log_is_handled_whole_and_in_order_whichever_message_fails() {
    let log = ["a", "b", "a", "c", "d", "b", "e"];
    for failing in ["a", "b", "c", "d", "e"] {
        let directory = Directory::new("log");
        let open =
            || Dedup::builder().journal(directory.path(), JournalOptions::new().checkpoints(true)).build().unwrap();
        let (mut handled, mut failures) = (Vec::new(), 2);
        let mut restarts = 0;
        let mut offset = 0;
        while offset < log.len() as u64 {
            // Each batch is that of another process.
            let dedup = open();
            assert_eq!(log_consumer::start(&dedup).unwrap(), offset);
            let batch = &log[offset as usize..log.len().min(offset as usize + 4)];
            offset = log_consumer::consume(&dedup, offset, batch, |id| {
                if id == failing && failures > 0 {
                    failures -= 1;
                    return Err("not now".into());
                }
                handled.push(id.to_owned());
                Ok(())
            })
            .unwrap();
            restarts += 1;
            assert!(restarts < 10, "{failing}: it does not get on");
        }
        assert_eq!(handled, ["a", "b", "c", "d", "e"], "{failing} has failed");
    }
}

#[test]
fn a_batch_is_acknowledged_as_far_as_it_is_done() {
    let (directory, clock) = (Directory::new("batch"), ManualClock::new());
    let dedup = journaled(&directory, &clock);
    let batch = ["done", "elsewhere", "fails", "new", "new"];
    dedup.claim("done").claimed().unwrap().complete().unwrap();
    let elsewhere = dedup.claim("elsewhere").claimed().unwrap();
    let mut handled = Vec::new();
    let mut handle = |id: &str| {
        handled.push(id.to_owned());
        if id == "fails" { Err("it is down".into()) } else { Ok(()) }
    };
    assert_eq!(durable_consumer::consume(&dedup, &batch, &mut handle).unwrap(), ["done", "new"]);
    // A failed id can be claimed at once; a completed one is done, and the other caller's claim is
    // still its own.
    assert_eq!(durable_consumer::consume(&dedup, &batch, &mut handle).unwrap(), ["done", "new", "new"]);
    elsewhere.complete().unwrap();
    assert_eq!(durable_consumer::consume(&dedup, &["elsewhere"], &mut handle).unwrap(), ["elsewhere"]);
    assert_eq!(handled, ["fails", "new", "fails"]);
    // Acknowledged ids are there after a crash.
    drop(dedup);
    let dedup = journaled(&directory, &clock);
    assert!(["done", "new", "elsewhere"].iter().all(|id| dedup.claim(id).is_duplicate()));
    assert!(dedup.claim("fails").claimed().is_some());
}

#[test]
fn what_has_lost_its_lease_is_not_acknowledged() {
    let (directory, clock) = (Directory::new("lease"), ManualClock::new());
    let dedup = journaled(&directory, &clock);
    // While the second message is handled, leases end, and another caller claims the first.
    let mut competitor = None;
    let handle = |id: &str| {
        if id == "second" {
            clock.advance(Duration::from_secs(31));
            competitor = dedup.claim("first").claimed();
        }
        Ok(())
    };
    assert_eq!(durable_consumer::consume(&dedup, &["first", "second"], handle).unwrap(), ["second"]);
    competitor.expect("it was to be had").complete().unwrap();
    assert!(dedup.claim("first").is_duplicate());
}

#[test]
fn after_a_failed_flush_nothing_is_acknowledged() {
    // (Without a journal there is nothing to flush to.)
    let dedup = Dedup::builder().build().unwrap();
    assert!(durable_consumer::consume(&dedup, &["a"], |_| Ok(())).is_err());
}

#[test]
fn one_message_is_acknowledged_if_it_is_done() {
    let clock = ManualClock::new();
    let dedup = Dedup::builder().lease(Duration::from_secs(30)).clock(clock.clone()).build().unwrap();
    assert!(shown::charge_once(&dedup, "a", || Err("no".into())).is_err());
    let elsewhere = dedup.claim("a").claimed().expect("it was released");
    assert!(!shown::charge_once(&dedup, "a", || panic!("somebody is at it")).unwrap());
    drop(elsewhere);
    assert!(shown::charge_once(&dedup, "a", || Ok(())).unwrap());
    assert!(shown::charge_once(&dedup, "a", || panic!("it is done")).unwrap());
    let late = shown::charge_once(&dedup, "b", || {
        clock.advance(Duration::from_secs(31));
        assert!(shown::charge_once(&dedup, "b", || Ok(()))?);
        Ok(())
    });
    assert!(late.is_err(), "somebody else has handled it meanwhile");
}

#[test]
fn one_message_of_several_instances_is_acknowledged_if_it_is_done() {
    block_on(async {
        let store = Arc::new(InMemoryStore::new());
        let instance = || TieredDedup::builder(Arc::clone(&store)).build();
        let (blue, green) = (&instance().await.unwrap(), &instance().await.unwrap());
        assert!(shown::deliver(blue, "a", async |_| Err("no".into())).await.is_err());
        // Dropping a claim does not wait until the store knows.
        let mut elsewhere = None;
        for _ in 0..100_000 {
            elsewhere = green.claim("a").await.unwrap().claimed();
            if elsewhere.is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
        let elsewhere = elsewhere.expect("it was released");
        assert!(!shown::deliver(blue, "a", async |_| panic!("somebody is at it")).await.unwrap());
        elsewhere.release().await.unwrap();
        assert!(shown::deliver(blue, "a", async |_| Ok(())).await.unwrap());
        assert!(shown::deliver(green, "a", async |_| panic!("it is done")).await.unwrap());
        blue.shutdown(Duration::from_secs(5)).await.unwrap();
        green.shutdown(Duration::from_secs(5)).await.unwrap();
    });
}

#[test]
fn a_batch_in_which_an_id_cannot_be_claimed_handles_no_other_one_again() {
    block_on(async {
        let store = Arc::new(FaultyStore::new(InMemoryStore::new()));
        let dedup = &TieredDedup::builder(Arc::clone(&store)).build().await.unwrap();
        // (Something that the engine does in the background may meet the fault instead.)
        for round in 0..100 {
            let ids = ["a", "b", "c"].map(|id| format!("{id}-{round}"));
            let batch = ids.each_ref().map(|id| &**id);
            let (mut effects, mut failed) = (Vec::new(), false);
            store.next(Fault::FailsOne(ErrorKind::Corrupt));
            loop {
                let handle = async |id: &str| -> Result<(), Failure> {
                    effects.push(id.to_string());
                    Ok(())
                };
                if shown::consume(dedup, &batch, handle).await.unwrap().len() == 3 {
                    break;
                }
                // It comes again when the engine has given the claim back.
                failed = true;
                tokio::task::yield_now().await;
            }
            effects.sort_unstable();
            assert_eq!(effects, ids, "each once");
            if failed {
                break;
            }
            assert!(round < 99, "no claim has failed");
        }
        dedup.shutdown(Duration::from_secs(5)).await.unwrap();
    });
}

#[test]
fn a_batch_of_one_owner_is_acknowledged_as_far_as_it_is_done() {
    block_on(async {
        let builder = TieredDedup::builder(InMemoryStore::new()).ownership(Ownership::Exclusive);
        let dedup = &builder.build().await.unwrap();
        dedup.warm().await.unwrap();
        let TieredAttempt::Claimed(elsewhere) = dedup.claim("elsewhere").await.unwrap() else {
            panic!("nobody has it")
        };
        let batch = ["fails", "new", "elsewhere", "new"];
        let handle = async |id: &str| -> Result<(), Failure> { if id == "fails" { Err("no".into()) } else { Ok(()) } };
        assert_eq!(shown::consume(dedup, &batch, handle).await.unwrap(), ["new"]);
        elsewhere.complete().await.unwrap();
        assert_eq!(shown::consume(dedup, &batch, handle).await.unwrap(), ["new", "elsewhere", "new"]);
        assert_eq!(shown::consume(dedup, &["fails"], async |_| Ok(())).await.unwrap(), ["fails"]);
        dedup.shutdown(Duration::from_secs(5)).await.unwrap();
    });
}
