//! Every metric that is documented is emitted, with these labels, and no other.

use super::log_consumers::{Silent, log_consumer, long_memory};
use super::*;
use ::metrics::{SharedString, Unit};
use hapax_store::{
    EngineMetrics, ErrorKind, HistoryOptions, OnStoreError, Ownership, Policy, TieredAttempt, TieredClaimOptions,
};
use hapax_stream::{Consumer, Delivery};
use hapax_testing::store::Fault;
use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use std::collections::{BTreeMap, BTreeSet};
use testkit::directory::Directory;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Documented {
    pub kind: Kind,
    pub unit: String,
    pub labels: BTreeSet<String>,
}

/// Returns the tables of `docs/metrics.md`.
pub fn documented() -> BTreeMap<String, Documented> {
    let in_quotes = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let rows = include_str!("../../../../../docs/metrics.md").lines().filter(|line| line.starts_with("| `hapax_"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let kind = match cells[2] {
            "counter" => Kind::Counter,
            "gauge" => Kind::Gauge,
            "histogram" => Kind::Histogram,
            other => panic!("{other} in {row}"),
        };
        let labels = in_quotes(cells[4]).into_iter().collect();
        (in_quotes(cells[1]).remove(0), Documented { kind, unit: cells[3].to_owned(), labels })
    })
    .collect()
}

/// Emitted metrics, by name and labels; with their description, if there was one.
pub type Emitted = BTreeMap<(String, Vec<(String, String)>), (Kind, f64, Option<(Unit, SharedString)>)>;

pub fn emitted(snapshotter: &Snapshotter) -> Emitted {
    let (mut all, snapshot) = (Emitted::new(), snapshotter.snapshot());
    for (key, unit, what, value) in snapshot.into_vec() {
        let (kind, key) = key.into_parts();
        let kind = match kind {
            MetricKind::Counter => Kind::Counter,
            MetricKind::Gauge => Kind::Gauge,
            MetricKind::Histogram => Kind::Histogram,
        };
        let value = match value {
            DebugValue::Counter(n) => n as f64,
            DebugValue::Gauge(value) => value.into_inner(),
            DebugValue::Histogram(values) => values.len() as f64,
        };
        let labels = key.labels().map(|label| (label.key().to_owned(), label.value().to_owned())).collect();
        let before = all.insert((key.name().to_owned(), labels), (kind, value, unit.zip(what)));
        assert!(before.is_none(), "{key} twice");
    }
    all
}

/// Returns the sum over all series of a metric with these labels.
pub fn sum(emitted: &Emitted, name: &str, labels: &[(&str, &str)]) -> f64 {
    let has =
        |of: &[(String, String)]| labels.iter().all(|(k, v)| of.iter().any(|(key, value)| key == k && value == v));
    emitted.iter().filter(|((of, with), _)| of == name && has(with)).map(|(_, (_, value, _))| value).sum()
}

/// Runs work with a recorder of its own.
pub fn recorded(work: impl AsyncFnOnce(&World, &Snapshotter)) {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    ::metrics::with_local_recorder(&recorder, || run(async { work(&World::new(), &snapshotter).await }));
}

