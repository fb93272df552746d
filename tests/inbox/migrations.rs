//! How tables come about, and what processes of other versions do with them.

use crate::*;

/// `BEGIN` takes whatever the role, the database or the session says, and a transaction that sees
/// one state only does not see what another one has made while it waited.
#[test]
fn tables_are_made_by_many_at_once_whatever_isolation_they_have_by_default() {
    Place::run(async |place| {
        for level in ["repeatable read", "serializable"] {
            let prefix = format!("{}_{}", place.prefix, &level[..6].trim());
            let tables = Arc::new(Tables::new("public", &prefix).unwrap());
            let mut makers = tokio::task::JoinSet::new();
            for _ in 0..8 {
                let (client, tables) = (place.client().await, Arc::clone(&tables));
                let session = format!("SET default_transaction_isolation = '{level}'");
                client.batch_execute(&session).await.unwrap();
                makers.spawn(async move { tables.migrate(&client).await });
            }
            let made = makers.join_all().await;
            assert!(made.iter().all(Result::is_ok), "{level}: {made:?}");
        }
    });
}
