//! Requests to actix-web, each handled once for its `idempotency-key`.
//!
//! ```ignore
//! let dedup = web::Data::new(TieredDedup::builder(store).scope("charges").build().await?);
//! App::new().app_data(dedup.clone()).wrap(from_fn(once::<PostgresStore, _>)).service(charge)
//! ```
//!
//! All clients share their keys here. Where they must not, the id begins with what an
//! authentication outside of this middleware has verified. The body is not compared: another
//! request with a used key is a repetition.

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::error::{Error, ErrorConflict, ErrorServiceUnavailable};
use actix_web::middleware::Next;
use actix_web::web;
use hapax::Key;
use hapax_store::{Store, TieredAttempt, TieredDedup};

/// Handles a request, unless one with its key was handled before. A response that is no success
/// leaves the key to the next try.
pub async fn once<S: Store, B: MessageBody>(
    dedup: web::Data<TieredDedup<S>>,
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    let Some(key) = request.headers().get("idempotency-key") else { return next.call(request).await };
    let mut id = Key::new();
    id.text(request.method().as_str()).text(request.path()).bytes(key);
    let claim = match dedup.claim(&id).await.map_err(ErrorServiceUnavailable)? {
        TieredAttempt::Claimed(claim) => claim,
        TieredAttempt::Duplicate(_) => return Err(ErrorConflict("it was handled")),
        _ => return Err(ErrorConflict("somebody is at it: ask again")),
    };
    let response = next.call(request).await;
    if response.as_ref().is_ok_and(|response| response.status().is_success()) {
        claim.complete().await.map_err(ErrorServiceUnavailable)?;
    } else {
        let _ = claim.release().await; // a retry is handled; without the store, when the lease is over
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::http::StatusCode;
    use actix_web::middleware::from_fn;
    use actix_web::test::{TestRequest, init_service, try_call_service};
    use actix_web::{App, HttpResponse};
    use hapax_store::InMemoryStore;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_request_that_succeeded_is_not_handled_again() {
        actix_web::rt::System::new().block_on(async {
            let dedup = web::Data::new(TieredDedup::builder(InMemoryStore::new()).build().await.unwrap());
            let charges = Arc::new(AtomicU32::new(0));
            let counted = Arc::clone(&charges);
            let charge = move || {
                let number = counted.fetch_add(1, Ordering::Relaxed);
                async move { if number == 0 { HttpResponse::BadGateway() } else { HttpResponse::Created() } }
            };
            let app = App::new().app_data(dedup).wrap(from_fn(once::<InMemoryStore, _>));
            let app = init_service(app.route("/charges", web::post().to(charge))).await;
            let call = async |key: &str| {
                let request = TestRequest::post().uri("/charges").insert_header(("idempotency-key", key));
                match try_call_service(&app, request.to_request()).await {
                    Ok(response) => response.status(),
                    Err(error) => error.as_response_error().status_code(),
                }
            };
            assert_eq!(call("k-1").await, StatusCode::BAD_GATEWAY);
            assert_eq!(call("k-1").await, StatusCode::CREATED);
            assert_eq!(call("k-1").await, StatusCode::CONFLICT);
            assert_eq!(call("k-2").await, StatusCode::CREATED);
            assert_eq!(charges.load(Ordering::Relaxed), 3);
        });
    }
}
