//! Tenants in one store: the records of one cost no other tenant a key.

use crate::running::Inner;
use crate::tenants::Tenant;
use crate::world::*;
use hapax_http::{IdempotencyLayer, LayerBuilder, Problem};
use hapax_store::{BudgetStore, HistoryOptions};
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use std::time::Duration;
use tower_layer::Layer;
use tower_service::Service;

const HOUR: Duration = Duration::from_secs(3_600);

async fn budgeted(bytes: u64) -> LayerBuilder<BudgetStore> {
    let dedup = engine(BudgetStore::new(bytes).unwrap()).build().await.unwrap();
    IdempotencyLayer::builder(dedup)
        .scope(|request| request.extensions.get::<Tenant>().map(|tenant| tenant.0.to_owned()))
}

fn of(tenant: &'static str, key: &str) -> http::Request<Full<bytes::Bytes>> {
    let mut request = request(Method::POST, "/", &[("idempotency-key", key)], "");
    request.extensions_mut().insert(Tenant(tenant));
    request
}

#[tokio::test]
async fn a_tenant_that_fills_the_budget_evicts_its_own_keys_only() {
    let runs = Runs::default();
    let (layer, counted) = (budgeted(8 << 20).await.build().unwrap(), runs.clone());
    let mut service = layer.layer(Inner(move |_: http::Request<_>| {
        counted.begin();
        std::future::ready(Response::new(Full::from(vec![b'x'; 100_000])))
    }));
    // Twenty keys of the ordinary tenant, 2 MB of 6, and then a hundred of the other.
    for key in 0..20 {
        assert_eq!(service.call(of("victim", &key.to_string())).await.unwrap().status(), StatusCode::OK);
    }
    for key in 0..300 {
        assert_eq!(service.call(of("hostile", &key.to_string())).await.unwrap().status(), StatusCode::OK);
    }
    for key in 0..20 {
        let again = service.call(of("victim", &key.to_string())).await.unwrap();
        assert!(again.headers().contains_key("idempotency-replayed"), "key {key} was evicted");
    }
    assert_eq!(runs.count(), 320);
}

/// Makes a handler that answers 201 with the run and as many bytes as it is asked for.
fn counting(
    runs: &Runs,
) -> impl FnMut(http::Request<hapax_http::Body<Full<bytes::Bytes>>>) -> Answered + Clone + use<> {
    let runs = runs.clone();
    move |_| {
        let text = format!("run {}", runs.begin());
        std::future::ready(Response::builder().status(201).body(Full::from(text)).unwrap())
    }
}

type Answered = std::future::Ready<Response<Full<bytes::Bytes>>>;

fn scoped(world: &World, engine: hapax_store::TieredDedup<Faulty>) -> LayerBuilder<Faulty> {
    let _ = world;
    IdempotencyLayer::builder(engine)
        .scope(|request| request.extensions.get::<Tenant>().map(|tenant| tenant.0.to_owned()))
}

