//! A consumer with metrics for Prometheus, on loopback. `docs/metrics.md` lists them,
//! `docs/grafana.json` is a dashboard.
//!
//! `cargo run -p hapax-store --features metrics --example metrics` handles a thousand deliveries,
//! prints some metrics, and ends. With `-- --serve 127.0.0.1:9000` it goes on. With
//! `HAPAX_REDIS_URL` it uses Redis.

use hapax_store::{Store, TieredDedup};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use std::net::SocketAddr;
use std::time::Duration;

type Failure = Box<dyn std::error::Error>;

/// Returns a recorder with buckets: without, a histogram is exported as a summary, which cannot be
/// added up over instances.
fn recorder() -> Result<PrometheusBuilder, Failure> {
    let seconds: Vec<f64> = (-14..10).map(|power| f64::powi(2.0, power)).collect(); // 61 us to 512 s
    let ids = [1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0];
    Ok(PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &seconds)?
        .set_buckets_for_metric(Matcher::Suffix("_ids".into()), &ids)?)
}

/// Handles deliveries: every third message comes again, some at once.
async fn consume<S: Store>(dedup: &TieredDedup<S>, first: u64) -> Result<(), Failure> {
    let ids: Vec<String> = (first..first + 900)
        .flat_map(|id| [Some(id), (id % 9 == 0).then_some(id)])
        .flatten()
        .map(|id| format!("m-{id}"))
        .collect();
    for batch in ids.chunks(64) {
        let mut done = Vec::new();
        for attempt in dedup.claim_batch(batch).await {
            // … handle the message, if it is a claim; if that failed, it comes again …
            done.extend(attempt.ok().and_then(|attempt| attempt.claimed()));
        }
        for completed in dedup.complete_batch(done).await {
            completed?;
        }
    }
    for again in ids.iter().step_by(3) {
        assert!(dedup.check(again).await?.is_duplicate());
    }
    Ok(())
}

async fn run<S: Store>(store: S, address: Option<SocketAddr>) -> Result<(), Failure> {
    // It is installed before the engine is built, which asks for its handles then, once.
    if let Some(address) = address {
        recorder()?.with_http_listener(address).install()?;
        println!("metrics are at http://{address}/metrics");
        let dedup = TieredDedup::builder(store).build().await?;
        loop {
            consume(&dedup, begin()).await?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let metrics = recorder()?.install_recorder()?;
    let dedup = TieredDedup::builder(store).capacity(100_000).build().await?;
    consume(&dedup, begin()).await?;
    // The gauges are set by a task, which has run by the end of this.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let shown = metrics.render();
    let interesting =
        ["hapax_verdicts_total", "hapax_claim_ends_total", "hapax_store_calls_total", "hapax_breaker_state"];
    for line in
        shown.lines().filter(|line| interesting.iter().any(|name| line.starts_with(name)) && !line.ends_with(" 0"))
    {
        println!("{line}");
    }
    assert!(shown.contains(r#"hapax_claim_ends_total{policy="*",end="completed"} 900"#), "{shown}");
    Ok(())
}

/// Returns the first id of this run: a store may remember those of the last one.
fn begin() -> u64 {
    hapax::Timestamp::from(std::time::SystemTime::now()).as_nanos() / 1_000
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let address = match arguments.next().as_deref() {
        None | Some("--once") => None,
        Some("--serve") => Some(arguments.next().ok_or("--serve ADDRESS, say 127.0.0.1:9000")?.parse()?),
        Some(other) => return Err(format!("{other}? --once, or --serve ADDRESS").into()),
    };
    if let Ok(url) = std::env::var("HAPAX_REDIS_URL") {
        return run(hapax_redis::RedisStore::connect(hapax_redis::RedisOptions::single(url, "orders")).await?, address)
            .await;
    }
    run(hapax_store::InMemoryStore::new(), address).await
}
