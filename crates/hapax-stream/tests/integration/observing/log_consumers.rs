//! The metrics of a consumer of a log: its engine's memory.

use super::metrics::{Emitted, emitted, recorded, sum};
use super::*;
use hapax::{JournalOptions, LongMemory};
use hapax_stream::{Acks, Delivery, LogConsumer, Source};
use testkit::directory::Directory;

/// A log without messages.
pub struct Silent;

impl Source for Silent {
    type Message = String;
    type Error = std::convert::Infallible;

    async fn receive(&self, _: usize) -> Result<Option<Vec<String>>, Self::Error> {
        std::future::pending().await
    }

    fn acks(&self) -> Acks {
        Acks::Cumulative
    }

    async fn acknowledge(&self, _: &[Arc<String>]) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn retry(&self, _: &Arc<String>, _: Duration) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn dead_letter(&self, _: &Arc<String>, _: &str) -> Result<(), Self::Error> {
        Ok(())
    }
}

fn builder(directory: &Directory) -> hapax::Builder {
    let journal = JournalOptions::new().checkpoints(true);
    hapax::Dedup::builder().capacity(1).window(WINDOW).journal(directory.path().join("journal"), journal)
}

/// Opens an engine with a long memory in a directory.
pub fn long_memory(directory: &Directory) -> hapax::Dedup {
    let segments = directory.path().join("segments");
    builder(directory).long_memory(segments, LongMemory::new(10 * WINDOW)).build().unwrap()
}

pub fn log_consumer(engine: hapax::Dedup) -> LogConsumer<String> {
    LogConsumer::builder("log", engine, |message: &String| Some(message.clone())).build().unwrap()
}

#[test]
fn a_log_consumer_shows_its_long_memory_and_its_doubts() {
    recorded(async |_, snapshotter| {
        let directory = Directory::new("long-memory");
        let began = hapax::Timestamp::from_secs(1_700_000_000);
        let first = long_memory(&directory);
        (0..1_000_u32).for_each(|id| assert!(first.check_at(id.to_le_bytes(), began).is_fresh()));
        first.journal().unwrap().checkpoint([("orders/1", [1])]).unwrap();
        first.journal().unwrap().flush().unwrap();
        drop(first);
        // What the journal has is sealed when it is opened.
        let engine = long_memory(&directory);
        let log = log_consumer(engine.clone());
        let run = |seconds| {
            let until = tokio::time::sleep(Duration::from_secs(seconds));
            log.run(&Silent, |_: Delivery<String>| async { Ok::<_, String>(()) }, until)
        };
        run(1).await.unwrap();
        let of = |emitted: &Emitted, name| sum(emitted, name, &[("policy", "log")]);
        let shown = emitted(snapshotter);
        let stats = engine.stats();
        let segments = stats.long_memory.clone().unwrap().segments;
        assert_eq!((segments.ids, segments.segments), (1_000, 1));
        assert_eq!(of(&shown, "hapax_long_memory_ids"), 1_000.0);
        assert_eq!(of(&shown, "hapax_long_memory_segments"), 1.0);
        assert_eq!(of(&shown, "hapax_long_memory_disk_bytes"), segments.disk_bytes as f64);
        assert_eq!(of(&shown, "hapax_long_memory_bytes"), segments.memory_bytes as f64);
        assert_eq!(of(&shown, "hapax_long_memory_written_records_total"), 1_000.0);
        assert_eq!(of(&shown, "hapax_memory_bytes"), stats.bytes as f64);
        assert_eq!(of(&shown, "hapax_long_memory_failing"), 0.0);

        // Its pages are gone: what it may have seen is in doubt, and that is counted.
        for file in std::fs::read_dir(directory.path().join("segments")).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "segment") {
                std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(0).unwrap();
            }
        }
        let later = began + 3 * WINDOW;
        (0..10_u32).for_each(|id| assert!(engine.check_at(id.to_le_bytes(), later).is_fresh()));
        run(16).await.unwrap();
        assert_eq!(of(&emitted(snapshotter), "hapax_long_memory_in_doubt_total"), 10.0);
    });
}

/// A window that is too large for a task is read by a thread, which must not outlive the run: it
/// keeps the engine, and so the lock of its journal.
#[test]
fn a_run_that_has_ended_leaves_no_thread_that_keeps_the_journal_locked() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let directory = Directory::new("at-rest");
    for round in 0..5 {
        let engine = builder(&directory).capacity(2_000_000).build();
        let log = log_consumer(engine.unwrap_or_else(|error| panic!("round {round}: {error}")));
        let soon = async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
        };
        let handle = |_: Delivery<String>| async { Ok::<_, String>(()) };
        runtime.block_on(log.run(&Silent, handle, soon)).unwrap();
    }
}
