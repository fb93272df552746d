//! Handlers by kind: what is parsed, what is not, and what nobody handles.

use super::logs::Journal;
use super::*;
use hapax_message::cloudevents::Event;
use hapax_message::{Described, TraceContext};
use hapax_stream::{ConsumerStats, Delivery, LogConsumer, OnUnknown, Router, RouterError, RouterStats, Source};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::pending;
use std::sync::Mutex;

/// A queue of events in memory.
#[derive(Default)]
struct Events {
    sent: Mutex<Vec<Event>>,
    acknowledged: Mutex<Vec<String>>,
    dead: Mutex<BTreeMap<String, String>>,
}

impl Events {
    fn of(events: &[(&str, &str, &str)]) -> Self {
        let event = |(id, kind, data): &(&str, &str, &str)| {
            let event = Event::new(*id, "/orders", *kind).unwrap();
            event.with_data("application/json", *data).unwrap()
        };
        Events { sent: Mutex::new(events.iter().map(event).collect()), ..Events::default() }
    }

    fn dead(&self) -> BTreeMap<String, String> {
        self.dead.lock().unwrap().clone()
    }
}

impl Source for Events {
    type Message = Event;
    type Error = Infallible;

    async fn receive(&self, _: usize) -> Result<Option<Vec<Event>>, Infallible> {
        let sent = std::mem::take(&mut *self.sent.lock().unwrap());
        Ok((!sent.is_empty()).then_some(sent))
    }

    async fn acknowledge(&self, messages: &[Arc<Event>]) -> Result<(), Infallible> {
        self.acknowledged.lock().unwrap().extend(messages.iter().map(|event| event.event_id().to_owned()));
        Ok(())
    }

    async fn retry(&self, message: &Arc<Event>, _: Duration) -> Result<(), Infallible> {
        self.sent.lock().unwrap().push(Event::clone(message));
        Ok(())
    }

    async fn dead_letter(&self, message: &Arc<Event>, why: &str) -> Result<(), Infallible> {
        self.dead.lock().unwrap().insert(message.event_id().to_owned(), why.to_owned());
        Ok(())
    }
}

fn id_of(event: &Event) -> Option<Vec<u8>> {
    event.id().map(|id| id.into_owned())
}

#[derive(serde::Deserialize)]
struct Placed {
    total: u32,
}

type Seen = Arc<Mutex<Vec<String>>>;

fn router(seen: &Seen) -> Router<Event> {
    let (placed, cancelled) = (Arc::clone(seen), Arc::clone(seen));
    Router::new()
        .on_json("placed", move |order: Placed, delivery: Delivery<Event>| {
            placed.lock().unwrap().push(format!("{} for {}", delivery.event_id(), order.total));
            async { Ok::<(), String>(()) }
        })
        .unwrap()
        .on("cancelled", move |delivery: Delivery<Event>| {
            cancelled.lock().unwrap().push(format!("{} cancelled", delivery.event_id()));
            async { Ok::<(), String>(()) }
        })
        .unwrap()
}

