//! Segments that are still in the store when the new owner answers: over a store that fails, hangs,
//! is gone, or has other bytes; and handed over again before they came.

use crate::faults::{Faulty, Reads, STEPS_MAX, flip, hands_over_at_random, paths, seed};
use crate::long::{clock, try_open};
use crate::{Temporary, options, take};
use hapax::seam::random::Random;
use hapax::{LongMemoryStats, ManualClock, SegmentError, Tier, Verdict};
use hapax_handover::object_store::ObjectStore;
use hapax_handover::{Handover, HandoverError, HandoverOptions, Owned};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Nothing that goes on takes this long, on no machine.
const HANGS: Duration = Duration::from_secs(60);

/// An owner that knows 4,000 ids, most of them by segments, has published them, and is gone.
struct World {
    store: Arc<Faulty>,
    handover: Handover,
    clock: ManualClock,
    directory: Temporary,
}

fn with_large_parts() -> HandoverOptions {
    let options = options().part_bytes(1 << 20).attempts(3).request_timeout(Duration::from_millis(500));
    options.read_timeout(Duration::from_millis(400))
}

impl World {
    async fn new() -> Self {
        World::with(with_large_parts()).await
    }

    /// Of owners that wait for whatever comes: on a busy machine a page does not come in time.
    async fn patient() -> Self {
        World::with(with_large_parts().request_timeout(10 * HANGS).read_timeout(10 * HANGS)).await
    }

    async fn with(options: HandoverOptions) -> Self {
        let (store, directory, clock) = (Faulty::well(), Temporary::new(), clock());
        let of_store = Arc::clone(&store) as Arc<dyn ObjectStore>;
        let world = World { handover: Handover::new(of_store, "hapax", options).unwrap(), store, clock, directory };
        let owned = world.acquire("a").await;
        world.take_more(&owned, 0, 8).await;
        world
    }

    async fn acquire(&self, node: &str) -> Owned {
        let acquired = self.handover.acquire("3", &self.directory.0.join(node)).await.unwrap();
        try_open(acquired, &self.clock).await.unwrap()
    }

    /// Accepts and publishes new ids, 500 every 40 seconds. Returns the next one.
    async fn take_more(&self, owned: &Owned, mut next: u64, times: u64) -> u64 {
        for _ in 0..times {
            assert_eq!(take(owned, next..next + 500), 500);
            owned.publish().await.unwrap();
            next += 500;
            self.clock.advance(Duration::from_secs(40));
        }
        next
    }
}

fn long(owned: &Owned) -> LongMemoryStats {
    owned.engine().unwrap().stats().long_memory.unwrap()
}

fn check(owned: &Owned, id: u64) -> Verdict {
    owned.engine().unwrap().check(id.to_le_bytes())
}

/// Waits for other threads, whatever the runtime's clock says. The limit only ends a test that
/// would hang.
async fn until(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < HANGS, "it does not come");
        std::thread::sleep(Duration::from_millis(1));
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_many_owners_hands_over_what_it_has_read_in_the_store_alone() {
    let world = World::patient().await;
    let mut before: Option<Owned> = None;
    let mut next = 4_000;
    for turn in 0..5 {
        world.store.reads(Reads::NoFiles);
        let owned = world.acquire(&format!("{turn}")).await;
        if let Some(before) = before.take() {
            let error = before.publish().await.unwrap_err();
            assert!(matches!(error, HandoverError::Fenced { .. }), "{error}");
        }
        let here = long(&owned).segments;
        assert!(here.remote > 0 && here.remote <= here.segments, "{here:?}");
        assert_eq!(take(&owned, 0..next), 0, "in turn {turn}");
        next = world.take_more(&owned, next, 3).await;
        let stats = long(&owned);
        assert!(stats.in_doubt == 0 && stats.segments.remote > 0, "{stats:?}");
        until(|| long(&owned).not_brought.is_some()).await;
        before = Some(owned);
    }
    // It comes, and then nobody needs the store.
    world.store.reads(Reads::Well);
    let owned = world.acquire("last").await;
    owned.segments_are_here().await.unwrap();
    world.store.reads(Reads::Gone);
    assert_eq!(take(&owned, 0..next), 0);
    let stats = long(&owned);
    assert!(stats.in_doubt == 0 && stats.not_brought.is_none(), "{stats:?}");
}

#[tokio::test]
async fn while_the_store_is_gone_ids_that_may_be_known_are_in_doubt_and_no_others() {
    for reads in [Reads::Gone, Reads::Hang] {
        let world = World::new().await;
        world.store.reads(Reads::NoFiles);
        let owned = world.acquire("b").await;
        until(|| long(&owned).segments.filters_missing == 0).await;
        world.store.reads(reads);
        let began = Instant::now();
        let fresh = (100_000..100_200).map(|id| check(&owned, id));
        let certain = fresh.filter(|verdict| verdict.is_fresh() && verdict.is_certain()).count();
        assert!(certain > 180, "filters know {certain} of 200");
        for id in 0..50 {
            let verdict = check(&owned, id);
            assert!(verdict.is_fresh() && !verdict.is_certain(), "{id}: {verdict:?}");
        }
        assert!(long(&owned).in_doubt >= 50);
        // Nobody waits for it again and again: after three requests for a page it is left alone for
        // a second, however long these checks take here. (An answer from before that was on its way
        // ends such a rest, once.)
        let (asked, rests) = (world.store.in_vain.load(Ordering::Relaxed), began.elapsed().as_secs() as usize);
        assert!((1..=3 * (rests + 2)).contains(&asked), "asked {asked} times in {rests} s");
        world.store.reads(Reads::Well);
        owned.segments_are_here().await.unwrap();
        assert_eq!(check(&owned, 77).tier(), Tier::Segments);
    }
}

