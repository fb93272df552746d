//! A real server on loopback, a real client, and a store that fails when it is told to.

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use hapax::ManualClock;
use hapax_http::{IdempotencyLayer, LayerBuilder};
use hapax_store::{InMemoryStore, Store, TieredBuilder, TieredDedup};
use hapax_testing::store::FaultyStore;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

pub type Faulty = Arc<FaultyStore<InMemoryStore>>;

type AnyBody = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

pub const LEASE: Duration = Duration::from_secs(30);

/// A store, its clock, and how often the handler was run.
#[derive(Clone)]
pub struct World {
    pub clock: ManualClock,
    pub store: Faulty,
    pub runs: Runs,
}

/// Runs of a handler.
#[derive(Clone, Default)]
pub struct Runs(Arc<AtomicU64>);

impl Runs {
    /// Returns the number of this run, from 1.
    pub fn begin(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl World {
    pub fn new() -> Self {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1_000_000));
        let store = Arc::new(FaultyStore::new(InMemoryStore::with_clock(clock.clone())));
        World { clock, store, runs: Runs::default() }
    }

    pub fn engine(&self) -> TieredBuilder<Faulty> {
        let engine = engine(Arc::clone(&self.store)).clock(self.clock.clone());
        // A failure is to be reported at once, not retried.
        engine.retries(0).circuit_breaker(1_000_000, Duration::from_secs(1))
    }

    pub async fn layer(&self) -> LayerBuilder<Faulty> {
        IdempotencyLayer::builder(self.engine().build().await.unwrap()).global_scope()
    }

    /// Starts a server whose handler counts its runs and answers 201 with the run and the body that
    /// it got.
    pub async fn counting(&self, layer: LayerBuilder<Faulty>) -> Server {
        let runs = self.runs.clone();
        Server::start(layer.build().unwrap(), move |request: Request| {
            let run = runs.begin();
            async move {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let text = format!("run {run}: {}", String::from_utf8_lossy(&body));
                Response::builder().status(201).header("x-run", run).body(text.into()).unwrap()
            }
        })
        .await
    }
}

pub fn engine<S: Store>(store: S) -> TieredBuilder<S> {
    TieredDedup::builder(store).scope("http").capacity(10_000).expiry(None)
}

/// A server that ends with the test.
pub struct Server {
    pub address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub async fn start<S, F, A>(layer: IdempotencyLayer<S>, handler: F) -> Server
    where
        S: Store,
        F: Fn(Request) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Response> + Send + 'static,
    {
        Self::of(Router::new().fallback(handler).layer(layer)).await
    }

    pub async fn of(router: Router) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Server { address, task }
    }

    /// Sends a POST with a key.
    pub async fn post(&self, key: &str, body: &'static str) -> Answer {
        self.send(request(Method::POST, "/charges", &[("idempotency-key", key)], body)).await
    }

    pub async fn send<B>(&self, request: http::Request<B>) -> Answer
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: std::error::Error + Send + Sync,
    {
        // The limit only ends a test that would hang.
        tokio::time::timeout(Duration::from_secs(60), self.try_send(request)).await.expect("an answer").unwrap()
    }

    /// Sends a request on a connection of its own.
    pub async fn try_send<B>(&self, request: http::Request<B>) -> Result<Answer, hyper::Error>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: std::error::Error + Send + Sync,
    {
        self.send_boxed(request.map(|body| body.map_err(Into::into).boxed_unsync())).await
    }

    /// Sends a boxed request. (A client of one type is compiled once.)
    async fn send_boxed(&self, request: http::Request<AnyBody>) -> Result<Answer, hyper::Error> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?;
        let answer = Answer {
            status: parts.status,
            headers: parts.headers,
            trailers: body.trailers().cloned(),
            body: body.to_bytes(),
        };
        connection.abort();
        Ok(answer)
    }
}

pub fn request(method: Method, path: &str, headers: &[(&str, &str)], body: &'static str) -> http::Request<Full<Bytes>> {
    let mut request = http::Request::builder().method(method).uri(path).header("host", "test");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::from(body)).unwrap()
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub trailers: Option<HeaderMap>,
}

impl Answer {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn is_replayed(&self) -> bool {
        self.header("idempotency-replayed") == Some("true")
    }

    /// Asserts that it is this problem, and nothing else.
    #[track_caller]
    pub fn is_problem(&self, problem: hapax_http::Problem) {
        let body: serde_json::Value = serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("{problem:?}, got {} {:?}", self.status, self.body));
        assert_eq!(body["type"], problem.type_uri(), "{body}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(body["status"], self.status.as_u16());
        assert_eq!(body["title"], problem.title());
        assert!(body["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
        assert!(!self.is_replayed());
    }

    #[track_caller]
    pub fn is_run(&self, run: u64, body: &str) {
        assert_eq!((self.status, self.text()), (StatusCode::CREATED, format!("run {run}: {body}").as_str()));
    }
}

/// Waits until a condition holds; the limit only ends a test that would hang.
pub async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waited = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), waited).await.is_ok(), "waited in vain: {what}");
}
