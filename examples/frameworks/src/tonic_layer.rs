//! Unary calls of a server of tonic, each handled once for the `idempotency-key` in its metadata.
//!
//! ```ignore
//! let dedup = TieredDedup::builder(store).scope("charges").build().await?;
//! Server::builder().layer(Once::new(dedup)).add_service(charges).serve(address).await?;
//! ```
//!
//! All clients share their keys here. Where they must not, the id begins with what an
//! authentication outside of this layer has verified.

use hapax::Key;
use hapax_store::{Store, TieredAttempt, TieredDedup};
use http::{Request, Response};
use std::mem::replace;
use std::pin::Pin;
use std::task::{Context, Poll};
use tonic::{Code, Status};
use tower_layer::Layer;
use tower_service::Service;

/// A layer that handles each call once.
pub struct Once<S: Store>(TieredDedup<S>);

impl<S: Store> Once<S> {
    /// Creates a layer over an engine.
    pub fn new(dedup: TieredDedup<S>) -> Self {
        Once(dedup)
    }
}

impl<S: Store> Clone for Once<S> {
    fn clone(&self) -> Self {
        Once(self.0.clone())
    }
}

impl<S: Store, Inner> Layer<Inner> for Once<S> {
    type Service = OnceService<S, Inner>;

    fn layer(&self, inner: Inner) -> Self::Service {
        OnceService { dedup: self.0.clone(), inner }
    }
}

/// The service that [`Once`] makes.
pub struct OnceService<S: Store, Inner> {
    dedup: TieredDedup<S>,
    inner: Inner,
}

impl<S: Store, Inner: Clone> Clone for OnceService<S, Inner> {
    fn clone(&self) -> Self {
        OnceService { dedup: self.dedup.clone(), inner: self.inner.clone() }
    }
}

impl<S, Inner, B, R> Service<Request<B>> for OnceService<S, Inner>
where
    S: Store,
    Inner: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    Inner::Future: Send,
    B: Send + 'static,
    R: Default + Send + 'static,
{
    type Response = Response<R>;
    type Error = Inner::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, Inner::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Inner::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that said that it is ready is called.
        let clone = self.inner.clone();
        let (mut inner, dedup) = (replace(&mut self.inner, clone), self.dedup.clone());
        Box::pin(async move {
            let Some(key) = request.headers().get("idempotency-key") else { return inner.call(request).await };
            let mut id = Key::new();
            id.text(request.uri().path()).bytes(key);
            let claim = match dedup.claim(&id).await {
                Ok(TieredAttempt::Claimed(claim)) => claim,
                Ok(TieredAttempt::Duplicate(_)) => return Ok(Status::already_exists("it was handled").into_http()),
                Ok(_) => return Ok(Status::aborted("somebody is at it: ask again").into_http()),
                Err(error) => return Ok(Status::unavailable(error.to_string()).into_http()),
            };
            // An error drops the claim, and so does a client that goes away, which drops this
            // future and the handler: it is released soon, or its lease ends.
            let response = inner.call(request).await?;
            // A unary call that has failed says so in its headers.
            let failed = Status::from_header_map(response.headers()).is_some_and(|status| status.code() != Code::Ok);
            if failed {
                let _ = claim.release().await; // a retry is handled; without the store, when the lease is over
                return Ok(response);
            }
            Ok(match claim.complete().await {
                Ok(_) => response,
                Err(error) => Status::unavailable(format!("handled, and not recorded: {error}")).into_http(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_store::InMemoryStore;
    use std::convert::Infallible;
    use std::future::{Ready, ready};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Whoever fails at its first call.
    #[derive(Clone, Default)]
    struct Charge(Arc<AtomicU32>);

    impl Service<Request<()>> for Charge {
        type Response = Response<String>;
        type Error = Infallible;
        type Future = Ready<Result<Response<String>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<()>) -> Self::Future {
            ready(Ok(match self.0.fetch_add(1, Ordering::Relaxed) {
                0 => Status::internal("not now").into_http(),
                n => Response::new(format!("charge {n}")),
            }))
        }
    }

    #[tokio::test]
    async fn a_call_that_succeeded_is_not_handled_again() {
        let charge = Charge::default();
        let dedup = TieredDedup::builder(InMemoryStore::new()).build().await.unwrap();
        let mut service = Once::new(dedup).layer(charge.clone());
        let mut call = async |path: &str, key: Option<&str>| {
            let mut request = Request::post(path);
            if let Some(key) = key {
                request = request.header("idempotency-key", key);
            }
            let response = service.call(request.body(()).unwrap()).await.unwrap();
            Status::from_header_map(response.headers()).map_or(Code::Ok, |status| status.code())
        };
        assert_eq!(call("/Charge", Some("k-1")).await, Code::Internal);
        assert_eq!(call("/Charge", Some("k-1")).await, Code::Ok);
        assert_eq!(call("/Charge", Some("k-1")).await, Code::AlreadyExists);
        assert_eq!(call("/Refund", Some("k-1")).await, Code::Ok);
        assert_eq!((call("/Charge", None).await, call("/Charge", None).await), (Code::Ok, Code::Ok));
        assert_eq!(charge.0.load(Ordering::Relaxed), 5);
    }
}
