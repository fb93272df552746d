//! A proxy in front of a language model, which pays for each prompt once: clients that ask again,
//! at the same time or after a crash, get the stored answer.
//!
//! `cargo run --bin llm_cache 127.0.0.1:8080 http://127.0.0.1:11434/v1/chat/completions answers.db`

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use hapax_brokers::{Failed, arguments, prompt};
use hapax_sqlite::{SqliteOptions, SqliteStore};
use hapax_store::{TieredAttempt, TieredClaim, TieredClaimOptions, TieredDedup};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// The time for which an answer is valid.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);
/// The lease: short, so that a crash does not keep others waiting; a call that takes longer renews
/// it.
const LEASE: Duration = Duration::from_secs(3);
/// The longest time of a call, and of the others' wait for it.
const PATIENCE: Duration = Duration::from_secs(120);

type Error = (StatusCode, String);

struct Cache {
    answers: TieredDedup<SqliteStore>,
    model: String,
    http: reqwest::Client,
}

impl Cache {
    async fn answer(&self, caller: Option<HeaderValue>, request: Bytes) -> Result<Vec<u8>, Error> {
        let hidden = caller.as_ref().map(HeaderValue::as_bytes).unwrap_or_default();
        let key = prompt::key(hidden, &request).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
        let (wanted, deadline) = (TieredClaimOptions::new().wants_result(), Instant::now() + PATIENCE);
        loop {
            match self.answers.claim_with(key, wanted.clone()).await.map_err(unavailable)? {
                TieredAttempt::Claimed(claim) => return self.ask(claim, caller, request).await,
                TieredAttempt::Duplicate(done) => return done.result.ok_or_else(|| unavailable("no answer was kept")),
                // Another caller is asking: one call is enough.
                TieredAttempt::InProgress { lease_left, .. } if Instant::now() < deadline => {
                    sleep(lease_left.min(Duration::from_millis(25))).await;
                }
                other => return Err(unavailable(format!("{other:?}"))),
            }
        }
    }

    /// Asks the model, and keeps its answer for all who ask the same.
    async fn ask(
        &self,
        mut claim: TieredClaim<SqliteStore>,
        caller: Option<HeaderValue>,
        request: Bytes,
    ) -> Result<Vec<u8>, Error> {
        let answer = {
            let mut call = pin!(timeout(PATIENCE, self.call(caller, request)));
            loop {
                tokio::select! {
                    answer = &mut call => break answer,
                    () = sleep(LEASE / 3) => {
                        // If that fails, another caller may ask, too; the call that is under way is
                        // paid for.
                        let _ = claim.renew(LEASE).await;
                    }
                }
            }
        };
        // Failures are not kept: the next caller asks again, but not at once.
        let failed = match answer {
            Ok(Ok(answer)) => {
                // An answer that could not be kept is still an answer, and has been paid for.
                if let Err(error) = claim.complete_with(answer.clone()).await {
                    eprintln!("an answer was not kept: {error}");
                }
                return Ok(answer);
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {PATIENCE:?}"),
        };
        let _ = claim.fail(Duration::from_millis(100)).await;
        Err((StatusCode::BAD_GATEWAY, failed))
    }

    async fn call(&self, caller: Option<HeaderValue>, request: Bytes) -> Result<Vec<u8>, reqwest::Error> {
        let call = self.http.post(&self.model).header(CONTENT_TYPE, "application/json").body(request);
        let call = caller.into_iter().fold(call, |call, caller| call.header(AUTHORIZATION, caller));
        Ok(call.send().await?.error_for_status()?.bytes().await?.to_vec())
    }
}

fn unavailable(why: impl std::fmt::Display) -> Error {
    (StatusCode::SERVICE_UNAVAILABLE, why.to_string())
}

async fn asked(State(cache): State<Arc<Cache>>, headers: HeaderMap, request: Bytes) -> Response {
    let caller = headers.get(AUTHORIZATION).cloned();
    // The call runs in a task of its own: if a client hangs up, the call is paid for all the same,
    // so the answer is kept.
    match tokio::spawn(async move { cache.answer(caller, request).await }).await {
        Ok(Ok(answer)) => ([(CONTENT_TYPE, "application/json")], answer).into_response(),
        Ok(Err(error)) => error.into_response(),
        Err(panic) => (StatusCode::INTERNAL_SERVER_ERROR, panic.to_string()).into_response(),
    }
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let [address, model, database] = arguments(["ADDRESS", "MODEL_URL", "DATABASE"])?;
    let store = SqliteOptions::new().table("answers").open(database).await?;
    let answers = TieredDedup::builder(store).retention(RETENTION).lease(LEASE).build().await?;
    // The provider of TLS. (It fails if there is one.)
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cache = Cache { answers, model, http: reqwest::Client::new() };
    let routes = Router::new().route("/v1/chat/completions", post(asked)).with_state(Arc::new(cache));
    axum::serve(tokio::net::TcpListener::bind(address).await?, routes).await?;
    Ok(())
}
