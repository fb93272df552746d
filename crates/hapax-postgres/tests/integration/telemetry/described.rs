//! Messages that say what they are, through inbox, outbox, relay and capture.

use crate::*;
use hapax_message::Described as _;
use hapax_message::cloudevents::{Binding, Event};
use hapax_postgres::cloudevents::StoredEvent;
use hapax_store::ErrorKind;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Texts that are hard on SQL, arrays and literals.
fn hostile() -> Vec<String> {
    let texts =
        ["order.paid", "'); DROP TABLE x; --", "a\\'b\"c", "{NULL,\"\"}", "NULL", "€ \u{1f4a9}", " ", "$1 %s {p}"];
    texts.into_iter().map(str::to_owned).chain([("ä").repeat(DESCRIPTION_BYTES_MAX / 2)]).collect()
}

/// Publishes all that is in the outbox.
async fn published(place: &Place, client: &Client) -> Vec<Message> {
    let keeps = Arc::new(Keeps::default());
    place.publish_all(client, place.relay(), &keeps).await;
    keeps.taken()
}

fn says(message: &Message) -> [Option<&str>; 4] {
    let [kind, source, subject] = [&message.kind, &message.source, &message.subject].map(Option::as_deref);
    [kind, source, subject, message.header("TraceParent")]
}

#[test]
fn what_a_message_says_of_itself_arrives_as_it_was_said() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let (worker, keeps) = (place.worker("c"), Arc::new(Keeps::default()));
        for (n, text) in hostile().iter().enumerate() {
            let id = n.to_string();
            let headers = [("traceparent", TRACE), ("tracestate", "a=b")];
            let plain = NewMessage::new(&id, "payload").headers(&headers);
            let described = plain.kind(text).source(text).subject(text);
            let expected = [Some(text.as_str()), Some(text), Some(text), Some(TRACE)];
            for message in [described, described.key("k")] {
                let _ = place.receive(&mut client, "c", message).await;
                assert_eq!(worker.step(&keeps).await.unwrap(), 1);
                assert_eq!(says(&keeps.taken()[0]), expected, "received");
                place.execute(&client, "DELETE FROM {p}_marks").await;
                place.enqueue(&mut client, "t", message).await;
                assert_eq!(says(&published(&place, &client).await[0]), expected, "enqueued");
                let batch = [plain.kind(text), message, plain];
                place.enqueue_all(&mut client, "t", batch).await;
                let mut all = published(&place, &client).await;
                all.sort_by_key(|message| (message.kind.is_none(), message.subject.is_none()));
                let all: Vec<_> = all.iter().map(says).collect();
                let other = |kind| [kind, None, None, Some(TRACE)];
                assert_eq!(all, [expected, other(Some(text.as_str())), other(None)], "in a batch");
            }
            let mut tx = client.transaction().await.unwrap();
            outbox::capture(&mut tx, &place.tables, "t", &[described, plain]).await.unwrap();
            tx.commit().await.unwrap();
            let sql = format!("SELECT kind, source, subject FROM {}_outbox_capture ORDER BY position", place.prefix);
            let rows = client.query(&sql, &[]).await.unwrap();
            let captured = |row: &tokio_postgres::Row| [0, 1, 2].map(|at| row.get::<_, Option<String>>(at));
            assert_eq!(captured(&rows[0]), [Some(text.clone()), Some(text.clone()), Some(text.clone())]);
            assert_eq!(captured(&rows[1]), [None, None, None]);
            place.execute(&client, "DELETE FROM {p}_outbox_capture").await;
        }
        // A dead letter says it, too.
        let message = NewMessage::new("dead", "").kind("a kind").subject("a subject");
        let _ = place.receive(&mut client, "c", message).await;
        assert_eq!(place.worker("c").step(&Arc::new(GivesUp)).await.unwrap(), 1);
        let letters = inbox::dead_letters(&client, &place.tables, None, 0, 10).await.unwrap();
        assert_eq!(says(&letters[0].message), [Some("a kind"), None, Some("a subject"), None]);
    });
}

#[test]
fn what_no_message_can_say_is_refused_before_the_server_is_asked() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let long = "x".repeat(DESCRIPTION_BYTES_MAX + 1);
        let mut tx = client.transaction().await.unwrap();
        for text in ["", "a\0b", "a\nb", "\u{7f}", &long] {
            let message = NewMessage::new("m", "");
            for message in [message.kind(text), message.source(text), message.subject(text)] {
                let errors = [
                    inbox::receive(&mut tx, &place.tables, "c", message).await.map(drop),
                    outbox::enqueue(&mut tx, &place.tables, "t", message).await.map(|_| ()),
                    outbox::enqueue_batch(&mut tx, &place.tables, "t", &[message]).await.map(|_| ()),
                    outbox::capture(&mut tx, &place.tables, "t", &[message]).await,
                ];
                assert!(
                    errors
                        .iter()
                        .all(|error| error.as_ref().is_err_and(|error| error.kind() == ErrorKind::Misconfigured))
                );
            }
            let mark = inbox::NewMark::new("m");
            for mark in [mark.kind(text), mark.source(text), mark.subject(text), mark.processor(text)] {
                let error = inbox::mark(&mut tx, &place.tables, "c", mark).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
                assert!(inbox::mark_batch(&mut tx, &place.tables, "c", &[mark]).await.is_err());
            }
            let query = inbox::HandledQuery::of_subject(text);
            assert!(inbox::handled(&place.client().await, &place.tables, query).await.is_err());
        }
        // The transaction is as it was.
        assert!(inbox::once(&mut tx, &place.tables, "c", "m").await.unwrap().is_first());
    });
}

#[test]
fn an_event_of_cloudevents_is_the_same_behind_inbox_and_outbox() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let event = Event::new("17", "/orders", "order.paid").unwrap().with_subject("order-17 €").unwrap();
        let event = event.with_extension("partitionkey", "order-17").unwrap();
        let event = event.with_extension("traceparent", TRACE).unwrap().with_time("2026-11-26T16:20:00Z").unwrap();
        let event = event.with_data("application/json", r#"{"order":17}"#).unwrap();
        let bindings = [Binding::Http, Binding::Nats, Binding::Kafka, Binding::Amqp];
        let modes = bindings.map(|binding| StoredEvent::binary(&event, binding));
        let (worker, keeps) = (place.worker("c"), Arc::new(Keeps::default()));
        for (n, stored) in modes.iter().enumerate() {
            // The same event, however it is sent, is a duplicate.
            assert_eq!(place.receive(&mut client, "c", stored.message()).await.is_first(), n == 0);
            place.enqueue(&mut client, "t", stored.message()).await;
        }
        worker.step(&keeps).await.unwrap();
        let messages = [keeps.taken(), published(&place, &client).await].concat();
        assert_eq!(messages.len(), 1 + modes.len());
        for message in messages {
            assert_eq!(message.event().unwrap(), event, "{message:?}");
            assert_eq!((message.kind(), message.subject()), (Some("order.paid"), Some("order-17 €")));
            assert_eq!(message.key(), Some(&b"order-17"[..]));
            let trace = hapax_message::TraceContext::of(&message);
            assert!(trace.is_some_and(|trace| trace.traceparent() == TRACE) || message.headers.len() == 1);
        }
        // A message of a broker, as it says itself.
        let received = NewMessage::new("m", event.payload()).described_by(&event);
        assert!(place.receive(&mut client, "d", received).await.is_first());
        place.worker("d").step(&keeps).await.unwrap();
        assert_eq!(says(&keeps.taken()[0])[..3], [Some("order.paid"), Some("/orders"), Some("order-17 €")]);
    });
}
