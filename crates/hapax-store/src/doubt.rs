//! The trail of a claim: its holder's name, and that it was begun and did not end.

use hapax::{Timestamp, Token};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The holder of a claim as it calls itself: a host, say, and the id of a trace.
///
/// ```
/// use hapax_store::HeldBy;
///
/// assert_eq!(HeldBy::of("worker-7 trace=4bf92f35").as_str(), "worker-7 trace=4bf92f35");
/// assert_eq!(HeldBy::of("x".repeat(100)).as_str().len(), HeldBy::MAX_BYTES);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct HeldBy(Arc<str>);

impl HeldBy {
    /// The length of the longest name, in bytes of UTF-8.
    pub const MAX_BYTES: usize = 64;

    /// Returns the name, as far as there is room; a question mark stands for each control
    /// character.
    pub fn of(name: impl AsRef<str>) -> Self {
        let name = name.as_ref();
        let end = (0..=name.len().min(Self::MAX_BYTES)).rfind(|&end| name.is_char_boundary(end)).unwrap_or(0);
        HeldBy(name[..end].replace(char::is_control, "?").into())
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads a name from its stored bytes, if there are any. `None` if no name has them.
    pub fn from_stored(bytes: &[u8]) -> Option<Option<Self>> {
        let name = std::str::from_utf8(bytes).ok()?;
        let held_by = HeldBy::of(name);
        (held_by.as_str() == name).then(|| Some(held_by).filter(|_| !name.is_empty()))
    }
}

impl fmt::Debug for HeldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for HeldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A claim that is in doubt: its lease has expired, so its work may have been done, in part or in
/// whole, and nobody has said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Before {
    token: u64,
    held_by: Option<HeldBy>,
}

impl Before {
    /// Returns a claim that is in doubt, by the token that the store gave it, for a backend's
    /// answer.
    pub fn new(token: u64, held_by: Option<HeldBy>) -> Self {
        Before { token, held_by }
    }

    /// Returns the token that the store gave it.
    pub fn store_token(&self) -> u64 {
        self.token
    }

    /// Returns its token, as its holder had it.
    pub fn token(&self) -> Token {
        Token::from_u64(self.token.saturating_mul(1_000))
    }

    /// Returns the time at which it was begun, by the store's clock: tokens are times.
    pub fn begun_at(&self) -> Timestamp {
        Timestamp::from_micros(self.token)
    }

    /// Returns its holder, if it said who it was.
    pub fn held_by(&self) -> Option<&HeldBy> {
        self.held_by.as_ref()
    }
}

/// The part of a record that a completion removes: who has the claim, and which one is in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trail {
    /// The time for which the record is kept after its end.
    pub doubt: Duration,
    /// The holder of the claim in progress.
    pub held_by: Option<HeldBy>,
    /// The first claim that is in doubt.
    pub before: Option<Before>,
}

impl Trail {
    /// Returns the trail of a claim, unless it leaves nothing.
    pub fn of(doubt: Duration, held_by: Option<HeldBy>, before: Option<Before>) -> Option<Box<Self>> {
        let held_by = held_by.filter(|held_by| !held_by.as_str().is_empty());
        let is_something = !doubt.is_zero() || held_by.is_some() || before.is_some();
        is_something.then(|| Box::new(Trail { doubt, held_by, before }))
    }

    /// Returns what remains of it when the claim has ended and was not completed.
    pub(crate) fn unresolved(&self) -> Option<Box<Self>> {
        self.before.as_ref().map(|before| Box::new(Trail { held_by: None, before: Some(before.clone()), ..*self }))
    }
}
