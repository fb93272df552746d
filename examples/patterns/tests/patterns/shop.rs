//! Orders: what is shipped, and what is reserved.

use crate::harness::{Delivery, Failed, Place, Trial, evening, judge};
use crate::rows::value;
use hapax_patterns::reservation::{self, Reserved, reserve};
use hapax_patterns::state_guard::{self, Shipped, ship};
use std::time::Duration;
use tokio_postgres::Client;

async fn give_back(client: &Client, order: i64) -> Result<(), Failed> {
    let sql = "UPDATE orders SET state = 'returned' WHERE order_id = $1 AND state IN ('shipped', 'returned')";
    match client.execute(sql, &[&order]).await? {
        1 => Ok(()),
        _ => Err("it is not shipped yet".into()),
    }
}

#[test]
fn a_late_copy_ships_nothing_and_an_unguarded_state_is_found_out() {
    Place::run(state_guard::TABLE, async |place| {
        let trial = Trial {
            before: "INSERT INTO orders VALUES ({key}, 'paid')",
            orders: &[&[1, 2], &[1, 1, 2, 2], &[1, 2, 1], &[2, 1, 1]],
        };
        let good = async |client: &mut Client, delivery: Delivery| match delivery.message {
            1 => match ship(client, delivery.key, delivery.at).await? {
                Shipped::Yes | Shipped::Before => Ok(()),
                Shipped::NotPaid => Err(Failed::from("it is not paid")),
            },
            _ => give_back(client, delivery.key).await,
        };
        let effect =
            async |client: &Client, key| value(client, "SELECT state FROM orders WHERE order_id = $1", key).await;
        let trials = judge(&place, &trial, good, effect, "returned").await.unwrap();
        println!("state guard: {trials} trials");

        let naive = async |client: &mut Client, delivery: Delivery| match delivery.message {
            1 => {
                let sql = "UPDATE orders SET state = 'shipped', shipped_at = $2 WHERE order_id = $1";
                client.execute(sql, &[&delivery.key, &delivery.at]).await?;
                Ok(())
            }
            _ => give_back(client, delivery.key).await,
        };
        let found = judge(&place, &trial, naive, effect, "returned").await.unwrap_err();
        assert!(found.contains(r#"got "shipped""#), "{found}");
    });
}

#[test]
fn the_time_of_the_first_shipping_stays() {
    Place::run(state_guard::TABLE, async |place| {
        let client = &place.connect().await.client;
        client.batch_execute("INSERT INTO orders VALUES (1, 'paid'), (2, 'open')").await.unwrap();
        let later = evening() + Duration::from_secs(60);
        assert_eq!(ship(client, 1, evening()).await.unwrap(), Shipped::Yes);
        assert_eq!(ship(client, 1, later).await.unwrap(), Shipped::Yes);
        let row = client.query_one("SELECT shipped_at FROM orders WHERE order_id = 1", &[]).await.unwrap();
        assert_eq!(row.get::<_, std::time::SystemTime>(0), evening());
        give_back(client, 1).await.unwrap();
        assert_eq!(ship(client, 1, later).await.unwrap(), Shipped::Before);
        assert_eq!(ship(client, 2, later).await.unwrap(), Shipped::NotPaid);
        assert_eq!(ship(client, 3, later).await.unwrap(), Shipped::NotPaid);
    });
}

#[test]
fn an_order_reserves_once_and_a_decrement_is_found_out() {
    Place::run(reservation::TABLES, async |place| {
        // Three orders of two pieces each, of five: two of them get theirs.
        let trial = Trial {
            before: "INSERT INTO products VALUES ({key}, 5)",
            orders: &[&[1, 2, 3], &[1, 1, 2, 2, 3, 3], &[1, 2, 1, 3, 2]],
        };
        let good = async |client: &mut Client, Delivery { key, message, .. }: Delivery| {
            let reserved = reserve(client, message, key, 2).await?;
            assert!(message < 3 || reserved == Reserved::SoldOut, "there are not six");
            assert!(message > 2 || reserved == Reserved::Yes, "there are four");
            Ok::<_, Failed>(())
        };
        let sql = "SELECT count(*) || ' orders, ' || sum(pieces) || ' pieces' FROM reservations WHERE product_id = $1";
        let effect = async |client: &Client, key| value(client, sql, key).await;
        let trials = judge(&place, &trial, good, effect, "2 orders, 4 pieces").await.unwrap();
        println!("reservation: {trials} trials");

        let naive = async |client: &mut Client, Delivery { key, .. }: Delivery| {
            let sql = "UPDATE products SET pieces = pieces - 2 WHERE product_id = $1 AND pieces >= 2";
            client.execute(sql, &[&key]).await?;
            Ok::<_, Failed>(())
        };
        let left = async |client: &Client, key| {
            value(client, "SELECT pieces || ' left' FROM products WHERE product_id = $1", key).await
        };
        let once = Trial { orders: &[&[1], &[1, 1]], ..trial };
        let found = judge(&place, &once, naive, left, "3 left").await.unwrap_err();
        assert!(found.contains(r#"got "1 left""#), "{found}");
    });
}

#[test]
fn the_last_piece_is_sold_once() {
    Place::run(reservation::TABLES, async |place| {
        let mut processes = Vec::new();
        for _ in 0..8 {
            processes.push(place.connect().await);
        }
        for product in 0..20 {
            let insert = format!("INSERT INTO products VALUES ({product}, 3)");
            processes[0].client.batch_execute(&insert).await.unwrap();
            let orders = processes.iter_mut().zip(0..);
            let all = orders.map(|(process, order)| reserve(&mut process.client, order, product, 1));
            let reserved = futures_util::future::join_all(all).await;
            let count = reserved.iter().filter(|reserved| matches!(reserved, Ok(Reserved::Yes))).count();
            assert_eq!(count, 3, "{reserved:?}");
        }
    });
}
