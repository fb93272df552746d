//! The options of a store.

use crate::errors::BACKEND;
use hapax_store::StoreError;
use hapax_store::backend::option;
use std::time::Duration;

/// Options for a [`DynamoDbStore`](crate::DynamoDbStore).
///
/// ```
/// use hapax_dynamodb::DynamoDbOptions;
/// use std::time::Duration;
///
/// let options = DynamoDbOptions::new("hapax").timeout(Duration::from_secs(2)).concurrency(128);
/// ```
///
/// With the feature `serde` they are read and written; only `table` must be there. The clock is
/// none of them: see [`with_clock`](crate::DynamoDbStore::with_clock).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct DynamoDbOptions {
    pub(crate) table: String,
    #[cfg_attr(feature = "serde", serde(default = "timeout"))]
    pub(crate) timeout: Duration,
    #[cfg_attr(feature = "serde", serde(default = "try_timeout"))]
    pub(crate) try_timeout: Duration,
    #[cfg_attr(feature = "serde", serde(default = "concurrency"))]
    pub(crate) concurrency: usize,
}

fn timeout() -> Duration {
    Duration::from_secs(5)
}

fn try_timeout() -> Duration {
    Duration::from_millis(1_500)
}

fn concurrency() -> usize {
    64
}

impl DynamoDbOptions {
    /// Creates the default options for a table, by its name or its ARN.
    pub fn new(table: impl Into<String>) -> Self {
        let table = table.into();
        DynamoDbOptions { table, timeout: timeout(), try_timeout: try_timeout(), concurrency: concurrency() }
    }

    /// Sets the longest time for a call, with all its tries and the waits in between: 10 ms to 5
    /// minutes. Default: 5 s.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        DynamoDbOptions { timeout, ..self }
    }

    /// Sets the longest time for one try of a request: 10 ms to 5 minutes. Default: 1.5 s.
    #[must_use]
    pub fn try_timeout(self, try_timeout: Duration) -> Self {
        DynamoDbOptions { try_timeout, ..self }
    }

    /// Sets the number of requests to the service that are under way at a time, of all calls
    /// together: 1 to 4,096. Each write of an id is one. Default: 64.
    #[must_use]
    pub fn concurrency(self, concurrency: usize) -> Self {
        DynamoDbOptions { concurrency, ..self }
    }

    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let times = Duration::from_millis(10)..=Duration::from_secs(300);
        let has_table = (1..=1_024).contains(&self.table.len());
        option::check(BACKEND, has_table, "table", &self.table, "the name or the ARN of a table")?;
        option::within(BACKEND, "timeout", self.timeout, times.clone())?;
        option::within(BACKEND, "try_timeout", self.try_timeout, times)?;
        option::within(BACKEND, "concurrency", self.concurrency, 1..=4_096).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_options_are_named() {
        let good = || DynamoDbOptions::new("hapax");
        good().check().unwrap();
        for (wrong, name) in [
            (DynamoDbOptions::new(""), "table"),
            (good().timeout(Duration::from_millis(9)), "timeout"),
            (good().try_timeout(Duration::from_secs(301)), "try_timeout"),
            (good().concurrency(0), "concurrency"),
            (good().concurrency(4_097), "concurrency"),
        ] {
            let error = wrong.check().unwrap_err().to_string();
            assert!(error.contains(&format!("option `{name}`")), "{error}");
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn options_are_read_as_they_were_written() {
        let options = DynamoDbOptions::new("a").timeout(Duration::from_secs(2)).concurrency(7);
        let written = serde_json::to_string(&options).unwrap();
        assert_eq!(serde_json::from_str::<DynamoDbOptions>(&written).unwrap(), options);
        let least: DynamoDbOptions = serde_json::from_str(r#"{"table": "a"}"#).unwrap();
        assert_eq!(least, DynamoDbOptions::new("a"));
        for wrong in ["{}", r#"{"table": "a", "tables": 1}"#] {
            assert!(serde_json::from_str::<DynamoDbOptions>(wrong).is_err(), "{wrong}");
        }
    }
}
