//! Calls behind an outbox, against an API that takes keys, counts effects, loses answers, and is
//! still running when it is asked again.

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::routing::post;
use bytes::Bytes;
use hapax_http::HttpPublisher;
use hapax_message::{GiveUp, Message, Publisher};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// A trouble of the API with a call. A key has some, one after the other; then it is answered.
#[derive(Clone, Copy, PartialEq)]
enum Call {
    Fails,
    LosesItsAnswer,
    StillRuns,
    IsThrottled,
}

#[derive(Default)]
struct Api {
    calls: Mutex<HashMap<String, Vec<Call>>>,
    effects: Mutex<HashMap<String, Vec<String>>>,
}

impl Api {
    fn call(&self, key: &str, payload: &str) -> StatusCode {
        let next = self.calls.lock().unwrap().get_mut(key).and_then(Vec::pop);
        let effect = || {
            let mut effects = self.effects.lock().unwrap();
            let effects = effects.entry(key.to_owned()).or_default();
            if effects.is_empty() {
                effects.push(payload.to_owned());
            }
        };
        match next {
            Some(Call::Fails) => StatusCode::BAD_GATEWAY,
            Some(Call::IsThrottled) => StatusCode::TOO_MANY_REQUESTS,
            Some(Call::StillRuns) => StatusCode::CONFLICT,
            Some(Call::LosesItsAnswer) => {
                effect();
                panic!("the connection breaks");
            }
            None => {
                effect();
                StatusCode::CREATED
            }
        }
    }
}

type Posts = HttpPublisher<Client<hyper_util::client::legacy::connect::HttpConnector, Full<Bytes>>, Full<Bytes>>;

async fn serve() -> (Arc<Api>, Posts) {
    let api = Arc::<Api>::default();
    let charge = |State(api): State<Arc<Api>>, headers: HeaderMap, body: String| async move {
        let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!((header("tenant"), headers.get_all("idempotency-key").iter().count()), (Some("a".into()), 1));
        api.call(&header("idempotency-key").unwrap(), &body)
    };
    let other = |uri: Uri| async move {
        let status = uri.path().trim_matches('/').parse().ok().and_then(|code| StatusCode::from_u16(code).ok());
        (status.unwrap_or(StatusCode::NOT_FOUND), "no such\nthing")
    };
    let router = Router::new().route("/charges", post(charge)).fallback(other).with_state(Arc::clone(&api));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let client = Client::builder(TokioExecutor::new()).build_http();
    (api, HttpPublisher::new(client, move |message| format!("http://{address}/{}", message.name)))
}

fn message(topic: &str, id: &str) -> Message {
    let mut message = Message::new(topic, id, format!("payload of {id}"));
    message.headers = vec![("tenant".into(), "a".into()), ("Idempotency-Key".into(), "another's".into())];
    message
}

#[tokio::test]
async fn whatever_the_api_does_with_an_attempt_each_message_has_its_effect_once() {
    let (api, publisher) = serve().await;
    let kinds = [Call::Fails, Call::LosesItsAnswer, Call::StillRuns, Call::IsThrottled];
    // All orders of two calls that go wrong, and then one that does not.
    for (number, (first, second)) in kinds.iter().flat_map(|a| kinds.map(|b| (*a, b))).enumerate() {
        let id = format!("order-{number}");
        api.calls.lock().unwrap().insert(id.clone(), vec![second, first]);
        for attempt in 0..3 {
            let answer = publisher.publish(&message("charges", &id)).await;
            assert_eq!(answer.is_ok(), attempt == 2, "{id}, attempt {attempt}: {answer:?}");
            assert!(answer.err().is_none_or(|error| !error.is::<GiveUp>()), "{id}: it comes again");
        }
        assert_eq!(api.effects.lock().unwrap()[&id], [format!("payload of {id}")], "once");
    }
}

#[tokio::test]
async fn a_status_says_whether_another_attempt_can_help() {
    let (_, publisher) = serve().await;
    for (status, gives_up) in [
        ("400", true),
        ("404", true),
        ("410", true),
        ("413", true),
        ("422", true),
        ("301", true),
        ("401", false),
        ("403", false),
        ("408", false),
        ("409", false),
        ("425", false),
        ("429", false),
        ("500", false),
        ("503", false),
    ] {
        let error = publisher.publish(&message(status, "order-1")).await.unwrap_err();
        assert_eq!(error.is::<GiveUp>(), gives_up, "{status}: {error}");
        assert!(error.to_string().contains(status) && error.to_string().contains("no such thing"), "{error}");
    }
    let mut wrong = message("charges", "order-1");
    wrong.headers.push(("a b".into(), "c".into()));
    assert!(publisher.publish(&wrong).await.unwrap_err().is::<GiveUp>());
}
