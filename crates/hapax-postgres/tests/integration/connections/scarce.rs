//! A role that may have one connection, or two: nothing is published or handled sooner by
//! listening, and all is.

use crate::publishing::relays::{start, until_empty};
use crate::*;

const MESSAGES: usize = 200;

#[test]
fn a_role_with_few_connections_gets_all_done() {
    Place::run(async |place| {
        let mut client = place.client().await;
        for connections in [1, 2] {
            let role = format!("{}_{connections}", place.prefix);
            let roles = format!(
                "CREATE ROLE {role} LOGIN CONNECTION LIMIT {connections} IN ROLE pg_read_all_data, pg_write_all_data"
            );
            place.execute(&client, &roles).await;
            let address = place.server.tcp_address(&role);
            let ids: Vec<String> = (0..MESSAGES).map(|n| format!("{connections}/{n}")).collect();
            place.enqueue_all(&mut client, "t", ids.iter().map(|id| NewMessage::new(id, ""))).await;
            let relay = Relay::new(options(&address), place.tables.clone()).poll(ms(20)).unwrap();
            let (stop, running) = start(relay, &Arc::new(Nothing));
            until_empty(&place, &client).await;
            // Whoever connects first has the connection: those who claim, or who listens.
            let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = '{p}_";
            for id in &ids[..20] {
                place.count(&client, &format!("{end}{connections}'")).await;
                place.enqueue(&mut client, "t", NewMessage::new(&format!("later {id}"), "")).await;
                until_empty(&place, &client).await;
            }
            stop.send(true).unwrap();
            running.await.unwrap();

            let consumer = format!("c{connections}");
            for id in &ids {
                let _ = place.receive(&mut client, &consumer, NewMessage::new(id, "").key(id)).await;
            }
            let worker = Worker::new(options(&address), place.tables.clone(), &consumer).unwrap().poll(ms(20)).unwrap();
            place.handle_all(&client, worker.clone(), &Arc::new(Nothing)).await;
            let stats = worker.stats();
            println!("{connections}: {stats:?}");
            assert!(stats.released < MESSAGES as u64, "more was given back than handled: {stats:?}");
        }
    });
}
