//! Stores of several nodes, of which one hangs: its keys wait and fail, and no others do.

use super::*;
use hapax::ManualClock;
use hapax_store::{BreakerState, Ownership, *};
use hapax_testing::store::{Fault, FaultyStore};
use tokio::task::JoinSet;
use tokio::time::Instant;

const NODES: usize = 3;
const DELAY: Duration = Duration::from_millis(10);
const TIMEOUT: Duration = Duration::from_secs(1);

/// Three stores in memory, one node each. A call that mixes their keys is a defect of the engine.
struct Cluster {
    nodes: [FaultyStore<InMemoryStore>; NODES],
    is_private: bool,
}

fn node_of(key: &RecordKey) -> usize {
    // Of an id that is a number: itself.
    let digits = key.id.as_bytes().iter().filter(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| (number * 10 + usize::from(digit - b'0')) % NODES)
}

impl Cluster {
    fn new() -> Arc<Self> {
        Self::private(false)
    }

    fn private(is_private: bool) -> Arc<Self> {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1_000_000));
        let node = |_| FaultyStore::new(InMemoryStore::with_clock(clock.clone()));
        Arc::new(Cluster { nodes: [0, 1, 2].map(node), is_private })
    }

    fn hang(&self, node: usize) {
        self.nodes[node].always(Fault::Hangs);
    }

    fn node<'k>(&self, mut keys: impl Iterator<Item = &'k RecordKey>) -> &FaultyStore<InMemoryStore> {
        let node = keys.next().map_or(0, node_of);
        assert!(keys.all(|key| node_of(key) == node), "keys of several nodes in one call");
        &self.nodes[node]
    }
}

forward! {
    Cluster,
    |cluster, keys, _call| cluster.node(keys),
    fn backend(&self) -> &'static str {
        "cluster"
    }

    fn is_private(&self) -> bool {
        self.is_private
    }

    fn node_of(&self, key: &RecordKey) -> u32 {
        node_of(key) as u32
    }
}

type Clustered = TieredDedup<Arc<Cluster>>;

fn builder(cluster: &Arc<Cluster>) -> TieredBuilder<Arc<Cluster>> {
    TieredDedup::builder(Arc::clone(cluster)).capacity(10_000).expiry(None).timeout(TIMEOUT).retries(0)
}

