//! Options that are given with a call.

use super::*;
use hapax_store::{ClaimError, ErrorKind, StoreError, TieredClaimOptions};

const WRONG: [Duration; 2] = [Duration::ZERO, Duration::MAX];

#[track_caller]
fn names(error: &StoreError, option: &str) {
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("`{option}`")) && text.contains("expected"), "{text}");
}

#[track_caller]
fn names_of_claim(ended: Result<(), ClaimError>, option: &str) {
    match ended {
        Err(ClaimError::Store(error)) => names(&error, option),
        other => panic!("`{option}` cannot be, but: {other:?}"),
    }
}

async fn of(engine: &Engine) {
    for lease in WRONG {
        let options = TieredClaimOptions::new().lease(lease);
        names(&engine.claim_with("a", options).await.unwrap_err(), "lease");
        let mut claim = engine.claim("b").await.unwrap().claimed().expect("what was refused has claimed nothing");
        names_of_claim(claim.renew(lease).await, "lease");
        claim.renew(WINDOW).await.expect("it is held as before");
        claim.release().await.unwrap();
    }
    let claim = engine.claim("a").await.unwrap().claimed().expect("what was refused has claimed nothing");
    names_of_claim(claim.fail(Duration::MAX).await, "retry_after");
    tokio::time::sleep(Duration::from_millis(1)).await;
    let claim = engine.claim("a").await.unwrap().claimed().expect("a wrong option does not burn the id");
    claim.fail(Duration::ZERO).await.expect("that is a release");
    let claim = engine.claim("a").await.unwrap().claimed().expect("it was released");
    names(&engine.claim_wait("a", Duration::MAX).await.unwrap_err(), "patience");
    claim.complete().await.unwrap();
    names(&engine.shutdown(Duration::MAX).await.unwrap_err(), "deadline");
    assert!(engine.check("c").await.unwrap().is_fresh(), "it was not shut down");
}

#[tokio::test(start_paused = true)]
async fn a_time_that_cannot_be_is_an_error_that_names_it() {
    of(&World::new().shared().await).await;
    of(&World::new().exclusive().await).await;
    let error = World::new().engine().in_doubt(Duration::MAX).build().await.unwrap_err();
    names(&error, "in_doubt");
}
