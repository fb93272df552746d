//! Idempotency keys for ASGI: requests go through hapax-http's own layer, whose handler is
//! Python's.

use crate::errors::{exception, raise, wrong_option};
use crate::id::Seconds;
use crate::options::{self, one_of};
use crate::runtime::{Answer, Calls, attached, runtime};
use crate::tiered::TieredDedup;
use bytes::Bytes;
use hapax_http::{Body, IdempotencyKey, OnMissing};
use hapax_store::DynStore;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;
use tower::{Layer, ServiceExt, service_fn};

type Inner = hapax_http::IdempotencyLayer<DynStore>;
type Headers = Vec<(Vec<u8>, Vec<u8>)>;
type Parts = (String, Vec<u8>, Headers, Vec<u8>, Option<String>);
type Whole = Response<Full<Bytes>>;

/// The owner of a request's key, as the application has verified it.
#[derive(Clone)]
struct Owner(Option<String>);

/// The layer of hapax-http, for `hapax.asgi`.
#[pyclass(frozen, module = "hapax")]
pub struct IdempotencyLayer {
    layer: Inner,
    calls: Calls,
}

/// The way back from a handler, which may be on any thread: an exception, or the parts of a
/// response.
#[pyclass(frozen, module = "hapax")]
pub struct Respond(Mutex<Option<oneshot::Sender<PyResult<Whole>>>>);

#[pymethods]
impl Respond {
    #[pyo3(signature = (error, status = 500, headers = Vec::new(), body = Vec::new()))]
    fn __call__(&self, error: Option<Bound<'_, PyAny>>, status: u16, headers: Headers, body: Vec<u8>) {
        let response = Response::builder().status(status);
        let response = headers.iter().fold(response, |response, (name, value)| response.header(&name[..], &value[..]));
        let response = response.body(Full::new(Bytes::from(body))).map_err(not_http);
        if let Some(sender) = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take() {
            // Nobody waits if the handler took too long.
            let _ = sender.send(error.map_or(response, |error| Err(PyErr::from_value(error))));
        }
    }
}

fn not_http(error: http::Error) -> PyErr {
    exception("HapaxError", (format!("expected a request or a response of HTTP: {error}"),))
}

#[pymethods]
impl IdempotencyLayer {
    #[new]
    #[pyo3(signature = (dedup, has_owners, **options))]
    fn new(dedup: &Bound<'_, TieredDedup>, has_owners: bool, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        dedup.get().calls.must_be_here()?;
        let _on_it = runtime().enter();
        let builder = Inner::builder(hapax_store::TieredDedup::clone(&dedup.get().engine));
        let builder = if has_owners {
            builder.scope(|request| request.extensions.get::<Owner>().and_then(|owner| owner.0.clone()))
        } else {
            builder.global_scope()
        };
        let builder = options::fold(options, builder, |builder, name, value| {
            let secs = || Ok::<_, PyErr>(value.extract::<Seconds>()?.0);
            let words = [("reject", OnMissing::Reject), ("pass", OnMissing::Pass)];
            Ok(Some(match name {
                "methods" => {
                    let methods = value.extract::<Vec<String>>()?.into_iter().map(|method| method.parse());
                    let wrong = |_| wrong_option("expected methods of HTTP".to_owned());
                    builder.methods(methods.collect::<Result<Vec<Method>, _>>().map_err(wrong)?)
                }
                "on_missing" => builder.on_missing(one_of(value, &words)?),
                "json" if value.extract()? => builder.fingerprint(hapax_http::fingerprint::json),
                "json" => builder,
                "max_body" => builder.max_body_bytes(value.extract()?),
                "handler_timeout" => builder.handler_timeout(secs()?),
                "wait" => builder.wait(secs()?),
                _ => return Ok(None),
            }))
        })?;
        Ok(IdempotencyLayer { layer: raise(builder.build())?, calls: Calls::here(true) })
    }

    /// Awaits the response to a request (method, target, headers, body, owner): status, headers,
    /// body. `start(respond, token)` begins the handler's work, wherever its event loop is.
    fn handle<'py>(&self, py: Python<'py>, request: Parts, start: Py<PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (method, target, headers, body, owner) = request;
        let request = Request::builder().method(&*method).uri(&target[..]).extension(Owner(owner));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(&name[..], &value[..]));
        let request = request.body(Full::new(Bytes::from(body))).map_err(not_http)?;
        let start = Arc::new(start);
        let service = self.layer.layer(service_fn(move |request: Request<Body<Full<Bytes>>>| {
            let token = request.extensions().get::<IdempotencyKey>().map(|key| key.token().as_u64());
            let (sender, response) = oneshot::channel();
            let begun = attached(|py| start.call1(py, (Respond(Mutex::new(Some(sender))), token)));
            let gone = || PyRuntimeError::new_err("the handler ended without a response");
            async move {
                begun.ok_or_else(gone)??;
                response.await.map_err(|_| gone())?
            }
        }));
        self.calls.call(py, async move {
            let response = match service.oneshot(request).await {
                Ok(response) => response,
                Err(error) => return Box::new(move |_: Python<'_>| Err(error)) as Answer,
            };
            let (head, body) = response.into_parts();
            let Ok(body) = body.collect().await;
            Box::new(move |py: Python<'_>| {
                let bytes = |bytes| PyBytes::new(py, bytes);
                let fields = head.headers.iter().map(|(name, value)| (bytes(name.as_ref()), bytes(value.as_bytes())));
                let answer = (head.status.as_u16(), fields.collect::<Vec<_>>(), bytes(&body.to_bytes()));
                answer.into_py_any(py)
            })
        })
    }
}
