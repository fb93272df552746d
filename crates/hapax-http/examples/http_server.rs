//! A server whose charges are made once, however often a client retries: an axum server with
//! idempotency keys in 64 MiB of memory.
//!
//! `cargo run -p hapax-http --example http_server` sends requests to itself. With an
//! address as an argument, it serves:
//!
//! ```sh
//! cargo run -p hapax-http --example http_server -- 127.0.0.1:3000
//! ask() { curl -i localhost:3000/charges -H "authorization: Bearer $1" -H 'idempotency-key: "k-1"' -d "$2"; }
//! ask alice-s3cret amount=10
//! ask alice-s3cret amount=10 # the same charge
//! ask alice-s3cret amount=99 # 422
//! ask bob-s3cret amount=10   # a charge of another
//! ask guessed amount=10      # 401
//! ```
//!
//! Keys belong to the tenant that the server has verified, never to one that the client names. A
//! client that could choose another tenant's scope would get that tenant's responses, and one that
//! could choose a new scope each time would have a new quota each time.
//!
//! Several servers: replace the budget by a store that they share, Redis or PostgreSQL. If one
//! tenant fills the budget, only its own keys are evicted.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use hapax_http::{IdempotencyKey, IdempotencyLayer};
use hapax_store::{BudgetStore, TieredDedup};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tower_service::Service;

/// The caller, as `authenticate` has verified it.
#[derive(Clone)]
struct Tenant(String);

/// Tenants by the SHA-256 of their tokens. No token is stored, and none is compared: the time of a
/// lookup by digest reveals nothing that helps to guess a token, however exactly it is measured.
type Tokens = Arc<HashMap<[u8; 32], Tenant>>;

/// Lets in who shows a token that is known, and tells the layers inside whose it is.
async fn authenticate(State(tokens): State<Tokens>, mut request: Request, next: Next) -> Response {
    let shown = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = shown.and_then(|shown| shown.strip_prefix("Bearer "));
    let tenant = token.and_then(|token| tokens.get(&<[u8; 32]>::from(Sha256::digest(token))));
    match tenant {
        Some(tenant) => {
            request.extensions_mut().insert(tenant.clone());
            next.run(request).await
        }
        None => (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")]).into_response(),
    }
}

/// A counter in place of a payment provider.
static CHARGES: AtomicU64 = AtomicU64::new(0);

async fn charge(request: Request) -> Response {
    let Some(key) = request.extensions().get::<IdempotencyKey>() else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    // The provider gets this key: the same at every attempt of this request.
    let at_provider = key.step("charges", "charge");
    let number = CHARGES.fetch_add(1, Ordering::Relaxed) + 1;
    (StatusCode::CREATED, format!("charge {number}, at the provider {at_provider}\n")).into_response()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let dedup = TieredDedup::builder(BudgetStore::new(64 << 20)?)
        .scope("charges")
        .retention(Duration::from_secs(24 * 3600))
        .build()
        .await?;
    let layer = IdempotencyLayer::builder(dedup)
        .scope(|request| request.extensions.get::<Tenant>().map(|tenant| tenant.0.clone()))
        .wait(Duration::from_secs(2))
        .build()?;
    // This stands for a table in a database.
    let token = |token: &str, name: &str| (Sha256::digest(token).into(), Tenant(name.to_owned()));
    let tokens: Tokens = Arc::new(HashMap::from([token("alice-s3cret", "alice"), token("bob-s3cret", "bob")]));
    let router = Router::new()
        .route("/charges", axum::routing::post(charge))
        .layer(layer)
        .layer(from_fn_with_state(tokens, authenticate)); // the last one is the outermost
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

/// Sends the requests that are shown above.
async fn ask(mut router: Router) -> Result<(), Box<dyn Error>> {
    let mut statuses = Vec::new();
    for (token, body) in [
        ("alice-s3cret", "amount=10"),
        ("alice-s3cret", "amount=10"),
        ("alice-s3cret", "amount=99"),
        ("bob-s3cret", "amount=10"),
        ("guessed", "amount=10"),
    ] {
        let request = Request::post("/charges")
            .header("authorization", format!("Bearer {token}"))
            .header("idempotency-key", "\"k-1\"");
        let response = router.as_service().call(request.body(Body::from(body))?).await?;
        let (status, replayed) = (response.status(), response.headers().contains_key("idempotency-replayed"));
        let said = axum::body::to_bytes(response.into_body(), 1 << 20).await?;
        print!("{token}, {body}: {status}{}: ", if replayed { ", replayed" } else { "" });
        println!("{}", String::from_utf8_lossy(&said).trim_end());
        statuses.push((status.as_u16(), replayed));
    }
    assert_eq!(statuses, [(201, false), (201, true), (422, false), (201, false), (401, false)]);
    assert_eq!(CHARGES.load(Ordering::Relaxed), 2);
    Ok(())
}
