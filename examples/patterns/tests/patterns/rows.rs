//! Effects that are the same when they are done twice, in one statement.

use crate::harness::{Delivery, Failed, Place, Trial, judge};
use hapax_patterns::{absolute, last_event, unique_row, upsert};
use tokio_postgres::Client;

/// Returns the one value of a query about a key.
pub async fn value(client: &Client, sql: &str, key: i64) -> String {
    client.query_one(sql, &[&key]).await.unwrap_or_else(|error| panic!("{sql}: {error}")).get(0)
}

const COPIES: [&[i64]; 2] = [&[1], &[1, 1, 1]];

#[test]
fn a_state_is_upserted_and_a_row_for_each_message_is_found_out() {
    let naive_table = "CREATE TABLE naive (order_id bigint, state text)";
    Place::run(&format!("{}; {naive_table}", upsert::TABLE), async |place| {
        let state = |message| if message == 1 { "paid" } else { "shipped" };
        let good = async |client: &mut Client, delivery: Delivery| {
            Ok::<_, Failed>(upsert::order_is(client, delivery.key, state(delivery.message)).await?)
        };
        let sql = "SELECT string_agg(state, ' ') FROM order_states WHERE order_id = $1";
        let effect = async |client: &Client, key| value(client, sql, key).await;
        let last = Trial { before: "", orders: &[&[1, 2, 1, 2], &[1, 1, 2, 2]] };
        let trials = judge(&place, &last, good, effect, "shipped").await.unwrap();
        println!("upsert: {trials} trials");
        // Its gap: a copy that comes after a later message.
        let late = Trial { before: "", orders: &[&[1, 2, 1]] };
        let found = judge(&place, &late, good, effect, "shipped").await.unwrap_err();
        assert!(found.contains(r#"got "paid""#), "{found}");

        // Look, then insert or update.
        let naive = async |client: &mut Client, delivery: Delivery| {
            let (key, state) = (delivery.key, state(delivery.message));
            match client.query_opt("SELECT 1 FROM naive WHERE order_id = $1 LIMIT 1", &[&key]).await? {
                None => client.execute("INSERT INTO naive VALUES ($1, $2)", &[&key, &state]).await?,
                Some(_) => client.execute("UPDATE naive SET state = $2 WHERE order_id = $1", &[&key, &state]).await?,
            };
            Ok::<_, Failed>(())
        };
        let sql = "SELECT string_agg(state, ' ') FROM naive WHERE order_id = $1";
        let effect = async |client: &Client, key| value(client, sql, key).await;
        let found = judge(&place, &Trial { before: "", orders: &COPIES }, naive, effect, "paid").await.unwrap_err();
        assert!(found.contains("at once"), "{found}");
    });
}

#[test]
fn an_absolute_value_is_set_and_an_increment_is_found_out() {
    Place::run(absolute::TABLE, async |place| {
        let trial = Trial { before: "INSERT INTO stock VALUES ({key}, 10)", orders: &COPIES };
        let good = async |client: &mut Client, delivery: Delivery| {
            assert!(absolute::stock_is(client, delivery.key, 7).await?, "it is there");
            Ok::<_, Failed>(())
        };
        let effect = async |client: &Client, key| {
            value(client, "SELECT pieces::text FROM stock WHERE product_id = $1", key).await
        };
        let trials = judge(&place, &trial, good, effect, "7").await.unwrap();
        println!("absolute value: {trials} trials");
        assert!(!absolute::stock_is(&place.connect().await.client, -1, 7).await.unwrap(), "there is none");

        let naive = async |client: &mut Client, delivery: Delivery| {
            let sql = "UPDATE stock SET pieces = pieces - 3 WHERE product_id = $1";
            client.execute(sql, &[&delivery.key]).await?;
            Ok::<_, Failed>(())
        };
        let found = judge(&place, &trial, naive, effect, "7").await.unwrap_err();
        assert!(found.contains(r#"expected "7", got"#), "{found}");
    });
}

#[test]
fn a_row_for_each_user_is_counted_and_a_counter_is_found_out() {
    let counter = "CREATE TABLE posts (post_id bigint PRIMARY KEY, likes bigint NOT NULL)";
    Place::run(&format!("{}; {counter}", unique_row::TABLE), async |place| {
        let trial = Trial { before: "INSERT INTO posts VALUES ({key}, 0)", orders: &[&[1, 2, 3], &[1, 2, 1, 3, 1]] };
        let good = async |client: &mut Client, delivery: Delivery| {
            unique_row::like(client, delivery.key, delivery.message).await?;
            Ok::<_, Failed>(())
        };
        let effect = async |client: &Client, key| unique_row::likes(client, key).await.unwrap().to_string();
        let trials = judge(&place, &trial, good, effect, "3").await.unwrap();
        println!("unique row: {trials} trials");

        let naive = async |client: &mut Client, delivery: Delivery| {
            client.execute("UPDATE posts SET likes = likes + 1 WHERE post_id = $1", &[&delivery.key]).await?;
            Ok::<_, Failed>(())
        };
        let effect =
            async |client: &Client, key| value(client, "SELECT likes::text FROM posts WHERE post_id = $1", key).await;
        let found = judge(&place, &trial, naive, effect, "3").await.unwrap_err();
        assert!(found.contains(r#"expected "3", got"#), "{found}");
    });
}

#[test]
fn events_are_booked_by_position_and_a_comparison_with_the_last_alone_is_found_out() {
    Place::run(last_event::TABLE, async |place| {
        let orders: [&[i64]; 5] = [&[1, 2, 3], &[1, 1, 2, 3, 3], &[1, 2, 1, 3], &[3, 2, 1], &[1, 2, 3, 1, 2, 3]];
        let trial = Trial { before: "INSERT INTO accounts VALUES ({key})", orders: &orders };
        let good = async |client: &mut Client, Delivery { key, message, .. }: Delivery| match last_event::book(
            client,
            key,
            message,
            10 * message,
        )
        .await?
        {
            last_event::Booked::Early { last_event } => {
                Err(format!("expected event {}, got {message}", last_event + 1).into())
            }
            last_event::Booked::Now | last_event::Booked::Before => Ok::<_, Failed>(()),
        };
        let effect = async |client: &Client, key| {
            value(client, "SELECT cents || ' by ' || last_event FROM accounts WHERE account_id = $1", key).await
        };
        let trials = judge(&place, &trial, good, effect, "60 by 3").await.unwrap();
        println!("position: {trials} trials");

        // The last id alone: the first event is taken again after the second.
        let naive = async |client: &mut Client, Delivery { key, message, .. }: Delivery| {
            let sql = "UPDATE accounts SET cents = cents + $3, last_event = $2
                       WHERE account_id = $1 AND last_event <> $2";
            client.execute(sql, &[&key, &message, &(10 * message)]).await?;
            Ok::<_, Failed>(())
        };
        let twice = Trial { orders: &orders[..2], ..trial };
        judge(&place, &twice, naive, effect, "60 by 3").await.expect("it bears a copy that comes at once");
        let found =
            judge(&place, &Trial { orders: &orders[2..3], ..twice }, naive, effect, "60 by 3").await.unwrap_err();
        assert!(found.contains(r#"got "70 by 3""#), "{found}");
    });
}
