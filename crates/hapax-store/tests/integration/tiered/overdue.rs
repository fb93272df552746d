//! A store and its reader that disagree forever about what has expired.

use super::*;
use hapax_store::*;
use std::sync::atomic::{AtomicU32, Ordering};

/// A store that says of everything that it is in progress, for no more time.
#[derive(Debug, Default)]
struct Lying(InMemoryStore, AtomicU32);

impl Lying {
    fn asked<A: Clone>(&self, requests: usize, answer: A) -> Answers<A> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Ok((0..requests).map(|_| Ok(answer.clone())).collect())
    }
}

forward! {
    except mark and claim,
    Lying,
    |store, _keys, _call| store.0,
    fn backend(&self) -> &'static str {
        "lying"
    }

    async fn mark(&self, marks: &[Mark]) -> Answers<Marked> {
        self.asked(marks.len(), Marked::InProgress { lease_left: Duration::ZERO })
    }

    async fn claim(&self, claims: &[ClaimRequest]) -> Answers<Claimed> {
        self.asked(claims.len(), Claimed::InProgress { lease_left: Duration::ZERO, held_by: None })
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_it_is_told_so_after_bounded_tries() {
    let store = Arc::new(Lying::default());
    let engine = TieredDedup::builder(Arc::clone(&store)).build().await.unwrap();
    let begun = tokio::time::Instant::now();
    let error = engine.claim_wait("a", 10 * RETENTION).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("disagree"), "{error}");
    let (took, calls) = (begun.elapsed(), store.1.load(Ordering::Relaxed));
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert!((16..50).contains(&calls), "{calls} calls");
    // Callers that do not wait are told, as before, that it is in progress, and now and then why.
    let mut errors = 0;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        match engine.check("b").await {
            Ok(verdict) => assert!(!verdict.is_fresh() && !verdict.is_duplicate()),
            Err(error) => errors += u32::from(error.kind() == ErrorKind::Corrupt),
        }
    }
    assert!((1..=7).contains(&errors), "{errors}");
}
