//! A server whose charges are made once, however often a client retries: an axum server with idempotency keys in 64 MiB of memory.
//!
//! ```sh
//! cargo run --example http_server --features http,moka
//! curl -i localhost:3000/charges -H 'x-api-key: alice' -H 'idempotency-key: "k-1"' -d 'amount=10'
//! curl -i localhost:3000/charges -H 'x-api-key: alice' -H 'idempotency-key: "k-1"' -d 'amount=10'   # the same charge
//! curl -i localhost:3000/charges -H 'x-api-key: alice' -H 'idempotency-key: "k-1"' -d 'amount=99'   # 422
//! curl -i localhost:3000/charges -H 'x-api-key: bob'   -H 'idempotency-key: "k-1"' -d 'amount=10'   # a charge of another
//! ```
//!
//! Several servers: put a store that they share, Redis or PostgreSQL, where this one has its budget.

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hapax::TieredDedup;
use hapax::http::{IdempotencyKey, IdempotencyLayer};
use hapax::store::MokaStore;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("http://{}/charges", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}
