//! The options of a consumer, and their checks.

use super::source::{Acks, Partition};
use crate::handling::failure::OnErrorBy;
use hapax_message::OnMismatch;
use hapax_store::back_off::BackOff;
use hapax_store::backend::option;
use hapax_store::{Scope, Store, StoreError, TieredDedup};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The treatment of a message whose id is missing or blank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum OnMissing {
    /// It is [put aside](super::Source::dead_letter), and acknowledged, unhandled.
    #[default]
    DeadLetter,
    /// It is handled like one that is not claimed: a repetition is handled again.
    Pass,
    /// It is acknowledged, and not handled.
    Drop,
    /// The run ends with an error, and so does the next one, for as long as the broker delivers it
    /// again: for streams where nothing may be left out. The message is not acknowledged.
    Error,
}

/// The reason why a message is put aside whose id is that of another one.
pub(super) const ANOTHER_CONTENT: &str = "its id is that of a message with another fingerprint";

/// A function that returns the id of a message, which is not blank, or its key.
pub(super) type IdOf<M> = Arc<dyn Fn(&M) -> Option<Vec<u8>> + Send + Sync>;
/// A function that names the scope of a partition's ids.
pub(super) type ScopeOf = Arc<dyn Fn(&Partition) -> String + Send + Sync>;

/// The valid names of a consumer. (A slash is between a scope and those beneath it.)
const NAME: &str = "1 to 128 bytes of text, without control characters and `/`";

#[derive(Clone)]
pub(super) struct Options {
    pub(super) name: String,
    pub(super) on_missing: OnMissing,
    pub(super) on_mismatch: OnMismatch,
    /// `None`: 64, or fewer if fewer may be unacknowledged.
    pub(super) max_in_flight: Option<usize>,
    pub(super) batch: usize,
    /// `None`: 1,024, or more if more are handled at a time.
    pub(super) max_unacknowledged: Option<usize>,
    /// `None`: 256 messages, or fewer if fewer may be unacknowledged, within 10 ms.
    pub(super) handler_batch: Option<(usize, Duration)>,
    /// `None`: as it suits the broker's acknowledgements.
    pub(super) max_attempts: Option<u32>,
    pub(super) handler_timeout: Duration,
    /// The same.
    pub(super) back_off: Option<BackOff>,
    pub(super) on_error: Option<OnErrorBy>,
    pub(super) drain: Duration,
    /// The time, and the number of messages, after which what is done is made durable.
    pub(super) persist_every: (Duration, usize),
    pub(super) scope_of: Option<ScopeOf>,
}

impl Options {
    pub(super) fn new(name: String) -> Self {
        Options {
            name,
            on_missing: OnMissing::default(),
            on_mismatch: OnMismatch::default(),
            max_in_flight: None,
            batch: 256,
            max_unacknowledged: None,
            handler_batch: None,
            max_attempts: None,
            handler_timeout: Duration::from_secs(600),
            back_off: None,
            on_error: None,
            drain: Duration::from_secs(10),
            persist_every: (Duration::ZERO, 1),
            scope_of: None,
        }
    }

    pub(super) fn max_in_flight(&self) -> usize {
        self.max_in_flight.unwrap_or_else(|| self.max_unacknowledged.unwrap_or(64).clamp(1, 64))
    }

    pub(super) fn max_unacknowledged(&self) -> usize {
        let handled = self.handler_batch.map_or(0, |(messages, _)| messages).max(self.max_in_flight());
        self.max_unacknowledged.unwrap_or(handled.clamp(1_024, 1 << 20))
    }

    /// Returns the largest number of messages that a handler of batches gets, and the time for
    /// which one waits for others.
    pub(super) fn handler_batch(&self) -> (usize, Duration) {
        self.handler_batch.unwrap_or((self.max_unacknowledged().min(256), Duration::from_millis(10)))
    }

    /// Returns the number of attempts, which are spread over minutes where the broker holds a
    /// message meanwhile, and over seconds where it stands before all others of its partition.
    pub(super) fn max_attempts(&self, acks: Acks) -> u32 {
        self.max_attempts.unwrap_or(match acks {
            Acks::Each => 10,
            Acks::Cumulative => 5,
        })
    }

