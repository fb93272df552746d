//! Handlers by kind.

use crate::*;

/// A handler that inserts its name.
struct Inserts(&'static str, String);

impl Handler for Inserts {
    async fn handle(&self, tx: &mut tokio_postgres::Transaction<'_>, message: &Message) -> Result<(), BoxError> {
        let insert = format!("INSERT INTO {}_effects VALUES ($1, $2)", self.1);
        tx.execute(&insert, &[&self.0, &message.id]).await?;
        Ok(())
    }
}

async fn effects(place: &Place, client: &Client) -> Vec<(String, String)> {
    let sql = format!("SELECT name, id FROM {}_effects ORDER BY name, id", place.prefix);
    let rows = client.query(&sql, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), text(&row.get::<_, Vec<u8>>(1)))).collect()
}

async fn received(place: &Place, client: &mut Client, consumer: &str) {
    let header = [("ce_type", "paid")];
    for message in [
        NewMessage::new("1", "").kind("paid"),
        NewMessage::new("2", "").kind("cancelled"),
        NewMessage::new("3", "").kind("'; hostile"),
        NewMessage::new("4", ""),
        NewMessage::new("5", "").headers(&header),
    ] {
        assert!(place.receive(client, consumer, message).await.is_first());
    }
}

#[test]
fn each_kind_has_its_handler_and_others_are_put_aside_passed_on_or_handled_otherwise() {
    Place::run(async |place| {
        let mut client = place.client().await;
        place.execute(&client, "CREATE TABLE {p}_effects (name text, id bytea)").await;
        let inserts = |name| Inserts(name, place.prefix.clone());
        let router =
            || Router::new().on("paid", inserts("paid")).unwrap().on("cancelled", inserts("cancelled")).unwrap();
        let [right, other] = ["paid", "cancelled"].map(str::to_owned);
        let expected = vec![(other, "2".to_owned()), (right.clone(), "1".into()), (right, "5".into())];

        received(&place, &mut client, "aside").await;
        let aside = Arc::new(router());
        let worker = place.worker("aside").keep(Keep::Nothing);
        assert_eq!(worker.step(&aside).await.unwrap(), 5);
        assert_eq!(effects(&place, &client).await, expected);
        let letters = inbox::dead_letters(&client, &place.tables, Some("aside"), 0, 10).await.unwrap();
        let said: Vec<_> = letters.iter().map(|letter| (text(&letter.message.id), letter.message.attempts)).collect();
        assert_eq!(said, [("3".to_owned(), 1), ("4".to_owned(), 1)], "at once");
        assert!(
            letters[0].error.ends_with("got \"'; hostile\"") && letters[1].error.ends_with("got none"),
            "{letters:?}"
        );
        let stats = aside.stats();
        assert_eq!((stats.routed, stats.unknown, stats.passed), (3, 2, 0));

        // They are handled when there is a handler.
        assert_eq!(inbox::requeue(&client, &place.tables, Letters::Of(Some("aside"))).await.unwrap(), 2);
        let otherwise = Arc::new(router().fallback(inserts("otherwise")));
        assert_eq!(worker.step(&otherwise).await.unwrap(), 2);
        assert_eq!(otherwise.stats().fallback, 2);
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_effects WHERE name = 'otherwise'").await, 2);

        place.execute(&client, "DELETE FROM {p}_effects").await;
        received(&place, &mut client, "on").await;
        let on = Arc::new(router().on_unknown(OnUnknown::Pass));
        let worker = place.worker("on");
        assert_eq!(worker.step(&on).await.unwrap(), 5);
        assert_eq!(effects(&place, &client).await, expected);
        assert_eq!((on.stats().passed, worker.stats().done), (2, 5));
        assert_eq!(place.count(&client, "SELECT count(*) FROM {p}_inbox").await, 0);
        assert!(Router::new().on("a", Keeps::default()).unwrap().on("a", Keeps::default()).is_err());
    });
}

#[cfg(feature = "json")]
#[derive(serde::Deserialize)]
struct Paid {
    order: i64,
}

#[cfg(feature = "json")]
impl JsonHandler for Inserts {
    type Payload = Paid;

    async fn handle(&self, tx: &mut tokio_postgres::Transaction<'_>, paid: Paid, _: &Message) -> Result<(), BoxError> {
        let insert = format!("INSERT INTO {}_effects VALUES ($1, $2)", self.1);
        tx.execute(&insert, &[&self.0, &paid.order.to_string().into_bytes()]).await?;
        Ok(())
    }
}

