//! Rows that only others can have written, and databases that cannot keep every text.

use crate::*;

/// Returns the ids of what came, in order.
fn taken(keeps: &Keeps) -> Vec<String> {
    let mut taken: Vec<String> = keeps.taken().iter().map(|message| text(&message.id)).collect();
    taken.sort();
    taken
}

/// Says what went wrong with characters that a database in LATIN1 has, and has not.
struct Fails;

const WRONG: &str = "é → 东";

impl Handler for Fails {
    async fn handle(&self, _: &mut tokio_postgres::Transaction<'_>, _: &Message) -> Result<(), BoxError> {
        Err(WRONG.into())
    }
}

impl Publisher for Fails {
    async fn publish(&self, _: &Message) -> Result<(), BoxError> {
        Err(WRONG.into())
    }
}

#[cfg(feature = "sqlx")]
impl SqlxHandler for Fails {
    async fn handle(&self, _: &mut ::sqlx::Transaction<'_, ::sqlx::Postgres>, _: &Message) -> Result<(), BoxError> {
        Err(WRONG.into())
    }
}

/// Changes to a row that hapax does not make, and whether the message can still be read.
const STRANGE: [(&str, bool); 8] = [
    ("headers = ARRAY['a', NULL]", false),
    ("headers = ARRAY[['a', 'b'], ['c', 'd']]", false),
    ("attempts = 2147483647", false),
    ("attempts = -7", false),
    ("enqueued_at = 'infinity'", true),
    ("enqueued_at = '-infinity'", true),
    ("due_at = '-infinity'", true),
    ("expires_at = 'infinity', headers = ARRAY['a']", true),
];

/// Stores each of these strange rows, without a key and with one, between good ones; returns the
/// ids of those that can be read.
async fn strange(place: &Place, client: &mut Client, queue: &str) -> Vec<String> {
    let mut expected = Vec::new();
    for (n, (change, is_read)) in STRANGE.into_iter().enumerate() {
        for key in [None, Some(format!("k{n}"))] {
            if key.is_some() && change.starts_with("due_at") {
                continue;
            }
            for part in ["before", "bad", "behind"] {
                let id = format!("{part} {n} {}", key.is_some());
                let message = NewMessage::new(&id, "");
                let message = if let Some(key) = &key { message.key(key) } else { message };
                match queue {
                    "inbox" => drop(place.receive(client, "c", message).await),
                    _ => place.enqueue(client, "t", message).await,
                }
                if part == "bad" {
                    let sql = format!("UPDATE {{p}}_{queue} SET {change} WHERE id = '{id}'");
                    place.execute(client, &sql).await;
                }
                if part != "bad" || is_read {
                    expected.push(id);
                }
            }
        }
    }
    expected.sort();
    expected
}

fn check(letters: &[DeadLetter]) {
    assert_eq!(letters.len(), 8, "{letters:?}");
    for letter in letters {
        assert!(letter.message.id.starts_with(b"bad "), "{letter:?}");
        assert!(letter.error.starts_with("its row cannot be read: "), "{letter:?}");
        assert!(letter.message.headers.is_empty(), "{letter:?}");
    }
}

#[test]
fn rows_that_hapax_has_not_written_become_dead_letters_and_stop_no_relay() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let expected = strange(&place, &mut client, "outbox").await;
        place.enqueue(&mut client, "u", NewMessage::new("another topic's", "")).await;
        assert!(outbox::backlog(&client, &place.tables, None).await.unwrap().waiting > 0);
        let keeps = Arc::new(Keeps::default());
        place.publish_all(&client, place.relay(), &keeps).await;
        let mut taken = taken(&keeps);
        taken.retain(|id| id != "another topic's");
        assert_eq!(taken, expected);
        check(&outbox::dead_letters(&client, &place.tables, None, 0, 100).await.unwrap());
    });
}

#[test]
fn rows_that_hapax_has_not_written_become_dead_letters_and_stop_no_worker() {
    Place::run(async |place| {
        let mut client = place.client().await;
        let expected = strange(&place, &mut client, "inbox").await;
        assert!(inbox::backlog(&client, &place.tables, None).await.unwrap().waiting > 0);
        let keeps = Arc::new(Keeps::default());
        place.handle_all(&client, place.worker("c").keep(Keep::Messages), &keeps).await;
        assert_eq!(taken(&keeps), expected);
        check(&inbox::dead_letters(&client, &place.tables, None, 0, 100).await.unwrap());
        // Lists have them, too.
        let strange =
            "UPDATE {p}_handled SET headers = ARRAY['a', NULL], handled_at = 'infinity', requeued_at = '-infinity'";
        place.execute(&client, strange).await;
        let query = inbox::HandledQuery::all().content();
        assert_eq!(inbox::handled(&client, &place.tables, query).await.unwrap().len(), expected.len());
    });
}

/// Checks that an error is kept as far as the database can keep it, and settles its message.
#[test]
fn an_error_that_the_database_cannot_spell_is_kept_escaped() {
    Place::run(async |place| {
        let (admin, name) = (place.client().await, format!("{}_latin", place.prefix));
        place.execute(&admin, "CREATE DATABASE {p}_latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'").await;
        let address = place.server.address().replace("dbname=postgres", &format!("dbname={name}"));
        let (tables, mut client) = (Tables::new("public", "l").unwrap(), crate::client(&address).await);
        tables.migrate(&client).await.unwrap();
        let mut tx = client.transaction().await.unwrap();
        for id in ["a", "b"] {
            let _ = inbox::receive(&mut tx, &tables, "c", NewMessage::new(id, "é").subject("é")).await.unwrap();
            outbox::enqueue(&mut tx, &tables, "t", NewMessage::new(id, "→").subject("é")).await.unwrap();
        }
        tx.commit().await.unwrap();
        let mut tx = client.transaction().await.unwrap();
        let error = outbox::enqueue(&mut tx, &tables, "t", NewMessage::new("c", "").subject("→")).await.unwrap_err();
        assert_eq!(error.kind(), hapax_store::ErrorKind::Misconfigured, "{error}");
        tx.rollback().await.unwrap();

        let worker = Worker::new(options(&address), tables.clone(), "c").unwrap().retry(soon(Some(1)));
        let worker = worker.concurrency(1).unwrap();
        assert_eq!(worker.step(&Arc::new(Fails)).await.unwrap(), 1);
        #[cfg(feature = "sqlx")]
        {
            let pool = crate::connections::sqlx::pool(place.server.port, &name, 2).await;
            let worker = Worker::new(pool, tables.clone(), "c").unwrap().retry(soon(Some(1)));
            assert_eq!(worker.step_sqlx(&Arc::new(Fails)).await.unwrap(), 1);
        }
        #[cfg(not(feature = "sqlx"))]
        assert_eq!(worker.step(&Arc::new(Fails)).await.unwrap(), 1);
        let relay = Relay::new(options(&address), tables.clone()).poll(ms(20)).unwrap().retry(soon(Some(1)));
        let done = until("letters", async || outbox::backlog(&client, &tables, None).await.unwrap().dead == 2);
        relay.run(Arc::new(Fails), done).await.unwrap();
        for letters in [
            inbox::dead_letters(&client, &tables, None, 0, 10).await.unwrap(),
            outbox::dead_letters(&client, &tables, None, 0, 10).await.unwrap(),
        ] {
            let errors: Vec<&str> = letters.iter().map(|letter| letter.error.as_str()).collect();
            assert_eq!(errors, [r"\u{e9} \u{2192} \u{4e1c}"; 2]);
            assert!(letters.iter().all(|letter| letter.message.subject.as_deref() == Some("é")));
        }
    });
}
