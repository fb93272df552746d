//! Messages whose content is compared with that of others of their id.

use crate::*;
use hapax_postgres::inbox::Compared;

async fn compare(place: &Place, client: &mut Client, consumer: &str, payload: &str, how: OnMismatch) -> Compared {
    let mut tx = client.transaction().await.unwrap();
    let message = NewMessage::new("m", payload).key("k");
    let compared = inbox::receive_compared(&mut tx, &place.tables, consumer, message, payload, how).await.unwrap();
    tx.commit().await.unwrap();
    compared
}

/// Returns how many messages of a consumer wait, and how many are dead letters.
async fn stored(place: &Place, client: &Client, consumer: &str) -> [i64; 2] {
    let of = format!("SELECT count(*) FROM {{p}}_inbox WHERE name = '{consumer}' AND dead_at IS ");
    [place.count(client, &format!("{of} NULL")).await, place.count(client, &format!("{of} NOT NULL")).await]
}

fn payloads(handled: &Keeps) -> Vec<String> {
    handled.taken().iter().map(|message| text(&message.payload)).collect()
}

#[test]
fn another_message_of_an_id_is_treated_as_was_chosen_and_stored_once() {
    Place::run(async |place| {
        let mut client = place.client().await;
        for (how, others) in
            [(OnMismatch::DeadLetter, [1, 1]), (OnMismatch::Drop, [1, 0]), (OnMismatch::Handle, [2, 0])]
        {
            let consumer = format!("{how:?}");
            assert_eq!(compare(&place, &mut client, &consumer, "a", how).await, Compared::Same(Seen::First));
            let again = compare(&place, &mut client, &consumer, "a", how).await;
            let Compared::Same(Seen::Duplicate { first_at }) = again else { panic!("{again:?}") };
            for _ in 0..3 {
                let other = compare(&place, &mut client, &consumer, "b", how).await;
                assert_eq!(other, Compared::Mismatch { first_at }, "{how:?}");
            }
            assert_eq!(stored(&place, &client, &consumer).await, others, "{how:?}");
            let handled = Arc::new(Keeps::default());
            place.handle_all(&client, place.worker(&consumer), &handled).await;
            let expected: &[&str] = if how == OnMismatch::Handle { &["a", "b"] } else { &["a"] };
            assert_eq!(payloads(&handled), expected, "in their order");
            // When it is handled, its mark still says what it was.
            let again = compare(&place, &mut client, &consumer, "a", how).await;
            assert_eq!(again, Compared::Same(Seen::Duplicate { first_at }));
            assert_eq!(compare(&place, &mut client, &consumer, "b", how).await, Compared::Mismatch { first_at });
        }
    });
}

#[test]
fn what_is_put_aside_for_its_content_is_a_dead_letter_like_any() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let _ = compare(&place, &mut client, "c", "a", OnMismatch::default()).await;
        let _ = compare(&place, &mut client, "c", "b", OnMismatch::default()).await;
        // A result is that of the message that is handled.
        let mut tx = client.transaction().await.unwrap();
        let waiting = Message::new("c", "m", "a");
        assert!(inbox::keep_result(&mut tx, &place.tables, &waiting, "done").await.unwrap());
        tx.commit().await.unwrap();
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_inbox WHERE result IS NOT NULL").await, 1);

        let letters = inbox::dead_letters(&client, &place.tables, Some("c"), 0, 10).await.unwrap();
        assert_eq!(
            (letters.len(), text(&letters[0].message.id), text(&letters[0].message.payload)),
            (1, "m".into(), "b".into())
        );
        assert!(letters[0].error.contains("another fingerprint"), "{}", letters[0].error);
        assert_eq!(inbox::requeue(&client, &place.tables, Letters::These(&letters)).await.unwrap(), 1);
        let handled = Arc::new(Keeps::default());
        place.handle_all(&client, place.worker("c"), &handled).await;
        assert_eq!(payloads(&handled), ["a", "b"]);
        assert_eq!(stored(&place, &client, "c").await, [0, 0]);
    });
}

#[test]
fn what_nobody_can_compare_is_a_duplicate() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let how = OnMismatch::DeadLetter;
        assert!(place.once(&mut client, "once", "m").await.is_first());
        assert!(place.receive(&mut client, "received", NewMessage::new("m", "a")).await.is_first());
        for consumer in ["once", "received"] {
            let compared = compare(&place, &mut client, consumer, "b", how).await;
            assert!(matches!(compared, Compared::Same(Seen::Duplicate { .. })), "{compared:?}");
        }
        assert_eq!(compare(&place, &mut client, "c", "a", how).await, Compared::Same(Seen::First));
        let not_compared = place.receive(&mut client, "c", NewMessage::new("m", "b")).await;
        assert!(!not_compared.is_first(), "who does not compare sees an id");
        // It waits, and its mark is gone: nobody knows what it was, and "a" is no other one later.
        place.execute(&client, "DELETE FROM {p}_marks").await;
        for payload in ["b", "a"] {
            let compared = compare(&place, &mut client, "c", payload, how).await;
            assert!(matches!(compared, Compared::Same(Seen::Duplicate { .. })), "{payload}: {compared:?}");
        }
        assert_eq!(stored(&place, &client, "c").await, [1, 0]);
    });
}
