//! Two ids whose digests agree in all 128 bits: only the ids themselves tell them apart.

use super::*;
use hapax::seam::Digest;
use hapax_store::{Name, RecordKey, Scope, Store as _};

/// The name of an id with a digest that is not its own.
fn forged(id: &str, digest: u128) -> Name {
    (RecordKey::new(&Scope::default(), id), Digest::from(digest))
}

#[tokio::test]
async fn two_ids_with_one_digest_that_are_asked_about_at_a_time_get_answers_of_their_own() {
    // Its store does not answer at once, so that the second follows the first.
    let world = World::new();
    let verdicts = world.shared().await.check_named(vec![forged("one", 7), forged("other", 7)]).await;
    assert!(verdicts.into_iter().all(|verdict| verdict.unwrap().is_fresh()));
    assert_eq!(world.store.scan(None, 10).await.unwrap().found.len(), 2);
}
