//! Quotas of scopes, each at its limit.

use crate::running::Inner;
use crate::tenants::{FOR_EVER, Handler, Served, Slow, TAKES, Tenant, builder, request};
use crate::world::*;
use bytes::Bytes;
use hapax_http::{HttpStats, IdempotencyLayer, fingerprint};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;
use tower_layer::Layer;
use tower_service::Service;

const KIB: usize = 1 << 10;

fn send(service: &Served, tenant: &'static str, key: &str, body: Slow, takes: Duration) -> JoinHandle<StatusCode> {
    let mut service = service.clone();
    let sent = request(tenant, key, body, takes);
    tokio::spawn(async move { service.call(sent).await.unwrap().status() })
}

/// Sends a small request and waits for its answer.
async fn ask(service: &Served, tenant: &'static str, key: &str) -> StatusCode {
    send(service, tenant, key, Slow::at_once(10), TAKES).await.unwrap()
}

/// Returns the layer's gauges: reading, in flight, bytes.
fn now<S: hapax_store::Store>(layer: &IdempotencyLayer<S>) -> (u64, u64, u64) {
    let HttpStats { reading, in_flight, buffered_bytes, .. } = layer.stats();
    (reading, in_flight, buffered_bytes)
}

/// Lets every task run as far as it can without time.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_scope_that_sends_too_many_bodies_is_told_429_and_the_rest_is_let_in() {
    let world = World::new();
    let layer = builder(&world).await.max_in_flight(8).build().unwrap();
    let service = layer.layer(Handler);
    let idle: Vec<_> = (0..2).map(|i| send(&service, "a", &i.to_string(), Slow::never(), TAKES)).collect();
    settle().await;
    assert_eq!(now(&layer), (2, 0, 0));
    let refused = service.clone().call(request("a", "k", Slow::at_once(10), TAKES)).await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "1");
    let problem = refused.into_body().collect().await.unwrap().to_bytes();
    let problem: serde_json::Value = serde_json::from_slice(&problem).unwrap();
    assert_eq!(problem["type"], hapax_http::Problem::QuotaExceeded.type_uri());
    assert_eq!(ask(&service, "b", "k").await, StatusCode::CREATED);
    // Of the last two, which are for scopes that have none, nobody has a second one.
    let more: Vec<_> = ["b", "b", "c", "d"].map(|tenant| send(&service, tenant, tenant, Slow::never(), TAKES)).into();
    settle().await;
    assert_eq!(ask(&service, "d", "k").await, StatusCode::TOO_MANY_REQUESTS);
    let last = ["e", "f"].map(|tenant| send(&service, tenant, tenant, Slow::never(), TAKES));
    settle().await;
    // There is no room for anybody, which is nobody's quota.
    assert_eq!(ask(&service, "g", "k").await, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!((layer.stats().over_quota, layer.stats().refused), (2, 3));
    // One that hangs up makes room for another at once, and the time-out for all.
    idle[0].abort();
    settle().await;
    assert_eq!(ask(&service, "g", "k").await, StatusCode::CREATED);
    for late in idle.into_iter().skip(1).chain(more).chain(last) {
        assert_eq!(late.await.unwrap(), StatusCode::REQUEST_TIMEOUT);
    }
    assert_eq!(now(&layer), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_scope_whose_handlers_hang_is_told_429_before_it_is_read() {
    let world = World::new();
    let layer = builder(&world).await.max_in_flight(11).build().unwrap();
    let service = layer.layer(Handler);
    let hang: Vec<_> = (0..3).map(|i| send(&service, "a", &i.to_string(), Slow::at_once(10), FOR_EVER)).collect();
    settle().await;
    assert_eq!(now(&layer), (0, 3, 30));
    let asked_before = world.store.calls();
    // Not after thirty seconds of reading, and without asking the store.
    let refused = send(&service, "a", "k", Slow::never(), TAKES);
    settle().await;
    assert!(refused.is_finished());
    assert_eq!((refused.await.unwrap(), world.store.calls()), (StatusCode::TOO_MANY_REQUESTS, asked_before));
    assert_eq!(ask(&service, "b", "k").await, StatusCode::CREATED);
    // The handlers that are given up are the ones that end it.
    for late in hang {
        assert_eq!(late.await.unwrap(), StatusCode::GATEWAY_TIMEOUT);
    }
    assert_eq!(ask(&service, "a", "k").await, StatusCode::CREATED);
    assert_eq!(now(&layer), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn who_was_read_while_the_last_place_was_taken_is_refused_and_burns_no_key() {
    let world = World::new();
    let layer = builder(&world).await.max_in_flight(8).build().unwrap();
    let service = layer.layer(Handler);
    let handled = |key: &str| send(&service, "a", key, Slow::at_once(10), Duration::from_secs(60));
    let first = handled("first");
    let slow = send(&service, "a", "slow", Slow::new(5, 10, Duration::from_secs(1)), TAKES);
    settle().await;
    let last = handled("last");
    assert_eq!(slow.await.unwrap(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!((first.await.unwrap(), last.await.unwrap()), (StatusCode::CREATED, StatusCode::CREATED));
    let slow = send(&service, "a", "slow", Slow::new(5, 10, Duration::from_secs(1)), TAKES);
    assert_eq!(slow.await.unwrap(), StatusCode::CREATED);
}

#[tokio::test(start_paused = true)]
async fn bytes_of_one_scope_are_bounded_while_they_come_and_while_they_are_handled() {
    let world = World::new();
    let layer = builder(&world).await.max_body_bytes(64 * KIB).max_buffered_bytes(256 * KIB).build().unwrap();
    let service = layer.layer(Handler);
    // Two come slowly, by 8 KiB a second, to 40 KiB each; one is handled, and has 16 KiB.
    let pieces = || Slow::new(5, 8 * KIB, Duration::from_secs(1));
    let slow = [send(&service, "a", "1", pieces(), TAKES), send(&service, "a", "2", pieces(), TAKES)];
    let handled = send(&service, "a", "3", Slow::at_once(16 * KIB), Duration::from_secs(10));
    tokio::time::sleep(Duration::from_millis(3_500)).await;
    assert_eq!(now(&layer), (2, 1, 64 * KIB as u64));
    assert_eq!(ask(&service, "a", "k").await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(ask(&service, "b", "k").await, StatusCode::CREATED);
    // The next piece is too much; without its body there is room for the other's.
    let [one, two] = slow;
    let mut ends = [one.await.unwrap(), two.await.unwrap()];
    ends.sort_unstable();
    assert_eq!(ends, [StatusCode::CREATED, StatusCode::TOO_MANY_REQUESTS]);
    assert_eq!(now(&layer), (0, 1, 16 * KIB as u64));
    assert_eq!(handled.await.unwrap(), StatusCode::CREATED);
    assert_eq!(now(&layer), (0, 0, 0));
    // Nothing was burned.
    for key in ["1", "2"] {
        assert_eq!(send(&service, "a", key, pieces(), TAKES).await.unwrap(), StatusCode::CREATED);
    }
}

#[tokio::test(start_paused = true)]
async fn responses_count_until_the_client_has_them_and_replays_wait_for_room() {
    let world = World::new();
    let layer = builder(&world).await.max_body_bytes(20 * KIB).max_buffered_bytes(64 * KIB).build().unwrap();
    let mut service = layer.layer(Inner(|_: http::Request<hapax_http::Body<Slow>>| {
        std::future::ready(Response::builder().status(201).body(Full::from(vec![7; 20 * KIB])).unwrap())
    }));
    let mut call = |tenant, key: &str| service.call(request(tenant, key, Slow::at_once(10), TAKES));
    // A recorded answer is replayed, over the quota or not.
    let first = call("a", "k").await.unwrap();
    assert_eq!((first.status(), now(&layer)), (StatusCode::CREATED, (0, 0, 20 * KIB as u64)));
    // While it is not read, the scope gets no more; others do.
    assert_eq!(call("a", "k").await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(call("a", "other").await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    let empty = request("a", "empty", Slow::new(0, 0, Duration::ZERO), TAKES);
    assert_eq!(service.call(empty).await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    let mut call = |tenant, key: &str| service.call(request(tenant, key, Slow::at_once(10), TAKES));
    assert_eq!(call("b", "k").await.unwrap().status(), StatusCode::CREATED);
    let body = first.into_body().collect().await.unwrap().to_bytes();
    assert_eq!((body.len(), now(&layer).2), (20 * KIB, 20 * KIB as u64), "not before the last of it is gone");
    drop(body);
    assert_eq!(now(&layer), (0, 0, 0));
    // A replay counts with the bytes that came from the store, and so do the parts of its body.
    let again = call("a", "k").await.unwrap();
    assert_eq!((again.status(), again.headers().contains_key("idempotency-replayed")), (StatusCode::CREATED, true));
    assert!(now(&layer).2 > 20 * KIB as u64);
    let body: Bytes = again.into_body().collect().await.unwrap().to_bytes();
    assert!(body.iter().all(|&byte| byte == 7) && now(&layer).2 > 20 * KIB as u64);
    drop(body);
    assert_eq!(now(&layer), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_one_scope_one_large_body_at_a_time_is_looked_at() {
    let world = World::new();
    // The number of each that are looked at now, and the most at once.
    let looked = Arc::new((Mutex::new(HashMap::<&str, (u32, u32)>::new()), Condvar::new()));
    let looks = Arc::clone(&looked);
    let layer = builder(&world).await.fingerprint(move |parts, body| {
        let tenant = parts.extensions.get::<Tenant>().unwrap().0;
        let change = |more: i32| {
            let mut looked = looks.0.lock().unwrap();
            let (now, most) = looked.entry(tenant).or_default();
            *now = now.checked_add_signed(more).unwrap();
            *most = (*most).max(*now);
            looks.1.notify_all();
            looked
        };
        let met = |looked: &mut HashMap<&str, (u32, u32)>| looked[tenant].1 < 2;
        let looked = change(1);
        if tenant == "small" {
            // The first small one waits for another one, for a minute if none is let in.
            drop(looks.1.wait_timeout_while(looked, Duration::from_secs(60), met).unwrap());
        } else {
            drop(looked);
            // As long as a body of many megabytes takes; the processor is not free meanwhile.
            std::thread::sleep(Duration::from_millis(2));
        }
        drop(change(-1));
        fingerprint::exact(parts, body)
    });
    let layer = layer.build().unwrap();
    let service = layer.layer(Handler);
    let tenants = ["hostile", "a", "small"];
    let mut sent = Vec::new();
    for i in 0..40 {
        for tenant in tenants {
            let bytes = if tenant == "small" { KIB } else { 64 * KIB };
            sent.push(send(&service, tenant, &i.to_string(), Slow::at_once(bytes), Duration::ZERO));
        }
    }
    for sent in sent {
        assert_eq!(sent.await.unwrap(), StatusCode::CREATED);
    }
    let looked = looked.0.lock().unwrap();
    assert_eq!(["hostile", "a"].map(|tenant| looked[tenant]), [(0, 1), (0, 1)]);
    // Small ones wait for nobody. That several of them are looked at here at once also shows that
    // the test could see it.
    assert!(looked["small"].1 > 1, "{looked:?}");
}

#[tokio::test(start_paused = true)]
async fn where_all_share_one_scope_one_client_can_take_all_of_it() {
    let world = World::new();
    let layer = world.layer().await.max_in_flight(4).build().unwrap();
    let service = layer.layer(Handler);
    let _idle: Vec<_> = (0..4).map(|i| send(&service, "a", &i.to_string(), Slow::never(), TAKES)).collect();
    settle().await;
    assert_eq!(ask(&service, "b", "k").await, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_waits_for_bodies_that_are_coming() {
    let world = World::new();
    let layer = builder(&world).await.build().unwrap();
    let service = layer.layer(Handler);
    let slow = send(&service, "a", "k", Slow::new(3, 10, Duration::from_secs(1)), TAKES);
    settle().await;
    let ending = layer.clone();
    let idle = tokio::spawn(async move { ending.idle().await });
    settle().await;
    assert_eq!(ask(&service, "b", "k").await, StatusCode::SERVICE_UNAVAILABLE);
    assert!(!idle.is_finished());
    assert_eq!(slow.await.unwrap(), StatusCode::CREATED);
    idle.await.unwrap();
    assert_eq!(ask(&service, "b", "k").await, StatusCode::CREATED);
}
