//! Marks of which their maker was never told, met by another instance.

use super::*;
use hapax::store::ErrorKind;
use hapax::testing::store::Fault;

#[tokio::test(start_paused = true)]
async fn a_mark_whose_answer_was_lost_is_not_anothers_duplicate() {
    let world = World::new();
    let (here, there) = (world.engine().retries(0).build().await.unwrap(), world.shared().await);
    world.store.next(Fault::LosesAnswer(ErrorKind::Timeout));
    assert_eq!(here.check("a").await.unwrap_err().kind(), ErrorKind::Timeout);
    // Nobody was told that it is fresh, so the broker gives it to another instance.
    let verdict = there.check("a").await.unwrap();
    assert!(!verdict.is_duplicate(), "the message is dropped, and nobody has handled it: {verdict:?}");
}
