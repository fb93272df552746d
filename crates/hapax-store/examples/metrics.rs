//! A consumer with metrics for Prometheus, on loopback. `docs/metrics.md` lists them,
//! `docs/grafana.json` is a dashboard.
//!
//! `cargo run -p hapax-store --features metrics --example metrics` handles a thousand deliveries,
//! reads its own metrics once, and ends. With `-- --serve 127.0.0.1:9000` it goes on. With
//! `HAPAX_REDIS_URL` it uses Redis.

use hapax_store::{Store, TieredDedup};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

type Failure = Box<dyn std::error::Error>;

/// Installs the recorder. Without buckets of its own, a histogram is exported as a summary, which
/// cannot be added up over instances.
fn recorder() -> Result<PrometheusHandle, Failure> {
    let seconds = [50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1.0];
    let held = [0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0];
    let ids = [1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0];
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full("hapax_store_call_seconds".into()), &seconds)?
        .set_buckets_for_metric(Matcher::Full("hapax_claim_held_seconds".into()), &held)?
        .set_buckets_for_metric(Matcher::Full("hapax_store_batch_ids".into()), &ids)?;
    // It is installed before the engine is built, which asks for its handles then, once.
    Ok(builder.install_recorder()?)
}

/// Answers any request with all metrics. (A real service has an HTTP server, and answers there.)
async fn serve(listener: TcpListener, metrics: PrometheusHandle) -> std::io::Result<()> {
    loop {
        let (mut connection, _) = listener.accept().await?;
        let metrics = metrics.clone();
        tokio::spawn(async move {
            let mut request = [0; 4_096];
            if connection.read(&mut request).await? == 0 {
                return Ok(()); // gone without a question
            }
            metrics.run_upkeep();
            let body = metrics.render();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\nconnection: close\r\n";
            connection.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).await?;
            connection.shutdown().await
        });
    }
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

async fn run<S: Store>(store: S, address: Option<String>) -> Result<(), Failure> {
    let metrics = recorder()?;
    let dedup = TieredDedup::builder(store).capacity(100_000).build().await?;
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let bound = listener.local_addr()?;
    tokio::spawn(serve(listener, metrics));
    // Each run has other ids, since a store may remember those of the last one.
    let mut first = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_micros() as u64;
    consume(&dedup, first).await?;
    if address.is_some() {
        println!("metrics are at http://{bound}/metrics");
        loop {
            first += 900;
            consume(&dedup, first).await?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    // The gauges are set by a task, which has run by the end of this.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut scrape = TcpStream::connect(bound).await?;
    scrape.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").await?;
    let mut scraped = String::new();
    scrape.read_to_string(&mut scraped).await?;
    let interesting =
        ["hapax_verdicts_total", "hapax_claim_ends_total", "hapax_store_calls_total", "hapax_breaker_state"];
    for line in
        scraped.lines().filter(|line| interesting.iter().any(|name| line.starts_with(name)) && !line.ends_with(" 0"))
    {
        println!("{line}");
    }
    assert!(scraped.contains(r#"hapax_claim_ends_total{policy="*",end="completed"} 900"#), "{scraped}");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let address = match arguments.next().as_deref() {
        None | Some("--once") => None,
        Some("--serve") => Some(arguments.next().ok_or("--serve ADDRESS, say 127.0.0.1:9000")?),
        Some(other) => return Err(format!("{other}? --once, or --serve ADDRESS").into()),
    };
    if let Ok(url) = std::env::var("HAPAX_REDIS_URL") {
        return run(hapax_redis::RedisStore::connect(hapax_redis::RedisOptions::single(url, "orders")).await?, address)
            .await;
    }
    run(hapax_store::InMemoryStore::new(), address).await
}
