//! Services on one server: each has its namespace, and none takes another's ids for its own.

use crate::store::installed;
use hapax_redis::{RedisOptions, RedisStore};
use hapax_store::TieredDedup;
use testkit::redis_server::Server;

#[tokio::test]
async fn services_with_namespaces_of_their_own_share_a_server_and_no_ids() {
    let Some(server) = installed(|| Server::start(&[])) else { return };
    for instance in 0..2 {
        for service in ["billing", "mail", "stock"] {
            let store = RedisStore::connect(RedisOptions::single(server.url(), service)).await.unwrap();
            let dedup = TieredDedup::builder(store).build().await.unwrap();
            let ids = (0..100).map(|n| n.to_string());
            let verdicts = dedup.check_batch(ids).await;
            let fresh = verdicts.iter().filter(|verdict| verdict.as_ref().unwrap().is_fresh()).count();
            assert_eq!(fresh, if instance == 0 { 100 } else { 0 }, "{service}, instance {instance}");
        }
    }
}
