//! Workers that share messages with others, and connections with their program.

use crate::*;

/// A handler that ends a message when enough of them have been begun, here and elsewhere.
struct Slow {
    /// The number of messages that were begun, and the number that are waited for.
    begun: Arc<(AtomicU64, u64)>,
    handled: AtomicU64,
    at_work: AtomicU64,
    most: AtomicU64,
}

impl Handler for Slow {
    async fn handle(&self, _: &mut tokio_postgres::Transaction<'_>, _: &Message) -> Result<(), BoxError> {
        self.most.fetch_max(1 + self.at_work.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        self.begun.0.fetch_add(1, Ordering::Relaxed);
        while self.begun.0.load(Ordering::Relaxed) < self.begun.1 {
            tokio::time::sleep(ms(5)).await;
        }
        self.at_work.fetch_sub(1, Ordering::Relaxed);
        self.handled.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl Slow {
    fn new(begun: &Arc<(AtomicU64, u64)>) -> Arc<Slow> {
        let [handled, at_work, most] = [0; 3].map(AtomicU64::new);
        Arc::new(Slow { begun: Arc::clone(begun), handled, at_work, most })
    }

    fn numbers(&self) -> (u64, u64) {
        (self.handled.load(Ordering::Relaxed), self.most.load(Ordering::Relaxed))
    }
}

/// Checks that a worker claims only what it can begin at once, so that the other one has its half.
#[test]
fn two_workers_share_the_keys_that_there_are() {
    Place::run(async |place| {
        let mut client = place.client().await;
        for key in 0..16 {
            let key = format!("{key}");
            let _ = place.receive(&mut client, "c", NewMessage::new(&key, "").key(&key)).await;
        }
        // None ends before all are at work, so that the one that begins first cannot have more.
        let begun = Arc::new((AtomicU64::new(0), 16));
        let (a, b) = (Slow::new(&begun), Slow::new(&begun));
        let (workers, stop) = ((place.worker("c"), place.worker("c")), tokio::sync::watch::channel(false));
        let stopped = || {
            let mut stopped = stop.1.clone();
            async move { drop(stopped.wait_for(|stop| *stop).await) }
        };
        let ends = async {
            until("all is handled", async || a.numbers().0 + b.numbers().0 == 16).await;
            stop.0.send(true).unwrap();
        };
        let runs = (workers.0.run(Arc::clone(&a), stopped()), workers.1.run(Arc::clone(&b), stopped()));
        let (of_a, of_b, ()) = tokio::join!(runs.0, runs.1, ends);
        of_a.and(of_b).unwrap();
        assert_eq!((a.numbers(), b.numbers()), ((8, 8), (8, 8)), "all at once");
    });
}

/// Checks that the program's own pool is the limit, and is not waited for: one connection is for
/// claims.
#[test]
fn a_pool_of_the_programs_is_used_as_far_as_it_goes() {
    Place::run(async |place| {
        let mut client = place.client().await;
        for id in ["1", "2", "3"] {
            let _ = place.receive(&mut client, "c", NewMessage::new(id, "")).await;
        }
        let pool = |connections| {
            let config: tokio_postgres::Config = place.server.address().parse().unwrap();
            let pool = deadpool_postgres::Pool::builder(deadpool_postgres::Manager::new(config, NoTls));
            pool.max_size(connections).build().unwrap()
        };
        let worker = |connections| Worker::new(pool(connections), place.tables.clone(), "c").unwrap();
        let slow = Slow::new(&Arc::new((AtomicU64::new(0), 2)));
        assert_eq!(worker(3).step(&slow).await.unwrap(), 2);
        let stop = until("the third is handled", async || slow.numbers().0 == 3);
        worker(3).poll(ms(20)).unwrap().run(Arc::clone(&slow), stop).await.unwrap();
        assert_eq!(slow.numbers(), (3, 2));
        let error = worker(1).step(&slow).await.unwrap_err();
        assert!(error.to_string().contains("at least two connections"), "{error}");
    });
}
