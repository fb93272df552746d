//! The lines of a recorded history, one by one: docs/verify.md describes them.

use hapax_testing::{Event, Semantics, Time};
use serde::Deserialize;
use std::time::Duration;

/// The version of the format that this reads.
const VERSION: u64 = 1;

/// The first line: the terms of the subject.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    hapax_history: u64,
    window_ns: Number,
    #[serde(default)]
    slack_ns: Number,
    #[serde(default)]
    clock: Clock,
    #[serde(default)]
    lease_ns: Option<Number>,
    #[serde(default)]
    refresh: bool,
    #[serde(default)]
    forgets_meanwhile: bool,
    #[serde(default)]
    accepts_meanwhile: bool,
    #[serde(default)]
    evicted: u64,
}

/// The clock that decides about an id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The subject's own.
    #[default]
    Own,
    /// The caller's.
    Given,
    /// The largest time that any caller has given so far.
    Largest,
}

impl Terms {
    /// Reads the first line.
    pub fn read(line: &[u8]) -> Result<Self, String> {
        let terms: Terms =
            serde_json::from_slice(line).map_err(|error| format!("the terms of the history: {error}"))?;
        match terms.hapax_history {
            VERSION => Ok(terms),
            other => Err(format!("a history of format {other}; this command reads format {VERSION}")),
        }
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }

    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Returns the specification that the history is held against.
    pub fn semantics(&self) -> Semantics {
        let nanos = |number: Number| Duration::from_nanos(number.0);
        Semantics {
            slack: nanos(self.slack_ns),
            refresh_on_duplicate: self.refresh,
            forgets_meanwhile: self.forgets_meanwhile,
            accepts_meanwhile: self.accepts_meanwhile,
            time: match self.clock {
                Clock::Own => Time::Own,
                Clock::Given => Time::AsGiven,
                Clock::Largest => Time::LargestSoFar,
            },
            lease: self.lease_ns.map(nanos),
            ..Semantics::of_window(nanos(self.window_ns))
        }
    }
}

/// A line after the first one: a call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    pub thread: Name,
    pub id: Name,
    pub start: Number,
    pub end: Option<Number>,
    pub at: Option<Number>,
    pub answer: Answer,
    #[serde(default)]
    pub batch: u32,
    #[serde(default)]
    pub claim: u32,
    #[serde(default)]
    pub token: u64,
    pub fingerprint: Option<Name>,
}

impl Call {
    /// Reads a line, and checks what one line can tell.
    pub fn read(line: &[u8], clock: Clock) -> Result<Self, String> {
        let call: Call = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        match (call.end, call.answer) {
            (Some(end), Answer::None) => {
                return Err(format!(
                    "the answer is `none`, and `end` is {}; a call that gave no answer has no end",
                    end.0
                ));
            }
            (None, Answer::None) => {}
            (None, _) => return Err("there is an answer, and no `end`; only an answer of `none` has none".into()),
            (Some(end), _) if end.0 < call.start.0 => {
                return Err(format!(
                    "`end` is {}, before `start`, {}: both are of one monotonic clock",
                    end.0, call.start.0
                ));
            }
            (Some(_), _) => {}
        }
        match (call.at, clock) {
            (None, Clock::Given | Clock::Largest) => {
                Err("there is no `at`, the time that the caller gave; with \"clock\": \"own\" there would be none"
                    .into())
            }
            (Some(_), Clock::Own) => {
                Err("`at` is given, but the clock is the subject's own: say \"clock\": \"given\" in the first line"
                    .into())
            }
            _ => Ok(call),
        }
    }
}

/// The answer of a call.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Fresh,
    Duplicate,
    None,
    InProgress,
    Claimed,
    Completed,
    Released,
    Renewed,
    Refused,
    Mismatch,
    Forgotten,
    Evicted,
}

impl Answer {
    pub fn event(self) -> Event {
        match self {
            Answer::Fresh => Event::Fresh,
            Answer::Duplicate => Event::Duplicate,
            Answer::None => Event::Unanswered,
            Answer::InProgress => Event::InProgress,
            Answer::Claimed => Event::Claimed,
            Answer::Completed => Event::Completed,
            Answer::Released => Event::Released,
            Answer::Renewed => Event::Renewed,
            Answer::Refused => Event::Lost,
            Answer::Mismatch => Event::Mismatch,
            Answer::Forgotten => Event::Forget,
            Answer::Evicted => Event::Evict,
        }
    }
}

/// Nanoseconds, as a number or, where a language's numbers are not exact beyond 2^53, as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Number(pub u64);

/// A name: text, or a number, which is the text of its digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name(pub String);

/// Both are written in either way.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a whole number from 0 on, or text")]
enum Either {
    Number(u64),
    Text(String),
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Either::deserialize(deserializer)? {
            Either::Number(number) => Ok(Number(number)),
            Either::Text(text) => text.parse().map(Number).map_err(|_| {
                serde::de::Error::custom(format!("expected nanoseconds, a whole number from 0 on, got {text:?}"))
            }),
        }
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Name(match Either::deserialize(deserializer)? {
            Either::Number(number) => number.to_string(),
            Either::Text(text) => text,
        }))
    }
}