const EVENTS: [(&str, &str, &str); 5] = [
    ("1", "placed", r#"{"total": 12}"#),
    ("2", "cancelled", "no JSON at all"),
    ("3", "placed", r#"{"total": "twelve"}"#),
    ("4", "unheard-of", "{}"),
    ("5", "placed", "{"),
];

/// Runs a router in a consumer, and another one in a consumer of a log.
async fn routed(
    name: &str,
    build: impl Fn(&Seen) -> Router<Event>,
) -> Vec<(Events, ConsumerStats, RouterStats, Vec<String>)> {
    let mut ended = Vec::new();
    for in_a_log in [false, true] {
        let (events, seen) = (Events::of(&EVENTS), Seen::default());
        let router = build(&seen);
        let stats = if in_a_log {
            let journal = Journal::new(&format!("routing-{name}"));
            let consumer = LogConsumer::builder("orders", journal.open(), id_of).build().unwrap();
            consumer.run(&events, router.handler(), pending()).await.unwrap()
        } else {
            let consumer = Consumer::builder("orders", World::new().shared().await, id_of).build().unwrap();
            consumer.run(&events, router.handler(), pending()).await.unwrap()
        };
        let mut seen = std::mem::take(&mut *seen.lock().unwrap());
        seen.sort_unstable();
        ended.push((events, stats, router.stats(), seen));
    }
    ended
}

#[tokio::test]
async fn what_cannot_be_parsed_or_is_unknown_is_put_aside_at_once() {
    for (events, stats, router, seen) in routed("aside", router).await {
        assert_eq!(seen, ["1 for 12", "2 cancelled"]);
        let dead = events.dead();
        assert_eq!(dead.keys().collect::<Vec<_>>(), ["3", "4", "5"]);
        assert!(dead["3"].starts_with("its payload is not that of kind \"placed\": invalid type: string"), "{dead:?}");
        assert_eq!(dead["4"], "expected a kind that has a handler, got \"unheard-of\"");
        assert_eq!((stats.gave_up, stats.failed, stats.retried, stats.dead_lettered), (3, 3, 0, 3), "{stats:?}");
        assert_eq!((stats.handled, stats.acknowledged), (2, 5));
        assert_eq!((router.unknown, router.malformed), (1, 2));
    }
}

#[tokio::test]
async fn an_unknown_kind_is_passed_on_or_goes_to_the_fallback() {
    let passing = |seen: &Seen| router(seen).on_unknown(OnUnknown::Pass);
    for (events, stats, router, _) in routed("passed", passing).await {
        assert!(!events.dead().contains_key("4"));
        assert_eq!((stats.handled, stats.acknowledged, router.passed, router.unknown), (3, 5, 1, 0));
    }
    let falling_back = |seen: &Seen| {
        let other = Arc::clone(seen);
        let fallback = move |delivery: Delivery<Event>| {
            other.lock().unwrap().push(format!("other {:?}", delivery.kind()));
            async { Ok::<(), String>(()) }
        };
        router(seen).on_unknown(OnUnknown::DeadLetter).fallback(fallback)
    };
    for (events, _, router, seen) in routed("fallback", falling_back).await {
        assert!(!events.dead().contains_key("4"));
        assert_eq!((seen.last().map(String::as_str), router.fallback), (Some("other Some(\"unheard-of\")"), 1));
    }
}

#[tokio::test]
async fn kinds_may_be_elsewhere_and_causes_may_be_wrapped() {
    let build = |_: &Seen| {
        let given_up = |_: Delivery<Event>| async {
            Err::<(), _>(std::io::Error::other(hapax_message::GiveUp::because("it is too late")))
        };
        let kind_of = |event: &Event| Some(format!("v1/{}", event.kind()?));
        Router::new().on("v1/placed", given_up).unwrap().kind_by(kind_of).on_unknown(OnUnknown::Pass)
    };
    for (events, stats, router, _) in routed("elsewhere", build).await {
        assert_eq!((stats.gave_up, stats.retried, router.passed), (3, 0, 2));
        assert!(events.dead().values().all(|why| why == "it is too late"), "{:?}", events.dead());
    }
}

#[test]
fn a_kind_has_one_handler() {
    let handler = |_: Delivery<Event>| async { Ok::<(), String>(()) };
    let router = || Router::<Event>::new().on("a", handler).unwrap().on("b", handler).unwrap();
    assert_eq!(router().on("a", handler).unwrap_err(), RouterError::Twice { kind: "a".to_owned() });
    assert_eq!(router().on("", handler).unwrap_err(), RouterError::EmptyKind);
    // A clone gets handlers of its own.
    let one = router();
    one.clone().on("c", handler).unwrap();
    assert!(one.on("c", handler).is_ok());
}

#[tokio::test]
async fn a_delivery_says_what_its_message_says() {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let event = Event::new("1", "/orders", "placed").unwrap().with_subject("17").unwrap();
    let event = event.with_extension("traceparent", trace).unwrap().with_extension("partitionkey", "k").unwrap();
    let events = Events { sent: Mutex::new(vec![event.clone()]), ..Events::default() };
    let handle = move |delivery: Delivery<Event>| {
        let described: &dyn Described = &delivery;
        assert_eq!((described.id(), described.kind(), described.source()), (event.id(), event.kind(), event.source()));
        assert_eq!((described.subject(), described.key()), (Some("17"), Some(&b"k"[..])));
        assert_eq!(TraceContext::of(&delivery).map(|trace| trace.traceparent()).as_deref(), Some(trace));
        async { Ok::<(), String>(()) }
    };
    let consumer = Consumer::builder("orders", World::new().shared().await, id_of).max_attempts(1).build().unwrap();
    let stats = consumer.run(&events, handle, pending()).await.unwrap();
    assert_eq!(stats.handled, 1, "{stats:?} {:?}", events.dead());
}

#[tokio::test]
async fn a_reason_of_any_length_reaches_the_broker_as_its_beginning() {
    const LARGE: usize = 1 << 20;
    let handle = |delivery: Delivery<Event>| async move {
        match delivery.kind() {
            // (Its 1,024th byte is within a character.)
            Some("placed") => Err(format!("x{}", "ü".repeat(LARGE))),
            _ => panic!("{}", "y".repeat(10_000)),
        }
    };
    let consumer = Consumer::builder("orders", World::new().shared().await, id_of).max_attempts(1).build().unwrap();
    let journal = Journal::new("reasons");
    let of_log = LogConsumer::builder("orders", journal.open(), id_of).max_attempts(1).build().unwrap();
    let (events, of_a_log) = (Events::of(&EVENTS[..2]), Events::of(&EVENTS[..2]));
    consumer.run(&events, handle, pending()).await.unwrap();
    of_log.run(&of_a_log, handle, pending()).await.unwrap();
    for dead in [events.dead(), of_a_log.dead()] {
        assert!(dead["1"].starts_with("xüü") && dead["1"].len() == 1_023, "{} bytes", dead["1"].len());
        assert!(dead["2"].starts_with("the handler panicked: yy") && dead["2"].len() == 1_024, "{}", dead["2"].len());
    }
}