#[tokio::test(start_paused = true)]
async fn a_scope_that_has_kept_its_keys_is_told_429_for_new_ones_and_answered_for_the_rest() {
    let world = World::new();
    let engine = world.engine().retention(HOUR).build().await.unwrap();
    let layer = scoped(&world, engine).max_kept_bytes_per_scope(3 * 1_024).build().unwrap();
    let mut service = layer.layer(Inner(counting(&world.runs)));
    for key in ["1", "2", "3"] {
        assert_eq!(service.call(of("a", key)).await.unwrap().status(), StatusCode::CREATED);
    }
    let refused = service.call(of("a", "4")).await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    // When the first of them are over, and a sixteenth of that.
    assert_eq!(refused.headers()["retry-after"], "3825");
    assert_eq!((layer.stats().over_quota, world.runs.count()), (1, 3));
    let again = service.call(of("a", "1")).await.unwrap();
    assert!(again.headers().contains_key("idempotency-replayed"), "a retry is answered");
    assert_eq!(service.call(of("b", "4")).await.unwrap().status(), StatusCode::CREATED);
    // Nothing is left behind of the key that was refused.
    tokio::time::advance(Duration::from_secs(3_825)).await;
    world.clock.advance(Duration::from_secs(3_825));
    assert_eq!(service.call(of("a", "4")).await.unwrap().status(), StatusCode::CREATED);
    assert_eq!(world.runs.count(), 5);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_kept_counts_nothing_and_bytes_count() {
    let world = World::new();
    let engine = world.engine().retention(HOUR).build().await.unwrap();
    let layer = scoped(&world, engine).max_kept_bytes_per_scope(1_000).build().unwrap();
    let mut service = layer.layer(Inner(|request: http::Request<_>| {
        let status = request.headers()["x-status"].to_str().unwrap().parse::<u16>().unwrap();
        std::future::ready(Response::builder().status(status).body(Full::from(vec![7; 2_000])).unwrap())
    }));
    let with = |tenant, key: &str, status: &'static str| {
        let mut request = of(tenant, key);
        request.headers_mut().insert("x-status", http::HeaderValue::from_static(status));
        request
    };
    for key in 0..5 {
        assert_eq!(service.call(with("a", &key.to_string(), "500")).await.unwrap().status().as_u16(), 500);
    }
    assert_eq!(service.call(with("a", "k", "200")).await.unwrap().status(), StatusCode::OK);
    let refused = service.call(with("a", "l", "200")).await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);

    let engine = world.engine().retention(HOUR).build().await.unwrap();
    let layer = scoped(&world, engine).max_kept_bytes_per_scope(6_000).build().unwrap();
    let mut service =
        layer.layer(Inner(|_: http::Request<_>| std::future::ready(Response::new(Full::from(vec![7; 1_990])))));
    let mut answered = Vec::new();
    for key in 0..4 {
        answered.push(service.call(of("c", &key.to_string())).await.unwrap().status().as_u16());
    }
    // Two are 6,000 bytes and a little: one is let in while there is anything left.
    assert_eq!(answered, [200, 200, 429, 429]);
}

#[tokio::test]
async fn limits_of_a_scope_need_scopes() {
    let world = World::new();
    for wrong in [
        world.layer().await.max_kept_bytes_per_scope(5).build(),
        scoped(&world, world.engine().build().await.unwrap()).max_kept_bytes_per_scope(0).build(),
    ] {
        let error = wrong.unwrap_err();
        assert!(error.to_string().contains("max_kept_"), "{error}");
    }
}

#[tokio::test]
async fn routes_have_retentions_of_their_own() {
    let world = World::new();
    let layer = world.layer().await.retention(|request| match request.uri.path() {
        "/short" => Some(HOUR),
        "/long" => Some(100 * 24 * HOUR),
        _ => None,
    });
    let mut service = layer.build().unwrap().layer(Inner(counting(&world.runs)));
    let sent = |path: &'static str| request(Method::POST, path, &[("idempotency-key", path)], "");
    let paths = ["/short", "/usual", "/long"];
    for path in paths {
        service.call(sent(path)).await.unwrap();
    }
    for (passes, replayed) in [
        (HOUR - Duration::from_secs(1), [true, true, true]),
        (Duration::from_secs(2), [false, true, true]),
        // The engine's retention, a day; the short one is over again.
        (24 * HOUR, [false, false, true]),
    ] {
        world.clock.advance(passes);
        for (path, replayed) in paths.into_iter().zip(replayed) {
            let answer = service.call(sent(path)).await.unwrap();
            assert_eq!(answer.headers().contains_key("idempotency-replayed"), replayed, "{path}");
        }
    }
}