    /// Returns the waits between attempts.
    pub(super) fn back_off(&self, acks: Acks) -> BackOff {
        let [first, max] = match acks {
            Acks::Each => [1, 300].map(Duration::from_secs),
            Acks::Cumulative => [500, 60_000].map(Duration::from_millis),
        };
        self.back_off.unwrap_or(BackOff { first, max })
    }

    /// Returns the waits while the store cannot be asked, which are shorter: all messages wait.
    pub(super) fn store_back_off(&self, acks: Acks) -> BackOff {
        const MAX: Duration = Duration::from_secs(30);
        let BackOff { first, max } = self.back_off(acks);
        BackOff { first: first.min(MAX), max: max.min(MAX) }
    }

    /// Returns the engine with the consumer's scope.
    pub(super) fn scoped<S: Store>(&self, engine: &TieredDedup<S>) -> Result<TieredDedup<S>, StoreError> {
        let engine = engine.with_subscope(&self.name);
        let expected = "a name of at most 128 bytes together with the engine's scope";
        option::check("hapax", engine.is_ok(), "name", &self.name, expected)?;
        let engine = engine?;
        if let Some(scope_of) = &self.scope_of {
            let scope = scope_of(&Partition::default());
            let expected = "text without control characters, of at most 128 bytes together with the consumer's scope";
            option::check("hapax", engine.with_subscope(&scope).is_ok(), "scope_by", &scope, expected)?;
        }
        Ok(engine.with_own_bypass())
    }

    pub(super) fn validate(&self) -> Result<(), StoreError> {
        let check = |valid: bool, option: &str, got: &dyn fmt::Debug, expected: &str| {
            option::check("hapax", valid, option, got, expected)
        };
        const MAX: Duration = Duration::from_secs(366 * 24 * 3600);
        let sane = |time: Duration| !time.is_zero() && time <= MAX;
        let several = 1..=1 << 20;
        let is_name = !self.name.is_empty() && !self.name.contains('/') && Scope::new(&self.name).is_ok();
        check(is_name, "name", &self.name, NAME)?;
        let (in_flight, unacknowledged) = (self.max_in_flight(), self.max_unacknowledged());
        check(several.contains(&in_flight), "max_in_flight", &in_flight, "1 to 2^20")?;
        check(several.contains(&self.batch), "batch", &self.batch, "1 to 2^20")?;
        let is_valid = (in_flight..=1 << 20).contains(&unacknowledged);
        check(is_valid, "max_unacknowledged", &unacknowledged, "max_in_flight to 2^20")?;
        let (messages, within) = self.handler_batch();
        let valid = (1..=unacknowledged).contains(&messages) && within <= MAX;
        let expected = "1 to max_unacknowledged messages, and a duration of up to a year";
        check(valid, "handler_batch", &(messages, within), expected)?;
        check(self.max_attempts != Some(0), "max_attempts", &0, "at least 1")?;
        let expected = "a duration of up to a year, not none";
        check(sane(self.handler_timeout), "handler_timeout", &self.handler_timeout, expected)?;
        let BackOff { first, max } = self.back_off(Acks::Each);
        let delays = sane(first) && sane(max) && first <= max;
        check(delays, "retry_delay", &(first, max), "two durations of up to a year, not none, the first not longer")?;
        check(self.drain <= MAX, "drain", &self.drain, "a duration of up to a year")?;
        let (every, messages) = self.persist_every;
        let valid = every <= MAX && several.contains(&messages);
        check(valid, "persist_every", &self.persist_every, "a duration of up to a year, and 1 to 2^20 messages")?;
        Ok(())
    }
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_they_were_written() {
        for option in [OnMissing::DeadLetter, OnMissing::Pass, OnMissing::Drop, OnMissing::Error] {
            let written = serde_json::to_string(&option).unwrap();
            assert_eq!(serde_json::from_str::<OnMissing>(&written).unwrap(), option, "{written}");
        }
        assert!(serde_json::from_str::<OnMissing>(r#""something""#).is_err());
        for option in [OnMismatch::DeadLetter, OnMismatch::Handle, OnMismatch::Drop] {
            let written = serde_json::to_string(&option).unwrap();
            assert_eq!(serde_json::from_str::<OnMismatch>(&written).unwrap(), option, "{written}");
        }
    }
}
