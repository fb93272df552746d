//! Spans of workers and relays, as `docs/metrics.md` lists them, as a subscriber sees them.

use crate::*;
use std::fmt::{Debug, Write};
use std::sync::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// The recorded spans.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Fields<'l>(&'l mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("hapax_postgres")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = format!("{} {}", span.metadata().level(), span.metadata().name());
        span.record(&mut Fields(&mut line));
        let mut lines = self.0.lock().unwrap();
        lines.push(line);
        Id::from_u64(lines.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(&mut Fields(&mut self.0.lock().unwrap()[span.into_u64() as usize - 1]));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A publisher of batches.
struct Batches;

impl Publisher for Batches {
    async fn publish(&self, _: &Message) -> Result<(), BoxError> {
        Ok(())
    }

    async fn publish_batch(&self, messages: &[Message]) -> Option<Vec<Result<(), BoxError>>> {
        Some(messages.iter().map(|_| Ok(())).collect())
    }
}

#[test]
fn spans_say_what_a_message_is_and_to_which_trace_it_belongs() {
    let Some(server) = Server::shared() else { return };
    let lines = Lines::default();
    // While there is one subscriber, spans that another thread, without any, is the first to meet
    // are switched off for all. So there are two.
    let _another = tracing::Dispatch::new(Lines::default());
    let _guard = tracing::subscriber::set_default(lines.clone());
    tracing::callsite::rebuild_interest_cache();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (prefix, tables) = ("spans".to_owned(), Tables::new("public", "spans").unwrap());
        let place = Place { server, tables, prefix };
        let mut client = place.client().await;
        place.tables.migrate(&client).await.unwrap();
        let headers = [("TraceParent", TRACE)];
        let message = NewMessage::new("m", "").kind("paid").source("/orders").subject("order-17").headers(&headers);
        let wrong = [("traceparent", "nonsense")];
        let _ = place.receive(&mut client, "c", message).await;
        let _ = place.receive(&mut client, "c", NewMessage::new(&[0xff], "").headers(&wrong)).await;
        place.worker("c").processor("pod").unwrap().step(&Arc::new(Keeps::default())).await.unwrap();
        let says = "kind=\"paid\" source=\"/orders\" subject=\"order-17\" id=\"m\" \
             traceparent=\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\" \
             trace_id=\"0af7651916cd43dd8448eb211c80319c\"";
        let mut seen = std::mem::take(&mut *lines.0.lock().unwrap());
        seen.sort();
        let handled = "DEBUG hapax_worker_handle consumer=\"c\" processor=\"pod\" attempt=1 otel.kind=\"consumer\" \
             messaging.operation.type=\"process\"";
        assert_eq!(seen, [handled.to_owned(), format!("{handled} {says}")]);

        let left = "SELECT count(*) FROM {p}_outbox";
        let otel = "otel.kind=\"producer\" messaging.operation.type=\"send\"";
        let published = format!("DEBUG hapax_relay_publish topic=\"t\" attempt=1 {otel} {says}");
        for batched in [false, true] {
            place.enqueue(&mut client, "t", message).await;
            let done = until("it is published", async || place.count(&client, left).await == 0);
            if batched {
                place.relay().run(Arc::new(Batches), done).await.unwrap()
            } else {
                place.relay().run(Arc::new(Keeps::default()), done).await.unwrap()
            }
            let seen = std::mem::take(&mut *lines.0.lock().unwrap());
            let batch = "DEBUG hapax_relay_publish_batch messages=1".to_owned();
            // Whether a publisher has batches is found out by the first one.
            assert!(seen.contains(&batch) && seen.contains(&published), "{seen:?}");
        }
    });
    let documents = include_str!("../../../../../docs/metrics.md");
    for name in ["hapax_worker_handle", "hapax_relay_publish", "hapax_relay_publish_batch"] {
        assert!(documents.contains(&format!("| span `{name}` | debug |")), "{name}");
    }
}
