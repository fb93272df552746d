//! A server whose charges are made once, however often a client retries: an axum server with idempotency keys in 64 MiB of memory.
//!
//! `cargo run --example http_server --features http,moka` asks itself. With an address behind it, it serves:
//!
//! ```sh
//! cargo run --example http_server --features http,moka -- 127.0.0.1:3000
//! curl -i localhost:3000/charges -H 'x-api-key: alice' -H 'idempotency-key: "k-1"' -d 'amount=10'
//! curl -i localhost:3000/charges -H 'x-api-key: alice' -H 'idempotency-key: "k-1"' -d 'amount=10'   # the same charge
//! curl -i localhost:3000/charges -H 'x-api-key: alice' -H 'idempotency-key: "k-1"' -d 'amount=99'   # 422
//! curl -i localhost:3000/charges -H 'x-api-key: bob'   -H 'idempotency-key: "k-1"' -d 'amount=10'   # a charge of another
//! ```
//!
//! Several servers: put a store that they share, Redis or PostgreSQL, where this one has its budget.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hapax::TieredDedup;
use hapax::http::{IdempotencyKey, IdempotencyLayer};
use hapax::store::MokaStore;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tower_service::Service;

/// Stands for what a payment provider does.
static CHARGES: AtomicU64 = AtomicU64::new(0);

async fn charge(request: Request) -> Response {
    let Some(key) = request.extensions().get::<IdempotencyKey>() else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    // What the provider is to be told: the same at every attempt of this request.
    let at_provider = key.step("charges", "charge");
    let number = CHARGES.fetch_add(1, Ordering::Relaxed) + 1;
    (StatusCode::CREATED, format!("charge {number}, at the provider {at_provider}\n")).into_response()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let dedup = TieredDedup::builder(MokaStore::new(64 << 20)?)
        .scope("charges")
        .retention(Duration::from_secs(24 * 3600))
        .build()
        .await?;
    let layer = IdempotencyLayer::builder(dedup)
        // Stands for an authentication: a scope must be what the server has verified.
        .scope(|request| request.headers.get("x-api-key")?.to_str().ok().map(str::to_owned))
        .wait(Duration::from_secs(2))
        .build()?;
    let router = Router::new().route("/charges", axum::routing::post(charge)).layer(layer);
    match std::env::args().nth(1) {
        Some(address) => {
            let listener = tokio::net::TcpListener::bind(&address).await?;
            println!("http://{}/charges", listener.local_addr()?);
            axum::serve(listener, router).await?;
            Ok(())
        }
        None => ask(router).await,
    }
}

/// What the lines above ask.
async fn ask(mut router: Router) -> Result<(), Box<dyn Error>> {
    let mut statuses = Vec::new();
    for (who, body) in [("alice", "amount=10"), ("alice", "amount=10"), ("alice", "amount=99"), ("bob", "amount=10")] {
        let request = Request::post("/charges").header("x-api-key", who).header("idempotency-key", "\"k-1\"");
        let response = router.as_service().call(request.body(Body::from(body))?).await?;
        let (status, replayed) = (response.status(), response.headers().contains_key("idempotency-replayed"));
        let said = axum::body::to_bytes(response.into_body(), 1 << 20).await?;
        print!("{who}, {body}: {status}{}: ", if replayed { ", replayed" } else { "" });
        println!("{}", String::from_utf8_lossy(&said).trim_end());
        statuses.push((status.as_u16(), replayed));
    }
    assert_eq!(statuses, [(201, false), (201, true), (422, false), (201, false)]);
    assert_eq!(CHARGES.load(Ordering::Relaxed), 2);
    Ok(())
}