#[test]
fn what_is_emitted_is_documented_and_the_other_way_round() {
    recorded(async |world, snapshotter| {
        let engine = engine(world)
            .ownership(Ownership::Exclusive)
            .history(HistoryOptions { ids: 10_000, false_positive_rate: 1e-3 });
        let engine = engine.policy("short", Policy::new().window(WINDOW / 2)).build().await.unwrap();
        let _ = engine.check("a").await.unwrap();
        let consumer = Consumer::builder("orders", engine.clone(), |message: &String| Some(message.clone())).build();
        let directory = Directory::new("emitted");
        let log = log_consumer(long_memory(&directory));
        let sampled = tokio::time::sleep(Duration::from_secs(20));
        log.run(&Silent, |_: Delivery<String>| async { Ok::<_, String>(()) }, sampled).await.unwrap();
        let (emitted, documented) = (emitted(snapshotter), documented());
        for ((name, labels), (kind, _, described)) in &emitted {
            let documented = documented.get(name).unwrap_or_else(|| panic!("{name} is not documented"));
            let labels: BTreeSet<String> = labels.iter().map(|(label, _)| label.clone()).collect();
            assert_eq!((*kind, &labels), (documented.kind, &documented.labels), "{name}");
            let (unit, _) = described.as_ref().unwrap_or_else(|| panic!("{name} is not described"));
            match documented.unit.as_str() {
                "seconds" => assert_eq!(*unit, Unit::Seconds, "{name}"),
                "bytes" => assert_eq!(*unit, Unit::Bytes, "{name}"),
                _ => assert_eq!(*unit, Unit::Count, "{name}"),
            }
        }
        let names: BTreeSet<&String> = emitted.keys().map(|(name, _)| name).collect();
        // Those of inbox and outbox are seen in crates/hapax-postgres/tests/integration
        // (metered.rs, counting.rs).
        let is_of_queues = |name: &String| {
            ["hapax_queue_", "hapax_relay_", "hapax_once_", "hapax_router_"].iter().any(|of| name.starts_with(of))
        };
        assert_eq!(names, documented.keys().filter(|name| !is_of_queues(name)).collect());

        // Bounded, and all there from the beginning.
        let of = |label: &str, value: &str, histograms: bool| {
            let series =
                emitted.iter().filter(|((_, labels), _)| labels.contains(&(label.to_owned(), value.to_owned())));
            series.filter(|(_, (kind, ..))| (*kind == Kind::Histogram) == histograms).count()
        };
        assert_eq!((of("policy", "*", false), of("policy", "*", true)), (31, 1));
        assert_eq!((of("policy", "short", false), of("policy", "short", true)), (31, 1));
        assert_eq!((of("backend", "in memory", false), of("backend", "in memory", true)), (118, 26));
        assert_eq!((of("consumer", "orders", false), of("consumer", "orders", true)), (28, 1));
        assert_eq!((of("policy", "log", false), of("policy", "log", true)), (28, 0));
        assert_eq!(emitted.len(), 2 * 32 + 144 + 2 * 29 + 28);
        drop(consumer);
    });
}

#[test]
fn verdicts_are_counted_by_policy_and_never_by_scope() {
    recorded(async |world, snapshotter| {
        let engine = engine(world).policy("orders", Policy::new()).build().await.unwrap();
        for scope in ["orders", "a", "b", "c"] {
            let handle = engine.with_scope(scope).unwrap();
            for fresh in [true, false, false] {
                assert_eq!(handle.check("x").await.unwrap().is_fresh(), fresh);
            }
        }
        let held = engine.claim("held").await.unwrap().claimed().unwrap();
        assert!(engine.claim("held").await.unwrap().is_in_progress());
        held.release().await.unwrap();
        let emitted = emitted(snapshotter);
        let verdicts = |labels: &[(&str, &str)]| sum(&emitted, "hapax_verdicts_total", labels);
        assert_eq!(verdicts(&[("policy", "orders")]), 3.0);
        assert_eq!(verdicts(&[("policy", "*"), ("verdict", "fresh"), ("tier", "store")]), 4.0);
        assert_eq!(verdicts(&[("policy", "*"), ("verdict", "duplicate"), ("tier", "window")]), 6.0);
        assert_eq!(verdicts(&[("policy", "*"), ("verdict", "in_progress"), ("tier", "store")]), 1.0);
        assert_eq!(verdicts(&[]), 14.0);
        assert_eq!(engine.stats().decided.fresh, 5);
        let labels = emitted.keys().flat_map(|(_, labels)| labels);
        let policies: BTreeSet<&str> =
            labels.filter(|(label, _)| label == "policy").map(|(_, policy)| policy.as_str()).collect();
        assert_eq!(policies, BTreeSet::from(["*", "orders"]));
        assert_eq!(sum(&emitted, "hapax_store_calls_total", &[("operation", "mark"), ("result", "ok")]), 4.0);
        assert_eq!(sum(&emitted, "hapax_store_batch_ids", &[("operation", "mark")]), 4.0);
        assert_eq!(sum(&emitted, "hapax_store_call_seconds", &[("operation", "claim")]), 2.0);
    });
}

