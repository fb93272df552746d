//! The Rust side of a test: handles a request with an idempotency key, over the store of a Python
//! process, and prints the status, "handled" or "replayed", and the body.

use bytes::Bytes;
use hapax_http::{Body, IdempotencyLayer};
use hapax_redis::{RedisOptions, RedisStore};
use hapax_store::TieredDedup;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;
use tower::{Layer, ServiceExt, service_fn};

async fn handle(request: Request<Body<Full<Bytes>>>) -> Result<Response<Full<Bytes>>, Infallible> {
    let Ok(body) = request.into_body().collect().await;
    let body = [b"by rust: ", &body.to_bytes()[..]].concat();
    let response = Response::builder().status(202).header("location", "/rust").header("set-cookie", "a=1");
    Ok(response.body(Full::new(body.into())).expect("a response"))
}

fn main() -> Result<(), Box<dyn Error>> {
    let [url, key, body] = &std::env::args().skip(1).collect::<Vec<_>>()[..] else {
        return Err("expected a URL of Redis, a key and a body".into());
    };
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let store = RedisStore::connect(RedisOptions::single(url, "http")).await?;
        let dedup = TieredDedup::builder(store).scope("http").retention(Duration::from_secs(3600)).build().await?;
        let layer = IdempotencyLayer::builder(dedup).global_scope().build()?;
        let request = Request::post("/c?x=1").header("idempotency-key", key).header("content-type", "application/json");
        let request = request.body(Full::new(body.clone().into()))?;
        let Ok(response) = layer.layer(service_fn(handle)).oneshot(request).await;
        let (head, body) = response.into_parts();
        let Ok(body) = body.collect().await;
        let how = if head.headers.contains_key("idempotency-replayed") { "replayed" } else { "handled" };
        println!("{}\n{how}\n{}", head.status.as_u16(), String::from_utf8_lossy(&body.to_bytes()));
        Ok(())
    })
}
