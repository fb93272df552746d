//! The API: `POST /orders` with an `Idempotency-Key`, whose body is a customer and an amount in
//! cents.

use crate::{Failed, TOPIC, pool, tables};
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Extension, Router};
use deadpool_postgres::Pool;
use hapax_http::{IdempotencyKey, IdempotencyLayer};
use hapax_postgres::{NewMessage, PostgresOptions, PostgresStore, Tables, outbox};
use hapax_store::TieredDedup;
use std::time::Duration;

#[derive(Clone)]
struct Api {
    pool: Pool,
    tables: Tables,
}

type Answer = (StatusCode, String);

/// Places an order: it and its message are there together, or not at all.
async fn place(State(api): State<Api>, Extension(key): Extension<IdempotencyKey>, body: String) -> Answer {
    let order = body.split_once(' ').and_then(|(customer, cents)| Some((customer, cents.trim().parse::<i64>().ok()?)));
    let Some((customer, cents)) = order else {
        return (StatusCode::BAD_REQUEST, format!("expected a customer and an amount, got {body:?}\n"));
    };
    key.begin(); // from here on, what is answered is kept
    match stored(&api, key.as_str(), customer, cents).await {
        Ok(()) => (StatusCode::CREATED, format!("order {}\n", key.as_str())),
        Err(error) => {
            eprintln!("order {}: {error}", key.as_str());
            (StatusCode::SERVICE_UNAVAILABLE, "try again\n".into())
        }
    }
}

async fn stored(api: &Api, id: &str, customer: &str, cents: i64) -> Result<(), Failed> {
    let mut client = api.pool.get().await?;
    let mut tx = client.transaction().await?;
    // A process that dies after the commit has kept no answer, and the request is handled again:
    // so the order has the key as its id.
    let new = "INSERT INTO orders VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    if tx.execute(new, &[&id, &customer, &cents]).await? == 1 {
        let cents = cents.to_string();
        let message = NewMessage::new(id, &cents).kind("order.placed").source("/orders").key(customer);
        outbox::enqueue(&mut tx, &api.tables, TOPIC, message).await?;
    }
    Ok(tx.commit().await?)
}

/// Serves until it is stopped.
///
/// # Errors
///
/// If the address cannot be bound, or the store not be reached.
pub async fn run(address: &str, database: &str, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), Failed> {
    let store = PostgresStore::new(PostgresOptions::parse(database)?, "orders_keys")?;
    let keys = TieredDedup::builder(store)
        .scope("orders")
        .retention(Duration::from_secs(24 * 3600))
        .lease(Duration::from_secs(2)) // so long a retry waits after a crash
        .build()
        .await?;
    // (A server with several tenants gives each a scope of its own: `scope`.)
    let layer = IdempotencyLayer::builder(keys).global_scope().wait(Duration::from_secs(1)).build()?;
    let api = Api { pool: pool(database)?, tables: tables()? };
    let router = Router::new().route("/orders", post(place)).layer(layer).with_state(api);
    let listener = tokio::net::TcpListener::bind(address).await?;
    Ok(axum::serve(listener, router).with_graceful_shutdown(stop).await?)
}
