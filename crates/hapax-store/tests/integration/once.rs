//! The attribute on functions of every shape.

use hapax_store::{ErrorKind, IdempotencyError, InMemoryStore, RunOptions, TieredDedup};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

type Engine = TieredDedup<InMemoryStore>;
type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

#[derive(Debug)]
enum ChargeError {
    Declined(u64),
    Idempotency(IdempotencyError),
}

impl From<IdempotencyError> for ChargeError {
    fn from(error: IdempotencyError) -> Self {
        ChargeError::Idempotency(error)
    }
}

impl fmt::Display for ChargeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChargeError::Declined(cents) => write!(f, "{cents} is too much"),
            ChargeError::Idempotency(error) => error.fmt(f),
        }
    }
}

/// An argument that a function consumes.
struct Order {
    id: String,
    cents: u64,
}

/// A service with the engine in it.
struct Bank {
    dedup: Arc<Engine>,
    charges: AtomicU32,
}

impl Bank {
    async fn new() -> Self {
        let dedup = TieredDedup::builder(InMemoryStore::new()).build().await.unwrap();
        Bank { dedup: Arc::new(dedup), charges: AtomicU32::new(0) }
    }

    #[hapax_macros::once(
        dedup = self.dedup,
        key = order.id,
        fingerprint = order.cents.to_be_bytes(),
        name = "charge"
    )]
    async fn charge(&self, order: Order) -> Result<u32, ChargeError> {
        if order.cents > 1_000 {
            return Err(ChargeError::Declined(order.cents));
        }
        let _consumed: Order = order;
        Ok(self.charges.fetch_add(1, Ordering::Relaxed) + 1)
    }

    #[hapax_macros::once(dedup = self.dedup, key = id, name = "ship")]
    async fn ship(&self, id: &str) -> Result<String> {
        let number: u32 = id.parse()?;
        Ok(format!("shipped {number}"))
    }

    #[hapax_macros::once(
        dedup = self.dedup,
        key = id,
        options = RunOptions::new().max_result_bytes(0),
        name = "audit"
    )]
    async fn audit(&self, id: &str) -> Result<u32, ChargeError> {
        let _id = id;
        Ok(self.charges.fetch_add(1, Ordering::Relaxed))
    }

    #[hapax_macros::once(
        dedup = &self.dedup,
        key = format!("{}-{}", key.0, key.1),
        options = RunOptions::new().keep_errors(Duration::from_secs(60)),
        name = "refund",
    )]
    async fn refund<T: fmt::Display + Clone>(&self, key: (T, u32)) -> Result<()> {
        self.charges.fetch_add(1, Ordering::Relaxed);
        Err(format!("no refund of {}", key.0).into())
    }
}

fn order(cents: u64) -> Order {
    Order { id: "17".into(), cents }
}

#[tokio::test]
async fn a_retry_gets_the_result_of_the_first_call() {
    let bank = Arc::new(Bank::new().await);
    assert_eq!(bank.charge(order(100)).await.unwrap(), 1);
    // Its future can be sent to another thread.
    let retry = tokio::spawn({
        let bank = Arc::clone(&bank);
        async move { bank.charge(order(100)).await }
    });
    assert_eq!(retry.await.unwrap().unwrap(), 1);
    let other = bank.charge(order(200)).await;
    assert!(matches!(other, Err(ChargeError::Idempotency(IdempotencyError::Mismatch))), "{other:?}");
    assert_eq!(bank.charges.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn errors_of_the_function_stay_what_they_are() {
    let bank = Bank::new().await;
    for _ in 0..2 {
        assert!(matches!(bank.charge(order(2_000)).await, Err(ChargeError::Declined(2_000))));
    }
    assert!(bank.ship("a").await.unwrap_err().is::<std::num::ParseIntError>());
}

#[tokio::test]
async fn an_output_that_is_not_stored_is_an_error_and_a_retry_does_not_run() {
    let bank = Bank::new().await;
    for _ in 0..2 {
        let error = bank.audit("17").await.unwrap_err();
        let is_told = |error: &IdempotencyError| matches!(error, IdempotencyError::TooLarge { max: Some(0), .. });
        assert!(matches!(&error, ChargeError::Idempotency(told) if is_told(told)), "{error}");
        assert_eq!(bank.charges.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn two_functions_with_one_key_are_two() {
    let bank = Bank::new().await;
    assert_eq!(bank.charge(order(100)).await.unwrap(), 1);
    assert_eq!(bank.ship("17").await.unwrap(), "shipped 17");
}

#[tokio::test]
async fn options_and_generics() {
    let bank = Bank::new().await;
    assert_eq!(bank.refund(("x", 1)).await.unwrap_err().to_string(), "no refund of x");
    let again = bank.refund(("x", 1)).await.unwrap_err();
    assert!(matches!(again.downcast_ref(), Some(IdempotencyError::FailedBefore { .. })), "{again}");
    assert_eq!(bank.charges.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn two_functions_of_one_name_are_noticed_at_the_first_call_of_the_second() {
    #[hapax_macros::once(dedup = dedup, key = id, name = "twin")]
    async fn first(dedup: &Engine, id: &str) -> Result<u32, ChargeError> {
        Ok(id.len() as u32)
    }
    #[hapax_macros::once(dedup = dedup, key = id, name = "twin")]
    async fn second(dedup: &Engine, id: &str) -> Result<u32, ChargeError> {
        Ok(100 + id.len() as u32)
    }
    let bank = Bank::new().await;
    for _ in 0..2 {
        assert_eq!(first(&bank.dedup, "17").await.unwrap(), 2);
        let ChargeError::Idempotency(IdempotencyError::Claim(error)) = second(&bank.dedup, "17").await.unwrap_err()
        else {
            panic!("it is refused")
        };
        let text = error.to_string();
        assert!(error.kind() == ErrorKind::Misconfigured && text.matches("once.rs:").count() == 2, "{text}");
    }
}
