//! Receives webhooks: trusts signed ones, handles each event once, and answers 2xx only when that
//! is recorded.
//!
//! `WEBHOOK_SECRET=whsec_… cargo run --bin webhook 127.0.0.1:8080 events.db ledger.txt`

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use hapax_brokers::{Failed, Ledger, arguments, signature};
use hapax_sqlite::{SqliteOptions, SqliteStore};
use hapax_store::{TieredAttempt, TieredDedup};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The largest age of a signature. Senders sign each delivery anew, so it need only cover clocks
/// and networks.
const TOLERANCE: Duration = Duration::from_secs(300);
/// The time for which events are remembered. Senders try for up to three days; an operator may
/// press "send again" later.
const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);
/// The lease: several times the longest work. After a crash, the event can be handled again when it
/// is over.
const LEASE: Duration = Duration::from_secs(1);

struct Receiver {
    secret: Vec<u8>,
    events: TieredDedup<SqliteStore>,
    ledger: Ledger,
}

impl Receiver {
    async fn receive(&self, headers: &HeaderMap, body: &[u8]) -> Result<StatusCode, Response> {
        // The body must be as it came: a body that was parsed and written again is not what the
        // sender has signed.
        let signed = headers.get("webhook-signature").and_then(|value| value.to_str().ok()).unwrap_or_default();
        signature::verify(&self.secret, signed, body, SystemTime::now(), TOLERANCE)
            .map_err(|refusal| (StatusCode::UNAUTHORIZED, refusal.to_string()).into_response())?;
        let event: serde_json::Value = serde_json::from_slice(body).map_err(|error| refused(&error))?;
        let id = event["id"].as_str().filter(|id| !id.trim().is_empty()).ok_or_else(|| refused(&"no event id"))?;

        match self.events.claim(id).await.map_err(|error| try_again(&error, Duration::from_secs(1)))? {
            TieredAttempt::Claimed(claim) => {
                if let Err(error) = self.ledger.work(id, claim.token()).await {
                    // If that fails, too, the lease ends by itself.
                    let _ = claim.release().await;
                    return Err(try_again(&error, Duration::from_secs(1)));
                }
                claim.complete().await.map_err(|error| try_again(&error, LEASE))?;
                Ok(StatusCode::OK)
            }
            TieredAttempt::Duplicate(_) => Ok(StatusCode::OK),
            // The answer is not 2xx: the other handler may fail, and then this delivery is needed.
            TieredAttempt::InProgress { lease_left, .. } => Err(try_again(&"this event is being handled", lease_left)),
            other => Err(try_again(&format!("{other:?}"), LEASE)),
        }
    }
}

/// Refuses a delivery for good.
fn refused(why: &dyn std::fmt::Display) -> Response {
    (StatusCode::BAD_REQUEST, why.to_string()).into_response()
}

fn try_again(why: &dyn std::fmt::Display, after: Duration) -> Response {
    let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
    (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, seconds.to_string())], why.to_string()).into_response()
}

async fn received(State(receiver): State<Arc<Receiver>>, headers: HeaderMap, body: Bytes) -> Response {
    // The work runs in a task of its own, since a sender that hangs up ends this one, in the middle
    // of the work.
    let received = tokio::spawn(async move { receiver.receive(&headers, &body).await });
    match received.await {
        Ok(answer) => answer.into_response(),
        Err(panic) => (StatusCode::INTERNAL_SERVER_ERROR, panic.to_string()).into_response(),
    }
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let [address, database, ledger] = arguments(["ADDRESS", "DATABASE", "LEDGER"])?;
    let secret = std::env::var("WEBHOOK_SECRET").map_err(|_| "WEBHOOK_SECRET: expected the secret, got none")?;
    let store = SqliteOptions::new().table("events").open(database).await?;
    let events = TieredDedup::builder(store).retention(RETENTION).lease(LEASE).build().await?;
    let receiver = Receiver { secret: secret.into_bytes(), events, ledger: Ledger::open(ledger)? };
    let routes = Router::new().route("/webhook", post(received)).with_state(Arc::new(receiver));
    axum::serve(tokio::net::TcpListener::bind(address).await?, routes).await?;
    Ok(())
}
