//! The room that a backlog leaves in indexes when it has gone, and how to have it back.

use super::relays::{start, until_empty};
use crate::*;

/// Returns the bytes of an outbox's rows, and of its indexes.
async fn sizes(place: &Place, client: &Client) -> (i64, i64) {
    let of = |what: &str| format!("SELECT pg_catalog.pg_{what}_size('{{p}}_outbox')");
    (place.count(client, &of("table")).await, place.count(client, &of("indexes")).await)
}

/// As guide 5 says: vacuum keeps the room of indexes for what comes next. While they are built
/// anew, nobody who enqueues or publishes has to pause.
#[test]
fn indexes_of_an_emptied_outbox_shrink_when_they_are_built_anew() {
    Place::run_alone(async |place| {
        let mut client = place.client().await;
        let empty = sizes(&place, &client).await;
        let ids: Vec<String> = (0..8_000).map(|i| format!("message-{i:08}")).collect();
        for ids in ids.chunks(outbox::BATCH_MAX) {
            place.enqueue_all(&mut client, "t", ids.iter().map(|id| NewMessage::new(id, "").key(id))).await;
        }
        let full = sizes(&place, &client).await;
        assert!(full.1 > 8 * empty.1, "{empty:?}, then {full:?}");

        let (stop, relay) = start(place.relay(), &Arc::new(Nothing));
        until_empty(&place, &client).await;
        place.execute(&client, "VACUUM {p}_outbox").await;
        let emptied = sizes(&place, &client).await;
        assert!(emptied.1 > full.1 / 2, "only now they take {emptied:?}, of {full:?}");

        // The relay goes on, and so does whoever enqueues.
        let other = place.client().await;
        let builds = async {
            for table in ["outbox", "outbox_keys"] {
                place.execute(&other, &format!("REINDEX TABLE CONCURRENTLY {{p}}_{table}")).await;
            }
        };
        let enqueues = async {
            for i in 0..20 {
                place.enqueue(&mut client, "t", NewMessage::new(&format!("meanwhile-{i}"), "")).await;
            }
        };
        tokio::join!(builds, enqueues);
        until_empty(&place, &client).await;
        let built = sizes(&place, &client).await;
        assert!(built.1 < emptied.1 / 8, "{emptied:?}, then {built:?}");
        stop.send(true).unwrap();
        relay.await.unwrap();
    });
}