#[tokio::test]
async fn bytes_that_are_not_those_of_a_segment_are_never_an_answer() {
    let world = World::new().await;
    world.store.reads(Reads::NoFiles);
    let owned = world.acquire("b").await;
    until(|| long(&owned).segments.filters_missing == 0).await;
    let is_object = |path: &hapax_handover::object_store::path::Path| path.as_ref().contains("/objects/");
    let objects: Vec<_> = paths(&world.store.inner).await.into_iter().filter(is_object).collect();
    for object in &objects {
        flip(&world.store.inner, object).await; // in the first page
    }
    world.store.reads(Reads::Well);
    until(|| matches!(long(&owned).not_brought, Some(SegmentError::Damaged { .. }))).await;
    let mut doubtful = 0;
    for id in 0..200 {
        let verdict = check(&owned, id);
        let is_guess = verdict.is_fresh() && !verdict.is_certain();
        assert!(verdict.is_duplicate() || is_guess, "{id}: {verdict:?}");
        doubtful += u64::from(is_guess);
    }
    assert!(doubtful > 0 && long(&owned).in_doubt == doubtful && long(&owned).segments.remote > 0);
    for object in &objects {
        flip(&world.store.inner, object).await;
    }
    owned.segments_are_here().await.unwrap();
    assert_eq!(take(&owned, 1_000..3_000), 0);
}

#[tokio::test]
async fn a_segment_whose_end_cannot_be_read_is_refused_and_nothing_is_lost() {
    let world = World::new().await;
    let acquired = world.handover.acquire("3", &world.directory.0.join("b")).await.unwrap();
    world.store.reads(Reads::Gone);
    let error = try_open(acquired, &world.clock).await.unwrap_err();
    assert!(matches!(error, HandoverError::Engine(_)), "{error}");
    world.store.reads(Reads::Well);
    assert_eq!(take(&world.acquire("b").await, 0..4_000), 0);
}

#[tokio::test]
async fn an_owner_that_goes_waits_for_nothing() {
    // Who waited would do so for ten times as long as the limit.
    let world = World::patient().await;
    world.store.reads(Reads::NoFiles);
    let owned = world.acquire("b").await;
    world.store.reads(Reads::Hang);
    let began = Instant::now();
    drop(owned);
    assert!(began.elapsed() < HANGS, "{:?}", began.elapsed());
}

/// Lets the time of a paused runtime go on, in which a blocking call is under way: that stops it.
/// (No faster than real time, so that what is done beside it does not look slow.)
async fn while_time_passes<T>(work: impl Future<Output = T>) -> T {
    let passing = async {
        loop {
            tokio::time::advance(Duration::from_millis(1)).await;
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    tokio::select! {
        done = work => done,
        () = passing => unreachable!("it never ends"),
    }
}

/// However an owner hears that it is fenced, in a publication or by the renewal of its lease, whose
/// time is the runtime's.
#[tokio::test(start_paused = true)]
async fn an_owner_that_hears_that_it_is_fenced_tells_who_waits_for_that_and_waits_for_no_segment() {
    let lease = Duration::from_secs(600);
    for publishes in [true, false] {
        // Who waited for a segment would do so for ten times as long as the limit.
        let world = World::with(with_large_parts().lease(lease).read_timeout(10 * HANGS)).await;
        world.store.reads(Reads::NoFiles);
        let owned = world.acquire("b").await;
        until(|| long(&owned).segments.filters_missing == 0).await;
        let engine = owned.engine().unwrap().clone();
        world.store.reads(Reads::Hang);
        let check = tokio::task::spawn_blocking(move || engine.check(0_u64.to_le_bytes()));
        until(|| world.store.in_vain.load(Ordering::Relaxed) > 0).await;
        assert!(!check.is_finished(), "it waits for a page");
        let began = Instant::now();
        world.store.reads(Reads::NoFiles);
        let directory = world.directory.0.join("c");
        let _next = while_time_passes(world.handover.acquire("3", &directory)).await.unwrap();
        let hears = async {
            if publishes {
                let error = owned.publish().await.unwrap_err();
                assert!(matches!(error, HandoverError::Fenced { epoch: 2, by: 3, .. }), "{error}");
            } else {
                tokio::time::advance(lease).await;
            }
        };
        let all = async { tokio::join!(owned.fenced(), hears, check) };
        let (error, (), verdict) = while_time_passes(all).await;
        assert!(matches!(error, HandoverError::Fenced { epoch: 2, by: 3, .. }), "{error}");
        assert!(!verdict.unwrap().is_certain());
        assert!(began.elapsed() < HANGS, "{publishes}: it waits");
    }
}

/// Real engines, handed over while the store fails one request in three, and owners are dropped in
/// the middle of a publication, or before their segments are here.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_fresh_again_in_a_long_memory_over_a_store_with_faults() {
    let (seed, clock, remote) = (seed(), clock(), Cell::new(0));
    let options = options().attempts(20).read_timeout(HANGS).part_bytes(8 << 10);
    let handover = Handover::new(Faulty::new(seed + 1), "hapax", options).unwrap();
    let open = async |acquired| {
        let owned = try_open(acquired, &clock).await.unwrap();
        remote.set(remote.get() + long(&owned).segments.remote);
        owned
    };
    let after = |owned: &Owned, random: &mut Random| {
        clock.advance(Duration::from_secs(random.below(60)));
        assert_eq!(long(owned).in_doubt, 0);
    };
    let committed = hands_over_at_random((handover, seed, STEPS_MAX), open, after).await;
    assert!(committed > 200 && remote.get() > 10, "{committed}, {remote:?}");
}