#[test]
fn an_engine_that_stands_alone_shows_what_it_has_decided() {
    recorded(async |_, snapshotter| {
        let engine = hapax::Dedup::builder().capacity(1).build().unwrap();
        let metrics = EngineMetrics::new("alone");
        assert_eq!(["a", "a", "b"].map(|id| engine.check(id).is_fresh()), [true, false, true]);
        let claim = engine.claim("held").claimed().unwrap();
        assert!(engine.claim("held").claimed().is_none() && !engine.check("held").is_fresh());
        claim.complete().unwrap();
        assert!(engine.claim("held").is_duplicate());
        metrics.show(&engine.stats());
        metrics.show(&engine.stats());
        let emitted = emitted(snapshotter);
        let of = |verdict, tier| {
            sum(&emitted, "hapax_verdicts_total", &[("policy", "alone"), ("verdict", verdict), ("tier", tier)])
        };
        assert_eq!([of("fresh", "window"), of("duplicate", "window"), of("in_progress", "claims")], [2.0, 1.0, 2.0]);
        assert_eq!([of("fresh", "claims"), of("duplicate", "claims"), of("refused", "window")], [1.0, 1.0, 0.0]);
        assert_eq!(sum(&emitted, "hapax_verdicts_total", &[]), 7.0);
        assert_eq!(sum(&emitted, "hapax_claim_ends_total", &[("end", "completed")]), 1.0);
        assert_eq!(sum(&emitted, "hapax_claim_ends_total", &[]), 1.0);
    });
}

#[test]
fn claims_are_counted_by_how_they_end() {
    recorded(async |world, snapshotter| {
        let engine = engine(world).build().await.unwrap();
        let claim = async |id: &str| engine.claim(id).await.unwrap().claimed().unwrap();
        claim("completed").await.complete().await.unwrap();
        let together = [claim("together").await, claim("with it").await];
        assert!(engine.complete_batch(together).await.iter().all(Result::is_ok));
        claim("released").await.release().await.unwrap();
        claim("failed").await.fail(WINDOW).await.unwrap();
        drop(claim("dropped").await);
        let mut late = claim("late").await;
        late.renew(Duration::from_secs(5)).await.unwrap();
        world.clock.advance(Duration::from_secs(6));
        assert!(late.renew(Duration::from_secs(5)).await.is_err());
        assert!(late.complete().await.is_err());
        let unknown = claim("unknown").await;
        // A transient error is retried; the outcome is counted once, after the last retry.
        world.store.next(Fault::Fails(ErrorKind::Corrupt));
        let not_completed = unknown.complete().await.unwrap_err();
        world.store.next(Fault::Fails(ErrorKind::Corrupt));
        drop(not_completed.retry().await.unwrap_err());
        let fingerprint = |message: &str| TieredClaimOptions::new().fingerprint(message);
        let _first = engine.claim_with("paid", fingerprint("10")).await.unwrap().claimed().unwrap();
        assert!(matches!(engine.claim_with("paid", fingerprint("99")).await.unwrap(), TieredAttempt::Mismatch));

        let emitted = emitted(snapshotter);
        for (end, n) in
            [("completed", 3.0), ("released", 1.0), ("failed", 1.0), ("dropped", 1.0), ("lost", 1.0), ("unknown", 1.0)]
        {
            assert_eq!(sum(&emitted, "hapax_claim_ends_total", &[("policy", "*"), ("end", end)]), n, "{end}");
        }
        assert_eq!(sum(&emitted, "hapax_claim_held_seconds", &[]), 8.0);
        for (result, n) in [("renewed", 1.0), ("lost", 1.0), ("unknown", 0.0)] {
            assert_eq!(sum(&emitted, "hapax_claim_renewals_total", &[("result", result)]), n, "{result}");
        }
        assert_eq!(sum(&emitted, "hapax_claim_mismatches_total", &[]), 1.0);
        assert_eq!(sum(&emitted, "hapax_claims_refused_total", &[]), 0.0);
    });
}

