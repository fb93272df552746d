//! The options of a stream.

use super::error::RedisStreamError;
use crate::resp::errors::BACKEND;
use hapax_store::backend::option;
use std::fmt::Debug;
use std::time::Duration;

/// Options for a [`RedisStream`](super::RedisStream): the stream, its group, and the name of this
/// consumer in it.
///
/// ```
/// use hapax_redis::RedisStreamOptions;
/// use std::time::Duration;
///
/// let options = RedisStreamOptions::new("orders", "billing", "billing-1")
///     .idle(Duration::from_secs(30))
///     .delete_acknowledged(true);
/// # drop(options);
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing by themselves"]
pub struct RedisStreamOptions {
    pub(super) stream: String,
    pub(super) group: String,
    pub(super) consumer: String,
    pub(super) idle: Duration,
    pub(super) from_end: bool,
    pub(super) dead_letters: String,
    pub(super) deletes: bool,
    pub(super) retry_for: Duration,
}

impl RedisStreamOptions {
    /// Creates options: the key of the stream, the name of the group, and that of this consumer in
    /// it. No other process may have the same name at the same time. Use the same one after a
    /// restart, or the group collects names.
    pub fn new(stream: impl Into<String>, group: impl Into<String>, consumer: impl Into<String>) -> Self {
        let stream = stream.into();
        RedisStreamOptions {
            dead_letters: format!("{stream}:dead"),
            stream,
            group: group.into(),
            consumer: consumer.into(),
            idle: Duration::from_secs(60),
            from_end: false,
            deletes: false,
            retry_for: Duration::from_secs(60),
        }
    }

    /// Sets the time after which an entry goes to another consumer if it is neither acknowledged
    /// nor reported as worked on, which is done at every third of it. So long entries wait of which
    /// a consumer has died. Default: a minute.
    ///
    /// It is also the longest time that a [retry](hapax_stream::Source::retry) can wait: Redis has
    /// no delayed delivery.
    pub fn idle(mut self, time: Duration) -> Self {
        self.idle = time;
        self
    }

    /// Lets the group begin at the end of the stream, if it is created now. That is so, too, when
    /// the server has lost it: entries that nobody had read by then are left out. Default: at the
    /// stream's beginning.
    pub fn from_end(mut self, from_end: bool) -> Self {
        self.from_end = from_end;
        self
    }

    /// Sets the stream to which entries are put aside. In a cluster it may be in any slot. Default:
    /// the stream's name, with `:dead` behind it.
    pub fn dead_letters(mut self, stream: impl Into<String>) -> Self {
        self.dead_letters = stream.into();
        self
    }

    /// Deletes entries when they are acknowledged, so that the stream has only what is not done:
    /// only if this group is the stream's one reader. Default: they stay, and whoever adds entries
    /// or operates the server must trim the stream.
    pub fn delete_acknowledged(mut self, deletes: bool) -> Self {
        self.deletes = deletes;
        self
    }

    /// Sets the time for which a request is tried again that has failed since the server cannot be
    /// reached, loads its data or changes its role: after waits that double from 50 ms to 5 s,
    /// shortened at random by up to a half. After it the run ends. Zero: no request is tried again.
    /// Default: a minute.
    pub fn retry_for(mut self, time: Duration) -> Self {
        self.retry_for = time;
        self
    }

    pub(super) fn validate(&self) -> Result<(), RedisStreamError> {
        let check = |is_valid: bool, name: &str, expected: &str, got: &dyn Debug| {
            option::check(BACKEND, is_valid, name, got, expected).map_err(RedisStreamError::Misconfigured)
        };
        let names = [
            ("stream", &self.stream),
            ("group", &self.group),
            ("consumer", &self.consumer),
            ("dead_letters", &self.dead_letters),
        ];
        for (name, value) in names {
            check(!value.trim().is_empty(), name, "a name, not blank", value)?;
        }
        let expected = "another stream than the one that is read";
        check(self.dead_letters != self.stream, "dead_letters", expected, &self.dead_letters)?;
        let hour = Duration::from_secs(3_600);
        let lasts = Duration::from_millis(30)..=24 * hour;
        check(lasts.contains(&self.idle), "idle", "a duration from 30 ms to a day", &self.idle)?;
        check(self.retry_for <= hour, "retry_for", "a duration of up to an hour", &self.retry_for)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_refused_by_their_names() {
        let new = || RedisStreamOptions::new("orders", "billing", "one");
        assert!(new().validate().is_ok());
        for (options, expected) in [
            (RedisStreamOptions::new("", "g", "c"), "stream"),
            (RedisStreamOptions::new("s", " ", "c"), "group"),
            (RedisStreamOptions::new("s", "g", ""), "consumer"),
            (new().dead_letters(""), "dead_letters"),
            (new().dead_letters("orders"), "dead_letters"),
            (new().idle(Duration::ZERO), "idle"),
            (new().retry_for(Duration::MAX), "retry_for"),
        ] {
            let refused = options.validate().unwrap_err();
            assert!(matches!(refused, RedisStreamError::Misconfigured(_)), "{refused}");
            assert!(refused.to_string().contains(&format!("option `{expected}`")), "{refused}");
        }
    }
}