/// Checks a number. Returns whether it was answered, and in what time.
async fn check(engine: &Clustered, number: usize) -> (bool, Duration) {
    let begun = Instant::now();
    let checked = engine.check(number.to_string()).await;
    if let Err(error) = &checked {
        assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unavailable), "{error}");
    }
    (checked.is_ok(), begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_node_that_hangs_fails_its_own_keys_only_and_delays_no_others() {
    let cluster = Cluster::new();
    let engine = builder(&cluster).build().await.unwrap();
    cluster.nodes.iter().for_each(|node| node.always(Fault::Delays(DELAY)));
    cluster.hang(1);
    let mut callers = JoinSet::new();
    for caller in 0..32 {
        let engine = engine.clone();
        callers.spawn(async move {
            let (mut answered, mut failed) = (0, 0);
            for number in (caller..960).step_by(32) {
                let (is_answered, took) = check(&engine, number).await;
                assert_eq!(is_answered, number % NODES != 1, "{number}");
                // A batch that was under way, and its own.
                assert!(!is_answered || took <= 3 * DELAY, "{number} took {took:?}");
                (answered, failed) = (answered + u32::from(is_answered), failed + u32::from(!is_answered));
            }
            (answered, failed)
        });
    }
    let counts = callers.join_all().await;
    let sums = counts.into_iter().fold((0, 0), |sums, counts| (sums.0 + counts.0, sums.1 + counts.1));
    assert_eq!(sums, (640, 320));
    let stats = engine.stats();
    let breakers: Vec<_> = stats.nodes.iter().map(|node| (node.node, node.breaker)).collect();
    assert_eq!(breakers, [(0, BreakerState::Closed), (1, BreakerState::Open), (2, BreakerState::Closed)]);
    assert_eq!(stats.breaker, BreakerState::Open, "the worst");
    // It comes back by itself, and meanwhile it is asked nothing that others wait for.
    cluster.nodes[1].always(Fault::None);
    tokio::time::advance(2 * TIMEOUT).await;
    for number in (1..960).step_by(NODES) {
        assert!(engine.check(number.to_string()).await.unwrap().is_fresh());
    }
    assert_eq!(engine.stats().breaker, BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn batches_have_errors_for_the_keys_of_the_node_that_hangs() {
    let cluster = Cluster::new();
    // More than a node takes at a time, or has room for.
    for max_waiting in [65_536, 50] {
        let engine = builder(&cluster).max_waiting(max_waiting).scope(max_waiting.to_string()).build().await.unwrap();
        cluster.hang(2);
        let verdicts = engine.check_batch((0..3_000).map(|number| number.to_string())).await;
        for (number, verdict) in verdicts.iter().enumerate() {
            assert_eq!(verdict.as_ref().is_ok_and(|verdict| verdict.is_fresh()), number % NODES != 2, "{number}");
        }
        let claims = engine.claim_batch((3_000..3_030).map(|number| number.to_string())).await;
        let claims: Vec<_> = claims.into_iter().filter_map(Result::ok).filter_map(|it| it.claimed()).collect();
        assert_eq!(claims.len(), 20);
        assert!(engine.complete_batch(claims).await.into_iter().all(|ended| ended.is_ok()));
        cluster.nodes[2].always(Fault::None);
        tokio::time::advance(2 * TIMEOUT).await;
        let verdicts = engine.check_batch((0..3_000).map(|number| number.to_string())).await;
        let fresh = verdicts.into_iter().filter(|verdict| verdict.as_ref().unwrap().is_fresh()).count();
        assert_eq!(fresh, 1_000, "those that nobody was told of");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_waits_for_one_node_keeps_nobody_from_the_others() {
    let cluster = Cluster::new();
    let engine = builder(&cluster).max_waiting(3).build().await.unwrap();
    cluster.nodes.iter().for_each(|node| node.always(Fault::Delays(DELAY)));
    cluster.hang(1);
    let batch = tokio::spawn({
        let engine = engine.clone();
        // There is no room at the second node for most of it; the last is of the third one.
        async move { engine.check_batch((1..30).step_by(3).chain([32]).map(|number| number.to_string())).await }
    });
    tokio::task::yield_now().await;
    let (is_answered, took) = check(&engine, 32).await;
    assert!(is_answered && took <= 2 * DELAY, "{took:?}");
    assert!(batch.await.unwrap().pop().unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_engine_is_built_while_a_node_hangs() {
    for hung in 0..NODES {
        let cluster = Cluster::new();
        cluster.hang(hung);
        let engine = builder(&cluster).build().await.unwrap();
        for number in (0..NODES).filter(|number| *number != hung) {
            assert!(engine.check(number.to_string()).await.unwrap().is_fresh());
        }
        cluster.nodes[hung].always(Fault::None);
        tokio::time::sleep(5 * TIMEOUT).await;
        assert!(engine.check(hung.to_string()).await.unwrap().is_fresh());
    }
    // If no node answers, there is no store.
    let cluster = Cluster::new();
    (0..NODES).for_each(|node| cluster.hang(node));
    assert_eq!(builder(&cluster).build().await.unwrap_err().kind(), ErrorKind::Timeout);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_could_not_ask_for_the_owner_asks_again() {
    let cluster = Cluster::new();
    let owner = builder(&cluster).ownership(Ownership::Exclusive).build().await.unwrap();
    assert!(owner.check("0").await.unwrap().is_fresh());
    // (The owner's record has no digits, so it is the first node's.)
    cluster.hang(0);
    let engine = builder(&cluster).build().await.unwrap();
    assert!(engine.check("1").await.is_ok());
    cluster.nodes[0].always(Fault::None);
    tokio::time::sleep(5 * TIMEOUT).await;
    assert_eq!(engine.check("2").await.unwrap_err().kind(), ErrorKind::Conflict);
    assert!(owner.check("4").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_is_written_behind_waits_for_its_own_node() {
    let cluster = Cluster::private(true);
    let exclusive = || builder(&cluster).ownership(Ownership::Exclusive);
    let engine = exclusive().history(HISTORY).build().await.unwrap();
    engine.warm().await.unwrap();
    cluster.hang(1);
    // There are more than are written at a time, so that those of the node that hangs would come
    // first again.
    let verdicts = engine.check_batch((0..9_000).map(|number| number.to_string())).await;
    assert!(verdicts.into_iter().all(|verdict| verdict.unwrap().is_fresh()));
    tokio::time::sleep(DELAY).await;
    let behind: Vec<_> = engine.stats().nodes.iter().map(|node| node.behind).collect();
    assert_eq!(behind, [0, 3_000, 0]);
    assert_eq!(engine.flush().await.unwrap_err().kind(), ErrorKind::Timeout);
    // A check that has to ask, and so to write first, waits for the node of its key.
    let other = exclusive().build().await.unwrap();
    for number in [9_001, 9_002, 9_003, 9_004] {
        assert!(other.check(number.to_string()).await.is_ok() == (number % NODES != 1), "{number}");
    }
    let verdicts = other.check_batch((0..30).map(|number| number.to_string())).await;
    for (number, verdict) in verdicts.into_iter().enumerate() {
        assert_eq!(verdict.is_ok_and(|verdict| verdict.is_duplicate()), number % NODES != 1, "{number}");
    }
    cluster.nodes[1].always(Fault::None);
    tokio::time::sleep(5 * TIMEOUT).await;
    engine.flush().await.unwrap();
    assert_eq!(engine.stats().behind, 0);
    engine.shutdown(TIMEOUT).await.unwrap();
}