#[tokio::test]
async fn no_retention_at_all_is_told_before_anything_is_handled() {
    let world = World::new();
    for gone_for in [Duration::ZERO, HOUR] {
        let layer = world.layer().await.retention(|_| Some(Duration::ZERO)).gone_for(gone_for);
        world.counting(layer).await.post("k", "").await.is_problem(Problem::StoreFailed);
    }
    assert_eq!(world.runs.count(), 0);
}

#[tokio::test]
async fn an_exclusive_engine_remembers_for_as_long_as_its_history_and_says_so() {
    let exclusive = async || {
        let engine = engine(hapax_store::InMemoryStore::new()).ownership(hapax_store::Ownership::Exclusive);
        engine.history(HistoryOptions { ids: 10_000, false_positive_rate: 1e-4 }).retention(HOUR).build().await.unwrap()
    };
    let layer = IdempotencyLayer::builder(exclusive().await).global_scope();
    let error = layer.gone_for(HOUR).build().unwrap_err();
    assert!(error.to_string().contains("gone_for"), "{error}");
    for (retention, gone_for, status) in [(1, 0, 201), (2, 0, 500), (1, 1, 500)] {
        let layer = IdempotencyLayer::builder(exclusive().await).global_scope();
        let layer = layer.retention(move |_| Some(retention * HOUR)).gone_for(gone_for * HOUR);
        let runs = Runs::default();
        let mut service = layer.build().unwrap().layer(Inner(counting(&runs)));
        let sent = request(Method::POST, "/", &[("idempotency-key", "k")], "");
        assert_eq!(service.call(sent).await.unwrap().status().as_u16(), status);
        assert_eq!(runs.count(), u64::from(status == 201));
    }
}

#[tokio::test]
async fn a_key_that_has_expired_is_gone_for_as_long_as_asked_for() {
    let world = World::new();
    let layer = world.layer().await.gone_for(2 * HOUR).retention(|_| Some(HOUR)).build().unwrap();
    let (runs, stats) = (world.runs.clone(), layer.clone());
    let server = Server::start(layer, move |_: axum::extract::Request| {
        let run = runs.begin();
        std::future::ready(Response::builder().status(201).body(format!("run {run}: ").into()).unwrap())
    })
    .await;
    server.post("k", "").await.is_run(1, "");
    world.clock.advance(HOUR - Duration::from_secs(1));
    assert!(server.post("k", "").await.is_replayed());
    for passes in [Duration::from_secs(2), 2 * HOUR - Duration::from_secs(10)] {
        world.clock.advance(passes);
        let gone = server.post("k", "").await;
        gone.is_problem(Problem::KeyExpired);
        assert_eq!((gone.status, gone.header("retry-after")), (StatusCode::GONE, None));
        server.post("k", "another").await.is_problem(Problem::FingerprintMismatch);
    }
    assert_eq!((stats.stats().expired, world.runs.count()), (2, 1));
    world.clock.advance(Duration::from_secs(20));
    server.post("k", "").await.is_run(2, "");
    // A layer without such an option goes by the record.
    let plain = world.counting(world.layer().await).await;
    world.clock.advance(HOUR);
    plain.post("k", "").await.is_problem(Problem::KeyExpired);
}

#[tokio::test]
async fn methods_are_covered_by_option() {
    let world = World::new();
    let methods = [Method::POST, Method::PATCH, Method::PUT, Method::DELETE];
    let usual = world.counting(world.layer().await).await;
    let all = world.counting(world.layer().await.methods(methods.clone())).await;
    for (server, name, covered) in [(&usual, "usual", 2), (&all, "all", 4)] {
        for (i, method) in methods.iter().enumerate() {
            let key = format!("{name}-{method}");
            let sent = || request(method.clone(), "/things/7", &[("idempotency-key", &key)], "");
            let first = server.send(sent()).await;
            let again = server.send(sent()).await;
            assert_eq!(again.is_replayed(), i < covered, "{key}");
            assert_eq!(again.body == first.body, i < covered, "{key}");
        }
    }
}
