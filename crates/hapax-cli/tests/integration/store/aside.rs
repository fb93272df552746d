//! Ids that a consumer has put aside.

use super::{Directory, hapax, printed, wait};
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
    assert!(shown.contains("aside: not done; it was put aside, and is handled when it is sent anew"), "{shown}");
    assert!(!shown.contains("work done") && !shown.contains("duplicate"), "{shown}");
    // In lists and counts, too, and not as a record of hapax's own.
    let listed = printed(&["list", place, "--state", "aside"]);
    assert!(listed.starts_with("aside ") && listed.ends_with("  poison (scope orders)\n"), "{listed}");
    let stats = printed(&["stats", place]);
    assert!(stats.contains("aside               1  orders\ncompleted           1  orders\n"), "{stats}");
    let refused = hapax(&["forget", place, "--state", "aside", "--yes"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let shown = printed(&["get", place, "--format=json", "--scope", "orders", "poison"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["put_aside"], &shown["attempts"]), (&true.into(), &1.into()), "{shown}");
    assert_eq!(shown["state"], "aside", "{shown}");

    assert_eq!(run("redrive", "poison"), "redriven   poison (scope orders)\n");
    assert_eq!(run("redrive", "poison"), "not aside  poison (scope orders)\n");
    assert!(!run("get", "poison").contains("aside"));
    assert_eq!(run("redrive", "done"), "not aside  done (scope orders)\n");
    assert!(run("get", "done").contains("with its work done"), "it stays done");
}
