//! Errors that say that another attempt cannot help.

use std::error::Error;
use std::{fmt, io};

/// An error that a handler or a publisher returns when another attempt cannot help: the message is
/// put aside at once, and becomes a dead letter, however many attempts it would have.
///
/// ```
/// use hapax_message::GiveUp;
/// use std::error::Error;
///
/// fn parse(payload: &[u8]) -> Result<u32, Box<dyn Error + Send + Sync>> {
///     let text = std::str::from_utf8(payload).map_err(GiveUp::because)?;
///     Ok(text.parse().map_err(GiveUp::because)?)
/// }
///
/// assert_eq!(parse(b"17").unwrap(), 17);
/// assert!(parse(b"x").unwrap_err().is::<GiveUp>());
/// ```
///
/// It is found anywhere in the [chain of causes](causes) of what they return. The dead letter's
/// text is the whole error's. A relay does not take it for an outage of its broker.
#[derive(Debug)]
pub struct GiveUp {
    because: Box<dyn Error + Send + Sync>,
}

impl GiveUp {
    /// Returns an error with this cause: an error, or a text.
    pub fn because(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        GiveUp { because: cause.into() }
    }
}

/// Displays the cause: this wrapper has nothing to add to it.
impl fmt::Display for GiveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.because.fmt(f)
    }
}

impl Error for GiveUp {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.because.source()
    }
}

/// Returns an error and its [causes](Error::source), the outer ones first. The source of an
/// [`io::Error`] is that of the error that it wraps, so the wrapped error itself is among them,
/// too.
pub fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    let wrapped = |error: &'e (dyn Error + 'static)| -> Option<&'e (dyn Error + 'static)> {
        Some(error.downcast_ref::<io::Error>()?.get_ref()?)
    };
    let chain = std::iter::successors(Some(error), |&error| error.source());
    chain.flat_map(move |error| [Some(error), wrapped(error)]).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_behind_other_errors_and_says_what_its_cause_says() {
        let give_up = || GiveUp::because("no such address");
        assert_eq!(give_up().to_string(), "no such address");
        let is_hopeless = |error: &(dyn Error + 'static)| causes(error).any(|error| error.is::<GiveUp>());
        assert!(is_hopeless(&give_up()) && is_hopeless(&io::Error::other(give_up())));
        assert!(!is_hopeless(&io::Error::other("no such address")));
    }
}