#[cfg(feature = "json")]
#[test]
fn a_payload_is_what_the_handler_takes_or_is_put_aside() {
    Place::run(async |place| {
        let mut client = place.client().await;
        place.execute(&client, "CREATE TABLE {p}_effects (name text, id bytea)").await;
        let router = Arc::new(Router::new().on_json("paid", Inserts("paid", place.prefix.clone())).unwrap());
        for payload in [r#"{"order": 17}"#, r#"{"order": "x"}"#, "", "\u{fffd}"] {
            let _ = place.receive(&mut client, "c", NewMessage::new(payload, payload).kind("paid")).await;
        }
        assert_eq!(place.worker("c").step(&router).await.unwrap(), 4);
        assert_eq!(effects(&place, &client).await, [("paid".to_owned(), "17".to_owned())]);
        let letters = inbox::dead_letters(&client, &place.tables, Some("c"), 0, 10).await.unwrap();
        assert!(letters.len() == 3 && letters.iter().all(|letter| letter.message.attempts == 1));
        assert!(letters[0].error.contains("line 1 column"), "{}", letters[0].error);
        assert_eq!(router.stats().malformed, 3);
    });
}

#[cfg(feature = "sqlx")]
impl SqlxHandler for Inserts {
    async fn handle(
        &self,
        tx: &mut ::sqlx::Transaction<'_, ::sqlx::Postgres>,
        message: &Message,
    ) -> Result<(), BoxError> {
        let insert = ::sqlx::AssertSqlSafe(format!("INSERT INTO {}_effects VALUES ($1, $2)", self.1));
        ::sqlx::query(insert).bind(self.0).bind(&message.id).execute(&mut **tx).await?;
        Ok(())
    }
}

#[cfg(all(feature = "json", feature = "sqlx"))]
impl SqlxJsonHandler for Inserts {
    type Payload = Paid;

    async fn handle(
        &self,
        tx: &mut ::sqlx::Transaction<'_, ::sqlx::Postgres>,
        paid: Paid,
        _: &Message,
    ) -> Result<(), BoxError> {
        let insert = ::sqlx::AssertSqlSafe(format!("INSERT INTO {}_effects VALUES ($1, $2)", self.1));
        ::sqlx::query(insert).bind(self.0).bind(paid.order.to_string().into_bytes()).execute(&mut **tx).await?;
        Ok(())
    }
}

#[cfg(all(feature = "json", feature = "sqlx"))]
#[test]
fn a_router_of_sqlx_does_the_same_and_what_is_kept_is_kept() {
    use hapax_postgres::inbox::HandledQuery;

    Place::run(async |place| {
        let mut client = place.client().await;
        place.execute(&client, "CREATE TABLE {p}_effects (name text, id bytea)").await;
        received(&place, &mut client, "c").await;
        let _ = place.receive(&mut client, "c", NewMessage::new("6", r#"{"order": 6}"#).kind("json")).await;
        let _ = place.receive(&mut client, "c", NewMessage::new("7", "{").kind("json")).await;
        let inserts = |name| Inserts(name, place.prefix.clone());
        let router = SqlxRouter::new().on("paid", inserts("paid")).unwrap().on_json("json", inserts("json")).unwrap();
        let pool = crate::connections::sqlx::pool(place.server.port, "postgres", 4).await;
        let worker =
            Worker::new(pool, place.tables.clone(), "c").unwrap().keep(Keep::Messages).processor("pod").unwrap();
        let router = Arc::new(router);
        while worker.step_sqlx(&router).await.unwrap() > 0 {}
        let expected = [("json", "6"), ("paid", "1"), ("paid", "5")].map(|(name, id)| (name.to_owned(), id.to_owned()));
        assert_eq!(effects(&place, &client).await, expected);
        let stats = router.stats();
        assert_eq!((stats.routed, stats.unknown, stats.malformed), (4, 3, 1));
        let events = crate::handling::handled::list(&place, &client, HandledQuery::all()).await;
        assert!(
            events.len() == 3 && events.iter().all(|event| event.is_kept && event.processor.as_deref() == Some("pod"))
        );
        let all = [inserts("a"), inserts("b")];
        let [a, b] = all;
        let passes = SqlxRouter::new().on("paid", a).unwrap().fallback(b);
        assert!(format!("{passes:?}").contains("has_fallback: true"));
        assert!(format!("{:?}", passes.on_unknown(OnUnknown::Pass)).contains("Pass"));
    });
}
