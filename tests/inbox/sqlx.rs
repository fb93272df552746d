//! The same in transactions of sqlx.

use crate::*;
use ::sqlx::{Connection as _, Executor as _, PgConnection, postgres::PgConnectOptions};
use hapax::store::ErrorKind;

#[test]
fn sqlx_and_tokio_postgres_say_the_same() {
    Place::run(async |place| {
        let mut other = place.client().await;
        place.execute(&other, "CREATE TABLE {p}_effects (id text)").await;
        let directory = place.server.data().parent().unwrap().to_owned();
        let options = PgConnectOptions::new_without_pgpass().socket(directory).port(place.server.port);
        let mut sqlx = PgConnection::connect_with(&options.username("postgres").database("postgres")).await.unwrap();
        let message = NewMessage::new("m", "payload").key("k");

        for commits in [false, true] {
            let mut tx = sqlx.begin().await.unwrap();
            assert!(inbox::once(&mut tx, &place.tables, "c", "m").await.unwrap().is_first());
            let effect = ::sqlx::AssertSqlSafe(format!("INSERT INTO {}_effects VALUES ('m')", place.prefix));
            tx.execute(::sqlx::raw_sql(effect)).await.unwrap();
            assert!(inbox::receive(&mut tx, &place.tables, "d", message).await.unwrap().is_first());
            assert!(!inbox::receive(&mut tx, &place.tables, "d", message).await.unwrap().is_first());
            outbox::enqueue(&mut tx, &place.tables, "t", message).await.unwrap();
            match commits {
                true => tx.commit().await.unwrap(),
                false => tx.rollback().await.unwrap(),
            }
        }
        assert_eq!(place.count(&other, "SELECT count(*) FROM {p}_effects").await, 1);
        let stored = "SELECT (SELECT count(*) FROM {p}_inbox WHERE payload = 'payload' AND key = 'k') * 10 \
             + (SELECT count(*) FROM {p}_outbox WHERE payload = 'payload' AND key = 'k')";
        assert_eq!(place.count(&other, stored).await, 11);

        // What one has marked is a duplicate to the other.
        let mut tx = other.transaction().await.unwrap();
        let Seen::Duplicate { first_at } = inbox::once(&mut tx, &place.tables, "c", "m").await.unwrap() else {
            panic!()
        };
        assert!(inbox::once(&mut tx, &place.tables, "c", "n").await.unwrap().is_first());

        let mut late = sqlx.begin().await.unwrap();
        assert_eq!(inbox::once(&mut late, &place.tables, "c", "m").await.unwrap(), Seen::Duplicate { first_at });
        late.execute("SET LOCAL lock_timeout = '20ms'").await.unwrap();
        let error = inbox::once(&mut late, &place.tables, "c", "n").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    });
}