#[test]
fn what_goes_wrong_is_counted() {
    recorded(async |world, snapshotter| {
        let rest = Duration::from_secs(5);
        let engine = engine(world)
            .retries(1)
            .circuit_breaker(4, rest)
            .policy("*", hapax_store::Policy::new().on_store_error(OnStoreError::Admit));
        let engine = engine.policy("shadow", Policy::new().shadow(true)).build().await.unwrap();
        let shadow = engine.with_scope("shadow").unwrap();
        assert!(shadow.check("a").await.unwrap().is_fresh() && shadow.check("a").await.unwrap().is_fresh());
        world.store.next(Fault::FailsOne(ErrorKind::Corrupt));
        assert_eq!(engine.check_batch(["x", "y"]).await.iter().filter(|verdict| verdict.is_err()).count(), 1);
        world.store.always(Fault::Fails(ErrorKind::Unavailable));
        for id in ["b", "c", "d"] {
            assert!(engine.check(id).await.unwrap().is_fresh());
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        let emitted_now = emitted(snapshotter);
        assert_eq!(sum(&emitted_now, "hapax_admitted_total", &[("policy", "*")]), 3.0);
        assert_eq!(sum(&emitted_now, "hapax_shadowed_total", &[("policy", "shadow")]), 1.0);
        assert_eq!(sum(&emitted_now, "hapax_store_request_errors_total", &[("kind", "corrupt")]), 1.0);
        assert_eq!(
            sum(&emitted_now, "hapax_store_calls_total", &[("operation", "mark"), ("result", "unavailable")]),
            4.0
        );
        assert_eq!(sum(&emitted_now, "hapax_store_retries_total", &[("operation", "mark")]), 3.0);
        assert_eq!(sum(&emitted_now, "hapax_store_refusals_total", &[("operation", "mark")]), 2.0);
        assert_eq!(sum(&emitted_now, "hapax_breaker_opened_total", &[]), 1.0);
        assert_eq!(sum(&emitted_now, "hapax_breaker_state", &[]), 2.0);
        assert_eq!(sum(&emitted_now, "hapax_unresolved_ids", &[]), 3.0);
        world.store.always(Fault::None);
        tokio::time::sleep(rest).await;
        assert!(engine.check("e").await.unwrap().is_fresh());
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(sum(&emitted(snapshotter), "hapax_breaker_state", &[]), 0.0);
    });
}

#[test]
fn gauges_show_what_is_so() {
    recorded(async |world, snapshotter| {
        let second = Duration::from_millis(1_100);
        let engine = engine(world)
            .ownership(Ownership::Exclusive)
            .history(HistoryOptions { ids: 10_000, false_positive_rate: 1e-3 })
            .expiry((3 * second, 100));
        let engine = engine.build().await.unwrap();
        // A snapshot leaves nothing behind, so there is one at a time, after a new sample.
        let after = async |time| {
            tokio::time::sleep(time).await;
            let emitted = emitted(snapshotter);
            move |name: &str| sum(&emitted, name, &[])
        };
        let cold = after(second).await;
        assert_eq!((cold("hapax_warm"), cold("hapax_window_live_ids")), (0.0, 0.0));
        assert!(all_fresh(&engine, "", 500).await);
        engine.flush().await.unwrap();
        engine.warm().await.unwrap();
        let warm = after(15 * second).await;
        assert_eq!((warm("hapax_warm"), warm("hapax_warmed_ids_total")), (1.0, 500.0));
        assert_eq!(warm("hapax_window_live_ids"), 500.0);
        assert_eq!(warm("hapax_memory_bytes"), engine.stats().memory_bytes as f64);
        assert_eq!(warm("hapax_window_effective_seconds"), WINDOW.as_secs_f64());
        assert!(warm("hapax_history_false_positive_ratio") < 1e-3);

        world.store.always(Fault::Hangs);
        assert!(all_fresh(&engine, "later", 100).await);
        let behind = after(second).await;
        assert_eq!((behind("hapax_behind_ids"), behind("hapax_waiting_ids")), (100.0, 0.0));
        world.store.always(Fault::None);
        let settled = after(5 * second).await;
        assert_eq!(settled("hapax_behind_ids"), 0.0);

        world.clock.advance(4 * WINDOW);
        let over = after(20 * second).await;
        assert!(over("hapax_expired_records_total") >= 600.0);
        assert_eq!(over("hapax_window_live_ids"), 0.0);
        assert_eq!(over("hapax_refusing"), 1.0, "the owner's lease was over, too");
    });
}

async fn all_fresh(engine: &TieredDedup<Store>, prefix: &str, ids: usize) -> bool {
    let verdicts = engine.check_batch((0..ids).map(|i| format!("{prefix}{i}"))).await;
    verdicts.into_iter().all(|verdict| verdict.unwrap().is_fresh())
}

#[test]
fn what_the_engine_asks_by_itself_is_counted_apart() {
    recorded(async |world, snapshotter| {
        let engine = engine(world).ownership(Ownership::Exclusive).expiry((WINDOW, 100)).build().await.unwrap();
        engine.warm().await.unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        let emitted = emitted(snapshotter);
        let calls = |operation| sum(&emitted, "hapax_store_calls_total", &[("operation", operation), ("result", "ok")]);
        assert_eq!((calls("own"), calls("scan"), calls("expire")), (3.0, 1.0, 1.0));
        assert_eq!(engine.stats().store_calls, 0, "nobody has asked anything");
    });
}
