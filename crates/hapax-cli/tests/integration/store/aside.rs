//! Ids that a consumer has put aside.

use super::{Directory, printed, wait};
use hapax_sqlite::SqliteStore;
use hapax_store::TieredDedup;
use hapax_stream::{Consumer, Delivery, Source};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A broker that delivers some ids once, each as what it was sent for the first time.
struct Broker(Mutex<Vec<&'static str>>);

impl Source for Broker {
    type Message = &'static str;
    type Error = Infallible;

    async fn receive(&self, max: usize) -> Result<Option<Vec<&'static str>>, Infallible> {
        let mut left = self.0.lock().unwrap();
        let first = left.len().saturating_sub(max);
        Ok(Some(left.split_off(first)).filter(|batch| !batch.is_empty()))
    }

    async fn acknowledge(&self, _: &[Arc<&'static str>]) -> Result<(), Infallible> {
        Ok(())
    }

    async fn retry(&self, id: &Arc<&'static str>, _: Duration) -> Result<(), Infallible> {
        self.0.lock().unwrap().push(**id);
        Ok(())
    }

    async fn dead_letter(&self, _: &Arc<&'static str>, _: &str) -> Result<(), Infallible> {
        Ok(())
    }

    fn deliveries(&self, _: &&'static str) -> Option<u32> {
        Some(1)
    }
}

#[test]
fn what_was_put_aside_is_not_done_and_is_redriven_once() {
    let made = Directory::new("store-aside");
    let file = made.0.join("ids.db");
    wait(async {
        let engine = TieredDedup::builder(SqliteStore::open(&file).await.unwrap()).build().await.unwrap();
        let consumer = Consumer::builder("orders", engine, |id: &&'static str| Some(*id)).max_attempts(1);
        let handle = |id: Delivery<&'static str>| async move { if *id == "poison" { Err("no") } else { Ok(()) } };
        let broker = Broker(Mutex::new(vec!["done", "poison"]));
        let stats = consumer.build().unwrap().run(&broker, handle, std::future::pending()).await.unwrap();
        assert_eq!((stats.handled, stats.dead_lettered), (1, 1), "{stats:?}");
    });
    let place = file.to_str().unwrap();
    let run = |command: &str, id: &str| printed(&[command, place, "--scope", "orders", id]);
    let shown = run("get", "poison");
    assert!(shown.contains("it was put aside, and is handled when it is sent anew"), "{shown}");
    assert!(!shown.contains("done") && !shown.contains("duplicate"), "{shown}");
    let shown = printed(&["get", place, "--json", "--scope", "orders", "poison"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["put_aside"], &shown["attempts"]), (&true.into(), &1.into()), "{shown}");
    assert_ne!(shown["state"], "completed", "{shown}");

    assert_eq!(run("redrive", "poison"), "redriven   orders/poison\n");
    assert_eq!(run("redrive", "poison"), "not aside  orders/poison\n");
    assert!(!run("get", "poison").contains("aside"));
    assert_eq!(run("redrive", "done"), "not aside  orders/done\n");
    assert!(run("get", "done").contains("with its work done"), "it stays done");
}
