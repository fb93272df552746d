//! The errors of events.

use std::fmt;

/// The largest number of characters of a value that an error shows.
const MAX_SHOWN: usize = 64;

/// The rule that an event breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventError {
    /// A required attribute is missing or empty.
    Missing {
        /// The name of the attribute.
        attribute: &'static str,
    },
    /// An attribute has a value that it may not have, or a name that is none.
    Invalid {
        /// The name of the attribute, or `data`.
        attribute: String,
        /// A description of what belongs there.
        expected: &'static str,
        /// The beginning of what was there.
        got: String,
    },
    /// An attribute is there twice, with different values.
    Twice {
        /// The name of the attribute.
        attribute: String,
    },
    /// The message is an event in structured mode, by its content type.
    Format {
        /// The content type.
        content_type: String,
    },
}

impl EventError {
    pub(super) fn invalid(attribute: &str, expected: &'static str, got: &str) -> Self {
        EventError::Invalid { attribute: shown(attribute), expected, got: shown(got) }
    }

    pub(super) fn twice(attribute: &str) -> Self {
        EventError::Twice { attribute: shown(attribute) }
    }

    /// Returns the name of the attribute that is wrong, if it is one.
    pub fn attribute(&self) -> Option<&str> {
        match self {
            EventError::Missing { attribute } => Some(attribute),
            EventError::Invalid { attribute, .. } | EventError::Twice { attribute } => Some(attribute),
            EventError::Format { .. } => None,
        }
    }
}

fn shown(value: &str) -> String {
    value.chars().take(MAX_SHOWN).collect()
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventError::Missing { attribute } => {
                write!(f, "the event has no attribute `{attribute}`, or an empty one: CloudEvents 1.0 requires it")
            }
            EventError::Invalid { attribute, expected, got } => {
                write!(f, "the event's attribute `{attribute}` is {got:?}, expected {expected}")
            }
            EventError::Twice { attribute } => write!(f, "the event has the attribute `{attribute}` twice"),
            EventError::Format { content_type } => {
                write!(
                    f,
                    "the event is in structured mode, {content_type:?}, which is not read here; expected binary mode"
                )
            }
        }
    }
}

impl std::error::Error for EventError {}
